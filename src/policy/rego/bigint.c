#include "policy/rego/bigint.h"

typedef unsigned __int128 u128;

static void trim(struct rf_big *b)
{
	while (b->n > 0 && b->d[b->n - 1] == 0)
		b->n--;
	if (b->n == 0)
		b->negative = false;
}

void rf_big_set_u64(struct rf_big *b, uint64_t u)
{
	b->negative = false;
	b->n = u != 0;
	b->d[0] = u;
}

void rf_big_set_i64(struct rf_big *b, int64_t i)
{
	rf_big_set_u64(b, i < 0 ? 0 - (uint64_t)i : (uint64_t)i);
	b->negative = i < 0;
}

void rf_big_set(struct rf_big *b, const struct rf_big *from)
{
	b->negative = from->negative;
	b->n = from->n;
	memmove(b->d, from->d, from->n * sizeof(b->d[0]));
}

bool rf_big_to_i64(const struct rf_big *b, int64_t *ret)
{
	uint64_t u = b->n > 0 ? b->d[0] : 0;

	if (b->n > 1 || u > (uint64_t)INT64_MAX + b->negative)
		return false;
	*ret = b->negative ? (int64_t)(0 - u) : (int64_t)u;
	return true;
}

uint32_t rf_big_bits(const struct rf_big *b)
{
	return b->n == 0 ? 0 : b->n * 64 - (uint32_t)__builtin_clzll(b->d[b->n - 1]);
}

/* --- sums --- */

static int cmp_magnitude(const struct rf_big *x, const struct rf_big *y)
{
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	for (uint32_t i = x->n; i-- > 0;)
		if (x->d[i] != y->d[i])
			return x->d[i] < y->d[i] ? -1 : 1;
	return 0;
}

int rf_big_cmp(const struct rf_big *x, const struct rf_big *y)
{
	int c;

	if (x->negative != y->negative)
		return x->negative ? -1 : 1;
	c = cmp_magnitude(x, y);
	return x->negative ? -c : c;
}

static bool add_magnitude(struct rf_big *r, const struct rf_big *x, const struct rf_big *y)
{
	uint32_t n = RF_MAX(x->n, y->n), xn = x->n, yn = y->n;
	u128 sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += (u128)(i < xn ? x->d[i] : 0) + (i < yn ? y->d[i] : 0);
		r->d[i] = (uint64_t)sum;
		sum >>= 64;
	}
	r->n = n;
	if (sum == 0)
		return true;
	if (n == RF_BIG_LIMBS)
		return false;
	r->d[r->n++] = (uint64_t)sum;
	return true;
}

/* |x| >= |y| */
static void sub_magnitude(struct rf_big *r, const struct rf_big *x, const struct rf_big *y)
{
	uint32_t xn = x->n, yn = y->n;
	uint64_t borrow = 0;

	for (uint32_t i = 0; i < xn; i++) {
		u128 diff = (u128)x->d[i] - (i < yn ? y->d[i] : 0) - borrow;

		r->d[i] = (uint64_t)diff;
		borrow = (uint64_t)(diff >> 64) & 1;
	}
	r->n = xn;
}

static bool add_signed(struct rf_big *r, const struct rf_big *x, const struct rf_big *y,
		       bool y_negative)
{
	bool x_negative = x->negative;

	if (x_negative == y_negative) {
		if (!add_magnitude(r, x, y))
			return false;
		r->negative = x_negative;
	} else if (cmp_magnitude(x, y) >= 0) {
		sub_magnitude(r, x, y);
		r->negative = x_negative;
	} else {
		sub_magnitude(r, y, x);
		r->negative = y_negative;
	}
	trim(r);
	return true;
}

bool rf_big_add(struct rf_big *r, const struct rf_big *x, const struct rf_big *y)
{
	return add_signed(r, x, y, y->negative);
}

bool rf_big_sub(struct rf_big *r, const struct rf_big *x, const struct rf_big *y)
{
	return add_signed(r, x, y, !y->negative);
}

/* --- products --- */

bool rf_big_mul_add(struct rf_big *b, uint64_t m, uint64_t add)
{
	u128 carry = add;

	for (uint32_t i = 0; i < b->n; i++) {
		carry += (u128)b->d[i] * m;
		b->d[i] = (uint64_t)carry;
		carry >>= 64;
	}
	if (carry != 0) {
		if (b->n == RF_BIG_LIMBS)
			return false;
		b->d[b->n++] = (uint64_t)carry;
	}
	trim(b);
	return true;
}

