/* Named promises of the queues, one test each. Random histories are in test_queue_property.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/queue_private.h"

enum { CARDS, BYTES, MILLI, H100, CPU, N_RES };
#define NONE RF_QUEUE_NO_LIMIT
#define HOUR INT64_C(3600000)

static const struct rf_queue_resource resources[N_RES] = {
	{ "cards", false },	 { .name = "share-bytes", .cut = true }, { .name = "share-milli", .cut = true },
	{ "cards/h100", false }, { "cpu", true },
};

static struct rf_queues_config config(void)
{
	return (struct rf_queues_config){ .resources = resources,
					  .n_resources = N_RES,
					  .half_life_ms = 24 * HOUR,
					  .entry_ms = 60000,
					  .reserve_after_ms = 1000,
					  .reserve_amount = 8,
					  .reserve_most = 4 };
}

static struct rf_queues *make(void)
{
	struct rf_queues_config c = config();
	struct rf_err err = RF_ERR_INIT;
	struct rf_queues *qs = NULL;

	assert_int_equal(rf_queues_new(&c, &qs, &err), 0);
	return qs;
}

static int put_full(struct rf_queues *qs, const char *name, const char *parent, int64_t weight,
		    struct rf_queue_quota quota, struct rf_err *err)
{
	struct rf_queue_spec s = { .name = rf_str(name),
				   .parent = rf_str(parent),
				   .weight = weight,
				   .quotas = &quota,
				   .n_quotas = 1 };

	return rf_queues_put(qs, &s, 0, err);
}

static struct rf_queue *put(struct rf_queues *qs, const char *name, const char *parent,
			    int64_t guaranteed, int64_t limit)
{
	struct rf_err err = RF_ERR_INIT;

	if (put_full(qs, name, parent, 1,
		     (struct rf_queue_quota){ CARDS, guaranteed, limit, NONE, NONE }, &err) < 0)
		fail_msg("%s", err.msg);
	return rf_queues_find(qs, rf_str(name));
}

static void capacity(struct rf_queues *qs, int64_t cards)
{
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_queues_capacity(qs, CARDS, cards, &err), 0);
}

static uint64_t last_id;

static struct rf_workload *submit_gang(struct rf_queues *qs, struct rf_queue *q, int64_t min,
				       int64_t size, int64_t limit_ms, bool preemptible)
{
	const struct rf_queue_ask ask = { CARDS, 1 };
	struct rf_workload_spec s = { .id = ++last_id,
				      .shape = 1,
				      .created_ms = (int64_t)last_id,
				      .min = min,
				      .size = size,
				      .preemptible = preemptible,
				      .run_limit_ms = limit_ms,
				      .ask = &ask,
				      .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	if (rf_queues_submit(qs, q, &s, &w, &err) < 0)
		fail_msg("%s", err.msg);
	return w;
}

static struct rf_workload *submit(struct rf_queues *qs, struct rf_queue *q, int64_t cards)
{
	return submit_gang(qs, q, cards, cards, 0, true);
}

static struct rf_workload *run_one(struct rf_queues *qs, struct rf_queue *q, int64_t cards,
				   int64_t now)
{
	struct rf_workload *w = submit(qs, q, cards);
	struct rf_err err = RF_ERR_INIT;

	if (rf_queues_admit(qs, w, cards, now, &err) < 0)
		fail_msg("%s", err.msg);
	return w;
}

static struct rf_queue_view view(struct rf_queues *qs, struct rf_queue *q)
{
	struct rf_queue_view v;

	rf_queue_view(qs, q, CARDS, 0, &v);
	return v;
}

static size_t admit_all(struct rf_queues *qs, int64_t now)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w;
	int64_t members;
	size_t n = 0;

	for (; (w = rf_queues_next(qs, now, &members)) != NULL; n++)
		assert_int_equal(rf_queues_admit(qs, w, members, now, &err), 0);
	return n;
}

static void counts(struct rf_queues *qs)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_queues_recount(qs, 0, &err) < 0)
		fail_msg("%s", err.msg);
}

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

/* --- shares --------------------------------------------------------------------------------- */

static void decay_is_exact(void **state)
{
	struct rf_prng r = { 42 };

	assert_int_equal(rf_queue_decay(0, 1000), UINT64_C(1) << 63);
	assert_int_equal(rf_queue_decay(1000, 1000), UINT64_C(1) << 62);
	assert_int_equal(rf_queue_decay(64000, 1000), 0);
	for (int i = 0; i < 100000; i++) {
		int64_t h =
			1 + (int64_t)rf_prng_below(&r, UINT64_C(1) << (1 + rf_prng_below(&r, 39)));
		int64_t dt = (int64_t)rf_prng_below(&r, (uint64_t)h * 8);
		long double want = exp2l(-(long double)dt / (long double)h);
		long double got = (long double)rf_queue_decay(dt, h) / 0x1p63L;

		if (fabsl(got - want) > 1e-15L)
			fail_msg("0.5^(%lld/%lld) is %Lg, not %Lg", (long long)dt, (long long)h,
				 got, want);
	}
}

/* Usage by the closed form, however often it is looked at. */
static void usage_follows_the_half_life(void **state)
{
	for (int steps = 1; steps <= 100000; steps *= 10) {
		rf_auto_ptr(queues) qs = make();
		struct rf_queue *a = put(qs, "a", "", 0, NONE);
		int64_t end = 30 * HOUR;
		double want, got;

		capacity(qs, 4);
		run_one(qs, a, 1, 0);
		for (int i = 1; i < steps; i++)
			rf_queue_usage(qs, a, end / steps * i);
		want = 0x1p30 * 24 * HOUR / M_LN2 * (1 - exp2(-30.0 / 24.0));
		got = (double)rf_queue_usage(qs, a, end);
		assert_true(fabs(got / want - 1) < 1e-6);
	}
}

static void the_ledger_survives_a_restart(void **state)
{
	rf_auto_ptr(queues) one = make();
	rf_auto_ptr(queues) two = make();
	rf_auto(buf) text = RF_BUF_INIT;
	rf_auto(buf) again = RF_BUF_INIT;
	struct rf_queue *a = put(one, "a", "", 0, NONE), *b = put(one, "b", "", 0, NONE);
	struct rf_err err = RF_ERR_INIT;

	capacity(one, 4);
	run_one(one, a, 1, 0);
	rf_queues_remove(one, run_one(one, b, 3, 0), HOUR);
	rf_queues_export(one, 2 * HOUR, &text);
	put(two, "a", "", 0, NONE); /* before, and b after */
	assert_int_equal(rf_queues_import(two, rf_buf_str(&text), 2 * HOUR, &err), 0);
	put(two, "b", "", 0, NONE);
	rf_queues_export(two, 2 * HOUR, &again);
	assert_string_equal(text.p, again.p);
	assert_true(rf_queue_usage(two, rf_queues_find(two, RF_LIT("a")), 2 * HOUR) > 0);
}

static void a_bad_ledger_changes_nothing(void **state)
{
	static const char *const bad[] = {
		"",
		"ringfence-ledger 1\n",
		"ringfence-ledger 1\nat x\n",
		"ringfence-ledger 1\nat 99\n",
		"ringfence-ledger 1\nat 5\na 1\n",
		"ringfence-ledger 1\nat 5\na 00000000000000000000000000000001\nb\n",
		"ringfence-ledger 1\nat 5\na ffffffffffffffffffffffffffffffff\n",
		"ringfence-ledger 1\nat 5\nA! 00000000000000000000000000000001\n",
	};
	rf_auto_ptr(queues) qs = make();
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	put(qs, "a", "", 0, NONE);
	for (size_t i = 0; i < RF_COUNT(bad); i++)
		assert_int_equal(rf_queues_import(qs, rf_str(bad[i]), 10, &err), -RF_INVALID);
	rf_queues_export(qs, 10, &text);
	assert_string_equal(text.p, "ringfence-ledger 1\nat 10\n");
}

