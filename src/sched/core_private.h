/* Private to the core (core*.c). Facts are kept as records; what follows from them (holds in the fleet, charges
 * in the queues, who waits) is put right when it is asked for: whatever a fact touches is marked, and co_settle
 * goes through what is marked. So the order in which facts come does not matter. */
#ifndef RF_SCHED_CORE_PRIVATE_H
#define RF_SCHED_CORE_PRIVATE_H

#include "sched/core.h"
#include "sched/evict.h"
#include "sched/gang.h"
#include "sched/log.h"
#include "sched/wish.h"

#define CO_DEVICES_MAX 32 /* resource.k8s.io/v1: AllocationResultsMaxSize */
#define CO_GANG_MAX 16384 /* members of a gang that start together */
#define CO_BACKOFF_MS 1000
#define CO_BACKOFF_MAX_MS 300000
#define CO_PROMISE_FAILS 3 /* a claim whose pod cannot be bound is given up after so many attempts */
#define CO_PLANS_MAX 16
#define CO_NO_MODEL (RF_FLEET_MODELS_MAX - 1) /* of a card that only a claim has named so far */
#define CO_CLUSTER RF_LIT("cluster.ringfence.io") /* queue of what belongs to no tenant */
#define CO_LIMBO RF_LIT("limbo.ringfence.io")	  /* of what runs and whose queue is not there */

/* The resources that are there from the start; then models and profiles as they become known. */
enum { CO_CARDS, CO_BYTES, CO_MILLI, CO_CPU, CO_MEMORY, CO_PODS, CO_FIXED };
/* What a pod needs on one machine, for the queues to pass it over where none has that left: who needs whole cards, on a
 * machine that has one left. CPU in thousandths, memory in MiB. */
enum { CO_NEED_CARDS, CO_NEED_CPU, CO_NEED_MEMORY, CO_NEED_CPU_BESIDE, CO_NEED_MEMORY_BESIDE };

/* In c->freed: somebody came whom others may want to be near. Who was refused and does not look at pods (rf_wish_moves)
 * is not woken by that alone; of everything else other bits tell, too. */
#define CO_NEIGHBOURS (UINT64_C(1) << CO_PODS)

/* --- what there is ---------------------------------------------------------------------------- */

struct co_model {
	char *name; /* lower case; the key of gpu/models.h where it knows the card */
	const struct rf_gpu_model *gpu; /* NULL: unknown to it */
	int64_t resource;		/* "cards/<name>"; -1: no room in the table */
};

struct co_profile {
	char *name;
	int64_t resource; /* "mig/<name>" */
};

struct co_slot { /* a card of a node; its place never changes while the node is known */
	char *name;
	int64_t memory;
	uint8_t model;
	bool there; /* was told of, and still is */
	bool told;  /* was once: its model is known */
	bool healthy, sliced, fixed;
	uint8_t island, numa;
};

struct co_pod;
struct co_claim;

struct co_node {
	char *name;
	bool there;	     /* a node was put */
	bool cards_known;    /* devices were put */
	bool cordoned;	     /* or not ready */
	bool refit;	     /* a card of it was given back that was held as another: the fleet is to be told what it is now */
	uint32_t handle;     /* RF_FLEET_NONE: not in the fleet */
	int64_t cpu, memory, pods;
	char *rack, *pool; /* by its labels; NULL: none */
	struct co_slot *slots;
	size_t n_slots;
	struct co_pod *pods_here;     /* seated */
	struct co_claim *claims_here; /* allocated here */
	size_t n_unplaced;	      /* of these, who found a card taken */
	size_t n_holds;		      /* in the fleet */
	size_t refs;		      /* pods bound or counted here, claims */
};

struct co_tenant {
	char *name;
	uint32_t id, trust;
	bool known; /* a Tenant was put; else some namespace or claim names it */
	enum rf_isolation level;
	int64_t weight, cards, bytes;
	size_t n_waiting;
	uint64_t n_asking; /* pods that ask for cards (co_usual) */
};

struct co_ns {
	char *name;
	bool known, system;
	struct co_tenant *tenant; /* NULL: none */
	uint32_t stranger;	  /* while it is not known: a tenant of its own */
	struct co_pod *pods;
	struct co_claim *claims;
	size_t n_groups;
};

struct co_rank {
	int32_t priority;
	uint32_t n;
};

