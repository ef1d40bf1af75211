/* Static types of rules, between the compiler's files only. */
#ifndef RF_POLICY_REGO_CHECK_TYPES_H
#define RF_POLICY_REGO_CHECK_TYPES_H

#include "policy/rego/compile.h"
#include "policy/rego/types.h"

/* rules: of each group by id; order: ids of all groups, each after those its rules refer to. */
void rf_rc_check_types(struct rf_rego *r, struct rf_rc_rule *const *rules, const uint32_t *order,
		       struct rf_ra_errors *errors);

#endif
