#include "apiserver/store.h"

#include "apiserver/store_private.h"

/* Everything but the objects themselves: one page cache of a megabyte, no memory map. */
static const char SETUP[] =
	"PRAGMA auto_vacuum=INCREMENTAL;"
	"PRAGMA journal_mode=WAL;"
	"PRAGMA synchronous=FULL;"
	"PRAGMA foreign_keys=OFF;"
	"PRAGMA temp_store=MEMORY;"
	"PRAGMA cache_size=-1024;"
	"PRAGMA journal_size_limit=8388608;"
	"CREATE TABLE IF NOT EXISTS obj("
	" kind TEXT NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL,"
	" rv INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY(kind, ns, name)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS log("
	" rv INTEGER PRIMARY KEY, kind TEXT NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL,"
	" type INTEGER NOT NULL, prev INTEGER NOT NULL, at INTEGER NOT NULL, json TEXT NOT NULL);"
	"CREATE INDEX IF NOT EXISTS log_kind ON log(kind, rv);"
	"CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT "
	"ROWID;"
	"INSERT OR IGNORE INTO meta VALUES('format', 1);"
	"INSERT OR IGNORE INTO meta VALUES('oldest', 0);";

#define FORMAT 1
#define TX_KEEP (256 * 1024)

int rf_store_fail(struct rf_store *s, const char *what, struct rf_err *err)
{
	int code = sqlite3_errcode(s->db);

	return rf_fail(err, code == SQLITE_FULL ? RF_EXHAUSTED : RF_SYSTEM, "store: %s: %s", what,
		       sqlite3_errmsg(s->db));
}

static int exec(struct rf_store *s, const char *sql, struct rf_err *err)
{
	if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return rf_store_fail(s, sql, err);
	return 0;
}

/* --- statements ----------------------------------------------------------------------------- */

/* Texts are constants, so their address is their identity. One that is in use (a list whose callback
 * lists) gets a second copy. */
sqlite3_stmt *rf_store_stmt(struct rf_store *s, const char *sql, struct rf_err *err)
{
	struct rf_store_stmt_slot slot = { .sql = sql };

	for (size_t i = 0; i < s->stmts.n; i++)
		if (s->stmts.at[i].sql == sql && !sqlite3_stmt_busy(s->stmts.at[i].st))
			return s->stmts.at[i].st;
	if (sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &slot.st, NULL) !=
	    SQLITE_OK) {
		rf_store_fail(s, sql, err);
		return NULL;
	}
	rf_vec_push(&s->stmts, slot);
	return slot.st;
}

void rf_store_stmt_put(sqlite3_stmt *st)
{
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
}

int rf_store_step(struct rf_store *s, sqlite3_stmt *st, struct rf_err *err)
{
	int r = sqlite3_step(st);

	if (r == SQLITE_ROW)
		return 1;
	if (r == SQLITE_DONE)
		return 0;
	return rf_store_fail(s, sqlite3_sql(st), err);
}

void rf_store_bind(sqlite3_stmt *st, int i, struct rf_str s)
{
	/* SQLITE_STATIC: what is bound outlives the step. An empty string is not NULL. */
	sqlite3_bind_text(st, i, s.n > 0 ? s.p : "", (int)s.n, SQLITE_STATIC);
}

struct rf_str rf_store_col(sqlite3_stmt *st, int i)
{
	const char *p = (const char *)sqlite3_column_text(st, i);

	return rf_str_n(p != NULL ? p : "", (size_t)sqlite3_column_bytes(st, i));
}

