/* Connections of the server, and the requests they bring. */
#include "net/server.h"

#include <arpa/inet.h>

#define BODY_MAX (3u * 1024 * 1024)
#define CONNECTIONS_MAX 4096
#define IDLE_MS 90000
#define REQUEST_MS 30000
#define HANDSHAKE_MS 10000
#define EVICT_LOOK 64 /* links looked at for one to evict */
#define IN_MAX (64 * 1024)		/* pipelined bytes kept while a request is handled */
#define PENDING_MAX (1024 * 1024)	/* of answers not taken, before the next is begun */
#define ARENA_MAX (256u * 1024 * 1024)	/* for one request's rf_arena_try */
#define BODIES_MAX (512u * 1024 * 1024) /* of all requests being read or handled together */
#define BACKLOG 511

struct rf_http_server {
	uv_tcp_t listener;
	struct rf_http_server_opts opts;
	uint16_t port;
	struct rf_http_link *links;  /* the one last heard of first */
	struct rf_http_link *oldest; /* the other end */
	size_t n_links;
	size_t body_bytes; /* held for all requests */
	bool closing;
	bool listener_closed;
	void (*done)(void *ctx);
	void *done_ctx;
};

/* --- release ---------------------------------------------------------------------------------- */

static void maybe_done(struct rf_http_server *s)
{
	void (*done)(void *ctx) = s->done;
	void *ctx = s->done_ctx;

	if (!s->listener_closed || s->n_links > 0)
		return;
	free(s);
	if (done != NULL)
		done(ctx);
}

static void drop_body(struct rf_http_link *link)
{
	link->server->body_bytes -= link->body.n;
	rf_buf_done(&link->body);
}

static void unchain(struct rf_http_server *s, struct rf_http_link *link)
{
	*(link->prev != NULL ? &link->prev->next : &s->links) = link->next;
	*(link->next != NULL ? &link->next->prev : &s->oldest) = link->prev;
	link->prev = link->next = NULL;
}

static void chain(struct rf_http_server *s, struct rf_http_link *link)
{
	link->next = s->links;
	*(s->links != NULL ? &s->links->prev : &s->oldest) = link;
	s->links = link;
}

static void on_released(void *ctx)
{
	struct rf_http_link *link = ctx;
	struct rf_http_server *s = link->server;

	unchain(s, link);
	s->n_links--;
	drop_body(link);
	rf_buf_done(&link->in);
	rf_buf_done(&link->extra);
	rf_h1_done(&link->parser);
	rf_arena_done(&link->arena);
	rf_arena_done(&link->peer_arena);
	free(link);
	maybe_done(s);
}

static void close_link(struct rf_http_link *link)
{
	link->state = RF_LINK_OVER;
	rf_conn_close(link->conn);
}

static void finish_link(struct rf_http_link *link)
{
	link->state = RF_LINK_OVER;
	rf_conn_finish(link->conn);
}

/* --- timers ----------------------------------------------------------------------------------- */

static void arm_timer(struct rf_http_link *link)
{
	const struct rf_http_server_opts *opts = &link->server->opts;

	if (link->state == RF_LINK_HANDLING || link->state == RF_LINK_STREAMING) {
		rf_conn_timer(link->conn, -1);
	} else if (link->state == RF_LINK_READING && rf_h1_started(&link->parser)) {
		if (!link->request_timed) /* from the first byte on, however slowly more come */
			rf_conn_timer(link->conn, opts->request_ms);
		link->request_timed = true;
	} else if (link->state == RF_LINK_READING) {
		rf_conn_timer(link->conn, opts->idle_ms);
	}
}

/* --- from one request to the next ------------------------------------------------------------- */

static void process(struct rf_http_link *link);

