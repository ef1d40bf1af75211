#include "gpu/mig.h"

#include <stdio.h>

#include "gpu/models.h"
#include "gpu/private.h"

#define MIG_DEVICES_MAX 64

static int fail(const struct rf_gpu *g, size_t i, nvmlReturn_t rc, const char *what, struct rf_err *err)
{
	enum rf_code code = rc == NVML_ERROR_GPU_IS_LOST || rc == NVML_ERROR_GPU_NOT_FOUND ||
					    rc == NVML_ERROR_RESET_REQUIRED ?
				    RF_GONE :
				    RF_UNAVAILABLE;

	return rf_fail(err, code, "card gpu-%d: %s: %s", g->cards[i].index, what, rf_nvml_text(&g->nvml, rc));
}

/* A driver has all of these calls, or is from before MIG. */
static int check_driver(const struct rf_gpu *g, struct rf_err *err)
{
	const struct rf_nvml *n = &g->nvml;

	if (n->nvmlDeviceGetGpuInstanceProfileInfo && n->nvmlDeviceGetGpuInstancePossiblePlacements_v2 &&
	    n->nvmlDeviceCreateGpuInstanceWithPlacement && n->nvmlGpuInstanceDestroy && n->nvmlDeviceGetGpuInstances &&
	    n->nvmlDeviceGetGpuInstanceById && n->nvmlGpuInstanceGetInfo &&
	    n->nvmlGpuInstanceGetComputeInstanceProfileInfo && n->nvmlGpuInstanceCreateComputeInstance &&
	    n->nvmlGpuInstanceGetComputeInstances && n->nvmlComputeInstanceGetInfo_v2 && n->nvmlComputeInstanceDestroy &&
	    n->nvmlDeviceGetMaxMigDeviceCount && n->nvmlDeviceGetMigDeviceHandleByIndex && n->nvmlDeviceGetGpuInstanceId &&
	    n->nvmlDeviceGetComputeInstanceId)
		return 0;
	return rf_fail(err, RF_UNSUPPORTED, "this driver is too old for MIG placements; install 450.80 or newer");
}

/* --- which there are ------------------------------------------------------------------------------------- */

static int add_instances(struct rf_gpu *g, size_t i, unsigned profile, struct rf_gpu_instance *ret, size_t *n,
			 struct rf_err *err)
{
	const struct rf_nvml *m = &g->nvml;
	nvmlGpuInstance_t list[RF_GPU_INSTANCES_MAX];
	unsigned count = RF_COUNT(list);
	nvmlReturn_t rc = m->nvmlDeviceGetGpuInstances(g->handles[i], profile, list, &count);

	for (unsigned k = 0; rc == NVML_SUCCESS && k < count; k++) {
		nvmlGpuInstanceInfo_t info;

		rc = m->nvmlGpuInstanceGetInfo(list[k], &info);
		if (rc == NVML_ERROR_NOT_FOUND) { /* destroyed just now */
			rc = NVML_SUCCESS;
			continue;
		}
		if (rc == NVML_SUCCESS && *n == RF_GPU_INSTANCES_MAX)
			return rf_fail(err, RF_INTERNAL, "card gpu-%d: more than %d GPU instances", g->cards[i].index,
				       RF_GPU_INSTANCES_MAX);
		if (rc == NVML_SUCCESS)
			ret[(*n)++] = (struct rf_gpu_instance){ info.id, info.profileId, info.placement.start,
								info.placement.size };
	}
	/* Out of MIG mode there are none. */
	return rc == NVML_SUCCESS || rc == NVML_ERROR_NOT_SUPPORTED ? 0 : fail(g, i, rc, "list the GPU instances", err);
}

int rf_gpu_instances(struct rf_gpu *g, size_t i, struct rf_gpu_instance ret[RF_GPU_INSTANCES_MAX], size_t *ret_n,
		     struct rf_err *err)
{
	size_t n = 0;

	rf_assert(i < g->n);
	if (check_driver(g, err) < 0)
		return -RF_UNSUPPORTED;
	for (unsigned p = 0; p < NVML_GPU_INSTANCE_PROFILE_COUNT; p++) {
		nvmlGpuInstanceProfileInfo_t info;
		nvmlReturn_t rc = g->nvml.nvmlDeviceGetGpuInstanceProfileInfo(g->handles[i], p, &info);

		/* What this card or this driver has not. */
		if (rc == NVML_ERROR_NOT_SUPPORTED || rc == NVML_ERROR_INVALID_ARGUMENT)
			continue;
		if (rc != NVML_SUCCESS)
			return fail(g, i, rc, "read its MIG profiles", err);
		int r = add_instances(g, i, info.id, ret, &n, err);
		if (r < 0)
			return r;
	}
	*ret_n = n;
	return 0;
}

