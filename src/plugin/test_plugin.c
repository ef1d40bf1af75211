/* What the agent beside a kubelet promises: registration, containers with slots, DRA, the guard. */
#include "plugin/test_stage.h"

/* --- registration ----------------------------------------------------------------------------- */

/* The other way round a pod could be placed here whose card the kubelet has not heard of. */
static void cards_are_published_once_the_kubelet_follows_every_name(void **state RF_UNUSED)
{
	kubelet_refuse(t.k, true);
	kubelet_start(t.k, true);
	start_agent("tick");
	WAIT_FOR(driver_is_known());
	int asked = kubelet_asked(t.k);
	WAIT_FOR(kubelet_asked(t.k) >= asked + 4); /* two names, two looks */
	assert_null(slice());
	kubelet_refuse(t.k, false);
	kubelet_delay(t.k, true);
	asked = kubelet_asked(t.k);
	WAIT_FOR(kubelet_asked(t.k) > asked);
	assert_null(slice());
	kubelet_delay(t.k, false);
	WAIT_FOR(is_known());
	WAIT_FOR(slice() != NULL);
	assert_int_equal(rf_json_len(rf_json_at(slice(), "spec", "devices")), 2);
	assert_int_equal(kubelet_slots(t.k, GPU), 2);
	assert_int_equal(kubelet_slots(t.k, CARD), 2);
	assert_int_equal(kubelet_health(t.k, GPU, "slot-1"), 1);
}

static void a_second_agent_does_not_start(void **state RF_UNUSED)
{
	pid_t second = run_agent("tick");
	int status = 0;

	assert_int_equal(waitpid(second, &status, 0), second);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	assert_true(is_known());
}

/* Without a tick: what it does not hear from the folders it does not know. */
static void a_kubelet_that_starts_is_registered_with_at_once(void **state RF_UNUSED)
{
	kill_agent();
	start_agent("no-tick");
	WAIT_FOR(is_known());
	for (int clean = 0; clean < 2; clean++) {
		kubelet_stop(t.k);
		assert_false(is_known());
		kubelet_start(t.k, clean);
		WAIT_FOR(is_known());
	}
}

/* Two of them for a moment: the old one answers when the new one is there already. */
static void what_an_old_kubelet_answers_does_not_count(void **state RF_UNUSED)
{
	struct kubelet *old = t.k;

	kubelet_stop(old);
	kubelet_delay(old, true);
	kubelet_start(old, true);
	WAIT_FOR(kubelet_asked(old) > 0);
	t.k = kubelet_new(at("kubelet"));
	kubelet_start(t.k, false);
	kubelet_delay(old, false);
	for (int i = 0; i < 5; i++)
		kubelet_turn(old);
	WAIT_FOR(is_known());
	kubelet_free(old);
	for (int i = 0; i < 5; i++)
		kubelet_turn(t.k);
	assert_true(is_known());
}

static void a_socket_that_is_removed_comes_back_at_once(void **state RF_UNUSED)
{
	const char *const driver[] = { at("kubelet/plugins_registry/ringfence.io-reg.sock"),
				       at("kubelet/plugins/ringfence.io/dra.sock") };

	for (int i = 0; i < 2; i++) {
		const char *path = rf_fs_path(
			&t.arena, "%s/kubelet/device-plugins/ringfence-%d.sock", t.dir, i);

		assert_int_equal(unlink(path), 0);
		WAIT_FOR(!is_known());
		WAIT_FOR(rf_fs_exists(path) && is_known());
	}
	for (size_t i = 0; i < RF_COUNT(driver); i++) {
		assert_int_equal(unlink(driver[i]), 0);
		WAIT_FOR(rf_fs_exists(driver[i]));
	}
	WAIT_FOR(driver_is_known());
	restart_agent();
}

static void a_kubelet_that_stops_listening_is_registered_with_again(void **state RF_UNUSED)
{
	kubelet_unfollow(t.k, GPU);
	assert_false(is_known());
	WAIT_FOR(is_known());
}

/* A kubelet that starts deletes the slice; it is there again, but not before the names are. */
static void a_slice_that_was_deleted_is_published_again(void **state RF_UNUSED)
{
	kubelet_stop(t.k);
	delete_at(&RF_RESOURCESLICES, "node-1-ringfence", -1);
	kubelet_refuse(t.k, true);
	kubelet_start(t.k, true);
	WAIT_FOR(kubelet_asked(t.k) >= 4);
	assert_null(slice());
	kubelet_refuse(t.k, false);
	WAIT_FOR(slice() != NULL);
	assert_true(is_known());
}

