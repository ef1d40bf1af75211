/* Making room by moving: cards that are used in part, of which all users find a place elsewhere, on another card of the
 * node or on another node. Tried out on the fleet, one card after the other, and undone; only what leaves more cards free
 * than before is said. Then single slices that leave room for a larger one where they were.
 *
 * Where each goes is what the scheduler finds for it, with nothing held back: so it is what it will find when the pod is
 * made again. Controllers do that at once, while the old one ends and those before it in the plan do: so it is planned.
 * Not moved is who finds no place then, or takes a card that is free or is to be, and who would do so when the old one
 * is gone. So the first card of a plan becomes free in either case, and plans come to an end. Later ones may be taken by
 * others should the old ones be gone sooner, or the new ones come in another order.
 *
 * Those with least on them come first: that costs least, and who is made again finds the fuller cards better. Among equals
 * the last, since places go to the first. */
#include "sched/core_private.h"

#define CARD_USERS 16 /* a card with more is left alone */

/* A mark of the fleet undoes where it is; what was said of that to the wishes is undone by hand. */
struct moved {
	struct co_pod *pod;
	size_t card; /* that it leaves */
	struct rf_fleet_place at;
	uint64_t hold; /* there */
	bool out, in;  /* for the wishes: it is not where it was; it is there */
	uint32_t late; /* ... or at this node */
	const char *profile; /* a slice for which the card has room then; NULL: it is cleared */
	int64_t free_cards;
};

struct spot { /* a card with something on it */
	struct co_node *node;
	size_t card, users; /* 0: not all may be moved */
	int64_t bytes;
};

struct moves {
	struct rf_core *c;
	RF_VEC(struct spot) spots;
	RF_VEC(struct moved) all;
	size_t most;
	int64_t free_cards; /* once all are gone that are to go */
};

static bool has_moved(const struct moves *m, const struct co_pod *p)
{
	for (size_t i = 0; i < m->all.n; i++) {
		if (m->all.at[i].pod == p)
			return true;
	}
	return false;
}

/* Gangs stay where they are: one that loses a member for a while is no gang. */
static bool movable(const struct moves *m, const struct co_pod *p)
{
	const struct co_work *w = p->work;
	struct rf_workload_view v;

	if (p->state != CO_BOUND || p->hold == 0 || p->deleting || p->evicting || p->ended || p->daemon || p->pinned ||
	    p->group != NULL || w == NULL || w->w == NULL || w->queue == NULL || has_moved(m, p))
		return false;
	rf_workload_view(w->w, &v);
	return m->c->now - v.started_ms >= p->min_run;
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
static size_t users_of(struct moves *m, const struct co_node *n, size_t card, struct co_pod **ret, int64_t *ret_bytes)
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
		(in ? rf_wish_on : rf_wish_off)(m->c->wishes, v->pod->shape->wish, v->at.node);
	v->in = in;
}

static void forget_last(struct moves *m)
{
	struct moved *v = &m->all.at[m->all.n - 1];

	set_in(m, v, false);
	set_out(m, v, false);
	m->all.n--;
}

static bool is_on(const struct rf_fleet_place *at, const struct co_node *n, size_t card)
{
	for (size_t i = 0; i < at->n && at->node == n->handle; i++) {
		if (at->grants[i].card == card)
			return true;
	}
	return false;
}

static bool same_place(const struct rf_fleet_place *a, const struct rf_fleet_place *b)
{
	if (a->node != b->node || a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (a->grants[i].card != b->grants[i].card || a->grants[i].start != b->grants[i].start)
			return false;
	}
	return true;
}

/* Is that a card that one of the first n leaves? */
static bool is_left_by(const struct moves *m, size_t n, const struct rf_fleet_place *at)
{
	for (size_t i = 0; i < n; i++) {
		if (is_on(at, m->all.at[i].pod->seat, m->all.at[i].card))
			return true;
	}
	return false;
}

static bool is_left(const struct moves *m, const struct rf_fleet_place *at)
{
	return is_left_by(m, m->all.n, at);
}

static bool find(struct moves *m, const struct co_pod *p, struct rf_fleet_ask *ask, struct rf_fleet_place *at)
{
	return co_ask(m->c, p->shape, ~UINT64_C(0), ask) && co_find(m->c, p, ask, at);
}

