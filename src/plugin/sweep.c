/* What was left behind: records of the last agent, claims without a record, claims whose pods are over. */
#include <stdio.h>

#include "base/fs.h"
#include "plugin/private.h"

#define PAGE 500

int64_t rf_sweep_settle_ms = 3000;
static char something; /* what a set's members are mapped to */

/* --- the last agent's records ----------------------------------------------------------------- */

static void take_over(struct rf_plugin *p, struct rf_str uid)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_held *h;

	if (!rf_record_is_uid(uid)) {
		rf_warn("claims/%.*s is not a claim's; left alone", RF_STR(uid));
		return;
	}
	h = rf_record_load(p, uid, &err);
	if (h == NULL) {
		rf_warn("%s; the API server will be asked what it was", err.msg);
		(void)rf_map_set(&p->unknown, uid, &something);
		return;
	}
	(void)rf_map_set(&p->held, uid, h);
	rf_info("claim %s/%s: taken over, for pod %s", h->ns, h->name, h->pod);
}

void rf_sweep_restore(struct rf_plugin *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str *names;
	size_t n;
	struct rf_err err = RF_ERR_INIT;

	if (rf_fs_list(&a, rf_fs_path(&a, "%s/claims", p->data_dir), &names, &n, &err) < 0) {
		rf_warn("%s", err.msg);
		return;
	}
	for (size_t i = 0; i < n; i++)
		take_over(p, names[i]);
	rf_held_mend(p);
}

/* --- claims without a record ------------------------------------------------------------------ */

static bool is_held_here(const struct rf_plugin *p, const struct rf_json *claim)
{
	const struct rf_json *f = rf_json_at(claim, "metadata", "finalizers");
	const struct rf_json *r =
		rf_json_item(rf_json_at(claim, "status", "allocation", "devices", "results"), 0);

	if (!rf_str_is(rf_json_str_at(r, "driver"), RF_DRIVER) ||
	    !rf_str_eq(rf_json_str_at(r, "pool"), p->name))
		return false;
	for (size_t i = 0; i < rf_json_len(f); i++)
		if (rf_str_is(rf_json_str(rf_json_item(f, i)), RF_PREPARED_FINALIZER))
			return true;
	return false;
}

/* A claim that makes no sense is left alone; one that cannot be written down must be tried again. */
static int adopt(struct rf_plugin *p, const struct rf_json *claim, struct rf_err *err)
{
	struct rf_held *h;

	if (!is_held_here(p, claim) || rf_held_find(p, rf_kube_uid(claim)) != NULL)
		return 0;
	if (rf_held_adopt(p, claim, &h, err) == 0) {
		rf_info("claim %s/%s: held by this node without a record; taken over", h->ns,
			h->name);
		return 0;
	}
	if (err->code == RF_SYSTEM)
		return -err->code;
	rf_warn("claim %.*s/%.*s: %s", RF_STR(rf_kube_namespace(claim)),
		RF_STR(rf_kube_name(claim)), err->msg);
	return 0;
}

/* Once: all claims of the cluster, since nothing about a claim that can be selected by says whose node
 * it is on. */
static int read_claims(struct rf_plugin *p, struct rf_err *err)
{
	rf_auto(arena) token = RF_ARENA_INIT;
	struct rf_str next = RF_STR_EMPTY;

	do {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_str path =
			rf_kube_path(&a, &RF_RESOURCECLAIMS, RF_STR_EMPTY, RF_STR_EMPTY, NULL);
		struct rf_json *list, *items;

		if (rf_plugin_get(p, &a,
				  rf_arena_printf(&a, "%.*s?limit=%d%s%.*s", RF_STR(path), PAGE,
						  next.n > 0 ? "&continue=" : "", RF_STR(next)),
				  &list, err) < 0)
			return rf_wrap(err, "read all claims");
		items = rf_json_at(list, "items");
		for (size_t i = 0; i < rf_json_len(items); i++)
			if (adopt(p, rf_json_item(items, i), err) < 0)
				return -err->code;
		next = rf_arena_str(&token, rf_json_str_at(list, "metadata", "continue"));
	} while (next.n > 0);
	return 0;
}

