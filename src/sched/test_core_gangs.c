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
		decide_audited(&w);
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
	decide_audited(&w);
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
	decide_audited(&w);
	carry(&w, 1, "g");
	node(&w, "n1", 3, "z1", "r1");
	group(&w, "a", "h", 2, "zone");
	member(&w, "h0", "a", "h", 1);
	member(&w, "h1", "a", "h", 1);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	carry(&w, 1, "h");
	member(&w, "g2", "a", "g", 1); /* its zone is full */
	w.now += 1000;
	member(&w, "h2", "a", "h", 1);
	decide_audited(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "h2"));
	assert_non_null(of(&w, RF_CORE_WAIT, "g2"));
	end(&w);
}

/* --- elastic ---------------------------------------------------------------------------------- */

static void gang_of(struct small *w, const char *ns, const char *name, int64_t min, size_t from, size_t to)
{
	if (from == 0)
		group(w, ns, name, min, "");
	for (size_t i = from; i < to; i++)
		member(w, name_of(w, name, i), ns, name, 1);
}

static size_t bound_of(struct small *w, const char *name, size_t from, size_t to)
{
	size_t n = 0;

	for (size_t i = from; i < to; i++)
		n += of(w, RF_CORE_BIND, name_of(w, name, i)) != NULL;
	return n;
}

/* More than the minimum as there is room, and the rest as room comes. */
static void a_gang_grows_as_there_is_room(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	tenant(&w, "a", 100, 1);
	node(&w, "n0", 3, "z", "r");
	gang_of(&w, "a", "g", 2, 0, 6);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	carry(&w, 1, "g");
	assert_true(rf_core_started(w.c, RF_LIT("a"), RF_LIT("g")));
	w.now += 60000;
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	node(&w, "n1", 2, "z", "r");
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	carry(&w, 1, "g");
	node(&w, "n2", 2, "z", "r");
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	assert_int_equal(used(&w, "a", "cards"), 6);
	end(&w);
}

/* Told to go, and gone. */
static size_t let_go(struct small *w, const char *ns)
{
	struct rf_core_decision *d = w->d;
	size_t n = w->n, went = 0;

	for (size_t i = 0; i < n; i++) {
		if (d[i].verdict != RF_CORE_EVICT)
			continue;
		assert_true(rf_str_is(d[i].ns, ns));
		assert_int_equal(d[i].cause, RF_CORE_RECLAIMED);
		assert_int_equal(d[i].group.n, 0); /* it does not go as a whole */
		gone(w, rf_arena_cstr(&w->a, d[i].uid), ns);
		went++;
	}
	return went;
}

/* Who is guaranteed cards has them from what is above a gang's minimum; the gang runs on, and grows again. */
static void a_gang_shrinks_to_its_minimum_and_grows_again(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	tenant(&w, "a", 100, 1);
	tenant(&w, "b", 100, 1);
	queue(&w, "a", 2, 1);
	queue(&w, "b", 2, 1);
	node(&w, "n0", 4, "z", "r");
	gang_of(&w, "a", "g", 2, 0, 4);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 4);
	carry(&w, 1, "g");
	w.now += 60000;
	for (size_t i = 0; i < 3; i++)
		put_pod(&w, name_of(&w, "b", i), "b", 1);
	decide_audited(&w);
	assert_int_equal(let_go(&w, "a"), 2);
	decide_audited(&w);
	assert_int_equal(bound_of(&w, "b", 0, 3), 2);
	carry(&w, 1, NULL);
	assert_int_equal(used(&w, "a", "cards"), 2);
	assert_true(rf_core_started(w.c, RF_LIT("a"), RF_LIT("g")));
	/* The third is more than b is guaranteed, and a has no more than it is: nobody goes for it. */
	w.now += 60000;
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	rf_core_del_pod(w.c, RF_LIT("b2"), w.now);
	gang_of(&w, "a", "g", 2, 4, 6); /* in their stead */
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND) + count(&w, RF_CORE_EVICT), 0);
	gone(&w, "b0", "b");
	gone(&w, "b1", "b");
	decide_audited(&w);
	assert_int_equal(bound_of(&w, "g", 4, 6), 2);
	end(&w);
}

/* The fewest suffice, and only of what is borrowed: the gang that can shrink does, the one that cannot stays, and so does whoever has no
 * more than it is guaranteed. */
static void a_gang_shrinks_before_others_suffer(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	for (size_t i = 0; i < 4; i++) {
		static const char *const names[] = { "a", "b", "c", "d" };

		tenant(&w, names[i], 100, 1);
		queue(&w, names[i], i == 3 ? 1 : 2, 1);
	}
	node(&w, "n0", 5, "z", "r");
	node(&w, "n1", 4, "z", "r");
	gang_of(&w, "d", "whole", 3, 0, 3); /* guaranteed 1, and all of it or nothing */
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	carry(&w, 1, "whole");
	gang_of(&w, "c", "kept", 2, 0, 2); /* within its guarantee */
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	carry(&w, 1, "kept");
	gang_of(&w, "a", "g", 2, 0, 4); /* two above its minimum, and its guarantee */
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 4);
	carry(&w, 1, "g");
	w.now += 60000;
	put_pod(&w, "b0", "b", 1);
	put_pod(&w, "b1", "b", 1);
	decide_audited(&w);
	assert_int_equal(let_go(&w, "a"), 2);
	decide_audited(&w);
	assert_int_equal(bound_of(&w, "b", 0, 2), 2);
	carry(&w, 1, NULL);
	assert_int_equal(used(&w, "a", "cards"), 2);
	assert_int_equal(used(&w, "c", "cards"), 2);
	assert_int_equal(used(&w, "d", "cards"), 3);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refused_gang_rests_no_other_topology),
		cmocka_unit_test(a_refused_gang_of_one_rests_nobody_alone),
		cmocka_unit_test(who_comes_late_rests_no_other_zone),
		cmocka_unit_test(a_gang_grows_as_there_is_room),
		cmocka_unit_test(a_gang_shrinks_to_its_minimum_and_grows_again),
		cmocka_unit_test(a_gang_shrinks_before_others_suffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
