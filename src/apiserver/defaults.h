/* Defaults: what an object gets where its author said nothing. */
#ifndef RF_APISERVER_DEFAULTS_H
#define RF_APISERVER_DEFAULTS_H

#include "apiserver/kinds.h"
#include "codec/json.h"

/* Fields that hold on every write. */
void rf_default(struct rf_arena *a, const struct rf_kind *k, struct rf_json *o);
/* Fields set once, at creation: status, finalizers. */
void rf_default_new(struct rf_arena *a, const struct rf_kind *k, struct rf_json *o);

#endif
