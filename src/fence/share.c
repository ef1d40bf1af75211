/* Time on the card, seen from a process that uses it.
 *
 * A launch goes on at once while the fence's gate is open (share.h) and not too much work is in
 * flight; otherwise its thread waits. What is in flight is guessed from what launches of the same
 * kind took before, and known from marks: events put behind some launches, one per millisecond of
 * work or so. So a launch costs a clock, a lock nobody else wants and some sums; and the short ones
 * after it in the same stream not even that: they go along (fence.h), and are put into the books with the next.
 *
 * What counts is how long work was in flight, by the card's own clock where there are marks. Where
 * there are none, since the card is idle between launches, some launches are measured alone. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fence/fence.h"

#define US 1000ull
#define MS 1000000ull
#define MARK_LEAST (100 * US) /* work between two marks, at least and */
#define MARK_MOST (4 * MS)    /* at most, if launches are that short */
#define MARK_LAUNCHES 1024    /* or after so many launches */
#define UNKNOWN (1 * MS)      /* what a launch of a new kind is thought to take */
#define LITTLE (10 * US)      /* and took, if its first time was mostly that of launching it */
#define PROBE (8 * MS)	      /* so often a launch is measured, where marks do not tell, or, */
#define PROBE_ALONE (64 * MS) /* alone and while launches take what they should, less and less often: */
#define SKIP (200 * US)	      /* one of those in the next so much work, */
#define SOON (10 * MS)	      /* within that time */
#define GAP (50 * US)	      /* so long after work should be done, it is believed to be */
#define LAG (500 * US)	      /* so old may be what the arbiter reads of one that works */
#define ALONG_ALONE 500       /* launches go along with one at most, but of a fence that is not alone */
#define ALONG_EACH (256 * US) /* only one for each of these of depth, */
#define ALONG_PART 64	      /* of no more work than this part of it */
#define ALONG_PART_ALONE 8    /* or, alone, this, */
#define ALONG_LEASE (1 * MS)  /* with so much of the lease left */
#define NAP_LEAST (20 * US)
#define NAP_MOST (2 * MS)
#define SILENCE (100 * MS) /* an arbiter that says nothing for so long is gone */
#define ASKING (5000 * MS) /* asking for a new one takes no longer */
#define ASK_PAUSE (30 * MS) /* and is not done more often */
#define TELL (30 * MS)	   /* who waits rings again, to find out whether anybody hears */
#define UNHEARD (10 * MS)  /* at a standing gate nobody stays longer unheard */
#define OVERDUE (200 * US) /* who waited so much longer than it should have wonders why */
#define MOMENT (100 * US)  /* before its end what is in flight is as good as done */
#define STUCK (25 * MS)	   /* overdue by so much, work is not simply slow; twice as much the next time, */
#define STUCK_DOUBLED 8	   /* up to so often */
#define OWN_LEASE (5 * MS) /* of a process that must pace itself */
#define DEPTH_OWN (2 * MS)
#define DEPTH_LEARN (4 * MS) /* what streams side by side take is not learned faster where there is less */
#define DOUBT 100	   /* launches that are measured when work takes longer than it should, */
#define WATCH (100 * MS)   /* not more often, and if that does not help, */
#define WATCH_MOST (6400 * MS) /* less and less often */
#define ASK_STREAMS 16 /* when an event tells that something is done */
#define MULTIPROCESSORS 16 /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
#define RELAXED 2 /* CU_STREAM_CAPTURE_MODE_RELAXED */

/* The launch this thread is in. It survives a fork, which the fence does not. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	struct rf_lane *lane; /* NULL: not paced */
	CUcontext ctx;
	unsigned kind;
	uint32_t tid;
	uint32_t pid; /* for which tid and lane hold */
	bool more; /* there is something to do after the launch */
	bool probe; /* it is measured */
	uint64_t syncing; /* since when it waits for work; 0: that does not matter */
} mine;
_Thread_local struct rf_along *rf_share_mine; /* of the lane; survives a fork, to find all zeros */
_Static_assert(RF_DEPTH_ALONE / ALONG_EACH < ALONG_ALONE && ALONG_ALONE < MARK_LAUNCHES, "fewer");

/* One that is about to be. */
struct launch {
	CUcontext ctx;
	CUstream stream;
	uint32_t thread; /* as its lane has them */
	uint32_t blocks;
	uint64_t cost;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t part_of(uint64_t whole, uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)whole * a / b);
}

/* --- the desk --- */

static void raise_top(struct rf_desk *desk, unsigned seat)
{
	uint32_t top = __atomic_load_n(&desk->top, __ATOMIC_RELAXED);

	while (top <= seat && !__atomic_compare_exchange_n(&desk->top, &top, seat + 1, false,
							   __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Who sat here before is charged for what it had in flight; the sums only ever grow. What this process told
 * elsewhere is not told again: a new arbiter would take it for time that was used just now. */
static void sit_down(struct rf_fence *f, unsigned card)
{
	struct rf_desk_seat *s = &f->desk->seat[card][f->place.seat];
	struct rf_pace *p = &f->pace[card];
	struct rf_desk_seat old = { 0 };

	raise_top(f->desk, f->place.seat);
	rf_desk_read(s, &old);
	if (old.busy_from && old.busy_until > old.busy_from)
		old.gpu_ns += old.busy_until - old.busy_from;
	p->gpu_gone += p->gpu_ns - p->gpu_before;
	p->gpu_ns = p->gpu_before = old.gpu_ns;
	p->held_ns += old.held_ns - p->held_before;
	p->held_before = old.held_ns;
	p->sat = f->place.seat + 1;
	__atomic_store_n(&s->gpu_gone_ms, (uint32_t)least(p->gpu_gone / MS, UINT32_MAX),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&s->gpu_before, p->gpu_before, __ATOMIC_RELAXED);
	__atomic_store_n(&s->held_before, p->held_before, __ATOMIC_RELAXED);
}

/* cost: of what is about to be launched. */
static void publish_with(struct rf_fence *f, unsigned card, uint64_t cost, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];
	struct rf_desk_seat *s = &f->desk->seat[card][f->place.seat];

	if (p->sat != f->place.seat + 1) /* the process lost its seat and has another now */
		sit_down(f, card);
	p->told_at = now;
	p->told_until = p->busy_from ? most(now, p->done_at + p->inflight) + cost : p->begun_at;
	__atomic_store_n(&s->seq, s->seq | 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&s->waiting, p->waiting, __ATOMIC_RELAXED);
	__atomic_store_n(&s->busy_from, p->busy_from, __ATOMIC_RELAXED);
	__atomic_store_n(&s->busy_until, p->told_until, __ATOMIC_RELAXED);
	__atomic_store_n(&s->gpu_ns, p->gpu_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&s->held_ns, p->held_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&s->launches, p->launches, __ATOMIC_RELAXED);
	__atomic_store_n(&s->seq, (s->seq | 1) + 1, __ATOMIC_RELEASE);
}

static void publish(struct rf_fence *f, unsigned card, uint64_t now)
{
	publish_with(f, card, 0, now);
}

/* Whether the arbiter still hears. */
static void check_arbiter(const struct rf_gate *gate, struct rf_pace *p, uint64_t now)
{
	uint32_t heard = __atomic_load_n(&gate->heard, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&gate->magic, __ATOMIC_RELAXED) != RF_GATE_MAGIC) {
		p->orphan = true;
		return;
	}
	if (p->rang_at == 0)
		return;
	if ((int32_t)(heard - p->rang) >= 0) {
		p->rang_at = 0;
		p->orphan = false; /* it was only late */
	} else if (now - p->rang_at > SILENCE)
		p->orphan = true;
}

static void ring(struct rf_fence *f, struct rf_pace *p, uint64_t now)
{
	int saved = errno;

	check_arbiter(f->gate, p, now); /* of the last ring */
	p->rang = __atomic_add_fetch(&f->desk->ring, 1, __ATOMIC_ACQ_REL);
	p->rang_at = p->rang_at ? p->rang_at : now;
	syscall(SYS_futex, &f->desk->ring, FUTEX_WAKE, 1, NULL, NULL, 0);
	errno = saved;
}

/* Also read without the lock. */
static void set_busy(struct rf_pace *p, uint64_t from)
{
	__atomic_store_n(&p->busy_from, from, __ATOMIC_RELAXED);
}

/* Whether the arbiter wants to know of it. */
static bool tells(const struct rf_fence *f, const struct rf_gate_card *g, uint32_t what)
{
	uint32_t tell = __atomic_load_n(&g->tell, __ATOMIC_ACQUIRE);

	return tell & what || (tell & RF_TELL_BESIDE &&
			       __atomic_load_n(&g->host, __ATOMIC_RELAXED) != f->place.seat + 1);
}

static void start_busy(struct rf_pace *p, uint64_t now)
{
	set_busy(p, now);
	p->begun_at = p->done_at = now;
	p->stuck = 0;
	p->newest = NULL; /* from there to the next mark is not all work */
	p->newest_from = now;
	p->newest_upto = p->launched_ns;
}

static RF_RARE void begin(struct rf_fence *f, const struct rf_gate_card *g, unsigned card,
			  uint64_t cost, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];

	start_busy(p, now);
	publish_with(f, card, cost, now);
	p->begun = tells(f, g, RF_TELL_BEGIN);
}

