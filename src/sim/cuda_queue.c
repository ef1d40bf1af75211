/* A context's queue on the card: submitting work, waiting for it, events. */
#include "sim/cuda_graph.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define LOOK_AGAIN_NS 50000000ULL /* others may have died: look at least this often */
#define SPIN_NS 15000ULL	  /* shorter than a sleep would take */
#define HUNG_NAP_NS 1000000ULL

static struct sim_ctx *shared(struct CUctx_st *ctx)
{
	return &ctx->dev->card->s->ctxs[ctx->slot];
}

static uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	static __thread bool exact;
	uint64_t now = monotonic_ns();
	struct timespec ts;

	if (ns > now + SPIN_NS) {
		/* By default the kernel lets a thread sleep 50 us longer than it asked. */
		if (!exact)
			exact = prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) == 0;
		ts = (struct timespec){ .tv_sec = (time_t)(ns / 1000000000ULL),
					.tv_nsec = (long)(ns % 1000000000ULL) };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		return;
	}
	while (monotonic_ns() < ns)
		sched_yield();
}

/* Looks once, under the card's lock. CUDA_ERROR_NOT_READY: *ret_ns is when to look again. */
static CUresult look(struct CUctx_st *ctx, uint64_t until_op, uint64_t *ret_ns)
{
	struct sim_card *c = ctx->dev->card;
	struct sim_ctx *x = shared(ctx);
	uint64_t due;

	if (!ctx->alive)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	sim_advance(c, x->part, sim_clock(c));
	if (x->sticky != 0)
		return x->sticky;
	if (x->tail >= until_op)
		return CUDA_SUCCESS;
	due = sim_op_predict(c, ctx->slot, until_op - 1);
	*ret_ns = monotonic_ns() + HUNG_NAP_NS;
	if (c->s->is_virtual && due != UINT64_MAX) {
		if (c->s->virtual_ns < due)
			c->s->virtual_ns = due;
		sim_advance(c, x->part, c->s->virtual_ns);
		*ret_ns = 0;
	} else if (!c->s->is_virtual) {
		*ret_ns = due;
	}
	return CUDA_ERROR_NOT_READY;
}

CUresult sim_wait(struct CUctx_st *ctx, uint64_t until_op)
{
	struct sim_card *c = ctx->dev->card;
	uint64_t seen = monotonic_ns();

	for (;;) {
		uint64_t again = 0, now = monotonic_ns();
		CUresult r;

		if (!sim_lock(c))
			return CUDA_ERROR_OPERATING_SYSTEM;
		if (now - seen >= LOOK_AGAIN_NS) {
			sim_reap(c);
			seen = now;
		}
		r = look(ctx, until_op, &again);
		sim_unlock(c);
		if (r != CUDA_ERROR_NOT_READY)
			return r;
		sleep_until(again < now + LOOK_AGAIN_NS ? again : now + LOOK_AGAIN_NS);
	}
}

CUresult sim_query(struct CUctx_st *ctx, uint64_t until_op)
{
	struct sim_card *c = ctx->dev->card;
	struct sim_ctx *x = shared(ctx);
	CUresult r;

	if (!sim_lock(c))
		return CUDA_ERROR_OPERATING_SYSTEM;
	sim_advance(c, x->part, sim_clock(c));
	if (x->sticky != 0)
		r = x->sticky;
	else
		r = x->tail >= until_op ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	sim_unlock(c);
	return r;
}

uint64_t sim_ctx_head(struct CUctx_st *ctx)
{
	uint64_t head = 0;

	if (sim_lock(ctx->dev->card)) {
		head = shared(ctx)->head;
		sim_unlock(ctx->dev->card);
	}
	return head;
}

void sim_caught_up(struct CUctx_st *ctx)
{
	pthread_mutex_lock(&sim_big);
	sim_pools_release(ctx->dev);
	pthread_mutex_unlock(&sim_big);
}

