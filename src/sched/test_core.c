/* The scheduler's core: what it promises, one promise after the other. A small cluster is told of as control
 * would tell of it, and decisions are carried out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/core.h"
#include "sched/log.h"

#define GI (INT64_C(1) << 30)

struct world {
	struct rf_core *c;
	struct rf_arena a;
	int64_t now;
	int64_t rv;
	struct rf_core_decision *d;
	size_t n;
};

static void begin_with(struct world *w, const struct rf_core_config *config)
{
	*w = (struct world){ .now = 1000000 };
	w->c = rf_core_new(config);
}

static void begin(struct world *w)
{
	struct rf_core_config config;

	rf_core_config_default(&config);
	begin_with(w, &config);
}

static void audit(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(w->c, w->now, &err) < 0)
		fail_msg("audit: %s", err.msg);
}

static void end(struct world *w)
{
	audit(w);
	rf_core_free(w->c);
	rf_arena_done(&w->a);
}

/* --- telling ---------------------------------------------------------------------------------- */

static void node(struct world *w, const char *name, size_t cards, const char *model)
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

static void tenant(struct world *w, const char *name, enum rf_isolation level, int64_t cards)
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

static void zone(struct world *w, const char *name, const char *value)
{
	struct rf_sched_pair labels[] = { { RF_LIT("zone"), rf_str(value) }, { RF_LIT("kubernetes.io/hostname"), rf_str(name) } };
	struct rf_sched_node n = { .name = rf_str(name), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110,
				   .ready = true, .labels = labels, .n_labels = RF_COUNT(labels) };

	rf_core_put_node(w->c, &n);
}

static void cluster(struct world *w, size_t nodes, size_t cards)
{
	for (size_t i = 0; i < nodes; i++)
		node(w, rf_arena_cstr(&w->a, rf_arena_printf(&w->a, "n%zu", i)), cards, "NVIDIA H100 80GB HBM3");
	tenant(w, "a", RF_ISOLATION_GPU, 1000);
	tenant(w, "b", RF_ISOLATION_GPU, 1000);
}

static struct rf_sched_pod pod(struct world *w, const char *uid, const char *ns, int64_t cards)
{
	struct rf_sched_pod p = { .uid = rf_str(uid),
				  .ns = rf_str(ns),
				  .name = rf_str(uid),
				  .rv = ++w->rv,
				  .created_ms = w->now,
				  .cpu_milli = 1000,
				  .memory = GI };

	p.containers = rf_arena_array(&w->a, struct rf_sched_container, 1);
	p.containers[0] = (struct rf_sched_container){ .name = RF_LIT("main"), .ask = { .cards = cards } };
	p.n_containers = 1;
	return p;
}

static void put(struct world *w, const struct rf_sched_pod *p)
{
	rf_core_put_pod(w->c, p, w->now);
}

static void put_pod(struct world *w, const char *uid, const char *ns, int64_t cards)
{
	struct rf_sched_pod p = pod(w, uid, ns, cards);

	put(w, &p);
}

static void group(struct world *w, const char *ns, const char *name, int64_t min)
{
	struct rf_sched_group g = { .ns = rf_str(ns), .name = rf_str(name), .min = min, .rv = ++w->rv, .created_ms = w->now };

	rf_core_put_group(w->c, &g);
}

static void member(struct world *w, const char *uid, const char *ns, const char *of, int64_t cards)
{
	struct rf_sched_pod p = pod(w, uid, ns, cards);

	p.group = rf_str(of);
	put(w, &p);
}

static struct rf_str claim_name(struct world *w, struct rf_str uid)
{
	return rf_arena_printf(&w->a, "claim-%.*s", RF_STR(uid));
}

static void put_claim(struct world *w, const char *uid, const char *ns, const char *node_name, struct rf_sched_grant *g,
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

static void promise(struct world *w, const char *uid, const char *ns, const char *node_name, const char *device)
{
	struct rf_sched_grant g = {
		.container = RF_LIT("main"), .device = rf_str(device), .bytes = 80 * GI, .milli = 1000, .whole = true
	};

	put_claim(w, uid, ns, node_name, &g, 1);
}

static void del_claim(struct world *w, const char *uid, const char *ns)
{
	rf_core_del_claim(w->c, rf_str(ns), claim_name(w, rf_str(uid)), w->now);
}

/* --- deciding --------------------------------------------------------------------------------- */

/* All that is to be decided now: one call may leave something for the next. */
static size_t decide(struct world *w)
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
	return n;
}

static size_t count(const struct world *w, enum rf_core_verdict v)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++)
		n += w->d[i].verdict == v;
	return n;
}

static const struct rf_core_decision *of(const struct world *w, enum rf_core_verdict v, const char *uid)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->d[i].verdict == v && rf_str_is(w->d[i].uid, uid))
			return &w->d[i];
	}
	return NULL;
}

/* As control does: the claim first, then the binding. */
static void carry_claim(struct world *w, const struct rf_core_decision *d)
{
	if (d->n_grants > 0 && !d->promised)
		put_claim(w, rf_arena_cstr(&w->a, d->uid), rf_arena_cstr(&w->a, d->ns), rf_arena_cstr(&w->a, d->node),
			  d->grants, d->n_grants);
}

static void carry_bind(struct world *w, const struct rf_core_decision *d, struct rf_sched_pod p)
{
	p.node = d->node;
	p.rv = ++w->rv;
	p.started_ms = w->now;
	put(w, &p);
}

static void carry_as(struct world *w, int64_t cards, const char *group_name)
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

static bool has(struct rf_str s, const char *part)
{
	return rf_str_contains(s, rf_str(part));
}

static struct rf_str why(struct world *w, const char *uid)
{
	return rf_core_why(w->c, rf_str(uid), w->now, &w->a);
}

#define assert_has(s, part)                                                                                 \
	do {                                                                                                \
		struct rf_str s_ = (s);                                                                     \
		if (!has(s_, part))                                                                         \
			fail_msg("\"%.*s\" does not say \"%s\"", RF_STR(s_), part);                         \
	} while (0)

static int64_t used(struct world *w, const char *queue, const char *resource)
{
	struct rf_queues *qs = rf_core_queues(w->c);
	struct rf_queue_view v;

	rf_queue_view(qs, queue != NULL ? rf_queues_find(qs, rf_str(queue)) : NULL,
		      rf_core_resource(w->c, rf_str(resource)), w->now, &v);
	return v.used;
}

static int64_t free_cards(struct world *w)
{
	struct rf_fleet_usage u;

	rf_fleet_usage(rf_core_fleet(w->c), &u);
	return u.free_cards;
}

/* --- one pod ---------------------------------------------------------------------------------- */

static void test_bind(void **state)
{
	struct world w;
	const struct rf_core_decision *d;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	put_pod(&w, "p1", "a", 2);
	assert_int_equal(decide(&w), 1);
	d = of(&w, RF_CORE_BIND, "p1");
	assert_non_null(d);
	assert_true(rf_str_is(d->node, "n0"));
	assert_true(rf_str_is(d->tenant, "a"));
	assert_int_equal(d->n_grants, 2);
	assert_true(rf_str_is(d->grants[0].container, "main"));
	assert_true(d->grants[0].whole && d->grants[0].bytes == 80 * GI && d->grants[0].milli == 1000);
	assert_false(rf_str_eq(d->grants[0].device, d->grants[1].device));
	assert_false(d->promised);
	assert_int_equal(d->commit_left, 0);
	/* taken as done at once: charged, held, not said twice */
	assert_int_equal(used(&w, "a", "cards"), 2);
	assert_int_equal(used(&w, "a", "cards/h100"), 2);
	assert_int_equal(free_cards(&w), 0);
	assert_int_equal(decide(&w), 0);
	decide(&w);
	end(&w);
}

static void test_confirmed(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	carry_as(&w, 1, NULL);
	assert_int_equal(decide(&w), 0);
	assert_int_equal(used(&w, "a", "cards"), 1);
	assert_int_equal(free_cards(&w), 1);
	audit(&w);
	/* ended: its claim still holds the card, its CPU is free */
	rf_core_del_pod(w.c, RF_LIT("p1"), w.now);
	decide(&w);
	assert_int_equal(free_cards(&w), 1);
	assert_int_equal(used(&w, "a", "cards"), 1);
	assert_int_equal(used(&w, "a", "cpu"), 0);
	audit(&w);
	/* the claim is gone: scrubbed, and anybody's */
	del_claim(&w, "p1", "a");
	assert_int_equal(free_cards(&w), 2);
	assert_int_equal(used(&w, "a", "cards"), 0);
	put_pod(&w, "p2", "b", 2);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p2"));
	end(&w);
}

static void test_ended_pod_with_claim_keeps_cards(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	carry_as(&w, 1, NULL);
	p = pod(&w, "p1", "a", 1);
	p.node = RF_LIT("n0");
	p.deleting = true;
	put(&w, &p);
	put_pod(&w, "p2", "b", 1);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "p2"));
	p.ended = true;
	p.rv = ++w.rv;
	put(&w, &p);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "p2"));
	assert_int_equal(free_cards(&w), 0);
	del_claim(&w, "p1", "a");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p2"));
	end(&w);
}

static void test_older_does_not_replace(void **state)
{
	struct world w;
	struct rf_sched_pod old;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	old = pod(&w, "p1", "a", 1);
	put(&w, &old);
	decide(&w);
	carry_as(&w, 1, NULL);
	put(&w, &old); /* pending, by an old watch */
	assert_int_equal(decide(&w), 0);
	assert_int_equal(used(&w, "a", "cards"), 1);
	end(&w);
}

static void test_gated_is_not_looked_at(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	p = pod(&w, "p1", "a", 1);
	p.gated = true;
	put(&w, &p);
	assert_int_equal(decide(&w), 0);
	assert_int_equal(why(&w, "p1").n, 0);
	p.gated = false;
	p.rv = ++w.rv;
	put(&w, &p);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p1"));
	end(&w);
}

static void test_several_containers(void **state)
{
	struct world w;
	struct rf_sched_container cs[3] = {
		{ .name = RF_LIT("x"), .ask = { .cards = 1 } },
		{ .name = RF_LIT("sidecar") },
		{ .name = RF_LIT("y"), .ask = { .cards = 2 } },
	};
	struct rf_sched_pod p;
	size_t x = 0, y = 0;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	p = pod(&w, "p1", "a", 0);
	p.containers = cs;
	p.n_containers = 3;
	put(&w, &p);
	decide(&w);
	assert_int_equal(w.d[0].n_grants, 3);
	for (size_t i = 0; i < 3; i++) {
		x += rf_str_is(w.d[0].grants[i].container, "x");
		y += rf_str_is(w.d[0].grants[i].container, "y");
	}
	assert_int_equal(x, 1);
	assert_int_equal(y, 2);
	end(&w);
}

static void test_shares_and_slices(void **state)
{
	struct rf_sched_quota quotas[] = { { RF_LIT("share-bytes"), -1, -1, -1, -1 }, { RF_LIT("mig/1g.10gb"), -1, 2, -1, -1 } };
	struct rf_sched_queue q = { .name = RF_LIT("a"), .tenant = RF_LIT("a"), .weight = 1, .quotas = quotas, .n_quotas = 2 };
	struct world w;
	struct rf_sched_pod p;
	const struct rf_core_decision *d;

	(void)state;
	begin(&w);
	node(&w, "n0", 2, "NVIDIA H100 80GB HBM3");
	tenant(&w, "a", RF_ISOLATION_SHARE, 100);
	p = pod(&w, "s1", "a", 0);
	p.containers[0].ask = (struct rf_gpu_ask){ .share_bytes = 20 * GI, .share_milli = 250 };
	put(&w, &p);
	p = pod(&w, "m1", "a", 0);
	p.containers[0].ask = (struct rf_gpu_ask){ .slices = 2, .profile = RF_LIT("1g.10gb") };
	put(&w, &p);
	p = pod(&w, "bad", "a", 0);
	p.containers[0].ask = (struct rf_gpu_ask){ .slices = 1, .profile = RF_LIT("9g.1gb") };
	put(&w, &p);
	/* slices have a quota of their own, of which a Tenant says nothing */
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "m1"));
	assert_has(why(&w, "m1"), "limit of queue a leaves 0");
	d = of(&w, RF_CORE_BIND, "s1");
	assert_non_null(d);
	assert_int_equal(d->grants[0].bytes, 20 * GI);
	assert_int_equal(d->grants[0].milli, 250);
	assert_false(d->grants[0].whole);
	d = of(&w, RF_CORE_WAIT, "bad");
	assert_non_null(d);
	assert_has(d->reason, "MIG profile");
	carry_as(&w, 0, NULL);
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, NULL), 0);
	decide(&w);
	d = of(&w, RF_CORE_BIND, "m1");
	assert_non_null(d);
	assert_int_equal(d->n_grants, 2);
	assert_true(rf_str_is(d->grants[0].profile, "1g.10gb"));
	assert_true(d->grants[0].start != d->grants[1].start);
	assert_int_equal(used(&w, "a", "share-bytes"), 20 * GI);
	assert_int_equal(used(&w, "a", "mig/1g.10gb"), 2);
	carry_as(&w, 0, NULL);
	audit(&w);
	assert_int_equal(used(&w, "a", "mig/1g.10gb"), 2);
	end(&w);
}

/* --- waiting and saying why --------------------------------------------------------------------- */

static void test_reason_of_cards(void **state)
{
	struct world w;
	const struct rf_core_decision *d;

	(void)state;
	begin(&w);
	cluster(&w, 2, 2);
	put_pod(&w, "p1", "a", 4);
	decide(&w);
	d = of(&w, RF_CORE_WAIT, "p1");
	assert_non_null(d);
	assert_has(d->reason, "needs 4 whole cards on one node; the most any allowed node has free is 2");
	assert_has(d->reason, "resource=cards level=node need=4 have=2 help=");
	assert_true(rf_str_eq(d->reason, why(&w, "p1")));
	/* told once */
	assert_int_equal(decide(&w), 0);
	w.now += 10000;
	assert_int_equal(decide(&w), 0);
	end(&w);
}

static void test_reason_of_a_queue(void **state)
{
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	p = pod(&w, "p1", "a", 1);
	p.queue = RF_LIT("night");
	put(&w, &p);
	p = pod(&w, "p2", "a", 1);
	p.queue = RF_LIT("b");
	put(&w, &p);
	decide(&w);
	assert_has(why(&w, "p1"), "there is no queue night. ");
	assert_has(why(&w, "p2"), "queue b is not one in which pods of tenant a may wait. ");
	end(&w);
}

