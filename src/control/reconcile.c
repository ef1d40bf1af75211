/* From a Tenant and what is there to the list of things to do. Level-triggered: it looks at what
 * is, not at what happened, so a missed event or a crash half way costs nothing but time. */
#include "control/private.h"

static const struct rf_kube_res *const child_kinds[] = {
	&RF_NAMESPACES, &RF_SERVICEACCOUNTS, &RF_ROLEBINDINGS, &RF_RESOURCEQUOTAS, &RF_QUEUES,
	&RF_CLUSTERROLES, &RF_CLUSTERROLEBINDINGS,
};

static const struct rf_kube_res *res_of(const struct rf_json *object)
{
	for (size_t i = 0; i < RF_COUNT(child_kinds); i++) {
		if (rf_str_is(rf_json_str_at(object, "kind"), child_kinds[i]->kind))
			return child_kinds[i];
	}
	rf_assert(!"tenant/ makes no other kinds");
	return NULL;
}

static void act(struct rf_tenant_plan *p, enum rf_act what, const struct rf_kube_res *res,
		const struct rf_json *object, struct rf_json *body)
{
	struct rf_action one = { .act = what,
				 .res = res,
				 .ns = rf_kube_namespace(object),
				 .name = rf_kube_name(object),
				 .uid = rf_kube_uid(object),
				 .body = body };

	rf_vec_push(&p->actions, one);
}

static void say(struct rf_tenant_plan *p, const char *phase, bool ready, const char *reason,
		struct rf_str message)
{
	p->phase = phase;
	p->ready = ready;
	p->reason = reason;
	p->message = message;
}

/* --- finalizer --------------------------------------------------------------------------- */

static bool has_finalizer(const struct rf_json *tenant)
{
	const struct rf_json *list = rf_json_at(tenant, "metadata", "finalizers");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		if (rf_str_is(rf_json_str(rf_json_item(list, i)), RF_TENANT_FINALIZER))
			return true;
	}
	return false;
}

/* With the version, so that a finalizer somebody else adds meanwhile is not lost. */
static void patch_finalizer(struct rf_arena *a, struct rf_tenant_plan *p,
			    const struct rf_json *tenant, bool wanted)
{
	const struct rf_json *list = rf_json_at(tenant, "metadata", "finalizers");
	struct rf_json *left = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(list); i++) {
		if (!rf_str_is(rf_json_str(rf_json_item(list, i)), RF_TENANT_FINALIZER))
			rf_json_push(a, left, rf_json_clone(a, rf_json_item(list, i)));
	}
	if (wanted)
		rf_json_push(a, left, rf_json_string(a, RF_LIT(RF_TENANT_FINALIZER)));
	act(p, RF_ACT_PATCH, &RF_TENANTS, tenant,
	    rf_json_make(a, "{'metadata':{'finalizers':%j,'resourceVersion':%S}}", left,
			 rf_json_str_at(tenant, "metadata", "resourceVersion")));
}

/* --- what no longer belongs to it ------------------------------------------------------------- */

static bool is_wanted(const struct rf_tenant *t, struct rf_str ns)
{
	for (size_t i = 0; t != NULL && i < t->n_namespaces; i++) {
		if (rf_str_eq(t->namespaces[i], ns))
			return true;
	}
	return false;
}

/* Deletes the tenant's objects of a kind that are not wanted; says how many are still there. */
static size_t drop_unwanted(struct rf_tenant_plan *p, const struct rf_cluster *c,
			    const struct rf_kube_res *res, struct rf_str tenant,
			    bool (*wanted)(const struct rf_tenant *, struct rf_str),
			    const struct rf_tenant *t)
{
	const struct rf_json *o = NULL;
	const void *cursor = NULL;
	size_t n = 0;

	while ((o = c->next(c->ctx, res, &cursor)) != NULL) {
		if (!rf_str_eq(rf_kube_label(o, RF_TENANT_LABEL), tenant) ||
		    wanted(t, rf_kube_name(o)))
			continue;
		if (!rf_kube_deleting(o))
			act(p, RF_ACT_DELETE, res, o, NULL);
		n++;
	}
	return n;
}

static bool is_own_queue(const struct rf_tenant *t, struct rf_str name)
{
	return t != NULL && rf_str_eq(t->name, name);
}

static bool is_role_of(struct rf_str role, struct rf_str queue)
{
	struct rf_str prefix = RF_LIT(RF_QUEUE_ROLE);

	return rf_str_starts(role, prefix) && rf_str_eq(rf_str_skip(role, prefix.n), queue);
}

