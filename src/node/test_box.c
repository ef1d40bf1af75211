/* The container box: what config.json says, logs, cgroup names, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "node/cgroup.h"
#include "node/crilog.h"
#include "node/image.h"
#include "node/oci.h"
#include "node/podenv.h"
#include "node/volume.h"

struct box {
	struct rf_arena a;
	struct rf_json *pod;
	struct rf_oci_ask ask;
};

static int set_up(void **state)
{
	static struct rf_oci_top tops[] = { { RF_LIT("usr"), RF_LIT("/usr"), { "", 0 } },
					    { RF_LIT("bin"), { "", 0 }, RF_LIT("usr/bin") },
					    { RF_LIT("opt"), RF_LIT("/opt"), { "", 0 } } };
	static struct rf_str hidden[] = { RF_LIT("/opt/data") };
	struct box *b = rf_new(struct box);

	b->a = (struct rf_arena)RF_ARENA_INIT;
	b->pod = rf_json_make(&b->a, "{'metadata':{'name':'train','namespace':'team-a','uid':'u-1',"
				     "'labels':{'app':'x'}},"
				     "'spec':{'containers':[{'name':'main','image':'host','command'"
				     ":['/bin/sh','-c','true']}]}}");
	b->ask = (struct rf_oci_ask){ .pod = b->pod,
				      .container = rf_json_item(
					      rf_json_at(b->pod, "spec", "containers"), 0),
				      .host_image = true,
				      .rootfs = RF_LIT("/data/rootfs"),
				      .cgroup = RF_LIT("/ringfence/i/u-1/main"),
				      .tops = tops,
				      .n_tops = RF_COUNT(tops),
				      .hidden = hidden,
				      .n_hidden = 1,
				      .pids_max = 512,
				      .demo = "/tools/gpu-demo" };
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct box *b = *state;

	rf_arena_done(&b->a);
	free(b);
	return 0;
}

static struct rf_json *config_of(struct box *b)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *c = NULL;

	if (rf_oci_config(&b->a, &b->ask, &c, &err) < 0)
		fail_msg("%s", err.msg);
	return c;
}

static int refusal_of(struct box *b, struct rf_err *err)
{
	struct rf_json *c = NULL;

	return rf_oci_config(&b->a, &b->ask, &c, err);
}

static bool has_env(const struct rf_json *config, const char *text)
{
	const struct rf_json *env = rf_json_at(config, "process", "env");

	for (size_t i = 0; i < rf_json_len(env); i++)
		if (rf_str_is(rf_json_str(rf_json_item(env, i)), text))
			return true;
	return false;
}

static const struct rf_json *mount_at(const struct rf_json *config, const char *destination)
{
	const struct rf_json *m = rf_json_at(config, "mounts"), *hit = NULL;

	for (size_t i = 0; i < rf_json_len(m); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(m, i), "destination"), destination))
			hit = rf_json_item(m, i);
	return hit;
}

static bool has_option(const struct rf_json *mount, const char *option)
{
	const struct rf_json *o = rf_json_at(mount, "options");

	for (size_t i = 0; i < rf_json_len(o); i++)
		if (rf_str_is(rf_json_str(rf_json_item(o, i)), option))
			return true;
	return false;
}

static void a_container_has_no_privileges(void **state)
{
	struct rf_json *c = config_of(*state);
	static const char *const sets[] = { "bounding", "effective", "permitted", "inheritable",
					    "ambient" };

	assert_int_equal(rf_json_int(rf_json_at(c, "process", "user", "uid"), -1), RF_NOBODY);
	assert_true(rf_json_is_true(rf_json_at(c, "process", "noNewPrivileges")));
	assert_true(rf_json_is_true(rf_json_at(c, "root", "readonly")));
	for (size_t i = 0; i < RF_COUNT(sets); i++) {
		struct rf_json *set = rf_json_at(c, "process", "capabilities", sets[i]);

		assert_true(rf_json_is(set, RF_JSON_ARRAY));
		assert_int_equal(rf_json_len(set), 0);
	}
	assert_int_equal(rf_json_len(rf_json_at(c, "linux", "namespaces")), 6);
	assert_true(rf_json_int(rf_json_at(c, "process", "oomScoreAdj"), 0) > 0);
}

static void without_a_claim_nothing_of_a_card_shows(void **state)
{
	struct rf_json *c = config_of(*state);

	assert_int_equal(rf_json_len(rf_json_at(c, "linux", "devices")), 0);
	assert_int_equal(rf_json_len(rf_json_at(c, "linux", "resources", "devices")), 1);
	assert_null(mount_at(c, "/ringfence/dev/machine"));
	assert_null(mount_at(c, "/ringfence/run"));
	assert_null(mount_at(c, "/sys"));
	assert_false(has_env(c, "LD_PRELOAD=/ringfence/lib/libringfence.so"));
	assert_true(has_option(mount_at(c, "/ringfence/bin/gpu-demo"), "ro"));
	assert_null(mount_at(c, "/ringfence/bin")); /* a build folder has much more in it */
}

