/* wish: what pods say about nodes and about each other, as sets of nodes (the fleet's classes): node selectors
 * and affinity, taints and tolerations, resources counted by name, pod affinity and anti-affinity, topology
 * spread. Pods that wish the same share a class, kept as nodes come and go; what depends on where other pods
 * are is worked out when asked. */
#ifndef RF_SCHED_WISH_H
#define RF_SCHED_WISH_H

#include "sched/fleet.h"
#include "sched/sched.h"

struct rf_wishes;
struct rf_wishes *rf_wishes_new(struct rf_fleet *f);
void rf_wishes_free(struct rf_wishes *w); /* before the fleet */
RF_DEFINE_AUTO_PTR(wishes);

/* node: the fleet's handle. */
void rf_wishes_put_node(struct rf_wishes *w, uint32_t node, const struct rf_sched_node *n);
void rf_wishes_del_node(struct rf_wishes *w, uint32_t node);

/* The wish of a pod: copied, shared with pods that wish the same, counted. */
struct rf_wish;
struct rf_wish *rf_wish_of(struct rf_wishes *w, const struct rf_sched_pod *p, struct rf_str tenant);
void rf_wish_drop(struct rf_wishes *w, struct rf_wish *wish);
/* Adds what a pod's wish follows from, besides its tenant: as long as there is a wish of one, it is that of all with the same
 * bytes. False: it says more than that, of other pods or of resources by name. */
bool rf_wish_facts(struct rf_buf *b, const struct rf_sched_pod *p);
/* What such a pod asks for besides cards and place: equal for equal wishes, for request classes. A pod's labels
 * count only where a pod of its tenant speaks of them, so that it may change when such a pod comes or goes:
 * whenever rf_wishes_turn moves on, some did. */
uint64_t rf_wish_id(const struct rf_wish *wish);
uint64_t rf_wishes_turn(const struct rf_wishes *w);
/* Depends on other pods, or on resources counted by name: its class must be asked for before each placement.
 * May change with rf_wishes_turn, too: a pod came that keeps this one away. */
bool rf_wish_moves(const struct rf_wish *wish);
/* Where it may go now. preferred: of these, where most of its preferences hold, by their weights (try it first
 * if there are any; may be no node at all). The class of a wish that moves is valid until the next call for one
 * that moves; a preferred one until a node changes. May be asked inside a mark of the fleet. */
uint32_t rf_wish_class(struct rf_wishes *w, struct rf_wish *wish, bool preferred);
bool rf_wish_prefers(const struct rf_wish *wish);

/* A pod of this wish runs there, or does not any more: counts for the others'. Not undone by the fleet's
 * rollback: that is the caller's. The wish stays while a pod of it is on. */
void rf_wish_on(struct rf_wishes *w, struct rf_wish *wish, uint32_t node);
void rf_wish_off(struct rf_wishes *w, struct rf_wish *wish, uint32_t node);

/* Domains of a label's key, by node handle; RF_FLEET_NONE: the node has no such label. Valid until a node changes. */
const uint32_t *rf_wishes_domains(struct rf_wishes *w, struct rf_str key, size_t *ret_n);

/* Moves on when something changed that may help this wish. Changes of its class count here, and not in
 * rf_fleet_version: one that was refused is refused again as long as both read the same. */
uint64_t rf_wish_version(const struct rf_wishes *w, const struct rf_wish *wish);
/* May its coming help others? Somebody wants to be near such, or spread with them. */
bool rf_wish_helps(const struct rf_wish *wish);

/* Nodes by why they will not do, the first reason of each. */
enum rf_wish_unfit {
	RF_WISH_FITS,
	RF_WISH_NODE,	  /* another node than the only one */
	RF_WISH_OS,
	RF_WISH_SELECTOR,
	RF_WISH_AFFINITY,
	RF_WISH_TAINT,	  /* one it does not tolerate */
	RF_WISH_RESOURCE, /* one of those counted by name */
	RF_WISH_APART,	  /* anti-affinity, its own or that of a pod there */
	RF_WISH_NEAR,	  /* affinity to pods that are not there */
	RF_WISH_SPREAD,
	RF_WISH_UNFITS
};
/* The class of those that do comes back, to look with only: it is good until the next call. */
uint32_t rf_wish_why(struct rf_wishes *w, struct rf_wish *wish, uint32_t ret[RF_WISH_UNFITS]);
/* Of the resources counted by name the one that is scarcest for it: how much it asks for, and the most that a node has
 * left which it would go to. False: none is scarce anywhere. The name is valid while the wish is. */
bool rf_wish_short(struct rf_wishes *w, struct rf_wish *wish, struct rf_str *ret_name, int64_t *ret_need,
		   int64_t *ret_left);

#endif
