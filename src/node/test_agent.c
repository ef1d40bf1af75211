/* The agent's decisions that need no machine: the table of states, claims, status, the slice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "node/agent.h"

/* --- states ---------------------------------------------------------------------------------- */

static void an_ordinary_life_runs_through_all_states(void **state)
{
	unsigned f = 0;

	(void)state;
	assert_int_equal(rf_pod_state_next(RF_POD_PENDING, f), RF_POD_PREPARING);
	assert_int_equal(rf_pod_state_next(RF_POD_PREPARING, f), RF_POD_PREPARING);
	f |= RF_FACT_PREPARED;
	assert_int_equal(rf_pod_state_next(RF_POD_PREPARING, f), RF_POD_STARTING);
	f |= RF_FACT_STARTED;
	assert_int_equal(rf_pod_state_next(RF_POD_STARTING, f), RF_POD_RUNNING);
	assert_int_equal(rf_pod_state_next(RF_POD_RUNNING, f), RF_POD_RUNNING);
	f |= RF_FACT_ENDED;
	assert_int_equal(rf_pod_state_next(RF_POD_RUNNING, f), RF_POD_STOPPING);
	assert_int_equal(rf_pod_state_next(RF_POD_STOPPING, f), RF_POD_STOPPING);
	f |= RF_FACT_STOPPED;
	assert_int_equal(rf_pod_state_next(RF_POD_STOPPING, f), RF_POD_CLEANING);
	assert_int_equal(rf_pod_state_next(RF_POD_CLEANING, f), RF_POD_CLEANING);
	assert_int_equal(rf_pod_state_next(RF_POD_CLEANING, f | RF_FACT_CLEAN), RF_POD_DONE);
}

/* Whatever the facts: nothing leaves STOPPING with a process left, nothing is DONE uncleaned,
 * nothing starts unprepared or unwanted, and no state is entered twice. */
static void no_facts_lead_around_stopping_and_cleaning(void **state)
{
	(void)state;
	for (unsigned s = 0; s < RF_POD_STATES; s++)
		for (unsigned f = 0; f < 128; f++) {
			enum rf_pod_state next = rf_pod_state_next(s, f);

			assert_true(next >= s);
			if (next == RF_POD_CLEANING && s != RF_POD_CLEANING)
				assert_true(s == RF_POD_STOPPING && (f & RF_FACT_STOPPED));
			if (next == RF_POD_DONE && s != RF_POD_DONE)
				assert_true(s == RF_POD_CLEANING && (f & RF_FACT_CLEAN));
			if (next == RF_POD_STARTING && s != RF_POD_STARTING)
				assert_true((f & RF_FACT_PREPARED) &&
					    !(f & (RF_FACT_UNWANTED | RF_FACT_REFUSED)));
			if ((f & RF_FACT_UNWANTED) && s < RF_POD_STOPPING)
				assert_int_equal(next, RF_POD_STOPPING);
		}
}

/* --- claims ---------------------------------------------------------------------------------- */

struct fixture {
	struct rf_arena a;
	struct rf_json *pod, *claim;
};

static int set_up(void **state)
{
	struct fixture *f = rf_new(struct fixture);

	f->a = (struct rf_arena)RF_ARENA_INIT;
	f->pod = rf_json_make(
		&f->a, "{'metadata':{'name':'p','namespace':'n','uid':'u-1'},'spec':{'containers':["
		       "{'name':'c',"
		       "'image':'host','resources':{'limits':{'ringfence.io/gpu-memory':'20Gi',"
		       "'ringfence.io/gpu-compute':'25'}}}]}}");
	f->claim = rf_json_make(&f->a, "{'metadata':{'name':'p-u-1','namespace':'n'},'status':{'"
				       "reservedFor':[{'resource':'pods',"
				       "'name':'p','uid':'u-1'}],'allocation':{'devices':{'results'"
				       ":[{'request':'c','driver':"
				       "'ringfence.io','pool':'node-1','device':'gpu-3','"
				       "consumedCapacity':{'memory':'20Gi',"
				       "'compute':'250'}}]}}}}");
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	rf_arena_done(&f->a);
	free(f);
	return 0;
}

