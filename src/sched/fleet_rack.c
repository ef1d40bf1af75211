/* Who is on a node, and in its rack. A rack is a domain like a node, only larger: who shares it with nobody has it for
 * itself or is not there. Both are counted as holds come and go, so that to ask is a look at two numbers. */
#include "sched/fleet_private.h"

/* --- guests ----------------------------------------------------------------------------------- */

static void add(struct guests *g, uint32_t tenant, bool alone)
{
	size_t i = 0;

	g->n_alone += alone;
	while (i < g->all.n && g->all.at[i].tenant != tenant)
		i++;
	if (i == g->all.n)
		rf_vec_push(&g->all, (struct guest){ .tenant = tenant });
	g->all.at[i].n++;
}

static void drop(struct guests *g, uint32_t tenant, bool alone)
{
	size_t i = 0;

	g->n_alone -= alone;
	while (i < g->all.n && g->all.at[i].tenant != tenant)
		i++;
	rf_assert(i < g->all.n);
	if (--g->all.at[i].n == 0)
		rf_vec_remove(&g->all, i);
}

/* One tenant, or several, or none; and whether somebody is to be left alone. */
uint64_t fl_sign_guests(uint64_t h, const struct guests *g)
{
	h = fl_mix(h, (uint64_t)(g->n_alone > 0) << 32 | RF_MIN(g->all.n, 2));
	return fl_mix(h, g->all.n == 1 ? g->all.at[0].tenant : 0);
}

/* --- racks ------------------------------------------------------------------------------------ */

/* The node's neighbours are open to others than before. */
static void rack_changed(struct rf_fleet *f, const struct rack *r, bool freed)
{
	for (size_t i = 0; i < r->nodes.n; i++) {
		uint32_t node = r->nodes.at[i];

		f->signs.at[node] = 0;
		fl_lanes_changed(f->lanes, node);
		if (freed)
			fl_node_freed(f, &f->nodes.at[node]);
	}
}

static void count_in_rack(struct rf_fleet *f, struct rack *r, const struct rf_fleet_owner *o, bool in)
{
	bool alone = r->guests.n_alone > 0;
	uint64_t sign = fl_sign_guests(0, &r->guests);

	if (in)
		add(&r->guests, o->tenant, o->level == RF_ISOLATION_RACK);
	else
		drop(&r->guests, o->tenant, o->level == RF_ISOLATION_RACK);
	if (alone != (r->guests.n_alone > 0) || (f->racks_matter && sign != fl_sign_guests(0, &r->guests)))
		rack_changed(f, r, !in);
}

/* From the first such request on nodes are told of everybody in their rack. */
void fl_racks_matter(struct rf_fleet *f, const struct rf_fleet_owner *o)
{
	if (f->racks_matter || o->level != RF_ISOLATION_RACK || o->system)
		return;
	f->racks_matter = true;
	for (size_t i = 0; i < f->nodes.n; i++)
		f->signs.at[i] = 0;
}

static struct rack *rack_of(struct rf_fleet *f, struct rf_str name)
{
	struct rack *r = rf_map_get(&f->racks, name);
	char *to;

	if (r != NULL)
		return r;
	r = rf_alloc(sizeof(*r) + name.n);
	to = (char *)(r + 1);
	memcpy(to, name.p, name.n);
	r->name = rf_str_n(to, name.n);
	rf_map_set(&f->racks, r->name, r);
	return r;
}

static void count_holds(struct rf_fleet *f, uint32_t node, bool in)
{
	const struct node *n = &f->nodes.at[node];

	for (uint32_t h = n->first_hold; h != 0; h = f->holds.at[h - 1].next) {
		if (!f->holds.at[h - 1].owner.system)
			count_in_rack(f, n->rack, &f->holds.at[h - 1].owner, in);
	}
}

static void leave_rack(struct rf_fleet *f, uint32_t node)
{
	struct rack *r = f->nodes.at[node].rack;
	size_t i = 0;

	if (r == NULL)
		return;
	count_holds(f, node, false);
	f->nodes.at[node].rack = NULL;
	while (r->nodes.at[i] != node)
		i++;
	rf_vec_remove(&r->nodes, i);
	if (r->nodes.n > 0)
		return;
	rf_map_del(&f->racks, r->name);
	rf_vec_done(&r->nodes);
	rf_vec_done(&r->guests.all);
	free(r);
}

