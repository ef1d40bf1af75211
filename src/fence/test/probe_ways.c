/* A program inside a fence that goes every other way to device memory. The fence's books (as NVML
 * shows them) are held against what the fake driver handed out, to the byte. Exit status 0: as
 * promised; 1: a check failed (said on stderr). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fence/test/fake_inside.h"
#include "gpu/nvml_abi.h"

#define MIB ((uint64_t)1 << 20)
#define CAP (256 * MIB)
#define CONTEXT (30 * MIB) /* where the agent said so */
#define GREEN (6 * MIB)
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "ways: line %d: %s\n", __LINE__, #cond);                   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)
#define OOM(call) CHECK((call) == CUDA_ERROR_OUT_OF_MEMORY)
#define BROKEN(call) CHECK((call) == CUDA_ERROR_LAUNCH_FAILED)

static CUcontext context(int dev)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, dev));
	return ctx;
}

static nvmlDevice_t nvml(int dev)
{
	nvmlDevice_t device; /* NVML has them the other way round */

	CHECK(nvmlInit_v2() == NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByIndex_v2((unsigned)(1 - dev), &device) == NVML_SUCCESS);
	return device;
}

static uint64_t booked_on(int dev)
{
	nvmlMemory_t m;

	CHECK(nvmlDeviceGetMemoryInfo(nvml(dev), &m) == NVML_SUCCESS);
	CHECK(m.used + m.free == m.total);
	return m.used;
}

static uint64_t booked(void)
{
	return booked_on(0);
}

/* The books and the card agree. */
static bool holds(uint64_t bytes)
{
	return booked() == bytes && fake_live(0) == bytes;
}

static void break_next(int calls_later)
{
	fake_fail_after(calls_later, CUDA_ERROR_LAUNCH_FAILED);
}

/* --- handles --- */

static CUresult import(CUmemGenericAllocationHandle *h, uint64_t mib)
{
	return cuMemImportFromShareableHandle(h, (void *)(uintptr_t)mib, 1);
}

static void imports_of(bool exact)
{
	static const unsigned sizes[] = { 2, 4, 6, 34, 100, 128, 250, 254, 256 };
	CUmemGenericAllocationHandle h;

	fake_exact_maps(exact);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		OK(import(&h, sizes[i]));
		CHECK(holds(sizes[i] * MIB));
		OK(cuMemRelease(h));
		CHECK(holds(0));
	}
	OOM(import(&h, 258));
	OOM(import(&h, 700));
	CHECK(holds(0) && fake_reserved() == 0);
}

static void imported(void)
{
	CUmemGenericAllocationHandle h, other;
	CUdeviceptr p, at = 0x700000000000;

	context(0);
	imports_of(false);
	imports_of(true);
	OK(cuMemAlloc_v2(&p, 156 * MIB));
	OK(import(&h, 100));
	OOM(import(&other, 2));
	CHECK(holds(256 * MIB));
	OK(cuMemMap(at, 100 * MIB, 0, h, 0));
	OK(cuMemRelease(h));
	CHECK(holds(256 * MIB)); /* mapped */
	OK(cuMemUnmap(at, 100 * MIB));
	CHECK(holds(156 * MIB));
	OK(cuMemFree_v2(p));
	OK(import(&h, 9998)); /* on the host */
	CHECK(holds(0));
	OK(cuMemRelease(h));
}

static void broken_imports(void)
{
	CUmemGenericAllocationHandle h = 77;

	context(0);
	break_next(0);
	BROKEN(import(&h, 100));
	break_next(1);
	BROKEN(import(&h, 100)); /* the range to try it in */
	CHECK(h == 77 && holds(0) && fake_reserved() == 0);
}

