/* What makes policies faster (narrow.c, index.c, pack.c, once.c, fix.c, sign.c, joint.c, quick builtins) changes no
 * answer: each policy here is asked as it was written and with all of it, spelled out to the last digit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "policy/rego/rego.h"

struct policy {
	struct rf_rego *rego;
	struct rf_rego_query *query;
	struct rf_arena arena;
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

/* The answers or the error as text, in the arena. */
static const char *answers(const struct policy *p, const struct rf_rv *input, bool strict, struct rf_arena *a)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_rego_run run = { .arena = a, .input = input, .now_ns = 1, .seed = 1, .strict = strict };
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

/* The same of a question to a joint plan. */
static const char *joint_answer(struct rf_rego_round *round, uint32_t number, struct rf_arena *a)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v;
	int r = rf_rego_ask_joint(round, number, &v, &err);

	if (r < 0)
		rf_buf_puts(&out, err.msg);
	if (r > 0)
		rf_rv_print(&out, rf_rv_array(&v, 1));
	return rf_arena_cstr(a, rf_buf_str(&out));
}

/* Its parameters, and what is left without them. */
static struct rf_rv part(struct rf_arena *a, struct rf_rv input, struct rf_rv *rest)
{
	struct rf_rv_pair *pair = rf_arena_array(a, struct rf_rv_pair, input.n + 1);
	struct rf_rv parameters;
	uint32_t n = 0;

	if (!rf_rv_get_str(input, RF_LIT("parameters"), &parameters))
		fail_msg("an input without parameters");
	for (uint32_t i = 0; i < input.n; i++)
		if (!rf_str_is(rf_rv_text(input.pairs[i].key), "parameters"))
			pair[n++] = input.pairs[i];
	*rest = rf_rv_object(pair, n, NULL);
	return parameters;
}

#define RULES_MAX 2000
struct rules {
	struct rf_arena *a;
	const char *path[RULES_MAX];
	size_t n;
};

static void note_rule(void *arg, struct rf_str path, const struct rf_ra_rule *rule, struct rf_str file RF_UNUSED)
{
	struct rules *l = arg;

	if (rule->is_function)
		return;
	for (size_t i = 0; i < l->n; i++)
		if (rf_str_is(path, l->path[i]))
			return;
	assert_true(l->n < RULES_MAX);
	l->path[l->n++] = rf_arena_cstr(l->a, path);
}

/* Each rule by itself, asked twice in a plan with all others, and the same policy once more in it. */
static void same_jointly(const char *module, struct rf_rv input, bool strict)
{
	static struct policy plain[RULES_MAX], joint[RULES_MAX][2];
	static uint32_t number[RULES_MAX][2];
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_rego_joint *j = rf_rego_joint_new();
	struct rules rules = { .a = &a };
	struct rf_rv rest, parameters = part(&a, input, &rest);
	struct rf_rego_run run = { .arena = &a, .input = &rest, .now_ns = 1, .seed = 1, .strict = strict };
	struct rf_rego_round *round;
	struct policy all = { 0 };

	compile(&all, module, "data.t", false);
	rf_rego_each_rule(all.rego, note_rule, &rules);
	for (size_t i = 0; i < rules.n; i++) {
		plain[i] = joint[i][0] = joint[i][1] = (struct policy){ 0 };
		compile(&plain[i], module, rules.path[i], true);
		for (int k = 0; k < 2; k++) {
			compile(&joint[i][k], module, rules.path[i], false);
			number[i][k] = rf_rego_join(j, joint[i][k].query, RF_LIT("parameters"), parameters);
		}
	}
	round = rf_rego_begin(j, &run);
	assert_non_null(round);
	for (size_t i = 0; i < 4 * rules.n; i++) {
		size_t k = i % rules.n;
		const char *want = answers(&plain[k], &input, strict, &a);
		const char *have = joint_answer(round, number[k][i / rules.n % 2], &a);

		if (strcmp(want, have) != 0)
			fail_msg("%s\n%s\nplain: %s\njoint, time %zu: %s", module, rules.path[k], want, i / rules.n, have);
	}
	rf_rego_joint_free(j);
	for (size_t i = 0; i < rules.n; i++) {
		done(&plain[i]);
		done(&joint[i][0]);
		done(&joint[i][1]);
	}
	done(&all);
}

