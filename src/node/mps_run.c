/* The MPS daemon as a process: started so that it outlives the agent, and found again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "node/mps.h"

#define ENVIRON_MAX ((size_t)256 << 10)

/* --- starting. Between fork and exec: nothing but system calls, as the agent has threads --------- */

static int enter(const char *path, int kind)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? -1 : setns(fd, kind), why = errno;

	if (fd >= 0)
		close(fd);
	errno = why;
	return rc;
}

struct places {
	char mnt[32], cgroup[32];
};

/* What the processes below tell the agent: the daemon's number, why there is none, or what else did not work. */
struct word {
	enum { STARTED, FAILED, REMARK } kind;
	int value;	  /* pid or errno */
	const char *what; /* of a remark; a text of this program, so it is the same in the agent */
};

static void tell_agent(int fd, struct word w)
{
	if (write(fd, &w, sizeof(w)) != (ssize_t)sizeof(w))
		_exit(126);
}

static void remark(int fd, const char *what)
{
	tell_agent(fd, (struct word){ REMARK, errno, what });
}

/* Out of the agent's container: the driver's programs are the machine's, and the daemon must not end with the
 * agent's pod. Where the machine has no cgroup v2 tree it stays in the pod's, and does end with it. */
static int leave_container(const struct places *p, int tell)
{
	int fd;

	if (enter(p->cgroup, CLONE_NEWCGROUP) < 0) /* else the kernel lets nobody out of the pod's */
		remark(tell, "enter the machine's cgroup namespace");
	if (enter(p->mnt, CLONE_NEWNS) < 0)
		return -1;
	if (access("/sys/fs/cgroup/cgroup.procs", F_OK) < 0)
		return 0;
	if (mkdir(RF_MPS_HOST_CGROUP, 0755) < 0 && errno != EEXIST)
		remark(tell, "make " RF_MPS_HOST_CGROUP);
	fd = open(RF_MPS_HOST_CGROUP "/cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) < 0)
		remark(tell, "move to " RF_MPS_HOST_CGROUP);
	if (fd >= 0)
		close(fd);
	return 0;
}

static void reset_signals(void)
{
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const struct rf_mps_run *r, int input, int tell)
{
	int out = open(r->output, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	int in = input >= 0 ? input : open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (out >= 0 && in >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2) {
		reset_signals();
		umask(0022);
		(void)syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
		execve(r->argv[0], (char *const *)(uintptr_t)r->argv, (char *const *)(uintptr_t)r->env);
	}
	tell_agent(tell, (struct word){ .kind = FAILED, .value = errno });
	_exit(127);
}

/* In between is a process that ends at once: so the daemon is not the agent's child. */
static _Noreturn void start_apart(const struct rf_mps_run *r, const struct places *places, int input, int tell)
{
	pid_t pid = -1;

	setsid();
	if (r->beside == 0 || leave_container(places, tell) == 0)
		pid = fork();
	if (pid == 0)
		become(r, input, tell);
	tell_agent(tell, pid < 0 ? (struct word){ .kind = FAILED, .value = errno }
				 : (struct word){ .kind = STARTED, .value = pid });
	_exit(0);
}

/* Until both have gone or become the daemon. 0, or why it was not started. */
static int hear(int fd, pid_t *ret_pid)
{
	int why = EIO;
	struct word w;
	ssize_t n;

	*ret_pid = 0;
	while ((n = read(fd, &w, sizeof(w))) == (ssize_t)sizeof(w) || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		if (w.kind == REMARK) {
			rf_warn("MPS daemon: cannot %s: %s; it may end with the agent's pod", w.what, strerror(w.value));
		} else if (w.kind == FAILED) {
			why = w.value;
			*ret_pid = -1;
		} else if (*ret_pid == 0) {
			*ret_pid = w.value;
		}
	}
	return *ret_pid > 0 ? 0 : why;
}

static int make_input(const char *text, int *ret, struct rf_err *err)
{
	int fds[2];

	*ret = -1;
	if (text == NULL)
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return rf_fail_errno(err, "make a pipe");
	if (write(fds[1], text, strlen(text)) != (ssize_t)strlen(text))
		rf_warn("a pipe did not take %zu bytes", strlen(text));
	close(fds[1]);
	*ret = fds[0];
	return 0;
}

int rf_mps_run(const struct rf_mps_run *r, pid_t *ret_pid, struct rf_err *err)
{
	rf_auto_close int input = -1;
	struct places places;
	int tell[2], why;
	pid_t pid, daemon = 0;

	snprintf(places.mnt, sizeof(places.mnt), "/proc/%d/ns/mnt", (int)r->beside);
	snprintf(places.cgroup, sizeof(places.cgroup), "/proc/%d/ns/cgroup", (int)r->beside);

	if (make_input(r->input, &input, err) < 0)
		return -err->code;
	if (pipe2(tell, O_CLOEXEC) < 0)
		return rf_fail_errno(err, "make a pipe");
	pid = fork();
	if (pid == 0) {
		close(tell[0]);
		start_apart(r, &places, input, tell[1]);
	}
	close(tell[1]);
	if (pid < 0) {
		close(tell[0]);
		return rf_fail_errno(err, "start %s", r->argv[0]);
	}
	why = hear(tell[0], &daemon);
	close(tell[0]);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (why != 0)
		return rf_fail(err, RF_UNAVAILABLE, "start %s: %s", r->argv[0], strerror(why));
	*ret_pid = daemon;
	return 0;
}

/* --- finding it again ----------------------------------------------------------------------------- */

uint64_t rf_mps_started(pid_t pid)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text, word = RF_STR_EMPTY;
	const char *end;
	int64_t ticks = 0;
	bool ended = false;

	if (pid <= 0 || rf_fs_read(&a, rf_fs_path(&a, "/proc/%d/stat", (int)pid), 4096, &text, NULL) < 0)
		return 0;
	/* The name stands in brackets and may hold anything. */
	end = memrchr(text.p, ')', text.n);
	if (end == NULL)
		return 0;
	text = rf_str_trim(rf_str_skip(text, (size_t)(end - text.p) + 1));
	for (int i = 3; i <= 22; i++) {
		rf_str_cut(&text, ' ', &word);
		if (i == 3)
			ended = rf_str_is(word, "Z") || rf_str_is(word, "X");
		/* Its first thread has ended; what the process holds open is held until the others have too. */
		if (i == 20 && ended && !(rf_str_int(word, &ticks, NULL) == 0 && ticks > 1))
			return 0;
	}
	return rf_str_int(word, &ticks, NULL) == 0 && ticks > 0 ? (uint64_t)ticks : 0;
}

static bool in_our_namespace(pid_t pid)
{
	char path[64];
	struct stat theirs, ours;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return stat(path, &theirs) == 0 && stat("/proc/self/ns/pid", &ours) == 0 && theirs.st_ino == ours.st_ino &&
	       theirs.st_dev == ours.st_dev;
}

bool rf_mps_env_has(pid_t pid, const char *text, bool prefix)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str env, word;

	if (!in_our_namespace(pid) ||
	    rf_fs_read(&a, rf_fs_path(&a, "/proc/%d/environ", (int)pid), ENVIRON_MAX, &env, NULL) < 0)
		return false;
	while (env.n > 0) {
		rf_str_cut(&env, '\0', &word);
		if (prefix ? rf_str_starts(word, rf_str(text)) : rf_str_is(word, text))
			return true;
	}
	return false;
}

