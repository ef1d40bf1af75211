/* A small cluster, told of as control would tell of it, and decisions that are carried out by hand: for tests of the core
 * that read as one story each. */
#ifndef RF_SCHED_TEST_CORE_SMALL_H
#define RF_SCHED_TEST_CORE_SMALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/core.h"

#define GI (INT64_C(1) << 30)
#define SMALL_CARDS 8

struct small {
	struct rf_core *c;
	struct rf_arena a;
	int64_t now, rv;
	struct rf_core_decision *d;
	size_t n;
};

static inline void begin(struct small *w)
{
	struct rf_core_config config;

	rf_core_config_default(&config);
	*w = (struct small){ .now = 1000000 };
	w->c = rf_core_new(&config);
}

static inline void audit(struct small *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(w->c, w->now, &err) < 0)
		fail_msg("audit: %s", err.msg);
}

static inline void end(struct small *w)
{
	audit(w);
	rf_core_free(w->c);
	rf_arena_done(&w->a);
}

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

static inline struct rf_sched_pod pod(struct small *w, const char *uid, const char *ns, int64_t n_cards)
{
	struct rf_sched_pod p = { .uid = rf_str(uid),
				  .ns = rf_str(ns),
				  .name = rf_str(uid),
				  .rv = ++w->rv,
				  .created_ms = w->now,
				  .cpu_milli = 1000,
				  .memory = GI };

	p.containers = rf_arena_array(&w->a, struct rf_sched_container, 1);
	p.containers[0] = (struct rf_sched_container){ .name = RF_LIT("main"), .ask = { .cards = n_cards } };
	p.n_containers = 1;
	return p;
}

static inline void put_pod(struct small *w, const char *uid, const char *ns, int64_t n_cards)
{
	struct rf_sched_pod p = pod(w, uid, ns, n_cards);

	rf_core_put_pod(w->c, &p, w->now);
}

static inline void group(struct small *w, const char *ns, const char *name, int64_t min, const char *topology)
{
	struct rf_sched_group g = { .ns = rf_str(ns), .name = rf_str(name), .min = min, .rv = ++w->rv, .created_ms = w->now,
				    .topology = rf_str(topology) };

	rf_core_put_group(w->c, &g);
}

static inline void member(struct small *w, const char *uid, const char *ns, const char *of, int64_t n_cards)
{
	struct rf_sched_pod p = pod(w, uid, ns, n_cards);

	p.group = rf_str(of);
	rf_core_put_pod(w->c, &p, w->now);
}

static inline struct rf_str claim_name(struct small *w, struct rf_str uid)
{
	return rf_arena_printf(&w->a, "claim-%.*s", RF_STR(uid));
}

static inline void gone(struct small *w, const char *uid, const char *ns)
{
	rf_core_del_pod(w->c, rf_str(uid), w->now);
	rf_core_del_claim(w->c, rf_str(ns), claim_name(w, rf_str(uid)), w->now);
}

/* --- deciding --------------------------------------------------------------------------------- */

/* All that is to be decided now: one call may leave something for the next. */
static inline size_t decide(struct small *w)
{
	struct rf_core_decision *all = NULL;
	size_t n = 0;

	for (int calls = 0; calls < 1000; calls++) {
		size_t more = rf_core_decide(w->c, w->now, 100000, &w->a, &w->d);
		struct rf_core_decision *both = rf_arena_array(&w->a, struct rf_core_decision, n + more + 1);

		if (n > 0)
			memcpy(both, all, n * sizeof(*both));
		if (more > 0)
			memcpy(both + n, w->d, more * sizeof(*both));
		all = both;
		n += more;
		if (more == 0 && rf_core_next_ms(w->c, w->now) > w->now)
			break;
	}
	w->d = all;
	w->n = n;
	audit(w);
	return n;
}

static inline size_t count(const struct small *w, enum rf_core_verdict v)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++)
		n += w->d[i].verdict == v;
	return n;
}

static inline const struct rf_core_decision *of(const struct small *w, enum rf_core_verdict v, const char *uid)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->d[i].verdict == v && rf_str_is(w->d[i].uid, uid))
			return &w->d[i];
	}
	return NULL;
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

/* --- looking ---------------------------------------------------------------------------------- */

static inline struct rf_str why(struct small *w, const char *uid)
{
	return rf_core_why(w->c, rf_str(uid), w->now, &w->a);
}

#define assert_has(s, part)                                                                                 \
	do {                                                                                                \
		struct rf_str s_ = (s);                                                                     \
		if (!rf_str_contains(s_, rf_str(part)))                                                     \
			fail_msg("\"%.*s\" does not say \"%s\"", RF_STR(s_), part);                         \
	} while (0)

static inline struct rf_queue_view view(struct small *w, const char *queue_name, const char *resource)
{
	struct rf_queues *qs = rf_core_queues(w->c);
	struct rf_queue_view v;

	rf_queue_view(qs, queue_name != NULL ? rf_queues_find(qs, rf_str(queue_name)) : NULL,
		      rf_core_resource(w->c, rf_str(resource)), w->now, &v);
	return v;
}

static inline int64_t used(struct small *w, const char *queue_name, const char *resource)
{
	return view(w, queue_name, resource).used;
}

static inline int64_t free_cards(struct small *w)
{
	struct rf_fleet_usage u;

	rf_fleet_usage(rf_core_fleet(w->c), &u);
	return u.free_cards;
}

#endif
