/* Slices of a card in MIG mode, by way of the kubelet: offered, made where the claim says, handed over alone, and
 * taken down by whichever agent is there. */
#define STAGE_CARDS "1xH200:mig,1xH200"
#include "plugin/test_stage.h"

#define SLICE(start)                                                                               \
	((struct box){ "c", "{'ringfence.io/mig-1g.18gb':'1'}", NULL, "gpu-0", NULL,               \
		       "{'profile':'1g.18gb','starts':[" #start "]}" })

static unsigned instances(void)
{
	struct rf_sim_card_info info[4];
	struct rf_err err = RF_ERR_INIT;
	size_t n;

	assert_ok(rf_sim_machine_cards(t.sim, info, RF_COUNT(info), &n, &err), err);
	return info[0].gpu_instances;
}

static const char *cdi_of(const struct rf_json *pod)
{
	return rf_fs_path(&t.arena, "ringfence.io/gpu=%s-c", uid_of(claim_of(pod)));
}

static struct rf_str caps_of(const struct rf_json *pod)
{
	return read_all(rf_arena_cstr(&t.arena, mounted(cdi_of(pod), "/ringfence/dev/caps")));
}

static void a_card_in_mig_mode_is_offered_for_slices_only(void **state RF_UNUSED)
{
	const struct rf_json *devices = rf_json_at(slice(), "spec", "devices");

	assert_int_equal(rf_json_len(devices), 2);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(devices, 0), "attributes", "migMode", "string"), "enabled"));
	assert_null(rf_json_at(rf_json_item(devices, 1), "attributes", "migMode"));
	assert_int_equal(kubelet_slots(t.k, GPU), 1);
	assert_int_equal(instances(), 0);
}

static void a_container_gets_its_slice_and_nothing_else_of_the_card(void **state RF_UNUSED)
{
	struct rf_json *pod = place("small", &SLICE(3), 1);
	struct rf_fence_limits limits;
	rf_auto(buf) env = RF_BUF_INIT;

	prepare(pod);
	assert_int_equal(instances(), 1);
	assert_true(has_card(cdi_of(pod), 0) && !has_card(cdi_of(pod), 1));
	assert_true(ask_fence(claim_of(pod), "c", &limits));
	assert_memory_equal(limits.card[0].uuid, "MIG-", 4);
	assert_int_equal(limits.card[0].memory_bytes, 0);
	rf_json_write(&env, rf_json_at(edits_of(cdi_of(pod)), "env"));
	assert_non_null(strstr(env.p, rf_fs_path(&t.arena, "\"CUDA_VISIBLE_DEVICES=%s\"", limits.card[0].uuid)));
	assert_true(rf_str_is(caps_of(pod), "0 1 0\n"));
	unprepare(pod);
	assert_int_equal(instances(), 0);
	assert_true(nothing_is_held());
	end_pod(pod);
}

static void slices_of_two_pods_are_side_by_side_and_outlive_the_agent(void **state RF_UNUSED)
{
	struct rf_json *one = place("one", &SLICE(6), 1), *two = place("two", &SLICE(5), 1);
	struct rf_fence_limits before, after;

	prepare(one);
	prepare(two);
	assert_int_equal(instances(), 2);
	assert_true(ask_fence(claim_of(one), "c", &before));
	restart_agent();
	assert_int_equal(instances(), 2);
	WAIT_FOR(ask_fence(claim_of(one), "c", &after));
	assert_string_equal(before.card[0].uuid, after.card[0].uuid);
	prepare(one);
	assert_int_equal(instances(), 2);
	unprepare(one);
	assert_int_equal(instances(), 1);
	unprepare(two);
	assert_int_equal(instances(), 0);
	end_pod(one);
	end_pod(two);
}

