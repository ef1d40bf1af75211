/* Faults on demand, and who hears of them. */
#include "sim/test_sim.h"

#include <sys/mman.h>

static struct machine machine;

/* --- events --- */

static void hear_an_xid(void)
{
	nvmlEventData_t event;
	unsigned long long types = 0;
	nvmlEventSet_t set;
	nvmlDevice_t d[2];

	need_is(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	need_is(NVML(nvmlEventSetCreate)(&set), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d[0]), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetHandleByIndex_v2)(1, &d[1]), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetSupportedEventTypes)(d[0], &types), NVML_SUCCESS);
	need((types & NVML_EVENT_XID) != 0);
	need_is(NVML(nvmlDeviceRegisterEvents)(d[0], NVML_EVENT_XID, set), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceRegisterEvents)(d[1], NVML_EVENT_XID, set), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceRegisterEvents)(d[1], 1ULL << 40, set), NVML_ERROR_NOT_SUPPORTED);
	need_is(NVML(nvmlEventSetWait_v2)(set, &event, 0), NVML_ERROR_TIMEOUT); /* no history */
	child_tell('w');
	need_is(NVML(nvmlEventSetWait_v2)(set, &event, 20000), NVML_SUCCESS);
	need(event.device == d[1]);
	need_is(event.eventType, NVML_EVENT_XID);
	need_is(event.eventData, 31);
	need_is(event.gpuInstanceId, NVML_NO_INSTANCE);
	need_is(NVML(nvmlEventSetWait_v2)(set, &event, 20000), NVML_SUCCESS);
	need_is(event.eventData, 43);
	need_is(NVML(nvmlEventSetWait_v2)(set, &event, 1), NVML_ERROR_TIMEOUT);
	need_is(NVML(nvmlEventSetFree)(set), NVML_SUCCESS);
}

static void an_xid_reaches_every_waiting_process(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct child a, b;

	machine_up(&machine, "2xH200", false);
	assert_int_equal(rf_sim_inject_xid(machine.dir, 0, 13, &err),
			 0); /* before anyone listens */
	a = child_start(hear_an_xid);
	b = child_start(hear_an_xid);
	assert_int_equal(child_said(&a), 'w');
	assert_int_equal(child_said(&b), 'w');
	assert_int_equal(rf_sim_inject_xid(machine.dir, 1, 31, &err), 0);
	assert_int_equal(rf_sim_inject_xid(machine.dir, 1, 43, &err), 0);
	child_ends_well(&a);
	child_ends_well(&b);
	machine_down(&machine);
}

/* --- contexts that are hit --- */

static int expected_error;

static void be_hit(void)
{
	CUdeviceptr p;
	CUcontext ctx;
	CUfunction fn;

	ctx = child_context(0);
	fn = child_kernel(1000);
	child_launch(fn, 1);
	child_tell('r');
	child_wait();
	need_is(CU(cuCtxSynchronize)(), expected_error);
	need_is(CU(cuMemAlloc_v2)(&p, 4096), expected_error);
	need_is(CU(cuLaunchKernel)(fn, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), expected_error);
	if (expected_error != CUDA_SUCCESS && expected_error != CUDA_ERROR_DEVICE_UNAVAILABLE) {
		need_is(CU(cuCtxDestroy_v2)(ctx), CUDA_SUCCESS);
		child_context(0); /* a new one is sound */
		need_is(CU(cuMemAlloc_v2)(&p, 4096), CUDA_SUCCESS);
	}
	child_tell('d');
}

static void hit_and_check(unsigned xid, int error)
{
	struct rf_err err = RF_ERR_INIT;
	struct child c;

	machine_up(&machine, "1xH200", true);
	expected_error = error;
	c = child_start(be_hit);
	assert_int_equal(child_said(&c), 'r');
	assert_int_equal(rf_sim_inject_xid(machine.dir, 0, xid, &err), 0);
	child_go(&c);
	assert_int_equal(child_said(&c), 'd');
	child_ends_well(&c);
	machine_down(&machine);
}

