/* One container: its files, its shim, its end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/fs.h"
#include "node/agent.h"
#include "node/cgroup.h"
#include "node/oci.h"

#define STATE_MAX (64 * 1024)

struct rf_follow {
	uv_poll_t poll;
	int fd;
	struct rf_container *container; /* NULL once nobody cares */
};

int64_t rf_agent_now(void)
{
	return rf_wall_ms(rf_clock_system());
}

struct rf_str rf_container_cgroup(struct rf_arena *a, const struct rf_container *c)
{
	return rf_cgroup_path(a, c->worker->agent->instance, rf_str(c->worker->uid),
			      rf_str(c->name));
}

const char *rf_container_id(struct rf_arena *a, const struct rf_container *c)
{
	return rf_fs_path(a, "rf-%s-%s", c->worker->uid, c->name);
}

/* --- programs -------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *h)
{
	free(h);
}

static void on_program_exit(uv_process_t *p, int64_t status RF_UNUSED, int signal RF_UNUSED)
{
	uv_close((uv_handle_t *)p, on_closed);
}

int rf_agent_spawn(struct rf_agent *g, const char *const *argv, bool detached, int stderr_fd,
		   pid_t *ret_pid, struct rf_err *err)
{
	uv_process_t *p = rf_new(uv_process_t);
	uv_stdio_container_t io[3] = { { .flags = UV_IGNORE },
				       { .flags = UV_IGNORE },
				       { .flags = UV_IGNORE } };
	uv_process_options_t o = { .exit_cb = on_program_exit,
				   .file = argv[0],
				   .args = (char **)(uintptr_t)argv,
				   .stdio = io,
				   .stdio_count = 3,
				   .flags = detached ? UV_PROCESS_DETACHED : 0 };

	if (stderr_fd >= 0)
		io[2] = (uv_stdio_container_t){ .flags = UV_INHERIT_FD, .data.fd = stderr_fd };
	int rc = uv_spawn(&g->loop, p, &o);
	if (rc < 0) {
		uv_close((uv_handle_t *)p, on_closed);
		return rf_fail(err, RF_SYSTEM, "start %s: %s", argv[0], uv_strerror(rc));
	}
	uv_unref((uv_handle_t *)p);
	if (ret_pid != NULL)
		*ret_pid = (pid_t)p->pid;
	return 0;
}

void rf_container_delete_state(struct rf_agent *g, const char *id)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	const char *argv[] = { g->opts->self_exe,
			       "shim",
			       "--",
			       "--exec",
			       g->runtime,
			       "--cgroup-manager",
			       "cgroupfs",
			       "--root",
			       rf_fs_path(&a, "%s/runtime", g->data_dir),
			       "delete",
			       "--force",
			       id,
			       NULL };

	if (rf_agent_spawn(g, argv, false, -1, NULL, &err) < 0)
		rf_warn("%s", err.msg);
}

/* --- folders that go away -------------------------------------------------------------------- */

static void remove_in_background(struct rf_agent *g, const char *path)
{
	const char *argv[] = { g->opts->self_exe, "shim", "--", "--remove", path, NULL };
	struct rf_err err = RF_ERR_INIT;

	if (rf_agent_spawn(g, argv, false, -1, NULL, &err) < 0)
		rf_warn("%s", err.msg);
}

void rf_agent_discard(struct rf_agent *g, const char *path)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *trash = rf_fs_path(&a, "%s/trash", g->data_dir);
	const char *to = rf_fs_path(&a, "%s/%s", trash, rf_rand_suffix(&a, 16).p);

	if (!rf_fs_exists(path))
		return;
	if (rf_fs_mkdirs(trash, 0700, NULL) < 0 || rename(path, to) < 0)
		return rf_warn("put %s away: %s", path, strerror(errno));
	remove_in_background(g, to);
}