static void test_reason_of_quota(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	node(&w, "n0", 8, "NVIDIA H100 80GB HBM3");
	tenant(&w, "a", RF_ISOLATION_GPU, 2);
	put_pod(&w, "p1", "a", 2);
	put_pod(&w, "p2", "a", 1);
	put_pod(&w, "p3", "a", 3);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p1"));
	assert_has(why(&w, "p2"), "resource=cards level=a need=1 have=0");
	assert_has(why(&w, "p3"), "ask for less or have the quota raised");
	assert_int_equal(used(&w, "a", "cards"), 2);
	end(&w);
}

static void test_reasons_that_no_place_helps(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	rf_core_put_namespace(w.c, RF_LIT("plain"), RF_STR_EMPTY);
	rf_core_put_namespace(w.c, RF_LIT("lost"), RF_LIT("nobody-put-me"));
	put_pod(&w, "p1", "plain", 1);
	put_pod(&w, "p2", "lost", 0);
	put_pod(&w, "p3", "unseen", 0);
	p = pod(&w, "p4", "a", 0);
	p.unsupported = RF_LIT("asks for a volume that only one node reaches");
	put(&w, &p);
	p = pod(&w, "p5", "a", 0);
	p.containers[0].ask.share_bytes = GI;
	put(&w, &p);
	put_pod(&w, "p6", "a", 33);
	p = pod(&w, "p7", "a", 1);
	p.queue = RF_LIT("b");
	put(&w, &p);
	p = pod(&w, "p8", "a", 1);
	p.models = RF_LIT("b200");
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_WAIT), 8);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "p1"), "belongs to no tenant, and GPUs are for tenants");
	assert_has(why(&w, "p2"), "there is no such Tenant");
	assert_has(why(&w, "p3"), "namespace unseen is not known");
	assert_has(why(&w, "p4"), "a volume that only one node reaches");
	assert_has(why(&w, "p5"), "shares no card");
	assert_has(why(&w, "p6"), "at most 32");
	assert_has(why(&w, "p7"), "may wait");
	assert_has(why(&w, "p8"), "b200");
	/* the Tenant comes */
	tenant(&w, "nobody-put-me", RF_ISOLATION_GPU, 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p2"));
	rf_core_put_namespace(w.c, RF_LIT("unseen"), RF_STR_EMPTY);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p3"));
	end(&w);
}

static void test_reasons_name_no_stranger(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	node(&w, "n0", 2, "NVIDIA H100 80GB HBM3");
	tenant(&w, "secretive", RF_ISOLATION_NODE, 10);
	tenant(&w, "reader", RF_ISOLATION_GPU, 10);
	put_pod(&w, "hidden", "secretive", 1);
	decide(&w);
	put_pod(&w, "p1", "reader", 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_WAIT, "p1"));
	assert_false(has(why(&w, "p1"), "secretive"));
	assert_false(has(why(&w, "p1"), "hidden"));
	assert_has(why(&w, "p1"), "may not meet this tenant");
	end(&w);
}

static void test_woken_when_something_changes(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	carry_as(&w, 1, NULL);
	put_pod(&w, "p2", "b", 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_WAIT, "p2"));
	assert_int_equal(rf_core_position(w.c, RF_LIT("p2")), 0);
	assert_int_equal(rf_core_position(w.c, RF_LIT("p1")), -1);
	node(&w, "n9", 1, "NVIDIA H100 80GB HBM3");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p2"));
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "p2")->node, "n9"));
	end(&w);
}

/* Who wants to be near others is tried again when one of these came, also in the same call. */
static void test_woken_when_a_neighbour_comes(void **state)
{
	struct rf_str web = RF_LIT("web");
	struct rf_sched_pair label = { RF_LIT("app"), RF_LIT("web") };
	struct rf_sched_match match = { RF_LIT("app"), RF_SCHED_IN, &web, 1 };
	struct rf_sched_near apart = { .apart = true, .topology = RF_LIT("kubernetes.io/hostname"), .labels = { &match, 1, 0 } };
	struct rf_sched_near near = { .topology = RF_LIT("zone"), .labels = { &match, 1, 0 } };
	struct rf_sched_pod first, last, wants;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	zone(&w, "n0", "east");
	zone(&w, "n1", "west");
	first = last = wants = pod(&w, "p", "a", 0);
	first.labels = last.labels = wants.labels = &label;
	first.n_labels = last.n_labels = wants.n_labels = 1;
	first.uid = first.name = RF_LIT("first");
	first.nears = &apart; /* alone on n0: there is no place near it */
	first.n_nears = 1;
	first.node = RF_LIT("n0");
	put(&w, &first);
	wants.uid = wants.name = RF_LIT("wants");
	wants.nears = &near;
	wants.n_nears = 1;
	wants.priority = 5;
	put(&w, &wants);
	last.uid = last.name = RF_LIT("last");
	put(&w, &last);
	decide(&w);
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "last")->node, "n1"));
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "wants")->node, "n1"));
	end(&w);
}

/* Spread over two zones it has to go to the empty one, which is cordoned. When that zone goes there is one left. */
static void test_woken_when_a_domain_goes(void **state)
{
	struct rf_str web = RF_LIT("web");
	struct rf_sched_pair label = { RF_LIT("app"), RF_LIT("web") };
	struct rf_sched_match match = { RF_LIT("app"), RF_SCHED_IN, &web, 1 };
	struct rf_sched_spread spread = { .topology = RF_LIT("zone"), .max_skew = 1, .labels = { &match, 1, 0 } };
	struct rf_sched_pair west = { RF_LIT("zone"), RF_LIT("west") };
	struct rf_sched_node n1 = { .name = RF_LIT("n1"), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110,
				    .ready = true, .cordoned = true, .labels = &west, .n_labels = 1 };
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	zone(&w, "n0", "east");
	rf_core_put_node(w.c, &n1);
	for (int i = 0; i < 2; i++) {
		struct rf_sched_pod p = pod(&w, i == 0 ? "first" : "second", "a", 0);

		p.labels = &label;
		p.n_labels = 1;
		p.spreads = &spread;
		p.n_spreads = 1;
		put(&w, &p);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), i == 0);
	}
	rf_core_del_node(w.c, RF_LIT("n1"));
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "second"));
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "second")->node, "n0"));
	end(&w);
}

static void test_reason_told_again_when_it_is_another(void **state)
{
	struct world w;
	struct rf_sched_node n = { .name = RF_LIT("n0"), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110, .ready = true, .cordoned = true };

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	put_pod(&w, "p1", "a", 2);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_WAIT), 1);
	rf_core_put_node(w.c, &n);
	assert_int_equal(decide(&w), 0); /* not at once again */
	assert_true(rf_core_next_ms(w.c, w.now) <= w.now + 3000);
	w.now += 3001;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_WAIT), 1);
	assert_has(w.d[0].reason, "cordoned");
	end(&w);
}

/* Reasons wait for a moment in which nothing is placed, but not for ever. */
static void test_reason_told_again_while_others_are_placed(void **state)
{
	struct world w;
	struct rf_sched_node n = { .name = RF_LIT("n0"), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110, .ready = true, .cordoned = true };
	int64_t from;
	int told = 0;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	put_pod(&w, "p1", "a", 2);
	decide(&w);
	from = w.now;
	rf_core_put_node(w.c, &n);
	for (int i = 0; i < 100 && told == 0; i++, w.now += 50) {
		const char *uid = rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "c%d", i));

		put_pod(&w, uid, "b", 0);
		decide(&w);
		assert_non_null(of(&w, RF_CORE_BIND, uid));
		rf_core_del_pod(w.c, rf_str(uid), w.now); /* there is room for the next */
		if (of(&w, RF_CORE_WAIT, "p1") == NULL)
			continue;
		assert_has(of(&w, RF_CORE_WAIT, "p1")->reason, "cordoned");
		told = (int)(w.now - from);
	}
	assert_in_range(told, 3000, 3050);
	end(&w);
}

static void test_a_missing_resource_is_named(void **state)
{
	struct rf_sched_amount two[] = { { RF_LIT("rdma/hca"), 2 } };
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	p = pod(&w, "p1", "a", 1);
	p.more = two;
	p.n_more = 1;
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_WAIT), 1);
	assert_has(w.d[0].reason, "(nodes: 1 short of a resource (2 of rdma/hca asked, 0 left))");
	end(&w);
}

/* --- isolation ---------------------------------------------------------------------------------- */

static void test_isolation(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	node(&w, "n0", 4, "NVIDIA H100 80GB HBM3");
	tenant(&w, "alone", RF_ISOLATION_NODE, 10);
	tenant(&w, "a", RF_ISOLATION_GPU, 10);
	put_pod(&w, "p1", "alone", 1);
	decide(&w);
	put_pod(&w, "p2", "a", 0);
	put_pod(&w, "k1", "kube-system", 0);
	rf_core_put_namespace(w.c, RF_LIT("ops"), RF_STR_EMPTY);
	p = pod(&w, "d1", "ops", 0);
	p.daemon = true;
	put(&w, &p);
	put_pod(&w, "d2", "ops", 0);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "p2"));
	assert_null(of(&w, RF_CORE_BIND, "d2"));
	assert_non_null(of(&w, RF_CORE_BIND, "k1")); /* the cluster's own meet everybody */
	assert_non_null(of(&w, RF_CORE_BIND, "d1"));
	/* it accepts company from now on */
	tenant(&w, "alone", RF_ISOLATION_GPU, 10);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p2"));
	end(&w);
}

static void test_daemon_on_its_node(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 3, 1);
	p = pod(&w, "d1", "kube-system", 0);
	p.daemon = true;
	p.only_node = RF_LIT("n2");
	put(&w, &p);
	p = pod(&w, "d2", "kube-system", 0);
	p.daemon = true;
	p.only_node = RF_LIT("n7");
	put(&w, &p);
	decide(&w);
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "d1")->node, "n2"));
	assert_non_null(of(&w, RF_CORE_WAIT, "d2"));
	node(&w, "n7", 0, "");
	decide(&w);
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "d2")->node, "n7"));
	end(&w);
}

/* --- promises ----------------------------------------------------------------------------------- */

static void test_promise_is_kept(void **state)
{
	struct world w;
	const struct rf_core_decision *d;

	(void)state;
	begin(&w);
	cluster(&w, 2, 2);
	promise(&w, "p1", "a", "n1", "gpu-1");
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	d = of(&w, RF_CORE_BIND, "p1");
	assert_non_null(d);
	assert_true(d->promised);
	assert_true(rf_str_is(d->node, "n1"));
	assert_int_equal(d->n_grants, 1);
	assert_true(rf_str_is(d->grants[0].device, "gpu-1"));
	assert_int_equal(decide(&w), 0);
	assert_int_equal(used(&w, "a", "cards"), 1);
	end(&w);
}

static void test_release_when_it_points_at_nothing(void **state)
{
	struct world w;
	struct rf_sched_device broken = { .name = RF_LIT("gpu-0"), .memory = 80 * GI, .milli = 1000, .fault = RF_LIT("Xid 79"), .model = RF_LIT("NVIDIA H100 80GB HBM3") };

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	promise(&w, "p1", "a", "n9", "gpu-0");
	put_pod(&w, "p1", "a", 1);
	promise(&w, "p2", "a", "n0", "gpu-7");
	put_pod(&w, "p2", "a", 1);
	promise(&w, "p3", "a", "n1", "gpu-0");
	rf_core_put_devices(w.c, RF_LIT("n1"), &broken, 1);
	put_pod(&w, "p3", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_RELEASE), 3);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_int_equal(decide(&w), 0);
	audit(&w);
	del_claim(&w, "p1", "a");
	del_claim(&w, "p2", "a");
	del_claim(&w, "p3", "a");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1); /* n0 has one card */
	end(&w);
}

static void test_node_goes_with_a_promise(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	carry_claim(&w, &w.d[0]);
	rf_core_del_node(w.c, rf_arena_str(&w.a, w.d[0].node));
	decide(&w); /* it may be bound at any moment */
	assert_null(of(&w, RF_CORE_RELEASE, "p1"));
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("p1"), RF_LIT("no such node"), w.now);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_RELEASE, "p1"));
	del_claim(&w, "p1", "a");
	w.now += 1000;
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p1"));
	end(&w);
}

static void test_node_comes_back_with_what_it_held(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	carry_as(&w, 1, NULL);
	decide(&w);
	rf_core_del_node(w.c, RF_LIT("n0"));
	audit(&w);
	assert_int_equal(used(&w, "a", "cards"), 1);
	node(&w, "n0", 2, "NVIDIA H100 80GB HBM3");
	assert_int_equal(free_cards(&w), 1);
	rf_core_del_node(w.c, RF_LIT("n0"));
	rf_core_del_pod(w.c, RF_LIT("p1"), w.now);
	del_claim(&w, "p1", "a");
	audit(&w);
	node(&w, "n0", 2, "NVIDIA H100 80GB HBM3");
	assert_int_equal(free_cards(&w), 2);
	end(&w);
}

/* --- restart ------------------------------------------------------------------------------------ */

enum fact { F_NODE, F_TENANT, F_SPACE, F_POD, F_CLAIM, F_GROUP, F_QUEUE, F_FACTS };

static void tell(struct world *w, enum fact f)
{
	struct rf_sched_pod p;
	struct rf_sched_queue q = { .name = RF_LIT("org"), .weight = 1 };
	struct rf_sched_queue leaf = { .name = RF_LIT("a"), .parent = RF_LIT("org"), .tenant = RF_LIT("a"), .weight = 2 };

	switch (f) {
	case F_NODE:
		node(w, "n0", 2, "NVIDIA H100 80GB HBM3");
		node(w, "n1", 2, "NVIDIA H100 80GB HBM3");
		break;
	case F_TENANT: {
		struct rf_tenant t = { .name = RF_LIT("a"), .trust_domain = RF_LIT("a"), .isolation = RF_ISOLATION_GPU, .quota_gpus = 10, .queue_weight = 1 };

		rf_core_put_tenant(w->c, &t);
		break;
	}
	case F_SPACE:
		rf_core_put_namespace(w->c, RF_LIT("a"), RF_LIT("a"));
		break;
	case F_POD: /* one runs, one was promised something, one waits, a gang of two runs */
		p = pod(w, "run", "a", 1);
		p.node = RF_LIT("n0");
		p.started_ms = 500;
		put(w, &p);
		put_pod(w, "promised", "a", 1);
		put_pod(w, "waits", "a", 2);
		for (int i = 0; i < 2; i++) {
			p = pod(w, i == 0 ? "g0" : "g1", "a", 0);
			p.node = RF_LIT("n1");
			p.group = RF_LIT("gang");
			put(w, &p);
		}
		break;
	case F_CLAIM:
		promise(w, "run", "a", "n0", "gpu-0");
		promise(w, "promised", "a", "n1", "gpu-1");
		promise(w, "gone", "a", "n0", "gpu-1");
		break;
	case F_GROUP:
		group(w, "a", "gang", 2);
		break;
	default:
		(void)rf_core_put_queue(w->c, &leaf, w->now, NULL);
		(void)rf_core_put_queue(w->c, &q, w->now, NULL);
		break;
	}
}

