/* How the core chooses among places: by what is usually asked, by pools; racks, NUMA nodes and islands that are not shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/core_private.h"
#include "sched/fleet_private.h"

#define GI (INT64_C(1) << 30)
#define NOW 1000000

struct world {
	struct rf_core *c;
	struct rf_arena a;
	char where[64];
};

static void begin(struct world *w)
{
	struct rf_core_config config;

	rf_core_config_default(&config);
	*w = (struct world){ .c = rf_core_new(&config), .a = RF_ARENA_INIT };
}

static void end(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(w->c, NOW, &err) < 0)
		fail_msg("%s", err.msg);
	rf_core_free(w->c);
	rf_arena_done(&w->a);
}

static void node(struct world *w, const char *name, unsigned cards, const char *rack, const char *pool)
{
	struct rf_sched_pair labels[] = { { RF_LIT("node"), rf_str(name) },
					  { RF_LIT(RF_RACK_LABEL), rf_str(rack) },
					  { RF_LIT(RF_POOL_LABEL), rf_str(pool) } };
	struct rf_sched_node v = { .name = rf_str(name), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110,
				   .ready = true, .labels = labels, .n_labels = 3 };
	struct rf_sched_device d[8];

	for (unsigned i = 0; i < cards; i++)
		d[i] = (struct rf_sched_device){ .name = rf_arena_printf(&w->a, "gpu-%u", i), .model = RF_LIT("T4"),
						 .fault = RF_STR_EMPTY, .memory = 16 * GI, .milli = 1000 };
	rf_core_put_node(w->c, &v);
	rf_core_put_devices(w->c, v.name, d, cards);
}

static void tenant(struct world *w, const char *name, enum rf_isolation level)
{
	struct rf_tenant t = { .name = rf_str(name), .isolation = level, .trust_domain = rf_str(name), .quota_gpus = 1000,
			       .quota_gpu_memory = 1000 * GI, .quota_pods = -1, .queue_weight = 1,
			       .queue_parent = RF_STR_EMPTY };

	rf_core_put_tenant(w->c, &t);
	rf_core_put_namespace(w->c, t.name, t.name);
}

struct ask {
	unsigned cards;
	int64_t bytes;
	const char *on; /* a node, or what is in its pool; NULL: any */
	const char *key;
};

static struct rf_sched_pod spec(struct world *w, const char *uid, const char *ns, const struct ask *of)
{
	struct rf_sched_container *box = rf_arena_array(&w->a, struct rf_sched_container, 1);
	struct rf_sched_pair *pick = rf_arena_array(&w->a, struct rf_sched_pair, 1);
	struct rf_str none = RF_STR_EMPTY;

	*box = (struct rf_sched_container){ .name = RF_LIT("main"),
					    .ask = { .cards = of->cards, .share_bytes = of->bytes, .name = RF_RES_GPU,
						     .profile = none } };
	*pick = (struct rf_sched_pair){ rf_str(of->key), rf_str(of->on) };
	return (struct rf_sched_pod){ .uid = rf_arena_str(&w->a, rf_str(uid)), .ns = rf_str(ns),
				      .name = rf_arena_str(&w->a, rf_str(uid)), .node = none, .created_ms = NOW,
				      .cpu_milli = 1000, .memory = GI, .os = none, .only_node = none, .unsupported = none,
				      .queue = none, .group = none, .models = none, .containers = box, .n_containers = 1,
				      .selector = pick, .n_selector = of->on != NULL };
}

