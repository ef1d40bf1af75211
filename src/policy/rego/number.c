#include <float.h>
#include <math.h>
#include <stdio.h>

#include "policy/rego/bigint.h"
#include "policy/rego/number.h"

typedef unsigned __int128 u128;

/* 2^3321 < 10^1000: nothing computed is longer than what may be read. */
#define BITS_MAX 3321
#define TEXT_MAX (RF_RN_DIGITS_MAX + 64)

/* --- reading --- */

/* A number's text taken apart. */
struct parts {
	bool negative;
	bool strict; /* JSON would take it */
	bool point, exponent;
	struct rf_str whole, fraction; /* digits */
	int32_t exp;
};

static struct rf_str take_digits(struct rf_str *s)
{
	size_t n = 0;
	struct rf_str digits;

	while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9')
		n++;
	digits = rf_str_n(s->p, n);
	*s = rf_str_skip(*s, n);
	return digits;
}

static bool take(struct rf_str *s, char a, char b)
{
	if (s->n == 0 || (s->p[0] != a && s->p[0] != b))
		return false;
	*s = rf_str_skip(*s, 1);
	return true;
}

static bool read_exponent(struct rf_str *s, struct parts *p)
{
	bool negative = s->n > 0 && s->p[0] == '-';
	struct rf_str digits;

	take(s, '+', '-');
	digits = take_digits(s);
	if (digits.n == 0)
		return false;
	for (size_t i = 0; i < digits.n; i++) {
		p->exp = p->exp * 10 + (digits.p[i] - '0');
		if (p->exp > RF_RN_EXPONENT_MAX)
			return false;
	}
	p->exp = negative ? -p->exp : p->exp;
	return true;
}

static bool read_parts(struct rf_str s, struct parts *p)
{
	*p = (struct parts){ .negative = s.n > 0 && s.p[0] == '-', .fraction = RF_STR_EMPTY };
	p->strict = s.n > 0 && s.p[0] != '+';
	take(&s, '+', '-');
	p->whole = take_digits(&s);
	p->strict &= p->whole.n == 1 || (p->whole.n > 1 && p->whole.p[0] != '0');
	p->point = take(&s, '.', '.');
	if (p->point) {
		p->fraction = take_digits(&s);
		p->strict &= p->fraction.n > 0;
	}
	if (p->whole.n + p->fraction.n == 0 || p->whole.n + p->fraction.n > RF_RN_DIGITS_MAX)
		return false;
	p->exponent = take(&s, 'e', 'E');
	if (p->exponent && !read_exponent(&s, p))
		return false;
	return s.n == 0;
}

bool rf_rn_is_number(struct rf_str text)
{
	struct parts p;

	return read_parts(text, &p);
}

/* Integers as they are written most: false if it is anything else. */
static inline bool read_small(struct rf_str s, int64_t *ret)
{
	bool negative = s.n > 0 && s.p[0] == '-';
	size_t i = negative;
	int64_t v = 0;

	if (s.n == i || s.n - i > 18 || (s.p[i] == '0' && s.n > 1))
		return false;
	for (; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		v = v * 10 + (s.p[i] - '0');
	}
	*ret = negative ? -v : v;
	return true;
}

/* The whole part, if an int64 can hold it. */
static bool cut_to_int(const struct rf_rv_number *n, int64_t *ret)
{
	int64_t v = 0; /* grows downwards: the lowest has no positive twin */

	if (n->n_digits == 0 || n->point <= 0) {
		*ret = 0;
		return true;
	}
	if (n->point > 19)
		return false;
	for (int32_t i = 0; i < n->point; i++) {
		int digit = (uint32_t)i < n->n_digits ? n->digits[i] - '0' : 0;

		if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
		    __builtin_sub_overflow(v, (int64_t)digit, &v))
			return false;
	}
	if (!n->negative && __builtin_sub_overflow((int64_t)0, v, &v))
		return false;
	*ret = v;
	return true;
}

/* digits: those of the text in a row, in memory that lasts. */
static void fill(struct rf_rv_number *n, const char *digits, size_t count, int32_t point)
{
	while (count > 0 && digits[0] == '0') {
		digits++;
		count--;
		point--;
	}
	while (count > 0 && digits[count - 1] == '0')
		count--;
	n->digits = digits;
	n->n_digits = (uint32_t)count;
	n->point = count > 0 ? point : 0;
	n->is_int = n->point >= 0 && (uint32_t)n->point >= n->n_digits;
	n->near = cut_to_int(n, &n->i);
}

