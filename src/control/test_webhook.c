/* Admission reviews on Kubernetes: the judgement, the certificates (against a real API server), the
 * server that answers, and the process around it. */
#include "apiserver/test_world.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "codec/base64.h"
#include "codec/yaml.h"
#include "control/private.h"
#include "net/tls.h"
#include "tenant/foreign.h"

#define NOW INT64_C(1794717115000) /* 2026-11-15T04:31:55Z */
#define DAY_MS INT64_C(86400000)
#define PATIENCE_MS 20000
#define SERVICE "localhost" /* a name that leads here, so that a client can check it */

/* --- a cluster that is a list of objects ------------------------------------------------------- */

struct bench {
	struct rf_arena a;
	struct rf_json *objects;
	struct rf_reviewer r;
	struct rf_book *book; /* NULL: none */
};

static const struct rf_json *get(void *ctx, const struct rf_kube_res *res, struct rf_str ns,
				 struct rf_str name)
{
	struct bench *b = ctx;

	for (size_t i = 0; i < rf_json_len(b->objects); i++) {
		const struct rf_json *o = rf_json_item(b->objects, i);

		if (rf_str_is(rf_json_str_at(o, "kind"), res->kind) &&
		    rf_str_eq(rf_kube_namespace(o), ns) && rf_str_eq(rf_kube_name(o), name))
			return o;
	}
	return NULL;
}

static const struct rf_json *next(void *ctx, const struct rf_kube_res *res, const void **cursor)
{
	struct bench *b = ctx;
	bool found = *cursor == NULL;

	for (size_t i = 0; i < rf_json_len(b->objects); i++) {
		const struct rf_json *o = rf_json_item(b->objects, i);

		if (found && rf_str_is(rf_json_str_at(o, "kind"), res->kind))
			return *cursor = o;
		found |= o == *cursor;
	}
	return NULL;
}

static void add(struct bench *b, const char *object)
{
	rf_json_push(&b->a, b->objects, rf_json_make(&b->a, object));
}

/* Tenant blue: two namespaces, two cards, 20Gi of shares, four pods. */
static int set_up(void **state)
{
	struct bench *b = rf_new(struct bench);

	b->objects = rf_json_array(&b->a);
	b->r.cluster = (struct rf_cluster){ .get = get, .next = next, .ctx = b };
	b->r.scheduler = "ringfence";
	b->r.synced = true;
	add(b,
	    "{'kind':'Tenant','metadata':{'name':'blue'},'spec':{'isolation':'share','namespaces':"
	    "['blue-a','blue-b'],'quota':{'gpus':2,'gpuMemory':'20Gi','pods':4}}}");
	add(b, "{'kind':'Namespace','metadata':{'name':'blue-a','labels':{'ringfence.io/"
	       "tenant':'blue'}}}");
	add(b, "{'kind':'Namespace','metadata':{'name':'blue-b','labels':{'ringfence.io/"
	       "tenant':'blue'}}}");
	add(b, "{'kind':'Namespace','metadata':{'name':'open'}}");
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	rf_book_free(b->book);
	rf_arena_done(&b->a);
	free(b);
	return 0;
}

/* --- reviews ----------------------------------------------------------------------------------- */

#define CARDS(n) "'resources':{'limits':{'ringfence.io/gpu':" n "}}"

/* A pod of one container with these members; spec holds further ones, with a comma behind. */
static struct rf_json *pod(struct rf_arena *a, const char *ns, const char *name,
			   const char *container, const char *spec)
{
	struct rf_json *o = rf_json_make(
		a, rf_arena_printf(a,
				   "{'apiVersion':'v1','kind':'Pod','metadata':{},'spec':{%s"
				   "'containers':[{'name':'c','image':'x',%s}]}}",
				   spec, container)
			   .p);

	rf_json_set_str(a, rf_json_at(o, "metadata"), "name", rf_str(name));
	rf_json_set_str(a, rf_json_at(o, "metadata"), "namespace", rf_str(ns));
	return o;
}

static struct rf_json *review_of(struct rf_arena *a, const char *operation, struct rf_json *object)
{
	return rf_json_make(
		a,
		"{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{"
		"'uid':'r-1','kind':{'group':'','version':'v1','kind':'Pod'},'resource':{"
		"'group':'','version':'v1','resource':'pods'},'operation':%s,'namespace':%S,"
		"'userInfo':{'username':'alice','groups':['system:authenticated']},"
		"'object':%j}}",
		operation, rf_kube_namespace(object), object);
}

static struct rf_json *request(struct rf_json *review)
{
	return rf_json_at(review, "request");
}

static const struct rf_json *answer(struct bench *b, enum rf_review what, struct rf_json *review)
{
	struct rf_str text = RF_STR_EMPTY;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o = NULL;

	assert_ok(
		rf_webhook_review(&b->r, &b->a, what, rf_json_text_of(&b->a, review), &text, &err),
		err);
	assert_int_equal(rf_json_parse(&b->a, text, &o, NULL), 0);
	assert_true(rf_str_is(rf_json_str_at(o, "apiVersion"), "admission.k8s.io/v1"));
	assert_true(rf_str_is(rf_json_str_at(o, "kind"), "AdmissionReview"));
	assert_true(rf_str_is(rf_json_str_at(o, "response", "uid"), "r-1"));
	return rf_json_at(o, "response");
}

static void allowed(struct bench *b, struct rf_json *review)
{
	const struct rf_json *r = answer(b, RF_REVIEW_VALIDATE, review);

	if (!rf_json_is_true(rf_json_at(r, "allowed")))
		fail_msg("refused: %.*s", RF_STR(rf_json_str_at(r, "status", "message")));
	assert_null(rf_json_at(r, "patch"));
}

static void refused(struct bench *b, struct rf_json *review, int code, const char *message)
{
	const struct rf_json *r = answer(b, RF_REVIEW_VALIDATE, review);
	struct rf_str said = rf_json_str_at(r, "status", "message");

	assert_false(rf_json_is_true(rf_json_at(r, "allowed")));
	assert_int_equal(rf_json_int(rf_json_at(r, "status", "code"), 0), code);
	assert_string_equal(rf_arena_cstr(&b->a, said), message);
}

static struct rf_json *new_pod(struct bench *b, const char *ns, const char *name,
			       const char *container)
{
	return review_of(&b->a, "CREATE", pod(&b->a, ns, name, container, ""));
}

#define NO_CARD "'tty':false"
#define FULL(asked, used)                                                                          \
	"is forbidden: exceeded quota: tenant blue, requested: requests.ringfence.io/gpu=" asked   \
	", used: requests.ringfence.io/gpu=" used ", limited: requests.ringfence.io/gpu=2; "       \
	"wait for a pod of the tenant to end, lower ringfence.io/gpu or "                          \
	"ringfence.io/gpu-memory, or ask for a larger Tenant quota"

static void a_pod_of_a_tenant_within_its_quota_comes_in(void **state)
{
	allowed(*state, new_pod(*state, "blue-a", "p", CARDS("2")));
}

static void a_refusal_says_which_pod_why_and_what_to_do(void **state)
{
	struct bench *b = *state;
	const struct rf_json *r;
	struct rf_json *v;

	refused(b, new_pod(b, "blue-a", "big", CARDS("3")), 403, "pods \"big\" " FULL("3", "0"));
	r = answer(b, RF_REVIEW_VALIDATE, new_pod(b, "blue-a", "big", CARDS("3")));
	assert_true(rf_str_is(rf_json_str_at(r, "status", "reason"), "Forbidden"));
	refused(b, new_pod(b, "open", "p", CARDS("1")), 403,
		"pods \"p\" is forbidden: asks for GPUs, but namespace \"open\" belongs to no "
		"tenant; use "
		"a tenant's namespace or ask an administrator to create a Tenant for it");
	refused(b, new_pod(b, "blue-a", "p", "'resources':{'limits':{'ringfence.io/gpus':1}}"), 422,
		"Pod \"p\" is invalid: container \"c\": resources.limits.ringfence.io/gpus: there "
		"is no "
		"such resource; there are ringfence.io/gpu, ringfence.io/gpu-memory and "
		"ringfence.io/gpu-compute");
	refused(b,
		review_of(&b->a, "CREATE",
			  pod(&b->a, "blue-a", "p", CARDS("1"), "'schedulerName':'volcano',")),
		403,
		"pods \"p\" is forbidden: spec.schedulerName \"volcano\": pods that ask for cards "
		"are "
		"placed by ringfence; leave schedulerName out");
	refused(b, new_pod(b, "blue-a", "p", CARDS("1") ",'securityContext':{'privileged':true}"),
		403,
		"pods \"p\" is forbidden: asks for GPUs, and a pod with a card may not reach the "
		"machine "
		"under it: privileged (container \"c\" must not set "
		"securityContext.privileged=true); "
		"remove these settings, or ask for no GPU");
	v = new_pod(b, "blue-a", "p", CARDS("1"));
	rf_json_set(&b->a, rf_json_at(v, "request", "object", "metadata"), RF_LIT("annotations"),
		    rf_json_make(&b->a, "{'ringfence.io/preemptible':'no'}"));
	refused(b, v, 422,
		"Pod \"p\" is invalid: annotation ringfence.io/preemptible: \"no\" is not valid: it must be "
		"\"true\" or \"false\"");
}

static void nobody_waits_in_a_queue_of_somebody_else(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = new_pod(b, "blue-a", "p", CARDS("1"));

	rf_json_set(&b->a, rf_json_at(v, "request", "object", "metadata"), RF_LIT("labels"),
		    rf_json_make(&b->a, "{'ringfence.io/queue':'night'}"));
	allowed(b, v); /* there is none yet */
	add(b, "{'kind':'Queue','metadata':{'name':'night'},'spec':{'tenant':'green'}}");
	refused(b, v, 403,
		"pods \"p\" is forbidden: label ringfence.io/queue: tenant blue has no queue \"night\"; name one of its "
		"queues, or leave it out to use \"blue\"");
}

static struct rf_json *new_group(struct bench *b, const char *ns, const char *queue)
{
	return rf_json_make(&b->a,
			    "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{'uid':'r-1','operation':'CREATE','namespace':%s,"
			    "'kind':{'group':'ringfence.io','version':'v1alpha1','kind':'PodGroup'},'resource':{'group':'ringfence.io','version':"
			    "'v1alpha1','resource':'podgroups'},'userInfo':{'username':'alice','groups':[]},'object':{'apiVersion':"
			    "'ringfence.io/v1alpha1','kind':'PodGroup','metadata':{'name':'g','namespace':%s},'spec':{'minMember':2,'queue':%s}}}}",
			    ns, ns, queue);
}

