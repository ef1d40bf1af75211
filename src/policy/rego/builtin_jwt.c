/* io.jwt.*: JSON Web Tokens, signed (JWS) only. */
#include "policy/rego/builtin_keys.h"

#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

RB_OSSL_TYPE(ECDSA_SIG, ECDSA_SIG_free);

enum family { HS, RS, PS, ES, ED };

struct algorithm {
	const char *name;
	enum family family;
	const EVP_MD *(*md)(void);
	size_t half; /* ES: bytes of r and of s */
};

static const struct algorithm algorithms[] = {
	{ "HS256", HS, EVP_sha256, 0 },	 { "HS384", HS, EVP_sha384, 0 },  { "HS512", HS, EVP_sha512, 0 },
	{ "RS256", RS, EVP_sha256, 0 },	 { "RS384", RS, EVP_sha384, 0 },  { "RS512", RS, EVP_sha512, 0 },
	{ "PS256", PS, EVP_sha256, 0 },	 { "PS384", PS, EVP_sha384, 0 },  { "PS512", PS, EVP_sha512, 0 },
	{ "ES256", ES, EVP_sha256, 32 }, { "ES384", ES, EVP_sha384, 48 }, { "ES512", ES, EVP_sha512, 66 },
	{ "EdDSA", ED, NULL, 0 },
};

static const struct algorithm *algorithm_of(struct rf_str name)
{
	for (size_t i = 0; i < RF_COUNT(algorithms); i++)
		if (rf_str_is(name, algorithms[i].name))
			return &algorithms[i];
	return NULL;
}

/* --- signatures --- */

static struct rf_str hmac_of(const struct algorithm *a, struct rf_str key, struct rf_str data,
			     unsigned char out[EVP_MAX_MD_SIZE])
{
	unsigned int n = 0;

	if (HMAC(a->md(), key.p, (int)key.n, (const unsigned char *)data.p, data.n, out, &n) == NULL)
		n = 0;
	return rf_str_n((char *)out, n);
}

static bool same_secret(struct rf_str a, struct rf_str b)
{
	return a.n == b.n && a.n > 0 && CRYPTO_memcmp(a.p, b.p, a.n) == 0;
}

/* r and s side by side, as DER has them for OpenSSL. */
static int der_of(struct rf_str sig, unsigned char **ret)
{
	rb_ossl(ECDSA_SIG) es = ECDSA_SIG_new();
	const unsigned char *p = (const unsigned char *)sig.p;
	int half = (int)(sig.n / 2);
	BIGNUM *r = BN_bin2bn(p, half, NULL), *s = BN_bin2bn(p + half, (int)sig.n - half, NULL);

	if (es == NULL || r == NULL || s == NULL || ECDSA_SIG_set0(es, r, s) != 1) {
		BN_free(r);
		BN_free(s);
		return -1;
	}
	return i2d_ECDSA_SIG(es, ret);
}

static bool is_kind(EVP_PKEY *key, enum family family)
{
	int id = EVP_PKEY_get_base_id(key);

	if (family == ES)
		return id == EVP_PKEY_EC;
	return family == ED ? id == EVP_PKEY_ED25519 : id == EVP_PKEY_RSA;
}

static bool set_padding(EVP_PKEY_CTX *ctx, const struct algorithm *a, int salt)
{
	if (a->family != PS)
		return true;
	return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
	       EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, salt) == 1;
}

static bool verify_pkey(const struct algorithm *a, EVP_PKEY *key, struct rf_str data, struct rf_str sig)
{
	rb_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();
	EVP_PKEY_CTX *pctx;
	unsigned char *der = NULL;
	int der_n = 0;
	bool ok;

	if (ctx == NULL || !is_kind(key, a->family) || sig.n > 4096)
		return false;
	if (a->family == ES && (sig.n == 0 || (der_n = der_of(sig, &der)) < 0))
		return false;
	if (a->family == ES)
		sig = rf_str_n((char *)der, (size_t)der_n);
	ok = EVP_DigestVerifyInit(ctx, &pctx, a->md == NULL ? NULL : a->md(), NULL, key) == 1 &&
	     set_padding(pctx, a, RSA_PSS_SALTLEN_AUTO) &&
	     EVP_DigestVerify(ctx, (const unsigned char *)sig.p, sig.n, (const unsigned char *)data.p,
			      data.n) == 1;
	OPENSSL_free(der);
	ERR_clear_error();
	return ok;
}

