/* What the driver takes for itself: contexts, their limits, modules; and who is shown on the card. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fence/test/harness.h"

#define MIB ((uint64_t)1 << 20)
#define CAP (256 * MIB)

static int known(void **state)
{
	harness_start(CAP, 0, 30 * MIB);
	return 0;
}

static int unknown(void **state)
{
	harness_start(CAP, 0, 0);
	return 0;
}

static int stop(void **state)
{
	harness_stop();
	return 0;
}

static void each_context_takes_its_share_of_the_cap(void **state)
{
	assert_int_equal(harness_run("contexts"), 0);
}

static void a_primary_context_is_charged_once_while_it_lives(void **state)
{
	assert_int_equal(harness_run("primary"), 0);
}

static void limits_are_charged_for_what_they_take(void **state)
{
	assert_int_equal(harness_run("limits"), 0);
}

static void a_module_is_charged_for_its_variables(void **state)
{
	assert_int_equal(harness_run("modules"), 0);
}

static void a_neighbour_is_not_taken_for_a_module(void **state)
{
	assert_int_equal(harness_run("neighbour"), 0);
}

static void a_library_is_charged_in_the_contexts_that_use_it(void **state)
{
	assert_int_equal(harness_run("libraries"), 0);
}

static void processes_with_a_context_are_shown(void **state)
{
	pid_t other;

	assert_int_equal(harness_run("processes"), 0);
	other = harness_hold("hold-context");
	assert_int_equal(harness_booked(0), 0);
	assert_int_equal(harness_run("one-neighbour"), 0);
	assert_int_equal(harness_end(other), 0);
}

static void a_lost_seat_does_not_hide_a_context(void **state)
{
	assert_int_equal(harness_run("closed"), 0);
}

static void eight_threads_leave_the_books_at_zero(void **state)
{
	assert_int_equal(harness_run("crowd"), 0);
}

#define PROMISE(f, agent) cmocka_unit_test_setup_teardown(f, agent, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROMISE(each_context_takes_its_share_of_the_cap, known),
		PROMISE(a_primary_context_is_charged_once_while_it_lives, known),
		PROMISE(limits_are_charged_for_what_they_take, known),
		PROMISE(a_module_is_charged_for_its_variables, unknown),
		PROMISE(a_neighbour_is_not_taken_for_a_module, unknown),
		PROMISE(a_library_is_charged_in_the_contexts_that_use_it, unknown),
		PROMISE(processes_with_a_context_are_shown, unknown),
		PROMISE(a_lost_seat_does_not_hide_a_context, unknown),
		PROMISE(eight_threads_leave_the_books_at_zero, known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
