/* Decisions: in the order in which to carry them out. */
#include "sched/core_private.h"

/* Reasons wait behind decisions, and come a few at a time: who is told of meanwhile waits for no more than that, and
 * finds the caches as it left them. */
#define SWEEP 16	/* pods whose reason is looked at again in one go */
#define SWEEP_MS 4	/* from one go to the next */
#define REASONS 600	/* nodes that are looked at for reasons in one go */
#define TRIES 256	 /* in vain, in one go: then others have a word */
#define SPEAK_MS 3000	 /* while there is no end of trying */

struct out {
	struct rf_core_decision *at; /* in the arena, as they are handed out */
	size_t n, cap;
	struct rf_arena *a;
	size_t most;
};

/* --- one decision ----------------------------------------------------------------------------- */

static struct rf_core_decision *one_more(struct out *o)
{
	struct rf_core_decision *was = o->at;

	if (o->n == o->cap) {
		o->cap = o->cap ? o->cap * 2 : 4;
		o->at = rf_arena_array(o->a, struct rf_core_decision, o->cap);
		if (o->n > 0)
			memcpy(o->at, was, o->n * sizeof(*was));
	}
	return &o->at[o->n++];
}

static struct rf_core_decision *say(struct rf_core *c, struct out *o, struct co_pod *p, enum rf_core_verdict v)
{
	const struct co_tenant *t = p->ns->tenant;
	struct rf_core_decision *d = one_more(o);

	(void)c;
	*d = (struct rf_core_decision){ .verdict = v,
					.uid = rf_arena_str(o->a, p->uid),
					.ns = rf_arena_str(o->a, rf_str(p->ns->name)),
					.name = rf_arena_str(o->a, p->name),
					.tenant = t != NULL ? rf_arena_str(o->a, rf_str(t->name)) : RF_STR_EMPTY };
	return d;
}

static size_t devices_of(const struct co_part *p)
{
	return (size_t)(p->ask.slices > 0 ? p->ask.slices : p->ask.share_bytes > 0 ? 1 : p->ask.cards);
}

/* A part's cards go to its containers in their order. */
static const struct co_part *container_of(const struct co_form *f, unsigned part, size_t nth)
{
	const struct co_part *last = NULL;

	for (size_t i = 0; i < f->n_parts; i++) {
		if (f->parts[i].part != part)
			continue;
		last = &f->parts[i];
		if (nth < devices_of(last))
			return last;
		nth -= devices_of(last);
	}
	return last;
}

static void fill_grant(struct rf_core *c, struct rf_arena *a, const struct co_node *n, const struct rf_fleet_grant *g,
		       const struct co_part *container, struct rf_sched_grant *ret)
{
	const struct co_slot *s = &n->slots[g->card];

	*ret = (struct rf_sched_grant){ .container = rf_arena_str(a, container->name),
					.device = rf_arena_str(a, rf_str(s->name)),
					.profile = RF_STR_EMPTY };
	if (g->kind == RF_FLEET_WHOLE) {
		ret->whole = true;
		ret->bytes = s->memory;
		ret->milli = RF_FLEET_MILLI;
	} else if (g->kind == RF_FLEET_SHARE) {
		ret->bytes = g->bytes;
		ret->milli = g->milli;
	} else {
		const struct rf_mig_profile *m = &c->models[s->model].gpu->mig[g->profile];

		ret->profile = rf_arena_str(a, rf_str(m->name));
		ret->start = g->start;
		ret->bytes = (int64_t)m->memory_mib << 20;
		ret->milli = m->slices * RF_FLEET_MILLI / RF_MIG_COMPUTE_SLICES;
	}
}

static void grants_of_hold(struct rf_core *c, struct rf_arena *a, const struct co_pod *p, struct rf_core_decision *d)
{
	size_t dealt[RF_FLEET_PARTS_MAX] = { 0 };
	const struct rf_fleet_grant *g;
	uint32_t node;

	g = rf_fleet_hold(c->fleet, p->hold, &node, &d->n_grants);
	rf_assert(g != NULL);
	d->grants = rf_arena_array(a, struct rf_sched_grant, RF_MAX(d->n_grants, 1));
	for (size_t i = 0; i < d->n_grants; i++)
		fill_grant(c, a, p->seat, &g[i], container_of(p->shape->form, g[i].part, dealt[g[i].part]++),
			   &d->grants[i]);
}

