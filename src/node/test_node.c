/* The agent against the real API server, real containers and simulated cards. Needs root and crun;
 * says so and stops otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "apiserver/apiserver.h"
#include "base/fs.h"
#include "kube/kube.h"
#include "node/cgroup.h"
#include "node/node.h"
#include "node/shim.h"
#include "sim/sim.h"

#define PATIENCE_MS 20000

static struct {
	struct rf_arena arena;
	char dir[64], self[4096];
	const char *data, *admin, *node_dir, *sim, *tools;
	pid_t apiserver, agent;
	struct rf_kube *kube;
	struct rf_str instance;
} t;

/* --- processes ------------------------------------------------------------------------------- */

static void child_output(const char *name)
{
	int fd = open(rf_fs_path(&t.arena, "%s/%s.log", t.dir, name), O_WRONLY | O_CREAT | O_APPEND,
		      0600);

	dup2(fd, 1);
	dup2(fd, 2);
}

static void start_apiserver(void)
{
	t.apiserver = fork();
	if (t.apiserver != 0)
		return;
	struct rf_apiserver_opts o = { .data_dir = t.data,
				       .listen_address = "127.0.0.1",
				       .kubeconfig_path = t.admin,
				       .node_name = "node-1" };
	struct rf_err err = RF_ERR_INIT;

	child_output("apiserver");
	rf_log_init("apiserver", RF_LOG_INFO);
	if (rf_apiserver_run(&o, &err) < 0)
		fprintf(stderr, "%s\n", err.msg);
	_exit(0);
}

static void start_agent(void)
{
	t.agent = fork();
	if (t.agent != 0)
		return;
	struct rf_node_opts o = { .data_dir = t.node_dir,
				  .name = "node-1",
				  .listen_address = "127.0.0.1",
				  .kubeconfig_path =
					  rf_fs_path(&t.arena, "%s/kubeconfig/node", t.data),
				  .sim_dir = t.sim,
				  .driver_lib_dir = SIM_LIB_DIR,
				  .tools_dir = t.tools,
				  .pki_dir = rf_fs_path(&t.arena, "%s/pki", t.data),
				  .self_exe = t.self };
	struct rf_err err = RF_ERR_INIT;

	child_output("node");
	rf_log_init("node", RF_LOG_DEBUG);
	if (rf_node_run(&o, &err) < 0)
		fprintf(stderr, "%s\n", err.msg);
	exit(0); /* not _exit: leaks are looked for here, where a sanitizer is built in */
}

static void kill_agent(void)
{
	kill(t.agent, SIGKILL);
	waitpid(t.agent, NULL, 0);
}

/* --- waiting --------------------------------------------------------------------------------- */

static void pause_ms(int ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		int waited_ = 0;                                                                   \
		for (; !(cond) && waited_ < PATIENCE_MS; waited_ += 50)                            \
			pause_ms(50);                                                              \
		if (!(cond))                                                                       \
			fail_msg("never came true: %s; see %s/node.log", #cond, t.dir);            \
	} while (0)

static struct rf_str pod_path(const char *name, const char *sub)
{
	return rf_kube_path(&t.arena, &RF_PODS, RF_LIT("team-a"), rf_str(name), sub);
}

static struct rf_json *pod(const char *name)
{
	struct rf_json *p = NULL;
	struct rf_err err = RF_ERR_INIT;

	return rf_kube_get(t.kube, &t.arena, pod_path(name, NULL), &p, &err) == 0 ? p : NULL;
}

static bool phase_is(const char *name, const char *phase)
{
	return rf_str_is(rf_json_str_at(pod(name), "status", "phase"), phase);
}

static const struct rf_json *container(const char *name)
{
	return rf_json_item(rf_json_at(pod(name), "status", "containerStatuses"), 0);
}

static const char *log_of(const char *name)
{
	struct rf_str text = RF_STR_EMPTY;

	(void)rf_kube_raw(t.kube, &t.arena, pod_path(name, "log"), &text, NULL);
	return rf_arena_cstr(&t.arena, text);
}

static const char *uid_of(const struct rf_json *p)
{
	return rf_arena_cstr(&t.arena, rf_kube_uid(p));
}

static size_t processes_of(struct rf_str uid)
{
	return rf_cgroup_count(&t.arena, rf_cgroup_path(&t.arena, t.instance, uid, RF_STR_EMPTY));
}

/* --- objects --------------------------------------------------------------------------------- */

static struct rf_json *create(const struct rf_kube_res *res, const char *ns, struct rf_json *o)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *made = NULL;

	if (rf_kube_create(t.kube, &t.arena,
			   rf_kube_path(&t.arena, res, rf_str(ns), RF_STR_EMPTY, NULL), o, &made,
			   &err) < 0)
		fail_msg("create %s: %s", res->kind, err.msg);
	return made;
}

