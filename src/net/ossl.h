/* OpenSSL's objects as rf_ossl locals that free themselves, and its errors as ringfence's. */
#ifndef RF_NET_OSSL_H
#define RF_NET_OSSL_H

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/base.h"

#define RF_OSSL_TYPE(type, free_fn)                                                                \
	static inline RF_UNUSED void rf_ossl_free_##type(type **p)                                 \
	{                                                                                          \
		(void)free_fn(*p);                                                                 \
	}                                                                                          \
	struct rf_err

RF_OSSL_TYPE(BIO, BIO_free);
RF_OSSL_TYPE(BIGNUM, BN_free);
RF_OSSL_TYPE(X509, X509_free);
RF_OSSL_TYPE(X509_EXTENSION, X509_EXTENSION_free);
RF_OSSL_TYPE(EVP_PKEY, EVP_PKEY_free);
RF_OSSL_TYPE(EVP_MD_CTX, EVP_MD_CTX_free);
RF_OSSL_TYPE(ECDSA_SIG, ECDSA_SIG_free);
RF_OSSL_TYPE(GENERAL_NAME, GENERAL_NAME_free);
RF_OSSL_TYPE(GENERAL_NAMES, GENERAL_NAMES_free);
RF_OSSL_TYPE(SSL_CTX, SSL_CTX_free);

/* rf_ossl(X509) cert = NULL; */
#define rf_ossl(type) __attribute__((cleanup(rf_ossl_free_##type))) type *

/* As rf_fail, with what OpenSSL last complained about after the text; empties its queue. */
int rf_ossl_fail(struct rf_err *err, enum rf_code code, const char *fmt, ...) RF_PRINTF(3, 4);

/* Never ask for a passphrase on a terminal: an encrypted key is refused. */
int rf_ossl_no_password(char *buf, int size, int rwflag, void *user);

/* One certificate or key out of PEM text. what names it in errors. */
int rf_ossl_read_cert(struct rf_str pem, const char *what, X509 **ret, struct rf_err *err);
int rf_ossl_read_key(struct rf_str pem, const char *what, EVP_PKEY **ret, struct rf_err *err);
BIO *rf_ossl_bio(struct rf_str pem); /* reads from pem, which must outlive it; NULL past 1 MiB */

#endif
