#include "fence/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "fence/protocol.h"

#define STEP_TIMEOUT_S 2
#define GENERATIONS 256

/* 0: there is none, or it cannot be seen from here. */
static pid_t parent_of(pid_t pid)
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

static bool descends(pid_t pid, pid_t from)
{
	for (int i = 0; pid > 1 && i < GENERATIONS; i++) {
		pid = parent_of(pid);
		if (pid == from)
			return true;
	}
	return false;
}

/* A parent that dies while we look breaks the chain for an instant. */
bool rf_fence_descends(pid_t pid, pid_t from)
{
	for (int i = 0; i < 3; i++) {
		if (descends(pid, from))
			return true;
	}
	return false;
}

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

socklen_t rf_fence_address(struct sockaddr_un *ret, const char *what, pid_t pid)
{
	size_t room = sizeof(ret->sun_path) - 1;
	int n;

	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	n = pid ? snprintf(ret->sun_path + 1, room, "ringfence/%s/%d", what, (int)pid)
		: snprintf(ret->sun_path + 1, room, "ringfence/%s", what);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int connect_to(const struct sockaddr_un *addr, socklen_t size)
{
	struct timeval wait = { .tv_sec = STEP_TIMEOUT_S };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (connect(fd, (const struct sockaddr *)addr, size) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Anybody may bind any name; only the ancestor itself is believed. */
static int connect_to_ancestor(pid_t pid)
{
	struct sockaddr_un addr;
	struct ucred who = { .pid = 0 };
	socklen_t size = sizeof(who);
	int fd = connect_to(&addr, rf_fence_address(&addr, "fence", pid));

	if (fd < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid == pid)
		return fd;
	close(fd);
	return -1;
}

int rf_fence_dial(pid_t *ret_launcher)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = RF_FENCE_SOCKET };
	pid_t line[GENERATIONS];
	pid_t pid = getpid();
	int n = 0, fd = -1;

	if (ret_launcher)
		*ret_launcher = 0;
	if (rf_fence_in_container())
		return connect_to(&addr, sizeof(addr));
	for (; n < GENERATIONS && (pid = parent_of(pid)) > 0; n++)
		line[n] = pid;
	while (fd < 0 && n > 0)
		fd = connect_to_ancestor(line[--n]);
	if (fd >= 0 && ret_launcher)
		*ret_launcher = line[n];
	return fd;
}