/* Its gate stands as for one without work, so the arbiter takes it for one; and has heard all that it was told. */
static bool is_overlooked(const struct rf_fence *f, const struct rf_gate_card *g,
			  const struct rf_pace *p)
{
	return __atomic_load_n(&g->open_until, __ATOMIC_RELAXED) == RF_GATE_STANDING &&
	       (int32_t)(__atomic_load_n(&f->gate->heard, __ATOMIC_RELAXED) - p->rang) >= 0 &&
	       tells(f, g, RF_TELL_BEGIN);
}

/* Who works says so now and then, as soon as it will for clearly longer than it said, and if it is overlooked. */
static inline bool is_news(const struct rf_fence *f, const struct rf_gate_card *g,
			   const struct rf_pace *p, uint64_t cost, uint64_t now)
{
	return now > p->told_at + LAG || p->done_at + p->inflight + cost > p->told_until + LAG ||
	       is_overlooked(f, g, p);
}

static RF_RARE void go_on(struct rf_fence *f, const struct rf_gate_card *g, unsigned card,
			  uint64_t cost, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];

	p->begun = p->begun || is_overlooked(f, g, p); /* another thread may be about to ring */
	publish_with(f, card, cost, now);
}

/* Without an arbiter the processes that use the card divide the fence's share among themselves. */
static uint64_t own_share(const struct rf_fence *f, const struct rf_gate_card *g, unsigned card)
{
	uint64_t share = g->share_milli ? least(g->share_milli, 1000) : 1000;
	uint32_t top = least(__atomic_load_n(&f->desk->top, __ATOMIC_RELAXED), RF_LEDGER_SEATS);
	uint64_t users = 0;

	for (unsigned i = 0; i < top; i++) {
		const struct rf_desk_seat *s = &f->desk->seat[card][i];

		users += __atomic_load_n(&s->busy_from, __ATOMIC_RELAXED) != 0 ||
			 __atomic_load_n(&s->waiting, __ATOMIC_RELAXED) != 0;
	}
	return most(share / most(users, 1), 1);
}

static void end(struct rf_fence *f, const struct rf_gate_card *g, unsigned card, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];
	uint64_t until = most(p->busy_from, least(now, p->done_at));

	p->gpu_ns += until - p->busy_from;
	if (p->orphan) {
		uint64_t share = own_share(f, g, card);

		p->own_from = until + (until - p->busy_from) * (1000 - share) / share;
		p->own_until = 0;
	}
	set_busy(p, 0);
	p->inflight = 0;
	publish(f, card, now);
	if (tells(f, g, RF_TELL_END))
		ring(f, p, now);
}

static uint64_t depth_of(const struct rf_gate_card *g, const struct rf_pace *p)
{
	return p->orphan ? DEPTH_OWN : g->depth_us * US;
}

/* So much may be in flight: two kernels that take half of the depth each, and a bit, fit. */
static uint64_t limit_of(const struct rf_gate_card *g, const struct rf_pace *p)
{
	uint64_t depth = depth_of(g, p);

	return depth + least(depth / 8, MS / 2);
}

/* --- what launches take --- */

/* Its own place, the others of its set, then those of the set beside it; RF_COSTS: not there. */
static unsigned find_kind(const struct rf_fence *f, uint64_t key)
{
	unsigned place = rf_share_place(key);

	for (unsigned i = 0; i < 2 * RF_COST_WAYS; i++)
		if (__atomic_load_n(&f->cost[place ^ i].key, __ATOMIC_RELAXED) == key)
			return place ^ i;
	return RF_COSTS;
}

/* A new kind takes the first empty place, or one after the other of its set. */
static RF_RARE unsigned new_kind(struct rf_fence *f, uint64_t key)
{
	unsigned place = rf_share_place(key), i = 0;

	while (i < 2 * RF_COST_WAYS && f->cost[place ^ i].key)
		i++;
	if (i == 2 * RF_COST_WAYS)
		i = f->replaced++ % RF_COST_WAYS;
	place ^= i;
	__atomic_store_n(&f->cost[place].ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&f->cost[place].key, key, __ATOMIC_RELAXED);
	return place;
}

static unsigned kind_of(struct rf_fence *f, uint64_t key)
{
	unsigned kind = find_kind(f, key);

	return kind < RF_COSTS ? kind : new_kind(f, key);
}

static uint64_t cost_of(const struct rf_fence *f, unsigned kind)
{
	return f->cost[kind].ns ? f->cost[kind].ns : UNKNOWN;
}

/* Lanes of the card with work. */
static unsigned lanes_working(const struct rf_fence *f, unsigned card)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RF_LANES / 64; i++)
		for (uint64_t left = f->working[i]; left; left &= left - 1)
			n += f->lane[i * 64 + (unsigned)__builtin_ctzll(left)].card == card;
	return n;
}

/* How long work took that was thought to take so much: took is from event to event, 0 if it cannot be told. If not all
 * was queued by then (sure), gaps of the host may be in it, and it took no longer than that. */
static uint64_t time_of(const struct rf_mark *m, uint64_t thought, uint64_t took, bool sure)
{
	uint64_t most_ = most(thought, m->at_least);

	return took && (sure || took < most_) ? took : most_;
}

/* The fence's gate was open all the time: nobody else's work was in it. */
static bool had_card(const struct rf_fence *f, const struct rf_mark *m, uint64_t now)
{
	const struct rf_gate_card *g = &f->gate->card[f->lane[m->lane].card];

	return m->turn == __atomic_load_n(&g->turn, __ATOMIC_RELAXED) &&
	       now < __atomic_load_n(&g->open_until, __ATOMIC_RELAXED);
}

/* A quarter of the way to the new value, so that a kind that takes now this now that is known by what it takes on
 * average; or all of it if that is far. To what it takes longer only by a little at a time if others may have had the card
 * meanwhile. Among others the dearest kind is taken for what was wrong; if it was another,
 * the next marks bring it back. */
static void learn(struct rf_fence *f, const struct rf_mark *m, uint64_t ns, uint64_t now)
{
	struct rf_cost *c = &f->cost[m->kind];
	uint64_t was = cost_of(f, m->kind), n = most(least(m->of_kind, m->launches), 1);
	uint64_t others = n < m->launches ? m->cost - least(m->cost, n * m->dearest) : 0;
	uint64_t each = least((ns - least(ns, others)) / n, 1000 * MS);
	unsigned far = m->launches > 1 ? 2 : 8, part = each <= was || had_card(f, m, now) ? 4 : 16;

	if (n < m->launches)
		each = most(each, was / 2);
	if (c->ns && each <= far * was && each > was / far)
		each = ((part - 1) * was + each) / part;
	__atomic_store_n(&c->ns, (uint32_t)most(each, 1), __ATOMIC_RELAXED);
}

/* Where streams work side by side one mark has the time of all and the next ones next to none. But from one mark that is
 * done to the next the card has done about what was launched between them, in whichever stream: that took so long. Where
 * marks are done in another order than they were put, one error makes up for the other: so each moves what its kind is
 * thought to take in proportion to its own, the same way up and down; all that fits into the depth together by an eighth of
 * what it was off. But it took no longer than the mark itself, own, and of streams that share the card evenly no less than
 * its part of that: else kinds that overtake each other would drift apart. */
static void learn_beside(struct rf_fence *f, const struct rf_pace *p, const struct rf_mark *m,
			 uint64_t thought, uint64_t took, uint64_t own, unsigned lanes)
{
	struct rf_cost *c = &f->cost[m->kind];
	uint64_t whole = 8 * most(depth_of(&f->gate->card[f->lane[m->lane].card], p), DEPTH_LEARN);
	uint64_t was = c->ns, each = was, n = most(m->of_kind, 1);

	if (was == 0)
		return;
	if (took < thought) {
		each -= least(part_of(each, thought - took, whole), each / 4);
		each = most(each, least(was, own / n / most(lanes, 1)));
	} else {
		each += part_of(each, took - thought, whole);
		each = least(each, most(was, least(own / n, 1000 * MS)));
	}
	__atomic_store_n(&c->ns, (uint32_t)most(each, 1), __ATOMIC_RELAXED);
}

/* --- lanes --- */

static inline void set_working(struct rf_fence *f, const struct rf_lane *l)
{
	unsigned i = (unsigned)(l - f->lane);
	uint64_t bit = 1ull << i % 64;

	if (l->outstanding || l->open.launches)
		f->working[i / 64] |= bit;
	else
		f->working[i / 64] &= ~bit;
}

