/* One shim per container. It outlives the agent: it owns the container's log and its exit
 * status. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fs.h"
#include "node/cgroup.h"
#include "node/crilog.h"
#include "node/node.h"
#include "node/shim.h"

#define DRAIN_MS 2000

/* The agent ends containers, not shims. */
static const int IGNORED[] = { SIGPIPE, SIGTERM, SIGINT, SIGHUP };

struct shim {
	const char *bundle, *id, *runtime, *root, *cgroup;
	int attempt;
	uid_t uid;
	pid_t self;
	int lock_fd, signal_fd;
	int out[2], err_pipe[2]; /* read end, write end */
	struct rf_crilog log;
	struct rf_arena arena;
};

static int64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int take_lock(struct shim *s, struct rf_err *err)
{
	const char *path = rf_fs_path(&s->arena, "%s/shim.lock", s->bundle);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		return rf_fail_errno(err, "open %s", path);
	if (fcntl(s->lock_fd, F_SETLK, &lock) < 0)
		return rf_fail(err, RF_CONFLICT, "container %s already has a shim", s->id);
	return 0;
}

static int open_pipes(struct shim *s, struct rf_err *err)
{
	if (pipe2(s->out, O_CLOEXEC) < 0 || pipe2(s->err_pipe, O_CLOEXEC) < 0)
		return rf_fail_errno(err, "make pipes");
	/* So that the container's user can open /dev/stdout again. */
	if (fchown(s->out[1], s->uid, (gid_t)-1) < 0 ||
	    fchown(s->err_pipe[1], s->uid, (gid_t)-1) < 0)
		return rf_fail_errno(err, "hand the pipes to user %u", (unsigned)s->uid);
	(void)fcntl(s->out[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(s->err_pipe[0], F_SETFL, O_NONBLOCK);
	return 0;
}

/* In the runtime's process, not in the shim: a mount namespace keeps alive whatever was mounted when
 * it was made, other pods' volumes too, and the shim lives long. */
static void enter_view(struct shim *s, bool creates)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_shim_enter_view(&err) == 0 &&
	    (!creates || rf_shim_protect(s->bundle, s->root, &err) == 0))
		return;
	(void)rf_fs_write(rf_fs_path(&s->arena, "%s/runtime.log", s->bundle), rf_str(err.msg), 0600,
			  false, NULL);
	_exit(126);
}