/* One number, or -1 if there is no row. */
static int64_t number(struct rf_store *s, const char *sql)
{
	sqlite3_stmt *st = rf_store_stmt(s, sql, NULL);
	int64_t n = -1;

	if (st == NULL)
		return -1;
	if (sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	rf_store_stmt_put(st);
	return n;
}

/* --- opening -------------------------------------------------------------------------------- */

static int open_db(struct rf_store *s, const char *path, struct rf_err *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;

	if (sqlite3_open_v2(path, &s->db, flags, NULL) != SQLITE_OK)
		return rf_store_fail(s, path, err);
	sqlite3_busy_timeout(s->db, 2000);
	if (exec(s, SETUP, err) < 0)
		return -err->code;
	if (number(s, "SELECT value FROM meta WHERE key='format'") != FORMAT)
		return rf_fail(
			err, RF_INVALID,
			"%s: written by another version of ringfence; use that one or another "
			"--data folder",
			path);
	s->rv = number(s, "SELECT coalesce(max(rv), 0) FROM log");
	s->oldest = number(s, "SELECT value FROM meta WHERE key='oldest'");
	s->log_bytes = number(s, "SELECT coalesce(sum(length(json)), 0) FROM log");
	if (s->rv < 0 || s->oldest < 0)
		return rf_store_fail(s, "read the last resourceVersion", err);
	return 0;
}

int rf_store_open(const char *path, const struct rf_clock *clock, struct rf_store **ret,
		  struct rf_err *err)
{
	rf_auto_ptr(store) s = rf_new(struct rf_store);

	s->clock = clock;
	if (open_db(s, path, err) < 0)
		return rf_wrap(err, "open %s", path);
	*ret = rf_take(s);
	return 0;
}

void rf_store_free(struct rf_store *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->stmts.n; i++)
		sqlite3_finalize(s->stmts.at[i].st);
	rf_vec_done(&s->stmts);
	rf_vec_done(&s->changes);
	rf_arena_done(&s->tx);
	sqlite3_close(s->db);
	free(s);
}

sqlite3 *rf_store_db(struct rf_store *s)
{
	return s->db;
}

int64_t rf_store_rv(const struct rf_store *s)
{
	return s->rv;
}

int64_t rf_store_oldest(const struct rf_store *s)
{
	return s->oldest;
}

/* --- transactions --------------------------------------------------------------------------- */

int rf_store_begin(struct rf_store *s, struct rf_err *err)
{
	rf_assert(!s->in_tx);
	if (exec(s, "BEGIN IMMEDIATE", err) < 0)
		return -err->code;
	s->in_tx = true;
	s->rv_before = s->rv;
	return 0;
}

static void tx_end(struct rf_store *s)
{
	s->in_tx = false;
	rf_vec_clear(&s->changes);
	/* One large transaction must not leave the process large for good. */
	if (s->tx.used > TX_KEEP)
		rf_arena_done(&s->tx);
	else
		rf_arena_reset(&s->tx);
}

void rf_store_rollback(struct rf_store *s)
{
	if (!s->in_tx)
		return;
	sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	s->rv = s->rv_before;
	tx_end(s);
}

int rf_store_commit(struct rf_store *s, void (*publish)(void *ctx, const struct rf_change *c),
		    void *ctx, struct rf_err *err)
{
	rf_assert(s->in_tx);
	if (exec(s, "COMMIT", err) < 0) {
		rf_store_rollback(s);
		return -err->code;
	}
	for (size_t i = 0; i < s->changes.n && publish != NULL; i++)
		publish(ctx, &s->changes.at[i]);
	tx_end(s);
	return 0;
}

static int write_log(struct rf_store *s, const struct rf_change *c, struct rf_str resource,
		     int64_t prev_rv, struct rf_err *err)
{
	sqlite3_stmt *st = rf_store_stmt(
		s, "INSERT INTO log(rv,kind,ns,name,type,prev,at,json) VALUES(?,?,?,?,?,?,?,?)",
		err);
	int r;

	if (st == NULL)
		return -err->code;
	sqlite3_bind_int64(st, 1, c->rv);
	rf_store_bind(st, 2, resource);
	rf_store_bind(st, 3, c->ns);
	rf_store_bind(st, 4, c->name);
	sqlite3_bind_int(st, 5, (int)c->type);
	sqlite3_bind_int64(st, 6, prev_rv);
	sqlite3_bind_int64(st, 7, rf_wall_ms(s->clock));
	rf_store_bind(st, 8, c->json);
	r = rf_store_step(s, st, err);
	rf_store_stmt_put(st);
	return r;
}

