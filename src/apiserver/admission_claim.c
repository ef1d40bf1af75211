/* Claims: no device is given twice, whatever the scheduler believes. */
#include "apiserver/admission.h"

#include <stdio.h>

#include "apiserver/index.h"
#include "apiserver/meta.h"
#include "tenant/slice.h"
#include "tenant/tenant.h"

#define COMPUTE_WHOLE 1000
#define RESULTS_MAX 32 /* as Kubernetes has it */

struct find {
	struct rf_str driver, pool, device;
	int64_t generation; /* the newest of the pool so far: older slices are about to go */
	int64_t memory;	    /* of the device found; -1: the slice does not say */
	int64_t compute;
	char product[96];
	bool sliced;  /* in MIG mode: slices only */
	bool dynamic; /* slices too */
	bool found;
};

static int64_t capacity(const struct rf_json *device, const char *what, int64_t otherwise)
{
	const struct rf_json *v = rf_json_at(device, "capacity", what, "value");
	int64_t amount;

	if (v == NULL || rf_quantity_value(rf_json_str(v), &amount, NULL) < 0)
		return otherwise;
	return amount;
}

static void read_mode(const struct rf_json *device, struct find *f)
{
	struct rf_str mode = rf_json_str_at(device, "attributes", "migMode", "string");
	struct rf_str product = rf_json_str_at(device, "attributes", "productName", "string");

	f->sliced = rf_str_is(mode, "enabled");
	f->dynamic = rf_str_is(mode, "dynamic");
	snprintf(f->product, sizeof(f->product), "%.*s", RF_STR(product));
}

static int find_in_slice(void *ctx, const struct rf_row *row)
{
	struct find *f = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *devices;
	struct rf_json *o = NULL;
	int64_t generation = 0;

	if (rf_json_parse(&a, row->json, &o, NULL) < 0 ||
	    !rf_str_eq(rf_json_str_at(o, "spec", "driver"), f->driver) ||
	    !rf_str_eq(rf_json_str_at(o, "spec", "pool", "name"), f->pool))
		return 0;
	generation = rf_json_int(rf_json_at(o, "spec", "pool", "generation"), 0);
	if (generation < f->generation)
		return 0;
	f->found &= generation == f->generation;
	f->generation = generation;
	devices = rf_json_at(o, "spec", "devices");
	for (size_t i = 0; i < rf_json_len(devices); i++) {
		const struct rf_json *d = rf_json_item(devices, i);

		if (!rf_str_eq(rf_json_str_at(d, "name"), f->device))
			continue;
		f->found = true;
		f->memory = capacity(d, "memory", -1);
		f->compute = capacity(d, "compute", COMPUTE_WHOLE);
		read_mode(d, f);
	}
	return 0;
}

static int find_device(struct rf_req *r, const struct rf_json *result, struct find *f,
		       struct rf_err *err)
{
	struct rf_list l = { .kind = rf_kind_get("resourceslices"),
			     .each = find_in_slice,
			     .ctx = f };

	*f = (struct find){ .driver = rf_json_str_at(result, "driver"),
			    .pool = rf_json_str_at(result, "pool"),
			    .device = rf_json_str_at(result, "device"),
			    .memory = -1,
			    .compute = COMPUTE_WHOLE };
	if (rf_store_list(r->api->store, &l, err) < 0)
		return -err->code;
	if (f->found)
		return 0;
	return rf_fail(err, RF_CONFLICT,
		       "device %.*s of pool %.*s is in no ResourceSlice; allocate one that is",
		       RF_STR(f->device), RF_STR(f->pool));
}

