/* sched: where pods go. The facts (nodes, cards, tenants, pods, claims, gangs, queues, budgets) that the core
 * (core.h) is told, and how they are read from Kubernetes objects. Integers only: bytes, thousandths, counts. */
#ifndef RF_SCHED_H
#define RF_SCHED_H

#include "base/base.h"
#include "codec/json.h"
#include "tenant/tenant.h"

#define RF_POOL_LABEL "ringfence.io/pool"	     /* of a node: the GPUPool it belongs to */
#define RF_RACK_LABEL "topology.kubernetes.io/rack" /* of a node: its rack, for tenants that share none */

/* --- facts ------------------------------------------------------------------------------- */

struct rf_sched_pair {
	struct rf_str key, value;
};

struct rf_sched_taint {
	struct rf_str key, value, effect;
};

struct rf_sched_toleration {
	struct rf_str key, value, effect; /* empty key: every key; empty effect: every effect */
	bool any_value;			  /* operator Exists */
};

/* Of a resource other than CPU, memory and cards: "rdma/hca", "ephemeral-storage". */
struct rf_sched_amount {
	struct rf_str name;
	int64_t n;
};

struct rf_sched_node {
	struct rf_str name;
	int64_t cpu_milli, memory, pods; /* what pods may use: allocatable */
	bool ready;
	bool cordoned;
	struct rf_sched_pair *labels;
	size_t n_labels;
	struct rf_sched_taint *taints;
	size_t n_taints;
	struct rf_sched_amount *more; /* allocatable */
	size_t n_more;
};

/* A GPUPool: how places on its nodes are chosen. */
enum rf_sched_placement { RF_SCHED_FRAGMENTATION, RF_SCHED_PACK, RF_SCHED_SPREAD };
struct rf_sched_pool {
	struct rf_str name;
	enum rf_sched_placement placement;
};

/* As the fleet has them: who shares no NUMA node and no island takes a card that names none for one of all of them. */
#define RF_SCHED_ISLANDS 128
#define RF_SCHED_NUMA_UNKNOWN UINT8_MAX
#define RF_SCHED_ISLAND_UNKNOWN(nth) ((uint8_t)(UINT8_MAX - (nth) % RF_SCHED_ISLANDS))
struct rf_sched_device {
	struct rf_str name;  /* "gpu-0" */
	struct rf_str model; /* for people; may be empty */
	struct rf_str fault; /* why it is not to be used; empty: healthy */
	int64_t memory;	     /* bytes */
	int64_t milli;	     /* compute: 1000 */
	uint8_t island;	     /* cards joined by NVLink have the same; RF_SCHED_ISLANDS and above, each its own: nobody knows */
	uint8_t numa;	     /* RF_SCHED_NUMA_UNKNOWN: nobody knows */
	bool sliced; /* in MIG mode, and stays so: slices only */
	bool fixed;  /* never in MIG mode: no slices */
};

struct rf_sched_container {
	struct rf_str name;
	struct rf_gpu_ask ask;
};

/* One demand on a label. */
struct rf_sched_match {
	struct rf_str key;
	enum rf_sched_op { RF_SCHED_IN, RF_SCHED_NOT_IN, RF_SCHED_EXISTS, RF_SCHED_ABSENT, RF_SCHED_GT, RF_SCHED_LT } op;
	struct rf_str *values;
	size_t n_values;
};

/* All of them hold. On a node "metadata.name" is a key, too. */
struct rf_sched_term {
	struct rf_sched_match *all;
	size_t n;
	int64_t weight; /* of a preference: 1 to 100 */
};

/* Pod affinity and anti-affinity. Only pods of the same tenant are seen, whatever namespaces it names: a
 * tenant's words must not move another's pods. */
struct rf_sched_near {
	bool apart;		     /* anti-affinity */
	struct rf_str topology; /* key of a node's label */
	struct rf_sched_term labels; /* of the other pods; n 0: none, unless any */
	bool any; /* an empty selector: every pod */
	struct rf_str *namespaces; /* none, and not all_namespaces: the pod's own */
	size_t n_namespaces;
	bool all_namespaces; /* the tenant's */
};

struct rf_sched_spread {
	struct rf_str topology;
	int64_t max_skew, min_domains;
	struct rf_sched_term labels; /* of the pod's namespace; n 0: none, unless any */
	bool any;
	bool any_node;	  /* nodeAffinityPolicy Ignore: also nodes where the pod may not go */
	bool heed_taints; /* nodeTaintsPolicy Honor: not nodes with a taint it does not tolerate */
};

