/* Where the MIG slices of a claim are, as control writes it into the allocation's config: for a request
 * {profile, starts}, the first memory slice of each of its results in turn. Pure. */
#ifndef RF_TENANT_SLICE_H
#define RF_TENANT_SLICE_H

#include "base/base.h"
#include "codec/json.h"

struct rf_slice_place {
	struct rf_str profile; /* "1g.10gb", as the driver names it; points into the claim */
	unsigned start;	       /* 0 to 7 */
};

/* Of the i-th result of the claim; false: it is no slice. */
bool rf_slice_of_result(const struct rf_json *claim, size_t i, struct rf_slice_place *ret);
/* The memory slices it covers on a card of this model (as the driver names it), a bit each; 0: that model has no
 * such profile, or not there. */
unsigned rf_slice_mask(struct rf_str product, const struct rf_slice_place *p);

#endif
