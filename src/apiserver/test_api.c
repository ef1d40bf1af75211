/* The API as clients see it. */
#include <signal.h>
#include <stdio.h>

#include "apiserver/store.h"
#include "apiserver/test_world.h"

#define PODS "/api/v1/namespaces/default/pods"
#define CONFIGMAPS "/api/v1/namespaces/default/configmaps"

static struct world w;

static int start(void **state)
{
	world_start(&w);
	return 0;
}

static int stop(void **state)
{
	world_stop(&w);
	return 0;
}

static struct rf_json *configmap(const char *name, const char *value)
{
	return rf_json_make(&w.a, "{'metadata':{'name':%s,'labels':{'v':%s}},'data':{'v':%s}}",
			    name, value, value);
}

static const char *path(const char *base, const char *name)
{
	return rf_arena_printf(&w.a, "%s/%s", base, name).p;
}

static int64_t rv_now(void)
{
	return rf_kube_rv(world_get(&w, CONFIGMAPS "?limit=1"));
}

static void expect(int r, const struct rf_err *err, enum rf_code code, const char *text)
{
	if (r != -(int)code)
		fail_msg("wanted code %d, got %d: %s", code, r, err->msg);
	if (text != NULL && strstr(err->msg, text) == NULL)
		fail_msg("wanted \"%s\" in: %s", text, err->msg);
}

/* --- objects -------------------------------------------------------------------------------- */

static void a_created_object_has_identity_and_defaults(void **state)
{
	struct rf_json *o = world_create(&w, PODS, world_pod(&w, "defaults", "{}"));

	assert_int_equal(rf_kube_uid(o).n, 36);
	assert_true(rf_kube_rv(o) > 0);
	assert_true(rf_str_is(rf_json_str_at(o, "kind"), "Pod"));
	assert_true(rf_str_is(rf_json_str_at(o, "spec", "restartPolicy"), "Always"));
	assert_true(rf_str_is(rf_json_str_at(o, "spec", "serviceAccountName"), "default"));
	assert_true(rf_str_is(rf_json_str_at(o, "status", "phase"), "Pending"));
	assert_int_equal(rf_json_int(rf_json_at(o, "metadata", "generation"), 0), 1);
}

static void a_second_object_of_the_same_name_is_refused(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, CONFIGMAPS, configmap("twice", "1"));
	expect(world_try(w.admin, &w, CONFIGMAPS, configmap("twice", "1"), &err), &err, RF_EXISTS,
	       "configmaps \"twice\" already exists");
}

static void generate_name_draws_a_free_name(void **state)
{
	struct rf_json *o = world_create(
		&w, CONFIGMAPS, rf_json_make(&w.a, "{'metadata':{'generateName':'drawn-'}}"));

	assert_true(rf_str_starts(rf_kube_name(o), RF_LIT("drawn-")));
	assert_int_equal(rf_kube_name(o).n, strlen("drawn-") + 5);
}

static void an_update_from_an_old_version_conflicts(void **state)
{
	struct rf_json *o = world_create(&w, CONFIGMAPS, configmap("race", "1"));
	struct rf_str p = rf_str(path(CONFIGMAPS, "race"));
	struct rf_err err = RF_ERR_INIT;

	rf_json_set_str(&w.a, rf_json_ensure(&w.a, o, "data"), "v", RF_LIT("2"));
	assert_ok(rf_kube_update(w.admin, &w.a, p, o, NULL, &err), err);
	rf_json_set_str(&w.a, rf_json_ensure(&w.a, o, "data"), "v", RF_LIT("3"));
	expect(rf_kube_update(w.admin, &w.a, p, o, NULL, &err), &err, RF_CONFLICT,
	       "the object has been modified");
}

static void an_update_that_changes_nothing_writes_nothing(void **state)
{
	struct rf_json *o = world_create(&w, CONFIGMAPS, configmap("same", "1")), *again;
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_update(w.admin, &w.a, rf_str(path(CONFIGMAPS, "same")), o, &again, &err),
		  err);
	assert_int_equal(rf_kube_rv(o), rf_kube_rv(again));
}

