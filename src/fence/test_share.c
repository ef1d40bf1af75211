/* Time on a card, on simulated cards: fences in this process, programs in others. What programs got is
 * read from the card's own books; bounds are wide, so that only what is broken misses them.
 *
 * In a network namespace of its own, where nobody else's arbiter listens. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "fence/launch/launch.h"
#include "fence/test/alone.h"
#include "fence/server.h"
#include "sim/sim.h"
#include "sim/state.h"

#define PROBE FENCE_DIR "/fence_probe_share"
#define MS 1000000ll

static void pause_ms(int ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

/* --- the machine --- */

#define CARDS 8
static char folder[] = "/tmp/ringfence-share-XXXXXX";
static char sim_dir[64];
static struct rf_sim_card_info info[CARDS];
static struct sim_card *card[CARDS];

static void make_machine(void)
{
	struct rf_err err = RF_ERR_INIT;
	char path[128];
	size_t n = 0;

	snprintf(sim_dir, sizeof(sim_dir), "%s/sim", folder);
	if (rf_sim_machine_create(sim_dir, rf_str("8xH200"), NULL, &err) < 0 ||
	    rf_sim_machine_cards(sim_dir, info, CARDS, &n, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(n, CARDS);
	for (int i = 0; i < CARDS; i++) {
		snprintf(path, sizeof(path), "%s/nvidia%d", sim_dir, i);
		assert_int_equal(sim_card_open(path, &card[i]), 0);
	}
}

struct books {
	uint64_t clock, pid_ns;
};

/* What the card has done for the process, and its clock; pid 0: for anyone. */
static struct books read_books(int c, pid_t pid)
{
	struct books b = { 0 };

	assert_true(sim_lock(card[c]));
	sim_advance_all(card[c]);
	b.clock = sim_clock(card[c]);
	for (int i = 0; i < SIM_PROCS; i++) {
		pid_t holder = 0;

		if (card[c]->s->procs[i].used && sim_proc_alive(card[c], i, &holder) &&
		    (pid == 0 || holder == pid))
			b.pid_ns += card[c]->s->procs[i].busy.total_ns;
	}
	sim_unlock(card[c]);
	return b;
}

static double percent(struct books from, struct books to)
{
	return (double)(to.pid_ns - from.pid_ns) * 100 / (double)(to.clock - from.clock);
}

/* --- fences --- */

#define PENS 12

struct pen {
	char dir[64];
	int card;
	struct rf_fence_limits limits;
	struct rf_fence_server *server;
	int ledger_fd;
	int id; /* at the arbiter; 0: the test holds the gate itself */
	const struct rf_gate *gate;
	struct rf_gate *own_gate; /* ... and writes it */
	struct rf_desk *desk;
};

static struct rf_arbiter *arbiter;
static struct pen pens[PENS];
static pthread_mutex_t pens_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t server_thread;
static bool server_stop;

/* Also the ear of gates that the test holds itself: whoever rings is heard. */
static void *serve(void *arg)
{
	while (!__atomic_load_n(&server_stop, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&pens_lock);
		for (int i = 0; i < PENS; i++) {
			struct pen *p = &pens[i];

			if (p->server)
				rf_fence_server_turn(p->server);
			if (p->own_gate)
				__atomic_store_n(&p->own_gate->heard,
						 __atomic_load_n(&p->desk->ring, __ATOMIC_ACQUIRE),
						 __ATOMIC_RELEASE);
		}
		pthread_mutex_unlock(&pens_lock);
		pause_ms(1);
	}
	return NULL;
}

static void *map(int fd, size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void give_gate(struct pen *p, int gate, int desk)
{
	p->gate = map(gate, sizeof(*p->gate), PROT_READ);
	p->desk = map(desk, sizeof(*p->desk), PROT_READ | PROT_WRITE);
	assert_int_equal(rf_fence_server_set_gate(p->server, gate, desk), 0);
}

static void join_arbiter(struct pen *p)
{
	int gate, desk;

	assert_int_equal(rf_arbiter_add(arbiter, &p->limits, p->ledger_fd, &p->id, &gate, &desk),
			 0);
	give_gate(p, gate, desk);
}

/* A gate that the test opens and closes. */
static void hold_gate(struct pen *p)
{
	int gate = memfd_create("gate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int desk = memfd_create("desk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct rf_gate *g;

	assert_int_equal(ftruncate(gate, sizeof(*g)), 0);
	assert_int_equal(ftruncate(desk, sizeof(struct rf_desk)), 0);
	assert_int_equal(fcntl(gate, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(fcntl(desk, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	g = map(gate, sizeof(*g), PROT_READ | PROT_WRITE);
	*g = (struct rf_gate){ .magic = RF_GATE_MAGIC, .bytes = sizeof(*g), .cards = 1 };
	g->card[0].depth_us = 4000;
	g->card[0].share_milli = 250;
	p->desk = map(desk, sizeof(*p->desk), PROT_READ | PROT_WRITE);
	p->desk->magic = RF_DESK_MAGIC;
	p->desk->bytes = sizeof(*p->desk);
	munmap(p->desk, sizeof(*p->desk));
	give_gate(p, gate, desk);
	p->own_gate = g;
}

static void set_gate(struct pen *p, uint64_t until)
{
	struct rf_gate_card *g = &p->own_gate->card[0];

	__atomic_store_n(&g->open_until, until, __ATOMIC_RELEASE);
	__atomic_add_fetch(&g->turn, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &g->turn, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static struct pen *open_pen(int c, uint32_t milli, bool burst, bool own_gate)
{
	struct rf_fence_card limit = { .compute_milli = milli, .burst = burst };
	struct rf_err err = RF_ERR_INIT;
	char ledger[80];
	struct pen *p = pens;

	while (p->server)
		p++;
	assert_true(p < pens + PENS);
	snprintf(limit.uuid, sizeof(limit.uuid), "%s", info[c].uuid);
	pthread_mutex_lock(&pens_lock);
	memset(p, 0, sizeof(*p));
	p->card = c;
	snprintf(p->dir, sizeof(p->dir), "%s/pen%d", folder, (int)(p - pens));
	snprintf(ledger, sizeof(ledger), "%s.ledger", p->dir);
	unlink(ledger);
	if (rf_fence_limits_fill(&p->limits, &limit, 1, &err) < 0 ||
	    rf_fence_server_start(p->dir, ledger, &limit, 1, NULL, &p->server, &err) < 0)
		fail_msg("%s", err.msg);
	p->ledger_fd = open(ledger, O_RDWR | O_CLOEXEC);
	assert_true(p->ledger_fd >= 0);
	if (own_gate)
		hold_gate(p);
	else
		join_arbiter(p);
	pthread_mutex_unlock(&pens_lock);
	return p;
}

static void close_pen(struct pen *p)
{
	char ledger[80];

	pthread_mutex_lock(&pens_lock);
	if (p->id && arbiter)
		rf_arbiter_remove(arbiter, p->id);
	rf_fence_server_stop(p->server);
	p->server = NULL;
	if (p->own_gate)
		munmap(p->own_gate, sizeof(*p->own_gate));
	p->own_gate = NULL;
	munmap((void *)(uintptr_t)p->gate, sizeof(*p->gate));
	munmap(p->desk, sizeof(*p->desk));
	close(p->ledger_fd);
	pthread_mutex_unlock(&pens_lock);
	snprintf(ledger, sizeof(ledger), "%s.ledger", p->dir);
	unlink(ledger);
	rmdir(p->dir);
}

/* --- programs --- */

struct prog {
	pid_t pid;
	int in, out;
};

static char *environment[5];

static void set_environment(const char *visible)
{
	static char preload[] = "LD_PRELOAD=" FENCE_DIR "/libringfence_test.so";
	static char path[] = "LD_LIBRARY_PATH=" SIM_LIB_DIR;
	static char sim[96], devices[96];

	snprintf(sim, sizeof(sim), "RINGFENCE_SIM=%s", sim_dir);
	snprintf(devices, sizeof(devices), "CUDA_VISIBLE_DEVICES=%s", visible);
	environment[0] = preload;
	environment[1] = path;
	environment[2] = sim;
	environment[3] = devices;
}

static struct prog start(const struct pen *p, const char *what, const char *us, const char *how)
{
	static char probe[] = PROBE;
	char *argv[] = { probe, (char *)(uintptr_t)what, (char *)(uintptr_t)us,
			 (char *)(uintptr_t)how, NULL };
	posix_spawn_file_actions_t actions;
	struct prog g = { .pid = -1 };
	int in[2], out[2];

	set_environment(info[p->card].uuid);
	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	posix_spawn_file_actions_addchdir_np(&actions, p->dir);
	assert_int_equal(posix_spawn(&g.pid, PROBE, &actions, NULL, argv, environment), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	g.in = in[1];
	g.out = out[0];
	return g;
}

static bool has_said(struct prog *g, int ms)
{
	struct pollfd p = { .fd = g->out, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* '\0' if it has ended, or says nothing for long. */
static char said(struct prog *g)
{
	char c = 0;

	return has_said(g, 30000) && read(g->out, &c, 1) == 1 ? c : 0;
}

static void say(struct prog *g, char c)
{
	assert_int_equal(write(g->in, &c, 1), 1);
}

static int ended(struct prog *g)
{
	int status = -1;

	close(g->in);
	assert_int_equal(waitpid(g->pid, &status, 0), g->pid);
	close(g->out);
	return status;
}

static void end(struct prog *g)
{
	kill(g->pid, SIGKILL);
	ended(g);
}

/* Not while it holds the simulated card's lock: all others would wait for it, and a real card has none. */
static void stop(const struct pen *p, const struct prog *g)
{
	int status = 0;

	assert_true(sim_lock(card[p->card]));
	kill(g->pid, SIGSTOP);
	assert_int_equal(waitpid(g->pid, &status, WUNTRACED), g->pid);
	sim_unlock(card[p->card]);
	assert_true(WIFSTOPPED(status));
}

/* --- shares --- */

struct contest {
	const char *what;
	int card;
	struct {
		uint32_t milli;
		bool burst;
		const char *how, *us, *second; /* a second process in the same fence */
		const char *scenario;
		double low, high;
	} fence[2];
	double ratio_low, ratio_high; /* second over first */
	enum rf_sim_nvml nvml;
};

#define RUNS 4

struct run {
	struct pen *pen[2];
	struct prog prog[RUNS];
	int owner[RUNS];
	int n;
	struct books from[RUNS];
	double got[2];
};

static void begin_contest(const struct contest *c, struct run *r)
{
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_sim_nvml(sim_dir, (unsigned)c->card, c->nvml, &err), 0);
	for (int i = 0; i < 2 && c->fence[i].how; i++) {
		const char *what = c->fence[i].scenario ? c->fence[i].scenario : "work";

		r->pen[i] = open_pen(c->card, c->fence[i].milli, c->fence[i].burst, false);
		r->owner[r->n] = i;
		r->prog[r->n++] = start(r->pen[i], what, c->fence[i].us, c->fence[i].how);
		if (!c->fence[i].second)
			continue;
		r->owner[r->n] = i;
		r->prog[r->n++] = start(r->pen[i], what, c->fence[i].us, c->fence[i].second);
	}
}

/* A program's books, or those of the whole card if it works through a child. */
static struct books books_of(const struct contest *c, const struct run *r, int i)
{
	return read_books(c->card, c->fence[r->owner[i]].scenario ? 0 : r->prog[i].pid);
}

static bool is_between(double got, double low, double high)
{
	return got >= low && got <= high;
}

/* Whether all got what they should. */
static bool end_contest(const struct contest *c, struct run *r)
{
	bool good = true;

	for (int i = 0; i < r->n; i++)
		r->got[r->owner[i]] += percent(r->from[i], books_of(c, r, i));
	for (int i = 0; i < r->n; i++)
		kill(r->prog[i].pid, SIGSTOP); /* all at once, before the others hear */
	for (int i = 0; i < r->n; i++)
		end(&r->prog[i]);
	print_message("  %s: %.1f", c->what, r->got[0]);
	for (int i = 0; i < 2 && r->pen[i]; i++) {
		close_pen(r->pen[i]);
		if (i > 0)
			print_message(" and %.1f", r->got[i]);
		good = good && is_between(r->got[i], c->fence[i].low, c->fence[i].high);
	}
	print_message("\n");
	if (c->ratio_high > 0)
		good = good && is_between(r->got[1] / r->got[0], c->ratio_low, c->ratio_high);
	return good;
}

/* All at the same time, on a card each. */
static void hold_contests(const struct contest *c, int n, int ms, bool good[])
{
	struct run r[CARDS] = { 0 };

	for (int i = 0; i < n; i++)
		begin_contest(&c[i], &r[i]);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < r[i].n; j++)
			assert_int_equal(said(&r[i].prog[j]), 'r');
	pause_ms(150);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < r[i].n; j++)
			r[i].from[j] = books_of(&c[i], &r[i], j);
	pause_ms(ms);
	for (int i = 0; i < n; i++)
		good[i] = end_contest(&c[i], &r[i]);
}

/* A machine that is busy with other things may spoil a contest, but not four times. */
static void must_hold(const struct contest *c, int n)
{
	bool good[CARDS];

	hold_contests(c, n, 1200, good);
	for (int i = 0; i < n; i++) {
		for (int again = 0; again < 3 && !good[i]; again++)
			hold_contests(&c[i], 1, 1200, &good[i]);
		if (!good[i])
			fail_msg("%s: not what was asked for", c[i].what);
	}
}

#define QUARTER(how, us)                                                                           \
	{                                                                                          \
		{                                                                                  \
			250, false, how, us, .low = 15, .high = 35                                 \
		}                                                                                  \
	}

static void a_share_is_what_was_asked_however_it_is_used(void **state)
{
	static const struct contest first[] = {
		{ "launches", 0, QUARTER("plain", "2000") },
		{ "graphs", 1, QUARTER("graph", "1000"), .nvml = RF_SIM_NVML_DEAD },
		{ "four streams", 2, QUARTER("streams", "1000"), .nvml = RF_SIM_NVML_STALE },
		{ "two processes",
		  3,
		  { { 250, false, "plain", "2000", .second = "graph", .low = 15, .high = 35 } } },
	};
	static const struct contest second[] = {
		{ "cooperative", 0, QUARTER("coop", "3000"), .nvml = RF_SIM_NVML_EMPTY },
		{ "Ex", 1, QUARTER("ex", "5000") },
		{ "_ptsz", 2, QUARTER("ptsz", "1000"), .nvml = RF_SIM_NVML_IMPOSSIBLE },
		{ "waiting for each", 3, QUARTER("sync", "2000"), .nvml = RF_SIM_NVML_NOT_FOUND },
		{ "a child of a fork",
		  4,
		  { { 250, false, "plain", "2000", .scenario = "child", .low = 15, .high = 35 } } },
	};

	must_hold(first, RF_COUNT(first));
	must_hold(second, RF_COUNT(second));
}

static void two_share_in_proportion_and_one_alone_may_burst(void **state)
{
	static const struct contest c[] = {
		{ "30 and 70",
		  0,
		  { { 300, false, "plain", "1000", .low = 18, .high = 40 },
		    { 700, false, "plain", "1000", .low = 50, .high = 80 } },
		  1.8,
		  2.9,
		  RF_SIM_NVML_DEAD },
		{ "30 and 70 with burst",
		  1,
		  { { 300, true, "graph", "1000", .low = 18, .high = 45 },
		    { 700, true, "streams", "1000", .low = 50, .high = 80 } },
		  1.6,
		  3.2 },
		{ "burst alone", 2, { { 250, true, "plain", "2000", .low = 80, .high = 101 } } },
	};

	must_hold(c, RF_COUNT(c));
}

/* --- copies --- */

static struct rf_desk_seat seat_of(const struct pen *p)
{
	struct rf_desk_seat s = { 0 };

	rf_desk_read(&p->desk->seat[0][0], &s);
	return s;
}

static bool waits(const struct pen *p, uint32_t threads)
{
	for (int i = 0; i < 10000; i++) {
		if (seat_of(p).waiting >= threads)
			return true;
		pause_ms(1);
	}
	return false;
}

static void work_of_the_card_itself_waits_at_the_gate_and_copies_of_the_host_do_not(void **state)
{
	struct pen *p = open_pen(5, 250, false, true);
	struct prog g = start(p, "copies", "1000", "");

	set_gate(p, 0);
	assert_int_equal(said(&g), 'r');
	for (int i = 0; i < 30; i++) {
		uint64_t launches = seat_of(p).launches;
		char result;

		say(&g, (char)(i + 1));
		if (!waits(p, 1))
			fail_msg("copy %d did not wait", i);
		assert_false(has_said(&g, 0));
		set_gate(p, RF_GATE_STANDING);
		result = said(&g);
		if (result != 'd' && !(result == 'n' && i >= 17))
			fail_msg("copy %d: %c", i, result);
		/* What the driver does not know was not launched. */
		assert_int_equal(seat_of(p).launches - launches, result == 'd' ? 1 : 0);
		set_gate(p, 0);
	}
	for (int i = 50; i < 59; i++) {
		uint64_t launches = seat_of(p).launches;

		say(&g, (char)(i + 1));
		if (said(&g) != (i == 58 ? 'n' : 'd'))
			fail_msg("copy %d", i);
		assert_int_equal(seat_of(p).launches, launches);
		assert_int_equal(seat_of(p).waiting, 0);
	}
	set_gate(p, RF_GATE_STANDING);
	for (int i = 70; i < 73; i++) {
		uint64_t launches = seat_of(p).launches;

		say(&g, (char)(i + 1));
		assert_int_equal(said(&g), 'd');
		assert_int_equal(seat_of(p).launches, launches + 1);
		assert_int_equal(seat_of(p).busy_from, 0);
	}
	assert_int_equal(ended(&g), 0);
	close_pen(p);
}

/* --- captures --- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Leases come and go while the program captures. */
static void flicker(struct pen *p, struct prog *g)
{
	while (!has_said(g, 3)) {
		set_gate(p, now_ns() + (uint64_t)(rand() % 4) * MS);
		pause_ms(rand() % 4);
		p->own_gate->card[0].depth_us = rand() % 2 ? 500 : 4000;
		p->own_gate->card[0].tell = (uint32_t)rand() % 4;
		set_gate(p, 0);
	}
}

static void a_capture_has_the_programs_nodes_and_waits_for_nobody(void **state)
{
	struct pen *p = open_pen(6, 250, false, true);
	struct prog g = start(p, "captures", "300", "");
	struct rf_desk_seat before, after;

	srand(20261115);
	set_gate(p, 0);
	assert_int_equal(said(&g), 'r');
	/* Closed: the four other threads wait, the captures do not. */
	assert_true(waits(p, 4));
	for (int i = 0; i < 3; i++) {
		say(&g, 'c');
		assert_int_equal(said(&g), 'd');
		assert_int_equal(seat_of(p).launches, 0);
	}
	for (int i = 0; i < 2; i++) {
		say(&g, 'f');
		flicker(p, &g);
		assert_int_equal(said(&g), 'd');
	}
	assert_true(seat_of(p).launches > 0);
	set_gate(p, RF_GATE_STANDING);
	say(&g, 's');
	assert_int_equal(said(&g), 'd');
	/* Each launch of the graph counts as one, and its six kernels take 1.8 ms. */
	before = seat_of(p);
	say(&g, 'g');
	assert_int_equal(said(&g), 'd');
	after = seat_of(p);
	assert_int_equal(after.launches - before.launches, 5);
	assert_int_equal(after.busy_from, 0);
	assert_true(after.gpu_ns - before.gpu_ns >= 5 * 1800000ull * 8 / 10);
	assert_int_equal(ended(&g), 0);
	close_pen(p);
}

static void so_does_one_in_a_blocking_stream(void **state)
{
	struct pen *p = open_pen(6, 250, false, true);
	struct prog g;

	set_gate(p, RF_GATE_STANDING);
	g = start(p, "blocking", "300", "");
	assert_int_equal(said(&g), 'r');
	for (int i = 0; i < 2; i++) {
		say(&g, 'f');
		flicker(p, &g);
		assert_int_equal(said(&g), 'd');
	}
	set_gate(p, RF_GATE_STANDING);
	end(&g);
	close_pen(p);
}

/* A capture goes with its stream, context or thread, or is ended with an error. Then the default stream gets events again:
 * without them nobody knows how long kernels take, and how many of them are in flight. */
static void a_capture_that_is_lost_is_over(void **state)
{
	for (const char *how = "scpqti"; *how; how++) {
		struct pen *p = open_pen(6, 250, false, true);
		uint64_t before;
		struct prog g;

		set_gate(p, RF_GATE_STANDING);
		g = start(p, "lost", "5000", "");
		assert_int_equal(said(&g), 'r');
		say(&g, *how);
		assert_int_equal(said(&g), 'd');
		before = seat_of(p).gpu_ns;
		say(&g, 'u');
		assert_int_equal(said(&g), 'd');
		print_message("  %c: %.1f of 100 ms\n", *how,
			      (double)(seat_of(p).gpu_ns - before) / 1e6);
		assert_in_range(seat_of(p).gpu_ns - before, 75 * MS, 135 * MS);
		assert_int_equal(ended(&g), 0);
		close_pen(p);
	}
}

/* --- programs that wait late --- */

/* Kernels that need a mark and such that need none. Once it is known that waiting says nothing, what counts is
 * the card's own time: not the 20 ms from the launch to the wait. */
static void who_comes_late_to_wait_pays_for_the_work_alone(void **state)
{
	static const char *const us[] = { "200", "1000" };

	for (int i = 0; i < 2; i++) {
		struct pen *p = open_pen(6, 250, false, true);
		struct rf_desk_seat from, to;
		struct prog g;

		set_gate(p, RF_GATE_STANDING);
		g = start(p, "work", us[i], "late");
		assert_int_equal(said(&g), 'r');
		do {
			pause_ms(1);
			from = seat_of(p);
		} while (from.launches < 5);
		do {
			pause_ms(1);
			to = seat_of(p);
		} while (to.launches < 25);
		print_message("  %s us: %.1f us each\n", us[i],
			      (double)(to.gpu_ns - from.gpu_ns) / 1e3 /
				      (to.launches - from.launches));
		assert_true((to.gpu_ns - from.gpu_ns) / (to.launches - from.launches) < 5000000);
		end(&g);
		close_pen(p);
	}
}

/* Who launches until it waits did not come late: its launches get no mark each, which would cost a microsecond. A
 * process publishes what it does at each mark, so the number of times tells. */
static void who_launches_until_it_waits_is_not_watched_more_closely(void **state)
{
	struct pen *p = open_pen(6, 900, false, true);
	struct rf_desk_seat from, to;
	struct prog g;

	set_gate(p, RF_GATE_STANDING);
	g = start(p, "work", "1", "batch");
	assert_int_equal(said(&g), 'r');
	do {
		pause_ms(1);
		from = seat_of(p);
	} while (from.launches < 500);
	do {
		pause_ms(1);
		to = seat_of(p);
	} while (to.launches < from.launches + 3000);
	print_message("  %u times in %u launches\n", (unsigned)(to.seq - from.seq) / 2,
		      (unsigned)(to.launches - from.launches));
	assert_true((to.seq - from.seq) / 2 < (to.launches - from.launches) / 5);
	end(&g);
	close_pen(p);
}

static void what_the_driver_refuses_is_not_counted(void **state)
{
	struct pen *p = open_pen(6, 250, false, true);
	struct prog g;

	set_gate(p, RF_GATE_STANDING);
	g = start(p, "work", "1000", "refused");
	assert_int_equal(said(&g), 'r');
	pause_ms(50);
	kill(g.pid, SIGSTOP); /* between two of them, mostly: it may also be in the middle of one */
	for (int i = 0; i < 50 && seat_of(p).busy_from; i++) {
		kill(g.pid, SIGCONT);
		pause_ms(1);
		kill(g.pid, SIGSTOP);
	}
	assert_int_equal(seat_of(p).busy_from, 0);
	assert_int_equal(seat_of(p).launches, 0);
	assert_true(seat_of(p).gpu_ns < 10000000);
	kill(g.pid, SIGCONT);
	end(&g);
	close_pen(p);
}

/* --- arbiters and processes that die --- */

/* What the process gets of the card; as above, a busy machine has more than one chance. */
static void must_get(int c, pid_t pid, int ms, double low, double high, const char *what)
{
	double got = 0;

	for (int i = 0; i < 5; i++) {
		struct books from = read_books(c, pid);

		pause_ms(ms);
		got = percent(from, read_books(c, pid));
		if (is_between(got, low, high))
			return;
	}
	fail_msg("%s: got %.1f, wanted %.0f to %.0f", what, got, low, high);
}

static void without_an_arbiter_programs_keep_to_their_share_and_take_the_next_one(void **state)
{
	struct pen *p = open_pen(7, 250, false, false);
	struct prog g = start(p, "work", "1000", "plain");

	assert_int_equal(said(&g), 'r');
	pause_ms(100);
	pthread_mutex_lock(&pens_lock);
	rf_arbiter_stop(arbiter);
	arbiter = NULL;
	p->id = 0;
	pthread_mutex_unlock(&pens_lock);
	pause_ms(200);
	must_get(7, g.pid, 1000, 12, 40, "self-paced");
	assert_int_equal(rf_arbiter_start(&arbiter), 0);
	pthread_mutex_lock(&pens_lock);
	munmap((void *)(uintptr_t)p->gate, sizeof(*p->gate));
	munmap(p->desk, sizeof(*p->desk));
	join_arbiter(p);
	pthread_mutex_unlock(&pens_lock);
	for (int i = 0; i < 10000 && seat_of(p).launches == 0; i++)
		pause_ms(1);
	assert_true(seat_of(p).launches > 0);
	must_get(7, g.pid, 1000, 15, 35, "under the new arbiter");
	end(&g);
	close_pen(p);
}

/* The new one has the fence for a while before its processes come. */
static void change_arbiter(struct pen *p)
{
	int gate, desk;

	pthread_mutex_lock(&pens_lock);
	rf_arbiter_stop(arbiter);
	arbiter = NULL;
	assert_int_equal(rf_arbiter_start(&arbiter), 0);
	munmap((void *)(uintptr_t)p->gate, sizeof(*p->gate));
	munmap(p->desk, sizeof(*p->desk));
	assert_int_equal(rf_fence_server_set_gate(p->server, -1, -1), 0);
	assert_int_equal(rf_arbiter_add(arbiter, &p->limits, p->ledger_fd, &p->id, &gate, &desk),
			 0);
	pthread_mutex_unlock(&pens_lock);
	pause_ms(150);
	pthread_mutex_lock(&pens_lock);
	give_gate(p, gate, desk);
	pthread_mutex_unlock(&pens_lock);
}

/* Until the process has launched so many times more, in milliseconds. */
static uint64_t time_for(const struct pen *p, uint32_t launches)
{
	uint32_t from = seat_of(p).launches;
	uint64_t began = now_ns();

	for (int i = 0; i < 30000 && seat_of(p).launches - from < launches; i++)
		pause_ms(1);
	return (now_ns() - began) / MS;
}

/* Twenty launches of a millisecond are 200 ms of a tenth. A new arbiter that took all of the process's past
 * for time used just now kept it waiting for a second. */
static void whoever_was_there_before_does_not_wait_for_a_new_arbiter(void **state)
{
	struct pen *p = open_pen(7, 100, false, false);
	struct prog g = start(p, "work", "1000", "plain");
	uint64_t took = 0;

	assert_int_equal(said(&g), 'r');
	for (int i = 0; i < 5; i++) {
		pause_ms(500);
		change_arbiter(p);
		/* The new desk says nothing before the process comes. */
		for (int j = 0; j < 10000 && seat_of(p).launches == 0; j++)
			pause_ms(1);
		took = time_for(p, 20);
		if (took < 500)
			break;
	}
	assert_true(took < 500);
	end(&g);
	close_pen(p);
}

/* As if the arbiter had ended, or with dead had been killed: it neither hears nor says so. */
static void change_gate(struct pen *p, bool dead)
{
	struct rf_gate *old = p->own_gate;

	pthread_mutex_lock(&pens_lock);
	if (!dead) {
		__atomic_store_n(&old->magic, 0, __ATOMIC_RELEASE);
		set_gate(p, 0);
	}
	munmap(p->desk, sizeof(*p->desk));
	munmap((void *)(uintptr_t)p->gate, sizeof(*p->gate));
	hold_gate(p);
	munmap(old, sizeof(*old));
	set_gate(p, RF_GATE_STANDING);
	p->own_gate->card[0].tell = RF_TELL_BEGIN;
	pthread_mutex_unlock(&pens_lock);
}

static void time_that_was_told_is_not_told_to_the_next_arbiter(void **state)
{
	struct pen *p = open_pen(6, 250, false, true);
	struct rf_fence_process list[4];
	const uint64_t ms = 1000000;
	struct prog g;

	set_gate(p, RF_GATE_STANDING);
	p->own_gate->card[0].tell = RF_TELL_BEGIN;
	g = start(p, "work", "1000", "sync");
	assert_int_equal(said(&g), 'r');
	for (int round = 0; round < 2; round++) {
		uint64_t told, changed;
		struct rf_desk_seat s;

		do {
			pause_ms(1);
			s = seat_of(p);
		} while (s.gpu_ns < 200 * ms);
		told = s.gpu_ns + s.gpu_gone_ms * ms;
		changed = now_ns();
		change_gate(p, round == 1);
		do {
			pause_ms(1);
			s = seat_of(p);
		} while (s.gpu_ns == 0);
		/* What it used since, and what it had in flight. */
		assert_true(s.gpu_ns <= now_ns() - changed + 10 * ms);
		assert_true(s.gpu_gone_ms * ms + ms >= told);
		assert_true(s.gpu_gone_ms * ms <= told + (now_ns() - changed));
		pthread_mutex_lock(&pens_lock);
		assert_int_equal(rf_fence_server_processes(p->server, 0, list, 4), 1);
		assert_true(list[0].gpu_ns >= told);
		pthread_mutex_unlock(&pens_lock);
	}
	end(&g);
	close_pen(p);
}

/* A standing gate whose arbiter is dead is no way in for good, and the dead one's books say nothing. */
static void a_gate_that_nobody_hears_at_does_not_stand_open(void **state)
{
	struct pen *p = open_pen(6, 250, false, true);
	struct rf_gate *deaf = p->own_gate;
	struct prog g;

	set_gate(p, RF_GATE_STANDING);
	deaf->card[0].tell = RF_TELL_BEGIN;
	pthread_mutex_lock(&pens_lock);
	p->own_gate = NULL; /* nobody hears */
	pthread_mutex_unlock(&pens_lock);
	g = start(p, "work", "1000", "sync");
	assert_int_equal(said(&g), 'r');
	assert_true(waits(p, 1));
	assert_true(seat_of(p).launches < 60); /* not until silence says that the arbiter is dead */
	must_get(6, g.pid, 1000, 12, 40, "at a gate that nobody hears at");
	pthread_mutex_lock(&pens_lock);
	p->own_gate = deaf;
	pthread_mutex_unlock(&pens_lock);
	must_get(6, g.pid, 300, 60, 101, "when somebody hears again");
	end(&g);
	close_pen(p);
}

static void one_that_is_killed_anywhere_holds_nobody_up(void **state)
{
	struct pen *a = open_pen(4, 500, true, false);
	struct pen *b = open_pen(4, 500, true, false);
	struct prog stays = start(a, "work", "1000", "plain");

	assert_int_equal(said(&stays), 'r');
	for (int i = 0; i < 8; i++) {
		struct prog dies = start(b, "work", "1000", i % 2 ? "sync" : "plain");

		assert_int_equal(said(&dies), 'r');
		pause_ms(20 + 7 * i);
		/* holding the lease, waiting for it, or just before or after */
		for (int j = 0; j < 2000 && (seat_of(b).waiting > 0) != (i % 4 < 2); j++)
			sched_yield();
		end(&dies);
		if (i % 2) /* in the middle of what it had to say */
			__atomic_or_fetch(&b->desk->seat[0][0].seq, 1, __ATOMIC_RELEASE);
		must_get(4, stays.pid, 150, 50, 101, "beside one that was killed");
	}
	/* The seat is taken by another, and all is well. */
	struct prog next = start(b, "work", "1000", "plain");
	assert_int_equal(said(&next), 'r');
	pause_ms(100);
	must_get(4, next.pid, 700, 30, 70, "after the dead ones");
	/* One that is stopped holds nobody up either. */
	stop(b, &next);
	pause_ms(100);
	must_get(4, stays.pid, 400, 60, 101, "beside one that is stopped");
	end(&next);
	end(&stays);
	close_pen(a);
	close_pen(b);
}

static void set_shut(struct pen *p, uint64_t seats, uint64_t until)
{
	__atomic_store_n(&p->own_gate->card[0].shut[0], seats, __ATOMIC_RELAXED);
	set_gate(p, until);
}

static bool launches_again(const struct pen *p)
{
	uint32_t from = seat_of(p).launches;

	for (int i = 0; i < 10000 && seat_of(p).launches - from < 5; i++)
		pause_ms(1);
	return seat_of(p).launches - from >= 5;
}

static bool rings(const struct pen *p)
{
	uint32_t from = __atomic_load_n(&p->desk->ring, __ATOMIC_ACQUIRE);

	/* Who waits rings every 30 ms; here it does not wait. */
	for (int i = 0; i < 200; i++) {
		pause_ms(1);
		if (__atomic_load_n(&p->desk->ring, __ATOMIC_ACQUIRE) - from >= 10)
			return true;
	}
	return false;
}

static void who_is_shut_out_waits_though_the_gate_is_open(void **state)
{
	struct pen *p = open_pen(6, 250, false, true);
	struct rf_gate_card *g = &p->own_gate->card[0];
	struct prog prog;
	uint32_t launches;

	set_shut(p, 1, RF_GATE_STANDING);
	prog = start(p, "work", "1000", "sync");
	assert_true(waits(p, 1));
	assert_false(has_said(&prog, 50));
	assert_int_equal(seat_of(p).launches, 0);
	set_shut(p, ~1ull, RF_GATE_STANDING); /* everybody else */
	assert_int_equal(said(&prog), 'r');
	assert_true(launches_again(p));
	set_shut(p, 1, now_ns() + 3600 * 1000 * MS);
	assert_true(waits(p, 1));
	launches = seat_of(p).launches;
	pause_ms(50);
	assert_int_equal(seat_of(p).launches, launches);
	set_shut(p, 0, now_ns() + 3600 * 1000 * MS);
	assert_true(launches_again(p));
	assert_false(rings(p));
	/* Beside a host it tells when it begins and ends, as the host itself it does not. */
	__atomic_store_n(&g->host, 2, __ATOMIC_RELAXED);
	__atomic_store_n(&g->tell, RF_TELL_BESIDE, __ATOMIC_RELEASE);
	assert_true(rings(p) || rings(p) || rings(p));
	__atomic_store_n(&g->host, 1, __ATOMIC_RELAXED);
	pause_ms(20);
	assert_false(rings(p));
	end(&prog);
	close_pen(p);
}

static uint32_t host_of(const struct pen *p)
{
	return __atomic_load_n(&p->gate->card[0].host, __ATOMIC_RELAXED);
}

/* Until it is the turn of the process on that seat, and the other one waits for it. */
static bool has_turn(const struct pen *p, unsigned seat)
{
	for (int i = 0; i < 100000; i++) {
		uint64_t shut = __atomic_load_n(&p->gate->card[0].shut[0], __ATOMIC_RELAXED);

		if (host_of(p) == seat + 1 && shut == 1ull << (1 - seat))
			return true;
		usleep(100);
	}
	return false;
}

/* The process on the first seat need not wait for the one on the second: it works, and is shut out hardly ever. As
 * above, a busy machine has more than one chance. */
static void must_go_on(const struct pen *p, const char *what)
{
	uint32_t launches = 0;
	int shut = 0;

	for (int i = 0; i < 5; i++) {
		uint32_t from = seat_of(p).launches;

		shut = 0;
		for (int j = 0; j < 300; j++) {
			shut += __atomic_load_n(&p->gate->card[0].shut[0], __ATOMIC_RELAXED) & 1;
			pause_ms(1);
		}
		launches = seat_of(p).launches - from;
		if (shut < 90 && launches > 20)
			return;
	}
	fail_msg("%s: shut out %d times of 300, %u launches", what, shut, launches);
}

/* Alone on its card with burst: what one does not get, the other does. */
static void processes_of_a_fence_take_turns_and_wait_for_no_dead_one(void **state)
{
	static const char *const hows[] = { "plain", "sync", "graph", "streams" };
	struct pen *p = open_pen(5, 500, true, false);
	struct prog stays = start(p, "work", "1000", "plain"), other;

	assert_int_equal(said(&stays), 'r');
	for (int i = 0; i < 8; i++) {
		other = start(p, "work", "1000", hows[i / 2]);
		assert_int_equal(said(&other), 'r');
		assert_true(has_turn(p, 0) && has_turn(p, 1) && has_turn(p, 0));
		must_get(5, stays.pid, 500, 10, 80, "beside a sibling");
		must_get(5, other.pid, 500, 10, 80, "the sibling");
		assert_true(has_turn(p, i % 2)); /* out of turn, or in it */
		stop(p, &other);
		must_go_on(p, "beside one that is stopped");
		kill(other.pid, SIGCONT);
		must_get(5, other.pid, 500, 10, 80, "when it goes on");
		assert_true(has_turn(p, i % 2));
		end(&other);
		if (i & 2) /* in the middle of what it had to say */
			__atomic_or_fetch(&p->desk->seat[0][1].seq, 1, __ATOMIC_RELEASE);
		must_go_on(p, "after one was killed");
	}
	end(&stays);
	close_pen(p);
}

static void litter(struct pen *bad)
{
	for (int i = 0; i < 700; i++) {
		uint32_t *word = (uint32_t *)&bad->desk->top;
		size_t n = i % 3 ? 400 : (sizeof(*bad->desk) - 12) / 4;

		for (size_t j = 0; j < n; j++)
			__atomic_store_n(&word[j], (uint32_t)rand() << 16 ^ (uint32_t)rand(),
					 __ATOMIC_RELAXED);
		syscall(SYS_futex, &bad->desk->ring, FUTEX_WAKE, 1, NULL, NULL, 0);
		pause_ms(1);
	}
}

static void garbage_on_a_desk_harms_no_other_fence(void **state)
{
	struct pen *a = open_pen(3, 300, true, false), *b = open_pen(3, 300, true, false);
	struct pen *bad = open_pen(3, 300, true, false);
	struct prog x = start(a, "work", "1000", "plain"), y = start(b, "work", "1000", "graph");
	struct prog z = start(bad, "work", "1000", "plain");
	double share_x = 0, share_y = 0;
	unsigned seed = 4712;

	print_message("seed %u\n", seed);
	srand(seed);
	assert_true(said(&x) == 'r' && said(&y) == 'r' && said(&z) == 'r');
	for (int again = 0; again < 4 && !(share_x > 15 && share_y > 15); again++) {
		struct books from_x = read_books(3, x.pid), from_y = read_books(3, y.pid);

		litter(bad);
		share_x = percent(from_x, read_books(3, x.pid));
		share_y = percent(from_y, read_books(3, y.pid));
	}
	assert_true(share_x > 15 && share_y > 15);
	end(&z);
	end(&x);
	end(&y);
	close_pen(bad);
	close_pen(a);
	close_pen(b);
}

static void a_process_that_forks_in_the_middle_leaves_no_lock_behind(void **state)
{
	struct pen *p = open_pen(2, 500, false, false);
	struct prog g = start(p, "forks", "300", "");

	assert_int_equal(ended(&g), 0);
	close_pen(p);
}

/* --- launchers --- */

/* This program again, since the launcher's own process must find the drivers. */
static pid_t start_launcher(void)
{
	static char self[] = "/proc/self/exe", what[] = "launcher";
	char *argv[] = { self, what, NULL };
	pid_t pid = -1;

	set_environment("");
	assert_int_equal(posix_spawn(&pid, self, NULL, NULL, argv, environment + 1), 0);
	return pid;
}

static int be_launcher(void)
{
	static char probe[] = PROBE, what[] = "work", us[] = "1000", how[] = "plain";
	char *argv[] = { probe, what, us, how, NULL };
	struct rf_launch_opts o = { .compute = "25", .cards = "1" };
	struct rf_err err = RF_ERR_INIT;
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	/* What the program says would stand before the name of the test, which nobody would count then. */
	if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
		return 1;
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (rf_launch(&o, argv, &err) >= 0)
		return 0;
	fprintf(stderr, "%s\n", err.msg);
	return 1;
}

/* The programs on the card, oldest first by their place there; waits until there are n. */
static bool programs_on(int c, pid_t ret[], int want)
{
	for (int t = 0; t < 10000; t++) {
		int n = 0;

		assert_true(sim_lock(card[c]));
		for (int i = 0; i < SIM_PROCS && n < want; i++) {
			pid_t pid = 0;

			if (card[c]->s->procs[i].used && sim_proc_alive(card[c], i, &pid) && pid)
				ret[n++] = pid;
		}
		sim_unlock(card[c]);
		if (n == want)
			return true;
		pause_ms(1);
	}
	return false;
}

static void when_the_launcher_with_the_arbiter_is_killed_both_programs_go_on(void **state)
{
	pid_t first, second, program[2] = { 0, 0 };

	if (!*(bool *)*state)
		skip();
	first = start_launcher();
	assert_true(programs_on(1, program, 1));
	second = start_launcher();
	assert_true(programs_on(1, program, 2));
	pause_ms(200);
	must_get(1, program[0], 700, 15, 35, "the first");
	must_get(1, program[1], 700, 15, 35, "the second");
	assert_int_equal(kill(first, SIGKILL), 0);
	assert_int_equal(waitpid(first, NULL, 0), first);
	pause_ms(300);
	must_get(1, program[0], 1000, 10, 42, "the one that has no launcher");
	must_get(1, program[1], 1000, 12, 42, "the one whose launcher took over");
	kill(program[0], SIGKILL);
	kill(program[1], SIGKILL);
	assert_int_equal(waitpid(second, NULL, 0), second);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* --- */

static int set_up(void **state)
{
	static bool alone;

	signal(SIGPIPE, SIG_IGN);
	alone = go_alone();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	*state = &alone;
	if (!mkdtemp(folder))
		return -1;
	make_machine();
	if (rf_arbiter_start(&arbiter) < 0)
		return -1;
	return pthread_create(&server_thread, NULL, serve, NULL);
}

static int tear_down(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	__atomic_store_n(&server_stop, true, __ATOMIC_RELEASE);
	pthread_join(server_thread, NULL);
	rf_arbiter_stop(arbiter);
	if (rf_sim_machine_remove(sim_dir, &err) < 0)
		print_error("%s\n", err.msg);
	return rmdir(folder);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "launcher") == 0)
		return be_launcher();

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_is_what_was_asked_however_it_is_used),
		cmocka_unit_test(two_share_in_proportion_and_one_alone_may_burst),
		cmocka_unit_test(
			work_of_the_card_itself_waits_at_the_gate_and_copies_of_the_host_do_not),
		cmocka_unit_test(a_capture_has_the_programs_nodes_and_waits_for_nobody),
		cmocka_unit_test(so_does_one_in_a_blocking_stream),
		cmocka_unit_test(a_capture_that_is_lost_is_over),
		cmocka_unit_test(who_comes_late_to_wait_pays_for_the_work_alone),
		cmocka_unit_test(who_launches_until_it_waits_is_not_watched_more_closely),
		cmocka_unit_test(what_the_driver_refuses_is_not_counted),
		cmocka_unit_test(
			without_an_arbiter_programs_keep_to_their_share_and_take_the_next_one),
		cmocka_unit_test(whoever_was_there_before_does_not_wait_for_a_new_arbiter),
		cmocka_unit_test(time_that_was_told_is_not_told_to_the_next_arbiter),
		cmocka_unit_test(a_gate_that_nobody_hears_at_does_not_stand_open),
		cmocka_unit_test(one_that_is_killed_anywhere_holds_nobody_up),
		cmocka_unit_test(who_is_shut_out_waits_though_the_gate_is_open),
		cmocka_unit_test(processes_of_a_fence_take_turns_and_wait_for_no_dead_one),
		cmocka_unit_test(garbage_on_a_desk_harms_no_other_fence),
		cmocka_unit_test(a_process_that_forks_in_the_middle_leaves_no_lock_behind),
		cmocka_unit_test(when_the_launcher_with_the_arbiter_is_killed_both_programs_go_on),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
