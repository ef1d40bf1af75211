#include "base/quantity.h"

/* Suffix: value = digits * 10^e10 * 2^e2. */
struct suffix {
	const char *text;
	int e10;
	int e2;
};

static const struct suffix SUFFIXES[] = {
	{ "", 0, 0 },   { "n", -9, 0 },  { "u", -6, 0 },  { "m", -3, 0 },  { "k", 3, 0 },
	{ "M", 6, 0 },  { "G", 9, 0 },   { "T", 12, 0 },  { "P", 15, 0 },  { "E", 18, 0 },
	{ "Ki", 0, 10 }, { "Mi", 0, 20 }, { "Gi", 0, 30 }, { "Ti", 0, 40 }, { "Pi", 0, 50 },
	{ "Ei", 0, 60 },
};

#define MAX_DIGITS 36 /* more than any int64 in thousandths needs; keeps __int128 from overflowing */

static int malformed(struct rf_str s, struct rf_err *err)
{
	return rf_fail(err, RF_INVALID, "\"%.*s\" is not a quantity; write it like 4, 500m or 20Gi",
		       RF_STR(s));
}

/* "e3", "E-2": a decimal exponent. "E" alone is the suffix for 10^18. */
static bool parse_exponent(struct rf_str tail, int *ret_e10)
{
	int64_t e = 0;
	struct rf_str digits = rf_str_skip(tail, 1);

	if (tail.n < 2 || (tail.p[0] != 'e' && tail.p[0] != 'E'))
		return false;
	if (digits.p[0] == '+')
		digits = rf_str_skip(digits, 1);
	if (rf_str_int(digits, &e, NULL) < 0 || e < -30 || e > 30)
		return false;
	*ret_e10 = (int)e;
	return true;
}

static bool parse_suffix(struct rf_str tail, int *ret_e10, int *ret_e2)
{
	*ret_e10 = *ret_e2 = 0;
	for (size_t i = 0; i < RF_COUNT(SUFFIXES); i++) {
		if (!rf_str_is(tail, SUFFIXES[i].text))
			continue;
		*ret_e10 = SUFFIXES[i].e10;
		*ret_e2 = SUFFIXES[i].e2;
		return true;
	}
	return parse_exponent(tail, ret_e10);
}

/* mantissa * 10^e10 * 2^e2, rounded away from zero to an integer. */
static bool scale(__int128 mantissa, int e10, int e2, int64_t *ret)
{
	const __int128 limit = (__int128)INT64_MAX << 40;
	bool inexact = false;

	for (; e2 > 0; e2--) {
		if (mantissa > limit)
			return false;
		mantissa *= 2;
	}
	for (; e10 > 0; e10--) {
		if (mantissa > limit)
			return false;
		mantissa *= 10;
	}
	for (; e10 < 0; e10++) {
		inexact |= mantissa % 10 != 0;
		mantissa /= 10;
	}
	mantissa += inexact ? 1 : 0;
	if (mantissa > INT64_MAX)
		return false;
	*ret = (int64_t)mantissa;
	return true;
}

static int parse(struct rf_str s, int extra_e10, int64_t *ret, struct rf_err *err)
{
	struct rf_str rest = s;
	__int128 mantissa = 0;
	int fraction = 0, seen = 0, digits = 0, e10 = 0, e2 = 0;
	bool negative = false, point = false;

	if (rest.n > 0 && (rest.p[0] == '-' || rest.p[0] == '+')) {
		negative = rest.p[0] == '-';
		rest = rf_str_skip(rest, 1);
	}
	for (; rest.n > 0; rest = rf_str_skip(rest, 1)) {
		char c = rest.p[0];

		if (c == '.' && !point) {
			point = true;
			continue;
		}
		if (c < '0' || c > '9')
			break;
		if (digits == MAX_DIGITS)
			return malformed(s, err);
		seen++;
		/* leading zeros say nothing and must not use up the digits there are */
		digits += mantissa != 0 || c != '0';
		fraction += point;
		if (fraction > 30)
			return malformed(s, err);
		mantissa = mantissa * 10 + (c - '0');
	}
	if (seen == 0)
		return malformed(s, err);
	if (!parse_suffix(rest, &e10, &e2))
		return malformed(s, err);
	if (!scale(mantissa, e10 - fraction + extra_e10, e2, ret))
		return rf_fail(err, RF_INVALID, "\"%.*s\" is too large a quantity", RF_STR(s));
	if (negative)
		*ret = -*ret;
	return 0;
}

int rf_quantity_milli(struct rf_str s, int64_t *ret_milli, struct rf_err *err)
{
	int64_t v = 0;
	int r = parse(s, 3, &v, err);

	if (r == 0)
		*ret_milli = v;
	return r;
}

int rf_quantity_value(struct rf_str s, int64_t *ret_value, struct rf_err *err)
{
	int64_t v = 0;
	int r = parse(s, 0, &v, err);

	if (r == 0)
		*ret_value = v;
	return r;
}

struct rf_str rf_quantity_bytes(struct rf_arena *a, int64_t bytes)
{
	static const char *const units[] = { "", "Ki", "Mi", "Gi", "Ti", "Pi" };
	size_t u = 0;

	while (bytes != 0 && bytes % 1024 == 0 && u + 1 < RF_COUNT(units)) {
		bytes /= 1024;
		u++;
	}
	return rf_arena_printf(a, "%lld%s", (long long)bytes, units[u]);
}

struct rf_str rf_quantity_format_milli(struct rf_arena *a, int64_t milli)
{
	if (milli % 1000 == 0)
		return rf_arena_printf(a, "%lld", (long long)(milli / 1000));
	return rf_arena_printf(a, "%lldm", (long long)milli);
}
