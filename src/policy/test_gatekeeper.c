/* Gatekeeper's templates and constraints, and suites of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fs.h"
#include "codec/yaml.h"
#include "policy/gatekeeper.h"

#define TEMPLATE_HEAD(kind, name)                                                                  \
	"apiVersion: templates.gatekeeper.sh/v1\n"                                                 \
	"kind: ConstraintTemplate\n"                                                               \
	"metadata: {name: " name "}\n"                                                             \
	"spec:\n"                                                                                  \
	"  crd:\n"                                                                                 \
	"    spec:\n"                                                                              \
	"      names: {kind: " kind "}\n"                                                          \
	"      validation:\n"                                                                      \
	"        openAPIV3Schema:\n"                                                               \
	"          type: object\n"                                                                 \
	"          properties:\n"                                                                  \
	"            team: {type: string, default: nobody}\n"                                      \
	"            list: {type: array, items: {type: integer}}\n"
#define TEMPLATE(kind, name, rego)                                                                 \
	TEMPLATE_HEAD(kind, name)                                                                  \
	"  targets:\n"                                                                             \
	"  - target: admission.k8s.gatekeeper.sh\n"                                                \
	"    rego: |\n" rego

/* Says what it sees, so that a test can look. */
#define ECHO                                                                                       \
	TEMPLATE("Echo", "echo",                                                                   \
		 "      package echo\n"                                                            \
		 "      violation[{\"msg\": msg, \"details\": {\"team\": input.parameters.team}}] {\n" \
		 "        msg := sprintf(\"%v %v\", [input.review.object.metadata.name, "          \
		 "input.parameters.team])\n"                                                       \
		 "      }\n")
#define CONSTRAINT(kind, name, spec)                                                               \
	"apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: " kind "\nmetadata: {name: " name    \
	"}\nspec: {" spec "}\n"
#define POD(name, ns, labels)                                                                      \
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name                   \
	"\",\"namespace\":\"" ns "\",\"labels\":{" labels "}}}"

struct bench {
	struct rf_arena arena;
	struct rf_gk *gk;
	struct rf_err err;
	char text[4096];
};

static int set_up(void **state)
{
	struct bench *b = rf_new(struct bench);

	b->gk = rf_gk_new();
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	rf_gk_free(b->gk);
	rf_arena_done(&b->arena);
	free(b);
	return 0;
}

static int add(struct bench *b, const char *yaml)
{
	struct rf_json *docs;
	int r = 0;

	assert_int_equal(rf_yaml_parse(&b->arena, rf_str(yaml), &docs, &b->err), 0);
	for (size_t i = 0; i < rf_json_len(docs) && r == 0; i++)
		r = rf_gk_add(b->gk, rf_json_item(docs, i), &b->err);
	return r;
}

static struct rf_rv value(struct bench *b, const char *json)
{
	struct rf_rv v;

	assert_int_equal(rf_rv_parse_json(&b->arena, rf_str(json), &v, &b->err), 0);
	return v;
}

/* "constraint action msg details" for each violation, with | between; or the error. */
static const char *ask_at(struct bench *b, enum rf_gk_point point, const char *review,
			  const struct rf_rv *inventory)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_gk_violations found;
	struct rf_rv r = value(b, review);

	b->err = (struct rf_err)RF_ERR_INIT;
	if (rf_gk_review(b->gk, &r, inventory, point, &b->arena, &found, &b->err) < 0)
		return b->err.msg;
	for (size_t i = 0; i < found.n; i++) {
		rf_buf_printf(&out, "%s%.*s %s %.*s ", i ? "|" : "", RF_STR(found.at[i].constraint),
			      rf_gk_action_name(found.at[i].action), RF_STR(found.at[i].msg));
		rf_rv_write_json(&out, found.at[i].details);
	}
	assert_true(out.n < sizeof(b->text));
	memcpy(b->text, out.p, out.n + 1);
	return b->text;
}

static const char *ask(struct bench *b, const char *object)
{
	rf_auto(buf) review = RF_BUF_INIT;

	rf_buf_printf(&review, "{\"operation\":\"CREATE\",\"object\":%s}", object);
	return ask_at(b, RF_GK_ADMISSION, rf_arena_cstr(&b->arena, rf_buf_str(&review)), NULL);
}

static bool hits(struct bench *b, const char *object)
{
	return ask(b, object)[0] != '\0';
}

