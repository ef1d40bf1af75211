/* The messages between a kubelet and its plugins, as protobuf: device plugin v1beta1, DRA v1 (v1beta1
 * is the same without share ids), plugin registration, pod-resources v1. Pure: bytes in, structs out.
 * Fields that are not known are skipped; counts are capped. */
#ifndef RF_PLUGIN_KUBELET_API_H
#define RF_PLUGIN_KUBELET_API_H

#include "base/base.h"

#define RF_KAPI_ITEMS_MAX 4096

/* --- device plugin ---------------------------------------------------------------------------- */

struct rf_kapi_ids {
	struct rf_str *at;
	size_t n;
};
/* Sets of the same ids, in any order. */
bool rf_kapi_same_ids(const struct rf_kapi_ids *a, const struct rf_kapi_ids *b);

void rf_kapi_register(struct rf_buf *out, struct rf_str endpoint, struct rf_str resource);
void rf_kapi_options(struct rf_buf *out); /* PreStartContainer is wanted */
/* One entry of ListAndWatchResponse. */
void rf_kapi_device(struct rf_buf *out, struct rf_str id, bool healthy);
/* One entry per container of an AllocateRequest. */
int rf_kapi_read_allocate(struct rf_arena *a, struct rf_str in, struct rf_kapi_ids **ret,
			  size_t *ret_n, struct rf_err *err);
/* One entry of AllocateResponse. */
void rf_kapi_allocated(struct rf_buf *out, struct rf_str cdi_device);
int rf_kapi_read_prestart(struct rf_arena *a, struct rf_str in, struct rf_kapi_ids *ret,
			  struct rf_err *err);
/* The first container's wish of a PreferredAllocationRequest, answered: what must be in it, then what
 * is there in order. Slots are all the same. */
int rf_kapi_prefer(struct rf_arena *a, struct rf_str in, struct rf_buf *out, struct rf_err *err);

/* --- whose are these devices? (pod-resources) ------------------------------------------------- */

struct rf_kapi_owner {
	struct rf_str ns, pod, container;
};
/* Looks through a ListPodResourcesResponse for the container that has exactly these ids of the
 * resource. RF_NOT_FOUND if none has, RF_CONFLICT if several have. */
int rf_kapi_find_owner(struct rf_arena *a, struct rf_str in, struct rf_str resource,
		       const struct rf_kapi_ids *ids, struct rf_kapi_owner *ret,
		       struct rf_err *err);

/* --- DRA -------------------------------------------------------------------------------------- */

void rf_kapi_plugin_info(struct rf_buf *out, struct rf_str driver, struct rf_str endpoint);
/* False with the kubelet's reason if it did not register us. */
int rf_kapi_read_status(struct rf_str in, bool *ret_registered, struct rf_str *ret_reason,
			struct rf_err *err);

struct rf_kapi_claim {
	struct rf_str ns, uid, name;
};
int rf_kapi_read_claims(struct rf_arena *a, struct rf_str in, struct rf_kapi_claim **ret,
			size_t *ret_n, struct rf_err *err);
/* A device of a prepared claim; cdi and share may be empty. */
void rf_kapi_prepared_device(struct rf_buf *out, struct rf_str request, struct rf_str pool,
			     struct rf_str device, struct rf_str cdi, struct rf_str share);
/* One claim's entry of NodePrepareResourcesResponse: its devices as made above, or an error. */
void rf_kapi_prepared(struct rf_buf *out, struct rf_str uid, struct rf_str devices,
		      struct rf_str error);
void rf_kapi_unprepared(struct rf_buf *out, struct rf_str uid, struct rf_str error);

#endif
