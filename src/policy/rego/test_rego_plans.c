/* What makes policies faster (narrow.c, index.c, pack.c, once.c, fix.c, sign.c, quick builtins) changes no answer: each
 * policy here is asked as it was written and with all of it, spelled out to the last digit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "policy/rego/rego.h"

enum { PLAIN, FASTER, FIXED, SHARED, AGAIN, WAYS };
static const char *const way_name[] = { "plain", "faster", "fixed", "shared", "shared, again" };

struct policy {
	struct rf_rego *rego;
	struct rf_rego_query *query;
	struct rf_arena arena;
	const struct rf_rego_fixed *fixed;
};

static void done(struct policy *p)
{
	rf_rego_query_free(p->query);
	rf_rego_unref(p->rego);
	rf_arena_done(&p->arena);
}

static void compile(struct policy *p, const char *module, const char *query, bool plain)
{
	struct rf_ra_errors errors = { .arena = &p->arena };
	struct rf_rego_source source = { RF_LIT("test.rego"), rf_str(module), RF_RA_V1 };
	rf_auto(buf) why = RF_BUF_INIT;
	int r = (plain ? rf_rego_compile_plain : rf_rego_compile)(&source, 1, NULL, &p->rego, &errors);

	if (r < 0 || rf_rego_prepare(p->rego, rf_str(query), RF_RA_V1, &p->query, &errors) < 0) {
		rf_ra_print_errors(&why, &errors);
		fail_msg("%s\n%.*s", module, RF_STR(rf_buf_str(&why)));
	}
}

static void fix(struct policy *p, struct rf_rv input, struct rf_rego_pool *pool)
{
	struct rf_rv parameters;

	if (!rf_rv_get_str(input, RF_LIT("parameters"), &parameters))
		fail_msg("an input without parameters");
	p->fixed = rf_rego_fix(p->rego, RF_LIT("parameters"), parameters, pool, &p->arena);
}

/* The answers or the error as text, in the arena. */
static const char *answers(const struct policy *p, const struct rf_rv *input, struct rf_rego_shared *shared,
			   bool strict, struct rf_arena *a)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_rego_run run = { .arena = a,
				   .input = input,
				   .now_ns = 1,
				   .seed = 1,
				   .strict = strict,
				   .fixed = p->fixed,
				   .shared = shared };
	struct rf_rego_result result = { 0 };
	struct rf_err err = RF_ERR_INIT;

	if (rf_rego_eval(p->query, &run, &result, &err) < 0)
		rf_buf_puts(&out, err.msg);
	for (size_t i = 0; i < result.n; i++) {
		rf_buf_puts(&out, i ? " " : "");
		rf_rv_print(&out, result.answer[i].bindings.n ? result.answer[i].bindings :
								result.answer[i].expressions);
	}
	return rf_arena_cstr(a, rf_buf_str(&out));
}

/* All ways give the same; returns it, until the next call. */
static const char *same_ways(const char *module, const char *query, const char *json, bool strict)
{
	static struct rf_arena a;
	struct rf_rego_pool *pool = rf_rego_pool_new();
	struct policy p[WAYS] = { 0 };
	const char *text[WAYS];
	struct rf_rv input;

	rf_arena_done(&a);
	assert_int_equal(rf_rv_parse_json(&a, rf_str(json), &input, NULL), 0);
	struct rf_rego_shared *shared = rf_rego_share(&a);
	for (int way = 0; way < WAYS; way++) {
		compile(&p[way], module, query, way == PLAIN);
		if (way >= FIXED)
			fix(&p[way], input, pool);
		text[way] = answers(&p[way], &input, way >= SHARED ? shared : NULL, strict, &a);
		if (strcmp(text[way], text[PLAIN]) != 0)
			fail_msg("%s\nquery %s, input %s\nplain: %s\n%s: %s", module, query, json, text[PLAIN],
				 way_name[way], text[way]);
	}
	for (int way = 0; way < WAYS; way++)
		done(&p[way]);
	rf_rego_pool_free(pool);
	return text[PLAIN];
}

/* Of every input, one a line of `inputs`. */
static void same(const char *module, const char *query, const char *const *inputs)
{
	for (; *inputs; inputs++) {
		(void)same_ways(module, query, *inputs, false);
		(void)same_ways(module, query, *inputs, true);
	}
}

#define SAME(module, query, ...) same("package t\n" module, query, (const char *const[]){ __VA_ARGS__, NULL })
/* All ways give this. */
#define GIVES(module, query, input, want)                                                                              \
	assert_string_equal(same_ways("package t\n" module, query, input, false), want)

/* --- rules of a set that begin alike --- */