static void names_labels_and_fields_are_checked(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	expect(world_try(w.admin, &w, CONFIGMAPS, configmap("Bad_Name", "1"), &err), &err,
	       RF_INVALID, "metadata.name: Invalid value");
	expect(world_try(w.admin, &w, CONFIGMAPS, configmap("l", "not a label"), &err), &err,
	       RF_INVALID, "metadata.labels: Invalid value");
	expect(world_try(w.admin, &w, PODS "?fieldValidation=Strict",
			 rf_json_make(&w.a, "{'metadata':{'name':'x'},'spec':{'contaners':[]}}"),
			 &err),
	       &err, RF_BAD_REQUEST, "unknown field \"spec.contaners\"");
	expect(world_try(w.admin, &w, PODS,
			 rf_json_make(&w.a, "{'metadata':{'name':'x'},'spec':{'containers':'y'}}"),
			 &err),
	       &err, RF_BAD_REQUEST, "spec.containers");
	expect(world_try(w.admin, &w, "/api/v1/namespaces/nowhere/configmaps", configmap("a", "1"),
			 &err),
	       &err, RF_NOT_FOUND, "namespaces \"nowhere\" not found");
}

static void status_and_spec_are_written_apart(void **state)
{
	struct rf_json *o = world_create(&w, PODS, world_pod(&w, "apart", "{}")), *after;
	struct rf_err err = RF_ERR_INIT;

	rf_json_set_str(&w.a, rf_json_ensure(&w.a, o, "status"), "phase", RF_LIT("Running"));
	assert_ok(rf_kube_update(w.admin, &w.a, rf_str(path(PODS, "apart")), o, &after, &err), err);
	assert_true(rf_str_is(rf_json_str_at(after, "status", "phase"), "Pending"));
	rf_json_set_str(&w.a, rf_json_ensure(&w.a, o, "metadata", "labels"), "sneaky", RF_LIT("1"));
	rf_json_del(rf_json_at(o, "metadata"), RF_LIT("resourceVersion"));
	assert_ok(
		rf_kube_update(w.admin, &w.a, rf_str(path(PODS, "apart/status")), o, &after, &err),
		err);
	assert_true(rf_str_is(rf_json_str_at(after, "status", "phase"), "Running"));
	assert_int_equal(rf_kube_label(after, "sneaky").n, 0);
	assert_int_equal(rf_json_int(rf_json_at(after, "metadata", "generation"), 0), 1);
}

static void a_finalizer_holds_an_object_until_it_goes(void **state)
{
	struct rf_json *o = configmap("held", "1");
	const char *p = path(CONFIGMAPS, "held");
	struct rf_err err = RF_ERR_INIT;

	rf_json_set(&w.a, rf_json_at(o, "metadata"), RF_LIT("finalizers"),
		    rf_json_make(&w.a, "['example.com/hold']"));
	world_create(&w, CONFIGMAPS, o);
	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(p), -1, false, &err), err);
	assert_true(rf_kube_deleting(world_get(&w, p)));
	assert_ok(rf_kube_patch(
			  w.admin, &w.a, rf_str(p), RF_PATCH_MERGE,
			  rf_json_make(&w.a, "{'metadata':{'finalizers':%j}}", rf_json_null(&w.a)),
			  NULL, &err),
		  err);
	expect(rf_kube_get(w.admin, &w.a, rf_str(p), &o, &err), &err, RF_NOT_FOUND, NULL);
}

