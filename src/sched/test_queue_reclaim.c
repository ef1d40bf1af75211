/* Who gives back what, and who does not. */
#include "sched/test_queue.h"

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
	assert_int_equal(rf_queues_keep(qs, 0), UINT64_C(1) << CARDS);
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

static bool any_listed(struct rf_queues *qs, struct rf_workload *w, int64_t now)
{
	struct rf_takes *t = rf_takes_open(qs, w, now, &(struct rf_takes_how){ .policy = RF_RECLAIM_GUARANTEE });
	const struct rf_take *all;
	bool any = false;
	size_t n;

	all = rf_takes_all(t, &n);
	for (size_t i = 0; i < n; i++)
		any = any || all[i].kind != RF_TAKE_NEVER;
	rf_takes_close(t);
	return any;
}

/* Where it says that nothing can be taken, nothing is listed. */
static void whether_any_can_be_taken_is_seen_without_a_list(void **state)
{
	rf_auto_ptr(queues) qs = make();
	struct rf_queue *a = put(qs, "a", "", 2, NONE), *b = put(qs, "b", "", 4, NONE);
	struct rf_workload *w;

	capacity(qs, 6);
	run_one(qs, a, 2, 0);
	run_one(qs, b, 2, 0);
	w = submit(qs, b, 2);
	rf_takes_news(qs);
	assert_false(any_listed(qs, w, 9));
	assert_false(rf_takes_any(qs, w, 9)); /* a has what it is guaranteed, and its own does not count */
	run_one(qs, a, 1, 10);
	rf_takes_news(qs);
	assert_true(rf_takes_any(qs, w, 11));
	assert_true(any_listed(qs, w, 11));
}

#define T(f) cmocka_unit_test(f)
int main(void)
{
	const struct CMUnitTest tests[] = {
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
		T(whether_any_can_be_taken_is_seen_without_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
