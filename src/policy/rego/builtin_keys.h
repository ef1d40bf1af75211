/* Keys for io.jwt.* and crypto.*: PEM blocks and JSON Web Keys as OpenSSL's. Private to this room. */
#ifndef RF_POLICY_REGO_BUILTIN_KEYS_H
#define RF_POLICY_REGO_BUILTIN_KEYS_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "policy/rego/builtin_util.h"

#define RB_OSSL_TYPE(type, free_fn)                                                                \
	static inline RF_UNUSED void rb_free_##type(type **p)                                      \
	{                                                                                          \
		(void)free_fn(*p);                                                                 \
	}                                                                                          \
	struct rf_err
/* rb_ossl(X509) cert = NULL; is freed at the end of its scope */
#define rb_ossl(type) __attribute__((cleanup(rb_free_##type))) type *

RB_OSSL_TYPE(BIGNUM, BN_clear_free);
RB_OSSL_TYPE(EVP_PKEY, EVP_PKEY_free);
RB_OSSL_TYPE(EVP_PKEY_CTX, EVP_PKEY_CTX_free);
RB_OSSL_TYPE(EVP_MD_CTX, EVP_MD_CTX_free);
RB_OSSL_TYPE(X509, X509_free);
RB_OSSL_TYPE(X509_REQ, X509_REQ_free);

/* What one operation with a key costs in steps. */
#define RB_KEY_STEPS 5000
#define RB_KEYS_MAX 100

struct rb_key {
	EVP_PKEY *pkey; /* NULL: secret is the key */
	struct rf_str secret, alg, kid;
	bool is_private;
};

struct rf_rb_keys {
	struct rb_key at[RB_KEYS_MAX];
	size_t n;
};
void rf_rb_keys_done(struct rf_rb_keys *k);

/* One key or {"keys": [...]}. Zeroed *keys; what is in it on failure is the caller's to free too. */
enum rf_rb_result rb_jwks_parse(struct rf_rb_env *e, struct rf_rv v, struct rf_rb_keys *keys,
				struct rf_err *err);
/* A PEM certificate, a PEM public key, or JSON Web Keys. */
enum rf_rb_result rb_keys_of(struct rf_rb_env *e, struct rf_str text, struct rf_rb_keys *keys,
			     struct rf_err *err);
/* The key as a JSON Web Key, private parts included. */
enum rf_rb_result rb_jwk_of(struct rf_rb_env *e, EVP_PKEY *key, struct rf_rv *ret, struct rf_err *err);

/* The next PEM block of *text, which is moved behind it. False: there is none (left). */
struct rb_pem {
	struct rf_str type, der;
};
enum rf_rb_result rb_pem_next(struct rf_rb_env *e, struct rf_str *text, struct rb_pem *ret, bool *found);

/* A number of the key by OpenSSL's name for it, big-endian; false: it has none. */
bool rb_key_number(EVP_PKEY *key, const char *name, BIGNUM **ret);

rf_rb_fn rb_x509_parse_certificates, rb_x509_parse_and_verify, rb_x509_parse_and_verify_with_options,
	rb_x509_parse_certificate_request, rb_x509_parse_keypair, rb_parse_rsa_private_key,
	rb_parse_private_keys;
rf_rb_fn rb_jwt_decode, rb_jwt_decode_verify, rb_jwt_encode_sign, rb_jwt_encode_sign_raw;
rf_rb_fn rb_jwt_verify_hs256, rb_jwt_verify_hs384, rb_jwt_verify_hs512, rb_jwt_verify_rs256,
	rb_jwt_verify_rs384, rb_jwt_verify_rs512, rb_jwt_verify_ps256, rb_jwt_verify_ps384,
	rb_jwt_verify_ps512, rb_jwt_verify_es256, rb_jwt_verify_es384, rb_jwt_verify_es512,
	rb_jwt_verify_eddsa;

#endif
