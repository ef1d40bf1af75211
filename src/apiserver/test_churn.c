/* Promises about every interleaving and every input, tried at random; the seed is printed. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "apiserver/test_world.h"

static struct world w;
static struct rf_prng rng;

#define MAPS "/api/v1/namespaces/default/configmaps"
#define NAMES 8

static int start(void **state)
{
	const char *seed = getenv("SEED");

	rng.state = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
	printf("# SEED=%llu\n", (unsigned long long)rng.state);
	world_start(&w);
	return 0;
}

static int stop(void **state)
{
	world_stop(&w);
	return 0;
}

/* --- watches -------------------------------------------------------------------------------- */

static void random_change(int i)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_str path;
	struct rf_json *o;
	char name[16], value[16];

	snprintf(name, sizeof(name), "m%llu", (unsigned long long)rf_prng_below(&rng, NAMES));
	snprintf(value, sizeof(value), "%d", i);
	path = rf_arena_printf(&w.a, MAPS "/%s", name);
	o = rf_json_make(&w.a, "{'metadata':{'name':%s,'labels':{'odd':%s}},'data':{'i':%s}}", name,
			 rf_prng_below(&rng, 2) ? "yes" : "no", value);
	switch (rf_prng_below(&rng, 3)) {
	case 0:
		rf_kube_create(w.admin, &w.a, rf_str(MAPS), o, NULL, &err);
		break;
	case 1:
		rf_kube_update(w.admin, &w.a, path, o, NULL, &err);
		break;
	default:
		rf_kube_delete(w.admin, &w.a, path, -1, true, &err);
	}
}

/* What a client knows that listed nothing and believed every event. */
static void replay(struct rf_map *known, const struct rf_json *events)
{
	int64_t rv = 0;

	for (size_t i = 0; i < rf_json_len(events); i++) {
		const struct rf_json *e = rf_json_item(events, i), *o = rf_json_at(e, "object");
		struct rf_str type = rf_json_str_at(e, "type");
		bool had = rf_map_get(known, rf_kube_name(o)) != NULL;

		assert_true(rf_kube_rv(o) > rv);
		rv = rf_kube_rv(o);
		/* ADDED exactly when it was not there, the others exactly when it was. */
		assert_int_equal(rf_str_is(type, "ADDED"), !had);
		if (rf_str_is(type, "DELETED"))
			rf_map_del(known, rf_kube_name(o));
		else
			rf_map_set(known, rf_kube_name(o), rf_json_at(e, "object"));
	}
}

static void compare(const char *selector, long long from)
{
	struct rf_json *list = world_get(&w, rf_arena_printf(&w.a, MAPS "?%s", selector).p);
	struct rf_json *items = rf_json_at(list, "items");
	rf_auto(map) known = RF_MAP_INIT;

	/* The watch ends by itself: whatever it has told by then is all there was. */
	replay(&known,
	       world_watch(&w,
			   rf_arena_printf(&w.a,
					   MAPS "?watch=1&timeoutSeconds=1&resourceVersion=%lld&%s",
					   from, selector)
				   .p,
			   SIZE_MAX));
	assert_int_equal(known.n, rf_json_len(items));
	for (size_t i = 0; i < rf_json_len(items); i++)
		assert_true(
			rf_json_equal(rf_json_item(items, i),
				      rf_map_get(&known, rf_kube_name(rf_json_item(items, i)))));
}

static void a_watch_from_any_point_ends_where_a_list_is(void **state)
{
	long long from = (long long)rf_kube_rv(world_get(&w, MAPS "?limit=1"));

	for (int i = 0; i < 400; i++)
		random_change(i);
	compare("", from);
	compare("labelSelector=odd%3Dyes", from);
	compare("fieldSelector=metadata.name%3Dm3", from);
}

/* --- inputs --------------------------------------------------------------------------------- */

