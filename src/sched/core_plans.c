/* Plans that are open: said, kept while their victims leave, and nobody else may come in between. */
#include "sched/core_plans.h"

/* Came since the first of its gang was told to go, and ended by itself: with it that was a gang again, whoever looked then, and
 * who ends ends nobody else. */
static bool came_and_ended(const struct co_group *g, const struct co_pod *p)
{
	return p->ended && !p->deleting && g->ending > 0 && p->started > g->ending;
}

/* With those that were to go, and were not told yet or refused. */
bool co_enough_stay(const struct co_group *g)
{
	int64_t n = 0;

	for (const struct co_pod *p = g->pods; p != NULL; p = p->group_next)
		n += came_and_ended(g, p) || (p->state == CO_BOUND && !(p->evicting && p->todo == CO_ASKED) &&
					      !(p->deleting && p->grace <= CO_GRACE_MS));
	return n >= g->min;
}

/* Others of its gang were told to go, and what is left of it is of no use. */
bool co_must_go(const struct co_pod *p)
{
	return p->whole && p->group != NULL && p->group->known && p->group->going > 0 && !co_enough_stay(p->group);
}

void co_stays(struct rf_core *c, struct co_pod *p)
{
	struct co_group *g = p->group;

	p->evicting = p->whole = false;
	if (g == NULL)
		return;
	g->was_whole = g->was_whole || g->had_started;
	co_mark_group(c, g); /* it counts as one of them again */
}

void co_plan_drop(struct rf_core *c, struct co_plan *p)
{
	for (size_t i = 0; i < c->plans.n; i++) {
		if (c->plans.at[i] != p)
			continue;
		rf_vec_remove(&c->plans, i);
		break;
	}
	if (p->work != NULL)
		p->work->plan = NULL;
	c->freed = ~UINT64_C(0); /* others may have been kept off its places */
	for (size_t i = 0; i < p->plan.n; i++) {
		struct co_pod *v = p->plan.go[i]->user;

		if (v == NULL || v->todo != CO_EVICT || co_must_go(v))
			continue; /* what was not said yet need not be */
		co_stays(c, v);
		co_todo(c, v, CO_NOTHING);
	}
	rf_arena_done(&p->a);
	free(p);
}

static void forget(struct co_plan *p, const struct co_pod *victim)
{
	for (size_t i = 0; i < p->plan.n; i++) {
		struct rf_evict_member *m = (struct rf_evict_member *)(uintptr_t)p->plan.go[i];

		if (m->user != victim)
			continue;
		m->user = NULL;
		m->hold = 0;
	}
}

void co_plans_forget(struct rf_core *c, struct co_pod *victim)
{
	for (size_t i = 0; victim->goes && i < c->going.n; i++) {
		if (c->going.at[i] != victim)
			continue;
		rf_vec_remove(&c->going, i);
		break;
	}
	for (size_t i = 0; i < c->plans.n; i++)
		forget(c->plans.at[i], victim);
}

/* What its victims hold now: a pod that ended leaves its cards to its claim. */
static void refresh(struct co_plan *p)
{
	p->left = 0;
	for (size_t i = 0; i < p->plan.n; i++) {
		struct rf_evict_member *m = (struct rf_evict_member *)(uintptr_t)p->plan.go[i];
		const struct co_pod *v = m->user;

		if (v == NULL)
			continue;
		m->hold = v->hold != 0 ? v->hold : v->claim != NULL ? v->claim->hold : 0;
		p->left += m->hold != 0;
	}
}

/* Is anybody still there whom a plan counts on? One that was made on top of others may count on the room of theirs. */
static bool any_left(struct rf_core *c)
{
	bool any = false;

	for (size_t i = 0; i < c->plans.n; i++) {
		refresh(c->plans.at[i]);
		any = any || c->plans.at[i]->left > 0;
	}
	return any;
}

static bool in_domain(const struct rf_gang *g, const struct rf_fleet_place *first, uint32_t node)
{
	uint32_t all = g->held;

	if (g->domain == NULL)
		return true;
	if (all == RF_FLEET_NONE && first->node < g->n_domain)
		all = g->domain[first->node];
	return all != RF_FLEET_NONE && node < g->n_domain && g->domain[node] == all;
}

