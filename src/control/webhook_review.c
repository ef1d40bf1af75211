/* Answers one AdmissionReview. What is not a pod's business is let through; what is must be understood
 * fully and is refused otherwise. */
#include "control/private.h"

#include "codec/base64.h"

#define UID_MAX 128
#define MASTERS "system:masters"

struct review {
	struct rf_reviewer *r;
	struct rf_arena *a;
	const struct rf_json *request, *pod, *old;
	struct rf_str uid, operation, sub, ns;
	struct rf_str warning; /* empty: none */
	struct rf_json *patch; /* NULL: none */
};

/* --- reading ---------------------------------------------------------------------------------- */

static int bad(struct rf_err *err, const char *what)
{
	return rf_fail(err, RF_BAD_REQUEST, "not an AdmissionReview of admission.k8s.io/v1: %s",
		       what);
}

static int read_review(struct review *v, struct rf_str body, struct rf_err *err)
{
	static const char *const operations[] = { "CREATE", "UPDATE", "DELETE", "CONNECT" };
	struct rf_json *o = NULL;
	bool known = false;

	if (rf_json_parse(v->a, body, &o, err) < 0)
		return rf_wrap(err, "the body");
	if (!rf_str_is(rf_json_str_at(o, "kind"), "AdmissionReview"))
		return bad(err, "kind is another");
	if (!rf_str_is(rf_json_str_at(o, "apiVersion"), "admission.k8s.io/v1"))
		return bad(
			err,
			"apiVersion is another; set admissionReviewVersions: [v1] in the webhook "
			"configuration");
	v->request = rf_json_at(o, "request");
	v->uid = rf_json_str_at(v->request, "uid");
	if (v->uid.n == 0 || v->uid.n > UID_MAX)
		return bad(err, "request.uid is missing or too long");
	v->operation = rf_json_str_at(v->request, "operation");
	for (size_t i = 0; i < RF_COUNT(operations); i++)
		known |= rf_str_is(v->operation, operations[i]);
	if (!known)
		return bad(err, "request.operation must be CREATE, UPDATE, DELETE or CONNECT");
	if (rf_json_str_at(v->request, "resource", "resource").n == 0)
		return bad(err, "request.resource.resource is missing");
	return 0;
}

static int read_pod(const struct rf_json *request, const char *field, const struct rf_json **ret,
		    struct rf_err *err)
{
	const struct rf_json *o = rf_json_at(request, field);

	if (!rf_str_is(rf_json_str_at(request, "resource", "version"), "v1") ||
	    rf_json_str_at(request, "kind", "group").n > 0 ||
	    !rf_str_is(rf_json_str_at(request, "kind", "version"), "v1") ||
	    !rf_str_is(rf_json_str_at(request, "kind", "kind"), "Pod"))
		return bad(err, "a review of pods must be of kind Pod, version v1");
	if (!rf_json_is(rf_json_at(o, "spec"), RF_JSON_OBJECT) ||
	    !rf_json_is(rf_json_at(o, "metadata"), RF_JSON_OBJECT))
		return rf_fail(err, RF_BAD_REQUEST,
			       "request.%s: must be a pod, with metadata and spec", field);
	*ret = o;
	return 0;
}

/* --- a new pod -------------------------------------------------------------------------------- */

static bool asks_for_cards(const struct rf_json *pod)
{
	struct rf_gpu_ask ask = { 0 };

	return rf_gpu_ask_of_pod(pod, &ask, NULL) < 0 || rf_gpu_ask_any(&ask);
}

static bool is_administrator(const struct rf_json *request)
{
	const struct rf_json *groups = rf_json_at(request, "userInfo", "groups");

	for (size_t i = 0; i < rf_json_len(groups); i++) {
		if (rf_str_is(rf_json_str(rf_json_item(groups, i)), MASTERS))
			return true;
	}
	return false;
}

/* A pod without a name of its own is told apart by its review; no pod's name starts so. */
static struct rf_str name_of(const struct review *v)
{
	struct rf_str name = rf_kube_name(v->pod);

	return name.n > 0 ? name : rf_arena_printf(v->a, "?%.*s", RF_STR(v->uid));
}

/* Of pods, as the embedded API server counts: a claim that outlives its pod is the scheduler's to
 * count, or whoever replaces a pod would be refused until the node has let go of the old one. */
static void count_tenant(const struct review *v, struct rf_str tenant, struct rf_tenant_use *use)
{
	const struct rf_cluster *c = &v->r->cluster;
	const struct rf_json *pod = NULL;
	const void *at = NULL;

	while ((pod = c->next(c->ctx, &RF_PODS, &at)) != NULL) {
		const struct rf_json *ns =
			c->get(c->ctx, &RF_NAMESPACES, RF_STR_EMPTY, rf_kube_namespace(pod));

		if (rf_str_eq(rf_kube_label(ns, RF_TENANT_LABEL), tenant))
			rf_tenant_use_add_pod(use, pod);
	}
	rf_recents_count(&v->r->recents, c, tenant, v->ns, name_of(v), v->r->now_ms, use);
}

static int judge(const struct review *v, struct rf_err *err)
{
	const struct rf_cluster *c = &v->r->cluster;
	const struct rf_json *ns = c->get(c->ctx, &RF_NAMESPACES, RF_STR_EMPTY, v->ns);
	struct rf_admission ask = { .pod = v->pod,
				    .ns = v->ns,
				    .tenant_name = rf_kube_label(ns, RF_TENANT_LABEL),
				    .platform = is_administrator(v->request),
				    .scheduler = v->r->scheduler };

	if (ns == NULL)
		return rf_fail(
			err, RF_UNAVAILABLE,
			"ringfence does not know namespace \"%.*s\" yet; try again in a moment",
			RF_STR(v->ns));
	if (ask.tenant_name.n > 0) {
		ask.tenant = c->get(c->ctx, &RF_TENANTS, RF_STR_EMPTY, ask.tenant_name);
		count_tenant(v, ask.tenant_name, &ask.used);
	}
	return rf_tenant_admit(v->a, &ask, err);
}

