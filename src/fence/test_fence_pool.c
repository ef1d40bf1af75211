/* Stream-ordered pools under a fence. */
#include "fence/test/stage.h"

#define PROBE FENCE_DIR "/fence_probe_pool"

static void run(uint64_t cap_mib, const char *scenario, const char *arg)
{
	stage_start(cap_mib * MIB);
	assert_int_equal(stage_wait(stage_spawn(PROBE, scenario, arg)), 0);
	assert_int_equal(stage_usage().used_bytes, 0);
	stage_stop();
}

static void small_allocations_do_not_ask_the_pool(void **state)
{
	run(4096, "unasked", "");
}

static void the_charge_covers_the_pool_and_nothing_that_fits_is_refused(void **state)
{
	run(4096, "random-sizes", "4096"); /* charged ahead while there is room */
	run(256, "random-sizes", "256");   /* never charged ahead */
}

static void the_charge_is_there_before_the_pool_grows(void **state)
{
	run(4224, "growing", "4");
	run(4224, "growing", "1024");
	run(4224, "growing", "9216");
	run(4224, "growing", "70000");
}

static void a_pool_that_grows_faster_than_thought_is_learned(void **state)
{
	run(4096, "surprise", "");
}

static void a_destroyed_pool_is_charged_until_its_last_allocation_is_freed(void **state)
{
	run(256, "destroyed", "");
}

static void the_current_pool_is_the_one_that_is_charged(void **state)
{
	run(256, "current", "");
}

static void host_pools_pass_and_managed_and_unknown_ones_do_not(void **state)
{
	run(256, "elsewhere", "");
}

static void an_imported_pointer_is_charged_where_it_is_imported(void **state)
{
	run(256, "imported", "");
}

static void a_driver_that_fails_leaves_the_books_alone(void **state)
{
	run(4096, "failures", "4096");
	run(256, "failures", "256");
}

static void nobody_waits_for_a_stream_at_the_cap(void **state)
{
	run(256, "stuck", "");
}

static void what_a_pool_took_too_much_is_undone_or_booked(void **state)
{
	run(256, "scattered", "");
}

static void nothing_is_charged_ahead_once_the_program_has_waited(void **state)
{
	run(4096, "calm", "");
}

static void expect(int fd)
{
	char c = 0;

	assert_int_equal(read(fd, &c, 1), 1);
	assert_int_equal(c, 'r');
}

static pid_t spawn_talking(int *ret_in, int *ret_out)
{
	int in[2], out[2], keep_in = dup(0), keep_out = dup(1);
	pid_t pid;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	dup2(in[0], 0);
	dup2(out[1], 1);
	pid = stage_spawn(PROBE, "give-way", "");
	dup2(keep_in, 0);
	dup2(keep_out, 1);
	close(keep_in);
	close(keep_out);
	close(in[0]);
	close(out[1]);
	*ret_in = in[1];
	*ret_out = out[0];
	return pid;
}

static void what_is_charged_ahead_is_given_back_when_somebody_is_refused(void **state)
{
	int in, out;
	pid_t pid;

	stage_start(4096 * MIB);
	pid = spawn_talking(&in, &out);
	expect(out);
	assert_true(stage_usage().used_bytes > 32 * MIB);
	assert_int_equal(WEXITSTATUS(stage_wait(stage_spawn(PROBE, "take", "4064"))),
			 2); /* CUDA_ERROR_OUT_OF_MEMORY */
	assert_int_equal(write(in, "x", 1), 1);
	expect(out);
	assert_int_equal(stage_usage().used_bytes, 32 * MIB);
	assert_int_equal(stage_wait(stage_spawn(PROBE, "take", "4064")), 0);
	close(in);
	close(out);
	assert_int_equal(stage_wait(pid), 0);
	assert_int_equal(stage_usage().used_bytes, 0);
	stage_stop();
}

static void hammer(uint64_t cap_mib)
{
	uint64_t live, peak;
	pid_t pid[4];

	stage_start(cap_mib * MIB);
	for (int i = 0; i < 4; i++) {
		char number[8];

		snprintf(number, sizeof(number), "%d", i);
		pid[i] = stage_spawn(PROBE, "hammer", number);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(stage_wait(pid[i]), 0);
	stage_card(&live, &peak);
	print_message("  peak %llu of %llu bytes, %llu refusals\n", (unsigned long long)peak,
		      (unsigned long long)(cap_mib * MIB),
		      (unsigned long long)stage_usage().refusals);
	assert_int_equal(live, 0);
	assert_true(peak <= cap_mib * MIB);
	assert_int_equal(stage_usage().used_bytes, 0);
	stage_stop();
}

static void four_processes_of_eight_threads_never_pass_the_cap(void **state)
{
	hammer(2048);
	hammer(256);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_allocations_do_not_ask_the_pool),
		cmocka_unit_test(the_charge_covers_the_pool_and_nothing_that_fits_is_refused),
		cmocka_unit_test(the_charge_is_there_before_the_pool_grows),
		cmocka_unit_test(a_pool_that_grows_faster_than_thought_is_learned),
		cmocka_unit_test(a_destroyed_pool_is_charged_until_its_last_allocation_is_freed),
		cmocka_unit_test(the_current_pool_is_the_one_that_is_charged),
		cmocka_unit_test(host_pools_pass_and_managed_and_unknown_ones_do_not),
		cmocka_unit_test(an_imported_pointer_is_charged_where_it_is_imported),
		cmocka_unit_test(a_driver_that_fails_leaves_the_books_alone),
		cmocka_unit_test(nobody_waits_for_a_stream_at_the_cap),
		cmocka_unit_test(what_a_pool_took_too_much_is_undone_or_booked),
		cmocka_unit_test(nothing_is_charged_ahead_once_the_program_has_waited),
		cmocka_unit_test(what_is_charged_ahead_is_given_back_when_somebody_is_refused),
		cmocka_unit_test(four_processes_of_eight_threads_never_pass_the_cap),
	};

	return cmocka_run_group_tests(tests, stage_setup, stage_teardown);
}
