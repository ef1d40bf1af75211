/* Service account tokens: ES256 JWTs, made by POST .../serviceaccounts/x/token, checked on use. */
#include "apiserver/auth.h"

#include "codec/base64.h"
#include "net/tls.h"

#define ISSUER "https://kubernetes.default.svc.cluster.local"
#define TOKEN_MAX 8192
#define SECONDS_LEAST 600
#define SECONDS_MOST 31536000
#define SECONDS_USUAL 3600
#define HEADER "{\"alg\":\"ES256\",\"typ\":\"JWT\"}"

/* --- reading -------------------------------------------------------------------------------- */

static int refuse(struct rf_err *err, const char *why)
{
	return rf_fail(err, RF_UNAUTHENTICATED, "token: %s", why);
}

static int decode_part(struct rf_arena *a, struct rf_str part, struct rf_json **ret,
		       struct rf_err *err)
{
	struct rf_str text = RF_STR_EMPTY;

	if (rf_base64url_decode(a, part, &text, err) < 0 || rf_json_parse(a, text, ret, err) < 0)
		return refuse(err, "malformed");
	return 0;
}

/* The signature is checked before anything that is signed is looked at. */
static int open_token(struct rf_api *api, struct rf_arena *a, struct rf_str token,
		      struct rf_json **ret, struct rf_err *err)
{
	struct rf_str rest = token, header = RF_STR_EMPTY, payload = RF_STR_EMPTY,
		      signature = RF_STR_EMPTY, raw = RF_STR_EMPTY;
	struct rf_json *head = NULL;

	if (token.n > TOKEN_MAX || !rf_str_cut(&rest, '.', &header) ||
	    !rf_str_cut(&rest, '.', &payload))
		return refuse(err, "malformed");
	signature = rest;
	if (decode_part(a, header, &head, err) < 0)
		return -err->code;
	if (!rf_str_is(rf_json_str_at(head, "alg"), "ES256"))
		return refuse(err, "not signed with ES256");
	if (rf_base64url_decode(a, signature, &raw, err) < 0)
		return refuse(err, "malformed");
	if (!rf_pki_verify(api->sa_pub, rf_str_n(token.p, header.n + 1 + payload.n), raw))
		return refuse(err, "the signature does not match");
	return decode_part(a, payload, ret, err);
}

static bool has_audience(const struct rf_json *claims, struct rf_str audience)
{
	const struct rf_json *all = rf_json_at(claims, "aud");

	for (size_t i = 0; i < rf_json_len(all); i++)
		if (rf_str_eq(rf_json_str(rf_json_item(all, i)), audience))
			return true;
	return false;
}

/* The account, and the pod the token may be bound to, must be the ones it was made for. */
static int still_there(struct rf_api *api, struct rf_arena *a, const char *plural, struct rf_str ns,
		       const struct rf_json *ref, struct rf_err *err)
{
	struct rf_json *o = NULL;

	if (ref == NULL)
		return 0;
	if (rf_store_get(api->store, a, rf_kind_get(plural), ns, rf_json_str_at(ref, "name"), &o,
			 err) < 0)
		return refuse(err, "what it was made for is gone");
	if (!rf_str_eq(rf_json_str_at(o, "metadata", "uid"), rf_json_str_at(ref, "uid")))
		return refuse(err, "made for an object that was replaced");
	return 0;
}

static void fill_user(struct rf_arena *a, const struct rf_json *claims, struct rf_str ns,
		      struct rf_user *ret)
{
	*ret = (struct rf_user){ .name = rf_json_str_at(claims, "sub"), .n_groups = 3 };
	ret->uid = rf_json_str_at(claims, "kubernetes.io", "serviceaccount", "uid");
	ret->until_s = rf_json_int(rf_json_at(claims, "exp"), 0);
	ret->groups[0] = RF_LIT("system:serviceaccounts");
	ret->groups[1] = rf_arena_printf(a, "system:serviceaccounts:%.*s", RF_STR(ns));
	ret->groups[2] = RF_LIT("system:authenticated");
}

