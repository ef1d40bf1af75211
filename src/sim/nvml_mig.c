/* MIG: mode, profiles, GPU instances, MIG devices. The rules are in mig.c. */
#include "sim/nvml_priv.h"

#include <stdio.h>
#include <string.h>

/* Handles by card and slot; a slot that holds a new instance gets a new handle. */
static pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvmlGpuInstance_st *gi_handles[SIM_CARDS_MAX][SIM_GIS];
static struct nvmlDevice_st *mig_handles[SIM_CARDS_MAX][SIM_GIS][SIM_CIS];

static nvmlDevice_t card_of(nvmlDevice_t d)
{
	return d->parent != NULL ? d->parent : d;
}

nvmlDevice_t nvml_mig_device(nvmlDevice_t parent, int gi, int ci)
{
	const struct sim_ci *x = &parent->card->s->gis[gi].ci[ci];
	struct nvmlDevice_st **p = &mig_handles[parent->index % SIM_CARDS_MAX][gi][ci], *d;

	pthread_mutex_lock(&handle_lock);
	d = *p;
	if (d == NULL || d->card != parent->card ||
	    memcmp(d->uuid, x->uuid, sizeof(d->uuid)) != 0) {
		d = nvml_new_handle(sizeof(*d));
		if (d != NULL) {
			*d = (struct nvmlDevice_st){ .card = parent->card,
						     .index = parent->index,
						     .parent = parent,
						     .gi = gi,
						     .ci = ci };
			memcpy(d->uuid, x->uuid, sizeof(d->uuid));
			*p = d;
		}
	}
	pthread_mutex_unlock(&handle_lock);
	return d;
}

static nvmlGpuInstance_t gi_handle(nvmlDevice_t device, int slot)
{
	uint64_t serial = device->card->s->gis[slot].serial;
	struct nvmlGpuInstance_st **p = &gi_handles[device->index % SIM_CARDS_MAX][slot], *h;

	pthread_mutex_lock(&handle_lock);
	h = *p;
	if (h == NULL || h->device != device || h->serial != serial) {
		h = nvml_new_handle(sizeof(*h));
		if (h != NULL) {
			*h = (struct nvmlGpuInstance_st){ .device = device,
							  .slot = slot,
							  .serial = serial };
			*p = h;
		}
	}
	pthread_mutex_unlock(&handle_lock);
	return h;
}

static nvmlReturn_t enter_card(nvmlDevice_t d)
{
	nvmlReturn_t r = nvml_enter(d);

	if (r == NVML_SUCCESS && d->card->model->n_mig == 0) {
		nvml_leave(d);
		return NVML_ERROR_NOT_SUPPORTED;
	}
	return r;
}

/* Instances are made, listed and destroyed by whoever has the whole card. */
static nvmlReturn_t enter_config(nvmlDevice_t d)
{
	nvmlReturn_t r = enter_card(d);

	if (r == NVML_SUCCESS && d->card->bounded) {
		nvml_leave(d);
		return NVML_ERROR_NO_PERMISSION;
	}
	return r;
}

