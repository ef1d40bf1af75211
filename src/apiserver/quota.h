/* Quota of a namespace (ResourceQuota); a tenant's, over all its namespaces, is admission's. Both are
 * checked and counted inside the transaction that writes, so no interleaving can exceed one. */
#ifndef RF_APISERVER_QUOTA_H
#define RF_APISERVER_QUOTA_H

#include "apiserver/api.h"

/* May this new object come into its namespace? RF_FORBIDDEN names the quota and what is left. */
int rf_quota_check(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
		   const struct rf_json *o, struct rf_err *err);
/* What tenants store lies on the platform's disk: a namespace may hold so much. Ringfence's own
 * processes and administrators are not counted out. old is NULL for new objects. */
#define RF_NAMESPACE_BYTES (64 << 20)
int rf_quota_check_bytes(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
			 const struct rf_json *o, struct rf_err *err);
/* Writes status.hard and status.used of the namespace's quotas where they changed. */
int rf_quota_refresh(struct rf_api *api, struct rf_arena *a, struct rf_str ns, struct rf_err *err);

#endif
