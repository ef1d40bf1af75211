/* The 16 bytes of a card's UUID. */
#ifndef RF_FENCE_UUID_H
#define RF_FENCE_UUID_H

#include <stdbool.h>
#include <stdint.h>

/* "GPU-xxxxxxxx-xxxx-..." or "MIG-..."; false if it is none. */
bool rf_uuid_parse(const char *text, uint8_t ret[16]);

#endif
