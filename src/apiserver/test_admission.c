/* What may come in, and what tenants may not do, whoever is quicker. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "apiserver/test_world.h"

static struct world w;
static struct rf_kube *alice; /* owns tenant blue: namespaces blue-a and blue-b */
static struct rf_kube *node;

#define OPEN "{'ringfence.io/tenant':'blue'}"
#define BLUE_A "/api/v1/namespaces/blue-a/pods"
#define BLUE_B "/api/v1/namespaces/blue-b/pods"
#define GPU(n) "{'limits':{'ringfence.io/gpu':" n "}}"

static void tenant_namespace(const char *name)
{
	world_namespace(&w, name, OPEN);
	world_create(&w, rf_arena_printf(&w.a, "/api/v1/namespaces/%s/resourcequotas", name).p,
		     rf_json_make(&w.a,
				  "{'metadata':{'name':'ringfence'},'spec':{'hard':{'pods':'6',"
				  "'requests.ringfence.io/gpu':'5'}}}"));
	world_create(
		&w,
		rf_arena_printf(
			&w.a, "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings", name)
			.p,
		rf_json_make(
			&w.a,
			"{'metadata':{'name':'ringfence-owner'},'roleRef':{'kind':'ClusterRole',"
			"'name':'ringfence-tenant-owner'},'subjects':[{'kind':'User',"
			"'name':'alice'}]}"));
}

static int start(void **state)
{
	world_start(&w);
	world_create(
		&w, "/apis/ringfence.io/v1alpha1/tenants",
		rf_json_make(&w.a,
			     "{'metadata':{'name':'blue'},'spec':{'namespaces':['blue-a','blue-b'],"
			     "'quota':{'gpus':5,'pods':12}}}"));
	tenant_namespace("blue-a");
	tenant_namespace("blue-b");
	alice = world_as(&w, "alice", NULL);
	node = world_as(&w, "system:node:node-1", "system:nodes");
	return 0;
}

static int stop(void **state)
{
	rf_kube_free(alice);
	rf_kube_free(node);
	world_stop(&w);
	return 0;
}

static void clean(void)
{
	static const char *const WHERE[] = { BLUE_A, BLUE_B };
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < RF_COUNT(WHERE); i++) {
		struct rf_json *list = rf_json_at(world_get(&w, WHERE[i]), "items");

		for (size_t j = 0; j < rf_json_len(list); j++)
			assert_ok(rf_kube_delete(w.admin, &w.a,
						 rf_arena_printf(&w.a, "%s/%.*s", WHERE[i],
								 RF_STR(rf_kube_name(
									 rf_json_item(list, j)))),
						 0, false, &err),
				  err);
	}
}

static void refused(int r, const struct rf_err *err, const char *text)
{
	if (r != -RF_FORBIDDEN || strstr(err->msg, text) == NULL)
		fail_msg("wanted a refusal with \"%s\", got %d: %s", text, r, err->msg);
}

static struct rf_str used(const char *ns, const char *key)
{
	struct rf_json *q = world_get(
		&w, rf_arena_printf(&w.a, "/api/v1/namespaces/%s/resourcequotas/ringfence", ns).p);

	return rf_json_str_at(q, "status", "used", key);
}

/* --- quota ---------------------------------------------------------------------------------- */

/* One client of many: creates ten pods of one card each; its exit status is how many it got. */
static _Noreturn void client(int id)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_kube *k;
	int got = 0;

	if (rf_kube_new(&w.admin_config, &k, &err) < 0)
		_exit(100);
	for (int i = 0; i < 10; i++) {
		char name[32];
		int r;

		snprintf(name, sizeof(name), "race-%d-%d", id, i);
		r = world_try(k, &w, id % 2 ? BLUE_A : BLUE_B, world_pod(&w, name, GPU("1")), &err);
		if (r != 0 && r != -RF_FORBIDDEN)
			_exit(101);
		got += r == 0;
	}
	_exit(got);
}

static void many_clients_never_exceed_the_tenants_quota(void **state)
{
	pid_t pids[8];
	int total = 0;

	for (int i = 0; i < 8; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			client(i);
	}
	for (int i = 0; i < 8; i++) {
		int status;

		waitpid(pids[i], &status, 0);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 100);
		total += WEXITSTATUS(status);
	}
	assert_int_equal(total, 5);
	assert_int_equal(rf_json_len(rf_json_at(world_get(&w, BLUE_A), "items")) +
				 rf_json_len(rf_json_at(world_get(&w, BLUE_B), "items")),
			 5);
	clean();
}

static void the_refusal_says_what_is_asked_used_and_limited(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, BLUE_A, world_pod(&w, "first", GPU("4")));
	refused(world_try(alice, &w, BLUE_B, world_pod(&w, "second", GPU("2")), &err), &err,
		"pods \"second\" is forbidden: exceeded quota: tenant blue, requested: "
		"requests.ringfence.io/gpu=2, used: requests.ringfence.io/gpu=4, limited: "
		"requests.ringfence.io/gpu=5; wait for a pod of the tenant to end");
	clean();
}

static void cards_count_by_whatever_name_they_were_asked_for(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, BLUE_A, world_pod(&w, "first", "{'limits':{'nvidia.com/gpu':3}}"));
	world_create(&w, BLUE_B, world_pod(&w, "second", GPU("1")));
	assert_true(rf_str_is(used("blue-a", "requests.ringfence.io/gpu"), "3"));
	refused(world_try(alice, &w, BLUE_B,
			  world_pod(&w, "third", "{'limits':{'nvidia.com/gpu':2}}"), &err),
		&err,
		"exceeded quota: tenant blue, requested: requests.ringfence.io/gpu=2, used: "
		"requests.ringfence.io/gpu=4, limited: requests.ringfence.io/gpu=5");
	assert_ok(world_try(alice, &w, BLUE_B,
			    world_pod(&w, "third", "{'limits':{'nvidia.com/gpu':1}}"), &err),
		  err);
	assert_int_equal(world_try(alice, &w, BLUE_B,
				   world_pod(&w, "both",
					     "{'limits':{'nvidia.com/gpu':1,"
					     "'ringfence.io/gpu':1}}"),
				   &err),
			 -RF_INVALID);
	clean();
}

static void a_pod_that_ended_gives_its_quota_back_at_once(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, BLUE_A, world_pod(&w, "done", GPU("5")));
	assert_true(rf_str_is(used("blue-a", "requests.ringfence.io/gpu"), "5"));
	assert_true(rf_str_is(used("blue-a", "pods"), "1"));
	assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(BLUE_A "/done/status"), RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'status':{'phase':'Succeeded'}}"), NULL, &err),
		  err);
	assert_true(rf_str_is(used("blue-a", "requests.ringfence.io/gpu"), "0"));
	assert_true(rf_str_is(used("blue-a", "pods"), "0"));
	assert_ok(world_try(alice, &w, BLUE_B, world_pod(&w, "next", GPU("5")), &err), err);
	clean();
}

