/* A fence's server (fence/server.h) on an agent's loop. */
#ifndef RF_NODE_FENCE_SERVER_H
#define RF_NODE_FENCE_SERVER_H

#include <uv.h>

#include "fence/server.h"

struct rf_fence_post {
	uv_poll_t poll;
	struct rf_fence_server *server;
};

/* As rf_fence_server_start. *arbiter is the agent's one arbiter; it is started when the first fence needs
 * it, and stays the agent's to stop once all posts are closed. */
int rf_fence_post_open(uv_loop_t *loop, struct rf_arbiter **arbiter, const char *run_dir,
		       const char *ledger_path, const struct rf_fence_card *cards, size_t n,
		       struct rf_fence_post **ret, struct rf_err *err);
/* The server is gone at once; the memory goes when the loop has run its close callbacks. NULL is
 * allowed. */
void rf_fence_post_close(struct rf_fence_post *p);

#endif
