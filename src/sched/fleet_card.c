/* The rules of one card and one node: what fits, who may be there, what is left. */
#include "sched/fleet_private.h"

/* --- room ------------------------------------------------------------------------------------- */

struct need fl_need(const struct rf_fleet_ask *ask, const struct rf_fleet_part *p)
{
	return (struct need){ .kind = (uint8_t)p->kind,
			      .profile = p->profile,
			      .bytes = p->kind == RF_FLEET_SHARE ? p->bytes : 0,
			      .milli = p->kind == RF_FLEET_SHARE ? (int32_t)p->milli : 0,
			      .models = fl_models(ask) };
}

uint8_t fl_starts(const struct rf_fleet *f, const struct card *c, const struct load *l, unsigned profile)
{
	const struct model *m = &f->models[c->v.model];

	if (profile >= m->n_profiles || c->v.fixed || l->n_whole > 0 || l->n_share > 0 ||
	    l->compute + m->profiles[profile].slices > RF_MIG_COMPUTE_SLICES ||
	    l->of_profile[profile] >= m->profiles[profile].max)
		return 0;
	return m->fits[profile][l->mask];
}

size_t fl_slices_left(const struct rf_fleet *f, const struct card *c, const struct load *l, unsigned profile)
{
	const struct model *m = &f->models[c->v.model];
	size_t n;

	if (fl_starts(f, c, l, profile) == 0)
		return 0;
	n = RF_MIN(m->copies[profile][l->mask], m->profiles[profile].max - l->of_profile[profile]);
	return RF_MIN(n, (RF_MIG_COMPUTE_SLICES - l->compute) / m->profiles[profile].slices);
}

bool fl_has_room(const struct rf_fleet *f, const struct card *c, const struct load *l, const struct need *need)
{
	if (!(need->models >> c->v.model & 1))
		return false;
	switch ((enum rf_fleet_kind)need->kind) {
	case RF_FLEET_WHOLE:
		return !c->v.sliced && fl_untouched(l);
	case RF_FLEET_SHARE:
		return !c->v.sliced && l->n_whole == 0 && l->n_slice == 0 &&
		       l->milli + need->milli <= RF_FLEET_MILLI && need->bytes <= c->v.memory - l->bytes;
	case RF_FLEET_SLICE:
		return fl_starts(f, c, l, need->profile) != 0;
	case RF_FLEET_CPU:
		break;
	}
	return false;
}

uint8_t fl_mask(const struct rf_fleet *f, const struct card *c, const struct rf_fleet_grant *g)
{
	if (g->kind != RF_FLEET_SLICE)
		return 0xff;
	return (uint8_t)(((1u << f->models[c->v.model].profiles[g->profile].memory_slices) - 1) << g->start);
}

void fl_load_add(const struct rf_fleet *f, const struct card *c, struct load *l, const struct rf_fleet_grant *g)
{
	if (g->kind == RF_FLEET_WHOLE) {
		l->n_whole++;
	} else if (g->kind == RF_FLEET_SHARE) {
		l->n_share++;
		l->bytes += g->bytes;
		l->milli += (int32_t)g->milli;
	} else {
		l->n_slice++;
		l->mask |= fl_mask(f, c, g);
		l->compute += (uint8_t)f->models[c->v.model].profiles[g->profile].slices;
		l->of_profile[g->profile]++;
	}
}

void fl_load_sub(const struct rf_fleet *f, const struct card *c, struct load *l, const struct rf_fleet_grant *g)
{
	if (g->kind == RF_FLEET_WHOLE) {
		l->n_whole--;
	} else if (g->kind == RF_FLEET_SHARE) {
		l->n_share--;
		l->bytes -= g->bytes;
		l->milli -= (int32_t)g->milli;
	} else {
		l->n_slice--;
		l->mask &= (uint8_t)~fl_mask(f, c, g);
		l->compute -= (uint8_t)f->models[c->v.model].profiles[g->profile].slices;
		l->of_profile[g->profile]--;
	}
}

static int32_t slices_free(const struct load *l)
{
	int memory = (EIGHTHS - __builtin_popcount(l->mask)) * RF_FLEET_MILLI / EIGHTHS;
	int compute = (RF_MIG_COMPUTE_SLICES - l->compute) * RF_FLEET_MILLI / RF_MIG_COMPUTE_SLICES;

	return RF_MIN(memory, compute);
}

int32_t fl_load_free(const struct card *c, const struct load *l)
{
	int64_t left = RF_FLEET_MILLI - l->milli;

	if (!c->there || !c->v.healthy || l->n_whole > 0)
		return 0;
	if (c->v.sliced || l->n_slice > 0)
		return slices_free(l);
	if (c->v.memory > 0 && l->bytes > 0)
		left = RF_MIN(left, (c->v.memory - l->bytes) * RF_FLEET_MILLI / c->v.memory);
	return (int32_t)RF_MAX(left, 0);
}

/* --- who may be where ------------------------------------------------------------------------- */

static bool may_share(const struct rf_fleet_owner *o)
{
	return o->tenant != 0 && (o->level == RF_ISOLATION_SHARE || o->level == RF_ISOLATION_COOPERATIVE);
}

/* Whoever accepts slices shares a card with all who do; others only with themselves. */
static bool slices_meet(const struct card *c, const struct rf_fleet_owner *o)
{
	if (c->load.n_slice == 0)
		return true;
	if (o->level >= RF_ISOLATION_SLICE)
		return c->n_strict == 0;
	return o->tenant != 0 && c->slicer == o->tenant;
}

