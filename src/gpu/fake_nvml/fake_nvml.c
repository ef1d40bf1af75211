/* Three cards for the tests: an ordinary one, one that answers nothing, one that is lost. It has no
 * power or ECC calls, and its event is told once. */
#include <stdio.h>
#include <string.h>

#include "gpu/nvml_abi.h"

static int told, asked;

static unsigned number(nvmlDevice_t d)
{
	return (unsigned)(uintptr_t)d - 1;
}

nvmlReturn_t nvmlInit_v2(void)
{
	told = asked = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = 3;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)(uintptr_t)(index + 1);
	return index == 1 ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	snprintf(uuid, length, "GPU-fake-%u", number(device));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	(void)device;
	snprintf(name, length, "Fake");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
	*minor = number(device) + 10;
	return NVML_SUCCESS;
}

/* The first and the last one are joined. */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int index, int *status)
{
	*status = index == NVML_P2P_CAPS_INDEX_NVLINK && number(a) != number(b) ?
			  NVML_P2P_STATUS_OK :
			  NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

/* The last card answers while it is found and is lost from then on. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	*memory = (nvmlMemory_t){ .total = 1000, .free = 600, .used = 400 };
	if (number(device) == 2 && asked++ % 2 == 1)
		return NVML_ERROR_GPU_IS_LOST;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *temp)
{
	(void)device;
	(void)sensor;
	*temp = 55;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *infos)
{
	if (number(device) == 2)
		return NVML_ERROR_GPU_IS_LOST;
	if (*count < 100) {
		*count = 100;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	for (unsigned i = 0; i < 100; i++)
		infos[i] = (nvmlProcessInfo_t){ .pid = 1000 + i, .usedGpuMemory = 10 * i };
	*count = 100;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						      nvmlProcessInfo_t *infos)
{
	(void)device;
	infos[0] = (nvmlProcessInfo_t){ .pid = 1007, .usedGpuMemory = 1 };
	*count = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	*set = (nvmlEventSet_t)(uintptr_t)1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	(void)set;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
				      nvmlEventSet_t set)
{
	(void)device;
	(void)types;
	(void)set;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	(void)set;
	(void)timeout_ms;
	if (told++)
		return NVML_ERROR_TIMEOUT;
	*data = (nvmlEventData_t){ .device = (nvmlDevice_t)(uintptr_t)3,
				   .eventType = NVML_EVENT_XID,
				   .eventData = 79 };
	return NVML_SUCCESS;
}