uint64_t sim_stream_last(struct CUstream_st *stream)
{
	uint64_t last;

	pthread_mutex_lock(&sim_big);
	last = stream->last;
	pthread_mutex_unlock(&sim_big);
	return last;
}

/* --- events; under sim_big --- */

static void unhook(struct CUevent_st *e)
{
	struct CUevent_st **p;

	if (!e->waiting)
		return;
	for (p = &e->ctx->events[e->op % SIM_QUEUE]; *p != e; p = &(*p)->next)
		;
	*p = e->next;
	e->waiting = false;
}

/* The place in the queue is about to be used again: its events take their time along. */
static void harvest(struct CUctx_st *ctx, uint64_t op)
{
	uint64_t end = ctx->dev->card->s->ops[ctx->slot][op % SIM_QUEUE].end_ns;
	struct CUevent_st *e;

	while ((e = ctx->events[op % SIM_QUEUE]) != NULL) {
		e->end_ns = end;
		unhook(e);
	}
}

void sim_events_orphan(struct CUctx_st *ctx)
{
	for (int i = 0; i < SIM_QUEUE; i++)
		while (ctx->events[i] != NULL)
			unhook(ctx->events[i]);
}

/* --- submitting --- */

/* Under both locks. CUDA_ERROR_NOT_READY if the queue is full. */
static CUresult try_submit(struct CUstream_st *stream, uint64_t cost_ns, uint64_t *ret_oldest)
{
	struct CUctx_st *ctx = stream->ctx;
	struct sim_ctx *x = shared(ctx);

	sim_advance(ctx->dev->card, x->part, sim_clock(ctx->dev->card));
	if (x->sticky != 0)
		return x->sticky;
	if (x->head - x->tail >= SIM_QUEUE) {
		*ret_oldest = x->tail;
		return CUDA_ERROR_NOT_READY;
	}
	harvest(ctx, x->head);
	stream->last = sim_op_push(ctx->dev->card, ctx->slot, cost_ns) + 1;
	return CUDA_SUCCESS;
}

CUresult sim_submit(struct CUstream_st *stream, uint64_t cost_ns)
{
	struct CUctx_st *ctx = stream->ctx;

	for (;;) {
		uint64_t oldest = 0;
		CUresult r = CUDA_ERROR_OPERATING_SYSTEM;

		pthread_mutex_lock(&sim_big);
		if (sim_lock(ctx->dev->card)) {
			r = try_submit(stream, cost_ns, &oldest);
			sim_unlock(ctx->dev->card);
		}
		pthread_mutex_unlock(&sim_big);
		if (r != CUDA_ERROR_NOT_READY)
			return r;
		r = sim_wait(ctx, oldest + 1);
		if (r != CUDA_SUCCESS)
			return r;
	}
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (event == NULL || (flags & ~7u) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r != CUDA_SUCCESS)
		return r;
	*event = calloc(1, sizeof(**event));
	if (*event == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*event)->magic = SIM_MAGIC_EVENT;
	(*event)->ctx = ctx;
	(*event)->flags = flags;
	return CUDA_SUCCESS;
}

static CUresult event_check(CUevent e)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (e == NULL || e->magic != SIM_MAGIC_EVENT)
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_ctx_check(e->ctx);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	if (event == NULL || event->magic != SIM_MAGIC_EVENT)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&sim_big);
	unhook(event);
	sim_deps_clear(&event->deps);
	event->magic = 0;
	pthread_mutex_unlock(&sim_big);
	free(event);
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
	return cuEventDestroy_v2(event);
}

/* Under both locks. */
static void record(struct CUevent_st *e, struct CUstream_st *stream)
{
	struct CUctx_st *ctx = stream->ctx;
	struct sim_ctx *x = shared(ctx);

	sim_advance(ctx->dev->card, x->part, sim_clock(ctx->dev->card));
	unhook(e);
	sim_deps_clear(&e->deps);
	e->capture = 0;
	e->recorded = true;
	if (stream->last <= x->tail) { /* nothing to wait for */
		e->end_ns = ctx->dev->card->s->parts[x->part].now_ns;
		return;
	}
	e->op = stream->last - 1;
	e->waiting = true;
	e->next = ctx->events[e->op % SIM_QUEUE];
	ctx->events[e->op % SIM_QUEUE] = e;
}

