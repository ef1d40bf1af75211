#include "base/map.h"

#include <pthread.h>

#include "base/rand.h"

#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))

static inline __attribute__((always_inline)) void sipround(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = ROTL(v[1], 13) ^ v[0];
	v[0] = ROTL(v[0], 32);
	v[2] += v[3];
	v[3] = ROTL(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = ROTL(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = ROTL(v[1], 17) ^ v[2];
	v[2] = ROTL(v[2], 32);
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

uint64_t rf_siphash13(const uint8_t key[16], const void *data, size_t n)
{
	uint64_t k0 = load64(key), k1 = load64(key + 8);
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575ULL, k1 ^ 0x646f72616e646f6dULL,
			  k0 ^ 0x6c7967656e657261ULL, k1 ^ 0x7465646279746573ULL };
	const uint8_t *p = data;
	uint64_t last = (uint64_t)n << 56;
	size_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		uint64_t m = load64(p + i);

		v[3] ^= m;
		sipround(v);
		v[0] ^= m;
	}
	if (n >= 8 && i < n) /* the last eight bytes, without those that had their turn */
		last |= load64(p + n - 8) >> (8 * (8 - (n - i)));
	for (size_t j = 0; n < 8 && j < n; j++)
		last |= (uint64_t)p[j] << (8 * j);
	v[3] ^= last;
	sipround(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	sipround(v);
	sipround(v);
	sipround(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint8_t hash_key[16];

static void draw_key(void)
{
	rf_rand_bytes(hash_key, sizeof(hash_key));
}

uint64_t rf_hash(struct rf_str s)
{
	static pthread_once_t drawn = PTHREAD_ONCE_INIT;

	pthread_once(&drawn, draw_key);
	return rf_siphash13(hash_key, s.p, s.n);
}

static bool slot_is(const struct rf_map_slot *s, uint64_t hash, struct rf_str key)
{
	return s->hash == hash && rf_str_eq(rf_map_key(s), key);
}

/* The slot that holds key, or the empty one where it belongs. */
static struct rf_map_slot *find(const struct rf_map *m, uint64_t hash, struct rf_str key)
{
	size_t i = hash & (m->cap - 1);

	while (m->slots[i].key != NULL && !slot_is(&m->slots[i], hash, key))
		i = (i + 1) & (m->cap - 1);
	return &m->slots[i];
}

static void grow(struct rf_map *m)
{
	struct rf_map bigger = { .cap = m->cap ? m->cap * 2 : 16, .n = m->n };

	bigger.slots = rf_alloc(bigger.cap * sizeof(*bigger.slots));
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].key != NULL)
			*find(&bigger, m->slots[i].hash, rf_map_key(&m->slots[i])) = m->slots[i];
	free(m->slots);
	*m = bigger;
}

void *rf_map_get(const struct rf_map *m, struct rf_str key)
{
	return m->n == 0 ? NULL : find(m, rf_hash(key), key)->value;
}

struct rf_map_slot *rf_map_slot(struct rf_map *m, struct rf_str key)
{
	uint64_t hash = rf_hash(key);
	struct rf_map_slot *s;

	if ((m->n + 1) * 4 > m->cap * 3)
		grow(m);
	s = find(m, hash, key);
	if (s->key == NULL) {
		s->key = rf_alloc(key.n + 1);
		if (key.n > 0)
			memcpy(s->key, key.p, key.n);
		s->key_n = key.n;
		s->hash = hash;
		m->n++;
	}
	return s;
}

void *rf_map_set(struct rf_map *m, struct rf_str key, void *value)
{
	struct rf_map_slot *s = rf_map_slot(m, key);
	void *before = s->value;

	rf_assert(value != NULL);
	s->value = value;
	return before;
}

/* Closes the hole at i: moves back every later slot of the run that may not stay behind a hole. */
static void close_hole(struct rf_map *m, size_t i)
{
	size_t mask = m->cap - 1;

	for (size_t j = (i + 1) & mask; m->slots[j].key != NULL; j = (j + 1) & mask) {
		size_t home = m->slots[j].hash & mask;

		if (((j - home) & mask) < ((j - i) & mask))
			continue;
		m->slots[i] = m->slots[j];
		memset(&m->slots[j], 0, sizeof(m->slots[j]));
		i = j;
	}
}

void *rf_map_del(struct rf_map *m, struct rf_str key)
{
	struct rf_map_slot *s;
	void *value;

	if (m->n == 0)
		return NULL;
	s = find(m, rf_hash(key), key);
	if (s->key == NULL)
		return NULL;
	value = s->value;
	free(s->key);
	memset(s, 0, sizeof(*s));
	m->n--;
	close_hole(m, (size_t)(s - m->slots));
	return value;
}

void rf_map_clear(struct rf_map *m)
{
	for (size_t i = 0; i < m->cap; i++)
		free(m->slots[i].key);
	if (m->cap > 0)
		memset(m->slots, 0, m->cap * sizeof(*m->slots));
	m->n = 0;
}

void rf_map_done(struct rf_map *m)
{
	rf_map_clear(m);
	free(m->slots);
	*m = (struct rf_map)RF_MAP_INIT;
}

struct rf_map_slot *rf_map_next(const struct rf_map *m, const struct rf_map_slot *prev)
{
	for (size_t i = prev == NULL ? 0 : (size_t)(prev - m->slots) + 1; i < m->cap; i++)
		if (m->slots[i].key != NULL)
			return &m->slots[i];
	return NULL;
}
