/* What the informers hear: told to the scheduler's core, and what is due because of it. */
#include "control/private.h"

static char DUE[] = "";

static void claim_due(struct rf_control *c, struct rf_str ns, struct rf_str name)
{
	rf_auto(buf) key = RF_BUF_INIT;

	if (!c->ready)
		return; /* whoever leads sees to it; to begin with, a leader looks at all of them */
	rf_buf_printf(&key, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
	(void)rf_map_set(&c->claims_some, rf_buf_str(&key), DUE);
	c->claims_due = true;
}

static void tenant_due(struct rf_control *c, const struct rf_json *o)
{
	struct rf_str name = o != NULL ? rf_kube_label(o, RF_TENANT_LABEL) : RF_STR_EMPTY;

	if (name.n == 0)
		return;
	(void)rf_map_set(&c->tenants_some, name, DUE);
	c->some_due = true;
}

static bool same_part(const struct rf_json *a, const struct rf_json *b, const char *part)
{
	const struct rf_json *x = rf_json_get(a, rf_str(part)), *y = rf_json_get(b, rf_str(part));

	return x == y || (x != NULL && y != NULL && rf_json_equal(x, y));
}

/* Counts and status change all the time, and are nothing that a Tenant says. */
static bool same_but_status(const struct rf_json *before, const struct rf_json *after)
{
	const struct rf_json *was = before != NULL ? rf_json_at(before, "metadata") : NULL,
			     *is = after != NULL ? rf_json_at(after, "metadata") : NULL;

	return before != NULL && after != NULL && same_part(before, after, "spec") &&
	       same_part(was, is, "labels") && same_part(was, is, "deletionTimestamp");
}

/* --- by kind ---------------------------------------------------------------------------------- */

static void heard_tenant(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_feed_tenant(&c->placer, before, after);
	(void)rf_map_set(&c->tenants_some, rf_kube_name(after != NULL ? after : before), DUE);
	c->some_due = true;
}

/* One that is nobody's may be what a tenant waits for, or wants. */
static void heard_namespace(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_feed_namespace(&c->placer, before, after);
	if (before != NULL && after != NULL && same_but_status(before, after))
		return;
	rf_adoption_all_due(c->adoption);
	tenant_due(c, before);
	tenant_due(c, after);
	/* All are asked about one that is new and nobody's, or that is gone. */
	c->tenants_due |= after == NULL || rf_kube_label(after, RF_TENANT_LABEL).n == 0;
}

static void heard_node(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_feed_node(&c->placer, before, after);
}

static void heard_pod(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *pod = after != NULL ? after : before;

	rf_feed_pod(&c->placer, before, after);
	if (after == NULL || !rf_pod_counts(after))
		claim_due(c, rf_kube_namespace(pod), rf_pod_claim_name(&a, pod));
	/* A namespace that a tenant wants may have become empty. */
	if (after == NULL && rf_map_del(&c->crowded, rf_kube_namespace(before)) != NULL)
		c->tenants_due = true;
}

static void heard_claim(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_feed_claim(&c->placer, before, after);
	if (before == NULL)
		claim_due(c, rf_kube_namespace(after), rf_kube_name(after));
}

static void heard_slice(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_feed_slice(&c->placer, before, after);
}

static void heard_child(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	tenant_due(c, before);
	tenant_due(c, after);
}

static void heard_quota(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	if (!same_but_status(before, after))
		heard_child(c, before, after);
}

/* Its people are to see it, or no longer. */
static void queues_tenant_due(struct rf_control *c, const struct rf_json *queue)
{
	struct rf_str name = rf_json_str_at(queue, "spec", "tenant");

	if (name.n == 0)
		return;
	(void)rf_map_set(&c->tenants_some, name, DUE);
	c->some_due = true;
}

static void heard_queue(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_feed_queue(&c->placer, before, after);
	if (same_but_status(before, after))
		return;
	rf_adoption_all_due(c->adoption);
	queues_tenant_due(c, before);
	queues_tenant_due(c, after);
	heard_child(c, before, after);
}

static void heard_group(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_feed_group(&c->placer, before, after);
	rf_adoption_ours_changed(c->adoption, before != NULL ? before : after);
}

static void heard_budget(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_feed_budget(&c->placer, before, after);
}

static void heard_gpu_pool(struct rf_control *c, const struct rf_json *before, const struct rf_json *after)
{
	rf_feed_gpu_pool(&c->placer, before, after);
}

void rf_control_heard(void *ear, const struct rf_json *before, const struct rf_json *after)
{
	static const struct {
		void (*heard)(struct rf_control *c, const struct rf_json *before, const struct rf_json *after);
		bool pods; /* may change what is decided */
	} table[RF_I_COUNT] = {
		[RF_I_TENANTS] = { heard_tenant, true },     [RF_I_NAMESPACES] = { heard_namespace, true },
		[RF_I_NODES] = { heard_node, true },	     [RF_I_PODS] = { heard_pod, true },
		[RF_I_CLAIMS] = { heard_claim, true },	     [RF_I_SLICES] = { heard_slice, true },
		[RF_I_QUEUES] = { heard_queue, true },	     [RF_I_GROUPS] = { heard_group, true },
		[RF_I_BUDGETS] = { heard_budget, true },     [RF_I_QUOTAS] = { heard_quota, false },
		[RF_I_BINDINGS] = { heard_child, false },    [RF_I_ACCOUNTS] = { heard_child, false },
		[RF_I_GPU_POOLS] = { heard_gpu_pool, true }, [RF_I_CLUSTER_ROLES] = { heard_child, false },
		[RF_I_CLUSTER_BINDINGS] = { heard_child, false },
	};
	const struct rf_control_ear *e = ear;
	struct rf_control *c = e->c;

	c->placer.now_ms = rf_control_now(c);
	table[e->kind].heard(c, before, after);
	c->pods_due |= table[e->kind].pods;
	rf_control_wake(c, 10);
}
