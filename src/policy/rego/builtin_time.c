/* time.*: Go's layouts, durations and calendar arithmetic. */
#include "policy/rego/builtin_util.h"

#include <math.h>
#include <stdio.h>

#include "policy/rego/zoneinfo.h"

#define DAY INT64_C(86400)
#define NS INT64_C(1000000000)

/* A moment, with the place it is looked at from. */
struct moment {
	int64_t sec;
	int32_t ns;
	const struct rf_zone *zone; /* NULL: UTC */
};

struct fields {
	int64_t year;
	int month, day, yday, weekday, hour, minute, second;
	int32_t offset;
	char zone[16];
};

static const char *const months[] = { "January", "February", "March",	  "April",   "May",	 "June",
				      "July",	 "August",   "September", "October", "November", "December" };
static const char *const weekdays[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
					"Thursday", "Friday", "Saturday" };

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static struct fields split(struct moment m)
{
	struct rf_zone_span span = rf_zone_at(m.zone, m.sec);
	int64_t local = m.sec + span.offset, days = floor_div(local, DAY), rest = local - days * DAY;
	struct fields f = { .offset = span.offset };

	memcpy(f.zone, span.name, sizeof(f.zone));
	rf_civil_date(days, &f.year, &f.month, &f.day);
	f.yday = (int)(days - rf_civil_days(f.year, 1, 1)) + 1;
	f.weekday = (int)(((days + 4) % 7 + 7) % 7);
	f.hour = (int)(rest / 3600);
	f.minute = (int)(rest / 60 % 60);
	f.second = (int)(rest % 60);
	return f;
}

static enum rf_rb_result to_ns(int64_t sec, int32_t ns, struct rf_rv *ret, struct rf_err *err)
{
	__int128 all = (__int128)sec * NS + ns;

	if (all < INT64_MIN || all > INT64_MAX)
		return rb_error(err, "time outside of valid range");
	*ret = rf_rv_int((int64_t)all);
	return RF_RB_OK;
}

/* --- operands: ns, [ns], [ns, zone], [ns, zone, layout] --- */

static enum rf_rb_result zone_of(struct rf_rb_env *e, struct rf_str name, const struct rf_zone **ret,
				 struct rf_err *err)
{
	int r;

	*ret = NULL;
	/* "Local" is UTC: what a policy says must not depend on where it runs */
	if (name.n == 0 || rf_str_is(name, "UTC") || rf_str_is(name, "Local"))
		return RF_RB_OK;
	if (!rf_rb_spend(e, 200))
		return RF_RB_FULL;
	r = rf_zone_load(e->arena, name, ret, err);
	return r == -RF_EXHAUSTED ? RF_RB_FULL : r < 0 ? RF_RB_ERROR : RF_RB_OK;
}

static enum rf_rb_result want(struct rf_rv v, enum rf_rv_type type, const char *name, struct rf_err *err)
{
	if (v.type == type)
		return RF_RB_OK;
	return rb_type_error(err, "operand 1 must be %s but got %s", name, rf_rv_type_name(v));
}

static enum rf_rb_result moment_of(struct rf_rb_env *e, struct rf_rv v, struct moment *ret,
				   struct rf_str *ret_layout, struct rf_err *err)
{
	struct rf_rv ns = v;
	int64_t all;

	*ret = (struct moment){ 0 };
	*ret_layout = RF_STR_EMPTY;
	if (v.type != RF_RV_NUMBER && (v.type != RF_RV_ARRAY || v.n == 0))
		return rb_type_error(err,
				     "operand 1 must be either number (ns) or [number (ns), string (tz)] "
				     "but got %s",
				     rf_rv_type_name(v));
	if (v.type == RF_RV_ARRAY) {
		ns = v.items[0];
		RB_TRY(want(ns, RF_RV_NUMBER, "number", err));
		for (uint32_t i = 1; i < RF_MIN(v.n, 3); i++)
			RB_TRY(want(v.items[i], RF_RV_STRING, "string", err));
		if (v.n > 1)
			RB_TRY(zone_of(e, rf_rv_text(v.items[1]), &ret->zone, err));
		if (v.n > 2)
			*ret_layout = rf_rv_text(v.items[2]);
	}
	if (!rf_rn_int64(ns, &all))
		return rb_error(err, "timestamp too big");
	ret->sec = floor_div(all, NS);
	ret->ns = (int32_t)(all % NS + (all % NS < 0 ? NS : 0));
	return RF_RB_OK;
}

/* --- layouts --- */

