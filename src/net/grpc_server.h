/* Shared by grpc_server.c (connections and requests in) and grpc_reply.c (answers out). */
#ifndef RF_NET_GRPC_SERVER_H
#define RF_NET_GRPC_SERVER_H

#include "net/grpc_link.h"

/* READING -> HANDLING -> ENDED, or READING -> ENDED when refused. HANDLING -> GONE when the peer
 * has left and the handler does not know yet; -> TELLING while it is told. */
enum rf_grpc_call_state {
	RF_GRPC_READING,  /* the request comes in */
	RF_GRPC_HANDLING, /* the handler has it */
	RF_GRPC_ENDED,	  /* answered; on the wire until the peer has it all */
	RF_GRPC_GONE,	  /* off the wire; the handler will still end it */
	RF_GRPC_TELLING,  /* off the wire; in on_cancel, freed after it */
};

struct rf_grpc_call {
	struct rf_grpc_stream stream; /* first */
	struct rf_grpc_server *server;
	enum rf_grpc_call_state state;
	/* the request's headers */
	const struct rf_grpc_method *method; /* NULL: unknown */
	char path[128];			     /* the beginning of it, for the refusal */
	bool is_post, is_grpc, bad_timeout;
	int64_t arrive_by; /* a request that is not whole by then ends the connection */
	int64_t deadline;
	/* the answer */
	bool begun; /* its headers are with HTTP/2 */
	bool stuck; /* too much waits for the peer: to be cancelled from the loop */
	int status;
	struct rf_buf text;
	void (*on_cancel)(void *ctx);
	void *on_cancel_ctx;
};

struct rf_grpc_server {
	uv_loop_t *loop;
	uv_pipe_t listener;
	uv_timer_t soon; /* tells handlers that set on_cancel when the peer had left already */
	int handles;	 /* not yet closed */
	bool closing, soon_closing;
	struct rf_grpc_socket socket;
	const struct rf_grpc_method *methods;
	size_t n_methods;
	void *ctx;
	int patience_ms; /* 0: the link's own */
	struct rf_grpc_link *links;
	size_t n_links;
	struct rf_grpc_stream *orphans; /* calls that are GONE */
	size_t held;			/* bytes of all requests that are being read or handled */
};

/* --- grpc_reply.c --- */

/* Answers a request that reaches no handler. */
void rf_grpc_refuse(struct rf_grpc_call *call, int http, int status, const char *text);
/* Its deadline has passed or the peer takes nothing: it ends on the wire and for the handler. */
void rf_grpc_expire(struct rf_grpc_call *call);
/* The wire is gone: a handler that has the call is told, or keeps it until it ends it. */
void rf_grpc_drop(struct rf_grpc_call *call);
/* Tells those who set on_cancel late. */
void rf_grpc_tell_orphans(struct rf_grpc_server *s);
/* The answer's side of nghttp2. */
void rf_grpc_set_reply_callbacks(nghttp2_session_callbacks *cb);

/* --- grpc_server.c --- */

/* Forgets what was read of the request. */
void rf_grpc_drop_request(struct rf_grpc_call *call);
/* rf_grpc_tell_orphans, from the loop. */
void rf_grpc_server_tell_soon(struct rf_grpc_server *s);
/* Frees a closed server that nobody needs any more. */
void rf_grpc_server_maybe_free(struct rf_grpc_server *s);

#endif
