/* Pod Security Standards: privileged, baseline, restricted, of every version, as Kubernetes' own
 * admission judges them, over containers, init and ephemeral containers. Pure. */
#ifndef RF_POLICY_PODSECURITY_H
#define RF_POLICY_PODSECURITY_H

#include "base/base.h"
#include "codec/json.h"

enum rf_ps_level { RF_PS_PRIVILEGED, RF_PS_BASELINE, RF_PS_RESTRICTED };

/* "baseline" -> RF_PS_BASELINE; false if there is no such level. */
bool rf_ps_level_parse(struct rf_str name, enum rf_ps_level *ret);
const char *rf_ps_level_name(enum rf_ps_level level);

/* The newest version with a rule of its own; what is newer, and latest, is judged as this one. */
#define RF_PS_NEWEST 37

/* v1.<minor>. All zero is "latest". */
struct rf_ps_version {
	bool pinned;
	int64_t minor;
};
/* "latest" or "v1.27"; RF_INVALID if it is neither. Kubernetes judges by latest then. */
int rf_ps_version_parse(struct rf_str text, struct rf_ps_version *ret, struct rf_err *err);

struct rf_ps_rules {
	enum rf_ps_level level;
	struct rf_ps_version version;
	/* The node keeps the promise of hostUsers: false, so such a pod gets what Kubernetes
	 * allows it from v1.35 on. Leave it out where a node may run the pod without. */
	bool user_namespaces;
};
/* "restricted:v1.27", appended. */
void rf_ps_put_rules(struct rf_buf *out, const struct rf_ps_rules *rules);

/* What a namespace's labels pod-security.kubernetes.io/{enforce,warn}[-version] ask for, read as
 * Kubernetes reads them: without a label privileged, a level to enforce that nobody knows is
 * restricted, one to warn of is privileged, a version that nobody knows is latest. Who enforces
 * and does not say what to warn of is warned by the enforced level. */
void rf_ps_read_labels(const struct rf_json *labels, struct rf_ps_rules *ret_enforce,
		       struct rf_ps_rules *ret_warn);

/* True if allowed. Otherwise why gets every reason and its remedy, as Kubernetes words them:
 * `privileged (container "x" must not set securityContext.privileged=true), ...`. */
bool rf_ps_judge(const struct rf_ps_rules *rules, const struct rf_json *pod, struct rf_buf *why);
/* The same by the latest version, with nothing allowed for user namespaces. */
bool rf_ps_check(enum rf_ps_level level, const struct rf_json *pod, struct rf_buf *why);

/* The pod that an object is or makes: a Pod itself, the template of a PodTemplate, Deployment,
 * ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job or CronJob. Else NULL. */
const struct rf_json *rf_ps_pod_of(const struct rf_json *object);

#endif
