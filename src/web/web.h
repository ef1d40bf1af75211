/* web: the dashboard. One page that shows cards, pods and tenants, fed by one JSON document.
 *
 * The page itself holds no data and is served to anyone who reaches the port; the data needs the access
 * token, which travels in the address behind '#' (browsers keep that part to themselves). */
#ifndef RF_WEB_H
#define RF_WEB_H

#include <uv.h>

#include "base/base.h"
#include "codec/json.h"
#include "net/tls.h"

struct rf_web;

struct rf_web_opts {
	const char *address;
	uint16_t port;       /* 0: the kernel picks one */
	struct rf_tls *tls;  /* borrowed */
	struct rf_str token; /* copied */
	/* What the page shows, made anew for each request in that request's arena. */
	struct rf_json *(*state)(void *ctx, struct rf_arena *a);
	void *ctx;
};
int rf_web_start(uv_loop_t *loop, const struct rf_web_opts *opts, struct rf_web **ret, struct rf_err *err);
uint16_t rf_web_port(const struct rf_web *w);
void rf_web_stop(struct rf_web *w); /* NULL is fine */

#endif
