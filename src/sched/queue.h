/* queue: whose work comes next, and what may be lent, borrowed and taken back. A tree of queues
 * (organisation, team, tenant), each with amounts per resource; workloads wait in the leaves. Where a
 * workload goes is not decided here: rf_queues_next names the workload to try, the caller tries it
 * and says rf_queues_admit or rf_queues_refuse.
 *
 * Pure: time is an argument (milliseconds, never going back), no I/O, no randomness, integers only.
 * The same calls give the same answers; ties end in names and ids, never in the order of a map.
 *
 * The promises, for every queue on the path from a leaf to the root and every resource asked for:
 *   limit     used <= limit
 *   guarantee what cannot be preempted <= guaranteed
 *   borrowing footprint <= guaranteed + borrowing
 *   lending   sum of footprints at the root <= capacity
 * where the footprint of a queue is what it uses, or what it does not lend (guaranteed - lending) if
 * that is more. An amount that shrinks takes nothing away: the queue is over until work ends, and
 * admits nothing meanwhile that would add to it. */
#ifndef RF_SCHED_QUEUE_H
#define RF_SCHED_QUEUE_H

#include "base/base.h"

#define RF_QUEUE_NO_LIMIT INT64_MAX
#define RF_QUEUE_AMOUNT_MAX (INT64_C(1) << 56) /* of anything finite */
#define RF_QUEUE_RES_MAX 64
#define RF_QUEUE_NEEDS 5
#define RF_QUEUES_MAX 10000
#define RF_QUEUE_DEPTH_MAX 8
#define RF_QUEUE_WEIGHT_MAX 1000000
#define RF_QUEUE_ASK_MAX 16
#define RF_QUEUE_MEMBERS_MAX 100000
#define RF_QUEUE_WORKS_MAX 1000000
#define RF_QUEUE_MS_MAX (INT64_C(1) << 40) /* of any length of time: 34 years */
#define RF_QUEUE_RESERVATIONS_MAX 16

struct rf_queues;
struct rf_queue;    /* lives until rf_queues_del */
struct rf_workload; /* a workload; lives until rf_queues_remove */

/* --- configuration ----------------------------------------------------------------------- */

/* A resource is known by its place in the table: 0 is the first. */
struct rf_queue_resource {
	const char *name; /* "cards", "cards/h100", "share-bytes", "mig/1g.10gb" */
	/* A queue that says nothing about it is guaranteed any amount of it, not none: for what is
	 * counted and limited only, such as CPU. */
	bool free_by_default;
	/* Of the first resource, by another measure: cards of one model. Work that waits asks for the first one only; what it is
	 * charged when it has a place names its parts, too. What a queue is guaranteed of a part is guaranteed of the first as
	 * well, and the rest of that is for any part. */
	bool part;
	/* Of what the first resource counts, cut up: shares and slices of cards. Who is guaranteed one of these kinds, or the first,
	 * has it back from who is over its guarantee in any of them; limits, shares and lending are of each by itself. */
	bool cut;
};

struct rf_queues_config {
	const struct rf_queue_resource *resources;
	size_t n_resources;
	/* Of past usage; 0: the past does not count. What is forgotten is not made up for: whose jobs are larger is above
	 * the others most of the time, and gets more of the whole by it. Where shares are to be equal in the long run it is
	 * years, and the next two bound what the past is worth. */
	int64_t half_life_ms;
	/* Who used less by weight than those who run now is owed the rest, but no more than it would have had in so long:
	 * while nothing of it waits (0: 30 days), and while something does (0: 90 days). What is above that counts as if
	 * it had been used. */
	int64_t credit_ms, owed_ms;
	/* Running work counts as if it had run that much longer already: who is a little behind does not start jobs of
	 * weeks by the dozen before the first of them shows. */
	int64_t entry_ms;
	int64_t refresh_ms;   /* shares age in the order at least this often; 0: 1000 */
	int64_t reserve_after_ms; /* large work that waits longer is reserved for; 0: never */
	/* What makes it large: so much of the first resource for its minimum together. One member that asks for a
	 * whole machine is as hard to place as a gang. */
	int64_t reserve_amount;
	int64_t reserve_most;	  /* at most so many at a time, up to RF_QUEUE_RESERVATIONS_MAX */
	/* A queue that has had more than its share is not reserved for, but for one gang that waited as long as
	 * this, and no more than one in such a time; 0: four days */
	int64_t reserve_overdue_ms;
};
int rf_queues_new(const struct rf_queues_config *c, struct rf_queues **ret, struct rf_err *err);
void rf_queues_free(struct rf_queues *qs);
RF_DEFINE_AUTO_PTR(queues);

