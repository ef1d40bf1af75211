/* MIG: the geometry rules, and what a program sees of an instance. */
#include "sim/test_sim.h"

enum { G1 = 19, G1_ME = 20, G1_DOUBLE = 15, G2 = 14, G3 = 9, G4 = 5, G7 = 0 };

static nvmlDevice_t mig_card(struct machine *m, const char *spec)
{
	nvmlReturn_t activation = NVML_ERROR_UNKNOWN;
	nvmlDevice_t d = NULL;

	machine_up(m, spec, true);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceSetMigMode)(d, 1, &activation), NVML_SUCCESS);
	assert_int_equal(activation, NVML_SUCCESS);
	return d;
}

static void mig_down(struct machine *m)
{
	NVML(nvmlShutdown)();
	machine_down(m);
}

static nvmlReturn_t make(nvmlDevice_t d, unsigned id, nvmlGpuInstance_t *gi)
{
	return NVML(nvmlDeviceCreateGpuInstance)(d, id, gi);
}

static nvmlReturn_t make_at(nvmlDevice_t d, unsigned id, unsigned start, unsigned size)
{
	nvmlGpuInstancePlacement_t at = { start, size };
	nvmlGpuInstance_t gi;

	return NVML(nvmlDeviceCreateGpuInstanceWithPlacement)(d, id, &at, &gi);
}

static void seven_small_ones_fit_and_no_eighth(void **state)
{
	nvmlGpuInstance_t gi[8];
	struct machine m;
	nvmlDevice_t d = mig_card(&m, "1xH200");
	unsigned room = 0;

	assert_int_equal(NVML(nvmlDeviceGetGpuInstanceRemainingCapacity)(d, G1, &room),
			 NVML_SUCCESS);
	assert_int_equal(room, 7);
	for (int i = 0; i < 7; i++)
		assert_int_equal(make(d, G1, &gi[i]), NVML_SUCCESS);
	assert_int_equal(make(d, G1, &gi[7]), NVML_ERROR_INSUFFICIENT_RESOURCES);
	assert_int_equal(NVML(nvmlDeviceGetGpuInstanceRemainingCapacity)(d, G1, &room),
			 NVML_SUCCESS);
	assert_int_equal(room, 0);
	/* One goes, one comes; but two halves of different slices are no 2g. */
	assert_int_equal(NVML(nvmlGpuInstanceDestroy)(gi[1]), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlGpuInstanceDestroy)(gi[1]), NVML_ERROR_NOT_FOUND);
	assert_int_equal(NVML(nvmlGpuInstanceDestroy)(gi[2]), NVML_SUCCESS);
	assert_int_equal(make(d, G2, &gi[7]), NVML_ERROR_INSUFFICIENT_RESOURCES);
	assert_int_equal(make(d, G1, &gi[7]), NVML_SUCCESS);
	mig_down(&m);
}

static void four_and_three_fill_a_card(void **state)
{
	nvmlGpuInstance_t three, four, other;
	nvmlGpuInstanceInfo_t info;
	struct machine m;
	nvmlDevice_t d = mig_card(&m, "1xA100");

	assert_int_equal(make(d, G4, &four), NVML_SUCCESS);
	assert_int_equal(make(d, G3, &three), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlGpuInstanceGetInfo)(three, &info), NVML_SUCCESS);
	assert_int_equal(info.placement.start, 4);
	assert_int_equal(info.placement.size, 4);
	assert_int_equal(info.profileId, G3);
	assert_int_equal(make(d, G1, &other), NVML_ERROR_INSUFFICIENT_RESOURCES);
	assert_int_equal(make(d, G3, &other), NVML_ERROR_INSUFFICIENT_RESOURCES);
	assert_int_equal(make(d, G7, &other), NVML_ERROR_INSUFFICIENT_RESOURCES);
	mig_down(&m);
}

