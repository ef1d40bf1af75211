/* What the compiler refuses, and in which words; what it must not refuse; and that it always ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "policy/rego/rego.h"
#include "policy/rego/types.h"

/* All errors, one after the other: "row: code: text". Empty: it compiles. */
static const char *errors_of(struct rf_str module, enum rf_ra_version version, bool strict)
{
	static char text[8192];
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_ra_errors e = { .arena = &a };
	struct rf_rego_source source = { RF_LIT("test.rego"), module, version };
	struct rf_rego *r = NULL;
	int rc = strict ? rf_rego_check(&source, 1, &e) : rf_rego_compile(&source, 1, NULL, &r, &e);

	assert_int_equal(rc, e.n ? -RF_INVALID : 0);
	for (uint32_t i = 0; i < e.n; i++)
		rf_buf_printf(&out, "%s%u: %s: %.*s", i ? "\n" : "", e.error[i].loc.row,
			      e.error[i].code, RF_STR(e.error[i].text));
	rf_rego_unref(r);
	assert_true(out.n < sizeof(text));
	memcpy(text, out.n ? out.p : "", out.n);
	text[out.n] = '\0';
	return text;
}

static const char *v1(const char *rules)
{
	rf_auto(buf) m = RF_BUF_INIT;

	rf_buf_printf(&m, "package t\n%s\n", rules);
	return errors_of(rf_buf_str(&m), RF_RA_V1, false);
}

static const char *strict(const char *rules)
{
	rf_auto(buf) m = RF_BUF_INIT;

	rf_buf_printf(&m, "package t\n%s\n", rules);
	return errors_of(rf_buf_str(&m), RF_RA_V1, true);
}

#define ACCEPTED(rules) assert_string_equal(v1(rules), "")

/* --- types --- */

static const char *printed(const struct rf_rt *t)
{
	static char text[1000];
	rf_auto(buf) out = RF_BUF_INIT;

	rf_rt_print(&out, t);
	assert_true(out.n < sizeof(text));
	memcpy(text, out.p, out.n + 1);
	return text;
}

static void types_are_joined_taken_apart_and_printed(void **state RF_UNUSED)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_rts x = { &a, 1000000 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v;
	const struct rf_rt *t, *u;

	assert_int_equal(
		rf_rv_parse_json(&a, RF_LIT("{\"a\":[1,\"x\"],\"b\":null,\"c\":{}}"), &v, &err), 0);
	t = rf_rt_of(&x, v);
	assert_string_equal(printed(t), "object<a: array<number, string>, b: null, c: object>");
	assert_string_equal(printed(rf_rt_values(&x, t)),
			    "any<null, array<number, string>, object>");
	assert_string_equal(printed(rf_rt_keys(&x, t)), "string");
	u = rf_rt_select(&x, t, rf_rv_str(RF_LIT("a")));
	assert_string_equal(printed(rf_rt_select(&x, u, rf_rv_int(1))), "string");
	assert_null(rf_rt_select(&x, u, rf_rv_int(2)));
	assert_null(rf_rt_select(&x, t, rf_rv_str(RF_LIT("d"))));
	assert_null(rf_rt_keys(&x, &rf_rt_number));

	u = rf_rt_or(&x, &rf_rt_string, rf_rt_or(&x, &rf_rt_number, &rf_rt_string));
	assert_string_equal(printed(u), "any<number, string>");
	assert_ptr_equal(rf_rt_or(&x, u, &rf_rt_any), &rf_rt_any);
	assert_true(rf_rt_fits(&x, u, &rf_rt_number));
	assert_false(rf_rt_fits(&x, u, &rf_rt_null));
	assert_true(rf_rt_fits(&x, rf_rt_set(&x, NULL), rf_rt_set(&x, &rf_rt_number)));
	assert_string_equal(printed(rf_rt_set(&x, NULL)), "set");
	assert_string_equal(printed(NULL), "?\?\?");
}

