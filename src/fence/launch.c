/* Everything that puts work on a card, and everything that tells when it is done. */
#include "fence/fence.h"
#include "fence/stub.h"

/* Functions with about as many blocks take about as long; to the order of two is enough. */
static inline uint64_t key_of(CUfunction fn, uint64_t x, uint64_t y, uint64_t z)
{
	uint64_t order = 63 ^ (uint64_t)__builtin_clzll(x * y * z | 1);

	return (uintptr_t)fn * 64 + order;
}

#define PACED(call, key, stream)                                                                   \
	({                                                                                         \
		bool paced_ = rf_share_paced();                                                    \
		CUresult r_;                                                                       \
		if (paced_)                                                                        \
			rf_share_before(key, stream);                                              \
		r_ = (call);                                                                       \
		if (paced_)                                                                        \
			rf_share_after(stream, r_ == CUDA_SUCCESS);                                \
		r_;                                                                                \
	})

/* --- the calls: name, parameters, arguments, key, stream --- */

#define PACED_CALL(name, params, args, key, stream)                                                \
	static __attribute__((noinline)) CUresult paced_##name params                              \
	{                                                                                          \
		return PACED(RF_REAL(name) args, key, stream);                                     \
	}
/* Most launches pass, and jump to the driver's function at once. One that it refuses then stays in the books, as work that
 * is soon believed to be done. */
