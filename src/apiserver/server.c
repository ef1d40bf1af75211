#include "apiserver/server.h"

#include "apiserver/budget.h"
#include "apiserver/hub.h"
#include "apiserver/index.h"
#include "apiserver/policies.h"
#include "apiserver/rbac.h"
#include "apiserver/write.h"

static const struct rf_keep HISTORY = { .ms = 10 * 60 * 1000, .rows = 20000, .bytes = 128 << 20 };
#define EVENT_MS (60 * 60 * 1000)
#define EVENT_BATCH 200
#define TRIM_EVERY 10 /* seconds */
#define EVENTS_EVERY 60

int rf_api_open(struct rf_api *api, uv_loop_t *loop, const struct rf_clock *clock,
		const char *db_path, struct rf_str sa_key, struct rf_str sa_pub, struct rf_err *err)
{
	*api = (struct rf_api){ .loop = loop, .clock = clock };
	api->sa_key = rf_arena_str(&api->forever, sa_key);
	api->sa_pub = rf_arena_str(&api->forever, sa_pub);
	if (rf_store_open(db_path, clock, &api->store, err) < 0)
		return -err->code;
	api->hub = rf_hub_new(api);
	api->rbac = rf_rbac_new(api->store);
	api->policies = rf_policies_new();
	if (rf_index_open(api->store, err) < 0)
		return -err->code;
	rf_policies_load(api);
	if (rf_bootstrap(api, err) < 0)
		return -err->code;
	return 0;
}

void rf_api_done(struct rf_api *api)
{
	rf_hub_free(api->hub);
	rf_rbac_free(api->rbac);
	rf_policies_free(api->policies);
	rf_store_free(api->store);
	rf_map_done(&api->tx.quota_dirty);
	rf_map_done(&api->tx.end_dirty);
	rf_map_done(&api->budget_noted);
	rf_tls_free(api->node_tls);
	rf_arena_done(&api->forever);
	*api = (struct rf_api){ .loop = NULL };
}

/* --- housekeeping --------------------------------------------------------------------------- */

struct old_events {
	struct rf_arena a;
	int64_t before_ms;
	struct rf_json *all;
};

static int64_t event_time(const struct rf_json *o)
{
	static const char *const FIELDS[] = { "lastTimestamp", "eventTime" };
	int64_t ms = 0;

	for (size_t i = 0; i < RF_COUNT(FIELDS); i++)
		if (rf_time_parse(rf_json_str_at(o, FIELDS[i]), &ms, NULL) == 0)
			return ms;
	rf_time_parse(rf_json_str_at(o, "metadata", "creationTimestamp"), &ms, NULL);
	return ms;
}

static int find_old(void *ctx, const struct rf_row *row)
{
	struct old_events *old = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;

	if (rf_json_parse(&a, row->json, &o, NULL) < 0 || event_time(o) > old->before_ms)
		return 0;
	rf_json_push(&old->a, old->all, rf_json_clone(&old->a, o));
	return rf_json_len(old->all) >= EVENT_BATCH ? 1 : 0;
}

static int remove_all(struct rf_api *api, struct old_events *old, struct rf_err *err)
{
	if (rf_json_len(old->all) == 0)
		return 0;
	if (rf_write_begin(api, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(old->all); i++)
		if (rf_write_remove(api, &old->a, rf_kind_get("events"), rf_json_item(old->all, i),
				    err) < 0) {
			rf_write_rollback(api);
			return -err->code;
		}
	return rf_write_commit(api, false, err);
}

static void drop_old_events(struct rf_api *api)
{
	struct old_events old = { .before_ms = rf_wall_ms(api->clock) - EVENT_MS };
	struct rf_list l = { .kind = rf_kind_get("events"), .each = find_old, .ctx = &old };
	struct rf_err err = RF_ERR_INIT;

	old.all = rf_json_array(&old.a);
	if (rf_store_list(api->store, &l, &err) < 0 || remove_all(api, &old, &err) < 0)
		rf_warn("drop old events: %s", err.msg);
	rf_arena_done(&old.a);
}

static bool trim(struct rf_api *api)
{
	struct rf_err err = RF_ERR_INIT;
	int r = rf_store_trim(api->store, &HISTORY, &err);

	if (r < 0)
		rf_warn("forget history: %s", err.msg);
	return r > 0;
}

void rf_api_tick(struct rf_api *api)
{
	rf_hub_tick(api->hub);
	rf_budget_tick(api);
	api->ticks++;
	if (api->trim_more || api->ticks % TRIM_EVERY == 0)
		api->trim_more = trim(api);
	if (api->ticks % EVENTS_EVERY == 0)
		drop_old_events(api);
}

void rf_api_close_watches(struct rf_api *api)
{
	rf_hub_free(api->hub);
	api->hub = NULL;
}
