/* The parser of Rego: which tree comes of which text, which text is refused and how, and how a module is
 * laid out again. Trees are compared as rf_ra_dump writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/rego/ast.h"

struct parsed {
	struct rf_arena arena;
	struct rf_ra_errors errors;
	struct rf_ra_module *m;
	struct rf_buf out;
	int rc;
};

static struct parsed parse(const char *text, enum rf_ra_version version)
{
	struct parsed p = { .arena = RF_ARENA_INIT, .out = RF_BUF_INIT };
	struct rf_ra_errors errors = { .arena = &p.arena };

	p.rc = rf_ra_parse(&p.arena, RF_LIT("t.rego"), rf_str(text), version, &p.m, &errors);
	p.errors = errors;
	return p;
}

static void done(struct parsed *p)
{
	rf_arena_done(&p->arena);
	rf_buf_done(&p->out);
}

static void says(struct parsed *p, const char *text)
{
	rf_ra_print_errors(&p->out, &p->errors);
	if (p->rc == 0 || !rf_str_contains(rf_buf_str(&p->out), rf_str(text)))
		fail_msg("wanted \"%s\", got %s", text, p->rc == 0 ? "no error" : p->out.p);
}

/* The statements behind "package p" make that tree. */
static void tree(enum rf_ra_version version, const char *statements, const char *want)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct parsed p;

	rf_buf_printf(&text, "package p\n%s", statements);
	p = parse(text.p, version);
	if (p.rc < 0) {
		rf_ra_print_errors(&p.out, &p.errors);
		fail_msg("%s\n%s", statements, p.out.p);
	}
	rf_ra_dump(&p.out, p.m);
	assert_true(rf_str_starts(rf_buf_str(&p.out), RF_LIT("(package \"p\")\n")));
	assert_string_equal(p.out.p + strlen("(package \"p\")\n"), want);
	done(&p);
}

static void v0(const char *statements, const char *want)
{
	tree(RF_RA_V0, statements, want);
}

static void v1(const char *statements, const char *want)
{
	tree(RF_RA_V1, statements, want);
}

/* Must not parse, and say so. */
static void refused(enum rf_ra_version version, const char *statements, const char *why)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct parsed p;

	rf_buf_printf(&text, "package p\n%s", statements);
	p = parse(text.p, version);
	says(&p, why);
	done(&p);
}

static void laid_out(enum rf_ra_version version, const char *text, const char *want)
{
	struct parsed p = parse(text, version), again;

	if (p.rc < 0)
		says(&p, "");
	rf_ra_format(&p.out, p.m);
	assert_string_equal(p.out.p, want);
	again = parse(want, version);
	assert_int_equal(again.rc, 0);
	rf_ra_format(&again.out, again.m);
	assert_string_equal(again.out.p, want);
	done(&p);
	done(&again);
}

/* --- heads ------------------------------------------------------------------------------------- */

static void v0_heads_of_all_forms_are_read(void **state)
{
	v0("p { x }", "(rule p {x})\n");
	v0("p = 1", "(rule p = 1)\n");
	v0("p := 1 { x }", "(rule p := 1 {x})\n");
	v0("p[x] { x = 1 }", "(rule p [] x {(infix eq x 1)})\n");
	v0("p.x { true }", "(rule p [] \"x\" {true})\n");
	v0("p[[1, 2]]", "(rule p [] (array 1 2))\n");
	v0("p[k] = v { x[k] = v }", "(rule (ref p k) = v {(infix eq (ref x k) v)})\n");
	v0("f(x) = y { y := x }", "(rule f (args x) = y {(infix assign y x)})\n");
	v0("f(x)", "(rule f (args x))\n");
	v0("a.b.c { x }", "(rule (ref a \"b\" \"c\") {x})\n");
	v0("a.b[c].d = 1 { x[c] }", "(rule (ref a \"b\" c \"d\") = 1 {(ref x c)})\n");
	v0("p { a } { b }", "(rule p {a} (also {b}))\n");
	v0("p = 1 { a } else = 2 { b } else = 3", "(rule p = 1 {a} (else = 2 {b}) (else = 3))\n");
	v0("default p = false", "(default p = false)\n");
	v0("default f(_) = [1]", "(default f (args _) = (array 1))\n");
}