struct rf_sched_pod {
	struct rf_str uid, ns, name;
	int64_t rv;
	struct rf_str node; /* empty: pending */
	bool ended;	    /* Succeeded or Failed */
	bool well;	    /* ... Succeeded */
	bool deleting;
	int64_t priority, created_ms;
	int64_t cpu_milli, memory; /* requests */
	struct rf_str os;	   /* empty: linux */
	struct rf_str only_node;   /* a DaemonSet's pod: the node it is for; empty: any */
	bool daemon;		   /* a DaemonSet's, or the kubelet's own (a mirror pod) */
	struct rf_str unsupported; /* a demand this scheduler cannot honour; empty: none */
	struct rf_sched_container *containers;
	size_t n_containers;
	struct rf_sched_pair *selector;
	size_t n_selector;
	struct rf_sched_toleration *tolerations;
	size_t n_tolerations;
	struct rf_sched_amount *more; /* requests */
	size_t n_more;
	struct rf_sched_pair *labels;
	size_t n_labels;
	struct rf_sched_term *node_terms; /* required node affinity: one of them; n 0: any node */
	size_t n_node_terms;
	struct rf_sched_term *prefers; /* preferred node affinity */
	size_t n_prefers;
	struct rf_sched_near *nears; /* required */
	size_t n_nears;
	struct rf_sched_spread *spreads; /* whenUnsatisfiable: DoNotSchedule */
	size_t n_spreads;
	struct rf_str queue;	/* empty: its tenant's own */
	struct rf_str group;	/* PodGroup of its namespace; empty: alone */
	struct rf_str models;	/* card models that will do, separated by '|'; empty: any */
	bool one_island;	/* its whole cards joined by NVLink */
	bool pinned;		/* not to be evicted: must fit into what is guaranteed */
	bool patient;		/* preemptionPolicy Never: nobody is evicted for it */
	bool gated;		/* spec.schedulingGates: not to be looked at yet */
	int64_t min_run_ms, run_limit_ms; /* 0: none */
	int64_t started_ms;	/* bound; 0: not known */
	int64_t grace_ms;	/* terminationGracePeriodSeconds */
};

/* A gang: pods of a namespace that name it. Elastic above min. */
struct rf_sched_group {
	struct rf_str ns, name;
	int64_t rv;
	int64_t min, created_ms;
	struct rf_str queue; /* empty: its tenant's own */
	struct rf_str topology; /* all members on nodes with one value of this label; empty: anywhere */
	bool pinned;
	int64_t min_run_ms, run_limit_ms;
	/* min members were bound at once, and some of them still are, or ended well: what is missing since then is no
	 * half-made gang. */
	bool started;
	/* All members that were bound by then are to go, as a whole; 0: not so. Written before the first of them went, so
	 * that who comes after a restart knows that the rest are to follow. */
	int64_t ending_ms;
};

struct rf_sched_quota {
	struct rf_str resource; /* "cards", "cards/<model>", "share-bytes", "share-milli", "mig/<profile>", "cpu", "memory" */
	/* -1: not given (0, none, all, any). A tenant's own queue and what belongs to a tenant: a limit of
	 * "mig/..." that is not given is 0, because a Tenant's quota does not speak of slices: who has none
	 * must not get them by accident. */
	int64_t guaranteed, limit, lending, borrowing;
};

/* Queues form a tree. A leaf belongs to one tenant, whose pods alone may wait there; a queue above others to
 * none. Every tenant has one of its own name. */
struct rf_sched_queue {
	struct rf_str name, parent; /* parent empty: the top */
	struct rf_str tenant;
	int64_t weight;
	struct rf_sched_quota *quotas;
	size_t n_quotas;
};

/* A PodDisruptionBudget: how many of its pods may be evicted now. */
struct rf_sched_budget {
	struct rf_str ns, name;
	struct rf_sched_term labels;
	bool any;
	int64_t allowed;
};

/* One device for one container. */
struct rf_sched_grant {
	struct rf_str container, device;
	int64_t bytes, milli;
	bool whole; /* quota counts it as a card; else its bytes */
	struct rf_str profile; /* a MIG slice: "1g.10gb"; its place on the card: */
	int64_t start;
};

/* What a ResourceClaim object holds. It holds until the object is gone. */
struct rf_sched_claim {
	struct rf_str ns, name, pod_uid, tenant;
	int64_t rv;
	bool deleting;
	struct rf_str node; /* empty: not allocated yet */
	struct rf_sched_grant *grants;
	size_t n_grants;
};

/* --- reading Kubernetes objects ---------------------------------------------------------- */

/* Strings point into the object or the arena. */
void rf_sched_read_node(struct rf_arena *a, const struct rf_json *node, struct rf_sched_node *ret);
/* Fails if its GPU ask makes no sense (admission refuses such pods). */
int rf_sched_read_pod(struct rf_arena *a, const struct rf_json *pod, struct rf_sched_pod *ret,
		      struct rf_err *err);
void rf_sched_read_claim(struct rf_arena *a, const struct rf_json *claim,
			 struct rf_sched_claim *ret);
/* A PodGroup, a Queue: RF_INVALID with what is wrong (admission refuses such). */
int rf_sched_read_group(struct rf_arena *a, const struct rf_json *group, struct rf_sched_group *ret,
			struct rf_err *err);
int rf_sched_read_queue(struct rf_arena *a, const struct rf_json *queue, struct rf_sched_queue *ret,
			struct rf_err *err);
/* A GPUPool: RF_INVALID with what is wrong. */
int rf_sched_read_gpu_pool(const struct rf_json *pool, struct rf_sched_pool *ret, struct rf_err *err);
/* A PodDisruptionBudget. */
void rf_sched_read_budget(struct rf_arena *a, const struct rf_json *budget, struct rf_sched_budget *ret);
/* Whose cards a ResourceSlice speaks of: the node's name; empty for slices that are not ours. */
struct rf_str rf_sched_slice_node(const struct rf_json *slice);
/* The cards of one node from all its slices: those of the newest generation of its pool. False
 * while some of these are still to come: what was known before holds. */
bool rf_sched_read_pool(struct rf_arena *a, const struct rf_json *const *slices, size_t n,
			struct rf_sched_device **ret, size_t *ret_n);

#endif
