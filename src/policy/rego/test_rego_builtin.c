/* Builtins of Rego: what OPA answers to the same calls. A line is a call and what comes of it:
 *	count([1, 2]) == 2
 *	max([]) undefined
 *	div(1, 0) error div: divide by zero
 *	plus("a", 1) type plus: operand 1 must be number but got string */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>

#include <cmocka.h>

#include "policy/rego/builtin.h"
#include "policy/rego/number.h"

struct text {
	struct rf_str s;
	size_t at;
	struct rf_arena *a;
};

static void skip_space(struct text *t)
{
	while (t->at < t->s.n && t->s.p[t->at] == ' ')
		t->at++;
}

static bool next_is(struct text *t, const char *what)
{
	skip_space(t);
	if (!rf_str_starts(rf_str_skip(t->s, t->at), rf_str(what)))
		return false;
	t->at += strlen(what);
	return true;
}

static struct rf_rv value(struct text *t);

static struct rf_rv string(struct text *t)
{
	size_t from = t->at;
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v = RF_RV_NIL;

	if (t->s.p[t->at++] == '`') {
		while (t->s.p[t->at] != '`')
			t->at++;
		t->at++;
		return rf_rv_str(rf_str_n(t->s.p + from + 1, t->at - from - 2));
	}
	while (t->s.p[t->at] != '"')
		t->at += t->s.p[t->at] == '\\' ? 2 : 1;
	t->at++;
	if (rf_rv_parse_json(t->a, rf_str_n(t->s.p + from, t->at - from), &v, &err) < 0)
		fail_msg("%s: %.*s", err.msg, RF_STR(t->s));
	return v;
}

static struct rf_rv braces(struct text *t)
{
	struct rf_rv_grow g = { 0 };
	struct rf_rv v;
	bool object = false, conflict = false;

	if (next_is(t, "}"))
		return rf_rv_object(NULL, 0, NULL);
	do {
		struct rf_rv k = value(t);

		if (next_is(t, ":")) {
			object = true;
			assert_true(rf_rv_put(&g, t->a, k, value(t), &conflict));
		} else {
			assert_true(rf_rv_add(&g, t->a, k, NULL));
		}
	} while (next_is(t, ","));
	assert_true(next_is(t, "}"));
	if (!object)
		return rf_rv_grown_set(&g);
	assert_true(rf_rv_grown_object(&g, t->a, &v));
	return v;
}

static struct rf_rv value(struct text *t)
{
	struct rf_rv_grow g = { 0 };
	struct rf_rv v = RF_RV_NIL;
	size_t from;

	skip_space(t);
	if (t->s.p[t->at] == '"' || t->s.p[t->at] == '`')
		return string(t);
	if (next_is(t, "null"))
		return RF_RV_NIL;
	if (next_is(t, "true"))
		return rf_rv_bool(true);
	if (next_is(t, "false"))
		return rf_rv_bool(false);
	if (next_is(t, "set()"))
		return rf_rv_set(NULL, 0);
	if (next_is(t, "{"))
		return braces(t);
	if (next_is(t, "[")) {
		while (!next_is(t, "]")) {
			assert_true(rf_rv_push(&g, t->a, value(t)));
			next_is(t, ",");
		}
		return rf_rv_grown_array(&g);
	}
	from = t->at;
	while (t->at < t->s.n && strchr("+-.0123456789eE", t->s.p[t->at]) != NULL)
		t->at++;
	if (t->at == from)
		fail_msg("no value at %zu: %.*s", from, RF_STR(t->s));
	assert_true(rf_rn_parse(t->a, rf_str_n(t->s.p + from, t->at - from), &v));
	return v;
}

struct call {
	const struct rf_rb *b;
	struct rf_rv arg[8];
	int n;
};

static struct call parse_call(struct text *t)
{
	struct call c = { 0 };
	size_t from = t->at;

	while (t->s.p[t->at] != '(')
		t->at++;
	c.b = rf_rb_find(rf_str_n(t->s.p + from, t->at - from));
	if (c.b == NULL)
		fail_msg("no such builtin: %.*s", RF_STR(t->s));
	t->at++;
	while (!next_is(t, ")")) {
		assert_true(c.n < 8);
		c.arg[c.n++] = value(t);
		next_is(t, ",");
	}
	return c;
}

static enum rf_rb_result run(const struct call *c, struct rf_arena *a, int64_t fuel,
			     struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rb_env e = { .arena = a, .fuel = &fuel };

	return rf_rb_call(c->b, &e, c->arg, ret, err);
}

/* What came of it, written as the lines have it. */
static void answer(struct rf_buf *b, enum rf_rb_result r, struct rf_rv v, const struct rf_err *err)
{
	switch (r) {
	case RF_RB_OK:
		rf_buf_puts(b, "== ");
		rf_rv_print(b, v);
		break;
	case RF_RB_UNDEFINED:
		rf_buf_puts(b, "undefined");
		break;
	case RF_RB_TYPE:
		rf_buf_printf(b, "type %s", err->msg);
		break;
	case RF_RB_ERROR:
		rf_buf_printf(b, "error %s", err->msg);
		break;
	case RF_RB_FULL:
		rf_buf_puts(b, "full");
		break;
	}
}

static int check_line(const char *line)
{
	struct rf_arena arena = RF_ARENA_CAPPED(16 << 20);
	rf_auto(buf) got = RF_BUF_INIT;
	rf_auto(buf) want = RF_BUF_INIT;
	struct text t = { .s = rf_str(line), .a = &arena };
	struct call c = parse_call(&t);
	struct rf_rv v = RF_RV_NIL;
	struct rf_err err = RF_ERR_INIT;
	enum rf_rb_result r;
	int bad;

	if (c.n != c.b->n_args)
		fail_msg("%s takes %d: %s", c.b->name, c.b->n_args, line);
	r = run(&c, &arena, 10000000, &v, &err);
	answer(&got, r, v, &err);
	skip_space(&t);
	if (next_is(&t, "== ")) { /* in the printer's words */
		answer(&want, RF_RB_OK, value(&t), NULL);
	} else {
		rf_buf_add(&want, rf_str_skip(t.s, t.at));
	}
	bad = strcmp(got.p, want.p) != 0;
	if (bad)
		print_error("%s\n\tgot  %s\n\twant %s\n", line, got.p, want.p);
	rf_arena_done(&arena);
	return bad;
}

static void check_lines(const char *const *line, size_t n)
{
	int bad = 0;

	for (size_t i = 0; i < n; i++)
		bad += check_line(line[i]);
	assert_int_equal(bad, 0);
}
#define CHECK(lines) check_lines(lines, RF_COUNT(lines))

