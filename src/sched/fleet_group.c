/* Cards of a node that belong together: those of one NUMA node, and those that NVLink joins. Who shares such a group with
 * nobody has it for itself or is not there, as it is with nodes and racks. Both are a relation between cards, not a
 * number: where a card belongs that does not say so nobody knows, and it is kin to all. For those who do not mind, what
 * others closed is one mask of cards, which is 0 where nobody minds; who minds looks at who holds what. */
#include "sched/fleet_private.h"

static const enum rf_isolation LEVEL[GROUPS] = { [NUMA] = RF_ISOLATION_NUMA, [NVLINK] = RF_ISOLATION_NVLINK };

static bool are_kin(const struct rf_fleet_card *a, const struct rf_fleet_card *b, int group)
{
	if (group == NUMA)
		return a->numa == b->numa || a->numa == RF_FLEET_NUMA_UNKNOWN || b->numa == RF_FLEET_NUMA_UNKNOWN;
	return a->island == b->island || a->island >= RF_FLEET_ISLANDS || b->island >= RF_FLEET_ISLANDS;
}

static uint64_t kin_of(const struct node *n, unsigned card, int group)
{
	uint64_t kin = (uint64_t)1 << card;

	for (unsigned i = 0; i < n->n_cards; i++)
		kin |= (uint64_t)are_kin(&n->cards[card].v, &n->cards[i].v, group) << i;
	return kin;
}

/* What it has somewhere may be beside any card. */
static uint64_t kin_of_hold(const struct node *n, const struct hold *h, int group)
{
	uint64_t kin = h->somewhere ? ~UINT64_C(0) : 0;

	for (unsigned i = 0; i < h->n; i++)
		kin |= n->cards[h->grants[i].card].kin[group];
	return kin;
}

static uint64_t barred(const struct rf_fleet *f, const struct node *n)
{
	uint64_t cards = 0;

	for (uint32_t h = n->first_hold; h != 0; h = f->holds.at[h - 1].next) {
		const struct hold *v = &f->holds.at[h - 1];

		for (int g = 0; g < GROUPS; g++)
			cards |= fl_minds_group(&v->owner) && v->owner.level == LEVEL[g] ? kin_of_hold(n, v, g) : 0;
	}
	return cards;
}

void fl_bar(const struct rf_fleet *f, struct node *n)
{
	n->barred = barred(f, n);
}

void fl_group_cards(const struct rf_fleet *f, struct node *n)
{
	for (unsigned i = 0; i < n->n_cards; i++) {
		for (int g = 0; g < GROUPS; g++)
			n->cards[i].kin[g] = kin_of(n, i, g);
	}
	fl_bar(f, n);
}

uint64_t fl_closed_by(const struct rf_fleet *f, const struct node *n, const struct rf_fleet_owner *o, unsigned groups)
{
	uint64_t closed = 0;

	if (o->system || (n->barred == 0 && !fl_minds_group(o)))
		return 0;
	for (uint32_t h = n->first_hold; h != 0; h = f->holds.at[h - 1].next) {
		const struct hold *v = &f->holds.at[h - 1];

		if (v->owner.system || (v->owner.tenant == o->tenant && o->tenant != 0))
			continue;
		for (int g = 0; g < GROUPS; g++) {
			if ((groups >> g & 1) && (o->level == LEVEL[g] || v->owner.level == LEVEL[g]))
				closed |= kin_of_hold(n, v, g);
		}
	}
	return closed;
}

bool fl_audit_groups(const struct rf_fleet *f, const struct node *n)
{
	for (unsigned i = 0; i < n->n_cards; i++) {
		for (int g = 0; g < GROUPS; g++) {
			if (n->cards[i].kin[g] != kin_of(n, i, g))
				return false;
		}
	}
	return n->barred == barred(f, n);
}
