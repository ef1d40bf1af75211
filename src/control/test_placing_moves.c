/* Pools, and whole cards made by moving: what a plan says, what it leaves alone, and how it is carried out. */
#include "control/test_placing_world.h"

/* --- pools ------------------------------------------------------------------------------------------- */

static void add_pool(struct world *w, const char *placement)
{
	put(w, "/apis/ringfence.io/v1alpha1/gpupools/h100",
	    rf_json_make(&w->a, "{'kind':'GPUPool','metadata':{'name':'h100'},'spec':{'placement':%s}}", placement));
}

/* Two pods on two machines of the pool: together or not. */
static bool together(struct world *w)
{
	add_pod(w, "red", "a", 1, NULL);
	run(w);
	add_pod(w, "red", "b", 1, NULL);
	run(w);
	assert_int_equal(bound(w, "red"), 2);
	return rf_str_eq(node_of(w, "red", "a"), node_of(w, "red", "b"));
}

static void a_pool_says_how_its_nodes_are_used(void **state)
{
	static const struct {
		const char *placement, *then; /* then: as it is changed to, "": deleted */
		bool together;
	} cases[] = { { "spread", NULL, false },   { "pack", NULL, true },   { "pack", "spread", false },
		      { "spread", "pack", true }, { "spread", "", true }, { "spread", "nonsense", true } };

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		for (int first = 0; first < 2; first++) { /* told before its nodes or after */
			void *own = NULL;
			struct world *w = NULL;

			set_up(&own);
			w = own;
			add_tenant(w, "red", "{'quota':{'gpus':8}}");
			if (first)
				add_pool(w, cases[i].placement);
			for (int k = 0; k < 2; k++) {
				struct rf_json *o = NULL;

				add_node(w, text(w, "n%d", k), 4);
				o = rf_json_clone(&w->a, get(w, text(w, "/api/v1/nodes/n%d", k)));
				rf_json_set_str(&w->a, rf_json_ensure(&w->a, o, "metadata", "labels"), RF_POOL_LABEL, RF_LIT("h100"));
				put(w, text(w, "/api/v1/nodes/n%d", k), o);
			}
			deliver(w);
			if (!first)
				add_pool(w, cases[i].placement);
			deliver(w);
			if (cases[i].then != NULL && cases[i].then[0] == '\0')
				drop(w, "/apis/ringfence.io/v1alpha1/gpupools/h100");
			else if (cases[i].then != NULL)
				add_pool(w, cases[i].then);
			assert_int_equal(together(w), cases[i].together);
			tear_down(&own);
		}
	}
}

/* --- whole cards by moving --------------------------------------------------------------------------- */

/* A share of 8Gi on a card, bound and running for fifty minutes. */
static struct rf_json *add_share_on(struct world *w, const char *name, const char *node, const char *card, const char *maker)
{
	struct rf_sched_grant g = { .container = RF_LIT("main"), .device = rf_str(card), .bytes = INT64_C(8) << 30, .milli = 100 };
	struct rf_json *pod = rf_json_make(
		&w->a,
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':%s,'namespace':'red','uid':%s,'creationTimestamp':"
		"'2026-11-15T04:00:00Z'},'spec':{'nodeName':%s,'containers':[{'name':'main','resources':{'limits':"
		"{'ringfence.io/gpu-memory':'8Gi','ringfence.io/gpu-compute':'10'}}}]},'status':{'phase':'Running',"
		"'startTime':%S}}",
		name, text(w, "%s-00000-uid", name), node, rf_time_format(&w->a, w->now - 3000000));
	struct rf_core_decision d = { .uid = rf_kube_uid(pod),
				      .ns = RF_LIT("red"),
				      .name = rf_str(name),
				      .tenant = RF_LIT("red"),
				      .node = rf_str(node),
				      .grants = &g,
				      .n_grants = 1 };
	struct rf_json *claim = NULL;

