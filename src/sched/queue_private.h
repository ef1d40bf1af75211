/* Private to the queues: records, books, heaps. */
#ifndef RF_SCHED_QUEUE_PRIVATE_H
#define RF_SCHED_QUEUE_PRIVATE_H

#include "sched/queue.h"

/* A leaf with more shapes than this is deep: shapes that do not fit step aside, so that those
 * behind them are seen. */
#define RF_QUEUE_TRIES 32
/* So many workloads of a leaf may be refused before others have their turn; of a deep one only one,
 * so that it costs others no more than that. */
#define RF_QUEUE_VAIN 4
/* Who has used more than the others by one part in so many has had its share, for reservations. */
#define RF_QUEUE_OVER 200
typedef unsigned __int128 rf_u128;

static inline bool rf_need_fits(const struct rf_queue_need *need, const struct rf_queue_need *most)
{
	bool more = false;

	for (size_t i = 0; i < RF_QUEUE_NEEDS; i++)
		more |= need->of[i] > most->of[i];
	return !more;
}

/* --- heap: the first is at[0]; items know where they are ------------------------------------ */

struct rf_heap_item {
	size_t pos; /* 1 is the first; 0: in no heap */
};
typedef bool rf_heap_before(const struct rf_heap_item *a, const struct rf_heap_item *b);
struct rf_heap {
	struct rf_heap_item **at;
	size_t n, cap;
	rf_heap_before *before;
	size_t need_at;	       /* where an item's need is, from the item; 0: nobody asks for those that fit */
	struct rf_queue_need *least; /* of each, of at[i] and of all below it in the heap: what does not fit is passed over unseen */
};
void rf_heap_put(struct rf_heap *h, struct rf_heap_item *i); /* adds it, or finds its new place */
void rf_heap_del(struct rf_heap *h, struct rf_heap_item *i); /* nothing if it is in none */
void rf_heap_all(struct rf_heap *h);			     /* every place anew */
void rf_heap_done(struct rf_heap *h);
/* So many fit, at this place and below it; or enough. */
size_t rf_heap_fits(const struct rf_heap *h, size_t i, const struct rf_queue_need *most, size_t enough);
bool rf_heap_audit(const struct rf_heap *h);

/* All of a heap that fit, in order, without changing it; the heap must stand still meanwhile. */
struct rf_walk {
	const struct rf_heap *heap;
	const struct rf_queue_need *most;
	size_t *at, n, cap;
};
void rf_walk_start(struct rf_walk *w, const struct rf_heap *h, const struct rf_queue_need *most);
struct rf_heap_item *rf_walk_next(struct rf_walk *w);

/* --- records ------------------------------------------------------------------------------- */

enum rf_vec_name {
	RF_V_CLAIM, /* guaranteed, as configured; -1: the children's sum */
	RF_V_LIMIT,
	RF_V_LENDING,
	RF_V_BORROWING,
	RF_V_SUM,   /* claim, or the sum of the children's */
	RF_V_GUAR,  /* what holds after cuts */
	RF_V_LOCAL, /* of that, what is not lent */
	RF_V_NAMED, /* guaranteed of a part by name, after cuts; 0: none */
	RF_V_USED,
	RF_V_FIXED, /* used by what cannot be preempted */
	RF_V_BELOW, /* the children's footprints */
	RF_V_FOOT,
	RF_V_WANT, /* asked for by what waits */
	RF_V_FAIR,
	RF_V_LEAST, /* no shape below that is ready asks for less */
	RF_V_COUNT
};

struct rf_look { /* whose turn it is to be looked at (rf_queue_claims) */
	size_t at, left;
	uint64_t round;
};

struct rf_queue {
	struct rf_heap_item item; /* among its parent's children that have something ready */
	struct rf_queue_need need; /* nothing below that is ready, or may be soon, needs less on one machine */
	char *name;
	struct rf_queue *parent; /* NULL: the root */
	RF_VEC(struct rf_queue *) children;
	size_t depth; /* the root: 0 */
	uint64_t serial;
	int64_t weight;
	int64_t *v[RF_V_COUNT];

