/* The engine as a whole: modules in, answers out. OPA's own cases are run by `policy conformance`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "policy/rego/coverage.h"
#include "policy/rego/rego.h"

/* Compiles and asks; writes the answers, or the error, as text. */
static const char *ask_with(const char *module, enum rf_ra_version version, const char *query,
			    const char *input, int64_t steps)
{
	static char text[4096];
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)64 << 20);
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rego_source source = { RF_LIT("test.rego"), rf_str(module), version };
	struct rf_rego *r = NULL;
	struct rf_rego_query *q = NULL;
	struct rf_rego_run run = { .arena = &a, .steps = steps, .strict = true };
	struct rf_rego_result result = { 0 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv in;

	if (input) {
		assert_int_equal(rf_rv_parse_json(&a, rf_str(input), &in, &err), 0);
		run.input = &in;
	}
	if (rf_rego_compile(&source, 1, NULL, &r, &errors) < 0 ||
	    rf_rego_prepare(r, rf_str(query), version, &q, &errors) < 0)
		rf_ra_print_errors(&out, &errors);
	else if (rf_rego_eval(q, &run, &result, &err) < 0)
		rf_buf_add(&out, rf_str(err.msg));
	for (size_t i = 0; i < result.n; i++) {
		if (i > 0)
			rf_buf_add(&out, RF_LIT(" "));
		rf_rv_print(&out, result.answer[i].bindings.n ? result.answer[i].bindings :
								result.answer[i].expressions);
	}
	rf_rego_query_free(q);
	rf_rego_unref(r);
	assert_true(out.n < sizeof(text));
	memcpy(text, out.n ? out.p : "", out.n);
	text[out.n] = '\0';
	return text;
}

static const char *ask(const char *module, const char *query, const char *input)
{
	return ask_with(module, RF_RA_V1, query, input, 0);
}

#define POD(privileged)                                                                            \
	"{\"request\":{\"kind\":{\"kind\":\"Pod\"},\"object\":{\"spec\":{\"containers\":[{"        \
	"\"name\":\"a\",\"securityContext\":{\"privileged\":" privileged "}}]}}}}"

static void the_first_policy_runs_letter_for_letter(void **state RF_UNUSED)
{
	static const char v0[] = "package kubernetes.admission\n"
				 "deny[msg] {\n"
				 "  input.request.kind.kind == \"Pod\"\n"
				 "  input.request.object.spec.containers[_].securityContext.privileged == true\n"
				 "  msg := \"Privileged containers are not allowed\"\n"
				 "}\n";
	static const char v1[] = "package kubernetes.admission\n"
				 "deny contains msg if {\n"
				 "  input.request.kind.kind == \"Pod\"\n"
				 "  some c in input.request.object.spec.containers\n"
				 "  c.securityContext.privileged == true\n"
				 "  msg := \"Privileged containers are not allowed\"\n"
				 "}\n";
	static const char query[] = "data.kubernetes.admission.deny";

	assert_string_equal(ask_with(v0, RF_RA_V0, query, POD("true"), 0),
			    "[{\"Privileged containers are not allowed\"}]");
	assert_string_equal(ask_with(v0, RF_RA_V0, query, POD("false"), 0), "[set()]");
	assert_string_equal(ask(v1, query, POD("true")),
			    "[{\"Privileged containers are not allowed\"}]");
	assert_string_equal(ask(v1, query, "{}"), "[set()]");
}

static void bodies_are_put_in_an_order_that_works(void **state RF_UNUSED)
{
	static const char module[] = "package p\n"
				     "a := s if { s = concat(\":\", [k, v]); v = input.o[k] }\n"
				     "b := [x, y] if { [x, 1] = [2, y] }\n"
				     "c := z if { z = y + 1; y = x + 1; x = 1 }\n";

	assert_string_equal(ask(module, "data.p.a", "{\"o\":{\"k\":\"v\"}}"), "[\"k:v\"]");
	assert_string_equal(ask(module, "data.p.b", NULL), "[[2, 1]]");
	assert_string_equal(ask(module, "data.p.c", NULL), "[3]");
}

static void queries_give_every_answer(void **state RF_UNUSED)
{
	static const char module[] = "package p\nxs := [1, 2, 3]\nm := {\"a\": 1, \"b\": 2}\n";

	assert_string_equal(ask(module, "data.p.m[k] = v", NULL),
			    "{\"k\": \"a\", \"v\": 1} {\"k\": \"b\", \"v\": 2}");
	assert_string_equal(ask(module, "x := data.p.xs[_]; x > 1", NULL), "{\"x\": 2} {\"x\": 3}");
	assert_string_equal(ask(module, "data.p.none", NULL), "");
}

