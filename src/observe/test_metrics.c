#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "observe/metrics.h"

static void help_and_type_come_once_and_samples_are_sorted(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_metrics m;
	struct rf_label b = { "card", RF_LIT("gpu-1") }, first = { "card", RF_LIT("gpu-0") };

	(void)state;
	rf_metrics_init(&m, &a);
	rf_metrics_int(&m, "x_bytes", RF_METRIC_GAUGE, "Bytes.", &b, 1, 7);
	rf_metrics_int(&m, "y_total", RF_METRIC_COUNTER, "Things.", NULL, 0, 1);
	rf_metrics_int(&m, "x_bytes", RF_METRIC_GAUGE, "Bytes.", &first, 1, -5);
	rf_metrics_write(&m, &out);
	assert_string_equal(out.p, "# HELP x_bytes Bytes.\n# TYPE x_bytes gauge\n"
				   "x_bytes{card=\"gpu-0\"} -5\nx_bytes{card=\"gpu-1\"} 7\n"
				   "# HELP y_total Things.\n# TYPE y_total counter\ny_total 1\n");
}

static void label_values_cannot_forge_other_samples(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_metrics m;
	struct rf_label evil = { "pod", RF_LIT("a\"} 1\nforged{x=\"\\") };

	(void)state;
	rf_metrics_init(&m, &a);
	rf_metrics_int(&m, "x", RF_METRIC_GAUGE, "A\nB", &evil, 1, 2);
	rf_metrics_write(&m, &out);
	assert_string_equal(out.p, "# HELP x A\\nB\n# TYPE x gauge\n"
				   "x{pod=\"a\\\"} 1\\nforged{x=\\\"\\\\\"} 2\n");
}

static void fractions_are_exact(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_metrics m;

	(void)state;
	rf_metrics_init(&m, &a);
	rf_metrics_scaled(&m, "w", RF_METRIC_GAUGE, "W.", NULL, 0, -1005, 3);
	rf_metrics_write(&m, &out);
	assert_non_null(strstr(out.p, "\nw -1.005\n"));
}

static void a_series_told_twice_comes_out_once(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_metrics m;

	(void)state;
	rf_metrics_init(&m, &a);
	rf_metrics_int(&m, "x", RF_METRIC_GAUGE, "X.", NULL, 0, 1);
	rf_metrics_int(&m, "x", RF_METRIC_GAUGE, "X.", NULL, 0, 2);
	rf_metrics_write(&m, &out);
	const char *hit = strstr(out.p, "\nx ");
	assert_non_null(hit);
	assert_null(strstr(hit + 1, "\nx "));
}

static void the_process_says_what_it_uses(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_metrics m;

	(void)state;
	rf_metrics_init(&m, &a);
	rf_metrics_process(&m);
	rf_metrics_write(&m, &out);
	assert_non_null(strstr(out.p, "\nringfence_build_info{version=\"" RF_VERSION "\"} 1\n"));
	assert_null(strstr(out.p, "process_resident_memory_bytes -1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(help_and_type_come_once_and_samples_are_sorted),
		cmocka_unit_test(label_values_cannot_forge_other_samples),
		cmocka_unit_test(fractions_are_exact),
		cmocka_unit_test(a_series_told_twice_comes_out_once),
		cmocka_unit_test(the_process_says_what_it_uses),
	};

	return cmocka_run_group_tests_name("observe", tests, NULL, NULL);
}
