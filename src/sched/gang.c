/* Places for several pods at once. Members that ask the same are a group; nothing tells their places apart, so
 * one is taken after the other, the best first, and the first that finds none says that it cannot be. Where
 * groups differ the order matters: the largest first, then again with the group in front that found no place.
 * Everything happens inside a mark of the fleet. */
#include "sched/gang.h"

#define ORDERS 6	/* that are tried */
#define STEPS_MAX 200000 /* places looked at; beyond, no further order is tried */
#define LOOK_BACK 8	/* groups that a member is compared with */
#define BOUND_FROM 16	/* members; fewer are placed quicker than bounded */

struct spot { /* a node of the domain that is tried */
	uint32_t domain, node;
	uint64_t order; /* the first by name is the lowest */
	int64_t score; /* for the group that was last asked for; INT64_MAX: it does not do */
};

struct domain {
	uint64_t order; /* of its first node */
	size_t at, n;	/* spots */
	size_t room;  /* for the group with most members */
};

struct group {
	uint32_t first; /* member */
	uint32_t n;	/* of those that must have a place */
	int64_t size;
	bool refused;
};

struct state {
	struct rf_fleet *f;
	const struct rf_gang *g;
	struct rf_fleet_place *places;
	uint64_t *holds;
	struct group *groups;
	size_t n_groups;
	uint32_t *group_of; /* by member */
	uint32_t *order, *done;
	size_t n_done;
	struct spot *spots; /* NULL: anywhere */
	size_t n_spots;
	uint32_t scored; /* group; RF_FLEET_NONE: none */
	int64_t steps;
};

/* --- groups ----------------------------------------------------------------------------------- */

static bool same_part(const struct rf_fleet_part *a, const struct rf_fleet_part *b)
{
	return a->kind == b->kind && a->n == b->n && a->profile == b->profile && a->one_island == b->one_island &&
	       a->apart == b->apart && a->bytes == b->bytes && a->milli == b->milli;
}

bool rf_gang_alike(const struct rf_fleet_ask *a, const struct rf_fleet_ask *b)
{
	if (a->owner.tenant != b->owner.tenant || a->owner.trust != b->owner.trust ||
	    a->owner.level != b->owner.level || a->owner.system != b->owner.system ||
	    a->cpu_milli != b->cpu_milli || a->memory != b->memory || a->models != b->models ||
	    a->class != b->class || a->policy != b->policy || a->may_kept != b->may_kept || a->leave != b->leave ||
	    a->n_parts != b->n_parts)
		return false;
	for (unsigned i = 0; i < a->n_parts; i++)
		if (!same_part(&a->parts[i], &b->parts[i]))
			return false;
	return true;
}

/* In thousandths of a card, roughly: what is larger is harder to place. */
static int64_t size_of(const struct rf_fleet_ask *ask)
{
	int64_t size = 0;

	for (unsigned i = 0; i < ask->n_parts; i++) {
		const struct rf_fleet_part *p = &ask->parts[i];
		int64_t each = RF_FLEET_MILLI;

		if (p->kind == RF_FLEET_SLICE)
			each = (p->profile + 1) * RF_FLEET_MILLI / RF_FLEET_PROFILES_MAX;
		else if (p->kind == RF_FLEET_SHARE)
			each = RF_MAX(p->milli, RF_MIN(p->bytes >> 27, RF_FLEET_MILLI)); /* 128 GiB: a card */
		size += each * p->n;
	}
	return size << 32 | RF_MIN(ask->cpu_milli, INT32_MAX);
}

static uint32_t group_for(struct state *s, size_t member)
{
	const struct rf_fleet_ask *asks = s->g->asks;

	for (size_t i = s->n_groups; i > 0 && i + LOOK_BACK > s->n_groups; i--)
		if (rf_gang_alike(&asks[s->groups[i - 1].first], &asks[member]))
			return (uint32_t)i - 1;
	s->groups[s->n_groups] = (struct group){ .first = (uint32_t)member, .size = size_of(&asks[member]) };
	return (uint32_t)s->n_groups++;
}

static bool find_groups(struct state *s)
{
	for (size_t i = 0; i < s->g->n; i++) {
		uint32_t k = group_for(s, i);

		s->group_of[i] = k;
		s->groups[k].n += i < s->g->min;
	}
	for (size_t k = 0; k < s->n_groups; k++)
		if (s->groups[k].n > 0 && rf_fleet_check(&s->g->asks[s->groups[k].first], NULL) < 0)
			return false;
	return true;
}

/* What bounds may count on: a narrowed class need not be part of the one in the request. */
static struct rf_fleet_ask bound_ask(const struct state *s, const struct group *k)
{
	struct rf_fleet_ask ask = s->g->asks[k->first];

