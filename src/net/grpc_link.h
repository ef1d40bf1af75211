/* One connection of a gRPC server or client: a unix socket with an HTTP/2 session on it, and the
 * streams that are open on it. The owner (grpc_server.c, grpc_client.c) is told of HTTP/2's events
 * by nghttp2's callbacks and of the rest by the ops below.
 *
 * The owner may call everything here at any time, from nghttp2's callbacks too: bytes are moved by
 * the loop only, and a link's memory lives until the loop has closed its handles. */
#ifndef RF_NET_GRPC_LINK_H
#define RF_NET_GRPC_LINK_H

#include <nghttp2/nghttp2.h>

#include "net/grpc_message.h"

#define RF_GRPC_STREAMS_MAX 100
#define RF_GRPC_NEVER INT64_MAX

struct rf_grpc_link;

/* One call on the wire, on either side. Owners embed it first in their call. */
struct rf_grpc_stream {
	struct rf_grpc_link *link; /* NULL: off the wire */
	struct rf_grpc_stream *prev, *next;
	int32_t id; /* 0: HTTP/2 does not know it yet */
	size_t header_bytes;
	struct rf_grpc_reader in;
	struct rf_buf out;
	size_t taken; /* bytes of out that HTTP/2 has */
	int64_t due;  /* on_due comes then; RF_GRPC_NEVER */
};

#define RF_GRPC_STREAM_INIT                                                                        \
	{                                                                                          \
		.in = RF_GRPC_READER_INIT, .out = RF_BUF_INIT, .due = RF_GRPC_NEVER                \
	}

struct rf_grpc_link_ops {
	bool server;
	void (*set_callbacks)(nghttp2_session_callbacks *cb);
	void (*on_open)(struct rf_grpc_link *l); /* may be NULL */
	/* st->due has come: the owner puts it off or takes the stream from the link. */
	void (*on_due)(struct rf_grpc_stream *st);
	/* Once: no call can go on here. The owner takes all streams from the link, which closes. */
	void (*on_lost)(struct rf_grpc_link *l, const struct rf_err *err);
	void (*on_released)(struct rf_grpc_link *l); /* l is freed when this returns */
};

struct rf_grpc_link {
	uv_pipe_t pipe;
	uv_timer_t timer; /* for all that is due, and for moving bytes soon */
	int handles;	  /* not yet closed */
	const struct rf_grpc_link_ops *ops;
	void *owner;
	struct rf_grpc_link *prev, *next; /* the owner's list */
	char *path;
	nghttp2_session *session;
	struct rf_grpc_stream *streams, *last_stream; /* in the order of their beginning */
	uv_connect_t connect;
	uv_write_t write;
	struct rf_buf out; /* with the kernel while writing */
	bool writing;
	uint64_t writes; /* of which the kernel has taken something */
	bool open;
	bool leaving, parted; /* being ended by us: asked for, said so to the peer */
	bool lost, closed;
	int patience_ms;
	int64_t write_due; /* the peer has taken nothing for too long */
	int64_t end_due;   /* the owner's: the link is lost then */
	struct rf_err failure;
	/* A fuzzer's: bytes go there, none at the end, and there is no socket. */
	void (*tap)(void *ctx, struct rf_str bytes);
	void *tap_ctx;
};

int64_t rf_grpc_now(void); /* milliseconds */

/* Not connected to anything. */
struct rf_grpc_link *rf_grpc_link_new(uv_loop_t *loop, const struct rf_grpc_link_ops *ops,
				      void *owner, const char *path);
/* false: nothing came of it; the link closes by itself, without on_lost. */
bool rf_grpc_link_accept(struct rf_grpc_link *l, uv_stream_t *listener);
void rf_grpc_link_connect(struct rf_grpc_link *l); /* on_open or on_lost follows */
void rf_grpc_link_open(struct rf_grpc_link *l);	   /* the session begins */
void rf_grpc_link_input(struct rf_grpc_link *l, struct rf_str bytes); /* from the loop only */
void rf_grpc_link_wake(struct rf_grpc_link *l); /* soon: what is due, what is to be sent */
/* From the loop only: on_lost, and closes. */
void rf_grpc_link_end(struct rf_grpc_link *l, const struct rf_err *err);
/* Sends what can be sent, says GOAWAY and closes, within a second. Reads nothing more. */
void rf_grpc_link_leave(struct rf_grpc_link *l);
void rf_grpc_link_close(struct rf_grpc_link *l); /* at once, without on_lost */

void rf_grpc_stream_add(struct rf_grpc_link *l, struct rf_grpc_stream *st);
/* Off the link; HTTP/2 forgets it. A reset is not sent. */
void rf_grpc_stream_remove(struct rf_grpc_stream *st);
void rf_grpc_stream_done(struct rf_grpc_stream *st); /* removed already; releases its buffers */
/* For nghttp2's read callback: the next bytes of out. */
size_t rf_grpc_stream_take(struct rf_grpc_stream *st, uint8_t *buf, size_t room);
static inline size_t rf_grpc_stream_waiting(const struct rf_grpc_stream *st)
{
	return st->out.n - st->taken;
}
/* NULL once it was removed. */
static inline struct rf_grpc_stream *rf_grpc_stream_of(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

/* nghttp2 refuses only what is ringfence's own mistake, or for lack of memory. */
static inline void rf_grpc_must(int rc)
{
	rf_assert(rc == 0);
}
nghttp2_nv rf_grpc_nv(const char *name, struct rf_str value);
static inline struct rf_str rf_grpc_rcbuf(nghttp2_rcbuf *b)
{
	nghttp2_vec v = nghttp2_rcbuf_get_buf(b);

	return rf_str_n((const char *)v.base, v.len);
}

/* --- the socket file (grpc_socket.c) ---------------------------------------------------------- */

struct rf_grpc_socket {
	char *path;
	uint64_t dev, ino; /* to know it again */
};

int rf_grpc_socket_check(const char *path, struct rf_err *err); /* RF_INVALID: too long */
/* A socket that is there is replaced; any other file is RF_EXISTS. */
int rf_grpc_socket_listen(const char *path, unsigned mode, struct rf_grpc_socket *ret, int *ret_fd,
			  struct rf_err *err);
/* Unlinks the file unless another has taken its place. */
void rf_grpc_socket_done(struct rf_grpc_socket *s);

/* --- for tests and the fuzzer ----------------------------------------------------------------- */

/* A server without a socket file, and connections without sockets for it and for a client. */
struct rf_grpc_server *rf_grpc_server_new(uv_loop_t *loop, const struct rf_grpc_method *methods,
					  size_t n, void *ctx);
struct rf_grpc_link *rf_grpc_server_tap(struct rf_grpc_server *s,
					void (*tap)(void *ctx, struct rf_str bytes), void *ctx);
struct rf_grpc_link *rf_grpc_client_tap(struct rf_grpc_client *c,
					void (*tap)(void *ctx, struct rf_str bytes), void *ctx);
/* Instead of 30 s, for connections that come from now on. */
void rf_grpc_server_set_patience(struct rf_grpc_server *s, int ms);

#endif