/* clang-format off */
static const char *const numbers[] = {
	"numbers.range(1.0, 3) == [1, 2, 3]",
	"format_int(15.9, 2) == \"1111\"",
	"format_int(-15.9, 16) == \"-f\"",
	"format_int(10, 2.0) type format_int: operand 2 must be one of {2, 8, 10, 16}",
	"format_int(1e3, 10) == \"1000\"",
	"numbers.range_step(1,5,0) error numbers.range_step: numbers.range_step: step must be a positive integer",
	"numbers.range_step(10,1,3) == [10, 7, 4, 1]",
	"numbers.range(3,-3) == [3, 2, 1, 0, -1, -2, -3]",
	"numbers.range(9223372036854775805,9223372036854775809) == [9223372036854775805, 9223372036854775806, 9223372036854775807, 9223372036854775808, 9223372036854775809]",
	"bits.lsh(1, -1) type bits.lsh: operand 2 must be an unsigned integer number but got a negative integer",
	"bits.lsh(1, 100) == 1267650600228229401496703205376",
	"bits.rsh(-5, 1) == -3",
	"bits.rsh(5, 1000000) == 0",
	"bits.negate(5) == -6",
	"bits.xor(12345678901234567890, 5) == 12345678901234567895",
	"bits.and(1.5, 1) type bits.and: operand 1 must be integer number but got floating-point number",
	"minus(1, {1}) type minus: operand 2 must be number but got set",
	"minus({1}, 1) type minus: operand 2 must be set but got number",
	"minus({1,2,3}, {2}) == {1, 3}",
	"div(1, 0) error div: divide by zero",
	"div(1, 3) == 0.33333333333333333334",
	"div(10, 4) == 2.5",
	"rem(1.5, 1) error rem: modulo on floating-point number",
	"rem(5, 0) error rem: modulo by zero",
	"rem(-5, 3) == -2",
	"mul(12345678901234567890, 3) == 37037036703703703670",
	"plus(0.1, 0.2) == 0.3",
	"round(2.5) == 3",
	"round(-2.5) == -3",
	"ceil(1.1) == 2",
	"floor(-1.1) == -2",
	"abs(-5) == 5",
	"format_int(255, 16) == \"ff\"",
	"format_int(-255, 2) == \"-11111111\"",
	"format_int(18446744073709551617, 16) == \"10000000000000001\"",
	"format_int(5, 3) type format_int: operand 2 must be one of {2, 8, 10, 16}",
	"bits.and(\"a\", 1) type bits.and: operand 1 must be integer but got string",
	"numbers.range(\"a\", 1) type numbers.range: operand 1 must be integer but got string",
	"plus(null, 1) type plus: operand 1 must be number but got null",
	"minus(null, 1) type minus: operand 1 must be one of {number, set} but got null",
	"minus(1, null) type minus: operand 2 must be number but got null",
	"minus({1}, null) type minus: operand 2 must be number but got null",
	"format_int(\"1\", 1) type format_int: operand 1 must be number but got string",
	"numbers.range(0, 1000000000000) full",
	"numbers.range(0, 99999999999999999999999999) full",
	"bits.lsh(1, 100000000) full",
	"bits.lsh(1, 99999999999999999999) full",
	"bits.rsh(-1, 99999999999999999999) == -1",
	"floor(1.01) == 1",
	"floor(1.5) == 1",
	"floor(99.99999) == 99",
	"floor(1) == 1",
	"floor(-1.001) == -2",
	"numbers.range(1, 10) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
	"numbers.range(3.14, 4) type numbers.range: operand 1 must be integer number but got floating-point number",
	"numbers.range(3, 3.14) type numbers.range: operand 2 must be integer number but got floating-point number",
	"numbers.range(0, 1) == [0, 1]",
	"numbers.range_step(0, 10, 2) == [0, 2, 4, 6, 8, 10]",
	"numbers.range_step(0, -10, 2) == [0, -2, -4, -6, -8, -10]",
	"numbers.range_step(10, 3, 2) == [10, 8, 6, 4]",
	"numbers.range_step(0, 10, -2) error numbers.range_step: numbers.range_step: step must be a positive integer",
	"numbers.range_step(1024, 4096, 1024) == [1024, 2048, 3072, 4096]",
	"numbers.range_step(2, 2, 2) == [2]",
	"numbers.range_step(2, 5, 2) == [2, 4]",
	"numbers.range_step(0, 10, 99999999999999999999) == [0]",
	"numbers.range(1, 3) == [1, 2, 3]",
	"numbers.range(1, 5) == [1, 2, 3, 4, 5]",
	"format_int(15.5, 16) == \"f\"",
	"format_int(4.1, 199) type format_int: operand 2 must be one of {2, 8, 10, 16}",
	"format_int(18446744073709551617, 10) == \"18446744073709551617\"",
	"format_int(18446744073709551617, 8) == \"2000000000000000000001\"",
	"format_int(18446744073709551617, 2) == \"10000000000000000000000000000000000000000000000000000000000000001\"",
	"format_int(-18446744073709551617, 16) == \"-10000000000000001\"",
	"format_int(-18446744073709551617, 10) == \"-18446744073709551617\"",
	"format_int(15.9, 16) == \"f\"",
	"numbers.range(1,1) == [1]",
	"abs(-10) == 10",
	"ceil(1.01) == 2",
	"ceil(1.5) == 2",
	"ceil(2222.2222222222) == 2223",
	"ceil(1) == 1",
	"ceil(-1.99999) == -1",
	"floor(13.37) == 13",
	"numbers.range(1,100) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100]",
};

static void test_numbers(void **state)
{
	(void)state;
	CHECK(numbers);
}

static const char *const collections[] = {
	"and({1,2,3}, {2,5}) == {2}",
	"or({1,2,3}, {2,5}) == {1, 2, 3, 5}",
	"sum([1,2.5,3]) == 6.5",
	"sum({1,2}) == 3",
	"sum([]) == 0",
	"product([2,3.5]) == 7",
	"product([]) == 1",
	"max([3,1,2]) == 3",
	"max([]) undefined",
	"min({3,1}) == 1",
	"sort([3,1,\"a\",null,[1],{\"a\":1}]) == [null, 1, 3, \"a\", [1], {\"a\": 1}]",
	"count(\"añb\") == 3",
	"count({1,2}) == 2",
	"all([true,true]) == true",
	"all([]) == true",
	"any([false,true]) == true",
	"any([]) == false",
	"internal.member_2(1, [1,2]) == true",
	"internal.member_2(\"a\", {\"k\":\"a\"}) == true",
	"internal.member_3(\"k\", \"a\", {\"k\":\"a\"}) == true",
	"internal.member_3(0, \"a\", [\"a\"]) == true",
	"internal.member_3(\"a\", \"a\", {\"a\"}) == true",
	"count(1) type count: operand 1 must be one of {array, object, set, string} but got number",
	"sum(1) type sum: operand 1 must be one of {set, array} but got number",
	"sum([1, \"a\"]) type sum: operand 1 must be array of numbers but got array containing string",
	"max(\"a\") type max: operand 1 must be one of {set, array} but got string",
	"sort(1) type sort: operand 1 must be one of {set, array} but got number",
	"all(1) type all: operand 1 must be one of {array, set} but got number",
	"and({1}, [1]) type and: operand 2 must be set but got array",
	"sum([1, 2, 3, 4]) == 10",
	"sum({1, 2, 3, 4}) == 10",
	"product({1, 2, 3, 4}) == 24",
	"max([1, 2, 3, 4]) == 4",
	"max({1, 2, 3, 4}) == 4",
	"min([1, 2, 3, 4]) == 1",
	"min([1, 2, 1, 3, 4]) == 1",
	"min([3, 2, 1, 4, 6, -7, 10]) == -7",
	"min({1, 2, 3, 4}) == 1",
	"sort([4, 3, 2, 1]) == [1, 2, 3, 4]",
	"sort({1, 2, 3, 4}) == [1, 2, 3, 4]",
	"count(\"abcde\") == 5",
	"count(\"åäö\") == 3",
	"count(\"not an array\") == 12",
	"count([1, 2, 3]) == 3",
	"count([]) == 0",
	"count([{}, {\"foo\": 3}]) == 2",
	"count(\"foo\") == 3",
	"count(null) type count: operand 1 must be one of {array, object, set, string} but got null",
	"count(5) type count: operand 1 must be one of {array, object, set, string} but got number",
};

static void test_collections(void **state)
{
	(void)state;
	CHECK(collections);
}

static const char *const types[] = {
	"to_number(\"1_000\") == 1000",
	"to_number(\"+1\") == 1",
	"to_number(\".5\") == 0.5",
	"to_number(\"abc\") error to_number: strconv.ParseFloat: parsing \"abc\": invalid syntax",
	"to_number(\"1e400\") error to_number: strconv.ParseFloat: parsing \"1e400\": value out of range",
	"to_number(\"\") error to_number: strconv.ParseFloat: parsing \"\": invalid syntax",
	"to_number(\" 1\") error to_number: strconv.ParseFloat: parsing \" 1\": invalid syntax",
	"to_number(\"Inf\") type to_number: operand 1 must be valid number string but got string",
	"to_number(\"007\") == 7",
	"to_number(\"5.\") == 5",
	"type_name(set()) == \"set\"",
	"to_number(\"12.50\") == 12.50",
	"to_number(true) == 1",
	"to_number(null) == 0",
	"cast_array({1,2}) == [1, 2]",
	"cast_set([2,1,2]) == {1, 2}",
	"to_number([]) type to_number: operand 1 must be one of {null, boolean, number, string} but got array",
	"cast_object(1) type cast_object: operand 1 must be object but got number",
	"to_number(\"-42.0\") == -42.0",
	"to_number(false) == 0",
	"to_number(100.1) == 100.1",
	"to_number(\"foo\") error to_number: strconv.ParseFloat: parsing \"foo\": invalid syntax",
	"is_array(\"not an array\") == false",
	"is_number(-42.0) == true",
	"is_number(0) == true",
	"is_number(100.1) == true",
	"is_number(null) == false",
	"is_number(false) == false",
	"is_string(\"Hello\") == true",
	"is_string(\"There\") == true",
	"is_string(\"OPA\") == true",
	"is_string(null) == false",
	"is_string(false) == false",
	"is_boolean(true) == true",
	"is_boolean(false) == true",
	"is_boolean(null) == false",
	"is_boolean(\"Hello\") == false",
	"is_array([1, 2, 3]) == true",
	"is_array([\"a\", \"b\"]) == true",
	"is_array({1, 2, 3}) == false",
	"is_set({1, 2, 3}) == true",
	"is_set({\"a\", \"b\"}) == true",
	"is_set([1, 2, 3]) == false",
	"is_object(\"foo\") == false",
	"is_null(null) == true",
	"is_null(true) == false",
	"type_name(null) == \"null\"",
	"type_name(true) == \"boolean\"",
	"type_name(100) == \"number\"",
	"type_name(\"Hello\") == \"string\"",
	"type_name([1, 2, 3]) == \"array\"",
	"type_name({1, 2, 3}) == \"set\"",
	"is_string(\"00000000-0000-4000-8000-000000000000\") == true",
	"cast_null(null) == null",
	"cast_null({}) type cast_null: operand 1 must be null but got object",
	"cast_string([1, 2, 3]) type cast_string: operand 1 must be string but got array",
	"cast_boolean(false) == false",
	"cast_boolean(1) type cast_boolean: operand 1 must be boolean but got number",
	"cast_object({}) == {}",
	"cast_object([1, 2, 3]) type cast_object: operand 1 must be object but got array",
	"cast_array([1, 2, 3]) == [1, 2, 3]",
	"cast_array({1, 2, 3}) == [1, 2, 3]",
	"cast_array(\"hello\") type cast_array: operand 1 must be one of {array, set} but got string",
	"cast_set([1, 1, 1]) == {1}",
	"cast_set({1, 2, 3}) == {1, 2, 3}",
	"cast_set(\"hello\") type cast_set: operand 1 must be one of {array, set} but got string",
};

