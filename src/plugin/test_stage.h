/* The stage of the agent's tests: the whole agent in a process of its own, against a real API server, a
 * kubelet made for tests and simulated cards; and what a test does with them. Included once per program. */
#ifndef RF_PLUGIN_TEST_STAGE_H
#define RF_PLUGIN_TEST_STAGE_H

#include "apiserver/test_world.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/fs.h"
#include "fence/ledger.h"
#include "fence/protocol.h"
#include "node/fence_server.h"
#include "node/hold.h"
#include "node/volume.h"
#include "plugin/private.h"
#include "plugin/test_kubelet.h"
#include "sim/sim.h"

#define PATIENCE_MS 20000
#define CONTEXT_MIB 300 /* not what the model says: the agent has to measure */
#ifndef STAGE_CARDS
#define STAGE_CARDS "2xH200"
#endif
#define GPU "nvidia.com/gpu"
#define CARD "gpu.example.com/card"

static struct {
	struct rf_arena arena;
	struct world w;
	struct kubelet *k;
	char dir[64], self[4096];
	const char *data, *sim, *cdi, *proc, *kubeconfig;
	pid_t agent;
	int last_pid; /* that was made up */
} t;

static inline const char *at(const char *path)
{
	return rf_fs_path(&t.arena, "%s/%s", t.dir, path);
}

/* --- the agent, and how it dies --------------------------------------------------------------- */

/* In the agent's process: while the file is there steps are counted, and the one it names is the last. */
static const char *fatal_step;
static bool no_tick;

static inline void step(void)
{
	static int64_t steps;
	struct rf_str text;
	int64_t last = 0;

	if (fatal_step == NULL || access(fatal_step, R_OK) != 0)
		return;
	rf_auto(arena) a = RF_ARENA_INIT;
	if (rf_fs_read(&a, fatal_step, 32, &text, NULL) < 0 || rf_str_int(text, &last, NULL) < 0 ||
	    ++steps < last)
		return;
	unlink(fatal_step);
	kill(getpid(), SIGKILL);
}

/* Everything the agent does that somebody else can see, wrapped by the linker. */
#define WRAP(type, name, args, call)                                                               \
	type __real_##name args;                                                                   \
	type __wrap_##name args;                                                                   \
	type __wrap_##name args                                                                    \
	{                                                                                          \
		step();                                                                            \
		type rc_ = __real_##name call;                                                     \
		step();                                                                            \
		return rc_;                                                                        \
	}
WRAP(int, rf_fs_write,
     (const char *path, struct rf_str data, mode_t mode, bool durable, struct rf_err *err),
     (path, data, mode, durable, err))
WRAP(int, rf_fs_mkdirs, (const char *path, mode_t mode, struct rf_err *err), (path, mode, err))
WRAP(int, rf_fs_remove_tree, (const char *path, struct rf_err *err), (path, err))
WRAP(int, rf_volumes_scratch, (const char *path, int64_t bytes, struct rf_err *err),
     (path, bytes, err))
WRAP(int, rf_volumes_unmount, (const char *dir, struct rf_err *err), (dir, err))
WRAP(int, rf_fence_server_start,
     (const char *run, const char *ledger, const struct rf_fence_card *cards, size_t n,
      struct rf_arbiter *arbiter, struct rf_fence_server **ret, struct rf_err *err),
     (run, ledger, cards, n, arbiter, ret, err))
WRAP(int, rf_claim_hold, (struct rf_kube * k, const struct rf_json *claim, struct rf_err *err),
     (k, claim, err))
WRAP(int, rf_claim_let_go,
     (struct rf_kube * k, struct rf_str ns, struct rf_str name, struct rf_str uid,
      struct rf_err *err),
     (k, ns, name, uid, err))
WRAP(int, rf_gpu_slice_cut,
     (struct rf_gpu * g, size_t i, const struct rf_gpu_instance *where, unsigned *ret_gi, struct rf_err *err),
     (g, i, where, ret_gi, err))