/* --- where ------------------------------------------------------------------------------------------------- */

/* Does the driver call it by the same name? An older one does not say. */
static bool name_is(struct rf_gpu *g, size_t i, unsigned profile, const char *name)
{
	nvmlGpuInstanceProfileInfo_v2_t v2 = { .version = NVML_GPU_INSTANCE_PROFILE_INFO_V2 };
	struct rf_str said;

	if (g->nvml.nvmlDeviceGetGpuInstanceProfileInfoV == NULL ||
	    g->nvml.nvmlDeviceGetGpuInstanceProfileInfoV(g->handles[i], profile, &v2) != NVML_SUCCESS)
		return true;
	said = rf_str_n(v2.name, strnlen(v2.name, sizeof(v2.name)));
	return rf_str_is(rf_str_starts(said, RF_LIT("MIG ")) ? rf_str_skip(said, 4) : said, name);
}

static int find_place(struct rf_gpu *g, size_t i, unsigned id, const char *profile, unsigned start,
		      struct rf_gpu_instance *ret, struct rf_err *err)
{
	nvmlGpuInstancePlacement_t places[32];
	unsigned n = RF_COUNT(places);
	nvmlReturn_t rc = g->nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2(g->handles[i], id, places, &n);

	if (rc != NVML_SUCCESS)
		return fail(g, i, rc, "read where its MIG profiles may be", err);
	for (unsigned k = 0; k < n; k++) {
		if (places[k].start != start)
			continue;
		*ret = (struct rf_gpu_instance){ .profile = id, .start = start, .size = places[k].size };
		return 0;
	}
	return rf_fail(err, RF_FORBIDDEN, "card gpu-%d: MIG profile %s cannot start at memory slice %u",
		       g->cards[i].index, profile, start);
}

int rf_gpu_instance_at(struct rf_gpu *g, size_t i, const char *profile, unsigned start, struct rf_gpu_instance *ret,
		       struct rf_err *err)
{
	const struct rf_gpu_model *model = rf_gpu_model_by_product(g->cards[i].name);
	const struct rf_mig_profile *p = model != NULL ? rf_gpu_model_mig(model, profile) : NULL;
	nvmlGpuInstanceProfileInfo_t info;

	rf_assert(i < g->n);
	if (check_driver(g, err) < 0)
		return -RF_UNSUPPORTED;
	nvmlReturn_t rc = p != NULL ? g->nvml.nvmlDeviceGetGpuInstanceProfileInfo(g->handles[i], p->nvml_profile, &info) :
				      NVML_ERROR_NOT_SUPPORTED;
	if (rc == NVML_ERROR_NOT_SUPPORTED || (rc == NVML_SUCCESS && !name_is(g, i, p->nvml_profile, profile)))
		return rf_fail(err, RF_FORBIDDEN, "card gpu-%d (%s) has no MIG profile %s", g->cards[i].index,
			       g->cards[i].name, profile);
	if (rc != NVML_SUCCESS)
		return fail(g, i, rc, "read its MIG profiles", err);
	return find_place(g, i, info.id, profile, start, ret, err);
}

/* --- making -------------------------------------------------------------------------------------------------- */

int rf_gpu_slice_cut(struct rf_gpu *g, size_t i, const struct rf_gpu_instance *where, unsigned *ret_gi,
		     struct rf_err *err)
{
	nvmlGpuInstancePlacement_t place = { where->start, where->size };
	nvmlGpuInstanceInfo_t info;
	nvmlGpuInstance_t gi = NULL;

	rf_assert(i < g->n);
	if (check_driver(g, err) < 0)
		return -RF_UNSUPPORTED;
	nvmlReturn_t rc =
		g->nvml.nvmlDeviceCreateGpuInstanceWithPlacement(g->handles[i], where->profile, &place, &gi);
	if (rc != NVML_SUCCESS)
		return fail(g, i, rc, "create the GPU instance", err);
	rc = g->nvml.nvmlGpuInstanceGetInfo(gi, &info);
	if (rc != NVML_SUCCESS || info.placement.start != where->start) {
		(void)g->nvml.nvmlGpuInstanceDestroy(gi);
		return fail(g, i, rc, "the GPU instance is not where it was asked for", err);
	}
	*ret_gi = info.id;
	return 0;
}

struct ci_profile {
	unsigned id, slices;
};

