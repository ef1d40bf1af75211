/* Memory by handle, of other processes, and managed: the ways beside cuMemAlloc. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fence/test/harness.h"

#define MIB ((uint64_t)1 << 20)
#define CAP (256 * MIB)

static int one_capped(void **state)
{
	harness_start(CAP, 0, 0);
	return 0;
}

static int two_capped(void **state)
{
	harness_start(CAP, 128 * MIB, 0);
	return 0;
}

static int stop(void **state)
{
	harness_stop();
	return 0;
}

static void an_imported_handle_is_charged_in_full_whatever_its_size(void **state)
{
	assert_int_equal(harness_run("imported"), 0);
}

static void an_import_that_fails_anywhere_is_undone(void **state)
{
	assert_int_equal(harness_run("broken-imports"), 0);
}

static void exporter_and_importer_are_both_charged(void **state)
{
	assert_int_equal(harness_run("exported"), 0);
}

static void an_importer_is_charged_beside_other_processes_until_it_dies(void **state)
{
	pid_t holder = harness_hold("hold-import");

	assert_int_equal(harness_booked(0), 200 * MIB);
	assert_int_equal(harness_run("import-beside"), 0);
	assert_int_equal(kill(holder, SIGKILL), 0);
	assert_int_equal(harness_end(holder), SIGKILL);
	assert_int_equal(harness_run("imported"), 0); /* the whole cap is there again */
}

static void a_handle_is_charged_where_its_memory_lies(void **state)
{
	assert_int_equal(harness_run("places"), 0);
}

static void a_multicast_object_keeps_what_is_bound_charged(void **state)
{
	assert_int_equal(harness_run("multicast"), 0);
	assert_int_equal(harness_run("shared-multicast"), 0);
}

static void an_opened_ipc_handle_is_charged_once_until_closed(void **state)
{
	assert_int_equal(harness_run("ipc"), 0);
}

static void an_opened_ipc_handle_is_charged_where_its_memory_lies(void **state)
{
	assert_int_equal(harness_run("ipc-of-peer"), 0);
}

static void external_memory_is_charged_until_nothing_is_mapped_of_it(void **state)
{
	assert_int_equal(harness_run("external"), 0);
}

static void managed_memory_is_charged_on_every_capped_card(void **state)
{
	assert_int_equal(harness_run("managed"), 0);
}

#define PROMISE(f, caps) cmocka_unit_test_setup_teardown(f, caps, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROMISE(an_imported_handle_is_charged_in_full_whatever_its_size, one_capped),
		PROMISE(an_import_that_fails_anywhere_is_undone, one_capped),
		PROMISE(exporter_and_importer_are_both_charged, one_capped),
		PROMISE(an_importer_is_charged_beside_other_processes_until_it_dies, one_capped),
		PROMISE(a_handle_is_charged_where_its_memory_lies, two_capped),
		PROMISE(a_multicast_object_keeps_what_is_bound_charged, one_capped),
		PROMISE(an_opened_ipc_handle_is_charged_once_until_closed, one_capped),
		PROMISE(an_opened_ipc_handle_is_charged_where_its_memory_lies, two_capped),
		PROMISE(external_memory_is_charged_until_nothing_is_mapped_of_it, one_capped),
		PROMISE(managed_memory_is_charged_on_every_capped_card, two_capped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
