/* Time: kernels take what they should, and contexts on one card share it. */
#include "sim/test_sim.h"

#include <time.h>

static uint64_t card_clock(const char *dir)
{
	struct rf_sim_card_info info;
	struct rf_err err = RF_ERR_INIT;
	size_t n;

	assert_int_equal(rf_sim_machine_cards(dir, &info, 1, &n, &err), 0);
	return info.clock_ns;
}

/* --- one context --- */

static void time_alone(void)
{
	CUevent start, middle, end;
	CUstream other;
	CUfunction fn;
	float ms = 0;

	child_context(0);
	fn = child_kernel(200000);
	need_is(CU(cuEventCreate)(&start, 0), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&middle, 0), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&end, 0), CUDA_SUCCESS);
	need_is(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	need_is(CU(cuEventElapsedTime)(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
	need_is(CU(cuEventRecord)(start, NULL), CUDA_SUCCESS);
	child_launch(fn, 10);
	need_is(CU(cuEventRecord)(middle, NULL), CUDA_SUCCESS);
	child_launch(fn, 5);
	need_is(CU(cuEventRecord)(end, NULL), CUDA_SUCCESS);
	need_is(CU(cuEventQuery)(start), CUDA_SUCCESS);
	need_is(CU(cuEventQuery)(end), CUDA_ERROR_NOT_READY);
	need_is(CU(cuStreamQuery)(NULL), CUDA_ERROR_NOT_READY);
	need_is(CU(cuStreamQuery)(other), CUDA_SUCCESS);
	need_is(CU(cuEventSynchronize)(middle), CUDA_SUCCESS);
	need_is(CU(cuEventElapsedTime)(&ms, start, middle), CUDA_SUCCESS);
	need(ms == 2.0f);
	need_is(CU(cuEventElapsedTime)(&ms, start, end), CUDA_ERROR_NOT_READY);
	need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
	need_is(CU(cuEventElapsedTime)(&ms, start, end), CUDA_SUCCESS);
	need(ms == 3.0f);
	need_is(CU(cuStreamDestroy_v2)(other), CUDA_SUCCESS);
}

static void a_kernel_takes_the_time_its_image_says(void **state)
{
	struct machine m;
	struct child c;
	uint64_t before;

	machine_up(&m, "1xH200", true);
	before = card_clock(m.dir);
	c = child_start(time_alone);
	child_ends_well(&c);
	assert_int_equal(card_clock(m.dir) - before, 15 * 200000);
	machine_down(&m);
}

static void fill_the_queue(void)
{
	CUevent early;
	CUfunction fn;

	child_context(0);
	fn = child_kernel(1000);
	need_is(CU(cuEventCreate)(&early, 0), CUDA_SUCCESS);
	child_launch(fn, 1);
	need_is(CU(cuEventRecord)(early, NULL), CUDA_SUCCESS);
	child_launch(fn, 4999); /* more than the queue holds: launching waits, and time goes by */
	need_is(CU(cuEventQuery)(early), CUDA_SUCCESS);
	need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
}

static void a_full_queue_makes_launches_wait(void **state)
{
	struct machine m;
	struct child c;
	uint64_t before;

	machine_up(&m, "1xT4", true);
	before = card_clock(m.dir);
	c = child_start(fill_the_queue);
	child_ends_well(&c);
	assert_int_equal(card_clock(m.dir) - before, 5000 * 1000);
	machine_down(&m);
}

static void launch_shapes(void)
{
	CUmodule mod;
	CUfunction fn;
	CUevent a, b;
	float small, large;

	child_context(0);
	need_is(CU(cuModuleLoadData)(&mod, "\x7f"
					   "ELF-like but short"),
		CUDA_SUCCESS);
	need_is(CU(cuModuleGetFunction)(&fn, mod, "anything"), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&a, 0), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&b, 0), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++) {
		need_is(CU(cuEventRecord)(a, NULL), CUDA_SUCCESS);
		need_is(CU(cuLaunchKernel)(fn, i == 0 ? 1 : 1 << 20, 1, 1, 256, 1, 1, 0, NULL, NULL,
					   NULL),
			CUDA_SUCCESS);
		need_is(CU(cuEventRecord)(b, NULL), CUDA_SUCCESS);
		need_is(CU(cuEventSynchronize)(b), CUDA_SUCCESS);
		need_is(CU(cuEventElapsedTime)(i == 0 ? &small : &large, a, b), CUDA_SUCCESS);
	}
	need(large > 100 * small);
	need_is(CU(cuLaunchKernel)(fn, 1, 1, 1, 2048, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuLaunchKernel)(fn, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_VALUE);
}

static void without_a_directive_time_follows_the_grid(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xH100", true);
	c = child_start(launch_shapes);
	child_ends_well(&c);
	machine_down(&m);
}

/* --- several contexts --- */

static float expected_ms;
static int kernels;

static void compete(void)
{
	CUevent start, end;
	CUfunction fn;
	float ms;

	child_context(0);
	fn = child_kernel(1000000);
	need_is(CU(cuEventCreate)(&start, 0), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&end, 0), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(start, NULL), CUDA_SUCCESS);
	child_launch(fn, kernels);
	need_is(CU(cuEventRecord)(end, NULL), CUDA_SUCCESS);
	child_tell('q');
	child_wait();
	need_is(CU(cuEventSynchronize)(end), CUDA_SUCCESS);
	need_is(CU(cuEventElapsedTime)(&ms, start, end), CUDA_SUCCESS);
	if (ms < expected_ms - 0.001f || ms > expected_ms + 0.001f) {
		fprintf(stderr, "took %f ms, not %f\n", (double)ms, (double)expected_ms);
		_exit(1);
	}
	child_tell('d');
	child_wait();
}

