/* A driver for tests: exact, small, and honest about what it has handed out. Several processes may
 * count together in a file named by FAKE_CUDA_SHARED: what they hold on device 0, and the most
 * ever. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fence/cuda_more.h"
#include "fence/test/fake.h"
#include "fence/test/fake_inside.h"

struct CUctx_st {
	int dev;
	uint64_t bytes; /* what it takes for itself */
};
struct CUmemPoolHandle_st {
	int dev;
	uint64_t reserved, used;
	bool host;
};

struct shared {
	uint64_t live, peak;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thing *things;
static uint64_t live[FAKE_DEVICES];
static struct CUctx_st primary[FAKE_DEVICES] = { { 0, 0 }, { 1, 0 } };
static uint64_t context_bytes;
static bool exact_maps;
static unsigned primary_refs[FAKE_DEVICES];
static struct CUmemPoolHandle_st default_pool[FAKE_DEVICES] = { { .dev = 0 }, { .dev = 1 } };
static CUmemoryPool current_pool[FAKE_DEVICES] = { &default_pool[0], &default_pool[1] };
static _Thread_local CUcontext stack[8];
static _Thread_local int depth;
static int fail_next, fail_skip;
static unsigned refused_calls;
static bool unexported;
static bool ready;

#define FAKE_PAGE ((size_t)2 << 20)

static struct shared *shared(void)
{
	static struct shared *map, none;
	const char *path = getenv("FAKE_CUDA_SHARED");
	int fd;

	if (map || !path)
		return map ? map : &none;
	fd = open(path, O_RDWR | O_CLOEXEC);
	map = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return map;
}

static void count(int dev, int64_t bytes)
{
	uint64_t now;

	live[dev] += (uint64_t)bytes;
	if (dev != 0)
		return;
	now = __atomic_add_fetch(&shared()->live, (uint64_t)bytes, __ATOMIC_SEQ_CST);
	for (uint64_t peak = shared()->peak; now > peak;) {
		if (__atomic_compare_exchange_n(&shared()->peak, &peak, now, false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			break;
	}
}

uint64_t fake_live(int dev)
{
	return live[dev];
}
void fake_fail_next(int result)
{
	fail_next = result;
}
unsigned fake_calls(void)
{
	return refused_calls;
}
void fake_unexported(bool on)
{
	unexported = on;
}

void fake_context_bytes(uint64_t n)
{
	context_bytes = n;
}
void fake_exact_maps(bool on)
{
	exact_maps = on;
}

void fake_fail_after(int calls, int result)
{
	fail_skip = calls;
	fail_next = result;
}

static CUresult failing(void)
{
	if (fail_skip > 0 && fail_skip-- > 0)
		return CUDA_SUCCESS;
	return __atomic_exchange_n(&fail_next, 0, __ATOMIC_SEQ_CST);
}

/* Its address is what the program gets: what takes pages of a card starts with one. */
static struct thing *make(uint64_t bytes, int dev)
{
	struct thing *t = aligned_alloc(bytes > FAKE_PAGE / 2 ? FAKE_PAGE : 64, 128);

	_Static_assert(sizeof(*t) <= 128, "in what is allocated");
	*t = (struct thing){ .next = things, .bytes = bytes, .dev = dev, .refs = 1 };
	things = t;
	if (bytes)
		count(dev, (int64_t)bytes);
	return t;
}

static void destroy(struct thing *t)
{
	for (struct thing **p = &things; *p; p = &(*p)->next) {
		if (*p == t) {
			*p = t->next;
			break;
		}
	}
	if (t->bytes)
		count(t->dev, -(int64_t)t->bytes);
	free(t);
}

static struct thing *find(uint64_t key)
{
	for (struct thing *t = things; t; t = t->next) {
		if ((uintptr_t)t == key)
			return t;
	}
	return NULL;
}

/* --- devices and contexts --- */

CUresult cuInit(unsigned int flags)
{
	ready = true;
	return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = FAKE_VERSION;
	return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count_)
{
	*count_ = FAKE_DEVICES;
	return ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return ready && ordinal < FAKE_DEVICES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	for (int i = 0; i < 16; i++)
		uuid->bytes[i] = (char)(dev * 16 + i);
	return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = FAKE_TOTAL;
	return CUDA_SUCCESS;
}
static CUresult push(CUcontext ctx)
{
	stack[depth++] = ctx;
	return CUDA_SUCCESS;
}
void fake_context_live(CUcontext ctx, bool on)
{
	pthread_mutex_lock(&lock);
	count(ctx->dev, on ? (int64_t)context_bytes : -(int64_t)ctx->bytes);
	ctx->bytes = on ? context_bytes : 0;
	pthread_mutex_unlock(&lock);
}
void fake_context_grow(CUcontext ctx, int64_t bytes)
{
	pthread_mutex_lock(&lock);
	count(ctx->dev, bytes);
	ctx->bytes += (uint64_t)bytes;
	pthread_mutex_unlock(&lock);
}
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	CUresult r = ready ? failing() : CUDA_ERROR_NOT_INITIALIZED;

	if (r != CUDA_SUCCESS)
		return r;
	*ctx = malloc(sizeof(**ctx));
	(*ctx)->dev = dev;
	fake_context_live(*ctx, true);
	return push(*ctx);
}
CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	return push(ctx);
}
CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	*ctx = stack[--depth];
	return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext ctx)
{
	depth = depth ? depth - 1 : 0;
	return push(ctx);
}
CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	*ctx = depth ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *dev)
{
	if (!ready)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	*dev = stack[depth - 1]->dev;
	return CUDA_SUCCESS;
}
static void end_of(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	for (struct thing *t = things, *next; t; t = next) {
		next = t->next;
		if (t->ctx == ctx)
			destroy(t);
	}
	pthread_mutex_unlock(&lock);
}
CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	CUresult r = failing();

	if (r != CUDA_SUCCESS)
		return r;
	end_of(ctx);
	fake_context_live(ctx, false);
	if (depth && stack[depth - 1] == ctx)
		depth--;
	free(ctx);
	return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	CUresult r = failing();

	if (r != CUDA_SUCCESS)
		return r;
	if (primary_refs[dev]++ == 0)
		fake_context_live(&primary[dev], true);
	*ctx = &primary[dev];
	return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	if (--primary_refs[dev] == 0) {
		end_of(&primary[dev]);
		fake_context_live(&primary[dev], false);
	}
	return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	primary_refs[dev] = 0;
	end_of(&primary[dev]);
	fake_context_live(&primary[dev], false);
	return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	*active = primary_refs[dev] > 0;
	return CUDA_SUCCESS;
}