/* Values that parameters had are forgotten now and then; what they are now counts. */
static void a_constraint_may_change_any_number_of_times(void **state)
{
	struct bench *b = *state;
	char yaml[1024];

	assert_int_equal(add(b, ECHO "---\n" CONSTRAINT("Echo", "other", "parameters: {team: red}")), 0);
	for (int i = 0; i < 3000; i++) {
		snprintf(yaml, sizeof(yaml), CONSTRAINT("Echo", "one", "parameters: {team: t%d}"), i);
		assert_int_equal(add(b, yaml), 0);
		if (i % 500 < 2 || i > 2990) {
			char want[32];

			snprintf(want, sizeof(want), "\"t%d\"", i);
			assert_non_null(strstr(ask(b, POD("p", "a", "")), want));
			assert_non_null(strstr(b->text, "\"red\""));
		}
	}
}

/* The plan of all constraints takes in the new template, and at some time lets go of the old ones. */
static void a_template_may_change_under_its_constraints(void **state)
{
	struct bench *b = *state;
	char yaml[2048], want[128];

	assert_int_equal(add(b, ECHO "---\n" CONSTRAINT("Echo", "one", "parameters: {team: red}") "---\n"
				CONSTRAINT("Echo", "two", "parameters: {team: blue}")), 0);
	for (int i = 0; i < 60; i++) {
		/* `with` stands by itself, beside the plan */
		snprintf(yaml, sizeof(yaml),
			 TEMPLATE("Echo", "echo",
				  "      package echo\n"
				  "      violation[{\"msg\": msg}] { team with input.parameters.team as \"any\"; msg := sprintf(\"%d%%v\", [input.parameters.team]) }\n"
				  "      team { input.parameters.team == %s }\n"),
			 i, i % 2 ? "\"any\"" : "\"red\"");
		assert_int_equal(add(b, yaml), 0);
		snprintf(want, sizeof(want), "one deny %dred {}|two deny %dblue {}", i, i);
		assert_string_equal(ask(b, POD("p", "a", "")), i % 2 ? want : "");
		snprintf(yaml, sizeof(yaml),
			 TEMPLATE("Echo", "echo",
				  "      package echo\n"
				  "      violation[{\"msg\": msg}] { input.parameters.team == \"red\"; msg := sprintf(\"%d%%v\", [input.parameters.team]) }\n"),
			 i);
		assert_int_equal(add(b, yaml), 0);
		snprintf(want, sizeof(want), "one deny %dred {}", i);
		assert_string_equal(ask(b, POD("p", "a", "")), want);
	}
	assert_int_equal(rf_gk_remove(b->gk, RF_LIT("Echo"), RF_LIT("one"), &b->err), 0);
	assert_string_equal(ask(b, POD("p", "a", "")), "");
}

/* A tenant's long text, in the messages of many constraints. */
static void what_violations_hold_is_bounded(void **state)
{
	struct bench *b = *state;
	rf_auto(buf) review = RF_BUF_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gk_violations found;
	char yaml[256];
	struct rf_rv r;

	assert_int_equal(add(b, TEMPLATE("Loud", "loud",
					 "      package loud\n"
					 "      violation[{\"msg\": msg, \"details\": input.review.object}] {\n"
					 "        i := numbers.range(1, 50)[_]\n"
					 "        msg := sprintf(\"%v %v\", [i, input.review.object.text])\n"
					 "      }\n")),
			 0);
	for (int i = 0; i < 100; i++) {
		snprintf(yaml, sizeof(yaml), CONSTRAINT("Loud", "c%d", ""), i);
		assert_int_equal(add(b, yaml), 0);
	}
	rf_buf_puts(&review, "{\"operation\":\"CREATE\",\"object\":{\"kind\":\"X\",\"apiVersion\":\"v1\",\"text\":\"");
	for (int i = 0; i < 250000; i++)
		rf_buf_puts(&review, "\xc3\xa9");
	rf_buf_puts(&review, "\"}}");
	r = value(b, rf_arena_cstr(&b->arena, rf_buf_str(&review)));
	assert_int_equal(rf_gk_review(b->gk, &r, NULL, RF_GK_ADMISSION, &a, &found, &b->err), 0);
	assert_int_equal(found.n, 100 * 50);
	assert_true(a.used < ((size_t)16 << 20));
	for (size_t i = 0; i < found.n; i++) {
		assert_true(found.at[i].action == RF_GK_DENY && found.at[i].msg.n >= 250);
		assert_int_equal((unsigned char)found.at[i].msg.p[found.at[i].msg.n - 1], 0xa9);
	}
}

