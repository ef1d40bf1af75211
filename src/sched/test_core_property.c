/* Random histories of the scheduler's core, and the promises I1 .. I21, checked by arithmetic of their own over the
 * world's objects. A history that fails is made as short as possible and printed. RF_SEED=n repeats a run, RF_EVENTS=n
 * makes it longer (`make properties`), RF_NO_SHRINK=1 leaves it as long as it is.
 *
 *  I1  conservation      ref_conserved after every event; ref_bind for every decision; 0.1 + 0.2 == 0.3 by name
 *  I2  quotas            ref_bind: limit, borrowing, pinned within the guarantee, on every level, per model (by the cards that
 *                        were given) and per profile. In part: guarantees before cuts, so a cut is not seen here (test_queue_property)
 *  I3  guarantees        guarantee_met at rest, single pods, victims of any kind that are beyond doubt; the time by test_plans. In part: not
 *                        for gangs, not where lending or borrowing limits are given
 *  I4  the books         rf_core_audit every 23 events and at rest; lent for every decision: what is not lent of cards, of models, of slices
 *                        and of shares is left by every kind. In part: within a kind lending only by the audit's own rules
 *  I5  shrinking         quotas, nodes and cards shrink in the histories: I2's checks hold for all that is decided after
 *  I6  isolation         ref_bind: pairs on cards, nodes and in racks; what terminates and what is not scrubbed is there; ref_racks
 *                        after every event
 *  I7  scrubbing         a claim counts until its object is gone, whatever its pod does: ref_conserved, ref_bind
 *  I8  tenants' words    foreign queues and claims in the histories; test_queue_of_others, test_group_of_others, test_claim_of_others
 *  I9  others' latency   test_noise: calls into fleet and queues are counted, not time; test_doomed
 *  I10 gangs             gang_whole for every commit, gangs_whole after the window and at rest; a crash at every write (test_core_crash)
 *  I11 proof             test_plans: who something was evicted for is placed. In part: in the histories, at rest,
 *                        only that as many were placed as there were plans
 *  I12 least victims     test_plans: every subset is tried
 *  I13 no cycles         calm_down: evicted pods come again or not; it ends
 *  I14 who may go        ref_evict, gangs_kept
 *  I15 starvation        test_starvation
 *  I16 determinism       twins in every eighth history, told the same in another order after each crash: they decide the same, word
 *                        for word; test_other_process: another process with other hash keys
 *  I17 work conserving   work_conserved and gang_conserved at rest. In part: not where lending, borrowing or pinning comes into it;
 *                        of gangs those of equal pods with whole cards or none
 *  I18 reasons           reason_holds at rest: there is one, with its parts, names nobody else, need is more than have, a limit that
 *                        is named holds, what is said never to fit does not when all others are gone; ref_told_to_go: who is evicted
 *                        hears of what, too. In part: what else the machines lack is not worked out again
 *  I19 shares            test_shares, test_decay; the ledger goes through every restart at rest
 *  I20 restart           restart_is_equal at rest: told in another order; crashes in the histories. In part: not while something is on
 *                        a node or in a queue that is gone
 *  I21 MIG               own table of geometry: ref_conserved, ref_bind; a promise never moves */
#include "sched/test_core_world.h"

#include <math.h>

#include "sched/gang.h"

#define WORLD_EVENTS 2000
#ifdef __SANITIZE_ADDRESS__
#define EVENTS_DEFAULT 60000
#else
#define EVENTS_DEFAULT 1000000
#endif

static uint64_t seed_given(void)
{
	const char *s = getenv("RF_SEED");

	return s != NULL && s[0] != 0 ? strtoull(s, NULL, 10) : 20260101;
}

static long events_given(void)
{
	const char *s = getenv("RF_EVENTS");

	return s != NULL && s[0] != 0 ? strtol(s, NULL, 10) : EVENTS_DEFAULT;
}

static void draw_history(uint64_t seed, struct event *e, size_t n)
{
	struct rf_prng rng = { seed * 2862933555777941757u + 3037000493u };

	rng.state |= 1;
	for (size_t i = 0; i < n; i++)
		e[i] = world_draw(&rng);
}

/* --- the histories ---------------------------------------------------------------------------- */