WRAP(int, rf_gpu_slice_open,
     (struct rf_gpu * g, size_t i, unsigned gi, struct rf_gpu_slice *ret, struct rf_err *err), (g, i, gi, ret, err))
WRAP(int, rf_gpu_slice_destroy, (struct rf_gpu * g, size_t i, unsigned gi, struct rf_err *err), (g, i, gi, err))

void __real_rf_grpc_reply(struct rf_grpc_call *call, struct rf_str message);
void __wrap_rf_grpc_reply(struct rf_grpc_call *call, struct rf_str message);
void __wrap_rf_grpc_reply(struct rf_grpc_call *call, struct rf_str message)
{
	step();
	__real_rf_grpc_reply(call, message);
}

/* An agent that does not look at anything by itself shows what it is told by. */
int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
	return __real_uv_timer_start(timer, cb, timeout,
				     no_tick && repeat == 1000 ? 3600 * 1000 : repeat);
}

/* argv: DIR KUBECONFIG TICK */
static inline int agent_main(char **argv)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_plugin_opts o = { .kubelet_dir = rf_fs_path(&a, "%s/kubelet", argv[0]),
				    .cdi_dir = rf_fs_path(&a, "%s/cdi", argv[0]),
				    .data_dir = rf_fs_path(&a, "%s/data", argv[0]),
				    .kubeconfig_path = argv[1],
				    .name = "node-1",
				    .listen_address = "127.0.0.1",
				    .sim_dir = rf_fs_path(&a, "%s/data/sim", argv[0]),
				    .driver_lib_dir = SIM_LIB_DIR,
				    .tools_dir = rf_fs_path(&a, "%s/tools", argv[0]) };
	struct rf_err err = RF_ERR_INIT;

	fatal_step = rf_fs_path(&a, "%s/fatal-step", argv[0]);
	no_tick = strcmp(argv[2], "no-tick") == 0;
	rf_procs_dir = rf_fs_path(&a, "%s/proc", argv[0]);
	rf_sweep_settle_ms = 0;
	rf_log_init("node", RF_LOG_DEBUG);
	if (rf_plugin_run(&o, &err) == 0)
		return 0;
	fprintf(stderr, "%s\n", err.msg);
	return 1;
}

