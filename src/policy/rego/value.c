#include <pthread.h>

#include "policy/rego/number.h"
#include "policy/rego/value.h"

/* Pairs lie as key, value, key, value: v.items of an object walks them too. */
_Static_assert(sizeof(struct rf_rv_pair) == 2 * sizeof(struct rf_rv),
	       "pairs are two values in a row");

/* --- comparing --- */

static inline uint64_t load8(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t load4(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Keys are short, and a call of memcmp costs more than looking: both ends, which overlap or touch. */
static inline bool same_text(const char *a, const char *b, size_t n)
{
	if (n > 16)
		return memcmp(a, b, n) == 0;
	if (n >= 8)
		return load8(a) == load8(b) && load8(a + n - 8) == load8(b + n - 8);
	if (n >= 4)
		return load4(a) == load4(b) && load4(a + n - 4) == load4(b + n - 4);
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

static inline int cmp_str(struct rf_rv a, struct rf_rv b)
{
	uint32_t n = RF_MIN(a.n, b.n);
	int c = 0;

	if (n > 0) /* the first byte saves most of the calls */
		c = (int)(unsigned char)a.s[0] - (int)(unsigned char)b.s[0];
	if (n > 0 && c == 0)
		c = memcmp(a.s, b.s, n);
	if (c == 0)
		return a.n < b.n ? -1 : a.n > b.n;
	return c < 0 ? -1 : 1;
}

static int cmp_items(const struct rf_rv *a, uint32_t an, const struct rf_rv *b, uint32_t bn)
{
	uint32_t n = RF_MIN(an, bn);

	if (a == b)
		return an < bn ? -1 : an > bn;
	for (uint32_t i = 0; i < n; i++) {
		int c = rf_rv_cmp(a[i], b[i]);

		if (c != 0)
			return c;
	}
	return an < bn ? -1 : an > bn;
}

int rf_rv_cmp(struct rf_rv a, struct rf_rv b)
{
	if (a.type != b.type)
		return a.type < b.type ? -1 : 1;
	switch ((enum rf_rv_type)a.type) {
	case RF_RV_NULL:
		return 0;
	case RF_RV_BOOL:
		return (int)a.b - (int)b.b;
	case RF_RV_NUMBER:
		return rf_rn_cmp(a, b);
	case RF_RV_STRING:
		return cmp_str(a, b);
	case RF_RV_ARRAY:
	case RF_RV_SET:
		return cmp_items(a.items, a.n, b.items, b.n);
	case RF_RV_OBJECT: /* key, value, key, value */
		return cmp_items(a.items, a.n * 2, b.items, b.n * 2);
	}
	return 0;
}

static bool eq_items(const struct rf_rv *a, const struct rf_rv *b, size_t n)
{
	if (a == b)
		return true;
	for (size_t i = 0; i < n; i++)
		if (!rf_rv_eq(a[i], b[i]))
			return false;
	return true;
}

bool rf_rv_eq(struct rf_rv a, struct rf_rv b)
{
	if (a.type != b.type)
		return false;
	switch ((enum rf_rv_type)a.type) {
	case RF_RV_NULL:
		return true;
	case RF_RV_BOOL:
		return a.b == b.b;
	case RF_RV_NUMBER:
		return !a.big && !b.big ? a.i == b.i : rf_rn_cmp(a, b) == 0;
	case RF_RV_STRING:
		return a.n == b.n && (a.s == b.s || same_text(a.s, b.s, a.n));
	case RF_RV_ARRAY:
	case RF_RV_SET:
		return a.n == b.n && eq_items(a.items, b.items, a.n);
	case RF_RV_OBJECT:
		return a.n == b.n && eq_items(a.items, b.items, (size_t)a.n * 2);
	}
	return false;
}

bool rf_rv_same(struct rf_rv a, struct rf_rv b)
{
	size_t n = a.type == RF_RV_OBJECT ? (size_t)a.n * 2 : a.n;

	if (a.type == RF_RV_NUMBER && a.type == b.type && (a.big || b.big))
		return a.big && b.big && rf_str_eq(a.number->text, b.number->text);
	if (a.type < RF_RV_ARRAY || a.type != b.type || a.n != b.n)
		return rf_rv_eq(a, b);
	for (size_t i = 0; i < n; i++)
		if (!rf_rv_same(a.items[i], b.items[i]))
			return false;
	return true;
}

/* --- hashing --- */

static uint8_t hash_key[16];
static pthread_once_t hash_key_drawn = PTHREAD_ONCE_INIT;

static void draw_hash_key(void)
{
	rf_rand_bytes(hash_key, sizeof(hash_key));
}

/* Depends on the key through what it is fed: every leaf is a keyed hash. */
static inline uint64_t mix(uint64_t h, uint64_t v)
{
	unsigned __int128 m =
		(unsigned __int128)(h ^ 0x9e3779b97f4a7c15ULL) * (v ^ 0xd1b54a32d192ed03ULL);

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static uint64_t hash_words(uint64_t a, uint64_t b)
{
	uint64_t w[2] = { a, b };

	return rf_siphash13(hash_key, w, sizeof(w));
}

static uint64_t hash_number(struct rf_rv v)
{
	const struct rf_rv_number *n = v.number;
	int64_t i;

	if (rf_rn_int64(v, &i))
		return hash_words(RF_RV_NUMBER, (uint64_t)i);
	return mix(rf_siphash13(hash_key, n->digits, n->n_digits),
		   hash_words((uint64_t)n->negative + 16, (uint64_t)(int64_t)n->point));
}

static uint64_t hash_any(struct rf_rv v)
{
	const struct rf_rv *items = v.items;
	size_t n = v.n;
	uint64_t h;

	switch ((enum rf_rv_type)v.type) {
	case RF_RV_NULL:
		return hash_words(RF_RV_NULL, 0);
	case RF_RV_BOOL:
		return hash_words(RF_RV_BOOL, v.b);
	case RF_RV_NUMBER:
		return hash_number(v);
	case RF_RV_STRING:
		return rf_siphash13(hash_key, v.s, v.n);
	case RF_RV_ARRAY:
	case RF_RV_SET:
		break;
	case RF_RV_OBJECT:
		n *= 2;
		break;
	}
	h = hash_words(v.type, v.n);
	for (size_t i = 0; i < n; i++)
		h = mix(h + i, hash_any(items[i]));
	return h;
}

uint64_t rf_rn_hash(struct rf_rv n)
{
	return rf_rv_hash(n);
}

uint64_t rf_rv_hash(struct rf_rv v)
{
	pthread_once(&hash_key_drawn, draw_hash_key);
	return hash_any(v);
}

/* --- looking --- */

/* Up to here every key is looked at: most differ in length already, and a wrong guess of a binary search
 * costs more than four of these. */
#define FEW 16

/* Type and length at once: all that is in front of what a value points to. Strings have no tags. */
static inline uint64_t head_of(const struct rf_rv *v)
{
	uint64_t head;

	_Static_assert(offsetof(struct rf_rv, s) == sizeof(head), "nothing else is there");
	memcpy(&head, v, sizeof(head));
	return head;
}

static const struct rf_rv_pair *find_str_among_few(struct rf_rv object, struct rf_str key)
{
	const struct rf_rv_pair *p = object.pairs;
	const struct rf_rv like = rf_rv_str(key);
	uint64_t head = head_of(&like);

	for (uint32_t n = object.n; n > 0; n--, p++)
		if (head_of(&p->key) == head && same_text(p->key.s, key.p, key.n))
			return p;
	return NULL;
}

/* The first of n whose key is not less than key; stride is 1 in sets, 2 in objects. */
static uint32_t lower_bound(const struct rf_rv *items, uint32_t n, uint32_t stride,
			    struct rf_rv key)
{
	uint32_t from = 0;

	while (n > 0) {
		uint32_t half = n / 2;

		if (rf_rv_cmp(items[(size_t)(from + half) * stride], key) < 0) {
			from += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return from;
}

/* The same for strings, which is where it is used most. */
static const struct rf_rv_pair *find_str_sorted(struct rf_rv object, struct rf_rv key)
{
	uint32_t from = 0, n = object.n;

	while (n > 0) {
		uint32_t half = n / 2;
		const struct rf_rv_pair *p = &object.pairs[from + half];
		int c = p->key.type == RF_RV_STRING ? cmp_str(p->key, key) : rf_rv_cmp(p->key, key);

		if (c == 0)
			return p;
		if (c < 0)
			from += half + 1;
		n = c < 0 ? n - half - 1 : half;
	}
	return NULL;
}

static const struct rf_rv *find_sorted(const struct rf_rv *items, uint32_t n, uint32_t stride,
				       struct rf_rv key)
{
	uint32_t at = lower_bound(items, n, stride, key);

	if (at == n || !rf_rv_eq(items[(size_t)at * stride], key))
		return NULL;
	return &items[(size_t)at * stride];
}

bool rf_rv_get_str(struct rf_rv object, struct rf_str key, struct rf_rv *ret)
{
	const struct rf_rv_pair *p;

	if (object.type != RF_RV_OBJECT || key.n > UINT32_MAX)
		return false;
	p = object.n <= FEW ? find_str_among_few(object, key)
			    : find_str_sorted(object, rf_rv_str(key));
	if (p != NULL)
		*ret = p->value;
	return p != NULL;
}

bool rf_rv_get(struct rf_rv v, struct rf_rv key, struct rf_rv *ret)
{
	const struct rf_rv *k;
	int64_t i;

	switch ((enum rf_rv_type)v.type) {
	case RF_RV_OBJECT:
		if (key.type == RF_RV_STRING)
			return rf_rv_get_str(v, rf_rv_text(key), ret);
		k = find_sorted(v.items, v.n, 2, key);
		if (k != NULL)
			*ret = k[1];
		return k != NULL;
	case RF_RV_ARRAY:
		if (key.type != RF_RV_NUMBER || !rf_rn_int64(key, &i) || i < 0 || i >= v.n)
			return false;
		*ret = v.items[i];
		return true;
	case RF_RV_SET:
		k = find_sorted(v.items, v.n, 1, key);
		if (k != NULL)
			*ret = *k;
		return k != NULL;
	default:
		return false;
	}
}

bool rf_rv_has(struct rf_rv set, struct rf_rv element)
{
	return set.type == RF_RV_SET && find_sorted(set.items, set.n, 1, element) != NULL;
}

/* --- sorting: stable, nothing to do when in order --- */

#define RUN 8 /* sorted by insertion */

static inline void put_item(struct rf_rv *to, const struct rf_rv *from, uint32_t stride)
{
	to[0] = from[0];
	if (stride == 2)
		to[1] = from[1];
}

/* Compares keys; the same text prefix decides almost always. */
static inline bool in_order(const struct rf_rv *a, const struct rf_rv *b)
{
	if (a->type == RF_RV_STRING && b->type == RF_RV_STRING)
		return cmp_str(*a, *b) <= 0;
	return rf_rv_cmp(*a, *b) <= 0;
}

static void insertion_sort(struct rf_rv *items, uint32_t n, uint32_t stride)
{
	for (uint32_t i = 1; i < n; i++) {
		struct rf_rv moved[2];
		uint32_t j = i;

		if (in_order(&items[(size_t)(i - 1) * stride], &items[(size_t)i * stride]))
			continue;
		put_item(moved, &items[(size_t)i * stride], stride);
		do {
			put_item(&items[(size_t)j * stride], &items[(size_t)(j - 1) * stride],
				 stride);
			j--;
		} while (j > 0 && !in_order(&items[(size_t)(j - 1) * stride], &moved[0]));
		put_item(&items[(size_t)j * stride], moved, stride);
	}
}

/* Two neighbours in order become one; left is copied out first. */
static void merge_runs(struct rf_rv *at, uint32_t left, uint32_t right, uint32_t stride,
		       struct rf_rv *scratch)
{
	const struct rf_rv *a = scratch, *a_end = a + (size_t)left * stride;
	const struct rf_rv *b = at + (size_t)left * stride, *b_end = b + (size_t)right * stride;

	if (in_order(b - stride, b))
		return;
	memcpy(scratch, at, (size_t)left * stride * sizeof(*at));
	for (; a < a_end; at += stride) {
		if (b == b_end || in_order(a, b)) {
			put_item(at, a, stride);
			a += stride;
		} else {
			put_item(at, b, stride);
			b += stride;
		}
	}
}

static void sort_items(struct rf_rv *items, uint32_t n, uint32_t stride)
{
	struct rf_rv *scratch;

	if (n <= RUN * 2) {
		insertion_sort(items, n, stride);
		return;
	}
	for (uint32_t i = 0; i < n; i += RUN)
		insertion_sort(items + (size_t)i * stride, RF_MIN(RUN, n - i), stride);
	/* Freed below; never more than what is being sorted. */
	scratch = malloc((size_t)n * stride * sizeof(*items));
	rf_assert(scratch != NULL);
	for (uint64_t run = RUN; run < n; run *= 2)
		for (uint64_t i = 0; i + run < n; i += run * 2)
			merge_runs(items + (size_t)i * stride, (uint32_t)run,
				   (uint32_t)RF_MIN(run, n - i - run), stride, scratch);
	free(scratch);
}

/* --- making --- */

struct rf_rv rf_rv_array(const struct rf_rv *items, uint32_t n)
{
	return (struct rf_rv){ .type = RF_RV_ARRAY, .n = n, .items = items };
}

struct rf_rv rf_rv_set(struct rf_rv *items, uint32_t n)
{
	uint32_t kept = 0;

	sort_items(items, n, 1);
	for (uint32_t i = 0; i < n; i++)
		if (kept == 0 || !rf_rv_eq(items[kept - 1], items[i]))
			items[kept++] = items[i];
	return (struct rf_rv){ .type = RF_RV_SET, .n = kept, .items = items };
}

struct rf_rv rf_rv_object(struct rf_rv_pair *pairs, uint32_t n, bool *conflict)
{
	uint32_t kept = 0;

	sort_items((struct rf_rv *)pairs, n, 2);
	for (uint32_t i = 0; i < n; i++) {
		if (kept == 0 || !rf_rv_eq(pairs[kept - 1].key, pairs[i].key))
			pairs[kept++] = pairs[i];
		else if (conflict == NULL)
			pairs[kept - 1].value = pairs[i].value;
		else if (!rf_rv_eq(pairs[kept - 1].value, pairs[i].value))
			*conflict = true;
	}
	return (struct rf_rv){ .type = RF_RV_OBJECT, .n = kept, .pairs = pairs };
}

bool rf_rv_copy_str(struct rf_arena *a, struct rf_str s, struct rf_rv *ret)
{
	char *p = NULL;

	if (s.n > UINT32_MAX)
		return false;
	if (s.n > 0) {
		p = rf_arena_try_raw(a, s.n);
		if (p == NULL)
			return false;
		memcpy(p, s.p, s.n);
	}
	*ret = rf_rv_str(rf_str_n(p != NULL ? p : "", s.n));
	return true;
}

static bool copy_items(struct rf_arena *a, const struct rf_rv *from, size_t n,
		       const struct rf_rv **ret)
{
	struct rf_rv *to;

	*ret = NULL;
	if (n == 0)
		return true;
	to = rf_arena_try_raw(a, n * sizeof(*to));
	if (to == NULL)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!rf_rv_copy(a, from[i], &to[i]))
			return false;
	*ret = to;
	return true;
}

bool rf_rv_copy(struct rf_arena *a, struct rf_rv v, struct rf_rv *ret)
{
	struct rf_rv to = v;

	switch ((enum rf_rv_type)v.type) {
	case RF_RV_NUMBER:
		if (v.big && !rf_rn_parse(a, v.number->text, &to))
			return false;
		break;
	case RF_RV_STRING:
		if (!rf_rv_copy_str(a, rf_rv_text(v), &to))
			return false;
		break;
	case RF_RV_ARRAY:
	case RF_RV_SET:
	case RF_RV_OBJECT:
		if (!copy_items(a, v.items, (size_t)v.n << (v.type == RF_RV_OBJECT), &to.items))
			return false;
		break;
	default:
		break;
	}
	to.tag = v.tag;
	*ret = to;
	return true;
}

/* --- growing --- */

#define SMALL 8 /* looked through one by one up to here */

static bool make_room(struct rf_rv_grow *g, struct rf_arena *a, uint32_t stride)
{
	uint32_t room = g->room == 0 ? 4 : g->room * 2;
	struct rf_rv *items;

	if (g->n < g->room)
		return true;
	if (g->room > UINT32_MAX / 8)
		return false;
	items = rf_arena_try_raw(a, (size_t)room * stride * sizeof(*items));
	if (items == NULL)
		return false;
	if (g->n > 0)
		memcpy(items, g->items, (size_t)g->n * stride * sizeof(*items));
	g->items = items;
	g->room = room;
	return true;
}

static void index_add(struct rf_rv_grow *g, uint64_t hash, uint32_t at)
{
	uint32_t slot = (uint32_t)hash & (g->slots - 1);

	while (g->index[slot] != 0)
		slot = (slot + 1) & (g->slots - 1);
	g->index[slot] = at + 1;
}

/* Before one more is added: at most half of the slots are taken. */
static bool index_grow(struct rf_rv_grow *g, struct rf_arena *a, uint32_t stride)
{
	uint32_t slots = g->slots == 0 ? SMALL * 4 : g->slots * 2;
	uint32_t *index;

	if (g->n < SMALL || (g->index != NULL && g->n < g->slots / 2))
		return true;
	index = rf_arena_try(a, (size_t)slots * sizeof(*index));
	if (index == NULL)
		return false;
	g->index = index;
	g->slots = slots;
	for (uint32_t i = 0; i < g->n; i++)
		index_add(g, rf_rv_hash(g->items[(size_t)i * stride]), i);
	return true;
}

/* hash is of key, and only looked at once there is an index. */
static struct rf_rv *grow_find(const struct rf_rv_grow *g, uint32_t stride, struct rf_rv key,
			       uint64_t hash)
{
	uint32_t slot;

	if (g->index == NULL) {
		for (uint32_t i = 0; i < g->n; i++)
			if (rf_rv_eq(g->items[(size_t)i * stride], key))
				return &g->items[(size_t)i * stride];
		return NULL;
	}
	for (slot = (uint32_t)hash & (g->slots - 1); g->index[slot] != 0;
	     slot = (slot + 1) & (g->slots - 1)) {
		struct rf_rv *at = &g->items[(size_t)(g->index[slot] - 1) * stride];

		if (rf_rv_eq(*at, key))
			return at;
	}
	return NULL;
}

bool rf_rv_push(struct rf_rv_grow *g, struct rf_arena *a, struct rf_rv v)
{
	if (!make_room(g, a, 1))
		return false;
	g->items[g->n++] = v;
	return true;
}

bool rf_rv_add(struct rf_rv_grow *g, struct rf_arena *a, struct rf_rv v, bool *ret_new)
{
	uint64_t hash;

	if (!index_grow(g, a, 1))
		return false;
	hash = g->index != NULL ? rf_rv_hash(v) : 0;
	if (grow_find(g, 1, v, hash) != NULL) {
		if (ret_new != NULL)
			*ret_new = false;
		return true;
	}
	if (!make_room(g, a, 1))
		return false;
	if (g->index != NULL)
		index_add(g, hash, g->n);
	g->items[g->n++] = v;
	if (ret_new != NULL)
		*ret_new = true;
	return true;
}

bool rf_rv_put(struct rf_rv_grow *g, struct rf_arena *a, struct rf_rv key, struct rf_rv value,
	       bool *ret_conflict)
{
	const struct rf_rv *there;
	uint64_t hash;

	if (!index_grow(g, a, 2))
		return false;
	hash = g->index != NULL ? rf_rv_hash(key) : 0;
	there = grow_find(g, 2, key, hash);
	if (ret_conflict != NULL)
		*ret_conflict = there != NULL && !rf_rv_eq(there[1], value);
	if (there != NULL)
		return true;
	if (!make_room(g, a, 2))
		return false;
	if (g->index != NULL)
		index_add(g, hash, g->n);
	g->items[(size_t)g->n * 2] = key;
	g->items[(size_t)g->n * 2 + 1] = value;
	g->n++;
	return true;
}

bool rf_rv_find(const struct rf_rv_grow *g, struct rf_rv key, struct rf_rv *ret)
{
	const struct rf_rv *there = grow_find(g, 2, key, g->index != NULL ? rf_rv_hash(key) : 0);

	if (there == NULL)
		return false;
	*ret = there[1];
	return true;
}

struct rf_rv rf_rv_grown_array(struct rf_rv_grow *g)
{
	struct rf_rv v = rf_rv_array(g->items, g->n);

	*g = (struct rf_rv_grow){ 0 };
	return v;
}

struct rf_rv rf_rv_grown_set(struct rf_rv_grow *g)
{
	struct rf_rv v = { .type = RF_RV_SET, .n = g->n, .items = g->items };

	sort_items(g->items, g->n, 1);
	*g = (struct rf_rv_grow){ 0 };
	return v;
}

bool rf_rv_grown_object(struct rf_rv_grow *g, struct rf_arena *a, struct rf_rv *ret)
{
	sort_items(g->items, g->n, 2);
	*ret = (struct rf_rv){ .type = RF_RV_OBJECT,
			       .n = g->n,
			       .pairs = (const struct rf_rv_pair *)g->items };
	*g = (struct rf_rv_grow){ 0 };
	return true;
}

/* --- merging --- */

bool rf_rv_merge(struct rf_arena *a, struct rf_rv base, struct rf_rv over, struct rf_rv *ret)
{
	struct rf_rv_pair *pairs;
	uint32_t n = 0, i = 0, j = 0;

	if (base.type != RF_RV_OBJECT || over.type != RF_RV_OBJECT || base.n == 0) {
		*ret = over;
		return true;
	}
	if (over.n == 0) {
		*ret = base;
		return true;
	}
	pairs = rf_arena_try_raw(a, ((size_t)base.n + over.n) * sizeof(*pairs));
	if (pairs == NULL)
		return false;
	while (i < base.n || j < over.n) {
		int c = i == base.n   ? 1
			: j == over.n ? -1
				      : rf_rv_cmp(base.pairs[i].key, over.pairs[j].key);

		pairs[n] = c < 0 ? base.pairs[i] : over.pairs[j];
		if (c == 0 &&
		    !rf_rv_merge(a, base.pairs[i].value, over.pairs[j].value, &pairs[n].value))
			return false;
		i += c <= 0;
		j += c >= 0;
		n++;
	}
	*ret = (struct rf_rv){ .type = RF_RV_OBJECT, .n = n, .pairs = pairs };
	return true;
}

const char *rf_rv_type_name(struct rf_rv v)
{
	static const char *const names[] = { "null",  "boolean", "number", "string",
					     "array", "object",	 "set" };

	return v.type < RF_COUNT(names) ? names[v.type] : "";
}
