#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "control/private.h"

#define NOW INT64_C(1794717115000) /* 2026-11-15T04:31:55Z */

/* --- a cluster that is a list of objects ------------------------------------------------- */

struct bench {
	struct rf_arena a;
	struct rf_json *objects;
	const char *pods_in; /* a namespace that has pods, or NULL */
};

static bool is_kind(const struct rf_json *o, const struct rf_kube_res *res)
{
	return rf_str_is(rf_json_str_at(o, "kind"), res->kind);
}

static const struct rf_json *get(void *ctx, const struct rf_kube_res *res, struct rf_str ns,
				 struct rf_str name)
{
	struct bench *b = ctx;

	for (size_t i = 0; i < rf_json_len(b->objects); i++) {
		const struct rf_json *o = rf_json_item(b->objects, i);

		if (is_kind(o, res) && rf_str_eq(rf_kube_namespace(o), ns) &&
		    rf_str_eq(rf_kube_name(o), name))
			return o;
	}
	return NULL;
}

static const struct rf_json *next(void *ctx, const struct rf_kube_res *res, const void **cursor)
{
	struct bench *b = ctx;
	bool found = *cursor == NULL;

	for (size_t i = 0; i < rf_json_len(b->objects); i++) {
		const struct rf_json *o = rf_json_item(b->objects, i);

		if (found && is_kind(o, res))
			return *cursor = o;
		found |= o == *cursor;
	}
	return NULL;
}

static bool has_pods(void *ctx, struct rf_str ns)
{
	struct bench *b = ctx;

	return b->pods_in != NULL && rf_str_is(ns, b->pods_in);
}

static int set_up(void **state)
{
	struct bench *b = rf_new(struct bench);

	b->objects = rf_json_array(&b->a);
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	rf_arena_done(&b->a);
	free(b);
	return 0;
}

static struct rf_tenant_plan plan(struct bench *b, const struct rf_json *tenant)
{
	struct rf_cluster c = { get, next, has_pods, b };
	struct rf_tenant_plan p = { 0 };

	rf_tenant_plan(&b->a, &c, tenant, &p);
	return p;
}

static struct rf_json *tenant(struct bench *b, const char *spec)
{
	return rf_json_make(&b->a,
			    "{'kind':'Tenant','metadata':{'name':'team-a','resourceVersion':'5',"
			    "'finalizers':['ringfence.io/tenant']},'spec':%j}",
			    rf_json_make(&b->a, spec));
}

static const char *words(struct bench *b, const struct rf_tenant_plan *p)
{
	static const char *const verbs[] = { "create", "patch", "replace", "delete" };
	rf_auto(buf) out = RF_BUF_INIT;

	for (size_t i = 0; i < p->actions.n; i++)
		rf_buf_printf(&out, "%s%s %s %.*s/%.*s", i > 0 ? ", " : "",
			      verbs[p->actions.at[i].act], p->actions.at[i].res->plural,
			      RF_STR(p->actions.at[i].ns), RF_STR(p->actions.at[i].name));
	return rf_arena_cstr(&b->a, rf_buf_str(&out));
}

static void expect(struct bench *b, const struct rf_json *t, const char *actions,
		   const char *reason)
{
	struct rf_tenant_plan p = plan(b, t);

	assert_string_equal(words(b, &p), actions);
	assert_string_equal(p.reason, reason);
	rf_tenant_plan_done(&p);
}

/* Makes what a plan creates. */
static void settle(struct bench *b, const struct rf_json *t)
{
	struct rf_tenant_plan p = plan(b, t);

	for (size_t i = 0; i < p.actions.n; i++) {
		if (p.actions.at[i].act == RF_ACT_CREATE)
			rf_json_push(&b->a, b->objects, rf_json_clone(&b->a, p.actions.at[i].body));
	}
	rf_tenant_plan_done(&p);
}

static struct rf_json *thing(struct bench *b, const struct rf_kube_res *res, const char *ns,
			     const char *name)
{
	return (struct rf_json *)get(b, res, rf_str(ns), rf_str(name));
}

/* --- tenants ---------------------------------------------------------------------------------- */

static void a_new_tenant_gets_everything_quota_before_people(void **state)
{
	struct bench *b = *state;
	struct rf_json *t =
		rf_json_make(&b->a, "{'metadata':{'name':'team-a','resourceVersion':'1'}}");

	expect(b, t,
	       "patch tenants /team-a, create queues /team-a, create namespaces /team-a, create "
	       "resourcequotas team-a/ringfence, create serviceaccounts team-a/ringfence-owner, "
	       "create "
	       "rolebindings team-a/ringfence-owner, create clusterroles /ringfence:queue:team-a, create "
	       "clusterrolebindings /ringfence:queue:team-a",
	       "Reconciled");
}