static void say_counts(const struct counts *n)
{
	print_message("%ld events: %ld binds (%ld wholes, %ld shares, %ld slices, %ld promised, %ld of who shares no rack), %ld gangs, %ld evictions, %ld waits, "
		      "%ld releases, %ld crashes, %ld failed writes, %ld calms\n",
		      n->events, n->binds, n->wholes, n->shares, n->slices, n->promised, n->racked, n->gangs, n->evicts, n->waits, n->releases,
		      n->crashes, n->failures, n->calms);
	print_message("checked at rest: %ld fits, %ld guarantees, %ld reasons, %ld restarts; %ld victims, not lent: cards %ld, of models %ld, shares %ld, slices %ld\n", n->checked_fits,
		      n->checked_guarantees, n->checked_reasons, n->restarts, n->checked_victims, n->checked_lent, n->lent_models, n->lent_shares, n->lent_slices);
}

/* A history in which nothing happens proves nothing. */
static void enough_happened(const struct counts *n)
{
	if (n->events < 50000)
		return;
	assert_true(n->binds > n->events / 100);
	assert_true(n->wholes > n->events / 300);
	assert_true(n->shares > n->events / 2000);
	assert_true(n->slices > n->events / 2000);
	assert_true(n->racked > n->events / 2000);
	assert_true(n->gangs > n->events / 2000);
	assert_true(n->evicts > n->events / 2000);
	assert_true(n->crashes > n->events / 1000);
	assert_true(n->failures > n->events / 2000);
	assert_true(n->checked_fits > n->events / 2000);
	assert_true(n->checked_reasons > n->events / 1000);
	assert_true(n->checked_lent > n->events / 5000);
	assert_true(n->lent_models > n->events / 20000);
	assert_true(n->lent_shares > n->events / 20000);
	assert_true(n->lent_slices > n->events / 20000);
}

static struct counts live_through(uint64_t seed, long events)
{
	static struct event e[WORLD_EVENTS];
	struct counts n = { 0 };
	char why[700];

	print_message("RF_SEED=%" PRIu64 " RF_EVENTS=%ld\n", seed, events);
	while (n.events < events) {
		draw_history(seed, e, WORLD_EVENTS);
		if (!history_run(seed, e, WORLD_EVENTS, false, &n, NULL, why, sizeof(why))) {
			size_t m = WORLD_EVENTS;

			print_message("# broken: %s\n", why);
			history_shrink(seed, e, &m, why);
			fail_msg("RF_SEED=%" PRIu64 " RF_EVENTS=1: %s", seed, why);
		}
		seed++;
	}
	say_counts(&n);
	return n;
}

static void test_histories(void **state)
{
	struct counts n = live_through(seed_given(), events_given());

	(void)state;
	if (seed_given() < SCARCE_SEEDS)
		enough_happened(&n);
}

/* Where CPU and memory are short, and not cards. */
static void test_scarce_histories(void **state)
{
	struct counts n = live_through(SCARCE_SEEDS + seed_given() % SCARCE_SEEDS, EVENTS_DEFAULT / 10);

	(void)state;
	assert_true(n.binds > n.events / 100);
	assert_true(n.wholes > n.events / 300);
	assert_true(n.evicts > n.events / 2000);
	assert_true(n.restarts > n.events / 2000);
}

/* Where a machine has cards of several models. */
static void test_mixed_histories(void **state)
{
	struct counts n = live_through(MIXED_SEEDS + seed_given() % SCARCE_SEEDS, EVENTS_DEFAULT / 10);

	(void)state;
	assert_true(n.binds > n.events / 100);
	assert_true(n.wholes > n.events / 300);
	assert_true(n.evicts > n.events / 2000);
	assert_true(n.restarts > n.events / 2000);
}

