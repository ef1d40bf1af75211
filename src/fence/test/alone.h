/* A machine on which nobody else's launcher listens: /run is this process's own, and it is root there. */
#ifndef RF_TEST_ALONE_H
#define RF_TEST_ALONE_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static inline bool alone_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static inline bool alone_as_root(void)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       alone_write("/proc/self/setgroups", "deny") &&
	       alone_write("/proc/self/uid_map", uids) && alone_write("/proc/self/gid_map", gids);
}

static inline bool go_alone(void)
{
	return (unshare(CLONE_NEWNS) == 0 || alone_as_root()) &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/run", "tmpfs", 0, "mode=755") == 0;
}

#endif
