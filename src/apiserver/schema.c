#include "apiserver/schema.h"

/* More than any real manifest is wrong in; the rest is cut so that an answer stays short. */
#define UNKNOWN_MAX 20

static size_t table_size(void)
{
	static size_t n;

	while (rf_schema_table[n].name != NULL)
		n++;
	return n;
}

const struct rf_schema_type *rf_schema_find(struct rf_str name)
{
	size_t lo = 0, hi = table_size();

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = rf_str_cmp(rf_str(rf_schema_table[mid].name), name);

		if (c == 0)
			return &rf_schema_table[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

bool rf_schema_next(struct rf_str *fields, struct rf_schema_field *ret)
{
	struct rf_str field, number;

	if (fields->n == 0)
		return false;
	rf_str_cut(fields, '|', &field);
	rf_str_cut(&field, ' ', &number);
	rf_str_cut(&field, ' ', &ret->name);
	ret->type = field;
	return rf_str_int(number, &ret->number, NULL) == 0;
}

bool rf_schema_field(const struct rf_schema_type *t, struct rf_str name,
		     struct rf_schema_field *ret)
{
	struct rf_str fields = rf_str(t->fields);

	while (rf_schema_next(&fields, ret)) {
		if (ret->type.p[0] == '^') {
			const struct rf_schema_type *in = rf_schema_find(rf_str_skip(ret->type, 1));

			if (in != NULL && rf_schema_field(in, name, ret))
				return true;
		} else if (rf_str_eq(ret->name, name)) {
			return true;
		}
	}
	return false;
}

bool rf_schema_field_number(const struct rf_schema_type *t, int64_t number,
			    struct rf_schema_field *ret)
{
	struct rf_str fields = rf_str(t->fields);

	while (rf_schema_next(&fields, ret))
		if (ret->number == number)
			return true;
	return false;
}

/* --- checking ------------------------------------------------------------------------------- */

struct checker {
	struct rf_buf path; /* of the value being looked at */
	struct rf_buf *unknown;
	size_t n_unknown;
	struct rf_err *err;
};

static int check_object(struct checker *c, const struct rf_schema_type *t, struct rf_json *object);

static int wrong_type(struct checker *c, const char *want, const struct rf_json *got)
{
	static const char *const NAMES[] = {
		"null", "bool", "number", "string", "array", "object"
	};

	return rf_fail(c->err, RF_BAD_REQUEST, "json: cannot unmarshal %s into field %s of type %s",
		       NAMES[got->type], c->path.p, want);
}

static void note_unknown(struct checker *c, struct rf_str name)
{
	if (++c->n_unknown > UNKNOWN_MAX)
		return;
	rf_buf_printf(c->unknown, "%sunknown field \"%s%s%.*s\"", c->unknown->n > 0 ? ", " : "",
		      c->path.p, c->path.n > 0 ? "." : "", RF_STR(name));
}

static void path_add(struct checker *c, struct rf_str name)
{
	if (c->path.n > 0)
		rf_buf_add_c(&c->path, '.');
	rf_buf_add(&c->path, name);
}

static void path_cut(struct checker *c, size_t n)
{
	c->path.n = n;
	if (c->path.cap > 0)
		c->path.p[n] = '\0';
}

static int check_value(struct checker *c, struct rf_str type, struct rf_json *v);

static int check_list(struct checker *c, struct rf_str item, struct rf_json *v)
{
	if (v->type != RF_JSON_ARRAY)
		return wrong_type(c, "list", v);
	if (v->n > RF_LIST_MAX)
		return rf_fail(c->err, RF_BAD_REQUEST, "%s: Too many: must have at most %d items",
			       c->path.p, RF_LIST_MAX);
	for (size_t i = 0; i < v->n; i++) {
		size_t n = c->path.n;

		rf_buf_printf(&c->path, "[%zu]", i);
		if (check_value(c, item, v->items[i]) < 0)
			return -RF_BAD_REQUEST;
		path_cut(c, n);
	}
	return 0;
}

static int check_map(struct checker *c, struct rf_str item, struct rf_json *v)
{
	if (v->type != RF_JSON_OBJECT)
		return wrong_type(c, "map", v);
	for (size_t i = 0; i < v->n; i++) {
		size_t n = c->path.n;

		path_add(c, v->members[i].key);
		if (check_value(c, item, v->members[i].value) < 0)
			return -RF_BAD_REQUEST;
		path_cut(c, n);
	}
	return 0;
}

/* `gpu: 2` and `gpu: "2"` are the same quantity; it is kept as text. */
static int check_quantity(struct checker *c, struct rf_json *v)
{
	if (v->type == RF_JSON_NUMBER)
		v->type = RF_JSON_STRING;
	return v->type == RF_JSON_STRING ? 0 : wrong_type(c, "quantity", v);
}

static int check_scalar(struct checker *c, char type, struct rf_json *v)
{
	int64_t i;

	switch (type) {
	case 's':
	case 'y':
	case 't':
	case 'm':
		return v->type == RF_JSON_STRING ? 0 : wrong_type(c, "string", v);
	case 'i':
		return rf_json_is_int(v, &i) ? 0 : wrong_type(c, "integer", v);
	case 'b':
		return v->type == RF_JSON_BOOL ? 0 : wrong_type(c, "bool", v);
	case 'f':
		return v->type == RF_JSON_NUMBER ? 0 : wrong_type(c, "number", v);
	case 'q':
		return check_quantity(c, v);
	case 'o':
		return v->type == RF_JSON_STRING || rf_json_is_int(v, &i)
			       ? 0
			       : wrong_type(c, "integer or string", v);
	default:
		return 0; /* r: anything */
	}
}

static int check_value(struct checker *c, struct rf_str type, struct rf_json *v)
{
	const struct rf_schema_type *t;

	if (v->type == RF_JSON_NULL)
		return 0;
	if (type.p[0] == '[')
		return check_list(c, rf_str_skip(type, 1), v);
	if (type.p[0] == '{')
		return check_map(c, rf_str_skip(type, 1), v);
	if (type.p[0] < 'A' || type.p[0] > 'Z')
		return check_scalar(c, type.p[0], v);
	t = rf_schema_find(type);
	rf_assert(t != NULL);
	if (v->type != RF_JSON_OBJECT)
		return wrong_type(c, t->name, v);
	return check_object(c, t, v);
}

/* Every object may; no type lists these two. */
static bool says_what_it_is(const struct rf_json_member *m)
{
	return m->value->type == RF_JSON_STRING &&
	       (rf_str_is(m->key, "kind") || rf_str_is(m->key, "apiVersion"));
}

static int check_object(struct checker *c, const struct rf_schema_type *t, struct rf_json *object)
{
	for (size_t i = 0; i < object->n;) {
		struct rf_json_member *m = &object->members[i];
		struct rf_schema_field f;
		size_t n = c->path.n;
		bool known = rf_schema_field(t, m->key, &f);

		if (c->path.n == 0 && says_what_it_is(m)) {
			i++;
			continue;
		}
		if (!known)
			note_unknown(c, m->key);
		if (!known || m->value->type == RF_JSON_NULL) {
			rf_json_del(object, m->key);
			continue;
		}
		path_add(c, m->key);
		if (check_value(c, f.type, m->value) < 0)
			return -RF_BAD_REQUEST;
		path_cut(c, n);
		i++;
	}
	return 0;
}

int rf_schema_prune(const struct rf_schema_type *t, struct rf_json *object, struct rf_buf *unknown,
		    struct rf_err *err)
{
	struct checker c = { .path = RF_BUF_INIT, .unknown = unknown, .err = err };
	int r;

	if (!rf_json_is(object, RF_JSON_OBJECT))
		return rf_fail(err, RF_BAD_REQUEST, "the body must be an object");
	r = check_object(&c, t, object);
	rf_buf_done(&c.path);
	return r;
}
