#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "policy/rego/bigint.h"
#include "policy/rego/number.h"

#define SEED 0x5e60ULL

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

/* --- helpers --- */

/* From JSON; the text must be a literal or live in the arena. */
static struct rf_rv json(const char *text)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v;

	if (rf_rv_parse_json(&arena, rf_str(text), &v, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	return v;
}

static struct rf_rv *items_of(struct rf_rv array)
{
	struct rf_rv *items = rf_arena_array(&arena, struct rf_rv, array.n + 1);

	for (uint32_t i = 0; i < array.n; i++)
		items[i] = array.items[i];
	return items;
}

static struct rf_rv set(const char *elements)
{
	struct rf_rv v = json(elements);

	return rf_rv_set(items_of(v), v.n);
}

static struct rf_rv number(const char *text)
{
	struct rf_rv v;

	if (!rf_rn_parse(&arena, rf_str(text), &v))
		fail_msg("%s is not taken for a number", text);
	return v;
}

static const char *text_of(void write(struct rf_buf *, struct rf_rv), struct rf_rv v)
{
	rf_auto(buf) b = RF_BUF_INIT;

	write(&b, v);
	return rf_arena_cstr(&arena, rf_buf_str(&b));
}

#define assert_prints(v, want) assert_string_equal(text_of(rf_rv_print, v), want)
#define assert_json(v, want) assert_string_equal(text_of(rf_rv_write_json, v), want)

/* --- order --- */

static void kinds_and_values_come_in_regos_order(void **state)
{
	struct rf_rv v[] = {
		json("null"),
		json("false"),
		json("true"),
		number("-1e10000"),
		number("-18446744073709551616"),
		json("-9223372036854775808"),
		json("-2"),
		json("-1.5"),
		json("-1"),
		json("-0.5"),
		json("0"),
		json("1e-10000"),
		json("0.5"),
		json("1"),
		json("1.0000000000000000000000001"),
		json("1.5"),
		json("2"),
		json("10"),
		json("100.5"),
		json("9223372036854775807"),
		json("9223372036854775807.5"),
		json("9223372036854775808"),
		number("1e10000"),
		json("\"\""),
		json("\"\\u0000\""),
		json("\"A\""),
		json("\"a\""),
		json("\"aa\""),
		json("\"b\""),
		json("\"\xc3\xa9\""),
		json("[]"),
		json("[null]"),
		json("[1]"),
		json("[1,1]"),
		json("[1,2]"),
		json("[2]"),
		json("[[]]"),
		json("{}"),
		json("{\"a\":1}"),
		json("{\"a\":1,\"b\":0}"),
		json("{\"a\":2}"),
		json("{\"b\":0}"),
		set("[]"),
		set("[1]"),
		set("[1,2]"),
		set("[2]"),
		set("[[]]"),
	};

	for (size_t i = 0; i < RF_COUNT(v); i++)
		for (size_t j = 0; j < RF_COUNT(v); j++) {
			int want = i < j ? -1 : i > j;

			if (rf_rv_cmp(v[i], v[j]) != want)
				fail_msg("%s against %s: %d", text_of(rf_rv_print, v[i]),
					 text_of(rf_rv_print, v[j]), rf_rv_cmp(v[i], v[j]));
			assert_int_equal(rf_rv_eq(v[i], v[j]), i == j);
			assert_int_equal(rf_rv_hash(v[i]) == rf_rv_hash(v[j]), i == j);
		}
}

static void numbers_are_equal_however_they_are_written(void **state)
{
	static const char *const same[][6] = {
		{ "0", "-0", "0.0", "-0.000", "0e5", "0E-3" },
		{ "1", "1.0", "1.000", "10e-1", "0.1e1", "0.001E+3" },
		{ "-1500", "-1500.0", "-1.5e3", "-15E2", "-15000e-1", "-0.00015e7" },
		{ "9223372036854775807", "9223372036854775807.0", "92233720368547758070e-1",
		  "9.223372036854775807e18", "0.9223372036854775807e19", "9223372036854775807.00" },
		{ "18446744073709551616", "18446744073709551616.0", "1.8446744073709551616e19",
		  "184467440737095516160e-1", "18446744073709551616e0",
		  "18446744073709551616.00e0" },
		{ "0.25", "25e-2", "0.250", "2.5e-1", "250e-3", "0.0025e2" },
		{ "1e10000", "10e9999", "1.0e10000", "0.1e10000", "100e9998", "1.00e+10000" },
	};

	for (size_t i = 0; i < RF_COUNT(same); i++)
		for (size_t j = 0; j < 6; j++)
			for (size_t k = 0; k < 6; k++) {
				struct rf_rv x = number(same[i][j]), y = number(same[i][k]);
				/* the last row's 0.1e10000 is not the others' equal */
				bool odd = i == 6 && (j == 3) != (k == 3);

				assert_int_equal(rf_rv_eq(x, y), !odd);
				assert_int_equal(rf_rv_cmp(x, y) == 0, !odd);
				assert_int_equal(rf_rv_hash(x) == rf_rv_hash(y), !odd);
			}
}

/* --- looking --- */

static struct rf_rv object_of(uint32_t n)
{
	struct rf_rv_grow g = { 0 };
	struct rf_rv v;

	for (uint32_t i = 0; i < n; i++) {
		struct rf_rv key = rf_rv_str(rf_arena_printf(&arena, "key-%u", i * 7919 % 10007));

		assert_true(rf_rv_put(&g, &arena, key, rf_rv_int(i), NULL));
	}
	assert_true(rf_rv_grown_object(&g, &arena, &v));
	return v;
}

static void keys_are_found_in_objects_of_any_size(void **state)
{
	for (uint32_t n = 0; n < 200; n += n < 40 ? 1 : 37) {
		struct rf_rv o = object_of(n), v;

		assert_int_equal(o.n, n);
		for (uint32_t i = 0; i < n; i++) {
			struct rf_str key = rf_arena_printf(&arena, "key-%u", i * 7919 % 10007);

			assert_true(rf_rv_get_str(o, key, &v));
			assert_int_equal(v.i, i);
			assert_true(rf_rv_get(o, rf_rv_str(key), &v));
			assert_int_equal(v.i, i);
			assert_true(i == 0 || rf_rv_cmp(o.pairs[i - 1].key, o.pairs[i].key) < 0);
		}
		assert_false(rf_rv_get_str(o, RF_LIT("key-"), &v));
		assert_false(rf_rv_get_str(o, RF_LIT("key-10007"), &v));
		assert_false(rf_rv_get_str(o, RF_LIT(""), &v));
		assert_false(rf_rv_get(o, rf_rv_int(1), &v));
	}
}

static void any_value_is_a_key_and_an_element(void **state)
{
	struct rf_rv keys[] = { json("null"),  json("true"), json("1"),		  json("2.5"),
				json("\"x\""), json("[1]"),  json("{\"a\":[2]}"), set("[1,2]") };
	struct rf_rv_grow o = { 0 }, s = { 0 };
	struct rf_rv v, object, elements;

	for (size_t i = 0; i < RF_COUNT(keys); i++) {
		assert_true(rf_rv_put(&o, &arena, keys[i], rf_rv_int((int64_t)i), NULL));
		assert_true(rf_rv_add(&s, &arena, keys[i], NULL));
	}
	assert_true(rf_rv_find(&o, keys[5], &v));
	assert_int_equal(v.i, 5);
	assert_true(rf_rv_grown_object(&o, &arena, &object));
	elements = rf_rv_grown_set(&s);
	for (size_t i = 0; i < RF_COUNT(keys); i++) {
		assert_true(rf_rv_get(object, keys[i], &v));
		assert_int_equal(v.i, i);
		assert_true(rf_rv_has(elements, keys[i]));
		assert_true(rf_rv_get(elements, keys[i], &v));
		assert_true(rf_rv_eq(v, keys[i]));
	}
	assert_true(rf_rv_get(object, number("1.0"), &v));
	assert_true(rf_rv_has(elements, number("25e-1")));
	assert_false(rf_rv_get(object, json("3"), &v));
	assert_false(rf_rv_has(elements, json("[2]")));
	assert_json(object, "{\"null\":0,\"true\":1,\"1\":2,\"2.5\":3,\"x\":4,\"[1]\":5,"
			    "\"{\\\"a\\\":[2]}\":6,\"[1,2]\":7}");
}

static void arrays_are_indexed_by_whole_numbers(void **state)
{
	struct rf_rv a = json("[10,20,30]"), v;

	assert_true(rf_rv_get(a, json("0"), &v));
	assert_int_equal(v.i, 10);
	assert_true(rf_rv_get(a, json("2.0"), &v));
	assert_int_equal(v.i, 30);
	assert_false(rf_rv_get(a, json("3"), &v));
	assert_false(rf_rv_get(a, json("-1"), &v));
	assert_false(rf_rv_get(a, json("1.5"), &v));
	assert_false(rf_rv_get(a, json("1e300"), &v));
	assert_false(rf_rv_get(a, json("\"0\""), &v));
	assert_false(rf_rv_get(json("1"), json("0"), &v));
	assert_false(rf_rv_get(json("null"), json("0"), &v));
	assert_false(rf_rv_get_str(a, RF_LIT("0"), &v));
	assert_false(rf_rv_has(a, json("10")));
}

/* --- making --- */

static void sets_are_sorted_and_keep_the_first_of_equals(void **state)
{
	assert_prints(set("[3,1,2,1.0,3]"), "{1, 2, 3}");
	assert_prints(set("[1.0,1]"), "{1.0}");
	assert_prints(set("[]"), "set()");
	assert_true(rf_rv_eq(set("[\"b\",\"a\"]"), set("[\"a\",\"b\",\"a\"]")));
}

static void of_equal_keys_the_later_wins_unless_conflicts_are_asked_for(void **state)
{
	struct rf_rv k = json("\"k\""), l = json("\"l\"");
	struct rf_rv_pair pairs[] = { { l, json("0") }, { k, json("1") }, { k, json("2") } };
	struct rf_rv_pair again[] = { { l, json("0") }, { k, json("1") }, { k, json("2") } };
	struct rf_rv_pair same[] = { { l, json("0") }, { k, json("1") }, { k, json("1.0") } };
	bool conflict = false;

	assert_prints(rf_rv_object(pairs, 3, NULL), "{\"k\": 2, \"l\": 0}");
	assert_prints(rf_rv_object(same, 3, &conflict), "{\"k\": 1, \"l\": 0}");
	assert_false(conflict);
	assert_prints(rf_rv_object(again, 3, &conflict), "{\"k\": 1, \"l\": 0}");
	assert_true(conflict);
}

static void what_grows_is_free_of_repetitions(void **state)
{
	struct rf_rv_grow s = { 0 }, o = { 0 };
	struct rf_rv v;
	bool is_new, conflict;

	for (int i = 0; i < 3000; i++) {
		int64_t k = i * 37 % 1000;
		/* every other time written differently */
		struct rf_rv key = i % 2 == 0 ? rf_rv_int(k)
					      : number(rf_arena_printf(&arena, "%d.0", (int)k).p);

		assert_true(rf_rv_add(&s, &arena, key, &is_new));
		assert_int_equal(is_new, i < 1000);
		assert_true(rf_rv_put(&o, &arena, key, rf_rv_int(i / 2000), &conflict));
		assert_int_equal(conflict, i >= 2000);
	}
	assert_int_equal(s.n, 1000);
	assert_true(rf_rv_find(&o, rf_rv_int(999), &v));
	assert_false(rf_rv_find(&o, rf_rv_int(1000), &v));
	v = rf_rv_grown_set(&s);
	assert_int_equal(v.n, 1000);
	assert_int_equal(s.n, 0);
	for (uint32_t i = 0; i < v.n; i++)
		assert_int_equal(rf_rv_cmp(v.items[i], rf_rv_int(i)), 0);
	assert_true(rf_rv_grown_object(&o, &arena, &v));
	assert_int_equal(v.n, 1000);
	assert_int_equal(v.pairs[999].value.i, 0);
}

static void an_array_grows_as_it_is_pushed(void **state)
{
	struct rf_rv_grow g = { 0 };
	struct rf_rv v = rf_rv_grown_array(&g);

	assert_json(v, "[]");
	for (int i = 3; i > 0; i--)
		assert_true(rf_rv_push(&g, &arena, rf_rv_int(i)));
	assert_json(rf_rv_grown_array(&g), "[3,2,1]");
}

static void a_full_arena_is_said_and_nothing_is_added(void **state)
{
	struct rf_arena small = RF_ARENA_CAPPED(2000);
	struct rf_rv_grow g = { 0 };
	struct rf_rv v;
	uint32_t before = 0;
	bool ok = true;

	for (int i = 0; ok; i++) {
		before = g.n;
		ok = rf_rv_add(&g, &small, rf_rv_int(i), NULL);
		assert_true(i < 1000);
	}
	assert_int_equal(g.n, before);
	v = rf_rv_grown_set(&g);
	assert_int_equal(v.n, before);
	assert_true(rf_rv_has(v, rf_rv_int(before - 1)));
	assert_false(rf_rv_copy(&small,
				json("[\"a\",[1,2,3],{\"b\":[1,2,3,4,5,6,7,8,9,0,"
				     "1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,"
				     "1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,"
				     "1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4]}]"),
				&v));
	rf_arena_done(&small);
}

static void merging_overlays_objects_deeply(void **state)
{
	static const char *const rows[][3] = {
		{ "{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}" },
		{ "{\"a\":1}", "{\"a\":2}", "{\"a\":2}" },
		{ "{\"a\":{\"x\":1,\"y\":{\"p\":1}},\"z\":0}",
		  "{\"a\":{\"y\":{\"q\":2},\"b\":[3]}}",
		  "{\"a\":{\"b\":[3],\"x\":1,\"y\":{\"p\":1,\"q\":2}},\"z\":0}" },
		{ "{\"a\":{\"x\":1}}", "{\"a\":5}", "{\"a\":5}" },
		{ "{\"a\":5}", "{\"a\":{\"x\":1}}", "{\"a\":{\"x\":1}}" },
		{ "{\"a\":[1,2]}", "{\"a\":[3]}", "{\"a\":[3]}" },
		{ "{}", "{\"a\":1}", "{\"a\":1}" },
		{ "{\"a\":1}", "{}", "{\"a\":1}" },
		{ "[1]", "{\"a\":1}", "{\"a\":1}" },
	};
	struct rf_rv v;

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		assert_true(rf_rv_merge(&arena, json(rows[i][0]), json(rows[i][1]), &v));
		assert_json(v, rows[i][2]);
	}
}

