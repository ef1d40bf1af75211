/* What becomes of one pod: where it is bound, what it holds until it is gone, what is promised to it, and what happens when
 * something of that fails. */
#include "sched/log.h"
#include "sched/test_core_cluster.h"

/* --- one pod ---------------------------------------------------------------------------------- */

static void test_bind(void **state)
{
	struct small w;
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
	struct small w;

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
	struct small w;
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
	struct small w;
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
	struct small w;
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
	struct small w;
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
	struct small w;
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

/* --- isolation ---------------------------------------------------------------------------------- */

static void test_isolation(void **state)
{
	struct small w;
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
	struct small w;
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
	struct small w;
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
	struct small w;
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
	struct small w;

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
	struct small w;

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

/* --- racks of lost nodes ---------------------------------------------------------------------- */

static void racked(struct small *w, const char *name, const char *rack)
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
	struct small w;

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
	struct small w;

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

/* --- failures ----------------------------------------------------------------------------------- */

static void test_failed_bind_backs_off(void **state)
{
	struct small w;
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
	struct small w;
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
	struct small w;
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

/* --- what is left of who ended, or shares no more --------------------------------------------- */

/* It ended and its claim is gone, and both are heard of at once. */
static void test_ended_and_scrubbed_at_once(void **state)
{
	struct rf_sched_pod p;
	struct small w;

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
	struct small w;

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

/* --- claims of others --------------------------------------------------------------------------- */

/* b's claim names a pod of a: it holds its card for b, and says nothing of that pod. */
static void claim_of_others(bool pod_first)
{
	struct small w;
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

/* --- what one call does, and what is written down --------------------------------------------- */

static void test_most_does_not_cut_a_commit(void **state)
{
	struct small w;
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
	struct small w;
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
	struct small w, again;
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
		cmocka_unit_test(test_isolation),
		cmocka_unit_test(test_daemon_on_its_node),
		cmocka_unit_test(test_promise_is_kept),
		cmocka_unit_test(test_release_when_it_points_at_nothing),
		cmocka_unit_test(test_node_goes_with_a_promise),
		cmocka_unit_test(test_node_comes_back_with_what_it_held),
		cmocka_unit_test(test_claim_on_a_lost_node_is_in_its_rack),
		cmocka_unit_test(test_claim_on_a_node_lost_at_once_is_in_its_rack),
		cmocka_unit_test(test_failed_bind_backs_off),
		cmocka_unit_test(test_promise_that_cannot_be_bound_is_given_up),
		cmocka_unit_test(test_pod_deleted_while_its_claim_is_written),
		cmocka_unit_test(test_ended_and_scrubbed_at_once),
		cmocka_unit_test(test_no_share_beside_one_who_shares_no_more),
		cmocka_unit_test(test_claim_of_others_is_not_heard),
		cmocka_unit_test(test_most_does_not_cut_a_commit),
		cmocka_unit_test(test_nothing_changed_nothing_done),
		cmocka_unit_test(test_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
