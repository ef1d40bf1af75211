/* PriorityClasses, and the priority that a new pod has by them: a pod names its class, and the number is the class's. */
#include "apiserver/admission.h"

#define SYSTEM_PREFIX "system-"
#define PREEMPTS "PreemptLowerPriority"

struct search {
	struct rf_arena *a;
	struct rf_json *found;
	struct rf_err *err;
};

static int look(void *ctx, const struct rf_row *row)
{
	struct search *s = ctx;
	struct rf_json *o = NULL;

	if (rf_json_parse(s->a, row->json, &o, s->err) < 0)
		return -s->err->code;
	if (!rf_json_is_true(rf_json_at(o, "globalDefault")))
		return 0;
	s->found = o;
	return 1;
}

/* NULL if there is none. */
static int find_default(struct rf_req *r, struct rf_json **ret, struct rf_err *err)
{
	struct search s = { r->a, NULL, err };
	struct rf_list l = { .kind = rf_kind_get("priorityclasses"), .each = look, .ctx = &s };

	if (rf_store_list(r->api->store, &l, err) < 0)
		return -err->code;
	*ret = s.found;
	return 0;
}

int rf_admit_priority_class(struct rf_req *r, const struct rf_json *o, struct rf_err *err)
{
	struct rf_json *other = NULL;
	struct rf_str name;

	if (!rf_json_is_true(rf_json_at(o, "globalDefault")))
		return 0;
	if (find_default(r, &other, err) < 0)
		return -err->code;
	name = rf_json_str_at(other, "metadata", "name");
	if (other == NULL || rf_str_eq(name, rf_json_str_at(o, "metadata", "name")))
		return 0;
	return rf_fail(err, RF_FORBIDDEN,
		       "PriorityClass %.*s is already marked as default. Only one default can exist", RF_STR(name));
}

/* NULL if the pod names none and there is no default. */
static int class_of(struct rf_req *r, const struct rf_json *pod, struct rf_json **ret, struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(pod, "spec", "priorityClassName");
	int n;

	if (name.n == 0)
		return find_default(r, ret, err);
	n = rf_store_get(r->api->store, r->a, rf_kind_get("priorityclasses"), RF_STR_EMPTY, name, ret, err);
	if (n == -RF_NOT_FOUND)
		return rf_fail(err, RF_FORBIDDEN, "no PriorityClass with name %.*s was found", RF_STR(name));
	if (n < 0 || !rf_str_starts(name, RF_LIT(SYSTEM_PREFIX)) || rf_str_is(r->route.ns, "kube-system") ||
	    rf_user_is_platform(&r->user))
		return n;
	return rf_fail(err, RF_FORBIDDEN,
		       "the priority classes " SYSTEM_PREFIX "* are for the cluster's own pods; leave "
		       "spec.priorityClassName out");
}

int rf_admit_priority(struct rf_req *r, struct rf_json *pod, struct rf_err *err)
{
	struct rf_json *spec = rf_json_at(pod, "spec"), *class = NULL;
	struct rf_str said = rf_json_str_at(spec, "preemptionPolicy"), policy = RF_LIT(PREEMPTS);
	int64_t priority = 0;

	if (class_of(r, pod, &class, err) < 0)
		return -err->code;
	if (class != NULL) {
		priority = rf_json_int(rf_json_at(class, "value"), 0);
		policy = rf_json_str_at(class, "preemptionPolicy");
		rf_json_set_str(r->a, spec, "priorityClassName", rf_json_str_at(class, "metadata", "name"));
	}
	if (rf_json_int(rf_json_at(spec, "priority"), priority) != priority)
		return rf_fail(err, RF_FORBIDDEN,
			       "the integer value of priority (%lld) must not be provided in pod spec; priority "
			       "admission controller computed %lld from the given PriorityClass name",
			       (long long)rf_json_int(rf_json_at(spec, "priority"), 0), (long long)priority);
	if (said.n > 0 && !rf_str_eq(said, policy))
		return rf_fail(err, RF_FORBIDDEN,
			       "the string value of PreemptionPolicy (%.*s) must not be provided in pod spec; "
			       "priority admission controller computed %.*s from the given PriorityClass name",
			       RF_STR(said), RF_STR(policy));
	rf_json_set_int(r->a, spec, "priority", priority);
	rf_json_set_str(r->a, spec, "preemptionPolicy", policy);
	return 0;
}
