/* NVML for tests: two devices, one of them busy with somebody else's process. */
#include <string.h>

#include "fence/test/fake.h"
#include "gpu/nvml_abi.h"

struct nvmlDevice_st {
	const char *uuid;
};
static struct nvmlDevice_st devices[FAKE_DEVICES] = { { FAKE_UUID_0 }, { FAKE_UUID_1 } };

nvmlReturn_t nvmlInit_v2(void)
{
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	/* The other way round than CUDA has them. */
	*device = &devices[FAKE_DEVICES - 1 - index];
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	strncpy(uuid, device->uuid, length);
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	*memory = (nvmlMemory_t){ .total = FAKE_TOTAL, .free = FAKE_TOTAL - 1000, .used = 1000 };
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	memory->total = FAKE_TOTAL;
	memory->reserved = 600;
	memory->used = 400;
	memory->free = FAKE_TOTAL - 1000;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *infos)
{
	unsigned int room = *count;

	*count = 1;
	if (room < 1)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	infos[0] = (nvmlProcessInfo_t){ .pid = 4242, .usedGpuMemory = 1000 };
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						      nvmlProcessInfo_t *infos)
{
	return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}