static void no_gang_waits_in_a_queue_of_somebody_else(void **state)
{
	const char *message = "podgroups.ringfence.io \"g\" is forbidden: spec.queue: tenant blue has no queue \"night\"; name one of its "
			      "queues, or leave it out to use \"blue\"";
	struct bench *b = *state;

	refused(b, new_group(b, "blue-a", "night"), 403, message);
	add(b, "{'kind':'Queue','metadata':{'name':'night'},'spec':{'tenant':'green'}}");
	refused(b, new_group(b, "blue-a", "night"), 403, message);
	add(b, "{'kind':'Queue','metadata':{'name':'day'},'spec':{'tenant':'blue'}}");
	allowed(b, new_group(b, "blue-a", "day"));
	refused(b, new_group(b, "open", "day"), 403,
		"podgroups.ringfence.io \"g\" is forbidden: spec.queue: queues are for tenants, and namespace \"open\" belongs to none; "
		"leave \"day\" out");
	b->r.synced = false;
	allowed(b, new_group(b, "blue-a", "night")); /* nobody knows yet; it would wait */
}

static void a_node_is_named_by_administrators_only(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = review_of(&b->a, "CREATE",
				      pod(&b->a, "blue-a", "p", CARDS("1"), "'nodeName':'n1',"));

	refused(b, v, 403,
		"pods \"p\" is forbidden: spec.nodeName may only be set by the scheduler; leave it "
		"out, or "
		"use spec.nodeSelector");
	rf_json_push(&b->a, rf_json_at(v, "request", "userInfo", "groups"),
		     rf_json_string(&b->a, RF_LIT("system:masters")));
	allowed(b, v);
}

static void pods_without_cards_are_nobodys_business(void **state)
{
	struct bench *b = *state;

	allowed(b, new_pod(b, "blue-a", "p", NO_CARD ",'securityContext':{'privileged':true}"));
	b->r.synced = false;
	allowed(b, new_pod(b, "kube-system", "p", NO_CARD));
	assert_int_equal(b->r.recents.n, 0);
}

static void until_all_is_known_cards_are_refused(void **state)
{
	struct bench *b = *state;

	b->r.synced = false;
	refused(b, new_pod(b, "blue-a", "p", CARDS("1")), 503,
		"pods \"p\" is forbidden: asks for GPUs, and ringfence has only just started and "
		"does not "
		"know all tenants and pods yet; try again in a few seconds");
	b->r.synced = true;
	refused(b, new_pod(b, "new", "p", CARDS("1")), 503,
		"pods \"p\" is forbidden: ringfence does not know namespace \"new\" yet; try again "
		"in a "
		"moment");
}

/* --- counting ---------------------------------------------------------------------------------- */

static void quota_is_counted_over_all_namespaces_of_the_tenant(void **state)
{
	struct bench *b = *state;
	struct rf_json *ended = pod(&b->a, "blue-b", "ended", CARDS("2"), "");

	rf_json_set_str(&b->a, rf_json_ensure(&b->a, ended, "status"), "phase",
			RF_LIT("Succeeded"));
	rf_json_push(&b->a, b->objects, ended);
	rf_json_push(&b->a, b->objects, pod(&b->a, "open", "stranger", CARDS("2"), ""));
	rf_json_push(&b->a, b->objects, pod(&b->a, "blue-b", "runs", CARDS("1"), ""));
	refused(b, new_pod(b, "blue-a", "p", CARDS("2")), 403, "pods \"p\" " FULL("2", "1"));
	allowed(b, new_pod(b, "blue-a", "p", CARDS("1")));
}

/* Kubernetes itself accepts this key and counts nothing. */
static void a_quota_on_limits_of_cards_means_what_it_says(void **state)
{
	struct bench *b = *state;
	const struct rf_json *r = NULL;

	add(b, "{'kind':'ResourceQuota','metadata':{'name':'gpu-quota','namespace':'blue-a'},"
	       "'spec':{'hard':{'limits.ringfence.io/gpu':'1','limits.cpu':'0'}}}");
	add(b, "{'kind':'ResourceQuota','metadata':{'name':'elsewhere','namespace':'blue-b'},"
	       "'spec':{'hard':{'limits.ringfence.io/gpu':'0'}}}");
	add(b, "{'kind':'ResourceQuota','metadata':{'name':'scoped','namespace':'blue-a'},"
	       "'spec':{'scopes':['Terminating'],'hard':{'limits.ringfence.io/gpu':'0'}}}");
	r = answer(b, RF_REVIEW_VALIDATE,
		   review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "one", CARDS("'1'"), "")));
	assert_true(rf_json_is_true(rf_json_at(r, "allowed")));
	/* Admitted an instant ago, not shown by any informer yet. */
	r = answer(b, RF_REVIEW_VALIDATE,
		   review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "two", CARDS("'1'"), "")));
	assert_false(rf_json_is_true(rf_json_at(r, "allowed")));
	assert_true(rf_str_contains(
		rf_json_str_at(r, "status", "message"),
		RF_LIT("exceeded quota: gpu-quota, requested: limits.ringfence.io/gpu=1, used: "
		       "limits.ringfence.io/gpu=1, limited: limits.ringfence.io/gpu=1")));
	rf_json_push(&b->a, b->objects, pod(&b->a, "blue-a", "one", CARDS("1"), ""));
	r = answer(b, RF_REVIEW_VALIDATE,
		   review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "two", CARDS("'1'"), "")));
	assert_false(rf_json_is_true(rf_json_at(r, "allowed")));
}

static void what_was_just_admitted_counts_before_the_informer_shows_it(void **state)
{
	struct bench *b = *state;

	allowed(b, new_pod(b, "blue-a", "first", CARDS("1")));
	allowed(b, new_pod(b, "blue-a", "first", CARDS("1"))); /* asked once more: still one pod */
	allowed(b, new_pod(b, "blue-b", "second", CARDS("1")));
	refused(b, new_pod(b, "blue-a", "third", CARDS("1")), 403,
		"pods \"third\" " FULL("1", "2"));
	/* Shown now: counted once. */
	rf_json_push(&b->a, b->objects, pod(&b->a, "blue-a", "first", CARDS("1"), ""));
	refused(b, new_pod(b, "blue-a", "third", CARDS("1")), 403,
		"pods \"third\" " FULL("1", "2"));
	assert_int_equal(b->r.recents.n, 1);
	/* The second never came: somebody behind us refused it. */
	b->r.now_ms += RF_RECENT_MS;
	allowed(b, new_pod(b, "blue-a", "third", CARDS("1")));
}

static void an_older_pod_of_the_name_is_not_the_new_one(void **state)
{
	struct bench *b = *state;
	struct rf_json *old = pod(&b->a, "blue-a", "p", CARDS("1"), ""), *v;

	rf_json_set_str(&b->a, rf_json_at(old, "metadata"), "uid", RF_LIT("old"));
	rf_json_push(&b->a, b->objects, old);
	v = new_pod(b, "blue-a", "p", CARDS("1"));
	rf_json_set_str(&b->a, rf_json_at(v, "request", "object", "metadata"), "uid",
			RF_LIT("new"));
	allowed(b, v);
	refused(b, new_pod(b, "blue-a", "q", CARDS("1")), 403, "pods \"q\" " FULL("1", "2"));
	rf_json_set_str(&b->a, rf_json_at(old, "metadata"), "uid", RF_LIT("new"));
	allowed(b, new_pod(b, "blue-a", "q", CARDS("1")));
}

static void pods_that_get_their_name_later_count_too(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = new_pod(b, "blue-a", "", CARDS("2"));

	rf_json_set_str(&b->a, rf_json_at(v, "request", "object", "metadata"), "generateName",
			RF_LIT("job-"));
	allowed(b, v);
	refused(b, new_pod(b, "blue-a", "q", CARDS("1")), 403, "pods \"q\" " FULL("1", "2"));
	/* The same review once more is the same pod. */
	allowed(b, v);
	rf_json_set_str(&b->a, request(v), "uid", RF_LIT("r-2"));
	assert_int_equal(b->r.recents.n, 1);
}

static void a_dry_run_takes_nothing(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = new_pod(b, "blue-a", "dry", CARDS("2"));

	rf_json_set_bool(&b->a, request(v), "dryRun", true);
	allowed(b, v);
	assert_int_equal(b->r.recents.n, 0);
	allowed(b, new_pod(b, "blue-a", "wet", CARDS("2")));
}

static void the_table_of_recent_pods_is_bounded(void **state)
{
	struct bench *b = *state;
	struct rf_tenant_use one = { 1, 0, 1 }, sum = { 0 };
	char name[300];

	for (int i = 0; i < RF_RECENTS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		rf_recents_put(&b->r.recents, RF_LIT("blue-a"), rf_str(name), RF_STR_EMPTY, &one,
			       i);
	}
	assert_int_equal(b->r.recents.n, RF_RECENTS_MAX);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	rf_recents_put(&b->r.recents, RF_LIT("blue-a"), rf_str(name), RF_STR_EMPTY, &one, 1000);
	/* The oldest ten made room; p10 and those after it are there. */
	rf_recents_count(&b->r.recents, &b->r.cluster, RF_LIT("blue"), RF_LIT("blue-a"),
			 RF_LIT("p10"), RF_RECENTS_MAX, &sum);
	assert_int_equal(sum.cards, RF_RECENTS_MAX - 1);
	sum = (struct rf_tenant_use){ 0 };
	rf_recents_count(&b->r.recents, &b->r.cluster, RF_LIT("red"), RF_LIT("x"), RF_LIT("y"),
			 RF_RECENTS_MAX, &sum);
	assert_int_equal(sum.cards, 0);
	rf_recents_count(&b->r.recents, &b->r.cluster, RF_LIT("blue"), RF_LIT("x"), RF_LIT("y"),
			 RF_RECENT_MS + RF_RECENTS_MAX + 10, &sum);
	assert_int_equal(b->r.recents.n, 0);
}

/* --- changing what is there --------------------------------------------------------------------- */

static void a_debug_container_beside_a_card_stays_fenced(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = review_of(
		&b->a, "UPDATE",
		pod(&b->a, "blue-a", "p", CARDS("1"),
		    "'ephemeralContainers':[{'name':'d','securityContext':{'privileged':true}}],"));

	rf_json_set_str(&b->a, request(v), "subResource", RF_LIT("ephemeralcontainers"));
	rf_json_set(&b->a, request(v), RF_LIT("oldObject"),
		    pod(&b->a, "blue-a", "p", CARDS("1"), ""));
	refused(b, v, 403,
		"pods \"p\" is forbidden: asks for GPUs, and a pod with a card may not reach the "
		"machine "
		"under it: privileged (container \"d\" must not set "
		"securityContext.privileged=true); "
		"remove these settings, or ask for no GPU");
	rf_json_set(&b->a, request(v), RF_LIT("object"),
		    pod(&b->a, "blue-a", "p", CARDS("1"), "'ephemeralContainers':[{'name':'d'}],"));
	allowed(b, v);
	rf_json_set(&b->a, request(v), RF_LIT("object"), pod(&b->a, "blue-a", "p", CARDS("2"), ""));
	refused(b, v, 403,
		"pods \"p\" is forbidden: what a pod asks of GPUs cannot be changed; delete it and "
		"create "
		"it anew");
	assert_int_equal(b->r.recents.n, 0);
}

