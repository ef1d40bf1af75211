#include "gpu/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "gpu/private.h"

#define PROCESSES_MAX 4096
#define NVIDIA 0x10de	/* as a vendor on the PCI bus */
#define NODES_MAX 1024 /* of memory */

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

/* --- where a card is ---------------------------------------------------------------------------- */

bool rf_gpu_pci_address(const char *pci, char ret[RF_GPU_PCI_ADDRESS])
{
	unsigned domain, bus, device, function;

	if (sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4 || domain > 0xffff || bus > 0xff ||
	    device > 0x1f || function > 7)
		return false;
	snprintf(ret, RF_GPU_PCI_ADDRESS, "%04x:%02x:%02x.%x", domain, bus, device, function);
	return true;
}

static bool read_sysfs(const char *address, const char *file, char *text, int size)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, file);
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return false;
	bool ok = fgets(text, size, f) != NULL;
	fclose(f);
	return ok;
}

/* What the kernel says of the slot; but a card that is only simulated has an address of something else, or of nothing. */
static void read_slot(struct rf_gpu_card *c)
{
	char address[RF_GPU_PCI_ADDRESS], path[64], text[16], link[256];
	unsigned domain, bus;

	if (!rf_gpu_pci_address(c->pci, address) || !read_sysfs(address, "vendor", text, sizeof(text)) ||
	    strtoul(text, NULL, 16) != NVIDIA)
		return;
	if (read_sysfs(address, "numa_node", text, sizeof(text)))
		c->numa = RF_MAX(atoi(text), -1);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", address);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	link[RF_MAX(n, 0)] = '\0';
	const char *root = strstr(link, "/pci");
	if (root != NULL && sscanf(root, "/pci%4x:%2x/", &domain, &bus) == 2)
		snprintf(c->pcie_root, sizeof(c->pcie_root), "pci%04x:%02x", domain & 0xffff, bus & 0xff);
}

/* The only memory node the driver names as near, or -1. */
static int near_node(const struct rf_gpu *g, nvmlDevice_t dev)
{
	unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };
	int found = -1;

	if (g->nvml.nvmlDeviceGetMemoryAffinity == NULL ||
	    g->nvml.nvmlDeviceGetMemoryAffinity(dev, RF_COUNT(nodes), nodes, NVML_AFFINITY_SCOPE_NODE) != NVML_SUCCESS)
		return -1;
	for (size_t i = 0; i < RF_COUNT(nodes); i++) {
		if (nodes[i] == 0)
			continue;
		if (found >= 0 || (nodes[i] & (nodes[i] - 1)) != 0)
			return -1;
		found = (int)(i * 8 * sizeof(nodes[0])) + __builtin_ctzl(nodes[i]);
	}
	return found;
}

/* 1: these two are joined by NVLink, 0: they are not, -1: the driver does not say. */
static int joined(const struct rf_gpu *g, size_t a, size_t b)
{
	int status = NVML_P2P_STATUS_UNKNOWN;

	if (g->nvml.nvmlDeviceGetP2PStatus == NULL ||
	    g->nvml.nvmlDeviceGetP2PStatus(g->handles[a], g->handles[b], NVML_P2P_CAPS_INDEX_NVLINK, &status) !=
		    NVML_SUCCESS)
		return -1;
	if (status == NVML_P2P_STATUS_OK)
		return 1;
	return status >= NVML_P2P_STATUS_UNKNOWN || status == NVML_P2P_STATUS_DISABLED_BY_REGKEY ? -1 : 0;
}

static bool says_nothing(const struct rf_gpu *g, size_t card)
{
	for (size_t i = 0; i < g->n; i++)
		if (i != card && joined(g, card, i) >= 0)
			return false;
	return g->n > 1;
}

/* Card b and all of its island become one with card a's. */
static void join(struct rf_gpu *g, size_t a, size_t b)
{
	int from = RF_MAX(g->cards[a].island, g->cards[b].island), to = RF_MIN(g->cards[a].island, g->cards[b].island);

	for (size_t i = 0; i < g->n; i++)
		if (g->cards[i].island == from)
			g->cards[i].island = to;
}

/* Whoever shares an island with nobody relies on it: it is all that can be reached over NVLink from card to card, and
 * where the driver does not say whether two cards are joined, both are in an unknown one. */
static void find_islands(struct rf_gpu *g)
{
	bool lost[RF_GPU_CARDS_MAX] = { 0 }, unknown[RF_GPU_CARDS_MAX] = { 0 };

	for (size_t i = 0; i < g->n; i++) {
		g->cards[i].island = (int)i;
		lost[i] = unknown[i] = says_nothing(g, i); /* which leaves the others what they are */
	}
	/* All pairs: what is joined over a card is so, whatever else of that card is not known. */
	for (size_t i = 0; i < g->n; i++) {
		for (size_t j = i + 1; j < g->n; j++) {
			int r = lost[i] || lost[j] ? 0 : joined(g, i, j);

			if (r > 0)
				join(g, i, j);
			else if (r < 0)
				unknown[i] = unknown[j] = true;
		}
	}
	for (size_t i = 0; i < g->n; i++)
		if (unknown[i])
			g->cards[i].island = -1;
}

/* A card or a driver that knows nothing of MIG is not in its mode. */
static int64_t read_mig(const struct rf_gpu *g, nvmlDevice_t dev)
{
	unsigned now = 0, pending = 0;
	nvmlReturn_t rc = g->nvml.nvmlDeviceGetMigMode ? g->nvml.nvmlDeviceGetMigMode(dev, &now, &pending) :
							 NVML_ERROR_NOT_SUPPORTED;

	if (rc == NVML_SUCCESS)
		return now != 0;
	return rc == NVML_ERROR_NOT_SUPPORTED ? 0 : -1;
}

/* --- cards -------------------------------------------------------------------------------------- */

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
	c->numa = -1;
	read_slot(c);
	if (c->numa < 0)
		c->numa = near_node(g, dev);
	if (is_taken(g, (int)minor))
		return rf_fail(err, RF_UNAVAILABLE, "card %u: another one has its minor number %u",
			       index, minor);
	c->index = c->minor = (int)minor;
	g->mig[g->n] = read_mig(g, dev);
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
	if (ret->mig < 0 || ret->mig == g->mig[i])
		return;
	g->mig[i] = ret->mig;
	find_islands(g);
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
	nvmlProcessInfo_t *compute = NULL, *graphics = NULL, *mps = NULL;
	unsigned n_compute = 0, n_graphics = 0, n_mps = 0;

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
	rc = g->nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3 ?
		     list_processes(g->nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, g->handles[i], a, &mps, &n_mps) :
		     NVML_ERROR_NOT_SUPPORTED;
	if (rc == NVML_ERROR_NOT_SUPPORTED)
		n_mps = 0;
	else if (rc != NVML_SUCCESS)
		return rf_fail(err, RF_UNAVAILABLE, "list the MPS clients on card %d: %s", g->cards[i].index,
			       rf_nvml_text(&g->nvml, rc));
	*ret = rf_arena_array(a, struct rf_gpu_process, n_compute + n_graphics + n_mps + 1);
	*ret_n = 0;
	add_processes(compute, n_compute, *ret, ret_n);
	add_processes(graphics, n_graphics, *ret, ret_n);
	add_processes(mps, n_mps, *ret, ret_n);
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
