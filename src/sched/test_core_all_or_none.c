/* Gangs start all or none: also when a write fails, when the process ends between two of them, and when members go. */
#include "sched/test_core_cluster.h"

/* --- gangs -------------------------------------------------------------------------------------- */

static void test_gang_all_or_none(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 3); /* as many cards as three of them need, and not on one node each */
	group(&w, "a", "g", 3);
	member(&w, "g0", "a", "g", 2);
	member(&w, "g1", "a", "g", 2);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "g0"), "level=group need=3 have=2");
	member(&w, "g2", "a", "g", 2);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "g2"), "needs places for 3 pods at once, and there is room for 2");
	node(&w, "n9", 2, "NVIDIA H100 80GB HBM3");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(w.d[i].commit_left, 2 - i);
	assert_int_equal(used(&w, "a", "cards"), 6);
	carry_as(&w, 2, "g");
	assert_int_equal(decide(&w), 0);
	audit(&w);
	end(&w);
}

static void test_gang_is_elastic(void **state)
{
	struct small w;
	char uid[8];

	(void)state;
	begin(&w);
	cluster(&w, 3, 1);
	group(&w, "a", "g", 2);
	for (int i = 0; i < 5; i++) {
		snprintf(uid, sizeof(uid), "g%d", i);
		member(&w, rf_arena_cstr(&w.a, rf_str(uid)), "a", "g", 1);
	}
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	carry_as(&w, 1, "g");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	/* later ones one by one */
	node(&w, "n9", 1, "NVIDIA H100 80GB HBM3");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	assert_int_equal(w.d[0].commit_left, 0);
	carry_as(&w, 1, "g");
	audit(&w);
	assert_int_equal(used(&w, "a", "cards"), 4);
	/* one ends: what is charged follows */
	rf_core_del_pod(w.c, RF_LIT("g0"), w.now);
	del_claim(&w, "g0", "a");
	assert_int_equal(used(&w, "a", "cards"), 3);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	end(&w);
}

static void test_gang_of_different_members(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	group(&w, "a", "g", 2);
	member(&w, "g0", "a", "g", 3);
	member(&w, "g1", "a", "g", 2);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	node(&w, "n1", 2, "NVIDIA H100 80GB HBM3");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	assert_int_equal(used(&w, "a", "cards"), 5);
	carry_as(&w, 0, "g"); /* what they ask for was told already; only where they are is new */
	end(&w);
}

static void test_group_that_is_not_there(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	member(&w, "g0", "a", "g", 1);
	decide(&w);
	assert_has(why(&w, "g0"), "group g is not there");
	group(&w, "b", "g", 1); /* another's of the same name */
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	group(&w, "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	end(&w);
}

static void test_gang_fails_as_a_whole(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	group(&w, "a", "g", 2);
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	rf_core_failed(w.c, RF_CORE_BIND, w.d[1].uid, RF_LIT("no"), w.now);
	assert_int_equal(free_cards(&w), 2);
	assert_int_equal(used(&w, "a", "cards"), 0);
	audit(&w);
	w.now += 1000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	end(&w);
}

static void test_crash_between_claims_completes_the_gang(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 2);
	group(&w, "a", "g", 3);
	promise(&w, "g0", "a", "n0", "gpu-0");
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	member(&w, "g2", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	assert_true(of(&w, RF_CORE_BIND, "g0")->promised);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(w.d[i].commit_left, 2 - i);
	end(&w);
}

static void test_crash_between_claims_releases_what_cannot_be(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	group(&w, "a", "g", 3);
	promise(&w, "g0", "a", "n0", "gpu-0");
	promise(&w, "g1", "a", "n0", "gpu-1");
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	member(&w, "g2", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_int_equal(count(&w, RF_CORE_RELEASE), 2);
	del_claim(&w, "g0", "a");
	del_claim(&w, "g1", "a");
	put_pod(&w, "p1", "b", 2);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p1"));
	end(&w);
}

static void test_crash_between_bindings(void **state)
{
	struct small w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 3);
	group(&w, "a", "g", 3);
	for (int i = 0; i < 3; i++) {
		const char *uid = i == 0 ? "g0" : i == 1 ? "g1" : "g2", *gpu = i == 0 ? "gpu-0" : i == 1 ? "gpu-1" : "gpu-2";

		promise(&w, uid, "a", "n0", gpu);
		p = pod(&w, uid, "a", 1);
		p.group = RF_LIT("g");
		if (i == 0)
			p.node = RF_LIT("n0");
		put(&w, &p);
	}
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	assert_true(w.d[0].promised && w.d[1].promised);
	assert_int_equal(w.d[0].commit_left, 1);
	end(&w);
}

/* Of a gang that runs each promise is bound on its own: that one could not be says nothing of the others. */
static void test_promises_of_a_started_gang_fail_alone(void **state)
{
	static const char *const uids[] = { "g0", "g1", "g2", "g3" }, *const gpus[] = { "gpu-0", "gpu-1", "gpu-2", "gpu-3" };
	struct rf_sched_group g = { .ns = RF_LIT("a"), .name = RF_LIT("g"), .min = 2, .rv = 1, .started = true };
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	rf_core_put_group(w.c, &g);
	for (int i = 0; i < 4; i++) {
		struct rf_sched_pod p = pod(&w, uids[i], "a", 1);

		promise(&w, uids[i], "a", "n0", gpus[i]);
		p.group = RF_LIT("g");
		p.node = i < 2 ? RF_LIT("n0") : RF_STR_EMPTY;
		put(&w, &p);
	}
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	assert_int_equal(of(&w, RF_CORE_BIND, "g2")->commit_left, 0);
	assert_int_equal(of(&w, RF_CORE_BIND, "g3")->commit_left, 0);
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("g2"), RF_LIT("conflict"), w.now);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "g3")); /* it is on its way */
	w.now += 1000;
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "g2"));
	assert_null(of(&w, RF_CORE_BIND, "g3"));
	end(&w);
}