static inline pid_t run_agent(const char *tick)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int log = open(at("agent.log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(log, 1);
	dup2(log, 2);
	execl(t.self, t.self, "agent", t.dir, t.kubeconfig, tick, (char *)NULL);
	_exit(127);
}

static inline bool agent_died(void)
{
	if (t.agent > 0 && waitpid(t.agent, NULL, WNOHANG) == t.agent)
		t.agent = 0;
	return t.agent == 0;
}

static inline void kill_agent(void)
{
	if (t.agent == 0)
		return;
	kill(t.agent, SIGKILL);
	waitpid(t.agent, NULL, 0);
	t.agent = 0;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static inline int64_t now_ms(void)
{
	return rf_mono_ns(rf_clock_system()) / 1000000;
}

static inline struct rf_str read_all(const char *path)
{
	struct rf_str text = RF_STR_EMPTY;

	(void)rf_fs_read(&t.arena, path, 64 << 20, &text, NULL);
	return text;
}

/* With the last that the agent said. */
static inline void never(const char *what)
{
	struct rf_str log = read_all(at("agent.log"));

	log = rf_str_skip(log, log.n > 4000 ? log.n - 4000 : 0);
	fprintf(stderr, "%.*s", RF_STR(log));
	fail_msg("%s", what);
}

#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		int64_t until_ = now_ms() + PATIENCE_MS;                                           \
		bool came_;                                                                        \
		while (!(came_ = (cond)) && now_ms() < until_)                                     \
			kubelet_turn(t.k);                                                         \
		if (!came_)                                                                        \
			never("never came true: " #cond);                                          \
	} while (0)

/* In order: nothing is leaked, says the sanitizer that may be built in. */
static inline void stop_agent(void)
{
	int status = 0;

	kill(t.agent, SIGTERM);
	assert_int_equal(waitpid(t.agent, &status, 0), t.agent);
	t.agent = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		never("the agent ended badly");
}

static inline bool is_known(void)
{
	return kubelet_follows(t.k, GPU) && kubelet_follows(t.k, CARD);
}

/* Once the kubelet has noticed that the last one is gone. */
static inline void start_agent(const char *tick)
{
	WAIT_FOR(!kubelet_follows(t.k, GPU) && !kubelet_follows(t.k, CARD));
	t.agent = run_agent(tick);
}

static inline bool driver_is_known(void)
{
	struct rf_err err = RF_ERR_INIT;

	return kubelet_register_driver(t.k, &err) == 0;
}

static inline struct rf_json *get(const struct rf_kube_res *res, const char *ns, const char *name)
{
	struct rf_json *o = NULL;
	struct rf_err err = RF_ERR_INIT;
	int rc = rf_kube_get(t.w.admin, &t.arena,
			     rf_kube_path(&t.arena, res, rf_str(ns), rf_str(name), NULL), &o, &err);

	if (rc < 0 && rc != -RF_NOT_FOUND)
		fail_msg("%s", err.msg);
	return rc < 0 ? NULL : o;
}

static inline struct rf_json *slice(void)
{
	return get(&RF_RESOURCESLICES, "", "node-1-ringfence");
}

static inline void wait_for_agent(void)
{
	WAIT_FOR(is_known());
	WAIT_FOR(driver_is_known());
	WAIT_FOR(slice() != NULL);
}

static inline void restart_agent(void)
{
	kill_agent();
	start_agent("tick");
	wait_for_agent();
}

/* --- processes that are not ------------------------------------------------------------------- */

static inline const char *proc_of(int pid)
{
	return rf_fs_path(&t.arena, "%s/%d", t.proc, pid);
}

static inline void put_process(int pid, const char *pod_uid)
{
	struct rf_str line = rf_arena_printf(
		&t.arena, "0::/kubepods.slice/kubepods-besteffort.slice/pod%s/c1\n", pod_uid);

	assert_int_equal(rf_fs_mkdirs(proc_of(pid), 0755, NULL), 0);
	assert_int_equal(rf_fs_write(rf_fs_path(&t.arena, "%s/cgroup", proc_of(pid)), line, 0444,
				     false, NULL),
			 0);
}

static inline int new_process(const char *pod_uid)
{
	int pid = ++t.last_pid;

	put_process(pid, pod_uid);
	return pid;
}

static inline void end_process(int pid)
{
	assert_int_equal(rf_fs_remove_tree(proc_of(pid), NULL), 0);
}

/* A real one on a simulated card, without a fence; pod: whose it seems to be. */
static inline pid_t use_card(const char *device, const char *memory, const char *pod_uid)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("RINGFENCE_SIM", t.sim, 1);
		setenv("LD_LIBRARY_PATH", SIM_LIB_DIR, 1);
		int null = open("/dev/null", O_WRONLY);
		dup2(null, 1);
		execl(GPU_DEMO, "gpu-demo", "--device", device, "--memory", memory, "--hold", "600",
		      (char *)NULL);
		_exit(127);
	}
	put_process(pid, pod_uid);
	return pid;
}

static inline bool card_has(unsigned card, unsigned processes)
{
	struct rf_sim_card_info info[4];
	struct rf_err err = RF_ERR_INIT;
	size_t n;

	assert_ok(rf_sim_machine_cards(t.sim, info, RF_COUNT(info), &n, &err), err);
	return info[card].processes == processes;
}

static inline void leave_card(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	end_process(pid);
}

static inline bool was_killed(pid_t pid)
{
	int status = 0;

	return waitpid(pid, &status, WNOHANG) == pid && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGKILL;
}

/* --- pods and claims -------------------------------------------------------------------------- */