static void simulated_cards_are_bound_one_by_one(void **state)
{
	struct box *b = *state;
	static const int minors[] = { 3 };
	struct rf_oci_gpu gpu = { .run_dir = "/data/run",
				  .fence_lib = "/lib/libringfence.so",
				  .driver_lib_dir = "/sim/lib",
				  .sim_dir = "/sim",
				  .minors = minors,
				  .n_minors = 1 };

	b->ask.gpu = &gpu;
	struct rf_json *c = config_of(b);
	assert_string_equal(rf_json_str_at(mount_at(c, "/ringfence/dev/nvidia3"), "source").p,
			    "/sim/nvidia3");
	assert_null(mount_at(c, "/ringfence/dev/nvidia0"));
	assert_null(mount_at(c, "/ringfence/dev"));
	assert_true(has_env(c, "LD_PRELOAD=/ringfence/lib/libringfence.so"));
	assert_true(has_env(c, "RINGFENCE_SIM=/ringfence/dev"));
	assert_int_equal(rf_json_len(rf_json_at(c, "linux", "devices")), 0);
}

static void slices_are_named_and_their_card_is_mounted_once(void **state)
{
	struct box *b = *state;
	static const int minors[] = { 3, 3 };
	struct rf_oci_gpu gpu = { .run_dir = "/data/run",
				  .fence_lib = "/lib/libringfence.so",
				  .driver_lib_dir = "/sim/lib",
				  .sim_dir = "/sim",
				  .minors = minors,
				  .n_minors = 2,
				  .visible = RF_LIT("MIG-1,MIG-2"),
				  .sim_caps = "/data/caps" };
	size_t cards = 0;

	b->ask.gpu = &gpu;
	struct rf_json *c = config_of(b), *mounts = rf_json_at(c, "mounts");
	for (size_t i = 0; i < rf_json_len(mounts); i++)
		cards += rf_str_is(rf_json_str_at(rf_json_item(mounts, i), "destination"), "/ringfence/dev/nvidia3");
	assert_int_equal(cards, 1);
	assert_string_equal(rf_json_str_at(mount_at(c, "/ringfence/dev/caps"), "source").p, "/data/caps");
	assert_true(has_env(c, "CUDA_VISIBLE_DEVICES=MIG-1,MIG-2"));
}

static void a_client_of_mps_gets_its_daemons_folder_and_cannot_name_another(void **state)
{
	struct box *b = *state;
	static const int minors[] = { 3 };
	struct rf_oci_gpu gpu = { .run_dir = "/data/run",
				  .fence_lib = "/lib/libringfence.so",
				  .driver_lib_dir = "/sim/lib",
				  .sim_dir = "/sim",
				  .minors = minors,
				  .n_minors = 1,
				  .mps_dir = "/data/mps/3/client" };
	rf_auto(buf) text = RF_BUF_INIT;

	b->ask.gpu = &gpu;
	b->ask.env = rf_json_make(&b->a, "[{'name':'CUDA_MPS_PIPE_DIRECTORY','value':'/x'},"
					 "{'name':'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE','value':'100'}]");
	struct rf_json *c = config_of(b);
	const struct rf_json *m = mount_at(c, "/ringfence/mps");
	assert_string_equal(rf_json_str_at(m, "source").p, "/data/mps/3/client");
	assert_true(rf_str_is(rf_json_str(rf_json_item(rf_json_at(m, "options"), 1)), "ro"));
	assert_true(has_env(c, "CUDA_MPS_PIPE_DIRECTORY=/ringfence/mps"));
	gpu.mps_dir = NULL;
	c = config_of(b);
	assert_null(mount_at(c, "/ringfence/mps"));
	rf_json_write(&text, rf_json_at(c, "process", "env"));
	assert_null(strstr(text.p, "CUDA_MPS"));
}

static void real_cards_are_device_nodes_without_mknod(void **state)
{
	struct box *b = *state;
	static const struct rf_oci_device devices[] = { { RF_LIT("/dev/nvidia3"), 195, 3 },
							{ RF_LIT("/dev/nvidiactl"), 195, 255 } };
	struct rf_oci_gpu gpu = { .run_dir = "/data/run",
				  .fence_lib = "/lib/libringfence.so",
				  .devices = devices,
				  .n_devices = 2 };

	b->ask.gpu = &gpu;
	struct rf_json *c = config_of(b), *rules = rf_json_at(c, "linux", "resources", "devices");
	assert_int_equal(rf_json_len(rf_json_at(c, "linux", "devices")), 2);
	assert_false(rf_json_is_true(rf_json_at(rf_json_item(rules, 0), "allow")));
	assert_int_equal(rf_json_len(rules), 3);
	for (size_t i = 1; i < 3; i++)
		assert_string_equal(rf_json_str_at(rf_json_item(rules, i), "access").p, "rw");
}

