/* Making room by moving: cards that are used in part, of which all users find a place elsewhere. Tried out on the
 * fleet, one card after the other, and undone; only what leaves more cards free than before is said.
 *
 * Those with least on them come first: that costs least, and who is made again while the one before it still goes finds
 * the fuller cards better. Among equals the last, since places go to the first. */
#include "sched/core_private.h"

#define CARD_USERS 16 /* a card with more is left alone */

struct moved {
	struct co_pod *pod;
	struct co_node *to;
	size_t card; /* that is cleared by it */
	int64_t free_cards;
};

struct spot { /* a card that may be cleared, and what is on it */
	struct co_node *node;
	size_t card, users;
	int64_t bytes;
};

struct moves {
	struct rf_core *c;
	RF_VEC(struct spot) spots;
	RF_VEC(struct moved) all;
	size_t most;
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

static bool uses(const struct rf_core *c, const struct co_pod *p, size_t card, bool *ret_whole, int64_t *bytes)
{
	const struct rf_fleet_grant *g;
	bool any = false;
	uint32_t node;
	size_t n = 0;

	g = p->hold != 0 ? rf_fleet_hold(c->fleet, p->hold, &node, &n) : NULL;
	for (size_t i = 0; g != NULL && i < n; i++) {
		if (g[i].card != card)
			continue;
		any = true;
		*ret_whole = *ret_whole || g[i].kind == RF_FLEET_WHOLE;
		*bytes += g[i].bytes;
	}
	return any;
}

/* Those who share a card, if all of them can be moved; 0: not so. What a pod left behind cannot. */
static size_t users_of(struct moves *m, const struct co_node *n, size_t card, struct co_pod **ret, int64_t *ret_bytes)
{
	bool whole = false;
	size_t users = 0;

	for (const struct co_claim *k = n->claims_here; k != NULL; k = k->node_next) {
		for (size_t i = 0; k->hold != 0 && i < k->n; i++) {
			if (k->grants[i].slot == card)
				return 0;
		}
	}
	for (struct co_pod *p = n->pods_here; p != NULL; p = p->seat_next) {
		if (!uses(m->c, p, card, &whole, ret_bytes))
			continue;
		if (whole || users == CARD_USERS || !movable(m, p))
			return 0;
		ret[users++] = p;
	}
	return users;
}

static void note(struct moves *m, struct co_pod *p, struct co_node *to)
{
	rf_wish_on(m->c->wishes, p->shape->wish, to->handle);
	rf_vec_push(&m->all, ((struct moved){ .pod = p, .to = to }));
}

static void forget_last(struct moves *m)
{
	struct moved *v = &m->all.at[--m->all.n];

	rf_wish_off(m->c->wishes, v->pod->shape->wish, v->to->handle);
	if (v->pod->wished)
		rf_wish_on(m->c->wishes, v->pod->shape->wish, v->pod->seat->handle);
}

/* To another node, inside the mark. */
static bool move(struct moves *m, struct co_pod *p)
{
	struct rf_core *c = m->c;
	struct rf_fleet_place at RF_UNINITIALIZED;
	struct rf_fleet_ask ask;
	struct rf_err err;
	uint64_t hold;

	if (!co_ask(c, p->shape, ~UINT64_C(0), &ask) || !rf_fleet_lift(c->fleet, p->hold))
		return false;
	if (p->wished)
		rf_wish_off(c->wishes, p->shape->wish, p->seat->handle);
	ask.class = rf_wish_class(c->wishes, p->shape->wish, false);
	if (!rf_fleet_find(c->fleet, &ask, &at) || rf_fleet_take(c->fleet, &ask, &at, false, &hold, &err) < 0) {
		if (p->wished)
			rf_wish_on(c->wishes, p->shape->wish, p->seat->handle);
		return false;
	}
	note(m, p, c->by_handle.at[at.node]);
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

/* Marks stay open: what was found before counts for what comes after. */
static void clear_card(struct moves *m, struct co_node *n, size_t card)
{
	struct co_pod *users[CARD_USERS];
	int64_t before = free_cards(m->c), bytes = 0;
	size_t many = users_of(m, n, card, users, &bytes), had = m->all.n, mark;
	bool ok = many > 0 && had + many <= m->most;

	if (!ok)
		return;
	mark = rf_fleet_mark(m->c->fleet);
	rf_fleet_set_cordoned(m->c->fleet, n->handle, true);
	for (size_t i = 0; i < many && ok; i++)
		ok = move(m, users[i]);
	rf_fleet_set_cordoned(m->c->fleet, n->handle, n->cordoned);
	if (ok && free_cards(m->c) > before && budgets_allow(m)) {
		rf_fleet_keep(m->c->fleet, mark);
		for (size_t i = had; i < m->all.n; i++) {
			m->all.at[i].card = card;
			m->all.at[i].free_cards = free_cards(m->c);
		}
		return;
	}
	while (m->all.n > had)
		forget_last(m);
	rf_fleet_rollback(m->c->fleet, mark);
}

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
		if (s.users > 0)
			rf_vec_push(&m->spots, s);
	}
}

size_t rf_core_defragment(struct rf_core *c, int64_t now_ms, size_t most, struct rf_arena *a, struct rf_core_move **ret)
{
	struct moves m = { .c = c, .most = most };
	size_t mark, n;

	c->now = RF_MAX(c->now, now_ms);
	co_look(c);
	for (size_t i = 0; i < c->by_handle.n; i++)
		find_spots(&m, c->by_handle.at[i]);
	if (m.spots.n > 1)
		qsort(m.spots.at, m.spots.n, sizeof(*m.spots.at), by_load);
	mark = rf_fleet_mark(c->fleet);
	for (size_t i = 0; i < m.spots.n; i++)
		clear_card(&m, m.spots.at[i].node, m.spots.at[i].card);
	n = m.all.n;
	*ret = rf_arena_array(a, struct rf_core_move, RF_MAX(n, 1));
	for (size_t i = 0; i < n; i++) {
		const struct co_pod *p = m.all.at[i].pod;

		(*ret)[i] = (struct rf_core_move){ .uid = rf_arena_str(a, p->uid),
						   .ns = rf_arena_str(a, rf_str(p->ns->name)),
						   .name = rf_arena_str(a, p->name),
						   .from = rf_arena_str(a, rf_str(p->seat->name)),
						   .to = rf_arena_str(a, rf_str(m.all.at[i].to->name)),
						   .device = rf_arena_str(
							   a, rf_str(p->seat->slots[m.all.at[i].card].name)),
						   .free_cards = m.all.at[i].free_cards };
	}
	while (m.all.n > 0)
		forget_last(&m);
	rf_fleet_rollback(c->fleet, mark);
	rf_vec_done(&m.all);
	rf_vec_done(&m.spots);
	return n;
}
