#include "node/oci_private.h"

#define CPU_PERIOD_US 100000
/* Every container is two programs and every volume a mount of the machine's; a manifest of a megabyte
 * would name tens of thousands. */
#define CONTAINERS_MAX 32
#define VOLUMES_MAX 64
#define MOUNTS_MAX 128

static int limit_of(const struct rf_json *container, const char *list, const char *name, bool milli,
		    int64_t *ret, struct rf_err *err)
{
	struct rf_json *v = rf_json_at(container, "resources", list, name);

	*ret = 0;
	if (v == NULL)
		return 0;
	struct rf_str text = v->type == RF_JSON_NUMBER ? v->text : rf_json_str(v);
	int rc = milli ? rf_quantity_milli(text, ret, err) : rf_quantity_value(text, ret, err);
	return rc < 0 ? rf_wrap(err, "resources.%s.%s", list, name) : 0;
}

static int memory_of(const struct rf_json *container, int64_t otherwise, int64_t *ret,
		     struct rf_err *err)
{
	if (limit_of(container, "limits", "memory", false, ret, err) < 0)
		return -err->code;
	if (*ret <= 0)
		*ret = otherwise;
	return 0;
}

/* Those that name no limit share one default: a pod does not get more by having more of them. */
int rf_oci_pod_memory(const struct rf_json *pod, int64_t otherwise, int64_t *ret,
		      struct rf_err *err)
{
	static const char *const lists[] = { "initContainers", "containers" };
	int64_t sum = 0, rest = 0, one = 0;

	for (size_t i = 0; i < RF_COUNT(lists); i++) {
		const struct rf_json *list = rf_json_at(pod, "spec", lists[i]);

		for (size_t j = 0; j < rf_json_len(list); j++) {
			if (memory_of(rf_json_item(list, j), 0, &one, err) < 0)
				return -err->code;
			rest = one == 0 ? otherwise : rest;
			if (__builtin_add_overflow(sum, one, &sum))
				sum = INT64_MAX;
		}
	}
	if (__builtin_add_overflow(sum, rest, ret))
		*ret = INT64_MAX;
	return 0;
}

static void add_devices(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json *rules,
			struct rf_json *nodes)
{
	/* Everything off; the runtime adds null, zero, full, random, urandom, tty and pts. */
	rf_json_push(a, rules, rf_json_make(a, "{'allow':false,'access':'rwm'}"));
	for (size_t i = 0; ask->gpu != NULL && i < ask->gpu->n_devices; i++) {
		const struct rf_oci_device *d = &ask->gpu->devices[i];

		/* No m: nodes for other cards cannot be made. */
		rf_json_push(a, rules,
			     rf_json_make(a,
					  "{'allow':true,'type':'c','major':%D,'minor':%D,"
					  "'access':'rw'}",
					  d->major, d->minor));
		rf_json_push(a, nodes,
			     rf_json_make(a,
					  "{'path':%S,'type':'c','major':%D,'minor':%D,"
					  "'fileMode':%d,'uid':0,'gid':0}",
					  d->path, d->major, d->minor, 0666));
	}
}

static int make_resources(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json *rules,
			  struct rf_json **ret, struct rf_err *err)
{
	struct rf_json *r =
		rf_json_make(a, "{'devices':%j,'pids':{'limit':%D}}", rules, ask->pids_max);
	int64_t memory = 0, cpu = 0, request = 0;

	if (memory_of(ask->container, ask->memory_default, &memory, err) < 0 ||
	    limit_of(ask->container, "limits", "cpu", true, &cpu, err) < 0 ||
	    limit_of(ask->container, "requests", "cpu", true, &request, err) < 0)
		return -err->code;
	if (memory > 0)
		rf_json_set(a, r, RF_LIT("memory"), rf_json_make(a, "{'limit':%D}", memory));
	struct rf_json *c = rf_json_object(a);
	if (cpu > 0) {
		rf_json_set_int(a, c, "quota", RF_MAX(cpu * (CPU_PERIOD_US / 1000), 1000));
		rf_json_set_int(a, c, "period", CPU_PERIOD_US);
	}
	if (request > 0)
		rf_json_set_int(a, c, "shares", RF_MIN(RF_MAX(request * 1024 / 1000, 2), 262144));
	if (rf_json_len(c) > 0)
		rf_json_set(a, r, RF_LIT("cpu"), c);
	*ret = r;
	return 0;
}

