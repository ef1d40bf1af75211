/* Device memory: shared by processes, really full when it is full, back when they are gone. */
#include "base/rand.h"
#include "sim/test_sim.h"

#include <pthread.h>
#include <sys/resource.h>

#define KIB (1ULL << 10)
#define CONTEXT 33

static unsigned long long nvml_used(unsigned index)
{
	nvmlMemory_v2_t mem = { .version = NVML_MEMORY_V2 };
	nvmlDevice_t d;

	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(index, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo_v2)(d, &mem), NVML_SUCCESS);
	assert_int_equal(mem.total, mem.used + mem.free + mem.reserved);
	return mem.used;
}

/* --- two processes on one card --- */

static void take_ten_gib(void)
{
	CUdeviceptr p;

	child_context(0);
	need_is(CU(cuMemAlloc_v2)(&p, 10 * GIB), CUDA_SUCCESS);
	child_tell('a');
	child_wait();
}

static void find_the_card_full_then_free(void)
{
	size_t free_bytes, total;
	CUdeviceptr p;

	child_context(0);
	need_is(CU(cuMemAlloc_v2)(&p, 6 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
	need_is(CU(cuMemGetInfo_v2)(&free_bytes, &total), CUDA_SUCCESS);
	need(free_bytes < 6 * GIB && free_bytes > 3 * GIB);
	need_is(CU(cuMemAlloc_v2)(&p, free_bytes / (2 * MIB) * (2 * MIB)), CUDA_SUCCESS);
	need_is(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
	child_tell('b');
	child_wait();
	need_is(CU(cuMemAlloc_v2)(&p, 12 * GIB), CUDA_SUCCESS);
	child_tell('c');
	child_wait();
}

static void memory_runs_out_across_processes_and_comes_back_after_kill(void **state)
{
	unsigned long long context = rf_gpu_model_by_key("T4")->context_mib * MIB;
	struct child first, second;
	struct machine m;

	machine_up(&m, "1xT4", false);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	first = child_start(take_ten_gib);
	assert_int_equal(child_said(&first), 'a');
	assert_int_equal(nvml_used(0), 10 * GIB + context);
	second = child_start(find_the_card_full_then_free);
	assert_int_equal(child_said(&second), 'b');
	child_kill(&first);
	assert_int_equal(nvml_used(0), context);
	child_go(&second);
	assert_int_equal(child_said(&second), 'c');
	assert_int_equal(nvml_used(0), 12 * GIB + context);
	child_ends_well(&second);
	assert_int_equal(nvml_used(0), 0);
	NVML(nvmlShutdown)();
	machine_down(&m);
}

static void the_process_list_shows_pids_and_bytes(void **state)
{
	unsigned long long context = rf_gpu_model_by_key("T4")->context_mib * MIB;
	nvmlProcessInfo_t infos[4];
	nvmlProcessInfo_v1_t old[4];
	struct machine m;
	struct child c;
	nvmlDevice_t d;
	unsigned n = 0;

	machine_up(&m, "1xT4", false);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, NULL), NVML_SUCCESS);
	assert_int_equal(n, 0);
	c = child_start(take_ten_gib);
	assert_int_equal(child_said(&c), 'a');
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, NULL),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(n, 1);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, infos), NVML_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(infos[0].pid, c.pid);
	assert_int_equal(infos[0].usedGpuMemory, 10 * GIB + context);
	assert_int_equal(infos[0].gpuInstanceId, NVML_NO_INSTANCE);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses)(d, &n, old), NVML_SUCCESS);
	assert_int_equal(old[0].pid, c.pid);
	child_kill(&c);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, infos), NVML_SUCCESS);
	assert_int_equal(n, 0);
	NVML(nvmlShutdown)();
	machine_down(&m);
}

/* A process that asks NVML about itself must not take itself for dead. */
static void look_at_myself(void)
{
	nvmlProcessInfo_t infos[4];
	unsigned n = 4;
	nvmlDevice_t d;
	CUdeviceptr p;

	child_context(0);
	need_is(CU(cuMemAlloc_v2)(&p, GIB), CUDA_SUCCESS);
	need_is(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, infos), NVML_SUCCESS);
	need_is(n, 1);
	need_is(infos[0].pid, getpid());
	need_is(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
}

