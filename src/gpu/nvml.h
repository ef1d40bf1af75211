/* The NVML calls this room makes, found by name. A NULL pointer is a call the driver lacks. */
#ifndef RF_GPU_NVML_H
#define RF_GPU_NVML_H

#include "base/base.h"
#include "gpu/nvml_abi.h"

/* Without these nothing can be said about a card. */
#define RF_NVML_NEEDED(X)                                                                          \
	X(nvmlInit_v2)                                                                             \
	X(nvmlShutdown)                                                                            \
	X(nvmlDeviceGetCount_v2)                                                                   \
	X(nvmlDeviceGetHandleByIndex_v2)                                                           \
	X(nvmlDeviceGetUUID)                                                                       \
	X(nvmlDeviceGetName)                                                                       \
	X(nvmlDeviceGetMinorNumber)                                                                \
	X(nvmlDeviceGetMemoryInfo)                                                                 \
	X(nvmlDeviceGetComputeRunningProcesses_v3)

#define RF_NVML_WELCOME(X)                                                                         \
	X(nvmlErrorString)                                                                         \
	X(nvmlSystemGetDriverVersion)                                                              \
	X(nvmlDeviceGetPciInfo_v3)                                                                 \
	X(nvmlDeviceGetP2PStatus)                                                                  \
	X(nvmlDeviceGetMemoryAffinity)                                                             \
	X(nvmlDeviceGetMemoryInfo_v2)                                                              \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3)                                                \
	X(nvmlDeviceGetMPSComputeRunningProcesses_v3)                                              \
	X(nvmlDeviceGetUtilizationRates)                                                           \
	X(nvmlDeviceGetTemperature)                                                                \
	X(nvmlDeviceGetPowerUsage)                                                                 \
	X(nvmlDeviceGetTotalEnergyConsumption)                                                     \
	X(nvmlDeviceGetTotalEccErrors)                                                             \
	X(nvmlDeviceGetFieldValues)                                                                \
	X(nvmlEventSetCreate)                                                                      \
	X(nvmlEventSetFree)                                                                        \
	X(nvmlEventSetWait_v2)                                                                     \
	X(nvmlDeviceRegisterEvents)                                                                \
	X(nvmlDeviceGetSupportedEventTypes)                                                        \
	X(nvmlDeviceGetMigMode)                                                                    \
	X(nvmlDeviceGetGpuInstanceProfileInfo)                                                     \
	X(nvmlDeviceGetGpuInstanceProfileInfoV)                                                    \
	X(nvmlDeviceGetGpuInstancePossiblePlacements_v2)                                           \
	X(nvmlDeviceCreateGpuInstanceWithPlacement)                                                \
	X(nvmlGpuInstanceDestroy)                                                                  \
	X(nvmlDeviceGetGpuInstances)                                                               \
	X(nvmlDeviceGetGpuInstanceById)                                                            \
	X(nvmlGpuInstanceGetInfo)                                                                  \
	X(nvmlGpuInstanceGetComputeInstanceProfileInfo)                                            \
	X(nvmlGpuInstanceCreateComputeInstance)                                                    \
	X(nvmlGpuInstanceGetComputeInstances)                                                      \
	X(nvmlComputeInstanceGetInfo_v2)                                                           \
	X(nvmlComputeInstanceDestroy)                                                              \
	X(nvmlDeviceGetMaxMigDeviceCount)                                                          \
	X(nvmlDeviceGetMigDeviceHandleByIndex)                                                     \
	X(nvmlDeviceGetGpuInstanceId)                                                              \
	X(nvmlDeviceGetComputeInstanceId)

struct rf_nvml {
	void *library;
#define RF_NVML_POINTER(name) __typeof__(&name) name;
	RF_NVML_NEEDED(RF_NVML_POINTER)
	RF_NVML_WELCOME(RF_NVML_POINTER)
};

int rf_nvml_load(const char *lib_dir, struct rf_nvml *ret, struct rf_err *err);
const char *rf_nvml_text(const struct rf_nvml *n, nvmlReturn_t code);

#endif