/* Where it was planned, as long as that is to be had: those planned after it count on the rest. */
static bool take_planned(struct rf_core *c, const struct rf_evict_plan *plan, struct co_pretence *v)
{
	const struct rf_gang *g = &v->gang.gang;
	size_t mark = rf_fleet_mark(c->fleet), n = 0;
	struct rf_err err RF_UNINITIALIZED;

	for (; g->n == plan->n_places && n < g->n; n++) {
		struct rf_fleet_ask ask = g->asks[n];

		v->at[n] = plan->places[n];
		if (!in_domain(g, plan->places, v->at[n].node) || (g->narrow != NULL && !g->narrow(g->ctx, n, &ask)) ||
		    rf_fleet_take(c->fleet, &ask, &v->at[n], false, &v->holds[n], &err) < 0)
			break;
		if (g->placed != NULL)
			g->placed(g->ctx, n, &v->at[n]);
	}
	if (n == g->n) {
		rf_fleet_keep(c->fleet, mark);
		return true;
	}
	while (g->undone != NULL && n-- > 0)
		g->undone(g->ctx, n, &v->at[n]);
	rf_fleet_rollback(c->fleet, mark);
	return false;
}

static bool pretend(struct rf_core *c, struct co_plan *p, struct rf_arena *a, struct co_pretence *ret)
{
	size_t n = p->work->alike ? (size_t)RF_MAX(p->work->min, 1) : p->work->n;

	refresh(p);
	*ret = (struct co_pretence){ .plan = p, .lifted = rf_arena_array(a, bool, p->plan.n + 1) };
	if (!co_gang_of(c, p->work, n, co_models_left(c, p->work, p->work->first), a, &ret->gang))
		return false;
	ret->gang.gang.ctx = &ret->gang;
	ret->gang.gang.min = n;
	ret->at = rf_arena_array(a, struct rf_fleet_place, n);
	ret->holds = rf_arena_array(a, uint64_t, n);
	for (size_t i = 0; i < p->plan.n; i++) {
		ret->lifted[i] = p->plan.go[i]->hold != 0 && rf_fleet_lift(c->fleet, p->plan.go[i]->hold);
		if (ret->lifted[i])
			co_evict_gone(c, p->plan.go[i]);
	}
	ret->good = take_planned(c, &p->plan, ret) || rf_gang_take(c->fleet, &ret->gang.gang, ret->at, ret->holds) > 0;
	return ret->good;
}

static void take_back(struct rf_core *c, struct co_pretence *v)
{
	const struct rf_gang *g = &v->gang.gang;

	for (size_t i = 0; v->good && g->undone != NULL && i < g->n; i++)
		g->undone(g->ctx, i, &v->at[i]);
	for (size_t i = v->plan->plan.n; i-- > 0;) {
		if (v->lifted[i])
			co_evict_back(c, v->plan->plan.go[i]);
	}
}

/* As if all that goes were gone, in the books: a member each, or a gang that is known as one with its first. Each once, in
 * however many plans of the round it is. */
static void shift_victims(struct rf_core *c, const struct rf_evict_plan *plan, int64_t sign)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct co_pod *p = plan->go[i]->user;
		const struct co_work *w = p != NULL ? p->work : NULL;
		struct rf_workload_view v;

		if (w == NULL || w->w == NULL || !w->running || p->shifted == c->shifts)
			continue;
		p->shifted = c->shifts;
		rf_workload_view(w->w, &v);
		if (v.members == (int64_t)w->n || p == w->first)
			rf_takes_shift(c->queues, w->w, sign * (v.members == (int64_t)w->n ? 1 : v.members), c->now);
	}
}

/* As if it were in these places, in the books. Who waits is charged for cards; of which models they will be its places say. */
static void shift_work(struct rf_core *c, const struct co_work *w, const struct rf_fleet_place *at, size_t n, int64_t sign)
{
	rf_takes_shift(c->queues, w->w, sign * (w->alike ? RF_MAX(w->min, 1) : 1), c->now);
	for (size_t m = 0; c->model_quotas && m < c->n_models; m++) {
		int64_t cards = c->models[m].resource >= 0 ? co_cards_of_model(c, at, n, m) : 0;

		if (cards > 0)
			rf_takes_shift_more(c->queues, w->w, c->models[m].resource, sign * cards, c->now);
	}
}

