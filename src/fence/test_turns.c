/* Whose turn it is, with programs and a card made of numbers: the clock is a variable, so that every
 * run gives the same result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "fence/arbiter_private.h"

#define STEP (10 * RF_US)
#define PROGRAMS 8
#define NAP (200 * RF_US)
#define TOLD RF_MS
#define SLICE (2 * RF_MS) /* a real card's own time slice */

/* A program launches kernels of one length, as many as the fence lets it or one every so often. */
struct program {
	int64_t kernel;
	int64_t every; /* 0: all the time */
	bool one;      /* it waits for each */
	int64_t gap;   /* it needs so long to see that it is done and to launch again */
	int64_t jitter;
	size_t hiccup; /* every so many times it comes late */
	int64_t slack; /* it sleeps until fixed times, and wakes up to so much later; at times much more */
	int64_t start, stop;
	/* inside */
	int64_t inflight; /* what was launched and is not done */
	int64_t busy_from, begun_at, gpu_ns, next_at, came_at, ready_at, due, late;
	int64_t done_work; /* what the card has done for it */
	int64_t waits[4096];
	size_t n_waits;
	uint32_t launches;
	bool wants;
	bool news; /* something to publish */
	int64_t told_at;
	bool stopped; /* says what it said last, and does nothing */
	/* What it says instead of the truth, which is there already. It keeps to the gate all the same. */
	void (*lie)(struct program *p, int64_t now, struct rf_desk_seat *s);
	uint64_t told;
	unsigned weight[6]; /* of what to say */
	struct program *of; /* the fence's first, whose gate, desk and member they all have */
	unsigned seat;
	struct rf_gate_card gate;
	struct rf_desk *desk;
	struct rf_member member;
};

struct stage {
	struct program program[PROGRAMS];
	unsigned n;
	struct rf_card_state card;
	int64_t now, turn_at;
	int64_t ring_at; /* when the arbiter will have heard */
	int64_t latency; /* from a ring to a changed gate */
	int runs;	 /* whose work the card does; -1: nobody's */
	int64_t switching, sliced;
	int64_t switch_cost;
	bool together; /* MPS: kernels of all, one after the other, and no switching */
	bool busy_host; /* now and then the arbiter's thread gets no processor for a while */
	int64_t deaf_until;
};

static void nobody(struct rf_gate_card *g)
{
}

static struct program *enter(struct stage *s, int64_t share, bool burst, int64_t kernel)
{
	struct program *p = &s->program[s->n++];

	p->kernel = kernel;
	p->stop = INT64_MAX;
	p->desk = rf_alloc(sizeof(*p->desk));
	memset(p->desk, 0, sizeof(*p->desk));
	p->desk->top = 1;
	p->of = p;
	p->member = (struct rf_member){
		.gate = &p->gate, .desk = p->desk, .ledger_fd = -1, .share = share, .burst = burst
	};
	rf_turns_add(&s->card, &p->member, s->now);
	return p;
}

/* Another process of the same fence. */
static struct program *join(struct stage *s, struct program *of, int64_t kernel)
{
	struct program *p = &s->program[s->n++];

	p->kernel = kernel;
	p->stop = INT64_MAX;
	p->of = of;
	p->seat = of->desk->top++;
	return p;
}

static struct stage *open_stage(void)
{
	struct stage *s = rf_new(struct stage);

	*s = (struct stage){
		.now = 1000 * RF_MS, .latency = 40 * RF_US, .runs = -1, .switch_cost = 100 * RF_US
	};
	return s;
}

static void close_stage(struct stage *s)
{
	for (unsigned i = 0; i < s->n; i++)
		free(s->program[i].desk);
	free(s);
}

static void ring(struct stage *s)
{
	if (s->ring_at == 0)
		s->ring_at = s->now + s->latency;
}

/* As share*.c do: when something changes, and now and then while it waits for its own work to end. */
static bool has_news(const struct stage *s, const struct program *p)
{
	return p->news || p->lie || (p->inflight && s->now - p->told_at >= (p->wants ? NAP : TOLD));
}

static void publish(struct stage *s, struct program *p)
{
	struct rf_desk_seat *seat = &p->of->desk->seat[0][p->seat];

	if (p->stopped || !has_news(s, p))
		return;
	p->news = false;
	p->told_at = s->now;
	seat->seq += 2;
	seat->waiting = p->wants;
	seat->busy_from = (uint64_t)p->busy_from;
	seat->busy_until = (uint64_t)(p->busy_from ? s->now + p->inflight : p->begun_at);
	seat->gpu_ns = (uint64_t)p->gpu_ns;
	seat->launches = p->launches;
	if (p->lie)
		p->lie(p, s->now, seat);
}

static bool tells(const struct program *p, uint32_t what)
{
	const struct rf_gate_card *g = &p->of->gate;

	return g->tell & what || (g->tell & RF_TELL_BESIDE && g->host != p->seat + 1);
}

static bool is_open(const struct stage *s, const struct program *p)
{
	const struct rf_gate_card *g = &p->of->gate;

	return g->open_until > (uint64_t)s->now && !(g->shut[p->seat / 64] >> p->seat % 64 & 1);
}

