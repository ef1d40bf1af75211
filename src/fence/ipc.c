/* Memory that others made: CUDA IPC and external memory. What a process of the same fence made is
 * charged once, to the maker or, when that is gone, to those who hold it; a handle that nobody of the
 * fence has lent is charged to whoever opens it, in full. The memory stays on the card until the last of
 * them is gone, whoever ends first. */
#include <errno.h>
#include <string.h>

#include "fence/fence.h"

#define OPAQUE_FD 1 /* CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD */

/* --- loans --- */

/* Without room in the ledger, or if the name is still in use for older memory, there is no loan. */
uint16_t rf_loan_make(struct rf_fence *f, const void *name, unsigned card, uint64_t bytes)
{
	int saved = errno;
	unsigned i = 0;
	bool ok;

	pthread_mutex_lock(&f->loan_lock);
	ok = rf_ledger_lend(&f->place, name, card, bytes, &i) == 0;
	if (ok && (f->loan[i].made || f->loan[i].opens)) { /* after a seat was lost */
		rf_ledger_recall(&f->place, i, card, 0);
		ok = false;
	}
	if (ok) {
		f->loan[i] =
			(struct rf_loan){ .bytes = bytes, .card = (uint8_t)card, .made = true };
		memcpy(f->loan[i].name, name, RF_LEDGER_NAME);
	}
	pthread_mutex_unlock(&f->loan_lock);
	errno = saved;
	return ok ? (uint16_t)(i + 1) : 0;
}

void rf_loan_recall(struct rf_fence *f, uint16_t loan, unsigned card, uint64_t bytes)
{
	pthread_mutex_lock(&f->loan_lock);
	f->loan[loan - 1].made = false;
	__atomic_sub_fetch(&f->held[card], bytes, __ATOMIC_RELAXED);
	rf_ledger_recall(&f->place, loan - 1u, card, bytes);
	pthread_mutex_unlock(&f->loan_lock);
}

void rf_loan_before_free(struct rf_fence *f, struct rf_entry *e)
{
	if (!e->loan || e->borrowed || e->bytes > 0)
		return;
	rf_loan_recall(f, e->loan, e->card, 0);
	e->loan = 0;
}

/* Under the lock. */
static bool borrow(struct rf_fence *f, const void *name, unsigned i)
{
	const struct rf_ledger_loan *n = &f->place.ledger->loan[i];
	struct rf_loan *l = &f->loan[i];

	if (l->made || l->opens) {
		if (memcmp(l->name, name, RF_LEDGER_NAME) != 0 || l->full)
			return false;
	} else {
		if (n->card >= f->cards)
			return false;
		*l = (struct rf_loan){ .bytes = n->bytes, .card = (uint8_t)n->card };
		memcpy(l->name, name, RF_LEDGER_NAME);
	}
	l->opens++;
	return true;
}

void rf_loan_return(struct rf_fence *f, uint16_t loan)
{
	struct rf_loan *l = &f->loan[loan - 1];

	pthread_mutex_lock(&f->loan_lock);
	if (--l->opens == 0) {
		if (l->full)
			rf_release(f, l->card, l->bytes);
		else
			rf_ledger_return(&f->place, loan - 1u);
		l->full = false;
	}
	pthread_mutex_unlock(&f->loan_lock);
}

