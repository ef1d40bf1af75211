#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "codec/base64.h"
#include "codec/pb.h"

#define SEED 0xba5e64ULL

static struct rf_arena arena;

static int fresh_arena(void **state)
{
	arena = (struct rf_arena)RF_ARENA_INIT;
	return 0;
}

static int drop_arena(void **state)
{
	rf_arena_done(&arena);
	return 0;
}

/* --- base64 --------------------------------------------------------------------------------- */

static void base64_gives_the_values_of_the_rfc(void **state)
{
	static const char *const pairs[][3] = {
		{ "", "", "" },
		{ "f", "Zg==", "Zg" },
		{ "fo", "Zm8=", "Zm8" },
		{ "foo", "Zm9v", "Zm9v" },
		{ "foob", "Zm9vYg==", "Zm9vYg" },
		{ "fooba", "Zm9vYmE=", "Zm9vYmE" },
		{ "foobar", "Zm9vYmFy", "Zm9vYmFy" },
		{ "\xfb\xff\xfe", "+//+", "-__-" },
	};
	struct rf_str back;

	for (size_t i = 0; i < RF_COUNT(pairs); i++) {
		struct rf_str bytes = rf_str(pairs[i][0]);

		assert_string_equal(rf_base64_encode(&arena, bytes).p, pairs[i][1]);
		assert_string_equal(rf_base64url_encode(&arena, bytes).p, pairs[i][2]);
		assert_int_equal(rf_base64_decode(&arena, rf_str(pairs[i][1]), &back, NULL), 0);
		assert_true(rf_str_eq(back, bytes));
		assert_int_equal(rf_base64url_decode(&arena, rf_str(pairs[i][2]), &back, NULL), 0);
		assert_true(rf_str_eq(back, bytes));
	}
}

static void base64_has_one_spelling_for_each_value(void **state)
{
	static const char *const bad[] = {
		"Zg",	  "Zg=",  "Zg===", "Zh==",     "Zm9=", "Z===",	     "====",	   "=",
		"Zm9v\n", "Zm 9", "Z=g=",  "Zg==Zg==", "-__-", "Zm9vYg==\n", "Z\xc3\xa9=",
	};
	static const char *const bad_url[] = { "Zg==", "Z", "Zh", "Zm9", "+//+", "Zm9vY", "Zm9v " };
	struct rf_err err = RF_ERR_INIT;
	struct rf_str out;

	for (size_t i = 0; i < RF_COUNT(bad); i++)
		if (rf_base64_decode(&arena, rf_str(bad[i]), &out, &err) != -RF_BAD_REQUEST)
			fail_msg("accepted %s", bad[i]);
	for (size_t i = 0; i < RF_COUNT(bad_url); i++)
		if (rf_base64url_decode(&arena, rf_str(bad_url[i]), &out, &err) != -RF_BAD_REQUEST)
			fail_msg("accepted %s", bad_url[i]);
}

static void any_bytes_survive_base64(void **state)
{
	struct rf_prng r = { SEED };
	struct rf_str back;
	char bytes[100];

	for (int i = 0; i < 2000; i++) {
		struct rf_str s = rf_str_n(bytes, rf_prng_below(&r, sizeof(bytes)));

		for (size_t j = 0; j < s.n; j++)
			bytes[j] = (char)rf_prng_next(&r);
		assert_int_equal(rf_base64_decode(&arena, rf_base64_encode(&arena, s), &back, NULL),
				 0);
		assert_true(rf_str_eq(back, s));
		assert_int_equal(
			rf_base64url_decode(&arena, rf_base64url_encode(&arena, s), &back, NULL),
			0);
		assert_true(rf_str_eq(back, s));
	}
}

static void base64_respects_the_arenas_cap(void **state)
{
	rf_auto(arena) small = RF_ARENA_CAPPED(16);
	struct rf_str out;

	assert_int_equal(rf_base64_decode(&small, RF_LIT("Zm9vYmFyZm9vYmFyZm9vYmFy"), &out, NULL),
			 -RF_TOO_LARGE);
}

/* --- protobuf ------------------------------------------------------------------------------- */

