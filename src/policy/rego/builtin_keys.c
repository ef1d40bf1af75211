/* PEM and JSON Web Keys. */
#include "policy/rego/builtin_keys.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>

void rf_rb_keys_done(struct rf_rb_keys *k)
{
	for (size_t i = 0; i < k->n; i++)
		EVP_PKEY_free(k->at[i].pkey);
	k->n = 0;
	ERR_clear_error();
}

/* --- PEM --- */

static bool find(struct rf_str s, const char *what, size_t *ret)
{
	const char *p = memmem(s.p, s.n, what, strlen(what));

	if (s.n == 0 || p == NULL)
		return false;
	*ret = (size_t)(p - s.p);
	return true;
}

/* "Proc-Type: ..." lines before the data. */
static struct rf_str skip_headers(struct rf_str body)
{
	struct rf_str rest = body, line;

	while (rest.n > 0) {
		rf_str_cut(&rest, '\n', &line);
		if (memchr(line.p, ':', line.n) == NULL)
			return body;
		body = rest;
	}
	return body;
}

static struct rf_str squeeze(struct rf_rb_env *e, struct rf_str s)
{
	char *out = rb_alloc(e, s.n, 1);
	size_t n = 0;

	if (out == NULL)
		return (struct rf_str){ NULL, 0 };
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != ' ' && s.p[i] != '\t')
			out[n++] = s.p[i];
	return rf_str_n(out, n);
}

enum rf_rb_result rb_pem_next(struct rf_rb_env *e, struct rf_str *text, struct rb_pem *ret, bool *found)
{
	enum rf_rb_result r = RF_RB_ERROR;

	*found = false;
	if (!rf_rb_spend(e, 1 + (int64_t)(text->n / 8)))
		return RF_RB_FULL;
	/* what does not decode is passed over */
	while (r == RF_RB_ERROR) {
		struct rb_text end = { .e = e };
		struct rf_str body;
		size_t at, dashes;

		if (!find(*text, "-----BEGIN ", &at))
			return RF_RB_OK;
		*text = rf_str_skip(*text, at + 11);
		if (!find(*text, "-----", &dashes))
			return RF_RB_OK;
		ret->type = rf_str_n(text->p, dashes);
		body = rf_str_skip(*text, dashes + 5);
		rb_puts(&end, "-----END ");
		rb_add(&end, ret->type);
		rb_puts(&end, "-----");
		rb_add_c(&end, '\0');
		if (end.full)
			return RF_RB_FULL;
		if (!find(body, end.p, &at))
			continue;
		*text = rf_str_skip(body, at + end.n - 1);
		if (text->n > 0 && text->p[0] == '\r')
			*text = rf_str_skip(*text, 1);
		if (text->n > 0 && text->p[0] == '\n')
			*text = rf_str_skip(*text, 1);
		body = squeeze(e, skip_headers(rf_str_trim(rf_str_n(body.p, at))));
		if (body.p == NULL)
			return RF_RB_FULL;
		r = rb_base64_decode(e, body, false, true, &ret->der, NULL);
	}
	*found = r == RF_RB_OK;
	return r;
}

/* --- numbers in keys --- */

bool rb_key_number(EVP_PKEY *key, const char *name, BIGNUM **ret)
{
	*ret = NULL;
	return EVP_PKEY_get_bn_param(key, name, ret) == 1;
}

static enum rf_rb_result put_bytes(struct rb_object *o, const char *key, const unsigned char *p, size_t n)
{
	struct rb_text out = { .e = o->e };
	struct rf_rv v;

	rb_base64_add(&out, rf_str_n((const char *)p, n), true, false);
	RB_TRY(rb_text_value(&out, &v));
	rb_put(o, key, v);
	return RF_RB_OK;
}

