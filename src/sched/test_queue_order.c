/* Whose turn it is: guarantees, priorities, refusals, what large gangs are kept room for, and who fits no machine. */
#include "sched/test_queue.h"

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

/* --- what fits a machine -------------------------------------------------------------------- */

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
		T(a_machine_must_have_room),
		T(who_fits_a_machine_is_found),
		T(an_end_counts_at_once),
		T(guarantees_come_first),
		T(priority_counts_at_home),
		T(deep_queues_are_drilled),
		T(who_fits_no_machine_costs_its_queue_nothing),
		T(one_refusal_holds_for_its_shape),
		T(doomed_work_waits_its_turn),
		T(large_gangs_are_reserved_for),
		T(what_is_left_over_may_be_used),
		T(backfill_that_can_be_stopped_is),
		T(who_has_had_its_share_waits_with_its_gangs),
		T(reservations_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
