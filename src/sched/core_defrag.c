/* Making room by moving: cards that are used in part, of which all users find a place elsewhere, on another card of the
 * node or on another node. Tried out on the fleet, one card after the other, and undone. Then single slices that leave room
 * for a larger one where they were.
 *
 * Where each goes is what the scheduler finds for it, with nothing held back: so it is what it will find when the pod is
 * made again. Controllers do that at once, while the old ones end: so it is planned. Moved is only who then goes to a card
 * that is in use and that nobody leaves; who does so also if it comes before all others of the plan; and also if the old
 * one is gone by then, and those before it from its card. So if all come in this order before the old ones are gone, every
 * card is free in the end that is cleared, and plans come to an end. Not all other orders are tried: some cards may not
 * become free then, and that plans come to an end is known from trials only (test_defrag.c).
 *
 * Those with least on them come first: that costs least, and who is made again finds the fuller cards better. Among equals
 * the last, since places go to the first. */
#include "sched/core_private.h"

#define CARD_USERS 16 /* a card with more is left alone */

/* A mark of the fleet undoes where it is; what was said of that to the wishes is undone by hand. */
struct moved {
	struct co_pod *pod;
	size_t card; /* that it leaves */
	uint32_t to;
	struct rf_fleet_grant at; /* the first, if it has several of the card */
	uint64_t hold; /* there */
	bool out, in;  /* for the wishes: it is not where it was; it is there */
	const char *profile; /* a slice for which the card has room then; NULL: it is cleared */
	int64_t free_cards;
};

struct spot { /* a card with something on it */
	struct co_node *node;
	size_t card, users; /* 0: not all may be moved */
	int64_t bytes;
};

struct cards { /* of a node, a bit each */
	uint64_t stay; /* in use, and nobody leaves them */
	uint64_t come; /* somebody goes there */
};
_Static_assert(RF_FLEET_CARDS_MAX <= 64, "a bit for each card");

struct moves {
	struct rf_core *c;
	RF_VEC(struct spot) spots;
	RF_VEC(struct moved) all;
	struct cards *cards; /* by the node's handle */
	size_t most;
	int64_t free_cards; /* once all are gone that are to go */
};

/* Would it have to wait for its quota until the old one is gone, behind others of its queue that wait for it already? */
static bool loses_turn(struct rf_core *c, const struct co_pod *p, const struct rf_queue *q)
{
	struct co_charge ch = { .n = 0 };
	struct rf_queue_view v;

	co_charge_held(c, p, &ch);
	for (size_t i = 0; i < ch.n; i++) {
		rf_queue_view(c->queues, q, ch.ask[i].resource, c->now, &v);
		if (v.wanted > 0 && rf_queues_room(c->queues, q, ch.ask[i].resource, true, c->now) < ch.ask[i].amount)
			return true;
	}
	return false;
}

static bool on_one_card(const struct rf_fleet_grant *g, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (g[i].card != g[0].card)
			return false;
	}
	return n > 0;
}

/* Gangs stay where they are: one that loses a member for a while is no gang. So does who has parts of several cards: the
 * others would be left by chance. */
static bool movable(const struct moves *m, const struct co_pod *p)
{
	const struct co_work *w = p->work;
	const struct rf_fleet_grant *g;
	struct rf_workload_view v;
	uint32_t node;
	size_t n = 0;

	if (p->state != CO_BOUND || p->hold == 0 || p->deleting || p->evicting || p->ended || p->daemon || p->pinned ||
	    p->group != NULL || w == NULL || w->w == NULL || w->queue == NULL)
		return false;
	g = rf_fleet_hold(m->c->fleet, p->hold, &node, &n);
	if (g == NULL || !on_one_card(g, n))
		return false;
	rf_workload_view(w->w, &v);
	return m->c->now - v.started_ms >= p->min_run && !loses_turn(m->c, p, v.queue);
}

static const struct rf_mig_profile *profile_of(const struct rf_core *c, const struct co_slot *s, int profile)
{
	const struct rf_gpu_model *gpu = c->models[s->model].gpu;

	return gpu != NULL && profile >= 0 && (size_t)profile < gpu->n_mig ? &gpu->mig[profile] : NULL;
}

