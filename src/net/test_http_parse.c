#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "net/http1_parse.h"

/* What a parser said, as text: "GET /x [a=b]<body>." or "!400". */
struct told {
	struct rf_buf text;
	int status;
	struct rf_str rest;
};

static void tell_head(struct told *t, const struct rf_h1 *p)
{
	if (p->response)
		rf_buf_printf(&t->text, "%d", p->code);
	else
		rf_buf_printf(&t->text, "%.*s %.*s", RF_STR(p->method), RF_STR(p->target));
	rf_buf_puts(&t->text, " [");
	for (size_t i = 0; i < p->n_headers; i++)
		rf_buf_printf(&t->text, "%s%.*s=%.*s", i > 0 ? "|" : "", RF_STR(p->headers[i].name),
			      RF_STR(p->headers[i].value));
	rf_buf_printf(&t->text, "]%s<", p->keep_alive ? "" : "close");
}

/* Feeds one piece; true once the first message ended or failed. */
static bool feed(struct rf_h1 *p, struct rf_str *input, struct told *t)
{
	for (;;) {
		switch (rf_h1_next(p, input)) {
		case RF_H1_MORE:
			assert_int_equal(input->n, 0);
			return false;
		case RF_H1_HEAD:
			tell_head(t, p);
			break;
		case RF_H1_DATA:
			assert_true(p->data.n > 0);
			rf_buf_add(&t->text, p->data);
			break;
		case RF_H1_END:
			rf_buf_puts(&t->text, ">.");
			return true;
		case RF_H1_FAIL:
			rf_buf_printf(&t->text, "!%d", p->status);
			assert_non_null(p->why);
			return true;
		}
	}
}

/* The message given in two pieces (or, with step, a few bytes at a time). */
static void parse_split(struct rf_str input, bool response, uint64_t body_max, size_t at,
			size_t step, struct told *t)
{
	struct rf_h1 p;
	bool over = false;

	rf_h1_init(&p, response, body_max);
	t->text = (struct rf_buf)RF_BUF_INIT;
	while (!over && input.n > 0) {
		size_t n = RF_MIN(at > 0 ? at : step, input.n);
		/* A copy of its own, so that reading past the piece is seen by the sanitizer. */
		char *copy = malloc(n);
		struct rf_str piece;

		memcpy(copy, input.p, n);
		piece = rf_str_n(copy, n);
		over = feed(&p, &piece, t);
		input = rf_str_skip(input, n - piece.n);
		free(copy);
		at = 0;
	}
	t->rest = input;
	rf_h1_done(&p);
}

/* Every split gives the same. */
static void expect_kind(struct rf_str input, bool response, uint64_t body_max, const char *want)
{
	for (size_t at = 0; at < input.n; at++) {
		struct told t = { 0 };

		parse_split(input, response, body_max, at, at == 0 ? 1 : input.n, &t);
		if (!rf_str_is(rf_buf_str(&t.text), want))
			fail_msg("%s split at %zu: got %s, want %s", input.p, at, t.text.p, want);
		rf_buf_done(&t.text);
	}
}

#define request(text, want) expect_kind(RF_LIT(text), false, 0, want)
#define response(text, want) expect_kind(RF_LIT(text), true, 0, want)
#define H "GET / HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED H "Transfer-Encoding: chunked\r\n\r\n"