bool rf_big_mul(struct rf_big *r, const struct rf_big *x, const struct rf_big *y)
{
	if (x->n + y->n > RF_BIG_LIMBS)
		return false;
	r->n = x->n + y->n;
	memset(r->d, 0, r->n * sizeof(r->d[0]));
	for (uint32_t i = 0; i < x->n; i++) {
		u128 carry = 0;

		for (uint32_t j = 0; j < y->n; j++) {
			carry += (u128)x->d[i] * y->d[j] + r->d[i + j];
			r->d[i + j] = (uint64_t)carry;
			carry >>= 64;
		}
		r->d[i + y->n] = (uint64_t)carry;
	}
	r->negative = x->negative != y->negative;
	trim(r);
	return true;
}

bool rf_big_pow5(struct rf_big *r, uint32_t k)
{
	static const uint64_t pow5_27 = 7450580596923828125ULL;
	RF_BIG_LOCAL half;
	uint64_t small = 1;

	if (k <= 27 * 8) {
		rf_big_set_u64(r, 1);
		for (; k >= 27; k -= 27)
			if (!rf_big_mul_add(r, pow5_27, 0))
				return false;
		for (; k > 0; k--)
			small *= 5;
		return rf_big_mul_add(r, small, 0);
	}
	if (!rf_big_pow5(&half, k / 2) || !rf_big_mul(r, &half, &half))
		return false;
	return k % 2 == 0 || rf_big_mul_add(r, 5, 0);
}

/* --- shifts --- */

bool rf_big_shl(struct rf_big *b, uint32_t k)
{
	uint32_t limbs = k / 64, bits = k % 64;

	if (b->n == 0)
		return true;
	if ((uint64_t)rf_big_bits(b) + k > (uint64_t)RF_BIG_LIMBS * 64)
		return false;
	if (bits != 0) {
		uint64_t out = b->d[b->n - 1] >> (64 - bits);

		for (uint32_t i = b->n - 1; i > 0; i--)
			b->d[i] = b->d[i] << bits | b->d[i - 1] >> (64 - bits);
		b->d[0] <<= bits;
		if (out != 0)
			b->d[b->n++] = out;
	}
	if (limbs != 0) {
		memmove(b->d + limbs, b->d, b->n * sizeof(b->d[0]));
		memset(b->d, 0, limbs * sizeof(b->d[0]));
		b->n += limbs;
	}
	return true;
}

void rf_big_shr(struct rf_big *b, uint32_t k, bool *ret_lost)
{
	uint32_t limbs = RF_MIN(k / 64, b->n), bits = k % 64;
	bool lost = false;

	for (uint32_t i = 0; i < limbs; i++)
		lost |= b->d[i] != 0;
	b->n -= limbs;
	memmove(b->d, b->d + limbs, b->n * sizeof(b->d[0]));
	if (bits != 0 && b->n > 0) {
		lost |= b->d[0] << (64 - bits) != 0;
		for (uint32_t i = 0; i + 1 < b->n; i++)
			b->d[i] = b->d[i] >> bits | b->d[i + 1] << (64 - bits);
		b->d[b->n - 1] >>= bits;
	}
	trim(b);
	if (ret_lost != NULL)
		*ret_lost = lost;
}

/* --- division --- */

/* The magnitude by a word; returns the remainder. */
static uint64_t div_word(struct rf_big *b, uint64_t by)
{
	u128 rest = 0;

	for (uint32_t i = b->n; i-- > 0;) {
		rest = rest << 64 | b->d[i];
		b->d[i] = (uint64_t)(rest / by);
		rest %= by;
	}
	trim(b);
	return (uint64_t)rest;
}

/* One word of the quotient: how often v goes into the v->n + 1 words at u, and takes that away. v's top
 * bit is set (Knuth's algorithm D). */
static uint64_t divide_step(uint64_t *u, const struct rf_big *v)
{
	uint32_t n = v->n;
	u128 top = (u128)u[n] << 64 | u[n - 1];
	u128 q = u[n] >= v->d[n - 1] ? UINT64_MAX : top / v->d[n - 1];
	u128 rest = top - q * v->d[n - 1];
	u128 carry = 0;
	uint64_t borrow = 0;

	while (rest <= UINT64_MAX && n > 1 && q * v->d[n - 2] > (rest << 64 | u[n - 2])) {
		q--;
		rest += v->d[n - 1];
	}
	for (uint32_t i = 0; i <= n; i++) {
		u128 diff;

		carry += i < n ? q * v->d[i] : 0;
		diff = (u128)u[i] - (uint64_t)carry - borrow;
		carry >>= 64;
		u[i] = (uint64_t)diff;
		borrow = (uint64_t)(diff >> 64) & 1;
	}
	if (borrow == 0)
		return (uint64_t)q;
	carry = 0;
	for (uint32_t i = 0; i < n; i++) {
		carry += (u128)u[i] + v->d[i];
		u[i] = (uint64_t)carry;
		carry >>= 64;
	}
	u[n] += (uint64_t)carry;
	return (uint64_t)q - 1;
}