/* The amounts of the whole claim on one device: two containers may share their own card. */
static void add_own(const struct rf_json *results, struct rf_arena *a, struct rf_str key,
		    struct rf_held *own)
{
	*own = (struct rf_held){ 0, 0, 0, 0 };
	for (size_t i = 0; i < rf_json_len(results); i++) {
		const struct rf_json *one = rf_json_item(results, i);
		int64_t memory = rf_device_amount(one, "memory");
		int64_t compute = rf_device_amount(one, "compute");

		if (!rf_str_eq(rf_device_key(a, one), key))
			continue;
		own->claims++;
		own->whole += memory < 0 || compute < 0;
		own->memory += RF_MAX(memory, 0);
		own->compute += RF_MAX(compute, 0);
	}
}

static bool fits(const struct find *f, const struct rf_held *own, const struct rf_held *others)
{
	if (own->whole > 0 || others->whole > 0 || f->memory < 0)
		return own->claims + others->claims <= 1;
	return own->memory + others->memory <= f->memory &&
	       own->compute + others->compute <= f->compute;
}

/* --- who may meet --------------------------------------------------------------------------- */

/* By the name of its namespace; false if there is none. */
static bool find_tenant(struct rf_req *r, struct rf_str tenant, struct rf_tenant *ret)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o;

	return tenant.n > 0 &&
	       rf_store_get(r->api->store, r->a, rf_kind_get("tenants"), RF_STR_EMPTY, tenant, &o, &err) == 0 &&
	       rf_tenant_parse(r->a, o, ret, &err) == 0;
}

static bool shares(const struct rf_tenant *t)
{
	return t->isolation == RF_ISOLATION_SHARE || t->isolation == RF_ISOLATION_COOPERATIVE;
}

static bool takes_slices(const struct rf_tenant *t)
{
	return shares(t) || t->isolation == RF_ISOLATION_SLICE;
}

/* By slices: both accept that. Else in software: inside one trust domain. */
static bool may_meet(struct rf_req *r, struct rf_str ns, struct rf_str other, bool slices)
{
	struct rf_str one = rf_index_tenant_of(r->api->store, r->a, ns);
	struct rf_str two = rf_index_tenant_of(r->api->store, r->a, other);
	struct rf_tenant t, u;

	if (rf_str_eq(one, two))
		return true;
	if (!find_tenant(r, one, &t) || !find_tenant(r, two, &u))
		return false;
	if (slices)
		return takes_slices(&t) && takes_slices(&u);
	return shares(&t) && shares(&u) && rf_str_eq(t.trust_domain, u.trust_domain);
}

/* The memory slices that a result covers; all of them if it is no slice, or one that nobody knows on this card. */
static unsigned slices_of_result(const struct rf_json *claim, size_t i, const struct find *f)
{
	struct rf_slice_place place;
	unsigned mask = rf_slice_of_result(claim, i, &place) ? rf_slice_mask(rf_str(f->product), &place) : 0;

	return mask != 0 ? mask : ~0u;
}

/* The memory slices of the device that a claim has. `but`: a result that is left out. */
static unsigned slices_on(struct rf_req *r, const struct rf_json *claim, struct rf_str key, const struct find *f,
			  size_t but)
{
	const struct rf_json *results = rf_json_at(claim, "status", "allocation", "devices", "results");
	unsigned mask = 0;

	for (size_t i = 0; i < rf_json_len(results); i++) {
		if (i != but && rf_str_eq(rf_device_key(r->a, rf_json_item(results, i)), key))
			mask |= slices_of_result(claim, i, f);
	}
	return mask;
}

static bool has_slice_on(struct rf_req *r, const struct rf_json *claim, struct rf_str key)
{
	const struct rf_json *results = rf_json_at(claim, "status", "allocation", "devices", "results");
	struct rf_slice_place place;

	for (size_t i = 0; i < rf_json_len(results); i++) {
		if (rf_str_eq(rf_device_key(r->a, rf_json_item(results, i)), key) && rf_slice_of_result(claim, i, &place))
			return true;
	}
	return false;
}

