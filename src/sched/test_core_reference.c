/* What is promised, by its definition and slowly, over the world's own objects. */
#include "sched/test_core_world.h"


/* Own table of MIG's geometry: memory slices, compute slices, how many, where they may begin. */
static const struct {
	int memory, compute, max, n;
	int starts[7];
} geometry[PROFILES] = {
	{ 1, 1, 7, 7, { 0, 1, 2, 3, 4, 5, 6 } },
	{ 2, 2, 3, 3, { 0, 2, 4 } },
	{ 4, 3, 2, 2, { 0, 4 } },
	{ 8, 7, 1, 1, { 0 } },
	{ 1, 1, 1, 7, { 0, 1, 2, 3, 4, 5, 6 } }, /* the one with the media engines */
};

/* --- who is where ----------------------------------------------------------------------------- */

bool ref_holds(const struct pod *p)
{
	return p->place.n > 0 && ((p->claimed && p->allocated) || (p->flying && p->live));
}

bool ref_there(const struct pod *p, int *ret_node)
{
	if (p->live && !p->ended && p->node != NOBODY)
		*ret_node = p->node;
	else if ((p->claimed && p->allocated) || (p->flying && p->live))
		*ret_node = p->place.node;
	else
		return false;
	return true;
}

/* Counts for CPU, for wishes and for queues. */
static bool runs_at(const struct pod *p, int *ret_node)
{
	return p->live && !p->ended && ref_there(p, ret_node);
}

static bool is_gone(const bool gone[PODS], int i)
{
	return gone != NULL && gone[i];
}

/* --- cards ------------------------------------------------------------------------------------ */

struct load {
	int whole, share, slice, compute;
	int of[PROFILES];
	int64_t bytes, milli;
	unsigned mask;
};

static unsigned mask_of(int profile, int64_t start)
{
	return ((1u << geometry[profile].memory) - 1) << start;
}

static bool legal_start(int profile, int64_t start)
{
	for (int i = 0; i < geometry[profile].n; i++)
		if (geometry[profile].starts[i] == start)
			return true;
	return false;
}

static const char *add_held(struct load *l, const struct card *c, const struct held *h)
{
	if (h->profile != NOBODY) {
		if (!legal_start(h->profile, h->start))
			return "I21 a slice where there is no place for one";
		if (l->mask & mask_of(h->profile, h->start))
			return "I21 slices on top of each other";
		l->mask |= mask_of(h->profile, h->start);
		l->compute += geometry[h->profile].compute;
		l->slice++;
		if (++l->of[h->profile] > geometry[h->profile].max || l->compute > 7)
			return "I21 more slices than the card has";
	} else if (h->whole) {
		l->whole++;
	} else {
		l->share++;
		l->bytes += h->bytes;
		l->milli += h->milli;
	}
	if (l->whole > 1 || (l->whole > 0) + (l->share > 0) + (l->slice > 0) > 1)
		return "I1 a card is held in two ways";
	if (l->bytes > card_memory(c) || l->milli > 1000)
		return "I1 more than the card has";
	return NULL;
}

static const char *node_loads(const struct world *w, int node, const bool gone[PODS], struct load loads[CARDS])
{
	const char *why = NULL;

	memset(loads, 0, sizeof(loads[0]) * CARDS);
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		if (!ref_holds(p) || p->place.node != node || is_gone(gone, i))
			continue;
		for (int k = 0; k < p->place.n && why == NULL; k++)
			why = add_held(&loads[p->place.held[k].card], &w->nodes[node].cards[p->place.held[k].card], &p->place.held[k]);
	}
	return why;
}

bool ref_conserved(struct world *w)
{
	for (int n = 0; n < NODES; n++) {
		struct load loads[CARDS];
		const char *why = node_loads(w, n, NULL, loads);

		CHECK(w, why == NULL, "%s: node-%d", why, n);
	}
	return true;
}

/* --- tenants ---------------------------------------------------------------------------------- */

/* Who is gone accepts nobody on its nodes, and nobody in its rack if it did not before. */
static enum rf_isolation tenant_level(const struct tenant *t)
{
	return t->exists ? t->isolation : RF_MIN(t->isolation, RF_ISOLATION_NODE);
}

static enum rf_isolation level_of(const struct world *w, int space)
{
	int t = space_tenant(space);

	return t != NOBODY ? tenant_level(&w->tenants[t]) : RF_ISOLATION_GPU;
}

static bool same_tenant(int a, int b)
{
	return space_tenant(a) == space_tenant(b) && space_system(a) == space_system(b);
}

static bool meet_on_node(const struct world *w, int a, int b)
{
	if (same_tenant(a, b) || space_system(a) || space_system(b))
		return true;
	return level_of(w, a) > RF_ISOLATION_NODE && level_of(w, b) > RF_ISOLATION_NODE;
}

static bool meet_in_rack(const struct world *w, int a, int b)
{
	if (same_tenant(a, b) || space_system(a) || space_system(b))
		return true;
	return level_of(w, a) != RF_ISOLATION_RACK && level_of(w, b) != RF_ISOLATION_RACK;
}

/* Whom it should not meet there; none if it is not there itself, or shares racks. */
static uint8_t strangers_of(const struct world *w, int tenant, uint8_t in_rack)
{
	bool there = (in_rack >> tenant & 1) != 0;

	return there && tenant_level(&w->tenants[tenant]) == RF_ISOLATION_RACK ? (uint8_t)(in_rack & ~(1u << tenant)) : 0;
}

/* Whoever came last; and whether it runs, terminates, is to be scrubbed or was only decided. */
bool ref_racks(struct world *w, bool changed)
{
	uint8_t in[RACKS + 1] = { 0 };
	int at;

	for (int i = 0; i < PODS && w->racks; i++) {
		int t = space_tenant(w->pods[i].space);

		if (!space_system(w->pods[i].space) && ref_there(&w->pods[i], &at) && w->nodes[at].exists)
			in[w->nodes[at].rack] |= (uint8_t)(1u << (t != NOBODY ? t : TENANTS)); /* the last: who has no tenant */
	}
	for (int r = 1; r <= RACKS && w->racks; r++) {
		for (int t = 0; t < TENANTS; t++) {
			uint8_t now = strangers_of(w, t, in[r]);

			CHECK(w, changed || (now & ~w->met[r][t]) == 0, "I6 %s shares no rack and meets a stranger in rack %d (%x)",
			      tenant_names[t], r, now & ~w->met[r][t]);
			w->met[r][t] = now;
		}
	}
	return true;
}

static bool shares(const struct world *w, int space)
{
	enum rf_isolation l = level_of(w, space);

	return space_tenant(space) != NOBODY && (l == RF_ISOLATION_SHARE || l == RF_ISOLATION_COOPERATIVE);
}

/* On one card: h is new, o is there. */
static bool meet_on_card(const struct world *w, int a, const struct held *h, int b, const struct held *o)
{
	int ta = space_tenant(a), tb = space_tenant(b);

	if (ta != NOBODY && ta == tb)
		return true;
	if (h->profile != NOBODY && o->profile != NOBODY)
		return level_of(w, a) >= RF_ISOLATION_SLICE && level_of(w, b) >= RF_ISOLATION_SLICE;
	if (h->whole || o->whole || h->profile != NOBODY || o->profile != NOBODY)
		return false;
	return shares(w, a) && shares(w, b) && w->tenants[ta].trust == w->tenants[tb].trust;
}

/* What a node that is gone leaves behind counts in its rack still. */
static bool node_open(const struct world *w, const struct pod *p, int node, const bool gone[PODS])
{
	int rack = w->nodes[node].rack;

	if (rack == 0 && !space_system(p->space) && level_of(w, p->space) == RF_ISOLATION_RACK)
		return false;
	for (int i = 0; i < PODS; i++) {
		const struct pod *o = &w->pods[i];
		int at;

		if (o == p || is_gone(gone, i) || !ref_there(o, &at))
			continue;
		if (at == node && !meet_on_node(w, p->space, o->space))
			return false;
		if (rack != 0 && w->nodes[at].rack == rack && !meet_in_rack(w, p->space, o->space))
			return false;
	}
	return true;
}

/* On two cards of one node that belong together. */
static bool meet_in_group(const struct world *w, int a, const struct card *x, int b, const struct card *y)
{
	bool numa = level_of(w, a) == RF_ISOLATION_NUMA || level_of(w, b) == RF_ISOLATION_NUMA;
	bool island = level_of(w, a) == RF_ISOLATION_NVLINK || level_of(w, b) == RF_ISOLATION_NVLINK;

	if (same_tenant(a, b) || space_system(a) || space_system(b))
		return true;
	if (x->hidden || y->hidden)
		return !numa && !island;
	return !(numa && x->numa == y->numa) && !(island && x->island == y->island);
}

static bool card_open(const struct world *w, const struct pod *p, int node, const struct held *h, const bool gone[PODS])
{
	for (int i = 0; i < PODS; i++) {
		const struct pod *o = &w->pods[i];

		if (o == p || is_gone(gone, i) || !ref_holds(o) || o->place.node != node)
			continue;
		for (int k = 0; k < o->place.n; k++) {
			const struct card *cards = w->nodes[node].cards;

			if (o->place.held[k].card == h->card && !meet_on_card(w, p->space, h, o->space, &o->place.held[k]))
				return false;
			if (!meet_in_group(w, p->space, &cards[h->card], o->space, &cards[o->place.held[k].card]))
				return false;
		}
	}
	return true;
}