static const struct {
	const char *path, *object;
} SAMPLES[] = {
	{ "/api/v1/namespaces/default/pods",
	  "{'metadata':{'generateName':'f-','labels':{'a':'b'},'finalizers':['a/"
	  "b'],'ownerReferences':[{"
	  "'apiVersion':'v1','kind':'Pod','name':'x','uid':'y'}]},'spec':{'containers':[{'name':'c'"
	  ",'image':'x',"
	  "'resources':{'limits':{'ringfence.io/"
	  "gpu':1,'cpu':'1'},'requests':{'cpu':'1'}},'env':[{'name':'A',"
	  "'value':'b'}],'volumeMounts':[{'name':'v','mountPath':'/"
	  "v'}],'securityContext':{'capabilities':{"
	  "'drop':['ALL']},'seccompProfile':{'type':'RuntimeDefault'}}}],'initContainers':[{'name':"
	  "'i',"
	  "'image':'x'}],'volumes':[{'name':'v','emptyDir':{'medium':'Memory'}}],'tolerations':[{"
	  "'operator':'Exists'}],'terminationGracePeriodSeconds':3}}" },
	{ "/apis/ringfence.io/v1alpha1/tenants",
	  "{'metadata':{'generateName':'f-'},'spec':{'owners':[{'kind':'User','name':'a'}],'"
	  "namespaces':['n'],"
	  "'isolation':'share','trustDomain':'t','quota':{'gpus':1,'gpuMemory':'1Gi','pods':2},'"
	  "queue':{"
	  "'weight':1}}}" },
	{ "/apis/ringfence.io/v1alpha1/namespaces/default/podgroups",
	  "{'metadata':{'generateName':'f-'},'spec':{'minMember':[1,{'a':'b'}]},'status':{}}" },
	{ "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	  "{'metadata':{'generateName':'f-'},'rules':[{'apiGroups':[''],'resources':['pods/"
	  "x'],'verbs':['get'],"
	  "'resourceNames':['a']},{'nonResourceURLs':['/x*'],'verbs':['get']}]}" },
	{ "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
	  "{'metadata':{'generateName':'f-'},'roleRef':{'kind':'ClusterRole','name':'view'},'"
	  "subjects':[{"
	  "'kind':'User','name':'a'},{'kind':'ServiceAccount','name':'b','namespace':'c'}]}" },
	{ "/api/v1/namespaces/default/resourcequotas",
	  "{'metadata':{'generateName':'f-'},'spec':{'hard':{'pods':'100000','requests.cpu':'1e9',"
	  "'count/secrets':'99999'}}}" },
	{ "/api/v1/namespaces/default/secrets", "{'metadata':{'generateName':'f-'},'data':{'a':'"
						"YWJj'},'stringData':{'b':'c'},'type':'x'}" },
	{ "/api/v1/nodes",
	  "{'metadata':{'generateName':'f-'},'status':{'addresses':[{'type':'InternalIP',"
	  "'address':'::1'}],'conditions':[{'type':'Ready','status':'True'}]}}" },
	{ "/api/v1/namespaces/default/events",
	  "{'metadata':{'generateName':'f-'},'involvedObject':{'kind':'Pod','namespace':'default'},"
	  "'lastTimestamp':'2026-01-01T00:00:00Z','count':1}" },
	{ "/apis/resource.k8s.io/v1/resourceslices",
	  "{'metadata':{'generateName':'f-'},'spec':{'driver':'d','nodeName':'n','pool':{'name':'p'"
	  "},"
	  "'devices':[{'name':'g','capacity':{'memory':{'value':'1Gi'}},'attributes':{'a':{'int':1}"
	  "}}]}}" },
	{ "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
	  "{'spec':{'resourceAttributes':{'verb':'get','resource':'pods'}}}" },
};

static struct rf_json *random_value(void)
{
	static const char *const STRINGS[] = { "",     "x",   "-1",    "1Gi",
					       "9e99", "/..", "a/b/c", "\xf0\x9f\x90\x92" };

	switch (rf_prng_below(&rng, 7)) {
	case 0:
		return rf_json_null(&w.a);
	case 1:
		return rf_json_bool(&w.a, true);
	case 2:
		return rf_json_number(&w.a, (int64_t)rf_prng_next(&rng));
	case 3:
		return rf_json_array(&w.a);
	case 4:
		return rf_json_object(&w.a);
	case 5:
		return rf_json_make(&w.a, "[{'name':[1,null]},'x',{}]");
	default:
		return rf_json_string(&w.a,
				      rf_str(STRINGS[rf_prng_below(&rng, RF_COUNT(STRINGS))]));
	}
}

/* Goes down at random and puts something else where it ends. */
static void mutate(struct rf_json *v)
{
	size_t i = v->n > 0 ? (size_t)rf_prng_below(&rng, v->n) : 0;
	bool here = rf_prng_below(&rng, 4) == 0;

	if (v->n == 0)
		return;
	if (v->type == RF_JSON_OBJECT) {
		if (here || v->members[i].value->type < RF_JSON_ARRAY)
			v->members[i].value = random_value();
		else
			mutate(v->members[i].value);
	} else if (v->type == RF_JSON_ARRAY) {
		if (here || v->items[i]->type < RF_JSON_ARRAY)
			v->items[i] = random_value();
		else
			mutate(v->items[i]);
	}
}

static void whatever_is_sent_the_answer_is_an_ordinary_one(void **state)
{
	for (int i = 0; i < 3000; i++) {
		size_t s = (size_t)rf_prng_below(&rng, RF_COUNT(SAMPLES));
		struct rf_json *o = rf_json_make(&w.a, SAMPLES[s].object);
		struct rf_err err = RF_ERR_INIT;

		for (uint64_t n = 1 + rf_prng_below(&rng, 3); n > 0; n--)
			mutate(o);
		if (world_try(w.admin, &w, SAMPLES[s].path, o, &err) == 0)
			continue;
		switch (err.code) {
		case RF_BAD_REQUEST:
		case RF_INVALID:
		case RF_FORBIDDEN:
		case RF_NOT_FOUND:
		case RF_EXISTS:
			break;
		default:
			fail_msg("%s <- %.*s", err.msg, RF_STR(rf_json_text_of(&w.a, o)));
		}
	}
}

/* What mutation let in must not trip those who read it back. */
static void everything_let_in_can_be_listed_and_deleted(void **state)
{
	for (size_t s = 0; s < RF_COUNT(SAMPLES) - 1; s++) {
		struct rf_err err = RF_ERR_INIT;
		struct rf_json *items = rf_json_at(world_get(&w, SAMPLES[s].path), "items");

		for (size_t i = 0; i < rf_json_len(items); i++) {
			const struct rf_json *o = rf_json_item(items, i);
			struct rf_str path = rf_arena_printf(&w.a, "%s/%.*s", SAMPLES[s].path,
							     RF_STR(rf_kube_name(o)));

			if (!rf_str_starts(rf_kube_name(o), RF_LIT("f-")))
				continue;
			assert_ok(rf_kube_patch(w.admin, &w.a, path, RF_PATCH_MERGE,
						rf_json_make(&w.a, "{'metadata':{'finalizers':%j}}",
							     rf_json_null(&w.a)),
						NULL, &err),
				  err);
			assert_ok(rf_kube_delete(w.admin, &w.a, path, 0, true, &err), err);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_watch_from_any_point_ends_where_a_list_is),
		cmocka_unit_test(whatever_is_sent_the_answer_is_an_ordinary_one),
		cmocka_unit_test(everything_let_in_can_be_listed_and_deleted),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