static void exported(void)
{
	CUmemAllocationProp prop = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle h, again;
	int fd = -1;

	context(0);
	OK(cuMemCreate(&h, 100 * MIB, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	CHECK(fd == 100);
	OK(import(&again, (uint64_t)fd)); /* by the same fence: counted all the same */
	CHECK(holds(200 * MIB));
	OK(cuMemRelease(h));
	CHECK(holds(100 * MIB));
	OK(cuMemRelease(again));
	CHECK(holds(0));
}

static void places(void)
{
	CUmemAllocationProp prop = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
	CUmemGenericAllocationHandle h;

	context(0);
	OK(cuMemCreate(&h, 64 * MIB, &prop, 0)); /* the handle's card, not the context's */
	CHECK(booked() == 0 && booked_on(1) == 64 * MIB && fake_live(1) == 64 * MIB);
	OOM(cuMemCreate(&h, 66 * MIB, &prop, 0));
	prop.location.id = 7;
	CHECK(cuMemCreate(&h, 2 * MIB, &prop, 0) != CUDA_SUCCESS);
	for (int type = 2; type <= 4; type++) {
		prop.location = (CUmemLocation){ type, 0 };
		OK(cuMemCreate(&h, 1024 * MIB, &prop, 0));
	}
	prop.location.type = 77;
	CHECK(cuMemCreate(&h, 2 * MIB, &prop, 0) == CUDA_ERROR_NOT_SUPPORTED);
	prop = (CUmemAllocationProp){ .type = 2, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CHECK(cuMemCreate(&h, 2 * MIB, &prop, 0) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(holds(0));
}

static CUmemGenericAllocationHandle memory(uint64_t mib)
{
	CUmemAllocationProp prop = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle h;

	OK(cuMemCreate(&h, mib * MIB, &prop, 0));
	return h;
}

static void multicast(void)
{
	CUmulticastObjectProp prop = { .numDevices = 2 };
	CUmemGenericAllocationHandle object, h;
	CUdeviceptr at = 0x700000000000;

	context(0);
	OK(cuMulticastCreate(&object, &prop));
	h = memory(100);
	OK(cuMulticastBindMem(object, 0, h, 0, 100 * MIB, 0));
	OK(cuMemRelease(h));
	CHECK(holds(100 * MIB));
	CHECK(cuMulticastUnbind(object, 1, 0, 100 * MIB) != CUDA_SUCCESS);
	CHECK(holds(100 * MIB));
	OK(cuMulticastUnbind(object, 0, 0, 100 * MIB));
	CHECK(holds(0));

	h = memory(64);
	OK(cuMemMap(at, 64 * MIB, 0, h, 0));
	OK(cuMulticastBindAddr(object, 0, at, 64 * MIB, 0));
	OK(cuMemRelease(h));
	OK(cuMemUnmap(at, 64 * MIB));
	CHECK(holds(64 * MIB));
	h = memory(32);
	OK(cuMulticastBindMem_v2(object, 0, 64 * MIB, h, 0, 32 * MIB, 0));
	OK(cuMemRelease(h));
	CHECK(holds(96 * MIB));
	OK(cuMemRelease(object)); /* and all that was bound goes */
	fake_object_gone();
	CHECK(holds(0));

	OK(cuMulticastCreate(&object, &prop));
	h = memory(100);
	break_next(0);
	BROKEN(cuMulticastBindMem(object, 0, h, 0, 100 * MIB, 0));
	OK(cuMemRelease(h));
	CHECK(holds(0));
	CHECK(cuMulticastBindAddr(object, 0, 0x1234, MIB, 0) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemRelease(object));
}

/* Others may keep the object, and with it what this process bound. */
static void shared_multicast(void)
{
	CUmemGenericAllocationHandle object, h;

	context(0);
	OK(import(&object, 9999));
	CHECK(holds(0));
	h = memory(100);
	OK(cuMulticastBindMem(object, 0, h, 0, 100 * MIB, 0));
	OK(cuMemRelease(h));
	OK(cuMemRelease(object));
	CHECK(booked() == 100 * MIB);
}

/* --- memory of others --- */

static CUresult open_ipc(CUdeviceptr *p, uint64_t number, uint64_t bytes)
{
	uint64_t say[2] = { number, bytes };
	CUipcMemHandle h = { { 0 } };

	memcpy(h.reserved, say, sizeof(say));
	return cuIpcOpenMemHandle_v2(p, h, 1);
}

static void ipc(void)
{
	CUcontext ctx = context(0);
	CUdeviceptr a, again, b;

	OK(open_ipc(&a, 0, 100 * MIB));
	OK(open_ipc(&again, 0, 100 * MIB));
	CHECK(a == again && holds(100 * MIB)); /* once */
	OK(open_ipc(&b, 1, 156 * MIB));
	CHECK(holds(CAP));
	b = 77;
	OOM(open_ipc(&b, 2, 2 * MIB));
	CHECK(b == 77 && holds(CAP));
	OK(cuIpcCloseMemHandle(a));
	CHECK(holds(CAP));
	break_next(0);
	BROKEN(cuIpcCloseMemHandle(a));
	CHECK(holds(CAP));
	OK(cuIpcCloseMemHandle(a));
	CHECK(holds(156 * MIB));
	CHECK(cuIpcCloseMemHandle(a) == CUDA_ERROR_INVALID_VALUE);
	CHECK(holds(156 * MIB));
	break_next(0);
	BROKEN(open_ipc(&a, 3, 10 * MIB));
	break_next(1);
	BROKEN(open_ipc(&a, 3, 10 * MIB)); /* its size cannot be had */
	CHECK(holds(156 * MIB));
	OK(cuCtxDestroy_v2(ctx));
	CHECK(holds(0));
}

/* The memory lies on a neighbour of the current card: that one is charged. */
static void ipc_of_peer(void)
{
	CUcontext ctx = context(0);
	CUdeviceptr p, other;

	OK(open_ipc(&p, 8, 100 * MIB));
	CHECK(booked() == 0 && booked_on(1) == 100 * MIB);
	OOM(open_ipc(&other, 9, 30 * MIB));
	OK(cuIpcCloseMemHandle(p));
	CHECK(booked_on(1) == 0);
	OK(open_ipc(&p, 8, 128 * MIB));
	OK(cuCtxDestroy_v2(ctx));
	CHECK(booked_on(1) == 0);
}

enum { OPAQUE_FD = 1, OPAQUE_WIN32 = 2 }; /* the second is of no kind that the fence can look into */

static void external(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = OPAQUE_WIN32, .size = 100 * MIB };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .size = 10 * MIB };
	CUcontext ctx = context(0);
	CUexternalMemory m, other;
	CUdeviceptr p;

	OK(cuImportExternalMemory(&m, &desc));
	CHECK(holds(100 * MIB));
	break_next(0);
	BROKEN(cuExternalMemoryGetMappedBuffer(&p, m, &part));
	OK(cuExternalMemoryGetMappedBuffer(&p, m, &part));
	CHECK(holds(100 * MIB));
	break_next(0);
	BROKEN(cuDestroyExternalMemory(m));
	OK(cuDestroyExternalMemory(m));
	CHECK(holds(100 * MIB)); /* the buffer keeps it */
	OK(cuMemFree_v2(p));
	fake_buffer_gone();
	CHECK(holds(0));
	desc.size = CAP + 1;
	OOM(cuImportExternalMemory(&m, &desc));
	break_next(0);
	desc.size = CAP;
	BROKEN(cuImportExternalMemory(&m, &desc));
	CHECK(holds(0));
	CHECK(cuImportExternalMemory(&m, NULL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuImportExternalMemory(&m, &desc));
	desc.size = 1;
	OOM(cuImportExternalMemory(&other, &desc));
	break_next(0);
	BROKEN(cuDestroyExternalMemory(m));
	CHECK(holds(CAP));
	OK(cuDestroyExternalMemory(m));
	CHECK(holds(0));
	CHECK(cuExternalMemoryGetMappedBuffer(&p, m, &part) == CUDA_ERROR_INVALID_HANDLE);
	/* A descriptor of memory that is larger than said, as large, smaller; too large; of something else. */
	desc = (CUDA_EXTERNAL_MEMORY_HANDLE_DESC){ .type = OPAQUE_FD, .size = 2 * MIB, .handle.fd = 100 };
	OK(cuImportExternalMemory(&m, &desc));
	CHECK(holds(100 * MIB));
	OK(cuDestroyExternalMemory(m));
	desc.size = 100 * MIB;
	OK(cuImportExternalMemory(&m, &desc));
	CHECK(holds(100 * MIB));
	OK(cuDestroyExternalMemory(m));
	desc.handle.fd = 10;
	OK(cuImportExternalMemory(&m, &desc));
	CHECK(holds(100 * MIB));
	OK(cuDestroyExternalMemory(m));
	desc.handle.fd = CAP / MIB + 2;
	OOM(cuImportExternalMemory(&m, &desc));
	CHECK(holds(0));
	desc.handle.fd = 50;
	break_next(0); /* it cannot be imported as a handle */
	OK(cuImportExternalMemory(&m, &desc));
	CHECK(holds(100 * MIB));
	OK(cuCtxDestroy_v2(ctx));
	CHECK(holds(0));
}

/* --- managed memory: card 1 has a cap of 128 MiB --- */

static void managed(void)
{
	CUmemLocation card = { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, host = { 2, 0 };
	CUmemLocation part = { 6, 0 }; /* of a card: CUDA 13.4 */
	static char mine[4096];
	CUdeviceptr p, list[2], own = (uintptr_t)mine;
	size_t sizes[2] = { 4096, 4096 }, from = 0;
	CUcontext ctx = context(0);

	OK(cuMemAllocManaged(&p, 100 * MIB, CU_MEM_ATTACH_HOST));
	CHECK(booked() == 100 * MIB && booked_on(1) == 100 * MIB);
	OOM(cuMemAllocManaged(&list[0], 30 * MIB, CU_MEM_ATTACH_GLOBAL)); /* too much for card 1 */
	break_next(0);
	BROKEN(cuMemAllocManaged(&list[0], 20 * MIB, CU_MEM_ATTACH_GLOBAL));
	CHECK(booked() == 100 * MIB && booked_on(1) == 100 * MIB);
	OK(cuMemPrefetchAsync(p, MIB, 0, NULL));
	OK(cuMemPrefetchAsync_v2(p, MIB, card, 0, NULL));
	OK(cuMemPrefetchAsync(own, 4096, -1, NULL)); /* home */
	OK(cuMemPrefetchAsync_v2(own, 4096, host, 0, NULL));
	CHECK(fake_prefetches() == 4);
	CHECK(cuMemPrefetchAsync(own, 4096, 0, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuMemPrefetchAsync_v2(own, 4096, card, 0, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuMemPrefetchAsync_v2(own, 4096, part, 0, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuMemAdvise(own, 4096, 3, 0) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuMemAdvise_v2(own, 4096, 3, part) == CUDA_ERROR_NOT_SUPPORTED);
	list[0] = p;
	list[1] = own;
	CHECK(cuMemPrefetchBatchAsync(list, sizes, 2, &card, &from, 1, 5, NULL) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	CHECK(fake_prefetches() == 4);
	OK(cuMemPrefetchBatchAsync(list, sizes, 1, &card, &from, 1, 5, NULL));
	OK(cuMemAdvise(own, 4096, 1, 0)); /* mostly read: moves nothing */
	OK(cuMemPrefetchAsync_v2(p, MIB, part, 0, NULL)); /* charged, wherever it is */
	CHECK(fake_prefetches() == 7);
	OK(cuMemFree_v2(p));
	CHECK(booked() == 0 && booked_on(1) == 0);
	OK(cuMemAllocManaged(&p, 100 * MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cuCtxDestroy_v2(ctx));
	CHECK(booked() == 0 && booked_on(1) == 0);
}

/* --- contexts --- */

static void contexts(void)
{
	CUctxCreateParams params = { 0 };
	CUcontext c[9], prim;
	CUdeviceptr p;
	int n = 0;

	OK(cuInit(0));
	fake_context_bytes(CONTEXT);
	OK(cuCtxCreate_v2(&c[n++], 0, 0));
	CHECK(holds(CONTEXT));
	OK(cuCtxCreate_v3(&c[n++], NULL, 7, 0, 0));
	OK(cuCtxCreate_v4(&c[n++], &params, 0, 0));
	CHECK(holds(3 * CONTEXT));
	break_next(0);
	BROKEN(cuCtxCreate_v2(&c[n], 0, 0));
	CHECK(holds(3 * CONTEXT));
	for (; n < 8; n++)
		OK(cuCtxCreate_v2(&c[n], 0, 0));
	OOM(cuCtxCreate_v2(&c[8], 0, 0));
	OOM(cuCtxCreate_v4(&c[8], &params, 0, 0));
	OOM(cuDevicePrimaryCtxRetain(&prim, 0));
	CHECK(holds(8 * CONTEXT));
	OOM(cuMemAlloc_v2(&p, 17 * MIB));
	OK(cuMemAlloc_v2(&p, 16 * MIB)); /* to the byte */
	CHECK(holds(CAP));
	break_next(0);
	BROKEN(cuCtxDestroy_v2(c[7]));
	CHECK(holds(CAP));
	while (n > 0)
		OK(cuCtxDestroy_v2(c[--n]));
	CHECK(holds(0));
}

static void primary(void)
{
	CUcontext a, b;
	rf_green_ctx green;
	CUdeviceptr p;

	OK(cuInit(0));
	fake_context_bytes(CONTEXT);
	break_next(0);
	BROKEN(cuDevicePrimaryCtxRetain(&a, 0));
	CHECK(holds(0));
	OK(cuDevicePrimaryCtxRetain(&a, 0));
	OK(cuDevicePrimaryCtxRetain(&b, 0));
	CHECK(a == b && holds(CONTEXT));
	OK(cuGreenCtxCreate(&green, NULL, 0, 0));
	CHECK(holds(CONTEXT + GREEN)); /* a part of the primary one, and a little */
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK(holds(CONTEXT + GREEN)); /* kept by the green one */
	OK(cuGreenCtxDestroy(green));
	CHECK(holds(0));
	OK(cuGreenCtxCreate(&green, NULL, 0, 0)); /* brings it to life */
	CHECK(holds(CONTEXT + GREEN));
	OK(cuDevicePrimaryCtxRetain(&a, 0));
	OK(cuCtxSetCurrent(a));
	OK(cuMemAlloc_v2(&p, 100 * MIB));
	CHECK(holds(CONTEXT + GREEN + 100 * MIB));
	OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK(holds(0));
	OK(cuDevicePrimaryCtxRetain(&a, 0));
	CHECK(holds(CONTEXT));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK(holds(0));
}

static void limits(void)
{
	CUcontext ctx;
	size_t value = 0;

	OK(cuInit(0));
	fake_context_bytes(CONTEXT);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 40 * MIB));
	CHECK(holds(CONTEXT + 32 * MIB)); /* 8 were there */
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	CHECK(holds(CONTEXT + 38 * MIB)); /* 3 KiB for 2048 threads */
	OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 3 * MIB));
	CHECK(holds(CONTEXT + 40 * MIB));
	OK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 4096));
	CHECK(holds(CONTEXT + 48 * MIB));
	OK(cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 4096));
	CHECK(cuCtxSetLimit(10, 4096) == CUDA_ERROR_NOT_SUPPORTED); /* memory for each block */
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024 + 1)); /* the driver makes 1040 of it */
	CHECK(holds(CONTEXT + 42 * MIB + 16 * 2048));
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	break_next(0);
	BROKEN(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 100 * MIB));
	CHECK(holds(CONTEXT + 42 * MIB));
	OOM(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 225 * MIB));
	OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
	CHECK(value == 40 * MIB && holds(CONTEXT + 42 * MIB));
	OOM(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, SIZE_MAX));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 224 * MIB));
	CHECK(holds(CAP));
	CHECK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 3) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 4 * MIB));
	CHECK(booked() == CONTEXT + 10 * MIB); /* less than at the start is not believed */
	OK(cuCtxDestroy_v2(ctx));
	CHECK(holds(0));
}

