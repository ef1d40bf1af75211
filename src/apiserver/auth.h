/* Authentication: client certificates, service account tokens, impersonation. */
#ifndef RF_APISERVER_AUTH_H
#define RF_APISERVER_AUTH_H

#include "apiserver/api.h"

#define RF_TOKEN_AUDIENCE "https://kubernetes.default.svc.cluster.local"

/* Fills r->user. RF_UNAUTHENTICATED if the request does not say who it comes from, or not truly. */
int rf_authenticate(struct rf_req *r, struct rf_err *err);
/* Impersonate-User and -Group, if the user may. */
int rf_impersonate(struct rf_req *r, struct rf_err *err);

/* What a token says, once its signature, time and audience hold and its service account (and the pod
 * it is bound to) still is the one it was made for. audience empty: this API server's. */
int rf_token_verify(struct rf_api *api, struct rf_arena *a, struct rf_str token,
		    struct rf_str audience, struct rf_user *ret, struct rf_err *err);

#endif