nvmlReturn_t nvml_enter_gi(nvmlGpuInstance_t gi)
{
	const struct sim_gi *x;
	nvmlReturn_t r;

	if (gi == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = enter_config(gi->device);
	if (r != NVML_SUCCESS)
		return r;
	x = &gi->device->card->s->gis[gi->slot];
	if (x->used && x->serial == gi->serial)
		return NVML_SUCCESS;
	nvml_leave(gi->device);
	return NVML_ERROR_NOT_FOUND;
}

/* --- mode --- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	nvmlReturn_t r = enter_card(device);

	if (r != NVML_SUCCESS)
		return r;
	if (current == NULL || pending == NULL) {
		r = NVML_ERROR_INVALID_ARGUMENT;
	} else {
		*current = device->card->s->mig_mode;
		*pending = device->card->s->mig_pending;
	}
	nvml_leave(device);
	return r;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
	nvmlReturn_t r = enter_config(device);

	if (r != NVML_SUCCESS)
		return r;
	r = activation == NULL ? NVML_ERROR_INVALID_ARGUMENT
			       : sim_mig_set_mode(device->card, mode, activation);
	nvml_leave(device);
	return r;
}

/* --- profiles --- */

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
						 nvmlGpuInstanceProfileInfo_t *info)
{
	const struct rf_mig_profile *p;
	nvmlReturn_t r = enter_card(device);

	if (r != NVML_SUCCESS)
		return r;
	p = sim_mig_profile(device->card, profile);
	nvml_leave(device);
	if (info == NULL || profile >= NVML_GPU_INSTANCE_PROFILE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (p == NULL)
		return NVML_ERROR_NOT_SUPPORTED;
	*info = (nvmlGpuInstanceProfileInfo_t){
		.id = p->nvml_id,
		.sliceCount = p->slices,
		.instanceCount = p->max,
		.multiprocessorCount = p->sms,
		.copyEngineCount = p->copy_engines,
		.decoderCount = p->decoders,
		.jpegCount = p->jpegs,
		.ofaCount = p->ofas,
		.memorySizeMB = p->memory_mib,
	};
	return NVML_SUCCESS;
}

static void fill_v2(nvmlGpuInstanceProfileInfo_v2_t *v, const nvmlGpuInstanceProfileInfo_t *i,
		    const char *name)
{
	*v = (nvmlGpuInstanceProfileInfo_v2_t){
		.version = v->version,
		.id = i->id,
		.sliceCount = i->sliceCount,
		.instanceCount = i->instanceCount,
		.multiprocessorCount = i->multiprocessorCount,
		.copyEngineCount = i->copyEngineCount,
		.decoderCount = i->decoderCount,
		.jpegCount = i->jpegCount,
		.ofaCount = i->ofaCount,
		.memorySizeMB = i->memorySizeMB,
	};
	snprintf(v->name, sizeof(v->name), "MIG %s", name);
}

static void fill_v3(nvmlGpuInstanceProfileInfo_v3_t *v, const nvmlGpuInstanceProfileInfo_t *i,
		    const char *name)
{
	*v = (nvmlGpuInstanceProfileInfo_v3_t){
		.version = v->version,
		.id = i->id,
		.sliceCount = i->sliceCount,
		.instanceCount = i->instanceCount,
		.multiprocessorCount = i->multiprocessorCount,
		.copyEngineCount = i->copyEngineCount,
		.decoderCount = i->decoderCount,
		.jpegCount = i->jpegCount,
		.ofaCount = i->ofaCount,
		.memorySizeMB = i->memorySizeMB,
	};
	snprintf(v->name, sizeof(v->name), "MIG %s", name);
}

/* The struct's version word says which of its layouts the caller has. */
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
						  nvmlGpuInstanceProfileInfo_v2_t *info)
{
	nvmlGpuInstanceProfileInfo_t plain;
	nvmlReturn_t r = nvmlDeviceGetGpuInstanceProfileInfo(device, profile, &plain);
	const char *name;

	if (r != NVML_SUCCESS)
		return r;
	if (info == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	name = sim_mig_profile(device->card, profile)->name;
	if (info->version == NVML_GPU_INSTANCE_PROFILE_INFO_V2)
		fill_v2(info, &plain, name);
	else if (info->version == NVML_GPU_INSTANCE_PROFILE_INFO_V3)
		fill_v3((nvmlGpuInstanceProfileInfo_v3_t *)(void *)info, &plain, name);
	else
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device,
							   unsigned int profile_id,
							   nvmlGpuInstancePlacement_t *placements,
							   unsigned int *count)
{
	const struct rf_mig_profile *p;
	nvmlReturn_t r = enter_card(device);
	unsigned room;

	if (r != NVML_SUCCESS)
		return r;
	p = sim_mig_profile_by_id(device->card, profile_id);
	nvml_leave(device);
	if (count == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (p == NULL)
		return NVML_ERROR_NOT_SUPPORTED;
	room = *count;
	*count = p->n_starts;
	if (placements == NULL)
		return NVML_SUCCESS;
	if (room < p->n_starts)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < p->n_starts; i++)
		placements[i] = (nvmlGpuInstancePlacement_t){ p->starts[i], p->memory_slices };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int profile_id,
						       unsigned int *count)
{
	const struct rf_mig_profile *p;
	nvmlReturn_t r = enter_card(device);

	if (r != NVML_SUCCESS)
		return r;
	p = sim_mig_profile_by_id(device->card, profile_id);
	if (p == NULL || !device->card->s->mig_mode)
		r = NVML_ERROR_NOT_SUPPORTED;
	else if (count == NULL)
		r = NVML_ERROR_INVALID_ARGUMENT;
	else
		*count = sim_mig_room(device->card, p);
	nvml_leave(device);
	return r;
}

/* --- GPU instances --- */

static nvmlReturn_t create(nvmlDevice_t device, unsigned profile_id, int start, unsigned size,
			   nvmlGpuInstance_t *gi)
{
	const struct rf_mig_profile *p;
	nvmlReturn_t r = enter_config(device);
	int slot = -1;

	if (r != NVML_SUCCESS)
		return r;
	p = sim_mig_profile_by_id(device->card, profile_id);
	if (p == NULL)
		r = NVML_ERROR_NOT_SUPPORTED;
	else if (gi == NULL || device->parent != NULL || (start >= 0 && size != p->memory_slices))
		r = NVML_ERROR_INVALID_ARGUMENT;
	else
		r = sim_mig_create(device->card, p, start, &slot);
	if (r == NVML_SUCCESS) {
		*gi = gi_handle(device, slot);
		r = *gi != NULL ? NVML_SUCCESS : NVML_ERROR_MEMORY;
	}
	nvml_leave(device);
	return r;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profile_id,
					 nvmlGpuInstance_t *gi)
{
	return create(device, profile_id, -1, 0, gi);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profile_id,
						      const nvmlGpuInstancePlacement_t *placement,
						      nvmlGpuInstance_t *gi)
{
	if (placement == NULL || placement->start >= RF_MIG_MEMORY_SLICES)
		return NVML_ERROR_INVALID_ARGUMENT;
	return create(device, profile_id, (int)placement->start, placement->size, gi);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t gi)
{
	nvmlReturn_t r = nvml_enter_gi(gi);

	if (r != NVML_SUCCESS)
		return r;
	r = sim_mig_destroy(gi->device->card, gi->slot, gi->serial);
	nvml_leave(gi->device);
	return r;
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profile_id,
				       nvmlGpuInstance_t *gis, unsigned int *count)
{
	const struct rf_mig_profile *p;
	nvmlReturn_t r = enter_config(device);
	unsigned n = 0;

	if (r != NVML_SUCCESS)
		return r;
	p = sim_mig_profile_by_id(device->card, profile_id);
	if (p == NULL)
		r = NVML_ERROR_NOT_SUPPORTED;
	else if (gis == NULL || count == NULL)
		r = NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; r == NVML_SUCCESS && i < SIM_GIS; i++) {
		const struct sim_gi *x = &device->card->s->gis[i];

		if (x->used && sim_gi_profile(device->card, x) == p)
			gis[n++] = gi_handle(device, i);
	}
	if (r == NVML_SUCCESS)
		*count = n;
	nvml_leave(device);
	return r;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id,
					  nvmlGpuInstance_t *gi)
{
	nvmlReturn_t r = enter_config(device), found = NVML_ERROR_NOT_FOUND;

	if (r != NVML_SUCCESS)
		return r;
	for (int i = 0; gi != NULL && i < SIM_GIS; i++) {
		if (!device->card->s->gis[i].used || device->card->s->gis[i].id != id)
			continue;
		*gi = gi_handle(card_of(device), i);
		found = NVML_SUCCESS;
	}
	nvml_leave(device);
	return gi != NULL ? found : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gi, nvmlGpuInstanceInfo_t *info)
{
	const struct sim_gi *x;
	nvmlReturn_t r = nvml_enter_gi(gi);

	if (r != NVML_SUCCESS)
		return r;
	x = &gi->device->card->s->gis[gi->slot];
	if (info == NULL)
		r = NVML_ERROR_INVALID_ARGUMENT;
	else
		*info = (nvmlGpuInstanceInfo_t){
			.device = gi->device,
			.id = x->id,
			.profileId = sim_gi_profile(gi->device->card, x)->nvml_id,
			.placement = { x->start, x->size },
		};
	nvml_leave(gi->device);
	return r;
}