/* By a descriptor that stands for this one process: its number may pass to another at any time. 0: it is not one. */
static uint64_t kill_one(pid_t pid, const char *text, int signal)
{
	rf_auto_close int fd = signal != 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	bool old_kernel = fd < 0 && errno == ENOSYS;
	uint64_t start = rf_mps_started(pid);

	if (start == 0 || !rf_mps_env_has(pid, text, false))
		return 0;
	if (fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
	else if (signal != 0 && old_kernel)
		(void)kill(pid, signal);
	return start;
}

static void remember(struct rf_mps_seen *seen, pid_t pid, uint64_t start)
{
	for (size_t i = 0; i < seen->list.n; i++)
		if (seen->list.at[i].pid == pid && seen->list.at[i].start == start)
			return;
	rf_vec_push(&seen->list, ((struct rf_mps_process){ pid, start }));
}

size_t rf_mps_kill_all(const char *text, int signal, struct rf_mps_seen *seen)
{
	DIR *dir = opendir("/proc");
	const struct dirent *e;
	size_t n = 0;

	if (dir == NULL)
		return 1; /* nobody can tell that there is none */
	while ((e = readdir(dir)) != NULL) {
		uint64_t start;
		int64_t pid;

		if (rf_str_int(rf_str(e->d_name), &pid, NULL) < 0 || pid <= 0 || pid == getpid())
			continue;
		start = kill_one((pid_t)pid, text, signal);
		if (start != 0 && seen != NULL)
			remember(seen, (pid_t)pid, start);
		n += start != 0;
	}
	closedir(dir);
	return n;
}

size_t rf_mps_seen_left(struct rf_mps_seen *seen)
{
	for (size_t i = seen->list.n; i-- > 0;)
		if (rf_mps_started(seen->list.at[i].pid) != seen->list.at[i].start)
			rf_vec_remove(&seen->list, i);
	return seen->list.n;
}
