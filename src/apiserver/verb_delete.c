/* delete, deletecollection and eviction. */
#include "apiserver/admission.h"
#include "apiserver/api.h"
#include "apiserver/budget.h"
#include "apiserver/decode.h"
#include "apiserver/policies.h"
#include "apiserver/write.h"

/* What a collection's deletion may take: nothing else is answered meanwhile. */
#define COLLECTION_MS 5000

struct options {
	struct rf_deletion how;
	struct rf_str uid, rv; /* preconditions; empty: none */
	const struct rf_json *eviction; /* NULL: a plain deletion */
};

static int read_grace(struct rf_req *r, const struct rf_json *o, int64_t *ret, struct rf_err *err)
{
	struct rf_str query = rf_query(r, "gracePeriodSeconds");
	const struct rf_json *v = rf_json_at(o, "gracePeriodSeconds");

	*ret = -1;
	if (v != NULL && !rf_json_is_int(v, ret))
		return rf_fail(err, RF_BAD_REQUEST, "gracePeriodSeconds must be a number");
	if (v == NULL && query.n > 0 && rf_str_int(query, ret, err) < 0)
		return rf_wrap(err, "gracePeriodSeconds");
	if (*ret < -1 || (*ret == -1 && (v != NULL || query.n > 0)))
		return rf_fail(err, RF_INVALID, "gracePeriodSeconds: must not be negative");
	return 0;
}

/* Only administrators, and the node that runs the pod, know that a pod is gone at once. */
static bool may_force(const struct rf_req *r)
{
	return rf_user_is_platform(&r->user) || rf_user_node(&r->user).n > 0;
}

static int fill(struct rf_req *r, const struct rf_json *o, struct options *ret, struct rf_err *err)
{
	const struct rf_json *dry = rf_json_at(o, "dryRun");

	ret->how.may_force = may_force(r);
	ret->uid = rf_json_str_at(o, "preconditions", "uid");
	ret->rv = rf_json_str_at(o, "preconditions", "resourceVersion");
	for (size_t i = 0; i < rf_json_len(dry); i++) {
		if (!rf_str_is(rf_json_str(rf_json_item(dry, i)), "All"))
			return rf_fail(err, RF_INVALID, "dryRun[%zu]: Unsupported value: supported values: \"All\"", i);
		r->dry_run = true;
	}
	return read_grace(r, o, &ret->how.grace_s, err);
}

static int read_options(struct rf_req *r, struct options *ret, struct rf_err *err)
{
	struct rf_json *o = NULL;

	if (r->http->body.n > 0 && rf_decode_body(r->a, rf_http_get_header(r->http, "content-type"),
						  r->http->body, &o, err) < 0)
		return rf_wrap(err, "read the delete options");
	return fill(r, o, ret, err);
}

static int check_preconditions(struct rf_req *r, const struct options *opt, const struct rf_json *o,
			       struct rf_err *err)
{
	const struct rf_json *meta = rf_json_at(o, "metadata");
	bool uid = opt->uid.n == 0 || rf_str_eq(opt->uid, rf_json_str_at(meta, "uid"));
	bool rv = opt->rv.n == 0 || rf_str_eq(opt->rv, rf_json_str_at(meta, "resourceVersion"));

	if (uid && rv)
		return 0;
	return rf_fail(err, RF_CONFLICT,
		       "Operation cannot be fulfilled on %.*s \"%.*s\": Precondition failed: %s in "
		       "precondition: %.*s, in object: %.*s",
		       RF_STR(rf_kind_resource(r->a, r->route.kind)), RF_STR(r->route.name),
		       uid ? "resourceVersion" : "UID", RF_STR(uid ? opt->rv : opt->uid),
		       RF_STR(rf_json_str_at(meta, uid ? "resourceVersion" : "uid")));
}

static int judge(struct rf_req *r, const struct options *opt, const struct rf_json *old,
		 struct rf_err *err)
{
	if (opt->eviction != NULL)
		return rf_policies_judge(r, "CREATE", NULL, opt->eviction, err);
	return rf_policies_judge(r, "DELETE", old, NULL, err);
}

static int delete_one(struct rf_req *r, const struct options *opt, struct rf_str ns,
		      struct rf_str name, struct rf_json **ret_old, struct rf_json **ret_left,
		      struct rf_err *err)
{
	const struct rf_kind *k = r->route.kind;

	if (rf_store_get(r->api->store, r->a, k, ns, name, ret_old, err) < 0 ||
	    check_preconditions(r, opt, *ret_old, err) < 0 ||
	    rf_admit_delete(r, k, *ret_old, err) < 0 || judge(r, opt, *ret_old, err) < 0 ||
	    (opt->eviction != NULL && rf_budget_check(r->api, r->a, *ret_old, err) < 0))
		return -err->code;
	return rf_delete_object(r->api, r->a, k, *ret_old, &opt->how, ret_left, err);
}