static bool may_ask(const struct world *w, const struct pod *p, const struct held *h)
{
	return h->whole || h->profile != NOBODY || shares(w, p->space);
}

/* --- wishes ----------------------------------------------------------------------------------- */

static bool is_web(const struct pod *p)
{
	return p->wish == WISH_APART || p->wish == WISH_NEAR || p->wish == WISH_SPREAD || p->wish == WISH_LABELED;
}

/* Pods "app=web" of its namespace that run on that node (zone: in its zone). */
static int count_web(const struct world *w, const struct pod *p, int node, bool zone, const bool gone[PODS], bool apart_only)
{
	int n = 0;

	for (int i = 0; i < PODS; i++) {
		const struct pod *o = &w->pods[i];
		int at;

		if (o == p || is_gone(gone, i) || o->space != p->space || !is_web(o) || !runs_at(o, &at) ||
		    !w->nodes[at].exists)
			continue;
		if (apart_only && o->wish != WISH_APART)
			continue;
		n += node == NOBODY || at == node || (zone && w->nodes[at].zone == w->nodes[node].zone);
	}
	return n;
}

static bool spread_ok(const struct world *w, const struct pod *p, int node, const bool gone[PODS])
{
	int least = INT32_MAX;

	for (int i = 0; i < NODES; i++)
		if (w->nodes[i].exists)
			least = RF_MIN(least, count_web(w, p, i, true, gone, false));
	return count_web(w, p, node, true, gone, false) + 1 - least <= 1;
}

static const char *wish_broken(const struct world *w, const struct pod *p, int node, const bool gone[PODS])
{
	const struct node *n = &w->nodes[node];
	int used = 0, at;

	if (n->tainted && p->wish != WISH_TOLERATE)
		return "taint";
	/* An apart pod that is there keeps others like it away, too. */
	if (is_web(p) && count_web(w, p, node, false, gone, true) > 0)
		return "anti-affinity of a pod there";
	switch ((enum wish)p->wish) {
	case WISH_ZONE:
		return n->zone == 0 ? NULL : "selector";
	case WISH_AFFINE:
		return n->zone == 1 || n->disk == 0 ? NULL : "affinity";
	case WISH_NOT_ZONE:
		return n->zone != 0 ? NULL : "affinity";
	case WISH_GEN:
		return n->gen > 1 ? NULL : "affinity";
	case WISH_RDMA:
		for (int i = 0; i < PODS; i++)
			used += &w->pods[i] != p && !is_gone(gone, i) && w->pods[i].wish == WISH_RDMA && runs_at(&w->pods[i], &at) &&
				at == node;
		return used < n->rdma ? NULL : "rdma/hca";
	case WISH_APART:
		return count_web(w, p, node, false, gone, false) == 0 ? NULL : "anti-affinity";
	case WISH_NEAR: /* the first of its kind may go anywhere */
		return count_web(w, p, node, true, gone, false) > 0 || count_web(w, p, NOBODY, false, gone, false) == 0 ? NULL : "near";
	case WISH_SPREAD:
		return spread_ok(w, p, node, gone) ? NULL : "spread";
	case WISH_ONLY:
		return (int)(p->serial % NODES) == node ? NULL : "only node";
	case WISH_UNSUPPORTED:
		return "unsupported";
	case WISH_NONE:
	case WISH_TOLERATE:
	case WISH_LABELED:
	case WISHES:
		break;
	}
	return NULL;
}

/* CPU, memory, pods. */
static const char *node_full(const struct world *w, const struct pod *p, int node, const bool gone[PODS])
{
	const struct node *n = &w->nodes[node];
	int64_t cpu = shapes[p->shape].cpu, memory = shapes[p->shape].memory, pods = 1;

	for (int i = 0; i < PODS; i++) {
		int at;

		if (&w->pods[i] == p || is_gone(gone, i) || !runs_at(&w->pods[i], &at) || at != node)
			continue;
		cpu += shapes[w->pods[i].shape].cpu;
		memory += shapes[w->pods[i].shape].memory;
		pods++;
	}
	if (cpu > n->cpu)
		return "cpu";
	if (memory > n->memory)
		return "memory";
	return pods > n->pods ? "pods" : NULL;
}

/* --- queues ----------------------------------------------------------------------------------- */

static const struct group *group_of(const struct world *w, const struct pod *p)
{
	return p->group != NOBODY && w->groups[p->group].exists ? &w->groups[p->group] : NULL;
}

bool ref_is_pinned(const struct world *w, const struct pod *p)
{
	const struct group *g = group_of(w, p);

	return p->pinned || (g != NULL && g->pinned);
}

int64_t ref_min_run(const struct world *w, const struct pod *p)
{
	const struct group *g = group_of(w, p);

	return RF_MAX(p->min_run, g != NULL ? g->min_run : 0);
}

int ref_leaf(const struct world *w, const struct pod *p)
{
	const struct group *g = group_of(w, p);
	int t = space_tenant(p->space), q = g != NULL && g->queue != NOBODY ? g->queue : p->queue;

	if (t == NOBODY || !w->tenants[t].exists)
		return NOBODY;
	if (q == NOBODY)
		return t;
	if (q >= LEAVES || q % TENANTS != t || (q >= TENANTS && !w->queues[q].exists))
		return NOBODY;
	return q;
}

/* To which queue what runs is charged: its own where the one it names will not do, and the queue also of a tenant that is
 * gone, for it runs on what the queues above it have. */
static int charged_to(const struct world *w, const struct pod *p)
{
	const struct group *g = group_of(w, p);
	int t = space_tenant(p->space), q = g != NULL && g->queue != NOBODY ? g->queue : p->queue;

	if (t == NOBODY || q == NOBODY || q >= LEAVES || q % TENANTS != t || !w->queues[q].exists)
		return t;
	return q;
}

static int up(const struct world *w, int q)
{
	return w->queues[q].exists ? w->queues[q].parent : NOBODY;
}

static bool is_below(const struct world *w, int leaf, int q)
{
	for (; leaf != NOBODY; leaf = up(w, leaf))
		if (leaf == q)
			return true;
	return false;
}

static int64_t asks_at(const struct pod *p, enum res r, const struct world *w, const struct place *at)
{
	const struct shape *s = &shapes[p->shape];
	int64_t n = 0;

	for (int i = 0; i < s->n; i++) {
		if (r == R_CARDS || (r == R_H100 && s->h100))
			n += s->c[i].cards;
		else if (r == R_BYTES)
			n += s->c[i].bytes;
		else if (r == R_MILLI)
			n += s->c[i].milli;
		else if (r >= R_MIG1 && r <= R_MIG7 && s->c[i].profile == (int)(r - R_MIG1))
			n += s->c[i].slices;
	}
	if (r == R_CPU)
		n = s->cpu;
	if (r == R_MEMORY)
		n = s->memory;
	if (at == NULL || (r != R_H100 && r != R_A100))
		return n;
	n = 0; /* a card counts for its model, whatever was asked, and for all of them where nobody knows it any more */
	for (int i = 0; i < at->n; i++)
		n += at->held[i].whole && (w->nodes[at->node].forgotten || w->nodes[at->node].cards[at->held[i].card].forgotten ||
					   w->nodes[at->node].cards[at->held[i].card].model == (r == R_A100));
	return n;
}

int64_t ref_asks(const struct pod *p, enum res r)
{
	return asks_at(p, r, NULL, NULL);
}

int64_t ref_used(const struct world *w, int queue, enum res r, bool pinned_only, const bool gone[PODS])
{
	int64_t n = 0;

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];
		int at, leaf;

		if (!runs_at(p, &at) || is_gone(gone, i))
			continue;
		leaf = charged_to(w, p);
		if (leaf == NOBODY || !is_below(w, leaf, queue) || (pinned_only && !ref_is_pinned(w, p)))
			continue;
		n += asks_at(p, r, w, ref_holds(p) ? &p->place : NULL);
	}
	return n;
}

static int64_t limit_of(const struct world *w, int q, enum res r)
{
	const struct quota *o = &w->queues[q].quotas[r];
	bool slices = r >= R_MIG1 && r <= R_MIG7;

	if (slices && q < LEAVES && (!w->queues[q].exists || !o->given || o->limit < 0))
		return w->queues[q].exists && o->given ? RF_MAX(o->guaranteed, 0) : 0; /* who is given none has none */
	if (w->queues[q].exists)
		return o->given && o->limit >= 0 ? o->limit : NONE;
	if (r == R_CARDS)
		return w->tenants[q].cards;
	return r == R_BYTES ? w->tenants[q].bytes : NONE;
}

static bool is_model(enum res r)
{
	return r == R_H100 || r == R_A100;
}

/* What a leaf is guaranteed that does not say: of what is only counted everything. */
static int64_t unsaid(const struct world *w, int q, enum res r)
{
	const struct quota *o = w->queues[q].quotas;

	if (r == R_CPU || r == R_MEMORY || r == R_MILLI || is_model(r))
		return w->queues[q].exists && o[r].given && o[r].borrowing >= 0 ? 0 : limit_of(w, q, r);
	return 0;
}

