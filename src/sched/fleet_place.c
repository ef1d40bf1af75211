/* Which cards of one node a request gets. */
#include "sched/fleet_private.h"

#define STEPS_MAX 2000 /* of a search over several shares and slices */
#define WAY_LOST ((int64_t)WEIGHTS * RF_FLEET_MILLI)
#define CARD_OPENED (WAY_LOST * 9 / 10)

struct trial {
	struct rf_fleet *f;
	struct node *n;
	const struct rf_fleet_ask *ask;
	bool stranger;
	uint64_t closed; /* cards, by who is on others of their group */
};

static bool is_closed(const struct trial *t, const struct card *c)
{
	return t->closed != 0 && (t->closed >> (c - t->n->cards) & 1);
}

static bool usable(const struct trial *t, const struct card *c, const struct load *l, const struct need *need)
{
	return c->there && c->v.healthy && fl_has_room(t->f, c, l, need) &&
	       fl_card_open(c, &t->ask->owner, (enum rf_fleet_kind)need->kind) && !is_closed(t, c) &&
	       (need->kind == RF_FLEET_SLICE || fl_clean(c, &t->ask->owner, 0xff, t->stranger));
}

static bool spares(const struct trial *t, const struct rf_fleet_grant *g, size_t n)
{
	return t->ask->leave == NULL || fl_spares(t->f, t->n, t->ask, g, n);
}

static struct rf_fleet_grant grant_of(const struct rf_fleet_part *p, unsigned part, unsigned card, unsigned start)
{
	bool share = p->kind == RF_FLEET_SHARE;

	return (struct rf_fleet_grant){ .card = (uint8_t)card,
					.part = (uint8_t)part,
					.kind = (uint8_t)p->kind,
					.profile = p->kind == RF_FLEET_SLICE ? p->profile : 0,
					.start = (uint8_t)start,
					.bytes = share ? p->bytes : 0,
					.milli = share ? p->milli : 0 };
}

/* --- whole cards ------------------------------------------------------------------------------ */

/* Cards by island and NUMA node, so that cards close to each other are found, and no larger group is broken up
 * than necessary. */
struct group {
	uint8_t island, numa;
	uint64_t cards;
	uint64_t island_cards;
};

static size_t group_cards(const struct node *n, uint64_t free, struct group *g)
{
	size_t n_g = 0, j;

	FL_EACH_BIT (i, free) {
		const struct rf_fleet_card *c = &n->cards[i].v;

		for (j = 0; j < n_g; j++)
			if (g[j].island == c->island && g[j].numa == c->numa)
				break;
		if (j == n_g)
			g[n_g++] = (struct group){ .island = c->island, .numa = c->numa };
		g[j].cards |= (uint64_t)1 << i;
	}
	for (size_t a = 0; a < n_g; a++)
		for (size_t b = 0; b < n_g; b++)
			if (g[a].island == g[b].island)
				g[a].island_cards |= g[b].cards;
	return n_g;
}

/* The smallest group, or island, with at least k cards. */
static uint64_t smallest(const struct group *g, size_t n, int k, bool islands)
{
	uint64_t best = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t cards = islands ? g[i].island_cards : g[i].cards;
		int count = __builtin_popcountll(cards);

		if (count >= k && (best == 0 || count < __builtin_popcountll(best)))
			best = cards;
	}
	return best;
}

/* k of these cards, those with little memory first. */
static uint64_t smallest_cards(const struct node *n, uint64_t from, int k)
{
	uint64_t chosen = 0;

	for (; k > 0; k--) {
		int best = -1;

		FL_EACH_BIT (i, from)
			if (best < 0 || n->cards[i].v.memory < n->cards[best].v.memory)
				best = (int)i;
		chosen |= (uint64_t)1 << best;
		from &= ~((uint64_t)1 << best);
	}
	return chosen;
}

/* Across islands: the fullest first, so that few are touched. */
static uint64_t across(const struct node *n, const struct group *g, size_t n_g, int k)
{
	uint64_t chosen = 0;

	while (k > 0) {
		uint64_t best = 0;
		int take;

		for (size_t i = 0; i < n_g; i++)
			if ((g[i].island_cards & chosen) == 0 &&
			    __builtin_popcountll(g[i].island_cards) > __builtin_popcountll(best))
				best = g[i].island_cards;
		take = RF_MIN(k, __builtin_popcountll(best));
		chosen |= smallest_cards(n, best, take);
		k -= take;
	}
	return chosen;
}

