/* json.patch: RFC 6902 on values, sets included.
 *
 * A patched value is a tree of nodes that are opened (their children made nodes) only where a patch
 * goes, so many patches of one large value copy it once. */
#include "policy/rego/builtin_util.h"

struct node;

struct slot {
	struct rf_rv key; /* of an object; the element as it was, in a set */
	struct node *node;
};

struct node {
	struct rf_rv value; /* while not open; open: only its type counts */
	bool open, gone;
	struct slot *slot; /* objects and sets: in order of keys */
	uint32_t n, room;
};

struct patch {
	struct rf_rb_env *e;
	struct rf_err *err;
	struct node root;
};

/* --- paths --- */

static void unescape(struct rf_str *s, char *out)
{
	size_t n = 0;

	/* ~1 first, then ~0, so that "~01" is "~1" */
	for (size_t i = 0; i < s->n; i++) {
		bool slash = s->p[i] == '~' && i + 1 < s->n && s->p[i + 1] == '1';

		out[n++] = slash ? '/' : s->p[i];
		i += slash;
	}
	s->n = n;
	n = 0;
	for (size_t i = 0; i < s->n; i++) {
		out[n++] = out[i];
		i += out[i] == '~' && i + 1 < s->n && out[i + 1] == '0';
	}
	*s = rf_str_n(out, n);
}

static enum rf_rb_result text_path(struct rf_rb_env *e, struct rf_str s, struct rf_rv *ret)
{
	struct rf_rv_grow keys = { 0 };
	struct rf_str part;
	char *out = rb_alloc(e, s.n, 1);
	bool more = true;

	if (out == NULL || !rf_rb_spend(e, 1 + (int64_t)s.n))
		return RF_RB_FULL;
	if (s.n == 0) {
		*ret = rf_rv_array(NULL, 0);
		return RF_RB_OK;
	}
	while (s.n > 0 && s.p[0] == '/')
		s = rf_str_skip(s, 1);
	while (more) {
		more = rf_str_cut(&s, '/', &part);
		unescape(&part, out);
		out += part.n;
		if (!rf_rv_push(&keys, e->arena, rf_rv_str(part)))
			return RF_RB_FULL;
	}
	*ret = rf_rv_grown_array(&keys);
	return RF_RB_OK;
}

enum rf_rb_result rb_json_path(struct rf_rb_env *e, struct rf_rv path, struct rf_rv *ret,
			       struct rf_err *err)
{
	if (path.type == RF_RV_STRING)
		return text_path(e, rf_rv_text(path), ret);
	if (path.type != RF_RV_ARRAY)
		return rb_type_error(err,
				     "operand 2 must be one of {set, array} containing string paths or "
				     "array of path segments but got %s",
				     rf_rv_type_name(path));
	*ret = path;
	return RF_RB_OK;
}

/* --- nodes --- */

static struct node *new_node(struct patch *p, struct rf_rv value)
{
	struct node *n = rb_alloc(p->e, 1, sizeof(*n));

	if (n != NULL)
		n->value = value;
	return n;
}

static bool open_node(struct patch *p, struct node *n)
{
	struct rf_rv v = n->value;

	if (n->open)
		return true;
	n->slot = rb_alloc(p->e, (size_t)v.n + 4, sizeof(*n->slot));
	if (n->slot == NULL || !rf_rb_spend(p->e, v.n))
		return false;
	for (uint32_t i = 0; i < v.n; i++) {
		bool object = v.type == RF_RV_OBJECT;

		n->slot[i].key = object ? v.pairs[i].key : v.items[i];
		n->slot[i].node = new_node(p, object ? v.pairs[i].value : v.items[i]);
		if (n->slot[i].node == NULL)
			return false;
	}
	n->n = v.n;
	n->room = v.n + 4;
	n->open = true;
	return true;
}

static bool render(struct patch *p, struct node *n, int depth, struct rf_rv *ret)
{
	bool object = n->value.type == RF_RV_OBJECT;
	struct rf_rv_pair *pairs;

	if (!n->open) {
		*ret = n->value;
		return true;
	}
	pairs = rb_alloc(p->e, n->n, object ? sizeof(struct rf_rv_pair) : sizeof(struct rf_rv));
	if (pairs == NULL || depth > RB_DEPTH_MAX || !rf_rb_spend(p->e, n->n))
		return false;
	for (uint32_t i = 0; i < n->n; i++) {
		struct rf_rv *to = object ? &pairs[i].value : (struct rf_rv *)pairs + i;

		if (!render(p, n->slot[i].node, depth + 1, to))
			return false;
		if (object)
			pairs[i].key = n->slot[i].key;
	}
	*ret = object			      ? rf_rv_object(pairs, n->n, NULL) :
	       n->value.type == RF_RV_ARRAY ? rf_rv_array((struct rf_rv *)pairs, n->n) :
					      rf_rv_set((struct rf_rv *)pairs, n->n);
	return true;
}

