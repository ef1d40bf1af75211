/* Inside the arbiter: arbiter.c has the thread and the memory it shares, turns.c decides
 * between fences, siblings.c between the processes of one. The decisions take the time as an
 * argument and touch nothing but what is here, so that a test can hold the clock. */
#ifndef RF_FENCE_ARBITER_PRIVATE_H
#define RF_FENCE_ARBITER_PRIVATE_H

#include "fence/arbiter.h"

#define RF_US 1000ll
#define RF_MS 1000000ll

/* Tried on an H200; docs/benchmarks/fence.md has what others gave. */
#ifndef RF_QUANTUM
#define RF_QUANTUM (20 * RF_MS) /* a lease between fences that both want all they can get */
#endif
#ifndef RF_QUANTUM_SHORT
#define RF_QUANTUM_SHORT (1 * RF_MS) /* beside a fence that uses little */
#endif
#ifndef RF_DEPTH
#define RF_DEPTH (4 * RF_MS) /* work in flight at once */
#endif
#ifndef RF_DEPTH_SHORT
#define RF_DEPTH_SHORT (RF_MS / 2)
#endif
#ifndef RF_PERIOD
#define RF_PERIOD (10 * RF_MS) /* a fence out of time pauses so long */
#endif
#ifndef RF_GRACE
#define RF_GRACE                                                                                   \
	(RF_MS / 5) /* a holder may be without work so long before the next one is let in */
#endif
#ifndef RF_LEAD
#define RF_LEAD                                                                                    \
	(100 * RF_US) /* the next one is let in so long before the work in flight should end */
#endif
#define RF_CREDIT (60 * RF_MS) /* time a fence may save up by not using it */

/* A process of a fence on a card, by what its seat at the desk says. */
struct rf_sibling {
	uint64_t seen_ns;  /* what the seat has told so far */
	int64_t recent;	   /* lately in flight, halved now and then */
	int64_t active_at; /* when it last wanted or used the card; 0: never */
	int64_t stays;	   /* has been wanting it for so long, while the fence's gate was open */
	int64_t until;	   /* when what is in flight will be done, by guess */
	int64_t turn_at;   /* when its last turn ended */
	int64_t ahead;	   /* which was so much too long, or too short if negative */
	uint32_t seq;	   /* of the seat when looked at last */
	bool active;	   /* waits or has work in flight */
	bool busy;	   /* has work in flight */
	bool there;	   /* active, or the host between two kernels */
	bool quiet;	   /* it said nothing since the look before */
	bool gone;	   /* had its turn and said nothing: not counted until it says something */
};

/* Turns among the processes of a fence (siblings.c). */
struct rf_siblings {
	struct rf_sibling seat[RF_SIBLINGS];
	unsigned top;	  /* seats at and above are not in use */
	unsigned host;	  /* whose turn it is, plus one; 0: everybody's */
	unsigned leaving; /* whose turn it was, as long as the next one waits for its work to end */
	unsigned rivals;  /* so many want all they can get */
	bool held;	  /* the fence has the card */
	bool in;	  /* the host may launch */
	bool hogged;	  /* rivals use most of what the fence is given */
	bool light;	  /* and one that uses little is around */
	bool visited;	  /* which is there, so that the host waits for it */
	int64_t turn_ns;  /* of the host's turn, so much is over */
	int64_t silent_ns; /* and so long it has said nothing */
	int64_t leave_by;
	int64_t visit_end, visit_at; /* until when at most, and when the next may be */
	int64_t open;		     /* lately the fence had the card so long */
	uint64_t shut[RF_SIBLINGS / 64];
};