static void a_queue_made_again_keeps_its_past(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE);
	struct rf_err err = RF_ERR_INIT;
	uint64_t before;

	capacity(qs, 4);
	rf_queues_remove(qs, run_one(qs, a, 4, 0), HOUR);
	before = rf_queue_usage(qs, a, HOUR);
	assert_int_equal(rf_queues_del(qs, RF_LIT("a"), HOUR, &err), 0);
	a = put(qs, "a", "", 0, NONE);
	assert_true(rf_queue_usage(qs, a, HOUR) >= before / 100 * 99);
}

/* --- credit ------------------------------------------------------------------------------------ */

#define DAY (24 * HOUR)

static struct rf_queues *make_long(int64_t cards)
{
	struct rf_queues_config c = config();
	struct rf_err err = RF_ERR_INIT;
	struct rf_queues *qs = NULL;

	c.half_life_ms = 365 * DAY;
	c.credit_ms = DAY;
	c.owed_ms = 30 * DAY;
	assert_int_equal(rf_queues_new(&c, &qs, &err), 0);
	capacity(qs, cards);
	return qs;
}

/* Jobs of one card and one hour; who is in the list always has more waiting than there are cards. Card-hours of each
 * are added up. */
static void play_hours(struct rf_queues *qs, struct rf_queue **who, size_t n, int64_t hours, int64_t *now, int64_t *got)
{
	int64_t cards = view(qs, NULL).limit;

	for (int64_t h = 0; h < hours; h++, *now += HOUR) {
		for (size_t i = 0; i < n; i++)
			while (view(qs, who[i]).wanted < cards)
				submit(qs, who[i], 1);
		admit_all(qs, *now);
		for (size_t i = 0; i < n; i++)
			got[i] += view(qs, who[i]).used;
		for (size_t i = 0; i < n; i++)
			while (who[i]->running != NULL)
				rf_queues_remove(qs, who[i]->running, *now + HOUR);
	}
}

static void drop_waiting(struct rf_queues *qs, struct rf_queue *q, int64_t now)
{
	while (q->ready.n > 0)
		rf_queues_remove(qs,
				 RF_CONTAINER_OF(RF_CONTAINER_OF(q->ready.at[0], struct rf_shape, item)->works.at[0],
						 struct rf_workload, item),
				 now);
}

/* It has a day of its half to catch up on, which is the whole for half a day; then both have the same. */
static void a_month_away_is_worth_a_day(void **state)
{
	rf_auto_ptr(queues) qs = make_long(8);
	struct rf_queue *q[2] = { put(qs, "a", "", 0, NONE), put(qs, "b", "", 0, NONE) };
	int64_t now = 0, got[2] = { 0 };

	play_hours(qs, q, 2, 48, &now, got);
	assert_int_equal(got[0], 48 * 4);
	drop_waiting(qs, q[1], now);
	play_hours(qs, q, 1, 30 * 24, &now, got);
	got[0] = got[1] = 0;
	play_hours(qs, q, 2, 11, &now, got);
	assert_int_equal(got[0], 0); /* not punished */
	assert_int_equal(got[1], 11 * 8);
	play_hours(qs, q, 2, 37, &now, got);
	assert_in_range(got[1], 8 * (12 + 18) - 8, 8 * (12 + 18) + 8); /* nor does it starve the other */
	got[0] = got[1] = 0;
	play_hours(qs, q, 2, 240, &now, got);
	assert_in_range(got[0], 240 * 4 - 8, 240 * 4 + 8);
	counts(qs);
}

/* Who had everything while nobody else wanted it: the others come, and it has its share again within a day. */
static void use_of_what_was_idle_is_forgiven(void **state)
{
	rf_auto_ptr(queues) qs = make_long(9);
	struct rf_queue *q[3] = { put(qs, "a", "", 0, NONE), put(qs, "b", "", 0, NONE), put(qs, "c", "", 0, NONE) };
	int64_t now = 0, got[3] = { 0 };

	play_hours(qs, q, 1, 60 * 24, &now, got);
	got[0] = 0;
	play_hours(qs, q, 3, 24, &now, got);
	assert_in_range(got[0], 9, 5 * 9); /* of 24 * 3: the others' two thirds of a day came first */
	memset(got, 0, sizeof(got));
	play_hours(qs, q, 3, 240, &now, got);
	for (size_t i = 0; i < 3; i++)
		assert_in_range(got[i], 240 * 3 - 9, 240 * 3 + 9);
}

/* A single card in use, or something that never fits, holds no claim open. */
static void nobody_hoards_claims(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		rf_auto_ptr(queues) qs = make_long(8);
		struct rf_queue *q[2] = { put(qs, "a", "", 0, NONE), put(qs, "b", "", 0, NONE) };
		struct rf_workload *w = kind == 0 ? run_one(qs, q[1], 1, 0) : submit(qs, q[1], 9);
		int64_t now = 0, got[2] = { 0 }, hours, days = kind == 0 ? 1 : 30;

		play_hours(qs, q, 1, 300 * 24, &now, got);
		rf_queues_remove(qs, w, now);
		if (kind == 1)
			submit(qs, q[1], 1); /* and waits on */
		got[0] = 0;
		for (hours = 0; got[0] == 0 && hours < 100 * 24; hours++)
			play_hours(qs, q, 2, 1, &now, got);
		/* what its share would have been in that time, at the speed of the whole */
		assert_in_range(hours, days * 12 - 2 - days / 4, days * 12 + 3);
	}
}

/* Who waits and cannot be placed loses nothing of what it is owed. */
static void waiting_keeps_the_claim(void **state)
{
	rf_auto_ptr(queues) qs = make_long(8);
	struct rf_queue *q[2] = { put(qs, "a", "", 0, NONE), put(qs, "b", "", 0, NONE) };
	int64_t now = 0, got[2] = { 0 };
	struct rf_workload *w = submit(qs, q[1], 9);

	play_hours(qs, q, 1, 10 * 24, &now, got);
	assert_int_equal(rf_queue_usage(qs, q[1], now), 0);
	rf_queues_remove(qs, w, now);
	admit_all(qs, now + 1000);
	run_one(qs, q[0], 1, now + 1000);
	admit_all(qs, now + 3000); /* nothing waits any more */
	assert_true(rf_queue_usage(qs, q[1], now + 3000) > 0);
	counts(qs);
}

/* At every level by its own part, and by weight. */
static void credit_goes_by_weight_and_level(void **state)
{
	rf_auto_ptr(queues) qs = make_long(12);
	struct rf_queue *q[3], *away;
	struct rf_err err = RF_ERR_INIT;
	int64_t now = 0, got[3] = { 0 };

	put(qs, "org", "", 0, NONE);
	q[0] = put(qs, "other", "", 0, NONE);
	q[1] = put(qs, "here", "org", 0, NONE);
	assert_int_equal(put_full(qs, "away", "org", 3, (struct rf_queue_quota){ CARDS, 0, NONE, NONE, NONE }, &err), 0);
	q[2] = away = rf_queues_find(qs, RF_LIT("away"));
	play_hours(qs, q, 2, 30 * 24, &now, got);
	assert_in_range(got[0], 30 * 24 * 6 - 12, 30 * 24 * 6 + 12);
	memset(got, 0, sizeof(got));
	play_hours(qs, q, 3, 12, &now, got);
	/* a day of three quarters of the half: until then all of the half */
	assert_in_range(got[0], 12 * 6 - 12, 12 * 6 + 12);
	assert_int_equal(got[1], 0);
	assert_in_range(got[2], 12 * 6 - 12, 12 * 6 + 12);
	play_hours(qs, q, 3, 20, &now, got);
	memset(got, 0, sizeof(got));
	play_hours(qs, q, 3, 240, &now, got);
	assert_in_range(got[0], 240 * 6 - 24, 240 * 6 + 24);
	assert_in_range(got[2], 240 * 9 / 2 - 24, 240 * 9 / 2 + 24);
}

