/* The book: what is in force, in whatever order policies come and go, and what a judgement says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codec/yaml.h"
#include "policy/book.h"

#define TEMPLATE(type, rego)                                                                       \
	"apiVersion: templates.gatekeeper.sh/v1\n"                                                 \
	"kind: ConstraintTemplate\n"                                                               \
	"metadata: {name: echo}\n"                                                                 \
	"spec:\n"                                                                                  \
	"  crd:\n"                                                                                 \
	"    spec:\n"                                                                              \
	"      names: {kind: Echo}\n"                                                              \
	"      validation:\n"                                                                      \
	"        openAPIV3Schema:\n"                                                               \
	"          type: object\n"                                                                 \
	"          properties:\n"                                                                  \
	"            team: {type: " type "}\n"                                                     \
	"  targets:\n"                                                                             \
	"  - target: admission.k8s.gatekeeper.sh\n"                                                \
	"    rego: |\n"                                                                            \
	"      package echo\n"                                                                     \
	"      violation[{\"msg\": msg}] { " rego " }\n"
#define ECHO TEMPLATE("string", "msg := sprintf(\"%v\", [input.parameters.team])")
#define CONSTRAINT(name, spec)                                                                     \
	"apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Echo\nmetadata: {name: " name        \
	"}\nspec: {" spec "}\n"
#define MAP(name, key, rego)                                                                       \
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " name ", namespace: ringfence-system, " \
	"labels: {openpolicyagent.org/policy: rego}}\ndata:\n  " key ": |\n    " rego "\n"
#define POD                                                                                        \
	"{\"uid\":\"u\",\"operation\":\"CREATE\",\"namespace\":\"a\",\"object\":{\"apiVersion\":\"v1\"," \
	"\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":\"a\"}}}"

struct bench {
	struct rf_arena arena;
	struct rf_book *book;
	struct rf_err err;
	int asked; /* how often the inventory was */
	char text[4096];
};

static int set_up(void **state)
{
	struct bench *b = rf_new(struct bench);

	b->book = rf_book_new();
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	rf_book_free(b->book);
	rf_arena_done(&b->arena);
	free(b);
	return 0;
}

static struct rf_json *object(struct bench *b, const char *yaml)
{
	struct rf_json *docs;

	if (rf_yaml_parse(&b->arena, rf_str(yaml), &docs, &b->err) < 0)
		fail_msg("%s", b->err.msg);
	return rf_json_item(docs, 0);
}

static int put(struct bench *b, const char *yaml)
{
	b->err = (struct rf_err)RF_ERR_INIT;
	return rf_book_put(b->book, object(b, yaml), &b->err);
}

static int check(struct bench *b, const char *yaml)
{
	b->err = (struct rf_err)RF_ERR_INIT;
	return rf_book_check(b->book, object(b, yaml), &b->err);
}

static const char *problem(struct bench *b, const char *yaml)
{
	return rf_book_problem(b->book, object(b, yaml));
}

/* Two objects, and how often it was asked for them. */
static int gather(void *ctx, struct rf_arena *a, struct rf_rv *ret, struct rf_err *err)
{
	struct bench *b = ctx;

	b->asked++;
	return rf_rv_parse_json(a,
				RF_LIT("{\"cluster\":{},\"namespace\":{\"a\":{\"v1\":{\"Pod\":{\"old\":{},"
				       "\"older\":{}}}}}}"),
				ret, err);
}

static int no_inventory(void *ctx RF_UNUSED, struct rf_arena *a RF_UNUSED, struct rf_rv *ret RF_UNUSED,
			struct rf_err *err)
{
	return rf_fail(err, RF_UNAVAILABLE, "not read yet");
}

/* "yes" or "no", the message, and the warnings with ~ before each. */
static const char *ask_with(struct bench *b, const char *request, const struct rf_book_inventory *inventory)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_book_verdict v;
	struct rf_rv r;

	assert_int_equal(rf_rv_parse_json(&b->arena, rf_str(request), &r, &b->err), 0);
	if (rf_book_judge(b->book, r, inventory, &b->arena, &v, &b->err) < 0)
		return b->err.msg;
	rf_buf_printf(&out, "%s %.*s", v.allowed ? "yes" : "no", RF_STR(v.message));
	for (size_t i = 0; i < v.n_warnings; i++)
		rf_buf_printf(&out, " ~%.*s", RF_STR(v.warnings[i]));
	assert_true(out.n < sizeof(b->text));
	memcpy(b->text, out.p, out.n + 1);
	return b->text;
}