static void check_restart(const enum fact *order)
{
	struct world w;
	const struct rf_core_decision *d;

	begin(&w);
	w.rv = 100;
	for (int i = 0; i < F_FACTS; i++)
		tell(&w, order[i]);
	decide(&w);
	d = of(&w, RF_CORE_BIND, "promised");
	assert_non_null(d);
	assert_true(d->promised && rf_str_is(d->node, "n1"));
	assert_non_null(of(&w, RF_CORE_WAIT, "waits"));
	assert_int_equal(w.n, 2);
	assert_int_equal(used(&w, "org", "cards"), 3);
	assert_int_equal(used(&w, "a", "cards/h100"), 3);
	assert_int_equal(used(&w, "a", "cpu"), 4000);
	assert_int_equal(free_cards(&w), 1);
	assert_int_equal(used(&w, "limbo.ringfence.io", "pods"), 0);
	end(&w);
}

static void permute(enum fact *order, int n)
{
	if (n == 1) {
		check_restart(order);
		return;
	}
	for (int i = 0; i < n; i++) {
		enum fact t = order[i];

		order[i] = order[n - 1];
		order[n - 1] = t;
		permute(order, n - 1);
		order[n - 1] = order[i];
		order[i] = t;
	}
}

static void racked(struct world *w, const char *name, const char *rack)
{
	struct rf_sched_pair label = { RF_LIT(RF_RACK_LABEL), rf_str(rack) };
	struct rf_sched_node n = { .name = rf_str(name), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110,
				   .ready = true, .labels = &label, .n_labels = 1 };

	rf_core_put_node(w->c, &n);
}

/* Who shares no rack is in it as long as a card there is to be scrubbed, also when its node and its pod are gone. */
static void test_claim_on_a_lost_node_is_in_its_rack(void **state)
{
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	racked(&w, "n0", "r1");
	racked(&w, "n1", "r1");
	tenant(&w, "alone", RF_ISOLATION_RACK, 10);
	p = pod(&w, "p1", "alone", 1);
	promise(&w, "p1", "alone", "n0", "gpu-0");
	p.node = RF_LIT("n0");
	put(&w, &p);
	put_pod(&w, "b1", "b", 1);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "b1"));
	rf_core_del_node(w.c, RF_LIT("n0"));
	rf_core_del_pod(w.c, RF_LIT("p1"), w.now);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "b1"));
	rf_core_put_namespace(w.c, RF_LIT("alone"), RF_LIT("b")); /* and again: whose it is is told anew */
	rf_core_put_namespace(w.c, RF_LIT("alone"), RF_LIT("alone"));
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "b1"));
	audit(&w);
	del_claim(&w, "p1", "alone");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "b1"));
	end(&w);
}

/* ... and also when the node went before anybody decided. */
static void test_claim_on_a_node_lost_at_once_is_in_its_rack(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	tenant(&w, "alone", RF_ISOLATION_RACK, 10);
	promise(&w, "p1", "alone", "n0", "gpu-0");
	racked(&w, "n0", "r1");
	racked(&w, "n1", "r1");
	rf_core_del_node(w.c, RF_LIT("n0"));
	put_pod(&w, "b1", "b", 1);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "b1"));
	del_claim(&w, "p1", "alone");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "b1"));
	end(&w);
}

/* Of nodes and cards that are equally good the first by name is taken, whatever was told first. */
static void test_ties_end_by_name(void **state)
{
	static const char *const names[] = { "n7", "n10", "n2", "n1", "n5" };

	(void)state;
	for (size_t first = 0; first < RF_COUNT(names); first++) {
		struct world w;

		begin(&w);
		tenant(&w, "a", RF_ISOLATION_GPU, 1000);
		for (size_t i = 0; i < RF_COUNT(names); i++)
			node(&w, names[(first + i) % RF_COUNT(names)], 2, "NVIDIA H100 80GB HBM3");
		put_pod(&w, "p1", "a", 2);
		put_pod(&w, "p2", "a", 2);
		decide(&w);
		assert_true(rf_str_is(of(&w, RF_CORE_BIND, "p1")->node, "n1"));
		assert_true(rf_str_is(of(&w, RF_CORE_BIND, "p2")->node, "n10"));
		/* one goes, and another has its handle */
		rf_core_del_node(w.c, RF_LIT("n2"));
		node(&w, "n0", 2, "NVIDIA H100 80GB HBM3");
		put_pod(&w, "p3", "a", 2);
		decide(&w);
		assert_true(rf_str_is(of(&w, RF_CORE_BIND, "p3")->node, "n0"));
		rf_core_del_node(w.c, RF_LIT("n5"));
		rf_core_del_node(w.c, RF_LIT("n7"));
		promise(&w, "q1", "a", "n3", "gpu-1"); /* its card is heard of before its node's are */
		node(&w, "n3", 2, "NVIDIA H100 80GB HBM3");
		del_claim(&w, "q1", "a");
		put_pod(&w, "p4", "a", 1);
		decide(&w);
		assert_true(rf_str_is(of(&w, RF_CORE_BIND, "p4")->node, "n3"));
		assert_true(rf_str_is(of(&w, RF_CORE_BIND, "p4")->grants[0].device, "gpu-0"));
		end(&w);
	}
}

static void test_restart_in_any_order(void **state)
{
	enum fact order[F_FACTS] = { F_NODE, F_TENANT, F_SPACE, F_POD, F_CLAIM, F_GROUP, F_QUEUE };

	(void)state;
	permute(order, F_FACTS);
}

static void test_facts_with_looks_between(void **state)
{
	const enum fact order[F_FACTS] = { F_CLAIM, F_POD, F_QUEUE, F_GROUP, F_SPACE, F_TENANT, F_NODE };
	struct world w;

	(void)state;
	begin(&w);
	for (int i = 0; i < F_FACTS; i++) {
		tell(&w, order[i]);
		audit(&w);
	}
	assert_int_equal(used(&w, "a", "cards"), 3);
	assert_int_equal(used(&w, "a", "cpu"), 4000);
	end(&w);
}

static void test_bound_without_claim_holds_no_card(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	p = pod(&w, "static", "a", 1);
	p.node = RF_LIT("n0");
	put(&w, &p);
	put_pod(&w, "p1", "b", 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p1"));
	assert_int_equal(used(&w, "a", "cards"), 0);
	end(&w);
}

static void test_two_claims_for_one_card(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	promise(&w, "p1", "a", "n0", "gpu-0");
	p = pod(&w, "p1", "a", 1);
	p.node = RF_LIT("n0");
	put(&w, &p);
	decide(&w);
	promise(&w, "p2", "b", "n0", "gpu-0");
	p = pod(&w, "p2", "b", 1);
	p.node = RF_LIT("n0");
	put(&w, &p);
	decide(&w);
	audit(&w);
	assert_int_equal(free_cards(&w), 1);
	rf_core_del_pod(w.c, RF_LIT("p1"), w.now);
	del_claim(&w, "p1", "a");
	audit(&w);
	assert_int_equal(free_cards(&w), 1); /* the other's now */
	end(&w);
}

/* --- failures ----------------------------------------------------------------------------------- */

static void test_failed_bind_backs_off(void **state)
{
	struct world w;
	int64_t pause = 1000;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	put_pod(&w, "p1", "a", 1);
	for (int i = 0; i < 12; i++) {
		decide(&w);
		assert_non_null(of(&w, RF_CORE_BIND, "p1"));
		rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("p1"), RF_LIT("the server said no"), w.now);
		assert_int_equal(free_cards(&w), 1);
		assert_int_equal(used(&w, "a", "cards"), 0);
		decide(&w);
		assert_null(of(&w, RF_CORE_BIND, "p1"));
		assert_has(why(&w, "p1"), "the server said no");
		assert_int_equal(rf_core_next_ms(w.c, w.now) <= w.now + pause, 1);
		w.now += pause - 1;
		decide(&w);
		assert_null(of(&w, RF_CORE_BIND, "p1"));
		w.now += 1;
		pause = RF_MIN(pause * 2, 300000);
		audit(&w);
	}
	/* meanwhile it is nobody's harm */
	decide(&w);
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("p1"), RF_LIT("no"), w.now);
	put_pod(&w, "p2", "b", 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p2"));
	end(&w);
}

static void test_promise_that_cannot_be_bound_is_given_up(void **state)
{
	struct world w;
	size_t binds = 0;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	promise(&w, "p1", "a", "n0", "gpu-0");
	put_pod(&w, "p1", "a", 1);
	for (int i = 0; i < 20 && count(&w, RF_CORE_RELEASE) == 0; i++) {
		decide(&w);
		if (of(&w, RF_CORE_BIND, "p1") != NULL) {
			binds++;
			rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("p1"), RF_LIT("refused"), w.now);
		}
		w.now += 1000;
	}
	assert_int_equal(binds, 3);
	assert_non_null(of(&w, RF_CORE_RELEASE, "p1"));
	del_claim(&w, "p1", "a");
	put_pod(&w, "p2", "b", 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p2"));
	end(&w);
}

static void test_pod_deleted_while_its_claim_is_written(void **state)
{
	struct world w;
	struct rf_core_decision d;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	d = w.d[0];
	rf_core_del_pod(w.c, RF_LIT("p1"), w.now);
	put_pod(&w, "p2", "b", 1);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "p2")); /* the claim may be there already */
	carry_claim(&w, &d);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "p2"));
	assert_int_equal(used(&w, "a", "cards"), 1);
	del_claim(&w, "p1", "a");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p2"));
	/* and where it was never written */
	rf_core_del_pod(w.c, RF_LIT("p2"), w.now);
	put_pod(&w, "p3", "a", 1);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "p3"));
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("p2"), RF_LIT("the pod is gone"), w.now);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p3"));
	end(&w);
}

/* --- gangs -------------------------------------------------------------------------------------- */

static void test_gang_all_or_none(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 3); /* as many cards as three of them need, and not on one node each */
	group(&w, "a", "g", 3);
	member(&w, "g0", "a", "g", 2);
	member(&w, "g1", "a", "g", 2);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "g0"), "level=group need=3 have=2");
	member(&w, "g2", "a", "g", 2);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "g2"), "needs places for 3 pods at once, and there is room for 2");
	node(&w, "n9", 2, "NVIDIA H100 80GB HBM3");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(w.d[i].commit_left, 2 - i);
	assert_int_equal(used(&w, "a", "cards"), 6);
	carry_as(&w, 2, "g");
	assert_int_equal(decide(&w), 0);
	audit(&w);
	end(&w);
}

static void test_gang_is_elastic(void **state)
{
	struct world w;
	char uid[8];

	(void)state;
	begin(&w);
	cluster(&w, 3, 1);
	group(&w, "a", "g", 2);
	for (int i = 0; i < 5; i++) {
		snprintf(uid, sizeof(uid), "g%d", i);
		member(&w, rf_arena_cstr(&w.a, rf_str(uid)), "a", "g", 1);
	}
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	carry_as(&w, 1, "g");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	/* later ones one by one */
	node(&w, "n9", 1, "NVIDIA H100 80GB HBM3");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	assert_int_equal(w.d[0].commit_left, 0);
	carry_as(&w, 1, "g");
	audit(&w);
	assert_int_equal(used(&w, "a", "cards"), 4);
	/* one ends: what is charged follows */
	rf_core_del_pod(w.c, RF_LIT("g0"), w.now);
	del_claim(&w, "g0", "a");
	assert_int_equal(used(&w, "a", "cards"), 3);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	end(&w);
}

static void test_gang_of_different_members(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	group(&w, "a", "g", 2);
	member(&w, "g0", "a", "g", 3);
	member(&w, "g1", "a", "g", 2);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	node(&w, "n1", 2, "NVIDIA H100 80GB HBM3");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	assert_int_equal(used(&w, "a", "cards"), 5);
	carry_as(&w, 0, "g"); /* what they ask for was told already; only where they are is new */
	end(&w);
}

static void test_group_that_is_not_there(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	member(&w, "g0", "a", "g", 1);
	decide(&w);
	assert_has(why(&w, "g0"), "group g is not there");
	group(&w, "b", "g", 1); /* another's of the same name */
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	group(&w, "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	end(&w);
}

static void test_gang_fails_as_a_whole(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	group(&w, "a", "g", 2);
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	rf_core_failed(w.c, RF_CORE_BIND, w.d[1].uid, RF_LIT("no"), w.now);
	assert_int_equal(free_cards(&w), 2);
	assert_int_equal(used(&w, "a", "cards"), 0);
	audit(&w);
	w.now += 1000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	end(&w);
}

static void test_crash_between_claims_completes_the_gang(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 2);
	group(&w, "a", "g", 3);
	promise(&w, "g0", "a", "n0", "gpu-0");
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	member(&w, "g2", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	assert_true(of(&w, RF_CORE_BIND, "g0")->promised);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(w.d[i].commit_left, 2 - i);
	end(&w);
}

static void test_crash_between_claims_releases_what_cannot_be(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	group(&w, "a", "g", 3);
	promise(&w, "g0", "a", "n0", "gpu-0");
	promise(&w, "g1", "a", "n0", "gpu-1");
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	member(&w, "g2", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_int_equal(count(&w, RF_CORE_RELEASE), 2);
	del_claim(&w, "g0", "a");
	del_claim(&w, "g1", "a");
	put_pod(&w, "p1", "b", 2);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p1"));
	end(&w);
}

static void test_crash_between_bindings(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 3);
	group(&w, "a", "g", 3);
	for (int i = 0; i < 3; i++) {
		const char *uid = i == 0 ? "g0" : i == 1 ? "g1" : "g2", *gpu = i == 0 ? "gpu-0" : i == 1 ? "gpu-1" : "gpu-2";

		promise(&w, uid, "a", "n0", gpu);
		p = pod(&w, uid, "a", 1);
		p.group = RF_LIT("g");
		if (i == 0)
			p.node = RF_LIT("n0");
		put(&w, &p);
	}
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	assert_true(w.d[0].promised && w.d[1].promised);
	assert_int_equal(w.d[0].commit_left, 1);
	end(&w);
}

/* Of a gang that runs each promise is bound on its own: that one could not be says nothing of the others. */
static void test_promises_of_a_started_gang_fail_alone(void **state)
{
	static const char *const uids[] = { "g0", "g1", "g2", "g3" }, *const gpus[] = { "gpu-0", "gpu-1", "gpu-2", "gpu-3" };
	struct rf_sched_group g = { .ns = RF_LIT("a"), .name = RF_LIT("g"), .min = 2, .rv = 1, .started = true };
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	rf_core_put_group(w.c, &g);
	for (int i = 0; i < 4; i++) {
		struct rf_sched_pod p = pod(&w, uids[i], "a", 1);

		promise(&w, uids[i], "a", "n0", gpus[i]);
		p.group = RF_LIT("g");
		p.node = i < 2 ? RF_LIT("n0") : RF_STR_EMPTY;
		put(&w, &p);
	}
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	assert_int_equal(of(&w, RF_CORE_BIND, "g2")->commit_left, 0);
	assert_int_equal(of(&w, RF_CORE_BIND, "g3")->commit_left, 0);
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("g2"), RF_LIT("conflict"), w.now);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "g3")); /* it is on its way */
	w.now += 1000;
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "g2"));
	assert_null(of(&w, RF_CORE_BIND, "g3"));
	end(&w);
}