/* Histories that broke once, and for which there is no shorter test. */
static void test_once_broken(void **state)
{
	static const uint64_t seeds[] = {
		20701832, 20708056, /* I16: the ledger was written down, and other queues came first after it */
		1102000000593,	    /* I4: a model kept by name was cut by a queue's limit of it, which guarantees nothing by name */
		20710013,	    /* I20: a zone was gone, and who had to spread over it was not woken */
		20900072,	    /* I16: models were tried in the order in which they had been told of */
		90000000460,	    /* I14: a card of a node that nobody knows any more counts for every model */
		5384385406,	    /* I13: a queue grew beyond its guarantee by priority, and lost that to another's, by turns */
		5384386965,	    /* I10: of a gang bound again after a restart one was deleted, and the others waited for it */
		5384388214,	    /* I14: half a gang was evicted while the others' bindings were on their way */
		8100000379,	    /* I20: who had been evicted came again and took what its model's limit left for who it went for */
		9200002073,	    /* I14: who was refused and is of a gang again was planned with as if it went */
		10300003749,	    /* I14: a plan was made in view of one that was not made again */
		31200002384,	    /* I11: a share on a node that nobody knows any more counted as a card, and who counted on that lost it */
		29000000532,	    /* I14: half a gang was evicted when its PodGroup was gone and it was deleted already */
		37800003993,	    /* I14: who was refused stays, since its gang was one again for a moment */
		38900000562,	    /* I14: one of a gang was told to go when it had ended, and nobody knew */
		41100004444, 42200000412, /* I14: a budget was used twice, for nobody needed whom it was used for any more */
		77100001103,	    /* I10: a failure was said of one that was bound after all, and the others of its commit were waited for */
		23500000604,	    /* I13: a plan counted on cards of a model that its quotas do not leave, and lost its own */
		61000001757,	    /* I20: who had been evicted came again on another node, and was in the way of who spreads over zones */
		74200000892,	    /* I11: a plan was looked for anew on the place of the one after it, and that came to nothing */
		100400000073,	    /* I11: who had a plan started elsewhere, on the last cards that another plan's models leave */
		45450000114,	    /* I10: who was refused was about to go again when enough others had come, and counted as one of them */
		720000000125,	    /* I13: one of a gang without a claim was refused before one like it that had a plan, which was lost */
		700000000693, 740000000558, /* I11: one was evicted from a node that was gone, and its card was gone with it */
		2600000001329, 2600000001602, /* I13: a plan had a share on a model of which quotas leave no card, and its place did not */
		3900000000377,	    /* I13: a plan counted on a card elsewhere that nobody is on, and who had gone for it came again there */
		5100000000372,	    /* I18: a machine was called too small that is so only by the quotas of its models */
		3300000000732,	    /* I13: a plan came to nothing again and again where machines have cards of two models */
		2700000000817,	    /* I10: who was about to be told to go again counted as one of its gang, and one more was bound with it */
		870000000533,	    /* I10: a gang that goes said that it started, after a crash in the middle of that */
		888000000112,	    /* I10: one that was told to go and ended well was not counted as one that did */
		870000000163,	    /* I10: one was bound when none of its gang was left, before that was settled */
		31000004685,	    /* I10: one of a gang that goes was refused and with another was enough, which failed before the others were gone */
		31000005635,	    /* I14: the time to complete half a gang was counted from before the last of it was bound */
		8796100000621,	    /* a node was gone with its cards, and looked at when moves were planned */
		8796100002318,	    /* I11: one was evicted from a card that was gone, and that card with it */
		8796100000167,	    /* I13: what was tried in vain beside a card that is away woke its holder, and that who had tried */
		8796300001219,	    /* I10: the check took one for told to go with its gang, of which the core did not know that the other had ended */
		1103000002599,	    /* I14: the check counted an eviction that was not carried out before its pod was gone with its node */
		2302000000711,	    /* I20: the check expects of a gang whose models are limited that the only order of places which does is found */
		1794858711,	    /* I20: one that waited to join a gang made its minimum run time longer until a restart */
		1794854708,	    /* I10: the check took a gang of which all that are left stay after all for one that never started */
		1794853508,	    /* I10: the last of a gang was told to go and refused, and taken for half of one that never started */
		8798000006097,	    /* I14: the check looked whether enough of a gang stayed when more had ended */
		8798000003642,	    /* I10: the check took a gang that was whole when the core came back for one that never was */
		8798000002488,	    /* I20: who came late to a gang went before those who matter less */
		8798000001322,	    /* I3: the check counted on one to go that is on a card that is gone */
		1099600001644,	    /* I17: the check counted cards on an island that somebody shares with nobody */
	};
	static struct event e[WORLD_EVENTS];
	char why[700];

	(void)state;
	for (size_t i = 0; i < RF_COUNT(seeds); i++) {
		draw_history(seeds[i], e, WORLD_EVENTS);
		if (!history_run(seeds[i], e, WORLD_EVENTS, false, NULL, NULL, why, sizeof(why)))
			fail_msg("RF_SEED=%" PRIu64 " RF_EVENTS=1: %s", seeds[i], why);
	}
}

/* Where cards vanish from nodes that stay, and come back. */
static void test_vanish_histories(void **state)
{
	struct counts n = live_through(VANISH_SEEDS + seed_given() % SCARCE_SEEDS, EVENTS_DEFAULT / 10);

	(void)state;
	assert_true(n.binds > n.events / 100);
	assert_true(n.wholes > n.events / 300);
	assert_true(n.vanished > n.events / 1000);
	assert_true(n.restarts > n.events / 2000);
}

