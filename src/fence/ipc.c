/* Memory that others made: CUDA IPC and external memory. Whoever opens it is charged in full, also
 * when the maker sits in the same fence and is charged too: either may end first, and the memory
 * stays on the card until the last of them is gone. */
#include <string.h>

#include "fence/fence.h"

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
static CUresult charge_opened(struct rf_fence *f, CUdeviceptr ptr)
{
	CUcontext ctx = NULL;
	struct rf_charge c;
	CUdeviceptr base;
	unsigned card = 0;
	size_t size = 0;
	CUresult r;

	/* A handle that is open in the context already comes back with the same pointer. */
	if (rf_charge_again(f, RF_SPACE_IPC, ptr))
		return CUDA_SUCCESS;
	r = RF_REAL(cuMemGetAddressRange_v2)(&base, &size, ptr);
	if (r == CUDA_SUCCESS)
		r = card_of(f, ptr, &card);
	if (r == CUDA_SUCCESS)
		r = rf_charge_begin_on(&c, f, card, rf_footprint(size));
	if (r != CUDA_SUCCESS)
		return r;
	RF_REAL(cuCtxGetCurrent)(&ctx);
	c.owner = (uintptr_t)ctx;
	rf_charge_keep(&c, RF_SPACE_IPC, ptr);
	return r;
}

static CUresult open_handle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags,
			    __typeof__(&cuIpcOpenMemHandle_v2) real)
{
	struct rf_fence *f = rf_join();
	CUdeviceptr ptr = 0;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!f->any_cap || !dptr)
		return real(dptr, handle, flags);
	r = real(&ptr, handle, flags);
	if (r != CUDA_SUCCESS)
		return r;
	r = charge_opened(f, ptr);
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

/* --- external memory: its size is what the program says, and the driver checks it --- */

CUresult cuImportExternalMemory(CUexternalMemory *mem, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct rf_charge c;
	CUresult r;

	if (!desc)
		return RF_REAL(cuImportExternalMemory)(mem, desc);
	r = rf_charge_begin(&c, rf_footprint(desc->size));
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuImportExternalMemory)(mem, desc);
	return rf_charge_end(&c, r, RF_SPACE_EXTERNAL, mem);
}

CUresult cuDestroyExternalMemory(CUexternalMemory mem)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (rf_charge_take_last(f, RF_SPACE_EXTERNAL, (uintptr_t)mem, &e))
		return rf_charge_drop(f, &e, RF_REAL(cuDestroyExternalMemory)(mem));
	r = RF_REAL(cuDestroyExternalMemory)(mem);
	if (r == CUDA_SUCCESS)
		rf_charge_count(f, RF_SPACE_EXTERNAL, (uintptr_t)mem, -1, 0);
	return r;
}

/* What is mapped of it keeps it on the card until freed, also when the import is gone. */
static CUresult begin_buffer(struct rf_fence *f, CUexternalMemory mem)
{
	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!rf_table_room(&f->table))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rf_charge_count(f, RF_SPACE_EXTERNAL, (uintptr_t)mem, 0, 1);
	return CUDA_SUCCESS;
}

static CUresult end_buffer(struct rf_fence *f, CUexternalMemory mem, CUresult r, const void *key)
{
	struct rf_entry e = { .owner = (uintptr_t)mem, .space = RF_SPACE_BUFFER };

	if (r == CUDA_SUCCESS) {
		memcpy(&e.key, key, sizeof(e.key));
		rf_table_put(&f->table, &e);
		return r;
	}
	rf_table_waive(&f->table);
	rf_charge_count(f, RF_SPACE_EXTERNAL, (uintptr_t)mem, 0, -1);
	return r;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *dptr, CUexternalMemory mem,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct rf_fence *f = rf_join();
	CUresult r = begin_buffer(f, mem);

	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuExternalMemoryGetMappedBuffer)(dptr, mem, desc);
	return end_buffer(f, mem, r, dptr);
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *mipmap, CUexternalMemory mem,
						 const void *desc)
{
	struct rf_fence *f = rf_join();
	CUresult r = begin_buffer(f, mem);

	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuExternalMemoryGetMappedMipmappedArray)(mipmap, mem, desc);
	return end_buffer(f, mem, r, mipmap);
}

void rf_ipc_buffer_gone(struct rf_fence *f, uint64_t key)
{
	struct rf_entry e;

	if (!rf_table_take(&f->table, RF_SPACE_BUFFER, key, &e))
		return;
	rf_table_waive(&f->table);
	rf_charge_count(f, RF_SPACE_EXTERNAL, e.owner, 0, -1);
}
