/* Why somebody goes: what its queue borrowed, or what the one of its own queue lacks that it goes for. */
#include <inttypes.h>

#include "sched/core_why.h"

/* What its queue, or one above it, uses beyond what that is guaranteed, of what is held: rather of what was asked for. */
static bool find_borrowed(struct rf_core *c, const struct co_work *work, const struct co_charge *held, const struct co_charge *asked,
			  struct rf_why *ret)
{
	for (int any = 0; any < 2; any++) {
		for (const struct rf_queue *q = work->queue != NULL ? work->queue->at : NULL; q != NULL; q = rf_queue_parent(q)) {
			for (size_t i = 0; i < held->n; i++) {
				int64_t r = held->ask[i].resource, over = rf_queue_over_by(c->queues, q, r);
				struct rf_queue_view v;
				bool wanted = any;

				for (size_t k = 0; k < asked->n && !wanted; k++)
					wanted = asked->ask[k].resource == r;
				if (over <= 0 || !wanted)
					continue;
				rf_queue_view(c->queues, q, r, c->now, &v);
				*ret = (struct rf_why){ .resource = r, .level = q, .need = v.used, .have = v.used - over };
				return true;
			}
		}
	}
	return false;
}

/* Of what it holds itself, or else of what those hold that go with it. */
static bool find_given_back(struct co_words *w, const struct co_plan *plan, struct rf_why *ret)
{
	struct co_charge asked = { .n = 0 }, held = { .n = 0 };

	co_charge_pod(w->c, plan->work->first, &asked);
	co_charge_held(w->c, w->p, &held);
	if (find_borrowed(w->c, w->p->work, &held, &asked, ret))
		return true;
	for (const struct co_pod *p = w->p->group != NULL ? w->p->group->pods : NULL; p != NULL; p = p->group_next) {
		if (p->seat != NULL)
			co_charge_held(w->c, p, &held);
	}
	return find_borrowed(w->c, w->p->work, &held, &asked, ret);
}

/* What others hold whose queue is not there either is none of its business. */
static struct rf_str why_queueless(struct co_words *w, const struct co_plan *plan)
{
	struct co_charge asked = { .n = 0 }, held = { .n = 0 };
	size_t i = 0;

	co_charge_pod(w->c, plan->work->first, &asked);
	co_charge_held(w->c, w->p, &held);
	for (size_t k = 0; k < asked.n; k++) {
		for (i = 0; i < held.n && held.ask[i].resource != asked.ask[k].resource;)
			i++;
		if (i < held.n)
			break;
	}
	i = i < held.n ? i : 0; /* a pod at least */
	return co_line(w, rf_arena_printf(w->a, "its queue is not there, so nothing is guaranteed to it; it holds %.*s, and those to whom that is guaranteed need it", RF_STR(co_much(w, held.ask[i].resource, held.ask[i].amount))),
		       w->c->resources.at[held.ask[i].resource], "queue", held.ask[i].amount, 0, "name a queue of its tenant or wait until it can start again");
}

struct rf_str co_why_rest(const struct co_group *g, struct rf_arena *a)
{
	return rf_arena_printf(a, "others of group %s were evicted, and what is left of it is less than its minimum. resource=pods level=group need=%" PRId64 " have=0 help=wait until it can start again",
			       g->name, g->min);
}

static struct rf_str why_reclaimed(struct co_words *w, const struct co_plan *plan)
{
	const char *help = "wait until it can start again or have the guarantee raised";
	struct rf_workload_view v;
	struct rf_str level;
	struct rf_why y;

	if (w->p->work->queue == NULL)
		return why_queueless(w, plan);
	if (find_given_back(w, plan, &y)) {
		level = rf_queue_path(w->a, y.level);
		return co_line(w, rf_arena_printf(w->a, "queue %.*s uses %.*s and is guaranteed %.*s; the rest is borrowed, and those to whom it is guaranteed need it", RF_STR(level), RF_STR(co_much(w, y.resource, y.need)), RF_STR(co_amount(w, y.resource, y.have))),
			       w->c->resources.at[y.resource], rf_arena_cstr(w->a, level), y.need, y.have, help);
	}
	if (w->p->whole && w->p->group != NULL) /* it was refused before, and the others are gone */
		return co_why_rest(w->p->group, w->a);
	rf_workload_view(w->p->work->w, &v);
	if (v.backfilled)
		return co_plain(w, RF_LIT("was let past work that waited longer, because it can be stopped, and that work is due now"), "cluster",
				"wait until it can start again or set a run limit");
	return co_plain(w, RF_LIT("runs on what its queue borrowed, and those to whom it is guaranteed need it"), "queue", help);
}

/* What the other one lacks: it is of the same queue. */
static struct rf_str why_preempted(struct co_words *w, struct co_plan *plan)
{
	const char *help = "raise its priority or wait until it can start again", *text = "makes room for work of its own queue with a higher priority";
	struct co_pod *first = plan->work->first;
	uint32_t counts[RF_WISH_UNFITS];
	struct rf_fleet_most most;
	struct rf_fleet_ask ask;
	struct co_lack lack;
	struct rf_why y;

	rf_workload_why(w->c->queues, plan->work->w, w->c->now, &y);
	if (y.resource >= 0)
		return co_line(w, rf_arena_printf(w->a, "%s, which needs %.*s where %.*s is left", text, RF_STR(co_much(w, y.resource, y.need)), RF_STR(co_amount(w, y.resource, y.have))),
			       w->c->resources.at[y.resource], y.level != NULL ? rf_arena_cstr(w->a, rf_queue_path(w->a, y.level)) : "cluster",
			       y.need, y.have, help);
	(void)co_ask(w->c, first->shape, ~UINT64_C(0), &ask);
	ask.class = rf_wish_why(w->c->wishes, first->shape->wish, counts);
	ask.may_kept = co_ahead_may(w->c, plan->work);
	rf_fleet_most(w->c->fleet, &ask, &most);
	lack = co_find_lack(w, first->shape->form, &ask, &most, help);
	return co_line(w, strcmp(lack.resource, "nodes") == 0 ? rf_str(text) : rf_arena_printf(w->a, "%s, which %.*s", text, RF_STR(co_headline(w, first->shape->form, &lack))),
		       lack.resource, "node", lack.need, RF_MAX(lack.have, 0), lack.help);
}

struct rf_str co_why_goes(struct rf_core *c, struct co_pod *p, struct co_plan *plan, struct rf_arena *a)
{
	struct co_words w = { .c = c, .a = a, .p = p };

	return p->by_priority ? why_preempted(&w, plan) : why_reclaimed(&w, plan);
}
