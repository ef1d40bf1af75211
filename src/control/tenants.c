/* Carries out the plans of reconcile.c. */
#include "control/private.h"

static const struct rf_kube_res *const watched[RF_I_COUNT] = {
	[RF_I_TENANTS] = &RF_TENANTS,	    [RF_I_NAMESPACES] = &RF_NAMESPACES,
	[RF_I_QUEUES] = &RF_QUEUES,	    [RF_I_QUOTAS] = &RF_RESOURCEQUOTAS,
	[RF_I_BINDINGS] = &RF_ROLEBINDINGS, [RF_I_ACCOUNTS] = &RF_SERVICEACCOUNTS,
	[RF_I_CLUSTER_ROLES] = &RF_CLUSTERROLES,
	[RF_I_CLUSTER_BINDINGS] = &RF_CLUSTERROLEBINDINGS,
};

static char CROWDED[] = "";

static struct rf_informer *informer_of(struct rf_control *c, const struct rf_kube_res *res)
{
	for (int i = 0; i < RF_I_COUNT; i++) {
		if (watched[i] == res)
			return c->informers[i];
	}
	rf_assert(!"a kind that control does not watch");
	return NULL;
}

static const struct rf_json *get(void *ctx, const struct rf_kube_res *res, struct rf_str ns,
				 struct rf_str name)
{
	return rf_informer_get(informer_of(ctx, res), ns, name);
}

static const struct rf_json *next(void *ctx, const struct rf_kube_res *res, const void **cursor)
{
	const struct rf_map_slot *slot = *cursor;
	const struct rf_json *o = rf_informer_next(informer_of(ctx, res), &slot);

	*cursor = slot;
	return o;
}

static bool has_pods(void *ctx, struct rf_str ns)
{
	struct rf_control *c = ctx;
	const struct rf_map_slot *slot = NULL;
	const struct rf_json *o = NULL;

	while ((o = rf_informer_next(c->informers[RF_I_PODS], &slot)) != NULL) {
		if (!rf_str_eq(rf_kube_namespace(o), ns))
			continue;
		(void)rf_map_set(&c->crowded, ns, CROWDED); /* to look again when one of them goes */
		return true;
	}
	return false;
}

/* Somebody else, or our own echo, was faster: the next look will tell. */
static bool is_race(int rc)
{
	return rc == -RF_EXISTS || rc == -RF_CONFLICT || rc == -RF_NOT_FOUND;
}

static int perform(struct rf_control *c, struct rf_arena *a, const struct rf_action *act,
		   struct rf_err *err)
{
	struct rf_str all = rf_kube_path(a, act->res, act->ns, RF_STR_EMPTY, NULL);
	struct rf_str one = rf_kube_path(a, act->res, act->ns, act->name, NULL);

	switch (act->act) {
	case RF_ACT_CREATE:
		return rf_kube_create(c->kube, a, all, act->body, NULL, err);
	case RF_ACT_PATCH:
		return rf_kube_patch(c->kube, a, one, RF_PATCH_MERGE, act->body, NULL, err);
	case RF_ACT_REPLACE:
		if (rf_kube_delete_this(c->kube, a, one, act->uid, RF_STR_EMPTY, err) < 0)
			return -err->code;
		return rf_kube_create(c->kube, a, all, act->body, NULL, err);
	case RF_ACT_DELETE:
		return rf_kube_delete_this(c->kube, a, one, act->uid, RF_STR_EMPTY, err);
	}
	return rf_fail(err, RF_INTERNAL, "no such action");
}

static int perform_all(struct rf_control *c, struct rf_arena *a, const struct rf_json *tenant,
		       const struct rf_tenant_plan *plan, struct rf_err *err)
{
	static const char *const verbs[] = { "create", "repair", "replace", "delete" };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < plan->actions.n; i++) {
		const struct rf_action *act = &plan->actions.at[i];

		rc = perform(c, a, act, err);
		rf_log(rc == 0 ? RF_LOG_INFO : RF_LOG_WARN, "tenant %.*s: %s %s %.*s%s%.*s%s%s",
		       RF_STR(rf_kube_name(tenant)), verbs[act->act], act->res->kind,
		       RF_STR(act->ns), act->ns.n > 0 ? "/" : "", RF_STR(act->name),
		       rc == 0 ? "" : ": ", rc == 0 ? "" : err->msg);
	}
	return rc;
}

static int write_status(struct rf_control *c, struct rf_arena *a, const struct rf_json *tenant,
			const struct rf_tenant_plan *plan, struct rf_err *err)
{
	struct rf_json *patch = rf_tenant_status(a, tenant, plan, rf_wall_ms(rf_clock_system()));

	if (patch == NULL)
		return 0;
	rf_info("tenant %.*s: %s: %.*s", RF_STR(rf_kube_name(tenant)), plan->reason,
		RF_STR(plan->message));
	return rf_kube_patch(
		c->kube, a,
		rf_kube_path(a, &RF_TENANTS, RF_STR_EMPTY, rf_kube_name(tenant), "status"),
		RF_PATCH_MERGE, patch, NULL, err);
}

static bool removes_finalizer(const struct rf_tenant_plan *plan)
{
	return rf_str_is(rf_str(plan->phase), "Terminating") && plan->actions.n > 0 &&
	       plan->actions.at[plan->actions.n - 1].res == &RF_TENANTS;
}

static bool reconcile(struct rf_control *c, const struct rf_json *tenant)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_cluster cluster = { get, next, has_pods, c };
	struct rf_tenant_plan plan = { 0 };
	struct rf_err err = RF_ERR_INIT;
	int rc = 0;

	rf_tenant_plan(&a, &cluster, tenant, &plan);
	rc = perform_all(c, &a, tenant, &plan, &err);
	if (rc < 0 && !is_race(rc)) {
		plan.phase = "Pending";
		plan.ready = false;
		plan.reason = "WriteFailed";
		plan.message = rf_arena_printf(&a, "%s; trying again", err.msg);
	}
	/* After a race the informers know better soon; after the finalizer went
	 * there is no object. */
	if (!is_race(rc) && !removes_finalizer(&plan))
		rc = write_status(c, &a, tenant, &plan, &err) < 0 && rc == 0 ? -err.code : rc;
	rf_tenant_plan_done(&plan);
	return rc == 0;
}

bool rf_control_some_tenants(struct rf_control *c)
{
	struct rf_map some = c->tenants_some;
	bool ok = true;

	c->tenants_some = (struct rf_map)RF_MAP_INIT;
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&some, s)) != NULL;) {
		const struct rf_json *o = rf_informer_get(c->informers[RF_I_TENANTS], RF_STR_EMPTY, rf_map_key(s));

		if (o == NULL || (rf_control_leads(c) && reconcile(c, o)))
			continue;
		(void)rf_map_set(&c->tenants_some, rf_map_key(s), c);
		ok = false;
	}
	rf_map_done(&some);
	return ok;
}

/* Writing may not change an informer under our feet: it changes only in its own callbacks. */
bool rf_control_tenants(struct rf_control *c)
{
	const struct rf_map_slot *slot = NULL;
	const struct rf_json *o = NULL;
	bool ok = true;

	while (rf_control_leads(c) &&
	       (o = rf_informer_next(c->informers[RF_I_TENANTS], &slot)) != NULL)
		ok &= reconcile(c, o);
	return ok;
}