void rf_agent_empty_trash(struct rf_agent *g)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str *names = NULL;
	size_t n = 0;

	(void)rf_fs_list(&a, rf_fs_path(&a, "%s/trash", g->data_dir), &names, &n, NULL);
	for (size_t i = 0; i < n; i++)
		remove_in_background(g, rf_fs_path(&a, "%s/trash/%s", g->data_dir, names[i].p));
}

/* --- what is remembered across agents -------------------------------------------------------- */

static struct rf_json *ended_to_json(struct rf_arena *a, const struct rf_ended *e)
{
	if (!e->set)
		return rf_json_null(a);
	return rf_json_make(
		a, "{'code':%d,'signal':%d,'started':%D,'finished':%D,'reason':%s,'message':%s}",
		e->code, e->signal, e->started_ms, e->finished_ms, e->reason, e->message);
}

static void ended_from_json(const struct rf_json *v, struct rf_ended *e)
{
	if (!rf_json_is(v, RF_JSON_OBJECT))
		return;
	*e = (struct rf_ended){ .set = true,
				.code = (int)rf_json_int(rf_json_at(v, "code"), 255),
				.signal = (int)rf_json_int(rf_json_at(v, "signal"), 0),
				.started_ms = rf_json_int(rf_json_at(v, "started"), 0),
				.finished_ms = rf_json_int(rf_json_at(v, "finished"), 0) };
	snprintf(e->reason, sizeof(e->reason), "%.*s", RF_STR(rf_json_str_at(v, "reason")));
	snprintf(e->message, sizeof(e->message), "%.*s", RF_STR(rf_json_str_at(v, "message")));
}

/* On disk before the shim is spawned: whoever finds it knows that this attempt was made. */
static int remember_start(struct rf_container *c, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;

	rf_json_write(
		&text,
		rf_json_make(&a, "{'attempt':%d,'restarts':%d,'started':%D,'backoff':%D,'last':%j}",
			     c->attempt, c->restarts, c->started_ms, c->backoff_ms,
			     ended_to_json(&a, &c->last)));
	return rf_fs_write(rf_fs_path(&a, "%s/state.json", c->dir), rf_buf_str(&text), 0600, true,
			   err);
}

void rf_container_adopt(struct rf_container *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text = RF_STR_EMPTY;
	struct rf_json *v = NULL;

	if (rf_fs_read(&a, rf_fs_path(&a, "%s/state.json", c->dir), STATE_MAX, &text, NULL) < 0 ||
	    rf_json_parse(&a, text, &v, NULL) < 0)
		return;
	c->started = true;
	c->attempt = (int)rf_json_int(rf_json_at(v, "attempt"), 0);
	c->restarts = (int)rf_json_int(rf_json_at(v, "restarts"), 0);
	c->started_ms = rf_json_int(rf_json_at(v, "started"), 0);
	c->backoff_ms = rf_json_int(rf_json_at(v, "backoff"), 0);
	ended_from_json(rf_json_at(v, "last"), &c->last);
	c->state = RF_CONTAINER_RUNNING; /* until it is looked at */
	rf_container_refresh(c);
}

/* --- following the shim ---------------------------------------------------------------------- */

static void on_follow_closed(uv_handle_t *h)
{
	struct rf_follow *f = RF_CONTAINER_OF(h, struct rf_follow, poll);

	close(f->fd);
	free(f);
}

void rf_container_unfollow(struct rf_container *c)
{
	if (c->follow == NULL)
		return;
	c->follow->container = NULL;
	uv_close((uv_handle_t *)&c->follow->poll, on_follow_closed);
	c->follow = NULL;
}

static void on_shim_end(uv_poll_t *poll, int status RF_UNUSED, int events RF_UNUSED)
{
	struct rf_container *c = RF_CONTAINER_OF(poll, struct rf_follow, poll)->container;

	if (c == NULL)
		return;
	rf_container_unfollow(c);
	rf_worker_step(c->worker);
}

