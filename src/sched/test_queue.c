/* Named promises of the queues, one test each: their tree, what is charged to whom, and that a restart finds the same books.
 * Shares, order and reclaim are in test_queue_shares.c, test_queue_order.c and test_queue_reclaim.c, random histories in
 * test_queue_property.c. */
#include "sched/test_queue.h"

/* --- the tree ------------------------------------------------------------------------------- */

/* Work goes while the queues are not in order yet. */
static void work_goes_before_a_new_queue_is_settled(void **state)
{
	struct rf_queues *qs = make();
	struct rf_queue *a, *b;
	struct rf_workload *w;
	int64_t members;

	(void)state;
	capacity(qs, 1);
	put(qs, "org", "", 0, NONE);
	a = put(qs, "a", "org", 0, NONE);
	b = put(qs, "b", "", 0, NONE);
	(void)submit(qs, a, 1);
	w = submit(qs, b, 1);
	assert_non_null(rf_queues_next(qs, 0, &members));
	put(qs, "c", "org", 0, NONE);
	rf_queues_remove(qs, w, 0);
	(void)submit(qs, b, 1);
	assert_non_null(rf_queues_next(qs, 0, &members));
	counts(qs);
	rf_queues_free(qs);
}

static void cycles_are_refused(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue_quota o = { CARDS, 0, NONE, NONE, NONE };
	struct rf_err err = RF_ERR_INIT;

	put(qs, "org", "", 0, NONE);
	put(qs, "team", "org", 0, NONE);
	assert_int_equal(put_full(qs, "org", "team", 1, o, &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "itself or below it"));
	assert_int_equal(put_full(qs, "org", "org", 1, o, &err), -RF_INVALID);
	assert_int_equal(put_full(qs, "x", "nowhere", 1, o, &err), -RF_NOT_FOUND);
	submit(qs, rf_queues_find(qs, RF_LIT("team")), 1);
	assert_int_equal(admit_all(qs, 0), 1); /* the tree still works */
}

static void weight_zero_is_refused(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue_quota o = { CARDS, 0, NONE, NONE, NONE };
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(put_full(qs, "a", "", 0, o, &err), -RF_INVALID);
	assert_int_equal(put_full(qs, "a", "", -1, o, &err), -RF_INVALID);
	assert_int_equal(put_full(qs, "a", "", RF_QUEUE_WEIGHT_MAX + 1, o, &err), -RF_INVALID);
	assert_null(rf_queues_find(qs, RF_LIT("a")));
}

static void bad_amounts_are_refused(void **state)
{
	rf_auto_ptr(queues) qs = make();
	const struct rf_queue_quota bad[] = {
		{ N_RES, 0, NONE, NONE, NONE },	 { -1, 0, NONE, NONE, NONE },
		{ CARDS, -2, NONE, NONE, NONE }, { CARDS, 5, 4, NONE, NONE },
		{ CARDS, 0, -1, NONE, NONE },	 { CARDS, 0, NONE, NONE, RF_QUEUE_AMOUNT_MAX + 1 },
	};
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < RF_COUNT(bad); i++)
		assert_int_equal(put_full(qs, "a", "", 1, bad[i], &err), -RF_INVALID);
	assert_null(rf_queues_find(qs, RF_LIT("a")));
}

static void trees_have_a_depth(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue_quota o = { CARDS, 0, NONE, NONE, NONE };
	struct rf_err err = RF_ERR_INIT;
	char name[16] = "q0", parent[16] = "";

	for (int i = 0; i < RF_QUEUE_DEPTH_MAX; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		put(qs, name, parent, 0, NONE);
		memcpy(parent, name, sizeof(parent));
	}
	assert_int_equal(put_full(qs, "deep", parent, 1, o, &err), -RF_INVALID);
	put(qs, "p", "", 0, NONE);
	assert_int_equal(put_full(qs, "q0", "p", 1, o, &err), -RF_INVALID); /* with all below it */
	submit(qs, rf_queues_find(qs, rf_str(parent)), 1);
	assert_int_equal(admit_all(qs, 0), 1);
	counts(qs);
}

