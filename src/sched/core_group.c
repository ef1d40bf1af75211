/* Gangs: all of them start, or none. */
#include "sched/core_private.h"

bool co_before(const struct co_pod *a, const struct co_pod *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	if (a->created != b->created)
		return a->created < b->created;
	return rf_str_cmp(a->uid, b->uid) < 0;
}

static int by_rank(const void *pa, const void *pb)
{
	const struct co_pod *a = *(struct co_pod *const *)pa, *b = *(struct co_pod *const *)pb;

	return co_before(a, b) ? -1 : co_before(b, a);
}

/* The members, by what they are at. */
struct roll {
	struct co_pod **all;
	size_t n;
	size_t bound, promised, placed, ready, whole;
	size_t stays; /* of those bound: was not told to go and is not to be, or refused */
};

/* Waits for its group only, not for something that bars it alone. */
static bool is_ready(const struct co_pod *p)
{
	if (p->state == CO_QUEUED)
		return true;
	return p->state == CO_BARRED && p->seat == NULL &&
	       (p->bar == CO_BAR_GROUP || p->bar == CO_BAR_MIN || p->bar == CO_BAR_COMMIT || p->bar == CO_BAR_HALF);
}

/* And from now on they are in order, whoever was told of first. */
static void call_roll(struct co_group *g, struct rf_arena *a, struct roll *r)
{
	r->all = rf_arena_array(a, struct co_pod *, g->n_pods + 1);
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		r->all[r->n++] = p;
		r->bound += p->state == CO_BOUND && !p->deleting;
		r->stays += p->state == CO_BOUND && !p->deleting && !(p->evicting && (p->todo == CO_ASKED || p->todo == CO_EVICT));
		r->promised += p->state == CO_PROMISED && p->todo != CO_ASKED;
		r->placed += p->state == CO_PLACED || (p->state == CO_PROMISED && p->todo == CO_ASKED) ||
			     (p->state == CO_BARRED && p->seat != NULL && p->bar == CO_BAR_PAUSE);
		r->ready += is_ready(p);
		r->whole += p->whole;
	}
	if (r->n > 1)
		qsort(r->all, r->n, sizeof(*r->all), by_rank);
	for (size_t i = 0; i < r->n; i++) {
		r->all[i]->group_prev = i > 0 ? r->all[i - 1] : NULL;
		r->all[i]->group_next = i + 1 < r->n ? r->all[i + 1] : NULL;
	}
	g->pods = r->n > 0 ? r->all[0] : NULL;
}

/* Has its place, and was not told to go with its gang; or had it and ended well: it is not to come again. */
static bool is_left(const struct co_pod *p)
{
	return p->known && p->node != NULL && !p->deleting && !(p->evicting && p->whole && p->todo != CO_EVICT) &&
	       (!p->ended || p->well);
}

static int64_t count_left(const struct co_group *g)
{
	int64_t n = 0;

	for (const struct co_pod *p = g->pods; p != NULL; p = p->group_next)
		n += is_left(p);
	return n;
}

bool co_has_started(const struct co_group *g)
{
	int64_t n = count_left(g);

	return g->known && n > 0 && (g->started || (g->going == 0 && (g->was_whole || n >= g->min)));
}

/* --- what runs -------------------------------------------------------------------------------- */

static struct co_work *gang_of(const struct co_group *g)
{
	for (const struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->work != NULL && p->work->running && p->work->group == g && p->state == CO_BOUND)
			return p->work;
	}
	for (const struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->work != NULL && p->work->running && p->work->group == g)
			return p->work;
	}
	return NULL;
}

/* After a restart, or started later on its own: it belongs to the gang, which goes as a whole or not below its minimum. */
static bool to_join(const struct co_pod *p, const struct co_work *gang)
{
	if (p->seat == NULL)
		return false;
	return p->work == NULL || (p->work->running && p->work != gang && p->state == CO_BOUND && !co_leaves(p));
}

/* Members that are unlike each other are one in the books, of which no part can be taken off: who leaves is charged by
 * itself, so that the rest is judged without it. */
static void let_leave(struct rf_core *c, struct co_work *w)
{
	struct co_pod **at = &w->first, *leaving = NULL;
	struct rf_workload_view v;
	size_t n = 0;

	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next)
		n += co_leaves(p);
	if (n == 0 || n == w->n || w->w == NULL)
		return;
	rf_workload_view(w->w, &v);
	if (v.members == (int64_t)w->n)
		return;
	while (*at != NULL) {
		struct co_pod *p = *at;

		if (!co_leaves(p)) {
			at = &p->work_next;
			continue;
		}
		*at = p->work_next;
		p->work_next = leaving;
		leaving = p;
	}
	w->n -= n;
	co_work_run(c, w);
	while (leaving != NULL) {
		struct co_pod *p = leaving;

		leaving = p->work_next;
		p->work_next = NULL;
		co_run_alone(c, p);
	}
}

