/* Answers one AdmissionReview. The book of policies judges whatever comes; tenant/ judges pods and new gangs.
 * A pod that asks for cards must be understood fully and is refused otherwise. So is whatever is too large or
 * too deep to be read: an error in place of an answer would let it through where the webhook fails open. */
#include "control/private.h"

#include "codec/base64.h"
#include "tenant/foreign.h"

#define UID_MAX 128
#define HEAD_MAX 512 /* of a review: kind, apiVersion, and the request's uid, in which order Kubernetes writes them */
#define MASTERS "system:masters"
#define WARNINGS_MAX 64

struct review {
	struct rf_reviewer *r;
	struct rf_arena *a;
	struct rf_rv request;
	struct rf_json *pod, *old;
	struct rf_str uid, operation, group, resource, sub, ns;
	struct rf_str warnings[WARNINGS_MAX];
	size_t n_warnings;
	struct rf_str denied;  /* by policies: what they say, more than an rf_err holds */
	struct rf_json *patch; /* NULL: none */
};

/* --- reading ---------------------------------------------------------------------------------- */

static struct rf_rv at(struct rf_rv v, const char *key)
{
	struct rf_rv ret;

	return v.type == RF_RV_OBJECT && rf_rv_get_str(v, rf_str(key), &ret) ? ret : RF_RV_NIL;
}

static struct rf_str text_at(struct rf_rv v, const char *key)
{
	struct rf_rv s = at(v, key);

	return s.type == RF_RV_STRING ? rf_rv_text(s) : RF_STR_EMPTY;
}

static int bad(struct rf_err *err, const char *what)
{
	return rf_fail(err, RF_BAD_REQUEST, "not an AdmissionReview of admission.k8s.io/v1: %s",
		       what);
}

/* The uid of a review that cannot be read to its end; empty if it has none in its head. */
static struct rf_str uid_in_head(struct rf_str body)
{
	struct rf_str start = RF_LIT("\"request\":{\"uid\":\"");
	struct rf_str head = rf_str_n(body.p, RF_MIN(body.n, (size_t)HEAD_MAX)), uid;

	while (head.n > 0 && !rf_str_starts(head, start))
		head = rf_str_skip(head, 1);
	if (head.n == 0)
		return RF_STR_EMPTY;
	head = rf_str_skip(head, start.n);
	return rf_str_cut(&head, '"', &uid) && uid.n <= UID_MAX && !rf_str_contains(uid, RF_LIT("\\")) ?
		       uid :
		       RF_STR_EMPTY;
}

/* v->uid is set as soon as there is somebody to answer. */
static int read_review(struct review *v, struct rf_str body, struct rf_err *err)
{
	static const char *const operations[] = { "CREATE", "UPDATE", "DELETE", "CONNECT" };
	struct rf_rv o = RF_RV_NIL;
	bool known = false;

	if (rf_rv_parse_json(v->a, body, &o, err) < 0) {
		v->uid = uid_in_head(body);
		return rf_wrap(err, "the body");
	}
	if (!rf_str_is(text_at(o, "kind"), "AdmissionReview"))
		return bad(err, "kind is another");
	if (!rf_str_is(text_at(o, "apiVersion"), "admission.k8s.io/v1"))
		return bad(
			err,
			"apiVersion is another; set admissionReviewVersions: [v1] in the webhook "
			"configuration");
	v->request = at(o, "request");
	if (text_at(v->request, "uid").n == 0 || text_at(v->request, "uid").n > UID_MAX)
		return bad(err, "request.uid is missing or too long");
	v->uid = text_at(v->request, "uid");
	v->operation = text_at(v->request, "operation");
	for (size_t i = 0; i < RF_COUNT(operations); i++)
		known |= rf_str_is(v->operation, operations[i]);
	if (!known)
		return bad(err, "request.operation must be CREATE, UPDATE, DELETE or CONNECT");
	v->group = text_at(at(v->request, "resource"), "group");
	v->resource = text_at(at(v->request, "resource"), "resource");
	if (v->resource.n == 0)
		return bad(err, "request.resource.resource is missing");
	v->sub = text_at(v->request, "subResource");
	v->ns = text_at(v->request, "namespace");
	return 0;
}

