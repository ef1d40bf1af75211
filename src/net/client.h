/* Shared by client.c (calls and their connections) and request.c (the request as text). */
#ifndef RF_NET_CLIENT_H
#define RF_NET_CLIENT_H

#include <netdb.h>

#include "net/conn.h"
#include "net/http.h"
#include "net/http1_parse.h"

struct rf_http_client {
	uv_loop_t *loop;
	char *host;
	char *host_header;
	char *bearer; /* "" if none */
	uint16_t port;
	struct rf_tls *tls;
	struct rf_http_call *calls;
	struct rf_http_wire *wires;
	size_t live; /* calls, wires and lookups whose handles are not closed yet */
	bool freed;
};

/* A connection to the server: carrying one call, or waiting for the next. */
struct rf_http_wire {
	struct rf_http_client *client;
	struct rf_http_wire *prev, *next;
	struct rf_conn *conn;
	struct rf_http_call *call; /* NULL: idle, or on its way out */
	struct rf_h1 parser;
	bool reused;
	bool over;
	int interim; /* 1xx answers so far */
};

struct rf_http_lookup;

struct rf_http_call {
	struct rf_http_client *client;
	struct rf_http_call *prev, *next;
	struct rf_http_wire *wire;
	struct rf_http_lookup *lookup;
	struct addrinfo *addresses;	/* of the host's name */
	const struct addrinfo *address; /* the one being tried */
	uv_timer_t timer;
	struct rf_buf request; /* kept whole, for another try */
	struct rf_buf body;
	char *what; /* "GET https://host:port/target", for errors */
	char *content_type;
	int status;
	int timeout_ms, idle_ms;
	size_t body_max;
	bool idempotent;
	bool to_head;
	bool streaming; /* the answer's head has come and its body goes to on_data */
	bool paused;
	bool retried;
	bool over;
	struct rf_err failure; /* found inside rf_http_call: told from the loop */
	void (*on_data)(void *ctx, struct rf_str data);
	void (*on_done)(void *ctx, const struct rf_err *err,
			const struct rf_http_response *response);
	void *ctx;
};

/* request.c: fills call->request, or says what cannot be sent. */
int rf_http_write_request(struct rf_http_call *call, const struct rf_http_call_opts *opts,
			  struct rf_err *err);

#endif
