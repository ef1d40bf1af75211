/* Copies and fills. The bytes move at once, in the calling thread; the time it takes on the card is
 * queued on the stream like any other work. */
#include "sim/cuda_graph.h"

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

/* Queues what the copy or fill costs, or makes a node of it. */
static CUresult queue(struct CUstream_st *s, const struct sim_work *w, bool wait)
{
	CUresult r;

	if (sim_capturing(s)) {
		pthread_mutex_lock(&sim_big);
		r = sim_capture_work(s, w);
		pthread_mutex_unlock(&sim_big);
		return r;
	}
	r = sim_submit(s, w->cost_ns);
	return r == CUDA_SUCCESS && wait ? sim_wait(s->ctx, sim_stream_last(s)) : r;
}

/* The stream of a copy; one that waits must not meet a capture. */
static CUresult copy_stream(CUstream handle, bool wait, struct CUstream_st **ret)
{
	CUresult r = sim_work_stream(handle, ret);

	return r == CUDA_SUCCESS && wait ? sim_unsafe_stream(*ret) : r;
}

#define PTR(p) ((void *)(uintptr_t)(p))

static CUresult copy_3d(const CUDA_MEMCPY3D *c, struct CUstream_st *s, bool wait)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
	CUresult r;

	w.copy = *c;
	r = sim_copy_3d(c, s->ctx->dev, !sim_capturing(s), &w.cost_ns);
	return r == CUDA_SUCCESS ? queue(s, &w, wait) : r;
}