static struct rf_rv boxed(const struct rf_rv_number *n)
{
	return (struct rf_rv){ .type = RF_RV_NUMBER, .big = true, .number = n };
}

/* What JSON would have taken instead of +07. or .5 */
static size_t write_strict(char *to, const struct parts *p)
{
	struct rf_str whole = p->whole;
	size_t n = 0;

	while (whole.n > 1 && whole.p[0] == '0')
		whole = rf_str_skip(whole, 1);
	if (whole.n == 0)
		whole = RF_LIT("0");
	if (p->negative)
		to[n++] = '-';
	memcpy(to + n, whole.p, whole.n);
	n += whole.n;
	if (p->fraction.n > 0) {
		to[n++] = '.';
		memcpy(to + n, p->fraction.p, p->fraction.n);
		n += p->fraction.n;
	}
	if (p->exponent)
		n += (size_t)snprintf(to + n, 8, "e%d", (int)p->exp);
	return n;
}

static bool parse(struct rf_arena *a, struct rf_str text, bool copy, struct rf_rv *ret)
{
	struct rf_rv_number *n;
	struct parts p;
	char *room;
	bool apart; /* the digits do not stand in a row in the text */

	if (read_small(text, &ret->i)) {
		*ret = rf_rv_int(ret->i);
		return true;
	}
	if (!read_parts(text, &p))
		return false;
	if (!p.strict) {
		char strict[TEXT_MAX];

		return parse(a, rf_str_n(strict, write_strict(strict, &p)), true, ret);
	}
	apart = p.fraction.n > 0;
	n = rf_arena_try(a,
			 sizeof(*n) + (copy ? text.n : 0) + (apart ? p.whole.n + p.fraction.n : 0));
	if (n == NULL)
		return false;
	room = (char *)(n + 1);
	n->negative = p.negative;
	n->text = text;
	if (copy) {
		memcpy(room, text.p, text.n);
		n->text.p = room;
		room += text.n;
	}
	if (apart) {
		memcpy(room, p.whole.p, p.whole.n);
		memcpy(room + p.whole.n, p.fraction.p, p.fraction.n);
	} else {
		room = (char *)n->text.p + p.negative;
	}
	fill(n, room, p.whole.n + p.fraction.n, (int32_t)p.whole.n + p.exp);
	/* A plain integer of 19 digits that fits; -0 keeps its sign. */
	*ret = !p.point && !p.exponent && n->near && n->i != 0 ? rf_rv_int(n->i) : boxed(n);
	return true;
}

bool rf_rn_parse(struct rf_arena *a, struct rf_str text, struct rf_rv *ret)
{
	return parse(a, text, true, ret);
}

bool rf_rn_parse_in_place(struct rf_arena *a, struct rf_str text, struct rf_rv *ret)
{
	return parse(a, text, false, ret);
}

/* --- looking --- */

static int cmp_digits(const struct rf_rv_number *x, const struct rf_rv_number *y)
{
	int c;

	if (x->point != y->point)
		return x->point < y->point ? -1 : 1;
	c = memcmp(x->digits, y->digits, RF_MIN(x->n_digits, y->n_digits));
	if (c != 0)
		return c < 0 ? -1 : 1;
	return x->n_digits < y->n_digits ? -1 : x->n_digits > y->n_digits;
}

static int sign_of(const struct rf_rv_number *n)
{
	return n->n_digits == 0 ? 0 : n->negative ? -1 : 1;
}

static int cmp_boxed(const struct rf_rv_number *x, const struct rf_rv_number *y)
{
	int sx = sign_of(x), sy = sign_of(y);

	if (sx != sy)
		return sx < sy ? -1 : 1;
	return sx == 0 ? 0 : sx * cmp_digits(x, y);
}

static int cmp_int_boxed(int64_t i, const struct rf_rv_number *n)
{
	if (!n->near)
		return n->negative ? 1 : -1;
	if (i != n->i)
		return i < n->i ? -1 : 1;
	if (n->is_int)
		return 0;
	return n->negative ? 1 : -1; /* what was cut off decides */
}

int rf_rn_cmp(struct rf_rv a, struct rf_rv b)
{
	if (!a.big && !b.big)
		return a.i < b.i ? -1 : a.i > b.i;
	if (!a.big)
		return cmp_int_boxed(a.i, b.number);
	if (!b.big)
		return -cmp_int_boxed(b.i, a.number);
	return cmp_boxed(a.number, b.number);
}