static void a_constraint_gives_its_parameters_and_its_action(void **state)
{
	struct bench *b = *state;

	assert_int_equal(add(b, ECHO "---\n" CONSTRAINT("Echo", "one", "parameters: {team: red}")
				"---\n" CONSTRAINT("Echo", "two", "enforcementAction: warn")),
			 0);
	assert_string_equal(ask(b, POD("p", "a", "")),
			    "one deny p red {\"team\":\"red\"}|two warn p nobody {\"team\":\"nobody\"}");
	assert_int_equal(add(b, CONSTRAINT("Echo", "one", "enforcementAction: dryrun")), 0);
	assert_int_equal(rf_gk_remove(b->gk, RF_LIT("Echo"), RF_LIT("two"), &b->err), 0);
	assert_string_equal(ask(b, POD("p", "a", "")), "one dryrun p nobody {\"team\":\"nobody\"}");
	assert_int_equal(rf_gk_remove(b->gk, RF_LIT("Echo"), RF_LIT("two"), &b->err), -RF_NOT_FOUND);
	assert_int_equal(rf_gk_remove(b->gk, RF_LIT("Echo"), RF_STR_EMPTY, &b->err), 0);
	assert_string_equal(ask(b, POD("p", "a", "")), "");
}

static void scoped_actions_depend_on_who_asks(void **state)
{
	struct bench *b = *state;
	static const char review[] = "{\"object\":" POD("p", "a", "") "}";

	assert_int_equal(
		add(b, ECHO "---\n" CONSTRAINT(
			       "Echo", "s",
			       "enforcementAction: scoped, scopedEnforcementActions: ["
			       "{action: warn, enforcementPoints: [{name: validation.gatekeeper.sh}]},"
			       "{action: deny, enforcementPoints: [{name: validation.gatekeeper.sh},"
			       "{name: gator.gatekeeper.sh}]}]")),
		0);
	assert_memory_equal(ask_at(b, RF_GK_ADMISSION, review, NULL), "s deny p", 8);
	assert_memory_equal(ask_at(b, RF_GK_GATOR, review, NULL), "s deny p", 8);
	assert_string_equal(ask_at(b, RF_GK_AUDIT, review, NULL), "");
}

static void libs_and_code_with_a_version(void **state)
{
	struct bench *b = *state;

	assert_int_equal(
		add(b, TEMPLATE_HEAD("Neu", "neu") "  targets:\n"
						   "  - target: admission.k8s.gatekeeper.sh\n"
						   "    code:\n"
						   "    - engine: K8sNativeValidation\n"
						   "      source: {validations: []}\n"
						   "    - engine: Rego\n"
						   "      source:\n"
						   "        version: v1\n"
						   "        rego: |\n"
						   "          package neu\n"
						   "          import data.lib.a.say\n"
						   "          violation contains {\"msg\": m} if m := say(\"x\")\n"
						   "        libs:\n"
						   "        - |\n"
						   "          package lib.a\n"
						   "          say(x) := concat(\"\", [x, \"!\"])\n"
		       "---\n" CONSTRAINT("Neu", "new", "")),
		0);
	assert_string_equal(ask(b, POD("p", "a", "")), "new deny x! {}");
}

/* The same template with more in its schema. */
#define STRICT                                                                                     \
	TEMPLATE_HEAD("Strict", "strict")                                                          \
	"            size: {type: integer, minimum: 2, maximum: 8, exclusiveMaximum: true}\n"      \
	"            mode: {type: string, enum: [open, closed]}\n"                                 \
	"            code: {type: string, pattern: '^[a-z]+$', minLength: 2, maxLength: 4}\n"      \
	"            few: {type: array, minItems: 1, maxItems: 2}\n"                               \
	"            rule: {type: object, required: [name]}\n"                                     \
	"  targets:\n"                                                                             \
	"  - target: admission.k8s.gatekeeper.sh\n"                                                \
	"    rego: |\n"                                                                            \
	"      package strict\n"                                                                   \
	"      violation[{\"msg\": \"m\"}] { false }\n"

