/* Evictions, written to an API that is a map of objects: in which order, and what becomes of one that is refused, has no answer, or
 * is the last that a process wrote. */
#include "control/test_placing_world.h"

/* As a Job would: who was evicted is gone, and another comes in its place. */
static size_t replace_evicted(struct world *w)
{
	size_t n = 0;

	for (int i = 0; i < 4; i++) {
		const char *path = text(w, POD, "red", text(w, "w%d", i));

		if (rf_json_at(get(w, path), "metadata", "deletionTimestamp") == NULL)
			continue;
		drop(w, path);
		drop_those(w, text(w, "/resourceclaims/w%d-", i));
		run(w);
		add_pod(w, "red", text(w, "w%d", i), 1, "train");
		n++;
	}
	return n;
}

/* Its claim is deleted at any moment between the decision and its binding, and the process may die right after: it is bound with a claim in
 * the end, or evicted, since without one it would never start; and no half of a gang runs meanwhile. */
static void who_lost_its_claim_does_not_wait_for_good(void **state)
{
	size_t lost = 0;

	for (int k = 0; k < 2 * 14; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		add_group(w, "red", "train", 3); /* the fourth may be gone for a while */
		w->steal = "/resourceclaims/w1-";
		w->steal_at = k / 2 + 1;
		w->fault = k % 2 == 1 ? FAULT_CRASH : FAULT_NONE;
		w->at = w->steal_at + 1;
		run(w);
		w->steal = NULL;
		if (w->dead) {
			restart(w);
			run(w);
		}
		assert_true(bound(w, "red") == 0 || bound(w, "red") >= 3);
		if (replace_evicted(w) > 0) {
			lost++;
			assert_true(first(w, "event ClaimLost", "w1") != SIZE_MAX);
		}
		run(w);
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
	assert_true(lost > 4);
	(void)state;
}

/* Its budget may keep it for days: it is asked again and again, and nothing grows by that. Nor is a server that does not answer asked
 * about one after the other: each would be waited for. */
static void who_lost_its_claim_and_stays_costs_little(void **state)
{
	struct world *w = *state;

	gang_of_four(w);
	run(w);
	w->fault = FAULT_REFUSED;
	w->code = RF_EXHAUSTED;
	w->only = "/eviction";
	w->each = true;
	drop_those(w, "/resourceclaims/");
	for (int i = 0; i < 100; i++) {
		w->now += 5000;
		deliver(w);
		w->p.now_ms = w->now;
		(void)rf_placer_turn(&w->p);
	}
	assert_int_equal(w->evicted, 0);
	assert_in_range(w->p.unclaimed.n, 4, 8);
	w->muted = true;
	w->now += 5000;
	w->p.now_ms = w->now;
	(void)rf_placer_turn(&w->p);
	assert_int_equal(w->in_vain, 1);
	w->muted = w->each = false;
	run(w);
	assert_int_equal(w->evicted, 4);
	assert_int_equal(w->p.unclaimed.n, 0);
}

/* Nobody else's: a pod of another scheduler, one that ended, one of nobody's namespace, one whose claim the watch has yet to show. */
static void who_needs_no_claim_of_ours_is_left_alone(void **state)
{
	struct world *w = *state;
	struct rf_json *o = NULL;

	add_node(w, "n1", 8);
	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	put(w, "/api/v1/namespaces/open", rf_json_make(&w->a, "{'kind':'Namespace','metadata':{'name':'open'}}"));
	add_pod(w, "red", "other", 1, NULL);
	add_pod(w, "red", "ended", 1, NULL);
	add_pod(w, "open", "free", 1, NULL);
	add_pod(w, "red", "cpu", 0, NULL);
	for (size_t i = 0; i < 4; i++) {
		static const char *const at[][2] = { { "red", "other" }, { "red", "ended" }, { "open", "free" }, { "red", "cpu" } };

		o = rf_json_clone(&w->a, get(w, text(w, POD, at[i][0], at[i][1])));
		rf_json_set_str(&w->a, rf_json_at(o, "spec"), "nodeName", RF_LIT("n1"));
		if (i == 0)
			rf_json_set_str(&w->a, rf_json_at(o, "spec"), "schedulerName", RF_LIT("another"));
		if (i == 1)
			rf_json_set_str(&w->a, rf_json_at(o, "status"), "phase", RF_LIT("Failed"));
		if (i == 3)
			rf_json_set(&w->a, rf_json_item(rf_json_at(o, "spec", "containers"), 0), RF_LIT("resources"), rf_json_object(&w->a));
		put(w, text(w, POD, at[i][0], at[i][1]), o);
	}
	run(w);
	add_pod(w, "red", "mine", 1, NULL);
	run(w);
	for (int i = 0; i < 10; i++) {
		w->now += 5000;
		run(w);
	}
	assert_int_equal(w->evicted, 0);
	assert_true(rf_str_is(node_of(w, "red", "mine"), "n1"));
}

static void a_guaranteed_tenant_gets_its_cards_back_by_eviction(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 2);
	add_tenant(w, "red", "{'quota':{'gpus':2}}");
	add_tenant(w, "blue", "{'quota':{'gpus':2},'queue':{'guaranteed':{'gpus':1}}}");
	add_pod(w, "red", "r0", 1, NULL);
	add_pod(w, "red", "r1", 1, NULL);
	run(w);
	assert_int_equal(bound(w, "red"), 2);
	add_pod(w, "blue", "b0", 1, NULL);
	run(w);
	assert_true(first(w, "create", "/eviction") != SIZE_MAX);
	assert_true(first(w, "create", "/eviction") == last(w, "create", "/eviction")); /* one is enough */
	assert_true(first(w, "create", "/eviction") < first(w, "patch", "/pods/r")); /* says so after the deed */
	assert_true(first(w, "event Reclaimed", "r") != SIZE_MAX);
	assert_int_equal(bound(w, "blue"), 0); /* the card is still in use */
	for (int i = 0; i < 2; i++) {
		const char *path = text(w, "/api/v1/namespaces/red/pods/r%d", i);

		if (rf_kube_deleting(get(w, path))) {
			drop(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s",
				     RF_STR(rf_pod_claim_name(&w->a, get(w, path)))));
			drop(w, path);
		}
	}
	run(w);
	assert_int_equal(bound(w, "blue"), 1);
	assert_int_equal(bound(w, "red"), 1);
}

