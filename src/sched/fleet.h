/* The fleet: machines and their cards as one model that is kept and changed, not rebuilt. It answers where a
 * request fits best, with exact cards, counts what is taken, and can take anything back.
 *
 * Pure: no clock, no I/O, no randomness; integers only; the same calls give the same answers. Who may be
 * where besides (labels, taints, selectors) is the caller's: it keeps classes, sets of nodes, that requests
 * name. One thread at a time.
 *
 * There is one feasibility function. find, take, a plan inside a mark and rf_fleet_why all use it. */
#ifndef RF_SCHED_FLEET_H
#define RF_SCHED_FLEET_H

#include "base/base.h"
#include "gpu/models.h"
#include "tenant/tenant.h"

#define RF_FLEET_CARDS_MAX 64  /* of one node, and of one request */
#define RF_FLEET_MODELS_MAX 64 /* model ids are 0 .. 63 */
#define RF_FLEET_PARTS_MAX 8
#define RF_FLEET_PROFILES_MAX 8
#define RF_FLEET_MILLI 1000
#define RF_FLEET_NONE UINT32_MAX /* no node */
#define RF_FLEET_CPU_MAX 1000000000LL
#define RF_FLEET_MEMORY_MAX (1LL << 50)
#define RF_FLEET_KEEPS_MAX 16
#define RF_FLEET_ISLANDS 128
#define RF_FLEET_NUMA_UNKNOWN UINT8_MAX

struct rf_fleet;
struct rf_fleet *rf_fleet_new(void);
void rf_fleet_free(struct rf_fleet *f);
RF_DEFINE_AUTO_PTR(fleet);

/* --- what there is ---------------------------------------------------------------------------- */

/* A model that can be cut into slices: its profiles, in the order that requests number them. To be told before
 * the first such card; the table must outlive the fleet. Models not told of here have no slices. */
void rf_fleet_set_model(struct rf_fleet *f, unsigned model, const struct rf_mig_profile *profiles, size_t n);

/* Scores of different policies do not compare: where nodes of both would do, those of the earlier one come first. */
enum rf_fleet_policy {
	RF_FLEET_FRAG, /* what leaves most for those who usually ask (fleet_score.c) */
	RF_FLEET_PACK,
	RF_FLEET_SPREAD,
	RF_FLEET_FIRST, /* the first node that does */
};

/* A card of which nobody knows the NUMA node, or the island, counts as being in one with every card of its node: for
 * those who share no such group. Who needs cards of one island is told no. */
struct rf_fleet_card {
	int64_t memory; /* bytes */
	uint8_t model;
	uint8_t island; /* of cards joined by NVLink; RF_FLEET_ISLANDS and above: nobody knows to which */
	uint8_t numa;	/* RF_FLEET_NUMA_UNKNOWN: nobody knows */
	bool healthy;
	bool absent; /* not there any more: it counts for nothing but what is held of it */
	bool sliced; /* in MIG mode, and stays so: slices only */
	bool fixed;  /* not in MIG mode, and stays so: no slices. Neither: a free card may become either */
};

struct rf_fleet_node {
	struct rf_str name; /* of nodes that are equally good the first by name is chosen; none: the first that came */
	int64_t cpu_milli, memory, pods;
	const struct rf_fleet_card *cards;
	size_t n_cards;
	bool cordoned;	    /* or not ready: nothing new */
	struct rf_str rack; /* a name; empty: in none, and nothing for who shares no rack */
	bool pooled;	    /* places on it are chosen by this policy, whatever the request says */
	enum rf_fleet_policy policy;
};

/* Adds a node, or changes one (node: its handle, RF_FLEET_NONE adds). What it holds stays held, even beyond
 * the new size; a card that is gone is as one that is not healthy. New nodes are in class 0 only. Not inside
 * a mark. RF_INVALID: a size beyond the limits above. */
int rf_fleet_put_node(struct rf_fleet *f, uint32_t node, const struct rf_fleet_node *v, uint32_t *ret_node,
		      struct rf_err *err);
