/* Control dies after each single write of a history, once for every one of them, and another takes over from what the
 * API has: then the same promises hold (test_core_property.c), gangs are whole or not there after the window (I10), and
 * what was promised is kept (I20). RF_SEED=n repeats a run. */
#include "sched/test_core_world.h"


#define EVENTS 70
#ifdef __SANITIZE_ADDRESS__
#define HISTORIES 6
#else
#define HISTORIES 120
#endif

/* Much that arrives and is written, little else. */
static void draw_history(uint64_t seed, struct event *e)
{
	static const enum op ops[] = { OP_POD,	OP_GANG,   OP_GANG,  OP_DECIDE, OP_DECIDE, OP_WRITE,  OP_WRITE,
				       OP_WRITE, OP_TIME,  OP_SCRUB, OP_END,	OP_DELETE, OP_DELIVER, OP_CARD };
	struct rf_prng rng = { seed * 2862933555777941757u + 3037000493u };

	rng.state |= 1;
	for (int i = 0; i < EVENTS; i++) {
		e[i].op = ops[rf_prng_below(&rng, RF_COUNT(ops))];
		e[i].a = rf_prng_next(&rng) >> 1;
		e[i].b = rf_prng_next(&rng) >> 1;
		e[i].c = rf_prng_next(&rng) >> 1;
	}
}

static void one_run(uint64_t seed, struct event *e, struct counts *n)
{
	size_t m = EVENTS;
	char why[700];

	if (history_run(seed, e, EVENTS, false, n, NULL, why, sizeof(why)))
		return;
	print_message("# broken, with a crash after write %" PRId64 ": %s\n", history_crash_at, why);
	history_shrink(seed, e, &m, why);
	fail_msg("RF_SEED=%" PRIu64 ", crash after write %" PRId64 ": %s", seed, history_crash_at, why);
}

static void test_crash_at_every_write(void **state)
{
	const char *given = getenv("RF_SEED");
	uint64_t seed = given != NULL && given[0] != 0 ? strtoull(given, NULL, 10) : 20260101;
	struct event e[EVENTS];
	struct counts all = { 0 };

	(void)state;
	print_message("RF_SEED=%" PRIu64 "\n", seed);
	for (int i = 0; i < HISTORIES; i++, seed++) {
		struct counts n = { 0 };

		draw_history(seed, e);
		history_crash_at = 0;
		one_run(seed, e, &n);
		for (history_crash_at = 1; history_crash_at <= n.writes; history_crash_at++)
			one_run(seed, e, &all);
	}
	print_message("%ld crashes, %ld events, %ld binds (%ld promised), %ld gangs, %ld releases\n", all.crashes, all.events, all.binds,
		      all.promised, all.gangs, all.releases);
	assert_true(all.crashes > HISTORIES * 10);
	assert_true(all.promised > HISTORIES);
	assert_true(all.gangs > HISTORIES);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_crash_at_every_write) };

	return cmocka_run_group_tests_name("core_crash", tests, NULL, NULL);
}