static void a_queue_has_children_or_work(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *org = put(qs, "org", "", 0, NONE), *a = put(qs, "a", "org", 0, NONE);
	struct rf_queue_quota o = { CARDS, 0, NONE, NONE, NONE };
	const struct rf_queue_ask ask = { CARDS, 1 };
	struct rf_workload_spec s = { .min = 1, .size = 1, .ask = &ask, .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	assert_int_equal(rf_queues_submit(qs, org, &s, &w, &err), -RF_INVALID);
	w = submit(qs, a, 1);
	assert_int_equal(put_full(qs, "b", "a", 1, o, &err), -RF_CONFLICT);
	assert_int_equal(rf_queues_del(qs, RF_LIT("a"), 0, &err), -RF_CONFLICT);
	assert_int_equal(rf_queues_del(qs, RF_LIT("org"), 0, &err), -RF_CONFLICT);
	rf_queues_remove(qs, w, 0);
	assert_int_equal(rf_queues_del(qs, RF_LIT("a"), 0, &err), 0);
	assert_int_equal(rf_queues_del(qs, RF_LIT("org"), 0, &err), 0);
	assert_int_equal(rf_queues_del(qs, RF_LIT("org"), 0, &err), -RF_NOT_FOUND);
	assert_null(rf_queues_next(qs, 0, &(int64_t){ 0 }));
}

static void a_queue_may_move_with_its_work(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *x = put(qs, "x", "", 0, NONE), *y = put(qs, "y", "", 0, NONE);
	struct rf_queue *a = put(qs, "a", "x", 0, NONE);

	put(qs, "b", "y", 0, NONE);
	capacity(qs, 10);
	run_one(qs, a, 3, 0);
	submit(qs, a, 20);
	assert_int_equal(view(qs, x).used, 3);
	put(qs, "a", "y", 0, NONE);
	assert_int_equal(view(qs, x).used, 0);
	assert_int_equal(view(qs, y).used, 3);
	assert_int_equal(view(qs, y).wanted, 20);
	assert_int_equal(view(qs, NULL).used, 3);
	counts(qs);
}

/* Queues come while work comes and goes elsewhere, and nobody has asked for anything in between. */
static void queues_come_and_work_goes_at_once(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *x = put(qs, "x", "", 0, NONE), *a = put(qs, "a", "x", 0, NONE);
	struct rf_queue *y = put(qs, "y", "", 0, NONE);
	struct rf_workload *gone, *stays;
	int64_t members;

	capacity(qs, 2);
	gone = submit(qs, y, 20);
	stays = submit(qs, a, 1);
	submit(qs, y, 20);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), stays);
	put(qs, "b", "x", 0, NONE); /* x has nothing in its place until the tree is settled */
	rf_queues_remove(qs, gone, 0);
	submit(qs, y, 21);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), stays);
	assert_int_equal(view(qs, x).wanted, 1);
	assert_int_equal(view(qs, y).wanted, 41);
	counts(qs);
}

static void guarantees_above_what_there_is_are_cut(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *org = put(qs, "org", "", 8, NONE);
	struct rf_queue *a = put(qs, "a", "org", 6, NONE), *b = put(qs, "b", "org", 6, NONE);
	struct rf_queue *c = put(qs, "c", "", 8, NONE);

	capacity(qs, 100);
	assert_int_equal(view(qs, org).guaranteed, 8);
	assert_int_equal(view(qs, a).guaranteed, 4); /* 6 of 12, of 8 */
	assert_int_equal(view(qs, b).guaranteed, 4);
	capacity(qs, 8); /* nodes are gone */
	assert_int_equal(view(qs, org).guaranteed, 4);
	assert_int_equal(view(qs, c).guaranteed, 4);
	assert_int_equal(view(qs, a).guaranteed, 2);
	capacity(qs, 7); /* all of it is somebody's */
	assert_int_equal(view(qs, org).guaranteed + view(qs, c).guaranteed, 7);
	assert_int_equal(view(qs, a).guaranteed + view(qs, b).guaranteed, view(qs, org).guaranteed);
	capacity(qs, 0);
	assert_int_equal(view(qs, a).guaranteed, 0);
	submit(qs, a, 1);
	assert_int_equal(admit_all(qs, 0), 0);
}

