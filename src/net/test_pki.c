#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <openssl/pem.h>

#include "net/ossl.h"
#include "net/tls.h"

struct authority {
	struct rf_arena arena;
	struct rf_str cert, key;
};

static int setup(void **state)
{
	static struct authority a;

	memset(&a, 0, sizeof(a));
	*state = &a;
	return rf_pki_new_ca(&a.arena, RF_LIT("ringfence"), &a.cert, &a.key, NULL);
}

static int teardown(void **state)
{
	rf_arena_done(&((struct authority *)*state)->arena);
	return 0;
}

static X509 *issue(struct authority *a, const struct rf_pki_ask *ask)
{
	struct rf_str cert = RF_STR_EMPTY, key = RF_STR_EMPTY;
	struct rf_err err = RF_ERR_INIT;
	X509 *x = NULL;

	if (rf_pki_issue(&a->arena, a->cert, a->key, ask, &cert, &key, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(rf_ossl_read_cert(cert, "issued", &x, NULL), 0);
	return x;
}

static int verify(struct authority *a, X509 *cert, int purpose, const char *host)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	rf_ossl(X509) ca = NULL;
	int rc;

	assert_int_equal(rf_ossl_read_cert(a->cert, "ca", &ca, NULL), 0);
	X509_STORE_add_cert(store, ca);
	X509_STORE_CTX_init(ctx, store, cert, NULL);
	X509_STORE_CTX_set_purpose(ctx, purpose);
	X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_X509_STRICT);
	if (host != NULL &&
	    X509_VERIFY_PARAM_set1_ip_asc(X509_STORE_CTX_get0_param(ctx), host) != 1)
		X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(ctx), host, 0);
	rc = X509_verify_cert(ctx) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return rc;
}

static void a_server_certificate_holds_for_its_hosts_only(void **state)
{
	const struct rf_str hosts[] = { RF_LIT("localhost"), RF_LIT("127.0.0.1"),
					RF_LIT("fd00::1") };
	struct rf_pki_ask ask = { .common_name = RF_LIT("apiserver"),
				  .hosts = hosts,
				  .n_hosts = 3,
				  .server = true,
				  .days = 365 };
	rf_ossl(X509) cert = issue(*state, &ask);

	assert_int_equal(verify(*state, cert, X509_PURPOSE_SSL_SERVER, "localhost"), X509_V_OK);
	assert_int_equal(verify(*state, cert, X509_PURPOSE_SSL_SERVER, "127.0.0.1"), X509_V_OK);
	assert_int_equal(verify(*state, cert, X509_PURPOSE_SSL_SERVER, "fd00::1"), X509_V_OK);
	assert_int_equal(verify(*state, cert, X509_PURPOSE_SSL_SERVER, "127.0.0.2"),
			 X509_V_ERR_IP_ADDRESS_MISMATCH);
	assert_int_equal(verify(*state, cert, X509_PURPOSE_SSL_SERVER, "apiserver"),
			 X509_V_ERR_HOSTNAME_MISMATCH);
	assert_int_equal(verify(*state, cert, X509_PURPOSE_SSL_CLIENT, NULL),
			 X509_V_ERR_INVALID_PURPOSE);
}

static void a_client_certificate_names_user_and_groups(void **state)
{
	const struct rf_str groups[] = { RF_LIT("system:nodes"), RF_LIT("b") };
	struct rf_pki_ask ask = {
		.common_name = RF_LIT("system:node:one"), .groups = groups, .n_groups = 2, .days = 1
	};
	rf_ossl(X509) cert = issue(*state, &ask);
	char text[256];

	assert_int_equal(verify(*state, cert, X509_PURPOSE_SSL_CLIENT, NULL), X509_V_OK);
	assert_int_equal(verify(*state, cert, X509_PURPOSE_SSL_SERVER, NULL),
			 X509_V_ERR_INVALID_PURPOSE);
	X509_NAME_oneline(X509_get_subject_name(cert), text, sizeof(text));
	assert_string_equal(text, "/O=system:nodes/O=b/CN=system:node:one");
}