static const char *ask(struct bench *b)
{
	return ask_with(b, POD, NULL);
}

static void a_constraint_refuses_warns_or_stays_silent(void **state)
{
	struct bench *b = *state;

	assert_true(rf_book_is_empty(b->book));
	assert_string_equal(ask(b), "yes ");
	assert_int_equal(put(b, ECHO), 0);
	assert_true(rf_book_is_empty(b->book));
	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: red}")), 0);
	assert_int_equal(put(b, CONSTRAINT("two", "enforcementAction: warn, parameters: {team: blue}")), 0);
	assert_int_equal(put(b, CONSTRAINT("three", "enforcementAction: dryrun, parameters: {team: x}")), 0);
	assert_int_equal(put(b, CONSTRAINT("four", "parameters: {team: green}")), 0);
	assert_false(rf_book_is_empty(b->book));
	assert_string_equal(ask(b), "no [one] red\n[four] green ~[two] blue");
	rf_book_drop(b->book, object(b, CONSTRAINT("one", "")));
	rf_book_drop(b->book, object(b, CONSTRAINT("four", "")));
	rf_book_drop(b->book, object(b, CONSTRAINT("never", "")));
	assert_string_equal(ask(b), "yes  ~[two] blue");
}

static void a_constraint_waits_for_its_template(void **state)
{
	struct bench *b = *state;

	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: red}")), 0);
	assert_true(rf_book_is_empty(b->book));
	assert_string_equal(ask(b), "yes ");
	assert_int_equal(put(b, ECHO), 0);
	assert_string_equal(ask(b), "no [one] red");
	rf_book_drop(b->book, object(b, ECHO));
	assert_string_equal(ask(b), "yes ");
	assert_int_equal(put(b, ECHO), 0);
	assert_string_equal(ask(b), "no [one] red");
}

static void one_that_waited_and_does_not_fit_says_so(void **state)
{
	struct bench *b = *state;

	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: 3}")), 0);
	assert_int_equal(put(b, CONSTRAINT("two", "parameters: {team: red}")), 0);
	assert_string_equal(problem(b, CONSTRAINT("one", "")), "");
	assert_int_equal(put(b, ECHO), 0);
	assert_string_equal(ask(b), "no [two] red");
	assert_string_equal(problem(b, CONSTRAINT("one", "")),
			    "Echo one: spec: parameters: team must be of type string");
	assert_string_equal(problem(b, CONSTRAINT("two", "")), "");
	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: blue}")), 0);
	assert_string_equal(problem(b, CONSTRAINT("one", "")), "");
	/* In the order they came to be in force. */
	assert_string_equal(ask(b), "no [two] red\n[one] blue");
}

static void what_does_not_compile_leaves_what_was_there(void **state)
{
	struct bench *b = *state;

	assert_int_equal(put(b, ECHO), 0);
	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: red}")), 0);
	assert_int_equal(put(b, TEMPLATE("string", "msg := nothing_of_the_sort(1)")), -RF_INVALID);
	assert_non_null(strstr(b->err.msg, "nothing_of_the_sort"));
	assert_non_null(strstr(b->err.msg, "template:2:"));
	assert_string_equal(ask(b), "no [one] red");
	assert_non_null(strstr(problem(b, ECHO), "nothing_of_the_sort"));
	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: []}")), -RF_INVALID);
	assert_string_equal(ask(b), "no [one] red");
	assert_int_equal(put(b, TEMPLATE("string", "msg := \"new\"")), 0);
	assert_string_equal(problem(b, ECHO), "");
	assert_string_equal(ask(b), "no [one] new");
}

static void a_template_must_fit_the_constraints_in_force(void **state)
{
	struct bench *b = *state;

	assert_int_equal(put(b, ECHO), 0);
	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: red}")), 0);
	assert_int_equal(put(b, TEMPLATE("integer", "msg := \"new\"")), -RF_INVALID);
	assert_non_null(strstr(b->err.msg, "change the constraint first: Echo one: spec: parameters: "
					   "team must be of type integer"));
	assert_string_equal(ask(b), "no [one] red");
	/* The cluster has the template nevertheless: it comes into force as soon as it can. */
	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: 7}")), 0);
	assert_string_equal(ask(b), "no [one] new");
	assert_string_equal(problem(b, ECHO), "");
	assert_int_equal(put(b, ECHO), -RF_INVALID);
	rf_book_drop(b->book, object(b, CONSTRAINT("one", "")));
	assert_string_equal(problem(b, ECHO), "");
	assert_int_equal(put(b, CONSTRAINT("two", "parameters: {team: x}")), 0);
	assert_string_equal(ask(b), "no [two] x");
}

