/* Copies and fills. The bytes move at once, in the calling thread; the time it takes on the card is
 * queued on the stream like any other work. */
#include "sim/cuda_priv.h"

#include <string.h>

enum direction { TO_DEVICE, TO_HOST, ON_DEVICE };

static uint64_t copy_ns(const struct sim_device *d, size_t bytes, enum direction way)
{
	const struct rf_gpu_model *m = d->card->model;
	unsigned gbps = way == ON_DEVICE ? m->memory_gbps / 2 : m->pcie_gbps;

	/* 10^9 bytes a second is one byte a nanosecond. */
	return 1000 + bytes / (gbps > 0 ? gbps : 1);
}

static bool on_device(CUdeviceptr p, size_t n)
{
	struct sim_device *d;
	bool ok;

	pthread_mutex_lock(&sim_big);
	ok = sim_device_range((uintptr_t)p, n, &d);
	pthread_mutex_unlock(&sim_big);
	return ok;
}

static CUresult queue_copy(CUstream handle, size_t n, enum direction way, bool wait)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_of(handle, &s);

	if (r == CUDA_SUCCESS)
		r = sim_submit(s, copy_ns(s->ctx->dev, n, way));
	return r == CUDA_SUCCESS && wait ? sim_wait(s->ctx, s->last) : r;
}

static CUresult copy(void *dst, const void *src, size_t n, enum direction way, CUstream handle,
		     bool wait)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_of(handle, &s);

	if (r != CUDA_SUCCESS || n == 0)
		return r;
	if (dst == NULL || src == NULL || (way != TO_HOST && !on_device((uintptr_t)dst, n)) ||
	    (way != TO_DEVICE && !on_device((uintptr_t)src, n)))
		return CUDA_ERROR_INVALID_VALUE;
	memmove(dst, src, n);
	return queue_copy(handle, n, way, wait);
}

#define PTR(p) ((void *)(uintptr_t)(p))

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
	return copy(PTR(dst), src, n, TO_DEVICE, NULL, true);
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t n)
{
	return cuMemcpyHtoD_v2(dst, src, n);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
	return copy(PTR(dst), src, n, TO_DEVICE, stream, false);
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
	return cuMemcpyHtoDAsync_v2(dst, src, n, stream);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
	return copy(dst, PTR(src), n, TO_HOST, NULL, true);
}

CUresult cuMemcpyDtoH_v2_ptds(void *dst, CUdeviceptr src, size_t n)
{
	return cuMemcpyDtoH_v2(dst, src, n);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy(dst, PTR(src), n, TO_HOST, stream, false);
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return cuMemcpyDtoHAsync_v2(dst, src, n, stream);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy(PTR(dst), PTR(src), n, ON_DEVICE, NULL, false);
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return cuMemcpyDtoD_v2(dst, src, n);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy(PTR(dst), PTR(src), n, ON_DEVICE, stream, false);
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return cuMemcpyDtoDAsync_v2(dst, src, n, stream);
}

/* Either side may be host or device memory. */
static CUresult copy_any(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream, bool wait)
{
	bool to = on_device(dst, n), from = on_device(src, n);
	enum direction way = from && to ? ON_DEVICE : to ? TO_DEVICE : TO_HOST;

	if (!to && !from)
		return CUDA_ERROR_INVALID_VALUE;
	return copy(PTR(dst), PTR(src), n, way, stream, wait);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy_any(dst, src, n, NULL, true);
}

CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy_any(dst, src, n, NULL, true);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy_any(dst, src, n, stream, false);
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy_any(dst, src, n, stream, false);
}

/* --- 2D --- */

struct side {
	char *at;
	size_t pitch;
	bool host;
};

static bool resolve_linear(uintptr_t base, size_t x, size_t y, size_t pitch, size_t width, size_t n,
			   bool device, struct side *ret)
{
	size_t span;

	if (base == 0 || pitch < width || __builtin_mul_overflow(pitch, n - 1, &span) ||
	    __builtin_add_overflow(span, width, &span))
		return false;
	ret->at = (char *)base + y * pitch + x;
	ret->pitch = pitch;
	ret->host = !device;
	return !device || on_device((uintptr_t)ret->at, span);
}

