/* What pools are charged. A pool takes memory from the card in pieces of its own and keeps what is
 * freed, so it is charged for what it has reserved, not for what its allocations add up to. A free
 * never changes a charge; the pool is asked again sooner or later.
 *
 * To ask the pool at each allocation would cost more than the allocation. So a pool is charged
 * ahead of what it has reserved, and allocations go through unasked as long as they cannot make it
 * grow past that: each counts as the most it can cost, in `spent` when it begins and in `done` when
 * the driver is back, and
 *
 *	reserved now <= reserved when asked + a granule + (spent now - done when asked) <= charged
 *
 * holds while spent <= limit. Whoever wants to lower the charge shuts the limit first and reads
 * spent then; an allocation counts itself first and reads the limit then: one of them sees the
 * other. Where room is short nothing is charged ahead, and all processes of a fence together never have
 * more than a 32nd of the cap charged ahead; it goes back when the program waits for its work.
 *
 * No byte that a pool has taken stays unbooked. Should one have taken more than fits, the books go over
 * the cap, and nobody gets anything until it is back. */
#include <sched.h>
#include <time.h>

#include "fence/pool.h"

#define AHEAD_PART 32	   /* of the cap, charged ahead by all processes together */
#define MODEST 1000	   /* allocations that are not charged ahead after somebody was refused */
#define DRAIN_TRIES 100000 /* of a thread that may be gone for good */
#define RETIRE_NS 1000000  /* for which streams are asked at most */

_Thread_local __attribute__((tls_model("initial-exec"))) bool rf_pool_inside;

bool rf_pool_enter(struct rf_fence *f)
{
	if (rf_pool_inside)
		return false;
	pthread_mutex_lock(&f->pool_lock);
	rf_pool_inside = true;
	return true;
}

void rf_pool_leave(struct rf_fence *f)
{
	rf_pool_inside = false;
	pthread_mutex_unlock(&f->pool_lock);
}

int rf_pool_relax(void)
{
	int mode = RF_CU_STREAM_CAPTURE_MODE_RELAXED;

	if (!rf_capturing() || RF_REAL(cuThreadExchangeStreamCaptureMode)(&mode) != CUDA_SUCCESS)
		return -1;
	return mode;
}