static void parameters_are_held_to_the_schema(void **state)
{
	static const struct {
		const char *parameters, *why; /* NULL: they fit */
	} row[] = {
		{ "size: 2, mode: open, code: 'ab', few: [1], rule: {name: x}", NULL },
		{ "size: 1", "size must be at least 2" },
		{ "size: 8", "size must be at most 8 and not that" },
		{ "size: 7", NULL },
		{ "mode: ajar", "mode must be one of [\"open\",\"closed\"]" },
		{ "code: 'A'", "code has 1 characters, must have at least 2" },
		{ "code: 'abcde'", "code has 5 characters, must have at most 4" },
		{ "code: 'äöü'", "code must match ^[a-z]+$" },
		{ "code: 'Ab'", "code must match ^[a-z]+$" },
		{ "few: []", "few has 0 items, must have at least 1" },
		{ "few: [1, 2, 3]", "few has 3 items, must have at most 2" },
		{ "rule: {}", "rule must have name" },
	};
	struct bench *b = *state;

	assert_int_equal(add(b, STRICT), 0);
	for (size_t i = 0; i < RF_COUNT(row); i++) {
		char text[512];
		int r;

		snprintf(text, sizeof(text), CONSTRAINT("Strict", "s", "parameters: {%s}"), row[i].parameters);
		r = add(b, text);
		if (r != (row[i].why ? -RF_INVALID : 0) || (row[i].why && !strstr(b->err.msg, row[i].why)))
			fail_msg("%s: %s", row[i].parameters, b->err.msg);
	}
}

static void what_is_wrong_is_refused_and_changes_nothing(void **state)
{
	struct bench *b = *state;

	assert_int_equal(add(b, CONSTRAINT("Echo", "e", "")), -RF_NOT_FOUND);
	assert_int_equal(add(b, ECHO "---\n" CONSTRAINT("Echo", "e", "parameters: {team: red}")), 0);
	assert_int_equal(add(b, CONSTRAINT("Echo", "e", "parameters: {team: 1}")), -RF_INVALID);
	assert_non_null(strstr(b->err.msg, "team must be of type string"));
	assert_int_equal(add(b, CONSTRAINT("Echo", "e", "parameters: {list: [1, x]}")), -RF_INVALID);
	assert_int_equal(add(b, CONSTRAINT("Echo", "e", "enforcementAction: denied")), -RF_INVALID);
	assert_int_equal(add(b, CONSTRAINT("Echo", "e", "match: {kinds: Pod}")), -RF_INVALID);
	assert_int_equal(add(b, CONSTRAINT("Echo", "e", "match: {scope: Cluser}")), -RF_INVALID);
	assert_int_equal(add(b, CONSTRAINT("Echo", "e",
					   "match: {labelSelector: {matchExpressions: "
					   "[{key: a, operator: in, values: [b]}]}}")),
			 -RF_INVALID);
	assert_int_equal(add(b, TEMPLATE("Echo", "echo", "      package echo\n      violation[\n")),
			 -RF_INVALID);
	assert_int_equal(add(b, TEMPLATE("Echo", "echo", "      package echo\n      deny[1] { true }\n")),
			 -RF_INVALID);
	assert_non_null(strstr(b->err.msg, "no rule violation"));
	assert_int_equal(add(b, "apiVersion: v1\nkind: Pod\n"), -RF_INVALID);
	assert_string_equal(ask(b, POD("p", "a", "")), "e deny p red {\"team\":\"red\"}");
}

static void an_error_is_a_violation(void **state)
{
	struct bench *b = *state;

	assert_int_equal(
		add(b, TEMPLATE("Loop", "loop",
				"      package loop\n"
				"      violation[{\"msg\": \"x\"}] {\n"
				"        r := numbers.range(1, 100000)\n"
				"        r[i] + r[j] == 0\n"
				"      }\n") "---\n" CONSTRAINT("Loop", "l", "")
		       "---\n" TEMPLATE("Mute", "mute",
					"      package mute\n"
					"      violation[{\"details\": 1}] { true }\n"
					"      violation[{\"msg\": 7}] { true }\n") "---\n" CONSTRAINT(
			       "Mute", "m", "")
		       "---\n" TEMPLATE("Clash", "clash",
					"      package clash\n"
					"      a = 1 { true }\n"
					"      a = 2 { true }\n"
					"      violation[{\"msg\": \"never\"}] { a == 3 }\n") "---\n" CONSTRAINT(
			       "Clash", "c", "")),
		0);
	ask(b, POD("p", "a", ""));
	assert_non_null(strstr(b->text, "l deny policy could not be evaluated"));
	assert_non_null(strstr(b->text, "m deny policy could not be evaluated: a violation has no msg"));
	assert_non_null(strstr(b->text, "eval_conflict_error: complete rules"));
}