static int64_t size_of(const struct rf_core *c, const struct co_slot *s, const struct rf_fleet_grant *g)
{
	const struct rf_mig_profile *p = g->kind == RF_FLEET_SLICE ? profile_of(c, s, g->profile) : NULL;

	return p != NULL ? s->memory / RF_MIG_MEMORY_SLICES * p->memory_slices : g->bytes;
}

/* What it has of the card: as a bit each kind, 0: nothing. */
static unsigned uses(const struct rf_core *c, const struct co_pod *p, size_t card, int64_t *bytes)
{
	const struct rf_fleet_grant *g;
	unsigned kinds = 0;
	uint32_t node;
	size_t n = 0;

	g = p->hold != 0 ? rf_fleet_hold(c->fleet, p->hold, &node, &n) : NULL;
	for (size_t i = 0; g != NULL && i < n; i++) {
		if (g[i].card != card)
			continue;
		kinds |= 1u << g[i].kind;
		*bytes += size_of(c, &p->seat->slots[card], &g[i]);
	}
	return kinds;
}

/* In an order that does not depend on when they were told of. */
static void add_user(struct co_pod **users, size_t n, struct co_pod *p)
{
	for (; n > 0 && co_before(p, users[n - 1]); n--)
		users[n] = users[n - 1];
	users[n] = p;
}

/* Those who share a card, if all of them can be moved; 0: not so. What a pod left behind cannot. */
static size_t users_of(const struct moves *m, const struct co_node *n, size_t card, struct co_pod **ret, int64_t *ret_bytes)
{
	bool stays = false;
	size_t users = 0;

	for (const struct co_claim *k = n->claims_here; k != NULL; k = k->node_next) {
		for (size_t i = 0; k->hold != 0 && i < k->n; i++)
			stays = stays || k->grants[i].slot == card;
	}
	for (struct co_pod *p = n->pods_here; p != NULL; p = p->seat_next) {
		unsigned kinds = uses(m->c, p, card, ret_bytes);

		if (kinds == 0)
			continue;
		stays = stays || (kinds >> RF_FLEET_WHOLE & 1) || users == CARD_USERS || !movable(m, p);
		if (!stays)
			add_user(ret, users++, p);
	}
	return stays ? 0 : users;
}

static void set_out(struct moves *m, struct moved *v, bool out)
{
	if (v->out != out && v->pod->wished)
		(out ? rf_wish_off : rf_wish_on)(m->c->wishes, v->pod->shape->wish, v->pod->seat->handle);
	v->out = out;
}

static void set_in(struct moves *m, struct moved *v, bool in)
{
	if (v->in != in)
		(in ? rf_wish_on : rf_wish_off)(m->c->wishes, v->pod->shape->wish, v->to);
	v->in = in;
}

static void forget_last(struct moves *m)
{
	struct moved *v = &m->all.at[m->all.n - 1];

	set_in(m, v, false);
	set_out(m, v, false);
	m->all.n--;
}

/* A card that is in use and that nobody leaves, if that is where it is placed now. */
static bool find(struct moves *m, const struct co_pod *p, struct rf_fleet_ask *ask, struct rf_fleet_place *at)
{
	return co_ask(m->c, p->shape, ~UINT64_C(0), ask) && co_find(m->c, p, ask, at) && on_one_card(at->grants, at->n) &&
	       (m->cards[at->node].stay >> at->grants[0].card & 1);
}

/* To where it is placed beside all that is there, inside the mark. */
static bool move(struct moves *m, struct co_pod *p, size_t card)
{
	struct rf_fleet_place at RF_UNINITIALIZED;
	struct moved v = { .pod = p, .card = card };
	struct rf_fleet_ask ask;
	struct rf_err err;

	if (!find(m, p, &ask, &at) || rf_fleet_take(m->c->fleet, &ask, &at, false, &v.hold, &err) < 0)
		return false;
	v.to = at.node;
	v.at = at.grants[0];
	set_in(m, &v, true);
	rf_vec_push(&m->all, v);
	return true;
}

