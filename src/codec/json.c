/* Looking into JSON values, building and changing them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "codec/json_private.h"

/* --- looking -------------------------------------------------------------------------------- */

static struct rf_json_member *find(const struct rf_json *object, struct rf_str key)
{
	if (!rf_json_is(object, RF_JSON_OBJECT))
		return NULL;
	for (uint32_t i = 0; i < object->n; i++)
		if (rf_str_eq(object->members[i].key, key))
			return &object->members[i];
	return NULL;
}

struct rf_json *rf_json_get(const struct rf_json *object, struct rf_str key)
{
	struct rf_json_member *m = find(object, key);

	return m != NULL ? m->value : NULL;
}

struct rf_json *rf_json_item(const struct rf_json *array, size_t i)
{
	return rf_json_is(array, RF_JSON_ARRAY) && i < array->n ? array->items[i] : NULL;
}

struct rf_json *rf_json_at_(const struct rf_json *v, ...)
{
	const char *key;
	va_list ap;

	va_start(ap, v);
	while (v != NULL && (key = va_arg(ap, const char *)) != NULL)
		v = rf_json_get(v, rf_str(key));
	va_end(ap);
	return (struct rf_json *)(uintptr_t)v;
}

struct rf_str rf_json_str(const struct rf_json *v)
{
	return rf_json_is(v, RF_JSON_STRING) ? v->text : RF_STR_EMPTY;
}

bool rf_json_is_true(const struct rf_json *v)
{
	return rf_json_is(v, RF_JSON_BOOL) && v->boolean;
}

bool rf_json_is_int(const struct rf_json *v, int64_t *ret)
{
	return rf_json_is(v, RF_JSON_NUMBER) && rf_str_int(v->text, ret, NULL) == 0;
}

int64_t rf_json_int(const struct rf_json *v, int64_t otherwise)
{
	int64_t i;

	return rf_json_is_int(v, &i) ? i : otherwise;
}

size_t rf_json_len(const struct rf_json *v)
{
	return rf_json_is(v, RF_JSON_ARRAY) || rf_json_is(v, RF_JSON_OBJECT) ? v->n : 0;
}

/* --- comparing ------------------------------------------------------------------------------ */

static bool equal_arrays(const struct rf_json *a, const struct rf_json *b)
{
	if (a->n != b->n)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (!rf_json_equal(a->items[i], b->items[i]))
			return false;
	return true;
}

static int by_key(const void *x, const void *y)
{
	const struct rf_json_member *const *a = x, *const *b = y;

	return rf_str_cmp((*a)->key, (*b)->key);
}

static struct rf_json_member **sorted(const struct rf_json *v)
{
	struct rf_json_member **list = rf_alloc(v->n * sizeof(struct rf_json_member *));

	for (uint32_t i = 0; i < v->n; i++)
		list[i] = &v->members[i];
	qsort(list, v->n, sizeof(struct rf_json_member *), by_key);
	return list;
}

/* Two large objects in different order: a search per member would be quadratic. */
static bool equal_sorted(const struct rf_json *a, const struct rf_json *b)
{
	struct rf_json_member **x = sorted(a), **y = sorted(b);
	bool same = true;

	for (uint32_t i = 0; same && i < a->n; i++)
		same = rf_str_eq(x[i]->key, y[i]->key) && rf_json_equal(x[i]->value, y[i]->value);
	free(x);
	free(y);
	return same;
}

static bool equal_objects(const struct rf_json *a, const struct rf_json *b)
{
	uint32_t i = 0;

	if (a->n != b->n)
		return false;
	while (i < a->n && rf_str_eq(a->members[i].key, b->members[i].key))
		i++;
	if (i < a->n && a->n > 32)
		return equal_sorted(a, b);
	for (i = 0; i < a->n; i++) {
		const struct rf_json_member *m = &a->members[i], *same = &b->members[i];

		if (!rf_str_eq(m->key, same->key))
			same = find(b, m->key);
		if (same == NULL || !rf_json_equal(m->value, same->value))
			return false;
	}
	return true;
}

bool rf_json_equal(const struct rf_json *a, const struct rf_json *b)
{
	if (a == b)
		return true;
	if (a == NULL || b == NULL || a->type != b->type)
		return false;
	switch (a->type) {
	case RF_JSON_NULL:
		return true;
	case RF_JSON_BOOL:
		return a->boolean == b->boolean;
	case RF_JSON_NUMBER:
		return rf_json_number_equal(a->text, b->text);
	case RF_JSON_STRING:
		return rf_str_eq(a->text, b->text);
	case RF_JSON_ARRAY:
		return equal_arrays(a, b);
	case RF_JSON_OBJECT:
		return equal_objects(a, b);
	}
	return false;
}

/* --- building ------------------------------------------------------------------------------- */

static struct rf_json *make(struct rf_arena *a, enum rf_json_type type)
{
	struct rf_json *v = rf_arena_new(a, struct rf_json);

	v->type = type;
	return v;
}

struct rf_json *rf_json_null(struct rf_arena *a)
{
	return make(a, RF_JSON_NULL);
}

struct rf_json *rf_json_bool(struct rf_arena *a, bool b)
{
	struct rf_json *v = make(a, RF_JSON_BOOL);

	v->boolean = b;
	return v;
}