int rf_token_verify(struct rf_api *api, struct rf_arena *a, struct rf_str token,
		    struct rf_str audience, struct rf_user *ret, struct rf_err *err)
{
	int64_t now = rf_wall_ms(api->clock) / 1000;
	struct rf_json *claims = NULL, *about = NULL;
	struct rf_str ns = RF_STR_EMPTY;

	if (open_token(api, a, token, &claims, err) < 0)
		return -err->code;
	if (rf_json_int(rf_json_at(claims, "exp"), 0) <= now)
		return refuse(err, "expired");
	if (rf_json_int(rf_json_at(claims, "nbf"), INT64_MAX) > now + 60)
		return refuse(err, "not valid yet");
	if (!has_audience(claims, audience.n > 0 ? audience : RF_LIT(RF_TOKEN_AUDIENCE)))
		return refuse(err, "made for another audience");
	about = rf_json_at(claims, "kubernetes.io");
	ns = rf_json_str_at(about, "namespace");
	if (rf_json_at(about, "serviceaccount") == NULL)
		return refuse(err, "not of a service account");
	if (still_there(api, a, "serviceaccounts", ns, rf_json_at(about, "serviceaccount"), err) <
		    0 ||
	    still_there(api, a, "pods", ns, rf_json_at(about, "pod"), err) < 0)
		return -err->code;
	fill_user(a, claims, ns, ret);
	return 0;
}

/* --- making --------------------------------------------------------------------------------- */

static int bound_object(struct rf_req *r, const struct rf_json *ref, struct rf_json *about,
			struct rf_err *err)
{
	struct rf_str uid = rf_json_str_at(ref, "uid"), name = rf_json_str_at(ref, "name");
	struct rf_json *pod = NULL;

	if (ref == NULL)
		return 0;
	if (!rf_str_is(rf_json_str_at(ref, "kind"), "Pod"))
		return rf_fail(err, RF_INVALID,
			       "spec.boundObjectRef.kind: a token can be bound to a Pod only");
	if (rf_store_get(r->api->store, r->a, rf_kind_get("pods"), r->route.ns, name, &pod, err) <
	    0)
		return -err->code;
	if (uid.n > 0 && !rf_str_eq(uid, rf_json_str_at(pod, "metadata", "uid")))
		return rf_fail(
			err, RF_CONFLICT,
			"the UID in the bound object reference (%.*s) does not match the pod's",
			RF_STR(uid));
	rf_json_set(r->a, about, RF_LIT("pod"),
		    rf_json_make(r->a, "{'name':%S,'uid':%S}", name,
				 rf_json_str_at(pod, "metadata", "uid")));
	return 0;
}

static int sign(struct rf_req *r, const struct rf_json *claims, struct rf_str *ret,
		struct rf_err *err)
{
	struct rf_str body = rf_arena_printf(
		r->a, "%.*s.%.*s", RF_STR(rf_base64url_encode(r->a, RF_LIT(HEADER))),
		RF_STR(rf_base64url_encode(r->a, rf_json_text_of(r->a, claims))));
	struct rf_str signature = RF_STR_EMPTY;

	if (rf_pki_sign(r->a, r->api->sa_key, body, &signature, err) < 0)
		return rf_wrap(err, "sign a token");
	*ret = rf_arena_printf(r->a, "%.*s.%.*s", RF_STR(body),
			       RF_STR(rf_base64url_encode(r->a, signature)));
	return 0;
}

static struct rf_json *audiences_of(struct rf_req *r, struct rf_json *spec)
{
	struct rf_json *aud = rf_json_at(spec, "audiences");

	if (rf_json_len(aud) > 0)
		return aud;
	aud = rf_json_array(r->a);
	rf_json_push(r->a, aud, rf_json_string(r->a, RF_LIT(RF_TOKEN_AUDIENCE)));
	rf_json_set(r->a, spec, RF_LIT("audiences"), aud);
	return aud;
}

