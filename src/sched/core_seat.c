/* Holds in the fleet. A pod that is bound, or soon will be, has one, with the cards of its claim in it; a claim
 * whose pod is not there holds its cards by itself. A claim that is gone says that its cards are clean. */
#include "sched/core_private.h"

#define NO_CARDS ((UINT64_C(1) << CO_CPU) | (UINT64_C(1) << CO_MEMORY) | (UINT64_C(1) << CO_PODS))

/* --- giving back ------------------------------------------------------------------------------ */

/* wake: these cards are free now, and not only between two holds of the same. */
static void give(struct rf_core *c, struct co_node *n, uint64_t hold, bool wake)
{
	uint8_t cards[RF_FLEET_CARDS_MAX];
	const struct rf_fleet_grant *g;
	uint32_t node;
	size_t many = 0;

	g = rf_fleet_hold(c->fleet, hold, &node, &many);
	rf_assert(g != NULL);
	for (size_t i = 0; i < many; i++) {
		cards[i] = g[i].card;
		c->capacity_stale = c->capacity_stale || !n->slots[cards[i]].there; /* it counted because it was held */
		if (rf_fleet_holds_other(c->fleet, node, cards[i]))
			c->refits = n->refit = true;
	}
	(void)rf_fleet_give(c->fleet, hold);
	co_held(c, n, -1);
	for (size_t i = 0; n->handle != RF_FLEET_NONE && i < many; i++)
		rf_fleet_scrubbed(c->fleet, n->handle, cards[i], 0xff);
	for (struct co_claim *k = n->claims_here; wake && !c->leaving && many > 0 && n->n_unplaced > 0 && k != NULL;
	     k = k->node_next) {
		if (k->placed)
			continue;
		k->retry = true; /* perhaps this was in its way */
		co_mark_claim(c, k);
	}
	c->freed |= many > 0 ? ~UINT64_C(0) : NO_CARDS;
	co_tick(c);
}

/* The fleet forgets a node that is gone, and its rack, with the last that is held there. Who gives a hold back to take
 * another in its place keeps the node meanwhile. */
struct pin {
	struct co_node *n; /* NULL: none is needed */
	uint64_t hold;
};

static struct pin pin_down(struct rf_core *c, struct co_node *n)
{
	struct rf_fleet_ask ask = { .owner = { .system = true }, .no_pod = true };
	struct rf_fleet_place at RF_UNINITIALIZED;
	struct pin p = { .n = NULL };
	struct rf_err err RF_UNINITIALIZED;

	at.node = n->handle;
	at.n = 0;
	if (rf_fleet_take(c->fleet, &ask, &at, true, &p.hold, &err) < 0)
		return p;
	co_node_ref(&p.n, n, c);
	co_held(c, n, 1);
	return p;
}

static struct pin pin(struct rf_core *c, struct co_node *n)
{
	bool needed = n != NULL && !n->there && n->handle != RF_FLEET_NONE;

	return needed ? pin_down(c, n) : (struct pin){ .n = NULL };
}

static void unpin(struct rf_core *c, struct pin *p)
{
	if (p->n == NULL)
		return;
	(void)rf_fleet_give(c->fleet, p->hold);
	co_held(c, p->n, -1);
	co_node_ref(&p->n, NULL, c);
}

static void unlink_seat(struct rf_core *c, struct co_pod *p)
{
	if (p->seat_prev != NULL)
		p->seat_prev->seat_next = p->seat_next;
	else
		p->seat->pods_here = p->seat_next;
	if (p->seat_next != NULL)
		p->seat_next->seat_prev = p->seat_prev;
	p->seat_prev = p->seat_next = NULL;
	co_node_ref(&p->seat, NULL, c);
}

static void link_seat(struct rf_core *c, struct co_pod *p, struct co_node *n)
{
	co_node_ref(&p->seat, n, c);
	p->seat_next = n->pods_here;
	if (n->pods_here != NULL)
		n->pods_here->seat_prev = p;
	n->pods_here = p;
}

static void set_placed(struct co_claim *k, bool placed)
{
	if (k->node != NULL && k->placed != placed)
		k->node->n_unplaced += placed ? (size_t)-1 : 1;
	k->placed = placed;
}

static void drop_hold(struct rf_core *c, struct co_pod *p, bool again)
{
	struct co_claim *k = p->held_for;

	if (p->hold != 0)
		give(c, p->seat, p->hold, p->held_for == NULL || !again);
	p->hold = 0;
	p->assumed_cards = p->reseat = false;
	if (k == NULL)
		return;
	set_placed(k, false);
	co_mark_claim(c, k);
	p->held_for = NULL;
	if (!again && !p->seat->there)
		co_seat_claim(c, k); /* while the fleet knows the node */
}

