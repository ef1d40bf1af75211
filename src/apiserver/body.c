/* From the bytes of a request to an object of the right kind. */
#include "apiserver/api.h"

#include <math.h>

#include "apiserver/decode.h"
#include "apiserver/schema.h"

#define NUMBER_MAX 64 /* characters */

struct want {
	const char *kind;
	struct rf_str api_version;
	const struct rf_schema_type *type; /* NULL: ringfence's own */
};

static const struct {
	const char *sub, *kind, *api_version;
} ACTIONS[] = {
	{ "token", "TokenRequest", "authentication.k8s.io/v1" },
	{ "binding", "Binding", "v1" },
	{ "eviction", "Eviction", "policy/v1" },
};

static struct want wanted(struct rf_req *r)
{
	const struct rf_kind *k = r->route.kind;

	for (size_t i = 0; i < RF_COUNT(ACTIONS); i++)
		if (rf_str_is(r->route.sub, ACTIONS[i].sub))
			return (struct want){ ACTIONS[i].kind, rf_str(ACTIONS[i].api_version),
					      rf_schema_find(rf_str(ACTIONS[i].kind)) };
	if (r->route.version.n > 0)
		return (struct want){ k->kind, rf_kind_api_version_as(r->a, k, r->route.version),
				      NULL };
	return (struct want){ k->kind, rf_kind_api_version(r->a, k),
			      k->schema != NULL ? rf_schema_find(rf_str(k->schema)) : NULL };
}

/* own: the version it is stored in. A patch makes its object out of that one. */
static int check_type(const struct want *w, struct rf_str own, const struct rf_json *o,
		      struct rf_err *err)
{
	struct rf_str kind = rf_json_str_at(o, "kind");
	struct rf_str version = rf_json_str_at(o, "apiVersion");

	if (!rf_json_is(o, RF_JSON_OBJECT))
		return rf_fail(err, RF_BAD_REQUEST, "the body must be a %s object", w->kind);
	if (kind.n > 0 && !rf_str_is(kind, w->kind))
		return rf_fail(err, RF_BAD_REQUEST,
			       "%.*s in version \"%.*s\" cannot be handled as a %s", RF_STR(kind),
			       RF_STR(version), w->kind);
	if (version.n > 0 && !rf_str_eq(version, w->api_version) && !rf_str_eq(version, own))
		return rf_fail(err, RF_BAD_REQUEST,
			       "the API version in the data (%.*s) does not match the expected API "
			       "version (%.*s)",
			       RF_STR(version), RF_STR(w->api_version));
	return 0;
}

/* Kubernetes reads numbers into 64 bits. Policies could not read what is beyond that, not in other objects
 * either that they compare with: one such object would have every write refused. */
static int check_numbers(const struct rf_json *v, struct rf_err *err)
{
	char text[NUMBER_MAX + 1];

	if (rf_json_is(v, RF_JSON_NUMBER)) {
		size_t n = RF_MIN(v->text.n, (size_t)NUMBER_MAX);

		memcpy(text, v->text.p, n);
		text[n] = '\0';
		if (v->text.n <= NUMBER_MAX && isfinite(strtod(text, NULL)))
			return 0;
		return rf_fail(err, RF_BAD_REQUEST, "number %.32s is out of range", text);
	}
	for (size_t i = 0; i < rf_json_len(v); i++)
		if (check_numbers(v->type == RF_JSON_ARRAY ? v->items[i] : v->members[i].value,
				  err) < 0)
			return -err->code;
	return 0;
}

/* Ringfence's own kinds: metadata, spec and status; what spec may hold is for validation. */
static int prune_own(struct rf_json *o, struct rf_buf *unknown, struct rf_err *err)
{
	struct rf_json *meta = rf_json_get(o, RF_LIT("metadata"));

	if (check_numbers(o, err) < 0)
		return -err->code;
	for (size_t i = 0; i < o->n;) {
		struct rf_str key = o->members[i].key;
		bool known = rf_word_in("kind apiVersion metadata spec status", key);

		if (!known)
			rf_buf_printf(unknown, "%sunknown field \"%.*s\"",
				      unknown->n > 0 ? ", " : "", RF_STR(key));
		if (!known || o->members[i].value->type == RF_JSON_NULL)
			rf_json_del(o, key);
		else
			i++;
	}
	if (meta == NULL)
		return 0;
	return rf_schema_prune(rf_schema_find(RF_LIT("ObjectMeta")), meta, unknown, err);
}

static int prune(struct rf_req *r, const struct want *w, struct rf_json *o, struct rf_err *err)
{
	struct rf_str mode = rf_query(r, "fieldValidation");
	rf_auto(buf) unknown = RF_BUF_INIT;
	int n = w->type != NULL ? rf_schema_prune(w->type, o, &unknown, err)
				: prune_own(o, &unknown, err);

	if (n < 0)
		return rf_wrap(err, "%s in version \"%.*s\" cannot be handled as a %s", w->kind,
			       RF_STR(w->api_version), w->kind);
	if (unknown.n == 0 || rf_str_is(mode, "Ignore"))
		return 0;
	if (rf_str_is(mode, "Strict"))
		return rf_fail(err, RF_BAD_REQUEST,
			       "%s in version \"%.*s\" cannot be handled as a %s: strict decoding "
			       "error: %s",
			       w->kind, RF_STR(w->api_version), w->kind, unknown.p);
	/* ringfence's own kinds have no reader that would drop a field: refuse what is not known. */
	if (w->type == NULL)
		return rf_fail(err, RF_BAD_REQUEST, "%s: %s", w->kind, unknown.p);
	rf_buf_printf(&r->warnings, "%s\n", unknown.p);
	return 0;
}

int rf_check_object(struct rf_req *r, const struct rf_kind *k, struct rf_json *o,
		    struct rf_err *err)
{
	struct want w = wanted(r);
	struct rf_str own = r->route.version.n > 0 ? rf_kind_api_version(r->a, k) : w.api_version;

	if (check_type(&w, own, o, err) < 0 || prune(r, &w, o, err) < 0)
		return -err->code;
	rf_json_set_str(r->a, o, "kind", rf_str(w.kind));
	rf_json_set_str(r->a, o, "apiVersion", own);
	rf_json_ensure(r->a, o, "metadata");
	return 0;
}

int rf_read_object(struct rf_req *r, struct rf_json **ret, struct rf_err *err)
{
	struct rf_str type = rf_http_get_header(r->http, "content-type");
	struct rf_json *o;

	if (r->http->body.n == 0)
		return rf_fail(err, RF_BAD_REQUEST, "the request has no body; send the object");
	if (rf_decode_body(r->a, type, r->http->body, &o, err) < 0)
		return rf_wrap(err, "read the body");
	if (rf_check_object(r, r->route.kind, o, err) < 0)
		return -err->code;
	*ret = o;
	return 0;
}
