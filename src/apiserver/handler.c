/* Every request passes here: who, what, may he, then the verb. */
#include "apiserver/api.h"
#include "apiserver/auth.h"
#include "apiserver/discovery.h"
#include "apiserver/rbac.h"

static const struct {
	const char *verb;
	int (*run)(struct rf_req *r, struct rf_err *err);
} VERBS[] = {
	{ "get", rf_verb_get },	      { "list", rf_verb_list },
	{ "watch", rf_verb_watch },   { "create", rf_verb_create },
	{ "update", rf_verb_update }, { "patch", rf_verb_patch },
	{ "delete", rf_verb_delete }, { "deletecollection", rf_verb_delete_collection },
};

static const struct {
	const char *sub;
	int (*run)(struct rf_req *r, struct rf_err *err);
} ACTIONS[] = {
	{ "binding", rf_verb_bind },
	{ "eviction", rf_verb_evict },
	{ "log", rf_verb_log },
	{ "token", rf_verb_token },
};

static int dispatch(struct rf_req *r, struct rf_err *err)
{
	if (!r->route.kind->stored)
		return rf_verb_review(r, err);
	for (size_t i = 0; i < RF_COUNT(ACTIONS); i++)
		if (rf_str_is(r->route.sub, ACTIONS[i].sub))
			return ACTIONS[i].run(r, err);
	for (size_t i = 0; i < RF_COUNT(VERBS); i++)
		if (strcmp(r->route.verb, VERBS[i].verb) == 0)
			return VERBS[i].run(r, err);
	return rf_fail(err, RF_NOT_ALLOWED, "verb %s is not served", r->route.verb);
}

static int read_dry_run(struct rf_req *r, struct rf_err *err)
{
	struct rf_str dry = rf_query(r, "dryRun");

	if (dry.n > 0 && !rf_str_is(dry, "All"))
		return rf_fail(err, RF_INVALID,
			       "dryRun: Unsupported value: \"%.*s\": supported values: \"All\"",
			       RF_STR(dry));
	r->dry_run = dry.n > 0;
	return 0;
}

static int serve_object(struct rf_req *r, struct rf_err *err)
{
	bool watch = rf_query_true(r, "watch");

	if (rf_route_parse(r->http->method, r->http->path, watch, &r->route, err) < 0)
		return -err->code;
	if (rf_rbac_authorize(r, err) < 0 || read_dry_run(r, err) < 0)
		return -err->code;
	if (rf_check_unread(r, err) < 0)
		return -err->code;
	return rf_negotiate(r) ? dispatch(r, err) : 0;
}

/* Nothing under a resource's path is discovery, so the shape of the path decides. */
static bool is_object_path(struct rf_str path)
{
	struct rf_str rest = rf_str_skip(path, 1), head;
	size_t n = 0;

	rf_str_cut(&rest, '/', &head);
	if (!rf_str_is(head, "api") && !rf_str_is(head, "apis"))
		return false;
	while (rest.n > 0) {
		struct rf_str one;

		rf_str_cut(&rest, '/', &one);
		n++;
	}
	return n > (rf_str_is(head, "api") ? 1U : 2U);
}

static int serve(struct rf_req *r, struct rf_err *err)
{
	if (rf_discovery_is_open(r->http->path)) {
		rf_discovery_handle(r);
		return 0;
	}
	if (rf_authenticate(r, err) < 0 || rf_impersonate(r, err) < 0)
		return -err->code;
	if (is_object_path(r->http->path))
		return serve_object(r, err);
	if (rf_rbac_authorize_path(r, err) < 0)
		return -err->code;
	if (!rf_str_is(r->http->method, "GET") && !rf_str_is(r->http->method, "HEAD"))
		return rf_fail(err, RF_NOT_ALLOWED, "only GET is served here");
	if (!rf_discovery_handle(r))
		return rf_fail(err, RF_NOT_FOUND,
			       "the server could not find the requested resource");
	return 0;
}

void rf_api_handle(void *ctx, struct rf_http_req *http)
{
	rf_auto(arena) work = RF_ARENA_CAPPED(RF_REQUEST_MEMORY);
	struct rf_err err = RF_ERR_INIT;
	struct rf_req r = { .api = ctx, .http = http, .a = &work, .warnings = RF_BUF_INIT };

	if (serve(&r, &err) < 0)
		rf_reply_error(&r, &err);
	rf_buf_done(&r.warnings);
}
