#include "kube/private.h"

#define RES(name, g, v, p, k, ns)                                                                  \
	const struct rf_kube_res name = {                                                          \
		.group = g, .version = v, .plural = p, .kind = k, .namespaced = ns                 \
	}

RES(RF_NAMESPACES, "", "v1", "namespaces", "Namespace", false);
RES(RF_PODS, "", "v1", "pods", "Pod", true);
RES(RF_NODES, "", "v1", "nodes", "Node", false);
RES(RF_EVENTS, "", "v1", "events", "Event", true);
RES(RF_SECRETS, "", "v1", "secrets", "Secret", true);
RES(RF_CONFIGMAPS, "", "v1", "configmaps", "ConfigMap", true);
RES(RF_SERVICEACCOUNTS, "", "v1", "serviceaccounts", "ServiceAccount", true);
RES(RF_RESOURCEQUOTAS, "", "v1", "resourcequotas", "ResourceQuota", true);
RES(RF_LEASES, "coordination.k8s.io", "v1", "leases", "Lease", true);
RES(RF_ROLES, "rbac.authorization.k8s.io", "v1", "roles", "Role", true);
RES(RF_ROLEBINDINGS, "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true);
RES(RF_CLUSTERROLES, "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false);
RES(RF_CLUSTERROLEBINDINGS, "rbac.authorization.k8s.io", "v1", "clusterrolebindings",
    "ClusterRoleBinding", false);
RES(RF_RESOURCESLICES, "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false);
RES(RF_RESOURCECLAIMS, "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true);
RES(RF_DEVICECLASSES, "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false);
RES(RF_BUDGETS, "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true);
RES(RF_TENANTS, "ringfence.io", "v1alpha1", "tenants", "Tenant", false);
RES(RF_QUEUES, "ringfence.io", "v1alpha1", "queues", "Queue", false);
RES(RF_GPUPOOLS, "ringfence.io", "v1alpha1", "gpupools", "GPUPool", false);
RES(RF_PODGROUPS, "ringfence.io", "v1alpha1", "podgroups", "PodGroup", true);

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

void rf_kube_encode(struct rf_buf *out, struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (is_unreserved(s.p[i]))
			rf_buf_add_c(out, s.p[i]);
		else
			rf_buf_printf(out, "%%%02X", (unsigned char)s.p[i]);
	}
}

static void add_segment(struct rf_buf *out, struct rf_str s)
{
	rf_buf_add_c(out, '/');
	rf_kube_encode(out, s);
}

struct rf_str rf_kube_path(struct rf_arena *a, const struct rf_kube_res *res, struct rf_str ns,
			   struct rf_str name, const char *sub)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_buf_puts(&out, res->group[0] == '\0' ? "/api" : "/apis");
	if (res->group[0] != '\0')
		add_segment(&out, rf_str(res->group));
	add_segment(&out, rf_str(res->version));
	if (res->namespaced && ns.n > 0) {
		rf_buf_puts(&out, "/namespaces");
		add_segment(&out, ns);
	}
	add_segment(&out, rf_str(res->plural));
	if (name.n > 0)
		add_segment(&out, name);
	if (sub != NULL && name.n > 0)
		add_segment(&out, rf_str(sub));
	return rf_arena_str(a, rf_buf_str(&out));
}
