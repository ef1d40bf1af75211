/* What is to be left for those who do not lend it.
 *
 * Kinds are cut from the same cards: whole cards of each model, slices of each profile, shares. The stock is how much of each could be had now,
 * well or not, cordoned or not, as capacity is counted. It is counted when the first one asks who has to leave something, and
 * catches up with the nodes that changed since, as lanes do (fleet_find.c). */
#include "sched/fleet_private.h"

#define TRUSTS_MAX 65536 /* room on cards of a domain with a higher number counts for nobody */
enum { BYTES, MILLI, AMOUNTS };

struct part { /* of a card */
	int64_t memory;		    /* of an untouched one; 0: it is touched */
	int64_t room[AMOUNTS];	    /* beside shares of one domain, */
	uint32_t trust;		    /* this one; 0: of none */
	uint8_t model;
	uint8_t slices[RF_FLEET_PROFILES_MAX];
	bool counts, cut; /* cut: not untouched, or in MIG mode */
};

struct room {
	int64_t of[AMOUNTS];
};

struct shelf {
	struct part *cards;
	unsigned n;
};

struct stock {
	uint64_t seen; /* of the changes */
	RF_VEC(struct shelf) nodes; /* by handle */
	int64_t of_model[RF_FLEET_MODELS_MAX];
	int64_t untouched[AMOUNTS];
	int64_t slices[RF_FLEET_KINDS_MAX], on_cut[RF_FLEET_KINDS_MAX];
	RF_VEC(struct room) domains; /* by trust */
};

void fl_stock_free(struct stock *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->nodes.n; i++)
		free(s->nodes.at[i].cards);
	rf_vec_done(&s->nodes);
	rf_vec_done(&s->domains);
	free(s);
}

/* --- counting --------------------------------------------------------------------------------- */

/* strict: of somebody who shares the card with nobody. */
static int64_t slices_on(const struct rf_fleet *f, const struct card *c, const struct load *l, unsigned profile, bool strict)
{
	return strict ? 0 : (int64_t)fl_slices_left(f, c, l, profile);
}

static struct part look_at(const struct rf_fleet *f, const struct node *n, const struct card *c)
{
	struct part p = { .counts = n->there && c->there && !c->v.absent, .model = c->v.model };

	if (!p.counts)
		return p;
	p.cut = !fl_opens(c, &c->load);
	p.memory = p.cut ? 0 : c->v.memory;
	if (c->load.n_share > 0 && c->trust < TRUSTS_MAX) {
		p.trust = c->trust;
		p.room[BYTES] = RF_MAX(c->v.memory - c->load.bytes, 0);
		p.room[MILLI] = RF_MAX(RF_FLEET_MILLI - c->load.milli, 0);
	}
	for (unsigned i = 0; i < f->models[c->v.model].n_profiles; i++)
		p.slices[i] = (uint8_t)slices_on(f, c, &c->load, i, c->n_strict > 0);
	return p;
}

static void count(const struct rf_fleet *f, struct stock *s, const struct part *p, int64_t sign)
{
	const struct model *m = &f->models[p->model];

	if (!p->counts)
		return;
	s->of_model[p->model] += p->cut ? 0 : sign;
	s->untouched[BYTES] += sign * p->memory;
	s->untouched[MILLI] += p->cut ? 0 : sign * RF_FLEET_MILLI;
	for (unsigned i = 0; i < m->n_profiles; i++) {
		if (m->kinds[i] == RF_FLEET_KINDS_MAX)
			continue;
		s->slices[m->kinds[i]] += sign * p->slices[i];
		s->on_cut[m->kinds[i]] += p->cut ? sign * p->slices[i] : 0;
	}
	while (p->trust >= s->domains.n)
		rf_vec_push(&s->domains, (struct room){ 0 });
	for (int i = 0; i < AMOUNTS; i++)
		s->domains.at[p->trust].of[i] += sign * p->room[i];
}

static void recount(const struct rf_fleet *f, struct stock *s, uint32_t node)
{
	const struct node *n = &f->nodes.at[node];
	struct shelf *v = &s->nodes.at[node];

	if (v->n < n->n_cards) {
		v->cards = rf_realloc(v->cards, n->n_cards * sizeof(*v->cards));
		memset(v->cards + v->n, 0, (n->n_cards - v->n) * sizeof(*v->cards));
		v->n = n->n_cards;
	}
	for (unsigned i = 0; i < v->n; i++) {
		count(f, s, &v->cards[i], -1);
		v->cards[i] = i < n->n_cards ? look_at(f, n, &n->cards[i]) : (struct part){ 0 };
		count(f, s, &v->cards[i], 1);
	}
}

