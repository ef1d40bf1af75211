/* Taking back: who has a claim is looked for, and a plan for it (evict.h), which is said; and what comes of what was said. */
#include "sched/core_plans.h"

#define ATTEMPTS 8	 /* plans that are looked for in one go */
#define MANY_WAIT 512 /* with more who wait, candidates are looked for only every so often */
#define LOOK_MS 100
#define LOOK_MOST 64 /* of a queue, then */
#define VAIN_COST 16 /* of the attempts of one go, then: what is looked for in vain takes milliseconds */
#define VAIN_MOST 64 /* of a queue, then: after that it is looked at less and less often, down to VAIN_MS */
#define VAIN_MS 1000
#define LEAVES 3 /* so often one is looked for that leaves more untouched for who goes */
#define LATE_MS 300000 /* after its grace a victim should be gone by then */

/* --- what is on its way ------------------------------------------------------------------------ */

static void clean_flight(struct rf_core *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->flight.n; i++) {
		struct co_pod *p = c->flight.at[i];

		if (p == NULL)
			continue;
		p->flies = p->state == CO_PLACED;
		if (p->flies)
			c->flight.at[n++] = p;
	}
	c->flight.n = n;
}

void co_fly(struct rf_core *c, struct co_pod *p)
{
	if (p->flies)
		return;
	if (c->flight.n >= 64 && (c->flight.n & (c->flight.n - 1)) == 0)
		clean_flight(c);
	p->flies = true;
	rf_vec_push(&c->flight, p);
}

static struct co_queue *parent_of(struct rf_core *c, const struct co_queue *q)
{
	return q->put && q->v.parent.n > 0 ? rf_map_get(&c->queue_map, q->v.parent) : NULL;
}

static struct co_flight *flight_of(struct rf_core *c, const struct co_queue *q, int64_t resource)
{
	for (size_t i = 0; i < c->flights.n; i++) {
		if (c->flights.at[i].queue == q && c->flights.at[i].resource == resource)
			return &c->flights.at[i];
	}
	return NULL;
}

/* Models only where quotas speak of them: else they may not be in the books (co_spec). */
static void charge_judged(struct rf_core *c, const struct co_pod *p, struct co_charge *ret)
{
	co_charge_held(c, p, ret);
	if (c->model_quotas == 0)
		co_leave_out_models(c, ret);
}

/* What may still fail must not make a queue look as if it were over its guarantee. */
static void count_flight(struct rf_core *c)
{
	clean_flight(c);
	rf_vec_clear(&c->flights);
	for (size_t i = 0; i < c->flight.n; i++) {
		struct co_charge ch = { .n = 0 };

		charge_judged(c, c->flight.at[i], &ch);
		for (struct co_queue *q = c->flight.at[i]->work != NULL ? c->flight.at[i]->work->queue : NULL; q != NULL;
		     q = parent_of(c, q)) {
			for (size_t k = 0; k < ch.n; k++) {
				struct co_flight *f = flight_of(c, q, ch.ask[k].resource);

				if (f == NULL) {
					rf_vec_push(&c->flights, ((struct co_flight){ q, ch.ask[k].resource, 0 }));
					f = &c->flights.at[c->flights.n - 1];
				}
				f->amount += ch.ask[k].amount;
			}
		}
	}
}

/* Is the queue over its guarantee in something of this, and only by what is on its way? */
static bool over_by_flight(struct rf_core *c, const struct co_queue *q, const struct co_charge *ch)
{
	struct rf_queue_ask less[RF_QUEUE_RES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < c->flights.n; i++) {
		if (c->flights.at[i].queue == q)
			less[n++] = (struct rf_queue_ask){ c->flights.at[i].resource, c->flights.at[i].amount };
	}
	return rf_queue_over(c->queues, q->at, ch->ask, ch->n, NULL, 0) && !rf_queue_over(c->queues, q->at, ch->ask, ch->n, less, n);
}

/* By the books as they are now, in which what goes anyway may be gone. */
static bool shielded(void *ctx, const struct rf_workload *rw)
{
	struct rf_core *c = ctx;
	struct co_charge ch = { .n = 0 };
	struct rf_workload_view v;
	const struct co_work *w;

	if (c->flights.n == 0)
		return false;
	rf_workload_view(rw, &v);
	w = v.user;
	for (const struct co_pod *p = w->first; p != NULL; p = v.members == (int64_t)w->n ? NULL : p->work_next)
		charge_judged(c, p, &ch);
	for (const struct co_queue *q = w->queue; q != NULL && q->at != NULL; q = parent_of(c, q)) {
		if (over_by_flight(c, q, &ch))
			return true;
	}
	return false;
}

/* --- what the planner asks -------------------------------------------------------------------- */

/* One that its tenant deletes with a grace of a year does not leave: it is evicted, which cuts that short. */
bool co_leaves(const struct co_pod *p)
{
	return (p->deleting && p->grace <= CO_GRACE_MS) || p->evicting || p->ended || !p->known;
}

