/* Launches and what can be asked of a kernel. Kernels compute nothing; they take time. */
#include "sim/cuda_graph.h"
#include "sim/cuda_module.h"

#include <limits.h>

#define LAUNCH_NS 2000 /* every kernel */
#define WAVE_NS 10000  /* each time all SMs are filled with threads */

static bool is_function(CUfunction f)
{
	return f != NULL && f->magic == SIM_MAGIC_FUNC;
}

static uint64_t cost_by_shape(const struct sim_device *d, uint64_t blocks, unsigned threads)
{
	unsigned per_sm = d->card->model->threads_per_sm / threads;
	uint64_t at_once = (uint64_t)d->sms * (per_sm > 0 ? per_sm : 1);

	return LAUNCH_NS + (blocks + at_once - 1) / at_once * WAVE_NS;
}

CUresult sim_kernel_cost(struct sim_device *d, const CUDA_KERNEL_NODE_PARAMS_v2 *k,
			 uint64_t *ret_ns)
{
	uint64_t blocks = (uint64_t)k->gridDimX * k->gridDimY;
	uint64_t threads = (uint64_t)k->blockDimX * k->blockDimY;
	/* Kernels of libraries are functions here. */
	CUfunction f = k->func != NULL ? k->func : (CUfunction)(void *)k->kern;

	if (!is_function(f))
		return CUDA_ERROR_INVALID_HANDLE;
	if (k->blockDimX > 1024 || k->blockDimY > 1024 || k->blockDimZ > 64 ||
	    k->gridDimY > 65535 || k->gridDimZ > 65535 || k->gridDimX > INT_MAX ||
	    threads * k->blockDimZ == 0 || threads * k->blockDimZ > 1024 ||
	    blocks * k->gridDimZ == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (k->sharedMemBytes > (unsigned)f->max_dynamic_smem)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_ns = f->cost_ns != SIM_COST_BY_SHAPE
			  ? f->cost_ns
			  : cost_by_shape(d, blocks * k->gridDimZ,
					  (unsigned)(threads * k->blockDimZ));
	return CUDA_SUCCESS;
}

static CUresult launch_on(struct CUstream_st *s, const CUDA_KERNEL_NODE_PARAMS_v2 *k)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	CUresult r;

	w.kernel = *k;
	r = sim_kernel_cost(s->ctx->dev, k, &w.cost_ns);
	if (r != CUDA_SUCCESS || !sim_capturing(s))
		return r == CUDA_SUCCESS ? sim_submit(s, w.cost_ns) : r;
	pthread_mutex_lock(&sim_big);
	r = sim_capture_work(s, &w);
	pthread_mutex_unlock(&sim_big);
	return r;
}

static CUresult launch(CUfunction f, const CUlaunchConfig *c, CUstream handle)
{
	CUDA_KERNEL_NODE_PARAMS_v2 k = { .func = f,
					 .gridDimX = c->gridDimX,
					 .gridDimY = c->gridDimY,
					 .gridDimZ = c->gridDimZ,
					 .blockDimX = c->blockDimX,
					 .blockDimY = c->blockDimY,
					 .blockDimZ = c->blockDimZ,
					 .sharedMemBytes = c->sharedMemBytes };
	struct CUstream_st *s;
	CUresult r = sim_work_stream(handle, &s);

	return r == CUDA_SUCCESS ? launch_on(s, &k) : r;
}

CUresult cuLaunchKernel(CUfunction fn, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int smem,
			CUstream stream, void **params, void **extra)
{
	CUlaunchConfig c = { .gridDimX = gx,
			     .gridDimY = gy,
			     .gridDimZ = gz,
			     .blockDimX = bx,
			     .blockDimY = by,
			     .blockDimZ = bz,
			     .sharedMemBytes = smem };

	return launch(fn, &c, stream);
}

