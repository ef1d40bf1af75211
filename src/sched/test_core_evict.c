/* Who goes, and who does not: histories that once broke a promise, made short. The world holds every decision against the
 * reference (test_core_reference.c); what is asserted here is what has to come of it. Those of gangs are in
 * test_core_evict_gangs.c, those of cards of several models in test_core_evict_models.c. */
#include "sched/test_core_evict.h"

/* --- the order -------------------------------------------------------------------------------- */

/* Over its guarantee of CPU only, by the large one. The small one is within it as soon as that is gone, in whatever order they
 * would go; and one alone is of no use to who shares a node with neither. */
static void test_small_one_is_within(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *small, *large, *p;

	(void)state;
	isolate(w, ACME, RF_ISOLATION_NODE);
	guarantee(w, ACME, R_CARDS, 2);
	guarantee(w, ACME, R_CPU, 2000);
	guarantee(w, BOLT, R_BYTES, 40 * GI);
	small = submit(w, ACME, S_CARD);
	large = submit(w, ACME, S_BIGCPU);
	settle(w);
	p = submit(w, BOLT, S_SHARE1);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_true(large->node == 0 && p->node == NOBODY);
	world_end_pod(w, small);
	assert_true(world_scrub(w, small));
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	assert_ptr_equal(&w->pods[w->writes[0].pod], large);
	rest(w);
	assert_int_equal(p->node, 0);
	end(w);
}

/* Two who share no node, one node, and a card guaranteed to each. Who has it fills it up, and is over its guarantee then: still
 * it is not taken by turns. */
static void test_no_turns_on_a_node(void **state)
{
	struct world *w = begin(0, 0);
	struct pod *first;

	(void)state;
	w->remake = true;
	world_add_node(w, 0, 4);
	isolate(w, ACME, RF_ISOLATION_NODE);
	isolate(w, BOLT, RF_ISOLATION_NODE);
	guarantee(w, ACME, R_CARDS, 1);
	guarantee(w, BOLT, R_CARDS, 1);
	(void)submit(w, ACME, S_CARD2);
	(void)submit(w, ACME, S_CARD2);
	settle(w);
	first = submit(w, BOLT, S_CARD); /* either is over it without the other, too */
	(void)submit(w, BOLT, S_CARD2);
	rest(w);
	assert_int_equal(first->node, 0);
	assert_int_equal(w->n.evicts, 2);
	(void)submit(w, ACME, S_CARD);
	rest(w);
	assert_int_equal(w->n.evicts, 2);
	end(w);
}

/* Two are to go, one was told: what is said of the other is said by what is known then. */
static struct world *two_are_to_go(bool budget)
{
	struct world *w = begin(1, 4);

	guarantee(w, ACME, R_CARDS, 2);
	guarantee(w, BOLT, R_CARDS, 2);
	for (int i = 0; i < 4; i++) {
		struct pod *p = make(w, ACME, S_CARD);

		p->budget = budget;
		world_tell_pod(w, p);
	}
	if (budget) {
		w->budgets[ACME] = 2;
		world_put_budget(w->core, w, ACME);
	}
	settle(w);
	(void)submit(w, BOLT, S_CARD2);
	assert_true(world_decide(w, 1));
	assert_int_equal(evictions(w), 1);
	return w;
}

static void test_facts_between_evictions(void **state)
{
	struct world *w = two_are_to_go(false);

	(void)state;
	for (int i = 0, n = 0; i < PODS && n == 0; i++) {
		n = w->pods[i].live && w->pods[i].node != NOBODY && !w->pods[i].evicted;
		if (n > 0)
			world_end_pod(w, &w->pods[i]);
	}
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	rest(w);
	assert_int_equal(w->n.evicts, 1);
	end(w);
	w = two_are_to_go(true);
	w->budgets[ACME] = 0;
	world_put_budget(w->core, w, ACME);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	end(w);
	w = two_are_to_go(false); /* and where nothing else happened */
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 2);
	end(w);
}