static void two_contexts_share_the_card_equally(void **state)
{
	nvmlProcessUtilizationSample_t samples[4];
	struct child a, b;
	struct machine m;
	nvmlDevice_t d;
	unsigned n = 4;

	machine_up(&m, "1xH200", true);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	/* Both have 500 ms of work. Each takes 1000 ms. */
	kernels = 500;
	expected_ms = 1000;
	a = child_start(compete);
	assert_int_equal(child_said(&a), 'q');
	b = child_start(compete);
	assert_int_equal(child_said(&b), 'q');
	child_go(&a);
	child_go(&b);
	assert_int_equal(child_said(&a), 'd');
	assert_int_equal(child_said(&b), 'd');
	assert_int_equal(NVML(nvmlDeviceGetProcessUtilization)(d, samples, &n, 0), NVML_SUCCESS);
	assert_int_equal(n, 2);
	for (unsigned i = 0; i < 2; i++)
		assert_in_range(samples[i].smUtil, 45, 55);
	child_ends_well(&a);
	child_ends_well(&b);
	NVML(nvmlShutdown)();
	machine_down(&m);
}

static void who_is_left_alone_gets_all_of_it(void **state)
{
	struct child a, b;
	struct machine m;

	machine_up(&m, "1xH200", true);
	/* 100 ms beside 300 ms: the first is through after 200, the second after 400. */
	kernels = 100;
	expected_ms = 200;
	a = child_start(compete);
	assert_int_equal(child_said(&a), 'q');
	kernels = 300;
	expected_ms = 400;
	b = child_start(compete);
	assert_int_equal(child_said(&b), 'q');
	child_go(&b);
	assert_int_equal(child_said(&b), 'd');
	child_go(&a);
	assert_int_equal(child_said(&a), 'd');
	child_ends_well(&a);
	child_ends_well(&b);
	machine_down(&m);
}

static void switching_can_cost_something(void **state)
{
	struct rf_sim_options opt = { .virtual_time = true, .switch_milli = 200 };
	struct rf_err err = RF_ERR_INIT;
	struct child a, b;
	struct machine m;

	opt.switch_milli = 1000;
	assert_int_equal(rf_sim_machine_create("/tmp/rf-sim-never", rf_str("T4"), &opt, &err),
			 -RF_INVALID);
	opt.switch_milli = 200;
	machine_up_with(&m, "1xH200", &opt);
	/* 100 ms beside 300 ms, and a fifth is lost while both run: 100 and 100 take 250 ms, and
	 * then the second has the card to itself. */
	kernels = 100;
	expected_ms = 250;
	a = child_start(compete);
	assert_int_equal(child_said(&a), 'q');
	kernels = 300;
	expected_ms = 450;
	b = child_start(compete);
	assert_int_equal(child_said(&b), 'q');
	child_go(&b);
	assert_int_equal(child_said(&b), 'd');
	child_go(&a);
	assert_int_equal(child_said(&a), 'd');
	child_ends_well(&a);
	child_ends_well(&b);
	machine_down(&m);
}

static void a_killed_neighbour_no_longer_takes_a_share(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct child a, b;
	struct machine m;

	machine_up(&m, "1xH200", true);
	kernels = 100;
	expected_ms = 110; /* 20 ms at half speed, then 90 alone */
	a = child_start(compete);
	assert_int_equal(child_said(&a), 'q');
	kernels = 1000;
	b = child_start(compete);
	assert_int_equal(child_said(&b), 'q');
	assert_int_equal(rf_sim_advance(m.dir, 0, 20000000, &err), 0);
	child_kill(&b);
	(void)card_clock(m.dir); /* whoever looks next clears up */
	child_go(&a);
	assert_int_equal(child_said(&a), 'd');
	child_ends_well(&a);
	machine_down(&m);
}

/* --- real time --- */

