/* MIG: which instances fit beside which. A placement is a range of memory slices; ranges may not
 * overlap, and a profile may not be used more often than the card allows. */
#include "sim/state.h"

#include <string.h>

#include "gpu/nvml_abi.h"

const struct rf_mig_profile *sim_mig_profile(const struct sim_card *c, unsigned nvml_profile)
{
	for (size_t i = 0; i < c->model->n_mig; i++)
		if (c->model->mig[i].nvml_profile == nvml_profile)
			return &c->model->mig[i];
	return NULL;
}

const struct rf_mig_profile *sim_mig_profile_by_id(const struct sim_card *c, unsigned nvml_id)
{
	for (size_t i = 0; i < c->model->n_mig; i++)
		if (c->model->mig[i].nvml_id == nvml_id)
			return &c->model->mig[i];
	return NULL;
}

struct usage {
	unsigned memory; /* a bit per memory slice */
	unsigned compute;
	unsigned same; /* instances of the profile asked about */
};

static struct usage usage_of(const struct sim_card *c, const struct rf_mig_profile *p)
{
	struct usage u = { 0, 0, 0 };

	for (int i = 0; i < SIM_GIS; i++) {
		const struct sim_gi *gi = &c->s->gis[i];
		const struct rf_mig_profile *q = sim_gi_profile(c, gi);

		if (!gi->used || q == NULL)
			continue;
		u.memory |= ((1u << q->memory_slices) - 1) << (gi->start % RF_MIG_MEMORY_SLICES);
		u.compute += q->slices;
		u.same += q == p;
	}
	return u;
}

static bool place(struct usage *u, const struct rf_mig_profile *p, unsigned start)
{
	unsigned mask = ((1u << p->memory_slices) - 1) << start;

	if ((u->memory & mask) != 0 || u->compute + p->slices > RF_MIG_COMPUTE_SLICES ||
	    u->same >= p->max)
		return false;
	u->memory |= mask;
	u->compute += p->slices;
	u->same++;
	return true;
}

unsigned sim_mig_room(const struct sim_card *c, const struct rf_mig_profile *p)
{
	struct usage u = usage_of(c, p);
	unsigned n = 0;

	for (unsigned i = 0; i < p->n_starts; i++)
		n += place(&u, p, p->starts[i]);
	return n;
}

static int choose_start(const struct sim_card *c, const struct rf_mig_profile *p, int start,
			unsigned *ret_start)
{
	struct usage u = usage_of(c, p);
	bool known = false;

	for (unsigned i = 0; i < p->n_starts; i++) {
		if (start >= 0 && p->starts[i] != (unsigned)start)
			continue;
		known = true;
		if (place(&u, p, p->starts[i])) {
			*ret_start = p->starts[i];
			return NVML_SUCCESS;
		}
	}
	return known ? NVML_ERROR_INSUFFICIENT_RESOURCES : NVML_ERROR_INVALID_ARGUMENT;
}

static void fill_gi(struct sim_card *c, int slot, const struct rf_mig_profile *p, unsigned start)
{
	struct sim_gi *gi = &c->s->gis[slot];

	*gi = (struct sim_gi){ .used = 1,
			       .id = (uint32_t)slot + 1,
			       .profile = (uint32_t)(p - c->model->mig),
			       .start = start,
			       .size = p->memory_slices,
			       .serial = ++c->s->gi_serial };
	memset(&c->s->parts[slot + 1], 0, sizeof(c->s->parts[slot + 1]));
	c->s->parts[slot + 1].now_ns = sim_clock(c);
}

int sim_mig_create(struct sim_card *c, const struct rf_mig_profile *p, int start, int *ret_slot)
{
	unsigned at = 0;
	int slot = 0, r;

	if (!c->s->mig_mode)
		return NVML_ERROR_NOT_SUPPORTED;
	r = choose_start(c, p, start, &at);
	if (r != NVML_SUCCESS)
		return r;
	while (slot < SIM_GIS && c->s->gis[slot].used)
		slot++;
	if (slot == SIM_GIS)
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	fill_gi(c, slot, p, at);
	sim_event_push(c, NVML_EVENT_MIG_CONFIG, 0);
	*ret_slot = slot;
	return NVML_SUCCESS;
}

