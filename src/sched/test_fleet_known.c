/* What is kept of why nodes do not do (fleet_known.c) says the same as asking every node. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sched/fleet_private.h"

#define GI (INT64_C(1) << 30)
#define NODES 150 /* in three blocks, the last not full */
#define HOLDS 400
#define STEPS 3000

struct bench {
	struct rf_fleet *f;
	struct rf_prng r;
	uint64_t holds[HOLDS];
	uint32_t class[3];
};

static uint64_t below(struct bench *b, uint64_t n)
{
	return rf_prng_below(&b->r, n);
}

static void put_node(struct bench *b, uint32_t node)
{
	struct rf_fleet_card cards[8] = { 0 };
	size_t n = below(b, 9);
	struct rf_fleet_node v = { .cpu_milli = 8000 + 8000 * (int64_t)below(b, 4),
				   .memory = (int64_t)(32 + 32 * below(b, 4)) * GI,
				   .pods = (int64_t)below(b, 12),
				   .cards = cards,
				   .n_cards = n,
				   .rack = below(b, 3) == 0 ? RF_STR_EMPTY : RF_LIT("r1") };
	struct rf_err err;
	uint32_t at;

	for (size_t i = 0; i < n; i++)
		cards[i] = (struct rf_fleet_card){ .memory = 80 * GI, .model = (uint8_t)(node % 2), .healthy = below(b, 8) != 0,
						   .numa = (uint8_t)(i / 4), .island = (uint8_t)(i / 2) };
	assert_int_equal(rf_fleet_put_node(b->f, node, &v, &at, &err), 0);
}

static struct rf_fleet_ask random_ask(struct bench *b)
{
	static const enum rf_isolation levels[] = { RF_ISOLATION_RACK, RF_ISOLATION_NODE, RF_ISOLATION_GPU, RF_ISOLATION_SHARE,
						    RF_ISOLATION_NUMA, RF_ISOLATION_NVLINK };
	struct rf_fleet_ask ask = { .owner = { .tenant = 1 + (uint32_t)below(b, 3), .trust = 1, .level = levels[below(b, RF_COUNT(levels))] },
				    .cpu_milli = 2000 * (int64_t)below(b, 10),
				    .memory = (int64_t)(16 * below(b, 10)) * GI,
				    .models = below(b, 4),
				    .class = b->class[below(b, 3)],
				    .may_kept = (uint16_t)below(b, 4),
				    .n_parts = below(b, 5) != 0 };

	ask.parts[0] = below(b, 2) ? (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = (uint8_t)(1 + below(b, 9)), .one_island = below(b, 3) == 0 } :
				     (struct rf_fleet_part){ .kind = RF_FLEET_SHARE, .n = 1, .bytes = (int64_t)(20 + 30 * below(b, 3)) * GI, .milli = 300 };
	return ask;
}

/* --- asking every node ------------------------------------------------------------------------ */

static void check_why(struct bench *b, const struct rf_fleet_ask *ask)
{
	uint32_t want[RF_FLEET_UNFITS] = { 0 }, got[RF_FLEET_UNFITS];

	for (uint32_t i = 0; i < b->f->nodes.n; i++) {
		if (b->f->nodes.at[i].there)
			want[rf_fleet_why_on(b->f, i, ask)]++;
	}
	rf_fleet_why(b->f, ask, got);
	assert_memory_equal(got, want, sizeof(want));
}

static void check_most(struct bench *b, const struct rf_fleet_ask *ask)
{
	struct rf_fleet_most want = { 0 }, got;

	for (uint32_t i = 0; i < b->f->nodes.n; i++) {
		const struct node *n = &b->f->nodes.at[i];

		if (!n->there || n->cordoned || fl_kept(n, ask) || !fl_in_class(b->f, ask->class, i) || !fl_node_open(n, &ask->owner))
			continue;
		want.nodes++;
		want.cpu_milli = RF_MAX(want.cpu_milli, n->cpu_left);
		want.memory = RF_MAX(want.memory, n->memory_left);
		want.pods = RF_MAX(want.pods, n->pods_left);
		fl_most_of_cards(b->f, n, ask, &want);
	}
	rf_fleet_most(b->f, ask, &got);
	assert_memory_equal(&got, &want, sizeof(want));
}

