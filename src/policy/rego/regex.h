/* Regular expressions: RE2 behind a C interface, with a cache for the whole process. Matching takes
 * time linear in the text. Plain types only, so that C++ can read this header.
 *
 * The syntax is Go's, which RE2 shares but for little: (?<name>x) is made (?P<name>x), \C is refused.
 * Not done: one group name twice (Go allows it, RE2 does not), the class names Go 1.25 added
 * (\p{Letter}, \p{Any}); and . does not match a byte that is not UTF-8. */
#ifndef RF_POLICY_REGO_REGEX_H
#define RF_POLICY_REGO_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rf_regex;

#define RF_REGEX_PATTERN_MAX 65536 /* bytes */
#define RF_REGEX_GROUPS_MAX 1000

struct rf_regex_part {
	const char *p; /* NULL: the group took no part in the match */
	size_t n;
};

/* From the cache, or compiled (*ret_compiled) and put there. NULL: not a pattern; *error then says why
 * as Go does, cut where it does not fit. For the thread that asked; to be given back. */
struct rf_regex *rf_regex_get(const char *pattern, size_t n, bool *ret_compiled, char *error,
			      size_t error_size);
void rf_regex_put(struct rf_regex *r); /* NULL is allowed */

size_t rf_regex_groups(const struct rf_regex *r); /* without the whole match */
size_t rf_regex_size(const struct rf_regex *r);	  /* instructions */
int rf_regex_group_named(const struct rf_regex *r, const char *name, size_t n); /* -1: none */
/* The leftmost match that starts at or after `from`: the whole and the first n_part - 1 groups. */
bool rf_regex_find(const struct rf_regex *r, const char *text, size_t n, size_t from,
		   struct rf_regex_part *part, size_t n_part);

#ifdef __cplusplus
}
#endif

#endif
