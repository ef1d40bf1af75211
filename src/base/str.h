/* Strings: a pointer and a length, passed by value, not owned, not NUL-terminated. */
#ifndef RF_BASE_STR_H
#define RF_BASE_STR_H

#include <string.h>

#include "base/err.h"
#include "base/macro.h"

struct rf_str {
	const char *p;
	size_t n;
};

#define RF_LIT(literal) ((struct rf_str){ "" literal, sizeof(literal) - 1 })
#define RF_STR_EMPTY ((struct rf_str){ "", 0 })
/* printf("%.*s", RF_STR(s)) */
#define RF_STR(s) (int)(s).n, (s).p

static inline struct rf_str rf_str(const char *cstr)
{
	return (struct rf_str){ cstr ? cstr : "", cstr ? strlen(cstr) : 0 };
}
static inline struct rf_str rf_str_n(const char *p, size_t n)
{
	return (struct rf_str){ p, n };
}
static inline bool rf_str_eq(struct rf_str a, struct rf_str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool rf_str_is(struct rf_str a, const char *cstr)
{
	return rf_str_eq(a, rf_str(cstr));
}
static inline bool rf_str_starts(struct rf_str s, struct rf_str prefix)
{
	return s.n >= prefix.n && memcmp(s.p, prefix.p, prefix.n) == 0;
}
static inline bool rf_str_ends(struct rf_str s, struct rf_str suffix)
{
	return s.n >= suffix.n && memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0;
}
static inline struct rf_str rf_str_skip(struct rf_str s, size_t n)
{
	n = RF_MIN(n, s.n);
	return (struct rf_str){ s.p + n, s.n - n };
}

int rf_str_cmp(struct rf_str a, struct rf_str b); /* memcmp order, shorter first */
bool rf_str_ieq(struct rf_str a, struct rf_str b); /* ASCII letters without case */
bool rf_str_contains(struct rf_str s, struct rf_str part);
char *rf_str_dup(struct rf_str s) RF_MUST_USE; /* with a NUL behind it; to be freed */
struct rf_str rf_str_trim(struct rf_str s); /* spaces, tabs, CR, LF at both ends */
/* "a=b=c" cut at '=' gives true, head "a", *s "b=c". No sep: false, head is all, *s empty. */
bool rf_str_cut(struct rf_str *s, char sep, struct rf_str *ret_head);
/* Whole string as a decimal number; RF_INVALID if it is not one or does not fit. */
int rf_str_int(struct rf_str s, int64_t *ret_value, struct rf_err *err);

/* DNS-1123 names as Kubernetes has them. */
bool rf_str_is_dns_label(struct rf_str s);     /* at most 63 of [a-z0-9-], alphanumeric ends */
bool rf_str_is_dns_subdomain(struct rf_str s); /* labels joined by dots, at most 253 */
bool rf_str_is_label_key(struct rf_str s);     /* [prefix/]name */
bool rf_str_is_label_value(struct rf_str s);   /* empty, or at most 63 of [A-Za-z0-9-_.] */

#endif