static CUresult keep_loan(struct rf_fence *f, uint16_t loan, const struct rf_opened *what)
{
	struct rf_entry e = { .key = what->key,
			      .owner = what->owner,
			      .refs = 1,
			      .space = (uint8_t)what->space,
			      .card = f->loan[loan - 1].card,
			      .borrowed = true,
			      .loan = loan };

	if (!rf_table_room(&f->table)) {
		rf_loan_return(f, loan);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (rf_table_put_or_again(&f->table, &e)) /* open already, and that holds the loan */
		rf_loan_return(f, loan);
	return CUDA_SUCCESS;
}

static uint16_t take(struct rf_fence *f, const void *name, unsigned *ret_busy)
{
	int saved = errno;
	unsigned i = 0;
	int r;

	pthread_mutex_lock(&f->loan_lock);
	r = rf_ledger_borrow(&f->place, name, &i);
	if (r == 0 && !borrow(f, name, i)) {
		rf_ledger_return(&f->place, i);
		r = -EBUSY;
	}
	*ret_busy = r == -EBUSY ? i : RF_LEDGER_LOANS;
	pthread_mutex_unlock(&f->loan_lock);
	errno = saved;
	return r == 0 ? (uint16_t)(i + 1) : 0;
}

CUresult rf_open_begin(struct rf_opening *o, struct rf_fence *f, const void *name, uint64_t least)
{
	unsigned busy, card = 0;
	uint64_t bytes = least;

	*o = (struct rf_opening){ .fence = f, .loan = take(f, name, &busy) };
	if (o->loan)
		return CUDA_SUCCESS;
	if (busy < RF_LEDGER_LOANS) {
		card = f->place.ledger->loan[busy].card;
		bytes = f->place.ledger->loan[busy].bytes;
	} else if (bytes == 0 || rf_current_card(f, &card) != CUDA_SUCCESS) {
		return CUDA_SUCCESS;
	}
	return card < f->cards ? rf_charge_begin_on(&o->charge, f, card, bytes) : CUDA_SUCCESS;
}

CUresult rf_open_cancel(struct rf_opening *o, CUresult r)
{
	if (o->loan)
		rf_loan_return(o->fence, o->loan);
	return o->charge.fence ? rf_charge_undo(&o->charge, r) : r;
}

CUresult rf_open_end(struct rf_opening *o, const struct rf_opened *what)
{
	struct rf_fence *f = o->fence;
	struct rf_charge *c = &o->charge;
	CUresult r = CUDA_SUCCESS;

	if (o->loan)
		return keep_loan(f, o->loan, what);
	if (c->fence && c->card != what->card) {
		rf_charge_undo(c, r);
		c->fence = NULL;
	}
	r = c->fence ? rf_charge_settle(c, what->bytes)
		     : rf_charge_begin_on(c, f, what->card, what->bytes);
	if (r != CUDA_SUCCESS)
		return r;
	c->owner = what->owner;
	rf_charge_keep_once(c, what->space, what->key);
	return r;
}

void rf_loan_tell(struct rf_fence *f)
{
	pthread_mutex_lock(&f->loan_lock);
	for (unsigned i = 0; i < RF_LEDGER_LOANS; i++) {
		struct rf_loan *l = &f->loan[i];

		if (l->made)
			rf_ledger_renew(&f->place, i, l->name, l->card, l->bytes, true);
		if (l->opens == 0 || l->full ||
		    rf_ledger_renew(&f->place, i, l->name, l->card, l->bytes, false) == 0)
			continue;
		if (rf_ledger_book(&f->place, l->card, l->bytes) == 0)
			__atomic_add_fetch(&f->held[l->card], l->bytes, __ATOMIC_RELAXED);
		l->full = true;
	}
	pthread_mutex_unlock(&f->loan_lock);
}

/* --- IPC --- */

/* Plain allocations alone can be exported, by any pointer into them. Under the table's lock, so that no
 * other thread lends it too. */
static void lend(struct rf_fence *f, CUdeviceptr dptr, const CUipcMemHandle *handle)
{
	struct rf_entry was = { 0 };
	CUdeviceptr base = dptr;
	struct rf_entry *e;
	size_t size = 0;

	if (RF_REAL(cuMemGetAddressRange_v2)(&base, &size, dptr) != CUDA_SUCCESS)
		return;
	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_POINTER, base);
	if (e && !e->loan && e->maps == 0 && f->card[e->card].cap != UINT64_MAX &&
	    rf_pages_own(f, e, &was))
		e->loan = rf_loan_make(f, handle, e->card, e->bytes);
	else
		was.ends = 0;
	rf_table_unlock(&f->table);
	rf_pages_leave(f, &was);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuIpcGetMemHandle)(handle, dptr);
	if (r == CUDA_SUCCESS && f->any_cap)
		lend(f, dptr, handle);
	return r;
}