static void overlaps_and_odd_places_are_refused(void **state)
{
	nvmlGpuInstancePlacement_t places[8];
	struct machine m;
	nvmlDevice_t d = mig_card(&m, "1xB200");
	unsigned n = 8;

	assert_int_equal(NVML(nvmlDeviceGetGpuInstancePossiblePlacements_v2)(d, G2, places, &n),
			 NVML_SUCCESS);
	assert_int_equal(n, 3);
	assert_int_equal(places[2].start, 4);
	assert_int_equal(make_at(d, G2, 1, 2), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(make_at(d, G2, 2, 1), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(make_at(d, G2, 2, 2), NVML_SUCCESS);
	assert_int_equal(make_at(d, G3, 0, 4), NVML_ERROR_INSUFFICIENT_RESOURCES);
	assert_int_equal(make_at(d, G1, 3, 1), NVML_ERROR_INSUFFICIENT_RESOURCES);
	assert_int_equal(make_at(d, G1_DOUBLE, 6, 2), NVML_SUCCESS);
	assert_int_equal(make_at(d, G1, 6, 1), NVML_ERROR_INSUFFICIENT_RESOURCES);
	assert_int_equal(make_at(d, G3, 4, 4), NVML_ERROR_INSUFFICIENT_RESOURCES);
	assert_int_equal(make_at(d, G1_ME, 0, 1), NVML_SUCCESS);
	assert_int_equal(make_at(d, G1_ME, 1, 1), NVML_ERROR_INSUFFICIENT_RESOURCES);
	mig_down(&m);
}

static void profiles_are_those_of_the_model(void **state)
{
	nvmlGpuInstanceProfileInfo_v2_t v2 = { .version = NVML_GPU_INSTANCE_PROFILE_INFO_V2 };
	nvmlGpuInstanceProfileInfo_v3_t v3 = { .version = NVML_GPU_INSTANCE_PROFILE_INFO_V3 };
	nvmlGpuInstanceProfileInfo_t plain;
	unsigned current, pending;
	struct machine m;
	nvmlDevice_t d = mig_card(&m, "1xH200,1xL40S");

	assert_int_equal(NVML(nvmlDeviceGetGpuInstanceProfileInfo)(
				 d, NVML_GPU_INSTANCE_PROFILE_1_SLICE, &plain),
			 NVML_SUCCESS);
	assert_int_equal(plain.id, G1);
	assert_int_equal(plain.multiprocessorCount, 16);
	assert_int_equal(plain.memorySizeMB, 16384);
	assert_int_equal(NVML(nvmlDeviceGetGpuInstanceProfileInfoV)(
				 d, NVML_GPU_INSTANCE_PROFILE_3_SLICE, &v2),
			 NVML_SUCCESS);
	assert_string_equal(v2.name, "MIG 3g.71gb");
	assert_int_equal(NVML(nvmlDeviceGetGpuInstanceProfileInfoV)(
				 d, NVML_GPU_INSTANCE_PROFILE_7_SLICE, (void *)&v3),
			 NVML_SUCCESS);
	assert_string_equal(v3.name, "MIG 7g.141gb");
	assert_int_equal(NVML(nvmlDeviceGetGpuInstanceProfileInfo)(
				 d, NVML_GPU_INSTANCE_PROFILE_8_SLICE, &plain),
			 NVML_ERROR_NOT_SUPPORTED);
	v2.version = 7;
	assert_int_equal(NVML(nvmlDeviceGetGpuInstanceProfileInfoV)(
				 d, NVML_GPU_INSTANCE_PROFILE_3_SLICE, &v2),
			 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(1, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetMigMode)(d, &current, &pending),
			 NVML_ERROR_NOT_SUPPORTED);
	mig_down(&m);
}

static void the_mode_waits_until_the_card_is_free(void **state)
{
	nvmlReturn_t activation = NVML_SUCCESS;
	unsigned current = 9, pending = 9;
	struct machine m;
	nvmlDevice_t d = mig_card(&m, "1xH100");
	nvmlGpuInstance_t gi;

	assert_int_equal(make(d, G1, &gi), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceSetMigMode)(d, 0, &activation), NVML_ERROR_IN_USE);
	assert_int_equal(NVML(nvmlGpuInstanceDestroy)(gi), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceSetMigMode)(d, 0, &activation), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetMigMode)(d, &current, &pending), NVML_SUCCESS);
	assert_int_equal(current, 0);
	assert_int_equal(make(d, G1, &gi), NVML_ERROR_NOT_SUPPORTED);
	mig_down(&m);
}

/* --- a program on an instance --- */

static char mig_uuid[64];

