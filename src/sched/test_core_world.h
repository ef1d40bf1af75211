/* The cluster that the tests of the scheduler's core live through: the API's objects, the agents that scrub,
 * and control, which carries decisions out write by write and may fail or die at each of them. What is promised
 * is checked against these books alone (test_core_reference.c), never against what the core says of itself. */
#ifndef RF_SCHED_TEST_CORE_WORLD_H
#define RF_SCHED_TEST_CORE_WORLD_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/core.h"

#define GI (INT64_C(1) << 30)
#define NODES 6
#define CARDS 4
#define TENANTS 5
#define SPACES 8 /* namespaces: see test_core_world.c */
#define LEAVES (2 * TENANTS)
#define ORGS 2
#define QUEUES (LEAVES + ORGS)
#define PODS 56
#define RACKS 3
#define POOLS 2
#define GROUPS 6
#define BUDGETS 2
#define GRANTS 8
#define WRITES 512
#define PROFILES 5 /* of MIG; the first four have a quota each */
#define NOBODY (-1)
#define NONE INT64_MAX

/* --- what there is ---------------------------------------------------------------------------- */

enum res { R_CARDS, R_H100, R_A100, R_BYTES, R_MILLI, R_MIG1, R_MIG2, R_MIG3, R_MIG7, R_CPU, R_MEMORY, RES };
extern const char *const res_names[RES];

struct card {
	bool broken, sliced, fixed;
	bool hidden; /* it does not say where it is */
	bool forgotten; /* it is away, and nobody who knew it is there any more */
	int model, island, numa;
};

struct node {
	bool exists, ready, cordoned, tainted;
	bool forgotten; /* it is gone, and nobody who knew its cards is there any more */
	int zone, disk, rack, pool; /* rack, pool: 0 is none */
	int64_t cpu, memory, pods, rdma, gen;
	struct card cards[CARDS];
	int n_cards;
};

struct tenant {
	bool exists;
	enum rf_isolation isolation;
	int trust;
	int64_t cards, bytes, weight;
};

struct quota {
	bool given;
	int64_t guaranteed, limit, lending, borrowing; /* as in rf_sched_quota */
};

/* The first TENANTS leaves are the tenants' own, the next TENANTS a second one each; then the organisations. */
struct queue {
	bool exists; /* was put; a tenant's own is there without */
	int parent;  /* an organisation, or NOBODY */
	int64_t weight;
	struct quota quotas[RES];
};

struct group {
	bool exists, started, pinned;
	bool seen_whole; /* when the core came back, or before all that are left were told to go */
	/* So many were told to go and not refused, and what was left then is less than its minimum; 0: not so. */
	int64_t torn;
	int64_t torn_at; /* when the first of these was told */
	int64_t lost;	 /* who ended by itself since the last was, as told */
	int64_t ending;	  /* as written: those bound by then go as a whole */
	int64_t whole_at; /* 0: not yet */
	int space, shape, queue, zoned;
	int64_t min, rv, created, min_run, run_limit;
	int64_t broken_since; /* bound in part, and nobody is at it; 0: not so */
	char name[24];
};

struct held {
	int card, container;
	int64_t bytes, milli, start;
	int profile; /* NOBODY: no slice */
	bool whole;
};

struct place {
	int node;
	struct held held[GRANTS];
	int n;
};

/* A pod and its claim: the place in the array is used again when both are gone and the core knows it. */
struct pod {
	bool live, known, dirty; /* exists; the core was told of it; of its latest state it was not */
	bool claimed, claim_known, allocated, claim_deleting, claim_dirty, prepared;
	bool flying;	 /* decided, not yet allocated or bound: at `place` */
	bool ended, deleting, evicted, gated, pinned, patient, remade;
	bool whole; /* evicted with its gang */
	char uid[24], name[24];
	int space, shape, wish, group, queue, budget;
	int node; /* bound to */
	struct place place;
	int64_t rv, claim_rv, priority, created, started, ends, gone_at, min_run, run_limit, grace;
	int64_t fails, failed_at;
	int64_t evictions; /* since a calm began, with those of the one in whose stead it was made again */
	bool refused; /* its eviction was, the last time */
	bool lost;    /* its binding was called failed, and may be done yet */
	bool late;    /* was bound when its gang had been told to go */
	bool told_runs; /* it ran, when the core was last told */
	uint64_t serial;
	char why[400]; /* of its last wait */
};

