/* Inside of a process's share of a card's time: share.c is where its calls arrive, from launches to the end of work;
 * share_desk.c says at the fence's desk what the process does, share_gate.c is what the gate answers; share_kind.c knows what
 * launches take, share_mark.c finds it out from events, share_lane.c keeps what is in flight by streams;
 * share_capture.c knows which of them capture; share_wait.c waits. share.h is the memory between process and arbiter.
 *
 * A launch goes on at once while the fence's gate is open and not too much work is in
 * flight; otherwise its thread waits. What is in flight is guessed from what launches of the same
 * kind took before, and known from marks: events put behind some launches, one per millisecond of
 * work or so. So a launch costs a clock, a lock nobody else wants and some sums; and the short ones
 * after it in the same stream not even that: they go along (fence.h), and are put into the books with the next.
 *
 * What counts is how long work was in flight, by the card's own clock where there are marks. Where
 * there are none, since the card is idle between launches, some launches are measured alone.
 *
 * Everything here is called with pace_lock of the fence. now is the monotonic clock, in nanoseconds. */
#ifndef RF_FENCE_SHARE_PRIVATE_H
#define RF_FENCE_SHARE_PRIVATE_H

#include <time.h>

#include "fence/fence.h"

#define US 1000ull
#define MS 1000000ull
#define UNKNOWN (1 * MS)   /* what a launch of a new kind is thought to take */
#define PROBE (8 * MS)	   /* so often a launch is measured where marks do not tell */
#define LAG (500 * US)	   /* so old may be what the arbiter reads of one that works */
#define SILENCE (100 * MS) /* an arbiter that says nothing for so long is gone */
#define UNHEARD (10 * MS)  /* at a standing gate nobody stays longer unheard */
#define DEPTH_OWN (2 * MS) /* what may be in flight of a process that paces itself */
#define RELAXED 2	   /* CU_STREAM_CAPTURE_MODE_RELAXED */

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t part_of(uint64_t whole, uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)whole * a / b);
}

/* --- share_desk.c: what the arbiter is told --- */

/* Says what the process has in flight, has used and waits for. */
void rf_desk_tell(struct rf_fence *f, unsigned card, uint64_t now);
/* Wakes the arbiter, to read it. */
void rf_desk_ring(struct rf_fence *f, struct rf_pace *p, uint64_t now);
/* Whether the arbiter still hears: sets p->orphan. */
void rf_desk_check(const struct rf_gate *gate, struct rf_pace *p, uint64_t now);
/* Work begins, with a launch that takes cost at most: in the books, */
void rf_desk_start(struct rf_pace *p, uint64_t now);
/* and for the arbiter, too. If it wants to know at once, p->begun asks to ring after the launch. */
void rf_desk_begin(struct rf_fence *f, const struct rf_gate_card *g, unsigned card, uint64_t cost,
		   uint64_t now);
/* Who works says so now and then, as soon as it will for clearly longer than it said, and if it is overlooked. */
bool rf_desk_is_news(const struct rf_fence *f, const struct rf_gate_card *g,
		     const struct rf_pace *p, uint64_t cost, uint64_t now);
void rf_desk_go_on(struct rf_fence *f, const struct rf_gate_card *g, unsigned card, uint64_t cost,
		   uint64_t now);
/* All work is done. */
void rf_desk_end(struct rf_fence *f, const struct rf_gate_card *g, unsigned card, uint64_t now);

/* --- share_gate.c: what it answers --- */

/* Until when the process may launch, by the arbiter or by its own pacing. */
uint64_t rf_gate_open_until(struct rf_fence *f, const struct rf_gate_card *g, struct rf_pace *p,
			    uint64_t now);
/* The arbiter is gone: perhaps there is a new one. First the process pays for what it took by itself, since
 * that nobody else will charge. */
bool rf_gate_should_ask(const struct rf_pace *p, uint64_t now);
/* Gives up the lock meanwhile: it may take a while. */
void rf_gate_ask_again(struct rf_fence *f, struct rf_pace *p, uint64_t now);

/* So much should be in flight, */
static inline uint64_t rf_gate_depth(const struct rf_gate_card *g, const struct rf_pace *p)
{
	return p->orphan ? DEPTH_OWN : g->depth_us * US;
}

/* and so much may be: two kernels that take half of the depth each, and a bit, fit. */
static inline uint64_t rf_gate_limit(const struct rf_gate_card *g, const struct rf_pace *p)
{
	uint64_t depth = rf_gate_depth(g, p);

	return depth + least(depth / 8, MS / 2);
}

/* --- share_kind.c: what launches take --- */

/* RF_COSTS: it is not there. */
unsigned rf_kind_find(const struct rf_fence *f, uint64_t key);
/* A new one replaces another if there is no room. */
unsigned rf_kind_of(struct rf_fence *f, uint64_t key);
/* The launches of the mark took ns together. */
void rf_kind_learn(struct rf_fence *f, const struct rf_mark *m, uint64_t ns, uint64_t now);
/* Of several streams (lanes): what was thought to take so long took so long; the mark's own launches at most own. */
void rf_kind_learn_beside(struct rf_fence *f, const struct rf_pace *p, const struct rf_mark *m,
			  uint64_t thought, uint64_t took, uint64_t own, unsigned lanes);

