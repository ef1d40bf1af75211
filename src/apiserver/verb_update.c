/* update and patch: both make an object out of the old one and what was sent. */
#include "apiserver/admission.h"
#include "apiserver/api.h"
#include "apiserver/decode.h"
#include "apiserver/defaults.h"
#include "apiserver/meta.h"
#include "apiserver/validate.h"
#include "apiserver/write.h"
#include "kube/kube.h"

#define PATCH_LIST_MAX 512

/* The server wrote these; who sends the pod back as its author wrote it means no change. */
static void keep_priority(struct rf_arena *a, const struct rf_json *old, struct rf_json *pod)
{
	static const char *const KEPT[] = { "priority", "preemptionPolicy" };
	const struct rf_json *was = rf_json_at(old, "spec");
	struct rf_json *is = rf_json_ensure(a, pod, "spec");

	for (size_t i = 0; i < RF_COUNT(KEPT); i++)
		if (rf_json_at(is, KEPT[i]) == NULL && rf_json_at(was, KEPT[i]) != NULL)
			rf_json_set(a, is, rf_str(KEPT[i]), rf_json_at(was, KEPT[i]));
}

/* PUT of the object leaves status alone; PUT of status leaves everything else alone. */
static struct rf_json *combine(struct rf_req *r, const struct rf_json *old, struct rf_json *sent)
{
	const struct rf_kind *k = r->route.kind;
	struct rf_json *o = NULL;

	if (rf_str_is(r->route.sub, "status")) {
		o = rf_json_clone(r->a, old);
		rf_json_set(r->a, o, RF_LIT("status"), rf_json_at(sent, "status"));
		return o;
	}
	if (rf_kind_has_sub(k, RF_LIT("status")))
		rf_json_set(r->a, sent, RF_LIT("status"), rf_json_at(old, "status"));
	/* A namespace's own finalizers are the server's. */
	if (rf_kind_is(k, "namespaces"))
		rf_json_set(r->a, sent, RF_LIT("spec"), rf_json_at(old, "spec"));
	if (rf_kind_is(k, "pods"))
		keep_priority(r->a, old, sent);
	return sent;
}

static int prepare(struct rf_req *r, const struct rf_json *old, struct rf_json *sent,
		   struct rf_json **ret, struct rf_err *err)
{
	const struct rf_kind *k = r->route.kind;
	struct rf_json *o = NULL;

	if (rf_meta_update(r, k, old, sent, err) < 0)
		return -err->code;
	o = combine(r, old, sent);
	rf_default(r->a, k, o);
	rf_meta_generation(r->a, old, o);
	if (rf_meta_validate(o, err) < 0)
		return rf_wrap(err, "%s \"%.*s\" is invalid", k->kind, RF_STR(r->route.name));
	*ret = o;
	return rf_validate(r->a, k, old, o, err);
}

static int write_over(struct rf_req *r, const struct rf_json *old, struct rf_json *o,
		      struct rf_err *err)
{
	const struct rf_kind *k = r->route.kind;

	if (rf_admit_update(r, k, old, o, err) < 0)
		return -err->code;
	if (rf_json_equal(old, o)) /* nothing to do, and nothing to tell */
		return 0;
	if (rf_deletion_complete(k, o))
		return rf_write_remove(r->api, r->a, k, old, err);
	return r->route.sub.n > 0 ? rf_write_put(r->api, r->a, k, old, o, err) :
				     rf_write_sent(r->api, r->a, k, old, o, err);
}

/* What to send, given the old object; called inside the transaction. */
typedef int (*maker)(struct rf_req *r, const struct rf_json *old, struct rf_json **ret,
		     struct rf_err *err);

static int change(struct rf_req *r, maker make, struct rf_json **ret, struct rf_err *err)
{
	const struct rf_route *t = &r->route;
	struct rf_json *old = NULL, *sent = NULL, *o = NULL;

	if (rf_store_get(r->api->store, r->a, t->kind, t->ns, t->name, &old, err) < 0 ||
	    make(r, old, &sent, err) < 0 || prepare(r, old, sent, &o, err) < 0 ||
	    write_over(r, old, o, err) < 0)
		return -err->code;
	*ret = o;
	return 0;
}

static int run(struct rf_req *r, maker make, struct rf_err *err)
{
	struct rf_json *o = NULL;

	if (rf_write_begin(r->api, err) < 0)
		return -err->code;
	if (change(r, make, &o, err) < 0) {
		rf_write_rollback(r->api);
		return -err->code;
	}
	if (rf_write_commit(r->api, r->dry_run, err) < 0)
		return -err->code;
	rf_reply_object(r, 200, o);
	return 0;
}

/* --- update --------------------------------------------------------------------------------- */

static int make_sent(struct rf_req *r, const struct rf_json *old, struct rf_json **ret,
		     struct rf_err *err)
{
	return rf_read_object(r, ret, err);
}

int rf_verb_update(struct rf_req *r, struct rf_err *err)
{
	return run(r, make_sent, err);
}

/* --- patch ---------------------------------------------------------------------------------- */

/* A strategic patch looks up every item of its lists among those before it. */
static int check_lists(const struct rf_json *patch, struct rf_err *err)
{
	bool list = rf_json_is(patch, RF_JSON_ARRAY);

	if (list && patch->n > PATCH_LIST_MAX)
		return rf_fail(err, RF_TOO_LARGE,
			       "the patch has a list of %u items; at most %d are taken", patch->n,
			       PATCH_LIST_MAX);
	for (size_t i = 0; i < rf_json_len(patch); i++)
		if (check_lists(list ? patch->items[i] : patch->members[i].value, err) < 0)
			return -err->code;
	return 0;
}

static int apply(struct rf_req *r, struct rf_str type, struct rf_json *patch,
		 struct rf_json **target, struct rf_err *err)
{
	const struct rf_kind *k = r->route.kind;

	if (rf_str_is(type, "application/merge-patch+json"))
		return rf_patch_merge(r->a, target, patch, err);
	if (rf_str_is(type, "application/json-patch+json"))
		return rf_patch_json(r->a, target, patch, err);
	if (rf_str_is(type, "application/strategic-merge-patch+json") && k->schema != NULL)
		return check_lists(patch, err) < 0
			       ? -err->code
			       : rf_patch_strategic(r->a, rf_str(k->kind), target, patch, err);
	if (rf_str_is(type, "application/apply-patch+yaml"))
		return rf_fail(err, RF_UNSUPPORTED,
			       "server-side apply is not served; use kubectl apply without "
			       "--server-side");
	return rf_fail(err, RF_UNSUPPORTED,
		       "the body of the request was in an unknown format - accepted media types "
		       "include: application/json-patch+json, application/merge-patch+json%s",
		       k->schema != NULL ? ", application/strategic-merge-patch+json" : "");
}

static int make_patched(struct rf_req *r, const struct rf_json *old, struct rf_json **ret,
			struct rf_err *err)
{
	struct rf_str type = rf_media_type(rf_http_get_header(r->http, "content-type"));
	struct rf_json *patch, *o = rf_json_clone(r->a, old);

	if (rf_decode_body(r->a, RF_STR_EMPTY, r->http->body, &patch, err) < 0)
		return rf_wrap(err, "read the patch");
	if (apply(r, type, patch, &o, err) < 0)
		return -err->code;
	*ret = o;
	return rf_check_object(r, r->route.kind, o, err);
}

int rf_verb_patch(struct rf_req *r, struct rf_err *err)
{
	return run(r, make_patched, err);
}
