/* Cards, shares and slices are cut from the same cards: what a guarantee and a lending limit of one kind mean for the others. The
 * world holds every decision against the reference (test_core_reference.c). */
#include "sched/test_core_world.h"

static struct world world;

enum { ACME, BOLT, CRUX }; /* namespaces, tenants and their own queues alike */

static const struct kind {
	int shape;
	enum res r;
	int64_t amount;
} kinds[] = { { S_CARD, R_CARDS, 1 }, { S_SHARE3, R_BYTES, 40 * GI }, { S_MIG3, R_MIG3, 1 } };

static struct world *begin_with(int cards, enum rf_reclaim reclaim, enum rf_fleet_policy policy)
{
	struct rf_core_config c;

	rf_core_config_default(&c);
	c.reclaim = reclaim;
	c.policy = policy;
	world_bare(&world, &c);
	world_add_node(&world, 0, cards);
	return &world;
}

static struct world *begin(int cards)
{
	return begin_with(cards, RF_RECLAIM_GUARANTEE, RF_FLEET_FRAG);
}

static void end(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(w->core, w->now, &err) != 0)
		fail_msg("%s", err.msg);
	if (w->why[0] != 0)
		fail_msg("%s", w->why);
	world_done(w);
}

/* A leaf that says nothing of slices has none, so it always says how many. */
static void guarantee(struct world *w, int queue, enum res r, int64_t amount)
{
	w->queues[queue].exists = true;
	w->queues[queue].quotas[r] = (struct quota){ true, amount, r >= R_MIG1 && r <= R_MIG7 ? 7 : -1, -1, -1 };
	world_tell_queue(w, queue);
}

static struct pod *submit(struct world *w, int space, int shape, int64_t priority)
{
	int i = world_new_pod(w, space, shape);

	assert_true(i >= 0);
	w->pods[i].priority = priority;
	world_tell_pod(w, &w->pods[i]);
	return &w->pods[i];
}

static void rest(struct world *w)
{
	(void)world_calm(w);
	if (w->why[0] != 0)
		fail_msg("%s", w->why);
}

static bool runs(const struct pod *p)
{
	return p->live && p->node != NOBODY;
}

/* They do not meet on one card. */
static void keep_apart(struct world *w, bool slices)
{
	w->tenants[BOLT].trust = 1;
	w->tenants[BOLT].isolation = slices ? RF_ISOLATION_GPU : RF_ISOLATION_SHARE;
	world_tell_tenant(w, BOLT);
}

/* --- guarantees ------------------------------------------------------------------------------- */

/* Of whatever kind: what is over a guarantee goes, what is within stays. */
static void test_kind_comes_back_from_any(void **state)
{
	(void)state;
	for (size_t i = 0; i < RF_COUNT(kinds); i++) {
		for (size_t k = 0; k < RF_COUNT(kinds); k++) {
			for (int within = 0; within < 2; within++) {
				struct world *w = begin(1);
				struct pod *has, *wants;

				keep_apart(w, kinds[i].r == R_MIG3 && kinds[k].r == R_MIG3);
				guarantee(w, ACME, kinds[k].r, within ? kinds[k].amount : 0);
				has = submit(w, ACME, kinds[k].shape, 0);
				rest(w);
				assert_true(runs(has));
				guarantee(w, BOLT, kinds[i].r, kinds[i].amount);
				wants = submit(w, BOLT, kinds[i].shape, 0);
				rest(w);
				assert_int_equal(runs(has), within);
				assert_int_equal(runs(wants), !within);
				assert_int_equal(w->n.evicts, !within);
				end(w);
			}
		}
	}
}

/* Beyond what it is guaranteed nobody has a claim on another kind, also not on a fair share of its own. */
static void test_fair_share_of_one_kind_is_none_of_another(void **state)
{
	struct world *w = begin_with(1, RF_RECLAIM_FAIR, RF_FLEET_FRAG);
	struct pod *has, *wants;

	(void)state;
	has = submit(w, ACME, S_SHARE3, 0);
	rest(w);
	wants = submit(w, BOLT, S_CARD, 0);
	rest(w);
	assert_true(runs(has));
	assert_false(runs(wants));
	end(w);
}

