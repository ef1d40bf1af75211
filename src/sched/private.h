/* Private to sched/: the model's records and the view one cycle works on. */
#ifndef RF_SCHED_PRIVATE_H
#define RF_SCHED_PRIVATE_H

#include "sched/sched.h"

#define RF_CLAIM_DEVICES_MAX 32 /* resource.k8s.io/v1: AllocationResultsMaxSize */

struct rf_sched {
	struct rf_map nodes;	  /* name -> struct rf_rec_node */
	struct rf_map devices;	  /* node's name -> struct rf_rec_devices */
	struct rf_map tenants;	  /* name -> struct rf_rec_tenant */
	struct rf_map namespaces; /* name -> struct rf_rec_namespace */
	struct rf_map pods;	  /* uid -> struct rf_rec_pod */
	struct rf_map claims;	  /* "ns/name" -> struct rf_rec_claim */
};

/* Every record starts with the arena that holds it. */
struct rf_rec_node {
	struct rf_arena a;
	struct rf_sched_node v;
};
struct rf_rec_devices {
	struct rf_arena a;
	struct rf_sched_device *v;
	size_t n;
};
struct rf_rec_tenant {
	struct rf_arena a;
	struct rf_tenant v;
};
struct rf_rec_namespace {
	struct rf_arena a;
	struct rf_str tenant;
};
struct rf_rec_pod {
	struct rf_arena a;
	struct rf_sched_pod v;
};
struct rf_rec_claim {
	struct rf_arena a;
	struct rf_sched_claim v;
};

/* --- who is who -------------------------------------------------------------------------- */

/* A pod's or claim's side of a meeting. */
struct rf_party {
	struct rf_str tenant; /* empty: nobody's */
	struct rf_str trust;
	enum rf_isolation isolation;
	bool system; /* the cluster's own pods: they meet everybody */
	bool known;  /* false: its namespace or its Tenant has not been seen */
};
struct rf_party rf_party_of_namespace(const struct rf_sched *s, struct rf_str ns);
/* The namespace's word first; the claim's own where the namespace is gone. */
struct rf_party rf_party_of_claim(const struct rf_sched *s, const struct rf_sched_claim *c);
bool rf_party_same(const struct rf_party *a, const struct rf_party *b);
bool rf_party_shares_node(const struct rf_party *a, const struct rf_party *b);
bool rf_party_shares_card(const struct rf_party *a, const struct rf_party *b);

/* --- the view of one cycle --------------------------------------------------------------- */

struct rf_guest { /* a party present on a node or a card */
	struct rf_party party;
	struct rf_guest *next;
};

struct rf_card {
	const struct rf_sched_device *device;
	struct rf_guest *holders; /* each party once */
	int64_t bytes, milli;	  /* held */
	bool held;
};

struct rf_place { /* a node */
	const struct rf_sched_node *node;
	int64_t cpu_left, memory_left, pods_left;
	int64_t *more_left; /* beside node->more */
	struct rf_guest *guests;
	struct rf_card *cards; /* by name */
	size_t n_cards;
};

struct rf_usage { /* what a tenant's claims hold */
	int64_t cards, bytes;
};

struct rf_view {
	const struct rf_sched *s;
	struct rf_arena *a;
	struct rf_place *places; /* by name */
	size_t n;
	struct rf_map by_name;	/* node's name -> place */
	struct rf_map claim_of; /* pod's uid -> claim */
	struct rf_map held;	/* tenant's name -> struct rf_usage */
};
void rf_view_init(struct rf_view *v, const struct rf_sched *s, struct rf_arena *a);
void rf_view_done(struct rf_view *v);
/* A pod's requests and its presence; a grant's card, and its tenant's quota. p may be NULL for a
 * grant on a node that is gone. */
void rf_view_add_pod(struct rf_view *v, struct rf_place *p, const struct rf_sched_pod *pod,
		     const struct rf_party *party);
void rf_view_add_grant(struct rf_view *v, struct rf_place *p, const struct rf_sched_grant *g,
		       const struct rf_party *party);
struct rf_card *rf_place_card(const struct rf_place *p, struct rf_str device);
/* "gpu-2" before "gpu-10". */
int rf_sched_name_cmp(struct rf_str a, struct rf_str b);

/* --- filters and placement --------------------------------------------------------------- */

enum rf_unfit {
	RF_FITS,
	RF_UNFIT_PINNED, /* a DaemonSet's pod, and this is another node */
	RF_UNFIT_NOT_READY,
	RF_UNFIT_CORDONED,
	RF_UNFIT_OS,
	RF_UNFIT_SELECTOR,
	RF_UNFIT_TAINT,
	RF_UNFIT_ISOLATION, /* somebody on the node who may not be met */
	RF_UNFIT_PODS,
	RF_UNFIT_CPU,
	RF_UNFIT_MEMORY,
	RF_UNFIT_RESOURCE,
	RF_UNFIT_NO_CARDS, /* no card at all */
	RF_UNFIT_CARDS,
	RF_UNFIT_COUNT
};
/* Everything but the cards. */
enum rf_unfit rf_filter_node(const struct rf_place *p, const struct rf_sched_pod *pod,
			     const struct rf_party *party);
/* The first resource of which the pod asks for more than is left; NULL if there is none. */
const struct rf_sched_amount *rf_place_lacks(const struct rf_place *p,
					     const struct rf_sched_pod *pod, int64_t *ret_left);
/* May this party use any part of this card, capacity aside? */
bool rf_card_open_to(const struct rf_card *c, const struct rf_party *party);

/* Why the tenant's quota does not leave room for the pod; empty if it does (quota.c). */
struct rf_str rf_quota_reason(struct rf_arena *a, const struct rf_view *v,
			      const struct rf_sched_pod *pod, const struct rf_party *party);

struct rf_plan {
	struct rf_sched_grant *grants;
	size_t n;
	int64_t score[3]; /* lower is better, the first counts most */
};
/* Finds cards on one node for every container; false if there are none. */
bool rf_place_cards(struct rf_arena *a, const struct rf_place *p, const struct rf_sched_pod *pod,
		    const struct rf_party *party, struct rf_plan *ret);

/* "0/2 nodes fit: ...; what to do". unfit[i] belongs to v->places[i]. */
struct rf_str rf_sched_reason(struct rf_arena *a, const struct rf_view *v,
			      const struct rf_sched_pod *pod, const struct rf_party *party,
			      const enum rf_unfit *unfit);

#endif