static void unseat(struct rf_core *c, struct co_pod *p)
{
	if (p->seat == NULL)
		return;
	if (p->wished)
		rf_wish_off(c->wishes, p->shape->wish, p->seat->handle);
	p->wished = false;
	p->ran = false;
	drop_hold(c, p, false);
	unlink_seat(c, p);
}

/* --- a claim's cards -------------------------------------------------------------------------- */

static bool resolve(const struct rf_core *c, const struct co_node *n, const struct co_grant *g,
		    struct rf_fleet_grant *ret)
{
	const struct co_slot *s;
	int profile;

	if (g->slot >= n->n_slots || !n->slots[g->slot].told)
		return false;
	s = &n->slots[g->slot];
	*ret = (struct rf_fleet_grant){ .card = g->slot, .kind = RF_FLEET_WHOLE };
	if (g->whole)
		return true;
	if (g->profile.n == 0) {
		ret->kind = RF_FLEET_SHARE;
		ret->bytes = RF_MIN(RF_MAX(g->bytes, 0), RF_FLEET_MEMORY_MAX);
		ret->milli = RF_MIN(RF_MAX(g->milli, 0), RF_FLEET_MILLI);
		return true;
	}
	profile = co_profile_of(c, s->model, g->profile);
	ret->kind = RF_FLEET_SLICE;
	ret->profile = (uint8_t)profile;
	ret->start = (uint8_t)g->start;
	return profile >= 0 && g->start >= 0 && g->start < RF_MIG_MEMORY_SLICES;
}

/* What can be held of it; true: that is all of it. */
static bool resolve_all(const struct rf_core *c, const struct co_claim *k, struct rf_fleet_place *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < k->n; i++)
		ret->n += resolve(c, k->node, &k->grants[i], &ret->grants[ret->n]);
	return ret->n == k->n;
}

static bool same_grant(const struct rf_fleet_grant *a, const struct rf_fleet_grant *b)
{
	return a->card == b->card && a->kind == b->kind && a->bytes == b->bytes && a->milli == b->milli &&
	       (a->kind != RF_FLEET_SLICE || (a->profile == b->profile && a->start == b->start));
}

static bool as_decided(const struct rf_core *c, const struct co_pod *p, const struct co_claim *k)
{
	struct rf_fleet_place at RF_UNINITIALIZED;
	const struct rf_fleet_grant *g;
	uint64_t seen = 0;
	uint32_t node;
	size_t n;

	g = rf_fleet_hold(c->fleet, p->hold, &node, &n);
	if (g == NULL || !resolve_all(c, k, &at) || at.n != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		size_t j = 0;

		while (j < n && ((seen >> j & 1) || !same_grant(&g[j], &at.grants[i])))
			j++;
		if (j == n)
			return false;
		seen |= UINT64_C(1) << j;
	}
	return true;
}

/* Every card of it that can be held is; false: not all of them can. */
static bool take(struct rf_core *c, struct co_node *n, struct rf_fleet_ask *ask, const struct co_claim *k,
		 uint64_t *ret_hold)
{
	struct rf_fleet_place at RF_UNINITIALIZED;
	struct rf_err err RF_UNINITIALIZED;
	bool whole = true;

	*ret_hold = 0;
	at.node = n->handle;
	at.n = 0;
	if (n->handle == RF_FLEET_NONE)
		return false;
	if (k != NULL)
		whole = resolve_all(c, k, &at) && n->cards_known;
	ask->somewhere = k != NULL && at.n < k->n;
	if (rf_fleet_take(c->fleet, ask, &at, true, ret_hold, &err) < 0) {
		/* Somebody else has one of these cards, in a way that cannot be both: the pod counts without. */
		whole = false;
		at.n = 0;
		ask->somewhere = true;
		if (ask->no_pod || rf_fleet_take(c->fleet, ask, &at, true, ret_hold, &err) < 0)
			return false;
	}
	co_held(c, n, 1);
	co_tick(c);
	return whole;
}

/* --- pods ------------------------------------------------------------------------------------- */

static struct rf_fleet_ask ask_of(const struct co_pod *p)
{
	const struct co_form *f = p->shape->form;

	return (struct rf_fleet_ask){ .owner = co_owner(p->ns, p->daemon),
				      .cpu_milli = RF_MIN(RF_MAX(f->cpu, 0), RF_FLEET_CPU_MAX),
				      .memory = RF_MIN(RF_MAX(f->memory, 0), RF_FLEET_MEMORY_MAX) };
}

static struct co_claim *claim_for(const struct co_pod *p, const struct co_node *n)
{
	struct co_claim *k = p->claim;

	if (k == NULL || k->node != n || (p->node == NULL && k->deleting))
		return NULL;
	return k;
}

static bool wish(struct rf_core *c, struct co_pod *p)
{
	if (p->wished || !p->seat->there)
		return false;
	rf_wish_on(c->wishes, p->shape->wish, p->seat->handle);
	p->wished = true;
	return true;
}

