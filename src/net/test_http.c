/* The server and the client with each other. */
#include "net/test_server.h"

/* --- calls over TLS --------------------------------------------------------------------------- */

static void a_body_comes_back_as_it_was_sent(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;

	call(w, "POST", "/echo", RF_LIT("hello\0there"), &a);
	assert_success(&a, 200);
	assert_true(rf_str_eq(rf_buf_str(&a.body), RF_LIT("hello\0there")));
	assert_string_equal(a.type.p, "application/octet-stream");
	call(w, "PUT", "/echo", RF_STR_EMPTY, &a);
	assert_success(&a, 200);
	assert_int_equal(a.body.n, 0);
}

static void a_body_of_three_mebibytes_is_carried_both_ways(void **state)
{
	struct world *w = *state;
	rf_auto(buf) big = RF_BUF_INIT;
	auto_answer a = ANSWER_INIT;

	while (big.n < 3 * 1024 * 1024)
		rf_buf_printf(&big, "%zu.", big.n);
	big.n = 3 * 1024 * 1024;
	call(w, "POST", "/echo", rf_buf_str(&big), &a);
	assert_success(&a, 200);
	assert_true(rf_str_eq(rf_buf_str(&a.body), rf_buf_str(&big)));
}

static void a_body_past_the_servers_cap_is_answered_413(void **state)
{
	struct world *w = *state;
	rf_auto(buf) big = RF_BUF_INIT;
	auto_answer a = ANSWER_INIT;

	rf_buf_reserve(&big, 3 * 1024 * 1024 + 1);
	memset(big.p, 'x', 3 * 1024 * 1024 + 1);
	big.n = 3 * 1024 * 1024 + 1;
	call(w, "POST", "/echo", rf_buf_str(&big), &a);
	assert_success(&a, 413);
	assert_int_equal(w->handled, 0);
}

static void an_answer_past_the_clients_cap_is_an_error(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("POST"),
					  .target = RF_LIT("/echo"),
					  .body = RF_LIT("0123456789"),
					  .body_max = 9,
					  .on_done = on_answer,
					  .ctx = &a };

	rf_http_call(w->client, &opts);
	wait_for(w, a.done);
	assert_int_equal(a.code, RF_TOO_LARGE);
	opts.target = RF_LIT("/stream?n=3");
	a.done = false;
	rf_http_call(w->client, &opts);
	wait_for(w, a.done);
	assert_int_equal(a.code, RF_TOO_LARGE);
}

static void a_thousand_chunks_arrive_in_order(void **state)
{
	struct world *w = *state;
	rf_auto(buf) want = RF_BUF_INIT;
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/stream?n=1000"),
					  .on_data = on_piece,
					  .on_done = on_answer,
					  .ctx = &a };

	for (int i = 0; i < 1000; i++)
		rf_buf_printf(&want, "line %d\n", i);
	rf_http_call(w->client, &opts);
	wait_for(w, a.done);
	assert_success(&a, 200);
	assert_int_equal(a.body.n, 0);
	assert_true(rf_str_eq(rf_buf_str(&a.streamed), rf_buf_str(&want)));
	call(w, "GET", "/stream?n=1000", RF_STR_EMPTY, &a); /* and collected, without on_data */
	assert_true(rf_str_eq(rf_buf_str(&a.body), rf_buf_str(&want)));
}

static void with_on_data_a_refusal_still_comes_as_a_body(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/nowhere"),
					  .on_data = on_piece,
					  .on_done = on_answer,
					  .ctx = &a };

	rf_http_call(w->client, &opts);
	wait_for(w, a.done);
	assert_success(&a, 404);
	assert_string_equal(a.body.p, "no such path");
	assert_int_equal(a.pieces, 0);
}

static void head_has_the_length_and_no_body(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;

	call(w, "HEAD", "/nowhere", RF_STR_EMPTY, &a);
	assert_success(&a, 404);
	assert_int_equal(a.body.n, 0);
	call(w, "HEAD", "/stream?n=5", RF_STR_EMPTY, &a);
	assert_success(&a, 200);
	call(w, "GET", "/echo", RF_STR_EMPTY, &a); /* the connection is still in step */
	assert_success(&a, 200);
}

static void a_connection_is_used_again(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	char first[64];

	call(w, "GET", "/echo", RF_STR_EMPTY, &a);
	memcpy(first, w->last_address, sizeof(first));
	for (int i = 0; i < 20; i++) {
		call(w, "GET", i % 2 ? "/later" : "/stream?n=3", RF_STR_EMPTY, &a);
		assert_success(&a, 200);
		assert_string_equal(w->last_address, first);
	}
}