/* By what others have there: what this request itself put on the card in a trial is no stranger's. */
bool fl_card_open(const struct card *c, const struct rf_fleet_owner *o, enum rf_fleet_kind kind)
{
	if (kind == RF_FLEET_SHARE)
		return may_share(o) && (c->load.n_share == 0 || c->trust == o->trust);
	return kind != RF_FLEET_SLICE || slices_meet(c, o);
}

bool fl_clean(const struct card *c, const struct rf_fleet_owner *o, uint8_t mask, bool stranger)
{
	if (!c->dirty)
		return true;
	for (unsigned i = 0; i < EIGHTHS; i++)
		if ((mask >> i & 1) && c->dirt[i] != 0 && c->lifted[i] == 0 &&
		    (stranger || o->tenant == 0 || c->dirt[i] != o->tenant))
			return false;
	return true;
}

static bool only_own(const struct guests *g, const struct rf_fleet_owner *o)
{
	return g->all.n == 0 || (g->all.n == 1 && o->tenant != 0 && g->all.at[0].tenant == o->tenant);
}

bool fl_node_open(const struct node *n, const struct rf_fleet_owner *o)
{
	if (o->system)
		return true;
	if (o->level == RF_ISOLATION_RACK)
		return n->rack != NULL && only_own(&n->rack->guests, o);
	if (n->rack != NULL && n->rack->guests.n_alone > 0)
		return false;
	return o->level == RF_ISOLATION_NODE ? only_own(&n->guests, o) : n->guests.n_alone == 0;
}

static bool enough(int64_t asked, int64_t left)
{
	return asked == 0 || asked <= left; /* an overfull node still takes who asks for nothing */
}

bool fl_node_fits(const struct node *n, const struct rf_fleet_ask *ask)
{
	return n->there && !n->cordoned && !fl_kept(n, ask) && n->pods_left > 0 && enough(ask->cpu_milli, n->cpu_left) &&
	       enough(ask->memory, n->memory_left) && fl_node_open(n, &ask->owner);
}

/* --- a bound ---------------------------------------------------------------------------------- */

static size_t times(int64_t left, int64_t each)
{
	return left <= 0 ? 0 : (size_t)(left / each);
}

/* Pieces of the part that the card could hold at most. */
static size_t room_on_card(const struct rf_fleet *f, const struct card *c, const struct rf_fleet_ask *ask,
			   const struct rf_fleet_part *p)
{
	const struct model *m = &f->models[c->v.model];
	struct need need = fl_need(ask, p);
	size_t n = UINT16_MAX;

	if (!c->there || !c->v.healthy || !fl_has_room(f, c, &c->load, &need) ||
	    !fl_card_open(c, &ask->owner, p->kind))
		return 0;
	if (p->kind == RF_FLEET_SLICE)
		return RF_MIN(m->copies[p->profile][c->load.mask],
			      (unsigned)m->profiles[p->profile].max - c->load.of_profile[p->profile]);
	if (!fl_clean(c, &ask->owner, 0xff, false))
		return 0;
	if (p->kind == RF_FLEET_WHOLE)
		return 1;
	if (p->milli > 0)
		n = times(RF_FLEET_MILLI - c->load.milli, p->milli);
	return p->bytes > 0 ? RF_MIN(n, times(c->v.memory - c->load.bytes, p->bytes)) : n;
}

uint32_t rf_fleet_handles(const struct rf_fleet *f)
{
	return (uint32_t)f->nodes.n;
}

bool rf_fleet_could(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask)
{
	const struct node *n;

	if (node >= f->nodes.n || !fl_in_class(f, ask->class, node))
		return false;
	n = &f->nodes.at[node];
	return n->there && !n->cordoned && n->pods > 0 && ask->cpu_milli <= n->cpu && ask->memory <= n->memory &&
	       (ask->n_parts == 0 || (n->models & fl_models(ask)) != 0);
}

bool rf_fleet_has_card(const struct rf_fleet *f, uint32_t node, unsigned card)
{
	return node < f->nodes.n && card < f->nodes.at[node].n_cards;
}

size_t rf_fleet_slices_on(const struct rf_fleet *f, uint32_t node, unsigned card, unsigned profile)
{
	const struct card *c;

	if (!rf_fleet_has_card(f, node, card))
		return 0;
	c = &f->nodes.at[node].cards[card];
	return c->there && c->v.healthy ? fl_slices_left(f, c, &c->load, profile) : 0;
}

size_t rf_fleet_room_on(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask)
{
	const struct node *n;
	uint64_t closed;
	size_t room;

	if (node >= f->nodes.n || !fl_in_class(f, ask->class, node) || !fl_node_fits(&f->nodes.at[node], ask))
		return 0;
	n = &f->nodes.at[node];
	closed = fl_closed(f, n, &ask->owner);
	room = (size_t)n->pods_left;
	if (ask->cpu_milli > 0)
		room = RF_MIN(room, times(n->cpu_left, ask->cpu_milli));
	if (ask->memory > 0)
		room = RF_MIN(room, times(n->memory_left, ask->memory));
	for (unsigned p = 0; p < ask->n_parts && room > 0; p++) {
		size_t pieces = 0;

		for (unsigned i = 0; i < n->n_cards; i++)
			pieces += closed >> i & 1 ? 0 : room_on_card(f, &n->cards[i], ask, &ask->parts[p]);
		room = RF_MIN(room, pieces / RF_MAX(ask->parts[p].n, 1));
	}
	return room;
}