static void rules_that_begin_alike_end_each_for_itself(void **state RF_UNUSED)
{
	GIVES("v contains \"deep\" if { some i, j; input.a[i][j] == 1 }\n"
	      "v contains \"flat\" if { some i, j; input.a[i] == 5; input.b[j] == 1 }\n",
	      "data.t.v", "{\"parameters\": {}, \"a\": [5], \"b\": [1]}", "[{\"flat\"}]");
	GIVES("v contains \"flat\" if { some i, j; input.a[i] == 5; input.b[j] == 1 }\n"
	      "v contains \"deep\" if { some i, j; input.a[i][j] == 1 }\n",
	      "data.t.v", "{\"parameters\": {}, \"a\": [5, [1]], \"b\": [1]}", "[{\"deep\", \"flat\"}]");
	SAME("v contains x if { some x in input.a; x > 1 }\n"
	     "v contains y if { some x in input.a; y := x + 10; y > 12 }\n"
	     "v contains z if { some x in input.a; y := x + 10; z := {\"z\": y} }\n"
	     "v contains x if { some x in input.b; x > 1 }\n"
	     "v contains \"none\" if { not input.a }\n",
	     "data.t.v", "{\"parameters\": {}, \"a\": [1, 2, 3], \"b\": [7]}", "{\"parameters\": {}, \"b\": [7, 0]}",
	     "{\"parameters\": {}, \"a\": {\"k\": 3}}", "{\"parameters\": {}, \"a\": 3}");
}

static void numbers_of_another_spelling_are_other_steps(void **state RF_UNUSED)
{
	GIVES("v contains m if { x := 1; some y in input.a; y > 0; m := json.marshal(x) }\n"
	      "v contains m if { x := 1.0; some y in input.a; y > 0; m := json.marshal(x) }\n",
	      "data.t.v", "{\"parameters\": {}, \"a\": [1, 2]}", "[{\"1\", \"1.0\"}]");
	SAME("v contains m if { x := [1, {\"a\": 2}]; some y in input.a; m := json.marshal([x, y]) }\n"
	     "v contains m if { x := [1, {\"a\": 2.0}]; some y in input.a; m := json.marshal([x, y]) }\n",
	     "data.t.v", "{\"parameters\": {}, \"a\": [1, 2]}");
}

static void alike_with_every_not_with_and_comprehensions(void **state RF_UNUSED)
{
#define ALIKE                                                                                                          \
	"v contains [1, x] if { some x in input.a; every y in input.b { y > x }; not input.c[x]; x < 9 }\n"            \
	"v contains [2, x] if { some x in input.a; every y in input.b { y > x }; not input.c[x]; x > 0 }\n"            \
	"v contains [3, x] if { some x in input.a; every y in input.b { y >= x }; not input.c[x]; x > 0 }\n"           \
	"v contains [4, x] if { some x in input.a; every y in input.b { y > x }; not input.d[x]; x > 0 }\n"            \
	"v contains [5, s] if { some x in input.a; s := {z | some z in input.b; z > x}; count(s) > 0 }\n"              \
	"v contains [6, s] if { some x in input.a; s := {z | some z in input.b; z >= x}; count(s) > 0 }\n"             \
	"v contains [7, s] if { some x in input.a; s := [z | some z in input.b; z > x]; count(s) > 0 }\n"              \
	"v contains [8, s] if { some x in input.a; s := {z: x | some z in input.b; z > x}; count(s) > 0 }\n"           \
	"v contains [9, s] if { some x in input.a; s := {z: z | some z in input.b; z > x}; count(s) > 0 }\n"           \
	"v contains [10, x] if { some x in input.a; other with input.b as [x]; x > 0 }\n"                              \
	"v contains [11, x] if { some x in input.a; other with input.b as [x, x]; x > 0 }\n"                           \
	"v contains [12, x] if { some x in input.a; other with input.b as [x]; x > 1 }\n"                              \
	"v contains [13, x] if { some x in input.a; not other with input.b as [x] }\n"                                 \
	"v contains [14, x] if { some x in input.a; s := [a | a := [b | some b in input.b; b > x]]; s != [[]] }\n"     \
	"v contains [15, x] if { some x in input.a; s := [a | a := [b | some b in input.b; b < x]]; s != [[]] }\n"     \
	"other if count(input.b) == 1\n"
	SAME(ALIKE, "data.t.v", "{\"parameters\": {}, \"a\": [1, 2, 3], \"b\": [2, 3, 4], \"c\": {}, \"d\": []}",
	     "{\"parameters\": {}, \"a\": [1, 2], \"b\": [], \"c\": [1, 1, 1], \"d\": {}}",
	     "{\"parameters\": {}, \"a\": {\"x\": 0}, \"b\": [1]}", "{\"parameters\": {}}");
}

