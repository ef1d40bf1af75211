/* A small cluster of zones and racks, told of as control would tell of it, and decisions that are carried out by hand: for tests
 * of the core that read as one story each. */
#ifndef RF_SCHED_TEST_CORE_SMALL_H
#define RF_SCHED_TEST_CORE_SMALL_H

#include "sched/test_core_story.h"

#define SMALL_CARDS 8

static inline const char *name_of(struct small *w, const char *what, size_t i)
{
	return rf_arena_cstr(&w->a, rf_arena_printf(&w->a, "%s%zu", what, i));
}

/* --- telling ---------------------------------------------------------------------------------- */

/* Its cards, those of `there` (a bit each), those of `ill` with a fault. */
static inline void cards(struct small *w, const char *node, unsigned there, unsigned ill)
{
	struct rf_sched_device d[SMALL_CARDS];
	size_t n = 0;

	for (size_t i = 0; i < SMALL_CARDS; i++) {
		if ((there >> i & 1) == 0)
			continue;
		d[n++] = (struct rf_sched_device){ .name = rf_arena_printf(&w->a, "gpu-%zu", i),
						   .model = RF_LIT("NVIDIA H100 80GB HBM3"),
						   .fault = (ill >> i & 1) != 0 ? RF_LIT("xid 79") : RF_STR_EMPTY,
						   .memory = 80 * GI,
						   .milli = 1000,
						   .numa = RF_SCHED_NUMA_UNKNOWN,
						   .island = RF_SCHED_ISLAND_UNKNOWN(i) };
	}
	rf_core_put_devices(w->c, rf_str(node), d, n);
}

static inline void node(struct small *w, const char *name, size_t n_cards, const char *zone, const char *rack)
{
	struct rf_sched_pair labels[] = { { RF_LIT("zone"), rf_str(zone) }, { RF_LIT("rack"), rf_str(rack) } };
	struct rf_sched_node n = { .name = rf_str(name), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110,
				   .ready = true, .labels = labels, .n_labels = RF_COUNT(labels) };

	rf_core_put_node(w->c, &n);
	cards(w, name, (1U << n_cards) - 1, 0);
}

static inline void tenant(struct small *w, const char *name, int64_t n_cards, int64_t weight)
{
	struct rf_tenant t = { .name = rf_str(name),
			       .isolation = RF_ISOLATION_SHARE,
			       .trust_domain = rf_str(name),
			       .quota_gpus = n_cards,
			       .quota_gpu_memory = n_cards * 80 * GI,
			       .quota_pods = -1,
			       .queue_weight = weight };

	rf_core_put_tenant(w->c, &t);
	rf_core_put_namespace(w->c, rf_str(name), rf_str(name));
}

static inline void queue(struct small *w, const char *name, int64_t guaranteed, int64_t weight)
{
	struct rf_sched_quota q = { RF_LIT("cards"), guaranteed, -1, -1, -1 };
	struct rf_sched_queue v = { .name = rf_str(name), .tenant = rf_str(name), .weight = weight, .quotas = &q, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_put_queue(w->c, &v, w->now, &err) < 0)
		fail_msg("queue %s: %s", name, err.msg);
}

static inline void group(struct small *w, const char *ns, const char *name, int64_t min, const char *topology)
{
	struct rf_sched_group g = { .ns = rf_str(ns), .name = rf_str(name), .min = min, .rv = ++w->rv, .created_ms = w->now,
				    .topology = rf_str(topology) };

	rf_core_put_group(w->c, &g);
}

/* --- deciding --------------------------------------------------------------------------------- */

static inline size_t decide_audited(struct small *w)
{
	(void)decide(w);
	audit(w);
	return w->n;
}

static inline void put_claim(struct small *w, const struct rf_core_decision *d)
{
	struct rf_sched_claim k = { .ns = d->ns,
				    .name = claim_name(w, d->uid),
				    .pod_uid = d->uid,
				    .tenant = d->ns,
				    .rv = ++w->rv,
				    .node = d->node,
				    .grants = d->grants,
				    .n_grants = d->n_grants };

	if (d->n_grants > 0 && !d->promised)
		rf_core_put_claim(w->c, &k);
}

/* As control does: the claims first, then the bindings, of pods that ask for so many cards. */
static inline void carry(struct small *w, int64_t n_cards, const char *group_name)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->d[i].verdict == RF_CORE_BIND)
			put_claim(w, &w->d[i]);
	}
	for (size_t i = 0; i < w->n; i++) {
		struct rf_sched_pod p;

		if (w->d[i].verdict != RF_CORE_BIND)
			continue;
		p = pod(w, rf_arena_cstr(&w->a, w->d[i].uid), rf_arena_cstr(&w->a, w->d[i].ns), n_cards);
		p.group = group_name != NULL ? rf_str(group_name) : RF_STR_EMPTY;
		p.node = w->d[i].node;
		p.started_ms = w->now;
		rf_core_put_pod(w->c, &p, w->now);
	}
}

#endif
