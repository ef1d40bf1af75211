/* RFC 6902 over RFC 6901 pointers.
 *
 * What a few bytes of patch can do to an object is bounded: operations are counted, what copy makes
 * is counted, and no operation may nest values deeper than the parser would have read them. */
#include "kube/private.h"

#define OPS_MAX 10000
#define COPY_MAX ((uint64_t)3 << 20)

struct doc {
	struct rf_patch_work w;
	struct rf_json *root;
};

/* Where a pointer leads: a place in a container, or the whole document (in is NULL). */
struct place {
	struct rf_json *in;
	struct rf_str key; /* of an object; of an array, the index as written */
	size_t depth;	   /* tokens in the pointer */
};

static int malformed(struct doc *d, const char *what, struct rf_str where)
{
	return rf_fail(d->w.err, RF_BAD_REQUEST, "%s: \"%.*s\"", what,
		       (int)RF_MIN(where.n, (size_t)256), where.p);
}

static int does_not_apply(struct doc *d, const char *why, struct rf_str path)
{
	return rf_fail(d->w.err, RF_INVALID, "\"%.*s\": %s", (int)RF_MIN(path.n, (size_t)256),
		       path.p, why);
}

static int unescape(struct doc *d, struct rf_str token, struct rf_str *ret)
{
	char *out = NULL;
	size_t n = 0;

	if (memchr(token.p, '~', token.n) == NULL) {
		*ret = token;
		return 0;
	}
	out = rf_arena_alloc(d->w.a, token.n);
	for (size_t i = 0; i < token.n; i++) {
		char c = token.p[i];

		if (c == '~') {
			c = ++i < token.n ? token.p[i] : '\0';
			if (c != '0' && c != '1')
				return malformed(d, "in a JSON pointer only 0 or 1 may follow ~",
						 token);
			c = c == '0' ? '~' : '/';
		}
		out[n++] = c;
	}
	*ret = rf_str_n(out, n);
	return 0;
}

/* "0", "17": no sign, no leading zeros. */
static bool array_index(struct rf_str s, size_t *ret)
{
	size_t n = 0;

	if (s.n == 0 || s.n > 9 || (s.n > 1 && s.p[0] == '0'))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		n = n * 10 + (size_t)(s.p[i] - '0');
	}
	*ret = n;
	return true;
}

static struct rf_json *child(const struct rf_json *in, struct rf_str key)
{
	size_t i = 0;

	if (in->type == RF_JSON_OBJECT)
		return rf_json_get(in, key);
	return in->type == RF_JSON_ARRAY && array_index(key, &i) ? rf_json_item(in, i) : NULL;
}

static int find_place(struct doc *d, struct rf_str path, struct place *ret)
{
	struct place p = { 0 };
	struct rf_str rest = path, token = RF_STR_EMPTY;
	struct rf_json *at = d->root;

	if (path.n > 0 && path.p[0] != '/')
		return malformed(d, "a JSON pointer is empty or begins with '/'", path);
	while (rest.n > 0) {
		size_t end = 1;

		while (end < rest.n && rest.p[end] != '/')
			end++;
		if (unescape(d, rf_str_n(rest.p + 1, end - 1), &token) < 0)
			return -RF_BAD_REQUEST;
		rest = rf_str_skip(rest, end);
		if (at == NULL || (at->type != RF_JSON_OBJECT && at->type != RF_JSON_ARRAY))
			return does_not_apply(d, "doc is missing the path", path);
		if (rf_patch_spend(&d->w, (uint64_t)at->n + 1) < 0)
			return -RF_TOO_LARGE;
		p = (struct place){ .in = at, .key = token, .depth = p.depth + 1 };
		at = child(at, token);
	}
	*ret = p;
	return 0;
}

static struct rf_json *value_at(const struct doc *d, const struct place *p)
{
	return p->in == NULL ? d->root : child(p->in, p->key);
}

