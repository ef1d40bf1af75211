/* Validation: is this object one that can mean something? Messages begin with the field's path. */
#ifndef RF_APISERVER_VALIDATE_H
#define RF_APISERVER_VALIDATE_H

#include "apiserver/kinds.h"
#include "codec/json.h"

/* old is NULL for new objects; with old, fields that may not change are checked too. The error reads
 * `Pod "x" is invalid: spec.containers: Required value`. */
int rf_validate(struct rf_arena *a, const struct rf_kind *k, const struct rf_json *old,
		const struct rf_json *o, struct rf_err *err);
int rf_validate_pod(struct rf_arena *a, const struct rf_json *pod, struct rf_err *err);
int rf_validate_pod_update(struct rf_arena *a, const struct rf_json *old, const struct rf_json *pod,
			   struct rf_err *err);
int rf_validate_queue(struct rf_arena *a, const struct rf_json *o, struct rf_err *err);
int rf_validate_gpupool(const struct rf_json *o, struct rf_err *err);
int rf_validate_podgroup(const struct rf_json *o, struct rf_err *err);

/* Kubernetes' own PriorityClasses: there from the start, and the only ones whose names begin with "system-". */
struct rf_system_class {
	const char *name;
	int64_t value;
	const char *description;
};
extern const struct rf_system_class rf_system_classes[2];

/* A map of quantities; each must be well formed and not negative. */
int rf_validate_quantities(const char *field, const struct rf_json *map, struct rf_err *err);

#endif
