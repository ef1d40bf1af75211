/* Taking, giving back, and undoing both. */
#include "sched/fleet_private.h"

/* --- owners ----------------------------------------------------------------------------------- */

/* Of one more beside those that there are. */
static uint32_t join(bool first, uint32_t others, uint32_t one)
{
	return first || others == one ? one : MANY;
}

static uint32_t trust_of(const struct rf_fleet_owner *o)
{
	return o->level >= RF_ISOLATION_SHARE ? o->trust : MANY; /* who has a share and accepts it no more is joined by nobody */
}

/* Before the grant counts in c->load. */
static void add_owner(struct card *c, const struct rf_fleet_owner *o, const struct rf_fleet_grant *g)
{
	uint32_t tenant = o->tenant != 0 ? o->tenant : MANY;

	if (g->kind == RF_FLEET_SHARE)
		c->trust = join(c->load.n_share == 0, c->trust, trust_of(o));
	if (g->kind != RF_FLEET_SLICE)
		return;
	c->slicers[g->start] = tenant;
	c->slicer = join(c->load.n_slice == 0, c->slicer, tenant);
	c->n_strict += o->level < RF_ISOLATION_SLICE;
}

/* Whose the shares are, from the holds: where "several" may have become one again. */
static uint32_t recount_trust(const struct rf_fleet *f, const struct node *n, unsigned card)
{
	uint32_t trust = 0;
	bool first = true;

	for (uint32_t h = n->first_hold; h != 0; h = f->holds.at[h - 1].next) {
		const struct hold *v = &f->holds.at[h - 1];

		for (unsigned i = 0; i < v->n; i++) {
			if (v->grants[i].card != card)
				continue;
			trust = join(first, trust, trust_of(&v->owner));
			first = false;
		}
	}
	return trust;
}

static uint32_t recount_slicer(const struct card *c)
{
	uint32_t slicer = 0;

	for (unsigned i = 0; i < EIGHTHS; i++) {
		if (c->slicers[i] != 0)
			slicer = join(slicer == 0, slicer, c->slicers[i]);
	}
	return slicer;
}

/* --- putting a hold onto its node, and off it ------------------------------------------------- */

static void attach(struct rf_fleet *f, uint32_t index)
{
	struct hold *h = &f->holds.at[index];
	struct node *n = &f->nodes.at[h->node];

	n->cpu_left -= h->cpu;
	n->memory_left -= h->memory;
	n->pods_left -= !h->no_pod;
	n->n_holds++;
	fl_add_guest(f, h->node, &h->owner);
	f->taken += h->n > 0;
	h->live = true;
	h->prev = 0;
	h->next = n->first_hold;
	if (h->next != 0)
		f->holds.at[h->next - 1].prev = index + 1;
	n->first_hold = index + 1;
	for (unsigned i = 0; i < h->n; i++) {
		struct card *c = &n->cards[h->grants[i].card];

		add_owner(c, &h->owner, &h->grants[i]);
		fl_load_add(f, c, &c->load, &h->grants[i]);
		fl_card_changed(f, c);
	}
	if (fl_minds_group(&h->owner))
		fl_bar(f, n);
	fl_node_changed(f, h->node);
}

static void disown(struct rf_fleet *f, struct node *n, unsigned card)
{
	struct card *c = &n->cards[card];

	if (c->load.n_share == 0)
		c->trust = 0;
	else if (c->trust == MANY)
		c->trust = recount_trust(f, n, card);
	c->slicer = recount_slicer(c);
	fl_card_changed(f, c);
}

static void detach(struct rf_fleet *f, uint32_t index)
{
	struct hold *h = &f->holds.at[index];
	struct node *n = &f->nodes.at[h->node];

	n->cpu_left += h->cpu;
	n->memory_left += h->memory;
	n->pods_left += !h->no_pod;
	n->n_holds--;
	fl_remove_guest(f, h->node, &h->owner);
	h->live = false;
	if (h->prev != 0)
		f->holds.at[h->prev - 1].next = h->next;
	else
		n->first_hold = h->next;
	if (h->next != 0)
		f->holds.at[h->next - 1].prev = h->prev;
	for (unsigned i = 0; i < h->n; i++) {
		struct card *c = &n->cards[h->grants[i].card];

		fl_load_sub(f, c, &c->load, &h->grants[i]);
		if (h->grants[i].kind == RF_FLEET_SLICE) {
			c->slicers[h->grants[i].start] = 0;
			c->n_strict -= h->owner.level < RF_ISOLATION_SLICE;
		}
	}
	for (unsigned i = 0; i < h->n; i++)
		disown(f, n, h->grants[i].card);
	if (fl_minds_group(&h->owner))
		fl_bar(f, n);
	fl_node_changed(f, h->node);
}

