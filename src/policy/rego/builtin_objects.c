/* Arrays, sets, objects, graphs, walk, json.filter and json.remove. */
#include "policy/rego/builtin_util.h"

#include <stdio.h>

/* --- arrays --- */

static enum rf_rb_result array_concat(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				      struct rf_err *err)
{
	uint32_t n = arg[0].n, m = arg[1].n;
	struct rf_rv *items;

	(void)err;
	if (n == 0 || m == 0) {
		*ret = arg[n == 0];
		return RF_RB_OK;
	}
	if (n > UINT32_MAX - m || !rf_rb_spend(e, (int64_t)n + m))
		return RF_RB_FULL;
	items = rb_alloc(e, (size_t)n + m, sizeof(*items));
	if (items == NULL)
		return RF_RB_FULL;
	memcpy(items, arg[0].items, n * sizeof(*items));
	memcpy(items + n, arg[1].items, m * sizeof(*items));
	*ret = rf_rv_array(items, n + m);
	return RF_RB_OK;
}

static enum rf_rb_result array_flatten(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	struct rf_rv_grow out = { 0 };

	(void)err;
	for (uint32_t i = 0; i < arg[0].n; i++) {
		struct rf_rv v = arg[0].items[i];

		if (!rf_rb_spend(e, 1))
			return RF_RB_FULL;
		if (v.type != RF_RV_ARRAY) {
			if (!rf_rv_push(&out, e->arena, v))
				return RF_RB_FULL;
			continue;
		}
		if (!rf_rb_spend(e, v.n))
			return RF_RB_FULL;
		for (uint32_t j = 0; j < v.n; j++)
			if (!rf_rv_push(&out, e->arena, v.items[j]))
				return RF_RB_FULL;
	}
	*ret = rf_rv_grown_array(&out);
	return RF_RB_OK;
}

static enum rf_rb_result array_slice(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	int64_t from, to;

	(void)e;
	RB_TRY(rb_int(arg[1], 2, &from, err));
	RB_TRY(rb_int(arg[2], 3, &to, err));
	to = RF_MAX(0, RF_MIN(to, (int64_t)arg[0].n));
	from = RF_MAX(0, RF_MIN(from, to));
	/* values never change, so a part of an array may point into it */
	*ret = to == from ? rf_rv_array(NULL, 0) :
			    rf_rv_array(arg[0].items + from, (uint32_t)(to - from));
	return RF_RB_OK;
}

static enum rf_rb_result array_reverse(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	uint32_t n = arg[0].n;
	struct rf_rv *items;

	(void)err;
	if (!rf_rb_spend(e, n) || (items = rb_alloc(e, n, sizeof(*items))) == NULL)
		return RF_RB_FULL;
	for (uint32_t i = 0; i < n; i++)
		items[i] = arg[0].items[n - 1 - i];
	*ret = rf_rv_array(items, n);
	return RF_RB_OK;
}

/* --- sets --- */

static enum rf_rb_result all_sets(struct rf_rv set, struct rf_err *err)
{
	for (uint32_t i = 0; i < set.n; i++)
		if (set.items[i].type != RF_RV_SET)
			return rb_type_error(err, "operand 1 must be set but got %s",
					     rf_rv_type_name(set.items[i]));
	return RF_RB_OK;
}

/* Elements of a that are in b, or that are not; both are in order. */
static enum rf_rb_result sift(struct rf_rb_env *e, struct rf_rv a, struct rf_rv b, bool in,
			      struct rf_rv *ret)
{
	struct rf_rv *items = rb_alloc(e, a.n, sizeof(*items));
	uint32_t n = 0, j = 0;

	if (items == NULL || !rf_rb_spend(e, (int64_t)a.n + b.n))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < a.n; i++) {
		int c = -1;

		while (j < b.n && (c = rf_rv_cmp(b.items[j], a.items[i])) < 0)
			j++;
		if ((j < b.n && c == 0) == in)
			items[n++] = a.items[i];
	}
	*ret = (struct rf_rv){ .type = RF_RV_SET, .n = n, .items = items };
	return RF_RB_OK;
}