static void a_copy_owes_nothing_to_where_it_came_from(void **state)
{
	struct rf_arena source = RF_ARENA_INIT;
	static const char text[] =
		"{\"a\":[1,2.50,\"t\\n\",12345678901234567890],\"b\":{},\"c\":null}";
	char *doc = strdup(text);
	struct rf_rv v, copy;

	assert_int_equal(rf_rv_parse_json(&source, rf_str(doc), &v, NULL), 0);
	assert_true(rf_rv_copy(&arena, v, &copy));
	memset(doc, 'x', strlen(doc));
	free(doc);
	rf_arena_done(&source);
	assert_json(copy, text);
}

/* --- printing --- */

static void values_print_as_rego_prints_them(void **state)
{
	static const char *const rows[][2] = {
		{ "null", "null" },
		{ "[true,false]", "[true, false]" },
		{ "{\"b\":[1,{}],\"a\":\"x\"}", "{\"a\": \"x\", \"b\": [1, {}]}" },
		{ "[]", "[]" },
		{ "[1.0,1e3,-0,1E-7,12345678901234567890]",
		  "[1.0, 1e3, -0, 1E-7, 12345678901234567890]" },
		{ "\"a\\\"b\\\\c/\"", "\"a\\\"b\\\\c/\"" },
		{ "\"\\n\\r\\t\\b\\f\\u0007\\u000b\"", "\"\\n\\r\\t\\b\\f\\a\\v\"" },
		{ "\"\\u0000\\u001b\\u007f\"", "\"\\x00\\x1b\\x7f\"" },
		{ "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
		  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ "\"\\u0080\\u00a0\\u00ad\\u200b\\u2028\\ufeff\\ue000\"",
		  "\"\\u0080\\u00a0\\u00ad\\u200b\\u2028\\ufeff\\ue000\"" },
		{ "\"\\udb40\\udc01\"", "\"\\U000e0001\"" },
	};
	struct rf_rv odd = rf_rv_str(RF_LIT("a\xff\xc3z"));

	for (size_t i = 0; i < RF_COUNT(rows); i++)
		assert_prints(json(rows[i][0]), rows[i][1]);
	assert_prints(odd, "\"a\\xff\\xc3z\"");
	assert_prints(set("[[2],\"x\",{}]"), "{\"x\", [2], {}}");
}

