/* Plain allocations: cuMemAlloc and its kin, arrays. */
#include <errno.h>

#include "fence/fence.h"

#define PITCH 512

CUresult cuInit(unsigned int flags)
{
	return rf_join() ? RF_REAL(cuInit)(flags) : CUDA_ERROR_NOT_PERMITTED;
}

/* What the driver says goes to the program last: it may write there at any time. */
static CUresult hand_out(CUresult r, CUdeviceptr got, CUdeviceptr *dptr)
{
	if (r == CUDA_SUCCESS)
		*dptr = got;
	return r;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	struct rf_charge c;
	CUdeviceptr got = 0;
	CUresult r = dptr ? rf_plain_begin(&c, bytes) : CUDA_ERROR_INVALID_VALUE;

	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuMemAlloc_v2)(&got, bytes);
	return hand_out(rf_plain_end(&c, 0, r, got, bytes), got, dptr);
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t round_up(uint64_t n, uint64_t step)
{
	return n > UINT64_MAX - step ? UINT64_MAX : (n + step - 1) / step * step;
}

/* The pitch is known only afterwards; what is reserved before is with the pitch that cards have. */
CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
			    unsigned int element)
{
	struct rf_charge c;
	CUdeviceptr got = 0;
	size_t apart = 0;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (dptr && pitch)
		r = rf_plain_begin(&c, times(round_up(width, PITCH), height));
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuMemAllocPitch_v2)(&got, &apart, width, height, element);
	r = hand_out(rf_plain_end(&c, 0, r, got, times(apart, height)), got, dptr);
	if (r == CUDA_SUCCESS)
		*pitch = apart;
	return r;
}

static CUresult let_go(struct rf_fence *f, CUdeviceptr dptr)
{
	struct rf_entry e;
	CUresult r;

	if (rf_table_take(&f->table, RF_SPACE_POINTER, dptr, &e)) {
		rf_loan_before_free(f, &e);
		r = rf_charge_drop(f, &e, RF_REAL(cuMemFree_v2)(dptr));
		if (r == CUDA_SUCCESS && e.bytes == 0 && !e.ends) /* a pool's that was lent */
			rf_pool_freed(f);
		return r;
	}
	if (rf_table_take(&f->table, RF_SPACE_BUFFER, dptr, &e))
		r = rf_ipc_buffer_gone(f, &e, RF_REAL(cuMemFree_v2)(dptr));
	else
		r = RF_REAL(cuMemFree_v2)(dptr);
	if (r == CUDA_SUCCESS)
		rf_pool_freed(f);
	return r;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct rf_fence *f = rf_join();
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	rf_move_begin(f);
	r = let_go(f, dptr);
	rf_move_end(f);
	return r;
}

/* --- arrays --- */

/* Formats of the driver's newer, packed kinds are charged as the widest. */
static uint64_t format_bytes(int format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 16;
	}
}

static uint64_t or_one(uint64_t n)
{
	return n ? n : 1;
}

/* Tiles stand in blocks of 1, 2, 4, 8 or 16: the fewest that hold n tiles, or as many of the
 * largest as it takes. */
static uint64_t in_blocks(uint64_t n)
{
	uint64_t block = 1;

	while (block < n && block < 16)
		block *= 2;
	return round_up(n, block);
}

