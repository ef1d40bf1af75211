/* Why a gang has no places: how many of it would. */
#include <inttypes.h>

#include "sched/core_why.h"

const char *co_topology_of(const struct co_work *work)
{
	const struct co_group *g = work->first->group;

	return g != NULL && g->known ? g->topology : NULL;
}

/* So many such pods the domain with most room would hold if nobody else were there. */
static size_t room_when_empty(const struct rf_core *c, const struct co_gang *g)
{
	const struct rf_gang *v = &g->gang;
	size_t *room = rf_alloc(RF_MAX(v->n_domain, 1) * sizeof(*room)), most = 0;

	for (uint32_t i = 0; i < v->n_domain; i++) {
		uint32_t d = v->domain[i];

		if (d == RF_FLEET_NONE || (v->held != RF_FLEET_NONE && d != v->held))
			continue;
		rf_assert(d < v->n_domain); /* numbers are used again: there are no more than nodes */
		room[d] += rf_fleet_room_ever(c->fleet, i, &v->asks[0]);
		most = RF_MAX(most, room[d]);
	}
	free(room);
	return most;
}

/* How many of those that must start together would find places; by_quota: all, but for quotas of models. */
static void count_gang(struct co_words *w, struct co_work *work, struct co_seats *ret)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	size_t n = work->alike ? (size_t)RF_MAX(work->min, 1) : work->n;
	struct rf_core *c = w->c;
	struct co_gang g;

	if (co_gang_of(c, work, n, co_models_left(c, work, work->first), &a, &g)) {
		g.gang.ctx = &g;
		ret->have = rf_gang_most(c->fleet, &g.gang);
	}
	if (!co_gang_of(c, work, n, ~UINT64_C(0), &a, &g))
		return;
	g.gang.ctx = &g;
	g.tight = false;
	ret->by_quota = c->model_quotas > 0 && ret->have < g.gang.min && rf_gang_most(c->fleet, &g.gang) >= g.gang.min;
	for (size_t i = 0; i < g.gang.n_domain && !ret->domains; i++)
		ret->domains = g.gang.domain[i] != RF_FLEET_NONE;
	ret->never = g.gang.domain != NULL && work->alike && room_when_empty(c, &g) < g.gang.min;
}

/* Kept for all of the gang while nothing came that may help it. Where they ask for different things it is not known what that
 * would be. */
const struct co_seats *co_seats_of(struct co_words *w, struct co_work *work)
{
	struct rf_core *c = w->c;
	struct co_shape *s = work->first->shape;
	struct co_seats now = { .known = true, .quotas = c->model_quotas > 0 ? c->ticks : 0 };
	struct rf_fleet_ask ask;

	(void)co_ask(c, s, ~UINT64_C(0), &ask);
	ask.leave = co_leave(c, work, w->a);
	now.leave = co_leave_sign(ask.leave);
	now.fleet = work->alike ? rf_fleet_version(c->fleet, &ask) : c->ticks;
	now.wish = work->alike ? rf_wish_version(c->wishes, s->wish) : 0;
	now.may_kept = co_ahead_may(c, work);
	if (work->seats.known && (int64_t)work->seats.have < RF_MAX(work->min, 1) && work->seats.fleet == now.fleet &&
	    work->seats.wish == now.wish && work->seats.quotas == now.quotas && work->seats.may_kept == now.may_kept &&
	    work->seats.leave == now.leave)
		return &work->seats;
	count_gang(w, work, &now);
	c->looked += c->by_handle.n / 4 + 4 * (size_t)RF_MAX(work->min, 1);
	work->seats = now;
	return &work->seats;
}

static struct rf_str too_few_seats(struct co_words *w, const struct co_pod *p, const struct co_seats *seats)
{
	const char *key = co_topology_of(p->work), *name = p->group->name;
	int64_t need = RF_MAX(p->work->min, 1), have = RF_MIN((int64_t)seats->have, need - 1);
	bool rest = p->group->started || p->work->group == NULL;
	struct rf_str text = RF_STR_EMPTY;
	const char *help = "wait until pods have ended, ask for less per pod or lower the group's minimum";

	if (key != NULL && seats->never)
		help = "ask for less per pod, lower the group's minimum or have its spec.topologyKey taken out";
	else if (key != NULL)
		help = "wait until pods have ended, ask for less per pod or have the group's spec.topologyKey taken out";
	if (key != NULL && !seats->domains)
		help = "label the nodes or have the group's spec.topologyKey taken out";
	if (!w->mute && key != NULL && !seats->domains)
		text = rf_arena_printf(w->a, "group %s needs nodes with one value of label %s, and no node has that label", name, key);
	else if (!w->mute && key != NULL)
		text = rf_arena_printf(w->a, "group %s needs places for %" PRId64 " pods at once on nodes with one value of %s%s; the best has room for %" PRId64 "%s", name, need, key, rest ? ", where the rest of it is" : "", have, seats->never ? ", and for too few even when empty" : "");
	else if (!w->mute)
		text = rf_arena_printf(w->a, "group %s needs places for %" PRId64 " pods at once, and there is room for %" PRId64, name, need, have);
	return co_line(w, text, "pods", key != NULL ? key : "cluster", need, have, help);
}

/* What is said of one pod, if that alone has no place; else how many of them have. */
struct rf_str co_why_gang(struct co_words *w, struct co_pod *p)
{
	struct co_work *work = p->work;
	const struct co_seats *seats = co_seats_of(w, work);
	uint64_t number = w->number;
	struct rf_str one;
	struct rf_why y;

	if (seats->by_quota && co_find_quota(w, work, p->shape->form->mask, co_cards_of(work), &y))
		return co_why_quota(w, &y, "");
	one = co_why_place(w, p);
	if ((p->shape->why_fits || seats->never) && (int64_t)seats->have < RF_MAX(work->min, 1)) {
		w->number = number;
		return too_few_seats(w, p, seats);
	}
	w->number = co_mix(w->number, work->n) | 1;
	if (w->mute || p->shape->why_fits)
		return one;
	return rf_arena_printf(w->a, "group %s: there is no place for %" PRId64 " of its pods at once; each %.*s", p->group->name, RF_MAX(work->min, 1), RF_STR(one));
}