static void alike_up_to_the_end_or_the_head(void **state RF_UNUSED)
{
	SAME("v contains 1 if input.a\nv contains 2 if input.a\nv contains 3 if { input.a; input.b }\n"
	     "v contains 1 if { input.a; input.b; input.c }\nv contains x if { input.a; x := input.c }\n",
	     "data.t.v", "{\"parameters\": {}, \"a\": 1, \"b\": 2, \"c\": 3}", "{\"parameters\": {}, \"a\": 1, \"c\": 3}",
	     "{\"parameters\": {}}");
	/* a head that has no value takes nothing from the others */
	SAME("v contains input.x if { some c in input.a; c > 1 }\nv contains [c, input.y] if { some c in input.a; c > 1 }\n"
	     "v contains [c, 1 / input.z] if { some c in input.a; c > 1 }\n",
	     "data.t.v", "{\"parameters\": {}, \"a\": [2, 3], \"y\": 1, \"z\": 0}",
	     "{\"parameters\": {}, \"a\": [2, 3], \"x\": 1, \"z\": 2}");
	/* else chains are not merged, and not lost */
	SAME("v contains x if { some x in input.a; x > 2 }\nv contains x if { some x in input.a; x > 1; x < 3 }\n"
	     "p := 1 if { input.b } else := 2 if { input.a } else := 3\n",
	     "data.t", "{\"parameters\": {}, \"a\": [1, 2, 3]}", "{\"parameters\": {}, \"b\": 1}", "{\"parameters\": {}}");
}

static void a_conflict_inside_merged_rules_is_told(void **state RF_UNUSED)
{
	GIVES("p := x if { some x in input.a }\n"
	      "v contains 1 if { some c in input.a; c > 0; p == 1 }\nv contains 2 if { some c in input.a; c > 0; p == 2 }\n",
	      "data.t.v", "{\"parameters\": {}, \"a\": [1, 2]}",
	      "test.rego:2: eval_conflict_error: complete rules must not produce multiple outputs");
	GIVES("v contains 1 if { some c in input.a; c > 0; o := {k: i | some i; k := input.b[i]}; o.x == 1 }\n"
	      "v contains 2 if { some c in input.a; c > 0; o := {k: i | some i; k := input.b[i]}; o.x == 2 }\n",
	      "data.t.v", "{\"parameters\": {}, \"a\": [1, 2], \"b\": [\"x\", \"x\"]}",
	      "eval_conflict_error: object keys must be unique");
}

/* --- sets of which a part is asked for --- */

#define GENERAL                                                                                                        \
	"g contains {\"m\": m, \"f\": f} if { c := input.o[f][_]; c.bad; m := sprintf(\"%v %v\", [c.n, f]) }\n"        \
	"g contains {\"m\": m, \"f\": f} if { c := input.o[f][_]; not c.good; m := c.n }\n"
#define OBJECTS                                                                                                        \
	"{\"parameters\": {}, \"o\": {\"a\": [{\"n\": \"x\", \"bad\": true}, {\"n\": \"y\"}], \"b\": [{\"n\": \"z\"}], "    \
	"\"c\": [{\"n\": \"w\", \"bad\": 1}], \"d\": {\"k\": {\"n\": \"u\"}}}}"

static void a_part_of_a_set_is_what_the_whole_has(void **state RF_UNUSED)
{
	GIVES(GENERAL "v contains m if g[{\"m\": m, \"f\": \"a\"}]\nv contains m if g[{\"m\": m, \"f\": \"b\"}]\n", "data.t.v",
	      OBJECTS, "[{\"x\", \"x a\", \"y\", \"z\"}]");
	SAME(GENERAL "v contains m if g[{\"m\": m, \"f\": \"a\"}]\nw := g\nn := count(g)\n"
		     "x contains m if g[{\"m\": m, \"f\": \"d\"}]\nno if not g[{\"m\": \"z\", \"f\": \"q\"}]\n"
		     "yes if g[{\"m\": \"z\", \"f\": \"b\"}]\n"
		     "each contains [f, m] if g[{\"m\": m, \"f\": f}]\n",
	     "data.t", OBJECTS, "{\"parameters\": {}}", "{\"parameters\": {}, \"o\": [[{\"n\": 1}]]}",
	     "{\"parameters\": {}, \"o\": {\"a\": 1, \"b\": [{}]}}");
	SAME(GENERAL "v contains m if g[{\"m\": m, \"f\": \"a\"}]\n"
		     "i contains m if { g[{\"m\": m, \"f\": \"a\"}] with input.o as {\"a\": [{\"n\": \"new\"}]} }\n"
		     "d contains m if { v[m] with data.t.g as {{\"m\": \"put\", \"f\": \"a\"}, {\"m\": \"no\", \"f\": \"b\"}} }\n"
		     "e contains m if { v[m] with data.t as {\"v\": {\"all\"}} }\n"
		     "l := [m | g[{\"m\": m, \"f\": \"a\"}]]\n"
		     "s if not nothing\nnothing if g[{\"m\": _, \"f\": \"zz\"}]\n",
	     "data.t", OBJECTS, "{\"parameters\": {}}");
}

