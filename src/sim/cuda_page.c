/* Where allocations lie, as measured on an H200: a context cuts pages of 2 MiB into granules of 512
 * bytes; pieces of any size share a page, and none crosses into the next. What is larger, or fits
 * into no hole, starts on pages of its own, and the rest of its last page is a hole like any other.
 *
 * So a large allocation is two regions side by side, its body of whole pages and a page with its
 * tail: freeing it gives the body back, and the page when the last piece in it is gone. */
#include "sim/cuda_priv.h"

#include <stdlib.h>

#define GRANULE 512
#define UNITS ((unsigned)(SIM_CHUNK / GRANULE))
#define WORDS (UNITS / 64)

struct sim_page {
	uint64_t used[WORDS], starts[WORDS]; /* by granule; a tail has no start here */
	unsigned n_used;
	unsigned room; /* no hole is larger, all may be smaller; 0: in no list */
	struct sim_heap *heap;
	struct sim_region *body; /* whose tail is at the page's beginning */
	struct sim_region *prev, *next;
};

/* The pages of one heap by their room, and a bit for each list that has any. */
struct sim_heap {
	struct sim_region *lists[UNITS];
	uint64_t any[WORDS];
};

/* --- bits --- */

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static unsigned most(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

static bool is_set(const uint64_t *bits, unsigned at)
{
	return (bits[at / 64] >> (at % 64) & 1) != 0;
}

/* The first bit from `at` up to `end` that is set, or with inverted bits clear; else `end`. */
static unsigned next_bit(const uint64_t *bits, unsigned at, unsigned end, uint64_t invert)
{
	uint64_t mask = UINT64_MAX << (at % 64);

	for (unsigned w = at / 64; w * 64 < end; w++, mask = UINT64_MAX) {
		uint64_t word = (bits[w] ^ invert) & mask;

		if (word != 0)
			return least(w * 64 + (unsigned)__builtin_ctzl(word), end);
	}
	return end;
}

static unsigned next_set(const uint64_t *bits, unsigned at)
{
	return next_bit(bits, at, UNITS, 0);
}

static unsigned next_clear(const uint64_t *bits, unsigned at)
{
	return next_bit(bits, at, UNITS, UINT64_MAX);
}

/* The last set bit up to `at`, -1 if there is none. */
static int last_set(const uint64_t *bits, unsigned at)
{
	uint64_t mask = UINT64_MAX >> (63 - at % 64);

	for (int w = (int)(at / 64); w >= 0; w--, mask = UINT64_MAX)
		if ((bits[w] & mask) != 0)
			return w * 64 + 63 - __builtin_clzl(bits[w] & mask);
	return -1;
}

static void flip(uint64_t *bits, unsigned at, unsigned n)
{
	while (n > 0) {
		unsigned here = least(64 - at % 64, n);

		bits[at / 64] ^= UINT64_MAX >> (64 - here) << (at % 64);
		at += here;
		n -= here;
	}
}

/* --- the lists of a heap --- */

static struct sim_heap *heap_of(struct CUctx_st *ctx, enum sim_heap_kind kind)
{
	if (ctx->heaps[kind] == NULL)
		ctx->heaps[kind] = calloc(1, sizeof(*ctx->heaps[kind]));
	return ctx->heaps[kind];
}

void sim_heaps_drop(struct CUctx_st *ctx)
{
	for (int i = 0; i < SIM_HEAPS; i++) {
		free(ctx->heaps[i]);
		ctx->heaps[i] = NULL;
	}
}

static void unlist(struct sim_region *r)
{
	struct sim_page *p = r->page;
	struct sim_heap *h = p->heap;

	if (p->room == 0)
		return;
	if (p->prev != NULL)
		p->prev->page->next = p->next;
	else
		h->lists[p->room] = p->next;
	if (p->next != NULL)
		p->next->page->prev = p->prev;
	if (h->lists[p->room] == NULL)
		h->any[p->room / 64] &= ~(1ULL << (p->room % 64));
	p->room = 0;
}

static void list(struct sim_region *r, unsigned room)
{
	struct sim_page *p = r->page;
	struct sim_heap *h = p->heap;

	if (p->room == room)
		return;
	unlist(r);
	p->room = room;
	if (room == 0)
		return;
	p->prev = NULL;
	p->next = h->lists[room];
	if (p->next != NULL)
		p->next->page->prev = r;
	h->lists[room] = r;
	h->any[room / 64] |= 1ULL << (room % 64);
}

/* --- pieces of a page --- */

/* The first hole of n granules; if there is none, how large the largest is. */
static bool find_hole(const struct sim_page *p, unsigned n, unsigned *ret_at, unsigned *ret_largest)
{
	unsigned at, end, largest = 0;

	for (at = next_clear(p->used, 0); at < UNITS; at = next_clear(p->used, end)) {
		end = next_bit(p->used, at, least(at + n, UNITS), 0);
		if (end - at >= n) {
			*ret_at = at;
			return true;
		}
		largest = most(largest, end - at);
	}
	*ret_largest = largest;
	return false;
}

/* A page with a hole of n granules. Rooms are measured only when they mislead: a look in vain
 * corrects one, and it takes another allocation or free in that page to make it wrong again. */
static struct sim_region *find_page(const struct sim_heap *h, unsigned n, unsigned *ret_at)
{
	unsigned room, largest = 0;

	while ((room = next_set(h->any, n)) < UNITS) {
		struct sim_region *r = h->lists[room];

		if (find_hole(r->page, n, ret_at, &largest))
			return r;
		list(r, largest);
	}
	return NULL;
}

static void take(struct sim_page *p, unsigned at, unsigned n)
{
	flip(p->used, at, n);
	p->n_used += n;
}

static unsigned hole_around(const struct sim_page *p, unsigned at)
{
	return next_set(p->used, at) - (unsigned)(last_set(p->used, at) + 1);
}

static void give(struct sim_region *r, unsigned at, unsigned n)
{
	struct sim_page *p = r->page;

	flip(p->used, at, n);
	p->n_used -= n;
	if (p->n_used == 0) {
		unlist(r);
		sim_region_release(r);
		return;
	}
	if (p->room < UNITS - p->n_used)
		list(r, most(p->room, hole_around(p, at)));
}

/* Granules of the piece that begins at `at`. */
static unsigned length(const struct sim_page *p, unsigned at)
{
	unsigned end = next_clear(p->used, at);

	return next_bit(p->starts, at + 1, end, 0) - at;
}

bool sim_page_part(const struct sim_region *r, uintptr_t at, uintptr_t *ret_base, size_t *ret_size)
{
	const struct sim_page *p = r->page;
	unsigned unit = (unsigned)((at - r->base) / GRANULE);
	int start = last_set(p->starts, unit);

	if (!is_set(p->used, unit))
		return false;
	if (start < 0) {
		*ret_base = p->body->base;
		*ret_size = p->body->size;
		return true;
	}
	*ret_base = r->base + (uintptr_t)start * GRANULE;
	*ret_size = (size_t)length(p, (unsigned)start) * GRANULE;
	return true;
}

/* --- allocation; under sim_big --- */

static bool make_page(struct sim_region *r, struct sim_heap *heap)
{
	r->page = calloc(1, sizeof(*r->page));
	if (r->page == NULL)
		return false;
	r->page->heap = heap;
	return true;
}

static CUresult alloc_on_new_page(struct CUctx_st *ctx, struct sim_heap *h, unsigned n,
				  CUdeviceptr *ret)
{
	struct sim_region *r = NULL;
	CUresult e = sim_region_new(ctx->dev, ctx, SIM_CHUNK, SIM_KIND_PAGE, false, &r);

	if (e != CUDA_SUCCESS)
		return e;
	if (!make_page(r, h)) {
		sim_region_release(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	take(r->page, 0, n);
	flip(r->page->starts, 0, 1);
	list(r, UNITS - n);
	*ret = r->base;
	return CUDA_SUCCESS;
}

static CUresult alloc_small(struct CUctx_st *ctx, struct sim_heap *h, unsigned n, CUdeviceptr *ret)
{
	unsigned at = 0;
	struct sim_region *r = find_page(h, n, &at);

	if (r == NULL)
		return alloc_on_new_page(ctx, h, n, ret);
	take(r->page, at, n);
	flip(r->page->starts, at, 1);
	if (r->page->n_used == UNITS)
		list(r, 0);
	*ret = r->base + (uintptr_t)at * GRANULE;
	return CUDA_SUCCESS;
}

/* Makes the last page of a region one that others may share. */
static bool cut_tail(struct sim_region *r, struct sim_heap *h, unsigned n)
{
	struct sim_region *tail = calloc(1, sizeof(*tail));

	if (tail == NULL)
		return false;
	*tail = (struct sim_region){ .base = r->base + r->charged - SIM_CHUNK,
				     .size = SIM_CHUNK,
				     .charged = SIM_CHUNK,
				     .kind = SIM_KIND_PAGE,
				     .dev = r->dev,
				     .ctx = r->ctx };
	if (!make_page(tail, h) || !sim_region_add(tail)) {
		free(tail->page);
		free(tail);
		return false;
	}
	r->charged -= SIM_CHUNK;
	r->tail = tail;
	tail->page->body = r;
	take(tail->page, 0, n);
	list(tail, UNITS - n);
	return true;
}

static unsigned tail_units(size_t bytes)
{
	return (unsigned)((bytes % SIM_CHUNK + GRANULE - 1) / GRANULE) % UNITS;
}

static CUresult alloc_large(struct CUctx_st *ctx, struct sim_heap *h, size_t bytes,
			    CUdeviceptr *ret)
{
	unsigned n = tail_units(bytes);
	struct sim_region *r = NULL;
	CUresult e = sim_region_new(ctx->dev, ctx, bytes, SIM_KIND_DEVICE, false, &r);

	if (e != CUDA_SUCCESS)
		return e;
	if (n > 0 && !cut_tail(r, h, n)) {
		sim_region_release(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = r->base;
	return CUDA_SUCCESS;
}

CUresult sim_alloc(struct CUctx_st *ctx, size_t bytes, enum sim_heap_kind kind, CUdeviceptr *ret)
{
	struct sim_heap *h = heap_of(ctx, kind);

	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (h == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes > SIM_CHUNK - GRANULE)
		return alloc_large(ctx, h, bytes, ret);
	return alloc_small(ctx, h, (unsigned)((bytes + GRANULE - 1) / GRANULE), ret);
}

void sim_large_free(struct sim_region *r)
{
	if (r->tail != NULL) {
		r->tail->page->body = NULL;
		give(r->tail, 0, tail_units(r->size));
	}
	sim_region_release(r);
}

CUresult sim_page_free(struct sim_region *r, uintptr_t at)
{
	unsigned unit = (unsigned)((at - r->base) / GRANULE), n;

	if ((at - r->base) % GRANULE != 0 || !is_set(r->page->starts, unit))
		return CUDA_ERROR_INVALID_VALUE;
	n = length(r->page, unit);
	flip(r->page->starts, unit, 1);
	give(r, unit, n);
	return CUDA_SUCCESS;
}