/* The next lane with work from i on; NULL: none. */
static struct rf_lane *next_working(struct rf_fence *f, unsigned i)
{
	for (; i < RF_LANES; i = (i / 64 + 1) * 64) {
		uint64_t left = f->working[i / 64] >> i % 64;

		if (left)
			return &f->lane[i + (unsigned)__builtin_ctzll(left)];
	}
	return NULL;
}

#define FOR_WORKING(f, l)                                                                          \
	for (struct rf_lane *l = next_working(f, 0); l;                                            \
	     l = next_working(f, (unsigned)(l - (f)->lane) + 1))

/* Puts what went along with the lane's last launch into the books, and lets nothing more. Before anybody looks at what
 * is open in the lane. */
static void settle(struct rf_fence *f, struct rf_lane *l)
{
	struct rf_along *a = &f->along[l - f->lane];
	struct rf_pace *p = &f->pace[l->card];
	uint16_t launches, kind, of_kind;
	uint64_t sum, work;

	__atomic_store_n(&a->work, 0, __ATOMIC_RELAXED);
	sum = __atomic_load_n(&a->sum, __ATOMIC_RELAXED);
	if (sum == 0)
		return;
	__atomic_store_n(&a->sum, 0, __ATOMIC_RELAXED);
	launches = (uint16_t)(sum / RF_ALONG_ONE);
	work = sum % RF_ALONG_ONE;
	p->launches += launches;
	if (l->open.launches == 0) /* it was launched while what it goes along with was closed: too late */
		return;
	kind = __atomic_load_n(&a->kind, __ATOMIC_RELAXED);
	of_kind = __atomic_load_n(&a->of_kind, __ATOMIC_RELAXED);
	if (of_kind && kind != l->open.kind) {
		l->open.kind = kind;
		l->open.dearest = (uint32_t)cost_of(f, kind);
		l->open.of_kind = 0;
	}
	l->open.launches += launches;
	l->open.of_kind += of_kind;
	l->open.cost += work;
	p->inflight += work;
	p->launched_ns += work;
}

static uint32_t thread_id(const struct rf_fence *f)
{
	if (mine.pid != f->pid) {
		mine.pid = f->pid;
		mine.tid = (uint32_t)syscall(SYS_gettid);
	}
	return mine.tid;
}

/* CU_STREAM_LEGACY is 1, CU_STREAM_PER_THREAD 2. */
static bool is_default(CUstream s)
{
	return (uintptr_t)s <= 2;
}

static uint32_t thread_of(const struct rf_fence *f, CUstream stream)
{
	return stream == CU_STREAM_PER_THREAD ? thread_id(f) : 0;
}

static void clear(struct rf_fence *f, struct rf_lane *l, bool destroy)
{
	struct rf_pace *p = &f->pace[l->card];
	unsigned kept = 0;

	settle(f, l);
	for (unsigned i = 0; i < p->n; i++) {
		struct rf_mark *m = &p->mark[(p->head + i) % RF_MARKS];

		if (&f->lane[m->lane] != l)
			p->mark[(p->head + kept++) % RF_MARKS] = *m;
		else
			p->inflight -= least(p->inflight, m->cost);
	}
	p->n = kept;
	p->inflight -= least(p->inflight, l->open.cost);
	for (unsigned i = 0; destroy && i < RF_LANE_EVENTS; i++)
		if (l->event[i])
			RF_REAL(cuEventDestroy_v2)(l->event[i]);
	memset(l, 0, sizeof(*l));
	if (p->newest && &f->lane[p->newest_lane] == l) {
		p->newest = NULL;
		p->newest_from = 0;
	}
	set_working(f, l);
}

/* A stream belongs to its own context, whichever is current: a graph may be launched into another
 * card's. */
static CUcontext home_of(CUcontext ctx, CUstream stream)
{
	CUcontext home = NULL;

	if (is_default(stream) || RF_REAL(cuStreamGetCtx)(stream, &home) != CUDA_SUCCESS || !home)
		return ctx;
	return home;
}

static CUresult card_of_context(struct rf_fence *f, CUcontext current, CUcontext ctx, unsigned *ret)
{
	CUresult r;

	if (ctx == current)
		return rf_current_card(f, ret);
	r = RF_REAL(cuCtxPushCurrent_v2)(ctx);
	if (r != CUDA_SUCCESS)
		return r;
	r = rf_current_card(f, ret);
	RF_REAL(cuCtxPopCurrent_v2)(&ctx);
	return r;
}

#define PROBES 16

static uint64_t hash_lane(CUcontext ctx, CUstream stream, uint32_t thread)
{
	return ((uintptr_t)ctx ^ (uintptr_t)stream * 31 ^ thread) * 0x9e3779b97f4a7c15ull >> 50;
}

static bool is_lane(const struct rf_lane *l, CUcontext ctx, CUstream stream, uint32_t thread)
{
	return l->ctx == ctx && l->stream == stream && l->thread == thread;
}

/* A new lane takes the place of one without work if there is no empty one. If all have work, the stream goes with
 * another one of the context: what is not known to the lane must still wait. */
static RF_RARE struct rf_lane *seek_lane(struct rf_fence *f, CUcontext ctx, CUstream stream,
					 uint32_t thread)
{
	uint64_t h = hash_lane(ctx, stream, thread);
	struct rf_lane *room = NULL, *other = NULL;
	CUcontext home;
	unsigned card;

	for (unsigned i = 0; i < PROBES; i++) {
		struct rf_lane *l = &f->lane[(h + i) % RF_LANES];

		if (is_lane(l, ctx, stream, thread))
			return l;
		if (!l->ctx ? !room || room->ctx : !room && l->outstanding == 0 && l->open.launches == 0)
			room = l;
		if (!other && l->ctx == ctx)
			other = l;
	}
	if (!room)
		return other;
	home = home_of(ctx, stream);
	if (card_of_context(f, ctx, home, &card) != CUDA_SUCCESS)
		return NULL;
	if (room->ctx)
		clear(f, room, true);
	*room = (struct rf_lane){
		.ctx = ctx, .home = home, .stream = stream, .thread = thread, .card = (uint8_t)card
	};
	return room;
}

/* The stream's lane. */
static inline struct rf_lane *lane_of(struct rf_fence *f, CUcontext ctx, CUstream stream,
				      uint32_t thread)
{
	struct rf_lane *l;

	if ((uintptr_t)stream == 1)
		stream = NULL;
	l = &f->lane[hash_lane(ctx, stream, thread) % RF_LANES];
	return is_lane(l, ctx, stream, thread) ? l : seek_lane(f, ctx, stream, thread);
}

/* --- marks --- */

static bool is_capturing(const struct rf_lane *l)
{
	int status = 0;
	CUresult r;

	if (is_default(l->stream) && !l->thread)
		return true; /* any capture of a blocking stream would suffer */
	r = l->thread ? RF_REAL(cuStreamIsCapturing_ptsz)(l->stream, &status)
		      : RF_REAL(cuStreamIsCapturing)(l->stream, &status);
	return r != CUDA_SUCCESS || status != 0;
}

/* Whether this thread may put an event into the lane now. */
static bool may_mark(struct rf_fence *f, const struct rf_lane *l)
{
	CUcontext ctx = NULL;

	if (l->silent || l->outstanding >= RF_LANE_EVENTS - 2)
		return false;
	if (l->thread && l->thread != thread_id(f))
		return false;
	if (__atomic_load_n(&f->captures, __ATOMIC_RELAXED) > 0 && is_capturing(l))
		return false;
	return RF_REAL(cuCtxGetCurrent)(&ctx) == CUDA_SUCCESS && ctx == l->ctx;
}

static CUevent record(struct rf_lane *l)
{
	CUevent *e = &l->event[l->next];
	CUcontext away = l->home != l->ctx ? l->home : NULL;
	CUresult r = away ? RF_REAL(cuCtxPushCurrent_v2)(away) : CUDA_SUCCESS;

	if (r != CUDA_SUCCESS) {
		l->silent = true;
		return NULL;
	}
	if (!*e)
		r = RF_REAL(cuEventCreate)(e, 0);
	if (r == CUDA_SUCCESS)
		r = l->thread ? RF_REAL(cuEventRecord_ptsz)(*e, l->stream)
			      : RF_REAL(cuEventRecord)(*e, l->stream);
	if (away)
		RF_REAL(cuCtxPopCurrent_v2)(&away);
	if (r != CUDA_SUCCESS) {
		l->silent = true;
		return NULL;
	}
	l->next = (uint8_t)((l->next + 1) % RF_LANE_EVENTS);
	return *e;
}

/* Puts a mark behind the lane's open launches, if it can. */
static RF_RARE bool mark(struct rf_fence *f, struct rf_lane *l)
{
	struct rf_pace *p = &f->pace[l->card];
	CUevent e;

	settle(f, l);
	if (l->open.launches == 0 || p->n == RF_MARKS || !may_mark(f, l))
		return false;
	e = record(l);
	if (!e)
		return false;
	l->open.event = e;
	l->open.put_at = now_ns();
	if (!l->open.from)
		l->open.from = l->last;
	l->open.upto = p->launched_ns;
	p->mark[(p->head + p->n++) % RF_MARKS] = l->open;
	l->outstanding++;
	l->last = e;
	l->open = (struct rf_mark){ 0 };
	return true;
}