/* Bytes and levels of a tree; stops at the depth that is too much anyway. */
static size_t measure(const struct rf_json *v, size_t level, uint64_t *bytes, uint64_t *nodes)
{
	size_t deepest = level;

	*nodes += 1;
	*bytes += sizeof(*v);
	if (v->type == RF_JSON_STRING || v->type == RF_JSON_NUMBER)
		*bytes += v->text.n;
	if ((v->type != RF_JSON_ARRAY && v->type != RF_JSON_OBJECT) || level > RF_JSON_DEPTH_MAX)
		return level;
	for (uint32_t i = 0; i < v->n; i++) {
		const struct rf_json *c =
			v->type == RF_JSON_ARRAY ? v->items[i] : v->members[i].value;
		size_t depth = measure(c, level + 1, bytes, nodes);

		if (v->type == RF_JSON_OBJECT)
			*bytes += v->members[i].key.n + sizeof(v->members[i]);
		deepest = RF_MAX(deepest, depth);
	}
	return deepest;
}

static int check_size(struct doc *d, const struct place *at, const struct rf_json *v, bool copied)
{
	uint64_t bytes = 0, nodes = 0;

	if (measure(v, at->depth + 1, &bytes, &nodes) > RF_JSON_DEPTH_MAX)
		return rf_fail(d->w.err, RF_INVALID,
			       "the result would be nested deeper than %d levels",
			       RF_JSON_DEPTH_MAX);
	if (copied && (d->w.copied += bytes) > COPY_MAX)
		return rf_fail(d->w.err, RF_TOO_LARGE,
			       "copy operations may make %llu bytes, not more",
			       (unsigned long long)COPY_MAX);
	return rf_patch_spend(&d->w, nodes);
}

static int insert_item(struct doc *d, const struct place *p, struct rf_str path, struct rf_json *v)
{
	struct rf_json *array = p->in;
	size_t i = array->n;

	if (!rf_str_is(p->key, "-") && (!array_index(p->key, &i) || i > array->n))
		return does_not_apply(d, "not an index of the list, nor its end", path);
	rf_json_push(d->w.a, array, v);
	memmove(&array->items[i + 1], &array->items[i], (array->n - 1 - i) * sizeof(*array->items));
	array->items[i] = v;
	return 0;
}

static int put(struct doc *d, struct rf_str path, struct rf_json *v)
{
	struct place p = { 0 };
	int rc = find_place(d, path, &p);

	if (rc < 0)
		return rc;
	rc = check_size(d, &p, v, false);
	if (rc < 0)
		return rc;
	if (p.in == NULL)
		d->root = v;
	else if (p.in->type == RF_JSON_ARRAY)
		return insert_item(d, &p, path, v);
	else
		return rf_patch_set(&d->w, p.in, p.key, v);
	return 0;
}

static int find_value(struct doc *d, struct rf_str path, struct place *ret_place,
		      struct rf_json **ret)
{
	int rc = find_place(d, path, ret_place);

	if (rc < 0)
		return rc;
	*ret = value_at(d, ret_place);
	return *ret != NULL ? 0 : does_not_apply(d, "doc is missing the key or index", path);
}

static int take_out(struct doc *d, struct rf_str path, struct rf_json **ret)
{
	struct place p = { 0 };
	size_t i = 0;
	int rc = find_value(d, path, &p, ret);

	if (rc < 0)
		return rc;
	if (p.in == NULL)
		return does_not_apply(d, "the whole object cannot be removed", path);
	if (p.in->type == RF_JSON_OBJECT)
		rf_json_del(p.in, p.key);
	else if (array_index(p.key, &i))
		rf_json_remove(p.in, i);
	return 0;
}

/* --- the six operations ----------------------------------------------------------------------- */

struct op {
	struct rf_str path, from;
	const struct rf_json *value;
};

static int op_add(struct doc *d, const struct op *op)
{
	return put(d, op->path, rf_json_clone(d->w.a, op->value));
}

static int op_remove(struct doc *d, const struct op *op)
{
	struct rf_json *gone = NULL;

	return take_out(d, op->path, &gone);
}

static int op_replace(struct doc *d, const struct op *op)
{
	struct place p = { 0 };
	struct rf_json *old, *v = rf_json_clone(d->w.a, op->value);
	size_t i = 0;
	int rc = find_value(d, op->path, &p, &old);

	if (rc < 0)
		return rc;
	rc = check_size(d, &p, v, false);
	if (rc < 0)
		return rc;
	if (p.in == NULL)
		d->root = v;
	else if (p.in->type == RF_JSON_OBJECT)
		rf_json_set(d->w.a, p.in, p.key, v);
	else if (array_index(p.key, &i))
		p.in->items[i] = v;
	return 0;
}

