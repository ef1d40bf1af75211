/* A fence's server (fence/server.h) on an agent's loop. */
#ifndef RF_NODE_FENCE_SERVER_H
#define RF_NODE_FENCE_SERVER_H

#include <uv.h>

#include "fence/server.h"
#include "node/cards.h"
#include "node/claim.h"

/* How a pod shares the time of cards, as it says itself; it takes nothing from others by it. */
struct rf_fence_terms {
	bool burst;	  /* annotation ringfence.io/burst */
	int32_t priority; /* spec.priority, from -100 to 100 */
	bool mps;	  /* its share is had by MPS; not the pod's to say */
};
struct rf_fence_terms rf_fence_terms_of(const struct rf_json *pod);
/* Card i of a grant, which is the machine's card at position; slice: of it, if that was granted, else NULL. */
struct rf_fence_card rf_fence_card_of(const struct rf_cards *c, size_t position,
				      const struct rf_grant *grant, size_t i, const struct rf_slice *slice,
				      const struct rf_fence_terms *terms);

struct rf_fence_post {
	uv_poll_t poll;
	struct rf_fence_server *server;
};

/* As rf_fence_server_start, RF_CONFLICT telling a ledger of another version (*ret_outdated) from one that was
 * spoilt; ret_outdated may be NULL. *arbiter is the agent's one arbiter; it is started when the first fence needs
 * it, and stays the agent's to stop once all posts are closed. */
int rf_fence_post_open(uv_loop_t *loop, struct rf_arbiter **arbiter, const char *run_dir,
		       const char *ledger_path, const struct rf_fence_card *cards, size_t n,
		       struct rf_fence_post **ret, bool *ret_outdated, struct rf_err *err);
/* The server is gone at once; the memory goes when the loop has run its close callbacks. NULL is
 * allowed. */
void rf_fence_post_close(struct rf_fence_post *p);

#endif
