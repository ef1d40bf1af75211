/* The client against servers that misbehave: each test plays the server with raw bytes. */
#include "net/test_world.h"

struct fake {
	struct world w;
	int listener;
	int conn; /* the connection last accepted */
	struct rf_buf in;
	uint16_t port;
};

static int setup(void **state)
{
	static struct fake fake;
	struct fake *f = &fake;
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(sa);
	struct rf_http_client_opts opts = { .host = RF_LIT("127.0.0.1") };

	memset(f, 0, sizeof(*f));
	world_init(&f->w);
	f->in = (struct rf_buf)RF_BUF_INIT;
	f->conn = -1;
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&sa, n), 0);
	assert_int_equal(listen(f->listener, 8), 0);
	assert_int_equal(getsockname(f->listener, (struct sockaddr *)&sa, &n), 0);
	f->port = opts.port = ntohs(sa.sin_port);
	f->w.client = rf_http_client_new(&f->w.loop, &opts);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fake *f = *state;

	close(f->listener);
	if (f->conn >= 0)
		close(f->conn);
	rf_buf_done(&f->in);
	world_done(&f->w);
	return 0;
}

static bool accepted(struct fake *f)
{
	int fd = accept(f->listener, NULL, NULL);

	if (fd < 0)
		return false;
	if (f->conn >= 0)
		close(f->conn);
	f->conn = fd;
	rf_buf_clear(&f->in);
	return true;
}

/* Waits for a whole head, then answers with the text. */
static void answer_with(struct fake *f, const char *text)
{
	rf_buf_clear(&f->in);
	wait_for(&f->w, raw_has(f->conn, &f->in, "\r\n\r\n"));
	raw_send(f->conn, text);
}

static void end_conn(struct fake *f)
{
	close(f->conn);
	f->conn = -1;
}

/* A call on a fresh connection; hang_up: the server closes behind its text. */
static void exchange(struct fake *f, const char *method, const char *text, bool hang_up,
		     struct answer *a)
{
	begin(f->w.client, method, "/x", RF_STR_EMPTY, a);
	wait_for(&f->w, accepted(f));
	answer_with(f, text);
	if (hang_up)
		end_conn(f);
	wait_for(&f->w, a->done);
}

static void an_answer_without_length_ends_with_the_connection(void **state)
{
	auto_answer a = ANSWER_INIT;

	exchange(*state, "GET", "HTTP/1.1 200 OK\r\n\r\nall of it", true, &a);
	assert_success(&a, 200);
	assert_string_equal(a.body.p, "all of it");
}

static void expect_error(struct fake *f, const char *text, bool hang_up)
{
	auto_answer a = ANSWER_INIT;

	exchange(f, "GET", text, hang_up, &a);
	if (a.code != RF_UNAVAILABLE)
		fail_msg("%s: code %d, status %d", text, a.code, a.status);
	assert_int_equal(a.calls, 1);
}

