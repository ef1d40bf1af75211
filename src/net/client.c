/* Calls to one server, over connections that are kept and used again. */
#include "net/client.h"

#include <stdio.h>

#define TIMEOUT_MS 30000
#define BODY_MAX (64u * 1024 * 1024)
#define IDLE_WIRES_MAX 8
#define IDLE_WIRE_MS 60000 /* less than servers wait, so that we seldom write to a closing one */
#define INTERIM_MAX 8

struct rf_http_lookup {
	uv_getaddrinfo_t req;
	struct rf_http_client *client;
	struct rf_http_call *call; /* NULL: nobody waits any more */
};

static void try_addresses(struct rf_http_call *call);
static void dial(struct rf_http_call *call);

/* --- release ---------------------------------------------------------------------------------- */

static void drop_live(struct rf_http_client *c)
{
	if (--c->live > 0 || !c->freed)
		return;
	free(c->host);
	free(c->host_header);
	free(c->bearer);
	free(c);
}

static void on_wire_released(void *ctx)
{
	struct rf_http_wire *w = ctx;

	if (w->prev != NULL)
		w->prev->next = w->next;
	else
		w->client->wires = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	rf_h1_done(&w->parser);
	drop_live(w->client);
	free(w);
}

static void close_wire(struct rf_http_wire *w)
{
	w->over = true;
	if (w->call != NULL)
		w->call->wire = NULL;
	w->call = NULL;
	rf_conn_close(w->conn);
}

static void on_call_closed(uv_handle_t *h)
{
	struct rf_http_call *call = h->data;

	rf_buf_done(&call->request);
	rf_buf_done(&call->body);
	free(call->what);
	free(call->content_type);
	drop_live(call->client);
	free(call);
}

static void forget_addresses(struct rf_http_call *call)
{
	if (call->addresses != NULL)
		uv_freeaddrinfo(call->addresses);
	call->addresses = NULL;
	call->address = NULL;
}

/* Takes the call off everything. Its memory stays until the loop has closed its timer. */
static void retire(struct rf_http_call *call)
{
	call->over = true;
	if (call->wire != NULL)
		close_wire(call->wire);
	if (call->lookup != NULL) {
		call->lookup->call = NULL;
		uv_cancel((uv_req_t *)&call->lookup->req);
		call->lookup = NULL;
	}
	forget_addresses(call);
	if (call->prev != NULL)
		call->prev->next = call->next;
	else
		call->client->calls = call->next;
	if (call->next != NULL)
		call->next->prev = call->prev;
	uv_close((uv_handle_t *)&call->timer, on_call_closed);
}

void rf_http_call_cancel(struct rf_http_call *call)
{
	if (call != NULL && !call->over)
		retire(call);
}

/* --- ends of a call --------------------------------------------------------------------------- */

static void fail(struct rf_http_call *call, const struct rf_err *err)
{
	if (call->over)
		return;
	retire(call);
	call->on_done(call->ctx, err, NULL);
}

static void on_fail_soon(uv_timer_t *t)
{
	struct rf_http_call *call = t->data;

	fail(call, &call->failure);
}

/* call->failure is filled. */
static void fail_soon(struct rf_http_call *call)
{
	uv_timer_start(&call->timer, on_fail_soon, 0, 0);
}

static void on_timeout(uv_timer_t *t)
{
	struct rf_http_call *call = t->data;
	struct rf_err err = RF_ERR_INIT;

	if (call->streaming)
		rf_fail(&err, RF_TIMEOUT, "%s: silent for %d ms", call->what, call->idle_ms);
	else
		rf_fail(&err, RF_TIMEOUT, "%s: no answer within %d ms", call->what,
			call->timeout_ms);
	fail(call, &err);
}

static void keep_wire(struct rf_http_wire *w)
{
	size_t idle = 0;

	w->call->wire = NULL;
	w->call = NULL;
	for (struct rf_http_wire *i = w->client->wires; i != NULL; i = i->next)
		idle += i->call == NULL && !i->over;
	if (idle > IDLE_WIRES_MAX) {
		close_wire(w);
		return;
	}
	w->interim = 0;
	rf_conn_timer(w->conn, IDLE_WIRE_MS);
}

/* clean: nothing came behind the answer. */
static void succeed(struct rf_http_call *call, bool clean)
{
	struct rf_http_response response = {
		.status = call->status,
		.content_type = rf_str(call->content_type),
		.body = rf_buf_str(&call->body),
	};

	if (clean && call->wire->parser.keep_alive && !call->paused)
		keep_wire(call->wire);
	retire(call);
	call->on_done(call->ctx, NULL, &response);
}