enum element {
	NOTHING,
	LONG_MONTH,
	MONTH,
	NUM_MONTH,
	ZERO_MONTH,
	LONG_WEEKDAY,
	WEEKDAY,
	DAY_1,
	UNDER_DAY,
	ZERO_DAY,
	UNDER_YDAY,
	ZERO_YDAY,
	HOUR,
	HOUR_12,
	ZERO_HOUR_12,
	MINUTE,
	ZERO_MINUTE,
	SECOND,
	ZERO_SECOND,
	LONG_YEAR,
	YEAR,
	UPPER_PM,
	LOWER_PM,
	ZONE,
	OFFSET,
	FRACTION,
};

struct chunk {
	enum element is;
	struct rf_str text;		  /* in the layout */
	bool z, colon, seconds, no_minutes; /* OFFSET: Z for UTC, 07:00, with seconds, hours only */
	size_t digits;			  /* FRACTION */
	bool exact;			  /* FRACTION: zeros stay */
};

/* The longer ones of a kind come first. */
static const struct {
	const char *text;
	enum element is;
	bool colon, seconds, no_minutes;
} elements[] = {
	{ "January", LONG_MONTH }, { "Jan", MONTH },	      { "Monday", LONG_WEEKDAY },
	{ "Mon", WEEKDAY },	   { "MST", ZONE },	      { "01", ZERO_MONTH },
	{ "02", ZERO_DAY },	   { "03", ZERO_HOUR_12 },    { "04", ZERO_MINUTE },
	{ "05", ZERO_SECOND },	   { "06", YEAR },	      { "002", ZERO_YDAY },
	{ "15", HOUR },		   { "1", NUM_MONTH },	      { "2006", LONG_YEAR },
	{ "2", DAY_1 },		   { "_2", UNDER_DAY },	      { "__2", UNDER_YDAY },
	{ "3", HOUR_12 },	   { "4", MINUTE },	      { "5", SECOND },
	{ "PM", UPPER_PM },	   { "pm", LOWER_PM },	      { "070000", OFFSET, false, true },
	{ "07:00:00", OFFSET, true, true }, { "0700", OFFSET }, { "07:00", OFFSET, true },
	{ "07", OFFSET, false, false, true },
};

static bool is_digit(struct rf_str s, size_t i)
{
	return i < s.n && s.p[i] >= '0' && s.p[i] <= '9';
}

/* .000 or ,999: not if another digit follows. */
static bool fraction_at(struct rf_str s, struct chunk *c)
{
	size_t n = 1;

	if (s.n < 2 || (s.p[0] != '.' && s.p[0] != ',') || (s.p[1] != '0' && s.p[1] != '9'))
		return false;
	while (n < s.n && s.p[n] == s.p[1])
		n++;
	if (is_digit(s, n))
		return false;
	*c = (struct chunk){ .is = FRACTION, .text = rf_str_n(s.p, n), .digits = n - 1,
			     .exact = s.p[1] == '0' };
	return true;
}

static bool element_at(struct rf_str s, struct chunk *c)
{
	bool zone = s.p[0] == '-' || s.p[0] == 'Z';

	if (fraction_at(s, c))
		return true;
	if (rf_str_starts(s, RF_LIT("_2006")))
		return false; /* the underscore stands for itself */
	for (size_t i = 0; i < RF_COUNT(elements); i++) {
		struct rf_str text = rf_str(elements[i].text);
		bool offset = elements[i].is == OFFSET;

		if (offset != zone || !rf_str_starts(rf_str_skip(s, offset), text))
			continue;
		if ((elements[i].is == MONTH || elements[i].is == WEEKDAY) && s.n > 3 &&
		    s.p[3] >= 'a' && s.p[3] <= 'z')
			continue;
		*c = (struct chunk){ .is = elements[i].is,
				     .text = rf_str_n(s.p, text.n + offset),
				     .z = s.p[0] == 'Z',
				     .colon = elements[i].colon,
				     .seconds = elements[i].seconds,
				     .no_minutes = elements[i].no_minutes };
		return true;
	}
	return false;
}

/* The literal text before the next element, which is cut off the layout with it. */
static struct rf_str next_chunk(struct rf_str *layout, struct chunk *c)
{
	struct rf_str all = *layout;

	for (size_t i = 0; i < all.n; i++)
		if (element_at(rf_str_skip(all, i), c)) {
			*layout = rf_str_skip(all, i + c->text.n);
			return rf_str_n(all.p, i);
		}
	*c = (struct chunk){ .is = NOTHING, .text = RF_STR_EMPTY };
	*layout = RF_STR_EMPTY;
	return all;
}

