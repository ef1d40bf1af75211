/* The folder in which this user's launchers listen, and root's, where all may knock. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "fence/dial.h"
#include "fence/launch/launch.h"

#define SWEEP_MAX 4096

int rf_folder_open(struct rf_folder *ret, struct rf_err *err)
{
	for (unsigned i = geteuid() == 0 ? 0 : 1; i < RF_FENCE_FOLDERS; i++) {
		char path[RF_FENCE_FOLDER_PATH];
		mode_t kept = umask(i == 0 ? 022 : 077);

		rf_fence_folder(i, path);
		(void)mkdir(path,
			    0777); /* whether it is there now, and whose, the next line says */
		umask(kept);
		*ret = (struct rf_folder){ .which = i, .fd = rf_fence_folder_open(i) };
		if (ret->fd >= 0)
			return 0;
	}
	return rf_fail(err, RF_FORBIDDEN,
		       "/tmp/ringfence-%u is not a folder that user %u alone can write in, and "
		       "there is no /run/user/%u; remove it, or have root remove it",
		       (unsigned)geteuid(), (unsigned)geteuid(), (unsigned)geteuid());
}

/* By its full name, which others see in /proc/net/unix. */
static int bind_at(const struct rf_folder *f, int fd, const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	char path[RF_FENCE_FOLDER_PATH];
	mode_t kept;
	int r;

	rf_fence_folder(f->which, path);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", path, name);
	(void)unlinkat(f->fd, name, 0); /* of one with our number, long gone */
	kept = umask(f->which == 0 ? 0111 : 0177);
	r = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
	umask(kept);
	return r;
}

int rf_folder_listen(const struct rf_folder *f, const char *name, int backlog, int *ret_fd,
		     struct rf_err *err)
{
	rf_auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind_at(f, fd, name) < 0 || listen(fd, backlog) < 0)
		return rf_fail_errno(err, "listen as %s", name);
	*ret_fd = rf_take_fd(fd);
	return 0;
}

void rf_folder_remove(const struct rf_folder *f, const char *name)
{
	(void)unlinkat(f->fd, name, 0);
}

/* "fence.<pid>" or "stats.<pid>" of one that was killed: no such process, and nobody who listens (it
 * might be in another pid namespace). */
static bool is_left_over(const struct rf_folder *f, const char *name)
{
	struct ucred who;
	int64_t pid = 0;
	int fd;

	if ((strncmp(name, "fence.", 6) != 0 && strncmp(name, "stats.", 6) != 0) ||
	    rf_str_int(rf_str(name + 6), &pid, NULL) < 0 || pid <= 0 || pid > INT32_MAX ||
	    kill((pid_t)pid, 0) == 0 || errno != ESRCH)
		return false;
	fd = rf_fence_connect(f->which, f->fd, name, 0, &who);
	if (fd < 0)
		return errno == ECONNREFUSED;
	close(fd);
	return false;
}

void rf_folder_sweep(const struct rf_folder *f)
{
	int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	for (int i = 0; d != NULL && i < SWEEP_MAX && (e = readdir(d)) != NULL; i++)
		if (is_left_over(f, e->d_name))
			rf_folder_remove(f, e->d_name);
	if (d != NULL)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

/* The user whose arbiter the line of /proc/net/unix names, -1 if none's. */
static int64_t user_of(const char *line)
{
	const char *at = strstr(line, " /");
	unsigned uid = 0;
	int end = 0;

	if (at == NULL)
		return -1;
	if (sscanf(at, " /tmp/ringfence-%u/arbiter%n", &uid, &end) == 1 && end > 0)
		return uid;
	if (sscanf(at, " /run/user/%u/ringfence/arbiter%n", &uid, &end) == 1 && end > 0)
		return uid;
	return -1;
}

bool rf_folder_others(uid_t *ret)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512];
	int64_t uid = -1;

	while (f != NULL && (uid < 0 || uid == geteuid()) && fgets(line, sizeof(line), f) != NULL)
		uid = user_of(line);
	if (f != NULL)
		fclose(f);
	*ret = (uid_t)uid;
	return uid >= 0 && uid != geteuid();
}