/* same: a single slice, to where it was found before. */
static bool finds(struct moves *m, const struct moved *v, bool same)
{
	struct rf_fleet_place at RF_UNINITIALIZED;
	struct rf_fleet_ask ask;

	if (!find(m, v->pod, &ask, &at))
		return false;
	return !same || (at.n == 1 && at.node == v->to && at.grants[0].card == v->at.card && at.grants[0].start == v->at.start);
}

/* As if those since this one had not come; what they said to the wishes is said again by bring_back. */
static size_t hold_off(struct moves *m, size_t from)
{
	size_t mark = rf_fleet_mark(m->c->fleet);

	for (size_t i = from; i < m->all.n; i++) {
		rf_assert(rf_fleet_lift(m->c->fleet, m->all.at[i].hold));
		set_in(m, &m->all.at[i], false);
	}
	return mark;
}

static void bring_back(struct moves *m, size_t from, size_t mark)
{
	for (size_t i = from; i < m->all.n; i++) {
		set_out(m, &m->all.at[i], false);
		set_in(m, &m->all.at[i], true);
	}
	rf_fleet_rollback(m->c->fleet, mark);
}

static void old_goes(struct moves *m, size_t i)
{
	rf_assert(rf_fleet_lift(m->c->fleet, m->all.at[i].pod->hold));
	set_out(m, &m->all.at[i], true);
}

/* Each as if it came before all others of the plan. */
static bool come_first(struct moves *m, size_t had, bool same)
{
	size_t mark = hold_off(m, 0);
	bool ok = true;

	for (size_t i = had; i < m->all.n && ok; i++)
		ok = finds(m, &m->all.at[i], same);
	bring_back(m, 0, mark);
	return ok;
}

/* One after the other, beside the old one and when that is gone. */
static bool come_late(struct moves *m, size_t had, bool same)
{
	size_t n = m->all.n, mark = hold_off(m, had);
	bool ok = true;

	for (size_t i = had; i < n && ok; i++) {
		ok = finds(m, &m->all.at[i], same);
		old_goes(m, i);
		ok = ok && finds(m, &m->all.at[i], same) && move(m, m->all.at[i].pod, m->all.at[i].card);
	}
	while (m->all.n > n)
		forget_last(m);
	bring_back(m, had, mark);
	return ok;
}

static bool budgets_allow(struct moves *m)
{
	struct rf_evict_member *v = rf_alloc(RF_MAX(m->all.n, 1) * sizeof(*v));
	const struct rf_evict_member **go = rf_alloc(RF_MAX(m->all.n, 1) * sizeof(*go));
	bool ok;

	for (size_t i = 0; i < m->all.n; i++) {
		v[i] = (struct rf_evict_member){ m->all.at[i].pod->hold, m->all.at[i].pod, false };
		go[i] = &v[i];
	}
	ok = co_may_go(m->c, go, m->all.n);
	free(go);
	free(v);
	return ok;
}

/* Marks stay open: what was found before counts for what comes after. */
static void finish(struct moves *m, const struct spot *s, size_t had, size_t mark, bool ok)
{
	struct cards *k = &m->cards[s->node->handle];

	if (ok && budgets_allow(m)) {
		rf_fleet_keep(m->c->fleet, mark);
		k->stay &= ~(UINT64_C(1) << s->card);
		m->free_cards += m->all.at[had].profile == NULL;
		for (size_t i = had; i < m->all.n; i++) {
			m->all.at[i].free_cards = m->free_cards;
			m->cards[m->all.at[i].to].come |= UINT64_C(1) << m->all.at[i].at.card;
		}
		return;
	}
	while (m->all.n > had)
		forget_last(m);
	rf_fleet_rollback(m->c->fleet, mark);
	k->stay |= UINT64_C(1) << s->card;
}

/* Does somebody leave it or go there already? Then it is to stay as it was said to be. */
static bool is_planned(const struct moves *m, const struct spot *s)
{
	const struct cards *k = &m->cards[s->node->handle];

	return ((~k->stay | k->come) >> s->card & 1) != 0;
}