static void release(struct rf_fleet *f, uint32_t index)
{
	struct hold *h = &f->holds.at[index];
	uint32_t node = h->node;

	free(h->grants);
	*h = (struct hold){ .generation = h->generation + 1 };
	rf_vec_push(&f->unused_holds, index);
	fl_retire(f, node);
}

/* --- taking ----------------------------------------------------------------------------------- */

static int unfit(struct rf_err *err, const struct rf_fleet_place *at, const char *why)
{
	return rf_fail(err, RF_CONFLICT, "node %u: %s; find a place anew", at->node, why);
}

/* Can the card be held like this at all, whoever it meets? */
static bool holdable(const struct rf_fleet *f, const struct card *c, const struct load *l,
		     const struct rf_fleet_grant *g)
{
	if (g->kind == RF_FLEET_WHOLE)
		return fl_untouched(l);
	if (g->kind == RF_FLEET_SHARE)
		return l->n_whole == 0 && l->n_slice == 0 && g->bytes >= 0 && g->bytes <= RF_FLEET_MEMORY_MAX &&
		       g->milli >= 0 && g->milli <= RF_FLEET_MILLI && l->n_share < UINT16_MAX;
	return g->kind == RF_FLEET_SLICE && g->profile < f->models[c->v.model].n_profiles && g->start < EIGHTHS &&
	       (fl_starts(f, c, l, g->profile) >> g->start & 1);
}

static bool allowed(const struct rf_fleet *f, const struct rf_fleet_ask *ask, const struct card *c,
		    const struct load *l, const struct rf_fleet_grant *g)
{
	enum rf_fleet_kind kind = (enum rf_fleet_kind)g->kind;
	struct need need = fl_need(ask, &ask->parts[g->part]);

	return c->there && c->v.healthy && fl_has_room(f, c, l, &need) && fl_card_open(c, &ask->owner, kind) &&
	       fl_clean(c, &ask->owner, fl_mask(f, c, g), false);
}

static bool same_as_part(const struct rf_fleet_ask *ask, const struct rf_fleet_grant *g)
{
	const struct rf_fleet_part *p;

	if (g->part >= ask->n_parts)
		return false;
	p = &ask->parts[g->part];
	if (p->kind != (enum rf_fleet_kind)g->kind)
		return false;
	if (p->kind == RF_FLEET_SHARE)
		return p->bytes == g->bytes && p->milli == g->milli;
	return g->bytes == 0 && g->milli == 0 && (p->kind != RF_FLEET_SLICE || p->profile == g->profile);
}

/* Everything that was asked for is there, and where that matters, together or apart. */
static bool complete(const struct node *n, const struct rf_fleet_ask *ask, const struct rf_fleet_place *at)
{
	for (unsigned p = 0; p < ask->n_parts; p++) {
		unsigned count = 0;
		uint64_t on = 0;
		int island = -1;

		for (unsigned i = 0; i < at->n; i++) {
			const struct rf_fleet_grant *g = &at->grants[i];

			if (g->part != p)
				continue;
			if (ask->parts[p].apart && (on >> g->card & 1))
				return false;
			if (ask->parts[p].one_island && island >= 0 && island != n->cards[g->card].v.island)
				return false;
			on |= (uint64_t)1 << g->card;
			island = n->cards[g->card].v.island;
			count++;
		}
		if (count != ask->parts[p].n)
			return false;
	}
	return true;
}

