/* The server that tests talk to: paths that echo, stream, wait, or never answer. */
#ifndef RF_NET_TEST_SERVER_H
#define RF_NET_TEST_SERVER_H

#include "net/test_world.h"

/* --- the server under test -------------------------------------------------------------------- */

static void count_close(void *ctx)
{
	((struct world *)ctx)->closed++;
}

static void count_drain(void *ctx)
{
	((struct world *)ctx)->drains++;
}

struct later {
	uv_timer_t timer;
	struct rf_http_req *req;
};

static void free_later(uv_handle_t *h)
{
	free(h->data);
}

static void reply_later(uv_timer_t *t)
{
	struct later *l = t->data;

	rf_http_reply(l->req, 200, "text/plain", l->req->path);
	uv_close((uv_handle_t *)t, free_later);
}

static void handle_later(struct world *w, struct rf_http_req *req)
{
	struct later *l = rf_new(struct later);

	l->req = req;
	uv_timer_init(&w->loop, &l->timer);
	l->timer.data = l;
	uv_timer_start(&l->timer, reply_later, 1, 0);
}

static void handle_stream(struct rf_http_req *req)
{
	struct rf_str n = RF_STR_EMPTY;
	int64_t count = 0;

	assert_true(rf_http_query(req, "n", &n));
	assert_int_equal(rf_str_int(n, &count, NULL), 0);
	rf_http_stream_begin(req, 200, "application/json");
	for (int64_t i = 0; i < count; i++)
		rf_http_stream_write(req, rf_arena_printf(req->arena, "line %d\n", (int)i));
	rf_http_stream_end(req);
}

static void handle_who(struct rf_http_req *req)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_buf_printf(&b, "%s %.*s", req->peer->has_cert ? "cert" : "nobody",
		      RF_STR(req->peer->common_name));
	for (size_t i = 0; i < req->peer->n_groups; i++)
		rf_buf_printf(&b, " %.*s", RF_STR(req->peer->groups[i]));
	rf_http_reply(req, 200, "text/plain", rf_buf_str(&b));
}

static void handle_query(struct rf_http_req *req)
{
	struct rf_str value = RF_LIT("absent");

	rf_http_query(req, "label", &value);
	rf_http_add_header(req, "X-Label", value);
	rf_http_reply(req, 200, "text/plain", value);
}

static void handle_big(struct rf_http_req *req)
{
	static const char zeros[4 * 1024 * 1024];

	rf_http_reply(req, 200, "application/octet-stream", rf_str_n(zeros, sizeof(zeros)));
}

static void handle_hold(struct world *w, struct rf_http_req *req, bool tell, bool begin_stream)
{
	w->held = req;
	if (tell)
		rf_http_on_close(req, count_close, w);
	if (begin_stream) {
		rf_http_on_drain(req, count_drain, w);
		rf_http_stream_begin(req, 200, "text/plain");
	}
}

static void handler(void *ctx, struct rf_http_req *req)
{
	struct world *w = ctx;

	w->handled++;
	memcpy(w->last_address, req->peer->address, sizeof(w->last_address));
	if (rf_str_is(req->path, "/echo"))
		rf_http_reply(req, 200, "application/octet-stream", req->body);
	else if (rf_str_starts(req->path, RF_LIT("/later")))
		handle_later(w, req);
	else if (rf_str_is(req->path, "/stream"))
		handle_stream(req);
	else if (rf_str_is(req->path, "/who"))
		handle_who(req);
	else if (rf_str_is(req->path, "/big"))
		handle_big(req);
	else if (rf_str_is(req->path, "/query"))
		handle_query(req);
	else if (rf_str_is(req->path, "/auth"))
		rf_http_reply(req, 200, "text/plain", rf_http_get_header(req, "authorization"));
	else if (rf_str_is(req->path, "/hold"))
		handle_hold(w, req, true, false);
	else if (rf_str_is(req->path, "/hold-untold"))
		handle_hold(w, req, false, false);
	else if (rf_str_is(req->path, "/hold-stream"))
		handle_hold(w, req, true, true);
	else
		rf_http_reply(req, 404, "text/plain", RF_LIT("no such path"));
}

static int setup_with(void **state, bool tls, struct rf_http_server_opts opts)
{
	static struct world world;
	struct world *w = &world;

	world_init(w);
	if (tls) {
		w->server_tls = server_tls(w, RF_LIT("127.0.0.1"));
		w->client_tls = client_tls(w, "alice");
	}
	listen_with(w, opts, handler);
	w->client = new_client(w, "127.0.0.1", w->client_tls);
	*state = w;
	return 0;
}

static RF_UNUSED int setup_tls(void **state)
{
	return setup_with(state, true, (struct rf_http_server_opts){ 0 });
}

static RF_UNUSED int setup_plain(void **state)
{
	return setup_with(state, false, (struct rf_http_server_opts){ 0 });
}

static RF_UNUSED int setup_impatient(void **state)
{
	return setup_with(
		state, false,
		(struct rf_http_server_opts){
			.idle_ms = 40, .request_ms = 40, .body_max = 1000, .connections_max = 2 });
}

static int teardown(void **state)
{
	world_done(*state);
	return 0;
}

#define TLS(f) cmocka_unit_test_setup_teardown(f, setup_tls, teardown)
#define PLAIN(f) cmocka_unit_test_setup_teardown(f, setup_plain, teardown)
#define IMPATIENT(f) cmocka_unit_test_setup_teardown(f, setup_impatient, teardown)

#endif
