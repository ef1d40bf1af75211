/* providers.aws.sign_req: AWS' signature version 4 for an HTTP request. */
#include "policy/rego/builtin_util.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

#include "policy/rego/zoneinfo.h"

struct request {
	struct rf_rv object; /* as given */
	struct rf_rv headers;
	struct rf_str method, body;
	struct rb_url url;
	struct rf_str service, region, access_key, secret, token;
	bool unsigned_payload;
	char day[16], time[24]; /* 20151228, 20151228T140825Z */
};

static struct rf_str string_of(struct rf_rv object, const char *key)
{
	struct rf_rv v;

	if (!rf_rv_get_str(object, rf_str(key), &v) || v.type != RF_RV_STRING)
		return RF_STR_EMPTY;
	return rf_rv_text(v);
}

/* --- checks --- */

/* Those of the names that are missing from the object, or are no strings in it, as a set's text:
 * {"a", "b"}. */
static size_t list_wrong(struct rf_rv object, const char *const *names, size_t n, bool missing, char *out,
			 size_t size)
{
	size_t at = 0, found = 0;

	for (size_t i = 0; i < n; i++) {
		struct rf_rv v;
		bool has = rf_rv_get_str(object, rf_str(names[i]), &v);

		if (missing ? has : !has || v.type == RF_RV_STRING)
			continue;
		at += (size_t)snprintf(out + at, size - at, "%s\"%s\"", found++ > 0 ? ", " : "{", names[i]);
	}
	if (found > 0)
		(void)snprintf(out + at, size - at, "}");
	return found;
}

static enum rf_rb_result check_config(struct rf_rv config, struct rf_err *err)
{
	static const char *const needed[] = { "aws_access_key", "aws_region", "aws_secret_access_key",
					      "aws_service" };
	char list[160];

	if (list_wrong(config, needed, RF_COUNT(needed), true, list, sizeof(list)) > 0)
		return rb_type_error(err, "operand 2 missing required AWS config parameters(s): %s", list);
	if (list_wrong(config, needed, RF_COUNT(needed), false, list, sizeof(list)) > 0)
		return rb_type_error(err, "operand 2 invalid values for required AWS config parameters(s): %s",
				     list);
	return RF_RB_OK;
}

static bool is_allowed(struct rf_rv key)
{
	static const char *const allowed[] = {
		"method", "url", "body", "enable_redirect", "force_json_decode", "force_yaml_decode",
		"headers", "raw_body", "tls_use_system_certs", "tls_ca_cert", "tls_ca_cert_file",
		"tls_ca_cert_env_variable", "tls_client_cert", "tls_client_cert_file",
		"tls_client_cert_env_variable", "tls_client_key", "tls_client_key_file",
		"tls_client_key_env_variable", "tls_insecure_skip_verify", "tls_server_name", "timeout",
		"cache", "force_cache", "force_cache_duration_seconds", "raise_error", "caching_mode",
		"max_retry_attempts", "cache_ignored_headers",
	};

	for (size_t i = 0; i < RF_COUNT(allowed); i++)
		if (key.type == RF_RV_STRING && rf_str_is(rf_rv_text(key), allowed[i]))
			return true;
	return false;
}

static enum rf_rb_result check_request(struct rf_rb_env *e, struct rf_rv request, struct rf_err *err)
{
	static const char *const needed[] = { "method", "url" };
	struct rb_text odd = { .e = e };
	char list[80];

	for (uint32_t i = 0; i < request.n; i++)
		if (!is_allowed(request.pairs[i].key))
			rb_printf(&odd, "%s%.*s", odd.n > 0 ? ", " : "{",
				  RF_STR(rb_shown(e, request.pairs[i].key)));
	if (odd.n > 0)
		return rb_type_error(err, "operand 1 invalid request parameters(s): %.*s}", (int)odd.n,
				     odd.p);
	if (list_wrong(request, needed, 2, true, list, sizeof(list)) > 0)
		return rb_type_error(err, "operand 1 missing required request parameters(s): %s", list);
	if (list_wrong(request, needed, 2, false, list, sizeof(list)) > 0)
		return rb_type_error(err, "operand 1 invalid values for required request parameters(s): %s",
				     list);
	return RF_RB_OK;
}

/* --- reading --- */

static void read_time(struct request *r, int64_t ns)
{
	int64_t sec = ns / 1000000000 - (ns % 1000000000 < 0), days = sec / 86400 - (sec % 86400 < 0);
	int rest = (int)(sec - days * 86400), month, day;
	int64_t year;

	rf_civil_date(days, &year, &month, &day);
	(void)snprintf(r->day, sizeof(r->day), "%04d%02d%02d", (int)year, month, day);
	(void)snprintf(r->time, sizeof(r->time), "%.8sT%02d%02d%02dZ", r->day, rest / 3600, rest / 60 % 60,
		       rest % 60);
}

static enum rf_rb_result read_body(struct rf_rb_env *e, struct request *r)
{
	struct rf_rv v;

