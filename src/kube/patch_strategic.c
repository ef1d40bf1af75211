/* Strategic merge patch: as a merge patch, but lists of built-in kinds are merged by their keys,
 * and members whose names begin with '$' tell how. What a directive means, and where a new list
 * element goes, follows Kubernetes to the letter: clients compute their patches from that. */
#include "kube/merge_keys.h"
#include "kube/private.h"

#define ORDER_PREFIX RF_LIT("$setElementOrder/")
#define DELETE_PREFIX RF_LIT("$deleteFromPrimitiveList/")
#define RETAIN RF_LIT("$retainKeys")
#define PATCH RF_LIT("$patch")

static int merge_object(struct rf_patch_work *w, const struct rf_merge_field *fields,
			struct rf_json **target, const struct rf_json *patch);

static bool is_directive(struct rf_str key)
{
	return rf_str_eq(key, PATCH) || rf_str_eq(key, RETAIN) ||
	       rf_str_starts(key, ORDER_PREFIX) || rf_str_starts(key, DELETE_PREFIX);
}

static int malformed(struct rf_patch_work *w, const char *what, struct rf_str name)
{
	return rf_fail(w->err, RF_BAD_REQUEST, "strategic merge patch: %s: %.*s", what,
		       (int)RF_MIN(name.n, (size_t)256), name.p);
}

static struct rf_json *take(struct rf_arena *a, const struct rf_json *v);

static struct rf_json *take_object(struct rf_arena *a, const struct rf_json *v)
{
	struct rf_json *copy = rf_json_object(a);

	if (rf_json_get(v, PATCH) != NULL)
		return NULL;
	/* Filled by hand: the keys are known to differ, and setting them one by one would compare
	 * each with all before it. */
	copy->members = rf_arena_array(a, struct rf_json_member, v->n + 1);
	copy->cap = v->n + 1;
	for (uint32_t i = 0; i < v->n; i++) {
		const struct rf_json_member *m = &v->members[i];
		struct rf_json *inner = NULL;

		if (m->value->type != RF_JSON_NULL && !is_directive(m->key))
			inner = take(a, m->value);
		if (inner != NULL)
			copy->members[copy->n++] =
				(struct rf_json_member){ rf_arena_str(a, m->key), inner };
	}
	return copy;
}

/* A copy of a value that meets nothing to merge with: nulls have nothing to remove, directives
 * nothing to direct. NULL where $patch says that the value was never meant to stay. */
static struct rf_json *take(struct rf_arena *a, const struct rf_json *v)
{
	struct rf_json *copy, *inner;

	if (v->type == RF_JSON_OBJECT)
		return take_object(a, v);
	if (v->type != RF_JSON_ARRAY)
		return rf_json_clone(a, v);
	copy = rf_json_array(a);
	for (uint32_t i = 0; i < v->n; i++)
		if ((inner = take(a, v->items[i])) != NULL)
			rf_json_push(a, copy, inner);
	return copy;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* An element of the merged list on its way to its place. */
struct element {
	struct rf_json *value;
	long server; /* index in the list before, or -1 */
	long wanted; /* index in the order the patch gives, or -1: the patch does not name it */
	size_t at;   /* where it stood while merging; keeps equals in order */
};

struct list {
	struct rf_patch_work *w;
	const struct rf_merge_field *field;
	struct element *e;
	size_t n;
	size_t freed; /* places at the end of the list before, left by deletions, for new elements
		       */
};

static bool same_element(const struct rf_merge_field *field, const struct rf_json *a,
			 const struct rf_json *b)
{
	if (field->key[0] == '\0')
		return rf_json_equal(a, b);
	a = rf_json_get(a, rf_str(field->key));
	b = rf_json_get(b, rf_str(field->key));
	return a != NULL && b != NULL && rf_json_equal(a, b);
}

static struct element *find_element(const struct list *l, const struct rf_json *like)
{
	for (size_t i = 0; i < l->n; i++)
		if (same_element(l->field, l->e[i].value, like))
			return &l->e[i];
	return NULL;
}

static void drop_matching(struct list *l, const struct rf_json *like)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n; i++)
		if (!same_element(l->field, l->e[i].value, like))
			l->e[kept++] = l->e[i];
	l->n = kept;
}

static void append(struct list *l, struct rf_json *value, long server)
{
	l->e[l->n] = (struct element){ .value = value, .server = server, .wanted = -1, .at = l->n };
	l->n++;
}

static int check_element(struct list *l, const struct rf_json *item)
{
	if (l->field->key[0] == '\0') {
		if (item->type == RF_JSON_ARRAY || item->type == RF_JSON_OBJECT)
			return malformed(l->w, "a list of scalars has another element",
					 rf_str(l->field->name));
		return 0;
	}
	if (item->type != RF_JSON_OBJECT)
		return malformed(l->w, "a list of objects has another element",
				 rf_str(l->field->name));
	return 0;
}