static CUresult copy(void *dst, const void *src, size_t n, enum direction way, CUstream handle,
		     bool wait)
{
	CUDA_MEMCPY3D c = { .srcMemoryType =
				    way == TO_DEVICE ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
			    .dstMemoryType =
				    way == TO_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
			    .srcHost = src,
			    .srcDevice = (uintptr_t)src,
			    .dstHost = dst,
			    .dstDevice = (uintptr_t)dst,
			    .WidthInBytes = n,
			    .Height = 1,
			    .Depth = 1 };
	struct CUstream_st *s;
	CUresult r = copy_stream(handle, wait, &s);

	if (r != CUDA_SUCCESS || n == 0)
		return r;
	return copy_3d(&c, s, wait);
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

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
	return copy(PTR(dst), src, n, TO_DEVICE, NULL, true);
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t n)
{
	return copy(PTR(dst), src, n, TO_DEVICE, SIM_PTDS, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
	return copy(PTR(dst), src, n, TO_DEVICE, stream, false);
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
	return copy(PTR(dst), src, n, TO_DEVICE, sim_ptsz(stream), false);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
	return copy(dst, PTR(src), n, TO_HOST, NULL, true);
}

CUresult cuMemcpyDtoH_v2_ptds(void *dst, CUdeviceptr src, size_t n)
{
	return copy(dst, PTR(src), n, TO_HOST, SIM_PTDS, true);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy(dst, PTR(src), n, TO_HOST, stream, false);
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy(dst, PTR(src), n, TO_HOST, sim_ptsz(stream), false);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy(PTR(dst), PTR(src), n, ON_DEVICE, NULL, false);
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy(PTR(dst), PTR(src), n, ON_DEVICE, SIM_PTDS, false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy(PTR(dst), PTR(src), n, ON_DEVICE, stream, false);
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy(PTR(dst), PTR(src), n, ON_DEVICE, sim_ptsz(stream), false);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy_any(dst, src, n, NULL, true);
}

CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy_any(dst, src, n, SIM_PTDS, true);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy_any(dst, src, n, stream, false);
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	return copy_any(dst, src, n, sim_ptsz(stream), false);
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

static enum direction direction(int from, int to)
{
	return from == CU_MEMORYTYPE_HOST ? TO_DEVICE
	       : to == CU_MEMORYTYPE_HOST ? TO_HOST
					  : ON_DEVICE;
}

static CUresult move_2d(const CUDA_MEMCPY2D *c)
{
	struct side from, to;

	if (!resolve_source(c, &from) || !resolve_target(c, &to))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < c->Height; i++)
		memmove(to.at + i * to.pitch, from.at + i * from.pitch, c->WidthInBytes);
	return CUDA_SUCCESS;
}

/* One plane of a 3D copy. Planes of arrays are not told apart. */
static CUDA_MEMCPY2D plane(const CUDA_MEMCPY3D *c, size_t z)
{
	size_t from = (c->srcZ + z) * c->srcHeight * c->srcPitch;
	size_t to = (c->dstZ + z) * c->dstHeight * c->dstPitch;

	return (CUDA_MEMCPY2D){ .srcXInBytes = c->srcXInBytes,
				.srcY = c->srcY,
				.srcMemoryType = c->srcMemoryType,
				.srcHost = (const char *)c->srcHost + from,
				.srcDevice = c->srcDevice + from,
				.srcArray = c->srcArray,
				.srcPitch = c->srcPitch,
				.dstXInBytes = c->dstXInBytes,
				.dstY = c->dstY,
				.dstMemoryType = c->dstMemoryType,
				.dstHost = (char *)c->dstHost + to,
				.dstDevice = c->dstDevice + to,
				.dstArray = c->dstArray,
				.dstPitch = c->dstPitch,
				.WidthInBytes = c->WidthInBytes,
				.Height = c->Height };
}

/* Without `move` only what it will take: the memory of a graph need not be there yet. */
CUresult sim_copy_3d(const CUDA_MEMCPY3D *c, struct sim_device *d, bool move, uint64_t *ret_ns)
{
	bool arrays =
		c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY;
	size_t bytes = 0;
	CUresult r = CUDA_SUCCESS;

	if (c->WidthInBytes == 0 || c->Height == 0 || c->Depth == 0 ||
	    __builtin_mul_overflow(c->WidthInBytes, c->Height, &bytes) ||
	    __builtin_mul_overflow(bytes, c->Depth, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (arrays && (c->Depth > 1 || c->srcZ > 0 || c->dstZ > 0))
		return CUDA_ERROR_NOT_SUPPORTED;
	*ret_ns = copy_ns(d, bytes, direction(c->srcMemoryType, c->dstMemoryType));
	for (size_t z = 0; move && r == CUDA_SUCCESS && z < c->Depth; z++) {
		CUDA_MEMCPY2D p = plane(c, z);

		r = move_2d(&p);
	}
	return r;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream handle, bool wait)
{
	struct CUstream_st *s;
	CUDA_MEMCPY3D d;
	CUresult r = copy_stream(handle, wait, &s);

	if (r != CUDA_SUCCESS)
		return r;
	if (c == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	d = (CUDA_MEMCPY3D){ .srcXInBytes = c->srcXInBytes,
			     .srcY = c->srcY,
			     .srcMemoryType = c->srcMemoryType,
			     .srcHost = c->srcHost,
			     .srcDevice = c->srcDevice,
			     .srcArray = c->srcArray,
			     .srcPitch = c->srcPitch,
			     .dstXInBytes = c->dstXInBytes,
			     .dstY = c->dstY,
			     .dstMemoryType = c->dstMemoryType,
			     .dstHost = c->dstHost,
			     .dstDevice = c->dstDevice,
			     .dstArray = c->dstArray,
			     .dstPitch = c->dstPitch,
			     .WidthInBytes = c->WidthInBytes,
			     .Height = c->Height,
			     .Depth = 1 };
	return copy_3d(&d, s, wait);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c)
{
	return copy_2d(c, NULL, true);
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *c)
{
	return copy_2d(c, SIM_PTDS, true);
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
	return copy_2d(c, sim_ptsz(stream), false);
}

/* --- fills --- */

static void fill_row(uintptr_t at, unsigned value, size_t unit, size_t n)
{
	if (unit == 1)
		memset((void *)at, (int)value, n);
	for (size_t i = 0; unit == 2 && i < n; i++)
		((uint16_t *)at)[i] = (uint16_t)value;
	for (size_t i = 0; unit == 4 && i < n; i++)
		((uint32_t *)at)[i] = value;
}

CUresult sim_fill(const CUDA_MEMSET_NODE_PARAMS *f, struct sim_device *d, bool write,
		  uint64_t *ret_ns)
{
	size_t unit = f->elementSize, bytes = 0;

	if ((unit != 1 && unit != 2 && unit != 4) || f->width == 0 || f->height == 0 ||
	    __builtin_mul_overflow(unit, f->width, &bytes) || f->dst % unit != 0 ||
	    f->pitch % unit != 0 || (f->height > 1 && f->pitch < bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_ns = copy_ns(d, bytes * f->height, ON_DEVICE);
	for (size_t y = 0; write && y < f->height; y++) {
		uintptr_t at = (uintptr_t)f->dst + y * f->pitch;

		if (!on_device(at, bytes))
			return CUDA_ERROR_INVALID_VALUE;
		fill_row(at, f->value, unit, f->width);
	}
	return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr dst, unsigned value, unsigned unit, size_t n, CUstream handle)
{
	struct sim_work w = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	struct CUstream_st *s;
	CUresult r = sim_work_stream(handle, &s);

	if (r != CUDA_SUCCESS || n == 0)
		return r;
	w.fill = (CUDA_MEMSET_NODE_PARAMS){
		.dst = dst, .value = value, .elementSize = unit, .width = n, .height = 1
	};
	r = sim_fill(&w.fill, s->ctx->dev, !sim_capturing(s), &w.cost_ns);
	return r == CUDA_SUCCESS ? queue(s, &w, false) : r;
}

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n)
{
	return fill(dst, value, 1, n, NULL);
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr dst, unsigned char value, size_t n)
{
	return fill(dst, value, 1, n, SIM_PTDS);
}

CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n)
{
	return fill(dst, value, 2, n, NULL);
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr dst, unsigned short value, size_t n)
{
	return fill(dst, value, 2, n, SIM_PTDS);
}

CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t n)
{
	return fill(dst, value, 4, n, NULL);
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr dst, unsigned int value, size_t n)
{
	return fill(dst, value, 4, n, SIM_PTDS);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
	return fill(dst, value, 1, n, stream);
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
	return fill(dst, value, 1, n, sim_ptsz(stream));
}

CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
	return fill(dst, value, 2, n, stream);
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
	return fill(dst, value, 2, n, sim_ptsz(stream));
}

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
	return fill(dst, value, 4, n, stream);
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
	return fill(dst, value, 4, n, sim_ptsz(stream));
}