static void what_asks_for_nothing_is_let_through(void **state)
{
	static const struct {
		const char *operation, *sub, *kind;
	} rows[] = { { "DELETE", "", "Pod" },
		     { "CONNECT", "exec", "PodExecOptions" },
		     { "CREATE", "binding", "Binding" },
		     { "CREATE", "eviction", "Eviction" },
		     { "UPDATE", "status", "Pod" } };
	struct bench *b = *state;

	b->r.synced = false;
	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_json *v = new_pod(b, "blue-a", "p", CARDS("9"));

		rf_json_set_str(&b->a, request(v), "operation", rf_str(rows[i].operation));
		rf_json_set_str(&b->a, request(v), "subResource", rf_str(rows[i].sub));
		rf_json_set_str(&b->a, rf_json_at(v, "request", "kind"), "kind",
				rf_str(rows[i].kind));
		allowed(b, v);
	}
}

static void another_kind_is_let_through_with_a_warning(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = new_pod(b, "blue-a", "p", CARDS("9"));
	const struct rf_json *r;

	rf_json_set(
		&b->a, request(v), RF_LIT("resource"),
		rf_json_make(&b->a, "{'group':'apps','version':'v1','resource':'deployments'}"));
	r = answer(b, RF_REVIEW_VALIDATE, v);
	assert_true(rf_json_is_true(rf_json_at(r, "allowed")));
	assert_true(rf_str_is(rf_json_str(rf_json_item(rf_json_at(r, "warnings"), 0)),
			      "ringfence judges pods only; this review was let through"));
	/* Pods of another group are not Kubernetes' pods. */
	rf_json_set(
		&b->a, request(v), RF_LIT("resource"),
		rf_json_make(&b->a, "{'group':'metrics.k8s.io','version':'v1','resource':'pods'}"));
	allowed(b, v);
}

/* --- mutation ----------------------------------------------------------------------------------- */

static struct rf_str patch_of(struct bench *b, const char *container, const char *spec)
{
	const struct rf_json *r =
		answer(b, RF_REVIEW_MUTATE,
		       review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "p", container, spec)));
	struct rf_str text = RF_STR_EMPTY;

	assert_true(rf_json_is_true(rf_json_at(r, "allowed")));
	if (rf_json_at(r, "patch") == NULL) {
		assert_null(rf_json_at(r, "patchType"));
		return RF_STR_EMPTY;
	}
	assert_true(rf_str_is(rf_json_str_at(r, "patchType"), "JSONPatch"));
	assert_int_equal(rf_base64_decode(&b->a, rf_json_str_at(r, "patch"), &text, NULL), 0);
	return text;
}

static void pods_with_cards_get_our_scheduler_and_nothing_else(void **state)
{
	static const char ours[] =
		"[{\"op\":\"add\",\"path\":\"/spec/schedulerName\",\"value\":\"fence-2\"}]";
	struct bench *b = *state;

	b->r.scheduler = "fence-2";
	b->r.synced = false; /* nothing needs to be known for this */
	assert_true(rf_str_is(patch_of(b, CARDS("1"), ""), ours));
	assert_true(
		rf_str_is(patch_of(b, CARDS("1"), "'schedulerName':'default-scheduler',"), ours));
	assert_int_equal(patch_of(b, CARDS("1"), "'schedulerName':'fence-2',").n, 0);
	assert_int_equal(patch_of(b, CARDS("1"), "'schedulerName':'volcano',").n, 0);
	assert_int_equal(patch_of(b, NO_CARD, "").n, 0);
	assert_int_equal(b->r.recents.n, 0);
}

/* --- what is no review --------------------------------------------------------------------------- */

static void spoilt(struct bench *b, struct rf_str body, int code, const char *why)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text;

	assert_int_equal(rf_webhook_review(&b->r, &b->a, RF_REVIEW_VALIDATE, body, &text, &err),
			 -code);
	if (strstr(err.msg, why) == NULL)
		fail_msg("wanted \"%s\", got \"%s\"", why, err.msg);
}

static void what_is_no_review_is_an_error_with_a_reason(void **state)
{
	static const struct {
		const char *object, *why; /* object: a merge patch over a good review */
	} rows[] = {
		{ "{'kind':'ConversionReview'}", "kind is another" },
		{ "{'apiVersion':'admission.k8s.io/v1beta1'}", "apiVersion is another" },
		{ "{'request':null}", "request.uid" },
		{ "{'request':{'uid':''}}", "request.uid" },
	};
	struct bench *b = *state;

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_json *v = new_pod(b, "blue-a", "p", CARDS("1"));

		assert_int_equal(
			rf_patch_merge(&b->a, &v, rf_json_make(&b->a, rows[i].object), NULL), 0);
		spoilt(b, rf_json_text_of(&b->a, v), RF_BAD_REQUEST, rows[i].why);
	}
	spoilt(b, RF_STR_EMPTY, RF_BAD_REQUEST, "the body");
	spoilt(b, RF_LIT("{\"kind\":"), RF_BAD_REQUEST, "the body");
	spoilt(b, RF_LIT("{\"request\":{\"uid\":\""), RF_BAD_REQUEST, "the body");
	spoilt(b, RF_LIT("{\"request\":{\"uid\":\"a\\u0000\","), RF_BAD_REQUEST, "the body");
	spoilt(b, RF_LIT("[]"), RF_BAD_REQUEST, "kind is another");
	assert_int_equal(b->r.recents.n, 0);
}

/* An error in place of an answer lets it through where the webhook fails open. */
static void refused_unread(struct bench *b, struct rf_arena *a, struct rf_str body, const char *why)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text = RF_STR_EMPTY;
	struct rf_json *v = NULL;
	const struct rf_json *r;

	assert_ok(rf_webhook_review(&b->r, a, RF_REVIEW_VALIDATE, body, &text, &err), err);
	assert_ok(rf_json_parse(&b->a, text, &v, &err), err);
	r = rf_json_at(v, "response");
	assert_true(rf_str_is(rf_json_str_at(r, "uid"), "r-1"));
	assert_true(rf_json_is(rf_json_at(r, "allowed"), RF_JSON_BOOL));
	assert_false(rf_json_is_true(rf_json_at(r, "allowed")));
	if (!rf_str_contains(rf_json_str_at(r, "status", "message"), rf_str(why)))
		fail_msg("wanted \"%s\", got %.*s", why, RF_STR(text));
}

static void a_review_that_is_malformed_is_refused(void **state)
{
	static const struct {
		const char *object, *why;
	} rows[] = {
		{ "{'request':{'operation':'WATCH'}}", "request.operation" },
		{ "{'request':{'resource':{'resource':null}}}", "request.resource.resource" },
		{ "{'request':{'namespace':''}}", "request.namespace" },
		{ "{'request':{'resource':{'version':'v2'}}}", "must be of kind Pod, version v1" },
		{ "{'request':{'kind':{'kind':'Deployment'}}}", "must be of kind Pod, version v1" },
		{ "{'request':{'object':null}}", "request.object: must be a pod" },
		{ "{'request':{'object':{'spec':[]}}}", "request.object: must be a pod" },
		{ "{'request':{'operation':'UPDATE'}}", "request.oldObject: must be a pod" },
	};
	struct bench *b = *state;

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_json *v = new_pod(b, "blue-a", "p", CARDS("1"));

		assert_int_equal(
			rf_patch_merge(&b->a, &v, rf_json_make(&b->a, rows[i].object), NULL), 0);
		refused_unread(b, &b->a, rf_json_text_of(&b->a, v), rows[i].why);
	}
	assert_int_equal(b->r.recents.n, 0);
}

/* A pod without cards, as Kubernetes begins a review; what follows is the tenant's. */
#define HEAD                                                                                       \
	"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":\"r-1\","  \
	"\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},\"resource\":{\"group\":\"\","           \
	"\"version\":\"v1\",\"resource\":\"pods\"},\"namespace\":\"open\",\"operation\":\"CREATE\","             \
	"\"object\":{\"metadata\":{\"name\":\"p\",\"annotations\":"
#define TAIL "},\"spec\":{\"containers\":[]}}}}"

static void a_pod_that_cannot_be_read_is_refused(void **state)
{
	struct bench *b = *state;
	rf_auto(arena) small = RF_ARENA_CAPPED(64 * 1024);
	rf_auto(buf) text = RF_BUF_INIT;

	rf_buf_puts(&text, HEAD);
	for (int i = 0; i < 200; i++)
		rf_buf_puts(&text, "{\"f\":");
	rf_buf_puts(&text, "1");
	for (int i = 0; i < 200; i++)
		rf_buf_puts(&text, "}");
	rf_buf_puts(&text, TAIL);
	refused_unread(b, &b->a, rf_buf_str(&text), "nested deeper");
	rf_buf_clear(&text);
	rf_buf_puts(&text, HEAD);
	for (int i = 0; i <= RF_JSON_MEMBERS_MAX; i++)
		rf_buf_printf(&text, "%s\"k%d\":\"\"", i ? "," : "{", i);
	rf_buf_puts(&text, "}" TAIL);
	refused_unread(b, &b->a, rf_buf_str(&text), "too large to be judged");
	refused_unread(b, &small, rf_buf_str(&text), "the body");
}

static void depth_and_size_are_capped(void **state)
{
	struct bench *b = *state;
	rf_auto(arena) small = RF_ARENA_CAPPED(64 * 1024);
	rf_auto(buf) deep = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text;

	for (int i = 0; i < 100000; i++)
		rf_buf_puts(&deep, "[");
	spoilt(b, rf_buf_str(&deep), RF_BAD_REQUEST, "the body");
	rf_buf_clear(&deep);
	rf_buf_puts(&deep, "[0");
	for (int i = 0; i < 100000; i++)
		rf_buf_puts(&deep, ",0");
	rf_buf_puts(&deep, "]");
	assert_int_equal(rf_webhook_review(&b->r, &small, RF_REVIEW_VALIDATE, rf_buf_str(&deep),
					   &text, &err),
			 -RF_TOO_LARGE);
}