/* --- whole cards by slots --------------------------------------------------------------------- */

static void assert_env(const char *cdi)
{
	rf_auto(buf) env = RF_BUF_INIT;

	rf_json_write(&env, rf_json_at(edits_of(cdi), "env"));
	assert_string_equal(env.p, "[\"LD_PRELOAD=/ringfence/lib/libringfence.so\","
				   "\"LD_LIBRARY_PATH=/ringfence/lib\","
				   "\"NVIDIA_VISIBLE_DEVICES=void\","
				   "\"RINGFENCE_SIM=/ringfence/dev\"]");
}

static void the_claim_says_which_card_not_the_slot(void **state RF_UNUSED)
{
	struct rf_json *pod = place("train", &WHOLE("gpu-1"), 1), *claim = claim_of(pod);
	struct rf_fence_limits limits;
	char cdi[128];

	promise("train", "c", "slot-0", cdi);
	assert_memory_equal(cdi, "ringfence.io/gpu=slot-", 22);
	assert_int_equal(spec_text(cdi).n, 0); /* promised, and not there yet */
	assert_false(is_held(pod));
	start_container("slot-0");
	assert_true(is_held(pod));
	assert_true(has_card(cdi, 1));
	assert_false(has_card(cdi, 0));
	assert_env(cdi);
	struct rf_str run = rf_arena_printf(&t.arena, "%s/claims/%s/c/run", t.data, uid_of(claim));
	assert_true(rf_str_eq(mounted(cdi, "/ringfence/run"), run));
	assert_int_equal(rf_json_len(rf_json_at(edits_of(cdi), "mounts")), 7);
	assert_int_equal(rf_json_len(edits_of(cdi)), 2); /* env and mounts: no hooks */
	assert_false(rf_str_contains(spec_text(cdi), RF_LIT("\"all\"")));
	assert_true(ask_fence(claim, "c", &limits));
	assert_int_equal(limits.count, 1);
	assert_string_equal(limits.card[0].uuid, card_uuid(1));
	assert_int_equal(limits.card[0].memory_bytes, 0);
	end_pod(pod);
	assert_true(nothing_is_held());
}

static void a_container_that_starts_again_gets_the_same(void **state RF_UNUSED)
{
	struct rf_json *pod = place("again", &WHOLE("gpu-0"), 1);
	char cdi[128];

	promise("again", "c", "slot-1", cdi);
	start_container("slot-1");
	struct rf_str first = spec_text(cdi);
	unlink(spec_path(cdi));
	start_container("slot-1");
	assert_true(first.n > 0 && rf_str_eq(first, spec_text(cdi)));
	restart_agent();
	assert_true(fence_answers(pod));
	start_container("slot-1");
	assert_true(rf_str_eq(first, spec_text(cdi)));
	end_pod(pod);
}

static void each_container_gets_its_own(void **state RF_UNUSED)
{
	const struct box boxes[] = { { "a", "{'" GPU "':'1'}", NULL, "gpu-1", NULL },
				     { "plain", "{}", NULL, NULL, NULL },
				     { "b", "{'" GPU "':'1'}", NULL, "gpu-0", NULL } };
	struct rf_json *pod = place("pair", boxes, RF_COUNT(boxes));
	char a[128], b[128];

	promise("pair", "a", "slot-0", a);
	promise("pair", "b", "slot-1", b);
	start_container("slot-0");
	start_container("slot-1");
	assert_true(has_card(a, 1) && !has_card(a, 0));
	assert_true(has_card(b, 0) && !has_card(b, 1));
	assert_false(rf_str_eq(mounted(a, "/ringfence/run"), mounted(b, "/ringfence/run")));
	end_pod(pod);
	assert_true(nothing_is_held());
}

static void two_cards_reach_one_container(void **state RF_UNUSED)
{
	struct rf_json *pod = place(
		"both", &(struct box){ "c", "{'" GPU "':'2'}", NULL, "gpu-1 gpu-0", NULL }, 1);
	char cdi[128];

	promise("both", "c", "slot-1 slot-0", cdi);
	start_container("slot-0 slot-1"); /* a set, in any order */
	assert_true(has_card(cdi, 0) && has_card(cdi, 1));
	refuses_to_start("slot-0", "were not allocated");
	end_pod(pod);
}

