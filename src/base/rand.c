#include "base/rand.h"

#include <errno.h>
#include <sys/random.h>

void rf_rand_bytes(void *p, size_t n)
{
	uint8_t *at = p;

	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		rf_assert(got > 0);
		at += got;
		n -= (size_t)got;
	}
}

struct rf_str rf_rand_uuid(struct rf_arena *a)
{
	uint8_t b[16];

	rf_rand_bytes(b, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	return rf_arena_printf(
		a, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

struct rf_str rf_rand_suffix(struct rf_arena *a, size_t n)
{
	static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
	char *p = rf_arena_alloc(a, n + 1);

	rf_rand_bytes(p, n);
	for (size_t i = 0; i < n; i++)
		p[i] = alphabet[(unsigned char)p[i] % (sizeof(alphabet) - 1)];
	return rf_str_n(p, n);
}

uint64_t rf_prng_next(struct rf_prng *r)
{
	rf_assert(r->state != 0);
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return r->state * 0x2545F4914F6CDD1DULL;
}

uint64_t rf_prng_below(struct rf_prng *r, uint64_t n)
{
	rf_assert(n > 0);
	return (rf_prng_next(r) >> 11) % n;
}
