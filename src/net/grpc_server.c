/* Connections of the server, and the requests they bring. */
#include "net/grpc_server.h"

#include <stdio.h>

#define LINKS_MAX 64
#define HELD_MAX (64u * 1024 * 1024) /* of requests, on all connections */
#define BACKLOG 128

/* --- requests in ------------------------------------------------------------------------------ */

static struct rf_grpc_server *server_of(const struct rf_grpc_link *l)
{
	return l->owner;
}

static struct rf_grpc_call *call_of(nghttp2_session *session, int32_t id)
{
	return (struct rf_grpc_call *)rf_grpc_stream_of(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct rf_grpc_link *l = ctx;
	struct rf_grpc_call *call;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST || l->leaving)
		return 0;
	call = rf_new(struct rf_grpc_call);
	call->stream = (struct rf_grpc_stream)RF_GRPC_STREAM_INIT;
	call->stream.id = frame->hd.stream_id;
	call->text = (struct rf_buf)RF_BUF_INIT;
	call->server = server_of(l);
	call->deadline = RF_GRPC_NEVER;
	call->stream.due = call->arrive_by = rf_grpc_now() + l->patience_ms;
	rf_grpc_stream_add(l, &call->stream);
	rf_grpc_must(nghttp2_session_set_stream_user_data(session, call->stream.id, call));
	return 0;
}

static void set_path(struct rf_grpc_call *call, struct rf_str path)
{
	const struct rf_grpc_server *s = call->server;

	snprintf(call->path, sizeof(call->path), "%.*s", RF_STR(path));
	for (size_t i = 0; i < s->n_methods; i++)
		if (rf_str_is(path, s->methods[i].path))
			call->method = &s->methods[i];
}

static void set_timeout(struct rf_grpc_call *call, struct rf_str value)
{
	int64_t ms = 0;

	if (rf_grpc_timeout_parse(value, &ms, NULL) < 0)
		call->bad_timeout = true;
	else
		call->deadline = rf_grpc_now() + ms;
	call->stream.due = RF_MIN(call->arrive_by, call->deadline);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name_buf,
		     nghttp2_rcbuf *value_buf, uint8_t flags, void *ctx)
{
	struct rf_grpc_call *call = call_of(session, frame->hd.stream_id);
	struct rf_str name = rf_grpc_rcbuf(name_buf), value = rf_grpc_rcbuf(value_buf);

	if (call == NULL || call->state != RF_GRPC_READING)
		return 0;
	call->stream.header_bytes += name.n + value.n;
	if (call->stream.header_bytes > RF_GRPC_HEADERS_MAX ||
	    frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (rf_str_is(name, ":path"))
		set_path(call, value);
	else if (rf_str_is(name, ":method"))
		call->is_post = rf_str_is(value, "POST");
	else if (rf_str_is(name, "content-type"))
		call->is_grpc = rf_grpc_is_content_type(value);
	else if (rf_str_is(name, "grpc-timeout"))
		set_timeout(call, value);
	return 0;
}

static void refuse_unknown(struct rf_grpc_call *call)
{
	char text[sizeof(call->path) + 64];

	snprintf(text, sizeof(text), "method %s is not served at this socket", call->path);
	rf_grpc_refuse(call, 200, RF_GRPC_UNIMPLEMENTED, text);
}

/* All headers of a part of the request are there. */
static void check_headers(struct rf_grpc_call *call)
{
	if (call->stream.header_bytes > RF_GRPC_HEADERS_MAX)
		rf_grpc_refuse(call, 200, RF_GRPC_RESOURCE_EXHAUSTED,
			       "the request's headers are over 8 KiB");
	else if (!call->is_post)
		rf_grpc_refuse(call, 405, RF_GRPC_INTERNAL, "gRPC is asked for with POST");
	else if (!call->is_grpc)
		rf_grpc_refuse(call, 415, RF_GRPC_INTERNAL,
			       "the content-type is not application/grpc");
	else if (call->bad_timeout)
		rf_grpc_refuse(call, 200, RF_GRPC_INVALID_ARGUMENT,
			       "grpc-timeout is not at most 8 digits and one of H M S m u n");
	else if (call->method == NULL)
		refuse_unknown(call);
}

void rf_grpc_drop_request(struct rf_grpc_call *call)
{
	call->server->held -= call->stream.in.body.n;
	rf_grpc_reader_done(&call->stream.in);
}

static int feed(struct rf_grpc_call *call, struct rf_str data, struct rf_err *err)
{
	struct rf_grpc_server *s = call->server;
	size_t before = call->stream.in.body.n;

	if (s->held + data.n > HELD_MAX)
		return rf_fail(err, RF_EXHAUSTED, "too many large requests at once; try again");
	if (rf_grpc_reader_feed(&call->stream.in, data, err) < 0)
		return -err->code;
	s->held += call->stream.in.body.n - before;
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
		   size_t n, void *ctx)
{
	struct rf_grpc_call *call = call_of(session, id);
	struct rf_err err = RF_ERR_INIT;

	if (call == NULL || call->state != RF_GRPC_READING)
		return 0; /* of a call that was refused */
	if (feed(call, rf_str_n((const char *)data, n), &err) < 0)
		rf_grpc_refuse(call, 200, rf_grpc_status_of(err.code), err.msg);
	return 0;
}

/* The call may be gone when the handler returns, so its request is held here. */
static void dispatch(struct rf_grpc_call *call)
{
	struct rf_grpc_server *s = call->server;
	struct rf_buf body = call->stream.in.body;

	call->stream.in.body = (struct rf_buf)RF_BUF_INIT;
	call->stream.due = call->deadline;
	call->state = RF_GRPC_HANDLING;
	call->method->handle(s->ctx, call, rf_buf_str(&body));
	s->held -= body.n;
	rf_buf_done(&body);
}

static void on_request_end(struct rf_grpc_call *call)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_grpc_reader_end(&call->stream.in, &err) < 0)
		rf_grpc_refuse(call, 200, rf_grpc_status_of(err.code), err.msg);
	else
		dispatch(call);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct rf_grpc_link *l = ctx;
	struct rf_grpc_call *call = call_of(session, frame->hd.stream_id);

	if (!l->leaving)
		l->end_due = RF_GRPC_NEVER; /* it speaks HTTP/2 */
	if (call == NULL || call->state != RF_GRPC_READING)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS)
		check_headers(call);
	if (call->state == RF_GRPC_READING && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
	    (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA))
		on_request_end(call);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
	struct rf_grpc_call *call = call_of(session, id);

	if (call != NULL)
		rf_grpc_drop(call);
	return 0;
}