bool rf_rn_is_whole(struct rf_rv n)
{
	return !n.big || n.number->is_int;
}

bool rf_rn_written_int(struct rf_rv n, int64_t *ret)
{
	struct rf_str t;

	if (!n.big) {
		*ret = n.i;
		return true;
	}
	t = rf_str_skip(n.number->text, n.number->negative ? 1 : 0);
	if (t.n > 19 || memchr(t.p, 'e', t.n) != NULL || memchr(t.p, 'E', t.n) != NULL)
		return false;
	return rf_rn_int64(n, ret);
}

bool rf_rn_int64(struct rf_rv n, int64_t *ret)
{
	if (!n.big) {
		*ret = n.i;
		return true;
	}
	if (!n.number->near || !n.number->is_int)
		return false;
	*ret = n.number->i;
	return true;
}

void rf_rn_print(struct rf_buf *out, struct rf_rv n)
{
	char text[24], *p = text + sizeof(text);
	uint64_t u;

	if (n.big) {
		rf_buf_add(out, n.number->text);
		return;
	}
	u = n.i < 0 ? 0 - (uint64_t)n.i : (uint64_t)n.i;
	do
		*--p = (char)('0' + u % 10);
	while ((u /= 10) != 0);
	if (n.i < 0)
		*--p = '-';
	rf_buf_add(out, rf_str_n(p, (size_t)(text + sizeof(text) - p)));
}

double rf_rn_double(struct rf_rv n)
{
	char text[TEXT_MAX];
	double d;

	if (!n.big)
		return (double)n.i;
	if (n.number->n_digits == 0)
		return n.number->negative ? -0.0 : 0.0;
	/* Without a point, so that no locale reads it differently. */
	snprintf(text, sizeof(text), "%.*se%d", (int)n.number->n_digits, n.number->digits,
		 (int)(n.number->point - (int32_t)n.number->n_digits));
	d = strtod(text, NULL);
	return n.number->negative ? -d : d;
}

/* --- whole numbers --- */

static enum rf_rn_result to_big(struct rf_rv v, struct rf_big *ret)
{
	const struct rf_rv_number *n = v.number;

	if (!v.big) {
		rf_big_set_i64(ret, v.i);
		return RF_RN_OK;
	}
	if (!n->is_int)
		return RF_RN_NOT_WHOLE;
	if (n->point > RF_RN_DIGITS_MAX)
		return RF_RN_FULL;
	rf_big_set_digits(ret, n->digits, n->n_digits);
	for (uint32_t zeros = (uint32_t)n->point - n->n_digits, some; zeros > 0; zeros -= some) {
		uint64_t ten = 1;

		some = RF_MIN(zeros, 19u);
		for (uint32_t i = 0; i < some; i++)
			ten *= 10;
		rf_big_mul_add(ret, ten, 0);
	}
	ret->negative = n->negative && ret->n > 0;
	return RF_RN_OK;
}

/* Destroys b. */
static enum rf_rn_result from_big(struct rf_arena *a, struct rf_big *b, struct rf_rv *ret)
{
	char text[TEXT_MAX], *p;
	int64_t i;

	if (rf_big_to_i64(b, &i)) {
		*ret = rf_rv_int(i);
		return RF_RN_OK;
	}
	if (rf_big_bits(b) > BITS_MAX)
		return RF_RN_FULL;
	p = rf_big_format(b, 10, false, text, sizeof(text));
	return rf_rn_parse(a, rf_str_n(p, (size_t)(text + sizeof(text) - p)), ret) ? RF_RN_OK
										   : RF_RN_FULL;
}

bool rf_rn_from_uint(struct rf_arena *a, uint64_t u, struct rf_rv *ret)
{
	RF_BIG_LOCAL b;

	rf_big_set_u64(&b, u);
	return from_big(a, &b, ret) == RF_RN_OK;
}

bool rf_rn_format_int(struct rf_buf *out, struct rf_rv whole, int base, bool upper)
{
	RF_BIG_LOCAL b;
	char text[BITS_MAX + 16], *p;

	if (to_big(whole, &b) != RF_RN_OK)
		return false;
	p = rf_big_format(&b, (unsigned)base, upper, text, sizeof(text));
	if (p == NULL)
		return false;
	rf_buf_add(out, rf_str_n(p, (size_t)(text + sizeof(text) - p)));
	return true;
}