static void parts_by_numbers_and_other_constants(void **state RF_UNUSED)
{
	SAME("g contains {\"m\": m, \"f\": f} if { c := input.l[f]; m := [f, c] }\n"
	     "o contains {\"m\": m, \"f\": f} if { x := {1.0: \"a\", 2: \"b\"}; c := x[f]; m := sprintf(\"%v %v\", [f, c]) }\n"
	     "v contains m if g[{\"m\": m, \"f\": 0}]\nv contains m if g[{\"m\": m, \"f\": 1.0}]\n"
	     "w contains m if o[{\"m\": m, \"f\": 1}]\n",
	     "data.t", "{\"parameters\": {}, \"l\": [\"p\", \"q\", \"r\"]}", "{\"parameters\": {}, \"l\": {\"0\": 1}}");
	/* the field is no key, or of one rule only */
	SAME("g contains {\"m\": m, \"f\": f} if { c := input.l[f]; m := [f, c] }\n"
	     "g contains {\"m\": 1, \"f\": f} if { f := input.k }\n"
	     "g contains {\"m\": 2, \"f\": \"a\"} if { input.k }\ng contains \"a\"\n"
	     "v contains m if g[{\"m\": m, \"f\": \"a\"}]\n",
	     "data.t", "{\"parameters\": {}, \"l\": {\"a\": 1}, \"k\": \"a\"}", "{\"parameters\": {}, \"k\": \"b\"}");
}

/* --- values computed once --- */

static void what_is_computed_once_is_right_everywhere(void **state RF_UNUSED)
{
	GIVES("v contains m if { p := input.parameters; q := p.x; m := upper(q) }\n", "data.t.v",
	      "{\"parameters\": {\"x\": \"abc\"}}", "[{\"ABC\"}]");
	GIVES("v contains m if { p := input.parameters.x; l := [p, 1]; m := sum(l) }\n", "data.t.v",
	      "{\"parameters\": {\"x\": 41}}", "[{42}]");
	GIVES("v contains m if { p := input.parameters; m := count([x | some x in p.l; x > 1]) }\n", "data.t.v",
	      "{\"parameters\": {\"l\": [1, 2, 3]}}", "[{2}]");
	GIVES("v contains m if { p := input.parameters; l := [x | some x in p.l; x > 1]; m := count(l) }\n", "data.t.v",
	      "{\"parameters\": {\"l\": [1, 2, 3]}}", "[{2}]");
	GIVES("v contains m if { p := input.parameters; o := {\"a\": {y: x | some y, x in p.l}}; m := count(o.a) }\n", "data.t.v",
	      "{\"parameters\": {\"l\": [1, 2, 3]}}", "[{3}]");
	SAME("f(x) := y if { y := count({a | some a in input.parameters.l; a != x}); y > 0 }\n"
	     "v contains [c, m] if { some c in input.a; m := f(c) }\n"
	     "v contains \"not\" if { some c in input.a; not count(input.parameters.l) > c }\n"
	     "v contains \"none\" if { not count(input.parameters.none) > 1 }\n"
	     "v contains [\"with\", m] if { m := count(input.parameters.l) with input.parameters.l as [1] }\n"
	     "v contains [\"with\", m, n] if { m := k with input.parameters.l as [1]; n := k }\n"
	     "v contains [\"mock\", m] if { m := k with count as 7 }\n"
	     "v contains [\"mock\", m] if { m := k with data.t.g as \"g\" }\n"
	     "v contains [\"mock\", m] if { m := k with data.t.h as g }\n"
	     "k := [n, l] if { n := count(input.parameters.l); l := h(input.parameters.l) }\n"
	     "h(x) := [count(x), g(x)]\ng(x) := y if { y := {z | some z in x; z > 1} }\n",
	     "data.t", "{\"parameters\": {\"l\": [1, 2, 3]}, \"a\": [0, 1, 3, 9]}", "{\"parameters\": {}, \"a\": [0]}",
	     "{\"parameters\": {\"l\": \"x\"}}", "{\"parameters\": {\"l\": {\"a\": 1}}, \"a\": {\"b\": 1}}");
}

static void nested_definitions_do_not_explode(void **state RF_UNUSED)
{
	rf_auto(buf) m = RF_BUF_INIT;

	rf_buf_puts(&m, "package t\nv contains count(x30) if { x0 := input.parameters.x\n");
	for (int i = 1; i <= 30; i++)
		rf_buf_printf(&m, "x%d := array.concat([x%d], [x%d])\n", i, i - 1, i - 1);
	rf_buf_puts(&m, "}\nw contains count(x60) if { x0 := input.parameters.x\n");
	for (int i = 1; i <= 60; i++)
		rf_buf_printf(&m, "x%d := [x%d, x%d]\n", i, i - 1, i - 1);
	rf_buf_puts(&m, "y := count(x60)\ny == 2 }\n");
	assert_string_equal(same_ways(m.p, "data.t", "{\"parameters\": {\"x\": 1}}", false), "[{\"v\": {2}, \"w\": {2}}]");
}

