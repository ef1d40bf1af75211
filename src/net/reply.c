/* Answers of the server: whole, or in pieces. */
#include <stdio.h>
#include <time.h>

#include "net/server.h"

static const char *reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} table[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 413, "Content Too Large" },
		{ 415, "Unsupported Media Type" },
		{ 417, "Expectation Failed" },
		{ 422, "Unprocessable Content" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < RF_COUNT(table); i++)
		if (table[i].status == status)
			return table[i].text;
	return "Status";
}

/* Handlers put names in headers that tenants chose: a line break there must not start a header of
 * the tenant's own. */
static void add_value(struct rf_buf *b, struct rf_str value)
{
	for (size_t i = 0; i < value.n; i++) {
		char c = value.p[i];

		rf_buf_add_c(b, (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c);
	}
}

static void add_header(struct rf_buf *b, const char *name, struct rf_str value)
{
	rf_buf_printf(b, "%s: ", name);
	add_value(b, value);
	rf_buf_puts(b, "\r\n");
}

static void add_date(struct rf_buf *b)
{
	time_t now = time(NULL);
	struct tm tm = { 0 };
	char text[64] = "";

	gmtime_r(&now, &tm);
	/* No locale is ever set: the names of days and months are the English ones. */
	if (strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
		rf_buf_printf(b, "Date: %s\r\n", text);
}

static bool has_body(const struct rf_http_link *link, int status)
{
	return status != 204 && status != 304 && !rf_str_is(link->req.method, "HEAD");
}

/* length negative: chunked. */
static void add_head(struct rf_http_link *link, struct rf_buf *b, int status,
		     const char *content_type, ssize_t length)
{
	rf_assert(status >= 200 && status <= 599);
	rf_buf_printf(b, "HTTP/1.1 %d %s\r\n", status, reason(status));
	add_date(b);
	if (content_type != NULL && content_type[0] != '\0')
		add_header(b, "Content-Type", rf_str(content_type));
	rf_buf_add(b, rf_buf_str(&link->extra));
	if (status != 204 && status != 304) {
		if (length < 0)
			rf_buf_puts(b, "Transfer-Encoding: chunked\r\n");
		else
			rf_buf_printf(b, "Content-Length: %zd\r\n", length);
	}
	if (!link->parser.keep_alive)
		rf_buf_puts(b, "Connection: close\r\n");
	rf_buf_puts(b, "\r\n");
}

void rf_http_add_header(struct rf_http_req *req, const char *name, struct rf_str value)
{
	struct rf_http_link *link = rf_http_link_of(req);

	rf_assert(rf_h1_is_token(rf_str(name)));
	if (link->state == RF_LINK_HANDLING)
		add_header(&link->extra, name, value);
}

void rf_http_reply(struct rf_http_req *req, int status, const char *content_type,
		   struct rf_str body)
{
	struct rf_http_link *link = rf_http_link_of(req);
	rf_auto(buf) out = RF_BUF_INIT;

	if (link->state == RF_LINK_OVER)
		return;
	rf_assert(link->state == RF_LINK_HANDLING);
	add_head(link, &out, status, content_type, (ssize_t)body.n);
	if (has_body(link, status) && body.n <= 16 * 1024)
		rf_buf_add(&out, body);
	rf_conn_write(link->conn, rf_buf_str(&out));
	if (has_body(link, status) && body.n > 16 * 1024)
		rf_conn_write(link->conn, body);
	rf_http_link_replied(link);
}

void rf_http_stream_begin(struct rf_http_req *req, int status, const char *content_type)
{
	struct rf_http_link *link = rf_http_link_of(req);
	rf_auto(buf) out = RF_BUF_INIT;

	if (link->state == RF_LINK_OVER)
		return;
	rf_assert(link->state == RF_LINK_HANDLING && status != 204 && status != 304);
	add_head(link, &out, status, content_type, -1);
	rf_conn_write(link->conn, rf_buf_str(&out));
	link->state = RF_LINK_STREAMING;
}

void rf_http_stream_write(struct rf_http_req *req, struct rf_str data)
{
	struct rf_http_link *link = rf_http_link_of(req);
	rf_auto(buf) out = RF_BUF_INIT;

	if (link->state == RF_LINK_OVER || data.n == 0)
		return;
	rf_assert(link->state == RF_LINK_STREAMING);
	if (link->gone || rf_str_is(req->method, "HEAD"))
		return;
	rf_buf_reserve(&out, data.n + 24);
	rf_buf_printf(&out, "%zx\r\n", data.n);
	rf_buf_add(&out, data);
	rf_buf_puts(&out, "\r\n");
	rf_conn_write(link->conn, rf_buf_str(&out));
}

void rf_http_stream_end(struct rf_http_req *req)
{
	struct rf_http_link *link = rf_http_link_of(req);

	if (link->state == RF_LINK_OVER)
		return;
	rf_assert(link->state == RF_LINK_STREAMING);
	if (!rf_str_is(req->method, "HEAD"))
		rf_conn_write(link->conn, RF_LIT("0\r\n\r\n"));
	rf_http_link_replied(link);
}

size_t rf_http_stream_pending(const struct rf_http_req *req)
{
	const struct rf_http_link *link = rf_http_link_of(req);

	return link->state == RF_LINK_OVER || link->gone ? 0 : rf_conn_pending(link->conn);
}

void rf_http_on_close(struct rf_http_req *req, void (*cb)(void *ctx), void *ctx)
{
	struct rf_http_link *link = rf_http_link_of(req);

	link->on_close = cb;
	link->on_close_ctx = ctx;
	if (cb != NULL && link->gone)
		rf_http_link_tell_gone(link);
}

void rf_http_on_drain(struct rf_http_req *req, void (*cb)(void *ctx), void *ctx)
{
	struct rf_http_link *link = rf_http_link_of(req);

	link->on_drain = cb;
	link->on_drain_ctx = ctx;
}

void rf_http_link_refuse(struct rf_http_link *link, int status, const char *why)
{
	rf_auto(buf) out = RF_BUF_INIT;

	link->parser.keep_alive = false;
	rf_buf_clear(&link->extra);
	add_head(link, &out, status, "text/plain; charset=utf-8", (ssize_t)strlen(why) + 1);
	rf_buf_printf(&out, "%s\n", why);
	rf_conn_write(link->conn, rf_buf_str(&out));
	link->state = RF_LINK_OVER;
	rf_conn_finish(link->conn);
}

/* --- what a request says ---------------------------------------------------------------------- */

struct rf_str rf_http_get_header(const struct rf_http_req *req, const char *name)
{
	for (size_t i = 0; i < req->n_headers; i++)
		if (rf_str_ieq(req->headers[i].name, rf_str(name)))
			return req->headers[i].value;
	return RF_STR_EMPTY;
}

/* Decodes only what could match: a query may hold thousands of keys. */
static bool key_is(const struct rf_http_req *req, struct rf_str key, const char *name)
{
	if (rf_str_is(key, name))
		return true;
	return memchr(key.p, '%', key.n) != NULL && rf_h1_decode_query(req->arena, key, &key) &&
	       rf_str_is(key, name);
}

bool rf_http_query(const struct rf_http_req *req, const char *name, struct rf_str *ret_value)
{
	struct rf_str rest = req->query, pair = RF_STR_EMPTY, key = RF_STR_EMPTY;
	bool more = true;

	while (more) {
		more = rf_str_cut(&rest, '&', &pair);
		rf_str_cut(&pair, '=', &key);
		if (key_is(req, key, name) && rf_h1_decode_query(req->arena, pair, ret_value))
			return true;
	}
	return false;
}