/* nodeName is given at once for pods without cards; those with cards are bound after their
 * claim. */
static struct rf_json *make_pod(const char *name, const char *script, const char *limits,
				bool bound)
{
	struct rf_json *l = NULL;

	if (rf_json_parse(&t.arena, rf_str(limits), &l, NULL) < 0)
		fail_msg("limits");
	struct rf_json *p = rf_json_make(&t.arena,
					 "{'apiVersion':'v1','kind':'Pod','metadata':{'name':%s,'"
					 "namespace':'team-a'},'spec':{'restartPolicy':'Never',"
					 "'terminationGracePeriodSeconds':1,'securityContext':{'"
					 "runAsNonRoot':true,'seccompProfile':{'type':"
					 "'RuntimeDefault'}},'containers':[{'name':'c','image':'"
					 "host','command':['sh','-c',%s],'resources':{'limits':%j},"
					 "'securityContext':{'allowPrivilegeEscalation':false,'"
					 "capabilities':{'drop':['ALL']}}}]}}",
					 name, script, l);

	if (bound)
		rf_json_set_str(&t.arena, rf_json_at(p, "spec"), "nodeName", RF_LIT("node-1"));
	return create(&RF_PODS, "team-a", p);
}

static void allocate(const struct rf_json *p, const char *device, const char *memory)
{
	struct rf_str name = rf_kube_name(p), uid = rf_kube_uid(p);
	struct rf_str claim_name = rf_arena_printf(&t.arena, "%.*s-%.8s", RF_STR(name), uid.p);
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *c = create(
		&RF_RESOURCECLAIMS, "team-a",
		rf_json_make(&t.arena,
			     "{'apiVersion':'resource.k8s.io/"
			     "v1','kind':'ResourceClaim','metadata':{'name':%S,"
			     "'namespace':'team-a','annotations':{'ringfence.io/tenant':'team-a'},"
			     "'ownerReferences':[%j]},'spec':{'devices':{'requests':[{'name':'c','"
			     "exactly':"
			     "{'deviceClassName':'ringfence.io'}}]}}}",
			     claim_name, rf_kube_owner_ref(&t.arena, p)));
	struct rf_json *result = rf_json_make(
		&t.arena, "{'request':'c','driver':'ringfence.io','pool':'node-1','device':%s}",
		device);
	if (memory != NULL)
		rf_json_set(&t.arena, result, RF_LIT("consumedCapacity"),
			    rf_json_make(&t.arena, "{'memory':%s,'compute':'0'}", memory));
	rf_json_set(&t.arena, c, RF_LIT("status"),
		    rf_json_make(&t.arena,
				 "{'allocation':{'devices':{'results':[%j]}},'reservedFor':[{'"
				 "resource':'pods','name':%S,"
				 "'uid':%S}]}",
				 result, name, uid));
	if (rf_kube_update(t.kube, &t.arena,
			   rf_kube_path(&t.arena, &RF_RESOURCECLAIMS, RF_LIT("team-a"), claim_name,
					"status"),
			   c, NULL, &err) < 0 ||
	    rf_kube_create(t.kube, &t.arena, pod_path(rf_arena_cstr(&t.arena, name), "binding"),
			   rf_json_make(&t.arena,
					"{'apiVersion':'v1','kind':'Binding','metadata':{'name':%S,"
					"'namespace':'team-a'},"
					"'target':{'kind':'Node','name':'node-1'}}",
					name),
			   NULL, &err) < 0)
		fail_msg("%s", err.msg);
}

static void delete_pod(const char *name, int grace)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_kube_delete(t.kube, &t.arena, pod_path(name, NULL), grace, true, &err) < 0)
		fail_msg("%s", err.msg);
}