/* Three queues on four cards with shares on each. The guaranteed cards are cleared one by one, as few as need be; who went and
 * comes again does not come before that. */
static void test_all_that_is_guaranteed_comes_back(void **state)
{
	struct world *w = begin(4);
	struct pod *cards[3];
	int n = 0;

	(void)state;
	w->remake = true;
	for (int i = 0; i < 4; i++)
		(void)submit(w, i % 2 ? ACME : CRUX, S_SHARE3, 0);
	rest(w);
	guarantee(w, CRUX, R_BYTES, 40 * GI);
	guarantee(w, BOLT, R_CARDS, 3);
	for (int i = 0; i < 3; i++)
		cards[i] = submit(w, BOLT, S_CARD, 0);
	rest(w);
	for (int i = 0; i < 3; i++)
		assert_true(runs(cards[i]));
	for (int i = 0; i < PODS; i++)
		n += w->pods[i].space == CRUX && runs(&w->pods[i]);
	assert_int_equal(n, 1);
	assert_int_equal(w->n.evicts, 3);
	end(w);
}

/* What an organisation is guaranteed comes back from outside of it; inside, its queues have no claim on each other. */
static void test_kind_of_an_organisation(void **state)
{
	struct world *w = begin(2);
	struct pod *outside, *inside, *wants;

	(void)state;
	w->tenants[ACME].trust = 1;
	world_tell_tenant(w, ACME);
	guarantee(w, LEAVES, R_CARDS, 2);
	w->queues[BOLT].parent = w->queues[CRUX].parent = LEAVES;
	guarantee(w, BOLT, R_CARDS, 0);
	guarantee(w, CRUX, R_CARDS, 0);
	outside = submit(w, ACME, S_SHARE3, 0);
	inside = submit(w, CRUX, S_SHARE3, 0);
	rest(w);
	assert_true(runs(outside) && runs(inside));
	wants = submit(w, BOLT, S_CARD, 0);
	rest(w);
	assert_true(runs(wants) && runs(inside));
	assert_false(runs(outside));
	wants = submit(w, BOLT, S_CARD, 0);
	rest(w);
	assert_false(runs(wants));
	assert_int_equal(w->n.evicts, 1);
	end(w);
}

