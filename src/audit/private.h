/* What the files of this room share: the world as the checks see it, and how they tell. */
#ifndef RF_AUDIT_PRIVATE_H
#define RF_AUDIT_PRIVATE_H

#include "audit/audit.h"
#include "policy/gatekeeper.h"

/* The kinds that checks look at; everything else is for policies only. group "": any. */
enum au_kind {
	AU_POD,
	AU_NAMESPACE,
	AU_NODE,
	AU_QUOTA,
	AU_LIMITRANGE,
	AU_NETPOL,
	AU_ROLE,
	AU_CLUSTERROLE,
	AU_ROLEBINDING,
	AU_CLUSTERROLEBINDING,
	AU_SERVICEACCOUNT,
	AU_PRIORITYCLASS,
	AU_CONFIGMAP,
	AU_SERVICE,
	AU_DAEMONSET,
	AU_DEPLOYMENT,
	AU_STATEFULSET,
	AU_REPLICASET,
	AU_JOB,
	AU_CRONJOB,
	AU_RC,
	AU_VALIDATING,
	AU_MUTATING,
	AU_VAP,
	AU_VAPBINDING,
	AU_RUNTIMECLASS,
	AU_CLAIM,
	AU_CLAIMTEMPLATE,
	AU_SLICE,
	AU_DEVICECLASS,
	AU_TENANT,
	AU_QUEUE,
	AU_KUEUE,
	AU_VOLCANO,
	AU_KAI,
	AU_CILIUM,
	AU_APISERVICE,
	AU_TEMPLATE,
	AU_CONSTRAINT,
	AU_CLUSTERPOLICY,
	AU_OTHER,
	AU_KINDS
};

struct au_obj {
	const struct rf_json *o;
	enum au_kind k;
	struct rf_str kind, group, ns, name, source;
	struct rf_rv rv; /* the same for Rego; made when policies are asked */
	bool has_rv;
};

struct au_tenant {
	struct rf_str name; /* the tenant's, or the namespace's where nobody says whose it is */
	struct rf_str isolation, domain; /* empty: no Tenant says */
};

struct au_ns {
	struct rf_str name;
	const struct au_obj *obj; /* NULL: no Namespace object was seen */
	const struct rf_json *labels;
	bool platform;		  /* kube-system and the like: trusted */
	bool labelled;		  /* a label says whose it is */
	struct au_tenant *tenant; /* never NULL */
	size_t gpu_pods;
	const char *gpu_name; /* a resource its pods ask cards with */
};

/* A pod, or the pod that a workload without pods would make. */
struct au_pod {
	const struct au_obj *obj;
	const struct rf_json *meta, *spec;
	const char *prefix; /* of fields: "spec" or "spec.template.spec" */
	struct au_ns *ns;
	struct rf_str owner_kind, owner; /* of the controller, or empty */
	struct rf_str node;
	bool gpu, template, daemon;
	const char *gpu_name; /* "nvidia.com/gpu"; "" for a claim */
};

struct au_node {
	const struct au_obj *obj;
	struct rf_str name;
	bool gpu;
};

struct au_not { /* not seen, not made */
	struct rf_str what, why;
};

struct rf_audit {
	struct rf_arena a;    /* objects and findings */
	struct rf_arena work; /* what a run derives */
	size_t budget;
	RF_VEC(struct au_obj *) all, of[AU_KINDS];
	bool cluster, truncated;
	struct rf_map seen; /* kind -> (void *)1 seen, (void *)2 not */
	RF_VEC(struct au_not) unseen, unmade;
	RF_VEC(struct rf_audit_finding) findings;
	size_t n_kinds;
	struct rf_map counted; /* check id -> how many */
	struct rf_map told;    /* check, owner, field -> finding's index + 1 */
	size_t count[RF_AUDIT_LAYERS][RF_AUDIT_SEVERITIES];
	size_t more; /* found beyond RF_AUDIT_PER_CHECK */
	struct rf_audit_opts opts;
	/* derived by au_world */
	struct rf_map ns_by_name, tenant_by_name, node_by_name, by_name;
	RF_VEC(struct au_ns *) ns;
	RF_VEC(struct au_pod) pods;
	RF_VEC(struct au_node) nodes;
	bool tenants_known; /* Tenants or labels say who is who */
	bool all_gpu_nodes;
	size_t gpu_tenants; /* tenants with GPU pods */
	/* policies of files */
	struct rf_gk *pack;
	struct au_rego *rego;
	size_t n_policies;
	struct rf_map severities; /* kind of constraint -> what its template says, + 1 */
	bool is_pack;
};