static void catch_up(const struct rf_fleet *f, struct stock *s)
{
	uint64_t now = fl_lanes_count(f->lanes);
	bool all = s->nodes.n < f->nodes.n || now - s->seen > RF_MIN((uint64_t)f->nodes.n, FL_CHANGES);
	uint32_t last = RF_FLEET_NONE;

	while (s->nodes.n < f->nodes.n)
		rf_vec_push(&s->nodes, (struct shelf){ 0 });
	for (uint32_t i = 0; all && i < f->nodes.n; i++)
		recount(f, s, i);
	for (; !all && s->seen < now; s->seen++) {
		uint32_t node = fl_lanes_change(f->lanes, s->seen);

		if (node != last)
			recount(f, s, node);
		last = node;
	}
	s->seen = now;
}

bool fl_audit_stock(const struct rf_fleet *f)
{
	struct stock *again;
	bool good;

	if (f->stock == NULL)
		return true;
	catch_up(f, f->stock);
	again = rf_new(struct stock);
	catch_up(f, again);
	good = memcmp(again->of_model, f->stock->of_model, sizeof(again->of_model)) == 0 &&
	       memcmp(again->untouched, f->stock->untouched, sizeof(again->untouched)) == 0 &&
	       memcmp(again->slices, f->stock->slices, sizeof(again->slices)) == 0 &&
	       memcmp(again->on_cut, f->stock->on_cut, sizeof(again->on_cut)) == 0 && again->domains.n <= f->stock->domains.n;
	for (size_t i = 0; i < f->stock->domains.n && good; i++) {
		struct room r = i < again->domains.n ? again->domains.at[i] : (struct room){ 0 };

		good = memcmp(&r, &f->stock->domains.at[i], sizeof(r)) == 0;
	}
	fl_stock_free(again);
	return good;
}

/* --- what may be taken ------------------------------------------------------------------------ */

static int64_t cards_for(int64_t amount, int64_t each)
{
	return each > 0 ? (amount + each - 1) / each : 0;
}

/* How many slices of a kind an untouched card has at most, and how many eighths of it each takes. */
static int64_t most_slices(const struct rf_fleet *f, unsigned kind, int64_t *ret_eighths)
{
	int64_t each = 0;

	*ret_eighths = EIGHTHS;
	FL_EACH_BIT (m, f->present) {
		struct card c = { .v.model = (uint8_t)m };

		for (unsigned i = 0; i < f->models[m].n_profiles; i++) {
			if (f->models[m].kinds[i] != kind)
				continue;
			each = RF_MAX(each, (int64_t)fl_slices_left(f, &c, &c.load, i));
			*ret_eighths = RF_MIN(*ret_eighths, (int64_t)f->models[m].profiles[i].memory_slices);
		}
	}
	return each;
}

/* The least that are needed of untouched cards for slices, with so much more room on cards that are cut. */
static int64_t cards_for_slices(const struct rf_fleet *f, const int64_t *more)
{
	int64_t most = 0, all = 0;

	FL_EACH_BIT (k, f->spare.kinds) {
		int64_t lacks = RF_MAX(f->spare.lacks[k] - (more != NULL ? more[k] : 0), 0), eighths;
		int64_t each = lacks > 0 ? most_slices(f, k, &eighths) : 0;

		most = RF_MAX(most, cards_for(lacks, each));
		all += each > 0 ? lacks * eighths : 0;
	}
	return RF_MAX(most, cards_for(all, EIGHTHS));
}

static int64_t largest_card(const struct rf_fleet *f)
{
	int64_t most = 0;

	FL_EACH_BIT (m, f->present)
		most = RF_MAX(most, f->models[m].index->memory_max);
	return most;
}

/* The same for shares of its own domain, with so much more room on its cards. */
static int64_t cards_for_own(const struct rf_fleet *f, const int64_t *more)
{
	int64_t cards = 0;

	for (int k = 0; k < AMOUNTS; k++) {
		if (f->spare.own_lacks[k] != INT64_MIN)
			cards = RF_MAX(cards, cards_for(RF_MAX(f->spare.own_lacks[k] - more[k], 0), k == BYTES ? largest_card(f) : RF_FLEET_MILLI));
	}
	return cards;
}

static bool asks_for(const struct rf_fleet_ask *ask, enum rf_fleet_kind kind)
{
	for (unsigned i = 0; i < ask->n_parts; i++) {
		if (ask->parts[i].kind == kind)
			return true;
	}
	return false;
}

/* What others keep for shares: cards of their own domain are for theirs, the rest takes untouched ones. Of its own domain it is
 * its own shares' to leave room, on whichever cards. Returns how many cards at least. */