/* As an agent and the garbage collector do it: the pod goes first, its claim is deleted, and is gone when the card
 * is clean. Two wait for two that go. */
static void what_is_evicted_leaves_in_its_own_order(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 4);
	add_tenant(w, "red", "{'quota':{'gpus':4}}");
	add_tenant(w, "blue", "{'quota':{'gpus':4},'queue':{'guaranteed':{'gpus':2}}}");
	for (int i = 0; i < 4; i++)
		add_pod(w, "red", text(w, "r%d", i), 1, NULL);
	run(w);
	add_pod(w, "blue", "b0", 1, NULL);
	run(w);
	add_pod(w, "blue", "b1", 1, NULL);
	run(w);
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < 4; i++) {
			const char *path = text(w, "/api/v1/namespaces/red/pods/r%d", i);
			struct rf_json *pod = get(w, path), *claim = NULL;
			const char *its = NULL;

			if (pod == NULL || !rf_kube_deleting(pod))
				continue;
			its = text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s",
				   RF_STR(rf_pod_claim_name(&w->a, pod)));
			drop(w, path);
			run(w);
			claim = rf_json_clone(&w->a, get(w, its));
			rf_json_set_str(&w->a, rf_json_at(claim, "metadata"), "deletionTimestamp", RF_LIT("2026-11-15T05:00:00Z"));
			put(w, its, claim);
			run(w);
			drop(w, its);
			run(w);
		}
	}
	assert_int_equal(bound(w, "blue"), 2);
	assert_int_equal(bound(w, "red"), 2);
}

/* It runs on what another is guaranteed, who comes now. */
static void gang_that_must_go(struct world *w)
{
	gang_of_four(w);
	run(w);
	assert_true(started(w, "red", "train"));
	add_tenant(w, "blue", "{'quota':{'gpus':1},'queue':{'guaranteed':{'gpus':1}}}");
	add_pod(w, "blue", "b0", 1, NULL);
}