static void a_process_sees_itself(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xT4", false);
	c = child_start(look_at_myself);
	child_ends_well(&c);
	machine_down(&m);
}

/* --- one process --- */

static void in_child_with(void (*run)(void), const struct rf_sim_options *opt)
{
	struct machine m;
	struct child c;

	machine_up_with(&m, "1xH200", opt);
	c = child_start(run);
	child_ends_well(&c);
	machine_down(&m);
}

static void in_child(void (*run)(void))
{
	struct rf_sim_options opt = { .virtual_time = true };

	in_child_with(run, &opt);
}

static void fill_an_h200(void)
{
	size_t free_bytes, total;
	struct rusage usage;
	CUdeviceptr p, q;
	char back[16] = "";

	child_context(0);
	need_is(CU(cuMemGetInfo_v2)(&free_bytes, &total), CUDA_SUCCESS);
	need(total > 139 * GIB);
	need_is(CU(cuMemAlloc_v2)(&p, free_bytes / (2 * MIB) * (2 * MIB)), CUDA_SUCCESS);
	need_is(CU(cuMemAlloc_v2)(&q, 1), CUDA_ERROR_OUT_OF_MEMORY);
	need_is(CU(cuMemcpyHtoD_v2)(p + 100 * GIB, "far away", 9), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoH_v2)(back, p + 100 * GIB, 9), CUDA_SUCCESS);
	need(strcmp(back, "far away") == 0);
	getrusage(RUSAGE_SELF, &usage);
	need(usage.ru_maxrss < 512 * 1024); /* KiB */
}

static void a_whole_h200_can_be_had_without_the_memory_of_one(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xH200", false);
	c = child_start(fill_an_h200);
	child_ends_well(&c);
	machine_down(&m);
}

static void move_bytes(void)
{
	unsigned words[256], back[256];
	CUdeviceptr a, b, pitched;
	size_t pitch;

	child_context(0);
	need_is(CU(cuMemAlloc_v2)(&a, sizeof(words)), CUDA_SUCCESS);
	need_is(CU(cuMemAlloc_v2)(&b, sizeof(words)), CUDA_SUCCESS);
	for (unsigned i = 0; i < 256; i++)
		words[i] = i * 7;
	need_is(CU(cuMemcpyHtoD_v2)(a, words, sizeof(words)), CUDA_SUCCESS);
	need_is(CU(cuMemsetD32_v2)(b, 0xabad1dea, 256), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoD_v2)(b, a, 512), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoH_v2)(back, b, sizeof(back)), CUDA_SUCCESS);
	need(memcmp(back, words, 512) == 0 && back[128] == 0xabad1dea && back[255] == 0xabad1dea);
	/* Past the end of an allocation, or into nothing. */
	need_is(CU(cuMemcpyHtoD_v2)(a, words, sizeof(words) + 1), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemcpyHtoD_v2)((CUdeviceptr)(uintptr_t)back, words, 4),
		CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemFree_v2)(a + 4), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemFree_v2)(a), CUDA_SUCCESS);
	need_is(CU(cuMemFree_v2)(a), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemcpyDtoH_v2)(back, a, 4), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemAllocPitch_v2)(&pitched, &pitch, 1000, 50, 4), CUDA_SUCCESS);
	need_is(pitch, 1024);
	need_is(CU(cuMemFree_v2)(pitched), CUDA_SUCCESS);
}

static void copies_move_bytes_and_stay_in_bounds(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xL40S", true);
	c = child_start(move_bytes);
	child_ends_well(&c);
	machine_down(&m);
}

static size_t free_now(void)
{
	size_t free_bytes, total;

	need_is(CU(cuMemGetInfo_v2)(&free_bytes, &total), CUDA_SUCCESS);
	return free_bytes;
}