struct rf_json *rf_json_number(struct rf_arena *a, int64_t i)
{
	struct rf_json *v = make(a, RF_JSON_NUMBER);
	char text[24];
	int n = snprintf(text, sizeof(text), "%" PRId64, i);

	v->text = rf_arena_str(a, rf_str_n(text, (size_t)n));
	return v;
}

struct rf_json *rf_json_string(struct rf_arena *a, struct rf_str s)
{
	struct rf_json *v = make(a, RF_JSON_STRING);

	v->text = rf_arena_str(a, s);
	return v;
}

struct rf_json *rf_json_array(struct rf_arena *a)
{
	return make(a, RF_JSON_ARRAY);
}

struct rf_json *rf_json_object(struct rf_arena *a)
{
	return make(a, RF_JSON_OBJECT);
}

static void clone_items(struct rf_arena *a, struct rf_json *to, const struct rf_json *from)
{
	to->items = rf_arena_array(a, struct rf_json *, from->n);
	to->n = to->cap = from->n;
	for (uint32_t i = 0; i < from->n; i++)
		to->items[i] = rf_json_clone(a, from->items[i]);
}

static void clone_members(struct rf_arena *a, struct rf_json *to, const struct rf_json *from)
{
	to->members = rf_arena_array(a, struct rf_json_member, from->n);
	to->n = to->cap = from->n;
	for (uint32_t i = 0; i < from->n; i++) {
		to->members[i].key = rf_arena_str(a, from->members[i].key);
		to->members[i].value = rf_json_clone(a, from->members[i].value);
	}
}

struct rf_json *rf_json_clone(struct rf_arena *a, const struct rf_json *v)
{
	struct rf_json *copy;

	if (v == NULL)
		return NULL;
	copy = make(a, v->type);
	if (v->type == RF_JSON_BOOL)
		copy->boolean = v->boolean;
	else if (v->type == RF_JSON_NUMBER || v->type == RF_JSON_STRING)
		copy->text = rf_arena_str(a, v->text);
	else if (v->type == RF_JSON_ARRAY && v->n > 0)
		clone_items(a, copy, v);
	else if (v->type == RF_JSON_OBJECT && v->n > 0)
		clone_members(a, copy, v);
	return copy;
}

/* --- changing ------------------------------------------------------------------------------- */

/* Room for one more entry of that size; the old array stays behind in its arena. */
static void *grown(struct rf_arena *a, struct rf_json *v, void *old, size_t size)
{
	uint32_t cap = v->cap ? v->cap * 2 : 4;
	void *p;

	if (v->n < v->cap)
		return old;
	rf_assert(cap > v->cap);
	p = rf_arena_alloc(a, cap * size);
	if (v->n > 0)
		memcpy(p, old, v->n * size);
	v->cap = cap;
	return p;
}

void rf_json_push(struct rf_arena *a, struct rf_json *array, struct rf_json *value)
{
	rf_assert(rf_json_is(array, RF_JSON_ARRAY) && value != NULL);
	array->items = grown(a, array, array->items, sizeof(*array->items));
	array->items[array->n++] = value;
}

void rf_json_remove(struct rf_json *array, size_t i)
{
	if (!rf_json_is(array, RF_JSON_ARRAY) || i >= array->n)
		return;
	memmove(&array->items[i], &array->items[i + 1], (array->n - i - 1) * sizeof(*array->items));
	array->n--;
}

void rf_json_set(struct rf_arena *a, struct rf_json *object, struct rf_str key,
		 struct rf_json *value)
{
	struct rf_json_member *m = find(object, key);

	rf_assert(rf_json_is(object, RF_JSON_OBJECT));
	if (value == NULL) {
		rf_json_del(object, key);
		return;
	}
	if (m != NULL) {
		m->value = value;
		return;
	}
	object->members = grown(a, object, object->members, sizeof(*object->members));
	object->members[object->n++] = (struct rf_json_member){ rf_arena_str(a, key), value };
}

void rf_json_set_str(struct rf_arena *a, struct rf_json *object, const char *key, struct rf_str s)
{
	rf_json_set(a, object, rf_str(key), rf_json_string(a, s));
}

void rf_json_set_int(struct rf_arena *a, struct rf_json *object, const char *key, int64_t i)
{
	rf_json_set(a, object, rf_str(key), rf_json_number(a, i));
}

void rf_json_set_bool(struct rf_arena *a, struct rf_json *object, const char *key, bool b)
{
	rf_json_set(a, object, rf_str(key), rf_json_bool(a, b));
}

void rf_json_del(struct rf_json *object, struct rf_str key)
{
	struct rf_json_member *m = find(object, key);
	size_t behind;

	if (m == NULL)
		return;
	behind = (size_t)(object->members + object->n - (m + 1));
	memmove(m, m + 1, behind * sizeof(*m));
	object->n--;
}

struct rf_json *rf_json_ensure_(struct rf_arena *a, struct rf_json *object, ...)
{
	const char *key;
	va_list ap;

	va_start(ap, object);
	while ((key = va_arg(ap, const char *)) != NULL) {
		struct rf_json *inner = rf_json_get(object, rf_str(key));

		if (!rf_json_is(inner, RF_JSON_OBJECT)) {
			inner = rf_json_object(a);
			rf_json_set(a, object, rf_str(key), inner);
		}
		object = inner;
	}
	va_end(ap);
	return object;
}