static void test_types(void **state)
{
	(void)state;
	CHECK(types);
}

static const char *const sprintf_lines[] = {
	"sprintf(\"%d %s %v %f\", [1e3, 1e3, 1e3, 1.5]) == \"%!d(float64=1000) %!s(float64=1000) 1000 1.500000\"",
	"sprintf(\"%v|%v|%v|%v\", [1.0, 10000000000000000000000.0, 0.000001, 100000000.5]) == \"1|1e+22|1e-06|1.000000005e+08\"",
	"sprintf(\"%v\", [123456789.0]) == \"1.23456789e+08\"",
	"sprintf(\"%v\", [-0]) == \"0\"",
	"sprintf(\"%d\", [\"hi\"]) == \"%!d(string=hi)\"",
	"sprintf(\"%d %d\", [1]) == \"1 %!d(MISSING)\"",
	"sprintf(\"%d\", [1, \"x\", 2.5, 12345678901234567890]) == \"1%!(EXTRA string=x, float64=2.5, *big.Int=12345678901234567890)\"",
	"sprintf(\"%!\", [1]) == \"%!!(int64=1)\"",
	"sprintf(\"%\", []) == \"%!(NOVERB)\"",
	"sprintf(\"%z %t\", [1, true]) == \"%!z(int64=1) %!t(string=true)\"",
	"sprintf(\"%5d|%-5s|%05d|%+d|%x|%X|%q|%e|%g|%T|%T|%T|%T\", [1,\"ab\",3,4,255,\"hi\",\"q\\n\",1.5,2.5,1,\"a\",1.5,12345678901234567890]) == \"    1|ab   |00003|+4|ff|6869|\\\"q\\\\n\\\"|1.500000e+00|2.5|int64|string|float64|*big.Int\"",
	"sprintf(\"%[2]d %[1]d %[3]d\", [1,2]) == \"2 1 %!d(BADINDEX)\"",
	"sprintf(\"%*d|%.*f|%.2f|%6.2f|%-8.3f|\", [5, 3, 2, 1.23456, 1.23456,1.23456,1.23456]) == \"    3|1.23|1.23|  1.23|1.235   |\"",
	"sprintf(\"%1000000000d\", [1]) == \"%!(NOVERB)%!(EXTRA int64=1)\"",
	"sprintf(\"%q %q %#q %+q\", [65, \"é\", \"abc\", \"é\"]) == \"'A' \\\"é\\\" `abc` \\\"\\\\u00e9\\\"\"",
	"sprintf(\"%c %U %#U %b %o %#o %O %#x\", [233, 233, 233, 5, 8, 8, 8, 255]) == \"é U+00E9 U+00E9 'é' 101 10 010 0o10 0xff\"",
	"sprintf(\"%x %X % x %#x\", [\"hello\", \"hello\", \"hello\", \"hello\"]) == \"68656c6c6f 68656C6C6F 68 65 6c 6c 6f 0x68656c6c6f\"",
	"sprintf(\"%p %p\", [1,\"a\"]) == \"%!p(int64=1) %!p(string=a)\"",
	"sprintf(\"%#v %#v %#v %#v\", [1, \"a\", 1.5, 12345678901234567890]) == \"1 \\\"a\\\" 1.5 12345678901234567890\"",
	"sprintf(\"%d\", [1.5]) == \"%!d(float64=1.5)\"",
	"sprintf(\"%s\", [1.5]) == \"%!s(float64=1.5)\"",
	"sprintf(\"%s\", [{\"a\":1}]) == \"{\\\"a\\\": 1}\"",
	"sprintf(\"%v %v %v\", [null, true, {1,2}]) == \"null true {1, 2}\"",
	"sprintf(\"%d\", [null]) == \"%!d(string=null)\"",
	"sprintf(\"%6.2v|%.3v|%10v|%-10v|%010v\", [1.2345, \"abcdef\", 5, 5, -5]) == \"   1.2|abc|         5|5         |-000000005\"",
	"sprintf(\"%05s|%+v|%#v|% d|%x|%X\", [\"ab\", 5, \"q\\\"\", 7, -255, -255]) == \"000ab|5|\\\"q\\\\\\\"\\\"| 7|-ff|-FF\"",
	"sprintf(\"%3c|%-4q|%#q|%#U|%08.3f|%+.2e|%G|%b\", [65, 66, \"a`b\", 128512, -3.14159, 12345.678, 1234567.5, 1.5]) == \"  A|'B' |\\\"a`b\\\"|U+1F600 '😀'|-003.142|+1.23e+04|1.2345675E+06|6755399441055744p-52\"",
	"sprintf(\"%x %X %.3x\", [3.5, 3.5, \"hello\"]) == \"0x1.cp+01 0X1.CP+01 68656c\"",
	"sprintf(\"%[1]d %[1]v %d\", [5, 6]) == \"5 5 6\"",
	"sprintf(\"%[3]*.[2]*[1]f|\", [12.5, 2, 8]) == \"   12.50|\"",
	"sprintf(\"%-010d|%+05d|%+x|%#o|%#b\", [42, 42, 255, 8, 5]) == \"42        |+0042|+ff|010|0b101\"",
	"sprintf(\"%.0d|%.3d|%5.3d|%-5.3d|\", [0, 7, 7, 7]) == \"|007|  007|007  |\"",
	"sprintf(\"%#O %O\", [8, 8]) == \"0o010 0o10\"",
	"sprintf(\"%5t|%5d|%w\", [\"x\", \"hi\", 1]) == \"%!t(string=    x)|%!d(string=   hi)|%!w(int64=1)\"",
	"sprintf(\"%v %v %v %v\", [1.5e10, 1.0e-5, 123456.0, 1234567.0]) == \"1.5e+10 1e-05 123456 1.234567e+06\"",
	"sprintf(\"%6.2f%%\", [99.5]) == \" 99.50%\"",
	"sprintf(\"%!d %é\", [1, 2]) == \"%!!(int64=1)d %!é(int64=2)\"",
	"sprintf(\"%*d\", [\"x\", 1]) == \"%!(BADWIDTH)1\"",
	"sprintf(\"%.*d\", [\"x\", 1]) == \"%!(BADPREC)1\"",
	"sprintf(\"%-*d|\", [-5, 1]) == \"1    |\"",
	"sprintf(\"%s %s\", [[\"a\", 1], {\"x\": {1}}]) == \"[\\\"a\\\", 1] {\\\"x\\\": {1}}\"",
	"sprintf(\"%+q %q\", [\"日本\", \"日本\\u0000\\u007f\"]) == \"\\\"\\\\u65e5\\\\u672c\\\" \\\"日本\\\\x00\\\\x7f\\\"\"",
	"sprintf(\"%.2s|%.10s|%5.1s\", [\"日本語\", \"ab\", \"日本\"]) == \"日本|ab|    日\"",
	"sprintf(\"a\", 1) type sprintf: operand 2 must be array but got number",
	"sprintf(\"%s\", [123456789123456789123]) == \"123456789123456789123\"",
	"sprintf(\"%s\", [1208925819614629174706175]) == \"1208925819614629174706175\"",
	"sprintf(\"hi\", []) == \"hi\"",
	"sprintf(\"hi %s\", [\"there\"]) == \"hi there\"",
	"sprintf(\"hi %02d\", [5]) == \"hi 05\"",
	"sprintf(\"hi %02X.%02X\", [127, 1]) == \"hi 7F.01\"",
	"sprintf(\"hi %.2f\", [3.1415]) == \"hi 3.14\"",
	"sprintf(\"hi %v\", [2e308]) == \"hi 2e308\"",
	"sprintf(\"hi %s\", [true]) == \"hi true\"",
	"sprintf(\"hi %v\", [[\"there\", 5, 3.14]]) == \"hi [\\\"there\\\", 5, 3.14]\"",
	"sprintf(\"x\", []) == \"x\"",
};

static void test_sprintf(void **state)
{
	(void)state;
	CHECK(sprintf_lines);
}

