/* Which cards of one node a pod gets. Whole cards take the smallest free ones; shares are packed
 * onto the fullest card that still has room. Packing several shares at once is a search: the first
 * way down is the greedy answer, and only where that fails are others tried, up to a bound. */
#include "sched/private.h"

#define STEPS_MAX 20000

struct item {
	struct rf_str container;
	int64_t bytes, milli;
};

struct slot {
	const struct rf_card *card;
	int64_t bytes_left, milli_left;
	bool whole;    /* given whole to this pod */
	bool was_free; /* before this pod */
};

struct search {
	struct slot *slots;
	size_t n_slots;
	struct item *items; /* largest first */
	size_t n_items;
	struct slot **chosen; /* per item */
	int steps;
};

static int larger_item_first(const void *pa, const void *pb)
{
	const struct item *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	if (a->milli != b->milli)
		return a->milli > b->milli ? -1 : 1;
	return rf_str_cmp(a->container, b->container);
}

static bool fits(const struct slot *s, const struct item *it)
{
	return !s->whole && it->bytes <= s->bytes_left && it->milli <= s->milli_left;
}

static bool untouched(const struct slot *s)
{
	return s->was_free && s->bytes_left == s->card->device->memory &&
	       s->milli_left == s->card->device->milli;
}

/* Cards already in use before free ones, then the one with the least room; names decide ties. */
static bool better(const struct slot *a, const struct slot *b)
{
	if (untouched(a) != untouched(b))
		return untouched(b);
	if (a->bytes_left != b->bytes_left)
		return a->bytes_left < b->bytes_left;
	if (a->milli_left != b->milli_left)
		return a->milli_left < b->milli_left;
	return rf_sched_name_cmp(a->card->device->name, b->card->device->name) < 0;
}

/* The best slot for the item that comes after `last` in that order, NULL if there is none. */
static struct slot *next_slot(struct search *s, const struct item *it, const struct slot *last)
{
	struct slot *best = NULL;

	for (size_t i = 0; i < s->n_slots; i++) {
		struct slot *c = &s->slots[i];

		if (!fits(c, it) || (last != NULL && !better(last, c)))
			continue;
		if (best == NULL || better(c, best))
			best = c;
	}
	return best;
}

/* Two cards with the same room lead to the same answers. */
static bool alike(const struct slot *a, const struct slot *b)
{
	return untouched(a) == untouched(b) && a->bytes_left == b->bytes_left &&
	       a->milli_left == b->milli_left;
}

static bool place_items(struct search *s, size_t i)
{
	const struct slot *tried = NULL;

	if (i == s->n_items)
		return true;
	for (struct slot *c = NULL; (c = next_slot(s, &s->items[i], tried)) != NULL; tried = c) {
		if (tried != NULL && alike(tried, c))
			continue;
		if (++s->steps > STEPS_MAX)
			return false;
		c->bytes_left -= s->items[i].bytes;
		c->milli_left -= s->items[i].milli;
		s->chosen[i] = c;
		if (place_items(s, i + 1))
			return true;
		c->bytes_left += s->items[i].bytes;
		c->milli_left += s->items[i].milli;
	}
	return false;
}

/* --- setting up -------------------------------------------------------------------------- */

static void find_slots(struct rf_arena *a, const struct rf_place *p, const struct rf_party *party,
		       struct search *s)
{
	s->slots = rf_arena_array(a, struct slot, RF_MAX(p->n_cards, 1));
	for (size_t i = 0; i < p->n_cards; i++) {
		const struct rf_card *c = &p->cards[i];

		if (!rf_card_open_to(c, party))
			continue;
		s->slots[s->n_slots++] = (struct slot){ .card = c,
							.was_free = !c->held,
							.bytes_left = c->device->memory - c->bytes,
							.milli_left = c->device->milli - c->milli };
	}
}