/* Is this card held as one of another model than was told since? It is offered as that once it is given back and told again. */
bool rf_fleet_holds_other(const struct rf_fleet *f, uint32_t node, unsigned card);
uint64_t rf_fleet_order(const struct rf_fleet *f, uint32_t node); /* the lower is the first by name; until nodes come or go */
/* Offers it no more. What it holds is still to be given back; then its handle is used again. */
void rf_fleet_del_node(struct rf_fleet *f, uint32_t node);
void rf_fleet_set_cordoned(struct rf_fleet *f, uint32_t node, bool cordoned);
/* The node, and all that are in its rack. */
void rf_fleet_cordon_rack(struct rf_fleet *f, uint32_t node);
bool rf_fleet_in_one_rack(const struct rf_fleet *f, uint32_t a, uint32_t b);
void rf_fleet_set_healthy(struct rf_fleet *f, uint32_t node, unsigned card, bool healthy);
/* These eighths of the card's memory hold nothing any more of those who left (0xff: all of it). */
void rf_fleet_scrubbed(struct rf_fleet *f, uint32_t node, unsigned card, uint8_t eighths);

/* A node that is kept for work to come: a bit for each who counts on it, 0: for nobody. Only requests that may meet
 * all of them (may_kept) are placed there. */
void rf_fleet_set_kept(struct rf_fleet *f, uint32_t node, uint16_t keeps);
uint16_t rf_fleet_kept(const struct rf_fleet *f, uint32_t node);

/* Classes: class 0 is every node and cannot be changed. Inside a mark a class may change too; that is not undone. */
uint32_t rf_fleet_class_new(struct rf_fleet *f);
void rf_fleet_class_set(struct rf_fleet *f, uint32_t class, uint32_t node, bool in);
void rf_fleet_class_free(struct rf_fleet *f, uint32_t class);

/* --- requests --------------------------------------------------------------------------------- */

/* Who asks. The rules are those of docs/architecture.md, "Isolation", and hold on both sides. */
struct rf_fleet_owner {
	uint32_t tenant; /* 0: nobody's */
	uint32_t trust;
	enum rf_isolation level;
	bool system; /* the cluster's own: meets everybody on a node */
};

enum rf_fleet_kind { RF_FLEET_CPU, RF_FLEET_WHOLE, RF_FLEET_SHARE, RF_FLEET_SLICE };

struct rf_fleet_part {
	enum rf_fleet_kind kind; /* not RF_FLEET_CPU */
	uint8_t n;		 /* cards, shares or slices, each alike */
	uint8_t profile;	 /* RF_FLEET_SLICE: index into the model's table */
	bool one_island;	 /* RF_FLEET_WHOLE: all in one NVLink island */
	bool apart;		 /* RF_FLEET_SHARE: each on a card of its own */
	int64_t bytes, milli;	 /* RF_FLEET_SHARE, each */
};

/* What is not lent to who asks. What it touches first, or cuts off, leaves so much of each kind for those who keep it; of a kind of
 * which there is less already it takes nothing more. A pod of several cards has all or none of them of a model. */
#define RF_FLEET_KINDS_MAX 64 /* of slices: names of profiles, of whichever models */
struct rf_fleet_leave {
	int64_t cards; /* untouched (rf_fleet_untouched) */
	uint64_t models; /* a bit for each of which there is an amount; so in kinds */
	int64_t of_model[RF_FLEET_MODELS_MAX]; /* untouched cards */
	uint64_t kinds;
	int64_t slices[RF_FLEET_KINDS_MAX]; /* that could be had, by rf_fleet_slice_kind */
	const struct rf_fleet_leave_share {
		uint32_t trust; /* each once. On cards that hold shares of this domain; 0: on no such. Or on untouched ones */
		int64_t bytes, milli;
	} *shares;
	size_t n_shares;
};
/* Of profiles of this name; RF_FLEET_KINDS_MAX: no model has one, or there were too many before it. */
unsigned rf_fleet_slice_kind(const struct rf_fleet *f, struct rf_str profile);

struct rf_fleet_ask {
	struct rf_fleet_owner owner;
	int64_t cpu_milli, memory; /* and one pod */
	uint64_t models;	   /* a bit for each that will do; 0: any */
	uint32_t class;
	bool no_pod; /* of a take: cards that a pod left behind, and no pod */
	bool somewhere; /* of a take: it also has cards there of which nobody knows which they are */
	uint16_t may_kept; /* also on nodes that are kept for these */
	const struct rf_fleet_leave *leave; /* NULL: nothing. Two that are the same in gang.h are the same one */
	enum rf_fleet_policy policy;
	uint8_t n_parts; /* 0: no cards */
	struct rf_fleet_part parts[RF_FLEET_PARTS_MAX];
};
/* RF_INVALID: it makes no sense (nothing can ever fit it). */
int rf_fleet_check(const struct rf_fleet_ask *ask, struct rf_err *err);

