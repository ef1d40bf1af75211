/* Placing against an API that is a map of objects: which writes in which order, and what becomes of a process
 * that dies before, at or after any of them. The scheduler's core is the real one. */
#include "control/test_placing_world.h"

static void a_pod_gets_its_claim_then_its_node(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	run(w);
	assert_true(rf_str_is(node_of(w, "red", "a"), "n1"));
	assert_int_equal(claims(w, true), 1);
	assert_true(first(w, "create", "/resourceclaims") < first(w, "update", "/status"));
	assert_true(first(w, "update", "/status") < first(w, "create", "/binding"));
	assert_int_equal(w->log.n, 4); /* and the event */
}

static void all_claims_of_a_gang_are_written_before_its_first_binding(void **state)
{
	struct world *w = *state;

	gang_of_four(w);
	run(w);
	assert_int_equal(bound(w, "red"), 4);
	assert_int_equal(claims(w, true), 4);
	assert_true(last(w, "update", "/resourceclaims/") < first(w, "create", "/binding"));
	assert_true(started(w, "red", "train"));
	assert_true(last(w, "create", "/binding") < first(w, "patch", "/podgroups/train/status"));
	assert_int_equal(rf_json_int(rf_json_at(get(w, text(w, GROUP, "red", "train")), "status", "scheduled"), 0), 4);
}

static void a_gang_that_does_not_fit_gets_nothing(void **state)
{
	struct world *w = *state;

	gang_of_four(w);
	drop(w, "/apis/resource.k8s.io/v1/resourceslices/n2-0");
	run(w);
	assert_int_equal(bound(w, "red"), 0);
	assert_int_equal(claims(w, false), 0);
	assert_false(started(w, "red", "train"));
	assert_true(first(w, "patch", "/pods/w0/status") != SIZE_MAX); /* it says why */
	assert_true(rf_json_str_at(get(w, text(w, GROUP, "red", "train")), "status", "message").n > 0);
}