static void fifty_calls_at_once_all_get_their_own_answer(void **state)
{
	struct world *w = *state;
	struct answer a[50];
	char target[32];

	for (size_t i = 0; i < RF_COUNT(a); i++) {
		a[i] = (struct answer)ANSWER_INIT;
		snprintf(target, sizeof(target), "/later/%zu", i);
		begin(w->client, "GET", target, RF_STR_EMPTY, &a[i]);
	}
	for (size_t i = 0; i < RF_COUNT(a); i++) {
		wait_for(w, a[i].done);
		assert_success(&a[i], 200);
		snprintf(target, sizeof(target), "/later/%zu", i);
		assert_string_equal(a[i].body.p, target);
		rf_answer_done(&a[i]);
	}
}

static void the_handler_sees_who_the_certificate_names(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;

	call(w, "GET", "/who", RF_STR_EMPTY, &a);
	assert_string_equal(a.body.p, "cert alice system:masters team-a");
}

static void a_client_without_certificate_is_nobody(void **state)
{
	struct world *w = *state;
	struct rf_tls *bare = client_tls(w, NULL);
	struct rf_http_client *c = new_client(w, "127.0.0.1", bare);
	auto_answer a = ANSWER_INIT;

	begin(c, "GET", "/who", RF_STR_EMPTY, &a);
	wait_for(w, a.done);
	assert_string_equal(a.body.p, "nobody ");
	rf_http_client_free(c);
	rf_tls_free(bare);
}

static void expect_refused(struct world *w, const char *host, struct rf_tls *tls)
{
	struct rf_http_client *c = new_client(w, host, tls);
	auto_answer a = ANSWER_INIT;

	begin(c, "GET", "/who", RF_STR_EMPTY, &a);
	wait_for(w, a.done);
	assert_int_equal(a.code, RF_UNAVAILABLE);
	assert_int_equal(w->handled, 0);
	rf_http_client_free(c);
}

static void a_server_of_another_authority_is_refused(void **state)
{
	struct world *w = *state;
	struct rf_str ca = RF_STR_EMPTY, key = RF_STR_EMPTY;
	struct rf_tls *tls = NULL;

	assert_int_equal(rf_pki_new_ca(&w->arena, RF_LIT("test-ca"), &ca, &key, NULL), 0);
	assert_int_equal(rf_tls_client(ca, RF_STR_EMPTY, RF_STR_EMPTY, &tls, NULL), 0);
	expect_refused(w, "127.0.0.1", tls);
	rf_tls_free(tls);
}

static void a_server_of_another_name_is_refused(void **state)
{
	expect_refused(*state, "localhost", ((struct world *)*state)->client_tls);
}

static void a_client_certificate_of_another_authority_is_refused(void **state)
{
	struct world *w = *state;
	struct rf_str ca = w->ca, ca_key = w->ca_key, cert = RF_STR_EMPTY, key = RF_STR_EMPTY;
	struct rf_pki_ask ask = { .common_name = RF_LIT("mallory"), .days = 1 };
	struct rf_tls *tls = NULL;

	assert_int_equal(rf_pki_new_ca(&w->arena, RF_LIT("test-ca"), &w->ca, &w->ca_key, NULL), 0);
	issue(w, &ask, &cert, &key);
	w->ca = ca;
	w->ca_key = ca_key;
	assert_int_equal(rf_tls_client(ca, cert, key, &tls, NULL), 0);
	expect_refused(w, "127.0.0.1", tls);
	rf_tls_free(tls);
}

static void a_server_certificate_is_no_client_certificate(void **state)
{
	struct world *w = *state;
	struct rf_str host = RF_LIT("x"), cert = RF_STR_EMPTY, key = RF_STR_EMPTY;
	struct rf_pki_ask ask = { .common_name = RF_LIT("server"),
				  .hosts = &host,
				  .n_hosts = 1,
				  .server = true,
				  .days = 1 };
	struct rf_tls *tls = NULL;

	issue(w, &ask, &cert, &key);
	assert_int_equal(rf_tls_client(w->ca, cert, key, &tls, NULL), 0);
	expect_refused(w, "127.0.0.1", tls);
	rf_tls_free(tls);
}

static void plain_text_to_a_tls_port_is_cut_off(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, "GET /who HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, !raw_receive(fd, &b));
	assert_int_equal(w->handled, 0);
	assert_null(strstr(b.p, "HTTP/1.1 200"));
}