/* One more resource, with the next number. RF_EXHAUSTED: there are RF_QUEUE_RES_MAX. */
int rf_queues_add_resource(struct rf_queues *qs, const struct rf_queue_resource *resource, int64_t *ret,
			   struct rf_err *err);

struct rf_queue_quota {
	int64_t resource;
	/* -1 for a queue with children: the sum of theirs; for a leaf: none, or of what is free by default
	 * any amount, unless it says how much it may borrow. More than the parent has to give is cut
	 * down in proportion, as it is when the capacity falls below the sum, to whole units that add up to all of it. */
	int64_t guaranteed;
	int64_t limit;	   /* RF_QUEUE_NO_LIMIT: none; so below */
	int64_t lending;   /* of what is guaranteed and idle, so much is for others */
	int64_t borrowing; /* so much more than guaranteed */
};

struct rf_queue_spec {
	struct rf_str name;   /* DNS subdomain; one of its name in the whole tree */
	struct rf_str parent; /* empty: the top */
	int64_t weight;	      /* 1 .. RF_QUEUE_WEIGHT_MAX, of what is over the guarantees */
	const struct rf_queue_quota *quotas;
	size_t n_quotas; /* a resource not named: the children's sum guaranteed, no limit, all lent */
};
/* Makes or changes a queue. Refused, and nothing changed: a parent that is not there, one that is
 * the queue itself or below it, one that holds workloads; a tree too deep or too large; weight 0;
 * an unknown resource; a guarantee above the queue's own limit. */
int rf_queues_put(struct rf_queues *qs, const struct rf_queue_spec *spec, int64_t now,
		  struct rf_err *err);
/* RF_CONFLICT while it has children or workloads. Its past usage is remembered by its name. */
int rf_queues_del(struct rf_queues *qs, struct rf_str name, int64_t now, struct rf_err *err);
struct rf_queue *rf_queues_find(const struct rf_queues *qs, struct rf_str name);
/* What there is of a resource now: RF_QUEUE_NO_LIMIT until told, and then it is not shared out. */
int rf_queues_capacity(struct rf_queues *qs, int64_t resource, int64_t amount, struct rf_err *err);

/* --- workloads --------------------------------------------------------------------------- */

struct rf_queue_ask {
	int64_t resource;
	int64_t amount; /* of one member; more than 0 */
};

/* What one member needs on one machine, of things that the caller tells apart, in units of its own; 0: nothing, or not all
 * need the same. Small, since it is kept for every place of every heap. */
struct rf_queue_need {
	int32_t of[RF_QUEUE_NEEDS];
};

struct rf_workload_spec {
	uint64_t id;	/* the caller's; breaks ties */
	void *user;	/* the caller's */
	uint64_t shape; /* request class: workloads of a queue with the same shape ask for and need the
			     same, and one refusal holds for all of them */
	int64_t priority; /* within its own queue only */
	int64_t created_ms;
	int64_t min, size; /* of a gang: admitted with min to size members; 1 and 1: no gang */
	struct rf_queue_need need; /* see rf_queues_left */
	bool preemptible;
	bool patient; /* nothing is taken for it, but for what was let past its reservation */
	int64_t min_run_ms;   /* not taken back before it ran that long */
	int64_t run_limit_ms; /* it ends by then; 0: unknown */
	const struct rf_queue_ask *ask;
	size_t n_ask;
};
/* An unknown resource, nothing asked for, a queue with children, or the same shape with another
 * request is refused. */
int rf_queues_submit(struct rf_queues *qs, struct rf_queue *q, const struct rf_workload_spec *s,
		     struct rf_workload **ret, struct rf_err *err);
/* Work that runs already, after a restart: charged whatever the limits say. bill is what
 * rf_workload_view said when it was admitted; 0: at today's price. */
int rf_queues_restore(struct rf_queues *qs, struct rf_queue *q, const struct rf_workload_spec *s,
		      int64_t members, int64_t started_ms, uint64_t bill, int64_t now,
		      struct rf_workload **ret, struct rf_err *err);
