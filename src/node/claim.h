/* What a ResourceClaim grants a pod on this machine. Pure: reads objects, changes nothing. */
#ifndef RF_NODE_CLAIM_H
#define RF_NODE_CLAIM_H

#include "codec/json.h"

#define RF_GRANT_CARDS_MAX 16

struct rf_grant_card {
	int index;	      /* of device gpu-<index> */
	int64_t memory_bytes; /* the cap; 0: the whole card, or the whole slice */
	int64_t compute_milli;
	char profile[32]; /* a slice: "1g.10gb", and its first memory slice; else "" */
	unsigned start;
};

/* What one container may use. */
struct rf_grant {
	struct rf_grant_card cards[RF_GRANT_CARDS_MAX];
	size_t n;
	bool whole;  /* whole cards, nobody else may be on them */
	bool sliced; /* slices of cards in MIG mode; the card is not theirs, what is cut from it is */
};

/* The slice that the claim says its i-th result is; false: it is none. */
bool rf_claim_slice(const struct rf_json *claim, size_t i, struct rf_grant_card *ret);

/* Is the claim this pod's, allocated on this node, reserved for it? RF_UNAVAILABLE where waiting
 * may help (not allocated yet), RF_FORBIDDEN where it cannot. */
int rf_claim_check(const struct rf_json *claim, const struct rf_json *pod, struct rf_str node,
		   struct rf_err *err);
/* The container's part of it. A container that asked for cards and was granted others, fewer or
 * less is RF_FORBIDDEN: the fence follows the allocation, and the allocation must be what was
 * asked. */
int rf_claim_grant(const struct rf_json *claim, const struct rf_json *container,
		   struct rf_grant *ret, struct rf_err *err);

#endif
