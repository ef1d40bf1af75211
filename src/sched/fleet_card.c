/* One card: what fits on it, who may use it, what is left of it. */
#include "sched/fleet_private.h"

/* --- room ------------------------------------------------------------------------------------- */

static bool plain(const struct load *l)
{
	return l->n_whole == 0 && l->n_slice == 0;
}

static bool untouched(const struct load *l)
{
	return plain(l) && l->n_share == 0;
}

uint8_t card_starts(const struct rf_fleet *f, const struct card *c, const struct load *l, unsigned profile)
{
	const struct model *m = &f->models[c->v.model];

	if (profile >= m->n_profiles || c->v.fixed || l->n_whole > 0 || l->n_share > 0 ||
	    l->compute + m->profiles[profile].slices > RF_MIG_COMPUTE_SLICES ||
	    l->of_profile[profile] >= m->profiles[profile].max)
		return 0;
	return m->fits[profile][l->mask];
}

/* Health, owners and dirt aside. */
static bool has_room(const struct rf_fleet *f, const struct card *c, const struct load *l,
		     const struct need *need)
{
	switch ((enum rf_fleet_kind)need->kind) {
	case RF_FLEET_WHOLE:
		return !c->v.sliced && untouched(l);
	case RF_FLEET_SHARE:
		return !c->v.sliced && plain(l) && l->milli + need->milli <= RF_FLEET_MILLI &&
		       need->bytes <= c->v.memory - l->bytes;
	case RF_FLEET_SLICE:
		return card_starts(f, c, l, need->profile) != 0;
	case RF_FLEET_CPU:
		break;
	}
	return false;
}

bool card_has_room(const struct rf_fleet *f, const struct card *c, const struct load *l,
		   const struct need *need)
{
	return has_room(f, c, l, need);
}