/* --- the answer ------------------------------------------------------------------------------- */

static void send_request(struct rf_http_wire *w)
{
	rf_h1_reset(&w->parser);
	w->parser.to_head = w->call->to_head;
	/* Whether the body is to be collected is known with the status only. */
	w->parser.body_max = w->call->on_data != NULL ? 0 : w->call->body_max;
	rf_conn_timer(w->conn, -1);
	rf_conn_write(w->conn, rf_buf_str(&w->call->request));
}

static struct rf_str find_header(const struct rf_h1 *p, const char *name)
{
	for (size_t i = 0; i < p->n_headers; i++)
		if (rf_str_ieq(p->headers[i].name, rf_str(name)))
			return p->headers[i].value;
	return RF_STR_EMPTY;
}

static void arm_idle(struct rf_http_call *call)
{
	if (call->idle_ms > 0 && !call->paused)
		uv_timer_start(&call->timer, on_timeout, (uint64_t)call->idle_ms, 0);
	else
		uv_timer_stop(&call->timer);
}

static void on_head(struct rf_http_wire *w)
{
	struct rf_http_call *call = w->call;
	struct rf_str type = find_header(&w->parser, "content-type");

	if (w->parser.code / 100 == 1)
		return;
	call->status = w->parser.code;
	free(call->content_type);
	call->content_type = strndup(type.p, type.n);
	rf_assert(call->content_type != NULL);
	call->streaming = call->on_data != NULL && call->status / 100 == 2;
	if (call->streaming)
		arm_idle(call);
	else
		w->parser.body_max = call->body_max;
}

static void on_body(struct rf_http_wire *w)
{
	struct rf_http_call *call = w->call;

	if (!call->streaming) {
		rf_buf_add(&call->body, w->parser.data);
		return;
	}
	arm_idle(call);
	call->on_data(call->ctx, w->parser.data);
}

static void fail_malformed(struct rf_http_wire *w, const char *why)
{
	bool large = w->parser.status == 413;
	struct rf_err err = RF_ERR_INIT;

	rf_fail(&err, large ? RF_TOO_LARGE : RF_UNAVAILABLE, "%s: %s: %s", w->call->what,
		large ? "the answer cannot be taken" : "the answer is not proper HTTP", why);
	fail(w->call, &err);
}

static void on_message_end(struct rf_http_wire *w, struct rf_str rest)
{
	if (w->parser.code / 100 != 1) {
		succeed(w->call, rest.n == 0);
		return;
	}
	if (w->parser.code == 101 || ++w->interim > INTERIM_MAX) {
		fail_malformed(w, "interim answers that were not asked for");
		return;
	}
	rf_h1_reset(&w->parser);
	w->parser.to_head = w->call->to_head;
}

/* false: no more to do with this input. */
static bool step(struct rf_http_wire *w, struct rf_str *input)
{
	switch (rf_h1_next(&w->parser, input)) {
	case RF_H1_MORE:
		return false;
	case RF_H1_HEAD:
		on_head(w);
		return true;
	case RF_H1_DATA:
		on_body(w);
		return true;
	case RF_H1_END:
		on_message_end(w, *input);
		return true;
	case RF_H1_FAIL:
		fail_malformed(w, w->parser.why);
		return false;
	}
	return false;
}

/* --- events of a connection ------------------------------------------------------------------- */

static void on_ready(void *ctx)
{
	struct rf_http_wire *w = ctx;

	forget_addresses(w->call);
	send_request(w);
}

/* A callback of the caller may end the call, and then start another one on this same wire: it is
 * the call's own answer only as long as the call is the one we began with. */
static void on_data(void *ctx, struct rf_str data)
{
	struct rf_http_wire *w = ctx;
	struct rf_http_call *call = w->call;

	if (call == NULL) { /* nobody asked */
		close_wire(w);
		return;
	}
	while (w->call == call && !call->over && step(w, &data))
		;
}

/* A kept connection may die just as we write to it; what may be done twice is tried once more. */
static bool may_retry(const struct rf_http_wire *w)
{
	return w->reused && !rf_h1_started(&w->parser) && w->interim == 0 && w->call->idempotent &&
	       !w->call->retried;
}

