/* ECC, remapped rows, field values, events. */
#include "sim/nvml_priv.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SUPPORTED_EVENTS                                                                           \
	(NVML_EVENT_SINGLE_BIT_ECC | NVML_EVENT_DOUBLE_BIT_ECC | NVML_EVENT_XID |                  \
	 NVML_EVENT_MIG_CONFIG)

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int *current, int *pending)
{
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	nvml_leave(device);
	if (current == NULL || pending == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*current = *pending = NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int error_type, int counter_type,
					 unsigned long long *count)
{
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	if (count == NULL || (error_type != NVML_MEMORY_ERROR_TYPE_CORRECTED &&
			      error_type != NVML_MEMORY_ERROR_TYPE_UNCORRECTED))
		r = NVML_ERROR_INVALID_ARGUMENT;
	else
		*count = error_type == NVML_MEMORY_ERROR_TYPE_CORRECTED
				 ? device->card->s->ecc_corrected
				 : device->card->s->ecc_uncorrected;
	nvml_leave(device);
	return r;
}

static bool has_instances(const struct sim_state *s)
{
	for (int i = 0; i < SIM_GIS; i++)
		if (s->gis[i].used)
			return true;
	return false;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
				       unsigned int *uncorrectable, unsigned int *pending,
				       unsigned int *failed)
{
	const struct sim_state *s;
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	s = device->card->s;
	if (correctable == NULL || uncorrectable == NULL || pending == NULL || failed == NULL) {
		r = NVML_ERROR_INVALID_ARGUMENT;
	} else if (has_instances(s) || device->card->model->nvml_arch < NVML_DEVICE_ARCH_AMPERE) {
		r = NVML_ERROR_NOT_SUPPORTED;
	} else {
		*correctable = s->rows_corrected;
		*uncorrectable = s->rows_uncorrected;
		*pending = s->rows_pending;
		*failed = s->rows_failed;
	}
	nvml_leave(device);
	return r;
}

/* --- field values --- */

static bool field_value(nvmlDevice_t d, unsigned field, unsigned long long *value)
{
	const struct sim_state *s = d->card->s;

	switch (field) {
	case NVML_FI_DEV_ECC_CURRENT:
	case NVML_FI_DEV_ECC_PENDING:
		*value = 1;
		return true;
	case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
	case NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
		*value = s->ecc_corrected;
		return true;
	case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
	case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
		*value = s->ecc_uncorrected;
		return true;
	case NVML_FI_DEV_REMAPPED_COR:
		*value = s->rows_corrected;
		return true;
	case NVML_FI_DEV_REMAPPED_UNC:
		*value = s->rows_uncorrected;
		return true;
	case NVML_FI_DEV_REMAPPED_PENDING:
		*value = s->rows_pending;
		return true;
	case NVML_FI_DEV_REMAPPED_FAILURE:
		*value = s->rows_failed;
		return true;
	case NVML_FI_DEV_POWER_CURRENT_LIMIT:
		*value = d->card->model->power_w * 1000;
		return true;
	case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
		*value = s->recovery_action;
		return true;
	default:
		return false;
	}
}

/* Fields that have a call of their own, which takes the lock itself. */
static nvmlReturn_t field_by_call(nvmlDevice_t d, unsigned field, unsigned long long *value)
{
	unsigned v = 0;
	nvmlReturn_t r = NVML_ERROR_NOT_SUPPORTED;

	if (field == NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION)
		return nvmlDeviceGetTotalEnergyConsumption(d, value);
	if (field == NVML_FI_DEV_MEMORY_TEMP)
		r = nvmlDeviceGetTemperature(d, NVML_TEMPERATURE_GPU, &v);
	else if (field == NVML_FI_DEV_POWER_AVERAGE || field == NVML_FI_DEV_POWER_INSTANT)
		r = nvmlDeviceGetPowerUsage(d, &v);
	*value = v;
	return r;
}

static void fill_field(nvmlDevice_t d, nvmlFieldValue_t *f)
{
	unsigned long long value = 0;
	struct timespec now;
	bool found;

	clock_gettime(CLOCK_REALTIME, &now);
	f->timestamp = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
	f->latencyUsec = 0;
	f->nvmlReturn = nvml_enter(d);
	if (f->nvmlReturn != NVML_SUCCESS)
		return;
	found = field_value(d, f->fieldId, &value);
	nvml_leave(d);
	if (!found)
		f->nvmlReturn = field_by_call(d, f->fieldId, &value);
	f->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
	f->value.ullVal = value;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int n, nvmlFieldValue_t *values)
{
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	nvml_leave(device);
	if (n <= 0 || values == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < n; i++)
		fill_field(device, &values[i]);
	return NVML_SUCCESS;
}

/* --- events --- */

struct watch {
	nvmlDevice_t device;
	unsigned long long types;
	uint64_t seen;
	bool loss_told;
};

struct nvmlEventSet_st {
	pthread_mutex_t lock;
	size_t n;
	struct watch watches[SIM_CARDS_MAX];
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (set == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*set = calloc(1, sizeof(**set));
	if (*set == NULL)
		return NVML_ERROR_MEMORY;
	pthread_mutex_init(&(*set)->lock, NULL);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (set == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	pthread_mutex_destroy(&set->lock);
	free(set);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	nvml_leave(device);
	if (types == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*types = SUPPORTED_EVENTS;
	return NVML_SUCCESS;
}

/* Under the set's lock. */
static struct watch *watch_for(nvmlEventSet_t set, nvmlDevice_t device, uint64_t seen)
{
	for (size_t i = 0; i < set->n; i++)
		if (set->watches[i].device == device)
			return &set->watches[i];
	if (set->n == SIM_CARDS_MAX)
		return NULL;
	set->watches[set->n] = (struct watch){ .device = device, .seen = seen };
	return &set->watches[set->n++];
}

/* Only what happens from now on is told: NVML keeps no history. */
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
				      nvmlEventSet_t set)
{
	struct watch *w;
	uint64_t seen;
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	seen = device->card->s->event_seq;
	nvml_leave(device);
	if (set == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (device->parent != NULL || (types & ~SUPPORTED_EVENTS) != 0)
		return NVML_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&set->lock);
	w = watch_for(set, device, seen);
	if (w != NULL)
		w->types |= types;
	pthread_mutex_unlock(&set->lock);
	return w != NULL ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

/* The oldest untold event of one card; events that fell out of the ring are lost. */
static bool next_event(struct watch *w, nvmlEventData_t *data)
{
	const struct sim_state *s = w->device->card->s;

	while (w->seen < s->event_seq) {
		const struct sim_event *e;

		if (s->event_seq - w->seen > SIM_EVENTS)
			w->seen = s->event_seq - SIM_EVENTS;
		e = &s->events[++w->seen % SIM_EVENTS];
		if ((e->type & w->types) == 0)
			continue;
		*data = (nvmlEventData_t){ .device = w->device,
					   .eventType = e->type,
					   .eventData = e->data,
					   .gpuInstanceId = e->gi,
					   .computeInstanceId = e->ci };
		return true;
	}
	return false;
}

/* NVML_ERROR_TIMEOUT: nothing yet. A lost card is told once. */
static nvmlReturn_t look(nvmlEventSet_t set, nvmlEventData_t *data, uint32_t *wakes)
{
	for (size_t i = 0; i < set->n; i++) {
		struct watch *w = &set->watches[i];
		struct sim_state *s = w->device->card->s;
		bool found, lost;

		wakes[i] = __atomic_load_n(&s->event_wake, __ATOMIC_SEQ_CST);
		if (!sim_lock(w->device->card))
			continue;
		found = next_event(w, data);
		lost = s->off_bus != 0;
		sim_unlock(w->device->card);
		if (found)
			return NVML_SUCCESS;
		if (lost && !w->loss_told) {
			w->loss_told = true;
			return NVML_ERROR_GPU_IS_LOST;
		}
		w->loss_told = lost;
	}
	return NVML_ERROR_TIMEOUT;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

struct wait_entry { /* the kernel's struct futex_waitv */
	uint64_t value;
	uint64_t address;
	uint32_t flags;
	uint32_t reserved;
};

/* Until an event arrives on any card or the time is up; kernels without futex_waitv look every
 * few milliseconds. */
static void wait_any(nvmlEventSet_t set, const uint32_t *wakes, uint64_t until_ms)
{
	struct wait_entry entries[SIM_CARDS_MAX] = { 0 };
	struct timespec until = { .tv_sec = (time_t)(until_ms / 1000),
				  .tv_nsec = (long)(until_ms % 1000) * 1000000 };
	struct timespec nap = { .tv_nsec = 5000000 };

	for (size_t i = 0; i < set->n; i++)
		entries[i] = (struct wait_entry){
			.value = wakes[i],
			.address = (uintptr_t)&set->watches[i].device->card->s->event_wake,
			.flags = 2, /* 32 bits, shared between processes */
		};
	if (set->n == 0)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	else if (syscall(SYS_futex_waitv, entries, (unsigned)set->n, 0, &until, CLOCK_MONOTONIC) <
			 0 &&
		 errno != EAGAIN && errno != ETIMEDOUT && errno != EINTR)
		nanosleep(&nap, NULL);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	uint64_t until = now_ms() + timeout_ms;
	uint32_t wakes[SIM_CARDS_MAX] = { 0 };

	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (set == NULL || data == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (;;) {
		nvmlReturn_t r;

		pthread_mutex_lock(&set->lock);
		r = look(set, data, wakes);
		pthread_mutex_unlock(&set->lock);
		if (r != NVML_ERROR_TIMEOUT || now_ms() >= until)
			return r;
		wait_any(set, wakes, until);
	}
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	nvmlEventData_t full;
	nvmlReturn_t r = nvmlEventSetWait_v2(set, data != NULL ? &full : NULL, timeout_ms);

	/* The first version's struct ends before the instance ids. */
	if (r == NVML_SUCCESS)
		memcpy(data, &full, offsetof(nvmlEventData_t, gpuInstanceId));
	return r;
}
