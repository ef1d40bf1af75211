/* Private to the fleet (fleet*.c and its test). */
#ifndef RF_SCHED_FLEET_PRIVATE_H
#define RF_SCHED_FLEET_PRIVATE_H

#include "sched/fleet.h"

#define EIGHTHS RF_MIG_MEMORY_SLICES
#define MANY UINT32_MAX /* in place of one tenant or trust domain: several, so nobody's */
#define ANYBODY (MANY - 1) /* in place of a tenant that has nothing anywhere */
#define NEVER INT64_MAX /* the score of a place that does not do */
#define TYPICALS_MAX 64
#define FL_MIB_SHIFT 20
enum { NUMA, NVLINK, GROUPS }; /* how cards of a node belong together */
#define WEIGHTS 65536 /* what the typical requests' weights add up to */
#define ROOM_WEIGHT (WEIGHTS * 3 / 100)

/* --- state ------------------------------------------------------------------------------------ */

/* What a trial placement changes of a card. */
struct load {
	int64_t bytes;
	int32_t milli;
	uint16_t n_whole, n_share, n_slice; /* holdings; at most one of the three is not 0 */
	uint8_t mask;			    /* of eighths, by slices */
	uint8_t compute;		    /* slices of RF_MIG_COMPUTE_SLICES */
	uint8_t of_profile[RF_FLEET_PROFILES_MAX];
};

/* What a card is still good for; nothing where it is not there, not well or held as a whole. */
struct rest {
	int32_t free;	      /* in thousandths, of the scarcer of memory and compute */
	uint8_t bytes, milli; /* room for shares: one more than its sixteenths; 0: it is not for shares */
	uint8_t profiles;     /* of which there is a place for a slice, a bit each */
	uint8_t ways;	      /* to place a slice of any profile */
	/* Of an epoch: */
	uint64_t hosts;			/* a bit per need of the typical requests */
	int64_t worth;			/* what those of one card could have of it, each times its weight */
	int16_t usable[TYPICALS_MAX];	/* what each of these could have of what is free; 0 where there is no room for it */
};

struct card {
	struct rf_fleet_card v;
	bool there;
	struct load load;
	struct rest rest;	/* by that load */
	uint32_t trust;		/* of who has shares; MANY: they differ */
	uint32_t slicer;	/* the tenant who has slices; MANY: they differ, or nobody's */
	uint32_t slicers[EIGHTHS]; /* of the slice that begins there; 0: none does */
	uint16_t n_strict;	/* slices of those who share a card with nobody */
	uint32_t dirt[EIGHTHS]; /* who left something in memory; 0: nobody */
	bool dirty;
	uint16_t lifted[EIGHTHS]; /* holds that are lifted: what is under them will be scrubbed with them */
	uint64_t kin[GROUPS];	  /* cards of one group with it, itself among them, a bit each */
};

struct guest { /* a tenant on a node or in a rack, the cluster's own aside */
	uint32_t tenant;
	uint32_t n; /* holds */
};

struct guests {
	RF_VEC(struct guest) all;
	uint32_t n_alone; /* holds of those who share it with nobody */
};

struct rack {
	struct rf_str name; /* in the memory behind it */
	RF_VEC(uint32_t) nodes;
	struct guests guests; /* of all its nodes */
};

struct levels { /* of one node's cards of one model: its place in the index */
	uint8_t model;
	uint8_t whole, bytes, milli;
	uint8_t profiles; /* a bit each */
};

struct node {
	int64_t cpu, memory, pods; /* capacity */
	int64_t cpu_left, memory_left, pods_left;
	bool known, there, cordoned, dirty; /* not known: an unused handle */
	uint16_t kept;
	uint8_t n_cards; /* those that are gone but held are among them */
	uint8_t n_present; /* and here not */
	uint8_t n_levels;
	bool pooled;
	uint8_t policy; /* of its pool */
	struct rack *rack; /* NULL: in none */
	struct card *cards;
	struct levels *levels;
	uint64_t models; /* of cards that are there */
	uint8_t untouched; /* see rf_fleet_untouched */
	uint64_t for_shares, for_slices; /* cards with room for any such, a bit each */
	uint64_t barred; /* cards of which somebody has the NUMA node or the island for itself */
	struct guests guests;
	uint32_t first_hold; /* index + 1 */
	uint32_t n_holds;
	/* For the score, as of `scored` (an epoch of the typical requests; 0: never). */
	uint32_t scored;
	uint32_t hosted; /* the epoch of what is left of the cards */
	uint64_t stamp; /* of the lane that looked at it last */
	int64_t frag;
	int32_t total;			/* free, of all cards */
	int64_t worth;			/* of all cards */
	uint8_t count[TYPICALS_MAX];	/* per need: cards that can host it ... */
	int32_t usable[TYPICALS_MAX];	/* ... and what is free on them */
};