static int taken(const struct rf_json *claim, struct rf_str key, const char *why, struct rf_err *err)
{
	return rf_fail(err, RF_CONFLICT,
		       "Operation cannot be fulfilled on resourceclaims.resource.k8s.io \"%.*s\": device %.*s %s; choose "
		       "another device",
		       RF_STR(rf_json_str_at(claim, "metadata", "name")), RF_STR(key), why);
}

/* Beside another claim: slices where it has none; what is no slice where it has no slice. */
static int check_place(struct rf_req *r, const struct rf_json *claim, const struct rf_json *holder, struct rf_str key,
		       const struct find *f, unsigned mask, struct rf_err *err)
{
	struct rf_json *other = NULL;

	if (rf_store_get(r->api->store, r->a, rf_kind_get("resourceclaims"), rf_json_str_at(holder, "ns"),
			 rf_json_str_at(holder, "name"), &other, err) < 0)
		return err->code == RF_NOT_FOUND ? 0 : -err->code; /* gone meanwhile, and with it what it had */
	if (mask != 0 && (mask & slices_on(r, other, key, f, SIZE_MAX)) != 0)
		return taken(claim, key, "has another claim's slice where this one's would be", err);
	if (mask == 0 && has_slice_on(r, other, key))
		return taken(claim, key, "is cut into slices, and one of them is another claim's", err);
	return 0;
}

/* The scheduler keeps tenants apart; should it ever fail, the card is still not shared. mask: the memory slices
 * that are asked for, 0 if it is not slices. */