static void credit_survives_a_restart(void **state)
{
	rf_auto_ptr(queues) one = make_long(8);
	rf_auto_ptr(queues) two = make_long(8);
	struct rf_queue *q[2] = { put(one, "a", "", 0, NONE), put(one, "b", "", 0, NONE) };
	struct rf_queue *p[2] = { put(two, "a", "", 0, NONE), put(two, "b", "", 0, NONE) };
	rf_auto(buf) text = RF_BUF_INIT;
	rf_auto(buf) first = RF_BUF_INIT;
	rf_auto(buf) second = RF_BUF_INIT;
	int64_t now = 0, then, got[2] = { 0 }, again[2] = { 0 };
	struct rf_err err = RF_ERR_INIT;

	play_hours(one, q, 1, 30 * 24, &now, got);
	drop_waiting(one, q[0], now);
	rf_queues_export(one, now, &text);
	assert_int_equal(rf_queues_import(two, rf_buf_str(&text), now, &err), 0);
	got[0] = 0;
	then = now;
	play_hours(one, q, 2, 30, &now, got);
	play_hours(two, p, 2, 30, &then, again);
	assert_memory_equal(got, again, sizeof(got));
	rf_queues_export(one, now, &first);
	rf_queues_export(two, now, &second);
	assert_string_equal(first.p, second.p);
}

static struct rf_queues *make_with(int64_t half_life_ms, int64_t entry_ms, int64_t cards)
{
	struct rf_queues_config c = config();
	struct rf_err err = RF_ERR_INIT;
	struct rf_queues *qs = NULL;

	c.half_life_ms = half_life_ms;
	c.entry_ms = entry_ms;
	c.reserve_after_ms = 0;
	assert_int_equal(rf_queues_new(&c, &qs, &err), 0);
	capacity(qs, cards);
	return qs;
}

/* One brings jobs of all 8 cards for five days, the other of one card for six hours: card-hours that the first has
 * more than the second after so many days, where neither is in the middle of something. */
static int64_t large_against_small(int64_t half_life_ms, int64_t days)
{
	rf_auto_ptr(queues) qs = make_with(half_life_ms, DAY, 8);
	struct rf_queue *large = put(qs, "large", "", 0, NONE), *small = put(qs, "small", "", 0, NONE);
	int64_t more = 0, ends = 0;

	submit_gang(qs, large, 8, 8, 0, true);
	for (int64_t now = 0; now < days * DAY; now += 6 * HOUR) {
		if (large->running != NULL && now >= ends) {
			rf_queues_remove(qs, large->running, now);
			submit_gang(qs, large, 8, 8, 0, true);
		}
		while (small->running != NULL)
			rf_queues_remove(qs, small->running, now);
		while (view(qs, small).wanted < 8)
			submit(qs, small, 1);
		if (large->running == NULL)
			ends = now + 5 * DAY;
		admit_all(qs, now);
		more += 6 * (view(qs, large).used - view(qs, small).used);
	}
	return more;
}

/* What both are apart is a job, after a year as after three; with a short memory it grows and grows. */
static void what_does_not_fade_is_made_up_for(void **state)
{
	const int64_t job = 8 * 5 * 24;

	for (int64_t years = 1; years <= 3; years++) {
		int64_t more = large_against_small(3650 * DAY, years * 365);

		if (more < -job || more > job)
			fail_msg("%lld card-hours apart after %lld years", (long long)more, (long long)years);
	}
	assert_true(large_against_small(7 * DAY, 365) > 2 * job);
	assert_true(large_against_small(7 * DAY, 3 * 365) > 6 * job);
}

/* Who is an hour of a card behind does not start eight jobs for it. */
static void what_starts_counts_at_once(void **state)
{
	for (int long_entry = 0; long_entry < 2; long_entry++) {
		rf_auto_ptr(queues) qs = make_with(3650 * DAY, long_entry ? DAY : 60000, 8);
		struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 0, NONE);

		rf_queues_remove(qs, run_one(qs, a, 1, 0), HOUR);
		for (int i = 0; i < 8; i++) {
			submit(qs, a, 1);
			submit(qs, b, 1);
		}
		admit_all(qs, HOUR);
		assert_int_equal(view(qs, a).used, long_entry ? 4 : 0);
		assert_int_equal(view(qs, b).used, long_entry ? 4 : 8);
	}
}

static void fair_shares_are_poured(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 4, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_queue *c = put(qs, "c", "", 0, NONE), *idle = put(qs, "idle", "", 3, NONE);

	capacity(qs, 20);
	submit(qs, a, 100);
	submit(qs, b, 2);
	submit(qs, c, 100);
	assert_int_equal(view(qs, idle).fair, 0);
	assert_int_equal(view(qs, b).fair, 2);	/* all it asks for */
	assert_int_equal(view(qs, a).fair, 11); /* 4, and half of the 14 that are left */
	assert_int_equal(view(qs, c).fair, 7);
}

static void equal_weights_share_in_turn(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 0, NONE);

	capacity(qs, 10);
	for (int i = 0; i < 50; i++)
		submit(qs, a, 1);
	for (int i = 0; i < 50; i++)
		submit(qs, b, 1);
	assert_int_equal(admit_all(qs, 0), 10); /* the entry charge tells at once */
	assert_int_equal(view(qs, a).used, 5);
	assert_int_equal(view(qs, b).used, 5);
}

static void past_usage_comes_after(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_workload *w;
	int64_t members;

	capacity(qs, 10);
	rf_queues_remove(qs, run_one(qs, a, 10, 0), 10 * HOUR);
	submit(qs, a, 1);
	w = submit(qs, b, 1);
	assert_ptr_equal(rf_queues_next(qs, 10 * HOUR, &members), w);
}

/* --- order ---------------------------------------------------------------------------------- */

static void guarantees_come_first(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *z = put(qs, "z", "", 5, NONE);
	int64_t members;

	capacity(qs, 5);
	for (int i = 0; i < 5; i++) {
		submit(qs, a, 1);
		submit(qs, z, 1);
	}
	for (int i = 0; i < 5; i++) {
		struct rf_workload *w = rf_queues_next(qs, 0, &members);
		struct rf_workload_view v;
		struct rf_err err;

		rf_workload_view(w, &v);
		assert_ptr_equal(v.queue, z);
		assert_int_equal(rf_queues_admit(qs, w, 1, 0, &err), 0);
	}
}

/* Its own queue's work only; another's priority means nothing. */
static void priority_counts_at_home(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 0, NONE);
	const struct rf_queue_ask ask = { CARDS, 1 };
	struct rf_workload_spec s = {
		.id = 1, .min = 1, .size = 1, .preemptible = true, .ask = &ask, .n_ask = 1
	};
	struct rf_workload *low, *high, *other;
	struct rf_err err = RF_ERR_INIT;
	int64_t members;

	capacity(qs, 10);
	assert_int_equal(rf_queues_submit(qs, a, &s, &low, &err), 0);
	s.id = 2;
	s.priority = 5;
	s.shape = 2;
	assert_int_equal(rf_queues_submit(qs, a, &s, &high, &err), 0);
	s.id = 3;
	s.priority = INT64_MAX;
	assert_int_equal(rf_queues_submit(qs, b, &s, &other, &err), 0);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), high); /* "a" is before "b" */
	assert_int_equal(rf_queues_admit(qs, high, 1, 0, &err), 0);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), other); /* a has something already */
	assert_int_equal(rf_queues_admit(qs, other, 1, 0, &err), 0);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), low);
}

