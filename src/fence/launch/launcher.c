#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fence/dial.h"
#include "fence/launch/launch.h"

#define NOTICE_MS 2000 /* after which it is said that somebody outlives the program */
#define PIPE_DIR "/tmp/nvidia-mps"

struct launcher {
	struct rf_report report; /* name, limits, server */
	struct rf_registry *registry;
	struct rf_folder folder;
	int report_fd;
	int signal_fd;
	sigset_t old_mask;
	pid_t parent; /* of the last who came, and its pidfd; -1: not known */
	int parent_fd;
	pid_t program; /* 0 once it has ended */
	bool noticed;  /* that others outlive it, and said so */
	bool alone;    /* no descendant is left: daemons are our children by then */
	int status;    /* of the exit */
	bool enough;   /* wait for nobody any more */
};

/* --- before anything runs --- */

static int check_program(const char *name, struct rf_err *err)
{
	if (name[0] != '\0')
		return 0;
	return rf_fail(
		err, RF_INVALID,
		"the program's name behind \"--\" is empty: is a variable not set? say what to "
		"run: -- program [arguments]");
}

static int check_outside(struct rf_err *err)
{
	pid_t launcher = 0;
	rf_auto_close int fd = -1;

	if (rf_fence_in_container())
		return rf_fail(err, RF_FORBIDDEN,
			       "this is a container with a fence of its own; a fence cannot be "
			       "inside another");
	fd = rf_fence_dial(&launcher);
	if (fd >= 0)
		return rf_fail(
			err, RF_FORBIDDEN,
			"this is inside the fence of process %d; a fence cannot be inside another",
			(int)launcher);
	return 0;
}

static int find_library(char ret[PATH_MAX], struct rf_err *err)
{
	static const char *const places[] = { "libringfence.so",
					      "../lib/ringfence/libringfence.so" };
	char exe[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		return rf_fail_errno(err, "find this program");
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	for (size_t i = 0; i < RF_COUNT(places); i++) {
		snprintf(path, sizeof(path), "%s/%s", exe, places[i]);
		if (realpath(path, ret) == NULL)
			continue;
		if (strpbrk(ret, " :\t\n") != NULL)
			return rf_fail(err, RF_INVALID,
				       "%s cannot be preloaded: the dynamic linker splits paths at "
				       "spaces and "
				       "colons; install ringfence elsewhere",
				       ret);
		return 0;
	}
	return rf_fail(err, RF_UNAVAILABLE,
		       "libringfence.so is neither beside %s/ringfence nor in ../lib/ringfence",
		       exe);
}

static int check_mps(struct rf_err *err)
{
	const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/control", dir != NULL ? dir : PIPE_DIR);
	if (access(path, F_OK) == 0)
		return 0;
	return rf_fail(
		err, RF_UNAVAILABLE,
		"--mps: no MPS daemon listens in %s; start one with: nvidia-cuda-mps-control -d",
		dir != NULL ? dir : PIPE_DIR);
}

static int index_of(const struct rf_machine *m, const char *uuid)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->cards[i].uuid, uuid) == 0)
			return (int)i;
	return 0;
}

static void name_fence(char ret[RF_REPORT_NAME], const char *name, const char *program)
{
	const char *slash = strrchr(program, '/');

	memset(ret, 0, RF_REPORT_NAME);
	snprintf(ret, RF_REPORT_NAME, "%s", name ? name : slash ? slash + 1 : program);
}

static int find_terms(struct launcher *l, const struct rf_launch_opts *o, struct rf_machine *m,
		      struct rf_err *err)
{
	struct rf_fence_limits *limits = &l->report.limits;

	if (rf_machine_ask(m, err) < 0 || rf_terms_read(o, m, limits, err) < 0 ||
	    rf_terms_check_visible(getenv("CUDA_VISIBLE_DEVICES"), m, limits, err) < 0)
		return -err->code;
	for (uint32_t i = 0; i < limits->count; i++) {
		const struct rf_gpu_card *card = &m->cards[index_of(m, limits->card[i].uuid)];

		l->report.index[i] = card->index;
		if (limits->card[i].memory_bytes != 0)
			limits->card[i].context_bytes = rf_machine_context_bytes(m, card, o->mps);
		if (rf_terms_check_context(o, card, &limits->card[i], err) < 0)
			return -err->code;
	}
	return 0;
}

/* --- what the program gets to see --- */

static void put_first(const char *variable, const char *value)
{
	rf_auto(buf) b = RF_BUF_INIT;
	const char *old = getenv(variable);

	rf_buf_puts(&b, value);
	if (old != NULL && old[0] != '\0')
		rf_buf_printf(&b, ":%s", old);
	setenv(variable, b.p, 1);
}

/* The fence's cards alone, so that "the first card" is one of them. A hint: it is the fence that refuses
 * others. */
static void show_cards(const struct rf_fence_limits *limits, const struct rf_machine *m)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (limits->count == m->n)
		return;
	for (uint32_t i = 0; i < limits->count; i++)
		rf_buf_printf(&b, "%s%s", i ? "," : "", limits->card[i].uuid);
	setenv("CUDA_VISIBLE_DEVICES", b.p, 0);
}

