/* Inside the simulated libnvidia-ml.so.1. */
#ifndef RF_SIM_NVML_PRIV_H
#define RF_SIM_NVML_PRIV_H

#include <stddef.h>

#include "gpu/nvml_abi.h"
#include "sim/state.h"

/* A card, or a MIG device: a compute instance. Never freed, so that old handles stay readable. */
struct nvmlDevice_st {
	struct sim_card *card;
	unsigned index;
	struct nvmlDevice_st *parent; /* NULL for a card */
	int gi, ci;		      /* slots */
	uint8_t uuid[16];
};

struct nvmlGpuInstance_st {
	struct nvmlDevice_st *device;
	int slot;
	uint64_t serial;
};

struct nvmlComputeInstance_st {
	struct nvmlGpuInstance_st *gi;
	int slot;
	uint8_t uuid[16];
};

/* NVML_SUCCESS with the card locked, or why not: not initialised, no handle, card lost, instance
 * gone. The caller unlocks with nvml_leave. */
nvmlReturn_t nvml_enter(nvmlDevice_t device);
void nvml_leave(nvmlDevice_t device);
/* The same for the card of a GPU instance that must still be there. */
nvmlReturn_t nvml_enter_gi(nvmlGpuInstance_t gi);
bool nvml_initialised(void);
unsigned nvml_device_count(void);
nvmlDevice_t nvml_device_at(unsigned i);
nvmlReturn_t nvml_put_string(char *out, unsigned length, const char *text);
/* Memory for a handle: zeroed, kept for as long as the library is loaded. NULL if there is none. */
void *nvml_new_handle(size_t size);
/* The MIG device of a compute instance; under the card's lock. */
nvmlDevice_t nvml_mig_device(nvmlDevice_t parent, int gi, int ci);
/* 0 for a card, else 1 + the GPU instance's slot. */
static inline uint32_t nvml_part(nvmlDevice_t d)
{
	return d->parent == NULL ? 0 : (uint32_t)d->gi + 1;
}

#endif