static int64_t sum_below(const struct world *w, int q, enum res r, int64_t (*of)(const struct world *w, int q, enum res r))
{
	int64_t sum = 0;

	for (int i = 0; i < LEAVES; i++) {
		int64_t one = w->queues[i].exists && w->queues[i].parent == q ? of(w, i, r) : 0;

		sum = one == NONE || sum == NONE ? NONE : sum + one;
	}
	return sum;
}

/* Of a model by name, before cuts. */
static int64_t named(const struct world *w, int q, enum res r)
{
	const struct quota *o = &w->queues[q].quotas[r];

	if (w->queues[q].exists && o->given && o->guaranteed >= 0)
		return RF_MIN(o->guaranteed, limit_of(w, q, r));
	return q < LEAVES ? 0 : RF_MIN(sum_below(w, q, r, named), limit_of(w, q, r));
}

/* Before cuts. Of cards at least what the models add up to. */
int64_t ref_guaranteed(const struct world *w, int q, enum res r)
{
	const struct quota *o = &w->queues[q].quotas[r];
	int64_t all;

	if (w->queues[q].exists && o->given && o->guaranteed >= 0)
		all = o->guaranteed;
	else
		all = q < LEAVES ? unsaid(w, q, r) : sum_below(w, q, r, ref_guaranteed);
	if (r == R_CARDS)
		all = RF_MAX(all, named(w, q, R_H100) + named(w, q, R_A100));
	return RF_MIN(all, limit_of(w, q, r));
}

/* Of a card that is gone and of which nobody has told since a restart: what is held of it, whatever its model is. */
static int64_t known_of(const struct load *l, enum res r)
{
	if (r == R_CARDS || is_model(r))
		return l->whole;
	if (r == R_BYTES || r == R_MILLI)
		return r == R_BYTES ? l->bytes : l->milli;
	return l->of[r - R_MIG1];
}

/* What there is of it: every card of every node, and those that are gone, or whose nodes are, while somebody holds them. */
static int64_t capacity_of(const struct world *w, enum res r)
{
	int64_t sum = 0;

	if (r == R_CPU || r == R_MEMORY)
		return NONE;
	for (int n = 0; n < NODES; n++) {
		struct load loads[CARDS];

		(void)node_loads(w, n, NULL, loads);
		for (int k = 0; k < w->nodes[n].n_cards; k++) {
			const struct card *c = &w->nodes[n].cards[k];

			if ((!w->nodes[n].exists || card_away(w, c)) && loads[k].whole + loads[k].share + loads[k].slice == 0)
				continue;
			if (w->nodes[n].forgotten || c->forgotten)
				sum += known_of(&loads[k], r);
			else if (r >= R_MIG1 && r <= R_MIG7)
				sum += c->fixed ? 0 : geometry[r - R_MIG1].max;
			else if (c->sliced)
				continue; /* it is offered in slices and in no other way */
			else if (r == R_CARDS || (is_model(r) && c->model == (r == R_A100)))
				sum++;
			else if (r == R_BYTES)
				sum += card_memory(c);
			else if (r == R_MILLI)
				sum += 1000;
		}
	}
	return sum;
}

static bool holds_at_all(const struct world *w, int q)
{
	return w->queues[q].exists || (q < TENANTS && w->tenants[q].exists);
}

/* After cuts: siblings who were promised more than there is get less in proportion, and all of it. */
static int64_t after_cuts(const struct world *w, int q, enum res r, int64_t (*of)(const struct world *w, int q, enum res r))
{
	int64_t mine = of(w, q, r), sum = 0, before = 0, total;

	if (mine == NONE || mine == 0)
		return mine;
	total = up(w, q) == NOBODY ? capacity_of(w, r) : after_cuts(w, up(w, q), r, of);
	for (int i = 0; i < QUEUES; i++) {
		int64_t one = holds_at_all(w, i) && up(w, i) == up(w, q) ? of(w, i, r) : 0;

		sum += one == NONE ? 0 : one;
		before += one == NONE || strcmp(queue_names[i], queue_names[q]) >= 0 ? 0 : one;
	}
	if (total == NONE || sum <= total)
		return mine;
	return (int64_t)(((__int128)(before + mine) * total + sum / 2) / sum - ((__int128)before * total + sum / 2) / sum);
}

int64_t ref_guaranteed_now(const struct world *w, int q, enum res r)
{
	return after_cuts(w, q, r, ref_guaranteed);
}

/* Cards beyond the guarantee: what is used of a model within what is guaranteed of it by name does not count, and is not there
 * for other models. Less than 0: so many more of any model are within. */
static int64_t cards_beyond(const struct world *w, int q, const bool gone[PODS], bool cut)
{
	int64_t any = cut ? ref_guaranteed_now(w, q, R_CARDS) : ref_guaranteed(w, q, R_CARDS), used = ref_used(w, q, R_CARDS, false, gone);

	for (enum res r = R_H100; r <= R_A100; r++) {
		int64_t one = cut ? after_cuts(w, q, r, named) : named(w, q, r);

		any -= one;
		used -= RF_MIN(one, ref_used(w, q, r, false, gone));
	}
	return used - RF_MAX(any, 0);
}

/* Has it cards of a model of which its queue has no more than so many beyond what is guaranteed of it by name? */
static bool named_for(const struct world *w, int q, const struct pod *p, const bool gone[PODS], int64_t beyond)
{
	for (enum res r = R_H100; r <= R_A100; r++) {
		int64_t one = after_cuts(w, q, r, named);

		if (one > 0 && asks_at(p, r, w, ref_holds(p) ? &p->place : NULL) > 0 && ref_used(w, q, r, false, gone) <= one + beyond)
			return true;
	}
	return false;
}

/* Does some queue of its path, up to this one, keep so much for itself that it lends to nobody? That counts as used in those
 * above whether it is or not: taking it up adds nothing to what they borrow, were they over by then. */
static bool is_kept(const struct world *w, const struct pod *p, int upto, enum res r, int64_t ask, const bool gone[PODS])
{
	for (int q = ref_leaf(w, p); q != upto; q = up(w, q)) {
		const struct quota *o = &w->queues[q].quotas[r];
		int64_t guaranteed = is_model(r) ? after_cuts(w, q, r, named) : ref_guaranteed_now(w, q, r);

		if (w->queues[q].exists && o->given && o->lending >= 0 && guaranteed != NONE &&
		    ref_used(w, q, r, false, gone) + ask <= guaranteed - o->lending)
			return true;
	}
	return false;
}

/* What is not lent: cards, of a model or of any, slices of each profile, and shares. */
static const enum res kept_kinds[] = { R_CARDS, R_H100, R_A100, R_BYTES, R_MILLI, R_MIG1, R_MIG2, R_MIG3, R_MIG7 };

static int64_t held_of(const struct world *w, const struct place *at, int k, enum res r)
{
	const struct held *h = &at->held[k];
	const struct node *n = &w->nodes[at->node];

	if (r == R_CARDS)
		return h->whole;
	if (is_model(r)) /* for all of them where nobody knows it any more */
		return h->whole && (n->forgotten || n->cards[h->card].forgotten || n->cards[h->card].model == (r == R_A100));
	if (r == R_BYTES || r == R_MILLI)
		return h->whole || h->profile != NOBODY ? 0 : r == R_BYTES ? h->bytes : h->milli;
	return h->profile == (int)(r - R_MIG1);
}

/* By what is held: also what was left behind and is still to be scrubbed, which is charged to its tenant's own queue. */
static int64_t charged(const struct world *w, int queue, enum res r)
{
	int64_t n = 0;

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];
		int leaf = p->live && !p->ended ? charged_to(w, p) : space_tenant(p->space);

		for (int k = 0; ref_holds(p) && leaf != NOBODY && is_below(w, leaf, queue) && k < p->place.n; k++)
			n += held_of(w, &p->place, k, r);
	}
	return n;
}

/* What a queue keeps and does not use, beyond what is used or kept below it. */
static int64_t keeps_idle(const struct world *w, int q, enum res r, int64_t *ret_foot)
{
	const struct quota *o = &w->queues[q].quotas[r];
	int64_t uses = q < LEAVES ? charged(w, q, r) : 0, local = 0, foot;

	for (int i = 0; q >= LEAVES && i < LEAVES; i++) {
		if (!holds_at_all(w, i) || up(w, i) != q)
			continue;
		(void)keeps_idle(w, i, r, &foot);
		uses += foot;
	}
	if (w->queues[q].exists && o->given && o->lending >= 0)
		local = RF_MAX((is_model(r) ? after_cuts(w, q, r, named) : ref_guaranteed_now(w, q, r)) - o->lending, 0);
	*ret_foot = RF_MAX(uses, local);
	return *ret_foot - uses;
}

static int more_slices(const struct load *l, int profile, unsigned mask, int from)
{
	int best = 0;

	for (int i = from; i < geometry[profile].n; i++) {
		unsigned one = mask_of(profile, geometry[profile].starts[i]);

		if ((one & mask) == 0)
			best = RF_MAX(best, 1 + more_slices(l, profile, mask | one, i + 1));
	}
	best = RF_MIN(best, geometry[profile].max - l->of[profile]);
	return RF_MIN(best, (7 - l->compute) / geometry[profile].compute);
}

/* Who has shares on a card, by trust: one more than it; 0: nobody has, or several, or one who accepts none any more. Or slices: does
 * somebody who shares a card with nobody? */
