/* What a process tells the arbiter of its time on the card, at the fence's desk. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fence/share_private.h"

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

/* When all that is in flight should be done, even if each takes as long as its kind did lately. The next fence is let in
 * just before: too early, and the card slices its time between them; too late costs little, since who is done says so. */
static uint64_t done_by(struct rf_fence *f, unsigned card)
{
	const struct rf_pace *p = &f->pace[card];
	uint64_t at = p->done_at + p->inflight;

	for (unsigned i = 0; i < p->n; i++)
		at += rf_mark_beyond(f, &p->mark[(p->head + i) % RF_MARKS]);
	RF_FOR_WORKING(f, l)
	if (l->card == card)
		at += rf_mark_beyond(f, &l->open);
	return at;
}

/* cost: of what is about to be launched. */
static void publish_with(struct rf_fence *f, unsigned card, uint64_t cost, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];
	struct rf_desk_seat *s = &f->desk->seat[card][f->place.seat];

	if (p->sat != f->place.seat + 1) /* the process lost its seat and has another now */
		sit_down(f, card);
	p->told_at = now;
	p->told_until = p->busy_from ? most(now, done_by(f, card)) + cost : p->begun_at;
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

void rf_desk_tell(struct rf_fence *f, unsigned card, uint64_t now)
{
	publish_with(f, card, 0, now);
}

/* Whether the arbiter still hears. */
void rf_desk_check(const struct rf_gate *gate, struct rf_pace *p, uint64_t now)
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

void rf_desk_ring(struct rf_fence *f, struct rf_pace *p, uint64_t now)
{
	int saved = errno;

	rf_desk_check(f->gate, p, now); /* of the last ring */
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

void rf_desk_start(struct rf_pace *p, uint64_t now)
{
	set_busy(p, now);
	p->begun_at = p->done_at = now;
	p->stuck = 0;
	p->newest = NULL; /* from there to the next mark is not all work */
	p->newest_from = now;
	p->newest_upto = p->launched_ns;
}

RF_RARE void rf_desk_begin(struct rf_fence *f, const struct rf_gate_card *g, unsigned card,
			   uint64_t cost, uint64_t now)
{
	struct rf_pace *p = &f->pace[card];

	rf_desk_start(p, now);
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

bool rf_desk_is_news(const struct rf_fence *f, const struct rf_gate_card *g,
		     const struct rf_pace *p, uint64_t cost, uint64_t now)
{
	return now > p->told_at + LAG || p->done_at + p->inflight + cost > p->told_until + LAG ||
	       is_overlooked(f, g, p);
}

RF_RARE void rf_desk_go_on(struct rf_fence *f, const struct rf_gate_card *g, unsigned card,
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

void rf_desk_end(struct rf_fence *f, const struct rf_gate_card *g, unsigned card, uint64_t now)
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
	rf_desk_tell(f, card, now);
	if (tells(f, g, RF_TELL_END))
		rf_desk_ring(f, p, now);
}
