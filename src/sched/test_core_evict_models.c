/* Who goes where cards are of several models: what a plan counts on is kept for it, and what is guaranteed of a model is given
 * back. Histories that once broke a promise, made short. */
#include "sched/test_core_evict.h"

/* --- what a plan counts on -------------------------------------------------------------------- */

/* What two give up is planned for a third, all of them within a limit of a model. Who is gone first and comes again does not
 * take that, although there is a card for it: it would all be in vain, and begin anew. */
static void test_room_of_a_model_is_kept(void **state)
{
	struct world *w = begin(0, 0);
	struct pod *slow, *p;

	(void)state;
	w->remake = true;
	world_add_node(w, 0, 4);
	w->queues[ACME].exists = true;
	w->queues[ACME].quotas[R_H100] = (struct quota){ true, -1, 4, -1, -1 };
	world_tell_queue(w, ACME);
	slow = make(w, ACME, S_CARD);
	slow->grace = 1500;
	world_tell_pod(w, slow);
	p = make(w, ACME, S_CARD2);
	p->priority = 1;
	world_tell_pod(w, p);
	settle(w);
	world_add_node(w, 1, 4);
	(void)submit(w, BOLT, S_CARD2);
	settle(w);
	p = make(w, ACME, S_CARD4);
	p->priority = 2;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 2);
	write_all(w);
	world_time(w, 1);
	for (int i = 0; i < PODS; i++)
		(void)world_scrub(w, &w->pods[i]);
	settle(w);
	assert_true(slow->live);
	rest(w);
	assert_true(p->node != NOBODY);
	assert_int_equal(w->n.evicts, 2);
	end(w);
}

static void no_h100(struct world *w, int queue)
{
	w->queues[queue].exists = true;
	w->queues[queue].quotas[R_H100] = (struct quota){ true, -1, 0, -1, -1 };
	world_tell_queue(w, queue);
}

/* What is planned on cards of the one model that its quotas allow is not to be had elsewhere, however many of another are free:
 * who was evicted for it and comes again does not get these. */
static void test_model_of_a_plan_is_kept(void **state)
{
	struct world *w = begin(2, 2);
	struct pod *slow, *other, *p;

	(void)state;
	w->remake = true;
	for (int k = 0; k < 2; k++)
		w->nodes[0].cards[k].model = 1;
	world_tell_node(w, 0);
	no_h100(w, ACME);
	no_h100(w, BOLT);
	guarantee(w, BOLT, R_CARDS, 2);
	slow = make(w, ACME, S_CARD);
	slow->grace = 1500;
	world_tell_pod(w, slow);
	(void)submit(w, ACME, S_CARD);
	other = submit(w, CRUX, S_H100);
	settle(w);
	p = submit(w, BOLT, S_CARD2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 2);
	assert_true(!other->evicted);
	write_all(w);
	world_end_pod(w, other);
	world_time(w, 1);
	for (int i = 0; i < PODS; i++)
		(void)world_scrub(w, &w->pods[i]);
	settle(w);
	assert_true(slow->live);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_int_equal(w->n.evicts, 2);
	end(w);
}

/* One card of each model is what would be left, and who may have only one of a model has none of it beside another: nobody
 * goes for a place that it would not take. */
