/* Gangs that go, or of which some go: as a whole, down to their minimum, or not at all, whatever is refused, fails or comes in
 * between. Histories that once broke a promise, made short. */
#include "sched/test_core_evict.h"

static int running(const struct world *w)
{
	int n = 0;

	for (int i = 0; i < PODS; i++)
		n += w->pods[i].group == 0 && w->pods[i].live && w->pods[i].node != NOBODY && !w->pods[i].deleting;
	return n;
}

/* A gang that fills the node, and one of its own queue that comes first. */
static struct pod *outrank_gang(struct world *w, int64_t min)
{
	struct pod *p;

	gang(w, ACME, min);
	for (int i = 0; i < 4; i++)
		(void)member(w, ACME, S_CARD, 0);
	settle(w);
	assert_int_equal(running(w), 4);
	p = make(w, ACME, S_CARD2);
	p->priority = 2;
	world_tell_pod(w, p);
	return p;
}

/* An eviction is refused when the others of its gang have gone: it goes all the same, later. */
static void test_refused_eviction_of_a_gang(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p = outrank_gang(w, 4);

	(void)state;
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 4);
	w->no_fail = false;
	(void)write_eviction(w, false);
	(void)write_eviction(w, true);
	write_all(w);
	assert_int_equal(running(w), 1);
	assert_true(world_decide(w, 64)); /* not at once */
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_int_equal(running(w), 0);
	assert_int_equal(p->node, 0);
	end(w);
}

/* The first of them is refused before another was told to go: all of them stay. */
static void test_refused_before_the_others(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p = outrank_gang(w, 4);

	(void)state;
	assert_true(world_decide(w, 1));
	assert_int_equal(evictions(w), 1);
	(void)write_eviction(w, true);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	assert_int_equal(running(w), 4);
	rest(w);
	assert_int_equal(p->node, 0);
	end(w);
}

/* For whom they go is gone when some of them were told: the others follow. */
static void test_half_said_gang_goes(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p = outrank_gang(w, 4);

	(void)state;
	assert_true(world_decide(w, 2));
	assert_int_equal(evictions(w), 2);
	p->live = false;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 4);
	rest(w);
	end(w);
}

/* One plan takes what is above the minimum, the next the rest: should the first be refused, it goes with the rest. */
static void test_refused_eviction_of_an_earlier_plan(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p, *extra;

	(void)state;
	p = outrank_gang(w, 2);
	p->shape = S_CARD;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	extra = &w->pods[w->writes[0].pod];
	for (int i = 0; i < 2; i++) {
		struct pod *o = make(w, ACME, S_CARD);

		o->priority = 2;
		world_tell_pod(w, o);
		assert_true(world_decide(w, 64)); /* nothing is written in between */
	}
	assert_int_equal(evictions(w), 4);
	assert_ptr_equal(write_eviction(w, true), extra);
	write_all(w);
	assert_true(extra->live && !extra->deleting);
	rest(w);
	assert_int_equal(running(w), 0);
	end(w);
}

/* One is refused, and before it is tried again another came back: both are a gang again. Nothing is kept for whom it was to go. */
static void test_gang_is_one_again(void **state)
{
	struct world *w = begin(0, 0);
	struct pod *p, *stays;

	(void)state;
	w->remake = true;
	world_add_node(w, 0, 2);
	gang(w, ACME, 2);
	(void)member(w, ACME, S_CARD, 0);
	(void)member(w, ACME, S_CARD, 0);
	settle(w);
	assert_int_equal(running(w), 2);
	p = make(w, ACME, S_CARD2);
	p->priority = 2;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 2);
	(void)write_eviction(w, false);
	stays = write_eviction(w, true);
	world_add_node(w, 1, 1);
	world_time(w, 1);
	for (int i = 0; i < PODS; i++)
		(void)world_scrub(w, &w->pods[i]);
	settle(w); /* the other lands there */
	assert_int_equal(running(w), 2);
	p = submit(w, CRUX, S_CARD);
	settle(w);
	assert_int_equal(p->node, 0);
	world_time(w, 1000);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_true(stays->live && !stays->deleting);
	end(w);
}

