#include "apiserver/store_private.h"

static sqlite3_stmt *get_stmt(struct rf_store *s, struct rf_str resource, struct rf_str ns,
			      struct rf_str name, struct rf_err *err)
{
	sqlite3_stmt *st =
		rf_store_stmt(s, "SELECT json FROM obj WHERE kind=? AND ns=? AND name=?", err);

	if (st == NULL)
		return NULL;
	rf_store_bind(st, 1, resource);
	rf_store_bind(st, 2, ns);
	rf_store_bind(st, 3, name);
	return st;
}

int rf_store_get(struct rf_store *s, struct rf_arena *a, const struct rf_kind *k, struct rf_str ns,
		 struct rf_str name, struct rf_json **ret, struct rf_err *err)
{
	struct rf_str resource = rf_kind_resource(a, k);
	sqlite3_stmt *st = get_stmt(s, resource, k->namespaced ? ns : RF_STR_EMPTY, name, err);
	int r;

	if (st == NULL)
		return -err->code;
	r = rf_store_step(s, st, err);
	if (r == 0)
		r = rf_fail(err, RF_NOT_FOUND, "%.*s \"%.*s\" not found", RF_STR(resource),
			    RF_STR(name));
	else if (r == 1)
		r = rf_json_parse(a, rf_store_col(st, 0), ret, err);
	rf_store_stmt_put(st);
	return r;
}

bool rf_store_has(struct rf_store *s, const struct rf_kind *k, struct rf_str ns, struct rf_str name)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	sqlite3_stmt *st = get_stmt(s, rf_kind_resource(&a, k), ns, name, NULL);
	bool found;

	if (st == NULL)
		return false;
	found = sqlite3_step(st) == SQLITE_ROW;
	rf_store_stmt_put(st);
	return found;
}

static sqlite3_stmt *list_stmt(struct rf_store *s, const struct rf_list *l, struct rf_str resource,
			       struct rf_err *err)
{
	sqlite3_stmt *st;

	if (l->ns.n > 0)
		st = rf_store_stmt(s,
				   "SELECT ns,name,rv,json FROM obj WHERE kind=?1 AND ns=?4 AND"
				   " (ns,name)>(?2,?3) ORDER BY ns,name",
				   err);
	else
		st = rf_store_stmt(s,
				   "SELECT ns,name,rv,json FROM obj WHERE kind=?1 AND"
				   " (ns,name)>(?2,?3) ORDER BY ns,name",
				   err);
	if (st == NULL)
		return NULL;
	rf_store_bind(st, 1, resource);
	rf_store_bind(st, 2, l->after_ns);
	rf_store_bind(st, 3, l->after_name);
	if (l->ns.n > 0)
		rf_store_bind(st, 4, l->ns);
	return st;
}

int rf_store_list(struct rf_store *s, const struct rf_list *l, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	sqlite3_stmt *st = list_stmt(s, l, rf_kind_resource(&a, l->kind), err);
	int r, stop = 0;

	if (st == NULL)
		return -err->code;
	while (stop == 0 && (r = rf_store_step(s, st, err)) == 1) {
		struct rf_row row = {
			.ns = rf_store_col(st, 0),
			.name = rf_store_col(st, 1),
			.rv = sqlite3_column_int64(st, 2),
			.json = rf_store_col(st, 3),
		};

		stop = l->each(l->ctx, &row);
	}
	rf_store_stmt_put(st);
	return stop != 0 ? stop : r;
}

int64_t rf_store_count(struct rf_store *s, const struct rf_kind *k, struct rf_str ns)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	sqlite3_stmt *st = rf_store_stmt(
		s, "SELECT count(*) FROM obj WHERE kind=?1 AND (?2='' OR ns=?2)", NULL);
	int64_t n = 0;

	if (st == NULL)
		return 0;
	rf_store_bind(st, 1, rf_kind_resource(&a, k));
	rf_store_bind(st, 2, ns);
	if (sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	rf_store_stmt_put(st);
	return n;
}

static int history_rows(struct rf_store *s, sqlite3_stmt *st, const struct rf_kind *k,
			int (*each)(void *ctx, const struct rf_change *c), void *ctx,
			struct rf_err *err)
{
	int r, stop = 0;

	while (stop == 0 && (r = rf_store_step(s, st, err)) == 1) {
		struct rf_change c = {
			.kind = k,
			.rv = sqlite3_column_int64(st, 0),
			.type = (enum rf_change_type)sqlite3_column_int(st, 1),
			.ns = rf_store_col(st, 2),
			.name = rf_store_col(st, 3),
			.json = rf_store_col(st, 4),
			.prev = rf_store_col(st, 5),
		};

		stop = each(ctx, &c);
	}
	return stop != 0 ? stop : r;
}

int rf_store_history(struct rf_store *s, const struct rf_kind *k, int64_t after,
		     int (*each)(void *ctx, const struct rf_change *c), void *ctx,
		     struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	sqlite3_stmt *st;
	int r;

	if (after < s->oldest)
		return rf_fail(err, RF_GONE, "too old resource version: %lld (%lld)",
			       (long long)after, (long long)s->oldest);
	st = rf_store_stmt(
		s,
		"SELECT l.rv,l.type,l.ns,l.name,l.json,p.json FROM log l"
		" LEFT JOIN log p ON p.rv=l.prev WHERE l.kind=?1 AND l.rv>?2 ORDER BY l.rv",
		err);
	if (st == NULL)
		return -err->code;
	rf_store_bind(st, 1, rf_kind_resource(&a, k));
	sqlite3_bind_int64(st, 2, after);
	r = history_rows(s, st, k, each, ctx, err);
	rf_store_stmt_put(st);
	return r;
}
