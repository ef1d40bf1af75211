/* The launcher's parts: words to limits, and the election of an arbiter. In a network namespace of its own,
 * where nobody else's arbiter listens. */
#include "fence/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fence/dial.h"
#include "fence/launch/registry.h"

#define GIB ((int64_t)1 << 30)

static const struct rf_machine two = {
	.n = 2,
	.cards = { { .index = 0,
		     .uuid = "GPU-00000000-0000-0000-0000-000000000001",
		     .memory_bytes = 80 * GIB },
		   { .index = 3,
		     .uuid = "GPU-00000000-0000-0000-0000-000000000002",
		     .memory_bytes = 40 * GIB } },
};

static struct rf_fence_limits read_terms(struct rf_launch_opts o)
{
	struct rf_fence_limits l;
	struct rf_err err = RF_ERR_INIT;

	if (rf_terms_read(&o, &two, &l, &err) < 0)
		fail_msg("%s", err.msg);
	return l;
}

static void refuses(struct rf_launch_opts o, const char *text)
{
	struct rf_fence_limits l;
	struct rf_err err = RF_ERR_INIT;

	assert_true(rf_terms_read(&o, &two, &l, &err) < 0);
	assert_int_equal(rf_code_info(err.code)->exit, 2);
	if (strstr(err.msg, text) == NULL)
		fail_msg("\"%s\" lacks \"%s\"", err.msg, text);
}

static void words_become_limits(void **state)
{
	struct rf_fence_limits l = read_terms((struct rf_launch_opts){ .memory = NULL });

	assert_int_equal(l.count, 1);
	assert_string_equal(l.card[0].uuid, two.cards[0].uuid);
	assert_int_equal(l.card[0].memory_bytes, 0);
	assert_int_equal(l.card[0].compute_milli, 1000);
	assert_false(rf_fence_limits_shared(&l));
	l = read_terms((struct rf_launch_opts){ .memory = "20Gi",
						.compute = "12.5%",
						.cards = "3",
						.priority = 7,
						.burst = true,
						.mps = true });
	assert_string_equal(l.card[0].uuid, two.cards[1].uuid);
	assert_int_equal(l.card[0].memory_bytes, 20 * GIB);
	assert_int_equal(l.card[0].compute_milli, 125);
	assert_int_equal(l.card[0].priority, 7);
	assert_int_equal(l.card[0].flags, RF_FENCE_BURST | RF_FENCE_SPATIAL);
	assert_true(rf_fence_limits_shared(&l));
	assert_int_equal(read_terms((struct rf_launch_opts){ .cards = "all" }).count, 2);
	assert_int_equal(read_terms((struct rf_launch_opts){ .cards = "3,0" }).count, 2);
	l = read_terms(
		(struct rf_launch_opts){ .cards = "gpu-00000000-0000-0000-0000-000000000002" });
	assert_string_equal(l.card[0].uuid, two.cards[1].uuid);
}

static void words_that_make_no_sense_are_explained(void **state)
{
	refuses((struct rf_launch_opts){ .memory = "lots" }, "not a quantity");
	refuses((struct rf_launch_opts){ .memory = "0" }, "whole card");
	refuses((struct rf_launch_opts){ .memory = "-1Gi" }, "--memory");
	refuses((struct rf_launch_opts){ .memory = "60Gi", .cards = "all" }, "has 40Gi");
	refuses((struct rf_launch_opts){ .compute = "0" }, "1 to 100");
	refuses((struct rf_launch_opts){ .compute = "101" }, "1 to 100");
	refuses((struct rf_launch_opts){ .compute = "" }, "1 to 100");
	refuses((struct rf_launch_opts){ .cards = "1" }, "0 (GPU-");
	refuses((struct rf_launch_opts){ .cards = "" }, "this machine has");
	refuses((struct rf_launch_opts){ .priority = 5000 }, "-1000 to 1000");
}

/* --- the arbiter's election --- */

static struct rf_fence_limits half(void)
{
	return read_terms((struct rf_launch_opts){ .memory = "1Gi", .compute = "50" });
}

