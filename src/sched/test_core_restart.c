/* A core that starts anew knows the same, in whatever order it is told. */
#include "sched/test_core_cluster.h"

enum fact { F_NODE, F_TENANT, F_SPACE, F_POD, F_CLAIM, F_GROUP, F_QUEUE, F_FACTS };

static void tell(struct small *w, enum fact f)
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
	struct small w;
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

/* Of nodes and cards that are equally good the first by name is taken, whatever was told first. */
static void test_ties_end_by_name(void **state)
{
	static const char *const names[] = { "n7", "n10", "n2", "n1", "n5" };

	(void)state;
	for (size_t first = 0; first < RF_COUNT(names); first++) {
		struct small w;

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
	struct small w;

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
	struct small w;
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
	struct small w;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ties_end_by_name),
		cmocka_unit_test(test_restart_in_any_order),
		cmocka_unit_test(test_facts_with_looks_between),
		cmocka_unit_test(test_bound_without_claim_holds_no_card),
		cmocka_unit_test(test_two_claims_for_one_card),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