static void what_is_read_for_policies_is_the_same_json(void **state)
{
	static const char TEXT[] = "{\"b\":[1,-7,1.0,1e3,2.50,12345678901234567890,true,false,null,\"\\u00e9\\n\","
				   "{\"a\":{},\"c\":[]}],\"a\":\"x\"}";
	struct bench *b = *state;
	struct rf_json *is = NULL, *wanted = NULL;
	struct rf_err err = RF_ERR_INIT;
	rf_auto(buf) many = RF_BUF_INIT;
	struct rf_rv v;

	assert_ok(rf_rv_parse_json(&b->a, rf_str(TEXT), &v, &err), err);
	assert_ok(rf_webhook_json(&b->a, v, &is, &err), err);
	assert_ok(rf_json_parse(&b->a, rf_str(TEXT), &wanted, &err), err);
	assert_true(rf_json_equal(is, wanted));
	assert_true(rf_str_is(rf_json_item(rf_json_at(is, "b"), 4)->text, "2.50"));
	for (int i = 0; i <= RF_JSON_MEMBERS_MAX; i++)
		rf_buf_printf(&many, "%s\"k%d\":1", i ? "," : "{", i);
	rf_buf_add_c(&many, '}');
	assert_ok(rf_rv_parse_json(&b->a, rf_buf_str(&many), &v, &err), err);
	assert_int_equal(rf_webhook_json(&b->a, v, &is, &err), -RF_TOO_LARGE);
}

/* --- policies ---------------------------------------------------------------------------------- */

static void put(struct bench *b, const char *yaml)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;

	assert_ok(rf_yaml_parse(&b->a, rf_str(yaml), &docs, &err), err);
	for (size_t i = 0; i < rf_json_len(docs); i++)
		assert_ok(rf_book_put(b->book, rf_json_item(docs, i), &err), err);
}

#define ECHO_TEMPLATE                                                                                       \
	"apiVersion: templates.gatekeeper.sh/v1\n"                                                 \
	"kind: ConstraintTemplate\n"                                                               \
	"metadata: {name: echo, uid: u-1, generation: 3}\n"                                        \
	"spec:\n"                                                                                  \
	"  crd:\n"                                                                                 \
	"    spec:\n"                                                                              \
	"      names: {kind: Echo, shortNames: [ec]}\n"                                            \
	"      validation:\n"                                                                      \
	"        openAPIV3Schema: {type: object, properties: {say: {type: string}}}\n"             \
	"  targets:\n"                                                                             \
	"  - target: admission.k8s.gatekeeper.sh\n"                                                \
	"    rego: |\n"                                                                            \
	"      package echo\n"                                                                     \
	"      violation[{\"msg\": msg}] { msg := input.parameters.say }\n"
#define CONSTRAINT(name, spec)                                                                     \
	"---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Echo\nmetadata: {name: " name   \
	", uid: u-2, generation: 1}\nspec: {" spec "}\n"

static int set_up_book(void **state)
{
	struct bench *b;

	set_up(state);
	b = *state;
	b->r.book = b->book = rf_book_new();
	b->r.loaded = true;
	return 0;
}

static struct rf_json *review_of_deployment(struct bench *b, const char *ns)
{
	struct rf_json *v = review_of(
		&b->a, "CREATE",
		rf_json_make(&b->a, "{'apiVersion':'apps/v1','kind':'Deployment','metadata':{'name':'d',"
				    "'namespace':%s}}",
			     ns));

	rf_json_set(&b->a, request(v), RF_LIT("kind"),
		    rf_json_make(&b->a, "{'group':'apps','version':'v1','kind':'Deployment'}"));
	rf_json_set(&b->a, request(v), RF_LIT("resource"),
		    rf_json_make(&b->a, "{'group':'apps','version':'v1','resource':'deployments'}"));
	return v;
}

/* "yes" or the code and message, then the warnings. */
static const char *verdict(struct bench *b, struct rf_json *review)
{
	const struct rf_json *r = answer(b, RF_REVIEW_VALIDATE, review);
	const struct rf_json *warnings = rf_json_at(r, "warnings");
	rf_auto(buf) out = RF_BUF_INIT;

	if (rf_json_is_true(rf_json_at(r, "allowed")))
		rf_buf_puts(&out, "yes");
	else
		rf_buf_printf(&out, "%d %.*s", (int)rf_json_int(rf_json_at(r, "status", "code"), 0),
			      RF_STR(rf_json_str_at(r, "status", "message")));
	for (size_t i = 0; i < rf_json_len(warnings); i++)
		rf_buf_printf(&out, " ~%.*s", RF_STR(rf_json_str(rf_json_item(warnings, i))));
	return rf_arena_cstr(&b->a, rf_buf_str(&out));
}

static void policies_judge_whatever_comes(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = review_of_deployment(b, "open");

	assert_string_equal(verdict(b, v), "yes");
	put(b, ECHO_TEMPLATE CONSTRAINT("a", "parameters: {say: 'no'}") CONSTRAINT("b", "parameters: {say: never}")
		       CONSTRAINT("c", "enforcementAction: warn, parameters: {say: hm}")
			       CONSTRAINT("d", "match: {kinds: [{kinds: [Pod]}]}, parameters: {say: pods}"));
	assert_string_equal(verdict(b, v), "403 [a] no\n[b] never ~[c] hm");
}

static void a_refusal_by_policies_has_kubernetes_reason(void **state)
{
	struct bench *b = *state;
	const struct rf_json *r;

	put(b, ECHO_TEMPLATE CONSTRAINT("a", "parameters: {say: 'stop'}"));
	r = answer(b, RF_REVIEW_VALIDATE, review_of_deployment(b, "open"));
	assert_true(rf_str_is(rf_json_str_at(r, "status", "reason"), "Forbidden"));
	assert_true(rf_str_is(rf_json_str_at(r, "uid"), "r-1"));
}

static void a_pod_that_policies_refuse_is_not_counted(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "p", CARDS("2"), ""));

	put(b, ECHO_TEMPLATE CONSTRAINT("a", "match: {name: p}, parameters: {say: 'stop'}"));
	assert_string_equal(verdict(b, v), "403 [a] stop");
	v = review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "q", CARDS("2"), ""));
	assert_string_equal(verdict(b, v), "yes");
	v = review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "r", CARDS("2"), ""));
	assert_non_null(strstr(verdict(b, v), "403 pods \"r\" is forbidden"));
}

static void policies_see_the_namespace(void **state)
{
	struct bench *b = *state;

	put(b, ECHO_TEMPLATE CONSTRAINT("a", "match: {namespaceSelector: {matchLabels: {ringfence.io/tenant: blue}}}, "
				    "parameters: {say: blue}"));
	assert_string_equal(verdict(b, review_of_deployment(b, "blue-a")), "403 [a] blue");
	assert_string_equal(verdict(b, review_of_deployment(b, "open")), "yes");
	assert_non_null(strstr(verdict(b, review_of_deployment(b, "unheard-of")),
			       "namespace unheard-of is not known"));
}

static void some_namespaces_and_ringfence_itself_are_left_alone(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = review_of_deployment(b, "open");

	put(b, ECHO_TEMPLATE CONSTRAINT("a", "parameters: {say: 'stop'}"));
	add(b, "{'kind':'Namespace','metadata':{'name':'vendor','labels':{'admission.gatekeeper.sh/"
	       "ignore':'yes'}}}");
	assert_string_equal(verdict(b, review_of_deployment(b, "kube-system")), "yes");
	assert_string_equal(verdict(b, review_of_deployment(b, "ringfence-system")), "yes");
	assert_string_equal(verdict(b, review_of_deployment(b, "vendor")), "yes");
	rf_json_set_str(&b->a, rf_json_at(request(v), "userInfo"), "username",
			RF_LIT("system:serviceaccount:ringfence-system:ringfence-control"));
	assert_string_equal(verdict(b, v), "yes");
	b->r.exempt = "infra, monitoring";
	assert_string_equal(verdict(b, review_of_deployment(b, "monitoring")), "yes");
	assert_string_equal(verdict(b, review_of_deployment(b, "kube-system")), "403 [a] stop");
	/* Cards are counted wherever they are asked for. */
	add(b, "{'kind':'Pod','metadata':{'name':'x','namespace':'blue-a'},'spec':{'containers':[{" CARDS(
		       "2") "}]}}");
	b->r.exempt = "blue-a";
	assert_non_null(strstr(verdict(b, review_of(&b->a, "CREATE",
						    pod(&b->a, "blue-a", "p", CARDS("1"), ""))),
			       "pods \"p\" is forbidden"));
}

static void until_policies_are_read_cards_are_refused_and_the_rest_is_the_operators_choice(void **state)
{
	struct bench *b = *state;
	struct rf_json *cards = review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "p", CARDS("1"), ""));
	struct rf_json *none =
		review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "p", "'resources':{}", ""));
	static const char WHY[] = "they have not all been read yet; try again in a few seconds";

	b->r.loaded = false;
	assert_string_equal(verdict(b, cards),
			    rf_arena_printf(&b->a, "503 ringfence could not ask the cluster's policies: %s",
					    WHY)
				    .p);
	assert_string_equal(
		verdict(b, none),
		rf_arena_printf(&b->a,
				"yes ~ringfence let this through without asking the cluster's policies: %s",
				WHY)
			.p);
	b->r.closed = true;
	assert_memory_equal(verdict(b, none), "503 ", 4);
	b->r.loaded = true;
	assert_string_equal(verdict(b, none), "yes");
	assert_string_equal(verdict(b, cards), "yes");
}

static int no_inventory(void *ctx RF_UNUSED, struct rf_arena *a RF_UNUSED, struct rf_rv *ret RF_UNUSED,
			struct rf_err *err)
{
	return rf_fail(err, RF_UNAVAILABLE, "Service: not read yet");
}

static void what_cannot_be_judged_is_treated_alike(void **state)
{
	struct bench *b = *state;
	struct rf_json *cards = review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "p", CARDS("1"), ""));

	put(b, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: ringfence-system, labels: "
	       "{openpolicyagent.org/policy: rego}}\ndata:\n  a.rego: |\n    package kubernetes.admission\n"
	       "    deny contains \"x\" if data.inventory.cluster.x\n");
	b->r.inventory = (struct rf_book_inventory){ no_inventory, NULL };
	assert_non_null(strstr(verdict(b, cards), "503 "));
	assert_non_null(strstr(verdict(b, cards), "Service: not read yet"));
	assert_non_null(strstr(verdict(b, review_of_deployment(b, "open")),
			       "yes ~ringfence let this through"));
}

static void a_policy_that_cannot_be_used_any_more_is_treated_alike(void **state)
{
	struct bench *b = *state;
	struct rf_json *cards = review_of(&b->a, "CREATE", pod(&b->a, "blue-a", "p", CARDS("1"), ""));
	struct rf_json *broken = rf_json_make(
		&b->a, "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'m','namespace':'ringfence-system',"
		       "'labels':{'openpolicyagent.org/policy':'rego'}},'data':{'a.rego':'package x\ny := '}}");

	assert_true(rf_book_put(b->book, broken, NULL) < 0);
	assert_non_null(strstr(verdict(b, cards), "503 ringfence could not ask the cluster's policies: one of them cannot be "
						  "used; change it or delete it: "));
	assert_non_null(strstr(verdict(b, review_of_deployment(b, "open")), "yes ~ringfence let this through"));
	rf_book_drop(b->book, broken);
	assert_string_equal(verdict(b, cards), "yes");
}