static void rules_of_many_variables(void **state RF_UNUSED)
{
	rf_auto(buf) m = RF_BUF_INIT;

	rf_buf_puts(&m, "package t\nv contains [x0, n, k] if {\n");
	for (int i = 0; i < 100; i++)
		rf_buf_printf(&m, "x%d := input.a + %d\n", i, i);
	rf_buf_puts(&m, "n := count([1 | z = input.parameters.l; y = z])\n"
			"k := count([1 | w = input.parameters.l])\n"
			"count([u | some u in input.parameters.l]) == 2\n}\n");
	assert_string_equal(same_ways(m.p, "data.t.v", "{\"parameters\": {\"l\": [1, 2]}, \"a\": 1}", false), "[{[1, 1, 1]}]");
}

static void more_expressions_than_are_numbered(void **state RF_UNUSED)
{
	rf_auto(buf) m = RF_BUF_INIT;

	rf_buf_puts(&m, "package t\n");
	for (int i = 0; i < 400; i++)
		rf_buf_printf(&m, "v contains [%d, m] if { m := count([x | some x in input.parameters.l; x > %d]); m > 0 }\n", i, i);
	for (int i = 0; i < 600; i++)
		rf_buf_printf(&m, "p contains %d if { input.q.a%d.b > input.parameters.l[0] }\n", i, i);
	(void)same_ways(m.p, "data.t", "{\"parameters\": {\"l\": [1, 2, 300]}, \"q\": {\"a1\": {\"b\": 2}, \"a599\": {\"b\": 3}}}", false);
}

/* --- calls --- */

static void calls_are_remembered_by_what_they_are_given(void **state RF_UNUSED)
{
#define LONG_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"
#define LONG_B "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"
	SAME("f(x) := [type_name(x), count([y | some y in [x, x, 1]]), sprintf(\"%v\", [x])] if { not input.never; input.a; true }\n"
	     "g(x, y) := [x, y] if { not input.never; x != \"no\"; input.a; true }\n"
	     "v := [f(x) | some x in input.a]\nw := [f(x) | some x in input.a; f(x)]\n"
	     "p := [g(x, y) | some x in input.a; some y in input.a]\n"
	     "c := [f(1), f(1.0), f(true), f(\"1\"), f([]), f({}), f(set()), f(null), f(false), f(0), f(-0)]\n",
	     "data.t",
	     "{\"parameters\": {}, \"a\": [1, 1.0, true, false, null, 0, \"\", \"1\", \"" LONG_A "\", \"" LONG_B "\", \"" LONG_A
	     "\", 123456789012345678901234567890, 123456789012345678901234567891, 123456789012345678901234567890, 1e2, 100, "
	     "[1], [1.0], [], {}, \"aaaaaaaaaaaaaaab\", \"aaaaaaaaaaaaaaac\", \"no\"]}");
}

static void calls_see_what_with_changes(void **state RF_UNUSED)
{
	SAME("f(x) := y if { y := [x, input.a, g(x)]; not input.never; true }\n"
	     "g(x) := [x, input.a, data.t.k] if { not input.never; x; true }\nk := input.b\n"
	     "v := [f(1), f(1)]\nw := y if { y := [f(1), g(2)] with input.a as 2 }\n"
	     "x := y if { y := [f(1), g(2)] with data.t.k as 3 }\nz := y if { y := [f(1), g(1)] with data.t.g as 4 }\n"
	     "m := y if { y := f(1) with data.t.g as h }\nh(x) := [\"h\", g(x)]\n",
	     "data.t", "{\"parameters\": {}, \"a\": 1, \"b\": 2}", "{\"parameters\": {}, \"a\": {\"x\": 1}}");
}

static void arguments_are_looked_up_by_value(void **state RF_UNUSED)
{
	SAME("default d(_, _) := \"default\"\n"
	     "d(\"a\", x) := [1, x]\nd(\"b\", x) := [2, x] if x > 1\nd(1, x) := [3, x]\nd([1, 2], x) := [4, x]\nd(null, _) := 5\n"
	     "d(true, x) := x\nd({\"k\": 1}, x) := [6, x]\nd(12345678901234567890, x) := [7, x]\n"
	     "e(\"a\", 1) := 1\ne(\"a\", 2) := 2\ne(x, 3) := x\ne(x, y) := z if { x == \"q\"; z := y }\n"
	     "a := [d(x, y) | some x in input.a; some y in input.b]\nb := [e(x, y) | some x in input.a; some y in input.b]\n",
	     "data.t",
	     "{\"parameters\": {}, \"a\": [\"a\", \"b\", 1, 1.0, 1e0, [1, 2], [1.0, 2], null, true, false, {\"k\": 1.0}, "
	     "12345678901234567890, 1.2345678901234567890e19, \"q\", \"\"], \"b\": [1, 2.0, 3, 0]}");
	GIVES("f(\"a\", x) := 1 if x\nf(\"b\", x) := 2 if x\nf(_, x) := 3 if x == 7\nv := f(\"a\", input.x)\n", "data.t.v",
	      "{\"parameters\": {}, \"x\": 7}",
	      "test.rego:2: eval_conflict_error: functions must not produce multiple outputs for same inputs");
	SAME("f(1, x) := x\nf(1.0, x) := y if { y := x + 1; x > 5 }\nf(2, x) := x\nv := f(1, input.x)\n", "data.t.v",
	     "{\"parameters\": {}, \"x\": 1}", "{\"parameters\": {}, \"x\": 9}");
}

