/* Why a node does not do, and whether the books are right. */
#include "sched/fleet_private.h"

/* --- why -------------------------------------------------------------------------------------- */

/* What is overlooked, one after the other, until the cards would do. */
enum pardon {
	PARDON_NOTHING,
	PARDON_HEALTH,
	PARDON_DIRT,
	PARDON_NUMA,
	PARDON_NVLINK,
	PARDON_OWNERS,
	PARDON_LOAD,
	PARDON_MODE,	      /* in MIG mode or not */
	PARDON_ISLANDS = 0x10 /* with each of these */
};

/* How many of the part's pieces fit on the card. */
static unsigned pieces(const struct rf_fleet *f, const struct card *c, const struct rf_fleet_ask *ask,
		       const struct rf_fleet_part *p, enum pardon pardon)
{
	struct need need = fl_need(ask, p);
	struct load l = c->load;
	struct card any RF_UNINITIALIZED;
	unsigned n = 0, most = p->kind == RF_FLEET_WHOLE || p->apart ? 1 : p->n;

	if (!c->there || (pardon < PARDON_HEALTH && !c->v.healthy))
		return 0;
	if (pardon == PARDON_MODE) {
		any = *c;
		any.v.sliced = any.v.fixed = false;
		c = &any;
	}
	if (pardon >= PARDON_LOAD)
		l = (struct load){ 0 };
	else if (pardon < PARDON_OWNERS && !fl_card_open(c, &ask->owner, p->kind))
		return 0;
	if (pardon < PARDON_DIRT && p->kind != RF_FLEET_SLICE && !fl_clean(c, &ask->owner, 0xff, false))
		return 0;
	while (n < most && fl_has_room(f, c, &l, &need)) {
		uint8_t starts = p->kind == RF_FLEET_SLICE ? fl_starts(f, c, &l, p->profile) : 1;
		struct rf_fleet_grant g = { .kind = (uint8_t)p->kind,
					    .profile = p->profile,
					    .start = (uint8_t)__builtin_ctz(starts),
					    .bytes = p->bytes,
					    .milli = p->milli };

		/* Dirty places count as taken. */
		n += pardon >= PARDON_DIRT || p->kind != RF_FLEET_SLICE ||
		     fl_clean(c, &ask->owner, fl_mask(f, c, &g), false);
		fl_load_add(f, c, &l, &g);
	}
	return n;
}

/* How many of the part's pieces fit on the node's cards, on those of one island if that matters. */
static unsigned pieces_on(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask,
			  const struct rf_fleet_part *p, uint64_t closed, unsigned pardon)
{
	unsigned on[UINT8_MAX + 1] RF_UNINITIALIZED, most = 0;
	bool joined = p->one_island && !(pardon & PARDON_ISLANDS);

	for (unsigned i = 0; i < n->n_cards; i++)
		on[n->cards[i].v.island] = 0;
	on[0] = 0;
	for (unsigned i = 0; i < n->n_cards; i++) {
		unsigned *at = &on[joined ? n->cards[i].v.island : 0];

		*at += closed >> i & 1 ? 0 : pieces(f, &n->cards[i], ask, p, pardon & ~(unsigned)PARDON_ISLANDS);
		most = RF_MAX(most, *at);
	}
	return most;
}

static bool cards_do(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask, unsigned pardon)
{
	unsigned what = pardon & ~(unsigned)PARDON_ISLANDS;
	unsigned groups = what < PARDON_NUMA ? 1u << NUMA | 1u << NVLINK : 1u << NVLINK;
	uint64_t closed = what < PARDON_NVLINK ? fl_closed_by(f, n, &ask->owner, groups) : 0;

	for (unsigned p = 0; p < ask->n_parts; p++) {
		if (pieces_on(f, n, ask, &ask->parts[p], closed, pardon) < ask->parts[p].n)
			return false;
	}
	return true;
}

static enum rf_fleet_unfit why_never(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask)
{
	if (cards_do(f, n, ask, PARDON_LOAD | PARDON_ISLANDS))
		return RF_FLEET_UNJOINED;
	return cards_do(f, n, ask, PARDON_MODE) ? RF_FLEET_MIG : RF_FLEET_TOO_SMALL;
}

