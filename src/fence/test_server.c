/* The server by itself: guests in this thread, gates and desks made up. */
#include "fence/server.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define UUID "GPU-00000000-0000-0000-0000-000000000001"
#define MIB ((uint64_t)1 << 20)

static char folder[] = "/tmp/ringfence-server-XXXXXX";
static const struct rf_fence_card share[] = { { .uuid = UUID,
						.memory_bytes = 64 * MIB,
						.context_bytes = 7 * MIB,
						.compute_milli = 300,
						.priority = -3,
						.burst = true } };
static const struct rf_fence_card whole[] = { { .uuid = UUID, .compute_milli = 1000 } };

static struct rf_fence_server *start(const struct rf_fence_card *card, struct rf_arbiter *arbiter)
{
	struct rf_fence_server *s = NULL;
	struct rf_err err = RF_ERR_INIT;

	unlink("ledger");
	if (rf_fence_server_start(".", "ledger", card, 1, arbiter, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

static int dial(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "fence.sock" };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* How many descriptors came; -1: the server said nothing and hung up. */
static int hear(struct rf_fence_server *s, int fd, struct rf_fence_reply *reply, int fds[4])
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)] = { 0 };
	struct iovec iov = { reply, sizeof(*reply) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	do
		rf_fence_server_turn(s);
	while ((n = recvmsg(fd, &msg, MSG_DONTWAIT)) < 0);
	close(fd);
	if (n == 0)
		return -1;
	assert_int_equal(n, sizeof(*reply));
	assert_int_equal(reply->magic, RF_FENCE_MAGIC);
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	size_t count = c ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
	assert_int_equal(count, reply->fds);
	if (c)
		memcpy(fds, CMSG_DATA(c), count * sizeof(int));
	return (int)count;
}

static int ask(struct rf_fence_server *s, uint32_t wants, int fds[4])
{
	struct rf_fence_hello hello = { .magic = RF_FENCE_MAGIC,
					.version = RF_FENCE_VERSION,
					.wants = wants };
	struct rf_fence_reply reply = { 0 };
	int fd = dial(), n;

	assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
	n = hear(s, fd, &reply, fds);
	assert_true(n < 0 || reply.status == RF_FENCE_OK);
	return n;
}

static void close_all(const int *fds, int n)
{
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

static int same_file(int a, int b)
{
	struct stat x, y;

	assert_int_equal(fstat(a, &x), 0);
	assert_int_equal(fstat(b, &y), 0);
	return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int make(size_t size, uint64_t magic, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(pwrite(fd, &magic, sizeof(magic), 0), sizeof(magic));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#define SIZED (F_SEAL_GROW | F_SEAL_SHRINK)

static int make_gate(void)
{
	return make(sizeof(struct rf_gate), RF_GATE_MAGIC, SIZED);
}

static int make_desk(void)
{
	return make(sizeof(struct rf_desk), RF_DESK_MAGIC, SIZED);
}

/* --- promises --- */

static void a_whole_card_has_no_gate_and_a_share_has_one(void **state)
{
	struct rf_arbiter *arbiter = NULL;
	struct rf_fence_limits limits;
	struct rf_fence_server *s;
	int fds[4];

	assert_int_equal(rf_arbiter_start(&arbiter), 0);
	s = start(whole, arbiter);
	assert_int_equal(ask(s, RF_FENCE_WANT_ALL, fds), 2);
	close_all(fds, 2);
	assert_int_equal(ask(s, RF_FENCE_WANT_GATE, fds), -1);
	rf_fence_server_stop(s);

	s = start(share, arbiter);
	assert_int_equal(ask(s, RF_FENCE_WANT_ALL, fds), 4);
	assert_int_equal(pread(fds[0], &limits, sizeof(limits), 0), sizeof(limits));
	assert_int_equal(limits.count, 1);
	assert_string_equal(limits.card[0].uuid, UUID);
	assert_int_equal(limits.card[0].memory_bytes, 64 * MIB);
	assert_int_equal(limits.card[0].context_bytes, 7 * MIB);
	assert_int_equal(limits.card[0].compute_milli, 300);
	assert_int_equal(limits.card[0].priority, -3);
	assert_int_equal(limits.card[0].flags, RF_FENCE_BURST);
	assert_true(pwrite(fds[0], &limits, 1, 0) < 0);
	/* The gate is the arbiter's alone. */
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[2], 0),
			 MAP_FAILED);
	int again[4];
	assert_int_equal(ask(s, RF_FENCE_WANT_GATE, again), 2);
	assert_true(same_file(again[0], fds[2]));
	assert_true(same_file(again[1], fds[3]));
	close_all(again, 2);
	close_all(fds, 4);
	assert_int_equal(rf_fence_server_handshakes(s), 2);
	rf_fence_server_stop(s);
	rf_arbiter_stop(arbiter);
}

static void without_a_gate_nobody_is_answered(void **state)
{
	struct rf_fence_server *s = start(share, NULL);
	int gate = make_gate(), desk = make_desk();
	int other_gate = make_gate(), other_desk = make_desk();
	int kept[] = { dup(gate), dup(other_gate) };
	int fds[4];

	assert_int_equal(ask(s, RF_FENCE_WANT_ALL, fds),
			 2); /* nobody said that there is to be one */
	close_all(fds, 2);
	assert_int_equal(rf_fence_server_set_gate(s, gate, desk), 0);
	assert_int_equal(ask(s, RF_FENCE_WANT_ALL, fds), 4);
	assert_true(same_file(fds[2], kept[0]));
	close_all(fds, 4);
	assert_int_equal(rf_fence_server_set_gate(s, -1, -1), 0);
	assert_int_equal(ask(s, RF_FENCE_WANT_ALL, fds), -1);
	assert_int_equal(ask(s, RF_FENCE_WANT_GATE, fds), -1);
	assert_int_equal(rf_fence_server_set_gate(s, other_gate, other_desk), 0);
	assert_int_equal(ask(s, RF_FENCE_WANT_GATE, fds), 2);
	assert_true(same_file(fds[0], kept[1]));
	close_all(fds, 2);
	close_all(kept, 2);
	rf_fence_server_stop(s);
}

static void a_gate_that_is_none_is_not_handed_out(void **state)
{
	struct rf_fence_server *s = start(share, NULL);
	int fds[4];

	assert_int_equal(
		rf_fence_server_set_gate(
			s, make(sizeof(struct rf_gate), RF_GATE_MAGIC, F_SEAL_GROW), make_desk()),
		-EINVAL);
	assert_int_equal(rf_fence_server_set_gate(s, make(4096, RF_GATE_MAGIC, SIZED), make_desk()),
			 -EINVAL);
	assert_int_equal(
		rf_fence_server_set_gate(s, make_gate(), make(sizeof(struct rf_desk), 1, SIZED)),
		-EINVAL);
	assert_int_equal(rf_fence_server_set_gate(s, make_gate(), -1), -EINVAL);
	assert_int_equal(ask(s, RF_FENCE_WANT_ALL, fds), -1);
	rf_fence_server_stop(s);
}

static void another_version_is_told_so_whatever_its_size(void **state)
{
	struct rf_fence_server *s = start(share, NULL);
	uint32_t old[2] = { RF_FENCE_MAGIC, 1 }, junk[2] = { 7, 7 };
	struct rf_fence_reply reply = { 0 };
	int fds[4], fd = dial();

	assert_int_equal(send(fd, old, sizeof(old), 0), sizeof(old));
	assert_int_equal(hear(s, fd, &reply, fds), 0);
	assert_int_equal(reply.status, RF_FENCE_BAD_VERSION);
	fd = dial();
	assert_int_equal(send(fd, junk, sizeof(junk), 0), sizeof(junk));
	assert_int_equal(hear(s, fd, &reply, fds), -1);
	assert_int_equal(rf_fence_server_handshakes(s), 0);
	rf_fence_server_stop(s);
}

static bool only(void *ctx, pid_t pid)
{
	return pid == *(pid_t *)ctx;
}

/* Words that nobody read turn the end into a reset. */
static bool is_hung_up(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

static struct rf_fence_server *start_at(pid_t *only_pid, int *ret_ledger)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "fence.sock" };
	struct rf_fence_server *s = NULL;
	struct rf_fence_limits limits;
	struct rf_ledger *l = rf_new(struct rf_ledger);
	int ledger = make(sizeof(*l), 0, SIZED);
	int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	rf_ledger_format(l);
	assert_int_equal(pwrite(ledger, l, sizeof(*l), 0), sizeof(*l));
	free(l);
	unlink("fence.sock");
	assert_int_equal(bind(door, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(door, 64), 0);
	assert_int_equal(rf_fence_limits_fill(&limits, share, 1, NULL), 0);
	assert_int_equal(rf_fence_server_start_at(door, ledger, &limits, only, only_pid, &s, NULL),
			 0);
	*ret_ledger = ledger;
	return s;
}

static void only_those_whom_the_owner_admits_are_answered(void **state)
{
	pid_t who = 1;
	int fds[4], ledger;
	struct rf_fence_server *s = start_at(&who, &ledger);

	assert_int_equal(ask(s, RF_FENCE_WANT_ALL, fds), -1);
	who = getpid();
	assert_int_equal(ask(s, RF_FENCE_WANT_ALL, fds), 2);
	assert_true(same_file(fds[1], ledger));
	close_all(fds, 2);
	rf_fence_server_stop(s);
}

static void strangers_are_sent_away_when_they_come(void **state)
{
	pid_t who = 1;
	int fds[4], idle[20], ledger;
	struct rf_fence_server *s = start_at(&who, &ledger);

	for (size_t i = 0; i < RF_COUNT(idle); i++)
		idle[i] = dial();
	rf_fence_server_turn(s);
	for (size_t i = 0; i < RF_COUNT(idle); i++) {
		assert_true(is_hung_up(idle[i]));
		close(idle[i]);
	}
	/* One that waits is looked at again when it speaks. */
	who = getpid();
	idle[0] = dial();
	rf_fence_server_turn(s);
	assert_false(is_hung_up(idle[0]));
	assert_int_equal(ask(s, RF_FENCE_WANT_ALL, fds), 2);
	close_all(fds, 2);
	who = 1;
	assert_int_equal(send(idle[0], "hello", 5, 0), 5);
	rf_fence_server_turn(s);
	assert_true(is_hung_up(idle[0]));
	close(idle[0]);
	rf_fence_server_stop(s);
}

/* Its number is free for anybody, also for one whom the owner would admit. */
static void who_is_gone_is_not_answered(void **state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "fence.sock" };
	struct rf_fence_hello hello = { .magic = RF_FENCE_MAGIC, .version = RF_FENCE_VERSION };
	int ledger, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid_t who = 0, pid;
	struct rf_fence_server *s = start_at(&who, &ledger);
	socklen_t size = sizeof(int);
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) < 0 && errno == ENOPROTOOPT) {
		close(fd);
		rf_fence_server_stop(s);
		skip();
	}
	pid = fork();
	if (pid == 0)
		_exit(connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
				      send(fd, &hello, sizeof(hello), 0) == sizeof(hello)
			      ? 0
			      : 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	who = pid;
	rf_fence_server_turn(s);
	assert_true(is_hung_up(fd));
	assert_int_equal(rf_fence_server_handshakes(s), 0);
	close(fd);
	rf_fence_server_stop(s);
}