/* --- who gets nothing ------------------------------------------------------------------------- */

static struct rf_json *refused;

static void expect_refusal(const char *pod, const char *because)
{
	char cdi[128];

	promise(pod, "c", "slot-0", cdi);
	refuses_to_start("slot-0", because);
	assert_int_equal(spec_text(cdi).n, 0);
	assert_int_equal(count_in("data/claims"), 0);
	kubelet_unassign(t.k, pod);
	if (refused != NULL)
		forget_pod(refused);
	refused = NULL;
}

static void a_pod_without_a_claim_gets_nothing(void **state RF_UNUSED)
{
	char cdi[128];

	refused = make_pod("stray", &WHOLE(NULL), 1);
	bind_pod("stray");
	expect_refusal("stray", "not placed by ringfence");
	expect_refusal("nobody", "read pod team-a/nobody");
	refused = make_pod("elsewhere", &WHOLE(NULL), 1);
	expect_refusal("elsewhere", "is not on this node");
	promise("stray", "c", "slot-0", cdi);
	kubelet_unassign(t.k, "stray");
	refuses_to_start("slot-0", "knows no container with these devices");
	refuses_to_start("slot-1", "were not allocated");
	kubelet_assign(t.k, "stray", "c", GPU, "slot-0");
	kubelet_assign(t.k, "other", "c", GPU, "slot-0");
	refuses_to_start("slot-0", "knows 2 containers");
	kubelet_unassign(t.k, "stray");
	kubelet_unassign(t.k, "other");
}

static void a_claim_that_does_not_fit_gives_nothing(void **state RF_UNUSED)
{
	const struct box whole = WHOLE("gpu-0");
	struct rf_json *other = make_pod("other", &whole, 1);

	refused = make_pod("p1", &whole, 1);
	allocate(make_claim(refused, true), refused, "node-2", &whole, 1);
	bind_pod("p1");
	expect_refusal("p1", "not on this machine");
	refused = make_pod("p2", &whole, 1);
	allocate(make_claim(refused, true), other, "node-1", &whole, 1);
	bind_pod("p2");
	expect_refusal("p2", "is not reserved for this pod");
	refused = make_pod("p3", &whole, 1);
	make_claim(refused, true);
	bind_pod("p3");
	expect_refusal("p3", "is not allocated yet");
	refused = make_pod("p4", &whole, 1);
	allocate(make_claim(refused, false), refused, "node-1", &whole, 1);
	bind_pod("p4");
	expect_refusal("p4", "was not made by ringfence");
	refused = make_pod("p5", &(struct box){ "c", "{'" GPU "':'2'}", NULL, NULL, NULL }, 1);
	allocate(make_claim(refused, true), refused, "node-1", &whole, 1);
	bind_pod("p5");
	expect_refusal("p5", "2 cards were asked for, 1 were allocated");
	forget_pod(other);
}

#define FIVE(x) x " " x " " x " " x " " x

static void a_claim_that_grants_too_much_gives_nothing(void **state RF_UNUSED)
{
	/* As shares the API server lets a card be named again and again. */
	const struct box twice = { "c", "{'" GPU "':'2'}", NULL, "gpu-0 gpu-0", "1Gi" };
	const struct box many = { "c", "{'ringfence.io/gpu-memory':'1Mi'}", NULL,
				  FIVE("gpu-0") " " FIVE("gpu-1") " " FIVE("gpu-0") " gpu-1 gpu-0",
				  "1Mi" };
	const struct box mixed[] = { { "c", "{'" GPU "':'1'}", NULL, "gpu-0", "1Gi" },
				     { "d", "{'ringfence.io/gpu-memory':'1Gi'}", NULL, "gpu-0",
				       "1Gi" } };

	refused = place("twice", &twice, 1);
	expect_refusal("twice", "names card gpu-0 twice");
	refused = place("many", &many, 1);
	expect_refusal("many", "more than 16 cards");
	refused = place("mixed", mixed, 2);
	expect_refusal("mixed", "names card gpu-0 twice");
}

static void a_claim_on_its_way_out_gives_nothing(void **state RF_UNUSED)
{
	const struct box whole = WHOLE("gpu-0");
	struct rf_json *pod = make_pod("late", &whole, 1);

	allocate(make_claim(pod, true), pod, "node-1", &whole, 1);
	set_finalizers(pod, "['example.com/keep']");
	delete_at(&RF_RESOURCECLAIMS, claim_name(pod), -1);
	bind_pod("late");
	expect_refusal("late", "is being deleted");
	refuses_to_prepare(pod, "is being deleted");
	set_finalizers(pod, "null");
	assert_null(claim_of(pod));
	expect_refusal("late", "not placed by ringfence");
	forget_pod(pod);
}