/* Comes, and where it goes; "": it waits. */
static const char *goes(struct world *w, const char *uid, const char *ns, struct ask of)
{
	struct rf_sched_pod p = spec(w, uid, ns, &of);
	struct rf_core_decision *d;
	size_t n;

	w->where[0] = '\0';
	rf_core_put_pod(w->c, &p, NOW);
	while ((n = rf_core_decide(w->c, NOW, 100, &w->a, &d)) > 0) {
		for (size_t i = 0; i < n; i++) {
			if (d[i].verdict == RF_CORE_BIND && rf_str_eq(d[i].uid, p.uid))
				snprintf(w->where, sizeof(w->where), "%.*s%s%.*s", RF_STR(d[i].node),
					 d[i].n_grants > 0 ? "/" : "",
					 RF_STR(d[i].n_grants > 0 ? d[i].grants[0].device : RF_STR_EMPTY));
		}
	}
	return w->where;
}

/* What was decided is written, and told. */
static void bound(struct world *w, const char *uid, const char *ns, struct ask of, const char *on, const char *device,
		  bool deleting)
{
	struct rf_sched_pod p = spec(w, uid, ns, &of);
	struct rf_sched_grant g = { .container = RF_LIT("main"), .device = rf_str(device), .profile = RF_STR_EMPTY,
				    .whole = true };
	struct rf_sched_claim k = { .ns = p.ns, .name = p.uid, .pod_uid = p.uid, .tenant = p.ns, .rv = 1,
				    .node = rf_str(on), .grants = &g, .n_grants = 1 };

	p.node = rf_str(on);
	p.deleting = deleting;
	rf_core_put_claim(w->c, &k);
	rf_core_put_pod(w->c, &p, NOW);
}

/* --- pools ------------------------------------------------------------------------------------ */

static void pool(struct world *w, const char *name, enum rf_sched_placement placement)
{
	struct rf_sched_pool p = { .name = rf_str(name), .placement = placement };

	rf_core_put_pool(w->c, &p);
}

static void a_pool_says_how_its_nodes_are_filled(void **state)
{
	const struct ask here = { .bytes = GI, .on = "serving", .key = RF_POOL_LABEL };
	struct world w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_SHARE);
	node(&w, "n1", 2, NULL, "serving");
	node(&w, "n2", 2, NULL, "serving");
	assert_string_equal(goes(&w, "p1", "a", here), "n1/gpu-0");
	assert_string_equal(goes(&w, "p2", "a", here), "n1/gpu-0");
	pool(&w, "serving", RF_SCHED_SPREAD); /* told after its nodes */
	assert_string_equal(goes(&w, "p3", "a", here), "n2/gpu-0");
	assert_string_equal(goes(&w, "p4", "a", here), "n2/gpu-1");
	pool(&w, "serving", RF_SCHED_PACK);
	assert_string_equal(goes(&w, "p5", "a", here), "n2/gpu-0");
	pool(&w, "serving", RF_SCHED_SPREAD);
	rf_core_del_pool(w.c, RF_LIT("serving"));
	assert_string_equal(goes(&w, "p6", "a", here), "n2/gpu-0");
	/* A node comes into a pool by its label, and out of it. */
	pool(&w, "other", RF_SCHED_SPREAD);
	node(&w, "n1", 2, NULL, "other");
	node(&w, "n2", 2, NULL, "other");
	assert_string_equal(goes(&w, "p7", "a", (struct ask){ .bytes = GI }), "n1/gpu-1");
	node(&w, "n2", 2, NULL, NULL);
	assert_string_equal(goes(&w, "p8", "a", (struct ask){ .bytes = GI }), "n2/gpu-0");
	end(&w);
}

static void pools_are_logged(void **state)
{
	struct rf_sched_pool p = { .name = RF_LIT("serving"), .placement = RF_SCHED_SPREAD };
	struct rf_log_event e = { .kind = RF_LOG_POOL, .t = NOW, .pool = p }, got;
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) b = RF_BUF_INIT;

	rf_log_write(&b, &e);
	assert_string_equal(b.p, "{\"t\":1000000,\"put\":\"pool\",\"name\":\"serving\",\"placement\":\"spread\"}\n");
	assert_int_equal(rf_log_read(&a, rf_str_trim(rf_buf_str(&b)), &got, NULL), 0);
	assert_true(got.kind == RF_LOG_POOL && got.pool.placement == RF_SCHED_SPREAD);
}

