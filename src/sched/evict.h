/* evict: what has to go so that a waiting workload can be placed, with proof: the plan that is returned was
 * carried out on the fleet by the very function that will place it (gang.h), and undone. Minimal: none of its
 * victims can be left out. Never: work within its guarantee, or that would be were only the plan's other victims
 * gone, pinned work, work within its minimum run time, a gang below its minimum (it goes as a whole then), pods whose
 * disruption budget is used up.
 *
 * Two claims: reclaim (another queue's work over its guarantee or fair share, queue.h) and priority (work of
 * the same leaf queue with a lower priority). */
#ifndef RF_SCHED_EVICT_H
#define RF_SCHED_EVICT_H

#include "sched/gang.h"
#include "sched/queue.h"

struct rf_evict_member {
	uint64_t hold;
	void *user;   /* the caller's pod; NULL, and leaving: nobody knows when it goes */
	bool leaving; /* is being deleted already: its place counts as free soon, at no cost */
	bool stays;   /* cannot be taken now, and none of its work with it that does not leave */
};

/* What the planner needs of the caller. */
struct rf_evict_world {
	struct rf_fleet *fleet;
	struct rf_queues *queues;
	/* The members of running work, those to go first first. The array lives until the next call. */
	size_t (*members)(void *ctx, const struct rf_workload *w, const struct rf_evict_member **ret);
	/* May these go together (disruption budgets)? */
	bool (*may_go)(void *ctx, const struct rf_evict_member *const *go, size_t n);
	/* Is it over its guarantee, as the queues' books are now, only by what may still fail? NULL: never. */
	bool (*shielded)(void *ctx, const struct rf_workload *w);
	/* What if this member were gone, and it is back: for who keeps count of pods by node (the gang's narrow). Both
	 * or neither may be NULL. */
	void (*gone)(void *ctx, const struct rf_evict_member *m);
	void (*back)(void *ctx, const struct rf_evict_member *m);
	void *ctx;
	size_t most; /* members that go, those that leave anyway not counted */
	struct rf_takes_how how; /* beside: who waits and was planned for already: what is free in the books is theirs first */
};

struct rf_evict_plan {
	/* In the arena, copies: those that leave anyway, then the others so that each may go when those before it went. */
	const struct rf_evict_member **go;
	size_t n;
	struct rf_fleet_place *places; /* where the gang's first members then go, its minimum */
	size_t n_places;
	bool by_priority;
	/* Falls with each plan that is carried out while nothing new comes: how many members of what ran already when
	 * something last came or ended are still there (queue.h, rf_takes_potential). Only these can go, none of them
	 * comes back among them, and each plan takes one at least. So there are at most as many evictions as there
	 * were members, and who was let in by an eviction is not evicted in turn. */
	uint64_t potential;
};

/* False: there is no such plan, or none is needed. Looks for one that takes from as few as possible, the ones that
 * queue.h would name first where it has the choice. A search: where more than 12 could go, one may be missed. */
bool rf_evict_plan(const struct rf_evict_world *world, struct rf_workload *w, const struct rf_gang *gang, int64_t now,
		   struct rf_arena *a, struct rf_evict_plan *ret);
/* Does the plan still hold with what is left of its victims, and with `places` taken by others since? */
bool rf_evict_holds(const struct rf_evict_world *world, const struct rf_gang *gang, const struct rf_evict_plan *plan);

#endif
