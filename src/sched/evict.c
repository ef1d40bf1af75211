/* What has to go for a waiting workload.
 *
 * A unit is what goes together: a gang as a whole, or one of its members above the minimum. The search is for places:
 * for each member of the waiting gang the node where the least has to go for it, by an estimate first and then tried
 * out; then for quota, should that be short. What was found is checked by placing the gang (gang.h), and thinned out
 * until no unit can be put back. Units are lifted from the fleet and taken from the queues' books; all of that is
 * undone in the end. */
#include "sched/evict.h"

#define EXHAUSTIVE 12	/* so many units are tried in every combination */
#define TRIES 4		/* nodes tried out for one member, once one was found */
#define DOMAINS_MAX 8	/* domains tried */
#define ALL_MAX 512	/* with more units, taking everything is not tried */
#define PROOFS_MAX 5000 /* of one plan */
#define SPARED_MAX 8	/* works left out in turn, because they would be within their guarantee */

/* LOST: goes, nobody knows when (a claim on a node that is gone). Its queue is judged without it, and nothing counts on it. */
enum { LEAVING = 1, RECLAIM = 2, PRIORITY = 4, LOST = 8 };

struct member {
	struct rf_evict_member v;
	uint32_t node; /* RF_FLEET_NONE: holds nothing */
	uint32_t unit;
	uint32_t cards;
	bool keeps_out; /* of its whole rack */
};

struct way { /* a rack that others keep it out of */
	const uint32_t *nodes;
	size_t n;
	size_t shut, movable, leaving; /* holds that do; of these members; of these who go anyway */
	bool opens;		       /* were these gone */
	bool tried;		       /* in vain: some of them may not go */
};

struct unit {
	uint32_t take;	  /* in rf_takes_all */
	uint32_t at, n;	  /* members */
	uint32_t first;	  /* unit of the same gang: from there to this one all go, or this one does not */
	uint32_t charged; /* members in the books */
	uint32_t tier;
	uint8_t kind;
	bool gone;
	bool spared; /* is not to go in this attempt */
};

struct cost { /* compared in this order */
	uint32_t tier, count;
	uint64_t rank;
};

struct guess {
	struct cost cost;
	uint32_t node, stamp;
	uint64_t order; /* of the node: the first by name is the lowest */
};

struct search {
	const struct rf_evict_world *world;
	struct rf_fleet *f;
	struct rf_takes *takes;
	const struct rf_take *all; /* of them */
	struct rf_gang gang; /* its minimum only */
	uint32_t *order;     /* of its members: the largest first */
	unsigned kinds;	     /* of units that may go */
	RF_VEC(struct member) members;
	RF_VEC(struct unit) units;
	uint64_t *gone; /* the units that are, a bit each */
	uint32_t n_nodes;
	uint32_t *first, *on; /* by node: members, in the order of their units */
	uint32_t *stamps;     /* by node: grows when it changes */
	uint32_t *rack;	      /* by node: its way, one more; 0: nobody keeps it out of there, or all of it is shut */
	RF_VEC(struct way) ways;
	RF_VEC(uint32_t) set; /* units that one place needs */
	RF_VEC(const struct rf_evict_member *) go;
	RF_VEC(struct guess) heap;
	struct rf_fleet_place *places;
	uint64_t *holds;
	/* How many of the most usual member could have room, at most: to rule things out. */
	struct rf_fleet_ask usual;
	size_t n_usual;
	uint32_t *room;	      /* by node */
	uint32_t *in;	      /* by node: domain, as an index; NULL: all are in the only one */
	RF_VEC(uint64_t) totals; /* by domain */
	RF_VEC(uint32_t) domains;
	size_t n_roomy;	  /* domains with enough */
	size_t n_staying; /* units that leave anyway and are in place */
	int64_t n_priority; /* that go by priority */
	size_t proofs;
	bool unsure; /* something stays only because it was not found to be superfluous */
	bool strict; /* what fits must be within nobody's guarantee */
};

/* --- the bound -------------------------------------------------------------------------------- */

static size_t domain_of(const struct search *s, uint32_t node)
{
	return s->in != NULL ? s->in[node] : 0;
}

static void set_room(struct search *s, uint32_t node)
{
	size_t d = domain_of(s, node);
	size_t room = RF_MIN(rf_fleet_room_on(s->f, node, &s->usual), s->n_usual);
	bool was;

	if (d == RF_FLEET_NONE)
		return;
	was = s->totals.at[d] >= s->n_usual;
	s->totals.at[d] += room;
	s->totals.at[d] -= s->room[node];
	s->room[node] = (uint32_t)room;
	s->n_roomy += s->totals.at[d] >= s->n_usual;
	s->n_roomy -= was;
}

static struct way *way_of(const struct search *s, uint32_t node)
{
	struct way *w = s->rack[node] > 0 ? &s->ways.at[s->rack[node] - 1] : NULL;

	return w != NULL && w->opens ? w : NULL;
}

/* Could what is on the one node matter on the other? */
static bool is_near(const struct search *s, uint32_t a, uint32_t b)
{
	return a == b || (a != RF_FLEET_NONE && way_of(s, b) != NULL && s->rack[a] == s->rack[b]);
}

/* --- units in and out ------------------------------------------------------------------------- */

static void lift_member(struct search *s, const struct member *m)
{
	if (m->node == RF_FLEET_NONE)
		return;
	rf_fleet_lift(s->f, m->v.hold);
	if (s->world->gone != NULL)
		s->world->gone(s->world->ctx, &m->v);
}

static void unlift_member(struct search *s, const struct member *m)
{
	if (m->node == RF_FLEET_NONE)
		return;
	rf_fleet_unlift(s->f, m->v.hold);
	if (s->world->back != NULL)
		s->world->back(s->world->ctx, &m->v);
}

static void set_gone(struct search *s, struct unit *u, bool gone)
{
	size_t i = (size_t)(u - s->units.at);

	if (u->kind == PRIORITY && u->gone != gone)
		s->n_priority += gone ? 1 : -1;
	u->gone = gone;
	s->gone[i / 64] = (s->gone[i / 64] & ~(UINT64_C(1) << i % 64)) | (uint64_t)gone << i % 64;
}

static bool is_leaving(const struct unit *u)
{
	return u->kind == LEAVING || u->kind == LOST;
}

/* Only the members on this node, and in its rack if that matters; RF_FLEET_NONE: all. */
static void lift_on(struct search *s, struct unit *u, uint32_t node)
{
	for (uint32_t i = 0; i < u->n; i++)
		if (node == RF_FLEET_NONE || is_near(s, s->members.at[u->at + i].node, node))
			lift_member(s, &s->members.at[u->at + i]);
	rf_takes_take(s->takes, u->take, u->charged);
	s->n_staying -= is_leaving(u);
	set_gone(s, u, true);
}

