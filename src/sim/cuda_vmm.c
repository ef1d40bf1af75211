/* Virtual memory management: physical handles, reserved addresses, and the mapping of one on the
 * other. A handle is charged when it is created and given back when it was released and its last
 * mapping is gone, as on a real card. */
#include "sim/cuda_priv.h"

#include <stdlib.h>
#include <sys/mman.h>

struct sim_handle {
	uint64_t id;
	void *memory;
	size_t size;
	size_t charged;
	unsigned refs; /* the handle itself, retained copies, mappings */
	unsigned handles;
	struct sim_device *dev;
	CUmemAllocationProp prop;
	struct sim_handle *next;
};

struct reservation {
	uintptr_t base;
	size_t size;
	struct reservation *next;
};

static struct sim_handle *handles;
static struct reservation *reservations;
static uint64_t next_id = 1;

static struct sim_handle *find_handle(CUmemGenericAllocationHandle id)
{
	for (struct sim_handle *h = handles; h != NULL; h = h->next)
		if (h->id == id && h->handles > 0)
			return h;
	return NULL;
}

static void unref(struct sim_handle *h)
{
	struct sim_handle **p = &handles;

	if (--h->refs > 0)
		return;
	while (*p != h)
		p = &(*p)->next;
	*p = h->next;
	munmap(h->memory, h->size);
	sim_uncharge(h->dev, h->charged);
	free(h);
}

/* The process gave up its place on the card, and all charges with it. */
void sim_handles_forget(struct sim_device *d)
{
	for (struct sim_handle *h = handles; h != NULL; h = h->next)
		if (h->dev == d)
			h->charged = 0;
}

