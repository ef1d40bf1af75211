/* What the best machine has left of each: a tree of the most of two, with the nodes as its leaves. */
#include "sched/fleet_private.h"

static struct rf_fleet_left of_node(const struct rf_fleet *f, uint32_t node)
{
	const struct node *n = &f->nodes.at[node];
	struct rf_fleet_left l = { 0 };

	if (!bit_get(f->there, node))
		return l;
	for (unsigned i = 0; i < n->n_levels; i++) /* the last step says: so many or more */
		l.cards += n->levels[i].whole < LEVEL_STEPS ? n->levels[i].whole : RF_FLEET_CARDS_MAX;
	l.cards = RF_MIN(l.cards, RF_FLEET_CARDS_MAX);
	l.cpu_milli = RF_MAX(n->cpu_left, 0);
	l.memory = RF_MAX(n->memory_left, 0);
	if (l.cards > 0) {
		l.beside.cpu_milli = l.cpu_milli;
		l.beside.memory = l.memory;
	}
	return l;
}

static struct rf_fleet_left most(const struct rf_fleet_left *l)
{
	return (struct rf_fleet_left){ .cards = RF_MAX(l[0].cards, l[1].cards),
				       .cpu_milli = RF_MAX(l[0].cpu_milli, l[1].cpu_milli),
				       .memory = RF_MAX(l[0].memory, l[1].memory),
				       .beside.cpu_milli = RF_MAX(l[0].beside.cpu_milli, l[1].beside.cpu_milli),
				       .beside.memory = RF_MAX(l[0].beside.memory, l[1].beside.memory) };
}

static bool same(const struct rf_fleet_left *a, const struct rf_fleet_left *b)
{
	return memcmp(a, b, sizeof(*a)) == 0; /* numbers only */
}

void fl_left_grow(struct rf_fleet *f, size_t from, size_t to)
{
	struct rf_fleet_left *left = rf_alloc(2 * to * sizeof(*left));

	if (from > 0)
		memcpy(left + to, f->left + from, from * sizeof(*left));
	for (size_t i = to; i-- > 1;)
		left[i] = most(&left[2 * i]);
	free(f->left);
	f->left = left;
}

void fl_left_changed(struct rf_fleet *f, uint32_t node)
{
	struct rf_fleet_left now = of_node(f, node);

	for (size_t i = 64 * f->words + node; i > 0 && !same(&f->left[i], &now); now = most(&f->left[2 * i])) {
		f->left[i] = now;
		i /= 2;
	}
}

struct rf_fleet_left rf_fleet_left(const struct rf_fleet *f)
{
	return f->words > 0 ? f->left[1] : (struct rf_fleet_left){ 0 };
}

bool fl_audit_left(const struct rf_fleet *f)
{
	struct rf_fleet_left best[2] = { 0 };

	for (uint32_t i = 0; i < f->nodes.n; i++) {
		best[1] = of_node(f, i);
		best[0] = most(best);
	}
	best[1] = rf_fleet_left(f);
	return same(&best[0], &best[1]);
}