static int write_obj(struct rf_store *s, const struct rf_change *c, struct rf_str resource,
		     struct rf_str uid, struct rf_err *err)
{
	sqlite3_stmt *st = rf_store_stmt(
		s, "INSERT OR REPLACE INTO obj(kind,ns,name,uid,rv,json) VALUES(?,?,?,?,?,?)", err);
	int r;

	if (st == NULL)
		return -err->code;
	rf_store_bind(st, 1, resource);
	rf_store_bind(st, 2, c->ns);
	rf_store_bind(st, 3, c->name);
	rf_store_bind(st, 4, uid);
	sqlite3_bind_int64(st, 5, c->rv);
	rf_store_bind(st, 6, c->json);
	r = rf_store_step(s, st, err);
	rf_store_stmt_put(st);
	return r;
}

static int drop_obj(struct rf_store *s, const struct rf_change *c, struct rf_str resource,
		    struct rf_err *err)
{
	sqlite3_stmt *st =
		rf_store_stmt(s, "DELETE FROM obj WHERE kind=? AND ns=? AND name=?", err);
	int r;

	if (st == NULL)
		return -err->code;
	rf_store_bind(st, 1, resource);
	rf_store_bind(st, 2, c->ns);
	rf_store_bind(st, 3, c->name);
	r = rf_store_step(s, st, err);
	rf_store_stmt_put(st);
	return r;
}

static int write_change(struct rf_store *s, struct rf_arena *a, const struct rf_kind *k,
			enum rf_change_type type, const struct rf_json *before,
			struct rf_json *object, struct rf_err *err)
{
	struct rf_str resource = rf_kind_resource(a, k);
	struct rf_json *meta = rf_json_ensure(a, object, "metadata");
	struct rf_change c = { .kind = k, .type = type, .rv = s->rv + 1 };
	int64_t prev_rv = 0;

	rf_assert(s->in_tx);
	rf_json_set_str(a, meta, "resourceVersion", rf_arena_printf(a, "%lld", (long long)c.rv));
	c.ns = k->namespaced ? rf_arena_str(&s->tx, rf_json_str_at(meta, "namespace"))
			     : RF_STR_EMPTY;
	c.name = rf_arena_str(&s->tx, rf_json_str_at(meta, "name"));
	c.json = rf_json_text_of(&s->tx, object);
	if (type != RF_DELETED && c.json.n > RF_OBJECT_MAX + RF_OBJECT_ROOM)
		return rf_fail(err, RF_TOO_LARGE,
			       "%.*s \"%.*s\" has %zu bytes; an object may have %d at most",
			       RF_STR(resource), RF_STR(c.name), c.json.n, RF_OBJECT_MAX);
	c.prev = before != NULL ? rf_json_text_of(&s->tx, before) : RF_STR_EMPTY;
	rf_str_int(rf_json_str_at(before, "metadata", "resourceVersion"), &prev_rv, NULL);
	if (write_log(s, &c, resource, prev_rv, err) < 0)
		return -err->code;
	if (type == RF_DELETED ? drop_obj(s, &c, resource, err) < 0
			       : write_obj(s, &c, resource, rf_json_str_at(meta, "uid"), err) < 0)
		return -err->code;
	s->rv = c.rv;
	s->log_bytes += (int64_t)c.json.n;
	rf_vec_push(&s->changes, c);
	return 0;
}