static void a_policy_that_cannot_be_compiled_is_refused_where_it_is_written(void **state)
{
	struct bench *b = *state;
	struct rf_json *v = review_of(
		&b->a, "CREATE",
		rf_json_make(&b->a, "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'m','namespace':"
				    "'ringfence-system','labels':{'openpolicyagent.org/policy':'rego'}},"
				    "'data':{'a.rego':'package x\ny := '}}"));

	rf_json_set(&b->a, request(v), RF_LIT("kind"),
		    rf_json_make(&b->a, "{'group':'','version':'v1','kind':'ConfigMap'}"));
	rf_json_set(&b->a, request(v), RF_LIT("resource"),
		    rf_json_make(&b->a, "{'group':'','version':'v1','resource':'configmaps'}"));
	assert_non_null(strstr(verdict(b, v), "422 ConfigMap ringfence-system/m: m/a.rego:2:"));
	rf_json_set_str(&b->a, rf_json_at(request(v), "object", "data"), "a.rego", RF_LIT("package x"));
	assert_string_equal(verdict(b, v), "yes");
}

static void a_template_becomes_a_kind(void **state)
{
	struct bench *b = *state;
	struct rf_json *docs = NULL, *crd, *t, *versions;

	assert_int_equal(rf_yaml_parse(&b->a, RF_LIT(ECHO_TEMPLATE), &docs, NULL), 0);
	t = rf_json_item(docs, 0);
	crd = rf_constraint_crd(&b->a, t);
	assert_true(rf_str_is(rf_kube_name(crd), "echo.constraints.gatekeeper.sh"));
	assert_true(rf_str_is(rf_json_str_at(crd, "spec", "scope"), "Cluster"));
	assert_true(rf_str_is(rf_json_str_at(crd, "spec", "names", "kind"), "Echo"));
	assert_true(rf_str_is(rf_json_str_at(crd, "spec", "names", "plural"), "echo"));
	assert_true(rf_str_is(rf_json_str(rf_json_item(rf_json_at(crd, "spec", "names", "shortNames"), 0)),
			      "ec"));
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(crd, "metadata", "ownerReferences"), 0),
					     "uid"),
			      "u-1"));
	versions = rf_json_at(crd, "spec", "versions");
	assert_int_equal(rf_json_len(versions), 2);
	assert_true(rf_json_equal(
		rf_json_at(rf_json_item(versions, 0), "schema", "openAPIV3Schema", "properties", "spec",
			   "properties", "parameters"),
		rf_json_make(&b->a, "{'type':'object','properties':{'say':{'type':'string'}}}")));
	assert_null(rf_constraint_crd_patch(&b->a, t, crd));
	rf_json_set(&b->a, rf_json_at(t, "spec", "crd", "spec", "validation"), RF_LIT("legacySchema"),
		    rf_json_bool(&b->a, true));
	assert_non_null(rf_constraint_crd_patch(&b->a, t, crd));
	/* Gatekeeper's own is not ours to change. */
	rf_json_set(&b->a, rf_json_at(crd, "metadata"), RF_LIT("labels"), NULL);
	assert_null(rf_constraint_crd_patch(&b->a, t, crd));
}

static void a_status_says_where_the_error_is(void **state)
{
	struct bench *b = *state;
	struct rf_json *docs = NULL, *t, *c, *patch, *entry;

	assert_int_equal(rf_yaml_parse(&b->a, RF_LIT(ECHO_TEMPLATE CONSTRAINT("a", "")), &docs, NULL), 0);
	t = rf_json_item(docs, 0);
	c = rf_json_item(docs, 1);
	patch = rf_policy_status(&b->a, t,
				 "ConstraintTemplate echo: template:2:30: rego_parse_error: no such luck");
	assert_true(rf_json_equal(
		rf_json_at(patch, "status"),
		rf_json_make(&b->a, "{'created':false,'byPod':[{'id':'ringfence-control','observedGeneration':3,"
				    "'operations':['webhook'],'templateUID':'u-1','errors':[{'code':"
				    "'rego_parse_error','location':'template:2:30','message':'no such luck'}]}]}")));
	patch = rf_policy_status(&b->a, t, "");
	assert_true(rf_json_is_true(rf_json_at(patch, "status", "created")));
	rf_json_set(&b->a, t, RF_LIT("status"), rf_json_at(patch, "status"));
	assert_null(rf_policy_status(&b->a, t, ""));
	assert_non_null(rf_policy_status(&b->a, t, "something else"));
	patch = rf_policy_status(&b->a, c, "Echo a: spec: parameters: say must be of type string");
	entry = rf_json_item(rf_json_at(patch, "status", "byPod"), 0);
	assert_true(rf_str_is(rf_json_str_at(entry, "constraintUID"), "u-2"));
	assert_false(rf_json_is_true(rf_json_at(entry, "enforced")));
	entry = rf_json_item(rf_json_at(entry, "errors"), 0);
	assert_true(rf_str_is(rf_json_str_at(entry, "code"), "create_error"));
	assert_true(rf_str_is(rf_json_str_at(entry, "message"),
			      "Echo a: spec: parameters: say must be of type string"));
	assert_null(rf_json_at(patch, "status", "created"));
}

/* What a policy does not see it does not compare with: too little must never pass for nothing. */
static void a_wish_that_cannot_be_met_is_no_empty_inventory(void **state)
{
	struct bench *b = *state;
	struct rf_inventory *i = rf_inventory_new(NULL);
	struct rf_json *template = rf_json_make(
		&b->a, "{'kind':'ConstraintTemplate','metadata':{'name':'t','annotations':"
		       "{'metadata.gatekeeper.sh/requires-sync-data':'[[{'}}}");
	struct rf_json *many = rf_json_make(&b->a, "{'kind':'SyncSet','spec':{'gvks':[]}}");
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v;

	for (int k = 0; k < 65; k++)
		rf_json_push(&b->a, rf_json_at(many, "spec", "gvks"),
			     rf_json_make(&b->a, "{'group':'','version':'v1','kind':%S}",
					  rf_arena_printf(&b->a, "K%d", k)));
	rf_inventory_want_nothing(i);
	assert_ok(rf_inventory_get(i, &b->a, &v, &err), err);
	rf_inventory_want(i, template);
	assert_int_equal(rf_inventory_get(i, &b->a, &v, &err), -RF_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "ConstraintTemplate t: annotation metadata.gatekeeper.sh/"));
	rf_inventory_want_nothing(i);
	assert_ok(rf_inventory_get(i, &b->a, &v, &err), err);
	rf_inventory_want(i, many);
	assert_int_equal(rf_inventory_get(i, &b->a, &v, &err), -RF_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "K64: policies refer to more than 64 kinds"));
	rf_inventory_free(i);
}

/* --- certificates: judged ------------------------------------------------------------------------ */

static struct rf_webhook_keys made(struct rf_arena *a, const char *service)
{
	struct rf_webhook_keys k = { 0 };
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_webhook_keys_make(a, service, true, &k, &err), err);
	return k;
}

static void unfit(const struct rf_webhook_keys *k, const char *service, int64_t now_ms, bool ca,
		  const char *why)
{
	struct rf_err err = RF_ERR_INIT;
	bool bad_ca = !ca;

	assert_int_equal(rf_webhook_keys_check(k, service, now_ms, &bad_ca, &err), -RF_INVALID);
	if (strstr(err.msg, why) == NULL)
		fail_msg("wanted \"%s\", got \"%s\"", why, err.msg);
	assert_int_equal(bad_ca, ca);
}

static void keys_are_fit_until_two_thirds_of_their_life(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_webhook_keys k = made(&a, "svc"), other = made(&a, "svc"), mixed = k;
	int64_t now = rf_wall_ms(rf_clock_system());
	struct rf_err err = RF_ERR_INIT;
	bool bad_ca = true;

	assert_ok(rf_webhook_keys_check(&k, "svc", now, &bad_ca, &err), err);
	assert_ok(rf_webhook_keys_check(&k, "svc", now + 240 * DAY_MS, &bad_ca, &err), err);
	assert_false(bad_ca);
	unfit(&k, "svc", now + 244 * DAY_MS, false, "tls.crt: two thirds of its life are over");
	unfit(&k, "svc", now + 2440 * DAY_MS, true, "ca.crt: two thirds of its life are over");
	unfit(&k, "svc", now - DAY_MS, true, "ca.crt: is not valid yet");
	unfit(&k, "other", now, false, "tls.crt: is not for other");
	mixed.key = other.key;
	unfit(&mixed, "svc", now, false, "tls.crt: the key is another's");
	mixed.cert = other.cert;
	unfit(&mixed, "svc", now, false, "tls.crt: is no server's certificate of this CA");
	mixed.ca_key = other.ca_key;
	unfit(&mixed, "svc", now, true, "ca.crt: the key is another's");
	mixed = k;
	mixed.ca_cert = k.cert;
	mixed.ca_key = k.key;
	unfit(&mixed, "svc", now, true, "ca.crt: is not a CA's");
	mixed = k;
	mixed.cert = RF_LIT("rubbish");
	unfit(&mixed, "svc", now, false, "tls.crt is not a certificate in PEM");
	unfit(&(struct rf_webhook_keys){ .ca_cert = RF_STR_EMPTY }, "svc", now, true, "ca.crt");
}

static void every_webhook_of_a_configuration_gets_the_ca(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *c = rf_json_make(
		&a,
		"{'webhooks':[{'name':'a.ringfence.io','clientConfig':{'service':{'name':'x'}}},"
		"{'name':'b.ringfence.io','clientConfig':{'caBundle':'UEVN'}},"
		"{'name':'c.ringfence.io','clientConfig':{'caBundle':'b2xk'}}]}");

	/* "UEVN" is PEM; the second has it already. */
	assert_true(rf_json_equal(
		rf_webhook_ca_patch(&a, c, RF_LIT("PEM")),
		rf_json_make(&a, "{'webhooks':[{'name':'a.ringfence.io','clientConfig':{'caBundle':"
				 "'UEVN'}},{'name':'c.ringfence.io','clientConfig':{'caBundle':"
				 "'UEVN'}}]}")));
	assert_null(rf_webhook_ca_patch(
		&a,
		rf_json_make(&a, "{'webhooks':[{'name':'b','clientConfig':{'caBundle':'UEVN'}}]}"),
		RF_LIT("PEM")));
	assert_null(rf_webhook_ca_patch(&a, rf_json_make(&a, "{}"), RF_LIT("PEM")));
}

/* --- certificates: kept in a Secret ---------------------------------------------------------------- */

#define SECRETS "/api/v1/namespaces/ringfence-system/secrets"
#define SECRET SECRETS "/ringfence-webhook"

static struct world w;

static int start(void **state)
{
	rf_log_init("control", RF_LOG_ERROR);
	world_start(&w);
	return 0;
}

