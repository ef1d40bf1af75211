#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "codec/json.h"
#include "codec/test_jansson.h"
#include "codec/test_random.h"

#define SEED 0x5eed1234abcdULL

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

static struct rf_json *parse(const char *text)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *v = NULL;

	if (rf_json_parse(&arena, rf_str(text), &v, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	return v;
}

static void assert_writes(const struct rf_json *v, const char *want)
{
	assert_string_equal(rf_json_text_of(&arena, v).p, want);
}

static void assert_refused(struct rf_str text, const char *where)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *v = NULL;

	if (rf_json_parse(&arena, text, &v, &err) != -RF_BAD_REQUEST)
		fail_msg("accepted: %.*s", RF_STR(text));
	assert_null(v);
	if (strstr(err.msg, where) == NULL)
		fail_msg("%.*s: got \"%s\", want \"%s\"", RF_STR(text), err.msg, where);
}

static void every_kind_of_value_is_read_and_written_back(void **state)
{
	static const char *const texts[] = {
		"null",
		"true",
		"false",
		"0",
		"-0",
		"12.50e+3",
		"\"\"",
		"\"a\"",
		"[]",
		"{}",
		"[1,[2,[3]],{\"a\":null}]",
		"{\"b\":1,\"a\":[true,false]}",
		"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
		"18446744073709551616",
		"\"more than eight plain bytes, then \\\"one\\\" quoted\"",
	};

	for (size_t i = 0; i < RF_COUNT(texts); i++)
		assert_writes(parse(texts[i]), texts[i]);
	assert_writes(parse(" {\t\"a\" :\r\n[ 1 , 2 ] } "), "{\"a\":[1,2]}");
}

static void escapes_become_characters_and_zero_is_one(void **state)
{
	struct rf_json *v =
		parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"");
	struct rf_json *zero = parse("\"x\\u0000y\"");

	assert_string_equal(rf_arena_cstr(&arena, v->text),
			    "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	assert_int_equal(zero->text.n, 3);
	assert_memory_equal(zero->text.p, "x\0y", 3);
	assert_writes(zero, "\"x\\u0000y\"");
}

static void what_is_not_json_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text, *where;
	} bad[] = {
		{ "", "line 1, column 1" },
		{ " ", "line 1, column 2: the text ends" },
		{ "{\n  \"a\": tru\n}", "line 2, column 8" },
		{ "[1,]", "column 4: ']' where a value" },
		{ "{\"a\":1,}", "column 8: '}' where a key" },
		{ "{'a':1}", "column 2" },
		{ "{\"a\" 1}", "column 6: '1' where ':'" },
		{ "[1 2]", "column 4" },
		{ "[1] 2", "column 5: '2' where the end" },
		{ "[01]", "number" },
		{ "[-]", "number" },
		{ "[1.]", "number" },
		{ "[1e]", "number" },
		{ "[.5]", "column 2" },
		{ "[+1]", "column 2" },
		{ "[NaN]", "column 2" },
		{ "\"a", "inside a string" },
		{ "\"a\tb\"", "control character 0x09" },
		{ "\"\\x\"", "column 3" },
		{ "\"\\u12g4\"", "four hexadecimal" },
		{ "\"\\u12", "four hexadecimal" },
		{ "\"\\ud800\"", "surrogate" },
		{ "\"\\ud800\\u0041\"", "surrogate" },
		{ "\"\\udc00\"", "surrogate" },
		{ "\xef\xbb\xbf{}", "byte 0xef" },
		{ "\"\xc3\"", "UTF-8" },
		{ "\"\xc0\xaf\"", "UTF-8" },
		{ "\"\xe0\x80\xaf\"", "UTF-8" },
		{ "\"\xed\xa0\x80\"", "UTF-8" },
		{ "\"\xf4\x90\x80\x80\"", "UTF-8" },
		{ "\"\xff\"", "UTF-8" },
		{ "\"\xc3\xa9\xc3\xa9\" x", "column 6" },
	};

	for (size_t i = 0; i < RF_COUNT(bad); i++)
		assert_refused(rf_str(bad[i].text), bad[i].where);
	assert_refused(RF_LIT("8\0"), "byte 0x00");
	assert_refused(RF_LIT("\"a\0b\""), "control character 0x00");
}

static void a_key_twice_is_refused_however_it_is_spelt(void **state)
{
	assert_refused(RF_LIT("{\"a\":1,\"b\":2,\n \"a\":3}"), "line 2, column 2: key \"a\"");
	assert_refused(RF_LIT("{\"a\":1,\"\\u0061\":2}"), "key \"a\"");
	assert_refused(RF_LIT("{\"\":1,\"\":2}"), "key \"\"");
	parse("[{\"a\":1},{\"a\":2},{\"a\":{\"a\":1}}]");
}