/* The same, and nobody wants that place any more, and it is about to be told again when the other is back: it stays. */
static void test_gang_is_one_just_in_time(void **state)
{
	struct world *w = begin(0, 0);
	struct rf_err err = RF_ERR_INIT;
	struct pod *p, *stays;

	(void)state;
	w->remake = true;
	world_add_node(w, 0, 2);
	gang(w, ACME, 2);
	(void)member(w, ACME, S_CARD, 0);
	(void)member(w, ACME, S_CARD, 0);
	settle(w);
	p = make(w, ACME, S_CARD2);
	p->priority = 2;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	(void)write_eviction(w, false);
	stays = write_eviction(w, true);
	p->live = false;
	world_tell_pod(w, p);
	world_time(w, 1);
	for (int i = 0; i < PODS; i++)
		(void)world_scrub(w, &w->pods[i]);
	assert_true(world_decide(w, 64));
	world_time(w, 1000);
	assert_int_equal(rf_core_audit(w->core, w->now, &err), 0);
	write_all(w);
	assert_int_equal(running(w), 2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_int_equal(running(w), 2);
	assert_true(stays->live && !stays->deleting);
	end(w);
}

/* The same, and who came back ends before anything else is decided: that it was a gang again holds, whether anybody looked
 * at it then or not. */
static void one_for_a_moment(bool look)
{
	struct world *w = begin(0, 0);
	struct rf_err err = RF_ERR_INIT;
	struct pod *p, *stays, *back = NULL;

	w->remake = true;
	world_add_node(w, 0, 2);
	gang(w, ACME, 2);
	(void)member(w, ACME, S_CARD, 0);
	(void)member(w, ACME, S_CARD, 0);
	settle(w);
	p = make(w, ACME, S_CARD2);
	p->priority = 2;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	(void)write_eviction(w, false);
	stays = write_eviction(w, true);
	world_add_node(w, 1, 1);
	world_time(w, 1);
	for (int i = 0; i < PODS; i++)
		(void)world_scrub(w, &w->pods[i]);
	assert_true(world_decide(w, 64));
	write_all(w);
	for (int i = 0; i < PODS; i++) {
		if (w->pods[i].live && w->pods[i].group == 0 && w->pods[i].node == 1)
			back = &w->pods[i];
	}
	assert_non_null(back);
	if (look)
		assert_int_equal(rf_core_audit(w->core, w->now, &err), 0);
	world_end_pod(w, back);
	p->live = false; /* nor does anybody want that place any more */
	world_tell_pod(w, p);
	world_time(w, 1000);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	assert_true(stays->live && !stays->deleting);
	end(w);
}

static void test_gang_was_one_for_a_moment(void **state)
{
	(void)state;
	one_for_a_moment(true);
	one_for_a_moment(false);
}

/* One of a gang that is over its guarantee of shares has no claim on a card; one of no gang that asks for the same and comes after
 * it has. It gets what is taken back for it, whoever is refused before it. */
static void test_refused_before_one_with_a_plan(void **state)
{
	struct world *w = begin(0, 0);
	struct pod *first, *behind, *goes;

	(void)state;
	w->remake = true;
	isolate(w, BOLT, RF_ISOLATION_SHARE);
	guarantee(w, ACME, R_CARDS, 0);
	guarantee(w, BOLT, R_CARDS, 1);
	world_add_node(w, 0, 2);
	gang(w, BOLT, 1);
	(void)member(w, BOLT, S_SHARE1, 0);
	goes = submit(w, ACME, S_CARD);
	settle(w);
	assert_int_equal(running(w), 1);
	assert_int_equal(goes->node, 0);
	first = member(w, BOLT, S_CARD, 0);
	settle(w);
	assert_false(goes->deleting);
	behind = submit(w, BOLT, S_CARD);
	settle(w);
	assert_true(goes->deleting);
	rest(w);
	assert_int_equal(behind->node, 0);
	assert_int_equal(first->node, NOBODY);
	end(w);
}

static struct pod *budgeted(struct world *w, int shape)
{
	struct pod *p = make(w, ACME, shape);

	p->budget = 1;
	world_tell_pod(w, p);
	return p;
}

/* One was told to go, and who needed its place is gone before it was written: it goes all the same, and its budget is used up. */
static void test_budget_of_one_that_nobody_needs(void **state)
{
	struct world *w = begin(0, 0);
	struct pod *one, *two, *p;

	(void)state;
	world_add_node(w, 0, 1);
	world_add_node(w, 1, 2);
	guarantee(w, ACME, R_CARDS, 0);
	guarantee(w, BOLT, R_CARDS, 1);
	guarantee(w, CRUX, R_CARDS, 2);
	two = budgeted(w, S_CARD2);
	settle(w);
	one = budgeted(w, S_CARD);
	settle(w);
	assert_int_equal(two->node, 1);
	assert_int_equal(one->node, 0);
	w->budgets[ACME] = 1;
	world_put_budget(w->core, w, ACME);
	p = submit(w, BOLT, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	assert_true(one->evicted);
	p->live = false;
	world_tell_pod(w, p);
	p = submit(w, CRUX, S_CARD2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	write_all(w);
	assert_true(one->deleting);
	w->budgets[ACME] = 1;
	world_put_budget(w->core, w, ACME);
	rest(w);
	assert_int_equal(p->node, 1);
	end(w);
}

/* Control dies between the evictions of a gang, and the first is gone when another comes: what is left follows, for that all of
 * it was to go is written down. */
static void restart_between(int64_t grace, bool after)
{
	struct world *w = begin(1, 4);
	struct pod *p = outrank_gang(w, 4), *first;

	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 4);
	if (after) {
		first = write_eviction(w, false);
		first->gone_at = w->now + grace;
	} else { /* that is written, and nobody gone */
		assert_int_equal(w->writes[0].kind, W_ENDING);
		assert_true(world_write(w, false));
	}
	assert_true(w->groups[0].ending > 0);
	p->live = false; /* nor does anybody want that place any more */
	world_tell_pod(w, p);
	world_time(w, 1);
	assert_true(world_crash(w, 11));
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), after ? 3 : 0);
	rest(w);
	assert_int_equal(running(w), after ? 0 : 4);
	world_write_groups(w);
	assert_int_equal(w->groups[0].ending, 0);
	end(w);
}