static int64_t weigh_shares(const struct rf_fleet *f, const struct rf_fleet_ask *ask, struct spare *s)
{
	int64_t most = largest_card(f), cards = 0, others[AMOUNTS] = { 0 };
	bool shares = asks_for(ask, RF_FLEET_SHARE);

	for (size_t i = 0; i < ask->leave->n_shares; i++) {
		const struct rf_fleet_leave_share *v = &ask->leave->shares[i];
		int64_t keeps[AMOUNTS] = { v->bytes, v->milli }, each[AMOUNTS] = { most, RF_FLEET_MILLI }, n = 0;

		for (int k = 0; k < AMOUNTS; k++) {
			int64_t room = v->trust > 0 && v->trust < f->stock->domains.n ? f->stock->domains.at[v->trust].of[k] : 0;

			if (keeps[k] == 0)
				continue;
			if (shares && v->trust != 0 && v->trust == ask->owner.trust) {
				s->own[k] = f->stock->untouched[k] + room - keeps[k];
				s->own_lacks[k] = keeps[k] - room;
				continue;
			}
			others[k] += RF_MAX(keeps[k] - room, 0);
			n = RF_MAX(n, cards_for(RF_MAX(keeps[k] - room, 0), each[k]));
		}
		cards += n;
	}
	for (int k = 0; k < AMOUNTS; k++) {
		s->opened[k] = others[k] > 0 ? f->stock->untouched[k] - others[k] : INT64_MAX;
		s->own[k] -= s->own[k] != INT64_MAX ? others[k] : 0;
	}
	return cards;
}

void fl_weigh(struct rf_fleet *f, const struct rf_fleet_ask *ask)
{
	const struct rf_fleet_leave *l = ask->leave;
	struct spare *s = &f->spare;

	if (l == NULL)
		return;
	s->models = l->models;
	s->kinds = l->kinds;
	s->needs = l->cards;
	s->cards = f->untouched - l->cards;
	s->opened[BYTES] = s->opened[MILLI] = s->own[BYTES] = s->own[MILLI] = INT64_MAX;
	s->own_lacks[BYTES] = s->own_lacks[MILLI] = INT64_MIN;
	if (l->models == 0 && l->kinds == 0 && l->n_shares == 0)
		return;
	if (f->stock == NULL)
		f->stock = rf_new(struct stock);
	catch_up(f, f->stock);
	FL_EACH_BIT (m, l->models)
		s->of_model[m] = f->stock->of_model[m] - l->of_model[m];
	FL_EACH_BIT (k, l->kinds) {
		s->slices[k] = f->stock->slices[k] - l->slices[k];
		s->lacks[k] = l->slices[k] - f->stock->on_cut[k];
	}
	s->needs += weigh_shares(f, ask, s);
	s->cards = f->untouched - s->needs - cards_for_slices(f, NULL) - cards_for_own(f, (const int64_t[AMOUNTS]){ 0 });
}

static bool within(int64_t takes, int64_t spare)
{
	return takes == 0 || takes <= spare;
}

/* Slices of a kind that could be had of the card with this load. */
static int64_t slices_of(const struct rf_fleet *f, const struct card *c, const struct load *l, unsigned kind, bool strict)
{
	const struct model *m = &f->models[c->v.model];

	for (unsigned i = 0; i < m->n_profiles; i++) {
		if (m->kinds[i] == kind)
			return slices_on(f, c, l, i, strict);
	}
	return 0;
}

bool fl_spares_cards(const struct rf_fleet *f, const struct card *c, int64_t n)
{
	const struct spare *s = &f->spare;
	int64_t memory = n * c->v.memory, milli = n * RF_FLEET_MILLI;

	if (n > s->cards || ((s->models >> c->v.model & 1) && n > s->of_model[c->v.model]) || memory > s->opened[BYTES] ||
	    memory > s->own[BYTES] || milli > s->opened[MILLI] || milli > s->own[MILLI])
		return false;
	FL_EACH_BIT (k, s->kinds) {
		if (!within(n * slices_of(f, c, &c->load, k, c->n_strict > 0), s->slices[k]))
			return false;
	}
	return true;
}

/* What the grants take of the slices of a kind on the cards that they are on. ret_more: so many more are on cards that are cut then. */
static int64_t takes_slices(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask, const struct rf_fleet_grant *g,
			    size_t n_g, uint64_t on, unsigned kind, int64_t *ret_more)
{
	int64_t takes = 0;

	*ret_more = 0;
	FL_EACH_BIT (i, on) {
		const struct card *c = &n->cards[i];
		struct load after = c->load;
		bool strict = c->n_strict > 0;
		int64_t had = slices_of(f, c, &c->load, kind, strict), has;

		for (size_t k = 0; k < n_g; k++) {
			if (g[k].card != i)
				continue;
			fl_load_add(f, c, &after, &g[k]);
			strict = strict || (g[k].kind == RF_FLEET_SLICE && ask->owner.level < RF_ISOLATION_SLICE);
		}
		has = slices_of(f, c, &after, kind, strict);
		takes += had - has;
		*ret_more += has - (fl_opens(c, &c->load) ? 0 : had);
	}
	return takes;
}