void co_leaver(struct rf_core *c, struct co_pod *p)
{
	if (p->leaver || p->state != CO_BOUND || !co_leaves(p))
		return;
	p->leaver = true;
	p->leaver_at = c->leavers.n;
	rf_vec_push(&c->leavers, p);
}

void co_leaver_drop(struct rf_core *c, struct co_pod *p)
{
	struct co_pod *last;

	if (!p->leaver)
		return;
	last = c->leavers.at[--c->leavers.n];
	c->leavers.at[p->leaver_at] = last;
	last->leaver_at = p->leaver_at;
	p->leaver = false;
}

static bool any_leaves(struct rf_core *c)
{
	for (size_t i = c->leavers.n; i-- > 0;) {
		if (c->leavers.at[i]->state != CO_BOUND || !co_leaves(c->leavers.at[i]))
			co_leaver_drop(c, c->leavers.at[i]);
	}
	return c->leavers.n > 0 || c->left.n > 0;
}

/* Not all of it that was decided is bound yet: what would be left of it is not known. */
static bool is_coming(const struct co_group *g)
{
	bool coming = false;

	for (const struct co_pod *p = g->pods; p != NULL && !g->was_whole && !g->started; p = p->group_next)
		coming = coming || (p->seat != NULL && p->state != CO_BOUND);
	return coming;
}

/* On a card that is not there any more: that comes back to nobody with it. */
static bool is_on_gone_card(const struct co_pod *p)
{
	const struct co_claim *k = p->held_for;

	for (size_t i = 0; k != NULL && i < k->n; i++) {
		if (k->grants[i].slot >= k->node->n_slots || !k->node->slots[k->grants[i].slot].there)
			return true;
	}
	return false;
}

/* Those that matter least first, and before them those of whom nobody knows when they go. */
static int by_importance(const void *pa, const void *pb)
{
	const struct co_pod *a = ((const struct rf_evict_member *)pa)->user, *b = ((const struct rf_evict_member *)pb)->user;

	if (a == NULL || b == NULL)
		return (a != NULL) - (b != NULL);
	return co_before(b, a) ? -1 : co_before(a, b);
}

static size_t members_of(void *ctx, const struct rf_workload *rw, const struct rf_evict_member **ret)
{
	struct rf_core *c = ctx;
	struct rf_workload_view v;
	const struct co_work *w;
	bool stays;

	rf_workload_view(rw, &v);
	w = v.user;
	rf_vec_clear(&c->members);
	*ret = NULL;
	if (w->claim != NULL) { /* what a pod left behind goes by itself */
		struct rf_evict_member m = { w->claim->hold, w->claim->pod, .leaving = true };

		if (m.hold == 0 || m.user == NULL || !w->claim->node->there) /* its node is gone, or it is nobody's */
			m = (struct rf_evict_member){ .leaving = true };
		rf_vec_push(&c->members, m);
	}
	stays = w->group != NULL && is_coming(w->group);
	for (struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		/* not yet bound: it cannot be evicted; nor where no node ends it, and its cards are gone with it, or where they are gone already; nor for another
		 * of its own gang */
		bool bound = p->hold != 0 && p->state == CO_BOUND && p->seat->there;
		bool own = p->group != NULL && p->group == c->planning_of;

		if (!bound && p->state == CO_BOUND && co_leaves(p)) /* its node is gone: nobody knows when */
			rf_vec_push(&c->members, ((struct rf_evict_member){ .leaving = true }));
		else
			rf_vec_push(&c->members, ((struct rf_evict_member){ p->hold, p, bound && co_leaves(p), stays || !bound || own || is_on_gone_card(p) }));
	}
	if (c->members.n > 1)
		qsort(c->members.at, c->members.n, sizeof(*c->members.at), by_importance);
	*ret = c->members.at;
	return c->members.n;
}

static bool match_holds(const struct rf_sched_match *m, const struct co_labels *l)
{
	const struct rf_str *value = NULL;
	bool in = false;

	for (size_t i = 0; l != NULL && i < l->n; i++) {
		if (rf_str_eq(l->at[i].key, m->key))
			value = &l->at[i].value;
	}
	for (size_t i = 0; value != NULL && i < m->n_values; i++)
		in = in || rf_str_eq(*value, m->values[i]);
	switch (m->op) {
	case RF_SCHED_IN:
		return in;
	case RF_SCHED_NOT_IN:
		return !in;
	case RF_SCHED_EXISTS:
		return value != NULL;
	case RF_SCHED_ABSENT:
		return value == NULL;
	default:
		return false;
	}
}

static bool in_budget(const struct co_budget *b, const struct co_pod *p)
{
	if (!rf_str_is(b->v.ns, p->ns->name))
		return false;
	if (b->v.labels.n == 0)
		return b->v.any;
	for (size_t i = 0; i < b->v.labels.n; i++) {
		if (!match_holds(&b->v.labels.all[i], p->labels))
			return false;
	}
	return true;
}