static void a_dry_run_takes_no_quota(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(world_try(alice, &w, BLUE_A "?dryRun=All", world_pod(&w, "dry", GPU("5")), &err),
		  err);
	assert_true(rf_str_is(used("blue-a", "pods"), "0"));
	assert_ok(world_try(alice, &w, BLUE_A, world_pod(&w, "wet", GPU("5")), &err), err);
	clean();
}

static void quota_survives_a_restart(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, BLUE_A, world_pod(&w, "before", GPU("5")));
	world_restart(&w, SIGKILL, NULL);
	refused(world_try(w.admin, &w, BLUE_B, world_pod(&w, "after", GPU("1")), &err), &err,
		"exceeded quota: tenant blue");
	rf_kube_free(alice);
	rf_kube_free(node);
	alice = world_as(&w, "alice", NULL);
	node = world_as(&w, "system:node:node-1", "system:nodes");
	clean();
}

static void a_tenant_cannot_skip_its_node_to_free_quota(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	world_create(&w, BLUE_A, world_pod(&w, "runs", GPU("5")));
	world_create(&w, BLUE_A "/runs/binding",
		     rf_json_make(&w.a, "{'target':{'kind':'Node','name':'node-1'}}"));
	assert_ok(rf_kube_delete(alice, &w.a, RF_LIT(BLUE_A "/runs"), 0, false, &err), err);
	assert_true(rf_kube_deleting(world_get(&w, BLUE_A "/runs")));
	refused(world_try(alice, &w, BLUE_B, world_pod(&w, "more", GPU("1")), &err), &err,
		"exceeded quota");
	assert_ok(rf_kube_delete(node, &w.a, RF_LIT(BLUE_A "/runs"), 0, false, &err), err);
	assert_int_equal(rf_kube_get(w.admin, &w.a, RF_LIT(BLUE_A "/runs"), &o, &err),
			 -RF_NOT_FOUND);
	assert_ok(world_try(alice, &w, BLUE_B, world_pod(&w, "more", GPU("1")), &err), err);
	clean();
}

static struct rf_json *pod_of_many(const char *name, int containers, const char *limits)
{
	struct rf_json *pod = world_pod(&w, name, limits);
	struct rf_json *list = rf_json_at(pod, "spec", "containers");

	for (int i = 1; i < containers; i++) {
		struct rf_json *c = rf_json_clone(&w.a, rf_json_item(list, 0));

		rf_json_set_str(&w.a, c, "name", rf_arena_printf(&w.a, "c%d", i));
		rf_json_push(&w.a, list, c);
	}
	return pod;
}

static void a_sum_past_all_numbers_frees_no_quota(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, "/apis/ringfence.io/v1alpha1/tenants",
		     rf_json_make(&w.a, "{'metadata':{'name':'olive'},'spec':{'isolation':'share',"
					"'quota':{'gpuMemory':'60Gi'}}}"));
	world_namespace(&w, "olive", "{'ringfence.io/tenant':'olive'}");
	refused(world_try(w.admin, &w, "/api/v1/namespaces/olive/pods",
			  pod_of_many("wraps", 9, "{'limits':{'ringfence.io/gpu-memory':'1Pi'}}"),
			  &err),
		&err, "exceeded quota: tenant olive");
	/* No quota is on this one; a count that wrapped would still spoil one made later. */
	refused(world_try(alice, &w, BLUE_A,
			  pod_of_many("wraps", 9, "{'requests':{'memory':'8Pi'}}"), &err),
		&err, "asks for more requests.memory than can be counted");
	refused(world_try(w.admin, &w, "/api/v1/namespaces/olive/pods",
			  world_pod(&w, "next", "{'limits':{'ringfence.io/gpu-memory':'61Gi'}}"),
			  &err),
		&err, "exceeded quota: tenant olive");
}

static void invalid(struct rf_json *pod, const char *text)
{
	struct rf_err err = RF_ERR_INIT;
	int r = world_try(alice, &w, BLUE_A, pod, &err);

	if ((r != -RF_INVALID && r != -RF_BAD_REQUEST) || strstr(err.msg, text) == NULL)
		fail_msg("wanted a refusal with \"%s\", got %d: %s", text, r, err.msg);
}

/* A pod with this spec beside its container. */
static struct rf_json *pod_with(const char *field, struct rf_json *value)
{
	struct rf_json *pod = world_pod(&w, "odd", "{}");

	rf_json_set(&w.a, rf_json_at(pod, "spec"), rf_str(field), value);
	return pod;
}

static struct rf_json *volumes(int n)
{
	struct rf_json *all = rf_json_array(&w.a);

	for (int i = 0; i < n; i++)
		rf_json_push(&w.a, all,
			     rf_json_make(&w.a, "{'name':%S,'emptyDir':{}}",
					  rf_arena_printf(&w.a, "v%d", i)));
	return all;
}

static void a_pod_is_of_a_size_that_can_be_checked(void **state)
{
	invalid(pod_with("volumes", volumes(129)), "spec.volumes: Too many");
	invalid(pod_with("volumes", volumes(40000)), "spec.volumes: Too many");
}

static void user_ids_are_those_of_the_kernel(void **state)
{
	static const char *const BAD[] = { "{'runAsUser':-1}", "{'runAsUser':4294967296}",
					   "{'runAsGroup':4294967296}", "{'fsGroup':-1}",
					   "{'supplementalGroups':[1000,4294967296]}" };

	for (size_t i = 0; i < RF_COUNT(BAD); i++)
		invalid(pod_with("securityContext", rf_json_make(&w.a, BAD[i])),
			"must be between 0 and 2147483647");
}

static void nobody_writes_his_own_overhead(void **state)
{
	invalid(pod_with("overhead", rf_json_make(&w.a, "{'cpu':'-100'}")),
		"spec.overhead: Forbidden");
	invalid(pod_with("resources", rf_json_make(&w.a, "{'requests':{'cpu':'-100'}}")),
		"must be greater than or equal to 0");
}