static void a_gpu_pool_is_read(void **state)
{
	static const char *const words[] = { "fragmentation", "pack", "spread" };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_sched_pool p;

	for (unsigned i = 0; i < RF_COUNT(words); i++) {
		struct rf_json *o = rf_json_make(&a, "{'metadata':{'name':'x'},'spec':{'placement':%s}}", words[i]);

		assert_int_equal(rf_sched_read_gpu_pool(o, &p, &err), 0);
		assert_int_equal(p.placement, i);
		assert_true(rf_str_is(p.name, "x"));
	}
	assert_int_equal(rf_sched_read_gpu_pool(rf_json_make(&a, "{'metadata':{'name':'x'},'spec':{}}"), &p, &err), 0);
	assert_int_equal(p.placement, RF_SCHED_FRAGMENTATION);
	assert_int_equal(rf_sched_read_gpu_pool(rf_json_make(&a, "{'metadata':{'name':'x'},'spec':{'placement':'best'}}"),
						&p, &err), -RF_INVALID);
	assert_string_equal(err.msg, "GPUPool x: spec.placement must be fragmentation, pack or spread");
	assert_int_equal(rf_sched_read_gpu_pool(rf_json_make(&a, "{'metadata':{'name':'x'},'spec':{'placement':3}}"), &p,
						&err), -RF_INVALID);
}

/* --- racks ------------------------------------------------------------------------------------ */

static void nobody_else_in_the_rack(void **state)
{
	const struct ask one = { .cards = 1 };
	struct world w;

	begin(&w);
	tenant(&w, "bank", RF_ISOLATION_RACK);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, "n1", 2, "r1", NULL);
	node(&w, "n2", 2, "r1", NULL);
	node(&w, "n3", 2, "r2", NULL);
	node(&w, "n4", 2, NULL, NULL);
	assert_string_equal(goes(&w, "b1", "bank", one), "n1/gpu-0");
	assert_string_equal(goes(&w, "a1", "a", (struct ask){ .cards = 1, .on = "n2", .key = "node" }), "");
	assert_string_equal(goes(&w, "a2", "a", (struct ask){ .on = "n2", .key = "node" }), ""); /* not without a card either */
	assert_string_equal(goes(&w, "a3", "a", one), "n3/gpu-0");
	assert_string_equal(goes(&w, "b2", "bank", (struct ask){ .cards = 1, .on = "n3", .key = "node" }), "");
	assert_string_equal(goes(&w, "b3", "bank", (struct ask){ .cards = 1, .on = "n4", .key = "node" }), "");
	assert_string_equal(goes(&w, "b4", "bank", (struct ask){ .cards = 1, .on = "n2", .key = "node" }), "n2/gpu-0");
	end(&w);
}

/* Also who only leaves: the pod until it is gone, its cards until their claim is. */
static void a_rack_is_not_shared_with_who_leaves_it(void **state)
{
	const struct ask one = { .cards = 1 }, there = { .cards = 1, .on = "n2", .key = "node" };
	struct rf_core_decision *d;
	struct world w;

	begin(&w);
	tenant(&w, "bank", RF_ISOLATION_RACK);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, "n1", 2, "r1", NULL);
	node(&w, "n2", 2, "r1", NULL);
	bound(&w, "b1", "bank", one, "n1", "gpu-0", true);
	assert_string_equal(goes(&w, "a1", "a", there), "");
	rf_core_del_pod(w.c, RF_LIT("b1"), NOW);
	assert_int_equal(rf_core_decide(w.c, NOW, 10, &w.a, &d), 0);
	rf_core_del_claim(w.c, RF_LIT("bank"), RF_LIT("b1"), NOW);
	assert_int_equal(rf_core_decide(w.c, NOW, 10, &w.a, &d), 1);
	assert_int_equal(d[0].verdict, RF_CORE_BIND);
	/* The other way round. */
	bound(&w, "a1", "a", there, "n2", "gpu-0", true);
	assert_string_equal(goes(&w, "b2", "bank", one), "");
	rf_core_del_claim(w.c, RF_LIT("a"), RF_LIT("a1"), NOW);
	assert_int_equal(rf_core_decide(w.c, NOW, 10, &w.a, &d), 0);
	rf_core_del_pod(w.c, RF_LIT("a1"), NOW);
	assert_int_equal(rf_core_decide(w.c, NOW, 10, &w.a, &d), 1);
	assert_int_equal(d[0].verdict, RF_CORE_BIND);
	/* Nor is it open to others because the Tenant is gone. */
	rf_core_del_tenant(w.c, RF_LIT("bank"));
	assert_string_equal(goes(&w, "a2", "a", one), "");
	end(&w);
}