static void unlift_on(struct search *s, struct unit *u, uint32_t node)
{
	for (uint32_t i = u->n; i-- > 0;)
		if (node == RF_FLEET_NONE || is_near(s, s->members.at[u->at + i].node, node))
			unlift_member(s, &s->members.at[u->at + i]);
	rf_takes_back(s->takes, u->take, u->charged);
	s->n_staying += is_leaving(u);
	set_gone(s, u, false);
}

static void changed_on(struct search *s, uint32_t node)
{
	s->stamps[node]++;
	set_room(s, node);
}

/* With one that keeps it out of the rack the whole of that may be open now, or not any more. */
static void changed(struct search *s, const struct unit *u)
{
	for (uint32_t i = 0; i < u->n; i++) {
		const struct member *m = &s->members.at[u->at + i];
		const struct way *w = m->keeps_out ? way_of(s, m->node) : NULL;

		for (size_t k = 0; w != NULL && k < w->n; k++)
			changed_on(s, w->nodes[k]);
		if (w == NULL && m->node != RF_FLEET_NONE)
			changed_on(s, m->node);
	}
}

static void put(struct search *s, uint32_t unit, bool gone)
{
	struct unit *u = &s->units.at[unit];

	if (u->gone == gone)
		return;
	if (gone)
		lift_on(s, u, RF_FLEET_NONE);
	else
		unlift_on(s, u, RF_FLEET_NONE);
	changed(s, u);
}

static void put_all_back(struct search *s)
{
	for (size_t i = s->units.n; i-- > 0;)
		put(s, (uint32_t)i, false);
}

static bool usable(const struct search *s, const struct unit *u)
{
	return !u->gone && !u->spared && (u->kind & s->kinds) != 0;
}

/* In the books only: those that leave anyway and are in place. */
static void charge_leaving(struct search *s, bool gone)
{
	for (size_t i = 0; i < s->units.n; i++) {
		const struct unit *u = &s->units.at[i];

		if (!is_leaving(u) || u->gone)
			continue;
		if (gone)
			rf_takes_take(s->takes, u->take, u->charged);
		else
			rf_takes_back(s->takes, u->take, u->charged);
	}
}

/* By the books as they are now. */
static bool books_allow(const struct search *s, const struct unit *u)
{
	const struct rf_evict_world *w = s->world;

	return rf_takes_may(s->takes, u->take, u->charged) &&
	       (u->kind != RECLAIM || w->shielded == NULL || !w->shielded(w->ctx, s->all[u->take].work));
}

/* What is judged is what will be: with all gone that leave anyway, whether this plan waits for them or not. */
static bool may_take(struct search *s, const struct unit *u)
{
	bool ok;

	if (u->kind == LEAVING)
		return true;
	if (s->n_staying == 0)
		return books_allow(s, u);
	charge_leaving(s, true);
	ok = books_allow(s, u);
	charge_leaving(s, false);
	return ok;
}

/* --- the order in which they go ----------------------------------------------------------------- */

/* Which of these can go when all the others have? In the books they are gone; it is put back there. Those of one gang
 * are beside each other, in their order, and stay so. */
static bool put_one_last(struct search *s, uint32_t *units, size_t n)
{
	for (size_t i = n; i-- > 0;) {
		const struct unit *u = &s->units.at[units[i]];
		uint32_t unit = units[i];

		if (i + 1 < n && s->units.at[units[i + 1]].take == u->take)
			continue;
		rf_takes_back(s->takes, u->take, u->charged);
		if (books_allow(s, u)) {
			memmove(&units[i], &units[i + 1], (n - i - 1) * sizeof(*units));
			units[n - 1] = unit;
			return true;
		}
		rf_takes_take(s->takes, u->take, u->charged);
	}
	return false;
}

/* Sorts units, none of which leaves anyway, so that each may be taken when those before it are gone. What may go when
 * more is gone may go sooner, too: so it is found from the end. False: there is no such order. In the books all of them
 * are in place, or all are gone: as_gone. */
static bool put_in_order(struct search *s, uint32_t *units, size_t n, bool as_gone)
{
	size_t left = n;

	for (size_t i = 0; i < n && !as_gone; i++)
		rf_takes_take(s->takes, s->units.at[units[i]].take, s->units.at[units[i]].charged);
	charge_leaving(s, true);
	while (left > 0 && put_one_last(s, units, left))
		left--;
	charge_leaving(s, false);
	for (size_t i = as_gone ? left : 0; i < (as_gone ? n : left); i++) {
		const struct unit *u = &s->units.at[units[i]];

		if (as_gone)
			rf_takes_take(s->takes, u->take, u->charged);
		else
			rf_takes_back(s->takes, u->take, u->charged);
	}
	return left == 0;
}

/* --- disruption budgets ------------------------------------------------------------------------ */

static void add_to_go(struct search *s, const struct unit *u)
{
	for (uint32_t i = 0; i < u->n && u->kind != LEAVING; i++)
		rf_vec_push(&s->go, (const struct rf_evict_member *)&s->members.at[u->at + i].v);
}

/* All that is gone, in the order of the units. */
static bool within_budget(struct search *s)
{
	rf_vec_clear(&s->go);
	for (size_t i = 0; i < s->units.n; i += 64)
		for (uint64_t left = s->gone[i / 64]; left != 0; left &= left - 1)
			add_to_go(s, &s->units.at[i + (size_t)__builtin_ctzll(left)]);
	return s->go.n <= s->world->most &&
	       (s->go.n == 0 || s->world->may_go == NULL || s->world->may_go(s->world->ctx, s->go.at, s->go.n));
}

/* --- proof ------------------------------------------------------------------------------------- */

static void tell_undone(const struct rf_gang *g, const struct rf_fleet_place *places, const uint64_t *holds)
{
	for (size_t i = g->n; i-- > 0 && g->undone != NULL;)
		if (holds[i] != 0)
			g->undone(g->ctx, i, &places[i]);
}

/* Places the gang, and undoes it. */
static bool try_gang(struct rf_fleet *f, const struct rf_gang *g, struct rf_fleet_place *places, uint64_t *holds)
{
	size_t mark = rf_fleet_mark(f);
	bool ok = rf_gang_take(f, g, places, holds) >= g->min;

	if (ok)
		tell_undone(g, places, holds);
	rf_fleet_rollback(f, mark);
	return ok;
}

static bool could_fit(const struct search *s)
{
	return s->n_roomy > 0 && rf_takes_enough(s->takes) && !(s->n_priority > 0 && rf_takes_grows(s->takes));
}

/* So many members of this unit's work go, in units from this one on. */
static uint32_t go_of(const struct search *s, size_t unit, size_t *ret_next)
{
	uint32_t n = 0;
	size_t i = unit;

	for (; i < s->units.n && s->units.at[i].take == s->units.at[unit].take; i++)
		n += s->units.at[i].gone && s->units.at[i].kind == RECLAIM ? s->units.at[i].charged : 0;
	*ret_next = i;
	return n;
}

/* Of all that go, one that would be within its queue's guarantee were only the others gone; or s->units.n. That there is an
 * order in which each is over it when its turn comes is not enough: what is small goes first then, and the last, which is
 * larger than what the queue is over by, takes what is left of the guarantee. Who waits for that would take it back from who
 * borrowed on top of what it had claimed, in the same way, and so on without end. */