struct co_queue { /* a queue as it was put; the tree has what holds */
	char *name;
	struct rf_sched_queue v; /* in its arena */
	struct rf_arena a;
	bool put;   /* by rf_core_put_queue */
	bool own;   /* a tenant has that name: it is its own, as its quota says unless it was put */
	bool holds; /* it is in the tree as it should be */
	bool models; /* it was put with quotas of models */
	struct rf_queue *at; /* in the tree, perhaps as it was once; NULL: not there */
	size_t n_works;
	int64_t vain, plan_after; /* plans in vain since there was one, where many wait; not before */
	RF_VEC(struct co_rank) ranks; /* what runs there and may be evicted, by priority, the lowest first */
	struct co_tenant *tenant;
};

/* --- what pods ask for ------------------------------------------------------------------------ */

struct co_part { /* a container's ask */
	struct rf_str name;
	struct rf_gpu_ask ask;
	uint8_t part; /* of the fleet's ask */
};

/* What pods of one template ask for, cards and place aside from who asks. Shared, counted. */
/* Whether no node will do, whoever ends: so it was when that many facts of nodes were told. */
struct co_vain {
	uint64_t nodes;
	bool is;
};

struct co_form {
	uint32_t refs;
	int64_t cpu, memory;
	struct rf_str models;
	bool one_island;
	int64_t cards, bytes, milli, slices; /* sums */
	const char *bad; /* it cannot be asked for, and why; "": too many devices */
	uint64_t usual;	 /* weight, while co_usual looks */
	struct co_part *parts;
	size_t n_parts;
	/* For the models as known at `stamp`. */
	uint32_t stamp;
	uint64_t mask;	       /* models that will do; 0 with cards: none */
	struct rf_fleet_ask ask; /* without owner, class and models */
	struct rf_str key;
	char blob[];
};

/* One request class: form, wish and who asks. */
struct co_shape {
	struct co_shape *prev, *next; /* of all, in the order in which they came */
	uint32_t refs;
	uint64_t id;
	struct co_form *form;
	struct rf_wish *wish;
	struct co_tenant *tenant;
	bool system; /* of a daemon, or the cluster's own */
	struct rf_str facts; /* of one that asked for it, as bytes; empty: not kept */
	/* Refused when these versions were read; models: those that quotas left. */
	bool refused;
	uint64_t fleet_version, wish_version, models;
	uint16_t may_kept, why_kept;
	uint64_t leave, why_leave; /* see co_leave_sign */
	/* Why it does not fit, in words, as of these versions. */
	char *why;
	/* No plan was found for such, as of these news. */
	uint64_t planned;
	const struct co_queue *planned_queue;
	const struct co_group *planned_group;
	int32_t planned_priority;
	uint16_t planned_may;
	bool planned_preemptible, planned_patient;
	uint64_t why_fleet, why_wish, why_models, why_number;
	bool why_fits;	/* a node would do: it is in the way of others only */
	bool why_quota; /* one would, but for the quota of a model */
	bool why_never; /* none would, whoever ends */
	struct co_vain vain;
	uint64_t key[4];
};

/* --- pods and claims -------------------------------------------------------------------------- */

enum co_state {
	CO_IDLE,     /* not ours to place: gated, gone, ended, going before it was bound */
	CO_BARRED,   /* waits, and no place would help */
	CO_QUEUED,   /* its work waits */
	CO_PLACED,   /* decided; not confirmed yet */
	CO_PROMISED, /* its claim is allocated, and it is not bound */
	CO_BOUND,
};

enum co_todo { CO_NOTHING, CO_BIND, CO_RELEASE, CO_EVICT, CO_ASKED /* said, and not answered */ };

enum co_bar {
	CO_BAR_NONE,
	CO_BAR_CLAIM,	/* its claim is being removed */
	CO_BAR_TENANT,	/* its Tenant, or its namespace, is not known */
	CO_BAR_SAID,	/* unsupported, as it was told */
	CO_BAR_NOBODY,	/* cards, and no tenant */
	CO_BAR_SHARES,	/* its tenant shares no card */
	CO_BAR_DEVICES, /* more than a claim can hold */
	CO_BAR_FORM,	/* an ask that makes no sense */
	CO_BAR_QUEUE,	/* its queue is not there, not a leaf, or another's */
	CO_BAR_GROUP,	/* its group is not there */
	CO_BAR_MIN,	/* its group has too few pods */
	CO_BAR_COMMIT,	/* others of its group are on their way */
	CO_BAR_HALF,	/* a part of its group has places, the rest finds none, and that part is let go first */
	CO_BAR_PAUSE,	/* a decision failed; again later */
	CO_BAR_REFUSED, /* the queues do not take it (too much of everything) */
};

struct co_labels { /* of pods: what budgets look at. Shared, counted */
	uint32_t refs;
	size_t n;
	struct rf_sched_pair at[];
};

struct co_work;
struct co_group;

