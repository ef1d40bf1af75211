/* A turn of placing: asks the core what to do and does it, a bounded lot at a time, so that the lease is
 * renewed and events are heard in between. A decision that fails does not keep the others from being carried
 * out: the core is told, and tries it again when it sees fit. */
#include "control/private.h"

#define DECISIONS_MAX 32 /* asked for at once */
#define TURN_MAX 128	 /* carried out in a turn */
#define AWAY_MS 500	 /* until a server that did not answer is asked again */

static int64_t sooner(int64_t a, int64_t b)
{
	if (a < 0 || b < 0)
		return RF_MAX(a, b);
	return RF_MIN(a, b);
}

/* Time alone changes something then. */
static int64_t until_next(const struct rf_placer *p)
{
	int64_t next = RF_MIN(rf_core_next_ms(p->core, p->now_ms), rf_carry_next_ms(p));

	return next == INT64_MAX ? -1 : RF_MAX(next - p->now_ms, 1);
}

/* 0: there may be more to decide; -1: there is not; else the server does not answer. */
static int64_t decide(struct rf_placer *p)
{
	for (size_t done = 0; done < TURN_MAX;) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_core_decision *all = NULL;
		size_t n = rf_core_decide(p->core, p->now_ms, DECISIONS_MAX, &a, &all);

		if (n == 0)
			return -1;
		p->moved = true;
		if (!rf_carry(p, &a, all, n))
			return AWAY_MS;
		done += n;
	}
	return 0;
}

int64_t rf_placer_turn(struct rf_placer *p)
{
	int64_t again = 0;

	/* Until it is known what became of a write, nothing more is given away. */
	if (!rf_carry_settle(p))
		return AWAY_MS;
	again = decide(p);
	if (again < 0)
		again = until_next(p);
	/* Right after the bindings: a gang that has its places has started. */
	again = sooner(again, rf_books_write_groups(p));
	again = sooner(again, rf_unclaimed_turn(p));
	return sooner(again, rf_wait_tell(p));
}