static enum rf_rb_result set_intersection(struct rf_rb_env *e, const struct rf_rv *arg,
					  struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv have;

	RB_TRY(all_sets(arg[0], err));
	if (arg[0].n == 0) {
		*ret = rf_rv_set(NULL, 0);
		return RF_RB_OK;
	}
	have = arg[0].items[0];
	for (uint32_t i = 1; i < arg[0].n; i++)
		RB_TRY(sift(e, have, arg[0].items[i], true, &have));
	*ret = have;
	return RF_RB_OK;
}

static enum rf_rb_result set_union(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				   struct rf_err *err)
{
	struct rf_rv_grow out = { 0 };

	RB_TRY(all_sets(arg[0], err));
	for (uint32_t i = 0; i < arg[0].n; i++) {
		struct rf_rv s = arg[0].items[i];

		if (!rf_rb_spend(e, 1 + (int64_t)s.n))
			return RF_RB_FULL;
		for (uint32_t j = 0; j < s.n; j++)
			if (!rf_rv_add(&out, e->arena, s.items[j], NULL))
				return RF_RB_FULL;
	}
	*ret = rf_rv_grown_set(&out);
	return RF_RB_OK;
}

static enum rf_rb_result set_diff(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				  struct rf_err *err)
{
	(void)err;
	return sift(e, arg[0], arg[1], false, ret);
}

/* --- objects --- */

static enum rf_rb_result object_get(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				    struct rf_err *err)
{
	struct rf_rv v = arg[0];

	(void)err;
	if (arg[1].type != RF_RV_ARRAY) {
		*ret = rf_rv_get(v, arg[1], &v) ? v : arg[2];
		return RF_RB_OK;
	}
	if (!rf_rb_spend(e, arg[1].n))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < arg[1].n; i++)
		if (!rf_rv_get(v, arg[1].items[i], &v)) {
			*ret = arg[2];
			return RF_RB_OK;
		}
	*ret = v;
	return RF_RB_OK;
}

static enum rf_rb_result object_keys(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	struct rf_rv *items = rb_alloc(e, arg[0].n, sizeof(*items));

	(void)err;
	if (items == NULL || !rf_rb_spend(e, arg[0].n))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < arg[0].n; i++)
		items[i] = arg[0].pairs[i].key;
	*ret = (struct rf_rv){ .type = RF_RV_SET, .n = arg[0].n, .items = items };
	return RF_RB_OK;
}

/* The keys an array, a set or an object names, as a set. */
static enum rf_rb_result key_set(struct rf_rb_env *e, struct rf_rv v, struct rf_rv *ret,
				 struct rf_err *err)
{
	struct rf_rv *items;

	if (v.type == RF_RV_SET) {
		*ret = v;
		return RF_RB_OK;
	}
	if (v.type == RF_RV_OBJECT)
		return object_keys(e, &v, ret, err);
	if (v.type != RF_RV_ARRAY)
		return rb_type_error(err, "operand 2 must be one of {object, set, array} but got %s",
				     rf_rv_type_name(v));
	items = rb_alloc(e, v.n, sizeof(*items));
	if (items == NULL || !rf_rb_spend(e, (int64_t)v.n * 4))
		return RF_RB_FULL;
	if (v.n > 0)
		memcpy(items, v.items, v.n * sizeof(*items));
	*ret = rf_rv_set(items, v.n);
	return RF_RB_OK;
}

static enum rf_rb_result keep_keys(struct rf_rb_env *e, const struct rf_rv *arg, bool in,
				   struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv keys;
	struct rf_rv_pair *pairs;
	uint32_t n = 0;

	RB_TRY(key_set(e, arg[1], &keys, err));
	pairs = rb_alloc(e, arg[0].n, sizeof(*pairs));
	if (pairs == NULL || !rf_rb_spend(e, arg[0].n))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < arg[0].n; i++)
		if (rf_rv_has(keys, arg[0].pairs[i].key) == in)
			pairs[n++] = arg[0].pairs[i];
	*ret = (struct rf_rv){ .type = RF_RV_OBJECT, .n = n, .pairs = pairs };
	return RF_RB_OK;
}

static enum rf_rb_result object_remove(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	return keep_keys(e, arg, false, ret, err);
}

static enum rf_rb_result object_filter(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	return keep_keys(e, arg, true, ret, err);
}

/* Union of objects, later ones winning, objects inside merged. Done key by key over all of them at
 * once: pairwise, n objects of one key each would cost n*n. */
struct from {
	struct rf_rv_pair pair;
	uint32_t at; /* which object it is of */
};