bool rf_big_divmod(struct rf_big *q, struct rf_big *r, const struct rf_big *x,
		   const struct rf_big *y)
{
	RF_BIG_LOCAL v;
	uint32_t shift = (uint32_t)__builtin_clzll(y->d[y->n - 1]), steps;

	rf_big_set(r, x);
	if (q != NULL)
		rf_big_set_u64(q, 0);
	if (cmp_magnitude(x, y) < 0)
		return true;
	if (x->n == RF_BIG_LIMBS) /* one word of room above */
		return false;
	rf_big_set(&v, y);
	rf_big_shl(&v, shift);
	rf_big_shl(r, shift);
	if (r->n == x->n)
		r->d[r->n++] = 0;
	steps = r->n - v.n;
	for (uint32_t i = steps; i-- > 0;) {
		uint64_t word = divide_step(r->d + i, &v);

		if (q != NULL)
			q->d[i] = word;
	}
	r->n = v.n;
	r->negative = x->negative;
	trim(r);
	rf_big_shr(r, shift, NULL);
	if (q != NULL) {
		q->n = steps;
		q->negative = x->negative != y->negative;
		trim(q);
	}
	return true;
}

/* --- bits --- */

/* Word i of x as two's complement; *carry begins as 1. */
static uint64_t complement_word(const struct rf_big *x, uint32_t i, uint64_t *carry)
{
	uint64_t w = i < x->n ? x->d[i] : 0, sum;

	if (!x->negative)
		return w;
	sum = ~w + *carry;
	*carry = *carry != 0 && sum == 0;
	return sum;
}

static uint64_t combine(char op, uint64_t x, uint64_t y)
{
	return op == '&' ? x & y : op == '|' ? x | y : x ^ y;
}

bool rf_big_bitwise(struct rf_big *r, char op, const struct rf_big *x, const struct rf_big *y)
{
	uint32_t n = RF_MAX(x->n, y->n) + 1;
	bool negative = combine(op, x->negative, y->negative) != 0;
	RF_BIG_LOCAL t;
	uint64_t cx = 1, cy = 1, carry = 1;

	if (n > RF_BIG_LIMBS)
		return false;
	for (uint32_t i = 0; i < n; i++)
		t.d[i] = combine(op, complement_word(x, i, &cx), complement_word(y, i, &cy));
	for (uint32_t i = 0; negative && i < n; i++) {
		t.d[i] = ~t.d[i] + carry;
		carry = carry != 0 && t.d[i] == 0;
	}
	t.n = n;
	t.negative = negative;
	trim(&t);
	rf_big_set(r, &t);
	return true;
}

/* --- text --- */

#define TEN_19 10000000000000000000ULL

bool rf_big_set_digits(struct rf_big *b, const char *digits, size_t n)
{
	rf_big_set_u64(b, 0);
	while (n > 0) {
		size_t take = RF_MIN(n, (size_t)19);
		uint64_t chunk = 0, scale = 1;

		for (size_t i = 0; i < take; i++) {
			chunk = chunk * 10 + (uint64_t)(digits[i] - '0');
			scale *= 10;
		}
		if (!rf_big_mul_add(b, scale, chunk))
			return false;
		digits += take;
		n -= take;
	}
	return true;
}

char *rf_big_format(struct rf_big *b, unsigned base, bool upper, char *out, size_t room)
{
	const char *names = upper ? "0123456789ABCDEF" : "0123456789abcdef";
	bool negative = b->negative;
	char *p = out + room;
	uint64_t scale = base;
	unsigned digits = 1;

	for (; scale <= UINT64_MAX / base; digits++)
		scale *= base;
	do {
		uint64_t chunk = div_word(b, scale);

		for (unsigned i = 0; i < digits && (b->n > 0 || chunk > 0 || i == 0); i++) {
			if (p == out)
				return NULL;
			*--p = names[chunk % base];
			chunk /= base;
		}
	} while (b->n > 0);
	if (!negative)
		return p;
	if (p == out)
		return NULL;
	*--p = '-';
	return p;
}