static void a_tenant_cannot_fill_the_disk(void **state)
{
	const char *maps = "/api/v1/namespaces/blue-a/configmaps";
	char *text = rf_alloc(1000 * 1000 + 1);
	struct rf_err err = RF_ERR_INIT;
	int r = 0, n = 0;

	memset(text, 'x', 1000 * 1000);
	while (r == 0 && n < 100) {
		struct rf_json *o = rf_json_make(&w.a, "{'metadata':{'name':%S},'data':{'x':%s}}",
						 rf_arena_printf(&w.a, "big-%d", n++), text);

		r = world_try(alice, &w, maps, o, &err);
	}
	free(text);
	refused(r, &err, "bytes of objects and may hold");
	assert_in_range(n, 60, 68);
	assert_ok(rf_kube_delete(alice, &w.a, rf_arena_printf(&w.a, "%s/big-0", maps), -1, false,
				 &err),
		  err);
	assert_ok(world_try(alice, &w, maps, rf_json_make(&w.a, "{'metadata':{'name':'small'}}"),
			    &err),
		  err);
	/* All of it goes at once, though it is more than one request may hold in memory. */
	assert_ok(rf_kube_delete(alice, &w.a, rf_str(maps), -1, false, &err), err);
	assert_int_equal(rf_json_len(rf_json_at(world_get(&w, maps), "items")), 0);
}

/* --- what a tenant may ask ------------------------------------------------------------------- */

static void a_share_needs_a_tenant_that_shares(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	int r = world_try(alice, &w, BLUE_A,
			  world_pod(&w, "share", "{'limits':{'ringfence.io/gpu-memory':'1Gi'}}"),
			  &err);

	assert_true(r == -RF_FORBIDDEN || r == -RF_INVALID);
	assert_non_null(strstr(err.msg, "isolation"));
}

static void a_gpu_pod_needs_a_tenant(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	refused(world_try(w.admin, &w, "/api/v1/namespaces/default/pods",
			  world_pod(&w, "p", GPU("1")), &err),
		&err, "belongs to no tenant");
}

static void a_tenant_cannot_place_its_own_pods(void **state)
{
	struct rf_json *pod = world_pod(&w, "placed", "{}");
	struct rf_err err = RF_ERR_INIT;

	rf_json_set_str(&w.a, rf_json_at(pod, "spec"), "nodeName", RF_LIT("node-1"));
	refused(world_try(alice, &w, BLUE_A, pod, &err), &err, "spec.nodeName");
	world_create(&w, BLUE_A, world_pod(&w, "mine", "{}"));
	refused(world_try(alice, &w, BLUE_A "/mine/binding",
			  rf_json_make(&w.a, "{'target':{'kind':'Node','name':'node-1'}}"), &err),
		&err, "cannot create resource \"pods/binding\"");
	refused(rf_kube_patch(alice, &w.a, RF_LIT(BLUE_A "/mine/status"), RF_PATCH_MERGE,
			      rf_json_make(&w.a, "{'status':{'phase':'Succeeded'}}"), NULL, &err),
		&err, "cannot patch resource \"pods/status\"");
	clean();
}

static void a_tenant_cannot_write_what_fences_it(void **state)
{
	static const struct {
		const char *path, *patch;
	} TRIES[] = {
		{ "/api/v1/namespaces/blue-a/resourcequotas/ringfence",
		  "{'spec':{'hard':{'pods':'99'}}}" },
		{ "/api/v1/namespaces/blue-a",
		  "{'metadata':{'labels':{'ringfence.io/tenant':'red'}}}" },
		{ "/apis/ringfence.io/v1alpha1/tenants/blue", "{'spec':{'quota':{'gpus':99}}}" },
		{ "/apis/rbac.authorization.k8s.io/v1/namespaces/blue-a/rolebindings/"
		  "ringfence-owner",
		  "{'subjects':[]}" },
		{ "/apis/resource.k8s.io/v1/namespaces/blue-a/resourceclaims/x",
		  "{'metadata':{}}" },
	};
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	for (size_t i = 0; i < RF_COUNT(TRIES); i++)
		refused(rf_kube_patch(alice, &w.a, rf_str(TRIES[i].path), RF_PATCH_MERGE,
				      rf_json_make(&w.a, TRIES[i].patch), NULL, &err),
			&err, "cannot patch");
	refused(rf_kube_get(alice, &w.a, RF_LIT("/api/v1/namespaces/default/secrets"), &o, &err),
		&err, "cannot list");
	assert_ok(rf_kube_get(alice, &w.a, RF_LIT("/api/v1/namespaces/blue-a"), &o, &err), err);
}

static void only_the_platform_says_whose_a_namespace_is(void **state)
{
	struct rf_kube *bob = world_as(&w, "bob", NULL);
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		     rf_json_make(&w.a,
				  "{'metadata':{'name':'ns-editor'},'rules':[{'apiGroups':[''],"
				  "'resources':['namespaces'],'verbs':['*']}]}"));
	world_create(
		&w, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		rf_json_make(&w.a,
			     "{'metadata':{'name':'ns-editor'},'roleRef':{'kind':'ClusterRole',"
			     "'name':'ns-editor'},'subjects':[{'kind':'User','name':'bob'}]}"));
	assert_ok(world_try(bob, &w, "/api/v1/namespaces",
			    rf_json_make(&w.a, "{'metadata':{'name':'bobs'}}"), &err),
		  err);
	refused(rf_kube_patch(bob, &w.a, RF_LIT("/api/v1/namespaces/bobs"), RF_PATCH_MERGE,
			      rf_json_make(&w.a, "{'metadata':{'labels':" OPEN "}}"), NULL, &err),
		&err, "may only be set by administrators");
	refused(rf_kube_patch(
			bob, &w.a, RF_LIT("/api/v1/namespaces/blue-a"), RF_PATCH_MERGE,
			rf_json_make(&w.a,
				     "{'metadata':{'labels':{'pod-security.kubernetes.io/enforce':"
				     "'privileged'}}}"),
			NULL, &err),
		&err, "pod-security labels");
	rf_kube_free(bob);
}

static void nobody_hands_on_what_he_does_not_have(void **state)
{
	const char *roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
	const char *bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
	struct rf_kube *carol = world_as(&w, "carol", NULL);
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, roles,
		     rf_json_make(&w.a, "{'metadata':{'name':'granter'},'rules':[{'apiGroups':["
					"'rbac.authorization.k8s.io'],'resources':['roles',"
					"'rolebindings'],'verbs':['create']},{'apiGroups':[''],"
					"'resources':['pods'],'verbs':['get']}]}"));
	world_create(&w, bindings,
		     rf_json_make(&w.a, "{'metadata':{'name':'granter'},'roleRef':{'kind':'Role',"
					"'name':'granter'},'subjects':[{'kind':'User',"
					"'name':'carol'}]}"));
	assert_ok(world_try(carol, &w, roles,
			    rf_json_make(&w.a, "{'metadata':{'name':'less'},'rules':[{'apiGroups':"
					       "[''],'resources':['pods'],'verbs':['get']}]}"),
			    &err),
		  err);
	refused(world_try(carol, &w, roles,
			  rf_json_make(&w.a, "{'metadata':{'name':'more'},'rules':[{'apiGroups':"
					     "[''],'resources':['secrets'],'verbs':['get']}]}"),
			  &err),
		&err, "attempting to grant RBAC permissions not currently held");
	refused(world_try(carol, &w, bindings,
			  rf_json_make(&w.a, "{'metadata':{'name':'me'},'roleRef':{'kind':"
					     "'ClusterRole','name':'cluster-admin'},'subjects':[{"
					     "'kind':'User','name':'carol'}]}"),
			  &err),
		&err, "not currently held");
	rf_kube_free(carol);
}

