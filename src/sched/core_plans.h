/* What core_evict.c, which looks for plans, and core_plans.c, which keeps those that are open, know of each other. */
#ifndef RF_SCHED_CORE_PLANS_H
#define RF_SCHED_CORE_PLANS_H

#include "sched/core_private.h"

#define CO_GRACE_MS 300000 /* an eviction leaves no more */

/* What if a plan were carried out: its victims gone, its work placed. Several at a time, one after the other, inside
 * one mark of the fleet; what the wishes were told is taken back by hand. */
struct co_pretence {
	struct co_plan *plan;
	struct co_gang gang;
	struct rf_fleet_place *at;
	uint64_t *holds;
	bool *lifted;
	bool good;
};

/* Can all plans but this work's be carried out, each in its turn? They are, in the fleet, until it is rolled back. */
bool co_plans_pretend(struct rf_core *c, const struct co_work *but, struct co_pretence *ret, struct rf_arena *a);
void co_plans_unpretend(struct rf_core *c, struct co_pretence *v, size_t n);
/* The same in the books (sign 1), with the victims of one more gone (NULL: there is none); and back (-1). */
void co_plans_shift(struct rf_core *c, const struct co_work *but, const struct rf_evict_plan *more, int64_t sign);
void co_plans_drop_broken(struct rf_core *c);
void co_plan_put_off(struct rf_core *c, struct co_work *w); /* a plan of it came to nothing: not at once again */
void co_plan_wake(struct rf_core *c, int64_t ms);	    /* plans are looked at again then */

/* Of a gang that goes as a whole. */
bool co_enough_stay(const struct co_group *g);
bool co_must_go(const struct co_pod *p); /* others of it were told to go, and what is left is of no use */
void co_stays(struct rf_core *c, struct co_pod *p);

/* What if a member were gone; and it is back (evict.h). */
void co_evict_gone(void *ctx, const struct rf_evict_member *m);
void co_evict_back(void *ctx, const struct rf_evict_member *m);

#endif