static struct rf_str named_layout(struct rf_str s)
{
	static const struct {
		const char *name, *layout;
	} known[] = {
		{ "ANSIC", "Mon Jan _2 15:04:05 2006" },
		{ "UnixDate", "Mon Jan _2 15:04:05 MST 2006" },
		{ "RubyDate", "Mon Jan 02 15:04:05 -0700 2006" },
		{ "RFC822", "02 Jan 06 15:04 MST" },
		{ "RFC822Z", "02 Jan 06 15:04 -0700" },
		{ "RFC850", "Monday, 02-Jan-06 15:04:05 MST" },
		{ "RFC1123", "Mon, 02 Jan 2006 15:04:05 MST" },
		{ "RFC1123Z", "Mon, 02 Jan 2006 15:04:05 -0700" },
		{ "RFC3339", "2006-01-02T15:04:05Z07:00" },
		{ "RFC3339Nano", "2006-01-02T15:04:05.999999999Z07:00" },
	};

	for (size_t i = 0; i < RF_COUNT(known); i++)
		if (rf_str_is(s, known[i].name))
			return rf_str(known[i].layout);
	return s;
}

/* --- formatting --- */

static void add_offset(struct rb_text *out, const struct chunk *c, int32_t offset)
{
	int all = abs(offset), minutes = abs(offset / 60);
	const char *colon = c->colon ? ":" : "";

	if (c->z && offset == 0) {
		rb_add_c(out, 'Z');
		return;
	}
	rb_printf(out, "%c%02d", offset / 60 < 0 ? '-' : '+', minutes / 60);
	if (!c->no_minutes)
		rb_printf(out, "%s%02d", colon, minutes % 60);
	if (c->seconds)
		rb_printf(out, "%s%02d", colon, all % 60);
}

static void add_fraction(struct rb_text *out, const struct chunk *c, int32_t ns)
{
	char digits[16];
	size_t n = RF_MIN(c->digits, 9);

	(void)snprintf(digits, sizeof(digits), "%09d", ns);
	while (!c->exact && n > 0 && digits[n - 1] == '0')
		n--;
	if (!c->exact && (n == 0 || ns == 0))
		return;
	rb_add_c(out, c->text.p[0]);
	rb_add(out, rf_str_n(digits, n));
}

static void add_year(struct rb_text *out, int64_t year)
{
	rb_printf(out, year < 0 ? "-%04lld" : "%04lld", (long long)(year < 0 ? -year : year));
}

static void add_element(struct rb_text *out, const struct chunk *c, const struct fields *f, int32_t ns)
{
	int hour_12 = f->hour % 12 == 0 ? 12 : f->hour % 12;

	switch (c->is) {
	case NOTHING:
		break;
	case LONG_MONTH:
		rb_puts(out, months[f->month - 1]);
		break;
	case MONTH:
		rb_printf(out, "%.3s", months[f->month - 1]);
		break;
	case NUM_MONTH:
		rb_printf(out, "%d", f->month);
		break;
	case ZERO_MONTH:
		rb_printf(out, "%02d", f->month);
		break;
	case LONG_WEEKDAY:
		rb_puts(out, weekdays[f->weekday]);
		break;
	case WEEKDAY:
		rb_printf(out, "%.3s", weekdays[f->weekday]);
		break;
	case DAY_1:
		rb_printf(out, "%d", f->day);
		break;
	case UNDER_DAY:
		rb_printf(out, "%2d", f->day);
		break;
	case ZERO_DAY:
		rb_printf(out, "%02d", f->day);
		break;
	case UNDER_YDAY:
		rb_printf(out, "%3d", f->yday);
		break;
	case ZERO_YDAY:
		rb_printf(out, "%03d", f->yday);
		break;
	case HOUR:
		rb_printf(out, "%02d", f->hour);
		break;
	case HOUR_12:
		rb_printf(out, "%d", hour_12);
		break;
	case ZERO_HOUR_12:
		rb_printf(out, "%02d", hour_12);
		break;
	case MINUTE:
		rb_printf(out, "%d", f->minute);
		break;
	case ZERO_MINUTE:
		rb_printf(out, "%02d", f->minute);
		break;
	case SECOND:
		rb_printf(out, "%d", f->second);
		break;
	case ZERO_SECOND:
		rb_printf(out, "%02d", f->second);
		break;
	case LONG_YEAR:
		add_year(out, f->year);
		break;
	case YEAR:
		rb_printf(out, "%02d", (int)(llabs(f->year) % 100));
		break;
	case UPPER_PM:
		rb_puts(out, f->hour >= 12 ? "PM" : "AM");
		break;
	case LOWER_PM:
		rb_puts(out, f->hour >= 12 ? "pm" : "am");
		break;
	case ZONE:
		rb_puts(out, f->zone);
		break;
	case OFFSET:
		add_offset(out, c, f->offset);
		break;
	case FRACTION:
		add_fraction(out, c, ns);
		break;
	}
}