/* --- modules --- */

enum shape { PTX, PACKED }; /* text that can be read, and something that cannot */

static const char *image_of(enum shape shape, uint64_t bytes)
{
	static char text[256];
	unsigned long long n = bytes;

	if (shape == PTX)
		snprintf(text, sizeof(text),
			 ".version 8.0\n.target sm_90\n.visible .global .align 4 .b8 big[%llu];\n",
			 n);
	else
		snprintf(text, sizeof(text), "\x01OPAQUE %llu", n);
	return text;
}

static void modules_of(enum shape shape)
{
	CUcontext ctx = context(0);
	CUmodule m, other;

	OK(cuModuleLoadData(&m, image_of(shape, 100 * MIB)));
	CHECK(holds(100 * MIB));
	OK(cuModuleLoadDataEx(&other, image_of(shape, 156 * MIB), 0, NULL, NULL));
	CHECK(holds(CAP));
	OOM(cuModuleLoadData(&m, image_of(shape, 2 * MIB)));
	CHECK(holds(CAP));
	break_next(0);
	BROKEN(cuModuleUnload(other));
	CHECK(holds(CAP));
	OK(cuModuleUnload(other));
	CHECK(holds(100 * MIB));
	break_next(0);
	BROKEN(cuModuleLoadFatBinary(&m, image_of(shape, 10 * MIB)));
	CHECK(holds(100 * MIB));
	OOM(cuModuleLoadData(&m, image_of(shape, 300 * MIB)));
	CHECK(holds(100 * MIB));
	OK(cuModuleLoadData(&m, image_of(shape, 0)));
	CHECK(holds(100 * MIB));
	OK(cuCtxDestroy_v2(ctx));
	CHECK(holds(0));
}

