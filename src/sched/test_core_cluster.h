/* A cluster of machines with cards of a model and of tenants a and b who share no card, told of as control would tell of it, and
 * decisions that are carried out by hand. */
#ifndef RF_SCHED_TEST_CORE_CLUSTER_H
#define RF_SCHED_TEST_CORE_CLUSTER_H

#include "sched/test_core_story.h"

/* --- telling ---------------------------------------------------------------------------------- */

static inline void node(struct small *w, const char *name, size_t cards, const char *model)
{
	struct rf_sched_node n = {
		.name = rf_str(name), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110, .ready = true
	};
	struct rf_sched_device d[16] = { 0 };

	for (size_t i = 0; i < cards; i++)
		d[i] = (struct rf_sched_device){ .name = rf_arena_printf(&w->a, "gpu-%zu", i),
						 .model = rf_str(model),
						 .memory = 80 * GI,
						 .milli = 1000 };
	rf_core_put_node(w->c, &n);
	rf_core_put_devices(w->c, rf_str(name), d, cards);
}

static inline void tenant(struct small *w, const char *name, enum rf_isolation level, int64_t cards)
{
	struct rf_tenant t = { .name = rf_str(name),
			       .isolation = level,
			       .trust_domain = rf_str(name),
			       .quota_gpus = cards,
			       .quota_gpu_memory = cards * 80 * GI,
			       .quota_pods = -1,
			       .queue_weight = 1 };

	rf_core_put_tenant(w->c, &t);
	rf_core_put_namespace(w->c, rf_str(name), rf_str(name));
}

static inline void zone(struct small *w, const char *name, const char *value)
{
	struct rf_sched_pair labels[] = { { RF_LIT("zone"), rf_str(value) }, { RF_LIT("kubernetes.io/hostname"), rf_str(name) } };
	struct rf_sched_node n = { .name = rf_str(name), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110,
				   .ready = true, .labels = labels, .n_labels = RF_COUNT(labels) };

	rf_core_put_node(w->c, &n);
}

static inline void cluster(struct small *w, size_t nodes, size_t cards)
{
	for (size_t i = 0; i < nodes; i++)
		node(w, rf_arena_cstr(&w->a, rf_arena_printf(&w->a, "n%zu", i)), cards, "NVIDIA H100 80GB HBM3");
	tenant(w, "a", RF_ISOLATION_GPU, 1000);
	tenant(w, "b", RF_ISOLATION_GPU, 1000);
}

static inline void group(struct small *w, const char *ns, const char *name, int64_t min)
{
	struct rf_sched_group g = { .ns = rf_str(ns), .name = rf_str(name), .min = min, .rv = ++w->rv, .created_ms = w->now };

	rf_core_put_group(w->c, &g);
}

static inline void put_claim(struct small *w, const char *uid, const char *ns, const char *node_name, struct rf_sched_grant *g,
			     size_t n)
{
	struct rf_sched_claim k = { .ns = rf_str(ns),
				    .name = claim_name(w, rf_str(uid)),
				    .pod_uid = rf_str(uid),
				    .tenant = rf_str(ns),
				    .rv = ++w->rv,
				    .node = rf_str(node_name),
				    .grants = g,
				    .n_grants = n };

	rf_core_put_claim(w->c, &k);
}

static inline void promise(struct small *w, const char *uid, const char *ns, const char *node_name, const char *device)
{
	struct rf_sched_grant g = {
		.container = RF_LIT("main"), .device = rf_str(device), .bytes = 80 * GI, .milli = 1000, .whole = true
	};

	put_claim(w, uid, ns, node_name, &g, 1);
}

/* --- deciding --------------------------------------------------------------------------------- */

/* As control does: the claim first, then the binding. */
static inline void carry_claim(struct small *w, const struct rf_core_decision *d)
{
	if (d->n_grants > 0 && !d->promised)
		put_claim(w, rf_arena_cstr(&w->a, d->uid), rf_arena_cstr(&w->a, d->ns), rf_arena_cstr(&w->a, d->node),
			  d->grants, d->n_grants);
}

static inline void carry_bind(struct small *w, const struct rf_core_decision *d, struct rf_sched_pod p)
{
	p.node = d->node;
	p.rv = ++w->rv;
	p.started_ms = w->now;
	put(w, &p);
}

static inline void carry_as(struct small *w, int64_t cards, const char *group_name)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->d[i].verdict == RF_CORE_BIND)
			carry_claim(w, &w->d[i]);
	}
	for (size_t i = 0; i < w->n; i++) {
		if (w->d[i].verdict == RF_CORE_BIND) {
			struct rf_sched_pod p = pod(w, rf_arena_cstr(&w->a, w->d[i].uid),
						    rf_arena_cstr(&w->a, w->d[i].ns), cards);

			p.group = group_name != NULL ? rf_str(group_name) : RF_STR_EMPTY;
			carry_bind(w, &w->d[i], p);
		}
	}
}

/* --- what queues have, and what runs ---------------------------------------------------------- */

static inline void guarantee(struct small *w, const char *name, int64_t cards)
{
	struct rf_sched_quota q = { RF_LIT("cards"), cards, -1, -1, -1 };
	struct rf_sched_queue v = { .name = rf_str(name), .tenant = rf_str(name), .weight = 1, .quotas = &q, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_put_queue(w->c, &v, w->now, &err) < 0)
		fail_msg("%s", err.msg);
}

/* Bound already, with its card. */
static inline void running(struct small *w, const char *uid, const char *ns, const char *of_group, const char *device)
{
	struct rf_sched_pod p = pod(w, uid, ns, device != NULL ? 1 : 0);

	p.group = of_group != NULL ? rf_str(of_group) : RF_STR_EMPTY;
	p.node = RF_LIT("n0");
	p.started_ms = w->now - 10000;
	if (device != NULL)
		promise(w, uid, ns, "n0", device);
	put(w, &p);
}

static inline void put_queue(struct small *w, const char *name, const char *parent, const char *of_tenant, struct rf_sched_quota *q,
			     size_t n)
{
	struct rf_sched_queue v = { .name = rf_str(name), .parent = rf_str(parent), .tenant = rf_str(of_tenant),
				    .weight = 1, .quotas = q, .n_quotas = n };
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_put_queue(w->c, &v, w->now, &err) < 0)
		fail_msg("%s", err.msg);
}

static inline void started_group(struct small *w, const char *ns, const char *name, int64_t min)
{
	struct rf_sched_group g = { .ns = rf_str(ns), .name = rf_str(name), .min = min, .rv = ++w->rv, .started = true };

	rf_core_put_group(w->c, &g);
}

static inline void runs(struct small *w, const char *uid, const char *of_group, const char *device)
{
	struct rf_sched_pod p = pod(w, uid, "a", 1);

	p.group = rf_str(of_group);
	p.node = RF_LIT("n0");
	p.started_ms = w->now;
	promise(w, uid, "a", "n0", device);
	put(w, &p);
}

#endif