struct owners {
	int trust;
	bool several, strict;
};

static void add_owner(const struct world *w, struct owners *o, int space, bool slice)
{
	int t = space_tenant(space), trust = t != NOBODY && w->tenants[t].exists ? w->tenants[t].trust + 1 : 0;

	o->strict = o->strict || (slice && level_of(w, space) < RF_ISOLATION_SLICE);
	if (slice)
		return;
	o->several = o->several || level_of(w, space) < RF_ISOLATION_SHARE || trust == 0 || (o->trust != 0 && o->trust != trust);
	o->trust = trust;
}

struct stock {
	int64_t of[RES]; /* untouched cards, of a model or of any, and the shares that they could hold; slices on any */
	int64_t room[TENANTS + 1][2]; /* for shares, beside those of one domain: by trust, one more than it */
};

static void count_card(const struct world *w, int node, int card, const struct load *l, const struct owners *o, struct stock *ret)
{
	const struct card *c = &w->nodes[node].cards[card];
	bool untouched = l->whole + l->share + l->slice == 0;

	if (untouched && !c->sliced) {
		ret->of[R_CARDS]++;
		ret->of[c->model == 0 ? R_H100 : R_A100]++;
		ret->of[R_BYTES] += card_memory(c);
		ret->of[R_MILLI] += 1000;
	}
	for (int i = 0; !c->fixed && l->whole + l->share == 0 && !o->strict && i < PROFILES - 1; i++)
		ret->of[R_MIG1 + i] += more_slices(l, i, l->mask, 0);
	if (l->share > 0 && !o->several) {
		ret->room[o->trust][0] += card_memory(c) - l->bytes;
		ret->room[o->trust][1] += 1000 - l->milli;
	}
}

/* With p at this place, too; NULL: without it. */
static void take_stock(const struct world *w, const struct pod *p, const struct place *at, struct stock *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int n = 0; n < NODES; n++) {
		struct owners owners[CARDS] = { { 0 } };
		struct load loads[CARDS];

		if (!w->nodes[n].exists)
			continue;
		(void)node_loads(w, n, NULL, loads);
		for (int i = 0; i < PODS; i++) {
			const struct pod *o = &w->pods[i];

			for (int k = 0; ref_holds(o) && o->place.node == n && k < o->place.n; k++)
				if (!o->place.held[k].whole)
					add_owner(w, &owners[o->place.held[k].card], o->space, o->place.held[k].profile != NOBODY);
		}
		for (int k = 0; at != NULL && at->node == n && k < at->n; k++) {
			(void)add_held(&loads[at->held[k].card], &w->nodes[n].cards[at->held[k].card], &at->held[k]);
			if (!at->held[k].whole)
				add_owner(w, &owners[at->held[k].card], p->space, at->held[k].profile != NOBODY);
		}
		for (int k = 0; k < w->nodes[n].n_cards; k++)
			if (!card_away(w, &w->nodes[n].cards[k]))
				count_card(w, n, k, &loads[k], &owners[k], ret);
	}
}

/* Untouched cards' memory or compute that others need for shares: those of each domain beyond the room on cards of that. Of its
 * own domain the room on its cards is not asked for here. */
static int64_t kept_for_shares(const struct world *w, const struct pod *p, enum res r, const struct stock *now)
{
	int t = space_tenant(p->space), mine = t != NOBODY && w->tenants[t].exists ? w->tenants[t].trust + 1 : 0;
	int64_t keeps[TENANTS + 1] = { 0 }, sum = 0, foot;

	for (int q = 0; q < QUEUES; q++) {
		int trust = q < LEAVES && w->tenants[q % TENANTS].exists ? w->tenants[q % TENANTS].trust + 1 : 0;

		keeps[trust] += holds_at_all(w, q) && !is_below(w, ref_leaf(w, p), q) ? keeps_idle(w, q, r, &foot) : 0;
	}
	for (int i = 0; i <= TENANTS; i++)
		if (i == 0 || i != mine)
			sum += RF_MAX(keeps[i] - (i > 0 ? now->room[i][r == R_MILLI] : 0), 0);
	return sum;
}

/* I4: what others do not lend and do not use is left by work of every kind, unless there is no less of it than before. */
static bool lent(struct world *w, const struct pod *p, const struct place *at)
{
	struct stock before, after;
	int64_t foot;

	take_stock(w, p, NULL, &before);
	take_stock(w, p, at, &after);
	for (size_t i = 0; i < RF_COUNT(kept_kinds); i++) {
		enum res r = kept_kinds[i];
		int64_t kept = 0;

		if (after.of[r] >= before.of[r])
			continue;
		if (r == R_BYTES || r == R_MILLI)
			kept = kept_for_shares(w, p, r, &after);
		for (int q = 0; r != R_BYTES && r != R_MILLI && q < QUEUES; q++)
			kept += holds_at_all(w, q) && !is_below(w, ref_leaf(w, p), q) ? keeps_idle(w, q, r, &foot) : 0;
		*(r == R_CARDS ? &w->n.checked_lent : is_model(r) ? &w->n.lent_models : r >= R_MIG1 ? &w->n.lent_slices : &w->n.lent_shares) += kept > 0;
		CHECK(w, after.of[r] >= kept, "I4 %s (%s) leaves %" PRId64 " of %s, and others keep %" PRId64, p->uid, shapes[p->shape].name,
		      after.of[r], res_names[r], kept);
	}
	return true;
}

/* Every resource on every level, with this placement (NULL: by what it asks). */
bool ref_quota_at(const struct world *w, const struct pod *p, const struct place *at, const bool gone[PODS], char *why,
		       size_t why_n)
{
	bool pinned = ref_is_pinned(w, p);

	if (p->shape == S_ME) { /* no queue of this world speaks of these slices */
		snprintf(why, why_n, "I2 no queue gives mig/1g.10gb+me");
		return false;
	}
	for (int q = ref_leaf(w, p); q != NOBODY; q = up(w, q)) {
		for (int r = 0; r < RES; r++) {
			const struct quota *o = &w->queues[q].quotas[r];
			int64_t ask = asks_at(p, r, w, at), used, guaranteed;
			bool said = w->queues[q].exists && o->given;

			if (ask == 0)
				continue;
			used = ref_used(w, q, r, false, gone);
			guaranteed = ref_guaranteed(w, q, r);
			if (used + ask > limit_of(w, q, r)) {
				snprintf(why, why_n, "I2 queue %s: %s: used %" PRId64 " + %" PRId64 " > limit %" PRId64, queue_names[q],
					 res_names[r], used, ask, limit_of(w, q, r));
				return false;
			}
			if (said && o->borrowing >= 0 && guaranteed != NONE && used + ask > guaranteed + o->borrowing &&
			    !is_kept(w, p, q, r, ask, gone)) {
				snprintf(why, why_n, "I2 queue %s: %s: used %" PRId64 " + %" PRId64 " > guaranteed %" PRId64 " + borrowing %" PRId64,
					 queue_names[q], res_names[r], used, ask, guaranteed, o->borrowing);
				return false;
			}
			if (!pinned || (is_model(r) && !shapes[p->shape].h100))
				continue;
			if (ref_used(w, q, r, true, gone) + ask > guaranteed) {
				snprintf(why, why_n, "I2 queue %s: %s: pinned %" PRId64 " + %" PRId64 " > guaranteed %" PRId64, queue_names[q],
					 res_names[r], ref_used(w, q, r, true, gone), ask, guaranteed);
				return false;
			}
		}
	}
	return true;
}

/* --- a binding -------------------------------------------------------------------------------- */

static bool grants_match(struct world *w, const struct pod *p, const struct place *at)
{
	const struct shape *s = &shapes[p->shape];
	int want = 0;

	for (int c = 0; c < s->n; c++) {
		int cards = 0, slices = 0, parts = 0;

		for (int i = 0; i < at->n; i++) {
			const struct held *h = &at->held[i];

			if (h->container != c)
				continue;
			cards += h->whole && h->profile == NOBODY;
			slices += !h->whole && h->profile != NOBODY && h->profile == s->c[c].profile;
			parts += !h->whole && h->profile == NOBODY && h->bytes == s->c[c].bytes && h->milli == s->c[c].milli;
			CHECK(w, h->card >= 0 && h->card < w->nodes[at->node].n_cards, "I1 %s gets a card that is not there: %d", p->uid, h->card);
		}
		CHECK(w, cards == s->c[c].cards && slices == s->c[c].slices && parts == (s->c[c].bytes > 0),
		      "I1 %s (%s), container %d gets %d cards, %d slices, %d shares", p->uid, s->name, c, cards, slices, parts);
		want += s->c[c].cards + s->c[c].slices + (s->c[c].bytes > 0);
	}
	CHECK(w, want == at->n, "I1 %s gets %d grants for %d", p->uid, at->n, want);
	return true;
}

