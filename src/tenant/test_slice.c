#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tenant/slice.h"

#define H100 RF_LIT("NVIDIA H100 80GB HBM3")

static struct rf_json *claim(struct rf_arena *a, const char *config)
{
	return rf_json_make(a,
			    "{'status':{'allocation':{'devices':{'results':[{'request':'a','driver':'ringfence.io'},"
			    "{'request':'b','driver':'ringfence.io'},{'request':'a','driver':'other.io'},"
			    "{'request':'a','driver':'ringfence.io'}],'config':%j}}}}",
			    rf_json_make(a, config));
}

static void each_result_has_the_start_of_its_turn(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_slice_place p;
	struct rf_json *c = claim(&a, "[{'requests':['b'],'opaque':{'driver':'ringfence.io','parameters':{'profile':"
				      "'3g.40gb','starts':[4]}}},{'requests':['a'],'opaque':{'driver':'ringfence.io',"
				      "'parameters':{'profile':'1g.10gb','starts':[0,3]}}}]");

	(void)state;
	assert_true(rf_slice_of_result(c, 0, &p));
	assert_true(rf_str_is(p.profile, "1g.10gb"));
	assert_int_equal(p.start, 0);
	assert_true(rf_slice_of_result(c, 1, &p));
	assert_true(rf_str_is(p.profile, "3g.40gb"));
	assert_int_equal(p.start, 4);
	assert_false(rf_slice_of_result(c, 2, &p)); /* another driver's, and no turn of ours */
	assert_true(rf_slice_of_result(c, 3, &p));
	assert_int_equal(p.start, 3);
	assert_false(rf_slice_of_result(c, 4, &p));
}

static void what_makes_no_sense_is_no_slice(void **state)
{
	static const char *const bad[] = {
		"[]",
		"{}",
		"[{'requests':['a'],'opaque':{'driver':'other.io','parameters':{'profile':'1g.10gb','starts':[0]}}}]",
		"[{'requests':[],'opaque':{'driver':'ringfence.io','parameters':{'profile':'1g.10gb','starts':[0]}}}]",
		"[{'requests':['a'],'opaque':{'driver':'ringfence.io','parameters':{'profile':'1g.10gb','starts':[]}}}]",
		"[{'requests':['a'],'opaque':{'driver':'ringfence.io','parameters':{'profile':'1g.10gb','starts':[8]}}}]",
		"[{'requests':['a'],'opaque':{'driver':'ringfence.io','parameters':{'profile':'1g.10gb','starts':[-1]}}}]",
		"[{'requests':['a'],'opaque':{'driver':'ringfence.io','parameters':{'profile':'1g.10gb','starts':['0']}}}]",
		"[{'requests':['a'],'opaque':{'driver':'ringfence.io','parameters':{'profile':'','starts':[0]}}}]",
		"[{'requests':['a'],'opaque':{'driver':'ringfence.io','parameters':{'profile':"
		"'12345678901234567890123456789012','starts':[0]}}}]",
	};
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_slice_place p;

	(void)state;
	for (size_t i = 0; i < RF_COUNT(bad); i++)
		assert_false(rf_slice_of_result(claim(&a, bad[i]), 0, &p));
	assert_false(rf_slice_of_result(NULL, 0, &p));
}

static unsigned mask(struct rf_str product, const char *profile, unsigned start)
{
	struct rf_slice_place p = { rf_str(profile), start };

	return rf_slice_mask(product, &p);
}

static void a_slice_covers_what_its_model_says(void **state)
{
	(void)state;
	assert_int_equal(mask(H100, "1g.10gb", 6), 0x40);
	assert_int_equal(mask(H100, "2g.20gb", 4), 0x30);
	assert_int_equal(mask(H100, "3g.40gb", 4), 0xf0);
	assert_int_equal(mask(H100, "7g.80gb", 0), 0xff);
	assert_int_equal(mask(H100, "1g.10gb", 7), 0); /* no such place */
	assert_int_equal(mask(H100, "2g.20gb", 1), 0);
	assert_int_equal(mask(H100, "1g.18gb", 0), 0); /* an H200's */
	assert_int_equal(mask(RF_LIT("NVIDIA L40S"), "1g.10gb", 0), 0);
	assert_int_equal(mask(RF_STR_EMPTY, "1g.10gb", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_result_has_the_start_of_its_turn),
		cmocka_unit_test(what_makes_no_sense_is_no_slice),
		cmocka_unit_test(a_slice_covers_what_its_model_says),
	};

	return cmocka_run_group_tests_name("slice", tests, NULL, NULL);
}
