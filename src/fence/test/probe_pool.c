/* A program inside a fence that uses pools; see ../test_fence_pool.c. */
#include <pthread.h>

#include "fence/test/probe.h"

#define GIB (1024 * MIB)
#define CARD FAKE_TOTAL
#define STEP FAKE_POOL_STEP

static CUmemoryPool own_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool pool;

	CHECK(cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS);
	return pool;
}

static void trim(void)
{
	CUmemoryPool pool;

	CHECK(cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS);
	CHECK(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
}

static void unasked(const char *unused)
{
	CUdeviceptr p;

	context(0);
	CHECK(cuMemAllocAsync(&p, 4096, NULL) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	fake_pool_questions();
	for (int i = 0; i < 10000; i++) {
		CHECK(cuMemAllocAsync(&p, 4096, NULL) == CUDA_SUCCESS);
		CHECK(charged() >= fake_live(0));
		CHECK(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	}
	CHECK(fake_pool_questions() < 10); /* 40 MiB passed, a slack of 32 */
	CHECK(left() == CARD - fake_live(0));
	trim();
	CHECK(left() == CARD && fake_live(0) == 0);
}

static uint64_t rounded(uint64_t n)
{
	return (n + STEP - 1) / STEP * STEP;
}

/* Sizes of all orders, up to the cap and back: the charge covers what is there at each step, and
 * nothing is refused that would have fitted. */
static void random_sizes(const char *cap_mib)
{
	static struct {
		CUdeviceptr at;
		uint64_t bytes;
	} got[64];
	uint64_t cap = (uint64_t)atoi(cap_mib) * MIB, seed = 20261115, used = 0;
	unsigned refused = 0;

	context(0);
	for (int i = 0; i < 60000; i++) {
		unsigned k = (unsigned)(seed >> 33) % 64;
		uint64_t n = 1 + (seed >> 13) % ((uint64_t)1 << (9 + (seed >> 27) % 22));

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		if (got[k].at) {
			CHECK(cuMemFreeAsync(got[k].at, NULL) == CUDA_SUCCESS);
			used -= got[k].bytes;
			got[k].at = 0;
			continue;
		}
		CUresult r = cuMemAllocAsync(&got[k].at, n, NULL);

		CHECK(charged() >= fake_live(0) && charged() <= cap);
		if (r == CUDA_SUCCESS) {
			got[k].bytes = n;
			used += n;
			continue;
		}
		got[k].at = 0;
		refused++;
		CHECK(r == CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(rounded(used) + rounded(n) > cap && used + n > rounded(used));
	}
	CHECK(refused > 0);
	for (unsigned k = 0; k < 64; k++)
		CHECK(!got[k].at || cuMemFreeAsync(got[k].at, NULL) == CUDA_SUCCESS);
	trim();
	CHECK(left() == cap && fake_live(0) == 0 && charged() == 0);
}

/* Nothing is freed, and nothing fits into what is left over: the charge is there before the memory. */
static void growing(const char *kib)
{
	uint64_t n = (uint64_t)atoi(kib) << 10;
	CUdeviceptr p;

	context(0);
	fake_pool_wasteful(true);
	while (fake_live(0) < 900 * MIB) {
		CHECK(cuMemAllocAsync(&p, n, NULL) == CUDA_SUCCESS);
		CHECK(charged() >= fake_live(0));
	}
	CHECK(left() == CARD - fake_live(0)); /* the card is smaller than the cap */
}

/* A pool that grows by more than expected is met once. */
static void surprise(const char *unused)
{
	CUdeviceptr p[64];

	context(0);
	fake_pool_step(128 * MIB);
	for (int i = 0; i < 64; i++) {
		CHECK(cuMemAllocAsync(&p[i], 4 * MIB, NULL) == CUDA_SUCCESS);
		CHECK(charged() >= fake_live(0));
	}
	for (int i = 0; i < 64; i++)
		CHECK(cuMemFreeAsync(p[i], NULL) == CUDA_SUCCESS);
	CHECK(left() == CARD - fake_live(0));
	trim();
	CHECK(left() == CARD);
}

static void destroyed(const char *unused)
{
	CUmemoryPool pool, now;
	CUdeviceptr a, b, none;

	context(0);
	pool = own_pool();
	CHECK(cuDeviceSetMemPool(0, pool) == CUDA_SUCCESS);
	CHECK(cuMemAllocAsync(&a, 40 * MIB, NULL) == CUDA_SUCCESS);
	CHECK(cuMemAllocAsync(&b, 40 * MIB, NULL) == CUDA_SUCCESS);
	CHECK(left() == 256 * MIB - 128 * MIB);
	CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
	CHECK(cuDeviceGetMemPool(&now, 0) == CUDA_SUCCESS && now != pool);
	CHECK(cuMemAllocFromPoolAsync(&none, 1, pool, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(fake_live(0) == 96 * MIB && charged() == 96 * MIB);
	CHECK(cuMemFreeAsync(a, NULL) == CUDA_SUCCESS);
	CHECK(left() == 256 * MIB - fake_live(0));
	CHECK(cuMemFree_v2(b) == CUDA_SUCCESS);
	CHECK(charged() == 0 && fake_live(0) == 0);
	for (int i = 0; i < 1000; i++) { /* records are used again */
		pool = own_pool();
		CHECK(cuMemAllocFromPoolAsync(&a, MIB, pool, NULL) == CUDA_SUCCESS);
		CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
		CHECK(cuMemFreeAsync(a, NULL) == CUDA_SUCCESS);
		CHECK(charged() == 0);
	}
}

static void current(const char *unused)
{
	CUmemLocation device = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemoryPool pool;
	CUdeviceptr a, b;

	context(0);
	CHECK(cuMemAllocAsync(&a, MIB, NULL) == CUDA_SUCCESS);
	pool = own_pool();
	CHECK(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool) == CUDA_SUCCESS);
	CHECK(cuMemAllocAsync(&b, MIB, NULL) == CUDA_SUCCESS);
	CHECK(fake_live(0) == 2 * STEP && left() == 256 * MIB - 2 * STEP);
	CHECK(cuMemFreeAsync(a, NULL) == CUDA_SUCCESS && cuMemFreeAsync(b, NULL) == CUDA_SUCCESS);
	CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
	CHECK(left() == 256 * MIB - STEP);
	trim();
	CHECK(left() == 256 * MIB);
}

static void elsewhere(const char *unused)
{
	CUmemPoolProps host = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = { CU_MEM_LOCATION_TYPE_HOST, 0 } };
	CUmemPoolProps managed = { .allocType = RF_CU_MEM_ALLOCATION_TYPE_MANAGED,
				   .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemPoolProps odd = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { 7, 0 } };
	CUmemLocation where = { CU_MEM_LOCATION_TYPE_HOST, 0 };
	CUmemoryPool pool;
	CUdeviceptr p;

	context(0);
	CHECK(cuMemPoolCreate(&pool, &managed) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuMemPoolCreate(&pool, &odd) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuMemPoolCreate(&pool, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemPoolCreate(&pool, &host) == CUDA_SUCCESS);
	CHECK(cuMemAllocFromPoolAsync(&p, GIB, pool, NULL) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	CHECK(cuMemGetDefaultMemPool(&pool, &where, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS);
	CHECK(cuMemAllocFromPoolAsync(&p, GIB, pool, NULL) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	CHECK(cuMemGetMemPool(&pool, &where, RF_CU_MEM_ALLOCATION_TYPE_MANAGED) == CUDA_SUCCESS);
	CHECK(cuMemAllocFromPoolAsync(&p, 1, pool, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	where = (CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CHECK(cuMemGetMemPool(&pool, &where, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS);
	CHECK(cuMemAllocFromPoolAsync(&p, 1, pool, NULL) == CUDA_SUCCESS);
	CHECK(left() == 256 * MIB - STEP);
	CHECK(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
}

static void imported(const char *unused)
{
	CUmemPoolPtrExportData data = { { 0 } };
	uint64_t size = 199 * MIB; /* which keeps seven pieces of the pool */
	CUmemoryPool pool;
	CUdeviceptr p, q;

	context(0);
	CHECK(cuMemPoolImportFromShareableHandle(&pool, NULL, 1, 0) == CUDA_SUCCESS);
	CHECK(cuMemAllocFromPoolAsync(&p, 1, pool, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	memcpy(&data, &size, sizeof(size));
	CHECK(cuMemPoolImportPointer(&p, pool, &data) == CUDA_SUCCESS);
	CHECK(left() == 32 * MIB);
	CHECK(cuMemPoolImportPointer(&q, pool, &data) == CUDA_ERROR_OUT_OF_MEMORY);
	fake_fail_next(CUDA_ERROR_LAUNCH_FAILED);
	CHECK(cuMemPoolImportPointer(&q, pool, &data) == CUDA_ERROR_LAUNCH_FAILED);
	CHECK(left() == 32 * MIB);
	CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
	CHECK(left() == 256 * MIB);
	CHECK(cuMemPoolImportPointer(&p, pool, &data) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	CHECK(left() == 256 * MIB);
	CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
	fake_fail_next(CUDA_ERROR_LAUNCH_FAILED);
	CHECK(cuMemPoolImportFromShareableHandle(&pool, NULL, 1, 0) == CUDA_ERROR_LAUNCH_FAILED);
}

/* The driver fails, while charged ahead and to the byte. */
static void failures(const char *cap_mib)
{
	uint64_t cap = (uint64_t)atoi(cap_mib) * MIB;
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool pool;
	CUdeviceptr p;

	context(0);
	for (int i = 0; i < 100; i++) {
		fake_fail_next(CUDA_ERROR_LAUNCH_FAILED);
		CHECK(cuMemAllocAsync(&p, (uint64_t)i * MIB + 1, NULL) == CUDA_ERROR_LAUNCH_FAILED);
		if (i % 8 == 0)
			CHECK(left() == cap);
	}
	fake_fail_next(CUDA_ERROR_LAUNCH_FAILED);
	CHECK(cuMemPoolCreate(&pool, &props) == CUDA_ERROR_LAUNCH_FAILED);
	CHECK(cuMemFreeAsync(77, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAllocAsync(NULL, 1, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAllocAsync(&p, SIZE_MAX, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocAsync(&p, cap + 1, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(left() == cap && charged() == 0);
}

/* Charged ahead, and then another process needs the room. */
static void give_way(const char *unused)
{
	CUdeviceptr p, q;
	char c;

	context(0);
	CHECK(cuMemAllocAsync(&p, 4096, NULL) == CUDA_SUCCESS);
	CHECK(cuMemAllocAsync(&q, 4096, NULL) == CUDA_SUCCESS);
	CHECK(charged() > fake_live(0));
	CHECK(cuMemFreeAsync(q, NULL) == CUDA_SUCCESS);
	CHECK(fwrite("r", 1, 1, stdout) == 1 && fflush(stdout) == 0);
	CHECK(fread(&c, 1, 1, stdin) == 1); /* somebody was refused */
	CHECK(cuMemAllocAsync(&q, 4096, NULL) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(q, NULL) == CUDA_SUCCESS);
	CHECK(fwrite("r", 1, 1, stdout) == 1 && fflush(stdout) == 0);
	CHECK(fread(&c, 1, 1, stdin) == 0); /* and now has it */
}

static void take_all_but_a_step(const char *mib)
{
	CUdeviceptr p;

	context(0);
	exit(cuMemAlloc_v2(&p, (uint64_t)atoi(mib) * MIB));
}

/* A stream that waits for the host, and everything is freed behind that. Whatever the fence wants, it
 * does not wait along. */
static void stuck(const char *unused)
{
	CUdeviceptr p[8], q;

	context(0);
	alarm(20);
	for (int i = 0; i < 8; i++)
		CHECK(cuMemAllocAsync(&p[i], STEP, NULL) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(p[7], NULL) == CUDA_SUCCESS);
	fake_pool_stuck(true);
	CHECK(cuMemAlloc_v2(&q, MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocAsync(&q, 2 * STEP, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(charged() == 8 * STEP && fake_live(0) == 8 * STEP);
	CHECK(cuMemAllocAsync(&p[7], STEP, NULL) == CUDA_SUCCESS); /* of what is idle */
	CHECK(cuMemFreeAsync(p[7], NULL) == CUDA_SUCCESS);
	fake_pool_stuck(false);
	CHECK(cuMemAlloc_v2(&q, MIB) == CUDA_SUCCESS);
	CHECK(cuMemFree_v2(q) == CUDA_SUCCESS);
}

/* Idle bytes that are of no use: the pool takes more than it was thought to. */
static void scattered(const char *unused)
{
	CUdeviceptr p[8], q;

	context(0);
	alarm(20);
	for (int i = 0; i < 8; i++)
		CHECK(cuMemAllocAsync(&p[i], STEP, NULL) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(p[7], NULL) == CUDA_SUCCESS);
	fake_pool_scattered(true);
	CHECK(cuMemAllocAsync(&p[7], STEP, NULL) == CUDA_SUCCESS); /* trimmed, and had again */
	CHECK(charged() == 8 * STEP && fake_live(0) == 8 * STEP);
	CHECK(cuMemFreeAsync(p[7], NULL) == CUDA_SUCCESS);
	fake_pool_stuck(true); /* cannot be undone: refused, and booked */
	CHECK(cuMemAllocAsync(&q, STEP, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(fake_live(0) > 8 * STEP && charged() == fake_live(0));
	CHECK(cuMemAlloc_v2(&q, 1) == CUDA_ERROR_OUT_OF_MEMORY && left() == 0);
	fake_pool_stuck(false);
	CHECK(cuMemAlloc_v2(&q, 1) == CUDA_SUCCESS);
	CHECK(fake_live(0) <= 8 * STEP && charged() >= fake_live(0));
}

static void calm(const char *unused)
{
	CUdeviceptr p, q;

	context(0);
	CHECK(cuMemAllocAsync(&p, 4096, NULL) == CUDA_SUCCESS);
	CHECK(cuMemAllocAsync(&q, 4096, NULL) == CUDA_SUCCESS);
	CHECK(charged() > fake_live(0) && charged() <= fake_live(0) + 4096 * MIB / 32);
	CHECK(cuStreamSynchronize(NULL) == CUDA_SUCCESS);
	CHECK(charged() == fake_live(0));
	CHECK(cuMemAllocAsync(&p, 4096, NULL) == CUDA_SUCCESS);
	CHECK(charged() > fake_live(0));
	CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
	CHECK(charged() == fake_live(0));
}

#define THREADS 8

static void *hammer_one(void *seed_)
{
	uint64_t seed = (uintptr_t)seed_ * 0x9e3779b97f4a7c15ull;
	CUdeviceptr got[8] = { 0 }, plain;
	CUcontext ctx;

	CHECK(cuCtxCreate_v2(&ctx, 0, 0) == CUDA_SUCCESS);
	for (int i = 0; i < 4000; i++) {
		CUdeviceptr *p = &got[(seed >> 20) % 8];
		uint64_t n = 1 + (seed >> 13) % ((uint64_t)1 << (9 + (seed >> 30) % 19));

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		if (*p) {
			CHECK(cuMemFreeAsync(*p, NULL) == CUDA_SUCCESS);
			*p = 0;
			continue;
		}
		CUresult r = cuMemAllocAsync(p, n, NULL);
		CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY);
		if (r != CUDA_SUCCESS)
			*p = 0;
		if (i % 16 == 0 && cuMemAlloc_v2(&plain, n) == CUDA_SUCCESS)
			CHECK(cuMemFreeAsync(plain, NULL) == CUDA_SUCCESS);
		if (i % 512 == 0)
			trim();
	}
	for (int i = 0; i < 8; i++)
		CHECK(got[i] == 0 || cuMemFree_v2(got[i]) == CUDA_SUCCESS);
	return NULL;
}

static void hammer(const char *number)
{
	pthread_t t[THREADS];

	context(0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, hammer_one,
				     (void *)(i + 1 + (uintptr_t)atoi(number) * THREADS)) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	trim();
	left();
	CHECK(fake_live(0) == 0 && charged() == 0);
}

static const struct scenario scenarios[] = {
	{ "unasked", unasked },	    { "random-sizes", random_sizes }, { "growing", growing },
	{ "surprise", surprise },   { "destroyed", destroyed },	      { "current", current },
	{ "elsewhere", elsewhere }, { "imported", imported },	      { "failures", failures },
	{ "stuck", stuck },	    { "scattered", scattered },	      { "calm", calm },
	{ "give-way", give_way },   { "take", take_all_but_a_step },  { "hammer", hammer },
};

int main(int argc, char **argv)
{
	return play(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
}