static bool verify_with(const struct algorithm *a, const struct rb_key *key, struct rf_str data,
			struct rf_str sig)
{
	unsigned char mac[EVP_MAX_MD_SIZE];

	if (a->family == HS)
		return key->pkey == NULL && same_secret(hmac_of(a, key->secret, data, mac), sig);
	return key->pkey != NULL && verify_pkey(a, key->pkey, data, sig);
}

/* The key the token names, or any whose algorithm is not another one. */
static bool verify_any(struct rf_rb_env *e, const struct algorithm *a, const struct rf_rb_keys *keys,
		       struct rf_str kid, struct rf_str alg, struct rf_str data, struct rf_str sig)
{
	for (size_t i = 0; i < keys->n && kid.n > 0; i++)
		if (rf_str_eq(keys->at[i].kid, kid))
			return rf_rb_spend(e, RB_KEY_STEPS) && verify_with(a, &keys->at[i], data, sig);
	for (size_t i = 0; i < keys->n; i++) {
		if (keys->at[i].alg.n > 0 && !rf_str_eq(keys->at[i].alg, alg))
			continue;
		if (!rf_rb_spend(e, RB_KEY_STEPS))
			return false;
		if (verify_with(a, &keys->at[i], data, sig))
			return true;
	}
	return false;
}

/* --- tokens --- */

struct token {
	struct rf_str header, payload, signature; /* encoded */
	struct rf_str signed_part;		  /* header.payload */
	struct rf_rv head;			  /* the header's object */
	struct rf_str alg, kid, cty;
	bool has_crit_unknown;
};

static enum rf_rb_result split_token(struct rf_str s, struct token *t, struct rf_err *err)
{
	size_t dots = 0;
	struct rf_str rest = s;

	for (size_t i = 0; i < s.n; i++)
		dots += s.p[i] == '.';
	if (dots == 0)
		return rb_error(err, "encoded JWT had no period separators");
	if (dots != 2)
		return rb_error(err, "encoded JWT must have 3 sections, found %zu", dots + 1);
	rf_str_cut(&rest, '.', &t->header);
	rf_str_cut(&rest, '.', &t->payload);
	t->signature = rest;
	t->signed_part = rf_str_n(s.p, t->header.n + 1 + t->payload.n);
	return RF_RB_OK;
}

static enum rf_rb_result decode_part(struct rf_rb_env *e, struct rf_str part, const char *what,
				     struct rf_str *ret, struct rf_err *err)
{
	enum rf_rb_result r = rb_base64url_any(e, part, ret, err);

	if (r == RF_RB_ERROR)
		rf_wrap(err, "JWT %s had invalid encoding", what);
	return r;
}

static enum rf_rb_result json_object(struct rf_rb_env *e, struct rf_str text, struct rf_rv *ret,
				     struct rf_err *err)
{
	enum rf_rb_result r = rb_json_parse(e, text, ret, err);

	if (r == RF_RB_ERROR)
		rf_wrap(err, "invalid JSON");
	if (r == RF_RB_OK && ret->type != RF_RV_OBJECT)
		return rb_error(err, "decoded JSON type was not an Object");
	return r;
}

static enum rf_rb_result decode_header(struct rf_rb_env *e, struct token *t, struct rf_err *err)
{
	enum rf_rb_result r;
	struct rf_str text;
	struct rf_rv v;

	RB_TRY(decode_part(e, t->header, "header", &text, err));
	r = json_object(e, text, &t->head, err);
	if (r == RF_RB_ERROR)
		rf_wrap(err, "bad JWT header");
	if (r != RF_RB_OK)
		return r;
	if (rf_rv_get_str(t->head, RF_LIT("enc"), &v))
		return rb_error(err, "JWT is a JWE object, which is not supported");
	return RF_RB_OK;
}

static bool is_known_field(struct rf_str key)
{
	return rf_str_is(key, "alg") || rf_str_is(key, "kid") || rf_str_is(key, "typ") ||
	       rf_str_is(key, "cty") || rf_str_is(key, "crit");
}

static enum rf_rb_result read_crit(struct token *t, struct rf_rv crit, struct rf_err *err)
{
	bool any = false;
	struct rf_rv v;

	if (crit.type != RF_RV_ARRAY)
		return rb_error(err, "crit: must be a list");
	for (uint32_t i = 0; i < crit.n && crit.items[i].type == RF_RV_STRING; i++) {
		struct rf_str name = rf_rv_text(crit.items[i]);

		any = true;
		t->has_crit_unknown |= !is_known_field(name) && rf_rv_get_str(t->head, name, &v);
	}
	return any ? RF_RB_OK : rb_error(err, "crit: must be a nonempty list");
}

