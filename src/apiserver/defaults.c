#include "apiserver/defaults.h"

#include "codec/base64.h"

#define RBAC_GROUP "rbac.authorization.k8s.io"

static void or_str(struct rf_arena *a, struct rf_json *o, const char *key, const char *value)
{
	if (rf_json_str_at(o, key).n == 0)
		rf_json_set_str(a, o, key, rf_str(value));
}

/* --- pods ----------------------------------------------------------------------------------- */

/* No tag and no digest means :latest, which may change under us. */
static const char *pull_policy(struct rf_str image)
{
	struct rf_str last = image, head;

	if (rf_str_contains(image, RF_LIT("@")))
		return "IfNotPresent";
	while (rf_str_contains(last, RF_LIT("/")))
		rf_str_cut(&last, '/', &head);
	if (!rf_str_cut(&last, ':', &head) || rf_str_is(last, "latest"))
		return "Always";
	return "IfNotPresent";
}

/* A limit without a request is also the request. */
static void default_requests(struct rf_arena *a, struct rf_json *container)
{
	const struct rf_json *limits = rf_json_at(container, "resources", "limits");
	struct rf_json *requests;

	if (rf_json_len(limits) == 0 || !rf_json_is(limits, RF_JSON_OBJECT))
		return;
	requests = rf_json_ensure(a, container, "resources", "requests");
	for (size_t i = 0; i < rf_json_len(limits); i++)
		if (rf_json_get(requests, limits->members[i].key) == NULL)
			rf_json_set(a, requests, limits->members[i].key,
				    rf_json_clone(a, limits->members[i].value));
}

static void default_container(struct rf_arena *a, struct rf_json *c)
{
	struct rf_json *ports = rf_json_at(c, "ports");

	or_str(a, c, "terminationMessagePath", "/dev/termination-log");
	or_str(a, c, "terminationMessagePolicy", "File");
	or_str(a, c, "imagePullPolicy", pull_policy(rf_json_str_at(c, "image")));
	rf_json_ensure(a, c, "resources");
	default_requests(a, c);
	for (size_t i = 0; i < rf_json_len(ports); i++)
		or_str(a, rf_json_item(ports, i), "protocol", "TCP");
}

static void default_containers(struct rf_arena *a, struct rf_json *list)
{
	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_json_is(rf_json_item(list, i), RF_JSON_OBJECT))
			default_container(a, rf_json_item(list, i));
}

static void default_pod(struct rf_arena *a, struct rf_json *pod)
{
	struct rf_json *spec = rf_json_ensure(a, pod, "spec");

	or_str(a, spec, "restartPolicy", "Always");
	or_str(a, spec, "dnsPolicy", "ClusterFirst");
	or_str(a, spec, "schedulerName", "default-scheduler");
	if (rf_json_at(spec, "serviceAccountName") == NULL)
		rf_json_set_str(a, spec, "serviceAccountName",
				rf_json_str_at(spec, "serviceAccount"));
	or_str(a, spec, "serviceAccountName", "default");
	rf_json_set_str(a, spec, "serviceAccount", rf_json_str_at(spec, "serviceAccountName"));
	if (rf_json_at(spec, "terminationGracePeriodSeconds") == NULL)
		rf_json_set_int(a, spec, "terminationGracePeriodSeconds", 30);
	if (rf_json_at(spec, "enableServiceLinks") == NULL)
		rf_json_set_bool(a, spec, "enableServiceLinks", true);
	rf_json_ensure(a, spec, "securityContext");
	default_containers(a, rf_json_at(spec, "containers"));
	default_containers(a, rf_json_at(spec, "initContainers"));
}

/* Guaranteed: every container limits cpu and memory and asks for no less; BestEffort: none says
 * anything about them. */