static void unseat_claim(struct rf_core *c, struct co_claim *k, bool again);

static bool seated_right(const struct co_pod *p, const struct co_node *n, const struct co_claim *k)
{
	return p->seat == n && !p->reseat && !p->reown && p->hold != 0 && p->held_for == k &&
	       (k == NULL || k->placed);
}

static void seat(struct rf_core *c, struct co_pod *p, struct co_node *n)
{
	struct co_claim *k = n != NULL ? claim_for(p, n) : NULL;
	struct rf_fleet_ask ask;

	if (n == NULL || (p->seat != NULL && p->seat != n))
		unseat(c, p);
	if (n == NULL || seated_right(p, n, k))
		return;
	if (p->assumed_cards && !p->reown && !p->reseat) {
		if (k == NULL && !p->heard)
			return; /* the claim is still to come */
		if (k != NULL && as_decided(c, p, k)) {
			p->held_for = k;
			p->assumed_cards = false;
			set_placed(k, true);
			return;
		}
	}
	if (p->seat == NULL)
		link_seat(c, p, n);
	drop_hold(c, p, p->held_for == k);
	if (k != NULL)
		unseat_claim(c, k, true);
	ask = ask_of(p);
	p->reown = false;
	if (k != NULL)
		set_placed(k, take(c, n, &ask, k, &p->hold));
	else
		(void)take(c, n, &ask, NULL, &p->hold);
	p->held_for = k;
	if (wish(c, p) && rf_wish_helps(p->shape->wish))
		c->freed |= CO_NEIGHBOURS;
}

void co_seat(struct rf_core *c, struct co_pod *p, struct co_node *n)
{
	struct pin keep = pin(c, p->seat);

	seat(c, p, n);
	unpin(c, &keep);
}

void co_seat_as(struct rf_core *c, struct co_pod *p, struct co_node *n, uint64_t hold, bool cards, bool wished)
{
	rf_assert(p->seat == NULL);
	link_seat(c, p, n);
	co_held(c, n, 1);
	p->hold = hold;
	p->assumed_cards = cards;
	p->wished = wished;
	p->reown = p->reseat = p->heard = false;
	(void)wish(c, p); /* whether it stays is not known yet */
}

/* --- claims ----------------------------------------------------------------------------------- */

static struct rf_fleet_owner owner_of(const struct co_claim *k)
{
	struct rf_fleet_owner o = co_owner(k->ns, false);
	bool known = k->ns->known && k->ns->tenant != NULL && k->ns->tenant->known;

	if (known || k->tenant == NULL)
		return o;
	return (struct rf_fleet_owner){ .tenant = k->tenant->id, .trust = k->tenant->trust, .level = k->tenant->level };
}

static void unseat_claim(struct rf_core *c, struct co_claim *k, bool again)
{
	if (k->hold != 0)
		give(c, k->node, k->hold, !again);
	k->hold = 0;
	if (k->work != NULL)
		co_work_free(c, k->work);
	k->work = NULL;
	if (k->pod == NULL || k->pod->held_for != k)
		set_placed(k, false);
}

void co_unseat_claim(struct rf_core *c, struct co_claim *k)
{
	unseat_claim(c, k, false);
}

void co_seat_claim(struct rf_core *c, struct co_claim *k)
{
	struct rf_fleet_ask ask = { .no_pod = true };
	struct pin keep;

	if (k->node == NULL || (k->pod != NULL && k->pod->held_for == k)) {
		if (k->reown || k->node == NULL)
			co_unseat_claim(c, k);
		k->reown = false;
		return;
	}
	if (k->hold != 0 && k->placed && !k->reown)
		return;
	keep = pin(c, k->node);
	unseat_claim(c, k, !k->reown);
	k->reown = false;
	ask.owner = owner_of(k);
	set_placed(k, take(c, k->node, &ask, k, &k->hold));
	co_work_claim(c, k);
	unpin(c, &keep);
}

bool co_claim_good(const struct co_claim *k)
{
	if (k->node == NULL || !k->node->there || !k->placed)
		return false;
	for (size_t i = 0; i < k->n; i++) {
		const struct co_slot *s;

		if (k->grants[i].slot >= k->node->n_slots)
			return false;
		s = &k->node->slots[k->grants[i].slot];
		if (!s->there || !s->healthy)
			return false;
	}
	return true;
}

void co_reseat_node(struct rf_core *c, struct co_node *n)
{
	for (struct co_pod *p = n->pods_here; p != NULL; p = p->seat_next) {
		if (p->hold == 0 || !p->wished || (p->claim != NULL && p->claim->node == n && !p->claim->placed)) {
			p->reseat = true;
			co_mark(c, p);
		}
	}
	for (struct co_claim *k = n->claims_here; k != NULL; k = k->node_next) {
		if (!k->placed)
			co_mark_claim(c, k);
	}
}
