/* tenant: what a Tenant says, what a pod asks of GPUs, and the objects a Tenant becomes. Pure: no
 * clock, no network. Used by admission (apiserver), placement (control) and the node agent. */
#ifndef RF_TENANT_H
#define RF_TENANT_H

#include "base/base.h"
#include "codec/json.h"

#define RF_TENANT_LABEL "ringfence.io/tenant"
#define RF_QUEUE_LABEL "ringfence.io/queue"
#define RF_GROUP_LABEL "ringfence.io/pod-group"
#define RF_MODEL_ANNOTATION "ringfence.io/gpu-model"
#define RF_NVLINK_ANNOTATION "ringfence.io/nvlink"
#define RF_PREEMPTIBLE_ANNOTATION "ringfence.io/preemptible"
#define RF_MIN_RUN_ANNOTATION "ringfence.io/min-run-seconds"
/* On a pod with a share of a card: "true" lets it use time that others leave idle. */
#define RF_BURST_ANNOTATION "ringfence.io/burst"
/* Who runs on what others lent may say that it is not evicted for so long. */
#define RF_MIN_RUN_SECONDS_MAX 3600
#define RF_RES_GPU "ringfence.io/gpu"
#define RF_RES_GPU_MEMORY "ringfence.io/gpu-memory"
#define RF_RES_GPU_COMPUTE "ringfence.io/gpu-compute"
#define RF_RES_MIG "ringfence.io/mig-" /* and a profile: "ringfence.io/mig-1g.10gb", "...mig-1g.10gb.me" */
#define RF_RES_MIG_OTHER "nvidia.com/mig-"
#define RF_DRIVER "ringfence.io"
#define RF_PREPARED_FINALIZER "ringfence.io/prepared"

enum rf_isolation { /* the stricter, the smaller */
	RF_ISOLATION_RACK,
	RF_ISOLATION_NODE,
	RF_ISOLATION_NUMA, /* of these two neither holds what the other does: they are parts of a node, cut two ways */
	RF_ISOLATION_NVLINK,
	RF_ISOLATION_GPU,
	RF_ISOLATION_SLICE,
	RF_ISOLATION_SHARE,
	RF_ISOLATION_COOPERATIVE,
};
const char *rf_isolation_name(enum rf_isolation i);

/* How much of one resource a queue has. -1: not said (none guaranteed, no limit, all lent, any borrowed). */
#define RF_QUEUE_AMOUNTS_MAX 64
struct rf_queue_amount {
	struct rf_str name; /* "cards", "cards/<model>", "share-bytes", "share-milli", "mig/<profile>", "cpu", "memory", "pods" */
	int64_t guaranteed, limit, lending, borrowing; /* of cpu thousandths, though it is written in cores */
};
bool rf_queue_resource_known(struct rf_str name);
/* Is this Queue the tenant's? By spec.tenant or, without one, by label: both are for administrators and control to write. */
bool rf_queue_is_of(const struct rf_json *queue, struct rf_str tenant);
/* A list [{name, guaranteed, limit, lendingLimit, borrowingLimit}], strictly. path is for messages. */
int rf_queue_amounts_read(struct rf_arena *a, const struct rf_json *list, const char *path,
			  struct rf_queue_amount **ret, size_t *ret_n, struct rf_err *err);

struct rf_tenant {
	struct rf_str name;
	enum rf_isolation isolation;
	struct rf_str trust_domain;
	struct rf_str *namespaces;
	size_t n_namespaces;
	int64_t quota_gpus;       /* whole cards; 0 if not given */
	int64_t quota_gpu_memory; /* bytes of shares; 0 if not given */
	int64_t quota_pods;       /* -1: no limit */
	int64_t queue_weight;
	struct rf_str queue_parent; /* empty: the top */
	struct rf_queue_amount *queue_amounts; /* of its queue, the quota as limits included */
	size_t n_queue_amounts;
};
/* Reads and checks a Tenant: unknown fields, wrong types and bad values are RF_INVALID with the
 * field's path and what is allowed. Strings point into the object or the arena. */