void fl_set_rack(struct rf_fleet *f, uint32_t node, struct rf_str name)
{
	struct node *n = &f->nodes.at[node];

	if (n->rack != NULL ? rf_str_eq(n->rack->name, name) : name.n == 0)
		return;
	leave_rack(f, node);
	if (name.n == 0)
		return;
	n->rack = rack_of(f, name);
	rf_vec_push(&n->rack->nodes, node);
	count_holds(f, node, true);
}

bool rf_fleet_in_one_rack(const struct rf_fleet *f, uint32_t a, uint32_t b)
{
	return a < f->nodes.n && b < f->nodes.n && f->nodes.at[a].rack != NULL && f->nodes.at[a].rack == f->nodes.at[b].rack;
}

size_t rf_fleet_rack_shut(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_owner *o, const uint32_t **ret)
{
	const struct rack *r = node < f->nodes.n ? f->nodes.at[node].rack : NULL;

	if (r == NULL || o->system || (r->guests.n_alone == 0 && o->level != RF_ISOLATION_RACK))
		return 0;
	*ret = r->nodes.at;
	return r->nodes.n;
}

static bool keeps_out(const struct hold *h, const struct rf_fleet_owner *o)
{
	return !h->owner.system && !o->system && h->owner.tenant != o->tenant &&
	       (h->owner.level == RF_ISOLATION_RACK || o->level == RF_ISOLATION_RACK);
}

bool rf_fleet_keeps_out(const struct rf_fleet *f, uint64_t hold, const struct rf_fleet_owner *o)
{
	uint32_t index = (uint32_t)hold;

	return index < f->holds.n && f->holds.at[index].live && f->holds.at[index].generation == hold >> 32 &&
	       keeps_out(&f->holds.at[index], o);
}

size_t rf_fleet_keep_out(const struct rf_fleet *f, uint32_t node, const struct rf_fleet_owner *o)
{
	size_t n = 0;

	for (uint32_t h = f->nodes.at[node].first_hold; h != 0; h = f->holds.at[h - 1].next)
		n += keeps_out(&f->holds.at[h - 1], o);
	return n;
}

void rf_fleet_cordon_rack(struct rf_fleet *f, uint32_t node)
{
	const struct rack *r = f->nodes.at[node].rack;

	rf_fleet_set_cordoned(f, node, true);
	for (size_t i = 0; r != NULL && i < r->nodes.n; i++)
		rf_fleet_set_cordoned(f, r->nodes.at[i], true);
}

void fl_add_guest(struct rf_fleet *f, uint32_t node, const struct rf_fleet_owner *o)
{
	struct node *n = &f->nodes.at[node];

	if (o->system)
		return;
	add(&n->guests, o->tenant, o->level <= RF_ISOLATION_NODE);
	if (n->rack != NULL)
		count_in_rack(f, n->rack, o, true);
}

void fl_remove_guest(struct rf_fleet *f, uint32_t node, const struct rf_fleet_owner *o)
{
	struct node *n = &f->nodes.at[node];

	if (o->system)
		return;
	drop(&n->guests, o->tenant, o->level <= RF_ISOLATION_NODE);
	if (n->rack != NULL)
		count_in_rack(f, n->rack, o, false);
}

/* --- the books -------------------------------------------------------------------------------- */

static uint32_t holds_of(const struct guests *g)
{
	uint32_t n = 0;

	for (size_t i = 0; i < g->all.n; i++)
		n += g->all.at[i].n;
	return n;
}

static bool audit_rack(const struct rf_fleet *f, const struct rack *r)
{
	uint32_t holds = 0, alone = 0;

	for (size_t i = 0; i < r->nodes.n; i++) {
		const struct node *n = &f->nodes.at[r->nodes.at[i]];

		if (n->rack != r)
			return false;
		holds += holds_of(&n->guests);
		for (uint32_t h = n->first_hold; h != 0; h = f->holds.at[h - 1].next) {
			const struct rf_fleet_owner *o = &f->holds.at[h - 1].owner;

			alone += !o->system && o->level == RF_ISOLATION_RACK;
		}
	}
	return holds == holds_of(&r->guests) && alone == r->guests.n_alone;
}

bool fl_audit_racks(const struct rf_fleet *f)
{
	for (const struct rf_map_slot *s = NULL; (s = rf_map_next(&f->racks, s)) != NULL;) {
		if (!audit_rack(f, s->value))
			return false;
	}
	return true;
}