static int by_key(const void *a, const void *b)
{
	const struct from *x = a, *y = b;
	int c = rf_rv_cmp(x->pair.key, y->pair.key);

	return c != 0 ? c : (x->at > y->at) - (x->at < y->at);
}

static enum rf_rb_result union_of(struct rf_rb_env *e, const struct rf_rv *objects, uint32_t n,
				  int depth, struct rf_rv *ret);

/* One key's values, in order of the objects: the last one counts, and objects that directly precede
 * an object are merged under it. */
static enum rf_rb_result union_key(struct rf_rb_env *e, const struct from *from, size_t n, int depth,
				   struct rf_rv *ret)
{
	size_t first = n - 1;
	struct rf_rv *part;

	while (first > 0 && from[first].pair.value.type == RF_RV_OBJECT &&
	       from[first - 1].pair.value.type == RF_RV_OBJECT)
		first--;
	if (first == n - 1) {
		*ret = from[first].pair.value;
		return RF_RB_OK;
	}
	part = rb_alloc(e, n - first, sizeof(*part));
	if (part == NULL)
		return RF_RB_FULL;
	for (size_t i = first; i < n; i++)
		part[i - first] = from[i].pair.value;
	return union_of(e, part, (uint32_t)(n - first), depth + 1, ret);
}

static enum rf_rb_result union_of(struct rf_rb_env *e, const struct rf_rv *objects, uint32_t n,
				  int depth, struct rf_rv *ret)
{
	struct rf_rv_pair *pairs;
	struct from *from;
	size_t total = 0, filled = 0;
	uint32_t out = 0;

	for (uint32_t i = 0; i < n; i++)
		total += objects[i].n;
	if (depth > RB_DEPTH_MAX || total > UINT32_MAX || !rf_rb_spend(e, (int64_t)total * 4 + n))
		return RF_RB_FULL;
	from = rb_alloc(e, total, sizeof(*from));
	pairs = rb_alloc(e, total, sizeof(*pairs));
	if (from == NULL || pairs == NULL)
		return RF_RB_FULL;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < objects[i].n; j++)
			from[filled++] = (struct from){ objects[i].pairs[j], i };
	qsort(from, total, sizeof(*from), by_key);
	for (size_t i = 0, j; i < total; i = j) {
		for (j = i + 1; j < total && rf_rv_eq(from[j].pair.key, from[i].pair.key); j++)
			;
		pairs[out].key = from[i].pair.key;
		RB_TRY(union_key(e, from + i, j - i, depth, &pairs[out].value));
		out++;
	}
	*ret = (struct rf_rv){ .type = RF_RV_OBJECT, .n = out, .pairs = pairs };
	return RF_RB_OK;
}

static enum rf_rb_result object_union(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				      struct rf_err *err)
{
	(void)err;
	return union_of(e, arg, 2, 0, ret);
}

static enum rf_rb_result object_union_n(struct rf_rb_env *e, const struct rf_rv *arg,
					struct rf_rv *ret, struct rf_err *err)
{
	for (uint32_t i = 0; i < arg[0].n; i++)
		if (arg[0].items[i].type != RF_RV_OBJECT)
			return rb_type_error(err,
					     "operand 1 must be array of objects but got array containing %s",
					     rf_rv_type_name(arg[0].items[i]));
	return union_of(e, arg[0].items, arg[0].n, 0, ret);
}

/* --- object.subset --- */

static enum rf_rb_result subset(struct rf_rb_env *e, struct rf_rv super, struct rf_rv sub, int depth,
				bool *ret);

static enum rf_rb_result object_in(struct rf_rb_env *e, struct rf_rv super, struct rf_rv sub, int depth,
				   bool *ret)
{
	for (uint32_t i = 0; i < sub.n; i++) {
		struct rf_rv have, want = sub.pairs[i].value;
		bool in;

		if (!rf_rb_spend(e, 1))
			return RF_RB_FULL;
		*ret = false;
		if (!rf_rv_get(super, sub.pairs[i].key, &have))
			return RF_RB_OK;
		if (rf_rv_eq(have, want))
			continue;
		if (have.type != want.type || have.type < RF_RV_ARRAY)
			return RF_RB_OK;
		RB_TRY(subset(e, have, want, depth + 1, &in));
		if (!in)
			return RF_RB_OK;
	}
	*ret = true;
	return RF_RB_OK;
}

