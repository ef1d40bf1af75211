/* Tables: the rows and columns `kubectl get` prints, made by the server (meta.k8s.io/v1 Table). */
#ifndef RF_APISERVER_TABLE_H
#define RF_APISERVER_TABLE_H

#include "apiserver/kinds.h"
#include "base/base.h"
#include "codec/json.h"

struct rf_table_cells {
	struct rf_arena *a;
	const struct rf_json *o;
	int64_t now_ms;
	struct rf_buf *out;
	bool first;
};

struct rf_table_column {
	const char *name;
	const char *type; /* "string", "integer", "date" */
	int priority;	  /* over 0: with -o wide only */
};

struct rf_table_kind {
	const char *plural;
	const struct rf_table_column *columns;
	size_t n_columns;
	void (*cells)(struct rf_table_cells *c); /* all but the name */
	bool name_last; /* the name stands last and shows with -o wide only */
};
/* In table_kinds.c; kinds not in there get NAME and AGE. */
const struct rf_table_kind *rf_table_kind(const struct rf_kind *k);
void rf_cell(struct rf_table_cells *c, struct rf_str text);
void rf_cell_int(struct rf_table_cells *c, int64_t i);
void rf_cell_age(struct rf_table_cells *c); /* of the object */
void rf_cell_since(struct rf_table_cells *c, struct rf_str time);

struct rf_table {
	struct rf_buf *out;
	const struct rf_kind *kind;
	const struct rf_table_kind *how;
	int64_t now_ms;
	bool objects; /* rows carry whole objects; else their metadata */
	size_t rows;
};
void rf_table_begin(struct rf_table *t, struct rf_buf *out, const struct rf_kind *k, int64_t now_ms,
		    bool objects);
void rf_table_row(struct rf_table *t, const struct rf_json *object);
/* continue_token may be empty. */
void rf_table_end(struct rf_table *t, struct rf_str rv, struct rf_str continue_token);
/* PartialObjectMetadata. */
void rf_table_meta(struct rf_buf *out, const struct rf_json *object);

#endif