static bool has_ci(const struct sim_gi *gi)
{
	for (int i = 0; i < SIM_CIS; i++)
		if (gi->ci[i].used)
			return true;
	return false;
}

int sim_mig_destroy(struct sim_card *c, int slot, uint64_t serial)
{
	struct sim_gi *gi = &c->s->gis[slot];

	if (!gi->used || gi->serial != serial)
		return NVML_ERROR_NOT_FOUND;
	if (has_ci(gi))
		return NVML_ERROR_IN_USE;
	memset(gi, 0, sizeof(*gi));
	sim_event_push(c, NVML_EVENT_MIG_CONFIG, 0);
	return NVML_SUCCESS;
}

/* First run of free compute slices inside the instance. */
static int ci_start(const struct sim_gi *gi, unsigned total, unsigned want, unsigned *ret_start)
{
	unsigned mask = 0, need = (1u << want) - 1;

	for (int i = 0; i < SIM_CIS; i++)
		if (gi->ci[i].used)
			mask |= ((1u << gi->ci[i].slices) - 1) << gi->ci[i].start;
	for (unsigned at = 0; at + want <= total; at++) {
		if ((mask & (need << at)) != 0)
			continue;
		*ret_start = at;
		return NVML_SUCCESS;
	}
	return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

int sim_mig_ci_create(struct sim_card *c, int slot, unsigned slices, int *ret_ci)
{
	struct sim_gi *gi = &c->s->gis[slot];
	const struct rf_mig_profile *p = sim_gi_profile(c, gi);
	unsigned start = 0;
	int i = 0, r;

	if (!gi->used || p == NULL || slices == 0 || slices > p->slices)
		return NVML_ERROR_NOT_SUPPORTED;
	r = ci_start(gi, p->slices, slices, &start);
	if (r != NVML_SUCCESS)
		return r;
	while (i < SIM_CIS && gi->ci[i].used)
		i++;
	if (i == SIM_CIS)
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	gi->ci[i] =
		(struct sim_ci){ .used = 1, .id = (uint32_t)i, .slices = slices, .start = start };
	sim_random(gi->ci[i].uuid, sizeof(gi->ci[i].uuid));
	sim_event_push(c, NVML_EVENT_MIG_CONFIG, 0);
	*ret_ci = i;
	return NVML_SUCCESS;
}

static bool in_use(struct sim_card *c, uint32_t gi, uint32_t ci)
{
	sim_reap(c);
	for (int i = 0; i < SIM_PROCS; i++) {
		const struct sim_proc *p = &c->s->procs[i];

		if (p->used && (gi == SIM_NO_INSTANCE || (p->gi == gi && p->ci == ci)))
			return true;
	}
	return false;
}

int sim_mig_ci_destroy(struct sim_card *c, int slot, int ci)
{
	struct sim_gi *gi = &c->s->gis[slot];

	if (!gi->used || !gi->ci[ci].used)
		return NVML_ERROR_NOT_FOUND;
	if (in_use(c, gi->id, gi->ci[ci].id))
		return NVML_ERROR_IN_USE;
	memset(&gi->ci[ci], 0, sizeof(gi->ci[ci]));
	sim_event_push(c, NVML_EVENT_MIG_CONFIG, 0);
	return NVML_SUCCESS;
}

/* The mode changes at once if nobody uses the card, else stays pending, as *ret_activation says. */
int sim_mig_set_mode(struct sim_card *c, unsigned mode, int *ret_activation)
{
	if (c->model->n_mig == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	if (mode > 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; mode == 0 && i < SIM_GIS; i++)
		if (c->s->gis[i].used)
			return NVML_ERROR_IN_USE;
	c->s->mig_pending = mode;
	*ret_activation = NVML_SUCCESS;
	if (c->s->mig_mode == mode)
		return NVML_SUCCESS;
	if (in_use(c, SIM_NO_INSTANCE, 0)) {
		*ret_activation = NVML_ERROR_IN_USE;
		return NVML_SUCCESS;
	}
	c->s->mig_mode = mode;
	sim_event_push(c, NVML_EVENT_MIG_CONFIG, 0);
	return NVML_SUCCESS;
}