static bool cards_right(struct world *w, const struct pod *p, const struct place *at)
{
	int island = NOBODY;

	for (int i = 0; i < at->n; i++) {
		const struct held *h = &at->held[i];
		const struct card *c = &w->nodes[at->node].cards[h->card];

		CHECK(w, !c->broken, "I5 %s gets a broken card, node-%d gpu-%d", p->uid, at->node, h->card);
		CHECK(w, h->profile == NOBODY || !c->fixed, "I21 %s gets a slice of a card that has none", p->uid);
		CHECK(w, h->profile != NOBODY || !c->sliced, "I21 %s gets node-%d gpu-%d, which is in MIG mode", p->uid, at->node, h->card);
		CHECK(w, !shapes[p->shape].h100 || !h->whole || c->model == 0, "I17 %s gets another model", p->uid);
		CHECK(w, may_ask(w, p, h), "I6 %s gets a share, its tenant accepts none", p->uid);
		CHECK(w, card_open(w, p, at->node, h, NULL), "I6 %s of %s meets another tenant on node-%d gpu-%d", p->uid, space_name(p->space),
		      at->node, h->card);
		if (!shapes[p->shape].island || !h->whole)
			continue;
		CHECK(w, island == NOBODY || (island == c->island && !c->hidden), "I17 %s gets cards without NVLink", p->uid);
		island = c->island;
	}
	return true;
}

static bool promise_kept(struct world *w, const struct rf_core_decision *d, const struct pod *p, const struct place *at)
{
	CHECK(w, p->claim_dirty || d->promised == (p->claimed && p->allocated), "I8 %s: promised is %d, its claim says %d", p->uid, d->promised,
	      p->claimed && p->allocated);
	if (!d->promised)
		return true;
	CHECK(w, at->node == p->place.node, "I21 %s was promised node-%d, gets node-%d", p->uid, p->place.node, at->node);
	if (d->n_grants == 0) /* only bind */
		return true;
	CHECK(w, at->n == p->place.n, "I21 %s was promised %d grants, gets %d", p->uid, p->place.n, at->n);
	return true;
}

/* Those on their way say where. But where others of it are elsewhere, or were as far as the core knows, nodes were given other
 * labels since: there is no one zone that it could be in. */
static bool zone_kept(struct world *w, const struct pod *p, int node)
{
	const struct group *g = group_of(w, p);
	bool one = true, coming = false;
	int zone = NOBODY;

	for (int i = 0; i < PODS && g != NULL && g->zoned; i++) {
		const struct pod *o = &w->pods[i];
		int at = o->node;

		if (o == p || o->group != p->group || !(runs_at(o, &at) || (o->dirty && at != NOBODY)) || !w->nodes[at].exists)
			continue;
		one = one && (zone == NOBODY || zone == w->nodes[at].zone);
		zone = w->nodes[at].zone;
		coming |= o->flying;
	}
	CHECK(w, !one || !coming || zone == w->nodes[node].zone, "I10 gang %s is to be in one zone: %s is not", g->name, p->uid);
	return true;
}

/* Is there an order in which these could have been placed one after the other? gone: those that are still to be. Where there
 * are too many only the first that can is tried. */
static bool placed_in_turn(const struct world *w, const int *pods, size_t n, bool gone[PODS], const char **ret_why, int *ret_pod)
{
	bool any = false, left = false;

	for (size_t i = 0; i < n && !(any && n > 8); i++) {
		const char *why;

		if (!gone[pods[i]])
			continue;
		left = true;
		why = wish_broken(w, &w->pods[pods[i]], w->pods[pods[i]].place.node, gone);
		if (why != NULL) {
			*ret_why = why;
			*ret_pod = pods[i];
			continue;
		}
		any = true;
		gone[pods[i]] = false;
		if (placed_in_turn(w, pods, n, gone, ret_why, ret_pod))
			return true;
		gone[pods[i]] = true;
	}
	return !left;
}

/* One that ended or is gone, and of which the core was not told yet, is still there as far as it knows: others may go near
 * it, or be spread with it. */
static struct world *as_told(const struct world *w)
{
	struct world *told = rf_alloc(sizeof(*told));

	*told = *w;
	for (int i = 0; i < PODS; i++) {
		struct pod *p = &told->pods[i];

		p->live |= p->known && p->dirty;
		p->ended &= !(p->known && p->dirty);
	}
	return told;
}

bool ref_wishes(struct world *w, const int *pods, size_t n)
{
	bool gone[PODS] = { false };
	struct world *told;
	const char *why = "";
	int pod = 0;
	bool ok;

	for (size_t i = 0; i < n; i++)
		gone[pods[i]] = true;
	if (placed_in_turn(w, pods, n, gone, &why, &pod))
		return true;
	told = as_told(w);
	ok = placed_in_turn(told, pods, n, gone, &why, &pod);
	free(told);
	CHECK(w, ok, "I17 %s on node-%d: %s", w->pods[pod].uid, w->pods[pod].place.node, why);
	return true;
}

static bool untold(const struct world *w)
{
	for (int i = 0; i < PODS; i++)
		if (w->pods[i].dirty || w->pods[i].claim_dirty)
			return true;
	return false;
}

bool ref_bind(struct world *w, const struct rf_core_decision *d, int i, const struct place *at)
{
	const struct pod *p = &w->pods[i];
	const struct node *n = &w->nodes[at->node];
	struct load loads[CARDS];
	const char *why;
	char text[300] = "";
	int t = space_tenant(p->space);

	CHECK(w, p->known && p->node == NOBODY && !p->flying, "I16 bind %s, which is bound, decided or not there", p->uid);
	CHECK(w, !p->gated, "I17 bind %s, which is gated", p->uid);
	if (!promise_kept(w, d, p, at))
		return false;
	if (d->promised)
		return true;
	CHECK(w, t == NOBODY || (w->tenants[t].exists && ref_leaf(w, p) != NOBODY), "I8 bind %s, whose queue is not its tenant's, or not there",
	      p->uid);
	CHECK(w, n->exists && n->ready && !n->cordoned, "I5 bind %s to node-%d, which takes nothing", p->uid, at->node);
	if (!grants_match(w, p, at) || !cards_right(w, p, at))
		return false;
	why = node_loads(w, at->node, NULL, loads);
	for (int k = 0; k < at->n && why == NULL; k++)
		why = add_held(&loads[at->held[k].card], &n->cards[at->held[k].card], &at->held[k]);
	CHECK(w, why == NULL, "%s: %s on node-%d", why, p->uid, at->node);
	CHECK(w, node_open(w, p, at->node, NULL), "I6 %s of %s meets another tenant on node-%d or in its rack, or there is none", p->uid,
	      space_name(p->space), at->node);
	why = node_full(w, p, at->node, NULL);
	CHECK(w, why == NULL, "I1 %s on node-%d: no %s", p->uid, at->node, why);
	CHECK(w, ref_quota_at(w, p, at, NULL, text, sizeof(text)), "%s: %s", text, p->uid);
	if (!untold(w) && !lent(w, p, at))
		return false;
	w->n.racked += level_of(w, p->space) == RF_ISOLATION_RACK;
	return zone_kept(w, p, at->node);
}

/* --- an eviction ------------------------------------------------------------------------------ */

bool ref_half_made(const struct world *w, const struct pod *p)
{
	const struct group *g = group_of(w, p);
	int64_t n = 0;

	if (g == NULL || g->started)
		return false;
	for (int i = 0; i < PODS; i++)
		n += w->pods[i].group == p->group && w->pods[i].live && !w->pods[i].ended && w->pods[i].node != NOBODY;
	return n < g->min;
}

int64_t ref_staying(const struct world *w, int group, int64_t *ret_going)
{
	int64_t n = 0;

	*ret_going = 0;
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		if (p->group != group || !p->live || p->ended || p->node == NOBODY)
			continue;
		n += !p->evicted && !p->deleting && !p->late;
		*ret_going += p->evicted;
	}
	return n;
}

bool ref_is_late(const struct world *w, const struct pod *p, int64_t at)
{
	const struct group *g = &w->groups[p->group];

	return g->whole_at > 0 && p->started > g->whole_at && at < p->started + ref_min_run(w, p);
}

/* Others of its gang were told to go: what is left goes, too. */
static bool is_torn(const struct world *w, const struct pod *p)
{
	const struct group *g = group_of(w, p);
	int64_t going;

	return g != NULL && g->torn > 0 && ref_staying(w, p->group, &going) < g->min;
}

/* Over its guarantee, with those not counted that go already, in something that it uses. */
static bool is_over(const struct world *w, const struct pod *p)
{
	bool leaving[PODS];

	for (int i = 0; i < PODS; i++) { /* a gang goes as a whole: its own members are no measure */
		const struct pod *o = &w->pods[i];

		leaving[i] = (o->evicted || o->deleting) && (p->group == NOBODY || o->group != p->group);
	}
	for (int q = ref_leaf(w, p); q != NOBODY; q = up(w, q))
		for (int r = 0; r < RES; r++) {
			if (asks_at(p, r, w, ref_holds(p) ? &p->place : NULL) == 0 || is_model(r))
				continue;
			if (r == R_CARDS ? cards_beyond(w, q, leaving, true) > 0 && !named_for(w, q, p, leaving, 0) :
					   ref_used(w, q, r, false, leaving) > ref_guaranteed_now(w, q, r))
				return true;
		}
	return ref_leaf(w, p) == NOBODY;
}

static bool outranked(const struct world *w, const struct pod *p)
{
	for (int i = 0; i < PODS; i++) {
		const struct pod *o = &w->pods[i];

		if (o->known && o->node == NOBODY && !o->flying && !o->patient && o->priority > p->priority && ref_leaf(w, o) == ref_leaf(w, p))
			return true;
	}
	return false;
}

