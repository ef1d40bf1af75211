/* The fleet: places, books, undoing, and that the fast find and a slow one agree. The random streams print
 * their seed; RF_SEED=n repeats a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/fleet_private.h"

#define GI (INT64_C(1) << 30)
#define CARDS 8

enum { T4, A100, H100, B200, MODELS };
static const int64_t MEMORY[MODELS] = { 16 * GI, 80 * GI, 80 * GI, 180 * GI };
enum { P_1G, P_1G_ME, P_1G_DOUBLE, P_2G, P_3G, P_4G, P_7G };

static struct rf_fleet *new_fleet(void)
{
	static const char *const KEYS[] = { [A100] = "A100", [H100] = "H100", [B200] = "B200" };
	struct rf_fleet *f = rf_fleet_new();

	for (unsigned m = A100; m < MODELS; m++) {
		const struct rf_gpu_model *g = rf_gpu_model_by_key(KEYS[m]);

		rf_fleet_set_model(f, m, g->mig, g->n_mig);
	}
	return f;
}

/* --- small worlds ----------------------------------------------------------------------------- */

static uint32_t add(struct rf_fleet *f, int64_t cpu, unsigned n, unsigned model)
{
	struct rf_fleet_card cards[RF_FLEET_CARDS_MAX] = { 0 };
	struct rf_fleet_node v = { .cpu_milli = cpu, .memory = 64 * GI, .pods = 100, .cards = cards, .n_cards = n };
	uint32_t node = RF_FLEET_NONE;

	for (unsigned i = 0; i < n; i++)
		cards[i] = (struct rf_fleet_card){ .memory = MEMORY[model],
						   .model = (uint8_t)model,
						   .island = (uint8_t)(i / 4),
						   .numa = (uint8_t)(i / 4),
						   .healthy = true };
	assert_int_equal(rf_fleet_put_node(f, RF_FLEET_NONE, &v, &node, NULL), 0);
	return node;
}

static struct rf_fleet_ask ask_by(uint32_t tenant, enum rf_isolation level)
{
	return (struct rf_fleet_ask){ .owner = { .tenant = tenant, .trust = 1, .level = level }, .cpu_milli = 1000 };
}

static struct rf_fleet_ask whole(uint32_t tenant, unsigned n)
{
	struct rf_fleet_ask a = ask_by(tenant, RF_ISOLATION_GPU);

	a.n_parts = 1;
	a.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = (uint8_t)n };
	return a;
}

static struct rf_fleet_ask share(uint32_t tenant, int64_t bytes, int64_t milli)
{
	struct rf_fleet_ask a = ask_by(tenant, RF_ISOLATION_SHARE);

	a.n_parts = 1;
	a.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_SHARE, .n = 1, .bytes = bytes, .milli = milli };
	return a;
}

static struct rf_fleet_ask slice(uint32_t tenant, unsigned profile)
{
	struct rf_fleet_ask a = ask_by(tenant, RF_ISOLATION_SLICE);

	a.n_parts = 1;
	a.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_SLICE, .n = 1, .profile = (uint8_t)profile };
	return a;
}

static bool find(struct rf_fleet *f, const struct rf_fleet_ask *a, struct rf_fleet_place *ret)
{
	return rf_fleet_find(f, a, ret);
}

static uint64_t take(struct rf_fleet *f, const struct rf_fleet_ask *a, struct rf_fleet_place *ret)
{
	struct rf_err err = RF_ERR_INIT;
	uint64_t hold = 0;

	assert_true(find(f, a, ret));
	if (rf_fleet_take(f, a, ret, false, &hold, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(rf_fleet_audit(f, NULL));
	return hold;
}

static bool fits(struct rf_fleet *f, const struct rf_fleet_ask *a)
{
	struct rf_fleet_place p;

	return find(f, a, &p);
}

static uint32_t why(struct rf_fleet *f, const struct rf_fleet_ask *a, enum rf_fleet_unfit reason)
{
	uint32_t counts[RF_FLEET_UNFITS];

	rf_fleet_why(f, a, counts);
	return counts[reason];
}

/* --- room ------------------------------------------------------------------------------------- */

static void a_tenth_and_two_tenths_are_three_tenths(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask tenth = share(1, 0, 100), two = share(1, 0, 200), rest = share(1, 0, 700);
	struct rf_fleet_ask more = share(1, 0, 1);
	struct rf_fleet_place p;

	add(f, 64000, 1, T4);
	take(f, &tenth, &p);
	take(f, &two, &p);
	take(f, &rest, &p);
	assert_int_equal(p.grants[0].milli, 700);
	assert_false(fits(f, &more));
	assert_int_equal(why(f, &more, RF_FLEET_TAKEN), 1);
}

/* What is asked of cards leaves so many untouched, in whichever kind; what is held already may be used further. */
static void cards_are_left_untouched(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask asks[] = { whole(1, 1), whole(1, 2), share(1, GI, 100), slice(1, P_1G), share(1, GI, 100) };
	struct rf_fleet_leave leave[RF_COUNT(asks)] = { 0 };
	struct rf_fleet_place p;
	struct rf_err err;
	uint64_t hold;

	asks[4].n_parts = 2;
	asks[4].parts[1] = (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = 1 };
	add(f, 64000, 3, H100);
	for (unsigned i = 0; i < RF_COUNT(asks); i++) {
		int64_t needs = i == 1 || i == 4 ? 2 : 1;

		asks[i].leave = &leave[i];
		leave[i].cards = 3 - needs;
		assert_true(find(f, &asks[i], &p));
		leave[i].cards++;
		assert_false(fits(f, &asks[i]));
		assert_int_equal(rf_fleet_take(f, &asks[i], &p, false, &hold, &err), -RF_CONFLICT);
		assert_int_equal(why(f, &asks[i], RF_FLEET_UNLENT), 1);
		assert_int_equal(rf_fleet_why_on(f, 0, &asks[i]), RF_FLEET_UNLENT);
	}
	leave[2].cards = 2;
	take(f, &asks[2], &p);
	assert_int_equal(rf_fleet_untouched(f), 2);
	take(f, &asks[2], &p);
	assert_int_equal(rf_fleet_untouched(f), 2);
	assert_int_equal(why(f, &asks[2], RF_FLEET_FITS), 1);
	leave[4].cards = 1; /* the share beside the others, the card first */
	take(f, &asks[4], &p);
	assert_int_equal(rf_fleet_untouched(f), 1);
	leave[3].cards = 1;
	assert_false(fits(f, &asks[3]));
}

static void a_share_needs_both_bytes_and_compute(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask most = share(1, 15 * GI, 100), bytes = share(1, 2 * GI, 0), milli = share(1, 0, 901);
	struct rf_fleet_ask both = share(1, GI, 900);
	struct rf_fleet_place p;

	add(f, 64000, 1, T4);
	take(f, &most, &p);
	assert_false(fits(f, &bytes));
	assert_false(fits(f, &milli));
	assert_true(fits(f, &both));
}

static void whole_cards_stay_in_one_island_where_they_can(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask one = whole(1, 1), four = whole(1, 4), three = whole(1, 3);
	struct rf_fleet_place p;

	add(f, 64000, 8, H100);
	take(f, &one, &p);
	assert_int_equal(p.grants[0].card, 0);
	take(f, &four, &p); /* not 1, 2, 3 and 4 */
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(p.grants[i].card, 4 + i);
	take(f, &one, &p);
	three.parts[0].one_island = true;
	assert_false(fits(f, &three));
	three.parts[0].n = 2;
	assert_true(fits(f, &three));
}

static void an_island_that_is_asked_for_is_not_pieced_together(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask five = whole(1, 5);
	struct rf_fleet_place p;

	add(f, 64000, 8, H100);
	five.parts[0].one_island = true;
	assert_false(fits(f, &five));
	five.parts[0].one_island = false;
	assert_true(find(f, &five, &p));
	assert_int_equal(p.n, 5);
}

static void cpu_memory_and_pods_count(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 1);
	struct rf_fleet_place p;

	add(f, 2000, 4, T4);
	take(f, &a, &p);
	a.memory = 64 * GI;
	take(f, &a, &p);
	assert_false(fits(f, &a));
	assert_int_equal(why(f, &a, RF_FLEET_NO_CPU), 1);
	a.cpu_milli = 0;
	assert_int_equal(why(f, &a, RF_FLEET_NO_MEMORY), 1);
	a.memory = 0;
	assert_true(fits(f, &a));
	a.cpu_milli = 2001;
	assert_int_equal(why(f, &a, RF_FLEET_TOO_SMALL), 1);
}

static void models_and_classes_are_honoured(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 1);
	struct rf_fleet_place p;
	uint32_t t4 = add(f, 64000, 2, T4), h100 = add(f, 64000, 2, H100), class = rf_fleet_class_new(f);

	a.models = 1u << H100 | 1u << A100;
	take(f, &a, &p);
	assert_int_equal(p.node, h100);
	a.class = class;
	assert_false(fits(f, &a));
	assert_int_equal(why(f, &a, RF_FLEET_NOT_IN_CLASS), 2);
	rf_fleet_class_set(f, class, t4, true);
	assert_false(fits(f, &a));
	assert_int_equal(why(f, &a, RF_FLEET_NO_MODEL), 1);
	a.models = 0;
	take(f, &a, &p);
	assert_int_equal(p.node, t4);
	rf_fleet_class_set(f, class, t4, false);
	assert_false(fits(f, &a));
}

static void several_shares_are_packed_even_where_greed_fails(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = share(1, 0, 0);
	struct rf_fleet_place p;

	/* 600 + 400 and 500 + 300 + 200: largest first on the fullest card finds no place for the last one. */
	add(f, 64000, 2, T4);
	a.n_parts = 5;
	for (unsigned i = 0; i < 5; i++) {
		static const int64_t MILLI[] = { 500, 300, 600, 400, 200 };

		a.parts[i] = (struct rf_fleet_part){ .kind = RF_FLEET_SHARE, .n = 1, .milli = MILLI[i] };
	}
	take(f, &a, &p);
	assert_int_equal(p.n, 5);
	a.parts[0].milli = 1;
	a.n_parts = 1;
	assert_false(fits(f, &a));
}

