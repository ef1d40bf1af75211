/* Pools come, go, become a device's current one, and come from other processes. */
#include "fence/pool.h"

static bool is_host(int type)
{
	return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       type == RF_CU_MEM_LOCATION_TYPE_LAST;
}

/* A pool of managed memory does not say what it has reserved on which card, and what lies at a place
 * the fence does not know may lie on a card. */
CUresult rf_pool_card(struct rf_fence *f, const CUmemPoolProps *props, int *ret_card)
{
	unsigned card = 0;
	CUresult r;

	if (!props)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_card = -1;
	if (props->allocType == RF_CU_MEM_ALLOCATION_TYPE_MANAGED)
		return f->any_cap ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
	if (is_host(props->location.type))
		return CUDA_SUCCESS;
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return f->any_cap ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
	r = rf_card_of(f, props->location.id, &card);
	if (r == CUDA_SUCCESS)
		*ret_card = (int)card;
	return r;
}

/* Enters a pool that was just had; hands it back if there is no record left. Under the lock. */
static CUresult enter_new(struct rf_fence *f, CUmemoryPool pool, int card, CUresult refused)
{
	struct rf_pool *p = rf_pool_add(f, pool, card);

	if (p) {
		p->refused = refused;
		return CUDA_SUCCESS;
	}
	RF_REAL(cuMemPoolDestroy)(pool);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	struct rf_fence *f = rf_join();
	int card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = rf_pool_card(f, props, &card);
	if (r != CUDA_SUCCESS)
		return r;
	if (!rf_pool_enter(f))
		return RF_REAL(cuMemPoolCreate)(pool, props);
	r = RF_REAL(cuMemPoolCreate)(pool, props);
	if (r == CUDA_SUCCESS)
		r = enter_new(f, *pool, card, CUDA_SUCCESS);
	rf_pool_leave(f);
	return r;
}

/* A pool with allocations in use cannot be asked once it is destroyed, though it keeps memory. So it
 * is put aside instead: nobody finds it, it keeps nothing idle, and the fence destroys it when the
 * last allocation is freed. */
static void put_aside(struct rf_fence *f, struct rf_pool *p)
{
	cuuint64_t none = 0;

	for (CUdevice dev = 0; dev < rf_pool_devices(f); dev++) {
		CUmemoryPool pool = NULL;

		if (RF_REAL(cuDeviceGetMemPool)(&pool, dev) == CUDA_SUCCESS && pool == p->handle &&
		    RF_REAL(cuDeviceGetDefaultMemPool)(&pool, dev) == CUDA_SUCCESS)
			RF_REAL(cuDeviceSetMemPool)(dev, pool);
	}
	RF_REAL(cuMemPoolSetAttribute)(p->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none);
	__atomic_add_fetch(&f->doomed, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&p->doomed, true, __ATOMIC_RELAXED);
	RF_REAL(cuMemPoolTrimTo)(p->handle, 0);
	rf_pool_match(f, p);
}

/* Under the lock. */
static CUresult destroy(struct rf_fence *f, CUmemoryPool pool)
{
	struct rf_pool *p = rf_pool_find(f, pool);
	uint64_t used = 0;
	CUresult r;

	if (p && p->card >= 0 && !p->fixed) {
		rf_pool_drain(p); /* nothing goes through unasked any more */
		used = rf_pool_says(p, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
	}
	if (used != 0 && used != RF_POOL_UNKNOWN) {
		put_aside(f, p);
		return CUDA_SUCCESS;
	}
	r = RF_REAL(cuMemPoolDestroy)(pool);
	if (r != CUDA_SUCCESS || !p)
		return r;
	if (p->card >= 0)
		rf_pool_close(f, p);
	__atomic_store_n(&p->handle, NULL, __ATOMIC_RELEASE);
	return r;
}

/* The current pools change with some calls; they are asked for again when needed. */
static void forget_current(struct rf_fence *f)
{
	for (CUdevice dev = 0; dev < RF_DEVICES; dev++)
		__atomic_store_n(&f->current[dev], 0, __ATOMIC_RELEASE);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_pool_enter(f))
		return RF_REAL(cuMemPoolDestroy)(pool);
	r = destroy(f, pool);
	forget_current(f);
	rf_pool_leave(f);
	return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	struct rf_fence *f = rf_join();
	struct rf_pool *p;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_pool_enter(f))
		return RF_REAL(cuMemPoolTrimTo)(pool, keep);
	r = RF_REAL(cuMemPoolTrimTo)(pool, keep);
	p = rf_pool_find(f, pool);
	if (p && p->card >= 0)
		rf_pool_match(f, p);
	rf_pool_leave(f);
	return r;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_pool_enter(f))
		return RF_REAL(cuDeviceSetMemPool)(dev, pool);
	r = RF_REAL(cuDeviceSetMemPool)(dev, pool);
	forget_current(f);
	rf_pool_leave(f);
	return r;
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_pool_enter(f))
		return RF_REAL(cuMemSetMemPool)(location, type, pool);
	r = RF_REAL(cuMemSetMemPool)(location, type, pool);
	forget_current(f);
	rf_pool_leave(f);
	return r;
}

