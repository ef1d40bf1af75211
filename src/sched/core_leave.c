/* What is not lent: what queues keep of cards, in whichever kind, and use for nothing, others leave to them. */
#include "sched/core_private.h"
#include "sched/core_why.h"

#define NOT_OF_CARDS (UINT64_C(1) << CO_CPU | UINT64_C(1) << CO_MEMORY | UINT64_C(1) << CO_PODS)

uint64_t co_unlent(struct rf_core *c)
{
	return rf_queues_keep(c->queues, c->now) & ~NOT_OF_CARDS;
}

uint64_t co_whole_kinds(const struct rf_core *c)
{
	uint64_t kinds = UINT64_C(1) << CO_CARDS;

	for (size_t m = 0; m < c->n_models; m++)
		kinds |= c->models[m].resource >= 0 ? UINT64_C(1) << c->models[m].resource : 0;
	return kinds;
}

/* --- shares ----------------------------------------------------------------------------------- */

struct keepers {
	struct rf_core *c;
	struct rf_fleet_leave_share *by_trust; /* one for each, and one before for those of whom it is not known */
	bool milli; /* the amounts are of that */
};

/* Whose it will be where several tenants are below the queue nobody knows. */
static void add_keeper(void *ctx, const struct rf_queue *q, int64_t amount)
{
	struct keepers *k = ctx;
	const struct co_queue *of = rf_map_get(&k->c->queue_map, rf_queue_name(q));
	uint32_t trust = of != NULL && of->tenant != NULL ? of->tenant->trust : 0;

	*(k->milli ? &k->by_trust[trust].milli : &k->by_trust[trust].bytes) += amount;
}

static void leave_shares(struct rf_core *c, const struct rf_queue *leaf, uint64_t keeps, struct rf_arena *a, struct rf_fleet_leave *ret)
{
	struct keepers k = { .c = c };

	if ((keeps & (UINT64_C(1) << CO_BYTES | UINT64_C(1) << CO_MILLI)) == 0)
		return;
	k.by_trust = rf_arena_array(a, struct rf_fleet_leave_share, c->n_trusts + 1);
	if (keeps >> CO_BYTES & 1)
		rf_queues_keepers(c->queues, leaf, CO_BYTES, c->now, add_keeper, &k);
	k.milli = true;
	if (keeps >> CO_MILLI & 1)
		rf_queues_keepers(c->queues, leaf, CO_MILLI, c->now, add_keeper, &k);
	for (uint32_t t = 0; t <= c->n_trusts; t++) {
		if (k.by_trust[t].bytes == 0 && k.by_trust[t].milli == 0)
			continue;
		k.by_trust[ret->n_shares] = k.by_trust[t];
		k.by_trust[ret->n_shares++].trust = t;
	}
	ret->shares = k.by_trust;
}

/* --- all of it -------------------------------------------------------------------------------- */

static bool asks_for_cards(const struct co_work *w)
{
	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		if (p->shape->form->n_parts > 0)
			return true;
	}
	return false;
}

const struct rf_fleet_leave *co_leave(struct rf_core *c, const struct co_work *w, struct rf_arena *a)
{
	uint64_t keeps = w->w != NULL && asks_for_cards(w) ? co_unlent(c) : 0;
	struct rf_fleet_leave *l;
	struct rf_workload_view v;

	if (keeps == 0)
		return NULL;
	l = rf_arena_array(a, struct rf_fleet_leave, 1);
	rf_workload_view(w->w, &v);
	for (size_t m = 0; m < c->n_models; m++) {
		int64_t r = c->models[m].resource;

		if (r < 0 || !(keeps >> r & 1))
			continue;
		l->of_model[m] = rf_queues_kept(c->queues, v.queue, r, c->now);
		l->models |= (uint64_t)(l->of_model[m] > 0) << m;
	}
	l->cards = rf_queues_kept_first(c->queues, v.queue, c->now);
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

const struct rf_fleet_leave *co_leave_both(const struct rf_fleet_leave *l, const struct rf_fleet_leave *o, struct rf_arena *a)
{
	struct rf_fleet_leave_share *shares;
	struct rf_fleet_leave *ret;

	if (l == NULL || o == NULL)
		return l != NULL ? l : o;
	ret = rf_arena_array(a, struct rf_fleet_leave, 1);
	shares = rf_arena_array(a, struct rf_fleet_leave_share, l->n_shares + o->n_shares);
	ret->cards = RF_MAX(l->cards, o->cards);
	ret->models = l->models | o->models;
	ret->kinds = l->kinds | o->kinds;
	for (size_t i = 0; i < RF_FLEET_MODELS_MAX; i++)
		ret->of_model[i] = RF_MAX(l->of_model[i], o->of_model[i]);
	for (size_t i = 0; i < RF_FLEET_KINDS_MAX; i++)
		ret->slices[i] = RF_MAX(l->slices[i], o->slices[i]);
	ret->shares = shares;
	for (size_t i = 0; i < l->n_shares; i++) {
		struct rf_fleet_leave_share v = of_trust(o, l->shares[i].trust);

		shares[ret->n_shares++] = (struct rf_fleet_leave_share){ v.trust, RF_MAX(v.bytes, l->shares[i].bytes), RF_MAX(v.milli, l->shares[i].milli) };
	}
	for (size_t i = 0; i < o->n_shares; i++) {
		struct rf_fleet_leave_share v = of_trust(l, o->shares[i].trust);

		if (v.bytes == 0 && v.milli == 0)
			shares[ret->n_shares++] = o->shares[i];
	}
	return ret;
}