static void modules(void)
{
	modules_of(PTX);
	modules_of(PACKED);
}

/* A neighbour allocates while a module is loaded: it is loaded again to tell the two apart. */
static void neighbour(void)
{
	CUmodule m;

	context(0);
	fake_neighbour(60 * MIB);
	OK(cuModuleLoadData(&m, image_of(PACKED, 40 * MIB)));
	CHECK(booked() == 40 * MIB && fake_live(0) == 100 * MIB);
	OK(cuModuleUnload(m));
	CHECK(booked() == 0);
	fake_neighbour(300 * MIB); /* more than the cap */
	OK(cuModuleLoadData(&m, image_of(PTX, 40 * MIB)));
	CHECK(booked() == 40 * MIB);
	OK(cuModuleUnload(m));
	fake_neighbour(300 * MIB);
	OK(cuModuleLoadData(&m, image_of(PACKED, 40 * MIB)));
	CHECK(booked() == 40 * MIB);
}

static CUresult load_library(CUlibrary *lib, enum shape shape, uint64_t bytes)
{
	return cuLibraryLoadData(lib, image_of(shape, bytes), NULL, NULL, 3, NULL, NULL, 4);
}

static void libraries(void)
{
	CUcontext ctx;
	CUlibrary lib, other;
	CUkernel kernel;
	CUdeviceptr p;

	OK(cuInit(0));
	OK(load_library(&lib, PTX, 100 * MIB));
	CHECK(booked() == 0); /* nobody uses it yet */
	ctx = context(0);
	OK(cuLibraryGetKernel(&kernel, lib, "k"));
	OK(cuLibraryGetGlobal(&p, NULL, lib, "big"));
	CHECK(holds(100 * MIB));
	OK(cuLibraryGetGlobal(&p, NULL, lib, "big"));
	CHECK(holds(100 * MIB));
	OOM(load_library(&other, PTX, 157 * MIB)); /* with a context, at once */
	CHECK(holds(100 * MIB));
	break_next(0);
	BROKEN(load_library(&other, PTX, MIB));
	break_next(0);
	BROKEN(cuLibraryUnload(lib));
	CHECK(holds(100 * MIB));
	OK(cuLibraryUnload(lib));
	CHECK(holds(0));
	OK(load_library(&lib, PACKED, 50 * MIB));
	OK(cuLibraryGetKernel(&kernel, lib, "k"));
	CHECK(holds(0));
	OK(cuLibraryGetGlobal(&p, NULL, lib, "big"));
	CHECK(holds(50 * MIB));
	OK(cuCtxDestroy_v2(ctx));
	CHECK(holds(0));
	OK(cuLibraryUnload(lib));
	CHECK(holds(0));
}

