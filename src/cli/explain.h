/* What the API's objects tell of a pod or of the queues, for `ringfence why` and `ringfence queue`. Pure. */
#ifndef RF_CLI_EXPLAIN_H
#define RF_CLI_EXPLAIN_H

#include "codec/json.h"

/* A reason as the scheduler writes it: a sentence, then resource=, level=, need=, have=, help=. The parts that
 * are there become members of `to`, the sentence its "message". */
void rf_explain_reason(struct rf_arena *a, struct rf_json *to, struct rf_str reason);

/* {pod, namespace, state, node, reason, message, resource, level, need, have, help, queue, gang}: how the pod is
 * (waiting, starting, running, ended, going), and the one reason for it. events and group may be NULL; group is
 * the pod's PodGroup, or JSON null: it names one that is not there. */
struct rf_json *rf_explain_pod(struct rf_arena *a, const struct rf_json *pod, const struct rf_json *events,
			       const struct rf_json *group);
/* All that is said of it: {from, reason, message} by conditions, containers and events. */
struct rf_json *rf_explain_pod_all(struct rf_arena *a, const struct rf_json *pod, const struct rf_json *events);
/* The PodGroup that the pod names; empty: none. */
struct rf_str rf_explain_group_of(const struct rf_json *pod);

/* One object a queue, parents before children: {name, path, tenant, weight, position, pending, running, usage,
 * message, resources: [{name, guaranteed, fair, limit, used, debt, wanted}]}. position: its turn among those
 * beside it that have work waiting: who owes nothing first, then least usage per weight, then by name. debt: what
 * it uses beyond its guarantee. */
struct rf_json *rf_explain_queues(struct rf_arena *a, const struct rf_json *queues);
/* Of those, the one of this name and all below it. */
struct rf_json *rf_explain_queues_below(struct rf_arena *a, const struct rf_json *explained, struct rf_str name);
/* Rows of a table: one per queue and resource, names indented. */
struct rf_json *rf_explain_queue_rows(struct rf_arena *a, const struct rf_json *explained);

/* Tenants write some of what is shown, and an administrator's terminal obeys control characters: without them. */
struct rf_str rf_explain_plain(struct rf_arena *a, struct rf_str s);

#endif