/* What counts of the header. */
static enum rf_rb_result read_header(struct token *t, struct rf_err *err)
{
	static const char *const name[] = { "alg", "kid", "typ", "cty" };
	struct rf_str typ, *to[] = { &t->alg, &t->kid, &typ, &t->cty };
	struct rf_rv v;

	for (size_t i = 0; i < RF_COUNT(name); i++) {
		*to[i] = RF_STR_EMPTY;
		if (!rf_rv_get_str(t->head, rf_str(name[i]), &v))
			continue;
		if (v.type != RF_RV_STRING)
			return rb_error(err, "%s: must be a string", name[i]);
		*to[i] = rf_rv_text(v);
	}
	if (rf_rv_get_str(t->head, RF_LIT("crit"), &v))
		return read_crit(t, v, err);
	return RF_RB_OK;
}

/* --- io.jwt.decode --- */

static struct rf_str trim_quotes(struct rf_str s)
{
	while (s.n > 0 && (s.p[0] == '"' || s.p[0] == '\''))
		s = rf_str_skip(s, 1);
	while (s.n > 0 && (s.p[s.n - 1] == '"' || s.p[s.n - 1] == '\''))
		s.n--;
	return s;
}

enum rf_rb_result rb_jwt_decode(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				struct rf_err *err)
{
	struct rf_str text = rf_rv_text(arg[0]), payload, sig;
	struct rb_text hex = { .e = e };
	struct rf_rv *items = rb_alloc(e, 3, sizeof(*items)), cty;
	struct token t = { 0 };

	if (items == NULL)
		return RF_RB_FULL;
	/* a token in a token: each is shorter than the one around it */
	for (;;) {
		RB_TRY(split_token(text, &t, err));
		RB_TRY(decode_header(e, &t, err));
		RB_TRY(decode_part(e, t.payload, "payload", &payload, err));
		if (!rf_rv_get_str(t.head, RF_LIT("cty"), &cty) || cty.type != RF_RV_STRING ||
		    !rf_str_is(rf_rv_text(cty), "JWT"))
			break;
		text = trim_quotes(payload);
	}
	items[0] = t.head;
	RB_TRY(json_object(e, payload, &items[1], err));
	RB_TRY(decode_part(e, t.signature, "signature", &sig, err));
	rb_hex_add(&hex, sig.p, sig.n);
	RB_TRY(rb_text_value(&hex, &items[2]));
	*ret = rf_rv_array(items, 3);
	return RF_RB_OK;
}

/* --- io.jwt.verify_* --- */

static enum rf_rb_result verify_keys(struct rf_rb_env *e, const struct rf_rv *arg, const char *name,
				     struct rf_rv *ret, struct rf_err *err)
{
	rf_auto(rb_keys) keys = { .n = 0 };
	struct token t = { 0 };
	struct rf_str sig;

	RB_TRY(split_token(rf_rv_text(arg[0]), &t, err));
	RB_TRY(rb_keys_of(e, rf_rv_text(arg[1]), &keys, err));
	RB_TRY(rb_base64url_any(e, t.signature, &sig, err));
	RB_TRY(decode_header(e, &t, err));
	RB_TRY(read_header(&t, err));
	*ret = rf_rv_bool(verify_any(e, algorithm_of(rf_str(name)), &keys, t.kid, t.alg, t.signed_part,
				     sig));
	return *e->fuel > 0 ? RF_RB_OK : RF_RB_FULL;
}

static enum rf_rb_result verify_secret(struct rf_rb_env *e, const struct rf_rv *arg, const char *name,
				       struct rf_rv *ret, struct rf_err *err)
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	struct token t = { 0 };
	struct rf_str sig;

	RB_TRY(split_token(rf_rv_text(arg[0]), &t, err));
	RB_TRY(rb_base64url_any(e, t.signature, &sig, err));
	*ret = rf_rv_bool(same_secret(
		hmac_of(algorithm_of(rf_str(name)), rf_rv_text(arg[1]), t.signed_part, mac), sig));
	return RF_RB_OK;
}

#define VERIFY(fn, alg, how)                                                                       \
	enum rf_rb_result rb_jwt_verify_##fn(struct rf_rb_env *e, const struct rf_rv *arg,         \
					     struct rf_rv *ret, struct rf_err *err)                \
	{                                                                                          \
		return how(e, arg, alg, ret, err);                                                 \
	}
