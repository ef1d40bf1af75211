/* Stream-ordered allocations. Most go through as pool_book.c says, without a question to the
 * driver. Where nothing is charged ahead, an allocation reserves what the pool has to fetch, under
 * the lock, and asks the pool afterwards; anything it fetched beyond that must fit too, or the
 * allocation is undone. What cannot be undone, because the stream is not that far, is booked all the same.
 * Nothing here ever waits for the program's work. */
#include "fence/pool.h"

#define COST_MOST ((uint64_t)1 << 60)
#define FINE ((uint64_t)2 << 20) /* a page of the card */

struct request {
	CUdeviceptr *dptr;
	size_t bytes;
	CUmemoryPool pool;
	CUstream stream;
	bool per_thread;
	bool named; /* the program named the pool */
};

static CUresult call(const struct request *q)
{
	return q->per_thread
		       ? RF_REAL(cuMemAllocFromPoolAsync_ptsz)(q->dptr, q->bytes, q->pool,
							       q->stream)
		       : RF_REAL(cuMemAllocFromPoolAsync)(q->dptr, q->bytes, q->pool, q->stream);
}

static CUresult call_unnamed(const struct request *q)
{
	return q->per_thread ? RF_REAL(cuMemAllocAsync_ptsz)(q->dptr, q->bytes, q->stream)
			     : RF_REAL(cuMemAllocAsync)(q->dptr, q->bytes, q->stream);
}

static CUresult call_as_asked(const struct request *q)
{
	return q->named ? call(q) : call_unnamed(q);
}

/* --- without a question --- */

/* The most a pool grows for it. Small ones share a granule, of which less than the size of one stays
 * unused; that is paid for here, and the last granule once for all. */
static uint64_t cost_of(const struct rf_pool *p, uint64_t bytes)
{
	uint64_t step = bytes <= p->granule / 32 ? 512 : p->granule;
	uint64_t n;

	if (bytes > COST_MOST / 2)
		return COST_MOST;
	n = (bytes + step - 1) / step * step;
	return step == 512 ? n + n / 16 : n;
}

static bool spend(struct rf_pool *p, uint64_t cost)
{
	uint64_t now = __atomic_add_fetch(&p->spent, cost, __ATOMIC_SEQ_CST);

	if (now <= __atomic_load_n(&p->limit, __ATOMIC_SEQ_CST))
		return true;
	__atomic_sub_fetch(&p->spent, cost, __ATOMIC_SEQ_CST);
	return false;
}

static CUresult call_and_tell(struct rf_pool *p, const struct request *q, uint64_t cost)
{
	CUresult r;

	rf_pool_inside = true;
	r = call(q);
	rf_pool_inside = false;
	__atomic_add_fetch(&p->done, cost, __ATOMIC_RELEASE);
	return r;
}

/* --- to the byte, with the lock held and the limit shut --- */

static uint64_t growth_for(const struct rf_pool *p, uint64_t bytes)
{
	uint64_t step = p->fine ? FINE : p->granule;

	return (bytes + step - 1) / step * step;
}

static bool fits(struct rf_fence *f, const struct rf_pool *p, uint64_t more)
{
	uint64_t cap = f->card[p->card].cap;
	uint64_t sum = rf_ledger_sum(&f->place, (unsigned)p->card);

	return sum <= cap && more <= cap - sum;
}

/* Reserves all the pool may fetch. Where that does not fit but idle bytes should do, the pool should not
 * grow; it is undone if it does. */