static void test_restart_between_evictions(void **state)
{
	(void)state;
	restart_between(0, true);
	restart_between(5000, true);
	restart_between(0, false);
}

/* Who ends by itself ends nobody else, whoever was told to go before it and whatever a restart finds. */
static void test_gang_that_ends_by_itself(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p = outrank_gang(w, 3);
	int ends = 0;

	(void)state;
	p->shape = S_CARD;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	for (int i = 0; i < PODS && ends == 0; i++) {
		if (w->pods[i].group != 0 || !w->pods[i].live || w->pods[i].evicted)
			continue;
		world_end_pod(w, &w->pods[i]);
		ends++;
	}
	assert_int_equal(ends, 1);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	write_all(w);
	assert_true(world_crash(w, 3));
	rest(w);
	assert_int_equal(w->n.evicts, 1);
	assert_int_equal(p->node, 0);
	end(w);
}

/* The last of a gang that started long ago is told to go, and that is refused: it is what is left of that gang, as before, and not
 * half of one that was never whole. */
static void test_last_of_a_gang_stays(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *first, *last, *p;

	(void)state;
	guarantee(w, BOLT, R_CARDS, 4);
	gang(w, ACME, 2);
	first = member(w, ACME, S_CARD, 0);
	last = member(w, ACME, S_CARD2, 0);
	settle(w);
	assert_int_equal(running(w), 2);
	world_time(w, 600000);
	assert_true(world_decide(w, 64));
	while (ref_ended_well(first))
		first->serial++; /* it is to fail */
	world_end_pod(w, first);
	p = submit(w, BOLT, S_CARD4);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	assert_true(world_decide(w, 64)); /* and looks at what it said */
	while (evictions(w) > 0) {
		w->no_fail = false;
		assert_true(world_write(w, true));
	}
	delete(w, p, 0);
	world_time(w, 600000);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_int_equal(last->node, 0);
	end(w);
}

/* One of a gang was told to go as a whole when another of it, unlike these, is bound: what is planned anew knows all of them as
 * one again. */
static void test_plan_anew_knows_the_gang(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p, *unlike;

	(void)state;
	gang(w, ACME, 4);
	for (int i = 0; i < 4; i++)
		(void)member(w, ACME, S_CARD, 0);
	settle(w);
	unlike = member(w, ACME, S_CPU, 0);
	assert_true(world_decide(w, 64)); /* it is on its way */
	p = make(w, ACME, S_CARD4);
	p->priority = 2;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 1));
	assert_int_equal(evictions(w), 1);
	while (unlike->node == NOBODY)
		assert_true(world_write(w, false));
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 5);
	rest(w);
	assert_int_equal(running(w), 0);
	assert_int_equal(p->node, 0);
	end(w);
}

