#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tenant/tenant.h"

#define GI (INT64_C(1) << 30)

static int parse(struct rf_arena *a, const char *spec, struct rf_tenant *ret, struct rf_err *err)
{
	return rf_tenant_parse(
		a,
		rf_json_make(a, "{'metadata':{'name':'team-a'},'spec':%j}", rf_json_make(a, spec)),
		ret, err);
}

static void a_tenant_without_words_gets_the_careful_defaults(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_tenant t = { 0 };

	assert_int_equal(parse(&a, "{}", &t, NULL), 0);
	assert_int_equal(t.isolation, RF_ISOLATION_GPU);
	assert_true(rf_str_is(t.trust_domain, "team-a"));
	assert_int_equal(t.n_namespaces, 1);
	assert_true(rf_str_is(t.namespaces[0], "team-a"));
	assert_int_equal(t.quota_gpus, 0);
	assert_int_equal(t.quota_gpu_memory, 0);
	assert_int_equal(t.quota_pods, -1);
	assert_int_equal(t.queue_weight, 1);
}

static void a_tenant_with_words_is_read_as_written(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_tenant t = { 0 };

	assert_int_equal(parse(&a,
			       "{'owners':[{'kind':'User','name':'alice'},{'kind':'ServiceAccount',"
			       "'name':'ci','namespace':'build'}],'namespaces':['x','y'],"
			       "'isolation':'share','trustDomain':'research','quota':{'gpus':'2',"
			       "'gpuMemory':'80Gi','pods':20},'queue':{'weight':3}}",
			       &t, NULL),
			 0);
	assert_int_equal(t.isolation, RF_ISOLATION_SHARE);
	assert_true(rf_str_is(t.trust_domain, "research"));
	assert_int_equal(t.n_namespaces, 2);
	assert_int_equal(t.quota_gpus, 2);
	assert_int_equal(t.quota_gpu_memory, 80 * GI);
	assert_int_equal(t.quota_pods, 20);
	assert_int_equal(t.queue_weight, 3);
}

