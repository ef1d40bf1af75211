/* Foreign habits: pods and pod groups written for another scheduler, put into ringfence's own words before
 * they are judged. An administrator switches each habit on; until then such pods mean what they meant.
 * docs/foreign.md has the mapping.
 *
 * Only wishes are read: how much, which queue, which group. What the other systems write as the outcome of a
 * decision (allocations, card indices, groups of a card, "admitted") is never looked at: the rewritten pod is
 * judged, counted and placed as if its owner had written ringfence's words. A pod is rewritten once, when it
 * is created. Pure: no clock, no network. */
#ifndef RF_TENANT_FOREIGN_H
#define RF_TENANT_FOREIGN_H

#include "tenant/admit.h"

/* Labels of pods. */

enum rf_habit {
	RF_HABIT_KAI = 1,
	RF_HABIT_HAMI = 2,
	RF_HABIT_VOLCANO = 4,
	RF_HABIT_X_K8S = 8, /* scheduling.x-k8s.io: coscheduling's */
	RF_HABIT_KUEUE = 16,
};

struct rf_foreign {
	unsigned habits;    /* of enum rf_habit; 0: none */
	int64_t card_bytes; /* the card that a fraction is a fraction of; 0: not said, fractions are refused */
};
/* "kai,hami,volcano,x-k8s,kueue", and a quantity ("80Gi") or nothing. */
int rf_foreign_parse(struct rf_str habits, struct rf_str card, struct rf_foreign *ret, struct rf_err *err);

/* Those of this process: set once, when it starts; none until then. */
void rf_foreign_set(const struct rf_foreign *f);
const struct rf_foreign *rf_foreign(void);

/* Whose pod or group it is. */
struct rf_foreign_owner {
	struct rf_str tenant; /* of the namespace; empty: nobody's */
	/* Is there a queue of that name, and is it the tenant's? Not asked about the tenant's own name. */
	bool (*owns)(void *ctx, struct rf_str queue);
	void *ctx;
	const char *scheduler; /* what ringfence is called as a scheduler; NULL: RF_SCHEDULER */
};

/* Rewrites a new pod in place; ret_patch gets the same as a JSON Patch, NULL if there was nothing to do. Done
 * again it changes nothing. RF_INVALID: a value makes no sense, says two things at once, or is a demand that
 * has no counterpart (to drop it would be to place the pod where its owner does not want it). RF_FORBIDDEN:
 * the queue is not the tenant's. After an error the pod is not to be used. */
int rf_foreign_rewrite(struct rf_arena *a, const struct rf_foreign *f, const struct rf_foreign_owner *owner,
		       struct rf_json *pod, struct rf_json **ret_patch, struct rf_err *err);

/* A PodGroup of scheduling.volcano.sh or scheduling.x-k8s.io as one of ringfence, owned by the one it was made
 * from. Errors as above; RF_UNSUPPORTED: of another kind, or of a habit that is off. */
int rf_foreign_group(struct rf_arena *a, const struct rf_foreign *f, const struct rf_foreign_owner *owner,
		     const struct rf_json *group, struct rf_json **ret, struct rf_err *err);
/* What ringfence calls a foreign group: its name, made into a DNS label where it is none. */
struct rf_str rf_foreign_group_name(struct rf_arena *a, struct rf_str name);

#endif
