/* What lies where: the address ranges this process got from the driver, sorted by address. A device
 * pointer is the address of the memory that stands for it, so copies are plain copies; pages come
 * into being when they are touched. */
#include "sim/cuda_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct sim_region **regions;
static size_t n_regions, cap_regions;

/* Index of the first region that begins behind `at`. */
static size_t after(uintptr_t at)
{
	size_t low = 0, high = n_regions;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (regions[mid]->base <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct sim_region *sim_region_find(uintptr_t at)
{
	size_t i = after(at);
	struct sim_region *r = i > 0 ? regions[i - 1] : NULL;

	return r != NULL && at - r->base < r->size ? r : NULL;
}

bool sim_region_add(struct sim_region *r)
{
	size_t i = after(r->base);

	if (n_regions == cap_regions) {
		size_t cap = cap_regions > 0 ? cap_regions * 2 : 64;
		struct sim_region **more = realloc(regions, cap * sizeof(*more));

		if (more == NULL)
			return false;
		regions = more;
		cap_regions = cap;
	}
	memmove(&regions[i + 1], &regions[i], (n_regions - i) * sizeof(*regions));
	regions[i] = r;
	n_regions++;
	return true;
}

void sim_region_remove(struct sim_region *r)
{
	size_t i = after(r->base) - 1;

	memmove(&regions[i], &regions[i + 1], (n_regions - i - 1) * sizeof(*regions));
	n_regions--;
}

struct sim_region *sim_region_of_ctx(const struct CUctx_st *ctx)
{
	for (size_t i = n_regions; i > 0; i--)
		if (regions[i - 1]->ctx == ctx)
			return regions[i - 1];
	return NULL;
}

void *sim_map_memory(size_t size, size_t alignment, int extra_flags)
{
	size_t room = size + alignment;
	char *p, *start;

	if (room < size)
		return NULL;
	p = mmap(NULL, room, PROT_READ | PROT_WRITE,
		 MAP_ANONYMOUS | MAP_NORESERVE | (extra_flags != 0 ? extra_flags : MAP_PRIVATE), -1,
		 0);
	if (p == MAP_FAILED)
		return NULL;
	start = (char *)(((uintptr_t)p + alignment - 1) & ~(uintptr_t)(alignment - 1));
	if (start > p)
		munmap(p, (size_t)(start - p));
	if (p + room > start + size)
		munmap(start + size, (size_t)(p + room - (start + size)));
	return start;
}

static bool cut_part(const struct sim_region *r, uintptr_t at, uintptr_t *ret_base,
		     size_t *ret_size)
{
	for (const struct sim_cut *c = r->cuts; c != NULL && c->at <= at - r->base; c = c->next) {
		if (at - r->base - c->at >= c->size)
			continue;
		*ret_base = r->base + c->at;
		*ret_size = c->size;
		return true;
	}
	return false;
}

bool sim_region_part(const struct sim_region *r, uintptr_t at, uintptr_t *ret_base,
		     size_t *ret_size)
{
	if (r->kind == SIM_KIND_POOL)
		return cut_part(r, at, ret_base, ret_size);
	if (r->kind == SIM_KIND_PAGE)
		return sim_page_part(r, at, ret_base, ret_size);
	*ret_base = r->base;
	*ret_size = r->size;
	return true;
}

/* Adjacent mappings of cuMemMap count as one range. */
static bool mapped_range(const struct sim_region *r, uintptr_t at, size_t n)
{
	while (r != NULL && r->kind == SIM_KIND_MAPPED && r->accessible) {
		size_t here = r->size - (at - r->base);

		if (n <= here)
			return true;
		at += here;
		n -= here;
		r = sim_region_find(at);
	}
	return false;
}

bool sim_device_range(uintptr_t at, size_t n, struct sim_device **ret_dev)
{
	const struct sim_region *r = sim_region_find(at);
	uintptr_t base = 0;
	size_t size = 0;

	if (r == NULL)
		return false;
	*ret_dev = r->dev;
	if (r->kind == SIM_KIND_MAPPED)
		return mapped_range(r, at, n);
	if (r->kind == SIM_KIND_GRAPH && !r->accessible)
		return false;
	return sim_region_part(r, at, &base, &size) && at - base < size && n <= size - (at - base);
}