static const struct rf_json *container_of(struct fixture *f)
{
	return rf_json_item(rf_json_at(f->pod, "spec", "containers"), 0);
}

static struct rf_json *result_of(struct fixture *f)
{
	return rf_json_item(rf_json_at(f->claim, "status", "allocation", "devices", "results"), 0);
}

static void a_claim_grants_what_was_allocated(void **state)
{
	struct fixture *f = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_grant g;

	assert_int_equal(rf_claim_check(f->claim, f->pod, RF_LIT("node-1"), &err), 0);
	if (rf_claim_grant(f->claim, container_of(f), &g, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(g.n, 1);
	assert_false(g.whole);
	assert_int_equal(g.cards[0].index, 3);
	assert_int_equal(g.cards[0].memory_bytes, 20LL << 30);
	assert_int_equal(g.cards[0].compute_milli, 250);
}

static void a_claim_of_another_pod_or_node_is_refused(void **state)
{
	struct fixture *f = *state;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_claim_check(f->claim, f->pod, RF_LIT("node-2"), &err), -RF_FORBIDDEN);
	assert_int_equal(rf_claim_check(f->claim, f->pod, RF_LIT("node-1"), &err), 0);
	/* Somebody else's name on it as well: neither gets the card. */
	struct rf_json *shared = rf_json_clone(&f->a, f->claim);
	rf_json_push(&f->a, rf_json_at(shared, "status", "reservedFor"),
		     rf_json_make(&f->a, "{'resource':'pods','name':'thief','uid':'u-9'}"));
	assert_int_equal(rf_claim_check(shared, f->pod, RF_LIT("node-1"), &err), -RF_FORBIDDEN);
	rf_json_set_str(&f->a, rf_json_at(f->pod, "metadata"), "uid", RF_LIT("u-2"));
	assert_int_equal(rf_claim_check(f->claim, f->pod, RF_LIT("node-1"), &err), -RF_FORBIDDEN);
	assert_non_null(strstr(err.msg, "not reserved"));
}

static void an_unallocated_claim_is_waited_for(void **state)
{
	struct fixture *f = *state;
	struct rf_err err = RF_ERR_INIT;

	rf_json_del(rf_json_at(f->claim, "status"), RF_LIT("allocation"));
	assert_int_equal(rf_claim_check(f->claim, f->pod, RF_LIT("node-1"), &err), -RF_UNAVAILABLE);
}

static void a_grant_that_differs_from_the_ask_is_no_fence(void **state)
{
	struct fixture *f = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_grant g;

	rf_json_set_str(&f->a, rf_json_at(result_of(f), "consumedCapacity"), "memory",
			RF_LIT("40Gi"));
	assert_int_equal(rf_claim_grant(f->claim, container_of(f), &g, &err), -RF_FORBIDDEN);
	rf_json_del(result_of(f), RF_LIT("consumedCapacity")); /* would be the whole card */
	assert_int_equal(rf_claim_grant(f->claim, container_of(f), &g, &err), -RF_FORBIDDEN);
	rf_json_set_str(&f->a, result_of(f), "device", RF_LIT("../gpu-0"));
	assert_int_equal(rf_claim_grant(f->claim, container_of(f), &g, &err), -RF_FORBIDDEN);
}

static void a_container_without_an_ask_gets_nothing(void **state)
{
	struct fixture *f = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_grant g;
	struct rf_json *other = rf_json_make(&f->a, "{'name':'other'}");

	assert_int_equal(rf_claim_grant(f->claim, other, &g, &err), 0);
	assert_int_equal(g.n, 0);
	/* Allocated without having asked: somebody tampered. */
	rf_json_set_str(&f->a, other, "name", RF_LIT("c"));
	assert_int_equal(rf_claim_grant(f->claim, other, &g, &err), -RF_FORBIDDEN);
}

/* Two slices for the container, in places of their own. */
static void grant_slices(struct fixture *f)
{
	rf_json_set(&f->a, rf_json_at(container_of(f), "resources"), RF_LIT("limits"),
		    rf_json_make(&f->a, "{'nvidia.com/mig-1g.10gb':'2'}"));
	rf_json_set(&f->a, rf_json_at(f->claim, "status", "allocation"), RF_LIT("devices"),
		    rf_json_make(&f->a,
				 "{'results':[{'request':'c','driver':'ringfence.io','pool':'node-1','device':'gpu-3',"
				 "'consumedCapacity':{'memory':'9984Mi','compute':'142'}},{'request':'c','driver':"
				 "'ringfence.io','pool':'node-1','device':'gpu-3'}],'config':[{'requests':['d'],'opaque':"
				 "{'driver':'ringfence.io','parameters':{'profile':'7g.80gb','starts':[0,0]}}},{'requests':"
				 "['c'],'opaque':{'driver':'other.io','parameters':{'profile':'7g.80gb','starts':[0,0]}}},"
				 "{'requests':['c'],'opaque':{'driver':'ringfence.io','parameters':{'profile':'1g.10gb',"
				 "'starts':[6,2]}}}]}"));
}

static void slices_are_where_the_claim_says(void **state)
{
	struct fixture *f = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_grant g;

	grant_slices(f);
	if (rf_claim_grant(f->claim, container_of(f), &g, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(g.n, 2);
	assert_true(g.sliced && !g.whole);
	assert_string_equal(g.cards[0].profile, "1g.10gb");
	assert_int_equal(g.cards[0].start, 6);
	assert_int_equal(g.cards[1].start, 2);
	assert_int_equal(g.cards[0].memory_bytes, 0); /* the hardware's to keep */
	assert_int_equal(g.cards[1].compute_milli, 1000);
}

static struct rf_json *limits_of(struct fixture *f)
{
	return rf_json_at(container_of(f), "resources", "limits");
}

static void slices_that_differ_from_the_ask_are_refused(void **state)
{
	struct fixture *f = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *says;
	struct rf_grant g;

	grant_slices(f);
	says = rf_json_at(rf_json_item(rf_json_at(f->claim, "status", "allocation", "devices", "config"), 2), "opaque",
			  "parameters");
	rf_json_set_str(&f->a, limits_of(f), "nvidia.com/mig-1g.10gb", RF_LIT("1"));
	assert_int_equal(rf_claim_grant(f->claim, container_of(f), &g, &err), -RF_FORBIDDEN);
	assert_non_null(strstr(err.msg, "1 slices were asked for, 2 were allocated"));
	rf_json_set_str(&f->a, limits_of(f), "nvidia.com/mig-1g.10gb", RF_LIT("2"));
	rf_json_set_str(&f->a, says, "profile", RF_LIT("2g.20gb"));
	assert_int_equal(rf_claim_grant(f->claim, container_of(f), &g, &err), -RF_FORBIDDEN);
	rf_json_set_str(&f->a, says, "profile", RF_LIT("1g.10gb"));
	rf_json_set(&f->a, says, RF_LIT("starts"), rf_json_make(&f->a, "[6]"));
	assert_int_equal(rf_claim_grant(f->claim, container_of(f), &g, &err), -RF_FORBIDDEN);
	assert_non_null(strstr(err.msg, "does not say where slice 1 is"));
	rf_json_set(&f->a, says, RF_LIT("starts"), rf_json_make(&f->a, "[6,8]"));
	assert_int_equal(rf_claim_grant(f->claim, container_of(f), &g, &err), -RF_FORBIDDEN);
	rf_json_set(&f->a, says, RF_LIT("starts"), rf_json_make(&f->a, "[6,2]"));
	/* A card that was asked for is not paid in slices. */
	rf_json_set(&f->a, rf_json_at(container_of(f), "resources"), RF_LIT("limits"),
		    rf_json_make(&f->a, "{'ringfence.io/gpu':'2'}"));
	assert_int_equal(rf_claim_grant(f->claim, container_of(f), &g, &err), -RF_FORBIDDEN);
	assert_non_null(strstr(err.msg, "slices of 1g.10gb were allocated"));
}

static void whole_cards_have_no_cap(void **state)
{
	struct fixture *f = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_grant g;
	struct rf_json *c =
		rf_json_make(&f->a, "{'name':'c','resources':{'limits':{'ringfence.io/gpu':'1'}}}");

	if (rf_claim_grant(f->claim, c, &g, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(g.whole);
	assert_int_equal(g.cards[0].memory_bytes, 0);
	assert_int_equal(g.cards[0].compute_milli, 1000);
}

/* --- status ---------------------------------------------------------------------------------- */

static void the_end_is_told_only_when_it_is_true(void **state)
{
	struct fixture *f = *state;
	struct rf_node_opts opts = { .listen_address = "127.0.0.1" };
	struct rf_agent g = { .opts = &opts };
	struct rf_container c = { .name = (char *)(uintptr_t) "c",
				  .started = true,
				  .state = RF_CONTAINER_EXITED,
				  .now = { .set = true, .code = 3, .reason = "Error" } };
	struct rf_worker w = { .agent = &g,
			       .pod = f->pod,
			       .containers = &c,
			       .n_containers = 1,
			       .uid = (char *)(uintptr_t) "u-1",
			       .state = RF_POD_STOPPING };

	c.worker = &w;
	assert_string_equal(rf_status_phase(&w), "Running"); /* a process may be left */
	w.state = RF_POD_CLEANING;
	assert_string_equal(rf_status_phase(&w), "Failed");
	c.now.code = 0;
	assert_string_equal(rf_status_phase(&w), "Succeeded");
	w.refused = true;
	assert_string_equal(rf_status_phase(&w), "Failed");
}

static void a_status_is_the_same_text_until_something_changes(void **state)
{
	struct fixture *f = *state;
	struct rf_node_opts opts = { .listen_address = "127.0.0.1" };
	struct rf_agent g = { .opts = &opts };
	struct rf_container c = { .name = (char *)(uintptr_t) "c",
				  .started = true,
				  .state = RF_CONTAINER_RUNNING,
				  .started_ms = 5000 };
	struct rf_worker w = { .agent = &g,
			       .pod = f->pod,
			       .containers = &c,
			       .n_containers = 1,
			       .uid = (char *)(uintptr_t) "u-1",
			       .state = RF_POD_RUNNING };

	c.worker = &w;
	struct rf_str one = rf_json_text_of(&f->a, rf_status_make(&f->a, &w));
	struct rf_str two = rf_json_text_of(&f->a, rf_status_make(&f->a, &w));
	assert_true(rf_str_eq(one, two));
	assert_true(rf_str_contains(
		one, RF_LIT("\"running\":{\"startedAt\":\"1970-01-01T00:00:05Z\"}")));
	c.state = RF_CONTAINER_WAITING;
	c.attempt = 2; /* one of them never ran */
	c.restarts = 1;
	c.now = (struct rf_ended){ .set = true, .code = 137, .signal = 9, .reason = "OOMKilled" };
	snprintf(c.waiting, sizeof(c.waiting), "CrashLoopBackOff");
	struct rf_str three = rf_json_text_of(&f->a, rf_status_make(&f->a, &w));
	assert_true(rf_str_contains(three, RF_LIT("\"reason\":\"CrashLoopBackOff\"")));
	assert_true(rf_str_contains(three, RF_LIT("\"lastState\":{\"terminated\":{\"exitCode\":137,"
						  "\"reason\":\"OOMKilled\"")));
	assert_true(rf_str_contains(three, RF_LIT("\"restartCount\":1")));
}

/* --- the slice ------------------------------------------------------------------------------- */

static void a_slice_offers_cards_and_taints_faulty_ones(void **state)
{
	struct fixture *f = *state;
	struct rf_cards c = { .simulated = false };
	struct rf_err err = RF_ERR_INIT;

	if (rf_gpu_open(FAKE_NVML_DIR, &c.gpu, &err) < 0)
		fail_msg("%s", err.msg);
	struct rf_json *slice = rf_cards_slice(&f->a, &c, RF_LIT("node-1"));
	struct rf_json *devices = rf_json_at(slice, "spec", "devices");
	assert_int_equal(rf_json_len(devices), 2);
	assert_string_equal(rf_json_str_at(slice, "metadata", "name").p, "node-1-ringfence");
	assert_string_equal(rf_json_str_at(rf_json_item(devices, 1), "name").p, "gpu-12");
	assert_true(
		rf_json_is_true(rf_json_at(rf_json_item(devices, 0), "allowMultipleAllocations")));
	assert_string_equal(
		rf_json_str_at(rf_json_item(devices, 0), "capacity", "compute", "value").p, "1k");
	assert_null(rf_json_at(rf_json_item(devices, 0), "taints"));
	for (size_t i = 0; i < 2; i++) /* joined by NVLink; where they are in the machine nobody says */
		assert_int_equal(rf_json_int(rf_json_at(rf_json_item(devices, i), "attributes",
							"nvlinkIsland", "int"),
					     -1),
				 0);
	assert_null(rf_json_at(rf_json_item(devices, 0), "attributes", "numaNode"));
	c.health[0].fatal_xid = 79;
	c.health[1].lost = true;
	devices = rf_json_at(rf_cards_slice(&f->a, &c, RF_LIT("node-1")), "spec", "devices");
	struct rf_json *taint = rf_json_item(rf_json_at(rf_json_item(devices, 0), "taints"), 0);
	assert_string_equal(rf_json_str_at(taint, "key").p, "ringfence.io/xid");
	assert_string_equal(rf_json_str_at(taint, "value").p, "79");
	assert_string_equal(rf_json_str_at(taint, "effect").p, "NoExecute");
	taint = rf_json_item(rf_json_at(rf_json_item(devices, 1), "taints"), 0);
	assert_string_equal(rf_json_str_at(taint, "key").p, "ringfence.io/gpu-lost");
	size_t position;
	assert_false(rf_card_ok(&c, 10, &position, &err));
	assert_non_null(strstr(err.msg, "XID 79"));
	assert_false(rf_card_ok(&c, 9, &position, &err));
	rf_cards_close(&c);
}

static void the_driver_may_take_a_little_beside_the_cap(void **state RF_UNUSED)
{
	struct rf_cards c = { .simulated = false };
	struct rf_err err = RF_ERR_INIT;
	int64_t mib = 1 << 20;

	assert_int_equal(rf_gpu_open(FAKE_NVML_DIR, &c.gpu, &err), 0);
	c.health[0].context_bytes = 524 * mib;
	assert_int_equal(rf_card_context(&c, 10, false), 524 * mib);
	assert_int_equal(rf_card_allowance(&c, 10, 100 * 1024 * mib), (256 + 3 * 1024) * mib);
	/* Where nobody knows what a context takes, fences do not count it. */
	assert_int_equal(rf_card_context(&c, 12, false), 0);
	assert_int_equal(rf_card_allowance(&c, 12, 100 * 1024 * mib), 1024 * mib);
	/* A card is not given away with a context of ours on it. */
	assert_int_equal(rf_card_check_measured(&c, 10, &err), 0);
	c.health[0].measuring = true;
	assert_int_equal(rf_card_check_measured(&c, 10, &err), -RF_UNAVAILABLE);
	assert_int_equal(rf_card_check_measured(&c, 12, &err), 0);
	rf_cards_close(&c);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_life_runs_through_all_states),
		cmocka_unit_test(no_facts_lead_around_stopping_and_cleaning),
		TEST(a_claim_grants_what_was_allocated),
		TEST(a_claim_of_another_pod_or_node_is_refused),
		TEST(an_unallocated_claim_is_waited_for),
		TEST(a_grant_that_differs_from_the_ask_is_no_fence),
		TEST(a_container_without_an_ask_gets_nothing),
		TEST(whole_cards_have_no_cap),
		TEST(slices_are_where_the_claim_says),
		TEST(slices_that_differ_from_the_ask_are_refused),
		TEST(the_end_is_told_only_when_it_is_true),
		TEST(a_status_is_the_same_text_until_something_changes),
		TEST(a_slice_offers_cards_and_taints_faulty_ones),
		cmocka_unit_test(the_driver_may_take_a_little_beside_the_cap),
	};

	return cmocka_run_group_tests_name("node agent", tests, NULL, NULL);
}