static void grants_of_claim(struct rf_arena *a, const struct co_claim *k, struct rf_core_decision *d)
{
	d->n_grants = k->n;
	d->grants = rf_arena_array(a, struct rf_sched_grant, RF_MAX(k->n, 1));
	for (size_t i = 0; i < k->n; i++) {
		const struct co_grant *g = &k->grants[i];

		d->grants[i] = (struct rf_sched_grant){
			.container = rf_arena_str(a, g->container),
			.device = g->slot < k->node->n_slots ? rf_arena_str(a, rf_str(k->node->slots[g->slot].name)) :
							       RF_STR_EMPTY,
			.bytes = g->bytes,
			.milli = g->milli,
			.whole = g->whole,
			.profile = rf_arena_str(a, g->profile),
			.start = g->start,
		};
	}
}

static void say_bind(struct rf_core *c, struct out *o, struct co_pod *p, size_t left)
{
	struct rf_core_decision *d = say(c, o, p, RF_CORE_BIND);
	bool promised = p->state == CO_PROMISED;

	d->node = rf_arena_str(o->a, rf_str(p->seat->name));
	d->promised = promised;
	d->commit_left = left;
	if (p->group != NULL && p->group->says && !p->group->started && !p->group->was_whole)
		d->group = rf_arena_str(o->a, rf_str(p->group->name));
	p->commit = c->commits;
	c->commits += left == 0;
	if (promised && p->claim != NULL)
		grants_of_claim(o->a, p->claim, d);
	else
		grants_of_hold(c, o->a, p, d);
	co_todo(c, p, CO_ASKED);
}

/* --- what is to be said already ----------------------------------------------------------------- */

static void say_promised_gang(struct rf_core *c, struct out *o, struct co_group *g)
{
	size_t n = 0;

	for (const struct co_pod *p = g->pods; p != NULL; p = p->group_next)
		n += p->todo == CO_BIND;
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->todo == CO_BIND)
			say_bind(c, o, p, --n);
	}
}

static void say_release(struct rf_core *c, struct out *o, struct co_pod *p)
{
	const struct co_claim *k = p->claim;
	struct rf_core_decision *d = say(c, o, p, RF_CORE_RELEASE);

	if (k == NULL)
		return;
	if (k->node != NULL)
		d->node = rf_arena_str(o->a, rf_str(k->node->name));
	grants_of_claim(o->a, k, d);
	d->promised = true;
	d->reason = !co_claim_good(k) ?
			    rf_arena_printf(o->a,
					    "claim %.*s holds a card on node %.*s that is gone or out of service; it is "
					    "released and placed anew. resource=cards level=node need=%zu have=0 help=wait",
					    RF_STR(k->name), RF_STR(d->node), k->n) :
		    p->fails >= CO_PROMISE_FAILS ?
			    rf_arena_printf(o->a,
					    "claim %.*s: its pod could not be bound to node %.*s; the claim is released and the pod "
					    "placed anew. resource=cards level=node need=%zu have=0 help=wait",
					    RF_STR(k->name), RF_STR(d->node), k->n) :
			    rf_arena_printf(o->a,
					    "claim %.*s belongs to group %s, which cannot be whole now; all its claims are released. "
					    "resource=pods level=group need=%lld have=%zu help=wait",
					    RF_STR(k->name), p->group != NULL ? p->group->name : "",
					    p->group != NULL ? (long long)p->group->min : 0,
					    p->group != NULL ? p->group->have : 0);
	co_state(c, p, CO_BARRED);
	p->bar = CO_BAR_CLAIM;
	co_todo(c, p, CO_ASKED);
}

