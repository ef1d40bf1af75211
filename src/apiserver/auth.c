#include "apiserver/auth.h"

#include "apiserver/rbac.h"

bool rf_user_in(const struct rf_user *u, const char *group)
{
	for (size_t i = 0; i < u->n_groups; i++)
		if (rf_str_is(u->groups[i], group))
			return true;
	return false;
}

bool rf_user_is_platform(const struct rf_user *u)
{
	return rf_user_in(u, RF_MASTERS) || rf_str_is(u->name, RF_CONTROL_USER);
}

struct rf_str rf_user_node(const struct rf_user *u)
{
	struct rf_str prefix = RF_LIT(RF_NODE_PREFIX);

	if (!rf_user_in(u, RF_NODES_GROUP) || !rf_str_starts(u->name, prefix))
		return RF_STR_EMPTY;
	return rf_str_skip(u->name, prefix.n);
}

static void add_group(struct rf_user *u, struct rf_str group)
{
	if (u->n_groups < RF_COUNT(u->groups))
		u->groups[u->n_groups++] = group;
}

static void from_certificate(struct rf_req *r)
{
	const struct rf_http_peer *p = r->http->peer;

	r->user = (struct rf_user){ .name = p->common_name, .uid = RF_STR_EMPTY };
	for (size_t i = 0; i < p->n_groups; i++)
		add_group(&r->user, p->groups[i]);
	add_group(&r->user, RF_LIT("system:authenticated"));
}

int rf_authenticate(struct rf_req *r, struct rf_err *err)
{
	struct rf_str header = rf_http_get_header(r->http, "authorization"), scheme;

	if (header.n > 0) {
		rf_str_cut(&header, ' ', &scheme);
		if (!rf_str_ieq(scheme, RF_LIT("bearer")))
			return rf_fail(err, RF_UNAUTHENTICATED, "Unauthorized");
		if (rf_token_verify(r->api, r->a, rf_str_trim(header), RF_STR_EMPTY, &r->user,
				    err) < 0) {
			/* What is wrong with a token is for the log; its bearer learns only that. */
			rf_debug("token refused: %s", err->msg);
			return rf_fail(err, RF_UNAUTHENTICATED, "Unauthorized");
		}
		return 0;
	}
	if (!r->http->peer->has_cert || r->http->peer->common_name.n == 0)
		return rf_fail(err, RF_UNAUTHENTICATED, "Unauthorized");
	from_certificate(r);
	return 0;
}

/* --- impersonation -------------------------------------------------------------------------- */

static int may_be(struct rf_req *r, const char *resource, struct rf_str ns, struct rf_str name,
		  struct rf_err *err)
{
	struct rf_ask ask = {
		.verb = RF_LIT("impersonate"), .resource = rf_str(resource), .name = name, .ns = ns
	};

	if (rf_rbac_allows(r->api->rbac, &r->user, &ask))
		return 0;
	return rf_fail(
		err, RF_FORBIDDEN,
		"%s \"%.*s\" is forbidden: User \"%.*s\" cannot impersonate resource \"%s\" in "
		"API group \"\" at the cluster scope",
		resource, RF_STR(name), RF_STR(r->user.name), resource);
}

static int may_be_user(struct rf_req *r, struct rf_str name, struct rf_err *err)
{
	struct rf_str prefix = RF_LIT("system:serviceaccount:"), rest, ns;

	if (!rf_str_starts(name, prefix))
		return may_be(r, "users", RF_STR_EMPTY, name, err);
	rest = rf_str_skip(name, prefix.n);
	rf_str_cut(&rest, ':', &ns);
	return may_be(r, "serviceaccounts", ns, rest, err);
}

static void service_account_groups(struct rf_arena *a, struct rf_user *u)
{
	struct rf_str prefix = RF_LIT("system:serviceaccount:"), rest, ns;

	if (!rf_str_starts(u->name, prefix))
		return;
	rest = rf_str_skip(u->name, prefix.n);
	rf_str_cut(&rest, ':', &ns);
	add_group(u, RF_LIT("system:serviceaccounts"));
	add_group(u, rf_arena_printf(a, "system:serviceaccounts:%.*s", RF_STR(ns)));
}

/* Headers that say more than user and groups; ignoring them would grant what was not asked for. */
static bool is_extra(struct rf_str name)
{
	struct rf_str prefix = RF_LIT("impersonate-extra-");

	return rf_str_ieq(name, RF_LIT("impersonate-uid")) ||
	       (name.n > prefix.n && rf_str_ieq(rf_str_n(name.p, prefix.n), prefix));
}

static int impersonate_groups(struct rf_req *r, struct rf_user *u, struct rf_err *err)
{
	for (size_t i = 0; i < r->http->n_headers; i++) {
		const struct rf_http_header *h = &r->http->headers[i];

		if (is_extra(h->name))
			return rf_fail(err, RF_BAD_REQUEST,
				       "%.*s: only users and groups are served", RF_STR(h->name));
		if (!rf_str_ieq(h->name, RF_LIT("impersonate-group")))
			continue;
		if (u->n_groups + 4 > RF_COUNT(u->groups))
			return rf_fail(err, RF_BAD_REQUEST, "too many Impersonate-Group headers");
		if (may_be(r, "groups", RF_STR_EMPTY, h->value, err) < 0)
			return -err->code;
		add_group(u, h->value);
	}
	return 0;
}

int rf_impersonate(struct rf_req *r, struct rf_err *err)
{
	struct rf_str name = rf_http_get_header(r->http, "impersonate-user");
	struct rf_user u = { .name = name, .uid = RF_STR_EMPTY };

	if (name.n == 0) {
		if (rf_http_get_header(r->http, "impersonate-group").n > 0)
			return rf_fail(err, RF_BAD_REQUEST,
				       "requested impersonation without impersonating a user");
		return 0;
	}
	if (may_be_user(r, name, err) < 0 || impersonate_groups(r, &u, err) < 0)
		return -err->code;
	if (u.n_groups == 0)
		service_account_groups(r->a, &u);
	add_group(&u, RF_LIT("system:authenticated"));
	r->user = u;
	return 0;
}
