/* What programs get of a card that they share: what was typed, whatever they do and whoever is beside them. On a clock
 * of numbers (test/world.h); `bench/gpu/` asks the same of a real card. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fence/test/world.h"

struct program {
	unsigned us; /* each kernel takes */
	unsigned streams, width;
	unsigned each; /* so many launches it waits; 0: never */
	enum { STREAM, EVENT, ALL } wait;
	unsigned next_us; /* the same kernel takes so long every other time; 0: as always */
};

static void run(const void *what)
{
	const struct program *p = what;

	for (unsigned i = 0;; i++) {
		unsigned stream = i % p->streams;

		world_launch(stream, 1 + p->us, (p->next_us && i & 1 ? p->next_us : p->us) * US,
			     p->width);
		if (!p->each || i % p->each != p->each - 1)
			continue;
		if (p->wait == STREAM)
			world_wait(stream);
		else if (p->wait == EVENT)
			world_wait_event(stream);
		else
			world_wait_all();
	}
}

static const char *name_of(const struct program *p)
{
	static const char *const waits[] = { "its stream", "an event", "all" };
	static char text[128];
	int n = snprintf(text, sizeof(text), "%u us", p->us);

	if (p->next_us)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " and %u us in turn", p->next_us);
	if (p->streams > 1)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      ", %u streams, %.2f of the card each", p->streams,
			      p->width / (double)WORLD_WHOLE);
	if (p->each)
		snprintf(text + n, sizeof(text) - (size_t)n, ", waits for %s each %u",
			 waits[p->wait], p->each);
	return text;
}

static void check(double v, double low, double high, const char *what, const struct program *p)
{
	if (v < low || v > high)
		fail_msg("%s: %s is %.1f, not %.1f to %.1f", name_of(p), what, v, low, high);
}

/* --- alone --- */

/* The card waits for the host meanwhile, and that counts as used: so much after each launch and each wait. */
#define HOST_US 5
#define AFTER_WAIT_US 12

static double worth(const struct program *p)
{
	double us = p->next_us ? (p->us + p->next_us) / 2.0 : p->us;
	double work =
		us * p->width / WORLD_WHOLE * (p->streams > 1 ? 1 : (double)WORLD_WHOLE / p->width);
	unsigned n = p->each ? p->each : 1000;

	return n * work / (n * (work > HOST_US ? work : HOST_US) + (p->each ? AFTER_WAIT_US : 0));
}

static void is_asked(const struct program *p, int64_t share)
{
	double asked = (double)share / 10;
	unsigned longest = p->us > p->next_us ? p->us : p->next_us;

	world_begin();
	world_fence(share, false);
	world_start(0, run, p);
	world_run(1000 * MS);
	world_count();
	world_run((longest < 200 ? 1000 : longest < 10000 ? 3000 : 10000) * MS);
	check(world_used(0), (asked - 2) * worth(p), asked + 2, "the share", p);
	world_end();
}

static void a_share_alone_is_what_was_asked(void **state)
{
	static const int64_t shares[] = { 100, 500, 900 };
	static const unsigned us[] = { 20, 200, 1000, 10000, 50000 }, each[] = { 0, 1, 10, 100 };

	for (unsigned i = 0; i < 3 * 5 * 4; i++) {
		struct program p = { us[i / 3 % 5], 1, WORLD_WHOLE, each[i / 15], STREAM };

		if (p.us > 20 || p.each != 1)
			is_asked(&p, shares[i % 3]);
	}
}

static void from_several_streams_it_is_too(void **state)
{
	static const int64_t shares[] = { 100, 500, 900 };
	static const unsigned us[] = { 20, 200, 1000, 10000, 50000 }, each[] = { 0, 4, 10, 100 };

	for (unsigned i = 0; i < 3 * 5 * 4 * 2 * 3; i++) {
		struct program p = { us[i / 3 % 5], 4, i / 60 % 2 ? WORLD_WHOLE / 4 : WORLD_WHOLE,
				     each[i / 15 % 4], i / 120 };

		if (p.each || p.wait == STREAM)
			is_asked(&p, shares[i % 3]);
	}
}

/* As programs do whose kernel is told how much there is to do. */
static void of_a_kernel_that_takes_now_this_now_that_it_is_too(void **state)
{
	static const int64_t shares[] = { 100, 250, 500, 750, 900 };
	static const unsigned next[] = { 200, 1000, 10000 };

	for (unsigned i = 0; i < 5 * 3 * 3; i++) {
		struct program p = { 20, 1, WORLD_WHOLE, i / 15, STREAM, next[i / 5 % 3] };

		is_asked(&p, shares[i % 5]);
	}
}