int rf_store_put(struct rf_store *s, struct rf_arena *a, const struct rf_kind *k,
		 const struct rf_json *before, struct rf_json *object, struct rf_err *err)
{
	return write_change(s, a, k, before == NULL ? RF_ADDED : RF_MODIFIED, before, object, err);
}

int rf_store_delete(struct rf_store *s, struct rf_arena *a, const struct rf_kind *k,
		    const struct rf_json *before, struct rf_json *last, struct rf_err *err)
{
	return write_change(s, a, k, RF_DELETED, before, last, err);
}

int64_t rf_store_last_growth(const struct rf_store *s)
{
	const struct rf_change *c = &s->changes.at[s->changes.n - 1];

	rf_assert(s->changes.n > 0);
	return (c->type == RF_DELETED ? 0 : (int64_t)c->json.n) - (int64_t)c->prev.n;
}

size_t rf_store_last_size(const struct rf_store *s)
{
	rf_assert(s->changes.n > 0);
	return s->changes.at[s->changes.n - 1].json.n;
}

/* --- forgetting ----------------------------------------------------------------------------- */

#define TRIM_BATCH 500
#define TRIM_BATCH_BYTES 50 /* rows, when it is the bytes that are too many */

static int64_t trim_to(struct rf_store *s, const struct rf_keep *keep, struct rf_err *err)
{
	bool large = s->log_bytes > keep->bytes;
	sqlite3_stmt *st = rf_store_stmt(
		s,
		"SELECT max(rv) FROM (SELECT rv, at FROM log WHERE rv < ?1 ORDER BY rv LIMIT ?4)"
		" WHERE at < ?2 OR rv <= ?3",
		err);
	int64_t to = 0;

	if (st == NULL)
		return -err->code;
	sqlite3_bind_int64(st, 1, s->rv); /* the newest stays: it holds the counter */
	sqlite3_bind_int64(st, 2, large ? INT64_MAX : rf_wall_ms(s->clock) - keep->ms);
	sqlite3_bind_int64(st, 3, s->rv - keep->rows);
	sqlite3_bind_int(st, 4, large ? TRIM_BATCH_BYTES : TRIM_BATCH);
	if (rf_store_step(s, st, err) == 1)
		to = sqlite3_column_int64(st, 0);
	rf_store_stmt_put(st);
	return to;
}

/* Runs a statement with the number as its parameter; the first column of its row, or 0. */
static int64_t trim_run(struct rf_store *s, const char *sql, int64_t to, struct rf_err *err)
{
	sqlite3_stmt *st = rf_store_stmt(s, sql, err);
	int64_t r;

	if (st == NULL)
		return -err->code;
	sqlite3_bind_int64(st, 1, to);
	r = rf_store_step(s, st, err);
	if (r == 1)
		r = sqlite3_column_int64(st, 0);
	rf_store_stmt_put(st);
	return r;
}

static int forget(struct rf_store *s, int64_t to, int64_t *ret_bytes, struct rf_err *err)
{
	if (rf_store_begin(s, err) < 0)
		return -err->code;
	*ret_bytes = trim_run(s, "SELECT sum(length(json)) FROM log WHERE rv <= ?", to, err);
	if (*ret_bytes < 0 || trim_run(s, "DELETE FROM log WHERE rv <= ?", to, err) < 0 ||
	    trim_run(s, "UPDATE meta SET value = ? WHERE key='oldest'", to, err) < 0) {
		rf_store_rollback(s);
		return -err->code;
	}
	return rf_store_commit(s, NULL, NULL, err);
}

int rf_store_trim(struct rf_store *s, const struct rf_keep *keep, struct rf_err *err)
{
	int64_t to = trim_to(s, keep, err), bytes = 0;

	if (to <= 0)
		return (int)to;
	if (forget(s, to, &bytes, err) < 0)
		return -err->code;
	s->oldest = to;
	s->log_bytes -= bytes;
	return exec(s, "PRAGMA incremental_vacuum(200)", err) < 0 ? -err->code : 1;
}
