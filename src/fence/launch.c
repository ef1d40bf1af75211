/* Everything that puts work on a card, and everything that tells when it is done. */
#include "fence/fence.h"

/* Functions with about as many blocks take about as long; to the order of two is enough. */
static struct rf_work kernel(CUfunction fn, uint64_t blocks, CUstream stream, bool per_thread)
{
	uint64_t order = 63 - (uint64_t)__builtin_clzll(blocks | 1);

	return (struct rf_work){ .key = (uintptr_t)fn * 64 + order,
				 .stream = stream,
				 .per_thread = per_thread };
}

static uint64_t blocks_of(uint64_t x, uint64_t y, uint64_t z)
{
	return x * y * z;
}

#define LAUNCH(w, call)                                                                            \
	({                                                                                         \
		bool paced_ = rf_share_paced();                                                    \
		CUresult r_;                                                                       \
		if (paced_)                                                                        \
			rf_share_before(&(w));                                                     \
		r_ = (call);                                                                       \
		if (paced_)                                                                        \
			rf_share_after(&(w), r_ == CUDA_SUCCESS);                                  \
		r_;                                                                                \
	})

CUresult cuLaunchKernel(CUfunction fn, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int smem,
			CUstream stream, void **params, void **extra)
{
	struct rf_work w = kernel(fn, blocks_of(gx, gy, gz), stream, false);

	return LAUNCH(w, RF_REAL(cuLaunchKernel)(fn, gx, gy, gz, bx, by, bz, smem, stream, params,
						 extra));
}

CUresult cuLaunchKernel_ptsz(CUfunction fn, unsigned int gx, unsigned int gy, unsigned int gz,
			     unsigned int bx, unsigned int by, unsigned int bz, unsigned int smem,
			     CUstream stream, void **params, void **extra)
{
	struct rf_work w = kernel(fn, blocks_of(gx, gy, gz), stream, true);

	return LAUNCH(w, RF_REAL(cuLaunchKernel_ptsz)(fn, gx, gy, gz, bx, by, bz, smem, stream,
						      params, extra));
}

