#include "apiserver/write.h"

#include "apiserver/budget.h"
#include "apiserver/hub.h"
#include "apiserver/index.h"
#include "apiserver/policies.h"
#include "apiserver/quota.h"
#include "apiserver/rbac.h"

/* Presence is all a dirty map says. */
static char DIRTY[] = "";

int rf_write_begin(struct rf_api *api, struct rf_err *err)
{
	return rf_store_begin(api->store, err);
}

static void forget_dirty(struct rf_api *api)
{
	rf_map_clear(&api->tx.quota_dirty);
	rf_map_clear(&api->tx.end_dirty);
}

void rf_write_rollback(struct rf_api *api)
{
	forget_dirty(api);
	rf_policies_forget(api->policies);
	rf_store_rollback(api->store);
	rf_rbac_changed(api->rbac);
}

static void mark(struct rf_api *api, const struct rf_kind *k, const struct rf_json *before,
		 const struct rf_json *after)
{
	struct rf_str ns = rf_json_str_at(after ? after : before, "metadata", "namespace");
	bool counts = before == NULL || after == NULL || rf_kind_is(k, "pods");

	if (rf_kind_is_rbac(k))
		rf_rbac_changed(api->rbac);
	rf_budget_note(api, k, ns);
	rf_policies_note(api->policies, k, before, after);
	if (rf_kind_is(k, "namespaces")) {
		ns = rf_json_str_at(after ? after : before, "metadata", "name");
		if (after != NULL && rf_json_at(after, "metadata", "deletionTimestamp") != NULL)
			rf_map_set(&api->tx.end_dirty, ns, DIRTY);
		return;
	}
	if (!k->namespaced)
		return;
	if (after == NULL)
		rf_map_set(&api->tx.end_dirty, ns, DIRTY);
	/* A quota's own status is written by the refresh; only a new limit asks for one. */
	if (rf_kind_is(k, "resourcequotas"))
		counts = before == NULL || after == NULL ||
			 !rf_json_equal(rf_json_at(before, "spec"), rf_json_at(after, "spec"));
	if (counts)
		rf_map_set(&api->tx.quota_dirty, ns, DIRTY);
}

static int count_bytes(struct rf_api *api, const struct rf_kind *k, const struct rf_json *o,
		       struct rf_err *err)
{
	if (!k->namespaced)
		return 0;
	return rf_index_grow(api->store, rf_json_str_at(o, "metadata", "namespace"),
			     rf_store_last_growth(api->store), err);
}

int rf_write_put(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
		 const struct rf_json *before, struct rf_json *after, struct rf_err *err)
{
	if (rf_index_apply(api->store, k, before, after, err) < 0 ||
	    rf_store_put(api->store, a, k, before, after, err) < 0 ||
	    count_bytes(api, k, after, err) < 0)
		return -err->code;
	mark(api, k, before, after);
	return 0;
}

int rf_write_sent(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k, const struct rf_json *before,
		  struct rf_json *after, struct rf_err *err)
{
	if (rf_write_put(api, a, k, before, after, err) < 0)
		return -err->code;
	if (rf_store_last_size(api->store) > RF_OBJECT_MAX && rf_store_last_growth(api->store) > 0)
		return rf_fail(err, RF_TOO_LARGE, "%.*s \"%.*s\" has %zu bytes; an object may have %d at most",
			       RF_STR(rf_kind_resource(a, k)), RF_STR(rf_json_str_at(after, "metadata", "name")),
			       rf_store_last_size(api->store), RF_OBJECT_MAX);
	return 0;
}

int rf_write_remove(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
		    const struct rf_json *before, struct rf_err *err)
{
	if (rf_index_apply(api->store, k, before, NULL, err) < 0 ||
	    rf_store_delete(api->store, a, k, before, rf_json_clone(a, before), err) < 0 ||
	    count_bytes(api, k, before, err) < 0)
		return -err->code;
	mark(api, k, before, NULL);
	return 0;
}

/* Takes one key out of the map into the arena: what is done for it may put others in. */
static bool take_key(struct rf_map *m, struct rf_arena *a, struct rf_str *ret)
{
	struct rf_map_slot *s = rf_map_next(m, NULL);

	if (s == NULL)
		return false;
	*ret = rf_arena_str(a, rf_map_key(s));
	rf_map_del(m, *ret);
	return true;
}

static int settle(struct rf_api *api, struct rf_arena *a, struct rf_err *err)
{
	struct rf_str ns;

	if (rf_policies_settle(api, a, err) < 0)
		return -err->code;
	while (take_key(&api->tx.end_dirty, a, &ns))
		if (rf_namespace_settle(api, a, ns, err) < 0)
			return -err->code;
	while (take_key(&api->tx.quota_dirty, a, &ns))
		if (rf_quota_refresh(api, a, ns, err) < 0)
			return -err->code;
	return 0;
}

int rf_write_commit(struct rf_api *api, bool dry_run, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (settle(api, &a, err) < 0) {
		rf_write_rollback(api);
		return -err->code;
	}
	if (dry_run) {
		rf_write_rollback(api);
		return 0;
	}
	if (rf_policies_apply(api->policies, err) < 0) {
		rf_write_rollback(api);
		rf_policies_load(api);
		return -err->code;
	}
	forget_dirty(api);
	if (rf_store_commit(api->store, rf_hub_publish, api->hub, err) < 0) {
		rf_rbac_changed(api->rbac);
		rf_policies_load(api);
		return -err->code;
	}
	return 0;
}
