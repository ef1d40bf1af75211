/* Who is evicted or moved, for whom, and who is not. */
#include "sched/test_core_cluster.h"

/* --- evictions ---------------------------------------------------------------------------------- */

static void test_reclaim(void **state)
{
	struct small w;
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
	struct small w;

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
	struct small w;
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
	struct small w;
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
		struct small w;
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
	struct small w;

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
	struct small w;
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
	struct small w;

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
	struct small w;

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
	struct small w;

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
	struct small w;
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

/* The queues know them as one workload: it does not shrink, it goes. */
static void test_gang_of_unlike_members_goes_whole(void **state)
{
	struct small w;

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
static void deleted_with_grace(struct small *w, int64_t grace_ms)
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
	struct small w;

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
	struct small w;
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
	struct small w;
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

/* Two of a higher priority do not both count on the one that leaves. */
static void test_two_plans_two_victims(void **state)
{
	struct rf_sched_quota q[] = { { RF_LIT("cards"), 0, 2, -1, -1 } };
	struct rf_sched_pod p;
	struct small w;

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
	struct small w;

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
	struct small w;

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

/* --- moving --------------------------------------------------------------------------------------- */

static void sharing(struct small *w, const char *uid, const char *node_name, int64_t min_run, bool pinned)
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
	struct small w;
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
		struct small w;

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

/* --- what is not here ------------------------------------------------------------------------- */

/* Entitled to cards, but not of a model that is here: nothing is evicted for it, and nothing leaks. */
static void test_no_plan_for_a_model_that_is_not_here(void **state)
{
	struct small w;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(test_two_plans_two_victims),
		cmocka_unit_test(test_what_was_just_started_may_go),
		cmocka_unit_test(test_min_run_counts_from_the_binding),
		cmocka_unit_test(test_moves_free_cards),
		cmocka_unit_test(test_priority_swaps_within_the_share),
		cmocka_unit_test(test_no_plan_for_a_model_that_is_not_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