static size_t one_within(struct search *s)
{
	size_t found = s->units.n, next;

	charge_leaving(s, true);
	for (size_t i = 0; i < s->units.n && found == s->units.n; i = next) {
		uint32_t n = go_of(s, i, &next), take = s->units.at[i].take;

		if (n == 0)
			continue;
		rf_takes_back(s->takes, take, n);
		if (!rf_takes_may(s->takes, take, n))
			found = i;
		rf_takes_take(s->takes, take, n);
	}
	charge_leaving(s, false);
	return found;
}

static bool fits(struct search *s)
{
	if (!could_fit(s) || s->proofs >= PROOFS_MAX)
		return false;
	s->proofs++;
	if (s->strict && one_within(s) < s->units.n)
		return false;
	return try_gang(s->f, &s->gang, s->places, s->holds);
}

/* --- guesses: what one more place on a node would cost ------------------------------------------ */

static bool cheaper(const struct cost *a, const struct cost *b)
{
	if (a->tier != b->tier)
		return a->tier < b->tier;
	return a->count != b->count ? a->count < b->count : a->rank < b->rank;
}

static bool comes_first(const struct guess *a, const struct guess *b)
{
	if (cheaper(&a->cost, &b->cost) || cheaper(&b->cost, &a->cost))
		return cheaper(&a->cost, &b->cost);
	return a->order < b->order;
}

