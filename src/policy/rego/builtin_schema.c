/* json.match_schema and json.verify_schema: JSON Schema, drafts 4 to 7 side by side, with the errors
 * that policies know from OPA. References are followed inside the schema only. */
#include "policy/rego/builtin_util.h"

#include <stdio.h>

#include "policy/rego/builtin_private.h"
#include "policy/rego/regex.h"

/* Schemas that refer to themselves end here. */
#define SCHEMA_DEPTH_MAX 200

/* --- operands --- */

/* Is there a set in it, or a key that is no string? */
static bool is_beyond_json(struct rf_rb_env *e, struct rf_rv v, int depth)
{
	if (v.type == RF_RV_SET || depth > RB_DEPTH_MAX || !rf_rb_spend(e, 1))
		return true;
	for (uint32_t i = 0; v.type == RF_RV_ARRAY && i < v.n; i++)
		if (is_beyond_json(e, v.items[i], depth + 1))
			return true;
	for (uint32_t i = 0; v.type == RF_RV_OBJECT && i < v.n; i++)
		if (v.pairs[i].key.type != RF_RV_STRING || is_beyond_json(e, v.pairs[i].value, depth + 1))
			return true;
	return false;
}

static enum rf_rb_result load(struct rf_rb_env *e, struct rf_rv v, struct rf_rv *ret, struct rf_err *err)
{
	struct rf_str text;
	bool full;

	if (v.type == RF_RV_STRING) {
		if (!rb_json_valid(e, rf_rv_text(v), &full))
			return full ? RF_RB_FULL : rb_error(err, "invalid JSON string");
		return rb_json_parse(e, rf_rv_text(v), ret, err);
	}
	if (v.type != RF_RV_OBJECT && v.type != RF_RV_ARRAY)
		return rb_error(err, "wrong type, expected string or object");
	*ret = v;
	if (!is_beyond_json(e, v, 0))
		return RF_RB_OK;
	RB_TRY(rb_json_text(e, v, &text));
	return rb_json_parse(e, text, ret, err);
}

static bool is_list(struct rf_rv v)
{
	return v.type == RF_RV_ARRAY || v.type == RF_RV_SET;
}

static bool key(struct rf_rv schema, const char *name, struct rf_rv *ret)
{
	return rf_rv_get_str(schema, rf_str(name), ret);
}

static bool is_schema(struct rf_rv v)
{
	return v.type == RF_RV_OBJECT || v.type == RF_RV_BOOL;
}

/* --- patterns --- */

static enum rf_rb_result match(struct rf_rb_env *e, struct rf_str pattern, struct rf_str text, bool *ret,
			       bool *ret_valid)
{
	struct rf_regex *r;
	char why[8];
	bool compiled = false;

	*ret = false;
	r = pattern.n > RF_REGEX_PATTERN_MAX ? NULL :
					       rf_regex_get(pattern.p, pattern.n, &compiled, why, sizeof(why));
	*ret_valid = r != NULL;
	if (r == NULL)
		return RF_RB_OK;
	if (!rf_rb_spend(e, 4 + (int64_t)(text.n / 4) + (compiled ? (int64_t)pattern.n * 10 : 0))) {
		rf_regex_put(r);
		return RF_RB_FULL;
	}
	*ret = rf_regex_find(r, text.p, text.n, 0, NULL, 0);
	rf_regex_put(r);
	return RF_RB_OK;
}

/* --- is it a schema? --- */

struct check {
	struct rf_rb_env *e;
	struct rf_err *err;
};

static enum rf_rb_result check(struct check *c, struct rf_rv s, int depth);

static enum rf_rb_result invalid_type(struct check *c, const char *expected, const char *given)
{
	return rb_error(c->err, "Invalid type. Expected: %s, given: %s", expected, given);
}

static enum rf_rb_result check_type(struct check *c, struct rf_rv v)
{
	static const char *const known[] = { "array", "boolean", "integer", "number",
					     "null",  "object",	 "string" };

	for (size_t i = 0; i < RF_COUNT(known); i++)
		if (rf_str_is(rf_rv_text(v), known[i]))
			return RF_RB_OK;
	return rb_error(c->err,
			"has a primitive type that is NOT VALID -- given: /%.*s/ Expected valid values "
			"are:[array boolean integer number null object string]",
			(int)RF_MIN(v.n, 100), v.s);
}

static enum rf_rb_result check_types(struct check *c, struct rf_rv s)
{
	struct rf_rv v;