/* A parent that says nothing has what its children have together. */
static void guarantees_add_up(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *org = put(qs, "org", "", -1, NONE);

	put(qs, "a", "org", 3, NONE);
	put(qs, "b", "org", 4, NONE);
	capacity(qs, 100);
	assert_int_equal(view(qs, org).guaranteed, 7);
}

/* --- charges -------------------------------------------------------------------------------- */

/* 0.1 + 0.2 of a card within a quota of 0.3, in thousandths. */
static void tenths_add_up(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue_quota quota = { MILLI, 300, 300, NONE, NONE };
	struct rf_queue_spec q = {
		.name = RF_LIT("a"), .weight = 1, .quotas = &quota, .n_quotas = 1
	};
	struct rf_queue_ask ask = { MILLI, 100 };
	struct rf_workload_spec s = { .shape = 1, .min = 1, .size = 1, .ask = &ask, .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	assert_int_equal(rf_queues_put(qs, &q, 0, &err), 0);
	assert_int_equal(rf_queues_submit(qs, rf_queues_find(qs, q.name), &s, &w, &err), 0);
	s.shape = 2;
	ask.amount = 200;
	assert_int_equal(rf_queues_submit(qs, rf_queues_find(qs, q.name), &s, &w, &err), 0);
	assert_int_equal(admit_all(qs, 0), 2);
	s.shape = 3;
	ask.amount = 1;
	assert_int_equal(rf_queues_submit(qs, rf_queues_find(qs, q.name), &s, &w, &err), 0);
	assert_int_equal(admit_all(qs, 0), 0);
}

static void unknown_resources_are_refused(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE);
	struct rf_queue_ask ask[2] = { { CARDS, 1 }, { N_RES, 1 } };
	struct rf_workload_spec s = { .min = 1, .size = 1, .ask = ask, .n_ask = 2 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "not known"));
	ask[1].resource = -1;
	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), -RF_INVALID);
	ask[1] = (struct rf_queue_ask){ CARDS, 1 };
	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), -RF_INVALID); /* twice */
	ask[1] = (struct rf_queue_ask){ H100, 0 };
	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), -RF_INVALID); /* nothing */
	s.n_ask = 0;
	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), -RF_INVALID);
	s.n_ask = 1;
	s.created_ms = INT64_MIN;
	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), -RF_INVALID);
	s.created_ms = 0;
	s.size = 0;
	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), -RF_INVALID);
	assert_int_equal(view(qs, a).wanted, 0);
}

/* What a model or profile allows is counted besides the total. */
static void limits_hold_per_model(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue_quota quotas[] = { { CARDS, 0, 8, NONE, NONE },
					   { H100, 0, 2, NONE, NONE } };
	struct rf_queue_spec q = {
		.name = RF_LIT("a"), .weight = 1, .quotas = quotas, .n_quotas = 2
	};
	struct rf_queue_ask ask[] = { { CARDS, 1 }, { H100, 1 } };
	struct rf_workload_spec s = {
		.shape = 1, .min = 1, .size = 1, .preemptible = true, .ask = ask, .n_ask = 2
	};
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;
	struct rf_why why;

	assert_int_equal(rf_queues_put(qs, &q, 0, &err), 0);
	for (int i = 0; i < 3; i++) {
		s.id = (uint64_t)i;
		assert_int_equal(rf_queues_submit(qs, rf_queues_find(qs, q.name), &s, &w, &err), 0);
	}
	assert_int_equal(admit_all(qs, 0), 2);
	rf_workload_why(qs, w, 0, &why);
	assert_int_equal(why.kind, RF_WHY_LIMIT);
	assert_int_equal(why.resource, H100);
	assert_int_equal(why.have, 0);
}

static void one_shape_asks_for_one_thing(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE);
	struct rf_queue_ask ask = { CARDS, 1 };
	struct rf_workload_spec s = { .shape = 7, .min = 1, .size = 1, .ask = &ask, .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), 0);
	ask.amount = 2;
	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), -RF_INVALID);
	assert_int_equal(rf_queues_submit(qs, put(qs, "b", "", 0, NONE), &s, &w, &err), 0);
}