static void quick_builtins_are_the_builtins(void **state RF_UNUSED)
{
	SAME("p := [[x == y, x != y, x < y, x <= y, x > y, x >= y] | some x in input.a; some y in input.a]\n"
	     "q := [(x + y) | some x in input.a; some y in input.a]\nr := [(x - y) | some x in input.a; some y in input.a]\n"
	     "c := [count(x) | some x in input.a]\nm := [[x in y] | some x in input.a; some y in input.a]\n"
	     "i := [[is_string(x)] | some x in input.a]\nj := [[is_number(x)] | some x in input.a]\n"
	     "k := [[is_array(x)] | some x in input.a]\nl := [[is_object(x)] | some x in input.a]\n"
	     "s := [(x - y) | some x in sets; some y in sets]\nn := [[x in y] | some x in input.a; some y in sets]\n"
	     "sets := [set(), {1}, {1, 2, \"a\"}, {1.0, null}]\n",
	     "data.t",
	     "{\"parameters\": {}, \"a\": [0, 1, -1, 1.0, 1.5, 9223372036854775807, -9223372036854775808, 1e30, \"\", \"a\", \"ab\", "
	     "null, true, false, [], [1, \"a\"], [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,\"a\"], {}, {\"a\": 1}, {\"b\": \"a\"}]}");
}

/* --- ahead of time, and shared --- */

static void what_is_known_ahead_may_be_undefined_or_err(void **state RF_UNUSED)
{
	SAME("v contains 1 if { x := input.parameters.a.b; count(x) > 0 }\n"
	     "v contains 2 if { not input.parameters.a.b }\nv contains 3 if { not count(input.parameters.a.b) > 0 }\n"
	     "v contains 4 if { u }\nv contains 5 if { not u }\nu if { count(input.parameters.a.b) > 1 }\n"
	     "v contains 6 if { o[\"x\"] }\no[k] := w if { some k, w in input.parameters.a }\n"
	     "v contains 7 if { y := to_number(input.parameters.n); y > 1 }\nv contains 8 if { object.get(input, \"parameters\", {}).z == 1 }\n"
	     "default dd := 9\ndd := input.parameters.dd\nv contains dd\n",
	     "data.t.v", "{\"parameters\": {}}", "{\"parameters\": {\"a\": {\"b\": [1, 2]}, \"n\": \"2\", \"z\": 1, \"dd\": 1}}",
	     "{\"parameters\": {\"a\": {\"b\": 1, \"x\": true}, \"n\": \"x\", \"z\": 1.0}}", "{\"parameters\": null}", "{\"parameters\": []}");
	GIVES("c := x if { some x in input.parameters.l }\nv contains 1 if { input.a; c > 1 }\nv contains 2 if { input.b }\n", "data.t.v",
	      "{\"parameters\": {\"l\": [1, 2]}, \"a\": 1, \"b\": 1}",
	      "test.rego:2: eval_conflict_error: complete rules must not produce multiple outputs");
	/* nobody asks for it */
	GIVES("c := x if { some x in input.parameters.l }\nv contains 1 if { input.a; c > 1 }\nv contains 2 if { input.b }\n", "data.t.v",
	      "{\"parameters\": {\"l\": [1, 2]}, \"b\": 1}", "[{2}]");
}