/* What a program does in a step: launch if it may. */
static void want(struct stage *s, struct program *p)
{
	int64_t depth = (int64_t)p->of->gate.depth_us * RF_US;

	if (p->stopped)
		return;
	if (s->now < p->start || s->now >= p->stop || (p->every && s->now < p->next_at)) {
		p->wants = false;
		return;
	}
	if (s->now < p->ready_at) {
		p->wants = false;
		return;
	}
	if (p->every && p->came_at == 0)
		p->came_at = s->now;
	if ((p->every || p->one) && p->inflight) {
		p->wants = false;
		return; /* one at a time */
	}
	if (!is_open(s, p)) {
		if (!p->wants)
			ring(s);
		p->wants = true;
		return;
	}
	p->wants = false;
	while (p->inflight == 0 || p->inflight + p->kernel <= depth) {
		p->inflight += p->kernel;
		p->launches++;
		if (p->busy_from == 0) {
			p->busy_from = p->begun_at = s->now;
			if (tells(p, RF_TELL_BEGIN))
				ring(s);
		}
		if (p->every || p->one)
			break;
	}
}

/* How late a thread wakes up, as seen on the machine of an H200: by up to usual; one time in a hundred by up to 3 ms
 * more; and in some stretches of a fifth of a second every other time by a millisecond. */
static int64_t late_by(const struct stage *s, int64_t usual)
{
	int64_t ns = rand() % usual;

	if (s->now % (3000 * RF_MS) < 200 * RF_MS && rand() % 2)
		return ns + RF_MS + rand() % (100 * RF_US);
	return rand() % 100 == 0 ? ns + rand() % (3 * RF_MS) : ns;
}

static void act(struct stage *s, struct program *p)
{
	bool wanted = p->wants;
	int64_t busy_from = p->busy_from;

	want(s, p);
	p->news = p->news || p->wants != wanted || p->busy_from != busy_from;
}

static void finish(struct stage *s, struct program *p)
{
	int64_t now = s->now + STEP; /* at the end of the step */

	p->news = true;
	p->gpu_ns += now - p->busy_from;
	p->busy_from = 0;
	p->ready_at = now + p->gap;
	if (p->every && p->slack) {
		if (p->n_waits < RF_COUNT(p->waits))
			p->waits[p->n_waits++] = now - p->came_at;
		p->due = (p->due ? p->due : p->came_at) + p->every;
		p->next_at = p->due + late_by(s, p->slack);
		p->came_at = 0;
	} else if (p->every) {
		if (p->n_waits < RF_COUNT(p->waits))
			p->waits[p->n_waits++] = now - p->came_at;
		p->late += p->due ? p->came_at - p->due : 0;
		p->next_at = p->came_at - p->late + p->every + (p->jitter ? rand() % p->jitter : 0);
		p->late = 0;
		p->due = 0;
		if (p->hiccup && p->n_waits % p->hiccup == 0) { /* once, and then in step again */
			p->due = p->next_at;
			p->next_at += 900 * RF_US;
		}
		p->came_at = 0;
	}
	if (tells(p, RF_TELL_END))
		ring(s);
}

static bool is_next(const struct stage *s)
{
	const struct program *p = s->runs < 0 ? NULL : &s->program[s->runs];

	if (!p || p->inflight == 0)
		return true;
	return s->together ? p->inflight % p->kernel == 0 : s->now - s->sliced >= SLICE;
}

/* The card works on one program's queue until it is empty or its slice is over. */
static void work(struct stage *s)
{
	struct program *p;

	if (is_next(s)) {
		for (unsigned i = 1; i <= s->n; i++) {
			int next = (int)(((unsigned)(s->runs < 0 ? 0 : s->runs) + i) % s->n);

			if (s->program[next].inflight == 0)
				continue;
			if (next != s->runs && !s->together)
				s->switching = s->now + s->switch_cost;
			s->runs = next;
			s->sliced = s->now;
			break;
		}
	}
	if (s->runs < 0 || s->now < s->switching)
		return;
	p = &s->program[s->runs];
	if (p->inflight == 0)
		return;
	p->inflight -= STEP;
	p->done_work += STEP;
	if (p->inflight == 0)
		finish(s, p);
}

static void play(struct stage *s, int64_t ns)
{
	for (int64_t end = s->now + ns; s->now < end; s->now += STEP) {
		for (unsigned i = 0; i < s->n; i++) {
			act(s, &s->program[i]);
			publish(s, &s->program[i]);
		}
		if (s->n)
			work(s);
		for (unsigned i = 0; i < s->n; i++)
			if (s->program[i].busy_from == 0)
				publish(s, &s->program[i]);
		if (s->now >= s->deaf_until &&
		    (s->turn_at <= s->now || (s->ring_at && s->ring_at <= s->now))) {
			s->ring_at = 0;
			s->deaf_until = s->busy_host ? s->now + late_by(s, 30 * RF_US) : 0;
			s->turn_at = rf_turns(&s->card, s->now, nobody);
		}
	}
}

static double share_of(const struct program *p, int64_t before, int64_t ns)
{
	return (double)(p->done_work - before) / (double)ns * 100;
}

static double least_of(double a, double b)
{
	return a < b ? a : b;
}

static void assert_near(double got, double want, double by, const char *what)
{
	if (got < want - by || got > want + by)
		fail_msg("%s: got %.2f, wanted %.2f within %.2f", what, got, want, by);
}

static void alone_a_fence_gets_its_share_and_no_more(void **state RF_UNUSED)
{
	static const int64_t kernels[] = { 20 * RF_US, 200 * RF_US, RF_MS, 10 * RF_MS, 50 * RF_MS };
	static const int64_t shares[] = { 100, 250, 500, 750, 900 };

	for (size_t i = 0; i < RF_COUNT(kernels); i++) {
		for (size_t j = 0; j < RF_COUNT(shares); j++) {
			struct stage *s = open_stage();
			struct program *p = enter(s, shares[j], false, kernels[i]);

			play(s, 10000 * RF_MS);
			assert_near(share_of(p, 0, 10000 * RF_MS), (double)shares[j] / 10, 1.0,
				    "alone");
			close_stage(s);
		}
	}
}