VERIFY(hs256, "HS256", verify_secret)
VERIFY(hs384, "HS384", verify_secret)
VERIFY(hs512, "HS512", verify_secret)
VERIFY(rs256, "RS256", verify_keys)
VERIFY(rs384, "RS384", verify_keys)
VERIFY(rs512, "RS512", verify_keys)
VERIFY(ps256, "PS256", verify_keys)
VERIFY(ps384, "PS384", verify_keys)
VERIFY(ps512, "PS512", verify_keys)
VERIFY(es256, "ES256", verify_keys)
VERIFY(es384, "ES384", verify_keys)
VERIFY(es512, "ES512", verify_keys)
VERIFY(eddsa, "EdDSA", verify_keys)

/* --- io.jwt.decode_verify --- */

struct constraints {
	struct rf_rb_keys keys;
	bool has_keys;
	struct rf_str secret, alg, iss, aud;
	double time; /* ns */
};

static enum rf_rb_result read_constraint(struct rf_rb_env *e, struct constraints *c, struct rf_str name,
					 struct rf_rv v, struct rf_err *err)
{
	struct rf_str *to = rf_str_is(name, "secret") ? &c->secret :
			    rf_str_is(name, "alg")    ? &c->alg :
			    rf_str_is(name, "iss")    ? &c->iss :
			    rf_str_is(name, "aud")    ? &c->aud :
							NULL;

	if (rf_str_is(name, "time")) {
		if (v.type != RF_RV_NUMBER)
			return rb_error(err, "token time constraint: must be a number");
		c->time = rf_rn_double(v);
		if (c->time < 0)
			return rb_error(err, "token time constraint: must not be negative");
		return RF_RB_OK;
	}
	if (to == NULL && !rf_str_is(name, "cert"))
		return rb_error(err, "unknown token validation constraint: %.*s",
				(int)RF_MIN(name.n, 100), name.p);
	if (v.type != RF_RV_STRING)
		return rb_error(err, "%.*s constraint: must be a string", RF_STR(name));
	if (to != NULL) {
		*to = rf_rv_text(v);
		return RF_RB_OK;
	}
	c->has_keys = true;
	return rb_keys_of(e, rf_rv_text(v), &c->keys, err);
}

static enum rf_rb_result read_constraints(struct rf_rb_env *e, struct rf_rv v, struct constraints *c,
					  struct rf_err *err)
{
	c->secret = c->alg = c->iss = c->aud = RF_STR_EMPTY;
	c->time = (double)e->now_ns;
	for (uint32_t i = 0; i < v.n; i++) {
		if (v.pairs[i].key.type != RF_RV_STRING)
			return rb_error(err, "unknown token validation constraint: not a string");
		RB_TRY(read_constraint(e, c, rf_rv_text(v.pairs[i].key), v.pairs[i].value, err));
	}
	if (c->has_keys && c->secret.n > 0)
		return rb_error(err, "duplicate key constraints");
	if (!c->has_keys && c->secret.n == 0)
		return rb_error(err, "no key constraint");
	return RF_RB_OK;
}

static bool signature_holds(struct rf_rb_env *e, const struct constraints *c, const struct token *t,
			    struct rf_str sig)
{
	const struct algorithm *a = algorithm_of(t->alg);
	unsigned char mac[EVP_MAX_MD_SIZE];

	if (a == NULL || (a->family == ES && sig.n != 2 * a->half))
		return false;
	if (c->has_keys)
		return verify_any(e, a, &c->keys, t->kid, t->alg, t->signed_part, sig);
	return a->family == HS && same_secret(hmac_of(a, c->secret, t->signed_part, mac), sig);
}

/* Decodes and verifies down to the innermost token. *ret_valid false: that is the answer. */
static enum rf_rb_result open_token(struct rf_rb_env *e, const struct constraints *c, struct rf_str text,
				    struct token *t, struct rf_str *ret_payload, bool *ret_valid,
				    struct rf_err *err)
{
	struct rf_str sig;

	*ret_valid = false;
	for (;;) {
		*t = (struct token){ 0 };
		RB_TRY(split_token(text, t, err));
		RB_TRY(decode_header(e, t, err));
		RB_TRY(read_header(t, err));
		if (t->alg.n == 0 || t->has_crit_unknown)
			return RF_RB_OK;
		if (c->alg.n > 0 && !rf_str_eq(c->alg, t->alg))
			return RF_RB_OK;
		RB_TRY(rb_base64url_any(e, t->signature, &sig, err));
		if (!rf_rb_spend(e, RB_KEY_STEPS))
			return RF_RB_FULL;
		if (!signature_holds(e, c, t, sig))
			return *e->fuel > 0 ? RF_RB_OK : RF_RB_FULL;
		RB_TRY(decode_part(e, t->payload, "payload", ret_payload, err));
		if (!rf_str_ieq(t->cty, RF_LIT("JWT")))
			break;
		text = *ret_payload;
	}
	*ret_valid = true;
	return RF_RB_OK;
}