/* Two policies, each with its own parameters, judged one after the other with what they share, and each for itself. */
static void share(const char *one, const char *two, const char *parameters_one, const char *parameters_two, const char *rest)
{
	const char *module[] = { one, two, one, two }, *parameters[] = { parameters_one, parameters_two, parameters_two, parameters_one };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_rego_pool *pool = rf_rego_pool_new();
	struct rf_rego_shared *shared = rf_rego_share(&a);
	struct policy p[4] = { 0 }, plain[4] = { 0 };
	struct rf_rv_pair pair[2] = { { .key = rf_rv_str(RF_LIT("parameters")) }, { .key = rf_rv_str(RF_LIT("review")) } };
	const struct rf_rv input = { .type = RF_RV_OBJECT, .n = 2, .pairs = pair }; /* one place for all, as in a loop */

	assert_int_equal(rf_rv_parse_json(&a, rf_str(rest), &pair[1].value, NULL), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rf_rv_parse_json(&a, rf_str(parameters[i]), &pair[0].value, NULL), 0);
		compile(&p[i], module[i], "data.t.v", false);
		compile(&plain[i], module[i], "data.t.v", true);
		fix(&p[i], input, pool);
	}
	for (int i = 0; i < 8; i++) {
		const char *want, *have;

		assert_int_equal(rf_rv_parse_json(&a, rf_str(parameters[i % 4]), &pair[0].value, NULL), 0);
		want = answers(&plain[i % 4], &input, NULL, false, &a);
		have = answers(&p[i % 4], &input, shared, false, &a);
		if (strcmp(want, have) != 0)
			fail_msg("%s\nparameters %s, review %s\nplain: %s\nshared: %s", module[i % 4], parameters[i % 4], rest, want, have);
	}
	for (int i = 0; i < 4; i++) {
		done(&p[i]);
		done(&plain[i]);
	}
	rf_rego_pool_free(pool);
}

#define LIBRARY(constant)                                                                                              \
	"package t\nv contains m if { some c in input.review.l; bad(c); m := sprintf(\"%v\", [c]) }\n"                \
	"v contains m if { some c in all; not ok(c); m := c }\n"                                                       \
	"bad(c) if { c.a > " constant "; not c.b; count([x | some x in c.k; x > 0]) > 0 }\n"                           \
	"ok(c) if { c.z; true; not c.y == " constant " }\n"                                                            \
	"all contains c if { some c in input.review.l; c.a; not c.never; lim := " constant "; c.a < lim }\n"
#define ITEMS                                                                                                          \
	"{\"l\": [{\"a\": 1, \"k\": [1]}, {\"a\": 2, \"k\": [1]}, {\"a\": 3, \"k\": [2], \"z\": 1}, {\"a\": 4, \"k\": [0]}]}"

static void libraries_that_differ_in_one_constant_share_nothing(void **state RF_UNUSED)
{
	share(LIBRARY("1"), LIBRARY("1"), "{}", "{}", ITEMS);
	share(LIBRARY("1"), LIBRARY("2"), "{}", "{}", ITEMS);
	share(LIBRARY("3"), LIBRARY("2"), "{\"x\": 1}", "{\"x\": 2}", ITEMS);
	share(LIBRARY("input.parameters.x"), LIBRARY("input.parameters.x"), "{\"x\": 1}", "{\"x\": 3}", ITEMS);
	share(LIBRARY("input.parameters.x"), LIBRARY("input.parameters.y"), "{\"x\": 1, \"y\": 2}", "{\"x\": 3}", ITEMS);
	share(LIBRARY("input.parameters[\"x\"]"), LIBRARY("object.get(input, \"parameters\", {}).x"), "{\"x\": 1}", "{\"x\": 3}", ITEMS);
	share(LIBRARY("input.parameters[input.review.k]"), LIBRARY("input.parameters.x"), "{\"x\": 1}", "{\"x\": 3}", ITEMS);
}

#define SAYS(number)                                                                                                   \
	"package t\nv contains m if { some m in all }\n"                                                               \
	"all contains m if { some c in input.review.l; c.a > 1; not c.never; m := json.marshal(" number ") }\n"

static void the_spelling_of_numbers_is_not_shared(void **state RF_UNUSED)
{
	share(SAYS("1"), SAYS("1.0"), "{}", "{}", ITEMS);
	share(SAYS("[1e3]"), SAYS("[1000]"), "{}", "{}", ITEMS);
	share(SAYS("input.parameters.x"), SAYS("input.parameters.x"), "{\"x\": 1}", "{\"x\": 1.0}", ITEMS);
	share(SAYS("max(input.parameters.x)"), SAYS("max(input.parameters.x)"), "{\"x\": [1]}", "{\"x\": [1.0]}", ITEMS);
	share(SAYS("lim") "lim := 1\n", SAYS("lim") "lim := 1.0\n", "{}", "{}", ITEMS);
}

#define WHOLE(body)                                                                                                    \
	"package t\nv contains m if { bad(input); m := sprintf(\"%v\", [input.parameters.x]) }\n"                      \
	"v contains m if { m := worse(input.parameters) }\nbad(i) if { " body "; not i.never; i.review }\n"            \
	"worse(p) := y if { y := [p.x, 1]; not p.never; p.x > 1 }\nw := input\nv contains w.parameters.x if { w.review.l; not w.never }\n"