static bool follow(struct rf_container *c, pid_t pid)
{
	struct rf_follow *f = rf_new(struct rf_follow);

	f->fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (f->fd < 0 || uv_poll_init(&c->worker->agent->loop, &f->poll, f->fd) < 0) {
		if (f->fd >= 0)
			close(f->fd);
		free(f);
		return false;
	}
	f->container = c;
	c->follow = f;
	uv_poll_start(&f->poll, UV_READABLE, on_shim_end);
	uv_unref((uv_handle_t *)&f->poll);
	return true;
}

/* --- the end --------------------------------------------------------------------------------- */

static void name_reason(struct rf_container *c, const struct rf_exit *e)
{
	const char *reason = e->code == 0 ? "Completed" : "Error";

	if (c->kill_reason[0] != '\0')
		reason = c->kill_reason;
	else if (e->oom)
		reason = "OOMKilled";
	else if (e->start_failed)
		reason = "StartError";
	else if (e->code != 0 && rf_agent_lost_mps(c, c->kill_message, sizeof(c->kill_message)))
		reason = RF_MPS_DIED; /* the driver told the program before the agent could end it */
	snprintf(c->now.reason, sizeof(c->now.reason), "%s", reason);
	snprintf(c->now.message, sizeof(c->now.message), "%.*s",
		 c->kill_message[0] ? (int)strlen(c->kill_message) : (int)RF_MIN(e->message.n, 500),
		 c->kill_message[0] ? c->kill_message : e->message.p);
}

static void note_end(struct rf_container *c, const struct rf_exit *e)
{
	c->now = (struct rf_ended){ .set = true,
				    .code = e->code,
				    .signal = e->signal,
				    .started_ms = c->started_ms,
				    .finished_ms = e->finished_ms };
	name_reason(c, e);
	c->state = RF_CONTAINER_EXITED;
	c->kill_reason[0] = c->kill_message[0] = '\0';
	rf_info("pod %s/%s: container %s ended: %s, exit code %d", c->worker->ns, c->worker->name,
		c->name, c->now.reason, e->code);
}

/* The shim is gone without a word: whatever it left running is ended. */
static bool clear_lost(struct rf_container *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_exit e = {
		.code = 137,
		.signal = SIGKILL,
		.started_ms = c->started_ms,
		.finished_ms = rf_agent_now(),
		.message = RF_LIT(
			"the container's shim was killed; the container was ended with it")
	};
	struct rf_err err = RF_ERR_INIT;

	if (rf_shim_give_up(c->dir, c->attempt, &e, &err) < 0)
		return false; /* looked at again at the next tick */
	c->lost = true;
	if (rf_cgroup_kill(&a, rf_container_cgroup(&a, c)) > 0)
		return false;
	rf_container_delete_state(c->worker->agent, rf_container_id(&a, c));
	(void)rf_cgroup_remove(&a, rf_container_cgroup(&a, c));
	c->lost = false;
	return true;
}

bool rf_container_refresh(struct rf_container *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_exit e = { 0 };

	if (!c->started || c->state != RF_CONTAINER_RUNNING || c->follow != NULL)
		return false;
	pid_t shim = c->lost ? 0 : rf_shim_holder(c->dir);
	if (shim > 0 && follow(c, shim)) {
		/* It may have ended between the look and the grip. */
		if (rf_shim_holder(c->dir) == shim)
			return false;
		rf_container_unfollow(c);
	}
	if (c->lost || rf_exit_read(&a, c->dir, c->attempt, &e, &err) < 0) {
		if (!clear_lost(c) || rf_exit_read(&a, c->dir, c->attempt, &e, &err) < 0)
			return false;
	}
	if (e.never_ran) { /* nothing was started, so starting it is not a second time */
		c->state = RF_CONTAINER_WAITING;
		c->retry_ms = 0;
		return true;
	}
	note_end(c, &e);
	return true;
}