enum write_kind { W_ANEW, W_CLAIM, W_ALLOCATE, W_BIND, W_RELEASE, W_ENDING, W_EVICT };
struct write {
	enum write_kind kind;
	int pod;
	uint64_t serial, commit;
};

enum op {
	OP_POD, OP_GROUP, OP_GANG, OP_DECIDE, OP_WRITE, OP_DELIVER, OP_SCRUB, OP_TIME, OP_END, OP_DELETE, OP_CORDON,
	OP_READY, OP_NODE, OP_LABEL, OP_CARD, OP_TENANT, OP_QUOTA, OP_QUEUE, OP_LOOP, OP_UNGROUP, OP_BUDGET, OP_STALE,
	OP_GATE, OP_CRASH, OP_FORGE, OP_CALM, OPS
};
extern const char *const op_names[OPS];

struct event {
	enum op op;
	uint64_t a, b, c;
};

struct counts {
	long events, binds, waits, releases, evicts, promised, gangs, crashes, failures, calms, slices, shares, wholes,
		restarts, checked_fits, checked_reasons, checked_victims, checked_lent, lent_models, lent_shares, lent_slices, checked_guarantees, plans_done, writes, moves, racked, vanished;
};

#define SCARCE_SEEDS (UINT64_C(1) << 40) /* from here on worlds are scarce, */
#define MIXED_SEEDS (2 * SCARCE_SEEDS)	  /* and from here on not scarce, but mixed, */
#define VANISH_SEEDS (8 * SCARCE_SEEDS)	  /* and from here on neither, but cards that break vanish */

struct world {
	struct rf_core *core, *twin; /* the twin is told the same: it must decide the same */
	struct rf_core_config config;
	struct rf_prng rng; /* of the world's making only: events carry their own */
	struct rf_arena arena, twin_arena;
	int64_t now, serial;
	bool lazy;   /* facts of others' doing arrive when OP_DELIVER says so */
	bool loud;   /* says what it does */
	bool no_fail; /* writes succeed */
	bool late_binds; /* bindings that were called failed may be done later */
	bool remake; /* evicted pods come again */
	bool racks;  /* there are racks and pools, and tenants that share no rack */
	bool patience; /* for some pods nobody is evicted */
	bool scarce; /* nodes have little CPU and memory */
	bool mixed;  /* some nodes have cards of two models */
	bool vanish; /* a card that breaks is not told of any more */
	bool grouped; /* there are cards that do not say where they are, and tenants that share no NUMA node or no island */
	struct node nodes[NODES];
	int pools[POOLS]; /* enum rf_sched_placement, one more; 0: there is none */
	uint8_t met[RACKS + 1][TENANTS]; /* who shares no rack: bit by bit, the strangers in its rack */
	struct tenant tenants[TENANTS];
	struct queue queues[QUEUES];
	struct group groups[GROUPS];
	struct pod pods[PODS];
	int64_t budgets[BUDGETS]; /* allowed; -1: there is none */
	struct write writes[WRITES];
	int n_writes;
	uint64_t commits;
	long plan_evicts, fresh_binds; /* since a turn, or a calm, began: evicted for a plan; placed, those remade aside */
	bool disturbed;		/* something from outside happened since the last plan */
	int64_t crash_at_write;	/* dies after so many writes; 0: never */
	int64_t writes_done;
	uint64_t digest; /* of all decisions */
	struct counts n;
	char why[700]; /* the promise that was broken; empty: none */
};

/* Where a test says no: the first failure stays. Returns false for the caller to return. */
bool broke(struct world *w, const char *fmt, ...) RF_PRINTF(2, 3);
#define CHECK(w, cond, ...)                                                                                 \
	do {                                                                                                \
		if (!(cond))                                                                                \
			return broke(w, __VA_ARGS__);                                                       \
	} while (0)