/* After a restart the rest of a gang is to go, and before that is said its PodGroup is gone: they are nobody's rest. */
static void test_rest_of_no_group(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p = outrank_gang(w, 4);

	(void)state;
	assert_true(world_decide(w, 64));
	(void)write_eviction(w, false);
	p->live = false;
	world_tell_pod(w, p);
	world_time(w, 1);
	assert_true(world_crash(w, 11));
	(void)rf_core_queues(w->core); /* it looks at what it was told */
	if (w->twin != NULL)
		(void)rf_core_queues(w->twin);
	w->groups[0].exists = false;
	world_tell_group(w, 0);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_int_equal(running(w), 3);
	end(w);
}

/* With one that came it is a gang again. That it was to go is still written when control dies, and that one ends by itself
 * before another looks. */
static void came_and_ended(bool before)
{
	struct world *w = begin(1, 2);
	struct pod *p, *came, *stays;

	gang(w, ACME, 2);
	(void)member(w, ACME, S_CARD, 0);
	(void)member(w, ACME, S_CARD, 0);
	settle(w);
	p = make(w, ACME, S_CARD2);
	p->priority = 2;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 2);
	(void)write_eviction(w, false);
	stays = write_eviction(w, true);
	p->live = false;
	world_tell_pod(w, p);
	world_add_node(w, 1, 1);
	world_time(w, 1);
	came = member(w, ACME, S_CARD, 0);
	settle(w);
	assert_true(came->node != NOBODY);
	assert_true(w->groups[0].ending > 0);
	if (before)
		world_end_pod(w, came);
	assert_true(world_crash(w, 5));
	if (!before)
		world_end_pod(w, came);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_true(stays->live && !stays->deleting);
	end(w);
}

static void test_gang_was_one_again(void **state)
{
	(void)state;
	came_and_ended(false);
	came_and_ended(true);
}

/* They go together because they are unlike; should one be refused, it is as much as the gang needs, and within the guarantee. */
static void test_refused_eviction_leaves_enough(void **state)
{
	struct world *w = begin(1, 2);
	struct pod *p, *stays = NULL;

	(void)state;
	guarantee(w, ACME, R_CARDS, 1);
	guarantee(w, BOLT, R_CARDS, 1);
	gang(w, ACME, 1);
	(void)member(w, ACME, S_CPU, 0);
	(void)member(w, ACME, S_CARD, 0);
	(void)member(w, ACME, S_CARD, 0);
	settle(w);
	assert_int_equal(running(w), 3);
	p = submit(w, BOLT, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 3);
	while (w->n_writes > 0) {
		bool refuse = stays == NULL && w->pods[w->writes[0].pod].shape == S_CARD;

		stays = refuse ? &w->pods[w->writes[0].pod] : stays;
		assert_true(world_write(w, refuse));
	}
	rest(w);
	assert_int_equal(p->node, 0);
	assert_true(stays->live && !stays->deleting);
	end(w);
}