static void kinds_names_scopes_and_namespaces_choose(void **state)
{
	struct bench *b = *state;
	static const char node[] =
		"{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"}}";
	static const char ns[] =
		"{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"kube-x\"}}";
	static const struct {
		const char *match;
		bool pod, node, ns; /* pod a-b/p */
	} row[] = {
		{ "", true, true, true },
		{ "kinds: [{apiGroups: [''], kinds: [Pod]}]", true, false, false },
		{ "kinds: [{apiGroups: [apps], kinds: ['*']}]", false, false, false },
		{ "kinds: [{apiGroups: ['*'], kinds: [Node]}, {kinds: [Pod]}]", true, true, false },
		{ "scope: Namespaced", true, false, false },
		{ "scope: Cluster", false, true, true },
		{ "namespaces: [a-b]", true, true, false },
		{ "namespaces: ['a-*']", true, true, false },
		{ "namespaces: ['*-b', 'kube-*']", true, true, true },
		{ "namespaces: [a]", false, true, false },
		{ "excludedNamespaces: ['kube-*']", true, true, false },
		{ "excludedNamespaces: ['*-b']", false, true, true },
		{ "name: p", true, false, false },
		{ "name: 'kube*'", false, false, true },
	};

	assert_int_equal(add(b, ECHO), 0);
	for (size_t i = 0; i < RF_COUNT(row); i++) {
		char text[512];

		snprintf(text, sizeof(text), CONSTRAINT("Echo", "e", "match: {%s}"), row[i].match);
		assert_int_equal(add(b, text), 0);
		if (hits(b, POD("p", "a-b", "")) != row[i].pod || hits(b, node) != row[i].node ||
		    hits(b, ns) != row[i].ns)
			fail_msg("match {%s}", row[i].match);
	}
}

static void labels_choose_on_either_side_of_an_update(void **state)
{
	struct bench *b = *state;

	assert_int_equal(add(b, ECHO "---\n" CONSTRAINT(
					"Echo", "e",
					"match: {labelSelector: {matchLabels: {a: x}, matchExpressions: "
					"[{key: b, operator: NotIn, values: [z]}, "
					"{key: c, operator: DoesNotExist}]}}")),
			 0);
	assert_true(hits(b, POD("p", "n", "\"a\":\"x\"")));
	assert_false(hits(b, POD("p", "n", "\"a\":\"y\"")));
	assert_false(hits(b, POD("p", "n", "\"a\":\"x\",\"b\":\"z\"")));
	assert_false(hits(b, POD("p", "n", "\"a\":\"x\",\"c\":\"\"")));
	assert_memory_equal(ask_at(b, RF_GK_ADMISSION,
				   "{\"operation\":\"UPDATE\",\"object\":" POD("p", "n", "")
				   ",\"oldObject\":" POD("p", "n", "\"a\":\"x\"") "}",
				   NULL),
			    "e deny p", 8);
}

static void a_namespace_selector_needs_the_namespace(void **state)
{
	struct bench *b = *state;
	struct rf_rv objects[2], inventory;
	static const char review[] = "{\"object\":" POD("p", "n", "") "}";

	assert_int_equal(add(b, ECHO "---\n" CONSTRAINT(
					"Echo", "e",
					"match: {namespaceSelector: {matchLabels: {tier: gold}}}")),
			 0);
	assert_non_null(strstr(ask_at(b, RF_GK_ADMISSION, review, NULL), "namespace n is not known"));
	objects[0] = value(b, "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":"
			      "{\"name\":\"n\",\"labels\":{\"tier\":\"lead\"}}}");
	assert_int_equal(rf_gk_inventory(&b->arena, objects, 1, &inventory, &b->err), 0);
	assert_string_equal(ask_at(b, RF_GK_ADMISSION, review, &inventory), "");
	objects[1] = value(b, "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":"
			      "{\"name\":\"n\",\"labels\":{\"tier\":\"gold\"}}}");
	assert_int_equal(rf_gk_inventory(&b->arena, objects, 2, &inventory, &b->err), 0);
	assert_memory_equal(ask_at(b, RF_GK_ADMISSION, review, &inventory), "e deny p", 8);
}

