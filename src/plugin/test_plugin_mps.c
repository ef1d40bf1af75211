/* Shares by MPS, by way of the kubelet: one daemon per card and trust domain, of which containers see one socket; it
 * comes and goes with the pods, whichever agent is there. */
#include <sys/mount.h>

#define STAGE_CARDS "2xH200"
#include "plugin/test_stage.h"

#define MPS_MOUNT "/ringfence/mps"

static void patch(const struct rf_kube_res *res, const char *name, struct rf_json *p)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_patch(t.w.admin, &t.arena, rf_kube_path(&t.arena, res, RF_STR_EMPTY, rf_str(name), NULL),
				RF_PATCH_MERGE, p, NULL, &err),
		  err);
}

static void set_tenant(const char *isolation, const char *domain)
{
	patch(&RF_TENANTS, "team-a",
	      rf_json_make(&t.arena, "{'spec':{'isolation':%s,'trustDomain':%s}}", isolation, domain));
}

static void set_sharing(const char *sharing)
{
	patch(&RF_GPUPOOLS, "together", rf_json_make(&t.arena, "{'spec':{'sharing':%s}}", sharing));
}

static int make_pool(void **state)
{
	if (set_up(state) != 0)
		return -1;
	create_at(&RF_GPUPOOLS, "", "", NULL, rf_json_make(&t.arena, "{'metadata':{'name':'together'},'spec':{}}"), NULL);
	patch(&RF_NODES, "node-1", rf_json_make(&t.arena, "{'metadata':{'labels':{'ringfence.io/pool':'together'}}}"));
	return 0;
}

static int begin(void **state)
{
	set_sharing("mps");
	set_tenant("cooperative", "research");
	return ready(state);
}

static const char *cdi_of(const struct rf_json *pod)
{
	return rf_fs_path(&t.arena, "ringfence.io/gpu=%s-c", uid_of(claim_of(pod)));
}

static const char *home(int card)
{
	return rf_fs_path(&t.arena, "%s/mps/%d", t.data, card);
}

/* The control daemon's own word; 0: it is not there. */
static pid_t daemon_of(int card)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text;
	int64_t pid = 0;

	if (rf_fs_read(&a, rf_fs_path(&a, "%s/pipe/nvidia-cuda-mps-control.pid", home(card)), 64, &text, NULL) < 0 ||
	    rf_str_int(rf_str_trim(text), &pid, NULL) < 0)
		return 0;
	return rf_mps_started((pid_t)pid) != 0 ? (pid_t)pid : 0;
}

static size_t processes_of(int card)
{
	return rf_mps_kill_all(rf_fs_path(&t.arena, "CUDA_MPS_PIPE_DIRECTORY=%s/pipe", home(card)), 0, NULL);
}

static bool nothing_is_left(void)
{
	return processes_of(0) + processes_of(1) == 0 && count_in("data/mps") == 0;
}

static bool is_spatial(const struct rf_json *pod)
{
	struct rf_fence_limits l;

	assert_true(ask_fence(claim_of(pod), "c", &l));
	return (l.card[0].flags & RF_FENCE_SPATIAL) != 0;
}

static bool has_env(const struct rf_json *pod)
{
	rf_auto(buf) env = RF_BUF_INIT;

	rf_json_write(&env, rf_json_at(edits_of(cdi_of(pod)), "env"));
	return strstr(env.p, "\"CUDA_MPS_PIPE_DIRECTORY=" MPS_MOUNT "\"") != NULL;
}

static bool is_client(const struct rf_json *pod)
{
	bool client = mounted(cdi_of(pod), MPS_MOUNT).n > 0;

	assert_int_equal(has_env(pod), client);
	assert_int_equal(is_spatial(pod), client);
	return client;
}

/* As a server of the daemon is: a process on the card that is no pod's. */
static pid_t serve_card(int card)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("CUDA_MPS_PIPE_DIRECTORY", rf_fs_path(&t.arena, "%s/pipe", home(card)), 1);
	setenv("RINGFENCE_SIM", t.sim, 1);
	setenv("LD_LIBRARY_PATH", SIM_LIB_DIR, 1);
	int null = open("/dev/null", O_WRONLY);
	dup2(null, 1);
	execl(GPU_DEMO, "gpu-demo", "--device", card ? "1" : "0", "--memory", "1Mi", "--hold", "600", (char *)NULL);
	_exit(127);
}