/* Under sim_big. */
static CUresult record_now(struct CUevent_st *e, struct CUstream_st *stream)
{
	if (!sim_lock(stream->ctx->dev->card))
		return CUDA_ERROR_OPERATING_SYSTEM;
	record(e, stream);
	sim_unlock(stream->ctx->dev->card);
	return CUDA_SUCCESS;
}

CUresult sim_event_record(struct CUevent_st *e, struct CUstream_st *stream)
{
	CUresult r;

	pthread_mutex_lock(&sim_big);
	r = record_now(e, stream);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags)
{
	struct CUstream_st *stream;
	CUresult r = event_check(event);

	if (r == CUDA_SUCCESS)
		r = sim_work_stream(handle, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (flags > CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->ctx != event->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&sim_big);
	r = stream->capture != NULL ? sim_capture_record(event, stream, flags)
				    : record_now(event, stream);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	return cuEventRecordWithFlags(event, stream, 0);
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
	return cuEventRecordWithFlags(event, sim_ptsz(stream), 0);
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags)
{
	return cuEventRecordWithFlags(event, sim_ptsz(stream), flags);
}

/* Behind everything the context has queued so far. */
CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	struct CUstream_st all;
	CUresult r = event_check(event);

	if (r == CUDA_SUCCESS)
		r = sim_ctx_check(ctx);
	if (r == CUDA_SUCCESS && ctx != event->ctx)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS)
		r = sim_unsafe_ctx(ctx);
	if (r != CUDA_SUCCESS)
		return r;
	all = (struct CUstream_st){ .ctx = ctx, .last = sim_ctx_head(ctx) };
	return sim_event_record(event, &all);
}

/* The queue's order is the dependency already. */
CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	CUresult r = event_check(event);

	if (r == CUDA_SUCCESS)
		r = sim_ctx_check(ctx);
	if (r == CUDA_SUCCESS)
		r = sim_unsafe_ctx(ctx);
	return r == CUDA_SUCCESS && ctx != event->ctx ? cuEventSynchronize(event) : r;
}

/* Takes the time along if the operation has ended. */
static CUresult settle(CUevent e)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&sim_big);
	if (e->waiting) {
		r = sim_query(e->ctx, e->op + 1);
		if (r == CUDA_SUCCESS) {
			e->end_ns =
				e->ctx->dev->card->s->ops[e->ctx->slot][e->op % SIM_QUEUE].end_ns;
			unhook(e);
		}
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuEventQuery(CUevent event)
{
	CUresult r = event_check(event);

	if (r == CUDA_SUCCESS)
		r = sim_unsafe_event(event);
	return r == CUDA_SUCCESS ? settle(event) : r;
}

CUresult cuEventSynchronize(CUevent event)
{
	CUresult r = event_check(event);

	if (r == CUDA_SUCCESS)
		r = sim_unsafe_event(event);
	while (r == CUDA_SUCCESS) {
		r = settle(event);
		if (r == CUDA_SUCCESS)
			sim_caught_up(event->ctx);
		if (r != CUDA_ERROR_NOT_READY)
			return r;
		r = sim_wait(event->ctx, event->op + 1);
	}
	return r;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	CUresult r = event_check(start);

	if (r == CUDA_SUCCESS)
		r = event_check(end);
	if (r != CUDA_SUCCESS)
		return r;
	if (ms == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!start->recorded || !end->recorded ||
	    ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0)
		return CUDA_ERROR_INVALID_HANDLE;
	r = settle(start);
	if (r == CUDA_SUCCESS)
		r = settle(end);
	if (r == CUDA_SUCCESS)
		*ms = (float)((double)(int64_t)(end->end_ns - start->end_ns) / 1e6);
	return r;
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime(ms, start, end);
}