static int validate_new(struct review *v, struct rf_err *err)
{
	struct rf_tenant_use use = { .pods = 1 };
	struct rf_gpu_ask ask = { 0 };

	if (!asks_for_cards(v->pod))
		return 0;
	if (!v->r->synced)
		return rf_fail(
			err, RF_UNAVAILABLE,
			"asks for GPUs, and ringfence has only just started and does not know "
			"all tenants and pods yet; try again in a few seconds");
	if (judge(v, err) < 0 || rf_webhook_quota(v->r, v->a, v->pod, v->ns, err) < 0)
		return -err->code;
	(void)rf_gpu_ask_of_pod(v->pod, &ask, NULL);
	use.cards = ask.cards;
	use.share_bytes = ask.share_bytes;
	if (!rf_json_is_true(rf_json_at(v->request, "dryRun")))
		rf_recents_put(&v->r->recents, v->ns, name_of(v), rf_kube_uid(v->pod), &use,
			       v->r->now_ms);
	return 0;
}

/* Pods that ask for cards are placed by ringfence; all else about them is their owner's. */
static void mutate_new(struct review *v)
{
	struct rf_str scheduler = rf_json_str_at(v->pod, "spec", "schedulerName");

	if (!asks_for_cards(v->pod) ||
	    (scheduler.n > 0 && !rf_str_is(scheduler, "default-scheduler")))
		return;
	v->patch = rf_json_make(v->a, "[{'op':'add','path':'/spec/schedulerName','value':%s}]",
				v->r->scheduler);
}

/* --- what to judge ---------------------------------------------------------------------------- */

/* Says which pod was refused, as the embedded API server and Kubernetes' own admission do. */
static int name_pod(const struct review *v, struct rf_err *err)
{
	struct rf_str name = rf_kube_name(v->pod);

	if (name.n == 0)
		name = rf_json_str_at(v->pod, "metadata", "generateName");
	name.n = RF_MIN(name.n, 253u);
	if (err->code == RF_INVALID)
		return rf_wrap(err, "Pod \"%.*s\" is invalid", RF_STR(name));
	return rf_wrap(err, "pods \"%.*s\" is forbidden", RF_STR(name));
}

/* Only what says how a pod runs is judged: the pod itself, and what adds containers or resources to it. A
 * status, a binding or an eviction asks for nothing. */
static bool is_judged(const struct review *v)
{
	if (rf_str_is(v->operation, "CREATE"))
		return v->sub.n == 0;
	return rf_str_is(v->operation, "UPDATE") &&
	       (v->sub.n == 0 || rf_str_is(v->sub, "ephemeralcontainers") ||
		rf_str_is(v->sub, "resize"));
}

/* 0: allowed. *refused: the review was understood, and the answer is no. */
static int decide(struct review *v, enum rf_review what, bool *refused, struct rf_err *err)
{
	bool created = rf_str_is(v->operation, "CREATE");

	if (rf_json_str_at(v->request, "resource", "group").n > 0 ||
	    !rf_str_is(rf_json_str_at(v->request, "resource", "resource"), "pods")) {
		v->warning = RF_LIT("ringfence judges pods only; this review was let through");
		return 0;
	}
	v->sub = rf_json_str_at(v->request, "subResource");
	v->ns = rf_json_str_at(v->request, "namespace");
	if (!is_judged(v))
		return 0;
	if (v->ns.n == 0)
		return bad(err, "request.namespace is missing");
	if (read_pod(v->request, "object", &v->pod, err) < 0 ||
	    (!created && read_pod(v->request, "oldObject", &v->old, err) < 0))
		return -err->code;
	if (what == RF_REVIEW_MUTATE) {
		if (created)
			mutate_new(v);
		return 0;
	}
	if ((created ? validate_new(v, err) : rf_tenant_admit_change(v->old, v->pod, err)) == 0)
		return 0;
	*refused = true;
	return name_pod(v, err);
}

/* --- the answer ------------------------------------------------------------------------------- */

static struct rf_json *answer(const struct review *v, bool refused, const struct rf_err *err)
{
	const struct rf_code_info *info = rf_code_info(err->code);
	struct rf_json *o = rf_json_make(v->a, "{'uid':%S,'allowed':%b}", v->uid, !refused);

	if (refused)
		rf_json_set(v->a, o, RF_LIT("status"),
			    rf_json_make(v->a,
					 "{'status':'Failure','message':%s,'reason':%s,'code':%d}",
					 err->msg, info->kube_reason, info->http));
	if (v->patch != NULL) {
		rf_json_set_str(v->a, o, "patchType", RF_LIT("JSONPatch"));
		rf_json_set_str(v->a, o, "patch",
				rf_base64_encode(v->a, rf_json_text_of(v->a, v->patch)));
	}
	if (v->warning.n > 0)
		rf_json_set(v->a, o, RF_LIT("warnings"), rf_json_make(v->a, "[%S]", v->warning));
	return rf_json_make(
		v->a, "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','response':%j}",
		o);
}

int rf_webhook_review(struct rf_reviewer *r, struct rf_arena *a, enum rf_review what,
		      struct rf_str body, struct rf_str *ret, struct rf_err *err)
{
	struct review v = { .r = r, .a = a };
	bool refused = false;

	if (read_review(&v, body, err) < 0 || (decide(&v, what, &refused, err) < 0 && !refused))
		return -err->code;
	*ret = rf_json_text_of(a, answer(&v, refused, err));
	return 0;
}