static void answers_cut_short_are_errors(void **state)
{
	expect_error(*state, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", true);
	expect_error(*state, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", true);
	expect_error(*state, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
		     true);
	expect_error(*state, "HTTP/1.1 200 OK\r\nX", true);
	expect_error(*state, "", true);
}

static void answers_that_are_not_http_are_errors(void **state)
{
	expect_error(*state, "SSH-2.0-OpenSSH\r\n\r\n", false);
	expect_error(*state, "HTTP/1.1 200 OK\nContent-Length: 0\n\n", false);
	expect_error(*state,
		     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		     false);
	expect_error(*state, "HTTP/1.1 101 Switching\r\n\r\n", false);
}

static void interim_answers_are_passed_over_but_not_without_end(void **state)
{
	struct fake *f = *state;
	rf_auto(buf) many = RF_BUF_INIT;
	auto_answer a = ANSWER_INIT;

	exchange(f, "GET",
		 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n"
		 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		 true, &a);
	assert_success(&a, 200);
	assert_string_equal(a.body.p, "ok");
	for (int i = 0; i < 20; i++)
		rf_buf_puts(&many, "HTTP/1.1 100 Continue\r\n\r\n");
	expect_error(f, many.p, false);
}

static void bytes_behind_an_answer_end_the_connection(void **state)
{
	struct fake *f = *state;
	rf_auto(buf) rest = RF_BUF_INIT;
	auto_answer a = ANSWER_INIT;

	exchange(f, "GET", "HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		 false, &a);
	assert_success(&a, 204);
	wait_for(&f->w, !raw_receive(f->conn, &rest));
	begin(f->w.client, "GET", "/y", RF_STR_EMPTY, &a);
	wait_for(&f->w, accepted(f)); /* a new one */
	answer_with(f, "HTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n");
	wait_for(&f->w, a.done);
	assert_success(&a, 201);
}

static void an_answer_nobody_asked_for_is_not_given_to_the_next_call(void **state)
{
	struct fake *f = *state;
	rf_auto(buf) rest = RF_BUF_INIT;
	auto_answer a = ANSWER_INIT;

	exchange(f, "GET", "HTTP/1.1 204 No\r\n\r\n", false, &a);
	raw_send(f->conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
	wait_for(&f->w, !raw_receive(f->conn, &rest));
	begin(f->w.client, "GET", "/y", RF_STR_EMPTY, &a);
	wait_for(&f->w, accepted(f));
	answer_with(f, "HTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n");
	wait_for(&f->w, a.done);
	assert_success(&a, 201);
}

/* Leaves a kept connection on which the next call goes out and which then dies unanswered. */
static void call_on_dying(struct fake *f, const char *method, struct answer *a)
{
	exchange(f, "GET", "HTTP/1.1 204 No\r\n\r\n", false, a);
	begin(f->w.client, method, "/again", RF_STR_EMPTY, a);
	rf_buf_clear(&f->in);
	wait_for(&f->w, raw_has(f->conn, &f->in, "/again"));
	end_conn(f);
}

static void get_is_tried_once_more_when_a_kept_connection_dies(void **state)
{
	struct fake *f = *state;
	auto_answer a = ANSWER_INIT;

	call_on_dying(f, "GET", &a);
	wait_for(&f->w, accepted(f));
	answer_with(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	wait_for(&f->w, a.done);
	assert_success(&a, 200);
	assert_int_equal(a.calls, 2); /* the first exchange's, and one for this */
}

static void a_second_death_is_an_error(void **state)
{
	struct fake *f = *state;
	auto_answer a = ANSWER_INIT;

	call_on_dying(f, "DELETE", &a);
	wait_for(&f->w, accepted(f));
	end_conn(f);
	wait_for(&f->w, a.done);
	assert_int_equal(a.code, RF_UNAVAILABLE);
	assert_false(accepted(f));
}

static void post_is_never_sent_twice(void **state)
{
	struct fake *f = *state;
	auto_answer a = ANSWER_INIT;

	call_on_dying(f, "POST", &a);
	wait_for(&f->w, a.done);
	assert_int_equal(a.code, RF_UNAVAILABLE);
	assert_false(accepted(f));
}

static void get_is_not_repeated_once_an_answer_began(void **state)
{
	struct fake *f = *state;
	auto_answer a = ANSWER_INIT;

	exchange(f, "GET", "HTTP/1.1 204 No\r\n\r\n", false, &a);
	begin(f->w.client, "GET", "/again", RF_STR_EMPTY, &a);
	answer_with(f, "HTTP/1.1 2");
	end_conn(f);
	wait_for(&f->w, a.done);
	assert_int_equal(a.code, RF_UNAVAILABLE);
	assert_false(accepted(f));
}

static void a_request_says_what_it_should(void **state)
{
	struct fake *f = *state;
	const struct rf_http_header extra = { RF_LIT("X-Extra"), RF_LIT("1") };
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("POST"),
					  .target = RF_LIT("/p?q"),
					  .content_type = RF_LIT("application/json"),
					  .accept = RF_LIT("text/plain"),
					  .headers = &extra,
					  .n_headers = 1,
					  .body = RF_LIT("{}"),
					  .on_done = on_answer,
					  .ctx = &a };
	char host[64];

	rf_http_call(f->w.client, &opts);
	wait_for(&f->w, accepted(f));
	wait_for(&f->w, raw_has(f->conn, &f->in, "{}"));
	snprintf(host, sizeof(host), "\r\nHost: 127.0.0.1:%u\r\n", f->port);
	assert_int_equal(strncmp(f->in.p, "POST /p?q HTTP/1.1\r\n", 20), 0);
	assert_non_null(strstr(f->in.p, host));
	assert_non_null(strstr(f->in.p, "\r\nAccept: text/plain\r\n"));
	assert_non_null(strstr(f->in.p, "\r\nContent-Type: application/json\r\n"));
	assert_non_null(strstr(f->in.p, "\r\nContent-Length: 2\r\n"));
	assert_non_null(strstr(f->in.p, "\r\nX-Extra: 1\r\n"));
	assert_null(strstr(f->in.p, "Authorization"));
	raw_send(f->conn, "HTTP/1.1 204 No\r\n\r\n");
	wait_for(&f->w, a.done);
	assert_success(&a, 204);
}

static void a_caller_may_not_write_framing_headers(void **state)
{
	struct fake *f = *state;
	const struct rf_http_header extra = { RF_LIT("transfer-Encoding"), RF_LIT("chunked") };
	auto_answer a = ANSWER_INIT;
	struct rf_http_call_opts opts = { .method = RF_LIT("GET"),
					  .target = RF_LIT("/"),
					  .headers = &extra,
					  .n_headers = 1,
					  .on_done = on_answer,
					  .ctx = &a };

	rf_http_call(f->w.client, &opts);
	wait_for(&f->w, a.done);
	assert_int_equal(a.code, RF_INVALID);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(an_answer_without_length_ends_with_the_connection),
		T(answers_cut_short_are_errors),
		T(answers_that_are_not_http_are_errors),
		T(interim_answers_are_passed_over_but_not_without_end),
		T(bytes_behind_an_answer_end_the_connection),
		T(an_answer_nobody_asked_for_is_not_given_to_the_next_call),
		T(get_is_tried_once_more_when_a_kept_connection_dies),
		T(a_second_death_is_an_error),
		T(post_is_never_sent_twice),
		T(get_is_not_repeated_once_an_answer_began),
		T(a_request_says_what_it_should),
		T(a_caller_may_not_write_framing_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
