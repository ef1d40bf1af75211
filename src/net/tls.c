#include "net/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "net/ossl.h"
#include "net/tls_session.h"

#define BUNDLE_MAX 1000 /* certificates in one PEM text */

struct rf_tls {
	SSL_CTX *ctx;
	bool server;
};

/* --- configuration ---------------------------------------------------------------------------- */

/* We speak one protocol; a client that offers others only gets no ALPN answer and may still try. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n,
		       const unsigned char *in, unsigned int in_n, void *arg)
{
	static const unsigned char name[] = "http/1.1";
	const unsigned char n = sizeof(name) - 1;

	for (unsigned int i = 0; i < in_n; i += 1u + in[i]) {
		if (in[i] == n && in_n - i > n && memcmp(in + i + 1, name, n) == 0) {
			*out = in + i + 1;
			*out_n = n;
			return SSL_TLSEXT_ERR_OK;
		}
	}
	return SSL_TLSEXT_ERR_NOACK;
}

static int new_context(bool server, SSL_CTX **ret, struct rf_err *err)
{
	rf_ossl(SSL_CTX) ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());

	if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "set up TLS");
	/* No resumption: a resumed session would carry an identity from an earlier handshake, and
	 * kept connections make handshakes rare. */
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	*ret = rf_take(ctx);
	return 0;
}

/* Calls add for every certificate of the text; at least one is needed. */
static int each_cert(struct rf_str pem, const char *what, int (*add)(SSL_CTX *, X509 *, int),
		     SSL_CTX *ctx, struct rf_err *err)
{
	rf_ossl(BIO) bio = rf_ossl_bio(pem);

	if (bio == NULL)
		return rf_fail(err, RF_INVALID, "%s: empty, or longer than 1 MiB", what);
	for (int i = 0;; i++) {
		rf_ossl(X509) cert = PEM_read_bio_X509(bio, NULL, rf_ossl_no_password, NULL);

		if (cert == NULL && i > 0 &&
		    ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
			break;
		if (cert == NULL)
			return rf_ossl_fail(err, RF_INVALID, "%s: not certificates in PEM", what);
		if (i == BUNDLE_MAX)
			return rf_fail(err, RF_TOO_LARGE, "%s: over %d certificates", what, i);
		if (add(ctx, cert, i) != 1)
			return rf_ossl_fail(err, RF_INVALID, "%s: certificate %d", what, i + 1);
	}
	ERR_clear_error();
	return 0;
}

static int add_chain(SSL_CTX *ctx, X509 *cert, int i)
{
	if (i == 0)
		return SSL_CTX_use_certificate(ctx, cert);
	return (int)SSL_CTX_add1_chain_cert(ctx, cert);
}

static int add_anchor(SSL_CTX *ctx, X509 *cert, int i)
{
	return X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert);
}

static int add_client_anchor(SSL_CTX *ctx, X509 *cert, int i)
{
	return add_anchor(ctx, cert, i) == 1 ? SSL_CTX_add_client_CA(ctx, cert) : 0;
}

static int use_identity(SSL_CTX *ctx, struct rf_str cert_pem, struct rf_str key_pem,
			struct rf_err *err)
{
	rf_ossl(EVP_PKEY) key = NULL;

	if (each_cert(cert_pem, "TLS certificate", add_chain, ctx, err) < 0)
		return -err->code;
	if (rf_ossl_read_key(key_pem, "TLS key", &key, err) < 0)
		return -err->code;
	if (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1)
		return rf_ossl_fail(err, RF_INVALID, "TLS key does not belong to the certificate");
	return 0;
}

static struct rf_tls *wrap(SSL_CTX *ctx, bool server)
{
	struct rf_tls *t = rf_new(struct rf_tls);

	t->ctx = ctx;
	t->server = server;
	return t;
}

int rf_tls_server(struct rf_str cert_pem, struct rf_str key_pem, struct rf_str client_ca_pem,
		  struct rf_tls **ret, struct rf_err *err)
{
	rf_ossl(SSL_CTX) ctx = NULL;
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	if (new_context(true, &ctx, err) < 0 || use_identity(ctx, cert_pem, key_pem, err) < 0)
		return rf_wrap(err, "TLS server");
	if (client_ca_pem.n > 0) {
		if (each_cert(client_ca_pem, "client CA", add_client_anchor, ctx, err) < 0)
			return rf_wrap(err, "TLS server");
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	}
	SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
	*ret = wrap(rf_take(ctx), true);
	return 0;
}

/* Any certificate of the bundle is an anchor, intermediates too, as Kubernetes' clients have it. */
static int trust(SSL_CTX *ctx, struct rf_str ca_pem, struct rf_err *err)
{
	X509_VERIFY_PARAM *param = SSL_CTX_get0_param(ctx);

	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
	if (ca_pem.n > 0)
		return each_cert(ca_pem, "CA", add_anchor, ctx, err);
	if (SSL_CTX_set_default_verify_paths(ctx) != 1)
		return rf_ossl_fail(err, RF_SYSTEM, "load the system's certificates");
	return 0;
}