/* Also where its last one has just gone, and its queue. */
static void a_shape_that_was_left_may_ask_for_something_else(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE);
	struct rf_queue_ask ask = { CARDS, 1 };
	struct rf_workload_spec s = { .shape = 7, .min = 1, .size = 1, .ask = &ask, .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	for (int i = 0; i < 4; i++) {
		ask.amount = 1 + i / 2; /* the same twice, then another */
		assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), 0);
		rf_queues_remove(qs, w, 0);
	}
	assert_int_equal(rf_queues_del(qs, RF_LIT("a"), 0, &err), 0);
	a = put(qs, "a", "", 0, NONE);
	assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), 0);
	assert_int_equal(rf_queues_recount(qs, 0, &err), 0);
}

static void sums_cannot_overflow(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_queue_ask ask = { BYTES, RF_QUEUE_AMOUNT_MAX };
	struct rf_workload_spec s = { .min = 1, .size = 1, .ask = &ask, .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;
	int rc = 0;

	for (int i = 0; i < 100 && rc == 0; i++)
		rc = rf_queues_submit(qs, a, &s, &w, &err);
	assert_int_equal(rc, -RF_EXHAUSTED);
	ask.amount = INT64_C(1) << 40; /* another has its part all the same */
	assert_int_equal(rf_queues_submit(qs, b, &s, &w, &err), 0);
}

static void limits_hold_at_every_level(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *org = put(qs, "org", "", 0, 5);
	struct rf_queue *a = put(qs, "a", "org", 0, 4), *b = put(qs, "b", "org", 0, 4);
	struct rf_err err = RF_ERR_INIT;

	capacity(qs, 100);
	for (int i = 0; i < 9; i++) {
		submit(qs, a, 1);
		submit(qs, b, 1);
	}
	assert_int_equal(admit_all(qs, 0), 5);
	assert_int_equal(view(qs, org).used, 5);
	assert_true(view(qs, a).used <= 4 && view(qs, b).used <= 4);
	assert_int_equal(rf_queues_admit(qs, submit(qs, a, 1), 1, 0, &err), -RF_FORBIDDEN);
	counts(qs);
}

static void fixed_work_stays_within_the_guarantee(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 2, NONE);
	struct rf_workload *w = NULL;
	struct rf_why why;

	capacity(qs, 10);
	for (int i = 0; i < 3; i++)
		w = submit_gang(qs, a, 1, 1, 0, false);
	assert_int_equal(admit_all(qs, 0), 2);
	rf_workload_why(qs, w, 0, &why);
	assert_int_equal(why.kind, RF_WHY_GUARANTEE);
	submit(qs, a, 3); /* what can be preempted may borrow */
	assert_int_equal(admit_all(qs, 0), 1);
	assert_int_equal(view(qs, a).used, 5);
	assert_int_equal(view(qs, a).unpreemptible, 2);
}

static void lending_and_borrowing_have_limits(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;
	struct rf_queue *a, *b;
	struct rf_why why;

	capacity(qs, 10);
	put_full(qs, "a", "", 1, (struct rf_queue_quota){ CARDS, 6, NONE, 2, NONE }, &err);
	put_full(qs, "b", "", 1, (struct rf_queue_quota){ CARDS, 4, NONE, NONE, NONE }, &err);
	a = rf_queues_find(qs, RF_LIT("a"));
	b = rf_queues_find(qs, RF_LIT("b"));
	for (int i = 0; i < 10; i++)
		w = submit(qs, b, 1);
	assert_int_equal(admit_all(qs, 0), 6); /* 4 of its own and 2 lent */
	rf_workload_why(qs, w, 0, &why);
	assert_int_equal(why.kind, RF_WHY_LENDING);
	for (int i = 0; i < 10; i++)
		submit(qs, a, 1);
	assert_int_equal(admit_all(qs, 0), 4); /* what it keeps is there at once */
	assert_int_equal(view(qs, a).used, 4);
	put_full(qs, "b", "", 1, (struct rf_queue_quota){ CARDS, 4, NONE, NONE, 1 }, &err);
	rf_workload_why(qs, w, 0, &why);
	assert_int_equal(why.kind, RF_WHY_BORROWING);
	assert_int_equal(why.have, 0);
	counts(qs);
}