static enum rf_rb_result put_number(struct rb_object *o, const char *key, EVP_PKEY *pkey,
				    const char *name, int size)
{
	unsigned char bytes[2048];
	rb_ossl(BIGNUM) n = NULL;
	int len;

	if (!rb_key_number(pkey, name, &n))
		return RF_RB_OK;
	len = RF_MAX(size, BN_num_bytes(n));
	if (len > (int)sizeof(bytes) || BN_bn2binpad(n, bytes, len) < 0)
		return RF_RB_FULL;
	return put_bytes(o, key, bytes, (size_t)len);
}

static const struct {
	const char *jwk, *group;
	int size;
} curves[] = {
	{ "P-256", "prime256v1", 32 },
	{ "P-384", "secp384r1", 48 },
	{ "P-521", "secp521r1", 66 },
};

static enum rf_rb_result rsa_jwk(struct rb_object *o, EVP_PKEY *key)
{
	static const char *const part[][2] = {
		{ "n", OSSL_PKEY_PARAM_RSA_N },		{ "e", OSSL_PKEY_PARAM_RSA_E },
		{ "d", OSSL_PKEY_PARAM_RSA_D },		{ "p", OSSL_PKEY_PARAM_RSA_FACTOR1 },
		{ "q", OSSL_PKEY_PARAM_RSA_FACTOR2 },	{ "dp", OSSL_PKEY_PARAM_RSA_EXPONENT1 },
		{ "dq", OSSL_PKEY_PARAM_RSA_EXPONENT2 }, { "qi", OSSL_PKEY_PARAM_RSA_COEFFICIENT1 },
	};

	rb_put(o, "kty", rf_rv_str(RF_LIT("RSA")));
	for (size_t i = 0; i < RF_COUNT(part); i++)
		RB_TRY(put_number(o, part[i][0], key, part[i][1], 0));
	return RF_RB_OK;
}

static enum rf_rb_result ec_jwk(struct rb_object *o, EVP_PKEY *key, struct rf_err *err)
{
	char group[40] = "";

	EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof(group), NULL);
	for (size_t i = 0; i < RF_COUNT(curves); i++) {
		if (strcmp(group, curves[i].group) != 0)
			continue;
		rb_put(o, "kty", rf_rv_str(RF_LIT("EC")));
		rb_put(o, "crv", rf_rv_str(rf_str(curves[i].jwk)));
		RB_TRY(put_number(o, "x", key, OSSL_PKEY_PARAM_EC_PUB_X, curves[i].size));
		RB_TRY(put_number(o, "y", key, OSSL_PKEY_PARAM_EC_PUB_Y, curves[i].size));
		return put_number(o, "d", key, OSSL_PKEY_PARAM_PRIV_KEY, curves[i].size);
	}
	return rb_error(err, "unsupported curve %s", group);
}

static enum rf_rb_result ed_jwk(struct rb_object *o, EVP_PKEY *key)
{
	unsigned char bytes[64];
	size_t n = sizeof(bytes);

	rb_put(o, "kty", rf_rv_str(RF_LIT("OKP")));
	rb_put(o, "crv", rf_rv_str(RF_LIT("Ed25519")));
	if (EVP_PKEY_get_raw_public_key(key, bytes, &n) == 1)
		RB_TRY(put_bytes(o, "x", bytes, n));
	n = sizeof(bytes);
	if (EVP_PKEY_get_raw_private_key(key, bytes, &n) == 1)
		RB_TRY(put_bytes(o, "d", bytes, n));
	return RF_RB_OK;
}

enum rf_rb_result rb_jwk_of(struct rf_rb_env *e, EVP_PKEY *key, struct rf_rv *ret, struct rf_err *err)
{
	struct rb_object o = { .e = e };

	switch (EVP_PKEY_get_base_id(key)) {
	case EVP_PKEY_RSA:
		RB_TRY(rsa_jwk(&o, key));
		break;
	case EVP_PKEY_EC:
		RB_TRY(ec_jwk(&o, key, err));
		break;
	case EVP_PKEY_ED25519:
		RB_TRY(ed_jwk(&o, key));
		break;
	default:
		return rb_error(err, "unsupported kind of key");
	}
	return rb_object_value(&o, ret);
}

