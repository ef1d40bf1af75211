/* Streams. Within a context work runs in the order it was queued, whatever its stream. */
#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <time.h>

static uint64_t next_id = 16;

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	struct CUctx_st *ctx;
	struct CUstream_st *s;
	CUresult r;

	if (stream == NULL || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r != CUDA_SUCCESS)
		return r;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*s = (struct CUstream_st){ .magic = SIM_MAGIC_STREAM,
				   .ctx = ctx,
				   .flags = flags,
				   .priority = priority > 0    ? 0
					       : priority < -5 ? -5
							       : priority };
	s->id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
	*stream = s;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	struct CUstream_st *s;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
	    stream->magic != SIM_MAGIC_STREAM)
		return CUDA_ERROR_INVALID_HANDLE;
	s = stream;
	pthread_mutex_lock(&sim_big);
	sim_capture_forget(s);
	s->magic = 0;
	pthread_mutex_unlock(&sim_big);
	free(s);
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
	return cuStreamDestroy_v2(stream);
}

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
	struct CUstream_st *s;
	CUresult r;

	if (priority == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_stream_of(handle, &s);
	if (r == CUDA_SUCCESS)
		*priority = s->priority;
	return r;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
	struct CUstream_st *s;
	CUresult r;

	if (flags == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_stream_of(handle, &s);
	if (r == CUDA_SUCCESS)
		*flags = s->flags;
	return r;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
	struct CUstream_st *s;
	CUresult r;

	if (id == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_stream_of(handle, &s);
	if (r == CUDA_SUCCESS)
		*id = s->id;
	return r;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *ctx)
{
	struct CUstream_st *s;
	CUresult r;

	if (ctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_stream_of(handle, &s);
	if (r == CUDA_SUCCESS)
		*ctx = s->ctx;
	return r;
}

CUresult cuStreamGetPriority_ptsz(CUstream stream, int *priority)
{
	return cuStreamGetPriority(sim_ptsz(stream), priority);
}

CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int *flags)
{
	return cuStreamGetFlags(sim_ptsz(stream), flags);
}

CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long *id)
{
	return cuStreamGetId(sim_ptsz(stream), id);
}

CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext *ctx)
{
	return cuStreamGetCtx(sim_ptsz(stream), ctx);
}

static CUresult waited_stream(CUstream handle, struct CUstream_st **ret)
{
	CUresult r = sim_work_stream(handle, ret);

	return r == CUDA_SUCCESS ? sim_unsafe_stream(*ret) : r;
}

CUresult cuStreamQuery(CUstream handle)
{
	struct CUstream_st *s;
	CUresult r = waited_stream(handle, &s);

	return r == CUDA_SUCCESS ? sim_query(s->ctx, sim_stream_last(s)) : r;
}

CUresult cuStreamQuery_ptsz(CUstream stream)
{
	return cuStreamQuery(sim_ptsz(stream));
}

CUresult cuStreamSynchronize(CUstream handle)
{
	struct CUstream_st *s;
	CUresult r = waited_stream(handle, &s);

	if (r == CUDA_SUCCESS)
		r = sim_wait(s->ctx, sim_stream_last(s));
	if (r == CUDA_SUCCESS)
		sim_caught_up(s->ctx);
	return r;
}

CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	return cuStreamSynchronize(sim_ptsz(stream));
}

/* Inside one context the queue's order already is the dependency. For an event of another context
 * the calling thread waits. */
CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
	struct CUstream_st *s;
	CUresult r = sim_work_stream(handle, &s);
	bool elsewhere = false;

	if (r != CUDA_SUCCESS)
		return r;
	if (event == NULL || event->magic != SIM_MAGIC_EVENT)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags > CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	if (s->capture != NULL || event->capture != 0)
		r = sim_capture_wait(s, event, flags);
	else if (event->ctx != s->ctx)
		elsewhere = true;
	else if (event->waiting && event->op + 1 > s->last)
		s->last = event->op + 1;
	pthread_mutex_unlock(&sim_big);
	return elsewhere ? cuEventSynchronize(event) : r;
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
	return cuStreamWaitEvent(sim_ptsz(stream), event, flags);
}

