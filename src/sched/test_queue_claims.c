/* Who of those that wait may ask for something back (rf_queue_claims): nobody is forgotten, and where nobody may, nobody
 * is looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sched/queue_private.h"

enum { CARDS, CPU, N_RES };
#define WORKS 600

static const struct rf_queue_resource resources[N_RES] = { { "cards", false }, { "cpu", true } };

struct bench {
	struct rf_queues *qs;
	struct rf_queue *leaf;
	struct rf_prng r;
	struct rf_workload *works[WORKS];
	size_t seen[WORKS + 1];
	size_t n_seen;
};

static void put(struct bench *b, const char *name, int64_t guaranteed)
{
	struct rf_queue_quota quota = { CARDS, guaranteed, RF_QUEUE_NO_LIMIT, RF_QUEUE_NO_LIMIT, RF_QUEUE_NO_LIMIT };
	struct rf_queue_spec s = { .name = rf_str(name), .weight = 1, .quotas = &quota, .n_quotas = 1 };
	struct rf_err err;

	assert_int_equal(rf_queues_put(b->qs, &s, 0, &err), 0);
}

static void begin(struct bench *b, int64_t guaranteed)
{
	struct rf_queues_config c = { .resources = resources, .n_resources = N_RES, .half_life_ms = 1000000, .entry_ms = 60000 };
	struct rf_err err;

	*b = (struct bench){ .r = { .state = 3 } };
	assert_int_equal(rf_queues_new(&c, &b->qs, &err), 0);
	assert_int_equal(rf_queues_capacity(b->qs, CARDS, 1000, &err), 0);
	assert_int_equal(rf_queues_capacity(b->qs, CPU, 1000000, &err), 0);
	put(b, "a", guaranteed);
	put(b, "b", 0);
	b->leaf = rf_queues_find(b->qs, RF_LIT("a"));
}

static struct rf_workload *submit(struct bench *b, size_t i, int64_t cards, int64_t priority)
{
	struct rf_queue_ask ask[] = { { CARDS, cards }, { CPU, 1 + (int64_t)i } };
	struct rf_workload_spec s = { .id = i + 1,
				      .user = &b->seen[i],
				      .shape = i + 1,
				      .priority = priority,
				      .created_ms = (int64_t)i,
				      .min = 1,
				      .size = 1,
				      .need = { { (int32_t)cards } },
				      .preemptible = true,
				      .ask = ask,
				      .n_ask = 2 };
	struct rf_workload *w = NULL;
	struct rf_err err;

	assert_int_equal(rf_queues_submit(b->qs, b->leaf, &s, &w, &err), 0);
	return w;
}

static void look(void *ctx, struct rf_workload *w)
{
	struct bench *b = ctx;
	struct rf_workload_view v;

	rf_workload_view(w, &v);
	(*(size_t *)v.user)++;
	b->n_seen++;
}

static bool claims(struct bench *b, int64_t above, size_t most, uint64_t round)
{
	struct rf_claims c = { .policy = RF_RECLAIM_GUARANTEE, .above = above, .most = most, .round = round, .look = look, .ctx = b };

	return rf_queue_claims(b->qs, b->leaf, &c, 0);
}

/* Some step aside for want of room, of a machine, or because they were refused. */
static void stir(struct bench *b)
{
	int64_t members;

	rf_queues_left(b->qs, &(struct rf_queue_need){ { (int32_t)rf_prng_below(&b->r, 8) } });
	for (int i = 0; i < 20; i++) {
		struct rf_workload *w = rf_queues_next(b->qs, 0, &members);

		if (w != NULL)
			rf_queues_refuse(b->qs, w, 0);
	}
	if (rf_prng_below(&b->r, 3) == 0)
		rf_queues_changed(b->qs, 1);
}

static void check_all(struct bench *b, int64_t above, size_t most, uint64_t round)
{
	size_t calls = 0;

	memset(b->seen, 0, sizeof(b->seen));
	b->n_seen = 0;
	while (claims(b, above, most, round)) {
		assert_true(b->n_seen <= (2 * most + 70) * 2 * ++calls); /* with the first of each heap; some twice */
		assert_true(calls < WORKS);
	}
	for (size_t i = 0; i < WORKS; i++) {
		if (b->works[i] == NULL)
			continue;
		if (b->works[i]->priority > above || rf_workload_entitled(b->qs, b->works[i], RF_RECLAIM_GUARANTEE, 0))
			assert_true(b->seen[i] > 0);
	}
}

static void test_nobody_is_forgotten(void **state)
{
	struct bench b;
	uint64_t round = 0;

	(void)state;
	begin(&b, 4);
	for (size_t step = 0; step < 2000; step++) {
		size_t i = rf_prng_below(&b.r, WORKS);

		if (b.works[i] != NULL)
			rf_queues_remove(b.qs, b.works[i], 0);
		b.works[i] = rf_prng_below(&b.r, 4) == 0 ? NULL :
							   submit(&b, i, 1 + (int64_t)rf_prng_below(&b.r, 8), (int64_t)rf_prng_below(&b.r, 3));
		if (step % 10 == 0)
			stir(&b);
		if (step % 50 == 0) {
			check_all(&b, 1, 8, ++round);
			check_all(&b, INT64_MAX, SIZE_MAX, ++round);
		}
	}
	rf_queues_free(b.qs);
}

static void test_who_may_ask_for_nothing_costs_nothing(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, 1);
	for (size_t i = 0; i < WORKS; i++)
		b.works[i] = submit(&b, i, 2, 0);
	stir(&b);
	assert_false(claims(&b, 0, SIZE_MAX, 1));
	assert_int_equal(b.n_seen, 0);
	/* one that may */
	rf_queues_remove(b.qs, b.works[400], 0);
	b.works[400] = submit(&b, 400, 1, 0);
	assert_false(claims(&b, 0, SIZE_MAX, 2));
	assert_true(b.seen[400] > 0);
	assert_int_equal(b.n_seen, b.seen[400]);
	rf_queues_free(b.qs);
}

/* Who comes first of what is ready is looked at each time, whoever else's turn it is. */
static void test_the_first_each_time(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, 8);
	for (size_t i = 0; i < WORKS; i++)
		b.works[i] = submit(&b, i, 2, 0);
	for (size_t call = 1; call <= 5; call++) {
		assert_true(claims(&b, 0, 8, 1));
		assert_true(b.seen[0] >= call);
	}
	rf_queues_free(b.qs);
}

static void test_queues_in_which_something_waits(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, 8);
	assert_null(rf_queues_waiting(b.qs, 0));
	b.works[0] = submit(&b, 0, 2, 0);
	assert_ptr_equal(rf_queues_waiting(b.qs, 0), b.leaf);
	assert_null(rf_queues_waiting(b.qs, 1));
	rf_queues_remove(b.qs, b.works[0], 0);
	assert_null(rf_queues_waiting(b.qs, 0));
	rf_queues_free(b.qs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_is_forgotten),
		cmocka_unit_test(test_who_may_ask_for_nothing_costs_nothing),
		cmocka_unit_test(test_the_first_each_time),
		cmocka_unit_test(test_queues_in_which_something_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