static void a_reason_says_rack(void **state)
{
	struct world w;
	struct rf_str why;

	begin(&w);
	tenant(&w, "bank", RF_ISOLATION_RACK);
	node(&w, "n1", 2, NULL, NULL);
	assert_string_equal(goes(&w, "b1", "bank", (struct ask){ .cards = 1 }), "");
	why = rf_core_why(w.c, RF_LIT("b1"), NOW, &w.a);
	assert_string_equal(rf_arena_cstr(&w.a, why),
			    "no node will do (nodes: 1 in no rack, while this tenant's isolation is rack). resource=nodes "
			    "level=cluster need=1 have=0 help=label the nodes with topology.kubernetes.io/rack");
	end(&w);
}

/* --- cards that belong together ----------------------------------------------------------------- */

/* Eight H100, four to a NUMA node and two to an island; without `known` the last one does not say where it is. */
static void machine(struct world *w, const char *name, bool known)
{
	struct rf_sched_node v = { .name = rf_str(name), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110, .ready = true };
	struct rf_sched_device d[8];

	for (unsigned i = 0; i < 8; i++)
		d[i] = (struct rf_sched_device){ .name = rf_arena_printf(&w->a, "gpu-%u", i), .model = RF_LIT("NVIDIA H100 80GB HBM3"),
						 .fault = RF_STR_EMPTY, .memory = 80 * GI, .milli = 1000,
						 .island = (uint8_t)(i / 2), .numa = (uint8_t)(i / 4) };
	if (!known) {
		d[7].island = RF_SCHED_ISLAND_UNKNOWN(7);
		d[7].numa = RF_SCHED_NUMA_UNKNOWN;
	}
	rf_core_put_node(w->c, &v);
	rf_core_put_devices(w->c, v.name, d, 8);
}

static const char *why_of(struct world *w, const char *uid)
{
	return rf_arena_cstr(&w->a, rf_core_why(w->c, rf_str(uid), NOW, &w->a));
}