void rf_pool_restore(int mode)
{
	if (mode >= 0)
		RF_REAL(cuThreadExchangeStreamCaptureMode)(&mode);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* --- records --- */

static unsigned top_of(struct rf_fence *f)
{
	return __atomic_load_n(&f->pools, __ATOMIC_ACQUIRE);
}

struct rf_pool *rf_pool_find(struct rf_fence *f, CUmemoryPool handle)
{
	for (unsigned i = 0; handle && i < top_of(f); i++) {
		struct rf_pool *p = &f->pool[i];

		if (__atomic_load_n(&p->handle, __ATOMIC_ACQUIRE) == handle)
			return __atomic_load_n(&p->doomed, __ATOMIC_RELAXED) ? NULL : p;
	}
	return NULL;
}

struct rf_pool *rf_pool_add(struct rf_fence *f, CUmemoryPool handle, int card)
{
	unsigned i = 0;

	while (i < RF_POOLS && f->pool[i].handle)
		i++;
	if (i == RF_POOLS || !handle)
		return NULL;
	f->pool[i] = (struct rf_pool){ .card = card, .granule = RF_POOL_GRANULE };
	__atomic_store_n(&f->pool[i].handle, handle, __ATOMIC_RELEASE);
	if (i >= f->pools)
		__atomic_store_n(&f->pools, i + 1, __ATOMIC_RELEASE);
	return &f->pool[i];
}

int rf_pool_devices(struct rf_fence *f)
{
	int n = __atomic_load_n(&f->devices, __ATOMIC_RELAXED);

	if (n == 0 && RF_REAL(cuDeviceGetCount)(&n) == CUDA_SUCCESS)
		__atomic_store_n(&f->devices, n, __ATOMIC_RELAXED);
	return n < RF_DEVICES ? n : RF_DEVICES;
}

static struct rf_pool *add_default(struct rf_fence *f, CUmemoryPool handle, CUdevice dev)
{
	unsigned card = 0;
	CUresult r = rf_card_of(f, dev, &card);
	struct rf_pool *p = rf_pool_add(f, handle, r == CUDA_SUCCESS ? (int)card : -1);

	if (p) {
		p->fixed = true;
		p->refused = r;
	}
	return p;
}

/* Pools nobody created: one per device, there from the start. */
static struct rf_pool *find_or_adopt(struct rf_fence *f, CUmemoryPool handle)
{
	struct rf_pool *p = rf_pool_find(f, handle);

	for (CUdevice dev = 0; !p && dev < rf_pool_devices(f); dev++) {
		CUmemoryPool pool = NULL;

		if (RF_REAL(cuDeviceGetDefaultMemPool)(&pool, dev) == CUDA_SUCCESS &&
		    pool == handle)
			p = add_default(f, handle, dev);
	}
	return p;
}

struct rf_pool *rf_pool_known(struct rf_fence *f, CUmemoryPool handle)
{
	struct rf_pool *p = rf_pool_find(f, handle);

	if (p || !rf_pool_enter(f))
		return p;
	p = find_or_adopt(f, handle);
	rf_pool_leave(f);
	return p;
}

/* Asked for once; calls that change it make the fence ask again. */
CUresult rf_pool_current(struct rf_fence *f, CUdevice dev, struct rf_pool **ret)
{
	CUmemoryPool handle = NULL;
	struct rf_pool *p = NULL;
	CUresult r;
	int at;

	*ret = NULL;
	if (dev < 0 || dev >= RF_DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	at = __atomic_load_n(&f->current[dev], __ATOMIC_ACQUIRE);
	if (at > 0) {
		*ret = &f->pool[at - 1];
		return CUDA_SUCCESS;
	}
	if (!rf_pool_enter(f))
		return CUDA_SUCCESS;
	r = RF_REAL(cuDeviceGetMemPool)(&handle, dev);
	if (r == CUDA_SUCCESS)
		p = find_or_adopt(f, handle);
	if (p)
		__atomic_store_n(&f->current[dev], (int)(p - f->pool) + 1, __ATOMIC_RELEASE);
	rf_pool_leave(f);
	*ret = p;
	return r;
}

/* --- charges --- */

uint64_t rf_pool_says(const struct rf_pool *p, int attribute)
{
	cuuint64_t n = 0;
	CUresult r = RF_REAL(cuMemPoolGetAttribute)(p->handle, attribute, &n);

	return r == CUDA_SUCCESS ? n : RF_POOL_UNKNOWN;
}

static uint64_t idle_of(const struct rf_pool *p)
{
	uint64_t reserved = rf_pool_says(p, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	uint64_t used = rf_pool_says(p, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);

	return reserved == RF_POOL_UNKNOWN || used >= reserved ? 0 : reserved - used;
}

/* The limit is shut while somebody looks; what was begun before counts as the most it can cost. */
struct look {
	uint64_t done;
	uint64_t reserved;
	uint64_t under_way;
};

static struct look look_at(struct rf_pool *p)
{
	bool ahead = __atomic_exchange_n(&p->limit, 0, __ATOMIC_SEQ_CST) != 0;
	struct look l = { .done = __atomic_load_n(&p->done, __ATOMIC_ACQUIRE) };

	l.reserved = rf_pool_says(p, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	if (l.reserved == RF_POOL_UNKNOWN)
		l.reserved = p->charged;
	else if (l.reserved % RF_POOL_GRANULE != 0)
		p->fine = true;
	if (ahead && l.reserved > p->charged && p->granule < RF_POOL_GRANULE_MOST)
		p->granule *= 2;
	l.under_way = __atomic_load_n(&p->spent, __ATOMIC_SEQ_CST) - l.done;
	if (l.under_way)
		l.under_way += p->granule;
	return l;
}

void rf_pool_lower(struct rf_fence *f, struct rf_pool *p, uint64_t to)
{
	if (p->charged <= to)
		return;
	rf_release(f, (unsigned)p->card, p->charged - to);
	p->charged = to;
}

CUresult rf_pool_raise(struct rf_fence *f, struct rf_pool *p, uint64_t to)
{
	CUresult r;

	if (p->charged >= to)
		return CUDA_SUCCESS;
	r = rf_reserve(f, (unsigned)p->card, to - p->charged);
	if (r == CUDA_SUCCESS)
		p->charged = to;
	return r;
}

/* Notes at the ledger how much is charged ahead; false: the fence has enough of that. */
static bool note_ahead(struct rf_fence *f, struct rf_pool *p, uint64_t bytes)
{
	unsigned card = (unsigned)p->card;
	uint64_t others = f->ahead[card] - p->ahead;
	bool ok = bytes == p->ahead ||
		  rf_ledger_ahead(&f->place, card, others + bytes, f->card[card].cap / AHEAD_PART);

	if (!ok) {
		bytes = 0;
		rf_ledger_ahead(&f->place, card, others, UINT64_MAX);
	}
	f->ahead[card] = others + bytes;
	p->ahead = bytes;
	return ok;
}

void rf_pool_close(struct rf_fence *f, struct rf_pool *p)
{
	__atomic_store_n(&p->limit, 0, __ATOMIC_SEQ_CST);
	note_ahead(f, p, 0);
	rf_pool_lower(f, p, 0);
}

CUresult rf_pool_match(struct rf_fence *f, struct rf_pool *p)
{
	struct look l = look_at(p);
	uint64_t to = l.reserved + l.under_way;
	CUresult r;

	rf_pool_lower(f, p, to);
	note_ahead(f, p, 0);
	r = rf_pool_raise(f, p, to);
	if (r != CUDA_SUCCESS) {
		rf_book(f, (unsigned)p->card, to - p->charged);
		p->charged = to;
	}
	return r;
}

/* Waits for allocations that went through unasked. */
void rf_pool_drain(struct rf_pool *p)
{
	__atomic_store_n(&p->limit, 0, __ATOMIC_SEQ_CST);
	for (int i = 0; i < DRAIN_TRIES; i++) {
		if (__atomic_load_n(&p->spent, __ATOMIC_SEQ_CST) ==
		    __atomic_load_n(&p->done, __ATOMIC_SEQ_CST))
			return;
		sched_yield();
	}
}

CUresult rf_pool_match_exactly(struct rf_fence *f, struct rf_pool *p)
{
	rf_pool_drain(p);
	return rf_pool_match(f, p);
}

/* How much may be charged ahead, beside the granule: nothing under a small cap. */
static uint64_t ahead_of(const struct rf_fence *f, const struct rf_pool *p)
{
	uint64_t share = f->card[p->card].cap / AHEAD_PART;

	if (share < p->granule + RF_POOL_AHEAD_LEAST)
		return 0;
	return least(share - p->granule, RF_POOL_AHEAD_MOST);
}

/* An eighth of the card must stay free for others of the fence. */
static bool roomy(struct rf_fence *f, const struct rf_pool *p, uint64_t more)
{
	uint64_t cap = f->card[p->card].cap;
	uint64_t sum = rf_ledger_sum(&f->place, (unsigned)p->card);
	uint64_t most = cap - cap / 8;

	return cap == UINT64_MAX || (sum <= most && more <= most - sum);
}

bool rf_pool_advance(struct rf_fence *f, struct rf_pool *p)
{
	struct look l = look_at(p);
	uint64_t ahead = ahead_of(f, p);
	uint64_t floor = l.reserved + (l.under_way ? l.under_way : p->granule);
	uint64_t target = floor + ahead;

	if (!p->seen || ahead == 0 ||
	    !roomy(f, p, p->charged < target ? target - p->charged : 0))
		return false;
	if (f->modest > 0) {
		f->modest--;
		return false;
	}
	if (!note_ahead(f, p, p->granule + ahead))
		return false;
	if (p->charged < floor + ahead / 2 || p->charged > target) {
		rf_pool_lower(f, p, target);
		if (rf_pool_raise(f, p, target) != CUDA_SUCCESS)
			return false;
	}
	__atomic_store_n(&p->limit, l.done + (p->charged - l.reserved - p->granule),
			 __ATOMIC_SEQ_CST);
	return true;
}

/* Takes out a pool that the program has destroyed, once nothing of it is in use. */
static void bury(struct rf_fence *f, struct rf_pool *p)
{
	uint64_t used = rf_pool_says(p, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);

	if (used != 0 && used != RF_POOL_UNKNOWN) {
		rf_pool_match(f, p);
		return;
	}
	RF_REAL(cuMemPoolDestroy)(p->handle);
	rf_pool_close(f, p);
	__atomic_sub_fetch(&f->doomed, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&p->handle, NULL, __ATOMIC_RELEASE);
}

static void bury_all(struct rf_fence *f)
{
	if (__atomic_load_n(&f->doomed, __ATOMIC_RELAXED) == 0)
		return;
	for (unsigned i = 0; i < top_of(f); i++) {
		if (f->pool[i].handle && f->pool[i].doomed)
			bury(f, &f->pool[i]);
	}
}

/* --- streams: what was freed is the pool's to give back only when they have come that far --- */

static CUstream *place_of(struct rf_fence *f, CUstream stream)
{
	return &f->freed_in[((uintptr_t)stream * 0x9e3779b97f4a7c15ull >> 60) % RF_FREED_IN];
}

void rf_pool_freed_in(struct rf_fence *f, CUstream stream, bool per_thread)
{
	CUstream *at;

	if (!stream)
		stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	at = place_of(f, stream);
	if (__atomic_load_n(at, __ATOMIC_RELAXED) != stream)
		__atomic_store_n(at, stream, __ATOMIC_RELAXED);
}

/* Whoever asks does so under the lock, so a stream that is forgotten here is not being asked. */
void rf_pool_stream_gone(struct rf_fence *f, CUstream stream)
{
	if (!rf_pool_enter(f))
		return;
	for (unsigned i = 0; i < RF_FREED_IN; i++) {
		if (!stream || __atomic_load_n(&f->freed_in[i], __ATOMIC_RELAXED) == stream)
			__atomic_store_n(&f->freed_in[i], NULL, __ATOMIC_RELAXED);
	}
	rf_pool_leave(f);
}

static bool through(struct rf_fence *f)
{
	bool all = true;

	for (unsigned i = 0; i < RF_FREED_IN; i++) {
		CUstream s = __atomic_load_n(&f->freed_in[i], __ATOMIC_RELAXED);

		if (s && RF_REAL(cuStreamQuery)(s) == CUDA_ERROR_NOT_READY)
			all = false;
	}
	return all;
}

void rf_pool_retire(struct rf_fence *f)
{
	int64_t end = rf_clock_ns() + RETIRE_NS;

	/* To ask a stream that is capturing would spoil the capture. */
	while (!rf_capturing() && !through(f) && rf_clock_ns() < end)
		sched_yield();
}

static bool on_card(const struct rf_pool *p, int card)
{
	return p->handle && p->card >= 0 && p->card == card;
}

/* True: something idle stayed. */
static bool trim_all(struct rf_fence *f, int card)
{
	bool left = false;

	for (unsigned i = 0; i < top_of(f); i++) {
		struct rf_pool *p = &f->pool[i];

		if (!on_card(p, card) || idle_of(p) == 0)
			continue;
		RF_REAL(cuMemPoolTrimTo)(p->handle, 0);
		left = left || idle_of(p) > 0;
	}
	return left;
}

bool rf_pool_squeeze_locked(struct rf_fence *f, int card)
{
	int mode = rf_pool_relax();
	bool any = false;
	bool left = trim_all(f, card);

	if (left || __atomic_load_n(&f->graph[card].charged, __ATOMIC_RELAXED) > 0)
		rf_pool_retire(f);
	if (left)
		trim_all(f, card);
	for (unsigned i = 0; i < top_of(f); i++) {
		if (!on_card(&f->pool[i], card))
			continue;
		rf_pool_match_exactly(f, &f->pool[i]);
		any = true;
	}
	bury_all(f);
	rf_pool_restore(mode);
	return any;
}

bool rf_pool_squeeze(struct rf_fence *f, unsigned card)
{
	bool any;

	if (!rf_pool_enter(f))
		return false;
	any = rf_pool_squeeze_locked(f, (int)card);
	rf_pool_leave(f);
	return rf_graph_squeeze(f, card) || any;
}

void rf_pool_refresh(struct rf_fence *f)
{
	if (!rf_pool_enter(f))
		return;
	bury_all(f);
	for (unsigned i = 0; i < top_of(f); i++) {
		if (f->pool[i].handle && f->pool[i].card >= 0)
			rf_pool_match(f, &f->pool[i]);
	}
	rf_pool_leave(f);
	rf_graph_refresh(f);
}

/* --- others of the fence --- */

static uint64_t refusals(struct rf_fence *f, unsigned card)
{
	return __atomic_load_n(&f->place.ledger->refusals[card], __ATOMIC_RELAXED);
}

bool rf_pool_wanted(struct rf_fence *f)
{
	for (unsigned i = 0; i < f->cards; i++) {
		if (refusals(f, i) != __atomic_load_n(&f->refusals[i], __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

void rf_pool_give_way(struct rf_fence *f)
{
	bury_all(f);
	if (rf_pool_wanted(f))
		f->modest = MODEST;
	for (unsigned i = 0; i < f->cards; i++)
		__atomic_store_n(&f->refusals[i], refusals(f, i), __ATOMIC_RELAXED);
	for (unsigned i = 0; i < top_of(f); i++) {
		if (f->pool[i].handle && __atomic_load_n(&f->pool[i].limit, __ATOMIC_RELAXED))
			rf_pool_match(f, &f->pool[i]);
	}
}

void rf_pool_calm(struct rf_fence *f)
{
	bool any = false;

	for (unsigned i = 0; !any && i < top_of(f); i++)
		any = __atomic_load_n(&f->pool[i].limit, __ATOMIC_RELAXED) != 0;
	if (!any || !rf_pool_enter(f))
		return;
	for (unsigned i = 0; i < top_of(f); i++) {
		if (f->pool[i].handle && __atomic_load_n(&f->pool[i].limit, __ATOMIC_RELAXED))
			rf_pool_match(f, &f->pool[i]);
	}
	rf_pool_leave(f);
}

void rf_pool_freed(struct rf_fence *f)
{
	if (!__atomic_load_n(&f->doomed, __ATOMIC_RELAXED) && !rf_pool_wanted(f))
		return;
	if (!rf_pool_enter(f))
		return;
	rf_pool_give_way(f);
	rf_pool_leave(f);
}