struct co_pod {
	struct rf_str uid, name; /* the text of uid is the map's */
	char *name_text;
	char *unsupported, *raw, *failure; /* NULL: none */
	struct co_ns *ns;
	struct co_pod *ns_prev, *ns_next;
	struct co_shape *shape;
	struct co_labels *labels;
	struct co_group *group;
	struct co_pod *group_prev, *group_next;
	char *queue; /* NULL: its tenant's own */
	struct co_claim *claims; /* that name it */
	struct co_claim *claim;	 /* the one that counts */
	struct co_node *node;	/* where it is bound, as told */
	/* Where it is counted, and with what. */
	struct co_node *seat;
	struct co_pod *seat_prev, *seat_next;
	uint64_t hold; /* 0: none */
	struct co_claim *held_for; /* the claim whose cards are in the hold */
	bool wished;		   /* wish_on was said */
	bool assumed_cards;	   /* the cards in the hold are as decided; no claim has said so yet */
	struct co_work *work;
	struct co_pod *work_next;
	/* Who waits: told of, or still to be. */
	struct co_pod *wait_prev, *wait_next;
	uint64_t told; /* what was told last, as a number; 0: nothing */
	int64_t told_ms;
	int64_t rv, created, started, min_run, run_limit, grace;
	int64_t again_ms; /* not before: a pause after a failure; 0: none */
	int32_t priority;
	uint16_t fails;
	uint8_t state, todo, bar, waits; /* waits: 0 no, 1 fresh, 2 told */
	bool known, ended, well, deleting, daemon, pinned, patient, gated, dirty, reown;
	bool evicting, by_priority; /* EVICT was said, or is to be */
	bool late;  /* came to its gang when that was whole */
	bool whole; /* ... and its gang goes with it, for what would stay is too little */
	/* It went while its commit was on its way: should that fail in its name, the others are to hear of it. */
	bool ghost;
	uint64_t commit; /* the number of the one in which its binding was said last */
	uint64_t shifted; /* the round in which it was counted as gone (core_plans.c) */
	bool heard;    /* a claim was told of since it was placed */
	bool flies;    /* is in the core's list of those */
	bool goes;     /* is in the core's list of those that are evicted */
	bool leaver;   /* is in the core's list of those that leave, */
	size_t leaver_at; /* there */
	bool respec;   /* what its work says of it is another */
	/* What it ran under since it has a seat, the loosest of it: its tenant may not make it harder to take back. */
	bool ran, loose; /* loose: not pinned */
	int64_t ran_min;
	bool reseat;   /* its hold is not what it should be */
};

struct co_grant {
	struct rf_str container, profile;
	int64_t bytes, milli, start;
	uint8_t slot;
	bool whole;
};

struct co_claim {
	struct rf_str ns_name, name, key; /* in the blob behind it */
	struct co_ns *ns;
	struct co_claim *ns_prev, *ns_next;
	struct co_pod *pod; /* NULL: names none */
	struct co_claim *pod_next;
	struct co_tenant *tenant; /* by its annotation */
	int64_t rv;
	bool deleting, dirty, reown;
	bool retry; /* something was given back on its node since it found a card taken */
	bool placed; /* all its cards are held, by itself or in its pod's hold */
	struct co_node *node;
	struct co_claim *node_prev, *node_next;
	uint64_t hold;	      /* of its own: its pod is not there */
	struct co_work *work; /* of its own, too */
	size_t n;
	struct co_grant *grants;
	char *blob;
};

struct co_group {
	char *name, *key;
	struct co_ns *ns;
	bool known;
	int64_t rv, min, created, min_run, run_limit;
	char *queue, *topology; /* NULL: none */
	bool pinned, started, was_whole, dirty;
	bool had_started; /* until all that is left of it were told to go; should one of them stay, it has again */
	bool says; /* its PodGroup, that it started; taken back here first, when none of it is left */
	bool listed; /* among those that time changes */
	struct co_pod *pods;
	size_t n_pods;
	struct co_work *work;	/* what waits: the gang, or what is missing of it */
	int64_t broken_ms;	/* bound in part since; 0: not so */
	int64_t again_ms;
	bool mending; /* only promises are there of it, and what is missing is to be tried */
	bool tried;   /* it was, in vain */
	size_t have; /* pods that could start, as of the last look */
	size_t going; /* it goes as a whole: so many evictions were said, and not refused */
	int64_t ending; /* since then; 0: it does not */
	int64_t ending_was; /* the last that was known: what the API says until then is no news */
	bool bereft; /* somebody before us decided that it goes: what is left is to be looked at */
};

