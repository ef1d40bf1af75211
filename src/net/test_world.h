/* A loop with a server and a client in it, for tests: certificates, waiting, raw sockets. */
#ifndef RF_NET_TEST_WORLD_H
#define RF_NET_TEST_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>

#include "net/http.h"

#define GUARD_MS 20000 /* a test that waits longer has failed */

struct world {
	uv_loop_t loop;
	uv_timer_t tick; /* wakes the loop, so that waiting for a condition sees it */
	struct rf_arena arena;
	struct rf_str ca, ca_key;
	struct rf_tls *server_tls, *client_tls;
	struct rf_http_server *server;
	struct rf_http_client *client;
	bool server_released;
	/* what the handler saw */
	int handled;
	int closed; /* on_close calls */
	struct rf_http_req *held;
	size_t drains;
	char last_address[64];
};

struct answer {
	bool done;
	int calls;
	int code; /* of the error */
	char error[RF_ERR_MAX];
	int status;
	struct rf_buf body;
	struct rf_buf type;
	size_t pieces;
	struct rf_buf streamed;
	struct rf_http_call *cancel_in_data; /* cancelled at the first piece */
};

#define ANSWER_INIT                                                                                \
	{                                                                                          \
		.body = RF_BUF_INIT, .type = RF_BUF_INIT, .streamed = RF_BUF_INIT                  \
	}

static inline void rf_answer_done(struct answer *a)
{
	rf_buf_done(&a->body);
	rf_buf_done(&a->type);
	rf_buf_done(&a->streamed);
}
#define auto_answer __attribute__((cleanup(rf_answer_done))) struct answer

static inline void ok(int rc, const struct rf_err *err)
{
	if (rc < 0)
		fail_msg("%s", err->msg);
}

static void on_tick(uv_timer_t *t)
{
}

static inline void world_init(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	memset(w, 0, sizeof(*w));
	uv_loop_init(&w->loop);
	uv_timer_init(&w->loop, &w->tick);
	uv_timer_start(&w->tick, on_tick, 2, 2);
	ok(rf_pki_new_ca(&w->arena, RF_LIT("test-ca"), &w->ca, &w->ca_key, &err), &err);
}

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

static inline void issue(struct world *w, const struct rf_pki_ask *ask, struct rf_str *cert,
			 struct rf_str *key)
{
	struct rf_err err = RF_ERR_INIT;

	ok(rf_pki_issue(&w->arena, w->ca, w->ca_key, ask, cert, key, &err), &err);
}

static inline struct rf_tls *server_tls(struct world *w, struct rf_str host)
{
	struct rf_pki_ask ask = { .common_name = RF_LIT("server"),
				  .hosts = &host,
				  .n_hosts = 1,
				  .server = true,
				  .days = 1 };
	struct rf_str cert = RF_STR_EMPTY, key = RF_STR_EMPTY;
	struct rf_err err = RF_ERR_INIT;
	struct rf_tls *t = NULL;

	issue(w, &ask, &cert, &key);
	ok(rf_tls_server(cert, key, w->ca, &t, &err), &err);
	return t;
}

static inline struct rf_tls *client_tls(struct world *w, const char *user)
{
	const struct rf_str groups[] = { RF_LIT("system:masters"), RF_LIT("team-a") };
	struct rf_pki_ask ask = {
		.common_name = rf_str(user), .groups = groups, .n_groups = 2, .days = 1
	};
	struct rf_str cert = RF_STR_EMPTY, key = RF_STR_EMPTY;
	struct rf_err err = RF_ERR_INIT;
	struct rf_tls *t = NULL;

	if (user != NULL)
		issue(w, &ask, &cert, &key);
	ok(rf_tls_client(w->ca, cert, key, &t, &err), &err);
	return t;
}

static inline void listen_with(struct world *w, struct rf_http_server_opts opts,
			       rf_http_handler handler)
{
	struct rf_err err = RF_ERR_INIT;

	opts.address = "127.0.0.1";
	opts.tls = w->server_tls;
	opts.handler = handler;
	opts.ctx = w;
	ok(rf_http_listen(&w->loop, &opts, &w->server, &err), &err);
}

static inline struct rf_http_client *new_client(struct world *w, const char *host,
						struct rf_tls *tls)
{
	struct rf_http_client_opts opts = { .host = rf_str(host),
					    .port = rf_http_server_port(w->server),
					    .tls = tls };

	return rf_http_client_new(&w->loop, &opts);
}

static void on_server_released(void *ctx)
{
	((struct world *)ctx)->server_released = true;
}

static inline void close_server(struct world *w)
{
	rf_http_server_close(w->server, on_server_released, w);
	wait_for(w, w->server_released);
	w->server = NULL;
}

/* Everything must be gone: the loop closes without a handle left. */
static inline void world_done(struct world *w)
{
	rf_http_client_free(w->client);
	if (w->server != NULL)
		close_server(w);
	uv_close((uv_handle_t *)&w->tick, NULL);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	rf_tls_free(w->server_tls);
	rf_tls_free(w->client_tls);
	rf_arena_done(&w->arena);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void on_answer(void *ctx, const struct rf_err *err, const struct rf_http_response *r)
{
	struct answer *a = ctx;

	a->done = true;
	a->calls++;
	if (err != NULL) {
		assert_null(r);
		a->code = err->code;
		memcpy(a->error, err->msg, sizeof(a->error));
		return;
	}
	a->status = r->status;
	rf_buf_clear(&a->body);
	rf_buf_add(&a->body, r->body);
	rf_buf_clear(&a->type);
	rf_buf_add(&a->type, r->content_type);
}

static RF_UNUSED void on_piece(void *ctx, struct rf_str data)
{
	struct answer *a = ctx;

	a->pieces++;
	rf_buf_add(&a->streamed, data);
	if (a->cancel_in_data != NULL)
		rf_http_call_cancel(a->cancel_in_data);
	a->cancel_in_data = NULL;
}

static inline struct rf_http_call *begin(struct rf_http_client *c, const char *method,
					 const char *target, struct rf_str body, struct answer *a)
{
	struct rf_http_call_opts opts = { .method = rf_str(method),
					  .target = rf_str(target),
					  .body = body,
					  .content_type = RF_LIT("text/plain"),
					  .on_done = on_answer,
					  .ctx = a };

	a->done = false;
	return rf_http_call(c, &opts);
}

static inline void call(struct world *w, const char *method, const char *target, struct rf_str body,
			struct answer *a)
{
	begin(w->client, method, target, body, a);
	assert_false(a->done);
	wait_for(w, a->done);
}

static inline void assert_success(const struct answer *a, int status)
{
	if (a->code != 0)
		fail_msg("%s", a->error);
	assert_int_equal(a->status, status);
}

/* --- raw sockets, on a plain server ----------------------------------------------------------- */

static inline int raw_connect(struct world *w)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons(rf_http_server_port(w->server)),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static inline void raw_send(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Adds what has arrived; false once the server has ended its side. */
static inline bool raw_receive(int fd, struct rf_buf *b)
{
	char part[64 * 1024];
	ssize_t n;

	while ((n = recv(fd, part, sizeof(part), MSG_DONTWAIT)) > 0)
		rf_buf_add(b, rf_str_n(part, (size_t)n));
	return n != 0;
}

static inline bool raw_has(int fd, struct rf_buf *b, const char *text)
{
	raw_receive(fd, b);
	return strstr(b->p, text) != NULL;
}

#endif
