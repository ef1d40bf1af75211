/* Inside of gpu/: the cards and their driver. */
#ifndef RF_GPU_PRIVATE_H
#define RF_GPU_PRIVATE_H

#include "gpu/gpu.h"
#include "gpu/nvml.h"

struct rf_gpu {
	struct rf_nvml nvml;
	size_t n;
	struct rf_gpu_card cards[RF_GPU_CARDS_MAX];
	nvmlDevice_t handles[RF_GPU_CARDS_MAX];
	int64_t mig[RF_GPU_CARDS_MAX]; /* when the islands were read */
	nvmlEventSet_t events; /* NULL: the driver delivers none */
	char driver[NVML_SYSTEM_VERSION_BUFFER_SIZE];
};

nvmlReturn_t rf_gpu_read_memory(const struct rf_gpu *g, nvmlDevice_t dev, int64_t *total, int64_t *used);

#endif
