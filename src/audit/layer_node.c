/* Layer 3: what pods reach on a node, how cards are shared out, and whether they are well. */
#include "audit/private.h"

#include "codec/yaml.h"

#define PSS_DOC "https://kubernetes.io/docs/concepts/security/pod-security-standards/"

/* Tenants' pods, and whoever else asks for cards; the platform's own agents must reach the machine. */
static bool is_tenants(const struct au_pod *p)
{
	return !p->ns->platform;
}

static void privileged(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	for (struct au_container at = { 0 }; is_tenants(p) && au_next_container(p, &at);) {
		struct au_what w = { .pod = p };

		if (!rf_json_is_true(rf_json_at(at.c, "securityContext", "privileged")))
			continue;
		w.field = au_container_field(x, p, &at, "securityContext.privileged");
		au_tell(x, c, &w,
			"container \"%.*s\" is privileged: it sees every card and every device of "
			"its node",
			RF_STR(rf_json_str_at(at.c, "name")));
	}
}

/* --- hostPath ------------------------------------------------------------------------------- */

/* "/dev/../dev//x/" -> "/dev/x"; what leads above the root stays at the root. */
static struct rf_str normal_path(struct rf_arena *a, struct rf_str path)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_str part;

	while (path.n > 0) {
		rf_str_cut(&path, '/', &part);
		if (part.n == 0 || rf_str_is(part, "."))
			continue;
		if (rf_str_is(part, "..")) {
			while (b.n > 0 && b.p[--b.n] != '/')
				;
			continue;
		}
		rf_buf_add_c(&b, '/');
		rf_buf_add(&b, part);
	}
	return b.n > 0 ? rf_arena_str(a, rf_buf_str(&b)) : RF_LIT("/");
}

static bool is_below(struct rf_str path, const char *folder)
{
	struct rf_str f = rf_str(folder);

	return rf_str_starts(path, f) && (path.n == f.n || path.p[f.n] == '/');
}

/* Paths from which a node or its cards can be taken over. */
static bool is_dangerous(struct rf_str path)
{
	static const char *const FOLDERS[] = { "/dev",
					       "/proc",
					       "/sys",
					       "/etc",
					       "/root",
					       "/boot",
					       "/run",
					       "/var/run",
					       "/var/lib/kubelet",
					       "/var/lib/containerd",
					       "/var/lib/docker",
					       "/var/lib/ringfence",
					       "/var/lib/rancher",
					       "/usr/local/nvidia",
					       "/home/kubernetes",
					       "/opt/nvidia",
					       "/usr/lib",
					       "/usr/bin",
					       "/lib/modules" };
	static const char *const ABOVE[] = { "/", "/var", "/var/lib", "/usr", "/lib", "/opt" };

	for (size_t i = 0; i < RF_COUNT(FOLDERS); i++)
		if (is_below(path, FOLDERS[i]))
			return true;
	for (size_t i = 0; i < RF_COUNT(ABOVE); i++)
		if (rf_str_is(path, ABOVE[i]))
			return true;
	return au_has(path, "nvidia");
}

static void tell_paths(struct rf_audit *x, const struct rf_audit_check *c, bool dangerous)
{
	AU_PODS(x, p)
	{
		const struct rf_json *volumes = rf_json_at(p->spec, "volumes");

		for (size_t i = 0; is_tenants(p) && i < rf_json_len(volumes); i++) {
			const struct rf_json *host =
				rf_json_at(rf_json_item(volumes, i), "hostPath");
			struct au_what w = { .pod = p };
			struct rf_str path;

			if (host == NULL)
				continue;
			path = normal_path(&x->a, rf_json_str_at(host, "path"));
			if (is_dangerous(path) != dangerous)
				continue;
			w.field = au_text(x, "%s.volumes[%zu].hostPath.path", p->prefix, i);
			au_tell(x, c, &w, "mounts %.*s of the node%s", RF_STR(path),
				dangerous
					? ": from there its devices, sockets or programs can be had"
					: "");
		}
	}
}

static void dangerous_path(struct rf_audit *x, const struct rf_audit_check *c)
{
	tell_paths(x, c, true);
}

