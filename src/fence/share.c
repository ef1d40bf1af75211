/* Time on the card, seen from a process that uses it: launches, and the end of what they began. */
#include "fence/share_private.h"

#define MARK_LEAST (100 * US) /* work between two marks, at least and */
#define MARK_MOST (4 * MS)    /* at most, if launches are that short */
#define MARK_LAUNCHES 1024    /* or after so many launches */
#define SKIP (200 * US)	      /* where it is time to measure a launch: one of those in the next so much work, */
#define SOON (10 * MS)	      /* within that time */
#define GAP (50 * US)	      /* so long after work should be done, it is believed to be */
#define ALONG_ALONE 500       /* launches go along with one at most, but of a fence that is not alone */
#define ALONG_EACH (256 * US) /* only one for each of these of depth, */
#define ALONG_PART 64	      /* of no more work than this part of it */
#define ALONG_PART_ALONE 8    /* or, alone, this, */
#define ALONG_LEASE (1 * MS)  /* with so much of the lease left */
#define OVERDUE (200 * US) /* who waited so much longer than it should have wonders why */
#define ASK_STREAMS 16 /* when an event tells that something is done */

/* The launch this thread is in. It survives a fork, which the fence does not. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	struct rf_lane *lane; /* NULL: not paced */
	CUcontext ctx;
	unsigned kind;
	bool more; /* there is something to do after the launch */
	bool probe; /* it is measured */
	uint64_t syncing; /* since when it waits for work; 0: that does not matter */
} mine;
_Thread_local struct rf_along *rf_share_mine; /* of the lane; survives a fork, to find all zeros */
_Static_assert(RF_DEPTH_ALONE / ALONG_EACH < ALONG_ALONE && ALONG_ALONE < MARK_LAUNCHES, "fewer");

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

	rf_mark_presume_done(f, l, now);
	p->gpu_ns += most(p->busy_from, p->done_at) - p->busy_from;
	rf_desk_start(p, now);
	p->inflight = 0;
	if (now > p->told_at + LAG)
		rf_desk_tell(f, l->card, now);
}

/* The work of before should be over by now. What no mark follows is believed to be. If one says otherwise, something
 * takes longer than it did. */
static RF_RARE void after_pause(struct rf_fence *f, const struct rf_gate_card *g,
				struct rf_lane *next, uint64_t now)
{
	unsigned card = next->card;
	struct rf_pace *p = &f->pace[card];
	uint64_t until;

	RF_FOR_WORKING(f, l)
	rf_lane_settle(f, l); /* what went along in other lanes is work, too */
	if (now <= p->done_at + p->inflight + GAP)
		return;
	if (is_only(f, next) && !p->orphan && __atomic_load_n(&g->tell, __ATOMIC_ACQUIRE) == 0) {
		skip_pause(f, next, now);
		return;
	}
	rf_mark_harvest(f, g, card, now);
	if (p->n > 0)
		rf_mark_look_closer(f, card, next, now);
	if (p->n > 0 || p->busy_from == 0)
		return;
	until = p->done_at + p->inflight;
	RF_FOR_WORKING(f, l)
	if (l->card == card && l->open.launches)
		rf_mark_presume_done(f, l, now);
	p->done_at = least(p->done_at, until); /* whichever lane's came first */
	rf_desk_end(f, g, card, now);
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
	if (rf_gate_depth(&f->gate->card[l->card], p) >= RF_DEPTH_ALONE)
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
		rf_mark_harvest(f, &f->gate->card[l->card], l->card, now);
	if (l->outstanding > 0)
		return;
	l->open.from = alone && rf_mark_may(f, l) ? rf_mark_record(l) : NULL;
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
		rf_lane_set_working(f, l);
}

/* The driver refused it. If somebody has put a mark behind it meanwhile, the mark will tell. */
static void take_back(struct rf_fence *f, struct rf_lane *l)
{
	struct rf_pace *p = &f->pace[l->card];
	uint64_t cost = rf_kind_cost(f, mine.kind);

	rf_lane_settle(f, l);
	p->launches--;
	if (l->open.launches == 0)
		return;
	l->open.launches--;
	l->open.cost -= least(l->open.cost, cost);
	p->inflight -= least(p->inflight, cost);
	p->launched_ns -= least(p->launched_ns, cost);
	if (l->open.launches == 0)
		l->open = (struct rf_mark){ 0 };
	rf_lane_set_working(f, l);
	rf_mark_harvest(f, &f->gate->card[l->card], l->card, now_ns());
}