static void pods_of_a_trust_domain_get_the_socket_of_one_daemon(void **state RF_UNUSED)
{
	struct rf_json *one = place("one", &SHARE("gpu-0", "1Gi"), 1), *two = place("two", &SHARE("gpu-0", "2Gi"), 1);
	struct stat st;
	const char *dir;
	pid_t pid;

	prepare(one);
	pid = daemon_of(0);
	assert_true(pid > 0);
	assert_true(is_client(one));
	dir = rf_arena_cstr(&t.arena, mounted(cdi_of(one), MPS_MOUNT));
	assert_string_equal(dir, rf_fs_path(&t.arena, "%s/client", home(0)));
	assert_int_equal(count_in("data/mps/0/client"), 1);
	assert_int_equal(stat(rf_fs_path(&t.arena, "%s/control", dir), &st), 0);
	assert_true(S_ISSOCK(st.st_mode) && (st.st_mode & 0666) == 0666);
	/* It is the daemon's, under a second name; what commands go to is elsewhere. */
	assert_true(st.st_nlink == 2);
	assert_true(rf_fs_exists(rf_fs_path(&t.arena, "%s/pipe/control_privileged", home(0))));
	prepare(two);
	assert_int_equal(daemon_of(0), pid);
	assert_int_equal(daemon_of(1), 0);
	unprepare(one);
	assert_int_equal(daemon_of(0), pid);
	assert_false(nothing_is_left());
	unprepare(two);
	assert_true(nothing_is_left());
	end_pod(one);
	end_pod(two);
}

static void only_shares_of_those_who_agreed_in_such_a_pool(void **state RF_UNUSED)
{
	struct rf_json *whole = place("whole", &DRA_WHOLE("gpu-1"), 1), *careful, *timed;

	prepare(whole);
	assert_int_equal(mounted(cdi_of(whole), MPS_MOUNT).n, 0);
	assert_false(has_env(whole));
	set_tenant("share", "research");
	careful = place("careful", &SHARE("gpu-0", "1Gi"), 1);
	prepare(careful);
	assert_false(is_client(careful));
	set_tenant("cooperative", "research");
	set_sharing("timeslice");
	timed = place("timed", &SHARE("gpu-0", "1Gi"), 1);
	prepare(timed);
	assert_false(is_client(timed));
	assert_true(nothing_is_left());
	unprepare(whole);
	unprepare(careful);
	unprepare(timed);
	end_pod(whole);
	end_pod(careful);
	end_pod(timed);
}

static void another_trust_domain_does_not_join(void **state RF_UNUSED)
{
	struct rf_json *one = place("one", &SHARE("gpu-0", "1Gi"), 1), *other;

	prepare(one);
	set_tenant("cooperative", "elsewhere");
	other = place("other", &SHARE("gpu-0", "1Gi"), 1);
	refuses_to_prepare(other, "is shared by MPS in trust domain research; a pod of trust domain elsewhere does not");
	assert_false(rf_fs_exists(spec_path(cdi_of(other))));
	prepare(one); /* what was decided stays */
	unprepare(one);
	prepare(other);
	assert_true(is_client(other));
	unprepare(other);
	end_pod(one);
	end_pod(other);
}

static void the_daemon_outlives_the_agent_and_what_was_decided_holds(void **state RF_UNUSED)
{
	struct rf_json *one = place("one", &SHARE("gpu-0", "1Gi"), 1), *two;
	pid_t pid;

	prepare(one);
	pid = daemon_of(0);
	set_sharing("timeslice");
	kill_agent();
	start_agent("tick");
	wait_for_agent();
	WAIT_FOR(fence_answers(one));
	assert_int_equal(daemon_of(0), pid);
	assert_true(is_client(one));
	prepare(one);
	assert_true(is_client(one));
	two = place("two", &SHARE("gpu-0", "1Gi"), 1);
	prepare(two);
	assert_false(is_client(two));
	unprepare(one);
	assert_true(nothing_is_left());
	unprepare(two);
	end_pod(one);
	end_pod(two);
}

static void the_server_of_the_daemon_is_no_stranger_among_shares(void **state RF_UNUSED)
{
	struct rf_json *one = place("one", &SHARE("gpu-0", "1Gi"), 1), *two = place("two", &SHARE("gpu-0", "1Gi"), 1);
	pid_t server;

	prepare(one);
	server = serve_card(0);
	WAIT_FOR(card_has(0, 1));
	prepare(two);
	unprepare(two);
	unprepare(one); /* ends all of it, before the card is let go */
	assert_int_equal(waitpid(server, NULL, 0), server);
	assert_true(card_has(0, 0));
	end_pod(one);
	end_pod(two);
}

static void what_ran_by_a_daemon_that_died_is_ended_and_another_is_started(void **state RF_UNUSED)
{
	struct rf_json *one = place("one", &SHARE("gpu-0", "4Gi"), 1);
	const char *shown;
	struct stat before, after;
	pid_t pid, client;

	prepare(one);
	pid = daemon_of(0);
	shown = rf_fs_path(&t.arena, "%s/client/control", home(0));
	assert_int_equal(stat(shown, &before), 0);
	client = use_card("0", "1Mi", uid_of(one));
	WAIT_FOR(card_has(0, 1));
	kill(pid, SIGKILL);
	WAIT_FOR(was_killed(client));
	end_process(client);
	WAIT_FOR(daemon_of(0) > 0 && daemon_of(0) != pid);
	WAIT_FOR(stat(shown, &after) == 0);
	assert_true(is_client(one));
	prepare(one);
	unprepare(one);
	assert_true(nothing_is_left());
	end_pod(one);
}