static const char *const templates[] = {
	"strings.render_template(\"{{.a.b}} {{.x}}\", {\"a\":{\"b\":1.5}, \"x\":[1,\"a\",{\"k\":null}]}) == \"1.5 [1 a map[k:<nil>]]\"",
	"strings.render_template(\"{{.a\", {\"a\":1}) error strings.render_template: template: template:1: unclosed action",
	"strings.render_template(\"{{ 1 }}\", {}) == \"1\"",
	"strings.render_template(\"{{.a | printf \\\"%q %v\\\"}}\", {}) == \"%!q(<nil>) %!v(MISSING)\"",
	"strings.render_template(\"{{printf \\\"%d|%v|%T\\\" .a .a .a}}\", {\"a\":null}) == \"%!d(<nil>)|<nil>|<nil>\"",
	"strings.render_template(\"{{range .a}}{{.}}{{else}}none{{end}}\", {\"a\":[]}) == \"none\"",
	"strings.render_template(\"{{.}}\", {\"a\":1, \"b\":[1,2], \"c\":\"x\", \"d\":1e3, \"e\":null, \"f\":true}) == \"map[a:1 b:[1 2] c:x d:1e3 e:<nil> f:true]\"",
	"strings.render_template(true, {}) type strings.render_template: operand 1 must be string but got boolean",
	"internal.template_string([\"a \", {1}, \" b \", set(), {\"s\"}, null, 1.5, true, {[1, 2]}]) == \"a 1 b <undefined>snull1.5true[1, 2]\"",
	"internal.template_string([{1, 2}]) error internal.template_string: template-strings must not produce multiple outputs",
	"internal.template_string([]) == \"\"",
	"internal.print([{1}]) == true",
	"trace(\"note\") == true",
	"strings.render_template(\"a {{- .x -}} b\", {\"x\":\"y\"}) == \"ayb\"",
	"strings.render_template(\"{{/* c */}}x{{- /* d */ -}} y\", {}) == \"xy\"",
	"strings.render_template(\"{{if .a}}yes{{else if .b}}b{{else}}no{{end}}\", {\"a\":false,\"b\":true}) == \"b\"",
	"strings.render_template(\"{{if .n}}yes{{else}}no{{end}}\", {\"n\":0}) == \"yes\"",
	"strings.render_template(\"{{with .a}}{{.b}}{{$.c}}{{else}}none{{end}}\", {\"a\":{\"b\":1},\"c\":2}) == \"12\"",
	"strings.render_template(\"{{range $k, $v := .m}}{{$k}}={{$v}};{{end}}\", {\"m\":{\"b\":1,\"a\":[1,2]}}) == \"a=[1 2];b=1;\"",
	"strings.render_template(\"{{range .l}}{{if eq . `b`}}{{continue}}{{end}}{{if eq . `d`}}{{break}}{{end}}{{.}}{{end}}\", {\"l\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}) == \"ac\"",
	"strings.render_template(\"{{len .l}} {{index .l 1}} {{index .m `k`}}\", {\"l\":[1,2,3],\"m\":{\"k\":\"v\"}}) == \"3 2 v\"",
	"strings.render_template(\"{{printf `%s-%v-%d` .a .b 3}}\", {\"a\":\"x\",\"b\":1.5}) == \"x-1.5-3\"",
	"strings.render_template(\"{{.a | printf `<%s>` | len}}\", {\"a\":\"x\"}) == \"3\"",
	"strings.render_template(\"{{print 1 2 `a` `b` 3}} {{println .a}}\", {\"a\":\"x\"}) == \"1 2ab3 x\\n\"",
	"strings.render_template(\"{{and .a .b}} {{or .z .b}} {{not .a}}\", {\"a\":\"x\",\"b\":\"y\"}) == \"y y false\"",
	"strings.render_template(\"{{eq .a .b}} {{ne .a .b}} {{lt .a .b}} {{le 1 1}} {{gt 2 1}} {{ge 1 2}}\", {\"a\":\"x\",\"b\":\"y\"}) == \"false true true true true false\"",
	"strings.render_template(\"{{eq .a 1}}\", {\"a\":1}) error strings.render_template: template: template:1:2: executing \"template\" at <eq .a 1>: error calling eq: incompatible types for comparison: json.Number and int",
	"strings.render_template(\"{{$x := .a}}{{$x}}{{$x = `q`}}{{$x}}\", {\"a\":1}) == \"1q\"",
	"strings.render_template(\"{{(index .l 0).k}}\", {\"l\":[{\"k\":\"deep\"}]}) == \"deep\"",
	"strings.render_template(\"{{.a.b.c}}\", {}) == \"<undefined>\"",
	"strings.render_template(\"{{.n}} {{.l}}\", {\"n\":null,\"l\":[null,{\"a\":null}]}) == \"<undefined> [<nil> map[a:<nil>]]\"",
	"strings.render_template(\"{{end}}\", {}) error strings.render_template: template: template:1: unexpected {{end}}",
	"strings.render_template(\"{{if .a}}x\", {\"a\":1}) error strings.render_template: template: template:1: unexpected EOF",
	"strings.render_template(\"{{}}\", {}) error strings.render_template: template: template:1: missing value for command",
	"strings.render_template(\"{{range .a}}{{end}}\", {\"a\":\"str\"}) error strings.render_template: template: template:1:8: executing \"template\" at <.a>: range can't iterate over str",
	"strings.render_template(\"{{range $i, $e := .l}}{{if gt $i 0}}, {{end}}{{$i}}:{{$e}}{{end}}\", {\"l\":[\"a\",\"b\"]}) == \"0:a, 1:b\"",
	"strings.render_template(\"{{index .l 5}}\", {\"l\":[1]}) error strings.render_template: template: template:1:2: executing \"template\" at <index .l 5>: error calling index: index out of range: 5",
	"strings.render_template(\"{{len .n}}\", {\"n\":123}) == \"3\"",
	"strings.render_template(\"{{range 3}}{{.}}{{end}}\", {}) == \"012\"",
	"strings.render_template(\"{{eq .a .b .c}}\", {\"a\":\"1\",\"b\":\"2\",\"c\":\"1\"}) == \"true\"",
	"strings.render_template(\"no actions }} {\", {}) == \"no actions }} {\"",
	"strings.render_template(\"{{if and .a (not .b)}}y{{end}}\", {\"a\":true,\"b\":false}) == \"y\"",
	"strings.render_template(\"{{with $x := .a}}{{$x}}{{end}}\", {\"a\":\"v\"}) == \"v\"",
};

static void test_templates(void **state)
{
	(void)state;
	CHECK(templates);
}