static void clear_card(struct moves *m, const struct spot *s)
{
	struct co_pod *users[CARD_USERS];
	size_t had = m->all.n, many, mark;
	int64_t bytes = 0;
	bool ok = true;

	if (s->users == 0 || s->users > m->most - had || is_planned(m, s))
		return;
	many = users_of(m, s->node, s->card, users, &bytes);
	mark = rf_fleet_mark(m->c->fleet);
	m->cards[s->node->handle].stay &= ~(UINT64_C(1) << s->card);
	for (size_t i = 0; i < many && ok; i++)
		ok = move(m, users[i], s->card);
	finish(m, s, had, mark, ok && come_first(m, had, false) && come_late(m, had, false));
}

/* --- larger slices ------------------------------------------------------------------------------ */

struct room { /* for slices of each profile, by index: the later are the larger */
	size_t n[RF_FLEET_PROFILES_MAX];
};

/* On cards of one model. */
static void add_room(const struct rf_core *c, const struct co_node *n, uint8_t model, struct room *r)
{
	for (size_t i = 0; i < n->n_slots; i++) {
		for (unsigned p = 0; p < RF_FLEET_PROFILES_MAX && n->slots[i].model == model; p++)
			r->n[p] += rf_fleet_slices_on(c->fleet, n->handle, (unsigned)i, p);
	}
}

static struct room room_of(const struct rf_core *c, const struct co_node *a, const struct co_node *b, uint8_t model)
{
	struct room r = { 0 };

	add_room(c, a, model, &r);
	if (a != b)
		add_room(c, b, model, &r);
	return r;
}

/* Of the profiles for which there is more room or less than before, is the largest one with more, half a card at least and
 * larger than what was moved? Then nothing like it can be gained by moving back. */
static const char *gained(const struct rf_core *c, const struct moved *v, const struct room *before, const struct room *after)
{
	const struct co_slot *s = &v->pod->seat->slots[v->card];
	const struct rf_mig_profile *largest;
	int p = RF_FLEET_PROFILES_MAX - 1;

	while (p >= 0 && before->n[p] == after->n[p])
		p--;
	if (p < 0 || after->n[p] < before->n[p])
		return NULL;
	largest = profile_of(c, s, p);
	if (largest->memory_slices < RF_MIG_MEMORY_SLICES / 2 ||
	    largest->memory_slices <= profile_of(c, s, v->at.profile)->memory_slices)
		return NULL;
	return largest->name;
}

/* As when the old one is gone. */
static bool widens(struct moves *m, struct moved *v)
{
	const struct co_node *from = v->pod->seat, *to = m->c->by_handle.at[v->to];
	uint8_t model = from->slots[v->card].model;
	struct rf_fleet *f = m->c->fleet;
	struct room before, after;

	if (to->slots[v->at.card].model != model)
		return false;
	rf_assert(rf_fleet_lift(f, v->hold));
	before = room_of(m->c, from, to, model);
	rf_assert(rf_fleet_unlift(f, v->hold) && rf_fleet_lift(f, v->pod->hold));
	after = room_of(m->c, from, to, model);
	rf_assert(rf_fleet_unlift(f, v->pod->hold));
	v->profile = gained(m->c, v, &before, &after);
	return v->profile != NULL;
}

static void widen(struct moves *m, const struct spot *s, struct co_pod *p)
{
	size_t had = m->all.n, mark;

	if (had == m->most || !movable(m, p))
		return;
	mark = rf_fleet_mark(m->c->fleet);
	finish(m, s, had, mark, move(m, p, s->card) && widens(m, &m->all.at[had]) && come_first(m, had, true) &&
					come_late(m, had, true));
}

static void widen_card(struct moves *m, const struct spot *s)
{
	struct co_pod *users[CARD_USERS];
	int64_t bytes = 0;
	size_t many = 0;

	if (s->users == 1)
		return; /* it would be cleared, and was not */
	for (struct co_pod *p = s->node->pods_here; p != NULL && many < CARD_USERS; p = p->seat_next) {
		if (uses(m->c, p, s->card, &bytes) == 1u << RF_FLEET_SLICE)
			add_user(users, many++, p);
	}
	for (size_t i = 0; i < many && !is_planned(m, s); i++)
		widen(m, s, users[i]);
}

