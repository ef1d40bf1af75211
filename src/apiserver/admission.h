/* Admission: what an object may be, beyond being well formed, given who writes it and what else
 * exists. Runs inside the write transaction. */
#ifndef RF_APISERVER_ADMISSION_H
#define RF_APISERVER_ADMISSION_H

#include "apiserver/api.h"

int rf_admit_create(struct rf_req *r, const struct rf_kind *k, struct rf_json *o,
		    struct rf_err *err);
/* sub is the route's subresource, empty for the object itself. */
int rf_admit_update(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		    struct rf_json *o, struct rf_err *err);
int rf_admit_delete(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		    struct rf_err *err);

/* A new pod in another scheduler's words, before defaults; it is still to be admitted. */
int rf_admit_foreign(struct rf_req *r, struct rf_json *pod, struct rf_err *err);

/* The parts, each in its own file. */
/* A new pod's spec.priority and preemptionPolicy, which are its class's; one that its author wrote and that differs is
 * refused. */
int rf_admit_priority(struct rf_req *r, struct rf_json *pod, struct rf_err *err);
int rf_admit_priority_class(struct rf_req *r, const struct rf_json *o, struct rf_err *err);
int rf_admit_pod(struct rf_req *r, struct rf_json *pod, struct rf_err *err);
int rf_admit_group(struct rf_req *r, const struct rf_json *group, struct rf_err *err);
int rf_admit_rbac(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		  const struct rf_json *o, struct rf_err *err);
/* Node agents: only their own node, pods bound to it, its slices, leases and claims. old is NULL for
 * creations, o for deletions. */
int rf_admit_node(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		  const struct rf_json *o, struct rf_err *err);
/* What a node agent may get. */
int rf_admit_node_read(struct rf_req *r, const struct rf_kind *k, struct rf_err *err);
/* A claim's allocation and finalizer. */
int rf_admit_claim(struct rf_req *r, const struct rf_json *old, const struct rf_json *o,
		   struct rf_err *err);
int rf_admit_claim_delete(struct rf_req *r, const struct rf_json *old, struct rf_err *err);

#endif
