/* Reading traces, and what a run promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "simulate/simulate.h"

static const char NODES[] = "sn,cpu_milli,memory_mib,gpu,model\n"
			    "a,64000,262144,4,T4\n"
			    "b,64000,262144,8,V100\r\n"
			    "\n"
			    "c,32000,65536,0,\n";
static const char PODS[] = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
			   "p0,4000,8192,1,1000,,LS\n"
			   "p1,2000,4096,1,300,T4|A10,LS\n"
			   "p2,1000,1024,0,0,,BE\n"
			   "p3,16000,65536,2,1000,V100,LS\n";

static void read_both(struct rf_simulate *s)
{
	assert_int_equal(rf_simulate_read_nodes(s, rf_str(NODES), NULL), 0);
	assert_int_equal(rf_simulate_read_pods(s, rf_str(PODS), NULL), 0);
}

static void a_trace_is_read(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;

	read_both(&s);
	assert_int_equal(s.nodes.n, 3);
	assert_int_equal(s.nodes.at[1].cards, 8);
	assert_int_equal(s.nodes.at[0].memory, INT64_C(262144) << 20);
	assert_true(rf_str_is(s.models[s.nodes.at[1].model], "V100"));
	assert_int_equal(s.pods.n, 4);
	assert_int_equal(s.pods.at[0].models, 0);
	assert_int_equal(s.pods.at[1].milli, 300);
	assert_int_equal(__builtin_popcountll(s.pods.at[1].models), 2);
	assert_int_equal(s.pods.at[2].cards, 0);
	assert_int_equal(s.pods.at[3].models, 1u << s.nodes.at[1].model);
}

static void refused(const char *csv, const char *part)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_simulate_read_nodes(&s, rf_str(csv), &err), -RF_INVALID);
	if (strstr(err.msg, part) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", err.msg, part);
}

static void a_file_that_makes_no_sense_is_refused(void **state)
{
	refused("", "empty");
	refused("sn,cpu_milli,gpu,model\n", "no column memory_mib");
	refused("cpu_milli,memory_mib,gpu,model,gpu\n", "column gpu twice");
	refused("cpu_milli,memory_mib,gpu,model\n1,2,3\n", "line 2 has 3 fields");
	refused("cpu_milli,memory_mib,gpu,model\n1,2,65,T4\n", "line 2: gpu is \"65\"");
	refused("cpu_milli,memory_mib,gpu,model\n-1,2,1,T4\n", "cpu_milli is \"-1\"");
	refused("cpu_milli,memory_mib,gpu,model\n1,9999999999999999999,1,T4\n", "memory_mib");
}

static void too_many_models_are_refused(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	rf_buf_puts(&b, "cpu_milli,memory_mib,gpu,model\n");
	for (int i = 0; i < 65; i++)
		rf_buf_printf(&b, "1,1,1,M%d\n", i);
	assert_int_equal(rf_simulate_read_nodes(&s, rf_buf_str(&b), &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "64 models"));
}

static struct rf_simulate_result run(const struct rf_simulate *s, int64_t load, uint64_t seed)
{
	struct rf_simulate_opts o = { .load = load, .seed = seed, .policy = RF_FLEET_FRAG };
	struct rf_simulate_result r;

	assert_int_equal(rf_simulate_run(s, &o, rf_clock_system(), &r, NULL), 0);
	return r;
}

static void a_run_adds_up(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_simulate_result r;
	int64_t failed = 0;

	read_both(&s);
	r = run(&s, 130, 1);
	for (int i = 0; i < RF_SIMULATE_SIZES; i++)
		failed += r.failed[i];
	assert_int_equal(r.total_milli, 12000);
	assert_true(r.asked_milli > 12000 && r.asked_milli <= 15600 + 1000);
	assert_true(r.granted_milli > 0 && r.granted_milli <= 12000);
	assert_int_equal(r.placed + failed, r.pods);
	assert_int_equal(r.failed[RF_SIMULATE_EIGHT], 0);
}

static void a_low_load_is_placed_entirely_and_drawn_from_the_trace(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_simulate_result r;

	read_both(&s);
	r = run(&s, 20, 3); /* 2400 of the trace's 3300 thousandths */
	assert_true(r.asked_milli > 0 && r.asked_milli <= 2400 + 1000);
	assert_int_equal(r.placed, r.pods);
	assert_int_equal(r.granted_milli, r.asked_milli);
}

static void the_same_seed_gives_the_same_run(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_simulate_result a, b;

	read_both(&s);
	a = run(&s, 130, 5);
	b = run(&s, 130, 5);
	a.ns = b.ns = 0;
	assert_memory_equal(&a, &b, sizeof(a));
}

static void nothing_to_simulate_is_said(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_simulate_opts o = { .load = 130, .seed = 1 };
	struct rf_simulate_result r;

	assert_int_equal(rf_simulate_read_nodes(&s, rf_str(NODES), NULL), 0);
	assert_int_equal(rf_simulate_run(&s, &o, rf_clock_system(), &r, NULL), -RF_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_trace_is_read),
		cmocka_unit_test(a_file_that_makes_no_sense_is_refused),
		cmocka_unit_test(too_many_models_are_refused),
		cmocka_unit_test(a_run_adds_up),
		cmocka_unit_test(a_low_load_is_placed_entirely_and_drawn_from_the_trace),
		cmocka_unit_test(the_same_seed_gives_the_same_run),
		cmocka_unit_test(nothing_to_simulate_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