static enum rf_rb_result array_in(struct rf_rb_env *e, struct rf_rv super, struct rf_rv sub, bool *ret)
{
	*ret = false;
	for (uint32_t at = 0; sub.n <= super.n && at <= super.n - sub.n; at++) {
		uint32_t i = 0;

		while (i < sub.n && rf_rv_eq(super.items[at + i], sub.items[i]))
			i++;
		if (!rf_rb_spend(e, 1 + (int64_t)i))
			return RF_RB_FULL;
		if (i == sub.n) {
			*ret = true;
			break;
		}
	}
	return RF_RB_OK;
}

static enum rf_rb_result subset(struct rf_rb_env *e, struct rf_rv super, struct rf_rv sub, int depth,
				bool *ret)
{
	if (depth > RB_DEPTH_MAX)
		return RF_RB_FULL;
	if (sub.type == RF_RV_OBJECT)
		return object_in(e, super, sub, depth, ret);
	if (sub.type == RF_RV_ARRAY)
		return array_in(e, super, sub, ret);
	if (!rf_rb_spend(e, sub.n))
		return RF_RB_FULL;
	*ret = true;
	for (uint32_t i = 0; i < sub.n && *ret; i++)
		*ret = rf_rv_has(super, sub.items[i]);
	return RF_RB_OK;
}

/* Is each of the set in the array? Counted as OPA counts: an element that is there twice counts twice. */
static bool array_holds_set(struct rf_rv array, struct rf_rv set)
{
	int64_t left = set.n;

	for (uint32_t i = 0; i < array.n; i++) {
		left -= rf_rv_has(set, array.items[i]);
		if (left == 0)
			return true;
	}
	return false;
}

static enum rf_rb_result object_subset(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	bool in = false;

	if (arg[0].type == RF_RV_ARRAY && arg[1].type == RF_RV_SET) {
		if (!rf_rb_spend(e, arg[0].n))
			return RF_RB_FULL;
		in = array_holds_set(arg[0], arg[1]);
	} else if (arg[0].type != arg[1].type || arg[0].type < RF_RV_ARRAY) {
		return rb_type_error(err,
				     "both arguments object.subset must be of the same type or array and set");
	} else {
		RB_TRY(subset(e, arg[0], arg[1], 0, &in));
	}
	*ret = rf_rv_bool(in);
	return RF_RB_OK;
}

/* --- json.filter, json.remove --- */

/* The paths as a tree; at a leaf everything below is meant. */
struct path_node {
	bool leaf;
	struct rf_rv_grow kids; /* key to the address of a node, as an integer */
};

static struct path_node *kid_of(const struct path_node *node, struct rf_rv key)
{
	struct rf_rv v;

	return rf_rv_find(&node->kids, key, &v) ? (struct path_node *)(intptr_t)v.i : NULL;
}

static struct path_node *make_kid(struct rf_rb_env *e, struct path_node *node, struct rf_rv key)
{
	struct path_node *kid = kid_of(node, key);
	bool conflict;

	if (kid != NULL)
		return kid;
	kid = rb_alloc(e, 1, sizeof(*kid));
	if (kid == NULL ||
	    !rf_rv_put(&node->kids, e->arena, key, rf_rv_int((intptr_t)kid), &conflict))
		return NULL;
	return kid;
}

static enum rf_rb_result add_path(struct rf_rb_env *e, struct path_node *node, struct rf_rv path)
{
	if (!rf_rb_spend(e, path.n))
		return RF_RB_FULL;
	if (path.n == 0)
		return RF_RB_OK;
	for (uint32_t i = 0; i < path.n; i++) {
		if (node->leaf)
			return RF_RB_OK;
		node = make_kid(e, node, path.items[i]);
		if (node == NULL)
			return RF_RB_FULL;
	}
	node->leaf = true;
	return RF_RB_OK;
}

static enum rf_rb_result tree_of_paths(struct rf_rb_env *e, struct rf_rv paths, struct path_node *root,
				       struct rf_err *err)
{
	if (paths.type != RF_RV_ARRAY && paths.type != RF_RV_SET)
		return rb_type_error(err, "operand 2 must be one of {set, array} but got %s",
				     rf_rv_type_name(paths));
	for (uint32_t i = 0; i < paths.n; i++) {
		struct rf_rv path;

		RB_TRY(rb_json_path(e, paths.items[i], &path, err));
		RB_TRY(add_path(e, root, path));
	}
	return RF_RB_OK;
}

