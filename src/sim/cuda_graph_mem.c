/* Memory of graphs: what allocation nodes get. The device keeps what graphs have freed, for the next
 * launch of any of them, until cuDeviceGraphMemTrim. */
#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <sys/mman.h>

CUresult sim_graph_alloc_new(struct sim_device *d, size_t bytes, struct sim_graph_alloc **ret)
{
	size_t room = (bytes + SIM_CHUNK - 1) & ~(SIM_CHUNK - 1);
	struct sim_graph_alloc *a;
	struct sim_region *r;

	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (room < bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a = calloc(1, sizeof(*a));
	r = calloc(1, sizeof(*r));
	if (a == NULL || r == NULL) {
		free(a);
		free(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*a = (struct sim_graph_alloc){ .dev = d, .region = r, .bytes = bytes, .refs = 1 };
	*r = (struct sim_region){
		.size = bytes, .charged = room, .kind = SIM_KIND_GRAPH, .dev = d, .graph = a
	};
	r->base = (uintptr_t)sim_map_memory(room, SIM_CHUNK, 0);
	if (r->base == 0 || !sim_region_add(r)) {
		if (r->base != 0)
			munmap((void *)r->base, room);
		free(a);
		free(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = a;
	return CUDA_SUCCESS;
}

void sim_graph_alloc_put(struct sim_graph_alloc *a)
{
	if (--a->refs > 0)
		return;
	sim_region_release(a->region);
	free(a);
}

static void reserve(struct sim_device *d, uint64_t bytes)
{
	d->graph_reserved += bytes;
	if (d->graph_reserved > d->graph_reserved_high)
		d->graph_reserved_high = d->graph_reserved;
}

CUresult sim_graph_reserve(struct sim_device *d, uint64_t more)
{
	uint64_t kept = d->graph_reserved - d->graph_used;
	CUresult r;

	if (more <= kept)
		return CUDA_SUCCESS;
	r = sim_charge(d, more - kept);
	if (r == CUDA_SUCCESS)
		reserve(d, more - kept);
	return r;
}

/* Room was made before. */
void sim_graph_alloc_on(struct sim_graph_alloc *a)
{
	struct sim_device *d = a->dev;

	a->live = a->region->accessible = true;
	a->refs++;
	d->graph_used += a->region->charged;
	if (d->graph_used > d->graph_used_high)
		d->graph_used_high = d->graph_used;
}

void sim_graph_alloc_off(struct sim_graph_alloc *a)
{
	a->live = a->region->accessible = false;
	a->dev->graph_used -= a->region->charged;
	sim_graph_alloc_put(a);
}

CUresult sim_graph_free(struct sim_region *r, uintptr_t at)
{
	if (r->base != at || !r->graph->live)
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_alloc_off(r->graph);
	return CUDA_SUCCESS;
}

/* The process gave up its place on the card, and all charges with it. */
void sim_graphs_forget(struct sim_device *d)
{
	d->graph_reserved = d->graph_used;
}

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
	struct sim_device *d;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!sim_device_of(dev, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&sim_big);
	if (d->graph_reserved > d->graph_used) {
		sim_uncharge(d, d->graph_reserved - d->graph_used);
		d->graph_reserved = d->graph_used;
	}
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

static uint64_t *attribute_of(struct sim_device *d, int attribute)
{
	switch (attribute) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		return &d->graph_used;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		return &d->graph_used_high;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		return &d->graph_reserved;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		return &d->graph_reserved_high;
	default:
		return NULL;
	}
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, int attribute, void *value)
{
	struct sim_device *d;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!sim_device_of(dev, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (value == NULL || attribute_of(d, attribute) == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	*(cuuint64_t *)value = *attribute_of(d, attribute);
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}

/* Only the high marks can be set, and only back to what is. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, int attribute, void *value)
{
	struct sim_device *d;
	CUresult r = sim_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!sim_device_of(dev, &d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (value == NULL || *(cuuint64_t *)value != 0 ||
	    (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
	     attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_big);
	*attribute_of(d, attribute) = *attribute_of(d, attribute - 1);
	pthread_mutex_unlock(&sim_big);
	return CUDA_SUCCESS;
}
