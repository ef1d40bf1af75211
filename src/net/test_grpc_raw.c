/* Peers that send bytes of their own choice: odd ones, slow ones, hostile ones. */
#include "net/test_grpc.h"

static struct raw greeted(struct world *w)
{
	struct raw r = raw_connect(w);

	raw_hello(&r);
	return r;
}

static void assert_echo(struct raw *r, int32_t id, struct rf_str message)
{
	auto_result res = RESULT_INIT;

	raw_ask(r, id, "/test.T/Echo", message);
	raw_result(r, id, &res);
	assert_int_equal(res.body.n, RF_GRPC_PREFIX + message.n);
	assert_memory_equal(res.body.p + RF_GRPC_PREFIX, message.p, message.n);
	assert_string_equal(res.trailers.p, "grpc-status: 0\n");
}

/* --- the form of answers ---------------------------------------------------------------------- */

static void an_answer_is_headers_data_and_trailers(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;

	raw_ask(&r, 1, "/test.T/Echo", RF_LIT("hi"));
	raw_result(&r, 1, &res);
	assert_string_equal(res.headers.p, ":status: 200\ncontent-type: application/grpc\n");
	assert_int_equal(res.body.n, 7);
	assert_memory_equal(res.body.p, "\0\0\0\0\2hi", 7);
	assert_string_equal(res.trailers.p, "grpc-status: 0\n");
	assert_int_equal(res.reset, -1);
}

static void settings_and_pings_are_answered(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_frame f = FRAME_INIT;

	raw_expect(&r, NGHTTP2_SETTINGS, &f);
	assert_int_equal(f.flags, 0);
	assert_int_equal(f.length, 12); /* of headers, of streams */
	assert_memory_equal(f.payload.p, "\0\6\0\0\x20\0\0\3\0\0\0\x64", 12);
	raw_expect(&r, NGHTTP2_SETTINGS, &f);
	assert_int_equal(f.flags, NGHTTP2_FLAG_ACK);
	raw_frame(&r, NGHTTP2_PING, 0, 0, RF_LIT("12345678"));
	raw_expect(&r, NGHTTP2_PING, &f);
	assert_int_equal(f.flags, NGHTTP2_FLAG_ACK);
	assert_memory_equal(f.payload.p, "12345678", 8);
}

static void a_stream_of_a_thousand_messages_keeps_its_order(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	rf_auto(buf) want = RF_BUF_INIT;
	char text[16];

	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "%d", i);
		rf_grpc_frame(&want, rf_str(text));
	}
	raw_ask(&r, 1, "/test.T/Stream", RF_LIT("1000"));
	raw_result(&r, 1, &res);
	assert_true(same(rf_buf_str(&res.body), rf_buf_str(&want)));
	assert_string_equal(res.trailers.p, "grpc-status: 0\n");
}

static void a_stream_goes_on_as_long_as_its_handler_likes(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	auto_frame f = FRAME_INIT;

	raw_ask(&r, 1, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 1);
	for (int i = 0; i < 3; i++) { /* each arrives by itself, while other calls come and go */
		rf_grpc_send(w->held[0], RF_LIT("list"));
		raw_expect(&r, NGHTTP2_DATA, &f);
		assert_int_equal(f.id, 1);
		assert_memory_equal(f.payload.p, "\0\0\0\0\4list", 9);
		assert_echo(&r, 3 + 2 * i, RF_LIT("x"));
	}
	rf_grpc_finish(w->held[0], RF_GRPC_UNAVAILABLE, "going 50%");
	raw_result(&r, 1, &res);
	assert_string_equal(res.headers.p, "grpc-status: 14\ngrpc-message: going 50%25\n");
	assert_int_equal(w->cancelled, 0);
}

/* --- requests that are refused ---------------------------------------------------------------- */

static void a_wrong_content_type_is_answered_415(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	rf_auto(buf) b = RF_BUF_INIT;

	add_header(&b, ":method", RF_LIT("POST"));
	add_header(&b, ":scheme", RF_LIT("http"));
	add_header(&b, ":path", RF_LIT("/test.T/Echo"));
	add_header(&b, ":authority", RF_LIT("localhost"));
	add_header(&b, "content-type", RF_LIT("application/json"));
	raw_frame(&r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, rf_buf_str(&b));
	raw_message(&r, 1, NGHTTP2_FLAG_END_STREAM, RF_LIT("x"));
	raw_result(&r, 1, &res);
	assert_trailers_only(&res, ":status: 415\n", "content-type");
	assert_echo(&r, 3, RF_LIT("the connection goes on"));
}

static void a_get_is_answered_405(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	rf_auto(buf) b = RF_BUF_INIT;

	add_header(&b, ":method", RF_LIT("GET"));
	add_header(&b, ":scheme", RF_LIT("http"));
	add_header(&b, ":path", RF_LIT("/test.T/Echo"));
	add_header(&b, ":authority", RF_LIT("localhost"));
	raw_frame(&r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
		  rf_buf_str(&b));
	raw_result(&r, 1, &res);
	assert_trailers_only(&res, ":status: 405\n", "POST");
}

static void an_unknown_method_is_unimplemented_before_its_message_comes(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	auto_frame f = FRAME_INIT;

	raw_headers(&r, 1, "/test.T/N\xc3\xb6", NULL, RF_STR_EMPTY);
	raw_result(&r, 1, &res);
	assert_trailers_only(&res, "grpc-status: 12\n", "/test.T/N%C3%B6 is not served");
	raw_expect(&r, NGHTTP2_RST_STREAM, &f); /* the rest need not come */
	assert_memory_equal(f.payload.p, "\0\0\0\0", 4);
	raw_message(&r, 1, NGHTTP2_FLAG_END_STREAM, RF_LIT("was on its way"));
	assert_echo(&r, 3, RF_LIT("ok"));
}

static void what_is_not_one_message_is_an_error_and_no_hang(void **state)
{
	static const struct {
		struct rf_str bytes;
		const char *status;
		const char *text;
	} cases[] = {
		{ RF_LIT(""), "grpc-status: 13\n", "no message" },
		{ RF_LIT("\0\0"), "grpc-status: 13\n", "cut off" },
		{ RF_LIT("\0\0\0\0\7abc"), "grpc-status: 13\n", "cut off" },
		{ RF_LIT("\0\0\0\0\1a\0\0\0\0\1b"), "grpc-status: 13\n", "more than one" },
		{ RF_LIT("\1\0\0\0\1a"), "grpc-status: 12\n", "compress" },
		{ RF_LIT("\0\1\0\0\1a"), "grpc-status: 8\n", "over the limit" },
	};
	struct world *w = *state;
	auto_raw r = greeted(w);

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		auto_result res = RESULT_INIT;
		int32_t id = (int32_t)(2 * i + 1);

		raw_headers(&r, id, "/test.T/Echo", NULL, RF_STR_EMPTY);
		raw_frame(&r, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, id, cases[i].bytes);
		raw_result(&r, id, &res);
		assert_trailers_only(&res, cases[i].status, cases[i].text);
	}
	assert_int_equal(w->handled, 0);
	assert_echo(&r, 101, RF_LIT("still there"));
}