/* --- all of it ---------------------------------------------------------------------------------- */

/* What is taken from such a node is spread over the empty ones again. */
static bool spreads(const struct rf_core *c, const struct co_node *n)
{
	return n->pool != NULL && (uintptr_t)rf_map_get(&c->pools, rf_str(n->pool)) == RF_SCHED_SPREAD + 1;
}

static int by_load(const void *pa, const void *pb)
{
	const struct spot *a = pa, *b = pb;

	if (a->users != b->users)
		return a->users < b->users ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	if (a->node != b->node)
		return strcmp(b->node->name, a->node->name);
	return a->card > b->card ? -1 : 1;
}

/* Nothing is won where nobody is placed. */
static void find_spots(struct moves *m, struct co_node *n)
{
	struct co_pod *users[CARD_USERS];

	if (n == NULL || !n->there)
		return;
	for (size_t i = 0; i < n->n_slots; i++) {
		struct spot s = { .node = n, .card = i };

		s.users = users_of(m, n, i, users, &s.bytes);
		if (s.bytes == 0)
			continue;
		m->cards[n->handle].stay |= UINT64_C(1) << i;
		if (!n->cordoned && !spreads(m->c, n) && n->slots[i].there && n->slots[i].healthy)
			rf_vec_push(&m->spots, s);
	}
}

static void try_all(struct moves *m, void (*try)(struct moves *m, const struct spot *s))
{
	for (size_t i = 0; i < m->spots.n; i++)
		try(m, &m->spots.at[i]);
}

static struct rf_core_move move_of(const struct moves *m, struct rf_arena *a, const struct moved *v)
{
	const struct co_node *to = m->c->by_handle.at[v->to];
	const struct co_pod *p = v->pod;

	return (struct rf_core_move){ .uid = rf_arena_str(a, p->uid),
				      .ns = rf_arena_str(a, rf_str(p->ns->name)),
				      .name = rf_arena_str(a, p->name),
				      .from = rf_arena_str(a, rf_str(p->seat->name)),
				      .to = rf_arena_str(a, rf_str(to->name)),
				      .device = rf_arena_str(a, rf_str(p->seat->slots[v->card].name)),
				      .to_device = rf_arena_str(a, rf_str(to->slots[v->at.card].name)),
				      .profile = v->profile != NULL ? rf_arena_str(a, rf_str(v->profile)) : RF_STR_EMPTY,
				      .free_cards = v->free_cards };
}

size_t rf_core_defragment(struct rf_core *c, int64_t now_ms, size_t most, struct rf_arena *a, struct rf_core_move **ret)
{
	struct moves m = { .c = c, .most = most };
	struct rf_fleet_usage u;
	size_t mark, n;

	c->now = RF_MAX(c->now, now_ms);
	co_look(c);
	rf_fleet_usage(c->fleet, &u);
	m.free_cards = u.free_cards;
	m.cards = rf_alloc(RF_MAX(c->by_handle.n, (size_t)1) * sizeof(*m.cards));
	for (size_t i = 0; i < c->by_handle.n; i++)
		find_spots(&m, c->by_handle.at[i]);
	if (m.spots.n > 1)
		qsort(m.spots.at, m.spots.n, sizeof(*m.spots.at), by_load);
	mark = rf_fleet_mark(c->fleet);
	try_all(&m, clear_card);
	try_all(&m, widen_card);
	n = m.all.n;
	*ret = rf_arena_array(a, struct rf_core_move, RF_MAX(n, 1));
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = move_of(&m, a, &m.all.at[i]);
	while (m.all.n > 0)
		forget_last(&m);
	rf_fleet_rollback(c->fleet, mark);
	rf_vec_done(&m.all);
	rf_vec_done(&m.spots);
	free(m.cards);
	return n;
}