struct box {
	const char *name;
	const char *limits; /* JSON */
	const char *mount;  /* a volume's path, or NULL */
	const char *device; /* granted; two: "gpu-0 gpu-1"; NULL: none */
	const char *memory; /* granted; NULL: the whole card */
	const char *slice;  /* JSON of {profile, starts}; NULL: no slices */
};
#define WHOLE(card) ((struct box){ "c", "{'" GPU "':'1'}", NULL, card, NULL, NULL })
#define DRA_WHOLE(card) ((struct box){ "c", "{'ringfence.io/gpu':'1'}", NULL, card, NULL, NULL })
#define SHARE(card, bytes)                                                                         \
	((struct box){ "c", "{'ringfence.io/gpu-memory':'" bytes "'}", NULL, card, bytes, NULL })

static inline void create_at(const struct rf_kube_res *res, const char *ns, const char *name,
			     const char *sub, struct rf_json *o, struct rf_json **ret)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_create(t.w.admin, &t.arena,
				 rf_kube_path(&t.arena, res, rf_str(ns), rf_str(name), sub), o, ret,
				 &err),
		  err);
}

/* Of the pods that are made from now on. */
static bool pod_bursts;
static const char *pod_class = ""; /* a PriorityClass */

static inline struct rf_json *make_pod(const char *name, const struct box *boxes, size_t n)
{
	struct rf_json *containers = rf_json_array(&t.arena), *pod = NULL;
	const char *burst = pod_bursts ? "true" : "false";

	for (size_t i = 0; i < n; i++) {
		struct rf_json *c = rf_json_make(
			&t.arena,
			"{'name':%s,'image':'x','resources':{'limits':%j},'securityContext':"
			"{'allowPrivilegeEscalation':false,'capabilities':{'drop':['ALL']}}}",
			boxes[i].name, rf_json_make(&t.arena, boxes[i].limits));

		if (boxes[i].mount != NULL)
			rf_json_set(&t.arena, c, RF_LIT("volumeMounts"),
				    rf_json_make(&t.arena, "[{'name':'v','mountPath':%s}]",
						 boxes[i].mount));
		rf_json_push(&t.arena, containers, c);
	}
	create_at(&RF_PODS, "team-a", "", NULL,
		  rf_json_make(&t.arena,
			       "{'metadata':{'name':%s,'annotations':{'ringfence.io/burst':%s}},"
			       "'spec':{'priorityClassName':%s,'volumes':[{'name':'v','emptyDir':{}}],"
			       "'securityContext':{'runAsNonRoot':true,'seccompProfile':{'type':"
			       "'RuntimeDefault'}},'containers':%j}}",
			       name, burst, pod_class, containers),
		  &pod);
	return pod;
}

static inline void bind_pod(const char *pod)
{
	create_at(
		&RF_PODS, "team-a", pod, "binding",
		rf_json_make(&t.arena,
			     "{'metadata':{'name':%s,'namespace':'team-a'},'target':{'kind':'Node',"
			     "'name':'node-1'}}",
			     pod),
		NULL);
}

static inline const char *uid_of(const struct rf_json *o)
{
	return rf_arena_cstr(&t.arena, rf_kube_uid(o));
}

static inline const char *claim_name(const struct rf_json *pod)
{
	return rf_arena_cstr(&t.arena, rf_pod_claim_name(&t.arena, pod));
}

static inline struct rf_json *make_claim(const struct rf_json *pod, bool ours)
{
	struct rf_json *claim = NULL,
		       *o = rf_json_make(&t.arena,
					 "{'metadata':{'name':%s,'ownerReferences':[%j]},'spec':"
					 "{'devices':{'requests':[{'name':'c','exactly':"
					 "{'deviceClassName':'gpu.ringfence.io'}}]}}}",
					 claim_name(pod), rf_kube_owner_ref(&t.arena, pod));

	if (ours)
		rf_json_set(&t.arena, rf_json_at(o, "metadata"), RF_LIT("annotations"),
			    rf_json_make(&t.arena, "{'ringfence.io/tenant':'team-a'}"));
	create_at(&RF_RESOURCECLAIMS, "team-a", "", NULL, o, &claim);
	return claim;
}

