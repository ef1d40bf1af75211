/* What queues have used, how it fades, and what of it is made up for or forgiven. */
#include <math.h>

#include "sched/test_queue.h"

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

#define T(f) cmocka_unit_test(f)
int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