/* KAI #1783, Volcano #4104: nothing is taken away, nothing is added, and it ends within the limit. */
static void a_shrunk_quota_converges(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, 8);
	struct rf_workload *w[8], *next;
	struct rf_why why;

	capacity(qs, 10);
	for (int i = 0; i < 8; i++)
		w[i] = run_one(qs, a, 1, 0);
	next = submit(qs, a, 1);
	put(qs, "a", "", 0, 3);
	capacity(qs, 2);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(view(qs, a).used, 8 - i);
		assert_null(rf_queues_next(qs, 0, &(int64_t){ 0 }));
		rf_workload_why(qs, next, 0, &why);
		assert_true(why.kind == RF_WHY_LIMIT || why.kind == RF_WHY_CAPACITY);
		assert_int_equal(why.have, 0);
		rf_queues_remove(qs, w[i], 0);
	}
	assert_null(rf_queues_next(qs, 0, &(int64_t){ 0 }));
	rf_queues_remove(qs, w[6], 0);
	assert_ptr_equal(rf_queues_next(qs, 0, &(int64_t){ 0 }), next);
	counts(qs);
}

static void gangs_grow_and_shrink(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, 6);
	struct rf_workload *w = submit_gang(qs, a, 2, 8, 0, true);
	struct rf_err err = RF_ERR_INIT;
	int64_t members = 0;

	capacity(qs, 10);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), w);
	assert_int_equal(members, 6); /* what the limit allows */
	assert_int_equal(rf_queues_admit(qs, w, 1, 0, &err), -RF_INVALID);
	assert_int_equal(rf_queues_admit(qs, w, 4, 0, &err), 0);
	assert_int_equal(rf_queues_resize(qs, w, 7, 0, &err), -RF_FORBIDDEN);
	assert_int_equal(rf_queues_resize(qs, w, 6, 0, &err), 0);
	assert_int_equal(view(qs, a).used, 6);
	assert_int_equal(rf_queues_resize(qs, w, 2, 0, &err), 0);
	assert_int_equal(view(qs, a).used, 2);
	counts(qs);
}

/* --- why ------------------------------------------------------------------------------------ */

static void reasons_name_nobody_else(void **state)
{
	rf_auto_ptr(queues) qs = make();
	rf_auto(arena) arena = RF_ARENA_INIT;
	struct rf_queue *secret, *mine;
	struct rf_workload *w;
	struct rf_str text;
	struct rf_why why;

	put(qs, "org", "", -1, NONE);
	secret = put(qs, "secret-tenant", "org", 0, NONE);
	mine = put(qs, "mine", "org", 2, 5);
	capacity(qs, 8);
	run_one(qs, secret, 8, 0);
	w = submit(qs, mine, 2);
	rf_workload_why(qs, w, 0, &why);
	text = rf_why_text(&arena, qs, &why);
	assert_true(rf_str_is(text, "reason=capacity resource=cards level=(cluster) need=2 have=0 "
				    "by=borrowers help=wait-for-reclaim"));
	assert_true(rf_workload_why_holds(qs, w, 0, &why));
	rf_queues_remove(qs, secret->running, 0);
	assert_false(rf_workload_why_holds(qs, w, 0, &why));
	w = submit(qs, mine, 6);
	rf_workload_why(qs, w, 0, &why);
	text = rf_why_text(&arena, qs, &why);
	assert_true(rf_str_is(text, "reason=limit resource=cards level=org/mine need=6 have=5 "
				    "by=nobody help=ask-for-less"));
}

/* --- restart -------------------------------------------------------------------------------- */