static void headers_alone_are_no_request(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	rf_auto(buf) b = RF_BUF_INIT;

	add_request_headers(&b, "/test.T/Echo", NULL, RF_STR_EMPTY);
	raw_frame(&r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
		  rf_buf_str(&b));
	raw_result(&r, 1, &res);
	assert_trailers_only(&res, "grpc-status: 13\n", "no message");
}

static void a_request_may_end_with_trailers(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	rf_auto(buf) b = RF_BUF_INIT;

	raw_headers(&r, 1, "/test.T/Echo", NULL, RF_STR_EMPTY);
	raw_message(&r, 1, 0, RF_LIT("x"));
	add_header(&b, "some", RF_LIT("thing"));
	raw_frame(&r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
		  rf_buf_str(&b));
	raw_result(&r, 1, &res);
	assert_string_equal(res.trailers.p, "grpc-status: 0\n");
}

static void headers_over_8_kib_are_refused(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT, small = RESULT_INIT;
	rf_auto(buf) big = RF_BUF_INIT;

	for (int i = 0; i < 8192; i++)
		rf_buf_add_c(&big, 'x');
	raw_headers(&r, 1, "/test.T/Echo", "x-big", rf_buf_str(&big));
	raw_result(&r, 1, &res);
	assert_trailers_only(&res, "grpc-status: 8\n", "over 8 KiB");
	big.n = 7900;
	raw_headers(&r, 3, "/test.T/Echo", "x-big", rf_buf_str(&big));
	raw_message(&r, 3, NGHTTP2_FLAG_END_STREAM, RF_LIT("fits"));
	raw_result(&r, 3, &small);
	assert_string_equal(small.trailers.p, "grpc-status: 0\n");
}

/* 1 MiB of headers in CONTINUATION frames, and a block that never ends. */
static void headers_without_end_end_the_connection(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	rf_auto(buf) piece = RF_BUF_INIT;

	for (int i = 0; i < 60; i++)
		add_header(&piece, "x-header", RF_LIT("0123456789012345678901234567890123456789"));
	rf_buf_clear(&r.in);
	{
		rf_auto(buf) first = RF_BUF_INIT;

		add_request_headers(&first, "/test.T/Echo", NULL, RF_STR_EMPTY);
		raw_frame(&r, NGHTTP2_HEADERS, 0, 1, rf_buf_str(&first));
	}
	for (int i = 0; i < 300; i++)
		raw_frame(&r, NGHTTP2_CONTINUATION, 0, 1, rf_buf_str(&piece));
	raw_drain(&r);
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
	assert_int_equal(w->handled, 0);
}

/* --- frames in odd pieces --------------------------------------------------------------------- */

static void a_request_may_come_byte_by_byte(void **state)
{
	struct world *w = *state;
	auto_raw r = raw_connect(w);
	auto_result res = RESULT_INIT;
	rf_auto(buf) all = RF_BUF_INIT;
	rf_auto(buf) headers = RF_BUF_INIT;
	rf_auto(buf) data = RF_BUF_INIT;

	add_request_headers(&headers, "/test.T/Echo", "grpc-timeout", RF_LIT("20S"));
	rf_grpc_frame(&data, RF_LIT("slowly"));
	rf_buf_puts(&all, PREFACE);
	add_frame(&all, NGHTTP2_SETTINGS, 0, 0, RF_STR_EMPTY);
	add_frame(&all, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, rf_buf_str(&headers));
	add_frame(&all, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, rf_buf_str(&data));
	for (size_t i = 0; i < all.n; i++) {
		raw_send(&r, rf_str_n(all.p + i, 1));
		uv_run(&w->loop, UV_RUN_NOWAIT);
		assert_int_equal(w->handled, i + 1 == all.n ? w->handled : 0);
	}
	raw_result(&r, 1, &res);
	assert_memory_equal(res.body.p, "\0\0\0\0\6slowly", 11);
}

static void a_message_may_come_in_frames_of_one_byte(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	rf_auto(buf) data = RF_BUF_INIT;

	rf_grpc_frame(&data, RF_LIT("bit by bit"));
	raw_headers(&r, 1, "/test.T/Echo", NULL, RF_STR_EMPTY);
	for (size_t i = 0; i < data.n; i++)
		raw_frame(&r, NGHTTP2_DATA, 0, 1, rf_str_n(data.p + i, 1));
	raw_frame(&r, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, RF_STR_EMPTY);
	raw_result(&r, 1, &res);
	assert_true(same(rf_buf_str(&res.body), rf_buf_str(&data)));
}

static void half_a_frame_and_an_end_leave_nothing(void **state)
{
	struct world *w = *state;
	rf_auto(buf) all = RF_BUF_INIT;
	rf_auto(buf) headers = RF_BUF_INIT;

	add_request_headers(&headers, "/test.T/Echo", NULL, RF_STR_EMPTY);
	rf_buf_puts(&all, PREFACE);
	add_frame(&all, NGHTTP2_SETTINGS, 0, 0, RF_STR_EMPTY);
	add_frame(&all, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, rf_buf_str(&headers));
	add_frame(&all, NGHTTP2_DATA, 0, 1, RF_LIT("\0\0\0\1\0abc"));
	for (size_t n = 0; n <= all.n; n += 5) {
		auto_raw r = raw_connect(w);

		raw_send(&r, rf_str_n(all.p, n));
		wait_for(w, rf_grpc_server_connections(w->server) == 1);
	}
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
	assert_int_equal(w->handled, 0);
}

