/* Memory pools and stream-ordered allocation. A pool keeps nothing back: what is freed goes to the
 * card at once, since nothing on the simulated card still reads it. */
#include "sim/cuda_priv.h"

#include <stdlib.h>

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
	return pool != NULL && pool->magic == SIM_MAGIC_POOL;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct sim_device *d;
	CUresult r = device_pool(dev, &d);

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_pool(pool) || pool->dev != d)
		return CUDA_ERROR_INVALID_VALUE;
	d->pool = pool;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	struct sim_device *d;
	CUresult r;

	if (pool == NULL || props == NULL || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = device_pool(props->location.id, &d);
	if (r != CUDA_SUCCESS)
		return r;
	*pool = calloc(1, sizeof(**pool));
	if (*pool == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	**pool = (struct CUmemPoolHandle_st){
		.magic = SIM_MAGIC_POOL, .dev = d, .max = props->maxSize, .reuse = { 1, 1, 1 }
	};
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
	pool->magic = 0;
	if (pool->dev->pool == pool)
		pool->dev->pool = &pool->dev->default_pool;
	if (pool->used == 0)
		free(pool);
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	return is_pool(pool) ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_pool(pool) || value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
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
		pool->high = pool->used;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!is_pool(pool) || value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
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
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->used;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = pool->high;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
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

static CUresult alloc_from(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream handle)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_of(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (dptr == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool == NULL)
		pool = s->ctx->dev->pool;
	if (!is_pool(pool))
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->dev != s->ctx->dev) /* no peer access on this machine */
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&sim_big);
	r = sim_alloc(s->ctx, bytes, SIM_KIND_DEVICE, pool, dptr);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_from(dptr, bytes, NULL, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_from(dptr, bytes, NULL, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				 CUstream stream)
{
	return is_pool(pool) ? alloc_from(dptr, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				      CUstream stream)
{
	return cuMemAllocFromPoolAsync(dptr, bytes, pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream handle)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_of(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	r = sim_free((uintptr_t)dptr);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
	return cuMemFreeAsync(dptr, stream);
}
