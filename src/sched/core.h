/* core: the scheduler. Facts in (rf_core_put_*, as control reads them from the API), decisions out
 * (rf_core_decide). It joins the fleet (fleet.h: where something fits, on which exact cards), the queues
 * (queue.h: whose turn it is, what may be lent and taken back), the nodes' and pods' wishes (wish.h) and
 * gangs and evictions (gang.h, evict.h).
 *
 * Pure: time is an argument, no I/O, no randomness, integers only; the same events give the same decisions.
 * Nothing is done where nothing happened: the cost of decide is that of what changed since.
 *
 * A decision is taken as done at once. The caller carries it out and either hears of it by a fact (the
 * bound pod, its claim) or says rf_core_failed. A restart tells the facts again, in any order; what was
 * promised (an allocated claim) is kept. */
#ifndef RF_SCHED_CORE_H
#define RF_SCHED_CORE_H

#include "sched/fleet.h"
#include "sched/queue.h"
#include "sched/sched.h"

struct rf_core_config {
	enum rf_fleet_policy policy;
	enum rf_reclaim reclaim;
	int64_t half_life_ms, entry_ms;	   /* of usage: queue.h */
	/* Who waits for so many cards together (a pod, or the minimum of a gang) and longer than reserve_after_ms gets
	 * a date and the nodes it will have then (core_ahead.c), at most reserve_most at a time, one of each queue. A
	 * whole machine's cards: what needs one finds none by chance while smaller work takes every card that is free. */
	int64_t reserve_after_ms, reserve_cards, reserve_most;
	int64_t tell_ms; /* a reason that changed is told again, at most so often; 0: only the first one is */
	int64_t gang_window_ms; /* a gang that is bound in part and cannot be completed is taken back after it */
	size_t victims_most;	/* of one plan */
};
void rf_core_config_default(struct rf_core_config *c);

struct rf_core;
struct rf_core *rf_core_new(const struct rf_core_config *config);
void rf_core_free(struct rf_core *c);
RF_DEFINE_AUTO_PTR(core);

/* --- facts: copied when told; telling the same again replaces it; an older rv does not ---------- */

void rf_core_put_node(struct rf_core *c, const struct rf_sched_node *n);
void rf_core_del_node(struct rf_core *c, struct rf_str name);
/* All cards of a node, at once. */
void rf_core_put_devices(struct rf_core *c, struct rf_str node, const struct rf_sched_device *devices, size_t n);
/* How places are chosen on the nodes that name it (RF_POOL_LABEL); those of no pool, or of one that is not there,
 * go by the config's policy. Told before its nodes or after. */
void rf_core_put_pool(struct rf_core *c, const struct rf_sched_pool *p);
void rf_core_del_pool(struct rf_core *c, struct rf_str name);
/* Makes its queue too, of its name, with its quota as limits, unless a queue of that name was put. */
void rf_core_put_tenant(struct rf_core *c, const struct rf_tenant *t);
void rf_core_del_tenant(struct rf_core *c, struct rf_str name);
/* tenant empty: belongs to none. */
void rf_core_put_namespace(struct rf_core *c, struct rf_str name, struct rf_str tenant);
void rf_core_del_namespace(struct rf_core *c, struct rf_str name);
/* One that makes no sense (a cycle, no such parent yet) does not hold until it does: err says why. */
int rf_core_put_queue(struct rf_core *c, const struct rf_sched_queue *q, int64_t now_ms, struct rf_err *err);
void rf_core_del_queue(struct rf_core *c, struct rf_str name, int64_t now_ms);
void rf_core_put_group(struct rf_core *c, const struct rf_sched_group *g);
void rf_core_del_group(struct rf_core *c, struct rf_str ns, struct rf_str name);
void rf_core_put_pod(struct rf_core *c, const struct rf_sched_pod *p, int64_t now_ms);
void rf_core_del_pod(struct rf_core *c, struct rf_str uid, int64_t now_ms);
/* The object holds its devices until it is gone; that it is gone says that the node scrubbed them (the
 * agent's finalizer comes off after it). */
void rf_core_put_claim(struct rf_core *c, const struct rf_sched_claim *claim);
void rf_core_del_claim(struct rf_core *c, struct rf_str ns, struct rf_str name, int64_t now_ms);
void rf_core_put_budget(struct rf_core *c, const struct rf_sched_budget *b);
void rf_core_del_budget(struct rf_core *c, struct rf_str ns, struct rf_str name);

/* --- decisions -------------------------------------------------------------------------------- */

enum rf_core_verdict {
	RF_CORE_BIND,	 /* to node, with these grants (none: no card asked for) */
	RF_CORE_WAIT,	 /* its reason to wait changed */
	RF_CORE_RELEASE, /* its claim points at what is not there any more, or at a gang that will not be whole:
			    delete the claim */
	RF_CORE_EVICT,	 /* a running pod goes, for the plan's sake; reason is for its owner */
};