static void the_input_as_an_argument_is_each_runs_own(void **state RF_UNUSED)
{
	share(WHOLE("i.parameters.x > 2"), WHOLE("i.parameters.x > 2"), "{\"x\": 1}", "{\"x\": 3}", ITEMS);
	share(WHOLE("i.parameters.x > 2"), WHOLE("i.parameters.x < 2"), "{\"x\": 3}", "{\"x\": 1}", ITEMS);
}

static void other_builtins_steps_and_heads_are_other_signs(void **state RF_UNUSED)
{
#define SET(rest) "package t\nv contains m if { some m in all }\n" rest
	static const char *const module[] = {
		SET("all contains c if { some c in input.review.l; c.a > 1; not c.never }\n"),
		SET("all contains c if { some c in input.review.l; c.a >= 1; not c.never }\n"),
		SET("all contains c if { some c in input.review.l; c.a > 1; not c.z }\n"),
		SET("all contains [c] if { some c in input.review.l; c.a > 1; not c.never }\n"),
		SET("all contains i if { some i, c in input.review.l; c.a > 1; not c.never }\n"),
		SET("all contains c if { some c in input.review.l; c.a > 1; c.z; not c.never }\n"),
		SET("all contains c if { some c in input.review.l; every x in c.k { x > 1 }; not c.never }\n"),
		SET("all contains c if { some c in input.review.l; every x in c.k { x > 0 }; not c.never }\n"),
		SET("all contains c if { some c in input.review.l; c.a > lim; not c.never }\nlim := 2\n"),
		SET("all contains c if { some c in input.review.l; c.a > lim; not c.never }\nlim := count(input.review.l) - 2\n"),
		SET("all contains c if { some c in input.review.l; c.a > lim; not c.never }\nlim := count(input.review.l) - 1\n"),
		SET("all contains c if { some c in input.review.l; c.a > lim; not c.never }\ndefault lim := 3\nlim := 0 if input.review.none\n"),
		SET("all contains c if { some c in input.review.l; c.a > f(1); not c.never }\nf(x) := x if { not input.no; true; x }\n"),
		SET("all contains c if { some c in input.review.l; c.a > f(2); not c.never }\nf(x) := x if { not input.no; true; x }\n"),
		SET("all contains c if { some c in input.review.l; c.a > f(1); not c.never }\nf(x) := y if { not input.no; true; x; y := x + 2 }\n"),
		SET("all contains c if { some c in input.review.l; c.a > f(1); not c.never }\nf(1) := 3\nf(2) := 1\n"),
		SET("all contains c if { some c in input.review.l; c.a > f(1); not c.never }\nf(2) := 3\nf(1) := 1\n"),
		SET("all contains c if { some c in input.review.l; c.a > 1 with input.review as 1; not c.never }\n"),
		SET("all contains {x | some x in c.k} if { some c in input.review.l; c.a > 1; not c.never }\n"),
		SET("all contains [x | some x in c.k] if { some c in input.review.l; c.a > 1; not c.never }\n"),
		SET("all contains {x: 1 | some x in c.k} if { some c in input.review.l; c.a > 1; not c.never }\n"),
		SET("all contains $\"a{c.a}\" if { some c in input.review.l; c.a > 1; not c.never }\n"),
		SET("all contains $\"b{c.a}\" if { some c in input.review.l; c.a > 1; not c.never }\n"),
	};

	for (size_t i = 0; i < RF_COUNT(module); i++)
		for (size_t j = 0; j < i; j++)
			share(module[i], module[j], "{}", "{\"x\": 1}", ITEMS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_that_begin_alike_end_each_for_itself),
		cmocka_unit_test(numbers_of_another_spelling_are_other_steps),
		cmocka_unit_test(alike_with_every_not_with_and_comprehensions),
		cmocka_unit_test(alike_up_to_the_end_or_the_head),
		cmocka_unit_test(a_conflict_inside_merged_rules_is_told),
		cmocka_unit_test(a_part_of_a_set_is_what_the_whole_has),
		cmocka_unit_test(parts_by_numbers_and_other_constants),
		cmocka_unit_test(what_is_computed_once_is_right_everywhere),
		cmocka_unit_test(nested_definitions_do_not_explode),
		cmocka_unit_test(rules_of_many_variables),
		cmocka_unit_test(more_expressions_than_are_numbered),
		cmocka_unit_test(calls_are_remembered_by_what_they_are_given),
		cmocka_unit_test(calls_see_what_with_changes),
		cmocka_unit_test(arguments_are_looked_up_by_value),
		cmocka_unit_test(quick_builtins_are_the_builtins),
		cmocka_unit_test(what_is_known_ahead_may_be_undefined_or_err),
		cmocka_unit_test(libraries_that_differ_in_one_constant_share_nothing),
		cmocka_unit_test(the_spelling_of_numbers_is_not_shared),
		cmocka_unit_test(the_input_as_an_argument_is_each_runs_own),
		cmocka_unit_test(other_builtins_steps_and_heads_are_other_signs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