/* The handler may have used the request until now; forget it and be ready for the next. */
static void next_request(struct rf_http_link *link)
{
	bool last = !link->parser.keep_alive || link->server->closing || link->gone;

	drop_body(link);
	rf_buf_clear(&link->extra);
	rf_arena_done(&link->arena);
	link->on_close = link->on_drain = NULL;
	link->request_timed = false;
	rf_h1_reset(&link->parser);
	unchain(link->server, link);
	chain(link->server, link);
	if (last)
		finish_link(link);
	else
		link->state = RF_LINK_READING;
}

void rf_http_link_replied(struct rf_http_link *link)
{
	link->state = RF_LINK_REPLIED;
	link->on_close = link->on_drain = NULL;
	if (!link->processing)
		rf_conn_timer(link->conn, 0); /* goes on from the loop, not inside the handler */
}

void rf_http_link_tell_gone(struct rf_http_link *link)
{
	rf_conn_timer(link->conn, 0);
}

static void tell_handler(struct rf_http_link *link)
{
	void (*cb)(void *ctx) = link->on_close;

	link->on_close = NULL;
	close_link(link);
	cb(link->on_close_ctx);
}

/* --- a request comes in ----------------------------------------------------------------------- */

/* No more bytes come while the handler has the request, except to notice that the client left. */
static int fill_request(struct rf_http_link *link, struct rf_err *err)
{
	struct rf_http_req *req = &link->req;
	struct rf_str query = link->parser.target, path = RF_STR_EMPTY;

	rf_str_cut(&query, '?', &path);
	memset(req, 0, sizeof(*req));
	link->arena = (struct rf_arena)RF_ARENA_CAPPED(ARENA_MAX);
	req->arena = &link->arena;
	req->method = link->parser.method;
	req->target = link->parser.target;
	req->query = query;
	req->headers = link->parser.headers;
	req->n_headers = link->parser.n_headers;
	req->body = rf_buf_str(&link->body);
	req->peer = &link->peer;
	return rf_h1_decode_path(&link->arena, path, &req->path, err);
}

static void dispatch(struct rf_http_link *link)
{
	struct rf_err err = RF_ERR_INIT;

	if (fill_request(link, &err) < 0) {
		rf_http_link_refuse(link, 400, err.msg);
		return;
	}
	link->state = RF_LINK_HANDLING;
	rf_conn_timer(link->conn, -1);
	link->server->opts.handler(link->server->opts.ctx, &link->req);
	if (link->state == RF_LINK_REPLIED)
		next_request(link);
}

static void on_head(struct rf_http_link *link, struct rf_str input)
{
	const struct rf_h1 *p = &link->parser;

	link->req.method = p->method; /* an error reply looks at it */
	if (p->expects_continue && (p->chunked || p->length > 0) && input.n == 0)
		rf_conn_write(link->conn, RF_LIT("HTTP/1.1 100 Continue\r\n\r\n"));
}

static void on_body(struct rf_http_link *link)
{
	struct rf_http_server *s = link->server;

	if (s->body_bytes + link->parser.data.n > BODIES_MAX) {
		rf_http_link_refuse(link, 503, "too many large requests at once; try again");
		return;
	}
	rf_buf_add(&link->body, link->parser.data);
	s->body_bytes += link->parser.data.n;
}

/* false: more bytes are needed. */
static bool step(struct rf_http_link *link, struct rf_str *input)
{
	switch (rf_h1_next(&link->parser, input)) {
	case RF_H1_MORE:
		return false;
	case RF_H1_HEAD:
		on_head(link, *input);
		return true;
	case RF_H1_DATA:
		on_body(link);
		return true;
	case RF_H1_END:
		dispatch(link);
		return true;
	case RF_H1_FAIL:
		rf_http_link_refuse(link, link->parser.status, link->parser.why);
		return true;
	}
	return false;
}

/* A client that pipelines requests and does not read the answers must not have them all made. */
static bool may_go_on(const struct rf_http_link *link)
{
	return link->state == RF_LINK_READING &&
	       (rf_h1_started(&link->parser) || rf_conn_pending(link->conn) < PENDING_MAX);
}

