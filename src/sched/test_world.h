/* The cluster that test_property.c lives through: the books it keeps about it, how the model is
 * told, and the promises, checked against the books alone. */
#ifndef RF_SCHED_TEST_WORLD_H
#define RF_SCHED_TEST_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/sched.h"

#define GI (INT64_C(1) << 30)
#define NODES 4
#define CARDS 6
#define TENANTS 7 /* the last one is "no tenant" */
#define PODS 96

struct card {
	char name[32];
	int64_t memory;
	bool broken;
};

struct node {
	char name[32];
	int64_t cpu;
	bool cordoned;
	struct card cards[CARDS];
	size_t n_cards;
};

struct held {
	int card;
	int64_t bytes, milli;
	bool whole;
};

enum life { UNUSED, PENDING, PROMISED, BOUND, ENDING, ENDED };

struct pod {
	enum life life;
	bool claim; /* exists */
	char uid[24], name[24];
	int tenant, node; /* node: -1 none */
	int64_t rv, created, priority, cpu;
	struct rf_gpu_ask asks[3];
	size_t n_asks;
	struct held held[24];
	size_t n_held;
};

static const struct {
	const char *name, *trust;
	enum rf_isolation isolation;
} tenants[TENANTS] = {
	{ "ta", "ta", RF_ISOLATION_NODE },     { "tb", "tb", RF_ISOLATION_GPU },
	{ "tc", "lab", RF_ISOLATION_SHARE },   { "td", "lab", RF_ISOLATION_COOPERATIVE },
	{ "te", "other", RF_ISOLATION_SHARE }, { "tf", "lab", RF_ISOLATION_SLICE },
	{ "", "", RF_ISOLATION_GPU },
};

struct world {
	struct rf_prng rng;
	struct rf_sched *s;
	struct node nodes[NODES];
	size_t n_nodes;
	struct pod pods[PODS];
	struct quota {
		int64_t cards, bytes;		/* what the Tenant says */
		int64_t most_cards, most_bytes; /* or what was held when that was lowered */
	} quotas[TENANTS];
	int64_t serial;
	long over_quota;
	long binds, waits, releases, promises;
};

static uint64_t below(struct world *w, uint64_t n)
{
	return rf_prng_below(&w->rng, n);
}

static bool shares(int t)
{
	return tenants[t].isolation == RF_ISOLATION_SHARE ||
	       tenants[t].isolation == RF_ISOLATION_COOPERATIVE;
}

/* --- telling the model ------------------------------------------------------------------- */

static void tell_node(struct rf_sched *s, const struct node *n)
{
	struct rf_sched_node v = { .name = rf_str(n->name),
				   .cpu_milli = n->cpu,
				   .memory = 64 * GI,
				   .pods = 20,
				   .ready = true,
				   .cordoned = n->cordoned };
	struct rf_sched_device d[CARDS];

	for (size_t i = 0; i < n->n_cards; i++)
		d[i] = (struct rf_sched_device){ .name = rf_str(n->cards[i].name),
						 .memory = n->cards[i].memory,
						 .milli = 1000,
						 .fault = rf_str(n->cards[i].broken ? "broken"
										    : "") };
	rf_sched_put_node(s, &v);
	rf_sched_put_devices(s, v.name, d, n->n_cards);
}

static const char *ns_of(int tenant)
{
	return tenants[tenant].name[0] != 0 ? tenants[tenant].name : "default";
}

static void tell_tenants(struct rf_sched *s, const struct world *w)
{
	for (int i = 0; i < TENANTS; i++) {
		struct rf_tenant t = { .name = rf_str(tenants[i].name),
				       .isolation = tenants[i].isolation,
				       .quota_gpus = w->quotas[i].cards,
				       .quota_gpu_memory = w->quotas[i].bytes,
				       .trust_domain = rf_str(tenants[i].trust) };

		if (t.name.n > 0)
			rf_sched_put_tenant(s, &t);
		rf_sched_put_namespace(s, rf_str(ns_of(i)), t.name);
	}
}

static void tell_pod_as(struct rf_sched *s, const struct world *w, const struct pod *p, int64_t rv,
			bool bound)
{
	static const char *const names[] = { "c0", "c1", "c2" };
	struct rf_sched_container c[3];
	struct rf_sched_pod v = { .uid = rf_str(p->uid),
				  .ns = rf_str(ns_of(p->tenant)),
				  .name = rf_str(p->name),
				  .rv = rv,
				  .created_ms = p->created,
				  .priority = p->priority,
				  .cpu_milli = p->cpu,
				  .memory = GI,
				  .node = rf_str(bound ? w->nodes[p->node].name : ""),
				  .ended = p->life == ENDED,
				  .deleting = p->life == ENDING,
				  .containers = c,
				  .n_containers = p->n_asks };

	for (size_t i = 0; i < p->n_asks; i++)
		c[i] = (struct rf_sched_container){ rf_str(names[i]), p->asks[i] };
	rf_sched_put_pod(s, &v);
}

