/* What outlives the process besides the API's objects: past usage of the queues, and, if asked for, a file of
 * the core's events. */
#include "control/private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

#define LEDGER_MAX (900 * 1024) /* a ConfigMap holds a MiB */

static struct rf_str path_of(struct rf_arena *a, struct rf_str name)
{
	return rf_kube_path(a, &RF_CONFIGMAPS, RF_LIT(RF_SYSTEM_NAMESPACE), name, NULL);
}

/* What cannot be read is left behind: past usage is no reason not to place pods. */
int rf_usage_load(struct rf_placer *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;
	struct rf_err bad = RF_ERR_INIT;
	int rc = p->hands.get(p->hands.ctx, &a, path_of(&a, RF_LIT(RF_LEDGER_NAME)), &o, err);

	if (rc == -RF_NOT_FOUND)
		return 0;
	if (rc < 0)
		return rf_wrap(err, "read the ledger of past usage");
	if (rf_core_import(p->core, rf_json_str_at(o, "data", "ledger"), p->now_ms, &bad) < 0)
		rf_warn("past usage in ConfigMap " RF_SYSTEM_NAMESPACE "/" RF_LEDGER_NAME
			" is not to be read, and starts anew: %s",
			bad.msg);
	return 0;
}

int rf_usage_save(struct rf_placer *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_hands *h = &p->hands;
	struct rf_json *o = NULL;
	int rc = 0;

	rf_core_export(p->core, p->now_ms, &text);
	if (text.n > LEDGER_MAX)
		return rf_fail(err, RF_TOO_LARGE, "the ledger of past usage has %zu bytes, and at most %d are kept",
			       text.n, LEDGER_MAX);
	o = rf_json_make(&a,
			 "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'" RF_LEDGER_NAME
			 "','namespace':'" RF_SYSTEM_NAMESPACE "','labels':{'app.kubernetes.io/managed-by':"
			 "'ringfence'}},'data':{'ledger':%S}}",
			 rf_buf_str(&text));
	rc = h->update(h->ctx, &a, path_of(&a, RF_LIT(RF_LEDGER_NAME)), o, NULL, err);
	if (rc == -RF_NOT_FOUND)
		rc = h->create(h->ctx, &a, path_of(&a, RF_STR_EMPTY), o, NULL, err);
	return rc < 0 ? rf_wrap(err, "keep the ledger of past usage") : 0;
}

/* --- the core's events ------------------------------------------------------------------------- */

struct rf_event_log {
	int fd;
	int64_t size, most;
	bool failed; /* said so once */
	char path[4096], older[4096 + 2];
};

/* An operator may have named a device, a folder or a pipe; only a plain file is moved aside. */
static int move_aside(struct rf_event_log *l, struct rf_err *err)
{
	struct stat st;

	if (lstat(l->path, &st) < 0)
		return errno == ENOENT ? 0 : rf_fail_errno(err, "event log %s", l->path);
	if (!S_ISREG(st.st_mode))
		return rf_fail(err, RF_INVALID, "event log %s: not a plain file; name one that may be written",
			       l->path);
	return rename(l->path, l->older) < 0 ? rf_fail_errno(err, "move the older event log %s", l->path) : 0;
}

static int open_file(struct rf_event_log *l, struct rf_err *err)
{
	l->fd = open(l->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	l->size = 0;
	if (l->fd < 0)
		return rf_fail_errno(err, "event log %s", l->path);
	return 0;
}

int rf_event_log_open(const char *path, int64_t most, struct rf_event_log **ret, struct rf_err *err)
{
	struct rf_event_log *l = rf_new(struct rf_event_log);

	l->fd = -1;
	l->most = most;
	if (strlen(path) >= sizeof(l->path)) {
		free(l);
		return rf_fail(err, RF_INVALID, "event log: the path is too long");
	}
	memcpy(l->path, path, strlen(path) + 1);
	memcpy(l->older, path, strlen(path));
	memcpy(l->older + strlen(path), ".1", 3);
	/* A log begins with all that is there: one of an earlier run would be in its way. */
	if (move_aside(l, err) < 0 || open_file(l, err) < 0) {
		free(l);
		return -err->code;
	}
	*ret = l;
	return 0;
}

static void complain(struct rf_event_log *l)
{
	if (!l->failed)
		rf_warn("event log %s: %m; it ends here", l->path);
	l->failed = true;
}

/* What a log lost at its beginning makes it no use for replay from there; the older file is kept for that. */
void rf_event_log_line(void *log, struct rf_str line)
{
	struct rf_event_log *l = log;

	if (l->failed)
		return;
	if (l->size > 0 && l->size + (int64_t)line.n > l->most) {
		close(l->fd);
		l->fd = -1;
		if (move_aside(l, NULL) < 0 || open_file(l, NULL) < 0) {
			complain(l);
			return;
		}
	}
	for (size_t done = 0; done < line.n;) {
		ssize_t n = write(l->fd, line.p + done, line.n - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			complain(l);
			return;
		}
		done += (size_t)n;
	}
	l->size += (int64_t)line.n;
}

void rf_event_log_close(struct rf_event_log *l)
{
	if (l == NULL)
		return;
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}