static void clean_going(struct rf_core *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->going.n; i++) {
		struct co_pod *p = c->going.at[i];

		p->goes = p->evicting && p->todo != CO_NOTHING && !p->deleting;
		if (p->goes)
			c->going.at[n++] = p;
	}
	c->going.n = n;
}

/* Of what a budget allows, evictions that were said and are not heard of yet are taken off; also where nobody needs them any
 * more. */
static int64_t allowed(struct rf_core *c, const struct co_budget *b)
{
	int64_t n = b->v.allowed;

	clean_going(c);
	for (size_t i = 0; i < c->going.n; i++)
		n -= in_budget(b, c->going.at[i]);
	return n;
}

/* One more of those that go: do its budgets leave it? */
static bool one_may_go(struct rf_core *c, const struct co_pod *p)
{
	size_t labels = p->labels != NULL ? p->labels->n : 0;

	for (size_t i = 0; i <= labels; i++) {
		for (struct co_budget *b = co_budgets_of(c, p, i); b != NULL; b = b->next) {
			if (!in_budget(b, p))
				continue;
			if (b->round != c->budget_round)
				b->left = allowed(c, b);
			b->round = c->budget_round;
			if (--b->left < 0)
				return false;
		}
	}
	return true;
}

bool co_may_go(void *ctx, const struct rf_evict_member *const *go, size_t n)
{
	struct rf_core *c = ctx;

	c->budget_round++;
	for (size_t i = 0; i < n && c->budgets.n > 0; i++) {
		const struct co_pod *p = go[i]->user;

		/* one that is deleted is not among those that a budget protects */
		if (!go[i]->leaving && !p->deleting && !one_may_go(c, p))
			return false;
	}
	return true;
}

void co_evict_gone(void *ctx, const struct rf_evict_member *m)
{
	struct rf_core *c = ctx;
	const struct co_pod *p = m->user;

	if (p != NULL && p->wished)
		rf_wish_off(c->wishes, p->shape->wish, p->seat->handle);
}

void co_evict_back(void *ctx, const struct rf_evict_member *m)
{
	struct rf_core *c = ctx;
	const struct co_pod *p = m->user;

	if (p != NULL && p->wished)
		rf_wish_on(c->wishes, p->shape->wish, p->seat->handle);
}

static struct rf_evict_world world_of(struct rf_core *c)
{
	return (struct rf_evict_world){ .fleet = c->fleet,
					.queues = c->queues,
					.members = members_of,
					.may_go = co_may_go,
					.shielded = shielded,
					.gone = co_evict_gone,
					.back = co_evict_back,
					.ctx = c,
					.how.policy = c->config.reclaim,
					.most = c->config.victims_most };
}

/* --- new plans ---------------------------------------------------------------------------------- */

static bool candidate(struct rf_core *c, const struct co_work *w)
{
	const struct co_shape *s = w->first->shape;

	if (w->plan != NULL || w->planned == c->news + 1)
		return false;
	if (w->plan_after > c->now) {
		co_plan_wake(c, w->plan_after);
		return false;
	}
	/* One like it had no luck a moment ago. */
	if (w->group == NULL && s->planned == c->news + 1 && s->planned_queue == w->queue &&
	    s->planned_priority == w->first->priority && s->planned_preemptible == w->preemptible &&
	    s->planned_patient == w->patient &&
	    (co_ahead_may(c, w) & ~s->planned_may) == 0 &&
	    (s->planned_group == NULL || s->planned_group == w->first->group))
		return false;
	return (!w->patient && (rf_workload_entitled(c->queues, w->w, c->config.reclaim, c->now) || co_outranks(w))) ||
	       co_ahead_due(c, w);
}

/* One of each queue, the one whose turn is first there. Where so many wait that not all can be tried each time, queues
 * take turns, and so do those who wait in one, behind the first. */
struct candidates {
	struct rf_core *c;
	struct co_work **at; /* in the order of their turn */
	size_t n, most;
	bool turns, behind; /* behind: the first of each queue was tried */
};

static bool many_wait(const struct rf_core *c)
{
	return c->n_waits > MANY_WAIT;
}

static bool sooner(const struct co_work *a, const struct co_work *b, bool turns)
{
	return turns && a->planned != b->planned ? a->planned < b->planned : co_before(a->first, b->first);
}

static void consider(void *ctx, struct rf_workload *rw)
{
	struct candidates *v = ctx;
	struct rf_workload_view view;
	struct co_work *w;
	size_t i = 0;

	rf_workload_view(rw, &view);
	w = view.user;
	if (w->first == NULL || w->first->state != CO_QUEUED || !candidate(v->c, w))
		return;
	while (i < v->n && v->at[i]->queue != w->queue)
		i++;
	if (i < v->n && !sooner(w, v->at[i], v->behind))
		return;
	if (i == v->most && sooner(v->at[i - 1], w, v->turns)) {
		v->c->plan_more = true;
		return;
	}
	v->c->plan_more |= i == v->most;
	v->n += i == v->n && i < v->most;
	for (i = RF_MIN(i, v->most - 1); i > 0 && sooner(w, v->at[i - 1], v->turns); i--)
		v->at[i] = v->at[i - 1];
	v->at[i] = w;
}

