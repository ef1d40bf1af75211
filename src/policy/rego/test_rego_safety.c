/* Which bodies are safe, and what is computed first. Each answer is OPA's, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "policy/rego/rego.h"

static const char input[] = "{\"a\": [1, 2, 3], \"b\": [1, 2], \"o\": {\"x\": 0}}";

/* The value of data.t, or what the policy or the query is refused for. */
static const char *answer(const char *rules, const char *query)
{
	static char text[2048], module[4096];
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)64 << 20);
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rego_source source = { RF_LIT("t.rego"), RF_LIT(""), RF_RA_V1 };
	struct rf_rego *r = NULL;
	struct rf_rego_query *q = NULL;
	struct rf_rego_run run = { .arena = &a };
	struct rf_rego_result result = { 0 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv in;

	assert_true((size_t)snprintf(module, sizeof(module), "package t\n%s", rules) < sizeof(module));
	source.text = rf_str(module);
	assert_int_equal(rf_rv_parse_json(&a, rf_str(input), &in, &err), 0);
	run.input = &in;
	if (rf_rego_compile(&source, 1, NULL, &r, &errors) < 0 ||
	    rf_rego_prepare(r, rf_str(query), RF_RA_V1, &q, &errors) < 0)
		rf_ra_print_errors(&out, &errors);
	else if (rf_rego_eval(q, &run, &result, &err) < 0)
		rf_buf_add(&out, rf_str(err.msg));
	for (size_t i = 0; i < result.n; i++)
		rf_rv_print(&out, result.answer[i].expressions);
	rf_rego_query_free(q);
	rf_rego_unref(r);
	snprintf(text, sizeof(text), "%.*s", (int)out.n, out.n ? out.p : "");
	return text;
}

static const char *body(const char *text)
{
	static char rule[1024];

	snprintf(rule, sizeof(rule), "p if {\n%s\n}", text);
	return answer(rule, "data.t");
}

#define UNSAFE(b, var) assert_non_null(strstr(body(b), "rego_unsafe_var_error: var " var " is unsafe"))
#define HOLDS(b) assert_string_equal(body(b), "[{\"p\": true}]")
#define FAILS(b) assert_string_equal(body(b), "[{}]")

static void a_closure_needs_what_others_give(void **state RF_UNUSED)
{
	HOLDS("x := [1 | input.a[v] > 1]; count(x) == 2");
	HOLDS("y := [1 | v > 1]; v = 2; y == [1]");
	HOLDS("some v, w in input.a; x = [input.a[v], [1 | v > w]]; x == [1, []]");
	UNSAFE("input.a[v] < [1 | v > 1]", "v");
	UNSAFE("input.a[v] != {1 | w := v}", "v");
	UNSAFE("x = [input.a[v], [1 | v > 1]]", "v");
	UNSAFE("[x, y] = [input.a[v], [1 | v > 1]]", "v");
	UNSAFE("some x in [input.a[v], [1 | v > 1]]", "v");
	UNSAFE("(input.o[v] & {m | some m in v})", "v");
	UNSAFE("v = [1 | input.b[v]]", "v");
	/* not even if v comes from elsewhere, where the references beside the closure give no other variable */
	UNSAFE("some v in [1, 2]; input.a[v] < [1 | v > 1]", "v");
	HOLDS("some v in [1, 2]; xs := [1 | v > 1]; input.a[v] < xs");
	FAILS("input.a[v][w] < [1 | input.b[v]]");
	/* every, after a call that gives just what its body uses */
	UNSAFE("every x in [] { x != v }; input.a[v] in {}", "v");
	FAILS("every x in [] { x != v }; input.a[v] = 9");
}