static void what_steers_the_fence_is_never_the_tenants(void **state)
{
	struct box *b = *state;
	static const int minors[] = { 0 };
	struct rf_oci_gpu gpu = { .run_dir = "/r",
				  .fence_lib = "/f",
				  .driver_lib_dir = "/sim/lib",
				  .sim_dir = "/sim",
				  .minors = minors,
				  .n_minors = 1 };

	b->ask.gpu = &gpu;
	b->ask.env = rf_json_make(
		&b->a,
		"[{'name':'LD_PRELOAD','value':''},{'name':'LD_AUDIT','value':'/x'},"
		"{'name':'RINGFENCE_SIM','value':'/"
		"y'},{'name':'NVIDIA_VISIBLE_DEVICES','value':'all'},"
		"{'name':'CUDA_VISIBLE_DEVICES','value':'7'},{'name':'PATH','value':'/mine'},"
		"{'name':'A=LD_PRELOAD','value':'/x'},{'name':'OK','value':'1'}]");
	b->ask.image = rf_json_make(&b->a, "{'process':{'env':['LD_PRELOAD=/evil.so','IMG=1']}}");
	struct rf_json *c = config_of(b);
	rf_auto(buf) text = RF_BUF_INIT;
	rf_json_write(&text, rf_json_at(c, "process", "env"));
	assert_null(strstr(text.p, "evil"));
	assert_null(strstr(text.p, "LD_AUDIT"));
	assert_null(strstr(text.p, "VISIBLE_DEVICES"));
	assert_null(strstr(text.p, "A=LD"));
	assert_true(has_env(c, "LD_PRELOAD=/ringfence/lib/libringfence.so"));
	assert_true(has_env(c, "RINGFENCE_SIM=/ringfence/dev"));
	assert_true(has_env(c, "PATH=/ringfence/bin:/mine"));
	assert_true(has_env(c, "OK=1"));
	assert_true(has_env(c, "IMG=1"));
}

static void root_and_the_machines_own_groups_are_refused(void **state)
{
	struct box *b = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *sc = rf_json_ensure(&b->a, b->pod, "spec", "securityContext");

	rf_json_set_int(&b->a, sc, "runAsUser", 0);
	b->ask.may_be_root = true; /* the host image is never run as root */
	assert_int_equal(refusal_of(b, &err), -RF_FORBIDDEN);
	assert_non_null(strstr(err.msg, "root"));
	rf_json_set_int(&b->a, sc, "runAsUser", 33);
	assert_int_equal(refusal_of(b, &err), -RF_FORBIDDEN);
	rf_json_set_int(&b->a, sc, "runAsUser", 1000);
	rf_json_set(&b->a, sc, RF_LIT("supplementalGroups"), rf_json_make(&b->a, "[42]"));
	assert_int_equal(refusal_of(b, &err), -RF_FORBIDDEN);
	rf_json_set(&b->a, sc, RF_LIT("supplementalGroups"), rf_json_make(&b->a, "[2000]"));
	assert_int_equal(refusal_of(b, &err), 0);
	rf_json_set_int(&b->a, sc, "runAsUser", -1);
	assert_int_equal(refusal_of(b, &err), -RF_INVALID);
}

static bool only_1000(int64_t id, bool group RF_UNUSED)
{
	return id == 1000 || id == RF_NOBODY;
}

static void a_person_of_the_machine_is_not_lent_to_a_pod(void **state)
{
	struct box *b = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *sc = rf_json_ensure(&b->a, b->pod, "spec", "securityContext");

	b->ask.is_account = only_1000;
	assert_int_equal(refusal_of(b, &err), 0); /* nobody is nobody's */
	rf_json_set_int(&b->a, sc, "runAsUser", 1000);
	assert_int_equal(refusal_of(b, &err), -RF_FORBIDDEN);
	rf_json_set_int(&b->a, sc, "runAsUser", 1001);
	assert_int_equal(refusal_of(b, &err), 0);
	rf_json_set_int(&b->a, sc, "fsGroup", 1000);
	assert_int_equal(refusal_of(b, &err), -RF_FORBIDDEN);
	b->ask.host_image = false; /* an image has its own files only */
	assert_int_equal(refusal_of(b, &err), 0);
}