/* A model that is guaranteed by name is cleared of shares; on cards of another model they stay. */
static void test_model_comes_back_from_shares(void **state)
{
	struct world *w = begin(2);
	struct pod *shares[2], *wants;

	(void)state;
	w->nodes[0].cards[1].model = 1;
	world_tell_node(w, 0);
	guarantee(w, BOLT, R_A100, 1);
	for (int i = 0; i < 2; i++)
		shares[i] = submit(w, ACME, S_SHARE3, 0);
	rest(w);
	assert_true(runs(shares[0]) && runs(shares[1]));
	wants = submit(w, BOLT, S_CARD, 0);
	rest(w);
	assert_true(runs(wants));
	assert_int_equal(wants->place.held[0].card, 1);
	assert_int_equal(w->n.evicts, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(runs(shares[i]), shares[i]->place.held[0].card == 0);
	end(w);
}

/* Two queues and one card. In each the one that comes first by priority is beyond a guarantee, in a kind of which nobody is
 * guaranteed anything, and the other within, in another kind: each could take the card from the one before it, round and round. */
static void test_no_round_of_kinds(void **state)
{
	struct world *w = begin(1);

	(void)state;
	w->remake = true;
	keep_apart(w, false);
	guarantee(w, ACME, R_MIG1, 1);
	guarantee(w, ACME, R_MIG7, 0);
	guarantee(w, BOLT, R_CARDS, 1);
	(void)submit(w, ACME, S_MIG1, 0);
	rest(w);
	(void)submit(w, BOLT, S_CARD, 0);
	(void)submit(w, BOLT, S_SHARE3, 1);
	(void)submit(w, ACME, S_MIG7, 1);
	rest(w);
	assert_true(w->n.evicts <= 2);
	end(w);
}

/* --- lending ---------------------------------------------------------------------------------- */

/* So much that is guaranteed, of which so much is for others while nobody uses it. */
static void lend_of(struct world *w, int queue, enum res r, int64_t amount, int64_t lending)
{
	guarantee(w, queue, r, amount);
	w->queues[queue].quotas[r].lending = lending;
	world_tell_queue(w, queue);
}

static void lend(struct world *w, int queue, int64_t cards, int64_t lending)
{
	lend_of(w, queue, R_CARDS, cards, lending);
}

static int count_running(struct pod *const *p, int n)
{
	int all = 0;

	for (int i = 0; i < n; i++)
		all += runs(p[i]);
	return all;
}

static void submit_all(struct world *w, int space, int shape, struct pod **ret, int n)
{
	for (int i = 0; i < n; i++)
		ret[i] = submit(w, space, shape, 0);
	rest(w);
}

/* Of whatever kind: on a card that a queue lends to nobody only its own work starts, and beside that. */
static void test_unlent_card_is_left(void **state)
{
	(void)state;
	for (size_t k = 0; k < RF_COUNT(kinds); k++) {
		struct world *w = begin(2);
		struct pod *first, *second, *own;

		guarantee(w, ACME, kinds[k].r, 0);
		lend(w, BOLT, 1, 0);
		first = submit(w, ACME, kinds[k].shape, 0);
		rest(w);
		assert_true(runs(first));
		second = submit(w, ACME, S_CARD, 0);
		rest(w);
		assert_false(runs(second));
		assert_non_null(strstr(second->why, kinds[k].r == R_CARDS ? "not kept by those whom it is guaranteed to" :
									    "guaranteed to others who do not lend them"));
		own = submit(w, BOLT, S_CARD, 0);
		rest(w);
		assert_true(runs(own) && runs(first));
		assert_int_equal(w->n.evicts, 0);
		end(w);
	}
}

/* What is held already may be shared further, and no other card is touched, although shares are to be spread. One that is lent
 * is. */
static void test_unlent_card_is_left_beside_shares(void **state)
{
	struct world *w = begin_with(3, RF_RECLAIM_GUARANTEE, RF_FLEET_SPREAD);
	struct pod *p[5];

	(void)state;
	lend(w, BOLT, 2, 0);
	for (int i = 0; i < 5; i++)
		p[i] = submit(w, ACME, S_SHARE2, 0);
	rest(w);
	for (int i = 0; i < 4; i++)
		assert_true(runs(p[i]) && p[i]->place.held[0].card == p[0]->place.held[0].card);
	assert_false(runs(p[4]));
	lend(w, BOLT, 2, 1);
	rest(w);
	assert_true(runs(p[4]));
	end(w);
}

/* Two cards are kept, and shares of one who lends nothing either are on the third. Who is guaranteed it has it back, and not one
 * of the others, which are free. */
static void test_plan_leaves_unlent_cards(void **state)
{
	struct world *w = begin(3);
	struct pod *has, *wants;

	(void)state;
	has = submit(w, ACME, S_SHARE3, 0);
	rest(w);
	assert_true(runs(has));
	lend(w, BOLT, 2, 0);
	guarantee(w, CRUX, R_CARDS, 1);
	wants = submit(w, CRUX, S_CARD, 0);
	rest(w);
	assert_true(runs(wants));
	assert_false(runs(has));
	assert_int_equal(w->n.evicts, 1);
	end(w);
}

/* Two cards are free, and who is guaranteed them may have them when as many are that others keep. Who goes for that, and comes
 * again sooner than the last of them is gone, does not get one of these. */
static void test_plan_counts_on_unlent_cards(void **state)
{
	struct world *w = begin(2);
	struct pod *wants;

	(void)state;
	w->remake = true;
	guarantee(w, ACME, R_BYTES, 0);
	for (int i = 0; i < 2; i++)
		submit(w, ACME, S_SHARE3, 0)->grace = 1500 * i;
	rest(w);
	world_add_node(w, 1, 2);
	lend(w, CRUX, 2, 0);
	guarantee(w, BOLT, R_CARDS, 2);
	wants = submit(w, BOLT, S_CARD2, 0);
	rest(w);
	assert_true(runs(wants));
	assert_int_equal(w->n.evicts, 2);
	end(w);
}

/* Its own shares may be on what it keeps, and then others beside them. */
static void test_own_share_on_an_unlent_card(void **state)
{
	struct world *w = begin(1);
	struct pod *own, *other;

	(void)state;
	lend(w, ACME, 1, 0);
	other = submit(w, BOLT, S_SHARE2, 0);
	rest(w);
	assert_false(runs(other));
	own = submit(w, ACME, S_SHARE1, 0);
	rest(w);
	assert_true(runs(own) && runs(other));
	end(w);
}

/* Of so many of one queue only so many start, and all that the other keeps for itself is still to be had. */
static void kept_from(struct world *w, int shape, int n, int fit, int own_shape, int n_own)
{
	struct pod *other[8], *own[8];

	assert_true(n <= 8 && n_own <= 8);
	submit_all(w, ACME, shape, other, n);
	assert_int_equal(count_running(other, n), fit);
	submit_all(w, BOLT, own_shape, own, n_own);
	assert_int_equal(count_running(own, n_own), n_own);
	assert_int_equal(count_running(other, n), fit);
	assert_int_equal(w->n.evicts, 0);
	end(w);
}

/* Of a model by name: cards of others are for everybody. */
static void test_unlent_model_is_left(void **state)
{
	(void)state;
	for (size_t k = 0; k < RF_COUNT(kinds); k++) {
		struct world *w = begin(2);
		struct pod *first, *second, *own;

		w->nodes[0].cards[1].model = 1;
		world_tell_node(w, 0);
		guarantee(w, ACME, kinds[k].r, 0);
		lend_of(w, BOLT, R_A100, 1, 0);
		first = submit(w, ACME, kinds[k].shape, 0);
		rest(w);
		assert_true(runs(first));
		assert_int_equal(first->place.held[0].card, 0);
		second = submit(w, ACME, S_CARD, 0);
		rest(w);
		assert_false(runs(second));
		own = submit(w, BOLT, S_CARD, 0);
		rest(w);
		assert_true(runs(own) && runs(first));
		assert_int_equal(w->n.evicts, 0);
		end(w);
	}
}

/* Slices that are kept are left by cards, by shares and by slices of another profile, which may have the rest of the card. */
static void test_unlent_slices_are_left(void **state)
{
	static const struct {
		int shape, cards, fit;
	} others[] = { { S_CARD, 2, 1 }, { S_SHARE3, 2, 1 }, { S_MIG3, 1, 1 }, { S_MIG1, 1, 3 } };

	(void)state;
	for (size_t i = 0; i < RF_COUNT(others); i++) {
		struct world *w = begin(others[i].cards);

		guarantee(w, ACME, R_MIG3, 0);
		guarantee(w, ACME, R_MIG1, 0);
		lend_of(w, BOLT, R_MIG1, 4, 0);
		kept_from(w, others[i].shape, 4, others[i].fit, S_MIG1, 4);
	}
}

static void test_says_that_slices_are_not_lent(void **state)
{
	struct world *w = begin(1);
	struct pod *other;

	(void)state;
	w->nodes[0].cards[0].sliced = true;
	world_tell_node(w, 0);
	guarantee(w, ACME, R_MIG3, 0);
	lend_of(w, BOLT, R_MIG1, 6, 0);
	other = submit(w, ACME, S_MIG3, 0);
	rest(w);
	assert_false(runs(other));
	assert_non_null(strstr(other->why, "what is free of cards for it is guaranteed to others who do not lend it"));
	assert_non_null(strstr(other->why, "wait or have the guarantee raised"));
	end(w);
}

/* Shares that are kept are left a card by whole ones, by slices and by shares of another domain; those of its own are beside them. */
static void test_unlent_shares_are_left(void **state)
{
	static const struct {
		int shape, trust, fit;
	} others[] = { { S_CARD, 1, 1 }, { S_MIG3, 1, 2 }, { S_SHARE2, 1, 4 }, { S_SHARE2, 0, 4 } };

	(void)state;
	for (size_t i = 0; i < RF_COUNT(others); i++) {
		struct world *w = begin_with(2, RF_RECLAIM_GUARANTEE, RF_FLEET_SPREAD);

		w->nodes[0].cards[0].model = w->nodes[0].cards[1].model = 0; /* of 80 GiB, to the byte */
		world_tell_node(w, 0);
		w->tenants[ACME].trust = others[i].trust;
		world_tell_tenant(w, ACME);
		guarantee(w, ACME, R_MIG3, 0);
		lend_of(w, BOLT, R_BYTES, 80 * GI, 0);
		kept_from(w, others[i].shape, 5, others[i].fit, S_SHARE2, 4);
	}
}

/* What different queues keep, of whichever kinds, is not the same cards. */
static void test_unlent_kinds_add_up(void **state)
{
	static const struct {
		enum res first, second;
		int64_t of_first, of_second;
		int cards, shape;
	} cases[] = {
		{ R_CARDS, R_MIG1, 1, 7, 2, S_MIG1 },  { R_CARDS, R_MIG1, 1, 7, 2, S_CARD },	    { R_CARDS, R_MIG1, 1, 7, 2, S_SHARE1 },
		{ R_CARDS, R_H100, 2, 1, 3, S_CARD },  { R_CARDS, R_BYTES, 1, 80 * GI, 2, S_CARD }, { R_CARDS, R_BYTES, 1, 80 * GI, 2, S_SHARE1 },
		{ R_MIG1, R_MIG3, 7, 2, 2, S_CARD },   { R_BYTES, R_MIG1, 80 * GI, 7, 2, S_CARD },
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		struct world *w = begin(cases[i].cards);
		struct pod *other;

		for (int k = 0; k < cases[i].cards; k++)
			w->nodes[0].cards[k].model = 0;
		world_tell_node(w, 0);
		guarantee(w, ACME, R_MIG1, 0);
		lend_of(w, BOLT, cases[i].first, cases[i].of_first, 0);
		lend_of(w, CRUX, cases[i].second, cases[i].of_second, 0);
		other = submit(w, ACME, cases[i].shape, 0);
		rest(w);
		assert_false(runs(other));
		lend_of(w, CRUX, cases[i].second, 0, 0);
		rest(w);
		assert_true(runs(other));
		end(w);
	}
}

/* Of several profiles that fit on one card that one is left. */
static void test_unlent_profiles_share_a_card(void **state)
{
	struct world *w = begin(2);
	struct pod *other;

	(void)state;
	lend_of(w, BOLT, R_MIG1, 1, 0);
	lend_of(w, CRUX, R_MIG3, 1, 0);
	other = submit(w, ACME, S_CARD, 0);
	rest(w);
	assert_true(runs(other));
	end(w);
}

/* The free card is of a model that is kept: who is guaranteed one has the other, which only shares are on. */
static void test_plan_leaves_unlent_model(void **state)
{
	struct world *w = begin(2);
	struct pod *has, *wants;

	(void)state;
	has = submit(w, ACME, S_SHARE3, 0);
	rest(w);
	assert_true(runs(has));
	w->nodes[0].cards[1 - has->place.held[0].card].model = 1;
	world_tell_node(w, 0);
	lend_of(w, BOLT, R_A100, 1, 0);
	guarantee(w, CRUX, R_CARDS, 1);
	wants = submit(w, CRUX, S_CARD, 0);
	rest(w);
	assert_true(runs(wants));
	assert_false(runs(has));
	assert_int_equal(w->n.evicts, 1);
	end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kind_comes_back_from_any),
		cmocka_unit_test(test_fair_share_of_one_kind_is_none_of_another),
		cmocka_unit_test(test_all_that_is_guaranteed_comes_back),
		cmocka_unit_test(test_kind_of_an_organisation),
		cmocka_unit_test(test_model_comes_back_from_shares),
		cmocka_unit_test(test_no_round_of_kinds),
		cmocka_unit_test(test_unlent_card_is_left),
		cmocka_unit_test(test_unlent_card_is_left_beside_shares),
		cmocka_unit_test(test_plan_leaves_unlent_cards),
		cmocka_unit_test(test_plan_counts_on_unlent_cards),
		cmocka_unit_test(test_own_share_on_an_unlent_card),
		cmocka_unit_test(test_unlent_model_is_left),
		cmocka_unit_test(test_unlent_slices_are_left),
		cmocka_unit_test(test_says_that_slices_are_not_lent),
		cmocka_unit_test(test_unlent_shares_are_left),
		cmocka_unit_test(test_unlent_kinds_add_up),
		cmocka_unit_test(test_unlent_profiles_share_a_card),
		cmocka_unit_test(test_plan_leaves_unlent_model),
	};

	return cmocka_run_group_tests_name("core_kinds", tests, NULL, NULL);
}