/* The work of m is done; it took so long. If it was seen not to be done for longer, that was something before it that
 * was believed to be done, and was not. */
static void done(struct rf_fence *f, const struct rf_mark *m, struct rf_lane *l, uint64_t ns,
		 uint64_t now)
{
	struct rf_pace *p = &f->pace[l->card];
	uint64_t from = most(p->done_at, m->began);

	p->inflight -= least(p->inflight, m->cost);
	p->progress_at = now;
	p->stuck = 0;
	p->done_at = least(now, most(from + ns, least(from, m->put_at) + m->at_least));
}

/* From one event to a later one, in nanoseconds; 0: it is not later. False: it cannot be told. */
static bool tell_between(CUevent from, CUevent to, uint64_t *ret)
{
	float ms = 0;
	bool told = from && RF_REAL(cuEventElapsedTime)(&ms, from, to) == CUDA_SUCCESS;

	*ret = told && ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
	return told;
}

/* Something takes longer than it did, and it is not known what. only: in that lane; NULL: in any of the card's. */
static void look_closer(struct rf_fence *f, unsigned card, struct rf_lane *only, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];

	if (now < p->watch_at)
		return;
	FOR_WORKING(f, l)
	if (l->card == card && !only)
		l->doubt = DOUBT;
	if (only)
		only->doubt = DOUBT;
	if (now > p->watch_at + WATCH_MOST)
		p->watch = 0; /* all was well for long */
	p->watch = most(WATCH, least(4 * p->watch, WATCH_MOST));
	p->watch_at = now + p->watch;
}

/* What all was thought to take that was launched between the newest mark and this one. Who was launched before its kind was
 * known is taken for what is known now. */
static uint64_t since_newest(const struct rf_fence *f, const struct rf_pace *p,
			     const struct rf_mark *m)
{
	uint64_t thought = m->upto - least(m->upto, p->newest_upto);

	if (m->dearest == UNKNOWN && m->launches == m->of_kind)
		thought += m->launches * cost_of(f, m->kind) - least(thought, m->cost);
	return thought;
}

/* known: so much later than the newest mark. Else it is the first since newest_from, and was done between when it was last
 * seen not to be and now. Longer than thought tells nothing if the card waited for the host. */
static void judge_beside(struct rf_fence *f, const struct rf_pace *p, const struct rf_mark *m,
			 bool known, uint64_t own, uint64_t beyond, unsigned lanes, uint64_t now)
{
	uint64_t thought = since_newest(f, p, m);
	bool only = m->launches == 1 && own && thought <= cost_of(f, m->kind);
	uint64_t longest = known ? beyond : now - least(now, p->newest_from);
	uint64_t until = m->put_at + m->at_least;
	uint64_t shortest = known ? beyond : until - least(until, p->newest_from);

	if (longest < thought)
		learn_beside(f, p, m, thought, longest, own ? own : now - m->began, lanes);
	else if (shortest > thought && (m->pure || m->at_least > 0 || only))
		learn_beside(f, p, m, thought, only ? most(thought, least(own, shortest)) : shortest,
			     own ? own : now - m->began, lanes);
}

/* lanes worked when it was done. */
static void harvested(struct rf_fence *f, const struct rf_mark *m, unsigned lanes, uint64_t now)
{
	struct rf_lane *l = &f->lane[m->lane];
	struct rf_pace *p = &f->pace[l->card];
	uint64_t thought = m->cost, took, beyond = 0, ns;
	bool beside, known, sure = m->pure || m->launches == 1;

	tell_between(m->from, m->event, &took);
	l->outstanding--;
	set_working(f, l);
	beside = lanes > 1 || (p->newest && p->newest_lane != m->lane);
	known = beside && tell_between(p->newest, m->event, &beyond);
	/* At a first launch the driver loads code, while the card waits. */
	if (f->cost[m->kind].ns == 0 && !m->pure)
		took = most(took - least(took, m->launching), least(took, LITTLE));
	/* Marks in two contexts may not be compared. */
	if (!beside || (took && (f->cost[m->kind].ns == 0 ||
				 (p->newest && !known && m->launches == 1)))) {
		ns = time_of(m, m->cost, beyond ? least(took, beyond) : took, sure);
		if (ns != m->cost)
			learn(f, m, ns, now);
	} else if (known || (!p->newest && p->newest_from)) {
		judge_beside(f, p, m, known, took, beyond, lanes, now);
	}
	/* Each mark counts for what the card did since the last one, of whichever stream. */
	if (known) {
		thought = most(thought, m->upto - least(m->upto, p->newest_upto));
		sure = m->pure || (took && m->launches == 1);
		took = most(1, took && m->launches == 1 ? least(took, beyond) : beyond);
	} else if (beside && !p->newest && p->newest_from) { /* or since it began to work */
		thought = most(thought, since_newest(f, p, m));
		took = took ? most(took, thought) : 0;
	}
	if (!known || beyond) {
		p->newest = m->event;
		p->newest_lane = m->lane;
	}
	p->newest_upto = known ? most(p->newest_upto, m->upto) : m->upto;
	ns = time_of(m, thought, took, sure);
	if (known) /* what was known to be done since then is in it */
		ns -= least(ns, p->done_at - least(p->done_at, p->newest_done));
	p->probe_every = least(most(2 * p->probe_every, PROBE), PROBE_ALONE);
	if (ns < thought / 2 || ns / 2 > thought)
		p->probe_every = PROBE;
	done(f, m, l, ns, now);
	if (p->newest == m->event)
		p->newest_done = p->done_at;
	if (m->pure)
		p->probe_at = now + PROBE;
	if (m->pure && !beside && ns > 2 * m->cost)
		look_closer(f, l->card, l, now);
}

static void presume_done(struct rf_fence *f, struct rf_lane *l, uint64_t now)
{
	struct rf_mark open;

	settle(f, l);
	open = l->open;
	l->open = (struct rf_mark){ 0 };
	set_working(f, l);
	done(f, &open, l, open.cost, now);
}

/* Launches that no mark follows are believed to be done after twice their time, which begins when the work before them
 * is done. */
static bool anything_open(struct rf_fence *f, unsigned card, uint64_t now)
{
	const struct rf_pace *p = &f->pace[card];
	bool any = false;

	FOR_WORKING(f, l)
	{
		if (l->card != card || l->open.launches == 0)
			continue;
		settle(f, l);
		if (now < most(l->open.began, p->done_at) + 2 * l->open.cost + MS)
			any = true;
		else
			presume_done(f, l, now);
	}
	return any;
}

/* To ask for an event would spoil a capture that is on in some thread, unless this one is relaxed. */
static void relax(const struct rf_fence *f, int *mode)
{
	if (__atomic_load_n(&f->captures, __ATOMIC_RELAXED) > 0)
		RF_REAL(cuThreadExchangeStreamCaptureMode)(mode);
}

/* Takes away the marks that are done. With it, the end of the work, if it is one. */
static void harvest(struct rf_fence *f, const struct rf_gate_card *g, unsigned card, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];
	uint64_t late[RF_LANES / 64] = { 0 }; /* lanes whose oldest mark is not done */
	unsigned n = p->n, kept = 0, lanes = n ? lanes_working(f, card) : 0;
	int mode = RELAXED;

	relax(f, &mode);

	for (unsigned i = 0; i < n; i++) {
		struct rf_mark m = p->mark[(p->head + i) % RF_MARKS];
		uint64_t bit = 1ull << m.lane % 64;

		if (late[m.lane / 64] & bit) {
			m.pure = true;
		} else if (RF_REAL(cuEventQuery)(m.event) != CUDA_ERROR_NOT_READY) {
			harvested(f, &m, lanes, now);
			continue;
		} else {
			m.at_least = now - least(now, m.put_at);
		}
		late[m.lane / 64] |= bit;
		p->mark[(p->head + kept++) % RF_MARKS] = m;
	}
	p->n = kept;
	relax(f, &mode);
	if (p->busy_from && p->n == 0 && !anything_open(f, card, now))
		end(f, g, card, now);
}

/* Of all lanes, or of those alone of which no mark tells. */
static bool mark_lanes(struct rf_fence *f, unsigned card, bool all)
{
	bool any = false;

	FOR_WORKING(f, l)
	if (l->card == card && (all || l->outstanding == 0))
		any = mark(f, l) || any;
	return any;
}

/* What is in flight behind which there is a mark. */
static uint64_t marked(const struct rf_pace *p)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < p->n; i++)
		ns += p->mark[(p->head + i) % RF_MARKS].cost;
	return ns;
}

/* --- waiting --- */