/* Ended or withdrawn: uncharged if it ran, and freed. */
void rf_queues_remove(struct rf_queues *qs, struct rf_workload *w, int64_t now);
/* Evicted: uncharged, and waiting again with its old creation time. */
void rf_queues_requeue(struct rf_queues *qs, struct rf_workload *w, int64_t now);
/* Running work gets or gives up members: 1 .. size. Fewer always works. */
int rf_queues_resize(struct rf_queues *qs, struct rf_workload *w, int64_t members, int64_t now,
		     struct rf_err *err);
/* It started at another time than when it was admitted. */
void rf_workload_began(struct rf_workload *w, int64_t started_ms);
/* It runs where a reservation counts on: only because it can be stopped at any time, and first to go then. False:
 * it cannot be. */
bool rf_workload_let_past(struct rf_workload *w);
/* A better bound for when it ends than start + run limit; RF_QUEUE_NO_LIMIT: unknown. */
void rf_workload_ends(struct rf_workload *w, int64_t end_ms);

/* --- order ------------------------------------------------------------------------------- */

/* The workload to try next and how many members its quotas allow, or NULL: nothing that waits may
 * run now. Reservations whose time has come first; then from the root down the child that comes
 * first: what stays within its guarantee, then least usage per weight, then by name; in a leaf by
 * priority, creation, id. What is ready but does not fit is passed over. A leaf of which some were
 * tried in vain (4, or 1 if it holds many different ones) rests until the others had their turn.
 * What no machine has room for (rf_queues_left) is as if it were not there: a queue's place is that of the first
 * that some machine may have room for, and nothing was tried in vain.
 * Asked again without an answer in between it names the same. */
struct rf_workload *rf_queues_next(struct rf_queues *qs, int64_t now, int64_t *ret_members);
/* It was placed with so many members. RF_FORBIDDEN if a quota does not allow it. */
int rf_queues_admit(struct rf_queues *qs, struct rf_workload *w, int64_t members, int64_t now,
		    struct rf_err *err);
/* The same, charged from now on as this spec says (shape, ask, min, size, min_run_ms; the rest of it is not looked at): what
 * is known only once it has a place, such as the model of its cards. */
int rf_queues_admit_as(struct rf_queues *qs, struct rf_workload *w, const struct rf_workload_spec *s,
		       int64_t members, int64_t now, struct rf_err *err);
/* So much more of a resource may be charged to this leaf now, or in all to the queues above it. */
int64_t rf_queues_room(struct rf_queues *qs, const struct rf_queue *q, int64_t resource, bool preemptible,
		       int64_t now);
/* So much of it is idle and not lent to this leaf: queues beside its path keep it for themselves. */
int64_t rf_queues_kept(struct rf_queues *qs, const struct rf_queue *q, int64_t resource, int64_t now);
/* The same of the first resource and those that are part of it: each queue keeps the more of what it does of all and of the parts together. */
int64_t rf_queues_kept_first(struct rf_queues *qs, const struct rf_queue *q, int64_t now);
/* Of which resources some queue keeps some, idle or not: bit i is resource i. */
uint64_t rf_queues_keep(struct rf_queues *qs, int64_t now);
/* Each of those queues by itself, with what it keeps beyond those below it. Must not call back. */
typedef void rf_queue_keeps(void *ctx, const struct rf_queue *q, int64_t amount);
void rf_queues_keepers(struct rf_queues *qs, const struct rf_queue *leaf, int64_t resource, int64_t now, rf_queue_keeps *each, void *ctx);
/* So much of it nobody uses, whoever may have it. */
int64_t rf_queues_unused(struct rf_queues *qs, int64_t resource, int64_t now);
/* It could not be placed. Its shape rests in its queue until one of these resources changes; bit i
 * is resource i, 0 means any. */
void rf_queues_refuse(struct rf_queues *qs, struct rf_workload *w, uint64_t resources);
/* More may be free of these resources, or elsewhere: what was refused for them is tried again. */
void rf_queues_changed(struct rf_queues *qs, uint64_t resources);
/* No machine has more left than this of each: who needs more of one of them is passed over until that changes, and is
 * told why as if it had been refused. INT32_MAX, as it is at first: anybody may be tried. */
void rf_queues_left(struct rf_queues *qs, const struct rf_queue_need *most);

/* --- reclaim ----------------------------------------------------------------------------- */

enum rf_reclaim {
	RF_RECLAIM_GUARANTEE, /* to reach what is guaranteed */
	RF_RECLAIM_FAIR,      /* also to reach the fair share */
};