/* Three cards of two that are guaranteed, one of which leaves: the books know its gang as one, and are judged without it. */
static void test_member_of_an_unlike_gang_leaves(void **state)
{
	struct world *w = begin(1, 3);
	struct pod *a, *b, *p;

	(void)state;
	guarantee(w, ACME, R_CARDS, 2);
	guarantee(w, BOLT, R_CARDS, 1);
	gang(w, ACME, 3);
	(void)member(w, ACME, S_CPU, 0);
	a = member(w, ACME, S_CARD, 0);
	b = member(w, ACME, S_CARD, 0);
	(void)submit(w, ACME, S_CARD);
	settle(w);
	assert_int_equal(running(w), 3);
	delete (w, a, 3000);
	p = submit(w, BOLT, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_int_equal(b->node, 0);
	end(w);
}

/* Four cards of two models, one of which is enough: the gang keeps its minimum, and more. */
static void test_gang_on_two_models_shrinks(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p;

	(void)state;
	for (int k = 2; k < 4; k++)
		w->nodes[0].cards[k].model = 1;
	world_tell_node(w, 0);
	guarantee(w, BOLT, R_CARDS, 2);
	gang(w, ACME, 2);
	for (int i = 0; i < 4; i++)
		(void)member(w, ACME, S_CARD, 0);
	settle(w);
	assert_int_equal(running(w), 4);
	p = submit(w, BOLT, S_CARD);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_int_equal(running(w), 3);
	end(w);
}

/* A gang counts as much as its most important member, whichever came first: none preempts its own. */
static void test_priority_of_a_gang(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p;

	(void)state;
	gang(w, ACME, 1);
	(void)member(w, ACME, S_CARD, 1);
	settle(w);
	(void)member(w, ACME, S_CARD2, 2);
	settle(w);
	assert_int_equal(running(w), 2);
	p = member(w, ACME, S_CARD2, 2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	assert_int_equal(p->node, NOBODY);
	end(w);
}

static struct pod *of_shape(struct world *w, int space, int shape)
{
	for (int i = 0; i < PODS; i++)
		if (w->pods[i].live && w->pods[i].space == space && w->pods[i].shape == shape)
			return &w->pods[i];
	fail_msg("there is none");
	return NULL;
}

/* A gang of cards and a share goes as a whole for another's fair share of shares. Evicted, each of its pods waits on its
 * own; its cards are within the guarantee, but it takes nothing with them that it would lose again with the share. */
static void test_unlike_gang_comes_back_in_parts(void **state)
{
	struct world *w = begin_with(1, 3, RF_RECLAIM_FAIR);
	int org = LEAVES;
	long before;

	(void)state;
	w->remake = true;
	w->tenants[BOLT].trust = 1; /* they do not meet on one card */
	world_tell_tenant(w, BOLT);
	w->queues[org].exists = true;
	w->queues[org].quotas[R_BYTES] = (struct quota){ true, -1, 60 * GI, -1, -1 };
	world_tell_queue(w, org);
	w->queues[ACME].parent = w->queues[BOLT].parent = org;
	guarantee(w, ACME, R_CARDS, 2);
	guarantee(w, ACME, R_BYTES, 10 * GI);
	guarantee(w, BOLT, R_BYTES, 20 * GI);
	guarantee(w, BOLT, R_MEMORY, 4 * GI);
	(void)submit(w, ACME, S_SHARE3);
	(void)submit(w, BOLT, S_BIGCPU); /* over the guarantee of memory */
	gang(w, ACME, 2);
	(void)member(w, ACME, S_CARD2, 0);
	(void)member(w, ACME, S_SHARE1, 0);
	(void)submit(w, ACME, S_SHARE1);
	settle(w);
	assert_int_equal(running(w), 2);
	before = w->n.evicts;
	(void)submit(w, BOLT, S_SHARE2);
	rest(w);
	assert_int_equal(of_shape(w, BOLT, S_SHARE2)->node, 0);
	assert_int_equal(of_shape(w, ACME, S_CARD2)->node, NOBODY);
	assert_int_equal(w->n.evicts - before, 3);
	end(w);
}

/* As long as all that its gang holds is within the guarantee, one that comes late takes what is guaranteed. */
static void test_late_member_of_an_unlike_gang(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *late;

	(void)state;
	guarantee(w, ACME, R_CARDS, 3);
	guarantee(w, ACME, R_BYTES, 10 * GI);
	gang(w, ACME, 2);
	(void)member(w, ACME, S_CARD, 0);
	(void)member(w, ACME, S_SHARE1, 0);
	settle(w);
	assert_int_equal(running(w), 2);
	guarantee(w, BOLT, R_CARDS, 0);
	(void)submit(w, BOLT, S_CARD2);
	settle(w);
	late = member(w, ACME, S_CARD2, 0);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	rest(w);
	assert_int_equal(late->node, 0);
	end(w);
}

/* Who comes late, with a long minimum run time, does not make that of the gang longer; its own is kept. */
static void late_member(bool restart)
{
	struct world *w = begin(1, 4);
	struct pod *late, *p, *again;

	guarantee(w, BOLT, R_CARDS, 4);
	gang(w, ACME, 2);
	w->groups[0].min_run = 5000;
	world_tell_group(w, 0);
	(void)member(w, ACME, S_CARD2, 0);
	(void)member(w, ACME, S_CARD, 0);
	settle(w);
	assert_int_equal(running(w), 2);
	world_time(w, 4000);
	late = make(w, ACME, S_CARD);
	late->group = 0;
	late->min_run = 1000000;
	world_tell_pod(w, late);
	settle(w);
	assert_int_equal(late->node, 0);
	if (restart)
		assert_true(world_crash(w, 5));
	p = submit(w, BOLT, S_CARD2);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	world_time(w, 1000);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 2);
	write_all(w);
	rf_core_free(w->core); /* as of now */
	w->core = world_retell(w, 7);
	for (int turn = 0; turn < 10; turn++) {
		world_time(w, 1000);
		for (int i = 0; i < PODS; i++)
			(void)world_scrub(w, &w->pods[i]);
		settle(w);
	}
	assert_int_equal(p->node, 0);
	assert_true(late->live && !late->deleting);
	again = submit(w, BOLT, S_CARD2);
	settle(w);
	assert_true(late->live && !late->deleting);
	rest(w); /* when its time is over */
	assert_int_equal(again->node, 0);
	end(w);
}

/* One pod that must not be evicted does not shield the others of its gang, which borrowed what they have: now, or after a restart. */
static void shielded_gang(bool first, bool restart)
{
	struct world *w = begin(1, 4);
	struct pod *shield, *p;

	guarantee(w, BOLT, R_CARDS, 4);
	gang(w, ACME, 1);
	for (int i = 0; i < 5; i++) {
		if (i != (first ? 0 : 4)) {
			(void)member(w, ACME, S_CARD, 0);
		} else {
			shield = make(w, ACME, S_CPU);
			shield->group = 0;
			shield->priority = 2;
			shield->pinned = true;
			world_tell_pod(w, shield);
		}
		settle(w);
	}
	assert_int_equal(running(w), 5);
	if (restart)
		assert_true(world_crash(w, 5));
	p = submit(w, BOLT, S_CARD4);
	rest(w);
	assert_int_equal(p->node, 0);
	end(w);
}

static void test_shielded_gang(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		shielded_gang(i % 2 == 0, i / 2 == 1);
}

/* Who comes to a gang by the quotas of another queue stays charged there: else its place in these would be free again. */
static void test_gang_of_two_queues(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *late[2];

	(void)state;
	guarantee(w, ACME, R_CARDS, 1);
	w->queues[ACME].quotas[R_CARDS].limit = 1;
	world_tell_queue(w, ACME);
	guarantee(w, ACME + TENANTS, R_CARDS, 1);
	w->queues[ACME + TENANTS].quotas[R_CARDS].limit = 1;
	world_tell_queue(w, ACME + TENANTS);
	gang(w, ACME, 1);
	(void)member(w, ACME, S_CARD, 0);
	settle(w);
	for (int i = 0; i < 2; i++) {
		late[i] = make(w, ACME, S_CARD);
		late[i]->group = 0;
		late[i]->queue = ACME + TENANTS;
		world_tell_pod(w, late[i]);
		settle(w);
	}
	assert_int_equal(late[0]->node, 0);
	assert_int_equal(late[1]->node, NOBODY);
	end(w);
}

/* Who waits to join a gang does not make its minimum run time longer. */
static void test_min_run_of_who_waits(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p, *waits;

	(void)state;
	guarantee(w, BOLT, R_CARDS, 4);
	gang(w, ACME, 2);
	(void)member(w, ACME, S_CARD2, 0);
	(void)member(w, ACME, S_CARD2, 0);
	waits = make(w, ACME, S_CARD2);
	waits->group = 0;
	waits->min_run = 1000000;
	world_tell_pod(w, waits);
	settle(w);
	assert_int_equal(running(w), 2);
	assert_int_equal(waits->node, NOBODY);
	p = submit(w, BOLT, S_CARD4);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 2);
	rest(w);
	assert_int_equal(p->node, 0);
	end(w);
}

