/* The server against clients that send raw bytes, slowly, wrongly or too many. */
#include "net/test_server.h"

/* --- raw bytes to a plain server -------------------------------------------------------------- */

static void two_pipelined_requests_are_answered_in_order(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;
	const char *one, *two;

	raw_send(fd, "GET /later/one HTTP/1.1\r\nHost: x\r\n\r\n"
		     "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ntwo");
	wait_for(w, raw_has(fd, &b, "two"));
	one = strstr(b.p, "/later/one");
	two = strstr(b.p, "two");
	assert_true(one != NULL && one < two);
	assert_int_equal(w->handled, 2);
}

static void a_thousand_pipelined_requests_are_all_answered(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	for (int i = 0; i < 1000; i++)
		raw_send(fd, i % 3 ? "GET /query?label=x HTTP/1.1\r\nHost: x\r\n\r\n"
				   : "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
	raw_send(fd, "GET /query?label=theend HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, raw_has(fd, &b, "\r\n\r\ntheend"));
	assert_int_equal(w->handled, 1001);
}

static void answers_nobody_reads_are_not_made(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	for (int i = 0; i < 20; i++)
		raw_send(fd, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, w->handled >= 1);
	for (int i = 0; i < 100; i++)
		uv_run(&w->loop, UV_RUN_NOWAIT);
	assert_true(w->handled < 5);
	wait_for(w, (rf_buf_clear(&b), raw_receive(fd, &b), w->handled == 20));
}

static void expect_continue_is_answered_before_the_body(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
		     "Transfer-Encoding: chunked\r\n\r\n");
	wait_for(w, raw_has(fd, &b, "HTTP/1.1 100 Continue\r\n\r\n"));
	raw_send(fd, "3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nTrailer: x\r\n\r\n");
	wait_for(w, raw_has(fd, &b, "\r\n\r\nabcde"));
}

static void connection_close_is_honoured(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, "GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	wait_for(w, !raw_receive(fd, &b));
	assert_non_null(strstr(b.p, "Connection: close\r\n"));
	assert_non_null(strstr(b.p, "/later"));
}

static void expect_answer(struct world *w, const char *request, const char *status)
{
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, request);
	wait_for(w, !raw_receive(fd, &b));
	if (strncmp(b.p, status, strlen(status)) != 0)
		fail_msg("to %s the answer is %s, not %s", request, b.p, status);
	assert_non_null(strstr(b.p, "Connection: close\r\n"));
}

static void a_refused_client_that_goes_on_sending_is_not_reset(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, "nonsense\r\n\r\n");
	wait_for(w, !raw_receive(fd, &b));
	/* To a closed socket the first would bring a reset, and the second fail. */
	raw_send(fd, "and more of it");
	raw_send(fd, "and more of it");
	assert_int_equal(strncmp(b.p, "HTTP/1.1 400", 12), 0);
}

static void bad_requests_are_answered_and_the_connection_ends(void **state)
{
	struct world *w = *state;

	expect_answer(w, "nonsense\r\n\r\n", "HTTP/1.1 400");
	expect_answer(w, "GET / HTTP/1.0\r\nHost: x\r\n\r\n", "HTTP/1.1 505");
	expect_answer(w, "GET /a/../b HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400");
	expect_answer(w, "GET /a/%2e%2E/b HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400");
	expect_answer(w, "GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400");
	expect_answer(w, "GET /a%2 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400");
	expect_answer(w, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
		      "HTTP/1.1 413");
	expect_answer(w,
		      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
		      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		      "HTTP/1.1 400");
	expect_answer(w, "GET / HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n", "HTTP/1.1 417");
	assert_int_equal(w->handled, 0);
}

static void a_header_cannot_be_broken_by_its_value(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, "GET /query?label=a%0d%0aSet-Cookie:x HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, raw_has(fd, &b, "Set-Cookie"));
	assert_non_null(strstr(b.p, "X-Label: a  Set-Cookie:x\r\n"));
}

static void a_client_that_vanishes_in_a_stream_is_told_to_the_handler(void **state)
{
	struct world *w = *state;
	int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, "GET /hold-stream HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, raw_has(fd, &b, "chunked"));
	rf_http_stream_write(w->held, RF_LIT("some"));
	close(fd);
	wait_for(w, w->closed == 1);
}