/* A standing gate is open to whoever says that it came. It must also be heard: a dead arbiter never shuts it. */
static bool is_unheard(const struct rf_gate *gate, struct rf_pace *p, uint64_t now)
{
	if (p->rang_at == 0 || now - p->rang_at <= UNHEARD)
		return false;
	check_arbiter(gate, p, now);
	return p->rang_at != 0;
}

/* Whether it is the turn of another process of the fence; the arbiter knows this one by the seat it told last. */
static bool is_shut_out(const struct rf_gate_card *g, const struct rf_pace *p)
{
	unsigned seat = p->sat - 1;

	return seat < RF_SIBLINGS &&
	       __atomic_load_n(&g->shut[seat / 64], __ATOMIC_RELAXED) >> seat % 64 & 1;
}

/* Until when the process may launch, by the arbiter or by its own pacing. */
static inline uint64_t open_until(struct rf_fence *f, const struct rf_gate_card *g,
				  struct rf_pace *p, uint64_t now)
{
	if (!p->orphan) {
		uint64_t until = __atomic_load_n(&g->open_until, __ATOMIC_ACQUIRE);

		if (until == RF_GATE_FREE)
			return until;
		if (is_shut_out(g, p) || (until == RF_GATE_STANDING && is_unheard(f->gate, p, now)))
			return 0;
		return until;
	}
	if (now < p->own_from)
		return 0;
	if (p->own_until == 0 || (p->busy_from == 0 && now >= p->own_until))
		p->own_until = now + OWN_LEASE;
	return p->own_until;
}

/* The arbiter is gone: perhaps there is a new one. First the process pays for what it took by itself, since
 * that nobody else will charge. */
static bool should_ask(const struct rf_pace *p, uint64_t now)
{
	return p->orphan && now >= p->ask_at && now >= p->own_from;
}

/* Without the lock, since it may take a while. */
static void ask_again(struct rf_fence *f, struct rf_pace *p, uint64_t now)
{
	int gate, desk;
	bool ok;

	p->ask_at = now + ASKING; /* one thread is enough */
	pthread_mutex_unlock(&f->pace_lock);
	ok = rf_client_ask_gate(&gate, &desk);
	pthread_mutex_lock(&f->pace_lock);
	/* A server that answers slowly must not take up the time there is for launches. */
	p->ask_at = now_ns() + ASK_PAUSE + 10 * (now_ns() - now);
	if (ok)
		rf_share_open(f, gate, desk);
}

static void nap(const struct rf_gate_card *g, uint32_t turn, uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u) };

	syscall(SYS_futex, &g->turn, FUTEX_WAIT, turn, &t, NULL, 0);
}

/* Its own work is long overdue: it may be waiting for this very launch (a kernel that polls, a stream
 * that waits for a value). One goes on; its time counts all the same. If that does not help, it is simply long: the next
 * one waits twice as long, or what is in flight would grow and grow. */
static bool is_stuck(struct rf_pace *p, bool open, uint64_t began, uint64_t now)
{
	uint64_t first = p->n ? p->mark[p->head].cost : p->inflight;
	uint64_t patience = (open ? STUCK : 10 * STUCK) << least(p->stuck, STUCK_DOUBLED);

	if (!p->busy_from || now - most(began, p->progress_at) <= 2 * first + patience)
		return false;
	p->stuck++;
	return true;
}

/* --- room --- */

#define WHOLE UINT32_MAX /* blocks of what may fill any card */

/* How many blocks a launch has, by its key: half as many as there may be, since a processor mostly takes two. */
static uint32_t blocks_of(uint64_t key, CUstream stream, uint32_t thread)
{
	unsigned order = key % 64;

	/* The default stream waits for the others, and they for it. */
	return order < 31 && !(is_default(stream) && !thread) ? 1u << order : WHOLE;
}

/* Multiprocessors of the card. 0: nobody knows. */
static uint32_t processors(struct rf_fence *f, unsigned card)
{
	int n = 0;

	for (unsigned dev = 0; dev < RF_DEVICES && !f->processors[card]; dev++) {
		if (__atomic_load_n(&f->card_of[dev], __ATOMIC_RELAXED) != (int)card + 1)
			continue;
		if (RF_REAL(cuDeviceGetAttribute)(&n, MULTIPROCESSORS, (CUdevice)dev) != CUDA_SUCCESS || n < 1)
			n = 1; /* so nothing fits beside anything */
		f->processors[card] = (uint32_t)n;
	}
	return f->processors[card];
}

/* Whether all that is in flight leaves room on the card for a launch. */
static bool fits_beside(struct rf_fence *f, unsigned card, const struct launch *a)
{
	uint64_t blocks = a->blocks;

	if (blocks == WHOLE)
		return false;
	FOR_WORKING(f, l)
	if (l->card == card && !is_lane(l, a->ctx, a->stream, a->thread))
		blocks += l->blocks;
	return blocks <= processors(f, card);
}

static bool is_before(const struct rf_fence *f, const struct rf_mark *m, const struct launch *a)
{
	return is_lane(&f->lane[m->lane], a->ctx, a->stream, a->thread);
}

/* What its stream has in flight, with the launch itself. */
static uint64_t in_stream(struct rf_fence *f, unsigned card, const struct launch *a)
{
	const struct rf_pace *p = &f->pace[card];
	uint64_t ns = 0;

	for (unsigned i = 0; i < p->n; i++)
		if (is_before(f, &p->mark[(p->head + i) % RF_MARKS], a))
			ns += p->mark[(p->head + i) % RF_MARKS].cost;
	FOR_WORKING(f, l)
	if (is_lane(l, a->ctx, a->stream, a->thread))
		ns += l->open.cost;
	return ns ? ns + a->cost : 0;
}

/* Where all fits on the card, streams work at the same time and each has the depth by itself; what their work is known to
 * take is its part of what all took. Else streams of long kernels that are small would work one after the other. */
static bool fits(struct rf_fence *f, unsigned card, const struct launch *a, uint64_t limit)
{
	return fits_beside(f, card, a) && in_stream(f, card, a) * lanes_working(f, card) <= limit;
}

/* One launch alone is in flight, and should be done in a moment: the next one may be queued behind it, or the card would
 * have to wait for the host after each. */
static bool is_nearly_done(struct rf_fence *f, unsigned card, uint64_t now)
{
	const struct rf_pace *p = &f->pace[card];
	unsigned n = 0;

	if (now + MOMENT < p->done_at + p->inflight)
		return false;
	for (unsigned i = 0; i < p->n; i++)
		n += p->mark[(p->head + i) % RF_MARKS].launches;
	FOR_WORKING(f, l)
	n += l->card == card ? l->open.launches : 0;
	return n == 1;
}

static bool has_room(struct rf_fence *f, unsigned card, const struct launch *a, uint64_t now)
{
	const struct rf_pace *p = &f->pace[card];
	uint64_t limit = limit_of(&f->gate->card[card], p);

	return p->inflight == 0 || p->inflight + a->cost <= limit || fits(f, card, a, limit) ||
	       is_nearly_done(f, card, now);
}

/* Which mark tells that there is room: the first of the stream where all fits beside each other, else the first of all.
 * NULL: none does. */
static const struct rf_mark *first_mark(struct rf_fence *f, unsigned card, const struct launch *a)
{
	const struct rf_pace *p = &f->pace[card];

	for (unsigned i = 0; i < p->n && fits_beside(f, card, a); i++)
		if (is_before(f, &p->mark[(p->head + i) % RF_MARKS], a))
			return &p->mark[(p->head + i) % RF_MARKS];
	return p->n ? &p->mark[p->head] : NULL;
}

/* How long to sleep: up to the guessed end of what is in flight, if anything is. The last work of streams side by side
 * may be done at once. */
static uint64_t nap_for(struct rf_fence *f, unsigned card, const struct launch *a, bool open, uint64_t now)
{
	const struct rf_pace *p = &f->pace[card];
	const struct rf_mark *m = first_mark(f, card, a);
	uint64_t first = m ? m->cost : p->inflight, from = p->done_at, overdue = 0;

	if (p->orphan && p->busy_from == 0)
		return most(NAP_LEAST, least(p->own_from - least(now, p->own_from), SILENCE));
	if (p->busy_from == 0)
		return p->rang_at && now - p->rang_at > UNHEARD ? NAP_MOST : TELL;
	if (!open)
		first = p->inflight / most(lanes_working(f, card), 1);
	else
		first -= least(first, MOMENT);
	if (open && m) /* one that takes longer than was thought is asked for less and less often */
		overdue = now - least(now, m->put_at);
	if (open && m && m != &p->mark[p->head])
		from = m->began;
	return most(NAP_LEAST, least(most((first - least(first, now - least(now, from))) / 2, overdue / 64), NAP_MOST));
}