/* Who comes late and matters more than the others stays when one of them goes. */
static void test_late_member_that_matters_more(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *first, *late, *p;

	(void)state;
	guarantee(w, BOLT, R_CARDS, 4);
	gang(w, ACME, 1);
	first = member(w, ACME, S_CARD, 0);
	settle(w);
	late = member(w, ACME, S_CARD, 2);
	settle(w);
	assert_int_equal(running(w), 2);
	p = submit(w, BOLT, S_CARD2);
	settle(w);
	assert_int_equal(p->node, 0);
	p = submit(w, BOLT, S_CARD);
	rest(w);
	assert_int_equal(p->node, 0);
	assert_true(late->node == 0 && late->live && !late->deleting);
	assert_true(!first->live || first->deleting || first->node == NOBODY);
	end(w);
}

static void test_late_member(void **state)
{
	(void)state;
	late_member(false);
	late_member(true);
}

/* --- what changes for a gang ------------------------------------------------------------------ */

/* All claims of a gang are there and one of it is bound, when its node goes. The others' bindings were asked for. */
static struct world *node_goes_under_a_gang(void)
{
	struct world *w = begin(1, 4);

	gang(w, ACME, 3);
	for (int i = 0; i < 3; i++) {
		struct pod *p = member(w, ACME, S_CARD, 0);

		p->budget = 1;
		world_tell_pod(w, p);
	}
	assert_true(world_decide(w, 64));
	while (w->writes[0].kind != W_BIND)
		assert_true(world_write(w, false));
	assert_true(world_write(w, false));
	w->nodes[0].exists = false;
	world_tell_node(w, 0);
	world_time(w, w->config.gang_window_ms + 1);
	assert_true(world_decide(w, 64)); /* whatever becomes of them: nothing is taken from under them, nobody goes for them */
	assert_int_equal(w->n_writes, 2);
	assert_int_equal(w->writes[0].kind, W_BIND);
	assert_int_equal(w->writes[1].kind, W_BIND);
	return w;
}