static uint64_t choose_whole(const struct trial *t, const struct rf_fleet_part *p, uint64_t free)
{
	struct group g[RF_FLEET_CARDS_MAX] RF_UNINITIALIZED;
	size_t n_g;
	uint64_t from;

	if (__builtin_popcountll(free) < p->n)
		return 0;
	n_g = group_cards(t->n, free, g);
	from = smallest(g, n_g, p->n, false);
	if (from == 0)
		from = smallest(g, n_g, p->n, true);
	if (from != 0)
		return smallest_cards(t->n, from, p->n);
	return p->one_island ? 0 : across(t->n, g, n_g, p->n);
}

/* The cards for one part, as bits; 0: there are not enough. loads: of the trial so far, or NULL. */
static uint64_t whole_cards(const struct trial *t, unsigned part, const struct load *loads)
{
	uint64_t free = 0, models = fl_models(t->ask);

	for (unsigned i = 0; i < t->n->n_cards; i++) { /* those that are usable, looked at in place: this is asked all the time */
		const struct card *c = &t->n->cards[i];

		if (fl_untouched(loads ? &loads[i] : &c->load) && c->there && c->v.healthy && !c->v.sliced &&
		    (models >> c->v.model & 1) && (!c->dirty || fl_clean(c, &t->ask->owner, 0xff, t->stranger)))
			free |= (uint64_t)1 << i;
	}
	free &= ~t->closed;
	FL_EACH_BIT (i, t->ask->leave != NULL ? free : 0) {
		if (!fl_spares_cards(t->f, &t->n->cards[i], t->ask->parts[part].n))
			free &= ~((uint64_t)1 << i);
	}
	return choose_whole(t, &t->ask->parts[part], free);
}

static int64_t place_whole(const struct trial *t, struct rf_fleet_place *ret)
{
	struct touched touched[RF_FLEET_CARDS_MAX] RF_UNINITIALIZED;
	uint64_t cards = whole_cards(t, 0, NULL);
	size_t n = 0;

	if (cards == 0)
		return NEVER;
	FL_EACH_BIT (i, cards) {
		touched[n++] = (struct touched){ .card = (uint8_t)i, .opened = true, .rest = &fl_no_rest };
		if (ret != NULL)
			ret->grants[ret->n++] = grant_of(&t->ask->parts[0], 0, i, 0);
	}
	return fl_score(t->f, t->n, t->ask, touched, n);
}

/* --- one share -------------------------------------------------------------------------------- */

/* Cards that look the same lead to the same score. */
static bool alike(const struct card *a, const struct card *b)
{
	return a->v.model == b->v.model && a->v.memory == b->v.memory && a->v.sliced == b->v.sliced &&
	       a->v.fixed == b->v.fixed && memcmp(&a->load, &b->load, sizeof(a->load)) == 0;
}

static bool seen_before(const struct node *n, unsigned card, uint64_t tried)
{
	FL_EACH_BIT (i, tried)
		if (alike(&n->cards[i], &n->cards[card]))
			return true;
	return false;
}

/* way: what each way to place a slice costs that is lost by it. */
static int64_t try_on(const struct trial *t, const struct rf_fleet_grant *g, int64_t way)
{
	const struct card *c = &t->n->cards[g->card];
	struct load after = c->load;
	struct touched touched = { .card = g->card, .opened = fl_untouched(&c->load) };

	fl_load_add(t->f, c, &after, g);
	touched.rest = fl_rest(t->f, c, &after);
	return fl_score(t->f, t->n, t->ask, &touched, 1) + (c->rest.ways - touched.rest->ways) * way;
}

static int64_t place_share(const struct trial *t, struct rf_fleet_place *ret)
{
	const struct rf_fleet_part *p = &t->ask->parts[0];
	struct need need = fl_need(t->ask, p);
	struct rf_fleet_grant best = { 0 };
	int64_t best_score = NEVER;
	uint64_t tried = 0;

	FL_EACH_BIT (i, t->n->for_shares) {
		const struct card *c = &t->n->cards[i];
		struct rf_fleet_grant g RF_UNINITIALIZED;
		int64_t score;

		if (!usable(t, c, &c->load, &need) || seen_before(t->n, i, tried))
			continue;
		tried |= (uint64_t)1 << i;
		g = grant_of(p, 0, i, 0);
		if (!spares(t, &g, 1))
			continue;
		score = try_on(t, &g, 0);
		if (score < best_score) {
			best_score = score;
			best = g;
		}
	}
	if (best_score != NEVER && ret != NULL)
		ret->grants[ret->n++] = best;
	return best_score;
}

