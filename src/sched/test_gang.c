/* Gangs: all or none, fast, in one domain, and that nothing is missed that a slow search finds. RF_SEED=n repeats a
 * run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/gang.h"

#define GI (INT64_C(1) << 30)
#define MOST 300

static struct rf_fleet_place places[MOST];
static uint64_t holds[MOST];
static struct rf_fleet_ask asks[MOST];

static uint32_t add(struct rf_fleet *f, unsigned n)
{
	struct rf_fleet_card cards[RF_FLEET_CARDS_MAX] = { 0 };
	struct rf_fleet_node v = { .cpu_milli = 64000, .memory = 640 * GI, .pods = 100, .cards = cards, .n_cards = n };
	uint32_t node = RF_FLEET_NONE;

	for (unsigned i = 0; i < n; i++)
		cards[i] = (struct rf_fleet_card){ .memory = 80 * GI, .healthy = true };
	assert_int_equal(rf_fleet_put_node(f, RF_FLEET_NONE, &v, &node, NULL), 0);
	return node;
}

static struct rf_fleet_ask whole(uint32_t tenant, unsigned n)
{
	return (struct rf_fleet_ask){ .owner = { .tenant = tenant, .trust = 1, .level = RF_ISOLATION_GPU },
				      .cpu_milli = 1000,
				      .n_parts = 1,
				      .parts[0] = { .kind = RF_FLEET_WHOLE, .n = (uint8_t)n } };
}

static struct rf_fleet_ask share(uint32_t tenant, int64_t milli)
{
	return (struct rf_fleet_ask){ .owner = { .tenant = tenant, .trust = 1, .level = RF_ISOLATION_SHARE },
				      .cpu_milli = 1000,
				      .n_parts = 1,
				      .parts[0] = { .kind = RF_FLEET_SHARE, .n = 1, .milli = milli } };
}

static struct rf_gang gang(size_t n, size_t min)
{
	return (struct rf_gang){ .asks = asks, .n = n, .min = min, .held = RF_FLEET_NONE };
}

static void all_ask(size_t n, struct rf_fleet_ask a)
{
	for (size_t i = 0; i < n; i++)
		asks[i] = a;
}

static int64_t granted(const struct rf_fleet *f)
{
	struct rf_fleet_usage u;

	rf_fleet_usage(f, &u);
	return u.milli;
}

static size_t n_holds(const struct rf_fleet *f)
{
	struct rf_fleet_usage u;

	rf_fleet_usage(f, &u);
	return u.holds;
}

/* --- all or none ------------------------------------------------------------------------------ */

static void all_members_or_none(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(3, 3);

	(void)state;
	add(f, 4);
	add(f, 4);
	all_ask(3, whole(1, 3));
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
	assert_int_equal(n_holds(f), 0);
	assert_true(rf_fleet_audit(f, NULL));
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(holds[i], 0);
		assert_int_equal(places[i].node, RF_FLEET_NONE);
	}
	g.n = g.min = 2;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 2);
	assert_int_equal(granted(f), 6000);
	assert_int_not_equal(places[0].node, places[1].node);
	for (size_t i = 0; i < 2; i++)
		assert_true(rf_fleet_give(f, holds[i]));
	assert_int_equal(n_holds(f), 0);
}

static void members_above_the_minimum_come_as_far_as_there_is_room(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(5, 1);

	(void)state;
	add(f, 4);
	all_ask(5, whole(1, 2));
	asks[3] = whole(1, 1);
	assert_int_equal(rf_gang_take(f, &g, places, holds), 2);
	assert_true(holds[0] != 0 && holds[1] != 0 && holds[2] == 0 && holds[3] == 0 && holds[4] == 0);
	assert_int_equal(places[2].node, RF_FLEET_NONE);
	assert_true(rf_fleet_audit(f, NULL));
}

static void with_no_minimum_none_is_an_answer(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(2, 0);

	(void)state;
	add(f, 1);
	all_ask(2, whole(1, 1));
	assert_int_equal(rf_gang_take(f, &g, places, holds), 1);
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
	g.n = 0;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
	g = gang(1, 2);
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
}

static void what_makes_no_sense_is_refused(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(2, 2);

	(void)state;
	add(f, 8);
	all_ask(2, whole(1, 1));
	asks[1].parts[0].n = 0;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
	asks[1] = whole(1, 1);
	asks[1].class = 77;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
	assert_int_equal(n_holds(f), 0);
}

