/* Looking ahead: the queues say who is reserved for and when enough has ended (queue.h); here it is said where. The
 * nodes that a workload will have are kept for it from then on. Others may be there only if they end before its time
 * comes, or can be stopped at any time and are the first to go then, or if it still fits beside them.
 *
 * So its date only comes closer: nothing new is in its way, and what is there ends by then. It starts sooner wherever
 * it fits. */
#include "sched/core_private.h"

#define EVERY_MS 1000  /* looked ahead no more often */
#define FAR 64	       /* nor more often than in this part of the time to the next date */
#define FAR_MS 600000  /* but that at least */

/* --- who may be there --------------------------------------------------------------------------- */

static bool reserved(const struct rf_core *c, const struct co_work *w)
{
	int64_t start;

	return w->w != NULL && rf_workload_reserved(c->queues, w->w, &start);
}

uint16_t co_ahead_may(struct rf_core *c, const struct co_work *w)
{
	struct rf_workload_view v;
	unsigned may = 0;

	if (c->n_keeps == 0)
		return 0;
	if (w->w == NULL || w->first->shape->system)
		return UINT16_MAX;
	rf_workload_view(w->w, &v);
	for (size_t i = 0; i < RF_COUNT(c->keeps); i++) {
		const struct co_keep *k = &c->keeps[i];

		if (k->work == NULL)
			continue;
		if (k->work == w || (v.run_limit_ms > 0 && c->now + v.run_limit_ms <= k->start) ||
		    (c->past == CO_PAST_STOPPED && v.stoppable) ||
		    (c->past == CO_PAST_BESIDE && (k->partial || w->first->shape->form->n_parts == 0)))
			may |= 1u << i;
	}
	return (uint16_t)may;
}

bool co_ahead_due(const struct rf_core *c, const struct co_work *w)
{
	int64_t start;

	return w->w != NULL && rf_workload_reserved(c->queues, w->w, &start) && start <= c->now;
}

bool co_ahead_try(const struct rf_core *c, const struct co_work *w, enum co_past past)
{
	bool any = c->n_keeps > 0 && w->first->shape->form->n_parts == 0;
	struct rf_workload_view v;

	if (c->n_keeps == 0 || w->w == NULL || past == CO_PAST_NEVER)
		return false;
	rf_workload_view(w->w, &v);
	if (past == CO_PAST_STOPPED)
		return v.stoppable;
	for (size_t i = 0; i < RF_COUNT(c->keeps) && !any; i++)
		any = c->keeps[i].work != NULL && c->keeps[i].partial;
	return any;
}

static bool ends_by(const struct co_pod *p, int64_t start)
{
	struct rf_workload_view v;

	if (p->hold == 0 || p->work == NULL || p->work->w == NULL)
		return false;
	rf_workload_view(p->work->w, &v);
	return v.running && (v.backfilled || v.end_ms <= start);
}

/* Its members on this node, once what ends by then has ended. */
static bool still_fits(struct rf_core *c, const struct co_keep *k, const struct co_node *n)
{
	struct rf_fleet_place at RF_UNINITIALIZED;
	size_t mark = rf_fleet_mark(c->fleet);
	struct rf_err err RF_UNINITIALIZED;
	bool ok = true;

	for (const struct co_pod *p = n->pods_here; p != NULL; p = p->seat_next) {
		if (ends_by(p, k->start))
			(void)rf_fleet_lift(c->fleet, p->hold);
	}
	for (size_t i = 0; i < k->at.n && ok; i++) {
		const struct co_kept *m = &k->at.at[i];

		ok = m->node != n->handle || (rf_fleet_find_on(c->fleet, m->node, &m->ask, &at) &&
					      rf_fleet_take(c->fleet, &m->ask, &at, false, NULL, &err) == 0);
	}
	rf_fleet_rollback(c->fleet, mark);
	return ok;
}