static void say_evict(struct rf_core *c, struct out *o, struct co_pod *p)
{
	struct rf_core_decision *d = say(c, o, p, RF_CORE_EVICT);

	if (p->seat != NULL)
		d->node = rf_arena_str(o->a, rf_str(p->seat->name));
	d->reason = co_why_evict(c, p, o->a, &d->cause);
	if (p->whole && p->group != NULL) {
		p->group->going++;
		if (p->group->ending == 0)
			p->group->ending = p->group->ending_was = c->now;
		co_mark_group(c, p->group); /* nobody is let in alone from now on */
		d->group = rf_arena_str(o->a, rf_str(p->group->name));
	}
	co_todo(c, p, CO_ASKED);
}

static void say_todo(struct rf_core *c, struct out *o)
{
	size_t i = 0;

	for (; i < c->todo.n && o->n < o->most; i++) {
		struct co_pod *p = c->todo.at[i];

		if (p == NULL)
			continue;
		if (p->todo == CO_BIND && p->group != NULL && !p->group->started && !p->group->was_whole)
			say_promised_gang(c, o, p->group);
		else if (p->todo == CO_BIND)
			say_bind(c, o, p, 0);
		else if (p->todo == CO_RELEASE)
			say_release(c, o, p);
		else if (p->todo == CO_EVICT)
			say_evict(c, o, p);
	}
	if (i == 0)
		return;
	memmove(c->todo.at, c->todo.at + i, (c->todo.n - i) * sizeof(*c->todo.at));
	c->todo.n -= i;
}

/* --- what starts ------------------------------------------------------------------------------- */

static void say_started(struct rf_core *c, struct out *o, struct co_work *w)
{
	struct co_group *g = w->group;
	size_t n = w->n;

	/* What was promised of this gang is bound with the rest of it. */
	for (const struct co_pod *p = g != NULL ? g->pods : NULL; p != NULL; p = p->group_next)
		n += p->state == CO_PROMISED && p->todo != CO_ASKED;
	for (struct co_pod *p = w->first; p != NULL; p = p->work_next)
		say_bind(c, o, p, --n);
	for (struct co_pod *p = g != NULL ? g->pods : NULL; p != NULL; p = p->group_next) {
		if (p->state == CO_PROMISED && p->todo != CO_ASKED)
			say_bind(c, o, p, --n);
	}
}

/* Gangs of which only promises are left, and which could not be completed. */
static bool give_up_mending(struct rf_core *c)
{
	bool any = false;

	for (size_t i = 0; i < c->broken.n; i++) {
		struct co_group *g = c->broken.at[i];

		if (!g->mending)
			continue;
		g->tried = true;
		g->mending = false;
		co_mark_group(c, g);
		any = true;
	}
	return any;
}

static uint64_t may_help(const struct co_work *w)
{
	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		if (rf_wish_moves(p->shape->wish))
			return 0; /* anything */
	}
	return ~CO_NEIGHBOURS;
}

/* What is decided is said before more is tried in vain than that. */
static bool enough(const struct out *o, size_t vain, size_t vain_since)
{
	return vain >= TRIES || (o->n > 0 && vain_since >= o->n);
}

/* Rounded up, where what is needed is rounded down: who is passed over does not fit. */
static int32_t mib(int64_t bytes)
{
	return (int32_t)((bytes + (1 << 20) - 1) >> 20);
}

static void tell_left(struct rf_core *c)
{
	struct rf_fleet_left left = rf_fleet_left(c->fleet);
	const struct rf_queue_need most = { { [CO_NEED_CARDS] = (int32_t)left.cards,
					      [CO_NEED_CPU] = (int32_t)left.cpu_milli,
					      [CO_NEED_MEMORY] = mib(left.memory),
					      [CO_NEED_CPU_BESIDE] = (int32_t)left.beside.cpu_milli,
					      [CO_NEED_MEMORY_BESIDE] = mib(left.beside.memory) } };

	rf_queues_left(c->queues, &most);
}

/* One refusal is for all that ask for the same, and who has a plan may be behind one of a gang that has no claim: it is tried,
 * too, now that there is room for it. */
static struct co_work *start_behind(struct rf_core *c, const struct co_work *refused, int64_t members)
{
	struct co_work *w;

	for (size_t i = 0; (w = co_plan_behind(c, refused, i)) != NULL; i++) {
		if (co_start(c, w, members))
			return w;
	}
	return NULL;
}