enum rf_fleet_unfit fl_why_cards(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask)
{
	if (!cards_do(f, n, ask, PARDON_LOAD))
		return why_never(f, n, ask);
	if (cards_do(f, n, ask, PARDON_NOTHING)) /* each part would fit, but not together */
		return RF_FLEET_TAKEN;
	if (cards_do(f, n, ask, PARDON_NOTHING | PARDON_ISLANDS))
		return RF_FLEET_APART;
	if (cards_do(f, n, ask, PARDON_HEALTH))
		return RF_FLEET_UNHEALTHY;
	if (cards_do(f, n, ask, PARDON_DIRT))
		return RF_FLEET_UNSCRUBBED;
	if (fl_closed(f, n, &ask->owner) != 0) {
		if (cards_do(f, n, ask, PARDON_NUMA))
			return RF_FLEET_NUMA;
		if (cards_do(f, n, ask, PARDON_NVLINK))
			return RF_FLEET_NVLINK;
	}
	return cards_do(f, n, ask, PARDON_OWNERS) ? RF_FLEET_ISOLATION : RF_FLEET_TAKEN;
}

enum rf_fleet_unfit rf_fleet_why_on(struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask)
{
	const struct node *n;

	if (node >= f->nodes.n || !f->nodes.at[node].there || !fl_in_class(f, ask->class, node))
		return RF_FLEET_NOT_IN_CLASS;
	n = &f->nodes.at[node];
	fl_weigh(f, ask);
	if (fl_place(f, node, ask, false, NULL) != NEVER)
		return RF_FLEET_FITS;
	if (fl_kept(n, ask)) {
		struct rf_fleet_ask any = *ask;

		any.may_kept = UINT16_MAX;
		if (fl_place(f, node, &any, false, NULL) != NEVER)
			return RF_FLEET_KEPT;
	}
	if (ask->leave != NULL) {
		struct rf_fleet_ask any = *ask;

		any.leave = NULL;
		if (fl_place(f, node, &any, false, NULL) != NEVER)
			return RF_FLEET_UNLENT;
	}
	if (ask->n_parts > 0 && (n->models & fl_models(ask)) == 0)
		return RF_FLEET_NO_MODEL;
	if (ask->cpu_milli > n->cpu || ask->memory > n->memory || n->pods == 0)
		return RF_FLEET_TOO_SMALL;
	if (n->cordoned)
		return RF_FLEET_CORDONED;
	if (ask->owner.level == RF_ISOLATION_RACK && !ask->owner.system && n->rack == NULL)
		return RF_FLEET_NO_RACK;
	if (!fl_node_open(n, &ask->owner))
		return RF_FLEET_ISOLATION;
	if (n->pods_left <= 0)
		return RF_FLEET_NO_PODS;
	if (ask->cpu_milli > 0 && ask->cpu_milli > n->cpu_left)
		return RF_FLEET_NO_CPU;
	if (ask->memory > 0 && ask->memory > n->memory_left)
		return RF_FLEET_NO_MEMORY;
	return fl_why_cards(f, n, ask);
}

/* --- the most there is ------------------------------------------------------------------------- */

static void most_of_shares(const struct card *c, const struct rf_fleet_owner *o, struct rf_fleet_most *ret)
{
	if (!fl_card_open(c, o, RF_FLEET_SHARE))
		return;
	ret->bytes = RF_MAX(ret->bytes, c->v.memory - c->load.bytes);
	ret->milli = RF_MAX(ret->milli, RF_FLEET_MILLI - c->load.milli);
}

void fl_most_of_cards(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask, struct rf_fleet_most *ret)
{
	const struct rf_fleet_part any = { .kind = RF_FLEET_WHOLE, .n = 1 }, *whole = &any, *slice = NULL;
	uint64_t closed = fl_closed(f, n, &ask->owner);

	for (unsigned p = ask->n_parts; p-- > 0;) {
		whole = ask->parts[p].kind == RF_FLEET_WHOLE ? &ask->parts[p] : whole;
		slice = ask->parts[p].kind == RF_FLEET_SLICE ? &ask->parts[p] : slice;
	}
	for (unsigned i = 0; i < n->n_cards; i++) {
		const struct card *c = &n->cards[i];

		if (!(closed >> i & 1) && c->there && c->v.healthy && !c->v.sliced && (fl_models(ask) >> c->v.model & 1) &&
		    c->load.n_whole == 0 && c->load.n_slice == 0 && fl_clean(c, &ask->owner, 0xff, false))
			most_of_shares(c, &ask->owner, ret);
	}
	ret->cards = RF_MAX(ret->cards, pieces_on(f, n, ask, whole, closed, PARDON_NOTHING));
	if (slice != NULL)
		ret->slices = RF_MAX(ret->slices, RF_MIN(pieces_on(f, n, ask, slice, closed, PARDON_NOTHING), UINT8_MAX));
}