struct hold {
	struct rf_fleet_owner owner;
	int64_t cpu, memory;
	uint32_t node;
	uint32_t generation;
	uint32_t prev, next; /* of the node; index + 1 */
	uint16_t n;
	bool live, no_pod, somewhere, lifted;
	struct rf_fleet_grant *grants;
};

/* What one card must offer for a typical request. */
struct need {
	uint8_t kind, profile;
	int64_t bytes;
	int32_t milli;
	uint64_t models;
};

struct typical {
	uint8_t need, n;
	int64_t cpu, mib;
	int64_t weight;
};

struct habit { /* a request that is asked; owner, class and policy do not matter */
	int64_t cpu, mib;
	struct need need;
	uint8_t n;
	uint64_t count;
};

enum undo_kind { UNDO_TAKE, UNDO_GIVE, UNDO_DIRT, UNDO_HEALTH, UNDO_CORDON, UNDO_KEPT, UNDO_LIFT, UNDO_UNLIFT };
struct undo {
	enum undo_kind kind;
	uint32_t at, card; /* hold, or node and card, or node and its keeps */
	bool was;
	uint32_t dirt[EIGHTHS];
};

#define LEVEL_STEPS 17 /* whole cards: 1 .. 17; room of shares: sixteenths, 0 .. 16 */
typedef uint64_t *bitmap;

struct model_index { /* nodes whose best card of this model has at least so much */
	bitmap whole[LEVEL_STEPS], bytes[LEVEL_STEPS], milli[LEVEL_STEPS], profile[RF_FLEET_PROFILES_MAX];
	int64_t memory_max;
};

struct model {
	const struct rf_mig_profile *profiles;
	uint8_t n_profiles;
	uint8_t fits[RF_FLEET_PROFILES_MAX][256];   /* by mask of what is taken: starts that are free */
	uint8_t copies[RF_FLEET_PROFILES_MAX][256]; /* ... how often it could still be placed */
	struct model_index *index;
	uint64_t version;
	uint8_t kinds[RF_FLEET_PROFILES_MAX]; /* see rf_fleet_slice_kind */
	int32_t each[TYPICALS_MAX]; /* per need: what one takes of a card, in thousandths */
};

struct lanes;
struct known;
struct rests;
struct stock;

/* What a request may take of each kind so that it leaves enough: of the one that was weighed last (fl_weigh). */
struct spare {
	int64_t cards; /* to be touched: what is left of them, less those for cards and for shares of others, for slices and for shares of its own domain */
	int64_t needs; /* the first two of these */
	int64_t of_model[RF_FLEET_MODELS_MAX], slices[RF_FLEET_KINDS_MAX];
	int64_t lacks[RF_FLEET_KINDS_MAX]; /* slices that are kept beyond those that fit on cards that are cut */
	int64_t own_lacks[2]; /* shares that are kept in its own domain beyond the room on its cards; INT64_MIN: none are */
	/* Memory and compute of cards that are touched, and what its own domain has for its shares. INT64_MAX: it does not matter. */
	int64_t opened[2], own[2];
	uint64_t models, kinds; /* of which the amounts count */
};

