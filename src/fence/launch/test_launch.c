/* The launcher's parts: words to limits, folders, and the election of an arbiter. In a mount namespace of
 * its own, where nobody else's arbiter listens. */
#include "fence/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fence/dial.h"
#include "fence/launch/registry.h"
#include "fence/test/alone.h"

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

static void a_size_without_its_unit_is_taken_for_a_slip(void **state)
{
	refuses((struct rf_launch_opts){ .memory = "20" },
		"--memory 20: that is 20 bytes, and no program runs on a card with less than 1Mi; "
		"did you mean 20Gi?");
	refuses((struct rf_launch_opts){ .memory = "1" }, "1 byte, ");
	refuses((struct rf_launch_opts){ .memory = "1" }, "did you mean 1Gi?");
	refuses((struct rf_launch_opts){ .memory = "0.5" }, "did you mean 0.5Gi?");
	refuses((struct rf_launch_opts){ .memory = "2048" }, "did you mean 2048Mi?");
	refuses((struct rf_launch_opts){ .memory = "500m" }, "did you mean 500Mi?");
	refuses((struct rf_launch_opts){ .memory = "1k" },
		"--memory 1k: that is 1000 bytes, and no program runs on a card with less than "
		"1Mi; write it like 20Gi");
	refuses((struct rf_launch_opts){ .memory = "1023Ki" }, "less than 1Mi");
	assert_int_equal(
		read_terms((struct rf_launch_opts){ .memory = "1Mi" }).card[0].memory_bytes,
		1 << 20);
}

static void a_cap_that_does_not_hold_a_context_is_refused(void **state)
{
	struct rf_launch_opts o = { .memory = "20M" };
	struct rf_gpu_card card = { .index = 3, .name = "NVIDIA H200" };
	struct rf_fence_limit l = { .memory_bytes = 20000000, .context_bytes = (524 << 20) - 1 };
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_terms_check_context(&o, &card, &l, &err), -RF_INVALID);
	assert_int_equal(rf_code_info(err.code)->exit, 2);
	assert_string_equal(err.msg, "--memory 20M: on card 3 (NVIDIA H200) a program's context "
				     "alone takes 524Mi; ask for more than that, or leave the "
				     "option out for the whole card");
	l.memory_bytes = l.context_bytes;
	assert_int_equal(rf_terms_check_context(&o, &card, &l, &err), 0);
	l.memory_bytes = 0; /* the whole card */
	assert_int_equal(rf_terms_check_context(&o, &card, &l, &err), 0);
	l = (struct rf_fence_limit){ .memory_bytes = 20000000 }; /* it is not known */
	assert_int_equal(rf_terms_check_context(&o, &card, &l, &err), 0);
}

/* Whatever this machine has: nobody is told of a missing driver first. */
static void words_are_read_before_the_machine_is_asked(void **state)
{
	static const struct {
		struct rf_launch_opts o;
		const char *text;
	} bad[] = {
		{ { .compute = "150" }, "--compute 150" },
		{ { .memory = "lots" }, "--memory" },
		{ { .priority = -1001 }, "--priority -1001" },
		{ { .compute = "0", .mps = true, .cards = "99" }, "--compute 0" },
		{ { .memory = "20" }, "did you mean 20Gi?" },
		{ { .name = "" }, "without a name" },
		{ { .name = " \n" }, "without a name" },
		/* the value was forgotten: the next word is taken for it */
		{ { .memory = "--" },
		  "--memory wants a size, such as 20Gi, but the next word is \"--\"" },
		{ { .memory = "--compute" }, "--memory wants a size" },
		{ { .compute = "--" }, "--compute wants per cent" },
		{ { .cards = "--" }, "--card wants a card's number" },
		{ { .name = "--" }, "--name wants a name" },
	};
	static char program[] = "true";
	char *argv[] = { program, NULL };

	for (size_t i = 0; i < RF_COUNT(bad); i++) {
		struct rf_err err = RF_ERR_INIT;
		int r = rf_launch(&bad[i].o, argv, &err);

		assert_int_equal(r, -RF_INVALID);
		assert_int_equal(rf_code_info(err.code)->exit, 2);
		if (strstr(err.msg, bad[i].text) == NULL)
			fail_msg("\"%s\" lacks \"%s\"", err.msg, bad[i].text);
	}
}