static int64_t began(const struct rf_core *c, const struct co_pod *p)
{
	return p->started > 0 ? RF_MIN(p->started, c->now) : c->now;
}

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Since when it is whole, as far as those tell that are there; 0: it is not. */
static int64_t whole_since(const struct rf_core *c, const struct co_group *g, const struct co_work *w, const struct roll *r,
			   struct rf_arena *a)
{
	int64_t *at;
	size_t n = 0;

	if (w != NULL)
		return g->was_whole ? w->started : 0;
	if (!g->known || g->min < 1 || (int64_t)r->bound < g->min)
		return 0;
	at = rf_arena_array(a, int64_t, r->bound);
	for (size_t i = 0; i < r->n; i++) {
		if (r->all[i]->state == CO_BOUND && !r->all[i]->deleting)
			at[n++] = began(c, r->all[i]);
	}
	qsort(at, n, sizeof(*at), by_number);
	return at[g->min - 1];
}

/* Who comes when the gang is whole does not make its minimum run time longer: until its own is over it is by itself. */
static bool is_alone(struct rf_core *c, struct co_pod *p, int64_t whole)
{
	int64_t until = began(c, p) + co_min_run(p);

	p->late = whole > 0 && p->state == CO_BOUND && began(c, p) > whole;
	if (!p->late || until <= c->now)
		return false;
	if (p->again_ms == 0) {
		p->again_ms = until;
		rf_vec_push(&c->paused, p);
		c->wake_ms = RF_MIN(c->wake_ms, until);
	}
	if (p->work == NULL)
		co_run_alone(c, p);
	return true;
}

static bool any_may_go(const struct roll *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->all[i]->seat != NULL && co_preemptible(r->all[i]))
			return true;
	}
	return false;
}

static bool in_one_queue(const struct co_pod *a, const struct co_pod *b)
{
	if (a->group->queue != NULL || a->queue == b->queue)
		return true;
	return a->queue != NULL && b->queue != NULL && strcmp(a->queue, b->queue) == 0;
}

/* Those who come to it stand behind the others: the terms of a gang that runs are its first one's. One that must not be evicted is by itself
 * beside those that may be, and the other way round: it shields nobody, and does not go with them. So is one that names another queue, whose
 * quotas let it start. */
static void charge_members(struct rf_core *c, struct co_group *g, const struct roll *r, struct rf_arena *a)
{
	struct co_work *w = gang_of(g);
	struct co_pod **last = w != NULL ? &w->first : NULL;
	int64_t whole = whole_since(c, g, w, r, a);
	bool any = false, may_go = w != NULL ? co_may_go_all(w) : any_may_go(r);

	while (last != NULL && *last != NULL)
		last = &(*last)->work_next;
	for (size_t i = 0; i < r->n; i++) {
		struct co_pod *p = r->all[i];

		if (!to_join(p, w) || is_alone(c, p, whole))
			continue;
		if (co_preemptible(p) != may_go || (w != NULL && !in_one_queue(p, w->first))) {
			if (p->work == NULL)
				co_run_alone(c, p);
			continue;
		}
		if (p->work != NULL)
			co_work_leave(c, p); /* others in it may only be promised: they stay charged */
		if (w == NULL) {
			w = rf_new(struct co_work);
			w->group = g;
			last = &w->first;
		}
		*last = p;
		last = &p->work_next;
		p->work = w;
		p->work_next = NULL;
		w->n++;
		if (!p->late)
			w->started = RF_MAX(w->started, began(c, p));
		any = true;
	}
	if (any)
		co_work_run(c, w);
	if (w != NULL)
		let_leave(c, w);
}

/* What was planned with some of them was dropped, so that these are its members again: in the books, too, before anything
 * else is planned. */
void co_group_rejoin(struct rf_core *c, struct co_group *g)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct roll r = { .n = 0 };

	call_roll(g, &a, &r);
	charge_members(c, g, &r, &a);
}

/* --- what waits ------------------------------------------------------------------------------- */

static void bar_ready(struct rf_core *c, const struct roll *r, enum co_bar bar)
{
	for (size_t i = 0; i < r->n; i++) {
		if (is_ready(r->all[i]) && !(r->all[i]->state == CO_BARRED && r->all[i]->bar == (uint8_t)bar))
			co_bar(c, r->all[i], bar);
	}
}

