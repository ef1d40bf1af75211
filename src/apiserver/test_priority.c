/* PriorityClasses: the number by which pods go first is an administrator's, and a tenant chooses among names. */
#include <signal.h>

#include "apiserver/store.h"
#include "apiserver/test_world.h"

#define CLASSES "/apis/scheduling.k8s.io/v1/priorityclasses"
#define PODS "/api/v1/namespaces/blue/pods"

static struct world w;
static struct rf_kube *alice;

static struct rf_json *class(const char *name, int64_t value, const char *rest)
{
	struct rf_json *o = rf_json_make(&w.a, "{'metadata':{'name':%s},'value':%D}", name, value);
	struct rf_json *more = rf_json_make(&w.a, rest);

	for (size_t i = 0; i < rf_json_len(more); i++)
		rf_json_set(&w.a, o, more->members[i].key, more->members[i].value);
	return o;
}

static int start(void **state)
{
	world_start(&w);
	world_namespace(&w, "blue", "{}");
	world_create(&w, "/apis/rbac.authorization.k8s.io/v1/namespaces/blue/rolebindings",
		     rf_json_make(&w.a, "{'metadata':{'name':'ringfence-owner'},'roleRef':{'kind':'ClusterRole',"
					"'name':'ringfence-tenant-owner'},'subjects':[{'kind':'User','name':'alice'}]}"));
	world_create(&w, "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
		     rf_json_make(&w.a, "{'metadata':{'name':'alice'},'roleRef':{'kind':'ClusterRole',"
					"'name':'edit'},'subjects':[{'kind':'User','name':'alice'}]}"));
	world_create(&w, CLASSES, class("high", 1000, "{}"));
	world_create(&w, CLASSES, class("patient", -5, "{'preemptionPolicy':'Never'}"));
	alice = world_as(&w, "alice", NULL);
	return 0;
}

static int stop(void **state)
{
	rf_kube_free(alice);
	world_stop(&w);
	return 0;
}

/* A pod with these fields in its spec, made by somebody; *ret is what the server made of it. */
static int try_pod(struct rf_kube *who, const char *path, const char *name, const char *fields, struct rf_json **ret,
		   struct rf_err *err)
{
	struct rf_json *pod = world_pod(&w, name, "{}"), *more = rf_json_make(&w.a, fields);
	int r;

	for (size_t i = 0; i < rf_json_len(more); i++)
		rf_json_set(&w.a, rf_json_at(pod, "spec"), more->members[i].key, more->members[i].value);
	r = world_try(who, &w, path, pod, err);
	if (r == 0 && ret != NULL)
		*ret = world_get(&w, rf_arena_printf(&w.a, "%s/%s", path, name).p);
	return r;
}

static void pod_gets(const char *name, const char *fields, const char *class_name, int64_t priority,
		     const char *policy)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *pod = NULL;

	assert_ok(try_pod(alice, PODS, name, fields, &pod, &err), err);
	assert_true(rf_str_is(rf_json_str_at(pod, "spec", "priorityClassName"), class_name));
	assert_int_equal(rf_json_int(rf_json_at(pod, "spec", "priority"), -1), priority);
	assert_true(rf_str_is(rf_json_str_at(pod, "spec", "preemptionPolicy"), policy));
}

static void wants(int r, int code, const struct rf_err *err, const char *text)
{
	if (r != -code || strstr(err->msg, text) == NULL)
		fail_msg("wanted %d with \"%s\", got %d: %s", -code, text, r, r < 0 ? err->msg : "taken");
}

static void pod_refused(const char *fields, const char *text)
{
	struct rf_err err = RF_ERR_INIT;

	wants(try_pod(alice, PODS, "no", fields, NULL, &err), RF_FORBIDDEN, &err, text);
	assert_non_null(strstr(err.msg, "pods \"no\" is forbidden: "));
}

static void class_refused(struct rf_json *o, int code, const char *text)
{
	struct rf_err err = RF_ERR_INIT;

	wants(world_try(w.admin, &w, CLASSES, o, &err), code, &err, text);
}

static int patch(const char *path, const char *what, struct rf_err *err)
{
	return rf_kube_patch(w.admin, &w.a, rf_str(path), RF_PATCH_MERGE, rf_json_make(&w.a, what), NULL, err);
}