static int stop(void **state)
{
	world_stop(&w);
	return 0;
}

static void forget_secret(void)
{
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(SECRET), 0, true, &err), err);
}

static struct rf_webhook_keys keys_at(int64_t now_ms)
{
	struct rf_webhook_keys k = { 0 };
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_webhook_keys_get(w.admin, &w.a, SERVICE, now_ms, &k, &err), err);
	return k;
}

static struct rf_webhook_keys keys_now(void)
{
	return keys_at(rf_wall_ms(rf_clock_system()));
}

static void secret_holds(const struct rf_webhook_keys *k)
{
	const struct rf_json *s = world_get(&w, SECRET);

	assert_true(
		rf_str_eq(rf_json_str_at(s, "data", "ca.crt"), rf_base64_encode(&w.a, k->ca_cert)));
	assert_true(
		rf_str_eq(rf_json_str_at(s, "data", "ca.key"), rf_base64_encode(&w.a, k->ca_key)));
	assert_true(
		rf_str_eq(rf_json_str_at(s, "data", "tls.crt"), rf_base64_encode(&w.a, k->cert)));
	assert_true(
		rf_str_eq(rf_json_str_at(s, "data", "tls.key"), rf_base64_encode(&w.a, k->key)));
}

static void keys_are_made_once_and_read_ever_after(void **state)
{
	struct rf_webhook_keys first, second;

	forget_secret();
	first = keys_now();
	secret_holds(&first);
	second = keys_now();
	assert_true(rf_str_eq(first.cert, second.cert));
	assert_true(rf_str_eq(first.ca_cert, second.ca_cert));
}

static void a_certificate_is_renewed_under_its_ca(void **state)
{
	static const struct rf_str HOSTS[] = { RF_LIT(SERVICE), RF_LIT(SERVICE ".ringfence-system"),
					       RF_LIT(SERVICE ".ringfence-system.svc"),
					       RF_LIT(SERVICE
						      ".ringfence-system.svc.cluster.local") };
	struct rf_pki_ask day = { .common_name = RF_LIT("x"),
				  .hosts = HOSTS,
				  .n_hosts = RF_COUNT(HOSTS),
				  .server = true,
				  .days = 1 };
	struct rf_webhook_keys first, old, is;
	int64_t now = rf_wall_ms(rf_clock_system());
	struct rf_err err = RF_ERR_INIT;

	forget_secret();
	old = first = keys_at(now);
	assert_ok(rf_pki_issue(&w.a, old.ca_cert, old.ca_key, &day, &old.cert, &old.key, &err),
		  err);
	assert_ok(rf_webhook_keys_put(w.admin, &w.a, world_get(&w, SECRET), &old, &err), err);
	is = keys_at(now);
	assert_true(rf_str_eq(is.cert, old.cert)); /* young */
	is = keys_at(now + DAY_MS * 2 / 3);
	assert_false(rf_str_eq(is.cert, old.cert));
	assert_false(rf_str_eq(is.key, old.key));
	assert_true(rf_str_eq(is.ca_cert, first.ca_cert));
	secret_holds(&is);
}

/* The Service was given another name. */
static void a_certificate_for_other_names_is_replaced(void **state)
{
	struct rf_webhook_keys first, is;
	struct rf_err err = RF_ERR_INIT;

	forget_secret();
	is = first = keys_now();
	assert_ok(rf_webhook_keys_make(&w.a, "elsewhere", false, &is, &err), err);
	assert_ok(rf_webhook_keys_put(w.admin, &w.a, world_get(&w, SECRET), &is, &err), err);
	is = keys_now();
	assert_false(rf_str_eq(first.cert, is.cert));
	assert_true(rf_str_eq(first.ca_cert, is.ca_cert));
	secret_holds(&is);
}

static void a_spoilt_secret_is_mended_and_keeps_what_is_not_ours(void **state)
{
	static const char *const PATCHES[] = {
		"{'data':{'ca.crt':'cnViYmlzaA=='}}",
		"{'data':{'ca.key':null}}",
		"{'data':{'ca.crt':null,'ca.key':null,'tls.crt':null,'tls.key':null}}",
	};
	struct rf_webhook_keys before, after;
	struct rf_err err = RF_ERR_INIT;

	forget_secret();
	before = keys_now();
	assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(SECRET), RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'metadata':{'labels':{'x':'y'}}}"), NULL,
				&err),
		  err);
	for (size_t i = 0; i < RF_COUNT(PATCHES); i++) {
		assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(SECRET), RF_PATCH_MERGE,
					rf_json_make(&w.a, PATCHES[i]), NULL, &err),
			  err);
		after = keys_now();
		assert_false(rf_str_eq(before.ca_cert, after.ca_cert));
		secret_holds(&after);
		assert_true(rf_str_is(rf_kube_label(world_get(&w, SECRET), "x"), "y"));
		before = after;
	}
}

static void who_writes_second_loses_and_takes_what_is_there(void **state)
{
	struct rf_webhook_keys mine = made(&w.a, SERVICE), theirs;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *stale = NULL;

	forget_secret();
	theirs = keys_now();
	assert_int_equal(rf_webhook_keys_put(w.admin, &w.a, NULL, &mine, &err), -RF_EXISTS);
	stale = world_get(&w, SECRET);
	assert_ok(rf_kube_patch(w.admin, &w.a, RF_LIT(SECRET), RF_PATCH_MERGE,
				rf_json_make(&w.a, "{'metadata':{'labels':{'x':'z'}}}"), NULL,
				&err),
		  err);
	assert_int_equal(rf_webhook_keys_put(w.admin, &w.a, stale, &mine, &err), -RF_CONFLICT);
	mine = keys_now();
	assert_true(rf_str_eq(mine.cert, theirs.cert));
}

/* One replica of many: its exit status says whether it ended with what the Secret holds. */
static _Noreturn void replica(int gate, int out)
{
	struct rf_webhook_keys k = { 0 };
	struct rf_err err = RF_ERR_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_kube *kube = NULL;
	char c;

	if (rf_kube_new(&w.admin_config, &kube, &err) < 0 || read(gate, &c, 1) != 0 ||
	    rf_webhook_keys_get(kube, &a, SERVICE, rf_wall_ms(rf_clock_system()), &k, &err) < 0) {
		fprintf(stderr, "# %s\n", err.msg);
		_exit(1);
	}
	_exit(write(out, k.cert.p, k.cert.n) == (ssize_t)k.cert.n ? 0 : 1);
}

static void replicas_that_race_end_with_the_same_keys(void **state)
{
	enum { REPLICAS = 4 };
	int gate[2], outs[REPLICAS][2];
	pid_t pids[REPLICAS];
	struct rf_str cert;

	forget_secret();
	assert_int_equal(pipe(gate), 0);
	fflush(stdout);
	for (int i = 0; i < REPLICAS; i++) {
		assert_int_equal(pipe(outs[i]), 0);
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			close(gate[1]);
			replica(gate[0], outs[i][1]);
		}
		close(outs[i][1]);
	}
	close(gate[0]);
	close(gate[1]); /* all at once */
	for (int i = 0; i < REPLICAS; i++) {
		int status = 0;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	assert_int_equal(rf_base64_decode(&w.a,
					  rf_json_str_at(world_get(&w, SECRET), "data", "tls.crt"),
					  &cert, NULL),
			 0);
	for (int i = 0; i < REPLICAS; i++) {
		char text[4096];
		ssize_t n = read(outs[i][0], text, sizeof(text));

		assert_true(n > 0 && rf_str_eq(rf_str_n(text, (size_t)n), cert));
		close(outs[i][0]);
	}
}

/* --- the server, on a loop of the test's ----------------------------------------------------------- */

struct caller {
	bool over;
	int status;
	struct rf_buf body;
};

static void on_done(void *ctx, const struct rf_err *err, const struct rf_http_response *response)
{
	struct caller *c = ctx;

	c->over = true;
	c->status = response != NULL ? response->status : -err->code;
	rf_buf_clear(&c->body);
	if (response != NULL)
		rf_buf_add(&c->body, response->body);
}

/* A call of one connection, as the API server makes them; believes in that CA. */
static int call(struct rf_control *c, struct rf_str ca, const char *method, const char *path,
		struct rf_str body, struct rf_buf *ret)
{
	struct caller me = { .body = RF_BUF_INIT };
	struct rf_http_client_opts co = { .host = RF_LIT(SERVICE),
					  .port = rf_webhook_port(c->webhook) };
	struct rf_http_call_opts o = { .method = rf_str(method),
				       .target = rf_str(path),
				       .content_type = RF_LIT("application/json"),
				       .body = body,
				       .on_done = on_done,
				       .ctx = &me };
	struct rf_http_client *client = NULL;
	struct rf_tls *tls = NULL;

	assert_int_equal(rf_tls_client(ca, RF_STR_EMPTY, RF_STR_EMPTY, &tls, NULL), 0);
	co.tls = tls;
	client = rf_http_client_new(&c->loop, &co);
	rf_http_call(client, &o);
	while (!me.over)
		uv_run(&c->loop, UV_RUN_ONCE);
	rf_http_client_free(client);
	for (int i = 0; i < 5; i++)
		uv_run(&c->loop, UV_RUN_NOWAIT);
	rf_tls_free(tls);
	if (ret != NULL) {
		rf_buf_clear(ret);
		rf_buf_add(ret, rf_buf_str(&me.body));
	}
	rf_buf_done(&me.body);
	return me.status;
}

static const struct rf_control_opts server_opts = { .webhook_address = "127.0.0.1",
						    .webhook_service = SERVICE };

/* Without informers: it knows nothing yet. */
static struct rf_control *serving(void)
{
	struct rf_control *c = rf_new(struct rf_control);
	struct rf_err err = RF_ERR_INIT;
	bool again = true;

	c->opts = &server_opts;
	c->kube = w.admin;
	assert_int_equal(uv_loop_init(&c->loop), 0);
	assert_ok(rf_control_webhook(c, &again, &err), err);
	return c;
}

static void stop_serving(struct rf_control *c)
{
	rf_webhook_stop(c->webhook);
	uv_run(&c->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&c->loop), 0);
	free(c);
}