struct rf_fleet {
	RF_VEC(struct node) nodes;
	RF_VEC(uint64_t) signs; /* of all that decides a node's score; 0: not known */
	RF_VEC(uint32_t) unused; /* nodes' handles */
	size_t words;		 /* of every bitmap */
	bitmap there;		 /* and not cordoned */
	bitmap dirty;
	size_t n_dirty; /* nodes in it */
	bitmap mixed; /* cards of several models */
	RF_VEC(bitmap) classes;	 /* [0] is not used */
	RF_VEC(uint32_t) unused_classes;
	struct model models[RF_FLEET_MODELS_MAX];
	uint64_t present; /* models with an index */
	struct rf_fleet_left *left; /* [1] is the most of all; nodes begin at 64 * words */
	uint64_t version; /* for requests without cards */
	int64_t untouched;
	uint64_t taken; /* moves on when something of a card is */

	RF_VEC(struct hold) holds;
	RF_VEC(uint32_t) unused_holds;
	RF_VEC(uint32_t) limbo; /* given back since a mark */

	RF_VEC(struct undo) log;
	RF_VEC(uint64_t) saved_versions; /* per mark */
	RF_VEC(size_t) floors; /* where each mark begins in the log */
	size_t marks;
	size_t n_lifted;
	bool undoing;

	struct typical typicals[TYPICALS_MAX]; /* those of one card first */
	struct need needs[TYPICALS_MAX];
	uint32_t need_mib[TYPICALS_MAX]; /* their bytes */
	int64_t need_weight[TYPICALS_MAX]; /* of those of one card that need it */
	size_t n_typicals, n_single, n_needs;
	int64_t single_weight, single_cpu, single_mib; /* of those of one card: all weights; the most that any asks for */
	uint32_t epoch;
	RF_VEC(struct habit) habits; /* as said so far, for the next epoch */

	RF_VEC(char *) names;	   /* by handle; NULL: not in use */
	RF_VEC(uint64_t) order;	   /* by handle: the lower is the first by name */
	RF_VEC(uint32_t) by_name;  /* handles */

	struct rf_map racks; /* by name */
	bool racks_matter;   /* somebody asked who shares no rack: until then nobody cares who is in one */

	struct lanes *lanes;
	struct known *known; /* NULL: nothing yet */
	struct stock *stock; /* NULL: nobody had to leave anything yet */
	struct spare spare;
	RF_VEC(const char *) kinds; /* names of profiles */
	struct rests *rests;
};

static inline uint64_t fl_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

/* --- bitmaps ---------------------------------------------------------------------------------- */

static inline bool bit_get(const uint64_t *b, uint32_t i)
{
	return b[i / 64] >> (i % 64) & 1;
}
static inline void bit_set(uint64_t *b, uint32_t i, bool on)
{
	uint64_t m = (uint64_t)1 << (i % 64);

	b[i / 64] = on ? b[i / 64] | m : b[i / 64] & ~m;
}

/* Calls body with `i` for every bit. */
#define FL_EACH_BIT(i, bits)                                                                                \
	for (uint64_t fl_left_ = (bits); fl_left_ != 0; fl_left_ &= fl_left_ - 1)                           \
		for (unsigned fl_once_ = 1, i = (unsigned)__builtin_ctzll(fl_left_); fl_once_; fl_once_ = 0)

/* --- fleet.c ---------------------------------------------------------------------------------- */

/* After any change: the card's derived figures; then the node's, the index and the lanes. */
void fl_card_changed(const struct rf_fleet *f, struct card *c);
void fl_node_changed(struct rf_fleet *f, uint32_t node);
/* Something became free for someone: moves the versions on. */
void fl_node_freed(struct rf_fleet *f, const struct node *n);
void fl_card_freed(struct rf_fleet *f, const struct card *c);
void fl_set_dirt(struct rf_fleet *f, uint32_t node, unsigned card, const uint32_t dirt[EIGHTHS]);
void fl_set_there(struct rf_fleet *f, uint32_t node);
struct levels fl_levels(const struct node *n, uint8_t model);
void fl_retire(struct rf_fleet *f, uint32_t node); /* frees the handle if nothing needs it */
static inline uint64_t fl_models(const struct rf_fleet_ask *ask)
{
	return ask->models ? ask->models : ~(uint64_t)0;
}
static inline bool fl_in_class(const struct rf_fleet *f, uint32_t class, uint32_t node)
{
	return class == 0 || (class < f->classes.n && f->classes.at[class] != NULL &&
			      bit_get(f->classes.at[class], node));
}

