/* Three cards for the tests: an ordinary one, one that answers nothing, one that is lost. It has no
 * power or ECC calls, and its event is told once.
 *
 * With RF_FAKE_LINKS there are six, all ordinary, and joined as it says: "01 12 34!" joins 0 to 1 and 1 to 2, and of 3
 * and 4 the driver does not know; a single "5" is a card that has no answer. RF_FAKE_NUMA has the memory nodes near
 * each, a letter each: 'a' is node 0, '-' several. RF_FAKE_MIG lists the cards in MIG mode. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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
	*count = getenv("RF_FAKE_LINKS") != NULL ? 6 : 3;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)(uintptr_t)(index + 1);
	return index == 1 && getenv("RF_FAKE_LINKS") == NULL ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

static bool in_mig_mode(nvmlDevice_t d)
{
	const char *mig = getenv("RF_FAKE_MIG");

	return mig != NULL && strchr(mig, '0' + (int)number(d)) != NULL;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *now, unsigned int *pending)
{
	*now = *pending = in_mig_mode(device);
	return getenv("RF_FAKE_LINKS") != NULL ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long *nodes, unsigned int scope)
{
	const char *numa = getenv("RF_FAKE_NUMA");

	(void)scope;
	if (numa == NULL || number(device) >= strlen(numa) || size == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	nodes[0] = numa[number(device)] == '-' ? 3 : 1ul << (numa[number(device)] - 'a');
	return NVML_SUCCESS;
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

static nvmlReturn_t link_of(const char *links, nvmlDevice_t a, nvmlDevice_t b, int *status)
{
	char words[64];

	snprintf(words, sizeof(words), "%s", links);
	*status = NVML_P2P_STATUS_NOT_SUPPORTED;
	for (char *rest = words, *w; (w = strsep(&rest, " ")) != NULL;) {
		bool with_a = strchr(w, '0' + (int)number(a)) != NULL, with_b = strchr(w, '0' + (int)number(b)) != NULL;

		if (strlen(w) == 1 && (with_a || with_b))
			return NVML_ERROR_GPU_IS_LOST;
		if (strlen(w) > 1 && with_a && with_b && !in_mig_mode(a) && !in_mig_mode(b))
			*status = w[2] == '!' ? NVML_P2P_STATUS_UNKNOWN : NVML_P2P_STATUS_OK;
	}
	return NVML_SUCCESS;
}

/* The first and the last one are joined. */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int index, int *status)
{
	if (getenv("RF_FAKE_LINKS") != NULL)
		return link_of(getenv("RF_FAKE_LINKS"), a, b, status);
	*status = index == NVML_P2P_CAPS_INDEX_NVLINK && number(a) != number(b) ?
			  NVML_P2P_STATUS_OK :
			  NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

/* The last card answers while it is found and is lost from then on. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	*memory = (nvmlMemory_t){ .total = 1000, .free = 600, .used = 400 };
	if (number(device) == 2 && asked++ % 2 == 1 && getenv("RF_FAKE_LINKS") == NULL)
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

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
							nvmlProcessInfo_t *infos)
{
	(void)device;
	infos[0] = (nvmlProcessInfo_t){ .pid = 1008, .usedGpuMemory = 200 };
	infos[1] = (nvmlProcessInfo_t){ .pid = 4242, .usedGpuMemory = 3 };
	*count = 2;
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