size_t rf_fleet_room_ever(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask)
{
	const struct node *n = node < f->nodes.n ? &f->nodes.at[node] : NULL;
	size_t room;

	if (n == NULL || !n->there || !fl_in_class(f, ask->class, node))
		return 0;
	room = (size_t)n->pods;
	if (ask->cpu_milli > 0)
		room = RF_MIN(room, (size_t)(n->cpu / ask->cpu_milli));
	if (ask->memory > 0)
		room = RF_MIN(room, (size_t)(n->memory / ask->memory));
	for (unsigned p = 0; p < ask->n_parts; p++) {
		struct rf_fleet_part one = ask->parts[p];
		unsigned all;

		one.n = UINT8_MAX; /* as many as a card has */
		all = pieces_on(f, n, ask, &one, 0, PARDON_LOAD | PARDON_ISLANDS);
		room = RF_MIN(room, all / RF_MAX(ask->parts[p].n, 1));
	}
	return room;
}

/* --- the books -------------------------------------------------------------------------------- */

struct recount {
	int64_t cpu, memory, pods;
	uint32_t n_alone, n_holds;
	struct load loads[RF_FLEET_CARDS_MAX];
	uint16_t n_strict[RF_FLEET_CARDS_MAX];
};

static bool recount_hold(const struct rf_fleet *f, const struct node *n, const struct hold *h, struct recount *r)
{
	r->cpu += h->cpu;
	r->memory += h->memory;
	r->pods += !h->no_pod;
	r->n_holds++;
	r->n_alone += h->owner.level <= RF_ISOLATION_NODE && !h->owner.system;
	for (unsigned i = 0; i < h->n; i++) {
		const struct rf_fleet_grant *g = &h->grants[i];
		struct load *l;

		if (g->card >= n->n_cards)
			return false;
		l = &r->loads[g->card];
		if ((l->mask & (g->kind == RF_FLEET_SLICE ? fl_mask(f, &n->cards[g->card], g) : 0)) != 0)
			return false; /* one slice held twice */
		if (g->kind == RF_FLEET_SLICE &&
		    n->cards[g->card].slicers[g->start] != (h->owner.tenant != 0 ? h->owner.tenant : MANY))
			return false;
		r->n_strict[g->card] += g->kind == RF_FLEET_SLICE && h->owner.level < RF_ISOLATION_SLICE;
		fl_load_add(f, &n->cards[g->card], l, g);
	}
	return true;
}

static bool same_load(const struct load *a, const struct load *b)
{
	return a->bytes == b->bytes && a->milli == b->milli && a->n_whole == b->n_whole &&
	       a->n_share == b->n_share && a->n_slice == b->n_slice && a->mask == b->mask &&
	       a->compute == b->compute && memcmp(a->of_profile, b->of_profile, sizeof(a->of_profile)) == 0;
}

static bool audit_rest(const struct rf_fleet *f, const struct card *c, bool of_epoch)
{
	struct rest r;

	fl_work_out_rest(f, c, &c->load, &r);
	return memcmp(&r, &c->rest, of_epoch ? sizeof(r) : offsetof(struct rest, hosts)) == 0;
}

static bool audit_cards(const struct rf_fleet *f, const struct node *n, const struct recount *r)
{
	for (unsigned i = 0; i < n->n_cards; i++) {
		const struct card *c = &n->cards[i];
		const struct load *l = &c->load;

		if ((n->for_shares >> i & 1) != (c->rest.bytes > 0) || (n->for_slices >> i & 1) != (c->rest.profiles != 0))
			return false;
		if (!same_load(l, &r->loads[i]) || c->n_strict != r->n_strict[i] || !audit_rest(f, c, n->hosted == f->epoch))
			return false;
		if ((l->n_whole > 0) + (l->n_share > 0) + (l->n_slice > 0) > 1 || l->n_whole > 1 ||
		    l->compute > RF_MIG_COMPUTE_SLICES)
			return false;
	}
	return true;
}