static void several_slices_reach_one_container(void **state RF_UNUSED)
{
	struct box box = { "c", "{'ringfence.io/mig-1g.18gb':'2'}", NULL, "gpu-0 gpu-0", NULL,
			   "{'profile':'1g.18gb','starts':[2,5]}" };
	struct rf_json *pod = place("pair", &box, 1);
	struct rf_fence_limits limits;

	prepare(pod);
	assert_int_equal(instances(), 2);
	assert_true(ask_fence(claim_of(pod), "c", &limits));
	assert_int_equal(limits.count, 2);
	assert_string_not_equal(limits.card[0].uuid, limits.card[1].uuid);
	assert_true(rf_str_is(caps_of(pod), "0 1 0\n0 2 0\n"));
	unprepare(pod);
	assert_int_equal(instances(), 0);
	end_pod(pod);
}

static void a_slice_is_held_while_a_process_of_its_pod_lives(void **state RF_UNUSED)
{
	struct rf_json *pod = place("lives", &SLICE(0), 1);
	int process = new_process(uid_of(pod));

	prepare(pod);
	refuses_to_unprepare(pod, "still run");
	assert_int_equal(instances(), 1);
	end_process(process);
	unprepare(pod);
	assert_int_equal(instances(), 0);
	end_pod(pod);
}

static void a_claim_without_a_record_still_has_its_slice(void **state RF_UNUSED)
{
	struct rf_json *pod = place("lost", &SLICE(4), 1);

	prepare(pod);
	kill_agent();
	assert_int_equal(rf_fs_remove_tree(rf_fs_path(&t.arena, "%s/claims/%s/record.json", t.data, uid_of(claim_of(pod))),
					   NULL),
			 0);
	start_agent("tick");
	wait_for_agent();
	WAIT_FOR(fence_answers(pod));
	assert_int_equal(instances(), 1);
	unprepare(pod);
	assert_int_equal(instances(), 0);
	end_pod(pod);
}

/* Since the step was armed. */
static bool noticed;

static void see_to_agent(void)
{
	if (!agent_died())
		return;
	noticed = true;
	start_agent("tick");
	wait_for_agent();
}

/* One life of a pod with an agent that dies at the given step of it; false: there are fewer. */
static bool live(int fatal)
{
	struct rf_json *pod = place("crash", &SLICE(3), 1);
	struct kubelet_claim c = as_claim(pod);
	struct rf_str text = rf_arena_printf(&t.arena, "%d", fatal);
	bool reached;

	noticed = false;
	assert_int_equal(rf_fs_write(at("fatal-step"), text, 0600, false, NULL), 0);
	while (true) {
		rf_auto(buf) devices = RF_BUF_INIT;
		struct rf_err err = RF_ERR_INIT;

		if (kubelet_prepare(t.k, c, &devices, &err) == 0)
			break;
		if (noticed)
			fail_msg("%s", err.msg); /* a death is the only excuse, and there is one */
		WAIT_FOR(agent_died());
		noticed = true;
		start_agent("tick");
		wait_for_agent();
	}
	WAIT_FOR((see_to_agent(), fence_answers(pod)));
	assert_int_equal(instances(), 1);
	forget_pod(pod);
	WAIT_FOR((see_to_agent(), claim_of(pod) == NULL && nothing_is_held()));
	reached = unlink(at("fatal-step")) != 0;
	if (reached && !noticed)
		WAIT_FOR(agent_died());
	see_to_agent();
	WAIT_FOR(instances() == 0);
	return reached;
}

static void an_agent_may_die_at_any_step_and_leaves_no_instance(void **state RF_UNUSED)
{
	int steps = 1;

	while (live(steps))
		steps++;
	assert_true(steps > 10);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_card_in_mig_mode_is_offered_for_slices_only),
		TEST(a_container_gets_its_slice_and_nothing_else_of_the_card),
		TEST(slices_of_two_pods_are_side_by_side_and_outlive_the_agent),
		TEST(several_slices_reach_one_container),
		TEST(a_slice_is_held_while_a_process_of_its_pod_lives),
		TEST(a_claim_without_a_record_still_has_its_slice),
		TEST(an_agent_may_die_at_any_step_and_leaves_no_instance),
	};

	return perform(argc, argv, "plugin mig", tests, RF_COUNT(tests));
}
