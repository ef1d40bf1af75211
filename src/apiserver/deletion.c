#include "apiserver/write.h"

#include "apiserver/meta.h"
#include "tenant/tenant.h"

/* --- one object ----------------------------------------------------------------------------- */

/* The seconds a pod still gets. Nothing runs of a pod without a node or one that has ended. Where
 * something may run, only those who may force can skip the node's word that it is gone: else a
 * tenant's quota would be free while its processes still hold the card. */
static int64_t pod_grace(const struct rf_json *pod, const struct rf_deletion *how)
{
	const struct rf_json *spec = rf_json_at(pod, "spec");
	int64_t grace = how->grace_s;

	if (rf_json_str_at(spec, "nodeName").n == 0 || !rf_pod_counts(pod))
		return 0;
	if (grace < 0)
		grace = rf_json_int(rf_json_at(spec, "terminationGracePeriodSeconds"), 30);
	if (grace == 0 && !how->may_force)
		grace = 1;
	return grace;
}

static int mark_deleted(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
			const struct rf_json *before, int64_t grace, struct rf_json **ret_left,
			struct rf_err *err)
{
	struct rf_json *after = rf_json_clone(a, before);
	struct rf_json *meta = rf_json_ensure(a, after, "metadata");
	int64_t was = rf_json_int(rf_json_at(meta, "deletionGracePeriodSeconds"), INT64_MAX);
	int64_t at = rf_wall_ms(api->clock) + grace * 1000;

	*ret_left = after;
	if (rf_json_at(meta, "deletionTimestamp") != NULL && was <= grace)
		return 0;
	rf_json_set_str(a, meta, "deletionTimestamp", rf_time_format(a, at));
	rf_json_set_int(a, meta, "deletionGracePeriodSeconds", grace);
	if (rf_kind_is(k, "namespaces"))
		rf_json_set_str(a, rf_json_ensure(a, after, "status"), "phase",
				RF_LIT("Terminating"));
	return rf_write_put(api, a, k, before, after, err);
}

int rf_delete_object(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
		     const struct rf_json *before, const struct rf_deletion *how,
		     struct rf_json **ret_left, struct rf_err *err)
{
	int64_t grace = rf_kind_is(k, "pods") ? RF_MIN(pod_grace(before, how), 86400 * 365) : 0;
	bool held = rf_json_len(rf_json_at(before, "metadata", "finalizers")) > 0;

	if (grace > 0 || held || rf_kind_is(k, "namespaces"))
		return mark_deleted(api, a, k, before, grace, ret_left, err);
	*ret_left = NULL;
	return rf_write_remove(api, a, k, before, err);
}

bool rf_deletion_complete(const struct rf_kind *k, const struct rf_json *o)
{
	const struct rf_json *meta = rf_json_at(o, "metadata");

	if (rf_json_at(meta, "deletionTimestamp") == NULL ||
	    rf_json_len(rf_json_at(meta, "finalizers")) > 0 || rf_kind_is(k, "namespaces"))
		return false;
	return !rf_kind_is(k, "pods") ||
	       rf_json_int(rf_json_at(meta, "deletionGracePeriodSeconds"), 0) == 0;
}

/* --- namespaces ----------------------------------------------------------------------------- */

struct contents {
	struct rf_arena *a;
	struct rf_json *all;
};

static int collect(void *ctx, const struct rf_row *row)
{
	struct contents *c = ctx;
	struct rf_json *o = NULL;

	if (rf_json_parse(c->a, row->json, &o, NULL) == 0)
		rf_json_push(c->a, c->all, o);
	return 0;
}

/* Nobody is left inside who could take a finalizer away again, and the namespace would stay for
 * ever. A claim's is the node's: it says that a device may still be in use. */
static int let_go(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
		  struct rf_json **object, struct rf_err *err)
{
	const struct rf_json *before = *object;

	if (rf_kind_is(k, "resourceclaims") ||
	    rf_json_len(rf_json_at(before, "metadata", "finalizers")) == 0)
		return 0;
	*object = rf_json_clone(a, before);
	rf_json_del(rf_json_at(*object, "metadata"), RF_LIT("finalizers"));
	return rf_write_put(api, a, k, before, *object, err);
}

static int empty_kind(struct rf_api *api, const struct rf_kind *k, struct rf_str ns,
		      struct rf_err *err)
{
	static const struct rf_deletion HOW = { .grace_s = -1, .may_force = false };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct contents c = { &a, rf_json_array(&a) };
	struct rf_list l = { .kind = k, .ns = ns, .each = collect, .ctx = &c };
	struct rf_json *left;

	if (rf_store_list(api->store, &l, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(c.all); i++) {
		struct rf_json *o = rf_json_item(c.all, i);

		if (let_go(api, &a, k, &o, err) < 0 ||
		    rf_delete_object(api, &a, k, o, &HOW, &left, err) < 0)
			return -err->code;
	}
	return 0;
}

static int64_t count_all(struct rf_api *api, struct rf_str ns)
{
	int64_t n = 0;

	for (size_t i = 0; i < rf_n_kinds; i++)
		if (rf_kinds[i].namespaced && rf_kinds[i].stored)
			n += rf_store_count(api->store, &rf_kinds[i], ns);
	return n;
}

int rf_account_ensure(struct rf_api *api, struct rf_arena *a, struct rf_str ns, struct rf_err *err)
{
	const struct rf_kind *k = rf_kind_get("serviceaccounts");
	struct rf_json *sa;

	if (rf_store_has(api->store, k, ns, RF_LIT("default")))
		return 0;
	sa = rf_json_make(a,
			  "{'kind':'ServiceAccount','apiVersion':'v1','metadata':{'name':'default',"
			  "'namespace':%S}}",
			  ns);
	rf_meta_stamp(api, a, sa);
	return rf_write_put(api, a, k, NULL, sa, err);
}

/* Pods end first, in their time: until the last is gone, what they use (claims, secrets) stays. */
int rf_namespace_settle(struct rf_api *api, struct rf_arena *a, struct rf_str ns,
			struct rf_err *err)
{
	const struct rf_kind *namespaces = rf_kind_get("namespaces"), *pods = rf_kind_get("pods");
	struct rf_json *o;
	int r = rf_store_get(api->store, a, namespaces, RF_STR_EMPTY, ns, &o, err);

	if (r == -RF_NOT_FOUND)
		return 0;
	if (r < 0)
		return r;
	if (rf_json_at(o, "metadata", "deletionTimestamp") == NULL)
		return rf_account_ensure(api, a, ns, err);
	if (empty_kind(api, pods, ns, err) < 0)
		return -err->code;
	if (rf_store_count(api->store, pods, ns) > 0)
		return 0;
	for (size_t i = 0; i < rf_n_kinds; i++)
		if (rf_kinds[i].namespaced && rf_kinds[i].stored &&
		    empty_kind(api, &rf_kinds[i], ns, err) < 0)
			return -err->code;
	if (count_all(api, ns) > 0 || rf_json_len(rf_json_at(o, "metadata", "finalizers")) > 0)
		return 0;
	return rf_write_remove(api, a, namespaces, o, err);
}
