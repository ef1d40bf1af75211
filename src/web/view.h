/* Rows for people: cards and pods as the API's objects tell of them. Used by the listing verbs and the dashboard. */
#ifndef RF_WEB_VIEW_H
#define RF_WEB_VIEW_H

#include "base/base.h"
#include "codec/json.h"

/* One row a card, from ResourceSlices and ResourceClaims. */
struct rf_json *rf_view_cards(struct rf_arena *a, const struct rf_json *slices, const struct rf_json *claims);
/* One row a pod, from Pods, Namespaces (for the tenant) and ResourceClaims. */
struct rf_json *rf_view_pods(struct rf_arena *a, const struct rf_json *pods, const struct rf_json *namespaces,
			     const struct rf_json *claims, int64_t now_ms);
/* One row a Tenant, with the reason where it is not ready. */
struct rf_json *rf_view_tenants(struct rf_arena *a, const struct rf_json *tenants);

#endif
