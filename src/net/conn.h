/* One TCP stream on a libuv loop, with or without TLS: bytes out, bytes in, and an end.
 *
 * All callbacks come from the loop, never from inside a call made here. A callback may close the
 * connection; its memory lives until on_released, which comes from the loop later on. */
#ifndef RF_NET_CONN_H
#define RF_NET_CONN_H

#include <uv.h>

#include "base/base.h"
#include "net/http.h"
#include "net/tls.h"

struct rf_conn;

struct rf_conn_events {
	/* The handshake is done, or a plain connection we asked for is there. */
	void (*on_ready)(void *ctx);
	void (*on_data)(void *ctx, struct rf_str data);
	void (*on_drain)(void *ctx); /* the kernel has taken all that was written */
	/* Once: the peer ended properly (err NULL), or it failed. The owner closes. */
	void (*on_end)(void *ctx, const struct rf_err *err);
	void (*on_timer)(void *ctx);
	void (*on_released)(void *ctx); /* after close or finish; nothing follows */
};

/* Takes the connection waiting at the listener. NULL if it could not be. */
struct rf_conn *rf_conn_accept(uv_stream_t *listener, struct rf_tls *tls,
			       const struct rf_conn_events *events, void *ctx, struct rf_err *err);
/* host is checked against the certificate and used in errors; copied. */
struct rf_conn *rf_conn_connect(uv_loop_t *loop, const struct sockaddr *address, const char *host,
				struct rf_tls *tls, const struct rf_conn_events *events, void *ctx,
				struct rf_err *err);

/* Copies. Does nothing once the connection has ended. */
void rf_conn_write(struct rf_conn *c, struct rf_str data);
size_t rf_conn_pending(const struct rf_conn *c);    /* bytes not yet taken by the kernel */
void rf_conn_pause(struct rf_conn *c, bool paused); /* stops reading; what was read still arrives */
void rf_conn_timer(struct rf_conn *c, int64_t ms);  /* one shot, replaces the last; -1: none */
/* The connection fails when the peer takes nothing of what is pending for so long (to twice that).
 */
void rf_conn_stall_after(struct rf_conn *c, int ms);
/* false: TCP or TLS is still being set up. A plain connection is ready once it is accepted. */
bool rf_conn_is_ready(const struct rf_conn *c);
int rf_conn_peer(struct rf_conn *c, struct rf_arena *a, struct rf_http_peer *ret,
		 struct rf_err *err);

/* Writes what is pending, says goodbye and releases, within bounded time. No callback but
 * on_released follows. */
void rf_conn_finish(struct rf_conn *c);
/* The same at once: what is pending is lost. */
void rf_conn_close(struct rf_conn *c);

#endif
