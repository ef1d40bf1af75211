/* Waiting for the gate, and for room on the card. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fence/share_private.h"

#define NAP_LEAST (20 * US)
#define NAP_MOST (2 * MS)
#define TELL (30 * MS)	  /* who waits rings again, to find out whether anybody hears */
#define MOMENT (100 * US) /* before its end what is in flight is as good as done */
#define STUCK                                                                                      \
	(25 * MS) /* overdue by so much, work is not simply slow; twice as much the next time, */
#define STUCK_DOUBLED 8	      /* up to so often */
#define A_LITTLE 64	      /* part */
#define DEPTH_LITTLE (MS / 2) /* one that uses little is around (RF_DEPTH_SHORT) */
#define MULTIPROCESSORS 16    /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */

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

#define WHOLE UINT32_MAX /* blocks of what may fill any card */

uint32_t rf_wait_blocks(uint64_t key, CUstream stream, uint32_t thread)
{
	unsigned order = key % 64;

	/* The default stream waits for the others, and they for it. */
	return order < 31 && !(rf_lane_is_default(stream) && !thread) ? 1u << order : WHOLE;
}

/* Multiprocessors of the card. 0: nobody knows. */
static uint32_t processors(struct rf_fence *f, unsigned card)
{
	int n = 0;

	for (unsigned dev = 0; dev < RF_DEVICES && !f->processors[card]; dev++) {
		if (__atomic_load_n(&f->card_of[dev], __ATOMIC_RELAXED) != (int)card + 1)
			continue;
		if (RF_REAL(cuDeviceGetAttribute)(&n, MULTIPROCESSORS, (CUdevice)dev) !=
			    CUDA_SUCCESS ||
		    n < 1)
			n = 1; /* so nothing fits beside anything */
		f->processors[card] = (uint32_t)n;
	}
	return f->processors[card];
}

/* Whether all that is in flight leaves room on the card for a launch. */
static bool fits_beside(struct rf_fence *f, unsigned card, const struct rf_launch *a)
{
	uint64_t blocks = a->blocks;

	if (blocks == WHOLE)
		return false;
	RF_FOR_WORKING(f, l)
	if (l->card == card && !rf_lane_is(l, a->ctx, a->stream, a->thread))
		blocks += l->blocks;
	return blocks <= processors(f, card);
}

static bool is_before(const struct rf_fence *f, const struct rf_mark *m, const struct rf_launch *a)
{
	return rf_lane_is(&f->lane[m->lane], a->ctx, a->stream, a->thread);
}

/* What its stream has in flight, with the launch itself. */
static uint64_t in_stream(struct rf_fence *f, unsigned card, const struct rf_launch *a)
{
	const struct rf_pace *p = &f->pace[card];
	uint64_t ns = 0;

	for (unsigned i = 0; i < p->n; i++)
		if (is_before(f, &p->mark[(p->head + i) % RF_MARKS], a))
			ns += p->mark[(p->head + i) % RF_MARKS].cost;
	RF_FOR_WORKING(f, l)
	if (rf_lane_is(l, a->ctx, a->stream, a->thread))
		ns += l->open.cost;
	return ns ? ns + a->cost : 0;
}

/* Where all fits on the card, streams work at the same time and each has the depth by itself; what their work is known to
 * take is its part of what all took. Else streams of long kernels that are small would work one after the other. */
static bool fits(struct rf_fence *f, unsigned card, const struct rf_launch *a, uint64_t limit)
{
	return fits_beside(f, card, a) &&
	       in_stream(f, card, a) * rf_lanes_working(f, card) <= limit;
}

/* The first launch in flight is of a kind that takes now this now that, and is done in a moment if it is as long as any. */
static bool is_longest_nearly_done(const struct rf_fence *f, const struct rf_pace *p, uint64_t now)
{
	const struct rf_mark *m = &p->mark[p->head];
	uint64_t beyond = p->n && m->launches == 1 ? rf_mark_beyond(f, m) : 0;

	return beyond && now + MOMENT >= p->done_at + m->cost + beyond;
}

/* One launch alone is in flight, and should be done in a moment: the next one may be queued behind it, or the card would
 * have to wait for the host after each. Also where a second one follows a long one: it may be short. Not beside one that
 * uses little: it would have to wait for both. */
static bool is_nearly_done(struct rf_fence *f, unsigned card, uint64_t now)
{
	const struct rf_pace *p = &f->pace[card];
	bool longest = is_longest_nearly_done(f, p, now);
	unsigned n = 0;

	if (rf_gate_depth(&f->gate->card[card], p) <= DEPTH_LITTLE ||
	    (!longest && now + MOMENT < p->done_at + p->inflight))
		return false;
	for (unsigned i = 0; i < p->n; i++)
		n += p->mark[(p->head + i) % RF_MARKS].launches;
	RF_FOR_WORKING(f, l)
	n += l->card == card ? l->open.launches : 0;
	return n <= 1u + longest;
}