/* --- JSON Web Keys --- */

static enum rf_rb_result member(struct rf_rb_env *e, struct rf_rv jwk, const char *name, struct rf_str *ret,
				struct rf_err *err)
{
	struct rf_rv v;

	*ret = RF_STR_EMPTY;
	if (!rf_rv_get_str(jwk, rf_str(name), &v))
		return RF_RB_OK;
	if (v.type != RF_RV_STRING)
		return rb_error(err, "%s: must be a string", name);
	*ret = rf_rv_text(v);
	return RF_RB_OK;
}

/* A member in base64url; empty if it is not there. */
static enum rf_rb_result bytes_of(struct rf_rb_env *e, struct rf_rv jwk, const char *name,
				  struct rf_str *ret, struct rf_err *err)
{
	RB_TRY(member(e, jwk, name, ret, err));
	if (ret->n > 4096)
		return rb_error(err, "%s: too long", name);
	return ret->n == 0 ? RF_RB_OK : rb_base64url_any(e, *ret, ret, err);
}

RB_OSSL_TYPE(OSSL_PARAM_BLD, OSSL_PARAM_BLD_free);
RB_OSSL_TYPE(OSSL_PARAM, OSSL_PARAM_free);

static bool from_data(const char *type, int selection, OSSL_PARAM_BLD *build, EVP_PKEY **ret)
{
	rb_ossl(EVP_PKEY_CTX) ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	rb_ossl(OSSL_PARAM) params = OSSL_PARAM_BLD_to_param(build);

	return ctx != NULL && params != NULL && EVP_PKEY_fromdata_init(ctx) == 1 &&
	       EVP_PKEY_fromdata(ctx, ret, selection, params) == 1;
}

static enum rf_rb_result read_rsa(struct rf_rb_env *e, struct rf_rv jwk, struct rb_key *key,
				  struct rf_err *err)
{
	static const char *const part[][2] = {
		{ "n", OSSL_PKEY_PARAM_RSA_N },		{ "e", OSSL_PKEY_PARAM_RSA_E },
		{ "d", OSSL_PKEY_PARAM_RSA_D },		{ "p", OSSL_PKEY_PARAM_RSA_FACTOR1 },
		{ "q", OSSL_PKEY_PARAM_RSA_FACTOR2 },	{ "dp", OSSL_PKEY_PARAM_RSA_EXPONENT1 },
		{ "dq", OSSL_PKEY_PARAM_RSA_EXPONENT2 }, { "qi", OSSL_PKEY_PARAM_RSA_COEFFICIENT1 },
	};
	rb_ossl(OSSL_PARAM_BLD) build = OSSL_PARAM_BLD_new();
	BIGNUM *n[RF_COUNT(part)] = { NULL };
	enum rf_rb_result r = RF_RB_OK;
	bool ok = build != NULL;
	struct rf_str bytes[RF_COUNT(part)];

	for (size_t i = 0; i < RF_COUNT(part); i++)
		RB_TRY(bytes_of(e, jwk, part[i][0], &bytes[i], err));
	if (bytes[0].n == 0 || bytes[1].n == 0)
		return rb_error(err, "an RSA key needs n and e");
	key->is_private = bytes[2].n > 0;
	/* the other private numbers are of use only all together */
	for (size_t i = 0; i < RF_COUNT(part); i++)
		if (bytes[i].n == 0)
			bytes[3].n = 0;
	for (size_t i = 0; i < RF_COUNT(part) && ok; i++) {
		if (bytes[i].n == 0 || (i >= 3 && bytes[3].n == 0))
			continue;
		n[i] = BN_bin2bn((const unsigned char *)bytes[i].p, (int)bytes[i].n, NULL);
		ok = n[i] != NULL && OSSL_PARAM_BLD_push_BN(build, part[i][1], n[i]) == 1;
	}
	if (!ok || !from_data("RSA", key->is_private ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, build,
			      &key->pkey))
		r = rb_error(err, "not an RSA key");
	for (size_t i = 0; i < RF_COUNT(part); i++)
		BN_clear_free(n[i]);
	return r;
}