/* Of a gang that waits: so many of it would find places at once, as of these versions. */
struct co_seats {
	uint64_t fleet, wish, quotas;
	size_t have;
	uint64_t leave;
	uint16_t may_kept;
	bool known;
	bool domains;  /* some node has the label of its topology */
	bool never;    /* no domain has room for all, whoever ends */
	bool by_quota; /* all would, but for the quota of a model */
};

/* What the queues know as one workload. */
struct co_work {
	struct rf_workload *w; /* NULL: not in the queues */
	struct co_queue *queue; /* NULL: cluster, or limbo */
	struct co_group *group; /* of a gang */
	struct co_claim *claim; /* of cards that a pod left */
	size_t left_at;		/* its place among those */
	struct co_pod *first;	/* members, those that matter most first */
	size_t n;
	int64_t min;   /* of a gang that waits: so many more are needed */
	int64_t stamp; /* ... as its group said then */
	bool tied;     /* ... and co_tied */
	bool preemptible, patient;
	bool running, alike, limbo, ranked;
	int32_t rank;
	int64_t started;
	struct co_seats seats;
	struct co_plan *plan;
	uint64_t planned; /* the news as of which no plan was found */
	int64_t plan_after, plan_pause; /* a plan of it failed: not before */
};

struct co_budget {
	struct rf_arena a;
	struct rf_sched_budget v;
	struct co_budget *next; /* of those that speak of the same label, or of no single one */
	uint64_t round;		/* of the question in which `left` was counted */
	int64_t left;
};

struct co_flight { /* of a queue: charged for what is decided and not written yet */
	const struct co_queue *queue;
	int64_t resource, amount;
};

struct co_plan { /* an eviction plan that is carried out */
	struct co_work *work;
	struct rf_arena a;
	struct rf_evict_plan plan; /* its members' users are pods, NULL: gone */
	size_t left;		   /* so many are still there */
	int64_t due;		   /* by then they should be gone */
	uint64_t news;		   /* as of which it was made, or last looked at */
};

/* Nodes that are kept for others are for who ends before, and: */
enum co_past {
	CO_PAST_NEVER,
	CO_PAST_BESIDE, /* who leaves room enough on them */
	CO_PAST_STOPPED, /* who can be stopped */
};

struct co_kept { /* a member of a workload to come: where it will be */
	uint32_t node;
	struct rf_fleet_ask ask;
};

struct co_keep {
	const struct co_work *work; /* to compare with only; NULL: none */
	int64_t start;		    /* the nodes are its own by then */
	bool due;		    /* that was, and has been noted */
	bool partial;		    /* on some of them a card is left beside it */
	RF_VEC(struct co_kept) at;
};

/* --- the core --------------------------------------------------------------------------------- */

struct rf_core {
	struct rf_core_config config;
	struct rf_fleet *fleet;
	struct rf_queues *queues;
	struct rf_wishes *wishes;
	int64_t now;

	RF_VEC(struct co_node *) by_handle; /* of the fleet */
	struct rf_map nodes, tenants, trusts, spaces, queue_map, groups, pods, claims, budgets, forms, shapes, labels;
	struct co_model models[RF_FLEET_MODELS_MAX];
	size_t n_models;
	uint32_t model_stamp;
	RF_VEC(struct co_profile) profiles;
	size_t n_limited; /* profiles of which the tenants' queues know */
	RF_VEC(char *) resources; /* names by number */
	uint32_t n_tenants, n_trusts;
	uint64_t n_shapes;
	struct rf_map pools;	      /* name -> placement, one more */
	uint64_t reshaped, usual_at; /* counts pods that came, changed what they ask, or went; co_usual looks then */
	struct co_shape *shape_first, *shape_last;
	struct co_shape *usual_next; /* the next that co_usual looks at in this walk */
	uint64_t usual_seen;	     /* reshaped, at its last step */
	uint8_t usual_walk;	     /* 0: none; 1: weighs; 2: tells the fleet */

	bool leaving; /* seats that were tried only: nothing is free by that which was not before */
	bool refits; /* some node is to be told to the fleet again (co_refit) */
	/* Marked, to be settled. */
	RF_VEC(struct co_pod *) dirty;
	RF_VEC(struct co_claim *) dirty_claims;
	RF_VEC(struct co_group *) dirty_groups;
	bool capacity_stale, queues_pending, limbo_stale;
	size_t model_quotas; /* queues that speak of a model */
	uint64_t freed;	   /* resources of which more may be free: for rf_queues_changed; CO_NEIGHBOURS */
	RF_VEC(struct co_work *) limbo;