static const char *qos_class(const struct rf_json *spec)
{
	static const char *const WHAT[] = { "cpu", "memory" };
	const struct rf_json *all = rf_json_at(spec, "containers");
	bool guaranteed = true, any = false;

	for (size_t i = 0; i < rf_json_len(all); i++) {
		const struct rf_json *res = rf_json_at(rf_json_item(all, i), "resources");

		for (size_t w = 0; w < RF_COUNT(WHAT); w++) {
			const struct rf_json *limit = rf_json_at(res, "limits", WHAT[w]);
			const struct rf_json *request = rf_json_at(res, "requests", WHAT[w]);

			any |= limit != NULL || request != NULL;
			if (limit == NULL || request == NULL || !rf_json_equal(limit, request))
				guaranteed = false;
		}
	}
	return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

static void new_pod(struct rf_arena *a, struct rf_json *pod)
{
	rf_json_set(a, pod, RF_LIT("status"),
		    rf_json_make(a, "{'phase':'Pending','qosClass':%s}",
				 qos_class(rf_json_at(pod, "spec"))));
}

/* --- others --------------------------------------------------------------------------------- */

static void new_namespace(struct rf_arena *a, struct rf_json *o)
{
	rf_json_set(a, o, RF_LIT("spec"), rf_json_make(a, "{'finalizers':['kubernetes']}"));
	rf_json_set(a, o, RF_LIT("status"), rf_json_make(a, "{'phase':'Active'}"));
}

static void default_namespace(struct rf_arena *a, struct rf_json *o)
{
	rf_json_set_str(a, rf_json_ensure(a, o, "metadata", "labels"),
			"kubernetes.io/metadata.name", rf_json_str_at(o, "metadata", "name"));
}

static void default_secret(struct rf_arena *a, struct rf_json *o)
{
	const struct rf_json *plain = rf_json_at(o, "stringData");

	or_str(a, o, "type", "Opaque");
	for (size_t i = 0; i < rf_json_len(plain); i++)
		rf_json_set(a, rf_json_ensure(a, o, "data"), plain->members[i].key,
			    rf_json_string(
				    a, rf_base64_encode(a, rf_json_str(plain->members[i].value))));
	rf_json_del(o, RF_LIT("stringData"));
}

static void default_binding(struct rf_arena *a, struct rf_json *o)
{
	struct rf_json *subjects = rf_json_at(o, "subjects");

	or_str(a, rf_json_ensure(a, o, "roleRef"), "apiGroup", RBAC_GROUP);
	for (size_t i = 0; i < rf_json_len(subjects); i++) {
		struct rf_json *s = rf_json_item(subjects, i);
		struct rf_str kind = rf_json_str_at(s, "kind");

		if (rf_str_is(kind, "User") || rf_str_is(kind, "Group"))
			or_str(a, s, "apiGroup", RBAC_GROUP);
	}
}

static void default_priority_class(struct rf_arena *a, struct rf_json *o)
{
	if (rf_json_at(o, "value") == NULL)
		rf_json_set_int(a, o, "value", 0);
	or_str(a, o, "preemptionPolicy", "PreemptLowerPriority");
}

/* What Gatekeeper says once a template's kind is there; scripts wait for it. */
static void new_template(struct rf_arena *a, struct rf_json *o)
{
	rf_json_set(a, o, RF_LIT("status"), rf_json_make(a, "{'created':%b}", true));
}

static void new_quota(struct rf_arena *a, struct rf_json *o)
{
	rf_json_set(a, o, RF_LIT("status"), rf_json_object(a));
}

void rf_default(struct rf_arena *a, const struct rf_kind *k, struct rf_json *o)
{
	if (rf_kind_is(k, "pods"))
		default_pod(a, o);
	else if (rf_kind_is(k, "namespaces"))
		default_namespace(a, o);
	else if (rf_kind_is(k, "secrets"))
		default_secret(a, o);
	else if (rf_kind_is(k, "rolebindings") || rf_kind_is(k, "clusterrolebindings"))
		default_binding(a, o);
	else if (rf_kind_is(k, "priorityclasses"))
		default_priority_class(a, o);
	else if (rf_kind_is(k, "roles") || rf_kind_is(k, "clusterroles"))
		if (rf_json_at(o, "rules") == NULL)
			rf_json_set(a, o, RF_LIT("rules"), rf_json_array(a));
}

void rf_default_new(struct rf_arena *a, const struct rf_kind *k, struct rf_json *o)
{
	if (rf_kind_is(k, "pods"))
		new_pod(a, o);
	else if (rf_kind_is(k, "namespaces"))
		new_namespace(a, o);
	else if (rf_kind_is(k, "resourcequotas"))
		new_quota(a, o);
	else if (rf_kind_is(k, "constrainttemplates"))
		new_template(a, o);
}
