/* The world as the checks see it: whose namespaces, which pods ask for cards, which nodes have them. */
#include "audit/private.h"

#include "tenant/tenant.h"

/* --- names ---------------------------------------------------------------------------------- */

static const struct {
	const char *kind, *group; /* group NULL: any */
} KINDS[AU_KINDS] = {
	[AU_POD] = { "Pod", "" },
	[AU_NAMESPACE] = { "Namespace", "" },
	[AU_NODE] = { "Node", "" },
	[AU_QUOTA] = { "ResourceQuota", "" },
	[AU_LIMITRANGE] = { "LimitRange", "" },
	[AU_NETPOL] = { "NetworkPolicy", "networking.k8s.io" },
	[AU_ROLE] = { "Role", "rbac.authorization.k8s.io" },
	[AU_CLUSTERROLE] = { "ClusterRole", "rbac.authorization.k8s.io" },
	[AU_ROLEBINDING] = { "RoleBinding", "rbac.authorization.k8s.io" },
	[AU_CLUSTERROLEBINDING] = { "ClusterRoleBinding", "rbac.authorization.k8s.io" },
	[AU_SERVICEACCOUNT] = { "ServiceAccount", "" },
	[AU_PRIORITYCLASS] = { "PriorityClass", "scheduling.k8s.io" },
	[AU_CONFIGMAP] = { "ConfigMap", "" },
	[AU_SERVICE] = { "Service", "" },
	[AU_DAEMONSET] = { "DaemonSet", "apps" },
	[AU_DEPLOYMENT] = { "Deployment", "apps" },
	[AU_STATEFULSET] = { "StatefulSet", "apps" },
	[AU_REPLICASET] = { "ReplicaSet", "apps" },
	[AU_JOB] = { "Job", "batch" },
	[AU_CRONJOB] = { "CronJob", "batch" },
	[AU_RC] = { "ReplicationController", "" },
	[AU_VALIDATING] = { "ValidatingWebhookConfiguration", "admissionregistration.k8s.io" },
	[AU_MUTATING] = { "MutatingWebhookConfiguration", "admissionregistration.k8s.io" },
	[AU_VAP] = { "ValidatingAdmissionPolicy", "admissionregistration.k8s.io" },
	[AU_VAPBINDING] = { "ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io" },
	[AU_RUNTIMECLASS] = { "RuntimeClass", "node.k8s.io" },
	[AU_CLAIM] = { "ResourceClaim", "resource.k8s.io" },
	[AU_CLAIMTEMPLATE] = { "ResourceClaimTemplate", "resource.k8s.io" },
	[AU_SLICE] = { "ResourceSlice", "resource.k8s.io" },
	[AU_DEVICECLASS] = { "DeviceClass", "resource.k8s.io" },
	[AU_TENANT] = { "Tenant", "ringfence.io" },
	[AU_QUEUE] = { "Queue", "ringfence.io" },
	[AU_KUEUE] = { "ClusterQueue", "kueue.x-k8s.io" },
	[AU_VOLCANO] = { "Queue", "scheduling.volcano.sh" },
	[AU_KAI] = { "Queue", "scheduling.run.ai" },
	[AU_CILIUM] = { "CiliumNetworkPolicy", "cilium.io" },
	[AU_APISERVICE] = { "APIService", "apiregistration.k8s.io" },
	[AU_TEMPLATE] = { "ConstraintTemplate", "templates.gatekeeper.sh" },
	[AU_CLUSTERPOLICY] = { "ClusterPolicy", "nvidia.com" },
};

struct rf_str au_group(struct rf_str api_version)
{
	struct rf_str group, rest = api_version;

	return rf_str_cut(&rest, '/', &group) ? group : RF_STR_EMPTY;
}

enum au_kind au_kind_of(struct rf_str kind, struct rf_str group)
{
	if (rf_str_is(group, "constraints.gatekeeper.sh"))
		return AU_CONSTRAINT;
	for (size_t i = 0; i < AU_KINDS; i++)
		if (KINDS[i].kind != NULL && rf_str_is(kind, KINDS[i].kind) &&
		    rf_str_is(group, KINDS[i].group))
			return (enum au_kind)i;
	return AU_OTHER;
}