/* --- pods ----------------------------------------------------------------------------------- */

static void a_pod_has_the_priority_of_its_class(void **state)
{
	pod_gets("a", "{'priorityClassName':'high'}", "high", 1000, "PreemptLowerPriority");
	pod_gets("b", "{'priorityClassName':'patient'}", "patient", -5, "Never");
}

static void a_pod_without_a_class_has_priority_0(void **state)
{
	pod_gets("plain", "{}", "", 0, "PreemptLowerPriority");
	pod_gets("empty", "{'priorityClassName':''}", "", 0, "PreemptLowerPriority");
}

static void a_class_that_is_not_there_is_refused_by_name(void **state)
{
	pod_refused("{'priorityClassName':'low'}", "no PriorityClass with name low was found");
}

static void nobody_writes_his_own_number(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	pod_refused("{'priority':1000000}",
		    "the integer value of priority (1000000) must not be provided in pod spec; priority admission "
		    "controller computed 0 from the given PriorityClass name");
	pod_refused("{'priorityClassName':'high','priority':1001}", "computed 1000 from the given PriorityClass name");
	pod_refused("{'priorityClassName':'high','priority':-1}", "(-1) must not be provided");
	pod_refused("{'priorityClassName':'patient','preemptionPolicy':'PreemptLowerPriority'}",
		    "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec");
	pod_refused("{'preemptionPolicy':'Never'}", "computed PreemptLowerPriority");
	wants(try_pod(w.admin, PODS, "no", "{'priority':5}", NULL, &err), RF_FORBIDDEN, &err, "computed 0");
	pod_gets("same", "{'priorityClassName':'high','priority':1000}", "high", 1000, "PreemptLowerPriority");
}

static void a_priority_stays_what_it_was(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *pod = NULL, *after = NULL;

	pod_gets("stays", "{'priorityClassName':'high'}", "high", 1000, "PreemptLowerPriority");
	wants(patch(PODS "/stays", "{'spec':{'priority':1001}}", &err), RF_INVALID, &err,
	      "pod updates may not change fields");
	wants(patch(PODS "/stays", "{'spec':{'priorityClassName':'patient'}}", &err), RF_INVALID, &err,
	      "pod updates may not change fields");
	wants(patch(PODS "/stays", "{'spec':{'priorityClassName':null}}", &err), RF_INVALID, &err,
	      "pod updates may not change fields");
	/* as its author wrote it: without what the server added */
	pod = rf_json_clone(&w.a, world_get(&w, PODS "/stays"));
	rf_json_del(rf_json_at(pod, "spec"), RF_LIT("priority"));
	rf_json_del(rf_json_at(pod, "spec"), RF_LIT("preemptionPolicy"));
	rf_json_set_str(&w.a, rf_json_item(rf_json_at(pod, "spec", "containers"), 0), "image", RF_LIT("y"));
	assert_ok(rf_kube_update(alice, &w.a, RF_LIT(PODS "/stays"), pod, &after, &err), err);
	assert_int_equal(rf_json_int(rf_json_at(after, "spec", "priority"), -1), 1000);
	assert_true(rf_str_is(rf_json_str_at(after, "spec", "preemptionPolicy"), "PreemptLowerPriority"));
}

static void system_classes_are_not_for_tenants(void **state)
{
	static const char *const NAMES[] = { "system-cluster-critical", "system-node-critical" };
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *pod = NULL;

	for (size_t i = 0; i < RF_COUNT(NAMES); i++)
		pod_refused(rf_arena_printf(&w.a, "{'priorityClassName':'%s'}", NAMES[i]).p,
			    "the priority classes system-* are for the cluster's own pods");
	assert_ok(try_pod(w.admin, PODS, "admins", "{'priorityClassName':'system-node-critical'}", &pod, &err), err);
	assert_int_equal(rf_json_int(rf_json_at(pod, "spec", "priority"), 0), 2000001000);
	assert_ok(try_pod(alice, "/api/v1/namespaces/kube-system/pods", "own",
			  "{'priorityClassName':'system-cluster-critical'}", &pod, &err),
		  err);
	assert_int_equal(rf_json_int(rf_json_at(pod, "spec", "priority"), 0), 2000000000);
}