/* I16: another process hashes with another key. To be run before this one draws its own. */
static void test_other_process(void **state)
{
	static struct event e[WORLD_EVENTS];
	uint64_t seed = seed_given(), a = 0, b = 1;
	char why[700];

	(void)state;
	for (int i = 0; i < 8; i++, seed += 5) {
		draw_history(seed, e, WORLD_EVENTS);
		if (!history_run(seed, e, WORLD_EVENTS, false, NULL, &a, why, sizeof(why)))
			skip(); /* test_histories says more */
		assert_true(history_run(seed, e, WORLD_EVENTS, false, NULL, &b, why, sizeof(why)));
		assert_int_equal(a, b);
	}
}

/* --- a world for one test --------------------------------------------------------------------- */

static struct world world;

static struct world *bare(void)
{
	struct rf_core_config c;

	rf_core_config_default(&c);
	world_bare(&world, &c);
	return &world;
}

#define ALL_WELL(w)                                                                                         \
	do {                                                                                                \
		if ((w)->why[0] != 0)                                                                       \
			fail_msg("%s", (w)->why);                                                           \
	} while (0)

static struct pod *submit(struct world *w, int space, int shape)
{
	int i = world_new_pod(w, space, shape);

	assert_true(i >= 0);
	world_tell_pod(w, &w->pods[i]);
	return &w->pods[i];
}

static void settle(struct world *w)
{
	(void)world_calm(w);
	ALL_WELL(w);
}

static void own_queue(struct world *w, int tenant, int64_t guaranteed, int64_t weight)
{
	w->queues[tenant].exists = true;
	w->queues[tenant].weight = weight;
	w->queues[tenant].quotas[R_CARDS] = (struct quota){ true, guaranteed, -1, -1, -1 };
	world_tell_queue(w, tenant);
}

/* --- I1 --------------------------------------------------------------------------------------- */

static void test_tenths(void **state)
{
	struct world *w = bare();
	struct pod *a, *b, *c;

	(void)state;
	world_add_node(w, 0, 1);
	w->queues[0].exists = true;
	w->queues[0].quotas[R_MILLI] = (struct quota){ true, -1, 300, -1, -1 };
	world_tell_queue(w, 0);
	a = submit(w, 0, S_SHARE1);
	b = submit(w, 0, S_SHARE2);
	settle(w);
	assert_int_equal(a->node, 0);
	assert_int_equal(b->node, 0);
	c = submit(w, 0, S_SHARE1);
	settle(w);
	assert_int_equal(c->node, NOBODY);
	world_done(w);
}

/* The card itself: 100 + 200 + 700 milli, and not one more. */
static void test_tenths_of_a_card(void **state)
{
	struct world *w = bare();
	struct pod *p[3], *more;

	(void)state;
	world_add_node(w, 0, 1);
	p[0] = submit(w, 0, S_SHARE1);
	p[1] = submit(w, 0, S_SHARE2);
	p[2] = submit(w, 0, S_SHARE3);
	settle(w);
	for (int i = 0; i < 3; i++)
		assert_int_equal(p[i]->node, 0);
	more = submit(w, 0, S_SHARE1);
	settle(w);
	assert_int_equal(more->node, NOBODY);
	world_done(w);
}

/* --- I8 --------------------------------------------------------------------------------------- */

static int64_t used_of(struct world *w, int queue, const char *resource)
{
	struct rf_queue *q = rf_queues_find(rf_core_queues(w->core), rf_str(queue_names[queue]));
	struct rf_queue_view v = { 0 };

	assert_non_null(q);
	rf_queue_view(rf_core_queues(w->core), q, rf_core_resource(w->core, rf_str(resource)), w->now, &v);
	return v.used;
}

static void test_queue_of_others(void **state)
{
	struct world *w = bare();
	struct pod *p;
	int i;

	(void)state;
	world_add_node(w, 0, 4);
	own_queue(w, 0, 0, 1);
	own_queue(w, 1, 4, 1);
	i = world_new_pod(w, 0, S_CARD);
	p = &w->pods[i];
	p->queue = 1;
	world_tell_pod(w, p);
	settle(w);
	assert_int_equal(p->node, NOBODY);
	assert_int_equal(used_of(w, 1, "cards"), 0);
	world_done(w);
}