static bool paced(struct rf_fence *f, const struct rf_lane *l)
{
	if (__atomic_load_n(&f->captures, __ATOMIC_RELAXED) == 0)
		return true;
	rf_capture_look(f);
	return (rf_lane_is_default(l->stream) && !l->thread) || !rf_lane_is_capturing(l);
}

/* A few short launches in the same stream may go along without being looked at, as long as the gate does not move, no
 * capture is on and no mark is due before; so little work that whoever comes does not notice. */
static void grant(struct rf_fence *f, struct rf_lane *l, CUstream stream, uint64_t now)
{
	const struct rf_gate_card *g = &f->gate->card[l->card];
	const struct rf_pace *p = &f->pace[l->card];
	uint64_t until = __atomic_load_n(&g->open_until, __ATOMIC_RELAXED), depth = rf_gate_depth(g, p);
	uint64_t left = least(mark_at(depth) - l->open.cost, depth - least(depth, p->inflight));
	bool alone = depth >= RF_DEPTH_ALONE;
	uint64_t launches = least(alone ? ALONG_ALONE : depth / ALONG_EACH,
				  MARK_LAUNCHES - l->open.launches);
	struct rf_along *a = &f->along[l - f->lane];

	if (until >= RF_GATE_STANDING || until < now + ALONG_LEASE || p->orphan || l->doubt ||
	    now >= p->probe_at || __atomic_load_n(&f->captures, __ATOMIC_RELAXED) ||
	    (f->cards > 1 && rf_lane_is_default(stream)))
		return;
	/* All that work may have been granted something. */
	left = least(left, depth / (alone ? ALONG_PART_ALONE : ALONG_PART) / most(rf_lanes_working(f, l->card), 1));
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
	kind = rf_kind_find(f, key);
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

	rf_lane_settle(f, l);
	if (RF_RARELY(p->busy_from && now > p->done_at + p->inflight + GAP))
		after_pause(f, g, l, now);
	mine.kind = rf_kind_of(f, key);
	cost = rf_kind_cost(f, mine.kind);
	blocks = rf_wait_blocks(key, l->stream, thread);
	mine.probe = RF_RARELY(f->cost[mine.kind].ns == 0 || l->doubt || now >= p->probe_at) &&
		     is_due(f, l, cost, now);
	if (RF_RARELY(mine.probe))
		rf_mark_put(f, l); /* so that its time is its own */
	if (RF_RARELY(now >= rf_gate_open_until(f, g, p, now) || rf_gate_should_ask(p, now) ||
		      (p->inflight && p->inflight + cost > rf_gate_limit(g, p)))) {
		struct rf_launch a = { ctx, l->stream, thread, blocks, cost };

		rf_wait_turn(f, l->card, &a);
		l = rf_lane_of(f, ctx, stream, thread);
		if (!l)
			return;
		rf_lane_settle(f, l); /* another thread may have been let in */
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
		open_mark(f, l, mine.probe || cost >= mark_at(rf_gate_depth(g, p)), now);
	if (RF_RARELY(p->busy_from == 0))
		rf_desk_begin(f, g, l->card, cost + rf_kind_beyond(f, mine.kind, cost), now);
	else if (RF_RARELY(rf_desk_is_news(f, g, p, cost, now)))
		rf_desk_go_on(f, g, l->card, cost + rf_kind_beyond(f, mine.kind, cost), now);
	count(f, l, cost, blocks);
	mine.more = p->begun || mine.probe || l->open.launches >= MARK_LAUNCHES ||
		    l->open.cost >= mark_at(rf_gate_depth(g, p));
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
	l = rf_lane_of(f, ctx, stream, rf_lane_thread(f, stream));
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
		rf_desk_ring(f, p, now);
	}
	if (!mine.probe && l->open.launches < MARK_LAUNCHES &&
	    l->open.cost < mark_at(rf_gate_depth(g, p)))
		return;
	l->open.launching = (uint32_t)least(now - l->launched_at, UINT32_MAX);
	l->doubt -= rf_mark_put(f, l) && l->doubt > 0;
	rf_mark_harvest(f, g, l->card, now);
	rf_desk_check(f->gate, p, now);
	if (p->busy_from)
		rf_desk_tell(f, l->card, now);
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
	l = rf_lane_of(f, mine.ctx, stream, rf_lane_thread(f, stream));
	if (l && launched)
		after(f, l);
	else if (l)
		take_back(f, l);
	pthread_mutex_unlock(&f->pace_lock);
}

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
	bool only = rf_lanes_working(f, l->card) == 1;

	rf_lane_settle(f, l);
	began = l->open.began;
	l->open.began = now; /* it need not be believed to be done: it is */
	if (l->outstanding)
		rf_mark_harvest(f, &f->gate->card[l->card], l->card, now);
	open = l->open;
	open.began = began;
	l->open = (struct rf_mark){ 0 };
	rf_lane_set_working(f, l);
	if (open.launches == 0)
		return;
	/* If the thread waited for it, it was done just now; a launch alone tells its time, if all before it was done. */
	if (!late && open.launches == 1 && only && p->done_at <= open.began && open.began < now)
		rf_kind_learn(f, &open, now - open.began, now);
	rf_mark_done(f, &open, l, late ? open.cost : 0, now);
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
		rf_mark_look_closer(f, card, NULL, now);
}

