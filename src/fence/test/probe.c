/* A program inside a fence: runs one scenario against the fake driver, with libringfence preloaded.
 * Exit status 0: as promised; 1: a check failed (said on stderr). Linked to the driver like an
 * ordinary CUDA program. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fence/cuda_more.h"
#include "fence/symbols.h"
#include "fence/test/fake.h"
#include "gpu/nvml_abi.h"

#define MIB ((uint64_t)1 << 20)
#define CAP (256 * MIB)
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "probe: line %d: %s\n", __LINE__, #cond);                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

void *rf_next_ask(void);
int rf_next_other(void);

static CUcontext context(int dev)
{
	CUcontext ctx;

	CHECK(cuInit(0) == CUDA_SUCCESS);
	CHECK(cuCtxCreate_v2(&ctx, 0, dev) == CUDA_SUCCESS);
	return ctx;
}

static size_t free_bytes(void)
{
	size_t free_, total;

	CHECK(cuMemGetInfo_v2(&free_, &total) == CUDA_SUCCESS);
	CHECK(total == CAP);
	return free_;
}

/* --- every counted path holds the cap --- */

#define PIECE (16 * MIB)
#define PIECES 64

static CUresult get(const char *path, CUdeviceptr *ret)
{
	CUmemAllocationProp prop = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUDA_ARRAY_DESCRIPTOR flat = { 1024, 1024, CU_AD_FORMAT_FLOAT, 4 };
	CUDA_ARRAY3D_DESCRIPTOR deep = { 256, 256, 64, CU_AD_FORMAT_FLOAT, 1, 0 };
	size_t pitch;

	if (strcmp(path, "alloc") == 0)
		return cuMemAlloc_v2(ret, PIECE);
	if (strcmp(path, "pitch") == 0)
		return cuMemAllocPitch_v2(ret, &pitch, 4000, 4096, 4);
	if (strcmp(path, "managed") == 0)
		return cuMemAllocManaged(ret, PIECE, CU_MEM_ATTACH_GLOBAL);
	if (strcmp(path, "async") == 0)
		return cuMemAllocAsync(ret, PIECE, NULL);
	if (strcmp(path, "async-ptsz") == 0)
		return cuMemAllocAsync_ptsz(ret, PIECE, NULL);
	if (strcmp(path, "create") == 0)
		return cuMemCreate(ret, PIECE, &prop, 0);
	if (strcmp(path, "array") == 0)
		return cuArrayCreate_v2((CUarray *)ret, &flat);
	if (strcmp(path, "array3d") == 0)
		return cuArray3DCreate_v2((CUarray *)ret, &deep);
	if (strcmp(path, "mipmap") == 0)
		return cuMipmappedArrayCreate((CUmipmappedArray *)ret, &deep, 1);
	CHECK(!"a known path");
	return 0;
}

static CUresult put(const char *path, CUdeviceptr p)
{
	if (strcmp(path, "async") == 0)
		return cuMemFreeAsync(p, NULL);
	if (strcmp(path, "async-ptsz") == 0)
		return cuMemFreeAsync_ptsz(p, NULL);
	if (strcmp(path, "create") == 0)
		return cuMemRelease(p);
	if (strncmp(path, "array", 5) == 0)
		return cuArrayDestroy((CUarray)(uintptr_t)p);
	if (strcmp(path, "mipmap") == 0)
		return cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)p);
	return cuMemFree_v2(p);
}