static void lists_come_in_pages(void **state)
{
	struct rf_json *first, *second;

	world_namespace(&w, "pages", "{}");
	for (int i = 0; i < 5; i++) {
		char name[16];

		snprintf(name, sizeof(name), "c%d", i);
		world_create(&w, "/api/v1/namespaces/pages/configmaps", configmap(name, "1"));
	}
	first = world_get(&w, "/api/v1/namespaces/pages/configmaps?limit=3");
	assert_int_equal(rf_json_len(rf_json_at(first, "items")), 3);
	second = world_get(
		&w,
		rf_arena_printf(&w.a, "/api/v1/namespaces/pages/configmaps?limit=3&continue=%.*s",
				RF_STR(rf_json_str_at(first, "metadata", "continue")))
			.p);
	assert_int_equal(rf_json_len(rf_json_at(second, "items")), 2);
	assert_null(rf_json_at(second, "metadata", "continue"));
	assert_true(rf_str_is(rf_kube_name(rf_json_item(rf_json_at(second, "items"), 0)), "c3"));
}

/* --- watches -------------------------------------------------------------------------------- */

static const char *event(const struct rf_json *events, size_t i)
{
	return rf_arena_printf(&w.a, "%.*s %.*s",
			       RF_STR(rf_json_str_at(rf_json_item(events, i), "type")),
			       RF_STR(rf_kube_name(rf_json_at(rf_json_item(events, i), "object"))))
		.p;
}

static void a_watch_tells_all_that_happened_since(void **state)
{
	long long from = (long long)rv_now();
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *events, *o = world_create(&w, CONFIGMAPS, configmap("seen", "1"));

	rf_json_set_str(&w.a, rf_json_ensure(&w.a, o, "data"), "v", RF_LIT("2"));
	assert_ok(rf_kube_update(w.admin, &w.a, rf_str(path(CONFIGMAPS, "seen")), o, NULL, &err),
		  err);
	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(path(CONFIGMAPS, "seen")), -1, false, &err),
		  err);
	events = world_watch(
		&w, rf_arena_printf(&w.a, CONFIGMAPS "?watch=1&resourceVersion=%lld", from).p, 3);
	assert_int_equal(rf_json_len(events), 3);
	assert_string_equal(event(events, 0), "ADDED seen");
	assert_string_equal(event(events, 1), "MODIFIED seen");
	assert_string_equal(event(events, 2), "DELETED seen");
	assert_true(rf_kube_rv(rf_json_at(rf_json_item(events, 2), "object")) == from + 3);
}

static void a_selector_turns_changes_into_coming_and_going(void **state)
{
	long long from = (long long)rv_now();
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *events, *o = world_create(&w, CONFIGMAPS, configmap("moves", "1"));
	struct rf_str p = rf_str(path(CONFIGMAPS, "moves"));

	for (int i = 0; i < 2; i++)
		assert_ok(rf_kube_patch(w.admin, &w.a, p, RF_PATCH_MERGE,
					rf_json_make(&w.a, "{'metadata':{'labels':{'v':%s}}}",
						     i == 0 ? "2" : "1"),
					&o, &err),
			  err);
	events = world_watch(&w,
			     rf_arena_printf(&w.a,
					     CONFIGMAPS "?watch=1&labelSelector=v%%3D2&"
							"resourceVersion=%lld",
					     from)
				     .p,
			     2);
	assert_int_equal(rf_json_len(events), 2);
	assert_string_equal(event(events, 0), "ADDED moves");
	assert_string_equal(event(events, 1), "DELETED moves");
}

static void send_initial_events_ends_with_a_bookmark(void **state)
{
	struct rf_json *events, *last;

	world_namespace(&w, "initial", "{}");
	world_create(&w, "/api/v1/namespaces/initial/configmaps", configmap("one", "1"));
	events = world_watch(&w,
			     "/api/v1/namespaces/initial/configmaps?watch=1&sendInitialEvents=true&"
			     "resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
			     2);
	assert_int_equal(rf_json_len(events), 2);
	assert_string_equal(event(events, 0), "ADDED one");
	last = rf_json_item(events, 1);
	assert_true(rf_str_is(rf_json_str_at(last, "type"), "BOOKMARK"));
	assert_true(rf_str_is(
		rf_kube_annotation(rf_json_at(last, "object"), "k8s.io/initial-events-end"),
		"true"));
}