static void a_name_is_looked_up_and_all_its_addresses_are_tried(void **state)
{
	struct world *w = *state;
	struct rf_http_client *c = new_client(w, "localhost", NULL);
	auto_answer a = ANSWER_INIT;

	begin(c, "GET", "/echo", RF_STR_EMPTY, &a);
	wait_for(w, a.done);
	assert_success(&a, 200);
	rf_http_client_free(c);
}

/* --- time, cancelling, vanishing -------------------------------------------------------------- */

static void a_silent_server_times_out(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/hold"),
					  .timeout_ms = 50,
					  .on_done = on_answer,
					  .ctx = &a };

	rf_http_call(w->client, &opts);
	wait_for(w, a.done);
	assert_int_equal(a.code, RF_TIMEOUT);
	assert_non_null(strstr(a.error, "/hold"));
	wait_for(w, w->closed == 1); /* the handler is told */
}

static void a_stream_may_be_silent_only_as_long_as_was_said(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/hold-stream"),
					  .timeout_ms = 5000,
					  .idle_ms = 50,
					  .on_data = on_piece,
					  .on_done = on_answer,
					  .ctx = &a };

	rf_http_call(w->client, &opts);
	wait_for(w, w->held != NULL);
	rf_http_stream_write(w->held, RF_LIT("one"));
	wait_for(w, a.done);
	assert_int_equal(a.code, RF_TIMEOUT);
	assert_string_equal(a.streamed.p, "one");
	wait_for(w, w->closed == 1);
}

static void without_idle_limit_a_stream_outlives_the_timeout(void **state)
{
	struct world *w = *state;
	uint64_t start = uv_now(&w->loop);
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/hold-stream"),
					  .timeout_ms = 500,
					  .on_data = on_piece,
					  .on_done = on_answer,
					  .ctx = &a };

	rf_http_call(w->client, &opts);
	wait_for(w, w->held != NULL);
	wait_for(w, uv_now(&w->loop) > start + 700);
	assert_false(a.done);
	rf_http_stream_write(w->held, RF_LIT("late"));
	rf_http_stream_end(w->held);
	wait_for(w, a.done);
	assert_success(&a, 200);
	assert_string_equal(a.streamed.p, "late");
}

static void a_cancelled_call_is_never_heard_of_again(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;

	rf_http_call_cancel(
		begin(w->client, "GET", "/hold", RF_STR_EMPTY, &a)); /* while connecting */
	begin(w->client, "GET", "/hold", RF_STR_EMPTY, &a);
	wait_for(w, w->held != NULL);
	rf_http_client_free(w->client);
	w->client = new_client(w, "127.0.0.1", w->client_tls);
	wait_for(w, w->closed == 1);
	call(w, "GET", "/echo", RF_STR_EMPTY, &b);
	assert_success(&b, 200);
	assert_int_equal(a.calls, 0);
}

static void a_call_may_be_cancelled_from_its_own_data(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/stream?n=9"),
					  .on_data = on_piece,
					  .on_done = on_answer,
					  .ctx = &a };

	a.cancel_in_data = rf_http_call(w->client, &opts);
	wait_for(w, a.pieces > 0);
	call(w, "GET", "/echo", RF_STR_EMPTY, &a);
	assert_int_equal(a.pieces, 1);
	assert_int_equal(a.calls, 1);
}

static void what_cannot_be_sent_fails_from_the_loop(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	const struct rf_http_header smuggled = { RF_LIT("X-A"), RF_LIT("1\r\nX-B: 2") };
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/echo"),
					  .headers = &smuggled,
					  .n_headers = 1,
					  .on_done = on_answer,
					  .ctx = &a };

	call(w, "GET", "/a b HTTP/1.1\r\nX: y", RF_STR_EMPTY, &a);
	assert_int_equal(a.code, RF_INVALID);
	a.done = false;
	rf_http_call(w->client, &opts);
	assert_false(a.done);
	wait_for(w, a.done);
	assert_int_equal(a.code, RF_INVALID);
	assert_int_equal(w->handled, 0);
}

static void nobody_listening_is_unavailable(void **state)
{
	struct world *w = *state;
	struct rf_http_client *c = new_client(w, "127.0.0.1", NULL);
	auto_answer a = ANSWER_INIT;

	close_server(w);
	begin(c, "GET", "/", RF_STR_EMPTY, &a);
	wait_for(w, a.done);
	assert_int_equal(a.code, RF_UNAVAILABLE);
	assert_non_null(strstr(a.error, "connection refused"));
	rf_http_client_free(c);
}