static void test_plan_of_two_models(void **state)
{
	struct world *w = begin(2, 2);
	struct pod *p, *lent;

	(void)state;
	w->nodes[0].cards[1].model = 1;
	world_tell_node(w, 0);
	w->nodes[1].cordoned = true;
	world_tell_node(w, 1);
	lent = submit(w, ACME, S_CARD);
	(void)submit(w, ACME, S_CARD);
	settle(w);
	assert_int_equal(lent->node, 0);
	guarantee(w, BOLT, R_CARDS, 2);
	w->queues[BOLT].quotas[R_H100] = (struct quota){ true, -1, 1, -1, -1 };
	world_tell_queue(w, BOLT);
	guarantee(w, CRUX, R_CARDS, 1);
	w->nodes[1].cordoned = false;
	world_tell_node(w, 1);
	(void)submit(w, CRUX, S_CARD);
	settle(w);
	p = submit(w, BOLT, S_CARD2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_int_equal(p->node, NOBODY);
	assert_int_equal(w->n.evicts, 0);
	end(w);
}

/* Nor for a share beside its card, of a model that its quotas do not leave it. */
static void test_plan_of_a_share_of_another_model(void **state)
{
	struct world *w = begin(1, 2);
	struct pod *p, *lent;

	(void)state;
	w->nodes[0].cards[1].model = 1;
	world_tell_node(w, 0);
	lent = submit(w, ACME, S_CARD2);
	settle(w);
	assert_int_equal(lent->node, 0);
	no_h100(w, BOLT);
	guarantee(w, BOLT, R_CARDS, 1);
	guarantee(w, BOLT, R_BYTES, 10 * GI);
	p = submit(w, BOLT, S_MIXED);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_int_equal(p->node, NOBODY);
	assert_int_equal(w->n.evicts, 0);
	end(w);
}

/* --- what is guaranteed of a model ------------------------------------------------------------- */

static void quota(struct world *w, int queue, enum res r, struct quota q)
{
	w->queues[queue].exists = true;
	w->queues[queue].quotas[r] = q;
	world_tell_queue(w, queue);
}

/* A node of A100 beside those of H100. */
static void a100s(struct world *w, int node)
{
	for (int k = 0; k < w->nodes[node].n_cards; k++)
		w->nodes[node].cards[k].model = 1;
	world_tell_node(w, node);
}

/* Also where all cards together have a limit, and no guarantee of their own. */
static void test_model_is_guaranteed_beside_a_limit(void **state)
{
	struct world *w = begin(1, 2);
	struct pod *p;

	(void)state;
	quota(w, BOLT, R_CARDS, (struct quota){ true, -1, 2, -1, -1 });
	guarantee(w, BOLT, R_H100, 1);
	(void)submit(w, ACME, S_CARD);
	(void)submit(w, ACME, S_CARD);
	settle(w);
	p = submit(w, BOLT, S_CARD);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_int_equal(w->n.evicts, 1);
	end(w);
}

/* What is guaranteed of one model is no claim on another. */
static void test_model_is_no_claim_on_another(void **state)
{
	struct world *w = begin(2, 1);
	struct pod *p;

	(void)state;
	a100s(w, 1);
	guarantee(w, CRUX, R_CARDS, 1);
	(void)submit(w, CRUX, S_H100);
	settle(w);
	(void)submit(w, ACME, S_CARD);
	settle(w);
	guarantee(w, BOLT, R_H100, 1);
	p = submit(w, BOLT, S_CARD);
	rest(w);
	assert_int_equal(p->node, NOBODY);
	assert_int_equal(w->n.evicts, 0);
	end(w);
}

/* Who has cards of another model instead has not had those that it is guaranteed. */
static void test_model_is_owed_beside_others(void **state)
{
	struct world *w = begin(2, 1);
	struct pod *p, *taken;

	(void)state;
	a100s(w, 1);
	taken = submit(w, ACME, S_H100);
	settle(w);
	assert_int_equal(taken->node, 0);
	(void)submit(w, BOLT, S_CARD);
	settle(w);
	guarantee(w, BOLT, R_H100, 1);
	p = submit(w, BOLT, S_H100);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_int_equal(w->n.evicts, 1);
	end(w);
}

/* Work within what is guaranteed of its model stays, though its queue is over in all and it came last: the others of it go. */
static void test_within_its_model_stays(void **state)
{
	struct world *w = begin(0, 0);
	struct pod *within, *p;

	(void)state;
	world_add_node(w, 1, 1);
	a100s(w, 1);
	guarantee(w, ACME, R_H100, 1);
	guarantee(w, BOLT, R_CARDS, 1);
	(void)submit(w, ACME, S_CARD);
	settle(w);
	world_add_node(w, 0, 1);
	world_time(w, 1);
	within = submit(w, ACME, S_CARD);
	settle(w);
	assert_int_equal(within->node, 0);
	p = submit(w, BOLT, S_CARD);
	rest(w);
	assert_int_equal(within->node, 0);
	assert_int_equal(p->node, 1);
	assert_int_equal(w->n.evicts, 1);
	end(w);
}

/* A card is free, and the quota of its model is used up by who is over its guarantee. */
static void test_quota_of_a_model_is_given_back(void **state)
{
	struct world *w = begin(1, 2);
	int org = LEAVES;
	struct pod *p;

	(void)state;
	quota(w, org, R_H100, (struct quota){ true, -1, 1, -1, -1 });
	w->queues[ACME].parent = w->queues[BOLT].parent = org;
	guarantee(w, ACME, R_CARDS, 0);
	guarantee(w, BOLT, R_H100, 1);
	(void)submit(w, ACME, S_CARD);
	settle(w);
	p = submit(w, BOLT, S_CARD);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_int_equal(w->n.evicts, 1);
	end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room_of_a_model_is_kept),
		cmocka_unit_test(test_model_of_a_plan_is_kept),
		cmocka_unit_test(test_plan_of_two_models),
		cmocka_unit_test(test_plan_of_a_share_of_another_model),
		cmocka_unit_test(test_model_is_guaranteed_beside_a_limit),
		cmocka_unit_test(test_model_is_no_claim_on_another),
		cmocka_unit_test(test_model_is_owed_beside_others),
		cmocka_unit_test(test_within_its_model_stays),
		cmocka_unit_test(test_quota_of_a_model_is_given_back),
	};

	return cmocka_run_group_tests_name("core_evict_models", tests, NULL, NULL);
}