	r->body = RF_STR_EMPTY;
	if (rf_rv_get_str(r->object, RF_LIT("raw_body"), &v)) {
		r->body = string_of(r->object, "raw_body");
		return RF_RB_OK;
	}
	if (!rf_rv_get_str(r->object, RF_LIT("body"), &v))
		return RF_RB_OK;
	return rb_json_text(e, v, &r->body);
}

static enum rf_rb_result read_request(struct rf_rb_env *e, const struct rf_rv *arg, struct request *r,
				      struct rf_err *err)
{
	struct rf_rv v;

	r->object = arg[0];
	RB_TRY(check_config(arg[1], err));
	if (arg[2].big)
		return rb_type_error(err, "operand 3 could not convert time_ns value into a unix timestamp");
	RB_TRY(check_request(e, arg[0], err));
	r->headers = (struct rf_rv){ .type = RF_RV_OBJECT };
	rf_rv_get_str(arg[0], RF_LIT("headers"), &r->headers);
	if (r->headers.type != RF_RV_OBJECT)
		return rb_type_error(err, "operand 0 must be object but got %s",
				     rf_rv_type_name(r->headers));
	RB_TRY(rb_url_parse(e, string_of(arg[0], "url"), &r->url, err));
	RB_TRY(read_body(e, r));
	r->method = string_of(arg[0], "method");
	r->service = string_of(arg[1], "aws_service");
	r->region = string_of(arg[1], "aws_region");
	r->access_key = string_of(arg[1], "aws_access_key");
	r->secret = string_of(arg[1], "aws_secret_access_key");
	r->token = string_of(arg[1], "aws_session_token");
	if (rf_rv_get_str(arg[1], RF_LIT("disable_payload_signing"), &v)) {
		if (v.type != RF_RV_BOOL)
			return rb_type_error(err, "operand 2 invalid value for 'disable_payload_signing' "
						  "in AWS config");
		r->unsigned_payload = v.b;
	}
	read_time(r, arg[2].i);
	return RF_RB_OK;
}

/* --- signing --- */

static void sha256_hex(struct rb_text *out, struct rf_str s)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int n = 0;

	(void)EVP_Digest(s.p, s.n, digest, &n, EVP_sha256(), NULL);
	rb_hex_add(out, digest, n);
}

/* key = HMAC(key, text) */
static void chain(unsigned char key[32], struct rf_str text)
{
	(void)HMAC(EVP_sha256(), key, 32, (const unsigned char *)text.p, text.n, key, NULL);
}

static void put_own_headers(struct rb_object *o, const struct request *r, struct rf_str hash)
{
	rb_put_str(o, "host", r->url.host);
	rb_put_str(o, "x-amz-date", rf_str(r->time));
	if (rf_str_is(r->service, "s3") || rf_str_is(r->service, "glacier"))
		rb_put_str(o, "x-amz-content-sha256", hash);
	if (r->token.n > 0)
		rb_put_str(o, "x-amz-security-token", r->token);
}

static bool is_ignored(struct rf_str name)
{
	return rf_str_is(name, "authorization") || rf_str_is(name, "user-agent") ||
	       rf_str_is(name, "x-amzn-trace-id");
}

static enum rf_rb_result lower(struct rf_rb_env *e, struct rf_str s, struct rf_rv *ret)
{
	struct rb_text out = { .e = e };

	for (size_t i = 0; i < s.n; i++)
		rb_add_c(&out, s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] | 0x20) : s.p[i]);
	return rb_text_value(&out, ret);
}

/* What is signed: the request's own headers, which win, and ours; by name in order. */
static enum rf_rb_result signed_headers(struct rf_rb_env *e, const struct request *r, struct rf_rv own,
					struct rf_rv *ret)
{
	struct rf_rv_grow g = { 0 };
	bool conflict;

	for (uint32_t i = 0; i < r->headers.n; i++) {
		struct rf_rv k = r->headers.pairs[i].key, v = r->headers.pairs[i].value;

		RB_TRY(lower(e, k.type == RF_RV_STRING ? rf_rv_text(k) : RF_STR_EMPTY, &k));
		if (v.type != RF_RV_STRING)
			v = rf_rv_str(RF_STR_EMPTY);
		if (!is_ignored(rf_rv_text(k)) && !rf_rv_put(&g, e->arena, k, v, &conflict))
			return RF_RB_FULL;
	}
	for (uint32_t i = 0; i < own.n; i++)
		if (!rf_rv_put(&g, e->arena, own.pairs[i].key, own.pairs[i].value, &conflict))
			return RF_RB_FULL;
	return rf_rv_grown_object(&g, e->arena, ret) ? RF_RB_OK : RF_RB_FULL;
}

static void add_names(struct rb_text *out, struct rf_rv headers)
{
	for (uint32_t i = 0; i < headers.n; i++) {
		rb_puts(out, i > 0 ? ";" : "");
		rb_add(out, rf_rv_text(headers.pairs[i].key));
	}
}

