#include "apiserver/quota.h"

#include "apiserver/index.h"
#include "apiserver/write.h"
#include "tenant/admit.h"

/* --- keys of hard --------------------------------------------------------------------------- */

/* "cpu" is short for "requests.cpu". */
static struct rf_str pod_key(struct rf_arena *a, struct rf_str key)
{
	if (rf_word_in("cpu memory ephemeral-storage", key))
		return rf_arena_printf(a, "requests.%.*s", RF_STR(key));
	return key;
}

/* "count/pods", "count/leases.coordination.k8s.io", and the old names without "count/". */
static const struct rf_kind *counted_kind(struct rf_str key)
{
	struct rf_str plural = RF_STR_EMPTY, group = key;

	if (rf_str_starts(key, RF_LIT("count/")))
		group = rf_str_skip(key, 6);
	else if (!rf_word_in("secrets configmaps resourcequotas", key))
		return NULL;
	rf_str_cut(&group, '.', &plural);
	for (size_t i = 0; i < rf_n_kinds; i++)
		if (rf_kinds[i].stored && rf_kinds[i].namespaced &&
		    rf_str_is(plural, rf_kinds[i].plural) && rf_str_is(group, rf_kinds[i].group))
			return &rf_kinds[i];
	return NULL;
}

static int64_t used_of(struct rf_api *api, struct rf_arena *a, struct rf_str ns, struct rf_str key)
{
	const struct rf_kind *k = counted_kind(key);

	if (k != NULL)
		return rf_store_count(api->store, k, ns) * 1000;
	return rf_index_used(api->store, ns, pod_key(a, key));
}

static struct rf_str amount_text(struct rf_arena *a, struct rf_str key, int64_t milli)
{
	bool bytes =
		rf_str_contains(key, RF_LIT("memory")) || rf_str_contains(key, RF_LIT("storage"));

	if (bytes && milli % 1000 == 0)
		return rf_quantity_bytes(a, milli / 1000);
	return rf_quantity_format_milli(a, milli);
}

/* --- collecting the quotas of a namespace ------------------------------------------------------- */

struct quotas {
	struct rf_arena *a;
	struct rf_json *all;
	struct rf_err *err;
};

static int collect(void *ctx, const struct rf_row *row)
{
	struct quotas *q = ctx;
	struct rf_json *o = NULL;

	if (rf_json_parse(q->a, row->json, &o, q->err) < 0)
		return -q->err->code;
	rf_json_push(q->a, q->all, o);
	return 0;
}

static int read_quotas(struct rf_api *api, struct rf_arena *a, struct rf_str ns,
		       struct rf_json **ret, struct rf_err *err)
{
	struct quotas q = { a, rf_json_array(a), err };
	struct rf_list l = {
		.kind = rf_kind_get("resourcequotas"), .ns = ns, .each = collect, .ctx = &q
	};

	if (rf_store_list(api->store, &l, err) < 0)
		return -err->code;
	*ret = q.all;
	return 0;
}

/* --- checking ------------------------------------------------------------------------------- */

/* A quota on cpu or memory only means something if every container says what it takes. */
static int must_say(const struct rf_json *pod, struct rf_str key, struct rf_str quota,
		    struct rf_err *err)
{
	static const char *const PARTS[] = { "requests", "limits" };
	const struct rf_json *all = rf_json_at(pod, "spec", "containers");
	bool limit = rf_str_starts(key, RF_LIT("limits."));
	struct rf_str what = key;

	if (rf_str_starts(key, RF_LIT("requests.")) || limit)
		rf_str_cut(&what, '.', &(struct rf_str){ NULL, 0 });
	if (!rf_word_in("cpu memory", what))
		return 0;
	for (size_t i = 0; i < rf_json_len(all); i++) {
		const struct rf_json *c = rf_json_item(all, i);

		if (rf_json_get(rf_json_at(c, "resources", PARTS[limit]), what) == NULL)
			return rf_fail(err, RF_FORBIDDEN,
				       "failed quota: %.*s: must specify %.*s for: %.*s",
				       RF_STR(quota), RF_STR(key),
				       RF_STR(rf_json_str_at(c, "name")));
	}
	return 0;
}