static int check_grants(struct rf_fleet *f, const struct rf_fleet_ask *ask, const struct rf_fleet_place *at,
			bool force, struct rf_err *err)
{
	struct load loads[RF_FLEET_CARDS_MAX] RF_UNINITIALIZED;
	const struct node *n = &f->nodes.at[at->node];
	uint64_t closed = force ? 0 : fl_closed(f, n, &ask->owner), seen = 0;

	for (unsigned i = 0; i < at->n; i++) {
		const struct rf_fleet_grant *g = &at->grants[i];

		if (g->card >= n->n_cards)
			return unfit(err, at, "it has no such card");
		if (!(seen >> g->card & 1))
			loads[g->card] = n->cards[g->card].load;
		seen |= (uint64_t)1 << g->card;
		if (!holdable(f, &n->cards[g->card], &loads[g->card], g))
			return unfit(err, at, "a card is held in another way, or the slice is taken");
		if (closed >> g->card & 1)
			return unfit(err, at, "a card belongs together with one that somebody is on who may not be met");
		if (!force && (!same_as_part(ask, g) || !allowed(f, ask, &n->cards[g->card], &loads[g->card], g)))
			return unfit(err, at, "a card does not fit what was asked");
		fl_load_add(f, &n->cards[g->card], &loads[g->card], g);
	}
	if (!force && ask->leave != NULL) {
		fl_weigh(f, ask);
		if (!fl_spares(f, n, ask, at->grants, at->n))
			return unfit(err, at, "that is not lent to the owner");
	}
	return force || complete(n, ask, at) ? 0 : unfit(err, at, "not everything that was asked for is there");
}

static bool countable(const struct rf_fleet_ask *ask)
{
	return ask->cpu_milli >= 0 && ask->cpu_milli <= RF_FLEET_CPU_MAX && ask->memory >= 0 &&
	       ask->memory <= RF_FLEET_MEMORY_MAX;
}

static int check_take(struct rf_fleet *f, const struct rf_fleet_ask *ask, const struct rf_fleet_place *at,
		      bool force, struct rf_err *err)
{
	if (at->node >= f->nodes.n || !f->nodes.at[at->node].known || at->n > RF_FLEET_CARDS_MAX)
		return unfit(err, at, "there is no such node");
	if (!countable(ask))
		return unfit(err, at, "more CPU or memory than can be counted");
	if (!force && (rf_fleet_check(ask, err) < 0 || !fl_in_class(f, ask->class, at->node) ||
		       !fl_node_fits(&f->nodes.at[at->node], ask)))
		return unfit(err, at, "it has no room any more, or is closed to the owner");
	return check_grants(f, ask, at, force, err);
}

static uint32_t new_hold(struct rf_fleet *f)
{
	if (f->unused_holds.n > 0)
		return f->unused_holds.at[--f->unused_holds.n];
	rf_vec_push(&f->holds, (struct hold){ .generation = 1 });
	return (uint32_t)f->holds.n - 1;
}

int rf_fleet_take(struct rf_fleet *f, const struct rf_fleet_ask *ask, const struct rf_fleet_place *at, bool force,
		  uint64_t *ret_hold, struct rf_err *err)
{
	struct hold *h;
	uint32_t index;
	int r = check_take(f, ask, at, force, err);

	if (r < 0)
		return r;
	fl_racks_matter(f, &ask->owner);
	index = new_hold(f);
	h = &f->holds.at[index];
	h->owner = ask->owner;
	h->cpu = ask->cpu_milli;
	h->memory = ask->memory;
	h->node = at->node;
	h->n = (uint16_t)at->n;
	h->no_pod = ask->no_pod;
	h->somewhere = ask->somewhere;
	h->grants = rf_realloc(NULL, RF_MAX(at->n, 1) * sizeof(h->grants[0]));
	memcpy(h->grants, at->grants, at->n * sizeof(h->grants[0]));
	if (f->marks > 0)
		rf_vec_push(&f->log, ((struct undo){ .kind = UNDO_TAKE, .at = index }));
	attach(f, index);
	if (ret_hold != NULL)
		*ret_hold = (uint64_t)h->generation << 32 | index;
	return 0;
}

/* --- giving back ------------------------------------------------------------------------------ */

static const struct hold *find_hold(const struct rf_fleet *f, uint64_t hold)
{
	uint32_t index = (uint32_t)hold;

	if (index >= f->holds.n || !f->holds.at[index].live || f->holds.at[index].generation != hold >> 32)
		return NULL;
	return &f->holds.at[index];
}