	if (s->g->narrow != NULL)
		ask.class = 0;
	return ask;
}

/* --- one member ------------------------------------------------------------------------------- */

static int64_t score_on(struct state *s, uint32_t node, const struct rf_fleet_ask *ask)
{
	struct rf_fleet_place p RF_UNINITIALIZED;

	s->steps++;
	return rf_fleet_find_on(s->f, node, ask, &p) ? p.score : INT64_MAX;
}

static bool find_in_domain(struct state *s, size_t member, const struct rf_fleet_ask *ask, struct rf_fleet_place *ret)
{
	struct spot *best = NULL;

	if (s->scored != s->group_of[member] || s->g->narrow != NULL || ask->leave != NULL) /* one takes from what all may have */
		for (size_t i = 0; i < s->n_spots; i++)
			s->spots[i].score = score_on(s, s->spots[i].node, ask);
	s->scored = s->group_of[member];
	for (size_t i = 0; i < s->n_spots; i++)
		if (s->spots[i].score != INT64_MAX && (best == NULL || s->spots[i].score < best->score))
			best = &s->spots[i];
	return best != NULL && rf_fleet_find_on(s->f, best->node, ask, ret);
}

static void rescore(struct state *s, size_t member, uint32_t node)
{
	for (size_t i = 0; i < s->n_spots; i++)
		if (s->spots[i].node == node)
			s->spots[i].score = score_on(s, node, &s->g->asks[member]);
}

static bool find_place(struct state *s, size_t member, struct rf_fleet_ask *ask, struct rf_fleet_place *ret)
{
	const struct rf_gang *g = s->g;

	s->steps++;
	if (g->narrow != NULL && !g->narrow(g->ctx, member, ask))
		return false;
	return s->spots != NULL ? find_in_domain(s, member, ask, ret) : rf_fleet_find(s->f, ask, ret);
}

static bool place(struct state *s, size_t member)
{
	const struct rf_gang *g = s->g;
	struct rf_fleet_ask ask = g->asks[member];
	struct rf_fleet_place *p = &s->places[member];

	if (!find_place(s, member, &ask, p) || rf_fleet_take(s->f, &ask, p, false, &s->holds[member], NULL) < 0) {
		p->node = RF_FLEET_NONE;
		return false;
	}
	s->done[s->n_done++] = (uint32_t)member;
	if (g->placed != NULL)
		g->placed(g->ctx, member, p);
	if (s->spots != NULL && g->narrow == NULL)
		rescore(s, member, p->node);
	return true;
}

static void undo_all(struct state *s, size_t mark)
{
	const struct rf_gang *g = s->g;

	while (s->n_done > 0) {
		uint32_t member = s->done[--s->n_done];

		if (g->undone != NULL)
			g->undone(g->ctx, member, &s->places[member]);
		s->holds[member] = 0;
		s->places[member].node = RF_FLEET_NONE;
	}
	rf_fleet_rollback(s->f, mark);
	s->scored = RF_FLEET_NONE;
}

/* --- those that must have a place -------------------------------------------------------------- */

struct ranked {
	uint32_t group;
	bool first;
	int64_t size;
};

static int by_size(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;

	if (a->first != b->first)
		return a->first ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return a->group < b->group ? -1 : 1;
}

/* Group by group, the largest first, but `first` before all others. */
static void set_order(struct state *s, uint32_t first)
{
	struct ranked *ranked = rf_alloc(s->n_groups * sizeof(*ranked));
	uint32_t *at = rf_alloc(s->n_groups * sizeof(*at)), n = 0;

	for (uint32_t k = 0; k < s->n_groups; k++)
		ranked[k] = (struct ranked){ k, k == first, s->groups[k].size };
	qsort(ranked, s->n_groups, sizeof(*ranked), by_size);
	for (size_t i = 0; i < s->n_groups; i++) {
		at[ranked[i].group] = n;
		n += s->groups[ranked[i].group].n;
	}
	for (size_t i = 0; i < s->g->min; i++)
		s->order[at[s->group_of[i]]++] = (uint32_t)i;
	free(at);
	free(ranked);
}

static void given_order(struct state *s)
{
	for (size_t i = 0; i < s->g->min; i++)
		s->order[i] = (uint32_t)i;
}

/* The member that found no place; RF_FLEET_NONE: all did. */
static uint32_t place_in_order(struct state *s)
{
	for (size_t i = 0; i < s->g->min; i++)
		if (!place(s, s->order[i]))
			return s->order[i];
	return RF_FLEET_NONE;
}

