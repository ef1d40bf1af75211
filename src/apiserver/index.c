#include "apiserver/index.h"

#include "tenant/tenant.h"

static const char SETUP[] =
	"CREATE TEMP TABLE usage(ns TEXT, res TEXT, milli INTEGER, PRIMARY KEY(ns, res)) WITHOUT "
	"ROWID;"
	"CREATE TEMP TABLE nstenant(ns TEXT PRIMARY KEY, tenant TEXT) WITHOUT ROWID;"
	"CREATE INDEX nstenant_tenant ON nstenant(tenant);"
	"CREATE TEMP TABLE held(device TEXT, ns TEXT, name TEXT, memory INTEGER, compute INTEGER);"
	"CREATE INDEX held_device ON held(device);"
	"CREATE INDEX held_claim ON held(ns, name);";

static int run3(struct rf_store *s, const char *sql, struct rf_str x, struct rf_str y, int64_t n,
		struct rf_err *err)
{
	sqlite3_stmt *st = rf_store_stmt(s, sql, err);
	int r;

	if (st == NULL)
		return -err->code;
	rf_store_bind(st, 1, x);
	rf_store_bind(st, 2, y);
	sqlite3_bind_int64(st, 3, n);
	r = rf_store_step(s, st, err);
	rf_store_stmt_put(st);
	return r;
}

/* --- what pods use -------------------------------------------------------------------------- */

