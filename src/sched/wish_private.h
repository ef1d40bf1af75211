/* Private to wish*.c. Everything that many pods say alike is kept once:
 *
 *	filter	what is said of a node alone; the set of nodes that do
 *	kind	tenant, namespace and labels of a pod: how others see it
 *	watch	a selector of pods, of one tenant; which kinds it sees
 *	tally	how many pods that a watch sees run in each domain of a label's key
 *	spec	a filter, resources by name, and tallies to heed
 *	stance	a spec and the watches that see the pod: all that decides where it may go
 *
 * Running pods change tallies; a set of nodes is worked out from tallies, not from pods. */
#ifndef RF_SCHED_WISH_PRIVATE_H
#define RF_SCHED_WISH_PRIVATE_H

#include "sched/fleet_private.h"
#include "sched/wish.h"

#define WI_AMOUNT_MAX (INT64_C(1) << 52) /* of a resource by name: a thousand pods of it still add up */

/* --- things that are kept once ---------------------------------------------------------------- */

struct entry { /* first in everything that is shared: found by the bytes of its key */
	struct entry *next;
	uint64_t hash;
	char *key;
	uint32_t n, refs;
};
struct table {
	struct entry **buckets;
	size_t n, cap;
};
struct entry *wi_find(const struct table *t, struct rf_str key);
/* With one reference; key is copied. */
void wi_add(struct table *t, struct entry *e, struct rf_str key);
void wi_remove(struct table *t, struct entry *e);

static inline void wi_put_n(struct rf_buf *b, uint64_t n)
{
	rf_buf_add_n(b, n);
}
static inline void wi_put_ptr(struct rf_buf *b, const void *p)
{
	rf_buf_add_n(b, (uintptr_t)p);
}
static inline void wi_put_str(struct rf_buf *b, struct rf_str s)
{
	rf_buf_add_n(b, s.n);
	if (s.n > 0)
		rf_buf_add(b, s);
}
void wi_put_term(struct rf_buf *b, const struct rf_sched_term *t);
struct rf_sched_term wi_copy_term(struct rf_arena *a, const struct rf_sched_term *t);
/* Does this hold of a label that is, or is not, there? */
bool wi_holds(const struct rf_sched_match *m, bool there, struct rf_str value);

/* --- nodes (wish_node.c) ---------------------------------------------------------------------- */

struct filter {
	struct entry e;
	struct rf_arena a;
	struct rf_sched_pod p;	      /* what it says of nodes, and nothing else */
	struct rf_str *keys;	      /* labels that must be there */
	size_t n_keys;
	bool any_taint, any_os;	      /* these do not matter */
	uint64_t *bits;		      /* nodes that do */
	uint64_t *best;		      /* of these the ones it likes most; NULL: never asked for */
	bool stale;		      /* best is */
	uint32_t class, best_class;   /* of the fleet; 0: never asked for */
	uint32_t counts[RF_WISH_UNFITS]; /* nodes by why not, as of `counted` */
	uint64_t counted;		 /* node_changes, one more */
};

struct on { /* pods of a wish on a node */
	struct rf_wish *wish;
	uint32_t n;
};

struct wnode {
	bool there;
	struct rf_arena a;
	struct rf_sched_node v;
	RF_VEC(struct on) on; /* also of a node that is gone, until its pods are */
};

struct domain {
	char *value;
	size_t n;
	uint32_t nodes; /* 0: not used */
};

struct topo { /* a label's key */
	struct entry e;
	uint32_t *of; /* by node: its domain, or RF_FLEET_NONE */
	RF_VEC(struct domain) domains;
	RF_VEC(uint32_t) unused;
	struct rf_map by_value; /* -> number + 1 */
};

struct resource {
	struct entry e;
	int64_t *have, *used; /* by node */
	uint64_t version;     /* some of it came free */
};

/* --- pods (wish_pods.c) ----------------------------------------------------------------------- */

struct crew { /* a tenant's */
	struct entry e;
	RF_VEC(struct kind *) kinds;
	RF_VEC(struct watch *) watches; /* in the order they came */
	RF_VEC(uint64_t) kind_marks, watch_marks; /* of each of these: most need not be looked at */
};

struct kind {
	struct entry e; /* its key holds namespace and labels (wi_kind_of) */
	struct crew *crew;
	uint64_t marks; /* two bits for each label with its value; others may have the same */
	size_t at;			/* in its crew's list */
	uint32_t on;			/* pods that run */
	RF_VEC(struct watch *) watches; /* that see it, in the order they came */
	RF_VEC(struct rf_wish *) wishes;
	uint64_t base; /* versions of watches that are gone */
};

struct sight { /* all of one selector */
	bool any, all_namespaces;
	struct rf_str *namespaces;
	size_t n_namespaces;
	struct rf_sched_term labels;
};