/* --- fleet_hold.c ----------------------------------------------------------------------------- */

/* Also in what a rollback brings back: the change stays. */
void fl_saved_freed(struct rf_fleet *f, const struct node *n);

/* --- fleet_order.c: ties end by name ------------------------------------------------------------ */

void fl_order_set(struct rf_fleet *f, uint32_t node, struct rf_str name);
void fl_order_drop(struct rf_fleet *f, uint32_t node); /* the handle is free again */
void fl_order_free(struct rf_fleet *f);

/* --- fleet_left.c: what the best machine has left ------------------------------------------------ */

void fl_left_grow(struct rf_fleet *f, size_t from, size_t to); /* so many nodes have their place */
void fl_left_changed(struct rf_fleet *f, uint32_t node);
bool fl_audit_left(const struct rf_fleet *f);

/* --- fleet_rack.c: who is on a node and in its rack -------------------------------------------- */

/* Into the rack of that name and out of any other, with all that the node holds; empty: into none. */
void fl_set_rack(struct rf_fleet *f, uint32_t node, struct rf_str name);
void fl_add_guest(struct rf_fleet *f, uint32_t node, const struct rf_fleet_owner *o);
void fl_remove_guest(struct rf_fleet *f, uint32_t node, const struct rf_fleet_owner *o);
/* All that those who ask see of it, as a number. */
uint64_t fl_sign_guests(uint64_t h, const struct guests *g);
void fl_racks_matter(struct rf_fleet *f, const struct rf_fleet_owner *o);
bool fl_audit_racks(const struct rf_fleet *f);

/* --- fleet_group.c: who is on cards that belong together ---------------------------------------- */

/* Does it share no NUMA node, or no island? */
static inline bool fl_minds_group(const struct rf_fleet_owner *o)
{
	return (o->level == RF_ISOLATION_NUMA || o->level == RF_ISOLATION_NVLINK) && !o->system;
}
/* After the node's cards changed, or who is on them. */
void fl_group_cards(const struct rf_fleet *f, struct node *n);
void fl_bar(const struct rf_fleet *f, struct node *n);
/* Cards that are closed to this owner by who is on others of their group, a bit each. groups: those that count. */
uint64_t fl_closed_by(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_owner *o, unsigned groups);
static inline uint64_t fl_closed(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_owner *o)
{
	if (fl_minds_group(o))
		return fl_closed_by(f, n, o, 1u << NUMA | 1u << NVLINK);
	return o->system ? 0 : n->barred;
}
bool fl_audit_groups(const struct rf_fleet *f, const struct node *n);

/* --- fleet_card.c: the rules of one card and one node ----------------------------------------- */

struct need fl_need(const struct rf_fleet_ask *ask, const struct rf_fleet_part *p);
bool fl_has_room(const struct rf_fleet *f, const struct card *c, const struct load *l, const struct need *need);
/* Starts of a profile that are free, a bit each; 0: none, for whatever reason. */
uint8_t fl_starts(const struct rf_fleet *f, const struct card *c, const struct load *l, unsigned profile);
/* So many more slices of the profile fit beside what is there, wherever each is. */
size_t fl_slices_left(const struct rf_fleet *f, const struct card *c, const struct load *l, unsigned profile);
uint8_t fl_mask(const struct rf_fleet *f, const struct card *c, const struct rf_fleet_grant *g);
void fl_load_add(const struct rf_fleet *f, const struct card *c, struct load *l, const struct rf_fleet_grant *g);
void fl_load_sub(const struct rf_fleet *f, const struct card *c, struct load *l, const struct rf_fleet_grant *g);
int32_t fl_load_free(const struct card *c, const struct load *l);
static inline bool fl_untouched(const struct load *l)
{
	return l->n_whole == 0 && l->n_share == 0 && l->n_slice == 0;
}
/* Does who comes onto it touch it first? In MIG mode it is for slices only, and nobody's to leave; nor is one that is not there. */
static inline bool fl_opens(const struct card *c, const struct load *l)
{
	return fl_untouched(l) && !c->v.sliced && !c->v.absent;
}
/* May this owner use the card in this way, room and dirt aside? */
bool fl_card_open(const struct card *c, const struct rf_fleet_owner *o, enum rf_fleet_kind kind);
/* Is there nothing of others in these eighths? stranger: nor of its own. */
bool fl_clean(const struct card *c, const struct rf_fleet_owner *o, uint8_t mask, bool stranger);
bool fl_node_open(const struct node *n, const struct rf_fleet_owner *o);
/* Is it kept for others? */
static inline bool fl_kept(const struct node *n, const struct rf_fleet_ask *ask)
{
	return (n->kept & ~ask->may_kept) != 0;
}
/* Everything but class and cards. */
bool fl_node_fits(const struct node *n, const struct rf_fleet_ask *ask);

