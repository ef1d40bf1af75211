/* Trying a workload: a place for it, or for all its members at once. */
#include "sched/core_private.h"

/* --- models that quotas leave ------------------------------------------------------------------ */

/* What quotas leave of a model. What nobody has is left to who may have all of it: how many that are, and whether a pod gets
 * them beside cards of another model, the fleet knows better. */
int64_t co_model_room(struct rf_core *c, const struct co_work *w, size_t model)
{
	int64_t r = c->models[model].resource, room;
	struct rf_workload_view v;

	if (r < 0)
		return RF_QUEUE_NO_LIMIT;
	rf_workload_view(w->w, &v);
	room = rf_queues_room(c->queues, v.queue, r, w->preemptible, c->now);
	return room < rf_queues_unused(c->queues, r, c->now) ? room : RF_QUEUE_NO_LIMIT;
}

/* Cards without a model in the ask are charged to the model they turn out to be: where a queue on the path has
 * no room for that, the model will not do. */
uint64_t co_models_left(struct rf_core *c, const struct co_work *w, const struct co_pod *p)
{
	uint64_t left = ~UINT64_C(0);
	int64_t need = p->shape->form->cards;

	/* of a gang's members the smallest will do: what all of them need is asked when they have places */
	for (const struct co_pod *m = w->first; m != NULL; m = m->work_next) {
		int64_t n = m->shape->form->cards;

		need = n > 0 && (need == 0 || n < need) ? n : need;
	}
	if (!c->model_quotas || c->planning || need == 0)
		return left;
	for (size_t m = 0; m < c->n_models; m++) {
		if (co_model_room(c, w, m) < need)
			left &= ~(UINT64_C(1) << m);
	}
	return left;
}

int64_t co_cards_of_model(const struct rf_core *c, const struct rf_fleet_place *at, size_t n_places, size_t m)
{
	int64_t cards = 0;

	for (; n_places > 0; n_places--, at++) {
		const struct co_node *n = at->node < c->by_handle.n ? c->by_handle.at[at->node] : NULL;

		for (size_t i = 0; n != NULL && i < at->n; i++)
			cards += at->grants[i].kind == RF_FLEET_WHOLE && at->grants[i].card < n->n_slots &&
				 n->slots[at->grants[i].card].model == m;
	}
	return cards;
}

/* --- gangs ------------------------------------------------------------------------------------ */

static bool narrow(void *ctx, size_t member, struct rf_fleet_ask *ask)
{
	struct co_gang *g = ctx;
	const struct co_shape *s = g->pods[member]->shape;

	ask->class = rf_wish_class(g->c->wishes, s->wish, false);
	for (size_t m = 0; g->tight && s->form->cards > 0 && m < g->c->n_models; m++) {
		if (g->room[m] < s->form->cards)
			ask->models &= ~(UINT64_C(1) << m);
	}
	return s->form->cards == 0 || ask->models != 0;
}

static void count_room(struct co_gang *g, const struct rf_fleet_place *at, int64_t sign)
{
	for (size_t m = 0; m < g->c->n_models; m++) {
		if (g->room[m] != RF_QUEUE_NO_LIMIT)
			g->room[m] += sign * co_cards_of_model(g->c, at, 1, m);
	}
}

static void placed(void *ctx, size_t member, const struct rf_fleet_place *at)
{
	struct co_gang *g = ctx;

	if (g->moves)
		rf_wish_on(g->c->wishes, g->pods[member]->shape->wish, at->node);
	if (g->tight)
		count_room(g, at, -1);
}

static void undone(void *ctx, size_t member, const struct rf_fleet_place *at)
{
	struct co_gang *g = ctx;

	if (g->moves)
		rf_wish_off(g->c->wishes, g->pods[member]->shape->wish, at->node);
	if (g->tight)
		count_room(g, at, 1);
}

/* Cards are charged to the model they turn out to be. Where not all members may have the same, each has its models by
 * what is left. */