/* What the scheduler does once a pod has ended. */
static void delete_claim(const struct rf_json *p)
{
	struct rf_str name =
		rf_arena_printf(&t.arena, "%.*s-%.8s", RF_STR(rf_kube_name(p)), rf_kube_uid(p).p);
	struct rf_err err = RF_ERR_INIT;

	if (rf_kube_delete(t.kube, &t.arena,
			   rf_kube_path(&t.arena, &RF_RESOURCECLAIMS, RF_LIT("team-a"), name, NULL),
			   -1, true, &err) < 0)
		fail_msg("%s", err.msg);
}

static struct rf_str claim_finalizers(const struct rf_json *p)
{
	struct rf_json *c = NULL;
	struct rf_str name =
		rf_arena_printf(&t.arena, "%.*s-%.8s", RF_STR(rf_kube_name(p)), uid_of(p));

	(void)rf_kube_get(t.kube, &t.arena,
			  rf_kube_path(&t.arena, &RF_RESOURCECLAIMS, RF_LIT("team-a"), name, NULL),
			  &c, &(struct rf_err)RF_ERR_INIT);
	struct rf_json *list = rf_json_at(c, "metadata", "finalizers");
	return list ? rf_json_text_of(&t.arena, list) : RF_LIT("[]");
}

/* --- the promises ---------------------------------------------------------------------------- */

static void a_pod_runs_to_its_end_and_its_log_can_be_read(void **state)
{
	struct rf_json *p =
		make_pod("plain", "echo hello; id -u; ls /ringfence/dev; exit 3", "{}", true);

	(void)state;
	WAIT_FOR(phase_is("plain", "Failed"));
	const struct rf_json *ended = rf_json_at(container("plain"), "state", "terminated");
	assert_int_equal(rf_json_int(rf_json_at(ended, "exitCode"), -1), 3);
	assert_non_null(strstr(log_of("plain"), "hello\n65534\n"));
	assert_null(strstr(log_of("plain"), "nvidia"));
	assert_int_equal(processes_of(rf_kube_uid(p)), 0);
	delete_pod("plain", 0);
	WAIT_FOR(!rf_fs_exists(rf_fs_path(&t.arena, "%s/pods/%s", t.node_dir, uid_of(p))));
}

static void a_container_outlives_a_killed_agent_and_is_not_started_twice(void **state)
{
	struct rf_json *p =
		make_pod("survivor", "echo begin; while :; do sleep 0.1; done", "{}", true);
	const char *pid_file = rf_fs_path(&t.arena, "%s/pods/%s/c/pid", t.node_dir, uid_of(p));
	struct rf_str before, after;

	(void)state;
	WAIT_FOR(strstr(log_of("survivor"), "begin") != NULL);
	assert_int_equal(rf_fs_read(&t.arena, pid_file, 64, &before, NULL), 0);
	kill_agent();
	assert_true(processes_of(rf_kube_uid(p)) > 0);
	start_agent();
	WAIT_FOR(strcmp(log_of("survivor"), "begin\n") ==
		 0); /* served by the new agent, and begun once */
	assert_int_equal(rf_fs_read(&t.arena, pid_file, 64, &after, NULL), 0);
	assert_true(rf_str_eq(before, after));
	assert_int_equal(rf_json_int(rf_json_at(container("survivor"), "restartCount"), -1), 0);
	delete_pod("survivor", -1);
	WAIT_FOR(pod("survivor") == NULL);
	assert_int_equal(processes_of(rf_kube_uid(p)), 0);
}

static void a_killed_shim_ends_its_container_and_is_told(void **state)
{
	struct rf_json *p = make_pod("orphan", "echo up; sleep 600", "{}", true);
	const char *dir = rf_fs_path(&t.arena, "%s/pods/%s/c", t.node_dir, uid_of(p));

	(void)state;
	WAIT_FOR(strstr(log_of("orphan"), "up") != NULL);
	pid_t shim = rf_shim_holder(dir);
	assert_true(shim > 1);
	kill(shim, SIGKILL);
	WAIT_FOR(phase_is("orphan", "Failed"));
	const struct rf_json *ended = rf_json_at(container("orphan"), "state", "terminated");
	assert_int_equal(rf_json_int(rf_json_at(ended, "exitCode"), -1), 137);
	assert_true(rf_str_contains(rf_json_str_at(ended, "message"), RF_LIT("shim was killed")));
	assert_int_equal(processes_of(rf_kube_uid(p)), 0);
	delete_pod("orphan", 0);
}