static void push_guess(struct search *s, struct guess g)
{
	size_t i = s->heap.n;

	rf_vec_push(&s->heap, g);
	for (; i > 0 && comes_first(&g, &s->heap.at[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap.at[i] = s->heap.at[(i - 1) / 2];
	s->heap.at[i] = g;
}

static struct guess pop_guess(struct search *s)
{
	struct guess first = s->heap.at[0], last = s->heap.at[--s->heap.n];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < s->heap.n) {
		k += k + 1 < s->heap.n && comes_first(&s->heap.at[k + 1], &s->heap.at[k]);
		if (!comes_first(&s->heap.at[k], &last))
			break;
		s->heap.at[i] = s->heap.at[k];
		i = k;
	}
	s->heap.at[i] = last;
	return first;
}

/* Cards that must become free on the node, 1 for anything else that is missing. */
static uint32_t cards_missing(const struct search *s, uint32_t node, const struct rf_fleet_ask *ask)
{
	struct rf_fleet_ask one = *ask;
	uint32_t wanted = 0, have;

	for (unsigned i = 0; i < ask->n_parts; i++)
		wanted += ask->parts[i].kind == RF_FLEET_WHOLE ? ask->parts[i].n : 0;
	if (wanted <= 1)
		return 1;
	one.cpu_milli = one.memory = 0;
	one.n_parts = 1;
	one.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = 1 };
	have = (uint32_t)RF_MIN(rf_fleet_room_on(s->f, node, &one), wanted - 1);
	return wanted - have;
}

static void add_cost(const struct search *s, struct cost *c, uint32_t unit)
{
	const struct unit *u = &s->units.at[unit];

	c->tier = RF_MAX(c->tier, u->tier);
	c->count += u->n;
	c->rank += unit;
}

/* What keeps it out of the rack, on other nodes than this one. False: nothing does. */
static bool guess_rack(const struct search *s, uint32_t node, struct cost *c)
{
	const struct way *w = way_of(s, node);
	uint32_t last = UINT32_MAX;
	bool any = false;

	for (size_t k = 0; w != NULL && !w->tried && k < w->n; k++) {
		for (uint32_t i = s->first[w->nodes[k]]; i < s->first[w->nodes[k] + 1]; i++) {
			const struct member *m = &s->members.at[s->on[i]];

			if (!m->keeps_out || !usable(s, &s->units.at[m->unit]))
				continue;
			any = true;
			if (m->unit != last && m->node != node)
				add_cost(s, c, m->unit);
			last = m->unit;
		}
	}
	return any;
}

/* False: not even with all that could go. */
static bool guess(const struct search *s, uint32_t node, const struct rf_fleet_ask *ask, struct guess *ret)
{
	uint32_t missing, freed = 0;
	bool shut;

	*ret = (struct guess){ .node = node, .stamp = s->stamps[node], .order = rf_fleet_order(s->f, node) };
	if (!rf_fleet_could(s->f, node, ask))
		return false;
	if (rf_fleet_room_on(s->f, node, ask) > 0)
		return true;
	shut = guess_rack(s, node, &ret->cost);
	missing = cards_missing(s, node, ask);
	for (uint32_t i = s->first[node]; i < s->first[node + 1]; i++) {
		const struct member *m = &s->members.at[s->on[i]];
		const struct unit *u = &s->units.at[m->unit];

		if (!usable(s, u))
			continue;
		if (i == s->first[node] || s->members.at[s->on[i - 1]].unit != m->unit)
			for (uint32_t k = u->first; k <= m->unit; k++)
				if (!s->units.at[k].gone)
					add_cost(s, &ret->cost, k);
		freed += RF_MAX(m->cards, 1);
		if (freed >= missing)
			return true;
	}
	return shut; /* how much is missing is seen when that is gone */
}

static bool in_domain(const struct search *s, uint32_t node, size_t domain)
{
	return domain_of(s, node) == domain;
}

static void guess_all(struct search *s, const struct rf_fleet_ask *ask, size_t domain)
{
	struct guess g;

	rf_vec_clear(&s->heap);
	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (in_domain(s, i, domain) && guess(s, i, ask, &g))
			push_guess(s, g);
}

/* --- one place --------------------------------------------------------------------------------- */

static void drop_set(struct search *s, uint32_t node)
{
	for (size_t i = s->set.n; i-- > 0;)
		unlift_on(s, &s->units.at[s->set.at[i]], node);
	rf_vec_clear(&s->set);
}

/* With this one gone, too; asked before it is lifted, for that takes long. */
static bool budget_allows(struct search *s, struct unit *u)
{
	bool ok;

	set_gone(s, u, true);
	ok = within_budget(s);
	set_gone(s, u, false);
	return ok;
}

/* The unit, and what has to go before it. careful: asks for the budget at each step. */
static bool add_to_set(struct search *s, uint32_t unit, uint32_t node, bool careful)
{
	size_t had = s->set.n;
	bool ok = true;

	for (uint32_t k = s->units.at[unit].first; k <= unit && ok; k++) {
		struct unit *u = &s->units.at[k];

		if (u->gone)
			continue;
		ok = may_take(s, u) && (!careful || budget_allows(s, u));
		if (!ok)
			break;
		lift_on(s, u, node);
		rf_vec_push(&s->set, k);
	}
	while (!ok && s->set.n > had)
		unlift_on(s, &s->units.at[s->set.at[--s->set.n]], node);
	return ok;
}

static bool fits_on(struct search *s, uint32_t node, const struct rf_fleet_ask *ask)
{
	struct rf_fleet_place p RF_UNINITIALIZED;

	return rf_fleet_find_on(s->f, node, ask, &p);
}

static bool is_needed_by_gang(const struct search *s, uint32_t unit)
{
	for (size_t i = unit + 1; i < s->units.n && s->units.at[i].take == s->units.at[unit].take; i++)
		if (s->units.at[i].gone && s->units.at[i].first <= unit)
			return true;
	return false;
}

/* What was taken first may have become superfluous by what came after it. */
static void thin_set(struct search *s, uint32_t node, const struct rf_fleet_ask *ask)
{
	for (size_t i = s->set.n; i-- > 0 && s->set.n > 1;) {
		uint32_t unit = s->set.at[i];

		if (i + 1 == s->set.n || is_needed_by_gang(s, unit))
			continue;
		unlift_on(s, &s->units.at[unit], node);
		if (fits_on(s, node, ask))
			rf_vec_remove(&s->set, i);
		else
			lift_on(s, &s->units.at[unit], node);
	}
}

/* All that keeps it out of the rack. What may not go now may not when more is gone: others need not try. */
static void gather_rack(struct search *s, uint32_t node, bool careful)
{
	struct way *w = way_of(s, node);

	for (size_t k = 0; !w->tried && k < w->n; k++) {
		for (uint32_t i = s->first[w->nodes[k]]; i < s->first[w->nodes[k] + 1] && !w->tried; i++) {
			const struct member *m = &s->members.at[s->on[i]];

			w->tried = m->keeps_out && usable(s, &s->units.at[m->unit]) && !add_to_set(s, m->unit, node, careful) && !careful;
		}
	}
	if (w->tried)
		drop_set(s, node);
}

/* False: it does not fit there. */
static bool gather_set(struct search *s, uint32_t node, const struct rf_fleet_ask *ask, bool careful)
{
	bool ok = fits_on(s, node, ask);
	uint32_t last = UINT32_MAX;

	if (!ok && way_of(s, node) != NULL) {
		gather_rack(s, node, careful);
		ok = fits_on(s, node, ask);
	}

	for (uint32_t i = s->first[node]; i < s->first[node + 1] && !ok; i++) {
		uint32_t unit = s->members.at[s->on[i]].unit;

		if (unit == last || !usable(s, &s->units.at[unit]))
			continue;
		last = unit;
		ok = add_to_set(s, unit, node, careful) && fits_on(s, node, ask);
	}
	if (ok)
		thin_set(s, node, ask);
	return ok;
}

/* The units that have to go for a place on this node are left in s->set, and in place. */
static bool try_node(struct search *s, uint32_t node, const struct rf_fleet_ask *ask, struct cost *ret)
{
	bool ok;

	rf_vec_clear(&s->set);
	ok = gather_set(s, node, ask, false);
	if (ok && !within_budget(s)) {
		drop_set(s, node);
		ok = gather_set(s, node, ask, true) && within_budget(s);
	}
	*ret = (struct cost){ 0 };
	for (size_t i = 0; ok && i < s->set.n; i++)
		add_cost(s, ret, s->set.at[i]);
	for (size_t i = s->set.n; i-- > 0;)
		unlift_on(s, &s->units.at[s->set.at[i]], node);
	return ok;
}

/* The node with the least cost of those that look best. */
static bool best_node(struct search *s, const struct rf_fleet_ask *ask, struct guess *ret)
{
	struct guess tried[TRIES];
	size_t n = 0, best = 0;
	uint32_t last = RF_FLEET_NONE; /* whose set it is */

	while (s->heap.n > 0 && n < TRIES) {
		struct guess g = s->heap.at[0];

		if (n > 0 && !comes_first(&g, &tried[best]))
			break;
		(void)pop_guess(s);
		if (g.stamp != s->stamps[g.node])
			continue;
		last = g.node;
		if (!try_node(s, g.node, ask, &g.cost))
			continue;
		tried[n] = g;
		if (n > 0 && cheaper(&g.cost, &tried[best].cost))
			best = n;
		n++;
	}
	for (size_t i = 0; i < n; i++)
		if (i != best)
			push_guess(s, tried[i]);
	if (n == 0)
		return false;
	*ret = tried[best];
	return last == ret->node || try_node(s, ret->node, ask, &ret->cost);
}

static void guess_again(struct search *s, uint32_t other, uint32_t node, const struct rf_fleet_ask *ask, size_t domain)
{
	struct guess g;

	if (other != node && in_domain(s, other, domain) && guess(s, other, ask, &g))
		push_guess(s, g);
}

/* The set goes, and the member takes its place. */
static bool settle(struct search *s, uint32_t member, uint32_t node, const struct rf_fleet_ask *ask, size_t domain)
{
	const struct rf_gang *g = &s->gang;
	struct rf_fleet_place *p = &s->places[member];
	struct guess again;

	for (size_t i = 0; i < s->set.n; i++)
		put(s, s->set.at[i], true);
	if (!rf_fleet_find_on(s->f, node, ask, p) ||
	    rf_fleet_take(s->f, ask, p, false, &s->holds[member], NULL) < 0)
		return false;
	if (g->placed != NULL)
		g->placed(g->ctx, member, p);
	s->stamps[node]++;
	if (guess(s, node, ask, &again))
		push_guess(s, again);
	for (size_t i = 0; i < s->set.n; i++) {
		const struct unit *u = &s->units.at[s->set.at[i]];

		for (uint32_t k = 0; k < u->n; k++) {
			const struct member *m = &s->members.at[u->at + k];
			const struct way *w = m->keeps_out ? way_of(s, m->node) : NULL;

			for (size_t j = 0; w != NULL && j < w->n; j++)
				guess_again(s, w->nodes[j], node, ask, domain);
			if (w == NULL && m->node != RF_FLEET_NONE)
				guess_again(s, m->node, node, ask, domain);
		}
	}
	return true;
}

static bool place_each(struct search *s, size_t domain)
{
	const struct rf_gang *g = &s->gang;
	const struct rf_fleet_ask *last = NULL;

	for (size_t i = 0; i < g->n; i++) {
		uint32_t member = s->order[i];
		struct rf_fleet_ask ask = g->asks[member];
		struct guess best;

		if (g->narrow != NULL && !g->narrow(g->ctx, member, &ask))
			return false;
		if (g->narrow != NULL || last == NULL || !rf_gang_alike(last, &g->asks[member]))
			guess_all(s, &ask, domain);
		last = &g->asks[member];
		if (!best_node(s, &ask, &best) || !settle(s, member, best.node, &ask, domain))
			return false;
	}
	return true;
}

/* For a rollback that brings it back into the fleet: everywhere else. */
static void forget(struct search *s, struct unit *u)
{
	for (uint32_t i = u->n; i-- > 0 && s->world->back != NULL;)
		if (s->members.at[u->at + i].node != RF_FLEET_NONE)
			s->world->back(s->world->ctx, &s->members.at[u->at + i].v);
	rf_takes_back(s->takes, u->take, u->charged);
	set_gone(s, u, false);
}

/* Leaves those gone that have to go; false: none. Those that leave anyway are gone already. */
static bool find_places(struct search *s, size_t domain)
{
	size_t mark = rf_fleet_mark(s->f), n = 0;
	uint32_t *gone = rf_alloc(RF_MAX(s->units.n, 1) * sizeof(*gone));
	bool ok;

	memset(s->holds, 0, s->gang.n * sizeof(*s->holds));
	ok = place_each(s, domain);
	tell_undone(&s->gang, s->places, s->holds);
	for (uint32_t i = 0; i < s->units.n; i++) {
		if (!s->units.at[i].gone || s->units.at[i].kind == LEAVING)
			continue;
		forget(s, &s->units.at[i]);
		gone[n++] = i;
	}
	rf_fleet_rollback(s->f, mark);
	for (uint32_t i = 0; i < s->n_nodes; i++)
		set_room(s, i);
	for (size_t i = 0; ok && i < n; i++)
		put(s, gone[i], true);
	free(gone);
	return ok;
}

/* --- domains ------------------------------------------------------------------------------------ */

struct choice {
	size_t domain;
	uint64_t missing, movable;
	uint64_t order; /* of its first node by name */
};

static int by_missing(const void *pa, const void *pb)
{
	const struct choice *a = pa, *b = pb;

	if (a->missing != b->missing)
		return a->missing < b->missing ? -1 : 1;
	if (a->movable != b->movable)
		return a->movable > b->movable ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

static size_t list_choices(const struct search *s, struct choice *c)
{
	size_t n = 0;

	for (size_t d = 0; d < s->totals.n; d++)
		c[d] = (struct choice){ .domain = d, .missing = s->n_usual - RF_MIN(s->totals.at[d], s->n_usual), .order = UINT64_MAX };
	for (uint32_t i = 0; s->totals.n > 1 && i < s->n_nodes; i++)
		if (domain_of(s, i) != RF_FLEET_NONE)
			c[domain_of(s, i)].order = RF_MIN(c[domain_of(s, i)].order, rf_fleet_order(s->f, i));
	for (size_t i = 0; i < s->members.n; i++) {
		const struct member *m = &s->members.at[i];

		if (m->node != RF_FLEET_NONE && domain_of(s, m->node) != RF_FLEET_NONE &&
		    usable(s, &s->units.at[m->unit]))
			c[domain_of(s, m->node)].movable += RF_MAX(m->cards, 1);
	}
	for (size_t d = 0; d < s->totals.n; d++)
		if (c[d].missing == 0 || c[d].movable > 0)
			c[n++] = c[d];
	if (n > 1)
		qsort(c, n, sizeof(*c), by_missing);
	return n;
}

static bool find_places_somewhere(struct search *s)
{
	struct choice *c;
	size_t n;
	bool ok = false;

	if (s->in == NULL)
		return find_places(s, 0);
	c = rf_alloc(RF_MAX(s->totals.n, 1) * sizeof(*c));
	n = list_choices(s, c);
	for (size_t i = 0; i < n && i < DOMAINS_MAX && !ok; i++)
		ok = find_places(s, c[i].domain);
	free(c);
	return ok;
}

/* --- quota -------------------------------------------------------------------------------------- */

static bool find_quota(struct search *s)
{
	for (uint32_t i = 0; i < s->units.n && !rf_takes_enough(s->takes); i++) {
		struct unit *u = &s->units.at[i];

		if (!usable(s, u) || !rf_takes_helps(s->takes, u->take) || !may_take(s, u))
			continue;
		put(s, i, true);
		if (!within_budget(s))
			put(s, i, false);
	}
	return rf_takes_enough(s->takes);
}

/* --- thinning out ------------------------------------------------------------------------------- */

/* Can these go back together? gone: units, those to go back first first. */
static bool can_go_back(struct search *s, const uint32_t *gone, size_t n)
{
	bool whole = true, ok;

	for (size_t i = 0; i < n && whole; i++) {
		whole = !is_needed_by_gang(s, gone[i]);
		if (whole)
			put(s, gone[i], false);
	}
	ok = whole && fits(s) && within_budget(s);
	s->unsure = s->unsure || (whole && !ok && could_fit(s));
	for (size_t i = n; i-- > 0 && !ok;)
		put(s, gone[i], true);
	return ok;
}

static size_t list_gone(const struct search *s, uint32_t *ret)
{
	size_t n = 0;

	for (size_t i = s->units.n; i-- > 0;)
		if (s->units.at[i].gone && s->units.at[i].kind != LEAVING)
			ret[n++] = (uint32_t)i;
	for (size_t i = s->units.n; i-- > 0;)
		if (s->units.at[i].gone && s->units.at[i].kind == LEAVING)
			ret[n++] = (uint32_t)i;
	return n;
}

/* By halves, then quarters ... and one by one. */
static void thin(struct search *s)
{
	uint32_t *gone = rf_alloc(RF_MAX(s->units.n, 1) * sizeof(*gone));
	size_t n = list_gone(s, gone);

	for (size_t step = RF_MAX(n / 2, 1); n > 0; step /= 2) {
		s->unsure = false;
		for (size_t i = 0; i < n;) {
			size_t k = RF_MIN(step, n - i);

			if (!can_go_back(s, &gone[i], k)) {
				i += k;
				continue;
			}
			memmove(&gone[i], &gone[i + k], (n - i - k) * sizeof(*gone));
			n -= k;
		}
		if (step == 1)
			break;
	}
	free(gone);
}

/* --- every combination --------------------------------------------------------------------------- */

static bool is_closed(const struct search *s, const uint32_t *units, size_t n, unsigned bits)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; (bits >> i & 1) && k < n; k++)
			if (units[k] >= s->units.at[units[i]].first && units[k] < units[i] && !(bits >> k & 1))
				return false;
	return true;
}