/* A set is looked up by what its elements are now, not by what they were. */
static bool settle_set(struct patch *p, struct node *n)
{
	if (!n->open)
		return open_node(p, n);
	if (!render(p, n, 0, &n->value))
		return false;
	n->open = false;
	return open_node(p, n);
}

/* Where the key is, or where it would go. */
static bool find_key(const struct node *n, struct rf_rv key, uint32_t *ret)
{
	uint32_t lo = 0, hi = n->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		int c = rf_rv_cmp(n->slot[mid].key, key);

		if (c == 0) {
			*ret = mid;
			return true;
		}
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret = lo;
	return false;
}

static enum rf_rb_result array_index(struct patch *p, uint32_t n, struct rf_rv key, int64_t *ret)
{
	struct rf_str s = rf_rv_text(key);

	if (key.type == RF_RV_NUMBER && !key.big) {
		*ret = key.i;
		return RF_RB_OK;
	}
	if (key.type == RF_RV_NUMBER)
		return rb_error(p->err, "invalid number type for indexing");
	if (key.type != RF_RV_STRING)
		return rb_error(p->err, "invalid type for indexing");
	if (rf_str_is(s, "-")) {
		*ret = n;
		return RF_RB_OK;
	}
	if (rf_str_int(s, ret, NULL) < 0)
		return rb_error(p->err, "invalid string for indexing");
	if (s.n > 1 && s.p[0] == '0')
		return rb_error(p->err, "leading zeros are not allowed in JSON paths");
	return RF_RB_OK;
}

static enum rf_rb_result no_composite(struct patch *p, struct rf_rv key)
{
	return rb_error(p->err, "expected composite type for path %.*s", RF_STR(rb_shown(p->e, key)));
}

/* The slot of a key in an opened node. */
static enum rf_rb_result locate(struct patch *p, struct node *n, struct rf_rv key, bool *ret_found,
				uint32_t *ret_at)
{
	int64_t i;

	if (n->gone)
		return rb_error(p->err, "nil value encountered where composite value was expected");
	if (n->value.type < RF_RV_ARRAY)
		return no_composite(p, key);
	if (n->value.type == RF_RV_SET ? !settle_set(p, n) : !open_node(p, n))
		return RF_RB_FULL;
	if (n->value.type != RF_RV_ARRAY) {
		*ret_found = find_key(n, key, ret_at);
		return RF_RB_OK;
	}
	RB_TRY(array_index(p, n->n, key, &i));
	if (i < 0 || i > n->n)
		return rb_error(p->err, "index %lld for array out of bounds", (long long)i);
	*ret_at = (uint32_t)i;
	*ret_found = i < n->n;
	return RF_RB_OK;
}

static enum rf_rb_result descend(struct patch *p, struct rf_rv path, uint32_t steps, struct node **ret)
{
	struct node *n = &p->root;

	for (uint32_t i = 0; i < steps; i++) {
		bool found;
		uint32_t at;

		if (!rf_rb_spend(p->e, 4))
			return RF_RB_FULL;
		RB_TRY(locate(p, n, path.items[i], &found, &at));
		if (!found)
			return rb_error(p->err, "path %.*s does not exist",
					RF_STR(rb_shown(p->e, path.items[i])));
		n = n->slot[at].node;
	}
	*ret = n;
	return RF_RB_OK;
}

static bool make_room(struct patch *p, struct node *n, uint32_t at)
{
	if (n->n == n->room) {
		struct slot *slot = rb_alloc(p->e, (size_t)n->room * 2, sizeof(*slot));

		if (slot == NULL)
			return false;
		memcpy(slot, n->slot, n->n * sizeof(*slot));
		n->slot = slot;
		n->room *= 2;
	}
	memmove(n->slot + at + 1, n->slot + at, (n->n - at) * sizeof(*n->slot));
	n->n++;
	return rf_rb_spend(p->e, 1 + (n->n - at) / 8);
}

static enum rf_rb_result insert_at(struct patch *p, struct rf_rv path, struct rf_rv value)
{
	struct node *n, *kid;
	struct rf_rv key;
	bool found;
	uint32_t at;

	if (path.n == 0) {
		p->root = (struct node){ .value = value };
		return RF_RB_OK;
	}
	key = path.items[path.n - 1];
	RB_TRY(descend(p, path, path.n - 1, &n));
	RB_TRY(locate(p, n, key, &found, &at));
	if (n->value.type == RF_RV_SET && !rf_rv_eq(key, value))
		return rb_error(p->err, "set key %.*s does not equal value to be inserted %.*s",
				RF_STR(rb_shown(p->e, key)), RF_STR(rb_shown(p->e, value)));
	kid = new_node(p, value);
	if (kid == NULL)
		return RF_RB_FULL;
	if ((!found || n->value.type == RF_RV_ARRAY) && !make_room(p, n, at))
		return RF_RB_FULL;
	n->slot[at] = (struct slot){ key, kid };
	return RF_RB_OK;
}