static int read_pod(const struct review *v, const char *field, struct rf_json **ret,
		    struct rf_err *err)
{
	struct rf_rv o = at(v->request, field), kind = at(v->request, "kind");

	if (!rf_str_is(text_at(at(v->request, "resource"), "version"), "v1") ||
	    text_at(kind, "group").n > 0 || !rf_str_is(text_at(kind, "version"), "v1") ||
	    !rf_str_is(text_at(kind, "kind"), "Pod"))
		return bad(err, "a review of pods must be of kind Pod, version v1");
	if (at(o, "spec").type != RF_RV_OBJECT || at(o, "metadata").type != RF_RV_OBJECT)
		return rf_fail(err, RF_BAD_REQUEST,
			       "request.%s: must be a pod, with metadata and spec", field);
	return rf_webhook_json(v->a, o, ret, err);
}

/* --- a new pod -------------------------------------------------------------------------------- */

static bool asks_for_cards(const struct rf_json *pod)
{
	struct rf_gpu_ask ask = { 0 };

	return rf_gpu_ask_of_pod(pod, &ask, NULL) < 0 || rf_gpu_ask_any(&ask);
}

static bool is_administrator(struct rf_rv request)
{
	struct rf_rv groups = at(at(request, "userInfo"), "groups");

	for (uint32_t i = 0; groups.type == RF_RV_ARRAY && i < groups.n; i++) {
		if (groups.items[i].type == RF_RV_STRING &&
		    rf_str_is(rf_rv_text(groups.items[i]), MASTERS))
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

static int judge_pod(const struct review *v, struct rf_err *err)
{
	const struct rf_cluster *c = &v->r->cluster;
	const struct rf_json *ns = c->get(c->ctx, &RF_NAMESPACES, RF_STR_EMPTY, v->ns);
	struct rf_admission ask = { .pod = v->pod,
				    .ns = v->ns,
				    .tenant_name = rf_kube_label(ns, RF_TENANT_LABEL),
				    .platform = is_administrator(v->request),
				    .scheduler = v->r->scheduler };
	struct rf_str queue = rf_kube_label(v->pod, RF_QUEUE_LABEL);

	if (ns == NULL)
		return rf_fail(
			err, RF_UNAVAILABLE,
			"ringfence does not know namespace \"%.*s\" yet; try again in a moment",
			RF_STR(v->ns));
	if (queue.n > 0)
		ask.queue = c->get(c->ctx, &RF_QUEUES, RF_STR_EMPTY, queue);
	if (ask.tenant_name.n > 0) {
		ask.tenant = c->get(c->ctx, &RF_TENANTS, RF_STR_EMPTY, ask.tenant_name);
		count_tenant(v, ask.tenant_name, &ask.used);
	}
	return rf_tenant_admit(v->a, &ask, err);
}

static bool is_dry_run(const struct review *v)
{
	struct rf_rv dry = at(v->request, "dryRun");

	return dry.type == RF_RV_BOOL && dry.b;
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
	if (judge_pod(v, err) < 0 || rf_webhook_quota(v->r, v->a, v->pod, v->ns, err) < 0)
		return -err->code;
	(void)rf_gpu_ask_of_pod(v->pod, &ask, NULL);
	use.cards = ask.cards;
	use.share_bytes = ask.share_bytes;
	if (!is_dry_run(v))
		rf_recents_put(&v->r->recents, v->ns, name_of(v), rf_kube_uid(v->pod), &use,
			       v->r->now_ms);
	return 0;
}

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

static const struct rf_json *namespace_of(const struct review *v)
{
	const struct rf_cluster *c = &v->r->cluster;

	return v->r->synced ? c->get(c->ctx, &RF_NAMESPACES, RF_STR_EMPTY, v->ns) : NULL;
}

/* Until all is known nobody is told that a queue is not his. */
static bool owns_queue(void *ctx, struct rf_str queue)
{
	const struct review *v = ctx;
	const struct rf_json *ns = namespace_of(v);

	return ns == NULL || rf_queue_is_of(v->r->cluster.get(v->r->cluster.ctx, &RF_QUEUES, RF_STR_EMPTY, queue),
					    rf_kube_label(ns, RF_TENANT_LABEL));
}

/* Other systems' words, where an administrator switched them on, become ours before anybody judges. */
static int translate(struct review *v, struct rf_err *err)
{
	const struct rf_json *ns = namespace_of(v);
	struct rf_foreign_owner owner = { .tenant = ns != NULL ? rf_kube_label(ns, RF_TENANT_LABEL) : RF_LIT("?"),
					  .owns = owns_queue,
					  .ctx = v,
					  .scheduler = v->r->scheduler };

	if (rf_foreign_rewrite(v->a, rf_foreign(), &owner, v->pod, &v->patch, err) < 0)
		return name_pod(v, err);
	if (ns != NULL || v->patch == NULL)
		return 0;
	v->patch = NULL;
	rf_fail(err, RF_UNAVAILABLE,
		"ringfence does not know namespace \"%.*s\" and its tenant yet; try again in a moment",
		RF_STR(v->ns));
	return name_pod(v, err);
}

/* Pods that ask for cards are placed by ringfence; all else about them is their owner's. */
static int mutate_new(struct review *v, struct rf_err *err)
{
	struct rf_str scheduler;

	if (translate(v, err) < 0)
		return -err->code;
	scheduler = rf_json_str_at(v->pod, "spec", "schedulerName");
	if (!asks_for_cards(v->pod) ||
	    (scheduler.n > 0 && !rf_str_is(scheduler, "default-scheduler")))
		return 0;
	if (v->patch == NULL)
		v->patch = rf_json_array(v->a);
	rf_json_push(v->a, v->patch,
		     rf_json_make(v->a, "{'op':'add','path':'/spec/schedulerName','value':%s}",
				  v->r->scheduler));
	return 0;
}

/* --- policies --------------------------------------------------------------------------------- */

static void warn(struct review *v, struct rf_str text)
{
	if (v->n_warnings < WARNINGS_MAX)
		v->warnings[v->n_warnings++] = text;
}

static bool is_listed(const char *list, struct rf_str name)
{
	struct rf_str rest = rf_str(list), head;

	while (rest.n > 0) {
		rf_str_cut(&rest, ',', &head);
		if (rf_str_eq(rf_str_trim(head), name))
			return true;
	}
	return false;
}

static bool has_ignore_label(const struct rf_json *ns)
{
	return rf_json_at(ns, "metadata", "labels", RF_POLICY_IGNORE) != NULL;
}

/* ringfence's own writes too: it would wait for itself. */
static bool is_exempt(const struct review *v, const struct rf_json *ns)
{
	return rf_str_is(text_at(at(v->request, "userInfo"), "username"), RF_CONTROL_USER) ||
	       (v->ns.n > 0 && (is_listed(v->r->exempt ? v->r->exempt : RF_POLICY_EXEMPT, v->ns) ||
				has_ignore_label(ns)));
}

/* They could not be asked. Cards are not given out on hope; the rest is the operator's choice. */
static int not_asked(struct review *v, struct rf_err *err)
{
	bool cards = (v->pod != NULL && asks_for_cards(v->pod)) ||
		     (v->old != NULL && asks_for_cards(v->old));

	if (cards || v->r->closed)
		return rf_wrap(err, "ringfence could not ask the cluster's policies");
	warn(v, rf_arena_printf(v->a, "ringfence let this through without asking the cluster's policies: %s",
				err->msg));
	return 0;
}

static bool is_policy_group(const struct review *v)
{
	return rf_str_is(v->group, "templates.gatekeeper.sh") ||
	       rf_str_is(v->group, "constraints.gatekeeper.sh") ||
	       (v->group.n == 0 && rf_str_is(v->resource, "configmaps") &&
		rf_str_is(v->ns, RF_BOOK_NAMESPACE));
}

/* A policy that cannot be compiled is refused where it is written, not found out about later. */
static int check_policy(const struct review *v, struct rf_err *err)
{
	struct rf_json *o = NULL;

	if (!v->r->loaded || v->sub.n > 0 || !is_policy_group(v) ||
	    (!rf_str_is(v->operation, "CREATE") && !rf_str_is(v->operation, "UPDATE")))
		return 0;
	if (rf_webhook_json(v->a, at(v->request, "object"), &o, err) < 0)
		return -err->code;
	return rf_book_is_policy(o) ? rf_book_check(v->r->book, o, err) : 0;
}

/* The request with its namespace, which Kubernetes does not send. */
static int add_namespace(const struct review *v, const struct rf_json *ns, struct rf_rv *ret,
			 struct rf_err *err)
{
	struct rf_rv r = v->request, value = RF_RV_NIL;
	struct rf_rv_pair *pair = NULL;

	*ret = r;
	if (ns == NULL)
		return 0;
	pair = rf_arena_try(v->a, ((size_t)r.n + 1) * sizeof(*pair));
	if (pair == NULL || !rf_rv_from_json(v->a, ns, &value))
		return rf_fail(err, RF_TOO_LARGE, "namespace \"%.*s\" is too large", RF_STR(v->ns));
	memcpy(pair, r.pairs, r.n * sizeof(*pair));
	pair[r.n] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("namespaceObject")), value };
	*ret = rf_rv_object(pair, r.n + 1, NULL);
	return 0;
}

