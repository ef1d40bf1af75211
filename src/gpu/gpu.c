#include "gpu/gpu.h"

#include <dlfcn.h>
#include <stdio.h>

#include "gpu/private.h"

#define PROCESSES_MAX 4096

/* v2 leaves the driver's own reserve out of "used"; older drivers only have the first call. */
nvmlReturn_t rf_gpu_read_memory(const struct rf_gpu *g, nvmlDevice_t dev, int64_t *total, int64_t *used)
{
	nvmlMemory_v2_t m2 = { .version = NVML_MEMORY_V2 };
	nvmlMemory_t m;
	nvmlReturn_t rc;

	if (g->nvml.nvmlDeviceGetMemoryInfo_v2 &&
	    g->nvml.nvmlDeviceGetMemoryInfo_v2(dev, &m2) == NVML_SUCCESS) {
		*total = (int64_t)m2.total;
		*used = (int64_t)m2.used;
		return NVML_SUCCESS;
	}
	rc = g->nvml.nvmlDeviceGetMemoryInfo(dev, &m);
	if (rc == NVML_SUCCESS) {
		*total = (int64_t)m.total;
		*used = (int64_t)m.used;
	}
	return rc;
}

static bool is_taken(const struct rf_gpu *g, int minor)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->cards[i].minor == minor)
			return true;
	return false;
}

/* "00000000:3B:00.0" is 0000:3b:00.0 in sysfs. */
static int numa_of(const char *pci)
{
	char path[128], text[16];
	unsigned domain, bus, device, function;
	int node = -1;

	if (sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
		return -1;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/numa_node", domain, bus,
		 device, function);
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return -1;
	if (fgets(text, sizeof(text), f) != NULL)
		node = atoi(text);
	fclose(f);
	return node;
}

static bool joined(const struct rf_gpu *g, size_t a, size_t b)
{
	int status = -1;

	return g->nvml.nvmlDeviceGetP2PStatus != NULL &&
	       g->nvml.nvmlDeviceGetP2PStatus(g->handles[a], g->handles[b], NVML_P2P_CAPS_INDEX_NVLINK,
					      &status) == NVML_SUCCESS &&
	       status == NVML_P2P_STATUS_OK;
}

/* An island: each is joined to its first card. */
static void find_islands(struct rf_gpu *g)
{
	for (size_t i = 0; i < g->n; i++)
		g->cards[i].island = -1;
	for (size_t i = 0; i < g->n; i++) {
		for (size_t j = i + 1; g->cards[i].island < 0 && j < g->n; j++)
			if (joined(g, i, j))
				g->cards[i].island = (int)i;
		for (size_t j = i + 1; g->cards[i].island == (int)i && j < g->n; j++)
			if (g->cards[j].island < 0 && joined(g, i, j))
				g->cards[j].island = (int)i;
	}
}

static int read_card(struct rf_gpu *g, unsigned index, struct rf_err *err)
{
	struct rf_gpu_card *c = &g->cards[g->n];
	nvmlDevice_t dev;
	nvmlPciInfo_t pci;
	unsigned minor = index;
	int64_t used;

	nvmlReturn_t rc = g->nvml.nvmlDeviceGetHandleByIndex_v2(index, &dev);
	if (rc == NVML_SUCCESS)
		rc = g->nvml.nvmlDeviceGetUUID(dev, c->uuid, sizeof(c->uuid));
	if (rc == NVML_SUCCESS)
		rc = g->nvml.nvmlDeviceGetName(dev, c->name, sizeof(c->name));
	if (rc == NVML_SUCCESS)
		rc = g->nvml.nvmlDeviceGetMinorNumber(dev, &minor);
	if (rc == NVML_SUCCESS)
		rc = rf_gpu_read_memory(g, dev, &c->memory_bytes, &used);
	if (rc != NVML_SUCCESS)
		return rf_fail(err, RF_UNAVAILABLE, "card %u: %s", index,
			       rf_nvml_text(&g->nvml, rc));
	if (g->nvml.nvmlDeviceGetPciInfo_v3 &&
	    g->nvml.nvmlDeviceGetPciInfo_v3(dev, &pci) == NVML_SUCCESS)
		snprintf(c->pci, sizeof(c->pci), "%.31s", pci.busId);
	c->numa = numa_of(c->pci);
	if (is_taken(g, (int)minor))
		return rf_fail(err, RF_UNAVAILABLE, "card %u: another one has its minor number %u",
			       index, minor);
	c->index = c->minor = (int)minor;
	g->handles[g->n++] = dev;
	return 0;
}

static void subscribe(struct rf_gpu *g)
{
	const struct rf_nvml *n = &g->nvml;

	if (!n->nvmlEventSetCreate || !n->nvmlEventSetWait_v2 || !n->nvmlDeviceRegisterEvents ||
	    !n->nvmlEventSetFree || n->nvmlEventSetCreate(&g->events) != NVML_SUCCESS) {
		g->events = NULL;
		return;
	}
	for (size_t i = 0; i < g->n; i++) {
		unsigned long long can = NVML_EVENT_XID;

		if (n->nvmlDeviceGetSupportedEventTypes)
			(void)n->nvmlDeviceGetSupportedEventTypes(g->handles[i], &can);
		if (can & NVML_EVENT_XID)
			(void)n->nvmlDeviceRegisterEvents(g->handles[i], NVML_EVENT_XID, g->events);
	}
}

