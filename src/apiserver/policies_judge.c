/* What the policies say to a request: it is told to them as Kubernetes tells its webhooks. */
#include "apiserver/policies.h"
#include "policy/book.h"

#define WEBHOOK "validation.gatekeeper.sh" /* whose words scripts look for */

static bool is_exempt(const struct rf_user *u)
{
	return rf_str_is(u->name, RF_CONTROL_USER) || rf_user_in(u, "system:ringfence") ||
	       rf_user_node(u).n > 0;
}

static bool is_judged(const struct rf_req *r, const struct rf_json *old, const struct rf_json *o)
{
	const struct rf_kind *k = r->route.kind;

	if (rf_str_is(r->route.sub, "status") || is_exempt(&r->user) || rf_sync_is_setting(k))
		return false;
	/* A subresource's body is no object of the kind. */
	return r->route.sub.n > 0 || (!rf_policies_has(k, old) && !rf_policies_has(k, o));
}

/* A "*" at either end stands for anything. */
static bool fits(struct rf_str pattern, struct rf_str s)
{
	bool open = rf_str_starts(pattern, RF_LIT("*")), more = rf_str_ends(pattern, RF_LIT("*"));
	struct rf_str text = pattern;

	if (rf_str_is(pattern, "*"))
		return true;
	if (open)
		text = rf_str_skip(text, 1);
	if (more)
		text.n--;
	if (open && more)
		return rf_str_contains(s, text);
	return open ? rf_str_ends(s, text) : more ? rf_str_starts(s, text) : rf_str_eq(s, text);
}

static bool any_fits(const struct rf_json *patterns, struct rf_str s)
{
	for (size_t i = 0; i < rf_json_len(patterns); i++)
		if (fits(rf_json_str(rf_json_item(patterns, i)), s))
			return true;
	return false;
}

static bool for_webhook(const struct rf_json *processes)
{
	for (size_t i = 0; i < rf_json_len(processes); i++)
		if (rf_word_in("* webhook", rf_json_str(rf_json_item(processes, i))))
			return true;
	return false;
}

/* Gatekeeper's Config may leave namespaces alone altogether; there is one, and it has this name. */
static bool is_excluded(struct rf_req *r, struct rf_str ns)
{
	struct rf_json *config = NULL;
	const struct rf_json *match;

	if (ns.n == 0 ||
	    rf_store_get(r->api->store, r->a, rf_kind_get("configs"), RF_LIT("gatekeeper-system"),
			 RF_LIT("config"), &config, NULL) < 0)
		return false;
	match = rf_json_at(config, "spec", "match");
	for (size_t i = 0; i < rf_json_len(match); i++)
		if (for_webhook(rf_json_at(rf_json_item(match, i), "processes")) &&
		    any_fits(rf_json_at(rf_json_item(match, i), "excludedNamespaces"), ns))
			return true;
	return false;
}

static struct rf_json *strings(struct rf_arena *a, const struct rf_str *s, size_t n)
{
	struct rf_json *list = rf_json_array(a);

	for (size_t i = 0; i < n; i++)
		rf_json_push(a, list, rf_json_string(a, s[i]));
	return list;
}

/* {"group", "version", "kind"} of an object. */
static struct rf_json *gvk_of(struct rf_arena *a, const struct rf_json *o)
{
	struct rf_str version = rf_json_str_at(o, "apiVersion"), group = RF_STR_EMPTY;

	if (rf_str_contains(version, RF_LIT("/")))
		rf_str_cut(&version, '/', &group);
	return rf_json_make(a, "{'group':%S,'version':%S,'kind':%S}", group, version,
			    rf_json_str_at(o, "kind"));
}

static struct rf_json *options_of(struct rf_req *r, const char *operation)
{
	static const char *const COPIED[] = { "fieldManager", "fieldValidation",
					      "propagationPolicy" };
	const char *kind = operation[0] == 'C'	 ? "CreateOptions"
			   : operation[0] == 'U' ? "UpdateOptions"
						 : "DeleteOptions";
	struct rf_json *o = rf_json_make(r->a, "{'kind':%s,'apiVersion':'meta.k8s.io/v1'}", kind);

	for (size_t i = 0; i < RF_COUNT(COPIED); i++)
		if (rf_query(r, COPIED[i]).n > 0)
			rf_json_set_str(r->a, o, COPIED[i], rf_query(r, COPIED[i]));
	if (r->dry_run)
		rf_json_set(r->a, o, RF_LIT("dryRun"), rf_json_make(r->a, "['All']"));
	return o;
}

static struct rf_json *user_of(struct rf_req *r)
{
	struct rf_json *o = rf_json_make(r->a, "{'username':%S,'groups':%j}", r->user.name,
					 strings(r->a, r->user.groups, r->user.n_groups));

	if (r->user.uid.n > 0)
		rf_json_set_str(r->a, o, "uid", r->user.uid);
	return o;
}

static struct rf_json *or_null(struct rf_arena *a, const struct rf_json *o)
{
	return o != NULL ? (struct rf_json *)o : rf_json_null(a);
}

static int add_namespace(struct rf_req *r, struct rf_json *request, const struct rf_json *what,
			 struct rf_err *err)
{
	const struct rf_kind *k = r->route.kind;
	struct rf_str ns = k->namespaced ? r->route.ns : RF_STR_EMPTY;
	struct rf_json *o = NULL;