/* --- views --- */

static void processes(void)
{
	nvmlProcessInfo_t list[4];
	nvmlDevice_t card = nvml(0);
	unsigned int n = 0;
	CUcontext ctx, other;
	CUdeviceptr p;

	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, NULL) == NVML_SUCCESS && n == 0);
	ctx = context(0);
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, NULL) ==
	      NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(n == 1);
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, NULL) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, list) == NVML_SUCCESS && n == 1);
	CHECK(list[0].pid == (unsigned int)getpid() && list[0].usedGpuMemory == 0);
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuCtxDestroy_v2(ctx));
	n = 4;
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, list) == NVML_SUCCESS && n == 1);
	OK(cuMemAlloc_v2(&p, 10 * MIB));
	OK(cuMemFree_v2(p));
	OK(cuCtxDestroy_v2(other));
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, list) == NVML_SUCCESS && n == 0);
}

/* A program that closes every descriptor loses its seat; the new one knows of its context. */
static void closed(void)
{
	nvmlProcessInfo_t list[4];
	nvmlDevice_t card = nvml(0);
	unsigned int n = 4;
	CUdeviceptr p;
	int status;
	pid_t pid;

	context(0);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	pid = fork(); /* another process clears the seat that looks empty */
	if (pid == 0) {
		context(0);
		cuMemAlloc_v2(&p, CAP + 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	OK(cuMemAlloc_v2(&p, 2 * MIB));
	OK(cuMemFree_v2(p));
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &n, list) == NVML_SUCCESS && n == 1);
	CHECK(list[0].pid == (unsigned int)getpid() && list[0].usedGpuMemory == 0);
}

