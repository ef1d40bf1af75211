/* Plain allocations. The driver packs them into pages of 2 MiB wherever one has room, also behind the end of a large one,
 * and a page stays on the card until the last allocation that covers some of it is freed, however small. So it is pages
 * that are charged: those an allocation has to itself with it, the ones at its ends once for all that lie in them. Which
 * they are is known only when it is made: whole pages are reserved for it, and what was charged already is given back. */
#include <sched.h>

#include "fence/fence.h"

#define PAGE RF_PAGE
#define TRIES 4
#define PATIENCE_NS 1000000

enum { END_FIRST = 1, END_LAST = 2 };

static uint64_t page_of(uint64_t address)
{
	return address & ~(PAGE - 1);
}

/* A page belongs to one context; the address leaves room to say which. */
static uint64_t name_of(uint64_t page, uint64_t owner)
{
	return page ^ (owner >> 4 & (PAGE - 1));
}

/* Whether other threads have given pages back since, or did while this one waited for it. */
static bool others_gave_way(struct rf_fence *f, unsigned since)
{
	int64_t end = rf_clock_ns() + PATIENCE_NS;

	while (__atomic_load_n(&f->paged, __ATOMIC_ACQUIRE) == since) {
		if (__atomic_load_n(&f->paging, __ATOMIC_RELAXED) == 0 || rf_clock_ns() > end)
			return __atomic_load_n(&f->paged, __ATOMIC_ACQUIRE) != since;
		sched_yield();
	}
	return true;
}

/* A page that was reserved is given back, or has its place in the table. */
static void page_is_settled(struct rf_fence *f)
{
	__atomic_add_fetch(&f->paged, 1, __ATOMIC_RELEASE);
	__atomic_sub_fetch(&f->paging, 1, __ATOMIC_RELEASE);
}

static CUresult begin_paged(struct rf_charge *c, uint64_t bytes)
{
	struct rf_fence *f = rf_join();
	CUresult r = CUDA_ERROR_NOT_PERMITTED;

	for (int i = 0; f && i < TRIES; i++) {
		unsigned since = __atomic_load_n(&f->paged, __ATOMIC_ACQUIRE);

		__atomic_add_fetch(&f->paging, 1, __ATOMIC_RELAXED);
		r = rf_charge_begin(c, bytes);
		if (r == CUDA_SUCCESS && !rf_table_room(&f->table))
			r = rf_charge_undo(c, CUDA_ERROR_OUT_OF_MEMORY);
		if (r == CUDA_SUCCESS)
			break;
		__atomic_sub_fetch(&f->paging, 1, __ATOMIC_RELAXED);
		if (r != CUDA_ERROR_OUT_OF_MEMORY || !others_gave_way(f, since))
			break;
	}
	return r;
}

CUresult rf_plain_begin(struct rf_charge *c, uint64_t bytes)
{
	struct rf_fence *f = rf_join();
	bool paged = bytes % PAGE != 0;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	rf_move_begin(f);
	r = paged ? begin_paged(c, rf_whole_pages(bytes)) : rf_charge_begin(c, bytes);
	if (r == CUDA_SUCCESS)
		c->paged = paged;
	else
		rf_move_end(f);
	return r;
}

static void release_on(struct rf_fence *f, unsigned card, uint32_t cards, uint64_t bytes)
{
	rf_release(f, card, bytes);
	for (; cards; cards &= cards - 1)
		rf_release(f, (unsigned)__builtin_ctz(cards), bytes);
}

CUresult rf_plain_undo(struct rf_charge *c, uint32_t cards, CUresult r)
{
	release_on(c->fence, c->card, cards, c->bytes);
	rf_table_waive(&c->fence->table);
	if (c->paged) {
		rf_table_waive(&c->fence->table);
		page_is_settled(c->fence);
	}
	rf_move_end(c->fence);
	return r;
}

/* The same on all cards, or on none. */
static CUresult reserve_on(struct rf_fence *f, unsigned card, uint32_t cards, uint64_t bytes)
{
	CUresult r = rf_reserve_or_squeeze(f, card, bytes);

	for (uint32_t todo = cards; r == CUDA_SUCCESS && todo; todo &= todo - 1) {
		r = rf_reserve_or_squeeze(f, (unsigned)__builtin_ctz(todo), bytes);
		if (r != CUDA_SUCCESS)
			release_on(f, card, cards & ((todo & -todo) - 1), bytes);
	}
	return r;
}

