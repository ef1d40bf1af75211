#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "kube/kube.h"

static struct rf_arena arena;

static int setup(void **state)
{
	arena = (struct rf_arena)RF_ARENA_INIT;
	return 0;
}

static int teardown(void **state)
{
	rf_arena_done(&arena);
	return 0;
}

static struct rf_json *json(const char *text)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *v = NULL;

	if (rf_json_parse(&arena, rf_str(text), &v, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	return v;
}

static bool matches(const char *selector, const char *labels)
{
	struct rf_selector *s = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (rf_label_selector_parse(&arena, rf_str(selector), &s, &err) < 0)
		fail_msg("%s: %s", selector, err.msg);
	return rf_label_selector_match(s, labels ? json(labels) : NULL);
}

static void refused(const char *selector, const char *says)
{
	struct rf_selector *s = NULL;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_label_selector_parse(&arena, rf_str(selector), &s, &err),
			 -RF_BAD_REQUEST);
	assert_null(s);
	if (strstr(err.msg, says) == NULL)
		fail_msg("%s: got \"%s\", want \"%s\"", selector, err.msg, says);
}

static void an_empty_selector_matches_everything(void **state)
{
	assert_true(matches("", "{\"a\":\"b\"}"));
	assert_true(matches("  ", NULL));
}

static void every_operator_means_what_it_means_in_kubernetes(void **state)
{
	assert_true(matches("app=x", "{\"app\":\"x\"}"));
	assert_true(matches(" app == x ", "{\"app\":\"x\"}"));
	assert_false(matches("app=x", "{\"app\":\"y\"}"));
	assert_false(matches("app=x", NULL));
	assert_true(matches("app!=x", "{\"app\":\"y\"}"));
	assert_true(matches("app!=x", NULL));
	assert_false(matches("app!=x", "{\"app\":\"x\"}"));
	assert_true(matches("env in (a, b)", "{\"env\":\"b\"}"));
	assert_false(matches("env in (a,b)", "{\"env\":\"c\"}"));
	assert_true(matches("env notin (a,b)", "{\"env\":\"c\"}"));
	assert_true(matches("env notin (a,b)", "{}"));
	assert_true(matches("legacy", "{\"legacy\":\"\"}"));
	assert_false(matches("!legacy", "{\"legacy\":\"\"}"));
	assert_true(matches("! legacy", "{}"));
	assert_true(matches("gen>3", "{\"gen\":\"4\"}"));
	assert_false(matches("gen<3", "{\"gen\":\"4\"}"));
	assert_false(matches("gen>3", "{\"gen\":\"many\"}"));
}

static void all_requirements_must_hold(void **state)
{
	const char *s = "app=x,tier!=db,env in (a,b),!legacy,example.com/team";

	assert_true(matches(s, "{\"app\":\"x\",\"env\":\"a\",\"example.com/team\":\"t\"}"));
	assert_false(matches(s, "{\"app\":\"x\",\"env\":\"a\"}"));
	assert_false(matches(
		s, "{\"app\":\"x\",\"tier\":\"db\",\"env\":\"a\",\"example.com/team\":\"t\"}"));
}

static void empty_values_and_keywords_as_names_are_taken(void **state)
{
	assert_true(matches("app=", "{\"app\":\"\"}"));
	assert_true(matches("app=,b", "{\"app\":\"\",\"b\":\"1\"}"));
	assert_true(matches("app in (,a)", "{\"app\":\"\"}"));
	assert_true(matches("app in ()", "{\"app\":\"\"}"));
	assert_true(matches("in in (in, notin)", "{\"in\":\"notin\"}"));
}

static void what_kubernetes_refuses_is_refused_with_its_words(void **state)
{
	refused(",a", "found ',', expected: !, identifier, or 'end of string'");
	refused("a,", "found '', expected: identifier after ','");
	refused("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt");
	refused("a in b", "found 'b', expected: '('");
	refused("a in (b", "found '', expected: ',' or ')'");
	refused("a in (b c)", "found 'c', expected: ',' or ')'");
	refused("a=(b)", "found '(', expected: identifier");
	refused("a=b c", "found 'c', expected: ',' or 'end of string'");
	refused("!a=b", "found '=', expected: ',' or 'end of string'");
	refused("!", "found '', expected: identifier");
	refused("a>b", "the value must be an integer");
	refused("a=b=c", "found '=', expected: ',' or 'end of string'");
	refused("-a=b", "key: Invalid value: \"-a\"");
	refused("a=b/c", "values[a]: Invalid value: \"b/c\"");
	refused("a=\xc3\xa9", "Invalid value");
}