	/* To be said: pods with a todo, in the order in which it came up. */
	RF_VEC(struct co_pod *) todo;
	/* Pods that wait: not told yet, told. */
	struct co_pod *fresh, *fresh_last, *told, *told_last;
	bool fresh_mixed;     /* not in the order of their age */
	struct co_pod *sweep; /* the next to look at again */
	bool sweeping;
	uint64_t commits; /* said so far */
	bool unfinished;  /* not all that may start was tried */
	size_t looked;	  /* nodes, for reasons, in this call */
	int64_t spoke_ms; /* when there was time for reasons */
	uint64_t ticks, swept; /* counts what may change a reason */
	uint64_t node_facts; /* what nodes are, whoever is on them */
	int64_t swept_ms, sweep_ms; /* when it began, and goes on */

	RF_VEC(struct co_pod *) paused;	  /* with again_ms */
	RF_VEC(struct co_group *) broken; /* gangs that are bound in part, or paused: listed */
	int64_t wake_ms;		  /* no sooner does time change any of these */
	int64_t ahead_ms, ahead_wake; /* not before; then also if nothing changed */
	uint64_t ahead_tick;
	struct co_keep keeps[RF_QUEUE_RESERVATIONS_MAX]; /* the i-th is bit i of the fleet's keeps */
	size_t n_keeps;
	enum co_past past; /* how nodes that are kept are looked at in this attempt */
	bool let_past;	   /* it has a place only because it can be stopped */
	bool around;	   /* one pod's place is not the best: a plan counts on that */

	RF_VEC(struct co_plan *) plans;
	RF_VEC(struct rf_evict_member) members; /* as last asked for by the planner */
	RF_VEC(struct co_pod *) flight;		/* placed; perhaps not any more only on their way */
	RF_VEC(struct co_pod *) going;		/* to be evicted, or told; perhaps gone or staying by now */
	RF_VEC(struct co_pod *) leavers;	/* bound, and leave anyway; perhaps not any more */
	RF_VEC(struct co_work *) left;		/* work of cards that a pod left */
	RF_VEC(struct rf_workload *) go_anyway;	/* of both, for the planner */
	RF_VEC(struct co_flight) flights;	/* what those are charged, for the planner */
	uint64_t news;	   /* counts settled facts */
	uint64_t plan_news; /* as of which every candidate was looked at */
	int64_t plan_ms;   /* no sooner is looked again */
	bool plan_more;	   /* not all candidates were looked at */
	int64_t plan_wake; /* time alone may make another plan possible */
	uint64_t shifts;   /* rounds in which the books are made as they will be with all plans carried out */
	bool planning;	   /* what quotas of models leave is looked at when it is known who goes */
	const struct co_group *planning_of; /* whose members are not looked at for it; NULL: of none */
	int attempts;	   /* plans that may still be looked for in this call */
	bool min_runs;	   /* somebody has a minimum run time */
	size_t n_waits;

	struct rf_map budget_of;	/* namespace, label and value -> the first such budget */
	struct co_budget *budget_any;	/* the first of those that are in no such list */
	bool budgets_listed;		/* these lists are right */
	uint64_t budget_round;
	struct rf_buf scratch;
	void (*line)(void *ctx, struct rf_str line);
	void *line_ctx;
};

/* --- core.c: names and numbers ---------------------------------------------------------------- */

bool co_is_system(struct rf_str ns);
struct co_tenant *co_tenant(struct rf_core *c, struct rf_str name); /* made where it is not */
struct co_ns *co_space(struct rf_core *c, struct rf_str name);
struct co_node *co_node(struct rf_core *c, struct rf_str name);
uint8_t co_model(struct rf_core *c, struct rf_str told);
/* "cards/h100", "mig/1g.10gb", ...; RF_INVALID: there is no such thing. */
int co_resource(struct rf_core *c, struct rf_str name, int64_t *ret, struct rf_err *err);
int64_t co_profile(struct rf_core *c, struct rf_str name); /* its resource; -1: no card has it */
/* The index of a profile in a model's table; -1: it has none of that name. */
int co_profile_of(const struct rf_core *c, unsigned model, struct rf_str name);
/* Of these models the first by name, whatever order they were heard of in; -1: there is none. */
int co_first_model(const struct rf_core *c, uint64_t models);
uint64_t co_number(struct rf_str uid); /* in the order of uids, as far as 64 bits go */
void co_tick(struct rf_core *c);

/* --- core_fact.c ------------------------------------------------------------------------------ */

/* Counts what there is of each resource, if that changed. */
void co_capacity(struct rf_core *c);
void co_refit(struct rf_core *c);
/* The place of a card, made where there is none; -1: the node has too many. */
int co_slot(struct co_node *n, struct rf_str device);
void co_node_ref(struct co_node **at, struct co_node *n, struct rf_core *c); /* *at points to n now */
void co_held(struct rf_core *c, struct co_node *n, int change);		     /* holds of the fleet on it */

