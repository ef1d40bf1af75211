#include "apiserver/pki.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "net/tls.h"

#define FILE_MAX (1024 * 1024)
#define SERVER_DAYS 3650

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
	int x = rf_fs_read(a, in(a, dir, p.first), FILE_MAX, first, err);
	int y = rf_fs_read(a, in(a, dir, p.second), FILE_MAX, second, err);

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
	if (rf_fs_write(in(a, dir, p.second), second, 0600, true, err) < 0)
		return -err->code;
	return rf_fs_write(in(a, dir, p.first), first, 0600, true, err);
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