/* The work of these lanes is done, known just now or late. */
static void ended(struct rf_fence *f, const uint64_t lanes[RF_LANES / 64], bool late, uint64_t now)
{
	uint32_t cards = 0;

	RF_FOR_WORKING(f, l)
	{
		rf_lane_settle(f, l);
		if (is_among(f, l, lanes))
			cards |= 1u << l->card;
	}
	for (unsigned card = 0; card < f->cards; card++) {
		if (!(cards & 1u << card) || late)
			continue;
		waited_long(f, card, now);
		/* Of streams side by side the marks do not tell as exactly. */
		if (rf_lanes_working(f, card) > 1)
			f->pace[card].done_at = now;
	}
	RF_FOR_WORKING(f, l)
	if (is_among(f, l, lanes))
		lane_done(f, l, late, now);
	for (unsigned card = 0; card < f->cards; card++) {
		struct rf_pace *p = &f->pace[card];

		if (cards & 1u << card && p->busy_from)
			rf_mark_harvest(f, &f->gate->card[card], card, now);
		if (p->busy_from && now > p->told_at + LAG)
			rf_desk_tell(f, card, now);
	}
}

/* stream NULL and all set: every lane of the context. */
static void synced(CUcontext ctx, CUstream stream, uint32_t thread, bool all)
{
	struct rf_fence *f = rf_joined();
	uint64_t now, launched_at = 0, lanes[RF_LANES / 64] = { 0 };

	pthread_mutex_lock(&f->pace_lock);
	now = now_ns();
	RF_FOR_WORKING(f, l)
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
		return l->thread == rf_lane_thread_id(f) && RF_REAL(cuStreamQuery_ptsz)(l->stream) == CUDA_SUCCESS;
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
		       rf_lane_thread(rf_joined(), stream), false);
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

	if (!rf_share_paced() || (f->cards == 1 && rf_gate_depth(&f->gate->card[0], &f->pace[0]) >= RF_DEPTH_ALONE))
		return;
	if (!matters(&ctx) || rf_capturing())
		return;
	pthread_mutex_lock(&f->pace_lock);
	now = now_ns();
	RF_FOR_WORKING(f, l)
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
	rf_mark_put(f, l);
	if (l->outstanding == 0 && l->open.launches == 0) {
		rf_lane_clear(f, l, true);
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
			rf_lane_clear(f, l, false);
		else if (by_stream && l->stream == stream && !l->thread)
			detach(f, l);
	}
	pthread_mutex_unlock(&f->pace_lock);
}

void rf_share_stream_gone(CUstream stream)
{
	if (!rf_lane_is_default(stream))
		forget_lanes(NULL, stream, true);
}

void rf_share_context_gone(CUcontext ctx)
{
	forget_lanes(ctx, NULL, false);
}
