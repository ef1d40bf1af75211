#include "node/hold.h"

#include "tenant/tenant.h"

static bool has_finalizer(const struct rf_json *claim)
{
	const struct rf_json *list = rf_json_at(claim, "metadata", "finalizers");

	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_str_is(rf_json_str(rf_json_item(list, i)), RF_PREPARED_FINALIZER))
			return true;
	return false;
}

/* With the resourceVersion that was read: somebody else's finalizer is never lost. */
static int patch_finalizers(struct rf_kube *k, const struct rf_json *claim, bool add,
			    struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *have = rf_json_at(claim, "metadata", "finalizers");
	struct rf_json *list = rf_json_array(&a);

	for (size_t i = 0; i < rf_json_len(have); i++)
		if (!rf_str_is(rf_json_str(rf_json_item(have, i)), RF_PREPARED_FINALIZER))
			rf_json_push(&a, list, rf_json_clone(&a, rf_json_item(have, i)));
	if (add)
		rf_json_push(&a, list, rf_json_string(&a, RF_LIT(RF_PREPARED_FINALIZER)));
	struct rf_json *patch =
		rf_json_make(&a, "{'metadata':{'resourceVersion':%S,'finalizers':%j}}",
			     rf_json_str_at(claim, "metadata", "resourceVersion"), list);
	return rf_kube_patch(k, &a,
			     rf_kube_path(&a, &RF_RESOURCECLAIMS, rf_kube_namespace(claim),
					  rf_kube_name(claim), NULL),
			     RF_PATCH_MERGE, patch, NULL, err);
}

int rf_claim_hold(struct rf_kube *k, const struct rf_json *claim, struct rf_err *err)
{
	if (has_finalizer(claim) || patch_finalizers(k, claim, true, err) == 0)
		return 0;
	return rf_wrap(err, "hold claim %.*s", RF_STR(rf_kube_name(claim)));
}

int rf_claim_let_go(struct rf_kube *k, struct rf_str ns, struct rf_str name, struct rf_str uid,
		    struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *claim;
	int rc = rf_kube_get(k, &a, rf_kube_path(&a, &RF_RESOURCECLAIMS, ns, name, NULL), &claim,
			     err);

	if (rc == -RF_NOT_FOUND)
		return 0;
	if (rc < 0)
		return rc;
	if ((uid.n > 0 && !rf_str_eq(uid, rf_kube_uid(claim))) || !has_finalizer(claim))
		return 0;
	rc = patch_finalizers(k, claim, false, err);
	return rc == -RF_NOT_FOUND ? 0 : rc;
}
