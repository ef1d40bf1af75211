/* What a machine is made of, and what it says of itself. */
#include "sim/test_sim.h"

#include <sys/stat.h>

static void a_spec_lists_counts_and_models(void **state)
{
	struct rf_sim_spec spec;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_sim_spec_parse(RF_LIT("2xH200"), &spec, &err), 0);
	assert_int_equal(spec.n, 2);
	assert_string_equal(spec.cards[1]->product, "NVIDIA H200");
	assert_int_equal(rf_sim_spec_parse(RF_LIT("1xA100, 2xt4,L40S"), &spec, &err), 0);
	assert_int_equal(spec.n, 4);
	assert_string_equal(spec.cards[0]->key, "A100");
	assert_string_equal(spec.cards[2]->key, "T4");
	assert_string_equal(spec.cards[3]->key, "L40S");
	assert_int_equal(rf_sim_spec_parse(RF_LIT("2xH100:mig,H100"), &spec, &err), 0);
	assert_int_equal(spec.n, 3);
	assert_true(spec.mig[0] && spec.mig[1] && !spec.mig[2]);
	assert_string_equal(spec.cards[1]->key, "H100");
}

static void a_bad_spec_is_refused_with_what_is_known(void **state)
{
	static const char *const bad[] = {
		"",	  "2x",	    "xH200",	"0xH200",     "65xH200",
		"2xH999", "2 H200", "H200,,T4", "64xT4,1xT4", "99999999999999999999xT4",
		"1xT4:mig", "1xH100:", "1xH100:mps", "1xH100:mig:mig", ":mig"
	};
	struct rf_sim_spec spec;
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < RF_COUNT(bad); i++)
		assert_int_equal(rf_sim_spec_parse(rf_str(bad[i]), &spec, &err), -RF_INVALID);
	rf_sim_spec_parse(RF_LIT("1xV100"), &spec, &err);
	assert_non_null(strstr(err.msg, "V100"));
	assert_non_null(strstr(err.msg, "A100, H100, H200, B200, L40S, T4"));
}

static void every_model_has_sane_figures(void **state)
{
	const struct rf_gpu_model *m;

	for (size_t i = 0; (m = rf_gpu_model_at(i)) != NULL; i++) {
		assert_true(m->memory_mib > m->reserved_mib + m->context_mib);
		assert_ptr_equal(rf_gpu_model_by_product(m->product), m);
		for (size_t j = 0; j < m->n_mig; j++) {
			const struct rf_mig_profile *p = &m->mig[j];

			assert_true(p->sms <= m->sms && p->memory_mib < m->memory_mib);
			assert_true(p->n_starts >= p->max || p->max == 7);
			for (unsigned k = 0; k < p->n_starts; k++)
				assert_true(p->starts[k] + p->memory_slices <=
					    RF_MIG_MEMORY_SLICES);
		}
	}
}

static void a_machine_describes_itself(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_sim_card_info cards[4];
	struct rf_err err = RF_ERR_INIT;
	struct machine m;
	size_t n = 0;

	machine_up(&m, "1xH200,1xT4", false);
	assert_int_equal(rf_sim_machine_cards(m.dir, cards, 4, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_string_equal(cards[0].model->key, "H200");
	assert_string_equal(cards[1].model->key, "T4");
	assert_string_not_equal(cards[0].uuid, cards[1].uuid);
	assert_int_equal(strncmp(cards[0].uuid, "GPU-", 4), 0);
	assert_int_equal(cards[0].memory_used, 0);
	assert_int_equal(rf_sim_machine_describe(m.dir, &text, &err), 0);
	assert_non_null(strstr(text.p, "NVIDIA H200"));
	assert_non_null(strstr(text.p, cards[1].uuid));
	machine_down(&m);
}

static void a_second_machine_in_the_same_folder_is_refused(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct machine m;

	machine_up(&m, "1xT4", false);
	assert_int_equal(rf_sim_machine_create(m.dir, RF_LIT("1xT4"), NULL, &err), -RF_EXISTS);
	assert_non_null(strstr(err.msg, m.dir));
	machine_down(&m);
}

static void faults_need_a_card_that_is_there(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct machine m;
	char path[128];
	FILE *f;

	machine_up(&m, "1xT4", false);
	assert_int_equal(rf_sim_inject_xid(m.dir, 1, 79, &err), -RF_NOT_FOUND);
	assert_int_equal(rf_sim_inject_xid(m.dir, 0, 0, &err), -RF_INVALID);
	assert_int_equal(rf_sim_inject_ecc(m.dir, 0, true, 0, &err), -RF_INVALID);
	assert_int_equal(rf_sim_advance(m.dir, 0, 1, &err), -RF_INVALID);
	assert_int_equal(rf_sim_hang("/nonexistent", 0, true, &err), -RF_NOT_FOUND);
	/* A file that only looks like a card. */
	snprintf(path, sizeof(path), "%s/nvidia5", m.dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("hello", f);
	fclose(f);
	assert_int_equal(rf_sim_clear(m.dir, 5, &err), -RF_INVALID);
	machine_down(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_spec_lists_counts_and_models),
		cmocka_unit_test(a_bad_spec_is_refused_with_what_is_known),
		cmocka_unit_test(every_model_has_sane_figures),
		cmocka_unit_test(a_machine_describes_itself),
		cmocka_unit_test(a_second_machine_in_the_same_folder_is_refused),
		cmocka_unit_test(faults_need_a_card_that_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
