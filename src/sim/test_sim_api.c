/* The libraries as libraries: what they export, what they see, what they refuse. */
#include "sim/test_sim.h"

#include <sys/stat.h>

static void resolve(void)
{
	void *p = NULL, *q = NULL;
	int status = -1;

	child_context(0);
	need_is(CU(cuGetProcAddress_v2)("cuMemAlloc", &p, 12000, 0, &status), CUDA_SUCCESS);
	need_is(status, CU_GET_PROC_ADDRESS_SUCCESS);
	need(p == (void *)CU(cuMemAlloc_v2));
	need_is(CU(cuGetProcAddress_v2)("cuCtxCreate", &p, 11030, 0, NULL), CUDA_SUCCESS);
	need(p == (void *)CU(cuCtxCreate_v2));
	need_is(CU(cuGetProcAddress_v2)("cuCtxCreate", &p, 11040, 0, NULL), CUDA_SUCCESS);
	need(p == (void *)CU(cuCtxCreate_v3));
	need_is(CU(cuGetProcAddress)("cuCtxCreate", &p, 13000, 0), CUDA_SUCCESS);
	need(p == (void *)CU(cuCtxCreate_v4));
	need_is(CU(cuGetProcAddress)("cuGetProcAddress", &p, 11030, 0), CUDA_SUCCESS);
	need(p == (void *)CU(cuGetProcAddress));
	need_is(CU(cuGetProcAddress)("cuGetProcAddress", &p, 12000, 0), CUDA_SUCCESS);
	need(p == (void *)CU(cuGetProcAddress_v2));
	/* per-thread default stream */
	need_is(CU(cuGetProcAddress)("cuLaunchKernel", &p, 12000, 1), CUDA_SUCCESS);
	need(p == (void *)CU(cuLaunchKernel));
	need_is(CU(cuGetProcAddress)("cuLaunchKernel", &q, 12000, 2), CUDA_SUCCESS);
	need(q == (void *)CU(cuLaunchKernel_ptsz));
	need_is(CU(cuGetProcAddress)("cuGraphInstantiate", &p, 11040, 0), CUDA_SUCCESS);
	need(p == (void *)CU(cuGraphInstantiate_v2));
	need_is(CU(cuGetProcAddress)("cuGraphInstantiate", &p, 12000, 0), CUDA_SUCCESS);
	need(p == (void *)CU(cuGraphInstantiateWithFlags));
	need_is(CU(cuGetProcAddress)("cuStreamBeginCapture", &p, 12000, 2), CUDA_SUCCESS);
	need(p == (void *)CU(cuStreamBeginCapture_v2_ptsz));
	need_is(CU(cuGetProcAddress)("cuGraphAddNode", &p, 12020, 0), CUDA_SUCCESS);
	need(p == (void *)CU(cuGraphAddNode));
	need_is(CU(cuGetProcAddress)("cuGraphAddNode", &p, 12030, 0), CUDA_SUCCESS);
	need(p == (void *)CU(cuGraphAddNode_v2));
	/* every name leads to what is exported under it */
#define X(name, symbol, since)                                                                     \
	need_is(CU(cuGetProcAddress)(#name, &p, since, 0), CUDA_SUCCESS);                          \
	need(p == test_symbol("libcuda.so.1", #symbol));
#define XT(name, symbol, since, per_thread)                                                        \
	X(name, symbol, since)                                                                     \
	need_is(CU(cuGetProcAddress)(#name, &p, since, 2), CUDA_SUCCESS);                          \
	need(p == test_symbol("libcuda.so.1", #per_thread));
#include "sim/cuda_symbols.h"
#undef X
#undef XT
	/* too old, and unknown */
	need_is(CU(cuGetProcAddress_v2)("cuMemAllocAsync", &p, 10000, 0, &status),
		CUDA_ERROR_NOT_FOUND);
	need_is(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	need(p == NULL);
	need_is(CU(cuGetProcAddress_v2)("cuMakeCoffee", &p, 13000, 0, &status),
		CUDA_ERROR_NOT_FOUND);
	need_is(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	need_is(CU(cuGetProcAddress_v2)(NULL, &p, 13000, 0, &status), CUDA_ERROR_INVALID_VALUE);
}

static void names_resolve_to_the_version_asked_for(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xH200", true);
	c = child_start(resolve);
	child_ends_well(&c);
	machine_down(&m);
}

static void ask_for_what_is_not_there(void)
{
	const char *name = NULL;
	nvmlDevice_t d;
	void *p = NULL;

	child_context(0);
	need_is(CU(cuMemPoolSetAccess)(NULL, NULL, 0), CUDA_ERROR_NOT_SUPPORTED);
	need_is(((CUresult(*)(void *, void *, unsigned, int))test_symbol(
			"libcuda.so.1", "cuGreenCtxCreate"))(NULL, NULL, 0, 0),
		CUDA_ERROR_NOT_SUPPORTED);
	need_is(CU(cuGetProcAddress)("cuTexObjectDestroy", &p, 12000, 0), CUDA_SUCCESS);
	need_is(((CUresult(*)(unsigned long long))p)(0), CUDA_ERROR_NOT_SUPPORTED);
	need_is(CU(cuGetErrorName)(CUDA_ERROR_NOT_SUPPORTED, &name), CUDA_SUCCESS);
	need(strcmp(name, "CUDA_ERROR_NOT_SUPPORTED") == 0);
	need_is(CU(cuGetErrorName)(12345, &name), CUDA_ERROR_INVALID_VALUE);
	need_is(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	need_is(((nvmlReturn_t(*)(nvmlDevice_t, unsigned *))test_symbol(
			"libnvidia-ml.so.1", "nvmlDeviceGetFanSpeed"))(d, NULL),
		NVML_ERROR_NOT_SUPPORTED);
}

static void what_is_not_simulated_says_so(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xH200", true);
	c = child_start(ask_for_what_is_not_there);
	child_ends_well(&c);
	machine_down(&m);
}

/* --- which cards --- */

static void find_nothing(void)
{
	CUcontext ctx;
	int n = -1;

	need_is(CU(cuInit)(0), CUDA_ERROR_NO_DEVICE);
	need_is(CU(cuDeviceGetCount)(&n), CUDA_ERROR_NOT_INITIALIZED);
	need_is(CU(cuCtxCreate_v2)(&ctx, 0, 0), CUDA_ERROR_NOT_INITIALIZED);
	need_is(NVML(nvmlInit_v2)(), NVML_ERROR_DRIVER_NOT_LOADED);
	need_is(NVML(nvmlDeviceGetCount_v2)((unsigned *)&n), NVML_ERROR_UNINITIALIZED);
}

static void without_a_machine_there_is_no_driver(void **state)
{
	struct child c;

	unsetenv("RINGFENCE_SIM");
	c = child_start(find_nothing);
	child_ends_well(&c);
	setenv("RINGFENCE_SIM", "/nonexistent", 1);
	c = child_start(find_nothing);
	child_ends_well(&c);
	unsetenv("RINGFENCE_SIM");
}

static char uuid[48];
static int want_count;
static const char *want_visible;

static void count_devices(void)
{
	CUuuid got;
	char text[8];
	int n = -1;

	setenv("CUDA_VISIBLE_DEVICES", want_visible, 1);
	if (want_count == 0) {
		need_is(CU(cuInit)(0), CUDA_ERROR_NO_DEVICE);
		return;
	}
	need_is(CU(cuInit)(0), CUDA_SUCCESS);
	need_is(CU(cuDeviceGetCount)(&n), CUDA_SUCCESS);
	need_is(n, want_count);
	/* The first one is always the card with the UUID. */
	need_is(CU(cuDeviceGetUuid)(&got, 0), CUDA_SUCCESS);
	snprintf(text, sizeof(text), "%02x%02x", (unsigned char)got.bytes[0],
		 (unsigned char)got.bytes[1]);
	need(strncmp(text, uuid + 4, 4) == 0);
}

static void visible_devices_choose_and_order(void **state)
{
	struct rf_sim_card_info cards[3];
	struct rf_err err = RF_ERR_INIT;
	char first[9 + 1], list[64];
	struct machine m;
	size_t n = 0;
	const struct {
		const char *visible;
		int count;
	} cases[] = {
		{ "1", 1 },  { "1,0", 2 }, { "1,9,0", 1 }, { "", 0 },    { "-1", 0 },
		{ uuid, 1 }, { first, 1 }, { list, 2 },    { "1,1", 1 }, { "GPU-zzz", 0 },
	};

	machine_up(&m, "3xT4", true);
	assert_int_equal(rf_sim_machine_cards(m.dir, cards, 3, &n, &err), 0);
	snprintf(uuid, sizeof(uuid), "%s", cards[1].uuid);
	snprintf(first, sizeof(first), "%.9s", uuid);
	snprintf(list, sizeof(list), "%.40s,2", uuid);
	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		struct child c;

		want_visible = cases[i].visible;
		want_count = cases[i].count;
		c = child_start(count_devices);
		child_ends_well(&c);
	}
	machine_down(&m);
}

/* As in a container: only the granted card's file is in the folder, and nothing else. */
static void see_one_card(void)
{
	nvmlDevice_t d;
	unsigned n = 0, minor = 99;
	char name[96];
	int count = 0;

	need_is(CU(cuInit)(0), CUDA_SUCCESS);
	need_is(CU(cuDeviceGetCount)(&count), CUDA_SUCCESS);
	need_is(count, 1);
	need_is(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetCount_v2)(&n), NVML_SUCCESS);
	need_is(n, 1);
	need_is(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetMinorNumber)(d, &minor), NVML_SUCCESS);
	need_is(minor, 1);
	need_is(NVML(nvmlDeviceGetName)(d, name, sizeof(name)), NVML_SUCCESS);
	need(strcmp(name, "Tesla T4") == 0);
	need_is(NVML(nvmlDeviceGetName)(d, name, 4), NVML_ERROR_INSUFFICIENT_SIZE);
	need_is(NVML(nvmlSystemGetDriverVersion)(name, sizeof(name)), NVML_SUCCESS);
	need(strcmp(name, "580.159.04") == 0);
}

static void only_cards_whose_files_are_there_are_seen(void **state)
{
	char grant[] = "/tmp/rf-sim-grant-XXXXXX", from[128], to[128];
	struct machine m;
	struct child c;

	machine_up(&m, "1xH200,1xT4", true);
	assert_non_null(mkdtemp(grant));
	snprintf(from, sizeof(from), "%s/nvidia1", m.dir);
	snprintf(to, sizeof(to), "%s/nvidia1", grant);
	assert_int_equal(link(from, to), 0);
	setenv("RINGFENCE_SIM", grant, 1);
	c = child_start(see_one_card);
	child_ends_well(&c);
	assert_int_equal(unlink(to), 0);
	assert_int_equal(rmdir(grant), 0);
	machine_down(&m);
}

/* --- fork --- */

static void fork_with_a_context(void)
{
	int status = 0;
	CUdeviceptr p;
	pid_t pid;

	child_context(0);
	need_is(CU(cuMemAlloc_v2)(&p, GIB), CUDA_SUCCESS);
	pid = fork();
	if (pid == 0) {
		need_is(CU(cuInit)(0), CUDA_ERROR_NOT_INITIALIZED);
		need_is(CU(cuMemAlloc_v2)(&p, 4096), CUDA_ERROR_NOT_INITIALIZED);
		_exit(0);
	}
	need(waitpid(pid, &status, 0) == pid && status == 0);
	/* The child held nothing, so its end took nothing away. */
	need_is(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
	child_tell('f');
	child_wait();
}

static void a_forked_child_holds_nothing(void **state)
{
	struct rf_sim_card_info info;
	struct rf_err err = RF_ERR_INIT;
	struct machine m;
	struct child c;
	size_t n;

	machine_up(&m, "1xT4", true);
	c = child_start(fork_with_a_context);
	assert_int_equal(child_said(&c), 'f');
	assert_int_equal(rf_sim_machine_cards(m.dir, &info, 1, &n, &err), 0);
	assert_int_equal(info.processes, 1);
	child_ends_well(&c);
	machine_down(&m);
}

static void be_exclusive(void)
{
	child_context(0);
	child_tell('e');
	child_wait();
}

static void be_refused(void)
{
	CUcontext ctx;

	need_is(CU(cuInit)(0), CUDA_SUCCESS);
	need_is(CU(cuCtxCreate_v2)(&ctx, 0, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void an_exclusive_card_takes_one_process(void **state)
{
	struct child one, two;
	struct machine m;
	nvmlDevice_t d;

	machine_up(&m, "1xT4", true);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceSetComputeMode)(d, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS),
			 NVML_SUCCESS);
	one = child_start(be_exclusive);
	assert_int_equal(child_said(&one), 'e');
	two = child_start(be_refused);
	child_ends_well(&two);
	child_kill(&one);
	one = child_start(be_exclusive);
	assert_int_equal(child_said(&one), 'e');
	child_ends_well(&one);
	NVML(nvmlShutdown)();
	machine_down(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_resolve_to_the_version_asked_for),
		cmocka_unit_test(what_is_not_simulated_says_so),
		cmocka_unit_test(without_a_machine_there_is_no_driver),
		cmocka_unit_test(visible_devices_choose_and_order),
		cmocka_unit_test(only_cards_whose_files_are_there_are_seen),
		cmocka_unit_test(a_forked_child_holds_nothing),
		cmocka_unit_test(an_exclusive_card_takes_one_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