static void saturating_fences_share_in_proportion(void **state RF_UNUSED)
{
	static const int64_t sets[][4] = {
		{ 300, 700 }, { 500, 500 }, { 250, 250, 250, 250 }, { 100, 900 }, { 700, 700 }
	};
	static const int64_t kernels[] = { 20 * RF_US, RF_MS, 10 * RF_MS };

	for (size_t i = 0; i < RF_COUNT(sets) * RF_COUNT(kernels); i++) {
		const int64_t *set = sets[i / RF_COUNT(kernels)];
		struct stage *s = open_stage();
		double sum = 0;
		int64_t asked = 0;

		for (unsigned j = 0; j < 4 && set[j]; j++) {
			enter(s, set[j], false, kernels[i % RF_COUNT(kernels)]);
			asked += set[j];
		}
		play(s, 10000 * RF_MS);
		for (unsigned j = 0; j < s->n; j++)
			sum += share_of(&s->program[j], 0, 10000 * RF_MS);
		assert_true(sum >= 96.5);
		for (unsigned j = 0; j < s->n; j++) {
			double got = share_of(&s->program[j], 0, 10000 * RF_MS) / sum;
			double want = (double)set[j] / (double)asked;

			assert_near(got / want, 1, 0.04, "ratio");
		}
		close_stage(s);
	}
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int64_t p99_of(struct program *p)
{
	qsort(p->waits, p->n_waits, sizeof(p->waits[0]), by_size);
	return p->waits[p->n_waits * 99 / 100];
}

static void who_uses_little_waits_for_one_kernel(void **state RF_UNUSED)
{
	for (int i = 0; i < 16; i++) {
		bool burst = i & 1, regular = i & 2;
		struct stage *s = open_stage();
		struct program *hog = enter(s, 500, burst, RF_MS);
		struct program *light = enter(s, 500, false, 200 * RF_US);
		int64_t p99;

		s->together = hog->member.spatial = light->member.spatial = i & 4;
		light->every = 10 * RF_MS + 130 * RF_US; /* so that it meets the hog everywhere */
		light->jitter = regular ? 0 : 5 * RF_MS;
		hog->gap = i & 8 ? 60 * RF_US : 0;
		light->start = s->now + 100 * RF_MS;
		play(s, 20000 * RF_MS);
		qsort(light->waits, light->n_waits, sizeof(light->waits[0]), by_size);
		assert_true(light->n_waits > 1200);
		p99 = light->waits[light->n_waits * 99 / 100];
		if (p99 > (regular ? 450 : 1400) * RF_US)
			fail_msg("p99 is %lld us", (long long)(p99 / RF_US));
		assert_true(share_of(hog, 0, 20000 * RF_MS) >= (burst ? 75 : 48.5));
		close_stage(s);
	}
}

/* As on a real machine: threads wake up late now and then, the arbiter's too, and programs sleep until fixed times. */
static void who_is_expected_is_so_on_a_machine_that_is_late_at_times(void **state RF_UNUSED)
{
	unsigned seed = 4715;

	print_message("seed %u\n", seed);
	srand(seed);
	for (int i = 0; i < 8; i++) {
		struct stage *s = open_stage();
		struct program *hog = enter(s, 500, i & 1, RF_MS);
		/* The short one is often gone before the arbiter looks. */
		struct program *light = enter(s, 500, false, (i & 4 ? 50 : 200) * RF_US);
		size_t slow = 0;

		hog->gap = 60 * RF_US;
		s->busy_host = true;
		s->together = hog->member.spatial = light->member.spatial = i & 2;
		light->every = 10 * RF_MS;
		light->slack = 60 * RF_US;
		light->start = s->now + 100 * RF_MS;
		play(s, 40000 * RF_MS);
		for (size_t j = 0; j < light->n_waits; j++)
			slow += light->waits[j] > 500 * RF_US;
		print_message("  %lld us, %s%s: %zu of %zu over 0.5 ms, p99 %lld us, the other "
			      "gets %.1f\n",
			      (long long)(light->kernel / RF_US), i & 2 ? "MPS" : "turns",
			      i & 1 ? ", burst" : "", slow, light->n_waits,
			      (long long)(p99_of(light) / RF_US), share_of(hog, 0, 40000 * RF_MS));
		assert_true(light->n_waits > 3900 && slow <= light->n_waits / 120);
		assert_true(p99_of(light) <= (i & 2 ? 300 : 500) * RF_US);
		close_stage(s);
	}
}

/* Few of those that come late meet the hog; what counts is that the next ones do not. */
static void who_is_late_once_is_still_expected(void **state RF_UNUSED)
{
	struct stage *s = open_stage();
	struct program *hog = enter(s, 500, true, RF_MS);
	struct program *light = enter(s, 500, false, 200 * RF_US);
	size_t slow = 0;

	hog->gap = 60 * RF_US;
	s->together = hog->member.spatial = light->member.spatial = true;
	light->every = 10 * RF_MS + 130 * RF_US;
	light->hiccup = 20;
	light->start = s->now + 100 * RF_MS;
	play(s, 20000 * RF_MS);
	for (size_t i = 0; i < light->n_waits; i++)
		slow += light->waits[i] > 450 * RF_US;
	if (slow > light->n_waits / light->hiccup + 10)
		fail_msg("%zu of %zu were slow", slow, light->n_waits);
	close_stage(s);
}

/* --- several processes of a fence --- */

struct crowd {
	int64_t share;
	unsigned n; /* processes */
};

/* What each fence of the set gets: its processes together, and that they share it evenly. */
static void check_crowd(const struct stage *s, const struct crowd *set, double most_, int64_t ns)
{
	double sum = 0, asked = 0;

	for (unsigned i = 0, first = 0; i < 3 && set[i].n; first += set[i++].n) {
		double got = 0, want = (double)set[i].share / 10;

		for (unsigned j = first; j < first + set[i].n; j++)
			got += share_of(&s->program[j], 0, ns);
		for (unsigned j = first; j < first + set[i].n; j++)
			assert_near(share_of(&s->program[j], 0, ns) * set[i].n / got, 1, 0.15,
				    "a process of its fence's share");
		print_message("%s%.1f of %.0f", i ? ", " : " ", got, want);
		assert_near(got, want * (set[1].n ? most_ : least_of(1, most_ * 100 / want)), 2,
			    "a fence");
		sum += got;
		asked += want;
	}
	print_message("\n");
	if (asked >= 100)
		assert_true(sum >= 96.5 * most_);
}

/* The card itself would switch between them every 2 ms and lose a tenth. one: they wait for each kernel, and so
 * do not use all of the time. */
static void processes_of_a_fence_change_nothing(void **state RF_UNUSED)
{
	static const struct crowd sets[][3] = {
		{ { 500, 1 } },
		{ { 500, 2 } },
		{ { 500, 3 } },
		{ { 900, 2 } },
		{ { 100, 2 } },
		{ { 500, 2 }, { 500, 2 } },
		{ { 300, 1 }, { 700, 3 } },
		{ { 700, 1 }, { 300, 3 } },
		{ { 250, 2 }, { 500, 1 }, { 250, 2 } },
	};
	static const int64_t kernels[] = { 20 * RF_US, 200 * RF_US, RF_MS, 10 * RF_MS };

	for (size_t i = 0; i < RF_COUNT(sets) * RF_COUNT(kernels) * 2; i++) {
		const struct crowd *set = sets[i / 2 / RF_COUNT(kernels)];
		int64_t kernel = kernels[i / 2 % RF_COUNT(kernels)], gap = 30 * RF_US;
		bool one = i % 2;
		struct stage *s = open_stage();

		if (one && kernel < gap) {
			close_stage(s);
			continue;
		}
		s->switch_cost = 200 * RF_US;
		print_message("  %lld us%s:", (long long)(kernel / RF_US),
			      one ? ", one at a time" : "");
		for (unsigned j = 0; j < 3 && set[j].n; j++) {
			struct program *f = enter(s, set[j].share, false, kernel);

			for (unsigned k = 1; k < set[j].n; k++)
				join(s, f, kernel);
		}
		for (unsigned j = 0; j < s->n; j++) {
			s->program[j].one = one;
			s->program[j].gap = one ? gap : 0;
		}
		play(s, 10000 * RF_MS);
		check_crowd(s, set, one ? (double)kernel / (double)(kernel + gap) : 1,
			    10000 * RF_MS);
		close_stage(s);
	}
}

/* Alone on the card with burst, so that it waits for its own fence only. */
static void one_that_uses_little_does_not_wait_for_its_siblings(void **state RF_UNUSED)
{
	static const int64_t kernels[] = { 20 * RF_US, 100 * RF_US, RF_MS };

	for (size_t i = 0; i < 4 * RF_COUNT(kernels); i++) {
		struct stage *s = open_stage();
		struct program *hog = enter(s, 500, true, kernels[i / 4]);
		struct program *other = i & 2 ? join(s, hog, kernels[i / 4]) : NULL;
		struct program *light = join(s, hog, 200 * RF_US);
		int64_t p99;
		double got;

		s->switch_cost = 200 * RF_US;
		light->every = 10 * RF_MS + 130 * RF_US;
		light->jitter = i & 1 ? 5 * RF_MS : 0;
		light->start = s->now + 100 * RF_MS;
		play(s, 20000 * RF_MS);
		p99 = p99_of(light);
		got = share_of(hog, 0, 20000 * RF_MS) +
		      (other ? share_of(other, 0, 20000 * RF_MS) : 0);
		print_message("  beside %d of %lld us: p50 %lld, p99 %lld us, they get %.1f\n",
			      other ? 2 : 1, (long long)(kernels[i / 4] / RF_US),
			      (long long)(light->waits[light->n_waits / 2] / RF_US),
			      (long long)(p99 / RF_US), got);
		assert_true(p99 <= 1600 * RF_US);
		assert_true(got >= 92);
		close_stage(s);
	}
}

/* The longest time in which the card did nothing for it. */
static int64_t longest_pause(struct stage *s, const struct program *p, int64_t ns)
{
	int64_t longest = 0, since = s->now, done = p->done_work;

	for (int64_t end = s->now + ns; s->now < end;) {
		play(s, STEP);
		if (p->done_work != done)
			since = s->now;
		done = p->done_work;
		longest = s->now - since > longest ? s->now - since : longest;
	}
	return longest;
}

/* As with SIGSTOP or SIGKILL, in its turn or out of it, whatever its seat said last. */
static void one_that_is_stopped_does_not_hold_its_siblings_up(void **state RF_UNUSED)
{
	for (int i = 0; i < 16; i++) {
		struct stage *s = open_stage();
		struct program *a = enter(s, 500, true, i & 4 ? 10 * RF_MS : RF_MS);
		struct program *b = join(s, a, RF_MS);
		struct rf_desk_seat *seat = &a->desk->seat[0][1];
		int64_t before, pause;

		play(s, 500 * RF_MS);
		while (a->gate.host != (i & 1 ? 2 : 1) || (b->inflight != 0) != (i & 1))
			play(s, STEP);
		b->stopped = true;
		if (i & 2)
			seat->busy_until = (uint64_t)s->now + 2000 * RF_MS;
		if (i & 8)
			seat->waiting = 1;
		pause = longest_pause(s, a, 1000 * RF_MS);
		print_message("  %s%s%s: %.1f ms\n", i & 1 ? "in its turn" : "out of turn",
			      i & 2 ? ", with work for seconds" : "", i & 8 ? ", waiting" : "",
			      (double)pause / RF_MS);
		assert_true(pause <= (i & 2 ? 35 : 15) * RF_MS);
		before = a->done_work;
		play(s, 1000 * RF_MS);
		assert_true(share_of(a, before, 1000 * RF_MS) >= 97);
		b->stopped = false;
		b->news = true;
		play(s, 1000 * RF_MS);
		before = b->done_work;
		play(s, 2000 * RF_MS);
		assert_near(share_of(b, before, 2000 * RF_MS), 49, 6, "the one that goes on");
		close_stage(s);
	}
}

static void idle_time_is_lent_and_given_back_at_once(void **state RF_UNUSED)
{
	struct stage *s = open_stage();
	struct program *a = enter(s, 300, true, RF_MS);
	struct program *b = enter(s, 700, true, RF_MS);
	int64_t before_a, before_b;

	b->start = s->now + 1000 * RF_MS;
	play(s, 1000 * RF_MS);
	assert_true(share_of(a, 0, 1000 * RF_MS) >= 97);
	before_b = b->done_work;
	play(s, 50 * RF_MS);
	assert_true(share_of(b, before_b, 50 * RF_MS) >= 63);
	before_a = a->done_work;
	before_b = b->done_work;
	play(s, 5000 * RF_MS);
	assert_near(share_of(b, before_b, 5000 * RF_MS) / share_of(a, before_a, 5000 * RF_MS),
		    7.0 / 3, 0.12, "ratio after the return");
	close_stage(s);
}

/* However it worked while it was alone, and whenever it was looked at. */
static void who_worked_alone_has_its_share_when_somebody_comes(void **state RF_UNUSED)
{
	static const int64_t kernels[] = { 20 * RF_US, 100 * RF_US, 500 * RF_US, 2 * RF_MS };
	static const int64_t gaps[] = { 100 * RF_US, 500 * RF_US, 1000 * RF_US, 5 * RF_MS, 7 * RF_MS };

	for (unsigned i = 0; i < 2 * RF_COUNT(kernels) * RF_COUNT(gaps); i++) {
		struct stage *s = open_stage();
		bool registered = i & 1; /* and idle until then */
		int64_t share = i % 3 ? 500 : 100, mine, its;
		struct program *alone = enter(s, share, true, kernels[i / 2 % RF_COUNT(kernels)]);
		struct program *comes = registered ? enter(s, 1000 - share, true, RF_MS) : NULL;

		if (comes)
			comes->start = s->now + 5000 * RF_MS;
		alone->one = true;
		alone->gap = gaps[i / 2 / RF_COUNT(kernels)];
		play(s, 5000 * RF_MS);
		comes = comes ? comes : enter(s, 1000 - share, true, RF_MS);
		alone->one = false;
		alone->gap = 0;
		mine = alone->done_work;
		its = comes->done_work;
		play(s, 1000 * RF_MS);
		if (share_of(alone, mine, 1000 * RF_MS) < 0.085 * (double)share ||
		    share_of(comes, its, 1000 * RF_MS) < 0.085 * (double)(1000 - share))
			fail_msg("kernels of %lld us, pauses of %lld us: %.1f of %lld, %.1f of %lld",
				 (long long)(alone->kernel / RF_US),
				 (long long)(gaps[i / 2 / RF_COUNT(kernels)] / RF_US),
				 share_of(alone, mine, 1000 * RF_MS), (long long)share / 10,
				 share_of(comes, its, 1000 * RF_MS), (long long)(1000 - share) / 10);
		close_stage(s);
	}
}

static void priority_goes_first_and_the_others_keep_their_floor(void **state RF_UNUSED)
{
	struct stage *s = open_stage();
	struct program *low = enter(s, 500, true, RF_MS);
	struct program *high = enter(s, 500, true, RF_MS);
	int64_t before_low;

	high->member.priority = 10;
	high->start = s->now + 500 * RF_MS;
	play(s, 520 * RF_MS);
	assert_true(high->done_work >= 10 * RF_MS);
	before_low = low->done_work;
	play(s, 5000 * RF_MS);
	assert_true(share_of(low, before_low, 5000 * RF_MS) >= 46);
	close_stage(s);
}

static void a_fence_that_leaves_frees_the_card(void **state RF_UNUSED)
{
	struct stage *s = open_stage();
	struct program *a = enter(s, 500, true, RF_MS);
	struct program *b = enter(s, 500, true, RF_MS);
	int64_t before_a;

	play(s, 200 * RF_MS);
	b->stop = s->now;
	play(s, 20 * RF_MS);
	rf_turns_remove(&s->card, &b->member);
	before_a = a->done_work;
	play(s, 500 * RF_MS);
	assert_true(share_of(a, before_a, 500 * RF_MS) >= 97);
	close_stage(s);
}

/* Random programs: no fence without burst gets more than its share, and none that wants it gets much
 * less, whatever its neighbours do. */
static void random_neighbours_take_nothing_from_each_other(void **state RF_UNUSED)
{
	unsigned seed = 20261115;

	print_message("seed %u\n", seed);
	srand(seed);
	for (int round = 0; round < 60; round++) {
		struct stage *s = open_stage();
		unsigned n = 1 + (unsigned)rand() % 4;
		int64_t left = 1000;

		for (unsigned i = 0; i < n; i++) {
			int64_t share = 50 + rand() % (left / (n - i) - 40);
			int64_t kernel = STEP * (1 + rand() % 2000);
			struct program *p = enter(s, share, rand() % 2, kernel);

			left -= share;
			if (rand() % 3 == 0)
				p->every = RF_MS * (1 + rand() % 50);
		}
		play(s, 6000 * RF_MS);
		for (unsigned i = 0; i < n; i++) {
			struct program *p = &s->program[i];
			double got = share_of(p, 0, 6000 * RF_MS);
			double share = (double)p->member.share / 10;

			if (!p->member.burst && got > share + 1.5)
				fail_msg("round %d: %.1f of %.1f", round, got, share);
			if (!p->every && got < share * 0.93 - 1)
				fail_msg("round %d: only %.1f of %.1f", round, got, share);
		}
		close_stage(s);
	}
}

/* --- hostile desks --- */

/* What a tenant may write over its desk between any two looks of the arbiter. */
struct liar {
	struct rf_gate_card gate;
	struct rf_desk *desk;
	struct rf_member member;
	uint64_t told;
	int64_t since;
};

static uint64_t any(void)
{
	return (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
}

static void say_garbage(struct liar *l, int64_t now)
{
	uint32_t *word = (uint32_t *)l->desk->seat[0];

	for (size_t i = 0; i < 8 * sizeof(struct rf_desk_seat) / sizeof(*word); i++)
		word[i] = (uint32_t)any();
	l->desk->top = (uint32_t)any();
}

static void say_extremes(struct liar *l, int64_t now)
{
	static const uint64_t values[] = { 0, 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX };
	struct rf_desk_seat *s = l->desk->seat[0];

	for (int i = 0; i < 4; i++, s++)
		*s = (struct rf_desk_seat){ .seq = any() % 2,
					    .waiting = any() % 2,
					    .busy_from = values[any() % RF_COUNT(values)],
					    .busy_until = values[any() % RF_COUNT(values)],
					    .gpu_ns = values[any() % RF_COUNT(values)] };
	l->desk->top = 4;
}

static void say_nearly(struct liar *l, int64_t now)
{
	l->desk->seat[0][0] =
		(struct rf_desk_seat){ .waiting = any() % 2,
				       .busy_from = (uint64_t)now - any() % (10 * RF_MS),
				       .busy_until = (uint64_t)now + any() % (10 * RF_MS),
				       .gpu_ns = any() % (uint64_t)now };
	l->desk->top = 1;
}

static void say_falling(struct liar *l, int64_t now)
{
	l->told -= any() % RF_CREDIT;
	l->desk->seat[0][0] = (struct rf_desk_seat){ .waiting = 1, .gpu_ns = l->told };
	l->desk->top = 1;
}

static void say_only_waiting(struct liar *l, int64_t now)
{
	l->desk->seat[0][0] = (struct rf_desk_seat){ .waiting = 1 };
	l->desk->top = 1;
}

static void say_always_new(struct liar *l, int64_t now)
{
	l->desk->seat[0][0] = (struct rf_desk_seat){ .waiting = 1,
						     .busy_from = (uint64_t)now,
						     .busy_until = (uint64_t)now + RF_MS,
						     .gpu_ns = ++l->told };
	l->desk->top = 1;
}

/* Processes that never come in, and are as if new again and again. */
static void say_many_waiting(struct liar *l, int64_t now)
{
	for (int i = 0; i < 64; i++) {
		struct rf_desk_seat *s = &l->desk->seat[0][i];

		*s = (struct rf_desk_seat){ .waiting = 1, .seq = s->seq + (any() % 16 ? 0 : 2) };
	}
	l->desk->top = 64;
}

/* Busy for a while, and then it was nothing. */
static void say_taken_back(struct liar *l, int64_t now)
{
	if (l->since == 0 || now - l->since > 2 * RF_MS)
		l->since = now;
	l->desk->seat[0][0] = (struct rf_desk_seat){ 0 };
	if (now - l->since < 1900 * RF_US)
		l->desk->seat[0][0] =
			(struct rf_desk_seat){ .busy_from = (uint64_t)l->since,
					       .busy_until = (uint64_t)now + RF_MS };
	l->desk->top = 1;
}

static void play_beside(struct stage *s, struct liar *l, void (*say)(struct liar *, int64_t),
			int64_t ns)
{
	for (int64_t end = s->now + ns; s->now < end;) {
		say(l, s->now);
		if (any() % 4 == 0)
			ring(s);
		play(s, STEP * (int64_t)(1 + any() % 20));
	}
}

static void whatever_is_written_on_a_desk_others_keep_their_share(void **state RF_UNUSED)
{
	static const struct {
		const char *what;
		void (*say)(struct liar *, int64_t);
	} ways[] = {
		{ "garbage", say_garbage },	      { "extremes", say_extremes },
		{ "nearly true", say_nearly },	      { "falling", say_falling },
		{ "only waiting", say_only_waiting }, { "always new", say_always_new },
		{ "taken back", say_taken_back },     { "many waiting", say_many_waiting },
	};
	unsigned seed = 4711;

	print_message("seed %u\n", seed);
	srand(seed);
	for (size_t i = 0; i < RF_COUNT(ways) * 2; i++) {
		bool burst = i & 1;
		struct stage *s = open_stage();
		struct liar l = { .desk = rf_alloc(sizeof(*l.desk)), .told = UINT64_MAX / 2 };
		struct program *a = enter(s, 450, false, RF_MS);
		struct program *b = enter(s, 450, false, RF_MS);

		memset(l.desk, 0, sizeof(*l.desk));
		l.member = (struct rf_member){ .gate = &l.gate,
					       .desk = l.desk,
					       .ledger_fd = -1,
					       .share = 100,
					       .burst = burst };
		rf_turns_add(&s->card, &l.member, s->now);
		play_beside(s, &l, ways[i / 2].say, 4000 * RF_MS);
		print_message("  %s%s: %.1f and %.1f\n", ways[i / 2].what, burst ? ", burst" : "",
			      share_of(a, 0, 4000 * RF_MS), share_of(b, 0, 4000 * RF_MS));
		assert_true(share_of(a, 0, 4000 * RF_MS) >= 25);
		assert_true(share_of(b, 0, 4000 * RF_MS) >= 25);
		close_stage(s);
		free(l.desk);
	}
}

/* A process may spoil its own fence's share, but none of its siblings waits for it for long. */
static void whatever_a_process_says_its_siblings_go_on(void **state RF_UNUSED)
{
	unsigned seed = 4714;
	int64_t worst = 0;
	double least_ = 100;

	print_message("seed %u\n", seed);
	srand(seed);
	for (int i = 0; i < 42; i++) {
		struct stage *s = open_stage();
		struct program *a = enter(s, 500, true, RF_MS);
		struct rf_desk_seat *bad = &a->desk->seat[0][1];
		uint32_t *word = (uint32_t *)bad;
		int64_t pause = 0, before = 0, since = s->now;

		a->desk->top = 4;
		for (int64_t end = s->now + 3000 * RF_MS; s->now < end;) {
			if (i % 2)
				for (size_t j = 0; j < 3 * sizeof(*bad) / sizeof(*word); j++)
					word[j] = (uint32_t)any();
			for (int j = 0; i % 2 == 0 && j < 3; j++)
				bad[j] = (struct rf_desk_seat){
					.seq = bad[j].seq + (any() % 4 ? 2 : 0),
					.waiting = any() % 2,
					.busy_from = any() % 2 ? (uint64_t)s->now - RF_MS : 0,
					.busy_until = (uint64_t)s->now + any() % (1000 * RF_MS),
					.gpu_ns = bad[j].gpu_ns + any() % RF_MS
				};
			if (any() % 4 == 0)
				ring(s);
			/* From a word that is always new to one that stays for long. */
			for (int64_t until = s->now + STEP * (int64_t)(1 + any() % (1u << i % 14));
			     s->now < until;) {
				play(s, STEP);
				if (a->done_work != before)
					since = s->now;
				before = a->done_work;
				pause = s->now - since > pause ? s->now - since : pause;
			}
		}
		worst = pause > worst ? pause : worst;
		least_ = least_of(least_, share_of(a, 0, 3000 * RF_MS));
		close_stage(s);
	}
	print_message("  beside three: %.1f at least, a pause of %.1f ms at most\n", least_,
		      (double)worst / RF_MS);
	assert_true(least_ >= 22);
	assert_true(worst <= 3 * 45 * RF_MS);
}

/* --- those who keep to the gate and lie about what they do --- */

static void lie_always_new(struct program *p, int64_t now, struct rf_desk_seat *s)
{
	if (p->busy_from)
		s->busy_from = (uint64_t)now;
	s->gpu_ns = ++p->told;
}

static void lie_nothing_came_of_it(struct program *p, int64_t now, struct rf_desk_seat *s)
{
	s->gpu_ns = 0;
}

static void lie_a_tenth(struct program *p, int64_t now, struct rf_desk_seat *s)
{
	s->gpu_ns = (uint64_t)p->gpu_ns / 10;
	if (p->busy_from)
		s->busy_from = (uint64_t)(now - (now - p->busy_from) / 10);
}

/* It always waits and has always just ended something. */
static void lie_just_ended(struct program *p, int64_t now, struct rf_desk_seat *s)
{
	*s = (struct rf_desk_seat){ .waiting = 1, .gpu_ns = ++p->told };
}

static void lie_done_at_once(struct program *p, int64_t now, struct rf_desk_seat *s)
{
	s->waiting = 1;
	if (p->busy_from)
		s->busy_from = s->busy_until = (uint64_t)now;
	s->gpu_ns = ++p->told;
}

static void lie_silent(struct program *p, int64_t now, struct rf_desk_seat *s)
{
	*s = (struct rf_desk_seat){ 0 };
}

/* Any of these at any look, and now and then the truth. */
static void lie_as_it_comes(struct program *p, int64_t now, struct rf_desk_seat *s)
{
	static void (*const lies[])(struct program *, int64_t, struct rf_desk_seat *) = {
		lie_always_new, lie_nothing_came_of_it, lie_just_ended,
		lie_done_at_once, lie_silent,
	};
	unsigned sum = 0, n;

	for (n = 0; n < RF_COUNT(p->weight); n++)
		sum += p->weight[n];
	sum = (unsigned)rand() % sum;
	for (n = 0; sum >= p->weight[n]; n++)
		sum -= p->weight[n];
	if (n < RF_COUNT(lies))
		lies[n](p, now, s);
}

/* What a liar with a tenth of the card gets beside one that wants all of its nine tenths. */
static double gets(void (*lie)(struct program *, int64_t, struct rf_desk_seat *),
		   const unsigned weight[6], double *ret_other)
{
	struct stage *s = open_stage();
	struct program *a = enter(s, 100, false, RF_MS / 5);
	struct program *b = enter(s, 900, false, RF_MS);
	double got;

	a->lie = lie;
	if (weight)
		memcpy(a->weight, weight, sizeof(a->weight));
	play(s, 2000 * RF_MS);
	got = share_of(a, 0, 2000 * RF_MS);
	*ret_other = share_of(b, 0, 2000 * RF_MS);
	close_stage(s);
	return got;
}

/* Beside others: alone nobody is harmed by it, and who says nothing has the whole card in any case. */
static void who_understates_gets_two_and_a_half_times_its_share_at_most(void **state RF_UNUSED)
{
	static const struct {
		const char *what;
		void (*lie)(struct program *, int64_t, struct rf_desk_seat *);
	} ways[] = {
		{ "always new", lie_always_new },
		{ "nothing came of it", lie_nothing_came_of_it },
		{ "a tenth", lie_a_tenth },
		{ "done at once", lie_done_at_once },
		{ "just ended", lie_just_ended },
	};

	for (size_t i = 0; i < RF_COUNT(ways); i++) {
		double other;
		double got = gets(ways[i].lie, NULL, &other);

		print_message("  %s: %.1f beside %.1f\n", ways[i].what, got, other);
		assert_true(got <= 28 && other >= 70);
	}
}

/* Who says nothing has no work as far as anybody can tell: the card's own slices are what is left. */
static void no_liar_takes_more_than_the_cards_own_slices_give(void **state RF_UNUSED)
{
	unsigned seed = 4713, weight[6];
	double least_ = 100, other;

	print_message("seed %u\n", seed);
	srand(seed);
	gets(lie_silent, NULL, &other);
	assert_true(other >= 38);
	for (int i = 0; i < 60; i++) {
		for (size_t j = 0; j < RF_COUNT(weight); j++)
			weight[j] = rand() % 3 ? 0 : 1 + (unsigned)rand() % 100;
		weight[5]++;
		gets(lie_as_it_comes, weight, &other);
		least_ = other < least_ ? other : least_;
	}
	print_message("  the other gets %.1f of 90 at least\n", least_);
	assert_true(least_ >= 38);
}

/* As with SIGSTOP: it waits, and does not come when it may. */
static void one_that_is_stopped_while_it_waits_holds_nobody_up(void **state RF_UNUSED)
{
	struct stage *s = open_stage();
	struct program *a = enter(s, 500, true, RF_MS);
	struct program *b = enter(s, 500, true, RF_MS);
	int64_t before_a, before_b;

	play(s, 500 * RF_MS);
	while (!b->wants || b->inflight)
		play(s, STEP);
	b->stopped = true;
	before_a = a->done_work;
	play(s, 2000 * RF_MS);
	assert_true(share_of(a, before_a, 2000 * RF_MS) >= 90);
	b->stopped = false;
	before_a = a->done_work;
	before_b = b->done_work;
	play(s, 2000 * RF_MS);
	assert_near(share_of(a, before_a, 2000 * RF_MS), 49, 4, "after it went on");
	assert_near(share_of(b, before_b, 2000 * RF_MS), 49, 4, "the one that was stopped");
	close_stage(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone_a_fence_gets_its_share_and_no_more),
		cmocka_unit_test(saturating_fences_share_in_proportion),
		cmocka_unit_test(who_uses_little_waits_for_one_kernel),
		cmocka_unit_test(who_is_expected_is_so_on_a_machine_that_is_late_at_times),
		cmocka_unit_test(who_is_late_once_is_still_expected),
		cmocka_unit_test(processes_of_a_fence_change_nothing),
		cmocka_unit_test(one_that_uses_little_does_not_wait_for_its_siblings),
		cmocka_unit_test(one_that_is_stopped_does_not_hold_its_siblings_up),
		cmocka_unit_test(idle_time_is_lent_and_given_back_at_once),
		cmocka_unit_test(who_worked_alone_has_its_share_when_somebody_comes),
		cmocka_unit_test(priority_goes_first_and_the_others_keep_their_floor),
		cmocka_unit_test(a_fence_that_leaves_frees_the_card),
		cmocka_unit_test(random_neighbours_take_nothing_from_each_other),
		cmocka_unit_test(whatever_is_written_on_a_desk_others_keep_their_share),
		cmocka_unit_test(whatever_a_process_says_its_siblings_go_on),
		cmocka_unit_test(who_understates_gets_two_and_a_half_times_its_share_at_most),
		cmocka_unit_test(no_liar_takes_more_than_the_cards_own_slices_give),
		cmocka_unit_test(one_that_is_stopped_while_it_waits_holds_nobody_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
