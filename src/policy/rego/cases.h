/* OPA's own cases (yaml files of modules, data, input, a query and what must come out), run on our
 * engine. */
#ifndef RF_POLICY_REGO_CASES_H
#define RF_POLICY_REGO_CASES_H

#include "policy/rego/rego.h"

/* Builtins that are refused for good: a case that calls one is skipped. Others that are missing fail. */
#define RF_REGO_N_REFUSED 4
extern const char *const RF_REGO_REFUSED[RF_REGO_N_REFUSED];

struct rf_rego_tally {
	size_t passed, failed, skipped;
	size_t refused[RF_REGO_N_REFUSED]; /* skipped, by RF_REGO_REFUSED */
};

/* One file; category and failures are told to out when not NULL. A case that calls a builtin which is
 * refused for a reason is skipped, and counted as such. */
int rf_rego_cases_run(struct rf_str file, struct rf_str text, enum rf_ra_version version,
		      struct rf_buf *out, struct rf_rego_tally *tally, struct rf_err *err);

#endif