static void forget_classes(const char *db)
{
	rf_auto_ptr(store) s = NULL;
	struct rf_err err = RF_ERR_INIT;
	const struct rf_kind *classes = rf_kind_get("priorityclasses"), *pods = rf_kind_get("pods");
	static const char *const NAMES[] = { "system-cluster-critical", "system-node-critical", "high", "patient" };
	struct rf_json *o = NULL, *pod = NULL;

	assert_ok(rf_store_open(db, rf_clock_system(), &s, &err), err);
	assert_ok(rf_store_begin(s, &err), err);
	for (size_t i = 0; i < RF_COUNT(NAMES); i++) {
		assert_ok(rf_store_get(s, &w.a, classes, RF_STR_EMPTY, rf_str(NAMES[i]), &o, &err), err);
		assert_ok(rf_store_delete(s, &w.a, classes, o, rf_json_clone(&w.a, o), &err), err);
	}
	assert_ok(rf_store_get(s, &w.a, pods, RF_LIT("blue"), RF_LIT("old"), &o, &err), err);
	pod = rf_json_clone(&w.a, o);
	rf_json_set_int(&w.a, rf_json_at(pod, "spec"), "priority", 2000000000);
	assert_ok(rf_store_put(s, &w.a, pods, o, pod, &err), err);
	assert_ok(rf_store_commit(s, NULL, NULL, &err), err);
}

static void what_authors_wrote_before_there_were_classes_is_no_priority(void **state)
{
	struct rf_json *pod = NULL;
	struct rf_err err = RF_ERR_INIT;

	assert_ok(try_pod(alice, PODS, "old", "{}", &pod, &err), err);
	world_restart(&w, SIGTERM, forget_classes);
	rf_kube_free(alice);
	alice = world_as(&w, "alice", NULL);
	pod = world_get(&w, PODS "/old");
	assert_int_equal(rf_json_int(rf_json_at(pod, "spec", "priority"), -1), 0);
	/* Later starts leave pods alone, whatever becomes of their class. */
	world_create(&w, CLASSES, class("high", 1000, "{}"));
	world_create(&w, CLASSES, class("patient", -5, "{'preemptionPolicy':'Never'}"));
	pod_gets("later", "{'priorityClassName':'high'}", "high", 1000, "PreemptLowerPriority");
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(CLASSES "/high"), -1, false, &err), err);
	world_restart(&w, SIGTERM, NULL);
	rf_kube_free(alice);
	alice = world_as(&w, "alice", NULL);
	assert_int_equal(rf_json_int(rf_json_at(world_get(&w, PODS "/later"), "spec", "priority"), -1), 1000);
	world_create(&w, CLASSES, class("high", 1000, "{}"));
}

/* --- classes -------------------------------------------------------------------------------- */

static void tenants_read_classes_and_administrators_write_them(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *list = NULL;

	assert_ok(rf_kube_get(alice, &w.a, RF_LIT(CLASSES), &list, &err), err);
	assert_int_equal(rf_json_len(rf_json_at(list, "items")), 4);
	wants(world_try(alice, &w, CLASSES, class("mine", 5, "{}"), &err), RF_FORBIDDEN, &err,
	      "cannot create resource \"priorityclasses\" in API group \"scheduling.k8s.io\" at the cluster scope");
	wants(rf_kube_patch(alice, &w.a, RF_LIT(CLASSES "/high"), RF_PATCH_MERGE,
			    rf_json_make(&w.a, "{'globalDefault':true}"), NULL, &err),
	      RF_FORBIDDEN, &err, "cannot patch resource");
	wants(rf_kube_delete(alice, &w.a, RF_LIT(CLASSES "/high"), 0, false, &err), RF_FORBIDDEN, &err,
	      "cannot delete resource");
}