/* Every way to get memory is charged, and every way to give it back gives it back. */
static void all_paths(void)
{
	CUDA_ARRAY3D_DESCRIPTOR cube = { .Width = 1024,
					 .Height = 1024,
					 .Depth = 4,
					 .NumChannels = 1,
					 .Format = CU_AD_FORMAT_FLOAT };
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmipmappedArray mip;
	CUmemoryPool pool;
	CUdeviceptr p, small[1000];
	CUarray array;
	uint64_t used = 0;
	size_t before;

	child_context(0);
	before = free_now();
	for (int i = 0; i < 1000; i++)
		need_is(CU(cuMemAlloc_v2)(&small[i], 1000), CUDA_SUCCESS);
	need_is(before - free_now(), 2 * MIB); /* 1000 KiB share one page */
	for (int i = 0; i < 1000; i++)
		need_is(CU(cuMemFree_v2)(small[i]), CUDA_SUCCESS);
	need_is(free_now(), before);
	need_is(CU(cuMemAllocManaged)(&p, 64 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
	*(volatile char *)(uintptr_t)p = 1; /* the host may touch it */
	need_is(before - free_now(), 64 * MIB);
	need_is(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
	need_is(CU(cuArray3DCreate_v2)(&array, &cube), CUDA_SUCCESS);
	need_is(before - free_now(), 16 * MIB);
	need_is(CU(cuArrayDestroy)(array), CUDA_SUCCESS);
	need_is(CU(cuMipmappedArrayCreate)(&mip, &cube, 3), CUDA_SUCCESS);
	need_is(before - free_now(), 20 * MIB); /* 16 + 2 + 1/4, in pages of 2 */
	need_is(CU(cuMipmappedArrayDestroy)(mip), CUDA_SUCCESS);
	need_is(CU(cuMemPoolCreate)(&pool, &props), CUDA_SUCCESS);
	need_is(CU(cuMemAllocFromPoolAsync)(&p, 32 * MIB, pool, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
		CUDA_SUCCESS);
	need_is(used, 32 * MIB);
	need_is(before - free_now(), 32 * MIB);
	need_is(CU(cuMemFreeAsync)(p, NULL), CUDA_SUCCESS);
	need_is(before - free_now(), 32 * MIB); /* the pool has it still */
	need_is(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS);
	need_is(free_now(), before);
	need_is(CU(cuMemAllocAsync)(&p, 8 * MIB, NULL), CUDA_SUCCESS);
	need_is(before - free_now(), 32 * MIB);
	need_is(CU(cuMemFreeAsync)(p, NULL), CUDA_SUCCESS);
	need_is(CU(cuStreamSynchronize)(NULL), CUDA_SUCCESS);
	need_is(free_now(), before);
}

static void every_way_to_memory_is_charged(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xA100", true);
	c = child_start(all_paths);
	child_ends_well(&c);
	machine_down(&m);
}

/* --- pages of 2 MiB --- */

static CUdeviceptr get(size_t bytes)
{
	CUdeviceptr p = 0;

	need_is(CU(cuMemAlloc_v2)(&p, bytes), CUDA_SUCCESS);
	return p;
}

static void put(CUdeviceptr p)
{
	need_is(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
}

static void range_is(CUdeviceptr at, CUdeviceptr base, size_t size)
{
	CUdeviceptr start = 0, attribute = 0;
	size_t n = 0;

	need_is(CU(cuMemGetAddressRange_v2)(&start, &n, at), CUDA_SUCCESS);
	need_is(start, base);
	need_is(n, size);
	need_is(CU(cuPointerGetAttribute)(&attribute, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at),
		CUDA_SUCCESS);
	need_is(attribute, base);
}

static void fill_a_page(void)
{
	size_t before, pitch = 0;
	CUdeviceptr p[4], rows;

	child_context(0);
	before = free_now();
	p[0] = get(1536 * KIB);
	p[1] = get(300 * KIB);
	p[2] = get(100 * KIB + 1);
	need_is(CU(cuMemAllocPitch_v2)(&rows, &pitch, 1000, 111, 4), CUDA_SUCCESS);
	need_is(before - free_now(), 2 * MIB); /* but for 512 bytes it is full */
	p[3] = get(513);
	need_is(before - free_now(), 4 * MIB);
	range_is(p[0] + 1024 * KIB, p[0], 1536 * KIB);
	range_is(p[2] + 100 * KIB, p[2], 100 * KIB + 512);
	range_is(rows + 110 * pitch, rows, 111 * pitch);
	need_is(CU(cuMemsetD8_v2)(p[1], 0, 300 * KIB), CUDA_SUCCESS);
	need_is(CU(cuMemsetD8_v2)(p[1], 0, 300 * KIB + 1), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemFree_v2)(p[1] + 512), CUDA_ERROR_INVALID_VALUE);
	put(p[1]);
	need_is(CU(cuMemGetAddressRange_v2)(NULL, NULL, p[1]), CUDA_ERROR_NOT_FOUND);
	need_is(CU(cuMemFree_v2)(p[1]), CUDA_ERROR_INVALID_VALUE);
	need_is(get(300 * KIB), p[1]); /* nowhere else is room without a new page */
	put(p[3]);
	need_is(before - free_now(), 2 * MIB);
	put(p[0]);
	put(p[1]);
	put(p[2]);
	need_is(before - free_now(), 2 * MIB);
	put(rows);
	need_is(free_now(), before);
}

static void pieces_of_any_size_share_a_page(void **state)
{
	in_child(fill_a_page);
}

static void use_a_tail(void)
{
	CUdeviceptr large, in_tail, third;
	char back[8] = "";
	size_t before;

	child_context(0);
	before = free_now();
	large = get(5 * MIB + 1);
	need_is(before - free_now(), 6 * MIB);
	need_is(large % (2 * MIB), 0);
	in_tail = get(1023 * KIB);
	need_is(before - free_now(), 6 * MIB);
	need_is(in_tail, large + 5 * MIB + 512);
	range_is(large + 5 * MIB, large, 5 * MIB + 1); /* in the page that is shared */
	range_is(in_tail + 1, in_tail, 1023 * KIB);
	need_is(CU(cuMemcpyHtoD_v2)(large + 4 * MIB - 3, "across", 7), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoH_v2)(back, large + 4 * MIB - 3, 7), CUDA_SUCCESS);
	need(strcmp(back, "across") == 0);
	need_is(CU(cuMemsetD8_v2)(large, 1, 5 * MIB + 1), CUDA_SUCCESS);
	need_is(CU(cuMemsetD8_v2)(large, 1, 5 * MIB + 2), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemsetD8_v2)(large + 5 * MIB, 1, 2), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemFree_v2)(large + 4 * MIB), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemsetD8_v2)(in_tail, 7, 1023 * KIB), CUDA_SUCCESS);
	put(large);
	need_is(before - free_now(), 2 * MIB); /* the last page stays */
	need_is(CU(cuMemcpyDtoH_v2)(back, in_tail, 1), CUDA_SUCCESS);
	need_is(back[0], 7);
	need_is(CU(cuMemcpyDtoH_v2)(back, large, 1), CUDA_ERROR_INVALID_VALUE);
	third = get(MIB + 512);
	need_is(third, large + 4 * MIB);
	put(in_tail);
	put(third);
	need_is(free_now(), before);
	/* The other way round: the page goes with the large one. */
	large = get(3 * MIB);
	in_tail = get(MIB);
	put(in_tail);
	need_is(before - free_now(), 4 * MIB);
	put(large);
	need_is(free_now(), before);
}