static CUresult capture(struct CUstream_st *s, const struct sim_work *w)
{
	CUresult r;

	pthread_mutex_lock(&sim_big);
	r = sim_capture_work(s, w);
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* Host functions run in the calling thread once the stream is through. */
CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *data)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_HOST };
	struct CUstream_st *s;
	CUresult r = sim_work_stream(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (fn == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_capturing(s)) {
		w.host = (CUDA_HOST_NODE_PARAMS){ .fn = fn, .userData = data };
		return capture(s, &w);
	}
	r = sim_wait(s->ctx, sim_stream_last(s));
	if (r == CUDA_SUCCESS)
		fn(data);
	return r;
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn fn, void *data)
{
	return cuLaunchHostFunc(sim_ptsz(stream), fn, data);
}

/* Not to be captured. */
CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback fn, void *data, unsigned int flags)
{
	CUresult r;

	if (fn == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuStreamSynchronize(handle);
	if (r == CUDA_SUCCESS)
		fn(handle, r, data);
	return r;
}

CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback fn, void *data,
				  unsigned int flags)
{
	return cuStreamAddCallback(sim_ptsz(stream), fn, data, flags);
}

/* --- values in memory: written and waited for by the calling thread, when the stream is there --- */

static bool reached(const struct sim_value32 *v)
{
	cuuint32_t is = __atomic_load_n((cuuint32_t *)(uintptr_t)v->at, __ATOMIC_ACQUIRE);

	switch (v->flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return (int32_t)(is - v->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return is == v->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (is & v->value) != 0;
	default:
		return ~(is | v->value) != 0;
	}
}

static bool is_memory(CUdeviceptr at)
{
	struct sim_device *d;
	bool ok;

	pthread_mutex_lock(&sim_big);
	ok = at % 4 == 0 && sim_device_range((uintptr_t)at, 4, &d);
	pthread_mutex_unlock(&sim_big);
	return ok;
}

CUresult sim_value_run(struct CUstream_st *s, const struct sim_value32 *v)
{
	const struct timespec nap = { .tv_nsec = 50000 };
	CUresult r = sim_wait(s->ctx, sim_stream_last(s));

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_memory(v->at))
		return CUDA_ERROR_INVALID_VALUE;
	if (v->write)
		__atomic_store_n((cuuint32_t *)(uintptr_t)v->at, v->value, __ATOMIC_RELEASE);
	while (!v->write && !reached(v)) {
		r = sim_ctx_check(s->ctx);
		if (r != CUDA_SUCCESS)
			return r;
		nanosleep(&nap, NULL);
	}
	return CUDA_SUCCESS;
}

static CUresult value(CUstream handle, struct sim_value32 v)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .value = v };
	struct CUstream_st *s;
	CUresult r = sim_work_stream(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (v.flags > (v.write ? 1u : 3u) || !is_memory(v.at))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_capturing(s) ? capture(s, &w) : sim_value_run(s, &v);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t v, unsigned int flags)
{
	return value(stream, (struct sim_value32){ addr, v, flags, false });
}

CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t v,
				     unsigned int flags)
{
	return cuStreamWaitValue32_v2(sim_ptsz(stream), addr, v, flags);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t v, unsigned int flags)
{
	return cuStreamWaitValue32_v2(stream, addr, v, flags);
}

CUresult cuStreamWaitValue32_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t v,
				  unsigned int flags)
{
	return cuStreamWaitValue32_v2(sim_ptsz(stream), addr, v, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t v,
				 unsigned int flags)
{
	return value(stream, (struct sim_value32){ addr, v, flags, true });
}

CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t v,
				      unsigned int flags)
{
	return cuStreamWriteValue32_v2(sim_ptsz(stream), addr, v, flags);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t v, unsigned int flags)
{
	return cuStreamWriteValue32_v2(stream, addr, v, flags);
}

CUresult cuStreamWriteValue32_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t v,
				   unsigned int flags)
{
	return cuStreamWriteValue32_v2(sim_ptsz(stream), addr, v, flags);
}
