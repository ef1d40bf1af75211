/* Numbers as text: their grammar, and their value as an exact decimal. No floating point anywhere.
 */
#include "codec/json_private.h"

static inline const char *skip_digits(const char *p, const char *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

size_t rf_json_number_len(struct rf_str s)
{
	const char *p = s.p, *end = s.p + s.n, *digits;

	if (p < end && *p == '-')
		p++;
	digits = p;
	p = skip_digits(p, end);
	if (p == digits || (*digits == '0' && p - digits > 1))
		return 0;
	if (p < end && *p == '.') {
		digits = ++p;
		p = skip_digits(p, end);
		if (p == digits)
			return 0;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		digits = p;
		p = skip_digits(p, end);
		if (p == digits)
			return 0;
	}
	return (size_t)(p - s.p);
}

/* 0.00120e5 is digits "12" (from "12" in the text), exponent 1: 12 * 10^1. Zero has no digits. */
struct decimal {
	bool negative;
	bool huge; /* the exponent is beyond counting; only the text can be compared */
	/* From the first to the last that is not 0; may have a point inside. */
	struct rf_str digits;
	int64_t exponent; /* of the last digit */
};

#define EXPONENT_MAX ((int64_t)1 << 40) /* longer than any text can shift it */

static void read_exponent(struct rf_str s, struct decimal *d)
{
	bool negative = s.n > 0 && s.p[0] == '-';
	int64_t e = 0;

	if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'))
		s = rf_str_skip(s, 1);
	for (size_t i = 0; i < s.n && !d->huge; i++) {
		e = e * 10 + (s.p[i] - '0');
		d->huge = e > EXPONENT_MAX;
	}
	d->exponent += negative ? -e : e;
}

/* text follows the grammar above. */
static struct decimal decimal_of(struct rf_str text)
{
	struct decimal d = { .negative = text.n > 0 && text.p[0] == '-', .digits = RF_STR_EMPTY };
	const char *first = NULL, *last = NULL, *point = NULL;
	size_t i = d.negative;

	for (; i < text.n && text.p[i] != 'e' && text.p[i] != 'E'; i++) {
		if (text.p[i] == '.')
			point = text.p + i;
		else if (text.p[i] != '0')
			last = text.p + i, first = first != NULL ? first : last;
	}
	if (first == NULL)
		return (struct decimal){ .digits = RF_STR_EMPTY };
	d.digits = rf_str_n(first, (size_t)(last - first) + 1);
	if (point == NULL || point > last)
		d.exponent = (point != NULL ? point : text.p + i) - last - 1;
	else
		d.exponent = point - last;
	if (i < text.n)
		read_exponent(rf_str_skip(text, i + 1), &d);
	return d;
}

static bool same_digits(struct rf_str a, struct rf_str b)
{
	size_t i = 0, j = 0;

	for (;; i++, j++) {
		i += i < a.n && a.p[i] == '.';
		j += j < b.n && b.p[j] == '.';
		if (i == a.n || j == b.n)
			return i == a.n && j == b.n;
		if (a.p[i] != b.p[j])
			return false;
	}
}

bool rf_json_number_equal(struct rf_str a, struct rf_str b)
{
	struct decimal x, y;

	if (rf_str_eq(a, b))
		return true;
	x = decimal_of(a);
	y = decimal_of(b);
	return !x.huge && !y.huge && x.negative == y.negative && x.exponent == y.exponent &&
	       same_digits(x.digits, y.digits);
}

bool rf_json_number_whole(struct rf_str text, int64_t *ret)
{
	struct decimal d = decimal_of(text);
	int64_t value = 0; /* grows downwards: the lowest has no positive twin */

	if (d.huge || d.exponent < 0 || d.exponent > 18)
		return false;
	for (size_t i = 0; i < d.digits.n; i++)
		if (d.digits.p[i] != '.' &&
		    (__builtin_mul_overflow(value, (int64_t)10, &value) ||
		     __builtin_sub_overflow(value, (int64_t)(d.digits.p[i] - '0'), &value)))
			return false;
	for (; d.exponent > 0; d.exponent--)
		if (__builtin_mul_overflow(value, (int64_t)10, &value))
			return false;
	if (!d.negative && __builtin_sub_overflow((int64_t)0, value, &value))
		return false;
	*ret = value;
	return true;
}