/* Under the lock, which it gives up to sleep. */
static RF_RARE void wait_turn(struct rf_fence *f, unsigned card, const struct launch *a)
{
	struct rf_pace *p = &f->pace[card];
	uint64_t began = now_ns(), now = began, told = began;
	int mode = RELAXED, saved = errno;
	bool asked = false;

	RF_REAL(cuThreadExchangeStreamCaptureMode)(&mode);
	p->waiting++;
	for (;; now = now_ns()) {
		const struct rf_gate_card *g = &f->gate->card[card];
		uint32_t turn = __atomic_load_n(&g->turn, __ATOMIC_ACQUIRE);
		uint64_t until, ns;
		bool open, fresh = false;

		check_arbiter(f->gate, p, now);
		if (should_ask(p, now))
			ask_again(f, p, now);
		g = &f->gate->card[card];
		until = open_until(f, g, p, now);
		open = now < until;
		if (until == RF_GATE_FREE)
			break;
		harvest(f, g, card, now);
		if (p->busy_from)
			fresh = mark_lanes(f, card, !open || marked(p) <= p->inflight / 4);
		if (fresh)
			harvest(f, g, card, now);
		if (p->busy_from) /* it takes longer than was guessed, perhaps */
			publish(f, card, now);
		if (open && has_room(f, card, a, now))
			break;
		if (is_stuck(p, open, began, now))
			break;
		if (!open && !p->orphan && (!asked || now - told >= TELL)) {
			asked = true;
			told = now;
			publish(f, card, now);
			ring(f, p, now);
		}
		/* Where all was done already, a mark is so in a moment. */
		ns = fresh && !open ? NAP_LEAST : nap_for(f, card, a, open, now);
		pthread_mutex_unlock(&f->pace_lock);
		nap(g, turn, ns);
		pthread_mutex_lock(&f->pace_lock);
	}
	p->waiting--;
	p->held_ns += now - began;
	publish(f, card, now);
	RF_REAL(cuThreadExchangeStreamCaptureMode)(&mode);
	errno = saved;
}

/* --- launches --- */

static uint64_t mark_at(uint64_t depth)
{
	return most(MARK_LEAST, least(depth / 4, MARK_MOST));
}

/* Whether no other lane has work, and no mark was put. */
static bool is_only(const struct rf_fence *f, const struct rf_lane *l)
{
	unsigned at = (unsigned)(l - f->lane);

	for (unsigned i = 0; i < RF_LANES / 64; i++)
		if (f->working[i] != (i == at / 64 ? 1ull << at % 64 : 0))
			return false;
	return l->outstanding == 0;
}

/* One that sets the pace itself pauses between every few launches: its work ends and begins without more ado, if nobody
 * wants to know. */
static void skip_pause(struct rf_fence *f, struct rf_lane *l, uint64_t now)
{
	struct rf_pace *p = &f->pace[l->card];

	presume_done(f, l, now);
	p->gpu_ns += most(p->busy_from, p->done_at) - p->busy_from;
	start_busy(p, now);
	p->inflight = 0;
	if (now > p->told_at + LAG)
		publish(f, l->card, now);
}

/* The work of before should be over by now. What no mark follows is believed to be. If one says otherwise, something
 * takes longer than it did. */
static RF_RARE void after_pause(struct rf_fence *f, const struct rf_gate_card *g,
				struct rf_lane *next, uint64_t now)
{
	unsigned card = next->card;
	struct rf_pace *p = &f->pace[card];
	uint64_t until;

	FOR_WORKING(f, l)
	settle(f, l); /* what went along in other lanes is work, too */
	if (now <= p->done_at + p->inflight + GAP)
		return;
	if (is_only(f, next) && !p->orphan && __atomic_load_n(&g->tell, __ATOMIC_ACQUIRE) == 0) {
		skip_pause(f, next, now);
		return;
	}
	harvest(f, g, card, now);
	if (p->n > 0)
		look_closer(f, card, next, now);
	if (p->n > 0 || p->busy_from == 0)
		return;
	until = p->done_at + p->inflight;
	FOR_WORKING(f, l)
	if (l->card == card && l->open.launches)
		presume_done(f, l, now);
	p->done_at = least(p->done_at, until); /* whichever lane's came first */
	end(f, g, card, now);
}

/* Whether the launch is to be measured: something is new or changes, or it is time again where no marks tell what
 * launches take. Then it is now the next, and now one some work later: after a pause it would always be the first, and
 * the more a kind is thought to take the more it matters. */
static RF_RARE bool is_due(struct rf_fence *f, const struct rf_lane *l, uint64_t cost, uint64_t now)
{
	struct rf_pace *p = &f->pace[l->card];

	if (f->cost[mine.kind].ns == 0 || l->doubt)
		return true;
	if (p->skip > cost && now < p->probe_at + SOON) {
		p->skip -= (uint32_t)cost;
		return false;
	}
	p->dice = p->dice * 1664525 + 1013904223;
	p->skip = p->dice >> 31 ? (p->dice & INT32_MAX) % SKIP : 0;
	p->probe_at = now + PROBE;
	if (depth_of(&f->gate->card[l->card], p) >= RF_DEPTH_ALONE)
		p->probe_at = now + most(p->probe_every, PROBE);
	return true;
}

/* The lane's next launch starts a mark of its own. Its time is that since the mark before, unless the card is through
 * with that one: then an event says where it begins, if the mark is for this launch alone. */
static RF_RARE void open_mark(struct rf_fence *f, struct rf_lane *l, bool alone, uint64_t now)
{
	l->open = (struct rf_mark){ .began = now,
				    .kind = (uint16_t)mine.kind,
				    .lane = (uint16_t)(l - f->lane),
				    .turn = __atomic_load_n(&f->gate->card[l->card].turn, __ATOMIC_RELAXED) };
	if (l->outstanding > 0)
		harvest(f, &f->gate->card[l->card], l->card, now);
	if (l->outstanding > 0)
		return;
	l->open.from = alone && may_mark(f, l) ? record(l) : NULL;
	if (!l->open.from)
		l->last = NULL; /* from there to the next mark is not all work */
}

/* Before it is launched, so that there is mostly nothing left to do afterwards. */
static void count(struct rf_fence *f, struct rf_lane *l, uint64_t cost, uint32_t blocks)
{
	struct rf_pace *p = &f->pace[l->card];
	bool first = l->open.launches == 0 && l->outstanding == 0;

	if (first || blocks > l->blocks)
		l->blocks = blocks;
	l->open.launches++;
	l->open.cost += cost;
	if (cost > l->open.dearest) {
		l->open.dearest = (uint32_t)cost;
		l->open.of_kind = l->open.kind == mine.kind ? l->open.of_kind : 0;
		l->open.kind = (uint16_t)mine.kind;
	}
	l->open.of_kind += l->open.kind == mine.kind;
	p->inflight += cost;
	p->launched_ns += cost;
	p->launches++;
	if (l->open.launches == 1)
		set_working(f, l);
}

/* The driver refused it. If somebody has put a mark behind it meanwhile, the mark will tell. */
static void take_back(struct rf_fence *f, struct rf_lane *l)
{
	struct rf_pace *p = &f->pace[l->card];
	uint64_t cost = cost_of(f, mine.kind);

	settle(f, l);
	p->launches--;
	if (l->open.launches == 0)
		return;
	l->open.launches--;
	l->open.cost -= least(l->open.cost, cost);
	p->inflight -= least(p->inflight, cost);
	p->launched_ns -= least(p->launched_ns, cost);
	if (l->open.launches == 0)
		l->open = (struct rf_mark){ 0 };
	set_working(f, l);
	harvest(f, &f->gate->card[l->card], l->card, now_ns());
}

static bool paced(struct rf_fence *f, const struct rf_lane *l)
{
	return __atomic_load_n(&f->captures, __ATOMIC_RELAXED) == 0 ||
	       (is_default(l->stream) && !l->thread) || !is_capturing(l);
}

/* A few short launches in the same stream may go along without being looked at, as long as the gate does not move, no
 * capture is on and no mark is due before; so little work that whoever comes does not notice. */
static void grant(struct rf_fence *f, struct rf_lane *l, CUstream stream, uint64_t now)
{
	const struct rf_gate_card *g = &f->gate->card[l->card];
	const struct rf_pace *p = &f->pace[l->card];
	uint64_t until = __atomic_load_n(&g->open_until, __ATOMIC_RELAXED), depth = depth_of(g, p);
	uint64_t left = least(mark_at(depth) - l->open.cost, depth - least(depth, p->inflight));
	bool alone = depth >= RF_DEPTH_ALONE;
	uint64_t launches = least(alone ? ALONG_ALONE : depth / ALONG_EACH,
				  MARK_LAUNCHES - l->open.launches);
	struct rf_along *a = &f->along[l - f->lane];

	if (until >= RF_GATE_STANDING || until < now + ALONG_LEASE || p->orphan || l->doubt ||
	    now >= p->probe_at || __atomic_load_n(&f->captures, __ATOMIC_RELAXED) ||
	    (f->cards > 1 && is_default(stream)))
		return;
	/* All that work may have been granted something. */
	left = least(left, depth / (alone ? ALONG_PART_ALONE : ALONG_PART) / most(lanes_working(f, l->card), 1));
	__atomic_store_n(&a->sum, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&a->below, (launches + 1) * RF_ALONG_ONE, __ATOMIC_RELAXED);
	__atomic_store_n(&a->cheap, l->open.dearest - 1, __ATOMIC_RELAXED);
	__atomic_store_n(&a->kind, l->open.kind, __ATOMIC_RELAXED);
	__atomic_store_n(&a->of_kind, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&a->stream, stream, __ATOMIC_RELAXED);
	__atomic_store_n(&a->gate, g, __ATOMIC_RELAXED);
	__atomic_store_n(&a->until, until, __ATOMIC_RELAXED);
	__atomic_store_n(&a->depth_us, (uint32_t)(depth / US), __ATOMIC_RELAXED);
	__atomic_store_n(&a->cost, f->cost, __ATOMIC_RELAXED);
	__atomic_store_n(&a->work, (uint32_t)left, __ATOMIC_RELEASE);
}