/* Of a queue: it is passed over for a while where what was looked for was in vain again and again. */
static void look_in(struct candidates *v, struct rf_queue *q)
{
	struct rf_core *c = v->c;
	const struct co_queue *of = rf_map_get(&c->queue_map, rf_queue_name(q));
	struct rf_claims claims = { .policy = c->config.reclaim,
				    .above = of != NULL && of->ranks.n > 0 ? of->ranks.at[0].priority : INT64_MAX,
				    .most = v->turns ? LOOK_MOST : SIZE_MAX,
				    .round = c->news + 1,
				    .look = consider,
				    .ctx = v };

	if ((v->turns && of != NULL && of->plan_after > c->now) || rf_queue_claims(c->queues, q, &claims, c->now))
		c->plan_more = true;
}

static size_t find_candidates(struct rf_core *c, struct co_work **ret, size_t most, bool behind)
{
	bool turns = many_wait(c);
	struct candidates v = { .c = c, .at = ret, .most = most, .turns = turns, .behind = turns && behind };
	struct rf_queue *q;
	struct rf_workload *w;
	int64_t start;

	for (size_t i = 0; (w = rf_queues_reserved(c->queues, i, &start)) != NULL; i++) {
		if (start <= c->now)
			consider(&v, w);
	}
	for (size_t i = 0; (q = rf_queues_waiting(c->queues, i)) != NULL; i++)
		look_in(&v, q);
	return v.n;
}

static bool goes_as_a_whole(const struct co_group *g)
{
	int64_t stay = 0;

	for (const struct co_pod *p = g->pods; p != NULL; p = p->group_next)
		stay += p->state == CO_BOUND && !co_leaves(p);
	return g->known && stay < g->min;
}

/* With those that other plans took of it before. */
static void note_whole(struct co_group *g)
{
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->state != CO_BOUND || !p->evicting || p->whole)
			continue;
		p->whole = true;
		g->going += p->todo == CO_ASKED;
	}
}

static void note_gangs(struct rf_core *c, const struct rf_evict_plan *plan)
{
	const struct co_group *last = NULL;

	for (size_t i = 0; i < plan->n; i++) {
		struct co_pod *v = plan->go[i]->user;

		if (v == NULL || v->group == NULL || v->group == last || v->todo != CO_EVICT)
			continue;
		last = v->group; /* those of a gang are beside each other */
		if (goes_as_a_whole(v->group))
			note_whole(v->group);
		co_mark_group(c, v->group);
	}
}

static void carry_out(struct rf_core *c, struct co_plan *p)
{
	int64_t grace = 0;

	for (size_t i = 0; i < p->plan.n; i++) {
		struct co_pod *v = p->plan.go[i]->user;

		if (v == NULL)
			continue;
		grace = RF_MAX(grace, RF_MIN(v->grace, CO_GRACE_MS));
		if (co_leaves(v))
			continue;
		v->evicting = true;
		co_leaver(c, v);
		v->by_priority = p->plan.by_priority && v->work->queue == p->work->queue; /* beside others that give back */
		co_todo(c, v, CO_EVICT);
	}
	note_gangs(c, &p->plan);
	p->due = c->now + grace + LATE_MS;
	co_plan_wake(c, p->due);
	rf_vec_push(&c->plans, p);
	p->work->plan = p;
}

static void add_most(struct co_charge *ch, struct rf_queue_ask ask)
{
	size_t i = 0;

	while (i < ch->n && ch->ask[i].resource != ask.resource)
		i++;
	if (i < ch->n)
		ch->ask[i].amount = RF_MAX(ch->ask[i].amount, ask.amount);
	else if (i < RF_QUEUE_ASK_MAX)
		ch->ask[ch->n++] = ask;
}

/* Members of a gang that once started wait each on its own, and go together. What the others hold, or wait for, of what
 * this one does not ask for itself. */
static void charge_joined(struct rf_core *c, const struct co_work *w, struct co_charge *ret)
{
	const struct co_group *g = w->first->group;
	struct co_charge own = { .n = 0 };

	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next)
		co_charge_pod(c, p, &own);
	for (const struct co_pod *p = g != NULL ? g->pods : NULL; p != NULL; p = p->group_next) {
		struct co_charge ch = { .n = 0 };

		if (p->shape == w->first->shape || p->ended || !p->known)
			continue;
		co_charge_pod(c, p, &ch);
		for (size_t i = 0; i < ch.n; i++) {
			bool asked = false;

			for (size_t k = 0; k < own.n; k++)
				asked = asked || own.ask[k].resource == ch.ask[i].resource;
			if (!asked)
				add_most(ret, (struct rf_queue_ask){ ch.ask[i].resource, p->seat != NULL ? 0 : ch.ask[i].amount });
		}
	}
}