static void the_server_answers_reviews_and_probes(void **state)
{
	struct rf_control *c = serving();
	struct rf_str ca = keys_now().ca_cert;
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_json *v = review_of(&a, "CREATE", pod(&a, "blue-a", "p", CARDS("1"), ""));
	struct rf_str text = rf_json_text_of(&a, v);
	struct rf_json *o = NULL;
	char *huge = NULL;

	assert_int_equal(call(c, ca, "GET", "/healthz", RF_STR_EMPTY, &out), 200);
	assert_string_equal(out.p, "ok");
	assert_int_equal(call(c, ca, "GET", "/readyz", RF_STR_EMPTY, &out), 503);
	assert_int_equal(call(c, ca, "GET", "/validate", RF_STR_EMPTY, &out), 404);
	assert_int_equal(call(c, ca, "POST", "/elsewhere", text, &out), 404);
	assert_int_equal(call(c, ca, "POST", "/validate?timeout=10s", RF_LIT("{"), &out), 400);
	assert_non_null(strstr(out.p, "the body"));
	assert_int_equal(call(c, ca, "POST", "/mutate?timeout=10s", text, &out), 200);
	assert_non_null(strstr(out.p, "\"patchType\":\"JSONPatch\""));
	assert_int_equal(call(c, ca, "POST", "/validate?timeout=10s", text, &out), 200);
	assert_int_equal(rf_json_parse(&a, rf_buf_str(&out), &o, NULL), 0);
	assert_false(rf_json_is_true(rf_json_at(o, "response", "allowed")));
	assert_int_equal(rf_json_int(rf_json_at(o, "response", "status", "code"), 0), 503);
	huge = rf_alloc(((size_t)20 << 20) + 1);
	memset(huge, ' ', ((size_t)20 << 20) + 1);
	assert_int_equal(
		call(c, ca, "POST", "/validate", rf_str_n(huge, ((size_t)20 << 20) + 1), &out), 413);
	free(huge);
	stop_serving(c);
}

static void a_new_certificate_is_served_on_the_same_port(void **state)
{
	struct rf_control *c = serving();
	struct rf_str old = keys_now().ca_cert, new;
	uint16_t port = rf_webhook_port(c->webhook);
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_webhook_tend(c->webhook, true, &err), err); /* nothing changed */
	assert_int_equal(call(c, old, "GET", "/healthz", RF_STR_EMPTY, NULL), 200);
	forget_secret();
	assert_ok(rf_webhook_tend(c->webhook, false, &err), err); /* not due */
	assert_int_equal(call(c, old, "GET", "/healthz", RF_STR_EMPTY, NULL), 200);
	assert_ok(rf_webhook_tend(c->webhook, true, &err), err);
	new = keys_now().ca_cert;
	assert_false(rf_str_eq(old, new));
	assert_int_equal(rf_webhook_port(c->webhook), port);
	assert_int_equal(call(c, new, "GET", "/healthz", RF_STR_EMPTY, NULL), 200);
	assert_true(call(c, old, "GET", "/healthz", RF_STR_EMPTY, NULL) < 0);
	stop_serving(c);
}

/* --- the process ------------------------------------------------------------------------------------ */

static pid_t control;
static struct rf_kube *hook; /* a client of the webhook's */

static _Noreturn void run_control(int out)
{
	struct rf_control_opts o = server_opts;
	struct rf_err err = RF_ERR_INIT;

	o.kubeconfig_path = rf_arena_printf(&w.a, "%s/kubeconfig/admin", w.dir).p;
	dup2(out, STDOUT_FILENO);
	rf_log_init("control", RF_LOG_ERROR);
	if (rf_control_run(&o, &err) < 0)
		fprintf(stderr, "# %s\n", err.msg);
	_exit(err.code == RF_OK ? 0 : 1);
}

/* Starts control and returns a client for what it printed. */
static void start_control(void)
{
	static const char BEGIN[] = "webhook https://127.0.0.1:";
	struct rf_kubeconfig config = { .host = RF_LIT(SERVICE) };
	struct rf_err err = RF_ERR_INIT;
	char line[128] = "";
	int64_t port = 0;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	fflush(stdout);
	control = fork();
	assert_true(control >= 0);
	if (control == 0)
		run_control(fds[1]);
	close(fds[1]);
	assert_true(read(fds[0], line, sizeof(line) - 1) > 0); /* blocks until it serves, or ends */
	close(fds[0]);
	assert_memory_equal(line, BEGIN, sizeof(BEGIN) - 1);
	line[strcspn(line, "\n")] = '\0';
	assert_int_equal(rf_str_int(rf_str(line + sizeof(BEGIN) - 1), &port, NULL), 0);
	config.port = (uint16_t)port;
	config.ca_pem = keys_now().ca_cert;
	assert_ok(rf_kube_new(&config, &hook, &err), err);
}

static bool is_ready(void)
{
	struct rf_str text;

	return rf_kube_raw(hook, &w.a, RF_LIT("/readyz"), &text, NULL) == 0;
}

static const struct rf_json *asked(const char *name, const char *container)
{
	struct rf_json *v = review_of(&w.a, "CREATE", pod(&w.a, "blue-a", name, container, "")),
		       *o = NULL;
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_kube_create(hook, &w.a, RF_LIT("/validate?timeout=10s"), v, &o, &err), err);
	return rf_json_at(o, "response");
}

static void without_the_api_server(const char *db)
{
	assert_true(rf_json_is_true(rf_json_at(asked("p", CARDS("2")), "allowed")));
}

static void wait_for(const char *name, const char *verdict)
{
	rf_auto(buf) got = RF_BUF_INIT;

	for (int waited = 0; waited < PATIENCE_MS; waited += 10) {
		const struct rf_json *r = asked(name, "'resources':{}");

		rf_buf_clear(&got);
		rf_buf_puts(&got, rf_json_is_true(rf_json_at(r, "allowed")) ? "yes" : "");
		rf_buf_add(&got, rf_json_str_at(r, "status", "message"));
		if (strcmp(got.p, verdict) == 0)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	fail_msg("%s: \"%s\", and not \"%s\"", name, got.p, verdict);
}

#define TEMPLATES "/apis/templates.gatekeeper.sh/v1/constrainttemplates"
#define CONSTRAINTS "/apis/constraints.gatekeeper.sh/v1beta1/echo"

/* A template that names what it wants to look at sees it, as it is now. */
static void policies_look_around(void)
{
	struct rf_json *t = NULL, *docs = NULL;
	struct rf_err err = RF_ERR_INIT;

	assert_ok(rf_yaml_parse(&w.a,
				RF_LIT("apiVersion: templates.gatekeeper.sh/v1\n"
				       "kind: ConstraintTemplate\n"
				       "metadata: {name: looks}\n"
				       "spec:\n"
				       "  crd: {spec: {names: {kind: Looks}}}\n"
				       "  targets:\n"
				       "  - target: admission.k8s.gatekeeper.sh\n"
				       "    rego: |\n"
				       "      package looks\n"
				       "      violation[{\"msg\": msg}] {\n"
				       "        data.inventory.namespace[\"blue-a\"].v1.ServiceAccount.seen\n"
				       "        msg := \"seen\"\n"
				       "      }\n"),
				&docs, &err),
		  err);
	t = rf_json_item(docs, 0);
	rf_json_set(&w.a, rf_json_at(t, "metadata"), RF_LIT("annotations"),
		    rf_json_make(&w.a, "{'metadata.gatekeeper.sh/requires-sync-data':%s}",
				 "\"[[{\"groups\":[\"\"],\"versions\":[\"v1\"],\"kinds\":[\"ServiceAccount\",\"NoSuchKind\"]}]]\"\n"));
	world_create(&w, TEMPLATES, t);
	world_create(&w, "/apis/constraints.gatekeeper.sh/v1beta1/looks",
		     rf_json_make(&w.a, "{'metadata':{'name':'around'},'spec':{'match':{'name':'looked-at'}}}"));
	world_create(&w, "/api/v1/namespaces/blue-a/serviceaccounts",
		     rf_json_make(&w.a, "{'metadata':{'name':'seen'}}"));
	wait_for("looked-at", "[around] seen");
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT("/api/v1/namespaces/blue-a/serviceaccounts/seen"), 0,
				 false, &err),
		  err);
	wait_for("looked-at", "yes");
}

/* ConfigMaps with Rego, and templates with their constraints, as the API server has them. */
static void policies_come_and_go(void)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;

	world_create(&w, "/api/v1/namespaces/ringfence-system/configmaps",
		     rf_json_make(&w.a, "{'metadata':{'name':'p','labels':{'openpolicyagent.org/policy':'rego'"
					"}},'data':{'p.rego':%s}}",
				  "package kubernetes.admission\n"
				  "deny contains \"no\" if input.request.object.metadata.name == \"bad\"\n"));
	wait_for("bad", "[kubernetes.admission] no");
	assert_ok(rf_yaml_parse(&w.a,
				RF_LIT(ECHO_TEMPLATE CONSTRAINT("named", "match: {name: worse}, parameters: "
									  "{say: 'no'}")),
				&docs, &err),
		  err);
	rf_json_set(&w.a, rf_json_item(docs, 0), RF_LIT("metadata"), rf_json_make(&w.a, "{'name':'echo'}"));
	rf_json_set(&w.a, rf_json_item(docs, 1), RF_LIT("metadata"), rf_json_make(&w.a, "{'name':'named'}"));
	world_create(&w, TEMPLATES, rf_json_item(docs, 0));
	world_create(&w, CONSTRAINTS, rf_json_item(docs, 1));
	wait_for("worse", "[named] no");
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT(CONSTRAINTS "/named"), 0, false, &err), err);
	wait_for("worse", "yes");
	assert_ok(rf_kube_delete(w.admin, &w.a, RF_LIT("/api/v1/namespaces/ringfence-system/configmaps/p"), 0,
				 false, &err),
		  err);
	wait_for("bad", "yes");
}