static void with_changes_one_expression_only(void **state RF_UNUSED)
{
	static const char module[] = "package p\n"
				     "q := input.x\n"
				     "r := [q, y] if { y := q with input.x as 2 }\n"
				     "f(x) := x + 1\n"
				     "g := [f(1), y] if { y := f(1) with f as 7 }\n"
				     "d := y if { y := data.p.q with data.p.q as 9 }\n";

	assert_string_equal(ask(module, "data.p.r", "{\"x\":1}"), "[[1, 2]]");
	assert_string_equal(ask(module, "data.p.g", NULL), "[[2, 7]]");
	assert_string_equal(ask(module, "data.p.d", "{\"x\":1}"), "[9]");
}

static void what_contradicts_itself_is_an_error(void **state RF_UNUSED)
{
	static const char module[] = "package p\n"
				     "a := x if some x in [1, 2]\n"
				     "o[k] := v if { k := \"k\"; some v in [1, 2] }\n"
				     "f(x) := 1\nf(x) := 2 if x > 0\n";

	assert_string_equal(ask(module, "data.p.a", NULL),
			    "test.rego:2: eval_conflict_error: complete rules must not produce multiple outputs");
	assert_string_equal(ask(module, "data.p.o", NULL),
			    "test.rego:3: eval_conflict_error: object keys must be unique");
	assert_string_equal(
		ask(module, "data.p.f(1)", NULL),
		"test.rego:4: eval_conflict_error: functions must not produce multiple outputs for same inputs");
}

static void compile_errors_say_where(void **state RF_UNUSED)
{
	assert_non_null(strstr(ask("package p\na if { x > 1 }\n", "data.p", NULL),
			       "test.rego:2:8: rego_unsafe_var_error: var x is unsafe"));
	assert_non_null(strstr(ask("package p\na if b\nb if a\n", "data.p", NULL),
			       "rego_recursion_error: rule data.p.a is recursive"));
	assert_non_null(strstr(ask("package p\na := nope(1)\n", "data.p", NULL),
			       "rego_type_error: undefined function nope"));
	assert_non_null(strstr(ask("package p\na if { not xs[_] == 1; xs := [] }\n", "data.p", NULL),
			       "rego_unsafe_var_error"));
	assert_non_null(strstr(ask("package p\na := http.send({})\n", "data.p", NULL),
			       "test.rego:2: eval_builtin_error: http.send: needs the network"));
}

static void a_policy_that_runs_away_is_stopped(void **state RF_UNUSED)
{
	static const char loops[] = "package p\n"
				    "n := numbers.range(1, 1000)\n"
				    "a := count([1 | n[_]; n[_]; n[_]])\n";
	static const char eats[] = "package p\n"
				   "n := numbers.range(1, 1000)\n"
				   "a := count([x | x := [n[_], n[_], n[_]]])\n";

	assert_non_null(strstr(ask_with(loops, RF_RA_V1, "data.p.a", NULL, 100000), "steps"));
	assert_non_null(strstr(ask_with(eats, RF_RA_V1, "data.p.a", NULL, 1000000000), "memory"));
}

/* --- coverage --- */

static void add_ranges(struct rf_buf *out, const struct rf_rego_ranges *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		rf_buf_printf(out, "%u.%u-%u.%u ", r->at[i].row, r->at[i].col, r->at[i].end_row, r->at[i].end_col);
	rf_buf_printf(out, "= %u lines\n", r->lines);
}

/* What the queries, one run each, came by. */
static const char *cover(const char *module, const char *const *query, size_t n)
{
	static char text[4096];
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)64 << 20);
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rego_source source = { RF_LIT("test.rego"), rf_str(module), RF_RA_V1 };
	struct rf_rego_coverage coverage;
	struct rf_rego_coverage_report report;
	struct rf_rego *r = NULL;

	assert_int_equal(rf_rego_compile_covered(&source, 1, NULL, &r, &errors), 0);
	coverage = rf_rego_coverage(r, &a);
	for (size_t i = 0; i < n; i++) {
		struct rf_rego_run run = { .arena = &a, .coverage = &coverage };
		struct rf_rego_query *q = NULL;
		struct rf_rego_result result;
		struct rf_err err = RF_ERR_INIT;

		assert_int_equal(rf_rego_prepare(r, rf_str(query[i]), RF_RA_V1, &q, &errors), 0);
		assert_int_equal(rf_rego_eval(q, &run, &result, &err), 0);
		rf_rego_query_free(q);
	}
	rf_rego_coverage_report(&coverage, r, &a, &report);
	assert_int_equal(report.n, 1);
	assert_int_equal(report.covered_lines, report.file[0].covered.lines);
	assert_int_equal(report.not_covered_lines, report.file[0].not_covered.lines);
	add_ranges(&out, &report.file[0].covered);
	add_ranges(&out, &report.file[0].not_covered);
	rf_buf_printf(&out, "%.1f", report.percent);
	rf_rego_unref(r);
	assert_true(out.n < sizeof(text));
	memcpy(text, out.p, out.n);
	text[out.n] = '\0';
	return text;
}