static void values_and_names_have_their_bounds(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, CLASSES, class("most", 1000000000, "{}"));
	world_create(&w, CLASSES, class("least", INT32_MIN, "{}"));
	class_refused(class("more", 1000000001, "{}"), RF_INVALID,
		      "PriorityClass \"more\" is invalid: value: Forbidden: maximum allowed value of a user defined "
		      "priority is 1000000000");
	class_refused(class("less", (int64_t)INT32_MIN - 1, "{}"), RF_INVALID, "value: Invalid value: -2147483649");
	class_refused(class("system-mine", 5, "{}"), RF_INVALID,
		      "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved");
	class_refused(class("odd", 5, "{'preemptionPolicy':'Sometimes'}"), RF_INVALID,
		      "preemptionPolicy: Unsupported value: \"Sometimes\"");
	wants(patch(CLASSES "/system-node-critical", "{'globalDefault':true}", &err), RF_INVALID, &err, "reserved");
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(CLASSES "/most"), 0, false, &err), err);
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(CLASSES "/least"), 0, false, &err), err);
}

static void what_a_class_means_does_not_change(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	wants(patch(CLASSES "/high", "{'value':1001}", &err), RF_INVALID, &err,
	      "value: Forbidden: may not be changed in an update.");
	wants(patch(CLASSES "/high", "{'value':null}", &err), RF_INVALID, &err, "may not be changed");
	wants(patch(CLASSES "/high", "{'preemptionPolicy':'Never'}", &err), RF_INVALID, &err,
	      "preemptionPolicy: Invalid value: field is immutable");
	assert_ok(patch(CLASSES "/high", "{'description':'first'}", &err), err);
}

static void there_is_one_default_at_most(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, CLASSES, class("usual", 10, "{'globalDefault':true,'preemptionPolicy':'Never'}"));
	class_refused(class("second", 11, "{'globalDefault':true}"), RF_FORBIDDEN,
		      "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass usual is already marked "
		      "as default. Only one default can exist");
	wants(patch(CLASSES "/high", "{'globalDefault':true}", &err), RF_FORBIDDEN, &err, "Only one default can exist");
	assert_ok(patch(CLASSES "/usual", "{'description':'for all'}", &err), err);
	pod_gets("by-default", "{}", "usual", 10, "Never");
	pod_gets("named", "{'priorityClassName':'high'}", "high", 1000, "PreemptLowerPriority");
	pod_refused("{'priority':0}", "computed 10");

	assert_ok(patch(CLASSES "/usual", "{'globalDefault':false}", &err), err);
	pod_gets("after", "{}", "", 0, "PreemptLowerPriority");
	assert_ok(patch(CLASSES "/high", "{'globalDefault':true}", &err), err);
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(CLASSES "/high"), 0, false, &err), err);
	pod_gets("gone", "{}", "", 0, "PreemptLowerPriority");
	pod_refused("{'priorityClassName':'high'}", "no PriorityClass with name high was found");
}

static void kubernetes_own_classes_are_there_from_the_start_and_again_after_it(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(CLASSES "/system-node-critical"), 0, false, &err), err);
	world_restart(&w, SIGTERM, NULL);
	o = world_get(&w, CLASSES "/system-node-critical");
	assert_int_equal(rf_json_int(rf_json_at(o, "value"), 0), 2000001000);
	assert_true(rf_str_is(rf_json_str_at(o, "preemptionPolicy"), "PreemptLowerPriority"));
	o = world_get(&w, CLASSES "/system-cluster-critical");
	assert_int_equal(rf_json_int(rf_json_at(o, "value"), 0), 2000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pod_has_the_priority_of_its_class),
		cmocka_unit_test(a_pod_without_a_class_has_priority_0),
		cmocka_unit_test(a_class_that_is_not_there_is_refused_by_name),
		cmocka_unit_test(nobody_writes_his_own_number),
		cmocka_unit_test(a_priority_stays_what_it_was),
		cmocka_unit_test(system_classes_are_not_for_tenants),
		cmocka_unit_test(what_authors_wrote_before_there_were_classes_is_no_priority),
		cmocka_unit_test(tenants_read_classes_and_administrators_write_them),
		cmocka_unit_test(values_and_names_have_their_bounds),
		cmocka_unit_test(what_a_class_means_does_not_change),
		cmocka_unit_test(there_is_one_default_at_most),
		cmocka_unit_test(kubernetes_own_classes_are_there_from_the_start_and_again_after_it),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
