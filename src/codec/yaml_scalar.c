/* Plain scalars. Kubernetes resolves them as YAML 1.1 did, less base 60 and timestamps (these stay
 * strings), plus 0o; digits may be grouped with underscores. Numbers are converted as text,
 * exactly. */
#include <inttypes.h>

#include "codec/json_private.h"
#include "codec/yaml_private.h"

static enum rf_yaml_kind resolve_word(struct rf_str s)
{
	static const struct {
		enum rf_yaml_kind kind;
		const char *words[12];
	} table[] = {
		{ RF_YAML_TRUE,
		  { "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON" } },
		{ RF_YAML_FALSE,
		  { "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF" } },
		{ RF_YAML_NULL, { "", "~", "null", "Null", "NULL" } },
		{ RF_YAML_BEYOND_JSON, { ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF" } },
		{ RF_YAML_BEYOND_JSON, { "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF" } },
	};

	if (s.n > 5)
		return RF_YAML_STRING;
	for (size_t i = 0; i < RF_COUNT(table); i++)
		for (const char *const *w = table[i].words; *w != NULL; w++)
			if (rf_str_is(s, *w))
				return table[i].kind;
	return RF_YAML_STRING;
}

static size_t count_digits(struct rf_str s)
{
	size_t n = 0;

	while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
		n++;
	return n;
}

/* --- 0x1f, 0o17, 017, 0b11 ------------------------------------------------------------------ */

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static enum rf_yaml_kind resolve_based(struct rf_str digits, int base, bool negative,
				       struct rf_buf *number)
{
	uint64_t value = 0;
	bool fits = true;

	for (size_t i = 0; i < digits.n; i++) {
		int d = digit_of(digits.p[i]);

		if (d >= base)
			return RF_YAML_STRING;
		fits = fits && !__builtin_mul_overflow(value, (uint64_t)base, &value) &&
		       !__builtin_add_overflow(value, (uint64_t)d, &value);
	}
	if (!fits)
		return RF_YAML_BEYOND_JSON;
	rf_buf_printf(number, "%s%" PRIu64, negative && value != 0 ? "-" : "", value);
	return RF_YAML_NUMBER;
}

/* Without its sign; 0 and a digit is octal, as in YAML 1.1. */
static int base_of(struct rf_str s, size_t *ret_prefix)
{
	char mark = s.n > 2 && s.p[0] == '0' ? (char)(s.p[1] | 0x20) : '\0';

	*ret_prefix = mark == 'x' || mark == 'o' || mark == 'b' ? 2 : 1;
	if (mark == 'x')
		return 16;
	if (mark == 'b')
		return 2;
	if (mark == 'o')
		return 8;
	return s.n > 1 && s.p[0] == '0' && count_digits(s) == s.n ? 8 : 10;
}

/* --- decimals ------------------------------------------------------------------------------- */

/* The exponent at the start of s, if s is one and nothing else. */
static bool is_exponent(struct rf_str s)
{
	size_t sign;

	if (s.n < 2 || (s.p[0] | 0x20) != 'e')
		return false;
	sign = s.p[1] == '+' || s.p[1] == '-';
	s = rf_str_skip(s, 1 + sign);
	return s.n > 0 && count_digits(s) == s.n;
}

/* YAML allows .5, 5. and 007.5 where JSON does not: cut s into its three parts. */
static bool split_decimal(struct rf_str s, struct rf_str *ret_whole, struct rf_str *ret_fraction,
			  struct rf_str *ret_exponent)
{
	struct rf_str fraction = RF_STR_EMPTY, whole = rf_str_n(s.p, count_digits(s));

	s = rf_str_skip(s, whole.n);
	if (s.n > 0 && s.p[0] == '.') {
		s = rf_str_skip(s, 1);
		fraction = rf_str_n(s.p, count_digits(s));
		s = rf_str_skip(s, fraction.n);
	}
	if ((whole.n == 0 && fraction.n == 0) || (s.n > 0 && !is_exponent(s)))
		return false;
	while (whole.n > 1 && whole.p[0] == '0')
		whole = rf_str_skip(whole, 1);
	*ret_whole = whole.n > 0 ? whole : RF_LIT("0");
	*ret_fraction = fraction;
	*ret_exponent = s;
	return true;
}

static enum rf_yaml_kind resolve_decimal(struct rf_str s, bool negative, struct rf_buf *number)
{
	struct rf_str whole, fraction, exponent;
	int64_t value;

	if (!split_decimal(s, &whole, &fraction, &exponent))
		return RF_YAML_STRING;
	if (negative)
		rf_buf_add_c(number, '-');
	rf_buf_add(number, whole);
	if (fraction.n > 0)
		rf_buf_add_c(number, '.');
	rf_buf_add(number, fraction);
	rf_buf_add(number, exponent);
	/* Kubernetes reads 80.0 and 8e1 in YAML as 80, which it would refuse in JSON. */
	if (rf_json_number_whole(rf_buf_str(number), &value)) {
		rf_buf_clear(number);
		rf_buf_printf(number, "%" PRId64, value);
	}
	return RF_YAML_NUMBER;
}

static enum rf_yaml_kind resolve_unsigned(struct rf_str s, bool negative, struct rf_buf *number)
{
	enum rf_yaml_kind kind = RF_YAML_STRING;
	size_t prefix;
	int base = base_of(s, &prefix);

	if (base != 10)
		kind = resolve_based(rf_str_skip(s, prefix), base, negative, number);
	/* 089 is no octal number; it is then a decimal one. */
	return kind != RF_YAML_STRING ? kind : resolve_decimal(s, negative, number);
}

static void add_without_underscores(struct rf_buf *out, struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != '_')
			rf_buf_add_c(out, s.p[i]);
}

enum rf_yaml_kind rf_yaml_resolve(struct rf_str plain, struct rf_buf *number)
{
	rf_auto(buf) digits = RF_BUF_INIT;
	enum rf_yaml_kind kind = resolve_word(plain);
	struct rf_str s;
	bool sign;

	rf_buf_clear(number);
	if (kind != RF_YAML_STRING || plain.n == 0 || strchr("+-.0123456789", plain.p[0]) == NULL ||
	    plain.p[0] == '\0')
		return kind;
	if (plain.p[0] == '.')
		return resolve_decimal(plain, false, number);
	add_without_underscores(&digits, plain);
	s = rf_buf_str(&digits);
	sign = s.p[0] == '+' || s.p[0] == '-';
	return resolve_unsigned(rf_str_skip(s, sign), s.p[0] == '-', number);
}