/* --- 64 bits of mantissa --- */

/* m times 2^e; the top bit of m is set, or m is 0. */
struct flt {
	bool negative;
	int32_t e;
	uint64_t m;
};

/* hi:lo times 2^e, rounded to nearest, ties to even; lost: there was something below. */
static struct flt rounded(bool negative, u128 v, int32_t e, bool lost)
{
	struct flt f = { .negative = negative };
	uint64_t hi = (uint64_t)(v >> 64), low;
	int zeros;

	if (v == 0)
		return f;
	zeros = hi != 0 ? __builtin_clzll(hi) : 64 + __builtin_clzll((uint64_t)v);
	v <<= zeros;
	f.m = (uint64_t)(v >> 64);
	f.e = e + 64 - zeros;
	low = (uint64_t)v;
	if (low > (uint64_t)1 << 63 || (low == (uint64_t)1 << 63 && (lost || (f.m & 1) != 0))) {
		if (++f.m == 0) {
			f.m = (uint64_t)1 << 63;
			f.e++;
		}
	}
	return f;
}

static struct flt from_u64(uint64_t u)
{
	return rounded(false, u, 0, false);
}

/* The top 128 bits are enough, and whether anything was below. */
static struct flt from_magnitude(struct rf_big *b, bool negative, int32_t e, bool lost)
{
	uint32_t bits = rf_big_bits(b);
	bool more = false;

	if (bits > 128) {
		rf_big_shr(b, bits - 128, &more);
		e += (int32_t)(bits - 128);
	}
	return rounded(negative, (b->n > 1 ? (u128)b->d[1] << 64 : 0) | (b->n > 0 ? b->d[0] : 0), e,
		       lost || more);
}

static struct flt flt_mul(struct flt x, struct flt y)
{
	return rounded(x.negative != y.negative, (u128)x.m * y.m, x.e + y.e, false);
}

/* y is not 0. */
static struct flt flt_div(struct flt x, struct flt y)
{
	u128 top = (u128)x.m << 64, q, rest;
	bool negative = x.negative != y.negative;

	if (x.m == 0)
		return (struct flt){ .negative = negative };
	/* 64 or 65 bits of quotient, then 63 more: past any tie but the exact one. */
	q = top / y.m;
	rest = top % y.m;
	rest <<= 63;
	q = (q << 63) + rest / y.m;
	return rounded(negative, q, x.e - y.e - 127, rest % y.m != 0);
}

static struct flt flt_add(struct flt x, struct flt y)
{
	u128 a, b;
	int32_t apart;
	bool lost = false;

	if (x.m == 0 || y.m == 0)
		return x.m != 0	  ? x
		       : y.m != 0 ? y
				  : (struct flt){ .negative = x.negative && y.negative };
	if (x.e < y.e || (x.e == y.e && x.m < y.m)) {
		struct flt t = x;

		x = y;
		y = t;
	}
	a = (u128)x.m << 63;
	b = (u128)y.m << 63;
	apart = x.e - y.e;
	if (apart >= 127) {
		b = 0;
		lost = true;
	} else if (apart > 0) {
		lost = (b & (((u128)1 << apart) - 1)) != 0;
		b >>= apart;
	}
	if (x.negative == y.negative)
		return rounded(x.negative, a + b, x.e - 63, lost);
	a -= b;
	if (a == 0 && !lost)
		return (struct flt){ 0 };
	/* What was lost of b is missing from a: a little less. */
	return rounded(x.negative, lost ? a - 1 : a, x.e - 63, lost);
}

/* --- decimal to binary and back --- */

static struct flt flt_of_boxed(const struct rf_rv_number *n)
{
	int32_t ten = n->point - (int32_t)n->n_digits;
	RF_BIG_LOCAL b, p;
	struct flt f;