static void an_xid_ends_contexts_as_a_real_one_does(void **state)
{
	hit_and_check(31, CUDA_ERROR_ILLEGAL_ADDRESS);
	hit_and_check(13, CUDA_ERROR_LAUNCH_FAILED);
	hit_and_check(48, CUDA_ERROR_ECC_UNCORRECTABLE);
	hit_and_check(94, CUDA_ERROR_ECC_UNCORRECTABLE);
	hit_and_check(95, CUDA_ERROR_ECC_UNCORRECTABLE);
	hit_and_check(109, CUDA_ERROR_LAUNCH_TIMEOUT);
	hit_and_check(79, CUDA_ERROR_DEVICE_UNAVAILABLE);
	hit_and_check(63, CUDA_SUCCESS); /* only told */
}

static void an_xid_can_be_aimed_at_one_process(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct child guilty, innocent;

	machine_up(&machine, "1xH200", true);
	expected_error = CUDA_ERROR_ILLEGAL_ADDRESS;
	guilty = child_start(be_hit);
	assert_int_equal(child_said(&guilty), 'r');
	expected_error = CUDA_SUCCESS;
	innocent = child_start(be_hit);
	assert_int_equal(child_said(&innocent), 'r');
	assert_int_equal(rf_sim_inject_xid_at(machine.dir, 0, 31, guilty.pid, &err), 0);
	child_go(&guilty);
	child_go(&innocent);
	assert_int_equal(child_said(&guilty), 'd');
	assert_int_equal(child_said(&innocent), 'd');
	child_ends_well(&guilty);
	child_ends_well(&innocent);
	machine_down(&machine);
}

/* --- off the bus --- */

static void a_card_off_the_bus_is_lost_until_cleared(void **state)
{
	nvmlEventData_t event;
	nvmlEventSet_t set;
	nvmlMemory_t mem;
	struct rf_err err = RF_ERR_INIT;
	nvmlDevice_t d, other;
	unsigned n = 0;

	machine_up(&machine, "2xA100", false);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(1, &other), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlEventSetCreate)(&set), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceRegisterEvents)(d, NVML_EVENT_XID, set), NVML_SUCCESS);
	assert_int_equal(rf_sim_off_bus(machine.dir, 0, &err), 0);
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo)(d, &mem), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, NULL),
			 NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo)(other, &mem), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlEventSetWait_v2)(set, &event, 1000), NVML_SUCCESS);
	assert_int_equal(event.eventData, 79);
	assert_int_equal(NVML(nvmlEventSetWait_v2)(set, &event, 1000), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(NVML(nvmlEventSetWait_v2)(set, &event, 1), NVML_ERROR_TIMEOUT);
	assert_int_equal(rf_sim_clear(machine.dir, 0, &err), 0);
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo)(d, &mem), NVML_SUCCESS);
	NVML(nvmlEventSetFree)(set);
	NVML(nvmlShutdown)();
	machine_down(&machine);
}

/* --- a hung kernel --- */

static void hang(void)
{
	CUfunction fn;

	child_context(0);
	fn = child_kernel(1000);
	child_launch(fn, 1);
	need_is(CU(cuStreamQuery)(NULL), CUDA_ERROR_NOT_READY);
	child_tell('h');
	need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
	child_tell('d');
}

static void a_hung_card_finishes_nothing_until_cleared(bool virtual_time)
{
	nvmlUtilization_t use;
	struct rf_err err = RF_ERR_INIT;
	struct child c;
	nvmlDevice_t d;

	machine_up(&machine, "1xH100", virtual_time);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(rf_sim_hang(machine.dir, 0, true, &err), 0);
	c = child_start(hang);
	assert_int_equal(child_said(&c), 'h');
	if (virtual_time) { /* an hour later it still hangs, and looks busy */
		assert_int_equal(rf_sim_advance(machine.dir, 0, 3600000000000ULL, &err), 0);
		assert_int_equal(NVML(nvmlDeviceGetUtilizationRates)(d, &use), NVML_SUCCESS);
		assert_int_equal(use.gpu, 100);
	}
	assert_int_equal(waitpid(c.pid, NULL, WNOHANG), 0);
	assert_int_equal(rf_sim_hang(machine.dir, 0, false, &err), 0);
	assert_int_equal(child_said(&c), 'd');
	child_ends_well(&c);
	NVML(nvmlShutdown)();
	machine_down(&machine);
}

static void a_hung_kernel_hangs_and_can_be_cleared(void **state)
{
	a_hung_card_finishes_nothing_until_cleared(true);
	a_hung_card_finishes_nothing_until_cleared(false);
}

