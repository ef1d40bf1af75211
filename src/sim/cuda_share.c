/* Shares as this process holds them: one object per share, however many regions and handles show
 * it. The bytes are those of the card's file. Under sim_big. */
#include "sim/cuda_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sim_held *all;

struct sim_held *sim_held_find(struct sim_device *d, uint64_t id)
{
	for (struct sim_held *h = all; h != NULL; h = h->next)
		if (h->dev == d && h->id == id)
			return h;
	return NULL;
}

static struct sim_held *add(struct sim_device *d, const struct sim_share *s)
{
	struct sim_held *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	*h = (struct sim_held){
		.dev = d, .id = s->id, .offset = s->offset, .size = s->bytes, .refs = 1, .next = all
	};
	all = h;
	return h;
}

CUresult sim_held_new(struct sim_device *d, size_t bytes, bool paid, struct sim_held **ret)
{
	struct sim_share *s;

	if (d->proc < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!sim_lock(d->card))
		return CUDA_ERROR_OPERATING_SYSTEM;
	s = sim_share_new(d->card, d->proc, d->part, bytes, paid);
	*ret = s != NULL ? add(d, s) : NULL;
	if (*ret != NULL)
		(*ret)->own = true;
	if (s != NULL && *ret == NULL)
		sim_share_drop(d->card, s, d->proc);
	sim_unlock(d->card);
	return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Under the card's lock. */
static CUresult take(struct sim_device *d, uint64_t id, struct sim_held **ret)
{
	struct sim_share *s;

	sim_reap(d->card);
	s = sim_share_find(d->card, id);
	/* An instance's memory is not to be had from another. */
	if (s == NULL || s->part != d->part)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = add(d, s);
	if (*ret == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_share_hold(s, d->proc);
	return CUDA_SUCCESS;
}

CUresult sim_held_take(struct sim_device *d, uint64_t id, struct sim_held **ret)
{
	CUresult r;

	if (d->proc < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret = sim_held_find(d, id);
	if (*ret != NULL) {
		(*ret)->refs++;
		return CUDA_SUCCESS;
	}
	if (!sim_lock(d->card))
		return CUDA_ERROR_OPERATING_SYSTEM;
	r = take(d, id, ret);
	sim_unlock(d->card);
	return r;
}

void sim_held_put(struct sim_held *h)
{
	struct sim_held **p = &all;

	if (--h->refs > 0)
		return;
	while (*p != h)
		p = &(*p)->next;
	*p = h->next;
	if (h->id != 0 && h->dev->proc >= 0 && sim_lock(h->dev->card)) {
		struct sim_share *s = sim_share_find(h->dev->card, h->id);

		if (s != NULL)
			sim_share_drop(h->dev->card, s, h->dev->proc);
		sim_unlock(h->dev->card);
	}
	free(h);
}

void sim_held_forget(struct sim_device *d)
{
	for (struct sim_held *h = all; h != NULL; h = h->next)
		if (h->dev == d)
			h->id = 0;
}

void *sim_held_map(struct sim_held *h, void *at)
{
	bool anywhere = at == NULL;
	void *p;

	if (anywhere)
		at = sim_map_memory(h->size, SIM_CHUNK, 0);
	if (at == NULL)
		return NULL;
	p = mmap(at, h->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, h->dev->card->fd,
		 (off_t)h->offset);
	if (p != MAP_FAILED)
		return p;
	if (anywhere)
		munmap(at, h->size);
	return NULL;
}

/* Writes those pages that were ever touched: a large region is mostly holes. */
static bool save(const struct sim_region *r, int fd, uint64_t offset)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char in[SIM_CHUNK / 4096];

	for (size_t at = 0; at < r->charged; at += page) {
		size_t i = at % SIM_CHUNK / page;

		if (i == 0 && mincore((char *)r->base + at, SIM_CHUNK, in) < 0)
			memset(in, 1, sizeof(in));
		if ((in[i] & 1) != 0 &&
		    pwrite(fd, (char *)r->base + at, page, (off_t)(offset + at)) != (ssize_t)page)
			return false;
	}
	return true;
}

CUresult sim_region_share(struct sim_region *r)
{
	struct sim_held *h = NULL;
	CUresult e;

	if (r->held != NULL)
		return CUDA_SUCCESS;
	e = sim_held_new(r->dev, r->charged, true, &h);
	if (e != CUDA_SUCCESS)
		return e;
	if (save(r, r->dev->card->fd, h->offset) && sim_held_map(h, (void *)r->base) != NULL) {
		r->held = h;
		return CUDA_SUCCESS;
	}
	/* It stays the process's own, and is charged as that again. */
	sim_held_put(h);
	(void)sim_charge(r->dev, r->charged);
	return CUDA_ERROR_OUT_OF_MEMORY;
}