static void nobody_else_on_the_numa_node(void **state)
{
	const struct ask one = { .cards = 1 }, four = { .cards = 4 };
	struct rf_core_decision *d;
	struct world w;

	begin(&w);
	tenant(&w, "bank", RF_ISOLATION_NUMA);
	tenant(&w, "a", RF_ISOLATION_GPU);
	machine(&w, "n1", true);
	bound(&w, "b1", "bank", one, "n1", "gpu-1", true); /* on its way out, and still there */
	assert_string_equal(goes(&w, "a1", "a", four), "n1/gpu-4");
	assert_string_equal(goes(&w, "a2", "a", one), "");
	assert_string_equal(why_of(&w, "a2"), "needs 1 whole card on one node; the most any allowed node has free is 0 (nodes: 1 with "
					      "others on cards of one NUMA node, while this tenant or they have isolation numa). "
					      "resource=cards level=node need=1 have=0 help=wait until their pods have ended or add a "
					      "node");
	assert_string_equal(goes(&w, "a3", "a", (struct ask){ 0 }), "n1"); /* a pod without a card has no NUMA node */
	rf_core_del_pod(w.c, RF_LIT("b1"), NOW);
	assert_int_equal(rf_core_decide(w.c, NOW, 10, &w.a, &d), 0); /* its card is not clean yet */
	rf_core_del_claim(w.c, RF_LIT("bank"), RF_LIT("b1"), NOW);
	assert_int_equal(rf_core_decide(w.c, NOW, 10, &w.a, &d), 1);
	assert_int_equal(d[0].verdict, RF_CORE_BIND);
	/* The other way round: it stays out where others are, also those that only leave. */
	bound(&w, "a2", "a", one, "n1", "gpu-0", true);
	assert_string_equal(goes(&w, "b2", "bank", one), "");
	assert_non_null(strstr(why_of(&w, "b2"), "isolation numa"));
	rf_core_del_pod(w.c, RF_LIT("a2"), NOW);
	assert_int_equal(rf_core_decide(w.c, NOW, 10, &w.a, &d), 0);
	rf_core_del_claim(w.c, RF_LIT("a"), RF_LIT("a2"), NOW);
	assert_int_equal(rf_core_decide(w.c, NOW, 10, &w.a, &d), 1);
	assert_int_equal(d[0].verdict, RF_CORE_BIND);
	/* Nor is it open to others because the Tenant is gone: then the node is not. */
	rf_core_del_tenant(w.c, RF_LIT("bank"));
	assert_string_equal(goes(&w, "a4", "a", (struct ask){ 0 }), "");
	end(&w);
}

static void nobody_else_on_the_island(void **state)
{
	const struct ask one = { .cards = 1 };
	struct world w;

	begin(&w);
	tenant(&w, "bank", RF_ISOLATION_NVLINK);
	tenant(&w, "a", RF_ISOLATION_GPU);
	machine(&w, "n1", true);
	bound(&w, "b1", "bank", one, "n1", "gpu-6", false);
	for (int i = 0; i < 6; i++)
		assert_string_not_equal(goes(&w, rf_arena_printf(&w.a, "a%d", i).p, "a", one), "");
	assert_string_equal(goes(&w, "a6", "a", one), "");
	assert_non_null(strstr(why_of(&w, "a6"), "1 with others on cards joined by NVLink, while this tenant or they have isolation nvlink"));
	assert_string_equal(goes(&w, "b2", "bank", one), "n1/gpu-7");
	tenant(&w, "bank", RF_ISOLATION_GPU); /* it minds no more */
	end(&w);
}

/* A claim may name a card before the agent told of any, and one that nobody ever tells of. */
static void a_card_that_nobody_told_of_is_beside_all(void **state)
{
	const struct ask one = { .cards = 1 };
	struct world w;

	for (int i = 0; i < 2; i++) {
		begin(&w);
		tenant(&w, "bank", i ? RF_ISOLATION_NUMA : RF_ISOLATION_NVLINK);
		tenant(&w, "a", RF_ISOLATION_GPU);
		bound(&w, "b1", "bank", one, "n1", i ? "gpu-7" : "gpu-19", false);
		machine(&w, "n1", !i);
		assert_string_equal(goes(&w, "a1", "a", one), ""); /* and takes gpu-0 below */
		assert_string_equal(goes(&w, "b2", "bank", one), i ? "n1/gpu-6" : "n1/gpu-0");
		machine(&w, "n1", true); /* now that is known where 7 is; where 19 is still not */
		assert_string_equal(goes(&w, "a2", "a", one), i ? "n1/gpu-1" : "");
		end(&w);
	}
}