/* Small ones first would break up the only node that is whole. */
static void large_members_come_first_whatever_the_order_is(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(5, 5);

	(void)state;
	add(f, 4);
	add(f, 4);
	all_ask(4, whole(1, 1));
	asks[4] = whole(1, 4);
	for (size_t i = 0; i < 4; i++)
		asks[i].policy = RF_FLEET_SPREAD;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 5);
	assert_int_equal(granted(f), 8000);
	assert_true(rf_fleet_audit(f, NULL));
}

/* The larger one takes the only node of the class of the smaller one, unless that one comes first. */
static void who_found_no_place_comes_first_the_next_time(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(2, 2);
	uint32_t narrow, class = rf_fleet_class_new(f);

	(void)state;
	narrow = add(f, 2);
	add(f, 2);
	rf_fleet_class_set(f, class, narrow, true);
	asks[0] = whole(1, 2);
	asks[0].policy = RF_FLEET_FIRST;
	asks[1] = whole(1, 1);
	asks[1].class = class;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 2);
	assert_int_equal(places[1].node, narrow);
	assert_int_not_equal(places[0].node, narrow);
}

/* --- domains ---------------------------------------------------------------------------------- */

static void all_members_are_in_one_domain(void **state)
{
	static const uint32_t domain[] = { 7, 7, 9, 9, 9, RF_FLEET_NONE };
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(3, 3);

	(void)state;
	for (size_t i = 0; i < 6; i++)
		add(f, 4);
	g.domain = domain;
	g.n_domain = RF_COUNT(domain);
	all_ask(3, whole(1, 3)); /* one to a node */
	assert_int_equal(rf_gang_take(f, &g, places, holds), 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(domain[places[i].node], 9);
	g.n = g.min = 2;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 2);
	assert_int_equal(domain[places[0].node], 7);
	assert_int_equal(domain[places[1].node], 7);
	g.n = g.min = 1;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0); /* there is room where no domain is */
	assert_true(rf_fleet_audit(f, NULL));
}

static void the_smallest_domain_that_does_is_taken(void **state)
{
	static const uint32_t domain[] = { 1, 1, 1, 2, 2, 3 };
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(2, 2);

	(void)state;
	for (size_t i = 0; i < 6; i++)
		add(f, 4);
	g.domain = domain;
	g.n_domain = RF_COUNT(domain);
	all_ask(2, whole(1, 4));
	assert_int_equal(rf_gang_take(f, &g, places, holds), 2);
	assert_int_equal(domain[places[0].node], 2);
}

static void a_gang_that_runs_somewhere_grows_there(void **state)
{
	static const uint32_t domain[] = { 1, 2 };
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(2, 0);

	(void)state;
	add(f, 4);
	add(f, 4);
	g.domain = domain;
	g.n_domain = 2;
	g.held = 2;
	all_ask(2, whole(1, 4));
	assert_int_equal(rf_gang_take(f, &g, places, holds), 1);
	assert_int_equal(places[0].node, 1);
	g.held = 5;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
}

/* --- hooks ------------------------------------------------------------------------------------ */

struct apart { /* at most one member on a node */
	struct rf_fleet *f;
	uint32_t class;
	size_t on[8], asked, undone;
};

static bool narrow_apart(void *ctx, size_t member, struct rf_fleet_ask *ask)
{
	struct apart *a = ctx;

	(void)member;
	a->asked++;
	for (uint32_t i = 0; i < rf_fleet_handles(a->f); i++)
		rf_fleet_class_set(a->f, a->class, i, a->on[i] == 0);
	ask->class = a->class;
	return true;
}

static void placed_apart(void *ctx, size_t member, const struct rf_fleet_place *at)
{
	(void)member;
	((struct apart *)ctx)->on[at->node]++;
}

static void undone_apart(void *ctx, size_t member, const struct rf_fleet_place *at)
{
	(void)member;
	((struct apart *)ctx)->on[at->node]--;
	((struct apart *)ctx)->undone++;
}