static void core_files_are_off_and_stay_off(void **state)
{
	struct box *b = *state;
	struct rf_json *limit = rf_json_item(rf_json_at(config_of(b), "process", "rlimits"), 0);
	rf_auto(buf) text = RF_BUF_INIT;

	/* At 0 the kernel would still run the machine's core_pattern program, as root. */
	assert_int_equal(rf_json_int(rf_json_at(limit, "hard"), -1), 1);
	rf_json_write(&text, rf_oci_seccomp(&b->a));
	assert_null(strstr(text.p, "\"setrlimit\",")); /* never without a condition */
	assert_null(strstr(text.p, "\"prlimit64\","));
	assert_non_null(strstr(text.p, "[\"prlimit64\"]"));
}

static void containers_of_a_pod_can_share_namespaces(void **state)
{
	struct box *b = *state;

	b->ask.volumes_dir = "/data/.volumes";
	struct rf_json *list = rf_json_at(config_of(b), "linux", "namespaces");
	assert_int_equal(rf_json_len(list), 6);
	for (size_t i = 0; i < 6; i++) {
		struct rf_json *n = rf_json_item(list, i);
		struct rf_str type = rf_json_str_at(n, "type");
		bool shared = rf_str_is(type, "network") || rf_str_is(type, "ipc");

		assert_int_equal(rf_json_at(n, "path") != NULL, shared);
	}
}

static void an_image_may_run_as_root_only_where_the_namespace_admits_it(void **state)
{
	struct box *b = *state;
	struct rf_err err = RF_ERR_INIT;

	rf_json_set_int(&b->a, rf_json_ensure(&b->a, b->pod, "spec", "securityContext"),
			"runAsUser", 0);
	b->ask.host_image = false;
	assert_int_equal(refusal_of(b, &err), -RF_FORBIDDEN);
	b->ask.may_be_root = true;
	assert_int_equal(refusal_of(b, &err), 0);
}

static void the_data_folder_is_covered_where_it_would_show(void **state)
{
	struct rf_json *c = config_of(*state);

	assert_string_equal(rf_json_str_at(mount_at(c, "/opt/data"), "type").p, "tmpfs");
	assert_true(has_option(mount_at(c, "/usr"), "ro"));
	assert_null(mount_at(c, "/bin"));
	assert_null(mount_at(c, "/home"));
}

static void volumes_cannot_cover_the_fence(void **state)
{
	struct box *b = *state;
	static const char *const bad[] = { "/ringfence", "/ringfence/lib", "/proc/sys",
					   "/dev/null",	 "/sys",	   "/",
					   "tmp",	 "/tmp/../proc",   "/ringfence/../x",
					   "//proc",	 "/x//y",	   "//ringfence/lib" };
	struct rf_oci_mount v = { .source = RF_LIT("/data/v") };
	struct rf_err err = RF_ERR_INIT;

	b->ask.volumes = &v;
	b->ask.n_volumes = 1;
	for (size_t i = 0; i < RF_COUNT(bad); i++) {
		v.destination = rf_str(bad[i]);
		assert_int_not_equal(refusal_of(b, &err), 0);
	}
	v.destination = RF_LIT("/work");
	v.read_only = false;
	assert_true(has_option(mount_at(config_of(b), "/work"), "rw"));
	v.destination = RF_LIT("/dev/shm");
	assert_int_equal(refusal_of(b, &err), 0);
}

static void limits_become_cgroup_limits(void **state)
{
	struct box *b = *state;
	struct rf_json *container = rf_json_item(rf_json_at(b->pod, "spec", "containers"), 0);

	rf_json_set(&b->a, container, RF_LIT("resources"),
		    rf_json_make(
			    &b->a,
			    "{'limits':{'memory':'64Mi','cpu':'500m'},'requests':{'cpu':'250m'}}"));
	struct rf_json *r = rf_json_at(config_of(b), "linux", "resources");
	assert_int_equal(rf_json_int(rf_json_at(r, "memory", "limit"), 0), 64 * 1024 * 1024);
	assert_int_equal(rf_json_int(rf_json_at(r, "cpu", "quota"), 0), 50000);
	assert_int_equal(rf_json_int(rf_json_at(r, "cpu", "shares"), 0), 256);
	assert_int_equal(rf_json_int(rf_json_at(r, "pids", "limit"), 0), 512);
}

