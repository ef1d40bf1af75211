/* libFuzzer target over gRPC: what a peer sends, and what handlers and callers do meanwhile, in any
 * order. The input is read as a list of deeds; the connection is a server's or a client's, without a
 * socket. Whatever comes, each call is ended once, nothing is called after its end, and all memory is
 * given back. */
#include <stdio.h>

#include "net/grpc_link.h"

#define CALLS 16

struct input {
	const uint8_t *p;
	size_t n;
};

static uint8_t take(struct input *in)
{
	if (in->n == 0)
		return 0;
	in->n--;
	return *in->p++;
}

static struct rf_str take_bytes(struct input *in, size_t n)
{
	struct rf_str s = rf_str_n((const char *)in->p, RF_MIN(n, in->n));

	in->p += s.n;
	in->n -= s.n;
	return s;
}

/* --- frames ----------------------------------------------------------------------------------- */

static void add_u32(struct rf_buf *b, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		rf_buf_add_c(b, (char)(v >> shift));
}

static void add_frame(struct rf_buf *b, uint8_t type, uint8_t flags, uint32_t id,
		      struct rf_str payload)
{
	rf_buf_add_c(b, (char)(payload.n >> 16));
	rf_buf_add_c(b, (char)(payload.n >> 8));
	rf_buf_add_c(b, (char)payload.n);
	rf_buf_add_c(b, (char)type);
	rf_buf_add_c(b, (char)flags);
	add_u32(b, id);
	rf_buf_add(b, payload);
}

static void add_header(struct rf_buf *b, const char *name, struct rf_str value)
{
	value.n = RF_MIN(value.n, 126u);
	rf_buf_add_c(b, 0);
	rf_buf_add_c(b, (char)strlen(name));
	rf_buf_puts(b, name);
	rf_buf_add_c(b, (char)value.n);
	rf_buf_add(b, value);
}

static void request_headers(struct rf_buf *b, struct input *in)
{
	static const char *const paths[] = { "/t/Echo", "/t/Hold", "/t/Deaf", "/t/Close", "/t/No" };
	uint8_t how = take(in);

	add_header(b, ":method", (how & 0x80) != 0 ? RF_LIT("PUT") : RF_LIT("POST"));
	add_header(b, ":scheme", RF_LIT("http"));
	add_header(b, ":path", rf_str(paths[how % RF_COUNT(paths)]));
	add_header(b, ":authority", RF_LIT("localhost"));
	if ((how & 0x40) == 0)
		add_header(b, "content-type", RF_LIT("application/grpc"));
	if ((how & 0x20) != 0)
		add_header(b, "grpc-timeout", take_bytes(in, take(in) % 10));
	if ((how & 0x10) != 0)
		add_header(b, "x-more", take_bytes(in, take(in)));
}

static void answer_headers(struct rf_buf *b, struct input *in)
{
	uint8_t how = take(in);

	if ((how & 1) != 0)
		add_header(b, ":status", (how & 2) != 0 ? RF_LIT("200") : take_bytes(in, 3));
	if ((how & 4) != 0)
		add_header(b, "content-type", RF_LIT("application/grpc"));
	if ((how & 8) != 0)
		add_header(b, "grpc-status", (how & 16) != 0 ? RF_LIT("0") : take_bytes(in, 2));
	if ((how & 32) != 0)
		add_header(b, "grpc-message", take_bytes(in, take(in)));
}

static uint32_t take_id(struct input *in)
{
	uint8_t n = take(in);

	return n < 64 ? 2u * n + 1 : n - 64u;
}