/* The compute profiles of a GPU instance, the widest of them in *ret_whole. */
static size_t ci_profiles(struct rf_gpu *g, nvmlGpuInstance_t gi, struct ci_profile ret[NVML_COMPUTE_INSTANCE_PROFILE_COUNT],
			  unsigned *ret_whole)
{
	size_t n = 0;
	unsigned most = 0;

	for (unsigned p = 0; p < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; p++) {
		nvmlComputeInstanceProfileInfo_t info;

		if (g->nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
			    gi, p, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info) != NVML_SUCCESS)
			continue;
		ret[n++] = (struct ci_profile){ info.id, info.sliceCount };
		if (info.sliceCount > most) {
			most = info.sliceCount;
			*ret_whole = info.id;
		}
	}
	return n;
}

struct ci_list {
	nvmlComputeInstance_t at[RF_GPU_INSTANCES_MAX];
	size_t n;
};

static nvmlReturn_t list_cis(struct rf_gpu *g, nvmlGpuInstance_t gi, struct ci_list *ret, unsigned *ret_whole)
{
	struct ci_profile profiles[NVML_COMPUTE_INSTANCE_PROFILE_COUNT];
	size_t n = ci_profiles(g, gi, profiles, ret_whole);

	if (n == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	for (size_t p = 0; p < n; p++) {
		nvmlComputeInstance_t list[RF_GPU_INSTANCES_MAX];
		unsigned count = RF_COUNT(list);
		nvmlReturn_t rc = g->nvml.nvmlGpuInstanceGetComputeInstances(gi, profiles[p].id, list, &count);

		if (rc != NVML_SUCCESS)
			return rc;
		for (unsigned k = 0; k < count && ret->n < RF_COUNT(ret->at); k++)
			ret->at[ret->n++] = list[k];
	}
	return NVML_SUCCESS;
}

/* The device that programs see; NULL: there is none. */
static nvmlDevice_t find_device(struct rf_gpu *g, size_t i, unsigned gi, unsigned ci)
{
	const struct rf_nvml *m = &g->nvml;
	unsigned most = 0;

	if (m->nvmlDeviceGetMaxMigDeviceCount(g->handles[i], &most) != NVML_SUCCESS)
		return NULL;
	for (unsigned k = 0; k < RF_MIN(most, MIG_DEVICES_MAX); k++) {
		nvmlDevice_t dev = NULL;
		unsigned its_gi = 0, its_ci = 0;

		/* The numbers have gaps. */
		if (m->nvmlDeviceGetMigDeviceHandleByIndex(g->handles[i], k, &dev) == NVML_SUCCESS &&
		    m->nvmlDeviceGetGpuInstanceId(dev, &its_gi) == NVML_SUCCESS &&
		    m->nvmlDeviceGetComputeInstanceId(dev, &its_ci) == NVML_SUCCESS && its_gi == gi && its_ci == ci)
			return dev;
	}
	return NULL;
}

static int describe(struct rf_gpu *g, size_t i, unsigned gi, nvmlComputeInstance_t ci, struct rf_gpu_slice *ret,
		    struct rf_err *err)
{
	struct rf_gpu_slice s = { .gi = gi };
	nvmlComputeInstanceInfo_t info;
	nvmlDevice_t dev = NULL;
	int64_t used = 0;

	nvmlReturn_t rc = g->nvml.nvmlComputeInstanceGetInfo_v2(ci, &info);
	if (rc == NVML_SUCCESS) {
		s.ci = info.id;
		dev = find_device(g, i, gi, info.id);
		rc = dev != NULL ? g->nvml.nvmlDeviceGetUUID(dev, s.uuid, sizeof(s.uuid)) : NVML_ERROR_NOT_FOUND;
	}
	if (rc == NVML_SUCCESS)
		rc = rf_gpu_read_memory(g, dev, &s.memory_bytes, &used);
	if (rc != NVML_SUCCESS)
		return fail(g, i, rc, "read the MIG device", err);
	*ret = s;
	return 0;
}

static int open_gi(struct rf_gpu *g, size_t i, unsigned gi, bool make, struct rf_gpu_slice *ret, struct rf_err *err)
{
	struct ci_list cis = { .n = 0 };
	nvmlGpuInstance_t handle = NULL;
	unsigned whole = 0;

	rf_assert(i < g->n);
	if (check_driver(g, err) < 0)
		return -RF_UNSUPPORTED;
	nvmlReturn_t rc = g->nvml.nvmlDeviceGetGpuInstanceById(g->handles[i], gi, &handle);
	if (rc == NVML_SUCCESS)
		rc = list_cis(g, handle, &cis, &whole);
	if (rc == NVML_SUCCESS && cis.n == 0 && make) {
		rc = g->nvml.nvmlGpuInstanceCreateComputeInstance(handle, whole, &cis.at[0]);
		cis.n = rc == NVML_SUCCESS;
	}
	if (rc == NVML_ERROR_NOT_FOUND || (rc == NVML_SUCCESS && cis.n == 0))
		return rf_fail(err, RF_NOT_FOUND, "card gpu-%d: GPU instance %u is not there, or has nothing in it",
			       g->cards[i].index, gi);
	if (rc != NVML_SUCCESS)
		return fail(g, i, rc, "open the GPU instance", err);
	if (cis.n > 1)
		return rf_fail(err, RF_FORBIDDEN, "card gpu-%d: somebody divided GPU instance %u further",
			       g->cards[i].index, gi);
	return describe(g, i, gi, cis.at[0], ret, err);
}

int rf_gpu_slice_open(struct rf_gpu *g, size_t i, unsigned gi, struct rf_gpu_slice *ret, struct rf_err *err)
{
	return open_gi(g, i, gi, true, ret, err);
}

int rf_gpu_slice_read(struct rf_gpu *g, size_t i, unsigned gi, struct rf_gpu_slice *ret, struct rf_err *err)
{
	return open_gi(g, i, gi, false, ret, err);
}

/* --- destroying ------------------------------------------------------------------------------------------ */

int rf_gpu_slice_destroy(struct rf_gpu *g, size_t i, unsigned gi, struct rf_err *err)
{
	struct ci_list cis = { .n = 0 };
	nvmlGpuInstance_t handle = NULL;
	unsigned whole = 0;

	rf_assert(i < g->n);
	if (check_driver(g, err) < 0)
		return -RF_UNSUPPORTED;
	nvmlReturn_t rc = g->nvml.nvmlDeviceGetGpuInstanceById(g->handles[i], gi, &handle);
	if (rc == NVML_SUCCESS)
		rc = list_cis(g, handle, &cis, &whole);
	for (size_t k = 0; rc == NVML_SUCCESS && k < cis.n; k++)
		rc = g->nvml.nvmlComputeInstanceDestroy(cis.at[k]);
	if (rc == NVML_SUCCESS)
		rc = g->nvml.nvmlGpuInstanceDestroy(handle);
	/* Not there, or out of MIG mode with all there was. */
	if (rc == NVML_SUCCESS || rc == NVML_ERROR_NOT_FOUND || rc == NVML_ERROR_NOT_SUPPORTED)
		return 0;
	return fail(g, i, rc, "destroy the GPU instance", err);
}

int64_t rf_gpu_slice_used(struct rf_gpu *g, size_t i, const struct rf_gpu_slice *s)
{
	int64_t total = 0, used = -1;
	nvmlDevice_t dev;

	rf_assert(i < g->n);
	if (check_driver(g, NULL) < 0)
		return -1;
	dev = find_device(g, i, s->gi, s->ci);
	return dev != NULL && rf_gpu_read_memory(g, dev, &total, &used) == NVML_SUCCESS ? used : -1;
}

/* --- device nodes ---------------------------------------------------------------------------------------- */

/* The number that stands beside a name, name first or number first; -1: none. */
static int64_t number_of(struct rf_str text, struct rf_str name, bool name_first)
{
	while (text.n > 0) {
		struct rf_str line, head;
		int64_t n = -1;

		rf_str_cut(&text, '\n', &line);
		line = rf_str_trim(line);
		rf_str_cut(&line, ' ', &head);
		line = rf_str_trim(line);
		if (rf_str_eq(name_first ? head : line, name) && rf_str_int(name_first ? line : head, &n, NULL) == 0 &&
		    n >= 0 && n < 1 << 20)
			return n;
	}
	return -1;
}

int rf_gpu_slice_caps(struct rf_str minors, struct rf_str devices, int card_minor, const struct rf_gpu_slice *s,
		      struct rf_gpu_cap ret[RF_GPU_SLICE_CAPS], struct rf_err *err)
{
	int64_t major = number_of(devices, RF_LIT("nvidia-caps"), false);
	char names[RF_GPU_SLICE_CAPS][64];

	if (major < 0)
		return rf_fail(err, RF_UNAVAILABLE, "/proc/devices has no nvidia-caps: the driver gives no access to MIG "
						    "instances; load the module nvidia anew");
	snprintf(names[0], sizeof(names[0]), "gpu%d/gi%u/access", card_minor, s->gi);
	snprintf(names[1], sizeof(names[1]), "gpu%d/gi%u/ci%u/access", card_minor, s->gi, s->ci);
	for (size_t k = 0; k < RF_GPU_SLICE_CAPS; k++) {
		int64_t minor = number_of(minors, rf_str(names[k]), true);

		if (minor < 0)
			return rf_fail(err, RF_UNAVAILABLE, "/proc/driver/nvidia-caps/mig-minors has no %s", names[k]);
		ret[k] = (struct rf_gpu_cap){ .major = major, .minor = minor };
		snprintf(ret[k].path, sizeof(ret[k].path), "/dev/nvidia-caps/nvidia-cap%lld", (long long)minor);
	}
	return 0;
}