/* A sum that wrapped would be a charge below zero: a quota that grows by being used. */
static int64_t sum_of(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static void charge(struct rf_arena *a, struct rf_charges *c, struct rf_str resource, int64_t milli,
		   bool add)
{
	for (size_t i = 0; i < c->n; i++) {
		int64_t *was = &c->at[i].milli;

		if (!rf_str_eq(c->at[i].resource, resource))
			continue;
		*was = add ? sum_of(*was, milli) : RF_MAX(*was, milli);
		return;
	}
	if (c->n == c->cap) {
		struct rf_charge *more = rf_arena_array(a, struct rf_charge, c->cap * 2 + 8);

		if (c->n > 0)
			memcpy(more, c->at, c->n * sizeof(*more));
		c->at = more;
		c->cap = c->cap * 2 + 8;
	}
	c->at[c->n++] = (struct rf_charge){ resource, milli };
}

/* Another name for whole cards. */
static bool is_card(struct rf_str resource)
{
	for (size_t i = 0; rf_gpu_name(i) != NULL; i++)
		if (rf_str_is(resource, rf_gpu_name(i)))
			return true;
	return false;
}

/* Cards that were asked for by another name count under ringfence's too: a quota on that is a quota
 * on all cards, whatever they are called. */
static void charge_map(struct rf_arena *a, struct rf_charges *c, const char *prefix,
		       const struct rf_json *map, bool add)
{
	for (size_t i = 0; i < rf_json_len(map); i++) {
		struct rf_str key = map->members[i].key;
		int64_t milli;

		if (rf_quantity_milli(rf_json_str(map->members[i].value), &milli, NULL) < 0)
			continue;
		charge(a, c, rf_arena_printf(a, "%s%.*s", prefix, RF_STR(key)), milli, add);
		if (is_card(key))
			charge(a, c, rf_arena_printf(a, "%s%s", prefix, RF_RES_GPU), milli, add);
	}
}

/* Containers run together and add up; init containers run one after the other before them, so the
 * largest counts, unless one stays (restartPolicy Always). */
void rf_charges_of_pod(struct rf_arena *a, const struct rf_json *pod, struct rf_charges *ret)
{
	static const char *const LISTS[] = { "containers", "initContainers" };

	*ret = (struct rf_charges){ NULL, 0, 0 };
	if (pod == NULL || !rf_pod_counts(pod))
		return;
	charge(a, ret, RF_LIT("pods"), 1000, true);
	for (size_t l = 0; l < RF_COUNT(LISTS); l++) {
		const struct rf_json *list = rf_json_at(pod, "spec", LISTS[l]);

		for (size_t i = 0; i < rf_json_len(list); i++) {
			const struct rf_json *c = rf_json_item(list, i);
			bool add =
				l == 0 || rf_str_is(rf_json_str_at(c, "restartPolicy"), "Always");

			charge_map(a, ret, "requests.", rf_json_at(c, "resources", "requests"),
				   add);
			charge_map(a, ret, "limits.", rf_json_at(c, "resources", "limits"), add);
		}
	}
}

int64_t rf_charges_get(const struct rf_charges *c, struct rf_str resource)
{
	for (size_t i = 0; i < c->n; i++)
		if (rf_str_eq(c->at[i].resource, resource))
			return c->at[i].milli;
	return 0;
}

static int add_usage(struct rf_store *s, struct rf_str ns, const struct rf_charges *c, int sign,
		     struct rf_err *err)
{
	for (size_t i = 0; i < c->n; i++)
		if (run3(s,
			 "INSERT INTO usage VALUES(?1,?2,?3)"
			 " ON CONFLICT DO UPDATE SET milli=milli+?3",
			 ns, c->at[i].resource, sign * c->at[i].milli, err) < 0)
			return -err->code;
	return 0;
}

int rf_index_grow(struct rf_store *s, struct rf_str ns, int64_t bytes, struct rf_err *err)
{
	struct rf_charge one = { RF_LIT(RF_RES_BYTES), bytes * 1000 };
	struct rf_charges c = { .at = &one, .n = 1, .cap = 1 };

	return add_usage(s, ns, &c, 1, err);
}

static int apply_pod(struct rf_store *s, struct rf_arena *a, const struct rf_json *before,
		     const struct rf_json *after, struct rf_err *err)
{
	struct rf_str ns = rf_json_str_at(after ? after : before, "metadata", "namespace");
	struct rf_charges was, is;

	rf_charges_of_pod(a, before, &was);
	rf_charges_of_pod(a, after, &is);
	if (add_usage(s, ns, &was, -1, err) < 0 || add_usage(s, ns, &is, 1, err) < 0)
		return -err->code;
	return 0;
}

static int64_t number2(struct rf_store *s, const char *sql, struct rf_str x, struct rf_str y)
{
	sqlite3_stmt *st = rf_store_stmt(s, sql, NULL);
	/* What cannot be counted counts as full: no quota is exceeded because a read failed. */
	int64_t n = INT64_MAX / 4;
	int r;

	if (st == NULL)
		return n;
	rf_store_bind(st, 1, x);
	rf_store_bind(st, 2, y);
	r = sqlite3_step(st);
	if (r == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	else if (r == SQLITE_DONE)
		n = 0;
	rf_store_stmt_put(st);
	return n;
}

int64_t rf_index_used(struct rf_store *s, struct rf_str ns, struct rf_str resource)
{
	return number2(s, "SELECT milli FROM usage WHERE ns=? AND res=?", ns, resource);
}

int64_t rf_index_tenant_used(struct rf_store *s, struct rf_str tenant, struct rf_str resource)
{
	return number2(s,
		       "SELECT coalesce(sum(u.milli), 0) FROM nstenant t JOIN usage u ON u.ns=t.ns"
		       " WHERE t.tenant=? AND u.res=?",
		       tenant, resource);
}

/* --- whose namespace ------------------------------------------------------------------------ */

static int apply_namespace(struct rf_store *s, const struct rf_json *before,
			   const struct rf_json *after, struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(after ? after : before, "metadata", "name");
	struct rf_str tenant = rf_json_str_at(after, "metadata", "labels", RF_TENANT_LABEL);

	if (tenant.n == 0)
		return run3(s, "DELETE FROM nstenant WHERE ns=?1 AND ?2='' AND ?3=0", name,
			    RF_STR_EMPTY, 0, err);
	return run3(s, "INSERT OR REPLACE INTO nstenant SELECT ?1,?2 WHERE ?3=0", name, tenant, 0,
		    err);
}

struct rf_str rf_index_tenant_of(struct rf_store *s, struct rf_arena *a, struct rf_str ns)
{
	sqlite3_stmt *st = rf_store_stmt(s, "SELECT tenant FROM nstenant WHERE ns=?", NULL);
	struct rf_str tenant = RF_STR_EMPTY;

	if (st == NULL)
		return tenant;
	rf_store_bind(st, 1, ns);
	if (sqlite3_step(st) == SQLITE_ROW)
		tenant = rf_arena_str(a, rf_store_col(st, 0));
	rf_store_stmt_put(st);
	return tenant;
}

/* --- who holds devices ---------------------------------------------------------------------- */

struct rf_str rf_device_key(struct rf_arena *a, const struct rf_json *result)
{
	return rf_arena_printf(a, "%.*s/%.*s/%.*s", RF_STR(rf_json_str_at(result, "driver")),
			       RF_STR(rf_json_str_at(result, "pool")),
			       RF_STR(rf_json_str_at(result, "device")));
}

int64_t rf_device_amount(const struct rf_json *result, const char *what)
{
	const struct rf_json *v = rf_json_at(result, "consumedCapacity", what);
	int64_t amount;

	if (v == NULL || rf_quantity_value(rf_json_str(v), &amount, NULL) < 0)
		return -1;
	return amount;
}

static int hold(struct rf_store *s, struct rf_arena *a, struct rf_str ns, struct rf_str name,
		const struct rf_json *result, struct rf_err *err)
{
	sqlite3_stmt *st = rf_store_stmt(s, "INSERT INTO held VALUES(?,?,?,?,?)", err);
	int r;

	if (st == NULL)
		return -err->code;
	rf_store_bind(st, 1, rf_device_key(a, result));
	rf_store_bind(st, 2, ns);
	rf_store_bind(st, 3, name);
	sqlite3_bind_int64(st, 4, rf_device_amount(result, "memory"));
	sqlite3_bind_int64(st, 5, rf_device_amount(result, "compute"));
	r = rf_store_step(s, st, err);
	rf_store_stmt_put(st);
	return r;
}

static int apply_claim(struct rf_store *s, struct rf_arena *a, const struct rf_json *before,
		       const struct rf_json *after, struct rf_err *err)
{
	const struct rf_json *meta = rf_json_at(after ? after : before, "metadata");
	const struct rf_json *results =
		rf_json_at(after, "status", "allocation", "devices", "results");
	struct rf_str ns = rf_json_str_at(meta, "namespace"), name = rf_json_str_at(meta, "name");

	if (run3(s, "DELETE FROM held WHERE ns=?1 AND name=?2 AND ?3=0", ns, name, 0, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(results); i++)
		if (hold(s, a, ns, name, rf_json_item(results, i), err) < 0)
			return -err->code;
	return 0;
}

int rf_index_held(struct rf_store *s, struct rf_str device, struct rf_str ns, struct rf_str name,
		  struct rf_held *ret, struct rf_err *err)
{
	sqlite3_stmt *st = rf_store_stmt(s,
					 "SELECT count(*), total(memory < 0 OR compute < 0), "
					 "coalesce(sum(max(memory, 0)), 0),"
					 " coalesce(sum(max(compute, 0)), 0) FROM held"
					 " WHERE device=?1 AND NOT (ns=?2 AND name=?3)",
					 err);
	int r;

	if (st == NULL)
		return -err->code;
	rf_store_bind(st, 1, device);
	rf_store_bind(st, 2, ns);
	rf_store_bind(st, 3, name);
	r = rf_store_step(s, st, err);
	if (r == 1)
		*ret = (struct rf_held){ sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1),
					 sqlite3_column_int64(st, 2), sqlite3_column_int64(st, 3) };
	rf_store_stmt_put(st);
	return r < 0 ? r : 0;
}

int rf_index_holders(struct rf_store *s, struct rf_arena *a, struct rf_str device, struct rf_str ns,
		     struct rf_str name, struct rf_json **ret, struct rf_err *err)
{
	sqlite3_stmt *st = rf_store_stmt(
		s, "SELECT DISTINCT ns, name FROM held WHERE device=?1 AND NOT (ns=?2 AND name=?3)", err);
	int r;

	if (st == NULL)
		return -err->code;
	rf_store_bind(st, 1, device);
	rf_store_bind(st, 2, ns);
	rf_store_bind(st, 3, name);
	*ret = rf_json_array(a);
	while ((r = rf_store_step(s, st, err)) == 1)
		rf_json_push(a, *ret,
			     rf_json_make(a, "{'ns':%S,'name':%S}", rf_store_col(st, 0), rf_store_col(st, 1)));
	rf_store_stmt_put(st);
	return r;
}

/* --- all together --------------------------------------------------------------------------- */

int rf_index_apply(struct rf_store *s, const struct rf_kind *k, const struct rf_json *before,
		   const struct rf_json *after, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (rf_kind_is(k, "pods"))
		return apply_pod(s, &a, before, after, err);
	if (rf_kind_is(k, "namespaces"))
		return apply_namespace(s, before, after, err);
	if (rf_kind_is(k, "resourceclaims"))
		return apply_claim(s, &a, before, after, err);
	return 0;
}

struct rebuild {
	struct rf_store *s;
	const struct rf_kind *k;
	struct rf_err *err;
};

static int rebuild_row(void *ctx, const struct rf_row *row)
{
	struct rebuild *b = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o;

	if (rf_json_parse(&a, row->json, &o, b->err) < 0)
		return -b->err->code;
	return rf_index_apply(b->s, b->k, NULL, o, b->err);
}

static int rebuild_bytes(struct rf_store *s, struct rf_err *err)
{
	sqlite3_stmt *st = rf_store_stmt(
		s, "SELECT ns, sum(length(json)) FROM obj WHERE ns <> '' GROUP BY ns", err);
	int r;

	if (st == NULL)
		return -err->code;
	while ((r = rf_store_step(s, st, err)) == 1)
		if (rf_index_grow(s, rf_store_col(st, 0), sqlite3_column_int64(st, 1), err) < 0)
			break;
	rf_store_stmt_put(st);
	return r == 1 ? -err->code : r;
}

int rf_index_open(struct rf_store *s, struct rf_err *err)
{
	static const char *const KINDS[] = { "namespaces", "pods", "resourceclaims" };

	if (sqlite3_exec(rf_store_db(s), SETUP, NULL, NULL, NULL) != SQLITE_OK)
		return rf_fail(err, RF_SYSTEM, "make the index: %s",
			       sqlite3_errmsg(rf_store_db(s)));
	if (rebuild_bytes(s, err) < 0)
		return rf_wrap(err, "count what is stored");
	for (size_t i = 0; i < RF_COUNT(KINDS); i++) {
		struct rebuild b = { s, rf_kind_get(KINDS[i]), err };
		struct rf_list l = { .kind = b.k, .each = rebuild_row, .ctx = &b };

		if (rf_store_list(s, &l, err) < 0)
			return rf_wrap(err, "read %s", KINDS[i]);
	}
	return 0;
}