static size_t drop_evicted(struct world *w)
{
	size_t n = 0;

	for (int i = 0; i < 4; i++) {
		const char *path = text(w, POD, "red", text(w, "w%d", i));

		if (get(w, path) == NULL || !rf_kube_deleting(get(w, path)))
			continue;
		drop(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s", RF_STR(rf_pod_claim_name(&w->a, get(w, path)))));
		drop(w, path);
		put(w, text(w, POD, "kube-system", text(w, "was-w%d", i)), /* check() counts who was bound */
		    rf_json_make(&w->a, "{'kind':'Pod','metadata':{'name':%s,'namespace':'kube-system','uid':%s},'spec':{'nodeName':'n1'},"
				 "'status':{'phase':'Succeeded'}}", text(w, "was-w%d", i), text(w, "was-%d", i)));
		n++;
	}
	return n;
}

/* Whatever write the process dies before, and although who was evicted is gone when the next one comes, and with it the reason:
 * all of a gang goes, or nobody of it. */
static void a_crash_between_evictions_leaves_no_half_gang(void **state)
{
	size_t halves = 0;
	int k = 1;

	for (bool died = true; died; k++) {
		void *own = NULL;
		struct world *w = NULL;
		size_t gone = 0;

		set_up(&own);
		w = own;
		gang_that_must_go(w);
		w->fault = FAULT_CRASH;
		w->at = w->writes + k;
		run(w);
		died = w->dead;
		gone = drop_evicted(w);
		halves += gone > 0 && gone < 4;
		drop(w, text(w, POD, "blue", "b0"));
		restart(w);
		run(w);
		gone += drop_evicted(w);
		assert_true(gone == 0 || gone == 4);
		run(w);
		assert_null(rf_json_at(get(w, text(w, GROUP, "red", "train")), "status", "ending"));
		tear_down(&own);
	}
	assert_true(halves >= 3); /* between two evictions, at least */
}

/* The group is its tenant's, and may refuse to be written (too large, says etcd, and the server calls that an internal error). */
static void a_group_that_cannot_be_written_keeps_its_gang_from_nothing(void **state)
{
	static const int codes[] = { RF_INTERNAL, RF_TOO_LARGE, RF_FORBIDDEN };

	for (size_t i = 0; i < RF_COUNT(codes); i++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_that_must_go(w);
		w->fault = FAULT_REFUSED;
		w->code = codes[i];
		w->only = "podgroups";
		w->each = true;
		run(w);
		assert_int_equal(drop_evicted(w), 4);
		run(w);
		assert_int_equal(bound(w, "blue"), 1);
		w->each = false;
		tear_down(&own);
	}
}

static void an_eviction_that_a_budget_refuses_is_not_said_to_have_happened(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':2}}");
	add_tenant(w, "blue", "{'quota':{'gpus':2},'queue':{'guaranteed':{'gpus':1}}}");
	add_pod(w, "red", "r0", 1, NULL);
	run(w);
	add_pod(w, "blue", "b0", 1, NULL);
	w->fault = FAULT_REFUSED;
	w->code = RF_EXHAUSTED;
	w->only = "/eviction";
	w->at = w->writes + 1;
	deliver(w);
	rf_placer_turn(&w->p);
	assert_true(first(w, "event Reclaimed", "r0") == SIZE_MAX);
	assert_false(rf_kube_deleting(get(w, text(w, POD, "red", "r0"))));
	run(w); /* it is tried again */
	assert_true(first(w, "event Reclaimed", "r0") != SIZE_MAX);
}

/* One eviction is enough, whatever its answer: who does not look evicts a second one. */
static void an_eviction_that_may_have_been_done_is_not_done_twice(void **state)
{
	static const enum fault faults[] = { FAULT_DONE, FAULT_MUTE, FAULT_ERROR, FAULT_LOST };

	for (size_t k = 0; k < RF_COUNT(faults); k++) {
		void *own = NULL;
		struct world *w = NULL;
		int going = 0;

		set_up(&own);
		w = own;
		add_node(w, "n1", 2);
		add_tenant(w, "red", "{'quota':{'gpus':2}}");
		add_tenant(w, "blue", "{'quota':{'gpus':2},'queue':{'guaranteed':{'gpus':1}}}");
		add_pod(w, "red", "r0", 1, NULL);
		add_pod(w, "red", "r1", 1, NULL);
		run(w);
		add_pod(w, "blue", "b0", 1, NULL);
		w->fault = faults[k];
		w->code = RF_INTERNAL;
		w->only = "/eviction";
		w->writes = 0;
		w->at = 1;
		run(w);
		for (int i = 0; i < 2; i++)
			going += rf_kube_deleting(get(w, text(w, "/api/v1/namespaces/red/pods/r%d", i)));
		assert_int_equal(going, 1);
		assert_true(first(w, "event Reclaimed", "r") != SIZE_MAX); /* and it is told why */
		assert_true(first(w, "event Reclaimed", "r") == last(w, "event Reclaimed", "r"));
		tear_down(&own);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_lost_its_claim_does_not_wait_for_good),
		TEST(who_lost_its_claim_and_stays_costs_little),
		TEST(who_needs_no_claim_of_ours_is_left_alone),
		TEST(a_guaranteed_tenant_gets_its_cards_back_by_eviction),
		TEST(what_is_evicted_leaves_in_its_own_order),
		TEST(a_crash_between_evictions_leaves_no_half_gang),
		TEST(a_group_that_cannot_be_written_keeps_its_gang_from_nothing),
		TEST(an_eviction_that_a_budget_refuses_is_not_said_to_have_happened),
		TEST(an_eviction_that_may_have_been_done_is_not_done_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
