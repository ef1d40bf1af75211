#include "apiserver/pki.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "net/tls.h"

#define FILE_MAX (1024 * 1024)
#define SERVER_DAYS 3650

/* --- files ---------------------------------------------------------------------------------- */

int rf_file_read(struct rf_arena *a, const char *path, struct rf_str *ret, struct rf_err *err)
{
	rf_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	rf_auto(buf) b = RF_BUF_INIT;
	char chunk[4096];
	ssize_t n;

	if (fd < 0 && errno == ENOENT)
		return rf_fail(err, RF_NOT_FOUND, "%s: no such file", path);
	if (fd < 0)
		return rf_fail_errno(err, "open %s", path);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0 && b.n < FILE_MAX)
		rf_buf_add(&b, rf_str_n(chunk, (size_t)n));
	if (n < 0)
		return rf_fail_errno(err, "read %s", path);
	*ret = rf_arena_str(a, rf_buf_str(&b));
	return 0;
}

static int write_all(int fd, struct rf_str text)
{
	while (text.n > 0) {
		ssize_t n = write(fd, text.p, text.n);

		if (n < 0)
			return -1;
		text = rf_str_skip(text, (size_t)n);
	}
	return fsync(fd);
}

int rf_file_write(const char *path, struct rf_str text, int mode, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *temp = rf_arena_printf(&a, "%s.%d.tmp", path, (int)getpid()).p;
	rf_auto_close int fd = -1;

	unlink(temp);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return rf_fail_errno(err, "create %s", temp);
	if (write_all(fd, text) < 0 || rename(temp, path) < 0) {
		rf_fail_errno(err, "write %s", path);
		unlink(temp);
		return -err->code;
	}
	return 0;
}

/* --- what is in the folder ------------------------------------------------------------------ */

struct pair {
	const char *first, *second;
};

static const char *in(struct rf_arena *a, const char *dir, const char *name)
{
	return rf_arena_printf(a, "%s/%s", dir, name).p;
}

/* Reads both; 1 if neither is there yet. Half a pair is an error a person must look at. */
static int read_pair(struct rf_arena *a, const char *dir, struct pair p, struct rf_str *first,
		     struct rf_str *second, struct rf_err *err)
{
	int x = rf_file_read(a, in(a, dir, p.first), first, err);
	int y = rf_file_read(a, in(a, dir, p.second), second, err);

	if (x == 0 && y == 0)
		return 0;
	if (x == -RF_NOT_FOUND && y == -RF_NOT_FOUND)
		return 1;
	if (x == 0 || y == 0)
		return rf_fail(
			err, RF_INVALID,
			"%s: only one of %s and %s is there; put the other back, or remove both "
			"(every certificate and token made with them becomes worthless)",
			dir, p.first, p.second);
	return -err->code;
}

static int write_pair(struct rf_arena *a, const char *dir, struct pair p, struct rf_str first,
		      struct rf_str second, struct rf_err *err)
{
	if (rf_file_write(in(a, dir, p.second), second, 0600, err) < 0)
		return -err->code;
	return rf_file_write(in(a, dir, p.first), first, 0600, err);
}

static int ensure_ca(struct rf_arena *a, const char *dir, struct rf_pki_files *f,
		     struct rf_err *err)
{
	static const struct pair CA = { "ca.crt", "ca.key" };
	int r = read_pair(a, dir, CA, &f->ca_cert, &f->ca_key, err);

	if (r <= 0)
		return r;
	if (rf_pki_new_ca(a, RF_LIT("ringfence"), &f->ca_cert, &f->ca_key, err) < 0)
		return -err->code;
	return write_pair(a, dir, CA, f->ca_cert, f->ca_key, err);
}

static int ensure_sa(struct rf_arena *a, const char *dir, struct rf_pki_files *f,
		     struct rf_err *err)
{
	static const struct pair SA = { "sa.pub", "sa.key" };
	int r = read_pair(a, dir, SA, &f->sa_pub, &f->sa_key, err);

	if (r <= 0)
		return r;
	if (rf_pki_new_key(a, &f->sa_key, &f->sa_pub, err) < 0)
		return -err->code;
	return write_pair(a, dir, SA, f->sa_pub, f->sa_key, err);
}

static int issue_server(struct rf_arena *a, const char *dir, const struct rf_str *hosts,
			size_t n_hosts, struct rf_pki_files *f, struct rf_err *err)
{
	static const struct pair SERVER = { "server.crt", "server.key" };
	struct rf_pki_ask ask = { .common_name = RF_LIT("ringfence"),
				  .hosts = hosts,
				  .n_hosts = n_hosts,
				  .server = true,
				  .days = SERVER_DAYS };

	if (rf_pki_issue(a, f->ca_cert, f->ca_key, &ask, &f->server_cert, &f->server_key, err) < 0)
		return -err->code;
	return write_pair(a, dir, SERVER, f->server_cert, f->server_key, err);
}

int rf_pki_ensure(struct rf_arena *a, const char *dir, const struct rf_str *hosts, size_t n_hosts,
		  struct rf_pki_files *ret, struct rf_err *err)
{
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return rf_fail_errno(err, "create %s", dir);
	if (ensure_ca(a, dir, ret, err) < 0 || ensure_sa(a, dir, ret, err) < 0 ||
	    issue_server(a, dir, hosts, n_hosts, ret, err) < 0)
		return rf_wrap(err, "prepare %s", dir);
	return 0;
}
