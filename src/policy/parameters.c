/* A constraint's parameters and the schema that its template has for them. */
#include "policy/gatekeeper_private.h"
#include "policy/rego/regex.h"

static bool type_fits(struct rf_str type, const struct rf_json *v)
{
	int64_t i;

	if (rf_str_is(type, "object"))
		return v->type == RF_JSON_OBJECT;
	if (rf_str_is(type, "array"))
		return v->type == RF_JSON_ARRAY;
	if (rf_str_is(type, "string"))
		return v->type == RF_JSON_STRING;
	if (rf_str_is(type, "boolean"))
		return v->type == RF_JSON_BOOL;
	if (rf_str_is(type, "integer"))
		return rf_json_is_int(v, &i);
	return !rf_str_is(type, "number") || v->type == RF_JSON_NUMBER;
}

/* Members in properties, and the defaults of those that are missing. */
static int fit_members(struct rf_arena *a, const struct rf_json *schema, struct rf_json *v,
		       struct rf_err *err)
{
	const struct rf_json *properties = rf_json_at(schema, "properties");
	const struct rf_json *more = rf_json_at(schema, "additionalProperties");

	for (size_t i = 0; i < v->n; i++) {
		const struct rf_json *s = rf_json_get(properties, v->members[i].key);

		if (rf_gk_fit(a, s ? s : more, v->members[i].value, v->members[i].key, err) < 0)
			return -err->code;
	}
	for (size_t i = 0; rf_json_is(properties, RF_JSON_OBJECT) && i < properties->n; i++) {
		const struct rf_json_member *m = &properties->members[i];
		const struct rf_json *standard = rf_json_at(m->value, "default");

		if (standard && !rf_json_get(v, m->key))
			rf_json_set(a, v, m->key, rf_json_clone(a, standard));
	}
	return 0;
}

static int fit_enum(const struct rf_json *schema, const struct rf_json *v, struct rf_str name, struct rf_err *err)
{
	const struct rf_json *list = rf_json_at(schema, "enum");
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_json_equal(rf_json_item(list, i), v))
			return 0;
	if (!list)
		return 0;
	rf_json_write(&text, list);
	return rf_fail(err, RF_INVALID, "%.*s must be one of %s", RF_STR(name), text.p);
}

static int fit_required(const struct rf_json *schema, const struct rf_json *v, struct rf_str name, struct rf_err *err)
{
	const struct rf_json *list = rf_json_at(schema, "required");

	for (size_t i = 0; v->type == RF_JSON_OBJECT && i < rf_json_len(list); i++) {
		struct rf_str key = rf_json_str(rf_json_item(list, i));

		if (!rf_json_get(v, key))
			return rf_fail(err, RF_INVALID, "%.*s must have %.*s", RF_STR(name), RF_STR(key));
	}
	return 0;
}

static size_t runes_of(struct rf_str s)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++)
		n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	return n;
}

static int fit_size(const struct rf_json *schema, const struct rf_json *v, struct rf_str name, struct rf_err *err)
{
	static const struct {
		enum rf_json_type type;
		const char *least, *most, *what;
	} rows[] = { { RF_JSON_STRING, "minLength", "maxLength", "characters" },
		     { RF_JSON_ARRAY, "minItems", "maxItems", "items" },
		     { RF_JSON_OBJECT, "minProperties", "maxProperties", "members" } };

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		int64_t n = (int64_t)(v->type == RF_JSON_STRING ? runes_of(v->text) : v->n);
		int64_t least = rf_json_int(rf_json_at(schema, rows[i].least), 0);
		int64_t most = rf_json_int(rf_json_at(schema, rows[i].most), INT64_MAX);

		if (v->type == rows[i].type && (n < least || n > most))
			return rf_fail(err, RF_INVALID, "%.*s has %lld %s, must have %s %lld", RF_STR(name), (long long)n,
				       rows[i].what, n < least ? "at least" : "at most",
				       (long long)(n < least ? least : most));
	}
	return 0;
}