static void json_is_written_compactly_or_indented(void **state)
{
	rf_auto(buf) b = RF_BUF_INIT;

	assert_json(set("[2,1]"), "[1,2]");
	assert_json(json("{\"b\":\"<\\n\",\"a\":[]}"), "{\"a\":[],\"b\":\"<\\n\"}");
	rf_rv_write_json_pretty(&b, json("{\"a\":[1,{}],\"b\":{\"c\":[]}}"), 4);
	assert_string_equal(b.p, "{\n    \"a\": [\n        1,\n        {}\n    ],\n    \"b\": {\n"
				 "        \"c\": []\n    }\n}");
}

static void types_have_opas_names(void **state)
{
	assert_string_equal(rf_rv_type_name(json("null")), "null");
	assert_string_equal(rf_rv_type_name(json("true")), "boolean");
	assert_string_equal(rf_rv_type_name(json("1.5")), "number");
	assert_string_equal(rf_rv_type_name(json("\"\"")), "string");
	assert_string_equal(rf_rv_type_name(json("[]")), "array");
	assert_string_equal(rf_rv_type_name(json("{}")), "object");
	assert_string_equal(rf_rv_type_name(set("[]")), "set");
}

/* --- JSON in --- */

static void strings_without_escapes_are_not_copied(void **state)
{
	static const char text[] =
		"{\"key\":[\"plain \xc3\xa9 text that is longer than a word\",\"a\\tb\"]}";
	struct rf_rv v = json(text), s;

	assert_ptr_equal(v.pairs[0].key.s, text + 2);
	s = v.pairs[0].value.items[0];
	assert_ptr_equal(s.s, strstr(text, "plain"));
	assert_int_equal(s.n, 40);
	s = v.pairs[0].value.items[1];
	assert_false(s.s >= text && s.s < text + sizeof(text));
	assert_true(rf_str_is(rf_rv_text(s), "a\tb"));
}

static void escapes_are_read(void **state)
{
	struct rf_rv v =
		json("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00 end\"");

	assert_true(rf_str_is(rf_rv_text(v),
			      "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 end"));
	v = json("\"\\u0000\"");
	assert_int_equal(v.n, 1);
	assert_int_equal(v.s[0], 0);
}

static void what_is_not_json_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{ "", "JSON, line 1, column 1: the text ends where a value should be" },
		{ " \n ", "JSON, line 2, column 2: the text ends where a value should be" },
		{ "[1,\n2 3]", "JSON, line 2, column 3: '3' where ',' or ']' should be" },
		{ "[1,]", "JSON, line 1, column 4: ']' where a value should be" },
		{ "[1", "JSON, line 1, column 3: the text ends where ',' or ']' should be" },
		{ "{1:2}", "JSON, line 1, column 2: '1' where a key in double quotes should be" },
		{ "{\"a\" 1}", "JSON, line 1, column 6: '1' where ':' should be" },
		{ "{\"a\":1,}",
		  "JSON, line 1, column 8: '}' where a key in double quotes should be" },
		{ "{\"a\":1", "JSON, line 1, column 7: the text ends where ',' or '}' should be" },
		{ "tru", "JSON, line 1, column 1: 't' where a value should be" },
		{ "nul", "JSON, line 1, column 1: 'n' where a value should be" },
		{ "1 2", "JSON, line 1, column 3: '2' where the end should be" },
		{ "01", "JSON, line 1, column 1: malformed number" },
		{ "-", "JSON, line 1, column 1: malformed number" },
		{ "1.", "JSON, line 1, column 1: malformed number" },
		{ "1e", "JSON, line 1, column 1: malformed number" },
		{ "1e+", "JSON, line 1, column 1: malformed number" },
		{ "+1", "JSON, line 1, column 1: '+' where a value should be" },
		{ ".5", "JSON, line 1, column 1: '.' where a value should be" },
		{ "\"abc", "JSON, line 1, column 5: the text ends inside a string" },
		{ "\"a\\",
		  "JSON, line 1, column 4: the text ends where one of \"\\/bfnrtu should be" },
		{ "\"\\x\"", "JSON, line 1, column 3: 'x' where one of \"\\/bfnrtu should be" },
		{ "\"\\u12\"", "JSON, line 1, column 2: \\u needs four hexadecimal digits" },
		{ "\"\\ud800\"", "JSON, line 1, column 2: half of a surrogate pair" },
		{ "\"\\ud800\\u0041\"", "JSON, line 1, column 2: half of a surrogate pair" },
		{ "\"\\udc00\"", "JSON, line 1, column 2: half of a surrogate pair" },
		{ "\"a\tb\"",
		  "JSON, line 1, column 3: control character 0x09 in a string; write \\u0009" },
		{ "\"\xff\"", "JSON, line 1, column 2: byte 0xff is not valid UTF-8" },
		{ "\"\xc3\"", "JSON, line 1, column 2: byte 0xc3 is not valid UTF-8" },
		{ "\"\xed\xa0\x80\"", "JSON, line 1, column 2: byte 0xed is not valid UTF-8" },
		{ "1e10001",
		  "JSON, line 1, column 1: a number of more than 1000 digits or an exponent "
		  "beyond 10000" },
		{ "1e1000000000",
		  "JSON, line 1, column 1: a number of more than 1000 digits or an exponent "
		  "beyond 10000" },
		{ "[1e-99999999999999999999]",
		  "JSON, line 1, column 2: a number of more than 1000 digits or "
		  "an exponent beyond 10000" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_err err = RF_ERR_INIT;
		struct rf_rv v;
		/* exactly as long as the text, so that reading on is seen */
		size_t n = strlen(rows[i].text);
		char *text = malloc(n + 1);

		memcpy(text, rows[i].text, n);
		text = realloc(text, n > 0 ? n : 1);
		assert_int_equal(rf_rv_parse_json(&arena, rf_str_n(text, n), &v, &err),
				 -RF_BAD_REQUEST);
		assert_string_equal(err.msg, rows[i].message);
		free(text);
	}
}