static void find_rooms(struct rf_core *c, const struct co_work *w, struct co_gang *g)
{
	int64_t need = 0;

	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next)
		need += RF_MIN(p->shape->form->cards, RF_FLEET_CARDS_MAX);
	if (!c->model_quotas || c->planning || w->n < 2 || need == 0)
		return;
	for (size_t m = 0; m < c->n_models; m++) {
		g->room[m] = co_model_room(c, w, m);
		g->tight = g->tight || g->room[m] < need;
	}
}

static uint32_t domain_at(uint32_t node, const uint32_t *domain, size_t n)
{
	return node < n ? domain[node] : RF_FLEET_NONE;
}

/* Where those of the group are that have a place already, or else those for whom one is being made. */
static uint32_t held_domain(const struct co_work *w, const struct co_group *g, const uint32_t *domain, size_t n)
{
	uint32_t at = RF_FLEET_NONE;

	for (const struct co_pod *p = g->pods; p != NULL && at == RF_FLEET_NONE; p = p->group_next)
		at = p->seat != NULL ? domain_at(p->seat->handle, domain, n) : RF_FLEET_NONE;
	for (const struct co_pod *p = g->pods; p != NULL && at == RF_FLEET_NONE; p = p->group_next) {
		const struct co_plan *plan = p->work != NULL && p->work != w ? p->work->plan : NULL;

		if (plan != NULL && plan->plan.n_places > 0)
			at = domain_at(plan->plan.places[0].node, domain, n);
	}
	return at;
}

bool co_in_domain(struct rf_core *c, const struct co_work *w, uint32_t node)
{
	const struct co_group *g = w->first->group;
	const uint32_t *domain;
	size_t n;

	if (g == NULL || !g->known || g->topology == NULL)
		return true;
	domain = rf_wishes_domains(c->wishes, rf_str(g->topology), &n);
	for (const struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		if (p->seat != NULL && domain_at(p->seat->handle, domain, n) != RF_FLEET_NONE)
			return domain_at(p->seat->handle, domain, n) == domain_at(node, domain, n);
	}
	return domain_at(node, domain, n) != RF_FLEET_NONE;
}

bool co_gang_of(struct rf_core *c, struct co_work *w, size_t members, uint64_t models, struct rf_arena *a,
		struct co_gang *ret)
{
	struct rf_fleet_ask *asks = rf_arena_array(a, struct rf_fleet_ask, members);
	const struct co_group *group = w->first->group;
	uint16_t may_kept = co_ahead_may(c, w);
	const struct rf_fleet_leave *leave = co_leave(c, w, a);
	size_t n = 0;

	*ret = (struct co_gang){ .c = c, .pods = rf_arena_array(a, struct co_pod *, members) };
	for (struct co_pod *p = w->first; p != NULL && n < members; p = p->work_next, n++) {
		ret->pods[n] = p;
		if (!co_ask(c, p->shape, models, &asks[n]))
			return false;
		asks[n].may_kept = may_kept;
		asks[n].leave = leave;
		ret->moves = ret->moves || rf_wish_moves(p->shape->wish);
	}
	/* The class of a wish that moves is only good until the next one's: those are asked for as they come. */
	for (size_t i = 0; i < n && !ret->moves; i++)
		asks[i].class = rf_wish_class(c->wishes, ret->pods[i]->shape->wish, false);
	ret->gang = (struct rf_gang){ .asks = asks, .n = n, .min = w->group == NULL ? 1 : (size_t)w->min, .held = RF_FLEET_NONE };
	find_rooms(c, w, ret);
	if (ret->moves || ret->tight) {
		ret->gang.narrow = narrow;
		ret->gang.placed = placed;
		ret->gang.undone = undone;
	}
	if (group != NULL && group->known && group->topology != NULL) {
		ret->gang.domain = rf_wishes_domains(c->wishes, rf_str(group->topology), &ret->gang.n_domain);
		ret->gang.held = held_domain(w, group, ret->gang.domain, ret->gang.n_domain);
	}
	return true;
}