static void test_half_a_gang_is_taken_back(void **state)
{
	struct small w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	group(&w, "a", "g", 2);
	promise(&w, "g0", "a", "n0", "gpu-0");
	p = pod(&w, "g0", "a", 1);
	p.group = RF_LIT("g");
	p.node = RF_LIT("n0");
	put(&w, &p);
	member(&w, "g1", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	assert_int_equal(rf_core_next_ms(w.c, w.now) <= w.now + 10000, 1);
	w.now += 10000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	assert_has(of(&w, RF_CORE_EVICT, "g0")->reason, "could not be completed");
	assert_int_equal(of(&w, RF_CORE_EVICT, "g0")->cause, RF_CORE_INCOMPLETE);
	assert_int_equal(decide(&w), 0);
	node(&w, "n9", 1, "NVIDIA H100 80GB HBM3"); /* too late: with one that goes it is no gang */
	member(&w, "g2", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	end(&w);
}

static void test_started_gang_that_lost_members_is_left_alone(void **state)
{
	struct small w;
	struct rf_sched_group g = { .ns = RF_LIT("a"), .name = RF_LIT("g"), .min = 3, .rv = 1, .started = true };
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	rf_core_put_group(w.c, &g);
	promise(&w, "g0", "a", "n0", "gpu-0");
	p = pod(&w, "g0", "a", 1);
	p.group = RF_LIT("g");
	p.node = RF_LIT("n0");
	put(&w, &p);
	decide(&w);
	w.now += 3600000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	end(&w);
}

static void ends(struct small *w, const char *uid, const char *of_group, bool well)
{
	struct rf_sched_pod p = pod(w, uid, "a", 1);

	p.group = rf_str(of_group);
	p.node = RF_LIT("n0");
	p.ended = true;
	p.well = well;
	put(w, &p);
	del_claim(w, uid, "a");
}

static bool says_started(const struct small *w)
{
	return rf_core_started(w->c, RF_LIT("a"), RF_LIT("g"));
}

/* So many or none, also the second time; whatever its object still says, until it says so no more. */
static void test_gang_that_is_gone_starts_anew(void **state)
{
	struct small w;

	(void)state;
	for (int lived = 0; lived < 2; lived++) {
		begin(&w);
		cluster(&w, 1, 4);
		started_group(&w, "a", "g", 2);
		if (lived) {
			runs(&w, "g0", "g", "gpu-0");
			runs(&w, "g1", "g", "gpu-1");
			decide(&w);
			assert_true(says_started(&w));
			gone(&w, "g0", "a");
			gone(&w, "g1", "a");
		}
		member(&w, "g2", "a", "g", 1);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 0);
		assert_has(why(&w, "g2"), "needs 2 pods to start and has 1");
		assert_false(says_started(&w));
		member(&w, "g3", "a", "g", 1);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 2);
		assert_int_equal(w.d[0].commit_left, 1);
		assert_true(rf_str_is(w.d[0].group, "g")); /* to be taken back before that */
		carry_as(&w, 1, "g");
		assert_true(says_started(&w));
		member(&w, "g4", "a", "g", 1);
		decide(&w);
		assert_int_equal(of(&w, RF_CORE_BIND, "g4")->group.n, 0);
		end(&w);
	}
}

/* Its object takes back that it started, and one that was on its way comes before anything is decided. */
static void test_one_that_comes_when_none_is_left(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	started_group(&w, "a", "g", 2);
	runs(&w, "g0", "g", "gpu-0");
	runs(&w, "g1", "g", "gpu-1");
	decide(&w);
	gone(&w, "g0", "a");
	gone(&w, "g1", "a");
	assert_false(says_started(&w));
	group(&w, "a", "g", 2);
	runs(&w, "g2", "g", "gpu-2");
	assert_false(says_started(&w));
	runs(&w, "g3", "g", "gpu-3");
	assert_true(says_started(&w));
	end(&w);
}