static void add_members(struct rf_buf *text, int n)
{
	for (int i = 0; i < n; i++)
		rf_buf_printf(text, "%s\"key-%06d\":%d", i ? "," : "{", i, i);
}

static void large_objects_are_checked_for_twins_and_capped(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *v = NULL;

	add_members(&text, RF_JSON_MEMBERS_MAX);
	rf_buf_add_c(&text, '}');
	assert_int_equal(rf_json_parse(&arena, rf_buf_str(&text), &v, &err), 0);
	assert_int_equal(rf_json_len(v), RF_JSON_MEMBERS_MAX);
	rf_buf_clear(&text);
	add_members(&text, RF_JSON_MEMBERS_MAX - 1);
	rf_buf_puts(&text, ",\"key-001000\":0}");
	assert_refused(rf_buf_str(&text), "key \"key-001000\" appears twice");
	rf_buf_clear(&text);
	add_members(&text, RF_JSON_MEMBERS_MAX + 1);
	rf_buf_add_c(&text, '}');
	assert_int_equal(rf_json_parse(&arena, rf_buf_str(&text), &v, &err), -RF_TOO_LARGE);
	assert_string_equal(err.msg, "JSON: an object of 4097 members; at most 4096 are taken");
}

static void nesting_ends_at_its_cap(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *v;

	for (int i = 0; i < RF_JSON_DEPTH_MAX; i++)
		rf_buf_add_c(&text, '[');
	for (int i = 0; i < RF_JSON_DEPTH_MAX; i++)
		rf_buf_add_c(&text, ']');
	assert_int_equal(rf_json_parse(&arena, rf_buf_str(&text), &v, NULL), 0);
	rf_buf_clear(&text);
	for (int i = 0; i < 100000; i++)
		rf_buf_puts(&text, "{\"a\":[");
	assert_refused(rf_buf_str(&text), "nested deeper than 128");
}

static void a_capped_arena_bounds_the_reader(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	size_t cap = 64 * 1024;
	struct rf_json *v;

	rf_buf_puts(&text, "[0");
	for (int i = 0; i < 5000; i++)
		rf_buf_puts(&text, ",0");
	rf_buf_add_c(&text, ']');
	for (; cap > 100; cap = cap * 3 / 4) {
		rf_auto(arena) small = RF_ARENA_CAPPED(cap);

		assert_int_equal(rf_json_parse(&small, rf_buf_str(&text), &v, &err), -RF_TOO_LARGE);
		assert_true(small.used <= cap + 16);
	}
	assert_non_null(strstr(err.msg, "10003 bytes needs more than"));
}

static void getters_accept_what_is_missing_or_of_another_kind(void **state)
{
	struct rf_json *v = parse("{\"a\":{\"b\":\"c\",\"n\":7,\"t\":true},\"l\":[1,2]}");

	assert_true(rf_str_is(rf_json_str_at(v, "a", "b"), "c"));
	assert_null(rf_json_at(v, "a", "b", "c"));
	assert_null(rf_json_at(v, "x", "y"));
	assert_null(rf_json_at(NULL, "x"));
	assert_null(rf_json_get(rf_json_at(v, "l"), RF_LIT("a")));
	assert_null(rf_json_item(rf_json_at(v, "l"), 2));
	assert_null(rf_json_item(v, 0));
	assert_int_equal(rf_json_str(rf_json_at(v, "l")).n, 0);
	assert_int_equal(rf_json_int(rf_json_at(v, "a", "n"), -1), 7);
	assert_int_equal(rf_json_int(rf_json_at(v, "a", "b"), -1), -1);
	assert_true(rf_json_is_true(rf_json_at(v, "a", "t")));
	assert_false(rf_json_is_true(NULL));
	assert_int_equal(rf_json_len(rf_json_at(v, "a")), 3);
	assert_int_equal(rf_json_len(NULL), 0);
}

static void integers_are_exact_or_absent(void **state)
{
	int64_t i;

	assert_true(rf_json_is_int(parse("9007199254740993"), &i));
	assert_int_equal(i, 9007199254740993);
	assert_true(rf_json_is_int(parse("-9223372036854775808"), &i));
	assert_int_equal(i, INT64_MIN);
	assert_false(rf_json_is_int(parse("9223372036854775808"), &i));
	assert_false(rf_json_is_int(parse("1.0"), &i));
	assert_false(rf_json_is_int(parse("1e3"), &i));
}

