/* What follows from the facts, for whatever they touched. */
#include "sched/core_private.h"

/* --- who waits -------------------------------------------------------------------------------- */

static void unlink_wait(struct rf_core *c, struct co_pod *p)
{
	struct co_pod **first = p->waits == 1 ? &c->fresh : &c->told;
	struct co_pod **last = p->waits == 1 ? &c->fresh_last : &c->told_last;

	if (c->sweep == p)
		c->sweep = p->wait_next;
	if (p->wait_prev != NULL)
		p->wait_prev->wait_next = p->wait_next;
	else
		*first = p->wait_next;
	if (p->wait_next != NULL)
		p->wait_next->wait_prev = p->wait_prev;
	else
		*last = p->wait_prev;
	p->wait_prev = p->wait_next = NULL;
	p->waits = 0;
	c->n_waits--;
}

static int by_age(const void *pa, const void *pb)
{
	const struct co_pod *a = *(struct co_pod *const *)pa, *b = *(struct co_pod *const *)pb;

	if (a->created != b->created)
		return a->created < b->created ? -1 : 1;
	return rf_str_cmp(a->uid, b->uid);
}

/* Whoever looked in between, and so settled some of them before others: they are told in the same order. */
void co_sort_fresh(struct rf_core *c)
{
	RF_VEC(struct co_pod *) all = RF_VEC_INIT;

	if (!c->fresh_mixed)
		return;
	c->fresh_mixed = false;
	for (struct co_pod *p = c->fresh; p != NULL; p = p->wait_next)
		rf_vec_push(&all, p);
	if (all.n > 1)
		qsort(all.at, all.n, sizeof(*all.at), by_age);
	for (size_t i = 0; i < all.n; i++) {
		all.at[i]->wait_prev = i > 0 ? all.at[i - 1] : NULL;
		all.at[i]->wait_next = i + 1 < all.n ? all.at[i + 1] : NULL;
	}
	c->fresh = all.n > 0 ? all.at[0] : NULL;
	c->fresh_last = all.n > 0 ? all.at[all.n - 1] : NULL;
	rf_vec_done(&all);
}

static void append_wait(struct rf_core *c, struct co_pod *p, uint8_t list)
{
	struct co_pod **first = list == 1 ? &c->fresh : &c->told;
	struct co_pod **last = list == 1 ? &c->fresh_last : &c->told_last;

	if (list == 1 && *last != NULL && by_age(last, &p) > 0)
		c->fresh_mixed = true;
	c->n_waits++;
	p->waits = list;
	p->wait_prev = *last;
	if (*last != NULL)
		(*last)->wait_next = p;
	else
		*first = p;
	*last = p;
}

/* 0: it does not wait; 1: to be told why; 2: was told. */
void co_waits(struct rf_core *c, struct co_pod *p, int list)
{
	if (p->waits == list)
		return;
	if (p->waits != 0)
		unlink_wait(c, p);
	if (list != 0)
		append_wait(c, p, (uint8_t)list);
}

void co_state(struct rf_core *c, struct co_pod *p, enum co_state s)
{
	bool waits = s == CO_BARRED || s == CO_QUEUED;

	if (p->state == (uint8_t)s && waits == (p->waits != 0))
		return;
	if (s != CO_BARRED)
		p->bar = CO_BAR_NONE;
	p->state = (uint8_t)s;
	if (!waits && s != CO_IDLE)
		p->told = 0; /* should it wait again, that is news */
	if (!waits)
		co_waits(c, p, 0);
	else if (p->waits == 0)
		co_waits(c, p, 1);
}

void co_todo(struct rf_core *c, struct co_pod *p, enum co_todo t)
{
	if (p->todo == (uint8_t)t)
		return;
	p->todo = (uint8_t)t;
	if (t != CO_NOTHING && t != CO_ASKED)
		rf_vec_push(&c->todo, p);
	if (t == CO_EVICT && !p->goes) {
		p->goes = true;
		rf_vec_push(&c->going, p);
	}
}

