/* gang: places for several pods at once, or for none. Works on the fleet alone. */
#ifndef RF_SCHED_GANG_H
#define RF_SCHED_GANG_H

#include "sched/fleet.h"

#define RF_GANG_MAX 100000 /* members */

struct rf_gang {
	const struct rf_fleet_ask *asks; /* one per member, the ones that matter most first */
	size_t n, min;			 /* at least the first min; of the rest as many as fit */
	/* Topology: the domain of each node by its handle, RF_FLEET_NONE for none; all members in one domain.
	 * NULL: anywhere. held: the domain where earlier members run, RF_FLEET_NONE: free to choose. */
	const uint32_t *domain;
	size_t n_domain;
	uint32_t held;
	/* Where a member may go given those placed before it (anti-affinity, spread): changes ask->class; false:
	 * nowhere. placed and undone tell it of each. All NULL: asks hold as they are. */
	bool (*narrow)(void *ctx, size_t member, struct rf_fleet_ask *ask);
	void (*placed)(void *ctx, size_t member, const struct rf_fleet_place *at);
	void (*undone)(void *ctx, size_t member, const struct rf_fleet_place *at);
	void *ctx;
};

/* Do they ask for the same? */
bool rf_gang_alike(const struct rf_fleet_ask *a, const struct rf_fleet_ask *b);

/* Takes places for min to n members. Returns how many (the holds of those not placed are 0, their node is
 * RF_FLEET_NONE); 0: it cannot be, and nothing was taken. Bounded: members that ask the same are placed without backtracking, others in
 * a few orders; a set that could be placed in some order only may be missed, never a wrong one taken. */
size_t rf_gang_take(struct rf_fleet *f, const struct rf_gang *g, struct rf_fleet_place *ret_places, uint64_t *ret_holds);

/* How many of the first min would find places at once, in the domain with room for the most of them. Takes nothing. */
size_t rf_gang_most(struct rf_fleet *f, const struct rf_gang *g);

#endif