	if (maker != NULL)
		rf_json_set(&w->a, rf_json_at(pod, "metadata"), RF_LIT("ownerReferences"),
			    rf_json_make(&w->a, "[{'apiVersion':'apps/v1','kind':%s,'name':'web','uid':'m','controller':true}]", maker));
	claim = rf_json_clone(&w->a, rf_claim_object(&w->a, pod, &d));
	claim = rf_json_clone(&w->a, rf_claim_allocated(&w->a, claim, pod, &d, w->now));
	rf_json_set_str(&w->a, rf_json_at(claim, "metadata"), "uid", rf_str(text(w, "claim-%s", name)));
	put(w, text(w, POD, "red", name), pod);
	put(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s", RF_STR(rf_kube_name(claim))), claim);
	return pod;
}

static struct rf_json *add_share(struct world *w, const char *name, const char *node, const char *maker)
{
	return add_share_on(w, name, node, "gpu-0", maker);
}

/* Three machines of one card, with a little on each. */
static void scattered(struct world *w, const char *maker)
{
	add_tenant(w, "red", "{'isolation':'share','quota':{'gpuMemory':'100Gi'}}");
	for (int i = 0; i < 3; i++) {
		add_node(w, text(w, "n%d", i), 1);
		add_share(w, text(w, "s%d", i), text(w, "n%d", i), maker);
	}
}

static struct rf_json *plan(struct world *w)
{
	struct rf_defragment_opts o = { .now_ms = w->now, .most = 10 };
	struct rf_json *p = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (rf_defragment_plan_by(&w->p.hands, &o, &w->a, &p, &err) < 0)
		fail_msg("%s", err.msg);
	return p;
}

static size_t moves_in(struct world *w)
{
	return rf_json_len(rf_json_at(plan(w), "moves"));
}

static void a_plan_says_what_moves_what_for_and_at_what_cost(void **state)
{
	struct world *w = *state;
	const struct rf_json *p = NULL, *m = NULL;

	scattered(w, "ReplicaSet");
	p = plan(w);
	assert_int_equal(rf_json_len(rf_json_at(p, "moves")), 2);
	m = rf_json_item(rf_json_at(p, "moves"), 0);
	assert_true(rf_str_is(rf_json_str_at(m, "pod"), "s2"));
	assert_true(rf_str_is(rf_json_str_at(m, "namespace"), "red"));
	assert_true(rf_str_is(rf_json_str_at(m, "uid"), "s2-00000-uid"));
	assert_true(rf_str_is(rf_json_str_at(m, "owner"), "ReplicaSet/web"));
	assert_true(rf_str_is(rf_json_str_at(m, "node"), "n2"));
	assert_true(rf_str_is(rf_json_str_at(m, "card"), "gpu-0"));
	assert_true(rf_str_is(rf_json_str_at(m, "roomOn"), "n0"));
	assert_true(rf_str_is(rf_json_str_at(m, "roomOnCard"), "gpu-0"));
	assert_int_equal(rf_json_int(rf_json_at(m, "ranSeconds"), -1), 3000);
	assert_int_equal(rf_json_len(rf_json_at(p, "cards")), 2);
	assert_true(rf_str_is(rf_json_str(rf_json_item(rf_json_at(p, "cards"), 0)), "n2/gpu-0"));
	assert_int_equal(rf_json_len(rf_json_at(p, "machines")), 2);
	assert_int_equal(rf_json_int(rf_json_at(p, "freeCards", "now"), -1), 0);
	assert_int_equal(rf_json_int(rf_json_at(p, "freeCards", "then"), -1), 2);
	assert_int_equal(rf_json_int(rf_json_at(p, "cost", "pods"), -1), 2);
	assert_int_equal(rf_json_int(rf_json_at(p, "cost", "ranSeconds"), -1), 6000);
	assert_int_equal(w->writes, 0);
}

static void what_must_stay_is_in_no_plan(void **state)
{
	static const char *const makers[] = { NULL, "Node", "DaemonSet" };
	struct world *w = *state;

	for (size_t i = 0; i < RF_COUNT(makers); i++) {
		scattered(w, makers[i]);
		assert_int_equal(moves_in(w), 0); /* nobody would make them again; a daemon's would only come back */
	}
	scattered(w, "Job");
	assert_int_equal(moves_in(w), 2);
	/* The first two cannot go: the last has room beside them. */
	for (int i = 0; i < 2; i++) {
		struct rf_json *o = add_share(w, text(w, "s%d", i), text(w, "n%d", i), "Job");

		rf_json_set_str(&w->a, rf_json_ensure(&w->a, o, "metadata", "annotations"), i == 1 ? "ringfence.io/preemptible" : "ringfence.io/min-run-seconds",
				i == 1 ? RF_LIT("false") : RF_LIT("3600"));
	}
	assert_int_equal(moves_in(w), 1);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(plan(w), "moves"), 0), "pod"), "s2"));
	/* Nor what a budget keeps. */
	put(w, "/apis/policy/v1/namespaces/red/poddisruptionbudgets/all",
	    rf_json_make(&w->a, "{'kind':'PodDisruptionBudget','metadata':{'name':'all','namespace':'red'},'spec':{'selector':{}},"
				"'status':{'disruptionsAllowed':0}}"));
	assert_int_equal(moves_in(w), 0);
}

