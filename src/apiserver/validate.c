#include "apiserver/validate.h"

#include "apiserver/budget.h"
#include "codec/base64.h"
#include "tenant/tenant.h"

int rf_validate_quantities(const char *field, const struct rf_json *map, struct rf_err *err)
{
	for (size_t i = 0; i < rf_json_len(map); i++) {
		const struct rf_json *v = map->members[i].value;
		struct rf_str text = v->type == RF_JSON_NUMBER ? v->text : rf_json_str(v);
		int64_t milli;

		if (!rf_str_is_label_key(map->members[i].key) &&
		    !rf_str_starts(map->members[i].key, RF_LIT("count/")) &&
		    !rf_str_contains(map->members[i].key, RF_LIT(".")))
			return rf_fail(err, RF_INVALID,
				       "%s: Invalid value: \"%.*s\": not a resource name", field,
				       RF_STR(map->members[i].key));
		if (rf_quantity_milli(text, &milli, NULL) < 0)
			return rf_fail(err, RF_INVALID,
				       "%s[%.*s]: Invalid value: \"%.*s\": quantities must match "
				       "number and suffix, as in 2, 500m or 20Gi",
				       field, RF_STR(map->members[i].key), RF_STR(text));
		if (milli < 0)
			return rf_fail(err, RF_INVALID,
				       "%s[%.*s]: Invalid value: \"%.*s\": must be greater than or "
				       "equal to 0",
				       field, RF_STR(map->members[i].key), RF_STR(text));
	}
	return 0;
}

static int same(const struct rf_json *old, const struct rf_json *o, const char *field,
		struct rf_err *err)
{
	const struct rf_json *was = rf_json_at(old, field), *is = rf_json_at(o, field);

	if (old == NULL || (was == NULL && is == NULL) ||
	    (was != NULL && is != NULL && rf_json_equal(was, is)))
		return 0;
	return rf_fail(err, RF_INVALID, "%s: Invalid value: field is immutable", field);
}

/* --- configuration -------------------------------------------------------------------------- */

static bool is_data_key(struct rf_str key)
{
	if (key.n == 0 || key.n > 253 || rf_str_is(key, ".") || rf_str_is(key, ".."))
		return false;
	for (size_t i = 0; i < key.n; i++) {
		char c = key.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '-' || c == '_' || c == '.'))
			return false;
	}
	return true;
}

static int check_data(struct rf_arena *a, const struct rf_json *o, const char *field, bool base64,
		      struct rf_err *err)
{
	const struct rf_json *data = rf_json_at(o, field);
	size_t total = 0;

	for (size_t i = 0; i < rf_json_len(data); i++) {
		const struct rf_json_member *m = &data->members[i];
		struct rf_str bytes = rf_json_str(m->value);

		if (!is_data_key(m->key))
			return rf_fail(
				err, RF_INVALID,
				"%s[%.*s]: Invalid value: a valid config key must consist of "
				"alphanumeric characters, '-', '_' or '.'",
				field, RF_STR(m->key));
		if (base64 && rf_base64_decode(a, bytes, &bytes, err) < 0)
			return rf_fail(err, RF_INVALID, "%s[%.*s]: Invalid value: not base64",
				       field, RF_STR(m->key));
		total += bytes.n;
	}
	if (total > 1024 * 1024)
		return rf_fail(err, RF_INVALID, "%s: Too long: must have at most 1048576 bytes",
			       field);
	return 0;
}

static int frozen(const struct rf_json *old, const struct rf_json *o, struct rf_err *err)
{
	if (!rf_json_is_true(rf_json_at(old, "immutable")))
		return 0;
	if (!rf_json_is_true(rf_json_at(o, "immutable")))
		return rf_fail(err, RF_INVALID,
			       "immutable: Forbidden: field is immutable when `immutable` is set");
	if (same(old, o, "data", err) < 0 || same(old, o, "binaryData", err) < 0)
		return -err->code;
	return 0;
}

static int validate_secret(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			   struct rf_err *err)
{
	if (frozen(old, o, err) < 0 || same(old, o, "type", err) < 0)
		return -err->code;
	return check_data(a, o, "data", true, err);
}

static int validate_configmap(struct rf_arena *a, const struct rf_json *old,
			      const struct rf_json *o, struct rf_err *err)
{
	if (frozen(old, o, err) < 0 || check_data(a, o, "data", false, err) < 0)
		return -err->code;
	return check_data(a, o, "binaryData", true, err);
}

static int validate_quota(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			  struct rf_err *err)
{
	if (rf_json_len(rf_json_at(o, "spec", "scopes")) > 0 ||
	    rf_json_at(o, "spec", "scopeSelector") != NULL)
		return rf_fail(
			err, RF_INVALID,
			"spec.scopes: Forbidden: scoped quotas are not served; leave scopes out");
	return rf_validate_quantities("spec.hard", rf_json_at(o, "spec", "hard"), err);
}

