/* Map from strings to pointers. Hashed with SipHash-1-3 under a key drawn per process, because
 * tenants choose the names that end up in it. Keys are copied; values are the caller's. */
#ifndef RF_BASE_MAP_H
#define RF_BASE_MAP_H

#include "base/str.h"

struct rf_map_slot {
	char *key; /* NULL: empty */
	size_t key_n;
	uint64_t hash;
	void *value;
};

struct rf_map {
	struct rf_map_slot *slots;
	size_t n;
	size_t cap; /* a power of two, or 0 */
};

#define RF_MAP_INIT { NULL, 0, 0 }

void *rf_map_get(const struct rf_map *m, struct rf_str key); /* NULL if absent */
/* Returns the value that was there before, NULL if none. value must not be NULL. */
void *rf_map_set(struct rf_map *m, struct rf_str key, void *value);
/* The slot of the key, made where there is none: its value is NULL then, and has to be set before anything else is
 * asked of the map. The text of the key stays where it is until it is deleted; the slot does not. */
struct rf_map_slot *rf_map_slot(struct rf_map *m, struct rf_str key);
void *rf_map_del(struct rf_map *m, struct rf_str key);
void rf_map_clear(struct rf_map *m);
void rf_map_done(struct rf_map *m);

/* for (struct rf_map_slot *s = NULL; (s = rf_map_next(&m, s)) != NULL;) use(s->key, s->value);
 * Order is arbitrary. The map must not be changed meanwhile. */
struct rf_map_slot *rf_map_next(const struct rf_map *m, const struct rf_map_slot *prev);
static inline struct rf_str rf_map_key(const struct rf_map_slot *s)
{
	return rf_str_n(s->key, s->key_n);
}

uint64_t rf_siphash13(const uint8_t key[16], const void *data, size_t n);
/* The same under the process's own key. */
uint64_t rf_hash(struct rf_str s);

#endif
