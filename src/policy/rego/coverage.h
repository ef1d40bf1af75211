/* Which expressions and heads of a policy its tests evaluated, as `opa test --coverage` tells it.
 *
 *	rf_rego_compile_covered(...)
 *	struct rf_rego_coverage c = rf_rego_coverage(rego, arena);
 *	run.coverage = &c; rf_rego_eval(...)                   any number, one at a time
 *	rf_rego_coverage_report(&c, rego, arena, &report) */
#ifndef RF_POLICY_REGO_COVERAGE_H
#define RF_POLICY_REGO_COVERAGE_H

#include "policy/rego/rego.h"

struct rf_rego_coverage {
	bool *seen; /* by spot */
};
struct rf_rego_coverage rf_rego_coverage(const struct rf_rego *r, struct rf_arena *a);

/* Behind the last character; rows and columns from 1. */
struct rf_rego_range {
	uint32_t row, col, end_row, end_col;
};

struct rf_rego_ranges {
	struct rf_rego_range *at; /* in order, each once; they may overlap */
	uint32_t n;
	uint32_t lines; /* that they touch */
};

struct rf_rego_file_coverage {
	struct rf_str file;
	struct rf_rego_ranges covered, not_covered;
	double percent; /* of lines */
};

struct rf_rego_coverage_report {
	struct rf_rego_file_coverage *file; /* in the order of the modules */
	uint32_t n;
	uint32_t covered_lines, not_covered_lines;
	double percent;
};
/* `some x` is not counted, and nothing inside of what was evaluated is missing. */
void rf_rego_coverage_report(const struct rf_rego_coverage *c, const struct rf_rego *r, struct rf_arena *a,
			     struct rf_rego_coverage_report *ret);

#endif