static void note_vain(struct rf_core *c, const struct co_work *w)
{
	struct co_shape *s = w->first->shape;

	s->planned = c->news + 1;
	s->planned_queue = w->queue;
	s->planned_priority = w->first->priority;
	s->planned_preemptible = w->preemptible;
	s->planned_patient = w->patient;
	s->planned_may = co_ahead_may(c, w);
	s->planned_group = w->first->group; /* others may have claims that it has not, and take what is its gang's */
}

/* Whose minimum run time ends next may be taken then. */
static void wake_for_min_runs(struct rf_core *c)
{
	int64_t next = INT64_MAX;

	for (struct rf_map_slot *m = NULL; c->min_runs && (m = rf_map_next(&c->pods, m)) != NULL;) {
		const struct co_pod *p = m->value;
		int64_t min_run = co_min_run(p);

		if (p->work != NULL && p->work->running && min_run > 0 && p->work->started + min_run > c->now)
			next = RF_MIN(next, p->work->started + min_run);
	}
	if (next != INT64_MAX)
		co_plan_wake(c, next);
}

static bool is_on_model(const struct rf_core *c, const struct rf_fleet_place *at, size_t m)
{
	const struct co_node *n = c->by_handle.at[at->node];

	for (size_t i = 0; i < at->n; i++) {
		if (n->slots[at->grants[i].card].model == m)
			return true;
	}
	return false;
}

/* Who gets cards of several models has them as it would by itself: no model of which its quotas do not leave all that it needs,
 * nor a share of one beside its card. */
static bool each_suffices(struct rf_core *c, const struct co_work *w, const struct rf_evict_plan *plan)
{
	int64_t room[RF_FLEET_MODELS_MAX];

	for (size_t m = 0; m < c->n_models; m++)
		room[m] = co_model_room(c, w, m);
	for (size_t i = 0; i < plan->n_places; i++) {
		const struct rf_fleet_place *at = &plan->places[i];
		int64_t cards = 0;

		for (size_t m = 0; m < c->n_models; m++)
			cards += co_cards_of_model(c, at, 1, m);
		for (size_t m = 0; m < c->n_models; m++) {
			int64_t of = co_cards_of_model(c, at, 1, m);

			if (cards > 0 && room[m] < cards && is_on_model(c, at, m))
				return false;
			room[m] -= room[m] != RF_QUEUE_NO_LIMIT ? of : 0;
		}
	}
	return true;
}

/* Of which models the cards are is known only now: do the quotas of these leave so many, with the victims gone and all
 * others that were planned for there? */
static bool models_suffice(struct rf_core *c, const struct co_work *w, const struct rf_evict_plan *plan)
{
	struct rf_workload_view v;
	bool enough = true;

	if (!c->model_quotas)
		return true;
	rf_workload_view(w->w, &v);
	co_plans_shift(c, w, plan, 1);
	for (size_t m = 0; m < c->n_models && enough; m++) {
		int64_t need = co_cards_of_model(c, plan->places, plan->n_places, m);

		enough = need == 0 || c->models[m].resource < 0 ||
			 rf_queues_room(c->queues, v.queue, c->models[m].resource, w->preemptible, c->now) >= need;
	}
	enough = enough && each_suffices(c, w, plan);
	co_plans_shift(c, w, plan, -1);
	return enough;
}

/* What is to be left for others once all plans are carried out, and this one (NULL: there is none yet): who goes may have been on
 * what its queue does not lend. */
static const struct rf_fleet_leave *leave_then(struct rf_core *c, const struct co_work *w, const struct rf_evict_plan *plan, struct rf_arena *a)
{
	const struct rf_fleet_leave *leave;

	if (co_unlent(c) == 0)
		return NULL;
	co_plans_shift(c, w, plan, 1);
	leave = co_leave(c, w, a);
	co_plans_shift(c, w, plan, -1);
	return leave;
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (struct rf_workload *const *)a, y = (uintptr_t) * (struct rf_workload *const *)b;

	return x < y ? -1 : x > y;
}

/* Running work of which some leave, each once; in which order does not matter. */
static void list_leaving(struct rf_core *c)
{
	size_t n = 0;

	(void)any_leaves(c);
	rf_vec_clear(&c->go_anyway);
	for (size_t i = 0; i < c->leavers.n; i++) {
		const struct co_work *w = c->leavers.at[i]->work;

		if (w != NULL && w->running && w->w != NULL)
			rf_vec_push(&c->go_anyway, w->w);
	}
	for (size_t i = 0; i < c->left.n; i++) {
		if (c->left.at[i]->running && c->left.at[i]->w != NULL)
			rf_vec_push(&c->go_anyway, c->left.at[i]->w);
	}
	if (c->go_anyway.n > 1)
		qsort(c->go_anyway.at, c->go_anyway.n, sizeof(*c->go_anyway.at), by_address);
	for (size_t i = 0; i < c->go_anyway.n; i++) {
		if (i == 0 || c->go_anyway.at[i] != c->go_anyway.at[i - 1])
			c->go_anyway.at[n++] = c->go_anyway.at[i];
	}
	c->go_anyway.n = n;
}

