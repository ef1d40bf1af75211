/* Cards that vanish, break and come back on a node that stays, with work on them: what is held stays charged and is given to
 * nobody else, what is free is offered, and who waits hears why. */
#include "sched/test_core_small.h"

static void begin_with_cards(struct small *w, size_t n)
{
	begin(w);
	tenant(w, "a", 100, 1);
	tenant(w, "b", 100, 1);
	node(w, "n0", n, "z", "r");
}

static void put_share(struct small *w, const char *uid, const char *ns, int64_t bytes)
{
	struct rf_sched_pod p = pod(w, uid, ns, 0);

	p.containers[0].ask = (struct rf_gpu_ask){ .share_bytes = bytes, .share_milli = 100 };
	rf_core_put_pod(w->c, &p, w->now);
}

/* Binds what was decided, as it asked. */
static void carry_shares(struct small *w, int64_t bytes)
{
	for (size_t i = 0; i < w->n; i++) {
		struct rf_sched_pod p;

		if (w->d[i].verdict != RF_CORE_BIND)
			continue;
		put_claim(w, &w->d[i]);
		p = pod(w, rf_arena_cstr(&w->a, w->d[i].uid), rf_arena_cstr(&w->a, w->d[i].ns), 0);
		p.containers[0].ask = (struct rf_gpu_ask){ .share_bytes = bytes, .share_milli = 100 };
		p.node = w->d[i].node;
		p.started_ms = w->now;
		rf_core_put_pod(w->c, &p, w->now);
	}
}

static unsigned card_of(const struct small *w, const char *uid)
{
	const struct rf_core_decision *d = of(w, RF_CORE_BIND, uid);

	assert_non_null(d);
	return (unsigned)(d->grants[0].device.p[d->grants[0].device.n - 1] - '0');
}

/* --- whole cards ------------------------------------------------------------------------------ */

/* away: it is not in the slices any more; else it is, with a fault. */
static void lose_a_held_card(bool away)
{
	struct small w;
	unsigned lost;

	begin_with_cards(&w, 2);
	put_pod(&w, "p", "a", 1);
	decide_audited(&w);
	lost = 1U << card_of(&w, "p");
	carry(&w, 1, NULL);
	cards(&w, "n0", away ? 3 & ~lost : 3, lost);
	decide_audited(&w);
	assert_int_equal(w.n, 0); /* who ends it is the node's matter */
	assert_int_equal(used(&w, "a", "cards"), 1);
	assert_int_equal(used(&w, "a", "cards/h100"), 1);
	assert_int_equal(capacity(&w, "cards"), 2);
	assert_int_equal(free_cards(&w), 1);
	/* only the other card is to be had, once */
	put_pod(&w, "q", "b", 1);
	decide_audited(&w);
	assert_true(1U << card_of(&w, "q") != lost);
	carry(&w, 1, NULL);
	put_pod(&w, "r", "b", 1);
	decide_audited(&w);
	assert_non_null(of(&w, RF_CORE_WAIT, "r"));
	/* it comes back while it is held: it is still held */
	cards(&w, "n0", 3, 0);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_int_equal(free_cards(&w), 0);
	cards(&w, "n0", away ? 3 & ~lost : 3, lost);
	/* and once it is given back, gone or broken as it is, it is nobody's */
	gone(&w, "p", "a");
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_int_equal(used(&w, "a", "cards"), 0);
	assert_int_equal(capacity(&w, "cards"), away ? 1 : 2);
	assert_int_equal(capacity(&w, "cards/h100"), away ? 1 : 2);
	assert_has(why(&w, "r"), away ? "the cluster has 0 left" : "1 whose cards are out of service");
	cards(&w, "n0", 3, 0);
	decide_audited(&w);
	assert_true(1U << card_of(&w, "r") == lost);
	assert_int_equal(capacity(&w, "cards"), 2);
	end(&w);
}

static void a_held_card_that_vanishes(void **state)
{
	(void)state;
	lose_a_held_card(true);
}

static void a_held_card_that_breaks(void **state)
{
	(void)state;
	lose_a_held_card(false);
}

