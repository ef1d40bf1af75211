/* log: the core's events as lines of JSON, and back. One line per event: {"t":<now_ms>,"put":"pod",...} or
 * {"t":...,"del":"pod","uid":...}; decisions are lines too ({"t":...,"bind":"<uid>",...}), so that a replay can be
 * held against what was decided. Fields with their default value are left out. A failure says of what
 * ({"t":...,"failed":"<uid>","verdict":"bind",...}); one from before they did is refused.
 *
 * What a core does depends on its config, on when it was asked, and on the ledger it was given: so these are
 * events as well. A log begins with {"t":...,"config":{...}}; each call of rf_core_decide is a line
 * {"t":...,"decide":<most>} before the lines of its decisions (a call that decided nothing may be left out if it
 * changed nothing; a look that settled something is {"decide":0}); rf_core_import is {"t":...,"ledger":"..."}. */
#ifndef RF_SCHED_LOG_H
#define RF_SCHED_LOG_H

#include "sched/core.h"

#define RF_LOG_LINE_MAX ((size_t)4 << 20) /* more than an object of the API can be */

#define RF_LOG_MS_MAX (INT64_C(1) << 52) /* of a time: sums of a few still fit */

enum rf_log_kind {
	RF_LOG_NODE, RF_LOG_DEVICES, RF_LOG_TENANT, RF_LOG_NAMESPACE, RF_LOG_QUEUE, RF_LOG_GROUP, RF_LOG_POD,
	RF_LOG_CLAIM, RF_LOG_BUDGET, RF_LOG_POOL, RF_LOG_DECISION, RF_LOG_FAILED, RF_LOG_CONFIG, RF_LOG_DECIDE, RF_LOG_LEDGER,
	RF_LOG_KINDS
};
struct rf_log_event {
	enum rf_log_kind kind;
	bool del;
	int64_t t;
	/* Of what is deleted; of a namespace; of a failure; of devices: the name of their node. */
	struct rf_str ns, name, uid, tenant, why;
	enum rf_core_verdict verdict; /* of a failure: what failed */
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
		struct rf_sched_pool pool;
		struct rf_core_decision decision;
		struct rf_core_config config;
		int64_t most;	      /* of a decide */
		struct rf_str ledger;
	};
};
/* Appends the line, with its newline. */
void rf_log_write(struct rf_buf *out, const struct rf_log_event *e);
/* Strings point into the line or the arena. RF_INVALID: no such event, and where it goes wrong. */
int rf_log_read(struct rf_arena *a, struct rf_str line, struct rf_log_event *ret, struct rf_err *err);
/* Tells the core. A failure and a ledger are told; decisions, config and decide are not: they are the caller's.
 * An error is the core's own (a queue that makes no sense yet): it had the same when this was logged. */
int rf_log_tell(struct rf_core *c, const struct rf_log_event *e, struct rf_err *err);

#endif