/* In the books: all plans' victims gone, but of this work's. */
static void shift_gone(struct rf_core *c, const struct co_work *but, int64_t sign)
{
	c->shifts++;
	for (size_t i = 0; i < c->plans.n; i++) {
		if (c->plans.at[i]->work != but)
			shift_victims(c, &c->plans.at[i]->plan, -sign);
	}
}

/* Can all plans but this work's be carried out, each in its turn? Where models have quotas, or cards are not lent, only on cards
 * that those leave then: the books are as they will be in the meantime. */
bool co_plans_pretend(struct rf_core *c, const struct co_work *but, struct co_pretence *ret, struct rf_arena *a)
{
	bool good = true, shift = c->model_quotas > 0 || (c->plans.n > 0 && co_unlent(c) != 0);

	c->planning = c->model_quotas == 0;
	if (shift)
		shift_gone(c, but, 1);
	for (size_t i = 0; i < c->plans.n; i++) {
		ret[i] = (struct co_pretence){ .plan = NULL };
		if (c->plans.at[i]->work != but)
			good = pretend(c, c->plans.at[i], a, &ret[i]) && good;
		if (shift && ret[i].good)
			shift_work(c, ret[i].plan->work, ret[i].at, ret[i].gang.gang.n, 1);
	}
	for (size_t i = 0; i < c->plans.n && shift; i++) {
		if (ret[i].good)
			shift_work(c, ret[i].plan->work, ret[i].at, ret[i].gang.gang.n, -1);
	}
	if (shift)
		shift_gone(c, but, -1);
	c->planning = false;
	return good;
}

void co_plans_unpretend(struct rf_core *c, struct co_pretence *v, size_t n)
{
	while (n-- > 0) {
		if (v[n].plan != NULL)
			take_back(c, &v[n]);
	}
}

/* Where they found room now: what comes next is not to take that. */
static void note_places(const struct co_pretence *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (v[i].plan != NULL && v[i].good && v[i].gang.gang.n == v[i].plan->plan.n_places)
			memcpy(v[i].plan->plan.places, v[i].at, v[i].plan->plan.n_places * sizeof(*v[i].at));
	}
}

static bool shares_no_rack(const struct co_work *w)
{
	const struct co_tenant *t = w->first->shape->tenant;

	return t != NULL && t->level == RF_ISOLATION_RACK;
}

/* Does its place depend on where others of its tenant are? */
static bool looks_at_pods(const struct co_work *w)
{
	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		if (rf_wish_moves(p->shape->wish))
			return true;
	}
	return false;
}

/* Could w on this node be in the way of what is planned? Of who shares no rack also beside it, of who looks at pods of its tenant
 * anywhere. */
static bool counts_on(const struct rf_core *c, const struct co_plan *p, const struct co_work *w, uint32_t node)
{
	bool racks = shares_no_rack(w) || shares_no_rack(p->work);

	if (w->first->shape->tenant == p->work->first->shape->tenant && looks_at_pods(p->work))
		return true;
	for (size_t i = 0; i < p->plan.n_places; i++) {
		uint32_t at = p->plan.places[i].node;

		if (at == node || (racks && rf_fleet_in_one_rack(c->fleet, at, node)))
			return true;
	}
	return false;
}

/* In the books, with as many as have a seat: on what its own queue keeps it is in nobody's way. */
static void shift_seated(struct rf_core *c, const struct co_work *w, int64_t sign)
{
	int64_t n = 0;

	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		size_t grants = 0;
		uint32_t node;
		const struct rf_fleet_grant *g = p->seat != NULL && c->model_quotas > 0 ? rf_fleet_hold(c->fleet, p->hold, &node, &grants) : NULL;

		n += p->seat != NULL;
		for (size_t i = 0; i < grants; i++) {
			const struct co_model *m = &c->models[p->seat->slots[g[i].card].model];

			if (g[i].kind == RF_FLEET_WHOLE && m->resource >= 0)
				rf_takes_shift_more(c->queues, w->w, m->resource, sign, c->now);
		}
	}
	rf_takes_shift(c->queues, w->w, sign * (w->alike ? n : 1), c->now);
}

static bool is_on_cards(const struct co_work *w)
{
	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		if (p->assumed_cards)
			return true;
	}
	return false;
}

bool co_plans_on(const struct rf_core *c, const struct co_work *w, uint32_t node)
{
	for (size_t i = 0; i < c->plans.n; i++) {
		if (c->plans.at[i]->work != w && counts_on(c, c->plans.at[i], w, node))
			return true;
	}
	return false;
}

