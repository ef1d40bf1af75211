/* gRPC's own forms, without any connection. */
#include "net/test_grpc.h"

static int feed(struct rf_grpc_reader *r, struct rf_str bytes, size_t piece, struct rf_err *err)
{
	int rc = 0;

	while (rc == 0 && bytes.n > 0) {
		size_t n = RF_MIN(piece, bytes.n);

		rc = rf_grpc_reader_feed(r, rf_str_n(bytes.p, n), err);
		bytes = rf_str_skip(bytes, n);
	}
	return rc;
}

static void a_message_is_read_in_any_pieces(void **state)
{
	for (size_t piece = 1; piece < 12; piece++) {
		struct rf_grpc_reader r = RF_GRPC_READER_INIT;
		rf_auto(buf) wire = RF_BUF_INIT;

		rf_grpc_frame(&wire, RF_LIT("hello\0you"));
		assert_int_equal(wire.n, 14);
		assert_memory_equal(wire.p, "\0\0\0\0\11hello", 10);
		assert_int_equal(feed(&r, rf_buf_str(&wire), piece, NULL), 0);
		assert_int_equal(rf_grpc_reader_end(&r, NULL), 0);
		assert_true(same(rf_buf_str(&r.body), RF_LIT("hello\0you")));
		rf_grpc_reader_done(&r);
	}
}

static void an_empty_message_is_a_message(void **state)
{
	struct rf_grpc_reader r = RF_GRPC_READER_INIT;

	assert_int_equal(feed(&r, RF_LIT("\0\0\0\0\0"), 1, NULL), 0);
	assert_int_equal(rf_grpc_reader_end(&r, NULL), 0);
	assert_int_equal(r.body.n, 0);
	rf_grpc_reader_done(&r);
}

static int read_all(struct rf_str bytes, size_t piece, struct rf_err *err)
{
	struct rf_grpc_reader r = RF_GRPC_READER_INIT;
	int rc = feed(&r, bytes, piece, err);

	if (rc == 0)
		rc = rf_grpc_reader_end(&r, err);
	rf_grpc_reader_done(&r);
	return rc;
}

static void what_is_not_one_plain_message_is_refused(void **state)
{
	static const struct {
		struct rf_str bytes;
		int code;
		const char *text;
	} cases[] = {
		{ RF_LIT(""), RF_INTERNAL, "no message" },
		{ RF_LIT("\0\0\0"), RF_INTERNAL, "cut off in its prefix" },
		{ RF_LIT("\0\0\0\0\3ab"), RF_INTERNAL, "2 of 3 bytes" },
		{ RF_LIT("\0\0\0\0\1a\0"), RF_INTERNAL, "more than one" },
		{ RF_LIT("\0\0\0\0\0\0\0\0\0\0"), RF_INTERNAL, "more than one" },
		{ RF_LIT("\1\0\0\0\1a"), RF_UNSUPPORTED, "compressed" },
		{ RF_LIT("\0\1\0\0\1"), RF_TOO_LARGE, "16777217 bytes" },
		{ RF_LIT("\0\377\377\377\377"), RF_TOO_LARGE, "4294967295 bytes" },
	};

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		for (size_t piece = 1; piece < 8; piece += 3) {
			struct rf_err err = RF_ERR_INIT;

			assert_int_equal(read_all(cases[i].bytes, piece, &err), -cases[i].code);
			assert_non_null(strstr(err.msg, cases[i].text));
		}
	}
}

static void memory_follows_the_bytes_and_not_their_promise(void **state)
{
	struct rf_grpc_reader r = RF_GRPC_READER_INIT;

	assert_int_equal(feed(&r, RF_LIT("\0\1\0\0\0abc"), 8, NULL), 0); /* 16 MiB are promised */
	assert_true(r.body.cap < 4096);
	rf_grpc_reader_done(&r);
}

static void texts_survive_the_way_and_controls_do_not(void **state)
{
	rf_auto(buf) wire = RF_BUF_INIT;
	rf_auto(buf) back = RF_BUF_INIT;

	rf_grpc_text_encode(&wire, RF_LIT("100% \xc3\xbc\n\x7f~ ok"));
	assert_string_equal(wire.p, "100%25 %C3%BC%0A%7F~ ok");
	rf_grpc_text_decode(&back, rf_buf_str(&wire));
	assert_string_equal(back.p, "100% \xc3\xbc  ~ ok");
	rf_buf_clear(&back);
	rf_grpc_text_decode(&back, RF_LIT("%zz %4 %41%6c% %00x%"));
	assert_string_equal(back.p, "%zz %4 Al%  x%");
}