static bool has_room(struct rf_fence *f, unsigned card, const struct rf_launch *a, uint64_t now)
{
	const struct rf_pace *p = &f->pace[card];
	uint64_t limit = rf_gate_limit(&f->gate->card[card], p);

	return p->inflight == 0 || p->inflight + a->cost <= limit || fits(f, card, a, limit) ||
	       is_nearly_done(f, card, now);
}

/* Which mark tells that there is room: the first of the stream where all fits beside each other, else the first of all.
 * NULL: none does. */
static const struct rf_mark *first_mark(struct rf_fence *f, unsigned card,
					const struct rf_launch *a)
{
	const struct rf_pace *p = &f->pace[card];

	for (unsigned i = 0; i < p->n && fits_beside(f, card, a); i++)
		if (is_before(f, &p->mark[(p->head + i) % RF_MARKS], a))
			return &p->mark[(p->head + i) % RF_MARKS];
	return p->n ? &p->mark[p->head] : NULL;
}

/* A mark of a kind that takes now this now that may be done at any time, up to when it should be done if it is the longest:
 * it is asked for again after a little of the time that it has taken. */
static uint64_t nap_for_uneven(const struct rf_fence *f, const struct rf_pace *p,
			       const struct rf_mark *m, bool open, uint64_t now)
{
	uint64_t end = p->done_at + m->cost + rf_mark_beyond(f, m) - (open ? MOMENT : 0);
	uint64_t taken = now - least(now, most(p->done_at, m->began));
	uint64_t ns = least(taken / A_LITTLE, NAP_MOST);

	return most(NAP_LEAST, now < end ? least(ns, (end - now) / 2) : ns);
}

/* How long to sleep: up to the guessed end of what is in flight, if anything is. The last work of streams side by side
 * may be done at once. */
static uint64_t nap_for(struct rf_fence *f, unsigned card, const struct rf_launch *a, bool open,
			uint64_t began, uint64_t now)
{
	const struct rf_pace *p = &f->pace[card];
	const struct rf_mark *m = first_mark(f, card, a);
	uint64_t first = m ? m->cost : p->inflight, from = p->done_at, overdue = 0,
		 longest = NAP_MOST;

	if (p->orphan && p->busy_from == 0)
		return most(NAP_LEAST, least(p->own_from - least(now, p->own_from), SILENCE));
	if (p->busy_from == 0)
		return p->rang_at && now - p->rang_at > UNHEARD ? NAP_MOST : TELL;
	if (m && rf_mark_beyond(f, m) && rf_lanes_working(f, card) < 2)
		return nap_for_uneven(f, p, m, open, now);
	if (!open)
		first = p->inflight / most(rf_lanes_working(f, card), 1);
	else
		first -= least(first, MOMENT);
	if (open && m) /* one that takes longer than was thought is asked for less and less often */
		overdue = now - least(now, m->put_at);
	/* A kind that takes now this now that may be done much earlier. */
	if (open && m && m->launches == 1 && rf_lanes_working(f, card) < 2)
		longest = least(longest, now - began);
	if (open && m && m != &p->mark[p->head])
		from = m->began;
	return most(NAP_LEAST,
		    least(most((first - least(first, now - least(now, from))) / 2, overdue / 64),
			  longest));
}

/* Under the lock, which it gives up to sleep. */
RF_RARE void rf_wait_turn(struct rf_fence *f, unsigned card, const struct rf_launch *a)
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

		rf_desk_check(f->gate, p, now);
		if (rf_gate_should_ask(p, now))
			rf_gate_ask_again(f, p, now);
		g = &f->gate->card[card];
		until = rf_gate_open_until(f, g, p, now);
		open = now < until;
		if (until == RF_GATE_FREE)
			break;
		rf_mark_harvest(f, g, card, now);
		if (p->busy_from)
			fresh = rf_mark_put_all(f, card,
						!open || rf_mark_covered(p) <= p->inflight / 4);
		if (fresh)
			rf_mark_harvest(f, g, card, now);
		if (p->busy_from) /* it takes longer than was guessed, perhaps */
			rf_desk_tell(f, card, now);
		if (open && has_room(f, card, a, now))
			break;
		if (is_stuck(p, open, began, now))
			break;
		if (!open && !p->orphan && (!asked || now - told >= TELL)) {
			asked = true;
			told = now;
			rf_desk_tell(f, card, now);
			rf_desk_ring(f, p, now);
		}
		/* Where all was done already, a mark is so in a moment. */
		ns = fresh && !open ? NAP_LEAST : nap_for(f, card, a, open, began, now);
		pthread_mutex_unlock(&f->pace_lock);
		nap(g, turn, ns);
		pthread_mutex_lock(&f->pace_lock);
	}
	p->waiting--;
	p->held_ns += now - began;
	rf_desk_tell(f, card, now);
	RF_REAL(cuThreadExchangeStreamCaptureMode)(&mode);
	errno = saved;
}
