/* Layer 1, who may do what: bindings of subjects that are not the platform's. */
#include "audit/private.h"

#define RBAC_DOC "https://kubernetes.io/docs/concepts/security/rbac-good-practices/"

/* One binding with the rules it gives. */
struct grant {
	const struct au_obj *binding;
	const struct rf_json *rules;
	struct rf_str role;
	bool everywhere;	 /* ClusterRoleBinding */
	const struct au_ns *ns;	 /* where, if not everywhere */
	struct rf_str who;	 /* the first subject that is not the platform's; empty: none */
	bool more_than_defaults; /* not one of the roles everybody has by default */
};

static bool is_bootstrap(const struct rf_json *o)
{
	return rf_str_is(rf_kube_label(o, "kubernetes.io/bootstrapping"), "rbac-defaults");
}

/* Subjects of the control plane and of platform namespaces are trusted with what they need. */
static bool is_platform_subject(const struct rf_json *s, struct rf_str binding_ns)
{
	struct rf_str kind = rf_json_str_at(s, "kind"), name = rf_json_str_at(s, "name");
	struct rf_str ns = rf_json_str_at(s, "namespace"),
		      prefix = RF_LIT("system:serviceaccounts:");
	struct rf_str user = RF_LIT("system:serviceaccount:"), rest, head;

	if (rf_str_is(kind, "ServiceAccount"))
		return au_is_platform_ns(ns.n > 0 ? ns : binding_ns);
	if (rf_str_starts(name, prefix))
		return au_is_platform_ns(rf_str_skip(name, prefix.n));
	if (rf_str_starts(name, user)) {
		rest = rf_str_skip(name, user.n);
		rf_str_cut(&rest, ':', &head);
		return au_is_platform_ns(head);
	}
	if (rf_str_is(name, "system:authenticated") || rf_str_is(name, "system:unauthenticated") ||
	    rf_str_is(name, "system:anonymous") || rf_str_is(name, "system:serviceaccounts"))
		return false;
	return rf_str_starts(name, RF_LIT("system:")) || rf_str_is(name, "ringfence-admin") ||
	       rf_str_is(name, "kubeadm:cluster-admins");
}

static struct rf_str subject_name(struct rf_audit *x, const struct rf_json *s,
				  struct rf_str binding_ns)
{
	struct rf_str kind = rf_json_str_at(s, "kind"), ns = rf_json_str_at(s, "namespace");

	if (!rf_str_is(kind, "ServiceAccount"))
		return au_text(x, "%.*s \"%.*s\"", RF_STR(kind), RF_STR(rf_json_str_at(s, "name")));
	return au_text(x, "ServiceAccount %.*s/%.*s", RF_STR(ns.n > 0 ? ns : binding_ns),
		       RF_STR(rf_json_str_at(s, "name")));
}

static const struct rf_json *rules_of(const struct rf_audit *x, const struct au_obj *binding)
{
	struct rf_str kind = rf_json_str_at(binding->o, "roleRef", "kind");
	struct rf_str name = rf_json_str_at(binding->o, "roleRef", "name");
	bool cluster = rf_str_is(kind, "ClusterRole");
	const struct au_obj *role = cluster ? au_find(x, AU_CLUSTERROLE, RF_STR_EMPTY, name)
					    : au_find(x, AU_ROLE, binding->ns, name);

	return role ? rf_json_at(role->o, "rules") : NULL;
}

static struct grant grant_of(struct rf_audit *x, const struct au_obj *b)
{
	const struct rf_json *subjects = rf_json_at(b->o, "subjects");
	struct grant g = { .binding = b,
			   .rules = rules_of(x, b),
			   .role = rf_json_str_at(b->o, "roleRef", "name"),
			   .everywhere = b->k == AU_CLUSTERROLEBINDING,
			   .who = RF_STR_EMPTY };

	g.ns = g.everywhere ? NULL : au_ns_of(x, b->ns);
	g.more_than_defaults = !is_bootstrap(b->o);
	for (size_t i = 0; g.who.n == 0 && i < rf_json_len(subjects); i++)
		if (!is_platform_subject(rf_json_item(subjects, i), b->ns))
			g.who = subject_name(x, rf_json_item(subjects, i), b->ns);
	return g;
}

/* --- what a rule allows ----------------------------------------------------------------------- */

static bool lists(const struct rf_json *list, const char *word)
{
	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_str s = rf_json_str(rf_json_item(list, i));

		if (rf_str_is(s, word) || rf_str_is(s, "*"))
			return true;
	}
	return false;
}