bool co_ahead_allow(struct rf_core *c, const struct co_work *w)
{
	unsigned may = co_ahead_may(c, w);

	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		unsigned met = p->seat == NULL ? 0 : rf_fleet_kept(c->fleet, p->seat->handle) & ~may;

		for (size_t i = 0; i < RF_COUNT(c->keeps); i++) {
			if ((met >> i & 1) && !still_fits(c, &c->keeps[i], p->seat))
				return false;
		}
	}
	return true;
}

/* --- keeping nodes ------------------------------------------------------------------------------ */

static void open_nodes(struct rf_core *c, size_t slot)
{
	const struct co_keep *k = &c->keeps[slot];

	for (size_t i = 0; i < k->at.n; i++) {
		uint32_t node = k->at.at[i].node;

		rf_fleet_set_kept(c->fleet, node, (uint16_t)(rf_fleet_kept(c->fleet, node) & ~(1u << slot)));
	}
}

static void drop(struct rf_core *c, size_t slot)
{
	struct co_keep *k = &c->keeps[slot];

	open_nodes(c, slot);
	rf_vec_done(&k->at);
	*k = (struct co_keep){ .work = NULL };
	c->n_keeps--;
	c->freed |= ~UINT64_C(0);
}

void co_ahead_forget(struct rf_core *c, const struct co_work *w)
{
	for (size_t i = 0; c->n_keeps > 0 && i < RF_COUNT(c->keeps); i++) {
		if (c->keeps[i].work == w)
			drop(c, i);
	}
}

void co_ahead_free(struct rf_core *c)
{
	for (size_t i = 0; i < RF_COUNT(c->keeps); i++)
		rf_vec_done(&c->keeps[i].at);
	c->n_keeps = 0;
}

/* --- planning ------------------------------------------------------------------------------------ */

struct found { /* a workload, and its places */
	struct co_work *work;
	size_t slot;
	bool partial;
	RF_VEC(struct co_kept) at;
};

/* While the queues plan: all that happens to the fleet is undone in the end. */
struct ahead {
	struct rf_core *c;
	struct rf_arena a;
	struct found now; /* whom the queues ask about; no places: it does not fit so far */
	struct found all[RF_QUEUE_RESERVATIONS_MAX];
	size_t n;
	/* Those that are thought gone: the first so many of what runs, which is the same in every call. */
	size_t gone;
	const struct rf_workload *last;
};

static size_t slot_of(const struct ahead *p, const struct co_work *w)
{
	size_t slot = RF_COUNT(p->c->keeps);

	for (size_t i = RF_COUNT(p->c->keeps); i-- > 0;) {
		bool taken = false;

		if (p->c->keeps[i].work == w)
			return i;
		/* Who was promised something is planned first: a slot that nobody of these wants again is free. */
		for (size_t k = 0; k < p->n; k++)
			taken = taken || p->all[k].slot == i;
		if (!taken && (slot == RF_COUNT(p->c->keeps) || p->c->keeps[i].work == NULL))
			slot = i;
	}
	return slot;
}

/* The queues ask about another: the one before is reserved for if there was a place for it. */
static void note_found(struct ahead *p)
{
	struct found f = p->now;

	p->now = (struct found){ .work = NULL };
	if (f.at.n == 0 || p->n == RF_COUNT(p->all) || f.slot == RF_COUNT(p->c->keeps)) {
		rf_vec_done(&f.at);
		return;
	}
	for (size_t i = 0; i < f.at.n; i++)
		rf_fleet_set_kept(p->c->fleet, f.at.at[i].node, (uint16_t)(1u << f.slot));
	p->all[p->n++] = f;
}

static void lift_pods(struct rf_core *c, const struct co_work *w, bool lift)
{
	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		if (p->hold != 0)
			(void)(lift ? rf_fleet_lift(c->fleet, p->hold) : rf_fleet_unlift(c->fleet, p->hold));
	}
	if (w->claim != NULL && w->claim->hold != 0)
		(void)(lift ? rf_fleet_lift(c->fleet, w->claim->hold) : rf_fleet_unlift(c->fleet, w->claim->hold));
}