	/* order */
	struct rf_heap ready; /* children; in a leaf: shapes */
	struct rf_shape *first; /* whether or not a machine has room for it */
	bool over;	     /* whatever is ready below would leave it over its guarantee */
	uint64_t vain_at; /* as of this count of helps nothing below may run; 0: not known */
	rf_u128 key;   /* what it has used by weight, when it was last put in its place */
	rf_u128 usage; /* the same, for the order of victims */

	/* ledger */
	rf_u128 past; /* bills * ms, 20 bits behind the point */
	int64_t past_ms;
	uint64_t rate; /* sum of the bills of what runs */
	uint64_t part; /* of the cluster by weight, 2^32 is all */

	/* leaf */
	size_t n_works;
	struct rf_workload *running; /* newest first */
	size_t n_min_runs;	     /* of these, with a minimum run time */
	size_t pool;		     /* its place in the order of victims, while that is made */
	struct rf_shape *held, *held_last;
	struct rf_heap *rooms; /* shapes that wait for room, by need; NULL: none yet */
	size_t n_held, n_roomed, to_scan, n_soft, n_refused;
	bool more; /* some that stepped aside may be ready: enough others were, or they are not looked at yet */
	uint64_t freed;	      /* grows when work of its own ends */
	struct rf_heap large; /* gangs that wait, the largest first, then the oldest */
	size_t soft_pos, refused_pos, waiting_pos,
		large_pos;  /* in the lists of leaves that hold such; 0: not in it */
	struct rf_look look, look_held;
	struct rf_shape *held_look; /* the next of held */
	int64_t top;	    /* nothing that waits here has a higher priority */
	size_t tries, vain; /* since its last rest: stepped aside, refused */
	uint64_t turn;	    /* the round in which it last admitted something */
	int64_t forced_ms;  /* when a gang last started that was reserved for in spite of its share */
	bool overdue;	    /* ahead is to be */
	struct rf_workload *ahead; /* of a leaf: whom to reserve for, while it is planned */
	size_t promised;	   /* its place among those who were reserved for before; SIZE_MAX: it was not */
	bool rests;
};

enum rf_hold {
	RF_HOLD_NONE,
	RF_HOLD_OWN,	 /* until work of its own leaf ends */
	RF_HOLD_SOFT,	 /* until anything ends that uses what it lacks */
	RF_HOLD_REFUSED, /* until the caller says so */
};

/* Workloads of one leaf that are alike in all but priority and age. */
struct rf_shape {
	struct rf_heap_item item;
	struct rf_queue_need need; /* of a member on one machine */
	struct rf_queue *leaf;
	uint64_t shape;
	int64_t min, size, run_limit;
	bool preemptible, stoppable; /* stoppable: at any time */
	struct rf_heap works;	     /* that wait */
	size_t refs;		     /* works that wait or run */
	enum rf_hold hold;
	uint64_t mask, held_at;
	struct rf_shape *held_prev, *held_next; /* in the leaf's list, or */
	struct rf_heap_item room;		/* among those that wait for room */
	size_t room_res;
	int64_t need_room;
	struct rf_look look; /* at its works */
	size_t n_ask;
	struct rf_queue_ask ask[];
};

struct rf_workload {
	struct rf_heap_item item;  /* in its shape, while it waits */
	struct rf_heap_item large; /* among its leaf's large gangs that wait */
	struct rf_shape *shape;
	uint64_t id;
	void *user;
	int64_t priority, created, min_run, started, end;
	int64_t members; /* 0: waits */
	uint64_t bill;	 /* of all members */
	struct rf_workload *prev, *next;
	bool patient;
	bool backfilled; /* let past a reservation because it can be stopped */
	uint64_t news;	 /* of the queues when it started */
};

struct rf_reservation {
	struct rf_workload *work;
	int64_t start;
	bool forced; /* its queue has had its share */
	int64_t spare[RF_QUEUE_RES_MAX];
};

struct rf_past { /* of a queue that is not there */
	rf_u128 past;
	int64_t past_ms;
};

