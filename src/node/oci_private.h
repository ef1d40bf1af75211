#ifndef RF_NODE_OCI_PRIVATE_H
#define RF_NODE_OCI_PRIVATE_H

#include "node/oci.h"

int rf_oci_process(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json **ret,
		   struct rf_err *err);
int rf_oci_mounts(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json **ret,
		  struct rf_err *err);

#endif