static bool place_min(struct state *s)
{
	uint32_t first = RF_FLEET_NONE;

	for (int tries = 0; tries < ORDERS; tries++) {
		size_t mark = rf_fleet_mark(s->f);
		uint32_t failed;
		bool alone;

		if (tries == ORDERS - 1 || s->n_groups == 1)
			given_order(s);
		else
			set_order(s, first);
		failed = place_in_order(s);
		if (failed == RF_FLEET_NONE) {
			rf_fleet_keep(s->f, mark);
			return true;
		}
		alone = s->n_done == 0;
		undo_all(s, mark);
		if (alone || s->n_groups == 1 || s->steps > STEPS_MAX)
			return false;
		/* in front already, and still not all of them: only the given order is left */
		if (s->group_of[failed] == first)
			tries = RF_MAX(tries, ORDERS - 2);
		first = s->group_of[failed];
	}
	return false;
}

/* The others as far as there is room. */
static void place_rest(struct state *s)
{
	for (size_t i = s->g->min; i < s->g->n; i++) {
		struct group *k = &s->groups[s->group_of[i]];

		if (k->refused)
			continue;
		if (!place(s, i))
			k->refused = s->g->narrow == NULL;
	}
}

/* --- domains ---------------------------------------------------------------------------------- */

static int by_domain(const void *pa, const void *pb)
{
	const struct spot *a = pa, *b = pb;

	if (a->domain != b->domain)
		return a->domain < b->domain ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

/* The one with the least room first, so that larger ones stay whole. */
static int by_room(const void *pa, const void *pb)
{
	const struct domain *a = pa, *b = pb;

	if (a->room != b->room)
		return a->room < b->room ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

static const struct group *main_group(const struct state *s)
{
	const struct group *best = &s->groups[0];

	for (size_t k = 1; k < s->n_groups; k++)
		if (s->groups[k].n > best->n)
			best = &s->groups[k];
	return best;
}

static size_t room_in(const struct state *s, const struct spot *spots, size_t n, const struct group *k)
{
	struct rf_fleet_ask ask = bound_ask(s, k);
	size_t room = 0;

	for (size_t i = 0; i < n; i++)
		room += rf_fleet_room_on(s->f, spots[i].node, &ask);
	return room;
}

static bool has_room(const struct state *s, const struct spot *spots, size_t n)
{
	for (size_t k = 0; k < RF_MIN(s->n_groups, LOOK_BACK); k++)
		if (room_in(s, spots, n, &s->groups[k]) < s->groups[k].n)
			return false;
	return true;
}

/* Nodes that have a domain, by domain. */
static struct spot *list_spots(const struct state *s, size_t *ret_n)
{
	const struct rf_gang *g = s->g;
	struct spot *spots = rf_alloc(RF_MAX(g->n_domain, 1) * sizeof(*spots));
	size_t n = 0;

	for (uint32_t i = 0; i < g->n_domain; i++)
		if (g->domain[i] != RF_FLEET_NONE && (g->held == RF_FLEET_NONE || g->domain[i] == g->held))
			spots[n++] = (struct spot){ .domain = g->domain[i], .node = i, .order = rf_fleet_order(s->f, i) };
	if (n > 1)
		qsort(spots, n, sizeof(*spots), by_domain);
	*ret_n = n;
	return spots;
}

static size_t list_domains(const struct state *s, const struct spot *spots, size_t n, struct domain *ret)
{
	const struct group *most = main_group(s);
	size_t n_domains = 0, end;

	for (size_t at = 0; at < n; at = end) {
		for (end = at + 1; end < n && spots[end].domain == spots[at].domain;)
			end++;
		if (has_room(s, &spots[at], end - at))
			ret[n_domains++] = (struct domain){ .order = spots[at].order,
							    .at = at,
							    .n = end - at,
							    .room = room_in(s, &spots[at], end - at, most) };
	}
	if (n_domains > 1)
		qsort(ret, n_domains, sizeof(*ret), by_room);
	return n_domains;
}

static bool place_in_some_domain(struct state *s)
{
	size_t n, n_domains;
	struct spot *spots = list_spots(s, &n);
	struct domain *domains = rf_alloc(RF_MAX(n, 1) * sizeof(*domains));
	bool ok = false;

	n_domains = list_domains(s, spots, n, domains);
	for (size_t i = 0; i < n_domains && !ok; i++) {
		s->spots = &spots[domains[i].at];
		s->n_spots = domains[i].n;
		s->scored = RF_FLEET_NONE;
		ok = place_min(s);
		if (ok)
			place_rest(s);
		ok = s->n_done > 0;
	}
	s->spots = NULL;
	free(domains);
	free(spots);
	return ok;
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Large gangs are refused by counting, before any is placed. */
static bool may_fit(const struct state *s)
{
	size_t tried = 0;

	for (size_t k = 0; k < s->n_groups && tried < LOOK_BACK; k++) {
		struct rf_fleet_ask ask;
		size_t room = 0;

		if (s->groups[k].n < BOUND_FROM)
			continue;
		tried++;
		ask = bound_ask(s, &s->groups[k]);
		for (uint32_t i = 0; i < rf_fleet_handles(s->f) && room < s->groups[k].n; i++)
			room += rf_fleet_room_on(s->f, i, &ask);
		if (room < s->groups[k].n)
			return false;
	}
	return true;
}

static bool place_all(struct state *s)
{
	if (!find_groups(s))
		return false;
	if (s->g->domain != NULL)
		return place_in_some_domain(s);
	if (!may_fit(s) || !place_min(s))
		return false;
	place_rest(s);
	return true;
}

static bool open_state(struct state *s, struct rf_fleet *f, const struct rf_gang *g, struct rf_fleet_place *places, uint64_t *holds)
{
	*s = (struct state){ .f = f, .g = g, .places = places, .holds = holds, .scored = RF_FLEET_NONE };
	if (g->n == 0 || g->min > g->n || g->n > RF_GANG_MAX)
		return false;
	s->group_of = rf_realloc(NULL, 3 * g->n * sizeof(*s->group_of));
	s->order = s->group_of + g->n;
	s->done = s->order + g->n;
	s->groups = rf_realloc(NULL, g->n * sizeof(*s->groups));
	memset(holds, 0, g->n * sizeof(*holds));
	for (size_t i = 0; i < g->n; i++)
		places[i].node = RF_FLEET_NONE;
	return true;
}

static void close_state(struct state *s)
{
	free(s->groups);
	free(s->group_of);
}

size_t rf_gang_take(struct rf_fleet *f, const struct rf_gang *g, struct rf_fleet_place *ret_places, uint64_t *ret_holds)
{
	struct state s;
	size_t placed;

	if (!open_state(&s, f, g, ret_places, ret_holds))
		return 0;
	placed = place_all(&s) ? s.n_done : 0;
	close_state(&s);
	return placed;
}

/* --- how many of them -------------------------------------------------------------------------- */

/* Where all ask the same single thing and nothing depends on where the others are, counting says it. */
static bool is_counted(const struct state *s)
{
	const struct rf_fleet_ask *ask = &s->g->asks[s->groups[0].first];

	return s->n_groups == 1 && s->g->narrow == NULL && ask->n_parts <= 1 && !ask->parts[0].one_island;
}

static size_t count_on(const struct state *s, const struct spot *spots, size_t n)
{
	struct rf_fleet_ask ask = bound_ask(s, &s->groups[0]);
	size_t room = 0;

	if (spots != NULL)
		return room_in(s, spots, n, &s->groups[0]);
	for (uint32_t i = 0; i < rf_fleet_handles(s->f) && room < s->g->min; i++)
		room += rf_fleet_room_on(s->f, i, &ask);
	return room;
}

static size_t try_on(struct state *s)
{
	size_t mark, n;

	if (is_counted(s)) {
		n = count_on(s, s->spots, s->n_spots);
		if (n < s->g->min)
			return n;
	}
	mark = rf_fleet_mark(s->f);
	set_order(s, RF_FLEET_NONE);
	for (size_t i = 0; i < s->g->min && s->steps <= STEPS_MAX; i++)
		(void)place(s, s->order[i]);
	n = s->n_done;
	undo_all(s, mark);
	return n;
}

static size_t most_in_a_domain(struct state *s)
{
	size_t n, most = 0, end;
	struct spot *spots = list_spots(s, &n);

	for (size_t at = 0; at < n; at = end) {
		for (end = at + 1; end < n && spots[end].domain == spots[at].domain;)
			end++;
		s->spots = &spots[at];
		s->n_spots = end - at;
		s->scored = RF_FLEET_NONE;
		most = RF_MAX(most, try_on(s));
	}
	s->spots = NULL;
	free(spots);
	return most;
}

size_t rf_gang_most(struct rf_fleet *f, const struct rf_gang *g)
{
	struct rf_fleet_place *places = rf_alloc(RF_MAX(g->n, 1) * sizeof(*places));
	uint64_t *holds = rf_alloc(RF_MAX(g->n, 1) * sizeof(*holds));
	struct state s;
	size_t most = 0;

	if (open_state(&s, f, g, places, holds)) {
		if (find_groups(&s))
			most = g->domain != NULL ? most_in_a_domain(&s) : try_on(&s);
		close_state(&s);
	}
	free(holds);
	free(places);
	return most;
}