enum rf_rb_result rb_time_format(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	struct rb_text out = { .e = e };
	struct rf_str layout;
	struct fields f;
	struct moment m;

	RB_TRY(moment_of(e, arg[0], &m, &layout, err));
	layout = layout.n == 0 ? named_layout(RF_LIT("RFC3339Nano")) : named_layout(layout);
	if (!rf_rb_spend(e, 1 + (int64_t)layout.n))
		return RF_RB_FULL;
	f = split(m);
	while (layout.n > 0 && !out.full) {
		struct chunk c;

		rb_add(&out, next_chunk(&layout, &c));
		add_element(&out, &c, &f, m.ns);
	}
	return rb_text_value(&out, ret);
}

/* --- parsing --- */

struct parsed {
	struct rf_str value; /* what is left */
	int64_t year;
	int month, day, yday, hour, minute, second;
	int32_t ns, offset;
	bool am, pm, utc, has_offset;
	const char *out_of_range; /* what is */
};

/* One or two digits; exactly two if fixed. */
static bool take_number(struct parsed *p, bool fixed, int *ret)
{
	size_t n = is_digit(p->value, 1) ? 2 : 1;

	if (!is_digit(p->value, 0) || (fixed && n == 1))
		return false;
	*ret = p->value.p[0] - '0';
	if (n == 2)
		*ret = *ret * 10 + (p->value.p[1] - '0');
	p->value = rf_str_skip(p->value, n);
	return true;
}

static bool take_in(struct parsed *p, bool fixed, int least, int most, const char *what, int *ret)
{
	if (!take_number(p, fixed, ret))
		return false;
	if (*ret < least || *ret > most)
		p->out_of_range = what;
	return true;
}

static bool take_yday(struct parsed *p, bool fixed)
{
	int n = 0;

	p->yday = 0;
	while (n < 3 && is_digit(p->value, 0)) {
		p->yday = p->yday * 10 + (p->value.p[0] - '0');
		p->value = rf_str_skip(p->value, 1);
		n++;
	}
	return n > 0 && (!fixed || n == 3);
}

static bool take_year(struct parsed *p, size_t digits)
{
	p->year = 0;
	for (size_t i = 0; i < digits; i++) {
		if (!is_digit(p->value, i))
			return false;
		p->year = p->year * 10 + (p->value.p[i] - '0');
	}
	if (digits == 2)
		p->year += p->year >= 69 ? 1900 : 2000;
	p->value = rf_str_skip(p->value, digits);
	return true;
}

/* A name of the table, or its first three letters; case does not matter. */
static bool take_word(struct parsed *p, const char *const *names, int n, bool shortened, int *ret)
{
	for (int i = 0; i < n; i++) {
		struct rf_str name = rf_str(names[i]);

		if (shortened)
			name.n = 3;
		if (p->value.n < name.n || !rf_str_ieq(rf_str_n(p->value.p, name.n), name))
			continue;
		p->value = rf_str_skip(p->value, name.n);
		*ret = i;
		return true;
	}
	return false;
}

/* A separator and n digits; past nine they are dropped. */
static bool take_fraction(struct parsed *p, size_t n)
{
	int32_t ns = 0;

	if (p->value.n < n + 1 || (p->value.p[0] != '.' && p->value.p[0] != ','))
		return false;
	for (size_t i = 0; i < 9; i++) {
		if (i < n && !is_digit(p->value, i + 1))
			return false;
		ns = ns * 10 + (i < n ? p->value.p[i + 1] - '0' : 0);
	}
	p->ns = ns;
	p->value = rf_str_skip(p->value, n + 1);
	return true;
}

static size_t digits_after(struct rf_str s)
{
	size_t n = 0;

	while (is_digit(s, n + 1))
		n++;
	return n;
}

/* Seconds may have a fraction even if the layout has none. */
static bool take_second(struct parsed *p, bool fixed, struct rf_str layout)
{
	struct chunk next;
	size_t n;

	if (!take_in(p, fixed, 0, 59, "second", &p->second))
		return false;
	if (p->value.n < 2 || (p->value.p[0] != '.' && p->value.p[0] != ','))
		return true;
	n = digits_after(p->value);
	next_chunk(&layout, &next);
	return n == 0 || next.is == FRACTION || take_fraction(p, n);
}