static void a_slow_reader_shows_as_pending_bytes(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	char block[4096];
	rf_auto(buf) b = RF_BUF_INIT;
	size_t written = 0;

	memset(block, 'x', sizeof(block));
	raw_send(fd, "GET /hold-stream HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, w->held != NULL);
	wait_for(w, w->drains > 0);
	while (rf_http_stream_pending(w->held) < 256 * 1024) {
		rf_http_stream_write(w->held, rf_str_n(block, sizeof(block)));
		written += sizeof(block);
		uv_run(&w->loop, UV_RUN_NOWAIT);
		assert_true(written < 64u * 1024 * 1024);
	}
	w->drains = 0;
	wait_for(w, (raw_receive(fd, &b), w->drains > 0));
	assert_int_equal(rf_http_stream_pending(w->held), 0);
	rf_http_stream_end(w->held);
	wait_for(w, raw_has(fd, &b, "\r\n0\r\n\r\n"));
	assert_true(b.n > written);
}

/* --- the impatient server --------------------------------------------------------------------- */

static void a_request_that_trickles_is_answered_408(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, "GET /echo HT");
	wait_for(w, !raw_receive(fd, &b));
	assert_int_equal(strncmp(b.p, "HTTP/1.1 408", 12), 0);
}

static void an_idle_connection_is_closed(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, "GET /query HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, raw_has(fd, &b, "absent"));
	wait_for(w, !raw_receive(fd, &b));
}

static void a_reader_that_takes_nothing_is_given_up(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	char block[4096];

	memset(block, 'x', sizeof(block));
	raw_send(fd, "GET /hold-stream HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, w->held != NULL);
	while (rf_http_stream_pending(w->held) < 64 * 1024) {
		rf_http_stream_write(w->held, rf_str_n(block, sizeof(block)));
		uv_run(&w->loop, UV_RUN_NOWAIT);
	}
	wait_for(w, w->closed == 1);
}

static void connections_past_a_cap_of_busy_ones_are_closed_at_once(void **state)
{
	struct world *w = *state;
	rf_auto_close int one = raw_connect(w);
	rf_auto_close int two = raw_connect(w);
	rf_auto_close int three = -1;
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(one, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
	raw_send(two, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, w->handled == 2);
	three = raw_connect(w);
	wait_for(w, !raw_receive(three, &b));
	assert_int_equal(b.n, 0);
}

static void when_full_the_longest_silent_makes_room(void **state)
{
	struct world *w = *state;
	rf_auto_close int silent = raw_connect(w);
	rf_auto_close int busy = raw_connect(w);
	rf_auto_close int newcomer = -1;
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(busy, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, w->handled == 1);
	newcomer = raw_connect(w);
	raw_send(newcomer, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_for(w, w->handled == 2);
	wait_for(w, !raw_receive(silent, &b));
	assert_int_equal(b.n, 0);
}

static void a_chunked_body_past_the_cap_is_answered_413(void **state)
{
	struct world *w = *state;
	rf_auto_close int fd = raw_connect(w);
	rf_auto(buf) b = RF_BUF_INIT;

	raw_send(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "3e9\r\n");
	wait_for(w, !raw_receive(fd, &b));
	assert_int_equal(strncmp(b.p, "HTTP/1.1 413", 12), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLAIN(a_slow_reader_shows_as_pending_bytes),
		PLAIN(two_pipelined_requests_are_answered_in_order),
		PLAIN(a_thousand_pipelined_requests_are_all_answered),
		PLAIN(answers_nobody_reads_are_not_made),
		PLAIN(expect_continue_is_answered_before_the_body),
		PLAIN(connection_close_is_honoured),
		PLAIN(a_refused_client_that_goes_on_sending_is_not_reset),
		PLAIN(bad_requests_are_answered_and_the_connection_ends),
		PLAIN(a_header_cannot_be_broken_by_its_value),
		PLAIN(a_client_that_vanishes_in_a_stream_is_told_to_the_handler),
		IMPATIENT(a_request_that_trickles_is_answered_408),
		IMPATIENT(an_idle_connection_is_closed),
		IMPATIENT(a_reader_that_takes_nothing_is_given_up),
		IMPATIENT(connections_past_a_cap_of_busy_ones_are_closed_at_once),
		IMPATIENT(when_full_the_longest_silent_makes_room),
		IMPATIENT(a_chunked_body_past_the_cap_is_answered_413),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