static void who_names_no_limit_is_given_one(void **state)
{
	struct box *b = *state;
	struct rf_err err = RF_ERR_INIT;
	int64_t sum = 0;

	b->ask.memory_default = 1 << 30;
	struct rf_json *r = rf_json_at(config_of(b), "linux", "resources");
	assert_int_equal(rf_json_int(rf_json_at(r, "memory", "limit"), 0), 1 << 30);
	rf_json_set(&b->a, rf_json_at(b->pod, "spec"), RF_LIT("initContainers"),
		    rf_json_make(&b->a, "[{'name':'i','resources':{'limits':{'memory':'1Mi'}}}]"));
	assert_int_equal(rf_oci_pod_memory(b->pod, 1 << 30, &sum, &err), 0);
	assert_int_equal(sum, (1 << 30) + (1 << 20));
	rf_json_push(&b->a, rf_json_at(b->pod, "spec", "containers"),
		     rf_json_make(&b->a, "{'name':'more'}"));
	assert_int_equal(rf_oci_pod_memory(b->pod, 1 << 30, &sum, &err), 0);
	assert_int_equal(sum, (1 << 30) + (1 << 20)); /* not one default each */
	assert_true(rf_cgroup_default_memory() > 0);
	assert_in_range(rf_cgroup_pids_per_pod(), 512, 4096);
}

static void dangerous_system_calls_are_not_in_the_profile(void **state)
{
	struct box *b = *state;
	static const char *const out[] = {
		"mount",	   "umount2",	     "ptrace",	     "bpf",
		"perf_event_open", "keyctl",	     "add_key",	     "request_key",
		"kexec_load",	   "init_module",    "finit_module", "delete_module",
		"reboot",	   "swapon",	     "swapoff",	     "settimeofday",
		"clock_settime",   "unshare",	     "setns",	     "open_by_handle_at",
		"userfaultfd",	   "io_uring_setup", "quotactl",     "acct",
		"pivot_root",	   "move_mount",     "fsopen",	     "iopl",
		"ioperm",	   "clone3",	     "chroot",	     "process_vm_writev"
	};
	struct rf_json *p = rf_oci_seccomp(&b->a);
	rf_auto(buf) text = RF_BUF_INIT;

	assert_string_equal(rf_json_str_at(p, "defaultAction").p, "SCMP_ACT_ERRNO");
	assert_int_equal(rf_json_len(rf_json_at(p, "architectures")), 1);
	rf_json_write(&text, p);
	for (size_t i = 0; i < RF_COUNT(out); i++) {
		char quoted[64];

		snprintf(quoted, sizeof(quoted), "\"%s\"", out[i]);
		if (strstr(text.p, quoted) != NULL)
			fail_msg("%s is allowed", out[i]);
	}
	assert_non_null(strstr(text.p, "\"read\""));
}

static void host_namespaces_and_privilege_are_refused(void **state)
{
	struct box *b = *state;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_oci_check_pod(b->pod, &err), 0);
	rf_json_set_bool(&b->a, rf_json_at(b->pod, "spec"), "hostPID", true);
	assert_int_equal(rf_oci_check_pod(b->pod, &err), -RF_FORBIDDEN);
	rf_json_set_bool(&b->a, rf_json_at(b->pod, "spec"), "hostPID", false);
	rf_json_set_bool(&b->a,
			 rf_json_ensure(&b->a,
					rf_json_item(rf_json_at(b->pod, "spec", "containers"), 0),
					"securityContext"),
			 "privileged", true);
	assert_int_equal(rf_oci_check_pod(b->pod, &err), -RF_FORBIDDEN);
}

static void a_pod_has_a_sane_number_of_parts(void **state)
{
	struct box *b = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *volumes = rf_json_array(&b->a);

	for (int i = 0; i < 65; i++)
		rf_json_push(&b->a, volumes, rf_json_make(&b->a, "{'name':'v','emptyDir':{}}"));
	rf_json_set(&b->a, rf_json_at(b->pod, "spec"), RF_LIT("volumes"), volumes);
	assert_int_equal(rf_oci_check_pod(b->pod, &err), -RF_INVALID);
	rf_json_del(rf_json_at(b->pod, "spec"), RF_LIT("volumes"));
	for (int i = 0; i < 32; i++)
		rf_json_push(&b->a, rf_json_at(b->pod, "spec", "containers"),
			     rf_json_make(&b->a, "{'name':'c'}"));
	assert_int_equal(rf_oci_check_pod(b->pod, &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "33 containers"));
}

static void what_is_not_done_is_named_and_sidecars_are_refused(void **state)
{
	struct box *b = *state;
	struct rf_err err = RF_ERR_INIT;
	rf_auto(buf) out = RF_BUF_INIT;

	rf_oci_ignored(b->pod, &out);
	assert_int_equal(out.n, 0);
	rf_json_ensure(&b->a, rf_json_item(rf_json_at(b->pod, "spec", "containers"), 0),
		       "livenessProbe");
	rf_oci_ignored(b->pod, &out);
	assert_string_equal(out.p, "livenessProbe of main");
	rf_json_set(&b->a, rf_json_at(b->pod, "spec"), RF_LIT("initContainers"),
		    rf_json_make(&b->a, "[{'name':'side','restartPolicy':'Always'}]"));
	assert_int_equal(rf_oci_check_pod(b->pod, &err), -RF_UNSUPPORTED);
}