/* The claim is allocated, the binding is still to be said: it would start on nothing. */
static void a_promised_card_that_vanishes(void **state)
{
	(void)state;
	for (unsigned away = 0; away < 2; away++) {
		struct small w;
		unsigned lost;

		begin_with_cards(&w, 2);
		put_pod(&w, "p", "a", 1);
		decide_audited(&w);
		lost = 1U << card_of(&w, "p");
		put_claim(&w, of(&w, RF_CORE_BIND, "p"));
		cards(&w, "n0", away ? 3 & ~lost : 3, lost);
		decide_audited(&w);
		assert_int_equal(w.n, 0); /* the binding is on its way */
		rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("p"), RF_LIT("refused"), w.now);
		w.now += 10000;
		decide_audited(&w);
		assert_non_null(of(&w, RF_CORE_RELEASE, "p"));
		assert_int_equal(used(&w, "a", "cards"), 1);
		rf_core_del_claim(w.c, RF_LIT("a"), claim_name(&w, RF_LIT("p")), w.now);
		w.now += 10000;
		decide_audited(&w);
		assert_true(1U << card_of(&w, "p") != lost);
		assert_int_equal(used(&w, "a", "cards"), 1);
		end(&w);
	}
}

/* Decided, and nobody has told of a claim: it counts as held, and others have what is left. */
static void a_decided_card_that_vanishes(void **state)
{
	struct small w;
	unsigned lost;

	(void)state;
	begin_with_cards(&w, 3);
	put_pod(&w, "p", "a", 1);
	decide_audited(&w);
	lost = 1U << card_of(&w, "p");
	cards(&w, "n0", 7 & ~lost, 0);
	put_pod(&w, "q", "b", 2);
	decide_audited(&w);
	assert_int_equal(used(&w, "a", "cards"), 1);
	assert_non_null(of(&w, RF_CORE_BIND, "q"));
	carry(&w, 2, NULL);
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("p"), RF_LIT("no such device"), w.now);
	w.now += 10000;
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_int_equal(used(&w, "a", "cards"), 0);
	assert_int_equal(capacity(&w, "cards"), 2);
	cards(&w, "n0", 7, 0);
	decide_audited(&w);
	assert_true(1U << card_of(&w, "p") == lost);
	end(&w);
}

/* A core that never saw the card comes to know of it by its claim alone; when the card comes back it is that claim's. */
static void a_card_that_comes_back_after_a_restart(void **state)
{
	struct rf_sched_grant g = { .container = RF_LIT("main"), .device = RF_LIT("gpu-0"), .bytes = 80 * GI, .milli = 1000, .whole = true };
	struct rf_core_decision d = { .uid = RF_LIT("p"), .ns = RF_LIT("a"), .node = RF_LIT("n0"), .grants = &g, .n_grants = 1 };
	struct rf_sched_pod p;
	struct small w;

	(void)state;
	begin_with_cards(&w, 0);
	cards(&w, "n0", 2, 0);
	put_claim(&w, &d);
	p = pod(&w, "p", "a", 1);
	p.node = RF_LIT("n0");
	p.started_ms = w.now;
	rf_core_put_pod(w.c, &p, w.now);
	put_pod(&w, "q", "b", 2);
	decide_audited(&w);
	assert_int_equal(used(&w, "a", "cards"), 1);
	assert_int_equal(capacity(&w, "cards"), 2);
	cards(&w, "n0", 3, 0);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0); /* one of the two is held */
	assert_int_equal(used(&w, "a", "cards/h100"), 1);
	assert_int_equal(free_cards(&w), 1);
	gone(&w, "p", "a");
	decide_audited(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "q"));
	end(&w);
}

/* Charged to every model that has a quota, for nobody knows which it is: what that kept from others of its queue is theirs when
 * the claim goes. */
static void a_card_that_nobody_knows_is_given_back(void **state)
{
	struct rf_sched_grant g = { .container = RF_LIT("main"), .device = RF_LIT("gpu-0"), .bytes = 80 * GI, .milli = 1000, .whole = true };
	struct rf_core_decision d = { .uid = RF_LIT("p"), .ns = RF_LIT("a"), .node = RF_LIT("n0"), .grants = &g, .n_grants = 1 };
	struct rf_sched_quota quota = { RF_LIT("cards/h100"), -1, 1, -1, -1 };
	struct rf_sched_queue q = { .name = RF_LIT("a"), .tenant = RF_LIT("a"), .weight = 1, .quotas = &quota, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct small w;

	(void)state;
	begin_with_cards(&w, 0);
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), 0);
	cards(&w, "n0", 6, 0);
	put_claim(&w, &d); /* its pod is gone already */
	put_pod(&w, "q", "a", 1);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_int_equal(used(&w, "a", "cards/h100"), 1);
	gone(&w, "p", "a");
	decide_audited(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "q"));
	end(&w);
}