static bool audience_holds(struct rf_rv aud, struct rf_str want)
{
	if (aud.type == RF_RV_STRING)
		return rf_str_eq(rf_rv_text(aud), want);
	for (uint32_t i = 0; aud.type == RF_RV_ARRAY && i < aud.n; i++)
		if (aud.items[i].type == RF_RV_STRING && rf_str_eq(rf_rv_text(aud.items[i]), want))
			return true;
	return false;
}

static enum rf_rb_result claims_hold(struct rf_rb_env *e, const struct constraints *c, struct rf_rv payload,
				     bool *ret, struct rf_err *err)
{
	struct rf_rv v, now;

	*ret = false;
	if (!rf_rn_from_double(e->arena, c->time / 1e9, &now))
		return RF_RB_FULL;
	if (c->iss.n > 0 &&
	    (!rf_rv_get_str(payload, RF_LIT("iss"), &v) || v.type != RF_RV_STRING ||
	     !rf_str_eq(rf_rv_text(v), c->iss)))
		return RF_RB_OK;
	if (rf_rv_get_str(payload, RF_LIT("aud"), &v) ? !audience_holds(v, c->aud) : c->aud.n > 0)
		return RF_RB_OK;
	if (rf_rv_get_str(payload, RF_LIT("exp"), &v)) {
		if (v.type != RF_RV_NUMBER)
			return rb_error(err, "exp value must be a number");
		if (rf_rn_cmp(now, v) >= 0)
			return RF_RB_OK;
	}
	if (rf_rv_get_str(payload, RF_LIT("nbf"), &v)) {
		if (v.type != RF_RV_NUMBER)
			return rb_error(err, "nbf value must be a number");
		if (rf_rn_cmp(now, v) < 0)
			return RF_RB_OK;
	}
	*ret = true;
	return RF_RB_OK;
}

static enum rf_rb_result decode_verify(struct rf_rb_env *e, const struct rf_rv *arg, struct constraints *c,
				       struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv *items = rb_alloc(e, 3, sizeof(*items));
	struct rf_rv empty = { .type = RF_RV_OBJECT }, payload = empty;
	struct rf_str text;
	struct token t;
	bool valid;

	if (items == NULL)
		return RF_RB_FULL;
	RB_TRY(read_constraints(e, arg[1], c, err));
	RB_TRY(open_token(e, c, rf_rv_text(arg[0]), &t, &text, &valid, err));
	if (valid) {
		RB_TRY(json_object(e, text, &payload, err));
		RB_TRY(claims_hold(e, c, payload, &valid, err));
	}
	items[0] = rf_rv_bool(valid);
	items[1] = valid ? t.head : empty;
	items[2] = valid ? payload : empty;
	*ret = rf_rv_array(items, 3);
	return RF_RB_OK;
}

enum rf_rb_result rb_jwt_decode_verify(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	struct constraints *c = rb_alloc(e, 1, sizeof(*c));
	enum rf_rb_result r;

	if (c == NULL)
		return RF_RB_FULL;
	r = decode_verify(e, arg, c, ret, err);
	rf_rb_keys_done(&c->keys);
	return r;
}

/* --- io.jwt.encode_sign --- */

/* OpenSSL's DER as r and s side by side. */
static bool raw_of(const unsigned char *der, size_t n, size_t half, struct rb_text *out)
{
	unsigned char both[2 * 66];
	rb_ossl(ECDSA_SIG) es = d2i_ECDSA_SIG(NULL, &der, (long)n);

	if (es == NULL || half > 66 || BN_bn2binpad(ECDSA_SIG_get0_r(es), both, (int)half) < 0 ||
	    BN_bn2binpad(ECDSA_SIG_get0_s(es), both + half, (int)half) < 0)
		return false;
	rb_base64_add(out, rf_str_n((char *)both, 2 * half), true, false);
	return true;
}