static void what_should_judge_and_cannot_is_a_gap(void **state)
{
	struct bench *b = *state;

	assert_null(rf_book_gap(b->book));
	assert_int_equal(put(b, CONSTRAINT("c", "parameters: {team: red}")), 0);
	assert_null(rf_book_gap(b->book)); /* it waits for its template, and can */
	assert_true(put(b, TEMPLATE("string", "msg := nope(1)")) < 0);
	assert_non_null(strstr(rf_book_gap(b->book), "nope"));
	assert_int_equal(put(b, ECHO), 0);
	assert_null(rf_book_gap(b->book));
	assert_true(put(b, TEMPLATE("string", "msg := nope(1)")) < 0);
	assert_null(rf_book_gap(b->book)); /* the one before is still in force */
	assert_true(put(b, MAP("m", "a.rego", "package x\n    y := ")) < 0);
	assert_non_null(rf_book_gap(b->book));
	rf_book_drop(b->book, object(b, MAP("m", "a.rego", "package x")));
	assert_null(rf_book_gap(b->book));
}

static void checking_changes_nothing(void **state)
{
	struct bench *b = *state;

	assert_int_equal(check(b, ECHO), 0);
	assert_int_equal(check(b, CONSTRAINT("one", "parameters: {team: 3}")), 0);
	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: red}")), 0);
	assert_string_equal(ask(b), "yes ");
	assert_int_equal(put(b, ECHO), 0);
	assert_int_equal(check(b, CONSTRAINT("two", "parameters: {team: 3}")), -RF_INVALID);
	assert_string_equal(b->err.msg, "Echo two: spec: parameters: team must be of type string");
	assert_int_equal(check(b, CONSTRAINT("one", "parameters: {team: blue}")), 0);
	assert_int_equal(check(b, TEMPLATE("integer", "msg := \"new\"")), -RF_INVALID);
	assert_int_equal(check(b, TEMPLATE("string", "msg := \"new\"")), 0);
	assert_int_equal(check(b, TEMPLATE("string", "msg :=")), -RF_INVALID);
	assert_int_equal(check(b, MAP("m", "a.rego", "package kubernetes.admission\n    deny[\"no\"]")), 0);
	assert_int_equal(check(b, MAP("m", "a.rego", "package kubernetes.admission\n    deny[")), -RF_INVALID);
	assert_string_equal(ask(b), "no [one] red");
	assert_string_equal(problem(b, ECHO), "");
}

static void names_and_kinds_are_held_to(void **state)
{
	struct bench *b = *state;

	assert_int_equal(put(b, "{apiVersion: v1, kind: Pod, metadata: {name: x}}"), -RF_INVALID);
	assert_int_equal(put(b, CONSTRAINT("\"\"", "")), -RF_INVALID);
	assert_int_equal(put(b, "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n"
				"metadata: {name: other}\nspec: {crd: {spec: {names: {kind: Echo}}}}\n"),
			 -RF_INVALID);
	assert_string_equal(b->err.msg,
			    "ConstraintTemplate other: its name must be its kind \"Echo\" in lower case");
	assert_int_equal(put(b, ECHO), 0);
	assert_int_equal(put(b, "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n"
				"metadata: {name: echo}\nspec: {crd: {spec: {names: {kind: ECHO}}}}\n"),
			 -RF_INVALID);
	assert_string_equal(b->err.msg,
			    "ConstraintTemplate echo: its kind is Echo and stays so; delete it first");
	assert_false(rf_book_is_policy(object(b, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, "
						  "namespace: ringfence-system}}")));
	assert_false(rf_book_is_policy(
		object(b, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: team-a, "
			  "labels: {openpolicyagent.org/policy: rego}}}")));
	assert_true(rf_book_is_policy(object(b, MAP("m", "a", "x"))));
	assert_true(rf_book_is_policy(object(b, ECHO)));
	assert_true(rf_book_is_policy(object(b, CONSTRAINT("c", ""))));
}