/* Whatever write the process dies before, the next one completes the gang, and nothing is left over. */
static void a_crash_before_any_write_leaves_a_whole_gang_in_the_end(void **state)
{
	int k = 1;

	for (bool died = true; died; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = FAULT_CRASH;
		w->at = k;
		run(w);
		died = w->dead;
		if (died) {
			/* Before all its claims are there, nothing of it may be bound. */
			assert_true(bound(w, "red") == 0 || claims(w, true) == 4);
			restart(w);
			run(w);
		}
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		assert_int_equal(claims(w, false), 4);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
	assert_true(k > 13); /* four claims, four allocations, four bindings, the group */
}

static void drop_all(struct world *w, const char *prefix)
{
	struct rf_map_slot *s = NULL;

	while ((s = rf_map_next(&w->objects, s)) != NULL) {
		if (starts(s->key, prefix)) {
			drop(w, text(w, "%s", s->key));
			s = NULL;
		}
	}
}

/* So many or none, also the second time: one that comes alone waits, whoever was there to see the others go. */
static void a_gang_of_which_none_is_left_starts_anew(void **state)
{
	for (int again = 0; again < 2; again++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		run(w);
		assert_true(started(w, "red", "train"));
		drop_all(w, "/api/v1/namespaces/red/pods/");
		drop_all(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/");
		if (again)
			restart(w);
		run(w);
		assert_false(started(w, "red", "train"));
		assert_true(rf_str_is(rf_json_str_at(get(w, text(w, GROUP, "red", "train")), "status", "phase"), "Pending"));
		for (int i = 4; i < 8; i++) {
			assert_int_equal(bound(w, "red"), 0);
			add_pod(w, "red", text(w, "w%d", i), 1, "train");
			run(w);
		}
		assert_int_equal(bound(w, "red"), 4);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
}

/* Its pods are gone, and came again, before anybody could write that. */
static void gang_that_says_it_started(struct world *w)
{
	gang_of_four(w);
	put(w, text(w, GROUP, "red", "train"),
	    rf_json_make(&w->a, "{'apiVersion':'ringfence.io/v1alpha1','kind':'PodGroup','metadata':{'name':'train',"
				"'namespace':'red','uid':'group-train','creationTimestamp':'2026-11-15T04:00:00Z'},"
				"'spec':{'minMember':4},'status':{'phase':'Running','started':true,'scheduled':0}}"));
}

/* That it started before is taken back before anything is written for it: half of it must never be taken for one that runs. */
static void a_fault_leaves_no_half_gang_that_says_it_started(void **state)
{
	static const int faults[] = { FAULT_CRASH, FAULT_MUTE, FAULT_LOST, FAULT_ERROR, FAULT_DONE };

	for (int k = 0; k < 14 * (int)RF_COUNT(faults); k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_that_says_it_started(w);
		w->fault = faults[k % (int)RF_COUNT(faults)];
		w->code = RF_INTERNAL;
		w->at = k / (int)RF_COUNT(faults) + 1;
		run(w);
		if (w->dead) {
			assert_true(claims(w, false) == 0 || bound(w, "red") == 4 || !started(w, "red", "train"));
			restart(w);
			run(w);
		}
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, false), 4);
		assert_true(started(w, "red", "train"));
		assert_true(first(w, "patch", "/podgroups/train/status") < first(w, "create", "/resourceclaims"));
		tear_down(&own);
	}
}

/* Until that can be written it waits, and says why. */
static void a_gang_that_cannot_say_that_it_starts_anew_waits(void **state)
{
	struct world *w = *state;
	struct rf_str why;

	gang_that_says_it_started(w);
	w->fault = FAULT_REFUSED;
	w->code = RF_TOO_LARGE;
	w->only = "podgroups";
	w->each = true;
	run(w);
	assert_int_equal(bound(w, "red") + claims(w, false), 0);
	why = rf_core_why(w->core, rf_kube_uid(get(w, text(w, POD, "red", "w0"))), w->now, &w->a);
	assert_non_null(strstr(text(w, "%.*s", RF_STR(why)), "starts anew"));
	w->each = false;
	run(w);
	assert_int_equal(bound(w, "red"), 4);
	assert_true(started(w, "red", "train"));
}

/* As above, but the cluster shrank meanwhile: what cannot be completed is taken back as a whole. */
static void a_crash_and_a_lost_node_leave_no_half_gang(void **state)
{
	for (int k = 1; k <= 9; k++) { /* up to the first binding */
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = FAULT_CRASH;
		w->at = k;
		run(w);
		assert_true(w->dead);
		assert_int_equal(bound(w, "red"), 0);
		drop(w, "/apis/resource.k8s.io/v1/resourceslices/n2-0");
		drop(w, "/api/v1/nodes/n2");
		restart(w);
		run(w);
		assert_int_equal(bound(w, "red"), 0);
		assert_int_equal(claims(w, true), 0);
		assert_false(started(w, "red", "train"));
		tear_down(&own);
	}
}

static void a_refused_write_of_a_gang_takes_its_claims_back(void **state)
{
	for (int k = 1; k <= 8; k++) { /* each claim and each allocation */
		void *own = NULL;
		struct world *w = NULL;
		int64_t again = 0;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = FAULT_REFUSED;
		w->code = RF_FORBIDDEN;
		w->at = k;
		deliver(w);
		again = rf_placer_turn(&w->p);
		assert_true(again >= 0); /* it is tried again */
		assert_int_equal(bound(w, "red"), 0);
		assert_int_equal(claims(w, false), 0);
		run(w);
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		tear_down(&own);
	}
}

/* An answer that does not come: the card is not given to another before it is known what became of it. */
static void a_write_without_an_answer_gives_nothing_away_twice(void **state)
{
	for (int k = 1; k <= 26; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = k % 2 == 0 ? FAULT_LOST : FAULT_MUTE;
		w->at = (k + 1) / 2;
		run(w);
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		assert_int_equal(claims(w, false), 4);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
}

/* An answer that says only that something went wrong is no refusal: it is looked at what was done, at once. */
static void a_write_that_went_wrong_may_have_been_done(void **state)
{
	static const int codes[] = { RF_INTERNAL, RF_SYSTEM };

	for (int k = 0; k < 26; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = k % 2 == 0 ? FAULT_ERROR : FAULT_DONE;
		w->code = codes[k / 2 % 2];
		w->at = k / 2 + 1;
		run(w);
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		assert_int_equal(claims(w, false), 4);
		assert_int_equal(w->p.limbo.n, 0);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
}

/* What was sent and not answered may be carried out yet: the claim it speaks of is gone by then. */
static void an_allocation_that_comes_late_meets_no_claim(void **state)
{
	struct world *w = *state;
	const struct rf_json *was = NULL;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *late = NULL;
	const char *path = NULL;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	path = text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s",
		    RF_STR(rf_pod_claim_name(&w->a, get(w, text(w, POD, "red", "a")))));
	w->fault = FAULT_LOST;
	w->at = 2; /* the allocation */
	deliver(w);
	rf_placer_turn(&w->p);
	was = get(w, path);
	assert_non_null(was);
	late = rf_json_clone(&w->a, was);
	w->muted = false;
	w->only = "nothing";
	assert_true(rf_carry_settle(&w->p));
	assert_null(get(w, path)); /* nobody can allocate it any more */
	assert_true(h_update(w, &w->a, rf_str(text(w, "%s/status", path)), late, NULL, &err) < 0);
	run(w);
	assert_true(rf_str_is(node_of(w, "red", "a"), "n1"));
	assert_false(rf_str_eq(rf_kube_uid(get(w, path)), rf_kube_uid(late)));
}

/* A binding that was not answered, and not done when it was looked at, comes late. Meanwhile the promise is taken back: before
 * the claim is deleted it is looked at once more, for without it the pod could never start there. */
static void a_claim_is_not_taken_from_who_was_bound_late(void **state)
{
	for (int late = 0; late < 2; late++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		add_node(w, "n1", 1);
		add_tenant(w, "red", "{'quota':{'gpus':1}}");
		add_pod(w, "red", "a", 1, NULL);
		w->fault = FAULT_LOST;
		w->at = 3; /* the binding */
		deliver(w);
		rf_placer_turn(&w->p);
		assert_int_equal(claims(w, true), 1);
		w->muted = false;
		assert_true(rf_carry_settle(&w->p)); /* the core is told that it failed */
		drop(w, "/apis/resource.k8s.io/v1/resourceslices/n1-0");
		deliver(w); /* so that its claim points at what is not there */
		if (late == 1)
			assert_int_equal(bind_to(w, text(w, POD, "red", "a"), rf_json_make(&w->a, "{'target':{'name':'n1'}}"), NULL), 0);
		rf_placer_turn(&w->p); /* the watch has yet to tell of the pod */
		assert_int_equal(claims(w, true), late);
		run(w);
		assert_int_equal(claims(w, true), late);
		assert_int_equal(bound(w, "red"), late);
		tear_down(&own);
	}
}

/* A write without an answer, and its pod turns out to be bound: so much is known, and also that the others of its gang were not. */
static void the_others_of_who_is_bound_already_are_tried_again(void **state)
{
	struct world *w = *state;

	gang_of_four(w);
	w->fault = FAULT_LOST;
	w->at = 2; /* the first allocation */
	deliver(w);
	rf_placer_turn(&w->p);
	assert_int_equal(claims(w, false), 1);
	w->muted = false;
	for (int i = 0; i < 4; i++) {
		struct rf_str name = rf_pod_claim_name(&w->a, get(w, text(w, POD, "red", text(w, "w%d", i))));

		if (get(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s", RF_STR(name))) == NULL)
			continue;
		assert_int_equal(bind_to(w, text(w, POD, "red", text(w, "w%d", i)), rf_json_make(&w->a, "{'target':{'name':'n1'}}"), NULL), 0);
		break;
	}
	assert_int_equal(bound(w, "red"), 1);
	run(w);
	assert_int_equal(bound(w, "red"), 4);
}

static void a_claim_made_anew_under_its_name_is_not_deleted(void **state)
{
	struct world *w = *state;
	struct rf_json *other = NULL;
	const char *path = NULL;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	path = text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s",
		    RF_STR(rf_pod_claim_name(&w->a, get(w, text(w, POD, "red", "a")))));
	run(w);
	other = rf_json_clone(&w->a, get(w, path));
	rf_json_set_str(&w->a, rf_json_at(other, "metadata"), "uid", RF_LIT("another"));
	put(w, path, other);
	assert_int_equal(h_remove(w, &w->a, rf_str(path), RF_LIT("made-1"), RF_STR_EMPTY, NULL), -RF_CONFLICT);
	assert_non_null(get(w, path));
}

/* A deletion of which nobody knows: nothing counts on the claim meanwhile, and it is tried again after a look. */
static void a_claim_that_may_be_deleted_is_looked_at_again(void **state)
{
	for (int k = 0; k < 2; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		add_node(w, "n1", 1);
		add_tenant(w, "red", "{'quota':{'gpus':1}}");
		add_pod(w, "red", "a", 1, NULL);
		deliver(w);
		drop(w, text(w, POD, "red", "a")); /* the binding finds no pod, and the claim is dropped */
		w->only = "/resourceclaims/a-";
		w->fault = k == 0 ? FAULT_ERROR : FAULT_DONE;
		w->code = RF_INTERNAL;
		w->at = 2; /* after the allocation */
		rf_placer_turn(&w->p);
		assert_int_equal(claims(w, false), k == 0 ? 1 : 0);
		add_pod(w, "red", "b", 1, NULL);
		run(w);
		assert_int_equal(claims(w, false), 1);
		assert_int_equal(w->p.limbo.n, 0);
		assert_true(rf_str_is(node_of(w, "red", "b"), "n1"));
		tear_down(&own);
	}
}

static void a_binding_that_fails_does_not_hold_up_the_others(void **state)
{
	struct world *w = *state;
	int64_t again = 0;

	add_node(w, "n1", 4);
	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	for (int i = 0; i < 4; i++)
		add_pod(w, "red", text(w, "p%d", i), 1, NULL);
	w->fault = FAULT_REFUSED;
	w->code = RF_FORBIDDEN;
	w->at = 3; /* the first pod's binding */
	deliver(w);
	again = rf_placer_turn(&w->p);
	assert_true(again >= 0);
	assert_int_equal(bound(w, "red"), 3); /* in the same turn */
	run(w);
	assert_int_equal(bound(w, "red"), 4);
	assert_int_equal(claims(w, true), 4);
}

static void a_pod_that_went_while_it_was_bound_holds_no_card(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	deliver(w);
	drop(w, text(w, POD, "red", "a")); /* the watch has yet to tell */
	rf_placer_turn(&w->p);
	assert_int_equal(claims(w, false), 0);
	add_pod(w, "red", "b", 1, NULL);
	run(w);
	assert_true(rf_str_is(node_of(w, "red", "b"), "n1"));
}

/* Also when its claim is deleted before the core hears that it failed: else it is tried again and again in one turn. */
static void what_is_refused_each_time_is_tried_again_later(void **state)
{
	for (int k = 0; k < 2; k++) {
		void *own = NULL;
		struct world *w = NULL;
		int64_t again = 0;

		card_name = "ringfence.io/gpu"; /* the pod is told its claim */
		set_up(&own);
		w = own;
		if (k == 0) {
			add_node(w, "n1", 4);
			add_tenant(w, "red", "{'quota':{'gpus':8}}");
			add_pod(w, "red", "a", 1, NULL);
		} else {
			gang_of_four(w);
		}
		w->fault = FAULT_REFUSED;
		w->code = RF_NOT_FOUND;
		w->each = true;
		w->only = "/pods/";
		deliver(w);
		again = rf_placer_turn(&w->p);
		assert_true(again > 0);
		assert_in_range(w->writes, 1, 8);
		assert_int_equal(claims(w, false), 0);
		w->fault = FAULT_NONE;
		run(w);
		assert_int_equal(bound(w, "red"), k == 0 ? 1 : 4);
		tear_down(&own);
		card_name = "nvidia.com/gpu";
	}
	(void)state;
}

static void a_binding_is_remembered_until_the_watch_repeats_it(void **state)
{
	struct world *w = *state;
	struct rf_json *stale = NULL;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	deliver(w);
	stale = rf_json_clone(&w->a, get(w, text(w, POD, "red", "a")));
	rf_placer_turn(&w->p);
	assert_int_equal(bound(w, "red"), 1);
	/* A change from before the binding arrives after it. */
	rf_json_set_str(&w->a, rf_json_at(stale, "metadata"), "resourceVersion", RF_LIT("999"));
	tell(w, stale, stale);
	w->writes = 0;
	rf_placer_turn(&w->p);
	assert_int_equal(w->writes, 0);
}

static void nothing_is_written_when_nothing_happens(void **state)
{
	struct world *w = *state;

	gang_of_four(w);
	add_pod(w, "red", "late", 1, NULL);
	run(w);
	w->writes = 0;
	for (int i = 0; i < 10; i++) {
		w->now += 1000;
		w->p.now_ms = w->now;
		rf_placer_turn(&w->p);
	}
	assert_int_equal(w->writes, 0);
}

static void many_waiting_pods_are_told_some_at_a_time(void **state)
{
	struct world *w = *state;
	int64_t again = 0;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1000}}");
	for (int i = 0; i < 101; i++)
		add_pod(w, "red", text(w, "p%d", i), 1, NULL);
	deliver(w);
	again = rf_placer_turn(&w->p);
	assert_in_range(again, 0, 100); /* soon, but new pods are heard of first */
	assert_true(w->writes < 50);
	run(w);
	assert_int_equal(bound(w, "red"), 1);
	for (int i = 0; i < 101; i++) {
		const struct rf_json *pod = get(w, text(w, "/api/v1/namespaces/red/pods/p%d", i));

		if (rf_json_str_at(pod, "spec", "nodeName").n == 0)
			assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(pod, "status", "conditions"), 0),
							     "reason"),
					      "Unschedulable"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_pod_gets_its_claim_then_its_node),
		TEST(all_claims_of_a_gang_are_written_before_its_first_binding),
		TEST(a_gang_that_does_not_fit_gets_nothing),
		TEST(a_crash_before_any_write_leaves_a_whole_gang_in_the_end),
		TEST(a_gang_of_which_none_is_left_starts_anew),
		TEST(a_fault_leaves_no_half_gang_that_says_it_started),
		TEST(a_gang_that_cannot_say_that_it_starts_anew_waits),
		TEST(a_crash_and_a_lost_node_leave_no_half_gang),
		TEST(a_refused_write_of_a_gang_takes_its_claims_back),
		TEST(a_write_without_an_answer_gives_nothing_away_twice),
		TEST(a_write_that_went_wrong_may_have_been_done),
		TEST(an_allocation_that_comes_late_meets_no_claim),
		TEST(a_claim_is_not_taken_from_who_was_bound_late),
		TEST(the_others_of_who_is_bound_already_are_tried_again),
		TEST(a_claim_made_anew_under_its_name_is_not_deleted),
		TEST(a_claim_that_may_be_deleted_is_looked_at_again),
		TEST(a_binding_that_fails_does_not_hold_up_the_others),
		TEST(a_pod_that_went_while_it_was_bound_holds_no_card),
		TEST(what_is_refused_each_time_is_tried_again_later),
		TEST(a_binding_is_remembered_until_the_watch_repeats_it),
		TEST(nothing_is_written_when_nothing_happens),
		TEST(many_waiting_pods_are_told_some_at_a_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