static void every_beginning_of_a_document_is_an_error_and_no_more(void **state)
{
	static const char doc[] =
		"{\"a\\u00e9\":[1,-2.5e3,true,false,null,\"\\ud83d\\ude00\xe2\x82\xac\"],"
		"\"b\":{\"c\":{}}}";

	for (size_t n = 0; n < sizeof(doc) - 1; n++) {
		char *text = malloc(n > 0 ? n : 1);
		struct rf_err err = RF_ERR_INIT;
		struct rf_rv v;

		memcpy(text, doc, n);
		assert_int_equal(rf_rv_parse_json(&arena, rf_str_n(text, n), &v, &err),
				 -RF_BAD_REQUEST);
		free(text);
	}
}

static void depth_and_memory_are_capped(void **state)
{
	char text[2 * 129 + 1];
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v;

	memset(text, '[', 129);
	memset(text + 129, ']', 129);
	assert_int_equal(rf_rv_parse_json(&arena, rf_str_n(text + 1, 256), &v, &err), 0);
	assert_int_equal(rf_rv_parse_json(&arena, rf_str_n(text, 258), &v, &err), -RF_BAD_REQUEST);
	assert_string_equal(err.msg, "JSON, line 1, column 129: nested deeper than 128");
	/* Every size of arena up to one that suffices. */
	for (size_t cap = 16;; cap += 16) {
		static const char doc[] =
			"{\"k\\n\":[1.5,[2,3],{\"x\":\"\\t\"}],\"l\":12345678901234567890}";
		struct rf_arena small = RF_ARENA_CAPPED(cap);
		int rc = rf_rv_parse_json(&small, rf_str(doc), &v, &err);

		if (rc == 0)
			assert_json(v, doc);
		rf_arena_done(&small);
		if (rc == 0)
			break;
		assert_int_equal(rc, -RF_TOO_LARGE);
		assert_true(cap < 4096);
	}
}

static void a_long_array_does_not_outgrow_a_small_arena(void **state)
{
	struct rf_arena small = RF_ARENA_CAPPED(64 * 1024);
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v;

	rf_buf_add_c(&b, '[');
	for (int i = 0; i < 1000 * 1000; i++)
		rf_buf_puts(&b, "1,");
	rf_buf_puts(&b, "1]");
	assert_int_equal(rf_rv_parse_json(&small, rf_buf_str(&b), &v, &err), -RF_TOO_LARGE);
	rf_arena_done(&small);
	assert_int_equal(rf_rv_parse_json(&arena, rf_buf_str(&b), &v, &err), 0);
	assert_int_equal(v.n, 1000 * 1000 + 1);
}

static void numbers_of_any_allowed_size_keep_their_text(void **state)
{
	static const char *const rows[] = { "0",
					    "-0",
					    "1",
					    "-1",
					    "1.0",
					    "1.50",
					    "1e3",
					    "1E+3",
					    "1e-10000",
					    "-1.5e10000",
					    "9223372036854775807",
					    "-9223372036854775808",
					    "9223372036854775808",
					    "123456789012345678901234567890",
					    "0.1000",
					    "100000000000000000000000000000.0" };
	char digits[1002];
	struct rf_rv v;

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		assert_json(json(rows[i]), rows[i]);
		assert_prints(number(rows[i]), rows[i]);
	}
	assert_false(json("-9223372036854775808").big);
	assert_true(json("9223372036854775808").big);
	assert_true(json("-0").big);
	memset(digits, '7', sizeof(digits));
	assert_true(rf_rn_parse(&arena, rf_str_n(digits, 1000), &v));
	assert_true(rf_str_eq(v.number->text, rf_str_n(digits, 1000)));
	assert_false(rf_rn_parse(&arena, rf_str_n(digits, 1001), &v));
}

static void codecs_tree_becomes_the_same_values(void **state)
{
	static const char doc[] = "{\"b\":[1,2.50,null,true,\"x\\n\"],\"a\":{\"z\":{},\"y\":[]},"
				  "\"c\":123456789012345678901}";
	struct rf_json *tree;
	struct rf_rv v;

	assert_int_equal(rf_json_parse(&arena, rf_str(doc), &tree, NULL), 0);
	assert_true(rf_rv_from_json(&arena, tree, &v));
	assert_true(rf_rv_eq(v, json(doc)));
	assert_json(v, "{\"a\":{\"y\":[],\"z\":{}},\"b\":[1,2.50,null,true,\"x\\n\"],"
		       "\"c\":123456789012345678901}");
	assert_true(rf_rv_from_json(&arena, NULL, &v));
	assert_int_equal(v.type, RF_RV_NULL);
}

/* --- numbers --- */