bool au_has(struct rf_str s, const char *part)
{
	struct rf_str p = rf_str(part);

	for (size_t i = 0; i + p.n <= s.n; i++)
		if (rf_str_ieq(rf_str_n(s.p + i, p.n), p))
			return true;
	return false;
}

/* Extended resources by which cards, or parts of them, are asked for. */
bool au_is_gpu_name(struct rf_str r)
{
	struct rf_str domain, rest = r;

	if (!rf_str_cut(&rest, '/', &domain) || rf_str_ends(domain, RF_LIT("kubernetes.io")))
		return false;
	return au_has(r, "gpu") || au_has(r, "/mig-") || au_has(r, "gaudi") ||
	       au_has(r, "habana.ai/") || au_has(rest, "npu") || au_has(rest, "neuron") ||
	       au_has(rest, "accelerator");
}

/* Namespaces of the platform itself: who may write there is trusted. */
bool au_is_platform_ns(struct rf_str ns)
{
	static const char *const NAMES[] = { "ringfence-system",
					     "gatekeeper-system",
					     "gpu-operator",
					     "nvidia-gpu-operator",
					     "nvidia-device-plugin",
					     "node-feature-discovery",
					     "kueue-system",
					     "volcano-system",
					     "kai-scheduler",
					     "cert-manager",
					     "monitoring",
					     "calico-system",
					     "tigera-operator",
					     "cilium",
					     "istio-system",
					     "metallb-system",
					     "ingress-nginx",
					     "local-path-storage",
					     "kyverno",
					     "capsule-system",
					     "rook-ceph" };

	if (rf_str_starts(ns, RF_LIT("kube-")) || rf_str_starts(ns, RF_LIT("openshift-")))
		return true;
	for (size_t i = 0; i < RF_COUNT(NAMES); i++)
		if (rf_str_is(ns, NAMES[i]))
			return true;
	return false;
}

/* --- tenants and namespaces ----------------------------------------------------------------- */

static struct au_tenant *tenant_of(struct rf_audit *x, struct rf_str name)
{
	struct au_tenant *t = rf_map_get(&x->tenant_by_name, name);

	if (t != NULL)
		return t;
	t = rf_arena_new(&x->work, struct au_tenant);
	t->name = name;
	rf_map_set(&x->tenant_by_name, name, t);
	return t;
}

static struct rf_str tenant_label(const struct rf_json *labels)
{
	static const char *const KEYS[] = { RF_TENANT_LABEL, "capsule.clastix.io/tenant",
					    "toolkit.fluxcd.io/tenant", "tenant" };

	for (size_t i = 0; i < RF_COUNT(KEYS); i++) {
		struct rf_str v = rf_json_str(rf_json_get(labels, rf_str(KEYS[i])));

		if (v.n > 0)
			return v;
	}
	return RF_STR_EMPTY;
}

static struct au_ns *add_ns(struct rf_audit *x, struct rf_str name, const struct au_obj *obj)
{
	struct au_ns *n = rf_arena_new(&x->work, struct au_ns);
	struct rf_str label;

	n->name = name;
	n->obj = obj;
	n->labels = obj ? rf_json_at(obj->o, "metadata", "labels") : NULL;
	n->platform = au_is_platform_ns(name);
	label = tenant_label(n->labels);
	n->labelled = label.n > 0;
	x->tenants_known |= n->labelled;
	/* Where nobody says whose it is, a namespace is a tenant of its own; no tenant's name has a colon. */
	n->tenant = tenant_of(
		x, n->labelled ? label : rf_arena_printf(&x->work, "namespace:%.*s", RF_STR(name)));
	rf_map_set(&x->ns_by_name, name, n);
	rf_vec_push(&x->ns, n);
	return n;
}

struct au_ns *au_ns_of(struct rf_audit *x, struct rf_str name)
{
	struct au_ns *n = rf_map_get(&x->ns_by_name, name);

	return n != NULL ? n : add_ns(x, name, NULL);
}