static void add_canonical(struct rb_text *out, const struct request *r, struct rf_rv headers,
			  struct rf_str hash)
{
	rb_add(out, r->method);
	rb_add_c(out, '\n');
	rb_url_add_path(out, &r->url);
	rb_add_c(out, '\n');
	rb_add(out, r->url.raw_query);
	rb_add_c(out, '\n');
	for (uint32_t i = 0; i < headers.n; i++) {
		rb_add(out, rf_rv_text(headers.pairs[i].key));
		rb_add_c(out, ':');
		rb_add(out, rf_rv_text(headers.pairs[i].value));
		rb_add_c(out, '\n');
	}
	rb_add_c(out, '\n');
	add_names(out, headers);
	rb_add_c(out, '\n');
	rb_add(out, hash);
}

static enum rf_rb_result signature(struct rf_rb_env *e, const struct request *r, struct rf_rv headers,
				   struct rf_str hash, unsigned char key[32])
{
	struct rb_text canonical = { .e = e }, to_sign = { .e = e }, first = { .e = e };

	add_canonical(&canonical, r, headers, hash);
	rb_printf(&to_sign, "AWS4-HMAC-SHA256\n%s\n%s/", r->time, r->day);
	rb_add(&to_sign, r->region);
	rb_add_c(&to_sign, '/');
	rb_add(&to_sign, r->service);
	rb_puts(&to_sign, "/aws4_request\n");
	sha256_hex(&to_sign, rf_str_n(canonical.p, canonical.n));
	rb_puts(&first, "AWS4");
	rb_add(&first, r->secret);
	if (canonical.full || to_sign.full || first.full)
		return RF_RB_FULL;
	(void)HMAC(EVP_sha256(), first.p, (int)first.n, (const unsigned char *)r->day, strlen(r->day), key,
		   NULL);
	chain(key, r->region);
	chain(key, r->service);
	chain(key, RF_LIT("aws4_request"));
	chain(key, rf_str_n(to_sign.p, to_sign.n));
	return RF_RB_OK;
}

static enum rf_rb_result authorization(struct rf_rb_env *e, const struct request *r, struct rf_rv headers,
				       struct rf_str hash, struct rf_rv *ret)
{
	struct rb_text out = { .e = e };
	unsigned char key[32];

	RB_TRY(signature(e, r, headers, hash, key));
	rb_puts(&out, "AWS4-HMAC-SHA256 Credential=");
	rb_add(&out, r->access_key);
	rb_printf(&out, "/%s/", r->day);
	rb_add(&out, r->region);
	rb_add_c(&out, '/');
	rb_add(&out, r->service);
	rb_puts(&out, "/aws4_request,SignedHeaders=");
	add_names(&out, headers);
	rb_puts(&out, ",Signature=");
	rb_hex_add(&out, key, sizeof(key));
	return rb_text_value(&out, ret);
}

/* The object with some of its members replaced. */
static enum rf_rb_result overlay(struct rf_rb_env *e, struct rf_rv under, struct rf_rv over,
				 struct rf_rv *ret)
{
	struct rf_rv_grow g = { 0 };
	bool conflict;

	for (uint32_t i = 0; i < over.n; i++)
		if (!rf_rv_put(&g, e->arena, over.pairs[i].key, over.pairs[i].value, &conflict))
			return RF_RB_FULL;
	for (uint32_t i = 0; i < under.n; i++)
		if (!rf_rv_put(&g, e->arena, under.pairs[i].key, under.pairs[i].value, &conflict))
			return RF_RB_FULL;
	return rf_rv_grown_object(&g, e->arena, ret) ? RF_RB_OK : RF_RB_FULL;
}

enum rf_rb_result rb_aws_sign_req(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				  struct rf_err *err)
{
	struct rb_object own = { .e = e }, all = { .e = e }, out = { .e = e };
	struct rf_rv own_headers, headers, auth, new_headers, new_part;
	struct rb_text hash = { .e = e };
	struct request r = { 0 };

	if (!rf_rb_spend(e, 200 + arg[0].n))
		return RF_RB_FULL;
	RB_TRY(read_request(e, arg, &r, err));
	if (r.unsigned_payload)
		rb_puts(&hash, "UNSIGNED-PAYLOAD");
	else
		sha256_hex(&hash, r.body);
	if (hash.full || !rf_rb_spend(e, (int64_t)(r.body.n / 16) + r.headers.n))
		return RF_RB_FULL;
	put_own_headers(&own, &r, rf_str_n(hash.p, hash.n));
	RB_TRY(rb_object_value(&own, &own_headers));
	RB_TRY(signed_headers(e, &r, own_headers, &headers));
	RB_TRY(authorization(e, &r, headers, rf_str_n(hash.p, hash.n), &auth));
	rb_put(&all, "Authorization", auth);
	for (uint32_t i = 0; i < own_headers.n; i++) {
		bool conflict;

		if (!rf_rv_put(&all.g, e->arena, own_headers.pairs[i].key, own_headers.pairs[i].value,
			       &conflict))
			return RF_RB_FULL;
	}
	RB_TRY(rb_object_value(&all, &new_headers));
	RB_TRY(overlay(e, r.headers, new_headers, &new_headers));
	rb_put(&out, "headers", new_headers);
	RB_TRY(rb_object_value(&out, &new_part));
	return overlay(e, r.object, new_part, ret);
}
