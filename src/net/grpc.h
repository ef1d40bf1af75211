/* gRPC over unix sockets on a libuv loop: HTTP/2 by nghttp2, gRPC's framing by us. What a kubelet's
 * plugins need and no more: unary calls and server streams, no TLS, no compression, one thread.
 *
 * Everything a peer sends is capped: 16 MiB a message, 64 MiB of messages at a time, 8 KiB of
 * headers, 100 calls a connection and 64 connections. A connection is ended when a request on it
 * takes more than 30 s to arrive, or when the peer takes none of our bytes for so long; an idle one
 * is kept. A peer's disconnect at any instant leaves nothing behind. Callbacks come from the loop
 * only, never from inside the call that asked for them, but for rf_grpc_server_close. */
#ifndef RF_NET_GRPC_H
#define RF_NET_GRPC_H

#include <uv.h>

#include "base/base.h"

/* The codes of gRPC that ringfence sends or looks for. */
enum rf_grpc_status {
	RF_GRPC_OK = 0,
	RF_GRPC_CANCELLED = 1,
	RF_GRPC_UNKNOWN = 2,
	RF_GRPC_INVALID_ARGUMENT = 3,
	RF_GRPC_DEADLINE_EXCEEDED = 4,
	RF_GRPC_NOT_FOUND = 5,
	RF_GRPC_ALREADY_EXISTS = 6,
	RF_GRPC_PERMISSION_DENIED = 7,
	RF_GRPC_RESOURCE_EXHAUSTED = 8,
	RF_GRPC_FAILED_PRECONDITION = 9,
	RF_GRPC_ABORTED = 10,
	RF_GRPC_OUT_OF_RANGE = 11,
	RF_GRPC_UNIMPLEMENTED = 12,
	RF_GRPC_INTERNAL = 13,
	RF_GRPC_UNAVAILABLE = 14,
	RF_GRPC_UNAUTHENTICATED = 16,
};
/* RF_INVALID -> INVALID_ARGUMENT, RF_FORBIDDEN -> PERMISSION_DENIED and so on, by base's table; a
 * client's errors come back by the same one. */
enum rf_grpc_status rf_grpc_status_of(int rf_code);

/* --- server ----------------------------------------------------------------------------------- */

struct rf_grpc_server;
struct rf_grpc_call; /* one call under way; valid until finished or cancelled */

/* message: the request, valid during the handler only. The handler, or something after it, ends the
 * call with rf_grpc_reply, rf_grpc_finish or rf_grpc_fail; many calls of one peer may be open at
 * once. Who answers later sets rf_grpc_on_cancel in the handler: a call without it stays valid when
 * its peer has gone, until it is ended like any other. */
typedef void (*rf_grpc_handler)(void *ctx, struct rf_grpc_call *call, struct rf_str message);

struct rf_grpc_method {
	const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
	rf_grpc_handler handle;
};

/* Listens at a socket file, replacing a socket that is there (any other file is RF_EXISTS); mode is
 * of the file (0600 or 0660). methods and ctx are borrowed until the server is closed. Paths longer
 * than the kernel's 107 bytes are RF_INVALID. Unknown methods are answered UNIMPLEMENTED, other
 * content types with HTTP 415. A grpc-timeout is honoured: the call is cancelled when it has passed.
 * Sets SIGPIPE to ignored, if nobody has set it to something else; so does a client. */
int rf_grpc_listen(uv_loop_t *loop, const char *path, unsigned mode,
		   const struct rf_grpc_method *methods, size_t n, void *ctx,
		   struct rf_grpc_server **ret, struct rf_err *err);
/* Unlinks the file if it is still this server's own, ends every connection and cancels every call:
 * each on_cancel is called before this returns, and nothing of the caller's after it. Answers that
 * were given are still sent, as far as the peer takes them at once. Released when the loop has run
 * on and the last call without on_cancel was ended. NULL is allowed. */
void rf_grpc_server_close(struct rf_grpc_server *s);
size_t rf_grpc_server_connections(const struct rf_grpc_server *s);

/* The one answer of a unary call, with status OK. Copies. The call is gone afterwards. */
void rf_grpc_reply(struct rf_grpc_call *call, struct rf_str message);
/* One message of a stream. Copies; the call goes on. A call whose peer leaves more than 16 MiB
 * waiting (64 MiB of all its calls) is cancelled. */
void rf_grpc_send(struct rf_grpc_call *call, struct rf_str message);
/* The end, with a status; text may be NULL. The call is gone afterwards. */
void rf_grpc_finish(struct rf_grpc_call *call, enum rf_grpc_status status, const char *text);
/* The same from an error: its code and message. */
void rf_grpc_fail(struct rf_grpc_call *call, const struct rf_err *err);
/* cb is called once if the peer goes away, resets the stream or its deadline passes before the end;
 * the call is gone when cb returns. Set late, it is still called, soon, if that has happened. */
void rf_grpc_on_cancel(struct rf_grpc_call *call, void (*cb)(void *ctx), void *ctx);

/* --- client ----------------------------------------------------------------------------------- */

struct rf_grpc_client; /* one server; the connection is made when needed, kept, and made anew */
struct rf_grpc_client *rf_grpc_client_new(uv_loop_t *loop, const char *path);
/* Calls under way are dropped without a callback. Released once the loop has run on. NULL is
 * allowed. May be called from a callback. */
void rf_grpc_client_free(struct rf_grpc_client *c);
/* A unary call; timeout_ms 0: 30 s. Copies. done is called once, from the loop: err is NULL and
 * answer holds the message, or err says what happened (no such socket or connection lost:
 * RF_UNAVAILABLE; timeout: RF_TIMEOUT; a status of the server: its nearest code, with the server's
 * text) and answer is empty. Both are valid during the callback. A call is tried once more by
 * itself only when the server cannot have begun with it: a kept connection was dead, or said
 * GOAWAY. */
void rf_grpc_call_unary(struct rf_grpc_client *c, const char *method, struct rf_str message,
			int timeout_ms,
			void (*done)(void *ctx, const struct rf_err *err, struct rf_str answer),
			void *ctx);

#endif
