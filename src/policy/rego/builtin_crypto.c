/* Digests and the rows of crypto.* and io.jwt.*. */
#include "policy/rego/builtin_keys.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

static enum rf_rb_result hex_value(struct rf_rb_env *e, const unsigned char *p, unsigned int n,
				   struct rf_rv *ret)
{
	struct rb_text out = { .e = e };

	rb_hex_add(&out, p, n);
	return rb_text_value(&out, ret);
}

static enum rf_rb_result digest(struct rf_rb_env *e, const struct rf_rv *arg, const EVP_MD *md,
				struct rf_rv *ret, struct rf_err *err)
{
	unsigned char out[EVP_MAX_MD_SIZE];
	unsigned int n;

	if (!rf_rb_spend(e, 10 + arg[0].n / 16))
		return RF_RB_FULL;
	if (EVP_Digest(arg[0].s, arg[0].n, out, &n, md, NULL) != 1)
		return rb_error(err, "this machine's OpenSSL does not offer the digest");
	return hex_value(e, out, n, ret);
}

static enum rf_rb_result hmac(struct rf_rb_env *e, const struct rf_rv *arg, const EVP_MD *md,
			      struct rf_rv *ret, struct rf_err *err)
{
	unsigned char out[EVP_MAX_MD_SIZE];
	unsigned int n;

	if (!rf_rb_spend(e, 10 + arg[0].n / 16 + arg[1].n / 16))
		return RF_RB_FULL;
	if (HMAC(md, arg[1].n == 0 ? "" : arg[1].s, (int)arg[1].n, (const unsigned char *)arg[0].s,
		 arg[0].n, out, &n) == NULL)
		return rb_error(err, "this machine's OpenSSL does not offer the digest");
	return hex_value(e, out, n, ret);
}

#define DIGEST(name, how, md)                                                                      \
	static enum rf_rb_result name(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret, \
				      struct rf_err *err)                                          \
	{                                                                                          \
		return how(e, arg, md(), ret, err);                                                \
	}
DIGEST(crypto_md5, digest, EVP_md5)
DIGEST(crypto_sha1, digest, EVP_sha1)
DIGEST(crypto_sha256, digest, EVP_sha256)
DIGEST(hmac_md5, hmac, EVP_md5)
DIGEST(hmac_sha1, hmac, EVP_sha1)
DIGEST(hmac_sha256, hmac, EVP_sha256)
DIGEST(hmac_sha512, hmac, EVP_sha512)

static enum rf_rb_result hmac_equal(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				    struct rf_err *err)
{
	(void)e;
	(void)err;
	*ret = rf_rv_bool(arg[0].n == arg[1].n &&
			  (arg[0].n == 0 || CRYPTO_memcmp(arg[0].s, arg[1].s, arg[0].n) == 0));
	return RF_RB_OK;
}

#define STR2 { RF_RB_STR, RF_RB_STR }

static const struct rf_rb rows[] = {
	{ "crypto.hmac.equal", 2, .arg = STR2, .fn = hmac_equal },
	{ "crypto.hmac.md5", 2, .arg = STR2, .fn = hmac_md5 },
	{ "crypto.hmac.sha1", 2, .arg = STR2, .fn = hmac_sha1 },
	{ "crypto.hmac.sha256", 2, .arg = STR2, .fn = hmac_sha256 },
	{ "crypto.hmac.sha512", 2, .arg = STR2, .fn = hmac_sha512 },
	{ "crypto.md5", 1, .arg = { RF_RB_STR }, .fn = crypto_md5 },
	{ "crypto.parse_private_keys", 1, .arg = { RF_RB_STR }, .fn = rb_parse_private_keys },
	{ "crypto.sha1", 1, .arg = { RF_RB_STR }, .fn = crypto_sha1 },
	{ "crypto.sha256", 1, .arg = { RF_RB_STR }, .fn = crypto_sha256 },
	{ "crypto.x509.parse_and_verify_certificates", 1, .impure = true, .arg = { RF_RB_STR },
	  .fn = rb_x509_parse_and_verify },
	{ "crypto.x509.parse_and_verify_certificates_with_options", 2, .impure = true,
	  .arg = { RF_RB_STR, RF_RB_OBJ }, .fn = rb_x509_parse_and_verify_with_options },
	{ "crypto.x509.parse_certificate_request", 1, .arg = { RF_RB_STR },
	  .fn = rb_x509_parse_certificate_request },
	{ "crypto.x509.parse_certificates", 1, .arg = { RF_RB_STR }, .fn = rb_x509_parse_certificates },
	{ "crypto.x509.parse_keypair", 2, .arg = STR2, .fn = rb_x509_parse_keypair },
	{ "crypto.x509.parse_rsa_private_key", 1, .arg = { RF_RB_STR }, .fn = rb_parse_rsa_private_key },
	{ "io.jwt.decode", 1, .arg = { RF_RB_STR }, .fn = rb_jwt_decode },
	{ "io.jwt.decode_verify", 2, .impure = true, .arg = { RF_RB_STR, RF_RB_OBJ },
	  .fn = rb_jwt_decode_verify },
	{ "io.jwt.encode_sign", 3, .impure = true, .arg = { RF_RB_OBJ, RF_RB_OBJ, RF_RB_OBJ },
	  .fn = rb_jwt_encode_sign },
	{ "io.jwt.encode_sign_raw", 3, .impure = true, .arg = { RF_RB_STR, RF_RB_STR, RF_RB_STR },
	  .fn = rb_jwt_encode_sign_raw },
	{ "io.jwt.verify_eddsa", 2, .arg = STR2, .fn = rb_jwt_verify_eddsa },
	{ "io.jwt.verify_es256", 2, .arg = STR2, .fn = rb_jwt_verify_es256 },
	{ "io.jwt.verify_es384", 2, .arg = STR2, .fn = rb_jwt_verify_es384 },
	{ "io.jwt.verify_es512", 2, .arg = STR2, .fn = rb_jwt_verify_es512 },
	{ "io.jwt.verify_hs256", 2, .arg = STR2, .fn = rb_jwt_verify_hs256 },
	{ "io.jwt.verify_hs384", 2, .arg = STR2, .fn = rb_jwt_verify_hs384 },
	{ "io.jwt.verify_hs512", 2, .arg = STR2, .fn = rb_jwt_verify_hs512 },
	{ "io.jwt.verify_ps256", 2, .arg = STR2, .fn = rb_jwt_verify_ps256 },
	{ "io.jwt.verify_ps384", 2, .arg = STR2, .fn = rb_jwt_verify_ps384 },
	{ "io.jwt.verify_ps512", 2, .arg = STR2, .fn = rb_jwt_verify_ps512 },
	{ "io.jwt.verify_rs256", 2, .arg = STR2, .fn = rb_jwt_verify_rs256 },
	{ "io.jwt.verify_rs384", 2, .arg = STR2, .fn = rb_jwt_verify_rs384 },
	{ "io.jwt.verify_rs512", 2, .arg = STR2, .fn = rb_jwt_verify_rs512 },
};

const struct rf_rb_rows rf_rb_crypto = { rows, RF_COUNT(rows) };
