/* Knobs of the fake driver, beside the driver API itself. */
#ifndef RF_FENCE_TEST_FAKE_H
#define RF_FENCE_TEST_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_DEVICES 2
#define FAKE_TOTAL ((uint64_t)1 << 30)
#define FAKE_POOL_STEP ((uint64_t)32 << 20)
#define FAKE_UUID_0 "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
#define FAKE_UUID_1 "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f"

#pragma GCC visibility push(default)
uint64_t fake_live(int dev);	 /* bytes this process has on the device */
void fake_fail_next(int result); /* the next allocating call fails with it */
void fake_capturing(int status);
unsigned fake_calls(void);		    /* calls of the functions a capped fence refuses */
const void *fake_pointer(const char *name); /* the driver's own function */
void fake_unexported(bool on); /* cuGetProcAddress hands out pointers dlsym does not know */
#pragma GCC visibility pop

#endif
