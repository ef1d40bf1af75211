/* What is not lent: what queues keep of cards, in whichever kind, and use for nothing, others leave to them. */
#include "sched/core_private.h"
#include "sched/core_why.h"

#define NOT_OF_CARDS (UINT64_C(1) << CO_CPU | UINT64_C(1) << CO_MEMORY | UINT64_C(1) << CO_PODS)

uint64_t co_keeps(struct rf_core *c)
{
	return rf_queues_keep(c->queues, c->now) & ~NOT_OF_CARDS;
}

/* --- shares ----------------------------------------------------------------------------------- */

struct keepers {
	struct rf_core *c;
	RF_VEC(struct rf_fleet_leave_share) by_trust;
	bool milli; /* the amounts are of that */
};

/* Whose it will be where several tenants are below the queue nobody knows. */
static void add_keeper(void *ctx, const struct rf_queue *q, int64_t amount)
{
	struct keepers *k = ctx;
	const struct co_queue *of = rf_map_get(&k->c->queue_map, rf_queue_name(q));
	uint32_t trust = of != NULL && of->tenant != NULL ? of->tenant->trust : 0;
	size_t i = 0;

	while (i < k->by_trust.n && k->by_trust.at[i].trust != trust)
		i++;
	if (i == k->by_trust.n)
		rf_vec_push(&k->by_trust, ((struct rf_fleet_leave_share){ .trust = trust }));
	*(k->milli ? &k->by_trust.at[i].milli : &k->by_trust.at[i].bytes) += amount;
}

static void leave_shares(struct rf_core *c, const struct rf_queue *leaf, uint64_t keeps, struct rf_arena *a, struct rf_fleet_leave *ret)
{
	struct keepers k = { .c = c };
	struct rf_fleet_leave_share *shares;

	if (keeps >> CO_BYTES & 1)
		rf_queues_keepers(c->queues, leaf, CO_BYTES, c->now, add_keeper, &k);
	k.milli = true;
	if (keeps >> CO_MILLI & 1)
		rf_queues_keepers(c->queues, leaf, CO_MILLI, c->now, add_keeper, &k);
	if (k.by_trust.n == 0)
		return;
	shares = rf_arena_array(a, struct rf_fleet_leave_share, k.by_trust.n);
	memcpy(shares, k.by_trust.at, k.by_trust.n * sizeof(*shares));
	ret->shares = shares;
	ret->n_shares = k.by_trust.n;
	rf_vec_done(&k.by_trust);
}

/* --- all of it -------------------------------------------------------------------------------- */

const struct rf_fleet_leave *co_leave(struct rf_core *c, const struct co_work *w, struct rf_arena *a)
{
	uint64_t keeps = co_keeps(c);
	struct rf_fleet_leave *l;
	struct rf_workload_view v;
	int64_t named = 0;

	if (keeps == 0 || w->w == NULL)
		return NULL;
	l = rf_arena_array(a, struct rf_fleet_leave, 1);
	rf_workload_view(w->w, &v);
	for (size_t m = 0; m < c->n_models; m++) {
		int64_t r = c->models[m].resource;

		if (r < 0 || !(keeps >> r & 1))
			continue;
		l->of_model[m] = rf_queues_kept(c->queues, v.queue, r, c->now);
		l->models |= (uint64_t)(l->of_model[m] > 0) << m;
		named += l->of_model[m];
	}
	/* those by name are among all of them */
	l->cards = RF_MAX(rf_queues_kept(c->queues, v.queue, CO_CARDS, c->now), named);
	for (size_t i = 0; i < c->profiles.n; i++) {
		int64_t r = c->profiles.at[i].resource;
		unsigned kind = r >= 0 && (keeps >> r & 1) ? rf_fleet_slice_kind(c->fleet, rf_str(c->profiles.at[i].name)) : RF_FLEET_KINDS_MAX;

		if (kind == RF_FLEET_KINDS_MAX)
			continue;
		l->slices[kind] = rf_queues_kept(c->queues, v.queue, r, c->now);
		l->kinds |= (uint64_t)(l->slices[kind] > 0) << kind;
	}
	leave_shares(c, v.queue, keeps, a, l);
	return l->cards > 0 || l->models != 0 || l->kinds != 0 || l->n_shares > 0 ? l : NULL;
}

uint64_t co_leave_sign(const struct rf_fleet_leave *l)
{
	uint64_t h;

	if (l == NULL)
		return 0;
	h = co_mix(co_mix((uint64_t)l->cards, l->models), l->kinds);
	for (size_t i = 0; i < RF_FLEET_MODELS_MAX; i++)
		h = l->models >> i & 1 ? co_mix(h, (uint64_t)l->of_model[i]) : h;
	for (size_t i = 0; i < RF_FLEET_KINDS_MAX; i++)
		h = l->kinds >> i & 1 ? co_mix(h, (uint64_t)l->slices[i]) : h;
	for (size_t i = 0; i < l->n_shares; i++)
		h = co_mix(co_mix(co_mix(h, l->shares[i].trust), (uint64_t)l->shares[i].bytes), (uint64_t)l->shares[i].milli);
	return h | 1;
}

static struct rf_fleet_leave_share of_trust(const struct rf_fleet_leave *l, uint32_t trust)
{
	for (size_t i = 0; i < l->n_shares; i++) {
		if (l->shares[i].trust == trust)
			return l->shares[i];
	}
	return (struct rf_fleet_leave_share){ .trust = trust };
}

bool co_leaves_all(const struct rf_fleet_leave *l, const struct rf_fleet_leave *of)
{
	static const struct rf_fleet_leave nothing;
	bool all;

	if (of == NULL)
		return true;
	l = l != NULL ? l : &nothing;
	all = of->cards <= l->cards;
	for (size_t i = 0; i < RF_FLEET_MODELS_MAX && all; i++)
		all = of->of_model[i] <= l->of_model[i];
	for (size_t i = 0; i < RF_FLEET_KINDS_MAX && all; i++)
		all = of->slices[i] <= l->slices[i];
	for (size_t i = 0; i < of->n_shares && all; i++) {
		struct rf_fleet_leave_share v = of_trust(l, of->shares[i].trust);

		all = of->shares[i].bytes <= v.bytes && of->shares[i].milli <= v.milli;
	}
	return all;
}
