/* Randomness: the kernel's for secrets and names, a seeded one for tests and simulations. */
#ifndef RF_BASE_RAND_H
#define RF_BASE_RAND_H

#include "base/arena.h"

void rf_rand_bytes(void *p, size_t n);
/* A random (version 4) UUID, lower case. */
struct rf_str rf_rand_uuid(struct rf_arena *a);
/* n characters of [bcdfghjklmnpqrstvwxz2456789], as Kubernetes' generateName draws them. */
struct rf_str rf_rand_suffix(struct rf_arena *a, size_t n);

/* xorshift64*; the same seed gives the same numbers everywhere. Seed must not be 0. */
struct rf_prng {
	uint64_t state;
};
uint64_t rf_prng_next(struct rf_prng *r);
uint64_t rf_prng_below(struct rf_prng *r, uint64_t n); /* 0 .. n-1 */

#endif