/* What it is, or one of its gang: who are unlike go together. */
static bool may_be_taken(const struct world *w, const struct pod *p)
{
	for (int i = 0; i < PODS; i++) {
		const struct pod *o = &w->pods[i];

		if (o == p || (p->group != NOBODY && o->live && o->group == p->group && o->node != NOBODY))
			if (is_over(w, o) || outranked(w, o))
				return true;
	}
	return false;
}

static bool budget_open(const struct world *w, const struct pod *p)
{
	int64_t left;

	if (p->budget != 1 || p->space >= BUDGETS || w->budgets[p->space] < 0)
		return true;
	left = w->budgets[p->space];
	for (int i = 0; i < w->n_writes; i++) {
		const struct pod *o = &w->pods[w->writes[i].pod];

		left -= w->writes[i].kind == W_EVICT && o->serial == w->writes[i].serial && o->live && o->space == p->space && o->budget == 1;
	}
	return left > 0;
}

bool ref_evict(struct world *w, int i)
{
	const struct pod *p = &w->pods[i];

	CHECK(w, p->known && p->node != NOBODY, "I11 evict %s, which is not bound", p->uid);
	CHECK(w, !p->evicted, "I11 evict %s twice", p->uid);
	if (ref_half_made(w, p))
		return true;
	CHECK(w, !ref_is_pinned(w, p), "I14 evict %s, which is pinned", p->uid);
	CHECK(w, w->now >= p->started + ref_min_run(w, p), "I14 evict %s after %" PRId64 " of its %" PRId64 " ms", p->uid,
	      w->now - p->started, ref_min_run(w, p));
	CHECK(w, budget_open(w, p), "I14 evict %s, whose budget is used up", p->uid);
	if (untold(w) || is_torn(w, p)) /* by what the core knew it may have been right */
		return true;
	w->n.checked_victims++;
	CHECK(w, may_be_taken(w, p), "I14 evict %s, within the guarantee of %s (cards %" PRId64 " of %" PRId64 ")", p->uid,
	      queue_names[ref_leaf(w, p)], ref_used(w, ref_leaf(w, p), R_CARDS, false, NULL),
	      ref_guaranteed_now(w, ref_leaf(w, p), R_CARDS));
	return true;
}

/* --- would it fit? ---------------------------------------------------------------------------- */

struct search {
	const struct world *w;
	const struct pod *p;
	const bool *gone;
	int node, island;
	bool hidden; /* one that is to be joined to others does not say to which */
	struct load loads[CARDS];
	struct held units[GRANTS];
	int n;
	struct place *ret;
	bool (*then)(void *ctx, const struct place *at); /* false: another place, please; NULL: any will do */
	void *ctx;
};

static bool try_units(struct search *s, int i);

static bool try_unit(struct search *s, int i, const struct held *h)
{
	const struct card *c = &s->w->nodes[s->node].cards[h->card];
	struct load before = s->loads[h->card];
	int island = s->island;
	bool hidden = s->hidden, ok = false;

	if (!card_open(s->w, s->p, s->node, h, s->gone) || add_held(&s->loads[h->card], c, h) != NULL) {
		s->loads[h->card] = before;
		return false;
	}
	if (h->whole && shapes[s->p->shape].island) {
		ok = s->island == NOBODY || (s->island == c->island && !c->hidden && !s->hidden);
		s->hidden |= c->hidden;
		s->island = c->island;
	} else {
		ok = true;
	}
	s->ret->held[i] = *h;
	ok = ok && try_units(s, i + 1);
	s->loads[h->card] = before;
	s->island = island;
	s->hidden = hidden;
	return ok;
}

static bool try_units(struct search *s, int i)
{
	const struct node *n = &s->w->nodes[s->node];

	if (i == s->n) {
		s->ret->n = s->n;
		return s->then == NULL || s->then(s->ctx, s->ret);
	}
	for (int k = 0; k < n->n_cards; k++) {
		const struct card *c = &n->cards[k];
		struct held h = s->units[i];

		h.card = k;
		if (c->broken || (h.profile != NOBODY ? c->fixed : c->sliced) || (h.whole && shapes[s->p->shape].h100 && c->model != 0))
			continue;
		if (h.profile == NOBODY && try_unit(s, i, &h))
			return true;
		for (int j = 0; h.profile != NOBODY && j < geometry[h.profile].n; j++) {
			h.start = geometry[h.profile].starts[j];
			if (try_unit(s, i, &h))
				return true;
		}
	}
	return false;
}

static bool cards_fit(const struct world *w, const struct pod *p, int node, const bool gone[PODS], struct place *ret,
		      bool (*then)(void *ctx, const struct place *at), void *ctx)
{
	const struct shape *v = &shapes[p->shape];
	struct search s = { .w = w, .p = p, .gone = gone, .node = node, .island = NOBODY, .ret = ret, .then = then, .ctx = ctx };

	for (int c = 0; c < v->n; c++) {
		for (int k = 0; k < v->c[c].cards; k++)
			s.units[s.n++] = (struct held){ .whole = true, .profile = NOBODY, .container = c };
		for (int k = 0; k < v->c[c].slices; k++)
			s.units[s.n++] = (struct held){ .profile = v->c[c].profile, .container = c };
		if (v->c[c].bytes > 0)
			s.units[s.n++] = (struct held){ .profile = NOBODY, .bytes = v->c[c].bytes, .milli = v->c[c].milli, .container = c };
	}
	for (int i = 0; i < s.n; i++)
		if (!may_ask(w, p, &s.units[i]))
			return false;
	(void)node_loads(w, node, gone, s.loads);
	return try_units(&s, 0);
}

static bool place_then(const struct world *w, const struct pod *p, int node, const bool gone[PODS], struct place *ret,
		       bool (*then)(void *ctx, const struct place *at), void *ctx)
{
	const struct node *n = &w->nodes[node];

	*ret = (struct place){ .node = node };
	return n->exists && n->ready && !n->cordoned && node_open(w, p, node, gone) && node_full(w, p, node, gone) == NULL &&
	       wish_broken(w, p, node, gone) == NULL && cards_fit(w, p, node, gone, ret, then, ctx);
}

bool ref_place(const struct world *w, const struct pod *p, int node, const bool gone[PODS], struct place *ret)
{
	return place_then(w, p, node, gone, ret, NULL, NULL);
}

bool ref_fits(const struct world *w, const struct pod *p, int node, const bool gone[PODS])
{
	struct place at;

	return ref_place(w, p, node, gone, &at);
}

/* --- at rest ---------------------------------------------------------------------------------- */

static bool waits(const struct pod *p)
{
	return p->live && p->known && p->node == NOBODY && !p->flying && !p->deleting && !p->gated && !(p->claimed && p->allocated);
}

/* Cards, shares, slices: of whichever of these somebody has more than its guarantee, it gives back for any other. */
static bool is_kind(enum res r)
{
	return r <= R_MIG7 && !is_model(r);
}

static bool asks_for_a_kind(const struct pod *p)
{
	for (enum res r = 0; r < RES; r++)
		if (is_kind(r) && ref_asks(p, r) > 0)
			return true;
	return false;
}

/* Do amounts that are kept, lent or cut come into it? Then what is exactly free is the core's to say. */
static bool plain_quotas(const struct world *w, const struct pod *p)
{
	if (ref_is_pinned(w, p))
		return false;
	for (int q = 0; q < QUEUES; q++)
		for (int r = 0; r < RES && w->queues[q].exists; r++) {
			/* A card counts for its model, too: one that its queue does not lend is not to be had by a pod that
			 * names no model either. */
			bool asks = ref_asks(p, r) > 0 || (is_model(r) && ref_asks(p, R_CARDS) > 0);

			/* Nor what is kept of one kind by another. */
			if (r <= R_MIG7 && asks_for_a_kind(p) && w->queues[q].quotas[r].given && w->queues[q].quotas[r].lending >= 0 &&
			    w->queues[q].quotas[r].lending < ref_guaranteed_now(w, q, r))
				return false;
			if (asks && w->queues[q].quotas[r].given &&
			    (w->queues[q].quotas[r].lending >= 0 || w->queues[q].quotas[r].borrowing >= 0))
				return false;
		}
	return true;
}

/* With every card counted for its model wherever it may land. */
bool ref_models_open(const struct world *w, const struct pod *p)
{
	for (int q = ref_leaf(w, p); q != NOBODY; q = up(w, q))
		for (int r = R_H100; r <= R_A100; r++)
			if (ref_asks(p, R_CARDS) > 0 && w->queues[q].exists && w->queues[q].quotas[r].given && w->queues[q].quotas[r].limit >= 0)
				return false;
	return true;
}

static bool work_conserved(struct world *w, const struct pod *p, const char *why)
{
	char text[300];

	if (group_of(w, p) != NULL || p->group != NOBODY || ref_leaf(w, p) == NOBODY || strstr(why, "reserv") != NULL)
		return true;
	if (!plain_quotas(w, p) || !ref_models_open(w, p) || !ref_quota_at(w, p, NULL, NULL, text, sizeof(text)))
		return true;
	w->n.checked_fits++;
	for (int n = 0; n < NODES; n++)
		CHECK(w, !ref_fits(w, p, n, NULL), "I17 %s (%s, wish %d) waits, and node-%d is free: %s", p->uid, shapes[p->shape].name, p->wish, n,
		      why);
	return true;
}