static void a_delete_is_judged_by_what_was_there(void **state)
{
	struct bench *b = *state;

	assert_int_equal(add(b, ECHO "---\n" CONSTRAINT("Echo", "e", "")), 0);
	assert_memory_equal(ask_at(b, RF_GK_ADMISSION,
				   "{\"operation\":\"DELETE\",\"object\":null,\"oldObject\":" POD(
					   "old", "n", "") "}",
				   NULL),
			    "e deny old", 10);
	assert_non_null(strstr(ask_at(b, RF_GK_ADMISSION, "{\"operation\":\"DELETE\"}", NULL),
			       "needs oldObject"));
	assert_non_null(strstr(ask_at(b, RF_GK_ADMISSION, "{}", NULL), "neither object nor oldObject"));
	assert_non_null(strstr(ask_at(b, RF_GK_ADMISSION, "[]", NULL), "AdmissionRequest"));
}

static void the_inventory_is_a_tree_by_address(void **state)
{
	struct bench *b = *state;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_rv objects[3] = { value(b, POD("x", "n", "")), value(b, POD("x", "m", "")),
				    value(b, "{\"apiVersion\":\"apps/v1\",\"kind\":\"K\",\"metadata\":"
					     "{\"name\":\"k\"}}") };
	struct rf_rv inventory, nameless = value(b, "{\"apiVersion\":\"v1\",\"kind\":\"K\"}");

	assert_int_equal(rf_gk_inventory(&b->arena, objects, 3, &inventory, &b->err), 0);
	rf_rv_write_json(&out, inventory);
	assert_string_equal(out.p,
			    "{\"cluster\":{\"apps/v1\":{\"K\":{\"k\":{\"apiVersion\":\"apps/v1\","
			    "\"kind\":\"K\",\"metadata\":{\"name\":\"k\"}}}}},\"namespace\":{"
			    "\"m\":{\"v1\":{\"Pod\":{\"x\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\","
			    "\"metadata\":{\"labels\":{},\"name\":\"x\",\"namespace\":\"m\"}}}}},"
			    "\"n\":{\"v1\":{\"Pod\":{\"x\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\","
			    "\"metadata\":{\"labels\":{},\"name\":\"x\",\"namespace\":\"n\"}}}}}}}");
	assert_int_equal(rf_gk_inventory(&b->arena, &nameless, 1, &inventory, &b->err), -RF_INVALID);

	assert_int_equal(add(b, TEMPLATE("Other", "other",
					 "      package other\n"
					 "      violation[{\"msg\": ns}] {\n"
					 "        data.inventory.namespace[ns][\"v1\"].Pod.x\n"
					 "      }\n") "---\n" CONSTRAINT("Other", "o", "")),
			 0);
	assert_int_equal(rf_gk_inventory(&b->arena, objects, 3, &inventory, &b->err), 0);
	assert_string_equal(ask_at(b, RF_GK_AUDIT, "{\"object\":" POD("p", "n", "") "}", &inventory),
			    "o deny m {}|o deny n {}");
}

/* --- suites --- */

static void write_file(const char *folder, const char *name, const char *text)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	assert_int_equal(rf_fs_write(rf_fs_path(&a, "%s/%s", folder, name), rf_str(text), 0600, false,
				     NULL),
			 0);
}

