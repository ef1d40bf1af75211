/* Whose is a process? Kubelets put a pod's processes below a cgroup named after its uid:
 * .../pod<uid>/<container> with the cgroupfs driver, ...-pod<uid with _>.slice/... with systemd's. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugin/private.h"

const char *rf_procs_dir = "/proc";

static bool take_uid(struct rf_str s, char ret_uid[64])
{
	size_t n = 0;

	while (n < s.n && n < 63 &&
	       (isxdigit((unsigned char)s.p[n]) || s.p[n] == '-' || s.p[n] == '_'))
		n++;
	/* 36 with dashes; mirror pods of static ones have 32 hex digits. */
	if (n < 32 || (n < s.n && s.p[n] != '/' && s.p[n] != '.' && s.p[n] != '\n'))
		return false;
	for (size_t i = 0; i < n; i++)
		ret_uid[i] = s.p[i] == '_' ? '-' : s.p[i];
	ret_uid[n] = '\0';
	return true;
}

bool rf_procs_parse(struct rf_str cgroup, char ret_uid[64])
{
	for (size_t i = 0; i + 3 < cgroup.n; i++) {
		bool begins = i > 0 && (cgroup.p[i - 1] == '/' || cgroup.p[i - 1] == '-');

		if (begins && memcmp(cgroup.p + i, "pod", 3) == 0 &&
		    take_uid(rf_str_skip(cgroup, i + 3), ret_uid))
			return true;
	}
	return false;
}

/* "Out of descriptors" must not read as "no such process": then a card would be let go. */
static int cannot_tell(void)
{
	return errno == ENOENT || errno == ESRCH ? 0 : -1;
}

int rf_procs_pod_of(pid_t pid, char ret_uid[64])
{
	char path[4096], text[16 * 1024];
	size_t n = 0;
	ssize_t got = 1;

	snprintf(path, sizeof(path), "%s/%d/cgroup", rf_procs_dir, (int)pid);
	rf_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return cannot_tell();
	while (got > 0 && n < sizeof(text)) {
		got = read(fd, text + n, sizeof(text) - n);
		n += got > 0 ? (size_t)got : 0;
	}
	if (got < 0)
		return cannot_tell();
	return rf_procs_parse(rf_str_n(text, n), ret_uid) ? 1 : 0;
}

int rf_procs_pod_lives(struct rf_str uid)
{
	DIR *proc = opendir(rf_procs_dir);
	const struct dirent *e;
	char of[64];
	int lives = 0;

	if (proc == NULL)
		return -1;
	while (lives == 0 && (errno = 0, e = readdir(proc)) != NULL) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		int of_pod = rf_procs_pod_of((pid_t)atoi(e->d_name), of);
		lives = of_pod > 0 ? rf_str_is(uid, of) : of_pod;
	}
	int failed = errno;
	closedir(proc);
	errno = failed;
	return lives == 0 && failed != 0 ? -1 : lives;
}

int rf_procs_on_card(struct rf_plugin *p, size_t position, struct rf_str uid, size_t *ret,
		     struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *list;
	size_t n, count = 0;
	char of[64];

	if (rf_gpu_processes(p->cards.gpu, position, &a, &list, &n, err) < 0)
		return -RF_UNAVAILABLE;
	for (size_t i = 0; i < n; i++) {
		int of_pod = rf_procs_pod_of(list[i].pid, of);

		count += of_pod < 0 || (of_pod > 0 && rf_str_is(uid, of));
	}
	*ret = count;
	return 0;
}

/* By a descriptor that stands for this one process: its number may pass to another at any time. */
bool rf_procs_end(pid_t pid, const char *pod_uid)
{
	rf_auto_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	bool old_kernel = fd < 0 && errno == ENOSYS;
	char of[64];

	if ((fd < 0 && !old_kernel) || rf_procs_pod_of(pid, of) <= 0 || strcmp(of, pod_uid) != 0)
		return false;
	if (old_kernel)
		return kill(pid, SIGKILL) == 0;
	return syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
}