static void other_path(struct rf_audit *x, const struct rf_audit_check *c)
{
	tell_paths(x, c, false);
}

static void host_namespaces(struct rf_audit *x, const struct rf_audit_check *c)
{
	static const char *const FIELDS[] = { "hostPID", "hostIPC", "hostNetwork" };

	AU_PODS(x, p)
	for (size_t i = 0; is_tenants(p) && i < RF_COUNT(FIELDS); i++) {
		struct au_what w = { .pod = p, .field = au_text(x, "%s.%s", p->prefix, FIELDS[i]) };

		if (rf_json_is_true(rf_json_get(p->spec, rf_str(FIELDS[i]))))
			au_tell(x, c, &w, "%s: shares %s with the node", FIELDS[i],
				i == 0	 ? "processes"
				: i == 1 ? "shared memory, MPS and CUDA IPC among it,"
					 : "networks");
	}
}

/* --- the driver's variables ------------------------------------------------------------------- */

static bool is_device_variable(struct rf_str name)
{
	static const char *const NAMES[] = {
		"NVIDIA_VISIBLE_DEVICES",    "NVIDIA_DRIVER_CAPABILITIES",
		"NVIDIA_IMEX_CHANNELS",	     "CUDA_MPS_PIPE_DIRECTORY",
		"NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES",
		"AMD_VISIBLE_DEVICES",	     "HABANA_VISIBLE_DEVICES"
	};

	for (size_t i = 0; i < RF_COUNT(NAMES); i++)
		if (rf_str_is(name, NAMES[i]))
			return true;
	return false;
}

static bool is_harmless(struct rf_str value)
{
	return rf_str_is(value, "none") || rf_str_is(value, "void") || value.n == 0;
}

static void visible_devices(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	for (struct au_container at = { 0 }; is_tenants(p) && au_next_container(p, &at);) {
		const struct rf_json *env = rf_json_at(at.c, "env");

		for (size_t i = 0; i < rf_json_len(env); i++) {
			const struct rf_json *e = rf_json_item(env, i);
			struct rf_str name = rf_json_str_at(e, "name"),
				      value = rf_json_str_at(e, "value");
			struct au_what w = { .pod = p };

			if (!is_device_variable(name) ||
			    (is_harmless(value) && rf_json_at(e, "valueFrom") == NULL))
				continue;
			w.field = au_container_field(x, p, &at, au_text(x, "env[%zu]", i).p);
			w.has_severity = !rf_str_is(name, "NVIDIA_VISIBLE_DEVICES");
			w.severity = RF_AUDIT_MEDIUM;
			au_tell(x, c, &w,
				"sets %.*s=%.*s: the container runtime may give it cards it never "
				"asked for",
				RF_STR(name), RF_STR(value));
		}
	}
}

/* --- sharing by the device plugin ------------------------------------------------------------- */

static int64_t most_replicas(const struct rf_json *sharing, const char *how)
{
	const struct rf_json *all = rf_json_at(sharing, how, "resources");
	int64_t most = 0;

	for (size_t i = 0; i < rf_json_len(all); i++)
		most = RF_MAX(most, rf_json_int(rf_json_at(rf_json_item(all, i), "replicas"), 0));
	return most;
}

static void tell_sharing(struct rf_audit *x, const struct rf_audit_check *c, const struct au_obj *o,
			 struct rf_str key, const struct rf_json *config)
{
	static const char *const WAYS[] = { "timeSlicing", "mps" };

	for (size_t i = 0; i < RF_COUNT(WAYS); i++) {
		int64_t n = most_replicas(rf_json_at(config, "sharing"), WAYS[i]);
		struct au_what w = {
			.obj = o, .field = au_text(x, "data[%.*s].sharing.%s", RF_STR(key), WAYS[i])
		};

		if (n < 2)
			continue;
		w.has_severity = x->gpu_tenants < 2;
		w.severity = RF_AUDIT_MEDIUM;
		au_tell(x, c, &w,
			"every card is handed out %lld times by %s, whoever asks; %zu tenants ask "
			"for cards",
			(long long)n, WAYS[i], x->gpu_tenants);
	}
}