	if (n->n_digits == 0)
		return (struct flt){ .negative = n->negative };
	if (n->n_digits <= 19 && ten >= -27 && ten <= 0) {
		uint64_t u = 0, five = 1;

		for (uint32_t i = 0; i < n->n_digits; i++)
			u = u * 10 + (uint64_t)(n->digits[i] - '0');
		for (int32_t i = ten; i < 0; i++)
			five *= 5;
		f = flt_div(from_u64(u), from_u64(five));
		f.e += ten;
		f.negative = n->negative;
		return f;
	}
	rf_big_set_digits(&b, n->digits, n->n_digits);
	rf_big_pow5(&p, (uint32_t)(ten < 0 ? -ten : ten));
	if (ten >= 0) {
		RF_BIG_LOCAL product;

		rf_big_mul(&product, &b, &p);
		return from_magnitude(&product, n->negative, ten, false);
	} else {
		RF_BIG_LOCAL q, rest;
		uint32_t want = rf_big_bits(&p) + 66, have = rf_big_bits(&b);
		uint32_t shift = want > have ? want - have : 0;

		rf_big_shl(&b, shift);
		rf_big_divmod(&q, &rest, &b, &p);
		return from_magnitude(&q, n->negative, ten - (int32_t)shift, rest.n > 0);
	}
}

static struct flt flt_of(struct rf_rv v)
{
	struct flt f;

	if (v.big)
		return flt_of_boxed(v.number);
	f = from_u64(v.i < 0 ? 0 - (uint64_t)v.i : (uint64_t)v.i);
	f.negative = v.i < 0;
	return f;
}

/* The first digits of a positive number: 0.DIGITS times 10^point, and whether there is more. */
#define FIRST 24
struct decimal {
	char digit[FIRST + 2];
	int n; /* zeros at the end do not count */
	bool more;
	int32_t point;
};

static char digit_at(const struct decimal *d, int i)
{
	return i < d->n ? d->digit[i] : '0';
}

/* Whether digit i is the last one. */
static bool ends_at(const struct decimal *d, int i)
{
	return !d->more && i + 1 == d->n;
}

/* m times 2^e cut to FIRST or FIRST + 1 digits. tens: about its decimal exponent. */
static void to_decimal(u128 m, int32_t e, int32_t tens, struct decimal *d)
{
	RF_BIG_LOCAL b, q;
	int32_t up = FIRST - tens; /* times 10^up, then the whole part is what is wanted */
	u128 v;

	rf_big_set_u64(&b, (uint64_t)(m >> 64));
	rf_big_shl(&b, 64);
	if (b.n == 0)
		rf_big_set_u64(&b, (uint64_t)m);
	else
		b.d[0] = (uint64_t)m;
	d->more = false;
	e += up;
	if (up >= 0) {
		RF_BIG_LOCAL p;

		rf_big_pow5(&p, (uint32_t)up);
		rf_big_mul(&q, &b, &p);
		if (e >= 0)
			rf_big_shl(&q, (uint32_t)e);
		else
			rf_big_shr(&q, (uint32_t)-e, &d->more);
	} else {
		RF_BIG_LOCAL p, rest;

		rf_big_pow5(&p, (uint32_t)-up);
		if (e >= 0)
			rf_big_shl(&b, (uint32_t)e);
		else
			rf_big_shl(&p, (uint32_t)-e);
		rf_big_divmod(&q, &rest, &b, &p);
		d->more = rest.n > 0;
	}
	v = (q.n > 1 ? (u128)q.d[1] << 64 : 0) | (q.n > 0 ? q.d[0] : 0);
	d->n = 0;
	for (u128 t = v; t != 0; t /= 10)
		d->n++;
	d->point = d->n - up;
	for (int i = d->n; i-- > 0; v /= 10)
		d->digit[i] = (char)('0' + (int)(v % 10));
	while (!d->more && d->n > 0 && d->digit[d->n - 1] == '0')
		d->n--;
}

static void cut(struct decimal *d, int n)
{
	d->more = false;
	d->n = RF_MIN(d->n, n);
	while (d->n > 0 && d->digit[d->n - 1] == '0')
		d->n--;
}

static void cut_up(struct decimal *d, int n)
{
	while (n > 0 && d->digit[n - 1] == '9')
		n--;
	d->more = false;
	if (n == 0) {
		d->digit[0] = '1';
		d->n = 1;
		d->point++;
		return;
	}
	d->digit[n - 1]++;
	d->n = n;
}

static void cut_nearest(struct decimal *d, int n)
{
	char next = digit_at(d, n);

	if (n >= d->n && !d->more)
		return;
	if (next > '5' || (next == '5' && (!ends_at(d, n) || (d->digit[n - 1] - '0') % 2 != 0)))
		cut_up(d, n);
	else
		cut(d, n);
}

/* The shortest digits that read back as the same 64 bits, by the same steps as Go's: digits up to where
 * they differ from those of the bounds half a unit away. */
