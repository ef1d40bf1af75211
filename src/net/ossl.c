#include "net/ossl.h"

#include <stdio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#define PEM_MAX (1024 * 1024)

int rf_ossl_fail(struct rf_err *err, enum rf_code code, const char *fmt, ...)
{
	unsigned long e = ERR_peek_last_error();
	const char *reason = e != 0 ? ERR_reason_error_string(e) : NULL;
	char text[512] = "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ERR_clear_error();
	if (reason == NULL)
		return rf_fail(err, code, "%s", text);
	return rf_fail(err, code, "%s: %s", text, reason);
}

int rf_ossl_no_password(char *buf, int size, int rwflag, void *user)
{
	return -1;
}

BIO *rf_ossl_bio(struct rf_str pem)
{
	return pem.n > 0 && pem.n <= PEM_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
}

int rf_ossl_read_cert(struct rf_str pem, const char *what, X509 **ret, struct rf_err *err)
{
	rf_ossl(BIO) bio = rf_ossl_bio(pem);
	X509 *cert = bio != NULL ? PEM_read_bio_X509(bio, NULL, rf_ossl_no_password, NULL) : NULL;

	if (cert == NULL)
		return rf_ossl_fail(err, RF_INVALID, "%s is not a certificate in PEM", what);
	*ret = cert;
	return 0;
}

int rf_ossl_read_key(struct rf_str pem, const char *what, EVP_PKEY **ret, struct rf_err *err)
{
	rf_ossl(BIO) bio = rf_ossl_bio(pem);
	EVP_PKEY *key = NULL;

	if (bio != NULL)
		key = PEM_read_bio_PrivateKey(bio, NULL, rf_ossl_no_password, NULL);
	if (key == NULL)
		return rf_ossl_fail(err, RF_INVALID, "%s is not an unencrypted private key in PEM",
				    what);
	*ret = key;
	return 0;
}