int rf_tls_client(struct rf_str ca_pem, struct rf_str cert_pem, struct rf_str key_pem,
		  struct rf_tls **ret, struct rf_err *err)
{
	static const unsigned char alpn[] = "\x08http/1.1";
	rf_ossl(SSL_CTX) ctx = NULL;
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	if (new_context(false, &ctx, err) < 0 || trust(ctx, ca_pem, err) < 0)
		return rf_wrap(err, "TLS client");
	if (cert_pem.n > 0 && use_identity(ctx, cert_pem, key_pem, err) < 0)
		return rf_wrap(err, "TLS client");
	if (SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn) - 1) != 0)
		return rf_ossl_fail(err, RF_INTERNAL, "TLS client: offer http/1.1");
	*ret = wrap(rf_take(ctx), false);
	return 0;
}

void rf_tls_free(struct rf_tls *t)
{
	if (t == NULL)
		return;
	SSL_CTX_free(t->ctx);
	free(t);
}

/* --- sessions --------------------------------------------------------------------------------- */

static bool is_address(const char *host)
{
	unsigned char raw[16];

	return inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1;
}

static bool expect_host(SSL *ssl, const char *host)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
						       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (is_address(host))
		return X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
	return host[0] != '\0' && X509_VERIFY_PARAM_set1_host(param, host, 0) == 1 &&
	       SSL_set_tlsext_host_name(ssl, host) == 1;
}

static bool attach_buffers(SSL *ssl)
{
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

	if (in == NULL || out == NULL) {
		BIO_free(in);
		BIO_free(out);
		return false;
	}
	BIO_set_mem_eof_return(in, -1); /* empty means "more later", not the end */
	BIO_set_mem_eof_return(out, -1);
	SSL_set_bio(ssl, in, out);
	return true;
}

SSL *rf_tls_session(struct rf_tls *t, const char *host, struct rf_err *err)
{
	SSL *ssl = SSL_new(t->ctx);

	if (ssl == NULL || !attach_buffers(ssl) || (!t->server && !expect_host(ssl, host))) {
		SSL_free(ssl);
		rf_ossl_fail(err, RF_INTERNAL, "start TLS with %s", t->server ? "a client" : host);
		return NULL;
	}
	if (t->server)
		SSL_set_accept_state(ssl);
	else
		SSL_set_connect_state(ssl);
	return ssl;
}

/* --- who the peer is -------------------------------------------------------------------------- */

static bool printable(const unsigned char *p, int n)
{
	for (int i = 0; i < n; i++)
		if (p[i] < 0x20 || p[i] == 0x7f)
			return false;
	return n > 0 && n <= 256;
}

static int entry_text(const X509_NAME_ENTRY *entry, struct rf_arena *a, struct rf_str *ret,
		      struct rf_err *err)
{
	unsigned char *utf8 = NULL;
	int n = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(entry));
	bool good = n >= 0 && printable(utf8, n);

	if (good)
		*ret = rf_arena_str(a, rf_str_n((const char *)utf8, (size_t)n));
	OPENSSL_free(utf8);
	ERR_clear_error();
	if (good)
		return 0;
	return rf_fail(err, RF_UNAUTHENTICATED,
		       "client certificate: a name is empty, over 256 bytes or not text");
}

static int read_groups(const X509_NAME *subject, struct rf_arena *a, struct rf_http_peer *peer,
		       struct rf_err *err)
{
	int at = -1;

	while ((at = X509_NAME_get_index_by_NID(subject, NID_organizationName, at)) >= 0) {
		if (peer->n_groups == RF_COUNT(peer->groups))
			return rf_fail(err, RF_UNAUTHENTICATED,
				       "client certificate: more than %zu organisations",
				       RF_COUNT(peer->groups));
		if (entry_text(X509_NAME_get_entry(subject, at), a, &peer->groups[peer->n_groups],
			       err) < 0)
			return -err->code;
		peer->n_groups++;
	}
	return 0;
}

int rf_tls_peer(SSL *ssl, struct rf_arena *a, struct rf_http_peer *peer, struct rf_err *err)
{
	X509 *cert = SSL_get0_peer_certificate(ssl);
	const X509_NAME *subject;
	int at;

	if (cert == NULL)
		return 0;
	if (SSL_get_verify_result(ssl) != X509_V_OK)
		return rf_fail(err, RF_UNAUTHENTICATED, "client certificate: not verified");
	subject = X509_get_subject_name(cert);
	at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
	if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
		return rf_fail(err, RF_UNAUTHENTICATED,
			       "client certificate: wants exactly one common name");
	if (entry_text(X509_NAME_get_entry(subject, at), a, &peer->common_name, err) < 0)
		return -err->code;
	if (read_groups(subject, a, peer, err) < 0)
		return -err->code;
	peer->has_cert = true;
	return 0;
}

int rf_tls_explain(SSL *ssl, const char *what, struct rf_err *err)
{
	long verdict = SSL_get_verify_result(ssl);

	if (verdict != X509_V_OK) {
		ERR_clear_error();
		return rf_fail(err, RF_UNAVAILABLE, "%s: certificate refused: %s", what,
			       X509_verify_cert_error_string(verdict));
	}
	return rf_ossl_fail(err, RF_UNAVAILABLE, "%s: TLS failed", what);
}
