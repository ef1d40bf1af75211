/* Shared by server.c (connections and requests in) and reply.c (answers out). */
#ifndef RF_NET_SERVER_H
#define RF_NET_SERVER_H

#include "net/conn.h"
#include "net/http.h"
#include "net/http1_parse.h"

/* READING -> HANDLING -> (STREAMING ->) REPLIED -> READING ..., and OVER from anywhere. */
enum rf_http_link_state {
	RF_LINK_READING,   /* waits for a request, or reads one */
	RF_LINK_HANDLING,  /* the handler has it; nothing is answered yet */
	RF_LINK_STREAMING, /* the head of the answer is sent */
	RF_LINK_REPLIED,   /* answered; the request's memory is still there */
	RF_LINK_OVER,	   /* the connection is being released */
};

/* One client's connection, with the one request it may have under way. */
struct rf_http_link {
	struct rf_http_server *server;
	struct rf_http_link *prev, *next;
	struct rf_conn *conn;
	enum rf_http_link_state state;
	bool gone;	 /* the client is, but the handler still holds the request */
	bool processing; /* we are inside process(), which goes on by itself */
	bool request_timed;
	struct rf_http_peer peer;
	struct rf_arena peer_arena;
	struct rf_h1 parser;
	struct rf_buf in;   /* arrived, not yet parsed */
	struct rf_buf body; /* of the request */
	struct rf_arena arena;
	struct rf_http_req req;
	struct rf_buf extra; /* the handler's response headers */
	void (*on_close)(void *ctx);
	void *on_close_ctx;
	void (*on_drain)(void *ctx);
	void *on_drain_ctx;
};

static inline struct rf_http_link *rf_http_link_of(const struct rf_http_req *req)
{
	return RF_CONTAINER_OF(req, struct rf_http_link, req);
}

/* server.c: the answer is complete; the request's memory goes once the loop is back with us. */
void rf_http_link_replied(struct rf_http_link *link);
/* server.c: on_close was set although the client had already gone. */
void rf_http_link_tell_gone(struct rf_http_link *link);
/* reply.c: refuses what could not be read: a short text, and the connection ends. */
void rf_http_link_refuse(struct rf_http_link *link, int status, const char *why);

#endif