static const char *const regex[] = {
	"re_match(\"a+\", \"baa\") == true",
	"regex.match(\"[a\", \"a\") error regex.match: error parsing regexp: missing closing ]: `[a`",
	"regex.match(\"(a\", \"a\") error regex.match: error parsing regexp: missing closing ): `(a`",
	"regex.match(\"a)\", \"a\") error regex.match: error parsing regexp: unexpected ): `a)`",
	"regex.match(\"*a\", \"a\") error regex.match: error parsing regexp: missing argument to repetition operator: `*`",
	"regex.match(\"a**\", \"a\") error regex.match: error parsing regexp: invalid nested repetition operator: `**`",
	"regex.match(\"a{1001}\", \"a\") error regex.match: error parsing regexp: invalid repeat count: `{1001}`",
	"regex.match(`\\C`, \"a\") error regex.match: error parsing regexp: invalid escape sequence: `\\C`",
	"regex.match(`(?<n>a)`, \"a\") == true",
	"regex.match(`\\8`, \"a\") error regex.match: error parsing regexp: invalid escape sequence: `\\8`",
	"regex.match(\"[z-a]\", \"a\") error regex.match: error parsing regexp: invalid character class range: `z-a`",
	"regex.match(\"[[:foo:]]\", \"a\") error regex.match: error parsing regexp: invalid character class range: `[:foo:]`",
	"regex.match(`a\\`, \"a\") error regex.match: error parsing regexp: trailing backslash at end of expression: ``",
	"regex.match(\"(?z)\", \"a\") error regex.match: error parsing regexp: invalid or unsupported Perl syntax: `(?z`",
	"regex.match(\"(?P<n\", \"a\") error regex.match: error parsing regexp: invalid named capture: `(?P<n`",
	"regex.match(\"(?=a)\", \"a\") error regex.match: error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
	"regex.match(`\\pX`, \"a\") error regex.match: error parsing regexp: invalid character class range: `\\pX`",
	"regex.match(`^[0-9]+(\\.[0-9]+)?$`, \"1.5\") == true",
	"regex.is_valid(\"[a\") == false",
	"regex.is_valid(\"a+\") == true",
	"regex.find_n(\"[oa]+\", \"foo bar baz\", -1) == [\"oo\", \"a\", \"a\"]",
	"regex.find_n(\"[oa]+\", \"foo bar baz\", 2) == [\"oo\", \"a\"]",
	"regex.find_n(\"a*\", \"baaac\", -1) == [\"\", \"aaa\", \"\"]",
	"regex.find_n(\"\", \"añb\", -1) == [\"\", \"\", \"\", \"\"]",
	"regex.find_n(\"a\", \"b\", 1) == []",
	"regex.find_n(\"^a\", \"aaa\", -1) == [\"a\"]",
	"regex.find_n(`\\b`, \"ab cd\", -1) == [\"\", \"\", \"\", \"\"]",
	"regex.find_all_string_submatch_n(\"-(x*)-(y|z)?-\", \"-xxx--ab-\", -1) == [[\"-xxx--\", \"xxx\", \"\"]]",
	"regex.find_all_string_submatch_n(\"a(x)?b\", \"axb-ab\", -1) == [[\"axb\", \"x\"], [\"ab\", \"\"]]",
	"regex.split(\"a*\", \"baaac\") == [\"b\", \"c\"]",
	"regex.split(\"a\", \"\") == [\"\"]",
	"regex.split(\"\", \"abc\") == [\"a\", \"b\", \"c\"]",
	"regex.split(\"/\", \"foo/bar/\") == [\"foo\", \"bar\", \"\"]",
	"regex.replace(\"foobar\", \"o+(b)\", \"<$1${0}$$ $x ${1}x $1x ${\") == \"f<boob$  bx  ${ar\"",
	"regex.replace(\"-wy-wxxy-\", \"w(?P<xs>x*)y\", \"[${xs}]\") == \"-[]-[xx]-\"",
	"regex.replace(\"abc\", \"x*\", \"-\") == \"-a-b-c-\"",
	"regex.replace(\"foo\", \"^[a-z]\", \"F\") == \"Foo\"",
	"regex.template_match(\"urn:foo:{.*}\", \"urn:foo:bar:baz\", \"{\", \"}\") == true",
	"regex.template_match(\"urn:foo.:{[a-z]+}\", \"urn:foox:bar\", \"{\", \"}\") == false",
	"regex.template_match(\"urn:foo:{.*}\", \"urn:foo:bar\", \"{\", \"}}\") error regex.template_match: end delimiter has to be exactly one character long but is 1 long",
	"regex.template_match(\"urn:foo:{.*\", \"urn:foo:bar\", \"{\", \"}\") error regex.template_match: unbalanced braces in \"urn:foo:{.*\"",
	"regex.template_match(\"a<[a>\", \"a\", \"<\", \">\") error regex.template_match: error parsing regexp: missing closing ]: `[a$`",
	"regex.globs_match(\"a.[\", \"b\") error regex.globs_match: input:a.[, pos:3, found [ without matching ]: the input provided is invalid",
	"regex.globs_match(\"*a\", \"b\") error regex.globs_match: input:*a, pos:1, flag '*' must be preceded by a non-flag: the input provided is invalid",
	"regex.globs_match(\"a]\", \"b\") error regex.globs_match: input:a], pos:2, set-close ']' with no preceding '[': the input provided is invalid",
	"regex.globs_match(\"a[c-a]\", \"b\") error regex.globs_match: input:a[c-a], pos:5, range is out of order: 'a' comes before 'c' in Unicode: the input provided is invalid",
	"regex.globs_match(\"a\\\\\", \"b\") error regex.globs_match: input:a\\, pos:1, input ends with a \\ (escape) character: the input provided is invalid",
	"regex.globs_match(\"a[-a]\", \"b\") error regex.globs_match: input:a[-a], pos:3, range character '-' must be preceded by a Unicode character: the input provided is invalid",
	"regex.globs_match(\"\", \"\") == true",
	"regex.globs_match(\"a*\", \"b*\") == false",
	"regex.globs_match(\"a.a.[0-9]+z\", \"b.b.[0-9]+z\") == false",
	"regex.globs_match(\"[a-z]+-[0-9]*\", \"b-[0-9]+\") == true",
	"regex.is_valid(1) == false",
	"regex.match(1, \"a\") type regex.match: operand 1 must be string but got number",
	"regex.match(\"((((a{10}){10}){10}){10})\", \"a\") error regex.match: error parsing regexp: invalid repeat count: `{10}`",
	"regex.globs_match(\"[a-z]+\", \"[0-9]*\") == false",
	"regex.globs_match(\"pqrs]\", \"[a-b]+\") error regex.globs_match: input:pqrs], pos:5, set-close ']' with no preceding '[': the input provided is invalid",
	"regex.globs_match(`[a-z]+\\[[0-9]+\\]`, \"foo\\\\[1\\\\]\") == true",
	"regex.globs_match(`[a-z]+\\[[0-9]+\\]`, \"foo[\\\"bar\\\"]\") == false",
	"regex.find_n(\"a.\", \"paranormal\", -1) == [\"ar\", \"an\", \"al\"]",
	"regex.find_n(\"a.\", \"paranormal\", 2) == [\"ar\", \"an\"]",
	"regex.find_n(\"a.\", \"paranormal\", 0) == []",
	"regex.find_n(\"^a.\", \"abacadaeaf\", -1) == [\"ab\"]",
	"regex.find_n(\".$\", \"abacadaeaf\", -1) == [\"f\"]",
	"regex.find_n(\"[abcdef]{2}\", \"abacadaeaf\", -1) == [\"ab\", \"ac\", \"ad\", \"ae\", \"af\"]",
	"regex.find_all_string_submatch_n(\"^.*$\", \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabc\", -1) == [[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabc\"]]",
	"regex.is_valid(`++`) == false",
	"regex.is_valid(`.+`) == true",
	"regex.match(\"^[a-z]+\\\\[[0-9]+\\\\]$\", \"foo[1]\") == true",
	"regex.match(\"^$\", \"\") == true",
	"regex.match(\"\", \"\") == true",
	"regex.match(\"\", \"x\") == true",
	"regex.match(\"^$\", \"something\") == false",
	"regex.match(\"$^[[[\", \"something\") error regex.match: error parsing regexp: missing closing ]: `[[[`",
	"regex.replace(\"-wy-wxxy-\", \"w(x*)y\", \"0\") == \"-0-0-\"",
	"regex.replace(\"foo\", \"(foo)\", \"$1$1\") == \"foofoo\"",
	"regex.replace(\"foo\", \"[\", \"$1\") error regex.replace: error parsing regexp: missing closing ]: `[`",
	"regex.replace(\"foo\", \"^[a-z]$\", \"F\") == \"foo\"",
	"regex.replace(\"foo\", \"^[a-z]+$\", \"M\") == \"M\"",
	"regex.replace(\"foo\", \"[a-z]$\", \"F\") == \"foF\"",
	"regex.replace(\"foo\", \"x[a-z]$\", \"F\") == \"foo\"",
	"regex.replace(\"foo bar\", \"[a-z]\", \"_\") == \"___ ___\"",
	"regex.replace(\"foo barx\", \"[a-z]{3}\", \"_\") == \"_ _x\"",
	"regex.replace(\"foo barx\", \"[a-z]{2}\", \"_\") == \"_o __\"",
	"regex.split(\"^[a-z]+\\\\[[0-9]+\\\\]$\", \"\") == [\"\"]",
	"regex.split(\"^[a-z]+\", \"foobar baz\") == [\"\", \" baz\"]",
	"regex.split(\"[a-z]+$\", \"foobar baz\") == [\"foobar \", \"\"]",
	"regex.split(\"^[a-z]+$\", \"foobar baz\") == [\"foobar baz\"]",
	"regex.split(\"^[a-z ]+$\", \"foobar baz\") == [\"\", \"\"]",
	"re_match(\"^[a-z]+\\\\[[0-9]+\\\\]$\", \"foo[1]\") == true",
	"re_match(\"^[a-z]+\\\\[[0-9]+\\\\]$\", \"foo[\\\"bar\\\"]\") == false",
	"re_match(\"][\", \"foo[\\\"bar\\\"]\") error re_match: error parsing regexp: missing closing ]: `[`",
	"re_match(`^[a-z]+\\[[0-9]+\\]$`, \"foo[1]\") == true",
	"re_match(`^[a-z]+\\[[0-9]+\\]$`, \"foo[\\\"bar\\\"]\") == false",
};

static void test_regex(void **state)
{
	(void)state;
	CHECK(regex);
}

