#include "net/grpc_link.h"

#include <signal.h>

#define READ_SIZE (64 * 1024)
#define WRITE_SIZE (64 * 1024) /* gathered for one write */
#define PATIENCE_MS 30000
#define LEAVE_MS 1000

int64_t rf_grpc_now(void)
{
	return (int64_t)(uv_hrtime() / 1000000);
}

nghttp2_nv rf_grpc_nv(const char *name, struct rf_str value)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
			     .namelen = strlen(name),
			     .value = (uint8_t *)(uintptr_t)value.p,
			     .valuelen = value.n };
}

/* --- streams ---------------------------------------------------------------------------------- */

void rf_grpc_stream_add(struct rf_grpc_link *l, struct rf_grpc_stream *st)
{
	st->link = l;
	st->next = NULL;
	st->prev = l->last_stream;
	*(l->last_stream != NULL ? &l->last_stream->next : &l->streams) = st;
	l->last_stream = st;
}

void rf_grpc_stream_remove(struct rf_grpc_stream *st)
{
	struct rf_grpc_link *l = st->link;

	*(st->prev != NULL ? &st->prev->next : &l->streams) = st->next;
	*(st->next != NULL ? &st->next->prev : &l->last_stream) = st->prev;
	st->prev = st->next = NULL;
	st->link = NULL;
	if (st->id > 0) /* fails if HTTP/2 has forgotten it already, and that is well */
		nghttp2_session_set_stream_user_data(l->session, st->id, NULL);
}

void rf_grpc_stream_done(struct rf_grpc_stream *st)
{
	rf_assert(st->link == NULL);
	rf_grpc_reader_done(&st->in);
	rf_buf_done(&st->out);
}

size_t rf_grpc_stream_take(struct rf_grpc_stream *st, uint8_t *buf, size_t room)
{
	size_t n = RF_MIN(room, rf_grpc_stream_waiting(st));

	memcpy(buf, st->out.p + st->taken, n);
	st->taken += n;
	return n;
}

/* --- ending ----------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *h)
{
	struct rf_grpc_link *l = h->data;

	if (--l->handles > 0)
		return;
	rf_assert(l->streams == NULL);
	nghttp2_session_del(l->session);
	l->ops->on_released(l);
	rf_buf_done(&l->out);
	free(l->path);
	free(l);
}

void rf_grpc_link_close(struct rf_grpc_link *l)
{
	if (l->closed)
		return;
	l->closed = true;
	if (l->tap != NULL)
		l->tap(l->tap_ctx, RF_STR_EMPTY);
	uv_close((uv_handle_t *)&l->pipe, on_handle_closed);
	uv_close((uv_handle_t *)&l->timer, on_handle_closed);
}

void rf_grpc_link_end(struct rf_grpc_link *l, const struct rf_err *err)
{
	if (l->closed || l->lost)
		return;
	l->lost = true;
	l->ops->on_lost(l, err);
	rf_grpc_link_close(l);
}

static void end_uv(struct rf_grpc_link *l, int code)
{
	struct rf_err err = RF_ERR_INIT;

	rf_fail(&err, RF_UNAVAILABLE, "the connection was lost: %s", uv_strerror(code));
	rf_grpc_link_end(l, &err);
}

static void end_because(struct rf_grpc_link *l, enum rf_code code, const char *why)
{
	struct rf_err err = RF_ERR_INIT;

	rf_fail(&err, code, "%s", why);
	rf_grpc_link_end(l, &err);
}

void rf_grpc_link_leave(struct rf_grpc_link *l)
{
	if (l->closed)
		return;
	l->leaving = true;
	uv_read_stop((uv_stream_t *)&l->pipe);
	l->end_due = rf_grpc_now() + LEAVE_MS;
	rf_grpc_link_wake(l);
}

/* --- time ------------------------------------------------------------------------------------- */

static void settle(struct rf_grpc_link *l);

static struct rf_grpc_stream *first_due(const struct rf_grpc_link *l, int64_t now)
{
	for (struct rf_grpc_stream *st = l->streams; st != NULL; st = st->next)
		if (st->due <= now)
			return st;
	return NULL;
}

/* on_due may call people who close this link: looked at anew each time. */
static void see_to_streams(struct rf_grpc_link *l)
{
	int64_t now = rf_grpc_now();
	struct rf_grpc_stream *st;

	while (!l->closed && (st = first_due(l, now)) != NULL)
		l->ops->on_due(st);
}