static void software_sharing(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_EACH(x, AU_CONFIGMAP, o)
	{
		const struct rf_json *data = rf_json_at(o->o, "data");

		for (uint32_t i = 0; rf_json_is(data, RF_JSON_OBJECT) && i < data->n; i++) {
			struct rf_str text = rf_json_str(data->members[i].value);
			rf_auto(arena) a = RF_ARENA_CAPPED((size_t)16 << 20);
			struct rf_json *docs = NULL;

			if (!rf_str_contains(text, RF_LIT("sharing")) ||
			    !rf_str_contains(text, RF_LIT("replicas")) ||
			    rf_yaml_parse(&a, text, &docs, NULL) < 0)
				continue;
			for (size_t d = 0; d < rf_json_len(docs); d++)
				tell_sharing(x, c, o, data->members[i].key, rf_json_item(docs, d));
		}
	}
}

/* --- the platform's own agents ---------------------------------------------------------------- */

static bool mentions(const struct au_pod *p, const char *word)
{
	for (struct au_container at = { 0 }; au_next_container(p, &at);)
		if (au_has(rf_json_str_at(at.c, "image"), word) ||
		    au_has(rf_json_str_at(at.c, "name"), word))
			return true;
	return false;
}

static bool mounts(const struct au_pod *p, const char *folder)
{
	const struct rf_json *volumes = rf_json_at(p->spec, "volumes");

	for (size_t i = 0; i < rf_json_len(volumes); i++)
		if (au_has(rf_json_str_at(rf_json_item(volumes, i), "hostPath", "path"), folder))
			return true;
	return false;
}

static bool is_plugin(const struct au_pod *p)
{
	return p->daemon && (mentions(p, "device-plugin") || mounts(p, "device-plugins"));
}

/* Agents of the cards: drivers, toolkits, device plugins, MIG and DRA agents. */
static bool is_agent(const struct au_pod *p)
{
	static const char *const WORDS[] = { "nvidia",	      "gpu",	     "dcgm",
					     "device-plugin", "mig-manager", "rocm" };

	if (!p->daemon || p->gpu)
		return false;
	for (size_t i = 0; i < RF_COUNT(WORDS); i++)
		if (mentions(p, WORDS[i]))
			return true;
	return is_plugin(p);
}

static void agent_without_limits(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	for (struct au_container at = { 0 }; is_plugin(p) && au_next_container(p, &at);) {
		struct au_what w = { .pod = p };

		if (strcmp(at.list, "containers") != 0 ||
		    rf_json_at(at.c, "resources", "limits", "memory") != NULL)
			continue;
		w.field = au_container_field(x, p, &at, "resources.limits");
		au_tell(x, c, &w, "container \"%.*s\" of a device plugin has no memory limit",
			RF_STR(rf_json_str_at(at.c, "name")));
	}
}

static bool passes_devices_safely(const struct au_pod *p)
{
	for (struct au_container at = { 0 }; au_next_container(p, &at);) {
		const struct rf_json *env = rf_json_at(at.c, "env"),
				     *args = rf_json_at(at.c, "args");

		for (size_t i = 0; i < rf_json_len(env); i++)
			if (rf_str_is(rf_json_str_at(rf_json_item(env, i), "name"),
				      "DEVICE_LIST_STRATEGY"))
				return !au_has(rf_json_str_at(rf_json_item(env, i), "value"),
					       "envvar");
		for (size_t i = 0; i < rf_json_len(args); i++)
			if (au_has(rf_json_str(rf_json_item(args, i)), "device-list-strategy"))
				return !au_has(rf_json_str(rf_json_item(args, i)), "envvar");
	}
	return false;
}

static void env_strategy(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		struct au_what w = { .pod = p, .field = au_text(x, "%s.containers", p->prefix) };

		if (is_plugin(p) &&
		    (mentions(p, "k8s-device-plugin") || mentions(p, "nvidia-device-plugin")) &&
		    !passes_devices_safely(p))
			au_tell(x, c, &w,
				"hands out cards by an environment variable, which any pod can set "
				"for itself");
	}
}