static void volumes_over_our_folder_are_refused(void **state RF_UNUSED)
{
	static const char *const paths[] = { "/ringfence",	     "/ringfence/",
					     "//ringfence//lib",     "/a/../ringfence/run",
					     "/../ringfence",	     "/./ringfence/.",
					     "/a/b/../../ringfence", "/" };
	static const char *const fine[] = { "/ringfences", "/a/ringfence", "/ringfence/../a" };
	struct box box = WHOLE("gpu-0");
	char cdi[128];

	for (size_t i = 0; i < RF_COUNT(paths); i++) {
		box.mount = paths[i];
		refused = place("over", &box, 1);
		expect_refusal("over", "/ringfence is ringfence's");
	}
	for (size_t i = 0; i < RF_COUNT(fine); i++) {
		box.mount = fine[i];
		struct rf_json *pod = place("beside", &box, 1);

		promise("beside", "c", "slot-0", cdi);
		start_container("slot-0");
		end_pod(pod);
	}
}

/* Pods are named by the kubelet, claims by uid: the slots of the dead are not for their namesakes. */
static void a_new_pod_of_an_old_name_needs_slots_of_its_own(void **state RF_UNUSED)
{
	struct rf_json *old = place("name", &WHOLE("gpu-0"), 1), *young;
	int process = new_process(uid_of(old));
	char first[128], second[128];

	promise("name", "c", "slot-0", first);
	start_container("slot-0");
	forget_pod(old);
	young = place("name", &WHOLE("gpu-1"), 1);
	restart_agent(); /* nothing is settled any more, but the promise is remembered */
	refuses_to_start("slot-0", "of an earlier pod");
	assert_true(has_card(first, 0));
	promise("name", "c", "slot-1", second);
	refuses_to_start("slot-0", "of an earlier pod");
	start_container("slot-1");
	assert_true(has_card(second, 1) && !has_card(second, 0));
	end_process(process);
	WAIT_FOR(claim_of(old) == NULL);
	end_pod(young);
	assert_true(nothing_is_held());
}

/* --- cards that fail -------------------------------------------------------------------------- */

static bool is_tainted(int card)
{
	const struct rf_json *d =
		rf_json_item(rf_json_at(slice(), "spec", "devices"), (size_t)card);

	return rf_json_len(rf_json_at(d, "taints")) > 0;
}

static void a_card_that_fails_is_withdrawn(void **state RF_UNUSED)
{
	struct rf_json *pod = place("sick", &WHOLE("gpu-1"), 1);
	struct rf_err err = RF_ERR_INIT;
	char cdi[128];

	promise("sick", "c", "slot-0", cdi);
	start_container("slot-0");
	assert_ok(rf_sim_inject_xid(t.sim, 1, 48, &err), err);
	/* The slot whose container is on the card, under the name it was asked for with. */
	WAIT_FOR(kubelet_health(t.k, GPU, "slot-0") == 0);
	assert_int_equal(kubelet_health(t.k, GPU, "slot-1"), 1);
	WAIT_FOR(kubelet_health(t.k, CARD, "slot-1") == 0);
	assert_int_equal(kubelet_health(t.k, CARD, "slot-0"), 1);
	WAIT_FOR(is_tainted(1));
	assert_false(is_tainted(0));
	refuses_to_start("slot-0", "is out of service: XID 48");
	/* Its fence is there for what still runs, after a restart too. */
	restart_agent();
	assert_int_equal(kubelet_health(t.k, GPU, "slot-0"), 0);
	assert_true(fence_answers(pod));
	assert_ok(rf_sim_clear(t.sim, 1, &err), err);
	WAIT_FOR(kubelet_health(t.k, GPU, "slot-0") == 1);
	WAIT_FOR(!is_tainted(1));
	start_container("slot-0");
	end_pod(pod);
}

/* --- DRA -------------------------------------------------------------------------------------- */

