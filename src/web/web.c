#include "web/web.h"

#include <openssl/crypto.h>

#include "net/http.h"

struct rf_web {
	struct rf_http_server *server;
	struct rf_buf token;
	struct rf_json *(*state)(void *ctx, struct rf_arena *a);
	void *ctx;
};

struct page {
	const char *path;
	const char *type;
	const unsigned char *data;
	const unsigned *size;
};

/* Made from the files of this folder at build time. */
extern const unsigned char rf_web_index_html[], rf_web_app_js[], rf_web_style_css[];
extern const unsigned rf_web_index_html_size, rf_web_app_js_size, rf_web_style_css_size;

static const struct page PAGES[] = {
	{ "/", "text/html; charset=utf-8", rf_web_index_html, &rf_web_index_html_size },
	{ "/app.js", "text/javascript; charset=utf-8", rf_web_app_js, &rf_web_app_js_size },
	{ "/style.css", "text/css; charset=utf-8", rf_web_style_css, &rf_web_style_css_size },
};

static void add_safety_headers(struct rf_http_req *req)
{
	rf_http_add_header(req, "Content-Security-Policy", RF_LIT("default-src 'self'; frame-ancestors 'none'"));
	rf_http_add_header(req, "X-Content-Type-Options", RF_LIT("nosniff"));
	rf_http_add_header(req, "Referrer-Policy", RF_LIT("no-referrer"));
	rf_http_add_header(req, "Cache-Control", RF_LIT("no-store"));
}

static bool knows_token(const struct rf_web *w, const struct rf_http_req *req)
{
	struct rf_str given = rf_http_get_header(req, "authorization");

	if (!rf_str_starts(given, RF_LIT("Bearer ")))
		return false;
	given = rf_str_skip(given, 7);
	return given.n == w->token.n && w->token.n > 0 && CRYPTO_memcmp(given.p, w->token.p, given.n) == 0;
}

static void reply_state(struct rf_web *w, struct rf_http_req *req)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (!knows_token(w, req)) {
		rf_http_reply(req, 401, "application/json",
			      RF_LIT("{\"message\":\"open the address that ringfence up printed: it carries the access token\"}"));
		return;
	}
	rf_json_write(&b, w->state(w->ctx, req->arena));
	rf_http_reply(req, 200, "application/json", rf_buf_str(&b));
}

static void on_request(void *ctx, struct rf_http_req *req)
{
	add_safety_headers(req);
	if (!rf_str_is(req->method, "GET") && !rf_str_is(req->method, "HEAD")) {
		rf_http_reply(req, 405, "text/plain", RF_LIT("this page can only be looked at\n"));
		return;
	}
	if (rf_str_is(req->path, "/state")) {
		reply_state(ctx, req);
		return;
	}
	for (size_t i = 0; i < RF_COUNT(PAGES); i++)
		if (rf_str_is(req->path, PAGES[i].path)) {
			rf_http_reply(req, 200, PAGES[i].type,
				      rf_str_n((const char *)PAGES[i].data, *PAGES[i].size));
			return;
		}
	rf_http_reply(req, 404, "text/plain", RF_LIT("there is nothing here; the dashboard is at /\n"));
}

int rf_web_start(uv_loop_t *loop, const struct rf_web_opts *opts, struct rf_web **ret, struct rf_err *err)
{
	struct rf_web *w = rf_new(struct rf_web);
	struct rf_http_server_opts server = { .address = opts->address, .port = opts->port, .tls = opts->tls,
					      .body_max = 4096, .connections_max = 64, .handler = on_request, .ctx = w };

	w->token = (struct rf_buf)RF_BUF_INIT;
	rf_buf_add(&w->token, opts->token);
	w->state = opts->state;
	w->ctx = opts->ctx;
	if (rf_http_listen(loop, &server, &w->server, err) < 0) {
		rf_buf_done(&w->token);
		free(w);
		return rf_wrap(err, "dashboard");
	}
	*ret = w;
	return 0;
}

uint16_t rf_web_port(const struct rf_web *w)
{
	return rf_http_server_port(w->server);
}

static void on_closed(void *ctx)
{
	struct rf_web *w = ctx;

	rf_buf_done(&w->token);
	free(w);
}

void rf_web_stop(struct rf_web *w)
{
	if (w != NULL)
		rf_http_server_close(w->server, on_closed, w);
}
