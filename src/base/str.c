#include "base/str.h"

#include <stdint.h>

int rf_str_cmp(struct rf_str a, struct rf_str b)
{
	size_t n = RF_MIN(a.n, b.n);
	int c = n == 0 ? 0 : memcmp(a.p, b.p, n);

	if (c != 0)
		return c;
	return a.n < b.n ? -1 : a.n > b.n;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

bool rf_str_ieq(struct rf_str a, struct rf_str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (lower(a.p[i]) != lower(b.p[i]))
			return false;
	return true;
}

bool rf_str_contains(struct rf_str s, struct rf_str part)
{
	return part.n == 0 || (s.n > 0 && memmem(s.p, s.n, part.p, part.n) != NULL);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

char *rf_str_dup(struct rf_str s)
{
	char *copy = rf_alloc(s.n + 1);

	if (s.n > 0)
		memcpy(copy, s.p, s.n);
	return copy;
}

struct rf_str rf_str_trim(struct rf_str s)
{
	while (s.n > 0 && is_space(s.p[0]))
		s = rf_str_skip(s, 1);
	while (s.n > 0 && is_space(s.p[s.n - 1]))
		s.n--;
	return s;
}

bool rf_str_cut(struct rf_str *s, char sep, struct rf_str *ret_head)
{
	const char *at = s->n == 0 ? NULL : memchr(s->p, sep, s->n);

	if (at == NULL) {
		*ret_head = *s;
		*s = rf_str_skip(*s, s->n);
		return false;
	}
	*ret_head = rf_str_n(s->p, (size_t)(at - s->p));
	*s = rf_str_skip(*s, ret_head->n + 1);
	return true;
}

int rf_str_int(struct rf_str s, int64_t *ret_value, struct rf_err *err)
{
	struct rf_str digits = s;
	bool negative = s.n > 0 && s.p[0] == '-';
	int64_t value = 0;

	if (negative)
		digits = rf_str_skip(s, 1);
	if (digits.n == 0)
		return rf_fail(err, RF_INVALID, "\"%.*s\" is not a number", RF_STR(s));
	for (size_t i = 0; i < digits.n; i++) {
		int d = digits.p[i] - '0';

		if (d < 0 || d > 9)
			return rf_fail(err, RF_INVALID, "\"%.*s\" is not a number", RF_STR(s));
		if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
		    __builtin_sub_overflow(value, (int64_t)d, &value)) /* grows downwards */
			return rf_fail(err, RF_INVALID, "\"%.*s\" is too large", RF_STR(s));
	}
	if (!negative && __builtin_sub_overflow((int64_t)0, value, &value))
		return rf_fail(err, RF_INVALID, "\"%.*s\" is too large", RF_STR(s));
	*ret_value = value;
	return 0;
}

static bool is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
	return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

bool rf_str_is_dns_label(struct rf_str s)
{
	if (s.n == 0 || s.n > 63 || !is_lower_alnum(s.p[0]) || !is_lower_alnum(s.p[s.n - 1]))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!is_lower_alnum(s.p[i]) && s.p[i] != '-')
			return false;
	return true;
}

bool rf_str_is_dns_subdomain(struct rf_str s)
{
	struct rf_str label;
	bool more = true;

	if (s.n == 0 || s.n > 253)
		return false;
	while (more) {
		more = rf_str_cut(&s, '.', &label);
		/* Kubernetes bounds the whole, not each part. */
		if (label.n == 0 || !is_lower_alnum(label.p[0]) || !is_lower_alnum(label.p[label.n - 1]))
			return false;
		for (size_t i = 0; i < label.n; i++)
			if (!is_lower_alnum(label.p[i]) && label.p[i] != '-')
				return false;
	}
	return true;
}

static bool is_qualified_name(struct rf_str s)
{
	if (s.n == 0 || s.n > 63 || !is_alnum(s.p[0]) || !is_alnum(s.p[s.n - 1]))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '.')
			return false;
	return true;
}

bool rf_str_is_label_key(struct rf_str s)
{
	struct rf_str prefix;
	struct rf_str rest = s;

	if (!rf_str_cut(&rest, '/', &prefix))
		return is_qualified_name(s);
	return rf_str_is_dns_subdomain(prefix) && is_qualified_name(rest);
}

bool rf_str_is_label_value(struct rf_str s)
{
	return s.n == 0 || is_qualified_name(s);
}