static void process(struct rf_http_link *link)
{
	struct rf_str input = rf_buf_str(&link->in);

	link->processing = true;
	while (may_go_on(link) && step(link, &input))
		;
	link->processing = false;
	if (link->state == RF_LINK_OVER)
		return;
	rf_buf_drop(&link->in, link->in.n - input.n);
	if (link->in.n == 0)
		rf_buf_done(&link->in);
	rf_conn_pause(link->conn, link->in.n >= IN_MAX);
	arm_timer(link);
}

/* --- events of the connection ----------------------------------------------------------------- */

static void on_ready(void *ctx)
{
	struct rf_http_link *link = ctx;
	struct rf_err err = RF_ERR_INIT;

	if (rf_conn_peer(link->conn, &link->peer_arena, &link->peer, &err) < 0)
		close_link(link);
	else
		arm_timer(link);
}

static void on_data(void *ctx, struct rf_str data)
{
	struct rf_http_link *link = ctx;

	rf_buf_add(&link->in, data);
	if (link->state == RF_LINK_READING)
		process(link);
	else if (link->in.n >= IN_MAX)
		rf_conn_pause(link->conn, true);
}

static void on_drain(void *ctx)
{
	struct rf_http_link *link = ctx;

	if (link->state == RF_LINK_STREAMING && link->on_drain != NULL)
		link->on_drain(link->on_drain_ctx);
	else if (link->state == RF_LINK_READING && link->in.n > 0)
		process(link);
}

/* Without on_close the handler does not know, and will still answer: the request waits for it. */
static void on_end(void *ctx, const struct rf_err *err)
{
	struct rf_http_link *link = ctx;
	bool held = link->state == RF_LINK_HANDLING || link->state == RF_LINK_STREAMING;

	link->gone = true;
	if (!held)
		close_link(link);
	else if (link->on_close != NULL)
		tell_handler(link);
}

static void on_read_timeout(struct rf_http_link *link)
{
	if (!rf_conn_is_ready(link->conn))
		close_link(link);
	else if (rf_h1_started(&link->parser))
		rf_http_link_refuse(link, 408, "the request took too long to arrive");
	else if (rf_conn_pending(link->conn) > 0)
		arm_timer(link); /* still taking the last answer */
	else
		finish_link(link);
}

static void on_timer(void *ctx)
{
	struct rf_http_link *link = ctx;

	if (link->state == RF_LINK_READING) {
		on_read_timeout(link);
	} else if (link->state == RF_LINK_REPLIED) {
		next_request(link);
		if (link->state == RF_LINK_READING)
			process(link);
	} else if (link->gone && link->on_close != NULL) {
		tell_handler(link);
	}
}

static const struct rf_conn_events events = {
	.on_ready = on_ready,
	.on_data = on_data,
	.on_drain = on_drain,
	.on_end = on_end,
	.on_timer = on_timer,
	.on_released = on_released,
};

/* --- listening -------------------------------------------------------------------------------- */

static struct rf_http_link *new_link(struct rf_http_server *s)
{
	struct rf_http_link *link = rf_new(struct rf_http_link);

	link->server = s;
	link->in = link->body = link->extra = (struct rf_buf)RF_BUF_INIT;
	link->req.method = RF_STR_EMPTY;
	rf_h1_init(&link->parser, false, s->opts.body_max);
	return link;
}

static void add_link(struct rf_http_server *s, struct rf_http_link *link)
{
	chain(s, link);
	s->n_links++;
}

/* Full: whoever has been silent longest without a request under way makes room. A stranger who opens
 * connections and says nothing then crowds out his own, not those that are in use. */
