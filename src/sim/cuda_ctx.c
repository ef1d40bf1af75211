/* Contexts: made, current, destroyed. A context is never freed, so that a stale handle is an error
 * and not a crash. */
#include "sim/cuda_priv.h"

#include <stdlib.h>

#define STACK_MAX 64

static __thread CUcontext stack[STACK_MAX];
static __thread int depth;
static uint64_t next_id = 1;

static CUcontext top(void)
{
	return depth > 0 ? stack[depth - 1] : NULL;
}

CUresult sim_ctx_check(struct CUctx_st *ctx)
{
	CUresult r = sim_ready();
	int sticky;

	if (r != CUDA_SUCCESS)
		return r;
	if (ctx == NULL || ctx->magic != SIM_MAGIC_CTX)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ctx->alive)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	sticky = __atomic_load_n(&ctx->dev->card->s->ctxs[ctx->slot].sticky, __ATOMIC_RELAXED);
	return sticky != 0 ? sticky : sim_device_state(ctx->dev);
}

CUresult sim_current(struct CUctx_st **ret_ctx)
{
	CUcontext ctx = top();
	CUresult r = sim_ctx_check(ctx);

	if (r == CUDA_SUCCESS)
		*ret_ctx = ctx;
	return r;
}

/* --- the default stream of each thread --- */

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static __thread struct CUstream_st *mine;

static void thread_ends(void *list)
{
	struct CUstream_st *s = list, *next;

	pthread_mutex_lock(&sim_big);
	for (; s != NULL; s = next) {
		next = s->next_mine;
		sim_capture_forget(s);
		s->magic = 0;
		free(s);
	}
	pthread_mutex_unlock(&sim_big);
}

static void make_key(void)
{
	pthread_key_create(&thread_key, thread_ends);
}

static CUresult per_thread(struct CUctx_st *ctx, struct CUstream_st **ret)
{
	struct CUstream_st *s = mine;

	while (s != NULL && s->ctx != ctx)
		s = s->next_mine;
	if (s == NULL) {
		s = calloc(1, sizeof(*s));
		if (s == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*s = (struct CUstream_st){
			.magic = SIM_MAGIC_STREAM, .ctx = ctx, .id = 2, .next_mine = mine
		};
		mine = s;
		pthread_once(&thread_once, make_key);
		pthread_setspecific(thread_key, mine);
	}
	*ret = s;
	return CUDA_SUCCESS;
}

CUresult sim_stream_of(CUstream handle, struct CUstream_st **ret_stream)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
		r = sim_current(&ctx);
		if (r == CUDA_SUCCESS && handle == CU_STREAM_PER_THREAD)
			return per_thread(ctx, ret_stream);
		if (r == CUDA_SUCCESS)
			*ret_stream = &ctx->own;
		return r;
	}
	if (handle->magic != SIM_MAGIC_STREAM)
		return CUDA_ERROR_INVALID_HANDLE;
	r = sim_ctx_check(handle->ctx);
	if (r == CUDA_SUCCESS)
		*ret_stream = handle;
	return r;
}

/* --- making and destroying; under sim_big --- */

static uint64_t context_cost(const struct sim_device *d)
{
	return (uint64_t)d->card->s->context_mib << 20;
}