static void agent_misplaced(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		struct au_what w = { .pod = p, .field = RF_LIT("metadata.namespace") };

		if (is_agent(p) && !p->ns->platform)
			au_tell(x, c, &w,
				"an agent of the cards lies in namespace %.*s, which is not the "
				"platform's",
				RF_STR(p->ns->name));
	}
}

static void agent_ports(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	for (struct au_container at = { 0 }; is_agent(p) && au_next_container(p, &at);) {
		const struct rf_json *ports = rf_json_at(at.c, "ports");

		for (size_t i = 0; i < rf_json_len(ports); i++) {
			int64_t port =
				rf_json_int(rf_json_at(rf_json_item(ports, i), "hostPort"), 0);
			struct au_what w = { .pod = p };

			if (port == 0 && rf_json_is_true(rf_json_at(p->spec, "hostNetwork")))
				port = rf_json_int(
					rf_json_at(rf_json_item(ports, i), "containerPort"), 0);
			if (port == 0)
				continue;
			w.field = au_container_field(x, p, &at, au_text(x, "ports[%zu]", i).p);
			au_tell(x, c, &w, "an agent of the cards listens on port %lld of its nodes",
				(long long)port);
		}
	}
}

static void agent_unpinned(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	for (struct au_container at = { 0 }; is_agent(p) && au_next_container(p, &at);) {
		struct rf_str image = rf_json_str_at(at.c, "image"), rest = image, head;
		struct au_what w = { .pod = p };

		while (rf_str_contains(rest, RF_LIT("/")))
			rf_str_cut(&rest, '/', &head);
		if (rf_str_contains(rest, RF_LIT("@sha256:")) ||
		    (rf_str_contains(rest, RF_LIT(":")) && !rf_str_ends(rest, RF_LIT(":latest"))))
			continue;
		w.field = au_container_field(x, p, &at, "image");
		au_tell(x, c, &w, "image %.*s of an agent of the cards names no version",
			RF_STR(image));
	}
}

/* --- runtime class ---------------------------------------------------------------------------- */

static bool is_gpu_runtime(struct rf_str name)
{
	return au_has(name, "nvidia") || au_has(name, "gpu");
}

static void stray_runtime(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		struct rf_str class = rf_json_str_at(p->spec, "runtimeClassName");
		struct au_what w = { .pod = p,
				     .field = au_text(x, "%s.runtimeClassName", p->prefix) };

		if (is_tenants(p) && !p->gpu && is_gpu_runtime(class))
			au_tell(x, c, &w,
				"asks for no card and runs under \"%.*s\", which shows it cards "
				"all the same",
				RF_STR(class));
	}
}

static void no_runtime(struct rf_audit *x, const struct rf_audit_check *c)
{
	bool offered = false;

	AU_EACH(x, AU_RUNTIMECLASS, r)
	offered |= is_gpu_runtime(r->name);
	AU_PODS(x, p)
	{
		struct au_what w = { .pod = p,
				     .field = au_text(x, "%s.runtimeClassName", p->prefix) };

		if (offered && is_tenants(p) && p->gpu &&
		    au_has(rf_str(p->gpu_name), "nvidia.com/") &&
		    rf_json_str_at(p->spec, "runtimeClassName").n == 0)
			au_tell(x, c, &w,
				"has a card without naming a RuntimeClass: the cards' runtime is "
				"everybody's default");
	}
}

/* --- DRA ------------------------------------------------------------------------------------ */

static bool wants_admin(const struct rf_json *requests)
{
	for (size_t i = 0; i < rf_json_len(requests); i++)
		if (rf_json_is_true(rf_json_at(rf_json_item(requests, i), "adminAccess")) ||
		    rf_json_is_true(
			    rf_json_at(rf_json_item(requests, i), "exactly", "adminAccess")))
			return true;
	return false;
}