static void prepare_and_unprepare_can_be_repeated(void **state RF_UNUSED)
{
	struct rf_json *pod = place("share", &SHARE("gpu-1", "10Gi"), 1), *claim = claim_of(pod);
	struct kubelet_claim c = as_claim(pod);
	struct rf_fence_limits limits;
	struct rf_err err = RF_ERR_INIT;
	rf_auto(buf) first = RF_BUF_INIT;
	rf_auto(buf) again = RF_BUF_INIT;
	struct rf_str cdi = rf_arena_printf(&t.arena, "ringfence.io/gpu=%s-c", c.uid);

	assert_ok(kubelet_prepare(t.k, c, &first, &err), err);
	assert_string_equal(first.p, rf_arena_printf(&t.arena, "c node-1 gpu-1 %s\n", cdi.p).p);
	assert_true(is_held(pod));
	assert_true(has_card(cdi.p, 1) && !has_card(cdi.p, 0));
	assert_env(cdi.p);
	struct rf_str spec = spec_text(cdi.p);
	assert_ok(kubelet_prepare(t.k, c, &again, &err), err);
	assert_string_equal(first.p, again.p);
	assert_true(rf_str_eq(spec, spec_text(cdi.p)));
	assert_true(ask_fence(claim, "c", &limits));
	assert_string_equal(limits.card[0].uuid, card_uuid(1));
	assert_int_equal(limits.card[0].memory_bytes, 10LL << 30);
	assert_int_equal(limits.card[0].context_bytes, CONTEXT_MIB << 20);
	assert_int_equal(limits.card[0].priority, 0);
	assert_int_equal(limits.card[0].flags, 0);
	for (int i = 0; i < 2; i++) {
		assert_ok(kubelet_unprepare(t.k, c, &err), err);
		assert_true(nothing_is_held());
		assert_false(is_held(pod));
	}
	assert_ok(kubelet_prepare(t.k, c, &again, &err), err);
	assert_ok(kubelet_unprepare(t.k, c, &err), err);
	end_pod(pod);
}