static void suites_are_run_and_counted(void **state)
{
	struct bench *b = *state;
	char folder[] = "/tmp/test_gatekeeper.XXXXXX";
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_gk_tally tally = { 0 };

	assert_non_null(mkdtemp(folder));
	write_file(folder, "template.yaml", ECHO);
	write_file(folder, "constraint.yaml",
		   CONSTRAINT("Echo", "e", "match: {kinds: [{kinds: [Pod]}]}"));
	write_file(folder, "pod.yaml", POD("p", "a", ""));
	write_file(folder, "job.yaml", "{apiVersion: batch/v1, kind: Job, metadata: {name: j}}");
	write_file(folder, "review.yaml", "{kind: AdmissionReview, request: {object: " POD("r", "a", "")
		   "}}");
	write_file(folder, "suite.yaml",
		   "apiVersion: test.gatekeeper.sh/v1alpha1\n"
		   "kind: Suite\n"
		   "tests:\n"
		   "- name: t\n"
		   "  template: template.yaml\n"
		   "  constraint: constraint.yaml\n"
		   "  cases:\n"
		   "  - {name: hit, object: pod.yaml, assertions: [{violations: yes}]}\n"
		   "  - {name: exact, object: pod.yaml, assertions: [{violations: 1, message: '^p no'}]}\n"
		   "  - {name: miss, object: job.yaml, assertions: [{violations: no}]}\n"
		   "  - {name: review, object: review.yaml, assertions: [{message: '^r '}]}\n"
		   "  - {name: wrong, object: job.yaml, assertions: [{violations: yes}]}\n"
		   "  - {name: number, object: pod.yaml, assertions: [{violations: 2}]}\n"
		   "  - {name: text, object: pod.yaml, assertions: [{message: zzz}]}\n"
		   "  - {name: lost, object: none.yaml, assertions: [{violations: no}]}\n"
		   "  - {name: empty, object: job.yaml}\n"
		   "  - {name: later, skip: true, object: pod.yaml, assertions: [{violations: no}]}\n"
		   "- name: bad\n"
		   "  template: pod.yaml\n"
		   "  constraint: constraint.yaml\n"
		   "  cases:\n"
		   "  - {name: x, object: job.yaml, assertions: [{violations: no}]}\n"
		   "- {name: refused, template: pod.yaml, constraint: constraint.yaml, invalid: true}\n"
		   "- name: grown\n"
		   "  expansion: e.yaml\n"
		   "  cases: [{name: x}]\n");
	assert_int_equal(rf_gk_verify(folder, &out, &tally, &b->err), 0);
	assert_int_equal(tally.passed, 5);
	assert_int_equal(tally.failed, 6);
	assert_int_equal(tally.skipped, 2);
	assert_non_null(strstr(out.p, "t/number: 1 violations, 2 wanted"));
	assert_non_null(strstr(out.p, "t/text: message \"zzz\": no violation"));
	assert_non_null(strstr(out.p, "grown/x: expansion is not done"));
	assert_int_equal(rf_gk_verify("/nonexistent", &out, &tally, &b->err), -RF_SYSTEM);
	assert_int_equal(rf_fs_remove_tree(folder, &b->err), 0);
}

/* --- what constraints find out for each other --- */

/* The same library in two templates, one of which differs from the other in a number. */
#define CONTAINERS(kind, name, limit)                                                              \
	TEMPLATE_HEAD(kind, name)                                                                  \
	"            most: {type: integer}\n"                                                      \
	"            images: {type: array, items: {type: string}}\n"                              \
	"  targets:\n"                                                                             \
	"  - target: admission.k8s.gatekeeper.sh\n"                                                \
	"    libs:\n"                                                                              \
	"    - |\n"                                                                                \
	"      package lib.containers\n"                                                           \
	"      all[c] { c := input.review.object.spec.containers[_] }\n"                           \
	"      all[c] { c := input.review.object.spec.initContainers[_] }\n"                       \
	"      exempt(c) { images := object.get(input.parameters, \"images\", []); startswith(c.image, images[_]) }\n" \
	"      large(c) { c.cpu > " limit "; not c.small; c.name != \"\" }\n"                      \
	"      whole(i) { i.parameters.most < 3; count(i.review.object.spec.containers) > i.parameters.most; not i.none }\n" \
	"      field[{\"msg\": msg, \"field\": f}] { c := input.review.object.spec[f][_]; c.bad; msg := sprintf(\"%v in %v\", [c.name, f]) }\n" \
	"    rego: |\n"                                                                            \
	"      package " name "\n"                                                                 \
	"      import data.lib.containers\n"                                                       \
	"      violation[{\"msg\": msg}] { c := containers.all[_]; not containers.exempt(c); containers.large(c); msg := c.name }\n" \
	"      violation[{\"msg\": msg}] { c := containers.all[_]; not containers.exempt(c); not c.image; msg := sprintf(\"%v has none\", [c.name]) }\n" \
	"      violation[{\"msg\": msg}] { p := input.parameters; l := [x | x := p.list[_]; x > 1]; n := count(l); n > 1; msg := sprintf(\"%v of %v\", [n, l]) }\n" \
	"      violation[{\"msg\": \"too many\"}] { containers.whole(input) }\n"                   \
	"      violation[{\"msg\": msg}] { containers.field[{\"msg\": msg, \"field\": \"containers\"}] }\n"

