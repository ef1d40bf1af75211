/* How fast the scheduler's core decides, on one core: find and take, refusals, what-ifs. In processor time, so that
 * a busy machine does not spoil it; asking for that time is in the figures, some 0.3 us.
 *	bench_sched [nodes] */
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "sched/fleet.h"

#define GI (INT64_C(1) << 30)
#define DECISIONS_MAX 400000

enum { H100, MODELS };

static int64_t took[DECISIONS_MAX];
static size_t n_took;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void report(const char *what)
{
	int64_t sum = 0;

	for (size_t i = 0; i < n_took; i++)
		sum += took[i];
	qsort(took, n_took, sizeof(took[0]), by_size);
	printf("%-58s %7zu  %8.0f/s  p50 %6.2f us  p99 %6.2f us  worst %8.2f us\n", what, n_took,
	       (double)n_took * 1e9 / (double)sum, (double)took[n_took / 2] / 1e3,
	       (double)took[n_took * 99 / 100] / 1e3, (double)took[n_took - 1] / 1e3);
	n_took = 0;
}

static struct rf_fleet *make(unsigned nodes)
{
	const struct rf_gpu_model *model = rf_gpu_model_by_key("H100");
	struct rf_fleet_card cards[8] = { 0 };
	struct rf_fleet_node v = { .cpu_milli = 192000, .memory = 2048 * GI, .pods = 250, .cards = cards, .n_cards = 8 };
	struct rf_fleet *f = rf_fleet_new();

	rf_fleet_set_model(f, H100, model->mig, model->n_mig);
	for (unsigned i = 0; i < 8; i++)
		cards[i] = (struct rf_fleet_card){ .memory = 80 * GI, .numa = (uint8_t)(i / 4), .healthy = true };
	for (unsigned i = 0; i < nodes; i++)
		if (rf_fleet_put_node(f, RF_FLEET_NONE, &v, NULL, NULL) < 0)
			abort();
	return f;
}

static struct rf_fleet_ask whole(uint32_t tenant, unsigned n)
{
	struct rf_fleet_ask a = { .owner = { .tenant = tenant, .trust = 1, .level = RF_ISOLATION_GPU },
				  .cpu_milli = 8000 * (int64_t)n,
				  .memory = 64 * GI * (int64_t)n,
				  .n_parts = 1 };

	a.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = (uint8_t)n };
	return a;
}

/* One of 12 kinds of shares and slices. */
static struct rf_fleet_ask piece(uint32_t tenant, uint64_t kind)
{
	static const int64_t MILLI[] = { 100, 200, 250, 300, 500, 750 };
	static const uint8_t PROFILE[] = { 0, 0, 2, 3, 4, 5 };
	struct rf_fleet_ask a = { .owner = { .tenant = tenant, .trust = tenant % 4, .level = RF_ISOLATION_SHARE },
				  .cpu_milli = 1000 + (int64_t)(kind % 3) * 1000,
				  .memory = 8 * GI,
				  .n_parts = 1 };

	if (kind < 6)
		a.parts[0] = (struct rf_fleet_part){
			.kind = RF_FLEET_SHARE, .n = 1, .milli = MILLI[kind], .bytes = MILLI[kind] * 80 * GI / 1000
		};
	else
		a.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_SLICE, .n = 1, .profile = PROFILE[kind - 6] };
	return a;
}

/* The same, told of all kinds that come. */
static struct rf_fleet *make_usual(unsigned nodes)
{
	struct rf_fleet *f = make(nodes);

	for (unsigned n = 1; n <= 8; n *= 2) {
		struct rf_fleet_ask a = whole(1, n);

		rf_fleet_asked(f, &a, 3);
	}
	for (unsigned kind = 0; kind < 12; kind++) {
		struct rf_fleet_ask a = piece(1, kind);

		rf_fleet_asked(f, &a, 1);
	}
	rf_fleet_typical(f);
	return f;
}

/* Find, and take where there is a place. */
static bool decide(struct rf_fleet *f, const struct rf_fleet_ask *a, uint64_t *ret_hold)
{
	struct rf_fleet_place p RF_UNINITIALIZED;
	int64_t start = now_ns();
	bool found;

	found = rf_fleet_find(f, a, &p) && rf_fleet_take(f, a, &p, false, ret_hold, NULL) == 0;
	if (n_took < DECISIONS_MAX)
		took[n_took++] = now_ns() - start;
	return found;
}

static void give(struct rf_fleet *f, uint64_t hold)
{
	struct rf_fleet_grant grants[RF_FLEET_CARDS_MAX];
	size_t n = 0;
	uint32_t node = 0;
	const struct rf_fleet_grant *g = rf_fleet_hold(f, hold, &node, &n);

	memcpy(grants, g, n * sizeof(*g));
	rf_fleet_give(f, hold);
	for (size_t i = 0; i < n; i++)
		rf_fleet_scrubbed(f, node, grants[i].card, 0xff);
}

static void fill_with_single_cards(unsigned nodes)
{
	rf_auto_ptr(fleet) f = make_usual(nodes);
	struct rf_fleet_ask one = whole(1, 1), eight = whole(1, 8), odd = whole(1, 1);
	uint64_t hold;

	for (unsigned i = 0; i < nodes * 8; i++)
		if (!decide(f, &one, &hold))
			abort();
	report("one card each, until the cluster is full");
	for (unsigned i = 0; i < 100000; i++)
		decide(f, &one, &hold);
	report("refused: no card is free");
	for (unsigned i = 0; i < 20000; i++) {
		odd.cpu_milli = 8001 + i;
		decide(f, &odd, &hold);
	}
	report("refused: no card is free, a new kind of request each time");
	for (unsigned i = 0; i < 100000; i++)
		decide(f, i % 2 ? &one : &eight, &hold);
	report("refused: two kinds in turn");
}