static void admin_access(struct rf_audit *x, const struct rf_audit_check *c)
{
	static const struct {
		enum au_kind k;
		bool template;
	} PLACES[] = { { AU_CLAIM, false }, { AU_CLAIMTEMPLATE, true } };

	for (size_t i = 0; i < RF_COUNT(PLACES); i++)
		AU_EACH(x, PLACES[i].k, o)
		{
			struct au_what w = { .obj = o,
					     .field = PLACES[i].template
							      ? RF_LIT("spec.spec.devices.requests")
							      : RF_LIT("spec.devices.requests") };
			const struct rf_json *spec = PLACES[i].template
							     ? rf_json_at(o->o, "spec", "spec")
							     : rf_json_at(o->o, "spec");

			if (!au_ns_of(x, o->ns)->platform &&
			    wants_admin(rf_json_at(spec, "devices", "requests")))
				au_tell(x, c, &w,
					"asks for adminAccess: devices that others hold, without "
					"waiting for them");
		}
	for (size_t i = 0; i < x->ns.n; i++) {
		const struct au_ns *n = x->ns.at[i];
		struct au_what w = {
			.obj = n->obj,
			.field = RF_LIT("metadata.labels[resource.kubernetes.io/admin-access]"),
			.has_severity = true,
			.severity = RF_AUDIT_HIGH
		};

		if (!n->platform &&
		    rf_str_is(rf_json_str(rf_json_get(
				      n->labels, RF_LIT("resource.kubernetes.io/admin-access"))),
			      "true"))
			au_tell(x, c, &w,
				"a tenant's namespace may ask for adminAccess to devices that "
				"others hold");
	}
}

/* --- the cards' health ------------------------------------------------------------------------ */

static struct rf_str driver_version(struct rf_audit *x, const struct au_obj *node)
{
	struct rf_str full = rf_kube_label(node->o, "nvidia.com/cuda.driver-version.full");
	struct rf_str major = rf_kube_label(node->o, "nvidia.com/cuda.driver.major");

	if (full.n > 0 || major.n == 0)
		return full;
	return au_text(x, "%.*s.%.*s.%.*s", RF_STR(major),
		       RF_STR(rf_kube_label(node->o, "nvidia.com/cuda.driver.minor")),
		       RF_STR(rf_kube_label(node->o, "nvidia.com/cuda.driver.rev")));
}

static void driver_versions(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct rf_str first = RF_STR_EMPTY, other = RF_STR_EMPTY, at = RF_STR_EMPTY;
	struct au_what w = { .kind = RF_LIT("Node") };

	for (size_t i = 0; i < x->nodes.n; i++) {
		struct rf_str v = driver_version(x, x->nodes.at[i].obj);

		if (v.n == 0)
			continue;
		if (first.n == 0)
			first = v;
		else if (!rf_str_eq(v, first) && other.n == 0) {
			other = v;
			at = x->nodes.at[i].name;
		}
	}
	w.field = RF_LIT("metadata.labels[nvidia.com/cuda.driver-version.full]");
	if (other.n > 0)
		au_tell(x, c, &w, "GPU nodes run different drivers: %.*s, and %.*s on %.*s",
			RF_STR(first), RF_STR(other), RF_STR(at));
}

static void sick_conditions(struct rf_audit *x, const struct rf_audit_check *c,
			    const struct au_node *n)
{
	static const char *const WORDS[] = { "xid", "gpu", "nvlink", "nvidia", "ecc" };
	const struct rf_json *all = rf_json_at(n->obj->o, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(all); i++) {
		const struct rf_json *cond = rf_json_item(all, i);
		struct rf_str type = rf_json_str_at(cond, "type"),
			      status = rf_json_str_at(cond, "status");
		struct au_what w = { .obj = n->obj,
				     .field = au_text(x, "status.conditions[%zu]", i) };
		bool good = rf_str_is(type, "Ready") || au_has(type, "healthy") ||
			    au_has(type, "ready");
		bool about = rf_str_is(type, "Ready");

		if (au_has(type, "unhealthy") || au_has(type, "notready"))
			good = false;
		for (size_t j = 0; j < RF_COUNT(WORDS); j++)
			about |= au_has(type, WORDS[j]);
		if (!about || rf_str_is(status, good ? "True" : "False"))
			continue;
		au_tell(x, c, &w, "condition %.*s is %.*s%s: %.*s", RF_STR(type), RF_STR(status),
			rf_json_is_true(rf_json_at(n->obj->o, "spec", "unschedulable"))
				? ", and it is cordoned"
				: ", and pods are still placed there",
			RF_STR(rf_json_str_at(cond, "message")));
	}
}