static void on_timer(uv_timer_t *t)
{
	struct rf_grpc_link *l = t->data;
	int64_t now = rf_grpc_now();

	if (l->failure.code != 0)
		rf_grpc_link_end(l, &l->failure);
	else if (l->end_due <= now)
		end_because(l, RF_TIMEOUT, "the peer was too slow to say anything");
	else if (l->write_due <= now)
		end_because(l, RF_TIMEOUT, "the peer takes no data");
	else
		see_to_streams(l);
	settle(l);
}

void rf_grpc_link_wake(struct rf_grpc_link *l)
{
	if (!l->closed)
		uv_timer_start(&l->timer, on_timer, 0, 0);
}

static void arm(struct rf_grpc_link *l)
{
	int64_t due = RF_MIN(l->end_due, l->write_due);
	int64_t now = rf_grpc_now();

	for (struct rf_grpc_stream *st = l->streams; st != NULL; st = st->next)
		due = RF_MIN(due, st->due);
	if (due == RF_GRPC_NEVER)
		uv_timer_stop(&l->timer);
	else
		uv_timer_start(&l->timer, on_timer, (uint64_t)RF_MAX(due - now, 0), 0);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void on_written(uv_write_t *w, int status)
{
	struct rf_grpc_link *l = w->data;

	l->writing = false;
	l->write_due = RF_GRPC_NEVER;
	rf_buf_clear(&l->out);
	if (l->closed)
		return;
	if (status < 0) {
		end_uv(l, status);
		return;
	}
	settle(l);
}

/* false: the link is over. */
static bool gather(struct rf_grpc_link *l)
{
	while (l->out.n < WRITE_SIZE) {
		const uint8_t *bytes = NULL;
		ssize_t n = nghttp2_session_mem_send(l->session, &bytes);

		if (l->closed)
			return false;
		if (n < 0) {
			end_because(l, RF_INTERNAL, nghttp2_strerror((int)n));
			return false;
		}
		if (n == 0)
			break;
		rf_buf_add(&l->out, rf_str_n((const char *)bytes, (size_t)n));
	}
	return true;
}

/* What the kernel takes at once, and the rest when it can. If the first fails, no byte has left
 * since the last write. */
static void write_out(struct rf_grpc_link *l)
{
	uv_buf_t buf = uv_buf_init(l->out.p, (unsigned int)l->out.n);
	int rc = uv_try_write((uv_stream_t *)&l->pipe, &buf, 1);

	if (rc < 0 && rc != UV_EAGAIN) {
		end_uv(l, rc);
		return;
	}
	l->writes++;
	buf = uv_buf_init(l->out.p + RF_MAX(rc, 0),
			  (unsigned int)(l->out.n - (size_t)RF_MAX(rc, 0)));
	if (buf.len == 0) {
		rf_buf_clear(&l->out);
		return;
	}
	rc = uv_write(&l->write, (uv_stream_t *)&l->pipe, &buf, 1, on_written);
	if (rc < 0) {
		end_uv(l, rc);
		return;
	}
	l->writing = true;
	l->write_due = rf_grpc_now() + l->patience_ms;
}

static void write_to_tap(struct rf_grpc_link *l)
{
	l->tap(l->tap_ctx, rf_buf_str(&l->out));
	rf_buf_clear(&l->out);
	l->writes++;
}

/* Nothing is left to send. HTTP/2 may have come to its end: after a GOAWAY, or a peer's mistake. */
static void rest(struct rf_grpc_link *l)
{
	rf_buf_done(&l->out);
	if (l->parted ||
	    (!nghttp2_session_want_read(l->session) && !nghttp2_session_want_write(l->session)))
		end_because(l, RF_UNAVAILABLE, "the connection was ended");
}

static bool say_goodbye(struct rf_grpc_link *l)
{
	l->parted = true;
	nghttp2_session_terminate_session(l->session, NGHTTP2_NO_ERROR);
	return gather(l);
}

/* One write is under way at a time: what a peer does not take stays where it is counted. */
static void flush(struct rf_grpc_link *l)
{
	while (l->open && !l->closed && !l->writing && gather(l)) {
		if (l->out.n == 0 && l->leaving && !l->parted && !say_goodbye(l))
			return;
		if (l->out.n == 0) {
			rest(l);
			return;
		}
		if (l->tap != NULL)
			write_to_tap(l);
		else
			write_out(l);
	}
}

static void settle(struct rf_grpc_link *l)
{
	if (!l->closed)
		flush(l);
	if (!l->closed)
		arm(l);
}

/* --- reading ---------------------------------------------------------------------------------- */

void rf_grpc_link_input(struct rf_grpc_link *l, struct rf_str bytes)
{
	ssize_t n = nghttp2_session_mem_recv(l->session, (const uint8_t *)bytes.p, bytes.n);

	if (l->closed)
		return;
	if (n < 0)
		end_because(l, RF_INTERNAL, nghttp2_strerror((int)n));
	settle(l);
}

/* One buffer for all: bytes are used up before the next read on this thread. */
static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
	static _Thread_local char bytes[READ_SIZE];

	*ret = uv_buf_init(bytes, sizeof(bytes));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct rf_grpc_link *l = s->data;

	if (n > 0)
		rf_grpc_link_input(l, rf_str_n(buf->base, (size_t)n));
	else if (n == UV_EOF)
		end_because(l, RF_UNAVAILABLE, "the peer closed the connection");
	else if (n < 0)
		end_uv(l, (int)n);
}

