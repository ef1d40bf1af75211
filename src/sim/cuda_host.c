/* Pinned host memory, and what a pointer is. */
#include "sim/cuda_priv.h"

#include <stdlib.h>
#include <sys/mman.h>

static CUresult add_host(struct CUctx_st *ctx, uintptr_t base, size_t bytes, enum sim_kind kind)
{
	struct sim_region *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*r = (struct sim_region){
		.base = base, .size = bytes, .kind = kind, .dev = ctx->dev, .ctx = ctx
	};
	if (sim_region_add(r))
		return CUDA_SUCCESS;
	free(r);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult r;
	void *at;

	if (p == NULL || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r == CUDA_SUCCESS)
		r = sim_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	at = sim_map_memory(bytes, 4096, 0);
	if (at == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sim_big);
	r = add_host(ctx, (uintptr_t)at, bytes, SIM_KIND_HOST);
	pthread_mutex_unlock(&sim_big);
	if (r == CUDA_SUCCESS)
		*p = at;
	else
		munmap(at, bytes);
	return r;
}

CUresult cuMemAllocHost_v2(void **p, size_t bytes)
{
	return cuMemHostAlloc(p, bytes, 0);
}

static CUresult remove_host(void *p, enum sim_kind kind)
{
	struct CUctx_st *ctx;
	struct sim_region *g;
	CUresult r = sim_current(&ctx);

	if (r == CUDA_SUCCESS)
		r = sim_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)p);
	if (g == NULL || g->kind != kind || g->base != (uintptr_t)p) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		sim_region_remove(g);
		if (kind == SIM_KIND_HOST)
			munmap(p, g->size);
		free(g);
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemFreeHost(void *p)
{
	return remove_host(p, SIM_KIND_HOST);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult r;

	if (p == NULL || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	if (sim_region_find((uintptr_t)p) != NULL)
		r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	else
		r = add_host(ctx, (uintptr_t)p, bytes, SIM_KIND_REGISTERED);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemHostUnregister(void *p)
{
	CUresult r = remove_host(p, SIM_KIND_REGISTERED);

	return r == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : r;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p, unsigned int flags)
{
	struct CUctx_st *ctx;
	struct sim_region *g;
	CUresult r;

	if (dptr == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_current(&ctx);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)p);
	if (g == NULL || (g->kind != SIM_KIND_HOST && g->kind != SIM_KIND_REGISTERED))
		r = CUDA_ERROR_INVALID_VALUE;
	else
		*dptr = (uintptr_t)p;
	pthread_mutex_unlock(&sim_big);
	return r;
}

static bool is_host(const struct sim_region *g)
{
	return g->kind == SIM_KIND_HOST || g->kind == SIM_KIND_REGISTERED;
}

static CUresult pointer_attribute(const struct sim_region *g, int attribute, CUdeviceptr ptr,
				  void *data)
{
	uintptr_t base = 0;
	size_t size = 0;

	if (!sim_region_part(g, (uintptr_t)ptr, &base, &size))
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = g->ctx;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = is_host(g) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = ptr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!is_host(g) && g->kind != SIM_KIND_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)(uintptr_t)ptr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = g->kind == SIM_KIND_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = sim_device_number(g->dev);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = size;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(bool *)data = true;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = g->pool;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr)
{
	const struct sim_region *g;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (data == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)ptr);
	r = g != NULL ? pointer_attribute(g, attribute, ptr, data) : CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&sim_big);
	return r;
}