/* Kueue #14477: what fits is found behind what does not. */
static void deep_queues_are_drilled(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE);
	const struct rf_queue_ask small = { CARDS, 1 };
	struct rf_workload *w = NULL, *got;
	struct rf_err err = RF_ERR_INIT;
	int64_t members, tries = 0;

	capacity(qs, 10);
	for (uint64_t i = 0; i < 10000; i++) {
		struct rf_queue_ask ask = { CARDS, i % 2 == 0 ? 11 + (int64_t)i : 5 };
		struct rf_workload_spec s = { .id = i,
					      .shape = i,
					      .min = 1,
					      .size = 1,
					      .preemptible = true,
					      .ask = &ask,
					      .n_ask = 1 };

		assert_int_equal(rf_queues_submit(qs, a, &s, &w, &err), 0);
	}
	assert_int_equal(rf_queues_submit(qs, a,
					  &(struct rf_workload_spec){ .id = 10000,
								      .shape = 10000,
								      .created_ms = 1,
								      .min = 1,
								      .size = 1,
								      .preemptible = true,
								      .ask = &small,
								      .n_ask = 1 },
					  &w, &err),
			 0);
	while ((got = rf_queues_next(qs, 2, &members)) != NULL && got != w) {
		rf_queues_refuse(qs, got, 1 << CARDS); /* there is no machine for 5 */
		tries++;
	}
	assert_ptr_equal(got, w);
	assert_int_equal(tries, 5000); /* quotas told the other half */
}

static void one_refusal_holds_for_its_shape(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE);
	struct rf_workload *w;
	struct rf_why why;
	int64_t members;

	capacity(qs, 10);
	for (int i = 0; i < 100; i++)
		submit(qs, a, 2);
	w = rf_queues_next(qs, 0, &members);
	rf_queues_refuse(qs, w, 1 << CARDS);
	assert_null(rf_queues_next(qs, 0, &members));
	submit(qs, a, 2); /* a new one is no better */
	assert_null(rf_queues_next(qs, 0, &members));
	rf_workload_why(qs, w, 0, &why);
	assert_int_equal(why.kind, RF_WHY_REFUSED);
	assert_int_equal(why.resources, 1 << CARDS);
	rf_queues_changed(qs, 1 << H100);
	assert_null(rf_queues_next(qs, 0, &members));
	rf_queues_changed(qs, 1 << CARDS);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), w);
}

/* KAI #2075: one tenant's doomed work does not hold up another's. */
static void doomed_work_waits_its_turn(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *hog = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_workload *w, *got;
	struct rf_err err = RF_ERR_INIT;
	int64_t members;

	capacity(qs, 10);
	for (uint64_t i = 0; i < 10000; i++) {
		struct rf_queue_ask ask = { CARDS, 1 };
		struct rf_workload_spec s = { .id = i,
					      .shape = i,
					      .min = 1,
					      .size = 1,
					      .preemptible = true,
					      .ask = &ask,
					      .n_ask = 1 };

		assert_int_equal(rf_queues_submit(qs, hog, &s, &w, &err), 0);
	}
	for (int turn = 0; turn < 50; turn++) {
		int tries = 0;

		w = submit(qs, b, 1);
		rf_queues_changed(qs, 1 << CARDS); /* and all the doomed ones may be tried again */
		while ((got = rf_queues_next(qs, turn, &members)) != w) {
			assert_non_null(got);
			rf_queues_refuse(qs, got, 1 << CARDS);
			tries++;
		}
		assert_true(tries <= 1);
		rf_queues_remove(qs, w, turn);
		for (int i = 0; i < 100; i++) /* meanwhile they are all it has to do */
			rf_queues_refuse(qs, rf_queues_next(qs, turn, &members), 1 << CARDS);
	}
}

/* Kueue #14543 and others: a run without arrivals comes to rest. */
static void reclaim_comes_to_rest(void **state)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		rf_auto_ptr(queues) qs = make();
		struct rf_prng r = { seed };
		struct rf_workload *all[60];
		struct rf_queue *leaves[6];
		struct rf_err err = RF_ERR_INIT;
		struct rf_victim victims[64];
		size_t plans = 0, n = 0;
		bool again = true;

		capacity(qs, 24);
		for (int i = 0; i < 2; i++)
			put(qs, i == 0 ? "x" : "y", "", 12, NONE);
		for (int i = 0; i < 6; i++) {
			char name[] = { (char)('a' + i), 0 };

			leaves[i] = put(qs, name, i < 3 ? "x" : "y", (int64_t)rf_prng_below(&r, 7),
					NONE);
		}
		for (; n < RF_COUNT(all); n++) {
			int64_t min = 1 + (int64_t)rf_prng_below(&r, 5);

			all[n] = submit_gang(
				qs, leaves[n < 20 ? rf_prng_below(&r, 2) : rf_prng_below(&r, 6)],
				min, min + (int64_t)rf_prng_below(&r, 3), 0, true);
			if (n == 20)
				admit_all(qs, 0);
		}
		for (; again; admit_all(qs, 0)) {
			again = false;
			for (size_t i = 0; i < n && !again; i++) {
				size_t k = rf_reclaim_plan(qs, all[i], 0, RF_RECLAIM_FAIR, NULL,
							   NULL, victims, RF_COUNT(victims));

				for (size_t j = 0; j < k; j++) {
					struct rf_workload *v = victims[j].work;

					if (victims[j].members == v->members)
						rf_queues_requeue(qs, v, 0);
					else
						assert_int_equal(
							rf_queues_resize(qs, v,
									 v->members -
										 victims[j].members,
									 0, &err),
							0);
				}
				again = k > 0;
				plans += again;
				if (again)
					assert_int_equal(rf_queues_admit(qs, all[i],
									 all[i]->shape->min, 0,
									 &err),
							 0);
			}
			counts(qs);
			assert_true(plans <= n);
		}
	}
}

/* --- reclaim -------------------------------------------------------------------------------- */

static void only_what_is_over_the_guarantee_goes(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 4, NONE), *b = put(qs, "b", "", 4, NONE);
	struct rf_queue *c = put(qs, "c", "", 2, NONE);
	struct rf_workload *borrowed[2], *w;
	struct rf_victim v[16];

	capacity(qs, 10);
	for (int i = 0; i < 4; i++)
		run_one(qs, a, 1, i);
	borrowed[0] = run_one(qs, a, 1, 10);
	borrowed[1] = run_one(qs, a, 1, 11);
	for (int i = 0; i < 2; i++)
		run_one(qs, c, 1, 20); /* within its guarantee, and newest */
	for (int i = 0; i < 2; i++)
		run_one(qs, b, 1, 21);
	w = submit(qs, b, 1);
	assert_null(rf_queues_next(qs, 30, &(int64_t){ 0 }));
	assert_int_equal(rf_reclaim_candidates(qs, w, 30, RF_RECLAIM_GUARANTEE, true, v, 16), 2);
	assert_ptr_equal(v[0].work, borrowed[1]);
	assert_ptr_equal(v[1].work, borrowed[0]);
	assert_int_equal(rf_reclaim_plan(qs, w, 30, RF_RECLAIM_GUARANTEE, NULL, NULL, v, 16), 1);
	assert_ptr_equal(v[0].work, borrowed[1]);
	w = submit(qs, b, 3); /* would be over its own guarantee: no claim */
	assert_int_equal(rf_reclaim_plan(qs, w, 30, RF_RECLAIM_GUARANTEE, NULL, NULL, v, 16), 0);
	counts(qs);
}