static void coverage_tells_what_was_evaluated(void **state RF_UNUSED)
{
	static const char module[] = "package p\n"
				     "a if {\n"
				     "  input.x == 1\n"
				     "  input.y > 1\n"
				     "}\n"
				     "b := \"é\" if { input.x == 2 } else := input.z\n";
	static const char *const none[] = { "1 == 1" };
	static const char *const half[] = { "data.p.a with input.x as 1" };
	static const char *const all[] = { "data.p.a with input as {\"x\": 1, \"y\": 2}",
					   "data.p.b with input.x as 2", "data.p.b with input.z as 3" };
	/* a value that is not there does not make the head */
	static const char *const no_value[] = { "data.p.b with input.x as 3" };

	assert_string_equal(cover(module, none, 1),
			    "= 0 lines\n2.1-2.2 3.3-3.15 4.3-4.14 6.1-6.9 6.15-6.27 6.30-6.45 = 4 lines\n0.0");
	assert_string_equal(cover(module, half, 1),
			    "3.3-3.15 4.3-4.14 = 2 lines\n2.1-2.2 6.1-6.9 6.15-6.27 6.30-6.45 = 2 lines\n50.0");
	assert_string_equal(cover(module, all, 3),
			    "2.1-2.2 3.3-3.15 4.3-4.14 6.1-6.9 6.15-6.27 6.30-6.45 = 4 lines\n= 0 lines\n100.0");
	assert_string_equal(cover(module, no_value, 1),
			    "6.15-6.27 = 1 lines\n2.1-2.2 3.3-3.15 4.3-4.14 6.1-6.9 6.30-6.45 = 4 lines\n20.0");
}

/* Rules that begin alike, sets of which a part is asked for, values that are computed once: each has its marks. */
static void coverage_sees_through_what_makes_rules_fast(void **state RF_UNUSED)
{
	static const char module[] = "package p\n"
				     "all contains 1 if { input.x; count(few) == 1 }\n"
				     "all contains 2 if { input.x; input.none; input.more }\n"
				     "few := [y | some y in [1, 2]\n"
				     "  y > 1]\n"
				     "v contains m if { field[{\"m\": m, \"f\": \"c\"}] }\n"
				     "field contains {\"m\": m, \"f\": f} if {\n"
				     "  m := input.spec[f][_].m\n"
				     "  some z\n"
				     "  z = m; not z == 7\n"
				     "}\n";
	static const char *const query[] = { "data.p.all with input.x as 1",
					     "data.p.v with input as {\"spec\": {\"c\": [{\"m\": 1}]}}" };

	assert_string_equal(cover(module, query, 2),
			    "2.1-2.15 2.21-2.28 2.30-2.45 3.21-3.28 3.30-3.40 4.1-5.9 4.13-4.29 5.3-5.8 "
			    "6.1-6.13 6.19-6.44 7.1-7.32 8.3-8.26 10.3-10.8 10.10-10.20 = 8 lines\n"
			    "3.1-3.15 3.42-3.52 = 1 lines\n88.9");
}

/* What the differential fuzzer found: each of these is what OPA says. */
#define SAYS(module, input, want) assert_string_equal(ask("package t\n" module, "data.t", input), want)

static void a_negation_needs_what_it_is_made_of(void **state RF_UNUSED)
{
	SAYS("r if { not (input.b - 1) = input.a }", "{}", "[{}]");
	SAYS("r if { not (input.b - 1) = input.a }", "{\"b\": 2}", "[{\"r\": true}]");
	SAYS("r if { not (1 - input.b) = 3 }", "{}", "[{}]");
	SAYS("r if { not input.a = (1 - input.b) }", "{\"a\": 1}", "[{}]");
	SAYS("r if { not [input.a] = [1] }", "{}", "[{}]");
	SAYS("r if { not {\"x\": input.a} = input.q }", "{\"q\": 1}", "[{}]");
	SAYS("r if { not plus(1, input.a, 3) }", "{}", "[{}]");
	SAYS("r if { not input.l[input.a] = 1 }", "{}", "[{}]");
	SAYS("r if { not input.a = input.b }", "{}", "[{\"r\": true}]");
	SAYS("r if { not input.a = 7 }", "{\"a\": 7}", "[{}]");
}

static void comprehensions_are_operands_like_others(void **state RF_UNUSED)
{
	SAYS("r contains v if walk([1 | 1 > 0], [p, v])", "{}", "[{\"r\": {1, [1]}}]");
	SAYS("r contains p if { plus(count([1 | true]), 1, p) }", "{}", "[{\"r\": {2}}]");
}

