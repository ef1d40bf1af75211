/* The stream under HTTP: how it ends matters, because a body may be as long as its connection. */
#include "net/test_world.h"

#include "net/conn.h"

/* A TLS server that answers anything with a body of no stated length, and ends well or badly. */
struct ending {
	struct world w;
	uv_tcp_t listener;
	struct rf_conn *conn;
	bool proper;
	bool released;
};

static void on_request(void *ctx, struct rf_str data)
{
	struct ending *e = ctx;

	rf_conn_write(e->conn, RF_LIT("HTTP/1.1 200 OK\r\n\r\nall, or not"));
	if (e->proper)
		rf_conn_finish(e->conn);
	else
		rf_conn_close(e->conn); /* the kernel has the bytes; TLS has said no goodbye */
}

static void on_over(void *ctx, const struct rf_err *err)
{
	rf_conn_close(((struct ending *)ctx)->conn);
}

static void on_gone(void *ctx)
{
	((struct ending *)ctx)->released = true;
}

static const struct rf_conn_events ending_events = {
	.on_data = on_request,
	.on_end = on_over,
	.on_released = on_gone,
};

static void on_client(uv_stream_t *s, int status)
{
	struct ending *e = s->data;

	assert_int_equal(status, 0);
	e->conn = rf_conn_accept(s, e->w.server_tls, &ending_events, e, NULL);
	assert_non_null(e->conn);
}

static void start(struct ending *e, struct rf_http_client_opts *opts)
{
	struct sockaddr_in sa;
	int n = sizeof(sa);

	world_init(&e->w);
	e->w.server_tls = server_tls(&e->w, RF_LIT("127.0.0.1"));
	e->w.client_tls = client_tls(&e->w, NULL);
	uv_tcp_init(&e->w.loop, &e->listener);
	e->listener.data = e;
	uv_ip4_addr("127.0.0.1", 0, &sa);
	assert_int_equal(uv_tcp_bind(&e->listener, (struct sockaddr *)&sa, 0), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&e->listener, 8, on_client), 0);
	assert_int_equal(uv_tcp_getsockname(&e->listener, (struct sockaddr *)&sa, &n), 0);
	*opts = (struct rf_http_client_opts){ .host = RF_LIT("127.0.0.1"),
					      .port = ntohs(sa.sin_port),
					      .tls = e->w.client_tls };
}

static void exchange(bool proper, struct answer *a)
{
	struct ending e = { .proper = proper };
	struct rf_http_client_opts opts;

	start(&e, &opts);
	e.w.client = rf_http_client_new(&e.w.loop, &opts);
	call(&e.w, "GET", "/", RF_STR_EMPTY, a);
	wait_for(&e.w, e.released);
	uv_close((uv_handle_t *)&e.listener, NULL);
	world_done(&e.w);
}

static void a_body_that_ends_with_a_proper_goodbye_is_whole(void **state)
{
	auto_answer a = ANSWER_INIT;

	exchange(true, &a);
	assert_success(&a, 200);
	assert_string_equal(a.body.p, "all, or not");
}

static void a_body_that_anybody_could_have_cut_is_an_error(void **state)
{
	auto_answer a = ANSWER_INIT;

	exchange(false, &a);
	assert_int_equal(a.code, RF_UNAVAILABLE);
	assert_non_null(strstr(a.error, "cut"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_body_that_ends_with_a_proper_goodbye_is_whole),
		cmocka_unit_test(a_body_that_anybody_could_have_cut_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