static void what_is_not_http2_ends_the_connection(void **state)
{
	static const struct rf_str bytes[] = {
		RF_LIT("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		RF_LIT(PREFACE "\0\0\5\0\1\0\0\0\1hello"), /* no SETTINGS first */
		RF_LIT(PREFACE "\0\0\0\4\0\0\0\0\0\xff\xff\xff\0\0\0\0\0\1"),	 /* a huge frame */
		RF_LIT(PREFACE "\0\0\0\4\0\0\0\0\0\0\0\1\1\4\0\0\0\1\x80"),	 /* no HPACK */
		RF_LIT(PREFACE "\0\0\0\4\0\0\0\0\0\0\0\4\x8\0\0\0\0\0\0\0\0\0"), /* window by 0 */
		RF_LIT(PREFACE "\0\0\0\4\0\0\0\0\0\0\0\1\0\1\0\0\0\7x"), /* an idle stream's */
	};
	struct world *w = *state;

	for (size_t i = 0; i < RF_COUNT(bytes); i++) {
		auto_raw r = raw_connect(w);

		raw_send(&r, bytes[i]);
		raw_drain(&r);
	}
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
}

/* --- leaving ---------------------------------------------------------------------------------- */

static void a_reset_cancels_one_call_and_no_other(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;

	raw_ask(&r, 1, "/test.T/Hold", RF_STR_EMPTY);
	raw_ask(&r, 3, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 2);
	rf_grpc_send(w->held[0], RF_LIT("mid-stream"));
	raw_u32_frame(&r, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
	wait_for(w, w->cancelled == 1);
	rf_grpc_reply(w->held[1], RF_LIT("unharmed"));
	raw_result(&r, 3, &res);
	assert_memory_equal(res.body.p + RF_GRPC_PREFIX, "unharmed", 8);
	assert_int_equal(w->cancelled, 1);
}

static void a_reset_in_a_half_sent_request_reaches_no_handler(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);

	raw_headers(&r, 1, "/test.T/Echo", NULL, RF_STR_EMPTY);
	raw_frame(&r, NGHTTP2_DATA, 0, 1, RF_LIT("\0\0\0\0\7abc"));
	raw_u32_frame(&r, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
	assert_echo(&r, 3, RF_LIT("x"));
	assert_int_equal(w->handled, 1);
}

static void calls_go_on_after_a_peers_goaway(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;

	raw_ask(&r, 1, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 1);
	raw_frame(&r, NGHTTP2_GOAWAY, 0, 0, RF_LIT("\0\0\0\0\0\0\0\0"));
	raw_frame(&r, NGHTTP2_PING, 0, 0, RF_LIT("12345678"));
	{
		auto_frame f = FRAME_INIT;

		raw_expect(&r, NGHTTP2_PING, &f);
	}
	rf_grpc_reply(w->held[0], RF_LIT("last words"));
	raw_result(&r, 1, &res);
	assert_memory_equal(res.body.p + RF_GRPC_PREFIX, "last words", 10);
	raw_drain(&r); /* and then the connection ends */
	assert_int_equal(w->cancelled, 0);
}

static void a_peer_that_vanishes_cancels_its_calls(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);

	for (int i = 0; i < 5; i++)
		raw_ask(&r, 2 * i + 1, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 5);
	rf_grpc_send(w->held[0], RF_LIT("on its way"));
	rf_raw_done(&r);
	wait_for(w, w->cancelled == 5);
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
}

static void a_closing_server_says_goaway(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_frame f = FRAME_INIT;

	raw_ask(&r, 1, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 1);
	stop_serving(w);
	assert_int_equal(w->cancelled, 1);
	raw_expect(&r, NGHTTP2_GOAWAY, &f);
	raw_drain(&r);
}

/* In one piece with the request whose handler closes the server. */
static void no_handler_is_called_after_the_close(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	rf_auto(buf) all = RF_BUF_INIT;
	rf_auto(buf) data = RF_BUF_INIT;

	rf_grpc_frame(&data, RF_LIT("x"));
	for (int i = 0; i < 3; i++) {
		rf_auto(buf) b = RF_BUF_INIT;

		add_request_headers(&b, i == 1 ? "/test.T/Close" : "/test.T/Hold", NULL,
				    RF_STR_EMPTY);
		add_frame(&all, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1,
			  rf_buf_str(&b));
		add_frame(&all, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 2 * i + 1,
			  rf_buf_str(&data));
	}
	raw_send(&r, rf_buf_str(&all));
	raw_result(&r, 3, &res);
	assert_memory_equal(res.body.p + RF_GRPC_PREFIX, "bye", 3);
	raw_drain(&r);
	assert_int_equal(w->handled, 2);
	assert_int_equal(w->cancelled, 1);
}

/* --- deadlines -------------------------------------------------------------------------------- */

static void a_deadline_cancels_the_call_and_tells_the_peer(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;

	raw_headers(&r, 1, "/test.T/Hold", "grpc-timeout", RF_LIT("20m"));
	raw_message(&r, 1, NGHTTP2_FLAG_END_STREAM, RF_STR_EMPTY);
	raw_result(&r, 1, &res);
	assert_trailers_only(&res, "grpc-status: 4\n", "deadline");
	assert_int_equal(w->cancelled, w->handled);
	assert_echo(&r, 3, RF_LIT("x"));
}

static void a_deadline_in_an_answer_resets_it(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;

	raw_headers(&r, 1, "/test.T/Begin", "grpc-timeout", RF_LIT("20m"));
	raw_message(&r, 1, NGHTTP2_FLAG_END_STREAM, RF_STR_EMPTY);
	raw_result(&r, 1, &res);
	assert_int_equal(res.reset, NGHTTP2_CANCEL);
	assert_memory_equal(res.body.p + RF_GRPC_PREFIX, "begun", 5);
	assert_int_equal(w->cancelled, 1);
}

static void a_deadline_passes_in_a_half_sent_request_too(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;

	raw_headers(&r, 1, "/test.T/Echo", "grpc-timeout", RF_LIT("10m"));
	raw_frame(&r, NGHTTP2_DATA, 0, 1, RF_LIT("\0\0\0\0\7abc"));
	raw_result(&r, 1, &res);
	assert_trailers_only(&res, "grpc-status: 4\n", "deadline");
	assert_int_equal(w->handled, 0);
}

static void a_timeout_that_is_none_is_refused(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;

	raw_headers(&r, 1, "/test.T/Echo", "grpc-timeout", RF_LIT("soon"));
	raw_message(&r, 1, NGHTTP2_FLAG_END_STREAM, RF_LIT("x"));
	raw_result(&r, 1, &res);
	assert_trailers_only(&res, "grpc-status: 3\n", "grpc-timeout");
}

/* --- limits ----------------------------------------------------------------------------------- */

static void streams_past_the_limit_are_refused(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_frame f = FRAME_INIT;

	raw_expect(&r, NGHTTP2_SETTINGS, &f); /* not acknowledged: we did not see it yet */
	for (int i = 0; i < RF_GRPC_STREAMS_MAX + 1; i++)
		raw_ask(&r, 2 * i + 1, "/test.T/Hold", RF_STR_EMPTY);
	raw_expect(&r, NGHTTP2_RST_STREAM, &f);
	assert_int_equal(f.id, 2 * RF_GRPC_STREAMS_MAX + 1);
	assert_int_equal(f.payload.p[3], NGHTTP2_REFUSED_STREAM);
	assert_int_equal(w->n_held, RF_GRPC_STREAMS_MAX);
	for (size_t i = 0; i < w->n_held; i++)
		rf_grpc_reply(w->held[i], RF_LIT("ok"));
	assert_echo(&r, 2 * RF_GRPC_STREAMS_MAX + 3, RF_LIT("room again"));
	assert_int_equal(w->cancelled, 0);
}

static void connections_past_the_limit_are_closed(void **state)
{
	struct world *w = *state;
	struct raw r[65];

	for (int i = 0; i < 65; i++)
		r[i] = greeted(w);
	raw_drain(&r[64]);
	wait_for(w, rf_grpc_server_connections(w->server) == 64);
	assert_echo(&r[0], 1, RF_LIT("first"));
	assert_echo(&r[63], 1, RF_LIT("last"));
	for (int i = 0; i < 65; i++)
		rf_raw_done(&r[i]);
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
	r[0] = greeted(w);
	assert_echo(&r[0], 1, RF_LIT("room again"));
	rf_raw_done(&r[0]);
}

static void send_settings(struct raw *r, uint16_t id, uint32_t value)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_buf_add_c(&b, (char)(id >> 8));
	rf_buf_add_c(&b, (char)id);
	add_u32(&b, value);
	raw_frame(r, NGHTTP2_SETTINGS, 0, 0, rf_buf_str(&b));
}