static void what_is_right_is_left_alone(void **state)
{
	struct bench *b = *state;
	struct rf_json *t = tenant(b, "{'quota':{'gpus':2,'gpuMemory':'1Gi'}}");

	settle(b, t);
	expect(b, t, "", "Reconciled");
	/* What others add, and another spelling of the same amount, is no drift. */
	rf_json_set_str(&b->a,
			rf_json_at(thing(b, &RF_NAMESPACES, "", "team-a"), "metadata", "labels"),
			"kubernetes.io/metadata.name", RF_LIT("team-a"));
	rf_json_set_str(
		&b->a,
		rf_json_at(thing(b, &RF_RESOURCEQUOTAS, "team-a", "ringfence"), "spec", "hard"),
		"requests.ringfence.io/gpu-memory", RF_LIT("1024Mi"));
	rf_json_set(&b->a, thing(b, &RF_RESOURCEQUOTAS, "team-a", "ringfence"), RF_LIT("status"),
		    rf_json_object(&b->a));
	expect(b, t, "", "Reconciled");
}

static void drift_is_repaired(void **state)
{
	struct bench *b = *state;
	struct rf_json *t = tenant(b, "{'quota':{'gpus':2}}");
	struct rf_tenant_plan p;

	settle(b, t);
	rf_json_set_str(&b->a,
			rf_json_at(thing(b, &RF_NAMESPACES, "", "team-a"), "metadata", "labels"),
			"pod-security.kubernetes.io/enforce", RF_LIT("privileged"));
	rf_json_set_str(
		&b->a,
		rf_json_at(thing(b, &RF_RESOURCEQUOTAS, "team-a", "ringfence"), "spec", "hard"),
		"requests.ringfence.io/gpu", RF_LIT("99"));
	rf_json_set_str(
		&b->a,
		rf_json_at(thing(b, &RF_RESOURCEQUOTAS, "team-a", "ringfence"), "spec", "hard"),
		"pods", RF_LIT("1"));
	rf_json_del(thing(b, &RF_ROLEBINDINGS, "team-a", "ringfence-owner"), RF_LIT("subjects"));
	p = plan(b, t);
	assert_string_equal(words(b, &p),
			    "patch namespaces /team-a, patch resourcequotas team-a/ringfence, "
			    "patch rolebindings team-a/ringfence-owner");
	assert_true(rf_json_equal(p.actions.at[0].body,
				  rf_json_make(&b->a,
					       "{'metadata':{'labels':{'pod-security.kubernetes.io/"
					       "enforce':'restricted'}}}")));
	assert_true(rf_json_equal(p.actions.at[1].body,
				  rf_json_make(&b->a,
					       "{'spec':{'hard':{'requests.ringfence.io/gpu':'2',"
					       "'pods':null}}}")));
	rf_tenant_plan_done(&p);
}

/* What kube-apiserver 1.36 returns for what was written: with its own fields, defaults and way to
 * spell amounts. A tenant must come to rest there too. */