static const char *const sharing[] = {
	CONTAINERS("Few", "few", "1"),
	CONTAINERS("Many", "many", "2"),
	CONTAINERS("Same", "same", "1"),
	CONSTRAINT("Few", "none", ""),
	CONSTRAINT("Few", "exempt", "parameters: {images: [good/]}"),
	CONSTRAINT("Few", "one", "parameters: {most: 1, list: [1, 2, 3]}"),
	CONSTRAINT("Few", "two", "parameters: {most: 2, list: [1]}"),
	CONSTRAINT("Few", "five", "parameters: {most: 5}"),
	CONSTRAINT("Many", "none", ""),
	CONSTRAINT("Many", "exempt", "parameters: {images: [good/]}"),
	CONSTRAINT("Many", "other", "parameters: {images: [bad/, x], most: 1, list: [2, 2, 2]}"),
	CONSTRAINT("Same", "none", ""),
	CONSTRAINT("Same", "exempt", "parameters: {images: [good/], most: 0}"),
	CONSTRAINT("Same", "five", "parameters: {most: 5, list: [4, 5]}"),
};
#define SHARING_TEMPLATES 3

static const char *const shared_objects[] = {
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":["
	"{\"name\":\"a\",\"image\":\"good/x\",\"cpu\":2},{\"name\":\"b\",\"image\":\"bad/x\",\"cpu\":3,\"bad\":true},{\"name\":\"c\",\"cpu\":1}],"
	"\"initContainers\":[{\"name\":\"d\",\"image\":\"x\",\"cpu\":9,\"bad\":true},{\"name\":\"e\",\"image\":\"good/y\",\"small\":true,\"cpu\":9}]}}",
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"a\"}]}}",
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[]}}",
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"}}",
};

/* Each constraint with nobody to share with, one after the other. */
static void ask_alone(const char *object, struct rf_buf *out)
{
	for (size_t i = SHARING_TEMPLATES; i < RF_COUNT(sharing); i++) {
		struct bench *b;
		void *state;

		set_up(&state);
		b = state;
		for (size_t j = 0; j < SHARING_TEMPLATES; j++)
			assert_int_equal(add(b, sharing[j]), 0);
		assert_int_equal(add(b, sharing[i]), 0);
		if (ask(b, object)[0])
			rf_buf_printf(out, "%s%s", out->n ? "|" : "", b->text);
		tear_down(&state);
	}
}

static void what_is_shared_changes_no_verdict(void **state)
{
	struct bench *b = *state;

	for (size_t i = 0; i < RF_COUNT(sharing); i++)
		assert_int_equal(add(b, sharing[i]), 0);
	for (size_t i = 0; i < RF_COUNT(shared_objects); i++) {
		rf_auto(buf) alone = RF_BUF_INIT;
		struct rf_rv nothing = value(b, "{}");
		char review[2048];

		ask_alone(shared_objects[i], &alone);
		assert_string_equal(ask(b, shared_objects[i]), alone.n ? alone.p : "");
		/* and with an inventory, though none of them asks for it */
		snprintf(review, sizeof(review), "{\"operation\":\"CREATE\",\"object\":%s}", shared_objects[i]);
		assert_string_equal(ask_at(b, RF_GK_ADMISSION, rf_arena_cstr(&b->arena, rf_str(review)), &nothing), alone.n ? alone.p : "");
		assert_true(i > 0 || (strstr(b->text, "too many") && strstr(b->text, "b in containers") && strstr(b->text, "2 of [2, 3]")));
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_constraint_gives_its_parameters_and_its_action),
		TEST(a_constraint_may_change_any_number_of_times),
		TEST(a_template_may_change_under_its_constraints),
		TEST(what_violations_hold_is_bounded),
		TEST(scoped_actions_depend_on_who_asks),
		TEST(libs_and_code_with_a_version),
		TEST(parameters_are_held_to_the_schema),
		TEST(what_is_wrong_is_refused_and_changes_nothing),
		TEST(an_error_is_a_violation),
		TEST(kinds_names_scopes_and_namespaces_choose),
		TEST(labels_choose_on_either_side_of_an_update),
		TEST(a_namespace_selector_needs_the_namespace),
		TEST(a_delete_is_judged_by_what_was_there),
		TEST(the_inventory_is_a_tree_by_address),
		TEST(suites_are_run_and_counted),
		TEST(what_is_shared_changes_no_verdict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