/* Who waits on its own, and the last of the others goes. */
static void test_single_waits_for_others_when_none_is_left(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	started_group(&w, "a", "g", 2);
	runs(&w, "g0", "g", "gpu-0");
	runs(&w, "g1", "g", "gpu-1");
	member(&w, "r0", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	ends(&w, "g0", "g", false);
	ends(&w, "g1", "g", false);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "r0"), "needs 2 pods to start and has 1");
	member(&w, "r1", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	end(&w);
}

/* While some run, one that failed or is gone is replaced alone; so it is when the others ended well. */
static void test_members_are_replaced_alone_while_some_are_left(void **state)
{
	struct small w;

	(void)state;
	for (int well = 0; well < 2; well++) {
		begin(&w);
		cluster(&w, 1, 3);
		started_group(&w, "a", "g", 3);
		runs(&w, "g0", "g", "gpu-0");
		runs(&w, "g1", "g", "gpu-1");
		runs(&w, "g2", "g", "gpu-2");
		decide(&w);
		ends(&w, "g0", "g", false);
		gone(&w, "g1", "a");
		member(&w, "r0", "a", "g", 1);
		decide(&w);
		assert_non_null(of(&w, RF_CORE_BIND, "r0"));
		carry_as(&w, 1, "g");
		ends(&w, "r0", "g", false);
		ends(&w, "g2", "g", well);
		member(&w, "r1", "a", "g", 1);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), well);
		end(&w);
	}
}

/* --- commits that lose a member ------------------------------------------------------------------- */

/* The claim of one is gone before its pod is, and then its binding fails: the others hear of it. */
static void test_commit_loses_a_member(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	group(&w, "a", "g", 2);
	for (int i = 0; i < 3; i++)
		member(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "m%d", i)), "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	for (size_t i = 0; i < w.n; i++)
		carry_claim(&w, &w.d[i]);
	audit(&w);
	del_claim(&w, "m0", "a");
	audit(&w);
	rf_core_del_pod(w.c, RF_LIT("m0"), w.now);
	audit(&w);
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("m0"), RF_LIT("not found"), w.now);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	assert_true(of(&w, RF_CORE_BIND, "m1")->promised);
	end(&w);
}

/* Promised, and then barred: what cannot be bound does not keep its card from others for a gang that will not be. */
static void test_promises_of_a_gang_that_is_barred(void **state)
{
	struct rf_sched_grant g = { .container = RF_LIT("main"), .device = RF_LIT("gpu-0"), .bytes = 8 * GI, .milli = 100 };
	struct rf_sched_pod p;
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	group(&w, "a", "g", 2);
	p = pod(&w, "m0", "a", 0);
	p.containers[0].ask = (struct rf_gpu_ask){ .share_bytes = 8 * GI, .share_milli = 100 };
	p.group = RF_LIT("g");
	put(&w, &p);
	put_claim(&w, "m0", "a", "n0", &g, 1); /* and its tenant shares no card any more */
	decide(&w);
	assert_non_null(of(&w, RF_CORE_RELEASE, "m0"));
	end(&w);
}

/* Of unlike members the first start, as many as are needed: the others are told that they follow. */
static void test_the_rest_of_an_unlike_gang_follows(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	group(&w, "a", "g", 2);
	member(&w, "m0", "a", "g", 1);
	member(&w, "m1", "a", "g", 1);
	member(&w, "m2", "a", "g", 0);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "m0"), "group g needs at once 2 whole cards, and the cluster has 1 left");
	assert_has(why(&w, "m2"), "it follows them");
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gang_all_or_none),
		cmocka_unit_test(test_gang_is_elastic),
		cmocka_unit_test(test_gang_of_different_members),
		cmocka_unit_test(test_group_that_is_not_there),
		cmocka_unit_test(test_gang_fails_as_a_whole),
		cmocka_unit_test(test_crash_between_claims_completes_the_gang),
		cmocka_unit_test(test_crash_between_claims_releases_what_cannot_be),
		cmocka_unit_test(test_crash_between_bindings),
		cmocka_unit_test(test_promises_of_a_started_gang_fail_alone),
		cmocka_unit_test(test_half_a_gang_is_taken_back),
		cmocka_unit_test(test_started_gang_that_lost_members_is_left_alone),
		cmocka_unit_test(test_gang_that_is_gone_starts_anew),
		cmocka_unit_test(test_one_that_comes_when_none_is_left),
		cmocka_unit_test(test_single_waits_for_others_when_none_is_left),
		cmocka_unit_test(test_members_are_replaced_alone_while_some_are_left),
		cmocka_unit_test(test_commit_loses_a_member),
		cmocka_unit_test(test_promises_of_a_gang_that_is_barred),
		cmocka_unit_test(test_the_rest_of_an_unlike_gang_follows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
