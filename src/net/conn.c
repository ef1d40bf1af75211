#include "net/conn.h"

#include <openssl/err.h>
#include <signal.h>
#include <stdio.h>

#include "net/tls_session.h"

#define READ_SIZE (64 * 1024)
#define RECORD_SIZE (16 * 1024)
#define STALL_MS 30000 /* unless the owner says otherwise */
#define LINGER_MS 1000 /* how long we read past the last reply, so that the peer can read it */
#define CHATTER_MAX (256u * 1024) /* TLS's own answers that a peer may provoke and not take */
#define PENDING_MAX (256u * 1024 * 1024) /* past this the peer is too slow to serve */

enum state { CONNECTING, HANDSHAKE, OPEN, ENDED, FINISHING, LINGERING, CLOSED };

struct rf_conn {
	uv_tcp_t tcp;
	uv_timer_t timer; /* the owner's; ours once lingering */
	uv_timer_t stall;
	uv_timer_t soon; /* delivers a failure met inside a call */
	int handles;	 /* not yet closed */
	enum state state;
	const struct rf_conn_events *events;
	void *ctx;
	SSL *ssl; /* NULL: plain */
	char *host;
	uv_connect_t connect;
	uv_write_t write;
	uv_shutdown_t shutdown;
	struct rf_buf flight; /* with the kernel */
	struct rf_buf out;    /* waits for flight to land */
	bool writing;
	bool paused;
	size_t chatter; /* bytes TLS wrote by itself since all was last taken */
	int stall_ms;
	size_t last_queue; /* at the last look for stalls */
	struct rf_err failure;
};

/* A write to a peer that has gone must be an error, not the end of the process. */
static void ignore_sigpipe(void)
{
	struct sigaction now = { 0 };

	if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		signal(SIGPIPE, SIG_IGN);
}

/* --- ending ----------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *h)
{
	struct rf_conn *c = h->data;

	if (--c->handles > 0)
		return;
	if (c->events->on_released != NULL)
		c->events->on_released(c->ctx);
	SSL_free(c->ssl);
	rf_buf_done(&c->flight);
	rf_buf_done(&c->out);
	free(c->host);
	free(c);
}

void rf_conn_close(struct rf_conn *c)
{
	if (c->state == CLOSED)
		return;
	c->state = CLOSED;
	uv_close((uv_handle_t *)&c->timer, on_handle_closed);
	uv_close((uv_handle_t *)&c->stall, on_handle_closed);
	uv_close((uv_handle_t *)&c->soon, on_handle_closed);
	uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
}

/* From the loop only. err NULL: a proper end. */
static void end(struct rf_conn *c, const struct rf_err *err)
{
	if (c->state == FINISHING || c->state == LINGERING) {
		rf_conn_close(c);
	} else if (c->state < ENDED) {
		c->state = ENDED;
		uv_read_stop((uv_stream_t *)&c->tcp);
		uv_timer_stop(&c->stall);
		c->events->on_end(c->ctx, err);
	}
}

static void end_uv(struct rf_conn *c, const char *what, int code)
{
	struct rf_err err = RF_ERR_INIT;

	rf_fail(&err, RF_UNAVAILABLE, "%s %s: %s", what, c->host, uv_strerror(code));
	end(c, &err);
}

static void on_soon(uv_timer_t *t)
{
	struct rf_conn *c = t->data;

	end(c, &c->failure);
}

/* For failures met while the owner is calling us: told from the loop. c->failure is filled. */
static void end_soon(struct rf_conn *c)
{
	uv_timer_start(&c->soon, on_soon, 0, 0);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void flush(struct rf_conn *c);
static void say_goodbye(struct rf_conn *c);

static void on_stall(uv_timer_t *t)
{
	struct rf_conn *c = t->data;
	size_t queue = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);
	struct rf_err err = RF_ERR_INIT;

	if (queue < c->last_queue) {
		c->last_queue = queue;
		return;
	}
	rf_fail(&err, RF_TIMEOUT, "%s: has taken no data for %d ms", c->host, c->stall_ms);
	end(c, &err);
}

static void on_written(uv_write_t *w, int status)
{
	struct rf_conn *c = w->data;

	c->writing = false;
	rf_buf_clear(&c->flight);
	if (c->state == CLOSED || c->state == ENDED)
		return;
	if (status < 0) {
		end_uv(c, "write to", status);
		return;
	}
	flush(c);
	if (c->writing)
		return;
	uv_timer_stop(&c->stall);
	c->chatter = 0;
	if (c->state == FINISHING)
		say_goodbye(c);
	else if (c->state == OPEN && c->events->on_drain != NULL)
		c->events->on_drain(c->ctx);
}