static bool make_room(struct rf_http_server *s, const struct rf_http_link *except)
{
	struct rf_http_link *link = s->oldest;

	for (int i = 0; i < EVICT_LOOK && link != NULL; i++, link = link->prev) {
		if (link->state != RF_LINK_READING || link == except)
			continue;
		close_link(link);
		return true;
	}
	return false;
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct rf_http_server *s = listener->data;
	struct rf_http_link *link;

	if (status < 0 || s->closing)
		return;
	link = new_link(s);
	link->conn = rf_conn_accept(listener, s->opts.tls, &events, link, NULL);
	if (link->conn == NULL) { /* the client sees a closed connection; nobody else is harmed */
		rf_h1_done(&link->parser);
		free(link);
		return;
	}
	add_link(s, link);
	rf_conn_stall_after(link->conn, s->opts.request_ms);
	rf_conn_timer(link->conn, RF_MIN(s->opts.request_ms, HANDSHAKE_MS));
	if (s->n_links > s->opts.connections_max && !make_room(s, link))
		close_link(link);
	else if (rf_conn_is_ready(link->conn))
		on_ready(link);
}

static void set_defaults(struct rf_http_server_opts *o)
{
	o->body_max = o->body_max != 0 ? o->body_max : BODY_MAX;
	o->connections_max = o->connections_max != 0 ? o->connections_max : CONNECTIONS_MAX;
	o->idle_ms = o->idle_ms > 0 ? o->idle_ms : IDLE_MS;
	o->request_ms = o->request_ms > 0 ? o->request_ms : REQUEST_MS;
}

static int parse_address(const char *text, uint16_t port, struct sockaddr_storage *ret,
			 struct rf_err *err)
{
	if (uv_ip4_addr(text, port, (struct sockaddr_in *)ret) == 0 ||
	    uv_ip6_addr(text, port, (struct sockaddr_in6 *)ret) == 0)
		return 0;
	return rf_fail(err, RF_INVALID, "\"%s\" is not an IP address to listen on", text);
}

static int bind_listener(struct rf_http_server *s, struct rf_err *err)
{
	struct sockaddr_storage sa = { 0 };
	int size = sizeof(sa), rc;

	if (parse_address(s->opts.address, s->opts.port, &sa, err) < 0)
		return -err->code;
	rc = uv_tcp_bind(&s->listener, (struct sockaddr *)&sa, 0);
	if (rc == 0)
		rc = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
	if (rc == 0)
		rc = uv_tcp_getsockname(&s->listener, (struct sockaddr *)&sa, &size);
	if (rc < 0)
		return rf_fail(err, RF_SYSTEM, "listen on %s port %u: %s", s->opts.address,
			       s->opts.port, uv_strerror(rc));
	s->port = ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
						 : ((struct sockaddr_in *)&sa)->sin_port);
	return 0;
}

int rf_http_listen(uv_loop_t *loop, const struct rf_http_server_opts *opts,
		   struct rf_http_server **ret, struct rf_err *err)
{
	struct rf_http_server *s = rf_new(struct rf_http_server);
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	rf_assert(opts->handler != NULL);
	s->opts = *opts;
	set_defaults(&s->opts);
	uv_tcp_init(loop, &s->listener);
	s->listener.data = s;
	if (bind_listener(s, err) < 0) {
		rf_http_server_close(s, NULL, NULL);
		return -err->code;
	}
	s->opts.address = NULL; /* the caller's; not needed any more */
	*ret = s;
	return 0;
}

uint16_t rf_http_server_port(const struct rf_http_server *s)
{
	return s->port;
}

static void on_listener_closed(uv_handle_t *h)
{
	struct rf_http_server *s = h->data;

	s->listener_closed = true;
	maybe_done(s);
}

void rf_http_server_close(struct rf_http_server *s, void (*done)(void *ctx), void *ctx)
{
	rf_assert(!s->closing);
	s->closing = true;
	s->done = done;
	s->done_ctx = ctx;
	uv_close((uv_handle_t *)&s->listener, on_listener_closed);
	for (struct rf_http_link *link = s->links; link != NULL; link = link->next) {
		if (link->state == RF_LINK_OVER || link->state == RF_LINK_REPLIED)
			continue; /* on its way out */
		if (link->state == RF_LINK_READING)
			finish_link(link);
		else if (link->on_close != NULL)
			tell_handler(link);
		else
			link->parser.keep_alive = false; /* the handler answers; then it ends */
	}
}