/* The default pools of host memory are met here for the first time; those of the devices are known,
 * and those of managed memory stay unknown. */
static CUresult met(CUresult r, const CUmemoryPool *pool, const CUmemLocation *location, int type)
{
	struct rf_fence *f = rf_join();

	if (r != CUDA_SUCCESS || !f || !is_host(location->type) ||
	    type == RF_CU_MEM_ALLOCATION_TYPE_MANAGED || !rf_pool_enter(f))
		return r;
	if (!rf_pool_find(f, *pool))
		rf_pool_add(f, *pool, -1);
	rf_pool_leave(f);
	return r;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
	if (!rf_join())
		return CUDA_ERROR_NOT_PERMITTED;
	return met(RF_REAL(cuMemGetDefaultMemPool)(pool, location, type), pool, location, type);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
	if (!rf_join())
		return CUDA_ERROR_NOT_PERMITTED;
	return met(RF_REAL(cuMemGetMemPool)(pool, location, type), pool, location, type);
}

/* --- pools of other processes --- */

/* The driver allocates nothing from an imported pool; its pointers are charged one by one. */
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type,
					    unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_pool_enter(f))
		return RF_REAL(cuMemPoolImportFromShareableHandle)(pool, handle, type, flags);
	r = RF_REAL(cuMemPoolImportFromShareableHandle)(pool, handle, type, flags);
	if (r == CUDA_SUCCESS && !rf_pool_find(f, *pool))
		r = enter_new(f, *pool, -1, CUDA_ERROR_NOT_SUPPORTED);
	rf_pool_leave(f);
	return r;
}

/* A pointer keeps the piece of the pool that it lies in. */
static CUresult card_and_size(struct rf_fence *f, CUdeviceptr ptr, unsigned *ret_card,
			      uint64_t *ret_bytes)
{
	size_t bytes = 0;
	int dev = -1;
	CUresult r = RF_REAL(cuPointerGetAttribute)(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr);

	if (r == CUDA_SUCCESS)
		r = RF_REAL(cuPointerGetAttribute)(&dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr);
	*ret_bytes = (bytes + RF_POOL_GRANULE - 1) / RF_POOL_GRANULE * RF_POOL_GRANULE;
	return r == CUDA_SUCCESS ? rf_card_of(f, dev, ret_card) : r;
}

/* The pool is charged for it. The pointer is in the table only so that its free is seen. */
static void lend(struct rf_fence *f, CUdeviceptr ptr, const CUmemPoolPtrExportData *data)
{
	struct rf_entry e = { .refs = 1, .space = RF_SPACE_POINTER };
	uint64_t bytes = 0;
	unsigned card = 0;
	bool known;

	if (RF_REAL(cuPointerGetAttribute)(&e.key, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr) !=
		    CUDA_SUCCESS ||
	    card_and_size(f, ptr, &card, &bytes) != CUDA_SUCCESS || !rf_table_room(&f->table))
		return;
	rf_table_lock(&f->table);
	known = rf_table_find(&f->table, RF_SPACE_POINTER, e.key) != NULL;
	rf_table_unlock(&f->table);
	e.card = (uint8_t)card;
	if (!known && f->card[card].cap != UINT64_MAX)
		e.loan = rf_loan_make(f, data, card, bytes);
	if (e.loan)
		rf_table_put(&f->table, &e);
	else
		rf_table_waive(&f->table);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuMemPoolExportPointer)(data, ptr);
	if (r == CUDA_SUCCESS && f->any_cap)
		lend(f, ptr, data);
	return r;
}

/* How large it is shows only then; the memory is there already, in another process. */
static CUresult charge_imported(struct rf_opening *o, CUdeviceptr ptr)
{
	struct rf_opened what = { .space = RF_SPACE_POINTER, .key = ptr };
	CUresult r = CUDA_SUCCESS;

	if (!o->loan)
		r = card_and_size(o->fence, ptr, &what.card, &what.bytes);
	return r == CUDA_SUCCESS ? rf_open_end(o, &what) : rf_open_cancel(o, r);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	struct rf_fence *f = rf_join();
	struct rf_opening o;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!f->any_cap || !ptr || !data)
		return RF_REAL(cuMemPoolImportPointer)(ptr, pool, data);
	r = rf_open_begin(&o, f, data, RF_POOL_GRANULE);
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuMemPoolImportPointer)(ptr, pool, data);
	if (r != CUDA_SUCCESS)
		return rf_open_cancel(&o, r);
	r = charge_imported(&o, *ptr);
	if (r != CUDA_SUCCESS)
		RF_REAL(cuMemFree_v2)(*ptr);
	return r;
}