static bool resolve_source(const CUDA_MEMCPY2D *c, struct side *ret)
{
	size_t pitch = c->srcPitch != 0 ? c->srcPitch : c->WidthInBytes;

	*ret = (struct side){ 0 };
	if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY)
		return sim_array_rows(c->srcArray, c->srcXInBytes, c->srcY, c->WidthInBytes,
				      c->Height, &ret->at, &ret->pitch);
	if (c->srcMemoryType == CU_MEMORYTYPE_HOST)
		return resolve_linear((uintptr_t)c->srcHost, c->srcXInBytes, c->srcY, pitch,
				      c->WidthInBytes, c->Height, false, ret);
	return resolve_linear((uintptr_t)c->srcDevice, c->srcXInBytes, c->srcY, pitch,
			      c->WidthInBytes, c->Height, true, ret);
}

static bool resolve_target(const CUDA_MEMCPY2D *c, struct side *ret)
{
	size_t pitch = c->dstPitch != 0 ? c->dstPitch : c->WidthInBytes;

	*ret = (struct side){ 0 };
	if (c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		return sim_array_rows(c->dstArray, c->dstXInBytes, c->dstY, c->WidthInBytes,
				      c->Height, &ret->at, &ret->pitch);
	if (c->dstMemoryType == CU_MEMORYTYPE_HOST)
		return resolve_linear((uintptr_t)c->dstHost, c->dstXInBytes, c->dstY, pitch,
				      c->WidthInBytes, c->Height, false, ret);
	return resolve_linear((uintptr_t)c->dstDevice, c->dstXInBytes, c->dstY, pitch,
			      c->WidthInBytes, c->Height, true, ret);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream handle, bool wait)
{
	struct CUstream_st *s;
	struct side from, to;
	enum direction way;
	CUresult r = sim_stream_of(handle, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (c == NULL || c->WidthInBytes == 0 || c->Height == 0 || !resolve_source(c, &from) ||
	    !resolve_target(c, &to))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < c->Height; i++)
		memmove(to.at + i * to.pitch, from.at + i * from.pitch, c->WidthInBytes);
	way = from.host ? TO_DEVICE : to.host ? TO_HOST : ON_DEVICE;
	return queue_copy(handle, c->WidthInBytes * c->Height, way, wait);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c)
{
	return copy_2d(c, NULL, true);
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *c)
{
	return copy_2d(c, NULL, true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c)
{
	return copy_2d(c, NULL, true);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
	return copy_2d(c, stream, false);
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *c, CUstream stream)
{
	return copy_2d(c, stream, false);
}

/* --- fills --- */

static CUresult fill(CUdeviceptr dst, unsigned value, size_t unit, size_t n, CUstream handle)
{
	struct CUstream_st *s;
	size_t bytes = 0;
	CUresult r = sim_stream_of(handle, &s);

	if (r != CUDA_SUCCESS || n == 0)
		return r;
	if (__builtin_mul_overflow(unit, n, &bytes) || dst % unit != 0 || !on_device(dst, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (unit == 1)
		memset(PTR(dst), (int)value, n);
	for (size_t i = 0; unit == 2 && i < n; i++)
		((uint16_t *)PTR(dst))[i] = (uint16_t)value;
	for (size_t i = 0; unit == 4 && i < n; i++)
		((uint32_t *)PTR(dst))[i] = value;
	return queue_copy(handle, bytes, ON_DEVICE, false);
}

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n)
{
	return fill(dst, value, 1, n, NULL);
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr dst, unsigned char value, size_t n)
{
	return fill(dst, value, 1, n, NULL);
}

CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n)
{
	return fill(dst, value, 2, n, NULL);
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr dst, unsigned short value, size_t n)
{
	return fill(dst, value, 2, n, NULL);
}

CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t n)
{
	return fill(dst, value, 4, n, NULL);
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr dst, unsigned int value, size_t n)
{
	return fill(dst, value, 4, n, NULL);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
	return fill(dst, value, 1, n, stream);
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
	return fill(dst, value, 1, n, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
	return fill(dst, value, 2, n, stream);
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
	return fill(dst, value, 2, n, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
	return fill(dst, value, 4, n, stream);
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
	return fill(dst, value, 4, n, stream);
}