/* The card the memory lies on, which may be a neighbour of the current one. */
static CUresult card_of(struct rf_fence *f, CUdeviceptr ptr, unsigned *ret)
{
	int dev = -1;

	if (RF_REAL(cuPointerGetAttribute)(&dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr) ==
	    CUDA_SUCCESS)
		return rf_card_of(f, dev, ret);
	return rf_current_card(f, ret);
}

/* The driver opens first, since only then the size can be had; what does not fit is closed again. */
static CUresult charge_opened(struct rf_opening *o, CUdeviceptr ptr)
{
	struct rf_opened what = { .space = RF_SPACE_IPC, .key = ptr };
	CUcontext ctx = NULL;
	CUdeviceptr base;
	size_t size = 0;
	CUresult r = CUDA_SUCCESS;

	RF_REAL(cuCtxGetCurrent)(&ctx);
	what.owner = (uintptr_t)ctx;
	/* A handle that is open in the context already comes back with the same pointer. */
	if (!o->loan && rf_charge_again(o->fence, RF_SPACE_IPC, ptr, 1, 0))
		return rf_open_cancel(o, r);
	if (!o->loan)
		r = RF_REAL(cuMemGetAddressRange_v2)(&base, &size, ptr);
	if (!o->loan && r == CUDA_SUCCESS)
		r = card_of(o->fence, ptr, &what.card);
	if (r != CUDA_SUCCESS)
		return rf_open_cancel(o, r);
	what.bytes = rf_whole_pages(size);
	return rf_open_end(o, &what);
}

static CUresult open_handle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags,
			    __typeof__(&cuIpcOpenMemHandle_v2) real)
{
	struct rf_fence *f = rf_join();
	struct rf_opening o;
	CUdeviceptr ptr = 0;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!f->any_cap || !dptr)
		return real(dptr, handle, flags);
	r = rf_open_begin(&o, f, &handle, 0);
	if (r != CUDA_SUCCESS)
		return r;
	r = real(&ptr, handle, flags);
	if (r != CUDA_SUCCESS)
		return rf_open_cancel(&o, r);
	r = charge_opened(&o, ptr);
	if (r == CUDA_SUCCESS)
		*dptr = ptr;
	else
		RF_REAL(cuIpcCloseMemHandle)(ptr);
	return r;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	return open_handle(dptr, handle, flags, RF_REAL(cuIpcOpenMemHandle));
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	return open_handle(dptr, handle, flags, RF_REAL(cuIpcOpenMemHandle_v2));
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (rf_charge_take_last(f, RF_SPACE_IPC, dptr, &e))
		return rf_charge_drop(f, &e, RF_REAL(cuIpcCloseMemHandle)(dptr));
	r = RF_REAL(cuIpcCloseMemHandle)(dptr);
	if (r == CUDA_SUCCESS)
		rf_charge_count(f, RF_SPACE_IPC, dptr, -1, 0);
	return r;
}

/* --- external memory: its size is what the program says, unless it can be found; the driver takes less for granted, too --- */

static CUresult begin_import(struct rf_charge *c, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct rf_fence *f = rf_join();
	CUcontext ctx = NULL;
	uint64_t bytes = 0;
	unsigned card = 0;
	CUresult r;

	if (f && f->any_cap && desc->type == OPAQUE_FD) {
		r = rf_vmm_behind(f, desc->handle.fd, &card, &bytes);
		if (r != CUDA_SUCCESS)
			return r;
	}
	if (bytes > 0)
		r = rf_charge_begin_on(c, f, card,
				       rf_footprint(bytes > desc->size ? bytes : desc->size));
	else
		r = rf_charge_begin(c, rf_footprint(desc->size));
	if (r != CUDA_SUCCESS)
		return r;
	if (RF_REAL(cuCtxGetCurrent)(&ctx) == CUDA_SUCCESS)
		c->owner = (uintptr_t)ctx;
	return rf_table_room(&c->fence->table) ? r : rf_charge_undo(c, CUDA_ERROR_OUT_OF_MEMORY);
}

