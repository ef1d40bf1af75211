/* Device memory: charged on the card in pages of 2 MiB, backed by this process or, once exported, by
 * the card's file. */
#include "sim/cuda_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PITCH 512

CUresult sim_charge(struct sim_device *d, uint64_t bytes)
{
	CUresult r = CUDA_SUCCESS;

	if (d->proc < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!sim_lock(d->card))
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (!sim_memory_take(d->card, d->proc, d->part, bytes))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	sim_unlock(d->card);
	return r;
}

void sim_uncharge(struct sim_device *d, uint64_t bytes)
{
	if (d->proc < 0 || !sim_lock(d->card))
		return;
	sim_memory_give(d->card, d->proc, bytes);
	sim_unlock(d->card);
}

void sim_region_release(struct sim_region *r)
{
	sim_region_remove(r);
	if (r->kind == SIM_KIND_MAPPED)
		sim_handle_unmap(r);
	else if (r->kind != SIM_KIND_REGISTERED)
		munmap((void *)r->base, r->kind == SIM_KIND_HOST ? r->size : r->charged);
	if (r->held != NULL && r->held->opened == r)
		r->held->opened = NULL;
	if (r->held != NULL)
		sim_held_put(r->held);
	else if (r->kind != SIM_KIND_GRAPH && r->charged > 0)
		sim_uncharge(r->dev, r->charged);
	if (r->held_tail != NULL)
		sim_held_put(r->held_tail);
	free(r->page);
	free(r);
}

/* Charges the memory and maps it. */
static CUresult back_region(struct sim_region *r, bool shared)
{
	CUresult e;

	if (shared) {
		e = sim_held_new(r->dev, r->charged, false, &r->held);
		if (e == CUDA_SUCCESS)
			r->base = (uintptr_t)sim_held_map(r->held, NULL);
	} else {
		e = sim_charge(r->dev, r->charged);
		if (e == CUDA_SUCCESS)
			r->base = (uintptr_t)sim_map_memory(r->charged, SIM_CHUNK, 0);
	}
	if (e != CUDA_SUCCESS)
		return e;
	if (r->base != 0 && sim_region_add(r))
		return CUDA_SUCCESS;
	if (r->base != 0)
		munmap((void *)r->base, r->charged);
	if (r->held != NULL)
		sim_held_put(r->held);
	else
		sim_uncharge(r->dev, r->charged);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_region_new(struct sim_device *d, struct CUctx_st *ctx, size_t bytes,
			enum sim_kind kind, bool shared, struct sim_region **ret)
{
	size_t room = (bytes + SIM_CHUNK - 1) & ~(SIM_CHUNK - 1);
	struct sim_region *r;
	CUresult e;

	if (room < bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*r = (struct sim_region){
		.size = bytes, .charged = room, .kind = kind, .dev = d, .ctx = ctx
	};
	e = back_region(r, shared);
	if (e == CUDA_SUCCESS)
		*ret = r;
	else
		free(r);
	return e;
}

/* --- allocation; under sim_big --- */

static CUresult alloc_managed(struct CUctx_st *ctx, size_t bytes, CUdeviceptr *ret)
{
	struct sim_region *r = NULL;
	CUresult e;

	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	e = sim_region_new(ctx->dev, ctx, bytes, SIM_KIND_MANAGED, false, &r);
	if (e == CUDA_SUCCESS)
		*ret = r->base;
	return e;
}

CUresult sim_free(uintptr_t at)
{
	struct sim_region *r = sim_region_find(at);

	if (r == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (r->kind == SIM_KIND_PAGE)
		return sim_page_free(r, at);
	if (r->kind == SIM_KIND_POOL)
		return sim_pool_free(r, at);
	if (r->kind == SIM_KIND_GRAPH)
		return sim_graph_free(r, at);
	if (r->base != at || (r->kind != SIM_KIND_DEVICE && r->kind != SIM_KIND_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	sim_large_free(r);
	return CUDA_SUCCESS;
}

void sim_memory_drop_ctx(struct CUctx_st *ctx)
{
	struct sim_region *r;

	sim_heaps_drop(ctx);
	while ((r = sim_region_of_ctx(ctx)) != NULL)
		sim_region_release(r);
}

static CUresult alloc_current(size_t bytes, enum sim_kind kind, CUdeviceptr *ret)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (ret == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r == CUDA_SUCCESS)
		r = sim_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	if (kind == SIM_KIND_MANAGED)
		r = alloc_managed(ctx, bytes, ret);
	else
		r = sim_alloc(ctx, bytes, SIM_HEAP_PLAIN, ret);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	return alloc_current(bytes, SIM_KIND_DEVICE, dptr);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
			    unsigned int element)
{
	size_t row = (width + PITCH - 1) & ~(size_t)(PITCH - 1), bytes = 0;
	CUresult r;

	if (pitch == NULL || width == 0 || height == 0 ||
	    (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (row < width || __builtin_mul_overflow(row, height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = alloc_current(bytes, SIM_KIND_DEVICE, dptr);
	if (r == CUDA_SUCCESS)
		*pitch = row;
	return r;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return alloc_current(bytes, SIM_KIND_MANAGED, dptr);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct CUctx_st *ctx;
	CUresult r = sim_current(&ctx);

	if (r != CUDA_SUCCESS || dptr == 0)
		return r;
	r = sim_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	r = sim_free((uintptr_t)dptr);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	struct CUctx_st *ctx;
	struct sim_card *c;
	uint64_t all, used;
	CUresult r = sim_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	if (free_bytes == NULL || total == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	c = ctx->dev->card;
	if (!sim_lock(c))
		return CUDA_ERROR_OPERATING_SYSTEM;
	sim_reap(c);
	all = sim_memory_total(c, ctx->dev->part);
	used = sim_memory_used(c, ctx->dev->part);
	sim_unlock(c);
	*total = all;
	*free_bytes = used < all ? all - used : 0;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
	struct CUctx_st *ctx;
	struct sim_region *g;
	uintptr_t start = 0;
	size_t n = 0;
	CUresult r = sim_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)dptr);
	if (g == NULL || g->kind == SIM_KIND_HOST || g->kind == SIM_KIND_REGISTERED ||
	    !sim_region_part(g, (uintptr_t)dptr, &start, &n)) {
		r = CUDA_ERROR_NOT_FOUND;
	} else {
		if (base != NULL)
			*base = start;
		if (size != NULL)
			*size = n;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}