static struct rf_workload *submit_bytes(struct rf_queues *qs, struct rf_queue *q, int64_t bytes)
{
	const struct rf_queue_ask ask = { BYTES, bytes };
	struct rf_workload_spec s = { .id = ++last_id, .shape = 1000, .min = 1, .size = 1, .preemptible = true, .ask = &ask, .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	if (rf_queues_submit(qs, q, &s, &w, &err) < 0)
		fail_msg("%s", err.msg);
	return w;
}

/* What is over a guarantee in one kind goes for what is guaranteed in another, and nothing that is within. */
static void kinds_come_back_from_each_other(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 2, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_workload *shares[3], *card, *wants;
	struct rf_victim v[8];
	struct rf_err err = RF_ERR_INIT;

	capacity(qs, 8);
	assert_int_equal(rf_queues_capacity(qs, BYTES, 80, &err), 0);
	assert_int_equal(put_full(qs, "b", "", 1, (struct rf_queue_quota){ BYTES, 10, NONE, NONE, NONE }, &err), 0);
	for (int i = 0; i < 3; i++) {
		shares[i] = submit_bytes(qs, b, 10);
		assert_int_equal(rf_queues_admit(qs, shares[i], 1, i, &err), 0);
	}
	wants = submit(qs, a, 2);
	assert_int_equal(rf_reclaim_candidates(qs, wants, 9, RF_RECLAIM_GUARANTEE, true, v, 8), 2);
	assert_ptr_equal(v[0].work, shares[2]);
	assert_ptr_equal(v[1].work, shares[1]);
	card = submit(qs, a, 3); /* no claim: beyond its guarantee, though within its share */
	assert_int_equal(rf_reclaim_candidates(qs, card, 9, RF_RECLAIM_FAIR, true, v, 8), 0);

	for (int i = 0; i < 3; i++)
		rf_queues_remove(qs, shares[i], 9);
	card = run_one(qs, a, 1, 9);
	(void)run_one(qs, a, 2, 9);
	wants = submit_bytes(qs, b, 10);
	assert_int_equal(rf_reclaim_candidates(qs, wants, 19, RF_RECLAIM_GUARANTEE, true, v, 8), 1);
	assert_ptr_equal(v[0].work, card);
	counts(qs);
}

/* What a queue keeps and does not use is kept from others, not from itself nor from those who share what is above it. */
static void what_is_kept_is_kept_from_others(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a, *b, *c;
	struct rf_err err = RF_ERR_INIT;

	capacity(qs, 16);
	assert_int_equal(put_full(qs, "o", "", 1, (struct rf_queue_quota){ CARDS, 6, NONE, 1, NONE }, &err), 0);
	assert_int_equal(put_full(qs, "a", "o", 1, (struct rf_queue_quota){ CARDS, 3, NONE, 0, NONE }, &err), 0);
	b = put(qs, "b", "o", 1, NONE);
	c = put(qs, "c", "", 2, NONE);
	a = rf_queues_find(qs, RF_LIT("a"));
	assert_int_equal(rf_queues_kept(qs, a, CARDS, 0), 0);
	assert_int_equal(rf_queues_kept(qs, b, CARDS, 0), 3);
	assert_int_equal(rf_queues_kept(qs, c, CARDS, 0), 5);
	(void)run_one(qs, a, 1, 0);
	assert_int_equal(rf_queues_kept(qs, b, CARDS, 0), 2);
	assert_int_equal(rf_queues_kept(qs, c, CARDS, 0), 4);
	(void)run_one(qs, b, 4, 0);
	assert_int_equal(rf_queues_kept(qs, c, CARDS, 0), 2);
	assert_true(rf_queues_keep(qs, CARDS, 0));
	assert_false(rf_queues_keep(qs, BYTES, 0));
}

static void min_run_time_is_honoured(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 2, NONE);
	const struct rf_queue_ask ask = { CARDS, 2 };
	struct rf_workload_spec s = { .id = 1,
				      .min = 1,
				      .size = 1,
				      .preemptible = true,
				      .min_run_ms = 500,
				      .ask = &ask,
				      .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w, *old;
	struct rf_victim v[4];

	capacity(qs, 2);
	assert_int_equal(rf_queues_submit(qs, a, &s, &old, &err), 0);
	assert_int_equal(rf_queues_admit(qs, old, 1, 100, &err), 0);
	w = submit(qs, b, 1);
	assert_int_equal(rf_reclaim_plan(qs, w, 599, RF_RECLAIM_GUARANTEE, NULL, NULL, v, 4), 0);
	assert_int_equal(rf_reclaim_plan(qs, w, 600, RF_RECLAIM_GUARANTEE, NULL, NULL, v, 4), 1);
}

static void fixed_work_is_never_taken(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 4, NONE), *b = put(qs, "b", "", 4, NONE);
	struct rf_workload *w = submit_gang(qs, a, 4, 4, 0, false);
	struct rf_victim v[4];
	struct rf_err err;

	capacity(qs, 4); /* both guarantees are cut to 2 while it runs */
	put(qs, "b", "", 0, NONE);
	assert_int_equal(rf_queues_admit(qs, w, 4, 0, &err), 0);
	put(qs, "b", "", 4, NONE);
	w = submit(qs, b, 1);
	assert_int_equal(rf_reclaim_plan(qs, w, 9, RF_RECLAIM_FAIR, NULL, NULL, v, 4), 0);
}

static void gangs_give_up_members_first(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 6, NONE);
	struct rf_workload *gang = submit_gang(qs, a, 2, 6, 0, true), *w;
	struct rf_victim v[4];
	struct rf_err err;

	capacity(qs, 6);
	assert_int_equal(rf_queues_admit(qs, gang, 6, 0, &err), 0);
	w = submit(qs, b, 3);
	assert_int_equal(rf_reclaim_plan(qs, w, 9, RF_RECLAIM_GUARANTEE, NULL, NULL, v, 4), 1);
	assert_int_equal(v[0].members, 3); /* as many as are over its share */
	w = submit(qs, b, 5);
	assert_int_equal(rf_reclaim_plan(qs, w, 9, RF_RECLAIM_GUARANTEE, NULL, NULL, v, 4), 1);
	assert_int_equal(v[0].members, 6); /* or as a whole, never below its minimum */
}

/* A gang larger than what is over its guarantee cannot hide behind it. */
static void a_gang_that_straddles_goes_last(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 4, NONE), *b = put(qs, "b", "", 4, NONE);
	struct rf_workload *gang, *w;
	struct rf_victim v[4];

	capacity(qs, 8);
	gang = run_one(qs, a, 8, 0);
	w = submit(qs, b, 4);
	assert_int_equal(rf_reclaim_plan(qs, w, 9, RF_RECLAIM_GUARANTEE, NULL, NULL, v, 4), 1);
	assert_ptr_equal(v[0].work, gang);
	assert_int_equal(rf_reclaim_candidates(qs, w, 9, RF_RECLAIM_GUARANTEE, true, v, 4), 1);
}

/* KAI #1750: a protected queue beside it does not end the search. */
static void a_protected_queue_is_passed_over(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 4, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_queue *c = put(qs, "c", "", 4, NONE);
	struct rf_workload *lent, *w;
	struct rf_victim v[8];

	capacity(qs, 8);
	run_one(qs, a, 4, 0);
	lent = run_one(qs, b, 4, 0);
	w = submit(qs, c, 4);
	assert_int_equal(rf_reclaim_plan(qs, w, 9, RF_RECLAIM_GUARANTEE, NULL, NULL, v, 8), 1);
	assert_ptr_equal(v[0].work, lent);
}