static int fit_range(struct rf_arena *a, const struct rf_json *schema, const struct rf_json *v, struct rf_str name,
		     struct rf_err *err)
{
	static const struct {
		const char *bound, *exclusive, *what;
		int wrong; /* how the value may not compare with the bound */
	} rows[] = { { "minimum", "exclusiveMinimum", "at least", -1 }, { "maximum", "exclusiveMaximum", "at most", 1 } };

	for (size_t i = 0; v->type == RF_JSON_NUMBER && i < RF_COUNT(rows); i++) {
		const struct rf_json *bound = rf_json_at(schema, rows[i].bound);
		bool exclusive = rf_json_is_true(rf_json_at(schema, rows[i].exclusive));
		struct rf_rv x, y;
		int c;

		if (!rf_json_is(bound, RF_JSON_NUMBER))
			continue;
		if (!rf_rv_from_json(a, v, &x) || !rf_rv_from_json(a, bound, &y))
			return rf_fail(err, RF_INVALID, "%.*s is too long a number", RF_STR(name));
		c = rf_rv_cmp(x, y);
		if (c == rows[i].wrong || (exclusive && c == 0))
			return rf_fail(err, RF_INVALID, "%.*s must be %s %.*s%s", RF_STR(name), rows[i].what,
				       RF_STR(bound->text), exclusive ? " and not that" : "");
	}
	return 0;
}

static int fit_pattern(const struct rf_json *schema, const struct rf_json *v, struct rf_str name, struct rf_err *err)
{
	struct rf_str pattern = rf_json_str_at(schema, "pattern");
	struct rf_regex_part part;
	struct rf_regex *r;
	char why[200] = "";
	bool compiled, fits;

	if (pattern.n == 0 || v->type != RF_JSON_STRING)
		return 0;
	r = rf_regex_get(pattern.p, pattern.n, &compiled, why, sizeof(why));
	if (!r)
		return rf_fail(err, RF_INVALID, "%.*s: the template's pattern cannot be used: %s", RF_STR(name), why);
	fits = rf_regex_find(r, v->text.p, v->text.n, 0, &part, 1);
	rf_regex_put(r);
	if (fits)
		return 0;
	return rf_fail(err, RF_INVALID, "%.*s must match %.*s", RF_STR(name), RF_STR(pattern));
}

/* What OpenAPI schemas of templates use; allOf and its like are not looked at, as in structural schemas they say nothing
 * of types. Depth is bounded by the reader of JSON. */
int rf_gk_fit(struct rf_arena *a, const struct rf_json *schema, struct rf_json *v, struct rf_str name,
	      struct rf_err *err)
{
	struct rf_str type = rf_json_str_at(schema, "type");

	if (!rf_json_is(schema, RF_JSON_OBJECT) || v->type == RF_JSON_NULL ||
	    rf_json_is_true(rf_json_at(schema, "x-kubernetes-int-or-string")))
		return 0;
	if (type.n > 0 && !type_fits(type, v))
		return rf_fail(err, RF_INVALID, "%.*s must be of type %.*s", RF_STR(name), RF_STR(type));
	if (fit_enum(schema, v, name, err) < 0 || fit_required(schema, v, name, err) < 0 ||
	    fit_size(schema, v, name, err) < 0 || fit_range(a, schema, v, name, err) < 0 ||
	    fit_pattern(schema, v, name, err) < 0)
		return -err->code;
	if (v->type == RF_JSON_OBJECT && fit_members(a, schema, v, err) < 0)
		return rf_wrap(err, "%.*s", RF_STR(name));
	for (size_t i = 0; v->type == RF_JSON_ARRAY && i < v->n; i++)
		if (rf_gk_fit(a, rf_json_at(schema, "items"), v->items[i], name, err) < 0)
			return -err->code;
	return 0;
}
