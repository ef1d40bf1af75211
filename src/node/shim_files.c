#include <errno.h>
#include <fcntl.h>

#include "base/fs.h"
#include "codec/json.h"
#include "node/shim.h"

int rf_exit_read(struct rf_arena *a, const char *dir, int attempt, struct rf_exit *ret,
		 struct rf_err *err)
{
	struct rf_str text;
	struct rf_json *v;

	if (rf_fs_read(a, rf_fs_path(a, "%s/exit.%d.json", dir, attempt), 64 * 1024, &text, err) <
		    0 ||
	    rf_json_parse(a, text, &v, err) < 0)
		return -err->code;
	*ret = (struct rf_exit){
		.code = (int)rf_json_int(rf_json_at(v, "code"), 255),
		.signal = (int)rf_json_int(rf_json_at(v, "signal"), 0),
		.oom = rf_json_is_true(rf_json_at(v, "oom")),
		.start_failed = rf_json_is_true(rf_json_at(v, "startFailed")),
		.never_ran = rf_json_is_true(rf_json_at(v, "neverRan")),
		.started_ms = rf_json_int(rf_json_at(v, "started"), 0),
		.finished_ms = rf_json_int(rf_json_at(v, "finished"), 0),
		.message = rf_json_str_at(v, "message"),
	};
	return 0;
}

int rf_exit_write(const char *dir, int attempt, const struct rf_exit *e, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;

	rf_json_write(&text, rf_json_make(&a,
					  "{'code':%d,'signal':%d,'oom':%b,'startFailed':%b,'"
					  "neverRan':%b,'started':%D,"
					  "'finished':%D,'message':%S}",
					  e->code, e->signal, e->oom, e->start_failed, e->never_ran,
					  e->started_ms, e->finished_ms, e->message));
	return rf_fs_write(rf_fs_path(&a, "%s/exit.%d.json", dir, attempt), rf_buf_str(&text), 0600,
			   true, err);
}

int rf_shim_mark_begun(const char *dir, int attempt, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	return rf_fs_write(rf_fs_path(&a, "%s/began", dir), rf_arena_printf(&a, "%d", attempt),
			   0600, true, err);
}

static bool has_begun(struct rf_arena *a, const char *dir, int attempt)
{
	struct rf_str text;
	int64_t n;

	return rf_fs_read(a, rf_fs_path(a, "%s/began", dir), 32, &text, NULL) == 0 &&
	       rf_str_int(text, &n, NULL) == 0 && n >= attempt;
}

pid_t rf_shim_holder(const char *dir)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_close int fd = open(rf_fs_path(&a, "%s/shim.lock", dir), O_RDWR | O_CLOEXEC);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return 0;
	return lock.l_pid;
}

int rf_shim_give_up(const char *dir, int attempt, const struct rf_exit *e, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_close int fd =
		open(rf_fs_path(&a, "%s/shim.lock", dir), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fd < 0)
		return rf_fail_errno(err, "open %s/shim.lock", dir);
	if (fcntl(fd, F_SETLK, &lock) < 0)
		return rf_fail(err, RF_CONFLICT, "%s: a shim is at work", dir);
	if (rf_fs_exists(rf_fs_path(&a, "%s/exit.%d.json", dir, attempt)))
		return 0;
	struct rf_exit told = *e;
	told.never_ran = !has_begun(&a, dir, attempt);
	return rf_exit_write(dir, attempt, &told, err);
}