static enum rf_rb_result read_ec(struct rf_rb_env *e, struct rf_rv jwk, struct rb_key *key,
				 struct rf_err *err)
{
	rb_ossl(OSSL_PARAM_BLD) build = OSSL_PARAM_BLD_new();
	rb_ossl(BIGNUM) d_number = NULL;
	struct rf_str crv, x, y, d;
	unsigned char point[140] = { 4 };
	size_t i = 0, size;

	RB_TRY(member(e, jwk, "crv", &crv, err));
	RB_TRY(bytes_of(e, jwk, "x", &x, err));
	RB_TRY(bytes_of(e, jwk, "y", &y, err));
	RB_TRY(bytes_of(e, jwk, "d", &d, err));
	while (i < RF_COUNT(curves) && !rf_str_is(crv, curves[i].jwk))
		i++;
	if (i == RF_COUNT(curves))
		return rb_error(err, "unsupported curve %.*s", (int)RF_MIN(crv.n, 40), crv.p);
	size = (size_t)curves[i].size;
	if (x.n == 0 || y.n == 0 || x.n > size || y.n > size || d.n > size)
		return rb_error(err, "not a point of curve %s", curves[i].jwk);
	memcpy(point + 1 + size - x.n, x.p, x.n);
	memcpy(point + 1 + 2 * size - y.n, y.p, y.n);
	key->is_private = d.n > 0;
	if (key->is_private)
		d_number = BN_bin2bn((const unsigned char *)d.p, (int)d.n, NULL);
	if (build == NULL || (key->is_private && d_number == NULL) ||
	    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, curves[i].group, 0) != 1 ||
	    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * size) != 1 ||
	    (d_number != NULL &&
	     OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, d_number) != 1) ||
	    !from_data("EC", key->is_private ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, build, &key->pkey))
		return rb_error(err, "not a key of curve %s", curves[i].jwk);
	return RF_RB_OK;
}

static enum rf_rb_result read_okp(struct rf_rb_env *e, struct rf_rv jwk, struct rb_key *key,
				  struct rf_err *err)
{
	struct rf_str crv, x, d;

	RB_TRY(member(e, jwk, "crv", &crv, err));
	RB_TRY(bytes_of(e, jwk, "x", &x, err));
	RB_TRY(bytes_of(e, jwk, "d", &d, err));
	if (!rf_str_is(crv, "Ed25519"))
		return rb_error(err, "unsupported curve %.*s", (int)RF_MIN(crv.n, 40), crv.p);
	key->is_private = d.n > 0;
	key->pkey = key->is_private ?
			    EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL,
							 (const unsigned char *)d.p, d.n) :
			    EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL,
							(const unsigned char *)x.p, x.n);
	return key->pkey == NULL ? rb_error(err, "not an Ed25519 key") : RF_RB_OK;
}

static enum rf_rb_result read_jwk(struct rf_rb_env *e, struct rf_rv jwk, struct rb_key *key,
				  struct rf_err *err)
{
	struct rf_str kty;

	if (jwk.type != RF_RV_OBJECT)
		return rb_error(err, "a key must be an object");
	if (!rf_rb_spend(e, RB_KEY_STEPS))
		return RF_RB_FULL;
	RB_TRY(member(e, jwk, "kty", &kty, err));
	RB_TRY(member(e, jwk, "alg", &key->alg, err));
	RB_TRY(member(e, jwk, "kid", &key->kid, err));
	if (rf_str_is(kty, "RSA"))
		return read_rsa(e, jwk, key, err);
	if (rf_str_is(kty, "EC"))
		return read_ec(e, jwk, key, err);
	if (rf_str_is(kty, "OKP"))
		return read_okp(e, jwk, key, err);
	if (!rf_str_is(kty, "oct"))
		return rb_error(err, "unsupported key type \"%.*s\"", (int)RF_MIN(kty.n, 40), kty.p);
	RB_TRY(bytes_of(e, jwk, "k", &key->secret, err));
	return key->secret.n == 0 ? rb_error(err, "an oct key needs k") : RF_RB_OK;
}