static void mixed_requests_and_shares_apart(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = share(1, 0, 100);
	struct rf_fleet_place p;

	add(f, 64000, 4, H100);
	a.parts[0].n = 2;
	a.parts[0].apart = true;
	a.parts[1] = (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = 1 };
	a.parts[2] = (struct rf_fleet_part){ .kind = RF_FLEET_SLICE, .n = 1, .profile = P_3G };
	a.n_parts = 3;
	take(f, &a, &p);
	assert_int_equal(p.n, 4);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(p.grants[i].card, p.grants[k].card);
}

/* --- slices ----------------------------------------------------------------------------------- */

static void slices_obey_the_geometry(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a4 = slice(1, P_4G), a3 = slice(1, P_3G), a1 = slice(1, P_1G), me = slice(1, P_1G_ME);
	struct rf_fleet_place p;
	uint64_t hold;

	add(f, 64000, 1, H100);
	hold = take(f, &a4, &p);
	assert_int_equal(p.grants[0].start, 0);
	take(f, &a3, &p);
	assert_int_equal(p.grants[0].start, 4);
	assert_false(fits(f, &a1)); /* all seven compute slices are gone */
	assert_true(rf_fleet_give(f, hold));
	rf_fleet_scrubbed(f, 0, 0, 0xff);
	take(f, &me, &p);
	assert_false(fits(f, &me)); /* there is one media extension per card */
	assert_true(fits(f, &a1));
	assert_false(fits(f, &a4));
}

static void a_small_slice_leaves_room_for_a_large_one(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a1 = slice(1, P_1G), a4 = slice(1, P_4G);
	struct rf_fleet_place p;

	add(f, 64000, 1, A100);
	for (unsigned i = 0; i < 3; i++) {
		take(f, &a1, &p);
		assert_true(p.grants[0].start >= 4);
	}
	assert_true(fits(f, &a4));
}

static void a_card_is_held_in_one_way_at_a_time(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask s = share(1, GI, 0), m = slice(1, P_1G), w = whole(1, 1);
	struct rf_fleet_place p;
	uint64_t hold;

	add(f, 64000, 1, A100);
	hold = take(f, &s, &p);
	assert_false(fits(f, &m));
	assert_false(fits(f, &w));
	rf_fleet_give(f, hold);
	hold = take(f, &m, &p);
	assert_false(fits(f, &s));
	assert_false(fits(f, &w));
	rf_fleet_give(f, hold);
	take(f, &w, &p);
	assert_false(fits(f, &s));
	assert_false(fits(f, &m));
}

static void a_model_without_slices_has_none(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask m = slice(1, P_1G);

	add(f, 64000, 1, T4);
	assert_false(fits(f, &m));
	assert_int_equal(why(f, &m, RF_FLEET_TOO_SMALL), 1);
}

/* --- tenants ---------------------------------------------------------------------------------- */

static void who_wants_a_node_alone_is_alone(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask alone = whole(1, 1), other = whole(2, 1), cluster = ask_by(0, RF_ISOLATION_GPU);
	struct rf_fleet_place p;

	alone.owner.level = RF_ISOLATION_NODE;
	cluster.owner.system = true;
	add(f, 64000, 4, T4);
	take(f, &cluster, &p);
	take(f, &alone, &p);
	take(f, &alone, &p);
	assert_false(fits(f, &other));
	assert_int_equal(why(f, &other, RF_FLEET_ISOLATION), 1);
	assert_true(fits(f, &cluster));
	add(f, 64000, 4, T4);
	take(f, &other, &p);
	assert_int_equal(p.node, 1);
	take(f, &alone, &p);
	assert_int_equal(p.node, 0);
}

static uint32_t add_in(struct rf_fleet *f, unsigned n, const char *rack)
{
	struct rf_fleet_card cards[RF_FLEET_CARDS_MAX] = { 0 };
	struct rf_fleet_node v = { .cpu_milli = 64000, .memory = 64 * GI, .pods = 100, .cards = cards, .n_cards = n,
				   .rack = rf_str(rack) };
	uint32_t node = RF_FLEET_NONE;

	for (unsigned i = 0; i < n; i++)
		cards[i] = (struct rf_fleet_card){ .memory = MEMORY[T4], .model = T4, .healthy = true };
	assert_int_equal(rf_fleet_put_node(f, RF_FLEET_NONE, &v, &node, NULL), 0);
	return node;
}

static void who_wants_a_rack_alone_is_alone(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask alone = whole(1, 1), other = whole(2, 1), cluster = ask_by(0, RF_ISOLATION_GPU);
	struct rf_fleet_place p;
	uint64_t held, version;

	alone.owner.level = RF_ISOLATION_RACK;
	cluster.owner.system = true;
	add_in(f, 2, NULL);
	assert_false(fits(f, &alone)); /* in no rack: nobody can say who else is in it */
	assert_int_equal(why(f, &alone, RF_FLEET_NO_RACK), 1);
	add_in(f, 2, "r1");
	add_in(f, 2, "r1");
	take(f, &alone, &p);
	assert_int_equal(p.node, 1);
	take(f, &other, &p);
	assert_int_equal(p.node, 0);
	take(f, &other, &p);
	assert_false(fits(f, &other)); /* not on the other machine of the rack either */
	assert_int_equal(why(f, &other, RF_FLEET_ISOLATION), 2);
	assert_true(fits(f, &cluster));
	take(f, &alone, &p);
	held = take(f, &alone, &p);
	assert_int_equal(p.node, 2);
	add_in(f, 2, "r2");
	take(f, &other, &p);
	assert_int_equal(p.node, 3);
	take(f, &alone, &p);
	assert_false(fits(f, &alone)); /* a card is left in r2, with somebody else in that rack */
	version = rf_fleet_version(f, &alone);
	assert_true(rf_fleet_give(f, held));
	assert_true(rf_fleet_version(f, &alone) != version);
	assert_true(fits(f, &alone));
}

static void a_rack_is_free_when_the_last_of_it_left(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask alone = whole(1, 1), other = whole(2, 1);
	struct rf_fleet_place p;
	uint64_t first, second, version;
	size_t mark;

	alone.owner.level = RF_ISOLATION_RACK;
	add_in(f, 1, "r1");
	add_in(f, 1, "r1");
	add_in(f, 1, "r1");
	first = take(f, &alone, &p);
	second = take(f, &alone, &p);
	mark = rf_fleet_mark(f);
	assert_true(rf_fleet_lift(f, first));
	assert_false(fits(f, &other));
	assert_true(rf_fleet_lift(f, second));
	assert_true(fits(f, &other));
	rf_fleet_rollback(f, mark);
	assert_false(fits(f, &other));
	assert_true(rf_fleet_give(f, first));
	version = rf_fleet_version(f, &other);
	assert_false(fits(f, &other));
	assert_true(rf_fleet_give(f, second));
	assert_true(rf_fleet_version(f, &other) != version);
	take(f, &other, &p);
	assert_int_equal(p.node, 2); /* the others are not scrubbed */
	assert_false(fits(f, &alone));
	/* The tenant accepts less, and more again, where it is. */
	rf_fleet_regrade(f, 2, 1, RF_ISOLATION_RACK);
	assert_true(rf_fleet_audit(f, NULL));
	alone.owner.level = RF_ISOLATION_GPU;
	rf_fleet_scrubbed(f, 0, 0, 0xff);
	assert_false(fits(f, &alone));
	rf_fleet_regrade(f, 2, 1, RF_ISOLATION_GPU);
	assert_true(fits(f, &alone));
}

static void a_machine_that_is_moved_takes_its_pods_to_another_rack(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask alone = ask_by(1, RF_ISOLATION_RACK), other = ask_by(2, RF_ISOLATION_GPU);
	struct rf_fleet_node v = { .cpu_milli = 64000, .memory = 64 * GI, .pods = 100, .rack = RF_LIT("r2") };
	struct rf_fleet_place p;
	uint32_t node;
	uint64_t hold;

	add_in(f, 0, "r1");
	add_in(f, 0, "r1");
	add_in(f, 0, "r2");
	hold = take(f, &alone, &p);
	assert_int_equal(p.node, 0);
	take(f, &other, &p);
	assert_int_equal(p.node, 2);
	assert_int_equal(rf_fleet_put_node(f, 0, &v, &node, NULL), 0);
	assert_true(rf_fleet_audit(f, NULL));
	assert_true(fits(f, &alone)); /* in r1, which is empty now */
	take(f, &other, &p);
	assert_int_equal(p.node, 1);
	assert_false(fits(f, &alone));
	rf_fleet_del_node(f, 0);
	assert_int_equal(why(f, &other, RF_FLEET_ISOLATION), 1); /* r2: what is held there still counts */
	assert_true(rf_fleet_give(f, hold));
	assert_int_equal(why(f, &other, RF_FLEET_ISOLATION), 0);
	assert_true(rf_fleet_audit(f, NULL));
}

/* --- groups of cards -------------------------------------------------------------------------- */

/* Four cards to a NUMA node, two to an island; those from `known` on do not say where they are. */
static uint32_t add_grouped(struct rf_fleet *f, uint32_t node, unsigned n, unsigned known)
{
	struct rf_fleet_card cards[RF_FLEET_CARDS_MAX] = { 0 };
	struct rf_fleet_node v = { .cpu_milli = 64000, .memory = 64 * GI, .pods = 100, .cards = cards, .n_cards = n };

	for (unsigned i = 0; i < n; i++)
		cards[i] = (struct rf_fleet_card){ .memory = MEMORY[A100],
						   .model = A100,
						   .island = (uint8_t)(i < known ? i / 2 : 255 - i),
						   .numa = (uint8_t)(i < known ? i / 4 : RF_FLEET_NUMA_UNKNOWN),
						   .healthy = true };
	assert_int_equal(rf_fleet_put_node(f, node, &v, &node, NULL), 0);
	return node;
}

static struct rf_fleet_ask minding(uint32_t tenant, enum rf_isolation level)
{
	struct rf_fleet_ask a = whole(tenant, 1);

	a.owner.level = level;
	return a;
}