static void a_program_without_a_name_is_not_looked_for(void **state)
{
	struct rf_launch_opts o = { .memory = "20Gi" };
	struct rf_err err = RF_ERR_INIT;
	static char program[] = "";
	char *argv[] = { program, NULL };

	assert_int_equal(rf_launch(&o, argv, &err), -RF_INVALID);
	assert_int_equal(rf_code_info(err.code)->exit, 2);
	assert_non_null(strstr(err.msg, "name behind \"--\" is empty"));
}

static void only_cards_of_the_fence_may_be_made_visible(void **state)
{
	struct rf_fence_limits l = read_terms((struct rf_launch_opts){ .cards = "0" });
	const char *const good[] = { NULL,
				     "",
				     "0",
				     "-1",
				     "0,-1,3",
				     "GPU-00000000-0000-0000-0000-000000000001",
				     "gpu-00000000-0000-0000-0000-000000000001,nonsense,3" };
	const char *const bad[] = { "3", "0,3", "GPU-00000000-0000-0000-0000-000000000002" };
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < RF_COUNT(good); i++)
		assert_int_equal(rf_terms_check_visible(good[i], &two, &l, &err), 0);
	for (size_t i = 0; i < RF_COUNT(bad); i++) {
		assert_true(rf_terms_check_visible(bad[i], &two, &l, &err) < 0);
		assert_non_null(strstr(err.msg, "names card 3"));
	}
	l = read_terms((struct rf_launch_opts){ .cards = "all" });
	assert_int_equal(rf_terms_check_visible("3,0", &two, &l, &err), 0);
}

/* --- folders and who listens there --- */

static struct rf_folder open_folder(void)
{
	struct rf_folder f;
	struct rf_err err = RF_ERR_INIT;

	if (rf_folder_open(&f, &err) < 0)
		fail_msg("%s", err.msg);
	return f;
}

static void a_folder_that_others_can_write_in_is_not_used(void **state)
{
	struct rf_folder f = open_folder();

	assert_int_equal(f.which, 0); /* in its own /run everybody is root */
	close(f.fd);
	assert_int_equal(chmod("/run/ringfence", 0775), 0);
	assert_int_equal(rf_fence_folder_open(0), -1);
	assert_int_equal(chmod("/run/ringfence", 0755), 0);
	assert_int_equal(rename("/run/ringfence", "/run/other"), 0);
	assert_int_equal(symlink("/run/other", "/run/ringfence"), 0);
	assert_int_equal(rf_fence_folder_open(0), -1);
	assert_int_equal(unlink("/run/ringfence"), 0);
	assert_int_equal(rename("/run/other", "/run/ringfence"), 0);
	if (chown("/run/ringfence", 1, 1) == 0) { /* not as root in name only */
		assert_int_equal(rf_fence_folder_open(0), -1);
		assert_int_equal(chown("/run/ringfence", 0, 0), 0);
	}
	f = open_folder();
	assert_int_equal(f.which, 0);
	close(f.fd);
}

static int listen_as(const struct rf_folder *f, const char *what, pid_t pid)
{
	char name[32];
	int fd = -1;

	snprintf(name, sizeof(name), "%s.%d", what, (int)pid);
	assert_int_equal(rf_folder_listen(f, name, 8, &fd, NULL), 0);
	return fd;
}