/* --- connections ------------------------------------------------------------------------------ */

static void set_callbacks(nghttp2_session_callbacks *cb)
{
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	rf_grpc_set_reply_callbacks(cb);
}

static void on_due(struct rf_grpc_stream *st)
{
	struct rf_grpc_call *call = (struct rf_grpc_call *)st;
	struct rf_err err = RF_ERR_INIT;

	if (call->state == RF_GRPC_READING && call->arrive_by <= rf_grpc_now()) {
		rf_fail(&err, RF_TIMEOUT, "a request took too long to arrive");
		rf_grpc_link_end(st->link, &err);
	} else {
		rf_grpc_expire(call);
	}
}

static void drop_calls(struct rf_grpc_link *l)
{
	while (l->streams != NULL)
		rf_grpc_drop((struct rf_grpc_call *)l->streams);
}

static void on_lost(struct rf_grpc_link *l, const struct rf_err *err)
{
	drop_calls(l);
}

static void on_released(struct rf_grpc_link *l)
{
	struct rf_grpc_server *s = server_of(l);

	*(l->prev != NULL ? &l->prev->next : &s->links) = l->next;
	if (l->next != NULL)
		l->next->prev = l->prev;
	s->n_links--;
	rf_grpc_server_maybe_free(s);
}

static const struct rf_grpc_link_ops link_ops = {
	.server = true,
	.set_callbacks = set_callbacks,
	.on_due = on_due,
	.on_lost = on_lost,
	.on_released = on_released,
};

static struct rf_grpc_link *add_link(struct rf_grpc_server *s)
{
	struct rf_grpc_link *l = rf_grpc_link_new(s->loop, &link_ops, s,
						  s->socket.path != NULL ? s->socket.path : "");

	if (s->patience_ms > 0)
		l->patience_ms = s->patience_ms;
	l->end_due = rf_grpc_now() + l->patience_ms;
	l->next = s->links;
	if (s->links != NULL)
		s->links->prev = l;
	s->links = l;
	s->n_links++;
	return l;
}

/* Full: the newcomer goes. A kubelet keeps an idle connection and takes its end for ours, so no
 * connection that is up makes room for a stranger's. */
