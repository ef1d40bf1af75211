/* units.parse and units.parse_bytes: "4.1Mi", "500m". */
#include "policy/rego/builtin_util.h"

#include <math.h>
#include <openssl/bn.h>
#include <stdio.h>

/* Digits of a result, the ten behind the point included; OPA goes on to a million. */
#define DIGITS_MAX (RF_RN_DIGITS_MAX - 40)

static const struct {
	const char *name;
	uint64_t factor;
} factors[] = {
	{ "", 1 },
	{ "k", 1000 },
	{ "m", 1000000 },
	{ "g", 1000000000 },
	{ "t", 1000000000000 },
	{ "p", 1000000000000000 },
	{ "e", 1000000000000000000 },
	{ "ki", UINT64_C(1) << 10 },
	{ "mi", UINT64_C(1) << 20 },
	{ "gi", UINT64_C(1) << 30 },
	{ "ti", UINT64_C(1) << 40 },
	{ "pi", UINT64_C(1) << 50 },
	{ "ei", UINT64_C(1) << 60 },
};

static uint64_t factor_of(struct rf_str unit)
{
	for (size_t i = 0; i < RF_COUNT(factors); i++)
		if (rf_str_is(unit, factors[i].name))
			return factors[i].factor;
	return 0;
}

static bool is_digit(struct rf_str s, size_t i)
{
	return i < s.n && s.p[i] >= '0' && s.p[i] <= '9';
}

static bool has(struct rf_str s, size_t i, const char *set)
{
	return i < s.n && s.p[i] != '\0' && strchr(set, s.p[i]) != NULL;
}

enum amount { AMOUNT_OK, AMOUNT_SPACES, AMOUNT_EXPONENT, AMOUNT_NONE };

/* Copies the text without quotes and cuts it where the number ends: at the first character that is
 * neither a digit, a dot, a sign nor an e with an exponent behind it. */
static enum amount cut_amount(struct rf_str s, char *copy, struct rf_str *ret_number,
			      struct rf_str *ret_unit)
{
	struct rf_str all = { copy, 0 };
	size_t i = 0;

	for (size_t j = 0; j < s.n; j++)
		if (s.p[j] != '"')
			copy[all.n++] = s.p[j];
	if (all.n > 0 && memchr(copy, ' ', all.n) != NULL)
		return AMOUNT_SPACES;
	for (; i < all.n && (is_digit(all, i) || has(all, i, ".eE+-")); i++) {
		size_t digits = 0;

		if (!has(all, i, "eE"))
			continue;
		if (!is_digit(all, i + 1) && !has(all, i + 1, "+-"))
			break;
		i += has(all, i + 1, "+-");
		while (is_digit(all, i + 1 + digits))
			digits++;
		if (digits > 6)
			return AMOUNT_EXPONENT;
	}
	*ret_number = rf_str_n(copy, i);
	*ret_unit = rf_str_skip(all, i);
	return i == 0 ? AMOUNT_NONE : AMOUNT_OK;
}

/* A decimal number: its digits without sign and dot, and the power of ten behind them. */
struct decimal {
	bool minus;
	char *digits; /* NUL-terminated, as many as the text has characters */
	int exponent;
};

static bool read_decimal(struct rf_str s, struct decimal *d)
{
	size_t i = has(s, 0, "+-"), n = 0;
	int exponent = 0;
	bool minus;

	d->minus = has(s, 0, "-");
	d->exponent = 0;
	for (; is_digit(s, i); i++)
		d->digits[n++] = s.p[i];
	if (has(s, i, "."))
		for (i++; is_digit(s, i); i++, d->exponent--)
			d->digits[n++] = s.p[i];
	d->digits[n] = '\0';
	if (n == 0)
		return false;
	if (i == s.n)
		return true;
	if (!has(s, i, "eE"))
		return false;
	minus = has(s, ++i, "-");
	i += has(s, i, "+-");
	if (!is_digit(s, i))
		return false;
	for (; is_digit(s, i); i++)
		exponent = exponent * 10 + (s.p[i] - '0');
	d->exponent += minus ? -exponent : exponent;
	return i == s.n;
}