static bool take_offset(struct parsed *p, const struct chunk *c)
{
	int part[3] = { 0 };
	char sign;

	if (c->z && p->value.n > 0 && p->value.p[0] == 'Z') {
		p->value = rf_str_skip(p->value, 1);
		p->utc = true;
		return true;
	}
	sign = p->value.n > 0 ? p->value.p[0] : '\0';
	p->value = rf_str_skip(p->value, 1);
	for (int i = 0; i < (c->no_minutes ? 1 : c->seconds ? 3 : 2); i++) {
		if (i > 0 && c->colon) {
			if (p->value.n == 0 || p->value.p[0] != ':')
				return false;
			p->value = rf_str_skip(p->value, 1);
		}
		if (!take_number(p, true, &part[i]))
			return false;
	}
	if (part[0] > 24 || part[1] > 60 || part[2] > 60)
		p->out_of_range = "time zone offset";
	p->offset = (part[0] * 60 + part[1]) * 60 + part[2];
	if (sign == '-')
		p->offset = -p->offset;
	p->has_offset = true;
	return sign == '-' || sign == '+';
}

/* "+03", "-4": at most 23 hours; 0 if it is none. */
static size_t signed_hours(struct rf_str s)
{
	size_t n = digits_after(s);
	int v = 0;

	if (s.n == 0 || (s.p[0] != '+' && s.p[0] != '-') || n == 0 || n > 4)
		return 0;
	for (size_t i = 1; i <= n; i++)
		v = v * 10 + (s.p[i] - '0');
	return v > 23 ? 0 : n + 1;
}

/* An abbreviation says nothing about the offset (there are many "CST"), so only its form is looked
 * at; GMT+3 aside, and that is not counted either, as Go makes it a name only. */
static size_t abbreviation(struct rf_str s)
{
	size_t n = 0;

	if (s.n < 3)
		return 0;
	if (rf_str_starts(s, RF_LIT("ChST")) || rf_str_starts(s, RF_LIT("MeST")))
		return 4;
	if (rf_str_starts(s, RF_LIT("GMT")))
		return 3 + signed_hours(rf_str_skip(s, 3));
	if (s.p[0] == '+' || s.p[0] == '-')
		return signed_hours(s);
	while (n < 6 && n < s.n && s.p[n] >= 'A' && s.p[n] <= 'Z')
		n++;
	if (n == 3 || (n == 4 && rf_str_starts(s, RF_LIT("WITA"))))
		return n;
	return (n == 4 || n == 5) && s.p[n - 1] == 'T' ? n : 0;
}

static bool take_zone(struct parsed *p)
{
	size_t n = abbreviation(p->value);

	if (rf_str_starts(p->value, RF_LIT("UTC"))) {
		p->utc = true;
		n = 3;
	}
	p->value = rf_str_skip(p->value, n);
	return n > 0;
}

static bool take_half(struct parsed *p, const char *am, const char *pm)
{
	p->am = rf_str_starts(p->value, rf_str(am));
	p->pm = rf_str_starts(p->value, rf_str(pm));
	p->value = rf_str_skip(p->value, 2);
	return p->am || p->pm;
}

static void skip_blanks(struct parsed *p, int most)
{
	while (most-- > 0 && p->value.n > 0 && p->value.p[0] == ' ')
		p->value = rf_str_skip(p->value, 1);
}

static bool take_element(struct parsed *p, const struct chunk *c, struct rf_str layout)
{
	int ignored;

	switch (c->is) {
	case NOTHING:
		return true;
	case LONG_MONTH:
	case MONTH:
		if (!take_word(p, months, 12, c->is == MONTH, &p->month))
			return false;
		p->month++;
		return true;
	case NUM_MONTH:
	case ZERO_MONTH:
		return take_in(p, c->is == ZERO_MONTH, 1, 12, "month", &p->month);
	case LONG_WEEKDAY:
	case WEEKDAY:
		return take_word(p, weekdays, 7, c->is == WEEKDAY, &ignored);
	case UNDER_DAY:
		skip_blanks(p, 1);
		return take_number(p, false, &p->day);
	case DAY_1:
	case ZERO_DAY:
		return take_number(p, c->is == ZERO_DAY, &p->day);
	case UNDER_YDAY:
		skip_blanks(p, 2);
		return take_yday(p, false);
	case ZERO_YDAY:
		return take_yday(p, true);
	case HOUR:
		return take_in(p, false, 0, 23, "hour", &p->hour);
	case HOUR_12:
	case ZERO_HOUR_12:
		return take_in(p, c->is == ZERO_HOUR_12, 0, 12, "hour", &p->hour);
	case MINUTE:
	case ZERO_MINUTE:
		return take_in(p, c->is == ZERO_MINUTE, 0, 59, "minute", &p->minute);
	case SECOND:
	case ZERO_SECOND:
		return take_second(p, c->is == ZERO_SECOND, layout);
	case LONG_YEAR:
		return take_year(p, 4);
	case YEAR:
		return take_year(p, 2);
	case UPPER_PM:
		return take_half(p, "AM", "PM");
	case LOWER_PM:
		return take_half(p, "am", "pm");
	case ZONE:
		return take_zone(p);
	case OFFSET:
		return take_offset(p, c);
	case FRACTION:
		if (c->exact)
			return take_fraction(p, c->digits);
		return digits_after(p->value) == 0 || (p->value.p[0] != '.' && p->value.p[0] != ',') ||
		       take_fraction(p, digits_after(p->value));
	}
	return false;
}