static void test_bindings_on_their_way(void **state)
{
	struct world *w = node_goes_under_a_gang();

	(void)state;
	write_all(w);
	assert_int_equal(running(w), 3);
	rest(w);
	assert_int_equal(running(w), 3);
	end(w);
	w = node_goes_under_a_gang();
	assert_true(world_write(w, true));
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 1);
	assert_int_equal(w->n.releases, 2);
	rest(w);
	assert_int_equal(running(w), 0);
	end(w);
}

/* A binding that was called failed is done after all, while it is asked for again. That this cannot be carried out is said of
 * the one that is bound: the others of its commit are asked for again all the same. */
static void test_bound_after_all(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p;

	(void)state;
	gang(w, ACME, 3);
	for (int i = 0; i < 3; i++)
		(void)member(w, ACME, S_CARD, 0);
	assert_true(world_decide(w, 64));
	while (w->writes[0].kind != W_BIND)
		assert_true(world_write(w, false));
	p = &w->pods[w->writes[0].pod];
	assert_true(world_write(w, true));
	assert_int_equal(w->n_writes, 0);
	world_time(w, 2000);
	assert_true(world_decide(w, 64));
	assert_int_equal(w->n_writes, 3);
	assert_ptr_equal(&w->pods[w->writes[0].pod], p);
	p->node = p->place.node;
	p->started = w->now;
	p->prepared = true;
	world_tell_pod(w, p);
	assert_true(world_write(w, true));
	assert_int_equal(w->n_writes, 0);
	rest(w);
	assert_int_equal(running(w), 3);
	end(w);
}

/* Half a gang that its budget keeps stays until that allows it. The others are told that they wait for it. */
static void test_half_a_gang_is_kept(void **state)
{
	struct world *w = node_goes_under_a_gang();
	rf_auto(arena) a = RF_ARENA_INIT;
	int waiting = 0;

	(void)state;
	w->budgets[ACME] = 0;
	world_put_budget(w->core, w, ACME);
	assert_true(world_write(w, true));
	rest(w);
	assert_int_equal(w->n.evicts, 0);
	assert_int_equal(running(w), 1);
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		if (!p->live || p->node != NOBODY)
			continue;
		waiting++;
		assert_non_null(strstr(rf_arena_cstr(&a, rf_core_why(w->core, rf_str(p->uid), w->now, &a)), "let go first"));
	}
	assert_int_equal(waiting, 2);
	w->budgets[ACME] = 1;
	world_put_budget(w->core, w, ACME);
	rest(w);
	assert_int_equal(running(w), 0);
	end(w);
}