static double seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Many short kernels, each waited for: the times are exact, and waiting is not done by turning. */
static void wait_for_each(void)
{
	__typeof__(&cuEventElapsedTime) elapsed = CU(cuEventElapsedTime);
	__typeof__(&cuEventSynchronize) synchronize = CU(cuEventSynchronize);
	__typeof__(&cuEventRecord) record = CU(cuEventRecord);
	double cpu, real;
	CUevent a, b;
	CUfunction fn;

	child_context(0);
	fn = child_kernel(2000000);
	need_is(CU(cuEventCreate)(&a, 0), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&b, CU_EVENT_BLOCKING_SYNC), CUDA_SUCCESS);
	real = seconds(CLOCK_MONOTONIC);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < 200; i++) {
		float ms = 0;

		need_is(record(a, NULL), CUDA_SUCCESS);
		child_launch(fn, 1);
		need_is(record(b, NULL), CUDA_SUCCESS);
		need_is(synchronize(b), CUDA_SUCCESS);
		need_is(elapsed(&ms, a, b), CUDA_SUCCESS);
		/* From the record to the end of the kernel: its time, and the moment in between. */
		need(ms >= 2.0f);
	}
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	real = seconds(CLOCK_MONOTONIC) - real;
	need(real >= 0.4);
	need(cpu < real / 2);
}

static void waiting_burns_no_core(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xH200", false);
	c = child_start(wait_for_each);
	child_ends_well(&c);
	machine_down(&m);
}

static void work_in_real_time(void)
{
	struct timespec from, to;
	CUfunction fn;
	double ms;

	child_context(0);
	fn = child_kernel(5000000);
	clock_gettime(CLOCK_MONOTONIC, &from);
	child_launch(fn, 8);
	need_is(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
	clock_gettime(CLOCK_MONOTONIC, &to);
	ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
	need(ms >= 40.0 && ms < 400.0); /* the upper bound is for slow machines */
	child_tell('d');
	child_wait();
}

static void in_real_time_waiting_takes_time_and_nvml_sees_load(void **state)
{
	nvmlUtilization_t use;
	unsigned power = 0, idle = 0;
	struct machine m;
	struct child c;
	nvmlDevice_t d;

	machine_up(&m, "1xH200", false);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetUtilizationRates)(d, &use), NVML_SUCCESS);
	assert_int_equal(use.gpu, 0);
	assert_int_equal(NVML(nvmlDeviceGetPowerUsage)(d, &idle), NVML_SUCCESS);
	c = child_start(work_in_real_time);
	assert_int_equal(child_said(&c), 'd');
	assert_int_equal(NVML(nvmlDeviceGetUtilizationRates)(d, &use), NVML_SUCCESS);
	assert_in_range(use.gpu, 1, 100);
	assert_int_equal(NVML(nvmlDeviceGetPowerUsage)(d, &power), NVML_SUCCESS);
	assert_true(power > idle);
	child_ends_well(&c);
	NVML(nvmlShutdown)();
	machine_down(&m);
}

static void gpm_measures_between_two_samples(void **state)
{
	nvmlGpmMetricsGet_t *g = calloc(1, sizeof(*g) + RF_NVML_GPM_ROOM * sizeof(g->metrics[0]));
	struct rf_err err = RF_ERR_INIT;
	struct machine m;
	struct child c;
	nvmlDevice_t d;

	machine_up(&m, "1xH200", true);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlGpmSampleAlloc)(&g->sample1), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlGpmSampleAlloc)(&g->sample2), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlGpmSampleGet)(d, g->sample1), NVML_SUCCESS);
	kernels = 100;
	expected_ms = 100;
	c = child_start(compete);
	assert_int_equal(child_said(&c), 'q');
	assert_int_equal(rf_sim_advance(m.dir, 0, 400000000, &err), 0);
	assert_int_equal(NVML(nvmlGpmSampleGet)(d, g->sample2), NVML_SUCCESS);
	g->version = 1;
	g->numMetrics = 2;
	g->metrics[0].metricId = NVML_GPM_METRIC_SM_UTIL;
	g->metrics[1].metricId = NVML_GPM_METRIC_ANY_TENSOR_UTIL;
	assert_int_equal(NVML(nvmlGpmMetricsGet)(g), NVML_SUCCESS);
	assert_int_equal(g->metrics[0].nvmlReturn, NVML_SUCCESS);
	assert_true(g->metrics[0].value > 24.9 && g->metrics[0].value < 25.1);
	assert_int_equal(g->metrics[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
	NVML(nvmlGpmSampleFree)(g->sample1);
	NVML(nvmlGpmSampleFree)(g->sample2);
	free(g);
	child_ends_well(&c);
	NVML(nvmlShutdown)();
	machine_down(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kernel_takes_the_time_its_image_says),
		cmocka_unit_test(a_full_queue_makes_launches_wait),
		cmocka_unit_test(without_a_directive_time_follows_the_grid),
		cmocka_unit_test(two_contexts_share_the_card_equally),
		cmocka_unit_test(who_is_left_alone_gets_all_of_it),
		cmocka_unit_test(switching_can_cost_something),
		cmocka_unit_test(a_killed_neighbour_no_longer_takes_a_share),
		cmocka_unit_test(in_real_time_waiting_takes_time_and_nvml_sees_load),
		cmocka_unit_test(waiting_burns_no_core),
		cmocka_unit_test(gpm_measures_between_two_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