/* Blanks of the layout match any number of them. */
static bool skip_text(struct parsed *p, struct rf_str text)
{
	while (text.n > 0) {
		if (text.p[0] == ' ') {
			if (p->value.n > 0 && p->value.p[0] != ' ')
				return false;
			while (text.n > 0 && text.p[0] == ' ')
				text = rf_str_skip(text, 1);
			while (p->value.n > 0 && p->value.p[0] == ' ')
				p->value = rf_str_skip(p->value, 1);
			continue;
		}
		if (p->value.n == 0 || p->value.p[0] != text.p[0])
			return false;
		text = rf_str_skip(text, 1);
		p->value = rf_str_skip(p->value, 1);
	}
	return true;
}

static int days_in(int month, int64_t year)
{
	return (int)(rf_civil_days(month == 12 ? year + 1 : year, month == 12 ? 1 : month + 1, 1) -
		     rf_civil_days(year, month, 1));
}

/* What is wrong with the date, or NULL; fills in what was not given. */
static const char *settle_date(struct parsed *p)
{
	int64_t year;
	int month, day;

	if (p->yday >= 0) {
		int64_t first = rf_civil_days(p->year, 1, 1);

		if (p->yday < 1 || p->yday > rf_civil_days(p->year + 1, 1, 1) - first)
			return "day-of-year out of range";
		rf_civil_date(first + p->yday - 1, &year, &month, &day);
		if (p->month >= 0 && p->month != month)
			return "day-of-year does not match month";
		if (p->day >= 0 && p->day != day)
			return "day-of-year does not match day";
		p->month = month;
		p->day = day;
	}
	p->month = p->month < 0 ? 1 : p->month;
	p->day = p->day < 0 ? 1 : p->day;
	return p->day < 1 || p->day > days_in(p->month, p->year) ? "day out of range" : NULL;
}

static enum rf_rb_result bad_time(struct rf_str layout, struct rf_str value, const char *why,
				  struct rf_err *err)
{
	return rb_error(err, "parsing time \"%.*s\" as \"%.*s\": %s", (int)RF_MIN(value.n, 200), value.p,
			(int)RF_MIN(layout.n, 200), layout.p, why);
}

static enum rf_rb_result parse_time(struct rf_rb_env *e, struct rf_str layout, struct rf_str value,
				    struct rf_rv *ret, struct rf_err *err)
{
	struct parsed p = { .value = value, .month = -1, .day = -1, .yday = -1 };
	struct rf_str rest = layout;
	const char *wrong;
	struct chunk c;

	if (!rf_rb_spend(e, 1 + (int64_t)(layout.n + value.n)))
		return RF_RB_FULL;
	do {
		if (!skip_text(&p, next_chunk(&rest, &c)))
			return bad_time(layout, value, "the text between the fields differs", err);
		if (!take_element(&p, &c, rest))
			return rb_error(err,
					"parsing time \"%.*s\" as \"%.*s\": cannot parse \"%.*s\" as \"%.*s\"",
					(int)RF_MIN(value.n, 200), value.p, (int)RF_MIN(layout.n, 200),
					layout.p, (int)RF_MIN(p.value.n, 100), p.value.p,
					RF_STR(c.text));
		if (p.out_of_range != NULL)
			return rb_error(err, "parsing time \"%.*s\": %s out of range",
					(int)RF_MIN(value.n, 200), value.p, p.out_of_range);
	} while (c.is != NOTHING);
	if (p.value.n > 0)
		return bad_time(layout, value, "extra text", err);
	if (p.pm && p.hour < 12)
		p.hour += 12;
	else if (p.am && p.hour == 12)
		p.hour = 0;
	wrong = settle_date(&p);
	if (wrong != NULL)
		return bad_time(layout, value, wrong, err);
	return to_ns(rf_civil_days(p.year, p.month, p.day) * DAY + p.hour * 3600 + p.minute * 60 +
			     p.second - (p.utc ? 0 : p.offset),
		     p.ns, ret, err);
}

enum rf_rb_result rb_time_parse_ns(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	return parse_time(e, named_layout(rf_rv_text(arg[0])), rf_rv_text(arg[1]), ret, err);
}