/* All are in place; false: these may not go, and none did. */
static bool put_some(struct search *s, const uint32_t *units, size_t n, unsigned bits)
{
	uint32_t some[EXHAUSTIVE];
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if ((bits >> i & 1) && s->units.at[units[i]].kind != LEAVING)
			some[k++] = units[i];
	if (!put_in_order(s, some, k, false))
		return false;
	for (size_t i = 0; i < n; i++)
		if (bits >> i & 1)
			put(s, units[i], true);
	return true;
}

/* Those that leave anyway only count where the others are as many. */
static unsigned weight(unsigned bits, unsigned leaving)
{
	return (unsigned)__builtin_popcount(bits & leaving) +
	       (unsigned)__builtin_popcount(bits & ~leaving) * (EXHAUSTIVE + 1);
}

/* The lightest combination that does; false: there is none, and all are back. */
static bool try_all(struct search *s, const uint32_t *units, size_t n)
{
	unsigned leaving = 0;

	for (size_t i = 0; i < n; i++)
		leaving |= (unsigned)(s->units.at[units[i]].kind == LEAVING) << i;
	for (unsigned w = 1; w <= n * (EXHAUSTIVE + 1); w++)
		for (unsigned bits = 1; bits < 1u << n; bits++) {
			if (weight(bits, leaving) != w || !is_closed(s, units, n, bits))
				continue;
			for (size_t i = n; i-- > 0;)
				put(s, units[i], false);
			if (put_some(s, units, n, bits) && within_budget(s) && fits(s))
				return true;
		}
	for (size_t i = n; i-- > 0;)
		put(s, units[i], false);
	return false;
}