static void on_connection(uv_stream_t *listener, int status)
{
	struct rf_grpc_server *s = listener->data;
	struct rf_grpc_link *l;

	if (status < 0 || s->closing)
		return;
	l = add_link(s);
	if (rf_grpc_link_accept(l, listener) && s->n_links > LINKS_MAX)
		rf_grpc_link_close(l);
}

/* --- the server's own life -------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *h)
{
	struct rf_grpc_server *s = h->data;

	s->handles--;
	rf_grpc_server_maybe_free(s);
}

void rf_grpc_server_maybe_free(struct rf_grpc_server *s)
{
	if (!s->closing || s->n_links > 0 || s->orphans != NULL)
		return;
	if (!s->soon_closing) {
		s->soon_closing = true;
		uv_close((uv_handle_t *)&s->soon, on_handle_closed);
	} else if (s->handles == 0) {
		rf_assert(s->held == 0);
		free(s);
	}
}

static void on_soon(uv_timer_t *t)
{
	rf_grpc_tell_orphans(t->data);
}

void rf_grpc_server_tell_soon(struct rf_grpc_server *s)
{
	uv_timer_start(&s->soon, on_soon, 0, 0);
}

struct rf_grpc_server *rf_grpc_server_new(uv_loop_t *loop, const struct rf_grpc_method *methods,
					  size_t n, void *ctx)
{
	struct rf_grpc_server *s = rf_new(struct rf_grpc_server);

	s->loop = loop;
	s->methods = methods;
	s->n_methods = n;
	s->ctx = ctx;
	s->handles = 2;
	uv_pipe_init(loop, &s->listener, 0);
	uv_timer_init(loop, &s->soon);
	s->listener.data = s->soon.data = s;
	return s;
}

int rf_grpc_listen(uv_loop_t *loop, const char *path, unsigned mode,
		   const struct rf_grpc_method *methods, size_t n, void *ctx,
		   struct rf_grpc_server **ret, struct rf_err *err)
{
	struct rf_grpc_socket socket = { 0 };
	struct rf_err own = RF_ERR_INIT;
	struct rf_grpc_server *s;
	int fd = -1, rc;

	err = err != NULL ? err : &own;
	if (rf_grpc_socket_listen(path, mode, &socket, &fd, err) < 0)
		return -err->code;
	s = rf_grpc_server_new(loop, methods, n, ctx);
	s->socket = socket;
	rc = uv_pipe_open(&s->listener, fd);
	if (rc < 0)
		close(fd);
	else
		rc = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
	if (rc < 0) {
		rf_grpc_server_close(s);
		return rf_fail(err, RF_SYSTEM, "listen at %s: %s", path, uv_strerror(rc));
	}
	*ret = s;
	return 0;
}

/* Answers that were given are still sent; all other calls end here. */
static void drop_open_calls(struct rf_grpc_link *l)
{
	struct rf_grpc_stream *st = l->streams;

	while (st != NULL) {
		struct rf_grpc_call *call = (struct rf_grpc_call *)st;

		st = st->next;
		if (call->state == RF_GRPC_ENDED)
			continue;
		rf_grpc_drop(call);
		st = l->streams; /* who was told may have ended others */
	}
}

void rf_grpc_server_close(struct rf_grpc_server *s)
{
	if (s == NULL)
		return;
	rf_assert(!s->closing);
	s->closing = true;
	rf_grpc_socket_done(&s->socket);
	uv_close((uv_handle_t *)&s->listener, on_handle_closed);
	for (struct rf_grpc_link *l = s->links; l != NULL; l = l->next) {
		rf_grpc_link_leave(l);
		drop_open_calls(l);
	}
	rf_grpc_tell_orphans(s);
}

size_t rf_grpc_server_connections(const struct rf_grpc_server *s)
{
	return s->n_links;
}

/* --- for tests and the fuzzer ----------------------------------------------------------------- */

void rf_grpc_server_set_patience(struct rf_grpc_server *s, int ms)
{
	s->patience_ms = ms;
}

struct rf_grpc_link *rf_grpc_server_tap(struct rf_grpc_server *s,
					void (*tap)(void *ctx, struct rf_str bytes), void *ctx)
{
	struct rf_grpc_link *l = add_link(s);

	l->tap = tap;
	l->tap_ctx = ctx;
	rf_grpc_link_open(l);
	return l;
}
