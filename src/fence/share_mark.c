/* When work is done and how long it took: by events behind it. */
#include "fence/share_private.h"

#define LITTLE (10 * US) /* and took, if its first time was mostly that of launching it */
#define PROBE_ALONE                                                                                \
	(64 *                                                                                      \
	 MS) /* alone and while launches take what they should, less and less often up to this */
#define DOUBT 100	 /* launches that are measured when work takes longer than it should, */
#define WATCH (100 * MS) /* not more often, and if that does not help, */
#define WATCH_MOST (6400 * MS) /* less and less often */

bool rf_lane_is_capturing(const struct rf_lane *l)
{
	int status = 0;
	CUresult r;

	if (rf_lane_is_default(l->stream) && !l->thread)
		return true; /* any capture of a blocking stream would suffer */
	r = l->thread ? RF_REAL(cuStreamIsCapturing_ptsz)(l->stream, &status)
		      : RF_REAL(cuStreamIsCapturing)(l->stream, &status);
	return r != CUDA_SUCCESS || status != 0;
}

/* Whether this thread may put an event into the lane now. */
bool rf_mark_may(struct rf_fence *f, const struct rf_lane *l)
{
	CUcontext ctx = NULL;

	if (l->silent || l->outstanding >= RF_LANE_EVENTS - 2)
		return false;
	if (l->thread && l->thread != rf_lane_thread_id(f))
		return false;
	if (__atomic_load_n(&f->captures, __ATOMIC_RELAXED) > 0 && rf_lane_is_capturing(l))
		return false;
	return RF_REAL(cuCtxGetCurrent)(&ctx) == CUDA_SUCCESS && ctx == l->ctx;
}

CUevent rf_mark_record(struct rf_lane *l)
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

RF_RARE bool rf_mark_put(struct rf_fence *f, struct rf_lane *l)
{
	struct rf_pace *p = &f->pace[l->card];
	CUevent e;

	rf_lane_settle(f, l);
	if (l->open.launches == 0 || p->n == RF_MARKS || !rf_mark_may(f, l))
		return false;
	e = rf_mark_record(l);
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

void rf_mark_done(struct rf_fence *f, const struct rf_mark *m, struct rf_lane *l, uint64_t ns,
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

void rf_mark_look_closer(struct rf_fence *f, unsigned card, struct rf_lane *only, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];

	if (now < p->watch_at)
		return;
	RF_FOR_WORKING(f, l)
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
		thought += m->launches * rf_kind_cost(f, m->kind) - least(thought, m->cost);
	return thought;
}

/* How long work took that was thought to take so much: took is from event to event, 0 if it cannot be told. If not all
 * was queued by then (sure), gaps of the host may be in it, and it took no longer than that. */
static uint64_t time_of(const struct rf_mark *m, uint64_t thought, uint64_t took, bool sure)
{
	uint64_t most_ = most(thought, m->at_least);

	return took && (sure || took < most_) ? took : most_;
}

/* known: so much later than the newest mark. Else it is the first since newest_from, and was done between when it was last
 * seen not to be and now. Longer than thought tells nothing if the card waited for the host. */
static void judge_beside(struct rf_fence *f, const struct rf_pace *p, const struct rf_mark *m,
			 bool known, uint64_t own, uint64_t beyond, unsigned lanes, uint64_t now)
{
	uint64_t thought = since_newest(f, p, m);
	bool only = m->launches == 1 && own && thought <= rf_kind_cost(f, m->kind);
	uint64_t longest = known ? beyond : now - least(now, p->newest_from);
	uint64_t until = m->put_at + m->at_least;
	uint64_t shortest = known ? beyond : until - least(until, p->newest_from);

	if (longest < thought)
		rf_kind_learn_beside(f, p, m, thought, longest, own ? own : now - m->began, lanes);
	else if (shortest > thought && (m->pure || m->at_least > 0 || only))
		rf_kind_learn_beside(f, p, m, thought,
				     only ? most(thought, least(own, shortest)) : shortest,
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
	rf_lane_set_working(f, l);
	beside = lanes > 1 || (p->newest && p->newest_lane != m->lane);
	known = beside && tell_between(p->newest, m->event, &beyond);
	/* At a first launch the driver loads code, while the card waits. */
	if (f->cost[m->kind].ns == 0 && !m->pure)
		took = most(took - least(took, m->launching), least(took, LITTLE));
	/* Marks in two contexts may not be compared. */
	if (!beside ||
	    (took && (f->cost[m->kind].ns == 0 || (p->newest && !known && m->launches == 1)))) {
		ns = time_of(m, m->cost, beyond ? least(took, beyond) : took, sure);
		if (ns != m->cost)
			rf_kind_learn(f, m, ns, now);
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
	rf_mark_done(f, m, l, ns, now);
	if (p->newest == m->event)
		p->newest_done = p->done_at;
	if (m->pure)
		p->probe_at = now + PROBE;
	if (m->pure && !beside && ns > 2 * m->cost)
		rf_mark_look_closer(f, l->card, l, now);
}

void rf_mark_presume_done(struct rf_fence *f, struct rf_lane *l, uint64_t now)
{
	struct rf_mark open;

	rf_lane_settle(f, l);
	open = l->open;
	l->open = (struct rf_mark){ 0 };
	rf_lane_set_working(f, l);
	rf_mark_done(f, &open, l, open.cost, now);
}

/* Launches that no mark follows are believed to be done after twice their time, which begins when the work before them
 * is done. */
static bool anything_open(struct rf_fence *f, unsigned card, uint64_t now)
{
	const struct rf_pace *p = &f->pace[card];
	bool any = false;

	RF_FOR_WORKING(f, l)
	{
		if (l->card != card || l->open.launches == 0)
			continue;
		rf_lane_settle(f, l);
		if (now < most(l->open.began, p->done_at) + 2 * l->open.cost + MS)
			any = true;
		else
			rf_mark_presume_done(f, l, now);
	}
	return any;
}

/* To ask for an event would spoil a capture that is on in some thread, unless this one is relaxed. */
static void relax(const struct rf_fence *f, int *mode)
{
	if (__atomic_load_n(&f->captures, __ATOMIC_RELAXED) > 0)
		RF_REAL(cuThreadExchangeStreamCaptureMode)(mode);
}

void rf_mark_harvest(struct rf_fence *f, const struct rf_gate_card *g, unsigned card, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];
	uint64_t late[RF_LANES / 64] = { 0 }; /* lanes whose oldest mark is not done */
	unsigned n = p->n, kept = 0, lanes = n ? rf_lanes_working(f, card) : 0;
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
		rf_desk_end(f, g, card, now);
}

/* Of all lanes, or of those alone of which no mark tells. */
bool rf_mark_put_all(struct rf_fence *f, unsigned card, bool all)
{
	bool any = false;

	RF_FOR_WORKING(f, l)
	if (l->card == card && (all || l->outstanding == 0))
		any = rf_mark_put(f, l) || any;
	return any;
}

uint64_t rf_mark_covered(const struct rf_pace *p)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < p->n; i++)
		ns += p->mark[(p->head + i) % RF_MARKS].cost;
	return ns;
}