static void a_type_that_grows_too_large_is_any(void **state RF_UNUSED)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_rts x = { &a, 1000000 };
	const struct rf_rt *t = &rf_rt_number;

	for (int i = 0; i < 12; i++)
		t = rf_rt_set(&x, t);
	assert_int_equal(t->kind, RF_RT_SET);
	t = rf_rt_set(&x, t);
	assert_ptr_equal(t, &rf_rt_any);
	x.work = 0;
	assert_true(rf_rt_fits(&x, rf_rt_set(&x, &rf_rt_number),
			       &rf_rt_string)); /* no work left: unchecked */
}

static void every_builtin_is_declared_as_it_is_called(void **state RF_UNUSED)
{
	static const char *const undeclared[] = { "print" };

	for (size_t i = 0; i < rf_rb_count(); i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_rts x = { &a, 1000000 };
		const struct rf_rb *b = rf_rb_at(i);
		const struct rf_rt *f = rf_rt_builtin(&x, rf_str(b->name));
		bool exempt = false;

		for (size_t k = 0; k < RF_COUNT(undeclared); k++)
			exempt |= strcmp(b->name, undeclared[k]) == 0;
		if (exempt)
			continue;
		if (!f || f->n != b->n_args)
			fail_msg("%s is called with %u, declared with %d", b->name, b->n_args,
				 f ? (int)f->n : -1);
	}
}

/* --- refused --- */

static void what_can_never_be_equal_is_refused(void **state RF_UNUSED)
{
	assert_string_equal(v1("p if { x := 1; x == \"a\" }"),
			    "2: rego_type_error: match error\n\tleft  : number\n\tright : string");
	assert_string_equal(v1("p if { not 1 == \"a\" }"),
			    "2: rego_type_error: match error\n\tleft  : number\n\tright : string");
	assert_string_equal(v1("p if { [x, y] := split(\"a\", \"b\"); x == 1; y }"),
			    "2: rego_type_error: match error\n\tleft  : string\n\tright : number");
	assert_string_equal(v1("p if { {\"a\": 1} == {\"b\": 2} }"),
			    "2: rego_type_error: match error\n\tleft  : object<a: number>\n"
			    "\tright : object<b: number>");
	assert_string_equal(v1("p if { 1 in [\"a\"] }"),
			    "2: rego_type_error: match error\n\tleft  : number\n\tright : string");
	assert_string_equal(v1("p := [x | x := 1; x == \"a\"]"),
			    "2: rego_type_error: match error\n\tleft  : number\n\tright : string");
	assert_string_equal(
		v1("q := 1 if input.x\nq := \"a\" if input.y\np if q == null"),
		"4: rego_type_error: match error\n\tleft  : any<number, string>\n\tright : null");
}

static void functions_are_called_with_what_they_take(void **state RF_UNUSED)
{
	assert_string_equal(
		v1("p := count(1)"),
		"2: rego_type_error: count: invalid argument(s)\n\thave: (number, ?\?\?)\n"
		"\twant: (collection: any<string, array[any], object[any: any], set[any]>, n: "
		"number)");
	assert_string_equal(
		v1("p := 1 + \"a\""),
		"2: rego_type_error: plus: invalid argument(s)\n\thave: (number, string, ?\?\?)\n"
		"\twant: (x: number, y: number, z: number)");
	assert_string_equal(
		v1("f(x) := upper(x)\np := f(1)"),
		"3: rego_type_error: data.t.f: invalid argument(s)\n\thave: (number, ?\?\?)\n"
		"\twant: (string, string)");
	assert_string_equal(v1("p := concat(\",\", [\"a\", 2])"),
			    "2: rego_type_error: concat: invalid argument(s)\n"
			    "\thave: (string, array<string, number>, ?\?\?)\n"
			    "\twant: (delimiter: string, collection: any<array[string], "
			    "set[string]>, output: string)");
	assert_string_equal(
		v1("p := substring(1, 2)"),
		"2: rego_type_error: substring: arity mismatch\n\thave: (number, number, ?\?\?)\n"
		"\twant: (value: string, offset: number, length: number)");
	assert_string_equal(v1("f(x, y) := x + y\np := f(1, 2, 3)"),
			    "3: rego_type_error: function data.t.f has arity 2, got 3 arguments");
}