/* As a fact that was told: this card, whoever is beside it. */
static uint64_t sit(struct rf_fleet *f, const struct rf_fleet_ask *a, unsigned card)
{
	struct rf_fleet_place at = { .n = 1, .grants = { { .card = (uint8_t)card, .kind = (uint8_t)a->parts[0].kind,
							   .bytes = a->parts[0].bytes, .milli = a->parts[0].milli,
							   .profile = a->parts[0].profile } } };
	uint64_t hold;

	assert_int_equal(rf_fleet_take(f, a, &at, true, &hold, NULL), 0);
	assert_true(rf_fleet_audit(f, NULL));
	return hold;
}

/* The cards of node 0 that it would be given, one at a time, a bit each. */
static uint64_t open_to(struct rf_fleet *f, const struct rf_fleet_ask *a)
{
	size_t mark = rf_fleet_mark(f);
	uint64_t cards = 0;
	struct rf_fleet_place p;

	while (find(f, a, &p)) {
		assert_int_equal(rf_fleet_take(f, a, &p, false, NULL, NULL), 0);
		cards |= (uint64_t)1 << p.grants[0].card;
	}
	assert_true(rf_fleet_audit(f, NULL));
	rf_fleet_rollback(f, mark);
	assert_int_equal(rf_fleet_room_on(f, 0, a), __builtin_popcountll(cards));
	return cards;
}

static void who_shares_no_numa_node_has_its_own(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask numa = minding(1, RF_ISOLATION_NUMA), other = whole(2, 1), two = whole(2, 2), cpu = ask_by(2, RF_ISOLATION_GPU);
	struct rf_fleet_ask cluster = whole(0, 1), link = minding(3, RF_ISOLATION_NVLINK);
	struct rf_fleet_most most;
	uint64_t held;

	cluster.owner.system = true;
	add_grouped(f, RF_FLEET_NONE, 8, 8);
	held = sit(f, &numa, 1);
	assert_int_equal(open_to(f, &numa), 0xfd);
	assert_int_equal(open_to(f, &other), 0xf0);
	assert_int_equal(open_to(f, &link), 0xf0);
	assert_int_equal(open_to(f, &cluster), 0xfd); /* the cluster's own meets everybody */
	assert_true(fits(f, &cpu)); /* and without a card there is nobody to meet */
	rf_fleet_most(f, &other, &most);
	assert_int_equal(most.cards, 4);
	two.parts[0].n = 5;
	assert_int_equal(why(f, &two, RF_FLEET_NUMA), 1);
	/* The other side: it stays out where others are. */
	sit(f, &other, 6);
	assert_int_equal(open_to(f, &numa), 0x0d);
	assert_true(rf_fleet_give(f, held));
	assert_int_equal(open_to(f, &numa), 0x0f);
	assert_int_equal(open_to(f, &other), 0xbd); /* all that are free and clean */
	sit(f, &other, 3);
	assert_int_equal(open_to(f, &numa), 0);
	assert_int_equal(why(f, &numa, RF_FLEET_NUMA), 1);
}

static void who_shares_no_island_has_its_own(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask link = minding(1, RF_ISOLATION_NVLINK), other = whole(2, 1), numa = minding(3, RF_ISOLATION_NUMA);
	struct rf_fleet_ask some = share(4, GI, 0), cut = slice(5, P_1G), strict = minding(6, RF_ISOLATION_NVLINK);
	struct rf_fleet_place at = { .n = 1, .grants = { { .card = 1, .kind = RF_FLEET_WHOLE } } };

	add_grouped(f, RF_FLEET_NONE, 8, 8);
	sit(f, &link, 0);
	assert_int_equal(open_to(f, &other), 0xfc);
	assert_int_equal(open_to(f, &numa), 0xf0); /* the one beside it on its NUMA node is a stranger */
	assert_int_equal(open_to(f, &strict), 0xfc);
	assert_int_equal(rf_fleet_take(f, &other, &at, false, NULL, NULL), -RF_CONFLICT);
	assert_int_equal(rf_fleet_take(f, &link, &at, false, NULL, NULL), 0);
	/* Strangers of every kind are strangers. */
	sit(f, &some, 2);
	sit(f, &cut, 4);
	assert_int_equal(open_to(f, &strict), 0xc0);
	assert_int_equal(open_to(f, &link), 0xc0);
	assert_int_equal(open_to(f, &numa), 0);
	assert_int_equal(why(f, &numa, RF_FLEET_NUMA), 1);
	sit(f, &other, 6);
	assert_int_equal(why(f, &strict, RF_FLEET_NVLINK), 1);
	assert_int_equal(why(f, &other, RF_FLEET_FITS), 1); /* 3, 5 and 7 */
}

static void a_card_that_does_not_say_where_it_is_is_beside_all(void **state)
{
	static const enum rf_isolation LEVELS[] = { RF_ISOLATION_NUMA, RF_ISOLATION_NVLINK };

	for (size_t i = 0; i < RF_COUNT(LEVELS); i++) {
		rf_auto_ptr(fleet) f = new_fleet();
		struct rf_fleet_ask alone = minding(1, LEVELS[i]), other = whole(2, 1);
		uint64_t hold, own = i == 0 ? 0x0f : 0x03;

		add_grouped(f, RF_FLEET_NONE, 8, 7);
		hold = sit(f, &alone, 0);
		assert_int_equal(open_to(f, &other), 0x7f & ~own); /* nor the last one, which could be anywhere */
		assert_true(rf_fleet_give(f, hold));
		rf_fleet_scrubbed(f, 0, 0, 0xff);
		hold = sit(f, &alone, 7);
		assert_int_equal(open_to(f, &other), 0);
		assert_int_equal(open_to(f, &alone), 0x7f);
		assert_true(rf_fleet_give(f, hold));
		rf_fleet_scrubbed(f, 0, 7, 0xff);
		hold = sit(f, &other, 7);
		assert_int_equal(open_to(f, &alone), 0);
		assert_int_equal(open_to(f, &other), 0x7f);
		/* Then the agent says where it is. */
		add_grouped(f, 0, 8, 8);
		assert_true(rf_fleet_audit(f, NULL));
		assert_int_equal(open_to(f, &alone), i == 0 ? 0x0f : 0x3f);
	}
}

static void groups_follow_who_comes_goes_and_changes_its_mind(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask numa = minding(1, RF_ISOLATION_NUMA), other = whole(2, 1), five = whole(2, 5);
	uint64_t first, second, version;
	size_t mark;

	add_grouped(f, RF_FLEET_NONE, 8, 8);
	first = sit(f, &numa, 0);
	second = sit(f, &numa, 4);
	assert_int_equal(open_to(f, &other), 0);
	mark = rf_fleet_mark(f);
	assert_true(rf_fleet_lift(f, first));
	assert_int_equal(open_to(f, &other), 0x0f);
	assert_true(rf_fleet_lift(f, second));
	assert_int_equal(open_to(f, &other), 0xff);
	assert_true(rf_fleet_unlift(f, first));
	assert_int_equal(open_to(f, &other), 0xf0);
	rf_fleet_rollback(f, mark);
	assert_int_equal(open_to(f, &other), 0);
	version = rf_fleet_version(f, &other);
	assert_true(rf_fleet_give(f, first)); /* until it is scrubbed, its card is nobody else's */
	assert_true(rf_fleet_version(f, &other) != version);
	assert_int_equal(open_to(f, &other), 0x0e);
	rf_fleet_scrubbed(f, 0, 0, 0xff);
	assert_int_equal(open_to(f, &other), 0x0f);
	assert_int_equal(why(f, &five, RF_FLEET_NUMA), 1);
	/* It minds less, and then the other way round. */
	rf_fleet_regrade(f, 1, 1, RF_ISOLATION_NVLINK);
	assert_true(rf_fleet_audit(f, NULL));
	assert_int_equal(open_to(f, &other), 0xcf);
	rf_fleet_regrade(f, 1, 1, RF_ISOLATION_GPU);
	assert_int_equal(open_to(f, &other), 0xef);
	sit(f, &other, 5);
	rf_fleet_regrade(f, 2, 1, RF_ISOLATION_NVLINK);
	numa.owner.level = RF_ISOLATION_GPU;
	assert_int_equal(open_to(f, &numa), 0xcf);
	assert_true(rf_fleet_audit(f, NULL));
}

static void shares_meet_inside_their_trust_domain_only(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = share(1, GI, 0), b = share(2, GI, 0), c = share(3, GI, 0), d = share(4, GI, 0);
	struct rf_fleet_place p;

	c.owner.trust = 2;
	d.owner.level = RF_ISOLATION_GPU;
	add(f, 64000, 1, T4);
	take(f, &a, &p);
	take(f, &b, &p);
	assert_false(fits(f, &c));
	assert_int_equal(why(f, &c, RF_FLEET_ISOLATION), 1);
	assert_false(fits(f, &d));
	rf_fleet_regrade(f, 1, 2, RF_ISOLATION_SHARE);
	assert_true(rf_fleet_audit(f, NULL));
	assert_false(fits(f, &b)); /* two domains on it: nobody may join */
	rf_fleet_regrade(f, 2, 2, RF_ISOLATION_SHARE);
	assert_true(fits(f, &c));
}

static void slices_meet_who_accepts_slices(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = slice(1, P_1G), strict = slice(2, P_1G), third = slice(3, P_1G);
	struct rf_fleet_place p;

	strict.owner.level = RF_ISOLATION_GPU;
	third.owner.trust = 9; /* slices are walls of hardware */
	add(f, 64000, 2, A100);
	take(f, &a, &p);
	assert_int_equal(p.grants[0].card, 0);
	take(f, &strict, &p);
	assert_int_equal(p.grants[0].card, 1);
	take(f, &third, &p);
	assert_int_equal(p.grants[0].card, 0);
	take(f, &strict, &p);
	assert_int_equal(p.grants[0].card, 1);
}

static void a_card_changes_hands_only_after_it_was_scrubbed(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 1), b = whole(2, 1), nobody = whole(0, 1);
	struct rf_fleet_place p;
	uint64_t hold, before;

	add(f, 64000, 1, T4);
	hold = take(f, &a, &p);
	rf_fleet_give(f, hold);
	assert_false(fits(f, &b));
	assert_int_equal(why(f, &b, RF_FLEET_UNSCRUBBED), 1);
	assert_true(fits(f, &a)); /* what is in it is its own */
	before = rf_fleet_version(f, &b);
	rf_fleet_scrubbed(f, 0, 0, 0x0f);
	assert_false(fits(f, &b));
	rf_fleet_scrubbed(f, 0, 0, 0xff);
	assert_true(rf_fleet_version(f, &b) > before);
	assert_true(fits(f, &b));
	hold = take(f, &nobody, &p);
	rf_fleet_give(f, hold);
	assert_false(fits(f, &nobody)); /* nobody's may be anybody's */
}