/* --- fleet_rest.c: what is left of a card ------------------------------------------------------- */

extern const struct rest fl_no_rest;
struct rests *fl_rests_new(void);
void fl_rests_free(struct rests *r);
/* Of the card with this load in place of its own. It is there until the next is asked for. */
const struct rest *fl_rest(const struct rf_fleet *f, const struct card *c, const struct load *l);
/* The same, whatever is kept. */
void fl_work_out_rest(const struct rf_fleet *f, const struct card *c, const struct load *l, struct rest *ret);

/* --- fleet_stock.c: what is to be left for others ------------------------------------------------ */

/* Works out f->spare for this request, until the fleet changes. Nothing to do where it has nothing to leave. */
void fl_weigh(struct rf_fleet *f, const struct rf_fleet_ask *ask);
/* Does it leave enough with these grants on a node? And with n cards like this one? */
bool fl_spares(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask, const struct rf_fleet_grant *g,
	       size_t n_g);
bool fl_spares_cards(const struct rf_fleet *f, const struct card *c, int64_t n);
/* All of f->spare that matters to the request, as a number. */
uint64_t fl_sign_spare(const struct rf_fleet *f, const struct rf_fleet_ask *ask);
void fl_stock_free(struct stock *s);
bool fl_audit_stock(const struct rf_fleet *f);

/* --- fleet_place.c: the cards of one node ------------------------------------------------------ */

/* Nodes with the same sign have the same score for every request. */
uint64_t fl_sign(struct rf_fleet *f, uint32_t node);
/* The best way to place the request on this node, or NEVER. ret may be NULL. */
int64_t fl_place(struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask, bool stranger,
		 struct rf_fleet_place *ret);

/* --- fleet_score.c ---------------------------------------------------------------------------- */

struct touched { /* a card after a trial placement */
	uint8_t card;
	bool opened; /* it was untouched */
	const struct rest *rest;
};
static inline enum rf_fleet_policy fl_policy(const struct node *n, const struct rf_fleet_ask *ask)
{
	return n->pooled ? (enum rf_fleet_policy)n->policy : ask->policy;
}
void fl_size_needs(struct rf_fleet *f, unsigned model); /* of a model, or of a larger card of it */
int64_t fl_score(struct rf_fleet *f, struct node *n, const struct rf_fleet_ask *ask, const struct touched *t,
		 size_t n_t);

/* --- fleet_find.c ----------------------------------------------------------------------------- */

/* Does the tenant's own presence decide where it may go, besides its dirt? */
bool fl_is_personal(const struct rf_fleet_ask *ask);
bool fl_has_home(const struct rf_fleet *f, uint32_t tenant); /* its own dirt is on some node */
struct lanes *fl_lanes_new(void);
void fl_lanes_free(struct lanes *l);
void fl_lanes_changed(struct lanes *l, uint32_t node);
void fl_lanes_reset(struct lanes *l); /* all that is kept is void */
#define FL_CHANGES 65536 /* so many are remembered */
uint64_t fl_lanes_count(const struct lanes *l); /* of changes so far */
uint32_t fl_lanes_change(const struct lanes *l, uint64_t i); /* the node of the i-th */

/* --- fleet_why.c, fleet_known.c ----------------------------------------------------------------- */

/* Why its cards do not do; what of them is left. */
enum rf_fleet_unfit fl_why_cards(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask);
void fl_most_of_cards(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask,
		      struct rf_fleet_most *ret);
void fl_known_free(struct known *k);

#endif