/* part: the resource of the one model that is left; 0: that does not matter. */
static bool find_plan(struct rf_core *c, struct co_work *w, uint64_t models, int64_t part, struct co_plan *p)
{
	struct rf_evict_world world = world_of(c);
	struct co_charge joined = { .n = 0 };
	struct rf_workload *beside[CO_PLANS_MAX];
	const struct rf_fleet_leave *leave, *more = leave_then(c, w, NULL, &p->a);
	struct co_gang g;

	/* What is planned for others is theirs in the queues' books, too. */
	for (size_t i = 0; i < c->plans.n; i++)
		beside[i] = c->plans.at[i]->work->w;
	world.how.beside = beside;
	world.how.n_beside = c->plans.n;
	charge_joined(c, w, &joined);
	world.how.joins = joined.ask;
	world.how.n_joins = joined.n;
	world.how.part = part;
	list_leaving(c);
	world.how.narrow = c->dirty.n == 0;
	world.how.outranks = co_outranks(w);
	world.how.leaving = c->go_anyway.at;
	world.how.n_leaving = c->go_anyway.n;
	leave = NULL;
	for (int i = 0; i < LEAVES; i++) {
		leave = co_leave_both(leave, more, &p->a);
		if (!co_gang_of(c, w, w->alike ? (size_t)RF_MAX(w->min, 1) : w->n, models, &p->a, &g))
			return false;
		for (size_t k = 0; k < g.gang.n; k++)
			((struct rf_fleet_ask *)(uintptr_t)g.gang.asks)[k].leave = leave;
		g.gang.ctx = &g;
		if (!rf_evict_plan(&world, w->w, &g.gang, c->now, &p->a, &p->plan))
			return false;
		more = leave_then(c, w, &p->plan, &p->a);
		if (co_leaves_all(leave, more))
			return true;
	}
	return false;
}

/* Do the quotas of a model leave it all its cards as things are? */
static bool has_room(struct rf_core *c, const struct co_work *w, const struct rf_queue *q, int64_t part)
{
	int64_t need = w->alike ? w->first->shape->form->cards * RF_MAX(w->min, 1) : 0;

	for (const struct co_pod *p = w->alike ? NULL : w->first; p != NULL; p = p->work_next)
		need += p->shape->form->cards;
	return rf_queues_room(c->queues, q, part, w->preemptible, c->now) >= need;
}

/* On cards of any models, or else each model by itself: what is guaranteed of it by name counts then, and those may go who use
 * up its quotas. */
static bool find_plan_of_models(struct rf_core *c, struct co_work *w, struct co_plan *p)
{
	uint64_t models = co_models_left(c, w, w->first);
	bool found = find_plan(c, w, models, 0, p);
	struct rf_workload_view v;

	if (found && models_suffice(c, w, &p->plan))
		return true;
	rf_workload_view(w->w, &v);
	for (int m; c->model_quotas && (m = co_first_model(c, models)) >= 0; models &= ~(UINT64_C(1) << m)) {
		int64_t part = RF_MAX(c->models[m].resource, 0);

		if (!found && (part == 0 || (!rf_queue_part_owed(c->queues, v.queue, part) && has_room(c, w, v.queue, part))))
			continue; /* nothing is different */
		if (find_plan(c, w, UINT64_C(1) << m, part, p) && models_suffice(c, w, &p->plan))
			return true;
	}
	return false;
}

/* Nobody leaves anyway, none of its own queue has a lower priority, and no other queue has more than it is guaranteed? This is
 * seen at once, and a search for a plan looks at all that runs. */
static bool nobody_goes(struct rf_core *c, const struct co_work *w)
{
	return c->dirty.n == 0 && c->dirty_groups.n == 0 && !any_leaves(c) && !co_outranks(w) && !rf_takes_any(c->queues, w->w, c->now);
}

/* Not even on empty machines? */
static bool hopeless(struct rf_core *c, const struct co_work *w)
{
	static const bool stays[RF_FLEET_UNFITS] = { [RF_FLEET_NOT_IN_CLASS] = true,
						     [RF_FLEET_CORDONED] = true,
						     [RF_FLEET_NO_RACK] = true,
						     [RF_FLEET_NO_MODEL] = true,
						     [RF_FLEET_TOO_SMALL] = true,
						     [RF_FLEET_UNJOINED] = true,
						     [RF_FLEET_MIG] = true };
	struct co_shape *s = w->first->shape;
	uint32_t counts[RF_FLEET_UNFITS];
	struct rf_fleet_ask ask;

	if (!co_ask(c, s, ~UINT64_C(0), &ask))
		return true;
	if (!rf_wish_moves(s->wish))
		ask.class = rf_wish_class(c->wishes, s->wish, false);
	rf_fleet_why(c->fleet, &ask, counts);
	for (size_t i = 0; i < RF_FLEET_UNFITS; i++) {
		if (counts[i] > 0 && !stays[i])
			return false;
	}
	return true;
}

