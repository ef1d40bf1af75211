/* Arrays: memory with a shape. Kept row by row; the real, tiled layout is nobody's business. */
#include "sim/cuda_priv.h"

#include <stdlib.h>

struct CUarray_st {
	uint32_t magic;
	struct CUctx_st *ctx;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	CUdeviceptr memory;
	size_t row, rows;
	bool borrowed; /* a level of a mipmapped array */
};

struct CUmipmappedArray_st {
	uint32_t magic;
	struct CUctx_st *ctx;
	unsigned levels;
	CUdeviceptr memory;
	struct CUarray_st level[];
};

static size_t element_size(int format)
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
		return 0;
	}
}

static CUresult shape(const CUDA_ARRAY3D_DESCRIPTOR *d, size_t *ret_row, size_t *ret_rows,
		      size_t *ret_bytes)
{
	size_t element = element_size(d->Format), bytes = 0;

	if (d->Width == 0 || element == 0 ||
	    (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4))
		return CUDA_ERROR_INVALID_VALUE;
	if ((d->Flags & CUDA_ARRAY3D_SPARSE) != 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (__builtin_mul_overflow(d->Width, element * d->NumChannels, ret_row) ||
	    __builtin_mul_overflow(d->Height > 0 ? d->Height : 1, d->Depth > 0 ? d->Depth : 1,
				   ret_rows) ||
	    __builtin_mul_overflow(*ret_row, *ret_rows, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult allocate(size_t bytes, enum sim_heap_kind heap, CUdeviceptr *ret,
			 struct CUctx_st **ret_ctx)
{
	CUresult r = sim_current(ret_ctx);

	if (r == CUDA_SUCCESS)
		r = sim_unsafe();
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&sim_big);
	r = sim_alloc(*ret_ctx, bytes, heap, ret);
	pthread_mutex_unlock(&sim_big);
	return r;
}

/* If its context is gone, so is the memory, and something else may lie there now. */
static void release(const struct CUctx_st *ctx, CUdeviceptr memory)
{
	pthread_mutex_lock(&sim_big);
	if (ctx->alive)
		sim_free((uintptr_t)memory);
	pthread_mutex_unlock(&sim_big);
}

static enum sim_heap_kind heap_for(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return d->Height == 0 && d->Depth == 0 ? SIM_HEAP_LINES : SIM_HEAP_ARRAYS;
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct CUarray_st a = { .magic = SIM_MAGIC_ARRAY };
	size_t bytes = 0;
	CUresult r;

	if (array == NULL || desc == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	a.desc = *desc;
	r = shape(desc, &a.row, &a.rows, &bytes);
	if (r == CUDA_SUCCESS)
		r = allocate(bytes, heap_for(desc), &a.memory, &a.ctx);
	if (r != CUDA_SUCCESS)
		return r;
	*array = malloc(sizeof(a));
	if (*array == NULL) {
		release(a.ctx, a.memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	**array = a;
	return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 0 };

	if (desc == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	d.Width = desc->Width;
	d.Height = desc->Height;
	d.Format = desc->Format;
	d.NumChannels = desc->NumChannels;
	return cuArray3DCreate_v2(array, &d);
}

static bool is_array(CUarray a)
{
	return a != NULL && a->magic == SIM_MAGIC_ARRAY;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array)
{
	if (!is_array(array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (desc == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*desc = array->desc;
	return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array)
{
	if (!is_array(array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (desc == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*desc = (CUDA_ARRAY_DESCRIPTOR){ .Width = array->desc.Width,
					 .Height = array->desc.Height,
					 .Format = array->desc.Format,
					 .NumChannels = array->desc.NumChannels };
	return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray array)
{
	if (!is_array(array) || array->borrowed)
		return CUDA_ERROR_INVALID_HANDLE;
	release(array->ctx, array->memory);
	array->magic = 0;
	free(array);
	return CUDA_SUCCESS;
}

bool sim_array_rows(CUarray a, size_t x, size_t y, size_t width, size_t n, char **ret_at,
		    size_t *ret_pitch)
{
	if (!is_array(a) || !a->ctx->alive || x > a->row || width > a->row - x || y > a->rows ||
	    n > a->rows - y)
		return false;
	*ret_at = (char *)(uintptr_t)a->memory + y * a->row + x;
	*ret_pitch = a->row;
	return true;
}

/* --- mipmaps: all levels in one piece --- */

static CUDA_ARRAY3D_DESCRIPTOR halve(CUDA_ARRAY3D_DESCRIPTOR d)
{
	d.Width = d.Width > 1 ? d.Width / 2 : 1;
	d.Height = d.Height > 1 ? d.Height / 2 : d.Height;
	if ((d.Flags & CUDA_ARRAY3D_LAYERED) == 0)
		d.Depth = d.Depth > 1 ? d.Depth / 2 : d.Depth;
	return d;
}

/* Lays the levels out from offset 0; *ret_bytes is their sum. */
static CUresult lay_out(CUmipmappedArray m, CUDA_ARRAY3D_DESCRIPTOR d, size_t *ret_bytes)
{
	size_t sum = 0;

	for (unsigned i = 0; i < m->levels; i++) {
		struct CUarray_st *a = &m->level[i];
		size_t bytes = 0;
		CUresult r;

		*a = (struct CUarray_st){
			.magic = SIM_MAGIC_ARRAY, .desc = d, .memory = sum, .borrowed = true
		};
		r = shape(&d, &a->row, &a->rows, &bytes);
		if (r != CUDA_SUCCESS)
			return r;
		if (__builtin_add_overflow(sum, bytes, &sum))
			return CUDA_ERROR_INVALID_VALUE;
		d = halve(d);
	}
	*ret_bytes = sum;
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc,
				unsigned int levels)
{
	CUmipmappedArray m;
	size_t bytes = 0;
	CUresult r;

	if (array == NULL || desc == NULL || levels == 0 || levels > 32)
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m) + levels * sizeof(m->level[0]));
	if (m == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->magic = SIM_MAGIC_MIP;
	m->levels = levels;
	r = lay_out(m, *desc, &bytes);
	if (r == CUDA_SUCCESS)
		r = allocate(bytes, SIM_HEAP_ARRAYS, &m->memory, &m->ctx);
	if (r != CUDA_SUCCESS) {
		free(m);
		return r;
	}
	for (unsigned i = 0; i < levels; i++) {
		m->level[i].memory += m->memory;
		m->level[i].ctx = m->ctx;
	}
	*array = m;
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mip, unsigned int level)
{
	if (mip == NULL || mip->magic != SIM_MAGIC_MIP)
		return CUDA_ERROR_INVALID_HANDLE;
	if (array == NULL || level >= mip->levels)
		return CUDA_ERROR_INVALID_VALUE;
	*array = &mip->level[level];
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mip)
{
	if (mip == NULL || mip->magic != SIM_MAGIC_MIP)
		return CUDA_ERROR_INVALID_HANDLE;
	release(mip->ctx, mip->memory);
	mip->magic = 0;
	free(mip);
	return CUDA_SUCCESS;
}