static void a_share_that_leaves_is_scrubbed_before_others_join(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = share(1, GI, 0), b = share(2, GI, 0);
	struct rf_fleet_place p;
	uint64_t hold;

	add(f, 64000, 1, T4);
	hold = take(f, &a, &p);
	take(f, &a, &p);
	rf_fleet_give(f, hold);
	assert_false(fits(f, &b));
	assert_true(fits(f, &a));
	rf_fleet_scrubbed(f, 0, 0, 0xff);
	assert_true(fits(f, &b));
}

static void a_slice_is_scrubbed_on_its_own(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = slice(1, P_3G), b = slice(2, P_3G);
	struct rf_fleet_place p;
	uint64_t first, second;

	add(f, 64000, 1, A100);
	first = take(f, &a, &p);
	second = take(f, &a, &p);
	assert_int_equal(p.grants[0].start, 0);
	rf_fleet_give(f, first);
	assert_false(fits(f, &b));
	assert_true(fits(f, &a));
	rf_fleet_scrubbed(f, 0, 0, 0xf0);
	take(f, &b, &p);
	assert_int_equal(p.grants[0].start, 4);
	rf_fleet_give(f, second);
	assert_false(fits(f, &b));
}

/* --- taking and undoing ----------------------------------------------------------------------- */

static void a_place_is_taken_once(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 1);
	struct rf_err err = RF_ERR_INIT;
	struct rf_fleet_place p;
	uint64_t hold;

	add(f, 64000, 2, T4);
	assert_true(find(f, &a, &p));
	assert_int_equal(rf_fleet_take(f, &a, &p, false, &hold, &err), 0);
	assert_int_equal(rf_fleet_take(f, &a, &p, false, NULL, &err), -RF_CONFLICT);
	assert_int_equal(rf_fleet_take(f, &a, &p, true, NULL, &err), -RF_CONFLICT);
	assert_true(rf_fleet_give(f, hold));
	assert_false(rf_fleet_give(f, hold));
	assert_false(rf_fleet_give(f, 12345));
	p.grants[0].card = 7;
	assert_int_equal(rf_fleet_take(f, &a, &p, true, NULL, &err), -RF_CONFLICT);
	p.node = 99;
	assert_int_equal(rf_fleet_take(f, &a, &p, true, NULL, &err), -RF_CONFLICT);
	assert_true(rf_fleet_audit(f, NULL));
}

static void a_place_must_be_what_was_asked_for(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 2), s = share(1, GI, 0);
	struct rf_fleet_place p;

	add(f, 64000, 4, T4);
	assert_true(find(f, &a, &p));
	p.n = 1;
	assert_int_equal(rf_fleet_take(f, &a, &p, false, NULL, NULL), -RF_CONFLICT);
	assert_true(find(f, &s, &p));
	p.grants[0].bytes = 1;
	assert_int_equal(rf_fleet_take(f, &s, &p, false, NULL, NULL), -RF_CONFLICT);
	rf_fleet_set_healthy(f, 0, 0, false);
	p.grants[0].bytes = GI;
	assert_int_equal(rf_fleet_take(f, &s, &p, false, NULL, NULL), -RF_CONFLICT);
}

static void facts_count_however_full(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = share(1, 15 * GI, 0), b = share(2, 15 * GI, 0), none = ask_by(1, RF_ISOLATION_GPU);
	struct rf_fleet_place p;
	uint64_t first, second;

	b.owner.trust = 7;
	add(f, 1000, 1, T4);
	assert_true(find(f, &a, &p));
	assert_int_equal(rf_fleet_take(f, &a, &p, true, &first, NULL), 0);
	assert_int_equal(rf_fleet_take(f, &b, &p, true, &second, NULL), 0);
	assert_true(rf_fleet_audit(f, NULL));
	assert_false(fits(f, &none));
	none.cpu_milli = 0;
	assert_true(fits(f, &none));
	rf_fleet_give(f, first);
	assert_true(rf_fleet_audit(f, NULL));
	b.cpu_milli = 0;
	b.parts[0].bytes = GI;
	rf_fleet_scrubbed(f, 0, 0, 0xff);
	assert_true(fits(f, &b)); /* alone on the card again, and in its own domain */
	rf_fleet_give(f, second);
	assert_true(rf_fleet_audit(f, NULL));
}

static void a_rollback_leaves_no_trace(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 1), b = whole(2, 2);
	struct rf_fleet_place p, before, after;
	uint64_t hold, version;
	size_t outer, inner;

	add(f, 64000, 2, T4);
	add(f, 64000, 2, T4);
	hold = take(f, &a, &before);
	take(f, &b, &p);
	version = rf_fleet_version(f, &b);
	outer = rf_fleet_mark(f);
	assert_true(rf_fleet_give(f, hold));
	assert_false(fits(f, &b));
	inner = rf_fleet_mark(f);
	rf_fleet_scrubbed(f, before.node, before.grants[0].card, 0xff);
	take(f, &b, &p);
	rf_fleet_rollback(f, inner);
	assert_false(fits(f, &b));
	inner = rf_fleet_mark(f);
	rf_fleet_set_cordoned(f, before.node, true);
	rf_fleet_set_healthy(f, before.node, 0, false);
	rf_fleet_keep(f, inner);
	rf_fleet_rollback(f, outer);
	assert_true(rf_fleet_audit(f, NULL));
	assert_int_equal(rf_fleet_version(f, &b), version);
	take(f, &a, &after);
	assert_int_equal(after.node, before.node);
	assert_int_equal(after.grants[0].card, 1);
	assert_true(rf_fleet_give(f, hold)); /* its number is the old one */
}

static void a_kept_plan_stands(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 1);
	struct rf_fleet_usage u;
	struct rf_fleet_place p;
	uint64_t hold, holds[2];
	size_t mark;

	add(f, 64000, 2, T4);
	hold = take(f, &a, &p);
	mark = rf_fleet_mark(f);
	rf_fleet_give(f, hold);
	take(f, &a, &p);
	take(f, &a, &p);
	rf_fleet_keep(f, mark);
	rf_fleet_usage(f, &u);
	assert_int_equal(u.holds, 2);
	assert_int_equal(rf_fleet_holds(f, 0, holds, 1), 2);
	assert_true(rf_fleet_give(f, holds[0]));
	assert_int_equal(rf_fleet_holds(f, 0, holds, 2), 1);
	assert_int_equal(u.milli, 2000);
	assert_false(rf_fleet_give(f, hold));
	assert_true(rf_fleet_audit(f, NULL));
}

static void a_refused_request_need_not_be_tried_again(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask t4 = whole(1, 1), h100 = whole(1, 1);
	struct rf_fleet_place p;
	uint64_t version, hold;

	t4.models = 1u << T4;
	h100.models = 1u << H100;
	add(f, 64000, 1, T4);
	add(f, 64000, 1, H100);
	hold = take(f, &h100, &p);
	take(f, &t4, &p);
	version = rf_fleet_version(f, &t4);
	rf_fleet_give(f, hold);
	assert_int_equal(rf_fleet_version(f, &t4), version);
	assert_false(fits(f, &t4));
	add(f, 64000, 1, T4);
	assert_true(rf_fleet_version(f, &t4) > version);
	assert_true(fits(f, &t4));
}

static void a_node_that_goes_is_forgotten_with_its_last_hold(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 1);
	struct rf_fleet_place p;
	uint64_t hold;

	add(f, 64000, 2, T4);
	hold = take(f, &a, &p);
	rf_fleet_del_node(f, 0);
	assert_false(fits(f, &a));
	assert_int_equal(add(f, 64000, 1, H100), 1);
	assert_true(rf_fleet_give(f, hold));
	assert_int_equal(add(f, 64000, 1, A100), 0);
	assert_true(rf_fleet_audit(f, NULL));
	take(f, &a, &p);
}

static void a_node_may_shrink_under_its_holds(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_card card = { .memory = 16 * GI, .model = T4, .healthy = true };
	struct rf_fleet_node v = { .cpu_milli = 1000, .memory = GI, .pods = 1, .cards = &card, .n_cards = 1 };
	struct rf_fleet_ask two = whole(1, 2), one = whole(1, 1);
	struct rf_fleet_place p;
	uint64_t hold;

	add(f, 64000, 2, T4);
	hold = take(f, &two, &p);
	assert_int_equal(rf_fleet_put_node(f, 0, &v, NULL, NULL), 0);
	assert_true(rf_fleet_audit(f, NULL));
	assert_false(fits(f, &one));
	rf_fleet_give(f, hold);
	assert_true(fits(f, &one));
	assert_false(fits(f, &two));
	v.n_cards = 65;
	assert_int_equal(rf_fleet_put_node(f, 0, &v, NULL, NULL), -RF_INVALID);
}

static void senseless_requests_fit_nowhere(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 0), s = share(1, 0, 0), m = slice(1, 9), n = whole(1, 65), c = whole(1, 1);

	c.cpu_milli = -1;
	add(f, 64000, 8, H100);
	assert_int_equal(rf_fleet_check(&a, NULL), -RF_INVALID);
	assert_int_equal(rf_fleet_check(&s, NULL), -RF_INVALID);
	assert_int_equal(rf_fleet_check(&m, NULL), -RF_INVALID);
	assert_int_equal(rf_fleet_check(&n, NULL), -RF_INVALID);
	assert_int_equal(rf_fleet_check(&c, NULL), -RF_INVALID);
	assert_false(fits(f, &a) || fits(f, &s) || fits(f, &m) || fits(f, &n) || fits(f, &c));
}

/* --- choosing --------------------------------------------------------------------------------- */

