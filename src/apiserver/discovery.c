#include "apiserver/discovery.h"

#include <stdio.h>

/* --- which groups there are ----------------------------------------------------------------- */

static bool same_group(const struct rf_kind *a, const struct rf_kind *b)
{
	return strcmp(a->group, b->group) == 0;
}

/* The first kind of each group stands for it: the group has its versions. */
static bool is_first_of_group(const struct rf_kind *k)
{
	const struct rf_kind *first = NULL;

	while ((first = rf_kind_next(first)) != k)
		if (same_group(first, k))
			return false;
	return true;
}

/* The preferred one is first. */
static struct rf_str versions_of(struct rf_arena *a, const struct rf_kind *first)
{
	if (first->also == NULL)
		return rf_str(first->version);
	return rf_arena_printf(a, "%s %s", first->version, first->also);
}

static const char *verbs_of(const struct rf_kind *k)
{
	return k->stored ? "create delete deletecollection get list patch update watch" : "create";
}

static const char *verbs_of_sub(struct rf_str sub)
{
	if (rf_word_in("binding eviction token", sub))
		return "create";
	return rf_str_is(sub, "log") ? "get" : "get patch update";
}

static struct rf_json *words(struct rf_arena *a, const char *text)
{
	struct rf_json *list = rf_json_array(a);
	struct rf_str rest = rf_str(text), one;

	while (rest.n > 0) {
		rf_str_cut(&rest, ' ', &one);
		rf_json_push(a, list, rf_json_string(a, one));
	}
	return list;
}

/* What a subresource's body is, where it is not the object itself. */
static const struct {
	const char *sub, *group, *version, *kind;
} SUBS[] = {
	{ "binding", "", "v1", "Binding" },
	{ "eviction", "policy", "v1", "Eviction" },
	{ "token", "authentication.k8s.io", "v1", "TokenRequest" },
};

static struct rf_json *sub_kind(struct rf_arena *a, const struct rf_kind *k, struct rf_str version,
				struct rf_str sub)
{
	for (size_t i = 0; i < RF_COUNT(SUBS); i++)
		if (rf_str_is(sub, SUBS[i].sub))
			return rf_json_make(a, "{'group':%s,'version':%s,'kind':%s}", SUBS[i].group,
					    SUBS[i].version, SUBS[i].kind);
	return rf_json_make(a, "{'group':%s,'version':%S,'kind':%s}", k->group, version, k->kind);
}

/* --- aggregated: everything in two answers ------------------------------------------------------ */

static struct rf_json *aggregated_subs(struct rf_arena *a, const struct rf_kind *k,
				       struct rf_str version)
{
	struct rf_json *list = rf_json_array(a);
	struct rf_str rest = rf_str(k->subresources), one;

	while (rest.n > 0) {
		rf_str_cut(&rest, ' ', &one);
		rf_json_push(a, list,
			     rf_json_make(a, "{'subresource':%S,'responseKind':%j,'verbs':%j}", one,
					  sub_kind(a, k, version, one),
					  words(a, verbs_of_sub(one))));
	}
	return list;
}

static struct rf_json *aggregated_kind(struct rf_arena *a, const struct rf_kind *k,
				       struct rf_str version)
{
	struct rf_json *o = rf_json_make(
		a,
		"{'resource':%s,'responseKind':{'group':%s,'version':%S,'kind':%s},'scope':%s,"
		"'singularResource':%s,'verbs':%j}",
		k->plural, k->group, version, k->kind, k->namespaced ? "Namespaced" : "Cluster",
		k->singular, words(a, verbs_of(k)));

	if (k->short_names[0] != '\0')
		rf_json_set(a, o, RF_LIT("shortNames"), words(a, k->short_names));
	if (k->categories[0] != '\0')
		rf_json_set(a, o, RF_LIT("categories"), words(a, k->categories));
	if (k->subresources[0] != '\0')
		rf_json_set(a, o, RF_LIT("subresources"), aggregated_subs(a, k, version));
	return o;
}