/* One frame that is well formed at least in its head. */
static void make_frame(struct rf_buf *b, struct input *in, bool to_server)
{
	rf_auto(buf) payload = RF_BUF_INIT;
	uint8_t flags = take(in);
	uint32_t id = take_id(in);

	switch (take(in) % 8) {
	case 0:
		if (to_server)
			request_headers(&payload, in);
		else
			answer_headers(&payload, in);
		add_frame(b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | (flags & 1), id,
			  rf_buf_str(&payload));
		break;
	case 1:
		rf_grpc_frame(&payload, take_bytes(in, take(in)));
		add_frame(b, NGHTTP2_DATA, flags & 1, id, rf_buf_str(&payload));
		break;
	case 2:
		add_frame(b, NGHTTP2_DATA, flags & 9, id, take_bytes(in, take(in)));
		break;
	case 3:
		add_u32(&payload, take(in));
		add_frame(b, NGHTTP2_RST_STREAM, 0, id, rf_buf_str(&payload));
		break;
	case 4:
		add_u32(&payload, (uint32_t)take(in) << (take(in) % 24));
		add_frame(b, NGHTTP2_WINDOW_UPDATE, 0, id, rf_buf_str(&payload));
		break;
	case 5:
		rf_buf_add_c(&payload, 0);
		rf_buf_add_c(&payload, (char)(take(in) % 8));
		add_u32(&payload, (uint32_t)take(in) << (take(in) % 24));
		add_frame(b, NGHTTP2_SETTINGS, 0, 0, rf_buf_str(&payload));
		break;
	case 6:
		add_u32(&payload, id);
		add_u32(&payload, flags);
		add_frame(b, NGHTTP2_GOAWAY, 0, 0, rf_buf_str(&payload));
		break;
	case 7:
		add_frame(b, take(in), flags, id, take_bytes(in, take(in)));
		break;
	}
}

/* A copy of its own, so that a read past the bytes is caught. */
static void feed(struct rf_grpc_link **link, struct rf_str bytes, size_t piece)
{
	while (bytes.n > 0 && *link != NULL) {
		size_t n = piece == 0 ? bytes.n : RF_MIN(piece, bytes.n);
		char *copy = malloc(n);

		memcpy(copy, bytes.p, n);
		rf_grpc_link_input(*link, rf_str_n(copy, n));
		free(copy);
		bytes = rf_str_skip(bytes, n);
	}
}

/* --- a server --------------------------------------------------------------------------------- */

struct held {
	struct world *w;
	struct rf_grpc_call *call; /* NULL: free */
	bool deaf;
};

struct world {
	uv_loop_t *loop;
	struct rf_grpc_server *server;
	struct rf_grpc_client *client;
	struct rf_grpc_link *link;
	struct held held[CALLS];
	int asked, answered; /* a client's */
	bool freed;
	size_t out;
};

static void on_output(void *ctx, struct rf_str bytes)
{
	struct world *w = ctx;

	if (bytes.n == 0)
		w->link = NULL;
	w->out += bytes.n;
}

static void on_cancel(void *ctx)
{
	struct held *h = ctx;

	rf_assert(h->call != NULL);
	if (h->w->out % 2 == 0)
		rf_grpc_finish(h->call, RF_GRPC_ABORTED, "ignored");
	h->call = NULL;
}

static void hold(struct world *w, struct rf_grpc_call *call, bool deaf)
{
	for (size_t i = 0; i < CALLS; i++) {
		struct held *h = &w->held[i];

		if (h->call != NULL)
			continue;
		*h = (struct held){ w, call, deaf };
		if (!deaf)
			rf_grpc_on_cancel(call, on_cancel, h);
		return;
	}
	rf_grpc_finish(call, RF_GRPC_RESOURCE_EXHAUSTED, NULL);
}

static void handle_echo(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	rf_assert(!((struct world *)ctx)->freed);
	rf_grpc_reply(call, message);
}

static void handle_hold(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	hold(ctx, call, false);
}

static void handle_deaf(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	hold(ctx, call, true);
}

static void close_server(struct world *w)
{
	if (w->server != NULL)
		rf_grpc_server_close(w->server);
	w->server = NULL;
	w->link = NULL;
	w->freed = true;
	for (size_t i = 0; i < CALLS; i++)
		rf_assert(w->held[i].call == NULL || w->held[i].deaf);
}

static void handle_close(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	hold(ctx, call, message.n % 2 == 0);
	close_server(ctx);
}

static const struct rf_grpc_method methods[] = {
	{ "/t/Echo", handle_echo },
	{ "/t/Hold", handle_hold },
	{ "/t/Deaf", handle_deaf },
	{ "/t/Close", handle_close },
};

static void end_call(struct held *h, uint8_t how, struct rf_str bytes)
{
	struct rf_grpc_call *call = h->call;
	struct rf_err err = RF_ERR_INIT;

	h->call = NULL;
	if (how % 3 == 0) {
		rf_grpc_reply(call, bytes);
	} else if (how % 3 == 1) {
		rf_grpc_finish(call, (enum rf_grpc_status)(how % 20), "some text");
	} else {
		rf_fail(&err, (enum rf_code)(how % RF_CODE_COUNT), "%.*s", RF_STR(bytes));
		rf_grpc_fail(call, &err);
	}
}