/* One card that cannot be read must not hide the others: it is left out, and the first such reason
 * is kept for the case that none is left. */
static int read_cards(struct rf_gpu *g, struct rf_err *err)
{
	unsigned count = 0;
	struct rf_err first = RF_ERR_INIT;

	nvmlReturn_t rc = g->nvml.nvmlDeviceGetCount_v2(&count);
	if (rc != NVML_SUCCESS)
		return rf_fail(err, RF_UNAVAILABLE, "count the cards: %s",
			       rf_nvml_text(&g->nvml, rc));
	for (unsigned i = 0; i < count && g->n < RF_GPU_CARDS_MAX; i++)
		(void)read_card(g, i, first.code ? NULL : &first);
	if (g->n == 0 && first.code)
		return rf_fail(err, RF_UNAVAILABLE, "%s", first.msg);
	find_islands(g);
	return 0;
}

int rf_gpu_open(const char *lib_dir, struct rf_gpu **ret, struct rf_err *err)
{
	struct rf_gpu *g = rf_new(struct rf_gpu);
	int rc = rf_nvml_load(lib_dir, &g->nvml, err);

	if (rc < 0) {
		free(g);
		return rc;
	}
	nvmlReturn_t code = g->nvml.nvmlInit_v2();
	if (code != NVML_SUCCESS) {
		rc = rf_fail(err, RF_UNAVAILABLE, "start NVML: %s", rf_nvml_text(&g->nvml, code));
		dlclose(g->nvml.library);
		free(g);
		return rc;
	}
	rc = read_cards(g, err);
	if (rc < 0) {
		rf_gpu_free(g);
		return rc;
	}
	if (g->nvml.nvmlSystemGetDriverVersion)
		(void)g->nvml.nvmlSystemGetDriverVersion(g->driver, sizeof(g->driver));
	subscribe(g);
	*ret = g;
	return 0;
}

void rf_gpu_free(struct rf_gpu *g)
{
	if (g == NULL)
		return;
	if (g->events)
		(void)g->nvml.nvmlEventSetFree(g->events);
	(void)g->nvml.nvmlShutdown();
	/* The library stays: drivers keep threads and memory that unloading would strand. */
	free(g);
}

size_t rf_gpu_count(const struct rf_gpu *g)
{
	return g ? g->n : 0;
}

const struct rf_gpu_card *rf_gpu_card(const struct rf_gpu *g, size_t i)
{
	rf_assert(i < g->n);
	return &g->cards[i];
}

const char *rf_gpu_driver_version(const struct rf_gpu *g)
{
	return g ? g->driver : "";
}

static int64_t read_ecc(struct rf_gpu *g, nvmlDevice_t dev, int kind)
{
	unsigned long long n = 0;

	if (!g->nvml.nvmlDeviceGetTotalEccErrors ||
	    g->nvml.nvmlDeviceGetTotalEccErrors(dev, kind, NVML_VOLATILE_ECC, &n) != NVML_SUCCESS)
		return -1;
	return (int64_t)n;
}

static int64_t read_recovery(struct rf_gpu *g, nvmlDevice_t dev)
{
	nvmlFieldValue_t v = { .fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION };

	if (!g->nvml.nvmlDeviceGetFieldValues ||
	    g->nvml.nvmlDeviceGetFieldValues(dev, 1, &v) != NVML_SUCCESS ||
	    v.nvmlReturn != NVML_SUCCESS)
		return -1;
	return (int64_t)v.value.uiVal;
}

/* A card or a driver that knows nothing of MIG is not in its mode. */
static int64_t read_mig(struct rf_gpu *g, nvmlDevice_t dev)
{
	unsigned now = 0, pending = 0;
	nvmlReturn_t rc = g->nvml.nvmlDeviceGetMigMode ? g->nvml.nvmlDeviceGetMigMode(dev, &now, &pending) :
							 NVML_ERROR_NOT_SUPPORTED;

	if (rc == NVML_SUCCESS)
		return now != 0;
	return rc == NVML_ERROR_NOT_SUPPORTED ? 0 : -1;
}

static void read_sensors(struct rf_gpu *g, nvmlDevice_t dev, struct rf_gpu_sample *s)
{
	const struct rf_nvml *n = &g->nvml;
	nvmlUtilization_t u;
	unsigned v;
	unsigned long long e;

	if (n->nvmlDeviceGetUtilizationRates &&
	    n->nvmlDeviceGetUtilizationRates(dev, &u) == NVML_SUCCESS)
		s->utilisation = u.gpu;
	if (n->nvmlDeviceGetTemperature &&
	    n->nvmlDeviceGetTemperature(dev, NVML_TEMPERATURE_GPU, &v) == NVML_SUCCESS)
		s->temperature = v;
	if (n->nvmlDeviceGetPowerUsage && n->nvmlDeviceGetPowerUsage(dev, &v) == NVML_SUCCESS)
		s->power_mw = v;
	if (n->nvmlDeviceGetTotalEnergyConsumption &&
	    n->nvmlDeviceGetTotalEnergyConsumption(dev, &e) == NVML_SUCCESS)
		s->energy_mj = (int64_t)e;
}