static void a_reason_says_the_profile(void **state)
{
	struct rf_sched_quota quotas[] = { { RF_LIT("mig/3g.40gb"), -1, 100, -1, -1 }, { RF_LIT("mig/1g.18gb"), -1, 100, -1, -1 } };
	struct rf_sched_queue q = { .name = RF_LIT("a"), .tenant = RF_LIT("a"), .weight = 1, .quotas = quotas, .n_quotas = 2 };
	struct rf_sched_pod p;
	struct rf_core_decision *d;
	struct world w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_SLICE);
	machine(&w, "n1", true);
	machine(&w, "n2", true);
	assert_int_equal(rf_core_put_queue(w.c, &q, NOW, NULL), 0);
	p = spec(&w, "big", "a", &(struct ask){ 0 });
	p.containers[0].ask = (struct rf_gpu_ask){ .slices = 17, .profile = RF_LIT("3g.40gb") };
	rf_core_put_pod(w.c, &p, NOW);
	p = spec(&w, "other", "a", &(struct ask){ 0 });
	p.containers[0].ask = (struct rf_gpu_ask){ .slices = 1, .profile = RF_LIT("1g.18gb") };
	rf_core_put_pod(w.c, &p, NOW);
	(void)rf_core_decide(w.c, NOW, 10, &w.a, &d);
	assert_non_null(strstr(why_of(&w, "big"), "needs 17 MIG slices 3g.40gb on one node; the most of 3g.40gb any allowed node has room for is 16"));
	assert_non_null(strstr(why_of(&w, "other"), "needs 1 MIG slice 1g.18gb, and no card here has that MIG profile"));
	end(&w);
}

/* --- what is usual ---------------------------------------------------------------------------- */

/* Pods of two tenants and three kinds, in this order or the other. */
static void crowd(struct world *w, bool backwards)
{
	tenant(w, "a", RF_ISOLATION_SHARE);
	tenant(w, "b", RF_ISOLATION_SHARE);
	for (int i = 0; i < 60; i++) {
		int k = backwards ? 59 - i : i;
		struct ask of = { .cards = k % 3, .bytes = k % 3 == 0 ? 4 * GI : 0 };
		struct rf_sched_pod p = spec(w, rf_arena_cstr(&w->a, rf_arena_printf(&w->a, "p%02d", k)), k % 2 ? "a" : "b", &of);

		rf_core_put_pod(w->c, &p, NOW);
	}
}

static void usual_is_what_the_facts_say(void **state)
{
	const struct rf_fleet *f, *g;
	struct world w, again;

	begin(&w);
	begin(&again);
	node(&w, "n1", 4, NULL, NULL);
	node(&again, "n1", 4, NULL, NULL);
	crowd(&w, false);
	crowd(&again, true);
	f = rf_core_fleet(w.c);
	g = rf_core_fleet(again.c);
	assert_int_equal(f->n_typicals, 3);
	assert_memory_equal(f->typicals, g->typicals, sizeof(f->typicals));
	assert_memory_equal(f->needs, g->needs, sizeof(f->needs));
	/* Who is gone is forgotten. */
	for (int i = 0; i < 60; i++)
		rf_core_del_pod(w.c, rf_arena_printf(&w.a, "p%02d", i), NOW);
	assert_int_equal(rf_core_fleet(w.c)->n_typicals, 0);
	end(&w);
	end(&again);
}

static int64_t weight_of(const struct rf_fleet *f, unsigned cards)
{
	for (size_t i = 0; i < f->n_typicals; i++) {
		if (f->needs[f->typicals[i].need].kind == RF_FLEET_WHOLE && f->typicals[i].n == cards)
			return f->typicals[i].weight;
	}
	return 0;
}

/* A tenant that sends thousands of pods is not all that counts. */
static void a_flood_does_not_drown_the_others(void **state)
{
	const struct ask one = { .cards = 1 }, two = { .cards = 2 };
	struct world w;

	begin(&w);
	node(&w, "n1", 4, NULL, NULL);
	tenant(&w, "a", RF_ISOLATION_GPU);
	tenant(&w, "b", RF_ISOLATION_GPU);
	for (int i = 0; i < 64 * 64 + 64; i++) {
		bool flood = i >= 64;
		struct rf_sched_pod p = spec(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "p%d", i)), flood ? "a" : "b",
					     flood ? &one : &two);

		rf_core_put_pod(w.c, &p, NOW);
	}
	/* 4096 against 64, and heard as 7 to 1; of two cards each counts 8/9 of one */
	assert_in_range(weight_of(rf_core_fleet(w.c), 2), WEIGHTS * 11 / 100, WEIGHTS * 12 / 100);
	end(&w);
}