static enum rf_rb_result amount_error(enum amount a, const char *name, const char *what,
				      struct rf_err *err)
{
	if (a == AMOUNT_SPACES)
		return rb_error(err, "%s: spaces not allowed in resource strings", name);
	if (a == AMOUNT_EXPONENT)
		return rb_error(err, "%s: exponent too large", name);
	return rb_error(err, "%s: no %samount provided", name, what);
}

static enum rf_rb_result number_value(struct rf_rb_env *e, const char *text, struct rf_rv *ret)
{
	struct rf_rv copy;

	RB_TRY(rb_string(e, rf_str(text), &copy));
	return rf_rn_parse(e->arena, rf_rv_text(copy), ret) ? RF_RB_OK : RF_RB_FULL;
}

/* --- units.parse_bytes: with a mantissa of 64 bits, as Go's big.Float has without being told --- */

enum rf_rb_result rb_units_parse_bytes(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	static const char name[] = "units.parse_bytes";
	struct decimal d = { .digits = rb_alloc(e, (size_t)arg[0].n + 1, 1) };
	char *copy = rb_alloc(e, (size_t)arg[0].n + 1, 1);
	char text[DIGITS_MAX + 8];
	struct rf_str number, unit;
	enum amount a;
	long double v;
	uint64_t factor;

	if (copy == NULL || d.digits == NULL || !rf_rb_spend(e, 1 + arg[0].n))
		return RF_RB_FULL;
	a = cut_amount(rf_rv_text(arg[0]), copy, &number, &unit);
	if (a != AMOUNT_OK)
		return amount_error(a, name, "byte ", err);
	for (size_t i = 0; i < unit.n; i++)
		if (unit.p[i] >= 'A' && unit.p[i] <= 'Z')
			copy[number.n + i] |= 0x20;
	/* "kb" and "kib" are "k" and "ki"; a bare "b" is nothing */
	factor = factor_of(unit.n > 1 && unit.p[unit.n - 1] == 'b' ? rf_str_n(unit.p, unit.n - 1) : unit);
	if (factor == 0)
		return rb_error(err, "%s: byte unit %.*s not recognized", name,
				(int)RF_MIN(unit.n, 100), unit.p);
	if (!read_decimal(number, &d))
		return rb_error(err, "%s: could not parse byte amount to a number", name);
	copy[number.n] = '\0';
	v = truncl(strtold(copy, NULL) * (long double)factor);
	if (!isfinite(v) || fabsl(v) > 1e900L)
		return rb_error(err, "%s: exponent too large", name);
	(void)snprintf(text, sizeof(text), "%.0Lf", v);
	return number_value(e, strcmp(text, "-0") == 0 ? "0" : text, ret);
}

/* --- units.parse: exact, then ten digits behind the point --- */

struct ratio {
	BN_CTX *ctx;
	BIGNUM *up, *down, *tmp, *rest;
};

static void ratio_done(struct ratio *r)
{
	BN_free(r->up);
	BN_free(r->down);
	BN_free(r->tmp);
	BN_free(r->rest);
	BN_CTX_free(r->ctx);
}

static bool times_ten(struct ratio *r, BIGNUM *n, int power)
{
	return BN_set_word(r->tmp, 10) && BN_set_word(r->rest, (BN_ULONG)power) &&
	       BN_exp(r->tmp, r->tmp, r->rest, r->ctx) && BN_mul(n, n, r->tmp, r->ctx);
}

static bool set_ratio(struct ratio *r, const struct decimal *d, bool milli, uint64_t factor)
{
	if (!BN_dec2bn(&r->up, d->digits) || !BN_one(r->down))
		return false;
	if (!times_ten(r, d->exponent < 0 ? r->down : r->up, abs(d->exponent)))
		return false;
	/* the nearest double to 0.001, because that is what OPA multiplies with */
	if (milli)
		return BN_mul_word(r->up, 0x10624dd2f1a9fc) && BN_lshift(r->down, r->down, 62);
	return BN_mul_word(r->up, factor);
}