/* --- core_tree.c: tenants, namespaces, queues -------------------------------------------------- */

void co_queues_settle(struct rf_core *c);
void co_space_maybe_free(struct rf_core *c, struct co_ns *s);
/* The budgets that may concern such a pod: of its i-th label, and behind the last label those of no single one. */
struct co_budget *co_budgets_of(struct rf_core *c, const struct co_pod *p, size_t i);

/* --- core_form.c: what pods ask for ----------------------------------------------------------- */

/* like: what it probably is, that of pods beside it; NULL: nobody knows. */
struct co_shape *co_shape_of(struct rf_core *c, const struct rf_sched_pod *p, struct co_ns *ns, struct co_shape *like);
void co_shape_drop(struct rf_core *c, struct co_shape *s);
struct co_labels *co_labels_of(struct rf_core *c, const struct rf_sched_pod *p);
void co_labels_drop(struct rf_core *c, struct co_labels *l);
/* The fleet's ask of such a pod, without its class. models: those that quotas leave for whole cards. False: no model does. */
bool co_ask(struct rf_core *c, struct co_shape *s, uint64_t models, struct rf_fleet_ask *ret);
struct rf_fleet_owner co_owner(const struct co_ns *ns, bool daemon);

/* --- core_usual.c ----------------------------------------------------------------------------- */

void co_usual(struct rf_core *c); /* tells the fleet what is usually asked, if that may be something else by now */
void co_usual_count(const struct co_shape *s, int change); /* so many more pods have that shape */

/* --- core_pod.c ------------------------------------------------------------------------------- */

void co_mark(struct rf_core *c, struct co_pod *p);
void co_mark_claim(struct rf_core *c, struct co_claim *k);
void co_mark_group(struct rf_core *c, struct co_group *g);
void co_pod_free(struct rf_core *c, struct co_pod *p);
void co_reshape(struct rf_core *c, struct co_pod *p); /* now that its namespace is known */
void co_claim_free(struct rf_core *c, struct co_claim *k);
struct co_group *co_group(struct rf_core *c, struct rf_str ns, struct rf_str name);
void co_group_free(struct rf_core *c, struct co_group *g);
void co_group_maybe_free(struct rf_core *c, struct co_group *g);

/* --- core_seat.c: holds in the fleet ---------------------------------------------------------- */

/* Counts the pod on this node with its claim's cards (or those decided); NULL: nowhere. */
void co_seat(struct rf_core *c, struct co_pod *p, struct co_node *n);
/* As decided, with a hold that was taken. */
void co_seat_as(struct rf_core *c, struct co_pod *p, struct co_node *n, uint64_t hold, bool cards, bool wished);
void co_seat_claim(struct rf_core *c, struct co_claim *k);
void co_unseat_claim(struct rf_core *c, struct co_claim *k);
/* The node came, or other cards: what could not be counted there is now. */
void co_reseat_node(struct rf_core *c, struct co_node *n);
bool co_claim_good(const struct co_claim *k); /* its node and cards are there and well */

/* --- core_work.c: what the queues know -------------------------------------------------------- */

struct co_charge {
	struct rf_queue_ask ask[RF_QUEUE_ASK_MAX];
	size_t n;
	bool full; /* more than fit */
};
void co_charge_add(struct co_charge *ch, int64_t resource, int64_t amount);
void co_charge_pod(struct rf_core *c, const struct co_pod *p, struct co_charge *ret); /* as it waits */
void co_charge_held(struct rf_core *c, const struct co_pod *p, struct co_charge *ret); /* as it is seated */
void co_leave_out_models(const struct rf_core *c, struct co_charge *ch);
uint64_t co_charge_shape(const struct co_charge *ch, bool held, uint64_t salt);
struct co_queue *co_queue_of(struct rf_core *c, const struct co_pod *p, bool *ret_bad);
/* A work of these pods (linked by work_next), which waits; NULL: the queues refuse it (err). */
bool co_tied(const struct co_group *g); /* who joins it has to be where some of it are already */
struct co_work *co_work_wait(struct rf_core *c, struct co_pod *first, struct co_group *g, int64_t min, int64_t size,
			     bool alike, struct rf_err *err);