static struct rf_str host_name(const struct rf_oci_ask *ask)
{
	struct rf_str name = rf_json_str_at(ask->pod, "metadata", "name");

	return rf_str_n(name.p, RF_MIN(name.n, 63));
}

/* A path in place of nothing: the namespace is joined instead of made. */
static struct rf_json *namespaces(struct rf_arena *a, const struct rf_oci_ask *ask)
{
	struct rf_json *list =
		rf_json_make(a, "[{'type':'pid'},{'type':'uts'},{'type':'mount'},{'type':'cgroup'},"
				"{'type':'network'},{'type':'ipc'}]");

	if (ask->volumes_dir == NULL)
		return list;
	rf_json_set_str(a, rf_json_item(list, 4), "path",
			rf_arena_printf(a, "%s/.net", ask->volumes_dir));
	rf_json_set_str(a, rf_json_item(list, 5), "path",
			rf_arena_printf(a, "%s/.ipc", ask->volumes_dir));
	return list;
}

static struct rf_json *masked(struct rf_arena *a, const struct rf_oci_ask *ask)
{
	static const char *const paths[] = {
		"/proc/acpi",		"/proc/asound",
		"/proc/interrupts",	"/proc/kcore",
		"/proc/keys",		"/proc/key-users",
		"/proc/sched_debug",	"/proc/scsi",
		"/proc/latency_stats",	"/proc/timer_list",
		"/sys/firmware",	"/proc/timer_stats",
		"/sys/kernel/security", "/sys/devices/virtual/powercap",
	};
	struct rf_json *list = rf_json_array(a);

	for (size_t i = 0; i < RF_COUNT(paths); i++)
		rf_json_push(a, list, rf_json_string(a, rf_str(paths[i])));
	/* The NVIDIA driver lists every card there; its libraries read it. */
	if (ask->gpu == NULL || ask->gpu->sim_dir != NULL)
		rf_json_push(a, list, rf_json_string(a, RF_LIT("/proc/driver")));
	return list;
}

int rf_oci_config(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json **ret,
		  struct rf_err *err)
{
	struct rf_json *process, *mounts, *resources, *rules = rf_json_array(a),
						      *nodes = rf_json_array(a);

	add_devices(a, ask, rules, nodes);
	if (rf_oci_process(a, ask, &process, err) < 0 || rf_oci_mounts(a, ask, &mounts, err) < 0 ||
	    make_resources(a, ask, rules, &resources, err) < 0)
		return -err->code;
	struct rf_json *os = rf_json_make(
		a,
		"{'cgroupsPath':%S,'namespaces':%j,'devices':%j,'resources':%j,"
		"'seccomp':%j,'rootfsPropagation':'private',"
		"'maskedPaths':%j,"
		"'readonlyPaths':['/proc/bus','/proc/fs','/proc/irq','/proc/sys','/proc/"
		"sysrq-trigger']}",
		ask->cgroup, namespaces(a, ask), nodes, resources, rf_oci_seccomp(a),
		masked(a, ask));
	*ret = rf_json_make(a,
			    "{'ociVersion':'1.0.0','process':%j,'root':{'path':%S,'readonly':true},"
			    "'hostname':%S,'mounts':%j,'linux':%j}",
			    process, ask->rootfs, host_name(ask), mounts, os);
	return 0;
}

