#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define NAMES_MAX 65536

const char *rf_fs_path(struct rf_arena *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	struct rf_str s = rf_arena_vprintf(a, fmt, ap);
	va_end(ap);
	return s.p;
}

bool rf_fs_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

int rf_fs_mkdirs(const char *path, mode_t mode, struct rf_err *err)
{
	char part[PATH_MAX];
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(part))
		return rf_fail(err, RF_INVALID, "make folder: path of %zu bytes", n);
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (part[i] != '/' && part[i] != '\0')
			continue;
		char kept = part[i];
		part[i] = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return rf_fail_errno(err, "make folder %s", part);
		part[i] = kept;
	}
	return 0;
}

static int read_all(int fd, char *p, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got = read(fd, p + have, n - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		have += (size_t)got;
	}
	return (int)have;
}

int rf_fs_read(struct rf_arena *a, const char *path, size_t max, struct rf_str *ret,
	       struct rf_err *err)
{
	rf_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return rf_fail(err, RF_NOT_FOUND, "%s: no such file", path);
	if (fd < 0)
		return rf_fail_errno(err, "open %s", path);
	/* Files of /proc and cgroups tell no size, so the cap is what is read. */
	struct stat st;
	if (fstat(fd, &st) < 0)
		return rf_fail_errno(err, "stat %s", path);
	size_t want = st.st_size > 0 ? RF_MIN((size_t)st.st_size, max) + 1 : max + 1;
	rf_auto(buf) b = RF_BUF_INIT;
	rf_buf_reserve(&b, want);
	int got = read_all(fd, b.p, want);
	if (got < 0)
		return rf_fail_errno(err, "read %s", path);
	if ((size_t)got > max)
		return rf_fail(err, RF_TOO_LARGE, "%s: larger than %zu bytes", path, max);
	*ret = rf_arena_str(a, rf_str_n(b.p, (size_t)got));
	return 0;
}

static int write_all(int fd, struct rf_str data)
{
	while (data.n > 0) {
		ssize_t put = write(fd, data.p, data.n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -1;
		data = rf_str_skip(data, (size_t)put);
	}
	return 0;
}

static void sync_parent(const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	rf_auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		(void)fsync(fd);
}

static int fill(int fd, struct rf_str data, mode_t mode, bool durable)
{
	/* The umask must not take what the caller asked for. */
	if (fchmod(fd, mode) < 0 || write_all(fd, data) < 0)
		return -1;
	return durable ? fsync(fd) : 0;
}

/* The new content is made in a file of our own: one that lies ready may be somebody else's, who then
 * reads along. */
int rf_fs_write(const char *path, struct rf_str data, mode_t mode, bool durable, struct rf_err *err)
{
	char tmp[PATH_MAX];
	rf_auto_close int fd = -1;

	if (snprintf(tmp, sizeof(tmp), "%s.tmp", path) >= (int)sizeof(tmp))
		return rf_fail(err, RF_INVALID, "write %s: path too long", path);
	unlink(tmp);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return rf_fail_errno(err, "create %s", tmp);
	if (fill(fd, data, mode, durable) < 0 || rename(tmp, path) < 0) {
		int r = rf_fail_errno(err, "write %s", path);

		unlink(tmp);
		return r;
	}
	if (durable)
		sync_parent(path);
	return 0;
}

/* A tenant made what is removed here, so it is walked by descriptor (no path can grow too long, no link
 * is followed) and what lies deep is first brought up to the top. */
struct remover {
	int top;
	dev_t dev;
	unsigned moved;
};
#define REMOVE_DEPTH_MAX 32

static int empty_folder(struct remover *r, int fd, int depth);

static int remove_folder(struct remover *r, int parent, const char *name, int depth)
{
	struct stat st;
	char up[32];
	rf_auto_close int fd =
		openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (st.st_dev != r->dev) {
		errno = EBUSY; /* something is mounted there */
		return -1;
	}
	if (depth >= REMOVE_DEPTH_MAX) {
		snprintf(up, sizeof(up), ".deep-%u", r->moved++);
		return renameat(parent, name, r->top, up);
	}
	if (empty_folder(r, fd, depth + 1) < 0)
		return -1;
	return unlinkat(parent, name, AT_REMOVEDIR);
}

static int empty_folder(struct remover *r, int fd, int depth)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *e;

	if (dir == NULL)
		return -1;
	while (rc == 0 && (e = readdir(dir)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		rc = unlinkat(fd, e->d_name, 0);
		if (rc < 0 && (errno == EISDIR || errno == EPERM))
			rc = remove_folder(r, fd, e->d_name, depth);
		if (rc < 0 && errno == ENOENT)
			rc = 0;
	}
	int kept = errno;
	closedir(dir);
	errno = kept;
	return rc;
}

int rf_fs_remove_tree(const char *path, struct rf_err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : rf_fail_errno(err, "look at %s", path);
	if (!S_ISDIR(st.st_mode))
		return unlink(path) < 0 ? rf_fail_errno(err, "remove %s", path) : 0;
	rf_auto_close int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct remover r = { .top = top, .dev = st.st_dev };
	unsigned before;
	do {
		before = r.moved;
		if (top < 0 || empty_folder(&r, top, 0) < 0)
			return rf_fail_errno(err, "remove %s", path);
	} while (r.moved != before);
	return rmdir(path) < 0 ? rf_fail_errno(err, "remove %s", path) : 0;
}

static int by_name(const void *x, const void *y)
{
	return rf_str_cmp(*(const struct rf_str *)x, *(const struct rf_str *)y);
}

int rf_fs_list(struct rf_arena *a, const char *path, struct rf_str **ret_names, size_t *ret_n,
	       struct rf_err *err)
{
	DIR *dir = opendir(path);
	RF_VEC(struct rf_str) names = RF_VEC_INIT;
	struct dirent *e;

	if (dir == NULL && errno != ENOENT)
		return rf_fail_errno(err, "open folder %s", path);
	while (dir != NULL && names.n < NAMES_MAX && (e = readdir(dir)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			rf_vec_push(&names, rf_arena_str(a, rf_str(e->d_name)));
	if (dir != NULL)
		closedir(dir);
	*ret_n = names.n;
	*ret_names = rf_arena_array(a, struct rf_str, names.n + 1);
	if (names.n > 0) {
		memcpy(*ret_names, names.at, names.n * sizeof(struct rf_str));
		qsort(*ret_names, names.n, sizeof(struct rf_str), by_name);
	}
	rf_vec_done(&names);
	return 0;
}