/* --- the world (test_core_world.c) ------------------------------------------------------------ */

void world_start(struct world *w, uint64_t seed, bool loud);
/* All tenants, sharing cards with quotas that do not bind; no nodes, no queues of their own. w: zeroed, or used before. */
void world_bare(struct world *w, const struct rf_core_config *config);
void world_add_node(struct world *w, int node, int n_cards);
void world_done(struct world *w);
/* False: a promise was broken, and why says which. */
bool world_event(struct world *w, const struct event *e);
struct event world_draw(struct rf_prng *rng);
/* Without anything from outside: to where nothing more happens. */
bool world_calm(struct world *w);
/* A core that is told everything the API has, in an order drawn from the seed. */
struct rf_core *world_retell(const struct world *w, uint64_t seed);
bool world_crash(struct world *w, uint64_t seed);
bool world_decide(struct world *w, size_t most);
bool world_write(struct world *w, bool fails);
void world_late_binds(struct world *w);
void world_deliver(struct world *w);
void world_write_groups(struct world *w);
void world_see_gangs(struct world *w); /* after a crash */
int world_new_pod(struct world *w, int space, int shape);
void world_tell_pod(struct world *w, struct pod *p);
void world_tell_node(struct world *w, int node);
void world_tell_tenant(struct world *w, int tenant);
void world_tell_pool(struct world *w, int pool);
void world_tell_queue(struct world *w, int queue);
void world_tell_group(struct world *w, int group);
void world_end_pod(struct world *w, struct pod *p);
bool world_scrub(struct world *w, struct pod *p);
void world_time(struct world *w, int64_t ms);

struct shape {
	const char *name;
	int n; /* containers */
	struct {
		int cards, slices, profile;
		int64_t bytes, milli;
	} c[2];
	int64_t cpu, memory;
	bool island, h100;
};
extern const struct shape shapes[];
extern const int n_shapes;
/* By kind; the table is in this order. */
enum { S_CPU, S_CARD, S_CARD2, S_CARD4, S_NVLINK, S_H100, S_SHARE1, S_SHARE2, S_SHARE3, S_TWO, S_MIG1, S_MIG2, S_MIG3,
       S_MIG7, S_MIGS, S_BIGCPU, S_ME, S_MIXED, SHAPES };

/* Wishes beyond cards. */
enum wish {
	WISH_NONE, WISH_ZONE, WISH_TOLERATE, WISH_AFFINE, WISH_NOT_ZONE, WISH_RDMA, WISH_APART, WISH_NEAR, WISH_SPREAD,
	WISH_ONLY, WISH_UNSUPPORTED, WISH_GEN, WISH_LABELED, WISHES
};

const char *space_name(int space);
int space_tenant(int space); /* NOBODY: of none */
bool space_system(int space);
extern const char *const tenant_names[TENANTS];
extern const char *const queue_names[QUEUES];
extern const char *const zones[2];
extern const char *const profile_names[PROFILES];
struct pod *world_find(struct world *w, struct rf_str uid);
bool card_away(const struct world *w, const struct card *c);
int64_t card_memory(const struct card *c);

/* Inside the world. */
void world_put_pod(struct rf_core *c, const struct world *w, const struct pod *p, int64_t rv, bool fresh);
void world_put_budget(struct rf_core *c, const struct world *w, int budget);
void world_tell_claim(struct world *w, struct pod *p);
void world_changed(struct world *w, struct pod *p, bool claim); /* by others: told now, or later */
void world_draw_quota(struct quota *q, int r, uint64_t b);
void world_draw_tenant(const struct world *w, struct tenant *t, uint64_t b, uint64_t c);
size_t world_decided(struct world *w, size_t most, bool *ok);