/* --- beginning -------------------------------------------------------------------------------- */

/* A write to a peer that has gone must be an error, not the end of the process. */
static void ignore_sigpipe(void)
{
	struct sigaction now = { 0 };

	if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		signal(SIGPIPE, SIG_IGN);
}

static nghttp2_session *new_session(struct rf_grpc_link *l)
{
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *option = NULL;
	nghttp2_session *session = NULL;

	rf_grpc_must(nghttp2_session_callbacks_new(&cb));
	rf_grpc_must(nghttp2_option_new(&option));
	nghttp2_option_set_no_closed_streams(option, 1); /* they are kept for priorities only */
	l->ops->set_callbacks(cb);
	if (l->ops->server)
		rf_grpc_must(nghttp2_session_server_new2(&session, cb, l, option));
	else
		rf_grpc_must(nghttp2_session_client_new2(&session, cb, l, option));
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(cb);
	return session;
}

struct rf_grpc_link *rf_grpc_link_new(uv_loop_t *loop, const struct rf_grpc_link_ops *ops,
				      void *owner, const char *path)
{
	struct rf_grpc_link *l = rf_new(struct rf_grpc_link);

	ignore_sigpipe();
	l->ops = ops;
	l->owner = owner;
	l->path = rf_strdup(path);
	l->out = (struct rf_buf)RF_BUF_INIT;
	l->patience_ms = PATIENCE_MS;
	l->write_due = l->end_due = RF_GRPC_NEVER;
	l->handles = 2;
	uv_pipe_init(loop, &l->pipe, 0);
	uv_timer_init(loop, &l->timer);
	l->pipe.data = l->timer.data = l->connect.data = l->write.data = l;
	l->session = new_session(l);
	return l;
}

void rf_grpc_link_open(struct rf_grpc_link *l)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, RF_GRPC_HEADERS_MAX },
		l->ops->server ? (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
							   RF_GRPC_STREAMS_MAX }
			       : (nghttp2_settings_entry){ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
	};

	l->open = true;
	rf_grpc_must(nghttp2_submit_settings(l->session, NGHTTP2_FLAG_NONE, settings,
					     RF_COUNT(settings)));
	if (l->tap == NULL)
		uv_read_start((uv_stream_t *)&l->pipe, on_alloc, on_read);
	if (l->ops->on_open != NULL)
		l->ops->on_open(l);
	rf_grpc_link_wake(l);
}

bool rf_grpc_link_accept(struct rf_grpc_link *l, uv_stream_t *listener)
{
	if (uv_accept(listener, (uv_stream_t *)&l->pipe) < 0) {
		rf_grpc_link_close(l);
		return false;
	}
	rf_grpc_link_open(l);
	return true;
}

static void on_connect(uv_connect_t *req, int status)
{
	struct rf_grpc_link *l = req->data;
	struct rf_err err = RF_ERR_INIT;

	if (l->closed)
		return;
	if (status == 0) {
		rf_grpc_link_open(l);
		return;
	}
	rf_fail(&err, RF_UNAVAILABLE, "nobody answers there: %s", uv_strerror(status));
	rf_grpc_link_end(l, &err);
}

void rf_grpc_link_connect(struct rf_grpc_link *l)
{
	if (rf_grpc_socket_check(l->path, &l->failure) < 0)
		rf_grpc_link_wake(l);
	else
		uv_pipe_connect(&l->connect, &l->pipe, l->path, on_connect);
}