static void plain_modules_deny_and_warn(void **state)
{
	struct bench *b = *state;

	assert_int_equal(put(b, MAP("old", "a.rego",
				    "package kubernetes.admission\n"
				    "    deny[msg] { input.request.operation == \"CREATE\"; msg := "
				    "sprintf(\"no %v\", [input.request.object.metadata.name]) }")),
			 0);
	assert_string_equal(ask(b), "no [kubernetes.admission] no p");
	assert_int_equal(put(b, MAP("new", "b.rego",
				    "package kubernetes.admission.images\n"
				    "    warn contains {\"msg\": \"old image\"} if input.kind == "
				    "\"AdmissionReview\"\n"
				    "    other contains \"nothing\"")),
			 0);
	assert_int_equal(put(b, MAP("lib", "c.rego", "package elsewhere\n    deny contains \"not asked\"")), 0);
	assert_string_equal(ask(b),
			    "no [kubernetes.admission] no p ~[kubernetes.admission.images] old image");
	rf_book_drop(b->book, object(b, MAP("old", "x", "x")));
	assert_string_equal(ask(b), "yes  ~[kubernetes.admission.images] old image");
	rf_book_drop(b->book, object(b, MAP("new", "x", "x")));
	assert_true(rf_book_is_empty(b->book));
}

static void plain_modules_may_need_each_other(void **state)
{
	static const char user[] = MAP("user", "a.rego",
				       "package kubernetes.admission\n"
				       "    deny contains msg if msg := data.lib.say(1)");
	static const char lib[] = MAP("lib", "l.rego", "package lib\n    say(x) := sprintf(\"said %v\", [x])");
	struct bench *b = *state;

	assert_int_equal(put(b, user), -RF_INVALID);
	assert_non_null(strstr(b->err.msg, "user/a.rego:2:"));
	assert_non_null(strstr(problem(b, user), "user/a.rego:2:"));
	assert_true(rf_book_is_empty(b->book));
	assert_int_equal(put(b, lib), 0);
	assert_string_equal(problem(b, user), "");
	assert_string_equal(ask(b), "no [kubernetes.admission] said 1");
	/* The library goes: what was in force stays until the user of it has changed. */
	rf_book_drop(b->book, object(b, lib));
	assert_string_equal(ask(b), "no [kubernetes.admission] said 1");
	assert_int_equal(put(b, MAP("user", "a.rego", "package kubernetes.admission\n    deny contains \"x\"")),
			 0);
	assert_string_equal(ask(b), "no [kubernetes.admission] x");
	assert_int_equal(put(b, user), -RF_INVALID);
	assert_string_equal(ask(b), "no [kubernetes.admission] x");
}

static void a_deny_that_is_no_set_is_refused(void **state)
{
	struct bench *b = *state;

	assert_int_equal(put(b, MAP("m", "a.rego", "package kubernetes.admission\n    default deny := false")),
			 -RF_INVALID);
	assert_string_equal(b->err.msg, "ConfigMap ringfence-system/m: m/a.rego:2:1: deny must be a set of messages: write `deny contains "
					"msg if { ... }`");
	assert_int_equal(put(b, MAP("m", "a.rego", "package inventory\n    x := 1")), -RF_INVALID);
	assert_int_equal(put(b, MAP("m", "a.rego", "package a\n    x contains y if { y := 1 ")), -RF_INVALID);
	assert_non_null(strstr(b->err.msg, "ConfigMap ringfence-system/m: m/a.rego:"));
	assert_true(rf_book_is_empty(b->book));
}

static void a_plain_policy_that_breaks_refuses(void **state)
{
	struct bench *b = *state;

	assert_int_equal(put(b, MAP("m", "a.rego",
				    "package kubernetes.admission\n"
				    "    deny contains msg if { f(1) == 1; msg := \"x\" }\n"
				    "    f(x) := 1 if x > 0\n"
				    "    f(x) := 2 if x < 5")),
			 0);
	assert_string_equal(ask(b), "no [kubernetes.admission] policy could not be evaluated: m/a.rego:3: "
				    "eval_conflict_error: functions must not produce multiple outputs for "
				    "same inputs");
	assert_int_equal(put(b, MAP("m", "a.rego",
				    "package kubernetes.admission\n"
				    "    deny contains msg if { n := numbers.range(1, 9000); some i in n; some j "
				    "in n; i * j < 0; msg := \"x\" }")),
			 0);
	assert_non_null(strstr(ask(b), "does too much work for this input"));
	assert_int_equal(put(b, MAP("m", "a.rego", "package kubernetes.admission\n    deny contains 1")), 0);
	assert_non_null(strstr(ask(b), "neither a string nor an object with msg"));
}