static void what_is_left_of_a_last_page_is_used(void **state)
{
	in_child(use_a_tail);
}

static CUarray get_array(size_t width, size_t height, size_t depth)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = width,
				      .Height = height,
				      .Depth = depth,
				      .NumChannels = 1,
				      .Format = CU_AD_FORMAT_UNSIGNED_INT8 };
	CUarray a = NULL;

	need_is(CU(cuArray3DCreate_v2)(&a, &d), CUDA_SUCCESS);
	return a;
}

static void mix_kinds(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 256,
				      .Height = 256,
				      .NumChannels = 1,
				      .Format = CU_AD_FORMAT_UNSIGNED_INT8 };
	CUarray flat, line, cube, second_line, large;
	CUdeviceptr plain, managed;
	CUmipmappedArray mip;
	CUmodule mod;
	size_t before;

	child_context(0);
	before = free_now();
	plain = get(3 * MIB);
	need_is(before - free_now(), 4 * MIB);
	flat = get_array(1024, 700, 0);
	need_is(before - free_now(), 6 * MIB);
	line = get_array(5000, 0, 0);
	need_is(before - free_now(), 8 * MIB);
	need_is(CU(cuModuleLoadData)(&mod, ".global .b8 v[9];\n.global .b8 w[2000];\n"),
		CUDA_SUCCESS);
	need_is(before - free_now(), 10 * MIB);
	need_is(CU(cuMemAllocManaged)(&managed, 1, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
	need_is(before - free_now(), 12 * MIB);
	cube = get_array(64, 64, 64); /* with the flat one, and so are the mipmaps */
	need_is(CU(cuMipmappedArrayCreate)(&mip, &d, 3), CUDA_SUCCESS);
	second_line = get_array(100000, 0, 0);
	need_is(before - free_now(), 12 * MIB);
	large = get_array(1024, 4096, 1);
	need_is(before - free_now(), 16 * MIB);
	need_is(CU(cuArrayDestroy)(flat), CUDA_SUCCESS);
	need_is(CU(cuArrayDestroy)(cube), CUDA_SUCCESS);
	need_is(before - free_now(), 16 * MIB);
	need_is(CU(cuMipmappedArrayDestroy)(mip), CUDA_SUCCESS);
	need_is(before - free_now(), 14 * MIB);
	need_is(CU(cuArrayDestroy)(large), CUDA_SUCCESS);
	need_is(CU(cuArrayDestroy)(line), CUDA_SUCCESS);
	need_is(before - free_now(), 10 * MIB);
	need_is(CU(cuArrayDestroy)(second_line), CUDA_SUCCESS);
	need_is(CU(cuModuleUnload)(mod), CUDA_SUCCESS);
	need_is(before - free_now(), 6 * MIB);
	put(managed);
	put(plain);
	need_is(free_now(), before);
}

static void arrays_and_variables_have_pages_of_their_own(void **state)
{
	in_child(mix_kinds);
}

static void two_contexts(void)
{
	CUcontext first = child_context(0), second;
	size_t before;
	CUdeviceptr p;

	need_is(CU(cuCtxCreate_v2)(&second, 0, 0), CUDA_SUCCESS);
	need_is(CU(cuCtxSetCurrent)(first), CUDA_SUCCESS);
	before = free_now();
	p = get(3 * MIB);
	get(100);
	need_is(before - free_now(), 4 * MIB);
	need_is(CU(cuCtxSetCurrent)(second), CUDA_SUCCESS);
	get(100);
	get(3 * MIB - 512);
	need_is(before - free_now(), 10 * MIB);
	put(p); /* from another context */
	need_is(before - free_now(), 8 * MIB);
	need_is(CU(cuCtxDestroy_v2)(first), CUDA_SUCCESS);
	need_is(before - free_now() + CONTEXT * MIB, 6 * MIB);
	get(MIB);
	need_is(before - free_now() + CONTEXT * MIB, 6 * MIB);
}

static void contexts_share_no_page(void **state)
{
	struct rf_sim_options opt = { .virtual_time = true, .context_mib = CONTEXT };

	in_child_with(two_contexts, &opt);
}

/* --- at random --- */

enum { LIVE = 160, STEPS = 6000 };

struct live {
	CUdeviceptr at;
	size_t size;
};

static struct rf_prng prng;

static uint64_t pick(uint64_t below)
{
	return rf_prng_below(&prng, below);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static size_t distinct_pages(const struct live *live)
{
	static uint64_t pages[LIVE * 4];
	size_t n = 0, distinct = 0;

	for (size_t i = 0; i < LIVE; i++)
		for (uint64_t p = live[i].at / (2 * MIB);
		     live[i].size > 0 && p <= (live[i].at + live[i].size - 1) / (2 * MIB); p++)
			pages[n++] = p;
	qsort(pages, n, sizeof(pages[0]), by_number);
	for (size_t i = 0; i < n; i++)
		distinct += i == 0 || pages[i] != pages[i - 1];
	return distinct;
}

static bool overlaps(const struct live *live, const struct live *one)
{
	for (size_t i = 0; i < LIVE; i++)
		if (&live[i] != one && live[i].size > 0 && live[i].at < one->at + one->size &&
		    one->at < live[i].at + live[i].size)
			return true;
	return false;
}

static size_t random_size(void)
{
	static const size_t most[] = { 2 * KIB, 64 * KIB, 2 * MIB, 6 * MIB };

	return 1 + pick(most[pick(RF_COUNT(most))]);
}

static void lies_well(const struct live *live, const struct live *one)
{
	uint64_t within = one->at % (2 * MIB);
	CUdeviceptr base = 0;
	size_t size = 0;

	need(!overlaps(live, one));
	need(one->at % 512 == 0 && (within == 0 || within + one->size <= 2 * MIB));
	need_is(CU(cuMemGetAddressRange_v2)(&base, &size, one->at + pick(one->size)), CUDA_SUCCESS);
	need_is(base, one->at);
	need(size >= one->size && size < one->size + 512);
}

/* Mostly full, then mostly empty, and again. */
static void change(struct live *live, int step)
{
	struct live *one = &live[pick(LIVE)];

	if (one->size > 0 && pick(8) < (step / 500 % 2 == 0 ? 3 : 7)) {
		put(one->at);
		one->size = 0;
	} else if (one->size == 0 && pick(8) < (step / 500 % 2 == 0 ? 7 : 2)) {
		one->size = random_size();
		one->at = get(one->size);
		lies_well(live, one);
	}
}

static void churn_at_random(void)
{
	static struct live live[LIVE];
	size_t before, arrays = 0;
	CUarray array = NULL;

	child_context(0);
	before = free_now();
	for (int i = 0; i < STEPS; i++) {
		change(live, i);
		need_is(before - free_now(), distinct_pages(live) * 2 * MIB + arrays);
		if (i % 7 != 0)
			continue;
		if (array != NULL)
			need_is(CU(cuArrayDestroy)(array), CUDA_SUCCESS);
		array = array == NULL ? get_array(1 + pick(100), pick(3), 0) : NULL;
		arrays = array != NULL ? 2 * MIB : 0;
		need_is(before - free_now(), distinct_pages(live) * 2 * MIB + arrays);
	}
	if (array != NULL)
		need_is(CU(cuArrayDestroy)(array), CUDA_SUCCESS);
	for (size_t i = 0; i < LIVE; i++)
		if (live[i].size > 0)
			put(live[i].at);
	need_is(free_now(), before);
}

static void the_card_loses_exactly_the_pages_that_are_covered(void **state)
{
	const char *seed = getenv("SEED");

	prng.state = seed != NULL ? strtoull(seed, NULL, 0) : 0x9a6e5;
	print_message("seed %llu\n", (unsigned long long)prng.state);
	in_child(churn_at_random);
}

static void map_and_unmap(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle, again;
	size_t grain = 0, before;
	CUdeviceptr at, twin;
	char back[8] = "";

	child_context(0);
	before = free_now();
	need_is(CU(cuMemGetAllocationGranularity)(&grain, &prop, 0), CUDA_SUCCESS);
	need_is(CU(cuMemCreate)(&handle, grain + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemCreate)(&handle, 4 * grain, &prop, 0), CUDA_SUCCESS);
	need_is(before - free_now(), 4 * grain);
	need_is(CU(cuMemAddressReserve)(&at, 8 * grain, 0, 0, 0), CUDA_SUCCESS);
	need_is(CU(cuMemAddressReserve)(&twin, 4 * grain, 0, 0, 0), CUDA_SUCCESS);
	need_is(CU(cuMemMap)(at, 4 * grain, 0, handle, 0), CUDA_SUCCESS);
	need_is(CU(cuMemMap)(twin, 4 * grain, 0, handle, 0), CUDA_SUCCESS);
	need_is(CU(cuMemMap)(at, 4 * grain, 0, handle, 0), CUDA_ERROR_ALREADY_MAPPED);
	need_is(CU(cuMemcpyHtoD_v2)(at, "secret", 7), CUDA_ERROR_INVALID_VALUE); /* no access yet */
	need_is(CU(cuMemSetAccess)(at, 4 * grain, &access, 1), CUDA_SUCCESS);
	need_is(CU(cuMemSetAccess)(twin, 4 * grain, &access, 1), CUDA_SUCCESS);
	need_is(CU(cuMemcpyHtoD_v2)(at + grain, "secret", 7), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoH_v2)(back, twin + grain, 7), CUDA_SUCCESS);
	need(strcmp(back, "secret") == 0); /* two addresses, one memory */
	need_is(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)at), CUDA_SUCCESS);
	need_is(again, handle);
	need_is(CU(cuMemRelease)(handle), CUDA_SUCCESS);
	need_is(CU(cuMemRelease)(handle), CUDA_SUCCESS);
	need_is(CU(cuMemRelease)(handle), CUDA_ERROR_INVALID_VALUE);
	need_is(before - free_now(), 4 * grain); /* mappings keep it */
	need_is(CU(cuMemUnmap)(at, 4 * grain), CUDA_SUCCESS);
	need_is(before - free_now(), 4 * grain);
	need_is(CU(cuMemUnmap)(twin, 4 * grain), CUDA_SUCCESS);
	need_is(free_now(), before);
	need_is(CU(cuMemAddressFree)(at, 8 * grain), CUDA_SUCCESS);
	need_is(CU(cuMemAddressFree)(twin, 4 * grain), CUDA_SUCCESS);
}