bool co_plans_meet(const struct rf_core *c, const struct co_work *w)
{
	for (const struct co_pod *p = c->plans.n > 0 ? w->first : NULL; p != NULL; p = p->work_next) {
		if (p->seat != NULL && co_plans_on(c, w, p->seat->handle))
			return true;
	}
	return false;
}

bool co_plans_allow(struct rf_core *c, const struct co_work *w)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct co_pretence v[CO_PLANS_MAX];
	bool good;
	size_t mark;

	/* where cards are not lent, plans count on how many are left anywhere */
	if (!co_plans_meet(c, w) && !(is_on_cards(w) && co_unlent(c) != 0))
		return true;
	mark = rf_fleet_mark(c->fleet);
	shift_seated(c, w, 1);
	good = co_plans_pretend(c, w, v, &a);
	shift_seated(c, w, -1);
	co_plans_unpretend(c, v, c->plans.n);
	rf_fleet_rollback(c->fleet, mark);
	if (good)
		note_places(v, c->plans.n);
	return good;
}

/* The books as they will be with all plans but this work's carried out, and the victims of `more` gone, too (NULL: there is no
 * other); and back. */
void co_plans_shift(struct rf_core *c, const struct co_work *but, const struct rf_evict_plan *more, int64_t sign)
{
	c->shifts++;
	if (more != NULL)
		shift_victims(c, more, -sign);
	for (size_t i = 0; i < c->plans.n; i++) {
		const struct co_work *w = c->plans.at[i]->work;

		if (w == but)
			continue;
		shift_victims(c, &c->plans.at[i]->plan, -sign);
		shift_work(c, w, c->plans.at[i]->plan.places, c->plans.at[i]->plan.n_places, sign);
	}
}

/* What plans but this work's will have of something. */
static int64_t planned_of(const struct rf_core *c, const struct co_work *but, int64_t resource)
{
	int64_t sum = 0;

	for (size_t i = 0; i < c->plans.n; i++) {
		const struct co_work *w = c->plans.at[i]->work;
		const struct rf_queue_ask *ask;
		size_t n = w != but ? rf_workload_asks(w->w, &ask) : 0;

		for (size_t k = 0; k < n; k++)
			sum += ask[k].resource == resource ? ask[k].amount * (w->alike ? RF_MAX(w->min, 1) : 1) : 0;
	}
	return sum;
}

bool co_plans_spare(struct rf_core *c, const struct co_work *w)
{
	struct rf_workload_spec s;
	struct rf_workload_view v;
	struct co_charge ch;
	bool enough = c->model_quotas == 0;

	rf_workload_view(w->w, &v);
	co_spec(c, w, &ch, &s);
	/* mostly there is enough for all of them, whoever goes */
	for (size_t i = 0; i < ch.n && enough; i++)
		enough = rf_queues_room(c->queues, v.queue, ch.ask[i].resource, w->preemptible, c->now) - planned_of(c, w, ch.ask[i].resource) >=
			 ch.ask[i].amount * s.size;
	if (enough)
		return true;
	enough = true;
	co_plans_shift(c, w, NULL, 1);
	for (size_t i = 0; i < ch.n && enough; i++)
		enough = rf_queues_room(c->queues, v.queue, ch.ask[i].resource, w->preemptible, c->now) >=
			 ch.ask[i].amount * s.size;
	co_plans_shift(c, w, NULL, -1);
	return enough;
}

bool co_plan_take(struct rf_core *c, struct co_work *w)
{
	struct co_plan *p = w->plan;
	struct co_pod *m = w->first;
	struct rf_err err RF_UNINITIALIZED;
	rf_auto(arena) a = RF_ARENA_INIT;

	refresh(p);
	if (p->left > 0)
		return false;
	for (size_t i = 0; i < p->plan.n_places && m != NULL; i++, m = m->work_next) {
		struct rf_fleet_place *at = &p->plan.places[i];
		struct rf_fleet_ask ask;
		uint64_t hold;

		if (!co_ask(c, m->shape, co_models_left(c, w, m), &ask))
			return false;
		ask.class = rf_wish_class(c->wishes, m->shape->wish, false);
		ask.may_kept = co_ahead_may(c, w);
		ask.leave = co_leave(c, w, &a);
		if (at->node >= c->by_handle.n || c->by_handle.at[at->node] == NULL || !c->by_handle.at[at->node]->there ||
		    !co_in_domain(c, w, at->node) ||
		    rf_fleet_take(c->fleet, &ask, at, false, &hold, &err) < 0)
			return false;
		co_seat_as(c, m, c->by_handle.at[at->node], hold, at->n > 0, false);
	}
	return true;
}