struct rf_queues {
	struct rf_queues_config c;
	size_t n_res;
	char **res_names;
	bool res_free[RF_QUEUE_RES_MAX];
	uint64_t parts; /* which are parts of the first, a bit each */
	uint64_t keeps; /* of which some queue does not lend all, a bit each */
	uint64_t kinds; /* the first, and what is cut from the same */
	struct rf_queue *root;
	struct rf_map names;				/* -> struct rf_queue */
	struct rf_map shapes;				/* (leaf, shape, ...) -> struct rf_shape */
	struct rf_shape *spare; /* the last that was left by all: the next may ask for the same. NULL: none */
	struct rf_map gone;				/* name -> struct rf_past */
	RF_VEC(struct rf_queue *) order;		/* parents before children */
	RF_VEC(struct rf_queue *) soft, refused, large, waiting; /* leaves that have such */
	RF_VEC(struct rf_queue *) rested, touched;
	uint64_t serial;
	size_t n_works;
	size_t deep; /* RF_QUEUE_TRIES, or less in tests */
	bool stale;  /* guarantees, keys and heaps are to be made anew */
	bool unordered; /* keys and heaps are */
	bool fair_stale;
	int64_t refreshed;
	bool settled; /* nothing that is ready may run, but perhaps in fresh */
	struct rf_queue *fresh;
	uint64_t round; /* ends when who had its turn is to have another, while some rest */
	uint64_t ticks; /* counts what may help somebody */
	uint64_t helps; /* the same, for those who are ready: until then what may not run may not */
	struct rf_queue_need most; /* no machine has more left */
	uint64_t soft_at[RF_QUEUE_RES_MAX], changed_at[RF_QUEUE_RES_MAX];
	struct rf_reservation reserved[RF_QUEUE_RESERVATIONS_MAX];
	size_t n_reserved;
	struct rf_pass {
		struct rf_walk walk;
		bool peek;
		bool known;		      /* which is the next */
		struct rf_heap_item *next;    /* of the walk; NULL: there are no more */
		RF_VEC(struct rf_queue *) late; /* might have been within their guarantee, and are not */
		size_t n_late;		      /* of these, so many had their turn */
	} passes[RF_QUEUE_DEPTH_MAX + 2]; /* by depth */
	uint64_t news;	  /* counts what comes from outside: work that comes or ends, other amounts */
	int64_t takes_ms; /* when rf_takes_open was last called */
};

static inline bool rf_queue_is_leaf(const struct rf_queue *q)
{
	return q->children.n == 0;
}
/* a + b, where NO_LIMIT stays what it is. */
static inline int64_t rf_queue_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (a == RF_QUEUE_NO_LIMIT || b == RF_QUEUE_NO_LIMIT || __builtin_add_overflow(a, b, &sum))
		return RF_QUEUE_NO_LIMIT;
	return sum;
}
/* Of the first resource, for its minimum: what makes it large. */
static inline int64_t rf_shape_amount(const struct rf_shape *s)
{
	for (size_t i = 0; i < s->n_ask; i++)
		if (s->ask[i].resource == 0)
			return s->ask[i].amount * s->min;
	return 0;
}
static inline uint64_t rf_shape_mask(const struct rf_shape *s)
{
	uint64_t m = 0;

	for (size_t i = 0; i < s->n_ask; i++)
		m |= UINT64_C(1) << s->ask[i].resource;
	return m;
}

/* queue_tree.c */
void rf_queues_settle_tree(struct rf_queues *qs, int64_t now); /* if stale */
/* The amounts only, for who just looks: who comes first is as it would be had nobody looked. */
void rf_queues_settle_amounts(struct rf_queues *qs);

/* queue_charge.c */
void rf_charge_shift(struct rf_shape *s, int64_t members); /* books only; negative: gives back */
void rf_charge_shift_one(const struct rf_shape *s, size_t r, int64_t n); /* of one resource, whatever it asks for */
void rf_charge_foot(struct rf_queue *q, size_t r);	   /* from what it uses; not its parents */
/* RF_WHY_RUNNING: allowed. ret may be NULL. */
enum rf_why_kind rf_charge_check(const struct rf_shape *s, int64_t members, struct rf_why *ret);
int64_t rf_charge_most(const struct rf_shape *s); /* members, 0 .. size */
/* The same of one resource. */
enum rf_why_kind rf_charge_check_one(const struct rf_shape *s, size_t r, int64_t n, struct rf_why *ret);
/* Would it be within the guarantee with n more of resource r, those of the first of this part (0: of any)? */
bool rf_guar_has(const struct rf_queues *qs, const struct rf_queue *q, size_t r, int64_t n, int64_t part);
/* So much more of the first is guaranteed at most: of the right parts. */
int64_t rf_guar_left(const struct rf_queues *qs, const struct rf_queue *q);
/* So much of the first is used beyond what is guaranteed; less than 0: so much more may be of any part. */
int64_t rf_guar_over(const struct rf_queues *qs, const struct rf_queue *q);
uint64_t rf_charge_bill(const struct rf_queues *qs, const struct rf_shape *s, int64_t members);

