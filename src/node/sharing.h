/* How shares are had on this node: by time, or by MPS. The node's pool says so (GPUPool.spec.sharing), and the
 * tenant's isolation must allow it. */
#ifndef RF_NODE_SHARING_H
#define RF_NODE_SHARING_H

#include "codec/json.h"

/* Reads one object of the API. */
struct rf_sharing_source {
	int (*get)(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_json **ret, struct rf_err *err);
	void *ctx;
};

struct rf_sharing {
	bool mps;
	char domain[64]; /* the trust domain, if so */
};

/* Is the node in a pool whose shares are had by MPS? *ret stays as it is where that cannot be read. */
int rf_sharing_of_node(const struct rf_sharing_source *s, struct rf_str node, bool *ret, struct rf_err *err);
/* For a pod of this tenant. Who has isolation share did not agree to a common fate and is served by time. What
 * cannot be read is an error: nobody is put where he may not be. */
int rf_sharing_of_tenant(const struct rf_sharing_source *s, struct rf_str node, struct rf_str tenant,
			 struct rf_sharing *ret, struct rf_err *err);

#endif