static bool try_all_gone(struct search *s)
{
	uint32_t units[EXHAUSTIVE];
	size_t n = 0;

	for (uint32_t i = 0; i < s->units.n; i++)
		if (s->units.at[i].gone && n < EXHAUSTIVE)
			units[n++] = i;
	return try_all(s, units, n);
}

/* --- one attempt --------------------------------------------------------------------------------- */

static size_t count_usable(const struct search *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->units.n; i++)
		n += (s->units.at[i].kind & (s->kinds | LEAVING)) != 0;
	return n;
}

/* Where the search for places found nothing: everything that may go, or every combination. */
static bool try_hard(struct search *s)
{
	uint32_t units[EXHAUSTIVE];
	size_t n = 0, usables = count_usable(s);

	if (usables > ALL_MAX)
		return false;
	if (usables > EXHAUSTIVE) {
		for (uint32_t i = 0; i < s->units.n; i++) {
			if (!usable(s, &s->units.at[i]) || !may_take(s, &s->units.at[i]))
				continue;
			put(s, i, true);
			if (!within_budget(s))
				put(s, i, false);
		}
		return fits(s);
	}
	for (uint32_t i = 0; i < s->units.n; i++)
		if ((s->units.at[i].kind & (s->kinds | LEAVING)) && !s->units.at[i].spared)
			units[n++] = i;
	return try_all(s, units, n);
}

static bool any_usable(const struct search *s)
{
	for (size_t i = 0; i < s->units.n; i++)
		if (usable(s, &s->units.at[i]))
			return true;
	return false;
}

/* Could the quotas ever allow it, were all gone that may go at all? */
static bool quota_suffices(struct search *s)
{
	bool ok = rf_takes_enough(s->takes);

	if (ok)
		return true;
	for (size_t i = 0; i < s->units.n; i++)
		if (usable(s, &s->units.at[i]))
			rf_takes_take(s->takes, s->units.at[i].take, s->units.at[i].charged);
	ok = rf_takes_enough(s->takes);
	for (size_t i = 0; i < s->units.n; i++)
		if (usable(s, &s->units.at[i]))
			rf_takes_back(s->takes, s->units.at[i].take, s->units.at[i].charged);
	return ok;
}

static size_t count_gone(const struct search *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->units.n; i++)
		n += s->units.at[i].gone;
	return n;
}

static bool attempt_once(struct search *s)
{
	bool ok;

	s->unsure = false;
	put_all_back(s);
	for (uint32_t i = 0; i < s->units.n; i++)
		if (s->units.at[i].kind == LEAVING)
			put(s, i, true);
	for (size_t i = 0; i < s->ways.n; i++)
		s->ways.at[i].tried = false;
	if (!quota_suffices(s) || (!any_usable(s) && !could_fit(s))) /* with fewer gone it could not either */
		return false;
	ok = find_places_somewhere(s) && find_quota(s) && fits(s);
	if (!ok) {
		put_all_back(s);
		for (uint32_t i = 0; i < s->units.n; i++)
			if (s->units.at[i].kind == LEAVING)
				put(s, i, true);
		ok = try_hard(s);
	}
	if (!ok)
		return false;
	thin(s);
	if (s->unsure && count_gone(s) <= EXHAUSTIVE)
		ok = try_all_gone(s);
	return ok && count_gone(s) > 0;
}

static void spare(struct search *s, size_t unit, bool spared)
{
	for (size_t i = unit; i < s->units.n && s->units.at[i].take == s->units.at[unit].take; i++)
		s->units.at[i].spared = spared;
}

/* Leaves gone what has to go. */
static bool attempt(struct search *s, unsigned kinds)
{
	size_t bad[SPARED_MAX], n = 0, found = 0;
	bool ok;

	s->kinds = kinds;
	s->proofs = 0;
	while ((ok = attempt_once(s)) && (found = one_within(s)) < s->units.n && n < SPARED_MAX) {
		bad[n++] = found;
		put_all_back(s);
		spare(s, found, true);
	}
	ok = ok && found == s->units.n;
	for (size_t i = 0; i < n; i++)
		spare(s, bad[i], false);
	if (ok || n == 0 || count_usable(s) > EXHAUSTIVE)
		return ok;
	s->strict = true;
	ok = attempt_once(s);
	s->strict = false;
	return ok;
}

/* --- setting up ---------------------------------------------------------------------------------- */

static void add_unit(struct search *s, const struct rf_take *k, uint32_t take, size_t at, uint32_t first, uint8_t kind,
		     int64_t charged)
{
	uint32_t unit = (uint32_t)s->units.n;
	struct unit u = { .take = take,
			  .at = (uint32_t)at,
			  .n = (uint32_t)(s->members.n - at),
			  .first = first,
			  .charged = (uint32_t)RF_MAX(charged, 0),
			  .tier = kind == LEAVING || kind == LOST ? 0 : k->tier + 1,
			  .kind = kind };

	for (size_t i = at; i < s->members.n; i++)
		s->members.at[i].unit = unit;
	rf_vec_push(&s->units, u);
	s->n_staying += kind == LEAVING || kind == LOST;
}

static void add_member(struct search *s, const struct rf_evict_member *v)
{
	struct member m = { .v = *v, .node = RF_FLEET_NONE };
	size_t cards = 0;

	if (rf_fleet_hold(s->f, v->hold, &m.node, &cards) == NULL)
		m.node = RF_FLEET_NONE;
	m.cards = (uint32_t)cards;
	rf_vec_push(&s->members, m);
}

static size_t count_leaving(const struct rf_evict_member *v, size_t n)
{
	size_t leaving = 0;

	for (size_t i = 0; i < n; i++)
		leaving += v[i].leaving;
	return leaving;
}

static bool any_stays(const struct rf_evict_member *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].stays && !v[i].leaving)
			return true;
	return false;
}

/* Members that the books know as one, because they are unlike each other, go together; what they are charged goes with
 * the last of them. */