/* --- the beginning --------------------------------------------------------------------------- */

static int make_room(struct rf_container *c, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (rf_fs_mkdirs(c->dir, 0700, err) < 0)
		return -err->code;
	if (c->attempt > 0) { /* `kubectl logs --previous` */
		(void)rename(rf_fs_path(&a, "%s/log", c->dir),
			     rf_fs_path(&a, "%s/log.previous", c->dir));
		(void)unlink(rf_fs_path(&a, "%s/log.1", c->dir));
		(void)unlink(rf_fs_path(&a, "%s/exit.%d.json", c->dir, c->attempt - 1));
	}
	return 0;
}

static int spawn_shim(struct rf_container *c, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_agent *g = c->worker->agent;
	struct rf_oci_ask user = { .pod = c->worker->pod,
				   .container = rf_container_spec(c),
				   .may_be_root = true };
	int64_t uid = RF_NOBODY, gid = 0;
	pid_t pid = 0;

	(void)rf_oci_user(&user, &uid, &gid, NULL); /* checked when the bundle was made */
	const char *argv[] = { g->opts->self_exe,
			       "shim",
			       "--",
			       "--bundle",
			       c->dir,
			       "--id",
			       rf_container_id(&a, c),
			       "--runtime",
			       g->runtime,
			       "--root",
			       rf_fs_path(&a, "%s/runtime", g->data_dir),
			       "--cgroup",
			       rf_container_cgroup(&a, c).p,
			       "--attempt",
			       rf_fs_path(&a, "%d", c->attempt),
			       "--uid",
			       rf_fs_path(&a, "%lld", (long long)uid),
			       NULL };
	rf_auto_close int log = open(rf_fs_path(&a, "%s/shim.log", c->dir),
				     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (rf_agent_spawn(g, argv, true, log, &pid, err) < 0)
		return -err->code;
	(void)follow(c, pid);
	return 0;
}

int rf_container_start(struct rf_container *c, struct rf_err *err)
{
	struct rf_container before = *c;

	c->attempt += c->started ? 1 : 0;
	if (c->now.set) { /* an attempt that never ran leaves no trace */
		c->restarts++;
		c->last = c->now;
	}
	c->now = (struct rf_ended){ .set = false };
	c->started_ms = rf_agent_now();
	c->term_sent = c->kill_sent = false;
	if (make_room(c, err) < 0 || rf_container_bundle(c, err) < 0 ||
	    remember_start(c, err) < 0) {
		*c = before; /* nothing was started */
		return -err->code;
	}
	c->started = true;
	c->state = RF_CONTAINER_RUNNING;
	c->waiting[0] = c->message[0] = '\0';
	if (spawn_shim(c, err) < 0)
		rf_warn("pod %s/%s: container %s: %s", c->worker->ns, c->worker->name, c->name,
			err->msg);
	return 0; /* if no shim came up, the next look finds the attempt lost */
}

void rf_container_signal(struct rf_container *c, int signal)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text = RF_STR_EMPTY, uid = RF_STR_EMPTY, name = RF_STR_EMPTY;
	int64_t pid = 0;

	if (signal == SIGKILL) {
		(void)rf_cgroup_kill(&a, rf_container_cgroup(&a, c));
		c->kill_sent = true;
		return;
	}
	if (rf_fs_read(&a, rf_fs_path(&a, "%s/pid", c->dir), 64, &text, NULL) < 0 ||
	    rf_str_int(rf_str_trim(text), &pid, NULL) < 0)
		return; /* not that far yet */
	/* The number may be another process's by now; its cgroup tells. */
	if (!rf_cgroup_of_pid(&a, (pid_t)pid, c->worker->agent->instance, &uid, &name) ||
	    !rf_str_is(uid, c->worker->uid) || !rf_str_is(name, c->name))
		return;
	c->term_sent = kill((pid_t)pid, signal) == 0;
}