static void fill_up(const char *path)
{
	CUdeviceptr got[PIECES];
	unsigned n = 0;
	CUresult r;

	while ((r = get(path, &got[n])) == CUDA_SUCCESS && ++n < PIECES)
		CHECK(fake_live(0) <= CAP);
	CHECK(r == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(n == CAP / PIECE);
	CHECK(free_bytes() == 0);
	CHECK(put(path, got[--n]) == CUDA_SUCCESS);
	CHECK(get(path, &got[n++]) == CUDA_SUCCESS);
	while (n > 0)
		CHECK(put(path, got[--n]) == CUDA_SUCCESS);
}

static void path(const char *name)
{
	CUmemoryPool pool;

	context(0);
	fill_up(name);
	if (strncmp(name, "async", 5) == 0) { /* freed into the pool: still on the card */
		CHECK(fake_live(0) == CAP && free_bytes() == 0);
		CHECK(cuDeviceGetMemPool(&pool, 0) == CUDA_SUCCESS);
		CHECK(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
	}
	CHECK(fake_live(0) == 0);
	CHECK(free_bytes() == CAP);
}

/* --- pools --- */

static void own_pool(const char *unused)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool pool;
	CUdeviceptr a, b;

	context(0);
	CHECK(cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS);
	CHECK(cuMemAllocFromPoolAsync(&a, 1000, pool, NULL) == CUDA_SUCCESS);
	CHECK(free_bytes() == CAP - FAKE_POOL_STEP); /* what the pool fetched, not what was asked */
	CHECK(cuMemAllocFromPoolAsync(&b, 240 * MIB, pool, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(fake_live(0) == FAKE_POOL_STEP);
	CHECK(cuMemAlloc_v2(&b, 240 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocFromPoolAsync_ptsz(&b, 200 * MIB, pool, NULL) == CUDA_SUCCESS);
	CHECK(cuMemFree_v2(a) == CUDA_SUCCESS);
	CHECK(cuMemFreeAsync(b, NULL) == CUDA_SUCCESS);
	CHECK(free_bytes() == CAP - fake_live(0) && fake_live(0) > 200 * MIB);
	CHECK(cuMemAlloc_v2(&b, 240 * MIB) == CUDA_SUCCESS); /* the pool gives back what it keeps */
	CHECK(cuMemFree_v2(b) == CUDA_SUCCESS);
	CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
	CHECK(fake_live(0) == 0 && free_bytes() == CAP);
	CHECK(cuMemAllocFromPoolAsync(&a, 1000, (CUmemoryPool)&props, NULL) ==
	      CUDA_ERROR_NOT_SUPPORTED);
}

/* --- handles --- */

static void mapped_handle(const char *unused)
{
	CUmemAllocationProp prop = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAllocationProp host = { .location = { CU_MEM_LOCATION_TYPE_HOST, 0 } };
	CUmemGenericAllocationHandle h, again, other;
	CUdeviceptr at = 0x700000000000;

	context(0);
	CHECK(cuMemCreate(&h, 200 * MIB, &prop, 0) == CUDA_SUCCESS);
	CHECK(cuMemMap(at, 100 * MIB, 0, h, 0) == CUDA_SUCCESS);
	CHECK(cuMemMap(at + 100 * MIB, 100 * MIB, 100 * MIB, h, 0) == CUDA_SUCCESS);
	CHECK(cuMemRelease(h) == CUDA_SUCCESS);
	CHECK(free_bytes() == CAP - 200 * MIB); /* mapped: still there */
	CHECK(cuMemCreate(&other, 100 * MIB, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at) == CUDA_SUCCESS);
	CHECK(cuMemUnmap(at, 200 * MIB) == CUDA_SUCCESS);
	CHECK(free_bytes() == CAP - 200 * MIB); /* retained: still there */
	CHECK(cuMemRelease(again) == CUDA_SUCCESS);
	CHECK(free_bytes() == CAP && fake_live(0) == 0);
	CHECK(cuMemCreate(&h, 2048 * MIB, &host, 0) == CUDA_SUCCESS); /* not on the card */
	CHECK(free_bytes() == CAP);
	CHECK(cuMemRelease(h) == CUDA_SUCCESS);
}

/* --- failures and frees --- */

static void roll_back(const char *unused)
{
	static const char *const paths[] = { "alloc",  "pitch", "managed", "async",
					     "create", "array", "array3d", "mipmap" };
	CUdeviceptr p;

	context(0);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		fake_fail_next(CUDA_ERROR_LAUNCH_FAILED);
		CHECK(get(paths[i], &p) == CUDA_ERROR_LAUNCH_FAILED);
		CHECK(free_bytes() == CAP);
	}
	CHECK(cuMemAlloc_v2(NULL, 16) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAlloc_v2(&p, SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAlloc_v2(&p, 16) == CUDA_SUCCESS);
	CHECK(cuMemFree_v2(p + 8) == CUDA_ERROR_INVALID_VALUE); /* the driver's own answer */
	CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
	CHECK(cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
	CHECK(free_bytes() == CAP);
}

static void contexts(const char *unused)
{
	CUcontext ctx = context(0), prim;
	CUdeviceptr p;

	CHECK(cuMemAlloc_v2(&p, 100 * MIB) == CUDA_SUCCESS);
	CHECK(cuCtxDestroy_v2(ctx) == CUDA_SUCCESS);
	CHECK(cuMemAlloc_v2(&p, 1) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuDevicePrimaryCtxRetain(&prim, 0) == CUDA_SUCCESS);
	CHECK(cuDevicePrimaryCtxRetain(&prim, 0) == CUDA_SUCCESS);
	CHECK(cuCtxSetCurrent(prim) == CUDA_SUCCESS);
	CHECK(free_bytes() == CAP);
	CHECK(cuMemAlloc_v2(&p, 100 * MIB) == CUDA_SUCCESS);
	CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	CHECK(free_bytes() == CAP - 100 * MIB); /* somebody still has it */
	CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
	CHECK(free_bytes() == CAP);
}

/* --- views --- */

static void views(const char *unused)
{
	nvmlMemory_v2_t v2 = { .version = NVML_MEMORY_V2 };
	nvmlProcessInfo_t list[4];
	unsigned int n = 0;
	nvmlDevice_t card, whole;
	nvmlMemory_t v1;
	size_t total, free_;
	CUdeviceptr p;

	context(0);
	CHECK(cuMemAlloc_v2(&p, 56 * MIB) == CUDA_SUCCESS);
	CHECK(cuDeviceTotalMem_v2(&total, 0) == CUDA_SUCCESS && total == CAP);
	CHECK(cuDeviceTotalMem_v2(&total, 1) == CUDA_SUCCESS && total == FAKE_TOTAL);
	CHECK(cuDeviceTotalMem_v2(NULL, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemGetInfo_v2(NULL, &total) == CUDA_SUCCESS && total == CAP);
	CHECK(cuMemGetInfo_v2(&free_, NULL) == CUDA_SUCCESS && free_ == 200 * MIB);
	CHECK(cuMemGetInfo_v2(NULL, NULL) == CUDA_SUCCESS);
	CHECK(nvmlInit_v2() == NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByIndex_v2(1, &card) == NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByIndex_v2(0, &whole) == NVML_SUCCESS);
	CHECK(nvmlDeviceGetMemoryInfo(card, &v1) == NVML_SUCCESS);
	CHECK(v1.total == CAP && v1.free == 200 * MIB && v1.used == 56 * MIB);
	CHECK(nvmlDeviceGetMemoryInfo_v2(card, &v2) == NVML_SUCCESS);
	CHECK(v2.total == CAP && v2.free == 200 * MIB && v2.used == 56 * MIB && v2.reserved == 0);
	CHECK(nvmlDeviceGetMemoryInfo(card, NULL) == NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMemoryInfo(whole, &v1) == NVML_SUCCESS && v1.total == FAKE_TOTAL);
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, NULL) ==
	      NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(n == 1);
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, list) == NVML_SUCCESS && n == 1);
	CHECK(list[0].pid == (unsigned int)getpid() && list[0].usedGpuMemory == 56 * MIB);
	CHECK(nvmlDeviceGetGraphicsRunningProcesses_v3(card, &n, list) == NVML_ERROR_NOT_SUPPORTED);
}

static void refusals(const char *unused)
{
	CUDA_ARRAY3D_DESCRIPTOR sparse = { 64, 64, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE };
	CUarray array;

	context(0);
	CHECK(cuArray3DCreate_v2(&array, &sparse) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(fake_calls() == 0);
}

/* A fence of whole cards lets everything through, arguments intact, on the stack too. */
static void whole(const char *unused)
{
	CUipcMemHandle ipc = { { 0 } };
	CUdeviceptr p;

	ipc.reserved[63] = 41;
	context(0);
	CHECK(cuIpcOpenMemHandle_v2(&p, ipc, 1) == CUDA_SUCCESS && p == 42);
	CHECK(cuMemAlloc_v2(&p, 900 * MIB) == CUDA_SUCCESS);
	CHECK(fake_calls() == 1);
}

static void stranger_card(const char *unused)
{
	CUdeviceptr p;
	size_t n;

	context(1);
	CHECK(cuMemAlloc_v2(&p, 16) == CUDA_ERROR_NOT_PERMITTED);
	CHECK(cuMemGetInfo_v2(&n, &n) == CUDA_ERROR_NOT_PERMITTED);
	CHECK(fake_live(1) == 0);
}

/* --- look-ups --- */

static bool in_fence(const void *p)
{
	Dl_info info;

	return p && dladdr(p, &info) && strstr(info.dli_fname, "libringfence") != NULL;
}

static void lookups(const char *unused)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	void *any = (void *)cuMemAlloc_v2;

	CHECK(in_fence(any));
	CHECK(lib && dlsym(lib, "cuMemAlloc_v2") == any);
	CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == any);
	CHECK(dlsym(RTLD_NEXT, "cuMemAlloc_v2") == any);
	CHECK(dlvsym(lib, "cuMemAlloc_v2", "NO_SUCH_VERSION") == NULL ||
	      dlvsym(lib, "cuMemAlloc_v2", "NO_SUCH_VERSION") == any);
	CHECK(dlsym(lib, "cuDeviceGetCount") == fake_pointer("cuDeviceGetCount"));
	CHECK(dlsym(lib, "cuNoSuchFunction") == NULL && dlerror() != NULL);
	CHECK(dlsym(lib, "cuMemMapArrayAsync") == NULL &&
	      dlerror() != NULL); /* not in this driver */
	CHECK(in_fence(dlsym(dlopen("libc.so.6", RTLD_NOW), "dlsym")));
	CHECK(in_fence(dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.34")));
	CHECK(rf_next_other() == 0);
	for (int i = 0; i < 1000; i++)
		CHECK(((int (*)(void))rf_next_ask())() == 2);
}

static void *proc(const char *name, int version, cuuint64_t flags)
{
	void *v1 = NULL, *v2 = NULL;
	int status = -1;

	CHECK(cuGetProcAddress(name, &v1, version, flags) == CUDA_SUCCESS);
	CHECK(cuGetProcAddress_v2(name, &v2, version, flags, &status) == CUDA_SUCCESS);
	CHECK(v1 == v2 && status == CU_GET_PROC_ADDRESS_SUCCESS);
	return v1;
}

static void proc_address(const char *unused)
{
	int ptsz = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	void *p;
	int status;

	CHECK(proc("cuMemAlloc", 12000, 0) == (void *)cuMemAlloc_v2);
	CHECK(proc("cuMemAllocAsync", 12000, 0) == (void *)cuMemAllocAsync);
	CHECK(proc("cuMemAllocAsync", 12000, ptsz) == (void *)cuMemAllocAsync_ptsz);
	CHECK(proc("cuGetProcAddress", 11030, 0) == (void *)cuGetProcAddress);
	CHECK(proc("cuGetProcAddress", 13000, 0) == (void *)cuGetProcAddress_v2);
	CHECK(proc("cuDeviceGetCount", 13000, 0) == fake_pointer("cuDeviceGetCount"));
	CHECK(cuGetProcAddress_v2("cuNone", &p, 13000, 0, &status) == CUDA_ERROR_NOT_FOUND);
	CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	fake_unexported(true);
	CHECK(proc("cuMemAlloc", 12000, 0) == (void *)cuMemAlloc_v2);
	CHECK(proc("cuMemAlloc", 12000, ptsz) == (void *)cuMemAlloc_v2);
}

static void newer_driver(const char *unused)
{
	int version = 0, status;
	void *p;

	CHECK(cuDriverGetVersion(&version) == CUDA_SUCCESS && version == RF_CUDA_NEWEST);
	CHECK(proc("cuMemAlloc", FAKE_VERSION, 0) == (void *)cuMemAlloc_v2);
	CHECK(cuGetProcAddress("cuMemTake", &p, FAKE_VERSION, 0) == CUDA_ERROR_NOT_FOUND);
	CHECK(cuGetProcAddress_v2("cuMemTake", &p, FAKE_VERSION, 0, &status) == CUDA_ERROR_NOT_FOUND);
	CHECK(p == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	CHECK(cuDriverGetVersion(NULL) == CUDA_ERROR_INVALID_VALUE);
}

static void newer_driver_whole(const char *unused)
{
	int version = 0;

	CHECK(cuDriverGetVersion(&version) == CUDA_SUCCESS && version == FAKE_VERSION);
	CHECK(proc("cuMemAlloc", FAKE_VERSION, 0) == fake_pointer("cuMemAlloc_v3"));
	CHECK(proc("cuMemTake", FAKE_VERSION, 0) == fake_pointer("cuMemTake"));
}

/* --- processes --- */

static void forked(const char *unused)
{
	CUdeviceptr p;
	int status;
	pid_t pid;

	context(0);
	CHECK(cuMemAlloc_v2(&p, 100 * MIB) == CUDA_SUCCESS);
	pid = fork();
	if (pid == 0) { /* the fake driver survives fork; a real one would not, the books must */
		CHECK(free_bytes() == CAP - 100 * MIB);
		CHECK(cuMemAlloc_v2(&p, 100 * MIB) == CUDA_SUCCESS);
		CHECK(free_bytes() == CAP - 200 * MIB);
		CHECK(cuMemAlloc_v2(&p, 100 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(free_bytes() == CAP - 100 * MIB);
	CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
	CHECK(free_bytes() == CAP);
}

/* A daemon that closes every descriptor loses its seat, not its charge. */
static void closed_fds(const char *unused)
{
	CUdeviceptr p;
	int status;
	pid_t pid;

	context(0);
	CHECK(cuMemAlloc_v2(&p, 200 * MIB) == CUDA_SUCCESS);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	pid = fork(); /* another process clears the seat that looks empty */
	if (pid == 0) {
		cuMemAlloc_v2(&p, 100 * MIB);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(cuMemAlloc_v2(&p, 100 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(free_bytes() == 56 * MIB);
}

static void hold(const char *mib)
{
	CUdeviceptr p;
	char c;

	context(0);
	CHECK(cuMemAlloc_v2(&p, (uint64_t)atoi(mib) * MIB) == CUDA_SUCCESS);
	CHECK(write(STDOUT_FILENO, "r", 1) == 1);
	CHECK(read(STDIN_FILENO, &c, 1) >= 0);
}

static void ask_for(const char *mib)
{
	CUdeviceptr p;

	context(0);
	exit(cuMemAlloc_v2(&p, (uint64_t)atoi(mib) * MIB));
}

static void no_agent(const char *unused)
{
	nvmlDevice_t device;
	nvmlMemory_t m;
	CUdeviceptr p;

	errno = 77;
	CHECK(cuInit(0) == CUDA_ERROR_NOT_PERMITTED);
	CHECK(errno == 77);
	CHECK(nvmlInit_v2() == NVML_ERROR_NO_PERMISSION);
	CHECK(cuMemAlloc_v2(&p, 16) == CUDA_ERROR_NOT_PERMITTED);
	CHECK(cuIpcOpenMemHandle_v2(&p, (CUipcMemHandle){ { 0 } }, 0) == CUDA_ERROR_NOT_PERMITTED);
	CHECK(nvmlDeviceGetHandleByIndex_v2(0, &device) == NVML_SUCCESS);
	CHECK(nvmlDeviceGetMemoryInfo(device, &m) == NVML_ERROR_NO_PERMISSION);
	CHECK(fake_calls() == 0);
}

static void in_vain(const char *unused) /* the fence stands whatever the environment says */
{
	CUdeviceptr p;

	context(0);
	CHECK(cuMemAlloc_v2(&p, CAP + 1) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAlloc_v2(&p, CAP) == CUDA_SUCCESS);
}

#define THREADS 8
#define ROUNDS 4000

static void *hammer_one(void *seed_)
{
	uint64_t seed = (uintptr_t)seed_ * 0x9e3779b97f4a7c15ull;
	CUdeviceptr got[8] = { 0 };
	CUcontext ctx;

	CHECK(cuCtxCreate_v2(&ctx, 0, 0) == CUDA_SUCCESS);
	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr *p = &got[(seed >> 20) % 8];

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		if (*p) {
			CHECK(cuMemFree_v2(*p) == CUDA_SUCCESS);
			*p = 0;
			continue;
		}
		CUresult r = cuMemAlloc_v2(p, ((seed >> 40) % 24 + 1) * MIB);
		CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY);
		if (r != CUDA_SUCCESS)
			*p = 0;
	}
	for (int i = 0; i < 8; i++)
		CHECK(got[i] == 0 || cuMemFree_v2(got[i]) == CUDA_SUCCESS);
	return NULL;
}

static void hammer(const char *number)
{
	pthread_t t[THREADS];

	CHECK(cuInit(0) == CUDA_SUCCESS);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, hammer_one,
				     (void *)(i + 1 + (uintptr_t)atoi(number) * THREADS)) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	CHECK(fake_live(0) == 0);
}

static const struct {
	const char *name;
	void (*run)(const char *arg);
} scenarios[] = {
	{ "path", path },
	{ "own-pool", own_pool },
	{ "mapped", mapped_handle },
	{ "roll-back", roll_back },
	{ "contexts", contexts },
	{ "views", views },
	{ "refusals", refusals },
	{ "whole", whole },
	{ "stranger", stranger_card },
	{ "lookups", lookups },
	{ "proc-address", proc_address },
	{ "newer-driver", newer_driver },
	{ "newer-driver-whole", newer_driver_whole },
	{ "fork", forked },
	{ "closed-fds", closed_fds },
	{ "hold", hold },
	{ "no-agent", no_agent },
	{ "in-vain", in_vain },
	{ "hammer", hammer },
	{ "ask", ask_for },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (strcmp(scenarios[i].name, argv[1]) == 0) {
			scenarios[i].run(argc > 2 ? argv[2] : "");
			return 0;
		}
	}
	fprintf(stderr, "probe: no such scenario\n");
	return 2;
}