bool fl_spares(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_ask *ask, const struct rf_fleet_grant *g,
	       size_t n_g)
{
	const struct spare *s = &f->spare;
	int64_t cards = 0, of_model[RF_FLEET_MODELS_MAX], more[RF_FLEET_KINDS_MAX], opened[AMOUNTS] = { 0 }, own[AMOUNTS] = { 0 },
		own_more[AMOUNTS] = { 0 };
	uint64_t on = 0;

	FL_EACH_BIT (m, s->models)
		of_model[m] = 0;
	for (size_t i = 0; i < n_g; i++) {
		const struct card *c = &n->cards[g[i].card];
		bool opens = !(on >> g[i].card & 1) && fl_opens(c, &c->load), share = g[i].kind == RF_FLEET_SHARE;
		int64_t all[AMOUNTS] = { opens ? c->v.memory : 0, opens ? RF_FLEET_MILLI : 0 }, part[AMOUNTS] = { g[i].bytes, g[i].milli };

		on |= (uint64_t)1 << g[i].card;
		cards += opens;
		if (s->models >> c->v.model & 1)
			of_model[c->v.model] += opens;
		for (int k = 0; k < AMOUNTS; k++) {
			opened[k] += all[k];
			own[k] += share ? part[k] : all[k];
			own_more[k] += share ? all[k] - part[k] : 0;
		}
	}
	if (!within(opened[BYTES], s->opened[BYTES]) || !within(opened[MILLI], s->opened[MILLI]) || !within(own[BYTES], s->own[BYTES]) ||
	    !within(own[MILLI], s->own[MILLI]))
		return false;
	FL_EACH_BIT (m, s->models) {
		if (!within(of_model[m], s->of_model[m]))
			return false;
	}
	FL_EACH_BIT (k, s->kinds) {
		if (!within(takes_slices(f, n, ask, g, n_g, on, k, &more[k]), s->slices[k]))
			return false;
	}
	return cards == 0 || f->untouched - cards >= s->needs + cards_for_slices(f, more) + cards_for_own(f, own_more);
}

/* More than it could take is as good as all there is. */
static uint64_t up_to(int64_t spare, int64_t most)
{
	return (uint64_t)RF_MAX(RF_MIN(spare, most), 0);
}

static int64_t pieces(const struct rf_fleet_ask *ask)
{
	int64_t n = 0;

	for (unsigned i = 0; i < ask->n_parts; i++)
		n += ask->parts[i].n;
	return n;
}

uint64_t fl_sign_spare(const struct rf_fleet *f, const struct rf_fleet_ask *ask)
{
	const struct spare *s = &f->spare;
	int64_t n = pieces(ask), memory = largest_card(f), enough = n * (3 + __builtin_popcountll(s->kinds));
	uint64_t h = fl_mix(s->models, s->kinds);

	h = fl_mix(h, up_to(s->cards + enough, 2 * enough));
	/* so few that it matters for how many slices and shares cards are needed then */
	FL_EACH_BIT (k, s->cards < enough && asks_for(ask, RF_FLEET_SLICE) ? s->kinds : 0)
		h = fl_mix(h, (uint64_t)RF_MAX(s->lacks[k], -n * EIGHTHS));
	for (int k = 0; k < AMOUNTS && s->cards < enough && asks_for(ask, RF_FLEET_SHARE); k++)
		h = fl_mix(h, (uint64_t)s->own_lacks[k]);
	FL_EACH_BIT (m, s->models)
		h = fl_mix(h, up_to(s->of_model[m], n));
	FL_EACH_BIT (k, s->kinds)
		h = fl_mix(h, up_to(s->slices[k], n * RF_MIG_MEMORY_SLICES));
	h = fl_mix(h, up_to(s->opened[BYTES], n * memory));
	h = fl_mix(h, up_to(s->own[BYTES], n * memory));
	h = fl_mix(h, up_to(s->opened[MILLI], n * RF_FLEET_MILLI));
	return fl_mix(h, up_to(s->own[MILLI], n * RF_FLEET_MILLI));
}

int64_t rf_fleet_may_open(struct rf_fleet *f, const struct rf_fleet_ask *ask)
{
	int64_t most = 0;

	if (ask->leave == NULL)
		return f->untouched;
	fl_weigh(f, ask);
	FL_EACH_BIT (m, fl_models(ask) & f->present) {
		int64_t n = f->spare.models >> m & 1 ? RF_MIN(f->spare.cards, f->spare.of_model[m]) : f->spare.cards;

		most = RF_MAX(most, n);
	}
	return most;
}