static void fill_with_large(unsigned nodes)
{
	rf_auto_ptr(fleet) f = make_usual(nodes);
	static const unsigned SIZES[] = { 1, 2, 4, 8 };
	struct rf_prng r = { .state = 7 };
	uint64_t hold;

	for (;;) {
		struct rf_fleet_ask a = whole(1 + (uint32_t)rf_prng_below(&r, 200), SIZES[rf_prng_below(&r, 4)]);

		if (!decide(f, &a, &hold) && a.parts[0].n == 1)
			break;
	}
	report("1, 2, 4 or 8 cards each, 200 tenants, until full");
}

/* Shares and slices come and go; about half of the cards are free. */
static void churn_pieces(unsigned nodes, unsigned tenants, const char *what)
{
	rf_auto_ptr(fleet) f = make_usual(nodes);
	struct rf_prng r = { .state = 11 };
	size_t n = (size_t)nodes * 8;
	uint64_t *holds = calloc(n, sizeof(*holds));

	for (unsigned i = 0; i < 200000 + n; i++) {
		size_t at = i < n ? i : rf_prng_below(&r, n);
		struct rf_fleet_ask a = piece(1 + (uint32_t)rf_prng_below(&r, tenants), rf_prng_below(&r, 12));

		if (i == n)
			n_took = 0;
		if (holds[at] != 0)
			give(f, holds[at]);
		holds[at] = 0;
		decide(f, &a, &holds[at]);
	}
	report(what);
	free(holds);
}

static void new_kinds(unsigned nodes)
{
	rf_auto_ptr(fleet) f = make_usual(nodes);
	uint64_t hold;

	for (unsigned i = 0; i < 2000; i++) {
		struct rf_fleet_ask a = whole(1, 1);

		a.cpu_milli = 4000 + i;
		decide(f, &a, &hold);
	}
	report("one card each, a new kind of request each time");
}

static void gangs(unsigned nodes)
{
	rf_auto_ptr(fleet) f = make_usual(nodes);
	struct rf_fleet_ask a = whole(1, 8);
	struct rf_fleet_place p;
	unsigned members = nodes / 2;

	for (unsigned i = 0; i < 20; i++) {
		size_t mark = rf_fleet_mark(f);
		int64_t start = now_ns();

		for (unsigned k = 0; k < members; k++)
			if (!rf_fleet_find(f, &a, &p) || rf_fleet_take(f, &a, &p, false, NULL, NULL) < 0)
				abort();
		rf_fleet_rollback(f, mark);
		took[n_took++] = now_ns() - start;
	}
	printf("a gang of %u pods of 8 cards, planned and undone:\n", members);
	report("  whole gangs");
}

/* How much of the cards slices fill, when 130 % of it is asked for and none leaves. */
static void slice_quality(enum rf_fleet_policy policy, const char *what)
{
	const struct rf_gpu_model *model = rf_gpu_model_by_key("H100");
	double memory = 0, compute = 0;

	for (uint64_t seed = 1; seed <= 10; seed++) {
		rf_auto_ptr(fleet) f = make(100);
		struct rf_prng r = { .state = seed };
		struct rf_fleet_place p RF_UNINITIALIZED;
		struct rf_fleet_usage u;
		int64_t asked = 0;

		for (unsigned kind = 6; kind < 12; kind++) {
			struct rf_fleet_ask a = piece(1, kind);

			a.cpu_milli = 100;
			a.memory = 0;
			rf_fleet_asked(f, &a, 1);
		}
		rf_fleet_typical(f);
		while (asked < 100 * 8 * 1300) {
			struct rf_fleet_ask a = piece(1, 6 + rf_prng_below(&r, 6));

			a.policy = policy;
			a.cpu_milli = 100;
			a.memory = 0;
			asked += model->mig[a.parts[0].profile].memory_slices * 125;
			if (!rf_fleet_find(f, &a, &p))
				continue;
			if (rf_fleet_take(f, &a, &p, false, NULL, NULL) < 0)
				abort();
			compute += model->mig[a.parts[0].profile].slices;
		}
		rf_fleet_usage(f, &u);
		memory += (double)u.milli;
	}
	printf("slices to 130 %% of 800 cards, %-6s: %.2f %% of memory, %.2f %% of compute granted, mean of 10 seeds\n",
	       what, memory / 80000, compute / 560);
}

int main(int argc, char **argv)
{
	unsigned nodes = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 5000;
	struct rusage u;

	nodes = RF_MIN(RF_MAX(nodes, 10), DECISIONS_MAX / 8);
	printf("%u nodes of 8 cards\n", nodes);
	fill_with_single_cards(nodes);
	fill_with_large(nodes);
	new_kinds(nodes);
	gangs(nodes);
	churn_pieces(500, 1, "500 nodes, shares and slices come and go, 1 tenant");
	churn_pieces(500, 100, "500 nodes, shares and slices come and go, 100 tenants");
	churn_pieces(nodes, 100, "all nodes, shares and slices come and go, 100 tenants");
	slice_quality(RF_FLEET_FRAG, "fgd");
	slice_quality(RF_FLEET_PACK, "pack");
	slice_quality(RF_FLEET_SPREAD, "spread");
	slice_quality(RF_FLEET_FIRST, "first");
	getrusage(RUSAGE_SELF, &u);
	printf("memory at most %ld MiB\n", u.ru_maxrss / 1024);
	return 0;
}