static inline struct rf_json *results(const char *pool, const struct box *boxes, size_t n)
{
	struct rf_json *all = rf_json_array(&t.arena);

	for (size_t i = 0; i < n; i++) {
		struct rf_str rest = rf_str(boxes[i].device), device;

		while (rest.n > 0) {
			rf_str_cut(&rest, ' ', &device);
			struct rf_json *r = rf_json_make(
				&t.arena,
				"{'request':%s,'driver':'ringfence.io','pool':%s,'device':%S}",
				boxes[i].name, pool, device);
			if (boxes[i].memory != NULL)
				rf_json_set(&t.arena, r, RF_LIT("consumedCapacity"),
					    rf_json_make(&t.arena, "{'memory':%s,'compute':'0'}",
							 boxes[i].memory));
			rf_json_push(&t.arena, all, r);
		}
	}
	return all;
}

static inline struct rf_json *configs(const struct box *boxes, size_t n)
{
	struct rf_json *all = rf_json_array(&t.arena);

	for (size_t i = 0; i < n; i++)
		if (boxes[i].slice != NULL)
			rf_json_push(&t.arena, all,
				     rf_json_make(&t.arena,
						  "{'source':'FromClaim','requests':[%s],'opaque':{'driver':"
						  "'ringfence.io','parameters':%j}}",
						  boxes[i].name, rf_json_make(&t.arena, boxes[i].slice)));
	return all;
}

static inline void allocate(struct rf_json *claim, const struct rf_json *pod, const char *pool,
			    const struct box *boxes, size_t n)
{
	struct rf_err err = RF_ERR_INIT;

	rf_json_set(&t.arena, claim, RF_LIT("status"),
		    rf_json_make(&t.arena,
				 "{'allocation':{'devices':{'results':%j}},'reservedFor':"
				 "[{'resource':'pods','name':%S,'uid':%S}]}",
				 results(pool, boxes, n), rf_kube_name(pod), rf_kube_uid(pod)));
	if (rf_json_len(configs(boxes, n)) > 0)
		rf_json_set(&t.arena, rf_json_at(claim, "status", "allocation", "devices"), RF_LIT("config"),
			    configs(boxes, n));
	assert_ok(rf_kube_update(t.w.admin, &t.arena,
				 rf_kube_path(&t.arena, &RF_RESOURCECLAIMS, RF_LIT("team-a"),
					      rf_kube_name(claim), "status"),
				 claim, NULL, &err),
		  err);
}

/* What control does for a pod. */
static inline struct rf_json *place(const char *name, const struct box *boxes, size_t n)
{
	struct rf_json *pod = make_pod(name, boxes, n);

	allocate(make_claim(pod, true), pod, "node-1", boxes, n);
	bind_pod(name);
	return pod;
}

static inline struct rf_json *claim_of(const struct rf_json *pod)
{
	return get(&RF_RESOURCECLAIMS, "team-a", claim_name(pod));
}

static inline struct kubelet_claim as_claim(const struct rf_json *pod)
{
	return (struct kubelet_claim){ claim_name(pod), uid_of(claim_of(pod)) };
}

static inline bool is_held(const struct rf_json *pod)
{
	const struct rf_json *f = rf_json_at(claim_of(pod), "metadata", "finalizers");

	return rf_json_len(f) == 1 &&
	       rf_str_is(rf_json_str(rf_json_item(f, 0)), RF_PREPARED_FINALIZER);
}

static inline void delete_at(const struct rf_kube_res *res, const char *name, int grace)
{
	struct rf_str ns = res->namespaced ? RF_LIT("team-a") : RF_STR_EMPTY;
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_delete(t.w.admin, &t.arena,
				 rf_kube_path(&t.arena, res, ns, rf_str(name), NULL), grace, true,
				 &err),
		  err);
}