static void references_lead_somewhere(void **state RF_UNUSED)
{
	assert_string_equal(
		v1("l := {\"a\": 1}\np := l.b"),
		"3: rego_type_error: undefined ref: data.t.l.b\n\tdata.t.l.b\n\t         ^\n"
		"\t         have: \"b\"\n\t         want (one of): [\"a\"]");
	assert_string_equal(
		v1("p if { x := {\"a\": 1}; x.a.b }"),
		"2: rego_type_error: undefined ref: x.a.b\n\tx.a.b\n\t^^^\n\thave: number");
	assert_string_equal(
		v1("s contains \"x\"\np if s[1]"),
		"3: rego_type_error: undefined ref: data.t.s[1]\n\tdata.t.s[1]\n\t         ^\n"
		"\t         have: 1\n\t         want (type): string");
	assert_string_equal(v1("p if { some k, v in {\"a\": 1}; k == 1; v }"),
			    "2: rego_type_error: match error\n\tleft  : string\n\tright : number");
}

/* --- accepted --- */

static void what_may_hold_is_accepted(void **state RF_UNUSED)
{
	ACCEPTED("p if { input.x == 1; input.x == \"a\" }");
	ACCEPTED("p if { data.other[input.x].y == 1 }");
	ACCEPTED("q := 1 if input.x\nq := \"a\" if input.y\np if q == 1");
	ACCEPTED("p if { x := json.unmarshal(input.a); x.b.c[0] > 1 }");
	ACCEPTED("p := object.get(input, \"a\", 1) + 1");
	ACCEPTED("p if { every x in [1, 2] { x == \"a\" } }"); /* OPA does not look inside */
	ACCEPTED("l := {\"a\": 1}\np if l.b with data.t.l as {\"b\": 2}");
	ACCEPTED("f(x) := y if { y := x.foo; x == 1 }\np := f({\"foo\": 1})");
	ACCEPTED("p if { x := {1, \"a\"}; x[\"b\"]; x[2] }");
	ACCEPTED("p if { set() == {1}; [] == [] }");
	ACCEPTED("p[x] := y if { some x, y in input }\nq if p.a.b.c == 1");
	ACCEPTED("p if { walk(input, [path, v]); path[0] == \"a\"; v > 1 }");
	ACCEPTED("p := rego.metadata.rule().title");
	ACCEPTED("on(v) if not v in [false, null]\np if on(\"yes\")");
	ACCEPTED("p if { f(1, x); x == 2 }\nf(x) := x + 1");
}

/* A function's argument is not known until something in the body tells. */
static void what_is_known_in_part_only_may_be_anything(void **state RF_UNUSED)
{
	ACCEPTED("f(a) := [v] if v := {a: 1 | true}\np if { x := f(1); x = [] }");
	ACCEPTED("f(a) := [v] if v := {a | true} with input as 1\np if { x := f(1); x = 1 }");
	ACCEPTED("f(a) := v if v := {a}\np if { x := f(1); x = 1 }");
	ACCEPTED("f(a) := {\"k\": v} if v := [[a] | true]\np if { x := f(1); upper(x) }");
	ACCEPTED("f(a) := [w] if { v := {a | true}; w := {v} }\nh(a) := f(a)\np if { x := h(1); x = 1 }");
	ACCEPTED("f(a) := [v] if v := {{a: 1} | true}\np if { [x] = f(1); x = 1 }");
	ACCEPTED("f(a) := v if { v := {a: 1}; upper(a) }\np if f(1)");
	ACCEPTED("f(a) := v if v := {a: 1 | true}\np if {\"c\": \"A\"} = f(1)");
	ACCEPTED("q := {\"a\": null}\np if {x: 1 | x := q with data.d as 1} == q");
	ACCEPTED("q := {\"a\": null}\np if {q: 1} == {\"a\": 1, \"b\": 2} with data.d as 1");
	ACCEPTED("f(a) if { v := {[a] | true}; some x in v; x[0] == 1 }");
}