void co_bar(struct rf_core *c, struct co_pod *p, enum co_bar bar)
{
	if (p->work != NULL && !p->work->running)
		co_work_leave(c, p);
	co_state(c, p, CO_BARRED);
	p->bar = (uint8_t)bar;
}

/* --- what no place would help ------------------------------------------------------------------ */

static bool tenant_unknown(const struct co_ns *s)
{
	return s->known ? s->tenant != NULL && !s->tenant->known : !s->system;
}

static bool shares_cards(const struct co_tenant *t)
{
	return t != NULL && (t->level == RF_ISOLATION_SHARE || t->level == RF_ISOLATION_COOPERATIVE);
}

static int64_t devices(const struct co_form *f)
{
	int64_t n = RF_MIN(f->cards, 1000) + RF_MIN(f->slices, 1000);

	for (size_t i = 0; i < f->n_parts; i++)
		n += f->parts[i].ask.share_bytes > 0;
	return n;
}

enum co_bar co_barred(struct rf_core *c, struct co_pod *p)
{
	const struct co_form *f = p->shape->form;
	bool bad = false;

	if (p->claim != NULL && p->claim->deleting)
		return CO_BAR_CLAIM;
	if (tenant_unknown(p->ns))
		return CO_BAR_TENANT;
	if (p->unsupported != NULL)
		return CO_BAR_SAID;
	if (f->n_parts > 0 && p->ns->tenant == NULL)
		return CO_BAR_NOBODY;
	if (f->bytes > 0 && !shares_cards(p->ns->tenant))
		return CO_BAR_SHARES;
	if (devices(f) > CO_DEVICES_MAX)
		return CO_BAR_DEVICES;
	if (f->bad != NULL)
		return CO_BAR_FORM;
	(void)co_queue_of(c, p, &bad);
	if (bad)
		return CO_BAR_QUEUE;
	return p->again_ms > c->now ? CO_BAR_PAUSE : CO_BAR_NONE;
}

/* --- time ------------------------------------------------------------------------------------- */

void co_pause(struct rf_core *c, struct co_pod *p, struct rf_str why)
{
	int64_t pause = CO_BACKOFF_MS;

	free(p->failure);
	p->failure = rf_str_dup(rf_str_n(why.p, RF_MIN(why.n, 256)));
	for (unsigned i = 0; i < p->fails && pause < CO_BACKOFF_MAX_MS; i++)
		pause *= 2;
	p->fails = (uint16_t)RF_MIN(p->fails + 1, UINT16_MAX);
	if (p->again_ms == 0)
		rf_vec_push(&c->paused, p);
	p->again_ms = c->now + RF_MIN(pause, CO_BACKOFF_MAX_MS);
	c->wake_ms = RF_MIN(c->wake_ms, p->again_ms);
}

static int64_t due_of(const struct rf_core *c, const struct co_group *g)
{
	int64_t window = g->broken_ms != 0 ? g->broken_ms + c->config.gang_window_ms : INT64_MAX;

	return g->again_ms != 0 ? RF_MIN(window, g->again_ms) : window;
}

void co_wake(struct rf_core *c)
{
	size_t n = 0;

	if (c->now < c->wake_ms)
		return;
	c->wake_ms = INT64_MAX;
	for (size_t i = 0; i < c->paused.n; i++) {
		struct co_pod *p = c->paused.at[i];

		if (p->again_ms <= c->now) {
			p->again_ms = 0;
			co_mark(c, p);
			continue;
		}
		c->wake_ms = RF_MIN(c->wake_ms, p->again_ms);
		c->paused.at[n++] = p;
	}
	c->paused.n = n;
	n = 0;
	for (size_t i = 0; i < c->broken.n; i++) {
		struct co_group *g = c->broken.at[i];
		int64_t due = due_of(c, g);

		if (due == INT64_MAX && !g->mending) {
			g->listed = false;
			co_mark_group(c, g);
			continue;
		}
		if (due <= c->now) {
			co_mark_group(c, g);
			if (g->again_ms != 0 && g->again_ms <= c->now)
				g->again_ms = 0;
			due = g->again_ms != 0 ? g->again_ms : INT64_MAX;
		}
		c->wake_ms = RF_MIN(c->wake_ms, due);
		c->broken.at[n++] = g;
	}
	c->broken.n = n;
	if (c->plan_wake <= c->now) {
		c->plan_wake = INT64_MAX;
		c->news++;
	}
	c->wake_ms = RF_MIN(c->wake_ms, c->plan_wake);
}