static int one_secret(void *ctx, bool secret, struct rf_str name, const struct rf_json **ret,
		      struct rf_err *err)
{
	struct box *b = ctx;

	if (!rf_str_is(name, "s"))
		return rf_fail(err, RF_NOT_FOUND, "no such object");
	*ret = rf_json_make(&b->a,
			    secret ? "{'data':{'k':'aGk='}}" : "{'data':{'k':'plain','../x':'y'}}");
	return 0;
}

static void the_environment_is_resolved_from_fields_and_objects(void **state)
{
	struct box *b = *state;
	struct rf_podenv_source source = { one_secret, b };
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *env = NULL;
	struct rf_json *c = rf_json_make(
		&b->a,
		"{'name':'main','env':[{'name':'NS','valueFrom':{'fieldRef':{'fieldPath':'metadata."
		"namespace'}}},"
		"{'name':'S','valueFrom':{'secretKeyRef':{'name':'s','key':'k'}}},"
		"{'name':'C','valueFrom':{'configMapKeyRef':{'name':'s','key':'k'}}},"
		"{'name':'L','valueFrom':{'fieldRef':{'fieldPath':\"metadata.labels['app']\"}}},"
		"{'name':'O','valueFrom':{'secretKeyRef':{'name':'none','key':'k','optional':true}}"
		"},"
		"{'name':'E','value':'$(NS)-$(S) $(none) $$(NS)'}]}");

	if (rf_podenv_resolve(&b->a, b->pod, c, &source, &env, &err) < 0)
		fail_msg("%s", err.msg);
	rf_auto(buf) text = RF_BUF_INIT;
	rf_json_write(&text, env);
	assert_string_equal(
		text.p, "[{\"name\":\"NS\",\"value\":\"team-a\"},{\"name\":\"S\",\"value\":\"hi\"},"
			"{\"name\":\"C\",\"value\":\"plain\"},{\"name\":\"L\",\"value\":\"x\"},"
			"{\"name\":\"E\",\"value\":\"team-a-hi $(none) $(NS)\"}]");
}

static void a_volume_key_cannot_leave_its_folder(void **state)
{
	struct box *b = *state;
	struct rf_podenv_source source = { one_secret, b };
	struct rf_err err = RF_ERR_INIT;
	char dir[] = "/tmp/rf-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	rf_json_set(&b->a, rf_json_at(b->pod, "spec"), RF_LIT("volumes"),
		    rf_json_make(&b->a, "[{'name':'v','configMap':{'name':'s'}}]"));
	assert_int_not_equal(rf_volumes_make(b->pod, dir, &source, &err), 0);
	rf_json_set(&b->a, rf_json_at(b->pod, "spec"), RF_LIT("volumes"),
		    rf_json_make(&b->a, "[{'name':'v','secret':{'secretName':'s'}},{'name':'h','"
					"hostPath':{'path':'/'}}]"));
	assert_int_equal(rf_volumes_make(b->pod, dir, &source, &err), -RF_UNSUPPORTED);
	assert_true(rf_fs_exists(rf_fs_path(&b->a, "%s/v/k", dir)));
	assert_int_equal(rf_volumes_unmount(dir, &err), 0);
	assert_int_equal(rf_fs_remove_tree(dir, &err), 0);
	assert_false(rf_fs_exists(dir));
}

static void image_names_stay_inside_the_images_folder(void **state)
{
	struct rf_image image;
	struct rf_err err = RF_ERR_INIT;
	struct box *b = *state;

	assert_true(rf_image_name_ok(RF_LIT("pytorch-2.5_cuda")));
	assert_false(rf_image_name_ok(RF_LIT("a/b")));
	assert_false(rf_image_name_ok(RF_LIT("..")));
	assert_false(rf_image_name_ok(RF_LIT("")));
	assert_int_equal(rf_image_find(&b->a, "/nowhere", RF_LIT("../etc"), &image, &err),
			 -RF_INVALID);
	assert_int_equal(rf_image_find(&b->a, NULL, RF_LIT("x"), &image, &err), -RF_NOT_FOUND);
	assert_int_equal(rf_image_find(&b->a, NULL, RF_LIT("host"), &image, &err), 0);
	for (size_t i = 0; i < image.n_tops; i++) {
		assert_false(rf_str_is(image.tops[i].name, "home"));
		assert_false(rf_str_is(image.tops[i].name, "var"));
	}
}