static void length_and_count_are_capped(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_selector *s = NULL;
	struct rf_err err = RF_ERR_INIT;

	for (int i = 0; i < 257; i++)
		rf_buf_printf(&text, "%sk%d=v", i ? "," : "", i);
	assert_int_equal(rf_label_selector_parse(&arena, rf_buf_str(&text), &s, &err),
			 -RF_TOO_LARGE);
	rf_buf_clear(&text);
	rf_buf_puts(&text, "k in (");
	for (int i = 0; i < 1025; i++)
		rf_buf_printf(&text, "%sv%d", i ? "," : "", i);
	rf_buf_puts(&text, ")");
	assert_int_equal(rf_label_selector_parse(&arena, rf_buf_str(&text), &s, &err),
			 -RF_TOO_LARGE);
	for (int i = 0; i < 20000; i++)
		rf_buf_add_c(&text, ' ');
	assert_int_equal(rf_label_selector_parse(&arena, rf_buf_str(&text), &s, NULL),
			 -RF_TOO_LARGE);
	assert_int_equal(rf_field_selector_parse(&arena, rf_buf_str(&text), &s, NULL),
			 -RF_TOO_LARGE);
	assert_null(s);
}

static bool object_matches(const char *selector, const char *labels)
{
	struct rf_selector *s = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (rf_label_selector_from(&arena, json(selector), &s, &err) < 0)
		fail_msg("%s: %s", selector, err.msg);
	return rf_label_selector_match(s, json(labels));
}

static void a_label_selector_object_matches_as_its_text_would(void **state)
{
	struct rf_selector *s = NULL;
	const char *both = "{\"matchLabels\":{\"a\":\"b\"},\"matchExpressions\":["
			   "{\"key\":\"e\",\"operator\":\"In\",\"values\":[\"x\",\"y\"]},"
			   "{\"key\":\"f\",\"operator\":\"DoesNotExist\"}]}";

	assert_int_equal(rf_label_selector_from(&arena, NULL, &s, NULL), 0);
	assert_true(rf_label_selector_match(s, NULL));
	assert_true(object_matches("{}", "{\"a\":\"c\"}"));
	assert_true(object_matches(both, "{\"a\":\"b\",\"e\":\"y\"}"));
	assert_false(object_matches(both, "{\"a\":\"b\",\"e\":\"z\"}"));
	assert_false(object_matches(both, "{\"a\":\"b\",\"e\":\"y\",\"f\":\"\"}"));
}

static void a_malformed_label_selector_object_is_invalid(void **state)
{
	static const char *const BAD[] = {
		"[]",
		"{\"matchLabels\":[]}",
		"{\"matchLabels\":{\"a\":1}}",
		"{\"matchLabels\":{\"-a\":\"b\"}}",
		"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Gt\",\"values\":[\"1\"]}]}",
		"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[]}]}",
		"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\",\"values\":[1]}]}",
		"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[null]}]}",
		"{\"matchExpressions\":[7]}",
	};
	struct rf_selector *s = NULL;

	for (size_t i = 0; i < RF_COUNT(BAD); i++)
		assert_int_equal(rf_label_selector_from(&arena, json(BAD[i]), &s, NULL),
				 -RF_INVALID);
	assert_null(s);
}

static bool field_matches(const char *selector, const char *object)
{
	struct rf_selector *s = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (rf_field_selector_parse(&arena, rf_str(selector), &s, &err) < 0)
		fail_msg("%s: %s", selector, err.msg);
	return rf_field_selector_match(s, json(object));
}

static void field_selectors_look_into_the_object(void **state)
{
	const char *pod = "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"n\"},"
			  "\"status\":{\"phase\":\"Running\"}}";

	assert_true(field_matches("", pod));
	assert_true(field_matches("spec.nodeName=n,status.phase!=Failed", pod));
	assert_true(field_matches("metadata.name==p,", pod));
	assert_false(field_matches("spec.nodeName=n,status.phase!=Running", pod));
	assert_true(field_matches("spec.nodeName=", "{\"spec\":{}}"));
	assert_true(field_matches("spec.unschedulable=false", "{\"spec\":{}}"));
	assert_true(
		field_matches("spec.unschedulable=true", "{\"spec\":{\"unschedulable\":true}}"));
	assert_true(field_matches("a=x\\,y\\=z\\\\", "{\"a\":\"x,y=z\\\\\"}"));
	assert_false(field_matches("metadata.name.more=p", pod));
}