/* Large, so that queues and windows fill. */
static void send_much(struct held *h, uint8_t size)
{
	size_t n = (size_t)size << 13;
	char *bytes = rf_alloc(n + 1);

	rf_grpc_send(h->call, rf_str_n(bytes, n));
	free(bytes);
}

static void handler_deed(struct world *w, struct input *in)
{
	struct held *h = &w->held[take(in) % CALLS];
	uint8_t what = take(in);

	if (h->call == NULL)
		return;
	if (what % 4 == 0) {
		send_much(h, take(in));
	} else if (what % 4 == 1) {
		rf_grpc_send(h->call, take_bytes(in, take(in)));
	} else if (what % 4 == 2 && h->deaf) {
		h->deaf = false;
		rf_grpc_on_cancel(h->call, on_cancel, h);
	} else {
		end_call(h, what / 4, take_bytes(in, 8));
	}
}

static void run_server(struct world *w, struct input *in, size_t piece)
{
	rf_auto(buf) bytes = RF_BUF_INIT;

	w->server = rf_grpc_server_new(w->loop, methods, RF_COUNT(methods), w);
	w->link = rf_grpc_server_tap(w->server, on_output, w);
	rf_buf_puts(&bytes, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	add_frame(&bytes, NGHTTP2_SETTINGS, 0, 0, RF_STR_EMPTY);
	feed(&w->link, rf_buf_str(&bytes), 0);
	while (in->n > 0) {
		uint8_t deed = take(in);

		rf_buf_clear(&bytes);
		if (deed % 8 == 0)
			handler_deed(w, in);
		else if (deed % 8 == 1)
			uv_run(w->loop, UV_RUN_NOWAIT);
		else if (deed % 8 == 2)
			rf_buf_add(&bytes, take_bytes(in, take(in)));
		else
			make_frame(&bytes, in, true);
		feed(&w->link, rf_buf_str(&bytes), piece);
	}
	if (!w->freed)
		close_server(w);
	for (size_t i = 0; i < CALLS; i++)
		if (w->held[i].call != NULL)
			end_call(&w->held[i], (uint8_t)i, RF_LIT("late"));
}

/* --- a client --------------------------------------------------------------------------------- */

static void on_answer(void *ctx, const struct rf_err *err, struct rf_str answer)
{
	struct world *w = ctx;

	rf_assert(!w->freed);
	rf_assert(err == NULL || (err->code > 0 && err->code < RF_CODE_COUNT && answer.n == 0));
	w->answered++;
	rf_assert(w->answered <= w->asked);
	if (answer.n == 7) { /* whoever answers may end it all */
		w->freed = true;
		w->link = NULL;
		rf_grpc_client_free(w->client);
	}
}

static void call(struct world *w, struct input *in)
{
	if (w->freed)
		return;
	w->asked++;
	rf_grpc_call_unary(w->client, "/t/Echo", take_bytes(in, take(in)), 1000, on_answer, w);
}

static void run_client(struct world *w, struct input *in, size_t piece)
{
	rf_auto(buf) bytes = RF_BUF_INIT;

	w->client = rf_grpc_client_new(w->loop, ""); /* a new connection is refused at once */
	w->link = rf_grpc_client_tap(w->client, on_output, w);
	add_frame(&bytes, NGHTTP2_SETTINGS, 0, 0, RF_STR_EMPTY);
	call(w, in);
	uv_run(w->loop, UV_RUN_NOWAIT);
	feed(&w->link, rf_buf_str(&bytes), 0);
	while (in->n > 0) {
		uint8_t deed = take(in);

		rf_buf_clear(&bytes);
		if (deed % 8 == 0)
			call(w, in);
		else if (deed % 8 == 1)
			uv_run(w->loop, UV_RUN_NOWAIT);
		else if (deed % 8 == 2)
			rf_buf_add(&bytes, take_bytes(in, take(in)));
		else
			make_frame(&bytes, in, false);
		feed(&w->link, rf_buf_str(&bytes), piece);
	}
	if (!w->freed) {
		w->freed = true;
		rf_grpc_client_free(w->client);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static uv_loop_t loop;
	static bool ready;
	struct input in = { data, n };
	struct world w = { .loop = &loop };
	uint8_t how = take(&in);

	if (!ready)
		uv_loop_init(&loop);
	ready = true;
	if (how % 2 == 0)
		run_server(&w, &in, how / 2);
	else
		run_client(&w, &in, how / 2);
	uv_run(&loop, UV_RUN_DEFAULT);
	rf_assert(!uv_loop_alive(&loop));
	return 0;
}
