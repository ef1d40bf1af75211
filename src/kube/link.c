/* What the waiting client and the informer share: TLS, the http client, the token, and how an
 * answer that says no becomes an error. */
#include "kube/private.h"

#include <openssl/crypto.h>

#include "base/fs.h"

#define TOKEN_MAX ((size_t)64 << 10)
#define TOKEN_AGE_NS ((int64_t)60 * 1000 * 1000 * 1000)

static bool is_loopback(struct rf_str host)
{
	return rf_str_is(host, "127.0.0.1") || rf_str_is(host, "::1") ||
	       rf_str_is(host, "localhost");
}

static void set_token(struct rf_kube_link *l, struct rf_str token)
{
	rf_buf_clear(&l->authorization);
	if (token.n > 0)
		rf_buf_printf(&l->authorization, "Bearer %.*s", RF_STR(token));
}

static int open_tls(struct rf_kube_link *l, const struct rf_kubeconfig *c, struct rf_err *err)
{
	if (c->ca_pem.n > 0)
		return rf_tls_client(c->ca_pem, c->cert_pem, c->key_pem, &l->tls, err);
	if (is_loopback(c->host))
		return 0;
	return rf_fail(
		err, RF_INVALID,
		"API server %.*s: no certificate authority given, and plain HTTP is for loopback "
		"only",
		RF_STR(c->host));
}

int rf_kube_link_open(struct rf_kube_link *l, uv_loop_t *loop, const struct rf_kubeconfig *c,
		      struct rf_err *err)
{
	int rc;

	*l = (struct rf_kube_link){ .authorization = RF_BUF_INIT };
	rc = open_tls(l, c, err);
	if (rc < 0)
		return rc;
	set_token(l, c->token);
	if (c->token_file.n > 0)
		l->token_file = strndup(c->token_file.p, c->token_file.n);
	l->token_read_ns = rf_mono_ns(rf_clock_system());
	l->http = rf_http_client_new(
		loop,
		&(struct rf_http_client_opts){ .host = c->host, .port = c->port, .tls = l->tls });
	return 0;
}

void rf_kube_link_done(struct rf_kube_link *l)
{
	if (l->http != NULL)
		rf_http_client_free(l->http);
	rf_tls_free(l->tls);
	OPENSSL_cleanse(l->authorization.p, l->authorization.n);
	rf_buf_done(&l->authorization);
	free(l->token_file);
	*l = (struct rf_kube_link){ .authorization = RF_BUF_INIT };
}

/* A pod's token is replaced in its file before it expires. A file that cannot be read just now
 * leaves the token as it was: the server says when it is too old. */
static void refresh_token(struct rf_kube_link *l)
{
	rf_auto(arena) scratch = RF_ARENA_INIT;
	int64_t now = rf_mono_ns(rf_clock_system());
	struct rf_str token;

	if (l->token_file == NULL || now - l->token_read_ns < TOKEN_AGE_NS)
		return;
	l->token_read_ns = now;
	if (rf_fs_read(&scratch, l->token_file, TOKEN_MAX, &token, NULL) == 0)
		set_token(l, rf_str_trim(token));
}

struct rf_http_call *rf_kube_link_call(struct rf_kube_link *l, struct rf_http_call_opts opts)
{
	struct rf_http_header header;

	refresh_token(l);
	header = (struct rf_http_header){ RF_LIT("Authorization"), rf_buf_str(&l->authorization) };
	if (l->authorization.n > 0) {
		opts.headers = &header;
		opts.n_headers = 1;
	}
	return rf_http_call(l->http, &opts);
}

int rf_kube_fail_status(int http_status, const struct rf_json *status, struct rf_err *err)
{
	struct rf_str message = rf_json_str_at(status, "message");
	struct rf_str reason = rf_json_str_at(status, "reason");
	char name[64] = "";
	enum rf_code code;

	if (reason.n < sizeof(name))
		memcpy(name, reason.p, reason.n);
	code = rf_code_from_http(http_status, name);
	if (message.n == 0)
		message = reason;
	return rf_fail(err, code == RF_OK ? RF_INTERNAL : code, "%.*s", RF_STR(message));
}

int rf_kube_fail_response(const struct rf_http_response *r, const char *doing, struct rf_err *err)
{
	rf_auto(arena) scratch = RF_ARENA_CAPPED((size_t)4 << 20);
	struct rf_json *status;
	struct rf_str text = rf_str_trim(r->body);

	if (rf_json_parse(&scratch, r->body, &status, NULL) == 0 &&
	    rf_str_is(rf_json_str_at(status, "kind"), "Status") &&
	    rf_json_str_at(status, "message").n > 0)
		return rf_kube_fail_status(r->status, status, err);
	return rf_fail(err, rf_code_from_http(r->status, ""), "%s: the server answered %d%s%.*s",
		       doing, r->status, text.n > 0 ? ": " : "", (int)RF_MIN(text.n, (size_t)256),
		       text.p);
}