static void check(struct bench *b, const struct rf_fleet_ask *ask)
{
	check_why(b, ask);
	check_most(b, ask);
}

/* --- what happens ------------------------------------------------------------------------------ */

static void take(struct bench *b)
{
	struct rf_fleet_place at;
	struct rf_fleet_ask ask = random_ask(b);
	uint64_t *hold = &b->holds[below(b, HOLDS)];
	struct rf_err err;

	if (*hold != 0)
		assert_true(rf_fleet_give(b->f, *hold));
	*hold = 0;
	if (rf_fleet_find(b->f, &ask, &at))
		assert_int_equal(rf_fleet_take(b->f, &ask, &at, false, hold, &err), 0);
}

static void scrub(struct bench *b, uint32_t node)
{
	for (unsigned i = 0; i < b->f->nodes.at[node].n_cards; i++)
		rf_fleet_scrubbed(b->f, node, i, 0xff);
}

static void any_event(struct bench *b)
{
	uint32_t node = (uint32_t)below(b, NODES);

	switch (below(b, 12)) {
	case 0:
		rf_fleet_set_cordoned(b->f, node, below(b, 3) == 0);
		break;
	case 1:
		rf_fleet_set_kept(b->f, node, (uint16_t)below(b, 3));
		break;
	case 2:
		rf_fleet_class_set(b->f, b->class[1 + below(b, 2)], node, below(b, 2));
		break;
	case 3:
		if (b->f->nodes.at[node].n_cards > 0)
			rf_fleet_set_healthy(b->f, node, (unsigned)below(b, b->f->nodes.at[node].n_cards), below(b, 3) != 0);
		break;
	case 4:
		scrub(b, node);
		break;
	default:
		take(b);
	}
}

/* Events inside a mark are seen there, and gone after it. */
static void pretend(struct bench *b, const struct rf_fleet_ask *asks, size_t n)
{
	size_t mark = rf_fleet_mark(b->f);
	struct rf_err err;

	for (size_t i = 0; i < n; i++) {
		struct rf_fleet_place at;

		if (rf_fleet_find(b->f, &asks[i], &at))
			assert_int_equal(rf_fleet_take(b->f, &asks[i], &at, false, NULL, &err), 0);
		rf_fleet_set_cordoned(b->f, (uint32_t)below(b, NODES), true);
		check(b, &asks[i]);
	}
	rf_fleet_rollback(b->f, mark);
	for (size_t i = 0; i < n; i++)
		check(b, &asks[i]);
}

static void test_says_what_every_node_says(void **state)
{
	struct bench b = { .f = rf_fleet_new(), .r = { .state = 11 } };
	struct rf_fleet_ask asks[4];

	(void)state;
	for (uint32_t i = 0; i < NODES; i++)
		put_node(&b, RF_FLEET_NONE);
	b.class[1] = rf_fleet_class_new(b.f);
	b.class[2] = rf_fleet_class_new(b.f);
	for (uint32_t i = 0; i < NODES; i++) {
		rf_fleet_class_set(b.f, b.class[1], i, true);
		rf_fleet_class_set(b.f, b.class[2], i, i % 7 == 0);
	}
	for (size_t i = 0; i < RF_COUNT(asks); i++)
		asks[i] = random_ask(&b);
	for (int step = 0; step < STEPS; step++) {
		for (uint64_t k = below(&b, 4); k > 0; k--)
			any_event(&b);
		asks[step % 4].cpu_milli = 2000 * (int64_t)below(&b, 10); /* the same kind, another size */
		if (step % 16 == 0)
			asks[below(&b, 4)] = random_ask(&b);
		check(&b, &asks[step % 4]);
		if (step % 64 == 0)
			pretend(&b, asks, RF_COUNT(asks));
		if (step % 500 == 499)
			put_node(&b, (uint32_t)below(&b, NODES)); /* other cards, another size */
	}
	rf_fleet_free(b.f);
}