/* Half a gang is to go, and was not told yet, when its PodGroup is deleted: it is half of nothing any more, and stays. */
static void test_half_of_no_group(void **state)
{
	struct world *w = node_goes_under_a_gang();

	(void)state;
	assert_true(world_write(w, true));
	assert_true(world_decide(w, 1));
	assert_int_equal(w->n.releases, 1);
	assert_int_equal(evictions(w), 0);
	w->groups[0].exists = false;
	world_tell_group(w, 0);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 0);
	rest(w);
	assert_int_equal(running(w), 1);
	end(w);
}

/* Two evictions of four are refused, and these two are enough: they are a gang as before, and whatever takes one takes both. */
static void test_two_refused_are_enough(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p = outrank_gang(w, 2);

	(void)state;
	p->shape = S_CARD4;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 4);
	(void)write_eviction(w, true);
	(void)write_eviction(w, true);
	write_all(w);
	assert_int_equal(running(w), 2);
	p = make(w, ACME, S_CARD4);
	p->priority = 2;
	world_tell_pod(w, p);
	assert_true(world_decide(w, 64));
	assert_int_equal(evictions(w), 2);
	rest(w);
	assert_int_equal(running(w), 0);
	end(w);
}

/* One plan takes what is above the minimum, another the rest. One was told to go when the first is not made again, for who it
 * was has no claim any more: what it left to go stays, and the other takes no more than it needs. */
static void test_plans_are_made_anew_together(void **state)
{
	struct world *w = begin(1, 4);
	struct pod *p;

	(void)state;
	guarantee(w, BOLT, R_CARDS, 2);
	guarantee(w, CRUX, R_CARDS, 1);
	gang(w, ACME, 4);
	for (int i = 0; i < 4; i++)
		(void)member(w, ACME, S_CARD, 0);
	settle(w);
	world_add_node(w, 1, 2);
	(void)member(w, ACME, S_CARD, 0);
	(void)member(w, ACME, S_CARD, 0);
	settle(w);
	assert_int_equal(running(w), 6);
	(void)submit(w, BOLT, S_CARD2);
	p = submit(w, CRUX, S_CARD);
	assert_true(world_decide(w, 1));
	assert_int_equal(evictions(w), 1);
	guarantee(w, BOLT, R_CARDS, 0);
	assert_true(world_decide(w, 64));
	all_well(w);
	rest(w);
	assert_true(p->node != NOBODY);
	assert_true(running(w) >= 4);
	end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_eviction_of_a_gang),
		cmocka_unit_test(test_refused_before_the_others),
		cmocka_unit_test(test_half_said_gang_goes),
		cmocka_unit_test(test_refused_eviction_of_an_earlier_plan),
		cmocka_unit_test(test_gang_is_one_again),
		cmocka_unit_test(test_gang_is_one_just_in_time),
		cmocka_unit_test(test_gang_was_one_for_a_moment),
		cmocka_unit_test(test_refused_before_one_with_a_plan),
		cmocka_unit_test(test_budget_of_one_that_nobody_needs),
		cmocka_unit_test(test_restart_between_evictions),
		cmocka_unit_test(test_gang_that_ends_by_itself),
		cmocka_unit_test(test_refused_eviction_leaves_enough),
		cmocka_unit_test(test_last_of_a_gang_stays),
		cmocka_unit_test(test_plan_anew_knows_the_gang),
		cmocka_unit_test(test_rest_of_no_group),
		cmocka_unit_test(test_gang_was_one_again),
		cmocka_unit_test(test_member_of_an_unlike_gang_leaves),
		cmocka_unit_test(test_gang_on_two_models_shrinks),
		cmocka_unit_test(test_priority_of_a_gang),
		cmocka_unit_test(test_unlike_gang_comes_back_in_parts),
		cmocka_unit_test(test_late_member_of_an_unlike_gang),
		cmocka_unit_test(test_late_member),
		cmocka_unit_test(test_late_member_that_matters_more),
		cmocka_unit_test(test_min_run_of_who_waits),
		cmocka_unit_test(test_shielded_gang),
		cmocka_unit_test(test_gang_of_two_queues),
		cmocka_unit_test(test_bindings_on_their_way),
		cmocka_unit_test(test_bound_after_all),
		cmocka_unit_test(test_half_a_gang_is_kept),
		cmocka_unit_test(test_half_of_no_group),
		cmocka_unit_test(test_two_refused_are_enough),
		cmocka_unit_test(test_plans_are_made_anew_together),
	};

	return cmocka_run_group_tests_name("core_evict_gangs", tests, NULL, NULL);
}
