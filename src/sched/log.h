/* log: the core's events as lines of JSON, and back. One line per event: {"t":<now_ms>,"put":"pod",...} or
 * {"t":...,"del":"pod","uid":...}; decisions are lines too ({"t":...,"bind":...}), so that a replay can be held
 * against what was decided. */
#ifndef RF_SCHED_LOG_H
#define RF_SCHED_LOG_H

#include "sched/core.h"

#define RF_LOG_LINE_MAX ((size_t)1 << 20)

enum rf_log_kind {
	RF_LOG_NODE, RF_LOG_DEVICES, RF_LOG_TENANT, RF_LOG_NAMESPACE, RF_LOG_QUEUE, RF_LOG_GROUP, RF_LOG_POD,
	RF_LOG_CLAIM, RF_LOG_BUDGET, RF_LOG_DECISION, RF_LOG_FAILED, RF_LOG_KINDS
};
struct rf_log_event {
	enum rf_log_kind kind;
	bool del;
	int64_t t;
	struct rf_str ns, name, uid, tenant, why; /* of what is deleted; of a namespace; of a failure; devices: name of the node */
	union {
		struct rf_sched_node node;
		struct {
			struct rf_sched_device *at;
			size_t n;
		} devices;
		struct rf_tenant tenant_spec;
		struct rf_sched_queue queue;
		struct rf_sched_group group;
		struct rf_sched_pod pod;
		struct rf_sched_claim claim;
		struct rf_sched_budget budget;
		struct rf_core_decision decision;
	};
};
/* Appends the line, with its newline. */
void rf_log_write(struct rf_buf *out, const struct rf_log_event *e);
/* Strings point into the line or the arena. RF_INVALID: no such event, and where it goes wrong. */
int rf_log_read(struct rf_arena *a, struct rf_str line, struct rf_log_event *ret, struct rf_err *err);
/* Tells the core. Decisions are not told; a failure is. */
int rf_log_tell(struct rf_core *c, const struct rf_log_event *e, struct rf_err *err);

#endif