/* --- one pod ---------------------------------------------------------------------------------- */

void co_run_alone(struct rf_core *c, struct co_pod *p)
{
	struct co_work *w = rf_new(struct co_work);

	w->first = p;
	w->n = 1;
	w->started = p->started > 0 ? RF_MIN(p->started, c->now) : c->now;
	p->work = w;
	co_work_run(c, w);
}

/* Counted there, and charged with what it has there. */
static void settle_seat(struct rf_core *c, struct co_pod *p, struct co_node *n)
{
	const struct co_claim *had = p->held_for;
	uint64_t hold = p->hold;
	bool reown = p->reown, assumed = p->assumed_cards;

	if (p->work != NULL && !p->work->running)
		co_work_leave(c, p);
	co_seat(c, p, n);
	p->reown = false;
	if (p->group != NULL)
		co_mark_group(c, p->group);
	if (p->work == NULL && p->group == NULL)
		co_run_alone(c, p);
	else if (p->work != NULL && (reown || p->respec || p->hold != hold || (p->held_for != had && !assumed)))
		co_work_run(c, p->work);
	p->respec = false;
}

/* What is on its way of its commit may still fail in its name, and the others are to hear of it. */
static void become_ghost(struct rf_core *c, struct co_pod *p)
{
	bool others = false;

	if (p->group == NULL || p->todo != CO_ASKED || p->state == CO_BOUND)
		return;
	for (const struct co_pod *q = p->group->pods; q != NULL && !others; q = q->group_next)
		others = q != p && q->commit == p->commit && q->todo == CO_ASKED;
	if (!others)
		return;
	p->ghost = true;
	co_mark_group(c, p->group);
}

static void vacate(struct rf_core *c, struct co_pod *p)
{
	become_ghost(c, p);
	if (p->group != NULL && (p->seat != NULL || p->state == CO_QUEUED))
		co_mark_group(c, p->group);
	co_work_leave(c, p);
	co_seat(c, p, NULL);
	p->evicting = p->whole = p->late = false;
	p->reown = p->reseat = false;
	co_todo(c, p, CO_NOTHING);
}

/* Its queue is gone: charged elsewhere, wherever it is on its way. */
static void recharge(struct rf_core *c, struct co_pod *p)
{
	if (p->respec && p->work != NULL && p->work->running)
		co_work_run(c, p->work);
	p->respec = false;
}

/* A decision is on its way, and its claim may exist already although nobody has told of it. */
static bool in_flight(const struct co_pod *p)
{
	return p->state == CO_PLACED && p->assumed_cards && !p->heard;
}

static void settle_bound(struct rf_core *c, struct co_pod *p)
{
	settle_seat(c, p, p->node);
	if (p->work != NULL && p->started > p->work->started && p->started <= c->now && !p->late) {
		p->work->started = p->started; /* of a gang: when the last of those did that made it */
		if (p->work->w != NULL)
			rf_workload_began(p->work->w, p->started);
	}
	if (p->state != CO_BOUND) {
		rf_takes_news(c->queues); /* it may go like all that ran before, as after a restart */
		p->fails = 0;
	}
	co_state(c, p, CO_BOUND);
	if (!p->evicting)
		co_todo(c, p, CO_NOTHING);
	else if (p->todo == CO_NOTHING && p->again_ms == 0 && !p->deleting)
		co_evict_again(c, p);
}