static void v1_heads_of_all_forms_are_read(void **state)
{
	v1("p if x", "(rule p if {x})\n");
	v1("p if { x; y }", "(rule p if {x; y})\n");
	v1("p contains x if { x := 1 }", "(rule p contains x if {(infix assign x 1)})\n");
	v1("p contains 1", "(rule p contains 1)\n");
	v1("p[k] := v if some k, v in xs", "(rule (ref p k) := v if {(some-in k v xs)})\n");
	v1("p[x] if x", "(rule (ref p x) if {x})\n");
	v1("a.b[c].d contains e if c", "(rule (ref a \"b\" c \"d\") contains e if {c})\n");
	v1("f(x, _) := y if y := x", "(rule f (args x _) := y if {(infix assign y x)})\n");
	v1("p := 1 if a else := 2 if { b; c } else := 3",
	   "(rule p := 1 if {a} (else := 2 if {b; c}) (else := 3))\n");
	v1("if.foo := 1\nin.x contains 2",
	   "(rule (ref if \"foo\") := 1)\n(rule (ref in \"x\") contains 2)\n");
}

static void a_brace_behind_if_is_a_body_unless_it_can_only_be_a_value(void **state)
{
	v1("p if { x }", "(rule p if {x})\n");
	v1("p if {x, y} == z", "(rule p if {(infix equal (set x y) z)})\n");
	v1("p if {x | y}", "(rule p if {(set-of x {y})})\n");
	v1("p if {\"a\": 1}", "(rule p if {(object \"a\" 1)})\n");
}

static void keywords_are_names_where_they_are_not_imported(void **state)
{
	v0("in = 1\nif = in { contains(every, \"x\") }",
	   "(rule in = 1)\n(rule if = in {(call contains every \"x\")})\n");
	v0("import future.keywords.in\np { some x in xs }",
	   "(import (ref future \"keywords\" \"in\"))\n(rule p {(some-in x xs)})\n");
	v0("import rego.v1\np if x", "(import (ref rego \"v1\"))\n(rule p if {x})\n");
	refused(RF_RA_V0, "p { some x in xs }", "unexpected identifier token");
	refused(RF_RA_V0, "import rego.v1\np { x }", "`if` keyword is required before rule body");
}

/* --- terms ------------------------------------------------------------------------------------- */

static void operators_bind_as_in_opa(void **state)
{
	v1("x := a + b * c - d", "(rule x := (infix minus (infix plus a (infix mul b c)) d))\n");
	v1("x := a == b | c & d + 1",
	   "(rule x := (infix equal a (infix or b (infix and c (infix plus d 1)))))\n");
	v1("x := (a + b) * c", "(rule x := (infix mul (infix plus a b) c))\n");
	v1("x := a in b == c",
	   "(rule x := (infix (ref internal \"member_2\") a (infix equal b c)))\n");
	v1("p if 1, 2 in x", "(rule p if {(infix (ref internal \"member_3\") 1 2 x)})\n");
	v1("x := [1, 2 in y]", "(rule x := (array 1 (infix (ref internal \"member_2\") 2 y)))\n");
	v1("x := 1 - 1", "(rule x := (infix minus 1 1))\n");
	v1("x := -1 - -y.z", "(rule x := (infix minus -1 (infix minus 0 (ref y \"z\"))))\n");
}