/* One write is under way at a time; what comes meanwhile is gathered for the next. */
static void flush(struct rf_conn *c)
{
	struct rf_buf spare = c->flight;
	uv_buf_t buf;
	int rc;

	if (c->writing || c->out.n == 0 || c->state == CLOSED || c->state == ENDED)
		return;
	c->flight = c->out;
	c->out = spare;
	if (c->out.cap > RECORD_SIZE)
		rf_buf_done(&c->out);
	buf = uv_buf_init(c->flight.p, (unsigned int)c->flight.n);
	rc = uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, on_written);
	if (rc < 0) {
		rf_fail(&c->failure, RF_UNAVAILABLE, "write to %s: %s", c->host, uv_strerror(rc));
		end_soon(c);
		return;
	}
	c->writing = true;
	c->last_queue = c->flight.n + 1;
	uv_timer_start(&c->stall, on_stall, (uint64_t)c->stall_ms, (uint64_t)c->stall_ms);
}

/* Moves what TLS wants sent into out. */
static void collect(struct rf_conn *c)
{
	BIO *bio = SSL_get_wbio(c->ssl);
	size_t n;

	while ((n = BIO_ctrl_pending(bio)) > 0) {
		int got;

		rf_buf_reserve(&c->out, n);
		got = BIO_read(bio, c->out.p + c->out.n, (int)RF_MIN(n, (size_t)INT32_MAX));
		if (got <= 0)
			break;
		c->out.n += (size_t)got;
		c->out.p[c->out.n] = '\0';
	}
}

static bool encrypt(struct rf_conn *c, struct rf_str data)
{
	while (data.n > 0) {
		int n = (int)RF_MIN(data.n, (size_t)RECORD_SIZE);

		ERR_clear_error();
		if (SSL_write(c->ssl, data.p, n) != n)
			return false;
		collect(c);
		data = rf_str_skip(data, (size_t)n);
	}
	return true;
}

void rf_conn_write(struct rf_conn *c, struct rf_str data)
{
	if (c->state != OPEN || data.n == 0 || uv_is_active((uv_handle_t *)&c->soon))
		return;
	if (data.n > PENDING_MAX || rf_conn_pending(c) + data.n > PENDING_MAX) {
		rf_fail(&c->failure, RF_EXHAUSTED, "%s: over %u MiB wait to be taken", c->host,
			PENDING_MAX >> 20);
		end_soon(c);
		return;
	}
	if (c->ssl == NULL) {
		rf_buf_add(&c->out, data);
	} else if (!encrypt(c, data)) {
		rf_tls_explain(c->ssl, c->host, &c->failure);
		end_soon(c);
		return;
	}
	flush(c);
}