static void policies_choose_differently(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = whole(1, 1), none = ask_by(1, RF_ISOLATION_GPU);
	struct rf_fleet_place p;

	add(f, 64000, 4, T4);
	add(f, 64000, 2, T4);
	add(f, 64000, 0, T4);
	a.policy = none.policy = RF_FLEET_PACK;
	take(f, &a, &p);
	assert_int_equal(p.node, 1);
	take(f, &none, &p);
	assert_int_equal(p.node, 2);
	a.policy = RF_FLEET_SPREAD;
	take(f, &a, &p);
	assert_int_equal(p.node, 0);
	a.policy = RF_FLEET_FIRST;
	take(f, &a, &p);
	assert_int_equal(p.node, 0);
}

static uint32_t add_pooled(struct rf_fleet *f, unsigned n, enum rf_fleet_policy policy)
{
	struct rf_fleet_card cards[RF_FLEET_CARDS_MAX] = { 0 };
	struct rf_fleet_node v = { .cpu_milli = 64000, .memory = 64 * GI, .pods = 100, .cards = cards, .n_cards = n,
				   .pooled = true, .policy = policy };
	uint32_t node = RF_FLEET_NONE;

	for (unsigned i = 0; i < n; i++)
		cards[i] = (struct rf_fleet_card){ .memory = MEMORY[T4], .model = T4, .healthy = true };
	assert_int_equal(rf_fleet_put_node(f, RF_FLEET_NONE, &v, &node, NULL), 0);
	return node;
}

static void a_pool_has_its_own_policy(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask a = share(1, 0, 100), spread = a, packed = a, none = ask_by(1, RF_ISOLATION_GPU);
	struct rf_fleet_place p;

	spread.class = rf_fleet_class_new(f);
	packed.class = rf_fleet_class_new(f);
	for (unsigned i = 0; i < 4; i++) {
		add_pooled(f, 2, i < 2 ? RF_FLEET_SPREAD : RF_FLEET_PACK);
		rf_fleet_class_set(f, i < 2 ? spread.class : packed.class, i, true);
	}
	take(f, &spread, &p);
	assert_int_equal(p.node, 0);
	take(f, &spread, &p);
	assert_int_equal(p.node, 1);
	take(f, &packed, &p);
	assert_int_equal(p.node, 2);
	take(f, &packed, &p);
	assert_int_equal(p.node, 2);
	assert_int_equal(p.grants[0].card, 0);
	/* Who may go to both goes where it is packed; and who needs no card, where there is none. */
	take(f, &a, &p);
	assert_int_equal(p.node, 2);
	add_pooled(f, 0, RF_FLEET_SPREAD);
	take(f, &none, &p);
	assert_int_equal(p.node, 4);
}

/* With one kind of request, or none known, the score by fragments packs. */
static void one_kind_of_request_is_packed(void **state)
{
	static const int64_t MILLI[] = { 100, 300, 350, 450, 500 };

	for (unsigned known = 0; known < 2; known++) {
		for (unsigned i = 0; i < RF_COUNT(MILLI); i++) {
			rf_auto_ptr(fleet) f = new_fleet();
			struct rf_fleet_ask a = share(1, 0, MILLI[i]), one = whole(1, 1), none = ask_by(1, RF_ISOLATION_GPU);
			struct rf_fleet_place p, q;

			add(f, 64000, 4, T4);
			add(f, 64000, 4, T4);
			add(f, 64000, 0, T4);
			take(f, &one, &p); /* the other machine stays whole */
			if (known) {
				rf_fleet_asked(f, &a, 1);
				rf_fleet_typical(f);
			}
			take(f, &a, &p);
			assert_int_equal(p.node, 0);
			for (int64_t n = 2; n <= RF_FLEET_MILLI / MILLI[i]; n++) {
				take(f, &a, &q);
				assert_int_equal(q.node, p.node);
				assert_int_equal(q.grants[0].card, p.grants[0].card);
			}
			take(f, &one, &q);
			assert_int_equal(q.node, 0);
			take(f, &none, &q);
			assert_int_equal(q.node, 2);
		}
	}
}

/* What was said is what counts, in whatever order and pieces. */
static void usual_is_a_sum(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	rf_auto_ptr(fleet) g = new_fleet();
	struct rf_fleet_ask a = share(1, 0, 300), b = whole(2, 4), c = share(3, 0, 700);

	add(f, 64000, 4, T4);
	add(g, 64000, 4, T4);
	for (unsigned i = 0; i < 3; i++)
		rf_fleet_asked(f, &a, 10);
	rf_fleet_asked(f, &b, 7);
	rf_fleet_asked(f, &c, 1);
	rf_fleet_typical(f);
	rf_fleet_asked(g, &c, 1);
	rf_fleet_asked(g, &b, 7);
	rf_fleet_asked(g, &a, 30);
	rf_fleet_typical(g);
	assert_int_equal(f->n_typicals, 3);
	assert_memory_equal(f->typicals, g->typicals, sizeof(f->typicals));
	assert_memory_equal(f->needs, g->needs, sizeof(f->needs));
	/* Nearly the same is no news, something else is. */
	rf_fleet_asked(g, &a, 31);
	rf_fleet_asked(g, &b, 7);
	rf_fleet_asked(g, &c, 1);
	rf_fleet_typical(g);
	assert_int_equal(g->epoch, f->epoch);
	rf_fleet_asked(g, &b, 1);
	rf_fleet_typical(g);
	assert_int_equal(g->n_typicals, 1);
	assert_int_equal(g->epoch, f->epoch + 1);
	rf_fleet_typical(g);
	assert_int_equal(g->n_typicals, 0);
}

static void cpu_is_left_where_cards_are_free(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask usual = whole(1, 1), greedy = ask_by(1, RF_ISOLATION_GPU);
	struct rf_fleet_place p;

	/* The usual request needs 8 CPUs per card. The first node has just that; the second CPU to spare. */
	usual.cpu_milli = 8000;
	greedy.cpu_milli = 32000;
	add(f, 64000, 8, T4);
	add(f, 64000, 4, T4);
	rf_fleet_asked(f, &usual, 100);
	rf_fleet_typical(f);
	take(f, &greedy, &p);
	assert_int_equal(p.node, 1);
}

static void what_is_usual_is_left_room_for(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	struct rf_fleet_ask big = whole(1, 4), small = share(1, 0, 500);
	struct rf_fleet_place p;

	/* Where large requests are usual, a small one does not break up a free node. */
	add(f, 64000, 4, T4);
	add(f, 64000, 4, T4);
	rf_fleet_asked(f, &big, 1);
	rf_fleet_typical(f);
	take(f, &small, &p);
	take(f, &small, &p);
	assert_int_equal(p.node, 0);
	assert_true(fits(f, &big));
}

/* Where each asks for something else, they are still summed up, and it does not matter who came first. */
static void many_kinds_are_looked_at_less_closely(void **state)
{
	rf_auto_ptr(fleet) f = new_fleet();
	rf_auto_ptr(fleet) g = new_fleet();
	int64_t weight = 0;

	add(f, 64000, 4, T4);
	add(g, 64000, 4, T4);
	for (unsigned i = 0; i < 5000; i++) {
		struct rf_fleet_ask a = whole(1, 1 + i % 2), b = whole(1, 1 + (4999 - i) % 2);

		a.cpu_milli = 4000 + i;
		b.cpu_milli = 4000 + 4999 - i;
		rf_fleet_asked(f, &a, 1);
		rf_fleet_asked(g, &b, 1);
	}
	rf_fleet_typical(f);
	rf_fleet_typical(g);
	assert_true(f->n_typicals >= 4 && f->n_typicals <= 32);
	assert_memory_equal(f->typicals, g->typicals, sizeof(f->typicals));
	for (size_t i = 0; i < f->n_typicals; i++) {
		assert_true(f->typicals[i].cpu >= 4000 && f->typicals[i].cpu <= 16384);
		weight += f->typicals[i].weight;
	}
	assert_in_range(weight, WEIGHTS - 64, WEIGHTS);
}

/* --- random streams --------------------------------------------------------------------------- */

#define NODES 40
#define HOLDS 400
#define TENANTS 8
#define REFUSED 32
#define RACKS 5
#define USUAL 16 /* requests that come again and again */

struct record { /* what the test itself knows of a hold */
	bool live;
	uint64_t hold;
	struct rf_fleet_ask ask;
	struct rf_fleet_place at;
};

#define UNKNOWN UINT32_MAX

struct world {
	struct rf_fleet *f;
	struct rf_prng r;
	uint32_t class;
	bool in_class[NODES], cordoned[NODES], healthy[NODES][CARDS];
	int64_t cpu[NODES], memory[NODES], pods[NODES];
	unsigned n_cards[NODES], model[NODES][CARDS], flags[NODES][CARDS]; /* 1: sliced, 2: fixed */
	unsigned numa[NODES][CARDS], island[NODES][CARDS]; /* UNKNOWN: nobody says */
	unsigned rack[NODES]; /* 0: none */
	uint32_t dirt[NODES][CARDS][8];
	struct record holds[HOLDS];
	uint32_t trust[TENANTS];
	enum rf_isolation level[TENANTS];
	struct rf_fleet_ask usual[USUAL];
	struct rf_fleet_ask refused[REFUSED];
	uint64_t version[REFUSED]; /* when it was; 0: none */
	struct rf_arena *leaves;
};

static uint64_t below(struct world *w, uint64_t n)
{
	return rf_prng_below(&w->r, n);
}

/* As the records have it, in whatever pool. */
static void tell_node(struct world *w, unsigned i, uint32_t handle)
{
	static const char *const NAMES[RACKS] = { NULL, "r1", "r2", "r3", "r4" };
	struct rf_fleet_card cards[CARDS] = { 0 };
	struct rf_fleet_node v = { .cpu_milli = w->cpu[i],
				   .memory = w->memory[i],
				   .pods = w->pods[i],
				   .cards = cards,
				   .n_cards = w->n_cards[i],
				   .cordoned = w->cordoned[i],
				   .rack = rf_str(NAMES[w->rack[i]]),
				   .pooled = below(w, 3) == 0,
				   .policy = (enum rf_fleet_policy)below(w, 4) };
	uint32_t node;

	for (unsigned k = 0; k < w->n_cards[i]; k++)
		cards[k] = (struct rf_fleet_card){ .memory = MEMORY[w->model[i][k]],
						   .model = (uint8_t)w->model[i][k],
						   .island = (uint8_t)(w->island[i][k] == UNKNOWN ? 255 - k : w->island[i][k]),
						   .numa = w->numa[i][k] == UNKNOWN ? RF_FLEET_NUMA_UNKNOWN : (uint8_t)w->numa[i][k],
						   .healthy = w->healthy[i][k],
						   .sliced = w->flags[i][k] == 1,
						   .fixed = w->flags[i][k] == 2 };
	assert_int_equal(rf_fleet_put_node(w->f, handle, &v, &node, NULL), 0);
	assert_int_equal(node, i);
}