static void equality_is_of_values_not_of_spelling(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} pairs[] = {
		{ "{\"a\":1,\"b\":[2]}", "{\"b\":[2],\"a\":1}", true },
		{ "{\"a\":1}", "{\"a\":1,\"b\":2}", false },
		{ "{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", false },
		{ "[1,2]", "[2,1]", false },
		{ "1000", "1e3", true },
		{ "1000", "1000.00", true },
		{ "0", "-0.0e9", true },
		{ "1", "-1", false },
		{ "0.001", "1e-3", true },
		{ "120.50", "0.1205E3", true },
		{ "9007199254740993", "9007199254740992", false },
		{ "1e99999999999999999999", "1e99999999999999999998", false },
		{ "1", "\"1\"", false },
		{ "true", "false", false },
		{ "null", "null", true },
	};

	for (size_t i = 0; i < RF_COUNT(pairs); i++)
		if (rf_json_equal(parse(pairs[i].a), parse(pairs[i].b)) != pairs[i].same)
			fail_msg("%s and %s", pairs[i].a, pairs[i].b);
	assert_false(rf_json_equal(NULL, parse("1")));
}

static void large_objects_compare_in_any_order(void **state)
{
	struct rf_json *a = rf_json_object(&arena), *b = rf_json_object(&arena);

	for (int i = 0; i < 3000; i++) {
		rf_json_set_int(&arena, a, rf_arena_printf(&arena, "k%d", i).p, i);
		rf_json_set_int(&arena, b, rf_arena_printf(&arena, "k%d", 2999 - i).p, 2999 - i);
	}
	assert_true(rf_json_equal(a, b));
	rf_json_set_int(&arena, b, "k7", 8);
	assert_false(rf_json_equal(a, b));
}

static void objects_and_arrays_change_in_place(void **state)
{
	struct rf_json *v = parse("{\"a\":1,\"b\":2,\"c\":3,\"l\":[1,2,3]}");

	rf_json_set_str(&arena, v, "b", RF_LIT("two"));
	rf_json_set(&arena, v, RF_LIT("a"), NULL);
	rf_json_del(v, RF_LIT("absent"));
	rf_json_set_bool(&arena, v, "d", true);
	rf_json_remove(rf_json_at(v, "l"), 1);
	rf_json_remove(rf_json_at(v, "l"), 9);
	rf_json_push(&arena, rf_json_at(v, "l"), rf_json_null(&arena));
	rf_json_set_int(&arena, rf_json_ensure(&arena, v, "x", "y"), "z", INT64_MIN);
	assert_ptr_equal(rf_json_ensure(&arena, v, "x"), rf_json_at(v, "x"));
	rf_json_ensure(&arena, v, "c");
	assert_writes(v, "{\"b\":\"two\",\"c\":{},\"l\":[1,3,null],\"d\":true,"
			 "\"x\":{\"y\":{\"z\":-9223372036854775808}}}");
}

static void a_clone_shares_nothing_with_the_original(void **state)
{
	rf_auto(arena) other = RF_ARENA_INIT;
	struct rf_json *copy;

	{
		rf_auto(arena) gone = RF_ARENA_INIT;
		struct rf_json *v = NULL;

		assert_int_equal(
			rf_json_parse(&gone, RF_LIT("{\"a\":[true,\"x\",1.5,null,{}]}"), &v, NULL),
			0);
		copy = rf_json_clone(&other, v);
		rf_json_remove(rf_json_at(v, "a"), 0);
	}
	assert_writes(copy, "{\"a\":[true,\"x\",1.5,null,{}]}");
	assert_null(rf_json_clone(&other, NULL));
}

static void templates_become_values(void **state)
{
	struct rf_json *inner = parse("[1]");
	struct rf_json *v =
		rf_json_make(&arena,
			     "{'kind':\"Pod\", %s:%S, %S:[%d,%D,%b,%j,%j,-1.5,true,false,null], "
			     "'e':{}, 'q':'it\\'s 50%'}",
			     "ringfence.io/x", RF_LIT("y\""), RF_LIT("list"), -7, INT64_MAX, 1,
			     inner, (struct rf_json *)NULL);

	assert_ptr_equal(rf_json_item(rf_json_at(v, "list"), 3), inner);
	assert_writes(
		v,
		"{\"kind\":\"Pod\",\"ringfence.io/x\":\"y\\\"\",\"list\":[-7,9223372036854775807,"
		"true,[1],null,-1.5,true,false,null],\"e\":{},\"q\":\"it's 50%\"}");
	assert_writes(rf_json_make(&arena, "%s", (const char *)NULL), "\"\"");
}