static void fields_are_read_as_they_were_written(void **state)
{
	static const uint64_t values[] = { 0, 1, 127, 128, 300, UINT32_MAX, INT64_MAX, UINT64_MAX };
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_pb_field f;
	struct rf_str in;

	for (size_t i = 0; i < RF_COUNT(values); i++)
		rf_pb_put_varint(&out, (uint32_t)i + 1, values[i]);
	rf_pb_put_bytes(&out, (1u << 29) - 1, RF_LIT("a\0b"));
	rf_pb_put_bytes(&out, 15, RF_STR_EMPTY);
	in = rf_buf_str(&out);
	for (size_t i = 0; i < RF_COUNT(values); i++) {
		assert_int_equal(rf_pb_next(&in, &f, NULL), 1);
		assert_int_equal(f.number, i + 1);
		assert_int_equal(f.wire, RF_PB_VARINT);
		assert_true(f.value == values[i]);
	}
	assert_int_equal(rf_pb_next(&in, &f, NULL), 1);
	assert_int_equal(f.number, (1u << 29) - 1);
	assert_true(rf_str_eq(f.bytes, RF_LIT("a\0b")));
	assert_int_equal(rf_pb_next(&in, &f, NULL), 1);
	assert_int_equal(f.bytes.n, 0);
	assert_int_equal(rf_pb_next(&in, &f, NULL), 0);
}

static void the_known_bytes_of_protobuf_are_understood(void **state)
{
	struct rf_str in =
		RF_LIT("\x08\x96\x01\x12\x07testing\x1d\x01\x02\x03\x04\x21\x01\x02\x03\x04"
		       "\x05\x06\x07\x08");
	struct rf_pb_field f;

	assert_int_equal(rf_pb_next(&in, &f, NULL), 1);
	assert_int_equal(f.value, 150);
	assert_int_equal(rf_pb_next(&in, &f, NULL), 1);
	assert_true(rf_str_is(f.bytes, "testing"));
	assert_int_equal(rf_pb_next(&in, &f, NULL), 1);
	assert_int_equal(f.wire, RF_PB_FIXED32);
	assert_int_equal(f.value, 0x04030201);
	assert_int_equal(rf_pb_next(&in, &f, NULL), 1);
	assert_int_equal(f.wire, RF_PB_FIXED64);
	assert_true(f.value == 0x0807060504030201ULL);
	assert_int_equal(in.n, 0);
}

static void malformed_fields_are_refused_and_nothing_is_taken(void **state)
{
	static const struct {
		struct rf_str in;
		const char *why;
	} bad[] = {
		{ { "\x08", 1 }, "inside a varint" },
		{ { "\x80", 1 }, "inside a varint" },
		{ { "\x00\x01", 2 }, "field number 0" },
		{ { "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11 }, "more than 64 bits" },
		{ { "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12 }, "more than 64 bits" },
		{ { "\x80\x80\x80\x80\x10\x01", 6 }, "field number" },
		{ { "\x12\x05"
		    "abc",
		    5 },
		  "5 bytes, 3 are left" },
		{ { "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 }, "are left" },
		{ { "\x0d\x01\x02\x03", 4 }, "3 bytes left of a fixed 4" },
		{ { "\x09\x01\x02\x03", 4 }, "3 bytes left of a fixed 8" },
		{ { "\x0b", 1 }, "wire type 3" },
		{ { "\x0f", 1 }, "wire type 7" },
	};
	struct rf_err err = RF_ERR_INIT;
	struct rf_pb_field f;

	for (size_t i = 0; i < RF_COUNT(bad); i++) {
		struct rf_str in = bad[i].in;

		assert_int_equal(rf_pb_next(&in, &f, &err), -RF_BAD_REQUEST);
		assert_ptr_equal(in.p, bad[i].in.p);
		if (strstr(err.msg, bad[i].why) == NULL)
			fail_msg("%zu: got \"%s\", want \"%s\"", i, err.msg, bad[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh_arena, drop_arena)
		TEST(base64_gives_the_values_of_the_rfc),
		TEST(base64_has_one_spelling_for_each_value),
		TEST(any_bytes_survive_base64),
		TEST(base64_respects_the_arenas_cap),
		TEST(fields_are_read_as_they_were_written),
		TEST(the_known_bytes_of_protobuf_are_understood),
		TEST(malformed_fields_are_refused_and_nothing_is_taken),
	};

	return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