static void shortest(struct flt f, struct decimal *d)
{
	int32_t tens = (int32_t)floor((f.e + 63) * 0.30102999566398120);
	u128 m = (u128)f.m << 1;
	struct decimal lower, upper;
	bool inclusive = (f.m & 1) == 0;

	to_decimal(m, f.e - 1, tens, d);
	to_decimal(m - 1, f.e - 1, tens, &lower);
	to_decimal(m + 1, f.e - 1, tens, &upper);
	for (int i = 0; i < d->n; i++) {
		char l = digit_at(&lower, i), c = d->digit[i], u = digit_at(&upper, i);
		bool down = l != c || (inclusive && ends_at(&lower, i));
		bool up = c != u && (inclusive || c + 1 < u || upper.more || i + 1 < upper.n);

		if (down && up)
			cut_nearest(d, i + 1);
		else if (down)
			cut(d, i + 1);
		else if (up)
			cut_up(d, i + 1);
		if (down || up)
			return;
	}
}

static bool flt_is_whole(struct flt f)
{
	return f.m == 0 || f.e >= 0 || (f.e > -64 && (f.m & (((uint64_t)1 << -f.e) - 1)) == 0);
}

/* 123.45 or 123000 */
static size_t write_plain(char *to, const struct decimal *d)
{
	size_t n = 0;

	if (d->point <= 0)
		to[n++] = '0';
	for (int32_t i = 0; i < d->point; i++)
		to[n++] = digit_at(d, i);
	if (d->n <= d->point)
		return n;
	to[n++] = '.';
	for (int32_t i = d->point; i < d->n; i++)
		to[n++] = i < 0 ? '0' : d->digit[i];
	return n;
}

/* 1.2345e+06 */
static size_t write_scientific(char *to, const struct decimal *d)
{
	size_t n = 0;
	int32_t e = d->point - 1;

	to[n++] = d->digit[0];
	if (d->n > 1)
		to[n++] = '.';
	for (int i = 1; i < d->n; i++)
		to[n++] = d->digit[i];
	return n + (size_t)sprintf(to + n, "e%c%02d", e < 0 ? '-' : '+', (int)(e < 0 ? -e : e));
}

/* As Go writes it: whole numbers in full, others with six digits before the point at most. */
static enum rf_rn_result from_flt(struct rf_arena *a, struct flt f, struct rf_rv *ret)
{
	char text[TEXT_MAX];
	size_t n = 0;
	struct decimal d;
	bool whole = flt_is_whole(f);

	if (whole && f.m != 0 && f.e <= -1) { /* below 2^63 */
		int64_t i = (int64_t)(f.m >> -f.e);

		*ret = rf_rv_int(f.negative ? -i : i);
		return RF_RN_OK;
	}
	if (f.m == 0 && !f.negative) {
		*ret = rf_rv_int(0);
		return RF_RN_OK;
	}
	/* 10^1000 and 10^-10000, roughly; what is near is refused when it is read back. */
	if (f.m != 0 && (f.e > BITS_MAX || f.e < -33400))
		return RF_RN_FULL;
	if (f.negative)
		text[n++] = '-';
	if (f.m == 0) {
		text[n++] = '0';
	} else {
		shortest(f, &d);
		if (!whole && (d.point - 1 < -4 || d.point - 1 >= 6))
			n += write_scientific(text + n, &d);
		else
			n += write_plain(text + n, &d);
	}
	return rf_rn_parse(a, rf_str_n(text, n), ret) ? RF_RN_OK : RF_RN_FULL;
}

/* The digits of "%.*e" without its point, whatever the locale calls it. */
static void read_printed(const char *text, struct decimal *d)
{
	*d = (struct decimal){ .n = 0 };
	for (; *text != '\0' && *text != 'e'; text++)
		if (*text >= '0' && *text <= '9')
			d->digit[d->n++] = *text;
	d->point = (int32_t)strtol(text + 1, NULL, 10) + 1;
	cut(d, d->n);
}