/* The few for which rf_share_along() is not enough: their kind is not in its own place, or dearer than all that is open. */
static bool goes_along(struct rf_fence *f, uint64_t key, CUstream stream)
{
	struct rf_along *a = rf_share_mine;
	uint32_t work = rf_share_granted(a, stream), ns;
	unsigned kind, of_kind;
	uint64_t sum;

	if (!work)
		return false;
	kind = find_kind(f, key);
	ns = kind < RF_COSTS ? __atomic_load_n(&f->cost[kind].ns, __ATOMIC_RELAXED) : 0;
	sum = __atomic_load_n(&a->sum, __ATOMIC_RELAXED) + RF_ALONG_ONE + ns;
	if (ns == 0 || (uint32_t)sum > work || sum >= __atomic_load_n(&a->below, __ATOMIC_RELAXED))
		return false;
	if (kind == __atomic_load_n(&a->kind, __ATOMIC_RELAXED)) {
		of_kind = __atomic_load_n(&a->of_kind, __ATOMIC_RELAXED) + 1u;
		__atomic_store_n(&a->of_kind, (uint16_t)of_kind, __ATOMIC_RELAXED);
	} else if (ns - 1 > __atomic_load_n(&a->cheap, __ATOMIC_RELAXED)) {
		__atomic_store_n(&a->cheap, ns - 1, __ATOMIC_RELAXED);
		__atomic_store_n(&a->kind, (uint16_t)kind, __ATOMIC_RELAXED);
		__atomic_store_n(&a->of_kind, 1, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&a->sum, sum, __ATOMIC_RELAXED);
	mine.kind = kind;
	mine.more = false;
	return true;
}

/* Under the lock. */
static void let_in(struct rf_fence *f, struct rf_lane *l, CUcontext ctx, uint64_t key,
		   CUstream stream)
{
	const struct rf_gate_card *g = &f->gate->card[l->card];
	struct rf_pace *p = &f->pace[l->card];
	uint64_t now = now_ns(), cost;
	uint32_t thread = l->thread, blocks;

	settle(f, l);
	if (RF_RARELY(p->busy_from && now > p->done_at + p->inflight + GAP))
		after_pause(f, g, l, now);
	mine.kind = kind_of(f, key);
	cost = cost_of(f, mine.kind);
	blocks = blocks_of(key, l->stream, thread);
	mine.probe = RF_RARELY(f->cost[mine.kind].ns == 0 || l->doubt || now >= p->probe_at) &&
		     is_due(f, l, cost, now);
	if (RF_RARELY(mine.probe))
		mark(f, l); /* so that its time is its own */
	if (RF_RARELY(now >= open_until(f, g, p, now) || should_ask(p, now) ||
		      (p->inflight && p->inflight + cost > limit_of(g, p)))) {
		struct launch a = { ctx, l->stream, thread, blocks, cost };

		wait_turn(f, l->card, &a);
		l = lane_of(f, ctx, stream, thread);
		if (!l)
			return;
		settle(f, l); /* another thread may have been let in */
		g = &f->gate->card[l->card];
		now = now_ns();
	}
	if (__atomic_load_n(&g->open_until, __ATOMIC_RELAXED) == RF_GATE_FREE && !p->orphan)
		return;
	mine.lane = l;
	rf_share_mine = &f->along[l - f->lane];
	mine.ctx = ctx;
	l->launched_at = now;
	if (RF_RARELY(l->open.launches == 0))
		open_mark(f, l, mine.probe || cost >= mark_at(depth_of(g, p)), now);
	if (RF_RARELY(p->busy_from == 0))
		begin(f, g, l->card, cost, now);
	else if (RF_RARELY(is_news(f, g, p, cost, now)))
		go_on(f, g, l->card, cost, now);
	count(f, l, cost, blocks);
	mine.more = p->begun || mine.probe || l->open.launches >= MARK_LAUNCHES ||
		    l->open.cost >= mark_at(depth_of(g, p));
	if (!mine.more)
		grant(f, l, stream, now);
}

void rf_share_before(uint64_t key, CUstream stream)
{
	struct rf_fence *f = rf_joined();
	CUcontext ctx = NULL;
	struct rf_lane *l;

	if (goes_along(f, key, stream))
		return;
	mine.lane = NULL;
	rf_share_mine = NULL;
	if (RF_REAL(cuCtxGetCurrent)(&ctx) != CUDA_SUCCESS || !ctx)
		return;
	pthread_mutex_lock(&f->pace_lock);
	l = lane_of(f, ctx, stream, thread_of(f, stream));
	if (l && paced(f, l))
		let_in(f, l, ctx, key, stream);
	pthread_mutex_unlock(&f->pace_lock);
}

static void after(struct rf_fence *f, struct rf_lane *l)
{
	const struct rf_gate_card *g = &f->gate->card[l->card];
	struct rf_pace *p = &f->pace[l->card];
	uint64_t now = now_ns();

	if (p->begun) {
		p->begun = false;
		ring(f, p, now);
	}
	if (!mine.probe && l->open.launches < MARK_LAUNCHES &&
	    l->open.cost < mark_at(depth_of(g, p)))
		return;
	l->open.launching = (uint32_t)least(now - l->launched_at, UINT32_MAX);
	l->doubt -= mark(f, l) && l->doubt > 0;
	harvest(f, g, l->card, now);
	check_arbiter(f->gate, p, now);
	if (p->busy_from)
		publish(f, l->card, now);
}

void rf_share_after(CUstream stream, bool launched)
{
	struct rf_fence *f;
	struct rf_lane *l;

	if (!mine.lane || (launched && !mine.more))
		return;
	f = rf_joined();
	if (!f)
		return;
	pthread_mutex_lock(&f->pace_lock);
	/* Another thread may have put another stream in its place meanwhile. */
	l = lane_of(f, mine.ctx, stream, thread_of(f, stream));
	if (l && launched)
		after(f, l);
	else if (l)
		take_back(f, l);
	pthread_mutex_unlock(&f->pace_lock);
}

/* --- the end of work, streams and contexts --- */

/* Its work had ended long before the thread came to wait for it, perhaps: then the wait tells nothing. Who launched
 * until just now did not come late, however long ago the first of these launches was. */
static bool came_late(uint64_t launched_at, uint64_t now)
{
	uint64_t before = mine.syncing - least(mine.syncing, launched_at);

	return before > GAP && now - mine.syncing < most(GAP, before / 2);
}

static void lane_done(struct rf_fence *f, struct rf_lane *l, bool late, uint64_t now)
{
	struct rf_pace *p = &f->pace[l->card];
	struct rf_mark open;
	uint64_t began;
	bool only = lanes_working(f, l->card) == 1;

	settle(f, l);
	began = l->open.began;
	l->open.began = now; /* it need not be believed to be done: it is */
	if (l->outstanding)
		harvest(f, &f->gate->card[l->card], l->card, now);
	open = l->open;
	open.began = began;
	l->open = (struct rf_mark){ 0 };
	set_working(f, l);
	if (open.launches == 0)
		return;
	/* If the thread waited for it, it was done just now; a launch alone tells its time, if all before it was done. */
	if (!late && open.launches == 1 && only && p->done_at <= open.began && open.began < now)
		learn(f, &open, now - open.began, now);
	done(f, &open, l, late ? open.cost : 0, now);
	if (!late)
		p->done_at = now;
}

static void put_among(const struct rf_fence *f, const struct rf_lane *l, uint64_t lanes[RF_LANES / 64])
{
	lanes[(l - f->lane) / 64] |= 1ull << (l - f->lane) % 64;
}

static bool is_among(const struct rf_fence *f, const struct rf_lane *l, const uint64_t lanes[RF_LANES / 64])
{
	return lanes[(l - f->lane) / 64] >> (l - f->lane) % 64 & 1;
}

/* It had to wait for what should have been done long ago. */
static void waited_long(struct rf_fence *f, unsigned card, uint64_t now)
{
	const struct rf_pace *p = &f->pace[card];

	if (now > most(mine.syncing, p->done_at + p->inflight) + OVERDUE)
		look_closer(f, card, NULL, now);
}

/* The work of these lanes is done, known just now or late. */
static void ended(struct rf_fence *f, const uint64_t lanes[RF_LANES / 64], bool late, uint64_t now)
{
	uint32_t cards = 0;

	FOR_WORKING(f, l)
	{
		settle(f, l);
		if (is_among(f, l, lanes))
			cards |= 1u << l->card;
	}
	for (unsigned card = 0; card < f->cards; card++) {
		if (!(cards & 1u << card) || late)
			continue;
		waited_long(f, card, now);
		/* Of streams side by side the marks do not tell as exactly. */
		if (lanes_working(f, card) > 1)
			f->pace[card].done_at = now;
	}
	FOR_WORKING(f, l)
	if (is_among(f, l, lanes))
		lane_done(f, l, late, now);
	for (unsigned card = 0; card < f->cards; card++) {
		struct rf_pace *p = &f->pace[card];

		if (cards & 1u << card && p->busy_from)
			harvest(f, &f->gate->card[card], card, now);
		if (p->busy_from && now > p->told_at + LAG)
			publish(f, card, now);
	}
}

/* stream NULL and all set: every lane of the context. */
static void synced(CUcontext ctx, CUstream stream, uint32_t thread, bool all)
{
	struct rf_fence *f = rf_joined();
	uint64_t now, launched_at = 0, lanes[RF_LANES / 64] = { 0 };

	pthread_mutex_lock(&f->pace_lock);
	now = now_ns();
	FOR_WORKING(f, l)
	if (l->ctx == ctx && (all || (l->stream == stream && l->thread == thread))) {
		put_among(f, l, lanes);
		launched_at = most(launched_at, l->launched_at);
	}
	ended(f, lanes, came_late(launched_at, now), now);
	pthread_mutex_unlock(&f->pace_lock);
}

/* The stream has nothing to do, as far as this thread can ask. */
static bool is_idle(const struct rf_fence *f, const struct rf_lane *l)
{
	if (l->thread)
		return l->thread == thread_id(f) && RF_REAL(cuStreamQuery_ptsz)(l->stream) == CUDA_SUCCESS;
	return RF_REAL(cuStreamQuery)(l->stream) == CUDA_SUCCESS;
}

/* Whether there is anything whose end could matter. */
static bool matters(CUcontext *ctx)
{
	struct rf_fence *f = rf_joined();

	if (!f || !__atomic_load_n(&f->gate, __ATOMIC_ACQUIRE))
		return false;
	if (f->cards == 1 && __atomic_load_n(&f->pace[0].busy_from, __ATOMIC_RELAXED) == 0)
		return false;
	return *ctx || (RF_REAL(cuCtxGetCurrent)(ctx) == CUDA_SUCCESS && *ctx);
}

void rf_share_syncing(void)
{
	const struct rf_fence *f = rf_joined();

	mine.syncing = 0;
	if (rf_share_paced() &&
	    (f->cards != 1 || __atomic_load_n(&f->pace[0].busy_from, __ATOMIC_RELAXED) != 0))
		mine.syncing = now_ns();
}

void rf_share_synced(CUstream stream)
{
	CUcontext ctx = NULL;

	if (matters(&ctx))
		synced(ctx, (uintptr_t)stream == 1 ? NULL : stream,
		       thread_of(rf_joined(), stream), false);
}

void rf_share_synced_all(CUcontext ctx)
{
	if (matters(&ctx))
		synced(ctx, NULL, 0, true);
}

/* Of which streams an event tells is not known here. A launch of another thread may not have reached the driver yet. While
 * a capture is on nobody may ask. Who is alone and may have the whole card need not be known to be done. */
void rf_share_told(bool waited)
{
	struct rf_fence *f = rf_joined();
	uint64_t now, launched_at = 0, lanes[RF_LANES / 64] = { 0 };
	CUcontext ctx = NULL;
	unsigned asked = 0;

	if (!rf_share_paced() || (f->cards == 1 && depth_of(&f->gate->card[0], &f->pace[0]) >= RF_DEPTH_ALONE))
		return;
	if (!matters(&ctx) || rf_capturing())
		return;
	pthread_mutex_lock(&f->pace_lock);
	now = now_ns();
	FOR_WORKING(f, l)
	if (l->ctx == ctx && (l == mine.lane || now > l->launched_at + GAP) && asked++ < ASK_STREAMS &&
	    is_idle(f, l)) {
		put_among(f, l, lanes);
		launched_at = most(launched_at, l->launched_at);
	}
	if (launched_at)
		ended(f, lanes, waited ? came_late(launched_at, now) : now > mine.syncing + GAP, now);
	mine.syncing = 0;
	pthread_mutex_unlock(&f->pace_lock);
}

/* The stream goes, its work goes on to the end; the events behind it tell when. */
static void detach(struct rf_fence *f, struct rf_lane *l)
{
	mark(f, l);
	if (l->outstanding == 0 && l->open.launches == 0) {
		clear(f, l, true);
		return;
	}
	l->stream = NULL;
	l->thread = UINT32_MAX; /* nobody's */
}

static void forget_lanes(CUcontext ctx, CUstream stream, bool by_stream)
{
	struct rf_fence *f = rf_joined();

	if (!f || !__atomic_load_n(&f->gate, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&f->pace_lock);
	for (unsigned i = 0; i < RF_LANES; i++) {
		struct rf_lane *l = &f->lane[i];

		if (!l->ctx)
			continue;
		if (!by_stream && (l->ctx == ctx || l->home == ctx))
			clear(f, l, false);
		else if (by_stream && l->stream == stream && !l->thread)
			detach(f, l);
	}
	pthread_mutex_unlock(&f->pace_lock);
}

void rf_share_stream_gone(CUstream stream)
{
	if (!is_default(stream))
		forget_lanes(NULL, stream, true);
}

void rf_share_context_gone(CUcontext ctx)
{
	forget_lanes(ctx, NULL, false);
}

/* With the lock: no event is being recorded when a capture begins. */
void rf_share_capture(int change)
{
	struct rf_fence *f = rf_joined();

	if (!f)
		return;
	pthread_mutex_lock(&f->pace_lock);
	if (change > 0 || f->captures > 0)
		__atomic_add_fetch(&f->captures, change, __ATOMIC_RELAXED);
	FOR_WORKING(f, l)
	settle(f, l); /* nothing goes along while one is on */
	pthread_mutex_unlock(&f->pace_lock);
}

bool rf_capturing(void)
{
	struct rf_fence *f = rf_joined();

	return f && __atomic_load_n(&f->captures, __ATOMIC_RELAXED) > 0;
}

/* --- the gate --- */

static void *map(int fd, size_t size, int prot)
{
	int want = F_SEAL_SHRINK | F_SEAL_GROW;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *p;

	if (seals < 0 || (seals & want) != want || fstat(fd, &st) < 0 || st.st_size < (off_t)size)
		return NULL;
	p = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void unmap(void *p, size_t size)
{
	if (p)
		munmap(p, size);
}

static bool is_good(const struct rf_gate *gate, const struct rf_desk *desk)
{
	return gate && desk && gate->magic == RF_GATE_MAGIC && desk->magic == RF_DESK_MAGIC &&
	       gate->bytes == sizeof(*gate) && desk->bytes == sizeof(*desk);
}

static void change_gate(struct rf_fence *f, const struct rf_gate *gate, struct rf_desk *desk)
{
	if (!f->gate) /* later others read it without the lock */
		f->pid = (uint32_t)getpid();
	f->desk = desk;
	__atomic_store_n(&f->gate, gate, __ATOMIC_RELEASE);
	FOR_WORKING(f, l)
	settle(f, l); /* whoever goes along looks at the old gate */
	for (unsigned i = 0; i < f->cards; i++) {
		f->pace[i].sat = 0;
		f->pace[i].orphan = false;
		f->pace[i].rang_at = 0;
		f->pace[i].rang = __atomic_load_n(&gate->heard, __ATOMIC_RELAXED); /* it has heard all there is */
		publish(f, i, now_ns());
	}
}

/* An older gate stays mapped: other threads may be looking at it. */
bool rf_share_open(struct rf_fence *f, int gate_fd, int desk_fd)
{
	struct stat st = { 0 };
	bool same = fstat(gate_fd, &st) == 0 && f->gate && st.st_ino == f->gate_ino;
	struct rf_gate *gate = same ? NULL : map(gate_fd, sizeof(*gate), PROT_READ);
	struct rf_desk *desk = same ? NULL : map(desk_fd, sizeof(*desk), PROT_READ | PROT_WRITE);

	close(gate_fd);
	close(desk_fd);
	if (same)
		return true; /* its arbiter is late, or nobody knows yet that it is dead */
	if (!is_good(gate, desk)) {
		unmap(gate, sizeof(*gate));
		unmap(desk, sizeof(*desk));
		return false;
	}
	f->gate_ino = st.st_ino;
	change_gate(f, gate, desk);
	return true;
}
