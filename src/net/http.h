/* HTTP/1.1 over TLS (or plain on loopback in tests) on a libuv loop: a strict server and a client.
 *
 * Everything a peer sends is capped: request line and headers 32 KiB, 100 headers, the body at what
 * the server's options say, idle and slow connections by time. Ambiguous framing (two lengths, both
 * length and chunked, obs-fold, bare LF, spaces before colons) is refused, never repaired. */
#ifndef RF_NET_HTTP_H
#define RF_NET_HTTP_H

#include <uv.h>

#include "base/base.h"
#include "net/tls.h"

struct rf_http_header {
	struct rf_str name;
	struct rf_str value;
};

/* --- server ----------------------------------------------------------------------------------- */

struct rf_http_server;

/* Who the client certificate says it is; believed only after the chain was verified. */
struct rf_http_peer {
	bool has_cert;
	struct rf_str common_name;
	struct rf_str groups[16]; /* organisations */
	size_t n_groups;
	char address[64]; /* ip:port, for logs */
};

/* Valid from the handler's call until the reply has ended, or on_close was called. */
struct rf_http_req {
	struct rf_arena *arena; /* for the handler's use; gone with the request */
	struct rf_str method;	/* "GET" */
	struct rf_str target;	/* "/api/v1/pods?limit=500", as sent */
	struct rf_str path;	/* "/api/v1/pods", percent-decoded; no NUL, no ".." segments */
	struct rf_str query;	/* "limit=500", as sent */
	const struct rf_http_header *headers;
	size_t n_headers;
	struct rf_str body;
	const struct rf_http_peer *peer;
	void *user; /* the handler's own */
};

typedef void (*rf_http_handler)(void *ctx, struct rf_http_req *req);

struct rf_http_server_opts {
	const char *address;	/* "127.0.0.1" */
	uint16_t port;		/* 0: the kernel picks one */
	struct rf_tls *tls;	/* NULL: plain text; borrowed */
	size_t body_max;	/* 0: 3 MiB */
	size_t connections_max; /* 0: 4096 */
	int idle_ms;		/* 0: 90 s between requests */
	int request_ms;		/* 0: 30 s to send a whole request */
	rf_http_handler handler;
	void *ctx;
};

/* Only HTTP/1.1 is served (1.0 gets a 505). A client that ends its side of the connection is taken
 * to have gone, also when it still waits for an answer. Sets SIGPIPE to ignored, if nobody has set
 * it to something else. After a failure the loop must still run once, to release the socket. */
int rf_http_listen(uv_loop_t *loop, const struct rf_http_server_opts *opts,
		   struct rf_http_server **ret, struct rf_err *err);
uint16_t rf_http_server_port(const struct rf_http_server *s);
/* Stops listening and ends every connection; requests with on_close are told so. Those without are
 * waited for: their handlers still answer. done (may be NULL) is called when all is released. */
void rf_http_server_close(struct rf_http_server *s, void (*done)(void *ctx), void *ctx);

struct rf_str rf_http_get_header(const struct rf_http_req *req,
				 const char *name); /* empty if none */
/* A query parameter, percent-decoded into the request's arena: false if absent. First one wins. */
bool rf_http_query(const struct rf_http_req *req, const char *name, struct rf_str *ret_value);

/* Extra response headers; before reply or stream_begin. Copies. Control characters in a value
 * become spaces, so that nobody's text can start a header of its own. */
void rf_http_add_header(struct rf_http_req *req, const char *name, struct rf_str value);
/* The whole answer. Copies body. The request is gone afterwards. */
void rf_http_reply(struct rf_http_req *req, int status, const char *content_type,
		   struct rf_str body);
/* An answer in pieces (chunked): watches, logs. write copies. After end the request is gone. A
 * client that takes nothing for request_ms (to twice that), or leaves 256 MiB waiting, is given up.
 */
void rf_http_stream_begin(struct rf_http_req *req, int status, const char *content_type);
void rf_http_stream_write(struct rf_http_req *req, struct rf_str data);
void rf_http_stream_end(struct rf_http_req *req);
size_t rf_http_stream_pending(const struct rf_http_req *req); /* bytes the client has yet to take */
/* Called each time all of the stream so far has been taken, for writers that wait for room. */
void rf_http_on_drain(struct rf_http_req *req, void (*cb)(void *ctx), void *ctx);
/* Called once if the client goes away before the reply ended; the request is gone afterwards. */
void rf_http_on_close(struct rf_http_req *req, void (*cb)(void *ctx), void *ctx);

/* --- client ----------------------------------------------------------------------------------- */

struct rf_http_client; /* one server; connections are kept and reused */
struct rf_http_call;   /* one request under way */

struct rf_http_client_opts {
	struct rf_str host; /* name or address, also checked against the certificate */
	uint16_t port;
	struct rf_tls *tls;   /* NULL: plain text; borrowed */
	struct rf_str bearer; /* token, or empty; copied */
};

/* A call on a kept connection that turns out dead is tried once more if the method is GET, HEAD,
 * PUT or DELETE and no byte of the answer has come. Failures of connection and TLS are
 * RF_UNAVAILABLE. */
struct rf_http_client *rf_http_client_new(uv_loop_t *loop, const struct rf_http_client_opts *opts);
/* Cancels what is under way (no callbacks) and releases everything once the loop has run on. */
void rf_http_client_free(struct rf_http_client *c);

struct rf_http_response {
	int status;
	struct rf_str content_type;
	struct rf_str body;
};

struct rf_http_call_opts {
	struct rf_str method;
	struct rf_str target;
	struct rf_str content_type;	      /* of the body, if any */
	struct rf_str accept;		      /* empty: application/json */
	const struct rf_http_header *headers; /* extra ones */
	size_t n_headers;
	struct rf_str body;
	int timeout_ms;	 /* for the whole answer; with on_data: until the head has come. 0: 30 s */
	int idle_ms;	 /* with on_data: the longest silence before the call fails; 0: none */
	size_t body_max; /* 0: 64 MiB; not with on_data */
	/* With on_data the body of a 2xx answer arrives in pieces and response->body stays empty.
	 */
	void (*on_data)(void *ctx, struct rf_str data);
	/* Always called once, unless cancelled. err is NULL on success (any HTTP status is
	 * success); response is NULL on failure. Both are valid during the call only. */
	void (*on_done)(void *ctx, const struct rf_err *err,
			const struct rf_http_response *response);
	void *ctx;
};
struct rf_http_call *rf_http_call(struct rf_http_client *c, const struct rf_http_call_opts *opts);
void rf_http_call_cancel(struct rf_http_call *call); /* no callback follows */
/* With on_data: stops (and resumes) reading, so that a slow consumer does not pile up data here. A
 * piece that was already read may still arrive; idle_ms does not count while paused. */
void rf_http_call_pause(struct rf_http_call *call, bool paused);

#endif