/* Under a number of its own: the driver gives a name out again while buffers still keep what it once stood for. */
CUresult cuImportExternalMemory(CUexternalMemory *mem, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct rf_entry name = { .refs = 1, .space = RF_SPACE_IMPORT };
	struct rf_charge c;
	CUresult r;

	if (!desc)
		return RF_REAL(cuImportExternalMemory)(mem, desc);
	r = begin_import(&c, desc);
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuImportExternalMemory)(mem, desc);
	if (r != CUDA_SUCCESS) {
		rf_table_waive(&c.fence->table);
		return rf_charge_undo(&c, r);
	}
	name.key = (uintptr_t)*mem;
	name.owner = __atomic_add_fetch(&c.fence->imports, 1, __ATOMIC_RELAXED);
	rf_charge_keep(&c, RF_SPACE_EXTERNAL, name.owner);
	rf_table_put(&c.fence->table, &name);
	return r;
}

CUresult cuDestroyExternalMemory(CUexternalMemory mem)
{
	struct rf_fence *f = rf_join();
	struct rf_entry name;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_table_take(&f->table, RF_SPACE_IMPORT, (uintptr_t)mem, &name))
		return RF_REAL(cuDestroyExternalMemory)(mem);
	r = RF_REAL(cuDestroyExternalMemory)(mem);
	if (r != CUDA_SUCCESS) {
		rf_table_put(&f->table, &name);
		return r;
	}
	rf_table_waive(&f->table);
	rf_charge_count(f, RF_SPACE_EXTERNAL, name.owner, -1, 0);
	return r;
}

/* What is mapped of it keeps it on the card until freed, also when the import is gone. ret: its number. */
static CUresult begin_buffer(struct rf_fence *f, CUexternalMemory mem, uint64_t *ret)
{
	struct rf_entry *e;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_table_room(&f->table))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_IMPORT, (uintptr_t)mem);
	*ret = e ? e->owner : 0;
	e = e ? rf_table_find(&f->table, RF_SPACE_EXTERNAL, *ret) : NULL;
	if (e)
		e->maps++;
	rf_table_unlock(&f->table);
	if (e)
		return CUDA_SUCCESS;
	rf_table_waive(&f->table);
	return CUDA_ERROR_INVALID_HANDLE;
}

static CUresult end_buffer(struct rf_fence *f, uint64_t import, CUresult r, const void *key)
{
	struct rf_entry e = { .owner = import, .space = RF_SPACE_BUFFER };

	if (r == CUDA_SUCCESS) {
		memcpy(&e.key, key, sizeof(e.key));
		rf_table_put(&f->table, &e);
		return r;
	}
	rf_table_waive(&f->table);
	rf_charge_count(f, RF_SPACE_EXTERNAL, import, 0, -1);
	return r;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *dptr, CUexternalMemory mem,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct rf_fence *f = rf_join();
	uint64_t import;
	CUresult r = begin_buffer(f, mem, &import);

	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuExternalMemoryGetMappedBuffer)(dptr, mem, desc);
	return end_buffer(f, import, r, dptr);
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *mipmap, CUexternalMemory mem,
						 const void *desc)
{
	struct rf_fence *f = rf_join();
	uint64_t import;
	CUresult r = begin_buffer(f, mem, &import);

	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuExternalMemoryGetMappedMipmappedArray)(mipmap, mem, desc);
	return end_buffer(f, import, r, mipmap);
}

CUresult rf_ipc_buffer_gone(struct rf_fence *f, const struct rf_entry *e, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		rf_table_put(&f->table, e);
		return r;
	}
	rf_table_waive(&f->table);
	rf_charge_count(f, RF_SPACE_EXTERNAL, e->owner, 0, -1);
	return r;
}