struct rf_fleet_grant {
	uint8_t card;
	uint8_t part; /* of the request */
	uint8_t kind; /* enum rf_fleet_kind */
	uint8_t profile;
	uint8_t start; /* RF_FLEET_SLICE: the first memory slice */
	int64_t bytes, milli;
};

struct rf_fleet_place {
	uint32_t node;
	uint32_t n;
	int64_t score; /* lower is better; compares within one request only */
	struct rf_fleet_grant grants[RF_FLEET_CARDS_MAX];
};

/* The best place, ties by the lower handle; false: there is none. Does not learn and takes nothing. */
bool rf_fleet_find(struct rf_fleet *f, const struct rf_fleet_ask *ask, struct rf_fleet_place *ret);
/* The same for one node; the score is what find compares. */
bool rf_fleet_find_on(struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask,
		      struct rf_fleet_place *ret);

/* No more than this many such requests find room on the node together: a bound to rule things out with, never
 * less than what fits. It only grows when something is given back or scrubbed. */
size_t rf_fleet_room_on(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask);
/* The same were the node empty and its cards well. */
size_t rf_fleet_room_ever(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask);
/* No node that is there and not cordoned has more left of any one of these, whoever asks. */
struct rf_fleet_left {
	int64_t cards; /* untouched */
	int64_t cpu_milli, memory;
	struct {
		int64_t cpu_milli, memory;
	} beside; /* of nodes that have an untouched card */
};
struct rf_fleet_left rf_fleet_left(const struct rf_fleet *f);
/* Cards of nodes that are there of which nobody holds anything, well or not, cordoned or not; without those in MIG mode. */
int64_t rf_fleet_untouched(const struct rf_fleet *f);
/* So many of them the request may touch first, whatever else keeps it from them. */
int64_t rf_fleet_may_open(struct rf_fleet *f, const struct rf_fleet_ask *ask);
uint32_t rf_fleet_handles(const struct rf_fleet *f); /* nodes' handles are below */
/* False: whoever goes, never there (class, cordon, size and models of the node). */
bool rf_fleet_could(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask);
bool rf_fleet_has_card(const struct rf_fleet *f, uint32_t node, unsigned card);
/* So many more slices of the profile would fit on the card together, whoever asks. */
size_t rf_fleet_slices_on(const struct rf_fleet *f, uint32_t node, unsigned card, unsigned profile);
/* The nodes of its rack, itself among them, where somebody may keep this owner out of all of it; 0: nobody does. */
size_t rf_fleet_rack_shut(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_owner *o, const uint32_t **ret);
/* Does that hold? And how many on a node do? */
bool rf_fleet_keeps_out(const struct rf_fleet *f, uint64_t hold, const struct rf_fleet_owner *o);
size_t rf_fleet_keep_out(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_owner *o);

enum rf_fleet_unfit {
	RF_FLEET_FITS,
	RF_FLEET_NOT_IN_CLASS,
	RF_FLEET_CORDONED,
	RF_FLEET_NO_RACK,   /* in no rack, and the tenant shares none */
	RF_FLEET_ISOLATION, /* somebody in the rack, on the node or on its cards who may not be met */
	RF_FLEET_NO_PODS,
	RF_FLEET_NO_CPU,
	RF_FLEET_NO_MEMORY,
	RF_FLEET_UNHEALTHY, /* enough cards, if they were well */
	RF_FLEET_UNSCRUBBED,
	RF_FLEET_NUMA,	    /* somebody on cards of the same NUMA node who may not be met there */
	RF_FLEET_NVLINK,    /* ... on cards joined to them by NVLink */
	RF_FLEET_TAKEN,	    /* room enough on no card, or on too few */
	RF_FLEET_APART,	    /* enough cards, but not on one NVLink island */
	RF_FLEET_KEPT,	    /* it would fit, and the node is kept for others */
	RF_FLEET_UNLENT,    /* it would fit, and has to leave that to others */
	RF_FLEET_NO_MODEL,  /* from here on: not even if the node were empty. No card of these models */
	RF_FLEET_TOO_SMALL,
	RF_FLEET_UNJOINED, /* enough cards, and no NVLink island with so many */
	RF_FLEET_MIG,	   /* enough cards, were they in MIG mode, or were they not */
	RF_FLEET_UNFITS
};
/* Nodes by why they do not do; each node counts once, for the first reason that holds. */
void rf_fleet_why(struct rf_fleet *f, const struct rf_fleet_ask *ask, uint32_t ret[RF_FLEET_UNFITS]);
enum rf_fleet_unfit rf_fleet_why_on(struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask);