static void an_issued_certificate_cannot_issue(void **state)
{
	struct authority *a = *state;
	struct rf_pki_ask ask = { .common_name = RF_LIT("leaf"), .days = 1 };
	struct rf_str cert = RF_STR_EMPTY, key = RF_STR_EMPTY, c2 = RF_STR_EMPTY, k2 = RF_STR_EMPTY;

	assert_int_equal(rf_pki_issue(&a->arena, a->cert, a->key, &ask, &cert, &key, NULL), 0);
	assert_int_equal(rf_pki_issue(&a->arena, cert, key, &ask, &c2, &k2, NULL), -RF_INVALID);
	assert_int_equal(rf_pki_issue(&a->arena, a->cert, key, &ask, &c2, &k2, NULL), -RF_INVALID);
}

static void serials_differ_and_validity_starts_in_the_past(void **state)
{
	struct rf_pki_ask ask = { .common_name = RF_LIT("x"), .days = 2 };
	rf_ossl(X509) one = issue(*state, &ask);
	rf_ossl(X509) two = issue(*state, &ask);

	assert_int_not_equal(
		ASN1_INTEGER_cmp(X509_get0_serialNumber(one), X509_get0_serialNumber(two)), 0);
	assert_true(X509_cmp_current_time(X509_get0_notBefore(one)) < 0);
	assert_true(X509_cmp_current_time(X509_get0_notAfter(one)) > 0);
	assert_int_equal(X509_get_version(one), X509_VERSION_3);
}

static void expect_invalid(struct authority *a, struct rf_pki_ask ask)
{
	struct rf_str cert = RF_STR_EMPTY, key = RF_STR_EMPTY;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_pki_issue(&a->arena, a->cert, a->key, &ask, &cert, &key, &err),
			 -RF_INVALID);
	assert_int_equal(cert.n, 0);
}

static void names_and_hosts_that_make_no_sense_are_refused(void **state)
{
	const struct rf_str groups[17] = { RF_LIT("a\nb") };
	const struct rf_str good = RF_LIT("a");
	const struct rf_str bad[] = { RF_LIT(""), RF_LIT("a b"), RF_LIT("DNS:evil,IP:1.2.3.4"),
				      RF_LIT("a\0b"), RF_LIT("*") };

	expect_invalid(*state, (struct rf_pki_ask){ .common_name = RF_STR_EMPTY, .days = 1 });
	expect_invalid(*state, (struct rf_pki_ask){ .common_name = RF_LIT("a\0b"), .days = 1 });
	expect_invalid(*state, (struct rf_pki_ask){ .common_name = RF_LIT("\xff"), .days = 1 });
	expect_invalid(*state, (struct rf_pki_ask){ .common_name = good, .days = 0 });
	expect_invalid(*state,
		       (struct rf_pki_ask){
			       .common_name = good, .days = 1, .groups = groups, .n_groups = 1 });
	expect_invalid(*state,
		       (struct rf_pki_ask){
			       .common_name = good, .days = 1, .groups = groups, .n_groups = 17 });
	for (size_t i = 0; i < RF_COUNT(bad); i++)
		expect_invalid(*state, (struct rf_pki_ask){ .common_name = good,
							    .days = 1,
							    .server = true,
							    .hosts = &bad[i],
							    .n_hosts = 1 });
}

static void a_long_node_name_fits(void **state)
{
	char name[200];
	struct rf_pki_ask ask = { .common_name = rf_str_n(name, sizeof(name)), .days = 1 };

	memset(name, 'n', sizeof(name));
	X509_free(issue(*state, &ask));
}