static void what_is_known_of_it_counts(void **state RF_UNUSED)
{
	assert_string_equal(v1("f(a) if { v := {a | true}; v = 1 }"),
			    "2: rego_type_error: match error\n\tleft  : set[?\?\?]\n\tright : number");
	assert_string_equal(v1("f(a) := v if v := {a: 1}\np if { x := f(1); x = 1 }"),
			    "3: rego_type_error: match error\n\tleft  : object[any: number]\n\tright : number");
	assert_string_equal(v1("f(a) := v if { w := {a | true}; v := [w] }\np if { x := f(1); x = [] }"),
			    "3: rego_type_error: match error\n\tleft  : array<any>\n\tright : array");
	assert_string_equal(v1("f(a) := [v] if v := [a | true]\np if { x := f(1); x = [] }"),
			    "3: rego_type_error: match error\n\tleft  : array<array[any]>\n\tright : array");
}

/* --- names --- */

static void heads_may_give_values_to_the_keys_before_them(void **state RF_UNUSED)
{
	ACCEPTED("p[x] := sum([1]) + q[x]\nq := {\"a\": 1}");
}

static void print_takes_anything_and_needs_nothing(void **state RF_UNUSED)
{
	ACCEPTED("p if { print() ; print(1, input.x, y) }");
}

static void some_belongs_to_the_closures_that_use_it(void **state RF_UNUSED)
{
	ACCEPTED("p if { some i; x := [z | z := [1, 2][i]]; y := [z | z := [3][i]]; x; y }");
	ACCEPTED("p if { some x, x in [0]; x }");
	ACCEPTED("x := 4\nq := {1, 2}\np contains q[x] if { some x }");
	assert_string_equal(v1("p if { some x; true }"),
			    "2: rego_compile_error: declared var x unused");
	assert_string_equal(v1("p if { every k, v in [1] { v } }"),
			    "2: rego_compile_error: declared var k unused");
}

static void v1_does_not_hide_the_roots_or_imports(void **state RF_UNUSED)
{
	assert_string_equal(v1("import data.foo\nimport data.bar.foo\np if foo.x"),
			    "3: rego_compile_error: import must not shadow import data.foo");
	assert_string_equal(
		v1("input := 1"),
		"2: rego_compile_error: rules must not shadow input (use a different rule name)");
	assert_string_equal(v1("f(data) := 1"),
			    "2: rego_compile_error: args must not shadow data (use a "
			    "different variable name)");
	assert_string_equal(
		v1("p if { input := 1; input == 1 }"),
		"2: rego_compile_error: variables must not shadow input (use a different variable "
		"name)");
	assert_string_equal(v1("p if { not x := 1 }"),
			    "2: rego_compile_error: cannot assign vars inside negated expression");
	assert_string_equal(v1("f(x) := 1 if { some x; x = 1 }"),
			    "2: rego_compile_error: arg x redeclared");
	assert_string_equal(v1("startswith(\"a\", \"b\")"),
			    "2: rego_parse_error: rule name conflicts with built-in function");
}

static void strict_mode_tells_what_nobody_uses(void **state RF_UNUSED)
{
	assert_string_equal(strict("import data.foo\np if true"),
			    "2: rego_compile_error: import data.foo unused");
	assert_string_equal(strict("import data.foo as bar\np if bar.x"), "");
	assert_string_equal(strict("p if { x := 1 }"),
			    "2: rego_compile_error: assigned var x unused");
	assert_string_equal(strict("p if { x := 1; y := [z | z := x]; y }"), "");
	assert_string_equal(strict("p := [x | x := 1; y := 2]"),
			    "2: rego_compile_error: assigned var y unused");
	assert_string_equal(strict("f(x) := 1"),
			    "2: rego_compile_error: unused argument x. (hint: use _ "
			    "(wildcard variable) instead)");
	assert_string_equal(strict("f(x) := 1 if { input.a } else := x"), "");
	assert_string_equal(strict("f(_) := 1"), "");
	assert_string_equal(
		errors_of(RF_LIT("package t\np { any([true]) }\n"), RF_RA_V0, true),
		"2: rego_type_error: deprecated built-in function calls in expression: any");
	assert_string_equal(errors_of(RF_LIT("package t\np { any([true]) }\n"), RF_RA_V0, false),
			    "");
}

/* --- that it ends --- */

