/* RBAC: who may do what, from Roles, ClusterRoles and their bindings. Works on a copy of the stored
 * rules that is read again after any of them changed. */
#ifndef RF_APISERVER_RBAC_H
#define RF_APISERVER_RBAC_H

#include "apiserver/api.h"

struct rf_rbac *rf_rbac_new(struct rf_store *store);
void rf_rbac_free(struct rf_rbac *b);
void rf_rbac_changed(struct rf_rbac *b); /* a role or binding was written, or a write was undone */

/* Another number than before: what was allowed may no longer be. */
uint64_t rf_rbac_generation(const struct rf_rbac *b);

/* What is asked; a request for a path has path set and the rest empty. */
struct rf_ask {
	struct rf_str verb;
	struct rf_str group, resource, sub, name, ns;
	struct rf_str path;
};
bool rf_rbac_allows(struct rf_rbac *b, const struct rf_user *u, const struct rf_ask *ask);
/* The rules that hold for the user in the namespace, as PolicyRule objects. Cluster-wide only if ns is
 * empty. */
struct rf_json *rf_rbac_rules(struct rf_rbac *b, struct rf_arena *a, const struct rf_user *u,
			      struct rf_str ns);

/* May this user grant all these rules in that namespace (empty: everywhere)? Who may not gets told
 * the first thing that he lacks. */
int rf_rbac_covers(struct rf_rbac *b, const struct rf_user *u, struct rf_str ns,
		   const struct rf_json *rules, struct rf_err *err);
/* The rules of a Role or ClusterRole, aggregation included; NULL if there is no such role. */
const struct rf_json *rf_rbac_role_rules(struct rf_rbac *b, struct rf_str kind, struct rf_str ns,
					 struct rf_str name);

/* What the request's route asks. */
struct rf_ask rf_rbac_ask(const struct rf_route *t, const char *verb);
/* RF_FORBIDDEN with Kubernetes' text if the request's route is not allowed. */
int rf_rbac_authorize(struct rf_req *r, struct rf_err *err);
int rf_rbac_authorize_path(struct rf_req *r, struct rf_err *err);

#endif