/* The roles by which its people see its queues, and who they are: of such names, whatever else is labelled. Those of the
 * queues that are shown stay. */
static size_t drop_queue_roles(struct rf_tenant_plan *p, const struct rf_cluster *c, struct rf_str tenant,
			       const struct rf_str *shown, size_t n_shown)
{
	const struct rf_kube_res *const kinds[] = { &RF_CLUSTERROLEBINDINGS, &RF_CLUSTERROLES };
	size_t n = 0;

	for (size_t i = 0; i < RF_COUNT(kinds); i++) {
		const struct rf_json *o = NULL;
		const void *cursor = NULL;

		while ((o = c->next(c->ctx, kinds[i], &cursor)) != NULL) {
			bool stays = !rf_str_eq(rf_kube_label(o, RF_TENANT_LABEL), tenant) ||
				     !rf_str_starts(rf_kube_name(o), RF_LIT(RF_QUEUE_ROLE));

			for (size_t k = 0; k < n_shown && !stays; k++)
				stays = is_role_of(rf_kube_name(o), shown[k]);
			if (stays)
				continue;
			if (!rf_kube_deleting(o))
				act(p, RF_ACT_DELETE, kinds[i], o, NULL);
			n++;
		}
	}
	return n;
}

static void plan_end(struct rf_arena *a, const struct rf_cluster *c, const struct rf_json *tenant,
		     struct rf_tenant_plan *p)
{
	struct rf_str name = rf_kube_name(tenant);
	size_t namespaces = drop_unwanted(p, c, &RF_NAMESPACES, name, is_wanted, NULL);
	size_t queues = drop_unwanted(p, c, &RF_QUEUES, name, is_own_queue, NULL);
	size_t roles = drop_queue_roles(p, c, name, NULL, 0);

	say(p, "Terminating", false, "Deleting",
	    rf_arena_printf(a, "%zu of its namespaces are still being deleted", namespaces));
	if (namespaces + queues + roles == 0 && has_finalizer(tenant))
		patch_finalizer(a, p, tenant, false);
}

/* --- what stands in the way ------------------------------------------------------------------- */

static bool blocked(struct rf_arena *a, const struct rf_cluster *c, const struct rf_tenant *t,
		    struct rf_str ns, struct rf_tenant_plan *p)
{
	const struct rf_json *o = c->get(c->ctx, &RF_NAMESPACES, RF_STR_EMPTY, ns);
	struct rf_str owner = rf_kube_label(o, RF_TENANT_LABEL);

	if (o == NULL)
		return false;
	if (rf_kube_deleting(o)) {
		say(p, "Pending", false, "NamespaceTerminating",
		    rf_arena_printf(
			    a, "namespace %.*s is being deleted; it is made anew once it is gone",
			    RF_STR(ns)));
		return true;
	}
	if (owner.n > 0 && !rf_str_eq(owner, t->name)) {
		say(p, "Failed", false, "NamespaceTaken",
		    rf_arena_printf(
			    a,
			    "namespace %.*s belongs to tenant %.*s; remove it from one of the two "
			    "Tenants' spec.namespaces",
			    RF_STR(ns), RF_STR(owner)));
		return true;
	}
	if (owner.n == 0 && c->has_pods(c->ctx, ns)) {
		say(p, "Failed", false, "NamespaceInUse",
		    rf_arena_printf(
			    a,
			    "namespace %.*s is not a tenant's and has pods in it; delete the pods "
			    "or choose another name in spec.namespaces",
			    RF_STR(ns)));
		return true;
	}
	return false;
}

/* --- what should be there --------------------------------------------------------------------- */

static void plan_object(struct rf_arena *a, const struct rf_cluster *c, struct rf_json *wanted,
			struct rf_tenant_plan *p)
{
	const struct rf_kube_res *res = res_of(wanted);
	const struct rf_json *is =
		c->get(c->ctx, res, rf_kube_namespace(wanted), rf_kube_name(wanted));
	struct rf_json *patch = NULL;

	if (is == NULL) {
		act(p, RF_ACT_CREATE, res, wanted, wanted);
		return;
	}
	patch = rf_object_differ(a, wanted, is);
	if (patch == NULL || rf_kube_deleting(is))
		return;
	/* A binding's role cannot be changed, only the binding replaced. */
	if (rf_json_get(patch, RF_LIT("roleRef")) != NULL)
		act(p, RF_ACT_REPLACE, res, is, wanted);
	else
		act(p, RF_ACT_PATCH, res, wanted, patch);
}

