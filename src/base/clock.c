#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t system_wall_ms(void *ctx)
{
	struct timespec ts;

	(void)ctx;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t system_mono_ns(void *ctx)
{
	struct timespec ts;

	(void)ctx;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

const struct rf_clock *rf_clock_system(void)
{
	static const struct rf_clock system_clock = { system_wall_ms, system_mono_ns, NULL };

	return &system_clock;
}

static int64_t manual_wall_ms(void *ctx)
{
	return ((struct rf_clock_manual *)ctx)->wall_ms;
}

static int64_t manual_mono_ns(void *ctx)
{
	return ((struct rf_clock_manual *)ctx)->mono_ns;
}

void rf_clock_manual_init(struct rf_clock_manual *m, int64_t wall_ms)
{
	m->clock = (struct rf_clock){ manual_wall_ms, manual_mono_ns, m };
	m->wall_ms = wall_ms;
	m->mono_ns = 1;
}

void rf_clock_manual_advance(struct rf_clock_manual *m, int64_t ms)
{
	m->wall_ms += ms;
	m->mono_ns += ms * 1000000;
}

static struct rf_str format(struct rf_arena *a, int64_t wall_ms, const char *fraction)
{
	time_t secs = (time_t)(wall_ms / 1000);
	struct tm tm;

	gmtime_r(&secs, &tm);
	return rf_arena_printf(a, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", tm.tm_year + 1900,
			       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, fraction);
}

struct rf_str rf_time_format(struct rf_arena *a, int64_t wall_ms)
{
	return format(a, wall_ms, "");
}

struct rf_str rf_time_format_micro(struct rf_arena *a, int64_t wall_ms)
{
	char fraction[16];

	snprintf(fraction, sizeof(fraction), ".%03d000", (int)(wall_ms % 1000));
	return format(a, wall_ms, fraction);
}

/* Takes exactly n digits off *s. */
static bool digits(struct rf_str *s, size_t n, int *ret)
{
	int64_t v = 0;

	if (s->n < n || s->p[0] == '-' || rf_str_int(rf_str_n(s->p, n), &v, NULL) < 0)
		return false;
	*ret = (int)v;
	*s = rf_str_skip(*s, n);
	return true;
}

static bool one(struct rf_str *s, const char *of)
{
	if (s->n == 0 || strchr(of, s->p[0]) == NULL)
		return false;
	*s = rf_str_skip(*s, 1);
	return true;
}

static bool parse_fraction(struct rf_str *s, int *ret_ms)
{
	int scale = 100;

	*ret_ms = 0;
	if (s->n == 0 || s->p[0] != '.')
		return true;
	*s = rf_str_skip(*s, 1);
	if (s->n == 0 || s->p[0] < '0' || s->p[0] > '9')
		return false;
	while (s->n > 0 && s->p[0] >= '0' && s->p[0] <= '9') {
		*ret_ms += (s->p[0] - '0') * scale;
		scale /= 10;
		*s = rf_str_skip(*s, 1);
	}
	return true;
}

static bool parse_offset(struct rf_str *s, int *ret_minutes)
{
	int h = 0, m = 0, sign = s->n > 0 && s->p[0] == '-' ? -1 : 1;

	*ret_minutes = 0;
	if (one(s, "Zz"))
		return s->n == 0;
	if (!one(s, "+-") || !digits(s, 2, &h) || !one(s, ":") || !digits(s, 2, &m))
		return false;
	*ret_minutes = sign * (h * 60 + m);
	return s->n == 0 && h < 24 && m < 60;
}

int rf_time_parse(struct rf_str text, int64_t *ret_wall_ms, struct rf_err *err)
{
	struct rf_str s = text;
	struct tm tm = { 0 };
	int ms = 0, offset = 0;

	if (!digits(&s, 4, &tm.tm_year) || !one(&s, "-") || !digits(&s, 2, &tm.tm_mon) ||
	    !one(&s, "-") || !digits(&s, 2, &tm.tm_mday) || !one(&s, "Tt") ||
	    !digits(&s, 2, &tm.tm_hour) || !one(&s, ":") || !digits(&s, 2, &tm.tm_min) ||
	    !one(&s, ":") || !digits(&s, 2, &tm.tm_sec) || !parse_fraction(&s, &ms) ||
	    !parse_offset(&s, &offset) || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 ||
	    tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
		return rf_fail(err, RF_INVALID,
			       "\"%.*s\" is not a time; write it like 2026-11-15T04:31:55Z",
			       RF_STR(text));
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*ret_wall_ms = ((int64_t)timegm(&tm) - (int64_t)offset * 60) * 1000 + ms;
	return 0;
}

struct rf_str rf_time_age(struct rf_arena *a, int64_t ms)
{
	long s = ms < 0 ? 0 : (long)(ms / 1000);
	long m = s / 60, h = m / 60, d = h / 24;

	if (s < 120)
		return rf_arena_printf(a, "%lds", s);
	if (m < 10)
		return s % 60 ? rf_arena_printf(a, "%ldm%lds", m, s % 60) : rf_arena_printf(a, "%ldm", m);
	if (h < 3)
		return rf_arena_printf(a, "%ldm", m);
	if (h < 8)
		return m % 60 ? rf_arena_printf(a, "%ldh%ldm", h, m % 60) : rf_arena_printf(a, "%ldh", h);
	if (h < 48)
		return rf_arena_printf(a, "%ldh", h);
	if (d < 8)
		return h % 24 ? rf_arena_printf(a, "%ldd%ldh", d, h % 24) : rf_arena_printf(a, "%ldd", d);
	return rf_arena_printf(a, "%ldd", d);
}