enum rf_rb_result rb_time_parse_rfc3339_ns(struct rf_rb_env *e, const struct rf_rv *arg,
					       struct rf_rv *ret, struct rf_err *err)
{
	return parse_time(e, named_layout(RF_LIT("RFC3339")), rf_rv_text(arg[0]), ret, err);
}

/* --- durations --- */

static const struct {
	const char *name;
	int64_t ns;
	int hours; /* OPA's own: so many */
} units[] = {
	{ "ns", 1 },	      { "us", 1000 },
	{ "\xc2\xb5s", 1000 }, { "\xce\xbcs", 1000 },
	{ "ms", 1000000 },    { "s", NS },
	{ "m", 60 * NS },     { "h", 3600 * NS },
	{ "d", 0, 24 },	      { "w", 0, 7 * 24 },
	{ "y", 0, 365 * 24 },
};

/* A decimal number times a unit, as Go adds it up: whole and fraction apart. */
static bool scaled(struct rf_str number, uint64_t unit, uint64_t *ret)
{
	uint64_t whole = 0, part = 0;
	double scale = 1;
	size_t i = 0;
	bool any = false, cut = false;

	for (; is_digit(number, i); i++, any = true)
		if (__builtin_mul_overflow(whole, 10u, &whole) || whole > UINT64_C(1) << 63 ||
		    (whole += (uint64_t)(number.p[i] - '0')) > UINT64_C(1) << 63)
			return false;
	if (i < number.n && number.p[i] == '.')
		for (i++; is_digit(number, i); i++, any = true) {
			cut = cut || part > (INT64_MAX - 9) / 10;
			if (cut)
				continue;
			part = part * 10 + (uint64_t)(number.p[i] - '0');
			scale *= 10;
		}
	if (!any || i != number.n || __builtin_mul_overflow(whole, unit, &whole))
		return false;
	if (part > 0)
		whole += (uint64_t)((double)part * ((double)unit / scale));
	*ret = whole;
	return whole <= UINT64_C(1) << 63;
}