/* --- shares ----------------------------------------------------------------------------------- */

static void shares_on_a_card_that_vanishes(void **state)
{
	(void)state;
	for (unsigned away = 0; away < 2; away++) {
		struct small w;

		begin_with_cards(&w, 1);
		put_share(&w, "p", "a", 30 * GI);
		put_share(&w, "q", "a", 30 * GI);
		decide_audited(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 2);
		carry_shares(&w, 30 * GI);
		cards(&w, "n0", away ? 0 : 1, 1);
		put_share(&w, "r", "a", 20 * GI); /* there would be room */
		decide_audited(&w);
		assert_non_null(of(&w, RF_CORE_WAIT, "r"));
		assert_int_equal(used(&w, "a", "share-bytes"), 60 * GI);
		assert_int_equal(capacity(&w, "share-bytes"), 80 * GI);
		gone(&w, "p", "a");
		decide_audited(&w);
		assert_int_equal(count(&w, RF_CORE_BIND), 0);
		cards(&w, "n0", 1, 0);
		put_share(&w, "s", "a", 60 * GI);
		decide_audited(&w); /* 30 of 80 are held */
		assert_non_null(of(&w, RF_CORE_BIND, "r"));
		assert_non_null(of(&w, RF_CORE_WAIT, "s"));
		end(&w);
	}
}

/* A card that is not there is none that could be left untouched for those who do not lend theirs. */
static void a_card_that_vanishes_is_not_left_for_others(void **state)
{
	struct rf_sched_quota quota = { RF_LIT("cards"), 2, -1, 0, -1 };
	struct rf_sched_queue q = { .name = RF_LIT("a"), .tenant = RF_LIT("a"), .weight = 1, .quotas = &quota, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct small w;

	(void)state;
	begin_with_cards(&w, 3);
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), 0);
	cards(&w, "n0", 3, 0);
	put_share(&w, "p", "b", 10 * GI);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_has(why(&w, "p"), "who do not lend them");
	cards(&w, "n0", 7, 0);
	decide_audited(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "p"));
	end(&w);
}

/* --- another card in its place ----------------------------------------------------------------- */

static void another_model_in_its_place(void **state)
{
	struct rf_sched_device d = { .name = RF_LIT("gpu-0"), .model = RF_LIT("NVIDIA A100-SXM4-80GB"), .memory = 80 * GI, .milli = 1000,
				     .numa = RF_SCHED_NUMA_UNKNOWN, .island = RF_SCHED_ISLAND_UNKNOWN(0) };
	struct small w;

	(void)state;
	begin_with_cards(&w, 1);
	put_pod(&w, "p", "a", 1);
	decide_audited(&w);
	carry(&w, 1, NULL);
	rf_core_put_devices(w.c, RF_LIT("n0"), &d, 1);
	put_pod(&w, "q", "b", 1);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_int_equal(used(&w, "a", "cards"), 1);
	assert_int_equal(used(&w, "a", "cards/a100"), 1);
	assert_int_equal(used(&w, "a", "cards/h100"), 0);
	assert_int_equal(capacity(&w, "cards"), 1);
	gone(&w, "p", "a");
	decide_audited(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "q"));
	assert_int_equal(used(&w, "a", "cards"), 0);
	assert_int_equal(used(&w, "b", "cards/a100"), 1);
	end(&w);
}

/* Where a card was once of another model, a place that was found, and left again for somebody who has a plan, is none that became
 * free: who was refused is not tried again and again. */
