/* What each kind shows in `kubectl get`. */
#include "apiserver/table.h"

#define NONE RF_LIT("<none>")

static struct rf_str or_none(struct rf_str s)
{
	return s.n > 0 ? s : NONE;
}

static struct rf_str join(struct rf_arena *a, const struct rf_json *list, const char *field)
{
	rf_auto(buf) out = RF_BUF_INIT;

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *item = rf_json_item(list, i);

		if (out.n > 0)
			rf_buf_puts(&out, ",");
		rf_buf_add(&out, field != NULL ? rf_json_str_at(item, field) : rf_json_str(item));
	}
	return or_none(rf_arena_str(a, rf_buf_str(&out)));
}

static const struct rf_json *condition(const struct rf_json *o, const char *type)
{
	const struct rf_json *list = rf_json_at(o, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(list, i), "type"), type))
			return rf_json_item(list, i);
	return NULL;
}

/* --- pods ----------------------------------------------------------------------------------- */

/* The word a person wants to see: why it waits or ended, else its phase. */
static struct rf_str container_word(struct rf_arena *a, const struct rf_json *state)
{
	struct rf_str reason = rf_json_str_at(state, "waiting", "reason");
	const struct rf_json *ended = rf_json_at(state, "terminated");

	if (reason.n > 0 || ended == NULL)
		return reason;
	reason = rf_json_str_at(ended, "reason");
	if (reason.n > 0)
		return reason;
	if (rf_json_int(rf_json_at(ended, "signal"), 0) != 0)
		return rf_arena_printf(a, "Signal:%lld",
				       (long long)rf_json_int(rf_json_at(ended, "signal"), 0));
	return rf_arena_printf(a, "ExitCode:%lld",
			       (long long)rf_json_int(rf_json_at(ended, "exitCode"), 0));
}

static struct rf_str pod_word(struct rf_table_cells *c)
{
	const struct rf_json *all = rf_json_at(c->o, "status", "containerStatuses");
	struct rf_str word = rf_json_str_at(c->o, "status", "reason");

	if (word.n == 0)
		word = rf_json_str_at(c->o, "status", "phase");
	for (size_t i = 0; i < rf_json_len(all); i++) {
		struct rf_str w = container_word(c->a, rf_json_at(rf_json_item(all, i), "state"));

		if (w.n > 0)
			word = w;
	}
	if (rf_json_at(c->o, "metadata", "deletionTimestamp") != NULL)
		return RF_LIT("Terminating");
	return word;
}

static void pod_cells(struct rf_table_cells *c)
{
	const struct rf_json *all = rf_json_at(c->o, "status", "containerStatuses");
	int64_t ready = 0, restarts = 0;

	for (size_t i = 0; i < rf_json_len(all); i++) {
		const struct rf_json *one = rf_json_item(all, i);

		ready += rf_json_is_true(rf_json_at(one, "ready"));
		restarts += rf_json_int(rf_json_at(one, "restartCount"), 0);
	}
	rf_cell(c, rf_arena_printf(c->a, "%lld/%zu", (long long)ready,
				   rf_json_len(rf_json_at(c->o, "spec", "containers"))));
	rf_cell(c, pod_word(c));
	rf_cell_int(c, restarts);
	rf_cell_age(c);
	rf_cell(c, or_none(rf_json_str_at(c->o, "status", "podIP")));
	rf_cell(c, or_none(rf_json_str_at(c->o, "spec", "nodeName")));
	rf_cell(c, or_none(rf_json_str_at(c->o, "status", "nominatedNodeName")));
	rf_cell(c, NONE);
}
static const struct rf_table_column POD[] = {
	{ "Ready", "string", 0 },
	{ "Status", "string", 0 },
	{ "Restarts", "string", 0 },
	{ "Age", "string", 0 },
	{ "IP", "string", 1 },
	{ "Node", "string", 1 },
	{ "Nominated Node", "string", 1 },
	{ "Readiness Gates", "string", 1 },
};

/* --- nodes ---------------------------------------------------------------------------------- */

static struct rf_str node_status(struct rf_table_cells *c)
{
	struct rf_str ready = rf_json_str_at(condition(c->o, "Ready"), "status");
	const char *word = rf_str_is(ready, "True") ? "Ready"
			   : ready.n > 0	    ? "NotReady"
						    : "Unknown";
	bool closed = rf_json_is_true(rf_json_at(c->o, "spec", "unschedulable"));

	return rf_arena_printf(c->a, "%s%s", word, closed ? ",SchedulingDisabled" : "");
}