/* hide: not on nodes that somebody's plan counts on. Tried inside a mark, where these are closed; what was found
 * is taken again after it. */
static bool take_again(struct rf_core *c, const struct co_gang *g, const struct rf_fleet_place *at, uint64_t *holds)
{
	struct rf_err err RF_UNINITIALIZED;

	for (size_t i = 0; i < g->gang.n; i++) {
		if (holds[i] == 0)
			continue;
		if (g->gang.undone != NULL)
			g->gang.undone(g->gang.ctx, i, &at[i]);
		holds[i] = 0;
	}
	for (size_t i = 0; i < g->gang.n; i++) {
		struct rf_fleet_ask ask = g->gang.asks[i];

		if (at[i].node == RF_FLEET_NONE)
			continue;
		if (g->gang.narrow != NULL)
			ask.class = 0; /* it was right when it was found, and nothing has changed */
		ask.leave = NULL; /* and so was that, in the order in which they were found */
		if (rf_fleet_take(c->fleet, &ask, &at[i], false, &holds[i], &err) < 0)
			return false;
	}
	return true;
}

static size_t take_hidden(struct rf_core *c, const struct co_work *w, const struct co_gang *g,
			  struct rf_fleet_place *at, uint64_t *holds)
{
	size_t mark = rf_fleet_mark(c->fleet), n;

	co_plans_hide(c, w);
	n = rf_gang_take(c->fleet, &g->gang, at, holds);
	rf_fleet_rollback(c->fleet, mark);
	if (n > 0)
		rf_assert(take_again(c, g, at, holds));
	return n;
}

static bool take_gang(struct rf_core *c, struct co_work *w, int64_t members, uint64_t models, bool hide)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_fleet_place *at;
	struct co_gang g;
	uint64_t *holds;
	size_t n = w->alike ? (size_t)members : w->n;

	if (!co_gang_of(c, w, n, models, &a, &g))
		return false;
	g.gang.ctx = &g;
	at = rf_arena_array(&a, struct rf_fleet_place, n);
	holds = rf_arena_array(&a, uint64_t, n);
	if ((hide ? take_hidden(c, w, &g, at, holds) : rf_gang_take(c->fleet, &g.gang, at, holds)) == 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (holds[i] != 0)
			co_seat_as(c, g.pods[i], c->by_handle.at[at[i].node], holds[i], at[i].n > 0,
				   g.moves && !hide);
	}
	return true;
}

/* --- one pod ---------------------------------------------------------------------------------- */

bool co_find(struct rf_core *c, const struct co_pod *p, struct rf_fleet_ask *ask, struct rf_fleet_place *at)
{
	struct rf_wish *wish = p->shape->wish;

	if (rf_wish_prefers(wish)) {
		ask->class = rf_wish_class(c->wishes, wish, true);
		if (rf_fleet_find(c->fleet, ask, at))
			return true;
	}
	ask->class = rf_wish_class(c->wishes, wish, false);
	return rf_fleet_find(c->fleet, ask, at);
}

static bool find_hidden(struct rf_core *c, struct co_pod *p, struct rf_fleet_ask *ask, struct rf_fleet_place *at)
{
	size_t mark = rf_fleet_mark(c->fleet);
	bool found;

	co_plans_hide(c, p->work);
	found = co_find(c, p, ask, at);
	rf_fleet_rollback(c->fleet, mark);
	return found;
}