static void place_card(struct world *w, unsigned node, unsigned card)
{
	w->numa[node][card] = below(w, 12) == 0 ? UNKNOWN : card / 4;
	w->island[node][card] = below(w, 12) == 0 ? UNKNOWN : card / 2;
}

static void put_random_node(struct world *w, unsigned i, bool alike)
{
	unsigned model;

	if (alike) /* as every node before */
		w->r.state = 4711;
	model = (unsigned)below(w, MODELS);
	w->cpu[i] = (int64_t)(8 + below(w, 9) * 8) * 1000;
	w->memory[i] = (int64_t)(16 + below(w, 64)) * GI;
	w->pods[i] = (int64_t)(3 + below(w, 30));
	w->n_cards[i] = (unsigned)below(w, CARDS + 1);
	w->rack[i] = i % RACKS;
	for (unsigned k = 0; k < w->n_cards[i]; k++) {
		w->model[i][k] = below(w, 10) == 0 ? (unsigned)below(w, MODELS) : model;
		w->flags[i][k] = below(w, 8) == 0 ? 1 + (unsigned)below(w, 2) : 0;
		w->healthy[i][k] = true;
		place_card(w, i, k);
	}
	tell_node(w, i, RF_FLEET_NONE);
}

static struct rf_fleet_part random_part(struct world *w)
{
	struct rf_fleet_part p = { .n = 1 };

	switch (below(w, 4)) {
	case 0:
		p.kind = RF_FLEET_WHOLE;
		p.n = (uint8_t)(1 + below(w, 4));
		p.one_island = below(w, 3) == 0;
		break;
	case 1:
		p.kind = RF_FLEET_SLICE;
		p.profile = (uint8_t)below(w, 7);
		break;
	default:
		p.kind = RF_FLEET_SHARE;
		p.bytes = (int64_t)below(w, 4) * 4 * GI;
		p.milli = (int64_t)(1 + below(w, 9)) * 100;
	}
	if (below(w, 6) == 0) {
		p.n = (uint8_t)(1 + below(w, 3));
		p.apart = p.kind == RF_FLEET_SHARE && below(w, 2);
	}
	return p;
}

/* Of all cards, and now and then of a model, of slices and of shares. */
static const struct rf_fleet_leave *random_leave(struct world *w)
{
	struct rf_fleet_leave *l = rf_arena_array(w->leaves, struct rf_fleet_leave, 1);
	struct rf_fleet_leave_share *s = rf_arena_array(w->leaves, struct rf_fleet_leave_share, 2);

	l->cards = RF_MAX(rf_fleet_untouched(w->f) + 1 - (int64_t)below(w, 5), 0);
	if (below(w, 3) > 0)
		return l;
	l->cards = 0;
	for (unsigned m = 0; m < MODELS; m++)
		l->of_model[m] = below(w, 3) ? 0 : (int64_t)below(w, 4);
	for (unsigned m = 0; m < MODELS; m++)
		l->models |= (uint64_t)(l->of_model[m] > 0) << m;
	for (unsigned k = 0; k < 7 && below(w, 2); k++) {
		l->slices[k] = (int64_t)below(w, 12);
		l->kinds |= (uint64_t)(l->slices[k] > 0) << k;
	}
	for (; l->n_shares < below(w, 3); l->n_shares++)
		s[l->n_shares] = (struct rf_fleet_leave_share){ (uint32_t)l->n_shares, (int64_t)below(w, 8) * 16 * GI, (int64_t)below(w, 3) * 500 };
	l->shares = s;
	return l;
}

static struct rf_fleet_ask random_ask(struct world *w)
{
	struct rf_fleet_ask a = { .cpu_milli = (int64_t)below(w, 5) * 1000,
				  .memory = (int64_t)below(w, 3) * GI,
				  .policy = (enum rf_fleet_policy)below(w, 4) };
	uint32_t tenant = (uint32_t)below(w, TENANTS);

	a.owner = (struct rf_fleet_owner){ .tenant = tenant, .trust = w->trust[tenant], .level = w->level[tenant] };
	a.owner.system = tenant == 0 && below(w, 4) == 0;
	a.models = below(w, 2) ? 0 : 1 + below(w, 15);
	a.class = below(w, 4) == 0 ? w->class : 0;
	a.n_parts = (uint8_t)(below(w, 8) == 0 ? 2 : below(w, 8) > 0);
	for (unsigned i = 0; i < a.n_parts; i++)
		a.parts[i] = random_part(w);
	if (below(w, 4) == 0)
		a.leave = random_leave(w);
	return a;
}

/* The slow way, over all nodes. */
static bool slow_find(struct world *w, const struct rf_fleet_ask *a, struct rf_fleet_place *ret)
{
	struct rf_fleet_place p;
	bool found = false;

	for (uint32_t i = 0; i < NODES; i++) {
		if (!rf_fleet_find_on(w->f, i, a, &p) || (found && p.score >= ret->score))
			continue;
		*ret = p;
		found = true;
	}
	return found;
}

/* --- promises, from the test's own records ---------------------------------------------------- */

static bool may_share(const struct rf_fleet_owner *o)
{
	return o->tenant != 0 && o->level >= RF_ISOLATION_SHARE;
}

static void check_node_meeting(const struct rf_fleet_owner *a, const struct rf_fleet_owner *b)
{
	if (a->tenant == b->tenant || a->system || b->system)
		return;
	assert_true(a->level > RF_ISOLATION_NODE && b->level > RF_ISOLATION_NODE);
}

/* Are these two in one rack, and one of them wants it for itself? */
static bool rack_parts(const struct world *w, const struct rf_fleet_owner *a, uint32_t at, const struct rf_fleet_owner *b,
		       uint32_t other)
{
	return w->rack[at] != 0 && w->rack[at] == w->rack[other] && a->tenant != b->tenant && !a->system && !b->system &&
	       (a->level == RF_ISOLATION_RACK || b->level == RF_ISOLATION_RACK);
}

static bool one_group(unsigned a, unsigned b)
{
	return a == b || a == UNKNOWN || b == UNKNOWN;
}

/* Does one of these two mind the other there, on another card of the node? */
static bool group_parts(const struct world *w, uint32_t node, const struct rf_fleet_owner *a, unsigned card,
			const struct rf_fleet_owner *b, unsigned other)
{
	if (a->tenant == b->tenant || a->system || b->system)
		return false;
	if ((a->level == RF_ISOLATION_NUMA || b->level == RF_ISOLATION_NUMA) &&
	    (card == other || one_group(w->numa[node][card], w->numa[node][other])))
		return true;
	return (a->level == RF_ISOLATION_NVLINK || b->level == RF_ISOLATION_NVLINK) &&
	       (card == other || one_group(w->island[node][card], w->island[node][other]));
}

static void check_card_meeting(const struct rf_fleet_owner *a, const struct rf_fleet_owner *b, unsigned kind)
{
	if (kind == RF_FLEET_SHARE)
		assert_true(may_share(a) && may_share(b) && a->trust == b->trust);
	else if (a->tenant != b->tenant || a->tenant == 0)
		assert_true(kind == RF_FLEET_SLICE && a->level >= RF_ISOLATION_SLICE &&
			    b->level >= RF_ISOLATION_SLICE);
	else
		assert_int_equal(kind, RF_FLEET_SLICE);
}

static unsigned mask_of(const struct world *w, uint32_t node, const struct rf_fleet_grant *g)
{
	static const char *const KEYS[] = { [A100] = "A100", [H100] = "H100", [B200] = "B200" };
	unsigned model = w->model[node][g->card];

	if (g->kind != RF_FLEET_SLICE)
		return 0xff;
	return ((1u << rf_gpu_model_by_key(KEYS[model])->mig[g->profile].memory_slices) - 1) << g->start;
}

static void check_pair(const struct world *w, const struct record *a, const struct record *b)
{
	if (a->at.node != b->at.node)
		return;
	check_node_meeting(&a->ask.owner, &b->ask.owner);
	for (unsigned i = 0; i < a->at.n; i++) {
		for (unsigned k = 0; k < b->at.n; k++) {
			const struct rf_fleet_grant *g = &a->at.grants[i], *h = &b->at.grants[k];

			assert_false(group_parts(w, a->at.node, &a->ask.owner, g->card, &b->ask.owner, h->card));
			if (g->card != h->card)
				continue;
			assert_int_equal(g->kind, h->kind);
			check_card_meeting(&a->ask.owner, &b->ask.owner, g->kind);
			if (g->kind == RF_FLEET_SLICE)
				assert_int_equal(mask_of(w, a->at.node, g) & mask_of(w, b->at.node, h), 0);
		}
	}
}

static bool is_touched(const struct world *w, uint32_t node, unsigned card)
{
	for (unsigned i = 0; i < HOLDS; i++)
		for (unsigned k = 0; w->holds[i].live && w->holds[i].at.node == node && k < w->holds[i].at.n; k++)
			if (w->holds[i].at.grants[k].card == card)
				return true;
	return false;
}

/* Of cards of a model that nobody is on it may touch so many; MODELS: of all. */
static int64_t may_open(const struct world *w, const struct rf_fleet_ask *a, unsigned model)
{
	int64_t n = 0, of = 0;

	for (uint32_t i = 0; i < NODES; i++)
		for (unsigned k = 0; k < w->n_cards[i]; k++) {
			n += w->flags[i][k] != 1 && !is_touched(w, i, k);
			of += w->flags[i][k] != 1 && !is_touched(w, i, k) && w->model[i][k] == model;
		}
	assert_int_equal(rf_fleet_untouched(w->f), n);
	n = a->leave == NULL ? n : RF_MAX(n - a->leave->cards, 0);
	return a->leave == NULL || model == MODELS || a->leave->of_model[model] == 0 ? n : RF_MIN(n, RF_MAX(of - a->leave->of_model[model], 0));
}