static void pod_security_follows_the_namespace(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_namespace(&w, "strict", "{'pod-security.kubernetes.io/enforce':'restricted'}");
	refused(world_try(w.admin, &w, "/api/v1/namespaces/strict/pods", world_pod(&w, "p", "{}"),
			  &err),
		&err, "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": ");
}

/* --- cards ---------------------------------------------------------------------------------- */

static int allocate(const char *ns, const char *device, struct rf_err *err)
{
	struct rf_str path =
		rf_arena_printf(&w.a, "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims", ns);
	struct rf_json *o = world_create(
		&w, path.p, rf_json_make(&w.a, "{'metadata':{'name':%s},'spec':{}}", device));
	struct rf_json *written = NULL;
	int r = 0;

	rf_json_set(&w.a, o, RF_LIT("status"),
		    rf_json_make(&w.a,
				 "{'allocation':{'devices':{'results':[{'request':'c',"
				 "'driver':'ringfence.io','pool':'pool','device':%s,"
				 "'shareID':'0f8fad5b-d9cb-469f-a165-70867728950e',"
				 "'consumedCapacity':{'memory':'1Gi','compute':'10'}}]}}}",
				 device));
	r = rf_kube_update(w.admin, &w.a, rf_arena_printf(&w.a, "%s/%s/status", path.p, device), o,
			   &written, err);
	if (r == 0)
		assert_true(rf_json_equal(rf_json_at(o, "status", "allocation"),
					  rf_json_at(written, "status", "allocation")));
	return r;
}

static void sharing_tenant(const char *name, const char *isolation, const char *domain)
{
	world_create(
		&w, "/apis/ringfence.io/v1alpha1/tenants",
		rf_json_make(&w.a,
			     "{'metadata':{'name':%s},'spec':{'isolation':%s,'trustDomain':%s}}",
			     name, isolation, domain));
	world_namespace(&w, name, rf_arena_printf(&w.a, "{'ringfence.io/tenant':'%s'}", name).p);
}

static void tenants_meet_on_a_card_only_in_their_trust_domain(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_create(
		&w, "/apis/resource.k8s.io/v1/resourceslices",
		rf_json_make(&w.a,
			     "{'metadata':{'name':'pool'},'spec':{'driver':'ringfence.io',"
			     "'nodeName':'pool','pool':{'name':'pool'},'devices':[{'name':'gpu-0',"
			     "'capacity':{'memory':{'value':'80Gi'}}},{'name':'gpu-1','capacity':{"
			     "'memory':{'value':'80Gi'}}}]}}"));
	sharing_tenant("red", "share", "lab");
	sharing_tenant("green", "share", "lab");
	sharing_tenant("grey", "share", "elsewhere");
	sharing_tenant("white", "gpu", "lab");
	assert_ok(allocate("red", "gpu-0", &err), err);
	assert_ok(allocate("green", "gpu-0", &err), err);
	assert_int_equal(allocate("grey", "gpu-0", &err), -RF_CONFLICT);
	assert_non_null(strstr(err.msg, "does not accept this one's company"));
	assert_int_equal(allocate("white", "gpu-0", &err), -RF_CONFLICT);
	assert_ok(allocate("white", "gpu-1", &err), err);
	assert_int_equal(allocate("red", "gpu-1", &err), -RF_CONFLICT);
	/* The pool is told of anew: what only the old slice knows is gone. */
	world_create(&w, "/apis/resource.k8s.io/v1/resourceslices",
		     rf_json_make(&w.a, "{'metadata':{'name':'a-newer'},'spec':{'driver':"
					"'ringfence.io','nodeName':'pool','pool':{'name':'pool',"
					"'generation':2},'devices':[{'name':'gpu-2','capacity':{"
					"'memory':{'value':'80Gi'}}}]}}"));
	assert_ok(allocate("white", "gpu-2", &err), err);
	assert_int_equal(allocate("blue-a", "gpu-0", &err), -RF_CONFLICT);
	assert_non_null(strstr(err.msg, "is in no ResourceSlice"));
}

/* One slice of the card in MIG mode, or of the one that is not. */
static int allocate_with(const char *ns, const char *name, const char *device, const char *profile, int start,
			 const char *consumed, struct rf_err *err)
{
	struct rf_str path = rf_arena_printf(&w.a, "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims", ns);
	struct rf_json *o = world_create(&w, path.p, rf_json_make(&w.a, "{'metadata':{'name':%s},'spec':{}}", name));

	rf_json_set(&w.a, o, RF_LIT("status"),
		    rf_json_make(&w.a,
				 "{'allocation':{'devices':{'results':[{'request':'c','driver':'ringfence.io','pool':"
				 "'cut','device':%s}],'config':[{'source':'FromClaim','requests':['c'],'opaque':{'driver':"
				 "'ringfence.io','parameters':{'profile':%s,'starts':[%d]}}}]}}}",
				 device, profile, start));
	if (profile[0] == '\0')
		rf_json_del(rf_json_at(o, "status", "allocation", "devices"), RF_LIT("config"));
	if (consumed != NULL)
		rf_json_set(&w.a, rf_json_item(rf_json_at(o, "status", "allocation", "devices", "results"), 0),
			    RF_LIT("consumedCapacity"), rf_json_make(&w.a, consumed));
	return rf_kube_update(w.admin, &w.a, rf_arena_printf(&w.a, "%s/%s/status", path.p, name), o, NULL, err);
}

static int allocate_slice(const char *ns, const char *name, const char *device, const char *profile, int start,
			  struct rf_err *err)
{
	return allocate_with(ns, name, device, profile, start, NULL, err);
}

static void slices_of_strangers_meet_on_a_card_where_both_accept_it_and_none_overlaps(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	sharing_tenant("cut-a", "slice", "x");
	sharing_tenant("cut-b", "slice", "y");
	sharing_tenant("cut-c", "share", "y");
	sharing_tenant("cut-d", "gpu", "y");
	world_create(&w, "/apis/resource.k8s.io/v1/resourceslices",
		     rf_json_make(&w.a, "{'metadata':{'name':'cut'},'spec':{'driver':'ringfence.io','nodeName':'cut','pool':"
					"{'name':'cut'},'devices':[{'name':'gpu-0','attributes':{'productName':{'string':"
					"'NVIDIA H100 80GB HBM3'},'migMode':{'string':'enabled'}},'capacity':{'memory':{'value':"
					"'80Gi'}}},{'name':'gpu-1','attributes':{'productName':{'string':'NVIDIA H100 80GB HBM3'"
					"}},'capacity':{'memory':{'value':'80Gi'}}}]}}"));
	assert_ok(allocate_slice("cut-a", "a", "gpu-0", "3g.40gb", 4, &err), err);
	assert_ok(allocate_slice("cut-b", "b", "gpu-0", "1g.10gb", 0, &err), err);
	assert_ok(allocate_slice("cut-c", "c", "gpu-0", "1g.10gb", 1, &err), err);
	assert_int_equal(allocate_slice("cut-d", "d", "gpu-0", "1g.10gb", 2, &err), -RF_CONFLICT);
	assert_non_null(strstr(err.msg, "does not accept this one's company"));
	assert_int_equal(allocate_slice("cut-b", "b2", "gpu-0", "1g.10gb", 0, &err), -RF_CONFLICT);
	assert_non_null(strstr(err.msg, "has another claim's slice where this one's would be"));
	assert_int_equal(allocate_slice("cut-b", "b3", "gpu-0", "1g.10gb", 6, &err), -RF_CONFLICT);
	assert_int_equal(allocate_slice("cut-b", "b4", "gpu-0", "2g.20gb", 1, &err), -RF_CONFLICT);
	assert_non_null(strstr(err.msg, "has no slice of that profile in that place"));
	assert_int_equal(allocate_slice("cut-b", "b5", "gpu-1", "1g.10gb", 0, &err), -RF_CONFLICT);
	assert_non_null(strstr(err.msg, "is not in MIG mode"));
	assert_int_equal(allocate_slice("cut-b", "b6", "gpu-0", "", 0, &err), -RF_CONFLICT);
	assert_non_null(strstr(err.msg, "is given in slices only"));
	assert_ok(allocate_slice("cut-b", "b7", "gpu-1", "", 0, &err), err);

	/* A slice that the card's model does not have any more is still somewhere on it. */
	struct rf_json *slice = world_get(&w, "/apis/resource.k8s.io/v1/resourceslices/cut");
	rf_json_set(&w.a, rf_json_at(rf_json_item(rf_json_at(slice, "spec", "devices"), 0), "attributes", "productName"),
		    RF_LIT("string"), rf_json_string(&w.a, RF_LIT("NVIDIA H200")));
	assert_ok(rf_kube_update(w.admin, &w.a, RF_LIT("/apis/resource.k8s.io/v1/resourceslices/cut"), slice, NULL, &err), err);
	assert_int_equal(allocate_slice("cut-b", "b8", "gpu-0", "1g.18gb", 6, &err), -RF_CONFLICT);
	assert_non_null(strstr(err.msg, "has another claim's slice where this one's would be"));
}

/* A card that may be cut or not is one or the other while somebody has it. */
static void a_share_does_not_come_beside_a_slice(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	sharing_tenant("dyn-a", "share", "x");
	world_create(&w, "/apis/resource.k8s.io/v1/resourceslices",
		     rf_json_make(&w.a, "{'metadata':{'name':'dyn'},'spec':{'driver':'ringfence.io','nodeName':'cut','pool':"
					"{'name':'cut'},'devices':[{'name':'gpu-7','attributes':{'productName':{'string':"
					"'NVIDIA H100 80GB HBM3'},'migMode':{'string':'dynamic'}},'capacity':{'memory':{'value':"
					"'80Gi'}}}]}}"));
	assert_ok(allocate_with("dyn-a", "slice", "gpu-7", "1g.10gb", 0, "{'memory':'10Gi','compute':'100'}", &err), err);
	assert_int_equal(allocate_with("dyn-a", "share", "gpu-7", "", 0, "{'memory':'10Gi','compute':'100'}", &err), -RF_CONFLICT);
	assert_non_null(strstr(err.msg, "is cut into slices"));
	assert_ok(allocate_with("dyn-a", "beside", "gpu-7", "1g.10gb", 1, "{'memory':'10Gi','compute':'100'}", &err), err);
}

static void a_claim_has_so_many_results_and_no_more(void **state)
{
	struct rf_str path = RF_LIT("/apis/resource.k8s.io/v1/namespaces/blue-b/resourceclaims");
	struct rf_json *o = world_create(
		&w, path.p, rf_json_make(&w.a, "{'metadata':{'name':'wide'},'spec':{}}"));
	struct rf_json *results = rf_json_array(&w.a);
	struct rf_err err = RF_ERR_INIT;

	for (int i = 0; i < 33; i++)
		rf_json_push(&w.a, results,
			     rf_json_make(&w.a,
					  "{'request':'c','driver':'ringfence.io','pool':'pool',"
					  "'device':%S}",
					  rf_arena_printf(&w.a, "gpu-%d", i)));
	rf_json_set(&w.a, o, RF_LIT("status"),
		    rf_json_make(&w.a, "{'allocation':{'devices':{'results':%j}}}", results));
	assert_int_equal(rf_kube_update(w.admin, &w.a,
					rf_arena_printf(&w.a, "%s/wide/status", path.p), o, NULL,
					&err),
			 -RF_INVALID);
	assert_non_null(strstr(err.msg, "must have at most 32 items"));
}

/* --- nodes ---------------------------------------------------------------------------------- */

static void a_node_writes_only_what_is_its_own(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(world_try(node, &w, "/api/v1/nodes",
			    rf_json_make(&w.a, "{'metadata':{'name':'node-1'}}"), &err),
		  err);
	refused(world_try(node, &w, "/api/v1/nodes",
			  rf_json_make(&w.a, "{'metadata':{'name':'node-2'}}"), &err),
		&err, "its own Node");
	refused(world_try(node, &w, "/apis/resource.k8s.io/v1/resourceslices",
			  rf_json_make(&w.a,
				       "{'metadata':{'name':'s'},'spec':{'driver':'ringfence.io',"
				       "'nodeName':'node-2','pool':{'name':'node-2'}}}"),
			  &err),
		&err, "its own pool");
	world_create(&w, BLUE_A, world_pod(&w, "elsewhere", "{}"));
	refused(rf_kube_patch(node, &w.a, RF_LIT(BLUE_A "/elsewhere/status"), RF_PATCH_MERGE,
			      rf_json_make(&w.a, "{'status':{'phase':'Failed'}}"), NULL, &err),
		&err, "pods bound to it");
	clean();
}

static int patch_node(struct rf_kube *who, const char *path, const char *patch, struct rf_err *err)
{
	return rf_kube_patch(who, &w.a, rf_str(path), RF_PATCH_MERGE, rf_json_make(&w.a, patch), NULL, err);
}

/* Its rack says who may be beside whom, its pool how it is filled, its taints who comes. */
static void a_node_does_not_say_where_it_stands(void **state)
{
	static const char *const PATHS[] = { "/api/v1/nodes/node-1", "/api/v1/nodes/node-1/status" };
	struct rf_err err = RF_ERR_INIT;

	(void)world_try(node, &w, "/api/v1/nodes", rf_json_make(&w.a, "{'metadata':{'name':'node-1'}}"), &err);
	assert_ok(patch_node(w.admin, PATHS[0],
			     "{'metadata':{'labels':{'topology.kubernetes.io/rack':'r1','ringfence.io/pool':'p1'}},"
			     "'spec':{'unschedulable':true}}",
			     &err),
		  err);
	for (size_t i = 0; i < RF_COUNT(PATHS); i++) {
		(void)patch_node(node, PATHS[i], "{'metadata':{'labels':{'topology.kubernetes.io/rack':'r2'}}}", &err);
		(void)patch_node(node, PATHS[i], "{'metadata':{'labels':{'ringfence.io/pool':null}}}", &err);
	}
	refused(patch_node(node, PATHS[0], "{'metadata':{'labels':{'topology.kubernetes.io/rack':'r2'}}}", &err), &err,
		"labels");
	refused(patch_node(node, PATHS[0], "{'metadata':{'labels':{'ringfence.io/pool':null}}}", &err), &err, "labels");
	refused(patch_node(node, PATHS[0], "{'spec':{'unschedulable':null}}", &err), &err, "spec");
	assert_ok(patch_node(node, PATHS[0], "{'metadata':{'labels':{'ringfence.io/gpus':'2','kubernetes.io/os':'linux'}}}", &err),
		  err);
	assert_ok(patch_node(node, PATHS[1], "{'status':{'capacity':{'cpu':'4'}}}", &err), err);
	const struct rf_json *is = world_get(&w, PATHS[0]);
	assert_true(rf_str_is(rf_json_str_at(is, "metadata", "labels", "topology.kubernetes.io/rack"), "r1"));
	assert_true(rf_str_is(rf_json_str_at(is, "metadata", "labels", "ringfence.io/pool"), "p1"));
	assert_true(rf_str_is(rf_json_str_at(is, "metadata", "labels", "ringfence.io/gpus"), "2"));
	assert_true(rf_json_is_true(rf_json_at(is, "spec", "unschedulable")));
	assert_ok(rf_kube_delete(w.admin, &w.a, rf_str(PATHS[0]), 0, false, &err), err);
	refused(world_try(node, &w, "/api/v1/nodes",
			  rf_json_make(&w.a, "{'metadata':{'name':'node-1','labels':{'topology.kubernetes.io/rack':'r2'}}}"),
			  &err),
		&err, "labels");
}

/* --- queues, gangs, budgets ------------------------------------------------------------------- */

static int try_queue_status(const char *resource, struct rf_err *err)
{
	return rf_kube_patch(w.admin, &w.a, RF_LIT("/apis/ringfence.io/v1alpha1/queues/org/status"), RF_PATCH_MERGE,
			     rf_json_make(&w.a, "{'status':{'resources':[%j]}}", rf_json_make(&w.a, resource)), NULL, err);
}

static void queue_status_is_checked(void)
{
	const struct rf_json *cards = NULL;
	struct rf_err err = RF_ERR_INIT;

	assert_ok(try_queue_status("{'name':'cards','used':1,'guaranteed':4,'fair':4,'limit':8,'wanted':3}", &err), err);
	cards = rf_json_item(rf_json_at(world_get(&w, "/apis/ringfence.io/v1alpha1/queues/org"), "status", "resources"), 0);
	assert_int_equal(rf_json_int(rf_json_at(cards, "limit"), -1), 8);
	assert_int_equal(rf_json_int(rf_json_at(cards, "wanted"), -1), 3);
	assert_int_equal(try_queue_status("{'name':'cards','wanted':-1}", &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "status.resources.wanted"));
	assert_int_equal(try_queue_status("{'name':'cards','limit':'8'}", &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "status.resources.limit"));
	assert_int_equal(try_queue_status("{'name':'cards','debt':1}", &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "there is no such field"));
}

static void queues_and_gangs_are_checked_as_strictly_as_their_schemas(void **state)
{
	static const struct {
		const char *path, *kind, *name, *spec, *says; /* NULL: accepted */
	} rows[] = {
		{ "queues", "Queue", "org", "{'weight':2,'resources':[{'name':'cards','guaranteed':4,'limit':'8'}]}", NULL },
		{ "queues", "Queue", "Org", "{}", "metadata.name" },
		{ "queues", "Queue", "own", "{'parent':'own'}", "spec.parent: Invalid value: a queue is not above itself" },
		{ "queues", "Queue", "w", "{'weight':0}", "spec.weight: Invalid value: must be a whole number from 1" },
		{ "queues", "Queue", "x", "{'wait':1}", "spec.wait: Invalid value: there is no such field" },
		{ "queues", "Queue", "r", "{'resources':[{'name':'gpus'}]}", "spec.resources[0].name" },
		{ "queues", "Queue", "g", "{'resources':[{'name':'cards','guaranteed':2,'limit':1}]}",
		  "guaranteed: must not be more than limit" },
		{ "gpupools", "GPUPool", "h100", "{'placement':'pack'}", NULL },
		{ "gpupools", "GPUPool", "any", "{}", NULL },
		{ "gpupools", "GPUPool", "together", "{'sharing':'mps'}", NULL },
		{ "gpupools", "GPUPool", "apart", "{'placement':'spread','sharing':'timeslice'}", NULL },
		{ "gpupools", "GPUPool", "bad", "{'sharing':'green'}", "spec.sharing: Unsupported value" },
		{ "gpupools", "GPUPool", "bad", "{'sharing':true}", "spec.sharing: Unsupported value" },
		{ "gpupools", "GPUPool", "bad", "{'sharing':''}", "spec.sharing: Unsupported value" },
		{ "gpupools", "GPUPool", "bad", "{'placement':'tight'}", "spec.placement: Unsupported value" },
		{ "gpupools", "GPUPool", "bad", "{'placement':1}", "spec.placement: Unsupported value" },
		{ "gpupools", "GPUPool", "bad", "{'selector':{}}", "spec.selector: Invalid value: there is no such field" },
		{ "gpupools", "GPUPool", "a.b", "{}", "metadata.name" },
		{ "namespaces/default/podgroups", "PodGroup", "train",
		  "{'minMember':4,'topologyKey':'example.com/rack','preemptible':false,'minRunSeconds':60}",
		  NULL },
		{ "namespaces/default/podgroups", "PodGroup", "a", "{'minMember':0}", "spec.minMember" },
		{ "namespaces/default/podgroups", "PodGroup", "b", "{'minMember':'4'}", "spec.minMember" },
		{ "namespaces/default/podgroups", "PodGroup", "c", "{'preemptible':'no'}", "spec.preemptible" },
		{ "namespaces/default/podgroups", "PodGroup", "d", "{'topologyKey':'a/b/c'}", "spec.topologyKey" },
		{ "namespaces/default/podgroups", "PodGroup", "e", "{'runLimitSeconds':1}", "spec.runLimitSeconds: Invalid value: there is no such field" },
		{ "namespaces/default/podgroups", "PodGroup", "long", "{'minRunSeconds':3601}", "spec.minRunSeconds" },
		{ "namespaces/default/podgroups", "PodGroup", "f.g", "{}", "metadata.name" },
		{ "namespaces/default/podgroups", "PodGroup", "h", "{'min':1}", "spec.min: Invalid value" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_err err = RF_ERR_INIT;
		struct rf_json *o = rf_json_make(&w.a,
						 "{'apiVersion':'ringfence.io/v1alpha1','kind':%s,'metadata':{'name':%s},"
						 "'spec':%j,'status':{'started':true}}",
						 rows[i].kind, rows[i].name, rf_json_make(&w.a, rows[i].spec));
		char path[128];
		int rc = 0;

		snprintf(path, sizeof(path), "/apis/ringfence.io/v1alpha1/%s", rows[i].path);
		rc = world_try(w.admin, &w, path, o, &err);
		if (rows[i].says == NULL) {
			assert_ok(rc, err);
			continue;
		}
		assert_true(rc < 0);
		if (strstr(err.msg, rows[i].says) == NULL)
			fail_msg("%s: %s", rows[i].says, err.msg);
	}
	queue_status_is_checked();
	/* Nobody comes with a status of his own. */
	assert_null(rf_json_at(world_get(&w, "/apis/ringfence.io/v1alpha1/namespaces/default/podgroups/train"), "status"));
}

/* A running, ready pod of namespace fold with label app. */
static void ready_pod(const char *name, const char *app)
{
	struct rf_json *pod = world_pod(&w, name, "{}");
	struct rf_err err = RF_ERR_INIT;
	char path[128];

	rf_json_set(&w.a, rf_json_ensure(&w.a, pod, "metadata"), RF_LIT("labels"),
		    rf_json_make(&w.a, "{'app':%s}", app));
	world_create(&w, "/api/v1/namespaces/fold/pods", pod);
	snprintf(path, sizeof(path), "/api/v1/namespaces/fold/pods/%s/binding", name);
	assert_ok(world_try(w.admin, &w, path,
			    rf_json_make(&w.a, "{'apiVersion':'v1','kind':'Binding','metadata':{'name':%s},'target':"
					       "{'kind':'Node','name':'n1'}}",
					 name),
			    &err),
		  err);
	snprintf(path, sizeof(path), "/api/v1/namespaces/fold/pods/%s/status", name);
	assert_ok(rf_kube_patch(w.admin, &w.a, rf_str(path), RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'status':{'phase':'Running','conditions':[{'type':'Ready',"
						   "'status':'True'}]}}"),
				NULL, &err),
		  err);
}

static int evict(const char *name, struct rf_err *err)
{
	char path[128];

	snprintf(path, sizeof(path), "/api/v1/namespaces/fold/pods/%s/eviction", name);
	return world_try(w.admin, &w, path,
			 rf_json_make(&w.a, "{'apiVersion':'policy/v1','kind':'Eviction','metadata':{'name':%s,"
					    "'namespace':'fold'}}",
				      name),
			 err);
}

static void a_tenant_makes_gangs_and_does_not_say_how_they_fare(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(world_try(alice, &w, "/apis/ringfence.io/v1alpha1/namespaces/blue-a/podgroups",
			    rf_json_make(&w.a, "{'metadata':{'name':'gang'},'spec':{'minMember':2}}"), &err),
		  err);
	refused(rf_kube_patch(alice, &w.a, RF_LIT("/apis/ringfence.io/v1alpha1/namespaces/blue-a/podgroups/gang/status"),
			      RF_PATCH_MERGE, rf_json_make(&w.a, "{'status':{'started':true}}"), NULL, &err),
		&err, "cannot patch resource");
	refused(world_try(alice, &w, "/apis/ringfence.io/v1alpha1/queues",
			  rf_json_make(&w.a, "{'metadata':{'name':'mine'},'spec':{'tenant':'blue'}}"), &err),
		&err, "cannot create resource");
	assert_true(rf_kube_patch(alice, &w.a, RF_LIT("/apis/ringfence.io/v1alpha1/namespaces/blue-a/podgroups/gang"),
				  RF_PATCH_MERGE, rf_json_make(&w.a, "{'status':{'started':true}}"), NULL, &err) == 0);
	assert_null(rf_json_at(world_get(&w, "/apis/ringfence.io/v1alpha1/namespaces/blue-a/podgroups/gang"), "status"));
	assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT("/apis/ringfence.io/v1alpha1/namespaces/blue-a/podgroups/gang/status"),
				RF_PATCH_MERGE, rf_json_make(&w.a, "{'status':{'started':true,'ending':'2026-11-15T05:00:00Z'}}"), NULL, &err),
		  err);
	assert_int_equal(rf_kube_patch(w.admin, &w.a, RF_LIT("/apis/ringfence.io/v1alpha1/namespaces/blue-a/podgroups/gang/status"),
				       RF_PATCH_MERGE, rf_json_make(&w.a, "{'status':{'ending':5}}"), NULL, &err),
			 -RF_INVALID);
	assert_non_null(strstr(err.msg, "status.ending"));
}

static void what_a_pod_says_of_itself_is_checked(void **state)
{
	static const struct {
		const char *metadata, *message;
	} rows[] = {
		{ "{'name':'odd','annotations':{'ringfence.io/preemptible':'no'}}", "it must be \"true\" or \"false\"" },
		{ "{'name':'odd','annotations':{'ringfence.io/min-run':'60'}}", "there is none of that name" },
		{ "{'name':'odd','labels':{'ringfence.io/queue':'night'}}", "tenant blue has no queue \"night\"" },
	};
	struct rf_err err = RF_ERR_INIT;

	world_create(&w, "/apis/ringfence.io/v1alpha1/queues",
		     rf_json_make(&w.a, "{'metadata':{'name':'night'},'spec':{'tenant':'green'}}"));
	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_json *pod = world_pod(&w, "odd", GPU("1"));

		rf_json_set(&w.a, pod, RF_LIT("metadata"), rf_json_make(&w.a, rows[i].metadata));
		assert_true(world_try(alice, &w, BLUE_A "?dryRun=All", pod, &err) < 0);
		assert_non_null(strstr(err.msg, rows[i].message));
	}
}

static void no_gang_waits_in_a_queue_of_somebody_else(void **state)
{
	static const struct {
		const char *ns, *queue, *says; /* NULL: accepted */
	} rows[] = {
		{ "blue-a", "blue", NULL },
		{ "blue-a", "blue-day", NULL },
		{ "blue-a", "green-day", "podgroups.ringfence.io \"group\" is forbidden: spec.queue: tenant blue has no queue \"green-day\"" },
		{ "blue-a", "nosuch", "podgroups.ringfence.io \"group\" is forbidden: spec.queue: tenant blue has no queue \"nosuch\"" },
		{ "default", "blue-day", "queues are for tenants, and namespace \"default\" belongs to none" },
	};

	world_create(&w, "/apis/ringfence.io/v1alpha1/queues", rf_json_make(&w.a, "{'metadata':{'name':'blue-day'},'spec':{'tenant':'blue'}}"));
	world_create(&w, "/apis/ringfence.io/v1alpha1/queues", rf_json_make(&w.a, "{'metadata':{'name':'green-day'},'spec':{'tenant':'green'}}"));
	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_err err = RF_ERR_INIT;
		char path[128];
		int rc;

		snprintf(path, sizeof(path), "/apis/ringfence.io/v1alpha1/namespaces/%s/podgroups?dryRun=All", rows[i].ns);
		rc = world_try(w.admin, &w, path,
			       rf_json_make(&w.a, "{'metadata':{'name':'group'},'spec':{'minMember':2,'queue':%s}}", rows[i].queue), &err);
		assert_int_equal(rc, rows[i].says == NULL ? 0 : -RF_FORBIDDEN);
		if (rows[i].says != NULL && strstr(err.msg, rows[i].says) == NULL)
			fail_msg("%s: %s", rows[i].says, err.msg);
	}
}