static void a_place_that_is_left_where_a_card_was_replaced(void **state)
{
	struct rf_sched_device d = { .name = RF_LIT("gpu-0"), .model = RF_LIT("NVIDIA A100-SXM4-80GB"), .memory = 80 * GI, .milli = 1000,
				     .numa = RF_SCHED_NUMA_UNKNOWN, .island = RF_SCHED_ISLAND_UNKNOWN(0) };
	struct small w;

	(void)state;
	begin_with_cards(&w, 0);
	queue(&w, "b", 2, 1);
	rf_core_put_devices(w.c, RF_LIT("n0"), &d, 1);
	cards(&w, "n0", 3, 0);
	put_pod(&w, "p", "a", 1);
	decide(&w);
	carry(&w, 1, NULL);
	put_pod(&w, "q", "b", 2);
	decide(&w);
	assert_non_null(of(&w, RF_CORE_EVICT, "p"));
	put_pod(&w, "r", "a", 1);
	decide(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_true(rf_core_next_ms(w.c, w.now) > w.now);
	end(&w);
}

/* A node goes, and with it what it said of its cards: nobody looks at it any more, whoever plans or moves. */
static void a_node_goes_with_its_cards(void **state)
{
	struct rf_core_move *m = NULL;
	struct small w;

	(void)state;
	begin_with_cards(&w, 2);
	node(&w, "n1", 2, "z", "r");
	put_share(&w, "p", "a", 10 * GI);
	decide_audited(&w);
	carry_shares(&w, 10 * GI);
	for (size_t i = 0; i < 2; i++) {
		const char *name = name_of(&w, "n", i);

		if (rf_str_is(w.d[0].node, name))
			continue;
		rf_core_del_node(w.c, rf_str(name));
		rf_core_put_devices(w.c, rf_str(name), NULL, 0);
	}
	decide_audited(&w);
	assert_int_equal(rf_core_defragment(w.c, w.now, 8, &w.a, &m), 0);
	assert_int_equal(capacity(&w, "cards"), 2);
	end(&w);
}

/* --- gangs ------------------------------------------------------------------------------------ */

/* Both claims are there, neither is bound: the one without a card is released and found another place, or all are. */
static void a_gang_of_which_a_card_vanishes(void **state)
{
	struct small w;
	unsigned lost;

	(void)state;
	begin_with_cards(&w, 2);
	group(&w, "a", "g", 2, "");
	member(&w, "g0", "a", "g", 1);
	member(&w, "g1", "a", "g", 1);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	lost = 1U << card_of(&w, "g0");
	put_claim(&w, &w.d[0]);
	put_claim(&w, &w.d[1]);
	cards(&w, "n0", 3 & ~lost, 0);
	decide_audited(&w);
	assert_int_equal(w.n, 0);
	rf_core_failed(w.c, RF_CORE_BIND, RF_LIT("g0"), RF_LIT("refused"), w.now);
	w.now += 10000;
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 0);
	assert_non_null(of(&w, RF_CORE_RELEASE, "g0"));
	assert_non_null(of(&w, RF_CORE_RELEASE, "g1")); /* no half gang keeps a card */
	rf_core_del_claim(w.c, RF_LIT("a"), claim_name(&w, RF_LIT("g0")), w.now);
	rf_core_del_claim(w.c, RF_LIT("a"), claim_name(&w, RF_LIT("g1")), w.now);
	w.now += 600000;
	decide_audited(&w);
	assert_int_equal(used(&w, "a", "cards"), 0);
	assert_has(why(&w, "g0"), "2");
	cards(&w, "n0", 3, 0);
	decide_audited(&w);
	assert_int_equal(count(&w, RF_CORE_BIND), 2);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_held_card_that_vanishes),
		cmocka_unit_test(a_held_card_that_breaks),
		cmocka_unit_test(a_promised_card_that_vanishes),
		cmocka_unit_test(a_decided_card_that_vanishes),
		cmocka_unit_test(a_card_that_comes_back_after_a_restart),
		cmocka_unit_test(a_card_that_nobody_knows_is_given_back),
		cmocka_unit_test(shares_on_a_card_that_vanishes),
		cmocka_unit_test(a_card_that_vanishes_is_not_left_for_others),
		cmocka_unit_test(another_model_in_its_place),
		cmocka_unit_test(a_place_that_is_left_where_a_card_was_replaced),
		cmocka_unit_test(a_gang_of_which_a_card_vanishes),
		cmocka_unit_test(a_node_goes_with_its_cards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