static void braces_are_sets_objects_or_comprehensions(void **state)
{
	v1("x := [{}, {1}, {1,}, {a: 1,}, set(), [], [1,]]",
	   "(rule x := (array (object) (set 1) (set 1) (object a 1) (set) (array) (array 1)))\n");
	v1("x := {a | b}", "(rule x := (set-of a {b}))\n");
	v1("x := {a | b, c}", "(rule x := (set (infix or a b) c))\n");
	v1("x := [(a | b) | c; d]", "(rule x := (array-of (infix or a b) {c; d}))\n");
	v1("x := {a: b | c}", "(rule x := (object-of a b {c}))\n");
	v1("x := {a: b | c, d: e}", "(rule x := (object a (infix or b c) d e))\n");
	v1("x := {a + 1: b | c}", "(rule x := (object-of (infix plus a 1) b {c}))\n");
	v1("x := [a | [b | c, d], e]",
	   "(rule x := (array (infix or a (array (infix or b c) d)) e))\n");
}

static void references_go_on_behind_anything(void **state)
{
	v1("x := a.b[\"c\"][d].e", "(rule x := (ref a \"b\" \"c\" d \"e\"))\n");
	v1("x := f(1).a[2]", "(rule x := (ref (call f 1) \"a\" 2))\n");
	v1("x := a.b.f(1, 2)", "(rule x := (call (ref a \"b\" \"f\") 1 2))\n");
	v1("x := [1, 2][i]", "(rule x := (ref (array 1 2) i))\n");
	v1("x := {\"a\": 1}.a", "(rule x := (ref (object \"a\" 1) \"a\"))\n");
	v1("p if {\n\ta\n\t[b]\n}", "(rule p if {a; (array b)})\n");
	v1("x := input.if.else", "(rule x := (ref input \"if\" \"else\"))\n");
	refused(RF_RA_V1, "x := 1.a", "expected fraction");
	refused(RF_RA_V1, "x := \"s\".a", "illegal ref (head cannot be string)");
	refused(RF_RA_V1, "x := a[b](c)", "undefined function a[b]");
}

static void strings_and_numbers_mean_what_they_say(void **state)
{
	v1("x := \"a\\n\\u00e9\\ud83d\\ude00\\/\"", "(rule x := \"a\\né😀/\")\n");
	v1("x := `a\\n`", "(rule x := \"a\\\\n\")\n");
	v1("x := [0, -0.5, 1e3, 12345678901234567890123, .5]",
	   "(rule x := (array 0 -0.5 1e3 12345678901234567890123 0.5))\n");
	refused(RF_RA_V1, "x := 01", "expected number without leading zero");
	refused(RF_RA_V1, "x := 1x", "illegal number format");
	refused(RF_RA_V1, "x := 1e", "expected exponent");
	refused(RF_RA_V1, "x := 1e99999999999999999999", "number too big");
	refused(RF_RA_V1, "x := \"\\q\"", "illegal escape sequence");
	refused(RF_RA_V1, "x := \"\\u12\"", "illegal string literal");
	refused(RF_RA_V1, "x := \"a\nb\"", "non-terminated string");
	refused(RF_RA_V1, "x := `a", "non-terminated string");
	refused(RF_RA_V1, "x := ! y", "illegal ! character");
}

static void templates_hold_text_and_expressions(void **state)
{
	v1("x := $\"a {b} \\{ {c + 1}\"",
	   "(rule x := (template \"a \" b \" { \" (infix plus c 1)))\n");
	v1("x := $`{a}\n{$\"{b}\"}`", "(rule x := (template a \"\\n\" (template b)))\n");
	v1("x := $\"{a with input as {\"b\": 1}}\"",
	   "(rule x := (template (with a (input (object \"b\" 1)))))\n");
	refused(RF_RA_V1, "x := $\"{y := 1}\"", "unexpected assignment (':=')");
	refused(RF_RA_V1, "x := $\"{not y}\"", "unexpected negation ('not')");
	refused(RF_RA_V1, "x := $\"{y\"", "non-terminated string");
}

/* --- bodies ------------------------------------------------------------------------------------ */