static CUresult attach_process(struct sim_device *d)
{
	struct sim_state *s = d->card->s;

	if (d->proc >= 0)
		return CUDA_SUCCESS;
	if (s->compute_mode == CU_COMPUTEMODE_PROHIBITED)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	sim_reap(d->card);
	for (int i = 0; s->compute_mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS && i < SIM_PROCS; i++)
		if (s->procs[i].used)
			return CUDA_ERROR_DEVICE_UNAVAILABLE;
	d->proc = sim_proc_take(d->card, d->gi, d->ci);
	return d->proc >= 0 ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

static void detach_process(struct sim_device *d)
{
	if (d->contexts > 0 || d->proc < 0)
		return;
	sim_proc_drop(d->card, d->proc);
	d->proc = -1; /* from here on nothing is given back a second time */
	sim_handles_forget(d);
	sim_held_forget(d);
	sim_pools_forget(d);
	sim_graphs_forget(d);
}

/* Under the card's lock. */
static CUresult take_slot(struct sim_device *d, int *ret_slot)
{
	CUresult r = attach_process(d);

	if (r == CUDA_SUCCESS && !sim_memory_take(d->card, d->proc, d->part, context_cost(d)))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		detach_process(d);
		return r;
	}
	sim_advance(d->card, d->part, sim_clock(d->card));
	*ret_slot = sim_ctx_take(d->card, d->proc, d->part);
	if (*ret_slot >= 0)
		return CUDA_SUCCESS;
	sim_memory_give(d->card, d->proc, context_cost(d));
	detach_process(d);
	return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

static CUresult make_ctx(struct sim_device *d, unsigned flags, struct CUctx_st **ret_ctx)
{
	struct CUctx_st *ctx = calloc(1, sizeof(*ctx));
	CUresult r = sim_device_state(d);
	int slot = -1;

	if (ctx == NULL || !sim_lock(d->card)) {
		free(ctx);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	if (r == CUDA_SUCCESS)
		r = take_slot(d, &slot);
	sim_unlock(d->card);
	if (r != CUDA_SUCCESS) {
		free(ctx);
		return r;
	}
	d->contexts++;
	*ctx = (struct CUctx_st){ .magic = SIM_MAGIC_CTX,
				  .alive = true,
				  .slot = slot,
				  .dev = d,
				  .flags = flags,
				  .id = next_id++ };
	ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
	ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	ctx->own = (struct CUstream_st){ .magic = SIM_MAGIC_STREAM, .ctx = ctx };
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

static void unmake_ctx(struct CUctx_st *ctx)
{
	struct sim_device *d = ctx->dev;

	ctx->alive = false;
	sim_capture_drop_ctx(ctx);
	sim_events_orphan(ctx);
	sim_memory_drop_ctx(ctx);
	d->contexts--;
	if (!sim_lock(d->card))
		return; /* the slot goes with the process */
	sim_ctx_drop(d->card, ctx->slot);
	sim_memory_give(d->card, d->proc, context_cost(d));
	detach_process(d);
	sim_unlock(d->card);
}

static CUresult push(CUcontext ctx)
{
	if (depth == STACK_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	stack[depth++] = ctx;
	return CUDA_SUCCESS;
}

static CUresult create(CUcontext *ret, unsigned flags, CUdevice dev)
{
	struct sim_device *d;
	struct CUctx_st *ctx = NULL;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (ret == NULL || depth == STACK_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(dev, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&sim_big);
	r = make_ctx(d, flags, &ctx);
	pthread_mutex_unlock(&sim_big);
	if (r != CUDA_SUCCESS)
		return r;
	*ret = ctx;
	return push(ctx);
}

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	return create(ctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *params, int n, unsigned int flags,
			CUdevice dev)
{
	/* SM affinity needs MPS, which is not simulated. */
	return params != NULL && n > 0 ? CUDA_ERROR_NOT_SUPPORTED : create(ctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
	if (params != NULL && (params->numExecAffinityParams > 0 || params->cigParams != NULL))
		return CUDA_ERROR_NOT_SUPPORTED;
	return create(ctx, flags, dev);
}

static CUresult destroy(CUcontext ctx)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (ctx == NULL || ctx->magic != SIM_MAGIC_CTX || ctx->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&sim_big);
	if (ctx->alive)
		unmake_ctx(ctx);
	else
		r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	pthread_mutex_unlock(&sim_big);
	if (top() == ctx)
		depth--;
	return r;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	return destroy(ctx);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	return destroy(ctx);
}

/* --- current --- */

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (ctx == NULL || ctx->magic != SIM_MAGIC_CTX)
		return CUDA_ERROR_INVALID_CONTEXT;
	return push(ctx);
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
	return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (ctx != NULL)
		*ctx = stack[depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *ctx)
{
	return cuCtxPopCurrent_v2(ctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (ctx != NULL && ctx->magic != SIM_MAGIC_CTX)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth > 0)
		depth--;
	return ctx != NULL ? push(ctx) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = top();
	return CUDA_SUCCESS;
}

/* --- primary contexts --- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	CUresult r = sim_ready();
	struct sim_device *d;

	if (r != CUDA_SUCCESS)
		return r;
	if (ctx == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(dev, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&sim_big);
	if (d->primary == NULL)
		r = make_ctx(d, d->primary_flags, &d->primary);
	if (r == CUDA_SUCCESS) {
		d->primary->primary = true;
		d->primary_refs++;
		*ctx = d->primary;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

static CUresult release_primary(CUdevice dev, bool all)
{
	CUresult r = sim_ready();
	struct sim_device *d;

	if (r != CUDA_SUCCESS)
		return r;
	if (!sim_device_of(dev, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&sim_big);
	if (d->primary == NULL) {
		r = all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
	} else if (all || --d->primary_refs == 0) {
		unmake_ctx(d->primary);
		d->primary = NULL;
		d->primary_refs = 0;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return release_primary(dev, false);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	return release_primary(dev, false);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return release_primary(dev, true);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	return release_primary(dev, true);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	CUresult r = sim_ready();
	struct sim_device *d;

	if (r != CUDA_SUCCESS)
		return r;
	if (!sim_device_of(dev, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	d->primary_flags = flags;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	CUresult r = sim_ready();
	struct sim_device *d;

	if (r != CUDA_SUCCESS)
		return r;
	if (flags == NULL || active == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(dev, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = d->primary_flags;
	*active = d->primary != NULL;
	return CUDA_SUCCESS;
}
