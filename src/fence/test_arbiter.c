/* The arbiter with more fences than one system call can watch: all are taken in, all are heard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macro.h"
#include "fence/arbiter.h"

#define N 300
#define CARDS 3
#define PATIENCE_NS (30ll * 1000000000)

struct fence {
	int id, ledger, gate_fd, desk_fd;
	const struct rf_gate *gate;
	struct rf_desk *desk;
};

static struct rf_arbiter *arbiter;
static struct fence all[N];

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int make_ledger(void)
{
	struct rf_ledger *l = calloc(1, sizeof(*l));
	int fd = memfd_create("ledger", MFD_CLOEXEC);

	assert_non_null(l);
	rf_ledger_format(l);
	assert_int_equal(write(fd, l, sizeof(*l)), sizeof(*l));
	free(l);
	return fd;
}

static void add(struct fence *f, unsigned card)
{
	struct rf_fence_limits limits = { .magic = RF_FENCE_MAGIC,
					  .version = RF_FENCE_VERSION,
					  .count = 1 };

	snprintf(limits.card[0].uuid, sizeof(limits.card[0].uuid),
		 "GPU-00000000-0000-0000-0000-00000000000%u", card);
	limits.card[0].memory_bytes = 1 << 20;
	limits.card[0].compute_milli = 10;
	limits.card[0].flags = RF_FENCE_BURST;
	f->ledger = make_ledger();
	assert_int_equal(
		rf_arbiter_add(arbiter, &limits, f->ledger, &f->id, &f->gate_fd, &f->desk_fd), 0);
	f->gate = mmap(NULL, sizeof(*f->gate), PROT_READ, MAP_SHARED, f->gate_fd, 0);
	f->desk = mmap(NULL, sizeof(*f->desk), PROT_READ | PROT_WRITE, MAP_SHARED, f->desk_fd, 0);
	assert_true(f->gate != MAP_FAILED && f->desk != MAP_FAILED);
}

static void drop(struct fence *f)
{
	rf_arbiter_remove(arbiter, f->id);
	assert_int_equal(f->gate->magic, 0);
	munmap((void *)(uintptr_t)f->gate, sizeof(*f->gate));
	munmap(f->desk, sizeof(*f->desk));
	close(f->ledger);
	close(f->gate_fd);
	close(f->desk_fd);
}

static int set_up(void **state RF_UNUSED)
{
	struct rlimit l;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &l), 0);
	l.rlim_cur = l.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &l), 0);
	assert_int_equal(rf_arbiter_start(&arbiter), 0);
	for (unsigned i = 0; i < N; i++)
		add(&all[i], i % CARDS);
	return 0;
}

static int tear_down(void **state RF_UNUSED)
{
	for (unsigned i = 0; i < N; i++)
		drop(&all[i]);
	rf_arbiter_stop(arbiter);
	return 0;
}

/* --- the fences' processes: one in all, since a seat is a lock of another process than the arbiter's --- */

static void ring(struct fence *f, uint32_t waiting)
{
	struct rf_desk_seat *s = &f->desk->seat[0][0];

	__atomic_store_n(&s->waiting, waiting, __ATOMIC_RELEASE);
	__atomic_add_fetch(&f->desk->ring, 1, __ATOMIC_ACQ_REL);
	syscall(SYS_futex, &f->desk->ring, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static bool is_let_in(const struct fence *f)
{
	return __atomic_load_n(&f->gate->card[0].open_until, __ATOMIC_ACQUIRE) > (uint64_t)now_ns();
}

static bool is_heard(const struct fence *f)
{
	return __atomic_load_n(&f->gate->heard, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&f->desk->ring, __ATOMIC_ACQUIRE);
}

static bool comes_true(bool (*what)(const struct fence *f), const struct fence *f)
{
	int64_t until = now_ns() + PATIENCE_NS;

	while (!what(f)) {
		if (now_ns() > until)
			return false;
		usleep(100);
	}
	return true;
}

static void sit_down(void)
{
	struct flock seat = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	for (unsigned i = 0; i < N; i++) {
		if (fcntl(all[i].ledger, F_SETLK, &seat) < 0)
			_exit(100);
		all[i].desk->top = 1;
	}
}

/* Runs it in a child that sits at every ledger; 0 is good. */
static void in_child(int (*what)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sit_down();
		_exit(what());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int one_by_one(void)
{
	for (unsigned i = 0; i < N; i++) {
		ring(&all[i], 1);
		if (!comes_true(is_heard, &all[i]))
			return 1;
		if (!comes_true(is_let_in, &all[i]))
			return 2;
		ring(&all[i], 0);
	}
	return 0;
}

/* Everybody waits; whoever was let in goes, so that the next one can. */
static int all_at_once(void)
{
	bool served[N] = { false };
	int64_t until = now_ns() + PATIENCE_NS;
	unsigned left = N;

	for (unsigned i = 0; i < N; i++)
		ring(&all[i], 1);
	while (left > 0 && now_ns() < until) {
		for (unsigned i = 0; i < N; i++) {
			if (served[i] || !is_let_in(&all[i]))
				continue;
			served[i] = true;
			left--;
			ring(&all[i], 0);
		}
		usleep(100);
	}
	return left == 0 ? 0 : 3;
}

static void every_fence_is_heard_and_let_in(void **state RF_UNUSED)
{
	in_child(one_by_one);
}

static void when_all_wait_all_are_let_in(void **state RF_UNUSED)
{
	in_child(all_at_once);
}

static void fences_come_and_go_among_many(void **state RF_UNUSED)
{
	for (unsigned i = 0; i < N; i += 7) {
		drop(&all[i]);
		add(&all[i], 0);
	}
	in_child(one_by_one);
}

static void a_card_takes_more_than_a_hundred_and_none_without_end(void **state RF_UNUSED)
{
	static struct fence more[200];
	unsigned n = 0;
	struct rf_fence_limits limits = { .count = 1 };
	int r = 0, id, gate, desk;

	snprintf(limits.card[0].uuid, sizeof(limits.card[0].uuid),
		 "GPU-00000000-0000-0000-0000-000000000009");
	for (; n < RF_COUNT(more); n++)
		add(&more[n], 9);
	for (unsigned i = 0; r == 0 && i < 1000; i++) {
		r = rf_arbiter_add(arbiter, &limits, more[0].ledger, &id, &gate, &desk);
		if (r == 0) {
			close(gate);
			close(desk);
		}
	}
	assert_int_equal(r, -ENOSPC);
	while (n > 0)
		drop(&more[--n]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fence_is_heard_and_let_in),
		cmocka_unit_test(when_all_wait_all_are_let_in),
		cmocka_unit_test(fences_come_and_go_among_many),
		cmocka_unit_test(a_card_takes_more_than_a_hundred_and_none_without_end),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