/* queue_share.c */
void rf_ledger_to(const struct rf_queues *qs, struct rf_queue *q, int64_t now);
/* All of them; and what they are owed is cut to what may be kept. */
void rf_ledger_all(struct rf_queues *qs, int64_t now);
void rf_ledger_defaults(struct rf_queues_config *c);
rf_u128 rf_ledger_key(const struct rf_queues *qs, const struct rf_queue *q);
void rf_ledger_remember(struct rf_queues *qs, struct rf_queue *q, int64_t now);
void rf_queue_recall(struct rf_queues *qs, struct rf_queue *q, int64_t now);
void rf_share_fill(struct rf_queues *qs); /* RF_V_FAIR, if stale */

/* queue_order.c */
void rf_order_leaf(struct rf_queue *q);	  /* of shapes from now on; it has none yet */
void rf_order_parent(struct rf_queue *q); /* of queues */
bool rf_order_room(const struct rf_heap_item *a, const struct rf_heap_item *b);
bool rf_order_work(const struct rf_heap_item *a, const struct rf_heap_item *b);
bool rf_order_large(const struct rf_heap_item *a, const struct rf_heap_item *b);
/* Would the smallest of this shape leave the queue over its guarantee? */
bool rf_order_over(const struct rf_queue *q, const struct rf_shape *s);
/* Counts anew what is asked for at least below: by what is ready, in a deep leaf also by what stepped aside. */
void rf_order_least(struct rf_queues *qs, struct rf_queue *q);
void rf_order_least_again(struct rf_queues *qs, struct rf_queue *q); /* unless that takes long */
static inline size_t rf_queue_shapes(const struct rf_queue *leaf)
{
	return leaf->ready.n + leaf->n_held + leaf->n_roomed;
}
/* No machine has so much left. */
static inline bool rf_order_too_large(const struct rf_queues *qs, const struct rf_shape *s)
{
	return !rf_need_fits(&s->need, &qs->most);
}
bool rf_order_audit(const struct rf_queue *q); /* is what is kept of it right? */
void rf_order_keys(struct rf_queues *qs, struct rf_queue *q); /* of one queue, from its heap */
void rf_order_path(struct rf_queues *qs, struct rf_queue *leaf);
void rf_order_wake_all(struct rf_queues *qs);
void rf_order_poke(struct rf_queues *qs, uint64_t resources); /* those that stepped aside */
bool rf_order_resting(const struct rf_queues *qs,
		      const struct rf_shape *s);		 /* refused, and nothing changed */
void rf_order_add(struct rf_queues *qs, struct rf_workload *w);	 /* it waits now */
void rf_order_drop(struct rf_queues *qs, struct rf_workload *w); /* it no longer waits */
void rf_order_take(struct rf_queues *qs, struct rf_workload *w); /* the same; the caller puts the path right */
void rf_order_freed(struct rf_queues *qs, struct rf_shape *s);	 /* something of this shape ended */

/* queue_work.c */
void rf_shape_forget_spare(struct rf_queues *qs);

/* queue_why.c */
bool rf_shape_entitled(struct rf_queues *qs, const struct rf_shape *s, enum rf_reclaim policy);

/* queue_ahead.c */
/* May work of this shape start now in spite of the reservations? NULL: yes. */
const struct rf_reservation *rf_ahead_gate(const struct rf_queues *qs, const struct rf_workload *w,
					   int64_t members, int64_t now);
void rf_ahead_admitted(struct rf_queues *qs, struct rf_workload *w, int64_t members, int64_t now);
void rf_ahead_forget(struct rf_queues *qs, const struct rf_workload *w);

#endif