static bool lists_exactly(const struct rf_json *list, const char *word)
{
	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_str_is(rf_json_str(rf_json_item(list, i)), word))
			return true;
	return false;
}

/* verbs and resources are space-separated, any of them counts; a rule for named objects does not. */
static bool rule_allows(const struct rf_json *rule, const char *verbs, const char *group,
			const char *resources)
{
	struct rf_str v = rf_str(verbs), r, word;
	bool verb = false;

	if (!lists(rf_json_at(rule, "apiGroups"), group) ||
	    rf_json_len(rf_json_at(rule, "resourceNames")) > 0)
		return false;
	while (v.n > 0 && !verb) {
		char one[64];

		rf_str_cut(&v, ' ', &word);
		memcpy(one, word.p, RF_MIN(word.n, sizeof(one) - 1));
		one[RF_MIN(word.n, sizeof(one) - 1)] = '\0';
		verb = lists(rf_json_at(rule, "verbs"), one);
	}
	for (r = rf_str(resources); verb && r.n > 0;) {
		char one[64];

		rf_str_cut(&r, ' ', &word);
		memcpy(one, word.p, RF_MIN(word.n, sizeof(one) - 1));
		one[RF_MIN(word.n, sizeof(one) - 1)] = '\0';
		if (lists(rf_json_at(rule, "resources"), one))
			return true;
	}
	return false;
}

static bool allows(const struct grant *g, const char *verbs, const char *group,
		   const char *resources)
{
	for (size_t i = 0; i < rf_json_len(g->rules); i++)
		if (rule_allows(rf_json_item(g->rules, i), verbs, group, resources))
			return true;
	return false;
}

static bool is_everything(const struct grant *g)
{
	for (size_t i = 0; i < rf_json_len(g->rules); i++) {
		const struct rf_json *r = rf_json_item(g->rules, i);

		if (lists_exactly(rf_json_at(r, "verbs"), "*") &&
		    lists_exactly(rf_json_at(r, "resources"), "*") &&
		    lists_exactly(rf_json_at(r, "apiGroups"), "*"))
			return true;
	}
	return false;
}

/* --- the checks ----------------------------------------------------------------------------- */

/* Calls fn for every binding that gives something to somebody who is not the platform. */
static void each_grant(struct rf_audit *x, const struct rf_audit_check *c,
		       void (*fn)(struct rf_audit *x, const struct rf_audit_check *c,
				  const struct grant *g, const struct au_what *w))
{
	for (int k = AU_ROLEBINDING; k <= AU_CLUSTERROLEBINDING; k++)
		AU_EACH(x, k, b)
		{
			struct grant g = grant_of(x, b);
			struct au_what w = { .obj = b, .field = RF_LIT("roleRef") };

			if (g.who.n > 0 && g.more_than_defaults &&
			    (g.everywhere || !g.ns->platform))
				fn(x, c, &g, &w);
		}
}

static const char *reach(const struct grant *g)
{
	return g->everywhere ? "in every namespace" : "in its namespace";
}

#define GRANT_CHECK(name)                                                                          \
	static void name##_of(struct rf_audit *x, const struct rf_audit_check *c,                  \
			      const struct grant *g, const struct au_what *w);                     \
	static void name(struct rf_audit *x, const struct rf_audit_check *c)                       \
	{                                                                                          \
		each_grant(x, c, name##_of);                                                       \
	}                                                                                          \
	static void name##_of(struct rf_audit *x, const struct rf_audit_check *c,                  \
			      const struct grant *g, const struct au_what *w)

GRANT_CHECK(cluster_admin)
{
	if (g->everywhere && (rf_str_is(g->role, "cluster-admin") || is_everything(g)))
		au_tell(x, c, w, "%.*s may do everything everywhere (%.*s)", RF_STR(g->who),
			RF_STR(g->role));
}

GRANT_CHECK(wildcard)
{
	for (size_t i = 0; i < rf_json_len(g->rules); i++) {
		const struct rf_json *r = rf_json_item(g->rules, i);
		bool verbs = lists_exactly(rf_json_at(r, "verbs"), "*");
		bool resources = lists_exactly(rf_json_at(r, "resources"), "*");

		if ((!verbs && !resources) || (g->everywhere && is_everything(g)) ||
		    rf_json_len(rf_json_at(r, "nonResourceURLs")) > 0)
			continue;
		au_tell(x, c, w, "%.*s has %s %s by role %.*s", RF_STR(g->who),
			verbs && resources ? "every verb on every resource"
			: verbs		   ? "every verb on a resource, those of tomorrow included"
					   : "a verb on every resource",
			reach(g), RF_STR(g->role));
		return;
	}
}

