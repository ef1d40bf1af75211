/* Memory pools and stream-ordered allocation.
 *
 * A pool takes memory from the card in blocks of 32 MiB (of more for a larger request) and cuts
 * allocations from them. What is freed stays with the pool; whenever the device is waited for, blocks
 * that are empty go back until no more is kept than the release threshold says. */
#include "sim/cuda_token.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK (32ULL << 20)
#define GRAIN 512
#define POINTER_MAGIC 0x7265746e696f70ULL

void sim_pool_init(struct CUmemPoolHandle_st *pool, struct sim_device *d)
{
	*pool = (struct CUmemPoolHandle_st){
		.magic = SIM_MAGIC_POOL, .dev = d, .reuse = { 1, 1, 1 }, .next = d->pools
	};
	sim_random(&pool->id, sizeof(pool->id));
	d->pools = pool;
}

static void unlist(CUmemoryPool pool)
{
	CUmemoryPool *p = &pool->dev->pools;

	while (*p != pool)
		p = &(*p)->next;
	*p = pool->next;
}

/* --- blocks and cuts; under sim_big --- */

static void more(uint64_t *now, uint64_t *high, uint64_t bytes)
{
	*now += bytes;
	if (*now > *high)
		*high = *now;
}

static void drop_cuts(struct sim_region *block)
{
	while (block->cuts != NULL) {
		struct sim_cut *c = block->cuts;

		block->cuts = c->next;
		free(c);
	}
}

static void drop_block(struct sim_region **p)
{
	struct sim_region *block = *p;
	CUmemoryPool pool = block->pool;

	*p = block->next_block;
	pool->reserved -= block->charged;
	drop_cuts(block);
	sim_region_release(block);
}

/* Gives empty blocks back until at most `keep` bytes are reserved. */
static void trim(CUmemoryPool pool, uint64_t keep)
{
	struct sim_region **p = &pool->blocks;

	while (*p != NULL && pool->reserved > keep)
		if ((*p)->cuts == NULL)
			drop_block(p);
		else
			p = &(*p)->next_block;
}

void sim_pools_release(struct sim_device *d)
{
	for (CUmemoryPool pool = d->pools; pool != NULL; pool = pool->next)
		trim(pool, pool->threshold);
}

/* The process gave up its place on the card. */
void sim_pools_forget(struct sim_device *d)
{
	for (CUmemoryPool pool = d->pools, next; pool != NULL; pool = next) {
		next = pool->next;
		while (pool->blocks != NULL)
			drop_block(&pool->blocks);
		pool->used = pool->reserved = 0;
		if (pool->destroyed) {
			unlist(pool);
			free(pool);
		}
	}
}

/* The first gap that fits. */
static uintptr_t cut(struct sim_region *block, size_t size)
{
	struct sim_cut **p = &block->cuts, *c;
	size_t at = 0;

	while (*p != NULL && (*p)->at - at < size) {
		at = (*p)->at + (*p)->size;
		p = &(*p)->next;
	}
	if (*p == NULL && block->size - at < size)
		return 0;
	c = malloc(sizeof(*c));
	if (c == NULL)
		return 0;
	*c = (struct sim_cut){ .at = at, .size = size, .next = *p };
	*p = c;
	return block->base + at;
}

static CUresult grow_by(CUmemoryPool pool, size_t bytes)
{
	struct sim_region *block = NULL;
	CUresult r;

	if (pool->max != 0 && (pool->reserved >= pool->max || bytes > pool->max - pool->reserved))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sim_region_new(pool->dev, NULL, bytes, SIM_KIND_POOL, pool->shareable, &block);
	if (r != CUDA_SUCCESS)
		return r;
	block->size = block->charged;
	block->pool = pool;
	block->next_block = pool->blocks;
	pool->blocks = block;
	more(&pool->reserved, &pool->reserved_high, block->charged);
	return CUDA_SUCCESS;
}

/* With as little as will do if a whole number of blocks is not to be had. */
static CUresult grow(CUmemoryPool pool, size_t bytes)
{
	size_t whole = (bytes + BLOCK - 1) / BLOCK * BLOCK;
	CUresult r = grow_by(pool, whole);

	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	trim(pool, 0);
	r = grow_by(pool, whole);
	return r == CUDA_ERROR_OUT_OF_MEMORY ? grow_by(pool, bytes) : r;
}