static void bodies_hold_expressions_of_all_kinds(void **state)
{
	v1("p if {\n\tsome x, y\n\tnot x\n\tx = y; z := 1 # c\n}",
	   "(rule p if {(some x y); (not x); (infix eq x y); (infix assign z 1)})\n");
	v1("p if { every k, v in xs { v > k } }",
	   "(rule p if {(every k v xs {(infix gt v k)})})\n");
	v1("p if some [x, 1] in xs", "(rule p if {(some-in (array x 1) xs)})\n");
	v1("p if f(x) with input.a as 1 with data.b as {2}",
	   "(rule p if {(with (call f x) ((ref input \"a\") 1) ((ref data \"b\") (set 2)))})\n");
	refused(RF_RA_V1, "p if { x y }", "expected \\n or ; or }");
	refused(RF_RA_V1, "p if { not some x }", "illegal negation of 'some'");
	refused(RF_RA_V1, "p if { every x { y } }", "expected `x[, y] in xs { ... }` expression");
	refused(RF_RA_V0, "p { }", "found empty body");
}

static void logic_operators_are_there_once_imported(void **state)
{
	const char *head = "(import (ref future \"keywords\" \"and\"))\n"
			   "(import (ref future \"keywords\" \"or\"))\n"
			   "(import (ref future \"keywords\" \"not\"))\n";
	static const char *const cases[][2] = {
		{ "p if a or b and c", "(rule p if {(or {a} {(and {b} {c})})})\n" },
		{ "p if (a or b) and c", "(rule p if {(and {(or {a} {b})} {c})})\n" },
		{ "p if { a; b } or { c }", "(rule p if {(or{} {a; b} {} {c})})\n" },
		{ "p if not { a; b }", "(rule p if {(not-body{} {a; b})})\n" },
		{ "p if not a == b", "(rule p if {(not-body {(infix equal a b)})})\n" },
		{ "p if not (a or b)", "(rule p if {(not-body {(or {a} {b})})})\n" },
		{ "p if a and b with input as 1",
		  "(rule p if {(with (and {a} {b}) (input 1))})\n" },
		{ "x := or(a, b)", "(rule x := (call or a b))\n" },
	};

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		rf_auto(buf) text = RF_BUF_INIT;
		rf_auto(buf) want = RF_BUF_INIT;

		rf_buf_printf(&text,
			      "import future.keywords.and\nimport future.keywords.or\n"
			      "import future.keywords.not\n%s",
			      cases[i][0]);
		rf_buf_printf(&want, "%s%s", head, cases[i][1]);
		v1(text.p, want.p);
	}
	refused(RF_RA_V1, "p if { not { a; b } }", "unexpected ; token");
	refused(RF_RA_V1, "import future.keywords.or\np if a with input as 1 or b",
		"`with` modifier is not allowed on operand of `or`");
}

static void wildcards_are_all_different(void **state)
{
	struct parsed p = parse("package p\nf(_, _) { x[_] } { y[_] }", RF_RA_V0);
	struct rf_ra_rule *r;

	assert_int_equal(p.rc, 0);
	r = p.m->rule[0];
	assert_true(r->args[0]->is_wild && r->args[1]->is_wild);
	assert_false(rf_str_eq(r->args[0]->name, r->args[1]->name));
	assert_false(rf_str_eq(r->args[0]->name, r->same_head->args[0]->name));
	assert_true(r->args[0]->name.p[0] == '$');
	done(&p);
}

/* --- modules ----------------------------------------------------------------------------------- */

