/* A loop, a folder for sockets, a server whose methods echo, stream, wait or fail, and a peer that
 * sends whatever bytes a test likes. */
#ifndef RF_NET_TEST_GRPC_H
#define RF_NET_TEST_GRPC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "net/grpc_link.h"

#define GUARD_MS 30000 /* a test that waits longer has failed */
#define MIB (1024u * 1024)

struct world {
	uv_loop_t loop;
	uv_timer_t tick; /* wakes the loop, so that waiting for a condition sees it */
	char dir[64];
	char path[96];
	struct rf_grpc_server *server;
	struct rf_grpc_client *client;
	/* what the handlers saw */
	int handled;
	int cancelled;
	struct rf_grpc_call *held[512];
	size_t n_held;
};

/* Runs the loop until the condition holds; fails the test if it never does. */
#define wait_for(w, cond)                                                                          \
	do {                                                                                       \
		uint64_t wait_end_ = uv_hrtime() / 1000000 + GUARD_MS;                             \
		while (!(cond)) {                                                                  \
			if (uv_hrtime() / 1000000 > wait_end_)                                     \
				fail_msg("never came: %s", #cond);                                 \
			uv_run(&(w)->loop, UV_RUN_ONCE);                                           \
		}                                                                                  \
	} while (0)

static inline void ok(int rc, const struct rf_err *err)
{
	if (rc < 0)
		fail_msg("%s", err->msg);
}

/* --- the server under test -------------------------------------------------------------------- */

static void on_cancelled(void *ctx)
{
	((struct world *)ctx)->cancelled++;
}

static void handle_echo(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	((struct world *)ctx)->handled++;
	rf_grpc_reply(call, message);
}

/* Kept for the test to end; told when the peer leaves. */
static void handle_hold(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	struct world *w = ctx;

	w->handled++;
	w->held[w->n_held++] = call;
	rf_grpc_on_cancel(call, on_cancelled, w);
}

/* The same, with one message sent already. */
static void handle_begin(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	handle_hold(ctx, call, message);
	rf_grpc_send(call, RF_LIT("begun"));
}

/* Kept without being told. */
static void handle_deaf(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	struct world *w = ctx;

	w->handled++;
	w->held[w->n_held++] = call;
}

/* "7": the messages "0" to "6", then the end. */
static void handle_stream(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	int64_t n = 0;
	char text[32];

	((struct world *)ctx)->handled++;
	rf_str_int(message, &n, NULL);
	for (int64_t i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "%d", (int)i);
		rf_grpc_send(call, rf_str(text));
	}
	rf_grpc_finish(call, RF_GRPC_OK, NULL);
}

/* "404": the error of that code, with a text that needs care on its way. */
static void handle_fail(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	struct rf_err err = RF_ERR_INIT;
	int64_t code = 0;

	((struct world *)ctx)->handled++;
	rf_str_int(message, &code, NULL);
	rf_fail(&err, (enum rf_code)code, "100%% wrong: \xc3\xbc\nsecond line");
	rf_grpc_fail(call, &err);
}

/* Answers and closes its own server. */
static void handle_close(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	struct world *w = ctx;

	w->handled++;
	rf_grpc_reply(call, RF_LIT("bye"));
	rf_grpc_server_close(w->server);
	w->server = NULL;
}

static const struct rf_grpc_method methods[] = {
	{ "/test.T/Echo", handle_echo },     { "/test.T/Hold", handle_hold },
	{ "/test.T/Begin", handle_begin },   { "/test.T/Deaf", handle_deaf },
	{ "/test.T/Stream", handle_stream }, { "/test.T/Fail", handle_fail },
	{ "/test.T/Close", handle_close },
};

static void on_tick(uv_timer_t *t)
{
}

static inline void serve(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	ok(rf_grpc_listen(&w->loop, w->path, 0600, methods, RF_COUNT(methods), w, &w->server, &err),
	   &err);
}

static inline void stop_serving(struct world *w)
{
	rf_grpc_server_close(w->server);
	w->server = NULL;
}

static inline int world_setup(void **state)
{
	struct world *w = rf_new(struct world);

	uv_loop_init(&w->loop);
	uv_timer_init(&w->loop, &w->tick);
	uv_timer_start(&w->tick, on_tick, 2, 2);
	snprintf(w->dir, sizeof(w->dir), "/tmp/rf-grpc-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/s.sock", w->dir);
	serve(w);
	w->client = rf_grpc_client_new(&w->loop, w->path);
	*state = w;
	return 0;
}

