/* Answers of the server: messages, trailers, and calls that end without one. */
#include "net/grpc_server.h"

#include <stdio.h>

#define QUEUE_MAX (16u * 1024 * 1024) /* waits for the peer, of one call */
#define LINK_MAX (64u * 1024 * 1024)  /* the same of one connection */

/* --- a call's end ----------------------------------------------------------------------------- */

static void free_call(struct rf_grpc_call *call)
{
	rf_grpc_drop_request(call);
	rf_grpc_stream_done(&call->stream);
	rf_buf_done(&call->text);
	free(call);
}

static void add_orphan(struct rf_grpc_call *call)
{
	struct rf_grpc_server *s = call->server;

	call->state = RF_GRPC_GONE;
	rf_grpc_drop_request(call);
	rf_grpc_stream_done(&call->stream);
	call->stream.next = s->orphans;
	if (s->orphans != NULL)
		s->orphans->prev = &call->stream;
	s->orphans = &call->stream;
}

static void remove_orphan(struct rf_grpc_call *call)
{
	struct rf_grpc_stream *st = &call->stream;

	*(st->prev != NULL ? &st->prev->next : &call->server->orphans) = st->next;
	if (st->next != NULL)
		st->next->prev = st->prev;
}

/* Off the wire already, and not among the orphans. */
static void tell(struct rf_grpc_call *call)
{
	call->state = RF_GRPC_TELLING;
	call->on_cancel(call->on_cancel_ctx);
	free_call(call);
}

void rf_grpc_drop(struct rf_grpc_call *call)
{
	rf_grpc_stream_remove(&call->stream);
	if (call->state != RF_GRPC_HANDLING)
		free_call(call);
	else if (call->on_cancel != NULL)
		tell(call);
	else
		add_orphan(call);
}

void rf_grpc_tell_orphans(struct rf_grpc_server *s)
{
	struct rf_grpc_stream *st = s->orphans;

	while (st != NULL) {
		struct rf_grpc_call *call = (struct rf_grpc_call *)st;

		st = st->next;
		if (call->on_cancel == NULL)
			continue;
		remove_orphan(call);
		tell(call);
		st = s->orphans; /* who was told may have ended others */
	}
	rf_grpc_server_maybe_free(s);
}

/* --- headers and trailers --------------------------------------------------------------------- */

struct headers {
	nghttp2_nv nv[4];
	size_t n;
	char http[8], status[16];
};

static void add_status(struct headers *h, int status, const struct rf_buf *text)
{
	snprintf(h->status, sizeof(h->status), "%d", status);
	h->nv[h->n++] = rf_grpc_nv("grpc-status", rf_str(h->status));
	if (text->n > 0)
		h->nv[h->n++] = rf_grpc_nv("grpc-message", rf_buf_str(text));
}

static void begin_headers(struct headers *h, int http)
{
	snprintf(h->http, sizeof(h->http), "%d", http);
	h->nv[h->n++] = rf_grpc_nv(":status", rf_str(h->http));
	h->nv[h->n++] = rf_grpc_nv("content-type", RF_LIT("application/grpc"));
}

/* The whole answer in one HEADERS frame. HTTP/2 has a copy of all of it then. */
static void submit_trailers_only(struct rf_grpc_call *call, int http)
{
	struct headers h = { 0 };

	begin_headers(&h, http);
	add_status(&h, call->status, &call->text);
	call->begun = true;
	rf_grpc_must(nghttp2_submit_response(call->stream.link->session, call->stream.id, h.nv, h.n,
					     NULL));
}

static void submit_trailers(struct rf_grpc_call *call)
{
	struct headers h = { 0 };

	add_status(&h, call->status, &call->text);
	rf_grpc_must(
		nghttp2_submit_trailer(call->stream.link->session, call->stream.id, h.nv, h.n));
}

/* HTTP/2 has room for more: what waits, then the trailers. */
static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t room,
		       uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
	struct rf_grpc_call *call = (struct rf_grpc_call *)rf_grpc_stream_of(session, id);
	struct rf_grpc_stream *st;
	size_t n;

	if (call == NULL) /* dropped; its reset is on the way */
		return NGHTTP2_ERR_DEFERRED;
	st = &call->stream;
	n = rf_grpc_stream_take(st, buf, room);
	if (rf_grpc_stream_waiting(st) == 0) {
		rf_buf_done(&st->out);
		st->taken = 0;
		if (call->state == RF_GRPC_ENDED) {
			*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
			submit_trailers(call);
			return (ssize_t)n;
		}
	}
	return n > 0 ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

static void begin(struct rf_grpc_call *call)
{
	nghttp2_data_provider provider = { .read_callback = on_read };
	struct headers h = { 0 };

	begin_headers(&h, 200);
	call->begun = true;
	rf_grpc_must(nghttp2_submit_response(call->stream.link->session, call->stream.id, h.nv, h.n,
					     &provider));
}