static void a_long_text_is_cut_and_never_inside_an_escape(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	rf_auto(buf) wire = RF_BUF_INIT;

	rf_buf_puts(&text, "ab");
	for (int i = 0; i < 9000; i++)
		rf_buf_add_c(&text, '\n');
	rf_grpc_text_encode(&wire, rf_buf_str(&text));
	assert_true(wire.n > 4000 && wire.n <= 4096);
	assert_int_equal((wire.n - 2) % 3, 0);
}

static void timeouts_are_read_and_written(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = { { "1S", 1000 },	  { "0m", 0 },	       { "99999999H", 359999996400000 },
		     { "2M", 120000 },	  { "45000m", 45000 }, { "1u", 1 },
		     { "1000u", 1 },	  { "1001u", 2 },      { "1n", 1 },
		     { "99999999n", 100 } };
	static const char *const bad[] = { "",	  "S",	 "1",	 "123456789S", "1s",  "-1S",
					   "+1S", "1 S", "1.5S", "S1",	       "1SS", "\xb2S" };
	char text[16];
	int64_t ms = 0;

	for (size_t i = 0; i < RF_COUNT(good); i++) {
		assert_int_equal(rf_grpc_timeout_parse(rf_str(good[i].text), &ms, NULL), 0);
		assert_int_equal(ms, good[i].ms);
	}
	for (size_t i = 0; i < RF_COUNT(bad); i++)
		assert_int_equal(rf_grpc_timeout_parse(rf_str(bad[i]), &ms, NULL), -RF_BAD_REQUEST);
	rf_grpc_timeout_format(45000, text);
	assert_string_equal(text, "45000m");
	rf_grpc_timeout_format(-5, text);
	assert_string_equal(text, "1m");
	rf_grpc_timeout_format(INT32_MAX, text);
	assert_string_equal(text, "2147483S");
}

static void statuses_and_codes_map_both_ways(void **state)
{
	assert_int_equal(rf_grpc_status_of(RF_INVALID), RF_GRPC_INVALID_ARGUMENT);
	assert_int_equal(rf_grpc_status_of(-RF_FORBIDDEN), RF_GRPC_PERMISSION_DENIED);
	assert_int_equal(rf_grpc_status_of(RF_UNAUTHENTICATED), RF_GRPC_UNAUTHENTICATED);
	assert_int_equal(rf_grpc_status_of(0), RF_GRPC_OK);
	for (int code = 0; code < RF_CODE_COUNT; code++) {
		int status = rf_grpc_status_of(code);

		assert_int_equal(rf_grpc_status_of(rf_grpc_code_of(status)), status);
	}
	assert_int_equal(rf_grpc_code_of(0), RF_OK);
	assert_int_equal(rf_grpc_code_of(3), RF_INVALID);
	assert_int_equal(rf_grpc_code_of(4), RF_TIMEOUT);
	assert_int_equal(rf_grpc_code_of(8), RF_EXHAUSTED);
	assert_int_equal(rf_grpc_code_of(12), RF_UNSUPPORTED);
	assert_int_equal(rf_grpc_code_of(13), RF_INTERNAL);
	assert_int_equal(rf_grpc_code_of(RF_GRPC_UNKNOWN), RF_INTERNAL);
	assert_int_equal(rf_grpc_code_of(RF_GRPC_FAILED_PRECONDITION), RF_CONFLICT);
	assert_int_equal(rf_grpc_code_of(RF_GRPC_CANCELLED), RF_UNAVAILABLE);
	assert_int_equal(rf_grpc_code_of(INT64_MAX), RF_INTERNAL);
}

static void content_types_of_grpc_are_known(void **state)
{
	assert_true(rf_grpc_is_content_type(RF_LIT("application/grpc")));
	assert_true(rf_grpc_is_content_type(RF_LIT("application/grpc+proto")));
	assert_true(rf_grpc_is_content_type(RF_LIT("application/grpc; charset=utf-8")));
	assert_false(rf_grpc_is_content_type(RF_LIT("application/grpc-web")));
	assert_false(rf_grpc_is_content_type(RF_LIT("application/grpc+json")));
	assert_false(rf_grpc_is_content_type(RF_LIT("application/json")));
	assert_false(rf_grpc_is_content_type(RF_LIT("")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_is_read_in_any_pieces),
		cmocka_unit_test(an_empty_message_is_a_message),
		cmocka_unit_test(what_is_not_one_plain_message_is_refused),
		cmocka_unit_test(memory_follows_the_bytes_and_not_their_promise),
		cmocka_unit_test(texts_survive_the_way_and_controls_do_not),
		cmocka_unit_test(a_long_text_is_cut_and_never_inside_an_escape),
		cmocka_unit_test(timeouts_are_read_and_written),
		cmocka_unit_test(statuses_and_codes_map_both_ways),
		cmocka_unit_test(content_types_of_grpc_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
