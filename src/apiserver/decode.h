/* Request bodies: JSON, YAML or protobuf, all into JSON values. */
#ifndef RF_APISERVER_DECODE_H
#define RF_APISERVER_DECODE_H

#include "base/base.h"
#include "codec/json.h"

/* content_type may carry parameters; empty counts as JSON. RF_UNSUPPORTED for other types. */
int rf_decode_body(struct rf_arena *a, struct rf_str content_type, struct rf_str body,
		   struct rf_json **ret, struct rf_err *err);
/* The "k8s\0" envelope; the type must be in the schema table. */
int rf_decode_protobuf(struct rf_arena *a, struct rf_str body, struct rf_json **ret,
		       struct rf_err *err);
/* "application/json; charset=utf-8" -> "application/json" */
struct rf_str rf_media_type(struct rf_str content_type);

#endif