/* A process on seat 0 with 5 MiB, until its pipe is closed. */
static pid_t seat_somebody(int *ret_pipe)
{
	static const uint64_t held[RF_FENCE_CARDS] = { 5 * MIB };
	struct rf_ledger_place place;
	int go[2], ready[2];
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		if (rf_ledger_open(&place, open("ledger", O_RDWR)) < 0 ||
		    rf_ledger_sit(&place, held) < 0 || write(ready[1], "r", 1) != 1)
			_exit(1);
		_exit(read(go[0], &c, 1) == 0 ? 0 : 1);
	}
	close(go[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	*ret_pipe = go[1];
	return pid;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct rf_fence_usage usage(struct rf_fence_server *s)
{
	struct rf_fence_usage u;

	assert_int_equal(rf_fence_server_usage(s, 0, &u), 0);
	return u;
}

static void time_is_summed_over_gates_and_clamped(void **state)
{
	struct rf_fence_server *s = start(share, NULL);
	uint64_t begin = now_ns();
	int gate_fd = make_gate(), desk_fd = make_desk(), pipe_fd;
	struct rf_gate *gate =
		mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE, MAP_SHARED, gate_fd, 0);
	struct rf_desk *desk =
		mmap(NULL, sizeof(*desk), PROT_READ | PROT_WRITE, MAP_SHARED, desk_fd, 0);
	struct rf_fence_process list[4];
	pid_t pid = seat_somebody(&pipe_fd);
	struct rf_fence_usage u;

	assert_int_equal(rf_fence_server_set_gate(s, gate_fd, desk_fd), 0);
	gate->card[0].gpu_ns = 5000;
	desk->seat[0][0] = (struct rf_desk_seat){
		.waiting = 2, .gpu_ns = 900, .held_ns = 700, .gpu_before = 400, .held_before = 100
	};
	desk->seat[0][9].waiting = 3; /* nobody sits there */
	u = usage(s);
	assert_int_equal(u.gpu_ns, 5000);
	assert_int_equal(u.held_ns, 700);
	assert_int_equal(u.waiting, 2);
	assert_int_equal(u.used_bytes, 5 * MIB);
	assert_int_equal(rf_fence_server_processes(s, 0, list, 4), 1);
	assert_int_equal(list[0].pid, pid);
	assert_int_equal(list[0].bytes, 5 * MIB);
	assert_int_equal(list[0].gpu_ns, 500);
	desk->seat[0][0].gpu_gone_ms = 3; /* at an earlier desk */
	assert_int_equal(rf_fence_server_processes(s, 0, list, 4), 1);
	assert_int_equal(list[0].gpu_ns, 3000500);
	assert_int_equal(list[0].held_ns, 600);

	/* What the tenant writes is no more than what can be. */
	desk->top = UINT32_MAX;
	desk->seat[0][0].gpu_gone_ms = UINT32_MAX;
	rf_fence_server_processes(s, 0, list, 4);
	assert_true(list[0].gpu_ns <= now_ns());
	desk->seat[0][0].held_ns = desk->seat[0][0].gpu_ns = UINT64_MAX;
	desk->seat[0][0].held_before = desk->seat[0][0].gpu_before = 0;
	u = usage(s);
	assert_true(u.held_ns <= 700 + now_ns() - begin);
	assert_int_equal(rf_fence_server_processes(s, 0, list, 4), 1);
	assert_true(list[0].gpu_ns <= now_ns() && list[0].held_ns <= now_ns());
	desk->seat[0][0].held_before = UINT64_MAX;
	assert_int_equal(rf_fence_server_processes(s, 0, list, 4), 1);
	assert_int_equal(list[0].held_ns, 0);

	/* Another arbiter: what was counted stays counted. */
	uint64_t held = u.held_ns;
	assert_int_equal(rf_fence_server_set_gate(s, make_gate(), make_desk()), 0);
	u = usage(s);
	assert_int_equal(u.gpu_ns, 5000);
	assert_int_equal(u.waiting, 0);
	assert_true(u.held_ns >= held);

	close(pipe_fd);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(rf_fence_server_processes(s, 0, list, 4), 0);
	munmap(gate, sizeof(*gate));
	munmap(desk, sizeof(*desk));
	rf_fence_server_stop(s);
}

static void write_booked(uint64_t bytes)
{
	rf_auto_close int fd = open("ledger", O_RDWR | O_CLOEXEC);

	assert_int_equal(pwrite(fd, &bytes, 8, (off_t)offsetof(struct rf_ledger, used)), 8);
}

/* A pool that had to take more of the card has it booked. */
static void books_above_the_cap_are_told_and_lies_are_not(void **state)
{
	struct rf_fence_server *s = start(share, NULL);
	struct rf_fence_process list[4];
	int pipe_fd;
	pid_t pid = seat_somebody(&pipe_fd);

	write_booked(100 * MIB);
	assert_int_equal(usage(s).cap_bytes, 64 * MIB);
	assert_int_equal(usage(s).used_bytes, 100 * MIB);
	assert_int_equal(rf_fence_server_processes(s, 0, list, 4), 1);
	assert_int_equal(list[0].bytes, 100 * MIB);

	write_booked(UINT64_MAX);
	assert_int_equal(usage(s).used_bytes, 64 * MIB);
	assert_int_equal(rf_fence_server_processes(s, 0, list, 4), 1);
	assert_int_equal(list[0].bytes, 64 * MIB);
	rf_fence_server_stop(s);
	close(pipe_fd);
	assert_int_equal(waitpid(pid, NULL, 0), pid);

	s = start(whole, NULL); /* no cap to go by */
	pid = seat_somebody(&pipe_fd);
	write_booked(UINT64_MAX);
	assert_true(usage(s).used_bytes <= (uint64_t)1 << 44);
	assert_int_equal(rf_fence_server_processes(s, 0, list, 4), 1);
	assert_true(list[0].bytes <= (uint64_t)1 << 44);
	rf_fence_server_stop(s);
	close(pipe_fd);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int setup(void **state)
{
	return mkdtemp(folder) == NULL || chdir(folder) < 0;
}

static int teardown(void **state)
{
	unlink("ledger");
	unlink("fence.sock");
	return chdir("/") < 0 || rmdir(folder) < 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_card_has_no_gate_and_a_share_has_one),
		cmocka_unit_test(without_a_gate_nobody_is_answered),
		cmocka_unit_test(a_gate_that_is_none_is_not_handed_out),
		cmocka_unit_test(another_version_is_told_so_whatever_its_size),
		cmocka_unit_test(only_those_whom_the_owner_admits_are_answered),
		cmocka_unit_test(strangers_are_sent_away_when_they_come),
		cmocka_unit_test(who_is_gone_is_not_answered),
		cmocka_unit_test(time_is_summed_over_gates_and_clamped),
		cmocka_unit_test(books_above_the_cap_are_told_and_lies_are_not),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
