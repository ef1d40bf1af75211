/* Launches and what can be asked of a kernel. Kernels compute nothing; they take time. */
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

static CUresult launch(CUfunction f, const CUlaunchConfig *c)
{
	struct CUstream_st *s;
	uint64_t blocks = (uint64_t)c->gridDimX * c->gridDimY, threads;
	CUresult r = sim_stream_of(c->hStream, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_function(f))
		return CUDA_ERROR_INVALID_HANDLE;
	threads = (uint64_t)c->blockDimX * c->blockDimY;
	if (c->blockDimX > 1024 || c->blockDimY > 1024 || c->blockDimZ > 64 ||
	    c->gridDimY > 65535 || c->gridDimZ > 65535 || c->gridDimX > INT_MAX ||
	    threads * c->blockDimZ == 0 || threads * c->blockDimZ > 1024 ||
	    blocks * c->gridDimZ == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (c->sharedMemBytes > (unsigned)f->max_dynamic_smem)
		return CUDA_ERROR_INVALID_VALUE;
	if (f->cost_ns != SIM_COST_BY_SHAPE)
		return sim_submit(s, f->cost_ns);
	return sim_submit(s, cost_by_shape(s->ctx->dev, blocks * c->gridDimZ,
					   (unsigned)(threads * c->blockDimZ)));
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
			     .sharedMemBytes = smem,
			     .hStream = stream };

	return launch(fn, &c);
}

CUresult cuLaunchKernel_ptsz(CUfunction fn, unsigned int gx, unsigned int gy, unsigned int gz,
			     unsigned int bx, unsigned int by, unsigned int bz, unsigned int smem,
			     CUstream stream, void **params, void **extra)
{
	return cuLaunchKernel(fn, gx, gy, gz, bx, by, bz, smem, stream, params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction fn, void **params, void **extra)
{
	return config != NULL ? launch(fn, config) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction fn, void **params,
			       void **extra)
{
	return cuLaunchKernelEx(config, fn, params, extra);
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
	return cuLaunchCooperativeKernel(fn, gx, gy, gz, bx, by, bz, smem, stream, params);
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