/* --- RBAC ----------------------------------------------------------------------------------- */

static int validate_role(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			 struct rf_err *err)
{
	const struct rf_json *rules = rf_json_at(o, "rules");
	bool cluster = rf_str_is(rf_json_str_at(o, "kind"), "ClusterRole");

	if (rf_json_at(o, "aggregationRule") != NULL)
		return rf_fail(
			err, RF_INVALID,
			"aggregationRule: Forbidden: aggregated roles are not served; write the "
			"rules out");
	for (size_t i = 0; i < rf_json_len(rules); i++) {
		const struct rf_json *r = rf_json_item(rules, i);
		bool urls = rf_json_len(rf_json_at(r, "nonResourceURLs")) > 0;

		if (rf_json_len(rf_json_at(r, "verbs")) == 0)
			return rf_fail(
				err, RF_INVALID,
				"rules[%zu].verbs: Required value: verbs must contain at least "
				"one value",
				i);
		if (urls && !cluster)
			return rf_fail(
				err, RF_INVALID,
				"rules[%zu].nonResourceURLs: Invalid value: namespaced rules "
				"cannot apply to non-resource URLs",
				i);
		if (urls != (rf_json_len(rf_json_at(r, "resources")) == 0) ||
		    (!urls && rf_json_len(rf_json_at(r, "apiGroups")) == 0))
			return rf_fail(
				err, RF_INVALID,
				"rules[%zu]: Required value: resource rules must supply at least "
				"one api group and one resource, or else nonResourceURLs",
				i);
	}
	return 0;
}

static int check_subject(const struct rf_json *s, bool cluster, size_t i, struct rf_err *err)
{
	struct rf_str kind = rf_json_str_at(s, "kind");

	if (!rf_word_in("User Group ServiceAccount", kind))
		return rf_fail(err, RF_INVALID,
			       "subjects[%zu].kind: Unsupported value: \"%.*s\": supported values: "
			       "\"User\", \"Group\", \"ServiceAccount\"",
			       i, RF_STR(kind));
	if (rf_json_str_at(s, "name").n == 0)
		return rf_fail(err, RF_INVALID, "subjects[%zu].name: Required value", i);
	if (cluster && rf_str_is(kind, "ServiceAccount") && rf_json_str_at(s, "namespace").n == 0)
		return rf_fail(err, RF_INVALID, "subjects[%zu].namespace: Required value", i);
	return 0;
}

static int validate_binding(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			    struct rf_err *err)
{
	const struct rf_json *subjects = rf_json_at(o, "subjects");
	struct rf_str role = rf_json_str_at(o, "roleRef", "kind");
	bool cluster = rf_str_is(rf_json_str_at(o, "kind"), "ClusterRoleBinding");

	if (same(old, o, "roleRef", err) < 0)
		return rf_wrap(err, "a binding cannot change its role; delete and create it anew");
	if (!rf_str_is(role, "ClusterRole") && (cluster || !rf_str_is(role, "Role")))
		return rf_fail(err, RF_INVALID,
			       "roleRef.kind: Unsupported value: \"%.*s\": supported values: "
			       "\"ClusterRole\"%s",
			       RF_STR(role), cluster ? "" : ", \"Role\"");
	if (rf_json_str_at(o, "roleRef", "name").n == 0)
		return rf_fail(err, RF_INVALID, "roleRef.name: Required value");
	for (size_t i = 0; i < rf_json_len(subjects); i++)
		if (check_subject(rf_json_item(subjects, i), cluster, i, err) < 0)
			return -err->code;
	return 0;
}

/* --- devices and tenants -------------------------------------------------------------------- */

static int validate_claim(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			  struct rf_err *err)
{
	return same(old, o, "spec", err);
}

static int validate_slice(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			  struct rf_err *err)
{
	if (rf_json_str_at(o, "spec", "driver").n == 0)
		return rf_fail(err, RF_INVALID, "spec.driver: Required value");
	if (rf_json_str_at(o, "spec", "pool", "name").n == 0)
		return rf_fail(err, RF_INVALID, "spec.pool.name: Required value");
	if (rf_json_len(rf_json_at(o, "spec", "devices")) > 128)
		return rf_fail(err, RF_INVALID,
			       "spec.devices: Too many: must have at most 128 items");
	return 0;
}

static int validate_tenant(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			   struct rf_err *err)
{
	struct rf_tenant t;

	return rf_tenant_parse(a, o, &t, err);
}

static int validate_queue(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			  struct rf_err *err)
{
	return rf_validate_queue(a, o, err);
}

static int validate_gpupool(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			    struct rf_err *err)
{
	return rf_validate_gpupool(o, err);
}

