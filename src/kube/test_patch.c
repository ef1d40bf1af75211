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

/* Single quotes in test data read better than backslashes. */
static struct rf_json *json(const char *text)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *v = NULL;
	char *copy = rf_strdup(text);

	for (char *c = copy; *c != '\0'; c++)
		*c = *c == '\'' ? '"' : *c;
	if (rf_json_parse(&arena, rf_str(copy), &v, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	free(copy);
	return v;
}

typedef int (*patcher)(struct rf_json **target, const struct rf_json *patch, struct rf_err *err);

static int merge(struct rf_json **target, const struct rf_json *patch, struct rf_err *err)
{
	return rf_patch_merge(&arena, target, patch, err);
}

static int json_patch(struct rf_json **target, const struct rf_json *patch, struct rf_err *err)
{
	return rf_patch_json(&arena, target, patch, err);
}

static int strategic_pod(struct rf_json **target, const struct rf_json *patch, struct rf_err *err)
{
	return rf_patch_strategic(&arena, RF_LIT("Pod"), target, patch, err);
}

static int strategic_node(struct rf_json **target, const struct rf_json *patch, struct rf_err *err)
{
	return rf_patch_strategic(&arena, RF_LIT("Node"), target, patch, err);
}

/* Lists compare in order, so this also says where elements went. */
static void gives(patcher p, const char *before, const char *patch, const char *after)
{
	struct rf_json *target = json(before), *change = json(patch);
	struct rf_json *untouched = rf_json_clone(&arena, change);
	struct rf_err err = RF_ERR_INIT;

	if (p(&target, change, &err) < 0)
		fail_msg("%s + %s: %s", before, patch, err.msg);
	if (!rf_json_equal(target, json(after)))
		fail_msg("%s + %s = %s, want %s", before, patch, rf_json_text_of(&arena, target).p,
			 after);
	assert_true(rf_json_equal(change, untouched));
}

static void fails(patcher p, const char *before, const char *patch, int code, const char *says)
{
	struct rf_json *target = json(before);
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(p(&target, json(patch), &err), -code);
	assert_int_equal(err.code, code);
	if (strstr(err.msg, says) == NULL)
		fail_msg("%s + %s: got \"%s\", want \"%s\"", before, patch, err.msg, says);
}

/* --- RFC 7386 --------------------------------------------------------------------------------- */

static void merge_patch_follows_the_table_of_its_rfc(void **state)
{
	static const char *const CASES[][3] = {
		{ "{'a':'b'}", "{'a':'c'}", "{'a':'c'}" },
		{ "{'a':'b'}", "{'b':'c'}", "{'a':'b','b':'c'}" },
		{ "{'a':'b'}", "{'a':null}", "{}" },
		{ "{'a':'b','b':'c'}", "{'a':null}", "{'b':'c'}" },
		{ "{'a':['b']}", "{'a':'c'}", "{'a':'c'}" },
		{ "{'a':'c'}", "{'a':['b']}", "{'a':['b']}" },
		{ "{'a':{'b':'c'}}", "{'a':{'b':'d','c':null}}", "{'a':{'b':'d'}}" },
		{ "{'a':[{'b':'c'}]}", "{'a':[1]}", "{'a':[1]}" },
		{ "['a','b']", "['c','d']", "['c','d']" },
		{ "{'a':'b'}", "['c']", "['c']" },
		{ "{'a':'foo'}", "null", "null" },
		{ "{'a':'foo'}", "'bar'", "'bar'" },
		{ "{'e':null}", "{'a':1}", "{'e':null,'a':1}" },
		{ "[1,2]", "{'a':'b','c':null}", "{'a':'b'}" },
		{ "{}", "{'a':{'bb':{'ccc':null}}}", "{'a':{'bb':{}}}" },
	};

	for (size_t i = 0; i < RF_COUNT(CASES); i++)
		gives(merge, CASES[i][0], CASES[i][1], CASES[i][2]);
}

/* kubectl label sends exactly this, resourceVersion or not. */
static void merge_patch_sets_and_removes_labels(void **state)
{
	gives(merge, "{'metadata':{'name':'p','labels':{'a':'1','b':'2'}}}",
	      "{'metadata':{'labels':{'a':null,'c':'3'}}}",
	      "{'metadata':{'name':'p','labels':{'b':'2','c':'3'}}}");
}

/* --- RFC 6902 --------------------------------------------------------------------------------- */

static void json_patch_follows_the_examples_of_its_rfc(void **state)
{
	static const char *const CASES[][3] = {
		{ "{'foo':'bar'}", "[{'op':'add','path':'/baz','value':'qux'}]",
		  "{'foo':'bar','baz':'qux'}" },
		{ "{'foo':['bar','baz']}", "[{'op':'add','path':'/foo/1','value':'qux'}]",
		  "{'foo':['bar','qux','baz']}" },
		{ "{'baz':'qux','foo':'bar'}", "[{'op':'remove','path':'/baz'}]", "{'foo':'bar'}" },
		{ "{'foo':['bar','qux','baz']}", "[{'op':'remove','path':'/foo/1'}]",
		  "{'foo':['bar','baz']}" },
		{ "{'baz':'qux','foo':'bar'}", "[{'op':'replace','path':'/baz','value':'boo'}]",
		  "{'baz':'boo','foo':'bar'}" },
		{ "{'foo':{'bar':'baz','waldo':'fred'},'qux':{'corge':'grault'}}",
		  "[{'op':'move','from':'/foo/waldo','path':'/qux/thud'}]",
		  "{'foo':{'bar':'baz'},'qux':{'corge':'grault','thud':'fred'}}" },
		{ "{'foo':['all','grass','cows','eat']}",
		  "[{'op':'move','from':'/foo/1','path':'/foo/3'}]",
		  "{'foo':['all','cows','eat','grass']}" },
		{ "{'baz':'qux','foo':['a',2,'c']}",
		  "[{'op':'test','path':'/baz','value':'qux'},{'op':'test','path':'/foo/"
		  "1','value':2}]",
		  "{'baz':'qux','foo':['a',2,'c']}" },
		{ "{'foo':'bar'}", "[{'op':'add','path':'/child','value':{'grandchild':{}}}]",
		  "{'foo':'bar','child':{'grandchild':{}}}" },
		{ "{'foo':'bar'}", "[{'op':'add','path':'/baz','value':'qux','xyz':123}]",
		  "{'foo':'bar','baz':'qux'}" },
		{ "{'/':9,'~1':10}", "[{'op':'test','path':'/~01','value':10}]",
		  "{'/':9,'~1':10}" },
		{ "{'foo':['bar']}", "[{'op':'add','path':'/foo/-','value':['abc','def']}]",
		  "{'foo':['bar',['abc','def']]}" },
	};

	for (size_t i = 0; i < RF_COUNT(CASES); i++)
		gives(json_patch, CASES[i][0], CASES[i][1], CASES[i][2]);
}

static void json_patch_reaches_every_corner(void **state)
{
	gives(json_patch, "{'a':1}", "[{'op':'replace','path':'','value':{'b':2}}]", "{'b':2}");
	gives(json_patch, "{'a':{'b':1}}", "[{'op':'copy','from':'/a','path':'/a/c'}]",
	      "{'a':{'b':1,'c':{'b':1}}}");
	gives(json_patch, "{'a':[1]}", "[{'op':'add','path':'/a/1','value':null}]",
	      "{'a':[1,null]}");
	gives(json_patch, "{'m':{'k/x':1}}", "[{'op':'replace','path':'/m/k~1x','value':2}]",
	      "{'m':{'k/x':2}}");
	gives(json_patch, "{'a':1}", "[{'op':'move','from':'/a','path':'/a'}]", "{'a':1}");
	gives(json_patch, "{'':1}", "[{'op':'remove','path':'/'}]", "{}");
	gives(json_patch, "{'a':1}", "[]", "{'a':1}");
}

static void json_patch_that_does_not_apply_says_which_operation(void **state)
{
	fails(json_patch, "{'foo':'bar'}", "[{'op':'add','path':'/baz/bat','value':1}]", RF_INVALID,
	      "operation 0: add operation does not apply: \"/baz/bat\"");
	fails(json_patch, "{'baz':'qux'}", "[{'op':'test','path':'/baz','value':'bar'}]",
	      RF_INVALID, "testing value failed");
	fails(json_patch, "{'/':9,'~1':10}", "[{'op':'test','path':'/~01','value':'10'}]",
	      RF_INVALID, "testing value failed");
	fails(json_patch, "{}", "[{'op':'remove','path':'/a'}]", RF_INVALID, "missing the key");
	fails(json_patch, "{}", "[{'op':'replace','path':'/a','value':1}]", RF_INVALID,
	      "missing the key");
	fails(json_patch, "{'a':[1]}", "[{'op':'add','path':'/a/2','value':1}]", RF_INVALID,
	      "index");
	fails(json_patch, "{'a':[1,2]}", "[{'op':'remove','path':'/a/01'}]", RF_INVALID, "missing");
	fails(json_patch, "{'a':[1,2]}", "[{'op':'remove','path':'/a/-'}]", RF_INVALID, "missing");
	fails(json_patch, "{'a':{'b':1}}", "[{'op':'move','from':'/a','path':'/a/b'}]", RF_INVALID,
	      "into itself");
	fails(json_patch, "{'a':1}", "[{'op':'remove','path':''}]", RF_INVALID, "whole object");
}

static void a_malformed_json_patch_is_a_bad_request(void **state)
{
	static const char *const BAD[] = {
		"{}",
		"[{'op':'frob','path':'/a'}]",
		"[{'path':'/a'}]",
		"[{'op':'add','path':'/a'}]",
		"[{'op':'add','value':1}]",
		"[{'op':'move','path':'/a'}]",
		"[{'op':'remove','path':'a'}]",
		"[{'op':'remove','path':'/a~2'}]",
		"[{'op':'remove','path':'/a~'}]",
		"[7]",
	};

	for (size_t i = 0; i < RF_COUNT(BAD); i++)
		fails(json_patch, "{'a':1}", BAD[i], RF_BAD_REQUEST, "");
}

static void json_patch_cannot_be_made_a_bomb(void **state)
{
	rf_auto(buf) ops = RF_BUF_INIT;

	/* 2^40 strings, if copies were free. */
	rf_buf_puts(&ops, "[{'op':'add','path':'/a','value':'x'}");
	for (int i = 0; i < 40; i++)
		rf_buf_puts(
			&ops,
			",{'op':'copy','from':'','path':'/b'},{'op':'copy','from':'','path':'/c'}");
	rf_buf_puts(&ops, "]");
	fails(json_patch, "{}", ops.p, RF_TOO_LARGE, "copy operations");
	/* Nested deeper with every step. */
	rf_buf_clear(&ops);
	rf_buf_puts(&ops, "[{'op':'add','path':'/a','value':{}}");
	for (int i = 0; i < 200; i++)
		rf_buf_puts(&ops, ",{'op':'copy','from':'/a','path':'/a/a'}");
	rf_buf_puts(&ops, "]");
	fails(json_patch, "{}", ops.p, RF_INVALID, "nested deeper");
	rf_buf_clear(&ops);
	rf_buf_puts(&ops, "[{'op':'test','path':'','value':{}}");
	for (int i = 0; i < 10000; i++)
		rf_buf_puts(&ops, ",{'op':'test','path':'','value':{}}");
	rf_buf_puts(&ops, "]");
	fails(json_patch, "{}", ops.p, RF_TOO_LARGE, "maximum operations");
}

static void add_fields(struct rf_buf *out, const char *prefix, int n)
{
	rf_buf_puts(out, "{");
	for (int i = 0; i < n; i++)
		rf_buf_printf(out, "%s'%s%d':%d", i ? "," : "", prefix, i, i);
	rf_buf_puts(out, "}");
}

static void a_patch_that_would_take_long_is_refused(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_buf_puts(&text, "{");
	for (int i = 0; i < 10; i++) {
		rf_buf_printf(&text, "%s'%d':", i ? "," : "", i);
		add_fields(&text, "k", 4000);
	}
	rf_buf_puts(&text, "}");
	fails(merge, "{}", text.p, RF_TOO_LARGE, "costs too much");
}

static void no_patch_makes_an_object_that_cannot_be_read_back(void **state)
{
	rf_auto(buf) before = RF_BUF_INIT;

	add_fields(&before, "a", 4096);
	assert_int_equal(json(before.p)->n, 4096);
	fails(merge, before.p, "{'b':3}", RF_TOO_LARGE, "more than 4096 fields");
	fails(strategic_pod, before.p, "{'b':3}", RF_TOO_LARGE, "more than 4096 fields");
	fails(json_patch, before.p, "[{'op':'add','path':'/b','value':3}]", RF_TOO_LARGE,
	      "more than 4096 fields");
	gives(json_patch, before.p, "[{'op':'add','path':'/a0','value':0}]", before.p);
}

/* --- strategic merge -------------------------------------------------------------------------- */

#define POD                                                                                        \
	"{'spec':{'containers':[{'name':'a','image':'i1','env':[{'name':'X','value':'1'}]},"       \
	"{'name':'b','image':'i2'}],'tolerations':[{'key':'t'}]}}"

static void containers_are_merged_by_name(void **state)
{
	gives(strategic_pod, POD, "{'spec':{'containers':[{'name':'b','image':'i3'}]}}",
	      "{'spec':{'containers':[{'name':'a','image':'i1','env':[{'name':'X','value':'1'}]},"
	      "{'name':'b','image':'i3'}],'tolerations':[{'key':'t'}]}}");
	/* As kubectl set image sends it. */
	gives(strategic_pod, POD,
	      "{'spec':{'$setElementOrder/containers':[{'name':'a'},{'name':'b'}],"
	      "'containers':[{'name':'a','image':'i9','env':[{'name':'Y','value':'2'}]}]}}",
	      "{'spec':{'containers':[{'name':'a','image':'i9','env':[{'name':'Y','value':'2'},"
	      "{'name':'X','value':'1'}]},{'name':'b','image':'i2'}],'tolerations':[{'key':'t'}]}"
	      "}");
}

static void a_new_element_goes_before_those_the_patch_does_not_name(void **state)
{
	gives(strategic_pod, "{'spec':{'containers':[{'name':'a'}]}}",
	      "{'spec':{'containers':[{'name':'new','image':'i'}]}}",
	      "{'spec':{'containers':[{'name':'new','image':'i'},{'name':'a'}]}}");
	gives(strategic_pod, "{'spec':{'volumes':[{'name':'1'},{'name':'2'},{'name':'3'}]}}",
	      "{'spec':{'volumes':[{'name':'2','emptyDir':{}},{'name':'4'}]}}",
	      "{'spec':{'volumes':[{'name':'1'},{'name':'2','emptyDir':{}},{'name':'4'},{'name':'3'"
	      "}]}}");
}

/* As Kubernetes has it: under $setElementOrder, b counts as standing where d's going left room. */
static void a_new_element_takes_the_place_a_deletion_freed(void **state)
{
	gives(strategic_pod,
	      "{'spec':{'containers':[{'name':'c'},{'name':'d'},{'name':'a'},{'name':'e'}]}}",
	      "{'spec':{'$setElementOrder/containers':[{'name':'c'},{'name':'b'}],"
	      "'containers':[{'name':'c'},{'name':'b'},{'$patch':'delete','name':'d'}]}}",
	      "{'spec':{'containers':[{'name':'c'},{'name':'a'},{'name':'e'},{'name':'b'}]}}");
}

/* kubectl apply: last applied held a, b and c; the file now has c, then a; the server added s. */
static void an_apply_removes_changes_and_orders(void **state)
{
	gives(strategic_pod,
	      "{'metadata':{'annotations':{'old':'1'}},'spec':{'containers':["
	      "{'name':'a','image':'1','ports':[{'containerPort':80}]},{'name':'s','image':'side'},"
	      "{'name':'b','image':'2'},{'name':'c','image':'3'}]}}",
	      "{'metadata':{'annotations':{'old':null,'new':'2'}},'spec':{"
	      "'$setElementOrder/containers':[{'name':'c'},{'name':'a'}],'containers':["
	      "{'name':'a','$setElementOrder/ports':[{'containerPort':81}],"
	      "'ports':[{'containerPort':81,'protocol':'TCP'},{'$patch':'delete','containerPort':"
	      "80}]},"
	      "{'$patch':'delete','name':'b'}]}}",
	      "{'metadata':{'annotations':{'new':'2'}},'spec':{'containers':["
	      "{'name':'s','image':'side'},{'name':'c','image':'3'},"
	      "{'name':'a','image':'1','ports':[{'containerPort':81,'protocol':'TCP'}]}]}}");
}

static void lists_without_a_key_are_replaced(void **state)
{
	gives(strategic_pod, POD, "{'spec':{'tolerations':[{'key':'u'}],'containers':null}}",
	      "{'spec':{'tolerations':[{'key':'u'}]}}");
	gives(strategic_pod, "{'spec':{'containers':[{'name':'a','args':['1','2']}]}}",
	      "{'spec':{'containers':[{'name':'a','args':['3']}]}}",
	      "{'spec':{'containers':[{'name':'a','args':['3']}]}}");
}

/* kubectl taint sends the taints that are to be there. */
static void a_taint_can_be_added_and_removed(void **state)
{
	gives(strategic_node, "{'spec':{'taints':[{'key':'a','effect':'NoSchedule'}]}}",
	      "{'spec':{'taints':[{'key':'a','effect':'NoExecute'},{'key':'a','effect':'NoSchedule'"
	      "}]}}",
	      "{'spec':{'taints':[{'key':'a','effect':'NoExecute'},{'key':'a','effect':'NoSchedule'"
	      "}]}}");
	gives(strategic_node,
	      "{'spec':{'taints':[{'key':'a','effect':'NoExecute'},{'key':'b','effect':'NoSchedule'"
	      "}]}}",
	      "{'spec':{'taints':[{'key':'b','effect':'NoSchedule'}]}}",
	      "{'spec':{'taints':[{'key':'b','effect':'NoSchedule'}]}}");
	gives(strategic_node, "{'spec':{'taints':[{'key':'a'}],'unschedulable':true}}",
	      "{'spec':{'taints':null,'unschedulable':null}}", "{'spec':{}}");
}

static void node_conditions_are_merged_by_type(void **state)
{
	gives(strategic_node,
	      "{'status':{'conditions':[{'type':'Ready','status':'True'},{'type':'Disk','status':'"
	      "False'}]}}",
	      "{'status':{'$setElementOrder/conditions':[{'type':'Ready'},{'type':'Disk'}],"
	      "'conditions':[{'type':'Ready','status':'Unknown'}]}}",
	      "{'status':{'conditions':[{'type':'Ready','status':'Unknown'},"
	      "{'type':'Disk','status':'False'}]}}");
}

static void finalizers_are_a_set(void **state)
{
	gives(strategic_pod, "{'metadata':{'finalizers':['a','b']}}",
	      "{'metadata':{'finalizers':['b','c']}}", "{'metadata':{'finalizers':['a','b','c']}}");
	gives(strategic_pod, "{'metadata':{'finalizers':['a','b']}}",
	      "{'metadata':{'$deleteFromPrimitiveList/finalizers':['a'],"
	      "'$setElementOrder/finalizers':['b']}}",
	      "{'metadata':{'finalizers':['b']}}");
	gives(strategic_pod, "{'metadata':{}}",
	      "{'metadata':{'$deleteFromPrimitiveList/finalizers':['a']}}", "{'metadata':{}}");
}

static void directives_replace_delete_and_retain(void **state)
{
	gives(strategic_pod, "{'metadata':{'labels':{'a':'1','b':'2'}}}",
	      "{'metadata':{'labels':{'$patch':'replace','c':'3'}}}",
	      "{'metadata':{'labels':{'c':'3'}}}");
	gives(strategic_pod, "{'metadata':{'labels':{'a':'1'}}}",
	      "{'metadata':{'labels':{'$patch':'delete'}}}", "{'metadata':{'labels':{}}}");
	gives(strategic_pod, "{'metadata':{'labels':{'a':'1'}}}",
	      "{'metadata':{'labels':{'$patch':'merge','b':'2'}}}",
	      "{'metadata':{'labels':{'a':'1','b':'2'}}}");
	gives(strategic_pod, POD, "{'spec':{'containers':[{'name':'z'},{'$patch':'replace'}]}}",
	      "{'spec':{'containers':[{'name':'z'}],'tolerations':[{'key':'t'}]}}");
	gives(strategic_pod, "{'spec':{'volumes':[{'name':'v','hostPath':{'path':'/'}}]}}",
	      "{'spec':{'volumes':[{'name':'v','$retainKeys':['name','emptyDir'],'emptyDir':{}}]}}",
	      "{'spec':{'volumes':[{'name':'v','emptyDir':{}}]}}");
}

static void directives_never_end_up_in_the_object(void **state)
{
	gives(strategic_pod, "{}",
	      "{'spec':{'$setElementOrder/containers':[{'name':'a'}],'$retainKeys':['containers'],"
	      "'containers':[{'name':'a','x':null},{'$patch':'delete','name':'b'}]}}",
	      "{'spec':{'containers':[{'name':'a'}]}}");
	gives(strategic_pod, "{'spec':{'containers':[]}}",
	      "{'spec':{'containers':[{'name':'a','ports':[{'containerPort':1,'$retainKeys':[]}]}]}"
	      "}",
	      "{'spec':{'containers':[{'name':'a','ports':[{'containerPort':1}]}]}}");
}

static void malformed_strategic_patches_are_refused(void **state)
{
	fails(strategic_pod, POD, "{'spec':{'containers':[{'image':'i'}]}}", RF_BAD_REQUEST,
	      "does not contain declared merge key: name");
	fails(strategic_pod, POD, "{'spec':{'containers':['a']}}", RF_BAD_REQUEST,
	      "list of objects");
	fails(strategic_pod, POD, "{'spec':{'containers':[{'name':'a','$patch':'frob'}]}}",
	      RF_BAD_REQUEST, "$patch");
	fails(strategic_pod, POD, "{'spec':{'$patch':'frob'}}", RF_BAD_REQUEST, "$patch is");
	fails(strategic_pod, POD, "{'spec':{'$retainKeys':['a'],'b':1}}", RF_BAD_REQUEST,
	      "retainKeys");
	fails(strategic_pod, POD,
	      "{'spec':{'$setElementOrder/containers':[{'name':'a'}],'containers':[{'name':'b'}]}}",
	      RF_BAD_REQUEST, "doesn't match $setElementOrder");
	fails(strategic_pod, POD, "{'spec':{'$setElementOrder/containers':1}}", RF_BAD_REQUEST,
	      "lists");
	fails(strategic_pod, "{'metadata':{'finalizers':['a']}}",
	      "{'metadata':{'$deleteFromPrimitiveList/finalizers':'a'}}", RF_BAD_REQUEST,
	      "primitive list");
	fails(strategic_pod, POD, "[]", RF_BAD_REQUEST, "want an object");
}

static void custom_kinds_take_no_strategic_patch(void **state)
{
	struct rf_json *target = json("{}");
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_patch_strategic(&arena, RF_LIT("Tenant"), &target, json("{}"), &err),
			 -RF_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "application/merge-patch+json"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(merge_patch_follows_the_table_of_its_rfc),
		TEST(merge_patch_sets_and_removes_labels),
		TEST(json_patch_follows_the_examples_of_its_rfc),
		TEST(json_patch_reaches_every_corner),
		TEST(json_patch_that_does_not_apply_says_which_operation),
		TEST(a_malformed_json_patch_is_a_bad_request),
		TEST(json_patch_cannot_be_made_a_bomb),
		TEST(a_patch_that_would_take_long_is_refused),
		TEST(no_patch_makes_an_object_that_cannot_be_read_back),
		TEST(containers_are_merged_by_name),
		TEST(a_new_element_goes_before_those_the_patch_does_not_name),
		TEST(a_new_element_takes_the_place_a_deletion_freed),
		TEST(an_apply_removes_changes_and_orders),
		TEST(lists_without_a_key_are_replaced),
		TEST(a_taint_can_be_added_and_removed),
		TEST(node_conditions_are_merged_by_type),
		TEST(finalizers_are_a_set),
		TEST(directives_replace_delete_and_retain),
		TEST(directives_never_end_up_in_the_object),
		TEST(malformed_strategic_patches_are_refused),
		TEST(custom_kinds_take_no_strategic_patch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