	if (!key(s, "type", &v))
		return RF_RB_OK;
	if (v.type == RF_RV_STRING)
		return check_type(c, v);
	if (!is_list(v))
		return invalid_type(c, "type", "string/array of strings");
	for (uint32_t i = 0; i < v.n; i++) {
		if (v.items[i].type != RF_RV_STRING)
			return invalid_type(c, "type", "string/array of strings");
		RB_TRY(check_type(c, v.items[i]));
		for (uint32_t j = 0; j < i; j++)
			if (rf_rv_eq(v.items[i], v.items[j]))
				return rb_error(c->err, "%.*s type is duplicated",
						(int)RF_MIN(v.items[i].n, 100), v.items[i].s);
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_counts(struct check *c, struct rf_rv s)
{
	static const char *const name[] = { "minLength", "maxLength",	  "minProperties",
					    "maxProperties", "minItems", "maxItems" };
	struct rf_rv v, low;
	int64_t i;

	for (size_t k = 0; k < RF_COUNT(name); k++) {
		if (!key(s, name[k], &v))
			continue;
		if (v.type != RF_RV_NUMBER || !rf_rn_int64(v, &i))
			return rb_error(c->err, "%s must be of an integer", name[k]);
		if (i < 0)
			return rb_error(c->err, "%s must be greater than or equal to 0", name[k]);
		if (k % 2 == 1 && k < 4 && key(s, name[k - 1], &low) && rf_rn_cmp(low, v) > 0)
			return rb_error(c->err, "%s cannot be greater than %s", name[k - 1], name[k]);
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_limits(struct check *c, struct rf_rv s)
{
	static const char *const exclusive[][2] = { { "exclusiveMinimum", "minimum" },
						    { "exclusiveMaximum", "maximum" } };
	struct rf_rv v, limit;

	if (key(s, "multipleOf", &v)) {
		if (v.type != RF_RV_NUMBER)
			return invalid_type(c, "number", "multipleOf");
		if (rf_rn_cmp(v, rf_rv_int(0)) <= 0)
			return rb_error(c->err, "multipleOf must be strictly greater than 0");
	}
	for (int i = 0; i < 2; i++) {
		bool has = key(s, exclusive[i][1], &limit);

		if (has && limit.type != RF_RV_NUMBER)
			return rb_error(c->err, "%s must be of a number", exclusive[i][1]);
		if (!key(s, exclusive[i][0], &v))
			continue;
		if (v.type == RF_RV_BOOL && !has)
			return rb_error(c->err, "%s cannot be used without %s", exclusive[i][0],
					exclusive[i][1]);
		if (v.type != RF_RV_BOOL && v.type != RF_RV_NUMBER)
			return invalid_type(c, "boolean/number", exclusive[i][0]);
	}
	return RF_RB_OK;
}

/* Keywords whose value is an object of schemas. */
static enum rf_rb_result check_maps(struct check *c, struct rf_rv s, int depth)
{
	static const char *const name[] = { "properties", "patternProperties", "definitions",
					    "dependencies" };
	struct rf_rv v;

	for (size_t k = 0; k < RF_COUNT(name); k++) {
		if (!key(s, name[k], &v))
			continue;
		if (v.type != RF_RV_OBJECT)
			return invalid_type(c, k == 2 ? "array of schemas" : "object", name[k]);
		for (uint32_t i = 0; i < v.n; i++) {
			bool hit, valid;

			if (k == 1) {
				RB_TRY(match(c->e, rf_rv_text(v.pairs[i].key), RF_STR_EMPTY, &hit, &valid));
				if (!valid)
					return rb_error(c->err, "Invalid regex pattern '%.*s'",
							(int)RF_MIN(v.pairs[i].key.n, 100),
							v.pairs[i].key.s);
			}
			if (k == 3 && is_list(v.pairs[i].value))
				continue;
			if (!is_schema(v.pairs[i].value))
				return invalid_type(c, "valid schema", name[k]);
			RB_TRY(check(c, v.pairs[i].value, depth + 1));
		}
	}
	return RF_RB_OK;
}

/* Keywords whose value is a schema, or for the first three a list of them. */
static enum rf_rb_result check_parts(struct check *c, struct rf_rv s, int depth)
{
	static const struct {
		const char *name;
		bool one, many;
	} part[] = {
		{ "items", true, true },		{ "anyOf", false, true },
		{ "allOf", false, true },		{ "oneOf", false, true },
		{ "additionalItems", true, false },	{ "additionalProperties", true, false },
		{ "contains", true, false },		{ "propertyNames", true, false },
		{ "not", true, false },			{ "if", true, false },
		{ "then", true, false },		{ "else", true, false },
	};
	struct rf_rv v;

	for (size_t k = 0; k < RF_COUNT(part); k++) {
		if (!key(s, part[k].name, &v))
			continue;
		if (part[k].one && is_schema(v)) {
			RB_TRY(check(c, v, depth + 1));
			continue;
		}
		if (!part[k].many || !is_list(v))
			return rb_error(c->err, "%s must be of an %s", part[k].name,
					part[k].many ? "array" : "object");
		for (uint32_t i = 0; i < v.n; i++)
			RB_TRY(check(c, v.items[i], depth + 1));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_lists(struct check *c, struct rf_rv s)
{
	static const char *const name[] = { "required", "enum" };
	struct rf_rv v;

	for (int k = 0; k < 2; k++) {
		if (!key(s, name[k], &v))
			continue;
		if (!is_list(v))
			return rb_error(c->err, "%s must be of an array", name[k]);
		if (!rf_rb_spend(c->e, (int64_t)v.n * v.n / 2))
			return RF_RB_FULL;
		for (uint32_t i = 0; i < v.n; i++) {
			if (k == 0 && v.items[i].type != RF_RV_STRING)
				return invalid_type(c, "string", "required");
			for (uint32_t j = 0; j < i; j++)
				if (rf_rv_eq(v.items[i], v.items[j]))
					return rb_error(c->err, "%s items must be unique", name[k]);
		}
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_texts(struct check *c, struct rf_rv s)
{
	static const char *const name[] = { "$ref", "pattern", "format", "title", "description" };
	struct rf_rv v;
	bool hit, valid;

	for (size_t k = 0; k < RF_COUNT(name); k++) {
		if (!key(s, name[k], &v))
			continue;
		if (v.type != RF_RV_STRING)
			return invalid_type(c, "string", name[k]);
		if (k == 0 && (v.n == 0 || v.s[0] != '#'))
			return rb_error(c->err,
					"Reference %.*s is outside of the schema; ringfence evaluates "
					"policies without the network",
					(int)RF_MIN(v.n, 200), v.s);
		if (k != 1)
			continue;
		RB_TRY(match(c->e, rf_rv_text(v), RF_STR_EMPTY, &hit, &valid));
		if (!valid)
			return rb_error(c->err, "pattern must be a valid regex");
	}
	if (key(s, "uniqueItems", &v) && v.type != RF_RV_BOOL)
		return rb_error(c->err, "uniqueItems must be of a boolean");
	return RF_RB_OK;
}

static enum rf_rb_result check(struct check *c, struct rf_rv s, int depth)
{
	if (depth > SCHEMA_DEPTH_MAX || !rf_rb_spend(c->e, 20))
		return RF_RB_FULL;
	if (s.type == RF_RV_BOOL)
		return RF_RB_OK;
	if (s.type != RF_RV_OBJECT)
		return rb_error(c->err, "schema is invalid");
	RB_TRY(check_texts(c, s));
	RB_TRY(check_maps(c, s, depth));
	RB_TRY(check_types(c, s));
	RB_TRY(check_limits(c, s));
	RB_TRY(check_counts(c, s));
	RB_TRY(check_lists(c, s));
	return check_parts(c, s, depth);
}

/* --- does a document match? --- */

/* Where in the document: names from here up to the root. */
struct place {
	const struct place *up;
	struct rf_str name;
};

/* The score tells which of several schemas a document came closest to. */
struct outcome {
	struct rf_rv_grow errors;
	int64_t score;
};

struct run {
	struct rf_rb_env *e;
	struct rf_rv root;
	int depth;
};

static void add_field(struct rb_text *out, const struct place *p)
{
	if (p->up == NULL)
		return;
	add_field(out, p->up);
	if (out->n > 0)
		rb_add_c(out, '.');
	rb_add(out, p->name);
}

static enum rf_rb_result fail(struct run *r, struct outcome *o, const struct place *at, const char *type,
			      struct rf_str desc)
{
	struct rb_object error = { .e = r->e };
	struct rb_text field = { .e = r->e }, all = { .e = r->e };
	struct rf_rv v;

	if (at->up == NULL)
		rb_puts(&field, "(Root)");
	else
		add_field(&field, at);
	rb_add(&all, rf_str_n(field.p, field.n));
	rb_puts(&all, ": ");
	rb_add(&all, desc);
	if (field.full || all.full)
		return RF_RB_FULL;
	rb_put(&error, "error", rf_rv_str(rf_str_n(all.p, all.n)));
	rb_put(&error, "field", rf_rv_str(rf_str_n(field.p, field.n)));
	rb_put(&error, "type", rf_rv_str(rf_str(type)));
	rb_put_str(&error, "desc", desc);
	RB_TRY(rb_object_value(&error, &v));
	o->score -= 2;
	return rf_rv_push(&o->errors, r->e->arena, v) ? RF_RB_OK : RF_RB_FULL;
}

#define FAIL(r, o, at, type, ...)                                                                  \
	do {                                                                                       \
		struct rb_text text_ = { .e = (r)->e };                                            \
		rb_printf(&text_, __VA_ARGS__);                                                    \
		if (text_.full)                                                                    \
			return RF_RB_FULL;                                                         \
		RB_TRY(fail((r), (o), (at), (type), rf_str_n(text_.p, text_.n)));                  \
	} while (0)

static enum rf_rb_result merge(struct run *r, struct outcome *to, const struct outcome *from)
{
	for (uint32_t i = 0; i < from->errors.n; i++)
		if (!rf_rb_spend(r->e, 1) || !rf_rv_push(&to->errors, r->e->arena, from->errors.items[i]))
			return RF_RB_FULL;
	to->score += from->score;
	return RF_RB_OK;
}

static enum rf_rb_result validate(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
				  const struct place *at);

static enum rf_rb_result validate_apart(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *ret,
					const struct place *at)
{
	*ret = (struct outcome){ 0 };
	return validate(r, s, v, ret, at);
}

/* A JSON pointer into the schema, percent-escapes included. */
static enum rf_rb_result resolve(struct run *r, struct rf_str ref, struct rf_rv *ret)
{
	struct rf_rv path, v = r->root, query = rf_rv_str(rf_str_skip(ref, 1));

	if (query.n > 0 && memchr(query.s, '%', query.n) != NULL)
		RB_TRY(rb_urlquery_decode(r->e, &query, &query, NULL));
	RB_TRY(rb_json_path(r->e, query, &path, NULL));
	for (uint32_t i = 0; i < path.n; i++) {
		struct rf_rv step = path.items[i];
		int64_t index;

		if (v.type == RF_RV_ARRAY && rf_str_int(rf_rv_text(step), &index, NULL) == 0)
			step = rf_rv_int(index);
		if (!rf_rv_get(v, step, &v))
			return RF_RB_UNDEFINED;
	}
	*ret = v;
	return RF_RB_OK;
}

static const char *type_of(struct rf_rv v)
{
	if (v.type == RF_RV_NUMBER)
		return rf_rn_is_whole(v) ? "integer" : "number";
	return v.type == RF_RV_SET ? "array" : rf_rv_type_name(v);
}

static bool type_fits(struct rf_rv type, struct rf_rv v)
{
	const char *is = type_of(v);

	if (is_list(type)) {
		for (uint32_t i = 0; i < type.n; i++)
			if (type_fits(type.items[i], v))
				return true;
		return type.n == 0;
	}
	return rf_str_is(rf_rv_text(type), is) ||
	       (v.type == RF_RV_NUMBER && rf_str_is(rf_rv_text(type), "number"));
}

static enum rf_rb_result wrong_type(struct run *r, struct outcome *o, const struct place *at,
				    struct rf_rv type, struct rf_rv v)
{
	struct rb_text expected = { .e = r->e };

	for (uint32_t i = 0; is_list(type) && i < type.n; i++) {
		rb_puts(&expected, i > 0 ? "," : type.n > 1 ? "[" : "");
		rb_add(&expected, rf_rv_text(type.items[i]));
	}
	if (is_list(type) && type.n > 1)
		rb_add_c(&expected, ']');
	if (!is_list(type))
		rb_add(&expected, rf_rv_text(type));
	if (expected.full)
		return RF_RB_FULL;
	FAIL(r, o, at, "invalid_type", "Invalid type. Expected: %.*s, given: %s", (int)expected.n,
	     expected.p, type_of(v));
	return RF_RB_OK;
}

/* anyOf and oneOf: the errors of the closest one are told too. */
static enum rf_rb_result validate_some(struct run *r, struct rf_rv list, struct rf_rv v, bool one,
				       struct outcome *o, const struct place *at)
{
	struct outcome best = { 0 };
	bool has_best = false;
	uint32_t hits = 0;

	for (uint32_t i = 0; i < list.n && (one || hits == 0); i++) {
		struct outcome sub;

		RB_TRY(validate_apart(r, list.items[i], v, &sub, at));
		if (sub.errors.n == 0) {
			hits++;
		} else if (hits == 0 && (!has_best || sub.score > best.score)) {
			best = sub;
			has_best = true;
		}
	}
	if (list.n == 0 || (one ? hits == 1 : hits > 0))
		return RF_RB_OK;
	FAIL(r, o, at, one ? "number_one_of" : "number_any_of", "Must validate %s (%s)",
	     one ? "one and only one schema" : "at least one schema", one ? "oneOf" : "anyOf");
	return hits == 0 ? merge(r, o, &best) : RF_RB_OK;
}

static enum rf_rb_result validate_all(struct run *r, struct rf_rv list, struct rf_rv v, struct outcome *o,
				      const struct place *at)
{
	uint32_t hits = 0;

	for (uint32_t i = 0; i < list.n; i++) {
		struct outcome sub;

		RB_TRY(validate_apart(r, list.items[i], v, &sub, at));
		hits += sub.errors.n == 0;
		RB_TRY(merge(r, o, &sub));
	}
	if (hits != list.n)
		FAIL(r, o, at, "number_all_of", "Must validate all the schemas (allOf)");
	return RF_RB_OK;
}

static enum rf_rb_result validate_dependencies(struct run *r, struct rf_rv deps, struct rf_rv v,
					       struct outcome *o, const struct place *at)
{
	struct rf_rv ignored;

	for (uint32_t i = 0; v.type == RF_RV_OBJECT && i < deps.n; i++) {
		struct rf_rv dep = deps.pairs[i].value;

		if (!rf_rv_get(v, deps.pairs[i].key, &ignored))
			continue;
		if (!is_list(dep)) {
			RB_TRY(validate(r, dep, v, o, at));
			continue;
		}
		for (uint32_t j = 0; j < dep.n; j++)
			if (!rf_rv_get(v, dep.items[j], &ignored))
				FAIL(r, o, at, "missing_dependency", "Has a dependency on %.*s",
				     RF_STR(rf_rv_text(dep.items[j])));
	}
	return RF_RB_OK;
}

static enum rf_rb_result validate_if(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
				     const struct place *at)
{
	struct outcome sub;
	struct rf_rv part;
	bool then;

	if (!key(s, "if", &part))
		return RF_RB_OK;
	RB_TRY(validate_apart(r, part, v, &sub, at));
	then = sub.errors.n == 0;
	if (!key(s, then ? "then" : "else", &part))
		return RF_RB_OK;
	RB_TRY(validate_apart(r, part, v, &sub, at));
	if (sub.errors.n == 0)
		return RF_RB_OK;
	FAIL(r, o, at, then ? "condition_then" : "condition_else", "Must validate \"%s\" as \"if\" was %s",
	     then ? "then" : "else", then ? "valid" : "not valid");
	return merge(r, o, &sub);
}

static enum rf_rb_result validate_parts(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
					const struct place *at)
{
	struct outcome sub;
	struct rf_rv part;

	if (key(s, "anyOf", &part))
		RB_TRY(validate_some(r, part, v, false, o, at));
	if (key(s, "oneOf", &part))
		RB_TRY(validate_some(r, part, v, true, o, at));
	if (key(s, "allOf", &part))
		RB_TRY(validate_all(r, part, v, o, at));
	if (key(s, "not", &part)) {
		RB_TRY(validate_apart(r, part, v, &sub, at));
		if (sub.errors.n == 0)
			FAIL(r, o, at, "number_not", "Must not validate the schema (not)");
	}
	if (key(s, "dependencies", &part))
		RB_TRY(validate_dependencies(r, part, v, o, at));
	RB_TRY(validate_if(r, s, v, o, at));
	o->score++;
	return RF_RB_OK;
}

/* --- formats --- */

static bool is_time(struct rf_rb_env *e, struct rf_rv text, const char *const *layouts)
{
	for (; *layouts != NULL; layouts++) {
		struct rf_rv arg[2] = { rf_rv_str(rf_str(*layouts)), text }, ret;
		struct rf_err err;
		enum rf_rb_result r = rb_time_parse_ns(e, arg, &ret, &err);

		/* a year that has no nanoseconds is a date all the same */
		if (r == RF_RB_OK || (r == RF_RB_ERROR && strstr(err.msg, "valid range") != NULL))
			return true;
	}
	return false;
}

static bool is_address(struct rf_str s, bool v6)
{
	struct rf_rv arg, ret;
	char text[64];

	if (s.n == 0 || s.n > 45 || (memchr(s.p, ':', s.n) != NULL) != v6 || memchr(s.p, '/', s.n) != NULL)
		return false;
	(void)snprintf(text, sizeof(text), "%.*s/0", RF_STR(s));
	arg = rf_rv_str(rf_str(text));
	return rb_cidr_is_valid(NULL, &arg, &ret, NULL) == RF_RB_OK && ret.b;
}

static bool is_email(struct rf_str s)
{
	const char *at;

	if (s.p == NULL || s.n == 0)
		return false;
	at = memrchr(s.p, '@', s.n);
	return at != NULL && at > s.p && at + 1 < s.p + s.n && memchr(s.p, ' ', s.n) == NULL;
}

static bool is_hostname(struct rf_str s)
{
	struct rf_str part;
	bool more = s.n > 0 && s.n <= 255;

	if (!more)
		return false;
	while (more) {
		more = rf_str_cut(&s, '.', &part);
		if (part.n == 0 || part.n > 63 || part.p[0] == '-' || part.p[part.n - 1] == '-')
			return false;
		for (size_t i = 0; i < part.n; i++) {
			char c = part.p[i];

			if (!((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
			      c == '-'))
				return false;
		}
	}
	return true;
}

static bool is_uri(struct rf_rb_env *e, struct rf_str s, bool reference)
{
	struct rb_url u;

	return (s.n == 0 || memchr(s.p, '\\', s.n) == NULL) &&
	       rb_url_parse(e, s, &u, NULL) == RF_RB_OK && (reference || u.scheme.n > 0);
}

static bool is_uuid(struct rf_str s)
{
	if (s.n != 36)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		char c = s.p[i];

		if (dash ? c != '-' :
			   !((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')))
			return false;
	}
	return true;
}

/* Formats nobody here knows hold for everything, as do all of them for what is no string. */
static enum rf_rb_result format_holds(struct rf_rb_env *e, struct rf_str name, struct rf_rv v, bool *ret)
{
	static const char *const dates[] = { "2006-01-02", NULL };
	static const char *const times[] = { "15:04:05", "15:04:05Z07:00", "15:04:05.999999999Z07:00", NULL };
	static const char *const both[] = { "15:04:05", "15:04:05Z07:00", "2006-01-02",
					    "2006-01-02T15:04:05Z07:00", NULL };
	struct rf_str s = rf_rv_text(v);
	bool hit;

	*ret = true;
	if (v.type != RF_RV_STRING)
		return RF_RB_OK;
	if (rf_str_is(name, "date"))
		*ret = is_time(e, v, dates);
	else if (rf_str_is(name, "time"))
		*ret = is_time(e, v, times);
	else if (rf_str_is(name, "date-time"))
		*ret = is_time(e, v, both);
	else if (rf_str_is(name, "hostname"))
		*ret = is_hostname(s);
	else if (rf_str_is(name, "email") || rf_str_is(name, "idn-email"))
		*ret = is_email(s);
	else if (rf_str_is(name, "ipv4") || rf_str_is(name, "ipv6"))
		*ret = is_address(s, rf_str_is(name, "ipv6"));
	else if (rf_str_is(name, "uri") || rf_str_is(name, "iri"))
		*ret = is_uri(e, s, false);
	else if (rf_str_is(name, "uri-reference") || rf_str_is(name, "iri-reference"))
		*ret = is_uri(e, s, true);
	else if (rf_str_is(name, "uuid"))
		*ret = is_uuid(s);
	else if (rf_str_is(name, "regex"))
		return match(e, s, RF_STR_EMPTY, &hit, ret);
	else if (rf_str_is(name, "json-pointer"))
		*ret = s.n == 0 || s.p[0] == '/';
	return *e->fuel > 0 ? RF_RB_OK : RF_RB_FULL;
}

/* --- values by kind --- */

static enum rf_rb_result validate_common(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
					 const struct place *at)
{
	struct rf_rv want;
	bool ok = true;

	if (key(s, "const", &want) && !rf_rv_eq(want, v)) {
		struct rb_text text = { .e = r->e };

		add_field(&text, at);
		rb_puts(&text, at->up == NULL ? "(Root) does not match: " : " does not match: ");
		RB_TRY(rb_json_write(&text, want, NULL));
		RB_TRY(fail(r, o, at, "const", rf_str_n(text.p, text.n)));
	}
	if (key(s, "enum", &want)) {
		struct rb_text text = { .e = r->e };

		ok = false;
		add_field(&text, at);
		rb_puts(&text, at->up == NULL ? "(Root) must be one of the following: " :
						" must be one of the following: ");
		for (uint32_t i = 0; i < want.n && !ok; i++) {
			ok = rf_rv_eq(want.items[i], v);
			rb_puts(&text, i > 0 ? ", " : "");
			RB_TRY(rb_json_write(&text, want.items[i], NULL));
		}
		if (!ok)
			RB_TRY(fail(r, o, at, "enum", rf_str_n(text.p, text.n)));
	}
	if (key(s, "format", &want)) {
		RB_TRY(format_holds(r->e, rf_rv_text(want), v, &ok));
		if (!ok)
			FAIL(r, o, at, "format", "Does not match format '%.*s'", RF_STR(rf_rv_text(want)));
	}
	o->score++;
	return RF_RB_OK;
}

static enum rf_rb_result validate_string(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
					 const struct place *at)
{
	int64_t runes = (int64_t)rf_rb_runes(rf_rv_text(v)), limit;
	struct rf_rv want;
	bool hit, valid;

	if (key(s, "minLength", &want) && rf_rn_int64(want, &limit) && runes < limit)
		FAIL(r, o, at, "string_gte", "String length must be greater than or equal to %lld",
		     (long long)limit);
	if (key(s, "maxLength", &want) && rf_rn_int64(want, &limit) && runes > limit)
		FAIL(r, o, at, "string_lte", "String length must be less than or equal to %lld",
		     (long long)limit);
	if (key(s, "pattern", &want)) {
		RB_TRY(match(r->e, rf_rv_text(want), rf_rv_text(v), &hit, &valid));
		if (!hit)
			FAIL(r, o, at, "pattern", "Does not match pattern '%.*s'",
			     RF_STR(rf_rv_text(want)));
	}
	o->score++;
	return RF_RB_OK;
}

static bool is_multiple(struct rf_rb_env *e, struct rf_rv v, struct rf_rv of, bool *ret)
{
	struct rf_rv q;

	*ret = rf_rn_div(e->arena, v, of, &q) == RF_RN_OK && rf_rn_is_whole(q);
	return *e->fuel > 0;
}

static enum rf_rb_result validate_number(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
					 const struct place *at)
{
	static const struct {
		const char *name, *exclusive;
		int sign; /* of what is wrong */
		const char *type[2], *text[2];
	} limits[] = {
		{ "maximum", "exclusiveMaximum", 1, { "number_lte", "number_lt" },
		  { "Must be less than or equal to", "Must be less than" } },
		{ "minimum", "exclusiveMinimum", -1, { "number_gte", "number_gt" },
		  { "Must be greater than or equal to", "Must be greater than" } },
	};
	struct rf_rv want, ex;
	bool ok;

	if (key(s, "multipleOf", &want)) {
		if (!is_multiple(r->e, v, want, &ok))
			return RF_RB_FULL;
		if (!ok)
			FAIL(r, o, at, "multiple_of", "Must be a multiple of %.10g", rf_rn_double(want));
	}
	for (int i = 0; i < 2; i++) {
		bool has_ex = key(s, limits[i].exclusive, &ex), strict = has_ex && ex.type == RF_RV_BOOL && ex.b;
		int c = key(s, limits[i].name, &want) ? rf_rn_cmp(v, want) * limits[i].sign : -1;

		if (c > 0 || (strict && c == 0))
			FAIL(r, o, at, limits[i].type[strict], "%s %.10g", limits[i].text[strict],
			     rf_rn_double(want));
		if (has_ex && ex.type == RF_RV_NUMBER && rf_rn_cmp(v, ex) * limits[i].sign >= 0)
			FAIL(r, o, at, limits[i].type[1], "%s %.10g", limits[i].text[1], rf_rn_double(ex));
	}
	o->score++;
	return RF_RB_OK;
}

static enum rf_rb_result validate_item(struct run *r, struct rf_rv s, struct rf_rv v, uint32_t i,
				       struct outcome *ret, const struct place *at)
{
	char name[16];
	struct place here = { at, { name, (size_t)snprintf(name, sizeof(name), "%u", i) } };

	return validate_apart(r, s, v.items[i], ret, &here);
}

static enum rf_rb_result validate_items(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
					const struct place *at)
{
	struct rf_rv items, more;
	struct outcome sub;

	if (!key(s, "items", &items))
		return RF_RB_OK;
	for (uint32_t i = 0; i < v.n; i++) {
		bool beyond = is_list(items) && i >= items.n;

		if (beyond && (items.n == 0 || !key(s, "additionalItems", &more)))
			break;
		if (beyond && more.type == RF_RV_BOOL) {
			if (!more.b)
				FAIL(r, o, at, "array_no_additional_items",
				     "No additional items allowed on array");
			break;
		}
		RB_TRY(validate_item(r, beyond ? more : is_list(items) ? items.items[i] : items, v, i, &sub,
				     at));
		RB_TRY(merge(r, o, &sub));
	}
	return RF_RB_OK;
}

/* Each item that was there before, with where it was last. */
static enum rf_rb_result validate_unique(struct run *r, struct rf_rv v, struct outcome *o,
					 const struct place *at)
{
	struct rf_rv_grow seen = { 0 };

	for (uint32_t j = 0; j < v.n; j++) {
		struct rf_rv i;
		bool conflict;

		if (!rf_rb_spend(r->e, 2))
			return RF_RB_FULL;
		if (rf_rv_find(&seen, v.items[j], &i))
			FAIL(r, o, at, "unique", "array items[%lld,%u] must be unique", (long long)i.i, j);
		else if (!rf_rv_put(&seen, r->e->arena, v.items[j], rf_rv_int(j), &conflict))
			return RF_RB_FULL;
	}
	return RF_RB_OK;
}

static enum rf_rb_result validate_contains(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
					   const struct place *at)
{
	struct outcome best = { 0 }, sub;

	for (uint32_t i = 0; i < v.n; i++) {
		RB_TRY(validate_item(r, s, v, i, &sub, at));
		if (sub.errors.n == 0)
			return RF_RB_OK;
		if (i == 0 || sub.score > best.score)
			best = sub;
	}
	FAIL(r, o, at, "contains", "At least one of the items must match");
	return merge(r, o, &best);
}

static enum rf_rb_result validate_array(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
					const struct place *at)
{
	struct rf_rv want;
	int64_t limit;

	RB_TRY(validate_items(r, s, v, o, at));
	if (key(s, "minItems", &want) && rf_rn_int64(want, &limit) && v.n < limit)
		FAIL(r, o, at, "array_min_items", "Array must have at least %lld items", (long long)limit);
	if (key(s, "maxItems", &want) && rf_rn_int64(want, &limit) && v.n > limit)
		FAIL(r, o, at, "array_max_items", "Array must have at most %lld items", (long long)limit);
	if (key(s, "uniqueItems", &want) && want.b)
		RB_TRY(validate_unique(r, v, o, at));
	if (key(s, "contains", &want))
		RB_TRY(validate_contains(r, want, v, o, at));
	o->score++;
	return RF_RB_OK;
}

static enum rf_rb_result validate_member(struct run *r, struct rf_rv s, struct rf_str name, struct rf_rv v,
					 struct outcome *o, const struct place *at)
{
	struct place here = { at, name };
	struct rf_rv props, patterns, rest;
	struct outcome sub;
	bool known = key(s, "properties", &props) && rf_rv_get_str(props, name, &rest);

	if (!key(s, "patternProperties", &patterns))
		patterns.n = 0;
	for (uint32_t i = 0; i < patterns.n; i++) {
		bool hit, valid;

		RB_TRY(match(r->e, rf_rv_text(patterns.pairs[i].key), name, &hit, &valid));
		if (!hit)
			continue;
		known = true;
		RB_TRY(validate_apart(r, patterns.pairs[i].value, v, &sub, &here));
		RB_TRY(merge(r, o, &sub));
		o->score++;
	}
	if (known || !key(s, "additionalProperties", &rest))
		return RF_RB_OK;
	if (rest.type != RF_RV_BOOL) {
		RB_TRY(validate_apart(r, rest, v, &sub, &here));
		return merge(r, o, &sub);
	}
	if (!rest.b)
		FAIL(r, o, at, "additional_property_not_allowed",
		     "Additional property %.*s is not allowed", RF_STR(name));
	return RF_RB_OK;
}

static enum rf_rb_result validate_names(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
					const struct place *at)
{
	struct outcome sub;

	for (uint32_t i = 0; i < v.n; i++) {
		RB_TRY(validate_apart(r, s, v.pairs[i].key, &sub, at));
		if (sub.errors.n == 0)
			continue;
		FAIL(r, o, at, "invalid_property_name", "Property name of \"%.*s\" does not match",
		     RF_STR(rf_rv_text(v.pairs[i].key)));
		RB_TRY(merge(r, o, &sub));
	}
	return RF_RB_OK;
}

static enum rf_rb_result validate_object(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
					 const struct place *at)
{
	struct rf_rv want, ignored;
	int64_t limit;

	if (key(s, "minProperties", &want) && rf_rn_int64(want, &limit) && v.n < limit)
		FAIL(r, o, at, "array_min_properties", "Must have at least %lld properties",
		     (long long)limit);
	if (key(s, "maxProperties", &want) && rf_rn_int64(want, &limit) && v.n > limit)
		FAIL(r, o, at, "array_max_properties", "Must have at most %lld properties",
		     (long long)limit);
	for (uint32_t i = 0; key(s, "required", &want) && i < want.n; i++) {
		if (rf_rv_get(v, want.items[i], &ignored))
			o->score++;
		else
			FAIL(r, o, at, "required", "%.*s is required", RF_STR(rf_rv_text(want.items[i])));
	}
	for (uint32_t i = 0; i < v.n; i++)
		if (v.pairs[i].key.type == RF_RV_STRING)
			RB_TRY(validate_member(r, s, rf_rv_text(v.pairs[i].key), v.pairs[i].value, o, at));
	if (key(s, "propertyNames", &want))
		RB_TRY(validate_names(r, want, v, o, at));
	o->score++;
	return RF_RB_OK;
}

static enum rf_rb_result validate_properties(struct run *r, struct rf_rv s, struct rf_rv v,
					     struct outcome *o, const struct place *at)
{
	struct rf_rv props, kid;

	for (uint32_t i = 0; key(s, "properties", &props) && i < props.n; i++) {
		struct place here = { at, rf_rv_text(props.pairs[i].key) };

		if (rf_rv_get(v, props.pairs[i].key, &kid))
			RB_TRY(validate(r, props.pairs[i].value, kid, o, &here));
	}
	return RF_RB_OK;
}

static enum rf_rb_result validate_here(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
				       const struct place *at)
{
	struct rf_rv part;

	if (s.type == RF_RV_BOOL) {
		if (!s.b)
			FAIL(r, o, at, "false", "False always fails validation");
		return RF_RB_OK;
	}
	if (key(s, "$ref", &part)) {
		enum rf_rb_result found = resolve(r, rf_rv_text(part), &part);

		if (found != RF_RB_OK && found != RF_RB_UNDEFINED)
			return found;
		if (found == RF_RB_UNDEFINED || !is_schema(part))
			FAIL(r, o, at, "internal", "Internal Error the reference leads nowhere");
		else
			RB_TRY(validate(r, part, v, o, at));
		return RF_RB_OK;
	}
	if (key(s, "type", &part) && !type_fits(part, v))
		return wrong_type(r, o, at, part, v);
	RB_TRY(validate_parts(r, s, v, o, at));
	if (is_list(v))
		RB_TRY(validate_array(r, s, v, o, at));
	else if (v.type == RF_RV_OBJECT)
		RB_TRY(validate_object(r, s, v, o, at));
	else if (v.type == RF_RV_NUMBER)
		RB_TRY(validate_number(r, s, v, o, at));
	RB_TRY(validate_common(r, s, v, o, at));
	if (v.type == RF_RV_STRING)
		RB_TRY(validate_string(r, s, v, o, at));
	if (v.type == RF_RV_OBJECT)
		RB_TRY(validate_properties(r, s, v, o, at));
	o->score++;
	return RF_RB_OK;
}

static enum rf_rb_result validate(struct run *r, struct rf_rv s, struct rf_rv v, struct outcome *o,
				  const struct place *at)
{
	enum rf_rb_result result;

	if (r->depth > SCHEMA_DEPTH_MAX || !rf_rb_spend(r->e, 20))
		return RF_RB_FULL;
	r->depth++;
	result = validate_here(r, s, v, o, at);
	r->depth--;
	return result;
}

/* --- the builtins --- */

static enum rf_rb_result pair_value(struct rf_rb_env *e, bool ok, struct rf_rv second, struct rf_rv *ret)
{
	struct rf_rv *items = rb_alloc(e, 2, sizeof(*items));

	if (items == NULL)
		return RF_RB_FULL;
	items[0] = rf_rv_bool(ok);
	items[1] = second;
	*ret = rf_rv_array(items, 2);
	return RF_RB_OK;
}

static enum rf_rb_result load_schema(struct rf_rb_env *e, struct rf_rv v, struct rf_rv *ret,
				     struct rf_err *err)
{
	struct check c = { e, err };

	RB_TRY(load(e, v, ret, err));
	return check(&c, *ret, 0);
}

static enum rf_rb_result json_verify_schema(struct rf_rb_env *e, const struct rf_rv *arg,
					    struct rf_rv *ret, struct rf_err *err)
{
	struct rb_text why = { .e = e };
	struct rf_rv schema, text = RF_RV_NIL;
	struct rf_err local = RF_ERR_INIT;
	enum rf_rb_result r = load_schema(e, arg[0], &schema, &local);

	(void)err;
	if (r == RF_RB_FULL)
		return r;
	if (r != RF_RB_OK) {
		rb_printf(&why, "jsonschema: %s", local.msg);
		RB_TRY(rb_text_value(&why, &text));
	}
	return pair_value(e, r == RF_RB_OK, text, ret);
}

static enum rf_rb_result json_match_schema(struct rf_rb_env *e, const struct rf_rv *arg,
					   struct rf_rv *ret, struct rf_err *err)
{
	struct place root = { NULL, RF_STR_EMPTY };
	struct run r = { .e = e };
	struct outcome o = { 0 };
	struct rf_rv doc;
	bool valid;

	RB_TRY(load(e, arg[0], &doc, err));
	RB_TRY(load_schema(e, arg[1], &r.root, err));
	RB_TRY(validate(&r, r.root, doc, &o, &root));
	valid = o.errors.n == 0;
	return pair_value(e, valid, rf_rv_grown_array(&o.errors), ret);
}

static const struct rf_rb rows[] = {
	{ "http.send", 1, .impure = true, .arg = { RF_RB_OBJ },
	  .refusal = "needs the network; ringfence evaluates policies without it" },
	{ "json.match_schema", 2, .arg = { RF_RB_ANY, RF_RB_ANY }, .fn = json_match_schema },
	{ "json.verify_schema", 1, .arg = { RF_RB_ANY }, .fn = json_verify_schema },
	{ "providers.aws.sign_req", 3, .arg = { RF_RB_OBJ, RF_RB_OBJ, RF_RB_NUM }, .fn = rb_aws_sign_req },
};

const struct rf_rb_rows rf_rb_schema = { rows, RF_COUNT(rows) };