static void logs_are_cut_into_lines_and_long_ones_into_pieces(void **state)
{
	struct box *b = *state;
	char path[] = "/tmp/rf-log-XXXXXX";
	struct rf_crilog log = RF_CRILOG_INIT;
	struct rf_err err = RF_ERR_INIT;
	rf_auto(buf) longline = RF_BUF_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_str text;
	bool open_line = false;

	close(mkstemp(path));
	for (int i = 0; i < RF_CRILOG_LINE_MAX + 5; i++)
		rf_buf_add_c(&longline, 'x');
	assert_int_equal(rf_crilog_open(&log, path, RF_CRILOG_FILE_MAX, &err), 0);
	rf_crilog_add(&log, 0, RF_LIT("one\ntw"), 1000000000);
	rf_crilog_add(&log, 1, RF_LIT("err\n"), 1000000001);
	rf_crilog_add(&log, 0, RF_LIT("o\n"), 1000000002);
	rf_crilog_add(&log, 0, rf_buf_str(&longline), 2000000000);
	rf_crilog_flush(&log, 2000000000);
	rf_crilog_done(&log);
	assert_int_equal(rf_fs_read(&b->a, path, 1 << 20, &text, &err), 0);
	unlink(path);
	assert_true(rf_str_starts(text, RF_LIT("1970-01-01T00:00:01.000000000Z stdout F one\n"
					       "1970-01-01T00:00:01.000000001Z stderr F err\n"
					       "1970-01-01T00:00:01.000000002Z stdout F two\n"
					       "1970-01-01T00:00:02.000000000Z stdout P xx")));
	struct rf_crilog_query q = { .tail = -1 };
	rf_crilog_render(text, &q, &open_line, &out);
	assert_true(rf_str_starts(rf_buf_str(&out), RF_LIT("one\nerr\ntwo\nxxx")));
	assert_int_equal(out.n, 4 + 4 + 4 + RF_CRILOG_LINE_MAX + 5 + 1);
	rf_buf_clear(&out);
	q.since_ms = 1500;
	q.timestamps = true;
	rf_crilog_render(text, &q, &open_line, &out);
	assert_true(rf_str_starts(rf_buf_str(&out), RF_LIT("1970-01-01T00:00:02.000000000Z xxx")));
	assert_null(strstr(out.p + 10, "1970"));
}

static void the_tail_counts_lines_not_pieces(void **state)
{
	struct rf_str t = RF_LIT("1970-01-01T00:00:01Z stdout F a\n"
				 "1970-01-01T00:00:01Z stdout P b\n"
				 "1970-01-01T00:00:01Z stdout F b\n"
				 "1970-01-01T00:00:01Z stdout F c\n");
	struct rf_crilog_query q = { .tail = -1 };
	rf_auto(buf) out = RF_BUF_INIT;
	bool open_line = false;

	(void)state;
	rf_crilog_render(rf_str_skip(t, rf_crilog_tail_offset(t, 2)), &q, &open_line, &out);
	assert_string_equal(out.p, "bb\nc\n");
	assert_int_equal(rf_crilog_tail_offset(t, 0), t.n);
	assert_int_equal(rf_crilog_tail_offset(t, 99), 0);
	assert_int_equal(rf_crilog_tail_offset(t, -1), 0);
	assert_int_equal(rf_crilog_tail_offset(RF_STR_EMPTY, 5), 0);
	assert_int_equal(rf_crilog_count(t), 3);
	assert_int_equal(rf_crilog_count(RF_STR_EMPTY), 0);
}