#define WAY(name, key, stream)                                                                     \
	({                                                                                         \
		__typeof__(&name) real_ =                                                          \
			__atomic_load_n(&rf_reals[RF_SYM_##name], __ATOMIC_ACQUIRE);               \
		RF_RARELY(!real_ || !rf_share_passes(key, stream)) ? paced_##name : real_;         \
	})
#define LAUNCH(name, params, args, key, stream)                                                    \
	PACED_CALL(name, params, args, key, stream)                                                \
	CUresult name params                                                                       \
	{                                                                                          \
		return WAY(name, key, stream) args;                                                \
	}
#define BOTH(name, params, args, key, stream)                                                      \
	LAUNCH(name, params, args, key, stream)                                                    \
	LAUNCH(name##_ptsz, params, args, key, rf_stream(stream, true))

/* By far the most frequent, and with arguments on the stack (stub.h). */
#define LAUNCH_KERNEL(name, per_thread)                                                            \
	PACED_CALL(name,                                                                           \
		   (CUfunction fn, unsigned int gx, unsigned int gy, unsigned int gz,              \
		    unsigned int bx, unsigned int by, unsigned int bz, unsigned int smem,          \
		    CUstream stream, void **params, void **extra),                                 \
		   (fn, gx, gy, gz, bx, by, bz, smem, stream, params, extra),                      \
		   key_of(fn, gx, gy, gz), rf_stream(stream, per_thread))                          \
	struct rf_way rf_##name##_way(CUfunction fn, unsigned int gx, unsigned int gy,             \
				      unsigned int gz, CUstream stream)                            \
		__attribute__((aligned(64)));                                                      \
	struct rf_way rf_##name##_way(CUfunction fn, unsigned int gx, unsigned int gy,             \
				      unsigned int gz, CUstream stream)                            \
	{                                                                                          \
		return (struct rf_way){ .target = (void *)WAY(name, key_of(fn, gx, gy, gz),        \
							      rf_stream(stream, per_thread)) };    \
	}                                                                                          \
	RF_STUB_LAUNCH(name, rf_##name##_way)
LAUNCH_KERNEL(cuLaunchKernel, false)
LAUNCH_KERNEL(cuLaunchKernel_ptsz, true)

BOTH(cuLaunchCooperativeKernel,
     (CUfunction fn, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
      unsigned int by, unsigned int bz, unsigned int smem, CUstream stream, void **params),
     (fn, gx, gy, gz, bx, by, bz, smem, stream, params), key_of(fn, gx, gy, gz), stream)
BOTH(cuLaunchKernelEx, (const CUlaunchConfig *c, CUfunction fn, void **params, void **extra),
     (c, fn, params, extra),
     c ? key_of(fn, c->gridDimX, c->gridDimY, c->gridDimZ) : key_of(fn, 1, 1, 1),
     c ? c->hStream : NULL)
LAUNCH(cuLaunch, (CUfunction fn), (fn), key_of(fn, 1, 1, 1), NULL)
LAUNCH(cuLaunchGrid, (CUfunction fn, int width, int height), (fn, width, height),
       key_of(fn, (unsigned)width, (unsigned)height, 1), NULL)
LAUNCH(cuLaunchGridAsync, (CUfunction fn, int width, int height, CUstream stream),
       (fn, width, height, stream), key_of(fn, (unsigned)width, (unsigned)height, 1), stream)
/* Waits for the card of the current context only; the others' parts are counted there. */
LAUNCH(cuLaunchCooperativeKernelMultiDevice,
       (const struct rf_multi_launch *list, unsigned int n, unsigned int flags), (list, n, flags),
       key_of(list && n ? list->function : NULL, UINT32_MAX, UINT32_MAX, 1), NULL)

/* --- graphs --- */

static CUresult graph(CUgraphExec exec, CUstream stream, bool per_thread,
		      __typeof__(&cuGraphLaunch) real)
{
	struct rf_graph_launch g;
	CUresult r = rf_graph_before(&g, exec, stream, per_thread);

	if (r != CUDA_SUCCESS)
		return r;
	r = PACED(real(exec, stream), (uintptr_t)exec * 64 + 63, rf_stream(stream, per_thread));
	rf_graph_after(&g, r);
	return r;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	return graph(exec, stream, false, RF_REAL(cuGraphLaunch));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return graph(exec, stream, true, RF_REAL(cuGraphLaunch_ptsz));
}

/* --- the end of work --- */

/* The program waited: a good moment to give back memory charged ahead. */
static void calm(void)
{
	struct rf_fence *f = rf_joined();

	if (f)
		rf_pool_calm(f);
}

static void stream_gone(CUstream stream)
{
	struct rf_fence *f = rf_joined();

	rf_share_stream_gone(stream);
	if (f)
		rf_pool_stream_gone(f, stream);
}

CUresult cuCtxSynchronize(void)
{
	CUresult r;

	rf_share_syncing();
	r = RF_REAL(cuCtxSynchronize)();
	if (r == CUDA_SUCCESS) {
		rf_share_synced_all(NULL);
		calm();
	}
	return r;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	CUresult r;

	rf_share_syncing();
	r = RF_REAL(cuCtxSynchronize_v2)(ctx);
	if (r == CUDA_SUCCESS) {
		rf_share_synced_all(ctx);
		calm();
	}
	return r;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	CUresult r;

	rf_share_syncing();
	r = RF_REAL(cuStreamSynchronize)(stream);
	if (r == CUDA_SUCCESS) {
		rf_share_synced(stream);
		calm();
	}
	return r;
}

CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	CUresult r;

	rf_share_syncing();
	r = RF_REAL(cuStreamSynchronize_ptsz)(stream);
	if (r == CUDA_SUCCESS) {
		rf_share_synced(rf_stream(stream, true));
		calm();
	}
	return r;
}

/* Programs that wait for events, or ask again and again, are done as well. */

CUresult cuEventSynchronize(CUevent event)
{
	CUresult r;

	rf_share_syncing();
	r = RF_REAL(cuEventSynchronize)(event);
	if (r == CUDA_SUCCESS)
		rf_share_told(true);
	return r;
}

static CUresult asked(CUresult r)
{
	if (r == CUDA_SUCCESS)
		rf_share_told(false);
	else if (r == CUDA_ERROR_NOT_READY)
		rf_share_syncing(); /* it asks again, perhaps */
	return r;
}

CUresult cuEventQuery(CUevent event)
{
	return asked(RF_REAL(cuEventQuery)(event));
}

CUresult cuStreamQuery(CUstream stream)
{
	return asked(RF_REAL(cuStreamQuery)(stream));
}

CUresult cuStreamQuery_ptsz(CUstream stream)
{
	return asked(RF_REAL(cuStreamQuery_ptsz)(stream));
}

/* What it captures ends with it. That is out of the books before another stream can have its handle, and counts until then. */
static CUresult destroy(CUstream stream, __typeof__(&cuStreamDestroy) real)
{
	struct rf_capture c;
	bool captured;
	CUresult r;

	stream_gone(stream);
	captured = rf_share_capture_leaves(stream, &c);
	r = real(stream);
	if (captured && r == CUDA_SUCCESS)
		rf_share_capture(-1);
	else if (captured)
		rf_share_capture_is(&c);
	return r;
}

CUresult cuStreamDestroy(CUstream stream)
{
	return destroy(stream, RF_REAL(cuStreamDestroy));
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	return destroy(stream, RF_REAL(cuStreamDestroy_v2));
}

/* --- captures: while one is on, the fence puts nothing of its own into any stream unasked --- */

/* Counted before it begins: nothing of the fence's own may be in the making then. */
#define CAPTURE(call, stream)                                                                      \
	({                                                                                         \
		CUresult r_;                                                                       \
		rf_share_capture(1);                                                               \
		r_ = (call);                                                                       \
		if (r_ == CUDA_SUCCESS)                                                            \
			rf_share_capture_began(stream);                                            \
		else                                                                               \
			rf_share_capture(-1);                                                      \
		r_;                                                                                \
	})

CUresult cuStreamBeginCapture(CUstream stream)
{
	return CAPTURE(RF_REAL(cuStreamBeginCapture)(stream), stream);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	return CAPTURE(RF_REAL(cuStreamBeginCapture_ptsz)(stream), rf_stream(stream, true));
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	return CAPTURE(RF_REAL(cuStreamBeginCapture_v2)(stream, mode), stream);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
	return CAPTURE(RF_REAL(cuStreamBeginCapture_v2_ptsz)(stream, mode),
		       rf_stream(stream, true));
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
				     const void *edges, size_t n, int mode)
{
	return CAPTURE(RF_REAL(cuStreamBeginCaptureToGraph)(stream, graph, deps, edges, n, mode),
		       stream);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *deps,
					  const void *edges, size_t n, int mode)
{
	return CAPTURE(
		RF_REAL(cuStreamBeginCaptureToGraph_ptsz)(stream, graph, deps, edges, n, mode),
		rf_stream(stream, true));
}

CUresult cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph, void *callback,
				       void *data)
{
	return CAPTURE(RF_REAL(cuStreamBeginRecaptureToGraph)(stream, mode, graph, callback, data),
		       stream);
}

CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, int mode, CUgraph graph,
					    void *callback, void *data)
{
	return CAPTURE(
		RF_REAL(cuStreamBeginRecaptureToGraph_ptsz)(stream, mode, graph, callback, data),
		rf_stream(stream, true));
}

/* A capture that went wrong ends too, with an error; one that was not there does not. */
static CUresult end_capture(CUstream stream, CUgraph *graph, bool per_thread,
			    __typeof__(&cuStreamEndCapture) real,
			    __typeof__(&cuStreamIsCapturing) is_capturing)
{
	int before = 0, after = 0;
	struct rf_capture c;
	CUresult r;

	is_capturing(stream, &before);
	r = real(stream, graph);
	is_capturing(stream, &after);
	if (before && !after) {
		rf_share_capture_leaves(rf_stream(stream, per_thread), &c);
		rf_share_capture(-1);
	}
	return r;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	return end_capture(stream, graph, false, RF_REAL(cuStreamEndCapture),
			   RF_REAL(cuStreamIsCapturing));
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return end_capture(stream, graph, true, RF_REAL(cuStreamEndCapture_ptsz),
			   RF_REAL(cuStreamIsCapturing_ptsz));
}
