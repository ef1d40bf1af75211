/* Finding a key that appears twice, without comparing every pair. */
#include "codec/json_private.h"

#define FEW 32

/* A bit per key, chosen by length and ends: keys whose bits differ need no comparison, which in
 * objects as people write them leaves hardly any. */
static size_t find_duplicate_among_few(const struct rf_json_member *m, size_t n)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < n; i++) {
		struct rf_str k = m[i].key;
		unsigned mix = k.n == 0 ? 0
					: (unsigned)k.n * 7 + (unsigned char)k.p[0] * 3 +
						  (unsigned char)k.p[k.n - 1] * 5;
		uint64_t bit = (uint64_t)1 << (mix & 63);

		for (size_t j = 0; (seen & bit) != 0 && j < i; j++)
			if (rf_str_eq(m[j].key, k))
				return i;
		seen |= bit;
	}
	return n;
}

size_t rf_json_find_duplicate(const struct rf_json_member *m, size_t n)
{
	size_t cap = FEW, i;
	uint32_t *slots; /* index + 1 of a member; 0 is free */

	if (n <= FEW)
		return find_duplicate_among_few(m, n);
	while (cap < n * 2)
		cap *= 2;
	slots = rf_alloc(cap * sizeof(*slots));
	for (i = 0; i < n; i++) {
		size_t at = rf_hash(m[i].key) & (cap - 1);

		while (slots[at] != 0 && !rf_str_eq(m[slots[at] - 1].key, m[i].key))
			at = (at + 1) & (cap - 1);
		if (slots[at] != 0)
			break;
		slots[at] = (uint32_t)(i + 1);
	}
	free(slots);
	return i;
}