static void start_all(struct rf_core *c, struct out *o)
{
	size_t vain = 0, vain_since = 0; /* since something was decided */

	c->unfinished = false;
	co_settle(c);
	co_plans_review(c);
	for (;;) {
		struct rf_workload_view v;
		struct rf_workload *w;
		struct co_work *started;
		int64_t members = 0;

		co_settle(c);
		say_todo(c, o);
		if (o->n >= o->most)
			return;
		if (c->dirty_groups.n > 0)
			continue; /* a gang was told to go */
		c->unfinished = enough(o, vain, vain_since);
		if (c->unfinished)
			return;
		co_ahead(c);
		tell_left(c);
		w = rf_queues_next(c->queues, c->now, &members);
		c->unfinished = w == NULL && o->n > 0; /* plans take time */
		if (c->unfinished)
			return;
		if (w == NULL) {
			if (!give_up_mending(c) && !co_plan(c))
				return;
			continue;
		}
		rf_workload_view(w, &v);
		started = co_start(c, v.user, members) ? v.user : start_behind(c, v.user, members);
		if (started != NULL) {
			say_started(c, o, started);
			continue;
		}
		vain++;
		vain_since += o->n > 0;
		rf_queues_refuse(c->queues, w, may_help(v.user));
		(void)co_plan_failed(c, v.user);
	}
}

/* --- telling who waits -------------------------------------------------------------------------- */

static void tell(struct rf_core *c, struct out *o, struct co_pod *p, struct rf_arena *words)
{
	uint64_t number;

	rf_arena_reset(words);
	number = co_why_number(c, p, words);
	if (number != p->told) {
		say(c, o, p, RF_CORE_WAIT)->reason = rf_arena_str(o->a, co_why(c, p, words));
		p->told = number;
		p->told_ms = c->now;
	}
	co_waits(c, p, 2);
}

static void tell_fresh(struct rf_core *c, struct out *o)
{
	rf_auto(arena) words = RF_ARENA_INIT;
	int64_t every = c->config.tell_ms;

	co_sort_fresh(c);
	while (c->fresh != NULL && o->n < o->most && c->looked < REASONS) {
		struct co_pod *p = c->fresh;

		if (p->told != 0 && (every == 0 || c->now - p->told_ms < every)) {
			co_waits(c, p, 2); /* heard something a moment ago: with the others */
			if (every > 0)
				co_tick(c);
		} else {
			tell(c, o, p, &words);
		}
	}
}

/* Who was told is looked at again if anything changed since, not all the time, and not all of them at once. */
static int64_t sweep_at(const struct rf_core *c)
{
	if (!c->sweeping && (c->config.tell_ms <= 0 || c->told == NULL || c->ticks == c->swept))
		return INT64_MAX;
	return c->sweeping ? c->sweep_ms : c->swept_ms + c->config.tell_ms;
}

static void tell_again(struct rf_core *c, struct out *o)
{
	rf_auto(arena) words = RF_ARENA_INIT;

	if (c->now < sweep_at(c))
		return;
	if (!c->sweeping) {
		c->sweeping = true;
		c->swept = c->ticks;
		c->swept_ms = c->now;
		c->sweep = c->told;
	}
	for (size_t i = 0; c->sweep != NULL && i < SWEEP && c->looked < REASONS && o->n < o->most; i++) {
		struct co_pod *p = c->sweep;

		c->sweep = p->wait_next;
		tell(c, o, p, &words);
	}
	c->sweeping = c->sweep != NULL;
	c->sweep_ms = c->now + SWEEP_MS;
}

/* --- the interface ------------------------------------------------------------------------------ */

static bool anything_marked(const struct rf_core *c)
{
	return c->dirty.n > 0 || c->dirty_groups.n > 0 || c->dirty_claims.n > 0 || c->todo.n > 0 || c->freed != 0 ||
	       c->queues_pending || c->capacity_stale || c->limbo_stale;
}

/* A call that could have changed nothing is left out. */
static void log_decide(struct rf_core *c, const struct out *o, uint64_t ticks, bool marked)
{
	if (!marked && o->n == 0 && ticks == c->ticks)
		return;
	CO_LOG(c, RF_LOG_DECIDE, .most = (int64_t)RF_MIN(o->most, (size_t)INT64_MAX));
	for (size_t i = 0; i < o->n; i++)
		CO_LOG(c, RF_LOG_DECISION, .decision = o->at[i]);
}