static void find_shares(struct rf_arena *a, const struct rf_sched_pod *pod, struct search *s)
{
	s->items = rf_arena_array(a, struct item, RF_MAX(pod->n_containers, 1));
	s->chosen = rf_arena_array(a, struct slot *, RF_MAX(pod->n_containers, 1));
	for (size_t i = 0; i < pod->n_containers; i++) {
		const struct rf_sched_container *c = &pod->containers[i];

		if (c->ask.share_bytes > 0)
			s->items[s->n_items++] =
				(struct item){ c->name, c->ask.share_bytes, c->ask.share_milli };
	}
	qsort(s->items, s->n_items, sizeof(*s->items), larger_item_first);
}

static struct rf_sched_grant *grant(struct rf_plan *plan, struct rf_str container,
				    const struct rf_card *c, int64_t bytes, int64_t milli)
{
	struct rf_sched_grant *g = &plan->grants[plan->n++];

	*g = (struct rf_sched_grant){
		.container = container, .device = c->device->name, .bytes = bytes, .milli = milli
	};
	return g;
}

static struct slot *smallest_free(struct search *s)
{
	struct slot *best = NULL;

	for (size_t i = 0; i < s->n_slots; i++) {
		struct slot *c = &s->slots[i];

		if (c->whole || !untouched(c))
			continue;
		if (best == NULL || c->bytes_left < best->bytes_left)
			best = c; /* slots stand in the order of their names */
	}
	return best;
}

static bool place_whole(struct search *s, const struct rf_sched_pod *pod, struct rf_plan *plan)
{
	for (size_t i = 0; i < pod->n_containers; i++) {
		for (int64_t k = 0; k < pod->containers[i].ask.cards; k++) {
			struct slot *c = smallest_free(s);

			if (c == NULL)
				return false;
			c->whole = true;
			grant(plan, pod->containers[i].name, c->card, c->card->device->memory,
			      c->card->device->milli)
				->whole = true;
		}
	}
	return true;
}

/* Open few free cards; leave large groups of free cards together; leave little room on used ones.
 * Whoever asks for no card stays off the nodes that have some. */
static void score(const struct rf_place *p, const struct search *s, struct rf_plan *plan)
{
	int64_t opened = 0, left_free = 0, room = 0;

	for (size_t i = 0; i < p->n_cards; i++)
		left_free += !p->cards[i].held && p->cards[i].device->fault.n == 0;
	for (size_t i = 0; i < s->n_slots; i++) {
		const struct slot *c = &s->slots[i];
		bool taken = c->was_free && (c->whole || !untouched(c));

		opened += taken;
		if (!c->whole && (taken || !c->was_free))
			room += c->bytes_left >> 20;
	}
	plan->score[0] = plan->n > 0 ? opened : (int64_t)p->n_cards;
	plan->score[1] = left_free - opened;
	plan->score[2] = room;
}

static int64_t count_whole(const struct rf_sched_pod *pod)
{
	int64_t n = 0;

	for (size_t i = 0; i < pod->n_containers; i++)
		n += pod->containers[i].ask.cards;
	return n;
}

bool rf_place_cards(struct rf_arena *a, const struct rf_place *p, const struct rf_sched_pod *pod,
		    const struct rf_party *party, struct rf_plan *ret)
{
	struct search s = { 0 };
	struct rf_plan plan = { 0 };

	if (count_whole(pod) > (int64_t)p->n_cards)
		return false;
	plan.grants = rf_arena_array(a, struct rf_sched_grant, p->n_cards + pod->n_containers + 1);
	find_slots(a, p, party, &s);
	find_shares(a, pod, &s);
	if (s.n_items > 0 && !rf_party_shares_card(party, party))
		return false;
	if (!place_whole(&s, pod, &plan) || !place_items(&s, 0))
		return false;
	for (size_t i = 0; i < s.n_items; i++)
		grant(&plan, s.items[i].container, s.chosen[i]->card, s.items[i].bytes,
		      s.items[i].milli);
	score(p, &s, &plan);
	*ret = plan;
	return true;
}