/* The pod vanishes, and control notices. */
static inline void forget_pod(const struct rf_json *pod)
{
	delete_at(&RF_PODS, rf_arena_cstr(&t.arena, rf_kube_name(pod)), 0);
	delete_at(&RF_RESOURCECLAIMS, claim_name(pod), -1);
}

/* JSON */
static inline void set_finalizers(const struct rf_json *pod, const char *list)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_patch(t.w.admin, &t.arena,
				rf_kube_path(&t.arena, &RF_RESOURCECLAIMS, RF_LIT("team-a"),
					     rf_str(claim_name(pod)), NULL),
				RF_PATCH_MERGE,
				rf_json_make(&t.arena, "{'metadata':{'finalizers':%j}}",
					     rf_json_make(&t.arena, list)),
				NULL, &err),
		  err);
}

/* --- what is left on the machine -------------------------------------------------------------- */

static inline size_t count_in(const char *dir)
{
	struct rf_str *names;
	size_t n = 0;

	assert_int_equal(rf_fs_list(&t.arena, at(dir), &names, &n, NULL), 0);
	return n;
}

static inline bool nothing_is_held(void)
{
	return count_in("data/claims") == 0 && count_in("cdi") == 0;
}

/* cdi: "ringfence.io/gpu=<id>" */
static inline const char *spec_path(const char *cdi)
{
	return rf_fs_path(&t.arena, "%s/ringfence.io-%s.json", t.cdi, strchr(cdi, '=') + 1);
}

static inline struct rf_str spec_text(const char *cdi)
{
	return read_all(spec_path(cdi));
}

static inline const struct rf_json *edits_of(const char *cdi)
{
	struct rf_json *v = NULL;

	assert_int_equal(rf_json_parse(&t.arena, spec_text(cdi), &v, NULL), 0);
	assert_int_equal(rf_json_len(rf_json_at(v, "devices")), 1);
	return rf_json_at(rf_json_item(rf_json_at(v, "devices"), 0), "containerEdits");
}

/* Where the container's path comes from; empty if there is no such mount. */
static inline struct rf_str mounted(const char *cdi, const char *path)
{
	const struct rf_json *mounts = rf_json_at(edits_of(cdi), "mounts");

	for (size_t i = 0; i < rf_json_len(mounts); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(mounts, i), "containerPath"), path))
			return rf_json_str_at(rf_json_item(mounts, i), "hostPath");
	return RF_STR_EMPTY;
}

static inline bool has_card(const char *cdi, int card)
{
	return mounted(cdi, rf_fs_path(&t.arena, "/ringfence/dev/nvidia%d", card)).n > 0;
}

/* --- fences ----------------------------------------------------------------------------------- */

static inline int connect_fence(const struct rf_json *claim, const char *container)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *run =
		rf_fs_path(&t.arena, "%s/claims/%s/%s/run", t.data, uid_of(claim), container);
	rf_auto_close int dir = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rf_auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (dir < 0)
		return -1;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/fence.sock", dir);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -1;
	return rf_take_fd(fd);
}

/* What a process in the container is told, as the interposer asks it; false if nobody answers. */
static inline bool ask_fence(const struct rf_json *claim, const char *container,
			     struct rf_fence_limits *ret)
{
	rf_auto_close int fd = connect_fence(claim, container);
	struct rf_fence_hello hello = { RF_FENCE_MAGIC, RF_FENCE_VERSION };
	struct rf_fence_reply reply = { .status = 99 };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)] = { 0 };
	struct iovec iov = { &reply, sizeof(reply) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int fds[2] = { -1, -1 };

	if (fd < 0 || send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) < 0 ||
	    recvmsg(fd, &msg, 0) != (ssize_t)sizeof(reply) || reply.status != RF_FENCE_OK)
		return false;
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fds));
	bool read_it = pread(fds[0], ret, sizeof(*ret), 0) == (ssize_t)sizeof(*ret);
	close(fds[0]);
	close(fds[1]);
	return read_it;
}

static inline bool fence_answers(const struct rf_json *pod)
{
	struct rf_fence_limits l;

	return ask_fence(claim_of(pod), "c", &l);
}