struct rf_victim {
	struct rf_workload *work;
	int64_t members; /* to go: all of them, or some of those above its minimum */
};

/* What could be taken back for a waiting workload, in the order in which to take it, at most `most`.
 * Only preemptible work that ran its minimum, of queues over their guarantee in what both ask for, or in any kind if both ask
 * for some (for a claim on a fair share: over their fair share in what both ask for), judged at every level below where the two
 * paths meet; in a leaf
 * lowest priority first, then most recent. A gang larger than what is over the guarantee comes
 * last, and only for a claim on a guarantee. With `whole` a gang goes as a whole; without, only its
 * members above the minimum go where it has any. */
size_t rf_reclaim_candidates(struct rf_queues *qs, struct rf_workload *w, int64_t now,
			     enum rf_reclaim policy, bool whole, struct rf_victim *ret,
			     size_t most);
/* Would it fit with these gone? Asked only where the quotas allow it. Must not call back. */
typedef bool rf_queue_fits(void *ctx, const struct rf_workload *w, const struct rf_victim *gone,
			   size_t n);
/* A smallest set of candidates with which w may be admitted with its minimum: none of its subsets
 * does (tried one by one up to 12; beyond, no single one can be left out). 0: there is none, or none
 * is needed. */
size_t rf_reclaim_plan(struct rf_queues *qs, struct rf_workload *w, int64_t now,
		       enum rf_reclaim policy, rf_queue_fits *fits, void *ctx,
		       struct rf_victim *ret, size_t most);

/* The same step by step, for a planner that knows where things run (evict.h), with one more claim: work of the same
 * leaf with a lower priority (which gives back what is asked for, or the leaf stays within its share of that). Only in
 * the books, and nothing else may be called until it is closed.
 *
 * What started since the last news (work that came, ended or was put back, other amounts or queues, the end of a
 * minimum run time, a reservation whose time has come) is not taken: while nothing new comes, whoever is taken ran
 * before, and goes once. */
struct rf_takes;
enum rf_take_kind {
	RF_TAKE_NEVER, /* listed for its members that leave anyway */
	RF_TAKE_RECLAIM,
	RF_TAKE_PRIORITY,
};
struct rf_take {
	struct rf_workload *work;
	int64_t members, min; /* that run, and its minimum */
	enum rf_take_kind kind;
	uint32_t tier; /* those of a lower one go first */
	uint32_t leaf; /* whose leaf has more goes first */
};
/* What started has been carried out, too: news. */
void rf_takes_news(struct rf_queues *qs);
/* In the books only: as if so many more members of it ran, less than 0: fewer. To see what quotas leave then; to be
 * undone. */
void rf_takes_shift(struct rf_queues *qs, const struct rf_workload *w, int64_t members, int64_t now);
/* As if it were charged so much more of something for which it does not ask by name: the model of the cards that it gets. */
void rf_takes_shift_more(struct rf_queues *qs, const struct rf_workload *w, int64_t resource, int64_t amount, int64_t now);
struct rf_takes_how { /* what it names lives until it is closed */
	enum rf_reclaim policy;
	/* All that it asks for of the first resource is to be of this part; 0: of any. Then what its queue is guaranteed of that
	 * part by name counts for it, and the quotas of the part must leave it, too. */
	int64_t part;
	/* Those wait too, and are to have their minimum beside it: others have been planned for already. What they will have
	 * counts for claims and quotas, not for who is over its guarantee. */
	struct rf_workload *const *beside;
	size_t n_beside;
	/* Of what it does not ask for itself, what those hold (amount 0) or wait for that it will go together with, as one
	 * gang. Where its queue is over with that, it has no claim: it would go again with them. */
	const struct rf_queue_ask *joins;
	size_t n_joins;
	/* Where nothing can be taken from a queue only these of it are listed: members of them leave. And whether its own queue has
	 * any of a lower priority. Not narrow: all are. */
	bool narrow, outranks;
	struct rf_workload *const *leaving;
	size_t n_leaving;
};
struct rf_takes *rf_takes_open(struct rf_queues *qs, struct rf_workload *w, int64_t now, const struct rf_takes_how *how);
/* Would it list anything of another queue that may be taken, or has the time of a reservation come? False: surely not. */
bool rf_takes_any(struct rf_queues *qs, const struct rf_workload *w, int64_t now);
/* The books are as before. NULL: nothing. */
void rf_takes_close(struct rf_takes *t);
/* All that runs (but see narrow), in the order in which to take it. */
const struct rf_take *rf_takes_all(const struct rf_takes *t, size_t *ret_n);
/* How many members could still be taken at all; falls with each that is, until something new comes. */
uint64_t rf_takes_potential(const struct rf_takes *t);
/* May so many more members of the i-th go, after what was taken so far? */
bool rf_takes_may(const struct rf_takes *t, size_t i, int64_t members);
void rf_takes_take(struct rf_takes *t, size_t i, int64_t members);
void rf_takes_back(struct rf_takes *t, size_t i, int64_t members);
/* May the waiting one now be admitted with its minimum? */
bool rf_takes_enough(const struct rf_takes *t);
/* Would its queue then have more of something than before and than it is guaranteed, while another is guaranteed more than it
 * has? What it got by priority would be taken back, and then there is room again for what went: so it must not go. */