static void objects_as_kubernetes_returns_them_are_left_alone(void **state)
{
	struct bench *b = *state;
	struct rf_json *t = tenant(b, "{'owners':[{'kind':'User','name':'alice'},{'kind':"
				      "'ServiceAccount','name':'ci','namespace':'build'}],'quota':"
				      "{'gpus':1000,'gpuMemory':'80Gi','pods':20000}}");
	const char *meta = "'uid':'0f8fad5b-d9cb-469f-a165-70867728950e','resourceVersion':'77',"
			   "'creationTimestamp':'2026-11-15T00:00:00Z','managedFields':[{'manager':"
			   "'ringfence','operation':'Update','apiVersion':'v1','fieldsType':"
			   "'FieldsV1','fieldsV1':{}}]";
	const char *rows[] = {
		"{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'team-a',%s,'labels':"
		"{'app.kubernetes.io/managed-by':'ringfence','kubernetes.io/"
		"metadata.name':'team-a',"
		"'pod-security.kubernetes.io/enforce':'restricted',"
		"'pod-security.kubernetes.io/enforce-version':'latest','ringfence.io/tenant':"
		"'team-a'}},'spec':{'finalizers':['kubernetes']},'status':{'phase':'Active'}}",
		"{'apiVersion':'v1','kind':'ResourceQuota','metadata':{'name':'ringfence',"
		"'namespace':'team-a',%s,'labels':{'app.kubernetes.io/managed-by':'ringfence',"
		"'ringfence.io/tenant':'team-a'}},'spec':{'hard':{'pods':'20k',"
		"'requests.nvidia.com/gpu':'1k','requests.ringfence.io/gpu':'1k',"
		"'requests.ringfence.io/"
		"gpu-memory':'80Gi'}},'status':{'hard':{'pods':'20k'},'used':"
		"{'pods':'0'}}}",
		"{'apiVersion':'v1','kind':'ServiceAccount','metadata':{'name':'ringfence-owner',"
		"'namespace':'team-a',%s,'labels':{'app.kubernetes.io/managed-by':'ringfence',"
		"'ringfence.io/tenant':'team-a'}},'secrets':[{'name':'ringfence-owner-token'}],"
		"'imagePullSecrets':[{'name':'registry'}]}",
		"{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'RoleBinding','metadata':"
		"{'name':'ringfence-owner','namespace':'team-a',%s,'labels':"
		"{'app.kubernetes.io/managed-by':'ringfence','ringfence.io/tenant':'team-a'}},"
		"'subjects':[{'kind':'User','apiGroup':'rbac.authorization.k8s.io','name':'alice'},"
		"{'kind':'ServiceAccount','name':'ci','namespace':'build'},{'kind':'ServiceAccount'"
		","
		"'name':'ringfence-owner','namespace':'team-a'}],'roleRef':{'apiGroup':"
		"'rbac.authorization.k8s.io','kind':'ClusterRole','name':'ringfence-tenant-owner'}"
		"}",
		"{'apiVersion':'ringfence.io/v1alpha1','kind':'Queue','metadata':{'name':'team-a',"
		"%s,'generation':1,'labels':{'app.kubernetes.io/managed-by':'ringfence',"
		"'ringfence.io/tenant':'team-a'}},'spec':{'tenant':'team-a','weight':1,'resources':["
		"{'name':'cards','limit':1000},{'name':'share-bytes','limit':85899345920}]},"
		"'status':{'pending':0,'running':0}}",
		"{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRole','metadata':{'name':"
		"'ringfence:queue:team-a',%s,'labels':{'app.kubernetes.io/managed-by':'ringfence',"
		"'ringfence.io/tenant':'team-a'}},'rules':[{'verbs':['get'],'apiGroups':['ringfence.io'],"
		"'resources':['queues'],'resourceNames':['team-a']}]}",
		"{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRoleBinding','metadata':{'name':"
		"'ringfence:queue:team-a',%s,'labels':{'app.kubernetes.io/managed-by':'ringfence',"
		"'ringfence.io/tenant':'team-a'}},'subjects':[{'kind':'User','apiGroup':"
		"'rbac.authorization.k8s.io','name':'alice'},{'kind':'ServiceAccount','name':'ci','namespace':"
		"'build'},{'kind':'ServiceAccount','name':'ringfence-owner','namespace':'team-a'}],'roleRef':"
		"{'apiGroup':'rbac.authorization.k8s.io','kind':'ClusterRole','name':'ringfence:queue:team-a'}}",
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_str row = rf_str(rows[i]), head = RF_STR_EMPTY;

		rf_str_cut(&row, '%', &head);
		rf_json_push(&b->a, b->objects,
			     rf_json_make(&b->a, rf_arena_printf(&b->a, "%.*s%s%.*s", RF_STR(head),
								 meta, RF_STR(rf_str_skip(row, 1)))
							 .p));
	}
	expect(b, t, "", "Reconciled");
	rf_json_set_str(
		&b->a,
		rf_json_at(thing(b, &RF_RESOURCEQUOTAS, "team-a", "ringfence"), "spec", "hard"),
		"requests.nvidia.com/gpu", RF_LIT("1001"));
	expect(b, t, "patch resourcequotas team-a/ringfence", "Reconciled");
}

static void a_binding_to_another_role_is_replaced(void **state)
{
	struct bench *b = *state;
	struct rf_json *t = tenant(b, "{}");

	settle(b, t);
	rf_json_set_str(
		&b->a,
		rf_json_at(thing(b, &RF_ROLEBINDINGS, "team-a", "ringfence-owner"), "roleRef"),
		"name", RF_LIT("cluster-admin"));
	expect(b, t, "replace rolebindings team-a/ringfence-owner", "Reconciled");
}

static void a_namespace_of_another_tenant_is_not_taken(void **state)
{
	struct bench *b = *state;
	struct rf_json *t = tenant(b, "{'namespaces':['x','y']}");

	rf_json_push(&b->a, b->objects,
		     rf_json_make(&b->a, "{'kind':'Namespace','metadata':{'name':'y','labels':"
					 "{'ringfence.io/tenant':'team-b'}}}"));
	expect(b, t, "", "NamespaceTaken");
}

static void a_namespace_in_use_is_not_taken_but_an_empty_one_is(void **state)
{
	struct bench *b = *state;
	struct rf_json *t = tenant(b, "{}");

	rf_json_push(&b->a, b->objects,
		     rf_json_make(&b->a, "{'kind':'Namespace','metadata':{'name':'team-a'}}"));
	b->pods_in = "team-a";
	expect(b, t, "", "NamespaceInUse");
	b->pods_in = NULL;
	expect(b, t,
	       "create queues /team-a, patch namespaces /team-a, create resourcequotas "
	       "team-a/ringfence, create serviceaccounts team-a/ringfence-owner, create "
	       "rolebindings "
	       "team-a/ringfence-owner, create clusterroles /ringfence:queue:team-a, create "
	       "clusterrolebindings /ringfence:queue:team-a",
	       "Reconciled");
}

