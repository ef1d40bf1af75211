/* Pod Security Standards: privileged, baseline, restricted, as Kubernetes' own admission judges them
 * (latest version), over containers, init and ephemeral containers. Pure. */
#ifndef RF_POLICY_PODSECURITY_H
#define RF_POLICY_PODSECURITY_H

#include "base/base.h"
#include "codec/json.h"

enum rf_ps_level { RF_PS_PRIVILEGED, RF_PS_BASELINE, RF_PS_RESTRICTED };

/* "baseline" -> RF_PS_BASELINE; false if there is no such level. */
bool rf_ps_level_parse(struct rf_str name, enum rf_ps_level *ret);
const char *rf_ps_level_name(enum rf_ps_level level);
/* True if allowed. Otherwise why gets every reason and its remedy, as Kubernetes words them:
 * `privileged (container "x" must not set securityContext.privileged=true), ...`. */
bool rf_ps_check(enum rf_ps_level level, const struct rf_json *pod, struct rf_buf *why);

#endif
