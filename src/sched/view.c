/* The view: what is left of every node and card, worked out from the model at the start of a cycle
 * and kept up to date by the cycle's own decisions. */
#include "sched/private.h"

int rf_sched_name_cmp(struct rf_str a, struct rf_str b)
{
	size_t i = 0;

	while (i < a.n && i < b.n && a.p[i] == b.p[i] && (a.p[i] < '0' || a.p[i] > '9'))
		i++;
	a = rf_str_skip(a, i);
	b = rf_str_skip(b, i);
	/* Same stem: the shorter number is the smaller one. */
	if (a.n > 0 && b.n > 0 && a.n != b.n && a.p[0] >= '0' && a.p[0] <= '9' && b.p[0] >= '0' &&
	    b.p[0] <= '9')
		return a.n < b.n ? -1 : 1;
	return rf_str_cmp(a, b);
}

static int by_node_name(const void *a, const void *b)
{
	return rf_sched_name_cmp(((const struct rf_place *)a)->node->name,
				 ((const struct rf_place *)b)->node->name);
}

static void add_cards(struct rf_view *v, struct rf_place *p)
{
	const struct rf_rec_devices *d = rf_map_get(&v->s->devices, p->node->name);

	if (d == NULL)
		return;
	p->n_cards = d->n;
	p->cards = rf_arena_array(v->a, struct rf_card, RF_MAX(d->n, 1));
	for (size_t i = 0; i < d->n; i++)
		p->cards[i].device = &d->v[i];
}

static void add_places(struct rf_view *v)
{
	v->places = rf_arena_array(v->a, struct rf_place, RF_MAX(v->s->nodes.n, 1));
	for (struct rf_map_slot *slot = NULL; (slot = rf_map_next(&v->s->nodes, slot)) != NULL;) {
		const struct rf_rec_node *r = slot->value;
		struct rf_place *p = &v->places[v->n++];

		*p = (struct rf_place){ .node = &r->v,
					.cpu_left = r->v.cpu_milli,
					.memory_left = r->v.memory,
					.pods_left = r->v.pods };
		p->more_left = rf_arena_array(v->a, int64_t, RF_MAX(r->v.n_more, 1));
		for (size_t i = 0; i < r->v.n_more; i++)
			p->more_left[i] = r->v.more[i].n;
		add_cards(v, p);
	}
	qsort(v->places, v->n, sizeof(*v->places), by_node_name);
	for (size_t i = 0; i < v->n; i++)
		(void)rf_map_set(&v->by_name, v->places[i].node->name, &v->places[i]);
}

static void add_guest(struct rf_arena *a, struct rf_guest **list, const struct rf_party *party)
{
	struct rf_guest *g = NULL;

	for (g = *list; g != NULL; g = g->next) {
		if (rf_party_same(&g->party, party))
			return;
	}
	g = rf_arena_new(a, struct rf_guest);
	g->party = *party;
	g->next = *list;
	*list = g;
}

/* Requests come from whoever wrote the pod: what is more than there is leaves nothing, not less. */
static void take(int64_t *left, int64_t n)
{
	if (__builtin_sub_overflow(*left, n, left))
		*left = INT64_MIN;
}

void rf_view_add_pod(struct rf_view *v, struct rf_place *p, const struct rf_sched_pod *pod,
		     const struct rf_party *party)
{
	take(&p->cpu_left, pod->cpu_milli);
	take(&p->memory_left, pod->memory);
	p->pods_left--;
	for (size_t i = 0; i < pod->n_more; i++) {
		for (size_t k = 0; k < p->node->n_more; k++) {
			if (rf_str_eq(p->node->more[k].name, pod->more[i].name))
				take(&p->more_left[k], pod->more[i].n);
		}
	}
	add_guest(v->a, &p->guests, party);
}

struct rf_card *rf_place_card(const struct rf_place *p, struct rf_str device)
{
	for (size_t i = 0; i < p->n_cards; i++) {
		if (rf_str_eq(p->cards[i].device->name, device))
			return &p->cards[i];
	}
	return NULL;
}

/* Whole cards count as cards, shares as bytes, as admission counts them. */
static void charge(struct rf_view *v, struct rf_str tenant, const struct rf_sched_grant *g)
{
	struct rf_usage *u = rf_map_get(&v->held, tenant);

	if (u == NULL) {
		u = rf_arena_new(v->a, struct rf_usage);
		(void)rf_map_set(&v->held, tenant, u);
	}
	u->cards += g->whole;
	if (!g->whole && __builtin_add_overflow(u->bytes, g->bytes, &u->bytes))
		u->bytes = INT64_MAX;
}

void rf_view_add_grant(struct rf_view *v, struct rf_place *p, const struct rf_sched_grant *g,
		       const struct rf_party *party)
{
	struct rf_card *c = NULL;

	charge(v, party->tenant, g);
	if (p == NULL)
		return;
	c = rf_place_card(p, g->device);
	add_guest(v->a, &p->guests, party);
	if (c == NULL)
		return; /* a card that went away cannot be given to anybody either */
	c->bytes += g->bytes;
	c->milli += g->milli;
	c->held = true;
	add_guest(v->a, &c->holders, party);
}

/* A pod has one claim. Should another object name the pod too, the one that was allocated counts:
 * only ringfence allocates. */
static bool outranks(const struct rf_sched_claim *a, const struct rf_sched_claim *b)
{
	if ((a->node.n > 0) != (b->node.n > 0))
		return a->node.n > 0;
	if (a->deleting != b->deleting)
		return b->deleting;
	return rf_str_cmp(a->name, b->name) < 0;
}

static void add_claims(struct rf_view *v)
{
	for (struct rf_map_slot *slot = NULL; (slot = rf_map_next(&v->s->claims, slot)) != NULL;) {
		struct rf_rec_claim *r = slot->value;
		struct rf_place *p = rf_map_get(&v->by_name, r->v.node);
		struct rf_party party = rf_party_of_claim(v->s, &r->v);
		const struct rf_sched_claim *other = rf_map_get(&v->claim_of, r->v.pod_uid);

		if (r->v.pod_uid.n > 0 && (other == NULL || outranks(&r->v, other)))
			(void)rf_map_set(&v->claim_of, r->v.pod_uid, &r->v);
		for (size_t i = 0; i < r->v.n_grants; i++)
			rf_view_add_grant(v, p, &r->v.grants[i], &party);
	}
}

static void add_pods(struct rf_view *v)
{
	for (struct rf_map_slot *slot = NULL; (slot = rf_map_next(&v->s->pods, slot)) != NULL;) {
		const struct rf_rec_pod *r = slot->value;
		struct rf_place *p = rf_map_get(&v->by_name, r->v.node);
		struct rf_party party = rf_party_of_namespace(v->s, r->v.ns);

		/* What an administrator put on every node keeps nobody away from all of them. */
		party.system |= r->v.daemon && party.known && party.tenant.n == 0;
		if (p != NULL && !r->v.ended)
			rf_view_add_pod(v, p, &r->v, &party);
	}
}

void rf_view_init(struct rf_view *v, const struct rf_sched *s, struct rf_arena *a)
{
	*v = (struct rf_view){ .s = s, .a = a };
	add_places(v);
	add_claims(v);
	add_pods(v);
}

void rf_view_done(struct rf_view *v)
{
	rf_map_done(&v->by_name);
	rf_map_done(&v->claim_of);
	rf_map_done(&v->held);
}