/* When what is marked is settled may matter for ties, so that a replay does it here, too: most 0 only settles. */
void co_look(struct rf_core *c)
{
	if (anything_marked(c) || c->now >= c->wake_ms)
		CO_LOG(c, RF_LOG_DECIDE, .most = 0);
	co_settle(c);
}

size_t rf_core_decide(struct rf_core *c, int64_t now_ms, size_t most, struct rf_arena *a,
		      struct rf_core_decision **ret)
{
	struct out o = { .a = a, .most = most };
	uint64_t ticks = c->ticks;
	bool marked;

	c->now = RF_MAX(c->now, now_ms);
	marked = anything_marked(c) || c->fresh != NULL || c->unfinished || c->now >= sweep_at(c) || co_ahead_ready(c) ||
		 c->now >= c->wake_ms;
	c->attempts = 64;
	c->looked = 0;
	if (!c->unfinished)
		c->spoke_ms = c->now;
	if (most > 0)
		start_all(c, &o);
	else
		co_settle(c);
	/* Where there is no end of trying, reasons have their time, too. */
	if (o.n < most && (!c->unfinished || c->now >= c->spoke_ms + SPEAK_MS)) {
		c->spoke_ms = c->now;
		tell_fresh(c, &o);
		tell_again(c, &o);
	}
	co_plans_seen(c);
	log_decide(c, &o, ticks, marked);
	*ret = o.at;
	return o.n;
}

int64_t rf_core_next_ms(const struct rf_core *c, int64_t now_ms)
{
	int64_t next = c->wake_ms, start;

	if (anything_marked(c) || c->fresh != NULL || c->unfinished)
		return now_ms;
	next = RF_MIN(next, sweep_at(c));
	if (c->told != NULL && c->config.reserve_after_ms > 0 && (c->ticks != c->ahead_tick || c->ahead_wake < INT64_MAX))
		next = RF_MIN(next, c->ticks != c->ahead_tick ? c->ahead_ms : RF_MAX(c->ahead_ms, c->ahead_wake));
	for (size_t i = 0; rf_queues_reserved(c->queues, i, &start) != NULL; i++) {
		if (start > now_ms)
			next = RF_MIN(next, start);
	}
	next = RF_MIN(next, co_plan_next(c));
	return next == INT64_MAX ? next : RF_MAX(next, now_ms);
}

/* --- failures ----------------------------------------------------------------------------------- */

/* Its place is free again. */
static void undo(struct rf_core *c, struct co_pod *p)
{
	struct co_group *g = p->group;

	co_work_leave(c, p);
	co_seat(c, p, NULL);
	co_state(c, p, CO_IDLE);
	co_todo(c, p, CO_NOTHING);
	co_mark(c, p);
	if (g != NULL)
		co_mark_group(c, g);
}

/* Of a gang: with one the whole commit fails, but for those whose claims are there. These are said again. What was said
 * in another commit is carried out nevertheless. */
static void undo_commit(struct rf_core *c, struct co_group *g, uint64_t commit)
{
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->commit != commit)
			continue;
		if (p->state == CO_PLACED && p->todo == CO_ASKED)
			undo(c, p);
		else if (p->state == CO_PROMISED && p->todo == CO_ASKED)
			co_todo(c, p, CO_NOTHING);
		co_mark(c, p); /* and ghosts may go */
	}
}

static void pause_bind(struct rf_core *c, struct co_pod *p, struct rf_str why)
{
	struct co_group *g = p->group;

	co_pause(c, p, why);
	if (g != NULL && !g->started && !g->was_whole) {
		g->again_ms = RF_MAX(g->again_ms, p->again_ms);
		co_mark_group(c, g);
	}
	co_mark(c, p);
}