static void test_half_a_gang_is_taken_back(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	group(&w, "a", "g", 2);
	promise(&w, "g0", "a", "n0", "gpu-0");
	p = pod(&w, "g0", "a", 1);
	p.group = RF_LIT("g");
	p.node = RF_LIT("n0");
	put(&w, &p);
	member(&w, "g1", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	assert_int_equal(rf_core_next_ms(w.c, w.now) <= w.now + 10000, 1);
	w.now += 10000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	assert_has(of(&w, RF_CORE_EVICT, "g0")->reason, "could not be completed");
	assert_int_equal(of(&w, RF_CORE_EVICT, "g0")->cause, RF_CORE_INCOMPLETE);
	assert_int_equal(decide(&w), 0);
	node(&w, "n9", 1, "NVIDIA H100 80GB HBM3"); /* too late: with one that goes it is no gang */
	member(&w, "g2", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	end(&w);
}

static void test_started_gang_that_lost_members_is_left_alone(void **state)
{
	struct world w;
	struct rf_sched_group g = { .ns = RF_LIT("a"), .name = RF_LIT("g"), .min = 3, .rv = 1, .started = true };
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	rf_core_put_group(w.c, &g);
	promise(&w, "g0", "a", "n0", "gpu-0");
	p = pod(&w, "g0", "a", 1);
	p.group = RF_LIT("g");
	p.node = RF_LIT("n0");
	put(&w, &p);
	decide(&w);
	w.now += 3600000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	end(&w);
}

static void gone(struct world *w, const char *uid, const char *ns)
{
	rf_core_del_pod(w->c, rf_str(uid), w->now);
	del_claim(w, uid, ns);
}

static void started_group(struct world *w, const char *ns, const char *name, int64_t min)
{
	struct rf_sched_group g = { .ns = rf_str(ns), .name = rf_str(name), .min = min, .rv = ++w->rv, .started = true };

	rf_core_put_group(w->c, &g);
}

static void runs(struct world *w, const char *uid, const char *of_group, const char *device)
{
	struct rf_sched_pod p = pod(w, uid, "a", 1);

	p.group = rf_str(of_group);
	p.node = RF_LIT("n0");
	p.started_ms = w->now;
	promise(w, uid, "a", "n0", device);
	put(w, &p);
}

static void ends(struct world *w, const char *uid, const char *of_group, bool well)
{
	struct rf_sched_pod p = pod(w, uid, "a", 1);

	p.group = rf_str(of_group);
	p.node = RF_LIT("n0");
	p.ended = true;
	p.well = well;
	put(w, &p);
	del_claim(w, uid, "a");
}

static bool says_started(const struct world *w)
{
	return rf_core_started(w->c, RF_LIT("a"), RF_LIT("g"));
}

/* So many or none, also the second time; whatever its object still says, until it says so no more. */
static void test_gang_that_is_gone_starts_anew(void **state)
{
	struct world w;

	(void)state;
	for (int lived = 0; lived < 2; lived++) {
		begin(&w);
		cluster(&w, 1, 4);
		started_group(&w, "a", "g", 2);
		if (lived) {
			runs(&w, "g0", "g", "gpu-0");
			runs(&w, "g1", "g", "gpu-1");
			decide(&w);
			assert_true(says_started(&w));
			gone(&w, "g0", "a");
			gone(&w, "g1", "a");
		}
		member(&w, "g2", "a", "g", 1);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 0);
		assert_has(why(&w, "g2"), "needs 2 pods to start and has 1");
		assert_false(says_started(&w));
		member(&w, "g3", "a", "g", 1);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 2);
		assert_int_equal(w.d[0].commit_left, 1);
		assert_true(rf_str_is(w.d[0].group, "g")); /* to be taken back before that */
		carry_as(&w, 1, "g");
		assert_true(says_started(&w));
		member(&w, "g4", "a", "g", 1);
		decide(&w);
		assert_int_equal(of(&w, RF_CORE_BIND, "g4")->group.n, 0);
		end(&w);
	}
}

/* Its object takes back that it started, and one that was on its way comes before anything is decided. */
static void test_one_that_comes_when_none_is_left(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	started_group(&w, "a", "g", 2);
	runs(&w, "g0", "g", "gpu-0");
	runs(&w, "g1", "g", "gpu-1");
	decide(&w);
	gone(&w, "g0", "a");
	gone(&w, "g1", "a");
	assert_false(says_started(&w));
	group(&w, "a", "g", 2);
	runs(&w, "g2", "g", "gpu-2");
	assert_false(says_started(&w));
	runs(&w, "g3", "g", "gpu-3");
	assert_true(says_started(&w));
	end(&w);
}

/* Who waits on its own, and the last of the others goes. */
static void test_single_waits_for_others_when_none_is_left(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	started_group(&w, "a", "g", 2);
	runs(&w, "g0", "g", "gpu-0");
	runs(&w, "g1", "g", "gpu-1");
	member(&w, "r0", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	ends(&w, "g0", "g", false);
	ends(&w, "g1", "g", false);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "r0"), "needs 2 pods to start and has 1");
	member(&w, "r1", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	end(&w);
}

/* While some run, one that failed or is gone is replaced alone; so it is when the others ended well. */
static void test_members_are_replaced_alone_while_some_are_left(void **state)
{
	struct world w;

	(void)state;
	for (int well = 0; well < 2; well++) {
		begin(&w);
		cluster(&w, 1, 3);
		started_group(&w, "a", "g", 3);
		runs(&w, "g0", "g", "gpu-0");
		runs(&w, "g1", "g", "gpu-1");
		runs(&w, "g2", "g", "gpu-2");
		decide(&w);
		ends(&w, "g0", "g", false);
		gone(&w, "g1", "a");
		member(&w, "r0", "a", "g", 1);
		decide(&w);
		assert_non_null(of(&w, RF_CORE_BIND, "r0"));
		carry_as(&w, 1, "g");
		ends(&w, "r0", "g", false);
		ends(&w, "g2", "g", well);
		member(&w, "r1", "a", "g", 1);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), well);
		end(&w);
	}
}

/* --- queues ------------------------------------------------------------------------------------- */

static void test_queue_of_a_model(void **state)
{
	struct world w;
	struct rf_sched_quota quotas[] = { { RF_LIT("cards/h100"), -1, 1, -1, -1 } };
	struct rf_sched_queue q = { .name = RF_LIT("a"), .tenant = RF_LIT("a"), .weight = 1, .quotas = quotas, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;
	size_t h100 = 0;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	node(&w, "old", 2, "NVIDIA A100-SXM4-80GB");
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), 0);
	put_pod(&w, "p1", "a", 1);
	put_pod(&w, "p2", "a", 1);
	put_pod(&w, "p3", "a", 1);
	put_pod(&w, "p4", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3); /* one H100, two A100 */
	for (size_t i = 0; i < w.n; i++)
		h100 += w.d[i].verdict == RF_CORE_BIND && rf_str_is(w.d[i].node, "n0");
	assert_int_equal(h100, 1);
	assert_int_equal(used(&w, "a", "cards/h100"), 1);
	assert_int_equal(used(&w, "a", "cards/H100"), 1); /* as people write it */
	assert_int_equal(used(&w, "a", "cards/a100"), 2);
	assert_int_equal(rf_core_resource(w.c, RF_LIT("cards/acme-9000")), -1);
	end(&w);
}

/* Who waits because no model is left to it is tried again when its queue says otherwise. */
static void test_queue_of_a_model_is_raised(void **state)
{
	struct world w;
	struct rf_sched_quota quotas[] = { { RF_LIT("cards/h100"), -1, 0, -1, -1 } };
	struct rf_sched_queue q = { .name = RF_LIT("a"), .tenant = RF_LIT("a"), .weight = 1, .quotas = quotas, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), 0);
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	assert_has(of(&w, RF_CORE_WAIT, "p1")->reason, "asks for 1 of cards/h100, and the limit of queue a leaves 0");
	quotas[0].limit = 1;
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), 0);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p1"));
	end(&w);
}

/* Nor does it matter that what is charged was on a node nobody knows any more. */
static void test_model_is_left_by_a_lost_claim(void **state)
{
	struct world w;
	struct rf_sched_quota quotas[] = { { RF_LIT("cards/h100"), -1, 1, -1, -1 } };
	struct rf_sched_queue q = { .name = RF_LIT("a"), .tenant = RF_LIT("a"), .weight = 1, .quotas = quotas, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), 0);
	promise(&w, "gone", "a", "lost", "gpu-0");
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	assert_has(of(&w, RF_CORE_WAIT, "p1")->reason, "asks for 1 of cards/h100, and the limit of queue a leaves 0");
	del_claim(&w, "gone", "a");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p1"));
	end(&w);
}

static void test_queue_with_unknown_resource(void **state)
{
	struct world w;
	struct rf_sched_quota quotas[] = { { RF_LIT("mig/9g.99gb"), -1, 1, -1, -1 } };
	struct rf_sched_quota models[] = { { RF_LIT("cards/acme-9000"), -1, 0, -1, -1 } };
	struct rf_sched_queue q = { .name = RF_LIT("a"), .tenant = RF_LIT("a"), .weight = 1, .quotas = quotas, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), -RF_INVALID);
	assert_has(rf_str(err.msg), "mig/9g.99gb");
	q.quotas = models;
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), -RF_INVALID);
	assert_has(rf_str(err.msg), "acme-9000");
	/* such a card comes: from then on the quota holds */
	node(&w, "n5", 1, "Acme 9000");
	put_pod(&w, "p1", "a", 1);
	decide(&w);
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "p1")->node, "n0"));
	put_pod(&w, "p2", "a", 1);
	put_pod(&w, "p3", "a", 1);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "p3"));
	assert_int_equal(used(&w, "a", "cards/acme-9000"), 0);
	end(&w);
}

static void test_queue_comes_before_its_parent(void **state)
{
	struct world w;
	struct rf_sched_quota limit[] = { { RF_LIT("cards"), -1, 1, -1, -1 } };
	struct rf_sched_queue leaf = { .name = RF_LIT("a-batch"), .parent = RF_LIT("org"), .tenant = RF_LIT("a"), .weight = 1 };
	struct rf_sched_queue org = { .name = RF_LIT("org"), .weight = 1, .quotas = limit, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	assert_int_equal(rf_core_put_queue(w.c, &leaf, w.now, &err), -RF_NOT_FOUND);
	for (int i = 0; i < 2; i++) {
		p = pod(&w, i == 0 ? "p1" : "p2", "a", 1);
		p.queue = RF_LIT("a-batch");
		put(&w, &p);
	}
	p = pod(&w, "thief", "b", 1);
	p.queue = RF_LIT("a-batch");
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_int_equal(rf_core_put_queue(w.c, &org, w.now, &err), 0);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	assert_has(why(&w, "p2"), "level=org");
	assert_has(why(&w, "thief"), "may wait");
	assert_int_equal(used(&w, "org", "cards"), 1);
	/* the queue goes: what runs, or is on its way, is charged to its tenant's own; what waits says so */
	rf_core_del_queue(w.c, RF_LIT("a-batch"), w.now);
	decide(&w);
	assert_has(why(&w, "p2"), "queue a-batch");
	assert_int_equal(used(&w, "org", "cards"), 0);
	assert_int_equal(used(&w, "a", "cards"), 1);
	end(&w);
}

static void test_priority_within_a_queue_only(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	put_pod(&w, "a1", "a", 1);
	p = pod(&w, "a2", "a", 1);
	p.priority = 1000;
	put(&w, &p);
	put_pod(&w, "b1", "b", 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "a2"));
	assert_non_null(of(&w, RF_CORE_BIND, "b1"));
	assert_null(of(&w, RF_CORE_BIND, "a1"));
	assert_int_equal(rf_core_position(w.c, RF_LIT("a1")), 0);
	end(&w);
}

/* --- evictions ---------------------------------------------------------------------------------- */

static void guarantee(struct world *w, const char *name, int64_t cards)
{
	struct rf_sched_quota q = { RF_LIT("cards"), cards, -1, -1, -1 };
	struct rf_sched_queue v = { .name = rf_str(name), .tenant = rf_str(name), .weight = 1, .quotas = &q, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_put_queue(w->c, &v, w->now, &err) < 0)
		fail_msg("%s", err.msg);
}

static void test_reclaim(void **state)
{
	struct world w;
	const struct rf_core_decision *d;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	guarantee(&w, "a", 1);
	guarantee(&w, "b", 1);
	put_pod(&w, "b1", "b", 1);
	put_pod(&w, "b2", "b", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	carry_as(&w, 1, NULL);
	put_pod(&w, "a1", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1); /* one, not both */
	d = &w.d[0];
	assert_int_equal(d->verdict, RF_CORE_EVICT);
	assert_has(d->reason, "borrowed");
	assert_int_equal(d->cause, RF_CORE_RECLAIMED);
	assert_false(has(d->reason, "level=a"));
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	w.now += 60000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0); /* said once */
	/* somebody else would like the place, too */
	gone(&w, rf_arena_cstr(&w.a, d->uid), "b");
	put_pod(&w, "b3", "b", 1);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "a1"));
	assert_null(of(&w, RF_CORE_BIND, "b3"));
	carry_as(&w, 1, NULL);
	/* and nobody takes it back in turn */
	w.now += 3600000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	end(&w);
}

static void test_nobody_comes_in_between(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	guarantee(&w, "a", 4);
	put_pod(&w, "b1", "b", 2);
	put_pod(&w, "b2", "b", 2);
	decide(&w);
	carry_as(&w, 2, NULL);
	put_pod(&w, "a1", "a", 4);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 2);
	gone(&w, "b1", "b"); /* half of it is free now */
	put_pod(&w, "b3", "b", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	node(&w, "n1", 1, "NVIDIA H100 80GB HBM3"); /* elsewhere it may */
	decide(&w);
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "b3")->node, "n1"));
	carry_as(&w, 1, NULL);
	gone(&w, "b2", "b");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "a1"));
	end(&w);
}