static int check_key(struct list *l, const struct rf_json *item)
{
	if (l->field->key[0] == '\0' || rf_json_get(item, rf_str(l->field->key)) != NULL)
		return 0;
	return rf_fail(
		l->w->err, RF_BAD_REQUEST,
		"strategic merge patch: an element of %s does not contain declared merge key: %s",
		l->field->name, l->field->key);
}

/* An element that directs: delete one, or replace the list. */
static int apply_special(struct list *l, const struct rf_json *item, struct rf_str what,
			 bool *replace)
{
	if (rf_str_is(what, "replace")) {
		*replace = true;
		return 0;
	}
	if (!rf_str_is(what, "delete"))
		return malformed(l->w, "$patch of a list element is delete or replace, not", what);
	if (check_key(l, item) < 0)
		return -RF_BAD_REQUEST;
	drop_matching(l, item);
	return 0;
}

static int merge_element(struct list *l, const struct rf_json *item)
{
	struct element *e;
	struct rf_json *fresh;

	if (check_key(l, item) < 0)
		return -RF_BAD_REQUEST;
	e = find_element(l, item);
	if (e != NULL && item->type == RF_JSON_OBJECT)
		return merge_object(l->w, l->field->in, &e->value, item);
	if (e == NULL && (fresh = take(l->w->a, item)) != NULL) {
		append(l, fresh, l->freed > 0 ? (long)l->n : -1);
		l->freed -= l->freed > 0;
	}
	return 0;
}

/* After deletions the others move up. What follows is Kubernetes' habit: with $setElementOrder, a
 * new element counts as standing in a place that a deletion freed. */
static void close_gaps(struct list *l, size_t had, bool ordered)
{
	for (size_t i = 0; i < l->n; i++)
		l->e[i].server = (long)i;
	l->freed = ordered ? had - l->n : 0;
}