static void resume(struct rf_grpc_call *call)
{
	/* fails when HTTP/2 is not waiting for us, and that is well */
	nghttp2_session_resume_data(call->stream.link->session, call->stream.id);
	rf_grpc_link_wake(call->stream.link);
}

/* An answer that came before the request's end leaves a peer sending in vain: told to stop. */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
	    nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
		rf_grpc_must(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE,
						       frame->hd.stream_id, NGHTTP2_NO_ERROR));
	return 0;
}

void rf_grpc_set_reply_callbacks(nghttp2_session_callbacks *cb)
{
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
}

/* --- ends that are not the handler's ---------------------------------------------------------- */

void rf_grpc_refuse(struct rf_grpc_call *call, int http, int status, const char *text)
{
	call->state = RF_GRPC_ENDED;
	call->stream.due = RF_GRPC_NEVER;
	call->status = status;
	rf_grpc_text_encode(&call->text, rf_str(text));
	rf_grpc_drop_request(call);
	submit_trailers_only(call, http);
}

void rf_grpc_expire(struct rf_grpc_call *call)
{
	struct rf_grpc_stream *st = &call->stream;

	if (call->begun) {
		rf_grpc_must(nghttp2_submit_rst_stream(st->link->session, NGHTTP2_FLAG_NONE, st->id,
						       NGHTTP2_CANCEL));
	} else {
		call->status = RF_GRPC_DEADLINE_EXCEEDED;
		rf_grpc_text_encode(&call->text, RF_LIT("the caller's deadline has passed"));
		submit_trailers_only(call, 200);
	}
	rf_grpc_drop(call);
}

/* --- public calls ----------------------------------------------------------------------------- */

static size_t link_waiting(const struct rf_grpc_link *l)
{
	size_t n = 0;

	for (const struct rf_grpc_stream *st = l->streams; st != NULL; st = st->next)
		n += rf_grpc_stream_waiting(st);
	return n;
}

/* Bytes that were taken stay in front until half of the buffer is theirs: no byte moves often. */
static void compact(struct rf_grpc_stream *st)
{
	if (st->taken <= st->out.n / 2)
		return;
	rf_buf_drop(&st->out, st->taken);
	st->taken = 0;
}

static void queue(struct rf_grpc_call *call, struct rf_str message)
{
	struct rf_grpc_stream *st = &call->stream;

	if (call->stuck)
		return;
	if (message.n > RF_GRPC_MESSAGE_MAX || rf_grpc_stream_waiting(st) > QUEUE_MAX ||
	    link_waiting(st->link) + message.n > LINK_MAX) {
		call->begun = true; /* whatever the peer has of it, it is reset */
		call->stuck = true;
		st->due = 0;
		return;
	}
	compact(st);
	rf_grpc_frame(&st->out, message);
	if (!call->begun)
		begin(call);
}

static bool is_on_wire(const struct rf_grpc_call *call)
{
	return call->state == RF_GRPC_HANDLING;
}

/* The handler ends a call whose peer has left. */
static void end_off_wire(struct rf_grpc_call *call)
{
	struct rf_grpc_server *s = call->server;

	if (call->state == RF_GRPC_TELLING)
		return;
	rf_assert(call->state == RF_GRPC_GONE);
	remove_orphan(call);
	free_call(call);
	rf_grpc_server_maybe_free(s);
}

void rf_grpc_send(struct rf_grpc_call *call, struct rf_str message)
{
	if (!is_on_wire(call))
		return;
	queue(call, message);
	resume(call);
}

void rf_grpc_finish(struct rf_grpc_call *call, enum rf_grpc_status status, const char *text)
{
	if (!is_on_wire(call)) {
		end_off_wire(call);
		return;
	}
	call->state = RF_GRPC_ENDED;
	call->status = (int)status;
	rf_grpc_text_encode(&call->text, rf_str(text));
	if (!call->begun)
		submit_trailers_only(call, 200);
	resume(call);
}

void rf_grpc_reply(struct rf_grpc_call *call, struct rf_str message)
{
	if (message.n > RF_GRPC_MESSAGE_MAX) {
		rf_grpc_finish(call, RF_GRPC_RESOURCE_EXHAUSTED, "the answer is over 16 MiB");
		return;
	}
	if (is_on_wire(call))
		queue(call, message);
	rf_grpc_finish(call, RF_GRPC_OK, NULL);
}

void rf_grpc_fail(struct rf_grpc_call *call, const struct rf_err *err)
{
	rf_grpc_finish(call, rf_grpc_status_of(err->code), err->msg);
}

void rf_grpc_on_cancel(struct rf_grpc_call *call, void (*cb)(void *ctx), void *ctx)
{
	call->on_cancel = cb;
	call->on_cancel_ctx = ctx;
	if (call->state == RF_GRPC_GONE && cb != NULL)
		rf_grpc_server_tell_soon(call->server);
}
