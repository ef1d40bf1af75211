/* Copies and fills that the card does by itself: paced like launches.
 *
 * What touches the host goes by the copy engines, beside the kernels of others, and is not held up. A
 * copy to the host that returns when it is done tells that the stream is, too. */
#include "fence/fence.h"

struct move {
	uint64_t bytes;
	bool on_card; /* from the card's memory into it */
	bool to_host;
};

#define BATCH_LOOK 32 /* copies of a batch that are looked at */

static struct move fill(uint64_t width, uint64_t height)
{
	return (struct move){ .bytes = width * height, .on_card = true };
}

/* Memory that the driver does not know is the host's. */
static bool is_host(CUdeviceptr p)
{
	unsigned int type = 0;

	return RF_REAL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) !=
		       CUDA_SUCCESS ||
	       type == CU_MEMORYTYPE_HOST;
}

static struct move between(CUdeviceptr dst, CUdeviceptr src, uint64_t bytes)
{
	bool to_host = is_host(dst);

	return (struct move){ .bytes = bytes,
			      .on_card = !to_host && !is_host(src),
			      .to_host = to_host };
}

static bool side_is_host(int type, CUdeviceptr unified)
{
	return type == CU_MEMORYTYPE_HOST || (type == CU_MEMORYTYPE_UNIFIED && is_host(unified));
}

static struct move shaped(int to, CUdeviceptr dst, int from, CUdeviceptr src, uint64_t bytes)
{
	bool to_host = side_is_host(to, dst);

	return (struct move){ .bytes = bytes,
			      .on_card = !to_host && !side_is_host(from, src),
			      .to_host = to_host };
}

static struct move plane(const CUDA_MEMCPY2D *c)
{
	if (!c)
		return (struct move){ 0 };
	return shaped(c->dstMemoryType, c->dstDevice, c->srcMemoryType, c->srcDevice,
		      c->WidthInBytes * c->Height);
}

static struct move box(const CUDA_MEMCPY3D *c)
{
	if (!c)
		return (struct move){ 0 };
	return shaped(c->dstMemoryType, c->dstDevice, c->srcMemoryType, c->srcDevice,
		      c->WidthInBytes * c->Height * c->Depth);
}

/* A batch is the card's own as soon as one of its copies is. */
static struct move batch(const CUdeviceptr *dst, const CUdeviceptr *src, const size_t *sizes,
			 size_t n)
{
	struct move all = { 0 };

	if (!dst || !src || !sizes)
		return all;
	for (size_t i = 0; i < n; i++) {
		all.bytes += sizes[i];
		if (i < BATCH_LOOK && !all.on_card)
			all.on_card = between(dst[i], src[i], 0).on_card;
	}
	return all;
}

/* No function lies as low as an id, so the keys of kernels are other ones. */
static uint64_t key_of(enum rf_symbol_id id, const struct move *m)
{
	uint64_t order = 63 - (uint64_t)__builtin_clzll(m->bytes | 1);

	return (uint64_t)id * 64 + order;
}

static void moved(const struct move *m, CUstream stream, bool waits, CUresult r)
{
	if (m->on_card)
		rf_share_after(stream, r == CUDA_SUCCESS);
	else if (m->to_host && waits && r == CUDA_SUCCESS)
		rf_share_synced(stream);
}

/* --- the calls: name, parameters, arguments, what it moves --- */

#define OPEN(...) __VA_ARGS__
#define WITH(list, last) (OPEN list, last)