/* What Go's math/big gives for the same steps as OPA's builtins. */
static const struct {
	const char *op, *x, *y, *want;
} facts[] = {
	{ "+", "1", "2", "3" },
	{ "+", "1", "-2", "-1" },
	{ "+", "0", "0", "0" },
	{ "+", "1.0", "1", "2" },
	{ "+", "1e3", "1", "1001" },
	{ "+", "1.5", "2.5", "4" },
	{ "+", "1", "2.5", "3.5" },
	{ "+", "0.1", "0.2", "0.3" },
	{ "+", "0.1", "0.7", "0.8" },
	{ "+", "1e30", "1", "1000000000000000000000000000001" },
	{ "+", "1.5e-5", "0", "1.5e-05" },
	{ "+", "0.00001", "0", "1e-05" },
	{ "+", "9223372036854775807", "1", "9223372036854775808" },
	{ "+", "-9223372036854775808", "-1", "-9223372036854775809" },
	{ "+", "18446744073709551617", "1", "18446744073709551618" },
	{ "+", "123456789012345678901234567890", "1", "123456789012345678901234567891" },
	{ "+", "99999999999999999999999999999", "1", "100000000000000000000000000000" },
	{ "+", "1e-30", "1", "1" },
	{ "+", "1e-10", "1e10", "10000000000" },
	{ "+", "123456.5", "1000000", "1.1234565e+06" },
	{ "+", "999999.5", "0.25", "999999.75" },
	{ "+", "0.5", "-0.5", "0" },
	{ "+", "-0.5", "0.25", "-0.25" },
	{ "+", "1234567.25", "0", "1.23456725e+06" },
	{ "+", "36028797018963967.5", "0.5", "36028797018963968" },
	{ "-", "5", "7", "-2" },
	{ "-", "1.1", "1", "0.10000000000000000002" },
	{ "-", "0.3", "0.1", "0.20000000000000000002" },
	{ "-", "-9223372036854775808", "1", "-9223372036854775809" },
	{ "-", "18446744073709551617", "1", "18446744073709551616" },
	{ "-", "-18446744073709551617", "1", "-18446744073709551618" },
	{ "-", "1e20", "1e20", "0" },
	{ "-", "1.25", "0.25", "1" },
	{ "-", "100", "0.001", "99.999" },
	{ "-", "0", "1.5", "-1.5" },
	{ "*", "3", "4", "12" },
	{ "*", "-3", "4", "-12" },
	{ "*", "0", "-1.5", "-0" },
	{ "*", "2.5", "2", "5" },
	{ "*", "0.1", "3", "0.3" },
	{ "*", "1.1", "1.1", "1.21" },
	{ "*", "18446744073709551617", "2", "36893488147419103234" },
	{ "*", "9223372036854775807", "9223372036854775807",
	  "85070591730234615847396907784232501249" },
	{ "*", "-9223372036854775808", "-1", "9223372036854775808" },
	{ "*", "1e-200", "1e-200", "1.0000000000000000001e-400" },
	{ "*", "1.5", "1e30", "1500000000000000000000000000000" },
	{ "*", "0.1", "0.1", "0.010000000000000000001" },
	{ "*", "123456789.123", "987654321.321", "1.2193263127374637979e+17" },
	{ "*", "4294967296", "4294967296", "18446744073709551616" },
	{ "/", "6", "3", "2" },
	{ "/", "7", "2", "3.5" },
	{ "/", "1", "3", "0.33333333333333333334" },
	{ "/", "2", "3", "0.6666666666666666667" },
	{ "/", "10", "4", "2.5" },
	{ "/", "-7", "2", "-3.5" },
	{ "/", "0", "5", "0" },
	{ "/", "0", "-5", "-0" },
	{ "/", "1", "0", "zero" },
	{ "/", "1.5", "0.0", "zero" },
	{ "/", "0", "0", "zero" },
	{ "/", "1", "1e3", "0.001" },
	{ "/", "1e-400", "3", "3.3333333333333333332e-401" },
	{ "/", "22", "7", "3.1428571428571428572" },
	{ "/", "1", "1024", "0.0009765625" },
	{ "/", "100000000000000000000", "3", "33333333333333333334" },
	{ "/", "100000000000000000000", "10", "10000000000000000000" },
	{ "/", "1", "9223372036854775807", "1.0842021724855044341e-19" },
	{ "/", "-9223372036854775808", "-1", "9223372036854775808" },
	{ "/", "1.0", "3.0", "0.33333333333333333334" },
	{ "/", "12345678901234567890123", "1", "12345678901234567890000" },
	{ "/", "0.3", "0.1", "3" },
	{ "/", "5", "0.5", "10" },
	{ "/", "1000001", "2", "500000.5" },
	{ "/", "2000001", "2", "1.0000005e+06" },
	{ "/", "1", "60000", "1.6666666666666666666e-05" },
	{ "%", "7", "3", "1" },
	{ "%", "-7", "3", "-1" },
	{ "%", "7", "-3", "1" },
	{ "%", "-7", "-3", "-1" },
	{ "%", "7", "0", "zero" },
	{ "%", "1.5", "2", "notwhole" },
	{ "%", "2", "1.5", "notwhole" },
	{ "%", "1.5", "0", "notwhole" },
	{ "%", "7.0", "4", "3" },
	{ "%", "1e3", "7", "6" },
	{ "%", "10", "18446744073709551616", "10" },
	{ "%", "5", "55340232221128654848", "5" },
	{ "%", "7", "340282366920938463463374607431768211456", "7" },
	{ "%", "100", "-18446744073709551616", "100" },
	{ "%", "18446744073709551617", "18446744073709551616", "1" },
	{ "%", "-9223372036854775808", "-1", "0" },
	{ "%", "1e30", "97", "85" },
	{ "%", "123456789012345678901234567890", "987654321098765", "547854957125085" },
	{ "abs", "-5", "0", "5" },
	{ "abs", "5", "0", "5" },
	{ "abs", "-1.50", "0", "1.5" },
	{ "abs", "-9223372036854775808", "0", "9223372036854775808" },
	{ "abs", "1e3", "0", "1000" },
	{ "abs", "-0.0", "0", "0" },
	{ "abs", "123456789012345678901234", "0", "123456789012345678900000" },
	{ "abs", "-1e-7", "0", "1e-07" },
	{ "round", "1.5", "0", "2" },
	{ "round", "2.5", "0", "3" },
	{ "round", "-1.5", "0", "-2" },
	{ "round", "-2.5", "0", "-3" },
	{ "round", "0.49999999999999999999", "0", "1" },
	{ "round", "1.4", "0", "1" },
	{ "round", "-0.4", "0", "0" },
	{ "round", "1e3", "0", "1000" },
	{ "round", "1.0", "0", "1" },
	{ "round", "12345678901234567890123", "0", "12345678901234567889920" },
	{ "round", "9223372036854775807.5", "0", "9223372036854775808" },
	{ "round", "4611686018427387904.5", "0", "4611686018427387905" },
	{ "ceil", "1.1", "0", "2" },
	{ "ceil", "-1.1", "0", "-1" },
	{ "ceil", "-0.5", "0", "1" },
	{ "ceil", "0.5", "0", "1" },
	{ "ceil", "1.0", "0", "1" },
	{ "ceil", "1e20", "0", "100000000000000000000" },
	{ "ceil", "7", "0", "7" },
	{ "floor", "1.9", "0", "1" },
	{ "floor", "-1.1", "0", "-2" },
	{ "floor", "-0.5", "0", "0" },
	{ "floor", "0.5", "0", "0" },
	{ "floor", "100.99", "0", "100" },
	{ "floor", "-2.0", "0", "-2" },
	{ "floor", "1e20", "0", "100000000000000000000" },
	{ "floor", "123456789012345678901234", "0", "123456789012345678897152" },
	{ "&", "12", "10", "8" },
	{ "&", "-12", "10", "0" },
	{ "&", "-1", "18446744073709551615", "18446744073709551615" },
	{ "&", "1.5", "1", "notwhole" },
	{ "&", "-18446744073709551616", "-1", "-18446744073709551616" },
	{ "|", "12", "10", "14" },
	{ "|", "-12", "10", "-2" },
	{ "|", "18446744073709551616", "1", "18446744073709551617" },
	{ "|", "-18446744073709551616", "1", "-18446744073709551615" },
	{ "^", "12", "10", "6" },
	{ "^", "-12", "10", "-2" },
	{ "^", "-1", "18446744073709551616", "-18446744073709551617" },
	{ "~", "0", "0", "-1" },
	{ "~", "-1", "0", "0" },
	{ "~", "18446744073709551615", "0", "-18446744073709551616" },
	{ "~", "1.5", "0", "notwhole" },
	{ "<", "1", "3", "8" },
	{ "<", "9223372036854775807", "1", "18446744073709551614" },
	{ "<", "2147483647", "1", "4294967294" },
	{ "<", "7", "-1", "negative" },
	{ "<", "1", "128", "340282366920938463463374607431768211456" },
	{ "<", "-3", "70", "-3541774862152233910272" },
	{ "<", "0", "100000000000000000000", "0" },
	{ "<", "1", "100000000", "full" },
	{ "<", "1", "2.0", "4" },
	{ "<", "1", "2.5", "notwhole" },
	{ ">", "8", "3", "1" },
	{ ">", "-8", "1", "-4" },
	{ ">", "-7", "1", "-4" },
	{ ">", "-1", "100", "-1" },
	{ ">", "1", "100000000000000000000", "0" },
	{ ">", "-1", "100000000000000000000", "-1" },
	{ ">", "340282366920938463463374607431768211456", "64", "18446744073709551616" },
	{ ">", "7", "-1", "negative" },
	{ ">", "-18446744073709551617", "64", "-2" },
};

static enum rf_rn_result compute(const char *op, struct rf_rv x, struct rf_rv y, struct rf_rv *ret)
{
	static const struct {
		const char *op;
		enum rf_rn_result (*one)(struct rf_arena *, struct rf_rv, struct rf_rv *);
		enum rf_rn_result (*two)(struct rf_arena *, struct rf_rv, struct rf_rv,
					 struct rf_rv *);
	} ops[] = {
		{ "+", NULL, rf_rn_add },	{ "-", NULL, rf_rn_sub },
		{ "*", NULL, rf_rn_mul },	{ "/", NULL, rf_rn_div },
		{ "%", NULL, rf_rn_rem },	{ "abs", rf_rn_abs, NULL },
		{ "ceil", rf_rn_ceil, NULL },	{ "floor", rf_rn_floor, NULL },
		{ "round", rf_rn_round, NULL },
	};