static int make_ledger(void)
{
	struct rf_ledger *l = rf_new(struct rf_ledger);
	int fd = memfd_create("ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	rf_ledger_format(l);
	assert_int_equal(write(fd, l, sizeof(*l)), sizeof(*l));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
	free(l);
	return fd;
}

/* Says 'g' for each gate and 'x' when it is gone, until its pipe is closed. */
static _Noreturn void be_launcher(int out, int in)
{
	struct rf_fence_limits limits = half();
	struct rf_registry *r = NULL;
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = in, .events = POLLIN } };

	if (rf_registry_open(&limits, make_ledger(), &r, NULL) < 0)
		_exit(1);
	p[0].fd = rf_registry_fd(r);
	do {
		int gate, desk;

		rf_registry_turn(r);
		if (!rf_registry_changed(r, &gate, &desk))
			continue;
		if (write(out, gate >= 0 && desk >= 0 ? "g" : "x", 1) != 1)
			_exit(2);
		close(gate);
		close(desk);
	} while (poll(p, 2, -1) >= 0 && !p[1].revents);
	rf_registry_close(r);
	_exit(0);
}

struct other {
	pid_t pid;
	int in, out;
};

static struct other start_other(void)
{
	struct other o;
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	o.pid = fork();
	if (o.pid == 0) {
		/* Nothing of the parent's, above all not the socket that it listens on. */
		dup2(in[0], 0);
		dup2(out[1], 3);
		close_range(4, ~0u, 0);
		be_launcher(3, 0);
	}
	close(in[0]);
	close(out[1]);
	o.in = in[1];
	o.out = out[0];
	return o;
}

/* What the other says next, while this one goes on as a launcher. */
static char next_word(struct rf_registry *r, const struct other *o)
{
	char c = 0;

	for (;;) {
		struct pollfd p[] = { { .fd = o->out, .events = POLLIN },
				      { .fd = r ? rf_registry_fd(r) : -1, .events = POLLIN } };

		assert_true(poll(p, 2, -1) > 0);
		if (p[1].revents)
			rf_registry_turn(r);
		if (p[0].revents) {
			assert_int_equal(read(o->out, &c, 1), 1);
			return c;
		}
	}
}

static void finish(struct other *o)
{
	int status = -1;

	close(o->in);
	close(o->out);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	assert_int_equal(status, 0);
}

static struct rf_registry *open_registry(int *ret_ledger)
{
	struct rf_fence_limits limits = half();
	struct rf_registry *r = NULL;
	struct rf_err err = RF_ERR_INIT;

	*ret_ledger = make_ledger();
	if (rf_registry_open(&limits, *ret_ledger, &r, &err) < 0)
		fail_msg("%s", err.msg);
	return r;
}

static void take(struct rf_registry *r, bool expect_gate)
{
	int gate, desk;

	assert_true(rf_registry_changed(r, &gate, &desk));
	assert_int_equal(gate >= 0, expect_gate);
	assert_int_equal(desk >= 0, expect_gate);
	assert_false(rf_registry_changed(r, &gate, &desk));
	if (expect_gate) {
		close(gate);
		close(desk);
	}
}

static void when_the_arbiter_goes_another_is_elected(void **state)
{
	int ledger;
	struct rf_registry *r = open_registry(&ledger);
	struct other a = start_other();

	take(r, true);
	assert_int_equal(next_word(r, &a), 'g');
	struct other b = start_other();
	assert_int_equal(next_word(r, &b), 'g');
	rf_registry_close(r);
	/* One of the two is it now, the other its guest. */
	assert_int_equal(next_word(NULL, &a), 'x');
	assert_int_equal(next_word(NULL, &b), 'x');
	assert_int_equal(next_word(NULL, &a), 'g');
	assert_int_equal(next_word(NULL, &b), 'g');
	close(ledger);
	r = open_registry(&ledger); /* and takes new ones */
	kill(a.pid, SIGKILL);
	assert_int_equal(waitpid(a.pid, NULL, 0), a.pid);
	close(a.in);
	close(a.out);
	rf_registry_close(r);
	close(ledger);
	finish(&b);
}