/* --- plain memory --- */

static CUresult plain(void *ret, uint64_t bytes)
{
	CUdevice dev;
	CUresult r = cuCtxGetDevice(&dev);
	struct thing *t;

	if (r == CUDA_SUCCESS && (!ret || !bytes))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = failing();
	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	if (live[dev] + bytes > FAKE_TOTAL) {
		pthread_mutex_unlock(&lock);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	t = make(bytes, dev);
	cuCtxGetCurrent(&t->ctx);
	pthread_mutex_unlock(&lock);
	memcpy(ret, &t, sizeof(t));
	return CUDA_SUCCESS;
}
static CUresult unplain(uint64_t key)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	struct thing *t;

	pthread_mutex_lock(&lock);
	t = find(key);
	if (t && t->pool)
		t->pool->used -= t->refs;
	if (t) {
		destroy(t);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	return plain(dptr, bytes);
}
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	return plain(dptr, bytes);
}
CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
			    unsigned int element)
{
	*pitch = (width + 511) / 512 * 512;
	return plain(dptr, *pitch * height);
}
CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	return fake_graph_freed(dptr) ? CUDA_SUCCESS : unplain(dptr);
}
CUresult cuMemGetInfo_v2(size_t *free_, size_t *total)
{
	CUdevice dev;
	CUresult r = cuCtxGetDevice(&dev);

	if (r != CUDA_SUCCESS)
		return r;
	if (free_)
		*free_ = FAKE_TOTAL - live[dev];
	if (total)
		*total = FAKE_TOTAL;
	return r;
}
static uint64_t texels(size_t w, size_t h, size_t d, unsigned channels)
{
	return w * (h ? h : 1) * (d ? d : 1) * channels * 4;
}
CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d)
{
	return plain(array, texels(d->Width, d->Height, 0, d->NumChannels));
}
CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return plain(array, texels(d->Width, d->Height, d->Depth, d->NumChannels));
}
CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d,
				unsigned int levels)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < levels; i++)
		sum += texels(d->Width >> i, d->Height >> i, d->Depth >> i, d->NumChannels);
	return plain(array, sum);
}
CUresult cuArrayDestroy(CUarray array)
{
	return unplain((uintptr_t)array);
}
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	return unplain((uintptr_t)array);
}

/* --- handles --- */

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult r = failing();
	bool host = prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE;

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&lock);
	*handle = (uintptr_t)make(host ? 0 : size, host ? 0 : prop->location.id);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
