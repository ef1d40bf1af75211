/* Time. Code with a promise about time takes a struct rf_clock, so that a test can hold it still. */
#ifndef RF_BASE_CLOCK_H
#define RF_BASE_CLOCK_H

#include "base/arena.h"

struct rf_clock {
	int64_t (*wall_ms)(void *ctx); /* since 1970, UTC */
	int64_t (*mono_ns)(void *ctx); /* never goes back */
	void *ctx;
};

const struct rf_clock *rf_clock_system(void);

static inline int64_t rf_wall_ms(const struct rf_clock *c)
{
	return c->wall_ms(c->ctx);
}
static inline int64_t rf_mono_ns(const struct rf_clock *c)
{
	return c->mono_ns(c->ctx);
}

/* A clock that moves only when told to. */
struct rf_clock_manual {
	struct rf_clock clock; /* pass &m.clock */
	int64_t wall_ms;
	int64_t mono_ns;
};
void rf_clock_manual_init(struct rf_clock_manual *m, int64_t wall_ms);
void rf_clock_manual_advance(struct rf_clock_manual *m, int64_t ms);

/* "2026-11-15T04:31:55Z" (metav1.Time) and "2026-11-15T04:31:55.123000Z" (MicroTime). */
struct rf_str rf_time_format(struct rf_arena *a, int64_t wall_ms);
struct rf_str rf_time_format_micro(struct rf_arena *a, int64_t wall_ms);
/* RFC 3339, fraction and offset allowed. */
int rf_time_parse(struct rf_str s, int64_t *ret_wall_ms, struct rf_err *err);
/* "5s", "3m12s", "2d4h": how kubectl writes ages. */
struct rf_str rf_time_age(struct rf_arena *a, int64_t ms);

#endif
