/* Every way to launch, the streams that launches without one use, values in memory, and what modules
 * and pools take. */
#include "sim/test_sim.h"

#include <pthread.h>

static size_t free_now(void)
{
	size_t free_bytes, total;

	need_is(CU(cuMemGetInfo_v2)(&free_bytes, &total), CUDA_SUCCESS);
	return free_bytes;
}

static void in_child(void (*run)(void), const char *spec)
{
	struct machine m;
	struct child c;

	machine_up(&m, spec, true);
	c = child_start(run);
	child_ends_well(&c);
	machine_down(&m);
}

/* As cuLaunchCooperativeKernelMultiDevice takes it. */
struct multi {
	CUfunction function;
	unsigned gx, gy, gz, bx, by, bz, smem;
	CUstream stream;
	void **params;
};

static CUevent begin_event, end_event;
static CUfunction work; /* 1 ms */
static CUstream some_stream;

static CUresult by_kernel(void)
{
	return CU(cuLaunchKernel)(work, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static CUresult by_kernel_ptsz(void)
{
	return CU(cuLaunchKernel_ptsz)(work, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static CUresult by_config(void)
{
	CUlaunchConfig c = { 1, 1, 1, 1, 1, 1, 0, some_stream, NULL, 0 };

	return CU(cuLaunchKernelEx)(&c, work, NULL, NULL);
}

static CUresult by_config_ptsz(void)
{
	CUlaunchConfig c = { 1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0 };

	return CU(cuLaunchKernelEx_ptsz)(&c, work, NULL, NULL);
}

static CUresult cooperative(void)
{
	return CU(cuLaunchCooperativeKernel)(work, 1, 1, 1, 1, 1, 1, 0, some_stream, NULL);
}

static CUresult cooperative_ptsz(void)
{
	return CU(cuLaunchCooperativeKernel_ptsz)(work, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
}

static CUresult on_many(void)
{
	struct multi one = { work, 1, 1, 1, 1, 1, 1, 0, some_stream, NULL };

	return CU(cuLaunchCooperativeKernelMultiDevice)((void *)&one, 1, 0);
}

static CUresult old_launch(void)
{
	return CU(cuLaunch)(work);
}

static CUresult old_grid(void)
{
	return CU(cuLaunchGrid)(work, 2, 2);
}

static CUresult old_grid_async(void)
{
	return CU(cuLaunchGridAsync)(work, 2, 2, some_stream);
}

static CUresult (*const ways[])(void) = {
	by_kernel,	  by_kernel_ptsz, by_config,  by_config_ptsz, cooperative,
	cooperative_ptsz, on_many,	  old_launch, old_grid,	      old_grid_async,
};

static void all_ways(void)
{
	float ms = 0;

	child_context(0);
	work = child_kernel(1000000);
	need_is(CU(cuStreamCreate)(&some_stream, 0), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&begin_event, 0), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&end_event, 0), CUDA_SUCCESS);
	need_is(CU(cuFuncSetBlockShape)(work, 32, 2, 1), CUDA_SUCCESS);
	need_is(CU(cuFuncSetBlockShape)(work, 1024, 2, 1), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuParamSetSize)(work, 8), CUDA_SUCCESS);
	for (size_t i = 0; i < RF_COUNT(ways); i++) {
		CUcontext ctx;

		need_is(CU(cuCtxGetCurrent)(&ctx), CUDA_SUCCESS);
		need_is(CU(cuCtxRecordEvent)(ctx, begin_event), CUDA_SUCCESS);
		need_is(ways[i](), CUDA_SUCCESS);
		need_is(CU(cuCtxRecordEvent)(ctx, end_event), CUDA_SUCCESS);
		need_is(CU(cuCtxWaitEvent)(ctx, end_event), CUDA_SUCCESS);
		need_is(CU(cuEventQuery)(end_event), CUDA_ERROR_NOT_READY);
		need_is(CU(cuEventSynchronize)(end_event), CUDA_SUCCESS);
		need_is(CU(cuEventElapsedTime)(&ms, begin_event, end_event), CUDA_SUCCESS);
		need(ms == 1.0f);
	}
	need_is(CU(cuLaunchGrid)(work, 0, 1), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuLaunch)(NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void every_launch_takes_the_kernels_time(void **state)
{
	in_child(all_ways, "1xH200");
}

/* --- default streams --- */

static CUcontext shared;

static void *look_from_a_thread(void *arg)
{
	need_is(CU(cuCtxSetCurrent)(shared), CUDA_SUCCESS);
	need_is(CU(cuStreamQuery_ptsz)(NULL), CUDA_SUCCESS); /* its own, and empty */
	need_is(CU(cuStreamQuery)(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
	need_is(CU(cuStreamQuery)(CU_STREAM_LEGACY), CUDA_SUCCESS);
	need_is(by_kernel_ptsz(), CUDA_SUCCESS);
	need_is(CU(cuStreamQuery_ptsz)(NULL), CUDA_ERROR_NOT_READY);
	return NULL;
}

static void default_streams(void)
{
	pthread_t t;

	shared = child_context(0);
	work = child_kernel(1000000);
	need_is(by_kernel_ptsz(), CUDA_SUCCESS);
	need_is(CU(cuStreamQuery)(NULL), CUDA_SUCCESS);
	need_is(CU(cuStreamQuery_ptsz)(NULL), CUDA_ERROR_NOT_READY);
	need_is(CU(cuStreamQuery)(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
	need_is(CU(cuStreamQuery_ptsz)(CU_STREAM_LEGACY), CUDA_SUCCESS);
	need(pthread_create(&t, NULL, look_from_a_thread, NULL) == 0);
	need(pthread_join(t, NULL) == 0);
	need_is(CU(cuStreamSynchronize_ptsz)(NULL), CUDA_SUCCESS);
	need_is(by_kernel(), CUDA_SUCCESS);
	need_is(CU(cuStreamQuery)(NULL), CUDA_ERROR_NOT_READY);
	need_is(CU(cuStreamQuery_ptsz)(NULL), CUDA_SUCCESS);
}

static void each_thread_has_a_default_stream_of_its_own(void **state)
{
	in_child(default_streams, "1xH200");
}

/* --- threads --- */

static void *capture_and_launch(void *arg)
{
	int mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	CUgraphExec exec;
	CUdeviceptr p, q;
	CUgraph g;

	need_is(CU(cuCtxSetCurrent)(shared), CUDA_SUCCESS);
	need_is(CU(cuThreadExchangeStreamCaptureMode)(&mode), CUDA_SUCCESS);
	for (int i = 0; i < 20; i++) {
		need_is(CU(cuMemAllocAsync_ptsz)(&p, 3 * MIB, NULL), CUDA_SUCCESS);
		need_is(CU(cuStreamBeginCapture_v2_ptsz)(NULL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
			CUDA_SUCCESS);
		need_is(by_kernel_ptsz(), CUDA_SUCCESS);
		need_is(CU(cuMemsetD8Async_ptsz)(p, 1, 3 * MIB, NULL), CUDA_SUCCESS);
		need_is(CU(cuMemAllocAsync_ptsz)(&q, 5 * MIB, NULL), CUDA_SUCCESS);
		need_is(CU(cuMemFreeAsync_ptsz)(q, NULL), CUDA_SUCCESS);
		need_is(CU(cuStreamEndCapture_ptsz)(NULL, &g), CUDA_SUCCESS);
		need_is(CU(cuGraphInstantiateWithFlags)(&exec, g, 0), CUDA_SUCCESS);
		need_is(CU(cuGraphLaunch_ptsz)(exec, NULL), CUDA_SUCCESS);
		need_is(CU(cuGraphLaunch_ptsz)(exec, NULL), CUDA_SUCCESS);
		need_is(CU(cuStreamSynchronize_ptsz)(NULL), CUDA_SUCCESS);
		need_is(CU(cuMemFreeAsync_ptsz)(p, NULL), CUDA_SUCCESS);
		need_is(CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
		need_is(CU(cuGraphDestroy)(g), CUDA_SUCCESS);
	}
	return NULL;
}

static void many_threads(void)
{
	pthread_t threads[8];
	size_t before;

	shared = child_context(0);
	work = child_kernel(1000);
	before = free_now();
	for (int i = 0; i < 8; i++)
		need(pthread_create(&threads[i], NULL, capture_and_launch, NULL) == 0);
	for (int i = 0; i < 8; i++)
		need(pthread_join(threads[i], NULL) == 0);
	need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
	need_is(CU(cuDeviceGraphMemTrim)(0), CUDA_SUCCESS);
	need_is(free_now(), before);
}

static void threads_capture_and_launch_side_by_side(void **state)
{
	in_child(many_threads, "1xH200");
}

/* --- values --- */

static CUdeviceptr word;

static void *write_later(void *arg)
{
	need_is(CU(cuCtxSetCurrent)(shared), CUDA_SUCCESS);
	need_is(CU(cuStreamWriteValue32_v2)(some_stream, word, 7, 0), CUDA_SUCCESS);
	return NULL;
}

static void values(void)
{
	CUstream waiting;
	unsigned is = 0;
	pthread_t t;

	shared = child_context(0);
	need_is(CU(cuStreamCreate)(&some_stream, 1), CUDA_SUCCESS);
	need_is(CU(cuStreamCreate)(&waiting, 1), CUDA_SUCCESS);
	need_is(CU(cuMemAlloc_v2)(&word, 64), CUDA_SUCCESS);
	need_is(CU(cuMemsetD32_v2)(word, 0, 16), CUDA_SUCCESS);
	need_is(CU(cuStreamWaitValue32_v2)(waiting, word, 0, CU_STREAM_WAIT_VALUE_EQ),
		CUDA_SUCCESS);
	need(pthread_create(&t, NULL, write_later, NULL) == 0);
	need_is(CU(cuStreamWaitValue32_v2)(waiting, word, 5, CU_STREAM_WAIT_VALUE_GEQ),
		CUDA_SUCCESS);
	need(pthread_join(t, NULL) == 0);
	need_is(CU(cuMemcpyDtoH_v2)(&is, word, 4), CUDA_SUCCESS);
	need_is(is, 7);
	need_is(CU(cuStreamWaitValue32)(waiting, word, 2, CU_STREAM_WAIT_VALUE_AND), CUDA_SUCCESS);
	need_is(CU(cuStreamWriteValue32_ptsz)(NULL, word + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuStreamWriteValue32)(waiting, 0x1000, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

static void streams_write_and_wait_for_values(void **state)
{
	in_child(values, "1xH200");
}

/* --- modules --- */

static void load_variables(void)
{
	static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
				  ".visible .global .align 4 .b8 big[104857600];\n"
				  "// .global .b8 not_this[1000000000];\n"
				  ".global .align 8 .f64 pair[2][3];\n"
				  ".global .u32 counter = 5;\n"
				  ".entry work() { ld.global.u32 %r1, [counter]; ret; }\n";
	CUdeviceptr p = 0;
	size_t bytes = 0, before;
	CUlibrary lib;
	CUmodule mod;
	char text[64];

	child_context(0);
	before = free_now();
	need_is(CU(cuModuleLoadData)(&mod, ptx), CUDA_SUCCESS);
	need_is(before - free_now(), 102 * MIB); /* 100 and a chunk for the small ones */
	need_is(CU(cuModuleGetGlobal_v2)(&p, &bytes, mod, "big"), CUDA_SUCCESS);
	need_is(bytes, 104857600);
	need_is(CU(cuMemsetD8_v2)(p, 1, bytes), CUDA_SUCCESS);
	need_is(CU(cuModuleGetGlobal_v2)(&p, &bytes, mod, "pair"), CUDA_SUCCESS);
	need_is(bytes, 48);
	need_is(CU(cuModuleGetGlobal_v2)(NULL, &bytes, mod, "counter"), CUDA_SUCCESS);
	need_is(bytes, 4);
	need_is(CU(cuModuleGetGlobal_v2)(&p, &bytes, mod, "not_this"), CUDA_ERROR_NOT_FOUND);
	need_is(CU(cuModuleUnload)(mod), CUDA_SUCCESS);
	need_is(free_now(), before);
	need_is(CU(cuLibraryLoadData)(&lib, ptx, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
	need_is(CU(cuLibraryGetGlobal)(&p, &bytes, lib, "big"), CUDA_SUCCESS);
	need_is(before - free_now(), 102 * MIB);
	need_is(CU(cuLibraryUnload)(lib), CUDA_SUCCESS);
	need_is(free_now(), before);
	snprintf(text, sizeof(text), ".global .b8 far_too_big[%llu];\n", 200 * GIB);
	need_is(CU(cuModuleLoadData)(&mod, text), CUDA_ERROR_OUT_OF_MEMORY);
	need_is(free_now(), before);
}

static void variables_of_a_module_take_memory(void **state)
{
	in_child(load_variables, "1xH200");
}

/* --- pools --- */

static uint64_t pool_has(CUmemoryPool pool, int attribute)
{
	uint64_t value = UINT64_MAX;

	need_is(CU(cuMemPoolGetAttribute)(pool, attribute, &value), CUDA_SUCCESS);
	return value;
}

static void use_pools(void)
{
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				 .maxSize = 64 * MIB };
	CUmemoryPool pool, small, same;
	CUdeviceptr p, q, r;
	uint64_t keep = 40 * MIB, zero = 0;
	size_t before, size = 0;

	child_context(0);
	before = free_now();
	need_is(CU(cuDeviceGetDefaultMemPool)(&pool, 0), CUDA_SUCCESS);
	need_is(CU(cuMemGetDefaultMemPool)(&same, &here, CU_MEM_ALLOCATION_TYPE_PINNED),
		CUDA_SUCCESS);
	need(same == pool);
	need_is(CU(cuMemGetDefaultMemPool)(&same, &here, 2), CUDA_ERROR_INVALID_VALUE);
	/* Small ones share a block; a large one gets as many as it needs. */
	need_is(CU(cuMemAllocAsync)(&p, 1000, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemAllocAsync)(&q, 1 * MIB, NULL), CUDA_SUCCESS);
	need_is(before - free_now(), 32 * MIB);
	need_is(CU(cuMemGetAddressRange_v2)(&r, &size, q + 100), CUDA_SUCCESS);
	need_is(r, q);
	need_is(size, MIB);
	need_is(CU(cuMemcpyHtoD_v2)(p + 1020, "past the end", 12), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemAllocAsync)(&r, 70 * MIB, NULL), CUDA_SUCCESS);
	need_is(pool_has(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 128 * MIB);
	need_is(pool_has(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 71 * MIB + 1024);
	need_is(before - free_now(), 128 * MIB);
	/* Freed is not given back, until the device was waited for. */
	need_is(CU(cuMemFreeAsync)(r, NULL), CUDA_SUCCESS);
	need_is(pool_has(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), MIB + 1024);
	need_is(before - free_now(), 128 * MIB);
	need_is(CU(cuMemAllocAsync)(&r, 60 * MIB, NULL), CUDA_SUCCESS); /* fits what is kept */
	need_is(before - free_now(), 128 * MIB);
	need_is(CU(cuMemFreeAsync)(r, NULL), CUDA_SUCCESS);
	need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
	need_is(before - free_now(), 32 * MIB); /* in use */
	need_is(CU(cuMemFreeAsync)(p, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemFreeAsync)(q, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemFreeAsync)(q, NULL), CUDA_ERROR_INVALID_VALUE);
	/* With a threshold it stays beyond that, until trimmed. */
	need_is(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
		CUDA_SUCCESS);
	need_is(CU(cuStreamSynchronize)(NULL), CUDA_SUCCESS);
	need_is(before - free_now(), 32 * MIB);
	need_is(CU(cuMemPoolTrimTo)(pool, 0), CUDA_SUCCESS);
	need_is(free_now(), before);
	need_is(pool_has(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 128 * MIB);
	need_is(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero),
		CUDA_SUCCESS);
	need_is(pool_has(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0);
	/* A pool with a limit, made the device's own. */
	need_is(CU(cuMemPoolCreate)(&small, &props), CUDA_SUCCESS);
	need_is(CU(cuMemSetMemPool)(&here, CU_MEM_ALLOCATION_TYPE_PINNED, small), CUDA_SUCCESS);
	need_is(CU(cuMemGetMemPool)(&same, &here, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
	need(same == small);
	need_is(CU(cuMemAllocAsync)(&p, 65 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	need_is(CU(cuMemAllocAsync)(&p, 40 * MIB, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemAllocAsync)(&q, 40 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	need_is(CU(cuMemPoolDestroy)(small), CUDA_SUCCESS);
	need_is(CU(cuDeviceGetMemPool)(&same, 0), CUDA_SUCCESS);
	need(same == pool);
	need_is(before - free_now(), 64 * MIB); /* the allocation outlives its pool */
	need_is(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
	need_is(free_now(), before);
}

static void a_pool_keeps_what_is_freed_until_it_may_not(void **state)
{
	in_child(use_pools, "1xH200");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_launch_takes_the_kernels_time),
		cmocka_unit_test(each_thread_has_a_default_stream_of_its_own),
		cmocka_unit_test(threads_capture_and_launch_side_by_side),
		cmocka_unit_test(streams_write_and_wait_for_values),
		cmocka_unit_test(variables_of_a_module_take_memory),
		cmocka_unit_test(a_pool_keeps_what_is_freed_until_it_may_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