static void on_wire_lost(struct rf_http_wire *w, const struct rf_err *err)
{
	struct rf_http_call *call = w->call;
	struct rf_err why = RF_ERR_INIT;

	if (err != NULL)
		rf_fail(&why, (enum rf_code)err->code, "%s: %s", call->what, err->msg);
	else
		rf_fail(&why, RF_UNAVAILABLE, "%s: the server closed the connection%s", call->what,
			rf_h1_started(&w->parser) ? " in the middle of its answer"
						  : " without an answer");
	fail(call, &why);
}

static void on_end(void *ctx, const struct rf_err *err)
{
	struct rf_http_wire *w = ctx;
	struct rf_http_call *call = w->call;

	if (call == NULL) {
		close_wire(w);
	} else if (call->address != NULL && call->address->ai_next != NULL) {
		call->address = call->address->ai_next;
		close_wire(w);
		try_addresses(call);
	} else if (may_retry(w)) {
		call->retried = true;
		close_wire(w);
		dial(call);
	} else if (err == NULL && rf_h1_started(&w->parser) && rf_h1_eof(&w->parser)) {
		succeed(call, false);
	} else {
		on_wire_lost(w, err);
	}
}

static void on_wire_timer(void *ctx)
{
	struct rf_http_wire *w = ctx;

	if (w->call == NULL && !w->over) {
		w->over = true;
		rf_conn_finish(w->conn);
	}
}

static const struct rf_conn_events events = {
	.on_ready = on_ready,
	.on_data = on_data,
	.on_end = on_end,
	.on_timer = on_wire_timer,
	.on_released = on_wire_released,
};

/* --- connecting ------------------------------------------------------------------------------- */

static bool connect_to(struct rf_http_call *call, const struct sockaddr *sa)
{
	struct rf_http_client *c = call->client;
	struct rf_http_wire *w = rf_new(struct rf_http_wire);
	struct rf_err err = RF_ERR_INIT;

	w->conn = rf_conn_connect(c->loop, sa, c->host, c->tls, &events, w, &err);
	if (w->conn == NULL) {
		rf_fail(&call->failure, (enum rf_code)err.code, "%s: %s", call->what, err.msg);
		free(w);
		return false;
	}
	rf_h1_init(&w->parser, true, 0);
	w->client = c;
	w->call = call;
	call->wire = w;
	w->next = c->wires;
	if (c->wires != NULL)
		c->wires->prev = w;
	c->wires = w;
	c->live++;
	return true;
}

static void set_port(struct sockaddr *sa, uint16_t port)
{
	if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)sa)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)sa)->sin_port = htons(port);
}

/* From call->address on, the first that can be begun. */
static void try_addresses(struct rf_http_call *call)
{
	for (; call->address != NULL; call->address = call->address->ai_next) {
		set_port(call->address->ai_addr, call->client->port);
		if (connect_to(call, call->address->ai_addr))
			return;
	}
	fail_soon(call);
}

static void on_lookup(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
	struct rf_http_lookup *l = RF_CONTAINER_OF(req, struct rf_http_lookup, req);
	struct rf_http_call *call = l->call;
	struct rf_err err = RF_ERR_INIT;

	if (call == NULL) {
		uv_freeaddrinfo(found);
	} else if (status < 0) {
		call->lookup = NULL;
		rf_fail(&err, RF_UNAVAILABLE, "%s: look up %s: %s", call->what, call->client->host,
			uv_strerror(status));
		fail(call, &err);
	} else {
		call->lookup = NULL;
		call->addresses = found;
		call->address = found;
		try_addresses(call);
	}
	drop_live(l->client);
	free(l);
}

static void look_up(struct rf_http_call *call)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	const char *host = call->client->host;
	struct rf_http_lookup *l = rf_new(struct rf_http_lookup);
	int rc = uv_getaddrinfo(call->client->loop, &l->req, on_lookup, host, NULL, &hints);

	if (rc < 0) {
		rf_fail(&call->failure, RF_UNAVAILABLE, "%s: look up %s: %s", call->what, host,
			uv_strerror(rc));
		free(l);
		fail_soon(call);
		return;
	}
	l->client = call->client;
	l->call = call;
	call->lookup = l;
	call->client->live++;
}

/* A fresh connection for the call. */
static void dial(struct rf_http_call *call)
{
	struct sockaddr_storage sa = { 0 };
	const char *host = call->client->host;
	uint16_t port = call->client->port;

	if (uv_ip4_addr(host, port, (struct sockaddr_in *)&sa) != 0 &&
	    uv_ip6_addr(host, port, (struct sockaddr_in6 *)&sa) != 0)
		look_up(call);
	else if (!connect_to(call, (struct sockaddr *)&sa))
		fail_soon(call);
}