static void add_tenants(struct rf_audit *x)
{
	AU_EACH(x, AU_TENANT, o)
	{
		struct au_tenant *t = tenant_of(x, o->name);
		const struct rf_json *spec = rf_json_at(o->o, "spec");

		t->isolation = rf_json_str_at(spec, "isolation");
		if (t->isolation.n == 0)
			t->isolation = RF_LIT("gpu");
		t->domain = rf_json_str_at(spec, "trustDomain");
		if (t->domain.n == 0)
			t->domain = o->name;
		x->tenants_known = true;
	}
}

/* --- by name -------------------------------------------------------------------------------- */

static struct rf_str index_key(struct rf_arena *a, enum au_kind k, struct rf_str ns,
			       struct rf_str name)
{
	return rf_arena_printf(a, "%d/%.*s/%.*s", k, RF_STR(ns), RF_STR(name));
}

static void add_index(struct rf_audit *x)
{
	for (size_t i = 0; i < x->all.n; i++) {
		struct au_obj *o = x->all.at[i];

		if (o->k != AU_OTHER && o->k != AU_POD)
			rf_map_set(&x->by_name, index_key(&x->work, o->k, o->ns, o->name), o);
	}
}

const struct au_obj *au_find(const struct rf_audit *x, enum au_kind k, struct rf_str ns,
			     struct rf_str name)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	return rf_map_get(&x->by_name, index_key(&a, k, ns, name));
}

/* --- pods ----------------------------------------------------------------------------------- */

static const char *const LISTS[] = { "containers", "initContainers", "ephemeralContainers" };

bool au_next_container(const struct au_pod *p, struct au_container *at)
{
	size_t list = 0;

	if (at->list != NULL) {
		while (LISTS[list] != at->list)
			list++;
		at->i++;
	}
	for (; list < RF_COUNT(LISTS); list++, at->i = 0) {
		at->list = LISTS[list];
		at->c = rf_json_item(rf_json_at(p->spec, LISTS[list]), at->i);
		if (at->c != NULL)
			return true;
	}
	return false;
}

struct rf_str au_container_field(struct rf_audit *x, const struct au_pod *p,
				 const struct au_container *c, const char *rest)
{
	return au_text(x, "%s.%s[%zu].%s", p->prefix, c->list, c->i, rest);
}

static const char *gpu_in(struct rf_audit *x, const struct rf_json *amounts)
{
	for (size_t i = 0; rf_json_is(amounts, RF_JSON_OBJECT) && i < amounts->n; i++) {
		const struct rf_json *v = amounts->members[i].value;

		if (au_is_gpu_name(amounts->members[i].key) && !rf_str_is(rf_json_str(v), "0") &&
		    rf_json_int(v, 1) != 0)
			return rf_arena_cstr(&x->work, amounts->members[i].key);
	}
	return NULL;
}

static bool class_is_gpu(struct rf_str class)
{
	return au_has(class, "gpu") || au_has(class, "mig") || au_has(class, "nvidia") ||
	       au_has(class, "ringfence");
}

static bool claims_gpu(const struct rf_audit *x, const struct rf_json *entry, struct rf_str ns)
{
	struct rf_str name = rf_json_str_at(entry, "resourceClaimName");
	struct rf_str template = rf_json_str_at(entry, "resourceClaimTemplateName");
	const struct au_obj *o = name.n > 0 ? au_find(x, AU_CLAIM, ns, name)
					    : au_find(x, AU_CLAIMTEMPLATE, ns, template);
	const struct rf_json *requests;

	if (o == NULL)
		return true; /* what cannot be looked up is taken for a card */
	requests = o->k == AU_CLAIM ? rf_json_at(o->o, "spec", "devices", "requests")
				    : rf_json_at(o->o, "spec", "spec", "devices", "requests");
	for (size_t i = 0; i < rf_json_len(requests); i++) {
		const struct rf_json *r = rf_json_item(requests, i);
		const struct rf_json *first = rf_json_at(r, "firstAvailable");

		if (class_is_gpu(rf_json_str_at(r, "deviceClassName")) ||
		    class_is_gpu(rf_json_str_at(r, "exactly", "deviceClassName")))
			return true;
		for (size_t j = 0; j < rf_json_len(first); j++)
			if (class_is_gpu(rf_json_str_at(rf_json_item(first, j), "deviceClassName")))
				return true;
	}
	return false;
}