static int check_spec(struct rf_json *spec, struct rf_arena *a, int64_t *ret_seconds,
		      struct rf_err *err)
{
	int64_t seconds = rf_json_int(rf_json_at(spec, "expirationSeconds"), 0);

	if (seconds == 0)
		seconds = SECONDS_USUAL;
	if (seconds < SECONDS_LEAST || seconds > SECONDS_MOST)
		return rf_fail(
			err, RF_INVALID,
			"spec.expirationSeconds: Invalid value: %lld: must be %d to %d seconds",
			(long long)seconds, SECONDS_LEAST, SECONDS_MOST);
	if (rf_json_len(rf_json_at(spec, "audiences")) > 16)
		return rf_fail(err, RF_INVALID, "spec.audiences: Too many: at most 16");
	rf_json_set_int(a, spec, "expirationSeconds", seconds);
	*ret_seconds = seconds;
	return 0;
}

/* A node asks for tokens of its own pods only, bound to them. */
static int check_node(struct rf_req *r, const struct rf_json *spec, struct rf_err *err)
{
	struct rf_str node = rf_user_node(&r->user);
	struct rf_str name = rf_json_str_at(spec, "boundObjectRef", "name");
	struct rf_json *pod = NULL;

	if (node.n == 0)
		return 0;
	if (name.n > 0 &&
	    rf_store_get(r->api->store, r->a, rf_kind_get("pods"), r->route.ns, name, &pod, err) ==
		    0 &&
	    rf_str_eq(rf_json_str_at(pod, "spec", "nodeName"), node) &&
	    rf_str_eq(rf_json_str_at(pod, "spec", "serviceAccountName"), r->route.name))
		return 0;
	return rf_fail(err, RF_FORBIDDEN,
		       "node \"%.*s\" may only request tokens bound to pods it runs, of their own "
		       "service account",
		       RF_STR(node));
}

int rf_verb_token(struct rf_req *r, struct rf_err *err)
{
	const struct rf_route *t = &r->route;
	int64_t now = rf_wall_ms(r->api->clock) / 1000, seconds;
	struct rf_json *ask = NULL, *sa = NULL, *spec = NULL, *about = NULL, *claims = NULL;
	struct rf_str token = RF_STR_EMPTY;

	if (rf_read_object(r, &ask, err) < 0 ||
	    rf_store_get(r->api->store, r->a, t->kind, t->ns, t->name, &sa, err) < 0)
		return -err->code;
	spec = rf_json_ensure(r->a, ask, "spec");
	if (check_node(r, spec, err) < 0 || check_spec(spec, r->a, &seconds, err) < 0)
		return -err->code;
	about = rf_json_make(r->a, "{'namespace':%S,'serviceaccount':{'name':%S,'uid':%S}}", t->ns,
			     t->name, rf_json_str_at(sa, "metadata", "uid"));
	if (bound_object(r, rf_json_at(spec, "boundObjectRef"), about, err) < 0)
		return -err->code;
	claims = rf_json_make(r->a,
			      "{'iss':%s,'sub':%S,'aud':%j,'iat':%D,'nbf':%D,'exp':%D,'jti':%S,"
			      "'kubernetes.io':%j}",
			      ISSUER,
			      rf_arena_printf(r->a, "system:serviceaccount:%.*s:%.*s",
					      RF_STR(t->ns), RF_STR(t->name)),
			      audiences_of(r, spec), now, now, now + seconds, rf_rand_uuid(r->a),
			      about);
	if (sign(r, claims, &token, err) < 0)
		return -err->code;
	rf_json_set(r->a, ask, RF_LIT("status"),
		    rf_json_make(r->a, "{'token':%S,'expirationTimestamp':%S}", token,
				 rf_time_format(r->a, (now + seconds) * 1000)));
	r->form = RF_FORM_FULL;
	rf_reply_object(r, 201, ask);
	return 0;
}