static int ask_book(struct review *v, const struct rf_json *ns, struct rf_err *err)
{
	struct rf_book_verdict verdict = { 0 };
	struct rf_rv request = RF_RV_NIL;

	if (!v->r->loaded) {
		rf_fail(err, RF_UNAVAILABLE,
			"they have not all been read yet; try again in a few seconds");
		return not_asked(v, err);
	}
	if (rf_book_gap(v->r->book) != NULL) {
		rf_fail(err, RF_UNAVAILABLE, "one of them cannot be used; change it or delete it: %s",
			rf_book_gap(v->r->book));
		if (not_asked(v, err) < 0)
			return -err->code;
	}
	if (rf_book_is_empty(v->r->book))
		return 0;
	if (add_namespace(v, ns, &request, err) < 0 ||
	    rf_book_judge(v->r->book, request, &v->r->inventory, v->a, &verdict, err) < 0)
		return not_asked(v, err);
	for (size_t i = 0; i < verdict.n_warnings; i++)
		warn(v, verdict.warnings[i]);
	if (verdict.allowed)
		return 0;
	v->denied = verdict.message;
	return rf_fail(err, RF_FORBIDDEN, "refused by policies");
}

static int judge_policies(struct review *v, struct rf_err *err)
{
	const struct rf_cluster *c = &v->r->cluster;
	const struct rf_json *ns = NULL;

	if (v->r->book == NULL)
		return 0;
	if (check_policy(v, err) < 0)
		return -err->code;
	if (v->ns.n > 0)
		ns = c->get(c->ctx, &RF_NAMESPACES, RF_STR_EMPTY, v->ns);
	return is_exempt(v, ns) ? 0 : ask_book(v, ns, err);
}

