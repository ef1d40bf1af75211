/* Deletes the claims of pods that ended, vanished or were replaced by another of their name. The
 * claim keeps its device until the node agent has let go of it: that is the agent's finalizer. */
#include "control/private.h"

/* The informers of pods and claims are not in step; only the server's own word costs a claim. */
static int ask_server(struct rf_control *c, struct rf_arena *a, const struct rf_json *claim,
		      bool *ret_orphaned, struct rf_err *err)
{
	struct rf_json *pod = NULL;
	struct rf_str name = rf_claim_owner(claim, "name");
	int rc = rf_kube_get(c->kube, a,
			     rf_kube_path(a, &RF_PODS, rf_kube_namespace(claim), name, NULL), &pod,
			     err);

	if (rc < 0 && rc != -RF_NOT_FOUND)
		return rc;
	*ret_orphaned = rf_claim_orphaned(claim, rc == 0 ? pod : NULL);
	return 0;
}

static int collect(struct rf_control *c, const struct rf_json *claim, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str ns = rf_kube_namespace(claim), name = rf_kube_name(claim);
	bool orphaned = false;
	int rc = 0;

	if (ask_server(c, &a, claim, &orphaned, err) < 0)
		return rf_wrap(err, "claim %.*s/%.*s: look for its pod", RF_STR(ns), RF_STR(name));
	if (!orphaned)
		return 0;
	rc = rf_kube_delete_this(c->kube, &a, rf_kube_path(&a, &RF_RESOURCECLAIMS, ns, name, NULL), rf_kube_uid(claim),
				 RF_STR_EMPTY, err);
	if (rc == -RF_CONFLICT)
		return 0; /* it is gone, and another has its name: we shall hear of that one */
	if (rc < 0)
		return rf_wrap(err, "claim %.*s/%.*s: delete it", RF_STR(ns), RF_STR(name));
	rf_info("claim %.*s/%.*s: deleted, pod %.*s has ended or is gone", RF_STR(ns), RF_STR(name),
		RF_STR(rf_claim_owner(claim, "name")));
	return 0;
}

static bool collect_one(struct rf_control *c, struct rf_str key)
{
	struct rf_str name = key, ns = RF_STR_EMPTY;
	const struct rf_json *claim = NULL, *pod = NULL;
	struct rf_err err = RF_ERR_INIT;

	rf_str_cut(&name, '/', &ns);
	claim = rf_informer_get(c->informers[RF_I_CLAIMS], ns, name);
	if (claim == NULL || !rf_claim_is_ours(claim) || rf_kube_deleting(claim))
		return true;
	pod = rf_informer_get(c->informers[RF_I_PODS], ns, rf_claim_owner(claim, "name"));
	if (!rf_claim_orphaned(claim, pod) || collect(c, claim, &err) == 0)
		return true;
	rf_warn("%s", err.msg);
	return false;
}

/* Those whose pod ended or went, and new ones. What fails stays. */
bool rf_control_collect(struct rf_control *c)
{
	struct rf_map some = c->claims_some;
	bool ok = true;

	c->claims_some = (struct rf_map)RF_MAP_INIT;
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&some, s)) != NULL;) {
		if (rf_control_leads(c) && collect_one(c, rf_map_key(s)))
			continue;
		(void)rf_map_set(&c->claims_some, rf_map_key(s), c);
		ok = false;
	}
	rf_map_done(&some);
	return ok;
}
