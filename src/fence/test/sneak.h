/* What the tenants of test_bypass.c try for, and how they say how it went. */
#ifndef RF_FENCE_TEST_SNEAK_H
#define RF_FENCE_TEST_SNEAK_H

#include <stdint.h>

#define SNEAK_MIB ((uint64_t)1 << 20)
#define SNEAK_CAP (256 * SNEAK_MIB)
#define SNEAK_GOAL (512 * SNEAK_MIB)

/* Written to stdout when the attempt is over; then the tenant waits for the end of stdin. */
struct sneak_report {
	int32_t pid;   /* of the process that holds the memory */
	int32_t error; /* the driver's last answer */
	uint64_t bytes;
};

#pragma GCC visibility push(default)
/* Takes as much as it gets, up to the goal, straight from the driver its library is linked to. */
uint64_t sneak_grab(int32_t *ret_error);
#pragma GCC visibility pop

#endif