struct watch {
	struct entry e;
	struct crew *crew;
	struct rf_arena a;
	struct sight *sights; /* it sees a pod that all of them see */
	size_t n_sights;
	uint64_t marks; /* those of labels that a pod must have to be seen */
	struct tally *tallies;
};

struct tally {
	struct tally *next; /* of the watch */
	struct watch *watch;
	struct topo *topo;
	struct filter *within; /* only nodes that do; NULL: all */
	uint32_t refs, guards; /* guards: specs whose pods keep those it sees away */
	size_t cap;	       /* of the arrays, by domain */
	uint32_t *seen, *held; /* pods seen; pods that keep others away */
	uint32_t *nodes;       /* with within: how many; else NULL */
	uint64_t n_seen, n_held;
	uint64_t came, left, moved, freed; /* versions: seen from 0, seen to 0, seen at all, held to 0 */
};

struct amount {
	struct resource *of;
	int64_t n;
};

struct spread {
	struct tally *tally;
	int64_t max_skew, min_domains;
	int64_t floor; /* the emptiest domain's, while a set is worked out */
};

struct spec {
	struct entry e;
	struct filter *filter;
	struct amount *more;
	struct tally **near, **apart;
	struct spread *spreads;
	size_t n_more, n_near, n_apart, n_spreads;
};

struct stance {
	struct entry e;
	uint64_t serial;
	struct spec *spec;
	struct watch **watches;
	size_t n_watches;
	uint32_t class[2]; /* [preferred], of one that moves; 0: none */
	uint64_t stamp[2]; /* of rf_wishes.changes */
};

struct rf_wish {
	struct entry e;
	struct stance *stance;
	struct kind *kind;
};

struct rf_wishes {
	struct rf_fleet *f;
	size_t words; /* of every set of nodes; 64 nodes each */
	RF_VEC(struct wnode) nodes;
	struct table filter_table, topo_table, resource_table, crews, kinds, watch_table, specs, stances, wishes;
	RF_VEC(struct filter *) filters;
	RF_VEC(struct topo *) topos;
	RF_VEC(struct topo *) looked; /* kept for rf_wishes_domains, oldest first */
	RF_VEC(struct resource *) resources;
	RF_VEC(struct tally *) bounded;	 /* tallies with within */
	RF_VEC(struct stance *) classed; /* with a class that moves */
	RF_VEC(uint32_t) graves;	 /* classes to free: together, because that costs the fleet all it has kept */
	uint64_t changes;		 /* of anything that a set depends on */
	uint64_t node_changes, serial, turn;
	uint32_t looks; /* a class for who only looks; 0: none yet */
	struct rf_buf key; /* to find things by, for a moment */
};

struct filter *wi_filter(struct rf_wishes *w, const struct filter *like);
void wi_filter_drop(struct rf_wishes *w, struct filter *x);
/* The first reason why this node will not do. */
enum rf_wish_unfit wi_filter_why(const struct filter *x, const struct rf_sched_node *n);
const uint32_t *wi_filter_counts(struct rf_wishes *w, struct filter *x); /* all nodes, by what it says of them */
uint32_t wi_filter_class(struct rf_wishes *w, struct filter *x, bool preferred);
const uint64_t *wi_filter_best(struct rf_wishes *w, struct filter *x);
struct topo *wi_topo(struct rf_wishes *w, struct rf_str key);
void wi_topo_drop(struct rf_wishes *w, struct topo *t);
struct resource *wi_resource(struct rf_wishes *w, struct rf_str name);
void wi_resource_drop(struct rf_wishes *w, struct resource *r);
/* Makes the fleet's class these nodes. fresh: nobody has used it yet. */
void wi_fill(struct rf_wishes *w, uint32_t class, const uint64_t *bits, bool fresh);
void wi_bury(struct rf_wishes *w, uint32_t class);
/* Arrays by node reach to this one. */
void wi_room(struct rf_wishes *w, uint32_t node);
void wi_nodes_done(struct rf_wishes *w);

struct kind *wi_kind(struct rf_wishes *w, const struct rf_sched_pod *p, struct rf_str tenant);
void wi_kind_drop(struct rf_wishes *w, struct kind *k);
struct watch *wi_watch(struct rf_wishes *w, struct crew *c, const struct sight *sights, size_t n);
void wi_watch_drop(struct rf_wishes *w, struct watch *v);
struct tally *wi_tally(struct rf_wishes *w, struct watch *v, struct topo *t, struct filter *within);
void wi_tally_drop(struct rf_wishes *w, struct tally *t);
bool wi_sees(const struct kind *k, const struct watch *v);
/* n pods of a wish come to a node (or, with sign -1, leave it), as far as tallies are concerned. */
void wi_count(struct rf_wishes *w, uint32_t node, const struct on *o, int sign);
/* A node counts in the tallies that are bounded. */
void wi_bound(struct rf_wishes *w, uint32_t node, int sign);

/* wish.c: the watches that see a kind changed. */
void wi_restance(struct rf_wishes *w, struct kind *k);

#endif