/* --- ECC --- */

static unsigned long long ecc(nvmlDevice_t d, int type)
{
	unsigned long long n = 999;

	assert_int_equal(NVML(nvmlDeviceGetTotalEccErrors)(d, type, NVML_VOLATILE_ECC, &n),
			 NVML_SUCCESS);
	return n;
}

static void ecc_errors_are_counted_and_told(void **state)
{
	nvmlFieldValue_t field = { .fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION };
	unsigned corr, unc, pending, failed;
	nvmlEventData_t event;
	nvmlEventSet_t set;
	struct rf_err err = RF_ERR_INIT;
	nvmlDevice_t d;

	machine_up(&machine, "1xH200", false);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlEventSetCreate)(&set), NVML_SUCCESS);
	assert_int_equal(
		NVML(nvmlDeviceRegisterEvents)(
			d, NVML_EVENT_SINGLE_BIT_ECC | NVML_EVENT_DOUBLE_BIT_ECC | NVML_EVENT_XID,
			set),
		NVML_SUCCESS);
	assert_int_equal(rf_sim_inject_ecc(machine.dir, 0, true, 5, &err), 0);
	assert_int_equal(ecc(d, NVML_MEMORY_ERROR_TYPE_CORRECTED), 5);
	assert_int_equal(ecc(d, NVML_MEMORY_ERROR_TYPE_UNCORRECTED), 0);
	assert_int_equal(NVML(nvmlEventSetWait_v2)(set, &event, 1000), NVML_SUCCESS);
	assert_int_equal(event.eventType, NVML_EVENT_SINGLE_BIT_ECC);
	assert_int_equal(rf_sim_inject_ecc(machine.dir, 0, false, 2, &err), 0);
	assert_int_equal(ecc(d, NVML_MEMORY_ERROR_TYPE_UNCORRECTED), 2);
	assert_int_equal(NVML(nvmlEventSetWait_v2)(set, &event, 1000), NVML_SUCCESS);
	assert_int_equal(event.eventType, NVML_EVENT_DOUBLE_BIT_ECC);
	assert_int_equal(NVML(nvmlEventSetWait_v2)(set, &event, 1000), NVML_SUCCESS);
	assert_int_equal(event.eventData, 48);
	assert_int_equal(NVML(nvmlDeviceGetRemappedRows)(d, &corr, &unc, &pending, &failed),
			 NVML_SUCCESS);
	assert_int_equal(unc, 2);
	assert_int_equal(pending, 1);
	assert_int_equal(NVML(nvmlDeviceGetFieldValues)(d, 1, &field), NVML_SUCCESS);
	assert_int_equal(field.nvmlReturn, NVML_SUCCESS);
	assert_int_equal(field.value.ullVal, NVML_GPU_RECOVERY_ACTION_GPU_RESET);
	assert_int_equal(rf_sim_clear(machine.dir, 0, &err), 0);
	assert_int_equal(ecc(d, NVML_MEMORY_ERROR_TYPE_UNCORRECTED), 0);
	NVML(nvmlEventSetFree)(set);
	NVML(nvmlShutdown)();
	machine_down(&machine);
}

/* --- dying at any instant --- */

static CUipcMemHandle *passed; /* seen by all children */

/* Exports memory, and opens what the other left: often gone, or half written, which is an error. */
static void pass_on(CUdeviceptr mine)
{
	CUipcMemHandle own, theirs = *passed;
	CUdeviceptr q;

	need_is(CU(cuIpcGetMemHandle)(&own, mine), CUDA_SUCCESS);
	if (CU(cuIpcOpenMemHandle_v2)(&q, theirs, 1) == CUDA_SUCCESS)
		need_is(CU(cuIpcCloseMemHandle)(q), CUDA_SUCCESS);
	*passed = own;
}