const struct rf_fleet_grant *rf_fleet_hold(const struct rf_fleet *f, uint64_t hold, uint32_t *ret_node,
					   size_t *ret_n)
{
	const struct hold *h = find_hold(f, hold);

	if (h == NULL)
		return NULL;
	*ret_node = h->node;
	*ret_n = h->n;
	return h->grants;
}

size_t rf_fleet_holds(const struct rf_fleet *f, uint32_t node, uint64_t *ret, size_t max)
{
	size_t n = 0;

	if (node >= f->nodes.n)
		return 0;
	for (uint32_t h = f->nodes.at[node].first_hold; h != 0; h = f->holds.at[h - 1].next, n++)
		if (n < max)
			ret[n] = (uint64_t)f->holds.at[h - 1].generation << 32 | (h - 1);
	return n;
}

static void leave_dirt(struct rf_fleet *f, const struct hold *h, const struct rf_fleet_grant *g)
{
	const struct card *c = &f->nodes.at[h->node].cards[g->card];
	uint32_t tenant = h->owner.tenant != 0 ? h->owner.tenant : MANY, dirt[EIGHTHS];
	uint8_t mask = fl_mask(f, c, g);

	memcpy(dirt, c->dirt, sizeof(dirt));
	for (unsigned i = 0; i < EIGHTHS; i++)
		if (mask >> i & 1)
			dirt[i] = dirt[i] == 0 || dirt[i] == tenant ? tenant : MANY;
	fl_set_dirt(f, h->node, g->card, dirt);
}

bool rf_fleet_give(struct rf_fleet *f, uint64_t hold)
{
	const struct hold *h = find_hold(f, hold);
	uint32_t index = (uint32_t)hold;

	if (h == NULL)
		return false;
	for (unsigned i = 0; i < h->n; i++)
		leave_dirt(f, h, &h->grants[i]);
	if (f->marks > 0)
		rf_vec_push(&f->log, ((struct undo){ .kind = UNDO_GIVE, .at = index }));
	detach(f, index);
	fl_node_freed(f, &f->nodes.at[h->node]);
	if (f->marks > 0)
		rf_vec_push(&f->limbo, index);
	else
		release(f, index);
	return true;
}

void rf_fleet_regrade(struct rf_fleet *f, uint32_t tenant, uint32_t trust, enum rf_isolation level)
{
	rf_assert(f->marks == 0);
	for (uint32_t i = 0; i < f->holds.n; i++) {
		struct hold *h = &f->holds.at[i];

		if (!h->live || h->owner.tenant != tenant || h->owner.system ||
		    (h->owner.trust == trust && h->owner.level == level))
			continue;
		detach(f, i);
		h->owner.trust = trust;
		h->owner.level = level;
		attach(f, i);
		fl_node_freed(f, &f->nodes.at[h->node]);
	}
}

/* --- undoing ---------------------------------------------------------------------------------- */

#define VERSIONS (RF_FLEET_MODELS_MAX + 2) /* saved for each mark */

static void save_versions(struct rf_fleet *f)
{
	rf_vec_push(&f->saved_versions, f->version);
	rf_vec_push(&f->saved_versions, f->taken);
	for (size_t i = 0; i < RF_FLEET_MODELS_MAX; i++)
		rf_vec_push(&f->saved_versions, f->models[i].version);
}

static void drop_versions(struct rf_fleet *f, bool restore)
{
	f->saved_versions.n -= VERSIONS;
	if (!restore)
		return;
	f->version = f->saved_versions.at[f->saved_versions.n];
	f->taken = f->saved_versions.at[f->saved_versions.n + 1];
	for (size_t i = 0; i < RF_FLEET_MODELS_MAX; i++)
		f->models[i].version = f->saved_versions.at[f->saved_versions.n + 2 + i];
}

void fl_saved_freed(struct rf_fleet *f, const struct node *n)
{
	for (size_t at = 0; at < f->saved_versions.n; at += VERSIONS) {
		f->saved_versions.at[at]++;
		FL_EACH_BIT (m, n->models)
			f->saved_versions.at[at + 2 + m]++;
	}
}