static void control_serves_from_its_informers_also_without_the_api_server(void **state)
{
	const struct rf_json *r;
	int status = 0;

	world_create(&w, "/apis/ringfence.io/v1alpha1/tenants",
		     rf_json_make(&w.a,
				  "{'metadata':{'name':'blue'},'spec':{'namespaces':['blue-a'],"
				  "'quota':{'gpus':2}}}"));
	world_namespace(&w, "blue-a", "{'ringfence.io/tenant':'blue'}");
	start_control();
	for (int waited = 0; !is_ready(); waited += 10) {
		assert_true(waited < PATIENCE_MS);
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	r = asked("p", CARDS("3"));
	assert_false(rf_json_is_true(rf_json_at(r, "allowed")));
	assert_string_equal(rf_arena_cstr(&w.a, rf_json_str_at(r, "status", "message")),
			    "pods \"p\" " FULL("3", "0"));
	policies_come_and_go();
	policies_look_around();
	world_restart(&w, SIGKILL, without_the_api_server);
	rf_kube_free(hook);
	kill(control, SIGTERM);
	assert_int_equal(waitpid(control, &status, 0), control);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- pods written for other schedulers --------------------------------------------------------------- */

static int set_up_foreign(void **state)
{
	struct rf_foreign f = { 0 };

	assert_int_equal(rf_foreign_parse(RF_LIT("kai,hami,kueue"), RF_LIT("80Gi"), &f, NULL), 0);
	rf_foreign_set(&f);
	set_up(state);
	add(*state, "{'kind':'Queue','metadata':{'name':'blue-night'},'spec':{'tenant':'blue'}}");
	add(*state, "{'kind':'Queue','metadata':{'name':'green'},'spec':{'tenant':'green'}}");
	/* A namespace of the tenant is no queue of its. */
	add(*state, "{'kind':'Namespace','metadata':{'name':'blue-c','labels':{'ringfence.io/tenant':'blue'}}}");
	return 0;
}

static int tear_down_foreign(void **state)
{
	rf_foreign_set(&(struct rf_foreign){ 0 });
	return tear_down(state);
}

/* What the mutating webhook makes of a pod with this metadata; NULL: it was refused, and *ret_said why. */
static struct rf_json *mutated(struct bench *b, const char *ns, const char *metadata, const char *container,
			       const char *spec, struct rf_str *ret_said)
{
	struct rf_json *p = pod(&b->a, ns, "p", container, spec), *ops = NULL;
	const struct rf_json *r = NULL, *more = rf_json_make(&b->a, metadata);
	struct rf_str text = RF_STR_EMPTY;

	for (size_t i = 0; i < rf_json_len(more); i++)
		rf_json_set(&b->a, rf_json_at(p, "metadata"), more->members[i].key, more->members[i].value);
	r = answer(b, RF_REVIEW_MUTATE, review_of(&b->a, "CREATE", p));
	*ret_said = rf_json_str_at(r, "status", "message");
	if (!rf_json_is_true(rf_json_at(r, "allowed"))) {
		assert_null(rf_json_at(r, "patch"));
		return NULL;
	}
	if (rf_json_at(r, "patch") == NULL)
		return p;
	assert_int_equal(rf_base64_decode(&b->a, rf_json_str_at(r, "patch"), &text, NULL), 0);
	assert_int_equal(rf_json_parse(&b->a, text, &ops, NULL), 0);
	assert_int_equal(rf_patch_json(&b->a, &p, ops, NULL), 0);
	return p;
}

static void a_kai_pod_comes_in_as_ours_and_is_counted(void **state)
{
	struct bench *b = *state;
	struct rf_str said = RF_STR_EMPTY;
	struct rf_json *p = mutated(b, "blue-a",
				    "{'annotations':{'gpu-fraction':'0.125'},'labels':{'kai.scheduler/queue':"
				    "'blue-night'}}",
				    NO_CARD, "'schedulerName':'kai-scheduler',", &said);
	struct rf_gpu_ask ask = { 0 };

	assert_non_null(p);
	assert_int_equal(rf_gpu_ask_of_pod(p, &ask, NULL), 0);
	assert_int_equal(ask.share_bytes, INT64_C(10) << 30);
	assert_int_equal(ask.share_milli, 120);
	assert_true(rf_str_is(rf_json_str_at(p, "spec", "schedulerName"), "ringfence"));
	assert_true(rf_str_is(rf_json_str_at(p, "metadata", "labels", "ringfence.io/queue"), "blue-night"));
	allowed(b, review_of(&b->a, "CREATE", p));
	/* 20Gi of shares is all that blue has. */
	for (int i = 0; i < 2; i++) {
		struct rf_json *q = rf_json_clone(&b->a, p);

		rf_json_set_str(&b->a, rf_json_at(q, "metadata"), "name", i == 0 ? RF_LIT("q") : RF_LIT("r"));
		assert_true(rf_json_is_true(rf_json_at(
				    answer(b, RF_REVIEW_VALIDATE, review_of(&b->a, "CREATE", q)), "allowed")) == (i == 0));
	}
	/* What the owner writes into annotations later changes nothing about what it is. */
	p = rf_json_clone(&b->a, p);
	rf_json_set_str(&b->a, rf_json_at(p, "metadata", "annotations"), "gpu-fraction", RF_LIT("0.001"));
	rf_json_set_str(&b->a, rf_json_at(p, "metadata", "annotations"), "received-resource-type", RF_LIT("Regular"));
	assert_int_equal(rf_gpu_ask_of_pod(p, &ask, NULL), 0);
	assert_int_equal(ask.share_bytes, INT64_C(10) << 30);
}

static void a_hami_pod_comes_in_by_the_scheduler_it_names(void **state)
{
	struct bench *b = *state;
	struct rf_str said = RF_STR_EMPTY;
	struct rf_json *p = mutated(b, "blue-a", "{'annotations':{'hami.io/vgpu-devices-to-allocate':'GPU-0,NVIDIA,1,1:;'}}",
				    "'resources':{'limits':{'nvidia.com/gpu':'1','nvidia.com/gpumem':'3000'},'requests':{"
				    "'nvidia.com/gpu':'1','nvidia.com/gpumem':'3000'}}",
				    "'schedulerName':'default-scheduler',", &said);

	assert_non_null(p);
	assert_true(rf_str_is(rf_json_text_of(&b->a, rf_json_at(rf_json_item(rf_json_at(p, "spec", "containers"), 0),
								"resources")),
			      "{\"limits\":{\"ringfence.io/gpu-memory\":\"3000Mi\"},\"requests\":{\"ringfence.io/gpu-memory\":"
			      "\"3000Mi\"}}"));
	assert_true(rf_str_is(rf_json_str_at(p, "spec", "schedulerName"), "ringfence"));
	allowed(b, review_of(&b->a, "CREATE", p));
	/* volcano was not switched on. */
	p = mutated(b, "blue-a", "{}", CARDS("1"), "'schedulerName':'volcano',", &said);
	assert_true(rf_str_is(rf_json_str_at(p, "spec", "schedulerName"), "volcano"));
}

static void another_tenants_queue_is_refused_at_the_door(void **state)
{
	static const char *const queues[] = { "green", "blue-c", "nosuch" };
	struct bench *b = *state;

	for (size_t i = 0; i < RF_COUNT(queues); i++) {
		struct rf_str said = RF_STR_EMPTY;
		struct rf_json *m = rf_json_make(&b->a, "{'labels':{'kueue.x-k8s.io/queue-name':%s}}", queues[i]);

		assert_null(mutated(b, "blue-a", rf_arena_cstr(&b->a, rf_json_text_of(&b->a, m)), CARDS("1"), "", &said));
		assert_string_equal(rf_arena_cstr(&b->a, said),
				    rf_arena_printf(&b->a,
						    "pods \"p\" is forbidden: kueue.x-k8s.io/queue-name: tenant blue has no "
						    "queue \"%s\"; name one of its queues, or leave it out to use \"blue\"",
						    queues[i])
					    .p);
	}
}

static void until_all_is_known_nothing_is_translated(void **state)
{
	struct bench *b = *state;
	struct rf_str said = RF_STR_EMPTY;

	b->r.synced = false;
	assert_null(mutated(b, "blue-a", "{'labels':{'kai.scheduler/queue':'green'}}", NO_CARD, "", &said));
	assert_string_equal(rf_arena_cstr(&b->a, said),
			    "pods \"p\" is forbidden: ringfence does not know namespace \"blue-a\" and its tenant yet; try "
			    "again in a moment");
	assert_null(mutated(b, "blue-a", "{'annotations':{'gpu-memory':'10'}}", NO_CARD, "", &said));
	assert_non_null(mutated(b, "blue-a", "{}", NO_CARD, "", &said)); /* nobody's business */
	b->r.synced = true;
	assert_null(mutated(b, "new", "{'annotations':{'gpu-memory':'10'}}", NO_CARD, "", &said));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define BOOK(f) cmocka_unit_test_setup_teardown(f, set_up_book, tear_down)
#define FOREIGN(f) cmocka_unit_test_setup_teardown(f, set_up_foreign, tear_down_foreign)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_pod_of_a_tenant_within_its_quota_comes_in),
		TEST(a_refusal_says_which_pod_why_and_what_to_do),
		TEST(nobody_waits_in_a_queue_of_somebody_else),
		TEST(no_gang_waits_in_a_queue_of_somebody_else),
		TEST(a_node_is_named_by_administrators_only),
		TEST(pods_without_cards_are_nobodys_business),
		TEST(until_all_is_known_cards_are_refused),
		TEST(quota_is_counted_over_all_namespaces_of_the_tenant),
		TEST(a_quota_on_limits_of_cards_means_what_it_says),
		TEST(what_was_just_admitted_counts_before_the_informer_shows_it),
		TEST(an_older_pod_of_the_name_is_not_the_new_one),
		TEST(pods_that_get_their_name_later_count_too),
		TEST(a_dry_run_takes_nothing),
		TEST(the_table_of_recent_pods_is_bounded),
		TEST(a_debug_container_beside_a_card_stays_fenced),
		TEST(what_asks_for_nothing_is_let_through),
		TEST(another_kind_is_let_through_with_a_warning),
		TEST(pods_with_cards_get_our_scheduler_and_nothing_else),
		TEST(what_is_no_review_is_an_error_with_a_reason),
		TEST(a_review_that_is_malformed_is_refused),
		TEST(a_pod_that_cannot_be_read_is_refused),
		TEST(depth_and_size_are_capped),
		TEST(what_is_read_for_policies_is_the_same_json),
		BOOK(policies_judge_whatever_comes),
		BOOK(a_refusal_by_policies_has_kubernetes_reason),
		BOOK(a_pod_that_policies_refuse_is_not_counted),
		BOOK(policies_see_the_namespace),
		BOOK(some_namespaces_and_ringfence_itself_are_left_alone),
		BOOK(until_policies_are_read_cards_are_refused_and_the_rest_is_the_operators_choice),
		BOOK(what_cannot_be_judged_is_treated_alike),
		BOOK(a_policy_that_cannot_be_used_any_more_is_treated_alike),
		BOOK(a_wish_that_cannot_be_met_is_no_empty_inventory),
		BOOK(a_policy_that_cannot_be_compiled_is_refused_where_it_is_written),
		TEST(a_template_becomes_a_kind),
		TEST(a_status_says_where_the_error_is),
		FOREIGN(a_kai_pod_comes_in_as_ours_and_is_counted),
		FOREIGN(a_hami_pod_comes_in_by_the_scheduler_it_names),
		FOREIGN(another_tenants_queue_is_refused_at_the_door),
		FOREIGN(until_all_is_known_nothing_is_translated),
		cmocka_unit_test(keys_are_fit_until_two_thirds_of_their_life),
		cmocka_unit_test(every_webhook_of_a_configuration_gets_the_ca),
		cmocka_unit_test(keys_are_made_once_and_read_ever_after),
		cmocka_unit_test(a_certificate_is_renewed_under_its_ca),
		cmocka_unit_test(a_certificate_for_other_names_is_replaced),
		cmocka_unit_test(a_spoilt_secret_is_mended_and_keeps_what_is_not_ours),
		cmocka_unit_test(who_writes_second_loses_and_takes_what_is_there),
		cmocka_unit_test(replicas_that_race_end_with_the_same_keys),
		cmocka_unit_test(the_server_answers_reviews_and_probes),
		cmocka_unit_test(a_new_certificate_is_served_on_the_same_port),
		cmocka_unit_test(control_serves_from_its_informers_also_without_the_api_server),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