static void a_restart_finds_the_same_books(void **state)
{
	rf_auto_ptr(queues) one = make();
	rf_auto_ptr(queues) two = make();
	rf_auto(buf) ledger = RF_BUF_INIT;
	struct rf_queue *a = put(one, "a", "", 3, 8), *b = put(one, "b", "", 3, NONE);
	const struct rf_queue_ask ask = { CARDS, 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w, *x;
	int64_t members;

	put(two, "b", "", 3, NONE); /* in another order */
	put(two, "a", "", 3, 8);
	capacity(one, 10);
	capacity(two, 10);
	for (int i = 0; i < 30; i++)
		submit_gang(one, i % 3 == 0 ? a : b, 1 + i % 4, 1 + i % 4, 0, i % 2 == 0);
	admit_all(one, HOUR);
	rf_queues_export(one, 2 * HOUR, &ledger);
	assert_int_equal(rf_queues_import(two, rf_buf_str(&ledger), 2 * HOUR, &err), 0);
	for (int i = 0; i < 2; i++) {
		struct rf_queue *from = i == 0 ? a : b;
		struct rf_queue *to = rf_queues_find(two, rf_queue_name(from));

		for (struct rf_workload *r = from->running; r != NULL; r = r->next) {
			struct rf_workload_spec s = { .id = r->id,
						      .shape = 1,
						      .created_ms = r->created,
						      .min = r->shape->min,
						      .size = r->shape->size,
						      .preemptible = r->shape->preemptible,
						      .ask = &ask,
						      .n_ask = 1 };
			struct rf_workload_view v;

			rf_workload_view(r, &v);
			assert_int_equal(rf_queues_restore(two, to, &s, v.members, v.started_ms,
							   v.bill, 2 * HOUR, &w, &err),
					 0);
		}
		assert_int_equal(view(two, to).used, view(one, from).used);
		assert_int_equal(view(two, to).unpreemptible, view(one, from).unpreemptible);
		assert_int_equal(rf_queue_usage(two, to, 2 * HOUR), rf_queue_usage(one, from, 2 * HOUR));
		/* from then on in two steps, not in one: each is rounded */
		assert_in_range(rf_queue_usage(two, to, 3 * HOUR) + (1 << 14), rf_queue_usage(one, from, 3 * HOUR),
				rf_queue_usage(one, from, 3 * HOUR) + (1 << 15));
	}
	counts(two);
	for (size_t i = 0; i < one->shapes.cap; i++) { /* what waits, in any order */
		const struct rf_shape *s =
			one->shapes.slots[i].key != NULL ? one->shapes.slots[i].value : NULL;

		for (size_t k = 0; s != NULL && k < s->works.n; k++) {
			const struct rf_workload *r =
				RF_CONTAINER_OF(s->works.at[k], struct rf_workload, item);
			struct rf_workload_spec spec = { .id = r->id,
							 .shape = 1,
							 .created_ms = r->created,
							 .min = s->min,
							 .size = s->size,
							 .preemptible = s->preemptible,
							 .ask = &ask,
							 .n_ask = 1 };

			assert_int_equal(
				rf_queues_submit(two, rf_queues_find(two, rf_queue_name(s->leaf)),
						 &spec, &w, &err),
				0);
		}
	}
	capacity(one, 20);
	capacity(two, 20);
	for (;;) { /* and decide the same from here on */
		w = rf_queues_next(one, 4 * HOUR, &members);
		x = rf_queues_next(two, 4 * HOUR, &members);
		assert_int_equal(w != NULL, x != NULL);
		if (w == NULL)
			break;
		assert_int_equal(w->id, x->id);
		assert_int_equal(rf_queues_admit(one, w, members, 4 * HOUR, &err), 0);
		assert_int_equal(rf_queues_admit(two, x, members, 4 * HOUR, &err), 0);
	}
}

#define T(f) cmocka_unit_test(f)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(work_goes_before_a_new_queue_is_settled),
		T(cycles_are_refused),
		T(weight_zero_is_refused),
		T(bad_amounts_are_refused),
		T(trees_have_a_depth),
		T(a_queue_has_children_or_work),
		T(a_queue_may_move_with_its_work),
		T(queues_come_and_work_goes_at_once),
		T(guarantees_above_what_there_is_are_cut),
		T(guarantees_add_up),
		T(tenths_add_up),
		T(unknown_resources_are_refused),
		T(limits_hold_per_model),
		T(one_shape_asks_for_one_thing),
		T(a_shape_that_was_left_may_ask_for_something_else),
		T(sums_cannot_overflow),
		T(limits_hold_at_every_level),
		T(fixed_work_stays_within_the_guarantee),
		T(lending_and_borrowing_have_limits),
		T(a_shrunk_quota_converges),
		T(gangs_grow_and_shrink),
		T(reasons_name_nobody_else),
		T(a_restart_finds_the_same_books),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