/* --- one slice -------------------------------------------------------------------------------- */

/* What a slice in an unlucky place costs is the ways to place anything that are lost; among those that lose as many, a
 * card that is cut already is better. This fills cards further than looking at what is free alone
 * (docs/benchmarks/sched.md). */
static void try_slices_on(const struct trial *t, unsigned card, struct rf_fleet_grant *best, int64_t *best_score)
{
	const struct rf_fleet_part *p = &t->ask->parts[0];
	const struct card *c = &t->n->cards[card];
	bool frag = fl_policy(t->n, t->ask) == RF_FLEET_FRAG;
	int64_t opening = frag && fl_untouched(&c->load) ? CARD_OPENED : 0;

	FL_EACH_BIT (start, fl_starts(t->f, c, &c->load, p->profile)) {
		struct rf_fleet_grant g = grant_of(p, 0, card, start);
		int64_t score;

		if (!fl_clean(c, &t->ask->owner, fl_mask(t->f, c, &g), t->stranger) || !spares(t, &g, 1))
			continue;
		score = try_on(t, &g, frag ? WAY_LOST : 1) + opening;
		if (score < *best_score) {
			*best_score = score;
			*best = g;
		}
	}
}

static int64_t place_slice(const struct trial *t, struct rf_fleet_place *ret)
{
	const struct rf_fleet_part *p = &t->ask->parts[0];
	struct need need = fl_need(t->ask, p);
	struct rf_fleet_grant best = { 0 };
	int64_t best_score = NEVER;
	uint64_t tried = 0;

	FL_EACH_BIT (i, t->n->for_slices) {
		const struct card *c = &t->n->cards[i];

		if (!(c->rest.profiles >> p->profile & 1) || !usable(t, c, &c->load, &need) ||
		    (!c->dirty && seen_before(t->n, i, tried)))
			continue;
		if (!c->dirty)
			tried |= (uint64_t)1 << i;
		try_slices_on(t, i, &best, &best_score);
	}
	if (best_score != NEVER && ret != NULL)
		ret->grants[ret->n++] = best;
	return best_score;
}

/* --- several parts ---------------------------------------------------------------------------- */

/* Slices and shares, large ones first and on used cards where they can; then whole cards of what is left free.
 * This is a search: the first way down is the greedy answer, and only where that fails are others tried, up to a
 * bound. */
struct search {
	const struct trial *t;
	struct load loads[RF_FLEET_CARDS_MAX];
	uint64_t on[RF_FLEET_PARTS_MAX]; /* cards that a part is on */
	uint8_t items[RF_FLEET_CARDS_MAX]; /* parts */
	size_t n_items;
	struct rf_fleet_grant grants[RF_FLEET_CARDS_MAX];
	size_t n;
	int steps;
};

/* Used cards before free ones, then the one with the least room. */
static int64_t rank(const struct search *s, unsigned card)
{
	const struct card *c = &s->t->n->cards[card];

	return ((int64_t)fl_untouched(&s->loads[card]) << 32 | (uint32_t)fl_load_free(c, &s->loads[card])) << 8 |
	       card;
}

/* Those who need an island first, then the larger ones. */
static int next_whole(const struct search *s, unsigned done)
{
	int best = -1;

	for (int i = 0; i < s->t->ask->n_parts; i++) {
		const struct rf_fleet_part *p = &s->t->ask->parts[i];

		if (p->kind != RF_FLEET_WHOLE || (done >> i & 1))
			continue;
		if (best < 0 || p->one_island * 256 + p->n >
					s->t->ask->parts[best].one_island * 256 + s->t->ask->parts[best].n)
			best = i;
	}
	return best;
}

static bool place_wholes(struct search *s)
{
	size_t had = s->n;
	unsigned done = 0;
	int part;

	while ((part = next_whole(s, done)) >= 0) {
		uint64_t cards = whole_cards(s->t, (unsigned)part, s->loads);

		FL_EACH_BIT (i, cards) {
			s->grants[s->n] = grant_of(&s->t->ask->parts[part], (unsigned)part, i, 0);
			fl_load_add(s->t->f, &s->t->n->cards[i], &s->loads[i], &s->grants[s->n++]);
		}
		done |= 1u << part;
		if (cards != 0 && spares(s->t, s->grants, s->n))
			continue;
		for (; s->n > had; s->n--)
			s->loads[s->grants[s->n - 1].card].n_whole--;
		return false;
	}
	return true;
}