static void a_namespace_on_its_way_out_is_waited_for(void **state)
{
	struct bench *b = *state;

	rf_json_push(&b->a, b->objects,
		     rf_json_make(&b->a, "{'kind':'Namespace','metadata':{'name':'team-a',"
					 "'deletionTimestamp':'2026-11-15T00:00:00Z'}}"));
	expect(b, tenant(b, "{}"), "", "NamespaceTerminating");
}

static void an_invalid_tenant_changes_nothing_and_says_why(void **state)
{
	struct bench *b = *state;

	expect(b, tenant(b, "{'namespaces':['kube-system']}"), "", "Invalid");
	expect(b, tenant(b, "{'isolation':'maybe'}"), "", "Invalid");
}

static void a_tenant_that_shrinks_loses_the_namespace(void **state)
{
	struct bench *b = *state;

	settle(b, tenant(b, "{'namespaces':['x','y']}"));
	expect(b, tenant(b, "{'namespaces':['x']}"),
	       "patch rolebindings x/ringfence-owner, patch clusterrolebindings /ringfence:queue:team-a, "
	       "delete namespaces /y",
	       "Reconciled");
}

static void its_people_see_all_its_queues_and_no_others(void **state)
{
	struct bench *b = *state;

	settle(b, tenant(b, "{}"));
	rf_json_push(&b->a, b->objects,
		     rf_json_make(&b->a, "{'kind':'Queue','metadata':{'name':'night'},'spec':{'tenant':'team-a'}}"));
	rf_json_push(&b->a, b->objects,
		     rf_json_make(&b->a, "{'kind':'Queue','metadata':{'name':'theirs'},'spec':{'tenant':'team-b'}}"));
	expect(b, tenant(b, "{}"),
	       "create clusterroles /ringfence:queue:night, create clusterrolebindings /ringfence:queue:night", "Reconciled");
	settle(b, tenant(b, "{}"));
	rf_json_set_str(&b->a, rf_json_at(thing(b, &RF_QUEUES, "", "night"), "spec"), "tenant", RF_LIT("team-b"));
	expect(b, tenant(b, "{}"),
	       "delete clusterrolebindings /ringfence:queue:night, delete clusterroles /ringfence:queue:night", "Reconciled");
}

static void a_deleted_tenant_goes_after_its_namespaces(void **state)
{
	struct bench *b = *state;
	struct rf_json *t = tenant(b, "{'namespaces':['x']}");

	settle(b, t);
	rf_json_set_str(&b->a, rf_json_at(t, "metadata"), "deletionTimestamp",
			RF_LIT("2026-11-15T00:00:00Z"));
	/* Whatever an administrator labelled with the tenant's name stays his. */
	rf_json_push(&b->a, b->objects,
		     rf_json_make(&b->a, "{'kind':'ClusterRole','metadata':{'name':'auditor','labels':"
					 "{'ringfence.io/tenant':'team-a'}}}"));
	expect(b, t,
	       "delete namespaces /x, delete queues /team-a, delete clusterrolebindings "
	       "/ringfence:queue:team-a, delete clusterroles /ringfence:queue:team-a",
	       "Deleting");
	rf_json_set_str(&b->a, rf_json_at(thing(b, &RF_NAMESPACES, "", "x"), "metadata"),
			"deletionTimestamp", RF_LIT("2026-11-15T00:00:00Z"));
	rf_json_remove(b->objects, 0); /* the queue */
	expect(b, t,
	       "delete clusterrolebindings /ringfence:queue:team-a, delete clusterroles "
	       "/ringfence:queue:team-a",
	       "Deleting");
	b->objects = rf_json_array(&b->a);
	expect(b, t, "patch tenants /team-a", "Deleting");
}

static void a_status_is_written_once_and_keeps_its_time(void **state)
{
	struct bench *b = *state;
	struct rf_json *t = tenant(b, "{}"), *patch = NULL;
	struct rf_tenant_plan p = plan(b, t);

	patch = rf_tenant_status(&b->a, t, &p, NOW);
	assert_true(rf_str_is(rf_json_str_at(patch, "status", "phase"), "Ready"));
	assert_int_equal(rf_patch_merge(&b->a, &t, patch, NULL), 0);
	assert_null(rf_tenant_status(&b->a, t, &p, NOW + 60000));
	p.message = RF_LIT("something else");
	patch = rf_tenant_status(&b->a, t, &p, NOW + 60000);
	assert_true(
		rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(patch, "status", "conditions"), 0),
					 "lastTransitionTime"),
			  "2026-11-15T04:31:55Z"));
	rf_tenant_plan_done(&p);
}