static int check_one(struct rf_api *api, struct rf_arena *a, const struct rf_json *quota,
		     const struct rf_kind *k, const struct rf_json *o,
		     const struct rf_charges *charges, struct rf_err *err)
{
	const struct rf_json *hard = rf_json_at(quota, "spec", "hard");
	struct rf_str name = rf_json_str_at(quota, "metadata", "name");
	struct rf_str ns = rf_json_str_at(o, "metadata", "namespace");
	rf_auto(excess) e = RF_EXCESS_INIT;

	for (size_t i = 0; i < rf_json_len(hard); i++) {
		struct rf_str key = hard->members[i].key;
		const struct rf_kind *counted = counted_kind(key);
		int64_t limit = 0, used = 0, ask = counted == k ? 1000 : 0;

		if (counted == NULL)
			ask = rf_charges_get(charges, pod_key(a, key));
		rf_quantity_milli(rf_json_str(hard->members[i].value), &limit, NULL);
		if (counted == NULL && rf_kind_is(k, "pods") && must_say(o, key, name, err) < 0)
			return -err->code;
		used = used_of(api, a, ns, key);
		if (ask > 0 && ask > limit - used)
			rf_excess_add(&e, key, amount_text(a, key, ask), amount_text(a, key, used),
				      amount_text(a, key, limit));
	}
	return rf_excess_refuse(&e, "", name, err);
}

/* With or without a quota: what cannot be counted now would be a wrong count when one is made. */
static int check_countable(struct rf_api *api, struct rf_str ns, const struct rf_charges *charges,
			   struct rf_err *err)
{
	for (size_t i = 0; i < charges->n; i++) {
		const struct rf_charge *one = &charges->at[i];

		if (one->milli > RF_USED_MAX - rf_index_used(api->store, ns, one->resource))
			return rf_fail(err, RF_FORBIDDEN,
				       "asks for more %.*s than can be counted; lower it",
				       RF_STR(one->resource));
	}
	return 0;
}

int rf_quota_check(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
		   const struct rf_json *o, struct rf_err *err)
{
	struct rf_str ns = rf_json_str_at(o, "metadata", "namespace");
	struct rf_charges charges = { NULL, 0, 0 };
	struct rf_json *quotas = NULL;

	if (!k->namespaced)
		return 0;
	if (rf_kind_is(k, "pods"))
		rf_charges_of_pod(a, o, &charges);
	if (check_countable(api, ns, &charges, err) < 0 ||
	    read_quotas(api, a, ns, &quotas, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(quotas); i++)
		if (check_one(api, a, rf_json_item(quotas, i), k, o, &charges, err) < 0)
			return -err->code;
	return 0;
}

int rf_quota_check_bytes(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
			 const struct rf_json *o, struct rf_err *err)
{
	int64_t used = 0, more = 0;

	if (!k->namespaced || rf_user_is_platform(&r->user) || rf_user_node(&r->user).n > 0)
		return 0;
	more = (int64_t)rf_json_text_of(r->a, o).n;
	if (old != NULL)
		more -= (int64_t)rf_json_text_of(r->a, old).n;
	used = rf_index_used(r->api->store, r->route.ns, RF_LIT(RF_RES_BYTES)) / 1000;
	if (more <= 0 || used + more <= RF_NAMESPACE_BYTES)
		return 0;
	return rf_fail(
		err, RF_FORBIDDEN,
		"namespace \"%.*s\" holds %lld bytes of objects and may hold %d; delete what is "
		"no longer needed",
		RF_STR(r->route.ns), (long long)used, RF_NAMESPACE_BYTES);
}

/* --- status --------------------------------------------------------------------------------- */

static int refresh_one(struct rf_api *api, struct rf_arena *a, struct rf_str ns,
		       const struct rf_json *quota, struct rf_err *err)
{
	const struct rf_json *hard = rf_json_at(quota, "spec", "hard");
	struct rf_json *used = rf_json_object(a), *status, *after;

	for (size_t i = 0; i < rf_json_len(hard); i++) {
		struct rf_str key = hard->members[i].key;

		rf_json_set(a, used, key,
			    rf_json_string(a, amount_text(a, key, used_of(api, a, ns, key))));
	}
	status = rf_json_object(a);
	if (hard != NULL)
		rf_json_set(a, status, RF_LIT("hard"), rf_json_clone(a, hard));
	rf_json_set(a, status, RF_LIT("used"), used);
	if (rf_json_equal(status, rf_json_at(quota, "status")))
		return 0;
	after = rf_json_clone(a, quota);
	rf_json_set(a, after, RF_LIT("status"), status);
	return rf_write_put(api, a, rf_kind_get("resourcequotas"), quota, after, err);
}

int rf_quota_refresh(struct rf_api *api, struct rf_arena *a, struct rf_str ns, struct rf_err *err)
{
	struct rf_json *quotas = NULL;

	if (read_quotas(api, a, ns, &quotas, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(quotas); i++)
		if (refresh_one(api, a, ns, rf_json_item(quotas, i), err) < 0)
			return -err->code;
	return 0;
}