static const char *const globs[] = {
	"glob.match(\"a\", [\"ab\"], \"a\") type glob.match: operand 2 must be array of runes but got array containing string",
	"glob.match(\"[\", [], \"a\") error glob.match: unexpected end of input",
	"glob.match(\"[a\", [], \"a\") error glob.match: unexpected end of input",
	"glob.match(\"[]\", [], \"a\") error glob.match: could not parse range",
	"glob.match(\"[c-a]\", [], \"a\") error glob.match: hi character 'a' should be greater than lo 'c'",
	"glob.match(\"[a-cx]\", [], \"a\") error glob.match: expected close range character",
	"glob.match(\"*.github.com\", [\".\"], \"api.github.com\") == true",
	"glob.match(\"*.github.com\", [\".\"], \"api.cdn.github.com\") == false",
	"glob.match(\"*hub.com\", null, \"api.cdn.github.com\") == true",
	"glob.match(\"**.github.com\", [], \"api.cdn.github.com\") == true",
	"glob.match(\"{cat,bat,[fr]at}\", [\".\"], \"rat\") == true",
	"glob.match(\"{a,b*\", [], \"bcd\") error glob.match: unclosed `{`",
	"glob.match(\"a\\\\\", [], \"a\") error glob.match: trailing backslash",
	"glob.match(\"[!a-c]at\", [], \"dat\") == true",
	"glob.match(\"\\\\*x\", [], \"*x\") == true",
	"glob.match(\"a?c\", [\"b\"], \"abc\") == false",
	"glob.quote_meta(\"*.github.com{}[]!?\") == \"\\\\*.github.com\\\\{\\\\}\\\\[\\\\]!\\\\?\"",
	"glob.match(\"a\", 1, \"a\") type glob.match: operand 2 must be one of {array, null} but got number",
	"glob.match(\"a\", [1], \"a\") type glob.match: operand 2 must be array of strings but got array containing number",
	"glob.match(\"api.**.com\", [\".\"], \"api.cdn.github.com\") == true",
	"glob.match(\"*.github.com\", [\".\"], \"api.not-github.com\") == false",
	"glob.match(\"[abc]at\", [], \"cat\") == true",
	"glob.match(\"[abc]at\", [], \"fat\") == false",
	"glob.match(\"[!abc]at\", [], \"fat\") == true",
	"glob.match(\"[!abc]at\", [], \"cat\") == false",
	"glob.match(\"[a-c]at\", [], \"bat\") == true",
	"glob.match(\"[a-c]at\", [], \"fat\") == false",
	"glob.match(\"[!a-c]at\", [], \"bat\") == false",
	"glob.match(\"[!a-c]at\", [], \"fat\") == true",
	"glob.match(\"?at\", [], \"fat\") == true",
	"glob.match(\"?at\", [], \"at\") == false",
	"glob.match(\"?at\", [\"f\"], \"fat\") == false",
	"glob.match(\"{cat,bat,[fr]at}\", [], \"cat\") == true",
	"glob.match(\"{cat,bat,[fr]at}\", [], \"rat\") == true",
	"glob.match(\"{cat,bat,[fr]at}\", [], \"at\") == false",
	"glob.match(\"*\", [\".\"], \"foo\") == true",
	"glob.match(\"*\", [], \"foo\") == true",
	"glob.match(\"*\", [\".\"], \"foo.bar\") == false",
	"glob.match(\"*\", [], \"foo.bar\") == false",
	"glob.match(\"*\", null, \"foo.bar\") == true",
	"glob.match(\"foo*\", null, \"foo.bar\") == true",
	"glob.quote_meta(\"*.github.com\") == \"\\\\*.github.com\"",
	"glob.match(\"api.**.com\", [\".\"], \"api.github.com\") == true",
	"glob.match(\"*:github:com\", [\":\"], \"api:github:com\") == true",
	"glob.match(\"?at\", [\"f\"], \"bat\") == true",
	"glob.match(\"{cat,bat,[fr]at}\", [], \"bat\") == true",
	"glob.match(\"{cat,bat,[fr]at}\", [], \"fat\") == true",
};

static void test_globs(void **state)
{
	(void)state;
	CHECK(globs);
}