/* A group of that name in another namespace is another group. */
static void test_group_of_others(void **state)
{
	struct world *w = bare();
	struct pod *p;
	int i;

	(void)state;
	world_add_node(w, 0, 4);
	w->groups[0] = (struct group){ .exists = true, .space = 1, .queue = NOBODY, .min = 1, .name = "train", .created = w->now };
	world_tell_group(w, 0);
	i = world_new_pod(w, 0, S_CARD);
	p = &w->pods[i];
	p->group = 0; /* told as "train" of its own namespace */
	world_tell_pod(w, p);
	for (int k = 0; k < 4; k++) {
		assert_true(world_decide(w, 64));
		while (w->n_writes > 0)
			assert_true(world_write(w, false));
	}
	assert_int_equal(p->node, NOBODY);
	assert_int_equal(used_of(w, 1, "cards"), 0);
	assert_int_equal(used_of(w, 0, "cards"), 0);
	world_done(w);
}

/* A claim in one namespace for a pod of another: it charges who wrote it, if anybody, and promises nothing. */
static void test_claim_of_others(void **state)
{
	struct world *w = bare();
	struct rf_sched_grant g = { .container = RF_LIT("c0"), .device = RF_LIT("gpu-0"), .bytes = 80 * GI, .milli = 1000, .whole = true };
	struct rf_sched_claim v = { .ns = RF_LIT("ns-acme"), .name = RF_LIT("mine"), .tenant = RF_LIT("bolt"), .rv = 5, .node = RF_LIT("node-0"), .grants = &g, .n_grants = 1 };
	struct pod *p;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_core_decision *d = NULL;
	size_t n;

	(void)state;
	world_add_node(w, 0, 4);
	own_queue(w, 1, 4, 1);
	p = submit(w, 1, S_CARD);
	v.pod_uid = rf_str(p->uid);
	rf_core_put_claim(w->core, &v);
	n = rf_core_decide(w->core, w->now, 64, &a, &d);
	for (size_t i = 0; i < n; i++) {
		assert_true(d[i].verdict == RF_CORE_BIND || d[i].verdict == RF_CORE_WAIT);
		if (d[i].verdict != RF_CORE_BIND)
			continue;
		assert_false(d[i].promised);
		assert_int_equal(d[i].n_grants, 1);
		assert_false(rf_str_is(d[i].grants[0].device, "gpu-0"));
	}
	assert_int_equal(n, 1);
	assert_int_equal(used_of(w, 1, "cards"), d[0].verdict == RF_CORE_BIND);
	world_done(w);
}

/* --- I9 --------------------------------------------------------------------------------------- */

/* Calls into the rooms below, counted by the linker's --wrap: what deciding costs, without a clock. */
static long work;
#define COUNTED(ret, name, params, args)                                                                    \
	ret __real_##name params;                                                                           \
	ret __wrap_##name params;                                                                           \
	ret __wrap_##name params                                                                            \
	{                                                                                                   \
		work++;                                                                                     \
		return __real_##name args;                                                                  \
	}
COUNTED(bool, rf_fleet_find, (struct rf_fleet * f, const struct rf_fleet_ask *ask, struct rf_fleet_place *ret), (f, ask, ret))
COUNTED(bool, rf_fleet_find_on, (struct rf_fleet * f, uint32_t node, const struct rf_fleet_ask *ask, struct rf_fleet_place *ret),
	(f, node, ask, ret))
COUNTED(struct rf_workload *, rf_queues_next, (struct rf_queues * qs, int64_t now, int64_t *m), (qs, now, m))
COUNTED(size_t, rf_gang_take, (struct rf_fleet * f, const struct rf_gang *g, struct rf_fleet_place *p, uint64_t *h), (f, g, p, h))

static void put_noise(struct world *w, int i, bool alike)
{
	char uid[32];
	struct rf_sched_container c = { RF_LIT("c0"), { .cards = 1, .name = RF_RES_GPU } };
	struct rf_sched_pod v = { .uid = { uid, 0 },
				  .ns = RF_LIT("ns-acme"),
				  .rv = 100000 + i,
				  .created_ms = w->now - 1000,
				  .cpu_milli = 900000 + (alike ? 0 : i),
				  .memory = GI,
				  .containers = &c,
				  .n_containers = 1 };

	snprintf(uid, sizeof(uid), "noise-%06d", i);
	v.uid = v.name = rf_str(uid);
	rf_core_put_pod(w->core, &v, w->now);
}