static struct rf_str node_roles(struct rf_table_cells *c)
{
	const struct rf_json *labels = rf_json_at(c->o, "metadata", "labels");
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_str prefix = RF_LIT("node-role.kubernetes.io/");

	for (size_t i = 0; i < rf_json_len(labels); i++) {
		struct rf_str key = labels->members[i].key;

		if (!rf_str_starts(key, prefix))
			continue;
		if (out.n > 0)
			rf_buf_add_c(&out, ',');
		rf_buf_add(&out, rf_str_skip(key, prefix.n));
	}
	return or_none(rf_arena_str(c->a, rf_buf_str(&out)));
}

static struct rf_str node_address(struct rf_table_cells *c, const char *type)
{
	const struct rf_json *all = rf_json_at(c->o, "status", "addresses");

	for (size_t i = 0; i < rf_json_len(all); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(all, i), "type"), type))
			return rf_json_str_at(rf_json_item(all, i), "address");
	return NONE;
}

static void node_cells(struct rf_table_cells *c)
{
	const struct rf_json *info = rf_json_at(c->o, "status", "nodeInfo");

	rf_cell(c, node_status(c));
	rf_cell(c, node_roles(c));
	rf_cell_age(c);
	rf_cell(c, or_none(rf_json_str_at(info, "kubeletVersion")));
	rf_cell(c, node_address(c, "InternalIP"));
	rf_cell(c, node_address(c, "ExternalIP"));
	rf_cell(c, or_none(rf_json_str_at(info, "osImage")));
	rf_cell(c, or_none(rf_json_str_at(info, "kernelVersion")));
	rf_cell(c, or_none(rf_json_str_at(info, "containerRuntimeVersion")));
}
static const struct rf_table_column NODE[] = {
	{ "Status", "string", 0 },
	{ "Roles", "string", 0 },
	{ "Age", "string", 0 },
	{ "Version", "string", 0 },
	{ "Internal-IP", "string", 1 },
	{ "External-IP", "string", 1 },
	{ "OS-Image", "string", 1 },
	{ "Kernel-Version", "string", 1 },
	{ "Container-Runtime", "string", 1 },
};

/* --- core ----------------------------------------------------------------------------------- */

static void age_cells(struct rf_table_cells *c)
{
	rf_cell_age(c);
}
static const struct rf_table_column AGE[] = { { "Age", "string", 0 } };

static void namespace_cells(struct rf_table_cells *c)
{
	rf_cell(c, rf_json_str_at(c->o, "status", "phase"));
	rf_cell_age(c);
}
static const struct rf_table_column NAMESPACE[] = { { "Status", "string", 0 },
						    { "Age", "string", 0 } };

static void event_cells(struct rf_table_cells *c)
{
	const struct rf_json *about = rf_json_at(c->o, "involvedObject");
	struct rf_str last = rf_json_str_at(c->o, "lastTimestamp");
	struct rf_str kind = rf_json_str_at(about, "kind");
	char lower[64] = "";

	for (size_t i = 0; i < kind.n && i < sizeof(lower) - 1; i++)
		lower[i] =
			(char)(kind.p[i] >= 'A' && kind.p[i] <= 'Z' ? kind.p[i] + 32 : kind.p[i]);
	if (last.n == 0)
		last = rf_json_str_at(c->o, "eventTime");
	if (last.n == 0)
		last = rf_json_str_at(c->o, "metadata", "creationTimestamp");
	rf_cell_since(c, last);
	rf_cell(c, rf_json_str_at(c->o, "type"));
	rf_cell(c, rf_json_str_at(c->o, "reason"));
	rf_cell(c, rf_arena_printf(c->a, "%s/%.*s", lower, RF_STR(rf_json_str_at(about, "name"))));
	rf_cell(c, rf_str_trim(rf_json_str_at(c->o, "message")));
	rf_cell(c, or_none(rf_json_str_at(c->o, "source", "component")));
	rf_cell_int(c, rf_json_int(rf_json_at(c->o, "count"), 1));
}
static const struct rf_table_column EVENT[] = {
	{ "Last Seen", "string", 0 }, { "Type", "string", 0 },	  { "Reason", "string", 0 },
	{ "Object", "string", 0 },    { "Message", "string", 0 }, { "Source", "string", 1 },
	{ "Count", "integer", 1 },
};