/* around: where no plan counts on, if there is such a place. */
static bool take_one(struct rf_core *c, struct co_pod *p, uint64_t models, bool around)
{
	struct rf_fleet_place at RF_UNINITIALIZED;
	struct rf_fleet_ask ask RF_UNINITIALIZED;
	struct rf_err err RF_UNINITIALIZED;
	rf_auto(arena) a = RF_ARENA_INIT;
	uint64_t hold;

	if (!co_ask(c, p->shape, models, &ask))
		return false;
	ask.may_kept = co_ahead_may(c, p->work);
	ask.leave = co_leave(c, p->work, &a);
	if (!co_find(c, p, &ask, &at))
		return false;
	c->around = false;
	if (around && co_plans_on(c, p->work, at.node)) {
		struct rf_fleet_place other RF_UNINITIALIZED;

		c->around = find_hidden(c, p, &ask, &other);
		if (c->around)
			at = other;
	}
	if (rf_fleet_take(c->fleet, &ask, &at, false, &hold, &err) < 0)
		return false;
	co_seat_as(c, p, c->by_handle.at[at.node], hold, at.n > 0, false);
	return true;
}

/* --- starting --------------------------------------------------------------------------------- */

/* As if they had never been taken: nobody is to be woken by it. */
static void leave_seats(struct rf_core *c, struct co_work *w)
{
	uint64_t freed = c->freed, ticks = c->ticks;

	c->leaving = true;
	for (struct co_pod *p = w->first; p != NULL; p = p->work_next)
		co_seat(c, p, NULL);
	c->leaving = false;
	c->freed = freed;
	c->ticks = ticks;
}

static bool admit(struct rf_core *c, struct co_work *w)
{
	struct rf_workload_spec s;
	struct co_charge ch RF_UNINITIALIZED;
	struct rf_err err RF_UNINITIALIZED;

	co_spec(c, w, &ch, &s);
	for (uint64_t salt = 1; salt <= 8; s.shape = co_charge_shape(&ch, true, salt++)) {
		int r = rf_queues_admit_as(c->queues, w->w, &s, s.size, c->now, &err);

		if (r == 0)
			return true;
		if (r != -RF_INVALID)
			break;
	}
	return false;
}

enum outcome { STARTED, NO_PLACE, NO_QUOTA };

static bool goes_as_gang(const struct co_work *w)
{
	return w->group != NULL || (w->first->group != NULL && w->first->group->known && w->first->group->topology != NULL);
}

static bool take(struct rf_core *c, struct co_work *w, int64_t members, uint64_t models, bool around)
{
	return goes_as_gang(w) ? take_gang(c, w, members, models, false) : take_one(c, w->first, models, around);
}

/* On nodes that are kept for others: on what is left of them, or to go again when they come. */
static bool take_past(struct rf_core *c, struct co_work *w, int64_t members, uint64_t models, bool around, enum co_past past)
{
	bool found;

	if (!co_ahead_try(c, w, past))
		return false;
	c->past = past;
	found = take(c, w, members, models, around);
	c->past = CO_PAST_NEVER;
	c->let_past = found && past == CO_PAST_STOPPED;
	if (!found || past == CO_PAST_STOPPED || co_ahead_allow(c, w))
		return found;
	leave_seats(c, w);
	return false;
}

static bool take_anywhere(struct rf_core *c, struct co_work *w, int64_t members, uint64_t models, bool around)
{
	return take(c, w, members, models, around) || take_past(c, w, members, models, around, CO_PAST_BESIDE) ||
	       take_past(c, w, members, models, around, CO_PAST_STOPPED);
}

/* It has a place. Where a plan counts on that, a gang goes elsewhere if it can, as one pod did already; whether all plans can do without is
 * asked only where it cannot, or may not be there, since that takes long. */
static bool take_beside_plans(struct rf_core *c, struct co_work *w, int64_t members, uint64_t models)
{
	bool gang = goes_as_gang(w), elsewhere = !gang && c->around;

	if (gang && co_plans_meet(c, w)) {
		leave_seats(c, w);
		c->let_past = false;
		elsewhere = take_gang(c, w, members, models, true);
		if (!elsewhere && !take_anywhere(c, w, members, models, false))
			return false;
	}
	if (co_plans_allow(c, w))
		return true;
	leave_seats(c, w);
	c->let_past = false;
	if (!elsewhere)
		return false;
	if (take_anywhere(c, w, members, models, false) && co_plans_allow(c, w))
		return true;
	leave_seats(c, w);
	return false;
}