static void hooks_keep_members_apart_and_hear_of_what_is_undone(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct apart a = { .f = f, .class = rf_fleet_class_new(f) };
	struct rf_gang g = gang(4, 4);
	uint64_t version;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		add(f, 8);
	all_ask(4, whole(1, 1));
	g.narrow = narrow_apart;
	g.placed = placed_apart;
	g.undone = undone_apart;
	g.ctx = &a;
	version = rf_fleet_version(f, &asks[0]);
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
	assert_int_equal(a.undone, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(a.on[i], 0);
	assert_true(rf_fleet_version(f, &asks[0]) > version); /* the class did change */
	g.min = 3;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(a.on[i], 1);
	assert_true(rf_fleet_audit(f, NULL));
}

static bool nowhere(void *ctx, size_t member, struct rf_fleet_ask *ask)
{
	(void)ctx, (void)ask;
	return member != 1;
}

static void a_member_that_may_go_nowhere_stops_the_gang(void **state)
{
	static const uint32_t domain[] = { 0 };
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(2, 2);

	(void)state;
	add(f, 8);
	all_ask(2, whole(1, 1));
	g.narrow = nowhere;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
	g.domain = domain;
	g.n_domain = 1;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
	g.min = 1;
	assert_int_equal(rf_gang_take(f, &g, places, holds), 1);
}

/* --- large ones: what is counted is work, not time ---------------------------------------------- */

static void two_thousand_cards_at_once(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_gang g = gang(250, 250);
	size_t mark;

	(void)state;
	for (size_t i = 0; i < 250; i++)
		add(f, 8);
	all_ask(250, whole(1, 8));
	mark = rf_fleet_mark(f);
	assert_int_equal(rf_gang_take(f, &g, places, holds), 250);
	assert_int_equal(granted(f), 2000 * 1000);
	rf_fleet_rollback(f, mark);
	assert_int_equal(granted(f), 0);
	assert_true(rf_fleet_audit(f, NULL));
	rf_fleet_set_healthy(f, 100, 3, false);
	assert_int_equal(rf_gang_take(f, &g, places, holds), 0);
	assert_int_equal(n_holds(f), 0);
}

/* --- against a slow search ----------------------------------------------------------------------- */

static uint64_t rand_state;

static uint32_t draw(uint32_t n)
{
	rand_state = rand_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rand_state >> 33) % n;
}

static uint64_t seed(void)
{
	const char *s = getenv("RF_SEED");

	return s != NULL ? strtoull(s, NULL, 10) : 20231;
}

/* Is there any way at all? Whole cards only, so that nodes are numbers. */
static bool some_way(int *left, const uint32_t *domain, size_t n_nodes, size_t member, size_t n, uint32_t in)
{
	if (member == n)
		return true;
	for (size_t i = 0; i < n_nodes; i++) {
		int need = asks[member].parts[0].n;

		if (left[i] < need || (domain != NULL && (domain[i] == RF_FLEET_NONE || domain[i] != in)))
			continue;
		left[i] -= need;
		if (some_way(left, domain, n_nodes, member + 1, n, in)) {
			left[i] += need;
			return true;
		}
		left[i] += need;
	}
	return false;
}

static void agrees_with_a_slow_search(void **state)
{
	uint64_t first = seed();
	size_t missed = 0, found = 0;

	(void)state;
	for (uint64_t run = 0; run < 3000; run++) {
		rf_auto_ptr(fleet) f = rf_fleet_new();
		uint32_t domain[6];
		size_t n_nodes, n, got;
		int left[6];
		struct rf_gang g;
		bool same = true, can = false;
		size_t before;

		rand_state = first + run;
		n_nodes = 1 + draw(5);
		n = 1 + draw(5);
		for (size_t i = 0; i < n_nodes; i++) {
			left[i] = (int)draw(5);
			add(f, (unsigned)left[i]);
			domain[i] = draw(4) == 0 ? RF_FLEET_NONE : draw(3);
		}
		for (size_t i = 0; i < n; i++) {
			asks[i] = i > 0 && draw(2) ? asks[i - 1] : whole(1, 1 + draw(4));
			same = same && asks[i].parts[0].n == asks[0].parts[0].n;
		}
		g = gang(n, n);
		if (draw(2)) {
			g.domain = domain;
			g.n_domain = n_nodes;
		}
		for (uint32_t d = 0; d < 3 && !can; d++)
			can = some_way(left, g.domain, n_nodes, 0, n, d);
		before = n_holds(f);
		got = rf_gang_take(f, &g, places, holds);
		if (!rf_fleet_audit(f, NULL) || (got != 0 && got != n) || (got > 0 && !can) || (same && can && got == 0))
			fail_msg("seed %llu: %zu of %zu, possible %d", (unsigned long long)rand_state, got, n, can);
		missed += can && got == 0;
		found += got > 0;
		for (size_t i = 1; i < got && g.domain != NULL; i++)
			assert_int_equal(domain[places[i].node], domain[places[0].node]);
		for (size_t i = 0; i < got; i++)
			assert_true(rf_fleet_give(f, holds[i]));
		assert_int_equal(n_holds(f), before);
	}
	assert_true(found > 500);
	if (missed * 100 > found)
		fail_msg("seed %llu: missed %zu of %zu", (unsigned long long)first, missed, missed + found);
}