/* --- claims ----------------------------------------------------------------------------------- */

static struct rf_json *gpu_pod(struct bench *b)
{
	return rf_json_make(
		&b->a, "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'train','namespace':"
		       "'team-a','uid':'0f8fad5b-d9cb'},'spec':{'containers':[{'name':'big',"
		       "'resources':{'limits':{'ringfence.io/gpu':2}}},{'name':'small',"
		       "'resources':{'limits':{'ringfence.io/gpu-memory':'1Gi',"
		       "'ringfence.io/gpu-compute':25}}}]}}");
}

static struct rf_sched_grant three[] = {
	{ { "big", 3 }, { "gpu-0", 5 }, INT64_C(80) << 30, 1000 },
	{ { "big", 3 }, { "gpu-1", 5 }, INT64_C(80) << 30, 1000 },
	{ { "small", 5 }, { "gpu-2", 5 }, INT64_C(1) << 30, 250 },
};

static struct rf_core_decision decision(void)
{
	return (struct rf_core_decision){ .verdict = RF_CORE_BIND,
					   .uid = RF_LIT("0f8fad5b-d9cb"),
					   .ns = RF_LIT("team-a"),
					   .name = RF_LIT("train"),
					   .tenant = RF_LIT("team-a"),
					   .node = RF_LIT("n1"),
					   .grants = three,
					   .n_grants = 3 };
}

/* A UUID of version 4 each, in lower case, and no two alike: Kubernetes refuses others. */
static void check_share_ids(const struct rf_json *results)
{
	for (size_t i = 0; i < rf_json_len(results); i++) {
		struct rf_str id = rf_json_str_at(rf_json_item(results, i), "shareID");

		assert_int_equal(id.n, 36);
		for (size_t k = 0; k < 36; k++)
			assert_true(k == 8 || k == 13 || k == 18 || k == 23
					    ? id.p[k] == '-'
					    : strchr("0123456789abcdef", id.p[k]) != NULL);
		assert_int_equal(id.p[14], '4');
		for (size_t k = 0; k < i; k++)
			assert_false(
				rf_str_eq(id, rf_json_str_at(rf_json_item(results, k), "shareID")));
	}
}

static void a_claim_says_what_was_asked_and_what_was_granted(void **state)
{
	struct bench *b = *state;
	struct rf_core_decision d = decision();
	struct rf_json *pod = gpu_pod(b), *claim = rf_claim_object(&b->a, pod, &d), *full = NULL;
	struct rf_sched_claim read = { 0 };

	assert_true(rf_str_is(rf_kube_name(claim), "train-0f8fad5b"));
	assert_true(rf_claim_is_ours(claim));
	assert_true(rf_json_equal(
		rf_json_at(claim, "spec", "devices", "requests"),
		rf_json_make(
			&b->a,
			"[{'name':'big','exactly':{'deviceClassName':'gpu.ringfence.io',"
			"'allocationMode':'ExactCount','count':2}},{'name':'small','exactly':"
			"{'deviceClassName':'gpu.ringfence.io','allocationMode':'ExactCount',"
			"'count':1,'capacity':{'requests':{'memory':'1Gi','compute':'250'}}}}]")));
	full = rf_claim_allocated(&b->a, claim, pod, &d, NOW);
	assert_null(rf_json_at(claim, "status"));
	check_share_ids(rf_json_at(full, "status", "allocation", "devices", "results"));
	assert_true(rf_str_is(
		rf_json_str_at(rf_json_item(rf_json_at(full, "status", "reservedFor"), 0), "uid"),
		"0f8fad5b-d9cb"));
	/* What the scheduler reads back is what it decided. */
	rf_sched_read_claim(&b->a, full, &read);
	assert_true(rf_str_is(read.node, "n1"));
	assert_int_equal(read.n_grants, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_true(rf_str_eq(read.grants[i].device, three[i].device));
		assert_true(rf_str_eq(read.grants[i].container, three[i].container));
		assert_int_equal(read.grants[i].bytes, three[i].bytes);
		assert_int_equal(read.grants[i].milli, three[i].milli);
		assert_int_equal(read.grants[i].whole, i < 2);
	}
}