static void drop_work(struct rf_core *c, struct co_group *g)
{
	struct co_work *w = g->work;

	if (w == NULL)
		return;
	g->work = NULL;
	for (struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		co_state(c, p, CO_BARRED); /* it waits all the same: nothing new to tell */
		p->bar = CO_BAR_GROUP;
	}
	co_work_free(c, w);
}

/* The same members as those that wait already? */
static bool same_work(const struct co_group *g, struct co_pod *const *pods, size_t n, int64_t min, bool alike)
{
	const struct co_work *w = g->work;
	const struct co_pod *p;

	if (w == NULL || w->n != n || w->alike != alike || w->min != min || w->stamp != g->rv || (!w->tied && co_tied(g)))
		return false;
	p = w->first;
	for (size_t i = 0; i < n; i++, p = p->work_next) {
		if (p != pods[i])
			return false;
	}
	return true;
}

static void queue_gang(struct rf_core *c, struct co_group *g, struct co_pod **pods, size_t n, int64_t need)
{
	struct rf_err err RF_UNINITIALIZED;
	size_t all = n;
	bool alike = true;

	for (size_t i = 1; i < n && alike; i++)
		alike = pods[i]->shape == pods[0]->shape && pods[i]->pinned == pods[0]->pinned;
	if (!alike)
		n = (size_t)need;
	if (!same_work(g, pods, n, need, alike))
		drop_work(c, g);
	for (size_t i = n; i < all; i++) { /* these come after the others */
		if (pods[i]->bar != CO_BAR_COMMIT)
			co_bar(c, pods[i], CO_BAR_COMMIT);
	}
	if (g->work != NULL)
		return;
	for (size_t i = 0; i < n; i++)
		pods[i]->work_next = i + 1 < n ? pods[i + 1] : NULL;
	g->work = co_work_wait(c, pods[0], g, alike ? need : 1, alike ? (int64_t)n : 1, alike, &err);
	for (size_t i = 0; i < n && g->work == NULL; i++) {
		pods[i]->work_next = NULL;
		co_bar(c, pods[i], CO_BAR_REFUSED);
	}
	if (g->work == NULL)
		return;
	g->work->min = need;
	g->work->stamp = g->rv;
	for (size_t i = 0; i < n; i++)
		co_state(c, pods[i], CO_QUEUED);
}

/* Once the gang has started each further member is on its own. */
static void queue_singles(struct rf_core *c, struct co_group *g, const struct roll *r)
{
	struct rf_err err RF_UNINITIALIZED;

	drop_work(c, g);
	for (size_t i = 0; i < r->n; i++) {
		struct co_pod *p = r->all[i];

		if (p->state == CO_PROMISED && p->todo == CO_NOTHING)
			co_todo(c, p, CO_BIND);
		if (!is_ready(p) || p->state == CO_QUEUED)
			continue;
		if (co_work_wait(c, p, NULL, 1, 1, true, &err) == NULL)
			co_bar(c, p, CO_BAR_REFUSED);
		else
			co_state(c, p, CO_QUEUED);
	}
}

/* None of it is left meanwhile: who waits on its own waits for the others. */
static void recall_singles(struct rf_core *c, const struct co_group *g, const struct roll *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->all[i]->state == CO_QUEUED && r->all[i]->work != g->work)
			co_bar(c, r->all[i], CO_BAR_MIN);
	}
}

/* --- half-made gangs -------------------------------------------------------------------------- */

static void list(struct rf_core *c, struct co_group *g, int64_t due)
{
	if (!g->listed) {
		g->listed = true;
		rf_vec_push(&c->broken, g);
	}
	c->wake_ms = RF_MIN(c->wake_ms, due);
}

static void give_up(struct rf_core *c, struct co_group *g, const struct roll *r)
{
	drop_work(c, g);
	bar_ready(c, r, CO_BAR_HALF);
	for (size_t i = 0; i < r->n; i++) {
		struct co_pod *p = r->all[i];

		if (p->state == CO_PROMISED && p->todo != CO_ASKED)
			co_todo(c, p, CO_RELEASE);
	}
	co_evict_half(c, g);
	g->tried = false;
}

/* Since when it is bound in part: since the last of these was bound, whoever was there to see it. */
static int64_t broken_since(const struct rf_core *c, const struct co_group *g, const struct roll *r)
{
	int64_t unknown = g->broken_ms != 0 ? g->broken_ms : c->now, since = g->broken_ms;

	for (size_t i = 0; i < r->n; i++) {
		const struct co_pod *p = r->all[i];

		if (p->state == CO_BOUND && !p->deleting)
			since = RF_MAX(since, p->started > 0 && p->started <= c->now ? p->started : unknown);
	}
	return RF_MAX(since, 1);
}

