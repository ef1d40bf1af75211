#include "apiserver/kinds.h"

#define CORE "", "v1"
#define RBAC "rbac.authorization.k8s.io", "v1"
#define AUTHZ "authorization.k8s.io", "v1"
#define AUTHN "authentication.k8s.io", "v1"
#define RESOURCE "resource.k8s.io", "v1"
#define RINGFENCE "ringfence.io", "v1alpha1"
#define TEMPLATES RF_TEMPLATES_GROUP, "v1"

/* group and version, plural, singular, kind, short, categories, namespaced, stored, subresources,
 * schema, other versions */
const struct rf_kind rf_kinds[] = {
	{ CORE, "namespaces", "namespace", "Namespace", "ns", "", false, true, "status",
	  "Namespace" },
	{ CORE, "pods", "pod", "Pod", "po", "all", true, true, "status binding eviction log",
	  "Pod" },
	{ CORE, "nodes", "node", "Node", "no", "", false, true, "status", "Node" },
	{ CORE, "events", "event", "Event", "ev", "", true, true, "", "Event" },
	{ CORE, "secrets", "secret", "Secret", "", "", true, true, "", "Secret" },
	{ CORE, "configmaps", "configmap", "ConfigMap", "cm", "", true, true, "", "ConfigMap" },
	{ CORE, "serviceaccounts", "serviceaccount", "ServiceAccount", "sa", "", true, true,
	  "token", "ServiceAccount" },
	{ CORE, "resourcequotas", "resourcequota", "ResourceQuota", "quota", "", true, true,
	  "status", "ResourceQuota" },
	{ "coordination.k8s.io", "v1", "leases", "lease", "Lease", "", "", true, true, "",
	  "Lease" },
	{ RBAC, "roles", "role", "Role", "", "", true, true, "", "Role" },
	{ RBAC, "rolebindings", "rolebinding", "RoleBinding", "", "", true, true, "",
	  "RoleBinding" },
	{ RBAC, "clusterroles", "clusterrole", "ClusterRole", "", "", false, true, "",
	  "ClusterRole" },
	{ RBAC, "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding", "", "", false,
	  true, "", "ClusterRoleBinding" },
	{ RESOURCE, "resourceslices", "resourceslice", "ResourceSlice", "", "", false, true, "",
	  "ResourceSlice" },
	{ RESOURCE, "resourceclaims", "resourceclaim", "ResourceClaim", "", "", true, true,
	  "status", "ResourceClaim" },
	{ RESOURCE, "deviceclasses", "deviceclass", "DeviceClass", "", "", false, true, "",
	  "DeviceClass" },
	{ "policy", "v1", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget", "pdb", "",
	  true, true, "status", "PodDisruptionBudget" },
	{ "scheduling.k8s.io", "v1", "priorityclasses", "priorityclass", "PriorityClass", "pc", "", false,
	  true, "", "PriorityClass" },
	{ RINGFENCE, "tenants", "tenant", "Tenant", "", "ringfence", false, true, "status", NULL },
	{ RINGFENCE, "queues", "queue", "Queue", "", "ringfence", false, true, "status", NULL },
	{ RINGFENCE, "gpupools", "gpupool", "GPUPool", "", "ringfence", false, true, "status",
	  NULL },
	{ RINGFENCE, "podgroups", "podgroup", "PodGroup", "pg", "ringfence", true, true, "status",
	  NULL },
	{ TEMPLATES, "constrainttemplates", "constrainttemplate", "ConstraintTemplate", "", "",
	  false, true, "status", NULL, "v1beta1 v1alpha1" },
	{ "config.gatekeeper.sh", "v1alpha1", "configs", "config", "Config", "", "", true, true,
	  "status", NULL },
	{ "syncset.gatekeeper.sh", "v1alpha1", "syncsets", "syncset", "SyncSet", "", "", false,
	  true, "status", NULL },
	{ AUTHN, "tokenreviews", "tokenreview", "TokenReview", "", "", false, false, "",
	  "TokenReview" },
	{ AUTHN, "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview", "", "", false,
	  false, "", "SelfSubjectReview" },
	{ AUTHZ, "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview",
	  "", "", false, false, "", "SelfSubjectAccessReview" },
	{ AUTHZ, "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview", "",
	  "", false, false, "", "SelfSubjectRulesReview" },
	{ AUTHZ, "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview", "", "",
	  false, false, "", "SubjectAccessReview" },
	{ AUTHZ, "localsubjectaccessreviews", "localsubjectaccessreview",
	  "LocalSubjectAccessReview", "", "", true, false, "", "LocalSubjectAccessReview" },
};
const size_t rf_n_kinds = RF_COUNT(rf_kinds);

const struct rf_kind *rf_kind_next(const struct rf_kind *k)
{
	if (k == NULL)
		return &rf_kinds[0];
	if (k->constraint || k == &rf_kinds[rf_n_kinds - 1])
		return rf_kind_next_constraint(k->constraint ? k : NULL);
	return k + 1;
}

bool rf_kind_in_version(const struct rf_kind *k, struct rf_str version)
{
	return rf_str_is(version, k->version) || (k->also != NULL && rf_word_in(k->also, version));
}

const struct rf_kind *rf_kind_find(struct rf_str group, struct rf_str version, struct rf_str plural)
{
	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;)
		if (rf_str_is(plural, k->plural) && rf_str_is(group, k->group) &&
		    rf_kind_in_version(k, version))
			return k;
	return NULL;
}

const struct rf_kind *rf_kind_get(const char *plural)
{
	for (size_t i = 0; i < rf_n_kinds; i++)
		if (strcmp(rf_kinds[i].plural, plural) == 0)
			return &rf_kinds[i];
	rf_assert(!"a kind that is in the table");
	return NULL;
}

bool rf_kind_is(const struct rf_kind *k, const char *plural)
{
	/* A template may call its kind "Pods"; what is special about pods is not for it. */
	return !k->constraint && strcmp(k->plural, plural) == 0;
}

bool rf_kind_is_rbac(const struct rf_kind *k)
{
	return strcmp(k->group, "rbac.authorization.k8s.io") == 0;
}

bool rf_word_in(const char *words, struct rf_str word)
{
	struct rf_str rest = rf_str(words), one;

	while (rest.n > 0) {
		rf_str_cut(&rest, ' ', &one);
		if (rf_str_eq(one, word))
			return true;
	}
	return false;
}

bool rf_kind_has_sub(const struct rf_kind *k, struct rf_str sub)
{
	return rf_word_in(k->subresources, sub);
}

struct rf_str rf_kind_api_version_as(struct rf_arena *a, const struct rf_kind *k,
				     struct rf_str version)
{
	if (k->group[0] == '\0')
		return version;
	return rf_arena_printf(a, "%s/%.*s", k->group, RF_STR(version));
}

struct rf_str rf_kind_api_version(struct rf_arena *a, const struct rf_kind *k)
{
	return rf_kind_api_version_as(a, k, rf_str(k->version));
}

struct rf_str rf_kind_resource(struct rf_arena *a, const struct rf_kind *k)
{
	if (k->group[0] == '\0')
		return rf_str(k->plural);
	return rf_arena_printf(a, "%s.%s", k->plural, k->group);
}