static void think_gone(struct ahead *p, const struct rf_victim *gone, size_t n)
{
	struct rf_workload_view v;

	for (; p->gone > n; p->gone--) {
		rf_workload_view(gone[p->gone - 1].work, &v);
		lift_pods(p->c, v.user, false);
	}
	for (; p->gone < n; p->gone++) {
		rf_workload_view(gone[p->gone].work, &v);
		lift_pods(p->c, v.user, true);
	}
}

static bool has_card_left(struct rf_core *c, uint32_t node)
{
	const struct rf_fleet_ask one = { .owner = { .system = true, .level = RF_ISOLATION_GPU },
					  .may_kept = UINT16_MAX,
					  .n_parts = 1,
					  .parts = { { .kind = RF_FLEET_WHOLE, .n = 1 } } };

	return rf_fleet_room_on(c->fleet, node, &one) > 0;
}

static void note_places(struct ahead *p, const struct co_gang *g, const struct rf_fleet_place *at, unsigned may)
{
	rf_vec_clear(&p->now.at);
	p->now.partial = false;
	for (size_t i = 0; i < g->gang.n; i++) {
		struct co_kept k = { .node = at[i].node, .ask = g->gang.asks[i] };

		if (k.node == RF_FLEET_NONE)
			continue;
		k.ask.may_kept = (uint16_t)may;
		k.ask.leave = NULL; /* that is looked at when it starts */
		if (g->gang.narrow != NULL)
			k.ask.class = 0;
		rf_vec_push(&p->now.at, k);
		p->now.partial = p->now.partial || has_card_left(p->c, k.node);
	}
}

/* Not on nodes that are kept for others, however short it is: it would be in the way of their dates. */
static bool try(struct ahead *p)
{
	struct co_work *w = p->now.work;
	size_t n = w->alike ? (size_t)RF_MAX(w->min, 1) : w->n, mark;
	unsigned may = p->now.slot < RF_COUNT(p->c->keeps) ? 1u << p->now.slot : 0;
	struct rf_fleet_place *at;
	struct co_gang g;
	uint64_t *holds;
	bool ok;

	rf_arena_reset(&p->a);
	if (!co_gang_of(p->c, w, n, co_models_left(p->c, w, w->first), &p->a, &g))
		return false;
	for (size_t i = 0; i < g.gang.n; i++)
		((struct rf_fleet_ask *)(uintptr_t)g.gang.asks)[i].may_kept = (uint16_t)may;
	g.gang.ctx = &g;
	g.gang.min = g.gang.n;
	at = rf_arena_array(&p->a, struct rf_fleet_place, n);
	holds = rf_arena_array(&p->a, uint64_t, n);
	mark = rf_fleet_mark(p->c->fleet);
	ok = rf_gang_take(p->c->fleet, &g.gang, at, holds) > 0;
	if (ok)
		note_places(p, &g, at, may);
	for (size_t i = 0; ok && g.gang.undone != NULL && i < n; i++) {
		if (holds[i] != 0)
			g.gang.undone(&g, i, &at[i]);
	}
	rf_fleet_rollback(p->c->fleet, mark);
	return ok;
}

static bool fits(void *ctx, const struct rf_workload *rw, const struct rf_victim *gone, size_t n)
{
	struct ahead *p = ctx;
	struct rf_workload_view v;

	rf_workload_view(rw, &v);
	if (p->now.work != v.user) {
		note_found(p);
		p->now.work = v.user;
		p->now.slot = slot_of(p, v.user);
		if (p->now.slot < RF_COUNT(p->c->keeps))
			open_nodes(p->c, p->now.slot);
	}
	think_gone(p, gone, n);
	return try(p);
}

/* --- what was found ------------------------------------------------------------------------------- */

static bool found_at(const struct ahead *p, size_t slot, struct found **ret)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->all[i].slot != slot)
			continue;
		*ret = (struct found *)(uintptr_t)&p->all[i];
		return true;
	}
	return false;
}