bool rf_takes_grows(const struct rf_takes *t);
/* If not: would taking from the i-th help against what is in the way? */
bool rf_takes_helps(const struct rf_takes *t, size_t i);

/* --- reservations ------------------------------------------------------------------------ */

/* Reserves for large work that waits too long, the largest of each queue, in the order of the queues, of
 * those that have not had more than their share; what was reserved for stays so and comes before what is new:
 * when, at the latest, enough of what runs has ended. Until then other work is admitted only if it ends before, or may be stopped
 * at any time, or what is left over suffices; what runs only because it can be stopped is the first
 * that rf_reclaim_plan names for the gang once its time has come. To be called when things changed,
 * about every second. fits may be NULL; else the
 * places of the last call for a workload that said yes are those it is reserved with. Without bounds for what runs there is no reservation. Returns
 * how many there are. */
size_t rf_queues_plan_ahead(struct rf_queues *qs, int64_t now, rf_queue_fits *fits, void *ctx);
/* When time alone makes one more of what waits to reserve for; INT64_MAX: never. */
int64_t rf_queues_ahead_ms(const struct rf_queues *qs, int64_t now);
/* The i-th of them, the first in turn first; NULL past the last. */
struct rf_workload *rf_queues_reserved(const struct rf_queues *qs, size_t i, int64_t *ret_start_ms);
bool rf_workload_reserved(const struct rf_queues *qs, const struct rf_workload *w,
			  int64_t *ret_start_ms);

/* --- saying why -------------------------------------------------------------------------- */

enum rf_why_kind {
	RF_WHY_RUNNING,
	RF_WHY_TURN,	  /* nothing forbids it: others of its queue or other queues come first */
	RF_WHY_REFUSED,	  /* there was no place when it was tried; resources: what may help */
	RF_WHY_LIMIT,	  /* the limit of a queue on its path */
	RF_WHY_GUARANTEE, /* it cannot be preempted, and so must stay within the guarantee */
	RF_WHY_BORROWING, /* the borrowing limit of a queue on its path */
	RF_WHY_CAPACITY,  /* more than there is, or than is free */
	RF_WHY_LENDING,	  /* what is free is kept by others who do not lend it */
	RF_WHY_RESERVED,  /* it would delay a large gang that starts at until_ms */
};
enum rf_why_by {
	RF_WHY_BY_NOBODY,    /* too much in any case */
	RF_WHY_BY_OWN,	     /* work under the named queue, its own path */
	RF_WHY_BY_BORROWERS, /* work over its guarantee: this one is entitled to it */
	RF_WHY_BY_OTHERS,    /* work that this one is not entitled to */
};

struct rf_why {
	enum rf_why_kind kind;
	enum rf_why_by by;
	int64_t resource;	      /* -1: none */
	const struct rf_queue *level; /* on its own path; NULL: the cluster */
	int64_t need, have;
	uint64_t resources; /* of a refusal */
	int64_t until_ms;   /* of a reservation */
};
void rf_workload_why(struct rf_queues *qs, const struct rf_workload *w, int64_t now,
		     struct rf_why *ret);
/* The same for one resource of which it does not ask by name, and so much of it: the model of the cards that it gets. False:
 * no quota is in the way of that. */
bool rf_workload_why_of(struct rf_queues *qs, const struct rf_workload *w, int64_t resource, int64_t n, int64_t now,
			struct rf_why *ret);
/* Would it stay within what a queue on its path is guaranteed, or by this policy within the fair share of all of
 * them? Then others may have to give back for it. */