	for (size_t i = 0; i < RF_COUNT(ops); i++)
		if (strcmp(ops[i].op, op) == 0)
			return ops[i].one != NULL ? ops[i].one(&arena, x, ret)
						  : ops[i].two(&arena, x, y, ret);
	return rf_rn_bits(&arena, op[0], x, y, ret);
}

static void arithmetic_gives_what_opa_gives(void **state)
{
	static const char *const failures[] = { "", "full", "zero", "notwhole", "negative" };

	assert_true(RF_COUNT(facts) >= 100);
	for (size_t i = 0; i < RF_COUNT(facts); i++) {
		struct rf_rv x = number(facts[i].x), y = number(facts[i].y), r;
		enum rf_rn_result rc = compute(facts[i].op, x, y, &r);
		const char *got = rc == RF_RN_OK ? text_of(rf_rn_print, r) : failures[rc];

		if (strcmp(got, facts[i].want) != 0)
			fail_msg("%s %s %s: %s, not %s", facts[i].op, facts[i].x, facts[i].y, got,
				 facts[i].want);
	}
}

static void sums_beyond_the_caps_are_refused_soon(void **state)
{
	struct rf_rv huge = number("1e10000"), tiny = number("1e-10000"), r;
	char digits[1000];

	assert_int_equal(rf_rn_add(&arena, huge, rf_rv_int(1), &r), RF_RN_FULL);
	assert_int_equal(rf_rn_mul(&arena, huge, huge, &r), RF_RN_FULL);
	assert_int_equal(rf_rn_mul(&arena, tiny, tiny, &r), RF_RN_FULL);
	assert_int_equal(rf_rn_div(&arena, huge, tiny, &r), RF_RN_FULL);
	assert_int_equal(rf_rn_round(&arena, huge, &r), RF_RN_FULL);
	assert_int_equal(rf_rn_abs(&arena, huge, &r), RF_RN_FULL);
	assert_int_equal(rf_rn_rem(&arena, huge, rf_rv_int(7), &r), RF_RN_FULL);
	assert_int_equal(rf_rn_bits(&arena, '<', rf_rv_int(1), number("1e9000"), &r), RF_RN_FULL);
	assert_int_equal(rf_rn_bits(&arena, '<', rf_rv_int(1), rf_rv_int(3400), &r), RF_RN_FULL);
	assert_int_equal(rf_rn_bits(&arena, '<', rf_rv_int(1), rf_rv_int(3300), &r), RF_RN_OK);
	memset(digits, '9', sizeof(digits));
	assert_true(rf_rn_parse(&arena, rf_str_n(digits, sizeof(digits)), &r));
	assert_int_equal(rf_rn_add(&arena, r, rf_rv_int(1), &r), RF_RN_FULL);
	/* These stay within. */
	assert_int_equal(rf_rn_div(&arena, tiny, rf_rv_int(3), &r), RF_RN_FULL);
	assert_int_equal(rf_rn_div(&arena, number("1e-9999"), rf_rv_int(4), &r), RF_RN_OK);
	assert_prints(r, "2.5e-10000");
	assert_int_equal(rf_rn_div(&arena, huge, number("1e9990"), &r), RF_RN_OK);
	assert_prints(r, "9.999999999999999999e+09"); /* as in Go: both were rounded */
	assert_int_equal(rf_rn_sub(&arena, tiny, rf_rv_int(1), &r), RF_RN_OK);
	assert_prints(r, "-1");
}

static void text_that_json_refuses_is_still_a_number_to_to_number(void **state)
{
	static const char *const rows[][2] = {
		{ "+5", "5" }, { "007", "7" },	      { "-007.50", "-7.50" }, { ".5", "0.5" },
		{ "5.", "5" }, { "-.5e3", "-0.5e3" }, { "+1.e-2", "1e-2" },   { "00", "0" },
	};
	static const char *const none[] = { "",	  "-",	  "+",	   "abc",   "1a",  ".",
					    "e5", "1e",	  "1e+",   "1.2.3", "--1", " 1",
					    "1 ", "0x10", "1_000", "inf",   "NaN" };
	struct rf_rv v;

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		assert_true(rf_rn_is_number(rf_str(rows[i][0])));
		assert_prints(number(rows[i][0]), rows[i][1]);
	}
	for (size_t i = 0; i < RF_COUNT(none); i++) {
		assert_false(rf_rn_is_number(rf_str(none[i])));
		assert_false(rf_rn_parse(&arena, rf_str(none[i]), &v));
	}
}

static void whole_numbers_are_known_and_formatted(void **state)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_rv v;
	int64_t i;

	assert_true(rf_rn_int64(number("1.0"), &i));
	assert_int_equal(i, 1);
	assert_true(rf_rn_int64(number("-92233720368547758080e-1"), &i));
	assert_true(i == INT64_MIN);
	assert_false(rf_rn_int64(number("9223372036854775808"), &i));
	assert_false(rf_rn_int64(number("1.5"), &i));
	assert_true(rf_rn_is_whole(number("1e10000")));
	assert_true(rf_rn_is_whole(number("0.0")));
	assert_false(rf_rn_is_whole(number("1e-10000")));
	assert_true(rf_rn_format_int(&b, number("255"), 16, false));
	rf_buf_add_c(&b, ' ');
	assert_true(rf_rn_format_int(&b, number("-255.0"), 16, true));
	rf_buf_add_c(&b, ' ');
	assert_true(rf_rn_format_int(&b, number("18446744073709551616"), 8, false));
	rf_buf_add_c(&b, ' ');
	assert_true(rf_rn_format_int(&b, number("0"), 2, false));
	rf_buf_add_c(&b, ' ');
	assert_true(rf_rn_format_int(&b, number("-9223372036854775808"), 10, false));
	assert_false(rf_rn_format_int(&b, number("1.5"), 10, false));
	assert_string_equal(b.p, "ff -FF 2000000000000000000000 0 -9223372036854775808");
	assert_int_equal(rf_rn_trunc(&arena, number("-1.75"), &v), RF_RN_OK);
	assert_prints(v, "-1");
	assert_int_equal(rf_rn_trunc(&arena, number("-0.75"), &v), RF_RN_OK);
	assert_prints(v, "0");
}

static void doubles_and_words_go_in_and_out(void **state)
{
	static const struct {
		double d;
		const char *text;
	} rows[] = {
		{ 0, "0" },
		{ 1, "1" },
		{ -2.5, "-2.5" },
		{ 0.1, "0.1" },
		{ 1e20, "100000000000000000000" },
		{ 1e21, "1e+21" },
		{ 1e-5, "1e-05" },
		{ 0.0001, "0.0001" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ 5e-324, "5e-324" },
		{ 1.7976931348623157e308, "1.7976931348623157e+308" },
		{ 123456789.125, "123456789.125" },
	};
	struct rf_rv v;

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		assert_true(rf_rn_from_double(&arena, rows[i].d, &v));
		assert_prints(v, rows[i].text);
		assert_true(rf_rn_double(v) == rows[i].d);
	}
	assert_false(rf_rn_from_double(&arena, __builtin_nan(""), &v));
	assert_false(rf_rn_from_double(&arena, -__builtin_inf(), &v));
	assert_true(rf_rn_double(number("1e400")) == __builtin_inf());
	assert_true(rf_rn_double(number("-1e-400")) == 0);
	assert_true(rf_rn_from_uint(&arena, UINT64_MAX, &v));
	assert_prints(v, "18446744073709551615");
	assert_true(rf_rn_from_uint(&arena, 7, &v));
	assert_false(v.big);
}

/* --- properties --- */

static struct rf_prng prng;

static uint64_t below(uint64_t n)
{
	return rf_prng_below(&prng, n);
}

static struct rf_str random_digits(size_t n)
{
	char *p = rf_arena_alloc(&arena, n + 1);

