#include "fence/dial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "fence/protocol.h"

#define STEP_TIMEOUT_MS 2000
#define GENERATIONS 256
#define NAMES                                                                                      \
	64 /* of launchers that are looked at before the ancestors; if there are more, after */

/* --- ancestors --- */

pid_t rf_fence_parent(pid_t pid)
{
	char path[64], text[512];
	const char *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')'); /* "pid (name) state ppid": the name may hold anything */
	return end && strlen(end) > 4 ? (pid_t)atoi(end + 4) : 0;
}

/* A parent that dies while we look breaks the chain for an instant. */
bool rf_fence_descends(pid_t pid, pid_t from)
{
	for (int tries = 0; tries < 3; tries++) {
		pid_t at = pid;

		for (int i = 0; at > 1 && i < GENERATIONS; i++) {
			at = rf_fence_parent(at);
			if (at == from)
				return true;
		}
		if (at == 1)
			return false;
	}
	return false;
}

/* --- folders --- */

uid_t rf_fence_folder(unsigned i, char ret_path[RF_FENCE_FOLDER_PATH])
{
	unsigned me = (unsigned)geteuid();

	if (i == 0)
		snprintf(ret_path, RF_FENCE_FOLDER_PATH, "/run/ringfence");
	else if (i == 1)
		snprintf(ret_path, RF_FENCE_FOLDER_PATH, "/tmp/ringfence-%u", me);
	else
		snprintf(ret_path, RF_FENCE_FOLDER_PATH, "/run/user/%u/ringfence", me);
	return i == 0 ? 0 : geteuid();
}

int rf_fence_folder_open(unsigned i)
{
	char path[RF_FENCE_FOLDER_PATH];
	uid_t owner = rf_fence_folder(i, path);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_uid == owner && (st.st_mode & 022) == 0)
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

static int connect_to(const struct sockaddr_un *addr, int timeout_ms)
{
	struct timeval wait = { .tv_sec = timeout_ms / 1000,
				.tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000 };
	int flags = SOCK_SEQPACKET | SOCK_CLOEXEC | (timeout_ms == 0 ? SOCK_NONBLOCK : 0);
	int fd = socket(AF_UNIX, flags, 0);
	int why;

	if (fd < 0)
		return -1;
	if (timeout_ms != 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	}
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0)
		return fd;
	why = errno;
	close(fd);
	errno = why;
	return -1;
}

int rf_fence_connect(unsigned i, int folder_fd, const char *name, int timeout_ms,
		     struct ucred *ret_who)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t size = sizeof(*ret_who);
	struct stat st;
	int fd;

	if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (!S_ISSOCK(st.st_mode) || st.st_uid != (i == 0 ? 0 : geteuid())) {
		errno = EPERM;
		return -1;
	}
	/* Through the folder that was looked at, whatever its name means by now. */
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%s", folder_fd, name);
	fd = connect_to(&addr, timeout_ms);
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_who, &size) == 0)
		return fd;
	close(fd);
	return -1;
}

/* --- the launcher --- */

bool rf_fence_in_container(void)
{
	char folder[] = RF_FENCE_SOCKET;
	char *slash = strrchr(folder, '/');
	struct stat st;

	if (slash == NULL || slash == folder) /* a relative place: tests */
		return true;
	*slash = '\0';
	return stat(folder, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Only the ancestor itself is believed, not whoever got its number before or after it. */
static int connect_to_ancestor(const int folders[RF_FENCE_FOLDERS], pid_t pid)
{
	struct ucred who = { .pid = 0 };
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "fence.%d", (int)pid);
	for (unsigned i = 0; i < RF_FENCE_FOLDERS; i++) {
		if (folders[i] < 0)
			continue;
		fd = rf_fence_connect(i, folders[i], name, STEP_TIMEOUT_MS, &who);
		if (fd >= 0 && who.pid == pid)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

/* The numbers under which launchers listen in the folder, after the n that are there already. */
static int list_names(int folder_fd, pid_t list[NAMES], int n)
{
	_Alignas(struct dirent64) char page[4096];
	const struct dirent64 *e;
	ssize_t size;

	while (n < NAMES && (size = getdents64(folder_fd, page, sizeof(page))) > 0) {
		for (ssize_t at = 0; at < size && n < NAMES; at += e->d_reclen) {
			e = (const struct dirent64 *)(page + at);
			if (strncmp(e->d_name, "fence.", 6) == 0)
				list[n++] = (pid_t)atoi(e->d_name + 6);
		}
	}
	return n;
}

static bool has(const pid_t *list, int n, pid_t pid)
{
	for (int i = 0; i < n; i++) {
		if (list[i] == pid)
			return true;
	}
	return false;
}

/* Reading ancestors is what costs: it ends when all who listen have been met. */
static int find_launcher(const int folders[RF_FENCE_FOLDERS], pid_t *ret_launcher)
{
	pid_t names[NAMES], line[GENERATIONS], pid;
	int n_names = 0, n = 0, fd = -1;

	for (unsigned i = 0; i < RF_FENCE_FOLDERS; i++)
		n_names = folders[i] < 0 ? n_names : list_names(folders[i], names, n_names);
	pid = n_names > 0 ? getppid() : 0;
	for (int i = 0; i < GENERATIONS && pid > 0; i++) {
		if (n_names == NAMES || has(names, n_names, pid))
			line[n++] = pid;
		pid = n < n_names ? rf_fence_parent(pid) : 0;
	}
	while (fd < 0 && n > 0)
		fd = connect_to_ancestor(folders, line[--n]);
	if (fd >= 0 && ret_launcher)
		*ret_launcher = line[n];
	return fd;
}

int rf_fence_dial(pid_t *ret_launcher)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = RF_FENCE_SOCKET };
	int folders[RF_FENCE_FOLDERS];
	bool any = false;
	int fd = -1;

	if (ret_launcher)
		*ret_launcher = 0;
	if (rf_fence_in_container())
		return connect_to(&addr, STEP_TIMEOUT_MS);
	for (unsigned i = 0; i < RF_FENCE_FOLDERS; i++) {
		/* Where root's folder can be had, root's launchers listen in no other. */
		folders[i] = any && geteuid() == 0 ? -1 : rf_fence_folder_open(i);
		any = any || folders[i] >= 0;
	}
	if (any)
		fd = find_launcher(folders, ret_launcher);
	for (unsigned i = 0; i < RF_FENCE_FOLDERS; i++) {
		if (folders[i] >= 0)
			close(folders[i]);
	}
	return fd;
}