/* --- MIG devices --- */

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (device == NULL || is_mig == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*is_mig = device->parent != NULL;
	return NVML_SUCCESS;
}

static nvmlReturn_t instance_id(nvmlDevice_t d, unsigned *id, bool compute)
{
	nvmlReturn_t r = nvml_enter(d);

	if (r != NVML_SUCCESS)
		return r;
	if (d->parent == NULL)
		r = NVML_ERROR_NOT_SUPPORTED;
	else if (id == NULL)
		r = NVML_ERROR_INVALID_ARGUMENT;
	else
		*id = compute ? d->card->s->gis[d->gi].ci[d->ci].id : d->card->s->gis[d->gi].id;
	nvml_leave(d);
	return r;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
	return instance_id(device, id, false);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
	return instance_id(device, id, true);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	nvmlReturn_t r = nvml_enter(device);

	if (r != NVML_SUCCESS)
		return r;
	nvml_leave(device);
	if (count == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = device->card->model->n_mig > 0 ? RF_MIG_COMPUTE_SLICES : 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
						 nvmlDevice_t *mig)
{
	nvmlReturn_t r = enter_card(device);
	unsigned n = 0;

	if (r != NVML_SUCCESS)
		return r;
	r = mig == NULL || device->parent != NULL ? NVML_ERROR_INVALID_ARGUMENT
						  : NVML_ERROR_NOT_FOUND;
	for (int gi = 0; r == NVML_ERROR_NOT_FOUND && gi < SIM_GIS; gi++) {
		for (int ci = 0; device->card->s->gis[gi].used && ci < SIM_CIS; ci++) {
			const struct sim_ci *x = &device->card->s->gis[gi].ci[ci];

			if (!x->used || !sim_may_use(device->card, device->card->s->gis[gi].id, x->id) || n++ != index)
				continue;
			*mig = nvml_mig_device(device, gi, ci);
			r = *mig != NULL ? NVML_SUCCESS : NVML_ERROR_MEMORY;
			break;
		}
	}
	nvml_leave(device);
	return r;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
	if (!nvml_initialised())
		return NVML_ERROR_UNINITIALIZED;
	if (mig == NULL || device == NULL || mig->parent == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = mig->parent;
	return NVML_SUCCESS;
}
