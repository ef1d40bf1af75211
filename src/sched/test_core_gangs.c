/* Gangs by use: those that ask for the same and must be together in different ways, and those that grow and shrink. */
#include "sched/test_core_small.h"

static void four_of(struct small *w, const char *name, const char *topology)
{
	group(w, "a", name, 4, topology);
	for (size_t i = 0; i < 4; i++)
		member(w, name_of(w, name, i), "a", name, 1);
}

/* One refusal is for all that ask for the same; who has to be together elsewhere does not ask for the same. */
static void a_refused_gang_rests_no_other_topology(void **state)
{
	static const char *const other[] = { "zone", "" };

	(void)state;
	for (size_t i = 0; i < RF_COUNT(other); i++) {
		struct small w;

		begin(&w);
		tenant(&w, "a", 100, 1);
		node(&w, "n0", 2, "z", "r0");
		node(&w, "n1", 2, "z", "r1");
		four_of(&w, "g", "rack"); /* no rack has four */
		four_of(&w, "h", other[i]);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 4);
		assert_non_null(of(&w, RF_CORE_BIND, "h0"));
		assert_non_null(of(&w, RF_CORE_WAIT, "g0"));
		end(&w);
	}
}

/* A gang of one, and who is alone. */
static void a_refused_gang_of_one_rests_nobody_alone(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	tenant(&w, "a", 100, 1);
	node(&w, "n0", 2, "z", "r0");
	group(&w, "a", "g", 1, "shelf"); /* no node has such a label */
	member(&w, "g0", "a", "g", 1);
	w.now += 1000;
	put_pod(&w, "p", "a", 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p"));
	assert_non_null(of(&w, RF_CORE_WAIT, "g0"));
	end(&w);
}

/* Both started, each in its zone: who comes late to the one whose zone is full rests nobody of the other. */
static void who_comes_late_rests_no_other_zone(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	tenant(&w, "a", 100, 1);
	node(&w, "n0", 2, "z0", "r0");
	group(&w, "a", "g", 2, "zone");
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	decide(&w);
	carry(&w, 1, "g");
	node(&w, "n1", 3, "z1", "r1");
	group(&w, "a", "h", 2, "zone");
	member(&w, "h0", "a", "h", 1);
	member(&w, "h1", "a", "h", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	carry(&w, 1, "h");
	member(&w, "g2", "a", "g", 1); /* its zone is full */
	w.now += 1000;
	member(&w, "h2", "a", "h", 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "h2"));
	assert_non_null(of(&w, RF_CORE_WAIT, "g2"));
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refused_gang_rests_no_other_topology),
		cmocka_unit_test(a_refused_gang_of_one_rests_nobody_alone),
		cmocka_unit_test(who_comes_late_rests_no_other_zone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