static CUresult make_room(struct rf_fence *f, struct rf_pool *p, uint64_t bytes)
{
	uint64_t more = growth_for(p, bytes);
	uint64_t used = rf_pool_says(p, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);

	if (fits(f, p, more) && rf_pool_raise(f, p, p->charged + more) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	if (used <= p->charged && bytes <= p->charged - used)
		return CUDA_SUCCESS;
	return rf_pool_raise(f, p, p->charged + more);
}

/* A pool that grows by more than was thought possible. */
static void learn(struct rf_pool *p, uint64_t bytes, uint64_t before)
{
	uint64_t now = rf_pool_says(p, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);

	if (now == RF_POOL_UNKNOWN || now <= before)
		return;
	p->seen = true;
	while (p->granule < RF_POOL_GRANULE_MOST &&
	       (bytes + p->granule - 1) / p->granule * p->granule < now - before)
		p->granule *= 2;
}

/* Hands back an allocation that made the pool take more than there was room for. */
static void undo(struct rf_fence *f, struct rf_pool *p, const struct request *q)
{
	int mode = rf_pool_relax();

	if (q->per_thread)
		RF_REAL(cuMemFreeAsync_ptsz)(*q->dptr, q->stream);
	else
		RF_REAL(cuMemFreeAsync)(*q->dptr, q->stream);
	rf_pool_freed_in(f, q->stream, q->per_thread);
	rf_pool_retire(f);
	RF_REAL(cuMemPoolTrimTo)(p->handle, 0);
	rf_pool_match(f, p);
	rf_pool_restore(mode);
}

static CUresult try_exactly(struct rf_fence *f, struct rf_pool *p, const struct request *q)
{
	CUresult r = rf_pool_match_exactly(f, p);
	uint64_t before = p->charged;

	if (r == CUDA_SUCCESS)
		r = make_room(f, p, q->bytes);
	if (r != CUDA_SUCCESS)
		return r;
	r = call(q);
	if (r != CUDA_SUCCESS) {
		rf_pool_match(f, p);
		return r;
	}
	learn(p, q->bytes, before);
	r = rf_pool_match(f, p);
	if (r != CUDA_SUCCESS)
		undo(f, p, q);
	return r;
}

/* Refused only after everything idle was given back. */
static CUresult allocate_exactly(struct rf_fence *f, struct rf_pool *p, const struct request *q)
{
	CUresult r;

	if (q->bytes > COST_MOST / 2)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (q->bytes > f->card[p->card].cap) /* and counted as refused */
		return rf_reserve(f, (unsigned)p->card, q->bytes);
	r = try_exactly(f, p, q);
	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	rf_pool_squeeze_locked(f, p->card);
	rf_graph_squeeze(f, (unsigned)p->card);
	return try_exactly(f, p, q);
}

static CUresult alloc_async(struct request q);

/* Another thread has destroyed the pool meanwhile; its record may be another's now. */
static CUresult pool_gone(const struct request *q)
{
	return q->named ? CUDA_ERROR_INVALID_VALUE : alloc_async(*q);
}

static CUresult allocate_slowly(struct rf_fence *f, struct rf_pool *p, const struct request *q,
				uint64_t cost)
{
	CUresult r = CUDA_SUCCESS;
	bool ahead;

	if (!rf_pool_enter(f))
		return call(q);
	if (p->handle != q->pool || p->doomed) {
		rf_pool_leave(f);
		return pool_gone(q);
	}
	if (rf_pool_wanted(f))
		rf_pool_give_way(f);
	__atomic_add_fetch(&p->spent, cost, __ATOMIC_SEQ_CST);
	ahead = cost < COST_MOST && rf_pool_advance(f, p);
	if (!ahead) {
		__atomic_sub_fetch(&p->spent, cost, __ATOMIC_SEQ_CST);
		r = allocate_exactly(f, p, q);
	}
	rf_pool_leave(f);
	if (!ahead)
		return r;
	r = call_and_tell(p, q, cost);
	/* A large one may have cost much less than it could have. */
	if (cost > RF_POOL_AHEAD_LEAST && rf_pool_enter(f)) {
		if (!rf_pool_advance(f, p) && rf_pool_match(f, p) != CUDA_SUCCESS &&
		    r == CUDA_SUCCESS) {
			undo(f, p, q);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
		rf_pool_leave(f);
	}
	return r;
}

static CUresult allocate(struct rf_fence *f, struct rf_pool *p, const struct request *q)
{
	uint64_t cost;

	if (rf_pool_inside || p->card < 0)
		return call(q);
	cost = cost_of(p, q->bytes);
	if (cost < COST_MOST && !rf_pool_wanted(f) && spend(p, cost))
		return call_and_tell(p, q, cost);
	return allocate_slowly(f, p, q, cost);
}

/* --- the driver's functions --- */

static CUresult is_capturing(CUstream stream, bool per_thread, bool *ret)
{
	int status = 0;
	CUresult r = CUDA_SUCCESS;

	if (rf_capturing())
		r = per_thread ? RF_REAL(cuStreamIsCapturing_ptsz)(stream, &status)
			       : RF_REAL(cuStreamIsCapturing)(stream, &status);
	*ret = status != 0;
	return r;
}

/* A captured allocation becomes a node of a graph, which counts when the graph is launched; the pool
 * only lends its properties. */
static CUresult capture_or_allocate(struct rf_fence *f, struct rf_pool *p, const struct request *q)
{
	bool capturing;
	CUresult r = is_capturing(q->stream, q->per_thread, &capturing);

	if (r != CUDA_SUCCESS)
		return r;
	if (!p)
		return f->any_cap ? CUDA_ERROR_NOT_SUPPORTED : call_as_asked(q);
	if (p->refused != CUDA_SUCCESS)
		return p->refused;
	if (!capturing)
		return allocate(f, p, q);
	rf_graph_expect(f);
	return call_as_asked(q);
}

static bool is_primary(struct rf_fence *f, CUcontext ctx, CUdevice *ret_dev)
{
	for (CUdevice dev = 0; dev < rf_pool_devices(f); dev++) {
		if (__atomic_load_n(&f->primary[dev], __ATOMIC_RELAXED) == ctx) {
			*ret_dev = dev;
			return true;
		}
	}
	return false;
}

/* The device a stream works on; the default streams belong to the current context. */
static CUresult device_of(struct rf_fence *f, CUstream stream, CUdevice *ret_dev)
{
	CUcontext ctx = NULL;
	CUresult r;

	*ret_dev = 0;
	if (rf_pool_devices(f) == 1)
		return CUDA_SUCCESS;
	if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return RF_REAL(cuCtxGetDevice)(ret_dev);
	r = RF_REAL(cuStreamGetCtx)(stream, &ctx);
	if (r == CUDA_SUCCESS && ctx && is_primary(f, ctx, ret_dev))
		return r;
	if (r == CUDA_SUCCESS)
		r = RF_REAL(cuCtxPushCurrent_v2)(ctx);
	if (r != CUDA_SUCCESS)
		return r;
	r = RF_REAL(cuCtxGetDevice)(ret_dev);
	RF_REAL(cuCtxPopCurrent_v2)(&ctx);
	return r;
}

/* Names the pool that the driver would pick, so that the one charged is the one used. */
static CUresult alloc_async(struct request q)
{
	struct rf_fence *f = rf_join();
	struct rf_pool *p = NULL;
	CUdevice dev;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (rf_pool_inside)
		return call_unnamed(&q);
	if (!q.dptr)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_of(f, q.stream, &dev);
	if (r == CUDA_SUCCESS)
		r = rf_pool_current(f, dev, &p);
	if (r != CUDA_SUCCESS)
		return r;
	q.pool = p ? p->handle : NULL;
	return capture_or_allocate(f, p, &q);
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_async((struct request){ dptr, bytes, NULL, stream, false, false });
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return alloc_async((struct request){ dptr, bytes, NULL, stream, true, false });
}

static CUresult alloc_from_pool(const struct request *q)
{
	struct rf_fence *f = rf_join();

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	if (rf_pool_inside)
		return call(q);
	if (!q->dptr)
		return CUDA_ERROR_INVALID_VALUE;
	return capture_or_allocate(f, rf_pool_known(f, q->pool), q);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				 CUstream stream)
{
	return alloc_from_pool(&(struct request){ dptr, bytes, pool, stream, false, true });
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				      CUstream stream)
{
	return alloc_from_pool(&(struct request){ dptr, bytes, pool, stream, true, true });
}

/* Only what does not come from a pool is in the table: plain allocations, imported pointers. */
static CUresult free_async(CUdeviceptr dptr, CUstream stream, bool per_thread,
			   __typeof__(&cuMemFreeAsync) real)
{
	struct rf_fence *f = rf_join();
	struct rf_entry e;
	bool capturing;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = is_capturing(stream, per_thread, &capturing);
	if (r != CUDA_SUCCESS)
		return r;
	/* A captured free happens when the graph runs, if ever: charges stay. */
	if (capturing)
		return real(dptr, stream);
	if (rf_table_may_hold(&f->table, dptr) &&
	    rf_table_take(&f->table, RF_SPACE_POINTER, dptr, &e)) {
		rf_loan_before_free(f, &e);
		r = rf_charge_drop(f, &e, real(dptr, stream));
	} else {
		r = real(dptr, stream);
	}
	if (r != CUDA_SUCCESS)
		return r;
	rf_pool_freed_in(f, stream, per_thread);
	rf_pool_freed(f);
	return r;
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
	return free_async(dptr, stream, false, RF_REAL(cuMemFreeAsync));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
	return free_async(dptr, stream, true, RF_REAL(cuMemFreeAsync_ptsz));
}
