/* An informer keeps thousands of objects for days while each of them is replaced again and again.
 * One exactly sized block per object keeps that memory as small as the objects are. */
#include "kube/private.h"

#define ALIGN _Alignof(max_align_t)

static size_t rounded(size_t n)
{
	return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static size_t packed_size(const struct rf_json *v)
{
	size_t size = rounded(sizeof(*v));

	if (v->type == RF_JSON_STRING || v->type == RF_JSON_NUMBER)
		return size + rounded(v->text.n + 1);
	if (v->type == RF_JSON_ARRAY) {
		size += rounded(sizeof(*v->items) * v->n);
		for (uint32_t i = 0; i < v->n; i++)
			size += packed_size(v->items[i]);
	}
	if (v->type == RF_JSON_OBJECT) {
		size += rounded(sizeof(*v->members) * v->n);
		for (uint32_t i = 0; i < v->n; i++)
			size += rounded(v->members[i].key.n + 1) + packed_size(v->members[i].value);
	}
	return size;
}

static void *carve(char **at, size_t n)
{
	void *p = *at;

	*at += rounded(n);
	return p;
}

static struct rf_str pack_str(char **at, struct rf_str s)
{
	char *p = carve(at, s.n + 1);

	if (s.n > 0)
		memcpy(p, s.p, s.n);
	p[s.n] = '\0';
	return rf_str_n(p, s.n);
}

static struct rf_json *pack(char **at, const struct rf_json *v)
{
	struct rf_json *copy = carve(at, sizeof(*copy));

	*copy = *v;
	copy->cap = v->n;
	if (v->type == RF_JSON_STRING || v->type == RF_JSON_NUMBER)
		copy->text = pack_str(at, v->text);
	if (v->type == RF_JSON_ARRAY) {
		copy->items = carve(at, sizeof(*v->items) * v->n);
		for (uint32_t i = 0; i < v->n; i++)
			copy->items[i] = pack(at, v->items[i]);
	}
	if (v->type == RF_JSON_OBJECT) {
		copy->members = carve(at, sizeof(*v->members) * v->n);
		for (uint32_t i = 0; i < v->n; i++) {
			copy->members[i].key = pack_str(at, v->members[i].key);
			copy->members[i].value = pack(at, v->members[i].value);
		}
	}
	return copy;
}

void *rf_kube_pack(const struct rf_json *v, struct rf_json **ret_tree)
{
	size_t size = packed_size(v);
	char *block = rf_alloc(size), *at = block;

	*ret_tree = pack(&at, v);
	rf_assert((size_t)(at - block) == size);
	return block;
}