static void text_that_is_not_utf8_is_written_as_valid_json(void **state)
{
	struct rf_json *v = rf_json_string(&arena, RF_LIT("a\xff"
							  "b\xc3"));

	assert_writes(v, "\"a\xef\xbf\xbd"
			 "b\xef\xbf\xbd\"");
	assert_writes(rf_json_string(&arena, RF_LIT("\x01\x1f\x7f\b\f")),
		      "\"\\u0001\\u001f\x7f\\b\\f\"");
}

static void people_get_it_indented(void **state)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_json_write_pretty(&out, parse("{\"a\":[1,{\"b\":{}}],\"c\":[]}"));
	assert_string_equal(out.p, "{\n  \"a\": [\n    1,\n    {\n      \"b\": {}\n    }\n  ],\n"
				   "  \"c\": []\n}\n");
}

static void whatever_is_written_reads_back_the_same(void **state)
{
	struct rf_prng r = { SEED };

	for (int i = 0; i < 3000; i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		rf_auto(buf) compact = RF_BUF_INIT;
		rf_auto(buf) pretty = RF_BUF_INIT;
		struct rf_json *v = random_json(&a, &r, 5), *again = NULL;

		rf_json_write(&compact, v);
		rf_json_write_pretty(&pretty, v);
		assert_int_equal(rf_json_parse(&a, rf_buf_str(&compact), &again, NULL), 0);
		assert_true(rf_json_equal(v, again));
		assert_string_equal(rf_json_text_of(&a, again).p, compact.p);
		assert_int_equal(rf_json_parse(&a, rf_buf_str(&pretty), &again, NULL), 0);
		assert_true(rf_json_equal(v, again));
	}
}

static void mutate(struct rf_buf *text, struct rf_prng *r)
{
	static const char spice[] =
		"\"\\{}[]:,0123456789.eE+-truefalsn \n\x80\xbf\xc3\xe0\xed\xf4u/";
	size_t at = rf_prng_below(r, text->n);

	switch (rf_prng_below(r, 4)) {
	case 0:
		text->p[at] = spice[rf_prng_below(r, sizeof(spice) - 1)];
		break;
	case 1:
		memmove(text->p + at, text->p + at + 1, text->n - at);
		text->n--;
		break;
	case 2:
		text->p[at] = (char)(text->p[at] ^ (1 << rf_prng_below(r, 8)));
		break;
	case 3:
		text->n = at;
		text->p[at] = '\0';
		break;
	}
}

static void jansson_agrees_on_valid_and_broken_documents(void **state)
{
	struct rf_prng r = { SEED };
	size_t accepted = 0, refused = 0;

	for (int i = 0; i < 20000; i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		rf_auto(buf) text = RF_BUF_INIT;
		uint64_t changes = rf_prng_below(&r, 3);
		bool ours;

		rf_json_write(&text, random_json(&a, &r, 4));
		while (changes-- > 0 && text.n > 0)
			mutate(&text, &r);
		if (!agrees_with_jansson(rf_buf_str(&text), &ours))
			fail_msg("seed %#llx, document %d: %s", SEED, i, text.p);
		ours ? accepted++ : refused++;
	}
	print_message("seed %#llx: %zu accepted, %zu refused\n", SEED, accepted, refused);
	assert_true(accepted > 5000 && refused > 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh_arena, drop_arena)
		TEST(every_kind_of_value_is_read_and_written_back),
		TEST(escapes_become_characters_and_zero_is_one),
		TEST(what_is_not_json_is_refused_with_its_place),
		TEST(a_key_twice_is_refused_however_it_is_spelt),
		TEST(large_objects_are_checked_for_twins_and_capped),
		TEST(nesting_ends_at_its_cap),
		TEST(a_capped_arena_bounds_the_reader),
		TEST(getters_accept_what_is_missing_or_of_another_kind),
		TEST(integers_are_exact_or_absent),
		TEST(equality_is_of_values_not_of_spelling),
		TEST(large_objects_compare_in_any_order),
		TEST(objects_and_arrays_change_in_place),
		TEST(a_clone_shares_nothing_with_the_original),
		TEST(templates_become_values),
		TEST(text_that_is_not_utf8_is_written_as_valid_json),
		TEST(people_get_it_indented),
		TEST(whatever_is_written_reads_back_the_same),
		TEST(jansson_agrees_on_valid_and_broken_documents),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
