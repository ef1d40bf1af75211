/* Memory by handle. A handle's bytes stay charged while anything keeps them on the card: a create
 * or retain that was not released, or a mapping that was not unmapped. */
#include "fence/fence.h"

static bool on_a_card(const CUmemAllocationProp *prop)
{
	return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	struct rf_charge c;
	unsigned card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!prop || !on_a_card(prop))
		return RF_REAL(cuMemCreate)(handle, size, prop, flags);
	r = rf_card_of(f, prop->location.id, &card);
	if (r == CUDA_SUCCESS)
		r = rf_charge_begin_on(&c, f, card, rf_footprint(size));
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuMemCreate)(handle, size, prop, flags);
	return rf_charge_end(&c, r, RF_SPACE_HANDLE, handle);
}

/* Changes a handle's counts by the given amounts; uncharges it when nothing is left. */
static void count(struct rf_fence *f, uint64_t handle, int refs, int maps)
{
	struct rf_entry gone = { 0 };
	struct rf_entry *e;
	bool last = false;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_HANDLE, handle);
	if (e) {
		e->refs += (uint32_t)refs;
		e->maps += (uint32_t)maps;
		last = e->refs == 0 && e->maps == 0;
	}
	rf_table_unlock(&f->table);
	if (last && rf_table_take(&f->table, RF_SPACE_HANDLE, handle, &gone)) {
		rf_table_waive(&f->table);
		rf_release(f, gone.card, gone.bytes);
	}
}

/* Takes the last trace of a handle out of the table before the driver may give its name away. */
static bool take_if_last(struct rf_fence *f, uint64_t handle, struct rf_entry *ret)
{
	struct rf_entry *e;
	bool last;

	rf_table_lock(&f->table);
	e = rf_table_find(&f->table, RF_SPACE_HANDLE, handle);
	last = e && e->refs == 1 && e->maps == 0;
	rf_table_unlock(&f->table);
	return last && rf_table_take(&f->table, RF_SPACE_HANDLE, handle, ret);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!take_if_last(f, handle, &e)) {
		r = RF_REAL(cuMemRelease)(handle);
		if (r == CUDA_SUCCESS)
			count(f, handle, -1, 0);
		return r;
	}
	r = RF_REAL(cuMemRelease)(handle);
	if (r != CUDA_SUCCESS) {
		rf_table_put(&f->table, &e);
		return r;
	}
	rf_table_waive(&f->table);
	rf_release(f, e.card, e.bytes);
	return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuMemRetainAllocationHandle)(handle, addr);
	if (r == CUDA_SUCCESS)
		count(f, *handle, 1, 0);
	return r;
}

/* Mappings are counted before the driver is asked, so that a release on another thread cannot see
 * the handle unused in between. */
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e = {
		.key = ptr, .bytes = size, .owner = handle, .space = RF_SPACE_MAPPING
	};
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_table_room(&f->table))
		return CUDA_ERROR_OUT_OF_MEMORY;
	count(f, handle, 0, 1);
	r = RF_REAL(cuMemMap)(ptr, size, offset, handle, flags);
	if (r != CUDA_SUCCESS) {
		rf_table_waive(&f->table);
		count(f, handle, 0, -1);
		return r;
	}
	rf_table_put(&f->table, &e);
	return r;
}

/* One call may undo several adjacent mappings. */
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e;
	CUdeviceptr at = ptr;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuMemUnmap)(ptr, size);
	if (r != CUDA_SUCCESS)
		return r;
	while (at - ptr < size && rf_table_take(&f->table, RF_SPACE_MAPPING, at, &e)) {
		rf_table_waive(&f->table);
		count(f, e.owner, 0, -1);
		at += e.bytes ? e.bytes : 1;
	}
	return r;
}
