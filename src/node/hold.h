/* The finalizer by which an agent says that a claim's devices may still be in use. */
#ifndef RF_NODE_HOLD_H
#define RF_NODE_HOLD_H

#include "kube/kube.h"

/* Adds it to the claim as it was read; nothing if it is there. */
int rf_claim_hold(struct rf_kube *k, const struct rf_json *claim, struct rf_err *err);
/* Takes it off the claim of that name, if that is still the one with the uid (empty: any). */
int rf_claim_let_go(struct rf_kube *k, struct rf_str ns, struct rf_str name, struct rf_str uid,
		    struct rf_err *err);

#endif
