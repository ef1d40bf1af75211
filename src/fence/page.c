/* Plain allocations. The driver packs those of up to 1 MiB into pages of 2 MiB, and a page stays on the card until the
 * last of them is freed, however small: so it is the page that is charged, once. Which one an allocation lies in is known
 * only when it is made: a whole page is reserved for it, and given back if it was charged already. */
#include <sched.h>
#include <time.h>

#include "fence/fence.h"

#define PAGE ((uint64_t)2 << 20)
#define SMALL_MOST (1u << 20)
#define TRIES 4
#define PATIENCE_NS 1000000

static bool is_small(uint64_t bytes)
{
	return bytes > 0 && bytes <= SMALL_MOST;
}

/* A page belongs to one context; the address leaves room to say which. */
static uint64_t name_of(uint64_t ptr, uint64_t owner)
{
	return (ptr & ~(PAGE - 1)) ^ (owner >> 4 & (PAGE - 1));
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Whether other threads have given pages back since, or did while this one waited for it. */
static bool others_gave_way(struct rf_fence *f, unsigned since)
{
	int64_t end = now_ns() + PATIENCE_NS;

	while (__atomic_load_n(&f->paged, __ATOMIC_ACQUIRE) == since) {
		if (__atomic_load_n(&f->paging, __ATOMIC_RELAXED) == 0 || now_ns() > end)
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

static CUresult begin_small(struct rf_charge *c)
{
	struct rf_fence *f = rf_join();
	CUresult r = CUDA_ERROR_NOT_PERMITTED;

	for (int i = 0; f && i < TRIES; i++) {
		unsigned since = __atomic_load_n(&f->paged, __ATOMIC_ACQUIRE);

		__atomic_add_fetch(&f->paging, 1, __ATOMIC_RELAXED);
		r = rf_charge_begin(c, PAGE);
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
	CUresult r = is_small(bytes) ? begin_small(c) : rf_charge_begin(c, rf_footprint(bytes));

	if (r == CUDA_SUCCESS)
		c->small = is_small(bytes);
	return r;
}

static void release_on(const struct rf_charge *c, uint32_t cards)
{
	for (; cards; cards &= cards - 1)
		rf_release(c->fence, (unsigned)__builtin_ctz(cards), c->bytes);
}

CUresult rf_plain_undo(struct rf_charge *c, uint32_t cards, CUresult r)
{
	release_on(c, cards);
	rf_charge_undo(c, r);
	if (c->small) {
		rf_table_waive(&c->fence->table);
		page_is_settled(c->fence);
	}
	return r;
}

void rf_plain_keep(struct rf_charge *c, uint32_t cards, uint64_t ptr)
{
	struct rf_entry e = { .key = ptr,
			      .bytes = c->small ? 0 : c->bytes,
			      .owner = c->owner,
			      .refs = 1,
			      .maps = cards,
			      .space = RF_SPACE_POINTER,
			      .card = (uint8_t)c->card,
			      .small = c->small };
	struct rf_entry page = e;

	rf_table_put(&c->fence->table, &e);
	if (!c->small)
		return;
	page.key = name_of(ptr, c->owner);
	page.bytes = c->bytes;
	page.space = RF_SPACE_PAGE;
	page.small = false;
	if (rf_table_put_or_again(&c->fence->table, &page)) {
		release_on(c, cards);
		rf_release(c->fence, c->card, c->bytes);
	}
	page_is_settled(c->fence);
}

CUresult rf_plain_settle(struct rf_charge *c, uint64_t bytes)
{
	if (c->small && is_small(bytes))
		return CUDA_SUCCESS;
	if (c->small) {
		rf_table_waive(&c->fence->table);
		page_is_settled(c->fence);
		c->small = false;
	}
	return rf_charge_settle(c, is_small(bytes) ? PAGE : rf_footprint(bytes));
}

void rf_page_left(struct rf_fence *f, const struct rf_entry *small)
{
	struct rf_entry page;
	struct rf_entry *e;
	bool last;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_PAGE, name_of(small->key, small->owner));
	last = e && --e->refs == 0;
	if (last)
		rf_table_take_found(&f->table, e, &page);
	rf_table_unlock(&f->table);
	if (last)
		rf_charge_drop(f, &page, CUDA_SUCCESS);
}

/* With the table's lock. A page of its own is charged for what is lent: whoever opens it keeps all of the page. */
bool rf_page_lend(struct rf_fence *f, struct rf_entry *small)
{
	if (small->bytes == 0 && rf_reserve(f, small->card, PAGE) != CUDA_SUCCESS)
		return false;
	small->bytes = PAGE;
	return true;
}