static int64_t opens(const struct world *w, const struct rf_fleet_place *p, unsigned model)
{
	uint64_t seen = 0;
	int64_t n = 0;

	for (unsigned i = 0; i < p->n; i++) {
		uint64_t card = UINT64_C(1) << p->grants[i].card;

		n += !(seen & card) && w->flags[p->node][p->grants[i].card] != 1 && !is_touched(w, p->node, p->grants[i].card) &&
		     (model == MODELS || w->model[p->node][p->grants[i].card] == model);
		seen |= card;
	}
	return n;
}

/* What was found is allowed, by the records alone. */
static void check_place(const struct world *w, const struct rf_fleet_ask *a, const struct rf_fleet_place *p)
{
	const struct record mine = { .live = true, .ask = *a, .at = *p };
	int64_t cpu = a->cpu_milli, memory = a->memory, pods = 1;
	int64_t bytes[CARDS] = { 0 }, milli[CARDS] = { 0 };

	for (unsigned m = 0; m <= MODELS; m++)
		assert_true(opens(w, p, m) == 0 || opens(w, p, m) <= may_open(w, a, m));
	assert_false(w->cordoned[p->node]);
	assert_true(a->class == 0 || w->in_class[p->node]);
	assert_true(a->owner.level != RF_ISOLATION_RACK || w->rack[p->node] != 0);
	for (unsigned i = 0; i < HOLDS; i++) {
		const struct record *h = &w->holds[i];

		assert_false(h->live && rack_parts(w, &a->owner, p->node, &h->ask.owner, h->at.node));
		if (!h->live || h->at.node != p->node)
			continue;
		check_pair(w, h, &mine);
		cpu += h->ask.cpu_milli;
		memory += h->ask.memory;
		pods++;
		for (unsigned k = 0; k < h->at.n; k++) {
			bytes[h->at.grants[k].card] += h->at.grants[k].bytes;
			milli[h->at.grants[k].card] += h->at.grants[k].milli;
		}
	}
	assert_true(a->cpu_milli == 0 || cpu <= w->cpu[p->node]);
	assert_true(a->memory == 0 || memory <= w->memory[p->node]);
	assert_true(pods <= w->pods[p->node]);
	for (unsigned i = 0; i < p->n; i++) {
		const struct rf_fleet_grant *g = &p->grants[i];
		unsigned model = w->model[p->node][g->card], flags = w->flags[p->node][g->card];

		assert_true(g->card < w->n_cards[p->node] && w->healthy[p->node][g->card]);
		assert_true(a->models == 0 || (a->models >> model & 1));
		assert_true(g->kind == RF_FLEET_SLICE ? flags != 2 && model != T4 : flags != 1);
		bytes[g->card] += g->bytes;
		milli[g->card] += g->milli;
		assert_true(bytes[g->card] <= MEMORY[model] && milli[g->card] <= 1000);
		for (unsigned e = 0; e < 8; e++)
			assert_true(!(mask_of(w, p->node, g) >> e & 1) || w->dirt[p->node][g->card][e] == 0 ||
				    (w->dirt[p->node][g->card][e] == a->owner.tenant));
	}
}

/* By the records alone: could one whole card, or one share, be had on this node? */
static bool simple_fit(const struct world *w, uint32_t node, const struct rf_fleet_ask *a)
{
	int64_t cpu = a->cpu_milli, memory = a->memory, pods = 1;
	unsigned good = 0;

	if (w->cordoned[node] || (a->class != 0 && !w->in_class[node]) ||
	    (a->owner.level == RF_ISOLATION_RACK && w->rack[node] == 0))
		return false;
	for (unsigned i = 0; i < HOLDS; i++) {
		const struct record *h = &w->holds[i];

		if (h->live && rack_parts(w, &a->owner, node, &h->ask.owner, h->at.node))
			return false;
		if (!h->live || h->at.node != node)
			continue;
		cpu += h->ask.cpu_milli;
		memory += h->ask.memory;
		pods++;
		if (!h->ask.owner.system && !a->owner.system && h->ask.owner.tenant != a->owner.tenant &&
		    (h->ask.owner.level <= RF_ISOLATION_NODE || a->owner.level <= RF_ISOLATION_NODE))
			return false;
	}
	if ((a->cpu_milli > 0 && cpu > w->cpu[node]) || (a->memory > 0 && memory > w->memory[node]) ||
	    pods > w->pods[node])
		return false;
	for (unsigned c = 0; c < w->n_cards[node]; c++) {
		const struct rf_fleet_part *p = &a->parts[0];
		int64_t bytes = p->bytes, milli = p->milli;
		bool ok = w->healthy[node][c] && w->flags[node][c] != 1 &&
			  (a->models == 0 || (a->models >> w->model[node][c] & 1));

		ok = ok && (p->kind == RF_FLEET_WHOLE || may_share(&a->owner)) &&
		     (is_touched(w, node, c) || may_open(w, a, w->model[node][c]) >= (p->kind == RF_FLEET_WHOLE ? p->n : 1));
		for (unsigned i = 0; i < HOLDS && ok; i++) {
			const struct record *h = &w->holds[i];

			for (unsigned k = 0; h->live && h->at.node == node && k < h->at.n; k++) {
				ok = ok && !group_parts(w, node, &a->owner, c, &h->ask.owner, h->at.grants[k].card);
				if (h->at.grants[k].card != c)
					continue;
				ok = ok && p->kind == RF_FLEET_SHARE && h->at.grants[k].kind == RF_FLEET_SHARE &&
				     h->ask.owner.trust == a->owner.trust && may_share(&h->ask.owner);
				bytes += h->at.grants[k].bytes;
				milli += h->at.grants[k].milli;
			}
		}
		for (unsigned e = 0; e < 8; e++)
			ok = ok && (w->dirt[node][c][e] == 0 || w->dirt[node][c][e] == a->owner.tenant);
		ok = ok && (p->kind == RF_FLEET_WHOLE || (bytes <= MEMORY[w->model[node][c]] && milli <= 1000));
		good += ok;
	}
	return good >= (a->parts[0].kind == RF_FLEET_WHOLE ? a->parts[0].n : 1u);
}

static void check_refusal(const struct world *w, const struct rf_fleet_ask *a, bool found)
{
	bool fit = false;

	if (a->n_parts != 1 || a->parts[0].kind == RF_FLEET_SLICE || a->parts[0].one_island ||
	    (a->parts[0].kind == RF_FLEET_SHARE && a->parts[0].n > 1) || (a->leave != NULL && (a->leave->kinds != 0 || a->leave->n_shares > 0)))
		return;
	for (uint32_t i = 0; i < NODES; i++)
		fit = fit || simple_fit(w, i, a);
	assert_int_equal(fit, found);
}

/* --- steps ------------------------------------------------------------------------------------ */

static void same_place(const struct rf_fleet_place *a, const struct rf_fleet_place *b)
{
	assert_int_equal(a->node, b->node);
	assert_int_equal(a->score, b->score);
	assert_int_equal(a->n, b->n);
	for (unsigned i = 0; i < a->n; i++) {
		assert_int_equal(a->grants[i].card, b->grants[i].card);
		assert_int_equal(a->grants[i].start, b->grants[i].start);
	}
}

/* What is added for cards that are opened, and for what is left on those that are used. */
static int64_t little_things(const struct world *w, const struct rf_fleet_place *p)
{
	const struct node *n = &w->f->nodes.at[p->node];
	int64_t sum = 0;
	uint64_t seen = 0;

	for (unsigned i = 0; i < p->n; i++) {
		bool opened = true;

		if (seen >> p->grants[i].card & 1)
			continue;
		seen |= (uint64_t)1 << p->grants[i].card;
		for (unsigned k = 0; k < HOLDS; k++) {
			const struct record *h = &w->holds[k];

			for (unsigned g = 0; h->live && h->at.node == p->node && g < h->at.n; g++)
				opened = opened && h->at.grants[g].card != p->grants[i].card;
		}
		sum += (opened ? (int64_t)ROOM_WEIGHT * 1250 : 0) + 8 * n->cards[p->grants[i].card].rest.free;
	}
	return sum;
}

/* The score is what the node's fragmentation then really grows by. */
static void check_score(const struct world *w, const struct rf_fleet_ask *a, const struct rf_fleet_place *p,
			const struct node *before)
{
	struct rf_fleet_ask nothing = { .owner = { .level = RF_ISOLATION_GPU, .system = true } };
	struct rf_fleet_place other;
	struct node *n = &w->f->nodes.at[p->node];
	int64_t expect;

	if (fl_policy(n, a) != RF_FLEET_FRAG || (a->n_parts == 1 && a->parts[0].kind == RF_FLEET_SLICE) ||
	    !rf_fleet_find_on(w->f, p->node, &nothing, &other))
		return;
	expect = n->frag - before->frag + n->cpu_left * 1000 / n->cpu + little_things(w, p);
	if (n->n_cards > 0)
		expect += (int64_t)before->total * ROOM_WEIGHT / n->n_cards;
	if (n->n_cards > 0 && a->n_parts == 0)
		expect += (int64_t)1 << 52;
	assert_int_equal(p->score, expect);
}

static void step_ask(struct world *w)
{
	struct rf_fleet_ask a = below(w, 3) ? w->usual[below(w, USUAL)] : random_ask(w);
	struct node before;
	struct rf_fleet_place fast, slow;
	uint32_t counts[RF_FLEET_UNFITS];
	struct record *h = NULL;
	bool found;

	if (below(w, 16) == 0) {
		for (uint64_t i = below(w, 6); i > 0; i--)
			rf_fleet_asked(w->f, &w->usual[below(w, USUAL)], below(w, 100));
		rf_fleet_typical(w->f);
	}
	found = rf_fleet_find(w->f, &a, &fast);
	assert_int_equal(found, slow_find(w, &a, &slow));
	check_refusal(w, &a, found);
	rf_fleet_why(w->f, &a, counts);
	assert_int_equal(counts[RF_FLEET_FITS] > 0, found);
	if (!found)
		return;
	same_place(&fast, &slow);
	check_place(w, &a, &fast);
	for (unsigned i = 0; i < HOLDS && h == NULL; i++)
		h = w->holds[i].live ? NULL : &w->holds[i];
	if (h == NULL)
		return;
	before = w->f->nodes.at[fast.node];
	assert_int_equal(rf_fleet_take(w->f, &a, &fast, false, &h->hold, NULL), 0);
	check_score(w, &a, &fast, &before);
	h->live = true;
	h->ask = a;
	h->at = fast;
}

