/* GET /containerLogs/<ns>/<pod>/<container>: what a container wrote, from its files, in pieces
 * small enough for a slow reader. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "node/agent.h"
#include "node/crilog.h"

#define PIECE (64 * 1024)
#define PENDING_MAX (512 * 1024)
#define TICK_MS 200

struct stream {
	struct rf_agent *agent;
	struct rf_http_req *req;
	uv_timer_t timer;
	char *ns, *pod, *container; /* the worker may go away meanwhile */
	char *paths[2];		    /* older file first; NULL: none */
	size_t at;		    /* which of them is read */
	int fd;
	off_t offset;
	struct rf_buf rest; /* a line whose end was not read yet */
	struct rf_crilog_query query;
	int64_t left; /* bytes still wanted; -1: all */
	bool follow, open_line, closed;
};

static void on_freed(uv_handle_t *h)
{
	struct stream *s = RF_CONTAINER_OF(h, struct stream, timer);

	if (s->fd >= 0)
		close(s->fd);
	rf_buf_done(&s->rest);
	free(s->paths[0]);
	free(s->paths[1]);
	free(s->ns);
	free(s->pod);
	free(s->container);
	free(s);
}

static void drop(struct stream *s)
{
	if (!s->closed)
		uv_close((uv_handle_t *)&s->timer, on_freed);
	s->closed = true;
}

static void on_client_gone(void *ctx)
{
	drop(ctx);
}

static void finish(struct stream *s)
{
	rf_http_stream_end(s->req);
	drop(s);
}

/* True if the reader has all it wanted. */
static bool give(struct stream *s, struct rf_str lines)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_crilog_render(lines, &s->query, &s->open_line, &out);
	if (s->left >= 0 && (int64_t)out.n > s->left)
		out.n = (size_t)s->left;
	if (s->left >= 0)
		s->left -= (int64_t)out.n;
	if (out.n > 0)
		rf_http_stream_write(s->req, rf_buf_str(&out));
	return s->left == 0;
}

/* Hands on the whole lines of what was read. */
static bool take(struct stream *s, const char *bytes, size_t n)
{
	rf_buf_add(&s->rest, rf_str_n(bytes, n));
	const char *end = memrchr(s->rest.p, '\n', s->rest.n);
	if (end == NULL)
		return false;
	size_t whole = (size_t)(end - s->rest.p) + 1;
	bool done = give(s, rf_str_n(s->rest.p, whole));
	rf_buf_drop(&s->rest, whole);
	return done;
}

static bool is_running(struct stream *s)
{
	struct rf_worker *w = rf_worker_find(s->agent, rf_str(s->ns), rf_str(s->pod));
	struct rf_container *c = w ? rf_worker_container(w, rf_str(s->container)) : NULL;

	return c != NULL && c->state == RF_CONTAINER_RUNNING;
}

/* The file under the path is another one now: it was rotated, or the container was started
 * again. */
static bool was_replaced(const struct stream *s)
{
	struct stat open_file, named;

	return fstat(s->fd, &open_file) == 0 && stat(s->paths[s->at], &named) == 0 &&
	       open_file.st_ino != named.st_ino;
}