static void a_pod_deleted_while_no_agent_was_there_is_tidied_up_by_the_next(void **state)
{
	struct rf_json *p = make_pod("left", "echo up; sleep 600", "{}", true);
	const char *dir = rf_fs_path(&t.arena, "%s/pods/%s", t.node_dir, uid_of(p));

	(void)state;
	WAIT_FOR(strstr(log_of("left"), "up") != NULL);
	kill_agent();
	delete_pod("left", 0);
	WAIT_FOR(pod("left") == NULL);
	assert_true(processes_of(rf_kube_uid(p)) > 0);
	start_agent();
	WAIT_FOR(processes_of(rf_kube_uid(p)) == 0);
	WAIT_FOR(!rf_fs_exists(dir));
}

static void a_share_is_held_to_its_cap_and_sees_its_own_card_only(void **state)
{
	struct rf_json *p = make_pod(
		"share",
		"ls /ringfence/dev; gpu-demo --memory 2Gi --step 256Mi --expect-oom; echo rc=$?; "
		"gpu-demo --info",
		"{\"ringfence.io/gpu-memory\":\"1Gi\"}", false);

	(void)state;
	allocate(p, "gpu-1", "1Gi");
	WAIT_FOR(phase_is("share", "Succeeded"));
	const char *log = log_of("share");
	assert_non_null(strstr(log, "machine\nnvidia1\n"));
	assert_non_null(strstr(log, "memory total: 1024 MiB"));
	assert_non_null(strstr(log, "rc=0"));
	if (strstr(log, "memory free: 724 MiB") == NULL) /* the cap less the process's context */
		fail_msg("%s", log);
	WAIT_FOR(rf_str_is(claim_finalizers(p), "[]"));
	delete_claim(p);
	delete_pod("share", 0);
}

static void going_around_the_fence_ends_the_container(void **state)
{
	struct rf_json *p =
		make_pod("bypass", "env -u LD_PRELOAD gpu-demo --memory 100Mi --hold 600",
			 "{\"ringfence.io/gpu-memory\":\"1Gi\"}", false);

	(void)state;
	allocate(p, "gpu-0", "1Gi");
	WAIT_FOR(phase_is("bypass", "Failed"));
	assert_true(rf_str_is(rf_json_str_at(container("bypass"), "state", "terminated", "reason"),
			      "FenceBypassed"));
	delete_claim(p);
	delete_pod("bypass", 0);
}

static void a_fault_of_the_card_ends_its_pod_and_taints_it(void **state)
{
	struct rf_json *p =
		make_pod("whole", "echo up; sleep 600", "{\"ringfence.io/gpu\":\"1\"}", false);
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *slice = NULL;
	struct rf_str path = rf_kube_path(&t.arena, &RF_RESOURCESLICES, RF_STR_EMPTY,
					  RF_LIT("node-1-ringfence"), NULL);

	(void)state;
	allocate(p, "gpu-1", NULL);
	WAIT_FOR(strstr(log_of("whole"), "up") != NULL);
	assert_true(rf_str_contains(claim_finalizers(p), RF_LIT("ringfence.io/prepared")));
	assert_int_equal(rf_sim_inject_xid(t.sim, 1, 48, &err), 0);
	WAIT_FOR(phase_is("whole", "Failed"));
	assert_true(rf_str_is(rf_json_str_at(pod("whole"), "status", "reason"), "DeviceFault"));
	WAIT_FOR(rf_kube_get(t.kube, &t.arena, path, &slice, &err) == 0 &&
		 rf_json_len(rf_json_at(rf_json_item(rf_json_at(slice, "spec", "devices"), 1),
					"taints")) == 1);
	assert_int_equal(rf_sim_clear(t.sim, 1, &err), 0);
	WAIT_FOR(rf_kube_get(t.kube, &t.arena, path, &slice, &err) == 0 &&
		 rf_json_at(rf_json_item(rf_json_at(slice, "spec", "devices"), 1), "taints") ==
			 NULL);
	delete_claim(p);
	delete_pod("whole", 0);
}

/* --- the stage ------------------------------------------------------------------------------- */

static int connect_api(void)
{
	struct rf_kubeconfig c;
	struct rf_err err = RF_ERR_INIT;

	WAIT_FOR(rf_fs_exists(t.admin));
	if (rf_kubeconfig_load(&t.arena, t.admin, &c, &err) < 0 ||
	    rf_kube_new(&c, &t.kube, &err) < 0)
		fail_msg("%s", err.msg);
	return 0;
}