/* What it costs until the pod is bound, with so many of another tenant that cannot run. `first`: these are settled before. */
static long cost_of_bind(int noise, bool alike, bool first)
{
	struct world *w = bare();
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_core_decision *d = NULL;
	struct pod *p;
	bool bound = false;
	size_t n;

	world_add_node(w, 0, 4);
	world_add_node(w, 1, 4);
	for (int i = 0; i < noise; i++)
		put_noise(w, i, alike);
	while (first && (n = rf_core_decide(w->core, w->now, 64, &a, &d)) > 0)
		rf_arena_reset(&a);
	w->now += 1;
	p = submit(w, 1, S_CARD);
	work = 0;
	for (int turn = 0; turn < 1000 && !bound; turn++) {
		n = rf_core_decide(w->core, w->now, 64, &a, &d);
		work += (long)n;
		for (size_t i = 0; i < n; i++)
			bound |= d[i].verdict == RF_CORE_BIND && rf_str_is(d[i].uid, p->uid);
		if (n == 0)
			break;
		rf_arena_reset(&a);
	}
	assert_true(bound);
	world_done(w);
	return work;
}

static void test_noise(void **state)
{
	long quiet = cost_of_bind(0, true, true), floor = 80; /* one batch of 64 decisions, and what finding a few places takes */

	(void)state;
	for (int alike = 0; alike < 2; alike++) {
		long after = cost_of_bind(10000, alike, true), together = cost_of_bind(10000, alike, false);

		print_message("I9 %s: alone %ld, after 10000 that cannot run %ld, together with them %ld\n",
			      alike ? "all alike" : "all different", quiet, after, together);
		assert_true(after <= 2 * quiet + 8);
		assert_true(together <= 2 * quiet + floor);
	}
}

/* A binding that is always refused is tried less and less, and others are not kept waiting. */
static void test_doomed(void **state)
{
	struct world *w = bare();
	struct pod *doomed, *other;
	long tries = 0;

	(void)state;
	world_add_node(w, 0, 4);
	doomed = submit(w, 0, S_CARD);
	for (int second = 0; second < 600; second++) {
		long before = w->n.binds;

		assert_true(world_decide(w, 64));
		while (w->n_writes > 0)
			assert_true(world_write(w, w->writes[0].pod == (int)(doomed - w->pods)));
		ALL_WELL(w);
		tries += w->n.binds - before;
		world_time(w, 1000);
	}
	print_message("I9 a doomed binding is tried %ld times in 10 minutes\n", tries);
	assert_in_range(tries, 3, 14);
	other = submit(w, 1, S_CARD);
	assert_true(world_decide(w, 64));
	assert_true(other->flying);
	world_done(w);
}

/* --- I3, I11, I12: plans ---------------------------------------------------------------------- */

static uint64_t draw(struct rf_prng *r, uint64_t n)
{
	return rf_prng_below(r, n);
}

static bool fits_somewhere(const struct world *w, const struct pod *p, const bool gone[PODS])
{
	for (int n = 0; n < NODES; n++)
		if (w->nodes[n].exists && ref_fits(w, p, n, gone))
			return true;
	return false;
}

/* Everything that is over its guarantee for certain. */
static void every_subset_falls_short(struct world *w, const struct pod *p)
{
	int victims[PODS], n = 0;
	bool gone[PODS] = { false };

	for (int i = 0; i < PODS; i++)
		if (w->pods[i].live && w->pods[i].evicted)
			victims[n++] = i;
	if (n == 0)
		return;
	w->n.plans_done++;
	for (unsigned set = 0; n <= 12 && set < (1u << n); set++) {
		for (int k = 0; k < n; k++)
			gone[victims[k]] = set >> k & 1;
		if (set + 1 == 1u << n)
			assert_true(fits_somewhere(w, p, gone)); /* the plan suffices */
		else if (fits_somewhere(w, p, gone))
			fail_msg("I12 %s: %d victims, %u of them are enough", p->uid, n, set);
	}
}