static void a_watch_ends_when_its_time_is_over(void **state)
{
	struct rf_json *events = world_watch(&w, "/api/v1/nodes?watch=1&timeoutSeconds=1", 1);

	assert_int_equal(rf_json_len(events), 0);
}

/* --- pods and claims ------------------------------------------------------------------------ */

static int bind_to(const char *pod, const char *node, struct rf_err *err)
{
	return world_try(w.admin, &w, path(PODS, rf_arena_printf(&w.a, "%s/binding", pod).p),
			 rf_json_make(&w.a, "{'target':{'kind':'Node','name':%s}}", node), err);
}

static void a_pod_is_bound_once(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	world_create(&w, PODS, world_pod(&w, "bound", "{}"));
	assert_ok(bind_to("bound", "node-1", &err), err);
	o = world_get(&w, path(PODS, "bound"));
	assert_true(rf_str_is(rf_json_str_at(o, "spec", "nodeName"), "node-1"));
	assert_true(rf_str_is(
		rf_json_str_at(rf_json_item(rf_json_at(o, "status", "conditions"), 0), "type"),
		"PodScheduled"));
	expect(bind_to("bound", "node-2", &err), &err, RF_CONFLICT,
	       "already assigned to node \"node-1\"");
}

static void a_running_pod_ends_when_its_node_says_so(void **state)
{
	struct rf_kube *node = world_as(&w, "system:node:node-1", "system:nodes");
	struct rf_kube *other = world_as(&w, "system:node:node-2", "system:nodes");
	struct rf_str p = rf_str(path(PODS, "ends"));
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	world_create(&w, PODS, world_pod(&w, "ends", "{}"));
	assert_ok(bind_to("ends", "node-1", &err), err);
	assert_ok(rf_kube_delete(w.admin, &w.a, p, -1, false, &err), err);
	o = world_get(&w, p.p);
	assert_int_equal(rf_json_int(rf_json_at(o, "metadata", "deletionGracePeriodSeconds"), 0),
			 30);
	expect(rf_kube_delete(other, &w.a, p, 0, false, &err), &err, RF_FORBIDDEN,
	       "pods bound to it");
	assert_ok(rf_kube_delete(node, &w.a, p, 0, false, &err), err);
	expect(rf_kube_get(w.admin, &w.a, p, &o, &err), &err, RF_NOT_FOUND, NULL);
	rf_kube_free(node);
	rf_kube_free(other);
}

#define CLAIMS "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"

static int allocate(const char *claim, const char *device, const char *memory, const char *compute,
		    struct rf_err *err)
{
	struct rf_json *o = world_get(&w, path(CLAIMS, claim));

	rf_json_set(&w.a, o, RF_LIT("status"),
		    rf_json_make(&w.a,
				 "{'allocation':{'devices':{'results':[{'request':'c',"
				 "'driver':'ringfence.io','pool':'node-1','device':%s,"
				 "'consumedCapacity':{'memory':%s,'compute':%s}}]}}}",
				 device, memory, compute));
	return rf_kube_update(w.admin, &w.a,
			      rf_str(path(CLAIMS, rf_arena_printf(&w.a, "%s/status", claim).p)), o,
			      NULL, err);
}