static void a_tenant_that_is_wrong_is_refused_with_the_field(void **state)
{
	static const struct {
		const char *spec, *message;
	} rows[] = {
		{ "[]", "tenant team-a: spec: must be an object" },
		{ "{'izolation':'node'}", "tenant team-a: spec.izolation: there is no such field; "
					  "there are: owners, namespaces, "
					  "isolation, trustDomain, quota, queue" },
		{ "{'isolation':'Node'}",
		  "tenant team-a: spec.isolation: must be rack, node, numa, nvlink, gpu, slice, share or cooperative" },
		{ "{'isolation':1}",
		  "tenant team-a: spec.isolation: must be rack, node, numa, nvlink, gpu, slice, share or cooperative" },
		{ "{'namespaces':['kube-system']}", "tenant team-a: spec.namespaces: kube-system "
						    "belongs to the system; choose another" },
		{ "{'namespaces':['default']}",
		  "tenant team-a: spec.namespaces: default belongs to the system; choose another" },
		{ "{'namespaces':['a','a']}", "tenant team-a: spec.namespaces: a is there twice" },
		{ "{'namespaces':['../x']}", "tenant team-a: spec.namespaces: each must be a "
					     "namespace's name: lower-case letters, "
					     "digits and -" },
		{ "{'namespaces':'a'}", "tenant team-a: spec.namespaces: must be a list of names" },
		{ "{'owners':[{'kind':'Robot','name':'r'}]}",
		  "tenant team-a: spec.owners.kind: must be User, Group or ServiceAccount" },
		{ "{'owners':[{'kind':'User'}]}",
		  "tenant team-a: spec.owners.name: must be a name of at most 253 characters" },
		{ "{'quota':{'gpus':-1}}", "tenant team-a: spec.quota.gpus: must be a whole number "
					   "from 0 to 1000000, not -1" },
		{ "{'quota':{'gpus':'500m'}}", "tenant team-a: spec.quota.gpus: must be a whole "
					       "number from 0 to 1000000, not 500m" },
		{ "{'quota':{'gpu':1}}", "tenant team-a: spec.quota.gpu: there is no such field; "
					 "there are: gpus, gpuMemory, pods" },
		{ "{'queue':{'weight':0}}", "tenant team-a: spec.queue.weight: must be a whole "
					    "number from 1 to 1000000, not 0" },
		{ "{'queue':{'wait':1}}", "tenant team-a: spec.queue.wait: there is no such field; "
					  "there are: weight, parent, guaranteed, resources" },
		{ "{'queue':{'parent':'team-a'}}",
		  "tenant team-a: spec.queue.parent: must be the name of another Queue: lower-case letters, "
		  "digits and -, at most 63" },
		{ "{'queue':{'guaranteed':{'gpus':1}}}",
		  "tenant team-a: spec.queue.guaranteed.gpus: guarantees 1 where its quota or limit is 0; "
		  "raise spec.quota or guarantee less" },
		{ "{'quota':{'gpus':4},'queue':{'guaranteed':{'gpus':1},'resources':[{'name':'cards',"
		  "'guaranteed':1}]}}",
		  "tenant team-a: spec.queue.guaranteed.gpus: is given in spec.queue.resources, too; keep "
		  "one of the two" },
		{ "{'queue':{'resources':[{'name':'gpus'}]}}",
		  "tenant team-a: spec.queue.resources[0].name: must be cards, cards/<model>, share-bytes, "
		  "share-milli, mig/<profile>, cpu, memory or pods" },
		{ "{'queue':{'resources':[{'name':'cpu'},{'name':'cpu'}]}}",
		  "tenant team-a: spec.queue.resources[1].name: is there twice" },
		{ "{'queue':{'resources':[{'name':'cards/H200'},{'name':'cards'},{'name':'cards/h200'}]}}",
		  "tenant team-a: spec.queue.resources[2].name: cards/h200 is the same model as cards/H200 in [0]; "
		  "leave one of them" },
		{ "{'queue':{'resources':[{'name':'cpu','limit':1,'guaranteed':2}]}}",
		  "tenant team-a: spec.queue.resources[0].guaranteed: must not be more than limit" },
		{ "{'queue':{'resources':[{'name':'cpu','lending':1}]}}",
		  "tenant team-a: spec.queue.resources[0].lending: there is no such field; there are: name, "
		  "guaranteed, limit, lendingLimit, borrowingLimit" },
		{ "{'queue':{'resources':[{'name':'cpu','limit':-1}]}}",
		  "tenant team-a: spec.queue.resources[0].limit: must be a whole number from 0 to "
		  "4503599627370496, or a quantity such as 80Gi" },
		{ "{'trustDomain':''}", "tenant team-a: spec.trustDomain: must be a name: "
					"lower-case letters, digits and -, at "
					"most 63" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_err err = RF_ERR_INIT;
		struct rf_tenant t = { 0 };

		assert_int_equal(parse(&a, rows[i].spec, &t, &err), -RF_INVALID);
		assert_string_equal(err.msg, rows[i].message);
	}
}

/* --- asks -------------------------------------------------------------------------------- */

static int ask(const char *resources, struct rf_gpu_ask *ret, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	return rf_gpu_ask_of_container(
		rf_json_make(&a, "{'name':'c','resources':%j}", rf_json_make(&a, resources)), ret,
		err);
}

static void whole_cards_and_shares_are_read_from_limits(void **state)
{
	struct rf_gpu_ask got = { 0 };

	assert_int_equal(ask("{'limits':{'ringfence.io/gpu':'2','cpu':'1'}}", &got, NULL), 0);
	assert_int_equal(got.cards, 2);
	assert_int_equal(
		ask("{'limits':{'ringfence.io/gpu-memory':'10Gi','ringfence.io/gpu-compute':25},"
		    "'requests':{'ringfence.io/gpu-memory':'10240Mi'}}",
		    &got, NULL),
		0);
	assert_int_equal(got.cards, 0);
	assert_int_equal(got.share_bytes, 10 * GI);
	assert_int_equal(got.share_milli, 250);
	assert_int_equal(ask("{}", &got, NULL), 0);
	assert_false(rf_gpu_ask_any(&got));
}

static void asks_that_make_no_sense_are_refused_with_a_remedy(void **state)
{
	static const struct {
		const char *resources, *message;
	} rows[] = {
		{ "{'limits':{'ringfence.io/gpu':1,'ringfence.io/gpu-memory':'1Gi'}}",
		  "container \"c\": ringfence.io/gpu: a container asks for whole cards or for a "
		  "share, not "
		  "for both; remove one" },
		{ "{'limits':{'ringfence.io/gpu-compute':50}}",
		  "container \"c\": ringfence.io/gpu-compute: needs ringfence.io/gpu-memory beside "
		  "it" },
		{ "{'limits':{'ringfence.io/gpu-memory':'1Gi','ringfence.io/gpu-compute':101}}",
		  "container \"c\": ringfence.io/gpu-compute: limit must be a whole number from 0 "
		  "to 100, "
		  "not 101" },
		{ "{'limits':{'ringfence.io/gpu-memory':'1Gi','ringfence.io/gpu-compute':0}}",
		  "container \"c\": ringfence.io/gpu-compute: must be 1 to 100; leave it out to "
		  "reserve "
		  "none" },
		{ "{'limits':{'ringfence.io/gpu':'500m'}}",
		  "container \"c\": ringfence.io/gpu: limit must be a whole number from 0 to 1024, "
		  "not "
		  "500m" },
		{ "{'limits':{'ringfence.io/gpu':-1}}",
		  "container \"c\": ringfence.io/gpu: limit must be a whole number from 0 to 1024, "
		  "not -1" },
		{ "{'limits':{'ringfence.io/gpu':1},'requests':{'ringfence.io/gpu':2}}",
		  "container \"c\": ringfence.io/gpu: the request must equal the limit; set the "
		  "limit and "
		  "leave the request out" },
		{ "{'requests':{'ringfence.io/gpu':1}}",
		  "container \"c\": ringfence.io/gpu: the request must equal the limit; set the "
		  "limit and "
		  "leave the request out" },
		{ "{'limits':{'ringfence.io/gpus':1}}",
		  "container \"c\": resources.limits.ringfence.io/gpus: there is no such resource; "
		  "there "
		  "are ringfence.io/gpu, ringfence.io/gpu-memory and ringfence.io/gpu-compute" },
		{ "{'limits':{'ringfence.io/gpu':[1]}}",
		  "container \"c\": ringfence.io/gpu: limit must be a whole number from 0 to 1024, "
		  "not " },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_err err = RF_ERR_INIT;
		struct rf_gpu_ask got = { .cards = -7 };

		assert_int_equal(ask(rows[i].resources, &got, &err), -RF_INVALID);
		assert_string_equal(err.msg, rows[i].message);
		assert_int_equal(got.cards, -7);
	}
}

/* --- other names of whole cards ---------------------------------------------------------- */

static int default_names(void **state)
{
	return rf_gpu_names_set(RF_LIT("nvidia.com/gpu"), NULL);
}

static void whole_cards_may_be_asked_for_by_another_name(void **state)
{
	struct rf_gpu_ask got = { 0 };

	assert_string_equal(rf_gpu_name(0), "nvidia.com/gpu"); /* unless something else is said */
	assert_null(rf_gpu_name(1));
	assert_int_equal(ask("{'limits':{'nvidia.com/gpu':'2'},'requests':{'nvidia.com/gpu':'2'}}",
			     &got, NULL),
			 0);
	assert_int_equal(got.cards, 2);
	assert_string_equal(got.name, "nvidia.com/gpu");
	assert_int_equal(ask("{'limits':{'ringfence.io/gpu':1,'nvidia.com/gpu':0}}", &got, NULL),
			 0);
	assert_int_equal(got.cards, 1);
	assert_string_equal(got.name, RF_RES_GPU);
	assert_int_equal(ask("{'limits':{'ringfence.io/gpu-memory':'1Gi'}}", &got, NULL), 0);
	assert_null(got.name);
	assert_int_equal(ask("{'limits':{'example.com/gpu':'1'}}", &got, NULL), 0);
	assert_false(rf_gpu_ask_any(&got));

	assert_int_equal(rf_gpu_names_set(RF_LIT("example.com/gpu, amd.com/gpu"), NULL), 0);
	assert_int_equal(ask("{'limits':{'amd.com/gpu':'1'}}", &got, NULL), 0);
	assert_string_equal(got.name, "amd.com/gpu");
	assert_int_equal(ask("{'limits':{'nvidia.com/gpu':'1'}}", &got, NULL), 0);
	assert_false(rf_gpu_ask_any(&got));

	assert_int_equal(rf_gpu_names_set(RF_STR_EMPTY, NULL), 0);
	assert_null(rf_gpu_name(0));
}

static void a_container_asks_by_one_name(void **state)
{
	static const struct {
		const char *resources, *message;
	} rows[] = {
		{ "{'limits':{'ringfence.io/gpu':1,'nvidia.com/gpu':1}}",
		  "container \"c\": nvidia.com/gpu: whole cards are asked for by one name, and "
		  "ringfence.io/gpu is there too; remove one" },
		{ "{'limits':{'nvidia.com/gpu':1,'ringfence.io/gpu-memory':'1Gi'}}",
		  "container \"c\": nvidia.com/gpu: a container asks for whole cards or for a "
		  "share, not for both; remove one" },
		{ "{'requests':{'nvidia.com/gpu':1}}",
		  "container \"c\": nvidia.com/gpu: the request must equal the limit; set the "
		  "limit and leave the request out" },
		{ "{'limits':{'nvidia.com/gpu':'1500m'}}",
		  "container \"c\": nvidia.com/gpu: limit must be a whole number from 0 to 1024, "
		  "not 1500m" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_err err = RF_ERR_INIT;
		struct rf_gpu_ask got = { 0 };

		assert_int_equal(ask(rows[i].resources, &got, &err), -RF_INVALID);
		assert_string_equal(err.msg, rows[i].message);
	}
}

static void names_that_mean_something_else_are_refused(void **state)
{
	static const char *const bad[] = {
		"gpu",
		"nvidia.com/",
		"/gpu",
		"nvidia.com/gpu,",
		"nvidia.com/gpu,nvidia.com/gpu",
		"NVIDIA.com/gpu",
		"nvidia.com/g pu",
		"a/b/c",
		"requests.nvidia.com/gpu",
		"kubernetes.io/gpu",
		"deviceclass.resource.kubernetes.io/gpu.ringfence.io",
		"k8s.io/gpu",
		"ringfence.io/gpu",
		"x.ringfence.io/gpu",
		"a.io/1,a.io/2,a.io/3,a.io/4,a.io/5",
	};
	char longest[400] = "nvidia.com/";

	for (size_t i = 0; i < RF_COUNT(bad); i++) {
		struct rf_err err = RF_ERR_INIT;

		assert_int_equal(rf_gpu_names_set(rf_str(bad[i]), &err), -RF_INVALID);
		assert_true(err.msg[0] != 0);
		assert_string_equal(rf_gpu_name(0), "nvidia.com/gpu");
		assert_null(rf_gpu_name(1));
	}
	memset(longest + 11, 'a', 300);
	assert_int_equal(rf_gpu_names_set(rf_str(longest), NULL), -RF_INVALID);
	assert_int_equal(rf_gpu_names_set(RF_LIT("notringfence.io/gpu"), NULL), 0);
}

static void a_pod_asks_for_the_sum_of_its_containers(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_ask got = { 0 };
	struct rf_json *pod = rf_json_make(
		&a, "{'spec':{'containers':[{'resources':{'limits':{'ringfence.io/gpu':1}}},"
		    "{'resources':{'limits':{'ringfence.io/gpu-memory':'2Gi',"
		    "'ringfence.io/gpu-compute':10}}},{'resources':{'limits':{'nvidia.com/"
		    "gpu':2}}}]}}");

	assert_int_equal(rf_gpu_ask_of_pod(pod, &got, NULL), 0);
	assert_int_equal(got.cards, 3);
	assert_null(got.name);
	assert_int_equal(got.share_bytes, 2 * GI);
	assert_int_equal(got.share_milli, 100);
}

static void only_ordinary_containers_may_ask(void **state)
{
	static const char *const pods[] = {
		"{'spec':{'initContainers':[{'name':'i','resources':{'limits':{'ringfence.io/"
		"gpu':1}}}]}}",
		"{'spec':{'ephemeralContainers':[{'name':'e','resources':{'limits':{'ringfence.io/"
		"x':1}}}]}}",
		"{'spec':{'resources':{'limits':{'ringfence.io/gpu':1}},'containers':[]}}",
		"{'spec':{'initContainers':[{'name':'i','resources':{'requests':{'nvidia.com/"
		"gpu':1}}}]}}",
	};
	rf_auto(arena) none = RF_ARENA_INIT;
	struct rf_gpu_ask nothing = { 0 };

	assert_int_equal(
		rf_gpu_ask_of_pod(rf_json_make(&none, "{'spec':{'initContainers':[{'name':'i',"
						      "'resources':{'limits':{'nvidia.com/gpu':"
						      "'0'}}}]}}"),
				  &nothing, NULL),
		0);

	for (size_t i = 0; i < RF_COUNT(pods); i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_gpu_ask got = { 0 };
		struct rf_err err = RF_ERR_INIT;

		assert_int_equal(rf_gpu_ask_of_pod(rf_json_make(&a, pods[i]), &got, &err),
				 -RF_INVALID);
		assert_non_null(strstr(err.msg, "move the limit"));
	}
}

/* --- MIG slices --------------------------------------------------------------------------- */

static void slices_are_read_by_their_profile(void **state)
{
	struct rf_gpu_ask got = { 0 };

	assert_int_equal(ask("{'limits':{'ringfence.io/mig-1g.10gb':'2'}}", &got, NULL), 0);
	assert_int_equal(got.slices, 2);
	assert_true(rf_str_is(got.profile, "1g.10gb"));
	assert_true(rf_gpu_ask_any(&got));
	assert_int_equal(got.cards, 0);
	assert_int_equal(ask("{'limits':{'nvidia.com/mig-1g.18gb.me':1},'requests':{'nvidia.com/mig-1g.18gb.me':1}}",
			     &got, NULL),
			 0);
	assert_int_equal(got.slices, 1);
	assert_true(rf_str_is(got.profile, "1g.18gb+me")); /* as the driver has it */
	/* Somebody else's manifest that asks for none. */
	assert_int_equal(ask("{'limits':{'nvidia.com/mig-9g.9gb':'0','ringfence.io/gpu':1}}", &got, NULL), 0);
	assert_int_equal(got.slices, 0);
	assert_int_equal(got.cards, 1);
}

static void slices_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		const char *resources, *message;
	} rows[] = {
		{ "{'limits':{'ringfence.io/mig-9g.10gb':1}}",
		  "container \"c\": ringfence.io/mig-9g.10gb: no card that ringfence knows has that MIG profile; "
		  "write one as in ringfence.io/mig-1g.10gb" },
		{ "{'limits':{'nvidia.com/mig-1g.10gb+me':1}}",
		  "container \"c\": nvidia.com/mig-1g.10gb+me: no card that ringfence knows has that MIG profile; "
		  "write one as in ringfence.io/mig-1g.10gb" },
		{ "{'limits':{'ringfence.io/mig-1g.10gb':1,'ringfence.io/mig-2g.20gb':1}}",
		  "container \"c\": ringfence.io/mig-2g.20gb: slices are asked for by one name and of one profile; "
		  "remove the others" },
		{ "{'limits':{'ringfence.io/mig-1g.10gb':1,'ringfence.io/gpu':1}}",
		  "container \"c\": ringfence.io/gpu: a container asks for whole cards, for a share or for MIG "
		  "slices, for one of these; remove the others" },
		{ "{'limits':{'ringfence.io/mig-1g.10gb':1,'ringfence.io/gpu-memory':'1Gi'}}",
		  "container \"c\": ringfence.io/gpu-memory: a container asks for whole cards, for a share or for "
		  "MIG slices, for one of these; remove the others" },
		{ "{'limits':{'ringfence.io/mig-1g.10gb':'1500m'}}",
		  "container \"c\": ringfence.io/mig-1g.10gb: limit must be a whole number from 0 to 1024, not "
		  "1500m" },
		{ "{'limits':{'ringfence.io/mig-1g.10gb':1},'requests':{'ringfence.io/mig-1g.10gb':2}}",
		  "container \"c\": ringfence.io/mig-1g.10gb: the request must equal the limit; set the limit and "
		  "leave the request out" },
		{ "{'requests':{'nvidia.com/mig-1g.10gb':2}}",
		  "container \"c\": MIG slices: the request must equal the limit; set the limit and leave the "
		  "request out" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_err err = RF_ERR_INIT;
		struct rf_gpu_ask got = { .slices = -7 };

		assert_int_equal(ask(rows[i].resources, &got, &err), -RF_INVALID);
		assert_string_equal(err.msg, rows[i].message);
		assert_int_equal(got.slices, -7);
	}
}

static void a_pods_slices_are_added_up_and_init_containers_have_none(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_ask got = { 0 };
	struct rf_json *pod = rf_json_make(
		&a, "{'spec':{'containers':[{'name':'a','resources':{'limits':{'ringfence.io/mig-1g.10gb':2}}},"
		    "{'name':'b','resources':{'limits':{'ringfence.io/gpu':1}}},"
		    "{'name':'c','resources':{'limits':{'nvidia.com/mig-1g.10gb':1}}}]}}");

	assert_int_equal(rf_gpu_ask_of_pod(pod, &got, NULL), 0);
	assert_int_equal(got.slices, 3);
	assert_int_equal(got.cards, 1); /* what quotas count is not touched by slices */
	assert_true(rf_str_is(got.profile, "1g.10gb"));
	pod = rf_json_make(&a, "{'spec':{'initContainers':[{'name':'a','resources':{'limits':"
			       "{'nvidia.com/mig-1g.10gb':2}}}]}}");
	assert_int_equal(rf_gpu_ask_of_pod(pod, &got, NULL), -RF_INVALID);
}

static void slices_need_a_tenant_that_meets_others_on_a_card(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pod = rf_json_make(&a, "{'metadata':{'name':'train'}}");
	struct rf_gpu_ask slice = { .slices = 1, .profile = RF_LIT("1g.10gb") };
	struct rf_err err = RF_ERR_INIT;

	for (int i = RF_ISOLATION_RACK; i <= RF_ISOLATION_COOPERATIVE; i++) {
		struct rf_tenant t = { .name = RF_LIT("team-a"), .isolation = (enum rf_isolation)i };

		assert_int_equal(rf_tenant_allows(&t, pod, &slice, &err),
				 i < RF_ISOLATION_SLICE ? -RF_FORBIDDEN : 0);
	}
	assert_string_equal(err.msg, "pod train: asks for MIG slices, and tenant team-a has isolation gpu, which puts "
				     "nobody else on its cards; ask for whole cards (ringfence.io/gpu), or have the "
				     "administrator set isolation slice in Tenant team-a");
}

static void a_share_needs_a_tenant_that_shares(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pod =
		rf_json_make(&a, "{'metadata':{'name':'train','namespace':'team-a'}}");
	struct rf_gpu_ask share = { .share_bytes = GI }, card = { .cards = 1 };

	for (int i = RF_ISOLATION_RACK; i <= RF_ISOLATION_COOPERATIVE; i++) {
		struct rf_tenant t = { .name = RF_LIT("team-a"),
				       .isolation = (enum rf_isolation)i };
		struct rf_err err = RF_ERR_INIT;
		bool shares = i == RF_ISOLATION_SHARE || i == RF_ISOLATION_COOPERATIVE;

		assert_int_equal(rf_tenant_allows(&t, pod, &card, &err), 0);
		assert_int_equal(rf_tenant_allows(&t, pod, &share, &err),
				 shares ? 0 : -RF_FORBIDDEN);
		if (!shares)
			assert_non_null(strstr(err.msg, "ask for whole cards"));
	}
}

static void claims_are_named_after_pod_and_uid_and_fit(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	char longest[254] = { 0 };
	struct rf_str name;

	name = rf_pod_claim_name(&a, rf_json_make(&a, "{'metadata':{'name':'train','uid':"
						      "'0f8fad5b-d9cb-469f-a165-70867728950e'}}"));
	assert_true(rf_str_is(name, "train-0f8fad5b"));
	memset(longest, 'a', 253);
	longest[242] = '.';
	longest[243] = '-';
	name = rf_pod_claim_name(
		&a, rf_json_make(&a, "{'metadata':{'name':%s,'uid':'12345678-9'}}", longest));
	assert_true(name.n <= 253);
	assert_true(rf_str_is_dns_subdomain(name));
	assert_true(rf_str_ends(name, RF_LIT("a-12345678")));
}

static void ended_pods_hold_nothing(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	assert_true(rf_pod_counts(rf_json_make(&a, "{}")));
	assert_true(rf_pod_counts(rf_json_make(&a, "{'status':{'phase':'Running'}}")));
	assert_false(rf_pod_counts(rf_json_make(&a, "{'status':{'phase':'Succeeded'}}")));
	assert_false(rf_pod_counts(rf_json_make(&a, "{'status':{'phase':'Failed'}}")));
}

/* --- objects ----------------------------------------------------------------------------- */

static const struct rf_json *find(const struct rf_json *all, const char *kind, const char *ns)
{
	for (size_t i = 0; i < rf_json_len(all); i++) {
		const struct rf_json *o = rf_json_item(all, i);

		if (rf_str_is(rf_json_str_at(o, "kind"), kind) &&
		    rf_str_is(rf_json_str_at(o, "metadata", "namespace"), ns))
			return o;
	}
	return NULL;
}

static void a_tenant_becomes_fenced_namespaces_and_a_queue(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *tenant = rf_json_make(
		&a,
		"{'metadata':{'name':'team-a'},'spec':{'owners':[{'kind':'User','name':'alice'}],"
		"'namespaces':['x','y'],'quota':{'gpus':2,'gpuMemory':'1536Mi'}}}");
	struct rf_tenant t = { 0 };
	const struct rf_json *all, *o;

	assert_int_equal(rf_tenant_parse(&a, tenant, &t, NULL), 0);
	all = rf_tenant_objects(&a, tenant, &t, &(struct rf_str)RF_LIT("team-a-night"), 1);
	assert_int_equal(rf_json_len(all), 13);
	for (size_t i = 0; i < rf_json_len(all); i++)
		assert_true(rf_str_is(
			rf_json_str_at(rf_json_item(all, i), "metadata", "labels", RF_TENANT_LABEL),
			"team-a"));
	o = find(all, "Namespace", "");
	assert_true(rf_str_is(
		rf_json_str_at(o, "metadata", "labels", "pod-security.kubernetes.io/enforce"),
		"restricted"));
	o = find(all, "ResourceQuota", "y");
	assert_true(
		rf_json_equal(rf_json_at(o, "spec", "hard"),
			      rf_json_make(&a, "{'requests.ringfence.io/gpu':'2',"
					       "'requests.nvidia.com/gpu':'2',"
					       "'requests.ringfence.io/gpu-memory':'1536Mi'}")));
	o = find(all, "RoleBinding", "x");
	assert_int_equal(rf_json_len(rf_json_at(o, "subjects")), 3);
	assert_true(rf_str_is(rf_json_str_at(o, "roleRef", "name"), "ringfence-tenant-owner"));
	assert_non_null(find(all, "ServiceAccount", "y"));
	/* Its people see its queues, and may do nothing else with them. */
	assert_true(rf_json_equal(rf_json_at(find(all, "ClusterRole", ""), "rules"),
				  rf_json_make(&a, "[{'apiGroups':['ringfence.io'],'resources':['queues'],'resourceNames':"
						   "['team-a'],'verbs':['get']}]")));
	assert_true(rf_str_is(rf_json_str_at(find(all, "ClusterRole", ""), "metadata", "name"), "ringfence:queue:team-a"));
	assert_true(rf_json_equal(rf_json_at(find(all, "ClusterRoleBinding", ""), "subjects"), rf_json_at(o, "subjects")));
	assert_true(rf_json_equal(rf_json_at(find(all, "ClusterRoleBinding", ""), "roleRef"),
				  rf_json_make(&a, "{'apiGroup':'rbac.authorization.k8s.io','kind':'ClusterRole','name':"
						   "'ringfence:queue:team-a'}")));
	/* Of a second queue too, each by a role of its name. */
	o = rf_json_item(all, 11);
	assert_true(rf_str_is(rf_json_str_at(o, "metadata", "name"), "ringfence:queue:team-a-night"));
	assert_true(rf_json_equal(rf_json_at(o, "rules"),
				  rf_json_make(&a, "[{'apiGroups':['ringfence.io'],'resources':['queues'],'resourceNames':"
						   "['team-a-night'],'verbs':['get']}]")));
	o = rf_json_item(all, 12);
	assert_true(rf_str_is(rf_json_str_at(o, "roleRef", "name"), "ringfence:queue:team-a-night"));
	assert_true(rf_json_equal(rf_json_at(o, "subjects"), rf_json_at(find(all, "ClusterRoleBinding", ""), "subjects")));
	assert_true(rf_json_equal(
		rf_json_at(find(all, "Queue", ""), "spec"),
		rf_json_make(&a, "{'tenant':'team-a','weight':1,'resources':[{'name':'cards','limit':2},"
				 "{'name':'share-bytes','limit':1610612736}]}")));
}

/* The quota is the queue's limit whatever the queue says; less it may say. */
static void a_tenants_queue_says_what_is_guaranteed_and_lent(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *tenant = rf_json_make(
		&a, "{'metadata':{'name':'team-a'},'spec':{'quota':{'gpus':8},'queue':{'weight':2,'parent':"
		    "'org','guaranteed':{'gpus':4},'resources':[{'name':'cpu','limit':4},{'name':'cards/h100','limit':'3'},"
		    "{'name':'cards','limit':100,'lendingLimit':1,'borrowingLimit':2}]}}}");
	struct rf_tenant t = { 0 };

	assert_int_equal(rf_tenant_parse(&a, tenant, &t, NULL), 0);
	assert_int_equal(t.queue_amounts[0].limit, 4000);
	assert_true(rf_json_equal(
		rf_json_at(find(rf_tenant_objects(&a, tenant, &t, NULL, 0), "Queue", ""), "spec"),
		rf_json_make(&a, "{'tenant':'team-a','weight':2,'parent':'org','resources':[{'name':'cpu','limit':4},"
				 "{'name':'cards/h100','limit':3},{'name':'cards','guaranteed':4,'limit':8,"
				 "'lendingLimit':1,'borrowingLimit':2},{'name':'share-bytes','limit':0}]}")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tenant_without_words_gets_the_careful_defaults),
		cmocka_unit_test(a_tenant_with_words_is_read_as_written),
		cmocka_unit_test(a_tenant_that_is_wrong_is_refused_with_the_field),
		cmocka_unit_test(whole_cards_and_shares_are_read_from_limits),
		cmocka_unit_test(asks_that_make_no_sense_are_refused_with_a_remedy),
		cmocka_unit_test_teardown(whole_cards_may_be_asked_for_by_another_name,
					  default_names),
		cmocka_unit_test(a_container_asks_by_one_name),
		cmocka_unit_test_teardown(names_that_mean_something_else_are_refused,
					  default_names),
		cmocka_unit_test(a_pod_asks_for_the_sum_of_its_containers),
		cmocka_unit_test(only_ordinary_containers_may_ask),
		cmocka_unit_test(slices_are_read_by_their_profile),
		cmocka_unit_test(slices_that_make_no_sense_are_refused),
		cmocka_unit_test(a_pods_slices_are_added_up_and_init_containers_have_none),
		cmocka_unit_test(slices_need_a_tenant_that_meets_others_on_a_card),
		cmocka_unit_test(a_share_needs_a_tenant_that_shares),
		cmocka_unit_test(claims_are_named_after_pod_and_uid_and_fit),
		cmocka_unit_test(ended_pods_hold_nothing),
		cmocka_unit_test(a_tenant_becomes_fenced_namespaces_and_a_queue),
		cmocka_unit_test(a_tenants_queue_says_what_is_guaranteed_and_lent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
