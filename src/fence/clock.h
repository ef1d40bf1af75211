/* The monotonic clock. */
#ifndef RF_FENCE_CLOCK_H
#define RF_FENCE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t rf_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

#endif
