/* The webhook's CA and serving certificate: made once, kept in a Secret that all replicas share, renewed
 * when two thirds of their life are over. The API server believes what its webhook configurations say. */
#include "control/private.h"

#include <time.h>

#include "codec/base64.h"
#include "net/ossl.h"
#include "net/tls.h"

#define SERVING_DAYS 365
#define NAMES 4
#define TRIES 5 /* each lost to another replica, which has then written */

static const char *const parts[] = { "ca.crt", "ca.key", "tls.crt", "tls.key" };

static struct rf_str *part(struct rf_webhook_keys *k, size_t i)
{
	struct rf_str *const at[] = { &k->ca_cert, &k->ca_key, &k->cert, &k->key };

	return at[i];
}

/* --- judging ---------------------------------------------------------------------------------- */

/* The names by which the API server, or a person in the cluster, calls the Service. */
static void names_of(struct rf_arena *a, const char *service, struct rf_str names[NAMES])
{
	static const char *const ends[NAMES] = { "", "." RF_SYSTEM_NAMESPACE,
						 "." RF_SYSTEM_NAMESPACE ".svc",
						 "." RF_SYSTEM_NAMESPACE ".svc.cluster.local" };

	for (size_t i = 0; i < NAMES; i++)
		names[i] = rf_arena_printf(a, "%s%s", service, ends[i]);
}

static int check_life(const X509 *cert, const char *what, int64_t now_ms, struct rf_err *err)
{
	const ASN1_TIME *from = X509_get0_notBefore(cert), *to = X509_get0_notAfter(cert);
	int64_t begin = 0, life = 0, now = now_ms / 1000;
	int days = 0, seconds = 0;
	struct tm tm = { 0 };

	if (ASN1_TIME_to_tm(from, &tm) != 1 || ASN1_TIME_diff(&days, &seconds, from, to) != 1)
		return rf_ossl_fail(err, RF_INVALID, "%s: its dates cannot be read", what);
	begin = timegm(&tm);
	life = (int64_t)days * 86400 + seconds;
	if (now < begin)
		return rf_fail(err, RF_INVALID, "%s: is not valid yet", what);
	if (now - begin >= life / 3 * 2)
		return rf_fail(err, RF_INVALID, "%s: two thirds of its life are over", what);
	return 0;
}

static int check_pair(struct rf_str cert_pem, struct rf_str key_pem, bool of_ca, int64_t now_ms,
		      X509 **ret, struct rf_err *err)
{
	const char *what = of_ca ? "ca.crt" : "tls.crt";
	rf_ossl(EVP_PKEY) key = NULL;
	rf_ossl(X509) cert = NULL;

	if (rf_ossl_read_cert(cert_pem, what, &cert, err) < 0 ||
	    rf_ossl_read_key(key_pem, of_ca ? "ca.key" : "tls.key", &key, err) < 0)
		return -err->code;
	if (X509_check_private_key(cert, key) != 1)
		return rf_ossl_fail(err, RF_INVALID, "%s: the key is another's", what);
	if (check_life(cert, what, now_ms, err) < 0)
		return -err->code;
	*ret = rf_take(cert);
	return 0;
}

static int check_serving(X509 *cert, X509 *ca, const char *service, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str names[NAMES];

	names_of(&a, service, names);
	if (X509_verify(cert, X509_get0_pubkey(ca)) != 1 ||
	    X509_check_purpose(cert, X509_PURPOSE_SSL_SERVER, 0) != 1)
		return rf_ossl_fail(err, RF_INVALID,
				    "tls.crt: is no server's certificate of this CA");
	for (size_t i = 0; i < NAMES; i++) {
		if (X509_check_host(cert, names[i].p, names[i].n,
				    X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) != 1)
			return rf_ossl_fail(err, RF_INVALID, "tls.crt: is not for %s", names[i].p);
	}
	return 0;
}

int rf_webhook_keys_check(const struct rf_webhook_keys *k, const char *service, int64_t now_ms,
			  bool *bad_ca, struct rf_err *err)
{
	rf_ossl(X509) ca = NULL;
	rf_ossl(X509) cert = NULL;

	*bad_ca = true;
	if (check_pair(k->ca_cert, k->ca_key, true, now_ms, &ca, err) < 0)
		return -err->code;
	if (X509_check_ca(ca) != 1)
		return rf_ossl_fail(err, RF_INVALID, "ca.crt: is not a CA's");
	*bad_ca = false;
	if (check_pair(k->cert, k->key, false, now_ms, &cert, err) < 0)
		return -err->code;
	return check_serving(cert, ca, service, err);
}

/* --- making ----------------------------------------------------------------------------------- */

int rf_webhook_keys_make(struct rf_arena *a, const char *service, bool new_ca,
			 struct rf_webhook_keys *k, struct rf_err *err)
{
	struct rf_str names[NAMES];
	struct rf_pki_ask ask = {
		.hosts = names, .n_hosts = NAMES, .server = true, .days = SERVING_DAYS
	};

	names_of(a, service, names);
	ask.common_name = names[2];
	if (new_ca &&
	    rf_pki_new_ca(a, RF_LIT("ringfence-webhook-ca"), &k->ca_cert, &k->ca_key, err) < 0)
		return -err->code;
	return rf_pki_issue(a, k->ca_cert, k->ca_key, &ask, &k->cert, &k->key, err);
}