static void packages_and_imports_are_read(void **state)
{
	struct parsed p =
		parse("package a.b[\"c d\"]\nimport data.x as y\nimport input\nimport data.in.z",
		      RF_RA_V1);

	assert_int_equal(p.rc, 0);
	rf_ra_dump(&p.out, p.m);
	assert_string_equal(p.out.p,
			    "(package \"a\" \"b\" \"c d\")\n(import (ref data \"x\") as y)\n"
			    "(import input)\n(import (ref data \"in\" \"z\"))\n");
	done(&p);
	refused(RF_RA_V1, "import foo.bar",
		"must begin with one of: {data, future, input, rego}, got: foo");
	refused(RF_RA_V1, "import data.if", "must not end with a keyword, got: if");
	refused(RF_RA_V1, "import data.x as in", "unexpected in keyword: expected var");
	refused(RF_RA_V1, "import future.keywords.foo", "unexpected keyword, must be one of");
	refused(RF_RA_V1, "import rego.v3", "invalid import `rego.v3`, must be one of: `rego.v1`, `rego.v2`");
	refused(RF_RA_V1, "package q", "unexpected package");
	refused(RF_RA_V1, "package _.b", "unexpected ref token: expecting var");
}

static void metadata_goes_to_what_follows(void **state)
{
	struct parsed p =
		parse("# METADATA\n# title: all\n# scope: subpackages\n\n# METADATA\n# title: pkg\n"
		      "package p\n\n# METADATA\n# authors:\n# - Ann Example <ann@example.com>\n"
		      "# custom: {a: [1]}\nq := 1\n\n# METADATA\n# scope: document\n# title: "
		      "doc\nr := 1\n",
		      RF_RA_V1);

	assert_int_equal(p.rc, 0);
	rf_ra_dump(&p.out, p.m);
	assert_string_equal(
		p.out.p, "(package \"p\" (metadata {\"scope\":\"package\",\"title\":\"pkg\"}) "
			 "(subpackages {\"scope\":\"subpackages\",\"title\":\"all\"}))\n"
			 "(rule q := 1 (metadata "
			 "{\"authors\":[{\"email\":\"ann@example.com\",\"name\":\"Ann Example\"}],"
			 "\"custom\":{\"a\":[1]},\"scope\":\"rule\"}))\n"
			 "(rule r := 1 (document {\"scope\":\"document\",\"title\":\"doc\"}))\n");
	done(&p);
	refused(RF_RA_V1, "# METADATA\n# scope: package\nq := 1", "must be applied to package");
	refused(RF_RA_V1, "# METADATA\n# scope: moon\nq := 1", "invalid annotation scope 'moon'");
	refused(RF_RA_V1, "# METADATA\n# title: a: b\nq := 1", "yaml:");
	refused(RF_RA_V1, "# METADATA\n#\nq := 1", "expected METADATA block, found whitespace");
}

static void a_rule_may_have_several_blocks_of_metadata(void **state)
{
	struct parsed p = parse("package p\n# METADATA\n# title: a\n\n# METADATA\n# title: b\n\n"
				"# METADATA\n# title: c\nq := 1\n",
				RF_RA_V1);
	struct rf_rv title;

	assert_int_equal(p.rc, 0);
	assert_int_equal(p.m->n_rules, 1);
	assert_int_equal(p.m->rule[0]->n_metadata, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(rf_rv_get_str(p.m->rule[0]->metadata[i], RF_LIT("title"), &title));
		assert_int_equal(title.s[0], 'a' + i);
	}
	done(&p);
}

static void what_v1_asks_of_rules_is_checked_all_at_once(void **state)
{
	struct parsed p = parse("package p\nq { x }\nr[y] { y }\ns.t.u\nf(x) { x }\n", RF_RA_V1);

	says(&p, "t.rego:2:1: rego_parse_error: `if` keyword is required before rule body\n\tq { x "
		 "}\n\t^\n");
	says(&p,
	     "t.rego:3:1: rego_parse_error: `contains` keyword is required for partial set rules");
	says(&p, "t.rego:4:1: rego_parse_error: rule must have value assignment and/or body "
		 "declaration");
	says(&p, "t.rego:5:1: rego_parse_error: `if` keyword is required before function body");
	done(&p);
}