/* Charges what runs: restores it, or changes what is charged. */
void co_work_run(struct rf_core *c, struct co_work *w);
void co_work_claim(struct rf_core *c, struct co_claim *k);
void co_work_free(struct rf_core *c, struct co_work *w);
/* Takes a pod out of its work; what is left runs on, or is withdrawn. */
void co_work_leave(struct rf_core *c, struct co_pod *p);
void co_work_started(struct rf_core *c, struct co_work *w); /* members that were not placed leave it */
void co_spec(struct rf_core *c, const struct co_work *w, struct co_charge *ch, struct rf_workload_spec *ret);
void co_limbo(struct rf_core *c);
bool co_preemptible(const struct co_pod *p);
bool co_may_go_all(const struct co_work *w);
bool co_pinned(const struct co_pod *p);	   /* by itself or by its group, and was whenever it ran */
int64_t co_min_run(const struct co_pod *p); /* its own or its group's, and never more than while it ran */
bool co_outranks(const struct co_work *w); /* something in its queue has a lower priority and may go */

/* --- core_settle.c ---------------------------------------------------------------------------- */

void co_settle(struct rf_core *c);
void co_look(struct rf_core *c); /* the same for who only looks */
void co_bar(struct rf_core *c, struct co_pod *p, enum co_bar bar);
enum co_bar co_barred(struct rf_core *c, struct co_pod *p);
void co_state(struct rf_core *c, struct co_pod *p, enum co_state s);
void co_todo(struct rf_core *c, struct co_pod *p, enum co_todo t);
void co_waits(struct rf_core *c, struct co_pod *p, int list); /* 0: no more; 1: to be told; 2: told */
void co_sort_fresh(struct rf_core *c);
void co_pause(struct rf_core *c, struct co_pod *p, struct rf_str why); /* after a failure */
void co_run_alone(struct rf_core *c, struct co_pod *p); /* charges it as a work of its own */
void co_wake(struct rf_core *c);			/* what time alone changes */

/* --- core_group.c ----------------------------------------------------------------------------- */

void co_group_settle(struct rf_core *c, struct co_group *g);
bool co_has_started(const struct co_group *g); /* and some of it are left */
void co_group_rejoin(struct rf_core *c, struct co_group *g);
bool co_before(const struct co_pod *a, const struct co_pod *b); /* priority, creation, uid */

/* --- core_place.c ----------------------------------------------------------------------------- */

/* Tries to start it with up to so many members. True: it did; they are CO_PLACED. */
bool co_start(struct rf_core *c, struct co_work *w, int64_t members);
/* The gang of a work, for gang.h and evict.h, in the arena. */
struct co_gang {
	struct rf_core *c;
	struct co_pod **pods;
	struct rf_gang gang;
	bool moves; /* where one is concerns the others: the wishes are told of each */
	bool tight; /* quotas of models do not leave enough for all on any model */
	int64_t room[RF_FLEET_MODELS_MAX]; /* so many cards of a model */
};
/* core_leave.c: of what kinds of cards is not all lent, by resource, a bit each? What others do not lend it, and use for nothing: it leaves
 * that to them, whatever it asks for of cards. NULL: nothing. As a number. Would who leaves l leave all of the other? */
uint64_t co_unlent(struct rf_core *c);
uint64_t co_whole_kinds(const struct rf_core *c); /* cards, of any model and of each */
const struct rf_fleet_leave *co_leave(struct rf_core *c, const struct co_work *w, struct rf_arena *a);
uint64_t co_leave_sign(const struct rf_fleet_leave *l);
bool co_leaves_all(const struct rf_fleet_leave *l, const struct rf_fleet_leave *of);
const struct rf_fleet_leave *co_leave_both(const struct rf_fleet_leave *l, const struct rf_fleet_leave *o, struct rf_arena *a); /* the more of each */

bool co_gang_of(struct rf_core *c, struct co_work *w, size_t members, uint64_t models, struct rf_arena *a,
		struct co_gang *ret);
int64_t co_cards_of_model(const struct rf_core *c, const struct rf_fleet_place *at, size_t n_places, size_t m); /* whole ones */
int64_t co_model_room(struct rf_core *c, const struct co_work *w, size_t model);
uint64_t co_models_left(struct rf_core *c, const struct co_work *w, const struct co_pod *p);
/* The place of a pod that is alone: its preferences first. Writes the ask's class. */
bool co_find(struct rf_core *c, const struct co_pod *p, struct rf_fleet_ask *ask, struct rf_fleet_place *at);
bool co_in_domain(struct rf_core *c, const struct co_work *w, uint32_t node); /* where the rest of its group is */

/* --- core_ahead.c: nodes for work to come ------------------------------------------------------ */