static int64_t allowed_now(void)
{
	return rf_json_int(rf_json_at(world_get(&w, "/apis/policy/v1/namespaces/fold/poddisruptionbudgets/web"),
				      "status", "disruptionsAllowed"),
			   -1);
}

static void evictions_are_held_to_budgets(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	world_namespace(&w, "fold", "{}");
	for (int i = 0; i < 3; i++) {
		const char *names[] = { "a", "b", "c" };

		ready_pod(names[i], "web");
	}
	ready_pod("other", "db");
	world_create(&w, "/apis/policy/v1/namespaces/fold/poddisruptionbudgets",
		     rf_json_make(&w.a, "{'apiVersion':'policy/v1','kind':'PodDisruptionBudget','metadata':{'name':'web'},"
					"'spec':{'minAvailable':%s,'selector':{'matchLabels':{'app':'web'}}}}",
				  "60%"));
	for (int i = 0; i < 50 && allowed_now() != 1; i++)
		usleep(100000); /* the status follows */
	assert_int_equal(allowed_now(), 1);
	assert_ok(evict("other", &err), err);
	assert_ok(evict("a", &err), err);
	assert_int_equal(evict("b", &err), -RF_EXHAUSTED);
	assert_non_null(strstr(err.msg, "disruption budget web needs 2 healthy pods and has 2 currently"));
	assert_ok(evict("a", &err), err); /* goes already */
	assert_int_equal(world_try(w.admin, &w, "/apis/policy/v1/namespaces/fold/poddisruptionbudgets",
				   rf_json_make(&w.a, "{'apiVersion':'policy/v1','kind':'PodDisruptionBudget','metadata':"
						      "{'name':'both'},'spec':{'minAvailable':1,'maxUnavailable':1}}"),
				   &err),
			 -RF_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_clients_never_exceed_the_tenants_quota),
		cmocka_unit_test(the_refusal_says_what_is_asked_used_and_limited),
		cmocka_unit_test(cards_count_by_whatever_name_they_were_asked_for),
		cmocka_unit_test(a_pod_that_ended_gives_its_quota_back_at_once),
		cmocka_unit_test(a_dry_run_takes_no_quota),
		cmocka_unit_test(quota_survives_a_restart),
		cmocka_unit_test(a_tenant_cannot_skip_its_node_to_free_quota),
		cmocka_unit_test(a_sum_past_all_numbers_frees_no_quota),
		cmocka_unit_test(a_pod_is_of_a_size_that_can_be_checked),
		cmocka_unit_test(user_ids_are_those_of_the_kernel),
		cmocka_unit_test(nobody_writes_his_own_overhead),
		cmocka_unit_test(a_tenant_cannot_fill_the_disk),
		cmocka_unit_test(a_share_needs_a_tenant_that_shares),
		cmocka_unit_test(a_gpu_pod_needs_a_tenant),
		cmocka_unit_test(a_tenant_cannot_place_its_own_pods),
		cmocka_unit_test(a_tenant_cannot_write_what_fences_it),
		cmocka_unit_test(only_the_platform_says_whose_a_namespace_is),
		cmocka_unit_test(nobody_hands_on_what_he_does_not_have),
		cmocka_unit_test(pod_security_follows_the_namespace),
		cmocka_unit_test(tenants_meet_on_a_card_only_in_their_trust_domain),
		cmocka_unit_test(slices_of_strangers_meet_on_a_card_where_both_accept_it_and_none_overlaps),
		cmocka_unit_test(a_share_does_not_come_beside_a_slice),
		cmocka_unit_test(a_claim_has_so_many_results_and_no_more),
		cmocka_unit_test(a_node_writes_only_what_is_its_own),
		cmocka_unit_test(a_node_does_not_say_where_it_stands),
		cmocka_unit_test(a_tenant_makes_gangs_and_does_not_say_how_they_fare),
		cmocka_unit_test(what_a_pod_says_of_itself_is_checked),
		cmocka_unit_test(no_gang_waits_in_a_queue_of_somebody_else),
		cmocka_unit_test(queues_and_gangs_are_checked_as_strictly_as_their_schemas),
		cmocka_unit_test(evictions_are_held_to_budgets),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