static void requests_are_read_whole_however_they_are_split(void **state)
{
	request("GET /api?x=1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "GET /api?x=1 [Host=a:1]<>.");
	request("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		"POST / [Host=a|Content-Length=5]<hello>.");
	request("GET / HTTP/1.1\r\nhOST:x\r\nA: \t b c \t\r\nE:\r\n\r\n",
		"GET / [hOST=x|A=b c|E=]<>.");
	request(H "Connection: Keep-Alive, Close\r\n\r\n",
		"GET / [Host=x|Connection=Keep-Alive, Close]close<>.");
}

static void chunks_are_joined(void **state)
{
	request(CHUNKED "3\r\nabc\r\n0a;x=\"y\"\r\n0123456789\r\n0\r\n\r\n",
		"GET / [Host=x|Transfer-Encoding=chunked]<abc0123456789>.");
	request(CHUNKED "1\r\nz\r\n000\r\nT: v\r\nU: w\r\n\r\n",
		"GET / [Host=x|Transfer-Encoding=chunked]<z>.");
	request(H "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
		"GET / [Host=x|Transfer-Encoding=CHUNKED]<>.");
}

static void ambiguous_framing_is_refused(void **state)
{
	request(H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "!400");
	request(H "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", "!400");
	request(H "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", "!400");
	request(H "Content-Length: 3\r\ncontent-length: 3\r\n\r\n", "!400");
	request(H "Content-Length: 3, 3\r\n\r\n", "!400");
	request(H "Content-Length: +3\r\n\r\n", "!400");
	request(H "Content-Length: -3\r\n\r\n", "!400");
	request(H "Content-Length: 0x3\r\n\r\n", "!400");
	request(H "Content-Length:\r\n\r\n", "!400");
	request(H "Content-Length: 3 4\r\n\r\n", "!400");
	request(H "Content-Length: 18446744073709551617\r\n\r\n", "!400");
	request(H "Transfer-Encoding: identity\r\n\r\n", "!400");
	request(H "Transfer-Encoding: gzip, chunked\r\n\r\n", "!400");
	request(H "Transfer-Encoding: chunked, chunked\r\n\r\n", "!400");
	request(H "Transfer-Encoding: xchunked\r\n\r\n", "!400");
	request(H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "!400");
	request(H "Transfer-Encoding:\v chunked\r\n\r\n", "!400");
}

static void malformed_lines_are_refused(void **state)
{
	request("GET / HTTP/1.1\nHost: x\n\n", "!400");
	request("GET / HTTP/1.1\r\nHost: x\n\r\n", "!400");
	request("GET / HTTP/1.1\rHost: x\r\n\r\n", "!400");
	request("GET / HTTP/1.1\r\r\nHost: x\r\n\r\n", "!400");
	request(H "A: b\rc\r\n\r\n", "!400");
	request(H "A: b\r\n folded\r\n\r\n", "!400");
	request(H "A : b\r\n\r\n", "!400");
	request(H ": b\r\n\r\n", "!400");
	request(H "A\r\n\r\n", "!400");
	request(H "A b: c\r\n\r\n", "!400");
	request(H "A: b\0c\r\n\r\n", "!400");
	request(H "A: b\x01\r\n\r\n", "!400");
	request(H "A: b\x7f\r\n\r\n", "!400");
	request(H "\x80: b\r\n\r\n", "!400");
	request("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "!400");
	request(" GET / HTTP/1.1\r\nHost: x\r\n\r\n", "!400");
	request("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "!400");
	request("GET / HTTP/1.1 \r\nHost: x\r\n\r\n", "!400");
	request("GET /\r\nHost: x\r\n\r\n", "!400");
	request("G(T / HTTP/1.1\r\nHost: x\r\n\r\n", "!400");
	request("GET / http/1.1\r\nHost: x\r\n\r\n", "!400");
}

static void only_http_1_1_and_origin_form_are_served(void **state)
{
	request("GET / HTTP/1.0\r\nHost: x\r\n\r\n", "!505");
	request("GET / HTTP/2.0\r\nHost: x\r\n\r\n", "!505");
	request("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "!400");
	request("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", "!400");
	request("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "!400");
	request("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", "!400");
	request("GET /a\x80 HTTP/1.1\r\nHost: x\r\n\r\n", "!400");
	request("GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", "!400");
}

static void a_request_has_exactly_one_host(void **state)
{
	request("GET / HTTP/1.1\r\n\r\n", "!400");
	request("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "!400");
	request("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "!400");
	request("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", "!400");
}

#define C "GET / [Host=x|Transfer-Encoding=chunked]<"
static void bad_chunks_are_refused(void **state)
{
	request(CHUNKED "\r\n", C "!400");
	request(CHUNKED "g\r\n", C "!400");
	request(CHUNKED "-1\r\n", C "!400");
	request(CHUNKED "0x1\r\na\r\n", C "!400");
	request(CHUNKED " 1\r\na\r\n", C "!400");
	request(CHUNKED "1 \r\na\r\n", C "!400");
	request(CHUNKED "1\na\r\n", C "!400");
	request(CHUNKED "1\r\nab\r\n", C "a!400");
	request(CHUNKED "1\r\na\n", C "a!400");
	request(CHUNKED "1;a\x01\r\na\r\n", C "!400");
	request(CHUNKED "1;a\nb\r\na\r\n", C "!400");
	request(CHUNKED "fffffffffffffffff\r\n", C "!400");
	request(CHUNKED "0\r\n folded\r\n\r\n", C "!400");
	request(CHUNKED "0\r\nA: b\n\r\n", C "!400");
	request(CHUNKED "0\r\nA: b\0\r\n\r\n", C "!400");
}

static void a_body_past_its_cap_is_refused_by_length_and_by_chunks(void **state)
{
	struct told t = { 0 };

	expect_kind(RF_LIT(H "Content-Length: 11\r\n\r\n"), false, 10, "!413");
	expect_kind(RF_LIT(H "Content-Length: 10\r\n\r\n0123456789"), false, 10,
		    "GET / [Host=x|Content-Length=10]<0123456789>.");
	expect_kind(RF_LIT(CHUNKED "6\r\n012345\r\n5\r\n"), false, 10, C "012345!413");
	expect_kind(RF_LIT(CHUNKED "fffffffffffffff\r\n"), false, 10, C "!413");
	expect_kind(RF_LIT("HTTP/1.1 200 OK\r\n\r\n0123456789"), true, 10, "200 []<0123456789");
	parse_split(RF_LIT("HTTP/1.1 200 OK\r\n\r\n01234567890"), true, 10, 0, 1, &t);
	assert_string_equal(t.text.p, "200 []<0123456789!413");
	rf_buf_done(&t.text);
}

/* Splits matter little here; size does. */
static void expect_long(const char *first, const char *unit, size_t times, const char *last,
			const char *want_end)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct told t = { 0 };

	rf_buf_puts(&b, first);
	for (size_t i = 0; i < times; i++)
		rf_buf_puts(&b, unit);
	rf_buf_puts(&b, last);
	parse_split(rf_buf_str(&b), false, 0, 0, 1000, &t);
	if (!rf_str_ends(rf_buf_str(&t.text), rf_str(want_end)))
		fail_msg("%s: got %s", first, t.text.p);
	rf_buf_done(&t.text);
}

static void heads_extensions_and_trailers_are_capped(void **state)
{
	expect_long(H, "A: b\r\n", 99, "\r\n", ">.");
	expect_long(H, "A: b\r\n", 100, "\r\n", "!431");
	expect_long(H "A: ", "x", 32000, "\r\n\r\n", ">.");
	expect_long(H "A: ", "x", 33000, "\r\n\r\n", "!431");
	expect_long("GET /", "x", 40000, "", "!431");
	expect_long(CHUNKED "1;", "x", 257, "\r\na\r\n0\r\n\r\n", "!400");
	expect_long(CHUNKED "1;", "x", 256, "\r\na\r\n0\r\n\r\n", ">.");
	expect_long(CHUNKED "0\r\n", "A: b\r\n", 6000, "\r\n", "!431");
	expect_long(CHUNKED, "1\r\na\r\n", 5000, "0\r\n\r\n", ">.");
}

static void responses_are_read_by_length_chunks_or_to_the_end(void **state)
{
	response("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "200 [Content-Length=2]<hi>.");
	response("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200 [Content-Length=0]<>.");
	response("HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", "404 [Content-Length=0]<>.");
	response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		 "200 [Transfer-Encoding=chunked]<hi>.");
	response("HTTP/1.1 204 No Content\r\n\r\n", "204 []<>.");
	response("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
		 "304 [Content-Length=5]<>.");
	response("HTTP/1.1 100 Continue\r\n\r\n", "100 []<>.");
	response("HTTP/1.0 200 OK\r\n\r\nabc", "200 []close<abc");
	response("HTTP/1.1 20 OK\r\n\r\n", "!400");
	response("HTTP/1.1 2000 OK\r\n\r\n", "!400");
	response("HTTP/1.1 600 OK\r\n\r\n", "!400");
	response("HTTP/2 200 OK\r\n\r\n", "!400");
	response("HTTP/1.1 200 O\x01K\r\n\r\n", "!400");
	response("SSH-2.0-x\r\n\r\n", "!400");
}

static void the_end_of_the_stream_completes_only_what_has_no_length(void **state)
{
	static const struct {
		const char *text;
		bool complete;
	} cases[] = {
		{ "HTTP/1.1 200 OK\r\n\r\nabc", true },
		{ "HTTP/1.1 200 OK\r\n\r\n", true },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", false },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", false },
		{ "HTTP/1.1 200 OK\r\n", false },
		{ "", false },
	};

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		struct rf_str input = rf_str(cases[i].text);
		struct told t = { .text = RF_BUF_INIT };
		struct rf_h1 p;

		rf_h1_init(&p, true, 0);
		feed(&p, &input, &t);
		assert_int_equal(rf_h1_eof(&p), cases[i].complete);
		rf_buf_done(&t.text);
		rf_h1_done(&p);
	}
}

static void the_answer_to_head_has_no_body(void **state)
{
	struct rf_str input = RF_LIT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1");
	struct told t = { .text = RF_BUF_INIT };
	struct rf_h1 p;

	rf_h1_init(&p, true, 2);
	p.to_head = true;
	assert_true(feed(&p, &input, &t));
	assert_string_equal(t.text.p, "200 [Content-Length=5]<>.");
	assert_true(rf_str_is(input, "HTTP/1.1"));
	rf_buf_done(&t.text);
	rf_h1_done(&p);
}

static void messages_follow_each_other(void **state)
{
	struct rf_str input = RF_LIT("POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"
				     "GET /2 HTTP/1.1\r\nHost: x\r\n\r\nGET /3 HTTP/1.1\r\n");
	struct told t = { .text = RF_BUF_INIT };
	struct rf_h1 p;

	rf_h1_init(&p, false, 0);
	for (int i = 0; i < 2; i++) {
		assert_true(feed(&p, &input, &t));
		rf_h1_reset(&p);
		assert_false(rf_h1_started(&p));
	}
	assert_false(feed(&p, &input, &t));
	assert_true(rf_h1_started(&p));
	assert_string_equal(t.text.p, "POST /1 [Host=x|Content-Length=1]<a>.GET /2 [Host=x]<>.");
	rf_buf_done(&t.text);
	rf_h1_done(&p);
}

static void paths_are_decoded_and_tricks_refused(void **state)
{
	static const char *const bad[] = { "/a/../b", "/..",  "/%2e%2e/",   "/a/%2E./b", "/.",
					   "/a/./b",  "/%",   "/%1",	    "/%zz",	 "/a%00",
					   "/a%0ab",  "/%7f", "/a%2f..%2fb" };
	struct rf_arena a = RF_ARENA_INIT;
	struct rf_str got = RF_STR_EMPTY;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_h1_decode_path(&a, RF_LIT("/a%20b+%C3%A4/..c/d.."), &got, &err), 0);
	assert_true(rf_str_is(got, "/a b+\xc3\xa4/..c/d.."));
	for (size_t i = 0; i < RF_COUNT(bad); i++)
		assert_int_equal(rf_h1_decode_path(&a, rf_str(bad[i]), &got, &err),
				 -RF_BAD_REQUEST);
	assert_true(rf_h1_decode_query(&a, RF_LIT("a+b%2B"), &got));
	assert_true(rf_str_is(got, "a b+"));
	assert_false(rf_h1_decode_query(&a, RF_LIT("%4"), &got));
	rf_arena_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_read_whole_however_they_are_split),
		cmocka_unit_test(chunks_are_joined),
		cmocka_unit_test(ambiguous_framing_is_refused),
		cmocka_unit_test(malformed_lines_are_refused),
		cmocka_unit_test(only_http_1_1_and_origin_form_are_served),
		cmocka_unit_test(a_request_has_exactly_one_host),
		cmocka_unit_test(bad_chunks_are_refused),
		cmocka_unit_test(a_body_past_its_cap_is_refused_by_length_and_by_chunks),
		cmocka_unit_test(heads_extensions_and_trailers_are_capped),
		cmocka_unit_test(responses_are_read_by_length_chunks_or_to_the_end),
		cmocka_unit_test(the_end_of_the_stream_completes_only_what_has_no_length),
		cmocka_unit_test(the_answer_to_head_has_no_body),
		cmocka_unit_test(messages_follow_each_other),
		cmocka_unit_test(paths_are_decoded_and_tricks_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