static int check_containers(const struct rf_json *list, struct rf_err *err)
{
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *c = rf_json_item(list, i);

		if (!rf_str_is_dns_label(rf_json_str_at(c, "name")))
			return rf_fail(err, RF_INVALID,
				       "container %zu: its name is not a DNS label", i);
		if (rf_json_len(rf_json_at(c, "volumeMounts")) > MOUNTS_MAX)
			return rf_fail(err, RF_INVALID, "container %zu: more than %d volumeMounts",
				       i, MOUNTS_MAX);
		if (rf_json_is_true(rf_json_at(c, "securityContext", "privileged")))
			return rf_fail(err, RF_FORBIDDEN,
				       "container %.*s: privileged containers are not run",
				       RF_STR(rf_json_str_at(c, "name")));
	}
	return 0;
}

/* A sidecar never ends, so what comes after it would never start. */
static int check_sidecars(const struct rf_json *list, struct rf_err *err)
{
	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_json_str_at(rf_json_item(list, i), "restartPolicy").n > 0)
			return rf_fail(
				err, RF_UNSUPPORTED,
				"init container %.*s: restartPolicy (sidecars) is not offered",
				RF_STR(rf_json_str_at(rf_json_item(list, i), "name")));
	return 0;
}

void rf_oci_ignored(const struct rf_json *pod, struct rf_buf *out)
{
	static const char *const of_container[] = { "livenessProbe", "readinessProbe",
						    "startupProbe",  "lifecycle",
						    "stdin",	     "tty" };
	static const char *const of_pod[] = { "shareProcessNamespace", "dnsConfig", "hostAliases" };
	const struct rf_json *list = rf_json_at(pod, "spec", "containers");

	for (size_t i = 0; i < RF_COUNT(of_pod); i++)
		if (rf_json_at(pod, "spec", of_pod[i]) != NULL)
			rf_buf_printf(out, "%s%s", out->n ? ", " : "", of_pod[i]);
	for (size_t i = 0; i < rf_json_len(list); i++)
		for (size_t j = 0; j < RF_COUNT(of_container); j++)
			if (rf_json_at(rf_json_item(list, i), of_container[j]) != NULL)
				rf_buf_printf(
					out, "%s%s of %.*s", out->n ? ", " : "", of_container[j],
					RF_STR(rf_json_str_at(rf_json_item(list, i), "name")));
}

static int check_counts(const struct rf_json *spec, struct rf_err *err)
{
	size_t n = rf_json_len(rf_json_at(spec, "containers"));
	size_t all = n + rf_json_len(rf_json_at(spec, "initContainers"));
	size_t volumes = rf_json_len(rf_json_at(spec, "volumes"));

	if (n == 0)
		return rf_fail(err, RF_INVALID, "the pod has no containers");
	if (all > CONTAINERS_MAX)
		return rf_fail(err, RF_INVALID, "%zu containers; a pod has %d at most here", all,
			       CONTAINERS_MAX);
	if (volumes > VOLUMES_MAX)
		return rf_fail(err, RF_INVALID, "%zu volumes; a pod has %d at most here", volumes,
			       VOLUMES_MAX);
	return 0;
}

int rf_oci_check_pod(const struct rf_json *pod, struct rf_err *err)
{
	static const char *const host[] = { "hostNetwork", "hostPID", "hostIPC" };
	const struct rf_json *spec = rf_json_at(pod, "spec");

	for (size_t i = 0; i < RF_COUNT(host); i++)
		if (rf_json_is_true(rf_json_at(spec, host[i])))
			return rf_fail(err, RF_FORBIDDEN,
				       "%s: pods do not share the machine's namespaces", host[i]);
	if (check_counts(spec, err) < 0)
		return -err->code;
	if (check_containers(rf_json_at(spec, "initContainers"), err) < 0 ||
	    check_sidecars(rf_json_at(spec, "initContainers"), err) < 0)
		return -err->code;
	return check_containers(rf_json_at(spec, "containers"), err);
}