static struct path_node *kid_at(const struct path_node *node, uint32_t i)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%u", i);

	return kid_of(node, rf_rv_str(rf_str_n(text, (size_t)n)));
}

/* What is left of v once only what the tree names is kept (keep), or is taken away. *ret_gone: v itself
 * goes. node is not a leaf. */
static enum rf_rb_result prune(struct rf_rb_env *e, struct rf_rv v, const struct path_node *node,
			       bool keep, int depth, struct rf_rv *ret);

/* One child with what the tree says of it; *ret_gone: it is left out. */
static enum rf_rb_result prune_kid(struct rf_rb_env *e, struct rf_rv v, const struct path_node *kid,
				   bool keep, int depth, struct rf_rv *ret, bool *ret_gone)
{
	*ret_gone = false;
	*ret = v;
	if (kid == NULL || kid->leaf) {
		*ret_gone = (kid != NULL) != keep;
		return RF_RB_OK;
	}
	return prune(e, v, kid, keep, depth + 1, ret);
}

static enum rf_rb_result prune_object(struct rf_rb_env *e, struct rf_rv v, const struct path_node *node,
				      bool keep, int depth, struct rf_rv *ret)
{
	struct rf_rv_pair *pairs = rb_alloc(e, v.n, sizeof(*pairs));
	uint32_t n = 0;

	if (pairs == NULL)
		return RF_RB_FULL;
	for (uint32_t i = 0; i < v.n; i++) {
		bool gone;

		pairs[n].key = v.pairs[i].key;
		RB_TRY(prune_kid(e, v.pairs[i].value, kid_of(node, v.pairs[i].key), keep, depth,
				 &pairs[n].value, &gone));
		n += !gone;
	}
	*ret = (struct rf_rv){ .type = RF_RV_OBJECT, .n = n, .pairs = pairs };
	return RF_RB_OK;
}

static enum rf_rb_result prune(struct rf_rb_env *e, struct rf_rv v, const struct path_node *node,
			       bool keep, int depth, struct rf_rv *ret)
{
	struct rf_rv *items;
	uint32_t n = 0;

	*ret = v;
	if (v.type < RF_RV_ARRAY)
		return RF_RB_OK;
	if (depth > RB_DEPTH_MAX || !rf_rb_spend(e, 1 + (int64_t)v.n))
		return RF_RB_FULL;
	if (v.type == RF_RV_OBJECT)
		return prune_object(e, v, node, keep, depth, ret);
	items = rb_alloc(e, v.n, sizeof(*items));
	if (items == NULL)
		return RF_RB_FULL;
	for (uint32_t i = 0; i < v.n; i++) {
		struct path_node *kid = v.type == RF_RV_ARRAY ? kid_at(node, i) :
								kid_of(node, v.items[i]);
		bool gone;

		RB_TRY(prune_kid(e, v.items[i], kid, keep, depth, &items[n], &gone));
		n += !gone;
	}
	*ret = v.type == RF_RV_ARRAY ? rf_rv_array(items, n) : rf_rv_set(items, n);
	return RF_RB_OK;
}

static enum rf_rb_result prune_by(struct rf_rb_env *e, const struct rf_rv *arg, bool keep,
				  struct rf_rv *ret, struct rf_err *err)
{
	struct path_node root = { 0 };

	RB_TRY(tree_of_paths(e, arg[1], &root, err));
	return prune(e, arg[0], &root, keep, 0, ret);
}

static enum rf_rb_result json_filter(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	return prune_by(e, arg, true, ret, err);
}

static enum rf_rb_result json_remove(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	return prune_by(e, arg, false, ret, err);
}

/* --- graphs --- */

static bool edges_of(struct rf_rv graph, struct rf_rv node, struct rf_rv *ret)
{
	if (!rf_rv_get(graph, node, ret))
		return false;
	if (ret->type != RF_RV_ARRAY && ret->type != RF_RV_SET)
		*ret = rf_rv_array(NULL, 0);
	return true;
}

static enum rf_rb_result reachable(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				   struct rf_err *err)
{
	struct rf_rv_grow queue = { 0 }, reached = { 0 };

