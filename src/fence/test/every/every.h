/* Beside the driver API: what the driver of every name (every.c) would answer itself. */
#ifndef RF_FENCE_TEST_EVERY_H
#define RF_FENCE_TEST_EVERY_H

#include <stdbool.h>

#define EVERY_VERSION "EVERY_1" /* of each symbol, for dlvsym */

#pragma GCC visibility push(default)
void *cu_every_find(const char *base, int version, bool per_thread, bool hidden);
const char *cu_every_name(const void *pointer); /* of a function, exported or hidden */
void cu_every_hide(bool on); /* cuGetProcAddress answers with hidden functions from now on */
#pragma GCC visibility pop

#endif