/* How many such pods of whole cards, or of none, the node takes. */
static int64_t copies_on(const struct world *w, const struct pod *p, int node)
{
	const struct shape *s = &shapes[p->shape];
	const struct node *n = &w->nodes[node];
	int64_t cpu = n->cpu, memory = n->memory, pods = n->pods, cards = 0;
	struct load loads[CARDS];

	if (!ref_fits(w, p, node, NULL))
		return 0;
	for (int i = 0; i < PODS; i++) {
		int at;

		if (!runs_at(&w->pods[i], &at) || at != node)
			continue;
		cpu -= shapes[w->pods[i].shape].cpu;
		memory -= shapes[w->pods[i].shape].memory;
		pods--;
	}
	(void)node_loads(w, node, NULL, loads);
	for (int k = 0; k < n->n_cards; k++) {
		struct held h = { .card = k, .whole = true, .profile = NOBODY };

		cards += !n->cards[k].broken && !n->cards[k].sliced && loads[k].whole + loads[k].share + loads[k].slice == 0 &&
			 (!s->h100 || n->cards[k].model == 0) && card_open(w, p, node, &h, NULL);
	}
	pods = RF_MIN(pods, RF_MIN(cpu / s->cpu, memory / s->memory));
	return s->c[0].cards > 0 ? RF_MIN(pods, cards / s->c[0].cards) : pods;
}

static bool quota_for_many(const struct world *w, const struct pod *p, int64_t times)
{
	for (int q = ref_leaf(w, p); q != NOBODY; q = up(w, q))
		for (int r = 0; r < RES; r++)
			if (ref_asks(p, r) > 0 && ref_used(w, q, r, false, NULL) + ref_asks(p, r) * times > limit_of(w, q, r))
				return false;
	return true;
}

/* A gang of pods that are all alike and easy to count. */
static bool gang_conserved(struct world *w, int g)
{
	const struct pod *one = NULL;
	int64_t waiting = 0, places = 0;

	if (!w->groups[g].exists || w->groups[g].zoned)
		return true;
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];
		int at;

		if (p->group != g || !p->live)
			continue;
		if (!waits(p) || ref_there(p, &at) || p->claimed || p->wish != WISH_NONE || (one != NULL && one->shape != p->shape))
			return true;
		one = p;
		waiting++;
	}
	if (one == NULL || waiting < w->groups[g].min || shapes[one->shape].n != 1 || shapes[one->shape].c[0].bytes > 0 ||
	    shapes[one->shape].c[0].slices > 0 || shapes[one->shape].island || ref_leaf(w, one) == NOBODY || !plain_quotas(w, one) ||
	    !ref_models_open(w, one) || !quota_for_many(w, one, w->groups[g].min) || strstr(one->why, "reserv") != NULL)
		return true;
	w->n.checked_fits++;
	for (int n = 0; n < NODES; n++)
		places += copies_on(w, one, n);
	CHECK(w, places < w->groups[g].min, "I17 gang %s waits for %d places (%s), and there are %d: %s", w->groups[g].name,
	      (int)w->groups[g].min, shapes[one->shape].name, (int)places, one->why);
	return true;
}

/* Cards of any model, or of the one that it names. */
static bool cards_within(const struct world *w, int q, const struct pod *p)
{
	int64_t n = ref_asks(p, R_CARDS);

	if (ref_used(w, q, R_CARDS, false, NULL) + n > limit_of(w, q, R_CARDS))
		return false;
	if (shapes[p->shape].h100)
		n -= RF_MIN(n, RF_MAX(after_cuts(w, q, R_H100, named) - ref_used(w, q, R_H100, false, NULL), 0));
	return n == 0 || cards_beyond(w, q, NULL, true) + n <= 0;
}

static bool within_guarantee(const struct world *w, const struct pod *p)
{
	for (int q = ref_leaf(w, p); q != NOBODY; q = up(w, q))
		for (int r = 0; r < RES; r++) {
			if (ref_asks(p, r) == 0)
				continue;
			if (r == R_CARDS ? !cards_within(w, q, p) :
					   ref_used(w, q, r, false, NULL) + ref_asks(p, r) > RF_MIN(ref_guaranteed_now(w, q, r), limit_of(w, q, r)))
				return false;
		}
	return true;
}

/* On every level up to where it meets the claimant's path. Who is over what it is guaranteed of a model may have these cards
 * within what it is guaranteed of any. */
static bool certainly_over(const struct world *w, const struct pod *p, const struct pod *o, enum res r, const bool gone[PODS])
{
	for (int q = ref_leaf(w, o); q != NOBODY; q = up(w, q)) {
		if (ref_guaranteed(w, q, r) == NONE || ref_used(w, q, r, false, gone) < ref_guaranteed(w, q, r))
			return false;
		if (r == R_CARDS && (cards_beyond(w, q, gone, true) < 0 || cards_beyond(w, q, gone, false) < 0 || named_for(w, q, o, gone, -1)))
			return false;
		if (is_below(w, ref_leaf(w, p), q))
			break;
	}
	return true;
}

static bool is_on_away_card(const struct world *w, const struct pod *o)
{
	for (int i = 0; ref_holds(o) && i < o->place.n; i++)
		if (card_away(w, &w->nodes[o->place.node].cards[o->place.held[i].card]))
			return true;
	return false;
}

/* Work that may go beyond doubt: alone, on cards that are there, over the guarantee in one kind even when all such work is gone. */
static bool certain_victim(const struct world *w, const struct pod *p, const struct pod *o, const bool gone[PODS])
{
	int leaf = ref_leaf(w, o);

	if (o->group != NOBODY || o->node == NOBODY || o->ended || !o->live || leaf == NOBODY || leaf == ref_leaf(w, p) ||
	    ref_is_pinned(w, o) || w->now < o->started + o->min_run || !budget_open(w, o) || (o->budget == 1 && o->space < BUDGETS) ||
	    is_on_away_card(w, o))
		return false;
	for (enum res r = 0; r < RES; r++)
		if (is_kind(r) && asks_at(o, r, w, ref_holds(o) ? &o->place : NULL) > 0 && certainly_over(w, p, o, r, gone))
			return true;
	return false;
}

/* I3: who is within a guarantee does not wait for those who are over theirs. */
static bool guarantee_met(struct world *w, const struct pod *p, const char *why)
{
	bool gone[PODS] = { false }, more = true;
	char text[300];

	if (p->group != NOBODY || ref_leaf(w, p) == NOBODY || ref_is_pinned(w, p) || p->patient || !plain_quotas(w, p) || !ref_models_open(w, p) ||
	    !within_guarantee(w, p) || !asks_for_a_kind(p) || strstr(why, "reserv") != NULL)
		return true;
	if (!ref_quota_at(w, p, NULL, NULL, text, sizeof(text)))
		return true;
	for (int i = 0; i < PODS; i++) {
		gone[i] = true;
		gone[i] = certain_victim(w, p, &w->pods[i], gone);
	}
	while (more) { /* those of them that are still certain when all of them are gone */
		more = false;
		for (int i = 0; i < PODS; i++) {
			if (gone[i] && !certain_victim(w, p, &w->pods[i], gone)) {
				gone[i] = false;
				more = true;
			}
		}
	}
	w->n.checked_guarantees++;
	for (int n = 0; n < NODES; n++)
		CHECK(w, !ref_fits(w, p, n, gone), "I3 %s (%s) is within the guarantee of %s and waits; on node-%d work could go for it: %s",
		      p->uid, shapes[p->shape].name, queue_names[ref_leaf(w, p)], n, why);
	return true;
}

/* I18: names of others are nobody's business. */
static bool names_others(const struct world *w, const struct pod *p, const char *why, const char **ret)
{
	const struct group *g = group_of(w, p);
	int own = space_tenant(p->space), said = g != NULL && g->queue != NOBODY ? g->queue : p->queue;

	for (int t = 0; t < TENANTS; t++) {
		*ret = tenant_names[t];
		if (t != own && strstr(why, tenant_names[t]) != NULL && (said == NOBODY || said % TENANTS != t)) /* its own words aside */
			return true;
	}
	return false;
}

static int64_t number_in(const char *why, const char *key)
{
	const char *at = strstr(why, key);

	return at != NULL ? strtoll(at + strlen(key), NULL, 10) : 0;
}

/* A limit that is named is reached, by own arithmetic. */
static bool limit_holds(struct world *w, const struct pod *p, const char *why)
{
	const char *name = strstr(why, "resource="), *level = strstr(why, "level=");

	if (strstr(why, "the limit of queue ") == NULL || group_of(w, p) != NULL)
		return true;
	for (int q = ref_leaf(w, p); q != NOBODY; q = up(w, q)) {
		size_t n = strlen(queue_names[q]);
		const char *end = strchr(level, ' ');

		if (end == NULL || end - level < (ptrdiff_t)n || strncmp(end - n, queue_names[q], n) != 0)
			continue;
		for (int r = 0; r < RES; r++) {
			size_t m = strlen(res_names[r]);

			if (strncmp(name + 9, res_names[r], m) == 0 && name[9 + m] == ' ')
				CHECK(w, ref_used(w, q, r, false, NULL) + number_in(why, "need=") > limit_of(w, q, r),
				      "I18 %s is told of a limit that does not hold: %s", p->uid, why);
		}
	}
	return true;
}