	(void)err;
	for (uint32_t i = 0; i < arg[1].n; i++)
		if (!rf_rb_spend(e, 1) || !rf_rv_add(&queue, e->arena, arg[1].items[i], NULL))
			return RF_RB_FULL;
	/* the queue holds each node once, so this ends */
	for (uint32_t at = 0; at < queue.n; at++) {
		struct rf_rv node = queue.items[at], edges;

		if (!rf_rb_spend(e, 1))
			return RF_RB_FULL;
		if (!edges_of(arg[0], node, &edges))
			continue;
		if (!rf_rv_add(&reached, e->arena, node, NULL) || !rf_rb_spend(e, edges.n))
			return RF_RB_FULL;
		for (uint32_t i = 0; i < edges.n; i++)
			if (!rf_rv_add(&queue, e->arena, edges.items[i], NULL))
				return RF_RB_FULL;
	}
	*ret = rf_rv_grown_set(&reached);
	return RF_RB_OK;
}

/* A walk in depth, with its own stack: a path may be as long as the graph has nodes. */
struct trail {
	struct rf_rb_env *e;
	struct rf_rv graph;
	struct rf_rv_grow found;
	struct rf_rv *path; /* the nodes from the start to here */
	struct step {
		struct rf_rv edges;
		uint32_t next;
	} *step;
	uint32_t n, room;
};

static bool on_path(const struct trail *t, struct rf_rv node)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (rf_rv_eq(t->path[i], node))
			return true;
	return false;
}

static bool keep_path(struct trail *t)
{
	struct rf_rv *items = rb_alloc(t->e, t->n, sizeof(*items));

	if (items == NULL || !rf_rb_spend(t->e, t->n))
		return false;
	memcpy(items, t->path, t->n * sizeof(*items));
	return rf_rv_add(&t->found, t->e->arena, rf_rv_array(items, t->n), NULL);
}

static bool push_step(struct trail *t, struct rf_rv node, struct rf_rv edges)
{
	if (t->n == t->room) {
		uint32_t room = t->room == 0 ? 16 : t->room * 2;
		struct rf_rv *path = rb_alloc(t->e, room, sizeof(*path));
		struct step *step = rb_alloc(t->e, room, sizeof(*step));

		if (path == NULL || step == NULL)
			return false;
		if (t->n > 0) {
			memcpy(path, t->path, t->n * sizeof(*path));
			memcpy(step, t->step, t->n * sizeof(*step));
		}
		t->path = path;
		t->step = step;
		t->room = room;
	}
	t->path[t->n] = node;
	t->step[t->n++] = (struct step){ edges, 0 };
	return true;
}

/* Goes to a neighbour of the last node of the path. A path ends before a node that is not in the
 * graph or is on it already, and at one without edges. */
static bool visit(struct trail *t, struct rf_rv node)
{
	struct rf_rv edges;

	if (!rf_rb_spend(t->e, 1 + (int64_t)t->n))
		return false;
	/* OPA does not look for the start itself among its own neighbours */
	if ((t->n > 1 && on_path(t, node)) || !edges_of(t->graph, node, &edges))
		return keep_path(t);
	if (!push_step(t, node, edges))
		return false;
	if (edges.n > 0)
		return true;
	if (!keep_path(t))
		return false;
	t->n--;
	return true;
}

static bool paths_from(struct trail *t, struct rf_rv start)
{
	struct rf_rv edges;

	if (!edges_of(t->graph, start, &edges))
		return true;
	t->n = 0;
	if (!push_step(t, start, edges))
		return false;
	if (edges.n == 0)
		return keep_path(t);
	while (t->n > 0) {
		struct step *s = &t->step[t->n - 1];

		if (s->next == s->edges.n)
			t->n--;
		else if (!visit(t, s->edges.items[s->next++]))
			return false;
	}
	return true;
}

static enum rf_rb_result reachable_paths(struct rf_rb_env *e, const struct rf_rv *arg,
					 struct rf_rv *ret, struct rf_err *err)
{
	struct trail t = { .e = e, .graph = arg[0] };

	(void)err;
	for (uint32_t i = 0; i < arg[1].n; i++)
		if (!rf_rb_spend(e, 1) || !paths_from(&t, arg[1].items[i]))
			return RF_RB_FULL;
	*ret = rf_rv_grown_set(&t.found);
	return RF_RB_OK;
}