static int apply_specials(struct list *l, const struct rf_json *patch, bool *replace)
{
	for (size_t i = 0; i < rf_json_len(patch); i++) {
		const struct rf_json *item = rf_json_item(patch, i),
				     *special = rf_json_get(item, PATCH);
		int rc = check_element(l, item);

		if (rc == 0 && special != NULL)
			rc = apply_special(l, item, rf_json_str(special), replace);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int merge_elements(struct list *l, const struct rf_json *patch)
{
	for (size_t i = 0; i < rf_json_len(patch); i++) {
		const struct rf_json *item = rf_json_item(patch, i);
		int rc = rf_json_get(item, PATCH) != NULL ? 0 : merge_element(l, item);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int by_wanted(const void *x, const void *y)
{
	const struct element *a = x, *b = y;

	if (a->wanted != b->wanted)
		return a->wanted < b->wanted ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static void mark_wanted(struct list *l, const struct rf_json *order)
{
	for (size_t i = 0; i < l->n; i++) {
		l->e[i].at = i;
		for (size_t j = 0; l->e[i].wanted < 0 && j < rf_json_len(order); j++)
			if (same_element(l->field, l->e[i].value, rf_json_item(order, j)))
				l->e[i].wanted = (long)j;
	}
}

/* Elements the patch names come in its order. The others keep theirs, and go before the first named
 * element that stood behind them; so a new element goes before the ones the patch does not name. */
static struct rf_json *in_order(struct list *l, const struct rf_json *order)
{
	struct rf_json *out = rf_json_array(l->w->a);
	size_t left = 0, right = 0, end;

	mark_wanted(l, order);
	qsort(l->e, l->n, sizeof(*l->e), by_wanted); /* those not named first */
	while (right < l->n && l->e[right].wanted < 0)
		right++;
	for (end = right; left < end || right < l->n;) {
		bool from_left = right >= l->n ||
				 (left < end && l->e[left].server >= 0 && l->e[right].server >= 0 &&
				  l->e[left].server < l->e[right].server);

		rf_json_push(l->w->a, out, l->e[from_left ? left++ : right++].value);
	}
	return out;
}

/* order NULL: the patch's own. Either list may be absent. */
static int merge_list(struct rf_patch_work *w, const struct rf_merge_field *field,
		      struct rf_json **target, const struct rf_json *patch,
		      const struct rf_json *order)
{
	size_t have = rf_json_len(*target), asked = rf_json_len(patch), orders = rf_json_len(order);
	struct list l = { .w = w, .field = field };
	bool replace = false;
	int rc = rf_patch_spend(w, (uint64_t)(have + asked + 1) * (asked + orders + 1));

	if (rc < 0)
		return rc;
	l.e = rf_arena_array(w->a, struct element, have + asked + 1);
	for (size_t i = 0; i < have; i++)
		append(&l, rf_json_item(*target, i), (long)i);
	rc = apply_specials(&l, patch, &replace);
	if (rc < 0)
		return rc;
	if (replace) {
		*target = take(w->a, patch);
		return 0;
	}
	close_gaps(&l, have, order != NULL);
	rc = merge_elements(&l, patch);
	if (rc < 0)
		return rc;
	*target = in_order(&l, order != NULL ? order : patch);
	return 0;
}

/* --- directives ------------------------------------------------------------------------------- */

static bool lists_name(const struct rf_json *names, struct rf_str name)
{
	for (size_t i = 0; i < rf_json_len(names); i++)
		if (rf_str_eq(rf_json_str(rf_json_item(names, i)), name))
			return true;
	return false;
}

static int retain_keys(struct rf_patch_work *w, struct rf_json *target, const struct rf_json *patch)
{
	const struct rf_json *names = rf_json_get(patch, RETAIN);
	uint32_t kept = 0;

	if (names == NULL)
		return 0;
	if (names->type != RF_JSON_ARRAY)
		return malformed(w, "invalid patch format of retainKeys", RF_LIT("not a list"));
	if (rf_patch_spend(w, (uint64_t)names->n * (target->n + patch->n + 1)) < 0)
		return -RF_TOO_LARGE;
	for (uint32_t i = 0; i < patch->n; i++) {
		const struct rf_json_member *m = &patch->members[i];

		if (m->value->type != RF_JSON_NULL && !is_directive(m->key) &&
		    !lists_name(names, m->key))
			return malformed(w, "invalid patch format of retainKeys: it leaves out",
					 m->key);
	}
	for (uint32_t i = 0; i < target->n; i++)
		if (lists_name(names, target->members[i].key))
			target->members[kept++] = target->members[i];
	target->n = kept;
	return 0;
}

/* What the patch sets must appear in the order it gives, in that order. */
static int check_order(struct rf_patch_work *w, const struct rf_merge_field *field,
		       const struct rf_json *patch, const struct rf_json *order)
{
	size_t at = 0;

	for (size_t i = 0; i < rf_json_len(patch); i++) {
		const struct rf_json *item = rf_json_item(patch, i);

		if (rf_json_get(item, PATCH) != NULL)
			continue;
		while (at < order->n && !same_element(field, order->items[at], item))
			at++;
		if (at++ >= order->n)
			return malformed(
				w, "the order in patch list doesn't match $setElementOrder of",
				rf_str(field->name));
	}
	return 0;
}

static int apply_order(struct rf_patch_work *w, const struct rf_merge_field *field,
		       struct rf_json *target, const struct rf_json *patch,
		       const struct rf_json *order)
{
	struct rf_str name = rf_str(field->name);
	struct rf_json *had = rf_json_get(target, name);
	const struct rf_json *asked = rf_json_get(patch, name);
	int rc;

	if (had != NULL && had->type == RF_JSON_NULL)
		had = NULL;
	if (order->type != RF_JSON_ARRAY || (had != NULL && had->type != RF_JSON_ARRAY) ||
	    (asked != NULL && asked->type != RF_JSON_ARRAY))
		return malformed(w, "$setElementOrder and what it orders must be lists", name);
	if (had == NULL && asked == NULL)
		return 0;
	rc = check_order(w, field, asked, order);
	if (rc == 0)
		rc = merge_list(w, field, &had, asked, order);
	return rc < 0 ? rc : rf_patch_set(w, target, name, had);
}

static int apply_orders(struct rf_patch_work *w, const struct rf_merge_field *fields,
			struct rf_json *target, const struct rf_json *patch)
{
	for (uint32_t i = 0; i < patch->n; i++) {
		const struct rf_json_member *m = &patch->members[i];
		const struct rf_merge_field *field;
		int rc = 0;

		if (!rf_str_starts(m->key, ORDER_PREFIX))
			continue;
		field = rf_merge_field(fields, rf_str_skip(m->key, ORDER_PREFIX.n));
		/* A list that is replaced has the order it comes in. */
		if (field != NULL && field->key != NULL)
			rc = apply_order(w, field, target, patch, m->value);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int delete_scalars(struct rf_patch_work *w, struct rf_json *target,
			  const struct rf_json_member *m)
{
	struct rf_json *list = rf_json_get(target, rf_str_skip(m->key, DELETE_PREFIX.n));

	if (m->value->type != RF_JSON_ARRAY)
		return malformed(w, "invalid patch format of primitive list", m->key);
	if (!rf_json_is(list, RF_JSON_ARRAY))
		return 0;
	if (rf_patch_spend(w, (uint64_t)list->n * (m->value->n + 1)) < 0)
		return -RF_TOO_LARGE;
	for (uint32_t i = list->n; i-- > 0;) {
		for (uint32_t j = 0; j < m->value->n; j++) {
			if (!rf_json_equal(list->items[i], m->value->items[j]))
				continue;
			rf_json_remove(list, i);
			break;
		}
	}
	return 0;
}

/* --- objects ---------------------------------------------------------------------------------- */

static bool already_ordered(const struct rf_merge_field *field, const struct rf_json *patch)
{
	rf_auto(buf) name = RF_BUF_INIT;

	if (field == NULL || field->key == NULL)
		return false;
	rf_buf_add(&name, ORDER_PREFIX);
	rf_buf_puts(&name, field->name);
	return rf_json_get(patch, rf_buf_str(&name)) != NULL;
}

static int merge_value(struct rf_patch_work *w, const struct rf_merge_field *field,
		       struct rf_json **target, const struct rf_json *patch)
{
	if (*target != NULL && (*target)->type == patch->type) {
		if (patch->type == RF_JSON_OBJECT)
			return merge_object(w, field ? field->in : NULL, target, patch);
		if (patch->type == RF_JSON_ARRAY && field != NULL && field->key != NULL)
			return merge_list(w, field, target, patch, NULL);
	}
	*target = take(w->a, patch); /* NULL: a directive for what is not there; nothing is set */
	return 0;
}

static int merge_member(struct rf_patch_work *w, const struct rf_merge_field *fields,
			struct rf_json *target, const struct rf_json *patch,
			const struct rf_json_member *m)
{
	const struct rf_merge_field *field = rf_merge_field(fields, m->key);
	struct rf_json *value;
	int rc;

	if (rf_patch_spend(w, 2 * (uint64_t)target->n + patch->n + 1) < 0)
		return -RF_TOO_LARGE;
	if (is_directive(m->key) || already_ordered(field, patch))
		return 0;
	if (m->value->type == RF_JSON_NULL) {
		rf_json_del(target, m->key);
		return 0;
	}
	value = rf_json_get(target, m->key);
	rc = merge_value(w, field, &value, m->value);
	return rc < 0 ? rc : rf_patch_set(w, target, m->key, value);
}

static int merge_members(struct rf_patch_work *w, const struct rf_merge_field *fields,
			 struct rf_json *target, const struct rf_json *patch)
{
	int rc = retain_keys(w, target, patch);

	if (rc == 0)
		rc = apply_orders(w, fields, target, patch);
	for (uint32_t i = 0; rc == 0 && i < patch->n; i++)
		rc = merge_member(w, fields, target, patch, &patch->members[i]);
	for (uint32_t i = 0; rc == 0 && i < patch->n; i++)
		if (rf_str_starts(patch->members[i].key, DELETE_PREFIX))
			rc = delete_scalars(w, target, &patch->members[i]);
	return rc;
}

static int merge_object(struct rf_patch_work *w, const struct rf_merge_field *fields,
			struct rf_json **target, const struct rf_json *patch)
{
	const struct rf_json *directive = rf_json_get(patch, PATCH);
	struct rf_str what = rf_json_str(directive);

	if (directive == NULL || rf_str_is(what, "merge"))
		return merge_members(w, fields, *target, patch);
	if (!rf_str_is(what, "replace") && !rf_str_is(what, "delete"))
		return malformed(w, "$patch is replace, delete or merge, not", what);
	*target = rf_json_object(w->a);
	return rf_str_is(what, "replace") ? merge_members(w, NULL, *target, patch) : 0;
}

int rf_patch_strategic(struct rf_arena *a, struct rf_str kind, struct rf_json **target,
		       const struct rf_json *patch, struct rf_err *err)
{
	struct rf_patch_work w = { .a = a, .err = err, .left = RF_PATCH_WORK_MAX };
	const struct rf_merge_field *fields = rf_merge_fields(kind);

	if (fields == NULL)
		return rf_fail(err, RF_UNSUPPORTED,
			       "strategic merge patch is for built-in kinds, %.*s is not one; send "
			       "application/merge-patch+json or application/json-patch+json",
			       (int)RF_MIN(kind.n, (size_t)64), kind.p);
	if (!rf_json_is(*target, RF_JSON_OBJECT) || !rf_json_is(patch, RF_JSON_OBJECT))
		return rf_fail(err, RF_BAD_REQUEST, "strategic merge patch: want an object");
	return merge_object(&w, fields, target, patch);
}