struct need {
	uint64_t mask; /* ids that must be gone, one bit each */
	int asked;
};

static bool all_of(void *ctx, const struct rf_workload *w, const struct rf_victim *gone, size_t n)
{
	struct need *need = ctx;
	uint64_t have = 0;

	need->asked++;
	for (size_t i = 0; i < n; i++)
		have |= UINT64_C(1) << (uintptr_t)gone[i].work->user;
	return (have & need->mask) == need->mask;
}

/* Volcano #5994: no more than needed, for every set that may be needed. */
static void victims_are_few(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 10, NONE);
	struct rf_workload *w;
	struct rf_victim v[16];

	capacity(qs, 10);
	for (uintptr_t i = 0; i < 10; i++)
		run_one(qs, a, 1, (int64_t)i)->user = (void *)i;
	w = submit(qs, b, 1);
	for (uint64_t mask = 1; mask < 1024; mask++) {
		struct need need = { mask, 0 };
		size_t n = rf_reclaim_plan(qs, w, 99, RF_RECLAIM_GUARANTEE, all_of, &need, v, 16);

		assert_int_equal(n, __builtin_popcountll(mask));
		for (size_t i = 0; i < n; i++)
			assert_true(mask >> (uintptr_t)v[i].work->user & 1);
	}
	counts(qs);
}

static void a_fair_share_can_be_claimed(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_workload *w = NULL;
	struct rf_victim v[16];

	capacity(qs, 10);
	for (int i = 0; i < 20; i++)
		submit(qs, a, 1);
	admit_all(qs, 0);
	for (int i = 0; i < 20; i++)
		w = submit(qs, b, 1);
	assert_int_equal(rf_reclaim_candidates(qs, w, 9, RF_RECLAIM_GUARANTEE, true, v, 16), 0);
	assert_int_equal(rf_reclaim_candidates(qs, w, 9, RF_RECLAIM_FAIR, true, v, 16), 5);
}

/* --- reservations --------------------------------------------------------------------------- */

static void large_gangs_are_reserved_for(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_workload *w, *gang, *fits, *stops;
	struct rf_err err = RF_ERR_INIT;
	int64_t members, start = 0;
	struct rf_why why;

	capacity(qs, 10);
	last_id = 0;
	for (int i = 0; i < 5; i++) {
		w = submit_gang(qs, a, 2, 2, 10000 * (i + 1), true);
		assert_int_equal(rf_queues_admit(qs, w, 2, 0, &err), 0);
	}
	gang = submit_gang(qs, b, 8, 8, 5000, true);
	assert_int_equal(rf_queues_plan_ahead(qs, 100, NULL, NULL), 0); /* not yet */
	assert_int_equal(rf_queues_plan_ahead(qs, 2000, NULL, NULL), 1);
	assert_true(rf_workload_reserved(qs, gang, &start));
	assert_int_equal(start, 40000);					/* 4 of 5 have ended */
	rf_queues_remove(qs, a->running->next->next->next->next, 9000); /* the first ends early */
	w = submit_gang(qs, a, 2, 2, 50000, false);
	put(qs, "a", "", 10, NONE);
	assert_null(rf_queues_next(qs, 9000, &members)); /* it would be in the way */
	rf_workload_why(qs, w, 9000, &why);
	assert_int_equal(why.kind, RF_WHY_RESERVED);
	assert_int_equal(why.until_ms, 40000);
	fits = submit_gang(qs, a, 2, 2, 31000, false); /* 9000 + 31000: just in time */
	assert_ptr_equal(rf_queues_next(qs, 9000, &members), fits);
	rf_queues_remove(qs, fits, 9000);
	stops = submit_gang(qs, a, 2, 2, 0, true); /* may be stopped at any time */
	assert_ptr_equal(rf_queues_next(qs, 9000, &members), stops);
	assert_int_equal(rf_queues_admit(qs, stops, 2, 9000, &err), 0);
	assert_int_equal(rf_queues_plan_ahead(qs, 9001, NULL, NULL), 1);
	assert_true(rf_workload_reserved(qs, gang, &start));
	assert_true(start <= 40000);
	counts(qs);
}

static void what_is_left_over_may_be_used(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 20, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w;
	int64_t members;

	capacity(qs, 12);
	last_id = 0;
	w = submit_gang(qs, a, 8, 8, 10000, true);
	assert_int_equal(rf_queues_admit(qs, w, 8, 0, &err), 0);
	submit_gang(qs, b, 8, 8, 0, true);
	assert_int_equal(rf_queues_plan_ahead(qs, 5000, NULL, NULL), 1);
	w = submit_gang(qs, a, 2, 2, 0, false); /* 12 - 8 are spare */
	submit_gang(qs, a, 3, 3, 0, false);
	assert_ptr_equal(rf_queues_next(qs, 5000, &members), w);
	assert_int_equal(rf_queues_admit(qs, w, 2, 5000, &err), 0);
	assert_null(rf_queues_next(qs, 5000, &members)); /* 3 are more than the 2 that are left */
}

static void backfill_that_can_be_stopped_is(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 10, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_workload *w, *gang;
	struct rf_err err = RF_ERR_INIT;
	struct rf_victim v[4];
	int64_t members;

	capacity(qs, 10);
	last_id = 0;
	w = submit_gang(qs, a, 6, 6, 10000, true);
	assert_int_equal(rf_queues_admit(qs, w, 6, 0, &err), 0);
	gang = submit_gang(qs, b, 8, 8, 0, true);
	assert_int_equal(rf_queues_plan_ahead(qs, 5000, NULL, NULL), 1);
	w = submit_gang(qs, a, 4, 4, 0, true);
	assert_ptr_equal(rf_queues_next(qs, 5000, &members), w);
	assert_int_equal(rf_queues_admit(qs, w, 4, 5000, &err), 0);
	rf_queues_remove(qs, w->next, 10000);
	assert_int_equal(rf_queues_plan_ahead(qs, 10000, NULL, NULL), 1);
	assert_null(rf_queues_next(qs, 10000, &members)); /* 6 are free */
	/* in spite of a's guarantee: it came in on that condition */
	assert_int_equal(rf_reclaim_plan(qs, gang, 10000, RF_RECLAIM_GUARANTEE, NULL, NULL, v, 4),
			 1);
	assert_ptr_equal(v[0].work, w);
	rf_queues_requeue(qs, w, 10000);
	assert_ptr_equal(rf_queues_next(qs, 10000, &members), gang);
}

