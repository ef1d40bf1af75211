/* The client: one server at a socket, a connection that is made when it is needed and kept. */
#include "net/grpc_link.h"

#include <stdio.h>

#ifndef RF_VERSION
#define RF_VERSION "0"
#endif
#define TIMEOUT_MS 30000

struct rf_grpc_client {
	uv_loop_t *loop;
	char *path;
	struct rf_grpc_link *link;  /* for new calls; NULL: to be made */
	struct rf_grpc_link *links; /* this one, and those whose last calls go on */
};

struct call {
	struct rf_grpc_stream stream; /* first */
	struct rf_grpc_client *client;
	char *method;
	void (*done)(void *ctx, const struct rf_err *err, struct rf_str answer);
	void *ctx;
	int64_t deadline;
	uint64_t writes; /* of the link, when the request was handed to it */
	bool unsent;	 /* HTTP/2 says that the request never left */
	bool retried;
	int http_status;     /* 0: no headers yet */
	bool is_grpc;	     /* says the content type */
	int64_t grpc_status; /* -1: none yet */
	struct rf_buf text;
	struct rf_err failure; /* of the answer so far */
};

static void start(struct call *call);

/* --- a call's end ----------------------------------------------------------------------------- */

static void free_call(struct call *call)
{
	rf_grpc_stream_done(&call->stream);
	rf_buf_done(&call->text);
	free(call->method);
	free(call);
}

/* The client and its links may be gone when this returns. err NULL: what was read is the answer. */
static void finish(struct call *call, const struct rf_err *err)
{
	struct rf_str none = RF_STR_EMPTY;
	struct rf_err full = RF_ERR_INIT;

	rf_grpc_stream_remove(&call->stream);
	if (err != NULL) {
		full = *err;
		rf_wrap(&full, "call %s at %s", call->method, call->client->path);
	}
	call->done(call->ctx, err != NULL ? &full : NULL,
		   err != NULL ? none : rf_buf_str(&call->stream.in.body));
	free_call(call);
}

/* The same while HTTP/2 still has the call under way. */
static void break_off(struct call *call, const struct rf_err *err)
{
	if (call->stream.id > 0)
		rf_grpc_must(nghttp2_submit_rst_stream(call->stream.link->session,
						       NGHTTP2_FLAG_NONE, call->stream.id,
						       NGHTTP2_CANCEL));
	finish(call, err);
}

/* A server cannot have begun with it: asking once more does no harm. */
static bool may_retry(const struct call *call, const struct rf_grpc_link *l)
{
	return !call->retried && l->open && (call->unsent || call->writes == l->writes);
}

static void retry(struct call *call)
{
	rf_grpc_stream_remove(&call->stream);
	rf_grpc_reader_done(&call->stream.in);
	rf_buf_clear(&call->text);
	call->stream.id = 0;
	call->stream.taken = call->stream.header_bytes = 0;
	call->retried = true;
	call->unsent = call->is_grpc = false;
	call->http_status = 0;
	call->grpc_status = -1;
	call->failure.code = 0;
	start(call);
}

/* --- answers ---------------------------------------------------------------------------------- */

static struct call *call_of(nghttp2_session *session, int32_t id)
{
	return (struct call *)rf_grpc_stream_of(session, id);
}

static void set_grpc_status(struct call *call, struct rf_str value)
{
	if (rf_str_int(value, &call->grpc_status, NULL) < 0 || call->grpc_status < 0)
		call->grpc_status = RF_GRPC_UNKNOWN;
}