static void failed_bind(struct rf_core *c, struct co_pod *p, struct rf_str why)
{
	pause_bind(c, p, why);
	if (p->group != NULL) {
		undo_commit(c, p->group, p->commit);
		co_mark_group(c, p->group);
	}
	if (p->state == CO_PLACED)
		undo(c, p);
	else
		co_todo(c, p, CO_NOTHING);
	if (p->state == CO_PROMISED && p->fails >= CO_PROMISE_FAILS) {
		co_state(c, p, CO_BARRED);
		p->bar = CO_BAR_CLAIM;
		co_todo(c, p, CO_RELEASE);
	}
	co_mark(c, p);
}

/* It went meanwhile, is bound after all, or something else was decided of it: the others of its commit are not carried out all
 * the same. */
static void failed_bind_before(struct rf_core *c, struct co_pod *p, struct rf_str why)
{
	if (p->group != NULL && p->commit > 0) {
		undo_commit(c, p->group, p->commit);
		co_mark_group(c, p->group);
	}
	if (p->todo != CO_ASKED && p->known && (p->state == CO_QUEUED || p->state == CO_BARRED))
		pause_bind(c, p, why); /* its claim was deleted before this was said */
}

/* Of what was said of it and not answered. */
static enum rf_core_verdict asked(const struct co_pod *p)
{
	return p->evicting ? RF_CORE_EVICT : p->state == CO_PLACED || p->state == CO_PROMISED ? RF_CORE_BIND : RF_CORE_RELEASE;
}

void rf_core_failed(struct rf_core *c, enum rf_core_verdict what, struct rf_str uid, struct rf_str why, int64_t now_ms)
{
	struct co_pod *p = rf_map_get(&c->pods, uid);

	c->now = RF_MAX(c->now, now_ms);
	CO_LOG(c, RF_LOG_FAILED, .verdict = what, .uid = uid, .why = why);
	if (p == NULL)
		return;
	co_settle(c); /* what was told before counts before */
	p = rf_map_get(&c->pods, uid);
	if (p == NULL)
		return;
	if (p->todo != CO_ASKED || asked(p) != what) {
		if (what == RF_CORE_BIND)
			failed_bind_before(c, p, why);
		return;
	}
	if (what == RF_CORE_EVICT) {
		co_evict_failed(c, p, why);
		return;
	}
	if (what == RF_CORE_BIND) {
		failed_bind(c, p, why);
	} else { /* a claim could not be deleted: again later */
		co_pause(c, p, why);
		co_todo(c, p, CO_NOTHING);
	}
	co_mark(c, p);
}

/* --- looking ------------------------------------------------------------------------------------ */

struct rf_str rf_core_why(struct rf_core *c, struct rf_str uid, int64_t now_ms, struct rf_arena *a)
{
	struct co_pod *p = rf_map_get(&c->pods, uid);

	c->now = RF_MAX(c->now, now_ms);
	if (p == NULL)
		return RF_STR_EMPTY;
	co_look(c);
	p = rf_map_get(&c->pods, uid);
	return p != NULL && p->waits != 0 ? co_why(c, p, a) : RF_STR_EMPTY;
}

static bool comes_before(const struct co_work *a, const struct co_work *b)
{
	return a != b && !a->running && co_before(a->first, b->first);
}

int64_t rf_core_position(struct rf_core *c, struct rf_str uid)
{
	struct co_pod *p;
	int64_t n = 0;

	co_look(c);
	p = rf_map_get(&c->pods, uid);
	if (p == NULL || p->state != CO_QUEUED || p->work == NULL)
		return -1;
	for (int list = 0; list < 2; list++) {
		for (const struct co_pod *o = list == 0 ? c->fresh : c->told; o != NULL; o = o->wait_next) {
			if (o->state == CO_QUEUED && o->work != NULL && o->work->first == o &&
			    o->work->queue == p->work->queue && comes_before(o->work, p->work))
				n++;
		}
	}
	return n;
}

int rf_core_audit(struct rf_core *c, int64_t now_ms, struct rf_err *err)
{
	c->now = RF_MAX(c->now, now_ms);
	co_look(c);
	if (!rf_fleet_audit(c->fleet, err))
		return -RF_INTERNAL;
	if (rf_queues_recount(c->queues, c->now, err) < 0)
		return -RF_INTERNAL;
	return co_audit(c, err);
}
