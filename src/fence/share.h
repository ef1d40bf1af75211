/* What the processes of a fence and the arbiter of its cards tell each other about time on a card.
 *
 * Two memfds per fence, made by the arbiter (arbiter.h), of sealed size, so that neither side can
 * make the other fault:
 *   gate: written by the arbiter, read-only to everybody else (F_SEAL_FUTURE_WRITE).
 *   desk: written by the fence's processes; the arbiter reads it, clamps it, and believes nothing
 *         that would take time from another fence.
 *
 * A process sits at the desk on the same seat as at the ledger (ledger.h), so the ledger's record
 * lock says who is alive. Clocks are CLOCK_MONOTONIC in nanoseconds. */
#ifndef RF_FENCE_SHARE_H
#define RF_FENCE_SHARE_H

#include "fence/ledger.h"

#define RF_GATE_MAGIC 0x65746167666c7201ull
#define RF_DESK_MAGIC 0x6b736564666c7202ull
#define RF_GATE_FREE UINT64_MAX /* nobody else is on the card and no limit: not even measured */
#define RF_GATE_STANDING (UINT64_MAX - 1) /* come in at once, and say so */

enum {
	RF_TELL_BEGIN = 1,  /* ring when work begins */
	RF_TELL_END = 2,    /* ring when no work is in flight any more */
	RF_TELL_BESIDE = 4, /* ring at both, unless the turn among the fence's processes is yours */
};

/* The first so many seats take turns among each other; a process on another one just comes in. */
#define RF_SIBLINGS 192

/* The depth of a fence that is alone and need not leave anything to anybody, and of no other. */
#define RF_DEPTH_ALONE 16000000 /* ns */

struct rf_gate_card {
	uint64_t open_until; /* launches before this instant go on; 0: closed */
	uint64_t gpu_ns;     /* what the fence was charged, in all */
	uint32_t turn;	     /* futex: changes whenever somebody may come in who could not before */
	uint32_t depth_us;   /* GPU work that may be in flight at once; one launch always may */
	uint32_t tell;	     /* RF_TELL_BEGIN ... */
	uint32_t share_milli;
	uint64_t shut[RF_SIBLINGS / 64]; /* a bit per seat: closed to it, though not to the fence */
	uint32_t host; /* the seat whose turn it is within the fence, plus one; 0: everybody's */
	uint32_t reserved;
};

struct rf_gate {
	uint64_t magic;
	uint32_t bytes; /* sizeof(struct rf_gate) */
	uint32_t cards;
	uint32_t heard; /* the last ring the arbiter has acted upon */
	uint32_t reserved;
	_Alignas(64) struct rf_gate_card card[RF_FENCE_CARDS];
};

/* One process on one card. Written by that process alone, under its own lock; odd seq: in the middle. */
struct rf_desk_seat {
	uint32_t seq;
	uint32_t waiting;    /* threads that wait at the gate */
	uint64_t busy_from;  /* work has been in flight since; 0: none */
	uint64_t busy_until; /* and will be done by then, by guess; without work: when the last began */
	uint64_t gpu_ns;     /* how long work was in flight, in all, up to the last end */
	uint64_t held_ns;    /* how long threads have waited at the gate */
	uint32_t launches;   /* wraps round */
	uint32_t gpu_gone_ms; /* this process's time at earlier desks and seats, not in gpu_ns */
	uint64_t gpu_before; /* what of gpu_ns and held_ns was of processes that sat here before */
	uint64_t held_before;
};

struct rf_desk {
	uint64_t magic;
	uint32_t bytes; /* sizeof(struct rf_desk) */
	uint32_t top;	/* seats at and above were never taken */
	uint32_t ring;	/* futex: goes up to wake the arbiter */
	uint32_t reserved;
	_Alignas(64) struct rf_desk_seat seat[RF_FENCE_CARDS][RF_LEDGER_SEATS];
};

/* Reads a seat whole; false if its process never stops writing (or died in the middle): *ret is then
 * the best there is. */
static inline bool rf_desk_read(const struct rf_desk_seat *s, struct rf_desk_seat *ret)
{
	for (int i = 0; i < 64; i++) {
		uint32_t before = __atomic_load_n(&s->seq, __ATOMIC_ACQUIRE);

		ret->waiting = __atomic_load_n(&s->waiting, __ATOMIC_RELAXED);
		ret->busy_from = __atomic_load_n(&s->busy_from, __ATOMIC_RELAXED);
		ret->busy_until = __atomic_load_n(&s->busy_until, __ATOMIC_RELAXED);
		ret->gpu_ns = __atomic_load_n(&s->gpu_ns, __ATOMIC_RELAXED);
		ret->held_ns = __atomic_load_n(&s->held_ns, __ATOMIC_RELAXED);
		ret->launches = __atomic_load_n(&s->launches, __ATOMIC_RELAXED);
		ret->gpu_gone_ms = __atomic_load_n(&s->gpu_gone_ms, __ATOMIC_RELAXED);
		ret->gpu_before = __atomic_load_n(&s->gpu_before, __ATOMIC_RELAXED);
		ret->held_before = __atomic_load_n(&s->held_before, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		ret->seq = before;
		if (!(before & 1) && __atomic_load_n(&s->seq, __ATOMIC_RELAXED) == before)
			return true;
	}
	return false;
}

#endif
