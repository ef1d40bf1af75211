#include <errno.h>
#include <string.h>

#include "fence/fence.h"

#define SMALL_STEP 512u
#define SMALL_MOST (1u << 20)

uint64_t rf_whole_pages(uint64_t n)
{
	return n > UINT64_MAX - RF_PAGE ? UINT64_MAX : (n + RF_PAGE - 1) / RF_PAGE * RF_PAGE;
}

/* The driver packs allocations of up to 1 MiB into pages of 2 MiB; what is left over when no more
 * of the same size fits counts with them. Larger ones get whole pages. */
uint64_t rf_footprint(uint64_t n)
{
	uint64_t small;

	if (n > SMALL_MOST)
		return rf_whole_pages(n);
	small = (n + SMALL_STEP - 1) / SMALL_STEP * SMALL_STEP;
	return small ? RF_PAGE / (RF_PAGE / small) : 0;
}

static int find_card(const struct rf_fence *f, const uint8_t uuid[16])
{
	for (unsigned i = 0; i < f->cards; i++) {
		if (memcmp(f->card[i].uuid, uuid, 16) == 0)
			return (int)i;
	}
	return -1;
}

static CUresult ask_card(struct rf_fence *f, CUdevice dev, int *ret_card)
{
	CUuuid uuid;
	CUresult r;

	r = rf_real_or_null(RF_SYM_cuDeviceGetUuid_v2, true)
		    ? RF_REAL(cuDeviceGetUuid_v2)(&uuid, dev)
		    : RF_REAL(cuDeviceGetUuid)(&uuid, dev);
	if (r != CUDA_SUCCESS)
		return r;
	*ret_card = find_card(f, (const uint8_t *)uuid.bytes);
	return *ret_card < 0 ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

CUresult rf_card_of(struct rf_fence *f, CUdevice dev, unsigned *ret_card)
{
	int card;
	CUresult r;

	if (dev < 0 || dev >= RF_DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	card = __atomic_load_n(&f->card_of[dev], __ATOMIC_RELAXED) - 1;
	if (card < 0) {
		r = ask_card(f, dev, &card);
		if (r != CUDA_SUCCESS)
			return r;
		__atomic_store_n(&f->card_of[dev], card + 1, __ATOMIC_RELAXED);
	}
	*ret_card = (unsigned)card;
	return CUDA_SUCCESS;
}

CUresult rf_current_card(struct rf_fence *f, unsigned *ret_card)
{
	CUdevice dev;
	CUresult r = RF_REAL(cuCtxGetDevice)(&dev);

	return r == CUDA_SUCCESS ? rf_card_of(f, dev, ret_card) : r;
}

uint64_t rf_room(struct rf_fence *f, unsigned card)
{
	uint64_t used;

	rf_pool_refresh(f);
	used = rf_ledger_used(&f->place, card);
	return used < f->card[card].cap ? f->card[card].cap - used : 0;
}

/* A new seat knows of no contexts and no loans. */
static bool sit_again(struct rf_fence *f)
{
	if (!rf_rejoin(f))
		return false;
	rf_context_tell(f);
	rf_loan_tell(f);
	return true;
}

CUresult rf_reserve(struct rf_fence *f, unsigned card, uint64_t bytes)
{
	uint64_t cap = f->card[card].cap;
	int saved = errno;
	int r;

	if (bytes > UINT64_MAX / 2) /* no sum of such numbers means anything */
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = rf_ledger_reserve(&f->place, card, bytes, cap);
	if (r == -ESTALE && sit_again(f))
		r = rf_ledger_reserve(&f->place, card, bytes, cap);
	if (r == 0)
		__atomic_add_fetch(&f->held[card], bytes, __ATOMIC_RELAXED);
	errno = saved;
	if (r == 0)
		return CUDA_SUCCESS;
	return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_PERMITTED;
}

void rf_book(struct rf_fence *f, unsigned card, uint64_t bytes)
{
	int saved = errno;
	int r = rf_ledger_book(&f->place, card, bytes);

	if (r == -ESTALE && sit_again(f))
		r = rf_ledger_book(&f->place, card, bytes);
	errno = saved;
	/* Without a seat it is at least what the next one starts with. */
	__atomic_add_fetch(&f->held[card], bytes, __ATOMIC_RELAXED);
}

void rf_release(struct rf_fence *f, unsigned card, uint64_t bytes)
{
	__atomic_sub_fetch(&f->held[card], bytes, __ATOMIC_RELAXED);
	rf_ledger_release(&f->place, card, bytes);
}

CUresult rf_reserve_or_squeeze(struct rf_fence *f, unsigned card, uint64_t bytes)
{
	CUresult r = rf_reserve(f, card, bytes);

	if (r == CUDA_ERROR_OUT_OF_MEMORY && bytes <= f->card[card].cap && rf_pool_squeeze(f, card))
		r = rf_reserve(f, card, bytes);
	return r;
}

CUresult rf_charge_begin_on(struct rf_charge *c, struct rf_fence *f, unsigned card, uint64_t bytes)
{
	CUresult r = rf_reserve_or_squeeze(f, card, bytes);

	*c = (struct rf_charge){ .fence = f, .card = card, .bytes = bytes };
	if (r != CUDA_SUCCESS)
		return r;
	if (!rf_table_room(&f->table)) {
		rf_release(f, card, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult rf_charge_begin(struct rf_charge *c, uint64_t bytes)
{
	struct rf_fence *f = rf_join();
	CUcontext ctx = NULL;
	unsigned card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = rf_current_card(f, &card);
	if (r != CUDA_SUCCESS)
		return r;
	r = rf_charge_begin_on(c, f, card, bytes);
	if (r == CUDA_SUCCESS && RF_REAL(cuCtxGetCurrent)(&ctx) == CUDA_SUCCESS)
		c->owner = (uintptr_t)ctx;
	return r;
}

CUresult rf_charge_undo(struct rf_charge *c, CUresult r)
{
	rf_release(c->fence, c->card, c->bytes);
	rf_table_waive(&c->fence->table);
	return r;
}

CUresult rf_charge_settle(struct rf_charge *c, uint64_t actual)
{
	CUresult r = CUDA_SUCCESS;

	if (actual < c->bytes)
		rf_release(c->fence, c->card, c->bytes - actual);
	else if (actual > c->bytes)
		r = rf_reserve_or_squeeze(c->fence, c->card, actual - c->bytes);
	if (r != CUDA_SUCCESS)
		return rf_charge_undo(c, r);
	c->bytes = actual;
	return CUDA_SUCCESS;
}

static struct rf_entry entry_of(const struct rf_charge *c, enum rf_space space, uint64_t key)
{
	return (struct rf_entry){ .key = key,
				  .bytes = c->bytes,
				  .owner = c->owner,
				  .refs = 1,
				  .space = (uint8_t)space,
				  .card = (uint8_t)c->card };
}

void rf_charge_keep(struct rf_charge *c, enum rf_space space, uint64_t key)
{
	struct rf_entry e = entry_of(c, space, key);

	rf_charge_enter(c->fence, &e);
}

static void is_gone(struct rf_fence *f, const struct rf_entry *e)
{
	rf_charge_give_back(f, e);
	rf_pages_leave(f, e);
}

/* The driver lets go first, of a handle, or of all that a context had, so something older of that name may still be there. What
 * that was charged is given back, unless something holds a handle's memory on the same card: then it goes with the new one. */
void rf_charge_enter(struct rf_fence *f, const struct rf_entry *e)
{
	struct rf_entry old;

	if (e->space != RF_SPACE_HANDLE) {
		if (rf_table_replace(&f->table, e, &old))
			is_gone(f, &old);
	} else if (rf_table_put_over(&f->table, e, &old) && (old.maps == 0 || old.card != e->card)) {
		rf_charge_give_back(f, &old);
	}
}

void rf_charge_keep_once(struct rf_charge *c, enum rf_space space, uint64_t key)
{
	struct rf_entry e = entry_of(c, space, key);

	if (rf_table_put_or_again(&c->fence->table, &e))
		rf_release(c->fence, c->card, c->bytes);
}

CUresult rf_charge_end(struct rf_charge *c, CUresult r, enum rf_space space, const void *key)
{
	uint64_t value;

	if (r != CUDA_SUCCESS)
		return rf_charge_undo(c, r);
	memcpy(&value, key, sizeof(value));
	rf_charge_keep(c, space, value);
	return CUDA_SUCCESS;
}

/* Managed memory may be on any card. */
static bool spreads(const struct rf_entry *e)
{
	return e->space == RF_SPACE_POINTER || e->space == RF_SPACE_PAGE;
}

static bool is_of_a_heap(const struct rf_entry *e)
{
	return e->space == RF_SPACE_ARRAY || e->space == RF_SPACE_MIPMAP || e->space == RF_SPACE_MODULE;
}

void rf_charge_give_back(struct rf_fence *f, const struct rf_entry *e)
{
	if (is_of_a_heap(e))
		rf_heap_gone(f, e);
	else if (e->loan && e->borrowed)
		rf_loan_return(f, e->loan);
	else if (e->loan)
		rf_loan_recall(f, e->loan, e->card, e->bytes);
	else
		rf_release(f, e->card, e->bytes);
	for (uint32_t m = spreads(e) ? e->maps : 0; m; m &= m - 1)
		rf_release(f, (unsigned)__builtin_ctz(m), e->bytes);
}

/* The driver lets go first, then the charge goes: never the other way round. While it works, the
 * entry is out of the table, because something new may get the same name at once. */
CUresult rf_charge_drop(struct rf_fence *f, const struct rf_entry *e, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		rf_table_put(&f->table, e);
		return r;
	}
	if (e->refs > 1) { /* handed out more than once */
		struct rf_entry rest = *e;

		rest.refs--;
		rf_table_put(&f->table, &rest);
		return r;
	}
	is_gone(f, e);
	rf_table_waive(&f->table);
	return r;
}

bool rf_charge_count(struct rf_fence *f, enum rf_space space, uint64_t key, int refs, int maps)
{
	struct rf_entry gone;
	struct rf_entry *e;
	bool last = false;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, space, key);
	if (e) {
		e->refs += (uint32_t)refs;
		e->maps += (uint32_t)maps;
		last = e->refs == 0 && e->maps == 0;
	}
	if (last)
		rf_table_take_found(&f->table, e, &gone);
	rf_table_unlock(&f->table);
	if (last)
		rf_charge_drop(f, &gone, CUDA_SUCCESS);
	return last;
}

bool rf_charge_again(struct rf_fence *f, enum rf_space space, uint64_t key, int refs, int maps)
{
	struct rf_entry *e;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, space, key);
	if (e) {
		e->refs += (uint32_t)refs;
		e->maps += (uint32_t)maps;
	}
	rf_table_unlock(&f->table);
	return e != NULL;
}

bool rf_charge_take_last(struct rf_fence *f, enum rf_space space, uint64_t key,
			 struct rf_entry *ret)
{
	struct rf_entry *e;
	bool last;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, space, key);
	last = e && e->refs == 1 && e->maps == 0;
	rf_table_unlock(&f->table);
	return last && rf_table_take(&f->table, space, key, ret);
}
