/* Questions about who one is and what one may do: they answer and keep nothing. */
#include "apiserver/auth.h"
#include "apiserver/rbac.h"

static struct rf_json *strings(struct rf_arena *a, const struct rf_str *at, size_t n)
{
	struct rf_json *list = rf_json_array(a);

	for (size_t i = 0; i < n; i++)
		rf_json_push(a, list, rf_json_string(a, at[i]));
	return list;
}

static struct rf_json *user_info(struct rf_arena *a, const struct rf_user *u)
{
	struct rf_json *info = rf_json_make(a, "{'username':%S,'groups':%j}", u->name,
					    strings(a, u->groups, u->n_groups));

	if (u->uid.n > 0)
		rf_json_set_str(a, info, "uid", u->uid);
	return info;
}

static struct rf_ask ask_of(const struct rf_json *spec)
{
	const struct rf_json *res = rf_json_at(spec, "resourceAttributes");
	const struct rf_json *path = rf_json_at(spec, "nonResourceAttributes");

	if (res == NULL)
		return (struct rf_ask){ .verb = rf_json_str_at(path, "verb"),
					.path = rf_json_str_at(path, "path"),
					.ns = RF_STR_EMPTY };
	return (struct rf_ask){ .verb = rf_json_str_at(res, "verb"),
				.group = rf_json_str_at(res, "group"),
				.resource = rf_json_str_at(res, "resource"),
				.sub = rf_json_str_at(res, "subresource"),
				.name = rf_json_str_at(res, "name"),
				.ns = rf_json_str_at(res, "namespace"),
				.path = RF_STR_EMPTY };
}

static int check_access_spec(const struct rf_json *spec, struct rf_err *err)
{
	bool res = rf_json_at(spec, "resourceAttributes") != NULL;
	bool path = rf_json_at(spec, "nonResourceAttributes") != NULL;

	if (res != path)
		return 0;
	return rf_fail(err, RF_INVALID,
		       "spec: Invalid value: exactly one of resourceAttributes and "
		       "nonResourceAttributes must be given");
}

static int access_review(struct rf_req *r, struct rf_json *o, const struct rf_user *u,
			 struct rf_err *err)
{
	struct rf_json *spec = rf_json_at(o, "spec");
	struct rf_ask ask;
	bool yes;

	if (check_access_spec(spec, err) < 0)
		return -err->code;
	ask = ask_of(spec);
	yes = rf_rbac_allows(r->api->rbac, u, &ask);
	rf_json_set(
		r->a, o, RF_LIT("status"),
		rf_json_make(r->a, "{'allowed':%b,'reason':%s}", yes, yes ? "RBAC: allowed" : ""));
	return 0;
}

static int review_other(struct rf_req *r, struct rf_json *o, struct rf_err *err)
{
	struct rf_json *spec = rf_json_at(o, "spec"), *groups = rf_json_at(spec, "groups");
	struct rf_user u = { .name = rf_json_str_at(spec, "user"), .uid = RF_STR_EMPTY };
	struct rf_str ns = rf_json_str_at(spec, "resourceAttributes", "namespace");

	for (size_t i = 0; i < rf_json_len(groups) && i < RF_COUNT(u.groups); i++)
		u.groups[u.n_groups++] = rf_json_str(rf_json_item(groups, i));
	if (u.name.n == 0 && u.n_groups == 0)
		return rf_fail(
			err, RF_INVALID,
			"spec.user: Invalid value: \"\": at least one of user or group must be "
			"specified");
	if (r->route.ns.n > 0 && !rf_str_eq(ns, r->route.ns))
		return rf_fail(err, RF_INVALID,
			       "spec.resourceAttributes.namespace: Invalid value: must match the "
			       "request's namespace");
	return access_review(r, o, &u, err);
}

/* Kubernetes splits a user's rules into those on resources and those on paths. */
static void rules_review(struct rf_req *r, struct rf_json *o)
{
	struct rf_json *all =
		rf_rbac_rules(r->api->rbac, r->a, &r->user, rf_json_str_at(o, "spec", "namespace"));
	struct rf_json *res = rf_json_array(r->a), *paths = rf_json_array(r->a);

	for (size_t i = 0; i < rf_json_len(all); i++) {
		struct rf_json *rule = rf_json_item(all, i);

		if (rf_json_len(rf_json_at(rule, "nonResourceURLs")) > 0)
			rf_json_push(r->a, paths, rule);
		else
			rf_json_push(r->a, res, rule);
	}
	rf_json_set(r->a, o, RF_LIT("status"),
		    rf_json_make(r->a,
				 "{'resourceRules':%j,'nonResourceRules':%j,'incomplete':false}",
				 res, paths));
}

static void token_review(struct rf_req *r, struct rf_json *o)
{
	struct rf_str audience = rf_json_str(rf_json_item(rf_json_at(o, "spec", "audiences"), 0));
	struct rf_err err = RF_ERR_INIT;
	struct rf_user u;

	if (rf_token_verify(r->api, r->a, rf_json_str_at(o, "spec", "token"), audience, &u, &err) <
	    0)
		rf_json_set(r->a, o, RF_LIT("status"),
			    rf_json_make(r->a, "{'authenticated':false,'error':%s}", err.msg));
	else
		rf_json_set(r->a, o, RF_LIT("status"),
			    rf_json_make(r->a, "{'authenticated':true,'user':%j}",
					 user_info(r->a, &u)));
}

static int answer(struct rf_req *r, struct rf_json *o, struct rf_err *err)
{
	const struct rf_kind *k = r->route.kind;

	if (rf_kind_is(k, "selfsubjectaccessreviews"))
		return access_review(r, o, &r->user, err);
	if (rf_kind_is(k, "subjectaccessreviews") || rf_kind_is(k, "localsubjectaccessreviews"))
		return review_other(r, o, err);
	if (rf_kind_is(k, "selfsubjectrulesreviews"))
		rules_review(r, o);
	else if (rf_kind_is(k, "tokenreviews"))
		token_review(r, o);
	else
		rf_json_set(r->a, o, RF_LIT("status"),
			    rf_json_make(r->a, "{'userInfo':%j}", user_info(r->a, &r->user)));
	return 0;
}

int rf_verb_review(struct rf_req *r, struct rf_err *err)
{
	struct rf_json *o;

	if (rf_read_object(r, &o, err) < 0 || answer(r, o, err) < 0)
		return -err->code;
	r->form = RF_FORM_FULL;
	rf_reply_object(r, 201, o);
	return 0;
}