static void other_faults_of_rules_are_refused(void **state)
{
	refused(RF_RA_V1, "p", "var cannot be used for rule name");
	refused(RF_RA_V1, "p := 1; q := 2", "multiple expressions cannot be used for rule head");
	refused(RF_RA_V1, "x > 1", "unexpected gt token");
	refused(RF_RA_V1, "not p", "negated expressions cannot be used for rule head");
	refused(RF_RA_V1, "default p := x", "illegal default rule (value cannot contain var)");
	refused(RF_RA_V1, "default p := [input.x]",
		"illegal default rule (value cannot contain ref)");
	refused(RF_RA_V1, "default f(x, x) := 1", "arguments cannot be repeated x");
	refused(RF_RA_V1, "default f(1) := 1", "arguments cannot contain number");
	refused(RF_RA_V0, "p[x] { x } else = 1 { y }",
		"else keyword cannot be used on multi-value rules");
	refused(RF_RA_V1, "f(x) contains 1 if x",
		"contains keyword can only be used with multi-value");
	refused(RF_RA_V1, "p if", "unexpected eof token");
}

static void errors_show_the_place(void **state)
{
	struct parsed p = parse("package foo.", RF_RA_V1);

	says(&p, "t.rego:1:13: rego_parse_error: unexpected eof token: expected identifier\n"
		 "\tpackage foo.\n\t            ^\n");
	done(&p);
	p = parse("package p\n\np if {\n\tx == \"é\" }}\n", RF_RA_V1);
	says(&p,
	     "t.rego:4:12: rego_parse_error: unexpected } token\n\tx == \"é\" }}\n\t          ^\n");
	done(&p);
	p = parse("", RF_RA_V1);
	says(&p, "empty module");
	done(&p);
	p = parse("x := 1", RF_RA_V1);
	says(&p, "package expected");
	done(&p);
	refused(RF_RA_V1, "x := \"\xff\"", "t.rego:2:7: rego_parse_error: illegal utf-8 character");
}

/* --- hostile input ----------------------------------------------------------------------------- */

static void repeat(struct rf_buf *b, const char *what, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rf_buf_puts(b, what);
}

static void a_million_brackets_are_refused_and_harmless(void **state)
{
	static const char *const marks[] = { "(", "[", "{", "f(", "[x|", "{1:", "$\"{", "a[" };

	for (size_t i = 0; i < RF_COUNT(marks); i++) {
		rf_auto(buf) text = RF_BUF_INIT;
		struct parsed p;

		rf_buf_puts(&text, "package p\nx := ");
		repeat(&text, marks[i], 1000000);
		p = parse(text.p, RF_RA_V1);
		says(&p, "nested too deeply: at most 200 levels are read");
		done(&p);
	}
}

static void trees_are_never_higher_than_200(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct parsed p;

	rf_buf_puts(&text, "package p\nx := 1");
	repeat(&text, " + 1", 199);
	p = parse(text.p, RF_RA_V1);
	assert_int_equal(p.rc, 0);
	assert_int_equal(p.m->rule[0]->value->height, 200);
	done(&p);
	repeat(&text, " + 1", 1);
	p = parse(text.p, RF_RA_V1);
	says(&p, "nested too deeply");
	done(&p);
}

/* Each level can be read in two ways; without the memo this would take until the end of time. */
static void what_is_ambiguous_is_read_once(void **state)
{
	static const char *const pairs[][2] = { { "[a | ", ", c]" },
						{ "{a | ", ", c}" },
						{ "{a: b | ", ", c: d}" } };

	for (size_t i = 0; i < RF_COUNT(pairs); i++) {
		rf_auto(buf) text = RF_BUF_INIT;
		struct parsed p;

		rf_buf_puts(&text, "package p\nx := ");
		repeat(&text, pairs[i][0], 90);
		rf_buf_puts(&text, "b");
		repeat(&text, pairs[i][1], 90);
		p = parse(text.p, RF_RA_V1);
		assert_int_equal(p.rc, 0);
		done(&p);
	}
}

