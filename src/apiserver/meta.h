/* Metadata: what every object carries and who may change it. */
#ifndef RF_APISERVER_META_H
#define RF_APISERVER_META_H

#include "apiserver/api.h"

/* A new object: name (or generateName) checked, namespace of the request, uid, time, generation. */
int rf_meta_create(struct rf_req *r, const struct rf_kind *k, struct rf_json *o,
		   struct rf_err *err);
/* For objects ringfence makes itself. */
void rf_meta_stamp(struct rf_api *api, struct rf_arena *a, struct rf_json *o);
/* A changed object: what only the server writes comes from old; RF_CONFLICT if somebody else wrote
 * first. */
int rf_meta_update(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		   struct rf_json *o, struct rf_err *err);
/* Labels, annotations, finalizers. Messages begin with the field. */
int rf_meta_validate(const struct rf_json *o, struct rf_err *err);
/* Counts the generation up if spec changed. */
void rf_meta_generation(struct rf_arena *a, const struct rf_json *old, struct rf_json *o);
bool rf_meta_has_finalizer(const struct rf_json *o, const char *finalizer);

#endif