static void unref(struct thing *t)
{
	if (--t->refs == 0)
		destroy(t);
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct thing *t;

	pthread_mutex_lock(&lock);
	t = find(handle);
	if (t)
		unref(t);
	pthread_mutex_unlock(&lock);
	return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	struct thing *t, *m;

	pthread_mutex_lock(&lock);
	t = find(handle);
	if (t && t->bytes && (offset + size > t->bytes || (exact_maps && size != t->bytes)))
		t = NULL;
	if (t) {
		t->refs++;
		m = make(0, 0);
		m->at = ptr;
		m->mapped = t;
	}
	pthread_mutex_unlock(&lock);
	return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	bool any = false;

	pthread_mutex_lock(&lock);
	for (struct thing *t = things, *next; t; t = next) {
		next = t->next;
		if (t->mapped && t->at >= ptr && t->at < ptr + size) {
			struct thing *m = t->mapped;

			if (next == m)
				next = m->next;
			destroy(t);
			unref(m);
			any = true;
		}
	}
	pthread_mutex_unlock(&lock);
	return any ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&lock);
	for (struct thing *t = things; t; t = t->next) {
		if (t->mapped && t->at == (uintptr_t)addr) {
			t->mapped->refs++;
			*handle = (uintptr_t)t->mapped;
			r = CUDA_SUCCESS;
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* --- pools: fetch in steps, keep what is freed --- */

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	*pool = &default_pool[dev];
	return CUDA_SUCCESS;
}
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	*pool = current_pool[dev];
	return CUDA_SUCCESS;
}
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	current_pool[dev] = pool;
	return CUDA_SUCCESS;
}
static struct CUmemPoolHandle_st host_pool = { .host = true };
static struct CUmemPoolHandle_st managed_pool;
CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
	if (type == RF_CU_MEM_ALLOCATION_TYPE_MANAGED)
		*pool = &managed_pool;
	else if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		*pool = &default_pool[location->id];
	else
		*pool = &host_pool;
	return CUDA_SUCCESS;
}
CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
	return cuMemGetDefaultMemPool(pool, location, type);
}
CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool)
{
	return cuDeviceSetMemPool(location->id, pool);
}
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type,
					    unsigned long long flags)
{
	*pool = calloc(1, sizeof(**pool));
	return failing();
}
/* The name of an imported pointer is its data; there is nothing of it on the card. */
CUresult cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	struct thing *t = fake_make(0, 0);

	memcpy(&t->at, data, sizeof(t->at));
	*ptr = (uintptr_t)t;
	return failing();
}
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	*pool = calloc(1, sizeof(**pool));
	(*pool)->dev = props->location.id;
	(*pool)->host = props->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	return failing();
}
static uint64_t pool_step = FAKE_POOL_STEP;
static unsigned pool_questions;
static bool pool_wasteful, pool_stuck, pool_scattered;
void fake_pool_step(uint64_t bytes)
{
	pool_step = bytes;
}
void fake_pool_wasteful(bool on)
{
	pool_wasteful = on;
}
void fake_pool_stuck(bool on)
{
	pool_stuck = on;
}
void fake_pool_scattered(bool on)
{
	pool_scattered = on;
}
unsigned fake_pool_questions(void)
{
	return __atomic_exchange_n(&pool_questions, 0, __ATOMIC_SEQ_CST);
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	uint64_t least = (pool->used + pool_step - 1) / pool_step * pool_step;

	pthread_mutex_lock(&lock);
	if (least < pool->reserved && keep < pool->reserved && !pool_stuck) {
		count(pool->dev, -(int64_t)(pool->reserved - least));
		pool->reserved = least;
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	for (int dev = 0; dev < FAKE_DEVICES; dev++) {
		if (current_pool[dev] == pool)
			current_pool[dev] = &default_pool[dev];
	}
	return cuMemPoolTrimTo(pool, 0);
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	uint64_t n =
		attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? pool->reserved : pool->used;

	__atomic_add_fetch(&pool_questions, 1, __ATOMIC_SEQ_CST);
	memcpy(value, &n, sizeof(n));
	return CUDA_SUCCESS;
}
static CUresult pooled(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	uint64_t step = (bytes + pool_step - 1) / pool_step * pool_step;
	CUresult r = failing();
	struct thing *t;

	if (r != CUDA_SUCCESS)
		return r;
	if (fake_graph_captures(stream))
		return fake_graph_alloc(dptr, bytes, pool->dev);
	if (pool_wasteful && bytes > 1 << 20)
		bytes = step;
	pthread_mutex_lock(&lock);
	if ((pool->used + bytes > pool->reserved || pool_scattered) && !pool->host) {
		count(pool->dev, (int64_t)step);
		pool->reserved += step;
	}
	pool->used += bytes;
	t = make(0, pool->dev);
	t->pool = pool;
	t->refs = (unsigned)bytes;
	*dptr = (uintptr_t)t;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				 CUstream stream)
{
	return pooled(dptr, bytes, pool, stream);
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				      CUstream stream)
{
	return pooled(dptr, bytes, pool, stream);
}
CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return pooled(dptr, bytes, current_pool[0], stream);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	return pooled(dptr, bytes, current_pool[0], stream);
}
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
	if (fake_graph_captures(stream))
		return fake_graph_free_node(dptr);
	return fake_graph_freed(dptr) ? CUDA_SUCCESS : unplain(dptr);
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
	if (fake_graph_captures(stream))
		return fake_graph_free_node(dptr);
	return fake_graph_freed(dptr) ? CUDA_SUCCESS : unplain(dptr);
}
CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
	*status = fake_graph_captures(stream);
	return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing_ptsz(CUstream stream, int *status)
{
	return cuStreamIsCapturing(stream, status);
}
CUresult cuStreamQuery(CUstream stream)
{
	return pool_stuck ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
/* Waits for ever for a stream that is stuck. */
static CUresult wait_for(void)
{
	while (pool_stuck)
		pause();
	return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void)
{
	return wait_for();
}
CUresult cuStreamSynchronize(CUstream stream)
{
	return wait_for();
}
CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	return CUDA_SUCCESS;
}