CUresult cuLaunchKernel_ptsz(CUfunction fn, unsigned int gx, unsigned int gy, unsigned int gz,
			     unsigned int bx, unsigned int by, unsigned int bz, unsigned int smem,
			     CUstream stream, void **params, void **extra)
{
	return cuLaunchKernel(fn, gx, gy, gz, bx, by, bz, smem, sim_ptsz(stream), params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction fn, void **params, void **extra)
{
	return config != NULL ? launch(fn, config, config->hStream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction fn, void **params,
			       void **extra)
{
	return config != NULL ? launch(fn, config, sim_ptsz(config->hStream))
			      : CUDA_ERROR_INVALID_VALUE;
}

/* All blocks of a cooperative launch must be on the card at once. */
CUresult cuLaunchCooperativeKernel(CUfunction fn, unsigned int gx, unsigned int gy, unsigned int gz,
				   unsigned int bx, unsigned int by, unsigned int bz,
				   unsigned int smem, CUstream stream, void **params)
{
	struct CUstream_st *s;
	uint64_t threads = (uint64_t)gx * gy * gz * bx * by * bz;
	CUresult r = sim_stream_of(stream, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (threads > (uint64_t)s->ctx->dev->sms * s->ctx->dev->card->model->threads_per_sm)
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return cuLaunchKernel(fn, gx, gy, gz, bx, by, bz, smem, stream, params, NULL);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction fn, unsigned int gx, unsigned int gy,
					unsigned int gz, unsigned int bx, unsigned int by,
					unsigned int bz, unsigned int smem, CUstream stream,
					void **params)
{
	return cuLaunchCooperativeKernel(fn, gx, gy, gz, bx, by, bz, smem, sim_ptsz(stream),
					 params);
}

/* CUDA_LAUNCH_PARAMS */
struct rf_multi_launch {
	CUfunction function;
	unsigned int gx, gy, gz, bx, by, bz, smem;
	CUstream stream;
	void **params;
};

/* One launch per device, each in a stream of its own. */
CUresult cuLaunchCooperativeKernelMultiDevice(const struct rf_multi_launch *list, unsigned int n,
					      unsigned int flags)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (list == NULL || n == 0 || n > (unsigned)sim_device_count() || flags > 3)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; r == CUDA_SUCCESS && i < n; i++) {
		const struct rf_multi_launch *l = &list[i];

		if (l->stream == NULL || l->stream == CU_STREAM_LEGACY ||
		    l->stream == CU_STREAM_PER_THREAD)
			return CUDA_ERROR_INVALID_VALUE;
		r = cuLaunchCooperativeKernel(l->function, l->gx, l->gy, l->gz, l->bx, l->by, l->bz,
					      l->smem, l->stream, l->params);
	}
	return r;
}

/* --- as before CUDA 4: the shape is set on the kernel --- */

CUresult cuFuncSetBlockShape(CUfunction fn, int x, int y, int z)
{
	if (!is_function(fn))
		return CUDA_ERROR_INVALID_HANDLE;
	if (x <= 0 || y <= 0 || z <= 0 || (int64_t)x * y * z > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	fn->block[0] = (unsigned)x;
	fn->block[1] = (unsigned)y;
	fn->block[2] = (unsigned)z;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction fn, unsigned int bytes)
{
	if (!is_function(fn))
		return CUDA_ERROR_INVALID_HANDLE;
	fn->smem = bytes;
	return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction fn, unsigned int bytes)
{
	return is_function(fn) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuParamSeti(CUfunction fn, int offset, unsigned int v)
{
	return is_function(fn) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuParamSetf(CUfunction fn, int offset, float v)
{
	return is_function(fn) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuParamSetv(CUfunction fn, int offset, void *v, unsigned int bytes)
{
	return is_function(fn) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLaunchGridAsync(CUfunction fn, int width, int height, CUstream stream)
{
	if (!is_function(fn))
		return CUDA_ERROR_INVALID_HANDLE;
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	return cuLaunchKernel(fn, (unsigned)width, (unsigned)height, 1, fn->block[0], fn->block[1],
			      fn->block[2], fn->smem, stream, NULL, NULL);
}

CUresult cuLaunchGrid(CUfunction fn, int width, int height)
{
	return cuLaunchGridAsync(fn, width, height, NULL);
}

CUresult cuLaunch(CUfunction fn)
{
	return cuLaunchGridAsync(fn, 1, 1, NULL);
}

/* --- asking --- */

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction fn)
{
	if (!is_function(fn))
		return CUDA_ERROR_INVALID_HANDLE;
	if (value == NULL || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = 32;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = 75;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = fn->max_dynamic_smem;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = fn->carveout;
		break;
	default:
		*value = 0;
	}
	return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction fn, int attribute, int value)
{
	if (!is_function(fn))
		return CUDA_ERROR_INVALID_HANDLE;
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 &&
	    value <= 232448)
		fn->max_dynamic_smem = value;
	else if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
		fn->carveout = value;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction fn, int config)
{
	return is_function(fn) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetModule(CUmodule *mod, CUfunction fn)
{
	if (!is_function(fn))
		return CUDA_ERROR_INVALID_HANDLE;
	if (mod == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*mod = fn->module;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction fn)
{
	if (!is_function(fn))
		return CUDA_ERROR_INVALID_HANDLE;
	if (name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*name = fn->name;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, CUfunction fn, int block_size,
							      size_t dynamic_smem,
							      unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult r = sim_current(&ctx);
	int most;

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_function(fn))
		return CUDA_ERROR_INVALID_HANDLE;
	if (n == NULL || block_size <= 0 || block_size > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	most = (int)ctx->dev->card->model->threads_per_sm / block_size;
	*n = most < 32 ? most : 32;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction fn, int block_size,
						     size_t dynamic_smem)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, fn, block_size, dynamic_smem,
								    0);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block, CUfunction fn,
					  CUoccupancyB2DSize smem_of, size_t dynamic_smem,
					  int limit)
{
	struct CUctx_st *ctx;
	CUresult r = sim_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_function(fn))
		return CUDA_ERROR_INVALID_HANDLE;
	if (min_grid == NULL || block == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*block = limit > 0 && limit < 1024 ? limit : 1024;
	*min_grid =
		(int)(ctx->dev->sms * (ctx->dev->card->model->threads_per_sm / (unsigned)*block));
	return CUDA_SUCCESS;
}

/* There is no profiler to start; programs that bracket their work with it go on. */
CUresult cuProfilerStart(void)
{
	struct CUctx_st *ctx;

	return sim_current(&ctx);
}

CUresult cuProfilerStop(void)
{
	struct CUctx_st *ctx;

	return sim_current(&ctx);
}