static bool place_items(struct search *s, size_t i);

static bool place_item_on(struct search *s, size_t i, unsigned card, unsigned start)
{
	unsigned part = s->items[i];
	const struct rf_fleet_part *p = &s->t->ask->parts[part];
	const struct card *c = &s->t->n->cards[card];
	struct rf_fleet_grant g = grant_of(p, part, card, start);
	struct load before = s->loads[card];
	uint64_t on = s->on[part];

	if (p->kind == RF_FLEET_SLICE &&
	    !fl_clean(c, &s->t->ask->owner, fl_mask(s->t->f, c, &g), s->t->stranger))
		return false;
	fl_load_add(s->t->f, c, &s->loads[card], &g);
	s->on[part] |= (uint64_t)1 << card;
	s->grants[s->n++] = g;
	if (spares(s->t, s->grants, s->n) && place_items(s, i + 1))
		return true;
	s->n--;
	s->on[part] = on;
	s->loads[card] = before;
	return false;
}

static int next_card(const struct search *s, unsigned part, int64_t after)
{
	const struct rf_fleet_part *p = &s->t->ask->parts[part];
	struct need need = fl_need(s->t->ask, p);
	int64_t best = INT64_MAX;

	for (unsigned i = 0; i < s->t->n->n_cards; i++) {
		int64_t r = rank(s, i);

		if (r > after && r < best && usable(s->t, &s->t->n->cards[i], &s->loads[i], &need) &&
		    !(p->apart && (s->on[part] >> i & 1)))
			best = r;
	}
	return best == INT64_MAX ? -1 : (int)(best & 0xff);
}

static bool place_items(struct search *s, size_t i)
{
	int64_t after = -1;
	int card;

	if (i == s->n_items)
		return place_wholes(s);
	while ((card = next_card(s, s->items[i], after)) >= 0) {
		const struct rf_fleet_part *p = &s->t->ask->parts[s->items[i]];
		uint8_t starts = 1;

		after = rank(s, (unsigned)card);
		if (p->kind == RF_FLEET_SLICE)
			starts = fl_starts(s->t->f, &s->t->n->cards[card], &s->loads[card], p->profile);
		FL_EACH_BIT (start, starts) {
			if (++s->steps > STEPS_MAX)
				return false;
			if (place_item_on(s, i, (unsigned)card, start))
				return true;
		}
	}
	return false;
}

static bool larger(const struct trial *t, unsigned a, unsigned b)
{
	const struct rf_fleet_part *pa = &t->ask->parts[a], *pb = &t->ask->parts[b];

	if (pa->kind != pb->kind)
		return pa->kind > pb->kind;
	if (pa->kind == RF_FLEET_SLICE && pa->profile != pb->profile)
		return pa->profile > pb->profile;
	if (pa->bytes != pb->bytes)
		return pa->bytes > pb->bytes;
	return pa->milli > pb->milli;
}

static void list_items(struct search *s)
{
	uint8_t parts[RF_FLEET_PARTS_MAX];
	size_t n = 0;

	for (unsigned i = 0; i < s->t->ask->n_parts; i++) {
		size_t j = n;

		if (s->t->ask->parts[i].kind == RF_FLEET_WHOLE)
			continue;
		for (; j > 0 && larger(s->t, i, parts[j - 1]); j--)
			parts[j] = parts[j - 1];
		parts[j] = (uint8_t)i;
		n++;
	}
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; k < s->t->ask->parts[parts[i]].n; k++)
			s->items[s->n_items++] = parts[i];
}

static int64_t place_parts(const struct trial *t, struct rf_fleet_place *ret)
{
	struct touched touched[RF_FLEET_CARDS_MAX] RF_UNINITIALIZED;
	struct rest rests[RF_FLEET_CARDS_MAX] RF_UNINITIALIZED;
	struct search s RF_UNINITIALIZED;
	uint64_t cards = 0;
	size_t n_t = 0;

	s.t = t;
	s.n = s.n_items = 0;
	s.steps = 0;
	memset(s.on, 0, sizeof(s.on));
	for (unsigned i = 0; i < t->n->n_cards; i++)
		s.loads[i] = t->n->cards[i].load;
	list_items(&s);
	if (!place_items(&s, 0))
		return NEVER;
	for (size_t i = 0; i < s.n; i++)
		cards |= (uint64_t)1 << s.grants[i].card;
	FL_EACH_BIT (i, cards) {
		const struct card *c = &t->n->cards[i];

		rests[n_t] = *fl_rest(t->f, c, &s.loads[i]);
		touched[n_t] = (struct touched){ .card = (uint8_t)i, .opened = fl_untouched(&c->load), .rest = &rests[n_t] };
		n_t++;
	}
	if (ret != NULL) {
		memcpy(ret->grants, s.grants, s.n * sizeof(s.grants[0]));
		ret->n = (uint32_t)s.n;
	}
	return fl_score(t->f, t->n, t->ask, touched, n_t);
}