/* And is on file: the next agent does not wait for the API server to know it. */
static void a_pod_says_how_it_shares_time(void **state RF_UNUSED)
{
	static const struct {
		const char *class;
		int64_t value;
		int32_t means;
	} priorities[] = { { "high", 1000, 30 }, { "most", 1000000000, 90 }, { "low", -5, -9 }, { "next", 1, 3 } };
	static const struct rf_kube_res classes = { "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false };

	for (size_t i = 0; i < RF_COUNT(priorities); i++) {
		create_at(&classes, "", "", NULL,
			  rf_json_make(&t.arena, "{'metadata':{'name':%s},'value':%D}", priorities[i].class,
				       priorities[i].value),
			  NULL);
		pod_bursts = true;
		pod_class = priorities[i].class;
		struct rf_json *pod = place("eager", &SHARE("gpu-0", "1Gi"), 1), *whole;
		struct rf_fence_limits limits;

		pod_class = "";
		whole = place("whole", &DRA_WHOLE("gpu-1"), 1);
		pod_bursts = false;
		prepare(pod);
		prepare(whole);
		if (i == 0)
			restart_agent();
		assert_true(ask_fence(claim_of(pod), "c", &limits));
		assert_int_equal(limits.card[0].flags, RF_FENCE_BURST);
		assert_int_equal(limits.card[0].priority, priorities[i].means);
		assert_true(ask_fence(claim_of(whole), "c", &limits));
		assert_int_equal(limits.card[0].flags, 0); /* nobody to share with */
		unprepare(pod);
		unprepare(whole);
		end_pod(pod);
		end_pod(whole);
	}
}

static void a_claim_of_another_time_is_not_prepared(void **state RF_UNUSED)
{
	struct rf_json *pod = place("replaced", &SHARE("gpu-1", "1Gi"), 1);
	struct kubelet_claim c = { claim_name(pod), "00000000-0000-4000-8000-000000000000" };
	rf_auto(buf) devices = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	assert_true(kubelet_prepare(t.k, c, &devices, &err) < 0);
	assert_non_null(strstr(err.msg, "replaced by another of its name"));
	c.uid = "../../..";
	assert_int_equal(kubelet_unprepare(t.k, c, &err), 0); /* nobody's, and nothing is touched */
	assert_true(rf_fs_exists(t.sim));
	end_pod(pod);
}

static void a_claim_is_held_while_a_process_of_its_pod_lives(void **state RF_UNUSED)
{
	struct rf_json *pod = place("alive", &SHARE("gpu-0", "1Gi"), 1);
	int process = new_process(uid_of(pod));

	prepare(pod);
	refuses_to_unprepare(pod, "still run");
	assert_true(is_held(pod));
	assert_true(fence_answers(pod));
	/* A process of which nobody can tell whose it is may be the pod's. */
	end_process(process);
	process = ++t.last_pid;
	assert_int_equal(
		rf_fs_mkdirs(rf_fs_path(&t.arena, "%s/cgroup", proc_of(process)), 0755, NULL), 0);
	refuses_to_unprepare(pod, "look for the processes of pod");
	assert_true(is_held(pod));
	end_process(process);
	unprepare(pod);
	assert_false(is_held(pod));
	end_pod(pod);
}

static void a_claim_is_held_while_its_pod_is_on_the_card(void **state RF_UNUSED)
{
	struct rf_json *pod = place("oncard", &DRA_WHOLE("gpu-0"), 1);

	prepare(pod);
	pid_t user = use_card("0", "100Mi", uid_of(pod));
	WAIT_FOR(card_has(0, 1));
	refuses_to_unprepare(pod, "still run");
	leave_card(user);
	unprepare(pod);
	end_pod(pod);
}

static void a_card_is_not_given_while_strangers_are_on_it(void **state RF_UNUSED)
{
	struct rf_json *pod = place("whole", &DRA_WHOLE("gpu-0"), 1);
	struct rf_json *share = place("share", &SHARE("gpu-1", "1Gi"), 1);
	pid_t user = use_card("0", "100Mi", "11111111-2222-4333-8444-555555555555");
	pid_t other = use_card("1", "100Mi", "11111111-2222-4333-8444-555555555555");

	WAIT_FOR(card_has(0, 1) && card_has(1, 1));
	refuses_to_prepare(pod, "1 processes of others are still on it");
	refuses_to_prepare(share, "1 processes of others are still on it");
	assert_true(nothing_is_held());
	leave_card(user);
	leave_card(other);
	prepare(pod);
	unprepare(pod);
	prepare(share);
	end_pod(pod);
	end_pod(share);
}

/* Who shares a card is no stranger there. */
static void shares_of_a_card_live_together(void **state RF_UNUSED)
{
	struct rf_json *one = place("one", &SHARE("gpu-0", "1Gi"), 1);
	struct rf_json *two = place("two", &SHARE("gpu-0", "1Gi"), 1);

	prepare(one);
	pid_t user = use_card("0", "100Mi", uid_of(one));
	WAIT_FOR(card_has(0, 1)); /* it has no fence, and a look or two to live */
	prepare(two);
	leave_card(user);
	unprepare(one);
	unprepare(two);
	end_pod(one);
	end_pod(two);
}

/* The API server is talked into forgetting a claim whose pod still runs: the node does not forget. */
static void a_card_that_is_held_is_not_given_twice(void **state RF_UNUSED)
{
	struct rf_json *first = place("first", &SHARE("gpu-0", "100Gi"), 1), *whole, *share;
	int process = new_process(uid_of(first));

	prepare(first);
	forget_pod(first);
	set_finalizers(first, "null");
	assert_null(claim_of(first));
	share = place("second", &SHARE("gpu-0", "100Gi"), 1);
	refuses_to_prepare(share, "would be promised");
	end_pod(share);
	share = place("small", &SHARE("gpu-0", "1Gi"), 1);
	prepare(share);
	unprepare(share);
	end_pod(share);
	whole = place("third", &DRA_WHOLE("gpu-0"), 1);
	refuses_to_prepare(whole, "still held by another claim on this node");
	restart_agent();
	refuses_to_prepare(whole, "still held by another claim on this node");
	end_process(process);
	WAIT_FOR(nothing_is_held());
	prepare(whole);
	unprepare(whole);
	end_pod(whole);
}

static void a_pod_that_has_ended_gets_nothing_and_gives_back(void **state RF_UNUSED)
{
	struct rf_json *pod = place("done", &SHARE("gpu-0", "1Gi"), 1);
	struct rf_err err = RF_ERR_INIT;

	prepare(pod);
	assert_ok(rf_kube_patch(t.w.admin, &t.arena,
				rf_kube_path(&t.arena, &RF_PODS, RF_LIT("team-a"), RF_LIT("done"),
					     "status"),
				RF_PATCH_MERGE,
				rf_json_make(&t.arena, "{'status':{'phase':'Succeeded'}}"), NULL,
				&err),
		  err);
	WAIT_FOR(!is_held(pod)); /* nobody called */
	WAIT_FOR(nothing_is_held());
	refuses_to_prepare(pod, "has ended");
	end_pod(pod);
}

static void a_pod_that_was_forgotten_gives_back_when_its_last_process_ends(void **state RF_UNUSED)
{
	struct rf_json *pod = place("gone", &WHOLE("gpu-0"), 1), *next;
	int process = new_process(uid_of(pod));
	char old[128], new[128];

	promise("gone", "c", "slot-0", old);
	start_container("slot-0");
	kubelet_unassign(t.k, "gone");
	forget_pod(pod);
	/* The kubelet gives the slot out again; the card is still taken. */
	next = place("next", &WHOLE("gpu-1"), 1);
	promise("next", "c", "slot-0", new);
	assert_string_not_equal(old, new);
	assert_int_equal(spec_text(old).n, 0);
	start_container("slot-0");
	assert_true(has_card(new, 1));
	assert_true(is_held(pod));
	end_process(process);
	WAIT_FOR(claim_of(pod) == NULL);
	assert_true(has_card(new, 1));
	end_pod(next);
	assert_true(nothing_is_held());
}

/* --- the guard -------------------------------------------------------------------------------- */

static void who_goes_around_the_fence_is_ended(void **state RF_UNUSED)
{
	struct rf_json *pod = place("bypass", &SHARE("gpu-0", "1Gi"), 1);

	prepare(pod);
	pid_t user = use_card("0", "100Mi", uid_of(pod));
	WAIT_FOR(was_killed(user));
	end_process(user);
	/* Nor may it use a card that is not its own. */
	user = use_card("1", "100Mi", uid_of(pod));
	WAIT_FOR(was_killed(user));
	end_process(user);
	unprepare(pod);
	end_pod(pod);
}

static void whole_cards_and_strangers_are_left_alone(void **state RF_UNUSED)
{
	struct rf_json *pod = place("mine", &DRA_WHOLE("gpu-0"), 1);
	struct rf_json *share = place("bait", &SHARE("gpu-1", "1Gi"), 1);

	prepare(pod);
	prepare(share);
	pid_t own = use_card("0", "100Mi", uid_of(pod));
	pid_t stranger = use_card("1", "100Mi", "11111111-2222-4333-8444-555555555555");
	pid_t bait = use_card("1", "100Mi", uid_of(share)); /* says when the guard has looked */
	WAIT_FOR(was_killed(bait));
	end_process(bait);
	assert_int_equal(kill(own, 0), 0);
	assert_int_equal(kill(stranger, 0), 0);
	leave_card(own);
	leave_card(stranger);
	unprepare(pod);
	unprepare(share);
	end_pod(pod);
	end_pod(share);
}

/* A tenant can write nonsense into its ledger and wait for the next agent: that frees nobody. */
static void a_spoilt_ledger_is_no_way_around_the_fence(void **state RF_UNUSED)
{
	struct rf_json *pod = place("spoiler", &SHARE("gpu-0", "1Gi"), 1);
	const char *ledger = rf_fs_path(&t.arena, "%s/claims/%s/.volumes/.ledger-c/ledger", t.data,
					uid_of(claim_of(pod)));

	prepare(pod);
	int fd = open(ledger, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "nonsense", 8, 0), 8);
	close(fd);
	restart_agent();
	assert_false(fence_answers(pod));
	pid_t user = use_card("0", "100Mi", uid_of(pod));
	WAIT_FOR(was_killed(user));
	end_process(user);
	refuses_to_prepare(pod, "is not a ledger");
	unprepare(pod);
	end_pod(pod);
}