static bool plan_for(struct rf_core *c, struct co_work *w)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct co_plan *p = rf_new(struct co_plan);
	struct co_pretence others[CO_PLANS_MAX];
	size_t mark;
	bool found;

	w->planned = c->news + 1;
	p->work = w;
	for (size_t i = 0; i < c->dirty_groups.n; i++)
		co_group_rejoin(c, c->dirty_groups.at[i]);
	/* On top of the plans that are open: their victims' places are taken. */
	count_flight(c);
	mark = rf_fleet_mark(c->fleet);
	(void)co_plans_pretend(c, w, others, &a);
	c->planning = true;
	c->planning_of = w->first->group;
	found = find_plan_of_models(c, w, p);
	c->planning_of = NULL;
	c->planning = false;
	co_plans_unpretend(c, others, c->plans.n);
	rf_fleet_rollback(c->fleet, mark);
	if (!found) {
		note_vain(c, w);
		rf_arena_done(&p->a);
		free(p);
		return false;
	}
	carry_out(c, p);
	return true;
}

static bool is_said(const struct co_plan *p)
{
	for (size_t i = 0; i < p->plan.n; i++) {
		const struct co_pod *v = p->plan.go[i]->user;

		if (v != NULL && v->todo == CO_EVICT && !co_must_go(v))
			return false;
	}
	return true;
}

/* What is said is right when it is said: a plan of which a part was put off is made anew. Those that were told to go leave
 * anyway, and nobody else comes in between. First all of these are dropped: none is made in view of one that may not be made
 * again, whose victims would stay after all. */
void co_plans_review(struct rf_core *c)
{
	struct co_work *again[CO_PLANS_MAX];
	size_t n = 0;

	for (size_t i = c->plans.n; i-- > 0;) {
		struct co_plan *p = c->plans.at[i];
		bool stale = p->news != c->news;

		p->news = c->news;
		if (!stale || is_said(p))
			continue;
		again[n++] = p->work;
		co_plan_drop(c, p);
	}
	while (n-- > 0) { /* in the order in which they were made */
		if (candidate(c, again[n]))
			(void)plan_for(c, again[n]);
	}
}

/* So that what follows from our own decisions is no news. */
void co_plans_seen(struct rf_core *c)
{
	for (size_t i = 0; i < c->plans.n; i++)
		c->plans.at[i]->news = c->news;
}

/* Where many wait. */
static void note_luck(struct rf_core *c, struct co_queue *q, bool luck)
{
	if (q == NULL)
		return;
	q->vain = luck ? 0 : RF_MIN(q->vain + 1, 2 * VAIN_MOST);
	q->plan_after = q->vain > VAIN_MOST ? c->now + VAIN_MS * (q->vain - VAIN_MOST) / VAIN_MOST : 0;
}

bool co_plan(struct rf_core *c)
{
	struct co_work *work[ATTEMPTS];
	bool fresh = c->plan_news != c->news + 1, vain = false;
	size_t n;

	if ((!fresh && !c->plan_more) || (c->n_waits > MANY_WAIT && fresh && c->now < c->plan_ms))
		return false;
	if (fresh)
		co_plans_drop_broken(c);
	c->plan_ms = c->now + LOOK_MS;
	c->plan_news = c->news + 1;
	c->plan_more = c->attempts <= 0;
	if (c->plans.n >= CO_PLANS_MAX || c->attempts <= 0)
		return false;
	n = find_candidates(c, work, RF_COUNT(work), !fresh);
	for (size_t i = 0; i < n && c->plans.n < CO_PLANS_MAX; i++) {
		bool never = nobody_goes(c, work[i]) || hopeless(c, work[i]), found = !never && plan_for(c, work[i]);

		c->attempts -= many_wait(c) ? VAIN_COST : 1;
		if (many_wait(c))
			note_luck(c, work[i]->queue, found);
		if (never) {
			work[i]->planned = c->news + 1;
			note_vain(c, work[i]);
		}
		vain = vain || (!never && !found);
	}
	if (vain)
		wake_for_min_runs(c);
	/* Behind the first of a queue another may have more luck. */
	c->plan_more |= n > 0;
	return n > 0;
}

int64_t co_plan_next(const struct rf_core *c)
{
	if (c->told == NULL)
		return INT64_MAX;
	return c->plan_more || c->plan_news != c->news + 1 ? c->plan_ms : INT64_MAX;
}

/* --- what comes of it --------------------------------------------------------------------------- */

/* It stays: what was planned with it comes to nothing. */
static void drop_plans_of(struct rf_core *c, const struct co_pod *p)
{
	for (size_t i = c->plans.n; i-- > 0;) {
		struct co_plan *plan = c->plans.at[i];
		bool of = false;

		for (size_t k = 0; k < plan->plan.n; k++)
			of = of || plan->plan.go[k]->user == p;
		if (!of)
			continue;
		co_plan_put_off(c, plan->work);
		co_plan_drop(c, plan);
	}
}