/* To where it is placed beside all that is there, inside the mark. */
static bool move(struct moves *m, struct co_pod *p, size_t card)
{
	struct rf_fleet_ask ask;
	struct moved *v;
	struct rf_err err;

	rf_vec_push(&m->all, ((struct moved){ .pod = p, .card = card }));
	v = &m->all.at[m->all.n - 1];
	if (!find(m, p, &ask, &v->at) || rf_fleet_take(m->c->fleet, &ask, &v->at, false, &v->hold, &err) < 0)
		return false;
	set_in(m, v, true);
	return true;
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

static int64_t free_cards(const struct rf_core *c)
{
	struct rf_fleet_usage u;

	rf_fleet_usage(c->fleet, &u);
	return u.free_cards;
}

/* Does it take no card that is left, and none that is free? And where it was found before, if that counts (same)? */
static bool lands_well(struct moves *m, const struct moved *v, bool same, struct rf_fleet_place *at, uint64_t *ret_hold)
{
	int64_t before = free_cards(m->c);
	struct rf_fleet_ask ask;
	struct rf_err err;

	return find(m, v->pod, &ask, at) && (same ? same_place(at, &v->at) : !is_left(m, at)) &&
	       rf_fleet_take(m->c->fleet, &ask, at, false, ret_hold, &err) == 0 && free_cards(m->c) == before;
}

/* Beside the old one, and when that is gone. */
static bool comes_late(struct moves *m, struct moved *v, bool same)
{
	struct rf_fleet_place at RF_UNINITIALIZED;
	uint64_t hold;

	if (!lands_well(m, v, same, &at, &hold))
		return false;
	rf_assert(rf_fleet_lift(m->c->fleet, hold) && rf_fleet_lift(m->c->fleet, v->pod->hold));
	set_out(m, v, true);
	if (!lands_well(m, v, same, &at, &hold))
		return false;
	rf_wish_on(m->c->wishes, v->pod->shape->wish, at.node);
	v->late = at.node;
	return true;
}

/* Those since `had`, once more: now they are gone one after the other. How many more cards are free then; below 0: it goes
 * wrong. */
static int64_t come_late(struct moves *m, size_t had, bool same)
{
	int64_t before = free_cards(m->c);
	size_t mark = rf_fleet_mark(m->c->fleet);
	int64_t more;
	bool ok = true;

	for (size_t i = had; i < m->all.n; i++) {
		rf_assert(rf_fleet_lift(m->c->fleet, m->all.at[i].hold));
		set_in(m, &m->all.at[i], false);
		m->all.at[i].late = RF_FLEET_NONE;
	}
	for (size_t i = had; i < m->all.n && ok; i++)
		ok = comes_late(m, &m->all.at[i], same);
	more = ok ? free_cards(m->c) - before : -1;
	for (size_t i = had; i < m->all.n; i++) {
		struct moved *v = &m->all.at[i];

		if (v->late != RF_FLEET_NONE)
			rf_wish_off(m->c->wishes, v->pod->shape->wish, v->late);
		set_out(m, v, false);
		set_in(m, v, true);
	}
	rf_fleet_rollback(m->c->fleet, mark);
	return more;
}

/* Marks stay open: what was found before counts for what comes after. */
static void finish(struct moves *m, size_t had, size_t mark, int64_t more)
{
	if (more >= 0 && budgets_allow(m)) {
		rf_fleet_keep(m->c->fleet, mark);
		m->free_cards += more;
		for (size_t i = had; i < m->all.n; i++)
			m->all.at[i].free_cards = m->free_cards;
		return;
	}
	while (m->all.n > had)
		forget_last(m);
	rf_fleet_rollback(m->c->fleet, mark);
}

/* Does somebody leave it or go there already? Then it is to stay as it was said to be. */
static bool is_planned(const struct moves *m, const struct spot *s)
{
	for (size_t i = 0; i < m->all.n; i++) {
		const struct moved *v = &m->all.at[i];

		if ((v->pod->seat == s->node && v->card == s->card) || is_on(&v->at, s->node, s->card))
			return true;
	}
	return false;
}

static void clear_card(struct moves *m, const struct spot *s)
{
	struct co_pod *users[CARD_USERS];
	int64_t before, more = -1, bytes = 0;
	size_t many = users_of(m, s->node, s->card, users, &bytes), had = m->all.n, mark;
	bool ok = many > 0 && had + many <= m->most && !is_planned(m, s);

	if (!ok)
		return;
	before = free_cards(m->c);
	mark = rf_fleet_mark(m->c->fleet);
	for (size_t i = 0; i < many && ok; i++)
		ok = move(m, users[i], s->card) && !is_left(m, &m->all.at[had + i].at);
	if (ok && free_cards(m->c) == before)
		more = come_late(m, had, false);
	finish(m, had, mark, more > 0 ? more : -1);
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

static bool all_of_model(const struct co_node *n, const struct rf_fleet_place *at, uint8_t model)
{
	for (size_t i = 0; i < at->n; i++) {
		if (n->slots[at->grants[i].card].model != model)
			return false;
	}
	return true;
}

/* Of the profiles for which there is more room or less than before, is the largest one with more, half a card at least and
 * larger than what was moved? Then nothing like it can be gained by moving back. */
static const char *gained(const struct rf_core *c, const struct moved *v, const struct room *before, const struct room *after)
{
	const struct co_slot *s = &v->pod->seat->slots[v->card];
	int p = RF_FLEET_PROFILES_MAX - 1;

	while (p >= 0 && before->n[p] == after->n[p])
		p--;
	if (p < 0 || after->n[p] < before->n[p] || profile_of(c, s, p)->memory_slices < RF_MIG_MEMORY_SLICES / 2)
		return NULL;
	for (size_t i = 0; i < v->at.n; i++) {
		if (profile_of(c, s, v->at.grants[i].profile)->memory_slices >= profile_of(c, s, p)->memory_slices)
			return NULL;
	}
	return profile_of(c, s, p)->name;
}

/* As when the old one is gone. */
static bool widens(struct moves *m, struct moved *v)
{
	const struct co_node *from = v->pod->seat, *to = m->c->by_handle.at[v->at.node];
	uint8_t model = from->slots[v->card].model;
	struct rf_fleet *f = m->c->fleet;
	struct room before, after;

	if (!all_of_model(to, &v->at, model))
		return false;
	rf_assert(rf_fleet_lift(f, v->hold));
	before = room_of(m->c, from, to, model);
	rf_assert(rf_fleet_unlift(f, v->hold) && rf_fleet_lift(f, v->pod->hold));
	after = room_of(m->c, from, to, model);
	rf_assert(rf_fleet_unlift(f, v->pod->hold));
	v->profile = gained(m->c, v, &before, &after);
	return v->profile != NULL;
}

static void widen(struct moves *m, struct co_pod *p, size_t card)
{
	size_t had = m->all.n, mark;
	int64_t before, more = -1;

	if (had == m->most || !movable(m, p))
		return;
	before = free_cards(m->c);
	mark = rf_fleet_mark(m->c->fleet);
	if (move(m, p, card) && free_cards(m->c) == before && !is_left_by(m, had, &m->all.at[had].at) && widens(m, &m->all.at[had]))
		more = come_late(m, had, true);
	finish(m, had, mark, more);
}

static void widen_card(struct moves *m, const struct spot *s)
{
	struct co_pod *users[CARD_USERS];
	int64_t bytes = 0;
	size_t many = 0;

	for (struct co_pod *p = s->node->pods_here; p != NULL && many < CARD_USERS; p = p->seat_next) {
		if (uses(m->c, p, s->card, &bytes) == 1u << RF_FLEET_SLICE)
			add_user(users, many++, p);
	}
	for (size_t i = 0; i < many && !is_planned(m, s); i++)
		widen(m, users[i], s->card);
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

static void find_spots(struct moves *m, struct co_node *n)
{
	struct co_pod *users[CARD_USERS];

	if (n == NULL || !n->there || spreads(m->c, n))
		return;
	for (size_t i = 0; i < n->n_slots; i++) {
		struct spot s = { .node = n, .card = i };

		s.users = users_of(m, n, i, users, &s.bytes);
		if (s.bytes > 0)
			rf_vec_push(&m->spots, s);
	}
}

/* What is moved may make room for others. */
static void try_all(struct moves *m, void (*try)(struct moves *m, const struct spot *s))
{
	size_t had;

	do {
		had = m->all.n;
		for (size_t i = 0; i < m->spots.n; i++)
			try(m, &m->spots.at[i]);
	} while (m->all.n > had);
}

/* "gpu-1", or all that it has there. */
static struct rf_str cards_of(const struct co_node *n, const struct rf_fleet_place *at, struct rf_arena *a)
{
	struct rf_str ret = RF_STR_EMPTY;
	uint64_t seen = 0;

	for (size_t i = 0; i < at->n; i++) {
		if (seen >> at->grants[i].card & 1)
			continue;
		seen |= UINT64_C(1) << at->grants[i].card;
		ret = rf_arena_printf(a, "%.*s%s%s", RF_STR(ret), ret.n > 0 ? "," : "", n->slots[at->grants[i].card].name);
	}
	return ret;
}

static struct rf_core_move move_of(const struct moves *m, struct rf_arena *a, const struct moved *v)
{
	const struct co_node *to = m->c->by_handle.at[v->at.node];
	const struct co_pod *p = v->pod;

	return (struct rf_core_move){ .uid = rf_arena_str(a, p->uid),
				      .ns = rf_arena_str(a, rf_str(p->ns->name)),
				      .name = rf_arena_str(a, p->name),
				      .from = rf_arena_str(a, rf_str(p->seat->name)),
				      .to = rf_arena_str(a, rf_str(to->name)),
				      .device = rf_arena_str(a, rf_str(p->seat->slots[v->card].name)),
				      .to_device = cards_of(to, &v->at, a),
				      .profile = v->profile != NULL ? rf_arena_str(a, rf_str(v->profile)) : RF_STR_EMPTY,
				      .free_cards = v->free_cards };
}

size_t rf_core_defragment(struct rf_core *c, int64_t now_ms, size_t most, struct rf_arena *a, struct rf_core_move **ret)
{
	struct moves m = { .c = c, .most = most };
	size_t mark, n;

	c->now = RF_MAX(c->now, now_ms);
	co_look(c);
	m.free_cards = free_cards(c);
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
	return n;
}