/* --- what to judge ---------------------------------------------------------------------------- */

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

static bool is_of_pods(const struct review *v)
{
	return v->group.n == 0 && rf_str_is(v->resource, "pods");
}

static int read_pods(struct review *v, struct rf_err *err)
{
	if (v->ns.n == 0)
		return bad(err, "request.namespace is missing");
	if (read_pod(v, "object", &v->pod, err) < 0)
		return -err->code;
	return rf_str_is(v->operation, "UPDATE") ? read_pod(v, "oldObject", &v->old, err) : 0;
}

static int validate_pod(struct review *v, struct rf_err *err)
{
	if ((v->old == NULL ? validate_new(v, err) : rf_tenant_admit_change(v->old, v->pod, err)) == 0)
		return 0;
	return name_pod(v, err);
}

/* A gang that was let in and names a queue that is not its tenant's waits: where it cannot be judged it may come. */
static int validate_group(const struct review *v, struct rf_err *err)
{
	const struct rf_cluster *c = &v->r->cluster;
	const struct rf_json *ns = namespace_of(v);
	struct rf_json *group = NULL;
	struct rf_str queue;

	if (ns == NULL)
		return 0;
	if (rf_webhook_json(v->a, at(v->request, "object"), &group, err) < 0)
		return -err->code;
	queue = rf_json_str_at(group, "spec", "queue");
	if (rf_tenant_admit_group(group, v->ns, rf_kube_label(ns, RF_TENANT_LABEL),
				  queue.n > 0 ? c->get(c->ctx, &RF_QUEUES, RF_STR_EMPTY, queue) : NULL, err) == 0)
		return 0;
	return rf_wrap(err, "podgroups.ringfence.io \"%.*s\" is forbidden", (int)RF_MIN(rf_kube_name(group).n, 253u),
		       rf_kube_name(group).p);
}