static const char *const strings[] = {
	"substring(\"abc\", 1.0, 1) == \"b\"",
	"substring(\"abc\", 1e0, 1) type substring: operand 2 must be integer number but got floating-point number",
	"split(\"añb\", \"\") == [\"a\", \"ñ\", \"b\"]",
	"split(\"\", \"\") == []",
	"split(\"\", \",\") == [\"\"]",
	"strings.split_n(\"a,b,c\", \",\", 2) == [\"a\", \"b\"]",
	"strings.count(\"abc\", \"\") == 4",
	"concat(\",\", [\"a\",\"b\"]) == \"a,b\"",
	"concat(\"\", {\"b\",\"a\"}) == \"ab\"",
	"concat(\",\", []) == \"\"",
	"indexof(\"añbc\", \"b\") == 2",
	"indexof(\"abc\", \"z\") == -1",
	"indexof_n(\"aaaa\", \"aa\") == [0, 1, 2]",
	"indexof_n(\"ñañ\", \"ñ\") == [0, 2]",
	"lower(\"ÀÉÎΑΒΓДЖİẞ ABC\") == \"àéîαβγджiß abc\"",
	"upper(\"àéîαβγджßıſ abc ǆ\") == \"ÀÉÎΑΒΓДЖßIS ABC Ǆ\"",
	"replace(\"aaa\", \"a\", \"bb\") == \"bbbbbb\"",
	"replace(\"abc\", \"\", \"-\") == \"-a-b-c-\"",
	"replace(\"abc\", \"z\", \"-\") == \"abc\"",
	"strings.replace_n({\"a\":\"1\",\"ab\":\"2\",\"\":\"_\"}, \"abc\") == \"_1_b_c_\"",
	"strings.replace_n({\"<\":\"&lt;\",\">\":\"&gt;\"}, \"<b>x</b>\") == \"&lt;b&gt;x&lt;/b&gt;\"",
	"strings.reverse(\"añb\") == \"bña\"",
	"strings.split_n(\"a,b,c\", \",\", -2) == [\"b\", \"c\"]",
	"strings.split_n(\"a,b,c\", \",\", 0) == []",
	"strings.split_n(\"a,b,c\", \",\", -9) == [\"a\", \"b\", \"c\"]",
	"strings.split_n(\"abc\", \"\", 2) == [\"a\", \"b\"]",
	"substring(\"añbc\", 1, 2) == \"ñb\"",
	"substring(\"añbc\", 1, -1) == \"ñbc\"",
	"substring(\"añbc\", 9, 2) == \"\"",
	"substring(\"\", 0, 2) == \"\"",
	"substring(\"abc\", 0, 0) == \"\"",
	"trim(\"  a \", \" \") == \"a\"",
	"trim(\"ñaañ\", \"ñ\") == \"aa\"",
	"trim_left(\"aab\", \"a\") == \"b\"",
	"trim_right(\"baa\", \"a\") == \"b\"",
	"trim_prefix(\"abc\", \"ab\") == \"c\"",
	"trim_suffix(\"abc\", \"bc\") == \"a\"",
	"trim_space(\"  \\t\\n a \\u00a0\\u2003\") == \"a\"",
	"strings.any_prefix_match([\"ab\",\"cd\"], {\"c\"}) == true",
	"strings.any_suffix_match(\"abc\", [\"x\",\"bc\"]) == true",
	"strings.any_suffix_match([], [\"x\",\"bc\"]) == false",
	"concat(\",\", [1]) type concat: operand 2 must be array of strings but got array containing number",
	"concat(\",\", 1) type concat: operand 2 must be one of {set, array} but got number",
	"concat(1, []) type concat: operand 1 must be string but got number",
	"strings.any_prefix_match(1, []) type strings.any_prefix_match: operand 1 must be one of {string, set, array} but got number",
	"strings.any_prefix_match(\"a\", [1]) type strings.any_prefix_match: operand 2 must be array of strings but got array containing number",
	"strings.replace_n({\"a\": 1}, \"a\") type strings.replace_n: operand 1 non-string value found in pattern object",
	"strings.replace_n({1: \"a\"}, \"a\") type strings.replace_n: operand 1 non-string key found in pattern object",
	"substring(\"a\", \"x\", 1) type substring: operand 2 must be number but got string",
	"split({}, \"\") type split: operand 1 must be string but got object",
	"trim(true, \"\") type trim: operand 1 must be string but got boolean",
	"startswith(\"/etc/hosts\", \"/\") == true",
	"startswith(\"no-leading-slash\", \"/\") == false",
	"endswith(\"report.txt\", \".txt\") == true",
	"split(\"x,y,z\", \",\") == [\"x\", \"y\", \"z\"]",
	"split(\"1;2;3\", \";\") == [\"1\", \"2\", \"3\"]",
	"strings.replace_n({\"f\": \"x\", \"foo\": \"xxx\"}, \"foobar\") == \"xoobar\"",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [\"a/\", \"d/\"]) == true",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [\"f/\", \"d/\"]) == false",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [\"a/b/\", \"a/\"]) == true",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [\"d/\", \"e/f/g\"]) == true",
	"strings.any_prefix_match([\"aa/bb/cc\", \"aa/bb/dd\", \"ee/ff/gg\"], [\"aa/b\", \"e/f\"]) == true",
	"strings.any_prefix_match([\"aa/bb/cc\", \"aa/bb/dd\", \"ee/ff/gg\"], [\"a/b\", \"e/f\"]) == false",
	"strings.any_prefix_match([\"aa/bb/cc\", \"aa/bb/dd\", \"ee/ff/gg\"], [\"b/cc\"]) == false",
	"strings.any_prefix_match([], [\"a/b\", \"e/f\"]) == false",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], []) == false",
	"strings.any_prefix_match([], []) == false",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], \"a/\") == true",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], \"d/\") == false",
	"strings.any_prefix_match(\"a/b/c\", [\"a/\", \"d/\"]) == true",
	"strings.any_prefix_match(\"a/b/c\", [\"g/\", \"d/\"]) == false",
	"strings.any_prefix_match([\"1\", \"2\", \"3\"], [\"f/\", \"d/\"]) == false",
	"strings.any_prefix_match(1, [\"f/\", \"d/\"]) type strings.any_prefix_match: operand 1 must be one of {string, set, array} but got number",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [\"1\", \"2\"]) == false",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], 1) type strings.any_prefix_match: operand 2 must be one of {string, set, array} but got number",
	"strings.any_prefix_match([1, 2, 3], [\"f/\", \"d/\"]) type strings.any_prefix_match: operand 1 must be array of strings but got array containing number",
	"strings.any_prefix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [1, 2]) type strings.any_prefix_match: operand 2 must be array of strings but got array containing number",
	"strings.any_suffix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [\"/c\", \"/a\"]) == true",
	"strings.any_suffix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [\"/f\", \"/a\"]) == false",
	"strings.any_suffix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [\"/b/c\", \"/d\"]) == true",
	"strings.any_suffix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [\"/a\", \"e/f/g\"]) == true",
	"strings.any_suffix_match([\"aa/bb/cc\", \"aa/bb/dd\", \"ee/ff/gg\"], [\"b/cc\", \"f/g\"]) == true",
	"strings.any_suffix_match([\"aa/bb/cc\", \"aa/bb/dd\", \"ee/ff/gg\"], [\"b/c\", \"f/g\"]) == false",
	"strings.any_suffix_match([\"aa/bb/cc\", \"aa/bb/dd\", \"ee/ff/gg\"], [\"aa/b\"]) == false",
	"strings.any_suffix_match([], [\"a/b\", \"e/f\"]) == false",
	"strings.any_suffix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], []) == false",
	"strings.any_suffix_match([], []) == false",
	"strings.any_suffix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], \"/c\") == true",
	"strings.any_suffix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], \"/h\") == false",
	"strings.any_suffix_match(\"a/b/c\", [\"/c\", \"/a\"]) == true",
	"strings.any_suffix_match(\"a/b/g\", [\"/c\", \"/a\"]) == false",
	"strings.any_suffix_match([1, 2, 3], [\"f/\", \"d/\"]) type strings.any_suffix_match: operand 1 must be array of strings but got array containing number",
	"strings.any_suffix_match(1, [\"f/\", \"d/\"]) type strings.any_suffix_match: operand 1 must be one of {string, set, array} but got number",
	"strings.any_suffix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], [1, 2]) type strings.any_suffix_match: operand 2 must be array of strings but got array containing number",
	"strings.any_suffix_match([\"a/b/c\", \"a/b/d\", \"e/f/g\"], 1) type strings.any_suffix_match: operand 2 must be one of {string, set, array} but got number",
	"strings.split_n(\"a.b.c.d\", \".\", 2) == [\"a\", \"b\"]",
	"strings.split_n(\"a.b.c.d\", \".\", 1) == [\"a\"]",
	"strings.split_n(\"a.b.c.d\", \".\", 4) == [\"a\", \"b\", \"c\", \"d\"]",
	"strings.split_n(\"a.b.c.d\", \".\", 10) == [\"a\", \"b\", \"c\", \"d\"]",
	"strings.split_n(\"a.b.c.d\", \".\", 0) == []",
	"strings.split_n(\"a.b.c.d\", \".\", -2) == [\"c\", \"d\"]",
	"strings.split_n(\"a.b.c.d\", \".\", -1) == [\"d\"]",
	"strings.split_n(\"a.b.c.d\", \".\", -4) == [\"a\", \"b\", \"c\", \"d\"]",
	"strings.split_n(\"a.b.c.d\", \".\", -10) == [\"a\", \"b\", \"c\", \"d\"]",
	"strings.split_n(\"abc\", \".\", 2) == [\"abc\"]",
	"strings.split_n(\"abc\", \".\", -2) == [\"abc\"]",
	"strings.split_n(\"\", \".\", 2) == [\"\"]",
	"strings.split_n(\"abc\", \"\", -2) == [\"b\", \"c\"]",
	"strings.split_n(\"a.b.c\", \".\", 1.5) type strings.split_n: operand 3 must be integer number but got floating-point number",
	"strings.split_n(\"alice;alice@example.com;admin;active\", \";\", 2) == [\"alice\", \"alice@example.com\"]",
	"strings.split_n(\"admin;active;alice;alice@example.com\", \";\", -2) == [\"alice\", \"alice@example.com\"]",
	"concat(\"/\", [\"\", \"foo\", \"bar\", \"0\", \"baz\"]) == \"/foo/bar/0/baz\"",
	"concat(\",\", {\"1\", \"2\", \"3\"}) == \"1,2,3\"",
	"indexof(\"abcdefgh\", \"cde\") == 2",
	"indexof(\"abcabcabcdefgh\", \"cde\") == 8",
	"indexof(\"abcdefgh\", \"xyz\") == -1",
	"substring(\"abcdefgh\", 2, 3) == \"cde\"",
	"substring(\"åäö\", 0, 2) == \"åä\"",
	"substring(\"abcdefgh\", 2, -1) == \"cdefgh\"",
	"substring(\"aåäö\", 2, -1) == \"äö\"",
	"substring(\"abcdefgh\", 2, 10000) == \"cdefgh\"",
	"substring(\"abcdefghåäö\", 2, 10000) == \"cdefghåäö\"",
	"substring(\"aaa\", -1, -1) error substring: negative offset",
	"substring(\"åäö\", -1, -1) error substring: negative offset",
	"substring(\"aaa\", 3, -1) == \"\"",
	"substring(\"åäö\", 3, -1) == \"\"",
	"contains(\"abcdefgh\", \"defg\") == true",
	"contains(\"abcdefgh\", \"ac\") == false",
	"startswith(\"abcdefgh\", \"abcd\") == true",
	"startswith(\"abcdefgh\", \"bcd\") == false",
	"endswith(\"abcdefgh\", \"fgh\") == true",
	"endswith(\"abcdefgh\", \"fg\") == false",
	"lower(\"AbCdEf\") == \"abcdef\"",
	"upper(\"AbCdEf\") == \"ABCDEF\"",
	"split(\"test\", \"\") == [\"t\", \"e\", \"s\", \"t\"]",
	"replace(\"\", \"hi\", \"bye\") == \"\"",
	"replace(\"foo.bar\", \".\", \",\") == \"foo,bar\"",
	"replace(\"foo.bar.baz\", \".\", \",\") == \"foo,bar,baz\"",
	"replace(\"foo...bar\", \"..\", \",,\") == \"foo,,.bar\"",
	"trim(\"\", \".\") == \"\"",
	"trim(\"foo.bar...\", \".\") == \"foo.bar\"",
	"trim(\"...foo.bar\", \".\") == \"foo.bar\"",
	"trim(\"...foo.bar...\", \".\") == \"foo.bar\"",
	"trim(\"...foo.bar...\", \".fr\") == \"oo.ba\"",
	"trim(\"...foo.bar...\", \".o\") == \"foo.bar\"",
	"strings.reverse(\"bar\") == \"rab\"",
	"strings.reverse(\"2️⃣\") == \"⃣️2\"",
	"strings.reverse(\"1😀𝛾\") == \"𝛾😀1\"",
	"strings.reverse(\"\") == \"\"",
	"strings.reverse(123) type strings.reverse: operand 1 must be string but got number",
	"strings.reverse({\"bar\": \"baz\"}) type strings.reverse: operand 1 must be string but got object",
	"indexof_n(\"dogcat\", \"cat\") == [3]",
	"indexof_n(\"dogcatdogcat\", \"cat\") == [3, 9]",
	"indexof_n(\"dogcat\", \"rabbit\") == []",
	"indexof_n(\"😇😀😇😀😇😀\", \"😀\") == [1, 3, 5]",
	"indexof_n(\"😇😀😇😀😇😀\", \"😂\") == []",
	"strings.count(\"cheese\", \"e\") == 3",
	"strings.count(\"hello hello hello world\", \"hello\") == 3",
	"strings.count(\"dummy\", \"x\") == 0",
	"strings.count(\"dummy\", \"\") == 6",
	"strings.count(\"\", \"\") == 1",
	"strings.count(\"\", \"x\") == 0",
	"strings.count(\"11111\", \"11\") == 2",
	"strings.count(\"11111\", \"11111\") == 1",
	"indexof(\"μx\", \"x\") == 1",
	"indexof(\"μ\", \"μμ\") == -1",
	"indexof(\"skön var våren\", \"vår\") == 9",
	"indexof(\"🍧🍨🧁🍰🍮\", \"🍮\") == 4",
	"indexof(\"🍧🍨🧁🍰🍮\", \"🍧🍨🧁🍰🍮\") == 0",
	"contains(\"fireplace\", \"repl\") == true",
	"strings.replace_n({\"f\": 100}, \"foo\") type strings.replace_n: operand 1 non-string value found in pattern object",
	"strings.replace_n({\"foo\":\"baz\"}, 100) type strings.replace_n: operand 2 must be string but got number",
	"substring(\"aaa\", 4, -1) == \"\"",
	"substring(\"åäö\", 4, -1) == \"\"",
};

