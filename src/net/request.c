/* A client's request as text. Nothing is sent that our own server would refuse. */
#include "net/client.h"

#ifndef RF_VERSION
#define RF_VERSION "0"
#endif

/* Those the client writes itself, because framing depends on them. */
static bool is_reserved(struct rf_str name)
{
	static const char *const names[] = { "host",	   "content-length", "transfer-encoding",
					     "connection", "expect",	     "upgrade",
					     "te",	   "trailer" };

	for (size_t i = 0; i < RF_COUNT(names); i++)
		if (rf_str_ieq(name, rf_str(names[i])))
			return true;
	return false;
}

static int add(struct rf_buf *b, struct rf_str name, struct rf_str value, struct rf_err *err)
{
	if (!rf_h1_is_token(name) || !rf_h1_is_value(value))
		return rf_fail(err, RF_INVALID, "header %.*s cannot be sent: malformed",
			       (int)RF_MIN(name.n, 64u), name.p);
	rf_buf_add(b, name);
	rf_buf_puts(b, ": ");
	rf_buf_add(b, value);
	rf_buf_puts(b, "\r\n");
	return 0;
}

static int add_extra(struct rf_buf *b, const struct rf_http_call_opts *opts, struct rf_err *err)
{
	if (opts->n_headers > RF_H1_HEADERS_MAX - 8)
		return rf_fail(err, RF_INVALID, "%zu headers are too many", opts->n_headers);
	for (size_t i = 0; i < opts->n_headers; i++) {
		const struct rf_http_header *h = &opts->headers[i];

		if (is_reserved(h->name))
			return rf_fail(err, RF_INVALID, "header %.*s is the client's own",
				       RF_STR(h->name));
		if (add(b, h->name, h->value, err) < 0)
			return -err->code;
	}
	return 0;
}

static int add_bearer(struct rf_buf *b, const char *bearer, struct rf_err *err)
{
	if (bearer[0] == '\0')
		return 0;
	if (!rf_h1_is_value(rf_str(bearer)) || strchr(bearer, ' ') != NULL)
		return rf_fail(err, RF_INVALID, "the bearer token is not one word of text");
	rf_buf_printf(b, "Authorization: Bearer %s\r\n", bearer);
	return 0;
}

static int add_content(struct rf_buf *b, const struct rf_http_call_opts *opts, struct rf_err *err)
{
	bool wants_length = opts->body.n > 0 || rf_str_is(opts->method, "POST") ||
			    rf_str_is(opts->method, "PUT") || rf_str_is(opts->method, "PATCH");

	if (opts->body.n > 0 && opts->content_type.n > 0 &&
	    add(b, RF_LIT("Content-Type"), opts->content_type, err) < 0)
		return -err->code;
	if (wants_length)
		rf_buf_printf(b, "Content-Length: %zu\r\n", opts->body.n);
	return 0;
}

int rf_http_write_request(struct rf_http_call *call, const struct rf_http_call_opts *opts,
			  struct rf_err *err)
{
	struct rf_str accept = opts->accept.n > 0 ? opts->accept : RF_LIT("application/json");
	struct rf_buf *b = &call->request;

	if (!rf_h1_is_token(opts->method) || !rf_h1_is_target(opts->target))
		return rf_fail(err, RF_INVALID, "%s: the method or the target is malformed",
			       call->what);
	rf_buf_printf(b, "%.*s %.*s HTTP/1.1\r\nHost: %s\r\nUser-Agent: ringfence/%s\r\n",
		      RF_STR(opts->method), RF_STR(opts->target), call->client->host_header,
		      RF_VERSION);
	if (add(b, RF_LIT("Accept"), accept, err) < 0 ||
	    add_bearer(b, call->client->bearer, err) < 0 || add_extra(b, opts, err) < 0 ||
	    add_content(b, opts, err) < 0)
		return rf_wrap(err, "%s", call->what);
	rf_buf_puts(b, "\r\n");
	rf_buf_add(b, opts->body);
	return 0;
}
