/* Streams. Within a context work runs in the order it was queued, whatever its stream. */
#include "sim/cuda_priv.h"

#include <stdlib.h>

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
	s->magic = 0;
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

CUresult cuStreamQuery(CUstream handle)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_of(handle, &s);

	return r == CUDA_SUCCESS ? sim_query(s->ctx, s->last) : r;
}

CUresult cuStreamQuery_ptsz(CUstream stream)
{
	return cuStreamQuery(stream);
}

CUresult cuStreamSynchronize(CUstream handle)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_of(handle, &s);

	return r == CUDA_SUCCESS ? sim_wait(s->ctx, s->last) : r;
}

CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	return cuStreamSynchronize(stream);
}

/* Inside one context the queue's order already is the dependency. For an event of another context
 * the calling thread waits. */
CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_of(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (event == NULL || event->magic != SIM_MAGIC_EVENT)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->ctx != s->ctx)
		return cuEventSynchronize(event);
	pthread_mutex_lock(&sim_big);
	if (event->waiting && event->op + 1 > s->last)
		s->last = event->op + 1;
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
	return cuStreamWaitEvent(stream, event, flags);
}

/* Host functions run in the calling thread once the stream is through. */
CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *data)
{
	CUresult r;

	if (fn == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuStreamSynchronize(handle);
	if (r == CUDA_SUCCESS)
		fn(data);
	return r;
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn fn, void *data)
{
	return cuLaunchHostFunc(stream, fn, data);
}

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

/* Nothing is ever captured: graphs are not simulated. */
CUresult cuStreamIsCapturing(CUstream handle, int *status)
{
	struct CUstream_st *s;
	CUresult r;

	if (status == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_stream_of(handle, &s);
	if (r == CUDA_SUCCESS)
		*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return r;
}

CUresult cuStreamIsCapturing_ptsz(CUstream stream, int *status)
{
	return cuStreamIsCapturing(stream, status);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, cuuint64_t *id, CUgraph *graph,
				   const CUgraphNode **deps, size_t *n)
{
	return cuStreamIsCapturing(stream, status);
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	static __thread int current;
	int old = current;

	if (mode == NULL || *mode < 0 || *mode > 2)
		return CUDA_ERROR_INVALID_VALUE;
	current = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}
