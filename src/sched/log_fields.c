#include "sched/log_fields.h"

#define FIELD(t, record, member, ...) { .name = #member, .type = t, .at = offsetof(struct record, member), __VA_ARGS__ }
#define STR(record, member) FIELD(RF_LOG_STR, record, member, .must = false)
#define NAME(record, member) FIELD(RF_LOG_STR, record, member, .must = true)
#define INT(record, member) FIELD(RF_LOG_INT, record, member, .otherwise = 0)
#define INT_OR(record, member, value) FIELD(RF_LOG_INT, record, member, .otherwise = value)
#define COUNT(record, member) FIELD(RF_LOG_COUNT, record, member, .otherwise = 0)
#define BYTE(record, member) FIELD(RF_LOG_BYTE, record, member, .otherwise = 0)
#define BOOL(record, member) FIELD(RF_LOG_BOOL, record, member, .otherwise = 0)
#define WORD_OR(record, member, table, value) FIELD(RF_LOG_WORD, record, member, .words = table, .otherwise = value)
#define WORD(record, member, table) WORD_OR(record, member, table, 0)
#define STRS(record, member) FIELD(RF_LOG_STRS, record, member, .n_at = offsetof(struct record, n_##member))
#define LIST(record, member, table)                                                                                    \
	FIELD(RF_LOG_LIST, record, member, .n_at = offsetof(struct record, n_##member), .of = &table)
#define RECORD(record, member, table) FIELD(RF_LOG_RECORD, record, member, .of = &table)
#define TABLE(rows, record) { .fields = rows, .n = RF_COUNT(rows), .size = sizeof(struct record) }

/* --- what facts are made of ------------------------------------------------------------------- */

static const char *const OPS[] = { [RF_SCHED_IN] = "In",	  [RF_SCHED_NOT_IN] = "NotIn",
				   [RF_SCHED_EXISTS] = "Exists",  [RF_SCHED_ABSENT] = "DoesNotExist",
				   [RF_SCHED_GT] = "Gt",	  [RF_SCHED_LT] = "Lt",
				   [RF_SCHED_LT + 1] = NULL };
static const char *const ISOLATIONS[] = { [RF_ISOLATION_RACK] = "rack",
					  [RF_ISOLATION_NODE] = "node",
					  [RF_ISOLATION_NUMA] = "numa",
					  [RF_ISOLATION_NVLINK] = "nvlink",
					  [RF_ISOLATION_GPU] = "gpu",
					  [RF_ISOLATION_SLICE] = "slice",
					  [RF_ISOLATION_SHARE] = "share",
					  [RF_ISOLATION_COOPERATIVE] = "cooperative",
					  [RF_ISOLATION_COOPERATIVE + 1] = NULL };
static const char *const POLICIES[] = { [RF_FLEET_FRAG] = "fgd",
					[RF_FLEET_PACK] = "pack",
					[RF_FLEET_SPREAD] = "spread",
					[RF_FLEET_FIRST] = "first",
					[RF_FLEET_FIRST + 1] = NULL };
static const char *const PLACEMENTS[] = { [RF_SCHED_FRAGMENTATION] = "fragmentation",
					  [RF_SCHED_PACK] = "pack",
					  [RF_SCHED_SPREAD] = "spread",
					  [RF_SCHED_SPREAD + 1] = NULL };
static const char *const RECLAIMS[] = { [RF_RECLAIM_GUARANTEE] = "guarantee",
					[RF_RECLAIM_FAIR] = "fair",
					[RF_RECLAIM_FAIR + 1] = NULL };
const char *const RF_LOG_VERDICTS[] = { [RF_CORE_BIND] = "bind",
					[RF_CORE_WAIT] = "wait",
					[RF_CORE_RELEASE] = "release",
					[RF_CORE_EVICT] = "evict",
					[RF_CORE_EVICT + 1] = NULL };

static const struct rf_log_field PAIR[] = { STR(rf_sched_pair, key), STR(rf_sched_pair, value) };
static const struct rf_log_record PAIRS = TABLE(PAIR, rf_sched_pair);

static const struct rf_log_field TAINT[] = { STR(rf_sched_taint, key), STR(rf_sched_taint, value),
					     STR(rf_sched_taint, effect) };
static const struct rf_log_record TAINTS = TABLE(TAINT, rf_sched_taint);

static const struct rf_log_field TOLERATION[] = { STR(rf_sched_toleration, key), STR(rf_sched_toleration, value),
						  STR(rf_sched_toleration, effect),
						  BOOL(rf_sched_toleration, any_value) };
static const struct rf_log_record TOLERATIONS = TABLE(TOLERATION, rf_sched_toleration);

static const struct rf_log_field AMOUNT[] = { STR(rf_sched_amount, name), INT(rf_sched_amount, n) };
static const struct rf_log_record AMOUNTS = TABLE(AMOUNT, rf_sched_amount);

static const struct rf_log_field MATCH[] = { STR(rf_sched_match, key), WORD(rf_sched_match, op, OPS),
					     STRS(rf_sched_match, values) };
static const struct rf_log_record MATCHES = TABLE(MATCH, rf_sched_match);

static const struct rf_log_field TERM[] = {
	{ "all", RF_LOG_LIST, offsetof(struct rf_sched_term, all), offsetof(struct rf_sched_term, n), .of = &MATCHES },
	INT(rf_sched_term, weight),
};
static const struct rf_log_record TERMS = TABLE(TERM, rf_sched_term);

static const struct rf_log_field NEAR[] = {
	BOOL(rf_sched_near, apart),
	STR(rf_sched_near, topology),
	RECORD(rf_sched_near, labels, TERMS),
	BOOL(rf_sched_near, any),
	STRS(rf_sched_near, namespaces),
	BOOL(rf_sched_near, all_namespaces),
};
static const struct rf_log_record NEARS = TABLE(NEAR, rf_sched_near);

static const struct rf_log_field SPREAD[] = { STR(rf_sched_spread, topology), INT(rf_sched_spread, max_skew),
					      INT(rf_sched_spread, min_domains),
					      RECORD(rf_sched_spread, labels, TERMS), BOOL(rf_sched_spread, any),
					      BOOL(rf_sched_spread, any_node), BOOL(rf_sched_spread, heed_taints) };
static const struct rf_log_record SPREADS = TABLE(SPREAD, rf_sched_spread);

#define ASK(key, kind, member) { .name = key, .type = kind, .at = offsetof(struct rf_sched_container, ask.member) }
static const struct rf_log_field CONTAINER[] = {
	STR(rf_sched_container, name),
	ASK("cards", RF_LOG_INT, cards),
	ASK("asked_as", RF_LOG_RESOURCE, name),
	ASK("share_bytes", RF_LOG_INT, share_bytes),
	ASK("share_milli", RF_LOG_INT, share_milli),
	ASK("slices", RF_LOG_INT, slices),
	ASK("profile", RF_LOG_STR, profile),
};
static const struct rf_log_record CONTAINERS = TABLE(CONTAINER, rf_sched_container);

static const struct rf_log_field GRANT[] = {
	STR(rf_sched_grant, container), STR(rf_sched_grant, device), INT(rf_sched_grant, bytes),
	INT(rf_sched_grant, milli),	BOOL(rf_sched_grant, whole), STR(rf_sched_grant, profile),
	INT(rf_sched_grant, start),
};
static const struct rf_log_record GRANTS = TABLE(GRANT, rf_sched_grant);

static const struct rf_log_field QUOTA[] = {
	STR(rf_sched_quota, resource),
	INT_OR(rf_sched_quota, guaranteed, -1),
	INT_OR(rf_sched_quota, limit, -1),
	INT_OR(rf_sched_quota, lending, -1),
	INT_OR(rf_sched_quota, borrowing, -1),
};
static const struct rf_log_record QUOTAS = TABLE(QUOTA, rf_sched_quota);

static const struct rf_log_field DEVICE[] = {
	STR(rf_sched_device, name),   STR(rf_sched_device, model),	   STR(rf_sched_device, fault),
	INT(rf_sched_device, memory), INT_OR(rf_sched_device, milli, 1000), BYTE(rf_sched_device, island),
	BYTE(rf_sched_device, numa),  BOOL(rf_sched_device, sliced),	   BOOL(rf_sched_device, fixed),
};
static const struct rf_log_record DEVICES = TABLE(DEVICE, rf_sched_device);

/* --- facts ------------------------------------------------------------------------------------ */

static const struct rf_log_field NODE[] = {
	NAME(rf_sched_node, name),	     INT(rf_sched_node, cpu_milli),
	INT(rf_sched_node, memory),	     INT(rf_sched_node, pods),
	BOOL(rf_sched_node, ready),	     BOOL(rf_sched_node, cordoned),
	LIST(rf_sched_node, labels, PAIRS),  LIST(rf_sched_node, taints, TAINTS),
	LIST(rf_sched_node, more, AMOUNTS),
};
static const struct rf_log_record NODES = TABLE(NODE, rf_sched_node);

static const struct rf_log_field NODE_DEVICES[] = {
	NAME(rf_log_event, name),
	{ "devices", RF_LOG_LIST, offsetof(struct rf_log_event, devices.at), offsetof(struct rf_log_event, devices.n),
	  .of = &DEVICES },
};
static const struct rf_log_record NODES_DEVICES = TABLE(NODE_DEVICES, rf_log_event);

static const struct rf_log_field QUEUE_AMOUNT[] = {
	STR(rf_queue_amount, name),
	INT_OR(rf_queue_amount, guaranteed, -1),
	INT_OR(rf_queue_amount, limit, -1),
	INT_OR(rf_queue_amount, lending, -1),
	INT_OR(rf_queue_amount, borrowing, -1),
};
static const struct rf_log_record QUEUE_AMOUNTS = TABLE(QUEUE_AMOUNT, rf_queue_amount);

static const struct rf_log_field TENANT[] = {
	NAME(rf_tenant, name),		WORD_OR(rf_tenant, isolation, ISOLATIONS, RF_ISOLATION_NODE), STR(rf_tenant, trust_domain),
	STRS(rf_tenant, namespaces),	INT(rf_tenant, quota_gpus),		INT(rf_tenant, quota_gpu_memory),
	INT_OR(rf_tenant, quota_pods, -1), INT(rf_tenant, queue_weight),
	STR(rf_tenant, queue_parent),	LIST(rf_tenant, queue_amounts, QUEUE_AMOUNTS),
};
static const struct rf_log_record TENANTS = TABLE(TENANT, rf_tenant);

static const struct rf_log_field QUEUE[] = {
	NAME(rf_sched_queue, name),
	STR(rf_sched_queue, parent),
	STR(rf_sched_queue, tenant),
	INT(rf_sched_queue, weight),
	LIST(rf_sched_queue, quotas, QUOTAS),
};
static const struct rf_log_record QUEUES = TABLE(QUEUE, rf_sched_queue);

static const struct rf_log_field GROUP[] = {
	STR(rf_sched_group, ns),	       NAME(rf_sched_group, name),
	INT(rf_sched_group, rv),	       INT(rf_sched_group, min),
	INT(rf_sched_group, created_ms),       STR(rf_sched_group, queue),
	STR(rf_sched_group, topology),	       BOOL(rf_sched_group, pinned),
	INT(rf_sched_group, min_run_ms),       INT(rf_sched_group, run_limit_ms),
	BOOL(rf_sched_group, started),	       INT(rf_sched_group, ending_ms),
};
static const struct rf_log_record GROUPS = TABLE(GROUP, rf_sched_group);

static const struct rf_log_field POD[] = {
	NAME(rf_sched_pod, uid),
	STR(rf_sched_pod, ns),
	STR(rf_sched_pod, name),
	INT(rf_sched_pod, rv),
	STR(rf_sched_pod, node),
	BOOL(rf_sched_pod, ended),
	BOOL(rf_sched_pod, well),
	BOOL(rf_sched_pod, deleting),
	INT(rf_sched_pod, priority),
	INT(rf_sched_pod, created_ms),
	INT(rf_sched_pod, cpu_milli),
	INT(rf_sched_pod, memory),
	STR(rf_sched_pod, os),
	STR(rf_sched_pod, only_node),
	BOOL(rf_sched_pod, daemon),
	STR(rf_sched_pod, unsupported),
	LIST(rf_sched_pod, containers, CONTAINERS),
	LIST(rf_sched_pod, selector, PAIRS),
	LIST(rf_sched_pod, tolerations, TOLERATIONS),
	LIST(rf_sched_pod, more, AMOUNTS),
	LIST(rf_sched_pod, labels, PAIRS),
	LIST(rf_sched_pod, node_terms, TERMS),
	LIST(rf_sched_pod, prefers, TERMS),
	LIST(rf_sched_pod, nears, NEARS),
	LIST(rf_sched_pod, spreads, SPREADS),
	STR(rf_sched_pod, queue),
	STR(rf_sched_pod, group),
	STR(rf_sched_pod, models),
	BOOL(rf_sched_pod, one_island),
	BOOL(rf_sched_pod, pinned),
	BOOL(rf_sched_pod, patient),
	BOOL(rf_sched_pod, gated),
	INT(rf_sched_pod, min_run_ms),
	INT(rf_sched_pod, run_limit_ms),
	INT(rf_sched_pod, started_ms),
	INT(rf_sched_pod, grace_ms),
};
static const struct rf_log_record PODS = TABLE(POD, rf_sched_pod);

static const struct rf_log_field CLAIM[] = {
	STR(rf_sched_claim, ns),     NAME(rf_sched_claim, name),     STR(rf_sched_claim, pod_uid),
	STR(rf_sched_claim, tenant), INT(rf_sched_claim, rv),	     BOOL(rf_sched_claim, deleting),
	STR(rf_sched_claim, node),   LIST(rf_sched_claim, grants, GRANTS),
};
static const struct rf_log_record CLAIMS = TABLE(CLAIM, rf_sched_claim);

static const struct rf_log_field BUDGET[] = {
	STR(rf_sched_budget, ns),	      NAME(rf_sched_budget, name), RECORD(rf_sched_budget, labels, TERMS),
	BOOL(rf_sched_budget, any),	      INT(rf_sched_budget, allowed),
};
static const struct rf_log_record BUDGETS = TABLE(BUDGET, rf_sched_budget);

static const struct rf_log_field POOL[] = { NAME(rf_sched_pool, name), WORD(rf_sched_pool, placement, PLACEMENTS) };
static const struct rf_log_record POOLS = TABLE(POOL, rf_sched_pool);

/* --- events ----------------------------------------------------------------------------------- */

static const struct rf_log_field BY_NAME[] = { NAME(rf_log_event, name) };
static const struct rf_log_record NAMED = TABLE(BY_NAME, rf_log_event);
static const struct rf_log_field BY_NS_NAME[] = { STR(rf_log_event, ns), NAME(rf_log_event, name) };
static const struct rf_log_record NAMED_IN = TABLE(BY_NS_NAME, rf_log_event);
static const struct rf_log_field BY_UID[] = { NAME(rf_log_event, uid) };
static const struct rf_log_record WITH_UID = TABLE(BY_UID, rf_log_event);
static const struct rf_log_field NAMESPACE[] = { NAME(rf_log_event, name), STR(rf_log_event, tenant) };
static const struct rf_log_record NAMESPACES = TABLE(NAMESPACE, rf_log_event);

#define SHAPE(kind, word, member, put_record, del_record)                                                              \
	[kind] = { .name = word, .put = &put_record, .del = del_record, .at = offsetof(struct rf_log_event, member) }
const struct rf_log_shape RF_LOG_SHAPES[RF_LOG_KINDS] = {
	SHAPE(RF_LOG_NODE, "node", node, NODES, &NAMED),
	[RF_LOG_DEVICES] = { .name = "devices", .put = &NODES_DEVICES },
	SHAPE(RF_LOG_TENANT, "tenant", tenant_spec, TENANTS, &NAMED),
	[RF_LOG_NAMESPACE] = { .name = "namespace", .put = &NAMESPACES, .del = &NAMED },
	SHAPE(RF_LOG_QUEUE, "queue", queue, QUEUES, &NAMED),
	SHAPE(RF_LOG_GROUP, "group", group, GROUPS, &NAMED_IN),
	SHAPE(RF_LOG_POD, "pod", pod, PODS, &WITH_UID),
	SHAPE(RF_LOG_CLAIM, "claim", claim, CLAIMS, &NAMED_IN),
	SHAPE(RF_LOG_BUDGET, "budget", budget, BUDGETS, &NAMED_IN),
	SHAPE(RF_LOG_POOL, "pool", pool, POOLS, &NAMED),
};

static const char *const CAUSES[] = { [RF_CORE_NO_CAUSE] = "none",
				      [RF_CORE_RECLAIMED] = "reclaimed",
				      [RF_CORE_PREEMPTED] = "preempted",
				      [RF_CORE_INCOMPLETE] = "incomplete",
				      [RF_CORE_INCOMPLETE + 1] = NULL };
static const struct rf_log_field DECISION[] = {
	WORD(rf_core_decision, cause, CAUSES),
	STR(rf_core_decision, ns),	 STR(rf_core_decision, name),	STR(rf_core_decision, tenant),
	STR(rf_core_decision, node),	 BOOL(rf_core_decision, promised),
	LIST(rf_core_decision, grants, GRANTS), COUNT(rf_core_decision, commit_left), STR(rf_core_decision, group),
	STR(rf_core_decision, reason),
};
const struct rf_log_record RF_LOG_DECISION_RECORD = TABLE(DECISION, rf_core_decision);

static const struct rf_log_field FAILED[] = {
	WORD_OR(rf_log_event, verdict, RF_LOG_VERDICTS, -1), /* always written */
	STR(rf_log_event, why),
};
const struct rf_log_record RF_LOG_FAILED_RECORD = TABLE(FAILED, rf_log_event);

static const struct rf_log_field CONFIG[] = {
	WORD(rf_core_config, policy, POLICIES),	   WORD(rf_core_config, reclaim, RECLAIMS),
	INT(rf_core_config, half_life_ms),	   INT(rf_core_config, entry_ms),
	INT(rf_core_config, reserve_after_ms),	   INT(rf_core_config, reserve_cards),
	INT(rf_core_config, reserve_most),	   INT(rf_core_config, gang_window_ms),
	INT(rf_core_config, tell_ms),		   COUNT(rf_core_config, victims_most),
};
const struct rf_log_record RF_LOG_CONFIG_RECORD = TABLE(CONFIG, rf_core_config);
