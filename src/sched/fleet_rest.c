/* What a card with such a load is still good for. It follows from the card's model, memory and mode and from the load
 * alone, so that many cards, and most trial placements, have it in common: what was worked out is kept by these. One that
 * is kept goes when another needs its place. */
#include "sched/fleet_private.h"

#define RESTS 1024

struct key {
	uint64_t memory, bytes, others, profiles;
};

struct kept {
	struct key key;
	uint32_t epoch; /* 0: nothing is kept here */
	struct rest rest;
};

struct rests {
	struct kept at[RESTS];
};

const struct rest fl_no_rest;

struct rests *fl_rests_new(void)
{
	return rf_new(struct rests);
}

void fl_rests_free(struct rests *r)
{
	free(r);
}

/* What of a card's free part a need could have, if all of it went to such needs: so many times its size. What is left
 * over then is no use to it wherever it goes. For slices places count, and a card with room for one of them here is not
 * one with room for seven. */
static int32_t usable_on(const struct rf_fleet *f, const struct card *c, const struct load *l, int32_t free, unsigned b)
{
	const struct need *need = &f->needs[b];
	const struct model *m = &f->models[c->v.model];
	unsigned copies = UINT16_MAX;

	if (need->kind == RF_FLEET_WHOLE)
		return free;
	if (need->kind == RF_FLEET_SLICE) {
		const struct rf_mig_profile *p = &m->profiles[need->profile];

		copies = RF_MIN(m->copies[need->profile][l->mask],
				(unsigned)(RF_MIG_COMPUTE_SLICES - l->compute) / (unsigned)p->slices);
		copies = RF_MIN(copies, (unsigned)p->max - l->of_profile[need->profile]);
	}
	if (need->milli > 0)
		copies = (unsigned)(RF_FLEET_MILLI - l->milli) / (unsigned)need->milli;
	if (f->need_mib[b] > 0)
		copies = RF_MIN(copies, (uint32_t)((c->v.memory - l->bytes) >> FL_MIB_SHIFT) / f->need_mib[b]);
	return RF_MIN(free, (int32_t)copies * m->each[b]);
}

static uint8_t sixteenths(int64_t left, int64_t of)
{
	return (uint8_t)(left <= 0 || of <= 0 ? 0 : RF_MIN(left * 16 / of, 16));
}

void fl_work_out_rest(const struct rf_fleet *f, const struct card *c, const struct load *l, struct rest *ret)
{
	const struct model *m = &f->models[c->v.model];

	*ret = fl_no_rest;
	if (!c->there || !c->v.healthy || l->n_whole > 0)
		return;
	ret->free = fl_load_free(c, l);
	for (unsigned p = 0; p < m->n_profiles; p++) {
		uint8_t starts = fl_starts(f, c, l, p);

		ret->profiles |= (uint8_t)((starts != 0) << p);
		ret->ways += (uint8_t)__builtin_popcount(starts);
	}
	if (!c->v.sliced && l->n_slice == 0) {
		ret->bytes = sixteenths(c->v.memory - l->bytes, m->index->memory_max) + 1;
		ret->milli = sixteenths(RF_FLEET_MILLI - l->milli, RF_FLEET_MILLI) + 1;
	}
	for (unsigned b = 0; b < f->n_needs; b++) {
		if (!fl_has_room(f, c, l, &f->needs[b]))
			continue;
		ret->hosts |= (uint64_t)1 << b;
		ret->usable[b] = (int16_t)usable_on(f, c, l, ret->free, b);
		ret->worth += ret->usable[b] * f->need_weight[b];
	}
}

static struct key key_of(const struct card *c, const struct load *l)
{
	struct key k = { .memory = (uint64_t)c->v.memory,
			 .bytes = (uint64_t)l->bytes,
			 .others = (uint32_t)l->milli | (uint64_t)l->mask << 32 | (uint64_t)l->compute << 40 |
				   (uint64_t)c->v.model << 48 | (uint64_t)c->v.sliced << 56 |
				   (uint64_t)c->v.fixed << 57 | (uint64_t)(l->n_share > 0) << 58 |
				   (uint64_t)(l->n_slice > 0) << 59 };

	memcpy(&k.profiles, l->of_profile, sizeof(k.profiles));
	return k;
}

const struct rest *fl_rest(const struct rf_fleet *f, const struct card *c, const struct load *l)
{
	struct key k = key_of(c, l);
	struct kept *v;

	if (!c->there || !c->v.healthy || l->n_whole > 0)
		return &fl_no_rest;
	v = &f->rests->at[fl_mix(fl_mix(k.memory ^ k.others, k.bytes), k.profiles) % RESTS];
	if (v->epoch != f->epoch || v->key.memory != k.memory || v->key.bytes != k.bytes || v->key.others != k.others ||
	    v->key.profiles != k.profiles) {
		fl_work_out_rest(f, c, l, &v->rest);
		v->key = k;
		v->epoch = f->epoch;
	}
	return &v->rest;
}