static void a_call_is_computed_before_what_uses_it(void **state RF_UNUSED)
{
	UNSAFE("input.a[v] < count(v)", "v");
	UNSAFE("count(v) < input.a[v]", "v");
	UNSAFE("x = input.a[v] + count([1 | v > 1])", "v");
	FAILS("v < count(input.a[v])");
	HOLDS("v = 1; v < abs(input.a[v])");
	HOLDS("not 5 < abs(input.a[_])");
	UNSAFE("not 1 < input.a[_]", "_");
	UNSAFE("not 1 < input.a[v]", "v");
	assert_string_equal(answer("p := x if { x := input.a[count([1 | input.b[_] > 1])] }", "data.t"), "[{\"p\": 2}]");
}

static void what_a_head_gives_is_in_its_body(void **state RF_UNUSED)
{
	assert_non_null(strstr(answer("p[v] := [1 | w = input.a[v]] if true", "data.t"), "var v is unsafe"));
	assert_non_null(strstr(answer("p contains v if { x := [1 | input.a[v]]; x }", "data.t"), "var v is unsafe"));
	assert_non_null(strstr(answer("p := [x | true]", "data.t"), "var x is unsafe"));
	assert_string_equal(answer("p[v] := input.b[v]", "data.t"), "[{\"p\": {0: 1, 1: 2}}]");
	assert_string_equal(answer("p contains [v, [1 | input.b[v]]] if v = 1", "data.t"), "[{\"p\": {[1, [1]]}}]");
}

/* Each expression of a query has a value, which is one more variable that it gives. */
static void queries_are_looked_at_with_their_values(void **state RF_UNUSED)
{
	assert_string_equal(answer("", "some v in [1]; input.a[v] < [1 | v > 0]"), "[true, true]");
	assert_string_equal(answer("", "not input.o.x"), "");
	assert_string_equal(answer("", "x := [y | some y in input.a; y > 1]; count(x) == 2"), "[true, true]");
	/* closures with more expressions than the query */
	assert_string_equal(answer("", "every x in [1] { x == 1; x > 0; x < 2; x != 5 }"), "[true]");
	assert_non_null(strstr(answer("", "input.a[v] < count(v)"), "var v is unsafe"));
}

static void with_does_not_know_what_is_assigned_there(void **state RF_UNUSED)
{
	assert_non_null(strstr(body("v := 1 with input as v"), "var v referenced above"));
	UNSAFE("some v in [1] with input as v", "v");
	HOLDS("v := 2; w := input with input as v; w == 2");
	HOLDS("v := {2}; (v | {1}) with data.d as 1");
}

static void operands_are_computed_from_the_left(void **state RF_UNUSED)
{
	static const char two[] = "r := {\"a\": 1}\nr := {\"b\": 1} if input.a\n";
	char rules[256];

	snprintf(rules, sizeof(rules), "%sp if { object.union(r, input.nothing[_]) }", two);
	assert_non_null(strstr(answer(rules, "data.t.p"), "complete rules must not produce multiple outputs"));
	snprintf(rules, sizeof(rules), "%sp if { object.union(input.nothing[_], r) }", two);
	assert_string_equal(answer(rules, "data.t.p"), "");
	snprintf(rules, sizeof(rules), "%sp if { r = input.nothing[_] }", two);
	assert_non_null(strstr(answer(rules, "data.t.p"), "complete rules must not produce multiple outputs"));
}

static void calls_are_computed_before_references(void **state RF_UNUSED)
{
	static const char two[] = "f(x) := 1 if x\nf(x) := 2 if x\n";
	static const char conflict[] = "functions must not produce multiple outputs";
	char rules[256];

	snprintf(rules, sizeof(rules), "%sp if { input.nothing < f(true) }", two);
	assert_non_null(strstr(answer(rules, "data.t.p"), conflict));
	snprintf(rules, sizeof(rules), "%sp if { x := [input.nothing[_], f(true)] }", two);
	assert_non_null(strstr(answer(rules, "data.t.p"), conflict));
	snprintf(rules, sizeof(rules), "%sp if { input.nothing = f(true) }", two);
	assert_non_null(strstr(answer(rules, "data.t.p"), conflict));
	snprintf(rules, sizeof(rules), "%sp if { {1: x | x := input.a[_]} < abs(input.nothing) }", two);
	assert_string_equal(answer(rules, "data.t.p"), "");
	/* of a query, what is false is looked at last */
	assert_non_null(strstr(answer(two, "1 == 2; data.t.f(true)"), conflict));
}