/* Everything is released by the loop alone: nothing keeps it running, and the folder is empty. */
static inline int world_teardown(void **state)
{
	struct world *w = *state;

	rf_grpc_server_close(w->server);
	rf_grpc_client_free(w->client);
	uv_close((uv_handle_t *)&w->tick, NULL);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	assert_int_equal(rmdir(w->dir), 0);
	free(w);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

/* A text that no shifted or repeated piece equals. */
static inline void fill(struct rf_buf *b, size_t n)
{
	uint32_t x = 1;

	rf_buf_clear(b);
	rf_buf_reserve(b, n);
	for (size_t i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		rf_buf_add_c(b, (char)(x >> 24));
	}
}

static inline bool same(struct rf_str a, struct rf_str b)
{
	return rf_str_eq(a, b);
}

/* --- calls of the client ---------------------------------------------------------------------- */

struct answer {
	int calls;
	int code; /* of the error */
	char error[RF_ERR_MAX];
	struct rf_buf body;
	struct world *w;
	bool free_client;    /* inside the callback */
	struct answer *next; /* asked for inside the callback */
};

#define ANSWER_INIT                                                                                \
	{                                                                                          \
		.body = RF_BUF_INIT                                                                \
	}

static inline void rf_answer_done(struct answer *a)
{
	rf_buf_done(&a->body);
}
#define auto_answer __attribute__((cleanup(rf_answer_done))) struct answer

static void on_answer(void *ctx, const struct rf_err *err, struct rf_str message)
{
	struct answer *a = ctx;

	a->calls++;
	a->code = err != NULL ? err->code : 0;
	snprintf(a->error, sizeof(a->error), "%s", err != NULL ? err->msg : "");
	rf_buf_clear(&a->body);
	rf_buf_add(&a->body, message);
	if (a->next != NULL)
		rf_grpc_call_unary(a->w->client, "/test.T/Echo", RF_LIT("again"), 0, on_answer,
				   a->next);
	if (a->free_client) {
		rf_grpc_client_free(a->w->client);
		a->w->client = NULL;
	}
}

static inline void ask(struct world *w, const char *method, struct rf_str message, struct answer *a)
{
	rf_grpc_call_unary(w->client, method, message, 20000, on_answer, a);
	assert_int_equal(a->calls, 0); /* never from inside */
}

static inline void ask_and_wait(struct world *w, const char *method, struct rf_str message,
				struct answer *a)
{
	ask(w, method, message, a);
	wait_for(w, a->calls == 1);
}

/* --- a peer in bytes -------------------------------------------------------------------------- */

struct raw {
	struct world *w;
	int fd;
	struct rf_buf in;
	bool eof;
	nghttp2_hd_inflater *inflater;
};

struct frame {
	size_t length;
	uint8_t type, flags;
	int32_t id;
	struct rf_buf payload; /* of HEADERS: "name: value\n" lines */
};

#define FRAME_INIT                                                                                 \
	{                                                                                          \
		.payload = RF_BUF_INIT                                                             \
	}

static inline void rf_frame_done(struct frame *f)
{
	rf_buf_done(&f->payload);
}
#define auto_frame __attribute__((cleanup(rf_frame_done))) struct frame

static inline void rf_raw_done(struct raw *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	rf_buf_done(&r->in);
	if (r->inflater != NULL)
		nghttp2_hd_inflate_del(r->inflater);
	r->inflater = NULL;
}
#define auto_raw __attribute__((cleanup(rf_raw_done))) struct raw

static inline struct raw raw_of(struct world *w, int fd)
{
	struct raw r = { .w = w, .fd = fd, .in = RF_BUF_INIT };

	assert_int_equal(nghttp2_hd_inflate_new(&r.inflater), 0);
	return r;
}

static inline struct raw raw_connect(struct world *w)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	memcpy(addr.sun_path, w->path, strlen(w->path) + 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return raw_of(w, fd);
}

/* Stops early if the other side has gone: a test of refusals reads why. */
static inline void raw_send(struct raw *r, struct rf_str bytes)
{
	while (bytes.n > 0) {
		ssize_t n = send(r->fd, bytes.p, bytes.n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			uv_run(&r->w->loop, UV_RUN_NOWAIT);
		else if (n < 0)
			return;
		else
			bytes = rf_str_skip(bytes, (size_t)n);
	}
}

static inline void add_u32(struct rf_buf *b, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		rf_buf_add_c(b, (char)(v >> shift));
}

static inline void add_frame_head(struct rf_buf *b, size_t length, int type, int flags, int32_t id)
{
	rf_buf_add_c(b, (char)(length >> 16));
	rf_buf_add_c(b, (char)(length >> 8));
	rf_buf_add_c(b, (char)length);
	rf_buf_add_c(b, (char)type);
	rf_buf_add_c(b, (char)flags);
	add_u32(b, (uint32_t)id);
}

static inline void add_frame(struct rf_buf *b, int type, int flags, int32_t id,
			     struct rf_str payload)
{
	add_frame_head(b, payload.n, type, flags, id);
	rf_buf_add(b, payload);
}

static inline void raw_frame(struct raw *r, int type, int flags, int32_t id, struct rf_str payload)
{
	rf_auto(buf) b = RF_BUF_INIT;

	add_frame(&b, type, flags, id, payload);
	raw_send(r, rf_buf_str(&b));
}

static inline void raw_u32_frame(struct raw *r, int type, int32_t id, uint32_t value)
{
	rf_auto(buf) b = RF_BUF_INIT;

	add_u32(&b, value);
	raw_frame(r, type, 0, id, rf_buf_str(&b));
}

/* HPACK: literals that are not indexed, so that no table has to be kept. */
static inline void add_hpack_string(struct rf_buf *b, struct rf_str s)
{
	size_t n = s.n;

	if (n < 127) {
		rf_buf_add_c(b, (char)n);
	} else {
		rf_buf_add_c(b, 127);
		for (n -= 127; n >= 128; n /= 128)
			rf_buf_add_c(b, (char)(n % 128 + 128));
		rf_buf_add_c(b, (char)n);
	}
	rf_buf_add(b, s);
}

static inline void add_header(struct rf_buf *b, const char *name, struct rf_str value)
{
	rf_buf_add_c(b, 0);
	add_hpack_string(b, rf_str(name));
	add_hpack_string(b, value);
}

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static inline void raw_hello(struct raw *r)
{
	raw_send(r, RF_LIT(PREFACE));
	raw_frame(r, NGHTTP2_SETTINGS, 0, 0, RF_STR_EMPTY);
}

/* What a grpc-go client sends, with one more header if a name is given. */
static inline void add_request_headers(struct rf_buf *b, const char *path, const char *extra_name,
				       struct rf_str extra)
{
	add_header(b, ":method", RF_LIT("POST"));
	add_header(b, ":scheme", RF_LIT("http"));
	add_header(b, ":path", rf_str(path));
	add_header(b, ":authority", RF_LIT("localhost"));
	add_header(b, "content-type", RF_LIT("application/grpc"));
	add_header(b, "user-agent", RF_LIT("grpc-go/1.72.2"));
	add_header(b, "te", RF_LIT("trailers"));
	if (extra_name != NULL)
		add_header(b, extra_name, extra);
}

static inline void raw_headers(struct raw *r, int32_t id, const char *path, const char *extra_name,
			       struct rf_str extra)
{
	rf_auto(buf) b = RF_BUF_INIT;

	add_request_headers(&b, path, extra_name, extra);
	raw_frame(r, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, rf_buf_str(&b));
}

static inline void raw_message(struct raw *r, int32_t id, int flags, struct rf_str message)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_grpc_frame(&b, message);
	raw_frame(r, NGHTTP2_DATA, flags, id, rf_buf_str(&b));
}

static inline void raw_ask(struct raw *r, int32_t id, const char *path, struct rf_str message)
{
	raw_headers(r, id, path, NULL, RF_STR_EMPTY);
	raw_message(r, id, NGHTTP2_FLAG_END_STREAM, message);
}

/* --- what comes back -------------------------------------------------------------------------- */

static inline void raw_receive(struct raw *r)
{
	char bytes[16384];
	ssize_t n;

	while (!r->eof && (n = recv(r->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) != 0) {
		if (n < 0) {
			r->eof = errno != EAGAIN;
			return;
		}
		rf_buf_add(&r->in, rf_str_n(bytes, (size_t)n));
	}
	r->eof = true;
}

static inline size_t frame_length(const struct rf_buf *b)
{
	const unsigned char *p = (const unsigned char *)b->p;

	return (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
}

static inline bool has_frame(const struct rf_buf *b)
{
	return b->n >= 9 && b->n - 9 >= frame_length(b);
}

static inline void inflate_headers(struct raw *r, struct rf_str block, struct rf_buf *ret)
{
	int flags = 0;

	rf_buf_clear(ret);
	while (block.n > 0 && (flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
		nghttp2_nv nv;
		ssize_t n = nghttp2_hd_inflate_hd2(r->inflater, &nv, &flags,
						   (const uint8_t *)block.p, block.n, 1);

		assert_true(n >= 0);
		block = rf_str_skip(block, (size_t)n);
		if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
			rf_buf_printf(ret, "%.*s: %.*s\n", (int)nv.namelen, nv.name,
				      (int)nv.valuelen, nv.value);
	}
	nghttp2_hd_inflate_end_headers(r->inflater);
}

static inline void cut_frame(struct raw *r, struct frame *f)
{
	const unsigned char *p = (const unsigned char *)r->in.p;
	struct rf_str payload;

	f->length = frame_length(&r->in);
	f->type = p[3];
	f->flags = p[4];
	f->id = (p[5] & 0x7f) << 24 | p[6] << 16 | p[7] << 8 | p[8];
	payload = rf_str_n(r->in.p + 9, f->length);
	rf_buf_clear(&f->payload);
	if (f->type == NGHTTP2_HEADERS)
		inflate_headers(r, payload, &f->payload);
	else
		rf_buf_add(&f->payload, payload);
	rf_buf_drop(&r->in, 9 + f->length);
}

/* The next frame; false when the connection has ended before one was whole. */
static inline bool raw_next(struct raw *r, struct frame *f)
{
	wait_for(r->w, (raw_receive(r), has_frame(&r->in) || r->eof));
	if (!has_frame(&r->in))
		return false;
	cut_frame(r, f);
	return true;
}

/* Skips to the next frame of a type; fails the test if none comes. */
static inline void raw_expect(struct raw *r, int type, struct frame *f)
{
	do {
		if (!raw_next(r, f))
			fail_msg("the connection ended before a frame of type %d", type);
	} while (f->type != type);
}

/* Reads all there is until the other side ends. */
static inline void raw_drain(struct raw *r)
{
	wait_for(r->w, (raw_receive(r), rf_buf_clear(&r->in), r->eof));
}

struct result {
	struct rf_buf headers, body, trailers; /* trailers empty: all was in the headers */
	size_t n_headers;
	int reset; /* -1: not reset */
	bool ended;
};

#define RESULT_INIT                                                                                \
	{                                                                                          \
		.headers = RF_BUF_INIT, .body = RF_BUF_INIT, .trailers = RF_BUF_INIT, .reset = -1  \
	}

static inline void rf_result_done(struct result *r)
{
	rf_buf_done(&r->headers);
	rf_buf_done(&r->body);
	rf_buf_done(&r->trailers);
}
#define auto_result __attribute__((cleanup(rf_result_done))) struct result

static inline void note_frame(struct result *res, const struct frame *f)
{
	if (f->type == NGHTTP2_HEADERS)
		rf_buf_add(res->n_headers++ == 0 ? &res->headers : &res->trailers,
			   rf_buf_str(&f->payload));
	else if (f->type == NGHTTP2_DATA)
		rf_buf_add(&res->body, rf_buf_str(&f->payload));
	else if (f->type == NGHTTP2_RST_STREAM)
		res->reset = (unsigned char)f->payload.p[3];
	res->ended = res->reset >= 0 ||
		     ((f->flags & NGHTTP2_FLAG_END_STREAM) != 0 && f->type <= NGHTTP2_HEADERS);
}

/* The whole answer on one stream; windows are opened as bytes come, like a peer that reads. */
static inline void raw_result(struct raw *r, int32_t id, struct result *res)
{
	auto_frame f = FRAME_INIT;

	while (!res->ended) {
		if (!raw_next(r, &f))
			fail_msg("the connection ended in an answer");
		if (f.id == id)
			note_frame(res, &f);
		if (f.type == NGHTTP2_DATA && f.length > 0) {
			raw_u32_frame(r, NGHTTP2_WINDOW_UPDATE, 0, (uint32_t)f.length);
			if (!res->ended)
				raw_u32_frame(r, NGHTTP2_WINDOW_UPDATE, f.id, (uint32_t)f.length);
		}
	}
}

static inline bool has(const struct rf_buf *b, const char *line)
{
	return strstr(b->p, line) != NULL;
}

/* A refusal: one HEADERS frame with the end of the stream. */
static inline void assert_trailers_only(const struct result *res, const char *status_line,
					const char *in_text)
{
	assert_int_equal(res->n_headers, 1);
	assert_int_equal(res->body.n, 0);
	assert_true(has(&res->headers, "content-type: application/grpc\n"));
	if (!has(&res->headers, status_line) || !has(&res->headers, in_text))
		fail_msg("want \"%s\" and \"%s\", got %s", status_line, in_text, res->headers.p);
}

#endif