static int check_company(struct rf_req *r, const struct rf_json *claim, struct rf_str key, const struct find *f,
			 unsigned mask, struct rf_err *err)
{
	struct rf_str ns = rf_json_str_at(claim, "metadata", "namespace");
	struct rf_str name = rf_json_str_at(claim, "metadata", "name");
	struct rf_json *others;

	if (rf_index_holders(r->api->store, r->a, key, ns, name, &others, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(others); i++) {
		const struct rf_json *other = rf_json_item(others, i);

		if (!may_meet(r, ns, rf_json_str_at(other, "ns"), mask != 0))
			return taken(claim, key, "is held by a tenant that does not accept this one's company", err);
		if ((mask != 0 || f->dynamic) && check_place(r, claim, other, key, f, mask, err) < 0)
			return -err->code;
	}
	return 0;
}

/* A slice of a card in MIG mode, in a place of its own. */
static int check_slice(struct rf_req *r, const struct rf_json *claim, size_t i, const struct rf_slice_place *place,
		       struct rf_str key, const struct find *f, struct rf_err *err)
{
	unsigned mask = rf_slice_mask(rf_str(f->product), place);

	if (!f->sliced && !f->dynamic)
		return taken(claim, key, "is not in MIG mode and has no slices", err);
	if (mask == 0)
		return taken(claim, key, "has no slice of that profile in that place", err);
	if ((mask & slices_on(r, claim, key, f, i)) != 0)
		return taken(claim, key, "is named twice for one place", err);
	return check_company(r, claim, key, f, mask, err);
}

/* --- allocations ---------------------------------------------------------------------------- */

static int check_result(struct rf_req *r, const struct rf_json *claim,
			const struct rf_json *results, size_t i, struct rf_err *err)
{
	const struct rf_json *result = rf_json_item(results, i);
	struct rf_str key = rf_device_key(r->a, result);
	struct rf_slice_place place;
	struct rf_held own, others;
	struct find f;

	if (find_device(r, result, &f, err) < 0)
		return -err->code;
	if (rf_slice_of_result(claim, i, &place))
		return check_slice(r, claim, i, &place, key, &f, err);
	if (f.sliced)
		return taken(claim, key, "is in MIG mode and is given in slices only", err);
	if (rf_index_held(r->api->store, key, rf_json_str_at(claim, "metadata", "namespace"),
			  rf_json_str_at(claim, "metadata", "name"), &others, err) < 0)
		return -err->code;
	add_own(results, r->a, key, &own);
	if (fits(&f, &own, &others))
		return check_company(r, claim, key, &f, 0, err);
	return rf_fail(
		err, RF_CONFLICT,
		"Operation cannot be fulfilled on resourceclaims.resource.k8s.io \"%.*s\": device "
		"%.*s of pool %.*s is taken: %lld other claims hold %lld bytes and %lld/1000 of "
		"it; choose another device or wait",
		RF_STR(rf_json_str_at(claim, "metadata", "name")), RF_STR(f.device), RF_STR(f.pool),
		(long long)others.claims, (long long)others.memory, (long long)others.compute);
}

static int check_allocation(struct rf_req *r, const struct rf_json *old, const struct rf_json *o,
			    struct rf_err *err)
{
	const struct rf_json *was = rf_json_at(old, "status", "allocation");
	const struct rf_json *is = rf_json_at(o, "status", "allocation");
	const struct rf_json *results = rf_json_at(is, "devices", "results");

	if (is == NULL || (was != NULL && rf_json_equal(was, is)))
		return 0;
	if (was != NULL)
		return rf_fail(
			err, RF_INVALID,
			"status.allocation: Invalid value: field is immutable; delete the claim "
			"and make a new one");
	if (rf_json_len(results) > RESULTS_MAX)
		return rf_fail(
			err, RF_INVALID,
			"status.allocation.devices.results: Too many: %zu: must have at most "
			"%d items",
			rf_json_len(results), RESULTS_MAX);
	for (size_t i = 0; i < rf_json_len(results); i++)
		if (check_result(r, o, results, i, err) < 0)
			return -err->code;
	return 0;
}

int rf_admit_claim(struct rf_req *r, const struct rf_json *old, const struct rf_json *o,
		   struct rf_err *err)
{
	bool had = rf_meta_has_finalizer(old, RF_PREPARED_FINALIZER);
	bool has = rf_meta_has_finalizer(o, RF_PREPARED_FINALIZER);

	if (had != has && !rf_user_is_platform(&r->user) && rf_user_node(&r->user).n == 0)
		return rf_fail(
			err, RF_FORBIDDEN,
			"finalizer %s belongs to the node that runs the pod: it says that the "
			"device may still be in use",
			RF_PREPARED_FINALIZER);
	if (had && rf_json_at(old, "status", "allocation") != NULL &&
	    rf_json_at(o, "status", "allocation") == NULL)
		return rf_fail(
			err, RF_CONFLICT,
			"claim \"%.*s\" is still prepared on its node; its allocation cannot be "
			"taken back yet",
			RF_STR(rf_json_str_at(o, "metadata", "name")));
	return check_allocation(r, old, o, err);
}

/* A device is free when no claim holds it: so a claim stays as long as its pod may run. */
int rf_admit_claim_delete(struct rf_req *r, const struct rf_json *old, struct rf_err *err)
{
	const struct rf_json *users = rf_json_at(old, "status", "reservedFor");
	struct rf_str ns = rf_json_str_at(old, "metadata", "namespace");

	for (size_t i = 0; i < rf_json_len(users); i++) {
		const struct rf_json *user = rf_json_item(users, i);
		struct rf_json *pod = NULL;

		if (rf_store_get(r->api->store, r->a, rf_kind_get("pods"), ns,
				 rf_json_str_at(user, "name"), &pod, err) < 0)
			continue;
		if (rf_str_eq(rf_json_str_at(pod, "metadata", "uid"),
			      rf_json_str_at(user, "uid")) &&
		    rf_pod_counts(pod) && rf_json_str_at(pod, "spec", "nodeName").n > 0)
			return rf_fail(
				err, RF_CONFLICT,
				"claim \"%.*s\" is in use by pod \"%.*s\"; delete the pod first",
				RF_STR(rf_json_str_at(old, "metadata", "name")),
				RF_STR(rf_json_str_at(user, "name")));
	}
	return 0;
}