/* --- the fence --- */

static int make_ledger(int *ret_fd, struct rf_err *err)
{
	rf_auto_free char *page = rf_alloc(sizeof(struct rf_ledger));
	rf_auto_close int fd = memfd_create("ringfence-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	rf_ledger_format((struct rf_ledger *)page);
	if (fd < 0 ||
	    write(fd, page, sizeof(struct rf_ledger)) != (ssize_t)sizeof(struct rf_ledger) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return rf_fail_errno(err, "make the fence's ledger");
	*ret_fd = rf_take_fd(fd);
	return 0;
}

static const char *socket_name(char ret[32], const char *what)
{
	snprintf(ret, 32, "%s.%d", what, (int)getpid());
	return ret;
}

static bool is_alive(int pidfd)
{
	return poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, 0) == 0;
}

static void forget_parent(struct launcher *l)
{
	if (l->parent_fd >= 0)
		close(l->parent_fd);
	l->parent_fd = -1;
}

/* Most who come are siblings. That a process descends from here stays true while it lives, since its
 * orphans come here too. */
static bool is_our_parent(struct launcher *l, pid_t pid)
{
	if (pid == getpid())
		return true;
	if (l->parent_fd >= 0 && l->parent == pid && is_alive(l->parent_fd))
		return true;
	forget_parent(l);
	l->parent = pid;
	l->parent_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (l->parent_fd >= 0 && rf_fence_descends(pid, getpid()) && is_alive(l->parent_fd))
		return true;
	forget_parent(l);
	return false;
}

static bool is_ours(void *ctx, pid_t pid)
{
	pid_t parent = rf_fence_parent(pid);

	return (parent > 1 && is_our_parent(ctx, parent)) || rf_fence_descends(pid, getpid());
}

static void take_gate(struct launcher *l)
{
	int gate, desk;

	if (!rf_registry_changed(l->registry, &gate, &desk))
		return;
	if (rf_fence_server_set_gate(l->report.server, gate, desk) < 0)
		rf_warn("the arbiter gave a gate that is none; new processes get no card");
}

static void say_promised(const struct launcher *l)
{
	for (uint32_t i = 0; i < l->report.limits.count; i++) {
		unsigned milli = rf_registry_promised(l->registry, i);

		if (milli > 1000)
			fprintf(stderr,
				"ringfence fence: card %d is promised %u %%; shares are kept in "
				"proportion\n",
				l->report.index[i], (milli + 9) / 10);
	}
}

static int put_up(struct launcher *l, struct rf_err *err)
{
	int ledger = -1, door = -1;
	char name[32];

	/* The program's own user must not reach into the fence by /proc or ptrace. */
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (rf_folder_open(&l->folder, err) < 0)
		return -err->code;
	rf_folder_sweep(&l->folder);
	if (make_ledger(&ledger, err) < 0)
		return -err->code;
	if (rf_folder_listen(&l->folder, socket_name(name, "fence"), 1024, &door, err) < 0) {
		close(ledger);
		return -err->code;
	}
	if (rf_fence_server_start_at(door, ledger, &l->report.limits, is_ours, l, &l->report.server,
				     err) < 0 ||
	    rf_folder_listen(&l->folder, socket_name(name, "stats"), 16, &l->report_fd, err) < 0)
		return -err->code;
	/* Whole cards too: another launcher may share them. */
	if (rf_registry_open(&l->report.limits, ledger, &l->registry, err) < 0)
		return -err->code;
	take_gate(l);
	say_promised(l);
	return 0;
}

static void leave_folder(struct launcher *l)
{
	char name[32];

	if (l->folder.fd < 0)
		return;
	rf_folder_remove(&l->folder, socket_name(name, "fence"));
	rf_folder_remove(&l->folder, socket_name(name, "stats"));
	close(l->folder.fd);
}

static void take_down(struct launcher *l)
{
	leave_folder(l);
	forget_parent(l);
	rf_registry_close(l->registry);
	rf_fence_server_stop(l->report.server);
	if (l->report_fd >= 0)
		close(l->report_fd);
	if (l->signal_fd >= 0)
		close(l->signal_fd);
	sigprocmask(SIG_SETMASK, &l->old_mask, NULL);
	prctl(PR_SET_DUMPABLE, 1); /* there is nothing left to guard */
}

/* --- the program --- */

static const int passed_on[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP };

static int catch_signals(struct launcher *l, struct rf_err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTTIN);
	sigaddset(&set, SIGTTOU);
	for (size_t i = 0; i < RF_COUNT(passed_on); i++)
		sigaddset(&set, passed_on[i]);
	sigprocmask(SIG_BLOCK, &set, &l->old_mask);
	l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return l->signal_fd < 0 ? rf_fail_errno(err, "watch signals") : 0;
}

/* The arbiter may have a thread by now: between fork and exec only what is safe then. */
static _Noreturn void become_program(const struct launcher *l, char **argv, int tell_fd)
{
	int why;

	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &l->old_mask, NULL);
	execvp(argv[0], argv);
	why = errno;
	if (write(tell_fd, &why, sizeof(why)) < 0)
		_exit(127);
	_exit(why == ENOENT ? 127 : 126);
}