static enum rf_rb_result delete_at(struct patch *p, struct rf_rv path)
{
	struct node *n;
	bool found;
	uint32_t at;

	if (path.n == 0) {
		if (p->root.gone)
			return rb_error(p->err, "deleted node encountered during delete operation");
		p->root = (struct node){ .gone = true };
		return RF_RB_OK;
	}
	RB_TRY(descend(p, path, path.n - 1, &n));
	RB_TRY(locate(p, n, path.items[path.n - 1], &found, &at));
	if (!found)
		return rb_error(p->err, "cannot delete child key %.*s that does not exist",
				RF_STR(rb_shown(p->e, path.items[path.n - 1])));
	if (!rf_rb_spend(p->e, 1 + (n->n - at) / 8))
		return RF_RB_FULL;
	memmove(n->slot + at, n->slot + at + 1, (n->n - at - 1) * sizeof(*n->slot));
	n->n--;
	return RF_RB_OK;
}

static enum rf_rb_result value_at(struct patch *p, struct rf_rv path, struct rf_rv *ret)
{
	struct node *n;

	RB_TRY(descend(p, path, path.n, &n));
	if (n->gone)
		return rb_error(p->err, "deleted node encountered");
	return render(p, n, 0, ret) ? RF_RB_OK : RF_RB_FULL;
}

/* --- operations --- */

static enum rf_rb_result attribute(struct patch *p, struct rf_rv op, const char *name,
				   struct rf_rv *ret)
{
	if (!rf_rv_get_str(op, rf_str(name), ret))
		return rb_error(p->err, "missing required attribute '%s'", name);
	return RF_RB_OK;
}

static enum rf_rb_result from_value(struct patch *p, struct rf_rv op, bool take, struct rf_rv *ret)
{
	struct rf_rv from;

	RB_TRY(attribute(p, op, "from", &from));
	RB_TRY(rb_json_path(p->e, from, &from, p->err));
	RB_TRY(value_at(p, from, ret));
	return take ? delete_at(p, from) : RF_RB_OK;
}

static enum rf_rb_result test_value(struct patch *p, struct rf_rv op, struct rf_rv path)
{
	struct rf_rv have, want;

	RB_TRY(value_at(p, path, &have));
	RB_TRY(attribute(p, op, "value", &want));
	if (!rf_rv_eq(have, want))
		return rb_error(p->err,
				"value from EditTree != patch value.\n\nExpected: %.*s\n\nFound: %.*s",
				RF_STR(rb_shown(p->e, want)), RF_STR(rb_shown(p->e, have)));
	return RF_RB_OK;
}

static enum rf_rb_result apply(struct patch *p, struct rf_rv op)
{
	struct rf_rv path, kind, value;
	struct rf_str name;

	if (op.type != RF_RV_OBJECT)
		return rb_error(p->err, "must be an array of JSON-Patch objects, but at least one "
					"element is not an object");
	RB_TRY(attribute(p, op, "path", &path));
	RB_TRY(attribute(p, op, "op", &kind));
	if (kind.type != RF_RV_STRING)
		return rb_error(p->err, "attribute 'op' must be a string but found: %s",
				rf_rv_type_name(kind));
	RB_TRY(rb_json_path(p->e, path, &path, p->err));
	name = rf_rv_text(kind);
	if (rf_str_is(name, "remove"))
		return delete_at(p, path);
	if (rf_str_is(name, "test"))
		return test_value(p, op, path);
	if (rf_str_is(name, "replace"))
		RB_TRY(delete_at(p, path));
	else if (!rf_str_is(name, "add") && !rf_str_is(name, "move") && !rf_str_is(name, "copy"))
		return rb_error(p->err, "unrecognized op: '%.*s'", RF_STR(name));
	if (rf_str_is(name, "move") || rf_str_is(name, "copy"))
		RB_TRY(from_value(p, op, rf_str_is(name, "move"), &value));
	else
		RB_TRY(attribute(p, op, "value", &value));
	return insert_at(p, path, value);
}

enum rf_rb_result rb_json_patch(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				struct rf_err *err)
{
	struct patch p = { .e = e, .err = err, .root.value = arg[0] };

	for (uint32_t i = 0; i < arg[1].n; i++) {
		if (!rf_rb_spend(e, 1))
			return RF_RB_FULL;
		RB_TRY(apply(&p, arg[1].items[i]));
	}
	if (p.root.gone)
		return RF_RB_UNDEFINED;
	return render(&p, &p.root, 0, ret) ? RF_RB_OK : RF_RB_FULL;
}