static void test_strings(void **state)
{
	(void)state;
	CHECK(strings);
}

/* clang-format on */

/* --- hostile --- */

static enum rf_rb_result run_line(const char *line, size_t cap, int64_t fuel)
{
	struct rf_arena args = RF_ARENA_INIT, results = RF_ARENA_CAPPED(cap);
	struct text t = { .s = rf_str(line), .a = &args };
	struct call c = parse_call(&t);
	struct rf_rv v = RF_RV_NIL;
	struct rf_err err = RF_ERR_INIT;
	enum rf_rb_result r = run(&c, &results, fuel, &v, &err);

	rf_arena_done(&args);
	rf_arena_done(&results);
	return r;
}

/* With less memory or fewer steps a call ends as it does otherwise, or with RF_RB_FULL. */
static void starve(const char *const *line, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		enum rf_rb_result normal = run_line(line[i], 16 << 20, 10000000), r;

		for (int64_t fuel = 1; fuel < 2000; fuel = fuel * 2 + 1) {
			r = run_line(line[i], 16 << 20, fuel);
			assert_true(r == normal || r == RF_RB_FULL);
		}
		for (size_t cap = 1; cap < 4096; cap = cap * 2 + 5) {
			r = run_line(line[i], cap, 10000000);
			assert_true(r == normal || r == RF_RB_FULL);
		}
	}
}

static void test_starved(void **state)
{
	(void)state;
	starve(numbers, RF_COUNT(numbers));
	starve(collections, RF_COUNT(collections));
	starve(types, RF_COUNT(types));
	starve(sprintf_lines, RF_COUNT(sprintf_lines));
	starve(templates, RF_COUNT(templates));
	starve(regex, RF_COUNT(regex));
	starve(globs, RF_COUNT(globs));
	starve(strings, RF_COUNT(strings));
}

static struct rf_rv repeated(struct rf_arena *a, const char *unit, size_t times)
{
	size_t n = strlen(unit);
	char *p = rf_arena_alloc(a, n * times);

	for (size_t i = 0; i < times; i++)
		memcpy(p + i * n, unit, n);
	return rf_rv_str(rf_str_n(p, n * times));
}

static enum rf_rb_result call_fuel(const char *name, struct rf_rv a, struct rf_rv b, struct rf_rv c,
				   int64_t fuel, struct rf_rv *ret)
{
	struct rf_arena results = RF_ARENA_CAPPED(8 << 20);
	struct call k = { .b = rf_rb_find(rf_str(name)), .arg = { a, b, c } };
	struct rf_err err = RF_ERR_INIT;
	enum rf_rb_result r;

	assert_non_null(k.b);
	r = run(&k, &results, fuel, ret, &err);
	*ret = r == RF_RB_OK && ret->type == RF_RV_BOOL ? *ret : RF_RV_NIL;
	rf_arena_done(&results);
	return r;
}

static enum rf_rb_result call_with(const char *name, struct rf_rv a, struct rf_rv b, struct rf_rv c,
				   struct rf_rv *ret)
{
	return call_fuel(name, a, b, c, 100000000, ret);
}

/* A result that would not fit is not begun, or stopped on the way. */
static void test_blow_ups(void **state)
{
	struct rf_arena a = RF_ARENA_INIT;
	struct rf_rv many = repeated(&a, "a", 100000), one = rf_rv_str(RF_LIT("a")), v;
	struct rf_rv twice[2] = { one, one }, list[64];

	(void)state;
	assert_int_equal(call_with("replace", many, one, many, &v), RF_RB_FULL);
	assert_int_equal(call_with("regex.replace", many, one, many, &v), RF_RB_FULL);
	assert_int_equal(call_with("split", repeated(&a, "a,", 1000000), rf_rv_str(RF_LIT(",")),
				   RF_RV_NIL, &v),
			 RF_RB_FULL);
	assert_int_equal(call_with("sprintf", repeated(&a, "%999999d", 20), rf_rv_array(&v, 0),
				   RF_RV_NIL, &v),
			 RF_RB_OK);
	v = rf_rv_int(1);
	for (size_t i = 0; i < RF_COUNT(list); i++)
		list[i] = rf_rv_int(1);
	assert_int_equal(call_with("sprintf", repeated(&a, "%999999d", 20), rf_rv_array(list, 20),
				   RF_RV_NIL, &v),
			 RF_RB_FULL);
	/* a value that is small and prints to 2^60 letters */
	for (int i = 0; i < 60; i++) {
		struct rf_rv *pair = rf_arena_alloc(&a, sizeof(twice));

		memcpy(pair, twice, sizeof(twice));
		twice[0] = twice[1] = rf_rv_array(pair, 2);
	}
	assert_int_equal(
		call_with("sprintf", rf_rv_str(RF_LIT("%v")), rf_rv_array(twice, 1), RF_RV_NIL, &v),
		RF_RB_FULL);
	assert_int_equal(call_with("internal.template_string", rf_rv_array(twice, 1), RF_RV_NIL,
				   RF_RV_NIL, &v),
			 RF_RB_FULL);
	rf_arena_done(&a);
}

/* What takes others exponential time. */
static void test_backtracking(void **state)
{
	struct rf_arena a = RF_ARENA_INIT;
	struct rf_rv text = repeated(&a, "a", 5000), v;

	(void)state;
	assert_int_equal(
		call_with("regex.match", rf_rv_str(RF_LIT("^(a+)+$b")), text, RF_RV_NIL, &v),
		RF_RB_OK);
	assert_true(rf_rv_is_false(v));
	assert_int_equal(call_with("glob.match", repeated(&a, "*a", 60), RF_RV_NIL,
				   repeated(&a, "a", 3000), &v),
			 RF_RB_OK);
	assert_true(v.b);
	assert_int_equal(call_with("glob.match", repeated(&a, "{a,aa,*a}", 40), RF_RV_NIL,
				   repeated(&a, "ab", 500), &v),
			 RF_RB_OK);
	assert_true(rf_rv_is_false(v));
	assert_int_equal(call_with("regex.globs_match", repeated(&a, "a*b*", 100),
				   repeated(&a, "b*a*", 100), RF_RV_NIL, &v),
			 RF_RB_OK);
	assert_int_equal(call_with("glob.match", repeated(&a, "{", 1000), RF_RV_NIL, text, &v),
			 RF_RB_ERROR);
	/* each search looks at all that is left, and there is one per letter */
	assert_int_equal(call_fuel("regex.find_n", rf_rv_str(RF_LIT("a.*b|a")),
				   repeated(&a, "a", 100000), rf_rv_int(-1), 1000000, &v),
			 RF_RB_FULL);
	rf_arena_done(&a);
}

/* --- the table and the cache --- */

static void test_table(void **state)
{
	(void)state;
	assert_true(rf_rb_count() >= 90);
	for (size_t i = 0; i < rf_rb_count(); i++) {
		const struct rf_rb *b = rf_rb_at(i);

		assert_ptr_equal(rf_rb_find(rf_str(b->name)), b);
		assert_true(i == 0 || strcmp(rf_rb_at(i - 1)->name, b->name) < 0);
		assert_true(b->fn != NULL || b->refusal != NULL);
	}
	assert_null(rf_rb_at(rf_rb_count()));
	assert_null(rf_rb_find(RF_LIT("coun")));
	assert_null(rf_rb_find(RF_STR_EMPTY));
	assert_true(rf_rb_find(RF_LIT("re_match"))->v0_only);
	assert_true(rf_rb_find(RF_LIT("any"))->v0_only);
	assert_false(rf_rb_find(RF_LIT("regex.match"))->v0_only);
}

/* More patterns than the cache holds, from several threads: each gets its own answer. */
static void *match_many(void *bad)
{
	for (int round = 0; round < 300; round++) {
		char line[64];
		int n = (round * 7) % 100;

		snprintf(line, sizeof(line), "regex.match(\"^x{%d}$\", \"xxx\") == %s", n,
			 n == 3 ? "true" : "false");
		*(int *)bad += check_line(line);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t thread[4];
	int bad[4] = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, match_many, &bad[i]), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(bad[i], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),	     cmocka_unit_test(test_collections),
		cmocka_unit_test(test_types),	     cmocka_unit_test(test_sprintf),
		cmocka_unit_test(test_templates),    cmocka_unit_test(test_regex),
		cmocka_unit_test(test_globs),	     cmocka_unit_test(test_strings),
		cmocka_unit_test(test_starved),	     cmocka_unit_test(test_blow_ups),
		cmocka_unit_test(test_backtracking), cmocka_unit_test(test_table),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