/* --- what is not the queue's any more, or not yet ------------------------------------------------ */

/* One leaves, one is on its way, a gang of unlike pods runs with a card: without the first it is within the guarantee. */
static void test_one_leaves_while_one_comes(void **state)
{
	struct world *w = begin(1, 3);
	struct pod *leaves, *stays;

	(void)state;
	guarantee(w, ACME, R_CARDS, 2);
	guarantee(w, BOLT, R_CARDS, 1);
	leaves = submit(w, ACME, S_CARD);
	gang(w, ACME, 2);
	(void)member(w, ACME, S_CPU, 0);
	stays = member(w, ACME, S_CARD, 0);
	settle(w);
	(void)submit(w, ACME, S_CARD);
	assert_true(world_decide(w, 64)); /* on its way: nothing of it is written yet */
	delete (w, leaves, 3000);
	(void)submit(w, BOLT, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_true(stays->live && !stays->deleting);
	end(w);
}

/* One comes, and its queue is over its guarantee of memory by that alone: it may still fail, and nobody goes for it. */
static void test_memory_of_one_that_comes(void **state)
{
	struct world *w = begin(1, 2);
	struct pod *stays, *comes, *p;

	(void)state;
	guarantee(w, ACME, R_CARDS, 2);
	guarantee(w, ACME, R_BYTES, 10 * GI);
	guarantee(w, ACME, R_MEMORY, GI);
	guarantee(w, BOLT, R_CARDS, 1);
	stays = submit(w, ACME, S_CARD2);
	settle(w);
	assert_int_equal(stays->node, 0);
	world_add_node(w, 1, 1);
	comes = submit(w, ACME, S_SHARE1);
	assert_true(world_decide(w, 64));
	comes->live = false;
	world_tell_pod(w, comes);
	p = submit(w, BOLT, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_int_equal(p->node, 1);
	assert_true(stays->live && !stays->deleting);
	end(w);
}

static void lose_node(struct world *w, int node)
{
	w->nodes[node].exists = false;
	world_tell_node(w, node);
	assert_true(world_crash(w, 3));
}

/* Its node is gone, and nobody there to know what card it holds: what it holds counts, for guarantees are cut by what there is. */
static void test_card_that_nobody_knows(void **state)
{
	struct world *w = begin(1, 1);
	struct pod *stays;

	(void)state;
	w->tenants[BOLT].trust = 1; /* they do not meet on one card */
	world_tell_tenant(w, BOLT);
	guarantee(w, ACME, R_BYTES, 40 * GI);
	guarantee(w, BOLT, R_BYTES, 40 * GI);
	guarantee(w, CRUX, R_BYTES, 20 * GI);
	(void)submit(w, CRUX, S_SHARE2);
	settle(w);
	w->nodes[0].cordoned = true;
	world_tell_node(w, 0);
	world_add_node(w, 1, 1);
	stays = submit(w, ACME, S_SHARE3);
	settle(w);
	assert_int_equal(stays->node, 1);
	lose_node(w, 0);
	(void)submit(w, BOLT, S_SHARE1);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	assert_int_equal(stays->node, 1);
	end(w);
}

/* One leaves on a node that is gone: without it the other is within the guarantee. */
static void test_one_leaves_a_lost_node(void **state)
{
	struct world *w = begin(1, 1);
	struct pod *leaves, *stays;

	(void)state;
	guarantee(w, ACME, R_CARDS, 1);
	guarantee(w, BOLT, R_CARDS, 1);
	leaves = submit(w, ACME, S_CARD);
	settle(w);
	world_add_node(w, 1, 1);
	stays = submit(w, ACME, S_CARD);
	settle(w);
	assert_int_equal(stays->node, 1);
	lose_node(w, 0);
	delete (w, leaves, 3000);
	(void)submit(w, BOLT, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	assert_int_equal(stays->node, 1);
	end(w);
}

/* No node ends it, and what it has is gone with it: nobody has a place more when it is evicted. */
static void test_one_stays_on_a_lost_node(void **state)
{
	struct world *w = begin(1, 1);
	struct pod *lost, *p;

	(void)state;
	lost = submit(w, ACME, S_CARD);
	settle(w);
	assert_int_equal(lost->node, 0);
	world_add_node(w, 1, 1);
	w->queues[CRUX].quotas[R_H100] = (struct quota){ true, 1, -1, 0, -1 };
	guarantee(w, CRUX, R_CARDS, 1);
	guarantee(w, BOLT, R_CARDS, 1);
	w->nodes[0].exists = false;
	world_tell_node(w, 0);
	p = submit(w, BOLT, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	assert_true(p->node == NOBODY && !lost->evicted);
	end(w);
}

/* A claim on a node that is gone is charged until it is gone, and nobody else goes for it. */
static void test_claim_on_a_lost_node(void **state)
{
	struct world *w = begin(2, 1);
	struct pod *lost, *stays;

	(void)state;
	w->tenants[BOLT].trust = 1; /* they do not meet on one card */
	world_tell_tenant(w, BOLT);
	guarantee(w, ACME, R_BYTES, 40 * GI);
	guarantee(w, BOLT, R_BYTES, 40 * GI);
	lost = submit(w, ACME, S_SHARE3);
	settle(w);
	w->nodes[lost->node].cordoned = true;
	world_tell_node(w, lost->node);
	stays = submit(w, ACME, S_SHARE2);
	settle(w);
	assert_true(stays->node != NOBODY && stays->node != lost->node);
	w->nodes[lost->node].exists = false;
	world_tell_node(w, lost->node);
	lost->live = false;
	world_tell_pod(w, lost);
	(void)submit(w, BOLT, S_SHARE2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	assert_true(stays->live && !stays->evicted);
	end(w);
}

/* Its queue goes while it is on its way: charged to its tenant's own, above which there is a limit. */
static void test_queue_gone_while_one_comes(void **state)
{
	struct world *w = begin(2, 4);
	int org = LEAVES, second = TENANTS + ACME;
	struct pod *first, *p;

	(void)state;
	w->queues[org].exists = w->queues[ACME].exists = w->queues[second].exists = true;
	w->queues[org].quotas[R_CARDS] = (struct quota){ true, -1, 2, -1, -1 };
	w->queues[ACME].parent = org;
	world_tell_queue(w, org);
	world_tell_queue(w, ACME);
	world_tell_queue(w, second);
	first = make(w, ACME, S_CARD);
	first->queue = second;
	world_tell_pod(w, first);
	assert_true(world_decide(w, 64));
	w->queues[second].exists = false;
	world_tell_queue(w, second);
	p = submit(w, ACME, S_CARD2);
	assert_true(world_decide(w, 64));
	all_well(w);
	write_all(w);
	assert_int_equal(p->node, NOBODY);
	end(w);
}

/* What goes makes room in a quota, not on a node: who comes between does not take it. */
static void test_room_in_a_quota_is_kept(void **state)
{
	struct world *w = begin(1, 4);
	int org = LEAVES, second = TENANTS + ACME;
	struct pod *p, *other, *first;

	(void)state;
	w->queues[org].exists = w->queues[ACME].exists = w->queues[second].exists = true;
	w->queues[org].quotas[R_CARDS] = (struct quota){ true, -1, -1, -1, 0 };
	w->queues[ACME].quotas[R_CARDS] = (struct quota){ true, 2, -1, -1, -1 };
	w->queues[ACME].parent = w->queues[second].parent = org;
	world_tell_queue(w, org);
	world_tell_queue(w, ACME);
	world_tell_queue(w, second);
	other = make(w, ACME, S_CARD);
	other->queue = second;
	world_tell_pod(w, other);
	(void)submit(w, ACME, S_CARD);
	first = make(w, ACME, S_CARD4); /* more than its queue may have: the turn of the other comes sooner */
	first->priority = 2;
	world_tell_pod(w, first);
	settle(w);
	assert_int_equal(other->node, 0);
	p = submit(w, ACME, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	assert_true(other->evicted);
	write_all(w);
	other = make(w, ACME, S_CARD); /* the same again */
	other->queue = second;
	other->priority = 2;
	world_tell_pod(w, other);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_int_equal(other->node, NOBODY);
	end(w);
}

/* Somebody goes for it, somebody else ends: there is room in two places, and two others whose turn comes sooner. One of them may
 * have what was planned, for there is the other place; the second may not have that, too. */
static void test_second_place_of_a_plan_is_kept(void **state)
{
	struct world *w = begin(4, 1);
	struct pod *p, *lent[2], *others[2];

	(void)state;
	w->nodes[3].cards[0].broken = true;
	world_tell_node(w, 3);
	guarantee(w, ACME, R_CARDS, 2);
	guarantee(w, BOLT, R_CARDS, 0);
	guarantee(w, CRUX, R_CARDS, 2);
	(void)submit(w, ACME, S_CARD);
	for (int i = 0; i < 2; i++) { /* the first goes, and its place is the one that is taken first */
		lent[i] = make(w, BOLT, S_CARD);
		lent[i]->priority = i;
		world_tell_pod(w, lent[i]);
		settle(w);
	}
	assert_true(lent[0]->node < lent[1]->node);
	world_time(w, 100000);
	p = submit(w, ACME, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	write_all(w);
	assert_true(lent[0]->evicted);
	world_end_pod(w, lent[1]);
	world_time(w, 1);
	for (int i = 0; i < PODS; i++)
		(void)world_scrub(w, &w->pods[i]);
	for (int i = 0; i < 2; i++)
		others[i] = submit(w, CRUX, S_CARD);
	settle(w);
	assert_true(p->node != NOBODY);
	assert_true((others[0]->node != NOBODY) + (others[1]->node != NOBODY) == 1);
	end(w);
}

/* Two queues, a card and a share in each, and two cards. In each the one comes first by priority that others may take back by
 * their guarantee: nobody starts by what is taken back at once, or they would go round for ever. */
static void test_no_round_of_priority_and_guarantee(void **state)
{
	struct world *w = begin(1, 2);
	const struct {
		int space, shape;
		int64_t priority;
	} all[] = { { ACME, S_SHARE3, 2 }, { ACME, S_CARD, 1 }, { BOLT, S_CARD, 2 }, { BOLT, S_SHARE2, 0 } };

	(void)state;
	w->remake = true;
	w->tenants[BOLT].trust = 1; /* they do not meet on one card */
	world_tell_tenant(w, BOLT);
	guarantee(w, ACME, R_CARDS, 2);
	guarantee(w, ACME, R_BYTES, 40 * GI);
	guarantee(w, ACME, R_MILLI, 300);
	guarantee(w, BOLT, R_BYTES, 40 * GI);
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		struct pod *p = make(w, all[i].space, all[i].shape);

		p->priority = all[i].priority;
		p->grace = 1500;
		world_tell_pod(w, p);
	}
	rest(w);
	assert_true(w->n.evicts < 8);
	end(w);
}

/* Who shares no rack goes from one node so that there is room on another of its rack: back on the first, it is in the way. */
static void test_rack_of_a_plan_is_kept(void **state)
{
	struct world *w = begin(0, 0);
	struct pod *p, *soon;
	long before;

	(void)state;
	w->remake = true;
	isolate(w, ACME, RF_ISOLATION_RACK);
	guarantee(w, ACME, R_CARDS, 0);
	guarantee(w, BOLT, R_CARDS, 2);
	world_add_node(w, 0, 4);
	world_add_node(w, 1, 2);
	for (int i = 0; i < 2; i++) {
		w->nodes[i].rack = 1;
		w->nodes[i].cordoned = i == 1;
		world_tell_node(w, i);
	}
	soon = make(w, ACME, S_CARD);
	soon->grace = 1;
	world_tell_pod(w, soon);
	p = make(w, ACME, S_CARD);
	p->grace = 3000;
	world_tell_pod(w, p);
	settle(w);
	assert_int_equal(soon->node, 0);
	assert_int_equal(p->node, 0);
	w->nodes[1].cordoned = false;
	world_tell_node(w, 1);
	before = w->n.evicts;
	p = submit(w, BOLT, S_CARD2);
	rest(w);
	assert_true(p->node != NOBODY);
	assert_int_equal(w->n.evicts - before, 2);
	end(w);
}

/* Who spreads over zones counts those on every node of one: back on another node than the plan's, they are in the way. */
static void test_spread_of_a_plan_is_kept(void **state)
{
	struct world *w = begin(0, 0);
	struct pod *soon, *p;
	long before;

	(void)state;
	w->remake = true;
	world_add_node(w, 1, 2); /* the other zone, where nobody has a place */
	w->nodes[1].cordoned = true;
	world_tell_node(w, 1);
	world_add_node(w, 2, 0);
	soon = make(w, ACME, S_CPU);
	soon->wish = WISH_LABELED;
	soon->grace = 1;
	world_tell_pod(w, soon);
	settle(w);
	assert_int_equal(soon->node, 2);
	world_add_node(w, 0, 1);
	p = make(w, ACME, S_CARD);
	p->grace = 3000;
	world_tell_pod(w, p);
	settle(w);
	assert_int_equal(p->node, 0);
	before = w->n.evicts;
	p = make(w, ACME, S_CARD);
	p->wish = WISH_SPREAD;
	p->priority = 1;
	world_tell_pod(w, p);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_int_equal(w->n.evicts - before, 2);
	end(w);
}

/* One that must not be evicted has no luck, being beyond its guarantee; another like it, which may be, has. */
static void test_pinned_one_has_no_luck(void **state)
{
	struct world *w = begin(1, 1);
	struct pod *low, *p;

	(void)state;
	guarantee(w, ACME, R_CARDS, 0);
	low = submit(w, ACME, S_CARD);
	settle(w);
	assert_int_equal(low->node, 0);
	for (int i = 0; i < 2; i++) {
		p = make(w, ACME, S_CARD);
		p->priority = 1;
		p->pinned = i == 0;
		world_tell_pod(w, p);
	}
	rest(w);
	assert_int_equal(p->node, 0);
	end(w);
}

static void add_to_rack(struct world *w, int node, int cards)
{
	world_add_node(w, node, cards);
	w->nodes[node].rack = 1;
	world_tell_node(w, node);
}

/* Who shares no rack borrows on one node, and there is room only on another of that rack. */
static void beside_who_shares_no_rack(int n)
{
	struct world *w = begin(0, 0);
	struct pod *p;

	isolate(w, ACME, RF_ISOLATION_RACK);
	guarantee(w, ACME, R_CPU, 0);
	guarantee(w, BOLT, R_CARDS, 2);
	add_to_rack(w, 0, 1);
	for (int i = 0; i < n; i++)
		(void)submit(w, ACME, S_CPU);
	settle(w);
	add_to_rack(w, 1, 2);
	p = submit(w, BOLT, S_CARD2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), n);
	rest(w);
	assert_int_equal(p->node, 1);
	end(w);
}

static void test_beside_who_shares_no_rack(void **state)
{
	(void)state;
	beside_who_shares_no_rack(1);
	beside_who_shares_no_rack(20); /* more than are tried in every combination */
}

/* Who shares no rack is guaranteed cards, and one of two racks can be cleared. */
static void test_rack_is_cleared(void **state)
{
	struct world *w = begin(0, 0);
	struct pod *p;

	(void)state;
	isolate(w, BOLT, RF_ISOLATION_RACK);
	guarantee(w, ACME, R_CARDS, 0);
	guarantee(w, BOLT, R_CARDS, 2);
	guarantee(w, CRUX, R_CARDS, 2);
	world_add_node(w, 2, 2);
	w->nodes[2].rack = 2;
	world_tell_node(w, 2);
	(void)submit(w, CRUX, S_CARD); /* within its guarantee */
	settle(w);
	w->nodes[2].cordoned = true;
	world_tell_node(w, 2);
	add_to_rack(w, 0, 2);
	add_to_rack(w, 1, 2);
	for (int i = 0; i < 3; i++)
		(void)submit(w, ACME, S_CARD);
	settle(w);
	w->nodes[2].cordoned = false;
	world_tell_node(w, 2);
	p = submit(w, BOLT, S_CARD2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 3);
	rest(w);
	assert_true(p->node == 0 || p->node == 1);
	end(w);
}

/* --- what changes for who waits ------------------------------------------------------------------ */

static void test_tenant_that_gives_way(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p;

	(void)state;
	isolate(w, BOLT, RF_ISOLATION_NODE);
	(void)submit(w, ACME, S_CARD);
	p = submit(w, BOLT, S_CARD);
	settle(w);
	assert_int_equal(p->node, NOBODY);
	isolate(w, BOLT, RF_ISOLATION_GPU);
	settle(w);
	assert_int_equal(p->node, 0);
	end(w);
}

/* It holds a share, and its tenant shares no more: its claim is kept until the card breaks. */
static void test_broken_card_of_one_that_is_barred(void **state)
{
	struct world *w = begin(1, 1);
	struct pod *p = submit(w, ACME, S_SHARE1);

	(void)state;
	assert_true(world_decide(w, 64));
	assert_true(world_write(w, false));
	assert_true(world_write(w, false)); /* the claim is allocated, and the pod not bound */
	isolate(w, ACME, RF_ISOLATION_GPU);
	w->n_writes = 0;
	p->flying = false;
	rf_core_failed(w->core, RF_CORE_BIND, rf_str(p->uid), RF_LIT("conflict"), w->now);
	world_time(w, 5000);
	assert_true(world_decide(w, 64));
	assert_int_equal(w->n_writes, 0);
	w->nodes[0].cards[0].broken = true;
	world_tell_node(w, 0);
	assert_true(world_decide(w, 64));
	assert_int_equal(w->n_writes, 1);
	assert_int_equal(w->writes[0].kind, W_RELEASE);
	end(w);
}

/* After a restart bindings are said again that were done after all. That they fail is heard when evictions have been said: it is
 * not these that failed. */
static void test_binding_fails_when_eviction_is_said(void **state)
{
	struct world *w = begin(1, 2);
	struct pod *a, *b, *p;

	(void)state;
	gang(w, ACME, 2);
	a = member(w, ACME, S_CARD, 0);
	b = member(w, ACME, S_CARD, 0);
	assert_true(world_decide(w, 64));
	while (w->writes[0].kind != W_BIND)
		assert_true(world_write(w, false));
	assert_true(world_crash(w, 1));
	a->lost = b->lost = true;
	assert_true(world_decide(w, 64));
	assert_int_equal(w->n_writes, 2);
	world_late_binds(w);
	guarantee(w, BOLT, R_CARDS, 2);
	p = submit(w, BOLT, S_CARD2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 2);
	assert_true(world_write(w, false));
	assert_int_equal(w->n.failures, 1);
	world_time(w, 5000);
	assert_true(world_decide(w, 64)); /* they are on their way, and not said again */
	assert_int_equal(evictions(w), 2);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_int_equal(w->n.evicts, 2);
	end(w);
}

static int64_t guaranteed_of(struct world *w, int queue)
{
	struct rf_queue *q = rf_queues_find(rf_core_queues(w->core), rf_str(queue_names[queue]));
	struct rf_queue_view v = { 0 };

	rf_queue_view(rf_core_queues(w->core), q, rf_core_resource(w->core, RF_LIT("cards")), w->now, &v);
	assert_int_equal(v.guaranteed, ref_guaranteed_now(w, queue, R_CARDS));
	return v.guaranteed;
}

/* Cards that were decided on a node that is gone are charged as long as nobody knows what came of it: they count as there, too,
 * or others are over a guarantee that is cut too short. */
static void test_decided_on_a_node_that_goes(void **state)
{
	struct world *w = begin(2, 4);
	struct pod *p;

	(void)state;
	guarantee(w, ACME, R_CARDS, 4);
	guarantee(w, BOLT, R_CARDS, 4);
	p = submit(w, BOLT, S_CARD2);
	assert_true(world_decide(w, 64));
	assert_int_equal(guaranteed_of(w, ACME), 4);
	w->nodes[p->place.node].exists = false;
	world_tell_node(w, p->place.node);
	assert_true(world_decide(w, 64));
	assert_int_equal(guaranteed_of(w, ACME), 3);
	assert_true(world_write(w, true));
	assert_true(world_decide(w, 64));
	assert_int_equal(guaranteed_of(w, ACME), 2);
	end(w);
}

/* What is on its way to a queue is within its guarantee once: those behind it have no claim on top of that. */
static void test_no_claim_beside_plans(void **state)
{
	struct world *w = begin(1, 3);
	int placed = 0;

	(void)state;
	guarantee(w, BOLT, R_CARDS, 1);
	for (int i = 0; i < 3; i++) {
		struct pod *p = make(w, ACME, S_CARD);

		p->grace = 5000;
		world_tell_pod(w, p);
	}
	settle(w);
	for (int i = 0; i < 3; i++)
		(void)submit(w, BOLT, S_CARD);
	settle(w);
	rest(w);
	assert_int_equal(w->n.evicts, 1);
	for (int i = 0; i < PODS; i++)
		placed += w->pods[i].live && w->pods[i].space == BOLT && w->pods[i].node == 0;
	assert_int_equal(placed, 1);
	end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_one_is_within),
		cmocka_unit_test(test_no_turns_on_a_node),
		cmocka_unit_test(test_facts_between_evictions),
		cmocka_unit_test(test_decided_on_a_node_that_goes),
		cmocka_unit_test(test_one_leaves_while_one_comes),
		cmocka_unit_test(test_memory_of_one_that_comes),
		cmocka_unit_test(test_card_that_nobody_knows),
		cmocka_unit_test(test_one_leaves_a_lost_node),
		cmocka_unit_test(test_one_stays_on_a_lost_node),
		cmocka_unit_test(test_claim_on_a_lost_node),
		cmocka_unit_test(test_queue_gone_while_one_comes),
		cmocka_unit_test(test_room_in_a_quota_is_kept),
		cmocka_unit_test(test_second_place_of_a_plan_is_kept),
		cmocka_unit_test(test_no_round_of_priority_and_guarantee),
		cmocka_unit_test(test_rack_of_a_plan_is_kept),
		cmocka_unit_test(test_spread_of_a_plan_is_kept),
		cmocka_unit_test(test_pinned_one_has_no_luck),
		cmocka_unit_test(test_beside_who_shares_no_rack),
		cmocka_unit_test(test_rack_is_cleared),
		cmocka_unit_test(test_tenant_that_gives_way),
		cmocka_unit_test(test_broken_card_of_one_that_is_barred),
		cmocka_unit_test(test_binding_fails_when_eviction_is_said),
		cmocka_unit_test(test_no_claim_beside_plans),
	};

	return cmocka_run_group_tests_name("core_evict", tests, NULL, NULL);
}