static void malformed_field_selectors_are_refused(void **state)
{
	static const char *const BAD[] = { "a", "=b", "a=b=c", "a=\\x", "a=b\\", "a>b" };
	struct rf_selector *s = NULL;

	for (size_t i = 0; i < RF_COUNT(BAD); i++)
		assert_int_equal(rf_field_selector_parse(&arena, rf_str(BAD[i]), &s, NULL),
				 -RF_BAD_REQUEST);
	assert_null(s);
}

static void a_field_selector_tells_its_fields_and_exact_values(void **state)
{
	struct rf_selector *s = NULL;
	struct rf_str value = RF_STR_EMPTY;

	assert_int_equal(rf_field_selector_parse(&arena, RF_LIT("a!=1,metadata.name=p"), &s, NULL),
			 0);
	assert_true(rf_str_is(rf_selector_key(s, 0), "a"));
	assert_true(rf_str_is(rf_selector_key(s, 1), "metadata.name"));
	assert_int_equal(rf_selector_key(s, 2).n, 0);
	assert_true(rf_field_selector_exact(s, "metadata.name", &value));
	assert_true(rf_str_is(value, "p"));
	assert_false(rf_field_selector_exact(s, "a", &value));
}

static void paths_are_built_from_encoded_parts(void **state)
{
	struct rf_str none = RF_STR_EMPTY;

	assert_true(rf_str_is(rf_kube_path(&arena, &RF_PODS, RF_LIT("a"), RF_LIT("p"), "status"),
			      "/api/v1/namespaces/a/pods/p/status"));
	assert_true(rf_str_is(rf_kube_path(&arena, &RF_PODS, none, none, NULL), "/api/v1/pods"));
	assert_true(rf_str_is(rf_kube_path(&arena, &RF_NODES, RF_LIT("a"), RF_LIT("n"), NULL),
			      "/api/v1/nodes/n"));
	assert_true(rf_str_is(
		rf_kube_path(&arena, &RF_RESOURCECLAIMS, RF_LIT("a"), RF_LIT("../x?"), NULL),
		"/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/..%2Fx%3F"));
}

static void common_fields_are_read_and_absent_ones_are_empty(void **state)
{
	struct rf_json *o =
		json("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\","
		     "\"namespace\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"17\","
		     "\"labels\":{\"l\":\"1\"},\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}");
	struct rf_json *ref = rf_kube_owner_ref(&arena, o);

	assert_int_equal(rf_kube_rv(o), 17);
	assert_int_equal(rf_kube_rv(json("{\"metadata\":{\"resourceVersion\":\"x\"}}")), 0);
	assert_true(rf_str_is(rf_kube_label(o, "l"), "1"));
	assert_int_equal(rf_kube_annotation(o, "l").n, 0);
	assert_true(rf_kube_deleting(o));
	assert_false(rf_kube_deleting(json("{}")));
	assert_true(rf_str_is(rf_kube_display(&arena, o), "a/p"));
	assert_true(
		rf_str_is(rf_kube_display(&arena, json("{\"metadata\":{\"name\":\"n\"}}")), "n"));
	assert_true(rf_str_is(rf_json_str_at(ref, "uid"), "u"));
	assert_true(rf_json_is_true(rf_json_at(ref, "controller")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_empty_selector_matches_everything, setup,
						teardown),
		cmocka_unit_test_setup_teardown(every_operator_means_what_it_means_in_kubernetes,
						setup, teardown),
		cmocka_unit_test_setup_teardown(all_requirements_must_hold, setup, teardown),
		cmocka_unit_test_setup_teardown(empty_values_and_keywords_as_names_are_taken, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_kubernetes_refuses_is_refused_with_its_words,
						setup, teardown),
		cmocka_unit_test_setup_teardown(length_and_count_are_capped, setup, teardown),
		cmocka_unit_test_setup_teardown(a_label_selector_object_matches_as_its_text_would,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_malformed_label_selector_object_is_invalid, setup,
						teardown),
		cmocka_unit_test_setup_teardown(field_selectors_look_into_the_object, setup,
						teardown),
		cmocka_unit_test_setup_teardown(malformed_field_selectors_are_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_field_selector_tells_its_fields_and_exact_values,
						setup, teardown),
		cmocka_unit_test_setup_teardown(paths_are_built_from_encoded_parts, setup,
						teardown),
		cmocka_unit_test_setup_teardown(common_fields_are_read_and_absent_ones_are_empty,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