static void step_give(struct world *w)
{
	struct record *h = &w->holds[below(w, HOLDS)];
	uint32_t tenant = h->ask.owner.tenant ? h->ask.owner.tenant : UINT32_MAX;

	if (!h->live)
		return;
	assert_true(rf_fleet_give(w->f, h->hold));
	h->live = false;
	for (unsigned i = 0; i < h->at.n; i++) {
		const struct rf_fleet_grant *g = &h->at.grants[i];
		uint32_t *dirt = w->dirt[h->at.node][g->card];

		for (unsigned e = 0; e < 8; e++)
			if (mask_of(w, h->at.node, g) >> e & 1)
				dirt[e] = dirt[e] == 0 || dirt[e] == tenant ? tenant : UINT32_MAX;
	}
}

static void step_card(struct world *w)
{
	unsigned node = (unsigned)below(w, NODES), card;
	uint8_t eighths = below(w, 3) == 0 ? (uint8_t)below(w, 256) : 0xff;

	if (w->n_cards[node] == 0)
		return;
	card = (unsigned)below(w, w->n_cards[node]);
	if (below(w, 3) == 0) {
		w->healthy[node][card] = below(w, 4) > 0;
		rf_fleet_set_healthy(w->f, node, card, w->healthy[node][card]);
		return;
	}
	rf_fleet_scrubbed(w->f, node, card, eighths);
	for (unsigned e = 0; e < 8; e++)
		if (eighths >> e & 1)
			w->dirt[node][card][e] = 0;
}

static void step_cordon(struct world *w)
{
	unsigned node = (unsigned)below(w, NODES);

	w->cordoned[node] = below(w, 5) == 0;
	rf_fleet_set_cordoned(w->f, node, w->cordoned[node]);
}

static void step_class(struct world *w)
{
	unsigned node = (unsigned)below(w, NODES);

	w->in_class[node] = below(w, 2);
	rf_fleet_class_set(w->f, w->class, node, w->in_class[node]);
}

/* Into another rack, or pool, with all that runs there; or another card says where it is, or does no more. */
static void step_node(struct world *w)
{
	unsigned node = (unsigned)below(w, NODES);

	if (below(w, 2))
		w->rack[node] = (unsigned)below(w, RACKS);
	if (w->n_cards[node] > 0 && below(w, 2))
		place_card(w, node, (unsigned)below(w, w->n_cards[node]));
	tell_node(w, node, node);
}

static void regrade(const struct world *w, struct rf_fleet_owner *o)
{
	o->trust = w->trust[o->tenant];
	o->level = w->level[o->tenant];
}

/* A tenant accepts something else, also where it is. */
static void step_tenant(struct world *w)
{
	uint32_t tenant = 1 + (uint32_t)below(w, TENANTS - 1);

	w->trust[tenant] = (uint32_t)below(w, 2);
	w->level[tenant] = (enum rf_isolation)below(w, RF_ISOLATION_COOPERATIVE + 1);
	rf_fleet_regrade(w->f, tenant, w->trust[tenant], w->level[tenant]);
	for (unsigned i = 0; i < HOLDS; i++)
		regrade(w, &w->holds[i].ask.owner);
	for (unsigned i = 0; i < USUAL; i++)
		regrade(w, &w->usual[i].owner);
	memset(w->version, 0, sizeof(w->version));
}

static void step(struct world *w, bool inside)
{
	if (!inside && below(w, 40) == 0)
		step_node(w);
	if (!inside && below(w, 100) == 0)
		step_tenant(w);
	switch (below(w, 16)) {
	case 0 ... 7:
		step_ask(w);
		break;
	case 8 ... 11:
		step_give(w);
		break;
	case 12 ... 13:
		step_card(w);
		break;
	case 14:
		step_cordon(w);
		break;
	default:
		if (!inside)
			step_class(w);
	}
}

/* Who was refused is refused as long as the version stands. */
static void step_refused(struct world *w)
{
	unsigned i = (unsigned)below(w, REFUSED);

	if (w->version[i] == 0 || w->version[i] != rf_fleet_version(w->f, &w->refused[i])) {
		w->refused[i] = random_ask(w);
		w->version[i] = fits(w->f, &w->refused[i]) ? 0 : rf_fleet_version(w->f, &w->refused[i]);
		return;
	}
	assert_false(fits(w->f, &w->refused[i]));
}

/* Some steps that are then undone, as if they had never been. */
static void what_if(struct world *w)
{
	struct world *before = rf_new(struct world);
	struct rf_fleet_ask probe = random_ask(w);
	uint64_t version = rf_fleet_version(w->f, &probe);
	bool found = fits(w->f, &probe), keep = below(w, 4) == 0;
	size_t mark = rf_fleet_mark(w->f);
	struct rf_prng r;

	*before = *w;
	for (unsigned i = (unsigned)below(w, 20); i > 0; i--) {
		if (below(w, 10) == 0)
			what_if(w);
		else
			step(w, true);
	}
	if (keep) {
		rf_fleet_keep(w->f, mark);
	} else {
		rf_fleet_rollback(w->f, mark);
		r = w->r;
		*w = *before;
		w->r = r;
		assert_int_equal(rf_fleet_version(w->f, &probe), version);
		assert_int_equal(fits(w->f, &probe), found);
	}
	free(before);
}

static void run_stream(uint64_t seed, unsigned steps)
{
	static struct world w;
	struct rf_arena leaves = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;

	memset(&w, 0, sizeof(w));
	w.leaves = &leaves;
	w.r.state = seed;
	w.f = new_fleet();
	for (unsigned i = 0; i < NODES; i++)
		put_random_node(&w, i, seed % 4 == 0);
	w.r.state = seed;
	w.class = rf_fleet_class_new(w.f);
	for (unsigned i = 0; i < TENANTS; i++) {
		w.trust[i] = (uint32_t)below(&w, 2);
		w.level[i] = i == 0 ? RF_ISOLATION_GPU : (enum rf_isolation)below(&w, RF_ISOLATION_COOPERATIVE + 1);
	}
	for (unsigned i = 0; i < USUAL; i++)
		w.usual[i] = random_ask(&w);
	for (unsigned i = 0; i < steps; i++) {
		step_refused(&w);
		if (below(&w, 30) == 0)
			what_if(&w);
		else
			step(&w, false);
		if (!rf_fleet_audit(w.f, &err))
			fail_msg("seed %llu, step %u: %s", (unsigned long long)seed, i, err.msg);
	}
	rf_fleet_free(w.f);
	rf_arena_done(&leaves);
}

static void random_streams(void **state)
{
	const char *given = getenv("RF_SEED");
	uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20261115;

	print_message("RF_SEED=%llu\n", (unsigned long long)seed);
	for (unsigned i = 0; i < 20; i++)
		run_stream(seed + i, 1500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tenth_and_two_tenths_are_three_tenths),
		cmocka_unit_test(a_share_needs_both_bytes_and_compute),
		cmocka_unit_test(cards_are_left_untouched),
		cmocka_unit_test(whole_cards_stay_in_one_island_where_they_can),
		cmocka_unit_test(an_island_that_is_asked_for_is_not_pieced_together),
		cmocka_unit_test(cpu_memory_and_pods_count),
		cmocka_unit_test(models_and_classes_are_honoured),
		cmocka_unit_test(several_shares_are_packed_even_where_greed_fails),
		cmocka_unit_test(mixed_requests_and_shares_apart),
		cmocka_unit_test(slices_obey_the_geometry),
		cmocka_unit_test(a_small_slice_leaves_room_for_a_large_one),
		cmocka_unit_test(a_card_is_held_in_one_way_at_a_time),
		cmocka_unit_test(a_model_without_slices_has_none),
		cmocka_unit_test(who_wants_a_node_alone_is_alone),
		cmocka_unit_test(who_wants_a_rack_alone_is_alone),
		cmocka_unit_test(a_rack_is_free_when_the_last_of_it_left),
		cmocka_unit_test(a_machine_that_is_moved_takes_its_pods_to_another_rack),
		cmocka_unit_test(who_shares_no_numa_node_has_its_own),
		cmocka_unit_test(who_shares_no_island_has_its_own),
		cmocka_unit_test(a_card_that_does_not_say_where_it_is_is_beside_all),
		cmocka_unit_test(groups_follow_who_comes_goes_and_changes_its_mind),
		cmocka_unit_test(shares_meet_inside_their_trust_domain_only),
		cmocka_unit_test(slices_meet_who_accepts_slices),
		cmocka_unit_test(a_card_changes_hands_only_after_it_was_scrubbed),
		cmocka_unit_test(a_share_that_leaves_is_scrubbed_before_others_join),
		cmocka_unit_test(a_slice_is_scrubbed_on_its_own),
		cmocka_unit_test(a_place_is_taken_once),
		cmocka_unit_test(a_place_must_be_what_was_asked_for),
		cmocka_unit_test(facts_count_however_full),
		cmocka_unit_test(a_rollback_leaves_no_trace),
		cmocka_unit_test(a_kept_plan_stands),
		cmocka_unit_test(a_refused_request_need_not_be_tried_again),
		cmocka_unit_test(a_node_that_goes_is_forgotten_with_its_last_hold),
		cmocka_unit_test(a_node_may_shrink_under_its_holds),
		cmocka_unit_test(senseless_requests_fit_nowhere),
		cmocka_unit_test(policies_choose_differently),
		cmocka_unit_test(a_pool_has_its_own_policy),
		cmocka_unit_test(one_kind_of_request_is_packed),
		cmocka_unit_test(usual_is_a_sum),
		cmocka_unit_test(cpu_is_left_where_cards_are_free),
		cmocka_unit_test(what_is_usual_is_left_room_for),
		cmocka_unit_test(many_kinds_are_looked_at_less_closely),
		cmocka_unit_test(random_streams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