/* What is written of a slice is what the scheduler reads of it. */
static void slices_say_where_they_are(void **state)
{
	struct bench *b = *state;
	struct rf_sched_grant two[] = {
		{ .container = RF_LIT("m"), .device = RF_LIT("gpu-0"), .bytes = INT64_C(10) << 30, .milli = 142,
		  .profile = RF_LIT("1g.10gb"), .start = 3 },
		{ .container = RF_LIT("m"), .device = RF_LIT("gpu-1"), .bytes = INT64_C(10) << 30, .milli = 142,
		  .profile = RF_LIT("1g.10gb"), .start = 6 },
	};
	struct rf_core_decision d = decision();
	struct rf_json *pod = rf_json_make(&b->a, "{'metadata':{'name':'train','namespace':'team-a','uid':'0f8fad5b-d9cb'},"
						  "'spec':{'containers':[{'name':'m','resources':{'limits':"
						  "{'ringfence.io/mig-1g.10gb':2}}}]}}");
	struct rf_json *claim = NULL, *patch = NULL;
	struct rf_sched_claim read = { 0 };

	d.grants = two;
	d.n_grants = 2;
	claim = rf_claim_allocated(&b->a, rf_claim_object(&b->a, pod, &d), pod, &d, NOW);
	rf_sched_read_claim(&b->a, claim, &read);
	assert_int_equal(read.n_grants, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_true(rf_str_is(read.grants[i].profile, "1g.10gb"));
		assert_int_equal(read.grants[i].start, two[i].start);
		assert_true(rf_str_eq(read.grants[i].device, two[i].device));
		assert_false(read.grants[i].whole);
	}
	patch = rf_pod_claim_patch(&b->a, pod, RF_LIT("x"), &d);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(patch, "status", "extendedResourceClaimStatus",
								     "requestMappings"),
							  0),
					     "resourceName"),
			      "ringfence.io/mig-1g.10gb"));
	/* By NVIDIA's name too: no device plugin of ours serves it. */
	rf_json_set(&b->a, rf_json_at(rf_json_item(rf_json_at(pod, "spec", "containers"), 0), "resources"), RF_LIT("limits"),
		    rf_json_make(&b->a, "{'ringfence.io/mig-2g.20gb':'0','nvidia.com/mig-1g.10gb':2}"));
	patch = rf_pod_claim_patch(&b->a, pod, RF_LIT("x"), &d);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(patch, "status", "extendedResourceClaimStatus",
								     "requestMappings"),
							  0),
					     "resourceName"),
			      "nvidia.com/mig-1g.10gb"));
}

static void an_eviction_is_of_this_very_pod(void **state)
{
	struct bench *b = *state;
	struct rf_json *pod = gpu_pod(b);

	assert_true(rf_str_is(rf_json_str_at(rf_pod_eviction(&b->a, pod), "deleteOptions", "preconditions", "uid"),
			      "0f8fad5b-d9cb"));
	assert_int_equal(rf_patch_strategic(&b->a, RF_LIT("Pod"), &pod,
					    rf_pod_evicted_patch(&b->a, pod, "Reclaimed", RF_LIT("for blue"), NOW), NULL),
			 0);
	assert_true(rf_json_equal(rf_json_at(pod, "status", "conditions"),
				  rf_json_make(&b->a, "[{'type':'DisruptionTarget','status':'True','reason':'Reclaimed',"
						      "'message':'for blue','lastTransitionTime':"
						      "'2026-11-15T04:31:55Z'}]")));
}

static void a_pod_is_told_its_claim_and_its_node(void **state)
{
	struct bench *b = *state;
	struct rf_core_decision d = decision();
	struct rf_json *pod = gpu_pod(b),
		       *o = rf_pod_claim_patch(&b->a, pod, RF_LIT("train-0f8fad5b"), &d);

	assert_true(rf_json_equal(
		rf_json_at(o, "status", "extendedResourceClaimStatus"),
		rf_json_make(
			&b->a,
			"{'resourceClaimName':'train-0f8fad5b','requestMappings':[{'containerName':"
			"'big','requestName':'big','resourceName':'ringfence.io/gpu'},"
			"{'containerName':'small','requestName':'small','resourceName':"
			"'ringfence.io/gpu-memory'}]}")));
	o = rf_pod_binding(&b->a, pod, d.node);
	assert_true(rf_str_is(rf_json_str_at(o, "target", "name"), "n1"));
	assert_true(rf_str_is(rf_json_str_at(o, "metadata", "uid"), "0f8fad5b-d9cb"));
}

/* The device plugin of that name serves it; the kubelet must not look for it in the claim. */
static void what_was_asked_for_by_another_name_is_not_mapped(void **state)
{
	struct bench *b = *state;
	struct rf_core_decision d = decision();
	struct rf_json *pod = gpu_pod(b), *o = NULL, *big = NULL;

	big = rf_json_at(rf_json_item(rf_json_at(pod, "spec", "containers"), 0), "resources");
	rf_json_set(&b->a, big, RF_LIT("limits"), rf_json_make(&b->a, "{'nvidia.com/gpu':'2'}"));
	assert_true(rf_json_equal(
		rf_json_at(rf_claim_object(&b->a, pod, &d), "spec", "devices", "requests"),
		rf_json_at(rf_claim_object(&b->a, gpu_pod(b), &d), "spec", "devices",
			   "requests"))); /* the claim is the same by any name */
	o = rf_pod_claim_patch(&b->a, pod, RF_LIT("train-0f8fad5b"), &d);
	assert_true(rf_json_equal(
		rf_json_at(o, "status", "extendedResourceClaimStatus"),
		rf_json_make(&b->a, "{'resourceClaimName':'train-0f8fad5b','requestMappings':["
				    "{'containerName':'small','requestName':'small','resourceName':"
				    "'ringfence.io/gpu-memory'}]}")));
	d.n_grants = 2; /* both of them the big container's */
	assert_null(rf_pod_claim_patch(&b->a, pod, RF_LIT("train-0f8fad5b"), &d));
}

