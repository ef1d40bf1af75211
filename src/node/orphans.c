/* What earlier agents left behind: pods the API no longer knows, cgroups, claims still held. */
#include <stdio.h>

#include "base/fs.h"
#include "node/agent.h"
#include "node/cgroup.h"
#include "node/volume.h"
#include "tenant/tenant.h"

/* True once nothing of the pod is left. */
static bool end_pod(struct rf_agent *g, struct rf_str uid)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str path = rf_cgroup_path(&a, g->instance, uid, RF_STR_EMPTY);
	const char *dir = rf_fs_path(&a, "%s/pods/%.*s", g->data_dir, RF_STR(uid));
	struct rf_str *names = NULL;
	struct rf_err err = RF_ERR_INIT;
	size_t n = 0;

	(void)rf_fs_list(&a, dir, &names, &n, NULL);
	bool busy = rf_cgroup_kill(&a, path) > 0;
	for (size_t i = 0; i < n; i++)
		busy = rf_shim_holder(rf_fs_path(&a, "%s/%s", dir, names[i].p)) > 0 || busy;
	if (busy)
		return false; /* killed; gone at the next look */
	for (size_t i = 0; i < n; i++)
		if (rf_fs_exists(rf_fs_path(&a, "%s/%s/state.json", dir, names[i].p)))
			rf_container_delete_state(
				g, rf_fs_path(&a, "rf-%.*s-%s", RF_STR(uid), names[i].p));
	(void)rf_cgroup_remove(&a, path);
	if (rf_volumes_unmount(rf_fs_path(&a, "%s/" RF_VOLUMES_DIR, dir), &err) < 0)
		rf_warn("left-over pod %.*s: %s", RF_STR(uid), err.msg);
	rf_agent_discard(g, dir);
	rf_info("left-over pod %.*s removed", RF_STR(uid));
	return true;
}

static bool sweep_pods(struct rf_agent *g)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str *names = NULL, *uids = NULL;
	size_t n = 0, n_uids;
	bool clean = true;

	(void)rf_fs_list(&a, rf_fs_path(&a, "%s/pods", g->data_dir), &names, &n, NULL);
	for (size_t i = 0; i < n; i++)
		if (rf_map_get(&g->workers, names[i]) == NULL)
			clean = end_pod(g, names[i]) && clean;
	n_uids = rf_cgroup_pods(&a, g->instance, &uids);
	for (size_t i = 0; i < n_uids; i++)
		if (rf_map_get(&g->workers, uids[i]) == NULL)
			clean = end_pod(g, uids[i]) && clean;
	return clean;
}

static bool is_ours(const struct rf_agent *g, const struct rf_json *claim)
{
	const struct rf_json *f = rf_json_at(claim, "metadata", "finalizers");
	const struct rf_json *r =
		rf_json_item(rf_json_at(claim, "status", "allocation", "devices", "results"), 0);

	if (!rf_str_eq(rf_json_str_at(r, "pool"), g->name))
		return false;
	for (size_t i = 0; i < rf_json_len(f); i++)
		if (rf_str_is(rf_json_str(rf_json_item(f, i)), RF_PREPARED_FINALIZER))
			return true;
	return false;
}

/* The pod a claim was reserved for, or its owner if the reservation is gone already. */
static struct rf_str holder_of(const struct rf_json *claim)
{
	struct rf_str uid =
		rf_json_str_at(rf_json_item(rf_json_at(claim, "status", "reservedFor"), 0), "uid");

	return uid.n > 0
		       ? uid
		       : rf_json_str_at(
				 rf_json_item(rf_json_at(claim, "metadata", "ownerReferences"), 0),
				 "uid");
}

static void release(struct rf_agent *g, const struct rf_json *claim)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	const struct rf_json *have = rf_json_at(claim, "metadata", "finalizers");
	struct rf_json *list = rf_json_array(&a);

	for (size_t i = 0; i < rf_json_len(have); i++)
		if (!rf_str_is(rf_json_str(rf_json_item(have, i)), RF_PREPARED_FINALIZER))
			rf_json_push(&a, list, rf_json_clone(&a, rf_json_item(have, i)));
	struct rf_json *patch =
		rf_json_make(&a, "{'metadata':{'resourceVersion':%S,'finalizers':%j}}",
			     rf_json_str_at(claim, "metadata", "resourceVersion"), list);
	if (rf_kube_patch(g->kube, &a,
			  rf_kube_path(&a, &RF_RESOURCECLAIMS, rf_kube_namespace(claim),
				       rf_kube_name(claim), NULL),
			  RF_PATCH_MERGE, patch, NULL, &err) < 0 &&
	    err.code != RF_NOT_FOUND && err.code != RF_CONFLICT)
		rf_warn("let go of claim %.*s: %s", RF_STR(rf_kube_name(claim)), err.msg);
}

/* Claims whose pod is not here any more, and has no process left, are let go. */
static void sweep_claims(struct rf_agent *g)
{
	const struct rf_map_slot *slot = NULL;
	const struct rf_json *claim;

	while ((claim = rf_informer_next(g->claims, &slot)) != NULL) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_str uid = holder_of(claim);

		if (!is_ours(g, claim) || uid.n == 0 || rf_map_get(&g->workers, uid) != NULL)
			continue;
		/* Its slices first: what no claim holds is free to be given. */
		if (rf_cgroup_count(&a, rf_cgroup_path(&a, g->instance, uid, RF_STR_EMPTY)) == 0 &&
		    rf_slices_drop(&g->cards, uid, NULL) == 0 && rf_mps_leave(g->mps, uid, NULL) == 0)
			release(g, claim);
	}
}

static bool is_wanted(void *ctx, struct rf_str uid)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_agent *g = ctx;
	const struct rf_worker *w = rf_map_get(&g->workers, uid);

	return (w != NULL && w->state != RF_POD_DONE) ||
	       rf_cgroup_count(&a, rf_cgroup_path(&a, g->instance, uid, RF_STR_EMPTY)) > 0;
}

/* Only what the API server's first complete list does not know is an orphan. */
void rf_agent_sweep(struct rf_agent *g)
{
	if (!rf_informer_synced(g->pods) || !rf_informer_synced(g->claims))
		return;
	if (!g->orphans_swept)
		g->orphans_swept = sweep_pods(g);
	sweep_claims(g);
	rf_slices_sweep(&g->cards, is_wanted, g);
	rf_mps_sweep(g->mps, is_wanted, g);
}