static void set_http_status(struct call *call, struct rf_str value)
{
	int64_t status = 0;

	rf_str_int(value, &status, NULL);
	call->http_status = (int)status;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name_buf,
		     nghttp2_rcbuf *value_buf, uint8_t flags, void *ctx)
{
	struct call *call = call_of(session, frame->hd.stream_id);
	struct rf_str name = rf_grpc_rcbuf(name_buf), value = rf_grpc_rcbuf(value_buf);

	if (call == NULL || call->failure.code != 0)
		return 0;
	call->stream.header_bytes += name.n + value.n;
	if (call->stream.header_bytes > RF_GRPC_HEADERS_MAX)
		rf_fail(&call->failure, RF_TOO_LARGE, "the answer's headers are over 8 KiB");
	else if (rf_str_is(name, ":status"))
		set_http_status(call, value);
	else if (rf_str_is(name, "content-type"))
		call->is_grpc = rf_grpc_is_content_type(value);
	else if (rf_str_is(name, "grpc-status"))
		set_grpc_status(call, value);
	else if (rf_str_is(name, "grpc-message"))
		rf_grpc_text_decode(&call->text, value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
		   size_t n, void *ctx)
{
	struct call *call = call_of(session, id);

	if (call != NULL && call->failure.code == 0 && call->is_grpc)
		rf_grpc_reader_feed(&call->stream.in, rf_str_n((const char *)data, n),
				    &call->failure);
	return 0;
}

/* What an answer that has ended means; 0 if it is one. */
static int judge(struct call *call, struct rf_err *err)
{
	if (call->grpc_status > 0)
		return rf_fail(err, rf_grpc_code_of(call->grpc_status), "%s (status %d)",
			       call->text.n > 0 ? call->text.p : "the server gives no reason",
			       (int)RF_MIN(call->grpc_status, INT32_MAX));
	if (call->http_status != 200)
		return rf_fail(err, rf_code_from_http(call->http_status, ""),
			       "the server answers with HTTP status %d", call->http_status);
	if (!call->is_grpc)
		return rf_fail(err, RF_INTERNAL, "the answer is not gRPC");
	if (call->grpc_status < 0)
		return rf_fail(err, RF_INTERNAL, "the answer ended without a status");
	return rf_grpc_reader_end(&call->stream.in, err);
}

static void on_answer_end(struct call *call)
{
	struct rf_err err = RF_ERR_INIT;
	int rc = judge(call, &err);

	if (rf_grpc_stream_waiting(&call->stream) > 0) /* the server does not want the rest */
		break_off(call, rc < 0 ? &err : NULL);
	else
		finish(call, rc < 0 ? &err : NULL);
}

/* Behind the last that the server has begun, or still waiting for its turn to be sent. */
static bool is_left_out(const struct rf_grpc_stream *st, int32_t last)
{
	return st->id > 0 &&
	       (st->id > last || rf_grpc_stream_of(st->link->session, st->id) == NULL);
}

static void move(struct call *call)
{
	struct rf_grpc_link *l = call->stream.link;
	struct rf_err err = RF_ERR_INIT;

	rf_grpc_must(nghttp2_submit_rst_stream(l->session, NGHTTP2_FLAG_NONE, call->stream.id,
					       NGHTTP2_CANCEL));
	call->unsent = true;
	if (may_retry(call, l)) {
		retry(call);
	} else {
		rf_fail(&err, RF_UNAVAILABLE, "the server is going away");
		finish(call, &err);
	}
}

/* The server will begin nothing more here; what it has begun goes on. */
static void on_goaway(struct rf_grpc_link *l, int32_t last)
{
	struct rf_grpc_client *c = l->owner;
	struct rf_grpc_stream *st = l->streams;

	if (c != NULL && c->link == l)
		c->link = NULL;
	while (st != NULL) {
		struct rf_grpc_stream *next = st->next;

		if (is_left_out(st, last)) {
			move((struct call *)st);
			next = l->streams; /* whoever was told may have done anything */
		}
		st = next;
	}
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct rf_grpc_link *l = ctx;
	struct call *call = call_of(session, frame->hd.stream_id);

	if (frame->hd.type == NGHTTP2_GOAWAY)
		on_goaway(l, frame->goaway.last_stream_id);
	else if (call != NULL && call->failure.code != 0)
		break_off(call, &call->failure);
	else if (call != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
		 (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA))
		on_answer_end(call);
	return l->closed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int code,
			     void *ctx)
{
	struct call *call = call_of(session, frame->hd.stream_id);

	if (frame->hd.type == NGHTTP2_HEADERS && call != NULL)
		call->unsent = true;
	return 0;
}

static enum rf_code code_of_reset(uint32_t code)
{
	switch (code) {
	case NGHTTP2_REFUSED_STREAM:
	case NGHTTP2_CANCEL:
		return RF_UNAVAILABLE;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return RF_EXHAUSTED;
	default:
		return RF_INTERNAL;
	}
}

/* Before the answer's end: otherwise HTTP/2 does not know the call any more. */
static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
	struct rf_grpc_link *l = ctx;
	struct call *call = call_of(session, id);
	struct rf_err err = RF_ERR_INIT;

	if (call == NULL)
		return 0;
	call->unsent = call->unsent || code == NGHTTP2_REFUSED_STREAM;
	if (call->unsent && may_retry(call, l)) {
		retry(call);
	} else {
		rf_fail(&err, code_of_reset(code), "the call was broken off: %s",
			nghttp2_http2_strerror(code));
		finish(call, &err);
	}
	return l->closed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t room,
		       uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
	struct call *call = call_of(session, id);
	size_t n;

	if (call == NULL) /* over; its reset is on the way */
		return NGHTTP2_ERR_DEFERRED;
	n = rf_grpc_stream_take(&call->stream, buf, room);
	if (rf_grpc_stream_waiting(&call->stream) == 0)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static void submit(struct call *call)
{
	struct rf_grpc_link *l = call->stream.link;
	nghttp2_data_provider provider = { .read_callback = on_read };
	char timeout[16];
	int32_t id;

	if (call->failure.code != 0)
		return; /* fails soon */
	rf_grpc_timeout_format(call->deadline - rf_grpc_now(), timeout);
	const nghttp2_nv nv[] = {
		rf_grpc_nv(":method", RF_LIT("POST")),
		rf_grpc_nv(":scheme", RF_LIT("http")),
		rf_grpc_nv(":path", rf_str(call->method)),
		rf_grpc_nv(":authority", RF_LIT("localhost")),
		rf_grpc_nv("te", RF_LIT("trailers")),
		rf_grpc_nv("content-type", RF_LIT("application/grpc")),
		rf_grpc_nv("user-agent", RF_LIT("ringfence/" RF_VERSION)),
		rf_grpc_nv("grpc-timeout", rf_str(timeout)),
	};

	id = nghttp2_submit_request(l->session, NULL, nv, RF_COUNT(nv), &provider, call);
	rf_assert(id > 0);
	call->stream.id = id;
	call->writes = l->writes;
}

/* --- connections ------------------------------------------------------------------------------ */

static void set_callbacks(nghttp2_session_callbacks *cb)
{
	nghttp2_session_callbacks_set_on_header_callback2(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_send);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
}

static void on_open(struct rf_grpc_link *l)
{
	for (struct rf_grpc_stream *st = l->streams; st != NULL; st = st->next)
		submit((struct call *)st);
}

static void on_due(struct rf_grpc_stream *st)
{
	struct call *call = (struct call *)st;
	struct rf_err err = RF_ERR_INIT;

	if (call->failure.code == 0)
		rf_fail(&call->failure, RF_TIMEOUT, "no answer in time");
	err = call->failure;
	break_off(call, &err);
}

static void on_lost(struct rf_grpc_link *l, const struct rf_err *err)
{
	struct rf_grpc_client *c = l->owner;

	if (c->link == l)
		c->link = NULL;
	while (l->streams != NULL) { /* empty too once somebody has freed the client */
		struct call *call = (struct call *)l->streams;

		if (may_retry(call, l))
			retry(call);
		else
			finish(call, err);
	}
}

/* owner is NULL when the client has been freed. */
static void on_released(struct rf_grpc_link *l)
{
	struct rf_grpc_client *c = l->owner;

	if (c == NULL)
		return;
	*(l->prev != NULL ? &l->prev->next : &c->links) = l->next;
	if (l->next != NULL)
		l->next->prev = l->prev;
}

static const struct rf_grpc_link_ops link_ops = {
	.set_callbacks = set_callbacks,
	.on_open = on_open,
	.on_due = on_due,
	.on_lost = on_lost,
	.on_released = on_released,
};

static void add_link(struct rf_grpc_client *c)
{
	struct rf_grpc_link *l = rf_grpc_link_new(c->loop, &link_ops, c, c->path);

	l->next = c->links;
	if (c->links != NULL)
		c->links->prev = l;
	c->links = c->link = l;
}

static void start(struct call *call)
{
	struct rf_grpc_client *c = call->client;

	if (c->link == NULL) {
		add_link(c);
		rf_grpc_link_connect(c->link);
	}
	rf_grpc_stream_add(c->link, &call->stream);
	if (c->link->open)
		submit(call);
	rf_grpc_link_wake(c->link);
}

/* --- public calls ----------------------------------------------------------------------------- */

struct rf_grpc_client *rf_grpc_client_new(uv_loop_t *loop, const char *path)
{
	struct rf_grpc_client *c = rf_new(struct rf_grpc_client);

	c->loop = loop;
	c->path = rf_strdup(path);
	return c;
}

static void abandon(struct rf_grpc_link *l)
{
	while (l->streams != NULL) {
		struct call *call = (struct call *)l->streams;

		rf_grpc_stream_remove(&call->stream);
		free_call(call);
	}
	l->owner = NULL;
	rf_grpc_link_close(l);
}

void rf_grpc_client_free(struct rf_grpc_client *c)
{
	if (c == NULL)
		return;
	for (struct rf_grpc_link *l = c->links; l != NULL; l = l->next)
		abandon(l);
	free(c->path);
	free(c);
}

void rf_grpc_call_unary(struct rf_grpc_client *c, const char *method, struct rf_str message,
			int timeout_ms,
			void (*done)(void *ctx, const struct rf_err *err, struct rf_str answer),
			void *ctx)
{
	struct call *call = rf_new(struct call);

	call->stream = (struct rf_grpc_stream)RF_GRPC_STREAM_INIT;
	call->text = (struct rf_buf)RF_BUF_INIT;
	call->client = c;
	call->method = rf_strdup(method);
	call->done = done;
	call->ctx = ctx;
	call->grpc_status = -1;
	call->deadline = rf_grpc_now() + (timeout_ms > 0 ? timeout_ms : TIMEOUT_MS);
	call->stream.due = call->deadline;
	if (message.n <= RF_GRPC_MESSAGE_MAX) {
		rf_grpc_frame(&call->stream.out, message);
	} else {
		call->stream.due = 0; /* told from the loop */
		rf_fail(&call->failure, RF_TOO_LARGE, "the message is over 16 MiB");
	}
	start(call);
}

/* --- for the fuzzer --------------------------------------------------------------------------- */

struct rf_grpc_link *rf_grpc_client_tap(struct rf_grpc_client *c,
					void (*tap)(void *ctx, struct rf_str bytes), void *ctx)
{
	add_link(c);
	c->link->tap = tap;
	c->link->tap_ctx = ctx;
	rf_grpc_link_open(c->link);
	return c->link;
}