	/* As in Kubernetes: a Namespace is in itself. */
	if (rf_kind_is(k, "namespaces"))
		ns = rf_json_str_at(what, "metadata", "name");
	if (ns.n > 0)
		rf_json_set_str(r->a, request, "namespace", ns);
	if (!k->namespaced)
		return 0;
	if (rf_store_get(r->api->store, r->a, rf_kind_get("namespaces"), RF_STR_EMPTY, ns, &o,
			 err) < 0)
		return -err->code;
	rf_json_set(r->a, request, RF_LIT("namespaceObject"), o);
	return 0;
}

/* An AdmissionRequest; shares the objects. */
static int make_request(struct rf_req *r, const char *operation, const struct rf_json *old,
			const struct rf_json *o, struct rf_json **ret, struct rf_err *err)
{
	const struct rf_json *what = o != NULL ? o : old;
	const struct rf_kind *k = r->route.kind;
	struct rf_json *request = rf_json_make(
		r->a,
		"{'uid':%S,'kind':%j,'resource':{'group':%s,'version':%s,'resource':%s},"
		"'requestKind':%j,'requestResource':{'group':%s,'version':%s,'resource':%s},"
		"'name':%S,'operation':%s,'userInfo':%j,'object':%j,'oldObject':%j,'dryRun':%b,"
		"'options':%j}",
		rf_rand_uuid(r->a), gvk_of(r->a, what), k->group, k->version, k->plural,
		gvk_of(r->a, what), k->group, k->version, k->plural,
		r->route.sub.n > 0 ? r->route.name : rf_json_str_at(what, "metadata", "name"),
		operation, user_of(r), or_null(r->a, o), or_null(r->a, old), r->dry_run,
		options_of(r, operation));

	if (r->route.sub.n > 0) {
		rf_json_set_str(r->a, request, "subResource", r->route.sub);
		rf_json_set_str(r->a, request, "requestSubResource", r->route.sub);
	}
	*ret = request;
	return add_namespace(r, request, what, err);
}

struct around {
	struct rf_store *store;
	struct rf_sync *sync;
};

static int gather(void *ctx, struct rf_arena *a, struct rf_rv *ret, struct rf_err *err)
{
	struct around *w = ctx;

	return rf_inventory_gather(w->store, w->sync, a, ret, err);
}

static int unjudged(struct rf_err *err)
{
	err->code = RF_INTERNAL;
	return rf_wrap(err, "Internal error occurred: failed calling webhook \"" WEBHOOK "\"");
}

/* An answer has room for far less, and a collection's deletion asks about every object. */
#define WARNINGS_MAX (64 * 1024)

static int conclude(struct rf_req *r, const struct rf_book_verdict *v, struct rf_err *err)
{
	for (size_t i = 0; i < v->n_warnings && r->warnings.n < WARNINGS_MAX; i++) {
		struct rf_str text = v->warnings[i], line;

		if (r->warnings.n > 0 && r->warnings.p[r->warnings.n - 1] != '\n')
			rf_buf_add_c(&r->warnings, '\n');
		while (text.n > 0) { /* one message stays one warning */
			rf_str_cut(&text, '\n', &line);
			rf_buf_printf(&r->warnings, "%.*s%s", RF_STR(line), text.n > 0 ? " " : "");
		}
		rf_buf_add_c(&r->warnings, '\n');
	}
	if (v->allowed)
		return 0;
	r->denied =
		rf_arena_printf(r->a, "admission webhook \"" WEBHOOK "\" denied the request: %.*s",
				RF_STR(v->message));
	return rf_fail(err, RF_FORBIDDEN, "%.*s", RF_STR(r->denied));
}

/* book is not empty. */
static int ask(struct rf_req *r, const struct rf_book *book, const struct rf_json *request,
	       struct rf_err *err)
{
	struct around around = { r->api->store, rf_policies_sync(r->api->policies) };
	struct rf_book_inventory inventory = { gather, &around };
	rf_auto(arena) a = RF_ARENA_CAPPED(RF_JUDGE_MEMORY);
	struct rf_book_verdict v = { .allowed = false };
	struct rf_rv value;

	if (!rf_rv_from_json(&a, request, &value)) {
		rf_fail(err, RF_EXHAUSTED,
			"the object is too large to be judged, or has a number that is");
		return unjudged(err);
	}
	if (rf_book_judge(book, value, &inventory, &a, &v, err) < 0)
		return unjudged(err);
	return conclude(r, &v, err);
}

int rf_policies_judge(struct rf_req *r, const char *operation, const struct rf_json *old,
		      const struct rf_json *o, struct rf_err *err)
{
	const struct rf_book *book = NULL;
	struct rf_json *request = NULL;

	if (!rf_policies_any(r->api->policies) || !is_judged(r, old, o))
		return 0;
	if (rf_policies_book(r->api, strcmp(operation, "DELETE") == 0, &book, err) < 0)
		return unjudged(err);
	if (rf_book_is_empty(book))
		return 0;
	if (make_request(r, operation, old, o, &request, err) < 0)
		return -err->code;
	if (is_excluded(r, rf_json_str_at(request, "namespace")))
		return 0;
	return ask(r, book, request, err);
}