static void too_much_text_or_memory_is_an_error(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	rf_auto(arena) small = RF_ARENA_CAPPED(64 << 10);
	rf_auto(arena) other = RF_ARENA_INIT;
	struct rf_ra_errors errors = { .arena = &other };
	struct rf_ra_module *m = NULL;
	struct parsed p;

	rf_buf_puts(&text, "package p\nx := [");
	repeat(&text, "1, ", 10000);
	rf_buf_puts(&text, "1]\n");
	assert_true(rf_ra_parse(&small, RF_LIT("t"), rf_buf_str(&text), RF_RA_V1, &m, &errors) < 0);
	assert_null(m);
	assert_true(
		rf_str_contains(errors.error[0].text, RF_LIT("memory for policies is used up")));
	repeat(&text, "# filler, of which there is far too much\n", 110000);
	p = parse(text.p, RF_RA_V1);
	says(&p, "at most 4194304 are read");
	done(&p);
}

/* --- queries and values ------------------------------------------------------------------------ */

static void queries_are_bodies(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_ra_body *b = NULL;

	assert_int_equal(rf_ra_parse_body(&a, RF_STR_EMPTY, RF_LIT("x = data.a; y := x[_]\nnot z"),
					  RF_RA_V1, &b, &errors),
			 0);
	rf_ra_dump_body(&out, b);
	assert_string_equal(out.p,
			    "{(infix eq x (ref data \"a\")); (infix assign y (ref x _)); (not z)}");
	assert_true(rf_ra_parse_body(&a, RF_STR_EMPTY, RF_LIT(" # nothing"), RF_RA_V1, &b,
				     &errors) < 0);
	assert_true(rf_ra_parse_body(&a, RF_STR_EMPTY, RF_LIT("x ="), RF_RA_V1, &b, &errors) < 0);
}

static void values_are_constants(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rv v;

	assert_int_equal(rf_ra_parse_value(&a,
					   RF_LIT("{\"b\": {2, 1, 1}, \"a\": [null, -1.5, set()]}"),
					   &v, &errors),
			 0);
	rf_rv_print(&out, v);
	assert_string_equal(out.p, "{\"a\": [null, -1.5, set()], \"b\": {1, 2}}");
	assert_true(rf_ra_parse_value(&a, RF_LIT("[x]"), &v, &errors) < 0);
	assert_true(rf_ra_parse_value(&a, RF_LIT("1 2"), &v, &errors) < 0);
	assert_true(rf_ra_parse_value(&a, RF_LIT("1 + 1"), &v, &errors) < 0);
}

/* --- layout ------------------------------------------------------------------------------------ */

static void rules_are_laid_out_as_opa_does(void **state)
{
	laid_out(RF_RA_V1,
		 "package   a.b\nimport data.x as y\na:=1\nb:=2\ndefault c:=false\n\n\nc if {x}\n"
		 "d contains x if {x:=1;y}\nf(x,y)=x+y*2 if {\n x }else:=3\n",
		 "package a.b\n\nimport data.x as y\n\na := 1\nb := 2\n\ndefault c := false\n\nc "
		 "if x\n\n"
		 "d contains x if {\n\tx := 1\n\ty\n}\n\nf(x, y) := x + (y * 2) if {\n\tx\n} else "
		 ":= 3\n");
	laid_out(RF_RA_V0, "package p\np[x]{x=1}{x=2}\nq=1{a}else=2{b}\n",
		 "package p\n\np[x] {\n\tx = 1\n} {\n\tx = 2\n}\n\nq = 1 {\n\ta\n}\n\nelse = 2 "
		 "{\n\tb\n}\n");
}

static void line_breaks_in_brackets_are_respected(void **state)
{
	laid_out(RF_RA_V1,
		 "package p\nx := [1,2,\n3]\ny := {\n\"a\":1, \"b\":f(\n2)}\nz := {k|\nsome k in "
		 "x\nk>1}\nu := [k|k:=x[_];k]\n",
		 "package p\n\nx := [\n\t1, 2,\n\t3,\n]\n\ny := {\n\t\"a\": 1, \"b\": f(2),\n}\n\n"
		 "z := {k |\n\tsome k in x\n\tk > 1\n}\n\nu := [k | k := x[_]; k]\n");
}

