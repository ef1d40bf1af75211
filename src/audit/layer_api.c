/* Layer 1: namespaces as walls: quotas, limits, networks, pod security, tokens. */
#include "audit/private.h"

#define QUOTA_DOC                                                                                  \
	"https://kubernetes.io/docs/concepts/policy/resource-quotas/"                              \
	"#resource-quota-for-extended-resources"
#define PSS_DOC "https://kubernetes.io/docs/concepts/security/pod-security-standards/"

/* Namespaces of tenants whose pods ask for cards. */
#define GPU_NAMESPACES(x, n)                                                                       \
	for (size_t n##_i_ = 0; n##_i_ < (x)->ns.n; n##_i_++)                                      \
		for (const struct au_ns *n = (x)->ns.at[n##_i_]; n != NULL; n = NULL)              \
			if (n->gpu_pods > 0 && !n->platform)

static struct au_what at_ns(const struct au_ns *n)
{
	return (struct au_what){ .obj = n->obj, .kind = RF_LIT("Namespace"), .name = n->name };
}

static const char *gpu_name(const struct au_ns *n)
{
	return n->gpu_name != NULL && n->gpu_name[0] != '\0' ? n->gpu_name : "nvidia.com/gpu";
}

/* --- quota ---------------------------------------------------------------------------------- */

static bool is_counted(struct rf_str key)
{
	if (rf_str_starts(key, RF_LIT("requests.")))
		return au_is_gpu_name(rf_str_skip(key, 9));
	/* DRA: <class>.deviceclass.resource.k8s.io/devices */
	return rf_str_ends(key, RF_LIT(".deviceclass.resource.k8s.io/devices")) ||
	       rf_str_is(key, "count/resourceclaims.resource.k8s.io");
}

/* A name of a card that no quota controller ever counts: without "requests." before it. */
static bool is_dead(struct rf_str key)
{
	if (rf_str_starts(key, RF_LIT("limits.")))
		return au_is_gpu_name(rf_str_skip(key, 7));
	return !is_counted(key) && !rf_str_starts(key, RF_LIT("requests.")) &&
	       !rf_str_starts(key, RF_LIT("count/")) && au_is_gpu_name(key);
}

static bool quota_has(const struct rf_audit *x, struct rf_str ns, bool (*fn)(struct rf_str key))
{
	AU_EACH(x, AU_QUOTA, q)
	{
		const struct rf_json *hard = rf_json_at(q->o, "spec", "hard");

		if (!rf_str_eq(q->ns, ns))
			continue;
		for (uint32_t i = 0; rf_json_is(hard, RF_JSON_OBJECT) && i < hard->n; i++)
			if (fn(hard->members[i].key))
				return true;
	}
	return false;
}

static void no_gpu_quota(struct rf_audit *x, const struct rf_audit_check *c)
{
	GPU_NAMESPACES(x, n)
	{
		struct au_what w = at_ns(n);

		if (quota_has(x, n->name, is_counted))
			continue;
		w.fix = au_text(x, "kubectl -n %.*s create quota gpu --hard=requests.%s=%s,pods=50",
				RF_STR(n->name), gpu_name(n),
				rf_str_ends(rf_str(gpu_name(n)), RF_LIT("memory")) ? "40Gi" : "4");
		au_tell(x, c, &w, "no ResourceQuota bounds %s; pods that ask for it: %zu",
			n->gpu_name[0] ? n->gpu_name : "cards by claim", n->gpu_pods);
	}
}

static void dead_quota(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_EACH(x, AU_QUOTA, q)
	{
		const struct rf_json *hard = rf_json_at(q->o, "spec", "hard");

		for (uint32_t i = 0; rf_json_is(hard, RF_JSON_OBJECT) && i < hard->n; i++) {
			struct rf_str key = hard->members[i].key, bare = key;
			struct au_what w = { .obj = q };

			if (!is_dead(key))
				continue;
			if (rf_str_starts(bare, RF_LIT("limits.")))
				bare = rf_str_skip(bare, 7);
			w.field = au_text(x, "spec.hard[%.*s]", RF_STR(key));
			w.fix = au_text(x,
					"Rename it to requests.%.*s: extended resources are "
					"counted by request only.",
					RF_STR(bare));
			au_tell(x, c, &w, "\"%.*s\" is a name that Kubernetes never counts",
				RF_STR(key));
		}
	}
}

static bool is_basic(struct rf_str key)
{
	return rf_str_is(key, "pods") || rf_str_is(key, "count/pods");
}
static bool is_memory(struct rf_str key)
{
	return rf_str_is(key, "memory") || rf_str_is(key, "requests.memory") ||
	       rf_str_is(key, "limits.memory");
}
static bool is_cpu(struct rf_str key)
{
	return rf_str_is(key, "cpu") || rf_str_is(key, "requests.cpu") ||
	       rf_str_is(key, "limits.cpu");
}

static void no_basic_quota(struct rf_audit *x, const struct rf_audit_check *c)
{
	GPU_NAMESPACES(x, n)
	{
		struct au_what w = at_ns(n);
		bool pods = quota_has(x, n->name, is_basic), cpu = quota_has(x, n->name, is_cpu);
		bool memory = quota_has(x, n->name, is_memory);

		if (pods && cpu && memory)
			continue;
		w.fix = au_text(x,
				"kubectl -n %.*s create quota basics "
				"--hard=pods=50,requests.cpu=64,requests.memory=256Gi",
				RF_STR(n->name));
		au_tell(x, c, &w, "no ResourceQuota bounds:%s%s%s", pods ? "" : " pods",
			cpu ? "" : " cpu", memory ? "" : " memory");
	}
}

/* --- limits and networks -------------------------------------------------------------------- */

static void no_limit_range(struct rf_audit *x, const struct rf_audit_check *c)
{
	GPU_NAMESPACES(x, n)
	{
		struct au_what w = at_ns(n);
		bool found = false;

		AU_EACH(x, AU_LIMITRANGE, l)
		found |= rf_str_eq(l->ns, n->name);
		if (!found)
			au_tell(x, c, &w,
				"no LimitRange gives containers default and largest cpu and "
				"memory");
	}
}

static bool names_type(const struct rf_json *policy, const char *type, bool otherwise)
{
	const struct rf_json *types = rf_json_at(policy, "spec", "policyTypes");

	for (size_t i = 0; i < rf_json_len(types); i++)
		if (rf_str_is(rf_json_str(rf_json_item(types, i)), type))
			return true;
	return rf_json_len(types) == 0 && otherwise;
}

/* A rule without peers lets everybody through. */
static bool lets_all(const struct rf_json *rules, const char *peers)
{
	for (size_t i = 0; i < rf_json_len(rules); i++)
		if (rf_json_len(rf_json_get(rf_json_item(rules, i), rf_str(peers))) == 0 &&
		    rf_json_len(rf_json_at(rf_json_item(rules, i), "ports")) == 0)
			return true;
	return false;
}

static bool denies(const struct rf_json *p, bool egress)
{
	const struct rf_json *rules = rf_json_at(p, "spec", egress ? "egress" : "ingress");

	if (rf_json_len(rf_json_at(p, "spec", "podSelector", "matchLabels")) > 0 ||
	    rf_json_len(rf_json_at(p, "spec", "podSelector", "matchExpressions")) > 0)
		return false;
	if (!names_type(p, egress ? "Egress" : "Ingress", !egress || rules != NULL))
		return false;
	return !lets_all(rules, egress ? "to" : "from");
}

static bool is_denied(const struct rf_audit *x, struct rf_str ns, bool egress)
{
	AU_EACH(x, AU_NETPOL, p)
	if (rf_str_eq(p->ns, ns) && denies(p->o, egress))
		return true;
	AU_EACH(x, AU_CILIUM, p)
	if (rf_str_eq(p->ns, ns) &&
	    rf_json_len(rf_json_at(p->o, "spec", "endpointSelector")) == 0 &&
	    rf_json_at(p->o, "spec", egress ? "egress" : "ingress") != NULL)
		return true;
	return false;
}

static void tell_network(struct rf_audit *x, const struct rf_audit_check *c, bool egress)
{
	GPU_NAMESPACES(x, n)
	{
		struct au_what w = at_ns(n);

		if (is_denied(x, n->name, egress))
			continue;
		w.fix = au_text(x,
				"kubectl apply -f - <<'END'\napiVersion: "
				"networking.k8s.io/v1\nkind: NetworkPolicy\n"
				"metadata: {name: default-deny-%s, namespace: %.*s}\nspec: "
				"{podSelector: {}, "
				"policyTypes: [%s]}\nEND",
				egress ? "egress" : "ingress", RF_STR(n->name),
				egress ? "Egress" : "Ingress");
		au_tell(x, c, &w,
			"no NetworkPolicy that selects every pod denies %s traffic by default",
			egress ? "outgoing" : "incoming");
	}
}

static void no_ingress_deny(struct rf_audit *x, const struct rf_audit_check *c)
{
	tell_network(x, c, false);
}

static void no_egress_deny(struct rf_audit *x, const struct rf_audit_check *c)
{
	tell_network(x, c, true);
}

static void open_service(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_EACH(x, AU_SERVICE, s)
	{
		struct rf_str type = rf_json_str_at(s->o, "spec", "type");
		const struct au_ns *n = au_ns_of(x, s->ns);
		struct au_what w = { .obj = s, .field = RF_LIT("spec.type") };

		if (n->platform || n->gpu_pods == 0)
			continue;
		if (rf_str_is(type, "NodePort") || rf_str_is(type, "LoadBalancer"))
			au_tell(x, c, &w,
				"a tenant's Service of type %.*s opens a port past the cluster's "
				"edge",
				RF_STR(type));
		w.field = RF_LIT("spec.externalIPs");
		if (rf_json_len(rf_json_at(s->o, "spec", "externalIPs")) > 0)
			au_tell(x, c, &w,
				"a tenant's Service takes addresses of its own choice "
				"(externalIPs)");
	}
}

/* --- pod security --------------------------------------------------------------------------- */

#define ENFORCE "pod-security.kubernetes.io/enforce"

static void weak_pod_security(struct rf_audit *x, const struct rf_audit_check *c)
{
	for (size_t i = 0; i < x->ns.n; i++) {
		const struct au_ns *n = x->ns.at[i];
		struct rf_str level = rf_json_str(rf_json_get(n->labels, RF_LIT(ENFORCE)));
		struct au_what w = at_ns(n);

		/* a level that nobody knows counts as restricted, as Kubernetes has it */
		if (n->platform || (n->gpu_pods == 0 && !n->labelled) ||
		    (level.n > 0 && !rf_str_is(level, "privileged")))
			continue;
		w.field = RF_LIT("metadata.labels[" ENFORCE "]");
		w.fix = au_text(x,
				"kubectl label --overwrite namespace %.*s " ENFORCE "=restricted",
				RF_STR(n->name));
		if (level.n == 0)
			au_tell(x, c, &w, "no level of pod security is enforced");
		else
			au_tell(x, c, &w,
				"the enforced level is \"%.*s\", which holds nothing back",
				RF_STR(level));
	}
}

static void baseline_only(struct rf_audit *x, const struct rf_audit_check *c)
{
	GPU_NAMESPACES(x, n)
	{
		struct au_what w = at_ns(n);

		if (!rf_str_is(rf_json_str(rf_json_get(n->labels, RF_LIT(ENFORCE))), "baseline"))
			continue;
		w.field = RF_LIT("metadata.labels[" ENFORCE "]");
		w.fix = au_text(x,
				"kubectl label --overwrite namespace %.*s " ENFORCE "=restricted",
				RF_STR(n->name));
		au_tell(x, c, &w,
			"the enforced level is baseline: containers may run as root and gain "
			"privileges");
	}
}

static void nobodys_namespace(struct rf_audit *x, const struct rf_audit_check *c)
{
	GPU_NAMESPACES(x, n)
	{
		struct au_what w = at_ns(n);

		if (!x->tenants_known || n->labelled)
			continue;
		w.field = RF_LIT("metadata.labels[ringfence.io/tenant]");
		w.fix = au_text(x,
				"Name it in a Tenant's spec.namespaces (ringfence tenant create "
				"%.*s), or move the pods to a "
				"tenant's namespace.",
				RF_STR(n->name));
		au_tell(x, c, &w,
			"the namespace belongs to no tenant; pods that ask for cards in it: %zu",
			n->gpu_pods);
	}
}

/* --- tokens --------------------------------------------------------------------------------- */

#define TOKEN_PATH "/var/run/secrets/kubernetes.io/serviceaccount"

/* A pod that is there shows what it was given. */
static bool has_token(const struct au_pod *p)
{
	for (struct au_container at = { 0 }; au_next_container(p, &at);) {
		const struct rf_json *mounts = rf_json_at(at.c, "volumeMounts");

		for (size_t i = 0; i < rf_json_len(mounts); i++)
			if (rf_str_starts(rf_json_str_at(rf_json_item(mounts, i), "mountPath"),
					  RF_LIT(TOKEN_PATH)))
				return true;
	}
	return false;
}

/* One that is not yet there gets what it, or its account, says. */
static bool gets_token(struct rf_audit *x, const struct au_pod *p)
{
	const struct rf_json *own = rf_json_at(p->spec, "automountServiceAccountToken");
	struct rf_str name = rf_json_str_at(p->spec, "serviceAccountName");
	const struct au_obj *sa;

	if (own != NULL)
		return rf_json_is_true(own);
	if (name.n == 0)
		name = RF_LIT("default");
	sa = au_find(x, AU_SERVICEACCOUNT, p->ns->name, name);
	if (sa == NULL || rf_json_at(sa->o, "automountServiceAccountToken") == NULL)
		return true;
	return rf_json_is_true(rf_json_at(sa->o, "automountServiceAccountToken"));
}

static void mounted_token(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		struct au_what w = {
			.pod = p, .field = au_text(x, "%s.automountServiceAccountToken", p->prefix)
		};

		bool live = x->cluster && !p->template;

		if (p->gpu && !p->ns->platform && (live ? has_token(p) : gets_token(x, p)))
			au_tell(x, c, &w,
				"a pod with cards gets a token for the API without asking for it");
	}
}

const struct rf_audit_check au_api_checks[] = {
	{ .id = "RF-API-01",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_HIGH,
	  .run = no_gpu_quota,
	  .needs = "Pod ResourceQuota",
	  .title = "GPU namespace without a quota on GPUs",
	  .why = "Without a quota one tenant can take every card of the cluster by asking often "
		 "enough.",
	  .fix = "kubectl -n NAMESPACE create quota gpu --hard=requests.nvidia.com/gpu=4",
	  .reference = QUOTA_DOC },
	{ .id = "RF-API-02",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_HIGH,
	  .run = dead_quota,
	  .needs = "ResourceQuota",
	  .title = "Quota on a name that is never counted",
	  .why = "Of extended resources Kubernetes counts requests only; a quota on limits.<name> "
		 "or on the bare name is "
		 "accepted and bounds nothing.",
	  .fix = "Rename the key to requests.<name>.",
	  .reference = QUOTA_DOC },
	{ .id = "RF-API-03",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_MEDIUM,
	  .run = no_limit_range,
	  .needs = "Pod LimitRange",
	  .title = "GPU namespace without a LimitRange",
	  .why = "A container without limits can starve the neighbours of its GPU node of cpu and "
		 "memory.",
	  .fix = "Add a LimitRange with default, defaultRequest and max for cpu and memory.",
	  .reference = "https://kubernetes.io/docs/concepts/policy/limit-range/" },
	{ .id = "RF-API-04",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_HIGH,
	  .run = no_ingress_deny,
	  .needs = "Pod NetworkPolicy",
	  .title = "GPU namespace open to traffic from every pod",
	  .why = "By default every pod can reach every other: notebooks, model servers and metrics "
		 "of the neighbours.",
	  .fix = "Add a NetworkPolicy that selects every pod and names policyTypes: [Ingress].",
	  .reference =
		  "https://kubernetes.io/docs/concepts/services-networking/network-policies/" },
	{ .id = "RF-API-05",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_MEDIUM,
	  .run = no_egress_deny,
	  .needs = "Pod NetworkPolicy",
	  .title = "GPU namespace that may send anywhere",
	  .why = "Model weights and data can be carried out to the internet or to a neighbour.",
	  .fix = "Add a NetworkPolicy that selects every pod and names policyTypes: [Egress]; "
		 "allow DNS and what is needed.",
	  .reference =
		  "https://kubernetes.io/docs/concepts/services-networking/network-policies/" },
	{ .id = "RF-API-06",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_HIGH,
	  .run = weak_pod_security,
	  .needs = "Namespace",
	  .title = "Tenant namespace without enforced pod security",
	  .why = "A privileged pod sees every card of its node, whatever it asked for.",
	  .fix = "kubectl label --overwrite namespace NAMESPACE " ENFORCE "=restricted",
	  .reference = PSS_DOC },
	{ .id = "RF-API-07",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_LOW,
	  .run = baseline_only,
	  .needs = "Namespace Pod",
	  .title = "GPU namespace at level baseline",
	  .why = "Containers that run as root have a shorter way out through the driver.",
	  .fix = "kubectl label --overwrite namespace NAMESPACE " ENFORCE "=restricted",
	  .reference = PSS_DOC },
	{ .id = "RF-API-08",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_MEDIUM,
	  .run = nobodys_namespace,
	  .needs = "Namespace Pod",
	  .title = "Cards used in a namespace of no tenant",
	  .why = "What belongs to nobody is charged to nobody and held to no tenant's isolation.",
	  .fix = "Give the namespace to a tenant.",
	  .reference = "docs/architecture.md" },
	{ .id = "RF-API-09",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_LOW,
	  .run = no_basic_quota,
	  .needs = "Pod ResourceQuota",
	  .title = "GPU namespace without a quota on pods, cpu and memory",
	  .why = "Pods without cards can fill the GPU nodes and keep the others' cards idle.",
	  .fix = "kubectl -n NAMESPACE create quota basics "
		 "--hard=pods=50,requests.cpu=64,requests.memory=256Gi",
	  .reference = "MTB-PL1-CC-FNS-1, MTB-PL1-CC-FNS-2" },
	{ .id = "RF-API-10",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_MEDIUM,
	  .run = mounted_token,
	  .needs = "Pod ServiceAccount",
	  .title = "GPU pod with a mounted token",
	  .why = "Whoever gets into the pod, by a model file or a notebook, speaks to the API as "
		 "its service account.",
	  .fix = "Set automountServiceAccountToken: false in the pod or its ServiceAccount.",
	  .reference = "https://kubernetes.io/docs/tasks/configure-pod-container/"
		       "configure-service-account/" },
	{ .id = "RF-API-11",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_MEDIUM,
	  .run = open_service,
	  .needs = "Pod Service",
	  .title = "GPU namespace opens ports past the cluster's edge",
	  .why = "A NodePort is open on every node, GPU nodes of others included, and network "
		 "policies often do not hold it.",
	  .fix = "Use type ClusterIP behind the platform's ingress; set services.nodeports: 0 and "
		 "services.loadbalancers: 0 "
		 "in the ResourceQuota.",
	  .reference = "MTB-PL1-BC-HI-1" },
	{ .id = "RF-API-12",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_HIGH,
	  .run = au_pod_security,
	  .needs = "Pod",
	  .title = "GPU pod below Pod Security level baseline",
	  .why = "Who can reach the machine can reach every card on it.",
	  .fix = "Remove what is named; enforce the level on the namespace.",
	  .reference = PSS_DOC },
	{ 0 },
};
