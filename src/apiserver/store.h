/* Store: every object and its recent history, in SQLite.
 *
 * obj holds what is, log what happened: one row per change, its key the resourceVersion, one counter
 * for all kinds. All changes of a request happen in one transaction, and a commit is on disk before it
 * returns (WAL, synchronous=FULL): what was acknowledged survives kill -9 and a power cut.
 * Reading copies nothing but what is asked for; SQLite's page cache is the only cache. */
#ifndef RF_APISERVER_STORE_H
#define RF_APISERVER_STORE_H

#include <sqlite3.h>

#include "apiserver/kinds.h"
#include "base/base.h"
#include "codec/json.h"

struct rf_store;

#define RF_OBJECT_MAX (1536 * 1024) /* bytes of JSON, as etcd's limit makes it in Kubernetes; of what is sent (write.h) */
#define RF_OBJECT_ROOM (512 * 1024) /* for what the platform adds: who fills an object must not keep it from ending */

enum rf_change_type { RF_ADDED, RF_MODIFIED, RF_DELETED };

struct rf_change {
	const struct rf_kind *kind;
	enum rf_change_type type;
	int64_t rv;
	struct rf_str ns, name;
	struct rf_str json; /* after the change; of a deletion: the last state under the new rv */
	struct rf_str prev; /* before the change; empty if there was none or it is forgotten */
};

struct rf_row {
	int64_t rv;
	struct rf_str ns, name, json; /* valid during the call only */
};

int rf_store_open(const char *path, const struct rf_clock *clock, struct rf_store **ret,
		  struct rf_err *err);
void rf_store_free(struct rf_store *s); /* NULL is fine */
RF_DEFINE_AUTO_PTR(store);
sqlite3 *rf_store_db(struct rf_store *s); /* for tables derived from the objects (index.c) */

int64_t rf_store_rv(const struct rf_store *s);	   /* of the newest change */
int64_t rf_store_oldest(const struct rf_store *s); /* history is complete after this one */

/* --- reading -------------------------------------------------------------------------------- */

/* RF_NOT_FOUND carries Kubernetes' text: pods "x" not found. */
int rf_store_get(struct rf_store *s, struct rf_arena *a, const struct rf_kind *k, struct rf_str ns,
		 struct rf_str name, struct rf_json **ret, struct rf_err *err);
bool rf_store_has(struct rf_store *s, const struct rf_kind *k, struct rf_str ns,
		  struct rf_str name);
struct rf_list {
	const struct rf_kind *kind;
	struct rf_str ns;				  /* empty: all */
	struct rf_str after_ns, after_name;		  /* go on behind this one */
	int (*each)(void *ctx, const struct rf_row *row); /* not 0: stop, and that comes back */
	void *ctx;
};
/* In order of namespace and name. The callback may read the store and not write it. */
int rf_store_list(struct rf_store *s, const struct rf_list *l, struct rf_err *err);
int64_t rf_store_count(struct rf_store *s, const struct rf_kind *k, struct rf_str ns);
/* Every change of the kind after that rv, oldest first. RF_GONE if history does not reach back. */
int rf_store_history(struct rf_store *s, const struct rf_kind *k, int64_t after,
		     int (*each)(void *ctx, const struct rf_change *c), void *ctx,
		     struct rf_err *err);

/* --- writing: between begin and commit or rollback -------------------------------------------- */

int rf_store_begin(struct rf_store *s, struct rf_err *err);
/* Writes object (its metadata.resourceVersion is set here); before is what it replaces or NULL. */
int rf_store_put(struct rf_store *s, struct rf_arena *a, const struct rf_kind *k,
		 const struct rf_json *before, struct rf_json *object, struct rf_err *err);
int rf_store_delete(struct rf_store *s, struct rf_arena *a, const struct rf_kind *k,
		    const struct rf_json *before, struct rf_json *last, struct rf_err *err);
/* Publishes every change of the transaction, in order, after it is on disk. */
int rf_store_commit(struct rf_store *s, void (*publish)(void *ctx, const struct rf_change *c),
		    void *ctx, struct rf_err *err);
void rf_store_rollback(struct rf_store *s);

/* How much larger the last put or delete made the objects stored, in bytes, and how large the object was. */
int64_t rf_store_last_growth(const struct rf_store *s);
size_t rf_store_last_size(const struct rf_store *s);

/* How much history to keep; whichever is less. */
struct rf_keep {
	int64_t ms, rows, bytes;
};
/* Forgets what is beyond, at most a batch; 1 if there is more to forget. */
int rf_store_trim(struct rf_store *s, const struct rf_keep *keep, struct rf_err *err);

/* --- for index.c ------------------------------------------------------------------------------ */

/* A statement of that constant text, prepared once and kept; NULL with err set. Release with put. */
sqlite3_stmt *rf_store_stmt(struct rf_store *s, const char *sql, struct rf_err *err);
void rf_store_stmt_put(sqlite3_stmt *st);
int rf_store_step(struct rf_store *s, sqlite3_stmt *st, struct rf_err *err); /* 1 row, 0 done */
void rf_store_bind(sqlite3_stmt *st, int i, struct rf_str s);
struct rf_str rf_store_col(sqlite3_stmt *st, int i);

#endif