/* A node that stays kept is not touched, so that nobody is tried again for nothing. */
static void set_keeps(struct rf_core *c, const struct ahead *p)
{
	uint32_t handles = rf_fleet_handles(c->fleet);
	uint16_t *keeps = rf_alloc(RF_MAX(handles, 1) * sizeof(*keeps));

	for (size_t i = 0; i < p->n; i++) {
		for (size_t k = 0; k < p->all[i].at.n; k++)
			keeps[p->all[i].at.at[k].node] = (uint16_t)(1u << p->all[i].slot);
	}
	for (uint32_t i = 0; i < handles; i++)
		rf_fleet_set_kept(c->fleet, i, keeps[i]);
	free(keeps);
}

static void keep_found(struct rf_core *c, struct ahead *p)
{
	bool opened = false;

	if (p->n > 0 || c->n_keeps > 0) /* else no node is kept, and none will be */
		set_keeps(c, p);
	for (size_t i = 0; i < RF_COUNT(c->keeps); i++) {
		struct co_keep *k = &c->keeps[i], was = *k;
		struct found *f = NULL;

		*k = (struct co_keep){ .work = NULL };
		if (found_at(p, i, &f) && rf_workload_reserved(c->queues, f->work->w, &k->start)) {
			k->work = f->work;
			k->partial = f->partial;
			k->due = was.work == f->work && was.due;
			for (size_t m = 0; m < f->at.n; m++)
				rf_vec_push(&k->at, f->at.at[m]);
		}
		opened = opened || (was.work != NULL && (k->work != was.work || k->start > was.start || k->at.n != was.at.n ||
							  memcmp(k->at.at, was.at.at, k->at.n * sizeof(*k->at.at)) != 0));
		c->n_keeps += (size_t)(k->work != NULL) - (size_t)(was.work != NULL);
		rf_vec_done(&was.at);
	}
	if (opened) /* who was refused may find a place now */
		rf_queues_changed(c->queues, ~UINT64_C(0));
}

/* Who started or went away is forgotten where that happens; who is only not reserved for any more, here. */
static void prune(struct rf_core *c)
{
	for (size_t i = 0; i < RF_COUNT(c->keeps); i++) {
		if (c->keeps[i].work != NULL && !reserved(c, c->keeps[i].work))
			drop(c, i);
	}
}

/* A date far away need not be right to the second. */
static int64_t again(const struct rf_core *c)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < RF_COUNT(c->keeps); i++) {
		if (c->keeps[i].work != NULL && c->keeps[i].start > c->now)
			next = RF_MIN(next, c->keeps[i].start - c->now);
	}
	return c->now + (next == INT64_MAX ? EVERY_MS : RF_MAX(RF_MIN(next / FAR, FAR_MS), EVERY_MS));
}

/* What was let past it may be taken back from now on: news for the planner of evictions. */
static void look_at_dates(struct rf_core *c)
{
	for (size_t i = 0; c->n_keeps > 0 && i < RF_COUNT(c->keeps); i++) {
		struct co_keep *k = &c->keeps[i];

		if (k->work == NULL || k->due || k->start > c->now)
			continue;
		k->due = true;
		c->news++;
	}
}

bool co_ahead_ready(const struct rf_core *c)
{
	return c->config.reserve_after_ms > 0 && c->now >= c->ahead_ms &&
	       (c->ticks != c->ahead_tick || c->now >= c->ahead_wake);
}

static void look_ahead(struct rf_core *c)
{
	struct ahead p = { .c = c, .a = RF_ARENA_INIT };
	size_t mark;

	prune(c);
	mark = rf_fleet_mark(c->fleet);
	(void)rf_queues_plan_ahead(c->queues, c->now, fits, &p);
	note_found(&p);
	rf_fleet_rollback(c->fleet, mark);
	keep_found(c, &p);
	look_at_dates(c);
	c->ahead_tick = c->ticks;
	c->ahead_ms = again(c);
	c->ahead_wake = rf_queues_ahead_ms(c->queues, c->now);
	for (size_t i = 0; i < p.n; i++)
		rf_vec_done(&p.all[i].at);
	rf_arena_done(&p.a);
}

void co_ahead(struct rf_core *c)
{
	look_at_dates(c);
	if (co_ahead_ready(c))
		look_ahead(c);
}