/* Those of them that the API server has no claim for, held by us. */
static void remove_unknown(struct rf_plugin *p)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->unknown, s)) != NULL;) {
		struct rf_err err = RF_ERR_INIT;

		if (rf_record_remove(p, rf_map_key(s), &err) < 0)
			rf_warn("claims/%s: %s", s->key, err.msg);
		else
			rf_info("claims/%s: removed; no claim is behind it", s->key);
	}
	rf_map_clear(&p->unknown);
}

void rf_sweep_orphans(struct rf_plugin *p)
{
	struct rf_err err = RF_ERR_INIT;

	if (p->orphans_known || !rf_informer_synced(p->pods))
		return;
	if (read_claims(p, &err) < 0) {
		rf_warn("%s; will be tried again", err.msg);
		return;
	}
	remove_unknown(p);
	rf_held_mend(p);
	p->orphans_known = true;
}

int rf_sweep_recover(struct rf_plugin *p, const struct rf_kapi_claim *c, struct rf_held **ret,
		     struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *claim;
	int rc = rf_plugin_claim(p, &a, c->ns, c->name, &claim, err);

	if (rc == 0 && rf_str_eq(rf_kube_uid(claim), c->uid) && is_held_here(p, claim))
		return rf_held_adopt(p, claim, ret, err);
	if (rc < 0 && rc != -RF_NOT_FOUND)
		return rc;
	if (rf_record_remove(p, c->uid, err) < 0)
		return -err->code;
	(void)rf_map_del(&p->unknown, c->uid);
	*ret = NULL;
	return 0;
}

/* --- claims whose pods are over --------------------------------------------------------------- */

static bool is_over(const struct rf_held *h, const struct rf_json *pod)
{
	return pod == NULL || !rf_str_is(rf_kube_uid(pod), h->pod_uid) || !rf_pod_counts(pod);
}

/* The local copy may lag behind what was prepared a moment ago: the server has the last word, but for
 * an end, which is for good. */
static int ask_server(struct rf_held *h, bool *ret_over, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *copy =
		rf_informer_get(h->plugin->pods, rf_str(h->ns), rf_str(h->pod));
	struct rf_json *pod = NULL;
	int rc = 0;

	*ret_over = true;
	if (copy != NULL && rf_str_is(rf_kube_uid(copy), h->pod_uid))
		return 0;
	rc = rf_plugin_get(h->plugin, &a,
			   rf_kube_path(&a, &RF_PODS, rf_str(h->ns), rf_str(h->pod), NULL), &pod,
			   err);
	if (rc < 0 && rc != -RF_NOT_FOUND)
		return rf_wrap(err, "look for pod %s/%s", h->ns, h->pod);
	*ret_over = is_over(h, pod);
	return 0;
}

/* No process first: that question costs nobody anything. */
static int sweep_one(struct rf_held *h, struct rf_err *err)
{
	bool over;

	if (rf_held_check_unused(h, err) < 0)
		return err->code == RF_UNAVAILABLE ? 0 : -err->code;
	if (ask_server(h, &over, err) < 0)
		return -err->code;
	return over ? rf_held_release(h, err) : 0;
}

static bool is_due(const struct rf_plugin *p, const struct rf_held *h)
{
	return rf_plugin_now() - h->given_ms >= rf_sweep_settle_ms &&
	       is_over(h, rf_informer_get(p->pods, rf_str(h->ns), rf_str(h->pod)));
}

void rf_sweep_ended(struct rf_plugin *p)
{
	RF_VEC(struct rf_held *) due = RF_VEC_INIT;

	if (!rf_informer_synced(p->pods))
		return;
	/* Letting go changes the map. */
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;)
		if (is_due(p, s->value))
			rf_vec_push(&due, s->value);
	for (size_t i = 0; i < due.n; i++) {
		struct rf_err err = RF_ERR_INIT;

		if (sweep_one(due.at[i], &err) < 0)
			rf_warn("%s; will be tried again", err.msg);
	}
	rf_vec_done(&due);
}
