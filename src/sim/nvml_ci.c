/* MIG: compute instances, the parts of a GPU instance that programs run on. */
#include "sim/nvml_priv.h"

#include <string.h>

static pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvmlComputeInstance_st *ci_handles[SIM_CARDS_MAX][SIM_GIS][SIM_CIS];

static nvmlComputeInstance_t ci_handle(nvmlGpuInstance_t gi, int slot)
{
	const struct sim_ci *x = &gi->device->card->s->gis[gi->slot].ci[slot];
	struct nvmlComputeInstance_st **p, *h;

	p = &ci_handles[gi->device->index % SIM_CARDS_MAX][gi->slot][slot];
	pthread_mutex_lock(&handle_lock);
	h = *p;
	if (h == NULL || h->gi != gi || memcmp(h->uuid, x->uuid, sizeof(h->uuid)) != 0) {
		h = nvml_new_handle(sizeof(*h));
		if (h != NULL) {
			*h = (struct nvmlComputeInstance_st){ .gi = gi, .slot = slot };
			memcpy(h->uuid, x->uuid, sizeof(h->uuid));
			*p = h;
		}
	}
	pthread_mutex_unlock(&handle_lock);
	return h;
}

/* How many slices each compute profile has; the one with media engines is not simulated. */
static unsigned ci_slices(unsigned profile)
{
	static const unsigned char slices[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = { 1, 2, 3, 4,
										   7, 8, 6, 0 };

	return profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT ? slices[profile] : 0;
}

static unsigned ci_profile(unsigned slices)
{
	unsigned i = 0;

	while (i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT && ci_slices(i) != slices)
		i++;
	return i;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gi,
							  unsigned int profile, unsigned int engine,
							  nvmlComputeInstanceProfileInfo_t *info)
{
	const struct rf_mig_profile *p;
	unsigned slices = ci_slices(profile);
	nvmlReturn_t r = nvml_enter_gi(gi);

	if (r != NVML_SUCCESS)
		return r;
	p = sim_gi_profile(gi->device->card, &gi->device->card->s->gis[gi->slot]);
	nvml_leave(gi->device);
	if (info == NULL || profile >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	/* Nothing lies between a part of up to four slices and the whole. */
	if (slices == 0 || slices > p->slices || engine != 0 || (slices == 6 && p->slices != 6))
		return NVML_ERROR_NOT_SUPPORTED;
	*info = (nvmlComputeInstanceProfileInfo_t){
		.id = profile,
		.sliceCount = slices,
		.instanceCount = p->slices / slices,
		.multiprocessorCount = p->sms * slices / p->slices,
		.sharedCopyEngineCount = p->copy_engines,
		.sharedDecoderCount = p->decoders,
		.sharedJpegCount = p->jpegs,
		.sharedOfaCount = p->ofas,
	};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t gi,
								unsigned int profile_id,
								unsigned int *count)
{
	nvmlComputeInstanceProfileInfo_t info;
	nvmlReturn_t r = nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, profile_id, 0, &info);
	unsigned used = 0, whole;

	if (r != NVML_SUCCESS)
		return r;
	r = count != NULL ? nvml_enter_gi(gi) : NVML_ERROR_INVALID_ARGUMENT;
	if (r != NVML_SUCCESS)
		return r;
	whole = sim_gi_profile(gi->device->card, &gi->device->card->s->gis[gi->slot])->slices;
	for (int i = 0; i < SIM_CIS; i++)
		used += gi->device->card->s->gis[gi->slot].ci[i].slices;
	*count = (whole - used) / info.sliceCount;
	nvml_leave(gi->device);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gi, unsigned int profile_id,
						  nvmlComputeInstance_t *ci)
{
	nvmlComputeInstanceProfileInfo_t info;
	nvmlReturn_t r = nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, profile_id, 0, &info);
	int slot = -1;

	if (r != NVML_SUCCESS)
		return r;
	r = ci != NULL ? nvml_enter_gi(gi) : NVML_ERROR_INVALID_ARGUMENT;
	if (r != NVML_SUCCESS)
		return r;
	r = sim_mig_ci_create(gi->device->card, gi->slot, info.sliceCount, &slot);
	if (r == NVML_SUCCESS) {
		*ci = ci_handle(gi, slot);
		r = *ci != NULL ? NVML_SUCCESS : NVML_ERROR_MEMORY;
	}
	nvml_leave(gi->device);
	return r;
}

static nvmlReturn_t enter_ci(nvmlComputeInstance_t ci)
{
	const struct sim_ci *x;
	nvmlReturn_t r = ci != NULL ? nvml_enter_gi(ci->gi) : NVML_ERROR_INVALID_ARGUMENT;

	if (r != NVML_SUCCESS)
		return r;
	x = &ci->gi->device->card->s->gis[ci->gi->slot].ci[ci->slot];
	if (x->used && memcmp(x->uuid, ci->uuid, sizeof(ci->uuid)) == 0)
		return NVML_SUCCESS;
	nvml_leave(ci->gi->device);
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t ci)
{
	nvmlReturn_t r = enter_ci(ci);

	if (r != NVML_SUCCESS)
		return r;
	r = sim_mig_ci_destroy(ci->gi->device->card, ci->gi->slot, ci->slot);
	nvml_leave(ci->gi->device);
	return r;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gi, unsigned int profile_id,
						nvmlComputeInstance_t *cis, unsigned int *count)
{
	nvmlReturn_t r = nvml_enter_gi(gi);
	unsigned n = 0;

	if (r != NVML_SUCCESS)
		return r;
	if (cis == NULL || count == NULL || ci_slices(profile_id) == 0)
		r = NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; r == NVML_SUCCESS && i < SIM_CIS; i++) {
		const struct sim_ci *x = &gi->device->card->s->gis[gi->slot].ci[i];

		if (x->used && x->slices == ci_slices(profile_id))
			cis[n++] = ci_handle(gi, i);
	}
	if (r == NVML_SUCCESS)
		*count = n;
	nvml_leave(gi->device);
	return r;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t gi, unsigned int id,
						   nvmlComputeInstance_t *ci)
{
	nvmlReturn_t r = nvml_enter_gi(gi);

	if (r != NVML_SUCCESS)
		return r;
	if (ci == NULL)
		r = NVML_ERROR_INVALID_ARGUMENT;
	else if (id >= SIM_CIS || !gi->device->card->s->gis[gi->slot].ci[id].used)
		r = NVML_ERROR_NOT_FOUND;
	else
		*ci = ci_handle(gi, (int)id);
	nvml_leave(gi->device);
	return r;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t ci,
					   nvmlComputeInstanceInfo_t *info)
{
	const struct sim_ci *x;
	nvmlReturn_t r = enter_ci(ci);

	if (r != NVML_SUCCESS)
		return r;
	x = &ci->gi->device->card->s->gis[ci->gi->slot].ci[ci->slot];
	if (info == NULL)
		r = NVML_ERROR_INVALID_ARGUMENT;
	else
		*info = (nvmlComputeInstanceInfo_t){
			.device = ci->gi->device,
			.gpuInstance = ci->gi,
			.id = x->id,
			.profileId = ci_profile(x->slices),
			.placement = { x->start, x->slices },
		};
	nvml_leave(ci->gi->device);
	return r;
}