/* All ways give the same; returns it, until the next call. */
static const char *same_ways(const char *module, const char *query, const char *json, bool strict)
{
	static struct rf_arena a;
	struct policy plain = { 0 }, faster = { 0 };
	const char *want, *have;
	struct rf_rv input;

	rf_arena_done(&a);
	assert_int_equal(rf_rv_parse_json(&a, rf_str(json), &input, NULL), 0);
	compile(&plain, module, query, true);
	compile(&faster, module, query, false);
	want = answers(&plain, &input, strict, &a);
	have = answers(&faster, &input, strict, &a);
	if (strcmp(want, have) != 0)
		fail_msg("%s\nquery %s, input %s\nplain: %s\nfaster: %s", module, query, json, want, have);
	same_jointly(module, input, strict);
	done(&plain);
	done(&faster);
	return want;
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

static void nested_calls_do_not_explode(void **state RF_UNUSED)
{
	rf_auto(buf) m = RF_BUF_INIT;

	rf_buf_puts(&m, "package t\nf(a, b) := [count(a), count(b), input.review] if { not input.never; input.review }\n");
	for (int rule = 0; rule < 2; rule++) {
		rf_buf_puts(&m, rule ? "w contains x60 if { x0 := input.review\n" : "v := x60 if { x0 := input.review\n");
		for (int i = 1; i <= 60; i++)
			rf_buf_printf(&m, "x%d := f(x%d, x%d)\n", i, i - 1, i - 1);
		rf_buf_puts(&m, "}\n");
	}
	assert_string_equal(same_ways(m.p, "data.t", "{\"parameters\": {}, \"review\": [1]}", false),
			    "[{\"v\": [3, 3, [1]], \"w\": {[3, 3, [1]]}}]");
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

/* Two policies, each with its own parameters, in one plan, and each for itself. */
static void share(const char *one, const char *two, const char *parameters_one, const char *parameters_two, const char *rest)
{
	const char *module[] = { one, two, one, two }, *parameters[] = { parameters_one, parameters_two, parameters_two, parameters_one };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_rego_joint *j = rf_rego_joint_new();
	struct policy p[4] = { 0 }, plain[4] = { 0 };
	struct rf_rv_pair pair[2] = { { .key = rf_rv_str(RF_LIT("parameters")) }, { .key = rf_rv_str(RF_LIT("review")) } };
	const struct rf_rv input = { .type = RF_RV_OBJECT, .n = 2, .pairs = pair };
	const struct rf_rv review = { .type = RF_RV_OBJECT, .n = 1, .pairs = pair + 1 };
	struct rf_rego_run run = { .arena = &a, .input = &review, .now_ns = 1, .seed = 1 };
	struct rf_rego_round *round;
	uint32_t number[4];

	assert_int_equal(rf_rv_parse_json(&a, rf_str(rest), &pair[1].value, NULL), 0);
	for (int i = 0; i < 4; i++) {
		struct rf_rv v;

		assert_int_equal(rf_rv_parse_json(&a, rf_str(parameters[i]), &v, NULL), 0);
		compile(&p[i], module[i], "data.t.v", false);
		compile(&plain[i], module[i], "data.t.v", true);
		number[i] = rf_rego_join(j, p[i].query, RF_LIT("parameters"), v);
	}
	round = rf_rego_begin(j, &run);
	for (int i = 0; i < 8; i++) {
		const char *want, *have;

		assert_int_equal(rf_rv_parse_json(&a, rf_str(parameters[i % 4]), &pair[0].value, NULL), 0);
		want = answers(&plain[i % 4], &input, false, &a);
		have = joint_answer(round, number[i % 4], &a);
		if (strcmp(want, have) != 0)
			fail_msg("%s\nparameters %s, review %s\nplain: %s\njoint: %s", module[i % 4], parameters[i % 4], rest, want, have);
	}
	rf_rego_joint_free(j);
	for (int i = 0; i < 4; i++) {
		done(&p[i]);
		done(&plain[i]);
	}
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

/* --- one plan --- */

static void what_can_never_hold_is_left_out_and_nothing_else(void **state RF_UNUSED)
{
	SAME("v contains 1 if { input.parameters.on; input.review.a }\nv contains 2 if { not input.parameters.on; input.review.a }\n"
	     "v contains 3 if { input.review.a; input.parameters.on == \"x\" }\nv contains 4 if { some x in input.parameters.l; x > input.review.a }\n"
	     "v contains 5 if { every x in input.parameters.l { x > input.review.a } }\n"
	     "v contains 6 if { not none }\nnone if { input.parameters.never; input.review.a }\n"
	     "c := 1 if { input.parameters.on } else := 2 if { input.review.a == 2 } else := 3 if { input.parameters.l } else := 4\n"
	     "c2 := 1 if { input.parameters.on }\nc2 := 2 if { not input.parameters.on; input.review.a }\ndefault c2 := 3\n"
	     "f(\"a\", x) := x if { input.parameters.on }\nf(\"a\", x) := [x] if { not input.parameters.on }\nf(\"b\", _) := 7 if { input.parameters.l }\n"
	     "f(\"c\", _) := 8 if { input.parameters.never }\ncalls := [y | some k in input.review.k; y := f(k, 1)]\n"
	     "o[k] := x if { input.parameters.on; some k, x in input.review.o }\no.a.b := 1 if { input.parameters.on }\n"
	     "o2.a[k] := 1 if { input.parameters.on; some k in input.review.k }\no2.c contains k if { input.parameters.never; some k in input.review.k }\n"
	     "t := $\"a {input.parameters.on} b {input.parameters.never} c {input.review.a}\"\n",
	     "data.t", "{\"parameters\": {\"on\": true, \"l\": [1, 2]}, \"review\": {\"a\": 1, \"k\": [\"a\", \"b\", \"c\"], \"o\": {\"x\": 1}}}",
	     "{\"parameters\": {\"on\": false, \"l\": []}, \"review\": {\"a\": 2, \"k\": [\"a\", \"b\", \"c\"]}}",
	     "{\"parameters\": {\"on\": \"x\"}, \"review\": {\"k\": [\"a\"]}}", "{\"parameters\": 1, \"review\": 1}", "{\"parameters\": {}}");
}

/* An error in front of what never holds is told as before, and names the rule it would have named. */
static void errors_in_what_is_left_out_stay(void **state RF_UNUSED)
{
	GIVES("p := x if { some x in input.review }\nv contains 1 if { p > 0; input.parameters.on }\n", "data.t.v",
	      "{\"parameters\": {}, \"review\": [1, 2]}",
	      "test.rego:2: eval_conflict_error: complete rules must not produce multiple outputs");
	GIVES("p := 1 if { input.parameters.on }\np := x if { some x in input.review }\n", "data.t.p",
	      "{\"parameters\": {}, \"review\": [1, 2]}",
	      "test.rego:2: eval_conflict_error: complete rules must not produce multiple outputs");
}

static void keys_behind_what_is_known(void **state RF_UNUSED)
{
	SAME("names := {\"1\": \"one\", \"a\": {\"b\": [10, 20]}, 2: \"two\"}\nmine := input.parameters.map\n"
	     "v contains [x, names[x]] if { some x in input.review.keys }\nv contains [x, mine[x]] if { some x in input.review.keys }\n"
	     "v contains [x, input.parameters.map[x]] if { some x in input.review.keys }\nv contains [x, input[x].map] if { some x in input.review.keys }\n"
	     "v contains [x, y] if { some x, y in names }\nv contains names.a.b[input.review.i]\nv contains input.parameters.map.a.b[input.review.i]\n"
	     "w := [data.t.names[\"a\"], data.t.mine.none, input.parameters.map[\"1\"]]\nu := data.t.names[2]\nx := data.t.mine[1].b\n",
	     "data.t", "{\"parameters\": {\"map\": {\"1\": \"eins\", \"a\": {\"b\": [1, 2]}}}, \"review\": {\"keys\": [1, 2, \"1\", \"a\", \"parameters\", \"review\"], \"i\": 1}}",
	     "{\"parameters\": {\"map\": [{\"b\": 1}, {\"b\": 2}]}, \"review\": {\"keys\": [0, 1, 1.0, \"0\"], \"i\": 0}}", "{\"parameters\": []}");
}

static void rules_that_lead_to_many_others(void **state RF_UNUSED)
{
	rf_auto(buf) m = RF_BUF_INIT;

	rf_buf_puts(&m, "package t\nr0 := input.review\n");
	for (int i = 1; i <= 600; i++)
		rf_buf_printf(&m, "r%d := r%d + input.parameters.x if { r%d > 0 }\n", i, i - 1, i - 1);
	rf_buf_puts(&m, "v := r600\n");
	assert_string_equal(same_ways(m.p, "data.t.v", "{\"parameters\": {\"x\": 2}, \"review\": 1}", false), "[1201]");
}

/* A joint plan of three: what one has used up, or got wrong, is not the others' loss, whoever comes first. */
static void an_error_is_that_of_one_alone(void **state RF_UNUSED)
{
	static const char *const module[] = {
		"package t\nimport data.inventory\nv contains x if { some x in all; data.inventory.a[x] }\nall contains x if { some x in input.review; x > input.parameters }\n",
		"package t\nv contains 1 if { p == 1 }\np := x if { some x in all }\nall contains x if { some x in input.review; x > input.parameters }\n",
		"package t\nv contains x if { some x in all; some y in all; some z in all; x + y + z == 0 }\nall contains x if { some x in input.review; x > input.parameters }\n",
	};
	static const char *const want[] = { "[{3, 4}]", "test.rego:3: eval_conflict_error: complete rules must not produce multiple outputs",
					    "the policy used up its steps; it does too much work for this input" };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_rego_joint *j = rf_rego_joint_new();
	struct policy p[3] = { 0 };
	uint32_t number[3];
	struct rf_rv review, data;
	struct rf_rv_pair pair = { .key = rf_rv_str(RF_LIT("review")) };
	const struct rf_rv input = { .type = RF_RV_OBJECT, .n = 1, .pairs = &pair };

	assert_int_equal(rf_rv_parse_json(&a, RF_LIT("[1, 2, 3, 4, 5, 6, 7, 8, 9]"), &review, NULL), 0);
	assert_int_equal(rf_rv_parse_json(&a, RF_LIT("{\"inventory\": {\"a\": [0, 0, 0, 1, {}]}}"), &data, NULL), 0);
	pair.value = review;
	for (int i = 0; i < 3; i++) {
		compile(&p[i], module[i], "data.t.v", false);
		number[i] = rf_rego_join(j, p[i].query, RF_LIT("parameters"), rf_rv_int(2));
	}
	for (int first = 0; first < 3; first++) {
		struct rf_rego_run run = { .arena = &a, .input = &input, .data = &data, .now_ns = 1, .steps = 200 };
		struct rf_rego_round *round = rf_rego_begin(j, &run);

		for (int i = 0; i < 6; i++)
			assert_string_equal(joint_answer(round, number[(first + i) % 3], &a), want[(first + i) % 3]);
		run.steps = 0;
		assert_string_equal(joint_answer(round, number[2], &a), "[set()]");
		assert_true(run.used > 200);
	}
	rf_rego_joint_free(j);
	for (int i = 0; i < 3; i++)
		done(&p[i]);
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
		cmocka_unit_test(nested_calls_do_not_explode),
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
		cmocka_unit_test(what_can_never_hold_is_left_out_and_nothing_else),
		cmocka_unit_test(errors_in_what_is_left_out_stay),
		cmocka_unit_test(keys_behind_what_is_known),
		cmocka_unit_test(rules_that_lead_to_many_others),
		cmocka_unit_test(an_error_is_that_of_one_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