static bool is_there(const struct rf_folder *f, const char *what, pid_t pid)
{
	char name[32];

	snprintf(name, sizeof(name), "%s.%d", what, (int)pid);
	return faccessat(f->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A number that no process has: this one's is gone. */
static pid_t nobody(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void what_killed_launchers_leave_is_removed(void **state)
{
	struct rf_folder f = open_folder();
	pid_t gone = nobody(), heard = nobody();
	int far = listen_as(&f, "fence", heard); /* as from another pid namespace */

	close(listen_as(&f, "fence", gone));
	close(listen_as(&f, "stats", gone));
	close(listen_as(&f, "fence", getpid())); /* not listening just yet */
	rf_folder_sweep(&f);
	assert_false(is_there(&f, "fence", gone));
	assert_false(is_there(&f, "stats", gone));
	assert_true(is_there(&f, "fence", getpid()));
	assert_true(heard == gone || is_there(&f, "fence", heard));
	close(far);
	rf_folder_sweep(&f);
	assert_false(is_there(&f, "fence", heard));
	close(f.fd);
}

/* Who a child of this process takes for its launcher; 0: nobody. */
static pid_t launcher_of_child(void)
{
	int tell[2];
	pid_t who = 0, pid;

	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		rf_fence_dial(&who);
		_exit(write(tell[1], &who, sizeof(who)) == sizeof(who) ? 0 : 1);
	}
	assert_int_equal(read(tell[0], &who, sizeof(who)), sizeof(who));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(tell[0]);
	close(tell[1]);
	return who;
}

static void a_launcher_is_believed_by_its_place_not_by_its_name(void **state)
{
	struct rf_folder f = open_folder();
	pid_t me = getpid(), liar;
	int fd = listen_as(&f, "fence", me), ready[2];
	char c;

	assert_int_equal(launcher_of_child(), me);
	close(fd);
	assert_int_equal(launcher_of_child(), 0); /* the name is there, but nobody listens */
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	liar = fork();
	if (liar == 0) {
		listen_as(&f, "fence", me);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(launcher_of_child(), 0);
	kill(liar, SIGKILL);
	assert_int_equal(waitpid(liar, NULL, 0), liar);
	assert_int_equal(chmod("/run/ringfence", 0777), 0);
	fd = listen_as(&f, "fence", me);
	assert_int_equal(launcher_of_child(), 0);
	assert_int_equal(chmod("/run/ringfence", 0755), 0);
	assert_int_equal(launcher_of_child(), me);
	close(fd);
	close(ready[0]);
	close(ready[1]);
	rf_folder_sweep(&f);
	close(f.fd);
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
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	close(o->out); /* not before: it may have a last word */
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

static void a_killed_arbiter_leaves_no_name_behind(void **state)
{
	struct other a = start_other();
	struct rf_registry *r;
	int ledger;

	assert_int_equal(next_word(NULL, &a), 'g');
	kill(a.pid, SIGKILL);
	assert_int_equal(waitpid(a.pid, NULL, 0), a.pid);
	close(a.in);
	close(a.out);
	r = open_registry(&ledger);
	take(r, true);
	a = start_other();
	assert_int_equal(next_word(r, &a), 'g');
	rf_registry_close(r);
	close(ledger);
	finish(&a);
}

static void an_arbiter_by_itself_serves_others(void **state)
{
	struct rf_registry *r = NULL;
	struct other a = start_other(), b;
	int gate, desk;

	assert_int_equal(next_word(NULL, &a), 'g');
	/* It waits for the one that is there. */
	assert_int_equal(rf_registry_open(NULL, -1, &r, NULL), 0);
	finish(&a);
	while (access("/run/ringfence/arbiter", F_OK) < 0) {
		struct pollfd p = { .fd = rf_registry_fd(r), .events = POLLIN };

		assert_true(poll(&p, 1, -1) > 0);
		rf_registry_turn(r);
	}
	b = start_other();
	assert_int_equal(next_word(r, &b), 'g');
	assert_true(rf_registry_changed(r, &gate, &desk));
	assert_true(gate < 0 && desk < 0);
	finish(&b);
	rf_registry_close(r);
}

static void all_that_was_promised_of_a_card_is_told(void **state)
{
	struct other a = start_other();
	struct rf_registry *r;
	int ledger;

	assert_int_equal(next_word(NULL, &a), 'g');
	r = open_registry(&ledger);
	take(r, true);
	assert_int_equal(rf_registry_promised(r, 0), 1000);
	struct other b = start_other();
	assert_int_equal(next_word(r, &b), 'g');
	rf_registry_close(r);
	close(ledger);
	finish(&a); /* b is alone, then with us */
	assert_int_equal(next_word(NULL, &b), 'x');
	assert_int_equal(next_word(NULL, &b), 'g');
	r = open_registry(&ledger);
	assert_int_equal(rf_registry_promised(r, 0), 1000);
	rf_registry_close(r);
	close(ledger);
	finish(&b);
}

static int dial_arbiter(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "/run/ringfence/arbiter" };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* What the arbiter says to one that has not asked; -1: it hung up. */
static int hear_unasked(struct rf_registry *r, int fd)
{
	struct rf_registry_reply reply = { .magic = 0 };
	struct pollfd p[] = { { .fd = rf_registry_fd(r), .events = POLLIN },
			      { .fd = fd, .events = POLLIN } };

	while (!(p[1].revents & (POLLIN | POLLHUP))) {
		assert_true(poll(p, 2, -1) > 0);
		rf_registry_turn(r);
	}
	return recv(fd, &reply, sizeof(reply), 0) > 0 ? (int)reply.status : -1;
}

static void who_comes_and_does_not_ask_takes_nobodys_place(void **state)
{
	int ledger, fds[33];
	struct rf_registry *r = open_registry(&ledger);

	for (size_t i = 0; i < RF_COUNT(fds); i++)
		fds[i] = dial_arbiter();
	/* The last is one too many of its user, and told so at once; the others are late some day. */
	assert_int_equal(hear_unasked(r, fds[32]), RF_REGISTRY_FULL);
	for (size_t i = 0; i < 32; i++)
		assert_int_equal(hear_unasked(r, fds[i]), -1);
	for (size_t i = 0; i < RF_COUNT(fds); i++)
		close(fds[i]);
	struct other a = start_other();
	assert_int_equal(next_word(r, &a), 'g');
	rf_registry_close(r);
	close(ledger);
	finish(&a);
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

/* --- stats --- */

static void a_crowd_that_asks_for_stats_does_not_hold_the_fence_up(void **state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "/run/ringfence/stats.1" };
	struct rf_folder f = open_folder();
	struct rf_report report = { .name = "crowded" };
	int door = listen_as(&f, "stats", 1), fds[20], answered = 0;
	char c;

	for (size_t i = 0; i < RF_COUNT(fds); i++) {
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		/* The last few find the backlog full. */
		if (connect(fds[i], (struct sockaddr *)&addr, sizeof(addr)) < 0)
			assert_int_equal(errno, EAGAIN);
	}
	rf_report_answer(door, &report);
	for (size_t i = 0; i < RF_COUNT(fds); i++)
		answered += recv(fds[i], &c, 1, 0) == 1;
	assert_int_equal(answered, 8);
	rf_report_answer(door, &report);
	for (size_t i = 0; i < RF_COUNT(fds); i++) {
		answered += recv(fds[i], &c, 1, 0) == 1;
		close(fds[i]);
	}
	assert_true(answered > 8);
	close(door);
	rf_folder_remove(&f, "stats.1");
	close(f.fd);
}

static int alone(void **state)
{
	if (go_alone())
		return 0;
	print_message("# no mount namespace is to be had\n");
	return 1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_become_limits),
		cmocka_unit_test(words_that_make_no_sense_are_explained),
		cmocka_unit_test(a_size_without_its_unit_is_taken_for_a_slip),
		cmocka_unit_test(a_cap_that_does_not_hold_a_context_is_refused),
		cmocka_unit_test(words_are_read_before_the_machine_is_asked),
		cmocka_unit_test(a_program_without_a_name_is_not_looked_for),
		cmocka_unit_test(only_cards_of_the_fence_may_be_made_visible),
		cmocka_unit_test(a_folder_that_others_can_write_in_is_not_used),
		cmocka_unit_test(what_killed_launchers_leave_is_removed),
		cmocka_unit_test(a_launcher_is_believed_by_its_place_not_by_its_name),
		cmocka_unit_test(when_the_arbiter_goes_another_is_elected),
		cmocka_unit_test(one_that_pauses_lets_others_elect),
		cmocka_unit_test(a_killed_arbiter_leaves_no_name_behind),
		cmocka_unit_test(an_arbiter_by_itself_serves_others),
		cmocka_unit_test(all_that_was_promised_of_a_card_is_told),
		cmocka_unit_test(who_comes_and_does_not_ask_takes_nobodys_place),
		cmocka_unit_test(nonsense_does_not_reach_the_arbiter),
		cmocka_unit_test(a_crowd_that_asks_for_stats_does_not_hold_the_fence_up),
	};

	return cmocka_run_group_tests(tests, alone, NULL);
}