static void test_priority_evicts_in_its_own_queue(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	put_pod(&w, "a1", "a", 1);
	put_pod(&w, "b1", "b", 1);
	decide(&w);
	carry_as(&w, 1, NULL);
	p = pod(&w, "a2", "a", 1);
	p.priority = 10;
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	assert_has(of(&w, RF_CORE_EVICT, "a1")->reason, "higher priority");
	assert_int_equal(of(&w, RF_CORE_EVICT, "a1")->cause, RF_CORE_PREEMPTED);
	gone(&w, "a1", "a");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "a2"));
	end(&w);
}

/* preemptionPolicy Never: it comes first and takes what is free, and nobody goes for it; not for its queue's guarantee either. */
static void test_nobody_is_evicted_for_the_patient(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	put_pod(&w, "a1", "a", 1);
	put_pod(&w, "b1", "b", 1);
	decide(&w);
	carry_as(&w, 1, NULL);
	p = pod(&w, "a2", "a", 1);
	p.priority = 10;
	p.patient = true;
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	/* One like it that is not, with a lower priority, has somebody evicted; who comes first takes the place. */
	p = pod(&w, "a3", "a", 1);
	p.priority = 5;
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	gone(&w, "a1", "a");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "a2"));
	end(&w);
}

static void test_the_patient_takes_no_guarantee_back(void **state)
{
	(void)state;
	for (int patient = 0; patient < 2; patient++) {
		struct world w;
		struct rf_sched_pod p;

		begin(&w);
		cluster(&w, 1, 2);
		guarantee(&w, "a", 1);
		guarantee(&w, "b", 0);
		put_pod(&w, "b1", "b", 1);
		put_pod(&w, "b2", "b", 1);
		decide(&w);
		carry_as(&w, 1, NULL);
		p = pod(&w, "a1", "a", 1);
		p.patient = patient == 1;
		put(&w, &p);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_EVICT), patient == 1 ? 0 : 1);
		if (patient == 1)
			assert_has(why(&w, "a1"), "help=wait until others end: for a class with preemptionPolicy Never nobody is evicted");
		end(&w);
	}
}

/* Two that came late to a gang of one zone: place is made for both in the same zone, or for one. */
static void test_plans_of_a_gang_are_in_one_zone(void **state)
{
	struct rf_sched_group g = { .ns = RF_LIT("a"), .name = RF_LIT("g"), .min = 1, .rv = 1, .started = true, .topology = RF_LIT("zone") };
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	zone(&w, "n0", "east");
	zone(&w, "n1", "west");
	put_pod(&w, "a1", "a", 1);
	put_pod(&w, "a2", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	carry_as(&w, 1, NULL);
	rf_core_put_group(w.c, &g);
	for (int i = 0; i < 2; i++) {
		struct rf_sched_pod p = pod(&w, i == 0 ? "g0" : "g1", "a", 1);

		p.group = RF_LIT("g");
		p.priority = 10;
		put(&w, &p);
	}
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	gone(&w, rf_arena_cstr(&w.a, w.d[0].uid), "a");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	end(&w);
}

static void test_what_is_not_evicted(void **state)
{
	struct world w;
	struct rf_sched_pod p;
	struct rf_sched_match m = { .key = RF_LIT("app"), .op = RF_SCHED_EXISTS };
	struct rf_sched_budget budget = { .ns = RF_LIT("b"), .name = RF_LIT("pdb"), .labels = { &m, 1, 0 }, .allowed = 0 };
	struct rf_sched_pair label = { RF_LIT("app"), RF_LIT("x") };

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	guarantee(&w, "a", 1);
	rf_core_put_budget(w.c, &budget);
	p = pod(&w, "b1", "b", 1); /* a disruption budget */
	p.labels = &label;
	p.n_labels = 1;
	p.node = RF_LIT("n0");
	promise(&w, "b1", "b", "n0", "gpu-0");
	put(&w, &p);
	p = pod(&w, "b2", "b", 1); /* runs since a moment, and may run an hour */
	p.min_run_ms = 3600000;
	p.node = RF_LIT("n0");
	p.started_ms = w.now;
	promise(&w, "b2", "b", "n0", "gpu-1");
	put(&w, &p);
	put_pod(&w, "a1", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	assert_true(rf_core_next_ms(w.c, w.now) <= w.now + 3600000);
	w.now += 3600000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	assert_non_null(of(&w, RF_CORE_EVICT, "b2"));
	end(&w);
}

static void test_evict_fails(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	guarantee(&w, "a", 1);
	put_pod(&w, "b1", "b", 1);
	decide(&w);
	carry_as(&w, 1, NULL);
	put_pod(&w, "a1", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	rf_core_failed(w.c, RF_CORE_EVICT, RF_LIT("b1"), RF_LIT("a webhook said no"), w.now);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	w.now += 1000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	end(&w);
}

static void test_gang_evicts_and_gang_is_evicted_whole(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 2);
	guarantee(&w, "a", 2);
	group(&w, "b", "victims", 4);
	for (int i = 0; i < 4; i++)
		member(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "v%d", i)), "b", "victims", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 4);
	carry_as(&w, 1, "victims");
	group(&w, "a", "g", 2);
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 4);
	/* who comes meanwhile does not make it a gang with those that go */
	node(&w, "n9", 1, "NVIDIA H100 80GB HBM3");
	member(&w, "v4", "b", "victims", 1);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "v4"));
	rf_core_del_node(w.c, RF_LIT("n9"));
	for (int i = 0; i < 4; i++)
		gone(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "v%d", i)), "b");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	end(&w);
}

/* Whom the API kept when its gang went is a part of one that starts anew: alone nobody comes to it, and with enough it stays. */
static void test_refused_member_of_a_gang_that_went(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 2);
	guarantee(&w, "a", 2);
	group(&w, "b", "victims", 4);
	for (int i = 0; i < 4; i++)
		member(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "v%d", i)), "b", "victims", 1);
	decide(&w);
	carry_as(&w, 1, "victims");
	group(&w, "a", "g", 2);
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 4);
	rf_core_failed(w.c, RF_CORE_EVICT, RF_LIT("v3"), RF_LIT("its budget is used up"), w.now);
	for (int i = 0; i < 3; i++)
		gone(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "v%d", i)), "b");
	node(&w, "n9", 4, "NVIDIA H100 80GB HBM3");
	member(&w, "v4", "b", "victims", 1);
	decide(&w);
	carry_as(&w, 1, "g");
	assert_null(of(&w, RF_CORE_BIND, "v4"));
	assert_has(why(&w, "v4"), "needs 4 pods to start and has 2");
	member(&w, "v5", "b", "victims", 1);
	member(&w, "v6", "b", "victims", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	carry_as(&w, 1, "victims");
	decide(&w);
	assert_true(rf_core_started(w.c, RF_LIT("b"), RF_LIT("victims")));
	w.now += 3600000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	end(&w);
}

/* With them it would be left alone. */
static void test_nobody_is_evicted_for_another_of_its_gang(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	started_group(&w, "a", "g", 2);
	runs(&w, "g0", "g", "gpu-0");
	runs(&w, "g1", "g", "gpu-1");
	decide(&w);
	p = pod(&w, "g2", "a", 2);
	p.group = RF_LIT("g");
	p.priority = 10;
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	p = pod(&w, "other", "a", 2); /* one like it that is not of it */
	p.priority = 10;
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 2);
	end(&w);
}

/* Bound already, with its card. */
static void running(struct world *w, const char *uid, const char *ns, const char *of_group, const char *device)
{
	struct rf_sched_pod p = pod(w, uid, ns, device != NULL ? 1 : 0);

	p.group = of_group != NULL ? rf_str(of_group) : RF_STR_EMPTY;
	p.node = RF_LIT("n0");
	p.started_ms = w->now - 10000;
	if (device != NULL)
		promise(w, uid, ns, "n0", device);
	put(w, &p);
}

/* The queues know them as one workload: it does not shrink, it goes. */
static void test_gang_of_unlike_members_goes_whole(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	guarantee(&w, "a", 1);
	group(&w, "b", "g", 2);
	running(&w, "v0", "b", "g", NULL);
	running(&w, "v1", "b", "g", "gpu-0");
	running(&w, "x", "b", NULL, "gpu-1");
	rf_core_put_pod(w.c, &(struct rf_sched_pod){ .uid = RF_LIT("x"), .ns = RF_LIT("b"), .name = RF_LIT("x"), .rv = ++w.rv,
						     .node = RF_LIT("n0"), .pinned = true }, w.now);
	put_pod(&w, "a1", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 2);
	assert_non_null(of(&w, RF_CORE_EVICT, "v0"));
	assert_non_null(of(&w, RF_CORE_EVICT, "v1"));
	end(&w);
}

/* b1 runs on what is a's, is being deleted with such a grace, and a disruption budget leaves nothing; a1 waits. */
static void deleted_with_grace(struct world *w, int64_t grace_ms)
{
	struct rf_sched_budget budget = { .ns = RF_LIT("b"), .name = RF_LIT("pdb"), .labels = { .all = NULL }, .any = true };
	struct rf_sched_pod p;

	begin(w);
	cluster(w, 1, 1);
	guarantee(w, "a", 1);
	rf_core_put_budget(w->c, &budget);
	running(w, "b1", "b", NULL, "gpu-0");
	decide(w);
	p = pod(w, "b1", "b", 1);
	p.node = RF_LIT("n0");
	p.started_ms = w->now - 10000;
	p.grace_ms = grace_ms;
	p.deleting = true;
	put(w, &p);
	put_pod(w, "a1", "a", 1);
	decide(w);
}

static void test_deleted_with_a_long_grace_is_evicted(void **state)
{
	struct world w;

	(void)state;
	deleted_with_grace(&w, 300000); /* it goes by itself */
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	end(&w);
	deleted_with_grace(&w, INT64_C(31536000000));
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	assert_int_equal(of(&w, RF_CORE_EVICT, "b1")->cause, RF_CORE_RECLAIMED);
	w.now += 1000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0); /* said once */
	gone(&w, "b1", "b");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "a1"));
	end(&w);
}

/* b1 runs on what is a's under the first terms, then under the second; a1 comes and would have it. */
static size_t evicted_after(bool pinned, int64_t min_run, bool then_pinned, int64_t then_min_run)
{
	struct rf_sched_pod p;
	struct world w;
	size_t n;

	begin(&w);
	cluster(&w, 1, 1);
	guarantee(&w, "a", 1);
	promise(&w, "b1", "b", "n0", "gpu-0");
	for (int i = 0; i < 2; i++) {
		p = pod(&w, "b1", "b", 1);
		p.node = RF_LIT("n0");
		p.started_ms = w.now - 10000;
		p.pinned = i == 0 ? pinned : then_pinned;
		p.min_run_ms = i == 0 ? min_run : then_min_run;
		put(&w, &p);
		decide(&w);
	}
	put_pod(&w, "a1", "a", 1);
	decide(&w);
	n = count(&w, RF_CORE_EVICT);
	end(&w);
	return n;
}

static void test_terms_of_what_runs_only_loosen(void **state)
{
	(void)state;
	assert_int_equal(evicted_after(false, 0, false, 0), 1);
	assert_int_equal(evicted_after(false, 0, true, 0), 1);
	assert_int_equal(evicted_after(true, 0, false, 0), 1);
	assert_int_equal(evicted_after(true, 0, true, 0), 0);
	assert_int_equal(evicted_after(false, 5000, false, 3600000), 1);
	assert_int_equal(evicted_after(false, 3600000, false, 5000), 1);
	assert_int_equal(evicted_after(false, 3600000, false, 3600000), 0);
}

/* A gang that borrows runs under one PodGroup; that is deleted, and another of its name comes. */
static size_t evicted_with_groups(bool pinned, int64_t min_run, bool then_pinned, int64_t then_min_run)
{
	struct rf_sched_group g = { .ns = RF_LIT("b"), .name = RF_LIT("g"), .min = 2, .pinned = pinned, .min_run_ms = min_run };
	struct world w;
	size_t n;

	begin(&w);
	cluster(&w, 1, 2);
	guarantee(&w, "a", 1);
	running(&w, "v0", "b", "g", "gpu-0"); /* told of before its group, as after a restart */
	running(&w, "v1", "b", "g", "gpu-1");
	decide(&w);
	g.rv = ++w.rv;
	g.created_ms = w.now;
	rf_core_put_group(w.c, &g);
	decide(&w);
	rf_core_del_group(w.c, g.ns, g.name);
	decide(&w);
	g.rv = ++w.rv;
	g.pinned = then_pinned;
	g.min_run_ms = then_min_run;
	rf_core_put_group(w.c, &g);
	decide(&w);
	put_pod(&w, "a1", "a", 1);
	decide(&w);
	n = count(&w, RF_CORE_EVICT);
	end(&w);
	return n;
}

static void test_a_new_group_does_not_pin_what_runs(void **state)
{
	(void)state;
	assert_int_equal(evicted_with_groups(false, 0, false, 0), 2);
	assert_int_equal(evicted_with_groups(false, 0, true, 0), 2);
	assert_int_equal(evicted_with_groups(false, 5000, false, 3600000), 2);
	assert_int_equal(evicted_with_groups(true, 0, true, 0), 0);
	assert_int_equal(evicted_with_groups(false, 3600000, false, 3600000), 0);
}

/* Its PodGroup is gone, and nobody was there when it was: what runs is charged. */
static void test_gang_without_its_group_is_charged(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	running(&w, "v0", "b", "g", "gpu-0");
	running(&w, "v1", "b", "g", "gpu-1");
	decide(&w);
	assert_int_equal(used(&w, "b", "cards"), 2);
	end(&w);
}

static void put_queue(struct world *w, const char *name, const char *parent, const char *of_tenant, struct rf_sched_quota *q,
		      size_t n)
{
	struct rf_sched_queue v = { .name = rf_str(name), .parent = rf_str(parent), .tenant = rf_str(of_tenant),
				    .weight = 1, .quotas = q, .n_quotas = n };
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_put_queue(w->c, &v, w->now, &err) < 0)
		fail_msg("%s", err.msg);
}

/* What runs stays charged to its tenant when its queue goes, and is in its queue again when that comes back. */
static void test_queue_of_what_runs_is_deleted(void **state)
{
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	put_queue(&w, "b-x", "", "b", NULL, 0);
	p = pod(&w, "b1", "b", 1);
	p.queue = RF_LIT("b-x");
	p.node = RF_LIT("n0");
	promise(&w, "b1", "b", "n0", "gpu-0");
	put(&w, &p);
	decide(&w);
	assert_int_equal(used(&w, "b-x", "cards"), 1);
	rf_core_del_queue(w.c, RF_LIT("b-x"), w.now);
	decide(&w);
	assert_null(rf_queues_find(rf_core_queues(w.c), RF_LIT("b-x")));
	assert_int_equal(used(&w, "b", "cards"), 1);
	put_queue(&w, "b-x", "", "b", NULL, 0);
	decide(&w);
	assert_int_equal(used(&w, "b-x", "cards"), 1);
	assert_int_equal(used(&w, "b", "cards"), 0);
	end(&w);
}

