/* Index: small tables derived from the objects, for questions admission asks on every write: what a
 * namespace's pods use, whose namespace it is, who holds a device. They live in memory inside the same
 * SQLite connection, so they take part in the transaction and its rollback, and are made anew from
 * the objects at start: they cannot drift. Amounts are thousandths. */
#ifndef RF_APISERVER_INDEX_H
#define RF_APISERVER_INDEX_H

#include "apiserver/store.h"

int rf_index_open(struct rf_store *s, struct rf_err *err);
/* To be called with every write; before or after may be NULL. */
int rf_index_apply(struct rf_store *s, const struct rf_kind *k, const struct rf_json *before,
		   const struct rf_json *after, struct rf_err *err);

/* What one pod is charged with: "pods", "requests.cpu", "limits.memory", "requests.ringfence.io/gpu" (all
 * whole cards, by whatever name they were asked for, and under that name too). */
struct rf_charge {
	struct rf_str resource;
	int64_t milli;
};
struct rf_charges {
	struct rf_charge *at;
	size_t n, cap;
};
/* The most that a namespace's pods may use of anything: what is more could not be added up. */
#define RF_USED_MAX (INT64_MAX / 4)
/* Empty for a pod that no longer counts. A sum too large for the type is INT64_MAX. */
void rf_charges_of_pod(struct rf_arena *a, const struct rf_json *pod, struct rf_charges *ret);
int64_t rf_charges_get(const struct rf_charges *c, struct rf_str resource);

/* Bytes of the objects in a namespace, as if it were a resource in use (in thousandths, too). */
#define RF_RES_BYTES "ringfence.io/bytes"
int rf_index_grow(struct rf_store *s, struct rf_str ns, int64_t bytes, struct rf_err *err);
int64_t rf_index_used(struct rf_store *s, struct rf_str ns, struct rf_str resource);
int64_t rf_index_tenant_used(struct rf_store *s, struct rf_str tenant, struct rf_str resource);
struct rf_str rf_index_tenant_of(struct rf_store *s, struct rf_arena *a, struct rf_str ns);

/* What claims other than ns/name hold of a device ("driver/pool/device"). */
struct rf_held {
	int64_t claims;
	int64_t whole; /* of them without an amount: the whole device */
	int64_t memory, compute;
};
int rf_index_held(struct rf_store *s, struct rf_str device, struct rf_str ns, struct rf_str name,
		  struct rf_held *ret, struct rf_err *err);
/* Those claims, as an array of {ns, name}. */
int rf_index_holders(struct rf_store *s, struct rf_arena *a, struct rf_str device, struct rf_str ns,
		     struct rf_str name, struct rf_json **ret, struct rf_err *err);
struct rf_str rf_device_key(struct rf_arena *a, const struct rf_json *result);
/* -1 if the result does not say. */
int64_t rf_device_amount(const struct rf_json *result, const char *what);

#endif