static int start_program(struct launcher *l, char **argv, struct rf_err *err)
{
	int tell[2], why = 0;

	fflush(NULL);
	if (pipe2(tell, O_CLOEXEC) < 0)
		return rf_fail_errno(err, "start %s", argv[0]);
	l->program = fork();
	if (l->program == 0)
		become_program(l, argv, tell[1]);
	close(tell[1]);
	if (l->program < 0) {
		close(tell[0]);
		return rf_fail_errno(err, "start %s", argv[0]);
	}
	if (read(tell[0], &why, sizeof(why)) == (ssize_t)sizeof(why))
		fprintf(stderr, "ringfence fence: %s: %s\n", argv[0], strerror(why));
	close(tell[0]);
	return 0;
}

/* Stops with its program (Ctrl-Z), and lets go of the arbiter before: others go on. */
static void stop_too(struct launcher *l)
{
	rf_registry_pause(l->registry);
	take_gate(l);
	kill(getpid(), SIGSTOP);
	rf_registry_resume(l->registry);
	take_gate(l);
	if (l->program > 0)
		kill(l->program, SIGCONT);
}

static void note_end(struct launcher *l, pid_t pid, int status)
{
	if (pid != l->program)
		return;
	if (WIFSTOPPED(status)) {
		if (WSTOPSIG(status) != SIGSTOP)
			stop_too(l);
		return;
	}
	l->program = 0;
	l->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void reap(struct launcher *l)
{
	int status = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
		note_end(l, pid, status);
	l->alone = pid < 0;
}

/* What the terminal sends goes to the program's whole process group already. Once the program has ended
 * it is for us: somebody is tired of waiting. */
static void pass_on(struct launcher *l, const struct signalfd_siginfo *s)
{
	int sig = (int)s->ssi_signo;

	if (sig == SIGTTIN || sig == SIGTTOU || (l->program > 0 && s->ssi_code > 0))
		return;
	if (l->program > 0)
		kill(l->program, sig);
	else if (sig == SIGTSTP)
		stop_too(l);
	else if (sig != SIGUSR1 && sig != SIGUSR2)
		l->enough = true;
}

static void take_signals(struct launcher *l)
{
	struct signalfd_siginfo s;

	while (read(l->signal_fd, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
		if (s.ssi_signo == SIGCHLD)
			reap(l);
		else
			pass_on(l, &s);
	}
}

/* A descendant that has not reached the card yet still may: it is waited for like any other. */
static bool is_over(const struct launcher *l)
{
	return l->program == 0 && (l->enough || l->alone);
}

static void notice(struct launcher *l)
{
	if (l->program > 0 || l->noticed)
		return;
	l->noticed = true;
	fprintf(stderr, "ringfence fence: the program has ended, but not all that it started; its "
			"fence stays for them until they end or this is interrupted\n");
}

static void serve(struct launcher *l)
{
	struct pollfd p[] = {
		{ .fd = l->signal_fd, .events = POLLIN },
		{ .fd = rf_fence_server_fd(l->report.server), .events = POLLIN },
		{ .fd = l->report_fd, .events = POLLIN },
		{ .fd = rf_registry_fd(l->registry), .events = POLLIN },
	};

	while (!is_over(l)) {
		int n = poll(p, RF_COUNT(p), l->program > 0 || l->noticed ? -1 : NOTICE_MS);

		if (n == 0)
			notice(l);
		if (n <= 0)
			continue;
		if (p[0].revents)
			take_signals(l);
		if (p[1].revents)
			rf_fence_server_turn(l->report.server);
		if (p[2].revents)
			rf_report_answer(l->report_fd, &l->report);
		if (p[3].revents)
			rf_registry_turn(l->registry);
		take_gate(l);
	}
}

int rf_launch(const struct rf_launch_opts *o, char **argv, struct rf_err *err)
{
	struct launcher l = { .folder.fd = -1, .report_fd = -1, .signal_fd = -1, .parent_fd = -1 };
	rf_auto_free char *page = rf_alloc(sizeof(struct rf_machine));
	struct rf_machine *m = (struct rf_machine *)page;
	char library[PATH_MAX];
	int r;

	signal(SIGCHLD, SIG_DFL); /* whoever ignored it has no use for exit codes; we do */
	sigprocmask(SIG_BLOCK, NULL, &l.old_mask);
	if (rf_terms_check(o, err) < 0 || check_program(argv[0], err) < 0 ||
	    check_outside(err) < 0 || find_library(library, err) < 0 ||
	    (o->mps && check_mps(err) < 0) || find_terms(&l, o, m, err) < 0)
		return -err->code;
	name_fence(l.report.name, o->name, argv[0]);
	r = catch_signals(&l, err);
	if (r == 0)
		r = put_up(&l, err);
	if (r == 0) {
		put_first("LD_PRELOAD", library);
		show_cards(&l.report.limits, m);
		r = start_program(&l, argv, err);
	}
	if (r == 0)
		serve(&l);
	take_down(&l);
	return r < 0 ? r : l.status;
}