	for (size_t i = 0; i < n; i++)
		p[i] = (char)('0' + (below(3) == 0 ? 9 * below(2) : below(10)));
	if (p[0] == '0')
		p[0] = '1';
	return rf_str_n(p, n);
}

static struct rf_rv random_whole(size_t digits)
{
	struct rf_str d = random_digits(1 + below(digits));

	return number(rf_arena_printf(&arena, "%s%.*s", below(2) == 0 ? "-" : "", RF_STR(d)).p);
}

static struct rf_rv random_number(void)
{
	struct rf_str d = random_digits(1 + below(25)), f = random_digits(1 + below(25));
	const char *sign = below(2) == 0 ? "-" : "";

	switch (below(5)) {
	case 0:
		return rf_rv_int((int64_t)below(5) - 2);
	case 1:
		return random_whole(40);
	case 2:
		return number(
			rf_arena_printf(&arena, "%s%d.%d", sign, (int)below(3), (int)below(3)).p);
	case 3:
		return number(rf_arena_printf(&arena, "%s%.*s.%.*s", sign, RF_STR(d), RF_STR(f)).p);
	default:
		return number(
			rf_arena_printf(&arena, "%s%.*se%d", sign, RF_STR(d), (int)below(80) - 40)
				.p);
	}
}

static struct rf_rv random_string(void)
{
	static const char *const bits[] = { "a",  "b",	  "ab",	      "\"",
					    "\\", "\n",	  "\xc3\xa9", "\xf0\x9f\x98\x80",
					    "/",  "\x01", "key",      "\xe2\x80\xa8",
					    " " };
	rf_auto(buf) b = RF_BUF_INIT;

	for (uint64_t n = below(6); n > 0; n--)
		rf_buf_puts(&b, bits[below(RF_COUNT(bits))]);
	return rf_rv_str(rf_arena_str(&arena, rf_buf_str(&b)));
}

static struct rf_rv random_value(int depth, bool sets)
{
	uint32_t n = depth > 0 ? (uint32_t)below(below(10) == 0 ? 30 : 4) : 0;
	struct rf_rv *items = rf_arena_array(&arena, struct rf_rv, n * 2 + 1);
	uint64_t kind = below(sets ? 8 : 7);

	if (kind < 4 || depth == 0)
		return below(4) == 0   ? RF_RV_NIL
		       : below(4) == 0 ? rf_rv_bool(below(2) == 0)
		       : below(2) == 0 ? random_string()
				       : random_number();
	if (kind == 4 || kind == 5) {
		for (uint32_t i = 0; i < n; i++)
			items[i] = random_value(depth - 1, sets);
		return rf_rv_array(items, n);
	}
	for (uint32_t i = 0; i < n; i++) {
		items[i * 2] = kind == 6 && !sets ? random_string() : random_value(depth - 1, sets);
		items[i * 2 + 1] = random_value(depth - 1, sets);
	}
	return kind == 6 ? rf_rv_object((struct rf_rv_pair *)items, n, NULL) : rf_rv_set(items, n);
}

static void what_is_written_is_read_back_equal(void **state)
{
	print_message("seed %#llx\n", (unsigned long long)SEED);
	prng = (struct rf_prng){ SEED };
	for (int round = 0; round < 3000; round++) {
		struct rf_rv v = random_value(4, false), again, tree_value, copy;
		const char *text = text_of(rf_rv_write_json, v);
		rf_auto(buf) pretty = RF_BUF_INIT;
		struct rf_err err = RF_ERR_INIT;
		struct rf_json *tree;

		again = json(text);
		assert_true(rf_rv_eq(v, again));
		assert_int_equal(rf_rv_cmp(v, again), 0);
		assert_true(rf_rv_hash(v) == rf_rv_hash(again));
		assert_json(again, text);
		rf_rv_write_json_pretty(&pretty, v, 2);
		assert_int_equal(rf_rv_parse_json(&arena, rf_buf_str(&pretty), &again, &err), 0);
		assert_true(rf_rv_eq(v, again));
		assert_int_equal(rf_json_parse(&arena, rf_str(text), &tree, &err), 0);
		assert_true(rf_rv_from_json(&arena, tree, &tree_value));
		assert_true(rf_rv_eq(v, tree_value));
		assert_true(rf_rv_copy(&arena, v, &copy));
		assert_true(rf_rv_eq(v, copy));
		rf_arena_reset(&arena);
	}
}

static int sign(int c)
{
	return c < 0 ? -1 : c > 0;
}

static void comparing_is_a_total_order(void **state)
{
	enum { N = 24 };

	print_message("seed %#llx\n", (unsigned long long)SEED);
	prng = (struct rf_prng){ SEED + 1 };
	for (int round = 0; round < 200; round++) {
		struct rf_rv v[N];

		for (int i = 0; i < N; i++)
			v[i] = i > 0 && below(6) == 0 ? v[below((uint64_t)i)]
						      : random_value((int)below(4), true);
		for (int i = 0; i < N; i++)
			for (int j = 0; j < N; j++) {
				int c = rf_rv_cmp(v[i], v[j]);

				assert_int_equal(c, sign(c));
				assert_int_equal(c, -rf_rv_cmp(v[j], v[i]));
				assert_int_equal(c == 0, rf_rv_eq(v[i], v[j]));
				if (c == 0)
					assert_true(rf_rv_hash(v[i]) == rf_rv_hash(v[j]));
				for (int k = 0; k < N; k++)
					if (c <= 0 && rf_rv_cmp(v[j], v[k]) <= 0)
						assert_true(rf_rv_cmp(v[i], v[k]) <= 0);
			}
		rf_arena_reset(&arena);
	}
}

static void sorting_and_growing_make_the_same_set(void **state)
{
	print_message("seed %#llx\n", (unsigned long long)SEED);
	prng = (struct rf_prng){ SEED + 2 };
	for (int round = 0; round < 300; round++) {
		uint32_t n = (uint32_t)below(round % 10 == 0 ? 600 : 30), distinct = 0;
		struct rf_rv *items = rf_arena_array(&arena, struct rf_rv, n + 1), s, t;
		struct rf_rv_grow g = { 0 };
		bool is_new;

		for (uint32_t i = 0; i < n; i++) {
			items[i] = random_value(2, true);
			assert_true(rf_rv_add(&g, &arena, items[i], &is_new));
			distinct += is_new;
		}
		s = rf_rv_set(items, n);
		t = rf_rv_grown_set(&g);
		assert_int_equal(s.n, distinct);
		assert_true(rf_rv_eq(s, t));
		for (uint32_t i = 0; i + 1 < s.n; i++)
			assert_true(rf_rv_cmp(s.items[i], s.items[i + 1]) < 0);
		for (uint32_t i = 0; i < t.n; i++)
			assert_true(rf_rv_has(s, t.items[i]));
		rf_arena_reset(&arena);
	}
}

/* The value of a whole number's text modulo m, without any of the code under test. */
static int64_t modulo(struct rf_rv v, int64_t m)
{
	const char *p = text_of(rf_rn_print, v);
	bool negative = *p == '-';
	__int128 r = 0;

	for (p += negative; *p != '\0'; p++) {
		assert_true(*p >= '0' && *p <= '9');
		r = (r * 10 + (*p - '0')) % m;
	}
	return (int64_t)(negative && r != 0 ? m - r : r);
}

#define MUST(call) assert_int_equal(call, RF_RN_OK)