static bool words_hold(struct world *w, const struct pod *p, const char *why)
{
	const char *name = NULL;

	CHECK(w, !names_others(w, p, why, &name), "I18 %s of %s is told of %s: %s", p->uid, space_name(p->space), name, why);
	CHECK(w, strstr(why, "resource=") && strstr(why, "level=") && strstr(why, "need=") && strstr(why, "have=") && strstr(why, "help="),
	      "I18 %s: a reason without its parts: %s", p->uid, why);
	CHECK(w, strstr(why, "resource=none") != NULL || number_in(why, "need=") > number_in(why, "have="),
	      "I18 %s (%s) is told that it has what it needs: %s", p->uid, shapes[p->shape].name, why);
	return true;
}

/* Who goes for others hears what of. */
bool ref_told_to_go(struct world *w, const struct pod *p, const struct rf_core_decision *d)
{
	char why[512];

	if (d->cause == RF_CORE_INCOMPLETE)
		return true;
	snprintf(why, sizeof(why), "%.*s", RF_STR(d->reason));
	CHECK(w, strstr(why, "resource=none") == NULL || strstr(why, "let past") != NULL, "I18 %s goes for nothing: %s", p->uid, why);
	return words_hold(w, p, why);
}

/* What it is told that no end of others would help has no place when all are gone. */
static bool never_holds(struct world *w, const struct pod *p, const char *why)
{
	const char *help = strstr(why, "help=");
	static bool all[PODS];

	memset(all, true, sizeof(all));
	for (int n = 0; n < NODES && strcmp(help, "help=ask for less per pod") == 0; n++)
		CHECK(w, !w->nodes[n].exists || !ref_fits(w, p, n, all), "I18 %s (%s) is told that it will never fit, and would on node-%d: %s",
		      p->uid, shapes[p->shape].name, n, why);
	return true;
}

static bool reason_holds(struct world *w, const struct pod *p, const char *why)
{
	CHECK(w, why[0] != 0, "I18 %s (%s, wish %d) waits and nobody says why", p->uid, shapes[p->shape].name, p->wish);
	if (!words_hold(w, p, why) || !never_holds(w, p, why))
		return false;
	CHECK(w, strstr(why, "its group") == NULL || group_of(w, p) == NULL, "I18 %s is told of a group that is not there: %s", p->uid, why);
	w->n.checked_reasons++;
	return limit_holds(w, p, why);
}

/* promised: those count, too, that hold cards and are not bound. Whom a disruption budget keeps the API evicts for nobody. */
static bool gangs_whole(struct world *w, bool promises)
{
	for (int g = 0; g < GROUPS; g++) {
		int64_t bound = 0, promised = 0, kept = 0;

		if (!w->groups[g].exists || w->groups[g].started || !w->tenants[space_tenant(w->groups[g].space)].exists)
			continue; /* whose tenant is not there neither starts nor ends */
		for (int i = 0; i < PODS; i++) {
			const struct pod *p = &w->pods[i];

			if (p->group != g || !p->live || p->ended || p->deleting)
				continue;
			bound += p->node != NOBODY;
			kept += p->node != NOBODY && !budget_open(w, p);
			promised += p->node == NOBODY && p->claimed && p->allocated;
		}
		CHECK(w, bound == kept || bound >= w->groups[g].min || (!promises && promised > 0), "I10 gang %s rests with %d of %d bound",
		      w->groups[g].name, (int)bound, (int)w->groups[g].min);
		CHECK(w, promised == 0 || !promises, "I10 gang %s rests with %d promised, %d bound", w->groups[g].name, (int)promised,
		      (int)bound);
	}
	return true;
}

/* With those that came since it was told to go. */
static bool is_enough(const struct world *w, int group)
{
	int64_t n = 0;

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		n += p->group == group && p->live && !p->ended && p->node != NOBODY && !p->evicted && !p->deleting;
	}
	return n >= w->groups[group].min;
}

/* Are those all gone that were told to go, as the core knows it? */
static bool all_went(const struct world *w, int group)
{
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		if (p->group == group && (p->dirty || (p->live && (p->evicted || p->refused))))
			return false;
	}
	return true;
}

/* It went as a whole and came back: it is a gang like any other, and who came late is one of it. */
static void whole_again(struct world *w, int group)
{
	w->groups[group].torn = w->groups[group].lost = 0;
	for (int i = 0; i < PODS; i++)
		w->pods[i].late &= w->pods[i].group != group;
}

/* As the core knows it. */
static bool is_enough_as_told(const struct world *w, int group)
{
	int64_t n = 0;

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];
		bool runs = p->live && p->node != NOBODY && !p->ended && !p->deleting;

		n += p->group == group && !p->evicted && (p->dirty ? p->told_runs : runs);
	}
	return n >= w->groups[group].min;
}

/* An eviction that was refused is not tried again once it is a gang again; who of that ends later ends nobody else. */
void ref_gangs_again(struct world *w)
{
	for (int g = 0; g < GROUPS; g++)
		if (w->groups[g].exists && w->groups[g].torn > 0 && is_enough(w, g) && all_went(w, g))
			whole_again(w, g);
	for (int i = 0; i < PODS; i++) {
		struct pod *p = &w->pods[i];

		if (p->refused && p->group != NOBODY && p->live && !p->evicted && is_enough_as_told(w, p->group))
			p->refused = false;
	}
}

/* I14: what was left of a gang that was to go as a whole, because an eviction was refused, was told to go again; unless with
 * those that came back meanwhile it is a gang again: then nothing is left that would be of no use. Who was bound when the
 * others had been told to go is not what was left: it is on its own. */
static bool gangs_gone(struct world *w)
{
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		CHECK(w, !p->live || p->ended || p->node == NOBODY || p->deleting || !p->refused || p->late || !is_torn(w, p) ||
				 !budget_open(w, p) || is_enough(w, p->group),
		      "I14 %s stays, and its gang %s went", p->uid, w->groups[p->group].name);
	}
	return true;
}

bool ref_gangs_whole(struct world *w)
{
	return gangs_whole(w, false);
}

/* Moves, one after the other. A move says no cards: which one gets is found when it comes, so that what counts is whether
 * there are any with which all of them find room. */
struct moving {
	struct world then;
	int pod[PODS], to[PODS];
	size_t n, at, farthest;
};

static bool move_on(struct moving *m);

static bool moved_to(void *ctx, const struct place *at)
{
	struct moving *m = ctx;
	struct pod *p = &m->then.pods[m->pod[m->at]], was = *p;

	p->place = *at;
	p->node = at->node;
	m->at++;
	if (move_on(m))
		return true;
	m->at--;
	*p = was;
	return false;
}

static bool move_on(struct moving *m)
{
	bool gone[PODS] = { false };
	struct place at;

	m->farthest = RF_MAX(m->farthest, m->at);
	if (m->at == m->n)
		return true;
	gone[m->pod[m->at]] = true;
	return place_then(&m->then, &m->then.pods[m->pod[m->at]], m->to[m->at], gone, &at, moved_to, m);
}

/* I21: moves go one after the other, each where there is room then, and touch nothing that must not be touched. */
bool ref_moves(struct world *w, const struct rf_core_move *m, size_t n)
{
	static struct moving v;
	bool moved[PODS] = { false };

	v.then = *w;
	v.n = n;
	v.at = v.farthest = 0;
	for (size_t i = 0; i < n; i++) {
		const struct pod *p = world_find(w, m[i].uid);
		int64_t to = NOBODY;
		int k;

		CHECK(w, p != NULL && p->node != NOBODY && !p->ended && !p->deleting, "I21 a move of %.*s, which does not run", RF_STR(m[i].uid));
		k = (int)(p - w->pods);
		CHECK(w, !moved[k], "I21 %s moves twice", p->uid);
		CHECK(w, !ref_is_pinned(w, p) && w->now >= p->started + ref_min_run(w, p) && budget_open(w, p), "I21 %s must not move", p->uid);
		CHECK(w, rf_str_starts(m[i].to, RF_LIT("node-")) && rf_str_int(rf_str_skip(m[i].to, 5), &to, NULL) == 0 && to >= 0 && to < NODES,
		      "I21 %s moves to %.*s", p->uid, RF_STR(m[i].to));
		moved[k] = true;
		v.pod[i] = k;
		v.to[i] = (int)to;
	}
	CHECK(w, move_on(&v), "I21 %s (%s) moves to node-%d, where it does not fit", w->pods[v.pod[v.farthest]].uid,
	      shapes[w->pods[v.pod[v.farthest]].shape].name, v.to[v.farthest]);
	return true;
}

bool ref_at_rest(struct world *w)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];
		const char *why;

		if (!waits(p))
			continue;
		if (w->twin != NULL)
			(void)rf_core_why(w->twin, rf_str(p->uid), w->now, &a);
		why = rf_arena_cstr(&a, rf_core_why(w->core, rf_str(p->uid), w->now, &a));
		if (!reason_holds(w, p, why) || !work_conserved(w, p, why) || !guarantee_met(w, p, why))
			return false;
		rf_arena_reset(&a);
	}
	for (int g = 0; g < GROUPS; g++)
		if (!gang_conserved(w, g))
			return false;
	return gangs_whole(w, true) && gangs_gone(w);
}