/* up/down rounded to ten digits behind the point, halves away from zero; whole numbers without. */
static char *ratio_text(struct ratio *r, bool *ret_whole)
{
	if (!BN_div(r->tmp, r->rest, r->up, r->down, r->ctx))
		return NULL;
	*ret_whole = BN_is_zero(r->rest);
	if (*ret_whole)
		return BN_bn2dec(r->tmp);
	if (!times_ten(r, r->up, 10) || !BN_lshift1(r->up, r->up) || !BN_add(r->up, r->up, r->down) ||
	    !BN_lshift1(r->down, r->down) || !BN_div(r->tmp, r->rest, r->up, r->down, r->ctx))
		return NULL;
	return BN_bn2dec(r->tmp);
}

static enum rf_rb_result print_ratio(struct rf_rb_env *e, struct ratio *r, bool minus, struct rf_rv *ret)
{
	struct rb_text out = { .e = e };
	char *digits;
	bool whole;
	size_t n;

	digits = ratio_text(r, &whole);
	if (digits == NULL)
		return RF_RB_FULL;
	n = strlen(digits);
	if (minus && strcmp(digits, "0") != 0)
		rb_add_c(&out, '-');
	if (whole) {
		rb_puts(&out, digits);
	} else {
		rb_printf(&out, "%.*s.", n > 10 ? (int)(n - 10) : 1, n > 10 ? digits : "0");
		for (size_t i = n; i < 10; i++)
			rb_add_c(&out, '0');
		rb_puts(&out, n > 10 ? digits + n - 10 : digits);
	}
	OPENSSL_free(digits);
	rb_add_c(&out, '\0');
	if (out.full)
		return RF_RB_FULL;
	return number_value(e, out.p, ret);
}

enum rf_rb_result rb_units_parse(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				 struct rf_err *err)
{
	static const char name[] = "units.parse";
	struct decimal d = { .digits = rb_alloc(e, (size_t)arg[0].n + 1, 1) };
	char *copy = rb_alloc(e, (size_t)arg[0].n + 1, 1);
	struct rf_str number, unit;
	enum rf_rb_result result = RF_RB_FULL;
	struct ratio r;
	bool milli;
	uint64_t factor;
	enum amount a;

	if (copy == NULL || d.digits == NULL || !rf_rb_spend(e, 1 + arg[0].n))
		return RF_RB_FULL;
	a = cut_amount(rf_rv_text(arg[0]), copy, &number, &unit);
	if (a != AMOUNT_OK)
		return amount_error(a, name, "", err);
	milli = rf_str_is(unit, "m"); /* and M is mega; otherwise case does not matter */
	for (size_t i = 0; i < unit.n; i++)
		if (unit.p[i] >= 'A' && unit.p[i] <= 'Z')
			copy[number.n + i] |= 0x20;
	factor = factor_of(unit);
	if (factor == 0)
		return rb_error(err, "%s: unit %.*s not recognized", name, (int)RF_MIN(unit.n, 100),
				unit.p);
	if (!read_decimal(number, &d))
		return rb_error(err, "%s: could not parse amount to a number", name);
	if (strlen(d.digits) + (size_t)abs(d.exponent) > DIGITS_MAX)
		return rb_error(err, "%s: exponent too large", name);
	if (!rf_rb_spend(e, (int64_t)strlen(d.digits) * 8))
		return RF_RB_FULL;
	r = (struct ratio){ BN_CTX_new(), BN_new(), BN_new(), BN_new(), BN_new() };
	if (r.ctx != NULL && r.up != NULL && r.down != NULL && r.tmp != NULL && r.rest != NULL &&
	    set_ratio(&r, &d, milli, factor))
		result = print_ratio(e, &r, d.minus, ret);
	ratio_done(&r);
	return result;
}