GRANT_CHECK(reads_secrets)
{
	if (g->everywhere && !is_everything(g) && allows(g, "get list watch", "", "secrets"))
		au_tell(x, c, w, "%.*s reads the Secrets of every namespace by role %.*s",
			RF_STR(g->who), RF_STR(g->role));
}

GRANT_CHECK(execs)
{
	if (g->everywhere && !is_everything(g) &&
	    (allows(g, "create get", "", "pods/exec pods/attach pods/portforward") ||
	     allows(g, "update patch", "", "pods/ephemeralcontainers")))
		au_tell(x, c, w, "%.*s gets into the pods of every namespace by role %.*s",
			RF_STR(g->who), RF_STR(g->role));
}

GRANT_CHECK(escalates)
{
	bool self = allows(g, "escalate bind", "rbac.authorization.k8s.io", "roles clusterroles");
	bool other = allows(g, "impersonate", "", "users groups serviceaccounts");

	if (!is_everything(g) && (self || other))
		au_tell(x, c, w, "%.*s may %s %s by role %.*s", RF_STR(g->who),
			self ? "give itself any role (escalate, bind)"
			     : "act as somebody else (impersonate)",
			reach(g), RF_STR(g->role));
}

GRANT_CHECK(proxies_nodes)
{
	if (g->everywhere && !is_everything(g) &&
	    allows(g, "get create update patch", "", "nodes/proxy nodes/exec nodes/run nodes/*"))
		au_tell(x, c, w, "%.*s reaches the kubelets themselves (nodes/proxy) by role %.*s",
			RF_STR(g->who), RF_STR(g->role));
}

static void default_account(struct rf_audit *x, const struct rf_audit_check *c)
{
	for (int k = AU_ROLEBINDING; k <= AU_CLUSTERROLEBINDING; k++)
		AU_EACH(x, k, b)
		{
			const struct rf_json *subjects = rf_json_at(b->o, "subjects");

			for (size_t i = 0; i < rf_json_len(subjects); i++) {
				const struct rf_json *s = rf_json_item(subjects, i);
				struct au_what w = { .obj = b,
						     .field = au_text(x, "subjects[%zu]", i) };

				if (!rf_str_is(rf_json_str_at(s, "kind"), "ServiceAccount") ||
				    !rf_str_is(rf_json_str_at(s, "name"), "default") ||
				    is_platform_subject(s, b->ns))
					continue;
				au_tell(x, c, &w,
					"every pod of the namespace that names no account gets "
					"role %.*s by %.*s",
					RF_STR(rf_json_str_at(b->o, "roleRef", "name")),
					RF_STR(subject_name(x, s, b->ns)));
			}
		}
}

static bool is_public_role(struct rf_str role)
{
	static const char *const ROLES[] = { "system:discovery",
					     "system:basic-user",
					     "system:public-info-viewer",
					     "system:service-account-issuer-discovery",
					     "kubeadm:bootstrap-signer-clusterinfo",
					     "system:certificates.k8s.io" };

	for (size_t i = 0; i < RF_COUNT(ROLES); i++)
		if (rf_str_is(role, ROLES[i]))
			return true;
	return false;
}

static void everybody(struct rf_audit *x, const struct rf_audit_check *c)
{
	for (int k = AU_ROLEBINDING; k <= AU_CLUSTERROLEBINDING; k++)
		AU_EACH(x, k, b)
		{
			const struct rf_json *subjects = rf_json_at(b->o, "subjects");
			struct rf_str role = rf_json_str_at(b->o, "roleRef", "name");

			for (size_t i = 0; i < rf_json_len(subjects); i++) {
				struct rf_str name =
					rf_json_str_at(rf_json_item(subjects, i), "name");
				bool nobody = rf_str_is(name, "system:unauthenticated") ||
					      rf_str_is(name, "system:anonymous");
				bool anybody = rf_str_is(name, "system:authenticated") ||
					       rf_str_is(name, "system:serviceaccounts");
				struct au_what w = { .obj = b,
						     .field = au_text(x, "subjects[%zu]", i) };

				if ((!nobody && !anybody) || is_public_role(role) ||
				    is_bootstrap(b->o))
					continue;
				w.has_severity = !nobody;
				w.severity = RF_AUDIT_HIGH;
				au_tell(x, c, &w, "%s has role %.*s",
					nobody ? "everybody on the network, without logging in,"
					       : "every user or pod that can log in",
					RF_STR(role));
			}
		}
}

