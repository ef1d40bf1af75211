/* libFuzzer target over the HTTP parser. The first byte says request or response and the body cap,
 * the second how the rest is cut into pieces. The same bytes in one piece and in many must give the
 * same events, and whatever was accepted must hold what the header promises.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined -std=gnu17 -D_GNU_SOURCE -Isrc \
 *		test/fuzz/fuzz_http.c src/net/http1_parse.c src/base/[a-z]*.c (without test_base.c)
*/
#include <stdio.h>

#include "net/http1_parse.h"

static void check_head(const struct rf_h1 *p)
{
	rf_assert(p->n_headers <= RF_H1_HEADERS_MAX);
	for (size_t i = 0; i < p->n_headers; i++) {
		rf_assert(rf_h1_is_token(p->headers[i].name));
		rf_assert(rf_h1_is_value(p->headers[i].value));
	}
	if (p->response) {
		rf_assert(p->code >= 100 && p->code <= 599);
	} else {
		rf_assert(rf_h1_is_token(p->method) && rf_h1_is_target(p->target));
	}
}

static void check_path(const struct rf_h1 *p, struct rf_buf *log)
{
	struct rf_arena a = RF_ARENA_INIT;
	struct rf_str path = RF_STR_EMPTY, rest = p->target, out = RF_STR_EMPTY;

	rf_str_cut(&rest, '?', &path);
	if (rf_h1_decode_path(&a, path, &out, NULL) == 0) {
		rf_assert(memchr(out.p, '\0', out.n) == NULL);
		rf_assert(!rf_str_contains(out, RF_LIT("/../")));
		rf_buf_add(log, out);
	}
	rf_h1_decode_query(&a, rest, &out);
	rf_arena_done(&a);
}

static void log_head(const struct rf_h1 *p, struct rf_buf *log)
{
	check_head(p);
	if (!p->response)
		check_path(p, log);
	rf_buf_printf(log, "H%d,%zu,%d,%d,%lu\n", p->code, p->n_headers, p->keep_alive, p->chunked,
		      (unsigned long)p->length);
	for (size_t i = 0; i < p->n_headers; i++)
		rf_buf_add(log, p->headers[i].value);
}

/* false: the parser has failed for good. */
static bool feed(struct rf_h1 *p, struct rf_str input, struct rf_buf *log)
{
	for (;;) {
		switch (rf_h1_next(p, &input)) {
		case RF_H1_MORE:
			rf_assert(input.n == 0);
			return true;
		case RF_H1_HEAD:
			log_head(p, log);
			break;
		case RF_H1_DATA:
			rf_assert(p->data.n > 0);
			rf_assert(p->body_max == 0 || p->body_bytes <= p->body_max);
			rf_buf_add(log, p->data);
			break;
		case RF_H1_END:
			rf_buf_puts(log, "E\n");
			rf_h1_reset(p);
			break;
		case RF_H1_FAIL:
			rf_buf_printf(log, "F%d %s\n", p->status, p->why);
			return false;
		}
	}
}

static void run(bool response, uint64_t body_max, struct rf_str input, size_t cut,
		struct rf_buf *log)
{
	struct rf_h1 p;
	bool alive = true;

	rf_h1_init(&p, response, body_max);
	for (size_t i = 1; alive && input.n > 0; i++) {
		size_t n = cut == 0 ? input.n : RF_MIN(input.n, 1 + (i * cut) % 61);
		char *copy = malloc(n); /* its own, so that a read past the piece is caught */

		memcpy(copy, input.p, n);
		alive = feed(&p, rf_str_n(copy, n), log);
		free(copy);
		input = rf_str_skip(input, n);
	}
	rf_buf_printf(log, "eof %d", rf_h1_eof(&p));
	rf_h1_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rf_auto(buf) whole = RF_BUF_INIT;
	rf_auto(buf) pieces = RF_BUF_INIT;
	uint64_t body_max;
	struct rf_str input;

	if (n < 2)
		return 0;
	body_max = (data[0] & 2) != 0 ? (uint64_t)(data[0] >> 2) + 1 : 0;
	input = rf_str_n((const char *)data + 2, n - 2);
	run(data[0] & 1, body_max, input, 0, &whole);
	run(data[0] & 1, body_max, input, data[1] + 1u, &pieces);
	/* How much of an oversized body was handed on before the refusal may differ; all else not.
	 */
	if (body_max == 0)
		rf_assert(rf_str_eq(rf_buf_str(&whole), rf_buf_str(&pieces)));
	return 0;
}
