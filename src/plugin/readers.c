/* Who may read the metrics: Kubernetes says, and is not asked more than is good for it and for us. */
#include <openssl/sha.h>

#include "plugin/private.h"

#define TOKEN_MAX ((size_t)16 << 10)
#define ANSWER_MS 30000
#define STRANGERS_PER_SECOND 4

/* --- asking ----------------------------------------------------------------------------------- */

static int review_token(struct rf_plugin *p, struct rf_arena *a, struct rf_str token,
			struct rf_json **ret_user, struct rf_err *err)
{
	struct rf_json *review = rf_json_make(a,
					      "{'apiVersion':'authentication.k8s.io/"
					      "v1','kind':'TokenReview','spec':{'token':%S}}",
					      token);

	if (rf_plugin_create(p, a, RF_LIT("/apis/authentication.k8s.io/v1/tokenreviews"), review,
			     &review, err) < 0)
		return -err->code;
	*ret_user = rf_json_is_true(rf_json_at(review, "status", "authenticated"))
			    ? rf_json_at(review, "status", "user")
			    : NULL;
	return 0;
}

static int review_access(struct rf_plugin *p, struct rf_arena *a, const struct rf_json *user,
			 bool *ret_allowed, struct rf_err *err)
{
	struct rf_json *spec = rf_json_make(
		a, "{'user':%S,'uid':%S,'nonResourceAttributes':{'path':'/metrics','verb':'get'}}",
		rf_json_str_at(user, "username"), rf_json_str_at(user, "uid"));
	struct rf_json *review;

	if (rf_json_at(user, "groups") != NULL)
		rf_json_set(a, spec, RF_LIT("groups"),
			    rf_json_clone(a, rf_json_at(user, "groups")));
	if (rf_json_at(user, "extra") != NULL)
		rf_json_set(a, spec, RF_LIT("extra"), rf_json_clone(a, rf_json_at(user, "extra")));
	review = rf_json_make(a,
			      "{'apiVersion':'authorization.k8s.io/v1','kind':"
			      "'SubjectAccessReview','spec':%j}",
			      spec);
	if (rf_plugin_create(p, a, RF_LIT("/apis/authorization.k8s.io/v1/subjectaccessreviews"),
			     review, &review, err) < 0)
		return -err->code;
	*ret_allowed = rf_json_is_true(rf_json_at(review, "status", "allowed"));
	return 0;
}

/* 200, 401, 403; 503 if Kubernetes does not say. */
static int ask(struct rf_plugin *p, struct rf_arena *a, struct rf_str token)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *user = NULL;
	bool allowed = false;

	if (review_token(p, a, token, &user, &err) < 0 ||
	    (user != NULL && review_access(p, a, user, &allowed, &err) < 0)) {
		rf_warn("metrics: ask who reads them: %s", err.msg);
		return 503;
	}
	return user == NULL ? 401 : allowed ? 200 : 403;
}

/* --- remembering ------------------------------------------------------------------------------ */

static struct rf_reader *find(struct rf_readers *r, const unsigned char token[32])
{
	for (size_t i = 0; i < RF_COUNT(r->at); i++)
		if (memcmp(r->at[i].token, token, 32) == 0)
			return &r->at[i];
	return NULL;
}

/* Those who may read are not pushed out by those who may not. */
static struct rf_reader *place(struct rf_readers *r)
{
	struct rf_reader *oldest = NULL;

	for (size_t i = 0; i < RF_COUNT(r->at); i++) {
		struct rf_reader *at = &r->at[i];
		bool good = at->answer == 200, oldest_good = oldest && oldest->answer == 200;

		if (oldest == NULL || (oldest_good && !good) ||
		    (oldest_good == good && at->until_ms < oldest->until_ms))
			oldest = at;
	}
	return oldest;
}

/* Strangers can make us ask: not often. Who was let in before is asked about in any case. */
static bool may_ask(struct rf_readers *r, const struct rf_reader *before, int64_t now)
{
	if (before != NULL && before->answer == 200)
		return true;
	if (now / 1000 != r->second)
		r->asked = 0;
	r->second = now / 1000;
	return r->asked++ < STRANGERS_PER_SECOND;
}

int rf_readers_judge(struct rf_plugin *p, struct rf_arena *a, struct rf_str authorization)
{
	struct rf_str token = rf_str_skip(authorization, 7);
	int64_t now = rf_plugin_now();
	unsigned char hash[32];

	if (!rf_str_starts(authorization, RF_LIT("Bearer ")) || token.n == 0 || token.n > TOKEN_MAX)
		return 401;
	SHA256((const unsigned char *)token.p, token.n, hash);
	struct rf_reader *r = find(&p->readers, hash);
	if (r != NULL && now < r->until_ms)
		return r->answer;
	if (!may_ask(&p->readers, r, now))
		return 429;
	int answer = ask(p, a, token);
	if (answer == 503)
		return 503;
	r = r != NULL ? r : place(&p->readers);
	memcpy(r->token, hash, sizeof(hash));
	r->until_ms = now + ANSWER_MS;
	r->answer = answer;
	return answer;
}