static void circles_are_told_with_their_way(void **state RF_UNUSED)
{
	assert_string_equal(
		v1("p if q\nq if r\nr if p"),
		"2: rego_recursion_error: rule data.t.p is recursive: data.t.p -> data.t.q -> "
		"data.t.r -> data.t.p");
	ACCEPTED("l := 1\np if { x := \"l\"; data.t[x] == 1 }");
}

static const char *many(const char *before, const char *each, int n, const char *after)
{
	rf_auto(buf) m = RF_BUF_INIT;

	rf_buf_puts(&m, before);
	for (int i = 0; i < n; i++) {
		for (const char *c = each; *c; c++) {
			if (*c == '#')
				rf_buf_printf(&m, "%d", i);
			else if (*c == '+')
				rf_buf_printf(&m, "%d", i + 1);
			else
				rf_buf_add_c(&m, *c);
		}
	}
	rf_buf_puts(&m, after);
	return errors_of(rf_buf_str(&m), RF_RA_V1, false);
}

static void long_policies_compile_without_deep_stacks(void **state RF_UNUSED)
{
	assert_string_equal(many("package t\n", "r# := r+\n", 20000, "r20000 := 1\n"), "");
	assert_string_equal(
		many("package t\np := 0 if input.x\n", "else := # if input.x == #\n", 20000, ""),
		"");
	assert_string_equal(many("package t\np if {\nx0 := 1\n", "x+ := x#\n", 5000, "}\n"), "");
	assert_string_equal(many("package t\np := {", "\"k#\": #,", 20000, "\"z\": 1}\n"), "");
	assert_non_null(strstr(
		many("package t\n", "r# := r+\n", 20000, "r20000 := r0\n"),
		"rego_recursion_error: rule data.t.r0 is recursive: data.t.r0 -> data.t.r1 -> "));
}

static void names_and_references_have_a_length(void **state RF_UNUSED)
{
	assert_string_equal(many("package t\np := input", ".a", 2000, "\n"),
			    "2: rego_compile_error: a reference of 2001 parts; at most 500 can be");
	assert_string_equal(many("package t", ".a", 2000, "\np := 1\n"),
			    "1: rego_compile_error: a name of 2001 parts; at most 500 can be");
	assert_string_equal(many("package t\np if input", " with input.x# as 1", 300, "\n"),
			    "2: rego_compile_error: 300 times with; at most 200 can be");
}

static void with_inside_with_is_compiled_once(void **state RF_UNUSED)
{
	rf_auto(buf) m = RF_BUF_INIT;

	rf_buf_puts(&m, "package t\nf(x, y, z) if { x == y; z }\np := ");
	for (int i = 0; i < 40; i++)
		rf_buf_puts(&m, "[1 | not f(input.a, input.b, input.c) with input as ");
	rf_buf_puts(&m, "1");
	for (int i = 0; i < 40; i++)
		rf_buf_puts(&m, "]");
	rf_buf_puts(&m, "\n");
	assert_string_equal(errors_of(rf_buf_str(&m), RF_RA_V1, false), "");
}

static void expressions_that_wait_for_each_other_have_an_end(void **state RF_UNUSED)
{
	assert_string_equal(many("package t\np if {\n", "x# = x+\n", 2000, "x2000 = 1\n}\n"), "");
	assert_non_null(
		strstr(many("package t\np if {\n", "x# = x+\n", 12000, "x12000 = 1\n}\n"),
		       "rego_compile_error: too many expressions that wait for each other"));
}

/* --- metadata --- */