static void a_physical_handle_is_charged_until_its_last_mapping_goes(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xH100", true);
	c = child_start(map_and_unmap);
	child_ends_well(&c);
	machine_down(&m);
}

static void destroy_with_memory_left(void)
{
	CUcontext first, second;
	CUdeviceptr p;
	size_t before;

	first = child_context(0);
	before = free_now();
	need_is(CU(cuCtxCreate_v2)(&second, 0, 0), CUDA_SUCCESS);
	need(before - free_now() > 100 * MIB); /* a context costs memory itself */
	need_is(CU(cuMemAlloc_v2)(&p, GIB), CUDA_SUCCESS);
	need_is(CU(cuMemAlloc_v2)(&p, 100), CUDA_SUCCESS);
	need_is(CU(cuCtxDestroy_v2)(second), CUDA_SUCCESS);
	need_is(CU(cuCtxSetCurrent)(first), CUDA_SUCCESS);
	need_is(free_now(), before);
	need_is(CU(cuCtxSetCurrent)(second), CUDA_SUCCESS);
	need_is(CU(cuMemAlloc_v2)(&p, 100), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void destroy_an_array_late(void)
{
	CUcontext first = child_context(0), second;
	CUarray array;
	size_t after;

	need_is(CU(cuCtxCreate_v2)(&second, 0, 0), CUDA_SUCCESS);
	array = get_array(100, 100, 0);
	need_is(CU(cuCtxDestroy_v2)(second), CUDA_SUCCESS);
	need_is(CU(cuCtxSetCurrent)(first), CUDA_SUCCESS);
	get(100); /* where the array was, most likely */
	after = free_now();
	need_is(CU(cuArrayDestroy)(array), CUDA_SUCCESS);
	need_is(free_now(), after);
}

static void an_array_that_outlived_its_context_frees_nothing(void **state)
{
	in_child(destroy_an_array_late);
}

static void a_destroyed_context_gives_everything_back(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xA100", true);
	c = child_start(destroy_with_memory_left);
	child_ends_well(&c);
	machine_down(&m);
}

static void a_context_costs_what_the_machine_says(void **state)
{
	struct rf_sim_options opt = { .context_mib = 33 };
	struct machine m;
	struct child c;

	machine_up_with(&m, "1xT4", &opt);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	c = child_start(take_ten_gib);
	assert_int_equal(child_said(&c), 'a');
	assert_int_equal(nvml_used(0), 10 * GIB + 33 * MIB);
	child_kill(&c);
	NVML(nvmlShutdown)();
	machine_down(&m);
	opt.context_mib = -1;
	machine_up_with(&m, "1xT4", &opt);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	c = child_start(take_ten_gib);
	assert_int_equal(child_said(&c), 'a');
	assert_int_equal(nvml_used(0), 10 * GIB);
	child_kill(&c);
	NVML(nvmlShutdown)();
	machine_down(&m);
}

/* --- threads --- */

static CUcontext shared_context;

static void *churn(void *arg)
{
	CUfunction fn = arg;
	CUdeviceptr p[4];
	CUstream stream;
	CUevent event;

	need_is(CU(cuCtxSetCurrent)(shared_context), CUDA_SUCCESS);
	need_is(CU(cuStreamCreate)(&stream, 0), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&event, 0), CUDA_SUCCESS);
	for (int i = 0; i < 200; i++) {
		for (int j = 0; j < 4; j++)
			need_is(CU(cuMemAlloc_v2)(&p[j], 300ULL << (i * 4 + j) % 14), CUDA_SUCCESS);
		need_is(CU(cuMemsetD8Async)(p[0], 7, 300, stream), CUDA_SUCCESS);
		need_is(CU(cuLaunchKernel)(fn, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL),
			CUDA_SUCCESS);
		need_is(CU(cuEventRecord)(event, stream), CUDA_SUCCESS);
		need_is(CU(cuEventSynchronize)(event), CUDA_SUCCESS);
		for (int j = 0; j < 4; j++)
			need_is(CU(cuMemFree_v2)(p[j]), CUDA_SUCCESS);
	}
	need_is(CU(cuEventDestroy_v2)(event), CUDA_SUCCESS);
	need_is(CU(cuStreamDestroy_v2)(stream), CUDA_SUCCESS);
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[8];
	size_t before;
	CUfunction fn;

	shared_context = child_context(0);
	fn = child_kernel(1000);
	before = free_now();
	for (int i = 0; i < 8; i++)
		need(pthread_create(&threads[i], NULL, churn, fn) == 0);
	for (int i = 0; i < 8; i++)
		need(pthread_join(threads[i], NULL) == 0);
	need_is(free_now(), before);
}

static void threads_may_share_a_context(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xH200", true);
	c = child_start(run_threads);
	child_ends_well(&c);
	machine_down(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_runs_out_across_processes_and_comes_back_after_kill),
		cmocka_unit_test(the_process_list_shows_pids_and_bytes),
		cmocka_unit_test(a_process_sees_itself),
		cmocka_unit_test(a_whole_h200_can_be_had_without_the_memory_of_one),
		cmocka_unit_test(copies_move_bytes_and_stay_in_bounds),
		cmocka_unit_test(every_way_to_memory_is_charged),
		cmocka_unit_test(pieces_of_any_size_share_a_page),
		cmocka_unit_test(what_is_left_of_a_last_page_is_used),
		cmocka_unit_test(arrays_and_variables_have_pages_of_their_own),
		cmocka_unit_test(contexts_share_no_page),
		cmocka_unit_test(the_card_loses_exactly_the_pages_that_are_covered),
		cmocka_unit_test(a_physical_handle_is_charged_until_its_last_mapping_goes),
		cmocka_unit_test(an_array_that_outlived_its_context_frees_nothing),
		cmocka_unit_test(a_destroyed_context_gives_everything_back),
		cmocka_unit_test(a_context_costs_what_the_machine_says),
		cmocka_unit_test(threads_may_share_a_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
