/* What launches of a kind take, in a table. */
#include "fence/share_private.h"

#define LONG (MS / 16) /* few of such launches fit between two marks */
#define FORGET 128     /* marks, until what one took is as good as forgotten */
/* What streams side by side take is not learned faster where there is less. */
#define DEPTH_LEARN (4 * MS)

/* Its own place, the others of its set, then those of the set beside it; RF_COSTS: not there. */
unsigned rf_kind_find(const struct rf_fence *f, uint64_t key)
{
	unsigned place = rf_share_place(key);

	for (unsigned i = 0; i < 2 * RF_COST_WAYS; i++)
		if (__atomic_load_n(&f->cost[place ^ i].key, __ATOMIC_RELAXED) == key)
			return place ^ i;
	return RF_COSTS;
}

/* A new kind takes the first empty place, or one after the other of its set. */
static RF_RARE unsigned new_kind(struct rf_fence *f, uint64_t key)
{
	unsigned place = rf_share_place(key), i = 0;

	while (i < 2 * RF_COST_WAYS && f->cost[place ^ i].key)
		i++;
	if (i == 2 * RF_COST_WAYS)
		i = f->replaced++ % RF_COST_WAYS;
	place ^= i;
	__atomic_store_n(&f->cost[place].ns, 0, __ATOMIC_RELAXED);
	f->cost[place].longest = 0;
	__atomic_store_n(&f->cost[place].key, key, __ATOMIC_RELAXED);
	return place;
}

unsigned rf_kind_of(struct rf_fence *f, uint64_t key)
{
	unsigned kind = rf_kind_find(f, key);

	return kind < RF_COSTS ? kind : new_kind(f, key);
}

/* The fence's gate was open all the time: nobody else's work was in it. */
static bool had_card(const struct rf_fence *f, const struct rf_mark *m, uint64_t now)
{
	const struct rf_gate_card *g = &f->gate->card[f->lane[m->lane].card];

	return m->turn == __atomic_load_n(&g->turn, __ATOMIC_RELAXED) &&
	       now < __atomic_load_n(&g->open_until, __ATOMIC_RELAXED);
}

/* If a mark takes clearly longer than thought, one of its launches does, as far as anybody knows. Alone, and with the card its
 * own all the time (sure), that is what it takes; else the card may have sliced its time, and it is believed if it goes on. */
static void note_longest(struct rf_cost *c, const struct rf_mark *m, uint64_t ns, bool sure)
{
	uint64_t one = least(m->dearest + ns - least(ns, m->cost), 1000 * MS), was = c->longest;
	unsigned part = m->launches > 1 ? 8 : sure ? 1 : 16;

	if (m->launches > 1 && !sure)
		return;
	if (ns > m->cost + m->cost / 2 && one > was)
		c->longest = (uint32_t)(((part - 1) * most(was, c->ns) + one) / part);
	else
		c->longest -= (uint32_t)((was - least(was, one)) / FORGET);
}

/* A quarter of the way to the new value, so that a kind that takes now this now that is known by what it takes on
 * average; or all of it if that is far, but half of the way down at a time for a long one: of what takes 20 us now and
 * 10 ms next there would be hundreds of long ones in flight. Where there were long ones of late, an eighth down for each
 * launch, since some short ones in a row tell nothing. To what it takes longer only by a little at a time if others may have
 * had the card meanwhile. Among others the dearest kind is taken for what was wrong; if it was another, the next marks
 * bring it back. */
void rf_kind_learn(struct rf_fence *f, const struct rf_mark *m, uint64_t ns, uint64_t now)
{
	struct rf_cost *c = &f->cost[m->kind];
	uint64_t was = rf_kind_cost(f, m->kind), n = most(least(m->of_kind, m->launches), 1);
	uint64_t others = n < m->launches ? m->cost - least(m->cost, n * m->dearest) : 0;
	uint64_t each = least((ns - least(ns, others)) / n, 1000 * MS);
	bool had = had_card(f, m, now);
	unsigned far = m->launches > 1 ? 2 : 8, part = each <= was || had ? 4 : 16;

	if (c->ns)
		note_longest(c, m, ns, had);
	if (n < m->launches)
		each = most(each, was / 2);
	if (c->ns && each <= far * was && each > was / far)
		each = ((part - 1) * was + each) / part;
	else if (c->ns && m->launches == 1 && was > LONG)
		each = most(each, was / 2);
	if (c->longest > most(2 * was, LONG))
		each = most(each, was - was * least(m->launches, 4) / 8);
	__atomic_store_n(&c->ns, (uint32_t)most(each, 1), __ATOMIC_RELAXED);
}

/* Where streams work side by side one mark has the time of all and the next ones next to none. But from one mark that is
 * done to the next the card has done about what was launched between them, in whichever stream: that took so long. Where
 * marks are done in another order than they were put, one error makes up for the other: so each moves what its kind is
 * thought to take in proportion to its own, the same way up and down; all that fits into the depth together by an eighth of
 * what it was off. But it took no longer than the mark itself, own, and of streams that share the card evenly no less than
 * its part of that: else kinds that overtake each other would drift apart. */
void rf_kind_learn_beside(struct rf_fence *f, const struct rf_pace *p, const struct rf_mark *m,
			  uint64_t thought, uint64_t took, uint64_t own, unsigned lanes)
{
	struct rf_cost *c = &f->cost[m->kind];
	uint64_t whole =
		8 * most(rf_gate_depth(&f->gate->card[f->lane[m->lane].card], p), DEPTH_LEARN);
	uint64_t was = c->ns, each = was, n = most(m->of_kind, 1);

	if (was == 0)
		return;
	if (took < thought) {
		each -= least(part_of(each, thought - took, whole), each / 4);
		each = most(each, least(was, own / n / most(lanes, 1)));
	} else {
		each += part_of(each, took - thought, whole);
		each = least(each, most(was, least(own / n, 1000 * MS)));
	}
	__atomic_store_n(&c->ns, (uint32_t)most(each, 1), __ATOMIC_RELAXED);
}