static void child_exec(struct shim *s, const char *const *argv, bool container_io)
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR);

	/* A killed shim must not leave a runtime behind that goes on making its container. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != s->self)
		_exit(126);
	enter_view(s, container_io);
	/* What the shim ignores, the container must not inherit as ignored. */
	for (size_t i = 0; i < RF_COUNT(IGNORED); i++)
		signal(IGNORED[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, 0);
	dup2(container_io ? s->out[1] : null, 1);
	dup2(container_io ? s->err_pipe[1] : null, 2);
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* Runs crun with a verb and waits for it. Other children (the container) are left for later. */
static int run_runtime(struct shim *s, const char *const *verb, size_t n_verb, bool container_io)
{
	const char *argv[24] = { s->runtime,
				 "--cgroup-manager",
				 "cgroupfs",
				 "--root",
				 s->root,
				 "--log",
				 rf_fs_path(&s->arena, "%s/runtime.log", s->bundle) };
	int status;

	for (size_t i = 0; i < n_verb && i + 8 < RF_COUNT(argv); i++)
		argv[7 + i] = verb[i];
	pid_t pid = fork();
	if (pid == 0)
		child_exec(s, argv, container_io);
	if (pid < 0)
		return 255;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 255;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int delete_container(struct shim *s)
{
	const char *verb[] = { "delete", "--force", s->id };

	return run_runtime(s, verb, RF_COUNT(verb), false);
}

static pid_t read_pid(struct shim *s)
{
	struct rf_str text;
	int64_t pid = 0;

	if (rf_fs_read(&s->arena, rf_fs_path(&s->arena, "%s/pid", s->bundle), 64, &text, NULL) <
		    0 ||
	    rf_str_int(rf_str_trim(text), &pid, NULL) < 0)
		return 0;
	return (pid_t)pid;
}

static int fail_with_runtime_log(struct shim *s, const char *what, int status, struct rf_err *err)
{
	struct rf_str text = RF_STR_EMPTY;

	(void)rf_fs_read(&s->arena, rf_fs_path(&s->arena, "%s/runtime.log", s->bundle), 64 * 1024,
			 &text, NULL);
	text = rf_str_trim(text);
	if (text.n == 0)
		return rf_fail(err, RF_SYSTEM, "%s %s: exit status %d%s", s->runtime, what, status,
			       status == 127 ? "; is it installed?" : "");
	return rf_fail(err, RF_SYSTEM, "%s %s: %.*s", s->runtime, what, (int)RF_MIN(text.n, 800),
		       text.p);
}

/* create, then start: between them and afterwards no crun process is left to be killed; the
 * container's first process becomes our child, because we are a subreaper. */
static int start_container(struct shim *s, pid_t *ret_pid, struct rf_err *err)
{
	const char *pid_file = rf_fs_path(&s->arena, "%s/pid", s->bundle);
	const char *create[] = { "create", "--pid-file", pid_file, "--bundle", s->bundle, s->id };
	const char *start[] = { "start", s->id };
	int status;

	(void)unlink(pid_file);
	(void)unlink(rf_fs_path(&s->arena, "%s/runtime.log", s->bundle));
	status = run_runtime(s, create, RF_COUNT(create), true);
	if (status != 0)
		return fail_with_runtime_log(s, "create", status, err);
	*ret_pid = read_pid(s);
	if (*ret_pid <= 1)
		return rf_fail(err, RF_SYSTEM, "%s create: no process id in %s", s->runtime,
			       pid_file);
	status = run_runtime(s, start, RF_COUNT(start), false);
	return status == 0 ? 0 : fail_with_runtime_log(s, "start", status, err);
}

/* False at the end of the stream. */
static bool read_pipe(struct shim *s, int fd, int stream)
{
	char bytes[32768];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	if (n > 0)
		rf_crilog_add(&s->log, stream, rf_str_n(bytes, (size_t)n), wall_ns());
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Reaps every child that ended (the container's orphans cannot be among them: it has its own pid
 * namespace); true once the container's first process is one of them. */
static bool reap(struct shim *s, pid_t container, int *status)
{
	struct signalfd_siginfo info;
	bool ended = false;
	int st;

	while (read(s->signal_fd, &info, sizeof(info)) > 0)
		;
	for (pid_t pid; (pid = waitpid(-1, &st, WNOHANG)) > 0;) {
		if (pid != container)
			continue;
		*status = st;
		ended = true;
	}
	return ended;
}

/* Copies output until the container has ended and its pipes are empty. */
static int follow(struct shim *s, pid_t container)
{
	struct pollfd fds[3] = { { s->out[0], POLLIN, 0 },
				 { s->err_pipe[0], POLLIN, 0 },
				 { s->signal_fd, POLLIN, 0 } };
	int status = 0;
	bool ended = reap(s, container, &status);
	int64_t deadline = wall_ns() + (int64_t)DRAIN_MS * 1000000;

	while (!ended || fds[0].fd >= 0 || fds[1].fd >= 0) {
		int wait = ended ? (int)((deadline - wall_ns()) / 1000000) : -1;

		if (ended && wait <= 0)
			break;
		if (poll(fds, 3, wait) < 0 && errno != EINTR)
			break;
		for (int i = 0; i < 2; i++)
			if (fds[i].fd >= 0 && fds[i].revents != 0 && !read_pipe(s, fds[i].fd, i))
				fds[i].fd = -1;
		if (!ended && fds[2].revents != 0 && reap(s, container, &status)) {
			ended = true;
			deadline = wall_ns() + (int64_t)DRAIN_MS * 1000000;
		}
	}
	rf_crilog_flush(&s->log, wall_ns());
	return status;
}

static void describe(struct shim *s, int status, struct rf_exit *e)
{
	e->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	e->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	e->oom = rf_cgroup_oom_kills(&s->arena, rf_str(s->cgroup)) > 0;
}

static void close_write_ends(struct shim *s)
{
	close(s->out[1]);
	close(s->err_pipe[1]);
}

static int run(struct shim *s, struct rf_err *err)
{
	struct rf_exit e = { .started_ms = wall_ns() / 1000000, .message = RF_STR_EMPTY };
	struct rf_err why = RF_ERR_INIT;
	pid_t pid = 0;

	/* The agent gave this attempt up before the shim got the lock. */
	if (rf_fs_exists(rf_fs_path(&s->arena, "%s/exit.%d.json", s->bundle, s->attempt)))
		return rf_fail(err, RF_CONFLICT, "container %s: attempt %d has ended already",
			       s->id, s->attempt);
	if (rf_shim_mark_begun(s->bundle, s->attempt, err) < 0)
		return -err->code;
	(void)delete_container(s); /* left over from a shim that was killed */
	int rc = start_container(s, &pid, &why);
	close_write_ends(s);
	if (rc < 0) {
		e.code = 128;
		e.start_failed = true;
		e.message = rf_str(why.msg);
	} else {
		describe(s, follow(s, pid), &e);
	}
	(void)delete_container(s);
	(void)rf_cgroup_kill(&s->arena, rf_str(s->cgroup));
	(void)rf_cgroup_remove(&s->arena, rf_str(s->cgroup));
	e.finished_ms = wall_ns() / 1000000;
	return rf_exit_write(s->bundle, s->attempt, &e, err);
}

static int prepare(struct shim *s, struct rf_err *err)
{
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	if (take_lock(s, err) < 0)
		return -err->code;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return rf_fail_errno(err, "become a subreaper");
	sigprocmask(SIG_BLOCK, &chld, NULL);
	s->signal_fd = signalfd(-1, &chld, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->signal_fd < 0)
		return rf_fail_errno(err, "make a signal descriptor");
	if (rf_crilog_open(&s->log, rf_fs_path(&s->arena, "%s/log", s->bundle), RF_CRILOG_FILE_MAX,
			   err) < 0)
		return -err->code;
	return open_pipes(s, err);
}

static int parse_args(struct shim *s, int argc, char **argv, struct rf_err *err)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *k = argv[i], *v = argv[i + 1];

		if (strcmp(k, "--bundle") == 0)
			s->bundle = v;
		else if (strcmp(k, "--id") == 0)
			s->id = v;
		else if (strcmp(k, "--runtime") == 0)
			s->runtime = v;
		else if (strcmp(k, "--root") == 0)
			s->root = v;
		else if (strcmp(k, "--cgroup") == 0)
			s->cgroup = v;
		else if (strcmp(k, "--attempt") == 0)
			s->attempt = atoi(v);
		else if (strcmp(k, "--uid") == 0)
			s->uid = (uid_t)strtoul(v, NULL, 10);
		else
			return rf_fail(err, RF_BAD_REQUEST, "shim: unknown option %s", k);
	}
	if (!s->bundle || !s->id || !s->root || !s->cgroup)
		return rf_fail(err, RF_BAD_REQUEST,
			       "shim needs --bundle, --id, --root and --cgroup; it is "
			       "started by the node agent, not by hand");
	return 0;
}

/* `shim --exec PROGRAM ARGS`: the same view of cgroups for one command of the agent. */
static int exec_in_view(char **argv)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_shim_enter_view(&err) < 0) {
		fprintf(stderr, "ringfence shim: %s\n", err.msg);
		return 1;
	}
	execvp(argv[0], argv);
	fprintf(stderr, "ringfence shim: run %s: %s\n", argv[0], strerror(errno));
	return 127;
}