/* Preemptible, but not at any time. */
static void submit_limited(struct rf_queues *qs, struct rf_queue *q, int64_t cards, int64_t limit)
{
	const struct rf_queue_ask ask = { CARDS, 1 };
	struct rf_workload_spec s = { .id = ++last_id,
				      .shape = 1,
				      .created_ms = (int64_t)last_id,
				      .min = cards,
				      .size = cards,
				      .preemptible = true,
				      .min_run_ms = limit,
				      .run_limit_ms = limit,
				      .ask = &ask,
				      .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	assert_int_equal(rf_queues_submit(qs, q, &s, &w, &err), 0);
}

/* Reservations are beyond the order of the queues, so who has had its share gets none, for a time. */
static void who_has_had_its_share_waits_with_its_gangs(void **state)
{
	struct rf_queues_config c = config();
	struct rf_queues *made = NULL;
	struct rf_err err = RF_ERR_INIT;
	struct rf_queue *a, *b;
	struct rf_workload *w, *first, *second, *other;
	int64_t start = 0;

	c.reserve_overdue_ms = 60000;
	assert_int_equal(rf_queues_new(&c, &made, &err), 0);
	rf_auto_ptr(queues) qs = made;
	a = put(qs, "a", "", 0, NONE);
	b = put(qs, "b", "", 0, NONE);
	capacity(qs, 10);
	last_id = 0;
	w = submit_gang(qs, a, 10, 10, 100000, true);
	assert_int_equal(rf_queues_admit(qs, w, 10, 0, &err), 0);
	first = submit_gang(qs, a, 9, 9, 5000, true);
	second = submit_gang(qs, a, 8, 8, 5000, true);
	assert_int_equal(rf_queues_plan_ahead(qs, 2000, NULL, NULL), 1); /* nobody else is there */
	assert_true(rf_workload_reserved(qs, first, &start));
	rf_queues_remove(qs, first, 2000);
	first = submit_gang(qs, a, 9, 9, 5000, true);
	other = submit_gang(qs, b, 8, 8, 5000, true);
	assert_int_equal(rf_queues_plan_ahead(qs, 4000, NULL, NULL), 1);
	assert_true(rf_workload_reserved(qs, other, &start));
	assert_false(rf_workload_reserved(qs, first, &start));
	assert_int_equal(rf_queues_plan_ahead(qs, 61000, NULL, NULL), 2); /* overdue */
	assert_true(rf_workload_reserved(qs, first, &start));
	rf_queues_remove(qs, w, 62000);
	assert_int_equal(rf_queues_admit(qs, first, 9, 62000, &err), 0);
	assert_int_equal(rf_queues_plan_ahead(qs, 63000, NULL, NULL), 1); /* one in such a time */
	assert_false(rf_workload_reserved(qs, second, &start));
	assert_int_equal(rf_queues_plan_ahead(qs, 122000, NULL, NULL), 2);
	assert_true(rf_workload_reserved(qs, second, &start));
	counts(qs);
}

/* Small jobs keep coming, end when they said or earlier, and fill every gap; the gang starts no later
 * than it was told at first. */
static void reservations_are_kept(void **state)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		rf_auto_ptr(queues) qs = make();
		struct rf_queue *q[3] = { put(qs, "a", "", 0, NONE), put(qs, "b", "", 0, NONE),
					  put(qs, "c", "", 4, NONE) };
		struct rf_prng r = { seed };
		struct rf_workload *gang = NULL;
		int64_t promised = NONE, start = 0, members;
		struct rf_err err = RF_ERR_INIT;
		size_t passed = 0;

		capacity(qs, 16);
		last_id = 0;
		for (int64_t now = 0; gang == NULL || gang->members == 0; now += 100) {
			assert_true(now < 1000000);
			for (size_t i = 0; i < 3; i++) {
				struct rf_workload *next;

				for (struct rf_workload *w = q[i]->running; w != NULL; w = next) {
					next = w->next;
					if (w->end <= now || rf_prng_below(&r, 40) == 0)
						rf_queues_remove(qs, w, now);
				}
			}
			for (int i = 0; i < 3; i++) {
				int64_t n = 1 + (int64_t)rf_prng_below(&r, 4);

				submit_limited(qs, q[rf_prng_below(&r, 3)], n,
					       1000 * (1 + (int64_t)rf_prng_below(&r, 9)));
			}
			if (now == 5000)
				gang = submit_gang(qs, q[0], 12, 12, 3000, true);
			rf_queues_plan_ahead(qs, now, NULL, NULL);
			if (gang != NULL && rf_workload_reserved(qs, gang, &start)) {
				assert_true(start <= RF_MAX(promised, now));
				promised = start;
			}
			for (struct rf_workload *w;
			     (w = rf_queues_next(qs, now, &members)) != NULL;) {
				assert_int_equal(rf_queues_admit(qs, w, members, now, &err), 0);
				passed += promised != NONE && w != gang;
			}
			if (gang != NULL && promised != NONE)
				assert_true(gang->members > 0 || now < promised);
		}
		assert_true(passed > 0); /* it was not done by letting the cluster stand idle */
	}
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

/* The best machine has so many cards left. */
static void left(struct rf_queues *qs, int64_t cards)
{
	rf_queues_left(qs, &(struct rf_queue_need){ { (int32_t)cards, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX } });
}

static struct rf_workload *submit_pod(struct rf_queues *qs, struct rf_queue *q, int64_t cards, uint64_t shape)
{
	const struct rf_queue_ask ask = { CARDS, cards };
	struct rf_workload_spec s = { .id = ++last_id,
				      .shape = shape,
				      .created_ms = (int64_t)last_id,
				      .min = 1,
				      .size = 1,
				      .need = { { (int32_t)cards } },
				      .preemptible = true,
				      .ask = &ask,
				      .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	assert_int_equal(rf_queues_submit(qs, q, &s, &w, &err), 0);
	return w;
}

/* What no machine has room for is passed over until one has, in a leaf of many shapes as well. */
static void too_large_for_any_machine(size_t many)
{
	struct rf_queues *qs = make();
	struct rf_queue *q = put(qs, "a", "", 0, NONE);
	struct rf_workload *two, *one;
	struct rf_err err = RF_ERR_INIT;
	struct rf_why why;
	int64_t members;

	capacity(qs, 1000);
	two = submit_pod(qs, q, 2, 1);
	for (size_t i = 1; i < many; i++)
		submit_pod(qs, q, 2, 1 + i);
	one = submit_pod(qs, q, 1, 100000);
	left(qs, 1);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), one);
	assert_int_equal(rf_queues_admit(qs, one, 1, 0, &err), 0);
	assert_null(rf_queues_next(qs, 0, &members));
	rf_workload_why(qs, two, 0, &why);
	assert_int_equal(why.kind, RF_WHY_REFUSED);
	assert_true(rf_workload_why_holds(qs, two, 0, &why));
	/* an end helps nobody as long as no machine has two */
	rf_queues_remove(qs, one, 0);
	rf_queues_changed(qs, 1 << CARDS);
	assert_null(rf_queues_next(qs, 0, &members));
	/* nor does another that asks for the same; a small one is found among all */
	submit_pod(qs, q, 2, 1);
	one = submit_pod(qs, q, 1, 100000);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), one);
	rf_queues_remove(qs, one, 0);
	/* then the oldest is the first, small or not */
	one = submit_pod(qs, q, 1, 100000);
	left(qs, 2);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), two);
	rf_workload_why(qs, two, 0, &why);
	assert_int_equal(why.kind, RF_WHY_TURN);
	left(qs, 0);
	assert_null(rf_queues_next(qs, 0, &members));
	left(qs, 1000000);
	assert_int_equal(admit_all(qs, 0), many + 2);
	counts(qs);
	rf_queues_free(qs);
}

struct crowd {
	struct rf_queues *qs;
	struct rf_queue *leaves[20];
	struct rf_workload *works[2000]; /* NULL: gone */
	size_t n;
	struct rf_prng r;
};

static bool any_fits(const struct crowd *c, int64_t piece)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct rf_workload *w = c->works[i];

		if (w != NULL && w->members == 0 && w->shape->ask[0].amount <= piece)
			return true;
	}
	return false;
}

static void come_or_go(struct crowd *c)
{
	size_t i = c->n > 0 ? rf_prng_below(&c->r, c->n) : 0;
	int64_t cards = 1 + (int64_t)rf_prng_below(&c->r, 8);

	if (c->n < RF_COUNT(c->works) && rf_prng_below(&c->r, 4) > 0) {
		c->works[c->n++] = submit_pod(c->qs, c->leaves[rf_prng_below(&c->r, RF_COUNT(c->leaves))], cards,
					      rf_prng_below(&c->r, 500) * 8 + (uint64_t)cards);
	} else if (c->n > 0 && c->works[i] != NULL) {
		rf_queues_remove(c->qs, c->works[i], 0);
		c->works[i] = NULL;
	}
}