static void whole_numbers_agree_with_their_remainders(void **state)
{
	static const int64_t primes[] = { 2305843009213693951, 1000000007, 998244353, 97 };

	print_message("seed %#llx\n", (unsigned long long)SEED);
	prng = (struct rf_prng){ SEED + 3 };
	for (int round = 0; round < 2000; round++) {
		size_t digits = round % 20 == 0 ? 480 : 60;
		struct rf_rv x = random_whole(digits), y = random_whole(digits), sum, diff, product;

		MUST(rf_rn_add(&arena, x, y, &sum));
		MUST(rf_rn_sub(&arena, x, y, &diff));
		MUST(rf_rn_mul(&arena, x, y, &product));
		for (size_t i = 0; i < RF_COUNT(primes); i++) {
			__int128 m = primes[i], mx = modulo(x, primes[i]),
				 my = modulo(y, primes[i]);

			assert_true(modulo(sum, primes[i]) == (mx + my) % m);
			assert_true(modulo(diff, primes[i]) == (mx + m - my) % m);
			assert_true(modulo(product, primes[i]) == mx * my % m);
		}
		assert_int_equal(rf_rn_cmp(x, y), rf_rn_cmp(diff, rf_rv_int(0)));
		rf_arena_reset(&arena);
	}
}

static void division_multiplies_back(void **state)
{
	print_message("seed %#llx\n", (unsigned long long)SEED);
	prng = (struct rf_prng){ SEED + 4 };
	for (int round = 0; round < 3000; round++) {
		struct rf_str dx = random_digits(1 + below(400)),
			      dy = random_digits(1 + below(300));
		RF_BIG_LOCAL x, y, q, r, back;
		struct rf_rv vx, vy, rest;

		assert_true(rf_big_set_digits(&x, dx.p, dx.n));
		assert_true(rf_big_set_digits(&y, dy.p, dy.n));
		/* Words of all ones and zeros meet the rare branches. */
		for (uint32_t i = 0; i + 1 < x.n; i++)
			if (below(3) == 0)
				x.d[i] = below(2) == 0 ? 0 : UINT64_MAX;
		for (uint32_t i = 0; i + 1 < y.n; i++)
			if (below(3) == 0)
				y.d[i] = below(2) == 0 ? 0 : UINT64_MAX;
		x.negative = below(2) == 0;
		y.negative = below(2) == 0;
		assert_true(rf_big_divmod(&q, &r, &x, &y));
		assert_true(r.n == 0 || r.negative == x.negative);
		assert_true(rf_big_mul(&back, &q, &y) && rf_big_add(&back, &back, &r));
		assert_int_equal(rf_big_cmp(&back, &x), 0);
		r.negative = y.negative = false;
		assert_true(rf_big_cmp(&r, &y) < 0);

		vx = random_whole(80);
		vy = random_whole(40);
		MUST(rf_rn_rem(&arena, vx, vy, &rest));
		MUST(rf_rn_sub(&arena, vx, rest, &vx));
		MUST(rf_rn_rem(&arena, vx, vy, &rest));
		assert_int_equal(rf_rn_cmp(rest, rf_rv_int(0)), 0);
		rf_arena_reset(&arena);
	}
}

static struct rf_rv bits(char op, struct rf_rv x, struct rf_rv y)
{
	struct rf_rv r = RF_RV_NIL;

	MUST(rf_rn_bits(&arena, op, x, y, &r));
	return r;
}

static struct rf_rv plus(struct rf_rv x, struct rf_rv y)
{
	struct rf_rv r = RF_RV_NIL;

	MUST(rf_rn_add(&arena, x, y, &r));
	return r;
}

static void bits_obey_the_laws_of_twos_complement(void **state)
{
	print_message("seed %#llx\n", (unsigned long long)SEED);
	prng = (struct rf_prng){ SEED + 5 };
	for (int round = 0; round < 2000; round++) {
		struct rf_rv x = random_whole(60), y = random_whole(60),
			     k = rf_rv_int((int64_t)below(200));
		struct rf_rv both = bits('&', x, y), any = bits('|', x, y), power, back;

		assert_int_equal(rf_rn_cmp(plus(both, any), plus(x, y)), 0);
		assert_int_equal(rf_rn_cmp(plus(bits('^', x, y), both), any), 0);
		assert_int_equal(
			rf_rn_cmp(plus(bits('~', x, x), plus(x, rf_rv_int(1))), rf_rv_int(0)), 0);
		power = bits('<', rf_rv_int(1), k);
		MUST(rf_rn_mul(&arena, x, power, &back));
		assert_int_equal(rf_rn_cmp(bits('<', x, k), back), 0);
		/* x = (x >> k) * 2^k + (x & (2^k - 1)) */
		MUST(rf_rn_mul(&arena, bits('>', x, k), power, &back));
		back = plus(back, bits('&', x, plus(power, rf_rv_int(-1))));
		assert_int_equal(rf_rn_cmp(back, x), 0);
		rf_arena_reset(&arena);
	}
}

static void results_with_64_bits_read_back_the_same(void **state)
{
	print_message("seed %#llx\n", (unsigned long long)SEED);
	prng = (struct rf_prng){ SEED + 6 };
	for (int round = 0; round < 5000; round++) {
		struct rf_rv x = random_number(), y = random_number(), q, again, sum, other;

		if (rf_rn_cmp(y, rf_rv_int(0)) == 0)
			continue;
		MUST(rf_rn_div(&arena, x, y, &q));
		/* What was printed denotes the same 64 bits: dividing by one changes nothing. */
		MUST(rf_rn_div(&arena, q, rf_rv_int(1), &again));
		assert_string_equal(text_of(rf_rn_print, q), text_of(rf_rn_print, again));
		MUST(rf_rn_add(&arena, x, y, &sum));
		MUST(rf_rn_add(&arena, y, x, &other));
		assert_string_equal(text_of(rf_rn_print, sum), text_of(rf_rn_print, other));
		rf_arena_reset(&arena);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh_arena, drop_arena)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kinds_and_values_come_in_regos_order),
		TEST(numbers_are_equal_however_they_are_written),
		TEST(keys_are_found_in_objects_of_any_size),
		TEST(any_value_is_a_key_and_an_element),
		TEST(arrays_are_indexed_by_whole_numbers),
		TEST(sets_are_sorted_and_keep_the_first_of_equals),
		TEST(of_equal_keys_the_later_wins_unless_conflicts_are_asked_for),
		TEST(what_grows_is_free_of_repetitions),
		TEST(an_array_grows_as_it_is_pushed),
		TEST(a_full_arena_is_said_and_nothing_is_added),
		TEST(merging_overlays_objects_deeply),
		TEST(a_copy_owes_nothing_to_where_it_came_from),
		TEST(values_print_as_rego_prints_them),
		TEST(json_is_written_compactly_or_indented),
		TEST(types_have_opas_names),
		TEST(strings_without_escapes_are_not_copied),
		TEST(escapes_are_read),
		TEST(what_is_not_json_is_refused_with_its_place),
		TEST(every_beginning_of_a_document_is_an_error_and_no_more),
		TEST(depth_and_memory_are_capped),
		TEST(a_long_array_does_not_outgrow_a_small_arena),
		TEST(numbers_of_any_allowed_size_keep_their_text),
		TEST(codecs_tree_becomes_the_same_values),
		TEST(arithmetic_gives_what_opa_gives),
		TEST(sums_beyond_the_caps_are_refused_soon),
		TEST(text_that_json_refuses_is_still_a_number_to_to_number),
		TEST(whole_numbers_are_known_and_formatted),
		TEST(doubles_and_words_go_in_and_out),
		TEST(what_is_written_is_read_back_equal),
		TEST(comparing_is_a_total_order),
		TEST(sorting_and_growing_make_the_same_set),
		TEST(whole_numbers_agree_with_their_remainders),
		TEST(division_multiplies_back),
		TEST(bits_obey_the_laws_of_twos_complement),
		TEST(results_with_64_bits_read_back_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