static void it_is_known_how_many_would_find_places(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	const uint32_t domain[] = { 0, 0, 1, 1, 1, RF_FLEET_NONE };
	struct rf_gang g = gang(40, 40);

	(void)state;
	for (size_t i = 0; i < RF_COUNT(domain); i++)
		add(f, 3);
	all_ask(40, whole(1, 2));
	assert_int_equal(rf_gang_most(f, &g), 6);
	asks[39] = whole(1, 1); /* unlike: placed to see */
	assert_int_equal(rf_gang_most(f, &g), 7);
	g.domain = domain;
	g.n_domain = RF_COUNT(domain);
	assert_int_equal(rf_gang_most(f, &g), 4);
	asks[39] = whole(1, 2);
	assert_int_equal(rf_gang_most(f, &g), 3);
	g.held = 0;
	assert_int_equal(rf_gang_most(f, &g), 2);
	assert_int_equal(n_holds(f), 0);
}

/* Eight cards are twice four, but not on islands of four, two and two. */
static void those_that_are_joined_are_not_only_counted(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_fleet_card cards[8] = { 0 };
	struct rf_fleet_node v = { .cpu_milli = 64000, .memory = 640 * GI, .pods = 100, .cards = cards, .n_cards = 8 };
	struct rf_gang g = gang(3, 3);
	uint32_t node;

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		cards[i] = (struct rf_fleet_card){ .memory = 80 * GI, .healthy = true, .island = (uint8_t)(i < 4 ? 0 : i / 2) };
	assert_int_equal(rf_fleet_put_node(f, RF_FLEET_NONE, &v, &node, NULL), 0);
	all_ask(3, whole(1, 4));
	assert_int_equal(rf_gang_most(f, &g), 2);
	for (size_t i = 0; i < 3; i++)
		asks[i].parts[0].one_island = true;
	assert_int_equal(rf_gang_most(f, &g), 1);
}

/* Shares, several owners, undone exactly. */
static void a_failed_gang_leaves_no_trace(void **state)
{
	uint64_t first = seed();

	(void)state;
	for (uint64_t run = 0; run < 300; run++) {
		rf_auto_ptr(fleet) f = rf_fleet_new();
		struct rf_gang g;
		struct rf_fleet_place p, q;
		struct rf_fleet_ask probe = share(9, 300);
		uint64_t version, hold;
		size_t n = 2 + draw(30), got, most;
		bool could;

		rand_state = first + run;
		for (size_t i = 0; i < 4; i++)
			add(f, 4);
		for (size_t i = 0; i < 10; i++) {
			struct rf_fleet_ask a = draw(2) ? share(1 + draw(3), 100 + draw(500)) : whole(1 + draw(3), 1);

			if (rf_fleet_find(f, &a, &p))
				assert_int_equal(rf_fleet_take(f, &a, &p, false, &hold, NULL), 0);
		}
		for (size_t i = 0; i < n; i++)
			asks[i] = draw(3) ? share(4, 250 * (1 + draw(3))) : whole(4, 1 + draw(2));
		g = gang(n, n);
		version = rf_fleet_version(f, &probe);
		could = rf_fleet_find(f, &probe, &p);
		most = rf_gang_most(f, &g); /* nor does a look */
		assert_true(rf_fleet_audit(f, NULL));
		assert_int_equal(rf_fleet_version(f, &probe), version);
		got = rf_gang_take(f, &g, places, holds);
		assert_true(rf_fleet_audit(f, NULL));
		if (got > 0)
			continue;
		assert_true(most < n);
		assert_int_equal(rf_fleet_version(f, &probe), version);
		assert_int_equal(rf_fleet_find(f, &probe, &q), could);
		if (could)
			assert_true(p.node == q.node && p.grants[0].card == q.grants[0].card);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_members_or_none),
		cmocka_unit_test(members_above_the_minimum_come_as_far_as_there_is_room),
		cmocka_unit_test(with_no_minimum_none_is_an_answer),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(large_members_come_first_whatever_the_order_is),
		cmocka_unit_test(who_found_no_place_comes_first_the_next_time),
		cmocka_unit_test(all_members_are_in_one_domain),
		cmocka_unit_test(the_smallest_domain_that_does_is_taken),
		cmocka_unit_test(a_gang_that_runs_somewhere_grows_there),
		cmocka_unit_test(hooks_keep_members_apart_and_hear_of_what_is_undone),
		cmocka_unit_test(a_member_that_may_go_nowhere_stops_the_gang),
		cmocka_unit_test(two_thousand_cards_at_once),
		cmocka_unit_test(agrees_with_a_slow_search),
		cmocka_unit_test(it_is_known_how_many_would_find_places),
		cmocka_unit_test(those_that_are_joined_are_not_only_counted),
		cmocka_unit_test(a_failed_gang_leaves_no_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