/* More kinds than are kept. */
static void test_kinds_that_are_forgotten(void **state)
{
	struct bench b = { .f = rf_fleet_new(), .r = { .state = 5 } };
	struct rf_fleet_ask ask = { .owner = { .tenant = 1, .trust = 1, .level = RF_ISOLATION_SHARE }, .n_parts = 1 };

	(void)state;
	for (uint32_t i = 0; i < NODES; i++)
		put_node(&b, RF_FLEET_NONE);
	b.class[1] = b.class[2] = rf_fleet_class_new(b.f);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 200; i++) {
			ask.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_SHARE, .n = 1, .bytes = GI + i * (GI / 4), .milli = 100 };
			check(&b, &ask);
			any_event(&b);
		}
	}
	rf_fleet_free(b.f);
}

/* Who asks the same again after nothing changed looks at no node, and after one changed at one. */
static void test_only_what_changed_is_looked_at(void **state)
{
	struct bench b = { .f = rf_fleet_new(), .r = { .state = 7 } };
	struct rf_fleet_ask ask = { .owner = { .tenant = 1, .trust = 1, .level = RF_ISOLATION_SHARE }, .n_parts = 1 };
	uint32_t counts[RF_FLEET_UNFITS];
	uint64_t looks;

	(void)state;
	for (uint32_t i = 0; i < NODES; i++)
		put_node(&b, RF_FLEET_NONE);
	ask.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = 2 };
	rf_fleet_why(b.f, &ask, counts);
	looks = rf_fleet_looks(b.f);
	ask.memory = 16 * GI;
	rf_fleet_why(b.f, &ask, counts);
	assert_int_equal(rf_fleet_looks(b.f), looks);
	rf_fleet_set_cordoned(b.f, 77, true);
	rf_fleet_why(b.f, &ask, counts);
	assert_int_equal(rf_fleet_looks(b.f), looks + 1);
	rf_fleet_free(b.f);
}

/* What is known for one tenant is for all that have left nothing anywhere; who has sees its own cards with other eyes. */
static void test_what_is_known_is_for_all_tenants(void **state)
{
	struct bench b = { .f = rf_fleet_new(), .r = { .state = 7 } };
	struct rf_fleet_ask ask = { .owner = { .tenant = 1, .trust = 1, .level = RF_ISOLATION_SHARE }, .n_parts = 1 };
	uint32_t counts[RF_FLEET_UNFITS];
	struct rf_fleet_place at;
	struct rf_err err;
	uint64_t looks, hold;

	(void)state;
	for (uint32_t i = 0; i < NODES; i++)
		put_node(&b, RF_FLEET_NONE);
	ask.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = 1 };
	rf_fleet_why(b.f, &ask, counts);
	looks = rf_fleet_looks(b.f);
	ask.owner.tenant = 2;
	check(&b, &ask);
	assert_int_equal(rf_fleet_looks(b.f), looks);
	assert_true(rf_fleet_find(b.f, &ask, &at));
	assert_int_equal(rf_fleet_take(b.f, &ask, &at, false, &hold, &err), 0);
	assert_true(rf_fleet_give(b.f, hold)); /* nobody but the second may have that card now */
	check(&b, &ask);
	assert_true(rf_fleet_looks(b.f) > looks + 1);
	ask.owner.tenant = 1;
	check(&b, &ask);
	ask.owner.level = RF_ISOLATION_NODE;
	looks = rf_fleet_looks(b.f);
	check(&b, &ask);
	assert_int_equal(rf_fleet_looks(b.f), looks + NODES);
	rf_fleet_free(b.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_says_what_every_node_says),
		cmocka_unit_test(test_kinds_that_are_forgotten),
		cmocka_unit_test(test_only_what_changed_is_looked_at),
		cmocka_unit_test(test_what_is_known_is_for_all_tenants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