static void heads_give_values_to_variables(void **state RF_UNUSED)
{
	static const char input[] = "{\"b\": [1, 2], \"c\": {\"x\": 1, \"y\": 2}}";

	SAYS("r contains input.c[k] if { l := k; l != \"x\" }", input, "[{\"r\": {2}}]");
	SAYS("r[l] := input.c[k] if { l := upper(k) }", input, "[{\"r\": {\"X\": 1, \"Y\": 2}}]");
	SAYS("r := 1 if { false } else := input.b[i] if { i > 0 }", input, "[{\"r\": 2}]");
	SAYS("r := [input.b[i] | j := i + 1; j > 1]", input, "[{\"r\": [2]}]");
	SAYS("r := x if { k := \"p\"; {\"p\": x} = {k: 7 | true} }", input, "[{\"r\": 7}]");
	SAYS("r := {k: input.c[k] | true}", input, "[{\"r\": {\"x\": 1, \"y\": 2}}]");
	assert_non_null(strstr(ask("package t\nr contains input.c[k] if { l := m }", "data.t", input), "var m is unsafe"));
}

static void constant_names_are_there_though_they_are_empty(void **state RF_UNUSED)
{
	SAYS("r.p[1].q := 1 if { false }", "{}", "[{\"r\": {\"p\": {1: {}}}}]");
	SAYS("r[1] contains 2 if { false }", "{}", "[{\"r\": {1: set()}}]");
	SAYS("r[1][x] := 2 if { x := 1; false }", "{}", "[{\"r\": {1: {}}}]");
	SAYS("r[1].x := 1 if { false }\nr.a.b := 1 if { false }", "{}", "[{\"r\": {1: {}, \"a\": {}}}]");
	SAYS("r[1].x := 1\nr[1].y.z := 1 if { false }", "{}", "[{\"r\": {1: {\"x\": 1, \"y\": {}}}}]");
	/* not where a rule with a variable there says what is */
	SAYS("r.p[x].q := 1 if { x := 1; false }\nr[x][x] := 2 if { x := \"c\" }", "{}", "[{\"r\": {\"c\": {\"c\": 2}}}]");
	SAYS("r[1][2] contains 1 if { false }\nr[1][x] := 2 if { x := 3; false }", "{}", "[{\"r\": {1: {}}}]");
	SAYS("r[x].x := 1 if { x := \"a\" }\nr.a[y] := 2 if { y := \"y\" }", "{}", "[{\"r\": {\"a\": {\"x\": 1, \"y\": 2}}}]");
}

static void types_that_are_not_held_against_a_policy(void **state RF_UNUSED)
{
	SAYS("r := urlquery.decode_object(\"a=1\")\ns if r[1] > \"k\"", "{}", "[{\"r\": {\"a\": [\"1\"]}}]");
	SAYS("r if not urlquery.decode_object(\"a\") == {\"a\": 1}", "{}", "[{\"r\": true}]");
	SAYS("r := [input.l] if input.a\ns if { i := 1; some x in r[i]; x }", "{}", "[{}]");
	SAYS("r contains x if { some x in input.s }\nf(x) := 1 if { y := null; {x: true | 1 = r[y]} }", "{}", "[{\"r\": set()}]");
	SAYS("r if { v := 7; not $\"p{v}q\"; v == null }", "{}", "[{}]");
	SAYS("f(x) if not {\"path\": {}} == {x: 0.5 | \"u\" == \"a\"}", "{}", "[{}]");
	assert_non_null(strstr(ask("package t\nf(v) if {\"op\": x} = [v]", "data.t", "{}"), "var x is unsafe"));
	SAYS("r := {1: null, 1.0: 0.5}", "{}", "[{\"r\": {1: 0.5}}]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_policy_runs_letter_for_letter),
		cmocka_unit_test(bodies_are_put_in_an_order_that_works),
		cmocka_unit_test(queries_give_every_answer),
		cmocka_unit_test(with_changes_one_expression_only),
		cmocka_unit_test(what_contradicts_itself_is_an_error),
		cmocka_unit_test(compile_errors_say_where),
		cmocka_unit_test(a_policy_that_runs_away_is_stopped),
		cmocka_unit_test(coverage_tells_what_was_evaluated),
		cmocka_unit_test(coverage_sees_through_what_makes_rules_fast),
		cmocka_unit_test(a_negation_needs_what_it_is_made_of),
		cmocka_unit_test(comprehensions_are_operands_like_others),
		cmocka_unit_test(heads_give_values_to_variables),
		cmocka_unit_test(constant_names_are_there_though_they_are_empty),
		cmocka_unit_test(types_that_are_not_held_against_a_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