static void one_that_pauses_lets_others_elect(void **state)
{
	int ledger;
	struct rf_registry *r = open_registry(&ledger);
	struct other a = start_other();

	take(r, true);
	assert_int_equal(next_word(r, &a), 'g');
	rf_registry_pause(r);
	take(r, false);
	assert_int_equal(next_word(NULL, &a), 'x');
	assert_int_equal(next_word(NULL, &a), 'g');
	rf_registry_resume(r);
	int gate = -1, desk = -1;
	while (!rf_registry_changed(r, &gate, &desk)) {
		struct pollfd p = { .fd = rf_registry_fd(r), .events = POLLIN };

		assert_true(poll(&p, 1, -1) > 0);
		rf_registry_turn(r);
	}
	assert_true(gate >= 0);
	close(gate);
	close(desk);
	rf_registry_close(r);
	close(ledger);
	finish(&a);
}

static int dial_arbiter(void)
{
	struct sockaddr_un addr;
	socklen_t size = rf_fence_address(&addr, "arbiter", 0);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&addr, size), 0);
	return fd;
}

/* The status of the answer; -1: the arbiter hung up. */
static int ask_with(struct rf_registry *r, const struct rf_registry_ask *ask, size_t size,
		    int ledger)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)ask, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct rf_registry_reply reply = { .magic = 0 };
	int fd = dial_arbiter();
	ssize_t n;

	if (ledger >= 0) {
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &ledger, sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &msg, 0), size);
	do
		rf_registry_turn(r);
	while ((n = recv(fd, &reply, sizeof(reply), MSG_DONTWAIT)) < 0);
	close(fd);
	return n == 0 ? -1 : (int)reply.status;
}

static void nonsense_does_not_reach_the_arbiter(void **state)
{
	int ledger;
	struct rf_registry *r = open_registry(&ledger);
	struct rf_registry_ask good = { .magic = RF_REGISTRY_MAGIC,
					.version = RF_REGISTRY_VERSION,
					.limits = half() };
	struct rf_registry_ask bad = good;
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ask_with(r, &good, sizeof(good), ledger), RF_REGISTRY_OK);
	assert_int_equal(ask_with(r, &good, sizeof(good), -1), RF_REGISTRY_FAILED);
	assert_int_equal(ask_with(r, &good, sizeof(good), file), RF_REGISTRY_FAILED);
	assert_int_equal(ftruncate(loose, sizeof(struct rf_ledger)), 0);
	assert_int_equal(ask_with(r, &good, sizeof(good), loose), RF_REGISTRY_FAILED);
	assert_int_equal(ask_with(r, &good, 100, ledger), -1);
	bad.version++;
	assert_int_equal(ask_with(r, &bad, 8, -1), RF_REGISTRY_OTHER_VERSION);
	bad = good;
	bad.limits.count = RF_FENCE_CARDS + 1;
	assert_int_equal(ask_with(r, &bad, sizeof(bad), ledger), RF_REGISTRY_FAILED);
	bad = good;
	memset(bad.limits.card[0].uuid, 'x', RF_FENCE_UUID);
	assert_int_equal(ask_with(r, &bad, sizeof(bad), ledger), RF_REGISTRY_FAILED);
	bad.magic = 0;
	assert_int_equal(ask_with(r, &bad, sizeof(bad), ledger), -1);
	assert_int_equal(ask_with(r, &good, sizeof(good), ledger), RF_REGISTRY_OK);
	close(file);
	close(loose);
	rf_registry_close(r);
	close(ledger);
}

static int alone(void **state)
{
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		print_message("# no network namespace is to be had\n");
		return 1;
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_become_limits),
		cmocka_unit_test(words_that_make_no_sense_are_explained),
		cmocka_unit_test(when_the_arbiter_goes_another_is_elected),
		cmocka_unit_test(one_that_pauses_lets_others_elect),
		cmocka_unit_test(nonsense_does_not_reach_the_arbiter),
	};

	return cmocka_run_group_tests(tests, alone, NULL);
}