static bool audit_index(const struct rf_fleet *f, uint32_t node)
{
	const struct node *n = &f->nodes.at[node];

	for (unsigned i = 0; i < n->n_levels; i++) {
		const struct model_index *x = f->models[n->levels[i].model].index;
		struct levels l = fl_levels(n, n->levels[i].model);

		if (memcmp(&l, &n->levels[i], sizeof(l)) != 0)
			return false;
		for (unsigned s = 0; s < LEVEL_STEPS; s++)
			if (bit_get(x->whole[s], node) != (l.whole > s) ||
			    bit_get(x->bytes[s], node) != (l.bytes > s) ||
			    bit_get(x->milli[s], node) != (l.milli > s))
				return false;
		for (unsigned p = 0; p < RF_FLEET_PROFILES_MAX; p++)
			if (bit_get(x->profile[p], node) != (l.profiles >> p & 1))
				return false;
	}
	return true;
}

static bool audit_node(const struct rf_fleet *f, uint32_t node)
{
	const struct node *n = &f->nodes.at[node];
	struct recount r = { 0 };
	uint32_t guests = 0, others = 0;

	for (uint32_t h = n->first_hold; h != 0; h = f->holds.at[h - 1].next) {
		if (!f->holds.at[h - 1].live || f->holds.at[h - 1].node != node ||
		    !recount_hold(f, n, &f->holds.at[h - 1], &r))
			return false;
		others += !f->holds.at[h - 1].owner.system;
	}
	for (size_t i = 0; i < n->guests.all.n; i++)
		guests += n->guests.all.at[i].n;
	return n->cpu_left == n->cpu - r.cpu && n->memory_left == n->memory - r.memory &&
	       n->pods_left == n->pods - r.pods && n->guests.n_alone == r.n_alone && n->n_holds == r.n_holds &&
	       guests == others && bit_get(f->there, node) == (n->there && !n->cordoned) &&
	       bit_get(f->dirty, node) == n->dirty && audit_cards(f, n, &r) && audit_index(f, node) && fl_audit_groups(f, n);
}

bool rf_fleet_audit(const struct rf_fleet *f, struct rf_err *err)
{
	size_t live = 0, listed = 0, dirty = 0;
	int64_t untouched = 0;

	for (size_t i = 0; i < f->holds.n; i++)
		live += f->holds.at[i].live;
	for (uint32_t i = 0; i < f->nodes.n; i++) {
		for (unsigned k = 0; f->nodes.at[i].there && k < f->nodes.at[i].n_cards; k++)
			untouched += f->nodes.at[i].cards[k].there && fl_opens(&f->nodes.at[i].cards[k], &f->nodes.at[i].cards[k].load);
		if (!audit_node(f, i)) {
			rf_fail(err, RF_INTERNAL, "the books of node %u are wrong", i);
			return false;
		}
		listed += f->nodes.at[i].n_holds;
		dirty += f->nodes.at[i].dirty;
	}
	if (f->n_dirty != dirty) {
		rf_fail(err, RF_INTERNAL, "%zu nodes are said to have dirt, %zu have", f->n_dirty, dirty);
		return false;
	}
	if (f->untouched != untouched) {
		rf_fail(err, RF_INTERNAL, "%lld cards are said to be untouched, %lld are", (long long)f->untouched, (long long)untouched);
		return false;
	}
	if (!fl_audit_left(f)) {
		rf_fail(err, RF_INTERNAL, "what the best machine has left is wrong");
		return false;
	}
	if (!fl_audit_stock(f)) {
		rf_fail(err, RF_INTERNAL, "what is left of each kind is wrong");
		return false;
	}
	if (!fl_audit_racks(f)) {
		rf_fail(err, RF_INTERNAL, "the books of a rack are wrong");
		return false;
	}
	if (live != listed)
		rf_fail(err, RF_INTERNAL, "%zu holds, %zu on nodes", live, listed);
	return live == listed;
}