/* An array lies in tiles of 64 bytes by 8 rows. Blocks of tiles go down the rows of a flat image or
 * layer, and along the depth of a volume. Found by measuring; see README.md. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int level)
{
	bool layered = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	uint64_t texel = times(format_bytes(d->Format), or_one(d->NumChannels));
	uint64_t row = round_up(times(or_one(d->Width >> level), texel), 64);
	uint64_t tiles = round_up(or_one(d->Height >> level), 8) / 8;
	uint64_t depth = or_one(d->Depth);

	if (d->Depth == 0 || layered)
		tiles = in_blocks(tiles);
	else
		depth = in_blocks(or_one(d->Depth >> level));
	return times(times(row, times(tiles, 8)), depth);
}

/* The driver packs them in steps of 512 bytes. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < levels && i < 64; i++) {
		if (__builtin_add_overflow(sum, level_bytes(d, i), &sum))
			return UINT64_MAX;
	}
	return round_up(sum, PITCH);
}

struct array_call {
	const CUDA_ARRAY_DESCRIPTOR *flat;
	const CUDA_ARRAY3D_DESCRIPTOR *desc;
	unsigned int levels;
};

static CUresult make_flat(const void *call, uint64_t *ret)
{
	CUarray got = NULL;
	CUresult r = RF_REAL(cuArrayCreate_v2)(&got, ((const struct array_call *)call)->flat);

	*ret = (uintptr_t)got;
	return r;
}

static CUresult make_array(const void *call, uint64_t *ret)
{
	CUarray got = NULL;
	CUresult r = RF_REAL(cuArray3DCreate_v2)(&got, ((const struct array_call *)call)->desc);

	*ret = (uintptr_t)got;
	return r;
}

static CUresult make_mipmap(const void *call, uint64_t *ret)
{
	const struct array_call *c = call;
	CUmipmappedArray got = NULL;
	CUresult r = RF_REAL(cuMipmappedArrayCreate)(&got, c->desc, c->levels);

	*ret = (uintptr_t)got;
	return r;
}

static CUresult end_array(uint64_t key)
{
	return RF_REAL(cuArrayDestroy)((CUarray)(uintptr_t)key);
}

static CUresult end_mipmap(uint64_t key)
{
	return RF_REAL(cuMipmappedArrayDestroy)((CUmipmappedArray)(uintptr_t)key);
}

static CUresult in_heap(enum rf_space space, CUresult (*make)(const void *, uint64_t *),
			const struct array_call *c, const CUDA_ARRAY3D_DESCRIPTOR *d, uint64_t *ret_key)
{
	uint64_t bytes = array_bytes(d, or_one(c->levels));

	return rf_heap_make(&(struct rf_making){ .make = make,
						 .call = c,
						 .unmake = space == RF_SPACE_ARRAY ? end_array : end_mipmap,
						 .space = space,
						 .bytes = bytes,
						 .apart = bytes,
						 .told = true },
			    ret_key);
}

static CUresult make_one(CUresult (*make)(const void *, uint64_t *), const struct array_call *c,
			 const CUDA_ARRAY3D_DESCRIPTOR *d, CUarray *array)
{
	uint64_t key = 0;
	CUresult r = in_heap(RF_SPACE_ARRAY, make, c, d, &key);

	if (r == CUDA_SUCCESS)
		*array = (CUarray)(uintptr_t)key;
	return r;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 0 };

	if (!array || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	d.Width = desc->Width;
	d.Height = desc->Height;
	d.Format = desc->Format;
	d.NumChannels = desc->NumChannels;
	return make_one(make_flat, &(struct array_call){ .flat = desc }, &d, array);
}

/* Memory for sparse and deferred arrays comes later, by a call that is refused. */
static bool lends_memory(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct rf_fence *f = rf_join();

	return f && f->any_cap &&
	       (desc->Flags & (CUDA_ARRAY3D_SPARSE | RF_CU_ARRAY3D_DEFERRED_MAPPING));
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	if (!array || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	if (lends_memory(desc))
		return CUDA_ERROR_NOT_SUPPORTED;
	return make_one(make_array, &(struct array_call){ .desc = desc }, desc, array);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc,
				unsigned int levels)
{
	struct array_call c = { .desc = desc, .levels = levels };
	uint64_t key = 0;
	CUresult r;

	if (!array || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	if (lends_memory(desc))
		return CUDA_ERROR_NOT_SUPPORTED;
	r = in_heap(RF_SPACE_MIPMAP, make_mipmap, &c, desc, &key);
	if (r == CUDA_SUCCESS)
		*array = (CUmipmappedArray)(uintptr_t)key;
	return r;
}

CUresult cuArrayDestroy(CUarray array)
{
	return rf_heap_end(RF_SPACE_ARRAY, (uintptr_t)array, end_array);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (rf_table_take(&f->table, RF_SPACE_BUFFER, (uintptr_t)array, &e))
		return rf_ipc_buffer_gone(f, &e, RF_REAL(cuMipmappedArrayDestroy)(array));
	return rf_heap_end(RF_SPACE_MIPMAP, (uintptr_t)array, end_mipmap);
}