static void find_gpus(struct rf_audit *x, struct au_pod *p)
{
	const struct rf_json *claims = rf_json_at(p->spec, "resourceClaims");
	struct au_container c = { 0 };

	while (p->gpu_name == NULL && au_next_container(p, &c)) {
		p->gpu_name = gpu_in(x, rf_json_at(c.c, "resources", "limits"));
		if (p->gpu_name == NULL)
			p->gpu_name = gpu_in(x, rf_json_at(c.c, "resources", "requests"));
	}
	for (size_t i = 0; p->gpu_name == NULL && i < rf_json_len(claims); i++)
		if (claims_gpu(x, rf_json_item(claims, i), p->ns->name))
			p->gpu_name = "";
	p->gpu = p->gpu_name != NULL;
}

static const struct rf_json *controller_of(const struct rf_json *meta)
{
	const struct rf_json *refs = rf_json_at(meta, "ownerReferences");

	for (size_t i = 0; i < rf_json_len(refs); i++)
		if (rf_json_is_true(rf_json_at(rf_json_item(refs, i), "controller")))
			return rf_json_item(refs, i);
	return NULL;
}

static struct rf_str owner_key(struct rf_audit *x, struct rf_str kind, struct rf_str ns,
			       struct rf_str name)
{
	return rf_arena_printf(&x->work, "%.*s/%.*s/%.*s", RF_STR(kind), RF_STR(ns), RF_STR(name));
}

static void add_pod(struct rf_audit *x, const struct au_obj *o, const struct rf_json *meta,
		    const struct rf_json *spec, const char *prefix)
{
	struct au_pod p = {
		.obj = o, .meta = meta, .spec = spec, .prefix = prefix, .ns = au_ns_of(x, o->ns)
	};
	const struct rf_json *owner = controller_of(meta);

	if (owner != NULL) {
		p.owner_kind = rf_json_str_at(owner, "kind");
		p.owner = rf_json_str_at(owner, "name");
	}
	p.template = o->k != AU_POD;
	p.daemon = rf_str_is(p.owner_kind, "DaemonSet") || o->k == AU_DAEMONSET;
	p.node = p.template ? RF_STR_EMPTY : rf_json_str_at(spec, "nodeName");
	find_gpus(x, &p);
	if (p.gpu) {
		p.ns->gpu_pods++;
		p.ns->gpu_name =
			p.gpu_name[0] || p.ns->gpu_name == NULL ? p.gpu_name : p.ns->gpu_name;
	}
	rf_vec_push(&x->pods, p);
}

static bool has_ended(const struct rf_json *pod)
{
	struct rf_str phase = rf_json_str_at(pod, "status", "phase");

	return rf_str_is(phase, "Succeeded") || rf_str_is(phase, "Failed");
}

static const struct {
	enum au_kind k;
	const char *prefix;
} WORKLOADS[] = {
	/* owners before what they own: a CronJob's Job and a Deployment's ReplicaSet speak for them */
	{ AU_REPLICASET, "spec.template.spec" },
	{ AU_JOB, "spec.template.spec" },
	{ AU_DEPLOYMENT, "spec.template.spec" },
	{ AU_STATEFULSET, "spec.template.spec" },
	{ AU_DAEMONSET, "spec.template.spec" },
	{ AU_RC, "spec.template.spec" },
	{ AU_CRONJOB, "spec.jobTemplate.spec.template.spec" },
};

/* The template speaks where no pod of it does. */
static void add_workload(struct rf_audit *x, const struct au_obj *o, const char *prefix,
			 struct rf_map *spoken)
{
	const struct rf_json *template =
		o->k == AU_CRONJOB ? rf_json_at(o->o, "spec", "jobTemplate", "spec", "template")
				   : rf_json_at(o->o, "spec", "template");
	const struct rf_json *owner = controller_of(rf_json_at(o->o, "metadata"));

	/* an old ReplicaSet or an ended Job of somebody who has a template himself */
	if (owner == NULL && rf_map_get(spoken, owner_key(x, o->kind, o->ns, o->name)) == NULL)
		add_pod(x, o, rf_json_at(template, "metadata"), rf_json_at(template, "spec"),
			prefix);
}