bool rf_rn_from_double(struct rf_arena *a, double v, struct rf_rv *ret)
{
	char text[64];
	struct decimal d;
	size_t n = 0;

	if (!isfinite(v))
		return false;
	if (v == floor(v) && fabs(v) < 9223372036854775808.0) {
		*ret = rf_rv_int((int64_t)v);
		return true;
	}
	/* 15 digits survive any double but the smallest ones, which have fewer. */
	for (int digits = fabs(v) < DBL_MIN ? 0 : 14; digits <= 16; digits++) {
		snprintf(text, sizeof(text), "%.*e", digits, fabs(v));
		if (strtod(text, NULL) == fabs(v))
			break;
	}
	read_printed(text, &d);
	if (v < 0)
		text[n++] = '-';
	if (d.point - 1 < -4 || d.point - 1 >= 21)
		n += write_scientific(text + n, &d);
	else
		n += write_plain(text + n, &d);
	return rf_rn_parse(a, rf_str_n(text, n), ret);
}

/* --- arithmetic --- */

typedef bool big_op(struct rf_big *r, const struct rf_big *x, const struct rf_big *y);

static enum rf_rn_result exact(struct rf_arena *a, big_op *op, struct rf_rv x, struct rf_rv y,
			       struct rf_rv *ret)
{
	RF_BIG_LOCAL bx, by, r;
	enum rf_rn_result rc = to_big(x, &bx);

	if (rc == RF_RN_OK)
		rc = to_big(y, &by);
	if (rc != RF_RN_OK)
		return rc;
	if (!op(&r, &bx, &by))
		return RF_RN_FULL;
	return from_big(a, &r, ret);
}

static bool both_small(struct rf_rv x, struct rf_rv y)
{
	return !x.big && !y.big;
}

static bool both_whole(struct rf_rv x, struct rf_rv y)
{
	return rf_rn_is_whole(x) && rf_rn_is_whole(y);
}

enum rf_rn_result rf_rn_add(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret)
{
	int64_t i;

	if (both_small(x, y) && !__builtin_add_overflow(x.i, y.i, &i)) {
		*ret = rf_rv_int(i);
		return RF_RN_OK;
	}
	if (both_whole(x, y))
		return exact(a, rf_big_add, x, y, ret);
	return from_flt(a, flt_add(flt_of(x), flt_of(y)), ret);
}

enum rf_rn_result rf_rn_sub(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret)
{
	struct flt f;
	int64_t i;

	if (both_small(x, y) && !__builtin_sub_overflow(x.i, y.i, &i)) {
		*ret = rf_rv_int(i);
		return RF_RN_OK;
	}
	if (both_whole(x, y))
		return exact(a, rf_big_sub, x, y, ret);
	f = flt_of(y);
	f.negative = !f.negative;
	return from_flt(a, flt_add(flt_of(x), f), ret);
}

enum rf_rn_result rf_rn_mul(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret)
{
	int64_t i;

	if (both_small(x, y) && !__builtin_mul_overflow(x.i, y.i, &i)) {
		*ret = rf_rv_int(i);
		return RF_RN_OK;
	}
	if (both_whole(x, y))
		return exact(a, rf_big_mul, x, y, ret);
	return from_flt(a, flt_mul(flt_of(x), flt_of(y)), ret);
}

enum rf_rn_result rf_rn_div(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret)
{
	struct flt by;

	if (both_small(x, y) && y.i != 0 && x.i != 0 && y.i != -1 && x.i % y.i == 0) {
		*ret = rf_rv_int(x.i / y.i);
		return RF_RN_OK;
	}
	by = flt_of(y);
	if (by.m == 0)
		return RF_RN_DIVIDE_BY_ZERO;
	return from_flt(a, flt_div(flt_of(x), by), ret);
}

static bool big_rem(struct rf_big *r, const struct rf_big *x, const struct rf_big *y)
{
	return rf_big_divmod(NULL, r, x, y);
}

enum rf_rn_result rf_rn_rem(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret)
{
	if (!both_whole(x, y))
		return RF_RN_NOT_WHOLE;
	if (y.big ? y.number->n_digits == 0 : y.i == 0)
		return RF_RN_DIVIDE_BY_ZERO;
	if (both_small(x, y)) {
		*ret = rf_rv_int(y.i == -1 ? 0 : x.i % y.i);
		return RF_RN_OK;
	}
	return exact(a, big_rem, x, y, ret);
}

enum rf_rn_result rf_rn_abs(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret)
{
	struct flt f;

	if (!x.big && x.i != INT64_MIN) {
		*ret = rf_rv_int(x.i < 0 ? -x.i : x.i);
		return RF_RN_OK;
	}
	f = flt_of(x);
	f.negative = false;
	return from_flt(a, f, ret);
}

