/* Pods written for other schedulers, as the API server takes them. */
#include "apiserver/test_world.h"

#include "tenant/foreign.h"

static struct world w;
static struct rf_kube *alice; /* owns tenant blue */

#define PODS "/api/v1/namespaces/blue/pods"
#define QUEUES "/apis/ringfence.io/v1alpha1/queues"
#define GI (INT64_C(1) << 30)

static void queue(const char *name, const char *tenant)
{
	world_create(&w, QUEUES,
		     rf_json_make(&w.a, "{'metadata':{'name':%s,'labels':{'ringfence.io/tenant':%s}},'spec':{'weight':1}}", name,
				  tenant));
}

static int start(void **state)
{
	struct rf_foreign f = { 0 };

	assert_int_equal(rf_foreign_parse(RF_LIT("kai,hami,volcano,x-k8s,kueue"), RF_LIT("80Gi"), &f, NULL), 0);
	rf_foreign_set(&f); /* the server is a child of ours */
	world_start(&w);
	world_create(&w, "/apis/ringfence.io/v1alpha1/tenants",
		     rf_json_make(&w.a, "{'metadata':{'name':'blue'},'spec':{'isolation':'share','quota':{'gpus':2,"
					"'gpuMemory':'100Gi','pods':20}}}"));
	world_namespace(&w, "blue", "{'ringfence.io/tenant':'blue'}");
	world_create(&w, "/apis/rbac.authorization.k8s.io/v1/namespaces/blue/rolebindings",
		     rf_json_make(&w.a, "{'metadata':{'name':'ringfence-owner'},'roleRef':{'kind':'ClusterRole','name':"
					"'ringfence-tenant-owner'},'subjects':[{'kind':'User','name':'alice'}]}"));
	queue("blue", "blue");
	queue("blue-night", "blue");
	queue("green", "green");
	alice = world_as(&w, "alice", NULL);
	return 0;
}

static int stop(void **state)
{
	rf_kube_free(alice);
	world_stop(&w);
	rf_foreign_set(&(struct rf_foreign){ 0 });
	return 0;
}

/* A pod with further metadata and with these resources. */
static struct rf_json *pod(const char *name, const char *metadata, const char *resources, const char *scheduler)
{
	struct rf_json *p = world_pod(&w, name, resources), *more = rf_json_make(&w.a, metadata);

	for (size_t i = 0; i < rf_json_len(more); i++)
		rf_json_set(&w.a, rf_json_at(p, "metadata"), more->members[i].key, more->members[i].value);
	if (scheduler != NULL)
		rf_json_set_str(&w.a, rf_json_at(p, "spec"), "schedulerName", rf_str(scheduler));
	return p;
}

static struct rf_json *taken(struct rf_json *p)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(world_try(alice, &w, PODS, p, &err), err);
	return world_get(&w, rf_arena_printf(&w.a, PODS "/%.*s", RF_STR(rf_kube_name(p))).p);
}

static void refused(struct rf_json *p, int code, const char *message)
{
	struct rf_err err = RF_ERR_INIT;
	int r = world_try(alice, &w, PODS, p, &err);

	if (r != -code || strstr(err.msg, message) == NULL)
		fail_msg("wanted %d with \"%s\", got %d: %s", -code, message, r, err.msg);
}

static void drop(const struct rf_json *p)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_delete(w.admin, &w.a, rf_arena_printf(&w.a, PODS "/%.*s", RF_STR(rf_kube_name(p))), 0, false, &err),
		  err);
}

static void asks(const struct rf_json *p, int64_t cards, int64_t bytes, int64_t milli)
{
	struct rf_gpu_ask ask = { 0 };

	assert_int_equal(rf_gpu_ask_of_pod(p, &ask, NULL), 0);
	assert_int_equal(ask.cards, cards);
	assert_int_equal(ask.share_bytes, bytes);
	assert_int_equal(ask.share_milli, milli);
}