/* What a queue above others says of one thing does not cut what these are guaranteed of it, or of another. */
static void test_guarantee_below_a_parent(void **state)
{
	struct rf_sched_quota org[] = { { RF_LIT("cpu"), -1, -1, -1, 1000 }, { RF_LIT("cards/h100"), 1, -1, -1, -1 } };
	struct rf_sched_quota mine[] = { { RF_LIT("cards"), 2, -1, -1, -1 }, { RF_LIT("cpu"), 8000, -1, -1, -1 } };
	struct rf_queue_view v;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	put_queue(&w, "org", "", "", org, 2);
	put_queue(&w, "b", "org", "b", mine, 2);
	guarantee(&w, "a", 0);
	running(&w, "b1", "b", NULL, "gpu-0");
	running(&w, "b2", "b", NULL, "gpu-1");
	put_pod(&w, "a1", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	rf_queue_view(rf_core_queues(w.c), rf_queues_find(rf_core_queues(w.c), RF_LIT("b")),
		      rf_core_resource(w.c, RF_LIT("cpu")), w.now, &v);
	assert_int_equal(v.guaranteed, 8000);
	rf_queue_view(rf_core_queues(w.c), rf_queues_find(rf_core_queues(w.c), RF_LIT("b")),
		      rf_core_resource(w.c, RF_LIT("cards")), w.now, &v);
	assert_int_equal(v.guaranteed, 2);
	end(&w);
}

/* Two more than the model's quota would leave: on cards of both models, and no more members than that. */
static void test_gang_within_quotas_of_models(void **state)
{
	struct rf_sched_quota q[] = { { RF_LIT("cards/h100"), -1, 2, -1, -1 }, { RF_LIT("cards/a100"), -1, 1, -1, -1 } };
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	node(&w, "n1", 4, "NVIDIA A100-SXM4-80GB");
	put_queue(&w, "a", "", "a", q, 2);
	group(&w, "a", "g", 3);
	for (int i = 0; i < 5; i++)
		member(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "m%d", i)), "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	assert_int_equal(used(&w, "a", "cards/h100"), 2);
	assert_int_equal(used(&w, "a", "cards/a100"), 1);
	end(&w);
}

/* A machine with two cards of each model, and a queue that speaks of one of them. */
static void mixed_cluster(struct world *w)
{
	static const char *const models[] = { "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3" };
	struct rf_sched_quota q[] = { { RF_LIT("cards/h100"), -1, 4, -1, -1 } };
	struct rf_sched_device d[4] = { 0 };

	cluster(w, 0, 0);
	node(w, "n0", 4, models[0]);
	for (size_t i = 0; i < RF_COUNT(d); i++)
		d[i] = (struct rf_sched_device){ .name = rf_arena_printf(&w->a, "gpu-%zu", i),
						 .model = rf_str(models[i / 2]),
						 .memory = 80 * GI,
						 .milli = 1000,
						 .island = (uint8_t)(i / 2) };
	rf_core_put_devices(w->c, RF_LIT("n0"), d, RF_COUNT(d));
	put_queue(w, "b", "", "b", q, 1);
}

/* What others may have of a model does not keep a gang off a machine with cards of several. */
static void test_gang_on_cards_of_both_models(void **state)
{
	static const struct {
		int pods;
		int64_t cards;
	} gangs[] = { { 3, 1 }, { 4, 1 }, { 2, 2 }, { 1, 3 }, { 1, 4 } };
	struct world w;

	(void)state;
	for (size_t k = 0; k < RF_COUNT(gangs); k++) {
		begin(&w);
		mixed_cluster(&w);
		group(&w, "a", "g", gangs[k].pods);
		for (int i = 0; i < gangs[k].pods; i++)
			member(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "m%d", i)), "a", "g", gangs[k].cards);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), gangs[k].pods);
		end(&w);
	}
}

/* Nor one pod; and who has a quota of a model has no more of it than that. */
static void test_cards_of_both_models_within_quotas(void **state)
{
	struct rf_sched_quota q[] = { { RF_LIT("cards/h100"), -1, 1, -1, -1 } };
	struct world w;

	(void)state;
	begin(&w);
	mixed_cluster(&w);
	put_pod(&w, "p", "a", 4);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	end(&w);
	begin(&w);
	mixed_cluster(&w);
	put_queue(&w, "a", "", "a", q, 1);
	group(&w, "a", "g", 3);
	for (int i = 0; i < 4; i++)
		member(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "m%d", i)), "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	assert_int_equal(used(&w, "a", "cards/h100"), 1);
	assert_int_equal(used(&w, "a", "cards/a100"), 2);
	end(&w);
}

/* A card that nobody knows counts for every model, as long as a quota speaks of models. */
static void test_no_queue_speaks_of_models_any_more(void **state)
{
	struct rf_sched_quota cards[] = { { RF_LIT("cards"), -1, 4, -1, -1 } };
	struct rf_sched_quota models[] = { { RF_LIT("cards/h100"), -1, 4, -1, -1 } };
	struct world w;

	(void)state;
	begin(&w);
	mixed_cluster(&w);
	promise(&w, "gone", "a", "lost", "gpu-0");
	for (int round = 0; round < 2; round++) {
		decide(&w);
		assert_int_equal(used(&w, "a", "cards/h100"), 1);
		assert_int_equal(used(&w, "a", "cards/a100"), 1);
		if (round == 0)
			rf_core_del_queue(w.c, RF_LIT("b"), w.now);
		else
			put_queue(&w, "b", "", "b", cards, 1);
		decide(&w);
		assert_int_equal(used(&w, "a", "cards"), 1);
		assert_int_equal(used(&w, "a", "cards/h100"), 0);
		assert_int_equal(used(&w, "a", "cards/a100"), 0);
		put_queue(&w, "b", "", "b", models, 1);
	}
	put_pod(&w, "p", "a", 4);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	end(&w);
}

/* Quotas of models are for whole cards: they keep no share beside them off a card. */
static void test_share_beside_cards_of_a_scarce_model(void **state)
{
	struct rf_sched_quota quotas[] = { { RF_LIT("cards/h100"), -1, 0, -1, -1 } };
	struct rf_sched_queue q = { .name = RF_LIT("s"), .tenant = RF_LIT("s"), .weight = 1, .quotas = quotas, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	node(&w, "old", 1, "NVIDIA A100-SXM4-80GB");
	tenant(&w, "s", RF_ISOLATION_SHARE, 10);
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), 0);
	group(&w, "s", "g", 2);
	member(&w, "g0", "s", "g", 1);
	p = pod(&w, "g1", "s", 0);
	p.group = RF_LIT("g");
	p.containers[0].ask = (struct rf_gpu_ask){ .share_bytes = 10 * GI, .share_milli = 100 };
	put(&w, &p);
	decide(&w);
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "g0")->node, "old"));
	assert_true(rf_str_is(of(&w, RF_CORE_BIND, "g1")->node, "n0"));
	end(&w);
}

/* Two of a higher priority do not both count on the one that leaves. */
static void test_two_plans_two_victims(void **state)
{
	struct rf_sched_quota q[] = { { RF_LIT("cards"), 0, 2, -1, -1 } };
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	put_queue(&w, "a", "", "a", q, 1);
	running(&w, "l0", "a", NULL, "gpu-0");
	running(&w, "l1", "a", NULL, "gpu-1");
	for (int i = 0; i < 2; i++) {
		p = pod(&w, i == 0 ? "h0" : "h1", "a", 1);
		p.priority = 10;
		put(&w, &p);
	}
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 2);
	gone(&w, "l0", "a");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	gone(&w, "l1", "a");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	end(&w);
}

/* What was started, and is told of as bound, is like all that runs: a restart would not know better. */
static void test_what_was_just_started_may_go(void **state)
{
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	p = pod(&w, "high", "a", 1);
	p.priority = 10;
	p.gated = true;
	put(&w, &p);
	put_pod(&w, "low", "a", 1);
	p.gated = false;
	p.rv = ++w.rv;
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "low"));
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0); /* not bound yet */
	w.n = 1;
	w.d[0] = (struct rf_core_decision){ .verdict = RF_CORE_WAIT };
	running(&w, "low", "a", NULL, "gpu-0");
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	end(&w);
}

/* The minimum run time is counted from when it was bound, not from when that was decided. */
static void test_min_run_counts_from_the_binding(void **state)
{
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	guarantee(&w, "a", 1);
	p = pod(&w, "b1", "b", 1);
	p.min_run_ms = 5000;
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	carry_claim(&w, &w.d[0]);
	w.now += 1000;
	carry_bind(&w, &w.d[0], p);
	put_pod(&w, "a1", "a", 1);
	w.now += 4000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	w.now += 1000;
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 1);
	end(&w);
}

/* It ended and its claim is gone, and both are heard of at once. */
static void test_ended_and_scrubbed_at_once(void **state)
{
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	running(&w, "b1", "b", NULL, "gpu-0");
	decide(&w);
	assert_int_equal(free_cards(&w), 0);
	p = pod(&w, "b1", "b", 1);
	p.node = RF_LIT("n0");
	p.ended = true;
	put(&w, &p);
	del_claim(&w, "b1", "b");
	decide(&w);
	assert_int_equal(free_cards(&w), 1);
	end(&w);
}

/* A tenant that shares no card any more is not joined on the one where it has a share. */
static void test_no_share_beside_one_who_shares_no_more(void **state)
{
	struct rf_sched_grant g = { .container = RF_LIT("main"), .device = RF_LIT("gpu-0"), .bytes = 8 * GI, .milli = 100 };
	struct rf_tenant t = { .isolation = RF_ISOLATION_SHARE, .trust_domain = RF_LIT("lab"), .quota_gpus = 10,
			       .quota_gpu_memory = 800 * GI, .quota_pods = -1, .queue_weight = 1 };
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	node(&w, "n0", 1, "NVIDIA H100 80GB HBM3");
	for (int i = 0; i < 2; i++) {
		t.name = i == 0 ? RF_LIT("x") : RF_LIT("y");
		rf_core_put_tenant(w.c, &t);
		rf_core_put_namespace(w.c, t.name, t.name);
	}
	p = pod(&w, "x1", "x", 0);
	p.containers[0].ask = (struct rf_gpu_ask){ .share_bytes = 8 * GI, .share_milli = 100 };
	p.node = RF_LIT("n0");
	put_claim(&w, "x1", "x", "n0", &g, 1);
	put(&w, &p);
	t.name = RF_LIT("x");
	t.isolation = RF_ISOLATION_SLICE;
	rf_core_put_tenant(w.c, &t);
	p = pod(&w, "y1", "y", 0);
	p.containers[0].ask = (struct rf_gpu_ask){ .share_bytes = 8 * GI, .share_milli = 100 };
	put(&w, &p);
	decide(&w);
	assert_null(of(&w, RF_CORE_BIND, "y1"));
	t.isolation = RF_ISOLATION_SHARE;
	rf_core_put_tenant(w.c, &t);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "y1"));
	end(&w);
}

/* --- moving --------------------------------------------------------------------------------------- */

static void sharing(struct world *w, const char *uid, const char *node_name, int64_t min_run, bool pinned)
{
	struct rf_sched_grant g = { .container = RF_LIT("main"), .device = RF_LIT("gpu-0"), .bytes = 8 * GI, .milli = 100 };
	struct rf_sched_pod p = pod(w, uid, "s", 0);

	p.containers[0].ask = (struct rf_gpu_ask){ .share_bytes = 8 * GI, .share_milli = 100 };
	p.node = rf_str(node_name);
	p.started_ms = w->now - 1000;
	p.min_run_ms = min_run;
	p.pinned = pinned;
	put_claim(w, uid, "s", node_name, &g, 1);
	put(w, &p);
}

/* Three cards with a little on each: on one it all fits. */
static void test_moves_free_cards(void **state)
{
	struct rf_core_move *m;
	struct world w;
	int64_t before;

	(void)state;
	begin(&w);
	for (int i = 0; i < 3; i++)
		node(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "n%d", i)), 1, "NVIDIA H100 80GB HBM3");
	tenant(&w, "s", RF_ISOLATION_SHARE, 100);
	sharing(&w, "s0", "n0", 0, false);
	sharing(&w, "s1", "n1", 0, false);
	sharing(&w, "s2", "n2", 0, false);
	before = free_cards(&w);
	assert_int_equal(rf_core_defragment(w.c, w.now, 10, &w.a, &m), 2);
	assert_true(rf_str_is(m[0].uid, "s2") && rf_str_is(m[0].from, "n2"));
	assert_true(rf_str_is(m[1].uid, "s1") && rf_str_is(m[1].from, "n1"));
	for (int i = 0; i < 2; i++) { /* where the scheduler would put them by itself, too */
		assert_true(rf_str_is(m[i].to, "n0"));
		assert_true(rf_str_is(m[i].device, "gpu-0"));
		assert_int_equal(m[i].free_cards, before + i + 1);
	}
	assert_int_equal(free_cards(&w), before); /* only looked */
	assert_int_equal(rf_core_defragment(w.c, w.now, 1, &w.a, &m), 1);
	audit(&w);
	/* not what must stay, nor what has not run its time */
	sharing(&w, "s0", "n0", 0, true);
	sharing(&w, "s1", "n1", 60000, false);
	assert_int_equal(rf_core_defragment(w.c, w.now, 10, &w.a, &m), 1);
	assert_true(rf_str_is(m[0].uid, "s2"));
	end(&w);
}

/* A share goes for a card of a higher priority, but not if others have a claim on that card: it would come back. */
static void test_priority_swaps_within_the_share(void **state)
{
	(void)state;
	for (int others = 0; others < 2; others++) {
		struct rf_sched_pod p;
		struct world w;

		begin(&w);
		node(&w, "n0", 1, "NVIDIA H100 80GB HBM3");
		node(&w, "n1", 1, "NVIDIA H100 80GB HBM3");
		tenant(&w, "s", RF_ISOLATION_SHARE, 100);
		tenant(&w, "a", RF_ISOLATION_GPU, 100);
		sharing(&w, "s0", "n0", 0, false);
		p = pod(&w, "s1", "s", 1);
		p.priority = 10;
		p.node = RF_LIT("n1");
		p.started_ms = w.now;
		promise(&w, "s1", "s", "n1", "gpu-0");
		put(&w, &p);
		p = pod(&w, "s2", "s", 1);
		p.priority = 10;
		put(&w, &p);
		if (others > 0)
			put_pod(&w, "a1", "a", 1);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_EVICT), others > 0 ? 0 : 1);
		end(&w);
	}
}