static void secret_cells(struct rf_table_cells *c)
{
	rf_cell(c, rf_json_str_at(c->o, "type"));
	rf_cell_int(c, (int64_t)rf_json_len(rf_json_at(c->o, "data")));
	rf_cell_age(c);
}
static const struct rf_table_column SECRET[] = { { "Type", "string", 0 },
						 { "Data", "string", 0 },
						 { "Age", "string", 0 } };

static void configmap_cells(struct rf_table_cells *c)
{
	rf_cell_int(c, (int64_t)(rf_json_len(rf_json_at(c->o, "data")) +
				 rf_json_len(rf_json_at(c->o, "binaryData"))));
	rf_cell_age(c);
}
static const struct rf_table_column CONFIGMAP[] = { { "Data", "string", 0 },
						    { "Age", "string", 0 } };

static void serviceaccount_cells(struct rf_table_cells *c)
{
	rf_cell_int(c, (int64_t)rf_json_len(rf_json_at(c->o, "secrets")));
	rf_cell_age(c);
}
static const struct rf_table_column SERVICEACCOUNT[] = { { "Secrets", "string", 0 },
							 { "Age", "string", 0 } };

static struct rf_str quota_text(struct rf_table_cells *c, bool limits)
{
	const struct rf_json *hard = rf_json_at(c->o, "status", "hard");
	const struct rf_json *used = rf_json_at(c->o, "status", "used");
	rf_auto(buf) out = RF_BUF_INIT;

	for (size_t i = 0; i < rf_json_len(hard); i++) {
		struct rf_str key = hard->members[i].key;

		if (rf_str_starts(key, RF_LIT("limits.")) != limits)
			continue;
		rf_buf_printf(&out, "%s%.*s: %.*s/%.*s", out.n > 0 ? ", " : "", RF_STR(key),
			      RF_STR(rf_json_str(rf_json_get(used, key))),
			      RF_STR(rf_json_str(hard->members[i].value)));
	}
	return rf_arena_str(c->a, rf_buf_str(&out));
}

static void quota_cells(struct rf_table_cells *c)
{
	rf_cell(c, quota_text(c, false));
	rf_cell(c, quota_text(c, true));
	rf_cell_age(c);
}
static const struct rf_table_column QUOTA[] = { { "Request", "string", 0 },
						{ "Limit", "string", 0 },
						{ "Age", "string", 0 } };

/* --- other groups --------------------------------------------------------------------------- */

static void created_cells(struct rf_table_cells *c)
{
	rf_cell(c, rf_json_str_at(c->o, "metadata", "creationTimestamp"));
}
static const struct rf_table_column CREATED[] = { { "Created At", "date", 0 } };

static struct rf_str subjects(struct rf_table_cells *c, const char *kind)
{
	const struct rf_json *all = rf_json_at(c->o, "subjects");
	struct rf_json *some = rf_json_array(c->a);

	for (size_t i = 0; i < rf_json_len(all); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(all, i), "kind"), kind))
			rf_json_push(c->a, some, rf_json_item(all, i));
	return rf_json_len(some) > 0 ? join(c->a, some, "name") : RF_STR_EMPTY;
}

static void binding_cells(struct rf_table_cells *c)
{
	rf_cell(c,
		rf_arena_printf(c->a, "%.*s/%.*s", RF_STR(rf_json_str_at(c->o, "roleRef", "kind")),
				RF_STR(rf_json_str_at(c->o, "roleRef", "name"))));
	rf_cell_age(c);
	rf_cell(c, subjects(c, "User"));
	rf_cell(c, subjects(c, "Group"));
	rf_cell(c, subjects(c, "ServiceAccount"));
}
static const struct rf_table_column BINDING[] = {
	{ "Role", "string", 0 },
	{ "Age", "string", 0 },
	{ "Users", "string", 1 },
	{ "Groups", "string", 1 },
	{ "ServiceAccounts", "string", 1 },
};

static void lease_cells(struct rf_table_cells *c)
{
	rf_cell(c, rf_json_str_at(c->o, "spec", "holderIdentity"));
	rf_cell_age(c);
}
static const struct rf_table_column LEASE[] = { { "Holder", "string", 0 }, { "Age", "string", 0 } };

static void slice_cells(struct rf_table_cells *c)
{
	rf_cell(c, or_none(rf_json_str_at(c->o, "spec", "nodeName")));
	rf_cell(c, rf_json_str_at(c->o, "spec", "driver"));
	rf_cell(c, rf_json_str_at(c->o, "spec", "pool", "name"));
	rf_cell_age(c);
	rf_cell_int(c, (int64_t)rf_json_len(rf_json_at(c->o, "spec", "devices")));
}
static const struct rf_table_column SLICE[] = {
	{ "Node", "string", 0 }, { "Driver", "string", 0 },   { "Pool", "string", 0 },
	{ "Age", "string", 0 },	 { "Devices", "integer", 1 },
};