static void fractions_are_taken_counted_and_kept(void **state)
{
	static const char KAI[] = "{'annotations':{'gpu-fraction':'0.5'},'labels':{'kai.scheduler/queue':'blue-night'}}";
	struct rf_json *p = taken(pod("one", KAI, "{'limits':{'cpu':'1','memory':'1Gi'}}", "kai-scheduler"));
	struct rf_json *two = NULL, *patch = NULL;
	struct rf_err err = RF_ERR_INIT;

	asks(p, 0, 40 * GI, 500);
	assert_true(rf_str_is(rf_json_str_at(p, "spec", "schedulerName"), "ringfence"));
	assert_true(rf_str_is(rf_json_str_at(p, "metadata", "labels", "ringfence.io/queue"), "blue-night"));
	assert_true(rf_str_is(rf_json_str_at(p, "status", "qosClass"), "Guaranteed"));
	two = taken(pod("two", KAI, "{}", NULL));
	refused(pod("three", KAI, "{}", NULL), RF_FORBIDDEN, "exceeded quota: tenant blue");
	/* A smaller word afterwards makes no room. */
	patch = rf_json_make(&w.a, "{'metadata':{'annotations':{'gpu-fraction':'0.01','received-resource-type':'Regular',"
				   "'hami.io/vgpu-devices-allocated':'GPU-0,NVIDIA,1,1:;'}}}");
	assert_ok(rf_kube_patch(alice, &w.a, RF_LIT(PODS "/one"), RF_PATCH_MERGE, patch, &p, &err), err);
	asks(p, 0, 40 * GI, 500);
	refused(pod("three", KAI, "{}", NULL), RF_FORBIDDEN, "exceeded quota: tenant blue");
	drop(p);
	p = taken(pod("three", KAI, "{}", NULL));
	drop(p);
	drop(two);
}

static void hamis_words_are_taken(void **state)
{
	struct rf_json *p = taken(pod("hami", "{'annotations':{'hami.io/vgpu-devices-to-allocate':'GPU-0,NVIDIA,81920,100:;'}}",
				      "{'limits':{'nvidia.com/gpu':1,'nvidia.com/gpumem':1024,'nvidia.com/gpucores':30}}",
				      "hami-scheduler"));
	const struct rf_json *c = rf_json_item(rf_json_at(p, "spec", "containers"), 0);

	asks(p, 0, GI, 300);
	assert_null(rf_json_at(c, "resources", "requests", "nvidia.com/gpumem"));
	assert_null(rf_json_at(c, "resources", "limits", "nvidia.com/gpu"));
	drop(p);
}

static void groups_are_taken(void **state)
{
	struct rf_json *p = taken(pod("member", "{'annotations':{'scheduling.k8s.io/group-name':'ring'}}", "{}", "volcano"));

	assert_true(rf_str_is(rf_json_str_at(p, "metadata", "labels", "ringfence.io/pod-group"), "ring"));
	drop(p);
}

static void what_a_tenant_may_not_say_is_refused(void **state)
{
	refused(pod("p", "{'labels':{'kai.scheduler/queue':'green'}}", "{}", NULL), RF_FORBIDDEN,
		"pods \"p\" is forbidden: kai.scheduler/queue: tenant blue has no queue \"green\"");
	refused(pod("p", "{'annotations':{'gpu-fraction':'0.1'}}", "{'limits':{'nvidia.com/gpu':2}}", NULL), RF_INVALID,
		"Pod \"p\" is invalid: annotation gpu-fraction asks for a share of a card, and container");
	refused(pod("p", "{}", "{'limits':{'nvidia.com/gpu':1}}", "another"), RF_FORBIDDEN, "schedulerName \"another\"");
	/* Kueue #14630, and KAI #140: neither a group's name nor another scheduler is a way around the quota. */
	refused(pod("p", "{'labels':{'kueue.x-k8s.io/pod-group-name':'admitted'}}", "{'limits':{'nvidia.com/gpu':3}}",
		    "default-scheduler"),
		RF_FORBIDDEN, "exceeded quota: tenant blue");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fractions_are_taken_counted_and_kept),
		cmocka_unit_test(hamis_words_are_taken),
		cmocka_unit_test(groups_are_taken),
		cmocka_unit_test(what_a_tenant_may_not_say_is_refused),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