size_t rf_conn_pending(const struct rf_conn *c)
{
	const uv_stream_t *s = (const uv_stream_t *)&c->tcp;

	return c->out.n + (c->writing ? uv_stream_get_write_queue_size(s) : 0);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void give(struct rf_conn *c, struct rf_str data)
{
	if (c->state == OPEN)
		c->events->on_data(c->ctx, data);
}

static void become_ready(struct rf_conn *c)
{
	c->state = OPEN;
	if (c->events->on_ready != NULL)
		c->events->on_ready(c->ctx);
}

static void tls_trouble(struct rf_conn *c, int rc)
{
	struct rf_err err = RF_ERR_INIT;

	switch (SSL_get_error(c->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		break;
	case SSL_ERROR_ZERO_RETURN:
		end(c, NULL);
		break;
	default:
		rf_tls_explain(c->ssl, c->host, &err);
		flush(c); /* the alert that tells the peer why */
		end(c, &err);
	}
}

static void shake_hands(struct rf_conn *c)
{
	int rc;

	ERR_clear_error();
	rc = SSL_do_handshake(c->ssl);
	collect(c);
	if (rc == 1) {
		flush(c);
		become_ready(c);
	} else {
		tls_trouble(c, rc);
		flush(c);
	}
}

/* A peer can ask for new keys over and over, and each time TLS answers: not without end. */
static void collect_chatter(struct rf_conn *c)
{
	size_t before = c->out.n;
	struct rf_err err = RF_ERR_INIT;

	collect(c);
	c->chatter += c->out.n - before;
	if (c->chatter <= CHATTER_MAX)
		return;
	rf_fail(&err, RF_EXHAUSTED, "%s: asks for TLS key updates and takes none", c->host);
	end(c, &err);
}

static void decrypt(struct rf_conn *c)
{
	char plain[RECORD_SIZE];
	int n = 1;

	while (c->state == OPEN) {
		ERR_clear_error();
		n = SSL_read(c->ssl, plain, sizeof(plain));
		if (n <= 0)
			break;
		give(c, rf_str_n(plain, (size_t)n));
	}
	if (c->state != OPEN)
		return;
	collect_chatter(c);
	if (c->state == OPEN)
		tls_trouble(c, n);
	flush(c);
}

static void on_bytes(struct rf_conn *c, struct rf_str data)
{
	if (c->state == LINGERING || c->state == FINISHING)
		return;
	if (c->ssl == NULL) {
		give(c, data);
		return;
	}
	if (BIO_write(SSL_get_rbio(c->ssl), data.p, (int)data.n) != (int)data.n) {
		end_uv(c, "decrypt from", UV_ENOMEM);
		return;
	}
	if (c->state == HANDSHAKE)
		shake_hands(c);
	if (c->state == OPEN)
		decrypt(c);
}

/* TLS ends with its own goodbye; a stream that stops without one may have been cut by anybody. */
static void on_eof(struct rf_conn *c)
{
	struct rf_err err = RF_ERR_INIT;

	if (c->ssl == NULL) {
		end(c, NULL);
		return;
	}
	rf_fail(&err, RF_UNAVAILABLE, "%s: the connection was cut%s", c->host,
		c->state == HANDSHAKE ? " during the TLS handshake" : "");
	end(c, &err);
}

/* One buffer for all: bytes are used up before the next read on this thread. */
static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
	static _Thread_local char bytes[READ_SIZE];

	*ret = uv_buf_init(bytes, sizeof(bytes));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct rf_conn *c = s->data;

	if (n > 0)
		on_bytes(c, rf_str_n(buf->base, (size_t)n));
	else if (n == UV_EOF)
		on_eof(c);
	else if (n < 0)
		end_uv(c, "read from", (int)n);
}

void rf_conn_pause(struct rf_conn *c, bool paused)
{
	if (c->state != OPEN || c->paused == paused)
		return;
	c->paused = paused;
	if (paused)
		uv_read_stop((uv_stream_t *)&c->tcp);
	else
		uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

/* --- finishing: flush, goodbye, linger, close ------------------------------------------------- */

static void on_linger_over(uv_timer_t *t)
{
	rf_conn_close(t->data);
}

static void on_shut(uv_shutdown_t *s, int status)
{
	struct rf_conn *c = s->data;

	if (status < 0)
		rf_conn_close(c);
}

/* Closing with unread bytes would make the kernel reset the connection, and the peer might lose
 * our last words: so we end our side and read past theirs for a moment. */
static void say_goodbye(struct rf_conn *c)
{
	c->state = LINGERING;
	uv_timer_start(&c->timer, on_linger_over, LINGER_MS, 0);
	uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
	if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shut) < 0)
		rf_conn_close(c);
}

void rf_conn_finish(struct rf_conn *c)
{
	if (c->state != OPEN) {
		if (c->state != FINISHING && c->state != LINGERING)
			rf_conn_close(c);
		return;
	}
	uv_timer_stop(&c->timer);
	if (c->ssl != NULL) {
		ERR_clear_error();
		SSL_shutdown(c->ssl);
		collect(c);
	}
	flush(c);
	c->state = FINISHING;
	if (!c->writing)
		say_goodbye(c);
}

/* --- beginning -------------------------------------------------------------------------------- */

static void on_owner_timer(uv_timer_t *t)
{
	struct rf_conn *c = t->data;

	if (c->state <= ENDED && c->events->on_timer != NULL)
		c->events->on_timer(c->ctx);
}

void rf_conn_timer(struct rf_conn *c, int64_t ms)
{
	if (c->state > ENDED)
		return;
	if (ms < 0)
		uv_timer_stop(&c->timer);
	else
		uv_timer_start(&c->timer, on_owner_timer, (uint64_t)ms, 0);
}

void rf_conn_stall_after(struct rf_conn *c, int ms)
{
	c->stall_ms = ms;
}

bool rf_conn_is_ready(const struct rf_conn *c)
{
	return c->state >= OPEN;
}

static struct rf_conn *new_conn(uv_loop_t *loop, const struct rf_conn_events *events, void *ctx)
{
	struct rf_conn *c = rf_new(struct rf_conn);