static struct rf_http_wire *idle_wire(struct rf_http_client *c)
{
	struct rf_http_wire *w = c->wires;

	while (w != NULL && (w->call != NULL || w->over))
		w = w->next;
	return w;
}

static void start(struct rf_http_call *call)
{
	struct rf_http_wire *w = idle_wire(call->client);

	if (w == NULL) {
		dial(call);
		return;
	}
	w->reused = true;
	w->call = call;
	call->wire = w;
	send_request(w);
}

/* --- the public calls ------------------------------------------------------------------------- */

static bool is_idempotent(struct rf_str method)
{
	return rf_str_is(method, "GET") || rf_str_is(method, "HEAD") || rf_str_is(method, "PUT") ||
	       rf_str_is(method, "DELETE");
}

static char *describe(const struct rf_http_client *c, const struct rf_http_call_opts *opts)
{
	char text[512];

	snprintf(text, sizeof(text), "%.*s %s://%s%.*s", (int)RF_MIN(opts->method.n, 16u),
		 opts->method.p, c->tls != NULL ? "https" : "http", c->host_header,
		 (int)RF_MIN(opts->target.n, 200u), opts->target.p);
	return rf_strdup(text);
}

static struct rf_http_call *new_call(struct rf_http_client *c, const struct rf_http_call_opts *opts)
{
	struct rf_http_call *call = rf_new(struct rf_http_call);

	call->client = c;
	call->request = call->body = (struct rf_buf)RF_BUF_INIT;
	call->what = describe(c, opts);
	call->timeout_ms = opts->timeout_ms > 0 ? opts->timeout_ms : TIMEOUT_MS;
	call->idle_ms = opts->idle_ms;
	call->body_max = opts->body_max != 0 ? opts->body_max : BODY_MAX;
	call->idempotent = is_idempotent(opts->method);
	call->to_head = rf_str_is(opts->method, "HEAD");
	call->on_data = opts->on_data;
	call->on_done = opts->on_done;
	call->ctx = opts->ctx;
	uv_timer_init(c->loop, &call->timer);
	call->timer.data = call;
	call->next = c->calls;
	if (c->calls != NULL)
		c->calls->prev = call;
	c->calls = call;
	c->live++;
	return call;
}

struct rf_http_call *rf_http_call(struct rf_http_client *c, const struct rf_http_call_opts *opts)
{
	struct rf_http_call *call;

	rf_assert(!c->freed && opts->on_done != NULL);
	call = new_call(c, opts);
	if (rf_http_write_request(call, opts, &call->failure) < 0) {
		fail_soon(call);
		return call;
	}
	uv_timer_start(&call->timer, on_timeout, (uint64_t)call->timeout_ms, 0);
	start(call);
	return call;
}

void rf_http_call_pause(struct rf_http_call *call, bool paused)
{
	if (call->over || !call->streaming || call->paused == paused)
		return;
	call->paused = paused;
	rf_conn_pause(call->wire->conn, paused);
	arm_idle(call);
}

struct rf_http_client *rf_http_client_new(uv_loop_t *loop, const struct rf_http_client_opts *opts)
{
	struct rf_http_client *c = rf_new(struct rf_http_client);
	bool six = memchr(opts->host.p, ':', opts->host.n) != NULL;
	rf_auto(buf) header = RF_BUF_INIT;

	rf_buf_printf(&header, six ? "[%.*s]:%u" : "%.*s:%u", RF_STR(opts->host), opts->port);
	c->loop = loop;
	c->host = strndup(opts->host.p, opts->host.n);
	c->host_header = rf_strdup(header.p);
	c->bearer = strndup(opts->bearer.n > 0 ? opts->bearer.p : "", opts->bearer.n);
	rf_assert(c->host != NULL && c->bearer != NULL);
	c->port = opts->port;
	c->tls = opts->tls;
	c->live = 1; /* the caller's hold */
	return c;
}

void rf_http_client_free(struct rf_http_client *c)
{
	if (c == NULL)
		return;
	c->freed = true;
	while (c->calls != NULL)
		retire(c->calls);
	for (struct rf_http_wire *w = c->wires; w != NULL; w = w->next)
		if (!w->over)
			close_wire(w);
	drop_live(c);
}