/* --- twins ------------------------------------------------------------------------------------ */

static uint64_t sign_card(uint64_t h, const struct card *c)
{
	const struct load *l = &c->load;
	uint64_t profiles;

	memcpy(&profiles, l->of_profile, sizeof(profiles));
	h = fl_mix(h, (uint64_t)c->v.memory);
	h = fl_mix(h, (uint64_t)c->v.model << 32 | (uint64_t)c->v.island << 24 | (uint64_t)c->v.numa << 16 |
			      (uint64_t)c->v.absent << 5 | (uint64_t)c->there << 4 | (uint64_t)c->v.healthy << 3 | (uint64_t)c->v.sliced << 2 |
			      (uint64_t)c->v.fixed << 1 | c->dirty);
	h = fl_mix(h, (uint64_t)l->bytes);
	h = fl_mix(h, (uint64_t)(uint32_t)l->milli << 32 | (uint64_t)l->n_whole << 16 | l->n_share);
	h = fl_mix(h, (uint64_t)l->n_slice << 32 | (uint64_t)l->mask << 16 | l->compute);
	h = fl_mix(h, profiles);
	h = fl_mix(h, (uint64_t)c->trust << 32 | c->slicer);
	h = fl_mix(h, c->n_strict);
	for (unsigned i = 0; c->dirty && i < EIGHTHS; i++)
		h = fl_mix(h, (uint64_t)(c->lifted[i] != 0) << 32 | c->dirt[i]);
	return h;
}

uint64_t fl_sign(struct rf_fleet *f, uint32_t node)
{
	const struct node *n = &f->nodes.at[node];
	uint64_t h = 1;

	if (f->signs.at[node] != 0)
		return f->signs.at[node];
	h = fl_mix(h, (uint64_t)n->cpu);
	h = fl_mix(h, (uint64_t)n->cpu_left);
	h = fl_mix(h, (uint64_t)n->memory_left);
	h = fl_mix(h, (uint64_t)n->kept << 2 | (uint64_t)(n->pods_left > 0) << 1 | n->cordoned);
	h = fl_mix(h, (uint64_t)n->pooled << 9 | (uint64_t)(n->rack != NULL) << 8 | n->policy);
	h = fl_sign_guests(h, &n->guests);
	if (n->rack != NULL)
		h = fl_sign_guests(h, &n->rack->guests);
	h = fl_mix(h, n->barred);
	for (unsigned i = 0; i < n->n_cards; i++)
		h = sign_card(h, &n->cards[i]);
	f->signs.at[node] = h != 0 ? h : 1;
	return f->signs.at[node];
}

/* In a new epoch. */
static void look_at_cards(const struct rf_fleet *f, struct node *n)
{
	for (unsigned i = 0; i < n->n_cards; i++)
		fl_card_changed(f, &n->cards[i]);
	n->hosted = f->epoch;
}

int64_t fl_place(struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask, bool stranger,
		 struct rf_fleet_place *ret)
{
	struct trial t = { .f = f, .n = &f->nodes.at[node], .ask = ask, .stranger = stranger };

	if (ret != NULL)
		ret->n = 0;
	if (!fl_node_fits(t.n, ask) || !fl_in_class(f, ask->class, node))
		return NEVER;
	if (t.n->hosted != f->epoch)
		look_at_cards(f, t.n);
	if (ask->n_parts == 0)
		return fl_score(f, t.n, ask, NULL, 0);
	if ((t.n->models & fl_models(ask)) == 0)
		return NEVER;
	t.closed = fl_closed(f, t.n, &ask->owner);
	if (ask->n_parts > 1)
		return place_parts(&t, ret);
	if (ask->parts[0].kind == RF_FLEET_WHOLE)
		return place_whole(&t, ret);
	if (ask->parts[0].n > 1)
		return place_parts(&t, ret);
	return ask->parts[0].kind == RF_FLEET_SHARE ? place_share(&t, ret) : place_slice(&t, ret);
}