static bool was_told(const struct rf_json *pod, const char *reason, const char *what)
{
	struct rf_json *list = NULL, *items;
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_get(t.w.admin, &t.arena, RF_LIT("/api/v1/namespaces/team-a/events"),
			      &list, &err),
		  err);
	items = rf_json_at(list, "items");
	for (size_t i = 0; i < rf_json_len(items); i++) {
		const struct rf_json *e = rf_json_item(items, i);

		if (rf_str_eq(rf_json_str_at(e, "involvedObject", "uid"), rf_kube_uid(pod)) &&
		    rf_str_is(rf_json_str_at(e, "reason"), reason) &&
		    rf_str_contains(rf_json_str_at(e, "message"), rf_str(what)))
			return true;
	}
	return false;
}

/* Containers are not carried over an upgrade that changes the ledger: they are ended, and told why. */
static void a_ledger_of_another_version_ends_its_pod_and_says_why(void **state RF_UNUSED)
{
	struct rf_json *pod = place("veteran", &SHARE("gpu-0", "1Gi"), 1);
	const char *ledger = rf_fs_path(&t.arena, "%s/claims/%s/.volumes/.ledger-c/ledger", t.data,
					uid_of(claim_of(pod)));
	uint32_t version = 1;

	prepare(pod);
	kill_agent();
	int fd = open(ledger, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &version, sizeof(version), offsetof(struct rf_ledger, version)),
			 sizeof(version));
	close(fd);
	start_agent("tick");
	wait_for_agent();
	WAIT_FOR(was_told(pod, "FenceOutdated", "its ledger is of version 1"));
	pid_t user = use_card("0", "100Mi", uid_of(pod));
	WAIT_FOR(was_killed(user));
	end_process(user);
	WAIT_FOR(was_told(pod, "FenceOutdated", "a process uses card gpu-0"));
	refuses_to_prepare(pod, "drain a node before ringfence is upgraded");
	unprepare(pod);
	end_pod(pod);
}