static void claim_cells(struct rf_table_cells *c)
{
	const struct rf_json *results =
		rf_json_at(c->o, "status", "allocation", "devices", "results");
	bool allocated = rf_json_at(c->o, "status", "allocation") != NULL;
	bool reserved = rf_json_len(rf_json_at(c->o, "status", "reservedFor")) > 0;
	bool leaving = rf_json_at(c->o, "metadata", "deletionTimestamp") != NULL;

	rf_cell(c,
		rf_arena_printf(c->a, "%s%s%s", leaving ? "deleted," : "",
				allocated ? "allocated" : "pending", reserved ? ",reserved" : ""));
	rf_cell_age(c);
	rf_cell(c, join(c->a, results, "pool"));
	rf_cell(c, join(c->a, results, "device"));
}
static const struct rf_table_column CLAIM[] = { { "State", "string", 0 },
						{ "Age", "string", 0 },
						{ "Pool", "string", 1 },
						{ "Device", "string", 1 } };

static struct rf_str number_or(struct rf_arena *a, const struct rf_json *v, const char *otherwise)
{
	if (v == NULL)
		return rf_str(otherwise);
	return v->type == RF_JSON_STRING ? rf_json_str(v) : rf_json_text_of(a, v);
}

static struct rf_str ready_word(struct rf_table_cells *c)
{
	struct rf_str s = rf_json_str_at(condition(c->o, "Ready"), "status");

	return s.n > 0 ? s : RF_LIT("Unknown");
}

static void tenant_cells(struct rf_table_cells *c)
{
	const struct rf_json *spec = rf_json_at(c->o, "spec");
	struct rf_str isolation = rf_json_str_at(spec, "isolation");
	struct rf_str domain = rf_json_str_at(spec, "trustDomain");

	rf_cell(c, isolation.n > 0 ? isolation : RF_LIT("gpu"));
	rf_cell(c, domain.n > 0 ? domain : rf_json_str_at(c->o, "metadata", "name"));
	rf_cell(c, number_or(c->a, rf_json_at(spec, "quota", "gpus"), "0"));
	rf_cell(c, ready_word(c));
	rf_cell_age(c);
	rf_cell(c, number_or(c->a, rf_json_at(spec, "quota", "gpuMemory"), "0"));
	rf_cell(c, join(c->a, rf_json_at(spec, "namespaces"), NULL));
}
static const struct rf_table_column TENANT[] = {
	{ "Isolation", "string", 0 },  { "Trust Domain", "string", 0 },
	{ "GPUs", "string", 0 },       { "Ready", "string", 0 },
	{ "Age", "string", 0 },	       { "GPU Memory", "string", 1 },
	{ "Namespaces", "string", 1 },
};

static void queue_cells(struct rf_table_cells *c)
{
	rf_cell(c, rf_json_str_at(c->o, "spec", "parent"));
	rf_cell(c, number_or(c->a, rf_json_at(c->o, "spec", "weight"), "1"));
	rf_cell(c, number_or(c->a, rf_json_at(c->o, "status", "pending"), "0"));
	rf_cell(c, number_or(c->a, rf_json_at(c->o, "status", "running"), "0"));
	rf_cell_age(c);
}
static const struct rf_table_column QUEUE[] = { { "Parent", "string", 0 },
						{ "Weight", "string", 0 },
						{ "Pending", "string", 0 },
						{ "Running", "string", 0 },
						{ "Age", "string", 0 } };

static void group_cells(struct rf_table_cells *c)
{
	struct rf_str phase = rf_json_str_at(c->o, "status", "phase");

	rf_cell(c, phase.n > 0 ? phase : RF_LIT("Pending"));
	rf_cell(c, number_or(c->a, rf_json_at(c->o, "spec", "minMember"), "1"));
	rf_cell(c, number_or(c->a, rf_json_at(c->o, "status", "scheduled"), "0"));
	rf_cell_age(c);
	rf_cell(c, rf_json_str_at(c->o, "status", "message"));
}
static const struct rf_table_column GROUP[] = { { "Phase", "string", 0 },
						{ "Min", "string", 0 },
						{ "Scheduled", "string", 0 },
						{ "Age", "string", 0 },
						{ "Message", "string", 1 } };