void co_ahead(struct rf_core *c);      /* looks ahead, if anything changed, and not all the time */
bool co_ahead_ready(const struct rf_core *c);
void co_ahead_free(struct rf_core *c);
void co_ahead_forget(struct rf_core *c, const struct co_work *w); /* it started, or is gone */
/* The keeps of others that it does not delay, and its own. */
uint16_t co_ahead_may(struct rf_core *c, const struct co_work *w);
/* Its time has come: what was let past it because it can be stopped may have to go. */
bool co_ahead_due(const struct rf_core *c, const struct co_work *w);
/* Is it worth to try so? And with these seats: does everybody they are kept for still fit? */
bool co_ahead_try(const struct rf_core *c, const struct co_work *w, enum co_past past);
bool co_ahead_allow(struct rf_core *c, const struct co_work *w);

/* --- core_why.c ------------------------------------------------------------------------------- */

/* In words, and as a number that stays while only amounts change. */
struct rf_str co_why(struct rf_core *c, struct co_pod *p, struct rf_arena *a);
uint64_t co_why_number(struct rf_core *c, struct co_pod *p, struct rf_arena *a);
struct rf_str co_why_goes(struct rf_core *c, struct co_pod *p, struct co_plan *plan, struct rf_arena *a); /* by this plan */
struct rf_str co_why_rest(const struct co_group *g, struct rf_arena *a); /* others of the gang go */

/* --- core_evict.c ----------------------------------------------------------------------------- */

bool co_leaves(const struct co_pod *p); /* by itself or because it was evicted: its place is free soon */
void co_leaver(struct rf_core *c, struct co_pod *p); /* to be called when that may have become true of it */
void co_leaver_drop(struct rf_core *c, struct co_pod *p);
void co_fly(struct rf_core *c, struct co_pod *p); /* it was placed */
void co_plans_seen(struct rf_core *c);
void co_plans_review(struct rf_core *c); /* what was not said yet, and facts came in between */
bool co_plan(struct rf_core *c); /* nothing starts by itself: true if something is to be said now */
int64_t co_plan_next(const struct rf_core *c);
void co_evict_failed(struct rf_core *c, struct co_pod *p, struct rf_str why);
void co_evict_again(struct rf_core *c, struct co_pod *p); /* after its pause: others of its gang went already */
void co_evict_rest(struct rf_core *c, struct co_group *g); /* as was decided before a restart */
void co_evict_half(struct rf_core *c, struct co_group *g); /* it cannot be completed */
void co_evict_unsaid(struct rf_core *c, struct co_group *g);
void co_evict_none(struct rf_core *c, struct co_group *g);
void co_evict_review(struct rf_core *c, struct co_group *g); /* it is a gang again: who was refused stays */
bool co_may_go(void *core, const struct rf_evict_member *const *go, size_t n); /* do disruption budgets allow it? */
struct rf_str co_why_evict(struct rf_core *c, struct co_pod *p, struct rf_arena *a, enum rf_core_cause *ret_cause);

/* --- core_plans.c ----------------------------------------------------------------------------- */

void co_plan_drop(struct rf_core *c, struct co_plan *p);
void co_plans_forget(struct rf_core *c, struct co_pod *victim); /* it is gone */
void co_plan_inherit(struct rf_core *c, struct co_work *w); /* it is tried before others like it */
/* The i-th that is refused with it though all are gone whom its plan takes; NULL: there is no more. */
struct co_work *co_plan_behind(struct rf_core *c, const struct co_work *w, size_t i);
bool co_plan_take(struct rf_core *c, struct co_work *w); /* the very places of its plan; false: some seats may be taken */
/* Does somebody's plan count on this node, or on one of its seats? */
bool co_plans_on(const struct rf_core *c, const struct co_work *w, uint32_t node);
bool co_plans_meet(const struct rf_core *c, const struct co_work *w);
/* May they be taken without making somebody's plan impossible? */
bool co_plans_allow(struct rf_core *c, const struct co_work *w);
bool co_plans_spare(struct rf_core *c, const struct co_work *w); /* and with what quotas leave then? */
void co_plans_hide(struct rf_core *c, const struct co_work *w); /* inside a mark: their nodes are not to be had */
bool co_plan_failed(struct rf_core *c, struct co_work *w);	 /* it was refused although all are gone */

/* --- core_audit.c ----------------------------------------------------------------------------- */

void co_log(struct rf_core *c, const struct rf_log_event *e);
/* CO_LOG(c, RF_LOG_NODE, .node = *v); */
#define CO_LOG(c, k, ...)                                                                                   \
	do {                                                                                                \
		if ((c)->line != NULL)                                                                      \
			co_log((c), &(struct rf_log_event){ .kind = (k), .t = (c)->now, __VA_ARGS__ });      \
	} while (0)
int co_audit(struct rf_core *c, struct rf_err *err);

#endif