enum rf_core_cause { /* of an eviction */
	RF_CORE_NO_CAUSE,
	RF_CORE_RECLAIMED,  /* ran on what was lent, and who lent it needs it */
	RF_CORE_PREEMPTED,  /* work of its own queue with a higher priority comes first */
	RF_CORE_INCOMPLETE, /* its gang could not be completed */
};

struct rf_core_decision {
	enum rf_core_verdict verdict;
	enum rf_core_cause cause;
	struct rf_str uid, ns, name, tenant; /* the pod */
	struct rf_str node;
	bool promised; /* the claim is allocated already: only bind */
	struct rf_sched_grant *grants;
	size_t n_grants;
	/* Of a gang: how many decisions after this one belong to the same commit. All claims of a commit are
	 * written before its first binding, so that a crash leaves promises, never half a gang. */
	size_t commit_left;
	/* EVICT: its group goes as a whole with it, and has to say so (ending_ms, as rf_core_ending has it) before this is
	 * carried out. BIND: its group says that it started, of which none is left, and has to take that back (as rf_core_started
	 * has it) before this commit is carried out. Empty: nothing is to be said of it. */
	struct rf_str group;
	struct rf_str reason; /* one line: text, and resource=, level=, need=, have=, help= */
};

/* The next decisions in the order in which to carry them out, at most `most` (a commit is not cut), in the
 * arena. 0: there is nothing to do until something is told or rf_core_next_ms has come, which may be now: what
 * one call tries in vain is bounded, so that others are heard in between. */
size_t rf_core_decide(struct rf_core *c, int64_t now_ms, size_t most, struct rf_arena *a,
		      struct rf_core_decision **ret);
/* When time alone may change something (a minimum run time ends, a reservation comes); INT64_MAX: never. */
int64_t rf_core_next_ms(const struct rf_core *c, int64_t now_ms);
/* A decision could not be carried out. Bind: its place is free again, with it that of its whole commit unless
 * claims say otherwise (what is left of the commit is not to be carried out; it is said again); tried again after
 * a pause that grows, and a claim whose pod cannot be bound is released in the end. Evict: the plan is dropped.
 * To be said also where the pod is gone meanwhile: cards that were decided stay held until their claim is told of
 * or this says that there is none; and where it turns out to be bound, if others of its commit are not carried out:
 * its eviction may have been said by then, and is not what failed. */
void rf_core_failed(struct rf_core *c, enum rf_core_verdict what, struct rf_str uid, struct rf_str why, int64_t now_ms);

/* --- looking ---------------------------------------------------------------------------------- */

/* Why a pod waits, now, in the words of its last WAIT decision; empty: it does not. */
struct rf_str rf_core_why(struct rf_core *c, struct rf_str uid, int64_t now_ms, struct rf_arena *a);
/* How many workloads are before it in its queue; -1: it does not wait. */
int64_t rf_core_position(struct rf_core *c, struct rf_str uid);
/* Since when its members are to go as a whole; 0: they are not, or not any more. */
int64_t rf_core_ending(const struct rf_core *c, struct rf_str ns, struct rf_str group);
/* Its minimum was bound at once, by what its PodGroup says or what was told since, and some of it are left: bound and not to
 * go as a whole, or ended well. By what was told, and decided until the last call. */
bool rf_core_started(const struct rf_core *c, struct rf_str ns, struct rf_str group);
struct rf_queues *rf_core_queues(struct rf_core *c);
struct rf_fleet *rf_core_fleet(struct rf_core *c);
/* Resource of the queues by name, a card model however it is written; -1: not known. */
int64_t rf_core_resource(const struct rf_core *c, struct rf_str name);

/* Moves that would free whole cards, from card to card of a node or to another node, and then such that make room for a
 * slice of half a card or more: nothing that is pinned, within its minimum run time, on several cards, or whose budget says
 * no, nor who would have to wait for its quota behind others; nothing from nodes that are cordoned; each pod at most once.
 * Where it goes is where the core places it when it is told of again in this order, the old ones still being there. Plans
 * only: the caller decides. */
struct rf_core_move {
	struct rf_str uid, ns, name, from, to;
	struct rf_str device; /* of `from`: the card that is free when all moves that name it are done */
	struct rf_str to_device; /* of `to`, the same node or another: the card it gets */
	struct rf_str profile;	 /* not empty: the card is not free then, but has room for one more slice of this profile */
	int64_t free_cards;   /* of all nodes, once this card's moves and those before are done */
};
size_t rf_core_defragment(struct rf_core *c, int64_t now_ms, size_t most, struct rf_arena *a,
			  struct rf_core_move **ret);

/* Past usage, kept over a restart. */
void rf_core_export(struct rf_core *c, int64_t now_ms, struct rf_buf *ret);
int rf_core_import(struct rf_core *c, struct rf_str ledger, int64_t now_ms, struct rf_err *err);

/* Every event from now on as a line of JSON (log.h), for replay. NULL: no more. */
void rf_core_log_to(struct rf_core *c, void (*line)(void *ctx, struct rf_str line), void *ctx);

/* Counts everything again, slowly, and compares. RF_INTERNAL with what differs. */
int rf_core_audit(struct rf_core *c, int64_t now_ms, struct rf_err *err);

#endif