static bool sign_pkey(const struct algorithm *a, EVP_PKEY *key, struct rf_str data, struct rb_text *out)
{
	rb_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();
	unsigned char sig[4096];
	size_t n = sizeof(sig);
	EVP_PKEY_CTX *pctx;

	if (ctx == NULL || !is_kind(key, a->family) || EVP_PKEY_get_size(key) > (int)sizeof(sig))
		return false;
	if (EVP_DigestSignInit(ctx, &pctx, a->md == NULL ? NULL : a->md(), NULL, key) != 1 ||
	    !set_padding(pctx, a, RSA_PSS_SALTLEN_DIGEST) ||
	    EVP_DigestSign(ctx, sig, &n, (const unsigned char *)data.p, data.n) != 1)
		return false;
	if (a->family == ES)
		return raw_of(sig, n, a->half, out);
	rb_base64_add(out, rf_str_n((char *)sig, n), true, false);
	return true;
}

/* The member of the header as a string; false: it is not there or none. */
static bool header_string(struct rf_rv header, const char *name, struct rf_str *ret)
{
	struct rf_rv v;

	if (!rf_rv_get_str(header, rf_str(name), &v) || v.type != RF_RV_STRING)
		return false;
	*ret = rf_rv_text(v);
	return true;
}

static enum rf_rb_result read_sign_header(struct rf_rb_env *e, struct rf_str text, struct rf_str payload,
					  const struct algorithm **ret, struct rf_err *err)
{
	struct rf_rv header;
	struct rf_str alg, typ;
	enum rf_rb_result r;
	bool full;

	if (text.n == 0)
		return rb_error(err, "missing or invalid 'alg' header: cannot parse JSON: cannot parse "
				     "empty string");
	r = rb_json_parse(e, text, &header, err);
	if (r == RF_RB_ERROR)
		rf_wrap(err, "missing or invalid 'alg' header: cannot parse JSON");
	if (r != RF_RB_OK)
		return r;
	if (!header_string(header, "alg", &alg))
		return rb_error(err, "missing or invalid 'alg' header: jwsbb: header \"alg\" not found");
	*ret = algorithm_of(alg);
	if (*ret == NULL)
		return rb_error(err, "unknown JWS algorithm: %.*s", (int)RF_MIN(alg.n, 100), alg.p);
	if ((!header_string(header, "typ", &typ) || rf_str_is(typ, "JWT")) &&
	    !rb_json_valid(e, payload, &full))
		return full ? RF_RB_FULL : rb_error(err, "type is JWT but payload is not JSON");
	return RF_RB_OK;
}

static enum rf_rb_result sign(struct rf_rb_env *e, struct rf_str header, struct rf_str payload,
			      struct rf_str jwk, struct rf_rv *ret, struct rf_err *err)
{
	rf_auto(rb_keys) keys = { .n = 0 };
	struct rb_text out = { .e = e };
	unsigned char mac[EVP_MAX_MD_SIZE];
	const struct algorithm *a;
	struct rf_str data;
	struct rf_rv v;
	bool ok;

	RB_TRY(rb_json_parse(e, jwk, &v, err));
	RB_TRY(rb_jwks_parse(e, v, &keys, err));
	if (keys.n == 0)
		return rb_error(err, "no keys found in JWK set");
	RB_TRY(read_sign_header(e, header, payload, &a, err));
	rb_base64_add(&out, header, true, false);
	rb_add_c(&out, '.');
	rb_base64_add(&out, payload, true, false);
	if (out.full || !rf_rb_spend(e, RB_KEY_STEPS))
		return RF_RB_FULL;
	data = rf_str_n(out.p, out.n);
	rb_add_c(&out, '.');
	if (a->family == HS) {
		ok = keys.at[0].pkey == NULL;
		if (ok)
			rb_base64_add(&out, hmac_of(a, keys.at[0].secret, data, mac), true, false);
	} else {
		ok = keys.at[0].pkey != NULL && keys.at[0].is_private &&
		     sign_pkey(a, keys.at[0].pkey, data, &out);
	}
	if (!ok)
		return rb_error(err, "the key cannot sign with %s", a->name);
	return rb_text_value(&out, ret);
}

enum rf_rb_result rb_jwt_encode_sign_raw(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					 struct rf_err *err)
{
	return sign(e, rf_rv_text(arg[0]), rf_rv_text(arg[1]), rf_rv_text(arg[2]), ret, err);
}

enum rf_rb_result rb_jwt_encode_sign(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	struct rf_str part[3];

	for (int i = 0; i < 3; i++)
		RB_TRY(rb_json_text(e, arg[i], &part[i]));
	return sign(e, part[0], part[1], part[2], ret, err);
}
