/* What a program sees of its cards: the cap is the card. The driver is always asked first, with the
 * program's own pointers, so that wrong arguments get the driver's own answer. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fence/fence.h"

static bool capped(const struct rf_fence *f, unsigned card)
{
	return f->card[card].cap != UINT64_MAX;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct rf_fence *f = rf_join();
	unsigned card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuMemGetInfo_v2)(free, total);
	if (r == CUDA_SUCCESS)
		r = rf_current_card(f, &card);
	if (r != CUDA_SUCCESS || !capped(f, card))
		return r;
	if (free)
		*free = least(*free, rf_room(f, card));
	if (total)
		*total = least(*total, f->card[card].cap);
	return r;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	struct rf_fence *f = rf_join();
	unsigned card;
	CUresult r;

	if (!f)
		return CUDA_ERROR_NOT_PERMITTED;
	r = RF_REAL(cuDeviceTotalMem_v2)(bytes, dev);
	if (r == CUDA_SUCCESS)
		r = rf_card_of(f, dev, &card);
	if (r == CUDA_SUCCESS && bytes)
		*bytes = least(*bytes, f->card[card].cap);
	return r;
}

/* --- NVML --- */

nvmlReturn_t nvmlInit(void)
{
	return rf_join() ? RF_REAL(nvmlInit)() : NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return rf_join() ? RF_REAL(nvmlInit_v2)() : NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	return rf_join() ? RF_REAL(nvmlInitWithFlags)(flags) : NVML_ERROR_NO_PERMISSION;
}

static nvmlReturn_t nvml_card(struct rf_fence *f, nvmlDevice_t device, unsigned *ret_card)
{
	char text[NVML_DEVICE_UUID_BUFFER_SIZE] = "";
	uint8_t uuid[16];
	nvmlReturn_t r = RF_REAL(nvmlDeviceGetUUID)(device, text, sizeof(text));

	if (r != NVML_SUCCESS)
		return r;
	for (unsigned i = 0; rf_uuid_parse(text, uuid) && i < f->cards; i++) {
		if (memcmp(f->card[i].uuid, uuid, 16) == 0) {
			*ret_card = i;
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct rf_fence *f = rf_join();
	unsigned card;
	nvmlReturn_t r;

	if (!f)
		return NVML_ERROR_NO_PERMISSION;
	r = RF_REAL(nvmlDeviceGetMemoryInfo)(device, memory);
	if (r == NVML_SUCCESS)
		r = nvml_card(f, device, &card);
	if (r != NVML_SUCCESS || !memory || !capped(f, card))
		return r;
	memory->total = least(memory->total, f->card[card].cap);
	memory->free = least(memory->free, rf_room(f, card));
	memory->used = memory->total - least(memory->total, memory->free);
	return r;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	struct rf_fence *f = rf_join();
	unsigned card;
	nvmlReturn_t r;

	if (!f)
		return NVML_ERROR_NO_PERMISSION;
	r = RF_REAL(nvmlDeviceGetMemoryInfo_v2)(device, memory);
	if (r == NVML_SUCCESS)
		r = nvml_card(f, device, &card);
	if (r != NVML_SUCCESS || !memory || !capped(f, card))
		return r;
	memory->total = least(memory->total, f->card[card].cap);
	memory->reserved = 0;
	memory->free = least(memory->free, rf_room(f, card));
	memory->used = memory->total - least(memory->total, memory->free);
	return r;
}

/* The list comes from the ledger: it knows the fence's own processes, by pids that mean something
 * to the caller. NVML's pids are the host's. */
static nvmlReturn_t own_processes(struct rf_fence *f, unsigned card, unsigned int *count,
				  const void *infos, struct rf_ledger_process ret[RF_LEDGER_SEATS], size_t *ret_n)
{
	int saved = errno;
	size_t n = rf_ledger_list(&f->place, card, ret, RF_LEDGER_SEATS);
	unsigned int room = *count;

	errno = saved;
	*count = (unsigned int)n;
	*ret_n = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	return n > 0 && !infos ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

/* Whether the list is the fence's to give: true for a capped card; else *ret says what to return,
 * or NVML_SUCCESS to let the driver answer. */
static bool fenced(struct rf_fence *f, nvmlDevice_t device, unsigned *card, nvmlReturn_t *ret)
{
	*ret = f ? nvml_card(f, device, card) : NVML_ERROR_NO_PERMISSION;
	return *ret == NVML_SUCCESS && capped(f, *card);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
						  nvmlProcessInfo_v1_t *infos)
{
	struct rf_ledger_process list[RF_LEDGER_SEATS];
	struct rf_fence *f = rf_join();
	unsigned card;
	size_t n = 0;
	nvmlReturn_t r;

	if (!fenced(f, device, &card, &r))
		return r ? r : RF_REAL(nvmlDeviceGetComputeRunningProcesses)(device, count, infos);
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = own_processes(f, card, count, infos, list, &n);
	for (size_t i = 0; r == NVML_SUCCESS && i < n; i++)
		infos[i] = (nvmlProcessInfo_v1_t){ .pid = (unsigned int)list[i].pid,
						   .usedGpuMemory = list[i].bytes };
	return r;
}

static nvmlReturn_t own_infos(struct rf_fence *f, unsigned card, unsigned int *count,
			      nvmlProcessInfo_t *infos)
{
	struct rf_ledger_process list[RF_LEDGER_SEATS];
	nvmlReturn_t r;
	size_t n = 0;

	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = own_processes(f, card, count, infos, list, &n);
	for (size_t i = 0; r == NVML_SUCCESS && i < n; i++)
		infos[i] = (nvmlProcessInfo_t){ .pid = (unsigned int)list[i].pid,
						.usedGpuMemory = list[i].bytes,
						.gpuInstanceId = NVML_NO_INSTANCE,
						.computeInstanceId = NVML_NO_INSTANCE };
	return r;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *infos)
{
	struct rf_fence *f = rf_join();
	unsigned card;
	nvmlReturn_t r;

	if (fenced(f, device, &card, &r))
		return own_infos(f, card, count, infos);
	return r ? r : RF_REAL(nvmlDeviceGetComputeRunningProcesses_v2)(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *infos)
{
	struct rf_fence *f = rf_join();
	unsigned card;
	nvmlReturn_t r;

	if (fenced(f, device, &card, &r))
		return own_infos(f, card, count, infos);
	return r ? r : RF_REAL(nvmlDeviceGetComputeRunningProcesses_v3)(device, count, infos);
}