/* --- for the driver's other files --- */

struct thing *fake_make(uint64_t bytes, int dev)
{
	struct thing *t;

	pthread_mutex_lock(&lock);
	t = make(bytes, dev);
	pthread_mutex_unlock(&lock);
	return t;
}
struct thing *fake_find(uint64_t key)
{
	struct thing *t;

	pthread_mutex_lock(&lock);
	t = find(key);
	pthread_mutex_unlock(&lock);
	return t;
}
void fake_unref(struct thing *t)
{
	pthread_mutex_lock(&lock);
	unref(t);
	pthread_mutex_unlock(&lock);
}
CUresult fake_failing(void)
{
	return failing();
}
void fake_refused(void)
{
	refused_calls++;
}

/* --- look-up by name, version and flags --- */

static CUresult hidden_alloc(CUdeviceptr *dptr, size_t bytes)
{
	return plain(dptr, bytes);
}

/* Of a CUDA that the library does not know. */
__attribute__((visibility("default"))) CUresult cuMemAlloc_v3(CUdeviceptr *dptr, size_t bytes);
__attribute__((visibility("default"))) CUresult cuMemTake(CUdeviceptr *dptr, size_t bytes);
CUresult cuMemAlloc_v3(CUdeviceptr *dptr, size_t bytes)
{
	return plain(dptr, bytes);
}
CUresult cuMemTake(CUdeviceptr *dptr, size_t bytes)
{
	return plain(dptr, bytes);
}

struct row {
	const char *base;
	int since;
	bool per_thread;
	const void *ptr;
	const char *name;
};
static const struct row rows[] = {
	{ "cuInit", 2000, false, (void *)cuInit, "cuInit" },
	{ "cuGetProcAddress", 11030, false, (void *)cuGetProcAddress, "cuGetProcAddress" },
	{ "cuGetProcAddress", 12000, false, (void *)cuGetProcAddress_v2, "cuGetProcAddress_v2" },
	{ "cuMemAlloc", 3020, false, (void *)cuMemAlloc_v2, "cuMemAlloc_v2" },
	{ "cuMemAllocAsync", 11020, false, (void *)cuMemAllocAsync, "cuMemAllocAsync" },
	{ "cuMemAllocAsync", 11020, true, (void *)cuMemAllocAsync_ptsz, "cuMemAllocAsync_ptsz" },
	{ "cuMemGetInfo", 3020, false, (void *)cuMemGetInfo_v2, "cuMemGetInfo_v2" },
	{ "cuDeviceGetCount", 2000, false, (void *)cuDeviceGetCount, "cuDeviceGetCount" },
	{ "cuMemAlloc", FAKE_VERSION, false, (void *)cuMemAlloc_v3, "cuMemAlloc_v3" },
	{ "cuMemTake", FAKE_VERSION, false, (void *)cuMemTake, "cuMemTake" },
};

const void *fake_pointer(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].name, name) == 0)
			return rows[i].ptr;
	}
	return NULL;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags,
			     int *status)
{
	const struct row *best = NULL;
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].base, symbol) != 0 || rows[i].since > cuda_version)
			continue;
		if (!best || rows[i].since > best->since || rows[i].per_thread == per_thread)
			best = &rows[i];
	}
	if (status)
		*status = best ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*pfn = best ? (void *)best->ptr : NULL;
	if (best && unexported && strcmp(symbol, "cuMemAlloc") == 0)
		*pfn = (void *)hidden_alloc;
	return best ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags)
{
	return cuGetProcAddress_v2(symbol, pfn, cuda_version, flags, NULL);
}