void sim_handle_unmap(struct sim_region *r)
{
	/* The addresses stay reserved. */
	mmap((void *)r->base, r->size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	unref(r->handle);
}

static CUresult check_prop(const CUmemAllocationProp *prop, struct sim_device **ret_dev)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return sim_device_of(prop->location.id, ret_dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       int option)
{
	struct sim_device *d;
	CUresult r = check_prop(prop, &d);

	if (r != CUDA_SUCCESS)
		return r;
	if (granularity == NULL || option < 0 || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SIM_CHUNK;
	return CUDA_SUCCESS;
}

static CUresult make_handle(struct sim_device *d, size_t size, const CUmemAllocationProp *prop,
			    CUmemGenericAllocationHandle *ret)
{
	struct sim_handle *h = calloc(1, sizeof(*h));
	CUresult r = h == NULL ? CUDA_ERROR_OUT_OF_MEMORY : sim_charge(d, size);

	if (r != CUDA_SUCCESS) {
		free(h);
		return r;
	}
	/* Shared, so that it can be seen at several addresses. */
	h->memory = sim_map_memory(size, SIM_CHUNK, MAP_SHARED);
	if (h->memory == NULL) {
		sim_uncharge(d, size);
		free(h);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	h->id = next_id++;
	h->size = h->charged = size;
	h->refs = h->handles = 1;
	h->dev = d;
	h->prop = *prop;
	h->next = handles;
	handles = h;
	*ret = h->id;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct sim_device *d;
	CUresult r = check_prop(prop, &d);

	if (r != CUDA_SUCCESS)
		return r;
	if (handle == NULL || size == 0 || size % SIM_CHUNK != 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_device_state(d);
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	r = make_handle(d, size, prop, handle);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle id)
{
	struct sim_handle *h;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	h = find_handle(id);
	if (h == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		h->handles--;
		unref(h);
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct sim_region *g;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)addr);
	if (handle == NULL || g == NULL || g->kind != SIM_KIND_MAPPED) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		g->handle->handles++;
		g->handle->refs++;
		*handle = g->handle->id;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle id)
{
	struct sim_handle *h;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	h = find_handle(id);
	if (h == NULL || prop == NULL)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		*prop = h->prop;
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* --- addresses --- */

static bool is_power_of_two(size_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags)
{
	struct reservation *v;
	CUresult r = sim_ready();
	void *at;

	if (r != CUDA_SUCCESS)
		return r;
	if (alignment < SIM_CHUNK)
		alignment = SIM_CHUNK;
	if (ptr == NULL || size == 0 || size % SIM_CHUNK != 0 || !is_power_of_two(alignment) ||
	    flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	v = calloc(1, sizeof(*v));
	at = v != NULL ? sim_map_memory(size, alignment, 0) : NULL;
	if (at == NULL || mprotect(at, size, PROT_NONE) < 0) {
		free(v);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&sim_big);
	*v = (struct reservation){ .base = (uintptr_t)at, .size = size, .next = reservations };
	reservations = v;
	pthread_mutex_unlock(&sim_big);
	*ptr = (uintptr_t)at;
	return CUDA_SUCCESS;
}

static struct reservation **reserved(uintptr_t at, size_t size)
{
	struct reservation **p = &reservations;

	while (*p != NULL && (at < (*p)->base || at - (*p)->base > (*p)->size ||
			      size > (*p)->size - (at - (*p)->base)))
		p = &(*p)->next;
	return p;
}

static bool any_mapped(uintptr_t at, size_t size)
{
	for (uintptr_t p = at; p < at + size; p += SIM_CHUNK)
		if (sim_region_find(p) != NULL)
			return true;
	return false;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct reservation **p, *v;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	p = reserved((uintptr_t)ptr, size);
	v = *p;
	if (v == NULL || v->base != ptr || v->size != size || any_mapped((uintptr_t)ptr, size)) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		*p = v->next;
		munmap((void *)v->base, v->size);
		free(v);
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* An old size of 0 makes mremap show shared memory at a second place. */
static CUresult map_handle(uintptr_t at, size_t size, size_t offset, struct sim_handle *h)
{
	struct sim_region *g = calloc(1, sizeof(*g));
	void *got;

	if (g == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*g = (struct sim_region){
		.base = at, .size = size, .kind = SIM_KIND_MAPPED, .dev = h->dev, .handle = h
	};
	got = mremap((char *)h->memory + offset, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED,
		     (void *)at);
	if (got == MAP_FAILED || !sim_region_add(g)) {
		free(g);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	h->refs++;
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle id,
		  unsigned long long flags)
{
	struct sim_handle *h;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (size == 0 || size % SIM_CHUNK != 0 || ptr % SIM_CHUNK != 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	h = find_handle(id);
	/* The driver maps whole handles only. */
	if (h == NULL || offset != 0 || size != h->size || *reserved((uintptr_t)ptr, size) == NULL)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (any_mapped((uintptr_t)ptr, size))
		r = CUDA_ERROR_ALREADY_MAPPED;
	else
		r = map_handle((uintptr_t)ptr, size, offset, h);
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* Do whole mappings cover exactly this range? */
static bool covers(uintptr_t at, size_t size)
{
	uintptr_t end = at + size;

	while (at < end) {
		struct sim_region *g = sim_region_find(at);

		if (g == NULL || g->kind != SIM_KIND_MAPPED || g->base != at || g->size > end - at)
			return false;
		at += g->size;
	}
	return size > 0;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult r = sim_ready();
	uintptr_t at = (uintptr_t)ptr;

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	if (!covers(at, size))
		r = CUDA_ERROR_INVALID_VALUE;
	while (r == CUDA_SUCCESS && at < ptr + size) {
		struct sim_region *g = sim_region_find(at);

		at += g->size;
		sim_region_remove(g);
		sim_handle_unmap(g);
		free(g);
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	CUresult r = sim_ready();
	uintptr_t at = (uintptr_t)ptr;

	if (r != CUDA_SUCCESS)
		return r;
	if (desc == NULL || n == 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	if (!covers(at, size))
		r = CUDA_ERROR_INVALID_VALUE;
	while (r == CUDA_SUCCESS && at < ptr + size) {
		struct sim_region *g = sim_region_find(at);

		for (size_t i = 0; i < n; i++)
			if (desc[i].location.id == sim_device_number(g->dev))
				g->accessible = desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
		at += g->size;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	struct sim_region *g;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)ptr);
	if (flags == NULL || location == NULL || g == NULL || g->kind != SIM_KIND_MAPPED)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		*flags = g->accessible && location->id == sim_device_number(g->dev)
				 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	pthread_mutex_unlock(&sim_big);
	return r;
}