static void one_plan(uint64_t seed, long *plans)
{
	static const int fill[] = { S_CARD, S_CARD, S_CARD2, S_CARD4, S_SHARE3, S_NVLINK };
	static const int want[] = { S_CARD, S_CARD2, S_CARD4, S_NVLINK };
	struct world *w = bare();
	struct rf_prng rng = { seed * 2654435761u | 1 };
	struct pod *p;
	int64_t asked;
	long binds;

	for (int n = 0; n < 3; n++)
		world_add_node(w, n, 4);
	own_queue(w, 0, 4, 1);
	for (int t = 1; t < TENANTS; t++)
		own_queue(w, t, (int64_t)draw(&rng, 3), 1);
	for (int i = 0; i < 20; i++) {
		int k = world_new_pod(w, 1 + (int)draw(&rng, 4), fill[draw(&rng, RF_COUNT(fill))]);

		w->pods[k].priority = (int64_t)draw(&rng, 3);
		w->pods[k].grace = (int64_t)draw(&rng, 3) * 1000;
		w->pods[k].pinned = draw(&rng, 12) == 0;
		w->pods[k].min_run = draw(&rng, 6) == 0 ? 1000000000 : 0;
		world_tell_pod(w, &w->pods[k]);
	}
	settle(w);
	for (int i = 0; i < PODS; i++) { /* only one waits */
		struct pod *o = &w->pods[i];

		if (o->live && o->node == NOBODY) {
			o->live = false;
			world_tell_pod(w, o);
		}
	}
	settle(w);
	world_time(w, 5000);
	p = submit(w, 0, want[draw(&rng, RF_COUNT(want))]);
	asked = w->now;
	(void)world_decide(w, 64);
	ALL_WELL(w);
	if (w->n_writes > 0 && w->writes[0].kind == W_EVICT) {
		every_subset_falls_short(w, p);
		(*plans)++;
		for (int i = 0; i < PODS; i++)
			p->grace = RF_MAX(p->grace, w->pods[i].evicted ? w->pods[i].grace : 0);
		binds = w->n.binds;
		settle(w);
		assert_true(w->n.binds > binds);
		assert_true(p->node != NOBODY); /* I11: for whom they went is placed */
		assert_true(p->started <= asked + p->grace + 2000); /* I3: in time */
	}
	settle(w); /* I3, I17 at rest */
	world_done(w);
}

static void test_plans(void **state)
{
	uint64_t seed = seed_given();
	long plans = 0;

	(void)state;
	for (int i = 0; i < 1500; i++)
		one_plan(seed + (uint64_t)i, &plans);
	print_message("I12 %ld plans, every subset tried\n", plans);
	assert_true(plans > 300);
}

/* --- I15 -------------------------------------------------------------------------------------- */

#define LONGEST 20000

static int waiting_of(const struct world *w, int space)
{
	int n = 0;

	for (int i = 0; i < PODS; i++)
		n += w->pods[i].live && w->pods[i].space == space && w->pods[i].node == NOBODY;
	return n;
}

static void tick(struct world *w, int64_t ms)
{
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < PODS; i++)
			(void)world_scrub(w, &w->pods[i]);
		(void)world_decide(w, 64);
		while (w->n_writes > 0)
			(void)world_write(w, false);
	}
	for (int i = 0; i < PODS; i++) { /* what ended is tidied up */
		if (w->pods[i].live && w->pods[i].ended && !w->pods[i].claimed) {
			w->pods[i].live = false;
			world_tell_pod(w, &w->pods[i]);
		}
	}
	ALL_WELL(w);
	world_time(w, ms);
}

static int64_t wait_of_gang(int small_space, int64_t members, uint64_t seed)
{
	struct rf_core_config c;
	struct world *w = &world;
	struct rf_prng rng = { seed | 1 };
	int64_t asked = 0, gang = NOBODY, took = -1;

	rf_core_config_default(&c);
	c.reserve_after_ms = 10000;
	c.reserve_cards = 4;
	c.reserve_most = 2;
	world_bare(w, &c);
	world_add_node(w, 0, 4);
	world_add_node(w, 1, 4);
	for (int t = 0; t < 400 && took < 0; t++) {
		while (waiting_of(w, small_space) < 10 + (gang >= 0 && small_space == 0 ? (int)members : 0)) {
			int i = world_new_pod(w, small_space, S_CARD);

			w->pods[i].run_limit = 2000 + (int64_t)draw(&rng, LONGEST - 2000);
			world_tell_pod(w, &w->pods[i]);
		}
		if (t == 30) {
			w->groups[0] = (struct group){ .exists = true, .space = 0, .queue = NOBODY, .min = members, .name = "big", .created = w->now };
			world_tell_group(w, 0);
			for (int64_t k = 0; k < members; k++) {
				gang = world_new_pod(w, 0, S_CARD);
				w->pods[gang].group = 0;
				world_tell_pod(w, &w->pods[gang]);
			}
			asked = w->now;
		}
		tick(w, 500);
		if (gang >= 0 && w->pods[gang].node != NOBODY)
			took = w->pods[gang].started - asked;
	}
	if (took < 0)
		print_message("# the gang waits: %s\n", w->pods[gang].why);
	world_done(w);
	return took;
}