static void settle_promised(struct rf_core *c, struct co_pod *p)
{
	enum co_bar bar;

	settle_seat(c, p, p->claim->node);
	if (p->todo == CO_RELEASE || (p->todo == CO_ASKED && p->state == CO_BARRED))
		return; /* to be deleted, or not gone yet */
	/* Its binding was asked for and may be done at any moment: what becomes of it is heard before anything is taken away
	 * from under it, or from the others of its gang because of it. */
	if (p->todo == CO_ASKED) {
		co_state(c, p, CO_PROMISED);
		return;
	}
	if (!co_claim_good(p->claim)) {
		co_state(c, p, CO_BARRED);
		p->bar = CO_BAR_CLAIM;
		co_todo(c, p, CO_RELEASE);
		return;
	}
	bar = co_barred(c, p);
	if (bar != CO_BAR_NONE && bar != CO_BAR_QUEUE) {
		co_state(c, p, CO_BARRED);
		p->bar = (uint8_t)bar;
		co_todo(c, p, CO_NOTHING);
		return;
	}
	co_state(c, p, CO_PROMISED);
	if (p->group == NULL && p->todo == CO_NOTHING)
		co_todo(c, p, CO_BIND);
}

static void settle_pending(struct rf_core *c, struct co_pod *p)
{
	struct rf_err err RF_UNINITIALIZED;
	enum co_bar bar;

	if (p->seat != NULL)
		vacate(c, p);
	if (p->respec && p->state == CO_QUEUED)
		co_work_leave(c, p);
	p->reown = p->respec = false;
	if (p->todo == CO_ASKED)
		co_todo(c, p, CO_NOTHING);
	bar = co_barred(c, p);
	if (bar != CO_BAR_NONE) {
		co_bar(c, p, bar);
		if (p->group != NULL)
			co_mark_group(c, p->group);
		return;
	}
	if (p->group != NULL) {
		if (p->state != CO_QUEUED) {
			co_state(c, p, CO_BARRED);
			p->bar = CO_BAR_GROUP;
		}
		co_mark_group(c, p->group);
		return;
	}
	if (p->state == CO_QUEUED && p->work != NULL)
		return;
	if (co_work_wait(c, p, NULL, 1, 1, true, &err) == NULL) {
		co_bar(c, p, CO_BAR_REFUSED);
		return;
	}
	co_state(c, p, CO_QUEUED);
}

/* True: nobody knows of it any more. */
static bool settle_pod(struct rf_core *c, struct co_pod *p)
{
	if (p->reown && p->raw != NULL)
		co_reshape(c, p);
	if (p->state == CO_PLACED)
		recharge(c, p);
	if (!p->known || p->ended) {
		if (in_flight(p))
			return false;
		if (p->shape != NULL)
			vacate(c, p);
		if (p->well && p->group != NULL)
			co_mark_group(c, p->group); /* it is one of those that are left, or not any more */
		co_state(c, p, CO_IDLE);
		return !p->known && p->claims == NULL && !p->ghost;
	}
	if (p->node != NULL) {
		settle_bound(c, p);
		return false;
	}
	if (in_flight(p))
		return false;
	if (p->deleting || p->gated) {
		vacate(c, p);
		co_state(c, p, CO_IDLE);
		return false;
	}
	if (p->claim != NULL && p->claim->node != NULL && !p->claim->deleting)
		settle_promised(c, p);
	else if (p->state != CO_PLACED || p->heard)
		settle_pending(c, p);
	return false;
}

/* --- everything that is marked ----------------------------------------------------------------- */

static int by_key(const void *pa, const void *pb)
{
	return strcmp((*(struct co_group *const *)pa)->key, (*(struct co_group *const *)pb)->key);
}

/* Those that are gone last. */
static int by_claim(const void *pa, const void *pb)
{
	const struct co_claim *a = *(struct co_claim *const *)pa, *b = *(struct co_claim *const *)pb;

	if (a == NULL || b == NULL)
		return (a == NULL) - (b == NULL);
	return rf_str_cmp(a->key, b->key);
}