static struct rf_json *aggregated_version(struct rf_arena *a, const struct rf_kind *first,
					  struct rf_str version)
{
	struct rf_json *resources = rf_json_array(a);

	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;)
		if (same_group(k, first) && rf_kind_in_version(k, version))
			rf_json_push(a, resources, aggregated_kind(a, k, version));
	return rf_json_make(a, "{'version':%S,'resources':%j,'freshness':'Current'}", version,
			    resources);
}

static struct rf_json *aggregated_group(struct rf_arena *a, const struct rf_kind *first)
{
	struct rf_json *versions = rf_json_array(a);
	struct rf_json *meta = rf_json_make(a, "{'creationTimestamp':%j}", rf_json_null(a));
	struct rf_str rest = versions_of(a, first), one;

	while (rest.n > 0) {
		rf_str_cut(&rest, ' ', &one);
		rf_json_push(a, versions, aggregated_version(a, first, one));
	}
	if (first->group[0] != '\0')
		rf_json_set_str(a, meta, "name", rf_str(first->group));
	return rf_json_make(a, "{'metadata':%j,'versions':%j}", meta, versions);
}

static void reply_aggregated(struct rf_req *r, bool core)
{
	struct rf_json *items = rf_json_array(r->a);
	struct rf_json *o;

	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;)
		if (is_first_of_group(k) && (k->group[0] == '\0') == core)
			rf_json_push(r->a, items, aggregated_group(r->a, k));
	o = rf_json_make(r->a,
			 "{'kind':'APIGroupDiscoveryList','apiVersion':'apidiscovery.k8s.io/v2',"
			 "'metadata':{},'items':%j}",
			 items);
	rf_http_reply(r->http, 200,
		      "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
		      rf_json_text_of(r->a, o));
}

/* --- plain ---------------------------------------------------------------------------------- */

static void reply(struct rf_req *r, struct rf_json *o)
{
	rf_reply_json(r, 200, rf_json_text_of(r->a, o));
}

static struct rf_json *plain_group(struct rf_arena *a, const struct rf_kind *first)
{
	struct rf_json *versions = rf_json_array(a);
	struct rf_str rest = versions_of(a, first), one;

	while (rest.n > 0) {
		rf_str_cut(&rest, ' ', &one);
		rf_json_push(a, versions,
			     rf_json_make(a, "{'groupVersion':%S,'version':%S}",
					  rf_arena_printf(a, "%s/%.*s", first->group, RF_STR(one)),
					  one));
	}
	return rf_json_make(a,
			    "{'kind':'APIGroup','apiVersion':'v1','name':%s,'versions':%j,"
			    "'preferredVersion':%j}",
			    first->group, versions, rf_json_clone(a, rf_json_item(versions, 0)));
}

static void reply_groups(struct rf_req *r)
{
	struct rf_json *groups = rf_json_array(r->a);

	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;)
		if (is_first_of_group(k) && k->group[0] != '\0')
			rf_json_push(r->a, groups, plain_group(r->a, k));
	reply(r,
	      rf_json_make(r->a, "{'kind':'APIGroupList','apiVersion':'v1','groups':%j}", groups));
}

static void plain_kind(struct rf_arena *a, const struct rf_kind *k, struct rf_str version,
		       struct rf_json *into)
{
	struct rf_str rest = rf_str(k->subresources), one;
	struct rf_json *o = rf_json_make(
		a, "{'name':%s,'singularName':%s,'namespaced':%b,'kind':%s,'verbs':%j}", k->plural,
		k->singular, k->namespaced, k->kind, words(a, verbs_of(k)));