/* Whatever machines have left: somebody who fits is found, if there is one, in leaves of few shapes and of many. */
static void who_fits_a_machine_is_found(void **state)
{
	struct crowd *c = rf_new(struct crowd);
	struct rf_err err = RF_ERR_INIT;
	int64_t members;

	(void)state;
	*c = (struct crowd){ .qs = make(), .r = { .state = 7 } };
	for (size_t i = 0; i < RF_COUNT(c->leaves); i++) {
		char name[16];

		snprintf(name, sizeof(name), "leaf-%zu", i);
		c->leaves[i] = put(c->qs, name, "", 0, NONE);
	}
	capacity(c->qs, 100000);
	for (int step = 0; step < 6000; step++) {
		/* mostly only the small ones fit, so that the large ones pile up */
		int64_t piece = (int64_t)rf_prng_below(&c->r, step % 50 == 0 ? 9 : 3);
		struct rf_workload *w;

		come_or_go(c);
		left(c->qs, piece);
		w = rf_queues_next(c->qs, 0, &members);
		assert_int_equal(w != NULL, any_fits(c, piece));
		if (w != NULL) {
			assert_true(w->shape->ask[0].amount <= piece);
			assert_int_equal(rf_queues_admit(c->qs, w, members, 0, &err), 0);
		}
		counts(c->qs);
	}
	rf_queues_free(c->qs);
	free(c);
}

/* What a queue uses less from now on counts at once: also in a leaf that has enough ready, and somebody aside whom it does not
 * look at then. */
static void an_end_counts_at_once(void **state)
{
	struct rf_queues *qs = make();
	struct rf_queue *a = put(qs, "a", "", 2, NONE), *b = put(qs, "b", "", 0, NONE);
	struct rf_workload *first, *second, *runs;
	struct rf_err err = RF_ERR_INIT;
	int64_t members;

	(void)state;
	capacity(qs, 100);
	qs->deep = 2;
	runs = run_one(qs, a, 2, 0);
	first = submit_pod(qs, a, 1, 1);
	second = submit_pod(qs, a, 1, 2);
	submit_pod(qs, a, 1, 3);
	for (int i = 0; i < 3; i++)
		submit_pod(qs, b, 1, 1);
	/* a is over its guarantee with more, and has used more than b */
	assert_ptr_equal(rf_queues_next(qs, 0, &members)->shape->leaf, b);
	rf_queues_refuse(qs, first, 1 << CARDS);
	assert_int_equal(a->n_held, 1);
	assert_int_equal(a->ready.n, 2);
	/* who was refused rests until b had its turn */
	assert_int_equal(rf_queues_admit(qs, rf_queues_next(qs, 0, &members), 1, 0, &err), 0);
	assert_ptr_equal(rf_queues_next(qs, 0, &members)->shape->leaf, b);
	assert_false(a->rests);
	/* now it is within its guarantee, which comes before b */
	rf_queues_remove(qs, runs, 0);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), second);
	counts(qs);
	rf_queues_free(qs);
}

static void a_machine_must_have_room(void **state)
{
	(void)state;
	too_large_for_any_machine(1);
	too_large_for_any_machine(40);
	too_large_for_any_machine(200);
}

/* A queue's place is that of its first for which some machine may have room, in each thing by itself; those before it were
 * not tried, and so not in vain. */
static void who_fits_no_machine_costs_its_queue_nothing(void **state)
{
	struct rf_queues *qs = make();
	struct rf_queue *a = put(qs, "a", "", 0, NONE), *b = put(qs, "b", "", 2, NONE);
	struct rf_workload *large[2 * RF_QUEUE_VAIN], *small, *other;
	int64_t members;

	(void)state;
	capacity(qs, 100);
	for (size_t i = 0; i < RF_COUNT(large); i++) {
		const struct rf_queue_ask ask = { CARDS, 3 };
		struct rf_workload_spec s = { .id = ++last_id,
					      .shape = 100 + i,
					      .created_ms = (int64_t)last_id,
					      .min = 1,
					      .size = 1,
					      .preemptible = true,
					      .ask = &ask,
					      .n_ask = 1 };
		struct rf_err err = RF_ERR_INIT;

		s.need.of[i % 2] = 5;
		assert_int_equal(rf_queues_submit(qs, b, &s, &large[i], &err), 0);
	}
	small = submit_pod(qs, b, 1, 1);
	other = submit_pod(qs, a, 1, 1);
	/* within its guarantee, and so before the other */
	rf_queues_left(qs, &(struct rf_queue_need){ { 4, 4, 0, 0, 0 } });
	assert_ptr_equal(rf_queues_next(qs, 0, &members), small);
	assert_int_equal(b->vain, 0);
	assert_int_equal(b->tries, 0);
	assert_int_equal(b->n_held, 0);
	/* there is room for one of them, over the guarantee: it is b's first, and a comes first by name */
	rf_queues_left(qs, &(struct rf_queue_need){ { 4, 5, 0, 0, 0 } });
	assert_ptr_equal(rf_queues_next(qs, 0, &members), other);
	rf_queues_remove(qs, other, 0);
	assert_ptr_equal(rf_queues_next(qs, 0, &members), large[1]);
	rf_queues_left(qs, &(struct rf_queue_need){ { 5, 4, 0, 0, 0 } });
	assert_ptr_equal(rf_queues_next(qs, 0, &members), large[0]);
	rf_queues_left(qs, &(struct rf_queue_need){ { 0 } });
	assert_null(rf_queues_next(qs, 0, &members));
	counts(qs);
	rf_queues_free(qs);
}

#define T(f) cmocka_unit_test(f)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(work_goes_before_a_new_queue_is_settled),
		T(cycles_are_refused),
		T(a_machine_must_have_room),
		T(who_fits_a_machine_is_found),
		T(an_end_counts_at_once),
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
		T(decay_is_exact),
		T(usage_follows_the_half_life),
		T(a_month_away_is_worth_a_day),
		T(use_of_what_was_idle_is_forgiven),
		T(nobody_hoards_claims),
		T(waiting_keeps_the_claim),
		T(credit_goes_by_weight_and_level),
		T(credit_survives_a_restart),
		T(the_ledger_survives_a_restart),
		T(a_bad_ledger_changes_nothing),
		T(a_queue_made_again_keeps_its_past),
		T(what_does_not_fade_is_made_up_for),
		T(what_starts_counts_at_once),
		T(fair_shares_are_poured),
		T(equal_weights_share_in_turn),
		T(past_usage_comes_after),
		T(guarantees_come_first),
		T(priority_counts_at_home),
		T(deep_queues_are_drilled),
		T(who_fits_no_machine_costs_its_queue_nothing),
		T(one_refusal_holds_for_its_shape),
		T(doomed_work_waits_its_turn),
		T(reclaim_comes_to_rest),
		T(only_what_is_over_the_guarantee_goes),
		T(kinds_come_back_from_each_other),
		T(what_is_kept_is_kept_from_others),
		T(min_run_time_is_honoured),
		T(fixed_work_is_never_taken),
		T(gangs_give_up_members_first),
		T(a_gang_that_straddles_goes_last),
		T(a_protected_queue_is_passed_over),
		T(victims_are_few),
		T(a_fair_share_can_be_claimed),
		T(large_gangs_are_reserved_for),
		T(what_is_left_over_may_be_used),
		T(backfill_that_can_be_stopped_is),
		T(who_has_had_its_share_waits_with_its_gangs),
		T(reservations_are_kept),
		T(reasons_name_nobody_else),
		T(a_restart_finds_the_same_books),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