static void hold_context(void)
{
	char c;

	context(0);
	CHECK(write(STDOUT_FILENO, "r", 1) == 1);
	CHECK(read(STDIN_FILENO, &c, 1) >= 0);
}

static void hold_import(void)
{
	CUmemGenericAllocationHandle h;
	char c;

	context(0);
	OK(import(&h, 200));
	CHECK(write(STDOUT_FILENO, "r", 1) == 1);
	CHECK(read(STDIN_FILENO, &c, 1) >= 0);
}

static void one_neighbour_process(void)
{
	nvmlProcessInfo_t list[4];
	unsigned int n = 4;

	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(nvml(0), &n, list) == NVML_SUCCESS);
	CHECK(n == 1 && list[0].pid != (unsigned int)getpid() && list[0].usedGpuMemory == 0);
}

static void import_beside(void)
{
	CUmemGenericAllocationHandle h;

	context(0);
	OOM(import(&h, 100)); /* another process of the fence has 200 */
	OK(import(&h, 56));
	CHECK(booked() == CAP);
}

/* --- all at once --- */

#define THREADS 8
#define TURNS 300

static void *one_of_many(void *number)
{
	CUdeviceptr at = 0x700000000000 + (uintptr_t)number * 1024 * MIB;
	CUmemGenericAllocationHandle h;
	CUcontext ctx;
	CUdeviceptr p;
	CUmodule m;

	for (int i = 0; i < TURNS; i++) {
		CUresult r = cuCtxCreate_v2(&ctx, 0, 0);

		CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY);
		if (r != CUDA_SUCCESS)
			continue;
		if (import(&h, 20) == CUDA_SUCCESS) {
			OK(cuMemMap(at, 20 * MIB, 0, h, 0));
			OK(cuMemRelease(h));
			OK(cuMemUnmap(at, 20 * MIB));
		}
		if (cuModuleLoadData(&m, i % 2 ? ".version 8.0\n.global .b8 x[8388608];"
					       : ".version 8.0\n") == CUDA_SUCCESS &&
		    i % 3)
			OK(cuModuleUnload(m));
		r = cuMemAllocManaged(&p, 10 * MIB, CU_MEM_ATTACH_GLOBAL);
		CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY);
		OK(cuCtxDestroy_v2(ctx));
	}
	return NULL;
}

static void crowd(void)
{
	pthread_t t[THREADS];

	OK(cuInit(0));
	fake_context_bytes(CONTEXT);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, one_of_many, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	CHECK(holds(0) && fake_reserved() == 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "imported", imported },
	{ "broken-imports", broken_imports },
	{ "exported", exported },
	{ "places", places },
	{ "multicast", multicast },
	{ "shared-multicast", shared_multicast },
	{ "ipc", ipc },
	{ "ipc-of-peer", ipc_of_peer },
	{ "external", external },
	{ "managed", managed },
	{ "contexts", contexts },
	{ "primary", primary },
	{ "limits", limits },
	{ "modules", modules },
	{ "neighbour", neighbour },
	{ "libraries", libraries },
	{ "processes", processes },
	{ "closed", closed },
	{ "hold-context", hold_context },
	{ "hold-import", hold_import },
	{ "one-neighbour", one_neighbour_process },
	{ "import-beside", import_beside },
	{ "crowd", crowd },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (strcmp(scenarios[i].name, argv[1]) == 0) {
			scenarios[i].run();
			return 0;
		}
	}
	fprintf(stderr, "ways: no such scenario\n");
	return 2;
}