static int run_delete(struct rf_req *r, const struct options *opt, struct rf_json **ret_old,
		      struct rf_json **ret_left, struct rf_err *err)
{
	if (rf_write_begin(r->api, err) < 0)
		return -err->code;
	if (delete_one(r, opt, r->route.ns, r->route.name, ret_old, ret_left, err) < 0) {
		rf_write_rollback(r->api);
		return -err->code;
	}
	return rf_write_commit(r->api, r->dry_run, err);
}

int rf_verb_delete(struct rf_req *r, struct rf_err *err)
{
	struct options opt = { .uid = RF_STR_EMPTY };
	struct rf_json *old = NULL, *left = NULL;

	if (read_options(r, &opt, err) < 0 || run_delete(r, &opt, &old, &left, err) < 0)
		return -err->code;
	if (left != NULL || rf_kind_is(r->route.kind, "pods"))
		rf_reply_object(r, 200, left != NULL ? left : old);
	else
		rf_reply_done(r, 200, r->route.name, rf_json_str_at(old, "metadata", "uid"));
	return 0;
}

int rf_verb_evict(struct rf_req *r, struct rf_err *err)
{
	struct options opt = { .uid = RF_STR_EMPTY };
	struct rf_json *eviction = NULL, *old = NULL, *left = NULL;

	if (rf_read_object(r, &eviction, err) < 0 ||
	    fill(r, rf_json_at(eviction, "deleteOptions"), &opt, err) < 0)
		return -err->code;
	opt.eviction = eviction;
	if (run_delete(r, &opt, &old, &left, err) < 0)
		return -err->code;
	rf_reply_done(r, 201, r->route.name, rf_json_str_at(old, "metadata", "uid"));
	return 0;
}

/* --- collections ---------------------------------------------------------------------------- */

struct names {
	struct rf_req *r;
	struct rf_filter filter;
	struct rf_json *all; /* {ns, name} of what to delete: whole objects would not fit */
};

static int collect(void *ctx, const struct rf_row *row)
{
	struct names *n = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;

	if (rf_json_parse(&a, row->json, &o, NULL) == 0 && rf_filter_match(&n->filter, o))
		rf_json_push(n->r->a, n->all,
			     rf_json_make(n->r->a, "{'ns':%S,'name':%S}", row->ns, row->name));
	return 0;
}

static int too_long(size_t done, size_t n, struct rf_err *err)
{
	return rf_fail(err, RF_TOO_LARGE,
		       "deleting %zu objects at once takes too long: after %zu of them %d seconds "
		       "had passed, and none was deleted; choose fewer with a label selector, or "
		       "delete them one by one",
		       n, done, COLLECTION_MS / 1000);
}

static int delete_all(struct rf_req *r, const struct options *opt, const struct rf_json *all,
		      struct rf_err *err)
{
	int64_t end = rf_mono_ns(r->api->clock) + COLLECTION_MS * INT64_C(1000000);

	for (size_t i = 0; i < rf_json_len(all); i++) {
		const struct rf_json *which = rf_json_item(all, i);
		rf_auto(arena) a = RF_ARENA_CAPPED(RF_REQUEST_MEMORY);
		struct rf_json *old = NULL, *left = NULL;
		struct rf_req one = *r;
		int n;

		if (rf_mono_ns(r->api->clock) > end)
			return too_long(i, rf_json_len(all), err);
		one.a = &a;
		n = delete_one(&one, opt, rf_json_str_at(which, "ns"),
			       rf_json_str_at(which, "name"), &old, &left, err);
		r->warnings = one.warnings;
		r->denied = rf_arena_str(r->a, one.denied);
		if (n < 0)
			return n;
	}
	return 0;
}

int rf_verb_delete_collection(struct rf_req *r, struct rf_err *err)
{
	struct options opt = { .uid = RF_STR_EMPTY };
	struct names n = { .r = r, .all = rf_json_array(r->a) };
	struct rf_list l = { .kind = r->route.kind, .ns = r->route.ns, .each = collect, .ctx = &n };

	if (read_options(r, &opt, err) < 0 || rf_filter_read(r, r->a, &n.filter, err) < 0 ||
	    rf_store_list(r->api->store, &l, err) < 0 || rf_write_begin(r->api, err) < 0)
		return -err->code;
	if (delete_all(r, &opt, n.all, err) < 0) {
		rf_write_rollback(r->api);
		return -err->code;
	}
	if (rf_write_commit(r->api, r->dry_run, err) < 0)
		return -err->code;
	rf_reply_done(r, 200, RF_STR_EMPTY, RF_STR_EMPTY);
	return 0;
}
