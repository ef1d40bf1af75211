/* Init and shutdown, finding devices, texts. */
#include "sim/nvml_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static struct nvmlDevice_st *devices[SIM_CARDS_MAX];
static unsigned n_devices;
static char driver[80] = "580.159.04";
static int cuda_version = 13000;

bool nvml_initialised(void)
{
	return __atomic_load_n(&users, __ATOMIC_ACQUIRE) > 0;
}

unsigned nvml_device_count(void)
{
	return n_devices;
}

nvmlDevice_t nvml_device_at(unsigned i)
{
	return i < n_devices ? devices[i] : NULL;
}

struct kept {
	struct kept *next;
	max_align_t handle[];
};

static struct kept *kept;

void *nvml_new_handle(size_t size)
{
	struct kept *k = calloc(1, sizeof(*k) + size);

	if (k == NULL)
		return NULL;
	k->next = __atomic_load_n(&kept, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&kept, &k->next, k, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
	return k->handle;
}

static struct nvmlDevice_st *device_for(struct sim_card *c, unsigned index)
{
	struct nvmlDevice_st *d;

	/* After a new init the same card keeps its handle where it can. */
	if (index < SIM_CARDS_MAX && devices[index] != NULL && devices[index]->card == c)
		return devices[index];
	d = nvml_new_handle(sizeof(*d));
	if (d == NULL)
		return NULL;
	*d = (struct nvmlDevice_st){ .card = c, .index = index, .gi = -1, .ci = -1 };
	memcpy(d->uuid, c->s->uuid, sizeof(d->uuid));
	return d;
}

static nvmlReturn_t find_devices(void)
{
	struct sim_machine m;

	if (!sim_machine_open(&m) || (m.n == 0 && !m.has_facts))
		return NVML_ERROR_DRIVER_NOT_LOADED;
	for (size_t i = 0; i < m.n; i++) {
		devices[i] = device_for(m.cards[i], (unsigned)i);
		if (devices[i] == NULL)
			return NVML_ERROR_MEMORY;
	}
	n_devices = (unsigned)m.n;
	if (m.n > 0) {
		snprintf(driver, sizeof(driver), "%s", m.cards[0]->s->driver);
		cuda_version = (int)m.cards[0]->s->cuda_version;
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	nvmlReturn_t r = NVML_SUCCESS;

	pthread_mutex_lock(&lock);
	if (users == 0)
		r = find_devices();
	if (r == NVML_SUCCESS)
		__atomic_add_fetch(&users, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	return r;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t r = NVML_SUCCESS;

	pthread_mutex_lock(&lock);
	if (users == 0)
		r = NVML_ERROR_UNINITIALIZED;
	else
		__atomic_sub_fetch(&users, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	return r;
}

/* Is the compute instance behind a MIG device still the same? Under the card's lock. */
static bool instance_lives(nvmlDevice_t d)
{
	const struct sim_gi *gi = &d->card->s->gis[d->gi];

	return gi->used && gi->ci[d->ci].used &&
	       memcmp(gi->ci[d->ci].uuid, d->uuid, sizeof(d->uuid)) == 0;
}

nvmlReturn_t nvml_enter(nvmlDevice_t d)
{
	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (d == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!sim_lock(d->card))
		return NVML_ERROR_TIMEOUT;
	if (d->card->s->off_bus) {
		sim_unlock(d->card);
		return NVML_ERROR_GPU_IS_LOST;
	}
	if (d->card->s->nvml_fault.kind == SIM_NVML_DEAD) {
		sim_unlock(d->card);
		return NVML_ERROR_UNKNOWN;
	}
	if (d->parent != NULL && !instance_lives(d)) {
		sim_unlock(d->card);
		return NVML_ERROR_NOT_FOUND;
	}
	return NVML_SUCCESS;
}

void nvml_leave(nvmlDevice_t d)
{
	sim_unlock(d->card);
}

nvmlReturn_t nvml_put_string(char *out, unsigned length, const char *text)
{
	if (out == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(out, text, strlen(text) + 1);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	return nvml_put_string(version, length, driver);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	char text[96];

	snprintf(text, sizeof(text), "%d.%s", cuda_version / 1000, driver);
	return nvml_put_string(version, length, text);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	if (version == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = cuda_version;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	char path[64], text[4096];
	size_t n;
	FILE *f;

	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (name == NULL || length == 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return NVML_ERROR_NOT_FOUND;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	snprintf(name, length, "%s", text);
	return NVML_SUCCESS;
}

/* --- finding --- */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (count == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = n_devices;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
	return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (device == NULL || index >= n_devices)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (devices[index]->card->s->off_bus)
		return NVML_ERROR_GPU_IS_LOST;
	*device = devices[index];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

static nvmlDevice_t mig_by_uuid(nvmlDevice_t d, const char *uuid)
{
	char text[48];

	for (int gi = 0; gi < SIM_GIS; gi++) {
		for (int ci = 0; d->card->s->gis[gi].used && ci < SIM_CIS; ci++) {
			const struct sim_ci *x = &d->card->s->gis[gi].ci[ci];

			sim_uuid_text("MIG", x->uuid, text);
			if (x->used && strcasecmp(text, uuid) == 0 && sim_may_use(d->card, d->card->s->gis[gi].id, x->id))
				return nvml_mig_device(d, gi, ci);
		}
	}
	return NULL;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	char text[48];

	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (uuid == NULL || device == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < n_devices; i++) {
		nvmlDevice_t found = NULL;

		sim_uuid_text("GPU", devices[i]->uuid, text);
		if (strcasecmp(text, uuid) == 0) {
			found = devices[i];
		} else if (strncasecmp(uuid, "MIG-", 4) == 0 && sim_lock(devices[i]->card)) {
			found = mig_by_uuid(devices[i], uuid);
			sim_unlock(devices[i]->card);
		}
		if (found == NULL)
			continue;
		*device = found;
		return found->card->s->off_bus ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	unsigned domain, bus, slot, function;

	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (bus_id == NULL || device == NULL ||
	    (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4 &&
	     sscanf(bus_id, "%x:%x.%x", &bus, &slot, &function) != 3))
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < n_devices; i++) {
		if (devices[i]->card->s->pci_bus != bus)
			continue;
		*device = devices[i];
		return devices[i]->card->s->off_bus ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	static const struct {
		nvmlReturn_t code;
		const char *text;
	} texts[] = {
		{ NVML_SUCCESS, "Success" },
		{ NVML_ERROR_UNINITIALIZED, "Uninitialized" },
		{ NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument" },
		{ NVML_ERROR_NOT_SUPPORTED, "Not Supported" },
		{ NVML_ERROR_NO_PERMISSION, "Insufficient Permissions" },
		{ NVML_ERROR_ALREADY_INITIALIZED, "Already Initialized" },
		{ NVML_ERROR_NOT_FOUND, "Not Found" },
		{ NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size" },
		{ NVML_ERROR_INSUFFICIENT_POWER, "Insufficient External Power" },
		{ NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded" },
		{ NVML_ERROR_TIMEOUT, "Timeout" },
		{ NVML_ERROR_IRQ_ISSUE, "Interrupt Request Issue" },
		{ NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found" },
		{ NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found" },
		{ NVML_ERROR_CORRUPTED_INFOROM, "Corrupted infoROM" },
		{ NVML_ERROR_GPU_IS_LOST, "GPU is lost" },
		{ NVML_ERROR_RESET_REQUIRED, "GPU requires reset" },
		{ NVML_ERROR_OPERATING_SYSTEM, "GPU access blocked by the operating system" },
		{ NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch" },
		{ NVML_ERROR_IN_USE, "In use by another client" },
		{ NVML_ERROR_MEMORY, "Insufficient Memory" },
		{ NVML_ERROR_NO_DATA, "No data" },
		{ NVML_ERROR_INSUFFICIENT_RESOURCES, "Insufficient Resources" },
		{ NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch" },
		{ NVML_ERROR_DEPRECATED, "Deprecated" },
		{ NVML_ERROR_NOT_READY, "Not Ready" },
		{ NVML_ERROR_GPU_NOT_FOUND, "No GPUs were found" },
		{ NVML_ERROR_INVALID_STATE, "Invalid state" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].code == result)
			return texts[i].text;
	return "Unknown Error";
}