/* An API server drops fields whose feature gate is off, and says nothing. */
static void what_the_server_did_not_keep_is_noticed(void **state)
{
	struct bench *b = *state;
	struct rf_core_decision d = decision();
	struct rf_json *pod = gpu_pod(b);
	struct rf_json *claim = rf_claim_allocated(&b->a, rf_claim_object(&b->a, pod, &d), pod, &d, 0);
	struct rf_json *results = rf_json_at(claim, "status", "allocation", "devices", "results");
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_claim_kept(claim, pod, &d, &err), 0);
	for (size_t i = 0; i < rf_json_len(results); i++)
		rf_json_del(rf_json_item(results, i), RF_LIT("consumedCapacity"));
	assert_int_equal(rf_claim_kept(claim, pod, &d, &err), -RF_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "DRAConsumableCapacity"));
	d.n_grants = 2; /* whole cards say all there is to say by their names */
	assert_int_equal(rf_claim_kept(claim, pod, &d, &err), 0);
	assert_int_equal(rf_pod_claim_kept(rf_json_make(&b->a, "{'status':{'phase':'Pending'}}"),
					   RF_LIT("train-0f8fad5b"), &err),
			 -RF_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "DRAExtendedResource"));
	assert_int_equal(rf_pod_claim_kept(rf_pod_claim_patch(&b->a, pod, RF_LIT("x"), (d = decision(), &d)),
					   RF_LIT("x"), &err),
			 0);
}

static void only_pods_of_our_scheduler_are_placed(void **state)
{
	static const struct {
		const char *pod;
		bool alone, beside; /* without a name of our own, and as "ringfence" */
	} rows[] = {
		{ "{'spec':{}}", true, false },
		{ "{'spec':{'schedulerName':'default-scheduler'}}", true, false },
		{ "{'spec':{'schedulerName':'ringfence'}}", true, true },
		{ "{'spec':{'schedulerName':'ringfence2'}}", false, false },
		{ "{'spec':{'schedulerName':'volcano'}}", false, false },
	};
	struct bench *b = *state;

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		const struct rf_json *pod = rf_json_make(&b->a, rows[i].pod);

		assert_int_equal(rf_pod_is_for_us(pod, NULL), rows[i].alone);
		assert_int_equal(rf_pod_is_for_us(pod, "ringfence"), rows[i].beside);
	}
}

static void a_reason_to_wait_is_written_only_when_it_changes(void **state)
{
	struct bench *b = *state;
	struct rf_json *pod = gpu_pod(b),
		       *patch = rf_pod_waits_patch(&b->a, pod, RF_LIT("no card"), NOW);

	assert_int_equal(rf_patch_strategic(&b->a, RF_LIT("Pod"), &pod, patch, NULL), 0);
	assert_null(rf_pod_waits_patch(&b->a, pod, RF_LIT("no card"), NOW + 1000));
	assert_non_null(rf_pod_waits_patch(&b->a, pod, RF_LIT("no node"), NOW + 1000));
}

static void a_claim_outlives_its_pod_only_until_it_is_collected(void **state)
{
	struct bench *b = *state;
	struct rf_core_decision d = decision();
	struct rf_json *pod = gpu_pod(b), *claim = rf_claim_object(&b->a, pod, &d);

	assert_false(rf_claim_orphaned(claim, pod));
	assert_true(rf_claim_orphaned(claim, NULL));
	rf_json_set_str(&b->a, rf_json_ensure(&b->a, pod, "status"), "phase", RF_LIT("Succeeded"));
	assert_true(rf_claim_orphaned(claim, pod));
	pod = gpu_pod(b);
	rf_json_set_str(&b->a, rf_json_at(pod, "metadata"), "uid", RF_LIT("another"));
	assert_true(rf_claim_orphaned(claim, pod));
	assert_false(
		rf_claim_is_ours(rf_json_make(&b->a, "{'metadata':{'name':'somebody-elses'}}")));
}

/* --- the lease -------------------------------------------------------------------------------- */

