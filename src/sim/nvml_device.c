/* What a device is and how it is doing. */
#include "sim/nvml_priv.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Most queries: enter, run a statement, leave. `out` must not be NULL. */
#define QUERY(device, out, ...)                                                                    \
	do {                                                                                       \
		nvmlReturn_t r_ = (out) == NULL && nvml_initialised()                              \
					  ? NVML_ERROR_INVALID_ARGUMENT                            \
					  : nvml_enter(device);                                    \
		if (r_ != NVML_SUCCESS)                                                            \
			return r_;                                                                 \
		__VA_ARGS__;                                                                       \
		nvml_leave(device);                                                                \
		return NVML_SUCCESS;                                                               \
	} while (0)

static const struct rf_mig_profile *profile_of(nvmlDevice_t d)
{
	return sim_gi_profile(d->card, &d->card->s->gis[d->gi]);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	QUERY(device, index, *index = device->index);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	char text[96];
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	if (device->parent != NULL)
		snprintf(text, sizeof(text), "%s MIG %s", device->card->model->product,
			 profile_of(device)->name);
	else
		snprintf(text, sizeof(text), "%s", device->card->model->product);
	nvml_leave(device);
	return nvml_put_string(name, length, text);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	char text[48];
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	sim_uuid_text(device->parent != NULL ? "MIG" : "GPU", device->uuid, text);
	nvml_leave(device);
	return nvml_put_string(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
	char text[32];
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	snprintf(text, sizeof(text), "%013llu",
		 (unsigned long long)(device->card->s->serial % 10000000000000ULL));
	nvml_leave(device);
	return nvml_put_string(serial, length, text);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, int *brand)
{
	QUERY(device, brand, *brand = NVML_BRAND_NVIDIA);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
	QUERY(device, minor, *minor = device->card->s->minor);
}

static void fill_pci(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
	unsigned bus = d->card->s->pci_bus & 0xff;

	*pci = (nvmlPciInfo_t){ .bus = bus,
				.pciDeviceId = d->card->model->pci_device << 16 | 0x10de };
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", bus);
	snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", bus);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	QUERY(device, pci, fill_pci(device, pci));
}

/* The older versions' struct is a prefix of this one, without the long bus id. */
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	nvmlPciInfo_t full;
	nvmlReturn_t r = nvmlDeviceGetPciInfo_v3(device, &full);

	if (r == NVML_SUCCESS && pci == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (r == NVML_SUCCESS)
		memcpy(pci, &full, offsetof(nvmlPciInfo_t, busId));
	return r;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v2(device, pci);
}

/* Four cards to a memory node, as in most machines of eight. */
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long *nodes, unsigned int scope)
{
	if (size == 0 || scope > 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	QUERY(device, nodes, {
		memset(nodes, 0, size * sizeof(*nodes));
		nodes[0] = 1ul << (device->index / 4 % (8 * sizeof(*nodes)));
	});
}

/* Cards of one machine that have NVLink are all joined, as by switches; those in MIG mode to none. */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, int index, int *status)
{
	bool ours = false;

	if (device2 == NULL || index < 0 || index > 4)
		return NVML_ERROR_INVALID_ARGUMENT;
	ours = index == NVML_P2P_CAPS_INDEX_NVLINK && device1 != device2 &&
	       !__atomic_load_n(&device1->card->s->mig_mode, __ATOMIC_RELAXED) &&
	       !__atomic_load_n(&device2->card->s->mig_mode, __ATOMIC_RELAXED);
	QUERY(device1, status, {
		*status = ours && device1->card->model->nvlink &&
					  device2->card->model == device1->card->model ?
				  NVML_P2P_STATUS_OK :
				  NVML_P2P_STATUS_NOT_SUPPORTED;
	});
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	if (minor == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	QUERY(device, major, {
		*major = (int)device->card->model->cc_major;
		*minor = (int)device->card->model->cc_minor;
	});
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *arch)
{
	QUERY(device, arch, *arch = device->card->model->nvml_arch);
}

static unsigned sms_of(nvmlDevice_t d)
{
	const struct sim_gi *gi;

	if (d->parent == NULL)
		return d->card->model->sms;
	gi = &d->card->s->gis[d->gi];
	return profile_of(d)->sms * gi->ci[d->ci].slices / profile_of(d)->slices;
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores)
{
	QUERY(device, cores, *cores = sms_of(device) * device->card->model->cores_per_sm);
}

static void fill_attributes(nvmlDevice_t d, nvmlDeviceAttributes_t *a)
{
	const struct rf_mig_profile *p = profile_of(d);

	*a = (nvmlDeviceAttributes_t){
		.multiprocessorCount = sms_of(d),
		.sharedCopyEngineCount = p->copy_engines,
		.sharedDecoderCount = p->decoders,
		.sharedJpegCount = p->jpegs,
		.sharedOfaCount = p->ofas,
		.gpuInstanceSliceCount = p->slices,
		.computeInstanceSliceCount = d->card->s->gis[d->gi].ci[d->ci].slices,
		.memorySizeMB = p->memory_mib,
	};
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	if (device != NULL && device->parent == NULL)
		return NVML_ERROR_NOT_SUPPORTED;
	QUERY(device, attributes, fill_attributes(device, attributes));
}

/* --- memory --- */

static void fill_memory(nvmlDevice_t d, nvmlMemory_v2_t *m)
{
	uint64_t reserved = d->parent == NULL ? (uint64_t)d->card->model->reserved_mib << 20 : 0;
	uint64_t total = sim_memory_total(d->card, nvml_part(d));

	sim_reap(d->card);
	m->total = total + reserved;
	m->reserved = reserved;
	m->used = sim_memory_used(d->card, nvml_part(d));
	m->free = m->used < total ? total - m->used : 0;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	if (memory != NULL && memory->version != NVML_MEMORY_V2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	QUERY(device, memory, fill_memory(device, memory));
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlMemory_v2_t m = { .version = NVML_MEMORY_V2 };

	QUERY(device, memory, {
		fill_memory(device, &m);
		*memory = (nvmlMemory_t){ .total = m.total,
					  .free = m.free,
					  .used = m.used + m.reserved };
	});
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
	QUERY(device, memory, {
		memory->bar1Total = 128ULL << 30;
		memory->bar1Used = 1ULL << 20;
		memory->bar1Free = memory->bar1Total - memory->bar1Used;
	});
}

/* --- load, heat, power --- */

static unsigned busy_percent(nvmlDevice_t d)
{
	const struct sim_state *s = d->card->s;
	unsigned most = 0;

	sim_reap(d->card);
	sim_advance_all(d->card);
	for (int i = 0; i < SIM_PARTS; i++) {
		unsigned p = sim_busy_percent(&s->parts[i].busy, sim_clock(d->card));

		most = p > most ? p : most;
	}
	return most;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	bool mig;
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	mig = device->parent != NULL || device->card->s->mig_mode;
	if (!mig && utilization != NULL) {
		utilization->gpu = busy_percent(device);
		utilization->memory = utilization->gpu / 3;
	}
	nvml_leave(device);
	if (utilization == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	return mig ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* 32 degrees when idle, 67 under full load. */
static unsigned temperature(nvmlDevice_t d)
{
	return 32 + busy_percent(d) * 35 / 100;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *temp)
{
	if (sensor != NVML_TEMPERATURE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	QUERY(device, temp, *temp = temperature(device));
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *t)
{
	if (t != NULL && t->version != NVML_TEMPERATURE_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	QUERY(device, t, t->temperature = (int)temperature(device));
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int type, unsigned int *temp)
{
	if (type != NVML_TEMPERATURE_THRESHOLD_SHUTDOWN &&
	    type != NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
		return NVML_ERROR_NOT_SUPPORTED;
	QUERY(device, temp, *temp = type == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN ? 92 : 89);
}

static unsigned milliwatts(nvmlDevice_t d)
{
	const struct rf_gpu_model *m = d->card->model;

	return m->idle_w * 1000 + (m->power_w - m->idle_w) * 10 * busy_percent(d);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *mw)
{
	QUERY(device, mw, *mw = milliwatts(device));
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *mw)
{
	QUERY(device, mw, *mw = device->card->model->power_w * 1000);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *mw)
{
	return nvmlDeviceGetPowerManagementLimit(device, mw);
}

/* Idle power since the machine was made, and the rest for as long as anything ran. */
static unsigned long long millijoules(nvmlDevice_t d)
{
	const struct rf_gpu_model *m = d->card->model;
	const struct sim_state *s = d->card->s;
	uint64_t busy = 0, now = sim_clock(d->card);

	sim_advance_all(d->card);
	for (int i = 0; i < SIM_PARTS; i++)
		busy = s->parts[i].busy.total_ns > busy ? s->parts[i].busy.total_ns : busy;
	return (now - s->created_ns) / 1000000 * m->idle_w +
	       busy / 1000000 * (m->power_w - m->idle_w);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *mj)
{
	QUERY(device, mj, *mj = millijoules(device));
}

static unsigned clock_mhz(const struct rf_gpu_model *m, int type)
{
	if (type == NVML_CLOCK_MEM)
		return m->memory_mhz;
	return type == NVML_CLOCK_VIDEO ? m->sm_mhz * 3 / 4 : m->sm_mhz;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned int *mhz)
{
	if (type < NVML_CLOCK_GRAPHICS || type > NVML_CLOCK_VIDEO)
		return NVML_ERROR_INVALID_ARGUMENT;
	QUERY(device, mhz, *mhz = clock_mhz(device->card->model, type));
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned int *mhz)
{
	unsigned max = 0;
	nvmlReturn_t r = nvmlDeviceGetMaxClockInfo(device, type, &max);

	if (r != NVML_SUCCESS)
		return r;
	QUERY(device, mhz, *mhz = type == NVML_CLOCK_MEM || busy_percent(device) > 0 ? max : 345);
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, int *pstate)
{
	QUERY(device, pstate, *pstate = NVML_PSTATE_0);
}

/* --- modes --- */

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, int *mode)
{
	QUERY(device, mode, *mode = NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, int *mode)
{
	QUERY(device, mode, *mode = NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, int *active)
{
	QUERY(device, active, *active = NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, int *mode)
{
	QUERY(device, mode, *mode = (int)device->card->s->compute_mode);
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, int mode)
{
	if (mode != NVML_COMPUTEMODE_DEFAULT && mode != NVML_COMPUTEMODE_PROHIBITED &&
	    mode != NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
		return NVML_ERROR_NOT_SUPPORTED;
	QUERY(device, device, device->card->s->compute_mode = (uint32_t)mode);
}
