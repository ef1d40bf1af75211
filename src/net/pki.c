/* The little certificate authority: keys, certificates and ES256 signatures. */
#include <arpa/inet.h>
#include <ctype.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "net/ossl.h"
#include "net/tls.h"

#define CA_DAYS 3650
#define DAYS_MAX 36500
#define NAME_MAX_BYTES 256
#define GROUPS_MAX 16
#define HOSTS_MAX 64
#define ES256_SIZE 64
#define ES256_HALF 32

/* --- PEM out ---------------------------------------------------------------------------------- */

static struct rf_str take_text(struct rf_arena *a, BIO *bio)
{
	char *p = NULL;
	long n = BIO_get_mem_data(bio, &p);

	return rf_arena_str(a, rf_str_n(p, n > 0 ? (size_t)n : 0));
}

static int cert_to_pem(struct rf_arena *a, X509 *cert, struct rf_str *ret, struct rf_err *err)
{
	rf_ossl(BIO) bio = BIO_new(BIO_s_mem());

	if (bio == NULL || PEM_write_bio_X509(bio, cert) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "write a certificate");
	*ret = take_text(a, bio);
	return 0;
}

static int key_to_pem(struct rf_arena *a, EVP_PKEY *key, struct rf_str *ret, struct rf_err *err)
{
	rf_ossl(BIO) bio = BIO_new(BIO_s_mem());

	if (bio == NULL || PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "write a key");
	*ret = take_text(a, bio);
	return 0;
}

static int public_to_pem(struct rf_arena *a, EVP_PKEY *key, struct rf_str *ret, struct rf_err *err)
{
	rf_ossl(BIO) bio = BIO_new(BIO_s_mem());

	if (bio == NULL || PEM_write_bio_PUBKEY(bio, key) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "write a public key");
	*ret = take_text(a, bio);
	return 0;
}

/* --- certificates ----------------------------------------------------------------------------- */

static int new_key(EVP_PKEY **ret, struct rf_err *err)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");

	if (key == NULL)
		return rf_ossl_fail(err, RF_INTERNAL, "make a P-256 key");
	*ret = key;
	return 0;
}

static bool is_text(struct rf_str s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t at = 0;

	while (at < s.n) {
		unsigned long c = 0;
		int n = UTF8_getc(p + at, (int)(s.n - at), &c);

		if (n <= 0 || c < 0x20 || c == 0x7f)
			return false;
		at += (size_t)n;
	}
	return true;
}

/* Written as UTF-8 strings of our own length limit: node names may pass the 64 characters that
 * X.520 once allowed, and no verifier in this field minds. */
static int add_name(X509_NAME *name, int nid, struct rf_str value, struct rf_err *err)
{
	if (value.n == 0 || value.n > NAME_MAX_BYTES || !is_text(value))
		return rf_fail(err, RF_INVALID,
			       "a certificate's %s must be 1 to %d bytes of text, not \"%.*s\"",
			       OBJ_nid2ln(nid), NAME_MAX_BYTES, (int)RF_MIN(value.n, 64u), value.p);
	if (X509_NAME_add_entry_by_NID(name, nid, V_ASN1_UTF8STRING, (const unsigned char *)value.p,
				       (int)value.n, -1, 0) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "name a certificate");
	return 0;
}

static int add_extension(X509 *cert, X509 *issuer, int nid, const char *value, struct rf_err *err)
{
	rf_ossl(X509_EXTENSION) ext = NULL;
	X509V3_CTX ctx = { 0 };

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	if (ext == NULL || X509_add_ext(cert, ext, -1) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "add %s to a certificate", OBJ_nid2sn(nid));
	return 0;
}

static bool set_serial(X509 *cert)
{
	rf_ossl(BIGNUM) serial = BN_new();

	/* 127 bits with the top one set: positive, and never zero. */
	return serial != NULL && BN_rand(serial, 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
	       BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)) != NULL;
}

/* notBefore lies an hour back, for machines whose clocks differ a little. */
static int new_cert(EVP_PKEY *key, int days, X509 **ret, struct rf_err *err)
{
	rf_ossl(X509) cert = X509_new();

	if (days < 1 || days > DAYS_MAX)
		return rf_fail(err, RF_INVALID, "a certificate may last 1 to %d days, not %d",
			       DAYS_MAX, days);
	if (cert == NULL || X509_set_version(cert, X509_VERSION_3) != 1 || !set_serial(cert) ||
	    X509_gmtime_adj(X509_getm_notBefore(cert), -3600) == NULL ||
	    X509_time_adj_ex(X509_getm_notAfter(cert), days, 0, NULL) == NULL ||
	    X509_set_pubkey(cert, key) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "make a certificate");
	*ret = rf_take(cert);
	return 0;
}