	if (k->short_names[0] != '\0')
		rf_json_set(a, o, RF_LIT("shortNames"), words(a, k->short_names));
	if (k->categories[0] != '\0')
		rf_json_set(a, o, RF_LIT("categories"), words(a, k->categories));
	rf_json_push(a, into, o);
	while (rest.n > 0) {
		rf_str_cut(&rest, ' ', &one);
		o = sub_kind(a, k, version, one); /* group, version, kind */
		rf_json_set_str(a, o, "name",
				rf_arena_printf(a, "%s/%.*s", k->plural, RF_STR(one)));
		rf_json_set_str(a, o, "singularName", RF_STR_EMPTY);
		rf_json_set_bool(a, o, "namespaced", k->namespaced);
		rf_json_set(a, o, RF_LIT("verbs"), words(a, verbs_of_sub(one)));
		rf_json_push(a, into, o);
	}
}

static void reply_resources(struct rf_req *r, const struct rf_kind *first, struct rf_str version)
{
	struct rf_json *list = rf_json_array(r->a);

	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;)
		if (same_group(k, first) && rf_kind_in_version(k, version))
			plain_kind(r->a, k, version, list);
	reply(r, rf_json_make(r->a,
			      "{'kind':'APIResourceList','apiVersion':'v1','groupVersion':%S,"
			      "'resources':%j}",
			      rf_kind_api_version_as(r->a, first, version), list));
}

static const struct rf_kind *first_of(struct rf_str group)
{
	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;)
		if (rf_str_is(group, k->group))
			return k;
	return NULL;
}

/* "/apis/GROUP" and "/apis/GROUP/VERSION" */
static bool handle_group(struct rf_req *r, struct rf_str rest)
{
	struct rf_str group;
	const struct rf_kind *k;
	bool versioned = rf_str_cut(&rest, '/', &group);

	k = group.n > 0 ? first_of(group) : NULL;
	if (k == NULL || rf_str_contains(rest, RF_LIT("/")))
		return false;
	if (!versioned || rest.n == 0) {
		reply(r, plain_group(r->a, k));
		return true;
	}
	if (!rf_kind_in_version(k, rest))
		return false;
	reply_resources(r, k, rest);
	return true;
}

/* --- entry ---------------------------------------------------------------------------------- */

static void reply_version(struct rf_req *r)
{
	reply(r, rf_json_make(
			 r->a,
			 "{'major':'1','minor':'" RF_KUBE_MINOR "','gitVersion':'v1." RF_KUBE_MINOR
			 ".0+ringfence-" RF_VERSION "','gitCommit':'','gitTreeState':'',"
			 "'buildDate':'','goVersion':'','compiler':'','platform':'linux/amd64'}"));
}

static bool wants_aggregated(struct rf_req *r)
{
	return rf_str_contains(rf_http_get_header(r->http, "accept"),
			       RF_LIT("v=v2;as=APIGroupDiscoveryList"));
}

bool rf_discovery_is_open(struct rf_str path)
{
	return rf_word_in("/healthz /livez /readyz /version", path);
}

bool rf_discovery_handle(struct rf_req *r)
{
	struct rf_str path = r->http->path;

	if (path.n > 1 && rf_str_ends(path, RF_LIT("/")))
		path.n--;
	if (rf_word_in("/healthz /livez /readyz", path))
		rf_http_reply(r->http, 200, "text/plain; charset=utf-8", RF_LIT("ok"));
	else if (rf_str_is(path, "/version"))
		reply_version(r);
	else if (rf_str_is(path, "/api") && wants_aggregated(r))
		reply_aggregated(r, true);
	else if (rf_str_is(path, "/apis") && wants_aggregated(r))
		reply_aggregated(r, false);
	else if (rf_str_is(path, "/api"))
		reply(r, rf_json_make(r->a, "{'kind':'APIVersions','versions':['v1'],"
					    "'serverAddressByClientCIDRs':[]}"));
	else if (rf_str_is(path, "/apis"))
		reply_groups(r);
	else if (rf_str_is(path, "/api/v1"))
		reply_resources(r, &rf_kinds[0], RF_LIT("v1"));
	else if (rf_str_starts(path, RF_LIT("/apis/")))
		return handle_group(r, rf_str_skip(path, 6));
	else
		return rf_openapi_handle(r);
	return true;
}