static const char *answer(const char *module, const char *query)
{
	static char text[4096];
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rego_source source = { RF_LIT("test.rego"), rf_str(module), RF_RA_V1 };
	struct rf_rego *r = NULL;
	struct rf_rego_query *q = NULL;
	struct rf_rego_run run = { .arena = &a };
	struct rf_rego_result result = { 0 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v = RF_RV_NIL;

	assert_int_equal(rf_rego_compile(&source, 1, NULL, &r, &errors), 0);
	assert_int_equal(rf_rego_prepare(r, rf_str(query), RF_RA_V1, &q, &errors), 0);
	assert_int_equal(rf_rego_eval(q, &run, &result, &err), 0);
	assert_true(rf_rego_value(&result, &v));
	rf_rv_print(&out, v);
	assert_true(out.n < sizeof(text));
	memcpy(text, out.p, out.n + 1);
	rf_rego_query_free(q);
	rf_rego_unref(r);
	return text;
}

static const char NOTED[] = "# METADATA\n# description: all\n# scope: subpackages\n\n"
			    "# METADATA\n# description: pkg\n# compile: {unknowns: [input.x]}\n"
			    "package a.b\n"
			    "# METADATA\n# title: doc\n# scope: document\n\n"
			    "# METADATA\n# title: far\n\n"
			    "# METADATA\n# title: near\n# description: \"\"\n"
			    "p[1] := rego.metadata.chain()\n"
			    "q := rego.metadata.chain() if { false } else := rego.metadata.rule()\n"
			    "# METADATA\n# title: r\n# custom: {x: 1}\n"
			    "r := rego.metadata.rule()\n";

static void the_chain_goes_from_the_nearest_annotation_outwards(void **state RF_UNUSED)
{
	assert_string_equal(answer(NOTED, "data.a.b.p[1]"),
			    "[{\"annotations\": {\"scope\": \"rule\", \"title\": \"near\"}, "
			    "\"path\": [\"a\", \"b\", \"p\", \"1\"]}, "
			    "{\"annotations\": {\"scope\": \"rule\", \"title\": \"far\"}, "
			    "\"path\": [\"a\", \"b\", \"p\", \"1\"]}, "
			    "{\"annotations\": {\"scope\": \"document\", \"title\": \"doc\"}, "
			    "\"path\": [\"a\", \"b\", \"p\", \"1\"]}, "
			    "{\"annotations\": {\"description\": \"pkg\", \"scope\": \"package\"}, "
			    "\"path\": [\"a\", \"b\"]}, "
			    "{\"annotations\": {\"description\": \"all\", \"scope\": "
			    "\"subpackages\"}, \"path\": [\"a\", \"b\"]}]");
	assert_string_equal(answer(NOTED, "data.a.b.r"),
			    "{\"custom\": {\"x\": 1}, \"scope\": \"rule\", \"title\": \"r\"}");
	assert_string_equal(answer(NOTED, "data.a.b.q"),
			    "{}"); /* else has no annotations of its own */
}

static void equal_keys_the_later_one_counts(void **state RF_UNUSED)
{
	assert_string_equal(answer("package t\np := {\"a\": 1, \"b\": 2, \"a\": 3}\n", "data.t.p"),
			    "{\"a\": 3, \"b\": 2}");
	assert_string_equal(
		answer("package t\np := json.unmarshal(`{\"a\": 1, \"a\": 2}`)\n", "data.t.p"),
		"{\"a\": 2}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_are_joined_taken_apart_and_printed),
		cmocka_unit_test(a_type_that_grows_too_large_is_any),
		cmocka_unit_test(every_builtin_is_declared_as_it_is_called),
		cmocka_unit_test(what_can_never_be_equal_is_refused),
		cmocka_unit_test(functions_are_called_with_what_they_take),
		cmocka_unit_test(references_lead_somewhere),
		cmocka_unit_test(what_may_hold_is_accepted),
		cmocka_unit_test(what_is_known_in_part_only_may_be_anything),
		cmocka_unit_test(what_is_known_of_it_counts),
		cmocka_unit_test(heads_may_give_values_to_the_keys_before_them),
		cmocka_unit_test(print_takes_anything_and_needs_nothing),
		cmocka_unit_test(some_belongs_to_the_closures_that_use_it),
		cmocka_unit_test(v1_does_not_hide_the_roots_or_imports),
		cmocka_unit_test(strict_mode_tells_what_nobody_uses),
		cmocka_unit_test(circles_are_told_with_their_way),
		cmocka_unit_test(long_policies_compile_without_deep_stacks),
		cmocka_unit_test(names_and_references_have_a_length),
		cmocka_unit_test(with_inside_with_is_compiled_once),
		cmocka_unit_test(expressions_that_wait_for_each_other_have_an_end),
		cmocka_unit_test(the_chain_goes_from_the_nearest_annotation_outwards),
		cmocka_unit_test(equal_keys_the_later_one_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