static void no_device_is_given_twice(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	static const char *const NAMES[] = { "a", "b", "c", "d", "e" };

	world_create(&w, "/apis/resource.k8s.io/v1/resourceslices",
		     rf_json_make(&w.a,
				  "{'metadata':{'name':'node-1'},'spec':{'driver':'ringfence.io',"
				  "'nodeName':'node-1','pool':{'name':'node-1','generation':1,"
				  "'resourceSliceCount':1},'devices':[{'name':'gpu-0','capacity':{"
				  "'memory':{'value':'80Gi'}}},{'name':'gpu-1','capacity':{"
				  "'memory':{'value':'80Gi'}}}]}}"));
	for (size_t i = 0; i < RF_COUNT(NAMES); i++)
		world_create(&w, CLAIMS,
			     rf_json_make(&w.a, "{'metadata':{'name':%s},'spec':{}}", NAMES[i]));
	assert_ok(allocate("a", "gpu-0", "80Gi", "1000", &err), err);
	expect(allocate("b", "gpu-0", "80Gi", "1000", &err), &err, RF_CONFLICT,
	       "gpu-0 of pool node-1 is taken");
	expect(allocate("b", "gpu-0", "1", "0", &err), &err, RF_CONFLICT, "taken");
	assert_ok(allocate("b", "gpu-1", "40Gi", "500", &err), err);
	assert_ok(allocate("c", "gpu-1", "20Gi", "500", &err), err);
	expect(allocate("d", "gpu-1", "20Gi", "1", &err), &err, RF_CONFLICT, "taken");
	expect(allocate("d", "gpu-1", "21Gi", "0", &err), &err, RF_CONFLICT, "taken");
	expect(allocate("d", "gpu-7", "1Gi", "0", &err), &err, RF_CONFLICT, "in no ResourceSlice");
	expect(allocate("b", "gpu-0", "1Gi", "0", &err), &err, RF_INVALID, "immutable");
	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(path(CLAIMS, "a")), -1, false, &err), err);
	assert_ok(allocate("e", "gpu-0", "80Gi", "1000", &err), err);
}

static void a_claim_stays_while_its_pod_may_run(void **state)
{
	struct rf_json *pod = world_create(&w, PODS, world_pod(&w, "user", "{}"));
	struct rf_json *o;
	struct rf_err err = RF_ERR_INIT;
	const char *p = path(CLAIMS, "used");

	assert_ok(bind_to("user", "node-1", &err), err);
	o = world_create(&w, CLAIMS, rf_json_make(&w.a, "{'metadata':{'name':'used'},'spec':{}}"));
	rf_json_set(&w.a, o, RF_LIT("status"),
		    rf_json_make(&w.a,
				 "{'reservedFor':[{'resource':'pods','name':'user','uid':%S}]}",
				 rf_kube_uid(pod)));
	assert_ok(rf_kube_update(w.admin, &w.a, rf_str(path(p, "status")), o, NULL, &err), err);
	expect(rf_kube_delete(w.admin, &w.a, rf_str(p), -1, false, &err), &err, RF_CONFLICT,
	       "in use by pod \"user\"");
	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(path(PODS, "user")), 0, false, &err), err);
	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(p), -1, false, &err), err);
}

/* --- namespaces ----------------------------------------------------------------------------- */

static void a_namespace_goes_after_its_pods(void **state)
{
	const char *ns = "/api/v1/namespaces/ending", *pod = "/api/v1/namespaces/ending/pods/last";
	struct rf_kube *node = world_as(&w, "system:node:node-1", "system:nodes");
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	world_namespace(&w, "ending", "{}");
	world_create(&w, "/api/v1/namespaces/ending/secrets",
		     rf_json_make(&w.a, "{'metadata':{'name':'s'},'stringData':{'a':'b'}}"));
	world_create(&w, "/api/v1/namespaces/ending/pods", world_pod(&w, "last", "{}"));
	world_create(&w, "/api/v1/namespaces/ending/pods/last/binding",
		     rf_json_make(&w.a, "{'target':{'kind':'Node','name':'node-1'}}"));
	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(ns), -1, false, &err), err);
	assert_true(rf_str_is(rf_json_str_at(world_get(&w, ns), "status", "phase"), "Terminating"));
	assert_true(rf_kube_deleting(world_get(&w, pod)));
	world_get(&w, "/api/v1/namespaces/ending/secrets/s");
	expect(world_try(w.admin, &w, "/api/v1/namespaces/ending/configmaps", configmap("new", "1"),
			 &err),
	       &err, RF_FORBIDDEN, "being terminated");
	assert_ok(rf_kube_delete(node, &w.a, rf_str(pod), 0, false, &err), err);
	expect(rf_kube_get(w.admin, &w.a, rf_str(ns), &o, &err), &err, RF_NOT_FOUND, NULL);
	expect(rf_kube_get(w.admin, &w.a, RF_LIT("/api/v1/namespaces/ending/secrets/s"), &o, &err),
	       &err, RF_NOT_FOUND, NULL);
	rf_kube_free(node);
}