static CUresult pool_alloc(CUmemoryPool pool, size_t bytes, CUdeviceptr *ret)
{
	size_t size = (bytes + GRAIN - 1) & ~(size_t)(GRAIN - 1);
	uintptr_t at = 0;
	CUresult r;

	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (size < bytes || size > SIZE_MAX / 2)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (struct sim_region *b = pool->blocks; b != NULL && at == 0; b = b->next_block)
		at = cut(b, size);
	if (at == 0) {
		r = grow(pool, size);
		if (r != CUDA_SUCCESS)
			return r;
		at = cut(pool->blocks, size);
	}
	if (at == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	more(&pool->used, &pool->used_high, size);
	*ret = at;
	return CUDA_SUCCESS;
}

CUresult sim_pool_free(struct sim_region *block, uintptr_t at)
{
	CUmemoryPool pool = block->pool;
	struct sim_cut **p = &block->cuts, *c;

	while (*p != NULL && block->base + (*p)->at != at)
		p = &(*p)->next;
	if (*p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	c = *p;
	*p = c->next;
	pool->used -= c->size;
	free(c);
	/* Neither an imported pool nor one that is gone keeps anything. */
	if (pool->imported || pool->destroyed)
		trim(pool, 0);
	if (pool->destroyed && pool->blocks == NULL) {
		unlist(pool);
		free(pool);
	}
	return CUDA_SUCCESS;
}

static CUresult device_pool(CUdevice dev, struct sim_device **ret_dev)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return sim_device_of(dev, ret_dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	struct sim_device *d;
	CUresult r;

	if (pool == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_pool(dev, &d);
	if (r == CUDA_SUCCESS)
		*pool = &d->default_pool;
	return r;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	struct sim_device *d;
	CUresult r;

	if (pool == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_pool(dev, &d);
	if (r == CUDA_SUCCESS)
		*pool = d->pool;
	return r;
}

static bool is_pool(CUmemoryPool pool)
{
	return pool != NULL && pool->magic == SIM_MAGIC_POOL && !pool->destroyed;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct sim_device *d;
	CUresult r = device_pool(dev, &d);

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_pool(pool) || pool->dev != d || pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	d->pool = pool;
	return CUDA_SUCCESS;
}

/* CUDA 13's way to say the same, for any place; only devices have pools here. */
static CUresult located(const CUmemLocation *location, int type)
{
	if (location == NULL || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_SUCCESS
							     : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
	CUresult r = located(location, type);

	return r == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(pool, location->id) : r;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
	CUresult r = located(location, type);

	return r == CUDA_SUCCESS ? cuDeviceGetMemPool(pool, location->id) : r;
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool)
{
	CUresult r = located(location, type);

	return r == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : r;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	struct sim_device *d;
	CUresult r;

	if (pool == NULL || props == NULL || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if ((props->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = device_pool(props->location.id, &d);
	if (r != CUDA_SUCCESS)
		return r;
	*pool = calloc(1, sizeof(**pool));
	if (*pool == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sim_big);
	sim_pool_init(*pool, d);
	(*pool)->max = props->maxSize;
	(*pool)->shareable = props->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

/* Allocations may outlive the handle; the object stays for them. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_pool(pool) || pool == &pool->dev->default_pool)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	pool->destroyed = true;
	if (pool->dev->pool == pool)
		pool->dev->pool = &pool->dev->default_pool;
	trim(pool, 0);
	if (pool->blocks == NULL) {
		unlist(pool);
		free(pool);
	}
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_pool(pool))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	trim(pool, keep);
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

/* Under sim_big. */
static CUresult set_attribute(CUmemoryPool pool, int attribute, void *value)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pool->reuse[attribute - 1] = *(int *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = *(cuuint64_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (*(cuuint64_t *)value != 0)
			return CUDA_ERROR_INVALID_VALUE;
		if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
			pool->used_high = pool->used;
		else
			pool->reserved_high = pool->reserved;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult get_attribute(CUmemoryPool pool, int attribute, void *value)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value = pool->reuse[attribute - 1];
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(cuuint64_t *)value = pool->threshold;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->reserved;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = pool->reserved_high;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->used;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = pool->used_high;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult attribute_of(CUmemoryPool pool, int attribute, void *value,
			     CUresult (*with)(CUmemoryPool, int, void *))
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_pool(pool) || value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	r = with(pool, attribute, value);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	return attribute_of(pool, attribute, value, set_attribute);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	return attribute_of(pool, attribute, value, get_attribute);
}

CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location)
{
	struct sim_device *d;
	CUresult r;

	if (flags == NULL || location == NULL || !is_pool(pool))
		return CUDA_ERROR_INVALID_VALUE;
	r = device_pool(location->id, &d);
	if (r == CUDA_SUCCESS)
		*flags = d == pool->dev ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					: CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return r;
}

/* --- from process to process --- */

CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, int type,
					  unsigned long long flags)
{
	CUresult r = sim_ready();
	int fd;

	if (r != CUDA_SUCCESS)
		return r;
	if (handle == NULL || flags != 0 || !is_pool(pool) || !pool->shareable ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	fd = sim_token_make(SIM_TOKEN_POOL, pool->dev, pool->id, 0, NULL);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)handle = fd;
	return CUDA_SUCCESS;
}

/* An imported pool only takes pointers; nothing is allocated from it. */
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type,
					    unsigned long long flags)
{
	struct sim_device *d;
	struct sim_token t;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (pool == NULL || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !sim_token_read((int)(intptr_t)handle, SIM_TOKEN_POOL, &t, &d))
		return CUDA_ERROR_INVALID_VALUE;
	*pool = calloc(1, sizeof(**pool));
	if (*pool == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sim_big);
	sim_pool_init(*pool, d);
	(*pool)->imported = true;
	(*pool)->id = t.id;
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

struct pointer {
	uint64_t magic;
	uint64_t pool, share;
	uint64_t at, size;
};
_Static_assert(sizeof(struct pointer) <= sizeof(CUmemPoolPtrExportData), "64 bytes");

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
	struct pointer p = { .magic = POINTER_MAGIC };
	struct sim_region *g;
	uintptr_t base = 0;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (data == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)ptr);
	if (g == NULL || g->kind != SIM_KIND_POOL || !g->pool->shareable ||
	    !sim_region_part(g, (uintptr_t)ptr, &base, &p.size)) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		p.pool = g->pool->id;
		p.share = g->held->id;
		p.at = base - g->base;
	}
	pthread_mutex_unlock(&sim_big);
	if (r != CUDA_SUCCESS)
		return r;
	memset(data, 0, sizeof(*data));
	memcpy(data, &p, sizeof(p));
	return CUDA_SUCCESS;
}

/* The exporter's block as this process sees it; made when its first pointer comes. */
static CUresult imported_block(CUmemoryPool pool, uint64_t share, struct sim_region **ret)
{
	struct sim_region *b = pool->blocks;
	struct sim_held *h = NULL;
	CUresult r;

	while (b != NULL && b->held->id != share)
		b = b->next_block;
	*ret = b;
	if (b != NULL)
		return CUDA_SUCCESS;
	b = calloc(1, sizeof(*b));
	if (b == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sim_held_take(pool->dev, share, &h);
	if (r != CUDA_SUCCESS) {
		free(b);
		return r;
	}
	*b = (struct sim_region){ .size = h->size,
				  .charged = h->size,
				  .kind = SIM_KIND_POOL,
				  .dev = pool->dev,
				  .pool = pool,
				  .held = h,
				  .next_block = pool->blocks };
	b->base = (uintptr_t)sim_held_map(h, NULL);
	if (b->base == 0 || !sim_region_add(b)) {
		if (b->base != 0)
			munmap((void *)b->base, h->size);
		sim_held_put(h);
		free(b);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pool->blocks = b;
	more(&pool->reserved, &pool->reserved_high, b->charged);
	*ret = b;
	return CUDA_SUCCESS;
}

static CUresult cut_at(struct sim_region *b, size_t at, size_t size)
{
	struct sim_cut **p = &b->cuts, *c;

	if (at > b->size || size == 0 || size > b->size - at)
		return CUDA_ERROR_INVALID_VALUE;
	while (*p != NULL && (*p)->at + (*p)->size <= at)
		p = &(*p)->next;
	if (*p != NULL && (*p)->at < at + size)
		return CUDA_ERROR_ALREADY_MAPPED;
	c = malloc(sizeof(*c));
	if (c == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct sim_cut){ .at = at, .size = size, .next = *p };
	*p = c;
	more(&b->pool->used, &b->pool->used_high, size);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	struct sim_region *b = NULL;
	struct pointer p;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (ptr == NULL || data == NULL || !is_pool(pool) || !pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&p, data, sizeof(p));
	if (p.magic != POINTER_MAGIC || p.pool != pool->id)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	r = imported_block(pool, p.share, &b);
	if (r == CUDA_SUCCESS)
		r = cut_at(b, p.at, p.size);
	if (r == CUDA_SUCCESS)
		*ptr = b->base + p.at;
	else
		trim(pool, 0);
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* --- stream-ordered allocation --- */

static CUresult alloc_from(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream handle)
{
	struct CUstream_st *s;
	CUresult r = sim_work_stream(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (dptr == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	if (pool == NULL)
		pool = s->ctx->dev->pool;
	if (!is_pool(pool) || pool->imported)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (pool->dev != s->ctx->dev) /* no peer access on this machine */
		r = CUDA_ERROR_INVALID_DEVICE;
	else if (s->capture != NULL)
		r = sim_capture_alloc(s, bytes, dptr);
	else
		r = pool_alloc(pool, bytes, dptr);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_from(dptr, bytes, NULL, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_from(dptr, bytes, NULL, sim_ptsz(stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				 CUstream stream)
{
	return is_pool(pool) ? alloc_from(dptr, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				      CUstream stream)
{
	return cuMemAllocFromPoolAsync(dptr, bytes, pool, sim_ptsz(stream));
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream handle)
{
	struct CUstream_st *s;
	CUresult r = sim_work_stream(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	r = s->capture != NULL ? sim_capture_free(s, dptr) : sim_free((uintptr_t)dptr);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
	return cuMemFreeAsync(dptr, sim_ptsz(stream));
}
