/* Reading TZif files. Their names may come from a tenant, their content comes from the machine; both
 * are checked. */
#include "policy/rego/zoneinfo.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>

#define DIRECTORY "/usr/share/zoneinfo/"
#define FILE_MAX (256u << 10)
#define DAY 86400

struct kind {
	int32_t offset;
	char name[16];
};

/* When daylight saving starts or ends, as POSIX TZ strings say it. */
struct rule {
	char form; /* 'M': week of month, 'J': day 1-365 without leap days, 'D': day 0-365 */
	int day, week, month;
	int32_t time;
};

struct rf_zone {
	size_t n_times, n_kinds;
	int64_t *time;
	uint8_t *of; /* kind from that time on */
	struct kind *kind;
	bool has_rest, has_saving; /* what holds after the last time */
	struct kind plain, saving;
	struct rule from, to;
};

/* --- calendar --- */

int64_t rf_civil_days(int64_t year, int month, int day)
{
	/* years start in March, so that the leap day is the last one */
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void rf_civil_date(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
	int64_t z = days + 719468;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t of_era = z - era * 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t m = (5 * of_year + 2) / 153;

	*ret_day = (int)(of_year - (153 * m + 2) / 5 + 1);
	*ret_month = (int)(m < 10 ? m + 3 : m - 9);
	*ret_year = year + era * 400 + (*ret_month <= 2);
}

static bool is_leap(int64_t y)
{
	return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
}

/* --- the rule for the time after the table --- */

static bool take_name(struct rf_str *s, char name[16])
{
	bool quoted = s->n > 0 && s->p[0] == '<';
	size_t n = 0;

	*s = rf_str_skip(*s, quoted);
	while (n < s->n && (quoted ? s->p[n] != '>' : (s->p[n] | 0x20) >= 'a' && (s->p[n] | 0x20) <= 'z'))
		n++;
	if (n < 3 || n > 15 || (quoted && n == s->n))
		return false;
	memcpy(name, s->p, n);
	name[n] = '\0';
	*s = rf_str_skip(*s, n + quoted);
	return true;
}

static bool take_int(struct rf_str *s, int least, int most, int *ret)
{
	size_t n = 0;
	int v = 0;

	while (n < s->n && n < 4 && s->p[n] >= '0' && s->p[n] <= '9')
		v = v * 10 + (s->p[n++] - '0');
	*s = rf_str_skip(*s, n);
	*ret = v;
	return n > 0 && v >= least && v <= most;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(struct rf_str *s, int32_t *ret)
{
	int part[3] = { 0 }, i = 0;
	bool minus = s->n > 0 && s->p[0] == '-';

	*s = rf_str_skip(*s, s->n > 0 && (minus || s->p[0] == '+'));
	do {
		if (!take_int(s, 0, i == 0 ? 24 * 7 : 59, &part[i]))
			return false;
		if (++i == 3 || s->n == 0 || s->p[0] != ':')
			break;
		*s = rf_str_skip(*s, 1);
	} while (true);
	*ret = (minus ? -1 : 1) * (part[0] * 3600 + part[1] * 60 + part[2]);
	return true;
}

static bool take_char(struct rf_str *s, char c)
{
	if (s->n == 0 || s->p[0] != c)
		return false;
	*s = rf_str_skip(*s, 1);
	return true;
}

static bool take_rule(struct rf_str *s, struct rule *r)
{
	if (!take_char(s, ','))
		return false;
	r->time = 2 * 3600;
	if (take_char(s, 'M')) {
		r->form = 'M';
		if (!take_int(s, 1, 12, &r->month) || !take_char(s, '.') ||
		    !take_int(s, 1, 5, &r->week) || !take_char(s, '.') || !take_int(s, 0, 6, &r->day))
			return false;
	} else {
		r->form = take_char(s, 'J') ? 'J' : 'D';
		if (!take_int(s, r->form == 'J', 365, &r->day))
			return false;
	}
	return !take_char(s, '/') || take_time(s, &r->time);
}

static void read_rest(struct rf_zone *z, struct rf_str s)
{
	int32_t west;

	if (s.n == 0 || !take_name(&s, z->plain.name) || !take_time(&s, &west))
		return;
	z->plain.offset = -west;
	z->has_rest = true;
	if (s.n == 0 || !take_name(&s, z->saving.name))
		return;
	z->saving.offset = z->plain.offset + 3600;
	if (s.n > 0 && s.p[0] != ',') {
		if (!take_time(&s, &west))
			return;
		z->saving.offset = -west;
	}
	z->has_saving = take_rule(&s, &z->from) && take_rule(&s, &z->to) && s.n == 0;
}

/* Seconds since 1970 of the rule in that year, in local time. */
static int64_t rule_time(const struct rule *r, int64_t year)
{
	static const int month_days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int64_t day = rf_civil_days(year, 1, 1);
	int weekday, last;

	if (r->form == 'D')
		return (day + r->day) * DAY + r->time;
	if (r->form == 'J')
		return (day + r->day - 1 + (is_leap(year) && r->day >= 60)) * DAY + r->time;
	day = rf_civil_days(year, r->month, 1);
	weekday = (int)(((day + 4) % 7 + 7) % 7);
	last = month_days[r->month - 1] + (r->month == 2 && is_leap(year));
	day += (r->day - weekday + 7) % 7 + 7 * (r->week - 1);
	while (day >= rf_civil_days(year, r->month, 1) + last)
		day -= 7;
	return day * DAY + r->time;
}

static struct rf_zone_span span_of(const struct kind *k, int64_t start, int64_t end)
{
	struct rf_zone_span s = { .offset = k->offset, .start = start, .end = end };

	memcpy(s.name, k->name, sizeof(s.name));
	return s;
}

/* The switches of the years around sec, in order; sec is between two of them. */
static struct rf_zone_span rest_at(const struct rf_zone *z, int64_t sec, int64_t start)
{
	int64_t year, before = start;
	const struct kind *now;
	int month, day;

	if (!z->has_saving)
		return span_of(&z->plain, start, INT64_MAX);
	rf_civil_date((sec >= 0 ? sec : sec - (DAY - 1)) / DAY, &year, &month, &day);
	now = &z->plain;
	for (int64_t y = year - 1; y <= year + 1; y++) {
		int64_t on = rule_time(&z->from, y) - z->plain.offset;
		int64_t off = rule_time(&z->to, y) - z->saving.offset;
		bool on_first = on < off;
		int64_t at[2] = { on_first ? on : off, on_first ? off : on };

		for (int i = 0; i < 2; i++) {
			if (sec < at[i])
				return span_of(now, before, at[i]);
			now = (i == 0) == on_first ? &z->saving : &z->plain;
			before = RF_MAX(before, at[i]);
		}
	}
	return span_of(now, before, INT64_MAX);
}

struct rf_zone_span rf_zone_at(const struct rf_zone *z, int64_t sec)
{
	static const struct kind utc = { 0, "UTC" };
	size_t lo = 0, hi;

	if (z == NULL || (z->n_times == 0 && !z->has_rest && z->n_kinds == 0))
		return span_of(&utc, INT64_MIN, INT64_MAX);
	hi = z->n_times;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (z->time[mid] <= sec)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == z->n_times && z->has_rest)
		return rest_at(z, sec, lo == 0 ? INT64_MIN : z->time[lo - 1]);
	return span_of(&z->kind[lo == 0 ? 0 : z->of[lo - 1]], lo == 0 ? INT64_MIN : z->time[lo - 1],
		       lo == z->n_times ? INT64_MAX : z->time[lo]);
}

/* --- files --- */

struct head {
	uint32_t n_utc, n_std, n_leap, n_times, n_kinds, n_chars;
};

static bool read_head(struct rf_str *s, struct head *h)
{
	uint32_t *to[] = { &h->n_utc, &h->n_std, &h->n_leap, &h->n_times, &h->n_kinds, &h->n_chars };

	if (s->n < 44 || memcmp(s->p, "TZif", 4) != 0)
		return false;
	for (size_t i = 0; i < RF_COUNT(to); i++) {
		uint32_t v;

		memcpy(&v, s->p + 20 + 4 * i, 4);
		*to[i] = be32toh(v);
		if (*to[i] > FILE_MAX)
			return false;
	}
	*s = rf_str_skip(*s, 44);
	return true;
}

static size_t body_size(const struct head *h, size_t time_size)
{
	return h->n_times * (time_size + 1) + h->n_kinds * 6 + h->n_chars +
	       h->n_leap * (time_size + 4) + h->n_std + h->n_utc;
}

static int64_t big_endian(const char *p, size_t size)
{
	uint64_t v = 0;

	for (size_t i = 0; i < size; i++)
		v = v << 8 | (unsigned char)p[i];
	return size == 4 ? (int32_t)(uint32_t)v : (int64_t)v;
}

static bool read_kinds(struct rf_zone *z, const char *p, const char *chars, size_t n_chars)
{
	for (size_t i = 0; i < z->n_kinds; i++, p += 6) {
		size_t at = (unsigned char)p[5], n = 0;

		z->kind[i].offset = (int32_t)big_endian(p, 4);
		if (z->kind[i].offset <= -DAY * 2 || z->kind[i].offset >= DAY * 2)
			return false;
		while (at + n < n_chars && chars[at + n] != '\0' && n < sizeof(z->kind[i].name) - 1)
			n++;
		memcpy(z->kind[i].name, chars + RF_MIN(at, n_chars), n);
	}
	return true;
}

static bool read_body(struct rf_zone *z, const char *p, const struct head *h, size_t time_size)
{
	for (size_t i = 0; i < z->n_times; i++) {
		z->time[i] = big_endian(p + i * time_size, time_size);
		z->of[i] = (uint8_t)p[h->n_times * time_size + i];
		if (z->of[i] >= z->n_kinds || (i > 0 && z->time[i] <= z->time[i - 1]))
			return false;
	}
	p += h->n_times * (time_size + 1);
	return read_kinds(z, p, p + h->n_kinds * 6, h->n_chars);
}

static int broken(struct rf_err *err)
{
	return rf_fail(err, RF_INVALID, "malformed time zone information");
}

int rf_zone_read(struct rf_arena *a, struct rf_str s, const struct rf_zone **ret, struct rf_err *err)
{
	size_t time_size = 4;
	struct rf_zone *z;
	struct head h;
	bool second;

	second = s.n > 4 && s.p[4] >= '2';
	if (!read_head(&s, &h) || body_size(&h, 4) > s.n)
		return broken(err);
	if (second) {
		s = rf_str_skip(s, body_size(&h, 4));
		time_size = 8;
		if (!read_head(&s, &h) || body_size(&h, 8) > s.n)
			return broken(err);
	}
	z = rf_arena_try(a, sizeof(*z));
	if (z != NULL) {
		z->n_times = h.n_times;
		z->n_kinds = h.n_kinds;
		z->time = rf_arena_try(a, (h.n_times + 1) * sizeof(*z->time));
		z->of = rf_arena_try(a, h.n_times + 1);
		z->kind = rf_arena_try(a, (h.n_kinds + 1) * sizeof(*z->kind));
	}
	if (z == NULL || z->time == NULL || z->of == NULL || z->kind == NULL)
		return rf_fail(err, RF_EXHAUSTED, "no room for a time zone");
	if (h.n_kinds == 0 || !read_body(z, s.p, &h, time_size))
		return broken(err);
	s = rf_str_skip(s, body_size(&h, time_size));
	if (second && s.n >= 2 && s.p[0] == '\n' && s.p[s.n - 1] == '\n')
		read_rest(z, rf_str_n(s.p + 1, s.n - 2));
	*ret = z;
	return 0;
}

/* Names are relative, without . or .. parts. */
static bool is_zone_name(struct rf_str name)
{
	if (name.n == 0 || name.n > 100 || name.p[0] == '/' || name.p[0] == '.')
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];

		if (!((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '/' ||
		      c == '_' || c == '-' || c == '+'))
			return false;
	}
	return true;
}

int rf_zone_load(struct rf_arena *a, struct rf_str name, const struct rf_zone **ret, struct rf_err *err)
{
	rf_auto_close int fd = -1;
	rf_auto_free char *bytes = NULL;
	char path[160];
	ssize_t n, got = 0;

	if (!is_zone_name(name))
		return rf_fail(err, RF_NOT_FOUND, "time: invalid location name");
	(void)snprintf(path, sizeof(path), DIRECTORY "%.*s", RF_STR(name));
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return rf_fail(err, RF_NOT_FOUND, "unknown time zone %.*s", RF_STR(name));
	bytes = rf_alloc(FILE_MAX);
	while (got < (ssize_t)FILE_MAX && (n = read(fd, bytes + got, FILE_MAX - (size_t)got)) > 0)
		got += n;
	if (got <= 0)
		return rf_fail(err, RF_NOT_FOUND, "unknown time zone %.*s", RF_STR(name));
	return rf_zone_read(a, rf_str_n(bytes, (size_t)got), ret, err);
}