static void tell_pod(struct rf_sched *s, const struct world *w, const struct pod *p)
{
	tell_pod_as(s, w, p, p->rv, p->life >= BOUND && p->node >= 0);
}

static void tell_claim(struct rf_sched *s, const struct world *w, const struct pod *p)
{
	struct rf_sched_grant g[24];
	struct rf_sched_claim c = { .ns = rf_str(ns_of(p->tenant)),
				    .name = rf_str(p->name),
				    .rv = p->rv,
				    .pod_uid = rf_str(p->uid),
				    .tenant = rf_str(tenants[p->tenant].name),
				    .node = p->n_held > 0 ? rf_str(w->nodes[p->node].name)
							  : rf_str(""),
				    .grants = g,
				    .n_grants = p->n_held };

	for (size_t i = 0; i < p->n_held; i++)
		g[i] = (struct rf_sched_grant){
			.container = RF_LIT("c0"),
			.device = rf_str(w->nodes[p->node].cards[p->held[i].card].name),
			.bytes = p->held[i].bytes,
			.milli = p->held[i].milli,
			.whole = p->held[i].whole
		};
	rf_sched_put_claim(s, &c);
}

/* --- the promises ------------------------------------------------------------------------ */

static bool present(const struct pod *p, int node)
{
	bool here = p->life == BOUND || p->life == ENDING;

	return p->node == node && ((here && p->life != PENDING) || (p->claim && p->n_held > 0));
}

static void check_meetings(const struct world *w, int node)
{
	for (int i = 0; i < PODS; i++) {
		for (int k = i + 1; k < PODS; k++) {
			const struct pod *a = &w->pods[i], *b = &w->pods[k];

			if (!present(a, node) || !present(b, node) || a->tenant == b->tenant)
				continue;
			assert_int_not_equal(tenants[a->tenant].isolation, RF_ISOLATION_NODE);
			assert_int_not_equal(tenants[b->tenant].isolation, RF_ISOLATION_NODE);
		}
	}
}

static void check_pair(const struct pod *a, const struct held *ha, const struct pod *b,
		       const struct held *hb)
{
	assert_false(ha->whole);
	assert_false(hb->whole);
	assert_true(shares(a->tenant));
	assert_true(shares(b->tenant));
	assert_string_equal(tenants[a->tenant].trust, tenants[b->tenant].trust);
}

static void check_card(const struct world *w, int node, int card)
{
	int64_t bytes = 0, milli = 0;
	const struct pod *last = NULL;
	const struct held *last_held = NULL;

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		for (size_t h = 0; p->claim && p->node == node && h < p->n_held; h++) {
			if (p->held[h].card != card)
				continue;
			bytes += p->held[h].bytes;
			milli += p->held[h].milli;
			if (last != NULL)
				check_pair(last, last_held, p, &p->held[h]);
			last = p;
			last_held = &p->held[h];
		}
	}
	assert_true(bytes <= w->nodes[node].cards[card].memory);
	assert_true(milli <= 1000);
}

static void check_cpu(const struct world *w, int node)
{
	int64_t cpu = 0, pods = 0;

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		if (p->node == node && (p->life == BOUND || p->life == ENDING)) {
			cpu += p->cpu;
			pods++;
		}
	}
	assert_true(cpu <= w->nodes[node].cpu);
	assert_true(pods <= 20);
}

/* What a tenant's claims hold: cards, and bytes of shares. */
static void count_held(const struct world *w, int tenant, int64_t *cards, int64_t *bytes)
{
	*cards = *bytes = 0;
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		for (size_t h = 0; p->claim && p->tenant == tenant && h < p->n_held; h++) {
			*cards += p->held[h].whole;
			*bytes += p->held[h].whole ? 0 : p->held[h].bytes;
		}
	}
}

/* A quota that is lowered takes nothing away, but from then on what is held only shrinks to it. */
static void check_quota(struct world *w, int tenant)
{
	struct quota *q = &w->quotas[tenant];
	int64_t cards = 0, bytes = 0;

	count_held(w, tenant, &cards, &bytes);
	assert_true(cards <= q->most_cards);
	assert_true(bytes <= q->most_bytes);
	q->most_cards = RF_MAX(q->cards, cards);
	q->most_bytes = RF_MAX(q->bytes, bytes);
}

static void check(struct world *w)
{
	for (int t = 0; t < TENANTS; t++)
		check_quota(w, t);
	for (int n = 0; n < (int)w->n_nodes; n++) {
		check_meetings(w, n);
		check_cpu(w, n);
		for (int c = 0; c < (int)w->nodes[n].n_cards; c++)
			check_card(w, n, c);
	}
}

#endif
