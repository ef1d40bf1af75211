/* OpenAPI v3, made from the table of kinds and the schema table: enough for kubectl to see that the
 * server checks fields itself, and for `kubectl explain`. */
#include "apiserver/discovery.h"
#include "apiserver/schema.h"
#include "codec/pb.h"

/* Old clients ask with "@" before the version, which is no media type; the answer has to be one. */
#define V2_ASKED "application/com.github.proto-openapi.spec.v2"
#define V2_PROTOBUF V2_ASKED ".v1.0+protobuf"

static struct rf_json *gvk(struct rf_arena *a, const struct rf_kind *k, struct rf_str version)
{
	return rf_json_make(a, "{'group':%s,'version':%S,'kind':%s}", k->group, version, k->kind);
}

/* --- schemas -------------------------------------------------------------------------------- */

static struct rf_json *type_schema(struct rf_arena *a, struct rf_str type)
{
	struct rf_str ref;

	switch (type.p[0]) {
	case '[':
		return rf_json_make(a, "{'type':'array','items':%j}",
				    type_schema(a, rf_str_skip(type, 1)));
	case '{':
		return rf_json_make(a, "{'type':'object','additionalProperties':%j}",
				    type_schema(a, rf_str_skip(type, 1)));
	case 'i':
		return rf_json_make(a, "{'type':'integer','format':'int64'}");
	case 'f':
		return rf_json_make(a, "{'type':'number'}");
	case 'b':
		return rf_json_make(a, "{'type':'boolean'}");
	case 'r':
		return rf_json_make(a, "{'type':'object'}");
	case 't':
	case 'm':
		return rf_json_make(a, "{'type':'string','format':'date-time'}");
	case 's':
	case 'y':
	case 'q':
	case 'o':
		return rf_json_make(a, "{'type':'string'}");
	default:
		ref = rf_arena_printf(a, "#/components/schemas/%.*s", RF_STR(type));
		return rf_json_make(a, "{'allOf':[{'$ref':%S}]}", ref);
	}
}

static void add_properties(struct rf_arena *a, const struct rf_schema_type *t, struct rf_json *into,
			   struct rf_json *schemas);

static void add_schema(struct rf_arena *a, struct rf_str name, struct rf_json *schemas)
{
	const struct rf_schema_type *t;
	struct rf_json *properties, *o;

	while (name.n > 0 && (name.p[0] == '[' || name.p[0] == '{'))
		name = rf_str_skip(name, 1);
	t = name.n > 0 ? rf_schema_find(name) : NULL;
	if (t == NULL || rf_json_get(schemas, name) != NULL)
		return;
	properties = rf_json_object(a);
	o = rf_json_make(a, "{'type':'object','properties':%j}", properties);
	rf_json_set(a, schemas, name, o);
	add_properties(a, t, properties, schemas);
}

static void add_properties(struct rf_arena *a, const struct rf_schema_type *t, struct rf_json *into,
			   struct rf_json *schemas)
{
	struct rf_str fields = rf_str(t->fields);
	struct rf_schema_field f;

	while (rf_schema_next(&fields, &f)) {
		if (f.type.p[0] == '^') {
			add_properties(a, rf_schema_find(rf_str_skip(f.type, 1)), into, schemas);
			continue;
		}
		rf_json_set(a, into, f.name, type_schema(a, f.type));
		add_schema(a, f.type, schemas);
	}
}

static void add_kind_schema(struct rf_arena *a, const struct rf_kind *k, struct rf_str version,
			    struct rf_json *schemas)
{
	/* A constraint's kind may be called as one of our types is. */
	struct rf_str name = k->constraint ? rf_arena_printf(a, "constraint.%s", k->kind)
					   : rf_str(k->schema != NULL ? k->schema : k->kind);
	struct rf_json *o, *properties;

	if (k->schema != NULL) {
		add_schema(a, name, schemas);
	} else {
		add_schema(a, RF_LIT("ObjectMeta"), schemas);
		rf_json_set(a, schemas, name,
			    rf_json_make(a,
					 "{'type':'object','properties':{'metadata':%j,"
					 "'spec':{'type':'object'},'status':{'type':'object'}}}",
					 type_schema(a, RF_LIT("ObjectMeta"))));
	}
	o = rf_json_get(schemas, name);
	properties = rf_json_ensure(a, o, "properties");
	rf_json_set(a, properties, RF_LIT("apiVersion"), type_schema(a, RF_LIT("s")));
	rf_json_set(a, properties, RF_LIT("kind"), type_schema(a, RF_LIT("s")));
	rf_json_set(a, o, RF_LIT("x-kubernetes-group-version-kind"),
		    rf_json_make(a, "[%j]", gvk(a, k, version)));
}

/* --- paths ---------------------------------------------------------------------------------- */

static struct rf_json *parameter(struct rf_arena *a, const char *name)
{
	return rf_json_make(
		a, "{'name':%s,'in':'query','schema':{'type':'string','uniqueItems':true}}", name);
}

struct served {
	const struct rf_kind *k;
	struct rf_str version;
};

static struct rf_json *operation(struct rf_arena *a, const struct served *s, const char *action)
{
	return rf_json_make(a,
			    "{'x-kubernetes-action':%s,'x-kubernetes-group-version-kind':%j,"
			    "'parameters':[%j,%j,%j],'responses':{'200':{'description':'OK'}}}",
			    action, gvk(a, s->k, s->version), parameter(a, "dryRun"),
			    parameter(a, "fieldManager"), parameter(a, "fieldValidation"));
}