/* So many kernels it launches, and after a while the card does as many. */
static double launches_in(const struct program *p, int64_t share)
{
	double n;

	world_begin();
	world_fence(share, false);
	world_start(0, run, p);
	world_run(2000 * MS);
	world_count();
	world_run((p->us < 10000 ? 3000 : 10000) * MS);
	n = world_launches(0);
	world_end();
	return n;
}

static void streams_whose_kernels_fit_beside_each_other_work_at_the_same_time(void **state)
{
	static const unsigned us[] = { 200, 1000, 10000, 50000 };

	for (unsigned i = 0; i < 4 * 3 * 2; i++) {
		struct program p = { us[i % 4], 2u << i / 4 % 3, i / 12 ? WORLD_WHOLE / 132 + 1 : 0,
				     0, STREAM };
		double all;

		p.width = p.width ? p.width : WORLD_WHOLE / p.streams;
		all = launches_in(&p, 1000);
		check(100 * launches_in(&p, 500) / all, 47, 52, "half of the work", &p);
		check(100 * launches_in(&p, 100) / all, 7.8, 12, "a tenth of the work", &p);
	}
}

struct two {
	unsigned long_us, short_us;
};

/* As long in one stream as in the other. */
static void run_two(const void *what)
{
	const struct two *t = what;

	for (;;) {
		world_launch(0, 1, t->long_us * US, WORLD_WHOLE / 100);
		for (unsigned i = 0; i < t->long_us / t->short_us; i++)
			world_launch(1, 2, t->short_us * US, WORLD_WHOLE / 100);
	}
}

static double launches_of_two(const struct two *t, int64_t share)
{
	double n;

	world_begin();
	world_start(world_fence(share, true), run_two, t);
	world_run(3000 * MS);
	world_count();
	world_run(5000 * MS);
	n = world_launches(0);
	world_end();
	return n;
}

static void short_kernels_go_on_beside_a_long_one(void **state)
{
	static const struct two two[] = {
		{ 5000, 200 }, { 20000, 20 }, { 20000, 200 }, { 50000, 20 }, { 50000, 1000 }
	};

	for (unsigned i = 0; i < sizeof(two) / sizeof(two[0]); i++) {
		double part = 100 * launches_of_two(&two[i], 500) / launches_of_two(&two[i], 1000);

		if (part < 90)
			fail_msg("%u us beside %u us: %.1f %%", two[i].short_us, two[i].long_us,
				 part);
	}
}

static void the_number_of_processes_does_not_change_it(void **state)
{
	static const unsigned us[] = { 20, 200, 1000, 10000 };

	for (unsigned i = 0; i < 4 * 2 * 2; i++) {
		struct program p = { us[i % 4], 1, WORLD_WHOLE, i / 4 % 2 ? 10 : 0, STREAM };

		world_begin();
		world_fence(500, false);
		for (unsigned j = 0; j < (i / 8 ? 4 : 2); j++)
			world_start(0, run, &p);
		world_run(1000 * MS);
		world_count();
		world_run(5000 * MS);
		check(world_used(0), 48 * worth(&p), 52, "the share", &p);
		world_end();
	}
}

/* --- beside others --- */

static const struct program saturating[] = {
	{ 20, 1, WORLD_WHOLE, 0, STREAM },	 { 200, 1, WORLD_WHOLE, 0, STREAM },
	{ 200, 1, WORLD_WHOLE, 10, STREAM },	 { 1000, 1, WORLD_WHOLE, 0, STREAM },
	{ 1000, 1, WORLD_WHOLE, 1, STREAM },	 { 1000, 4, WORLD_WHOLE, 0, STREAM },
	{ 1000, 4, WORLD_WHOLE / 4, 0, STREAM }, { 10000, 1, WORLD_WHOLE, 0, STREAM },
	{ 10000, 1, WORLD_WHOLE, 1, STREAM },	 { 10000, 4, WORLD_WHOLE / 4, 4, ALL },
	{ 50000, 1, WORLD_WHOLE, 0, STREAM },
};
#define SATURATING (sizeof(saturating) / sizeof(saturating[0]))

static double busy_at_least(unsigned n, const struct program *a, const struct program *b)
{
	if (a->us > 10000 || b->us > 10000)
		return n > 2 ? 94 : 95;
	if (a->next_us > 1000 || b->next_us > 1000)
		return n > 2 ? 97 : 97.5;
	if (a == b && !a->each && a->streams == 1)
		return n > 2 ? 97 : 97.5;
	return n > 2 ? 95 : 96.5;
}