/* --- commits that lose a member ------------------------------------------------------------------- */

/* The claim of one is gone before its pod is, and then its binding fails: the others hear of it. */
static void test_commit_loses_a_member(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 4);
	group(&w, "a", "g", 2);
	for (int i = 0; i < 3; i++)
		member(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "m%d", i)), "a", "g", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 3);
	for (size_t i = 0; i < w.n; i++)
		carry_claim(&w, &w.d[i]);
	audit(&w);
	del_claim(&w, "m0", "a");
	audit(&w);
	rf_core_del_pod(w.c, RF_LIT("m0"), w.now);
	audit(&w);
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("m0"), RF_LIT("not found"), w.now);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	assert_true(of(&w, RF_CORE_BIND, "m1")->promised);
	end(&w);
}

/* Promised, and then barred: what cannot be bound does not keep its card from others for a gang that will not be. */
static void test_promises_of_a_gang_that_is_barred(void **state)
{
	struct rf_sched_grant g = { .container = RF_LIT("main"), .device = RF_LIT("gpu-0"), .bytes = 8 * GI, .milli = 100 };
	struct rf_sched_pod p;
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	group(&w, "a", "g", 2);
	p = pod(&w, "m0", "a", 0);
	p.containers[0].ask = (struct rf_gpu_ask){ .share_bytes = 8 * GI, .share_milli = 100 };
	p.group = RF_LIT("g");
	put(&w, &p);
	put_claim(&w, "m0", "a", "n0", &g, 1); /* and its tenant shares no card any more */
	decide(&w);
	assert_non_null(of(&w, RF_CORE_RELEASE, "m0"));
	end(&w);
}

/* Of unlike members the first start, as many as are needed: the others are told that they follow. */
static void test_the_rest_of_an_unlike_gang_follows(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	group(&w, "a", "g", 2);
	member(&w, "m0", "a", "g", 1);
	member(&w, "m1", "a", "g", 1);
	member(&w, "m2", "a", "g", 0);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "m0"), "group g needs at once 2 whole cards, and the cluster has 1 left");
	assert_has(why(&w, "m2"), "it follows them");
	end(&w);
}

/* --- claims of others --------------------------------------------------------------------------- */

/* b's claim names a pod of a: it holds its card for b, and says nothing of that pod. */
static void claim_of_others(bool pod_first)
{
	struct world w;
	const struct rf_core_decision *d;
	struct rf_sched_grant g = {
		.container = RF_LIT("main"), .device = RF_LIT("gpu-0"), .bytes = 80 * GI, .milli = 1000, .whole = true
	};

	begin(&w);
	cluster(&w, 1, 4);
	if (pod_first)
		put_pod(&w, "p1", "a", 1);
	put_claim(&w, "p1", "b", "n0", &g, 1);
	if (!pod_first)
		put_pod(&w, "p1", "a", 1);
	decide(&w);
	d = of(&w, RF_CORE_BIND, "p1");
	assert_non_null(d);
	assert_false(d->promised);
	assert_int_equal(d->n_grants, 1);
	assert_false(rf_str_is(d->grants[0].device, "gpu-0"));
	assert_int_equal(used(&w, "a", "cards"), 1);
	assert_int_equal(used(&w, "b", "cards"), 1);
	assert_int_equal(free_cards(&w), 2);
	/* nor when it is told again, nor when it goes */
	put_claim(&w, "p1", "b", "n0", &g, 1);
	assert_int_equal(decide(&w), 0);
	assert_int_equal(used(&w, "b", "cards"), 1);
	carry_as(&w, 1, NULL);
	del_claim(&w, "p1", "b");
	decide(&w);
	assert_int_equal(used(&w, "a", "cards"), 1);
	assert_int_equal(used(&w, "b", "cards"), 0);
	assert_int_equal(free_cards(&w), 3);
	end(&w);
}

static void test_claim_of_others_is_not_heard(void **state)
{
	(void)state;
	claim_of_others(true);
	claim_of_others(false);
}

/* --- looking ------------------------------------------------------------------------------------ */

static void test_looking_changes_no_order(void **state)
{
	(void)state;
	for (int looks = 0; looks < 2; looks++) {
		struct world w;
		struct rf_sched_pod p;

		begin(&w);
		cluster(&w, 1, 2);
		p = pod(&w, "young", "a", 3);
		p.created_ms += 10;
		put(&w, &p);
		if (looks) {
			audit(&w);
			(void)why(&w, "young");
		}
		put_pod(&w, "old-b", "a", 4);
		if (looks)
			(void)rf_core_position(w.c, RF_LIT("young"));
		put_pod(&w, "old-a", "b", 5);
		decide(&w);
		assert_int_equal(w.n, 3);
		assert_true(rf_str_is(w.d[0].uid, "old-a"));
		assert_true(rf_str_is(w.d[1].uid, "old-b"));
		assert_true(rf_str_is(w.d[2].uid, "young"));
		end(&w);
	}
}

/* It could not be carried out, and its pod is gone. */
static void undecide(struct world *w, const char *uid)
{
	rf_core_failed(w->c, RF_CORE_BIND, rf_str(uid), RF_LIT("gone"), w->now);
	rf_core_del_pod(w->c, rf_str(uid), w->now);
}

static void look_at_books(struct world *w)
{
	struct rf_queues *qs = rf_core_queues(w->c);
	rf_auto(buf) ledger = RF_BUF_INIT;
	struct rf_queue_view v;

	rf_core_export(w->c, w->now, &ledger);
	assert_true(rf_queue_usage(qs, rf_queues_find(qs, RF_LIT("b")), w->now) > 0);
	rf_queue_view(qs, rf_queues_find(qs, RF_LIT("b")), 0, w->now, &v);
	assert_int_equal(v.used, 2);
}

/* What queues have used is reckoned up when their work changes: a's a moment ago, b's not. That somebody has looked at
 * b's meanwhile is no change. */
static void test_looking_changes_no_turn(void **state)
{
	(void)state;
	for (int looks = 0; looks < 2; looks++) {
		struct rf_core_config config;
		struct world w;

		rf_core_config_default(&config);
		config.entry_ms = 0;
		begin_with(&w, &config);
		cluster(&w, 1, 4);
		tenant(&w, "c", RF_ISOLATION_GPU, 1000);
		put_pod(&w, "a1", "a", 1);
		put_pod(&w, "b1", "b", 2);
		put_pod(&w, "c1", "c", 1);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 3);
		put_pod(&w, "a2", "a", 1);
		put_pod(&w, "b2", "b", 1);
		decide(&w);
		w.now += 500;
		put_pod(&w, "a3", "a", 0);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 1);
		if (looks)
			look_at_books(&w);
		put_pod(&w, "b3", "b", 1);
		undecide(&w, "c1");
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 1);
		assert_non_null(of(&w, RF_CORE_BIND, "b2"));
		end(&w);
	}
}

/* All are put in order anew once a second. That somebody looked half a second ago does not put it off. */
static void test_looking_puts_nothing_off(void **state)
{
	(void)state;
	for (int looks = 0; looks < 2; looks++) {
		struct rf_core_config config;
		struct world w;

		rf_core_config_default(&config);
		config.entry_ms = 0;
		begin_with(&w, &config);
		cluster(&w, 1, 4);
		tenant(&w, "c", RF_ISOLATION_GPU, 1000);
		put_pod(&w, "a1", "a", 3);
		decide(&w);
		w.now += 500;
		undecide(&w, "a1"); /* three cards for half a second: b has had as much in 750 ms */
		put_pod(&w, "b1", "b", 2);
		put_pod(&w, "c1", "c", 2);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 2);
		put_pod(&w, "a2", "a", 1);
		put_pod(&w, "b2", "b", 2);
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 0);
		w.now += 500;
		if (looks)
			look_at_books(&w);
		w.now += 500;
		undecide(&w, "c1");
		decide(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 1);
		assert_non_null(of(&w, RF_CORE_BIND, "a2"));
		end(&w);
	}
}

/* --- what there is ------------------------------------------------------------------------------ */

static int64_t capacity(struct world *w, const char *resource)
{
	struct rf_queue_view v;

	rf_queue_view(rf_core_queues(w->c), NULL, rf_core_resource(w->c, rf_str(resource)), w->now, &v);
	return v.limit;
}

/* A card that is gone counts as long as somebody's claim holds it, and not a moment longer. */
static void test_gone_card_counts_while_it_is_held(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 2, 2);
	promise(&w, "p1", "a", "n0", "gpu-1");
	promise(&w, "p2", "a", "n1", "gpu-0");
	assert_int_equal(capacity(&w, "cards"), 4);
	node(&w, "n0", 1, "NVIDIA H100 80GB HBM3");
	assert_int_equal(capacity(&w, "cards"), 4);
	del_claim(&w, "p2", "a");
	assert_int_equal(capacity(&w, "cards"), 4);
	del_claim(&w, "p1", "a");
	assert_int_equal(capacity(&w, "cards"), 3);
	assert_int_equal(capacity(&w, "cards/h100"), 3);
	end(&w);
}

/* A card in MIG mode is offered in slices and in no other way: it is no card that a guarantee could be met with. */
static void test_card_in_mig_mode_is_no_whole_card(void **state)
{
	struct rf_sched_quota q = { RF_LIT("cards"), 4, -1, 0, -1 };
	struct rf_sched_device d[7] = { 0 };
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 0);
	for (size_t i = 0; i < RF_COUNT(d); i++)
		d[i] = (struct rf_sched_device){ .name = rf_arena_printf(&w.a, "gpu-%zu", i), .model = RF_LIT("NVIDIA H100 80GB HBM3"),
						 .memory = 80 * GI, .milli = 1000, .sliced = i == 6 };
	rf_core_put_devices(w.c, RF_LIT("n0"), d, RF_COUNT(d));
	assert_int_equal(capacity(&w, "cards"), 6);
	assert_int_equal(capacity(&w, "cards/h100"), 6);
	put_queue(&w, "a", "", "a", &q, 1);
	for (int i = 0; i < 4; i++)
		put_pod(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "b%d", i)), "b", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	end(&w);
}

/* Entitled to cards, but not of a model that is here: nothing is evicted for it, and nothing leaks. */
static void test_no_plan_for_a_model_that_is_not_here(void **state)
{
	struct world w;
	struct rf_sched_pod p;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	guarantee(&w, "a", 1);
	guarantee(&w, "b", 1);
	put_pod(&w, "b1", "b", 1);
	put_pod(&w, "b2", "b", 1);
	decide(&w);
	carry_as(&w, 1, NULL);
	p = pod(&w, "a1", "a", 1);
	p.models = RF_LIT("a100");
	put(&w, &p);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_EVICT), 0);
	assert_true(why(&w, "a1").n > 0);
	end(&w);
}

/* --- many --------------------------------------------------------------------------------------- */

/* What one tenant asks for in vain does not keep another's decision back. */
static void test_tries_are_bounded(void **state)
{
	struct world w;
	struct rf_core_decision *d;
	size_t waits = 0, n;
	bool bound = false;

	(void)state;
	begin(&w);
	cluster(&w, 4, 2);
	for (int i = 0; i < 2000; i++) {
		struct rf_sched_pod p = pod(&w, rf_arena_cstr(&w.a, rf_arena_printf(&w.a, "p%d", i)), "a", 1);

		p.cpu_milli = 1000 + i; /* each another shape */
		p.models = RF_LIT("a100"); /* there is none */
		put(&w, &p);
	}
	put_pod(&w, "b1", "b", 1);
	/* said before all of the others were tried, and so before anything is said of these */
	n = rf_core_decide(w.c, w.now, 100000, &w.a, &d);
	assert_int_equal(n, 1);
	assert_true(d[0].verdict == RF_CORE_BIND && rf_str_is(d[0].uid, "b1"));
	assert_int_equal(rf_core_next_ms(w.c, w.now), w.now);
	/* Somebody who comes while they are tried is not kept back either. */
	(void)rf_core_decide(w.c, w.now, 100000, &w.a, &d);
	assert_int_equal(rf_core_next_ms(w.c, w.now), w.now);
	put_pod(&w, "b2", "b", 1);
	n = rf_core_decide(w.c, w.now, 100000, &w.a, &d);
	for (size_t i = 0; i < n; i++)
		bound = bound || (d[i].verdict == RF_CORE_BIND && rf_str_is(d[i].uid, "b2"));
	assert_true(bound);
	/* and in the end each has its reason */
	for (int calls = 0; calls < 200 && rf_core_next_ms(w.c, w.now) <= w.now; calls++) {
		n = rf_core_decide(w.c, w.now, 100000, &w.a, &d);
		for (size_t i = 0; i < n; i++)
			waits += d[i].verdict == RF_CORE_WAIT;
	}
	assert_int_equal(waits, 2000);
	assert_has(why(&w, "p1999"), "a100");
	end(&w);
}

/* --- more than any machine has left --------------------------------------------------------------- */

static struct rf_sched_pod heavy(struct world *w, const char *uid, const char *ns, int64_t cards, int64_t gib)
{
	struct rf_sched_pod p = pod(w, uid, ns, cards);

	p.memory = gib * GI;
	return p;
}

static void put_heavy(struct world *w, const char *uid, const char *ns, int64_t cards, int64_t gib)
{
	struct rf_sched_pod p = heavy(w, uid, ns, cards, gib);

	put(w, &p);
}

static void run_heavy(struct world *w, const char *uid, const char *ns, int64_t gib)
{
	put_heavy(w, uid, ns, 1, gib);
	decide(w);
	carry_claim(w, of(w, RF_CORE_BIND, uid));
	carry_bind(w, of(w, RF_CORE_BIND, uid), heavy(w, uid, ns, 1, gib));
	decide(w);
}

/* It is not tried, so nothing was tried in vain: its queue, which has used less, has its turn as if it were not there. */
static void test_who_fits_no_machine_costs_its_queue_no_turn(void **state)
{
	struct world w;
	char uid[16];

	(void)state;
	begin(&w);
	cluster(&w, 1, 3);
	run_heavy(&w, "b1", "b", 1);
	run_heavy(&w, "b2", "b", 1);
	run_heavy(&w, "b3", "b", 1);
	put_pod(&w, "b4", "b", 1);
	for (int i = 0; i < 40; i++) {
		snprintf(uid, sizeof(uid), "a%d", i);
		put_heavy(&w, rf_arena_cstr(&w.a, rf_str(uid)), "a", 1, 600 + i); /* of 512 */
	}
	put_pod(&w, "small", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	w.now += 1000;
	gone(&w, "b1", "b");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "small"));
	assert_null(of(&w, RF_CORE_BIND, "b4"));
	/* and those hear what they lack, as they always did */
	gone(&w, "b2", "b");
	gone(&w, "b3", "b");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "b4"));
	assert_has(why(&w, "a0"), "memory");
	assert_has(why(&w, "a39"), "memory");
	end(&w);
}