static bool is_new_group(const struct review *v)
{
	return rf_str_is(v->group, "ringfence.io") && rf_str_is(v->resource, "podgroups") && v->sub.n == 0 &&
	       rf_str_is(v->operation, "CREATE");
}

/* 0: allowed. Policies come first: a pod they refuse must not be counted as let in. */
static int decide(struct review *v, enum rf_review what, struct rf_err *err)
{
	bool pods = is_of_pods(v), judged = pods && is_judged(v);

	if (judged && read_pods(v, err) < 0)
		return -err->code;
	if (!pods && (what == RF_REVIEW_MUTATE || (v->r->book == NULL && !is_new_group(v))))
		warn(v, RF_LIT("ringfence judges pods only; this review was let through"));
	if (what == RF_REVIEW_MUTATE)
		return judged && v->old == NULL ? mutate_new(v, err) : 0;
	if (judge_policies(v, err) < 0 || (judged && validate_pod(v, err) < 0) || (is_new_group(v) && validate_group(v, err) < 0))
		return -err->code;
	return 0;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void write_status(const struct review *v, const struct rf_err *err, struct rf_buf *out)
{
	const struct rf_code_info *info = rf_code_info(err->code);

	rf_buf_puts(out, ",\"status\":{\"status\":\"Failure\",\"message\":");
	rf_json_write_str(out, v->denied.n > 0 ? v->denied : rf_str(err->msg));
	rf_buf_printf(out, ",\"reason\":\"%s\",\"code\":%d}", info->kube_reason, info->http);
}

static void write_patch(const struct review *v, struct rf_buf *out)
{
	rf_buf_puts(out, ",\"patchType\":\"JSONPatch\",\"patch\":");
	rf_json_write_str(out, rf_base64_encode(v->a, rf_json_text_of(v->a, v->patch)));
}

static void write_warnings(const struct review *v, struct rf_buf *out)
{
	for (size_t i = 0; i < v->n_warnings; i++) {
		rf_buf_puts(out, i ? "," : ",\"warnings\":[");
		rf_json_write_str(out, v->warnings[i]);
	}
	if (v->n_warnings > 0)
		rf_buf_add_c(out, ']');
}

static struct rf_str answer(const struct review *v, bool refused, const struct rf_err *err)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_buf_puts(&out, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\","
			  "\"response\":{\"uid\":");
	rf_json_write_str(&out, v->uid);
	rf_buf_puts(&out, refused ? ",\"allowed\":false" : ",\"allowed\":true");
	if (refused)
		write_status(v, err, &out);
	if (v->patch != NULL)
		write_patch(v, &out);
	write_warnings(v, &out);
	rf_buf_puts(&out, "}}");
	return rf_arena_str(v->a, rf_buf_str(&out));
}

int rf_webhook_review(struct rf_reviewer *r, struct rf_arena *a, enum rf_review what,
		      struct rf_str body, struct rf_str *ret, struct rf_err *err)
{
	struct review v = { .r = r, .a = a };
	bool refused = read_review(&v, body, err) < 0 || decide(&v, what, err) < 0;

	if (refused && v.uid.n == 0)
		return -err->code;
	*ret = answer(&v, refused, err);
	return 0;
}