/* Within the cap and what the driver may take beside it, however many processes there are. */
static void many_processes_are_allowed_no_more_than_one(void **state RF_UNUSED)
{
	struct rf_json *pod = place("crowd", &SHARE("gpu-0", "2Gi"), 1);

	prepare(pod);
	/* Two contexts and 2 x 1 GiB are beyond 2 GiB, 3 % of it and 256 MiB. Should the guard have looked
	 * between the two, it took the first for one that goes around the fence: then again. */
	for (int i = 0; i < 5 && !was_told(pod, "OverMemoryCap", "holds"); i++) {
		pid_t users[2];

		for (size_t k = 0; k < RF_COUNT(users); k++)
			users[k] = use_card("0", "1Gi", uid_of(pod));
		for (size_t k = 0; k < RF_COUNT(users); k++) {
			WAIT_FOR(was_killed(users[k]));
			end_process(users[k]);
		}
	}
	assert_true(was_told(pod, "OverMemoryCap", "holds"));
	unprepare(pod);
	end_pod(pod);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(cards_are_published_once_the_kubelet_follows_every_name,
					  tidy),
		TEST(a_second_agent_does_not_start),
		TEST(a_kubelet_that_starts_is_registered_with_at_once),
		TEST(what_an_old_kubelet_answers_does_not_count),
		TEST(a_socket_that_is_removed_comes_back_at_once),
		TEST(a_kubelet_that_stops_listening_is_registered_with_again),
		TEST(a_slice_that_was_deleted_is_published_again),
		TEST(the_claim_says_which_card_not_the_slot),
		TEST(a_container_that_starts_again_gets_the_same),
		TEST(each_container_gets_its_own),
		TEST(two_cards_reach_one_container),
		TEST(a_pod_without_a_claim_gets_nothing),
		TEST(a_claim_that_does_not_fit_gives_nothing),
		TEST(a_claim_that_grants_too_much_gives_nothing),
		TEST(a_claim_on_its_way_out_gives_nothing),
		TEST(volumes_over_our_folder_are_refused),
		TEST(a_new_pod_of_an_old_name_needs_slots_of_its_own),
		TEST(a_card_that_fails_is_withdrawn),
		TEST(prepare_and_unprepare_can_be_repeated),
		TEST(a_pod_says_how_it_shares_time),
		TEST(a_claim_of_another_time_is_not_prepared),
		TEST(a_claim_is_held_while_a_process_of_its_pod_lives),
		TEST(a_claim_is_held_while_its_pod_is_on_the_card),
		TEST(a_card_is_not_given_while_strangers_are_on_it),
		TEST(shares_of_a_card_live_together),
		TEST(a_card_that_is_held_is_not_given_twice),
		TEST(a_pod_that_has_ended_gets_nothing_and_gives_back),
		TEST(a_pod_that_was_forgotten_gives_back_when_its_last_process_ends),
		TEST(who_goes_around_the_fence_is_ended),
		TEST(whole_cards_and_strangers_are_left_alone),
		TEST(a_spoilt_ledger_is_no_way_around_the_fence),
		TEST(a_ledger_of_another_version_ends_its_pod_and_says_why),
		TEST(many_processes_are_allowed_no_more_than_one),
	};

	return perform(argc, argv, "plugin", tests, RF_COUNT(tests));
}