static int sign_cert(X509 *cert, EVP_PKEY *key, struct rf_err *err)
{
	if (X509_sign(cert, key, EVP_sha256()) == 0)
		return rf_ossl_fail(err, RF_INTERNAL, "sign a certificate");
	return 0;
}

static int make_ca(EVP_PKEY *key, struct rf_str common_name, X509 **ret, struct rf_err *err)
{
	rf_ossl(X509) cert = NULL;

	if (new_cert(key, CA_DAYS, &cert, err) < 0 ||
	    add_name(X509_get_subject_name(cert), NID_commonName, common_name, err) < 0)
		return -err->code;
	if (X509_set_issuer_name(cert, X509_get_subject_name(cert)) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "name a certificate's issuer");
	if (add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE", err) < 0 ||
	    add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign", err) < 0 ||
	    add_extension(cert, cert, NID_subject_key_identifier, "hash", err) < 0 ||
	    add_extension(cert, cert, NID_authority_key_identifier, "keyid:always", err) < 0 ||
	    sign_cert(cert, key, err) < 0)
		return -err->code;
	*ret = rf_take(cert);
	return 0;
}

int rf_pki_new_ca(struct rf_arena *a, struct rf_str common_name, struct rf_str *ret_cert_pem,
		  struct rf_str *ret_key_pem, struct rf_err *err)
{
	rf_ossl(EVP_PKEY) key = NULL;
	rf_ossl(X509) cert = NULL;
	struct rf_str cert_pem = RF_STR_EMPTY, key_pem = RF_STR_EMPTY;
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	if (new_key(&key, err) < 0 || make_ca(key, common_name, &cert, err) < 0 ||
	    cert_to_pem(a, cert, &cert_pem, err) < 0 || key_to_pem(a, key, &key_pem, err) < 0)
		return rf_wrap(err, "new certificate authority");
	*ret_cert_pem = cert_pem;
	*ret_key_pem = key_pem;
	return 0;
}

/* --- issuing ---------------------------------------------------------------------------------- */

static bool is_dns_name(struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (!(isascii(c) && (isalnum(c) || c == '-' || c == '_' || c == '.')))
			return false;
	}
	return s.n > 0 && s.n <= 253 && s.p[0] != '.' && s.p[0] != '-';
}

/* An IP address as its 4 or 16 bytes; 0 if the text is none. */
static int address_bytes(struct rf_str host, unsigned char ret[16])
{
	char text[64] = "";

	if (host.n >= sizeof(text))
		return 0;
	memcpy(text, host.p, host.n);
	if (inet_pton(AF_INET, text, ret) == 1)
		return 4;
	return inet_pton(AF_INET6, text, ret) == 1 ? 16 : 0;
}

static int add_host(GENERAL_NAMES *names, struct rf_str host, struct rf_err *err)
{
	rf_ossl(GENERAL_NAME) name = GENERAL_NAME_new();
	unsigned char raw[16];
	int n = address_bytes(host, raw);
	ASN1_STRING *value = n > 0 ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
	const void *bytes = n > 0 ? (const void *)raw : host.p;

	if (n == 0 && !is_dns_name(host)) {
		ASN1_STRING_free(value);
		return rf_fail(err, RF_INVALID, "\"%.*s\" is neither a DNS name nor an IP address",
			       (int)RF_MIN(host.n, 64u), host.p);
	}
	if (name == NULL || value == NULL ||
	    ASN1_STRING_set(value, bytes, n > 0 ? n : (int)host.n) != 1) {
		ASN1_STRING_free(value);
		return rf_ossl_fail(err, RF_INTERNAL, "add a host to a certificate");
	}
	GENERAL_NAME_set0_value(name, n > 0 ? GEN_IPADD : GEN_DNS, value);
	if (sk_GENERAL_NAME_push(names, name) <= 0)
		return rf_ossl_fail(err, RF_INTERNAL, "add a host to a certificate");
	name = NULL;
	return 0;
}

