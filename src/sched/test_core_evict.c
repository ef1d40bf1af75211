/* Who goes, and who does not: histories that once broke a promise, made short. The world holds every decision against the
 * reference (test_core_reference.c); what is asserted here is what has to come of it. */
#include "sched/test_core_world.h"

static struct world world;

enum { ACME, BOLT, CRUX }; /* namespaces, tenants and their own queues alike */

static struct world *begin_with(int nodes, int cards, enum rf_reclaim reclaim)
{
	struct rf_core_config c;

	rf_core_config_default(&c);
	c.reclaim = reclaim;
	world_bare(&world, &c);
	for (int i = 0; i < nodes; i++)
		world_add_node(&world, i, cards);
	return &world;
}

static struct world *begin(int nodes, int cards)
{
	return begin_with(nodes, cards, RF_RECLAIM_GUARANTEE);
}

static void all_well(struct world *w)
{
	if (w->why[0] != 0)
		fail_msg("%s", w->why);
}

static void end(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(w->core, w->now, &err) != 0)
		fail_msg("%s", err.msg);
	all_well(w);
	world_done(w);
}

static void isolate(struct world *w, int tenant, enum rf_isolation level)
{
	w->tenants[tenant].isolation = level;
	world_tell_tenant(w, tenant);
}

static void guarantee(struct world *w, int queue, enum res r, int64_t amount)
{
	w->queues[queue].exists = true;
	w->queues[queue].quotas[r] = (struct quota){ true, amount, -1, -1, -1 };
	world_tell_queue(w, queue);
}

static struct pod *make(struct world *w, int space, int shape)
{
	int i = world_new_pod(w, space, shape);

	assert_true(i >= 0);
	return &w->pods[i];
}

static struct pod *submit(struct world *w, int space, int shape)
{
	struct pod *p = make(w, space, shape);

	world_tell_pod(w, p);
	return p;
}

static void gang(struct world *w, int space, int64_t min)
{
	w->groups[0] = (struct group){ .exists = true, .space = space, .queue = NOBODY, .min = min, .name = "gang", .created = w->now };
	world_tell_group(w, 0);
}

static struct pod *member(struct world *w, int space, int shape, int64_t priority)
{
	struct pod *p = make(w, space, shape);

	p->group = 0;
	p->priority = priority;
	world_tell_pod(w, p);
	return p;
}

static void write_all(struct world *w)
{
	while (w->n_writes > 0)
		assert_true(world_write(w, false));
}

/* The next eviction, with what has to be written before it. */
static struct pod *write_eviction(struct world *w, bool fails)
{
	struct pod *p;

	while (w->n_writes > 0 && w->writes[0].kind != W_EVICT)
		assert_true(world_write(w, false));
	assert_true(w->n_writes > 0);
	p = &w->pods[w->writes[0].pod];
	assert_true(world_write(w, fails));
	return p;
}

/* Decides and writes until nothing is decided any more; time stands still. */
static void settle(struct world *w)
{
	for (int turn = 0; turn < 20; turn++) {
		assert_true(world_decide(w, 64) || w->why[0] != 0);
		all_well(w);
		write_all(w);
	}
}

static void rest(struct world *w)
{
	(void)world_calm(w);
	all_well(w);
}

static void delete(struct world *w, struct pod *p, int64_t grace)
{
	p->deleting = true;
	p->gone_at = w->now + grace;
	world_tell_pod(w, p);
}

static int evictions(const struct world *w)
{
	int n = 0;

	for (int i = 0; i < w->n_writes; i++)
		n += w->writes[i].kind == W_EVICT;
	return n;
}

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

/* --- gangs ------------------------------------------------------------------------------------ */

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

static void test_late_member(void **state)
{
	(void)state;
	late_member(false);
	late_member(true);
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
		cmocka_unit_test(test_small_one_is_within),
		cmocka_unit_test(test_no_turns_on_a_node),
		cmocka_unit_test(test_facts_between_evictions),
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
		cmocka_unit_test(test_plan_anew_knows_the_gang),
		cmocka_unit_test(test_rest_of_no_group),
		cmocka_unit_test(test_gang_was_one_again),
		cmocka_unit_test(test_decided_on_a_node_that_goes),
		cmocka_unit_test(test_member_of_an_unlike_gang_leaves),
		cmocka_unit_test(test_gang_on_two_models_shrinks),
		cmocka_unit_test(test_priority_of_a_gang),
		cmocka_unit_test(test_unlike_gang_comes_back_in_parts),
		cmocka_unit_test(test_late_member_of_an_unlike_gang),
		cmocka_unit_test(test_late_member),
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
		cmocka_unit_test(test_bindings_on_their_way),
		cmocka_unit_test(test_bound_after_all),
		cmocka_unit_test(test_half_a_gang_is_kept),
		cmocka_unit_test(test_half_of_no_group),
		cmocka_unit_test(test_two_refused_are_enough),
		cmocka_unit_test(test_plans_are_made_anew_together),
		cmocka_unit_test(test_room_of_a_model_is_kept),
		cmocka_unit_test(test_model_of_a_plan_is_kept),
		cmocka_unit_test(test_plan_of_two_models),
		cmocka_unit_test(test_plan_of_a_share_of_another_model),
		cmocka_unit_test(test_no_claim_beside_plans),
		cmocka_unit_test(test_model_is_guaranteed_beside_a_limit),
		cmocka_unit_test(test_model_is_no_claim_on_another),
		cmocka_unit_test(test_model_is_owed_beside_others),
		cmocka_unit_test(test_within_its_model_stays),
		cmocka_unit_test(test_quota_of_a_model_is_given_back),
	};

	return cmocka_run_group_tests_name("core_evict", tests, NULL, NULL);
}