/* The tenant a subject belongs to, or NULL where nobody can say. */
static const struct au_tenant *tenant_of_subject(struct rf_audit *x, const struct rf_json *s,
						 struct rf_str binding_ns)
{
	struct rf_str kind = rf_json_str_at(s, "kind"), name = rf_json_str_at(s, "name");
	struct rf_str ns = rf_json_str_at(s, "namespace"),
		      prefix = RF_LIT("system:serviceaccounts:");

	if (rf_str_starts(name, prefix)) {
		kind = RF_LIT("ServiceAccount");
		ns = rf_str_skip(name, prefix.n);
	}
	if (rf_str_is(kind, "ServiceAccount"))
		return au_ns_of(x, ns.n > 0 ? ns : binding_ns)->tenant;
	AU_EACH(x, AU_TENANT, t)
	{
		const struct rf_json *owners = rf_json_at(t->o, "spec", "owners");

		for (size_t i = 0; i < rf_json_len(owners); i++)
			if (rf_str_eq(rf_json_str_at(rf_json_item(owners, i), "name"), name) &&
			    rf_str_eq(rf_json_str_at(rf_json_item(owners, i), "kind"), kind))
				return rf_map_get(&x->tenant_by_name, t->name);
	}
	return NULL;
}

/* Somebody may own two tenants: then both are his. */
static bool owns(const struct rf_audit *x, const struct rf_json *s, const struct au_tenant *tenant)
{
	AU_EACH(x, AU_TENANT, t)
	{
		const struct rf_json *owners = rf_json_at(t->o, "spec", "owners");

		for (size_t i = 0; rf_str_eq(t->name, tenant->name) && i < rf_json_len(owners); i++)
			if (rf_str_eq(rf_json_str_at(rf_json_item(owners, i), "name"),
				      rf_json_str_at(s, "name")))
				return true;
	}
	return false;
}

static void across_tenants(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_EACH(x, AU_ROLEBINDING, b)
	{
		const struct rf_json *subjects = rf_json_at(b->o, "subjects");
		const struct au_ns *n = au_ns_of(x, b->ns);

		for (size_t i = 0; !n->platform && i < rf_json_len(subjects); i++) {
			const struct rf_json *s = rf_json_item(subjects, i);
			const struct au_tenant *t = tenant_of_subject(x, s, b->ns);
			struct au_what w = { .obj = b, .field = au_text(x, "subjects[%zu]", i) };

			if (t == NULL || t == n->tenant || is_platform_subject(s, b->ns) ||
			    owns(x, s, n->tenant))
				continue;
			au_tell(x, c, &w,
				"%.*s of tenant \"%.*s\" has role %.*s in a namespace of tenant "
				"\"%.*s\"",
				RF_STR(subject_name(x, s, b->ns)), RF_STR(t->name),
				RF_STR(rf_json_str_at(b->o, "roleRef", "name")),
				RF_STR(n->tenant->name));
		}
	}
}

GRANT_CHECK(changes_walls)
{
	bool quota = allows(g, "create update patch delete deletecollection", "",
			    "resourcequotas limitranges");
	bool ns = g->everywhere && allows(g, "update patch", "", "namespaces");

	if (!is_everything(g) && (quota || ns))
		au_tell(x, c, w, "%.*s may change %s %s by role %.*s", RF_STR(g->who),
			quota ? "ResourceQuotas or LimitRanges"
			      : "labels of namespaces (pod security, tenant)",
			reach(g), RF_STR(g->role));
}

GRANT_CHECK(controls_cluster)
{
	static const struct {
		const char *verbs, *group, *resources, *what;
	} WAYS[] = {
		{ "create", "", "serviceaccounts/token", "make tokens of every service account" },
		{ "create update patch", "", "persistentvolumes",
		  "mount any folder of a node (persistentvolumes)" },
		{ "update patch", "", "nodes nodes/status",
		  "change nodes: labels, taints, what they offer" },
		{ "update patch", "certificates.k8s.io", "certificatesigningrequests/approval",
		  "approve certificates of any identity" },
		{ "create update patch delete", "admissionregistration.k8s.io",
		  "validatingwebhookconfigurations mutatingwebhookconfigurations "
		  "validatingadmissionpolicies "
		  "validatingadmissionpolicybindings",
		  "change what admission asks" },
		{ "create update patch delete", "resource.k8s.io", "deviceclasses resourceslices",
		  "change which devices there are" },
		{ "update patch", "resource.k8s.io", "resourceclaims/status",
		  "allocate devices to whom it likes" },
		{ "create update patch delete", "scheduling.k8s.io", "priorityclasses",
		  "set its own priority" },
		{ "create update patch delete", "ringfence.io", "tenants queues",
		  "change tenants and queues" },
	};

	for (size_t i = 0; g->everywhere && !is_everything(g) && i < RF_COUNT(WAYS); i++)
		if (allows(g, WAYS[i].verbs, WAYS[i].group, WAYS[i].resources)) {
			au_tell(x, c, w, "%.*s may %s by role %.*s", RF_STR(g->who), WAYS[i].what,
				RF_STR(g->role));
			return;
		}
}