static void add_paths(struct rf_arena *a, const struct served *s, struct rf_str base,
		      struct rf_json *paths)
{
	const struct rf_kind *k = s->k;
	struct rf_str list =
		rf_arena_printf(a, "%.*s/%s%s", RF_STR(base),
				k->namespaced ? "namespaces/{namespace}/" : "", k->plural);
	struct rf_str one = rf_arena_printf(a, "%.*s/{name}", RF_STR(list));

	rf_json_set(a, paths, list, rf_json_make(a, "{'post':%j}", operation(a, s, "post")));
	if (!k->stored)
		return;
	rf_json_set(a, rf_json_get(paths, list), RF_LIT("get"), operation(a, s, "list"));
	rf_json_set(a, paths, one,
		    rf_json_make(a, "{'get':%j,'put':%j,'patch':%j,'delete':%j}",
				 operation(a, s, "get"), operation(a, s, "put"),
				 operation(a, s, "patch"), operation(a, s, "delete")));
}

static void reply_group(struct rf_req *r, struct rf_str base, const char *group,
			struct rf_str version)
{
	struct rf_json *paths = rf_json_object(r->a), *schemas = rf_json_object(r->a);
	struct rf_json *o;

	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;) {
		struct served s = { k, version };

		if (strcmp(group, k->group) != 0 || !rf_kind_in_version(k, version))
			continue;
		add_paths(r->a, &s, base, paths);
		add_kind_schema(r->a, k, version, schemas);
	}
	o = rf_json_make(r->a,
			 "{'openapi':'3.0.0','info':{'title':'ringfence','version':%s},'paths':%j,"
			 "'components':{'schemas':%j}}",
			 RF_VERSION, paths, schemas);
	rf_reply_json(r, 200, rf_json_text_of(r->a, o));
}

/* --- entry ---------------------------------------------------------------------------------- */

static struct rf_str group_path(struct rf_arena *a, const struct rf_kind *k, struct rf_str version)
{
	return rf_arena_printf(a, "%s/%.*s", k->group[0] == '\0' ? "api" : "apis",
			       RF_STR(rf_kind_api_version_as(a, k, version)));
}

/* Takes one after the other off *rest, which begins as NULL. */
static bool next_version(struct rf_arena *a, const struct rf_kind *k, struct rf_str *rest,
			 struct rf_str *ret)
{
	if (rest->p == NULL)
		*rest = rf_arena_printf(a, "%s %s", k->version, k->also != NULL ? k->also : "");
	if (rest->n == 0)
		return false;
	rf_str_cut(rest, ' ', ret);
	return ret->n > 0;
}

static void index_kind(struct rf_arena *a, const struct rf_kind *k, struct rf_json *paths)
{
	struct rf_str rest = { NULL, 0 }, version;

	while (next_version(a, k, &rest, &version)) {
		struct rf_str p = group_path(a, k, version);

		if (rf_json_get(paths, p) == NULL)
			rf_json_set(a, paths, p,
				    rf_json_make(a, "{'serverRelativeURL':%S}",
						 rf_arena_printf(a, "/openapi/v3/%.*s?hash=%s",
								 RF_STR(p), RF_VERSION)));
	}
}

static void reply_index(struct rf_req *r)
{
	struct rf_json *paths = rf_json_object(r->a);

	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;)
		index_kind(r->a, k, paths);
	rf_reply_json(r, 200, rf_json_text_of(r->a, rf_json_make(r->a, "{'paths':%j}", paths)));
}

/* --- version 2 ------------------------------------------------------------------------------ */

/* Old clients (kubectl before 1.24) want it, and as a protobuf Document, or they do nothing at all.
 * One without definitions tells them that there is nothing to check on their side. */
static void reply_v2_protobuf(struct rf_req *r)
{
	enum { SWAGGER = 1, INFO = 2, INFO_TITLE = 1, INFO_VERSION = 2, PATHS = 8 };
	rf_auto(buf) info = RF_BUF_INIT;
	rf_auto(buf) doc = RF_BUF_INIT;

	rf_pb_put_bytes(&info, INFO_TITLE, RF_LIT("ringfence"));
	rf_pb_put_bytes(&info, INFO_VERSION, RF_LIT(RF_VERSION));
	rf_pb_put_bytes(&doc, SWAGGER, RF_LIT("2.0"));
	rf_pb_put_bytes(&doc, INFO, rf_buf_str(&info));
	rf_pb_put_bytes(&doc, PATHS, RF_STR_EMPTY);
	rf_http_reply(r->http, 200, V2_PROTOBUF, rf_buf_str(&doc));
}

static void reply_v2(struct rf_req *r)
{
	struct rf_str accept = rf_http_get_header(r->http, "accept");

	if (rf_str_starts(accept, RF_LIT(V2_ASKED)))
		reply_v2_protobuf(r);
	else
		rf_reply_json(r, 200,
			      RF_LIT("{\"swagger\":\"2.0\",\"info\":{\"title\":\"ringfence\","
				     "\"version\":\"" RF_VERSION "\"},\"paths\":{}}"));
}

bool rf_openapi_handle(struct rf_req *r)
{
	struct rf_str path = r->http->path, prefix = RF_LIT("/openapi/v3/");

	if (rf_str_is(path, "/openapi/v3")) {
		reply_index(r);
		return true;
	}
	if (rf_str_is(path, "/openapi/v2")) {
		reply_v2(r);
		return true;
	}
	if (!rf_str_starts(path, prefix))
		return false;
	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;) {
		struct rf_str rest = { NULL, 0 }, version;

		while (next_version(r->a, k, &rest, &version)) {
			if (!rf_str_eq(rf_str_skip(path, prefix.n), group_path(r->a, k, version)))
				continue;
			reply_group(r, rf_str_skip(path, prefix.n - 1), k->group, version);
			return true;
		}
	}
	return false;
}