static void sick(struct rf_audit *x, const struct rf_audit_check *c)
{
	for (size_t i = 0; i < x->nodes.n; i++)
		if (x->nodes.at[i].gpu)
			sick_conditions(x, c, &x->nodes.at[i]);
	AU_EACH(x, AU_SLICE, o)
	{
		const struct rf_json *devices = rf_json_at(o->o, "spec", "devices");

		for (size_t i = 0; i < rf_json_len(devices); i++) {
			const struct rf_json *d = rf_json_item(devices, i),
					     *taints = rf_json_at(d, "taints");
			struct au_what w = { .obj = o,
					     .field = au_text(x, "spec.devices[%zu].taints", i) };

			if (rf_json_len(taints) > 0)
				au_tell(x, c, &w, "device %.*s is tainted: %.*s",
					RF_STR(rf_json_str_at(d, "name")),
					RF_STR(rf_json_str_at(rf_json_item(taints, 0), "key")));
		}
	}
}

#define ROW(number, level, fn, kinds)                                                              \
	.id = "RF-NODE-" number, .layer = RF_AUDIT_NODE, .severity = level, .run = fn,             \
	.needs = kinds

const struct rf_audit_check au_node_checks[] = {
	{ ROW("01", RF_AUDIT_CRITICAL, privileged, "Pod"),
	  .title = "Privileged container of a tenant",
	  .why = "It sees every card of its node, whatever it asked for, and is root on the "
		 "machine.",
	  .fix = "Remove securityContext.privileged; cards need resources.limits only.",
	  .reference = PSS_DOC },
	{ ROW("02", RF_AUDIT_CRITICAL, dangerous_path, "Pod"),
	  .title = "Node's devices, driver or sockets mounted",
	  .why = "Through /dev, the kubelet's or the runtime's folders a tenant takes any card and "
		 "the node itself.",
	  .fix = "Remove the hostPath volume; ask for cards by resources.limits.",
	  .reference = PSS_DOC },
	{ ROW("03", RF_AUDIT_HIGH, other_path, "Pod"), .title = "Folder of the node mounted",
	  .why = "What lies on the node is shared with whoever runs there next.",
	  .fix = "Use a PersistentVolumeClaim, emptyDir or a CSI volume.", .reference = PSS_DOC },
	{ ROW("04", RF_AUDIT_HIGH, host_namespaces, "Pod"),
	  .title = "Namespaces of the node shared",
	  .why = "hostIPC joins CUDA IPC and MPS of the neighbours, hostPID shows their processes, "
		 "hostNetwork goes past "
		 "network policies.",
	  .fix = "Remove hostPID, hostIPC and hostNetwork.", .reference = PSS_DOC },
	{ ROW("05", RF_AUDIT_HIGH, visible_devices, "Pod"),
	  .title = "Pod chooses cards by environment variable",
	  .why = "The NVIDIA runtime obeys these variables by default, without any request or "
		 "quota.",
	  .fix = "Remove the variable; set accept-nvidia-visible-devices-envvar-when-unprivileged "
		 "= false in the nodes' "
		 "/etc/nvidia-container-runtime/config.toml.",
	  .reference = "https://github.com/NVIDIA/k8s-device-plugin/issues/87" },
	{ ROW("06", RF_AUDIT_HIGH, software_sharing, "ConfigMap Pod"),
	  .title = "Cards shared in software by all who ask",
	  .why = "Time-slicing and MPS share memory faults and side channels; there is no cap on "
		 "memory and no wall between "
		 "tenants.",
	  .fix = "Use MIG for tenants who do not trust each other, or ringfence's shares inside a "
		 "trust domain; set "
		 "replicas: 1 where tenants meet.",
	  .reference = "https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus" },
	{ ROW("07", RF_AUDIT_LOW, agent_without_limits, "Pod DaemonSet"),
	  .title = "Device plugin without limits",
	  .why = "An agent that grows without bounds takes its node, and every card on it, down.",
	  .fix = "Set resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {memory: 256Mi}}.",
	  .reference = "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/"
		       "device-plugins/" },
	{ ROW("08", RF_AUDIT_MEDIUM, env_strategy, "Pod DaemonSet"),
	  .title = "Cards are handed out by environment variable",
	  .why = "What the plugin says by NVIDIA_VISIBLE_DEVICES any unprivileged pod can say, "
		 "too.",
	  .fix = "Set DEVICE_LIST_STRATEGY=cdi-cri (or volume-mounts) for the device plugin.",
	  .reference = "https://github.com/NVIDIA/k8s-device-plugin#configuration-option-details" },
	{ ROW("09", RF_AUDIT_LOW, no_runtime, "Pod RuntimeClass"),
	  .title = "GPU runtime is everybody's default",
	  .why = "If every container starts under the cards' runtime, an image with "
		 "NVIDIA_VISIBLE_DEVICES=all gets cards.",
	  .fix = "Name runtimeClassName: nvidia in GPU pods and make runc the nodes' default.",
	  .reference =
		  "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/cdi.html" },
	{ ROW("10", RF_AUDIT_HIGH, stray_runtime, "Pod"),
	  .title = "GPU runtime without a GPU request",
	  .why = "The runtime shows cards by the image's variables; no quota, no claim and no "
		 "scheduler knows of it.",
	  .fix = "Remove runtimeClassName, or ask for cards by resources.limits.",
	  .reference = "https://github.com/NVIDIA/gpu-operator/issues/700" },
	{ ROW("11", RF_AUDIT_HIGH, agent_misplaced, "Pod DaemonSet Namespace"),
	  .title = "Agent of the cards outside the platform's namespaces",
	  .why = "Who may write there owns a privileged agent on every GPU node.",
	  .fix = "Move it to gpu-operator, kube-system or ringfence-system.",
	  .reference = "docs/threat-model.md" },
	{ ROW("12", RF_AUDIT_MEDIUM, agent_ports, "Pod DaemonSet"),
	  .title = "Agent of the cards listens on the node",
	  .why = "Every pod and often the whole network reaches it, past network policies.",
	  .fix = "Remove hostPort and hostNetwork; put a Service and a NetworkPolicy before it.",
	  .reference = "docs/threat-model.md" },
	{ ROW("13", RF_AUDIT_LOW, agent_unpinned, "Pod DaemonSet"),
	  .title = "Agent of the cards without a fixed version",
	  .why = "A driver or plugin that changes by itself is a fault of every node at once.",
	  .fix = "Name a version or, better, a digest; roll out one node pool at a time.",
	  .reference = "https://kubernetes.io/docs/concepts/containers/images/" },
	{ ROW("14", RF_AUDIT_CRITICAL, admin_access, "ResourceClaim Namespace"),
	  .title = "Administrator's access to devices",
	  .why = "adminAccess is for monitoring: it gives devices that are in use by others.",
	  .fix = "Remove adminAccess and the label resource.kubernetes.io/admin-access.",
	  .reference = "https://kubernetes.io/docs/concepts/scheduling-eviction/"
		       "dynamic-resource-allocation/#admin-access" },
	{ ROW("15", RF_AUDIT_LOW, driver_versions, "Node"),
	  .title = "GPU nodes with different drivers",
	  .why = "What runs on one node fails on the next; a half-done upgrade is easily "
		 "forgotten.",
	  .fix = "Finish the upgrade pool by pool, or keep the pools apart by label and taint.",
	  .reference = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/"
		       "gpu-driver-upgrades.html" },
	{ ROW("16", RF_AUDIT_HIGH, sick, "Node"), .title = "GPU node or card is not well",
	  .why = "Pods placed there fail, again and again, and take their neighbours on the card "
		 "along.",
	  .fix = "kubectl cordon NODE && kubectl drain NODE --ignore-daemonsets; reset or replace "
		 "the card.",
	  .reference = "https://docs.nvidia.com/deploy/xid-errors/" },
	{ 0 },
};