#define NEEDS "Role ClusterRole RoleBinding ClusterRoleBinding"
#define ROW(number, level, fn)                                                                     \
	.id = "RF-API-" number, .layer = RF_AUDIT_API, .severity = level, .run = fn, .needs = NEEDS

const struct rf_audit_check au_rbac_checks[] = {
	{ ROW("20", RF_AUDIT_CRITICAL, cluster_admin),
	  .title = "Administrator's rights outside the platform",
	  .why = "Whoever holds this account holds every tenant's data and every card.",
	  .fix = "Delete the binding; bind a role of the tenant's own namespaces instead.",
	  .reference = RBAC_DOC },
	{ ROW("21", RF_AUDIT_HIGH, wildcard), .title = "Role with wildcards",
	  .why = "A wildcard also covers what is installed tomorrow, and hides what is really "
		 "given.",
	  .fix = "List the verbs and resources that are needed.", .reference = RBAC_DOC },
	{ ROW("22", RF_AUDIT_HIGH, reads_secrets),
	  .title = "Secrets of every namespace can be read",
	  .why = "list and watch give the contents, too; tokens of stronger accounts are among "
		 "them.",
	  .fix = "Use a RoleBinding in the namespaces concerned, and get with resourceNames.",
	  .reference = RBAC_DOC },
	{ ROW("23", RF_AUDIT_HIGH, execs), .title = "Pods of every namespace can be entered",
	  .why = "A shell in a neighbour's pod is the neighbour's data and card.",
	  .fix = "Use a RoleBinding in the tenant's own namespaces.", .reference = RBAC_DOC },
	{ ROW("24", RF_AUDIT_CRITICAL, escalates), .title = "Rights can be raised",
	  .why = "escalate, bind and impersonate turn any right into every right.",
	  .fix = "Remove the verbs escalate, bind and impersonate from the role.",
	  .reference = RBAC_DOC },
	{ ROW("25", RF_AUDIT_CRITICAL, proxies_nodes),
	  .title = "Kubelets can be reached past the API's admission",
	  .why = "nodes/proxy runs commands in any pod of the node, unseen by admission and audit.",
	  .fix = "Remove nodes/proxy; metrics need nodes/metrics only.", .reference = RBAC_DOC },
	{ ROW("26", RF_AUDIT_MEDIUM, default_account),
	  .title = "The default service account has rights",
	  .why = "Every pod that names no account has them, whoever made it.",
	  .fix = "Bind an account made for the purpose, and name it in the pods that need it.",
	  .reference = RBAC_DOC },
	{ ROW("27", RF_AUDIT_CRITICAL, everybody), .title = "Rights for everybody",
	  .why = "A right given to all users or to strangers is given to every tenant.",
	  .fix = "Delete the binding, or name the groups that need it.", .reference = RBAC_DOC },
	{ ROW("28", RF_AUDIT_HIGH, across_tenants),
	  .title = "A tenant has rights in another's namespace",
	  .why = "The namespace is the wall between tenants; this is a door in it.",
	  .fix = "Delete the binding, or put both namespaces under one tenant.",
	  .reference = "MTB-PL1-CC-TI-2" },
	{ ROW("29", RF_AUDIT_HIGH, changes_walls), .title = "A tenant can change its own limits",
	  .why = "A quota that its subject can change is a wish.",
	  .fix = "Leave resourcequotas, limitranges and namespaces to the platform; give get, "
		 "list, watch only.",
	  .reference = "MTB-PL1-CC-TI-1" },
	{ ROW("30", RF_AUDIT_HIGH, controls_cluster),
	  .title = "Objects of the whole cluster can be written",
	  .why = "Each of these leads to other identities, to nodes, or to other tenants' devices.",
	  .fix = "Remove the rule, or give it to the platform's own service account.",
	  .reference = RBAC_DOC },
	{ 0 },
};
