/* Graphs that allocate, under a fence. */
#include "fence/test/stage.h"

#define PROBE FENCE_DIR "/fence_probe_graph"

static void run(const char *scenario, const char *arg)
{
	uint64_t live, peak;

	stage_start(256 * MIB);
	assert_int_equal(stage_wait(stage_spawn(PROBE, scenario, arg)), 0);
	stage_card(&live, &peak);
	assert_true(peak <= 256 * MIB);
	assert_int_equal(stage_usage().used_bytes, 0);
	stage_stop();
}

static void every_kind_of_node_stops_at_the_cap_and_ends_at_zero(void **state)
{
	static const char *const ways[] = { "node", "any-node", "any-node-v2", "any-node-v3", "child",
					    "captured" };

	for (size_t i = 0; i < RF_COUNT(ways); i++) {
		print_message("  %s\n", ways[i]);
		run("way", ways[i]);
	}
}

static void nodes_that_share_an_address_count_once(void **state)
{
	run("reused", "");
}

static void every_form_of_instantiation_is_seen(void **state)
{
	run("instantiations", "");
}

static void a_driver_that_fails_leaves_the_books_alone(void **state)
{
	run("failures", "");
}

static void what_a_graph_leaves_behind_is_charged_until_it_is_freed(void **state)
{
	run("left-behind", "async");
	run("left-behind", "plain");
}

static void a_capture_books_nothing(void **state)
{
	run("captured", "");
}

static void threads_that_launch_at_the_cap_do_not_pass_it(void **state)
{
	run("threads", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_node_stops_at_the_cap_and_ends_at_zero),
		cmocka_unit_test(nodes_that_share_an_address_count_once),
		cmocka_unit_test(every_form_of_instantiation_is_seen),
		cmocka_unit_test(a_driver_that_fails_leaves_the_books_alone),
		cmocka_unit_test(what_a_graph_leaves_behind_is_charged_until_it_is_freed),
		cmocka_unit_test(a_capture_books_nothing),
		cmocka_unit_test(threads_that_launch_at_the_cap_do_not_pass_it),
	};

	return cmocka_run_group_tests(tests, stage_setup, stage_teardown);
}