static void are_divided(unsigned n, const int64_t *shares, const struct program *a,
			const struct program *b, bool burst)
{
	double sum = 0;
	char what[256];

	snprintf(what, sizeof(what), "the share beside %s", name_of(b));
	world_begin();
	for (unsigned i = 0; i < n; i++)
		world_start(world_fence(shares[i], burst), run, i % 2 ? b : a);
	world_run(4000 * MS);
	world_count();
	world_run(10000 * MS);
	for (unsigned i = 0; i < n; i++)
		sum += world_used(i);
	check(sum, busy_at_least(n, a, b), 100, "what all get", a);
	for (unsigned i = 0; i < n; i++) {
		double asked = sum * (double)shares[i] / 1000;

		check(world_used(i), asked * 0.95, asked * 1.05, what, a);
	}
	world_end();
}

static void two_that_are_alike_get_what_was_asked_and_the_card_is_busy(void **state)
{
	for (unsigned i = 0; i < SATURATING; i++)
		for (unsigned j = 0; j < 4; j++)
			are_divided(2, j & 1 ? (int64_t[]){ 300, 700 } : (int64_t[]){ 500, 500 },
				    &saturating[i], &saturating[i], j & 2);
}

static void two_that_are_not_too(void **state)
{
	for (unsigned i = 0; i < SATURATING; i++)
		for (unsigned j = 0; j < SATURATING; j++)
			if (i != j && (i + j) % 3 == 0)
				are_divided(2, (int64_t[]){ 300, 700 }, &saturating[i],
					    &saturating[j], false);
}

static void four_too(void **state)
{
	for (unsigned i = 0; i < SATURATING; i++)
		are_divided(4, (int64_t[]){ 250, 250, 250, 250 }, &saturating[i], &saturating[i],
			    false);
}

static void those_whose_kernels_take_now_this_now_that_too(void **state)
{
	static const struct program uneven[] = {
		{ 20, 1, WORLD_WHOLE, 0, STREAM, 1000 },  { 20, 1, WORLD_WHOLE, 10, STREAM, 1000 },
		{ 20, 1, WORLD_WHOLE, 0, STREAM, 5000 },  { 20, 1, WORLD_WHOLE, 0, STREAM, 10000 },
		{ 20, 1, WORLD_WHOLE, 10, STREAM, 10000 }, { 20, 1, WORLD_WHOLE, 0, STREAM, 30000 },
	};

	for (unsigned i = 0; i < sizeof(uneven) / sizeof(uneven[0]); i++) {
		are_divided(2, (int64_t[]){ 300, 700 }, &uneven[i], &uneven[i], false);
		are_divided(2, (int64_t[]){ 500, 500 }, &uneven[i], &saturating[3], false);
		are_divided(4, (int64_t[]){ 250, 250, 250, 250 }, &uneven[i], &uneven[i], false);
	}
}

/* Nobody knows when these will be done, so they are often still at it when the other one begins. */
static void run_uneven(const void *what)
{
	uint64_t x = 88172645463325252ull;

	for (unsigned i = 1;; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		world_launch(0, i % 3, (i % 3 ? 20 : 1 + x % 50000) * US, WORLD_WHOLE);
		if (i % 20 == 0)
			world_wait_all();
	}
}

static void who_is_beside_kernels_that_take_now_this_now_that_gets_its_share(void **state)
{
	static const struct program programs[] = { { 20, 4, WORLD_WHOLE, 0, STREAM },
						   { 200, 1, WORLD_WHOLE, 0, STREAM } };

	for (unsigned i = 0; i < 2 * 2 * 2; i++) {
		const struct program *p = &programs[i & 1];

		world_begin();
		world_start(world_fence(250, i & 2), run, p);
		world_fence(750, i & 2);
		for (unsigned j = 0; j <= i / 4; j++)
			world_start(1, run_uneven, NULL);
		world_run(4000 * MS);
		world_count();
		world_run(10000 * MS);
		print_message("  %.1f of 25 beside %.1f\n", world_used(0), world_used(1));
		check(100 * world_used(0) / (world_used(0) + world_used(1)), 21, 27,
		      "the part beside kernels nobody knows", p);
		world_end();
	}
}

/* --- one that uses little --- */

static struct {
	unsigned n;
	uint64_t took[4096];
} seen;

/* Of its times the next is 10 ms later, and up to so much more or less: 0, or drawn anew. */
struct visitor {
	void (*wait)(unsigned stream);
	uint64_t late;
};