static void use_the_instance(void)
{
	size_t total, free_bytes;
	char name[96];
	int count = 0, sms = 0;
	CUdeviceptr p;

	setenv("CUDA_VISIBLE_DEVICES", mig_uuid, 1);
	child_context(0);
	need_is(CU(cuDeviceGetCount)(&count), CUDA_SUCCESS);
	need_is(count, 1);
	need_is(CU(cuDeviceGetName)(name, sizeof(name), 0), CUDA_SUCCESS);
	need(strcmp(name, "NVIDIA H200 MIG 1g.18gb") == 0);
	need_is(CU(cuDeviceGetAttribute)(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
		CUDA_SUCCESS);
	need_is(sms, 16);
	need_is(CU(cuMemGetInfo_v2)(&free_bytes, &total), CUDA_SUCCESS);
	need_is(total, 16384 * MIB);
	need_is(CU(cuMemAlloc_v2)(&p, 17 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
	need_is(CU(cuMemAlloc_v2)(&p, 15 * GIB), CUDA_SUCCESS);
	child_tell('a');
	child_wait();
}

static nvmlDevice_t make_device(nvmlDevice_t d, unsigned index, nvmlComputeInstance_t *ci)
{
	nvmlDevice_t mig = NULL;
	nvmlGpuInstance_t gi;

	assert_int_equal(make(d, G1, &gi), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlGpuInstanceCreateComputeInstance)(
				 gi, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE, ci),
			 NVML_SUCCESS);
	assert_int_equal(NVML(nvmlGpuInstanceDestroy)(gi), NVML_ERROR_IN_USE);
	assert_int_equal(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(d, index, &mig), NVML_SUCCESS);
	return mig;
}

static void an_instance_is_a_small_card_of_its_own(void **state)
{
	nvmlMemory_v2_t mem = { .version = NVML_MEMORY_V2 };
	nvmlComputeInstance_t ci, other_ci;
	nvmlProcessInfo_t infos[4];
	nvmlDevice_t mig, other;
	nvmlUtilization_t use;
	struct machine m;
	struct child c;
	nvmlDevice_t d = mig_card(&m, "1xH200");
	unsigned n = 4, id = 0;

	mig = make_device(d, 0, &ci);
	other = make_device(d, 1, &other_ci);
	assert_int_equal(NVML(nvmlDeviceGetUUID)(mig, mig_uuid, sizeof(mig_uuid)), NVML_SUCCESS);
	assert_int_equal(strncmp(mig_uuid, "MIG-", 4), 0);
	c = child_start(use_the_instance);
	assert_int_equal(child_said(&c), 'a');
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo_v2)(mig, &mem), NVML_SUCCESS);
	assert_true(mem.used > 15 * GIB);
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo_v2)(other, &mem), NVML_SUCCESS);
	assert_int_equal(mem.used, 0);
	assert_int_equal(NVML(nvmlDeviceGetGpuInstanceId)(mig, &id), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, infos), NVML_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(infos[0].gpuInstanceId, id);
	n = 4;
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(other, &n, infos),
			 NVML_SUCCESS);
	assert_int_equal(n, 0);
	assert_int_equal(NVML(nvmlDeviceGetUtilizationRates)(d, &use), NVML_ERROR_NOT_SUPPORTED);
	assert_int_equal(NVML(nvmlComputeInstanceDestroy)(ci), NVML_ERROR_IN_USE);
	child_ends_well(&c);
	assert_int_equal(NVML(nvmlComputeInstanceDestroy)(ci), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo_v2)(mig, &mem), NVML_ERROR_NOT_FOUND);
	mig_down(&m);
}

/* --- what a container is given of a card --- */

static char other_uuid[64];

/* With a `caps` file: the first instance is its own, the second somebody else's. */
static void see_one_instance(void)
{
	nvmlDevice_t d, mig;
	nvmlReturn_t activation;
	nvmlGpuInstance_t gi;
	int count = 0;
	CUuuid uuid;

	setenv("CUDA_VISIBLE_DEVICES", other_uuid, 1);
	need_is(CU(cuInit)(0), CUDA_ERROR_NO_DEVICE);
	unsetenv("CUDA_VISIBLE_DEVICES");
	need_is(CU(cuInit)(0), CUDA_SUCCESS);
	need_is(CU(cuDeviceGetCount)(&count), CUDA_SUCCESS);
	need_is(count, 1);
	need_is(CU(cuDeviceGetUuid_v2)(&uuid, 0), CUDA_SUCCESS);
	need_is(NVML(nvmlShutdown)(), NVML_SUCCESS); /* what the parent saw */
	need_is(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(d, 0, &mig), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetMigDeviceHandleByIndex)(d, 1, &mig), NVML_ERROR_NOT_FOUND);
	need_is(NVML(nvmlDeviceGetHandleByUUID)(mig_uuid, &mig), NVML_SUCCESS);
	need_is(NVML(nvmlDeviceGetHandleByUUID)(other_uuid, &mig), NVML_ERROR_NOT_FOUND);
	need_is(make(d, G1, &gi), NVML_ERROR_NO_PERMISSION);
	need_is(NVML(nvmlDeviceGetGpuInstanceById)(d, 1, &gi), NVML_ERROR_NO_PERMISSION);
	need_is(NVML(nvmlDeviceSetMigMode)(d, 0, &activation), NVML_ERROR_NO_PERMISSION);
}