/* Some of it holds something, and it is not whole: complete it, or let go of all. What is bound has its time; what is
 * only promised is tried once. */
static void mend(struct rf_core *c, struct co_group *g, const struct roll *r)
{
	int64_t due = 0;

	if (r->bound == 0) {
		g->broken_ms = 0;
	} else {
		g->broken_ms = broken_since(c, g, r);
		due = g->broken_ms + c->config.gang_window_ms;
	}
	g->mending = c->now >= due && !g->tried && g->work != NULL;
	if (c->now < due)
		list(c, g, due);
	else if (g->mending)
		list(c, g, INT64_MAX);
	else
		give_up(c, g, r);
}

/* Promised, and something bars them now: the gang is not made whole by these. */
static void release_barred(struct rf_core *c, const struct roll *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct co_pod *p = r->all[i];

		if (p->state == CO_BARRED && p->seat != NULL && p->claim != NULL && p->bar != CO_BAR_CLAIM &&
		    p->bar != CO_BAR_PAUSE && p->todo == CO_NOTHING)
			co_todo(c, p, CO_RELEASE);
	}
}

static void settle_unstarted(struct rf_core *c, struct co_group *g, struct rf_arena *a, const struct roll *r)
{
	size_t have = r->stays + r->promised, n = 0;
	int64_t need = g->min - (int64_t)have;
	struct co_pod **pods = rf_arena_array(a, struct co_pod *, r->n + 1);

	if (r->placed > 0) { /* a commit is on its way: what comes of it is heard soon */
		drop_work(c, g);
		bar_ready(c, r, CO_BAR_COMMIT);
		return;
	}
	if (need <= 0) {
		for (size_t i = 0; i < r->n; i++) {
			if (r->all[i]->state == CO_PROMISED && r->all[i]->todo == CO_NOTHING)
				co_todo(c, r->all[i], CO_BIND);
		}
		drop_work(c, g);
		bar_ready(c, r, CO_BAR_COMMIT);
		return;
	}
	for (size_t i = 0; i < r->n; i++) {
		if (is_ready(r->all[i]))
			pods[n++] = r->all[i];
		if (r->all[i]->state == CO_PROMISED && r->all[i]->todo == CO_BIND)
			co_todo(c, r->all[i], CO_NOTHING); /* not without the others */
	}
	g->have = have + n;
	if (g->again_ms > c->now || (int64_t)n < need || need > CO_GANG_MAX) {
		drop_work(c, g);
		bar_ready(c, r, CO_BAR_MIN);
		if (g->again_ms > c->now)
			list(c, g, g->again_ms);
	} else {
		queue_gang(c, g, pods, RF_MIN(n, RF_MAX((size_t)need, CO_GANG_MAX)), need);
	}
	release_barred(c, r);
	if (have > 0)
		mend(c, g, r);
	else
		g->broken_ms = 0;
}

void co_group_settle(struct rf_core *c, struct co_group *g)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct roll r = { .n = 0 };
	int64_t left;

	g->mending = false;
	co_evict_unsaid(c, g);
	call_roll(g, &a, &r);
	for (size_t i = 0; r.placed == 0 && i < r.n; i++) {
		if (!r.all[i]->ghost)
			continue;
		r.all[i]->ghost = false; /* nothing is on its way any more */
		co_mark(c, r.all[i]);
	}
	charge_members(c, g, &r, &a);
	if (g->bereft && g->known) {
		co_evict_rest(c, g);
		r = (struct roll){ .n = 0 };
		call_roll(g, &a, &r);
	}
	if (r.whole > 0) {
		co_evict_review(c, g);
		r = (struct roll){ .n = 0 };
		call_roll(g, &a, &r);
	}
	if (r.whole == 0) {
		g->going = 0;
		g->ending = 0;
	}
	if (!g->known) {
		co_evict_none(c, g);
		drop_work(c, g);
		bar_ready(c, &r, CO_BAR_GROUP);
		g->broken_ms = 0;
		return;
	}
	left = count_left(g);
	g->had_started = left == 0 && r.bound > 0 && (g->had_started || g->started || g->was_whole);
	if (left == 0)
		g->started = g->was_whole = false; /* it starts anew */
	else if (left >= g->min && g->going == 0) /* while some of it are told to go it does not say so (co_has_started) */
		g->was_whole = true;
	if (g->started || g->was_whole) {
		g->broken_ms = 0;
		queue_singles(c, g, &r);
		return;
	}
	recall_singles(c, g, &r);
	settle_unstarted(c, g, &a, &r);
}