static void come_at_100_hz(const void *what)
{
	const struct visitor *v = what;
	uint64_t next = world_now() + 10 * MS, x = 88172645463325252ull;

	for (;;) {
		uint64_t from;

		x = x * 6364136223846793005ull + 1442695040888963407ull;
		world_pass(next - world_now() + (v->late ? (x >> 33) % v->late : 0));
		next += 10 * MS;
		from = world_now();
		world_launch(0, 77, 200 * US, WORLD_WHOLE);
		v->wait(0);
		if (seen.n < 4096)
			seen.took[seen.n++] = world_now() - from;
		while (next <= world_now())
			next += 10 * MS;
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void who_comes_at_100_hz_hardly_waits(void **state)
{
	/* Who comes at times that nobody can know waits for a kernel and a switch at most: 1.4 ms in this world. */
	static const struct visitor visitors[] = {
		{ world_wait, 0 },	  { world_wait_event, 0 }, { world_poll_event, 0 },
		{ world_wait_unseen, 0 }, { world_wait, 1 * MS },  { world_wait, 4 * MS },
		{ world_wait, 10 * MS }
	};
	struct program p = { 1000, 1, WORLD_WHOLE, 0, STREAM };

	for (unsigned i = 0; i < 14; i++) {
		const struct visitor *v = &visitors[i / 2];
		bool burst = i & 1;
		double p99;

		world_begin();
		world_start(world_fence(500, burst), run, &p);
		world_start(world_fence(500, burst), come_at_100_hz, v);
		world_run(2000 * MS);
		world_count();
		seen.n = 0;
		world_run(20000 * MS);
		assert_in_range(seen.n, v->late ? 1800 : 1990, 2001);
		qsort(seen.took, seen.n, sizeof(*seen.took), by_size);
		p99 = (double)seen.took[seen.n * 99 / 100] / 1e6;
		print_message("  p50 %.2f ms, p99 %.2f ms; the other gets %.1f\n",
			      (double)seen.took[seen.n / 2] / 1e6, p99, world_used(0));
		check(p99, 0, v->late ? 1.46 : 0.5, "p99 of who comes, in ms,", &p);
		check(world_used(0), burst ? 70 : 48, burst ? 98 : 52, "the share", &p);
		world_end();
	}
}

/* --- burst --- */

static void who_may_have_all_while_nobody_is_there_gives_it_back(void **state)
{
	for (unsigned i = 0; i < SATURATING; i++) {
		const struct program *p = &saturating[i];

		world_begin();
		world_fence(500, true);
		world_fence(500, false);
		world_start(0, run, p);
		world_run(2000 * MS);
		world_count();
		world_run(3000 * MS);
		check(world_used(0), 97 * worth(p), 100, "what it gets alone", p);
		world_start(1, run, p);
		world_run(5 * MS);
		world_count();
		world_run(50 * MS);
		if (p->us < 10000) /* else a kernel is a fifth of it */
			check(world_used(1), 45, 100, "what the owner gets at once", p);
		world_count();
		world_run(400 * MS);
		check(world_used(1), 45, 55 + p->us / 4000.0, "what the owner gets then",
		      p); /* and a kernel */
		world_end();
	}
}

/* --- a new arbiter --- */

/* Its gate stands for all at first, and who is in the middle of its work has to say so. */
static void a_new_arbiter_hears_of_who_works(void **state)
{
	for (unsigned i = 0; i < SATURATING; i++) {
		const struct program *p = &saturating[i];

		world_begin();
		world_start(world_fence(100, false), run, p);
		world_run(2000 * MS);
		world_new_arbiter();
		world_run(1000 * MS);
		world_count();
		world_run(3000 * MS);
		check(world_used(0), 8 * worth(p), 12, "the share after a new arbiter came", p);
		world_end();
	}
}

/* --- long kernels --- */

static void launch_long_ones(const void *what)
{
	for (;;)
		world_launch(0, 5, 2000 * MS, WORLD_WHOLE);
}

/* They may be waiting for the next ones, so some more are let in, but fewer and fewer. */
static void long_kernels_do_not_pile_up(void **state)
{
	world_begin();
	world_start(world_fence(500, true), launch_long_ones, NULL);
	world_run(1900 * MS);
	assert_in_range(world_launches(0), 1,
			24); /* 16 ms of what is thought to take one, and some */
	world_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_alone_is_what_was_asked),
		cmocka_unit_test(from_several_streams_it_is_too),
		cmocka_unit_test(of_a_kernel_that_takes_now_this_now_that_it_is_too),
		cmocka_unit_test(streams_whose_kernels_fit_beside_each_other_work_at_the_same_time),
		cmocka_unit_test(short_kernels_go_on_beside_a_long_one),
		cmocka_unit_test(the_number_of_processes_does_not_change_it),
		cmocka_unit_test(two_that_are_alike_get_what_was_asked_and_the_card_is_busy),
		cmocka_unit_test(two_that_are_not_too),
		cmocka_unit_test(four_too),
		cmocka_unit_test(those_whose_kernels_take_now_this_now_that_too),
		cmocka_unit_test(who_is_beside_kernels_that_take_now_this_now_that_gets_its_share),
		cmocka_unit_test(who_comes_at_100_hz_hardly_waits),
		cmocka_unit_test(who_may_have_all_while_nobody_is_there_gives_it_back),
		cmocka_unit_test(a_new_arbiter_hears_of_who_works),
		cmocka_unit_test(long_kernels_do_not_pile_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