	ignore_sigpipe();
	c->events = events;
	c->ctx = ctx;
	c->flight = c->out = (struct rf_buf)RF_BUF_INIT;
	c->handles = 4;
	c->stall_ms = STALL_MS;
	uv_tcp_init(loop, &c->tcp);
	uv_timer_init(loop, &c->timer);
	uv_timer_init(loop, &c->stall);
	uv_timer_init(loop, &c->soon);
	c->tcp.data = c->timer.data = c->stall.data = c->soon.data = c;
	c->connect.data = c->write.data = c->shutdown.data = c;
	return c;
}

static void start_stream(struct rf_conn *c)
{
	uv_tcp_nodelay(&c->tcp, 1);
	uv_tcp_keepalive(&c->tcp, 1, 60); /* a watch may be silent for long: notice a dead peer */
	c->state = c->ssl != NULL ? HANDSHAKE : OPEN;
	uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

/* Nothing is delivered for a connection that never came to be: its owner forgets it at once. */
static struct rf_conn *give_up(struct rf_conn *c)
{
	static const struct rf_conn_events nobody = { 0 };

	c->events = &nobody;
	rf_conn_close(c);
	return NULL;
}

static void format_address(const struct sockaddr_storage *sa, char *ret, size_t n)
{
	char ip[48] = "?";
	bool six = sa->ss_family == AF_INET6;
	int port;

	if (six)
		uv_ip6_name((const struct sockaddr_in6 *)sa, ip, sizeof(ip));
	else
		uv_ip4_name((const struct sockaddr_in *)sa, ip, sizeof(ip));
	port = ntohs(six ? ((const struct sockaddr_in6 *)sa)->sin6_port
			 : ((const struct sockaddr_in *)sa)->sin_port);
	snprintf(ret, n, six ? "[%s]:%d" : "%s:%d", ip, port);
}

static void peer_address(struct rf_conn *c, char *ret, size_t n)
{
	struct sockaddr_storage sa = { 0 };
	int size = sizeof(sa);

	snprintf(ret, n, "unknown");
	if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&sa, &size) == 0)
		format_address(&sa, ret, n);
}

struct rf_conn *rf_conn_accept(uv_stream_t *listener, struct rf_tls *tls,
			       const struct rf_conn_events *events, void *ctx, struct rf_err *err)
{
	struct rf_conn *c = new_conn(listener->loop, events, ctx);
	char address[64];
	int rc = uv_accept(listener, (uv_stream_t *)&c->tcp);

	if (rc < 0) {
		rf_fail(err, RF_SYSTEM, "accept a connection: %s", uv_strerror(rc));
		return give_up(c);
	}
	peer_address(c, address, sizeof(address));
	c->host = rf_strdup(address);
	if (tls != NULL && (c->ssl = rf_tls_session(tls, NULL, err)) == NULL)
		return give_up(c);
	start_stream(c);
	return c;
}

static void on_connected(uv_connect_t *r, int status)
{
	struct rf_conn *c = r->data;

	if (c->state != CONNECTING)
		return;
	if (status < 0) {
		end_uv(c, "connect to", status);
		return;
	}
	start_stream(c);
	if (c->ssl != NULL)
		shake_hands(c);
	else
		become_ready(c);
}

struct rf_conn *rf_conn_connect(uv_loop_t *loop, const struct sockaddr *address, const char *host,
				struct rf_tls *tls, const struct rf_conn_events *events, void *ctx,
				struct rf_err *err)
{
	struct rf_conn *c = new_conn(loop, events, ctx);
	int rc;

	c->host = rf_strdup(host);
	if (tls != NULL && (c->ssl = rf_tls_session(tls, host, err)) == NULL)
		return give_up(c);
	rc = uv_tcp_connect(&c->connect, &c->tcp, address, on_connected);
	if (rc < 0) {
		rf_fail(err, RF_UNAVAILABLE, "connect to %s: %s", host, uv_strerror(rc));
		return give_up(c);
	}
	return c;
}

int rf_conn_peer(struct rf_conn *c, struct rf_arena *a, struct rf_http_peer *ret,
		 struct rf_err *err)
{
	memset(ret, 0, sizeof(*ret));
	ret->common_name = RF_STR_EMPTY;
	peer_address(c, ret->address, sizeof(ret->address));
	return c->ssl != NULL ? rf_tls_peer(c->ssl, a, ret, err) : 0;
}
