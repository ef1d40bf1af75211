/* Nobody may grant what he does not have, unless told that he may. */
#include "apiserver/admission.h"
#include "apiserver/rbac.h"

static bool may(struct rf_req *r, const char *verb, const char *resource, struct rf_str ns,
		struct rf_str name)
{
	struct rf_ask ask = { .verb = rf_str(verb),
			      .group = RF_LIT("rbac.authorization.k8s.io"),
			      .resource = rf_str(resource),
			      .name = name,
			      .ns = ns };

	return rf_rbac_allows(r->api->rbac, &r->user, &ask);
}

static int admit_role(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		      const struct rf_json *o, struct rf_err *err)
{
	const struct rf_json *was = rf_json_at(old, "rules"), *is = rf_json_at(o, "rules");

	if ((was != NULL && is != NULL && rf_json_equal(was, is)) ||
	    may(r, "escalate", k->plural, r->route.ns, rf_json_str_at(o, "metadata", "name")))
		return 0;
	return rf_rbac_covers(r->api->rbac, &r->user, r->route.ns, is, err);
}

static int admit_binding(struct rf_req *r, const struct rf_json *old, const struct rf_json *o,
			 struct rf_err *err)
{
	struct rf_str kind = rf_json_str_at(o, "roleRef", "kind");
	struct rf_str name = rf_json_str_at(o, "roleRef", "name");
	const struct rf_json *was = rf_json_at(old, "subjects"), *is = rf_json_at(o, "subjects");
	const char *resource = rf_str_is(kind, "ClusterRole") ? "clusterroles" : "roles";
	const struct rf_json *rules;

	if ((was != NULL && is != NULL && rf_json_equal(was, is)) ||
	    may(r, "bind", resource, r->route.ns, name))
		return 0;
	rules = rf_rbac_role_rules(r->api->rbac, kind, r->route.ns, name);
	if (rules == NULL)
		return rf_fail(
			err, RF_FORBIDDEN,
			"%.*s \"%.*s\" does not exist, so what it would grant cannot be checked; "
			"create it first",
			RF_STR(kind), RF_STR(name));
	return rf_rbac_covers(r->api->rbac, &r->user, r->route.ns, rules, err);
}

int rf_admit_rbac(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		  const struct rf_json *o, struct rf_err *err)
{
	if (rf_kind_is(k, "roles") || rf_kind_is(k, "clusterroles"))
		return admit_role(r, k, old, o, err);
	return admit_binding(r, old, o, err);
}
