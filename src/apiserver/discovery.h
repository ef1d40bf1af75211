/* Discovery: what is served, for clients that ask first. All made from the table of kinds. */
#ifndef RF_APISERVER_DISCOVERY_H
#define RF_APISERVER_DISCOVERY_H

#include "apiserver/api.h"

/* True if the path is one of discovery's, OpenAPI's or health's, and was answered. */
bool rf_discovery_handle(struct rf_req *r);
/* Paths that need no authentication. */
bool rf_discovery_is_open(struct rf_str path);
/* For /version. */
#define RF_KUBE_MINOR "34"

bool rf_openapi_handle(struct rf_req *r);

#endif