/* False if there is no further file. */
static bool next_file(struct stream *s)
{
	bool again = s->fd >= 0 && s->at == 1 && s->follow && was_replaced(s);

	if (s->fd >= 0 && !again)
		s->at++;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->offset = 0;
	for (; s->at < 2; s->at++) {
		if (s->paths[s->at] != NULL)
			s->fd = open(s->paths[s->at], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (s->fd >= 0)
			return true;
	}
	return false;
}

static void pump(struct stream *s)
{
	char bytes[PIECE];
	if (s->closed)
		return;
	bool running = is_running(s); /* asked first: what it wrote before it ended is still read */

	while (rf_http_stream_pending(s->req) < PENDING_MAX) {
		ssize_t n = s->fd >= 0 ? pread(s->fd, bytes, sizeof(bytes), s->offset) : 0;

		if (n < 0)
			return finish(s);
		s->offset += n;
		if (n > 0) {
			if (take(s, bytes, (size_t)n))
				return finish(s);
			continue;
		}
		bool last = s->at == 1 || s->fd < 0;
		if (last && s->follow && s->fd >= 0 && !was_replaced(s)) {
			if (!running)
				return finish(s);
			return; /* the timer comes back */
		}
		if (!next_file(s))
			return finish(s);
	}
}

static void on_drained(void *ctx)
{
	pump(ctx);
}

static void on_timer(uv_timer_t *t)
{
	pump(RF_CONTAINER_OF(t, struct stream, timer));
}

/* --- the request ----------------------------------------------------------------------------- */

static int64_t number(struct rf_http_req *req, const char *name, int64_t otherwise)
{
	struct rf_str v;
	int64_t n;

	return rf_http_query(req, name, &v) && rf_str_int(v, &n, NULL) == 0 && n >= 0 ? n
										      : otherwise;
}

static bool flag(struct rf_http_req *req, const char *name)
{
	struct rf_str v;

	return rf_http_query(req, name, &v) && (rf_str_is(v, "true") || rf_str_is(v, "1"));
}

/* The file as text, without reading it in: empty if it is not there. Unmap with its length. */
static struct rf_str map_file(const char *path)
{
	rf_auto_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
		return RF_STR_EMPTY;
	void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	return p == MAP_FAILED ? RF_STR_EMPTY : rf_str_n(p, (size_t)st.st_size);
}

static void unmap(struct rf_str text)
{
	if (text.n > 0)
		munmap((void *)(uintptr_t)text.p, text.n);
}

/* Goes to where the last lines begin: in the newer file, or, if it has too few, in the older one. */
static void seek_tail(struct stream *s)
{
	if (s->query.tail < 0)
		return;
	struct rf_str newer = map_file(s->paths[1]), older = map_file(s->paths[0]);
	int64_t have = rf_crilog_count(newer);

	s->at = have >= s->query.tail || older.n == 0 ? 1 : 0;
	s->offset = (off_t)(s->at == 1 ? rf_crilog_tail_offset(newer, s->query.tail)
				       : rf_crilog_tail_offset(older, s->query.tail - have));
	s->fd = open(s->paths[s->at], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	unmap(newer);
	unmap(older);
}

static char *path_if_there(struct rf_arena *a, const char *dir, const char *name)
{
	const char *path = rf_fs_path(a, "%s/%s", dir, name);

	return rf_fs_exists(path) ? rf_strdup(path) : NULL;
}

static void begin(struct rf_agent *g, struct rf_http_req *req, struct rf_container *c,
		  bool previous)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct stream *s = rf_new(struct stream);
	int64_t since = number(req, "sinceSeconds", 0);
	struct rf_str since_time;

	*s = (struct stream){ .agent = g,
			      .req = req,
			      .fd = -1,
			      .rest = RF_BUF_INIT,
			      .left = number(req, "limitBytes", -1),
			      .follow = flag(req, "follow") && !previous };
	s->ns = rf_strdup(c->worker->ns);
	s->pod = rf_strdup(c->worker->name);
	s->container = rf_strdup(c->name);
	s->query = (struct rf_crilog_query){ .tail = number(req, "tailLines", -1),
					     .timestamps = flag(req, "timestamps") };
	s->query.since_ms =
		since > 0 && since < rf_agent_now() / 1000 ? rf_agent_now() - since * 1000 : 0;
	if (rf_http_query(req, "sinceTime", &since_time))
		(void)rf_time_parse(since_time, &s->query.since_ms, NULL);
	s->paths[0] = previous ? NULL : path_if_there(&a, c->dir, "log.1");
	s->paths[1] = rf_strdup(rf_fs_path(&a, "%s/%s", c->dir, previous ? "log.previous" : "log"));
	seek_tail(s);
	if (s->fd < 0)
		(void)next_file(s);
	uv_timer_init(&g->loop, &s->timer);
	rf_http_on_close(req, on_client_gone, s);
	rf_http_on_drain(req, on_drained, s);
	rf_http_stream_begin(req, 200, "text/plain; charset=utf-8");
	uv_timer_start(&s->timer, on_timer, 0, TICK_MS);
}

static void refuse(struct rf_http_req *req, int status, struct rf_str text)
{
	rf_http_reply(req, status, "text/plain; charset=utf-8", text);
}

void rf_agent_logs(struct rf_agent *g, struct rf_http_req *req)
{
	struct rf_str rest = rf_str_skip(req->path, strlen("/containerLogs/")), ns, pod;

	rf_str_cut(&rest, '/', &ns);
	rf_str_cut(&rest, '/', &pod);
	struct rf_worker *w = rf_worker_find(g, ns, pod);
	struct rf_container *c = w ? rf_worker_container(w, rest) : NULL;
	if (c == NULL)
		return refuse(
			req, 404,
			rf_arena_printf(req->arena,
					"container %.*s of pod %.*s/%.*s is not on this node\n",
					RF_STR(rest), RF_STR(ns), RF_STR(pod)));
	bool previous = flag(req, "previous");
	if (previous && c->restarts == 0)
		return refuse(
			req, 400,
			rf_arena_printf(req->arena,
					"previous terminated container \"%s\" in pod \"%s\" not "
					"found\n",
					c->name, w->name));
	if (!c->started)
		return refuse(
			req, 400,
			rf_arena_printf(req->arena,
					"container \"%s\" in pod \"%s\" is waiting to start: %s\n",
					c->name, w->name,
					c->waiting[0] ? c->waiting : "ContainerCreating"));
	begin(g, req, c, previous);
}