int rf_tenant_parse(struct rf_arena *a, const struct rf_json *tenant, struct rf_tenant *ret,
		    struct rf_err *err);

/* Other names by which whole cards may be asked for, "nvidia.com/gpu,gpu.example.com/device": those
 * that a device plugin offers. Set once, when a process starts; "nvidia.com/gpu" until then. Names of
 * Kubernetes' own or of ringfence.io, badly formed ones and more than RF_GPU_NAMES_MAX are RF_INVALID. */
#define RF_GPU_NAMES_MAX 4
int rf_gpu_names_set(struct rf_str comma_separated, struct rf_err *err);
const char *rf_gpu_name(size_t i); /* NULL past the last */

/* What one container or a whole pod asks for. */
struct rf_gpu_ask {
	int64_t cards;         /* whole cards, by whatever name */
	const char *name;      /* of a container: the resource the cards were asked for with; else NULL */
	int64_t share_bytes;   /* 0: no share */
	int64_t share_milli;   /* compute of the share in thousandths; 0: none reserved */
	int64_t slices;        /* MIG slices */
	struct rf_str profile; /* of the slices, as the driver names it: "1g.10gb", "1g.10gb+me"; always valid.
				* Of a pod whose containers differ: empty */
};
static inline bool rf_gpu_ask_any(const struct rf_gpu_ask *ask)
{
	return ask->cards > 0 || ask->share_bytes > 0 || ask->slices > 0;
}
/* Checks the rules: whole cards, a share or slices of one profile, one of these in one container; compute 1 to 100 and only with
 * memory; requests, where given, equal limits; init containers may not ask. */
int rf_gpu_ask_of_container(const struct rf_json *container, struct rf_gpu_ask *ret, struct rf_err *err);
/* Sums over the containers (for quota). */
int rf_gpu_ask_of_pod(const struct rf_json *pod, struct rf_gpu_ask *ret, struct rf_err *err);
/* May a pod of this tenant ask for that at all? (A share needs isolation share or cooperative, slices one of
 * these or slice.) */
int rf_tenant_allows(const struct rf_tenant *t, const struct rf_json *pod, const struct rf_gpu_ask *ask,
		     struct rf_err *err);

/* What a pod says of itself in labels and annotations (notes.c). */
struct rf_pod_notes {
	struct rf_str queue, group; /* names; empty: none */
	struct rf_str models;	    /* of cards that will do, "H100|H200"; empty: any */
	bool nvlink;		    /* its cards must be joined */
	bool pinned;		    /* not preemptible */
	int64_t min_run_seconds;
};
/* RF_INVALID: a value that is not allowed, or an annotation of ringfence.io that there is not; the message says which
 * and what is. *ret is written all the same, as far as it can be understood: a demand stays one. */
int rf_pod_notes(const struct rf_json *pod, struct rf_pod_notes *ret, struct rf_err *err);

/* A pod that still holds, or will hold, what it asked for: not Succeeded, not Failed. */
bool rf_pod_counts(const struct rf_json *pod);
/* The name of the claim that control makes for this pod. */
struct rf_str rf_pod_claim_name(struct rf_arena *a, const struct rf_json *pod);

/* The ClusterRole, and its binding, by which the people of a Queue's tenant see it, and no others. */
#define RF_QUEUE_ROLE "ringfence:queue:"
struct rf_str rf_tenant_queue_role(struct rf_arena *a, struct rf_str queue);

/* The objects that must exist for this tenant, an array in the order in which to create them. more: names of its other
 * Queues, for its people to see. */
struct rf_json *rf_tenant_objects(struct rf_arena *a, const struct rf_json *tenant, const struct rf_tenant *parsed,
				  const struct rf_str *more, size_t n_more);

#endif