static void test_starvation(void **state)
{
	(void)state;
	for (int space = 0; space < 2; space++) {
		for (int64_t members = 5; members <= 8; members++) {
			int64_t took = wait_of_gang(space, members, seed_given() + (uint64_t)members);

			print_message("I15 a gang of %d of 8 cards beside small jobs of %s: %" PRId64 " ms\n", (int)members,
				      space == 0 ? "its own tenant" : "another", took);
			assert_true(took >= 0);
			assert_true(took <= 10000 + LONGEST + 5000);
		}
	}
}

/* --- I19 -------------------------------------------------------------------------------------- */

static void test_shares(void **state)
{
	static const int64_t weights[3] = { 1, 2, 5 };
	struct world *w = bare();
	int64_t got[3] = { 0 }, sum = 0;

	(void)state;
	world_add_node(w, 0, 4);
	world_add_node(w, 1, 4);
	for (int t = 0; t < 3; t++)
		own_queue(w, t, 0, weights[t]);
	for (int k = 0; k < 6000; k++) {
		for (int t = 0; t < 3; t++) {
			while (waiting_of(w, t) < 9) {
				int i = world_new_pod(w, t, S_CARD);

				assert_true(i >= 0);
				w->pods[i].run_limit = 3000;
				world_tell_pod(w, &w->pods[i]);
			}
		}
		tick(w, 500);
		for (int i = 0; i < PODS && k > 1000; i++)
			if (w->pods[i].live && w->pods[i].node != NOBODY && !w->pods[i].ended)
				got[w->pods[i].space]++;
	}
	for (int t = 0; t < 3; t++)
		sum += got[t];
	for (int t = 0; t < 3; t++) {
		int64_t milli = got[t] * 1000 / sum, due = weights[t] * 1000 / 8;

		print_message("I19 weight %d of 8: %" PRId64 "/1000\n", (int)weights[t], milli);
		assert_true(milli >= due - 10 && milli <= due + 10);
	}
	world_done(w);
}

static void test_decay(void **state)
{
	struct rf_core_config c;
	struct world *w = &world;
	struct rf_queue *q;
	uint64_t before;
	int64_t then;

	(void)state;
	rf_core_config_default(&c);
	c.half_life_ms = 3600000;
	world_bare(w, &c);
	world_add_node(w, 0, 4);
	own_queue(w, 0, 0, 1);
	submit(w, 0, S_CARD2)->run_limit = 0;
	settle(w);
	world_time(w, 1000000);
	for (int i = 0; i < PODS; i++)
		world_end_pod(w, &w->pods[i]);
	for (int i = 0; i < PODS; i++)
		(void)world_scrub(w, &w->pods[i]);
	(void)world_decide(w, 64);
	q = rf_queues_find(rf_core_queues(w->core), RF_LIT("acme"));
	then = w->now;
	before = rf_queue_usage(rf_core_queues(w->core), q, then);
	assert_true(before > 0);
	for (int64_t dt = 60000; dt <= 12 * c.half_life_ms; dt = dt * 3 / 2) {
		uint64_t now = rf_queue_usage(rf_core_queues(w->core), q, then + dt);
		long double want = (long double)before * powl(0.5L, (long double)dt / (long double)c.half_life_ms);

		assert_true(fabsl((long double)now - want) <= want * 1e-6L + 2);
	}
	world_done(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_other_process), /* first: this process has no hash key yet */
		cmocka_unit_test(test_tenths),
		cmocka_unit_test(test_tenths_of_a_card),
		cmocka_unit_test(test_queue_of_others),
		cmocka_unit_test(test_group_of_others),
		cmocka_unit_test(test_claim_of_others),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_doomed),
		cmocka_unit_test(test_plans),
		cmocka_unit_test(test_starvation),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_decay),
		cmocka_unit_test(test_once_broken),
		cmocka_unit_test(test_histories),
		cmocka_unit_test(test_scarce_histories),
		cmocka_unit_test(test_mixed_histories),
		cmocka_unit_test(test_vanish_histories),
	};
	const struct CMUnitTest only[] = { cmocka_unit_test(test_histories) };

	if (getenv("RF_EVENTS") != NULL)
		return cmocka_run_group_tests_name("core_property", only, NULL, NULL);
	return cmocka_run_group_tests_name("core_property", tests, NULL, NULL);
}