/* --- the Secret ------------------------------------------------------------------------------- */

static struct rf_str secret_path(struct rf_arena *a, const char *name)
{
	return rf_kube_path(a, &RF_SECRETS, RF_LIT(RF_SYSTEM_NAMESPACE), rf_str(name), NULL);
}

/* What is missing or no base64 stays empty, and is then no certificate. */
static void read_secret(struct rf_arena *a, const struct rf_json *secret, struct rf_webhook_keys *k)
{
	for (size_t i = 0; i < RF_COUNT(parts); i++) {
		*part(k, i) = RF_STR_EMPTY;
		(void)rf_base64_decode(a, rf_json_str_at(secret, "data", parts[i]), part(k, i),
				       NULL);
	}
}

int rf_webhook_keys_put(struct rf_kube *k, struct rf_arena *a, const struct rf_json *secret,
			const struct rf_webhook_keys *keys, struct rf_err *err)
{
	struct rf_webhook_keys copy = *keys;
	struct rf_json *o =
		secret != NULL
			? rf_json_clone(a, secret)
			: rf_json_make(a, "{'apiVersion':'v1','kind':'Secret','type':'Opaque',"
					  "'metadata':{'name':'" RF_WEBHOOK_SECRET
					  "','namespace':'" RF_SYSTEM_NAMESPACE "'}}");
	struct rf_json *data = rf_json_ensure(a, o, "data");

	for (size_t i = 0; i < RF_COUNT(parts); i++)
		rf_json_set_str(a, data, parts[i], rf_base64_encode(a, *part(&copy, i)));
	if (secret == NULL)
		return rf_kube_create(k, a, secret_path(a, ""), o, NULL, err);
	return rf_kube_update(k, a, secret_path(a, RF_WEBHOOK_SECRET), o, NULL, err);
}

static bool is_lost_race(int rc)
{
	return rc == -RF_EXISTS || rc == -RF_CONFLICT || rc == -RF_NOT_FOUND;
}

/* One look: 1 if the Secret's keys are good, 0 if new ones were written or somebody else was faster. */
static int look(struct rf_kube *k, struct rf_arena *a, const char *service, int64_t now_ms,
		struct rf_webhook_keys *keys, struct rf_err *err)
{
	struct rf_json *secret = NULL;
	bool bad_ca = true;
	int rc = rf_kube_get(k, a, secret_path(a, RF_WEBHOOK_SECRET), &secret, err);

	if (rc < 0 && rc != -RF_NOT_FOUND)
		return rc;
	if (rc == 0) {
		read_secret(a, secret, keys);
		if (rf_webhook_keys_check(keys, service, now_ms, &bad_ca, err) == 0)
			return 1;
		rf_warn("secret %s/%s: %s; making %s", RF_SYSTEM_NAMESPACE, RF_WEBHOOK_SECRET,
			err->msg, bad_ca ? "a new CA and certificate" : "a new certificate");
	}
	if (rf_webhook_keys_make(a, service, bad_ca, keys, err) < 0)
		return -err->code;
	rc = rf_webhook_keys_put(k, a, secret, keys, err);
	if (rc == 0)
		rf_info("secret %s/%s: written", RF_SYSTEM_NAMESPACE, RF_WEBHOOK_SECRET);
	return is_lost_race(rc) ? 0 : rc;
}

/* What was written is read back, so that all replicas end with what the server holds. */
int rf_webhook_keys_get(struct rf_kube *k, struct rf_arena *a, const char *service, int64_t now_ms,
			struct rf_webhook_keys *ret, struct rf_err *err)
{
	struct rf_webhook_keys keys = { 0 };

	for (int i = 0; i < TRIES; i++) {
		int rc = look(k, a, service, now_ms, &keys, err);

		if (rc < 0)
			return rf_wrap(err, "secret %s/%s", RF_SYSTEM_NAMESPACE, RF_WEBHOOK_SECRET);
		if (rc == 1) {
			*ret = keys;
			return 0;
		}
	}
	return rf_fail(err, RF_CONFLICT, "secret %s/%s: somebody else keeps changing it",
		       RF_SYSTEM_NAMESPACE, RF_WEBHOOK_SECRET);
}

/* --- what the API server believes --------------------------------------------------------------- */

struct rf_json *rf_webhook_ca_patch(struct rf_arena *a, const struct rf_json *configuration,
				    struct rf_str ca_cert)
{
	const struct rf_json *all = rf_json_at(configuration, "webhooks");
	struct rf_str bundle = rf_base64_encode(a, ca_cert);
	struct rf_json *changed = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(all); i++) {
		const struct rf_json *one = rf_json_item(all, i);

		if (!rf_str_eq(rf_json_str_at(one, "clientConfig", "caBundle"), bundle))
			rf_json_push(a, changed,
				     rf_json_make(a, "{'name':%S,'clientConfig':{'caBundle':%S}}",
						  rf_json_str_at(one, "name"), bundle));
	}
	return changed->n > 0 ? rf_json_make(a, "{'webhooks':%j}", changed) : NULL;
}