static void who_is_told_what_it_may_use_sees_nothing_else(void **state)
{
	nvmlComputeInstance_t ci, other_ci;
	nvmlDevice_t mig, other;
	struct machine m;
	struct child c;
	char path[4096];
	unsigned gi = 0, id = 9;
	FILE *f;
	nvmlDevice_t d = mig_card(&m, "1xH200:mig");

	mig = make_device(d, 0, &ci);
	other = make_device(d, 1, &other_ci);
	assert_int_equal(NVML(nvmlDeviceGetUUID)(mig, mig_uuid, sizeof(mig_uuid)), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetUUID)(other, other_uuid, sizeof(other_uuid)), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetGpuInstanceId)(mig, &gi), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetComputeInstanceId)(mig, &id), NVML_SUCCESS);
	snprintf(path, sizeof(path), "%s/caps", getenv("RINGFENCE_SIM"));
	f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f, "nonsense\n0 99 0\n0 %u %u\n", gi, id);
	fclose(f);
	c = child_start(see_one_instance);
	child_ends_well(&c);
	assert_int_equal(unlink(path), 0);
	mig_down(&m);
}

/* --- instances do not share time --- */

static void work_on_the_instance(void)
{
	CUevent start, end;
	CUfunction fn;
	float ms = 0;

	setenv("CUDA_VISIBLE_DEVICES", mig_uuid, 1);
	child_context(0);
	fn = child_kernel(1000000);
	need_is(CU(cuEventCreate)(&start, 0), CUDA_SUCCESS);
	need_is(CU(cuEventCreate)(&end, 0), CUDA_SUCCESS);
	need_is(CU(cuEventRecord)(start, NULL), CUDA_SUCCESS);
	child_launch(fn, 50);
	need_is(CU(cuEventRecord)(end, NULL), CUDA_SUCCESS);
	child_tell('q');
	child_wait();
	need_is(CU(cuEventSynchronize)(end), CUDA_SUCCESS);
	need_is(CU(cuEventElapsedTime)(&ms, start, end), CUDA_SUCCESS);
	need(ms == 50.0f);
	child_tell('d');
	child_wait();
}

static void instances_do_not_slow_each_other_down(void **state)
{
	nvmlComputeInstance_t ci;
	struct child a, b;
	struct machine m;
	nvmlDevice_t d = mig_card(&m, "1xH200"), mig;

	mig = make_device(d, 0, &ci);
	assert_int_equal(NVML(nvmlDeviceGetUUID)(mig, mig_uuid, sizeof(mig_uuid)), NVML_SUCCESS);
	a = child_start(work_on_the_instance);
	assert_int_equal(child_said(&a), 'q');
	mig = make_device(d, 1, &ci);
	assert_int_equal(NVML(nvmlDeviceGetUUID)(mig, mig_uuid, sizeof(mig_uuid)), NVML_SUCCESS);
	b = child_start(work_on_the_instance);
	assert_int_equal(child_said(&b), 'q');
	child_go(&a);
	assert_int_equal(child_said(&a), 'd');
	child_go(&b);
	assert_int_equal(child_said(&b), 'd');
	child_ends_well(&a);
	child_ends_well(&b);
	mig_down(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seven_small_ones_fit_and_no_eighth),
		cmocka_unit_test(four_and_three_fill_a_card),
		cmocka_unit_test(overlaps_and_odd_places_are_refused),
		cmocka_unit_test(profiles_are_those_of_the_model),
		cmocka_unit_test(the_mode_waits_until_the_card_is_free),
		cmocka_unit_test(an_instance_is_a_small_card_of_its_own),
		cmocka_unit_test(who_is_told_what_it_may_use_sees_nothing_else),
		cmocka_unit_test(instances_do_not_slow_each_other_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