static void add_work(struct search *s, const struct rf_take *k, uint32_t take)
{
	const struct rf_evict_member *v;
	size_t n = s->world->members(s->world->ctx, k->work, &v), leaving = count_leaving(v, n), at, extra = 0, left = leaving;
	uint8_t kind = k->kind == RF_TAKE_PRIORITY ? PRIORITY : RECLAIM;
	bool alike = k->members == (int64_t)n;
	uint32_t first;

	for (size_t i = 0; i < n; i++) {
		if (!v[i].leaving)
			continue;
		at = s->members.n;
		add_member(s, &v[i]);
		left--;
		add_unit(s, k, take, at, (uint32_t)s->units.n, v[i].user != NULL ? LEAVING : LOST, alike ? 1 : leaving == n && left == 0 ? k->members : 0);
	}
	if (k->kind == RF_TAKE_NEVER || leaving == n || any_stays(v, n))
		return;
	first = (uint32_t)s->units.n;
	if (alike && n - leaving > (size_t)k->min)
		extra = n - leaving - (size_t)k->min;
	for (size_t i = 0, seen = 0; i < n && seen < extra; i++) {
		if (v[i].leaving)
			continue;
		at = s->members.n;
		add_member(s, &v[i]);
		add_unit(s, k, take, at, (uint32_t)s->units.n, kind, 1);
		seen++;
	}
	at = s->members.n;
	for (size_t i = 0, seen = 0; i < n; i++) {
		seen += !v[i].leaving;
		if (!v[i].leaving && seen > extra)
			add_member(s, &v[i]);
	}
	add_unit(s, k, take, at, first, kind, alike ? k->members - (int64_t)(leaving + extra) : k->members);
}

/* Members by node, in the order of their units: a counting sort keeps it. */
static void index_nodes(struct search *s)
{
	s->n_nodes = rf_fleet_handles(s->f);
	s->first = rf_alloc((s->n_nodes + 2) * sizeof(*s->first));
	s->on = rf_alloc(RF_MAX(s->members.n, 1) * sizeof(*s->on));
	s->stamps = rf_alloc((s->n_nodes + 1) * sizeof(*s->stamps));
	for (size_t i = 0; i < s->members.n; i++)
		if (s->members.at[i].node != RF_FLEET_NONE)
			s->first[s->members.at[i].node + 2]++;
	for (uint32_t i = 2; i < s->n_nodes + 2; i++)
		s->first[i] += s->first[i - 1];
	for (size_t i = 0; i < s->members.n; i++)
		if (s->members.at[i].node != RF_FLEET_NONE)
			s->on[s->first[s->members.at[i].node + 1]++] = (uint32_t)i;
}

static void add_way(struct search *s, const uint32_t *nodes, size_t n)
{
	const struct rf_fleet_owner *o = &s->gang.asks[0].owner;
	struct way w = { .nodes = nodes, .n = n };

	for (size_t k = 0; k < n; k++)
		w.shut += rf_fleet_keep_out(s->f, nodes[k], o);
	for (size_t k = 0; k < n; k++) {
		s->rack[nodes[k]] = (uint32_t)s->ways.n + 1;
		for (uint32_t i = s->first[nodes[k]]; i < s->first[nodes[k] + 1]; i++) {
			struct member *m = &s->members.at[s->on[i]];

			m->keeps_out = rf_fleet_keeps_out(s->f, m->v.hold, o);
			w.movable += m->keeps_out;
			w.leaving += m->keeps_out && m->v.leaving;
		}
	}
	w.opens = w.shut > 0 && w.movable >= w.shut && w.shut - w.leaving <= s->world->most;
	rf_vec_push(&s->ways, w);
}

/* Racks that it is kept out of, and could be let into were all gone that may go. */
static void index_racks(struct search *s)
{
	s->rack = rf_alloc((s->n_nodes + 1) * sizeof(*s->rack));
	for (uint32_t i = 0; i < s->n_nodes; i++) {
		const uint32_t *nodes = NULL;
		size_t n = s->rack[i] == 0 ? rf_fleet_rack_shut(s->f, i, &s->gang.asks[0].owner, &nodes) : 0;

		if (n > 0)
			add_way(s, nodes, n);
	}
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x != y ? (x < y ? -1 : 1) : 0;
}

static void index_domains(struct search *s)
{
	const struct rf_gang *g = &s->gang;
	size_t n = 0;

	for (uint32_t i = 0; i < RF_MIN(g->n_domain, s->n_nodes); i++)
		if (g->domain[i] != RF_FLEET_NONE && (g->held == RF_FLEET_NONE || g->domain[i] == g->held))
			rf_vec_push(&s->domains, g->domain[i]);
	if (s->domains.n > 1)
		qsort(s->domains.at, s->domains.n, sizeof(*s->domains.at), by_number);
	for (size_t i = 0; i < s->domains.n; i++)
		if (i == 0 || s->domains.at[i] != s->domains.at[i - 1])
			s->domains.at[n++] = s->domains.at[i];
	s->domains.n = n;
	s->in = rf_alloc((s->n_nodes + 1) * sizeof(*s->in));
	for (uint32_t i = 0; i < s->n_nodes; i++) {
		const uint32_t *at = i < g->n_domain && n > 0 ? bsearch(&g->domain[i], s->domains.at, n, sizeof(*at),
									by_number) :
								NULL;

		s->in[i] = at != NULL ? (uint32_t)(at - s->domains.at) : RF_FLEET_NONE;
	}
	for (size_t i = 0; i < n; i++)
		rf_vec_push(&s->totals, 0);
}

static uint64_t size_of(const struct rf_fleet_ask *ask)
{
	uint64_t cards = 0;

	for (unsigned i = 0; i < ask->n_parts; i++)
		cards += (ask->parts[i].kind == RF_FLEET_WHOLE ? 8u : 1u) * ask->parts[i].n;
	return cards << 32 | (uint64_t)RF_MIN(ask->cpu_milli, INT32_MAX);
}

struct sized {
	uint64_t size;
	uint32_t member;
};

static int by_size(const void *pa, const void *pb)
{
	const struct sized *a = pa, *b = pb;

	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return a->member < b->member ? -1 : 1;
}

/* The largest first; and what most of them ask for. */
static void order_members(struct search *s)
{
	const struct rf_gang *g = &s->gang;
	struct sized *sized = rf_alloc(g->n * sizeof(*sized));
	size_t run = 0;

	s->order = rf_alloc(g->n * sizeof(*s->order));
	for (uint32_t i = 0; i < g->n; i++)
		sized[i] = (struct sized){ size_of(&g->asks[i]), i };
	qsort(sized, g->n, sizeof(*sized), by_size);
	for (size_t i = 0; i < g->n; i++) {
		s->order[i] = sized[i].member;
		run = i > 0 && rf_gang_alike(&g->asks[s->order[i]], &g->asks[s->order[i - 1]]) ? run + 1 : 1;
		if (run <= s->n_usual)
			continue;
		s->n_usual = run;
		s->usual = g->asks[s->order[i]];
	}
	if (g->narrow != NULL)
		s->usual.class = 0; /* it may be narrowed to what is not part of it */
	free(sized);
}