static bool is_inside(struct rf_str path, struct rf_str from)
{
	return path.n > from.n && rf_str_starts(path, from) && path.p[from.n] == '/';
}

static int op_move(struct doc *d, const struct op *op)
{
	struct place p = { 0 };
	struct rf_json *v = NULL;
	int rc = find_value(d, op->from, &p, &v);

	if (rc < 0 || rf_str_eq(op->from, op->path))
		return rc;
	if (is_inside(op->path, op->from))
		return does_not_apply(d, "a value cannot be moved into itself", op->path);
	rc = take_out(d, op->from, &v);
	return rc < 0 ? rc : put(d, op->path, v);
}

static int op_copy(struct doc *d, const struct op *op)
{
	struct place p = { 0 };
	struct rf_json *v = NULL;
	int rc = find_value(d, op->from, &p, &v);

	if (rc < 0)
		return rc;
	/* Measured before it is made, so that the copy that is too much is never made. */
	rc = check_size(d, &p, v, true);
	return rc < 0 ? rc : put(d, op->path, rf_json_clone(d->w.a, v));
}

static int op_test(struct doc *d, const struct op *op)
{
	struct place p = { 0 };
	struct rf_json *v = NULL;
	int rc = find_value(d, op->path, &p, &v);

	if (rc < 0)
		return rc;
	if (rf_json_equal(v, op->value))
		return 0;
	return does_not_apply(d, "testing value failed", op->path);
}

static const struct {
	const char *name;
	bool wants_value, wants_from;
	int (*run)(struct doc *d, const struct op *op);
} OPS[] = {
	{ "add", true, false, op_add },		{ "remove", false, false, op_remove },
	{ "replace", true, false, op_replace }, { "move", false, true, op_move },
	{ "copy", false, true, op_copy },	{ "test", true, false, op_test },
};

static int read_op(struct doc *d, const struct rf_json *o, size_t which, struct op *ret)
{
	const struct rf_json *path = rf_json_at(o, "path"), *from = rf_json_at(o, "from");

	*ret = (struct op){ rf_json_str(path), rf_json_str(from), rf_json_at(o, "value") };
	if (!rf_json_is(path, RF_JSON_STRING))
		return malformed(d, "operation needs a \"path\"", rf_str(OPS[which].name));
	if (OPS[which].wants_from && !rf_json_is(from, RF_JSON_STRING))
		return malformed(d, "operation needs a \"from\"", rf_str(OPS[which].name));
	if (OPS[which].wants_value && ret->value == NULL)
		return malformed(d, "operation needs a \"value\"", rf_str(OPS[which].name));
	return 0;
}

static int apply(struct doc *d, const struct rf_json *o)
{
	struct rf_str name = rf_json_str_at(o, "op");

	for (size_t i = 0; i < RF_COUNT(OPS); i++) {
		struct op op = { 0 };
		int rc = 0;

		if (!rf_str_is(name, OPS[i].name))
			continue;
		rc = read_op(d, o, i, &op);
		if (rc < 0)
			return rc;
		rc = OPS[i].run(d, &op);
		return rc < 0 && d->w.err
			       ? rf_wrap(d->w.err, "%s operation does not apply", OPS[i].name)
			       : rc;
	}
	return malformed(d, "unexpected kind of operation (add, remove, replace, move, copy, test)",
			 name);
}

int rf_patch_json(struct rf_arena *a, struct rf_json **target, const struct rf_json *ops,
		  struct rf_err *err)
{
	struct doc d = { .w = { .a = a, .err = err, .left = RF_PATCH_WORK_MAX }, .root = *target };

	if (!rf_json_is(ops, RF_JSON_ARRAY))
		return rf_fail(err, RF_BAD_REQUEST, "JSON patch: want a list of operations");
	if (ops->n > OPS_MAX)
		return rf_fail(err, RF_TOO_LARGE,
			       "The allowed maximum operations in a JSON patch is %d, got %u",
			       OPS_MAX, ops->n);
	for (uint32_t i = 0; i < ops->n; i++) {
		int rc = apply(&d, ops->items[i]);

		if (rc < 0)
			return err ? rf_wrap(err, "JSON patch, operation %u", i) : rc;
	}
	*target = d.root;
	return 0;
}
