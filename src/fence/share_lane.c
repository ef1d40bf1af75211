/* What a process has in flight, by streams: a lane for each. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fence/share_private.h"

unsigned rf_lanes_working(const struct rf_fence *f, unsigned card)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RF_LANES / 64; i++)
		for (uint64_t left = f->working[i]; left; left &= left - 1)
			n += f->lane[i * 64 + (unsigned)__builtin_ctzll(left)].card == card;
	return n;
}

void rf_lane_set_working(struct rf_fence *f, const struct rf_lane *l)
{
	unsigned i = (unsigned)(l - f->lane);
	uint64_t bit = 1ull << i % 64;

	if (l->outstanding || l->open.launches)
		f->working[i / 64] |= bit;
	else
		f->working[i / 64] &= ~bit;
}

struct rf_lane *rf_lane_next_working(struct rf_fence *f, unsigned i)
{
	for (; i < RF_LANES; i = (i / 64 + 1) * 64) {
		uint64_t left = f->working[i / 64] >> i % 64;

		if (left)
			return &f->lane[i + (unsigned)__builtin_ctzll(left)];
	}
	return NULL;
}

void rf_lane_settle(struct rf_fence *f, struct rf_lane *l)
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
	if (l->open.launches ==
	    0) /* it was launched while what it goes along with was closed: too late */
		return;
	kind = __atomic_load_n(&a->kind, __ATOMIC_RELAXED);
	of_kind = __atomic_load_n(&a->of_kind, __ATOMIC_RELAXED);
	if (of_kind && kind != l->open.kind) {
		l->open.kind = kind;
		l->open.dearest = (uint32_t)rf_kind_cost(f, kind);
		l->open.of_kind = 0;
	}
	l->open.launches += launches;
	l->open.of_kind += of_kind;
	l->open.cost += work;
	p->inflight += work;
	p->launched_ns += work;
}

uint32_t rf_lane_thread_id(const struct rf_fence *f)
{
	static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
		uint32_t tid, pid;
	} mine; /* it survives a fork, tid does not hold then */

	if (mine.pid != f->pid) {
		mine.pid = f->pid;
		mine.tid = (uint32_t)syscall(SYS_gettid);
	}
	return mine.tid;
}

uint32_t rf_lane_thread(const struct rf_fence *f, CUstream stream)
{
	return stream == CU_STREAM_PER_THREAD ? rf_lane_thread_id(f) : 0;
}

void rf_lane_clear(struct rf_fence *f, struct rf_lane *l, bool destroy)
{
	struct rf_pace *p = &f->pace[l->card];
	unsigned kept = 0;

	rf_lane_settle(f, l);
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
	rf_lane_set_working(f, l);
}

/* A stream belongs to its own context, whichever is current: a graph may be launched into another
 * card's. */
CUcontext rf_lane_home(CUcontext ctx, CUstream stream)
{
	CUcontext home = NULL;

	if (rf_lane_is_default(stream) || RF_REAL(cuStreamGetCtx)(stream, &home) != CUDA_SUCCESS ||
	    !home)
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

		if (rf_lane_is(l, ctx, stream, thread))
			return l;
		if (!l->ctx ? !room || room->ctx
			    : !room && l->outstanding == 0 && l->open.launches == 0)
			room = l;
		if (!other && l->ctx == ctx)
			other = l;
	}
	if (!room)
		return other;
	home = rf_lane_home(ctx, stream);
	if (card_of_context(f, ctx, home, &card) != CUDA_SUCCESS)
		return NULL;
	if (room->ctx)
		rf_lane_clear(f, room, true);
	*room = (struct rf_lane){
		.ctx = ctx, .home = home, .stream = stream, .thread = thread, .card = (uint8_t)card
	};
	return room;
}

/* The stream's lane. */
struct rf_lane *rf_lane_of(struct rf_fence *f, CUcontext ctx, CUstream stream, uint32_t thread)
{
	struct rf_lane *l;

	if ((uintptr_t)stream == 1)
		stream = NULL;
	l = &f->lane[hash_lane(ctx, stream, thread) % RF_LANES];
	return rf_lane_is(l, ctx, stream, thread) ? l : seek_lane(f, ctx, stream, thread);
}
