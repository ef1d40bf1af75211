/* Making room by moving: cards that are used in part, of which all users find a place elsewhere. Tried out on the
 * fleet, one card after the other, and undone; only what leaves more cards free than before is said. */
#include "sched/core_private.h"

#define CARD_USERS 16 /* a card with more is left alone */

struct moved {
	struct co_pod *pod;
	struct co_node *to;
};

struct moves {
	struct rf_core *c;
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

static bool uses(const struct rf_core *c, const struct co_pod *p, size_t card, bool *ret_whole)
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
	}
	return any;
}

/* Those who share a card, if all of them can be moved; 0: not so. What a pod left behind cannot. */
static size_t users_of(struct moves *m, const struct co_node *n, size_t card, struct co_pod **ret)
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
		if (!uses(m->c, p, card, &whole))
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
	rf_vec_push(&m->all, ((struct moved){ p, to }));
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
	size_t many = users_of(m, n, card, users), had = m->all.n, mark;
	int64_t before = free_cards(m->c);
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
		return;
	}
	while (m->all.n > had)
		forget_last(m);
	rf_fleet_rollback(m->c->fleet, mark);
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct co_node *const *)a)->name, (*(struct co_node *const *)b)->name);
}

size_t rf_core_defragment(struct rf_core *c, int64_t now_ms, size_t most, struct rf_arena *a, struct rf_core_move **ret)
{
	struct moves m = { .c = c, .most = most };
	RF_VEC(struct co_node *) nodes = RF_VEC_INIT;
	size_t mark, n;

	c->now = RF_MAX(c->now, now_ms);
	co_look(c);
	for (size_t i = 0; i < c->by_handle.n; i++) {
		if (c->by_handle.at[i] != NULL && c->by_handle.at[i]->there)
			rf_vec_push(&nodes, c->by_handle.at[i]);
	}
	if (nodes.n > 1)
		qsort(nodes.at, nodes.n, sizeof(*nodes.at), by_name);
	mark = rf_fleet_mark(c->fleet);
	for (size_t i = 0; i < nodes.n; i++) {
		for (size_t k = 0; k < nodes.at[i]->n_slots; k++)
			clear_card(&m, nodes.at[i], k);
	}
	n = m.all.n;
	*ret = rf_arena_array(a, struct rf_core_move, RF_MAX(n, 1));
	for (size_t i = 0; i < n; i++) {
		const struct co_pod *p = m.all.at[i].pod;

		(*ret)[i] = (struct rf_core_move){ .uid = rf_arena_str(a, p->uid),
						   .ns = rf_arena_str(a, rf_str(p->ns->name)),
						   .name = rf_arena_str(a, p->name),
						   .from = rf_arena_str(a, rf_str(p->seat->name)),
						   .to = rf_arena_str(a, rf_str(m.all.at[i].to->name)) };
	}
	while (m.all.n > 0)
		forget_last(&m);
	rf_fleet_rollback(c->fleet, mark);
	rf_vec_done(&m.all);
	rf_vec_done(&nodes);
	return n;
}