/* --- walk --- */

struct walker {
	struct rf_rb_env *e;
	struct rf_rv_grow out;
	struct rf_rv path[RB_DEPTH_MAX];
};

static bool walk_at(struct walker *w, struct rf_rv v, uint32_t depth)
{
	struct rf_rv *pair = rb_alloc(w->e, 2 + (size_t)depth, sizeof(*pair));

	if (pair == NULL || !rf_rb_spend(w->e, 1 + (int64_t)depth / 4))
		return false;
	if (depth > 0)
		memcpy(pair + 2, w->path, depth * sizeof(*pair));
	pair[0] = rf_rv_array(pair + 2, depth);
	pair[1] = v;
	if (!rf_rv_push(&w->out, w->e->arena, rf_rv_array(pair, 2)))
		return false;
	if (v.type < RF_RV_ARRAY)
		return true;
	if (depth == RB_DEPTH_MAX)
		return v.n == 0;
	for (uint32_t i = 0; i < v.n; i++) {
		struct rf_rv kid = v.type == RF_RV_OBJECT ? v.pairs[i].value : v.items[i];

		w->path[depth] = v.type == RF_RV_ARRAY	? rf_rv_int(i) :
				 v.type == RF_RV_OBJECT ? v.pairs[i].key :
							  kid;
		if (!walk_at(w, kid, depth + 1))
			return false;
	}
	return true;
}

static enum rf_rb_result walk(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
			      struct rf_err *err)
{
	struct walker *w = rb_alloc(e, 1, sizeof(*w));

	(void)err;
	if (w == NULL)
		return RF_RB_FULL;
	w->e = e;
	if (!walk_at(w, arg[0], 0))
		return RF_RB_FULL;
	*ret = rf_rv_grown_array(&w->out);
	return RF_RB_OK;
}

static const struct rf_rb rows[] = {
	{ "array.concat", 2, .arg = { RF_RB_ARR, RF_RB_ARR }, .fn = array_concat },
	{ "array.flatten", 1, .arg = { RF_RB_ARR }, .fn = array_flatten },
	{ "array.reverse", 1, .arg = { RF_RB_ARR }, .fn = array_reverse },
	{ "array.slice", 3, .arg = { RF_RB_ARR, RF_RB_NUM, RF_RB_NUM }, .fn = array_slice },
	{ "graph.reachable", 2, .arg = { RF_RB_OBJ, RF_RB_ARR | RF_RB_SET }, .fn = reachable },
	{ "graph.reachable_paths", 2, .arg = { RF_RB_OBJ, RF_RB_ARR | RF_RB_SET },
	  .fn = reachable_paths },
	{ "intersection", 1, .arg = { RF_RB_SET }, .fn = set_intersection },
	{ "json.filter", 2, .arg = { RF_RB_OBJ, RF_RB_ANY }, .fn = json_filter },
	{ "json.patch", 2, .arg = { RF_RB_ANY, RF_RB_ARR }, .fn = rb_json_patch },
	{ "json.remove", 2, .arg = { RF_RB_OBJ, RF_RB_ANY }, .fn = json_remove },
	{ "object.filter", 2, .arg = { RF_RB_OBJ, RF_RB_ANY }, .fn = object_filter },
	{ "object.get", 3, .arg = { RF_RB_OBJ, RF_RB_ANY, RF_RB_ANY }, .fn = object_get },
	{ "object.keys", 1, .arg = { RF_RB_OBJ }, .fn = object_keys },
	{ "object.remove", 2, .arg = { RF_RB_OBJ, RF_RB_ANY }, .fn = object_remove },
	{ "object.subset", 2, .arg = { RF_RB_ANY, RF_RB_ANY }, .fn = object_subset },
	{ "object.union", 2, .arg = { RF_RB_OBJ, RF_RB_OBJ }, .fn = object_union },
	{ "object.union_n", 1, .arg = { RF_RB_ARR }, .fn = object_union_n },
	{ "set_diff", 2, .v0_only = true, .arg = { RF_RB_SET, RF_RB_SET }, .fn = set_diff },
	{ "union", 1, .arg = { RF_RB_SET }, .fn = set_union },
	{ "walk", 1, .relation = true, .arg = { RF_RB_ANY }, .fn = walk },
};

const struct rf_rb_rows rf_rb_objects = { rows, RF_COUNT(rows) };