static bool before(const struct co_work *a, const struct co_work *b)
{
	return co_before(a->first, b->first);
}

static bool comes_before_alike(const struct co_work *w, const struct co_work *o)
{
	return o != w && o->first->shape == w->first->shape && o->first->group == w->first->group && o->group == NULL &&
	       w->group == NULL && o->queue == w->queue && o->preemptible == w->preemptible && before(w, o);
}

/* Those alike are tried in turn, and one refusal is for all of them: who comes first has the plan of one behind it, if it has none,
 * or if that one's victims are gone. */
void co_plan_inherit(struct rf_core *c, struct co_work *w)
{
	for (size_t i = 0; i < c->plans.n; i++)
		refresh(c->plans.at[i]);
	for (size_t i = 0; i < c->plans.n; i++) {
		struct co_plan *p = c->plans.at[i], *own = w->plan;
		struct co_work *o = p->work;

		if (!comes_before_alike(w, o) || (own != NULL && (own->left == 0 || p->left > 0)))
			continue;
		o->plan = own;
		if (own != NULL)
			own->work = o;
		w->plan = p;
		p->work = w;
	}
}

struct co_work *co_plan_behind(struct rf_core *c, const struct co_work *w, size_t i)
{
	for (size_t k = 0; k < c->plans.n; k++) {
		struct co_plan *p = c->plans.at[k];

		refresh(p);
		if (p->work != w && p->left == 0 && rf_workload_alike(p->work->w, w->w) && i-- == 0)
			return p->work;
	}
	return NULL;
}

void co_plans_hide(struct rf_core *c, const struct co_work *w)
{
	for (size_t i = 0; i < c->plans.n; i++) {
		const struct co_plan *p = c->plans.at[i];

		for (size_t k = 0; p->work != w && k < p->plan.n_places; k++) {
			uint32_t node = p->plan.places[k].node;

			if (node >= c->by_handle.n || c->by_handle.at[node] == NULL || !c->by_handle.at[node]->there)
				continue;
			if (shares_no_rack(w) || shares_no_rack(p->work))
				rf_fleet_cordon_rack(c->fleet, node);
			else
				rf_fleet_set_cordoned(c->fleet, node, true);
		}
	}
}

void co_plan_wake(struct rf_core *c, int64_t ms)
{
	c->plan_wake = RF_MIN(c->plan_wake, RF_MAX(ms, c->now + 1));
	c->wake_ms = RF_MIN(c->wake_ms, c->plan_wake);
}

/* A plan of it came to nothing: not at once again. */
void co_plan_put_off(struct rf_core *c, struct co_work *w)
{
	w->plan_pause = RF_MIN(RF_MAX(w->plan_pause * 2, CO_BACKOFF_MS), CO_BACKOFF_MAX_MS);
	w->plan_after = c->now + w->plan_pause;
	co_plan_wake(c, w->plan_after);
}

bool co_plan_failed(struct rf_core *c, struct co_work *w)
{
	struct co_plan *p = w->plan;

	if (p == NULL || any_left(c))
		return false;
	co_plan_put_off(c, w);
	co_plan_drop(c, p); /* all went, and still it does not fit: something else came in between */
	return true;
}

void co_plans_drop_broken(struct rf_core *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct co_pretence v[CO_PLANS_MAX];
	size_t mark, n = c->plans.n;
	bool left = any_left(c);

	if (n == 0)
		return;
	mark = rf_fleet_mark(c->fleet);
	(void)co_plans_pretend(c, NULL, v, &a);
	co_plans_unpretend(c, v, n);
	rf_fleet_rollback(c->fleet, mark);
	note_places(v, n);
	for (size_t i = n; i-- > 0;) {
		/* nothing can start now: if all have gone for it, it was in vain */
		if (v[i].good && left && c->now < c->plans.at[i]->due)
			continue;
		co_plan_put_off(c, c->plans.at[i]->work);
		co_plan_drop(c, c->plans.at[i]);
	}
}