/* What is evicted there goes to the empty machines again. */
static void a_pool_that_is_spread_is_not_made_whole(void **state)
{
	struct world *w = *state;

	scattered(w, "Job");
	for (int i = 0; i < 3; i++)
		rf_json_set_str(&w->a, rf_json_ensure(&w->a, get(w, text(w, "/api/v1/nodes/n%d", i)), "metadata", "labels"),
				RF_POOL_LABEL, RF_LIT("h100"));
	add_pool(w, "spread");
	assert_int_equal(moves_in(w), 0);
	add_pool(w, "pack");
	assert_int_equal(moves_in(w), 2);
}

static void what_another_scheduler_placed_stays(void **state)
{
	struct world *w = *state;

	scattered(w, "Job");
	for (int i = 0; i < 3; i++) {
		struct rf_json *o = add_share(w, text(w, "s%d", i), text(w, "n%d", i), "Job");

		rf_json_set_str(&w->a, rf_json_at(o, "spec"), "schedulerName", RF_LIT("other"));
	}
	assert_int_equal(moves_in(w), 0);
}

static void a_plan_is_carried_out_up_to_the_first_refusal(void **state)
{
	static const struct {
		enum fault fault;
		int code;
		size_t done;
		int evicted;
	} cases[] = { { FAULT_NONE, 0, 2, 2 },
		      { FAULT_REFUSED, RF_EXHAUSTED, 0, 0 }, /* a budget */
		      { FAULT_REFUSED, RF_FORBIDDEN, 0, 0 },
		      { FAULT_REFUSED, RF_NOT_FOUND, 2, 1 }, /* it is gone already */
		      { FAULT_ERROR, RF_INTERNAL, 0, 0 },
		      { FAULT_DONE, RF_INTERNAL, 2, 2 } };

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		void *own = NULL;
		struct world *w = NULL;
		struct rf_err err = RF_ERR_INIT;
		size_t done = 99;
		int rc = 0;

		set_up(&own);
		w = own;
		scattered(w, "ReplicaSet");
		w->fault = cases[i].fault;
		w->code = cases[i].code;
		w->at = cases[i].fault == FAULT_NONE ? NEVER : 1;
		rc = rf_defragment_apply_by(&w->p.hands, &w->a, plan(w), &done, &err);
		assert_int_equal(done, cases[i].done);
		assert_int_equal(w->evicted, cases[i].evicted);
		assert_int_equal(rc, done == 2 ? 0 : -cases[i].code);
		if (rc < 0)
			assert_non_null(strstr(err.msg, "0 of 2 are"));
		tear_down(&own);
	}
}

/* The pod that a controller makes for one that goes. */
static void make_again(struct world *w, const char *name)
{
	struct rf_json *o = rf_json_clone(&w->a, get(w, text(w, POD, "red", name))), *meta = rf_json_at(o, "metadata");

	rf_json_set_str(&w->a, meta, "name", rf_str(text(w, "%s-again", name)));
	rf_json_set_str(&w->a, meta, "uid", rf_str(text(w, "%s-again0-uid", name)));
	rf_json_del(meta, RF_LIT("deletionTimestamp"));
	rf_json_del(rf_json_at(o, "spec"), RF_LIT("nodeName"));
	rf_json_del(o, RF_LIT("status"));
	put(w, text(w, "/api/v1/namespaces/red/pods/%s-again", name), o);
}