/* Its own Queue first, whether it is there yet or not, and those that administrators made for it. */
static struct rf_str *queues_of(struct rf_arena *a, const struct rf_cluster *c, struct rf_str tenant, size_t *ret_n)
{
	const struct rf_json *o = NULL;
	const void *cursor = NULL;
	struct rf_str *names;
	size_t n = 1, all = 1;

	while (c->next(c->ctx, &RF_QUEUES, &cursor) != NULL)
		all++;
	names = rf_arena_array(a, struct rf_str, all);
	names[0] = tenant;
	cursor = NULL;
	while ((o = c->next(c->ctx, &RF_QUEUES, &cursor)) != NULL)
		if (rf_queue_is_of(o, tenant) && !rf_str_eq(rf_kube_name(o), tenant))
			names[n++] = rf_kube_name(o);
	*ret_n = n;
	return names;
}

/* All or nothing: with one namespace refused, the others must not get its accounts among their
 * subjects. */
static void plan_live(struct rf_arena *a, const struct rf_cluster *c, const struct rf_json *tenant,
		      const struct rf_tenant *t, struct rf_tenant_plan *p)
{
	struct rf_json *wanted = NULL;
	struct rf_str *queues = NULL;
	size_t n_queues = 0;

	for (size_t i = 0; i < t->n_namespaces; i++) {
		if (blocked(a, c, t, t->namespaces[i], p))
			return;
	}
	queues = queues_of(a, c, t->name, &n_queues);
	wanted = rf_tenant_objects(a, tenant, t, queues + 1, n_queues - 1);
	for (size_t i = 0; i < rf_json_len(wanted); i++)
		plan_object(a, c, rf_json_item(wanted, i), p);
	(void)drop_unwanted(p, c, &RF_NAMESPACES, t->name, is_wanted, t);
	(void)drop_unwanted(p, c, &RF_QUEUES, t->name, is_own_queue, t);
	(void)drop_queue_roles(p, c, t->name, queues, n_queues);
	say(p, "Ready", true, "Reconciled",
	    rf_arena_printf(a, "%zu namespace%s, isolation %s", t->n_namespaces,
			    t->n_namespaces == 1 ? "" : "s", rf_isolation_name(t->isolation)));
}

void rf_tenant_plan(struct rf_arena *a, const struct rf_cluster *c, const struct rf_json *tenant,
		    struct rf_tenant_plan *ret)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_tenant t = { 0 };

	*ret = (struct rf_tenant_plan){ 0 };
	if (rf_kube_deleting(tenant)) {
		plan_end(a, c, tenant, ret);
		return;
	}
	if (!has_finalizer(tenant))
		patch_finalizer(a, ret, tenant, true);
	if (rf_tenant_parse(a, tenant, &t, &err) < 0)
		say(ret, "Failed", false, "Invalid", rf_arena_printf(a, "%s", err.msg));
	else
		plan_live(a, c, tenant, &t, ret);
}

void rf_tenant_plan_done(struct rf_tenant_plan *p)
{
	rf_vec_done(&p->actions);
}

/* --- status ----------------------------------------------------------------------------------- */

static const struct rf_json *ready_condition(const struct rf_json *tenant)
{
	const struct rf_json *list = rf_json_at(tenant, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		if (rf_str_is(rf_json_str_at(rf_json_item(list, i), "type"), "Ready"))
			return rf_json_item(list, i);
	}
	return NULL;
}

struct rf_json *rf_tenant_status(struct rf_arena *a, const struct rf_json *tenant,
				 const struct rf_tenant_plan *plan, int64_t now_ms)
{
	const struct rf_json *was = ready_condition(tenant);
	const char *status = plan->ready ? "True" : "False";
	bool turned = !rf_str_is(rf_json_str_at(was, "status"), status);
	struct rf_str since = rf_json_str_at(was, "lastTransitionTime");

	if (!turned && rf_str_is(rf_json_str_at(tenant, "status", "phase"), plan->phase) &&
	    rf_str_is(rf_json_str_at(was, "reason"), plan->reason) &&
	    rf_str_eq(rf_json_str_at(was, "message"), plan->message))
		return NULL;
	return rf_json_make(
		a,
		"{'status':{'phase':%s,'conditions':[{'type':'Ready','status':%s,'reason':%s,"
		"'message':%S,'lastTransitionTime':%S}]}}",
		plan->phase, status, plan->reason, plan->message,
		turned || since.n == 0 ? rf_time_format(a, now_ms) : since);
}