/* `shim --remove FOLDER`: what a tenant left may take long to remove; the agent does not wait. */
static int remove_folder(const char *path)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_fs_remove_tree(path, &err) == 0)
		return 0;
	fprintf(stderr, "ringfence shim: %s\n", err.msg);
	return 1;
}

int rf_shim_main(int argc, char **argv)
{
	struct shim s = { .runtime = "crun",
			  .self = getpid(),
			  .lock_fd = -1,
			  .signal_fd = -1,
			  .log = RF_CRILOG_INIT,
			  .arena = RF_ARENA_INIT };
	struct rf_err err = RF_ERR_INIT;

	close_range(3, ~0U, 0);
	if (argc > 2 && strcmp(argv[1], "--exec") == 0)
		return exec_in_view(argv + 2);
	if (argc == 3 && strcmp(argv[1], "--remove") == 0)
		return remove_folder(argv[2]);
	for (size_t i = 0; i < RF_COUNT(IGNORED); i++)
		signal(IGNORED[i], SIG_IGN);
	int rc = parse_args(&s, argc, argv, &err);
	if (rc == 0)
		rc = prepare(&s, &err);
	if (rc == 0)
		rc = run(&s, &err);
	if (rc < 0)
		fprintf(stderr, "ringfence shim: %s\n", err.msg);
	rf_crilog_done(&s.log);
	rf_arena_done(&s.arena);
	return rc < 0 ? rf_code_info(err.code)->exit : 0;
}