static void a_handler_untold_may_answer_a_client_that_has_gone(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;
	struct rf_http_call *one = begin(w->client, "GET", "/hold-untold", RF_STR_EMPTY, &a);

	wait_for(w, w->held != NULL);
	rf_http_call_cancel(one);
	call(w, "GET", "/echo", RF_STR_EMPTY, &b); /* the server has run on meanwhile */
	call(w, "GET", "/later", RF_STR_EMPTY, &b);
	rf_http_stream_begin(w->held, 200, "text/plain");
	rf_http_stream_write(w->held, RF_LIT("into the void"));
	rf_http_stream_end(w->held);
	assert_int_equal(a.calls, 0);
}

static void on_close_set_too_late_is_still_told(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;
	struct rf_http_call *one = begin(w->client, "GET", "/hold-untold", RF_STR_EMPTY, &a);

	wait_for(w, w->held != NULL);
	rf_http_call_cancel(one);
	call(w, "GET", "/later", RF_STR_EMPTY, &b);
	call(w, "GET", "/later", RF_STR_EMPTY, &b);
	rf_http_on_close(w->held, count_close, w);
	assert_int_equal(w->closed, 0);
	wait_for(w, w->closed == 1);
}

static void closing_the_server_tells_streams_and_releases_all(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/hold-stream"),
					  .on_data = on_piece,
					  .on_done = on_answer,
					  .ctx = &a };

	rf_http_call(w->client, &opts);
	wait_for(w, w->held != NULL);
	close_server(w);
	assert_int_equal(w->closed, 1);
	wait_for(w, a.done);
	assert_int_equal(a.code, RF_UNAVAILABLE);
}

static void a_kept_connection_that_died_is_replaced(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	uint16_t port = rf_http_server_port(w->server);

	call(w, "GET", "/echo", RF_STR_EMPTY, &a);
	assert_success(&a, 200);
	rf_http_server_close(w->server, on_server_released, w);
	/* The request goes out on the kept connection before its end is seen. */
	begin(w->client, "GET", "/echo", RF_STR_EMPTY, &a);
	listen_with(w, (struct rf_http_server_opts){ .port = port }, handler);
	wait_for(w, a.done);
	assert_success(&a, 200);
	wait_for(w, w->server_released);
	assert_int_equal(w->handled, 2);
}

static void a_paused_call_leaves_the_data_with_the_server(void **state)
{
	struct world *w = *state;
	rf_auto(buf) big = RF_BUF_INIT;
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/hold-stream"),
					  .on_data = on_piece,
					  .on_done = on_answer,
					  .ctx = &a };
	struct rf_http_call *one = rf_http_call(w->client, &opts);

	rf_buf_reserve(&big, 32 << 20);
	memset(big.p, 'y', 32 << 20);
	big.n = 32 << 20;
	wait_for(w, w->held != NULL);
	rf_http_stream_write(w->held, RF_LIT("go"));
	wait_for(w, a.pieces == 1);
	rf_http_call_pause(one, true);
	rf_http_stream_write(w->held, rf_buf_str(&big));
	rf_http_stream_end(w->held);
	for (int i = 0; i < 100; i++)
		uv_run(&w->loop, UV_RUN_NOWAIT);
	assert_true(a.streamed.n < 1 << 20);
	rf_http_call_pause(one, false);
	wait_for(w, a.done);
	assert_int_equal(a.streamed.n, big.n + 2);
}

struct chaos {
	struct world *w;
	struct rf_prng prng;
	struct rf_http_client *client;
	struct answer answers[40];
	struct rf_http_call *calls[40];
};

static void begin_random(struct chaos *c, size_t i)
{
	static const char *const targets[] = {
		"/echo", "/later",   "/stream?n=50", "/big",
		"/who",	 "/nowhere", "/later/2",     "/stream?n=2000"
	};
	struct rf_http_call_opts opts = {
		.method = RF_LIT("GET"),
		.target = rf_str(targets[rf_prng_below(&c->prng, RF_COUNT(targets))]),
		.on_data = rf_prng_below(&c->prng, 2) ? on_piece : NULL,
		.on_done = on_answer,
		.ctx = &c->answers[i],
	};

	c->answers[i].done = false;
	c->calls[i] = rf_http_call(c->client, &opts);
}

/* One step: begin, cancel, or let the loop turn. Ended calls are forgotten, not cancelled. */
static void do_random(struct chaos *c)
{
	size_t i = (size_t)rf_prng_below(&c->prng, RF_COUNT(c->calls));

	if (c->calls[i] != NULL && c->answers[i].done)
		c->calls[i] = NULL;
	if (c->calls[i] == NULL) {
		begin_random(c, i);
	} else if (rf_prng_below(&c->prng, 3) == 0) {
		rf_http_call_cancel(c->calls[i]);
		c->calls[i] = NULL;
	}
	for (uint64_t n = rf_prng_below(&c->prng, 4); n > 0; n--)
		uv_run(&c->w->loop, UV_RUN_NOWAIT);
}

