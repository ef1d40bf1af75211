/* Write: the one way objects change. Keeps the index, quotas, RBAC's copy, the book of policies and dying
 * namespaces in step, all in the request's transaction. */
#ifndef RF_APISERVER_WRITE_H
#define RF_APISERVER_WRITE_H

#include "apiserver/api.h"

int rf_write_begin(struct rf_api *api, struct rf_err *err);
/* before is NULL for a new object. */
int rf_write_put(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
		 const struct rf_json *before, struct rf_json *after, struct rf_err *err);
/* The same for a whole object that somebody sent, up to RF_OBJECT_MAX; more than that is for what the platform adds. */
int rf_write_sent(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k, const struct rf_json *before,
		  struct rf_json *after, struct rf_err *err);
int rf_write_remove(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
		    const struct rf_json *before, struct rf_err *err);
/* Settles quotas and namespaces, commits, tells the watchers. dry_run: settles, then undoes all. */
int rf_write_commit(struct rf_api *api, bool dry_run, struct rf_err *err);
void rf_write_rollback(struct rf_api *api);

/* --- deleting (deletion.c) ---------------------------------------------------------------------- */

struct rf_deletion {
	int64_t grace_s; /* -1: the pod's own */
	bool may_force;	 /* a running pod may go before its node says that it is gone */
};
/* Deletes, or marks for deletion what has finalizers or must end in its time. *ret_left is the object
 * that stays behind, or NULL. */
int rf_delete_object(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
		     const struct rf_json *before, const struct rf_deletion *how,
		     struct rf_json **ret_left, struct rf_err *err);
/* An object marked for deletion whose last finalizer and grace are gone. */
bool rf_deletion_complete(const struct rf_kind *k, const struct rf_json *o);
/* Goes on with the end of a namespace; one that lives only keeps its service account. */
int rf_namespace_settle(struct rf_api *api, struct rf_arena *a, struct rf_str ns,
			struct rf_err *err);

/* Every namespace that lives has a service account for pods that name none. */
int rf_account_ensure(struct rf_api *api, struct rf_arena *a, struct rf_str ns, struct rf_err *err);

#endif