static struct rf_str card_of(struct world *w, const char *pod)
{
	struct rf_str name = rf_pod_claim_name(&w->a, get(w, text(w, POD, "red", pod)));
	const struct rf_json *claim =
		get(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s", RF_STR(name)));

	return rf_json_str_at(rf_json_item(rf_json_at(claim, "status", "allocation", "devices", "results"), 0), "device");
}

/* From card to card: what is said of the machine, and that it comes so while the old one is still there. */
static void a_plan_moves_inside_a_machine(void **state)
{
	struct world *w = *state;
	struct rf_err err = RF_ERR_INIT;
	const struct rf_json *p = NULL, *m = NULL;
	size_t done = 0;

	add_tenant(w, "red", "{'isolation':'share','quota':{'gpuMemory':'100Gi'}}");
	add_node(w, "n0", 2);
	add_share_on(w, "s0", "n0", "gpu-0", "ReplicaSet");
	add_share_on(w, "s1", "n0", "gpu-1", "ReplicaSet");
	deliver(w);
	(void)rf_placer_turn(&w->p);
	p = plan(w);
	assert_int_equal(rf_json_len(rf_json_at(p, "moves")), 1);
	m = rf_json_item(rf_json_at(p, "moves"), 0);
	assert_true(rf_str_is(rf_json_str_at(m, "pod"), "s1"));
	assert_true(rf_str_is(rf_json_str_at(m, "card"), "gpu-1"));
	assert_true(rf_str_is(rf_json_str_at(m, "roomOn"), "n0"));
	assert_true(rf_str_is(rf_json_str_at(m, "roomOnCard"), "gpu-0"));
	assert_int_equal(rf_json_len(rf_json_at(p, "cards")), 1);
	assert_int_equal(rf_json_len(rf_json_at(p, "slices")), 0);
	assert_int_equal(rf_json_len(rf_json_at(p, "machines")), 0);
	assert_int_equal(rf_json_int(rf_json_at(p, "freeCards", "then"), -1), 1);
	assert_int_equal(rf_defragment_apply_by(&w->p.hands, &w->a, p, &done, &err), 0);
	assert_int_equal(done, 1);
	make_again(w, "s1");
	deliver(w);
	(void)rf_placer_turn(&w->p);
	assert_true(rf_str_is(card_of(w, "s1-again"), "gpu-0"));
}

/* Who is made again while the one before it still goes must not come back to the card that is to be free. */
static void what_is_made_again_goes_to_the_others(void **state)
{
	struct world *w = *state;
	struct rf_err err = RF_ERR_INIT;
	const struct rf_json *moves = NULL;
	size_t done = 0;

	scattered(w, "ReplicaSet");
	deliver(w);
	(void)rf_placer_turn(&w->p);
	moves = rf_json_at(plan(w), "moves");
	assert_int_equal(rf_defragment_apply_by(&w->p.hands, &w->a, plan(w), &done, &err), 0);
	assert_int_equal(done, 2);
	for (size_t i = 0; i < done; i++) {
		const char *name = rf_arena_cstr(&w->a, rf_json_str_at(rf_json_item(moves, i), "pod"));

		make_again(w, name);
		deliver(w);
		(void)rf_placer_turn(&w->p);
		assert_true(rf_str_is(node_of(w, "red", text(w, "%s-again", name)), "n0"));
	}
}

static void a_plan_needs_all_that_the_scheduler_knows(void **state)
{
	struct world *w = *state;
	struct rf_defragment_opts o = { .now_ms = w->now, .most = 10 };
	struct rf_json *p = NULL;
	struct rf_err err = RF_ERR_INIT;

	scattered(w, "ReplicaSet");
	w->muted = true;
	assert_int_equal(rf_defragment_plan_by(&w->p.hands, &o, &w->a, &p, &err), -RF_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "list tenants"));
	assert_null(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_pool_says_how_its_nodes_are_used),
		TEST(a_plan_says_what_moves_what_for_and_at_what_cost),
		TEST(a_plan_moves_inside_a_machine),
		TEST(what_must_stay_is_in_no_plan),
		TEST(a_pool_that_is_spread_is_not_made_whole),
		TEST(what_another_scheduler_placed_stays),
		TEST(a_plan_is_carried_out_up_to_the_first_refusal),
		TEST(what_is_made_again_goes_to_the_others),
		TEST(a_plan_needs_all_that_the_scheduler_knows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