static void set_up(struct search *s)
{
	size_t n;
	const struct rf_take *all = rf_takes_all(s->takes, &n);

	s->all = all;
	s->units.cap = s->members.cap = RF_MAX(n, 8); /* mostly */
	s->units.at = rf_realloc(NULL, s->units.cap * sizeof(*s->units.at));
	s->members.at = rf_realloc(NULL, s->members.cap * sizeof(*s->members.at));
	for (size_t i = 0; i < n; i++)
		add_work(s, &all[i], (uint32_t)i);
	s->gone = rf_alloc((s->units.n / 64 + 1) * sizeof(*s->gone));
	index_nodes(s);
	index_racks(s);
	if (s->gang.domain != NULL)
		index_domains(s);
	else
		rf_vec_push(&s->totals, 0);
	order_members(s);
	s->room = rf_alloc((s->n_nodes + 1) * sizeof(*s->room));
	s->places = rf_realloc(NULL, s->gang.n * sizeof(*s->places));
	s->holds = rf_alloc(s->gang.n * sizeof(*s->holds));
}

static void search_done(struct search *s)
{
	rf_takes_close(s->takes);
	rf_vec_done(&s->members);
	rf_vec_done(&s->units);
	rf_vec_done(&s->set);
	rf_vec_done(&s->go);
	rf_vec_done(&s->heap);
	rf_vec_done(&s->totals);
	rf_vec_done(&s->domains);
	free(s->gone);
	free(s->order);
	free(s->first);
	free(s->on);
	free(s->stamps);
	free(s->rack);
	rf_vec_done(&s->ways);
	free(s->room);
	free(s->in);
	free(s->places);
	free(s->holds);
}

/* --- the plan ------------------------------------------------------------------------------------ */

static void add_go(const struct search *s, const struct unit *u, struct rf_arena *a, struct rf_evict_plan *ret)
{
	struct rf_evict_member *copies = rf_arena_array(a, struct rf_evict_member, u->n);

	for (uint32_t k = 0; k < u->n; k++) {
		copies[k] = s->members.at[u->at + k].v;
		ret->go[ret->n++] = &copies[k];
	}
	ret->by_priority = ret->by_priority || u->kind == PRIORITY;
}

/* False: there is no order in which they may go. */
static bool list_go(struct search *s, struct rf_arena *a, struct rf_evict_plan *ret)
{
	uint32_t *units = rf_arena_array(a, uint32_t, RF_MAX(s->units.n, 1));
	size_t n = 0, members = 0;

	for (uint32_t i = 0; i < s->units.n; i++) {
		members += s->units.at[i].gone ? s->units.at[i].n : 0;
		if (s->units.at[i].gone && s->units.at[i].kind != LEAVING)
			units[n++] = i;
	}
	*ret = (struct rf_evict_plan){ .go = rf_arena_array(a, const struct rf_evict_member *, RF_MAX(members, 1)),
				       .potential = rf_takes_potential(s->takes) };
	for (size_t i = 0; i < s->units.n; i++)
		if (s->units.at[i].gone && s->units.at[i].kind == LEAVING)
			add_go(s, &s->units.at[i], a, ret);
	if (!put_in_order(s, units, n, true))
		return false;
	for (size_t i = 0; i < n; i++)
		add_go(s, &s->units.at[units[i]], a, ret);
	return true;
}

/* Exactly what the plan says, from the fleet as it is: these are gone and scrubbed, the gang is placed. */
static bool rehearse(const struct rf_evict_world *world, const struct rf_gang *g, const struct rf_evict_plan *plan,
		     struct rf_fleet_place *places, uint64_t *holds)
{
	size_t mark = rf_fleet_mark(world->fleet);
	bool *lifted = rf_alloc(RF_MAX(plan->n, 1) * sizeof(*lifted));
	bool ok;

	for (size_t i = 0; i < plan->n; i++) {
		lifted[i] = rf_fleet_lift(world->fleet, plan->go[i]->hold);
		if (lifted[i] && world->gone != NULL)
			world->gone(world->ctx, plan->go[i]);
	}
	ok = try_gang(world->fleet, g, places, holds);
	for (size_t i = plan->n; i-- > 0 && world->back != NULL;)
		if (lifted[i])
			world->back(world->ctx, plan->go[i]);
	rf_fleet_rollback(world->fleet, mark);
	free(lifted);
	return ok;
}

static bool search(struct search *s)
{
	bool reclaim = false, priority = false, ok = false;

	for (size_t i = 0; i < s->units.n; i++) {
		reclaim = reclaim || s->units.at[i].kind == RECLAIM;
		priority = priority || s->units.at[i].kind == PRIORITY;
	}
	for (uint32_t i = 0; i < s->n_nodes; i++)
		set_room(s, i);
	if (fits(s)) /* nothing has to go */
		return false;
	if (s->units.n > 0)
		ok = attempt(s, RECLAIM);
	if (!ok && priority)
		ok = attempt(s, PRIORITY);
	if (!ok && priority && reclaim)
		ok = attempt(s, PRIORITY | RECLAIM);
	return ok;
}

bool rf_evict_plan(const struct rf_evict_world *world, struct rf_workload *w, const struct rf_gang *gang, int64_t now,
		   struct rf_arena *a, struct rf_evict_plan *ret)
{
	struct search s = { .world = world, .f = world->fleet, .gang = *gang };
	struct rf_workload_view view;
	size_t mark;
	bool ok;

	rf_workload_view(w, &view);
	if (view.running || gang->min == 0 || gang->min > gang->n || gang->min > RF_GANG_MAX)
		return false;
	s.gang.n = gang->min;
	s.takes = rf_takes_open(world->queues, w, now, &world->how);
	set_up(&s);
	mark = rf_fleet_mark(s.f);
	ok = search(&s) && list_go(&s, a, ret);
	put_all_back(&s);
	rf_fleet_rollback(s.f, mark);
	if (ok) {
		ret->places = rf_arena_array(a, struct rf_fleet_place, s.gang.n);
		ret->n_places = s.gang.n;
		ok = rehearse(world, &s.gang, ret, ret->places, s.holds);
	}
	search_done(&s);
	return ok;
}

/* What is gone already may still have to be scrubbed: the plan's own cards will be. */
static void scrub_places(struct rf_fleet *f, const struct rf_evict_plan *plan)
{
	for (size_t i = 0; i < plan->n_places; i++)
		for (uint32_t k = 0; k < plan->places[i].n; k++)
			if (rf_fleet_has_card(f, plan->places[i].node, plan->places[i].grants[k].card))
				rf_fleet_scrubbed(f, plan->places[i].node, plan->places[i].grants[k].card, 0xff);
}

bool rf_evict_holds(const struct rf_evict_world *world, const struct rf_gang *gang, const struct rf_evict_plan *plan)
{
	struct rf_gang g = *gang;
	struct rf_fleet_place *places;
	uint64_t *holds;
	size_t mark;
	bool ok;

	if (g.min == 0 || g.min > g.n || g.min > RF_GANG_MAX)
		return false;
	g.n = g.min;
	places = rf_realloc(NULL, g.n * sizeof(*places));
	holds = rf_alloc(g.n * sizeof(*holds));
	mark = rf_fleet_mark(world->fleet);
	scrub_places(world->fleet, plan);
	ok = rehearse(world, &g, plan, places, holds);
	rf_fleet_rollback(world->fleet, mark);
	free(holds);
	free(places);
	return ok;
}
