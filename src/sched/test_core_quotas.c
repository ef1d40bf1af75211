/* Queues and what they may have of each resource: quotas of models, queues that come and go, and what there is to share. */
#include "sched/test_core_cluster.h"

/* --- queues ------------------------------------------------------------------------------------- */

static void test_queue_of_a_model(void **state)
{
	struct small w;
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
	struct small w;
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
	struct small w;
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
	struct small w;
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
	struct small w;
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
	struct small w;
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

/* --- what runs, and quotas of models ---------------------------------------------------------- */

/* Its PodGroup is gone, and nobody was there when it was: what runs is charged. */
static void test_gang_without_its_group_is_charged(void **state)
{
	struct small w;

	(void)state;
	begin(&w);
	cluster(&w, 1, 2);
	running(&w, "v0", "b", "g", "gpu-0");
	running(&w, "v1", "b", "g", "gpu-1");
	decide(&w);
	assert_int_equal(used(&w, "b", "cards"), 2);
	end(&w);
}

/* What runs stays charged to its tenant when its queue goes, and is in its queue again when that comes back. */
static void test_queue_of_what_runs_is_deleted(void **state)
{
	struct rf_sched_pod p;
	struct small w;

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
	struct small w;

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
	struct small w;

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
static void mixed_cluster(struct small *w)
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
	struct small w;

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
	struct small w;

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
	struct small w;

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
	struct small w;

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

/* --- what there is ------------------------------------------------------------------------------ */

/* A card that is gone counts as long as somebody's claim holds it, and not a moment longer. */
static void test_gone_card_counts_while_it_is_held(void **state)
{
	struct small w;

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
	struct small w;

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queue_of_a_model),
		cmocka_unit_test(test_queue_of_a_model_is_raised),
		cmocka_unit_test(test_model_is_left_by_a_lost_claim),
		cmocka_unit_test(test_queue_with_unknown_resource),
		cmocka_unit_test(test_queue_comes_before_its_parent),
		cmocka_unit_test(test_priority_within_a_queue_only),
		cmocka_unit_test(test_gang_without_its_group_is_charged),
		cmocka_unit_test(test_queue_of_what_runs_is_deleted),
		cmocka_unit_test(test_guarantee_below_a_parent),
		cmocka_unit_test(test_gang_within_quotas_of_models),
		cmocka_unit_test(test_gang_on_cards_of_both_models),
		cmocka_unit_test(test_cards_of_both_models_within_quotas),
		cmocka_unit_test(test_no_queue_speaks_of_models_any_more),
		cmocka_unit_test(test_share_beside_cards_of_a_scarce_model),
		cmocka_unit_test(test_gone_card_counts_while_it_is_held),
		cmocka_unit_test(test_card_in_mig_mode_is_no_whole_card),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