static int validate_podgroup(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			     struct rf_err *err)
{
	/* What it says decides who is charged and who may be evicted; pods run by it. */
	if (old != NULL && same(old, o, "spec", err) < 0)
		return rf_fail(err, RF_INVALID, "spec: Invalid value: cannot be changed; delete the group and create it anew");
	return rf_validate_podgroup(o, err);
}

static int validate_budget(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			   struct rf_err *err)
{
	return rf_budget_validate(a, o, err);
}

const struct rf_system_class rf_system_classes[2] = {
	{ "system-cluster-critical", 2000000000,
	  "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary." },
	{ "system-node-critical", 2000001000,
	  "Used for system critical pods that must not be moved from their current node." },
};

#define USER_PRIORITY_MAX 1000000000

static int check_system_class(const struct rf_json *o, struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(o, "metadata", "name");

	for (size_t i = 0; i < RF_COUNT(rf_system_classes); i++)
		if (rf_str_is(name, rf_system_classes[i].name) &&
		    rf_json_int(rf_json_at(o, "value"), 0) == rf_system_classes[i].value &&
		    !rf_json_is_true(rf_json_at(o, "globalDefault")))
			return 0;
	return rf_fail(err, RF_INVALID,
		       "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for "
		       "system use only");
}

static int check_value(const struct rf_json *o, struct rf_err *err)
{
	int64_t value = rf_json_int(rf_json_at(o, "value"), 0);

	if (rf_str_starts(rf_json_str_at(o, "metadata", "name"), RF_LIT("system-")))
		return check_system_class(o, err);
	if (value > USER_PRIORITY_MAX)
		return rf_fail(err, RF_INVALID,
			       "value: Forbidden: maximum allowed value of a user defined priority is %d",
			       USER_PRIORITY_MAX);
	if (value < INT32_MIN)
		return rf_fail(err, RF_INVALID, "value: Invalid value: %lld: must be greater than or equal to %d",
			       (long long)value, INT32_MIN);
	return 0;
}

static int validate_priority_class(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
				   struct rf_err *err)
{
	struct rf_str policy = rf_json_str_at(o, "preemptionPolicy");

	if (!rf_word_in("PreemptLowerPriority Never", policy))
		return rf_fail(err, RF_INVALID,
			       "preemptionPolicy: Unsupported value: \"%.*s\": supported values: "
			       "\"Never\", \"PreemptLowerPriority\"",
			       RF_STR(policy));
	if (old != NULL && rf_json_int(rf_json_at(o, "value"), 0) != rf_json_int(rf_json_at(old, "value"), 0))
		return rf_fail(err, RF_INVALID, "value: Forbidden: may not be changed in an update.");
	if (same(old, o, "preemptionPolicy", err) < 0)
		return -err->code;
	return check_value(o, err);
}

static int validate_event(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			  struct rf_err *err)
{
	struct rf_str ns = rf_json_str_at(o, "involvedObject", "namespace");
	struct rf_str in = rf_json_str_at(o, "metadata", "namespace");

	if (ns.n > 0 ? !rf_str_eq(ns, in)
		     : !rf_str_is(in, "default") && !rf_str_is(in, "kube-system"))
		return rf_fail(err, RF_INVALID,
			       "involvedObject.namespace: Invalid value: \"%.*s\": does not match "
			       "event.namespace",
			       RF_STR(ns));
	return 0;
}

static int validate_pod(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
			struct rf_err *err)
{
	if (rf_validate_pod(a, o, err) < 0)
		return -err->code;
	return old != NULL ? rf_validate_pod_update(a, old, o, err) : 0;
}

static const struct {
	const char *plural;
	int (*check)(struct rf_arena *a, const struct rf_json *old, const struct rf_json *o,
		     struct rf_err *err);
} CHECKS[] = {
	{ "pods", validate_pod },
	{ "secrets", validate_secret },
	{ "configmaps", validate_configmap },
	{ "resourcequotas", validate_quota },
	{ "roles", validate_role },
	{ "clusterroles", validate_role },
	{ "rolebindings", validate_binding },
	{ "clusterrolebindings", validate_binding },
	{ "resourceclaims", validate_claim },
	{ "resourceslices", validate_slice },
	{ "tenants", validate_tenant },
	{ "queues", validate_queue },
	{ "gpupools", validate_gpupool },
	{ "podgroups", validate_podgroup },
	{ "poddisruptionbudgets", validate_budget },
	{ "priorityclasses", validate_priority_class },
	{ "events", validate_event },
};

int rf_validate(struct rf_arena *a, const struct rf_kind *k, const struct rf_json *old,
		const struct rf_json *o, struct rf_err *err)
{
	for (size_t i = 0; i < RF_COUNT(CHECKS); i++)
		if (rf_kind_is(k, CHECKS[i].plural) && CHECKS[i].check(a, old, o, err) < 0)
			return rf_wrap(err, "%s \"%.*s\" is invalid", k->kind,
				       RF_STR(rf_json_str_at(o, "metadata", "name")));
	return 0;
}
