/* Virtual memory management: physical handles, reserved addresses, and the mapping of one on the
 * other. A handle is charged when it is created and given back when it was released and its last
 * mapping is gone, as on a real card. */
#include "sim/cuda_token.h"

#include <stdlib.h>
#include <sys/mman.h>

/* A multicast object is a handle too: memory of its own that costs nothing, and the bound memory,
 * which it keeps alive. */
struct binding {
	size_t at, size;
	CUdevice dev;
	struct sim_handle *mem;
	struct binding *next;
};

struct sim_handle {
	uint64_t id;
	void *memory;	       /* the process's own */
	struct sim_held *held; /* or a share, if it may be exported */
	bool multicast;
	unsigned devices, joined;
	struct binding *bindings;
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
	if (h->held != NULL)
		sim_held_put(h->held);
	else
		munmap(h->memory, h->size);
	if (h->charged > 0)
		sim_uncharge(h->dev, h->charged);
	while (h->bindings != NULL) {
		struct binding *b = h->bindings;

		h->bindings = b->next;
		unref(b->mem);
		free(b);
	}
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
	    (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
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

static CUmemGenericAllocationHandle add_handle(struct sim_handle *h)
{
	h->id = next_id++;
	h->refs = h->handles = 1;
	h->next = handles;
	handles = h;
	return h->id;
}

/* Memory that only this process will see: shared, so that it can be seen at several addresses. */
static CUresult own_memory(struct sim_handle *h, size_t charge)
{
	CUresult r = charge > 0 ? sim_charge(h->dev, charge) : CUDA_SUCCESS;

	if (r != CUDA_SUCCESS)
		return r;
	h->memory = sim_map_memory(h->size, SIM_CHUNK, MAP_SHARED);
	if (h->memory != NULL) {
		h->charged = charge;
		return CUDA_SUCCESS;
	}
	if (charge > 0)
		sim_uncharge(h->dev, charge);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult make_handle(struct sim_device *d, size_t size, const CUmemAllocationProp *prop,
			    CUmemGenericAllocationHandle *ret)
{
	struct sim_handle *h = calloc(1, sizeof(*h));
	CUresult r;

	if (h == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h->dev = d;
	h->size = size;
	h->prop = *prop;
	if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
		r = sim_held_new(d, size, false, &h->held);
	else
		r = own_memory(h, size);
	if (r == CUDA_SUCCESS)
		*ret = add_handle(h);
	else
		free(h);
	return r;
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
static CUresult map_handle(uintptr_t at, size_t size, struct sim_handle *h)
{
	struct sim_region *g = calloc(1, sizeof(*g));
	void *got;

	if (g == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*g = (struct sim_region){
		.base = at, .size = size, .kind = SIM_KIND_MAPPED, .dev = h->dev, .handle = h
	};
	if (h->held != NULL)
		got = sim_held_map(h->held, (void *)at);
	else
		got = mremap(h->memory, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at);
	if (got == NULL || got == MAP_FAILED || !sim_region_add(g)) {
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
		r = map_handle((uintptr_t)ptr, size, h);
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

/* --- from process to process --- */

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle id, int type,
				      unsigned long long flags)
{
	struct sim_handle *h;
	CUresult r = sim_ready();
	int fd = -1;

	if (r != CUDA_SUCCESS)
		return r;
	if (shareable == NULL || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	h = find_handle(id);
	if (h == NULL || h->held == NULL)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		fd = sim_token_make(SIM_TOKEN_MEMORY, h->dev, h->held->id, h->size, &h->prop);
	pthread_mutex_unlock(&sim_big);
	if (r != CUDA_SUCCESS)
		return r;
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareable = fd;
	return CUDA_SUCCESS;
}

/* Under sim_big. */
static CUresult import(struct sim_device *d, const struct sim_token *t,
		       CUmemGenericAllocationHandle *ret)
{
	struct sim_handle *h = calloc(1, sizeof(*h));
	CUresult r;

	if (h == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sim_held_take(d, t->id, &h->held);
	if (r != CUDA_SUCCESS) {
		free(h);
		return r;
	}
	h->dev = d;
	h->size = h->held->size;
	h->prop = t->prop;
	h->prop.location.id = sim_device_number(d);
	*ret = add_handle(h);
	return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
					int type)
{
	struct sim_device *d;
	struct sim_token t;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (handle == NULL || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !sim_token_read((int)(intptr_t)shareable, SIM_TOKEN_MEMORY, &t, &d))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	r = import(d, &t, handle);
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* --- multicast: the books only --- */

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
				   int option)
{
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (granularity == NULL || prop == NULL || option < 0 || option > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SIM_CHUNK;
	return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *prop)
{
	struct sim_device *d;
	struct sim_handle *h;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (handle == NULL || prop == NULL || prop->numDevices == 0 || prop->size == 0 ||
	    prop->size % SIM_CHUNK != 0 || !sim_device_of(0, &d))
		return CUDA_ERROR_INVALID_VALUE;
	h = calloc(1, sizeof(*h));
	if (h == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*h = (struct sim_handle){
		.multicast = true, .devices = prop->numDevices, .size = prop->size, .dev = d
	};
	pthread_mutex_lock(&sim_big);
	r = own_memory(h, 0);
	if (r == CUDA_SUCCESS)
		*handle = add_handle(h);
	pthread_mutex_unlock(&sim_big);
	if (r != CUDA_SUCCESS)
		free(h);
	return r;
}

static struct sim_handle *find_multicast(CUmemGenericAllocationHandle id)
{
	struct sim_handle *h = find_handle(id);

	return h != NULL && h->multicast ? h : NULL;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice dev)
{
	struct sim_device *d;
	struct sim_handle *h;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!sim_device_of(dev, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&sim_big);
	h = find_multicast(handle);
	if (h == NULL || h->joined == h->devices)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		h->joined++;
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* Under sim_big. Nothing can be bound before all devices were added. */
static CUresult bind(struct sim_handle *h, size_t at, struct sim_handle *mem, size_t size)
{
	struct binding *b;

	if (h == NULL || mem == NULL || mem->multicast || at > h->size || size == 0 ||
	    size > h->size - at || at % SIM_CHUNK != 0 || size % SIM_CHUNK != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (h->joined < h->devices)
		return CUDA_ERROR_ILLEGAL_STATE;
	b = calloc(1, sizeof(*b));
	if (b == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*b = (struct binding){
		.at = at, .size = size, .dev = sim_device_number(mem->dev), .mem = mem
	};
	b->next = h->bindings;
	h->bindings = b;
	mem->refs++;
	return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
			    CUmemGenericAllocationHandle mem, size_t mem_offset, size_t size,
			    unsigned long long flags)
{
	struct sim_handle *m;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	m = find_handle(mem);
	if (flags != 0 || m == NULL || mem_offset > m->size || size > m->size - mem_offset)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		r = bind(find_multicast(handle), offset, m, size);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr mem,
			     size_t size, unsigned long long flags)
{
	struct sim_region *g;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	g = sim_region_find((uintptr_t)mem);
	if (flags != 0 || g == NULL || g->kind != SIM_KIND_MAPPED ||
	    size > g->size - (mem - g->base))
		r = CUDA_ERROR_INVALID_VALUE;
	else
		r = bind(find_multicast(handle), offset, g->handle, size);
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice dev, size_t offset,
			   size_t size)
{
	struct binding **p, *b = NULL;
	struct sim_handle *h;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	h = find_multicast(handle);
	for (p = h != NULL ? &h->bindings : &b; *p != NULL; p = &(*p)->next)
		if ((*p)->dev == dev && (*p)->at == offset && (*p)->size == size)
			break;
	b = *p;
	if (b != NULL) {
		*p = b->next;
		unref(b->mem);
		free(b);
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}