void co_evict_failed(struct rf_core *c, struct co_pod *p, struct rf_str why)
{
	co_todo(c, p, CO_NOTHING);
	co_pause(c, p, why); /* half a gang is evicted again after it */
	if (p->whole && p->group != NULL && p->group->going > 0 && --p->group->going == 0)
		p->group->ending = 0;
	if (co_must_go(p))
		return;
	co_stays(c, p);
	drop_plans_of(c, p);
}

void co_evict_again(struct rf_core *c, struct co_pod *p)
{
	struct rf_evict_member m = { .hold = p->hold, .user = p };
	const struct rf_evict_member *go = &m;

	if (!co_must_go(p)) { /* others came back meanwhile: its gang is one again */
		co_stays(c, p);
		drop_plans_of(c, p);
	} else if (co_may_go(c, &go, 1)) {
		co_todo(c, p, CO_EVICT);
	} else {
		co_pause(c, p, RF_LIT("its disruption budget is used up"));
	}
}

void co_evict_half(struct rf_core *c, struct co_group *g)
{
	c->budget_round++;
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->state != CO_BOUND || p->deleting || p->evicting || p->again_ms > c->now)
			continue;
		if (c->budgets.n > 0 && !one_may_go(c, p)) {
			co_pause(c, p, RF_LIT("its disruption budget is used up"));
			continue;
		}
		p->evicting = true;
		co_leaver(c, p);
		co_todo(c, p, CO_EVICT);
	}
}

static bool is_planned(const struct rf_core *c, const struct co_pod *p)
{
	for (size_t i = 0; i < c->plans.n; i++) {
		for (size_t k = 0; k < c->plans.at[i]->plan.n; k++) {
			if (c->plans.at[i]->plan.go[k]->user == p)
				return true;
		}
	}
	return false;
}

/* Something of the gang is another: who was to go because it could not be completed, and was not told yet, goes only if that is
 * found anew. */
void co_evict_unsaid(struct rf_core *c, struct co_group *g)
{
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->todo != CO_EVICT || p->whole || is_planned(c, p))
			continue;
		p->evicting = false;
		co_todo(c, p, CO_NOTHING);
	}
}

/* Its PodGroup is gone: who was to go only because others went stays, unless that was said already. */
void co_evict_none(struct rf_core *c, struct co_group *g)
{
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (!p->whole || p->todo != CO_EVICT || is_planned(c, p))
			continue;
		co_stays(c, p);
		co_todo(c, p, CO_NOTHING);
	}
}

/* With those who were refused and wait for their next time, or for being told again, it is a gang again: they stay, and count as
 * such from now on. Plans of which somebody was not told yet are looked at anew as a whole (co_plans_review). */
void co_evict_review(struct rf_core *c, struct co_group *g)
{
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->state != CO_BOUND || !p->evicting || !p->whole || p->todo == CO_ASKED || p->deleting || co_must_go(p) ||
		    (p->todo == CO_EVICT && is_planned(c, p)))
			continue;
		co_stays(c, p);
		co_todo(c, p, CO_NOTHING);
		drop_plans_of(c, p);
	}
}

/* Those that were bound when it was decided. Who came late and was within its own minimum run time then was not meant. */
void co_evict_rest(struct rf_core *c, struct co_group *g)
{
	g->bereft = false;
	if (co_enough_stay(g))
		return; /* none went, or they came back */
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->state != CO_BOUND || co_leaves(p) || p->started > g->ending || p->started + co_min_run(p) > g->ending ||
		    co_pinned(p))
			continue;
		p->evicting = p->whole = true;
		co_leaver(c, p);
		g->going += g->going == 0; /* those who went before */
		co_evict_again(c, p);
	}
}

struct rf_str co_why_evict(struct rf_core *c, struct co_pod *p, struct rf_arena *a, enum rf_core_cause *ret_cause)
{
	for (size_t i = 0; i < c->plans.n; i++) {
		for (size_t k = 0; k < c->plans.at[i]->plan.n; k++) {
			if (c->plans.at[i]->plan.go[k]->user != p)
				continue;
			*ret_cause = p->by_priority ? RF_CORE_PREEMPTED : RF_CORE_RECLAIMED;
			return co_why_goes(c, p, c->plans.at[i], a);
		}
	}
	*ret_cause = RF_CORE_INCOMPLETE;
	if (p->whole && p->group != NULL)
		return co_why_rest(p->group, a);
	return rf_arena_printf(a, "group %s could not be completed in time, and half of it is of no use; its pods are evicted. resource=pods level=group need=%lld have=%zu help=create it anew",
			       p->group != NULL ? p->group->name : "", p->group != NULL ? (long long)p->group->min : 0,
			       p->group != NULL ? p->group->have : 0);
}