/* world.c */
void au_world(struct rf_audit *x);
void au_world_done(struct rf_audit *x);
struct au_ns *au_ns_of(struct rf_audit *x, struct rf_str name); /* made where it is missing */
/* Not of pods and of kinds that no check knows. */
const struct au_obj *au_find(const struct rf_audit *x, enum au_kind k, struct rf_str ns,
			     struct rf_str name);
bool au_is_platform_ns(struct rf_str ns);
bool au_is_gpu_name(struct rf_str resource);
bool au_has(struct rf_str s, const char *part); /* contains, ASCII letters without case */
enum au_kind au_kind_of(struct rf_str kind, struct rf_str group);
struct rf_str au_group(struct rf_str api_version);

/* every container of a pod, init and ephemeral ones too */
struct au_container {
	const struct rf_json *c;
	const char *list;
	size_t i;
};
bool au_next_container(const struct au_pod *p, struct au_container *at); /* start with {0} */
struct rf_str au_container_field(struct rf_audit *x, const struct au_pod *p,
				 const struct au_container *c, const char *rest);

/* tell.c. Text is for people: plain sentences without the object's name, which stands beside them. */
struct au_what {
	const struct au_obj *obj; /* NULL: the cluster, or what kind/ns/name say */
	const struct au_pod *pod; /* for pods: findings of one controller are told once */
	struct rf_str kind, ns, name;
	struct rf_str field, fix, policy;
	size_t nth; /* a policy may say several things of one pod */
	bool has_severity, has_layer;
	enum rf_audit_severity severity;
	enum rf_audit_layer layer;
};
void au_tell(struct rf_audit *x, const struct rf_audit_check *c, const struct au_what *w,
	     const char *fmt, ...) RF_PRINTF(4, 5);
#define au_text(x, ...) rf_arena_printf(&(x)->a, __VA_ARGS__)
const struct rf_audit_check *au_check(const char *id);

extern const struct rf_audit_check au_api_checks[], au_rbac_checks[], au_sched_checks[],
	au_node_checks[], au_ops_checks[], au_self_checks[]; /* each ends with id NULL */

/* policy.c */
void au_ask_policies(struct rf_audit *x);
void au_policies_done(struct rf_audit *x);
void au_pod_security(struct rf_audit *x, const struct rf_audit_check *c);

/* files.c */
int au_walk_yaml(struct rf_arena *a, const char *path, const char *suffixes,
		 int (*fn)(void *arg, const char *file, struct rf_str text, struct rf_err *err),
		 void *arg, struct rf_err *err);

/* report_*.c */
void au_report_table(const struct rf_audit *x, const struct rf_audit_look *look,
		     struct rf_buf *out);
void au_report_json(const struct rf_audit *x, struct rf_buf *out);
void au_report_sarif(const struct rf_audit *x, struct rf_buf *out);
void au_report_html(const struct rf_audit *x, struct rf_buf *out);
struct rf_str au_object_name(struct rf_arena *a,
			     const struct rf_audit_finding *f); /* "Pod team-a/train" */
struct rf_str au_summary(const struct rf_audit *x, struct rf_arena *a);

#define AU_EACH(x, kind, var)                                                                      \
	for (size_t var##_i_ = 0; var##_i_ < (x)->of[kind].n; var##_i_++)                          \
		for (const struct au_obj *var = (x)->of[kind].at[var##_i_]; var != NULL; var = NULL)
#define AU_PODS(x, var)                                                                            \
	for (size_t var##_i_ = 0; var##_i_ < (x)->pods.n; var##_i_++)                              \
		for (const struct au_pod *var = &(x)->pods.at[var##_i_]; var != NULL; var = NULL)

#endif