/* A fence on a card. */
struct rf_member {
	struct rf_gate_card *gate;
	const struct rf_desk *desk;
	unsigned card; /* index at the desk */
	int ledger_fd;
	int64_t share; /* in thousandths */
	int priority;
	bool burst;
	bool spatial;
	/* what its processes say */
	bool wants;	     /* a thread waits at the gate */
	bool busy;	     /* work is in flight */
	bool working;	     /* the same, or it did not say for long that there is none */
	bool lasting;	     /* that, for two looks at least, though its work should be done */
	bool newcomer;	     /* neither wants nor busy when we looked last */
	bool dallied;	     /* it waits, but did not come in when it could: wants does not count that */
	int64_t loiters;     /* since when it waits without work; 0: it does not */
	int64_t seen_ns;     /* sum of what the seats have told so far */
	int64_t finished_ns; /* of it, of work that ended */
	uint32_t launches;   /* so many when some ended last */
	int64_t lent;	     /* charged for work that has not: so much may be taken back */
	int64_t cut;	     /* told by several processes at once, and not charged */
	int64_t missed;	     /* passed while it worked, and not charged */
	bool ended;	     /* some ended since the last look */
	int64_t since, until; /* since when it is busy, and when what is in flight will be done, by guess */
	int64_t slowed;	     /* so much later than was said, as the card works for others, too */
	uint32_t seqs;	     /* of all seats together: whether anything was said since */
	int64_t idle_at;     /* since when it is not busy */
	/* what it was given */
	int64_t budget;	  /* time it may still use; grows with its share */
	int64_t behind;	  /* used by weight: the least goes first */
	int64_t used;	  /* in all */
	int64_t recent;	  /* lately used, halved every RECENT */
	int64_t begun_at; /* when it last began to work after a pause */
	int64_t period;	  /* between two such beginnings */
	unsigned steady;  /* how many in a row were so far apart */
	int64_t batch;	  /* how long it has the card busy once it has launched */
	int64_t lease_from, lease_end;
	bool fresh;	 /* it got the card just now, with none of its work in flight */
	int64_t tell_at; /* it need not tell of its end before */
	bool resting;	 /* out of budget, until it has enough again */
	struct rf_siblings among;
};

#define RF_MEMBERS 1024 /* fences on one card */

struct rf_card_state {
	uint8_t uuid[16];
	struct rf_member *member[RF_MEMBERS];
	unsigned n;
	struct rf_member *holder;
	struct rf_member *leaving; /* its gate is shut, its work still in flight */
	int64_t shut_at, leave_by; /* since when, and until when one waits for it */
	struct rf_member *left; /* the last holder before this one */
	int64_t held_until; /* nobody is let in before, for one that is expected; 0: nothing held */
	int64_t last;	    /* up to when time is charged */
	int64_t halved;
	int64_t settled; /* the virtual time newcomers start at */
	int64_t unused;	 /* time nobody was charged for, that some may tell late */
};

/* Reads the desks, charges the time since the last call, decides whose turn it is and writes the
 * gates. Returns when it must be called again at the latest (INT64_MAX: when somebody rings).
 * woken is called for each gate that somebody may wait at. */
int64_t rf_turns(struct rf_card_state *c, int64_t now, void (*woken)(struct rf_gate_card *g));
void rf_turns_add(struct rf_card_state *c, struct rf_member *m, int64_t now);
void rf_turns_remove(struct rf_card_state *c, struct rf_member *m);

/* --- siblings.c --- */

/* At a look: what the process on the seat says, already bounded, and its time in flight up to now. */
void rf_siblings_see(struct rf_siblings *a, unsigned seat, const struct rf_desk_seat *s,
		     uint64_t sum_ns, bool busy, int64_t now, int64_t passed);
/* After all of a look were seen: decides whose turn it is within the fence. holds: the fence has the card;
 * fresh: since just now. */
void rf_siblings_turn(struct rf_siblings *a, unsigned top, bool holds, bool fresh, int64_t now,
		      int64_t passed);
/* When that must be done again at the latest. */
int64_t rf_siblings_when(const struct rf_siblings *a, int64_t now);
/* Whether several want all they can get, and whether one that uses little is around. */
bool rf_siblings_compete(const struct rf_siblings *a);
bool rf_siblings_light(const struct rf_siblings *a);
/* RF_TELL_... */
uint32_t rf_siblings_tell(const struct rf_siblings *a, int64_t now);
void rf_siblings_halve(struct rf_siblings *a);

#endif