static inline uint64_t rf_kind_cost(const struct rf_fence *f, unsigned kind)
{
	return f->cost[kind].ns ? f->cost[kind].ns : UNKNOWN;
}

/* How much longer a launch may take that is thought to take so long, where its kind takes now this now that. By less than a
 * millisecond it does not matter. */
static inline uint64_t rf_kind_beyond(const struct rf_fence *f, unsigned kind, uint64_t thought)
{
	uint64_t longest = f->cost[kind].longest;

	return longest > thought + most(thought / 2, MS) ? longest - thought : 0;
}

/* And those of a mark: one of them. */
static inline uint64_t rf_mark_beyond(const struct rf_fence *f, const struct rf_mark *m)
{
	return m->launches ? rf_kind_beyond(f, m->kind, m->dearest) : 0;
}

/* --- share_capture.c: which streams capture --- */

/* Now and then, while one does: whether it still does. */
void rf_capture_look(struct rf_fence *f);

/* --- share_lane.c: what is in flight, by streams --- */

/* The stream's lane; NULL: its card is not known. ctx is the current context. */
struct rf_lane *rf_lane_of(struct rf_fence *f, CUcontext ctx, CUstream stream, uint32_t thread);
/* The thread that a lane of the stream belongs to; 0: it is all threads'. */
uint32_t rf_lane_thread(const struct rf_fence *f, CUstream stream);
/* Of the caller. */
uint32_t rf_lane_thread_id(const struct rf_fence *f);
/* The stream's own context, where ctx is current. */
CUcontext rf_lane_home(CUcontext ctx, CUstream stream);
/* Forgets all about it; its events as well, unless they went with their context. */
void rf_lane_clear(struct rf_fence *f, struct rf_lane *l, bool destroy);
/* Puts what went along with the lane's last launch into the books, and lets nothing more. Before anybody looks at what
 * is open in the lane. */
void rf_lane_settle(struct rf_fence *f, struct rf_lane *l);
/* After a change of what it has in flight. */
void rf_lane_set_working(struct rf_fence *f, const struct rf_lane *l);
/* Lanes of the card with work. */
unsigned rf_lanes_working(const struct rf_fence *f, unsigned card);
/* The next lane with work from i on; NULL: none. */
struct rf_lane *rf_lane_next_working(struct rf_fence *f, unsigned i);

#define RF_FOR_WORKING(f, l)                                                                       \
	for (struct rf_lane *l = rf_lane_next_working(f, 0); l;                                    \
	     l = rf_lane_next_working(f, (unsigned)(l - (f)->lane) + 1))

static inline bool rf_lane_is(const struct rf_lane *l, CUcontext ctx, CUstream stream,
			      uint32_t thread)
{
	return l->ctx == ctx && l->stream == stream && l->thread == thread;
}

/* CU_STREAM_LEGACY is 1, CU_STREAM_PER_THREAD 2. */
static inline bool rf_lane_is_default(CUstream s)
{
	return (uintptr_t)s <= 2;
}

/* --- share_mark.c: events that tell when work is done --- */

/* Whether a capture is on in the stream, or might suffer. */
bool rf_lane_is_capturing(const struct rf_lane *l);
/* Whether this thread may put an event into the lane now; does so; NULL: the driver does not. */
bool rf_mark_may(struct rf_fence *f, const struct rf_lane *l);
CUevent rf_mark_record(struct rf_lane *l);
/* Puts a mark behind the lane's open launches, if it can. */
bool rf_mark_put(struct rf_fence *f, struct rf_lane *l);
/* Behind those of all lanes, or of those alone of which no mark tells. */
bool rf_mark_put_all(struct rf_fence *f, unsigned card, bool all);
/* What is in flight behind which there is a mark. */
uint64_t rf_mark_covered(const struct rf_pace *p);
/* Takes away the marks that are done. With it, the end of the work, if it is one. */
void rf_mark_harvest(struct rf_fence *f, const struct rf_gate_card *g, unsigned card, uint64_t now);
/* The work of m is done; it took so long. If it was seen not to be done for longer, that was something before it that
 * was believed to be done, and was not. */
void rf_mark_done(struct rf_fence *f, const struct rf_mark *m, struct rf_lane *l, uint64_t ns,
		  uint64_t now);
/* The lane's open launches are believed to be done. */
void rf_mark_presume_done(struct rf_fence *f, struct rf_lane *l, uint64_t now);
/* Something takes longer than it did, and it is not known what. only: in that lane; NULL: in any of the card's. */
void rf_mark_look_closer(struct rf_fence *f, unsigned card, struct rf_lane *only, uint64_t now);

/* --- share_wait.c: waiting until a launch may go on --- */

/* One that is about to be. */
struct rf_launch {
	CUcontext ctx;
	CUstream stream;
	uint32_t thread; /* as its lane has them */
	uint32_t blocks;
	uint64_t cost;
};

/* How many blocks a launch has, by its key: half as many as there may be, since a processor mostly takes two. */
uint32_t rf_wait_blocks(uint64_t key, CUstream stream, uint32_t thread);
/* Gives up the lock to sleep. */
void rf_wait_turn(struct rf_fence *f, unsigned card, const struct rf_launch *a);

#endif