static void what_a_tenant_holds_back_does_not_hold_its_namespace(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	world_namespace(&w, "held", "{}");
	world_create(
		&w, "/api/v1/namespaces/held/configmaps",
		rf_json_make(&w.a, "{'metadata':{'name':'stays','finalizers':['x.io/stay']}}"));
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT("/api/v1/namespaces/held"), -1, false, &err),
		  err);
	expect(rf_kube_get(w.admin, &w.a, RF_LIT("/api/v1/namespaces/held"), &o, &err), &err,
	       RF_NOT_FOUND, "not found");
}

static void a_namespace_does_not_tell_what_an_earlier_one_held(void **state)
{
	const char *secrets = "/api/v1/namespaces/again/secrets";
	long long before = (long long)rv_now(), after;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *events;

	world_namespace(&w, "again", "{}");
	world_create(&w, secrets, rf_json_make(&w.a, "{'metadata':{'name':'theirs'}}"));
	before = (long long)rv_now();
	assert_ok(
		rf_kube_delete(w.admin, &w.a, RF_LIT("/api/v1/namespaces/again"), -1, false, &err),
		err);
	world_namespace(&w, "again", "{}");
	after = (long long)rv_now();
	events = world_watch(
		&w, rf_arena_printf(&w.a, "%s?watch=1&resourceVersion=%lld", secrets, before).p, 1);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(events, 0), "type"), "ERROR"));
	assert_int_equal(rf_json_int(rf_json_at(rf_json_item(events, 0), "object", "code"), 0),
			 410);
	world_create(&w, secrets, rf_json_make(&w.a, "{'metadata':{'name':'ours'}}"));
	events = world_watch(
		&w, rf_arena_printf(&w.a, "%s?watch=1&resourceVersion=%lld", secrets, after).p, 1);
	assert_string_equal(event(events, 0), "ADDED ours");
}

static void lists_are_of_a_length_that_can_be_checked(void **state)
{
	struct rf_json *o = rf_json_make(&w.a, "{'metadata':{'name':'long','finalizers':[]}}");
	struct rf_json *list = rf_json_at(o, "metadata", "finalizers");
	struct rf_err err = RF_ERR_INIT;

	for (int i = 0; i < 2049; i++)
		rf_json_push(&w.a, list,
			     rf_json_string(&w.a, rf_arena_printf(&w.a, "x.io/f%d", i)));
	expect(world_try(w.admin, &w, CONFIGMAPS, o, &err), &err, RF_BAD_REQUEST,
	       "metadata.finalizers: Too many: must have at most 2048 items");
	world_create(&w, CONFIGMAPS, rf_json_make(&w.a, "{'metadata':{'name':'long'}}"));
	expect(rf_kube_patch(w.admin, &w.a, RF_LIT(CONFIGMAPS "/long"), RF_PATCH_STRATEGIC, o, NULL,
			     &err),
	       &err, RF_TOO_LARGE, "the patch has a list of 2049 items");
}