static void free_pod(struct rf_core *c, struct co_pod *p)
{
	struct co_ns *s = p->ns;

	struct rf_str uid = p->uid;

	co_plans_forget(c, p);
	co_node_ref(&p->node, NULL, c);
	co_pod_free(c, p);
	rf_map_del(&c->pods, uid); /* the text is the map's */
	if (s != NULL)
		co_space_maybe_free(c, s);
}

/* A list that was gone through is used for what is marked next, if nothing is yet. */
#define REUSE(list, all)                                        \
	do {                                                    \
		if ((list)->cap == 0) {                         \
			rf_vec_clear(all);                      \
			memcpy((list), (all), sizeof(*(all)));  \
		} else {                                        \
			rf_vec_done(all);                       \
		}                                               \
	} while (0)

static void settle_pods(struct rf_core *c)
{
	RF_VEC(struct co_pod *) all = RF_VEC_INIT;

	/* What one of them marks is for the next round. */
	memcpy(&all, &c->dirty, sizeof(all));
	memset(&c->dirty, 0, sizeof(c->dirty));
	if (all.n > 1)
		qsort(all.at, all.n, sizeof(*all.at), by_age);
	for (size_t i = 0; i < all.n; i++) {
		all.at[i]->dirty = false;
		if (settle_pod(c, all.at[i]) && !all.at[i]->dirty)
			free_pod(c, all.at[i]);
		else
			co_leaver(c, all.at[i]);
	}
	REUSE(&c->dirty, &all);
}

static void settle_claims(struct rf_core *c)
{
	RF_VEC(struct co_claim *) all = RF_VEC_INIT;

	memcpy(&all, &c->dirty_claims, sizeof(all));
	memset(&c->dirty_claims, 0, sizeof(c->dirty_claims));
	if (all.n > 1)
		qsort(all.at, all.n, sizeof(*all.at), by_claim);
	for (size_t i = 0; i < all.n; i++) {
		struct co_claim *k = all.at[i];

		if (k == NULL)
			continue;
		k->dirty = false;
		co_seat_claim(c, k);
		if (k->pod != NULL && k->pod->held_for == k && !k->placed && k->retry) {
			k->pod->reseat = true;
			co_mark(c, k->pod);
		}
		k->retry = false;
	}
	REUSE(&c->dirty_claims, &all);
}

static void settle_groups(struct rf_core *c)
{
	RF_VEC(struct co_group *) all = RF_VEC_INIT;

	memcpy(&all, &c->dirty_groups, sizeof(all));
	memset(&c->dirty_groups, 0, sizeof(c->dirty_groups));
	if (all.n > 1)
		qsort(all.at, all.n, sizeof(*all.at), by_key);
	for (size_t i = 0; i < all.n; i++) {
		all.at[i]->dirty = false;
		co_group_settle(c, all.at[i]);
		co_group_maybe_free(c, all.at[i]);
	}
	REUSE(&c->dirty_groups, &all);
}

void co_settle(struct rf_core *c)
{
	co_wake(c);
	c->news += c->dirty.n > 0 || c->dirty_claims.n > 0 || c->dirty_groups.n > 0 || c->freed != 0 ||
		   c->queues_pending || c->capacity_stale;
	co_capacity(c);
	/* Two or three rounds do; what should still be marked then is for the next time. */
	for (int round = 0; round < 16 && (c->dirty.n > 0 || c->dirty_claims.n > 0 || c->dirty_groups.n > 0 ||
					   c->queues_pending);
	     round++) {
		co_queues_settle(c);
		settle_pods(c);
		settle_claims(c);
		if (c->dirty.n == 0)
			settle_groups(c);
	}
	co_limbo(c);
	if (c->refits)
		co_refit(c);
	co_capacity(c);
	co_usual(c);
	if (c->freed != 0)
		rf_queues_changed(c->queues, c->freed);
	c->freed = 0;
}