/* Pods with no card change nothing of it, but each gives the walk some steps. */
static void many_shapes_are_looked_at_in_steps(void **state)
{
	const struct ask one = { .cards = 1 }, none = { 0 };
	struct world w, again;
	const struct rf_fleet *f, *g;
	int steps = 0;

	begin(&w);
	begin(&again);
	for (int k = 0; k < 2; k++) {
		node(k ? &again : &w, "n1", 4, NULL, NULL);
		tenant(k ? &again : &w, "a", RF_ISOLATION_GPU);
	}
	rf_core_decide(w.c, NOW, 0, &w.a, &(struct rf_core_decision *){ 0 });
	for (int i = 0; i < 3000; i++) {
		struct rf_sched_pod p = spec(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "p%d", i)), "a", &one);

		p.memory += i % 3 == 0 ? 0 : (int64_t)i << 24;
		rf_core_put_pod(again.c, &p, NOW);
		rf_core_put_pod(w.c, &p, NOW);
		rf_core_decide(w.c, NOW, 0, &w.a, &(struct rf_core_decision *){ 0 });
	}
	for (int i = 0; w.c->usual_walk != 0; i++) { /* one that has begun ends */
		struct rf_sched_pod p = spec(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "r%d", i)), "a", &none);

		w.c->usual_at = UINT64_MAX;
		rf_core_put_pod(w.c, &p, NOW);
		rf_core_decide(w.c, NOW, 0, &w.a, &(struct rf_core_decision *){ 0 });
	}
	w.c->fleet->n_typicals = 0; /* or what is nearly the same would not be taken */
	while (w.c->usual_walk != 0 || steps == 0) {
		struct rf_sched_pod p = spec(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "q%d", steps)), "a", &none);

		w.c->usual_at = steps == 0 ? 1 : UINT64_MAX;
		rf_core_put_pod(w.c, &p, NOW);
		rf_core_decide(w.c, NOW, 0, &w.a, &(struct rf_core_decision *){ 0 });
		assert_true(++steps < 2000);
	}
	/* 2,001 shapes, and one of the pods without cards, twice */
	assert_in_range(steps, 2002 * 2 / 8, 2002 * 2 / 8 + 400);
	for (const struct co_shape *s = w.c->shape_first; s != NULL; s = s->next)
		assert_int_equal(s->form->usual, 0);
	f = rf_core_fleet(w.c);
	g = rf_core_fleet(again.c); /* as a restart finds it */
	assert_true(f->n_typicals > 0 && f->n_typicals == g->n_typicals);
	assert_memory_equal(f->typicals, g->typicals, sizeof(f->typicals));
	assert_memory_equal(f->needs, g->needs, sizeof(f->needs));
	end(&w);
	end(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pool_says_how_its_nodes_are_filled),
		cmocka_unit_test(pools_are_logged),
		cmocka_unit_test(a_gpu_pool_is_read),
		cmocka_unit_test(nobody_else_in_the_rack),
		cmocka_unit_test(a_rack_is_not_shared_with_who_leaves_it),
		cmocka_unit_test(a_reason_says_rack),
		cmocka_unit_test(nobody_else_on_the_numa_node),
		cmocka_unit_test(nobody_else_on_the_island),
		cmocka_unit_test(a_card_that_nobody_told_of_is_beside_all),
		cmocka_unit_test(a_reason_says_the_profile),
		cmocka_unit_test(usual_is_what_the_facts_say),
		cmocka_unit_test(a_flood_does_not_drown_the_others),
		cmocka_unit_test(many_shapes_are_looked_at_in_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