/* Towards zero. */
static enum rf_rn_result from_cut(struct rf_arena *a, struct flt f, struct rf_rv *ret)
{
	RF_BIG_LOCAL b;

	if (f.e > BITS_MAX)
		return RF_RN_FULL;
	rf_big_set_u64(&b, f.e >= 0 ? f.m : f.e > -64 ? f.m >> -f.e : 0);
	if (f.e > 0)
		rf_big_shl(&b, (uint32_t)f.e);
	b.negative = f.negative && b.n > 0;
	return from_big(a, &b, ret);
}

enum rf_rn_result rf_rn_round(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret)
{
	struct flt f, half = { .m = (uint64_t)1 << 63, .e = -64 };

	if (!x.big) {
		*ret = x;
		return RF_RN_OK;
	}
	f = flt_of(x);
	half.negative = f.negative;
	return from_cut(a, flt_add(f, half), ret);
}

enum rf_rn_result rf_rn_trunc(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret)
{
	if (!x.big) {
		*ret = x;
		return RF_RN_OK;
	}
	return from_cut(a, flt_of(x), ret);
}

/* OPA asks the sign of the number cut to a whole one, and 0 has none: so between -1 and 0 it takes the
 * step for positive numbers. Policies see that, so it is kept. */
static enum rf_rn_result step_from_cut(struct rf_arena *a, struct rf_rv x, bool negative, int by,
				       struct rf_rv *ret)
{
	struct flt f = flt_of(x);
	enum rf_rn_result rc = from_cut(a, f, ret);

	if (rc != RF_RN_OK || flt_is_whole(f) || (ret->i < 0) != negative)
		return rc;
	*ret = rf_rv_int(ret->i + by); /* not whole, so far below 2^63 */
	return RF_RN_OK;
}

enum rf_rn_result rf_rn_ceil(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret)
{
	return x.big ? step_from_cut(a, x, false, 1, ret) : rf_rn_round(a, x, ret);
}

enum rf_rn_result rf_rn_floor(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret)
{
	return x.big ? step_from_cut(a, x, true, -1, ret) : rf_rn_round(a, x, ret);
}

/* --- bits --- */

static enum rf_rn_result shift_left(struct rf_arena *a, struct rf_big *b, const struct rf_big *by,
				    struct rf_rv *ret)
{
	if (b->n > 0 && (by->n > 1 || (by->n == 1 && by->d[0] > BITS_MAX)))
		return RF_RN_FULL;
	if (b->n > 0 && by->n > 0 && !rf_big_shl(b, (uint32_t)by->d[0]))
		return RF_RN_FULL;
	return from_big(a, b, ret);
}

/* Towards minus infinity, as two's complement has it. */
static enum rf_rn_result shift_right(struct rf_arena *a, struct rf_big *b, const struct rf_big *by,
				     struct rf_rv *ret)
{
	RF_BIG_LOCAL one;
	bool negative = b->negative, lost;
	uint32_t k = by->n == 0	 ? 0
		     : by->n > 1 ? UINT32_MAX
				 : (uint32_t)RF_MIN(by->d[0], (uint64_t)UINT32_MAX);

	rf_big_shr(b, k, &lost);
	if (negative && lost) {
		rf_big_set_u64(&one, 1);
		rf_big_sub(b, b, &one);
	}
	return from_big(a, b, ret);
}

enum rf_rn_result rf_rn_bits(struct rf_arena *a, char op, struct rf_rv x, struct rf_rv y,
			     struct rf_rv *ret)
{
	RF_BIG_LOCAL bx, by;
	enum rf_rn_result rc;

	if (!rf_rn_is_whole(x) || (op != '~' && !rf_rn_is_whole(y)))
		return RF_RN_NOT_WHOLE;
	rc = to_big(x, &bx);
	rf_big_set_i64(&by, -1);
	if (rc == RF_RN_OK && op != '~')
		rc = to_big(y, &by);
	if (rc != RF_RN_OK)
		return rc;
	if (op == '<' || op == '>') {
		if (by.negative)
			return RF_RN_NEGATIVE;
		return op == '<' ? shift_left(a, &bx, &by, ret) : shift_right(a, &bx, &by, ret);
	}
	if (!rf_big_bitwise(&bx, op == '~' ? '^' : op, &bx, &by)) /* ~x is x ^ -1 */
		return RF_RN_FULL;
	return from_big(a, &bx, ret);
}