/* Brings the reservation to what the allocation turned out to take. */
static CUresult fit(struct rf_charge *c, uint32_t cards, uint64_t bytes)
{
	if (bytes > c->bytes && reserve_on(c->fence, c->card, cards, bytes - c->bytes) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes < c->bytes)
		release_on(c->fence, c->card, cards, c->bytes - bytes);
	c->bytes = bytes;
	return CUDA_SUCCESS;
}

/* What of it are pages of its own, and which ends lie in pages that others may share. */
static void lay(struct rf_entry *e, uint64_t ptr, uint64_t bytes)
{
	uint64_t end = ptr + bytes, from = page_of(ptr + PAGE - 1), to = page_of(end);

	e->key = ptr;
	e->bytes = to > from ? to - from : 0;
	if (ptr != from)
		e->ends |= END_FIRST;
	if (end != to && to >= from)
		e->ends |= END_LAST;
}

static uint64_t first_page(const struct rf_entry *e)
{
	return page_of(e->key);
}

static uint64_t last_page(const struct rf_entry *e)
{
	return page_of(e->key + PAGE - 1) + e->bytes;
}

static unsigned shared_pages(const struct rf_entry *e)
{
	return (unsigned)__builtin_popcount(e->ends);
}

static void join_page(struct rf_charge *c, const struct rf_entry *e, uint64_t page)
{
	struct rf_entry p = *e;

	p.key = name_of(page, e->owner);
	p.bytes = PAGE;
	p.space = RF_SPACE_PAGE;
	p.ends = 0;
	if (rf_table_put_or_again(&c->fence->table, &p))
		release_on(c->fence, c->card, e->maps, PAGE);
}

/* Of the room for two entries that was promised. */
static bool room_for(struct rf_charge *c, unsigned shared)
{
	unsigned have = c->paged, want = shared;

	for (; have < want && rf_table_room(&c->fence->table); have++)
		;
	for (unsigned i = have < want ? c->paged : want; i < have; i++)
		rf_table_waive(&c->fence->table);
	return have >= want;
}

static CUresult keep(struct rf_charge *c, struct rf_entry *e)
{
	unsigned shared = shared_pages(e);

	if (fit(c, e->maps, e->bytes + shared * PAGE) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!room_for(c, shared))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rf_charge_enter(c->fence, e);
	if (e->ends & END_FIRST)
		join_page(c, e, first_page(e));
	if (e->ends & END_LAST)
		join_page(c, e, last_page(e));
	if (c->paged)
		page_is_settled(c->fence);
	rf_move_end(c->fence);
	return CUDA_SUCCESS;
}

CUresult rf_plain_end(struct rf_charge *c, uint32_t cards, CUresult r, CUdeviceptr ptr, uint64_t bytes)
{
	struct rf_entry e = { .owner = c->owner,
			      .refs = 1,
			      .maps = cards,
			      .space = RF_SPACE_POINTER,
			      .card = (uint8_t)c->card };

	if (r == CUDA_SUCCESS) {
		lay(&e, ptr, bytes);
		r = keep(c, &e);
		if (r == CUDA_SUCCESS)
			return r;
		RF_REAL(cuMemFree_v2)(e.key);
	}
	return rf_plain_undo(c, cards, r);
}

static void leave(struct rf_fence *f, uint64_t page, uint64_t owner)
{
	struct rf_entry gone;
	struct rf_entry *e;
	bool last;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_PAGE, name_of(page, owner));
	last = e && --e->refs == 0;
	if (last)
		rf_table_take_found(&f->table, e, &gone);
	rf_table_unlock(&f->table);
	if (last)
		rf_charge_drop(f, &gone, CUDA_SUCCESS);
}

void rf_pages_leave(struct rf_fence *f, const struct rf_entry *e)
{
	if (e->ends & END_FIRST)
		leave(f, first_page(e), e->owner);
	if (e->ends & END_LAST)
		leave(f, last_page(e), e->owner);
}

/* Whoever opens it keeps all of them. */
bool rf_pages_own(struct rf_fence *f, struct rf_entry *e, struct rf_entry *ret_was)
{
	uint64_t more = shared_pages(e) * PAGE;

	*ret_was = *e;
	if (more > 0 && rf_reserve(f, e->card, more) != CUDA_SUCCESS)
		return false;
	e->bytes += more;
	e->ends = 0;
	return true;
}
