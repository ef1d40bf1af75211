/* Whose is a process? Kubelets put a pod's processes below a cgroup named after its uid:
 * .../pod<uid>/<container> with the cgroupfs driver, ...-pod<uid with _>.slice/... with systemd's. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "plugin/private.h"

static bool take_uid(struct rf_str s, char ret_uid[64])
{
	size_t n = 0;

	while (n < s.n && n < 63 && (isxdigit((unsigned char)s.p[n]) || s.p[n] == '-' || s.p[n] == '_'))
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

bool rf_procs_pod_of(pid_t pid, char ret_uid[64])
{
	char path[64], text[16 * 1024];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	rf_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (n = read(fd, text, sizeof(text))) <= 0)
		return false;
	return rf_procs_parse(rf_str_n(text, (size_t)n), ret_uid);
}

int rf_procs_pod_lives(struct rf_str uid)
{
	DIR *proc = opendir("/proc");
	const struct dirent *e;
	char of[64];
	int lives = 0;

	if (proc == NULL)
		return -1;
	while (lives == 0 && (e = readdir(proc)) != NULL)
		if (isdigit((unsigned char)e->d_name[0]) &&
		    rf_procs_pod_of((pid_t)atoi(e->d_name), of) && rf_str_is(uid, of))
			lives = 1;
	closedir(proc);
	return lives;
}

int rf_procs_on_card(struct rf_plugin *p, size_t position, struct rf_str uid, bool mine,
		     size_t *ret, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *list;
	size_t n, count = 0;
	char of[64];

	if (rf_gpu_processes(p->cards.gpu, position, &a, &list, &n, err) < 0)
		return -RF_UNAVAILABLE;
	for (size_t i = 0; i < n; i++)
		count += (rf_procs_pod_of(list[i].pid, of) && rf_str_is(uid, of)) == mine;
	*ret = count;
	return 0;
}
