/* What store.c and store_read.c share. */
#ifndef RF_APISERVER_STORE_PRIVATE_H
#define RF_APISERVER_STORE_PRIVATE_H

#include "apiserver/store.h"

struct rf_store_stmt_slot {
	const char *sql;
	sqlite3_stmt *st;
};

struct rf_store {
	sqlite3 *db;
	const struct rf_clock *clock;
	int64_t rv;
	int64_t rv_before; /* of the transaction */
	int64_t oldest;
	int64_t log_bytes; /* of JSON in the history; about right is enough */
	bool in_tx;
	RF_VEC(struct rf_store_stmt_slot) stmts;
	RF_VEC(struct rf_change) changes; /* of the transaction, to be published */
	struct rf_arena tx;		  /* their strings */
};

int rf_store_fail(struct rf_store *s, const char *what, struct rf_err *err);

#endif