bool rf_workload_entitled(struct rf_queues *qs, const struct rf_workload *w, enum rf_reclaim policy, int64_t now);
/* The i-th queue in which something waits, in no order; NULL: there are no more. */
struct rf_queue *rf_queues_waiting(const struct rf_queues *qs, size_t i);
/* Those that wait there and are entitled or have a priority above this one, in no order, perhaps some of them twice. Of
 * many no more than so many at a time, in turn, with those that come first. Where nobody is, thousands that wait are not
 * looked at. True: not all were looked at in this round. */
struct rf_claims {
	enum rf_reclaim policy;
	int64_t above;
	size_t most;
	uint64_t round; /* not 0 */
	void (*look)(void *ctx, struct rf_workload *w);
	void *ctx;
};
bool rf_queue_claims(struct rf_queues *qs, struct rf_queue *leaf, const struct rf_claims *c, int64_t now);
/* Does the reason still hold? Looks only at what it names. */
bool rf_workload_why_holds(const struct rf_queues *qs, const struct rf_workload *w, int64_t now,
			   const struct rf_why *why);
/* One line of name=value pairs; names no queue but those on the workload's own path. */
struct rf_str rf_why_text(struct rf_arena *a, const struct rf_queues *qs, const struct rf_why *why);

/* --- looking ----------------------------------------------------------------------------- */

struct rf_queue_view {
	int64_t used, unpreemptible, footprint;
	int64_t guaranteed; /* what holds now, after cuts */
	int64_t limit;
	int64_t fair;	/* deserved: guarantees first, the rest by weight among those who ask */
	int64_t wanted; /* by what waits */
};
/* q NULL: the cluster. */
void rf_queue_view(struct rf_queues *qs, const struct rf_queue *q, int64_t resource, int64_t now,
		   struct rf_queue_view *ret);
/* Is the queue over its guarantee in something of this, which runs there, when so much less is used? */
bool rf_queue_over(struct rf_queues *qs, const struct rf_queue *q, const struct rf_queue_ask *held, size_t n_held,
		   const struct rf_queue_ask *less, size_t n_less);
/* So much of what it uses of this is over its guarantee; less than 0: so much is left of that. Of a part only what the first
 * resource says counts: 0. */
int64_t rf_queue_over_by(struct rf_queues *qs, const struct rf_queue *q, int64_t resource);
const struct rf_queue *rf_queue_parent(const struct rf_queue *q); /* NULL: it is at the top */
/* Is a queue from here up guaranteed more of this part by name than it has, so that a claim may be based on that? */
bool rf_queue_part_owed(struct rf_queues *qs, const struct rf_queue *q, int64_t part);
struct rf_str rf_queue_name(const struct rf_queue *q);
struct rf_str rf_queue_path(struct rf_arena *a, const struct rf_queue *q); /* "org/team/tenant" */
/* Usage that counts now: 2^32 is the whole cluster, times milliseconds, decayed. */
uint64_t rf_queue_usage(const struct rf_queues *qs, const struct rf_queue *q, int64_t now);

struct rf_workload_view {
	uint64_t id;
	void *user;
	struct rf_queue *queue;
	bool running;
	int64_t members, min, started_ms, end_ms;
	uint64_t bill; /* of the whole cluster in 2^32, its largest fraction over all resources */
	int64_t run_limit_ms; /* 0: unknown */
	bool stoppable;	      /* at any time */
	bool backfilled;      /* runs only because of that */
};
void rf_workload_view(const struct rf_workload *w, struct rf_workload_view *ret);
/* What one member asks for; how many there are. */
size_t rf_workload_asks(const struct rf_workload *w, const struct rf_queue_ask **ret);
bool rf_workload_alike(const struct rf_workload *a, const struct rf_workload *b); /* one refusal holds for both */

/* Counts everything again from the workloads; RF_INTERNAL, and what differs, if the books were wrong. */
int rf_queues_recount(struct rf_queues *qs, int64_t now, struct rf_err *err);

/* The ledger of past usage as text, sorted by name, and back. An import replaces what is known of the
 * queues it names; those not made yet get theirs when they are. */
void rf_queues_export(const struct rf_queues *qs, int64_t now, struct rf_buf *ret);
int rf_queues_import(struct rf_queues *qs, struct rf_str text, int64_t now, struct rf_err *err);

/* 0.5^(dt/half_life) with 63 bits behind the point. */
uint64_t rf_queue_decay(int64_t dt_ms, int64_t half_life_ms);

#endif
