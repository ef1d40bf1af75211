/* What the informers hear, told to the scheduler's model; and what is due because of it. */
#include "control/private.h"

static void feed_tenant(struct rf_control *c, const struct rf_json *before,
			const struct rf_json *after)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_tenant t = { 0 };

	if (after == NULL)
		rf_sched_del_tenant(c->sched, rf_kube_name(before));
	else if (rf_tenant_parse(&a, after, &t, NULL) == 0)
		rf_sched_put_tenant(c->sched, &t);
	/* else: what it said before still holds; its status says what is wrong */
}

static void feed_namespace(struct rf_control *c, const struct rf_json *before,
			   const struct rf_json *after)
{
	if (after == NULL)
		rf_sched_del_namespace(c->sched, rf_kube_name(before));
	else
		rf_sched_put_namespace(c->sched, rf_kube_name(after),
				       rf_kube_label(after, RF_TENANT_LABEL));
}

static void feed_node(struct rf_control *c, const struct rf_json *before,
		      const struct rf_json *after)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_sched_node n = { 0 };

	if (after == NULL) {
		rf_sched_del_node(c->sched, rf_kube_name(before));
		return;
	}
	rf_sched_read_node(&a, after, &n);
	rf_sched_put_node(c->sched, &n);
}

/* Pods that asked for another scheduler count once they are bound, and are not placed. */
bool rf_pod_is_for_us(const struct rf_json *pod, const char *scheduler)
{
	struct rf_str name = rf_json_str_at(pod, "spec", "schedulerName");

	if (scheduler != NULL)
		return rf_str_is(name, scheduler);
	return name.n == 0 || rf_str_is(name, "ringfence") || rf_str_is(name, "default-scheduler");
}

void rf_control_feed_pod(struct rf_control *c, const struct rf_json *pod, struct rf_str node)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_sched_pod p = { 0 };

	if (rf_sched_read_pod(&a, pod, &p, &err) < 0)
		p.unsupported = rf_arena_printf(&a, "%s", err.msg);
	if (p.unsupported.n == 0)
		p.unsupported = rf_control_set_aside(c, rf_kube_uid(pod));
	if (node.n > 0)
		p.node = node;
	if (p.node.n > 0 || rf_pod_is_for_us(pod, c->opts->scheduler_name))
		rf_sched_put_pod(c->sched, &p);
}

void rf_control_feed_claim(struct rf_control *c, const struct rf_json *claim)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_sched_claim v = { 0 };

	rf_sched_read_claim(&a, claim, &v);
	rf_sched_put_claim(c->sched, &v);
}

struct pool { /* the slices of one node */
	RF_VEC(const struct rf_json *) slices;
};

static void sort_slices(struct rf_control *c, struct rf_arena *a, struct rf_map *pools)
{
	const struct rf_map_slot *slot = NULL;
	const struct rf_json *o = NULL;

	while ((o = rf_informer_next(c->informers[RF_I_SLICES], &slot)) != NULL) {
		struct rf_str node = rf_sched_slice_node(o);
		struct pool *pool = node.n > 0 ? rf_map_get(pools, node) : NULL;

		if (node.n == 0)
			continue;
		if (pool == NULL) {
			pool = rf_arena_new(a, struct pool);
			(void)rf_map_set(pools, node, pool);
		}
		rf_vec_push(&pool->slices, o);
	}
}

/* A node's cards may be spread over several slices: all are read again when one changes. */
void rf_control_feed_slices(struct rf_control *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_map pools = RF_MAP_INIT;

	sort_slices(c, &a, &pools);
	for (struct rf_map_slot *slot = NULL; (slot = rf_map_next(&c->sliced, slot)) != NULL;) {
		if (rf_map_get(&pools, rf_map_key(slot)) == NULL)
			rf_sched_put_devices(c->sched, rf_map_key(slot), NULL, 0);
	}
	for (struct rf_map_slot *slot = NULL; (slot = rf_map_next(&pools, slot)) != NULL;) {
		struct pool *pool = slot->value;
		struct rf_sched_device *devices = NULL;
		size_t n = 0;

		if (rf_sched_read_pool(&a, pool->slices.at, pool->slices.n, &devices, &n))
			rf_sched_put_devices(c->sched, rf_map_key(slot), devices, n);
		(void)rf_map_set(&c->sliced, rf_map_key(slot), c);
		rf_vec_done(&pool->slices);
	}
	rf_map_done(&pools);
}

static void feed_pod(struct rf_control *c, const struct rf_json *before,
		     const struct rf_json *after)
{
	if (after == NULL) {
		rf_sched_del_pod(c->sched, rf_kube_uid(before));
		free(rf_map_del(&c->told, rf_kube_uid(before)));
	} else {
		rf_control_feed_pod(c, after, RF_STR_EMPTY);
	}
	c->claims_due |= after == NULL || !rf_pod_counts(after);
	c->tenants_due |= after == NULL; /* a namespace may have become empty */
}

static void feed_claim(struct rf_control *c, const struct rf_json *before,
		       const struct rf_json *after)
{
	if (after == NULL)
		rf_sched_del_claim(c->sched, rf_kube_namespace(before), rf_kube_name(before));
	else
		rf_control_feed_claim(c, after);
	c->claims_due |= before == NULL;
}

void rf_control_heard(void *ear, const struct rf_json *before, const struct rf_json *after)
{
	static const struct {
		void (*feed)(struct rf_control *c, const struct rf_json *before,
			     const struct rf_json *after);
		bool tenants, pods;
	} table[RF_I_COUNT] = {
		[RF_I_TENANTS] = { feed_tenant, true, true },
		[RF_I_NAMESPACES] = { feed_namespace, true, true },
		[RF_I_NODES] = { feed_node, false, true },
		[RF_I_PODS] = { feed_pod, false, true },
		[RF_I_CLAIMS] = { feed_claim, false, true },
		[RF_I_SLICES] = { NULL, false, true },
		[RF_I_QUEUES] = { NULL, true, false },
		[RF_I_QUOTAS] = { NULL, true, false },
		[RF_I_BINDINGS] = { NULL, true, false },
		[RF_I_ACCOUNTS] = { NULL, true, false },
	};
	const struct rf_control_ear *e = ear;
	struct rf_control *c = e->c;

	if (table[e->kind].feed != NULL)
		table[e->kind].feed(c, before, after);
	c->slices_due |= e->kind == RF_I_SLICES;
	c->tenants_due |= table[e->kind].tenants;
	c->pods_due |= table[e->kind].pods;
	rf_control_wake(c, 10);
}