static int add_hosts(X509 *cert, const struct rf_pki_ask *ask, struct rf_err *err)
{
	rf_ossl(GENERAL_NAMES) names = GENERAL_NAMES_new();

	if (ask->n_hosts == 0)
		return 0;
	if (ask->n_hosts > HOSTS_MAX)
		return rf_fail(err, RF_INVALID, "at most %d hosts fit a certificate", HOSTS_MAX);
	for (size_t i = 0; i < ask->n_hosts; i++)
		if (add_host(names, ask->hosts[i], err) < 0)
			return -err->code;
	if (X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "add hosts to a certificate");
	return 0;
}

static int set_subject(X509 *cert, const struct rf_pki_ask *ask, struct rf_err *err)
{
	X509_NAME *subject = X509_get_subject_name(cert);

	if (ask->n_groups > GROUPS_MAX)
		return rf_fail(err, RF_INVALID, "at most %d groups fit a certificate", GROUPS_MAX);
	for (size_t i = 0; i < ask->n_groups; i++)
		if (add_name(subject, NID_organizationName, ask->groups[i], err) < 0)
			return -err->code;
	return add_name(subject, NID_commonName, ask->common_name, err);
}

static int make_leaf(X509 *ca, EVP_PKEY *ca_key, EVP_PKEY *key, const struct rf_pki_ask *ask,
		     X509 **ret, struct rf_err *err)
{
	rf_ossl(X509) cert = NULL;

	if (new_cert(key, ask->days, &cert, err) < 0 || set_subject(cert, ask, err) < 0)
		return -err->code;
	if (X509_set_issuer_name(cert, X509_get_subject_name(ca)) != 1)
		return rf_ossl_fail(err, RF_INTERNAL, "name a certificate's issuer");
	if (add_extension(cert, ca, NID_basic_constraints, "critical,CA:FALSE", err) < 0 ||
	    add_extension(cert, ca, NID_key_usage, "critical,digitalSignature", err) < 0 ||
	    add_extension(cert, ca, NID_ext_key_usage, ask->server ? "serverAuth" : "clientAuth",
			  err) < 0 ||
	    add_extension(cert, ca, NID_subject_key_identifier, "hash", err) < 0 ||
	    add_extension(cert, ca, NID_authority_key_identifier, "keyid:always", err) < 0 ||
	    add_hosts(cert, ask, err) < 0 || sign_cert(cert, ca_key, err) < 0)
		return -err->code;
	*ret = rf_take(cert);
	return 0;
}

static int read_ca(struct rf_str cert_pem, struct rf_str key_pem, X509 **ret_cert,
		   EVP_PKEY **ret_key, struct rf_err *err)
{
	rf_ossl(X509) cert = NULL;
	rf_ossl(EVP_PKEY) key = NULL;

	if (rf_ossl_read_cert(cert_pem, "the CA's certificate", &cert, err) < 0 ||
	    rf_ossl_read_key(key_pem, "the CA's key", &key, err) < 0)
		return -err->code;
	if (X509_check_private_key(cert, key) != 1)
		return rf_ossl_fail(err, RF_INVALID, "the CA's key is not its certificate's");
	if (X509_check_ca(cert) == 0)
		return rf_fail(err, RF_INVALID, "the issuer's certificate is not a CA's");
	*ret_cert = rf_take(cert);
	*ret_key = rf_take(key);
	return 0;
}

int rf_pki_issue(struct rf_arena *a, struct rf_str ca_cert_pem, struct rf_str ca_key_pem,
		 const struct rf_pki_ask *ask, struct rf_str *ret_cert_pem,
		 struct rf_str *ret_key_pem, struct rf_err *err)
{
	rf_ossl(X509) ca = NULL;
	rf_ossl(X509) cert = NULL;
	rf_ossl(EVP_PKEY) ca_key = NULL;
	rf_ossl(EVP_PKEY) key = NULL;
	struct rf_str cert_pem = RF_STR_EMPTY, key_pem = RF_STR_EMPTY;
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	if (read_ca(ca_cert_pem, ca_key_pem, &ca, &ca_key, err) < 0 || new_key(&key, err) < 0 ||
	    make_leaf(ca, ca_key, key, ask, &cert, err) < 0 ||
	    cert_to_pem(a, cert, &cert_pem, err) < 0 || key_to_pem(a, key, &key_pem, err) < 0)
		return rf_wrap(err, "issue a certificate for \"%.*s\"",
			       (int)RF_MIN(ask->common_name.n, 64u), ask->common_name.p);
	*ret_cert_pem = cert_pem;
	*ret_key_pem = key_pem;
	return 0;
}