static void comments_stay_where_they_were(void **state)
{
	laid_out(RF_RA_V1,
		 "# first\n\n# second\npackage p # with it\n# about q\nq := [ # open\n1, # one\n# "
		 "own\n2\n# end\n] # close\n"
		 "r if { # start\n x # behind\n # before y\n y\n # last\n} # done\n# the end\n",
		 "# first\n\n# second\npackage p # with it\n\n# about q\nq := [ # open\n\t1, # "
		 "one\n\t# own\n\t2,\n"
		 "\t# end\n] # close\n\nr if { # start\n\tx # behind\n\n\t# before y\n\ty\n\t# "
		 "last\n} # done\n\n# the end\n");
	/* where no line would end, the expression is left alone */
	laid_out(RF_RA_V1, "package p\nr if {\n\tx  + # why\n\t\ty == 1\n}\n",
		 "package p\n\nr if {\n\tx  + # why\n\t\ty == 1\n}\n");
}

static void parentheses_are_kept_where_they_matter(void **state)
{
	laid_out(RF_RA_V1,
		 "package p\na := (x)\nb := [((1+2))]\nc if {x==(y==z)}\nd if {(x|y)==z}\ne := "
		 "{(x|y)}\n"
		 "f := [(x+1)|x]\n",
		 "package p\n\na := x\nb := [1 + 2]\nc if x == (y == z)\nd if (x | y) == z\ne := "
		 "{(x | y)}\n"
		 "f := [(x + 1) | x]\n");
	/* braces that were not there must not make a comprehension of a union */
	laid_out(RF_RA_V1, "package p\n\nq if\n c | 9 + 1\n\nr if\n c | 9 == d\n",
		 "package p\n\nq if {\n\t(c | 9 + 1)\n}\n\nr if {\n\t(c | 9) == d\n}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(v0_heads_of_all_forms_are_read),
		cmocka_unit_test(v1_heads_of_all_forms_are_read),
		cmocka_unit_test(a_brace_behind_if_is_a_body_unless_it_can_only_be_a_value),
		cmocka_unit_test(keywords_are_names_where_they_are_not_imported),
		cmocka_unit_test(operators_bind_as_in_opa),
		cmocka_unit_test(braces_are_sets_objects_or_comprehensions),
		cmocka_unit_test(references_go_on_behind_anything),
		cmocka_unit_test(strings_and_numbers_mean_what_they_say),
		cmocka_unit_test(templates_hold_text_and_expressions),
		cmocka_unit_test(bodies_hold_expressions_of_all_kinds),
		cmocka_unit_test(logic_operators_are_there_once_imported),
		cmocka_unit_test(wildcards_are_all_different),
		cmocka_unit_test(packages_and_imports_are_read),
		cmocka_unit_test(metadata_goes_to_what_follows),
		cmocka_unit_test(a_rule_may_have_several_blocks_of_metadata),
		cmocka_unit_test(what_v1_asks_of_rules_is_checked_all_at_once),
		cmocka_unit_test(other_faults_of_rules_are_refused),
		cmocka_unit_test(errors_show_the_place),
		cmocka_unit_test(a_million_brackets_are_refused_and_harmless),
		cmocka_unit_test(trees_are_never_higher_than_200),
		cmocka_unit_test(what_is_ambiguous_is_read_once),
		cmocka_unit_test(too_much_text_or_memory_is_an_error),
		cmocka_unit_test(queries_are_bodies),
		cmocka_unit_test(values_are_constants),
		cmocka_unit_test(rules_are_laid_out_as_opa_does),
		cmocka_unit_test(line_breaks_in_brackets_are_respected),
		cmocka_unit_test(comments_stay_where_they_were),
		cmocka_unit_test(parentheses_are_kept_where_they_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