static inline const char *card_uuid(unsigned card)
{
	struct rf_sim_card_info info[4];
	struct rf_err err = RF_ERR_INIT;
	size_t n;

	assert_ok(rf_sim_machine_cards(t.sim, info, RF_COUNT(info), &n, &err), err);
	return rf_arena_cstr(&t.arena, rf_str(info[card].uuid));
}

/* --- what the kubelet does for a container ---------------------------------------------------- */

static inline void promise(const char *pod, const char *container, const char *slots, char cdi[128])
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(kubelet_allocate(t.k, GPU, slots, cdi, &err), err);
	kubelet_assign(t.k, pod, container, GPU, slots);
}

static inline void start_container(const char *slots)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(kubelet_prestart(t.k, GPU, slots, &err), err);
}

static inline void refuses_to_start(const char *slots, const char *because)
{
	struct rf_err err = RF_ERR_INIT;

	assert_true(kubelet_prestart(t.k, GPU, slots, &err) < 0);
	if (strstr(err.msg, because) == NULL)
		fail_msg("refused because of \"%s\", not of \"%s\"", err.msg, because);
}

static inline void prepare(const struct rf_json *pod)
{
	rf_auto(buf) devices = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	assert_ok(kubelet_prepare(t.k, as_claim(pod), &devices, &err), err);
}

static inline void refuses_to_prepare(const struct rf_json *pod, const char *because)
{
	rf_auto(buf) devices = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	assert_true(kubelet_prepare(t.k, as_claim(pod), &devices, &err) < 0);
	if (strstr(err.msg, because) == NULL)
		fail_msg("refused because of \"%s\", not of \"%s\"", err.msg, because);
}

static inline void refuses_to_unprepare(const struct rf_json *pod, const char *because)
{
	struct rf_err err = RF_ERR_INIT;

	assert_true(kubelet_unprepare(t.k, as_claim(pod), &err) < 0);
	if (strstr(err.msg, because) == NULL)
		fail_msg("refused because of \"%s\", not of \"%s\"", err.msg, because);
}

static inline void unprepare(const struct rf_json *pod)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(kubelet_unprepare(t.k, as_claim(pod), &err), err);
}

/* The pod is over in every respect. */
static inline void end_pod(const struct rf_json *pod)
{
	const char *dir = rf_fs_path(&t.arena, "%s/claims/%s", t.data, uid_of(claim_of(pod)));

	kubelet_unassign(t.k, rf_arena_cstr(&t.arena, rf_kube_name(pod)));
	forget_pod(pod);
	WAIT_FOR(claim_of(pod) == NULL && !rf_fs_exists(dir));
}

/* --- the stage -------------------------------------------------------------------------------- */

static inline void make_cluster(void)
{
	struct rf_json *devices = rf_json_make(&t.arena, "[{'name':'gpu-0'}]");

	create_at(&RF_NODES, "", "", NULL, rf_json_make(&t.arena, "{'metadata':{'name':'node-1'}}"),
		  NULL);
	create_at(&RF_RESOURCESLICES, "", "", NULL,
		  rf_json_make(
			  &t.arena,
			  "{'metadata':{'name':'node-2-ringfence'},'spec':{'driver':'ringfence.io',"
			  "'nodeName':'node-2','pool':{'name':'node-2','generation':1,"
			  "'resourceSliceCount':1},'devices':%j}}",
			  devices),
		  NULL);
	create_at(&RF_TENANTS, "", "", NULL,
		  rf_json_make(&t.arena,
			       "{'metadata':{'name':'team-a'},'spec':{'isolation':'share',"
			       "'quota':{'gpus':8,'gpuMemory':'900Gi'}}}"),
		  NULL);
	create_at(&RF_NAMESPACES, "", "", NULL,
		  rf_json_make(
			  &t.arena,
			  "{'metadata':{'name':'team-a','labels':{'ringfence.io/tenant':'team-a',"
			  "'pod-security.kubernetes.io/enforce':'restricted'}}}"),
		  NULL);
}