static void any_order_of_calls_and_cancels_leaves_nothing_behind(void **state)
{
	static struct chaos chaos;
	struct chaos *c = &chaos;
	uint64_t seed = uv_hrtime() | 1;

	print_message("seed %llu\n", (unsigned long long)seed);
	c->w = *state;
	c->prng.state = seed;
	for (size_t i = 0; i < RF_COUNT(c->answers); i++)
		c->answers[i] = (struct answer)ANSWER_INIT;
	for (int round = 0; round < 6; round++) {
		memset(c->calls, 0, sizeof(c->calls));
		c->client = new_client(c->w, "127.0.0.1", c->w->client_tls);
		for (int i = 0; i < 200; i++)
			do_random(c);
		rf_http_client_free(c->client); /* with whatever is under way */
	}
	for (size_t i = 0; i < RF_COUNT(c->answers); i++) {
		assert_int_equal(c->answers[i].code, 0);
		rf_answer_done(&c->answers[i]);
	}
}

static void queries_are_decoded_and_the_first_wins(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;

	call(w, "GET", "/query?x=1&label=a%3Db+c&label=no", RF_STR_EMPTY, &a);
	assert_string_equal(a.body.p, "a=b c");
	call(w, "GET", "/query?label", RF_STR_EMPTY, &a);
	assert_string_equal(a.body.p, "");
	call(w, "GET", "/query?labels=1", RF_STR_EMPTY, &a);
	assert_string_equal(a.body.p, "absent");
}

static void the_bearer_token_is_sent(void **state)
{
	struct world *w = *state;
	struct rf_http_client_opts opts = { .host = RF_LIT("127.0.0.1"),
					    .bearer = RF_LIT("tok.en"),
					    .port = rf_http_server_port(w->server) };
	struct rf_http_client *c = rf_http_client_new(&w->loop, &opts);
	auto_answer a = ANSWER_INIT;

	begin(c, "GET", "/auth", RF_STR_EMPTY, &a);
	wait_for(w, a.done);
	assert_string_equal(a.body.p, "Bearer tok.en");
	rf_http_client_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TLS(a_body_comes_back_as_it_was_sent),
		TLS(a_body_of_three_mebibytes_is_carried_both_ways),
		TLS(a_body_past_the_servers_cap_is_answered_413),
		TLS(an_answer_past_the_clients_cap_is_an_error),
		TLS(a_thousand_chunks_arrive_in_order),
		TLS(with_on_data_a_refusal_still_comes_as_a_body),
		TLS(head_has_the_length_and_no_body),
		TLS(a_connection_is_used_again),
		TLS(fifty_calls_at_once_all_get_their_own_answer),
		TLS(the_handler_sees_who_the_certificate_names),
		TLS(a_client_without_certificate_is_nobody),
		TLS(a_server_of_another_authority_is_refused),
		TLS(a_server_of_another_name_is_refused),
		TLS(a_client_certificate_of_another_authority_is_refused),
		TLS(a_server_certificate_is_no_client_certificate),
		TLS(plain_text_to_a_tls_port_is_cut_off),
		PLAIN(a_name_is_looked_up_and_all_its_addresses_are_tried),
		TLS(a_silent_server_times_out),
		TLS(a_stream_may_be_silent_only_as_long_as_was_said),
		TLS(without_idle_limit_a_stream_outlives_the_timeout),
		TLS(a_cancelled_call_is_never_heard_of_again),
		TLS(a_call_may_be_cancelled_from_its_own_data),
		TLS(what_cannot_be_sent_fails_from_the_loop),
		PLAIN(nobody_listening_is_unavailable),
		TLS(a_handler_untold_may_answer_a_client_that_has_gone),
		TLS(on_close_set_too_late_is_still_told),
		TLS(closing_the_server_tells_streams_and_releases_all),
		TLS(a_kept_connection_that_died_is_replaced),
		TLS(a_paused_call_leaves_the_data_with_the_server),
		TLS(any_order_of_calls_and_cancels_leaves_nothing_behind),
		PLAIN(any_order_of_calls_and_cancels_leaves_nothing_behind),
		PLAIN(queries_are_decoded_and_the_first_wins),
		PLAIN(the_bearer_token_is_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