/* "1.5" days are first made hours, as text, because that is how OPA counts them. */
static bool scaled_hours(struct rf_str number, int hours, uint64_t *ret)
{
	char text[400];
	double v;

	if (number.n >= sizeof(text) || number.n == 0)
		return false;
	memcpy(text, number.p, number.n);
	text[number.n] = '\0';
	if (strspn(text, "0123456789.") != number.n || strchr(text, '.') != strrchr(text, '.') ||
	    strcmp(text, ".") == 0)
		return false;
	v = strtod(text, NULL) * hours;
	if (!(v < 1e15))
		return false;
	for (int digits = 0; digits < 40; digits++) {
		(void)snprintf(text, sizeof(text), "%.*f", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return scaled(rf_str(text), (uint64_t)(3600 * NS), ret);
}

static bool take_unit(struct rf_str *s, size_t *ret)
{
	size_t n = 0;

	while (n < s->n && s->p[n] != '.' && !is_digit(*s, n))
		n++;
	for (size_t i = 0; i < RF_COUNT(units); i++)
		if (rf_str_eq(rf_str_n(s->p, n), rf_str(units[i].name))) {
			*s = rf_str_skip(*s, n);
			*ret = i;
			return true;
		}
	return false;
}

static bool parse_duration(struct rf_str s, int64_t *ret)
{
	bool minus = s.n > 0 && s.p[0] == '-';
	uint64_t sum = 0, part;

	if (s.n > 0 && (minus || s.p[0] == '+'))
		s = rf_str_skip(s, 1);
	if (s.n == 0)
		return false;
	if (rf_str_is(s, "0")) {
		*ret = 0;
		return true;
	}
	while (s.n > 0) {
		size_t n = 0, unit;
		struct rf_str number;

		while (n < s.n && (s.p[n] == '.' || is_digit(s, n)))
			n++;
		number = rf_str_n(s.p, n);
		s = rf_str_skip(s, n);
		if (!take_unit(&s, &unit))
			return false;
		if (units[unit].hours > 0 ? !scaled_hours(number, units[unit].hours, &part) :
					    !scaled(number, (uint64_t)units[unit].ns, &part))
			return false;
		if (__builtin_add_overflow(sum, part, &sum) || sum > UINT64_C(1) << 63)
			return false;
	}
	if (!minus && sum > INT64_MAX)
		return false;
	*ret = minus ? (int64_t)(0 - sum) : (int64_t)sum;
	return true;
}

enum rf_rb_result rb_time_parse_duration_ns(struct rf_rb_env *e, const struct rf_rv *arg,
						struct rf_rv *ret, struct rf_err *err)
{
	int64_t ns;

	if (!rf_rb_spend(e, 1 + arg[0].n))
		return RF_RB_FULL;
	if (!parse_duration(rf_rv_text(arg[0]), &ns))
		return rb_error(err, "time: invalid duration \"%.*s\"", (int)RF_MIN(arg[0].n, 200),
				arg[0].s);
	*ret = rf_rv_int(ns);
	return RF_RB_OK;
}

/* --- the rest --- */

static enum rf_rb_result numbers(struct rf_rb_env *e, const int64_t *v, uint32_t n, struct rf_rv *ret)
{
	struct rf_rv *items = rb_alloc(e, n, sizeof(*items));

	if (items == NULL)
		return RF_RB_FULL;
	for (uint32_t i = 0; i < n; i++)
		items[i] = rf_rv_int(v[i]);
	*ret = rf_rv_array(items, n);
	return RF_RB_OK;
}

static enum rf_rb_result fields_of(struct rf_rb_env *e, struct rf_rv v, struct fields *ret,
				   struct rf_err *err)
{
	struct rf_str layout;
	struct moment m;

	RB_TRY(moment_of(e, v, &m, &layout, err));
	*ret = split(m);
	return RF_RB_OK;
}

enum rf_rb_result rb_time_date(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				   struct rf_err *err)
{
	struct fields f;

	RB_TRY(fields_of(e, arg[0], &f, err));
	return numbers(e, (int64_t[]){ f.year, f.month, f.day }, 3, ret);
}

enum rf_rb_result rb_time_clock(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				    struct rf_err *err)
{
	struct fields f;

	RB_TRY(fields_of(e, arg[0], &f, err));
	return numbers(e, (int64_t[]){ f.hour, f.minute, f.second }, 3, ret);
}

enum rf_rb_result rb_time_weekday(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				      struct rf_err *err)
{
	struct fields f;

	RB_TRY(fields_of(e, arg[0], &f, err));
	*ret = rf_rv_str(rf_str(weekdays[f.weekday]));
	return RF_RB_OK;
}

/* Seconds since 1970 of a local time. */
static int64_t from_local(const struct rf_zone *zone, int64_t local)
{
	struct rf_zone_span span = rf_zone_at(zone, local);
	int64_t utc = local - span.offset;

	if (utc < span.start || utc >= span.end)
		utc = local - rf_zone_at(zone, utc).offset;
	return utc;
}

enum rf_rb_result rb_time_add_date(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	int64_t by[3], months_all, days;
	struct rf_str layout;
	struct fields f;
	struct moment m;

	RB_TRY(moment_of(e, arg[0], &m, &layout, err));
	for (int i = 0; i < 3; i++)
		RB_TRY(rb_int(arg[i + 1], i + 2, &by[i], err));
	/* nothing past this can come out valid, and nothing below can overflow */
	for (int i = 0; i < 3; i++)
		if (by[i] > 10000000 || by[i] < -10000000)
			return rb_error(err, "time outside of valid range");
	f = split(m);
	months_all = f.month - 1 + by[1];
	f.year += by[0] + floor_div(months_all, 12);
	f.month = (int)(months_all - floor_div(months_all, 12) * 12) + 1;
	days = rf_civil_days(f.year, f.month, 1) + f.day - 1 + by[2];
	return to_ns(from_local(m.zone, days * DAY + f.hour * 3600 + f.minute * 60 + f.second), m.ns,
		     ret, err);
}

static bool is_after(struct moment a, struct moment b)
{
	return a.sec != b.sec ? a.sec > b.sec : a.ns > b.ns;
}

enum rf_rb_result rb_time_diff(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				   struct rf_err *err)
{
	struct rf_str layout;
	struct moment a, b;
	struct fields x, y;
	int64_t d[6];

	RB_TRY(moment_of(e, arg[0], &a, &layout, err));
	RB_TRY(moment_of(e, arg[1], &b, &layout, err));
	b.zone = a.zone;
	x = split(is_after(a, b) ? b : a);
	y = split(is_after(a, b) ? a : b);
	d[0] = y.year - x.year;
	d[1] = y.month - x.month;
	d[2] = y.day - x.day;
	d[3] = y.hour - x.hour;
	d[4] = y.minute - x.minute;
	d[5] = y.second - x.second;
	/* borrow from the next larger one, the smallest first */
	for (int i = 5; i > 0; i--) {
		static const int size[] = { 0, 12, 0, 24, 60, 60 };

		if (d[i] >= 0)
			continue;
		d[i] += i == 2 ? days_in(x.month, x.year) : size[i];
		d[i - 1]--;
	}
	return numbers(e, d, 6, ret);
}

enum rf_rb_result rb_time_now_ns(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	(void)arg;
	(void)err;
	*ret = rf_rv_int(e->now_ns);
	return RF_RB_OK;
}
