/* Kubernetes quantities ("20Gi", "500m", "1e3", "2") as integers, never as floats. */
#ifndef RF_BASE_QUANTITY_H
#define RF_BASE_QUANTITY_H

#include "base/arena.h"

/* In thousandths, rounded up as Kubernetes rounds; RF_INVALID if malformed or out of range. */
int rf_quantity_milli(struct rf_str s, int64_t *ret_milli, struct rf_err *err);
/* In whole units, rounded up: bytes, cards. */
int rf_quantity_value(struct rf_str s, int64_t *ret_value, struct rf_err *err);
/* "20Gi", "1536Mi", "1000": the largest binary unit that holds the value exactly. */
struct rf_str rf_quantity_bytes(struct rf_arena *a, int64_t bytes);
/* "2", "500m": decimal, thousandths. */
struct rf_str rf_quantity_format_milli(struct rf_arena *a, int64_t milli);

#endif
