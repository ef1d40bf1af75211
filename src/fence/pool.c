/* Stream-ordered allocations. A pool takes memory from the card in pieces of its own and keeps what
 * is freed, so the pool is charged for what it has reserved, not for what its allocations add up
 * to.
 *
 * An allocation first reserves what the pool may have to fetch; afterwards the pool is asked what
 * it holds. Anything it fetched beyond that must fit too, or the allocation is undone. */
#include "fence/fence.h"

struct request {
	CUdeviceptr *dptr;
	size_t bytes;
	CUmemoryPool pool;
	CUstream stream;
	bool per_thread;
};

/* The lock is held while the driver works. A driver that calls its own exported functions by name
 * comes back here on the same thread; such a call is part of one already accounted for. */
static _Thread_local bool inside;

static bool enter(struct rf_fence *f)
{
	if (inside)
		return false;
	pthread_mutex_lock(&f->pool_lock);
	inside = true;
	return true;
}

static void leave(struct rf_fence *f)
{
	inside = false;
	pthread_mutex_unlock(&f->pool_lock);
}

static uint64_t pool_says(CUmemoryPool pool, int attribute)
{
	cuuint64_t n = 0;

	return RF_REAL(cuMemPoolGetAttribute)(pool, attribute, &n) == CUDA_SUCCESS ? n : UINT64_MAX;
}

static struct rf_pool *slot_of(struct rf_fence *f, CUmemoryPool handle)
{
	for (unsigned i = 0; i < f->pools; i++) {
		if (f->pool[i].known && !f->pool[i].destroyed && f->pool[i].handle == handle)
			return &f->pool[i];
	}
	return NULL;
}

static struct rf_pool *add(struct rf_fence *f, CUmemoryPool handle, int card)
{
	for (unsigned i = 0; i < RF_POOLS; i++) {
		if (!f->pool[i].known) {
			f->pool[i] =
				(struct rf_pool){ .handle = handle, .card = card, .known = true };
			f->pools = i < f->pools ? f->pools : i + 1;
			return &f->pool[i];
		}
	}
	return NULL;
}

/* Pools nobody created: one per device, there from the start. */
static struct rf_pool *adopt_default(struct rf_fence *f, CUmemoryPool handle)
{
	int n = 0;

	RF_REAL(cuDeviceGetCount)(&n);
	for (CUdevice dev = 0; dev < n && dev < RF_DEVICES; dev++) {
		CUmemoryPool pool = NULL;
		unsigned card;

		if (RF_REAL(cuDeviceGetDefaultMemPool)(&pool, dev) == CUDA_SUCCESS &&
		    pool == handle && rf_card_of(f, dev, &card) == CUDA_SUCCESS)
			return add(f, handle, (int)card);
	}
	return NULL;
}

/* Lowers or raises the charge to what the pool has reserved. Of a pool that cannot be asked, that
 * is at least its live allocations. */
static CUresult match(struct rf_fence *f, struct rf_pool *p)
{
	uint64_t reserved = p->destroyed
				    ? UINT64_MAX
				    : pool_says(p->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	CUresult r;

	if (reserved == UINT64_MAX || reserved < p->live)
		reserved = p->live;
	if (reserved <= p->charged) {
		rf_release(f, (unsigned)p->card, p->charged - reserved);
		p->charged = reserved;
		return CUDA_SUCCESS;
	}
	r = rf_reserve(f, (unsigned)p->card, reserved - p->charged);
	if (r == CUDA_SUCCESS)
		p->charged = reserved;
	return r;
}

/* What the pool may have to fetch beyond its idle bytes. */
static uint64_t lacking(const struct rf_pool *p, uint64_t bytes)
{
	uint64_t idle = p->charged - p->live;

	return bytes > idle ? bytes - idle : 0;
}

/* Idle bytes of this process are its own to give back. False if there is no pool on the card. */
static bool squeeze(struct rf_fence *f, int card)
{
	bool any = false;

	for (unsigned i = 0; i < f->pools; i++) {
		struct rf_pool *p = &f->pool[i];

		if (!p->known || p->destroyed || p->card != card)
			continue;
		RF_REAL(cuMemPoolTrimTo)(p->handle, 0);
		match(f, p);
		any = true;
	}
	return any;
}

bool rf_pool_squeeze(struct rf_fence *f, unsigned card)
{
	bool any;

	if (!enter(f))
		return false;
	any = squeeze(f, (int)card);
	leave(f);
	return any;
}

void rf_pool_refresh(struct rf_fence *f)
{
	if (!enter(f))
		return;
	for (unsigned i = 0; i < f->pools; i++) {
		if (f->pool[i].known && !f->pool[i].destroyed && f->pool[i].card >= 0)
			match(f, &f->pool[i]);
	}
	leave(f);
}

static CUresult make_room(struct rf_fence *f, struct rf_pool *p, uint64_t bytes)
{
	uint64_t need = lacking(p, bytes);
	CUresult r = need ? rf_reserve(f, (unsigned)p->card, need) : CUDA_SUCCESS;

	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		squeeze(f, p->card);
		need = lacking(p, bytes);
		r = rf_reserve(f, (unsigned)p->card, need);
	}
	if (r == CUDA_SUCCESS)
		p->charged += need;
	return r;
}