enum rf_rb_result rb_jwks_parse(struct rf_rb_env *e, struct rf_rv v, struct rf_rb_keys *keys,
				struct rf_err *err)
{
	struct rf_rv list = rf_rv_array(&v, 1);

	rf_rv_get_str(v, RF_LIT("keys"), &list);
	if (list.type != RF_RV_ARRAY || list.n > RB_KEYS_MAX)
		return rb_error(err, "keys must be an array of at most %d", RB_KEYS_MAX);
	for (uint32_t i = 0; i < list.n; i++) {
		/* counted first, so that a half-made one is freed too */
		keys->n++;
		RB_TRY(read_jwk(e, list.items[i], &keys->at[keys->n - 1], err));
	}
	return RF_RB_OK;
}

/* --- keys to verify with --- */

static enum rf_rb_result key_of_pem(const struct rb_pem *pem, struct rf_rb_keys *keys, struct rf_err *err)
{
	const unsigned char *p = (const unsigned char *)pem->der.p;
	rb_ossl(X509) cert = NULL;

	keys->n = 1;
	if (rf_str_is(pem->type, "CERTIFICATE")) {
		cert = d2i_X509(NULL, &p, (long)pem->der.n);
		if (cert != NULL)
			keys->at[0].pkey = X509_get_pubkey(cert);
		return keys->at[0].pkey != NULL ? RF_RB_OK :
						  rb_error(err, "failed to parse a PEM certificate");
	}
	if (rf_str_is(pem->type, "PUBLIC KEY")) {
		keys->at[0].pkey = d2i_PUBKEY(NULL, &p, (long)pem->der.n);
		return keys->at[0].pkey != NULL ? RF_RB_OK :
						  rb_error(err, "failed to parse a PEM public key");
	}
	return rb_error(err, "failed to extract a Key from the PEM certificate");
}

static bool is_known(struct rf_str alg)
{
	static const char *const known[] = { "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
					     "ES384", "ES512", "HS256", "HS384", "HS512", "EdDSA" };

	for (size_t i = 0; i < RF_COUNT(known); i++)
		if (rf_str_is(alg, known[i]))
			return true;
	return false;
}

enum rf_rb_result rb_keys_of(struct rf_rb_env *e, struct rf_str text, struct rf_rb_keys *keys,
			     struct rf_err *err)
{
	struct rf_str rest = text;
	enum rf_rb_result r;
	struct rb_pem pem;
	struct rf_rv v;
	bool found;
	size_t n = 0;

	if (!rf_rb_spend(e, RB_KEY_STEPS))
		return RF_RB_FULL;
	RB_TRY(rb_pem_next(e, &rest, &pem, &found));
	if (found && rest.n > 0)
		return rb_error(err, "extra data after a PEM certificate block");
	if (found)
		return key_of_pem(&pem, keys, err);
	r = rb_json_parse(e, text, &v, err);
	if (r == RF_RB_OK)
		r = rb_jwks_parse(e, v, keys, err);
	if (r == RF_RB_ERROR)
		rf_wrap(err, "failed to parse a JWK key (set)");
	/* keys for algorithms nobody here knows are passed over */
	for (size_t i = 0; i < keys->n && r == RF_RB_OK; i++) {
		if (keys->at[i].alg.n == 0 || is_known(keys->at[i].alg))
			keys->at[n++] = keys->at[i];
		else
			EVP_PKEY_free(keys->at[i].pkey);
	}
	if (r == RF_RB_OK)
		keys->n = n;
	return r;
}
