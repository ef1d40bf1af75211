/* Nobody grants more than he has: the check on roles and bindings that are written. */
#include "apiserver/rbac.h"

/* A role takes every combination of its lists apart; this many are more than any real role has. */
#define ATOMS_MAX 20000

static int lacks(const struct rf_user *u, const struct rf_ask *ask, struct rf_err *err)
{
	if (ask->path.n > 0)
		return rf_fail(
			err, RF_FORBIDDEN,
			"user \"%.*s\" is attempting to grant RBAC permissions not currently "
			"held: {NonResourceURLs:[\"%.*s\"], Verbs:[\"%.*s\"]}; ask an "
			"administrator to write it",
			RF_STR(u->name), RF_STR(ask->path), RF_STR(ask->verb));
	return rf_fail(
		err, RF_FORBIDDEN,
		"user \"%.*s\" is attempting to grant RBAC permissions not currently held: "
		"{APIGroups:[\"%.*s\"], Resources:[\"%.*s%s%.*s\"], Verbs:[\"%.*s\"]}; ask an "
		"administrator to write it",
		RF_STR(u->name), RF_STR(ask->group), RF_STR(ask->resource),
		ask->sub.n > 0 ? "/" : "", RF_STR(ask->sub), RF_STR(ask->verb));
}

struct cover {
	struct rf_rbac *b;
	const struct rf_user *u;
	struct rf_ask ask;
	size_t atoms;
	struct rf_err *err;
};

static int check_atom(struct cover *c)
{
	if (++c->atoms > ATOMS_MAX)
		return rf_fail(c->err, RF_FORBIDDEN, "the role's rules are too many to check");
	return rf_rbac_allows(c->b, c->u, &c->ask) ? 0 : lacks(c->u, &c->ask, c->err);
}

static int check_names(struct cover *c, const struct rf_json *rule)
{
	const struct rf_json *names = rf_json_at(rule, "resourceNames");

	c->ask.name = RF_STR_EMPTY;
	if (rf_json_len(names) == 0)
		return check_atom(c);
	for (size_t i = 0; i < rf_json_len(names); i++) {
		c->ask.name = rf_json_str(rf_json_item(names, i));
		if (check_atom(c) < 0)
			return -c->err->code;
	}
	return 0;
}

/* '*' asks for '*': only a rule that has the star itself holds it. */
static int check_resources(struct cover *c, const struct rf_json *rule)
{
	const struct rf_json *groups = rf_json_at(rule, "apiGroups");
	const struct rf_json *resources = rf_json_at(rule, "resources");

	for (size_t g = 0; g < rf_json_len(groups); g++) {
		c->ask.group = rf_json_str(rf_json_item(groups, g));
		for (size_t i = 0; i < rf_json_len(resources); i++) {
			struct rf_str s = rf_json_str(rf_json_item(resources, i));

			rf_str_cut(&s, '/', &c->ask.resource);
			c->ask.sub = s;
			if (check_names(c, rule) < 0)
				return -c->err->code;
		}
	}
	return 0;
}

static int check_paths(struct cover *c, const struct rf_json *rule)
{
	const struct rf_json *urls = rf_json_at(rule, "nonResourceURLs");

	for (size_t i = 0; i < rf_json_len(urls); i++) {
		c->ask.path = rf_json_str(rf_json_item(urls, i));
		if (check_atom(c) < 0)
			return -c->err->code;
	}
	c->ask.path = RF_STR_EMPTY;
	return 0;
}

int rf_rbac_covers(struct rf_rbac *b, const struct rf_user *u, struct rf_str ns,
		   const struct rf_json *rules, struct rf_err *err)
{
	struct cover c = { .b = b, .u = u, .ask = { .ns = ns }, .err = err };

	for (size_t i = 0; i < rf_json_len(rules); i++) {
		const struct rf_json *rule = rf_json_item(rules, i);
		const struct rf_json *verbs = rf_json_at(rule, "verbs");

		for (size_t v = 0; v < rf_json_len(verbs); v++) {
			c.ask.verb = rf_json_str(rf_json_item(verbs, v));
			if (check_resources(&c, rule) < 0 || check_paths(&c, rule) < 0)
				return -err->code;
		}
	}
	return 0;
}

/* --- the request's own permission -------------------------------------------------------------- */

struct rf_ask rf_rbac_ask(const struct rf_route *t, const char *verb)
{
	struct rf_ask ask = { .verb = rf_str(verb),
			      .group = rf_str(t->kind->group),
			      .resource = rf_str(t->kind->plural),
			      .sub = t->sub,
			      .name = t->name,
			      .ns = t->ns };

	/* Inside a namespace that is the object itself, a role of that namespace may speak of it. */
	if (rf_kind_is(t->kind, "namespaces"))
		ask.ns = t->name;
	return ask;
}

int rf_rbac_authorize(struct rf_req *r, struct rf_err *err)
{
	const struct rf_route *t = &r->route;
	struct rf_ask ask = rf_rbac_ask(t, t->verb);
	struct rf_str where = RF_LIT(" at the cluster scope");
	struct rf_str what = rf_kind_resource(r->a, t->kind);

	if (rf_rbac_allows(r->api->rbac, &r->user, &ask))
		return 0;
	if (t->ns.n > 0)
		where = rf_arena_printf(r->a, " in the namespace \"%.*s\"", RF_STR(t->ns));
	if (t->name.n > 0)
		what = rf_arena_printf(r->a, "%.*s \"%.*s\"", RF_STR(what), RF_STR(t->name));
	return rf_fail(
		err, RF_FORBIDDEN,
		"%.*s is forbidden: User \"%.*s\" cannot %s resource \"%s%s%.*s\" in API group "
		"\"%s\"%.*s",
		RF_STR(what), RF_STR(r->user.name), t->verb, t->kind->plural,
		t->sub.n > 0 ? "/" : "", RF_STR(t->sub), t->kind->group, RF_STR(where));
}

int rf_rbac_authorize_path(struct rf_req *r, struct rf_err *err)
{
	struct rf_ask ask = { .verb = RF_LIT("get"), .path = r->http->path };

	if (rf_rbac_allows(r->api->rbac, &r->user, &ask))
		return 0;
	return rf_fail(err, RF_FORBIDDEN, "forbidden: User \"%.*s\" cannot get path \"%.*s\"",
		       RF_STR(r->user.name), RF_STR(r->http->path));
}