/* Who fills an object to the brim does not keep the platform from writing that it is to go. */
static void an_object_as_large_as_may_be_can_still_be_deleted(void **state)
{
	struct rf_json *o = NULL;
	struct rf_err err = RF_ERR_INIT;
	size_t n = RF_OBJECT_MAX - 4000, size = 0;
	char *text = rf_alloc(RF_OBJECT_MAX);

	memset(text, 'x', RF_OBJECT_MAX);
	/* As large as it gets, to the byte. */
	for (int i = 0; i < 2; i++) {
		o = rf_json_make(&w.a, "{'metadata':{'name':'full','finalizers':['x.io/stay']},'spec':{'containers':[{'name':'c','image':'x','args':[%S]}]}}",
				 rf_str_n(text, n));
		world_create(&w, PODS, o);
		size = rf_json_text_of(&w.a, world_get(&w, PODS "/full")).n;
		if (i == 1)
			break;
		n += RF_OBJECT_MAX - size - 16; /* the version may have a digit more */
		assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(PODS "/full"), RF_PATCH_MERGE,
					rf_json_make(&w.a, "{'metadata':{'finalizers':%j}}", rf_json_null(&w.a)), NULL, &err), err);
		assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(PODS "/full"), -1, false, &err), err);
	}
	free(text);
	assert_in_range(size, RF_OBJECT_MAX - 64, RF_OBJECT_MAX);
	expect(rf_kube_patch(w.admin, &w.a, RF_LIT(PODS "/full"), RF_PATCH_MERGE,
			     rf_json_make(&w.a, "{'metadata':{'labels':{'one':'more-thing-that-is-too-much-for-it-as-everything-else-would-be'}}}"), NULL, &err),
	       &err, RF_TOO_LARGE, "an object may have 1572864 at most");
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(PODS "/full"), -1, false, &err), err);
	assert_true(rf_kube_deleting(world_get(&w, PODS "/full")));
	assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(PODS "/full"), RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'metadata':{'finalizers':%j}}", rf_json_null(&w.a)), NULL, &err), err);
}

static void the_default_account_comes_back(void **state)
{
	const char *p = "/api/v1/namespaces/default/serviceaccounts/default";
	struct rf_json *before = world_get(&w, p);
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(p), -1, false, &err), err);
	assert_false(rf_str_eq(rf_kube_uid(before), rf_kube_uid(world_get(&w, p))));
}

/* --- who ------------------------------------------------------------------------------------ */

static void a_token_lives_as_long_as_its_account(void **state)
{
	const char *sa = "/api/v1/namespaces/default/serviceaccounts";
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *t, *o;
	struct rf_kube *k;

	world_create(&w, sa, rf_json_make(&w.a, "{'metadata':{'name':'bot'}}"));
	t = world_create(&w, path(sa, "bot/token"),
			 rf_json_make(&w.a, "{'spec':{'expirationSeconds':600}}"));
	k = world_with_token(&w, rf_json_str_at(t, "status", "token"));
	assert_ok(rf_kube_create(k, &w.a,
				 RF_LIT("/apis/authentication.k8s.io/v1/selfsubjectreviews"),
				 rf_json_make(&w.a, "{}"), &o, &err),
		  err);
	assert_true(rf_str_is(rf_json_str_at(o, "status", "userInfo", "username"),
			      "system:serviceaccount:default:bot"));
	expect(rf_kube_get(k, &w.a, RF_LIT(PODS), &o, &err), &err, RF_FORBIDDEN,
	       "cannot list resource");
	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(path(sa, "bot")), -1, false, &err), err);
	expect(rf_kube_get(k, &w.a, RF_LIT(PODS), &o, &err), &err, RF_UNAUTHENTICATED, NULL);
	world_create(&w, sa, rf_json_make(&w.a, "{'metadata':{'name':'bot'}}"));
	expect(rf_kube_get(k, &w.a, RF_LIT(PODS), &o, &err), &err, RF_UNAUTHENTICATED, NULL);
	rf_kube_free(k);
}

static void nobody_in_particular_sees_health_only(void **state)
{
	struct rf_kube *k = world_with_token(&w, RF_STR_EMPTY);
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text;
	struct rf_json *o;

	assert_ok(rf_kube_raw(k, &w.a, RF_LIT("/readyz"), &text, &err), err);
	assert_true(rf_str_is(text, "ok"));
	expect(rf_kube_get(k, &w.a, RF_LIT("/api"), &o, &err), &err, RF_UNAUTHENTICATED, NULL);
	expect(rf_kube_get(k, &w.a, RF_LIT(PODS), &o, &err), &err, RF_UNAUTHENTICATED, NULL);
	rf_kube_free(k);
}