/* Its place is that of the first for whom there may be room. */
static void test_who_fits_no_machine_costs_its_queue_no_guarantee(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 1);
	guarantee(&w, "b", 1);
	put_heavy(&w, "large", "b", 2, 600);
	put_pod(&w, "small", "b", 1);
	put_pod(&w, "a1", "a", 1); /* the first by name */
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 1);
	assert_non_null(of(&w, RF_CORE_BIND, "small"));
	end(&w);
}

/* Passed over, and entitled all the same. */
static void test_memory_is_taken_back(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	guarantee(&w, "a", 1);
	run_heavy(&w, "b1", "b", 500);
	put_heavy(&w, "a1", "a", 1, 100);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_EVICT, "b1"));
	gone(&w, "b1", "b");
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "a1"));
	end(&w);
}

/* Memory beside a card counts, for who needs a card: one node has no memory left, the other no card. */
static void test_memory_beside_a_card(void **state)
{
	struct world w;
	struct rf_fleet_left left;

	(void)state;
	begin(&w);
	cluster(&w, 2, 1);
	put_heavy(&w, "b1", "b", 0, 500);
	decide(&w);
	carry_bind(&w, of(&w, RF_CORE_BIND, "b1"), heavy(&w, "b1", "b", 0, 500));
	run_heavy(&w, "b2", "b", 100);
	left = rf_fleet_left(rf_core_fleet(w.c));
	assert_int_equal(left.cards, 1);
	assert_int_equal(left.memory, 412 * GI);
	assert_int_equal(left.beside.memory, 12 * GI);
	put_heavy(&w, "a1", "a", 1, 100);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "a1"), "memory");
	rf_core_del_pod(w.c, RF_LIT("b1"), w.now);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "a1"));
	end(&w);
}

static void tell_waiting(struct world *w, int i)
{
	static const char *const uids[] = { "a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1", "b2", "b3" };
	struct rf_sched_pod p = heavy(w, uids[i], i < 6 ? "a" : "b", 1 + i % 2, 400 - 60 * (i % 5));

	p.created_ms = i % 6;
	put(w, &p);
}

static void resize_node(struct world *w, const char *name, int64_t gib)
{
	struct rf_sched_node n = { .name = rf_str(name), .cpu_milli = 64000, .memory = gib * GI, .pods = 110, .ready = true };

	rf_core_put_node(w->c, &n);
	decide(w);
}

/* One core saw machines with more and with less left, the other is told of what is there, in another order: both decide the
 * same from then on. */
static void test_who_fits_no_machine_and_a_restart(void **state)
{
	struct world w, v;
	struct rf_core_decision bind;

	(void)state;
	begin(&w);
	cluster(&w, 1, 8);
	put_heavy(&w, "runs", "b", 1, 470);
	decide(&w);
	bind = *of(&w, RF_CORE_BIND, "runs");
	carry_claim(&w, &bind);
	carry_bind(&w, &bind, heavy(&w, "runs", "b", 1, 470));
	for (int i = 0; i < 10; i++) {
		tell_waiting(&w, i);
		decide(&w);
		resize_node(&w, "n0", 471 + 10 * i); /* no more than 100 are left, and the smallest asks for 160 */
	}
	resize_node(&w, "n0", 512);

	begin(&v);
	v.now = w.now;
	for (int i = 10; i-- > 0;)
		tell_waiting(&v, i);
	carry_claim(&v, &bind);
	carry_bind(&v, &bind, heavy(&v, "runs", "b", 1, 470));
	cluster(&v, 1, 8);
	decide(&v);
	assert_int_equal(count(&v, RF_CORE_BIND), 0);
	gone(&w, "runs", "b");
	gone(&v, "runs", "b");
	decide(&w);
	decide(&v);
	assert_true(count(&w, RF_CORE_BIND) > 0);
	assert_int_equal(w.n, v.n);
	for (size_t i = 0; i < w.n; i++) {
		assert_int_equal(w.d[i].verdict, v.d[i].verdict);
		assert_true(rf_str_eq(w.d[i].uid, v.d[i].uid) && rf_str_eq(w.d[i].node, v.d[i].node));
	}
	end(&v);
	end(&w);
}

static void test_most_does_not_cut_a_commit(void **state)
{
	struct world w;
	struct rf_core_decision *d;
	char uid[16];
	size_t n;

	(void)state;
	begin(&w);
	cluster(&w, 4, 4);
	group(&w, "a", "g", 8);
	for (int i = 0; i < 8; i++) {
		snprintf(uid, sizeof(uid), "g%d", i);
		member(&w, rf_arena_cstr(&w.a, rf_str(uid)), "a", "g", 1);
	}
	n = rf_core_decide(w.c, w.now, 3, &w.a, &d);
	assert_int_equal(n, 8);
	assert_int_equal(d[7].commit_left, 0);
	end(&w);
}

static void test_nothing_changed_nothing_done(void **state)
{
	struct world w;
	char uid[16];

	(void)state;
	begin(&w);
	cluster(&w, 2, 2);
	for (int i = 0; i < 500; i++) {
		snprintf(uid, sizeof(uid), "p%d", i);
		put_pod(&w, rf_arena_cstr(&w.a, rf_str(uid)), "a", 3 + i % 5);
	}
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_WAIT), 500);
	assert_int_equal(decide(&w), 0);
	assert_true(rf_core_next_ms(w.c, w.now) == INT64_MAX || rf_core_next_ms(w.c, w.now) > w.now);
	/* and the others are served all the same */
	put_pod(&w, "b1", "b", 2);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "b1"));
	end(&w);
}

static void keep_line(void *ctx, struct rf_str line)
{
	rf_buf_add(ctx, line);
}

static void test_log(void **state)
{
	struct world w, again;
	rf_auto(buf) log = RF_BUF_INIT, second = RF_BUF_INIT;
	struct rf_str left, line;
	struct rf_err err;
	size_t decisions = 0;

	(void)state;
	begin(&w);
	rf_core_log_to(w.c, keep_line, &log);
	cluster(&w, 2, 2);
	group(&w, "a", "g", 2);
	member(&w, "g0", "a", "g", 1);
	(void)why(&w, "g0");
	member(&w, "g1", "a", "g", 1);
	put_pod(&w, "p1", "b", 4);
	put_pod(&w, "p2", "b", 1);
	decide(&w);
	carry_as(&w, 1, "g");
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("p2"), RF_LIT("x"), w.now);
	w.now += 5000;
	decide(&w);
	/* told to another core, line by line, it decides the same */
	begin(&again);
	rf_core_log_to(again.c, keep_line, &second);
	left = rf_buf_str(&log);
	while (left.n > 0) {
		struct rf_log_event e;

		(void)rf_str_cut(&left, '\n', &line);
		if (rf_log_read(&again.a, line, &e, &err) < 0)
			fail_msg("%s", err.msg);
		decisions += e.kind == RF_LOG_DECISION;
		if (e.kind == RF_LOG_DECIDE)
			(void)rf_core_decide(again.c, e.t, (size_t)e.most, &again.a, &again.d);
		else if (e.kind != RF_LOG_DECISION && e.kind != RF_LOG_CONFIG)
			assert_int_equal(rf_log_tell(again.c, &e, &err), 0);
	}
	assert_true(decisions >= 4);
	assert_string_equal(log.p, second.p);
	rf_core_log_to(w.c, NULL, NULL);
	rf_core_log_to(again.c, NULL, NULL);
	end(&again);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bind),
		cmocka_unit_test(test_confirmed),
		cmocka_unit_test(test_ended_pod_with_claim_keeps_cards),
		cmocka_unit_test(test_older_does_not_replace),
		cmocka_unit_test(test_gated_is_not_looked_at),
		cmocka_unit_test(test_several_containers),
		cmocka_unit_test(test_shares_and_slices),
		cmocka_unit_test(test_reason_of_cards),
		cmocka_unit_test(test_reason_of_a_queue),
		cmocka_unit_test(test_reason_of_quota),
		cmocka_unit_test(test_reasons_that_no_place_helps),
		cmocka_unit_test(test_reasons_name_no_stranger),
		cmocka_unit_test(test_woken_when_something_changes),
		cmocka_unit_test(test_woken_when_a_neighbour_comes),
		cmocka_unit_test(test_woken_when_a_domain_goes),
		cmocka_unit_test(test_reason_told_again_when_it_is_another),
		cmocka_unit_test(test_reason_told_again_while_others_are_placed),
		cmocka_unit_test(test_a_missing_resource_is_named),
		cmocka_unit_test(test_isolation),
		cmocka_unit_test(test_daemon_on_its_node),
		cmocka_unit_test(test_promise_is_kept),
		cmocka_unit_test(test_release_when_it_points_at_nothing),
		cmocka_unit_test(test_node_goes_with_a_promise),
		cmocka_unit_test(test_node_comes_back_with_what_it_held),
		cmocka_unit_test(test_claim_on_a_lost_node_is_in_its_rack),
		cmocka_unit_test(test_claim_on_a_node_lost_at_once_is_in_its_rack),
		cmocka_unit_test(test_ties_end_by_name),
		cmocka_unit_test(test_restart_in_any_order),
		cmocka_unit_test(test_facts_with_looks_between),
		cmocka_unit_test(test_bound_without_claim_holds_no_card),
		cmocka_unit_test(test_two_claims_for_one_card),
		cmocka_unit_test(test_failed_bind_backs_off),
		cmocka_unit_test(test_promise_that_cannot_be_bound_is_given_up),
		cmocka_unit_test(test_pod_deleted_while_its_claim_is_written),
		cmocka_unit_test(test_gang_all_or_none),
		cmocka_unit_test(test_gang_is_elastic),
		cmocka_unit_test(test_gang_of_different_members),
		cmocka_unit_test(test_group_that_is_not_there),
		cmocka_unit_test(test_gang_fails_as_a_whole),
		cmocka_unit_test(test_crash_between_claims_completes_the_gang),
		cmocka_unit_test(test_crash_between_claims_releases_what_cannot_be),
		cmocka_unit_test(test_crash_between_bindings),
		cmocka_unit_test(test_promises_of_a_started_gang_fail_alone),
		cmocka_unit_test(test_half_a_gang_is_taken_back),
		cmocka_unit_test(test_started_gang_that_lost_members_is_left_alone),
		cmocka_unit_test(test_gang_that_is_gone_starts_anew),
		cmocka_unit_test(test_one_that_comes_when_none_is_left),
		cmocka_unit_test(test_single_waits_for_others_when_none_is_left),
		cmocka_unit_test(test_members_are_replaced_alone_while_some_are_left),
		cmocka_unit_test(test_queue_of_a_model),
		cmocka_unit_test(test_queue_of_a_model_is_raised),
		cmocka_unit_test(test_model_is_left_by_a_lost_claim),
		cmocka_unit_test(test_queue_with_unknown_resource),
		cmocka_unit_test(test_queue_comes_before_its_parent),
		cmocka_unit_test(test_priority_within_a_queue_only),
		cmocka_unit_test(test_reclaim),
		cmocka_unit_test(test_nobody_comes_in_between),
		cmocka_unit_test(test_priority_evicts_in_its_own_queue),
		cmocka_unit_test(test_nobody_is_evicted_for_the_patient),
		cmocka_unit_test(test_the_patient_takes_no_guarantee_back),
		cmocka_unit_test(test_plans_of_a_gang_are_in_one_zone),
		cmocka_unit_test(test_what_is_not_evicted),
		cmocka_unit_test(test_evict_fails),
		cmocka_unit_test(test_gang_evicts_and_gang_is_evicted_whole),
		cmocka_unit_test(test_refused_member_of_a_gang_that_went),
		cmocka_unit_test(test_nobody_is_evicted_for_another_of_its_gang),
		cmocka_unit_test(test_gang_of_unlike_members_goes_whole),
		cmocka_unit_test(test_deleted_with_a_long_grace_is_evicted),
		cmocka_unit_test(test_terms_of_what_runs_only_loosen),
		cmocka_unit_test(test_a_new_group_does_not_pin_what_runs),
		cmocka_unit_test(test_gang_without_its_group_is_charged),
		cmocka_unit_test(test_queue_of_what_runs_is_deleted),
		cmocka_unit_test(test_guarantee_below_a_parent),
		cmocka_unit_test(test_gang_within_quotas_of_models),
		cmocka_unit_test(test_gang_on_cards_of_both_models),
		cmocka_unit_test(test_cards_of_both_models_within_quotas),
		cmocka_unit_test(test_no_queue_speaks_of_models_any_more),
		cmocka_unit_test(test_share_beside_cards_of_a_scarce_model),
		cmocka_unit_test(test_two_plans_two_victims),
		cmocka_unit_test(test_what_was_just_started_may_go),
		cmocka_unit_test(test_min_run_counts_from_the_binding),
		cmocka_unit_test(test_ended_and_scrubbed_at_once),
		cmocka_unit_test(test_no_share_beside_one_who_shares_no_more),
		cmocka_unit_test(test_moves_free_cards),
		cmocka_unit_test(test_priority_swaps_within_the_share),
		cmocka_unit_test(test_commit_loses_a_member),
		cmocka_unit_test(test_promises_of_a_gang_that_is_barred),
		cmocka_unit_test(test_the_rest_of_an_unlike_gang_follows),
		cmocka_unit_test(test_claim_of_others_is_not_heard),
		cmocka_unit_test(test_gone_card_counts_while_it_is_held),
		cmocka_unit_test(test_card_in_mig_mode_is_no_whole_card),
		cmocka_unit_test(test_no_plan_for_a_model_that_is_not_here),
		cmocka_unit_test(test_tries_are_bounded),
		cmocka_unit_test(test_who_fits_no_machine_costs_its_queue_no_turn),
		cmocka_unit_test(test_who_fits_no_machine_costs_its_queue_no_guarantee),
		cmocka_unit_test(test_memory_is_taken_back),
		cmocka_unit_test(test_memory_beside_a_card),
		cmocka_unit_test(test_who_fits_no_machine_and_a_restart),
		cmocka_unit_test(test_looking_changes_no_order),
		cmocka_unit_test(test_looking_changes_no_turn),
		cmocka_unit_test(test_looking_puts_nothing_off),
		cmocka_unit_test(test_most_does_not_cut_a_commit),
		cmocka_unit_test(test_nothing_changed_nothing_done),
		cmocka_unit_test(test_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