/* --- keys and signatures ---------------------------------------------------------------------- */

int rf_pki_new_key(struct rf_arena *a, struct rf_str *ret_key_pem, struct rf_str *ret_public_pem,
		   struct rf_err *err)
{
	rf_ossl(EVP_PKEY) key = NULL;
	struct rf_str key_pem = RF_STR_EMPTY, public_pem = RF_STR_EMPTY;
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	if (new_key(&key, err) < 0 || key_to_pem(a, key, &key_pem, err) < 0 ||
	    public_to_pem(a, key, &public_pem, err) < 0)
		return rf_wrap(err, "new key");
	*ret_key_pem = key_pem;
	*ret_public_pem = public_pem;
	return 0;
}

static bool is_p256(EVP_PKEY *key)
{
	char group[32] = "";
	size_t n = 0;

	return EVP_PKEY_is_a(key, "EC") &&
	       EVP_PKEY_get_group_name(key, group, sizeof(group), &n) == 1 &&
	       strcmp(group, SN_X9_62_prime256v1) == 0;
}

/* OpenSSL signs in DER; JWS wants the two numbers side by side. */
static bool der_to_raw(const unsigned char *der, size_t n, unsigned char raw[ES256_SIZE])
{
	rf_ossl(ECDSA_SIG) sig = d2i_ECDSA_SIG(NULL, &der, (long)n);

	return sig != NULL && BN_bn2binpad(ECDSA_SIG_get0_r(sig), raw, ES256_HALF) == ES256_HALF &&
	       BN_bn2binpad(ECDSA_SIG_get0_s(sig), raw + ES256_HALF, ES256_HALF) == ES256_HALF;
}

int rf_pki_sign(struct rf_arena *a, struct rf_str key_pem, struct rf_str data,
		struct rf_str *ret_signature, struct rf_err *err)
{
	rf_ossl(EVP_PKEY) key = NULL;
	rf_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();
	unsigned char der[128], raw[ES256_SIZE];
	size_t n = sizeof(der);
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	if (rf_ossl_read_key(key_pem, "the signing key", &key, err) < 0)
		return rf_wrap(err, "sign");
	if (!is_p256(key))
		return rf_ossl_fail(err, RF_INVALID, "sign: the key is not of P-256");
	if (ctx == NULL || EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) != 1 ||
	    EVP_DigestSign(ctx, der, &n, (const unsigned char *)data.p, data.n) != 1 ||
	    !der_to_raw(der, n, raw))
		return rf_ossl_fail(err, RF_INTERNAL, "sign");
	*ret_signature = rf_arena_str(a, rf_str_n((const char *)raw, sizeof(raw)));
	return 0;
}

static unsigned char *raw_to_der(struct rf_str raw, int *ret_n)
{
	const unsigned char *p = (const unsigned char *)raw.p;
	rf_ossl(ECDSA_SIG) sig = ECDSA_SIG_new();
	rf_ossl(BIGNUM) r = BN_bin2bn(p, ES256_HALF, NULL);
	rf_ossl(BIGNUM) s = BN_bin2bn(p + ES256_HALF, ES256_HALF, NULL);
	unsigned char *der = NULL;

	if (sig == NULL || r == NULL || s == NULL || ECDSA_SIG_set0(sig, r, s) != 1)
		return NULL;
	r = s = NULL; /* sig's now */
	*ret_n = i2d_ECDSA_SIG(sig, &der);
	return *ret_n > 0 ? der : NULL;
}

static bool verify_der(EVP_PKEY *key, struct rf_str data, const unsigned char *der, int n)
{
	rf_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();

	return ctx != NULL && EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
	       EVP_DigestVerify(ctx, der, (size_t)n, (const unsigned char *)data.p, data.n) == 1;
}

bool rf_pki_verify(struct rf_str public_pem, struct rf_str data, struct rf_str signature)
{
	rf_ossl(BIO) bio = rf_ossl_bio(public_pem);
	rf_ossl(EVP_PKEY) key = NULL;
	unsigned char *der;
	bool good = false;
	int n = 0;

	if (bio == NULL || signature.n != ES256_SIZE)
		return false;
	key = PEM_read_bio_PUBKEY(bio, NULL, rf_ossl_no_password, NULL);
	if (key != NULL && is_p256(key) && (der = raw_to_der(signature, &n)) != NULL) {
		good = verify_der(key, data, der, n);
		OPENSSL_free(der);
	}
	ERR_clear_error();
	return good;
}