/* The most that any one node has left of each, of the nodes and cards that such a request may use at all (class,
 * cordons, health, isolation, models). */
struct rf_fleet_most {
	int64_t nodes;	      /* how many those are */
	int64_t cards;	      /* untouched; of one NVLink island, if that is asked for */
	int64_t slices;	      /* of the first profile that is asked for */
	int64_t bytes, milli; /* of one card, for shares */
	int64_t cpu_milli, memory, pods;
};
void rf_fleet_most(struct rf_fleet *f, const struct rf_fleet_ask *ask, struct rf_fleet_most *ret);

/* Counts nodes that were looked at for these two, in all: what asking costs. */
uint64_t rf_fleet_looks(const struct rf_fleet *f);

/* Moves on whenever something happened that may help such a request: as long as it reads the same, one that
 * was refused would be refused again. Inside a mark it is not to be kept. */
uint64_t rf_fleet_version(const struct rf_fleet *f, const struct rf_fleet_ask *ask);

/* --- taking and giving back ------------------------------------------------------------------- */

/* Takes exactly this. RF_CONFLICT if it does not fit there (any more); then nothing was taken.
 * force: a fact that the caller was told of; it counts whoever it meets and however full the node is, but a
 * card is not held in two ways at once, nor a slice twice (RF_CONFLICT). */
int rf_fleet_take(struct rf_fleet *f, const struct rf_fleet_ask *ask, const struct rf_fleet_place *at, bool force,
		  uint64_t *ret_hold, struct rf_err *err);
/* The cards are from now on not offered to others until they are scrubbed. False: there is no such hold. */
bool rf_fleet_give(struct rf_fleet *f, uint64_t hold);
/* Of a hold: where, and what. NULL: there is none. Valid until it is given back. */
const struct rf_fleet_grant *rf_fleet_hold(const struct rf_fleet *f, uint64_t hold, uint32_t *ret_node,
					   size_t *ret_n);
/* The holds on a node, newest first, at most max of them; returns how many there are. */
size_t rf_fleet_holds(const struct rf_fleet *f, uint32_t node, uint64_t *ret, size_t max);
/* A tenant accepts something else from now on: also where it is already. */
void rf_fleet_regrade(struct rf_fleet *f, uint32_t tenant, uint32_t trust, enum rf_isolation level);

/* What-if: everything since a mark (taken, given, health, cordons, keeps, scrubs) can be undone, exactly. Marks nest;
 * each ends with one of the two. A hold that a rollback brings back has its old number. */
size_t rf_fleet_mark(struct rf_fleet *f);
void rf_fleet_rollback(struct rf_fleet *f, size_t mark);
void rf_fleet_keep(struct rf_fleet *f, size_t mark);
/* Inside a mark that will be rolled back: what if this hold were not there, and all scrubbed that it had? Undone
 * one by one, in any order, and by the rollback. False: there is no such hold, or it is not lifted. */
bool rf_fleet_lift(struct rf_fleet *f, uint64_t hold);
bool rf_fleet_unlift(struct rf_fleet *f, uint64_t hold);

/* --- who usually asks ------------------------------------------------------------------------- */

/* The policy RF_FLEET_FRAG needs to know what requests are typical. They are said one by one, in any order, each with
 * its weight (at most 2^32); then these replace the ones before, unless they are nearly the same: scores that are
 * known stay good then. Where nothing was said, or only one kind of request, it packs. */
void rf_fleet_asked(struct rf_fleet *f, const struct rf_fleet_ask *ask, uint64_t weight);
void rf_fleet_typical(struct rf_fleet *f);

/* --- looking ---------------------------------------------------------------------------------- */

struct rf_fleet_usage {
	int64_t cards, healthy; /* of nodes that are there */
	int64_t milli;		/* granted: whole cards 1000, slices by their eighths of memory */
	int64_t free_cards;	/* healthy and untouched */
	int64_t cpu_milli, cpu_free;
	size_t nodes, holds;
};
void rf_fleet_usage(const struct rf_fleet *f, struct rf_fleet_usage *ret);
/* Recounts everything from the holds and compares; false if the books are wrong. Slow. */
bool rf_fleet_audit(const struct rf_fleet *f, struct rf_err *err);

#endif
