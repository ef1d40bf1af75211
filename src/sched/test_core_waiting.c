/* Who waits: why, what wakes it, whose turn it is, and that neither looking on nor what fits nowhere changes that. */
#include "sched/test_core_cluster.h"

/* --- waiting and saying why --------------------------------------------------------------------- */

static void test_reason_of_cards(void **state)
{
	struct small w;
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
	struct small w;

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
	struct small w;

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
	struct small w;
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
	struct small w;

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
	struct small w;

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
	struct small w;

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
	struct small w;

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
	struct small w;
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
	struct small w;
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
	struct small w;
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

/* --- looking ------------------------------------------------------------------------------------ */

static void test_looking_changes_no_order(void **state)
{
	(void)state;
	for (int looks = 0; looks < 2; looks++) {
		struct small w;
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
static void undecide(struct small *w, const char *uid)
{
	rf_core_failed(w->c, RF_CORE_BIND, rf_str(uid), RF_LIT("gone"), w->now);
	rf_core_del_pod(w->c, rf_str(uid), w->now);
}

static void look_at_books(struct small *w)
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
		struct small w;

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
		struct small w;

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

/* --- many --------------------------------------------------------------------------------------- */

/* What one tenant asks for in vain does not keep another's decision back. */
static void test_tries_are_bounded(void **state)
{
	struct small w;
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

static struct rf_sched_pod heavy(struct small *w, const char *uid, const char *ns, int64_t cards, int64_t gib)
{
	struct rf_sched_pod p = pod(w, uid, ns, cards);

	p.memory = gib * GI;
	return p;
}

static void put_heavy(struct small *w, const char *uid, const char *ns, int64_t cards, int64_t gib)
{
	struct rf_sched_pod p = heavy(w, uid, ns, cards, gib);

	put(w, &p);
}

static void run_heavy(struct small *w, const char *uid, const char *ns, int64_t gib)
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
	struct small w;
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
	struct small w;

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
	struct small w;

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
	struct small w;
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

static void tell_waiting(struct small *w, int i)
{
	static const char *const uids[] = { "a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1", "b2", "b3" };
	struct rf_sched_pod p = heavy(w, uids[i], i < 6 ? "a" : "b", 1 + i % 2, 400 - 60 * (i % 5));

	p.created_ms = i % 6;
	put(w, &p);
}

static void resize_node(struct small *w, const char *name, int64_t gib)
{
	struct rf_sched_node n = { .name = rf_str(name), .cpu_milli = 64000, .memory = gib * GI, .pods = 110, .ready = true };

	rf_core_put_node(w->c, &n);
	decide(w);
}

/* One core saw machines with more and with less left, the other is told of what is there, in another order: both decide the
 * same from then on. */
static void test_who_fits_no_machine_and_a_restart(void **state)
{
	struct small w, v;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(test_tries_are_bounded),
		cmocka_unit_test(test_who_fits_no_machine_costs_its_queue_no_turn),
		cmocka_unit_test(test_who_fits_no_machine_costs_its_queue_no_guarantee),
		cmocka_unit_test(test_memory_is_taken_back),
		cmocka_unit_test(test_memory_beside_a_card),
		cmocka_unit_test(test_who_fits_no_machine_and_a_restart),
		cmocka_unit_test(test_looking_changes_no_order),
		cmocka_unit_test(test_looking_changes_no_turn),
		cmocka_unit_test(test_looking_puts_nothing_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