static void churn(void)
{
	CUdeviceptr p, q;
	CUfunction fn;

	child_context(0);
	fn = child_kernel(1000);
	child_tell('r');
	for (;;) {
		need_is(CU(cuMemAlloc_v2)(&p, 32 * MIB), CUDA_SUCCESS);
		need_is(CU(cuMemAllocAsync)(&q, 8 * MIB, NULL), CUDA_SUCCESS);
		child_launch(fn, 3);
		pass_on(p);
		need_is(CU(cuMemFreeAsync)(q, NULL), CUDA_SUCCESS);
		need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
		need_is(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
	}
}

static void processes_killed_anywhere_leave_nothing_behind(void **state)
{
	struct rf_prng prng = { .state = 20261115 };
	struct rf_sim_card_info info;
	struct rf_err err = RF_ERR_INIT;
	size_t n;

	machine_up(&machine, "1xT4", true);
	passed = mmap(NULL, sizeof(*passed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(passed, MAP_FAILED);
	for (int i = 0; i < 60; i++) {
		struct child a = child_start(churn), b = child_start(churn);

		assert_int_equal(child_said(&a), 'r');
		assert_int_equal(child_said(&b), 'r');
		usleep((useconds_t)rf_prng_below(&prng, 3000)); /* the instant is the point */
		child_kill(&a);
		child_kill(&b);
	}
	assert_int_equal(rf_sim_machine_cards(machine.dir, &info, 1, &n, &err), 0);
	assert_int_equal(info.processes, 0);
	assert_int_equal(info.memory_used, 0);
	munmap(passed, sizeof(*passed));
	machine_down(&machine);
}

/* --- NVML that cannot be relied upon --- */

static void be_busy(void)
{
	CUfunction fn;

	child_context(0);
	fn = child_kernel(1000000);
	child_launch(fn, 500);
	need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
	child_tell('b');
	child_wait();
}

static void set_nvml(enum rf_sim_nvml how)
{
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_sim_nvml(machine.dir, 0, how, &err), 0);
}

static void nvml_can_be_made_to_fail_about_processes(void **state)
{
	nvmlProcessUtilizationSample_t s[4], old[4];
	struct rf_err err = RF_ERR_INIT;
	nvmlProcessInfo_t infos[4];
	struct child c;
	nvmlDevice_t d;
	unsigned n = 4;

	machine_up(&machine, "1xH200", true);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	c = child_start(be_busy);
	assert_int_equal(child_said(&c), 'b');
	assert_int_equal(NVML(nvmlDeviceGetProcessUtilization)(d, old, &n, 0), NVML_SUCCESS);
	assert_int_equal(n, 1);
	assert_in_range(old[0].smUtil, 40, 60);

	set_nvml(RF_SIM_NVML_STALE);
	assert_int_equal(rf_sim_advance(machine.dir, 0, 10000000000ULL, &err), 0);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetProcessUtilization)(d, s, &n, old[0].timeStamp + 1),
			 NVML_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(s[0].timeStamp, old[0].timeStamp);
	assert_int_equal(s[0].smUtil, old[0].smUtil);

	set_nvml(RF_SIM_NVML_EMPTY);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetProcessUtilization)(d, s, &n, 0), NVML_SUCCESS);
	assert_int_equal(n, 0);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, infos), NVML_SUCCESS);
	assert_int_equal(n, 0);

	set_nvml(RF_SIM_NVML_NOT_FOUND);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetProcessUtilization)(d, s, &n, 0), NVML_ERROR_NOT_FOUND);

	set_nvml(RF_SIM_NVML_IMPOSSIBLE);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetProcessUtilization)(d, s, &n, 0), NVML_SUCCESS);
	assert_int_equal(s[0].smUtil, 101);

	set_nvml(RF_SIM_NVML_DEAD);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetProcessUtilization)(d, s, &n, 0), NVML_ERROR_UNKNOWN);
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, infos),
			 NVML_ERROR_UNKNOWN);

	set_nvml(RF_SIM_NVML_WELL);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetProcessUtilization)(d, s, &n, 0), NVML_SUCCESS);
	assert_int_equal(s[0].smUtil, 0); /* ten seconds have gone by */
	child_ends_well(&c);
	NVML(nvmlShutdown)();
	machine_down(&machine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_xid_reaches_every_waiting_process),
		cmocka_unit_test(an_xid_ends_contexts_as_a_real_one_does),
		cmocka_unit_test(an_xid_can_be_aimed_at_one_process),
		cmocka_unit_test(a_card_off_the_bus_is_lost_until_cleared),
		cmocka_unit_test(a_hung_kernel_hangs_and_can_be_cleared),
		cmocka_unit_test(ecc_errors_are_counted_and_told),
		cmocka_unit_test(processes_killed_anywhere_leave_nothing_behind),
		cmocka_unit_test(nvml_can_be_made_to_fail_about_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