static bool node_is_ready(void)
{
	struct rf_json *o = NULL;
	struct rf_err err = RF_ERR_INIT;

	return rf_kube_get(t.kube, &t.arena,
			   rf_kube_path(&t.arena, &RF_RESOURCESLICES, RF_STR_EMPTY,
					RF_LIT("node-1-ringfence"), NULL),
			   &o, &err) == 0;
}

static int set_up(void **state)
{
	struct rf_sim_options o = { .virtual_time = false };
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	snprintf(t.dir, sizeof(t.dir), "/tmp/rf-node-XXXXXX");
	assert_non_null(mkdtemp(t.dir));
	assert_true(readlink("/proc/self/exe", t.self, sizeof(t.self) - 1) > 0);
	t.data = rf_fs_path(&t.arena, "%s/data", t.dir);
	t.admin = rf_fs_path(&t.arena, "%s/admin", t.dir);
	t.node_dir = rf_fs_path(&t.arena, "%s/data/node", t.dir);
	t.sim = rf_fs_path(&t.arena, "%s/sim", t.dir);
	t.tools = rf_fs_path(&t.arena, "%s/tools", t.dir);
	t.instance = rf_cgroup_instance(&t.arena, rf_str(t.node_dir));
	assert_int_equal(rf_fs_mkdirs(t.tools, 0755, &err), 0);
	assert_int_equal(system(rf_fs_path(&t.arena, "cp %s %s %s/", FENCE_LIB, GPU_DEMO, t.tools)),
			 0);
	o.context_mib = 300; /* not what the model says: the agent has to measure */
	if (rf_sim_machine_create(t.sim, RF_LIT("2xH200"), &o, &err) < 0)
		fail_msg("%s", err.msg);
	start_apiserver();
	connect_api();
	start_agent();
	WAIT_FOR(node_is_ready());
	create(&RF_TENANTS, "",
	       rf_json_make(
		       &t.arena,
		       "{'apiVersion':'ringfence.io/"
		       "v1alpha1','kind':'Tenant','metadata':{'name':'team-a'},"
		       "'spec':{'isolation':'share','quota':{'gpus':2,'gpuMemory':'100Gi'}}}"));
	create(&RF_NAMESPACES, "",
	       rf_json_make(
		       &t.arena,
		       "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'team-a','labels':"
		       "{'ringfence.io/tenant':'team-a','pod-security.kubernetes.io/"
		       "enforce':'restricted'}}}"));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kill(t.agent, SIGTERM);
	waitpid(t.agent, NULL, 0);
	kill(t.apiserver, SIGTERM);
	waitpid(t.apiserver, NULL, 0);
	rf_kube_free(t.kube);
	struct rf_str all = rf_cgroup_path(&t.arena, t.instance, RF_STR_EMPTY, RF_STR_EMPTY);
	for (int i = 0; i < 100 && rf_cgroup_kill(&t.arena, all) > 0; i++)
		pause_ms(20);
	(void)rf_cgroup_remove(&t.arena, all);
	(void)rf_fs_remove_tree(t.dir, NULL);
	rf_arena_done(&t.arena);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pod_runs_to_its_end_and_its_log_can_be_read),
		cmocka_unit_test(a_container_outlives_a_killed_agent_and_is_not_started_twice),
		cmocka_unit_test(a_killed_shim_ends_its_container_and_is_told),
		cmocka_unit_test(a_pod_deleted_while_no_agent_was_there_is_tidied_up_by_the_next),
		cmocka_unit_test(a_share_is_held_to_its_cap_and_sees_its_own_card_only),
		cmocka_unit_test(going_around_the_fence_ends_the_container),
		cmocka_unit_test(a_fault_of_the_card_ends_its_pod_and_taints_it),
	};

	if (argc > 2 && strcmp(argv[1], "shim") == 0)
		return rf_shim_main(argc - 2, argv + 2);
	if (geteuid() != 0 || system("command -v crun >/dev/null") != 0) {
		printf("1..1\nok 1 - # SKIP containers need root and crun\n");
		return 0;
	}
	return cmocka_run_group_tests_name("node", tests, set_up, tear_down);
}