static void a_signature_holds_for_its_data_and_key_only(void **state)
{
	struct authority *a = *state;
	struct rf_str key = RF_STR_EMPTY, public = RF_STR_EMPTY, sig = RF_STR_EMPTY;
	struct rf_str key2 = RF_STR_EMPTY, public2 = RF_STR_EMPTY;
	const struct rf_str data = RF_LIT("header.payload");

	assert_int_equal(rf_pki_new_key(&a->arena, &key, &public, NULL), 0);
	assert_int_equal(rf_pki_new_key(&a->arena, &key2, &public2, NULL), 0);
	/* Often enough to meet numbers with leading zeros. */
	for (int i = 0; i < 300; i++) {
		assert_int_equal(rf_pki_sign(&a->arena, key, data, &sig, NULL), 0);
		assert_int_equal(sig.n, 64);
		assert_true(rf_pki_verify(public, data, sig));
	}
	assert_false(rf_pki_verify(public2, data, sig));
	assert_false(rf_pki_verify(public, RF_LIT("header.Payload"), sig));
	assert_false(rf_pki_verify(public, data, rf_str_n(sig.p, 63)));
	assert_false(rf_pki_verify(public, data, RF_STR_EMPTY));
	assert_false(rf_pki_verify(RF_LIT("not a key"), data, sig));
	assert_false(rf_pki_verify(RF_STR_EMPTY, data, sig));
}

static void every_flipped_bit_of_a_signature_is_noticed(void **state)
{
	struct authority *a = *state;
	struct rf_str key = RF_STR_EMPTY, public = RF_STR_EMPTY, sig = RF_STR_EMPTY;
	char bad[64], zeros[64] = { 0 };

	assert_int_equal(rf_pki_new_key(&a->arena, &key, &public, NULL), 0);
	assert_int_equal(rf_pki_sign(&a->arena, key, RF_LIT("x"), &sig, NULL), 0);
	for (int bit = 0; bit < 512; bit++) {
		memcpy(bad, sig.p, 64);
		bad[bit / 8] = (char)(bad[bit / 8] ^ (1 << (bit % 8)));
		assert_false(rf_pki_verify(public, RF_LIT("x"), rf_str_n(bad, 64)));
	}
	assert_false(rf_pki_verify(public, RF_LIT("x"), rf_str_n(zeros, 64)));
}

static void only_the_right_kind_of_key_signs(void **state)
{
	struct authority *a = *state;
	rf_ossl(EVP_PKEY) other = EVP_EC_gen("P-384");
	rf_ossl(BIO) bio = BIO_new(BIO_s_mem());
	struct rf_str sig = RF_STR_EMPTY;
	struct rf_err err = RF_ERR_INIT;
	char *p = NULL;
	long n;

	PEM_write_bio_PKCS8PrivateKey(bio, other, NULL, NULL, 0, NULL, NULL);
	n = BIO_get_mem_data(bio, &p);
	assert_int_equal(rf_pki_sign(&a->arena, rf_str_n(p, (size_t)n), RF_LIT("x"), &sig, &err),
			 -RF_INVALID);
	assert_int_equal(rf_pki_sign(&a->arena, RF_LIT("no"), RF_LIT("x"), &sig, &err),
			 -RF_INVALID);
}

static void tls_refuses_a_key_that_is_not_the_certificates(void **state)
{
	struct authority *a = *state;
	struct rf_str key = RF_STR_EMPTY, public = RF_STR_EMPTY;
	struct rf_tls *t = NULL;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_pki_new_key(&a->arena, &key, &public, NULL), 0);
	assert_int_equal(rf_tls_server(a->cert, key, a->cert, &t, &err), -RF_INVALID);
	assert_int_equal(rf_tls_server(RF_STR_EMPTY, key, a->cert, &t, &err), -RF_INVALID);
	assert_int_equal(rf_tls_client(RF_LIT("rubbish"), RF_STR_EMPTY, RF_STR_EMPTY, &t, &err),
			 -RF_INVALID);
	assert_null(t);
	assert_null(strstr(err.msg, "PRIVATE"));
	rf_tls_free(NULL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_server_certificate_holds_for_its_hosts_only),
		T(a_client_certificate_names_user_and_groups),
		T(an_issued_certificate_cannot_issue),
		T(serials_differ_and_validity_starts_in_the_past),
		T(names_and_hosts_that_make_no_sense_are_refused),
		T(a_long_node_name_fits),
		T(a_signature_holds_for_its_data_and_key_only),
		T(every_flipped_bit_of_a_signature_is_noticed),
		T(only_the_right_kind_of_key_signs),
		T(tls_refuses_a_key_that_is_not_the_certificates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