static void add_pods(struct rf_audit *x)
{
	rf_auto(map) spoken = RF_MAP_INIT; /* workloads that have pods */

	AU_EACH(x, AU_POD, o)
	{
		const struct rf_json *owner = controller_of(rf_json_at(o->o, "metadata"));

		if (has_ended(o->o))
			continue;
		if (owner != NULL)
			rf_map_set(&spoken,
				   owner_key(x, rf_json_str_at(owner, "kind"), o->ns,
					     rf_json_str_at(owner, "name")),
				   x);
		add_pod(x, o, rf_json_at(o->o, "metadata"), rf_json_at(o->o, "spec"), "spec");
	}
	for (size_t i = 0; i < 2; i++) /* ReplicaSets and Jobs pass it on to their owners */
		AU_EACH(x, WORKLOADS[i].k, o)
		{
			const struct rf_json *owner = controller_of(rf_json_at(o->o, "metadata"));

			if (owner != NULL &&
			    rf_map_get(&spoken, owner_key(x, o->kind, o->ns, o->name)) != NULL)
				rf_map_set(&spoken,
					   owner_key(x, rf_json_str_at(owner, "kind"), o->ns,
						     rf_json_str_at(owner, "name")),
					   x);
		}
	for (size_t i = 0; i < RF_COUNT(WORKLOADS); i++)
		AU_EACH(x, WORKLOADS[i].k, o)
	add_workload(x, o, WORKLOADS[i].prefix, &spoken);
}

/* --- nodes ---------------------------------------------------------------------------------- */

static bool slice_is_gpu(const struct rf_json *slice)
{
	struct rf_str driver = rf_json_str_at(slice, "spec", "driver");

	return class_is_gpu(driver);
}

static void add_nodes(struct rf_audit *x)
{
	rf_auto(map) sliced = RF_MAP_INIT;
	size_t gpus = 0;

	AU_EACH(x, AU_SLICE, o)
	if (slice_is_gpu(o->o) && rf_json_str_at(o->o, "spec", "nodeName").n > 0)
		rf_map_set(&sliced, rf_json_str_at(o->o, "spec", "nodeName"), x);
	AU_EACH(x, AU_NODE, o)
	{
		struct au_node n = { .obj = o, .name = o->name };

		n.gpu = gpu_in(x, rf_json_at(o->o, "status", "capacity")) != NULL ||
			rf_str_is(rf_kube_label(o->o, "nvidia.com/gpu.present"), "true") ||
			rf_map_get(&sliced, o->name) != NULL;
		gpus += n.gpu;
		rf_vec_push(&x->nodes, n);
	}
	for (size_t i = 0; i < x->nodes.n; i++)
		rf_map_set(&x->node_by_name, x->nodes.at[i].name, &x->nodes.at[i]);
	x->all_gpu_nodes = gpus > 0 && gpus == x->nodes.n;
}

static void count_tenants(struct rf_audit *x)
{
	rf_auto(map) tenants = RF_MAP_INIT;

	for (size_t i = 0; i < x->ns.n; i++)
		if (x->ns.at[i]->gpu_pods > 0 && !x->ns.at[i]->platform)
			rf_map_set(&tenants, x->ns.at[i]->tenant->name, x);
	x->gpu_tenants = tenants.n;
}

void au_world(struct rf_audit *x)
{
	for (size_t i = x->of[AU_NAMESPACE].n;
	     i-- > 0;) { /* of two manifests the later one counts */
		const struct au_obj *o = x->of[AU_NAMESPACE].at[i];

		if (rf_map_get(&x->ns_by_name, o->name) == NULL)
			add_ns(x, o->name, o);
	}
	add_tenants(x);
	add_index(x);
	add_pods(x);
	add_nodes(x);
	count_tenants(x);
}

void au_world_done(struct rf_audit *x)
{
	rf_map_done(&x->ns_by_name);
	rf_map_done(&x->tenant_by_name);
	rf_map_done(&x->node_by_name);
	rf_map_done(&x->by_name);
	rf_vec_done(&x->ns);
	rf_vec_done(&x->pods);
	rf_vec_done(&x->nodes);
	rf_arena_done(&x->work);
}