#define CALL(name, params, args, what, stream, waits)                                              \
	__attribute__((visibility("default"))) CUresult name params;                               \
	CUresult name params                                                                       \
	{                                                                                          \
		struct move m = rf_share_paced() ? (what) : (struct move){ 0 };                    \
		uint64_t key = key_of(RF_SYM_##name, &m);                                          \
		CUresult r;                                                                        \
                                                                                                   \
		if (m.on_card ? rf_share_along(key, stream) : !(m.to_host && (waits)))             \
			return RF_REAL(name) args;                                                 \
		if (m.on_card)                                                                     \
			rf_share_before(key, stream);                                              \
		else                                                                               \
			rf_share_syncing();                                                        \
		r = RF_REAL(name) args;                                                            \
		moved(&m, stream, waits, r);                                                       \
		return r;                                                                          \
	}
#define SYNC(name, params, args, what)                                                             \
	CALL(name, params, args, what, NULL, true)                                                 \
	CALL(name##_ptds, params, args, what, CU_STREAM_PER_THREAD, true)
#define ASYNC(name, params, args, what)                                                            \
	CALL(name, WITH(params, CUstream stream), WITH(args, stream), what, stream, false)         \
	CALL(name##_ptsz, WITH(params, CUstream stream), WITH(args, stream), what,                 \
	     rf_stream(stream, true), false)
#define BOTH(sync, async, params, args, what)                                                      \
	SYNC(sync, params, args, what)                                                             \
	ASYNC(async, params, args, what)

BOTH(cuMemsetD8_v2, cuMemsetD8Async, (CUdeviceptr dst, unsigned char v, size_t n), (dst, v, n),
     fill(n, 1))
BOTH(cuMemsetD16_v2, cuMemsetD16Async, (CUdeviceptr dst, unsigned short v, size_t n), (dst, v, n),
     fill(n, 2))
BOTH(cuMemsetD32_v2, cuMemsetD32Async, (CUdeviceptr dst, unsigned int v, size_t n), (dst, v, n),
     fill(n, 4))
BOTH(cuMemsetD2D8_v2, cuMemsetD2D8Async,
     (CUdeviceptr dst, size_t pitch, unsigned char v, size_t width, size_t height),
     (dst, pitch, v, width, height), fill(width, height))
BOTH(cuMemsetD2D16_v2, cuMemsetD2D16Async,
     (CUdeviceptr dst, size_t pitch, unsigned short v, size_t width, size_t height),
     (dst, pitch, v, width, height), fill(width * 2, height))
BOTH(cuMemsetD2D32_v2, cuMemsetD2D32Async,
     (CUdeviceptr dst, size_t pitch, unsigned int v, size_t width, size_t height),
     (dst, pitch, v, width, height), fill(width * 4, height))
BOTH(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n),
     (dst, src, n), fill(n, 1))
BOTH(cuMemcpy, cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n),
     between(dst, src, n))
BOTH(cuMemcpyPeer, cuMemcpyPeerAsync,
     (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n),
     (dst, to, src, from, n), fill(n, 1))
BOTH(cuMemcpy2D_v2, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy), (copy), plane(copy))
BOTH(cuMemcpy3D_v2, cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy), (copy), box(copy))
/* CUDA_MEMCPY3D_PEER has the contexts where the other is reserved. */
BOTH(cuMemcpy3DPeer, cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D *copy), (copy), box(copy))
SYNC(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), (copy), plane(copy))
SYNC(cuMemcpyDtoA_v2, (CUarray dst, size_t to, CUdeviceptr src, size_t n), (dst, to, src, n),
     fill(n, 1))
SYNC(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src, size_t from, size_t n), (dst, src, from, n),
     fill(n, 1))
SYNC(cuMemcpyAtoA_v2, (CUarray dst, size_t to, CUarray src, size_t from, size_t n),
     (dst, to, src, from, n), fill(n, 1))
SYNC(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n), (dst, src, n),
     ((struct move){ .to_host = true }))
SYNC(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t from, size_t n), (dst, src, from, n),
     ((struct move){ .to_host = true }))

/* Of these the number of copies must do for the bytes. */
ASYNC(cuMemcpy3DBatchAsync, (size_t n, void *list, size_t *fail, unsigned long long flags),
      (n, list, fail, flags), fill(n, 1))
ASYNC(cuMemcpy3DBatchAsync_v2, (size_t n, void *list, unsigned long long flags), (n, list, flags),
      fill(n, 1))
ASYNC(cuMemcpy3DWithAttributesAsync, (void *copy, unsigned long long flags), (copy, flags),
      fill(1, 1))
ASYNC(cuMemBatchDecompressAsync, (void *list, size_t n, unsigned int flags, size_t *fail),
      (list, n, flags, fail), fill(n, 1))

ASYNC(cuMemcpyBatchAsync,
      (CUdeviceptr * dst, CUdeviceptr *src, size_t *sizes, size_t n, void *attrs,
       size_t *attrs_from, size_t n_attrs, size_t *fail),
      (dst, src, sizes, n, attrs, attrs_from, n_attrs, fail), batch(dst, src, sizes, n))
ASYNC(cuMemcpyBatchAsync_v2,
      (CUdeviceptr * dst, CUdeviceptr *src, size_t *sizes, size_t n, void *attrs,
       size_t *attrs_from, size_t n_attrs),
      (dst, src, sizes, n, attrs, attrs_from, n_attrs), batch(dst, src, sizes, n))
ASYNC(cuMemcpyWithAttributesAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, void *attr),
      (dst, src, n, attr), between(dst, src, n))