static void a_full_log_is_rotated_once(void **state)
{
	struct box *b = *state;
	char dir[] = "/tmp/rf-rot-XXXXXX";
	struct rf_crilog log = RF_CRILOG_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_str *names;
	struct stat st;
	size_t n;

	assert_non_null(mkdtemp(dir));
	const char *path = rf_fs_path(&b->a, "%s/log", dir);
	assert_int_equal(rf_crilog_open(&log, path, 1000, &err), 0);
	for (int i = 0; i < 200; i++)
		rf_crilog_add(&log, 0, RF_LIT("0123456789\n"), 1);
	rf_crilog_done(&log);
	assert_int_equal(rf_fs_list(&b->a, dir, &names, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size <= 1000);
	assert_int_equal(rf_fs_remove_tree(dir, &err), 0);
}

static void only_this_instances_containers_are_recognised(void **state)
{
	struct rf_str uid, name;
	struct rf_str v1 = RF_LIT("9:name=systemd:/\n4:memory:/ringfence/abc/u-1/main\n0::/\n");

	(void)state;
	assert_true(rf_cgroup_parse(v1, RF_LIT("abc"), &uid, &name));
	assert_true(rf_str_is(uid, "u-1"));
	assert_true(rf_str_is(name, "main"));
	assert_false(rf_cgroup_parse(v1, RF_LIT("abd"), &uid, &name));
	assert_true(
		rf_cgroup_parse(RF_LIT("0::/ringfence/abc/u/c/sub\n"), RF_LIT("abc"), &uid, &name));
	assert_true(rf_str_is(name, "c"));
	assert_false(
		rf_cgroup_parse(RF_LIT("0::/x/ringfence/abc/u/c\n"), RF_LIT("abc"), &uid, &name));
	assert_false(rf_cgroup_parse(RF_LIT("0::/ringfence/abc/u\n"), RF_LIT("abc"), &uid, &name));
	assert_false(rf_cgroup_parse(RF_LIT("garbage"), RF_LIT("abc"), &uid, &name));
}

static void cgroup_mounts_are_found_in_both_layouts(void **state)
{
	struct box *b = *state;
	struct rf_cgroup_mounts m;

	rf_cgroup_mounts_parse(
		&b->a,
		RF_LIT("35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
		       "36 31 0:33 /x /elsewhere rw - cgroup cgroup rw,pids\n"
		       "41 31 0:38 / /sys/fs/cgroup/unified rw shared:7 - cgroup2 cgroup2 rw\n"
		       "22 27 0:21 / /proc rw,relatime - proc proc rw\n"),
		&m);
	assert_int_equal(m.n, 2);
	assert_string_equal(m.dirs[0].p, "/sys/fs/cgroup/memory");
	assert_true(m.v2[1]);
}

static void removing_a_tree_follows_no_links_and_fears_no_depth(void **state)
{
	struct box *b = *state;
	char dir[] = "/tmp/rf-rm-XXXXXX", keep[] = "/tmp/rf-keep-XXXXXX";
	struct rf_err err = RF_ERR_INIT;

	assert_non_null(mkdtemp(dir));
	assert_non_null(mkdtemp(keep));
	assert_int_equal(
		rf_fs_write(rf_fs_path(&b->a, "%s/file", keep), RF_LIT("x"), 0600, false, &err), 0);
	assert_int_equal(symlink(keep, rf_fs_path(&b->a, "%s/link", dir)), 0);
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 2000; i++) { /* deeper than any path can name */
		assert_int_equal(mkdirat(fd, "abcdef", 0700), 0);
		int next = openat(fd, "abcdef", O_RDONLY | O_DIRECTORY);
		close(fd);
		fd = next;
	}
	close(fd);
	if (rf_fs_remove_tree(dir, &err) < 0)
		fail_msg("%s", err.msg);
	assert_false(rf_fs_exists(dir));
	assert_true(rf_fs_exists(rf_fs_path(&b->a, "%s/file", keep)));
	assert_int_equal(rf_fs_remove_tree(keep, &err), 0);
	assert_int_equal(rf_fs_remove_tree(keep, &err), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_container_has_no_privileges),
		TEST(without_a_claim_nothing_of_a_card_shows),
		TEST(simulated_cards_are_bound_one_by_one),
		TEST(slices_are_named_and_their_card_is_mounted_once),
		TEST(a_client_of_mps_gets_its_daemons_folder_and_cannot_name_another),
		TEST(real_cards_are_device_nodes_without_mknod),
		TEST(what_steers_the_fence_is_never_the_tenants),
		TEST(root_and_the_machines_own_groups_are_refused),
		TEST(a_person_of_the_machine_is_not_lent_to_a_pod),
		TEST(core_files_are_off_and_stay_off),
		TEST(containers_of_a_pod_can_share_namespaces),
		TEST(an_image_may_run_as_root_only_where_the_namespace_admits_it),
		TEST(the_data_folder_is_covered_where_it_would_show),
		TEST(volumes_cannot_cover_the_fence),
		TEST(limits_become_cgroup_limits),
		TEST(who_names_no_limit_is_given_one),
		TEST(dangerous_system_calls_are_not_in_the_profile),
		TEST(host_namespaces_and_privilege_are_refused),
		TEST(a_pod_has_a_sane_number_of_parts),
		TEST(what_is_not_done_is_named_and_sidecars_are_refused),
		TEST(the_environment_is_resolved_from_fields_and_objects),
		TEST(a_volume_key_cannot_leave_its_folder),
		TEST(image_names_stay_inside_the_images_folder),
		TEST(logs_are_cut_into_lines_and_long_ones_into_pieces),
		TEST(the_tail_counts_lines_not_pieces),
		TEST(a_full_log_is_rotated_once),
		TEST(only_this_instances_containers_are_recognised),
		TEST(cgroup_mounts_are_found_in_both_layouts),
		TEST(removing_a_tree_follows_no_links_and_fears_no_depth),
	};

	return cmocka_run_group_tests_name("node box", tests, NULL, NULL);
}