static enum outcome attempt(struct rf_core *c, struct co_work *w, int64_t members, uint64_t models)
{
	c->let_past = false;
	if (w->plan != NULL) {
		if (co_plan_take(c, w) && admit(c, w))
			return STARTED;
		leave_seats(c, w);
	}
	if (!take_anywhere(c, w, members, models, true))
		return NO_PLACE;
	if (c->plans.n > 0 && !take_beside_plans(c, w, members, models))
		return NO_PLACE;
	if ((c->plans.n == 0 || co_plans_spare(c, w)) && admit(c, w))
		return STARTED;
	leave_seats(c, w);
	return NO_QUOTA;
}

/* Cards of several models may be more than one model's quota allows: each model by itself then. */
static enum outcome attempt_each(struct rf_core *c, struct co_work *w, int64_t members, uint64_t models)
{
	enum outcome o = attempt(c, w, members, models);

	for (int m; o == NO_QUOTA && (m = co_first_model(c, models)) >= 0; models &= ~(UINT64_C(1) << m)) {
		if (attempt(c, w, members, UINT64_C(1) << m) == STARTED)
			return STARTED;
	}
	return o;
}

/* Of a pod that is alone: what else decides about a gang is in no version. */
static bool still_refused(struct rf_core *c, struct co_shape *s, uint64_t models, uint16_t may_kept, const struct rf_fleet_leave *leave)
{
	struct rf_fleet_ask ask;

	if (!s->refused || s->models != models || (may_kept & ~s->may_kept) != 0 || co_leave_sign(leave) != s->leave)
		return false;
	(void)co_ask(c, s, models, &ask);
	ask.leave = leave;
	return s->fleet_version == rf_fleet_version(c->fleet, &ask) &&
	       s->wish_version == rf_wish_version(c->wishes, s->wish);
}

static void note_refused(struct rf_core *c, struct co_shape *s, uint64_t models, uint16_t may_kept, const struct rf_fleet_leave *leave)
{
	struct rf_fleet_ask ask;

	(void)co_ask(c, s, models, &ask);
	ask.leave = leave;
	s->refused = true;
	s->models = models;
	s->may_kept = may_kept;
	s->leave = co_leave_sign(leave);
	s->fleet_version = rf_fleet_version(c->fleet, &ask);
	s->wish_version = rf_wish_version(c->wishes, s->wish);
}

bool co_start(struct rf_core *c, struct co_work *w, int64_t members)
{
	struct co_shape *s = w->first->shape;
	uint64_t models = co_models_left(c, w, w->first);
	bool alone = w->first->group == NULL;
	uint16_t may_kept = co_ahead_may(c, w);
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_fleet_leave *leave = co_leave(c, w, &a);
	int64_t untouched = rf_fleet_untouched(c->fleet);
	uint64_t keeps;
	enum outcome o;

	co_plan_inherit(c, w);
	if (alone && still_refused(c, s, models, may_kept, leave))
		return false;
	o = attempt_each(c, w, members, models);
	if (o != STARTED) {
		/* quotas and plans are in no version either */
		if (alone && o == NO_PLACE && c->plans.n == 0)
			note_refused(c, s, models, may_kept, leave);
		return false;
	}
	if (c->let_past)
		(void)rf_workload_let_past(w->w);
	co_work_started(c, w);
	/* who may touch no card first may be beside it, and who leaves something for shares or slices may have more where some are */
	keeps = co_unlent(c) & (rf_fleet_untouched(c->fleet) < untouched ? ~UINT64_C(0) : ~co_whole_kinds(c));
	for (struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		co_state(c, p, CO_PLACED);
		co_todo(c, p, CO_ASKED);
		co_fly(c, p);
		if (rf_wish_helps(p->shape->wish))
			c->freed |= CO_NEIGHBOURS;
		if (keeps != 0 && (p->shape->form->bytes > 0 || p->shape->form->slices > 0))
			c->freed |= UINT64_C(1) << CO_BYTES;
	}
	return true;
}