static void the_inventory_is_asked_for_once_and_only_if_needed(void **state)
{
	struct bench *b = *state;
	struct rf_book_inventory inventory = { gather, b }, none = { no_inventory, NULL };

	assert_int_equal(put(b, ECHO), 0);
	assert_int_equal(put(b, CONSTRAINT("one", "parameters: {team: red}")), 0);
	assert_string_equal(ask_with(b, POD, &inventory), "no [one] red");
	assert_int_equal(b->asked, 0);
	assert_int_equal(put(b, TEMPLATE("string", "n := count(data.inventory.namespace[\"a\"].v1.Pod); msg := "
						   "sprintf(\"%v pods\", [n])")),
			 0);
	assert_int_equal(put(b, CONSTRAINT("two", "")), 0);
	assert_int_equal(put(b, MAP("m", "a.rego",
				    "package kubernetes.admission\n"
				    "    deny contains \"one old\" if data.inventory.namespace.a.v1.Pod.old\n"
				    "    deny contains \"empty\" if count(data.inventory.namespace) == 0")),
			 0);
	assert_string_equal(ask_with(b, POD, &inventory),
			    "no [one] 2 pods\n[two] 2 pods\n[kubernetes.admission] one old");
	assert_int_equal(b->asked, 1);
	assert_string_equal(ask(b), "no [kubernetes.admission] empty");
	assert_string_equal(ask_with(b, POD, &none), "gather what policies refer to: not read yet");
}

static void what_cannot_be_judged_is_an_error(void **state)
{
	struct bench *b = *state;

	assert_int_equal(put(b, ECHO), 0);
	assert_int_equal(put(b, CONSTRAINT("one", "")), 0);
	assert_string_equal(ask_with(b, "[]", NULL), "what is to be judged must be an AdmissionRequest");
	assert_string_equal(ask_with(b, "{\"operation\":\"CREATE\"}", NULL),
			    "review: has neither object nor oldObject");
}

/* 3000 messages of 20 bytes with a two-byte character at the end of each. */
static void much_is_cut_between_characters(void **state)
{
	struct bench *b = *state;
	struct rf_book_verdict v;
	struct rf_rv r;

	assert_int_equal(put(b, MAP("m", "a.rego",
				    "package kubernetes.admission\n"
				    "    deny contains sprintf(\"%d aaaaaaaaaaé\", [i]) if some i in "
				    "numbers.range(1001, 4000)\n"
				    "    warn contains concat(\"\", [\"é\" | some i in numbers.range(1, 40000)])")),
			 0);
	assert_int_equal(rf_rv_parse_json(&b->arena, RF_LIT(POD), &r, &b->err), 0);
	assert_int_equal(rf_book_judge(b->book, r, NULL, &b->arena, &v, &b->err), 0);
	assert_false(v.allowed);
	assert_in_range(v.message.n, RF_BOOK_MESSAGE_MAX - 100, RF_BOOK_MESSAGE_MAX);
	assert_true(rf_str_starts(v.message, RF_LIT("[kubernetes.admission] 1001 aaaaaaaaaaé\n")));
	assert_non_null(memmem(v.message.p, v.message.n, "\nand ", 5));
	assert_true(rf_str_ends(v.message, RF_LIT(" more")));
	assert_int_equal(v.n_warnings, 1);
	assert_in_range(v.warnings[0].n, RF_BOOK_MESSAGE_MAX - 100, RF_BOOK_MESSAGE_MAX);
	assert_true(rf_str_ends(v.warnings[0], RF_LIT("éé")));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_constraint_refuses_warns_or_stays_silent),
		T(a_constraint_waits_for_its_template),
		T(one_that_waited_and_does_not_fit_says_so),
		T(what_does_not_compile_leaves_what_was_there),
		T(a_template_must_fit_the_constraints_in_force),
		T(what_should_judge_and_cannot_is_a_gap),
		T(checking_changes_nothing),
		T(names_and_kinds_are_held_to),
		T(plain_modules_deny_and_warn),
		T(plain_modules_may_need_each_other),
		T(a_deny_that_is_no_set_is_refused),
		T(a_plain_policy_that_breaks_refuses),
		T(the_inventory_is_asked_for_once_and_only_if_needed),
		T(what_cannot_be_judged_is_an_error),
		T(much_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