static CUresult call(const struct request *q)
{
	return q->per_thread
		       ? RF_REAL(cuMemAllocFromPoolAsync_ptsz)(q->dptr, q->bytes, q->pool,
							       q->stream)
		       : RF_REAL(cuMemAllocFromPoolAsync)(q->dptr, q->bytes, q->pool, q->stream);
}

/* The pool took more than there was room for: hand it all back, waiting for the stream if need be.
 */
static void undo(struct rf_fence *f, struct rf_pool *p, const struct request *q)
{
	if (q->per_thread) {
		RF_REAL(cuMemFreeAsync_ptsz)(*q->dptr, q->stream);
		RF_REAL(cuStreamSynchronize_ptsz)(q->stream);
	} else {
		RF_REAL(cuMemFreeAsync)(*q->dptr, q->stream);
		RF_REAL(cuStreamSynchronize)(q->stream);
	}
	RF_REAL(cuMemPoolTrimTo)(p->handle, 0);
	match(f, p);
}

/* Under the pool lock, with room in the table. */
static CUresult take(struct rf_fence *f, struct rf_pool *p, const struct request *q)
{
	CUresult r = make_room(f, p, q->bytes);

	if (r != CUDA_SUCCESS)
		return r;
	r = call(q);
	if (r != CUDA_SUCCESS) {
		match(f, p);
		return r;
	}
	p->live += q->bytes;
	r = match(f, p);
	if (r != CUDA_SUCCESS) {
		p->live -= q->bytes;
		undo(f, p, q);
	}
	return r;
}

static CUresult take_and_enter(struct rf_fence *f, struct rf_pool *p, const struct request *q)
{
	struct rf_entry e = { .bytes = q->bytes,
			      .owner = (uint64_t)(p - f->pool),
			      .pooled = true,
			      .space = RF_SPACE_POINTER,
			      .card = (uint8_t)p->card };
	CUresult r;

	if (!rf_table_room(&f->table))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = take(f, p, q);
	if (r != CUDA_SUCCESS) {
		rf_table_waive(&f->table);
		return r;
	}
	e.key = *q->dptr;
	rf_table_put(&f->table, &e);
	return r;
}

/* A captured allocation becomes a graph node, whose memory nobody counts yet. */
static CUresult no_capture(struct rf_fence *f, const struct request *q)
{
	int status = 0;
	CUresult r = q->per_thread ? RF_REAL(cuStreamIsCapturing_ptsz)(q->stream, &status)
				   : RF_REAL(cuStreamIsCapturing)(q->stream, &status);

	if (r != CUDA_SUCCESS)
		return r;
	return status && f->any_cap ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult allocate(struct rf_fence *f, const struct request *q)
{
	CUresult r = no_capture(f, q);
	struct rf_pool *p;

	if (r != CUDA_SUCCESS)
		return r;
	if (!enter(f))
		return call(q);
	p = slot_of(f, q->pool);
	if (!p)
		p = adopt_default(f, q->pool);
	if (p && p->card >= 0)
		r = take_and_enter(f, p, q);
	else if (p || !f->any_cap)
		r = call(q);
	else
		r = CUDA_ERROR_NOT_SUPPORTED;
	leave(f);
	return r;
}

/* The device a stream works on; the default streams belong to the current context. */
static CUresult device_of(CUstream stream, CUdevice *ret_dev)
{
	CUcontext ctx;
	CUresult r;

	if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return RF_REAL(cuCtxGetDevice)(ret_dev);
	r = RF_REAL(cuStreamGetCtx)(stream, &ctx);
	if (r == CUDA_SUCCESS)
		r = RF_REAL(cuCtxPushCurrent_v2)(ctx);
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuCtxGetDevice)(ret_dev);
	RF_REAL(cuCtxPopCurrent_v2)(&ctx);
	return r;
}

