/* Policies: the cluster's book (policy/book.h) kept in step with the store, and asked before anything is
 * written. As both happen in the request's transaction, on the one thread there is, what a policy sees of
 * other objects is what the write will stand beside: two writes that exclude each other never both pass.
 *
 * Policies are ConstraintTemplates, their constraints, and labelled ConfigMaps (RF_BOOK_LABEL). Writes of
 * policies are checked, not judged: no policy can keep administrators from changing it. Nor are control, the
 * node agents and writes of status judged: no policy can lock the platform. Deletions are judged by policies
 * that speak of DELETE. */
#ifndef RF_APISERVER_POLICIES_H
#define RF_APISERVER_POLICIES_H

#include "apiserver/api.h"
#include "policy/gatekeeper.h"

struct rf_book;
struct rf_sync;

struct rf_policies *rf_policies_new(void);
void rf_policies_free(struct rf_policies *p); /* NULL is fine */
/* The book and the kinds of constraints, made anew from the store. A policy that cannot be used any more
 * (another version of ringfence took it) refuses every write that is judged, until it is changed or
 * deleted. */
void rf_policies_load(struct rf_api *api);

/* --- for write.c ------------------------------------------------------------------------------ */

/* Every write is noted; what concerns policies takes effect with the commit. */
void rf_policies_note(struct rf_policies *p, const struct rf_kind *k, const struct rf_json *before,
		      const struct rf_json *after);
/* With a template go its constraints. */
int rf_policies_settle(struct rf_api *api, struct rf_arena *a, struct rf_err *err);
int rf_policies_apply(struct rf_policies *p, struct rf_err *err);
void rf_policies_forget(struct rf_policies *p);

/* --- for admission ---------------------------------------------------------------------------- */

/* If o is a policy: does it compile, does it fit? old may be NULL. */
int rf_policies_check(struct rf_policies *p, struct rf_arena *a, const struct rf_kind *k,
		      const struct rf_json *old, const struct rf_json *o, struct rf_err *err);
/* What the policies say to the request. operation: CREATE, UPDATE (both have o) or DELETE (old only).
 * RF_FORBIDDEN with r->denied set; warnings go to r->warnings. What cannot be judged is refused. */
int rf_policies_judge(struct rf_req *r, const char *operation, const struct rf_json *old,
		      const struct rf_json *o, struct rf_err *err);

/* --- between its files ------------------------------------------------------------------------ */

/* Whether the object is a policy (NULL is none). */
bool rf_policies_has(const struct rf_kind *k, const struct rf_json *o);
bool rf_policies_any(const struct rf_policies *p); /* whether there is anything to judge by */
/* Those that judge deletions, or all others. An error: one cannot be used. */
int rf_policies_book(struct rf_api *api, bool deletion, const struct rf_book **ret,
		     struct rf_err *err);
struct rf_sync *rf_policies_sync(struct rf_policies *p);

/* --- what referential policies see (policies_inventory.c) --------------------------------------- */

#define RF_INVENTORY_BYTES ((size_t)16 << 20) /* of JSON; more is refused, not cut */
#define RF_JUDGE_MEMORY ((size_t)256 << 20)

struct rf_sync_kind {
	struct rf_str group, kind;
};
/* Which kinds the templates (metadata.gatekeeper.sh/requires-sync-data), Config and SyncSets name. */
struct rf_sync {
	bool known; /* false: to be read from the store */
	bool all;   /* somebody did not say */
	struct rf_arena a;
	RF_VEC(struct rf_sync_kind) kinds;
};
void rf_sync_forget(struct rf_sync *s);
/* Config and SyncSet: Gatekeeper's own settings. */
bool rf_sync_is_setting(const struct rf_kind *k);
int rf_inventory_gather(struct rf_store *store, struct rf_sync *sync, struct rf_arena *a,
			struct rf_rv *ret, struct rf_err *err);

#endif
