/* GPM: utilisation between two samples (Hopper and newer). Only what the time model knows is
 * answered: how long the card, or a GPU instance of it, was busy. */
#include "sim/nvml_priv.h"

#include <stdlib.h>
#include <string.h>

struct nvmlGpmSample_st {
	bool taken;
	const struct sim_card *card;
	uint32_t part;
	uint64_t at_ns, busy_ns;
};

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	nvml_leave(device);
	if (support == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (support->version != 1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	support->isSupportedDevice = device->card->model->nvml_arch >= NVML_DEVICE_ARCH_HOPPER;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (sample == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*sample = calloc(1, sizeof(**sample));
	return *sample != NULL ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
	if (sample == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	free(sample);
	return NVML_SUCCESS;
}

static nvmlReturn_t take(nvmlDevice_t d, uint32_t part, nvmlGpmSample_t sample)
{
	if (sample == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (d->card->model->nvml_arch < NVML_DEVICE_ARCH_HOPPER)
		return NVML_ERROR_NOT_SUPPORTED;
	sim_advance_all(d->card);
	*sample = (struct nvmlGpmSample_st){ .taken = true,
					     .card = d->card,
					     .part = part,
					     .at_ns = sim_clock(d->card),
					     .busy_ns = d->card->s->parts[part].busy.total_ns };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	r = take(device, nvml_part(device), sample);
	nvml_leave(device);
	return r;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gi, nvmlGpmSample_t sample)
{
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	if (gi == 0 || gi > SIM_GIS || !device->card->s->gis[gi - 1].used)
		r = NVML_ERROR_NOT_FOUND;
	else
		r = take(device, gi, sample); /* instance ids are slots plus one */
	nvml_leave(device);
	return r;
}

static void fill_metric(nvmlGpmMetric_t *m, double percent)
{
	memset(&m->metricInfo, 0, sizeof(m->metricInfo));
	m->nvmlReturn = NVML_SUCCESS;
	m->value = percent;
	if (m->metricId != NVML_GPM_METRIC_GRAPHICS_UTIL && m->metricId != NVML_GPM_METRIC_SM_UTIL)
		m->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *g)
{
	const struct nvmlGpmSample_st *a, *b;
	double percent = 0;

	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (g == NULL || g->sample1 == NULL || g->sample2 == NULL ||
	    g->numMetrics > RF_NVML_GPM_ROOM)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (g->version != 1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	a = g->sample1;
	b = g->sample2;
	if (!a->taken || !b->taken || a->card != b->card || a->part != b->part)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (b->at_ns > a->at_ns)
		percent = 100.0 * (double)(b->busy_ns - a->busy_ns) / (double)(b->at_ns - a->at_ns);
	for (unsigned i = 0; i < g->numMetrics; i++)
		fill_metric(&g->metrics[i], percent > 100 ? 100 : percent);
	return NVML_SUCCESS;
}