static void an_answer_waits_for_the_peers_window(void **state)
{
	struct world *w = *state;
	auto_raw r = raw_connect(w);
	auto_frame f = FRAME_INIT;
	auto_result res = RESULT_INIT;

	raw_send(&r, RF_LIT(PREFACE));
	send_settings(&r, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
	raw_ask(&r, 1, "/test.T/Echo", RF_LIT("drop by drop"));
	raw_expect(&r, NGHTTP2_HEADERS, &f);
	for (size_t got = 0; got < 17;) {
		raw_frame(&r, NGHTTP2_PING, 0, 0, RF_LIT("nothing?")); /* and nothing comes */
		raw_next(&r, &f);
		assert_int_equal(f.type, NGHTTP2_PING);
		raw_u32_frame(&r, NGHTTP2_WINDOW_UPDATE, 1, 3);
		raw_next(&r, &f);
		assert_int_equal(f.type, NGHTTP2_DATA);
		assert_true(f.length <= 3);
		got += f.length;
		rf_buf_add(&res.body, rf_buf_str(&f.payload));
	}
	raw_expect(&r, NGHTTP2_HEADERS, &f);
	assert_string_equal(f.payload.p, "grpc-status: 0\n");
	assert_memory_equal(res.body.p, "\0\0\0\0\14drop by drop", 17);
}

/* Windows without limit, so that the kernel's buffer is what fills. */
static struct raw greeted_wide(struct world *w)
{
	struct raw r = greeted(w);

	send_settings(&r, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX);
	raw_u32_frame(&r, NGHTTP2_WINDOW_UPDATE, 0, INT32_MAX - 65535);
	return r;
}

static void a_slow_reader_gets_all_of_a_stream(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted_wide(w);
	auto_frame f = FRAME_INIT;
	rf_auto(buf) part = RF_BUF_INIT;
	rf_auto(buf) want = RF_BUF_INIT;
	rf_auto(buf) got = RF_BUF_INIT;
	struct rf_grpc_call *call;

	raw_ask(&r, 1, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 1);
	call = w->held[0];
	for (size_t i = 0; i < 30; i++) { /* more is sent while a part of the last is taken */
		fill(&part, 300000 + i * 1000);
		rf_grpc_frame(&want, rf_buf_str(&part));
		rf_grpc_send(call, rf_buf_str(&part));
		while (got.n + 400000 < want.n) {
			raw_expect(&r, NGHTTP2_DATA, &f);
			rf_buf_add(&got, rf_buf_str(&f.payload));
		}
	}
	rf_grpc_finish(call, RF_GRPC_OK, NULL);
	while (got.n < want.n) {
		raw_expect(&r, NGHTTP2_DATA, &f);
		rf_buf_add(&got, rf_buf_str(&f.payload));
	}
	assert_true(same(rf_buf_str(&got), rf_buf_str(&want)));
	raw_expect(&r, NGHTTP2_HEADERS, &f);
	assert_string_equal(f.payload.p, "grpc-status: 0\n");
	assert_int_equal(w->cancelled, 0);
}

static void a_peer_that_takes_nothing_is_cancelled(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;
	rf_auto(buf) mib = RF_BUF_INIT;

	fill(&mib, MIB);
	raw_ask(&r, 1, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 1);
	for (int i = 0; i < 16; i++)
		rf_grpc_send(w->held[0], rf_buf_str(&mib));
	for (int i = 0; i < 5; i++)
		uv_run(&w->loop, UV_RUN_NOWAIT);
	assert_int_equal(w->cancelled, 0); /* so much may wait */
	for (int i = 0; i < 3; i++)
		rf_grpc_send(w->held[0], rf_buf_str(&mib));
	assert_int_equal(w->cancelled, 0); /* never from inside */
	wait_for(w, w->cancelled == 1);
	raw_result(&r, 1, &res);
	assert_int_equal(res.reset, NGHTTP2_CANCEL);
	assert_echo(&r, 3, RF_LIT("the connection goes on"));
}

static void answers_that_pile_up_on_a_connection_are_reset(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_frame f = FRAME_INIT;
	rf_auto(buf) big = RF_BUF_INIT;

	fill(&big, 10 * MIB);
	for (int i = 0; i < 8; i++)
		raw_ask(&r, 2 * i + 1, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 8);
	for (int i = 0; i < 8; i++)
		rf_grpc_reply(w->held[i], rf_buf_str(&big));
	raw_expect(&r, NGHTTP2_RST_STREAM, &f); /* 60 MiB wait; the seventh is too much */
	assert_int_equal(f.id, 13);
	assert_int_equal(w->cancelled, 0); /* they were answered, as far as the handler goes */
}

/* Keeps to the windows, as a peer must; stops when it is answered. Windows are 64 KiB and opened
 * when half of them is used. */
static void send_large(struct raw *r, int32_t id, size_t n, struct result *res)
{
	rf_auto(buf) b = RF_BUF_INIT;
	auto_frame f = FRAME_INIT;
	size_t room = 65535;

	fill(&b, 8192);
	for (; n > 0 && !res->ended; n -= b.n) {
		while (room < b.n && !res->ended) {
			assert_true(raw_next(r, &f));
			if (f.type == NGHTTP2_WINDOW_UPDATE && f.id == id)
				room += (unsigned char)f.payload.p[2] << 8 |
					(unsigned char)f.payload.p[3];
			if (f.id == id)
				note_frame(res, &f);
		}
		room -= RF_MIN(room, b.n);
		raw_frame(r, NGHTTP2_DATA, 0, id, rf_buf_str(&b));
	}
}

/* Never ended, five of them: more than a server holds for all its peers. */
static void half_sent_messages_are_held_up_to_a_limit(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	auto_result res = RESULT_INIT;

	for (int i = 0; i < 5; i++) {
		raw_headers(&r, 2 * i + 1, "/test.T/Echo", NULL, RF_STR_EMPTY);
		raw_frame(&r, NGHTTP2_DATA, 0, 2 * i + 1, RF_LIT("\0\1\0\0\0"));
		send_large(&r, 2 * i + 1, 15 * MIB, &res);
		assert_int_equal(res.ended, i == 4);
	}
	assert_trailers_only(&res, "grpc-status: 8\n", "too many large requests");
	raw_u32_frame(&r, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
	assert_echo(&r, 11, RF_LIT("room again"));
}

static void pings_nobody_takes_the_answers_of_end_the_connection(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	rf_auto(buf) pings = RF_BUF_INIT;

	for (int i = 0; i < 1000; i++)
		add_frame(&pings, NGHTTP2_PING, 0, 0, RF_LIT("12345678"));
	wait_for(w, rf_grpc_server_connections(w->server) == 1);
	for (int i = 0; i < 1000 && rf_grpc_server_connections(w->server) > 0; i++) {
		raw_send(&r, rf_buf_str(&pings));
		uv_run(&w->loop, UV_RUN_NOWAIT);
	}
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
}

static void calls_begun_and_reset_without_end_are_stopped(void **state)
{
	struct world *w = *state;
	auto_raw r = greeted(w);
	int32_t id = 1;

	wait_for(w, rf_grpc_server_connections(w->server) == 1);
	for (; id < 400000 && rf_grpc_server_connections(w->server) > 0; id += 2) {
		w->n_held = 0;
		raw_ask(&r, id, "/test.T/Hold", RF_STR_EMPTY);
		raw_u32_frame(&r, NGHTTP2_RST_STREAM, id, NGHTTP2_CANCEL);
		uv_run(&w->loop, UV_RUN_NOWAIT);
	}
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
	assert_int_equal(w->cancelled, w->handled);
}

/* --- time ------------------------------------------------------------------------------------- */

static void a_half_sent_request_ends_the_connection(void **state)
{
	struct world *w = *state;
	rf_grpc_server_set_patience(w->server, 30);
	auto_raw r = greeted(w);

	raw_headers(&r, 1, "/test.T/Echo", NULL, RF_STR_EMPTY);
	raw_frame(&r, NGHTTP2_DATA, 0, 1, RF_LIT("\0\0\0\0\7abc"));
	raw_drain(&r);
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
	assert_int_equal(w->handled, 0);
}

static void the_head_of_a_frame_is_a_half_sent_request_too(void **state)
{
	struct world *w = *state;
	rf_grpc_server_set_patience(w->server, 30);
	auto_raw r = greeted(w);

	raw_send(&r, RF_LIT("\0\1\0\1\4\0\0\0\1"));
	raw_drain(&r);
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
}

static void a_connection_that_says_nothing_is_ended(void **state)
{
	struct world *w = *state;
	rf_grpc_server_set_patience(w->server, 30);
	auto_raw silent = raw_connect(w);

	raw_drain(&silent);
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
}

static void an_idle_connection_and_an_open_stream_are_kept(void **state)
{
	struct world *w = *state;
	rf_grpc_server_set_patience(w->server, 300);
	auto_raw idle = greeted(w);
	auto_raw watch = greeted(w);
	auto_raw slow;

	raw_ask(&watch, 1, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 1);
	for (int i = 0; i < 2; i++) { /* each takes all of the server's patience */
		slow = raw_connect(w);
		raw_drain(&slow);
		rf_raw_done(&slow);
	}
	wait_for(w, rf_grpc_server_connections(w->server) == 2);
	assert_echo(&idle, 1, RF_LIT("still here"));
	rf_grpc_reply(w->held[0], RF_LIT("so am I"));
	{
		auto_result res = RESULT_INIT;

		raw_result(&watch, 1, &res);
		assert_memory_equal(res.body.p + RF_GRPC_PREFIX, "so am I", 7);
	}
}

static void a_peer_that_reads_nothing_ends_its_connection(void **state)
{
	struct world *w = *state;
	rf_grpc_server_set_patience(w->server, 300);
	auto_raw r = greeted_wide(w);
	rf_auto(buf) big = RF_BUF_INIT;

	raw_ask(&r, 1, "/test.T/Hold", RF_STR_EMPTY);
	wait_for(w, w->n_held == 1);
	fill(&big, 8 * MIB);
	rf_grpc_send(w->held[0], rf_buf_str(&big));
	wait_for(w, w->cancelled == 1);
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
}

/* --- odd servers, for the client -------------------------------------------------------------- */

static int raw_listen(struct world *w)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	stop_serving(w);
	memcpy(addr.sun_path, w->path, strlen(w->path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void end_listen(struct world *w, int *fd)
{
	close(*fd);
	unlink(w->path);
}

/* The client's next connection, with the preface read and SETTINGS sent. */
static struct raw raw_accept(struct world *w, int listener)
{
	struct raw r;
	int fd = -1;

	wait_for(w, (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
	r = raw_of(w, fd);
	raw_frame(&r, NGHTTP2_SETTINGS, 0, 0, RF_STR_EMPTY);
	wait_for(w, (raw_receive(&r), r.in.n >= 24));
	assert_memory_equal(r.in.p, PREFACE, 24);
	rf_buf_drop(&r.in, 24);
	return r;
}

static void answer_headers(struct raw *r, int32_t id, const char *status, const char *type)
{
	rf_auto(buf) b = RF_BUF_INIT;

	add_header(&b, ":status", rf_str(status));
	add_header(&b, "content-type", rf_str(type));
	raw_frame(r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, rf_buf_str(&b));
}

static void answer_trailers(struct raw *r, int32_t id, const char *status)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (status != NULL)
		add_header(&b, "grpc-status", rf_str(status));
	else
		add_header(&b, "other", RF_LIT("thing"));
	raw_frame(r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id,
		  rf_buf_str(&b));
}

static void answer_well(struct raw *r, int32_t id, struct rf_str message)
{
	answer_headers(r, id, "200", "application/grpc");
	raw_message(r, id, 0, message);
	answer_trailers(r, id, "0");
}

/* Waits for the client's request and reads it. */
static int32_t expect_request(struct raw *r, struct frame *headers)
{
	auto_frame data = FRAME_INIT;

	raw_expect(r, NGHTTP2_HEADERS, headers);
	do
		raw_expect(r, NGHTTP2_DATA, &data);
	while ((data.flags & NGHTTP2_FLAG_END_STREAM) == 0);
	return headers->id;
}

static void a_request_has_the_form_of_grpc(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer a = ANSWER_INIT;
	auto_frame f = FRAME_INIT, data = FRAME_INIT;

	rf_grpc_call_unary(w->client, "/a.B/C", RF_LIT("hello"), 99000, on_answer, &a);
	auto_raw r = raw_accept(w, listener);
	raw_expect(&r, NGHTTP2_HEADERS, &f);
	assert_true(has(&f.payload, ":method: POST\n:scheme: http\n:path: /a.B/C\n"
				    ":authority: localhost\nte: trailers\n"
				    "content-type: application/grpc\nuser-agent: ringfence/"));
	assert_true(has(&f.payload, "grpc-timeout: 9") || has(&f.payload, "grpc-timeout: 8"));
	raw_expect(&r, NGHTTP2_DATA, &data);
	assert_memory_equal(data.payload.p, "\0\0\0\0\5hello", 10);
	assert_int_equal(data.flags, NGHTTP2_FLAG_END_STREAM);
	answer_well(&r, f.id, RF_LIT("fine"));
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, 0);
	assert_string_equal(a.body.p, "fine");
	end_listen(w, &listener);
}

struct odd {
	const char *status, *type;
	struct rf_str data;
	const char *grpc_status;
	int code;
	const char *text;
};

static void try_odd(struct world *w, int listener, const struct odd *odd)
{
	auto_answer a = ANSWER_INIT;
	auto_frame f = FRAME_INIT;

	ask(w, "/a.B/C", RF_LIT("x"), &a);
	auto_raw r = raw_accept(w, listener);
	expect_request(&r, &f);
	answer_headers(&r, f.id, odd->status, odd->type);
	if (odd->data.n > 0)
		raw_frame(&r, NGHTTP2_DATA, 0, f.id, odd->data);
	answer_trailers(&r, f.id, odd->grpc_status);
	wait_for(w, a.calls == 1);
	if (a.code != odd->code || strstr(a.error, odd->text) == NULL)
		fail_msg("want %d with \"%s\", got %d: %s", odd->code, odd->text, a.code, a.error);
}

static void odd_answers_are_errors(void **state)
{
	static const char *const grpc = "application/grpc";
	const struct odd odds[] = {
		{ "200", grpc, RF_LIT("\0\0\0\0\1a"), NULL, RF_INTERNAL, "without a status" },
		{ "200", grpc, RF_LIT(""), "0", RF_INTERNAL, "no message" },
		{ "200", grpc, RF_LIT("\0\0\0\0\2a"), "0", RF_INTERNAL, "cut off" },
		{ "200", grpc, RF_LIT("\0\0\0\0\1ab"), "0", RF_INTERNAL, "more than one" },
		{ "200", grpc, RF_LIT("\1\0\0\0\1a"), "0", RF_UNSUPPORTED, "compressed" },
		{ "200", grpc, RF_LIT("\0\2\0\0\0"), "0", RF_TOO_LARGE, "33554432 bytes" },
		{ "200", grpc, RF_LIT("\0\0\0\0\1a"), "5", RF_NOT_FOUND, "no reason" },
		{ "200", grpc, RF_LIT("\0\0\0\0\1a"), "99", RF_INTERNAL, "status 99" },
		{ "200", grpc, RF_LIT("\0\0\0\0\1a"), "-1", RF_INTERNAL, "status 2" },
		{ "200", grpc, RF_LIT("\0\0\0\0\1a"), "x", RF_INTERNAL, "status 2" },
		{ "200", "text/html", RF_LIT("<p>"), NULL, RF_INTERNAL, "not gRPC" },
		{ "503", "text/html", RF_LIT("<p>"), NULL, RF_UNAVAILABLE, "HTTP status 503" },
		{ "404", "text/html", RF_LIT("<p>"), NULL, RF_NOT_FOUND, "HTTP status 404" },
	};
	struct world *w = *state;
	int listener = raw_listen(w);

	for (size_t i = 0; i < RF_COUNT(odds); i++)
		try_odd(w, listener, &odds[i]);
	end_listen(w, &listener);
}

static void an_answers_headers_are_capped(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer a = ANSWER_INIT;
	auto_frame f = FRAME_INIT;
	rf_auto(buf) b = RF_BUF_INIT;
	rf_auto(buf) big = RF_BUF_INIT;

	ask(w, "/a.B/C", RF_LIT("x"), &a);
	auto_raw r = raw_accept(w, listener);
	expect_request(&r, &f);
	for (int i = 0; i < 9000; i++)
		rf_buf_add_c(&big, 'x');
	add_header(&b, ":status", RF_LIT("200"));
	add_header(&b, "grpc-message", rf_buf_str(&big));
	raw_frame(&r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, f.id, rf_buf_str(&b));
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, RF_TOO_LARGE);
	raw_expect(&r, NGHTTP2_RST_STREAM, &f);
	end_listen(w, &listener);
}

static void a_reset_call_is_an_error_by_its_reason(void **state)
{
	static const struct {
		uint32_t reason;
		int code;
	} cases[] = { { NGHTTP2_CANCEL, RF_UNAVAILABLE },
		      { NGHTTP2_ENHANCE_YOUR_CALM, RF_EXHAUSTED },
		      { NGHTTP2_NO_ERROR, RF_INTERNAL },
		      { NGHTTP2_INTERNAL_ERROR, RF_INTERNAL } };
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer first = ANSWER_INIT;
	auto_frame f = FRAME_INIT;

	ask(w, "/a.B/C", RF_LIT("x"), &first);
	auto_raw r = raw_accept(w, listener);
	answer_well(&r, expect_request(&r, &f), RF_LIT("x"));
	wait_for(w, first.calls == 1);
	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		auto_answer a = ANSWER_INIT;

		ask(w, "/a.B/C", RF_LIT("x"), &a);
		raw_u32_frame(&r, NGHTTP2_RST_STREAM, expect_request(&r, &f), cases[i].reason);
		wait_for(w, a.calls == 1);
		assert_int_equal(a.code, cases[i].code);
	}
	end_listen(w, &listener);
}

static void a_refused_call_is_tried_once_more(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;
	auto_frame f = FRAME_INIT;

	ask(w, "/a.B/C", RF_LIT("x"), &a);
	auto_raw r = raw_accept(w, listener);
	raw_u32_frame(&r, NGHTTP2_RST_STREAM, expect_request(&r, &f), NGHTTP2_REFUSED_STREAM);
	answer_well(&r, expect_request(&r, &f), RF_LIT("now"));
	wait_for(w, a.calls == 1);
	assert_string_equal(a.body.p, "now");

	ask(w, "/a.B/C", RF_LIT("x"), &b);
	for (int i = 0; i < 2; i++)
		raw_u32_frame(&r, NGHTTP2_RST_STREAM, expect_request(&r, &f),
			      NGHTTP2_REFUSED_STREAM);
	wait_for(w, b.calls == 1);
	assert_int_equal(b.code, RF_UNAVAILABLE);
	end_listen(w, &listener);
}

static void a_goaway_moves_what_was_not_begun(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer begun = ANSWER_INIT, moved = ANSWER_INIT, later = ANSWER_INIT;
	auto_frame f = FRAME_INIT;

	ask(w, "/a.B/Begun", RF_LIT("x"), &begun);
	auto_raw old = raw_accept(w, listener);
	assert_int_equal(expect_request(&old, &f), 1);
	ask(w, "/a.B/Moved", RF_LIT("x"), &moved);
	assert_int_equal(expect_request(&old, &f), 3);
	raw_frame(&old, NGHTTP2_GOAWAY, 0, 0, RF_LIT("\0\0\0\1\0\0\0\0")); /* up to stream 1 */
	auto_raw new = raw_accept(w, listener);
	answer_well(&new, expect_request(&new, &f), RF_LIT("on the new one"));
	assert_true(has(&f.payload, "/a.B/Moved"));
	wait_for(w, moved.calls == 1);
	assert_string_equal(moved.body.p, "on the new one");

	ask(w, "/a.B/Later", RF_LIT("x"), &later);
	answer_well(&new, expect_request(&new, &f), RF_LIT("here too"));
	wait_for(w, later.calls == 1);
	assert_int_equal(begun.calls, 0);
	answer_well(&old, 1, RF_LIT("on the old one"));
	wait_for(w, begun.calls == 1);
	assert_string_equal(begun.body.p, "on the old one");
	raw_drain(&old); /* the client is done with it */
	end_listen(w, &listener);
}

static void a_server_that_dies_in_a_call_is_unavailable(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_frame f = FRAME_INIT;

	for (int part = 0; part < 3; part++) {
		auto_answer a = ANSWER_INIT;

		ask(w, "/a.B/C", RF_LIT("x"), &a);
		auto_raw r = raw_accept(w, listener);
		expect_request(&r, &f);
		if (part > 0)
			answer_headers(&r, f.id, "200", "application/grpc");
		if (part > 1)
			raw_send(&r, RF_LIT("\0\0\x9\0\0\0\0\0\1\0\0")); /* half a frame */
		close(r.fd);
		r.fd = -1;
		wait_for(w, a.calls == 1);
		assert_int_equal(a.code, RF_UNAVAILABLE);
		assert_non_null(strstr(a.error, "connection"));
	}
	end_listen(w, &listener);
}

/* The loop does not run between the end and the call, so the client finds out by writing. */
static void a_kept_connection_that_died_unseen_is_made_anew(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;
	auto_frame f = FRAME_INIT;

	ask(w, "/a.B/C", RF_LIT("x"), &a);
	auto_raw old = raw_accept(w, listener);
	answer_well(&old, expect_request(&old, &f), RF_LIT("one"));
	wait_for(w, a.calls == 1);
	rf_raw_done(&old);
	ask(w, "/a.B/C", RF_LIT("x"), &b);
	auto_raw new = raw_accept(w, listener);
	answer_well(&new, expect_request(&new, &f), RF_LIT("two"));
	wait_for(w, b.calls == 1);
	assert_string_equal(b.body.p, "two");
	end_listen(w, &listener);
}

static void a_server_that_never_speaks_times_out(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer a = ANSWER_INIT;

	rf_grpc_call_unary(w->client, "/a.B/C", RF_LIT("x"), 30, on_answer, &a);
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, RF_TIMEOUT);
	end_listen(w, &listener);
}

static void a_server_that_talks_nonsense_is_an_error(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer a = ANSWER_INIT;
	int fd = -1;

	ask(w, "/a.B/C", RF_LIT("x"), &a);
	wait_for(w, (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
	auto_raw r = raw_of(w, fd);
	raw_send(&r, RF_LIT("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"));
	wait_for(w, a.calls == 1);
	assert_true(a.code == RF_INTERNAL || a.code == RF_UNAVAILABLE);
	end_listen(w, &listener);
}

static void an_answer_in_the_middle_of_a_long_request_is_taken(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;
	auto_frame f = FRAME_INIT;
	rf_auto(buf) big = RF_BUF_INIT;

	fill(&big, MIB);
	ask(w, "/a.B/C", rf_buf_str(&big), &a);
	auto_raw r = raw_accept(w, listener);
	raw_expect(&r, NGHTTP2_HEADERS, &f);
	answer_headers(&r, f.id, "200", "application/grpc");
	answer_trailers(&r, f.id, "8");
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, RF_EXHAUSTED);
	raw_expect(&r, NGHTTP2_RST_STREAM, &f);
	assert_int_equal(f.payload.p[3], NGHTTP2_CANCEL);
	raw_u32_frame(&r, NGHTTP2_WINDOW_UPDATE, 0, MIB);
	ask(w, "/a.B/C", RF_LIT("x"), &b);
	answer_well(&r, expect_request(&r, &f), RF_LIT("goes on"));
	wait_for(w, b.calls == 1);
	assert_string_equal(b.body.p, "goes on");
	end_listen(w, &listener);
}

static void a_server_of_one_stream_is_asked_one_by_one(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	struct answer a[4];
	auto_answer first = ANSWER_INIT;
	auto_frame f = FRAME_INIT;

	ask(w, "/a.B/C", RF_LIT("x"), &first);
	auto_raw r = raw_accept(w, listener);
	send_settings(&r, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
	answer_well(&r, expect_request(&r, &f), RF_LIT("x"));
	wait_for(w, first.calls == 1);
	for (int i = 0; i < 4; i++) {
		a[i] = (struct answer)ANSWER_INIT;
		ask(w, "/a.B/C", RF_LIT("x"), &a[i]);
	}
	for (int i = 0; i < 4; i++) {
		int32_t id = expect_request(&r, &f);

		raw_frame(&r, NGHTTP2_PING, 0, 0, RF_LIT("another?"));
		raw_next(&r, &f);
		assert_int_equal(f.type, NGHTTP2_PING);
		answer_well(&r, id, RF_LIT("x"));
		wait_for(w, a[i].calls == 1);
		assert_int_equal(a[i].code, 0);
		rf_answer_done(&a[i]);
	}
	end_listen(w, &listener);
}

static void a_goaway_moves_what_waits_for_a_stream_too(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer begun = ANSWER_INIT, waits = ANSWER_INIT;
	auto_frame f = FRAME_INIT;

	ask(w, "/a.B/Begun", RF_LIT("x"), &begun);
	auto_raw old = raw_accept(w, listener);
	send_settings(&old, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
	assert_int_equal(expect_request(&old, &f), 1);
	raw_expect(&old, NGHTTP2_SETTINGS, &f); /* ours are acknowledged */
	raw_expect(&old, NGHTTP2_SETTINGS, &f);
	ask(w, "/a.B/Waits", RF_LIT("x"), &waits);
	raw_frame(&old, NGHTTP2_GOAWAY, 0, 0, RF_LIT("\x7f\xff\xff\xff\0\0\0\0"));
	auto_raw new = raw_accept(w, listener);
	answer_well(&new, expect_request(&new, &f), RF_LIT("moved"));
	assert_true(has(&f.payload, "/a.B/Waits"));
	wait_for(w, waits.calls == 1);
	assert_string_equal(waits.body.p, "moved");
	answer_well(&old, 1, RF_LIT("stayed"));
	wait_for(w, begun.calls == 1);
	assert_string_equal(begun.body.p, "stayed");
	end_listen(w, &listener);
}

/* Cancelled while it still waits for its turn: HTTP/2 knows of it, the server does not. */
static void a_call_that_waits_for_a_stream_can_time_out(void **state)
{
	struct world *w = *state;
	int listener = raw_listen(w);
	auto_answer first = ANSWER_INIT, second = ANSWER_INIT, third = ANSWER_INIT;
	auto_frame f = FRAME_INIT;
	int32_t id;

	ask(w, "/a.B/C", RF_LIT("x"), &first);
	auto_raw r = raw_accept(w, listener);
	send_settings(&r, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
	id = expect_request(&r, &f);
	raw_expect(&r, NGHTTP2_SETTINGS, &f); /* ours are acknowledged */
	raw_expect(&r, NGHTTP2_SETTINGS, &f);
	rf_grpc_call_unary(w->client, "/a.B/C", RF_LIT("x"), 30, on_answer, &second);
	wait_for(w, second.calls == 1);
	assert_int_equal(second.code, RF_TIMEOUT);
	answer_well(&r, id, RF_LIT("x"));
	wait_for(w, first.calls == 1);
	ask(w, "/a.B/C", RF_LIT("x"), &third);
	answer_well(&r, expect_request(&r, &f), RF_LIT("y"));
	wait_for(w, third.calls == 1);
	assert_string_equal(third.body.p, "y");
	end_listen(w, &listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_is_headers_data_and_trailers),
		TEST(settings_and_pings_are_answered),
		TEST(a_stream_of_a_thousand_messages_keeps_its_order),
		TEST(a_stream_goes_on_as_long_as_its_handler_likes),
		TEST(a_wrong_content_type_is_answered_415),
		TEST(a_get_is_answered_405),
		TEST(an_unknown_method_is_unimplemented_before_its_message_comes),
		TEST(what_is_not_one_message_is_an_error_and_no_hang),
		TEST(headers_alone_are_no_request),
		TEST(a_request_may_end_with_trailers),
		TEST(headers_over_8_kib_are_refused),
		TEST(headers_without_end_end_the_connection),
		TEST(a_request_may_come_byte_by_byte),
		TEST(a_message_may_come_in_frames_of_one_byte),
		TEST(half_a_frame_and_an_end_leave_nothing),
		TEST(what_is_not_http2_ends_the_connection),
		TEST(a_reset_cancels_one_call_and_no_other),
		TEST(a_reset_in_a_half_sent_request_reaches_no_handler),
		TEST(calls_go_on_after_a_peers_goaway),
		TEST(a_peer_that_vanishes_cancels_its_calls),
		TEST(a_closing_server_says_goaway),
		TEST(no_handler_is_called_after_the_close),
		TEST(a_deadline_cancels_the_call_and_tells_the_peer),
		TEST(a_deadline_in_an_answer_resets_it),
		TEST(a_deadline_passes_in_a_half_sent_request_too),
		TEST(a_timeout_that_is_none_is_refused),
		TEST(streams_past_the_limit_are_refused),
		TEST(connections_past_the_limit_are_closed),
		TEST(an_answer_waits_for_the_peers_window),
		TEST(a_slow_reader_gets_all_of_a_stream),
		TEST(a_peer_that_takes_nothing_is_cancelled),
		TEST(answers_that_pile_up_on_a_connection_are_reset),
		TEST(half_sent_messages_are_held_up_to_a_limit),
		TEST(pings_nobody_takes_the_answers_of_end_the_connection),
		TEST(calls_begun_and_reset_without_end_are_stopped),
		TEST(a_half_sent_request_ends_the_connection),
		TEST(the_head_of_a_frame_is_a_half_sent_request_too),
		TEST(a_connection_that_says_nothing_is_ended),
		TEST(an_idle_connection_and_an_open_stream_are_kept),
		TEST(a_peer_that_reads_nothing_ends_its_connection),
		TEST(a_request_has_the_form_of_grpc),
		TEST(odd_answers_are_errors),
		TEST(an_answers_headers_are_capped),
		TEST(a_reset_call_is_an_error_by_its_reason),
		TEST(a_refused_call_is_tried_once_more),
		TEST(a_goaway_moves_what_was_not_begun),
		TEST(a_server_that_dies_in_a_call_is_unavailable),
		TEST(a_kept_connection_that_died_unseen_is_made_anew),
		TEST(a_server_that_never_speaks_times_out),
		TEST(a_server_that_talks_nonsense_is_an_error),
		TEST(an_answer_in_the_middle_of_a_long_request_is_taken),
		TEST(a_server_of_one_stream_is_asked_one_by_one),
		TEST(a_goaway_moves_what_waits_for_a_stream_too),
		TEST(a_call_that_waits_for_a_stream_can_time_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