static void a_minus_goes_on_from_the_line_before(void **state RF_UNUSED)
{
	FAILS("not 1\n-2.5 <= abs(input.a[_])");
	HOLDS("some 1 in [1] in [true]");
	HOLDS("some 0, 1 in [1] in [true]");
	UNSAFE("some v in 1\n-2.5 in [false]", "v");
	assert_non_null(strstr(body("some v in 1\n-2.5 in input.a[v]"), "var v assigned before"));
	assert_non_null(strstr(body("every x in [1] in [true] { x }"), "expected value to be a variable"));
}

static void a_constant_in_a_name_has_its_variables_type(void **state RF_UNUSED)
{
	assert_non_null(strstr(answer("p if { v := true; r[v] }\nr contains 0", "data.t.p"), "rego_type_error"));
	assert_string_equal(answer("p if { v := true; \"x\" >= {\"z\": v}; r[v] }\nr contains 0", "data.t.p"), "");
	assert_string_equal(answer("p if { v := true; $\"{v}\" > r[v] }\nr contains 0", "data.t.p"), "");
}

/* Of a body of every, only references say something about types: v is anything, then. */
static void references_in_every_say_what_a_variable_is(void **state RF_UNUSED)
{
	static const char with[] = "f(v) if { every x in input.b { x != 9; data.d[v] }; graph.reachable(v, []) != v % v }";
	static const char without[] = "f(v) if { graph.reachable(v, []) != v % v }";

	assert_string_equal(answer(with, "data.t"), "[{}]");
	assert_non_null(strstr(answer(without, "data.t"), "rego_type_error"));
}

/* In the worst order each look finds one that can be taken. */
static void bodies_of_any_length_come_to_an_end(void **state RF_UNUSED)
{
	rf_auto(buf) b = RF_BUF_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rego *r = NULL;

	rf_buf_puts(&b, "package t\np if {\n");
	for (int i = 3000; i > 0; i--)
		rf_buf_printf(&b, "[x%d, 1] = [x%d, y%d]\n", i, i - 1, i);
	rf_buf_puts(&b, "x0 = 1\n}\n");
	struct rf_rego_source source = { RF_LIT("t.rego"), rf_buf_str(&b), RF_RA_V1 };

	assert_int_equal(rf_rego_compile(&source, 1, NULL, &r, &errors), 0);
	rf_rego_unref(r);
	rf_buf_puts(&b, "q if {\n");
	for (int i = 0; i < 20000; i++)
		rf_buf_printf(&b, "x%d = y%d + 1\n", i, i);
	rf_buf_puts(&b, "}\n");
	source.text = rf_buf_str(&b);
	assert_true(rf_rego_compile(&source, 1, NULL, &r, &errors) < 0);
	assert_string_equal(errors.error[0].code, "rego_unsafe_var_error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_closure_needs_what_others_give),
		cmocka_unit_test(a_call_is_computed_before_what_uses_it),
		cmocka_unit_test(what_a_head_gives_is_in_its_body),
		cmocka_unit_test(queries_are_looked_at_with_their_values),
		cmocka_unit_test(with_does_not_know_what_is_assigned_there),
		cmocka_unit_test(operands_are_computed_from_the_left),
		cmocka_unit_test(calls_are_computed_before_references),
		cmocka_unit_test(a_minus_goes_on_from_the_line_before),
		cmocka_unit_test(a_constant_in_a_name_has_its_variables_type),
		cmocka_unit_test(references_in_every_say_what_a_variable_is),
		cmocka_unit_test(bodies_of_any_length_come_to_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