/* Names the pool that the driver would pick, so that the one charged is the one used. */
static CUresult alloc_async(CUdeviceptr *dptr, size_t bytes, CUstream stream, bool per_thread)
{
	struct request q = {
		.dptr = dptr, .bytes = bytes, .stream = stream, .per_thread = per_thread
	};
	struct rf_fence *f = rf_join();
	CUdevice dev;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(stream, &dev);
	if (r == CUDA_SUCCESS)
		r = RF_REAL(cuDeviceGetMemPool)(&q.pool, dev);
	return r == CUDA_SUCCESS ? allocate(f, &q) : r;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_async(dptr, bytes, stream, false);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_async(dptr, bytes, stream, true);
}

static CUresult alloc_from_pool(struct request q)
{
	struct rf_fence *f = rf_join();

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	return q.dptr ? allocate(f, &q) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				 CUstream stream)
{
	return alloc_from_pool((struct request){ dptr, bytes, pool, stream, false });
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				      CUstream stream)
{
	return alloc_from_pool((struct request){ dptr, bytes, pool, stream, true });
}

/* A pool of managed memory does not say what it has reserved on which card. */
static CUresult card_for(struct rf_fence *f, const CUmemPoolProps *props, int *ret_card)
{
	unsigned card = 0;
	CUresult r;

	if (!props || (f->any_cap && props->allocType == RF_CU_MEM_ALLOCATION_TYPE_MANAGED))
		return props ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	*ret_card = -1;
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_SUCCESS;
	r = rf_card_of(f, props->location.id, &card);
	if (r == CUDA_SUCCESS)
		*ret_card = (int)card;
	return r;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	struct rf_fence *f = rf_join();
	struct rf_pool *p;
	int card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = card_for(f, props, &card);
	if (r != CUDA_SUCCESS)
		return r;
	if (!enter(f))
		return RF_REAL(cuMemPoolCreate)(pool, props);
	r = RF_REAL(cuMemPoolCreate)(pool, props);
	p = r == CUDA_SUCCESS ? add(f, *pool, card) : NULL;
	if (r == CUDA_SUCCESS && !p) {
		RF_REAL(cuMemPoolDestroy)(*pool);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	leave(f);
	return r;
}

/* Once the last allocation of a destroyed pool is gone, so is its record. */
static void match_or_drop(struct rf_fence *f, struct rf_pool *p)
{
	if (p->card >= 0)
		match(f, p);
	if (p->destroyed && p->live == 0)
		*p = (struct rf_pool){ 0 };
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct rf_fence *f = rf_join();
	struct rf_pool *p;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!enter(f))
		return RF_REAL(cuMemPoolDestroy)(pool);
	p = slot_of(f, pool);
	r = RF_REAL(cuMemPoolDestroy)(pool);
	if (r == CUDA_SUCCESS && p) {
		p->destroyed = true;
		match_or_drop(f, p);
	}
	leave(f);
	return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	struct rf_fence *f = rf_join();
	struct rf_pool *p;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!enter(f))
		return RF_REAL(cuMemPoolTrimTo)(pool, keep);
	r = RF_REAL(cuMemPoolTrimTo)(pool, keep);
	p = slot_of(f, pool);
	if (p && p->card >= 0)
		match(f, p);
	leave(f);
	return r;
}

/* What is freed stays with a living pool until it says otherwise, when next asked. */
void rf_pool_freed(struct rf_fence *f, const struct rf_entry *e)
{
	struct rf_pool *p = &f->pool[e->owner];
	bool own = enter(f);

	p->live -= e->bytes < p->live ? e->bytes : p->live;
	if (p->destroyed)
		match_or_drop(f, p);
	if (own)
		leave(f);
}
