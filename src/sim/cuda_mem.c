/* Device memory: charged on the card, backed by this process.
 *
 * Device memory is charged in chunks of 2 MiB. Requests up to 1 MiB share chunks with others of the
 * same size (the next power of two from 512 bytes on); larger ones have their own. */
#include "sim/cuda_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALLEST 512
#define LARGEST_SMALL (SIM_CHUNK / 2)
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

static void pool_count(CUmemoryPool pool, size_t bytes, bool add)
{
	if (pool == NULL)
		return;
	if (!add) {
		pool->used -= bytes < pool->used ? bytes : pool->used;
		return;
	}
	pool->used += bytes;
	if (pool->used > pool->high)
		pool->high = pool->used;
}

static void release_region(struct sim_region *r)
{
	sim_region_remove(r);
	if (r->kind == SIM_KIND_MAPPED)
		sim_handle_unmap(r);
	else if (r->kind != SIM_KIND_REGISTERED)
		munmap((void *)r->base, r->kind == SIM_KIND_HOST ? r->size : r->charged);
	if (r->charged > 0)
		sim_uncharge(r->dev, r->charged);
	free(r);
}

static CUresult new_region(struct CUctx_st *ctx, size_t bytes, enum sim_kind kind,
			   struct sim_region **ret)
{
	size_t room = (bytes + SIM_CHUNK - 1) & ~(SIM_CHUNK - 1);
	struct sim_region *r;
	CUresult e;

	if (room < bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = sim_charge(ctx->dev, room);
	if (e != CUDA_SUCCESS)
		return e;
	r = calloc(1, sizeof(*r));
	if (r != NULL) {
		*r = (struct sim_region){
			.size = bytes, .charged = room, .kind = kind, .dev = ctx->dev, .ctx = ctx
		};
		r->base = (uintptr_t)sim_map_memory(room, SIM_CHUNK, 0);
	}
	if (r == NULL || r->base == 0 || !sim_region_add(r)) {
		if (r != NULL && r->base != 0)
			munmap((void *)r->base, room);
		free(r);
		sim_uncharge(ctx->dev, room);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = r;
	return CUDA_SUCCESS;
}

/* --- small requests --- */

static size_t unit_for(size_t bytes)
{
	size_t unit = SMALLEST;

	while (unit < bytes)
		unit *= 2;
	return unit;
}

static struct sim_region **slab_list(struct CUctx_st *ctx, CUmemoryPool pool, size_t unit)
{
	/* Slabs with room, by context, pool and unit: few, so a list per unit will do. */
	static struct sim_region *lists[12];
	int i = __builtin_ctzl(unit / SMALLEST);
	struct sim_region **p = &lists[i];

	while (*p != NULL && ((*p)->ctx != ctx || (*p)->pool != pool))
		p = &(*p)->next_slab;
	return p;
}

static void slab_unlist(struct sim_region *r)
{
	struct sim_region **p = slab_list(r->ctx, r->pool, r->unit);

	while (*p != NULL && *p != r)
		p = &(*p)->next_slab;
	if (*p == r)
		*p = r->next_slab;
	r->next_slab = NULL;
}

static uintptr_t slab_take(struct sim_region *r)
{
	for (size_t i = 0; i < 64; i++) {
		int bit;

		if (r->bits[i] == UINT64_MAX || i * 64 * r->unit >= SIM_CHUNK)
			continue;
		bit = __builtin_ctzl(~r->bits[i]);
		if ((i * 64 + (size_t)bit) * r->unit >= SIM_CHUNK)
			break;
		r->bits[i] |= 1ULL << bit;
		if (++r->used == SIM_CHUNK / r->unit)
			slab_unlist(r);
		return r->base + (i * 64 + (size_t)bit) * r->unit;
	}
	return 0;
}

static CUresult slab_alloc(struct CUctx_st *ctx, size_t bytes, CUmemoryPool pool, CUdeviceptr *ret)
{
	size_t unit = unit_for(bytes);
	struct sim_region **list = slab_list(ctx, pool, unit), *r = *list;

	if (r == NULL) {
		CUresult e = new_region(ctx, SIM_CHUNK, SIM_KIND_SLAB, &r);

		if (e != CUDA_SUCCESS)
			return e;
		r->unit = unit;
		r->pool = pool;
		r->next_slab = *list;
		*list = r;
	}
	*ret = slab_take(r);
	pool_count(pool, unit, true);
	return CUDA_SUCCESS;
}

static CUresult slab_free(struct sim_region *r, uintptr_t at)
{
	size_t unit = (at - r->base) / r->unit;
	struct sim_region **list;

	if ((at - r->base) % r->unit != 0 || (r->bits[unit / 64] >> (unit % 64) & 1) == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (r->used == SIM_CHUNK / r->unit) { /* was full: has room again */
		list = slab_list(r->ctx, r->pool, r->unit);
		r->next_slab = *list;
		*list = r;
	}
	r->bits[unit / 64] &= ~(1ULL << (unit % 64));
	r->used--;
	pool_count(r->pool, r->unit, false);
	if (r->used == 0) {
		slab_unlist(r);
		release_region(r);
	}
	return CUDA_SUCCESS;
}

/* --- allocation; under sim_big --- */

CUresult sim_alloc(struct CUctx_st *ctx, size_t bytes, enum sim_kind kind, CUmemoryPool pool,
		   CUdeviceptr *ret)
{
	struct sim_region *r = NULL;
	CUresult e;

	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool != NULL && pool->max != 0 &&
	    (pool->used >= pool->max || bytes > pool->max - pool->used))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes <= LARGEST_SMALL && kind == SIM_KIND_DEVICE)
		return slab_alloc(ctx, bytes, pool, ret);
	e = new_region(ctx, bytes, kind, &r);
	if (e != CUDA_SUCCESS)
		return e;
	r->pool = pool;
	pool_count(pool, r->charged, true);
	*ret = r->base;
	return CUDA_SUCCESS;
}

CUresult sim_free(uintptr_t at)
{
	struct sim_region *r = sim_region_find(at);

	if (r == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (r->kind == SIM_KIND_SLAB)
		return slab_free(r, at);
	if (r->base != at || (r->kind != SIM_KIND_DEVICE && r->kind != SIM_KIND_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	pool_count(r->pool, r->charged, false);
	release_region(r);
	return CUDA_SUCCESS;
}

void sim_memory_drop_ctx(struct CUctx_st *ctx)
{
	struct sim_region *r;

	while ((r = sim_region_of_ctx(ctx)) != NULL) {
		if (r->kind == SIM_KIND_SLAB) {
			pool_count(r->pool, r->unit * r->used, false);
			if (r->used < SIM_CHUNK / r->unit)
				slab_unlist(r);
		} else {
			pool_count(r->pool, r->charged, false);
		}
		release_region(r);
	}
}

static CUresult alloc_current(size_t bytes, enum sim_kind kind, CUdeviceptr *ret)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (ret == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	r = sim_alloc(ctx, bytes, kind, NULL, ret);
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
	CUresult r = sim_current(&ctx);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)dptr);
	if (g == NULL || g->kind == SIM_KIND_HOST || g->kind == SIM_KIND_REGISTERED) {
		r = CUDA_ERROR_NOT_FOUND;
	} else {
		size_t unit = g->kind == SIM_KIND_SLAB ? g->unit : g->size;

		if (base != NULL)
			*base = g->base + (dptr - g->base) / unit * unit;
		if (size != NULL)
			*size = unit;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}