void rf_gpu_sample(struct rf_gpu *g, size_t i, struct rf_gpu_sample *ret)
{
	rf_assert(i < g->n);
	nvmlDevice_t dev = g->handles[i];

	*ret = (struct rf_gpu_sample){ .memory_total = -1,
				       .memory_used = -1,
				       .utilisation = -1,
				       .temperature = -1,
				       .power_mw = -1,
				       .energy_mj = -1,
				       .ecc_corrected = -1,
				       .ecc_uncorrected = -1,
				       .recovery_action = -1,
				       .mig = -1 };
	nvmlReturn_t rc = rf_gpu_read_memory(g, dev, &ret->memory_total, &ret->memory_used);
	ret->lost = rc == NVML_ERROR_GPU_IS_LOST || rc == NVML_ERROR_GPU_NOT_FOUND ||
		    rc == NVML_ERROR_RESET_REQUIRED;
	if (ret->lost)
		return;
	read_sensors(g, dev, ret);
	ret->ecc_corrected = read_ecc(g, dev, NVML_MEMORY_ERROR_TYPE_CORRECTED);
	ret->ecc_uncorrected = read_ecc(g, dev, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
	ret->recovery_action = read_recovery(g, dev);
	ret->mig = read_mig(g, dev);
}

typedef __typeof__(&nvmlDeviceGetComputeRunningProcesses_v3) list_fn;

static nvmlReturn_t list_processes(list_fn list, nvmlDevice_t dev, struct rf_arena *a,
				   nvmlProcessInfo_t **ret, unsigned *ret_n)
{
	unsigned room = 64;
	nvmlReturn_t rc = NVML_ERROR_INSUFFICIENT_SIZE;

	/* The list may grow between two calls, so the room is doubled until it is enough. */
	for (; rc == NVML_ERROR_INSUFFICIENT_SIZE && room <= PROCESSES_MAX; room *= 2) {
		*ret = rf_arena_array(a, nvmlProcessInfo_t, room);
		*ret_n = room;
		rc = list(dev, ret_n, *ret);
	}
	return rc;
}

static void add_processes(const nvmlProcessInfo_t *in, unsigned n_in, struct rf_gpu_process *out,
			  size_t *n)
{
	for (unsigned i = 0; i < n_in; i++) {
		int64_t bytes = in[i].usedGpuMemory == (unsigned long long)NVML_VALUE_NOT_AVAILABLE
					? -1
					: (int64_t)in[i].usedGpuMemory;
		size_t j = 0;

		while (j < *n && out[j].pid != (pid_t)in[i].pid)
			j++;
		if (j == *n)
			out[(*n)++] = (struct rf_gpu_process){ (pid_t)in[i].pid, bytes };
		else
			out[j].bytes = RF_MAX(out[j].bytes, bytes);
	}
}

int rf_gpu_processes(struct rf_gpu *g, size_t i, struct rf_arena *a, struct rf_gpu_process **ret,
		     size_t *ret_n, struct rf_err *err)
{
	nvmlProcessInfo_t *compute = NULL, *graphics = NULL;
	unsigned n_compute = 0, n_graphics = 0;

	rf_assert(i < g->n);
	nvmlReturn_t rc = list_processes(g->nvml.nvmlDeviceGetComputeRunningProcesses_v3,
					 g->handles[i], a, &compute, &n_compute);
	if (rc != NVML_SUCCESS)
		return rf_fail(err, RF_UNAVAILABLE, "list the processes on card %d: %s",
			       g->cards[i].index, rf_nvml_text(&g->nvml, rc));
	if (g->nvml.nvmlDeviceGetGraphicsRunningProcesses_v3 &&
	    list_processes(g->nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, g->handles[i], a,
			   &graphics, &n_graphics) != NVML_SUCCESS)
		n_graphics = 0; /* many cards have no graphics at all */
	*ret = rf_arena_array(a, struct rf_gpu_process, n_compute + n_graphics + 1);
	*ret_n = 0;
	add_processes(compute, n_compute, *ret, ret_n);
	add_processes(graphics, n_graphics, *ret, ret_n);
	return 0;
}

bool rf_gpu_next_event(struct rf_gpu *g, struct rf_gpu_event *ret)
{
	nvmlEventData_t data;

	if (g->events == NULL || g->nvml.nvmlEventSetWait_v2(g->events, &data, 0) != NVML_SUCCESS)
		return false;
	for (size_t i = 0; i < g->n; i++) {
		if (g->handles[i] != data.device || !(data.eventType & NVML_EVENT_XID))
			continue;
		*ret = (struct rf_gpu_event){ .card = i, .xid = (int64_t)data.eventData };
		return true;
	}
	return false;
}
