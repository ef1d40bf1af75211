#include "tenant/slice.h"

#include <stdio.h>

#include "gpu/models.h"
#include "tenant/tenant.h"

static bool speaks_of(const struct rf_json *config, struct rf_str request)
{
	const struct rf_json *list = rf_json_at(config, "requests");

	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_str_eq(rf_json_str(rf_json_item(list, i)), request))
			return rf_str_is(rf_json_str_at(config, "opaque", "driver"), RF_DRIVER);
	return false;
}

static bool is_ours(const struct rf_json *result)
{
	return rf_str_is(rf_json_str_at(result, "driver"), RF_DRIVER);
}

bool rf_slice_of_result(const struct rf_json *claim, size_t i, struct rf_slice_place *ret)
{
	const struct rf_json *devices = rf_json_at(claim, "status", "allocation", "devices");
	const struct rf_json *results = rf_json_at(devices, "results"), *list = rf_json_at(devices, "config");
	struct rf_str request = rf_json_str_at(rf_json_item(results, i), "request");
	size_t nth = 0;

	if (!is_ours(rf_json_item(results, i)))
		return false;
	for (size_t k = 0; k < i; k++) {
		const struct rf_json *r = rf_json_item(results, k);

		nth += is_ours(r) && rf_str_eq(rf_json_str_at(r, "request"), request);
	}
	for (size_t k = 0; k < rf_json_len(list); k++) {
		const struct rf_json *config = rf_json_item(list, k), *says = rf_json_at(config, "opaque", "parameters");
		struct rf_str profile = rf_json_str_at(says, "profile");
		int64_t start = rf_json_int(rf_json_item(rf_json_at(says, "starts"), nth), -1);

		if (!speaks_of(config, request) || profile.n == 0 || profile.n > 31 || start < 0 ||
		    start >= RF_MIG_MEMORY_SLICES)
			continue;
		*ret = (struct rf_slice_place){ profile, (unsigned)start };
		return true;
	}
	return false;
}

unsigned rf_slice_mask(struct rf_str product, const struct rf_slice_place *p)
{
	const struct rf_gpu_model *model;
	const struct rf_mig_profile *m;
	char name[96], profile[32];

	if (product.n >= sizeof(name) || p->profile.n >= sizeof(profile))
		return 0;
	snprintf(name, sizeof(name), "%.*s", RF_STR(product));
	snprintf(profile, sizeof(profile), "%.*s", RF_STR(p->profile));
	model = rf_gpu_model_by_product(name);
	m = model != NULL ? rf_gpu_model_mig(model, profile) : NULL;
	for (unsigned i = 0; m != NULL && i < m->n_starts; i++)
		if (m->starts[i] == p->start)
			return ((1u << m->memory_slices) - 1) << p->start;
	return 0;
}