static inline int set_up(void **state RF_UNUSED)
{
	struct rf_sim_options o = { .virtual_time = false };
	struct rf_err err = RF_ERR_INIT;

	snprintf(t.dir, sizeof(t.dir), "/tmp/rf-plugin-XXXXXX");
	assert_non_null(mkdtemp(t.dir));
	assert_true(readlink("/proc/self/exe", t.self, sizeof(t.self) - 1) > 0);
	t.data = at("data");
	t.sim = at("data/sim");
	t.cdi = at("cdi");
	t.proc = at("proc");
	t.last_pid = 1 << 22; /* past those that real ones get */
	assert_int_equal(rf_fs_mkdirs(at("tools"), 0755, &err), 0);
	assert_int_equal(rf_fs_mkdirs(t.proc, 0755, &err), 0);
	assert_int_equal(rf_fs_mkdirs(t.data, 0700, &err), 0);
	assert_int_equal(
		system(rf_fs_path(&t.arena, "cp %s %s %s/", FENCE_LIB, GPU_DEMO, at("tools"))), 0);
	o.context_mib = CONTEXT_MIB;
	assert_ok(rf_sim_machine_create(t.sim, RF_LIT(STAGE_CARDS), &o, &err), err);
	world_start(&t.w);
	t.kubeconfig = rf_fs_path(&t.arena, "%s/kubeconfig/node", t.w.dir);
	make_cluster();
	t.k = kubelet_new(at("kubelet"));
	return 0;
}

static inline const struct rf_json *list(const struct rf_kube_res *res)
{
	return rf_json_at(get(res, "team-a", ""), "items");
}

static inline int ready(void **state RF_UNUSED)
{
	if (kubelet_asked(t.k) < 0)
		kubelet_start(t.k, true);
	if (agent_died())
		start_agent("tick");
	wait_for_agent();
	return 0;
}

/* After a test that failed: the next one begins with nothing all the same. */
static inline int tidy(void **state RF_UNUSED)
{
	const struct rf_json *pods = list(&RF_PODS), *claims;

	for (size_t i = 0; i < rf_json_len(pods); i++)
		forget_pod(rf_json_item(pods, i));
	claims = list(&RF_RESOURCECLAIMS);
	if (rf_json_len(pods) + rf_json_len(claims) == 0)
		return 0;
	kubelet_unassign(t.k, NULL);
	for (unsigned i = 0; i < 2; i++)
		(void)rf_sim_clear(t.sim, i, NULL);
	assert_int_equal(system(rf_fs_path(&t.arena, "rm -rf %s/*", t.proc)), 0);
	if (agent_died())
		start_agent("tick");
	WAIT_FOR(rf_json_len(list(&RF_RESOURCECLAIMS)) == 0 && nothing_is_held());
	return 0;
}

static inline int tear_down(void **state RF_UNUSED)
{
	if (t.agent > 0)
		stop_agent();
	kubelet_free(t.k);
	world_stop(&t.w);
	assert_int_equal(rf_fs_remove_tree(t.dir, NULL), 0); /* and nothing is mounted there */
	rf_arena_done(&t.arena);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ready, tidy)

/* A test may have more to set up. */
static int (*stage_set_up)(void **state) = set_up;

/* Needs root, for mounts; says so and stops otherwise. A pattern as argument runs some tests only. */
static inline int perform(int argc, char **argv, const char *name, const struct CMUnitTest *tests,
			  size_t n)
{
	if (rf_gpu_names_set(RF_LIT(GPU "," CARD), &(struct rf_err)RF_ERR_INIT) < 0)
		return 1;
	if (argc > 4 && strcmp(argv[1], "agent") == 0)
		return agent_main(argv + 2);
	if (geteuid() != 0) {
		printf("1..1\nok 1 - # SKIP ledgers are mounted, which needs root\n");
		return 0;
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return _cmocka_run_group_tests(name, tests, n, stage_set_up, tear_down);
}

#endif