static void what_was_acknowledged_survives_a_kill(void **state)
{
	struct rf_json *before, *after, *events;

	world_create(&w, CONFIGMAPS, configmap("kept", "1"));
	before = world_get(&w, path(CONFIGMAPS, "kept"));
	world_restart(&w, SIGKILL, NULL);
	after = world_get(&w, path(CONFIGMAPS, "kept"));
	assert_true(rf_json_equal(before, after));
	events = world_watch(&w,
			     rf_arena_printf(&w.a, CONFIGMAPS "?watch=1&resourceVersion=%lld",
					     (long long)rf_kube_rv(before) - 1)
				     .p,
			     1);
	assert_string_equal(event(events, 0), "ADDED kept");
}

static void forget_history(const char *db)
{
	static const struct rf_keep LAST = { .ms = 0, .rows = 1, .bytes = 1 << 20 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_store *s = NULL;

	assert_ok(rf_store_open(db, rf_clock_system(), &s, &err), err);
	while (rf_store_trim(s, &LAST, &err) > 0)
		;
	rf_store_free(s);
}

static void a_watch_from_before_history_is_told_410(void **state)
{
	struct rf_json *events, *o = world_create(&w, CONFIGMAPS, configmap("old", "1"));

	for (int i = 0; i < 3; i++)
		world_create(&w, CONFIGMAPS,
			     rf_json_make(&w.a, "{'metadata':{'generateName':'newer-'}}"));
	world_restart(&w, SIGTERM, forget_history);
	events = world_watch(&w,
			     rf_arena_printf(&w.a, CONFIGMAPS "?watch=1&resourceVersion=%lld",
					     (long long)rf_kube_rv(o))
				     .p,
			     1);
	assert_int_equal(rf_json_len(events), 1);
	o = rf_json_item(events, 0);
	assert_true(rf_str_is(rf_json_str_at(o, "type"), "ERROR"));
	assert_int_equal(rf_json_int(rf_json_at(o, "object", "code"), 0), 410);
	assert_true(rf_str_is(rf_json_str_at(o, "object", "reason"), "Expired"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_created_object_has_identity_and_defaults),
		cmocka_unit_test(a_second_object_of_the_same_name_is_refused),
		cmocka_unit_test(generate_name_draws_a_free_name),
		cmocka_unit_test(an_update_from_an_old_version_conflicts),
		cmocka_unit_test(an_update_that_changes_nothing_writes_nothing),
		cmocka_unit_test(names_labels_and_fields_are_checked),
		cmocka_unit_test(status_and_spec_are_written_apart),
		cmocka_unit_test(a_finalizer_holds_an_object_until_it_goes),
		cmocka_unit_test(lists_come_in_pages),
		cmocka_unit_test(a_watch_tells_all_that_happened_since),
		cmocka_unit_test(a_selector_turns_changes_into_coming_and_going),
		cmocka_unit_test(send_initial_events_ends_with_a_bookmark),
		cmocka_unit_test(a_watch_ends_when_its_time_is_over),
		cmocka_unit_test(a_pod_is_bound_once),
		cmocka_unit_test(a_running_pod_ends_when_its_node_says_so),
		cmocka_unit_test(no_device_is_given_twice),
		cmocka_unit_test(a_claim_stays_while_its_pod_may_run),
		cmocka_unit_test(a_namespace_goes_after_its_pods),
		cmocka_unit_test(what_a_tenant_holds_back_does_not_hold_its_namespace),
		cmocka_unit_test(a_namespace_does_not_tell_what_an_earlier_one_held),
		cmocka_unit_test(lists_are_of_a_length_that_can_be_checked),
		cmocka_unit_test(an_object_as_large_as_may_be_can_still_be_deleted),
		cmocka_unit_test(the_default_account_comes_back),
		cmocka_unit_test(a_token_lives_as_long_as_its_account),
		cmocka_unit_test(nobody_in_particular_sees_health_only),
		cmocka_unit_test(what_was_acknowledged_survives_a_kill),
		cmocka_unit_test(a_watch_from_before_history_is_told_410),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