static void budget_cells(struct rf_table_cells *c)
{
	rf_cell(c, number_or(c->a, rf_json_at(c->o, "spec", "minAvailable"), "N/A"));
	rf_cell(c, number_or(c->a, rf_json_at(c->o, "spec", "maxUnavailable"), "N/A"));
	rf_cell(c, number_or(c->a, rf_json_at(c->o, "status", "disruptionsAllowed"), "0"));
	rf_cell_age(c);
}
static const struct rf_table_column BUDGET[] = { { "Min Available", "string", 0 },
						 { "Max Unavailable", "string", 0 },
						 { "Allowed Disruptions", "string", 0 },
						 { "Age", "string", 0 } };

static void priority_class_cells(struct rf_table_cells *c)
{
	rf_cell(c, number_or(c->a, rf_json_at(c->o, "value"), "0"));
	rf_cell(c, rf_json_is_true(rf_json_at(c->o, "globalDefault")) ? RF_LIT("true") : RF_LIT("false"));
	rf_cell_age(c);
	rf_cell(c, rf_json_str_at(c->o, "preemptionPolicy"));
}
static const struct rf_table_column PRIORITY_CLASS[] = { { "Value", "string", 0 },
							 { "Global-Default", "string", 0 },
							 { "Age", "string", 0 },
							 { "PreemptionPolicy", "string", 0 } };

static void constraint_cells(struct rf_table_cells *c)
{
	struct rf_str action = rf_json_str_at(c->o, "spec", "enforcementAction");

	rf_cell(c, action.n > 0 ? action : RF_LIT("deny"));
	rf_cell_age(c);
}
static const struct rf_table_column CONSTRAINT_COLUMNS[] = { { "Enforcement-Action", "string", 0 },
							     { "Age", "string", 0 } };
static const struct rf_table_kind CONSTRAINT = { "", CONSTRAINT_COLUMNS,
						 RF_COUNT(CONSTRAINT_COLUMNS), constraint_cells,
						 false };

static const struct rf_table_kind KINDS[] = {
	{ "pods", POD, RF_COUNT(POD), pod_cells, false },
	{ "nodes", NODE, RF_COUNT(NODE), node_cells, false },
	{ "namespaces", NAMESPACE, RF_COUNT(NAMESPACE), namespace_cells, false },
	{ "events", EVENT, RF_COUNT(EVENT), event_cells, true },
	{ "secrets", SECRET, RF_COUNT(SECRET), secret_cells, false },
	{ "configmaps", CONFIGMAP, RF_COUNT(CONFIGMAP), configmap_cells, false },
	{ "serviceaccounts", SERVICEACCOUNT, RF_COUNT(SERVICEACCOUNT), serviceaccount_cells,
	  false },
	{ "resourcequotas", QUOTA, RF_COUNT(QUOTA), quota_cells, false },
	{ "roles", CREATED, RF_COUNT(CREATED), created_cells, false },
	{ "clusterroles", CREATED, RF_COUNT(CREATED), created_cells, false },
	{ "rolebindings", BINDING, RF_COUNT(BINDING), binding_cells, false },
	{ "clusterrolebindings", BINDING, RF_COUNT(BINDING), binding_cells, false },
	{ "leases", LEASE, RF_COUNT(LEASE), lease_cells, false },
	{ "resourceslices", SLICE, RF_COUNT(SLICE), slice_cells, false },
	{ "resourceclaims", CLAIM, RF_COUNT(CLAIM), claim_cells, false },
	{ "tenants", TENANT, RF_COUNT(TENANT), tenant_cells, false },
	{ "queues", QUEUE, RF_COUNT(QUEUE), queue_cells, false },
	{ "podgroups", GROUP, RF_COUNT(GROUP), group_cells, false },
	{ "poddisruptionbudgets", BUDGET, RF_COUNT(BUDGET), budget_cells, false },
	{ "priorityclasses", PRIORITY_CLASS, RF_COUNT(PRIORITY_CLASS), priority_class_cells, false },
};
static const struct rf_table_kind OTHER = { "", AGE, RF_COUNT(AGE), age_cells, false };

const struct rf_table_kind *rf_table_kind(const struct rf_kind *k)
{
	for (size_t i = 0; i < RF_COUNT(KINDS); i++)
		if (rf_kind_is(k, KINDS[i].plural))
			return &KINDS[i];
	return k->constraint ? &CONSTRAINT : &OTHER;
}