size_t rf_fleet_mark(struct rf_fleet *f)
{
	f->marks++;
	rf_vec_push(&f->floors, f->log.n);
	save_versions(f);
	return f->log.n;
}

static void set_lifted(struct rf_fleet *f, uint32_t index, bool lifted)
{
	struct hold *h = &f->holds.at[index];

	for (unsigned i = 0; i < h->n; i++) {
		struct card *c = &f->nodes.at[h->node].cards[h->grants[i].card];
		uint8_t mask = fl_mask(f, c, &h->grants[i]);

		for (unsigned k = 0; k < EIGHTHS; k++)
			c->lifted[k] = (uint16_t)(c->lifted[k] + (mask >> k & 1) * (lifted ? 1 : -1));
	}
	h->lifted = lifted;
	f->n_lifted += lifted ? 1 : (size_t)-1;
	if (lifted)
		detach(f, index);
	else
		attach(f, index);
}

/* Two steps that cancel out are forgotten, or a long search would fill the log. */
static void log_lift(struct rf_fleet *f, enum undo_kind kind, enum undo_kind inverse, uint32_t index)
{
	size_t n = f->log.n;

	if (n > f->floors.at[f->floors.n - 1] && f->log.at[n - 1].kind == inverse && f->log.at[n - 1].at == index)
		f->log.n--;
	else
		rf_vec_push(&f->log, ((struct undo){ .kind = kind, .at = index }));
}

bool rf_fleet_lift(struct rf_fleet *f, uint64_t hold)
{
	uint32_t index = (uint32_t)hold;

	rf_assert(f->marks > 0);
	if (find_hold(f, hold) == NULL)
		return false;
	log_lift(f, UNDO_LIFT, UNDO_UNLIFT, index);
	set_lifted(f, index, true);
	fl_node_freed(f, &f->nodes.at[f->holds.at[index].node]);
	return true;
}

bool rf_fleet_unlift(struct rf_fleet *f, uint64_t hold)
{
	uint32_t index = (uint32_t)hold;

	if (index >= f->holds.n || !f->holds.at[index].lifted || f->holds.at[index].generation != hold >> 32)
		return false;
	log_lift(f, UNDO_UNLIFT, UNDO_LIFT, index);
	set_lifted(f, index, false);
	return true;
}

static void undo(struct rf_fleet *f, const struct undo *u)
{
	switch (u->kind) {
	case UNDO_TAKE:
		detach(f, u->at);
		release(f, u->at);
		break;
	case UNDO_GIVE:
		rf_assert(f->limbo.n > 0 && f->limbo.at[f->limbo.n - 1] == u->at);
		f->limbo.n--;
		attach(f, u->at);
		break;
	case UNDO_LIFT:
		set_lifted(f, u->at, false);
		break;
	case UNDO_UNLIFT:
		set_lifted(f, u->at, true);
		break;
	case UNDO_DIRT:
		fl_set_dirt(f, u->at, u->card, u->dirt);
		fl_node_changed(f, u->at);
		break;
	case UNDO_HEALTH:
		rf_fleet_set_healthy(f, u->at, u->card, u->was);
		break;
	case UNDO_KEPT:
		rf_fleet_set_kept(f, u->at, (uint16_t)u->card);
		break;
	case UNDO_CORDON:
		rf_fleet_set_cordoned(f, u->at, u->was);
		break;
	}
}

void rf_fleet_rollback(struct rf_fleet *f, size_t mark)
{
	size_t marks = f->marks;

	rf_assert(marks > 0 && mark <= f->log.n);
	f->marks = 0; /* undoing is not logged */
	f->undoing = true;
	while (f->log.n > mark) {
		struct undo u = f->log.at[--f->log.n];

		undo(f, &u);
	}
	f->undoing = false;
	f->marks = marks - 1;
	f->floors.n--;
	drop_versions(f, true);
}

void rf_fleet_keep(struct rf_fleet *f, size_t mark)
{
	rf_assert(f->marks > 0 && mark <= f->log.n);
	drop_versions(f, false);
	f->floors.n--;
	if (--f->marks > 0)
		return;
	rf_assert(f->n_lifted == 0);
	f->log.n = 0;
	while (f->limbo.n > 0)
		release(f, f->limbo.at[--f->limbo.n]);
}