#define SAY(w, ...)                                                                                         \
	do {                                                                                                \
		if ((w)->loud) {                                                                            \
			printf("  %8" PRId64 "  ", (w)->now);                                               \
			printf(__VA_ARGS__);                                                                \
			printf("\n");                                                                       \
			fflush(stdout); /* to be read although it dies */                                    \
		}                                                                                           \
	} while (0)
#define BOTH(w, fn, ...)                                                                                    \
	do {                                                                                                \
		fn((w)->core, __VA_ARGS__);                                                                 \
		if ((w)->twin != NULL)                                                                      \
			fn((w)->twin, __VA_ARGS__);                                                         \
	} while (0)

/* --- the reference (test_core_reference.c) ---------------------------------------------------- */

static inline bool ref_ended_well(const struct pod *p)
{
	return p->ended && p->serial % 2 == 0;
}
/* Is on a node, or promised to it: bound and not ended, or with a claim, or decided. */
bool ref_there(const struct pod *p, int *ret_node);
bool ref_holds(const struct pod *p); /* cards */
/* Conservation, after every event. */
bool ref_conserved(struct world *w);
/* I6: nobody who shares no rack meets a stranger in its rack; changed: labels or tenants did, so that they may. */
bool ref_racks(struct world *w, bool changed);
/* A decision, before the world follows it. */
bool ref_bind(struct world *w, const struct rf_core_decision *d, int pod, const struct place *at);
bool ref_wishes(struct world *w, const int *pods, size_t n); /* of those that get a place together, when the world follows */
bool ref_evict(struct world *w, int pod);
bool ref_half_made(const struct world *w, const struct pod *p); /* of a gang that was never whole */
/* Members that run and were not told to go, those aside that came late; and those that were. */
int64_t ref_staying(const struct world *w, int group, int64_t *ret_going);
bool ref_is_late(const struct world *w, const struct pod *p, int64_t at); /* came to a whole gang, and is within its minimum run time */
/* May it go there, with the pods in `gone` not counted? */
bool ref_fits(const struct world *w, const struct pod *p, int node, const bool gone[PODS]);
bool ref_told_to_go(struct world *w, const struct pod *p, const struct rf_core_decision *d);
/* The same, and where. */
bool ref_place(const struct world *w, const struct pod *p, int node, const bool gone[PODS], struct place *ret);
/* Every resource on every level; at NULL: by what it asks for alone. why: what does not allow it. */
bool ref_quota_at(const struct world *w, const struct pod *p, const struct place *at, const bool gone[PODS], char *why, size_t n);
int ref_leaf(const struct world *w, const struct pod *p); /* NOBODY: none holds */
int64_t ref_asks(const struct pod *p, enum res r);
int64_t ref_used(const struct world *w, int queue, enum res r, bool pinned_only, const bool gone[PODS]);
int64_t ref_guaranteed(const struct world *w, int queue, enum res r);
int64_t ref_guaranteed_now(const struct world *w, int queue, enum res r);
bool ref_is_pinned(const struct world *w, const struct pod *p);
int64_t ref_min_run(const struct world *w, const struct pod *p);
/* At rest: nothing that waits could run (I17), guarantees are met (I3), reasons hold (I18), gangs are whole (I10). */
bool ref_at_rest(struct world *w);
bool ref_moves(struct world *w, const struct rf_core_move *m, size_t n);
bool ref_models_open(const struct world *w, const struct pod *p); /* no quota limits a model of its cards */
void ref_gangs_again(struct world *w); /* which of those that were to go as a whole are enough now */
bool ref_gangs_whole(struct world *w); /* none is bound in part, unless it is on its way */

/* --- histories and how they are made short (test_core_world.c) -------------------------------- */

/* Runs them in a process of their own; false: a promise was broken or the process died. */
bool history_run(uint64_t seed, const struct event *e, size_t n, bool loud, struct counts *add, uint64_t *digest,
		 char *why, size_t why_n);
extern int64_t history_crash_at; /* each dies after so many writes and begins again; 0: no */
/* The shortest history found that breaks the same promise, printed. */
void history_shrink(uint64_t seed, struct event *e, size_t *n, const char *why);

#endif