static struct rf_work configured(const CUlaunchConfig *c, CUfunction fn, bool per_thread)
{
	if (!c)
		return kernel(fn, 1, NULL, per_thread);
	return kernel(fn, blocks_of(c->gridDimX, c->gridDimY, c->gridDimZ), c->hStream, per_thread);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction fn, void **params, void **extra)
{
	struct rf_work w = configured(config, fn, false);

	return LAUNCH(w, RF_REAL(cuLaunchKernelEx)(config, fn, params, extra));
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction fn, void **params,
			       void **extra)
{
	struct rf_work w = configured(config, fn, true);

	return LAUNCH(w, RF_REAL(cuLaunchKernelEx_ptsz)(config, fn, params, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction fn, unsigned int gx, unsigned int gy, unsigned int gz,
				   unsigned int bx, unsigned int by, unsigned int bz,
				   unsigned int smem, CUstream stream, void **params)
{
	struct rf_work w = kernel(fn, blocks_of(gx, gy, gz), stream, false);

	return LAUNCH(w, RF_REAL(cuLaunchCooperativeKernel)(fn, gx, gy, gz, bx, by, bz, smem,
							    stream, params));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction fn, unsigned int gx, unsigned int gy,
					unsigned int gz, unsigned int bx, unsigned int by,
					unsigned int bz, unsigned int smem, CUstream stream,
					void **params)
{
	struct rf_work w = kernel(fn, blocks_of(gx, gy, gz), stream, true);

	return LAUNCH(w, RF_REAL(cuLaunchCooperativeKernel_ptsz)(fn, gx, gy, gz, bx, by, bz, smem,
								 stream, params));
}

/* Waits for the card of the current context only; the others' parts are counted there. */
CUresult cuLaunchCooperativeKernelMultiDevice(const struct rf_multi_launch *list, unsigned int n,
					      unsigned int flags)
{
	struct rf_work w = kernel(list && n ? list->function : NULL, 1, NULL, false);

	return LAUNCH(w, RF_REAL(cuLaunchCooperativeKernelMultiDevice)(list, n, flags));
}

CUresult cuLaunch(CUfunction fn)
{
	struct rf_work w = kernel(fn, 1, NULL, false);

	return LAUNCH(w, RF_REAL(cuLaunch)(fn));
}

CUresult cuLaunchGrid(CUfunction fn, int width, int height)
{
	struct rf_work w = kernel(fn, blocks_of((unsigned)width, (unsigned)height, 1), NULL, false);

	return LAUNCH(w, RF_REAL(cuLaunchGrid)(fn, width, height));
}

CUresult cuLaunchGridAsync(CUfunction fn, int width, int height, CUstream stream)
{
	struct rf_work w =
		kernel(fn, blocks_of((unsigned)width, (unsigned)height, 1), stream, false);

	return LAUNCH(w, RF_REAL(cuLaunchGridAsync)(fn, width, height, stream));
}

/* --- graphs --- */

static CUresult graph(CUgraphExec exec, CUstream stream, bool per_thread,
		      __typeof__(&cuGraphLaunch) real)
{
	struct rf_work w = { .key = (uintptr_t)exec, .stream = stream, .per_thread = per_thread };
	struct rf_graph_launch g;
	CUresult r = rf_graph_before(&g, exec, stream, per_thread);

	if (r != CUDA_SUCCESS)
		return r;
	r = LAUNCH(w, real(exec, stream));
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
		rf_share_synced(stream, false);
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
		rf_share_synced(stream, true);
		calm();
	}
	return r;
}

CUresult cuStreamDestroy(CUstream stream)
{
	stream_gone(stream);
	return RF_REAL(cuStreamDestroy)(stream);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	stream_gone(stream);
	return RF_REAL(cuStreamDestroy_v2)(stream);
}

/* --- captures: while one is on, the fence puts nothing of its own into any stream unasked --- */

/* Counted before it begins: nothing of the fence's own may be in the making then. */
#define CAPTURE(call)                                                                              \
	({                                                                                         \
		CUresult r_;                                                                       \
		rf_share_capture(1);                                                               \
		r_ = (call);                                                                       \
		if (r_ != CUDA_SUCCESS)                                                            \
			rf_share_capture(-1);                                                      \
		r_;                                                                                \
	})

CUresult cuStreamBeginCapture(CUstream stream)
{
	return CAPTURE(RF_REAL(cuStreamBeginCapture)(stream));
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	return CAPTURE(RF_REAL(cuStreamBeginCapture_ptsz)(stream));
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	return CAPTURE(RF_REAL(cuStreamBeginCapture_v2)(stream, mode));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
	return CAPTURE(RF_REAL(cuStreamBeginCapture_v2_ptsz)(stream, mode));
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
				     const void *edges, size_t n, int mode)
{
	return CAPTURE(RF_REAL(cuStreamBeginCaptureToGraph)(stream, graph, deps, edges, n, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *deps,
					  const void *edges, size_t n, int mode)
{
	return CAPTURE(
		RF_REAL(cuStreamBeginCaptureToGraph_ptsz)(stream, graph, deps, edges, n, mode));
}

CUresult cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph, void *callback,
				       void *data)
{
	return CAPTURE(RF_REAL(cuStreamBeginRecaptureToGraph)(stream, mode, graph, callback, data));
}

CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, int mode, CUgraph graph,
					    void *callback, void *data)
{
	return CAPTURE(
		RF_REAL(cuStreamBeginRecaptureToGraph_ptsz)(stream, mode, graph, callback, data));
}

/* A capture that went wrong ends too, with an error; one that was not there does not. */
static CUresult end_capture(CUstream stream, CUgraph *graph, __typeof__(&cuStreamEndCapture) real,
			    __typeof__(&cuStreamIsCapturing) is_capturing)
{
	int before = 0, after = 0;
	CUresult r;

	is_capturing(stream, &before);
	r = real(stream, graph);
	is_capturing(stream, &after);
	if (before && !after)
		rf_share_capture(-1);
	return r;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	return end_capture(stream, graph, RF_REAL(cuStreamEndCapture),
			   RF_REAL(cuStreamIsCapturing));
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return end_capture(stream, graph, RF_REAL(cuStreamEndCapture_ptsz),
			   RF_REAL(cuStreamIsCapturing_ptsz));
}