static void a_lease_is_taken_when_free_expired_or_its_holder_dead(void **state)
{
	struct bench *b = *state;
	struct rf_json *held = rf_json_make(&b->a, "{'spec':{'holderIdentity':'other',"
						   "'leaseDurationSeconds':15}}");
	struct rf_json *ages = rf_json_make(&b->a, "{'spec':{'holderIdentity':'other',"
						   "'leaseDurationSeconds':100000}}");

	assert_int_equal(rf_lease_judge(rf_json_make(&b->a, "{}"), RF_LIT("me"), false, 0),
			 RF_LEASE_TAKE);
	assert_int_equal(rf_lease_judge(held, RF_LIT("other"), false, 99999), RF_LEASE_RENEW);
	assert_int_equal(rf_lease_judge(held, RF_LIT("me"), false, 14000), RF_LEASE_WAIT);
	assert_int_equal(rf_lease_judge(held, RF_LIT("me"), false, 15001), RF_LEASE_TAKE);
	assert_int_equal(rf_lease_judge(held, RF_LIT("me"), true, 0), RF_LEASE_TAKE);
	assert_int_equal(rf_lease_judge(ages, RF_LIT("me"), false, 60001), RF_LEASE_TAKE);
}

static void a_dead_holder_of_this_machine_is_recognised(void **state)
{
	char me[160], child[160], elsewhere[160];
	int gate[2];
	pid_t pid;

	rf_lease_identify(me, sizeof(me), getpid());
	assert_false(rf_lease_holder_dead(rf_str(me), rf_str(me)));
	assert_int_equal(pipe(gate), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char c;

		close(gate[1]);
		_exit(read(gate[0], &c, 1) < 0); /* until the parent closes its end */
	}
	rf_lease_identify(child, sizeof(child), pid);
	assert_false(rf_lease_holder_dead(rf_str(me), rf_str(child)));
	close(gate[0]);
	close(gate[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(rf_lease_holder_dead(rf_str(me), rf_str(child)));
	/* The same number on another machine, or in another pod, says nothing. */
	snprintf(elsewhere, sizeof(elsewhere), "x%s", child);
	assert_false(rf_lease_holder_dead(rf_str(me), rf_str(elsewhere)));
	assert_false(rf_lease_holder_dead(rf_str(me), RF_LIT("kube-scheduler_1")));
	/* The container of the same pod, before it was started again; and one of another pod. */
	assert_true(rf_lease_holder_dead(RF_LIT("p-1/b_n2_1_7"), RF_LIT("p-1/b_n1_1_5")));
	assert_false(rf_lease_holder_dead(RF_LIT("p-1/b_n2_1_7"), RF_LIT("p-1/b_n2_1_7")));
	assert_false(rf_lease_holder_dead(RF_LIT("p-1/b_n2_1_7"), RF_LIT("p-2/b_n1_1_5")));
	assert_false(rf_lease_holder_dead(RF_LIT("/b_n2_1_7"), RF_LIT("/b_n1_1_5")));
	assert_false(rf_lease_holder_dead(rf_str(me), RF_STR_EMPTY));
}

static void a_pid_that_was_given_to_somebody_else_is_not_the_holder(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str holder, head;
	char me[160];

	rf_lease_identify(me, sizeof(me), getpid());
	head = rf_str(me);
	while (head.n > 0 && head.p[head.n - 1] != '_')
		head.n--;
	holder = rf_arena_printf(&a, "%.*s1", RF_STR(head)); /* our pid, another start time */
	assert_true(rf_lease_holder_dead(rf_str(me), holder));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_tenant_gets_everything_quota_before_people),
		TEST(what_is_right_is_left_alone),
		TEST(drift_is_repaired),
		TEST(objects_as_kubernetes_returns_them_are_left_alone),
		TEST(a_binding_to_another_role_is_replaced),
		TEST(a_namespace_of_another_tenant_is_not_taken),
		TEST(a_namespace_in_use_is_not_taken_but_an_empty_one_is),
		TEST(a_namespace_on_its_way_out_is_waited_for),
		TEST(an_invalid_tenant_changes_nothing_and_says_why),
		TEST(a_tenant_that_shrinks_loses_the_namespace),
		TEST(its_people_see_all_its_queues_and_no_others),
		TEST(a_deleted_tenant_goes_after_its_namespaces),
		TEST(a_status_is_written_once_and_keeps_its_time),
		TEST(a_claim_says_what_was_asked_and_what_was_granted),
		TEST(slices_say_where_they_are),
		TEST(an_eviction_is_of_this_very_pod),
		TEST(a_pod_is_told_its_claim_and_its_node),
		TEST(what_was_asked_for_by_another_name_is_not_mapped),
		TEST(what_the_server_did_not_keep_is_noticed),
		TEST(only_pods_of_our_scheduler_are_placed),
		TEST(a_reason_to_wait_is_written_only_when_it_changes),
		TEST(a_claim_outlives_its_pod_only_until_it_is_collected),
		TEST(a_lease_is_taken_when_free_expired_or_its_holder_dead),
		TEST(a_dead_holder_of_this_machine_is_recognised),
		TEST(a_pid_that_was_given_to_somebody_else_is_not_the_holder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