static bool was_told(const struct rf_json *pod, const char *reason)
{
	struct rf_json *list = NULL;
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_get(t.w.admin, &t.arena, RF_LIT("/api/v1/namespaces/team-a/events"), &list, &err), err);
	list = rf_json_at(list, "items");
	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(list, i), "reason"), reason) &&
		    rf_str_eq(rf_json_str_at(rf_json_item(list, i), "involvedObject", "uid"), rf_kube_uid(pod)))
			return true;
	return false;
}

/* As a container that the kubelet starts again at once. */
static void what_comes_while_there_is_no_daemon_is_ended_too(void **state RF_UNUSED)
{
	struct rf_json *one = place("alone", &SHARE("gpu-0", "4Gi"), 1);
	const char *shown = rf_fs_path(&t.arena, "%s/client/control", home(0)), *pipe = rf_fs_path(&t.arena, "%s/pipe", home(0));
	pid_t pid, client;

	prepare(one);
	pid = daemon_of(0);
	assert_int_equal(mount("none", pipe, "tmpfs", 0, NULL), 0); /* no other can be started */
	kill(pid, SIGKILL);
	WAIT_FOR(!rf_fs_exists(shown));
	assert_false(was_told(one, "MPSDaemonDied")); /* nobody was on the card */
	client = use_card("0", "1Mi", uid_of(one));
	WAIT_FOR(was_killed(client));
	end_process(client);
	WAIT_FOR(was_told(one, "MPSDaemonDied"));
	assert_int_equal(umount2(pipe, MNT_DETACH), 0);
	WAIT_FOR(daemon_of(0) > 0 && rf_fs_exists(shown));
	prepare(one);
	unprepare(one);
	assert_true(nothing_is_left());
	end_pod(one);
}

static void a_client_of_whom_nothing_is_written_is_ended(void **state RF_UNUSED)
{
	struct rf_json *one = place("unknown", &SHARE("gpu-0", "4Gi"), 1);
	pid_t pid, client;

	prepare(one);
	pid = daemon_of(0);
	kill_agent();
	assert_int_equal(rf_fs_write(at("data/mps/gpu-0.json"), RF_LIT("{"), 0600, false, NULL), 0);
	client = use_card("0", "1Mi", uid_of(one));
	WAIT_FOR(card_has(0, 1));
	start_agent("tick");
	wait_for_agent();
	WAIT_FOR(was_killed(client));
	end_process(client);
	WAIT_FOR(daemon_of(0) > 0 && daemon_of(0) != pid); /* for what is started next, without being asked */
	prepare(one);
	assert_true(is_client(one));
	unprepare(one);
	assert_true(nothing_is_left());
	end_pod(one);
}

static void a_pod_that_is_gone_takes_its_daemon_along(void **state RF_UNUSED)
{
	struct rf_json *one = place("one", &SHARE("gpu-0", "1Gi"), 1);

	prepare(one);
	kill_agent();
	forget_pod(one);
	assert_true(daemon_of(0) > 0);
	start_agent("tick");
	wait_for_agent();
	WAIT_FOR(nothing_is_left() && nothing_is_held() && claim_of(one) == NULL);
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
	struct rf_json *pod = place("crash", &SHARE("gpu-0", "1Gi"), 1);
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
	WAIT_FOR((see_to_agent(), daemon_of(0) > 0));
	assert_true(is_client(pod));
	forget_pod(pod);
	WAIT_FOR((see_to_agent(), claim_of(pod) == NULL && nothing_is_held()));
	reached = unlink(at("fatal-step")) != 0;
	if (reached && !noticed)
		WAIT_FOR(agent_died());
	see_to_agent();
	WAIT_FOR(nothing_is_left());
	return reached;
}

static void an_agent_may_die_at_any_step_and_leaves_no_daemon(void **state RF_UNUSED)
{
	int steps = 1;

	while (live(steps))
		steps++;
	assert_true(steps > 10);
}

int main(int argc, char **argv)
{
#define MPS_TEST(f) cmocka_unit_test_setup_teardown(f, begin, tidy)
	const struct CMUnitTest tests[] = {
		MPS_TEST(pods_of_a_trust_domain_get_the_socket_of_one_daemon),
		MPS_TEST(only_shares_of_those_who_agreed_in_such_a_pool),
		MPS_TEST(another_trust_domain_does_not_join),
		MPS_TEST(the_daemon_outlives_the_agent_and_what_was_decided_holds),
		MPS_TEST(the_server_of_the_daemon_is_no_stranger_among_shares),
		MPS_TEST(what_ran_by_a_daemon_that_died_is_ended_and_another_is_started),
		MPS_TEST(what_comes_while_there_is_no_daemon_is_ended_too),
		MPS_TEST(a_client_of_whom_nothing_is_written_is_ended),
		MPS_TEST(a_pod_that_is_gone_takes_its_daemon_along),
		MPS_TEST(an_agent_may_die_at_any_step_and_leaves_no_daemon),
	};

	stage_set_up = make_pool;
	return perform(argc, argv, "plugin mps", tests, RF_COUNT(tests));
}
