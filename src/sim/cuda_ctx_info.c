/* cuCtx* calls that ask or set something of the current context. */
#include "sim/cuda_priv.h"

CUresult cuCtxGetDevice(CUdevice *dev)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (dev == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r == CUDA_SUCCESS)
		*dev = sim_device_number(ctx->dev);
	return r;
}

CUresult cuCtxGetDevice_v2(CUdevice *dev, CUcontext ctx)
{
	CUresult r;

	if (ctx == NULL)
		return cuCtxGetDevice(dev);
	if (dev == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_ctx_check(ctx);
	if (r == CUDA_SUCCESS)
		*dev = sim_device_number(ctx->dev);
	return r;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (flags == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r == CUDA_SUCCESS)
		*flags = ctx->flags;
	return r;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult r = sim_current(&ctx);

	if (r == CUDA_SUCCESS)
		ctx->flags = flags;
	return r;
}

static CUresult given_or_current(CUcontext *ctx)
{
	return *ctx != NULL ? sim_ctx_check(*ctx) : sim_current(ctx);
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
	CUresult r;

	if (id == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = given_or_current(&ctx);
	if (r == CUDA_SUCCESS)
		*id = ctx->id;
	return r;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	CUresult r;

	if (version == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = given_or_current(&ctx);
	if (r == CUDA_SUCCESS)
		*version = 3020;
	return r;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	CUresult r = given_or_current(&ctx);

	if (r == CUDA_SUCCESS)
		r = sim_unsafe_ctx(ctx);
	if (r == CUDA_SUCCESS)
		r = sim_wait(ctx, sim_ctx_head(ctx));
	if (r == CUDA_SUCCESS)
		sim_caught_up(ctx);
	return r;
}

CUresult cuCtxSynchronize(void)
{
	return cuCtxSynchronize_v2(NULL);
}

CUresult cuCtxGetLimit(size_t *value, int limit)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r != CUDA_SUCCESS)
		return r;
	if (limit < 0 || limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*value = ctx->limits[limit];
	return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
	struct CUctx_st *ctx;
	CUresult r = sim_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (limit < 0 || limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	ctx->limits[limit] = value;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(int *config)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (config == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r == CUDA_SUCCESS)
		*config = 0;
	return r;
}

/* A preference that the simulated card has no use for. */
CUresult cuCtxSetCacheConfig(int config)
{
	struct CUctx_st *ctx;

	return config < 0 || config > 3 ? CUDA_ERROR_INVALID_VALUE : sim_current(&ctx);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct CUctx_st *ctx;
	CUresult r = sim_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (least != NULL)
		*least = 0;
	if (greatest != NULL)
		*greatest = -5;
	return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	struct CUctx_st *ctx;

	return sim_current(&ctx);
}
