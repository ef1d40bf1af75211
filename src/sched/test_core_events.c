/* What happens to the world: pods' lives, and everything else that comes from outside. */
#include "sched/test_core_world.h"

static const uint8_t odds[OPS] = { 36, 1, 3, 44, 80, 14, 30, 18, 26, 14, 2, 1, 1, 1, 2, 1, 2, 1, 1, 2, 1, 4, 3, 2, 1, 1 };
static const int64_t res_unit[RES] = { 1, 1, 1, 10 * GI, 100, 1, 1, 1, 1, 1000, GI };
static const int64_t res_most[RES] = { 9, 6, 6, 24, 30, 6, 4, 3, 2, 24, 40 }; /* units that quotas speak of */

/* --- pods' lives ------------------------------------------------------------------------------ */

static int free_slot(const struct world *w)
{
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		if (!p->live && !p->claimed && !p->known && !p->claim_known && !p->flying)
			return i;
	}
	return NOBODY;
}

int world_new_pod(struct world *w, int space, int shape)
{
	int i = free_slot(w);
	struct pod *p;

	if (i == NOBODY)
		return NOBODY;
	p = &w->pods[i];
	*p = (struct pod){ .live = true,
			   .space = space,
			   .shape = shape,
			   .group = NOBODY,
			   .queue = NOBODY,
			   .node = NOBODY,
			   .created = w->now,
			   .ends = NONE,
			   .place.node = NOBODY };
	p->serial = (uint64_t)++w->serial;
	snprintf(p->uid, sizeof(p->uid), "u%" PRIu64, p->serial);
	snprintf(p->name, sizeof(p->name), "p%" PRIu64, p->serial);
	return i;
}

static void remove_pod(struct world *w, struct pod *p)
{
	bool again = p->evicted && w->remake;
	struct pod old = *p;

	p->live = false;
	if (!p->prepared && p->claimed) { /* the garbage collector's */
		p->claimed = p->allocated = false;
		world_changed(w, p, true);
	}
	world_changed(w, p, false);
	if (again) {
		int i = world_new_pod(w, old.space, old.shape);
		struct pod *n = i != NOBODY ? &w->pods[i] : NULL;

		if (n == NULL)
			return;
		n->wish = old.wish;
		n->group = old.group;
		n->queue = old.queue;
		n->priority = old.priority;
		n->grace = old.grace;
		n->min_run = old.min_run;
		n->created = old.created;
		n->remade = true;
		n->evictions = old.evictions;
		world_tell_pod(w, n);
	}
}

void world_end_pod(struct world *w, struct pod *p)
{
	if (!p->live || p->node == NOBODY || p->ended)
		return;
	p->ended = true;
	world_changed(w, p, false);
}

static void delete_pod(struct world *w, struct pod *p)
{
	if (!p->live || p->deleting)
		return;
	if (p->node == NOBODY || p->ended) {
		remove_pod(w, p);
		return;
	}
	p->deleting = true;
	p->gone_at = w->now + p->grace;
	world_changed(w, p, false);
}

/* The agent lets go of the cards of a pod that is no more. */
bool world_scrub(struct world *w, struct pod *p)
{
	if (!p->claimed || (p->live && !p->ended && !p->claim_deleting))
		return false;
	if (p->claim_deleting && p->live && !p->ended && p->node != NOBODY)
		return false;
	p->claimed = p->allocated = p->claim_deleting = p->prepared = false;
	world_changed(w, p, true);
	return true;
}

void world_time(struct world *w, int64_t ms)
{
	w->now += ms;
	for (int i = 0; i < PODS; i++) {
		struct pod *p = &w->pods[i];

		if (p->live && p->node != NOBODY && !p->ended && p->ends <= w->now)
			world_end_pod(w, p);
		if (p->live && p->deleting && p->gone_at <= w->now)
			remove_pod(w, p);
	}
}

/* --- events ----------------------------------------------------------------------------------- */

static const int mostly[] = { S_CPU,	S_CARD,	  S_CARD,   S_CARD2, S_CARD4, S_NVLINK, S_H100,	  S_SHARE1, S_SHARE1, S_SHARE2,
			      S_SHARE3, S_SHARE3, S_TWO,    S_MIG1,  S_MIG1,  S_MIG2,	S_MIG3,	  S_MIG7,   S_MIGS,   S_BIGCPU,
			      S_MIXED,	S_CARD,	  S_CARD,   S_ME };

static int draw_queue(int tenant, uint64_t b)
{
	switch (b % 8) {
	case 0: /* its own, by name */
		return tenant;
	case 1:
	case 2:
		return tenant + TENANTS;
	case 3: /* somebody else's, or one that holds others */
		return b / 8 % 4 == 0 ? (int)(b / 64 % QUEUES) : NOBODY;
	default:
		return NOBODY;
	}
}

static void ev_pod(struct world *w, const struct event *e)
{
	int space = (int)(e->a % SPACES), shape = mostly[e->a / SPACES % RF_COUNT(mostly)], i, tenant = space_tenant(space);
	struct pod *p;

	i = world_new_pod(w, space, tenant == NOBODY ? S_CPU : shape);
	if (i == NOBODY)
		return;
	p = &w->pods[i];
	p->wish = e->b % 4 == 0 ? (int)(e->b / 4 % WISHES) : WISH_NONE;
	p->priority = (int64_t)(e->b >> 20) % 3;
	p->pinned = (e->b >> 24) % 10 == 0;
	p->patient = w->patience && (e->b >> 48) % 3 == 0;
	p->gated = (e->b >> 28) % 24 == 0;
	p->budget = (int)((e->b >> 32) % 2);
	p->min_run = (e->b >> 36) % 4 == 0 ? 5000 : 0;
	p->run_limit = (e->b >> 40) % 3 == 0 ? 20000 : 0;
	p->grace = (int64_t)((e->b >> 44) % 3) * 1500;
	if (tenant != NOBODY)
		p->queue = draw_queue(tenant, e->c);
	for (int g = 0; g < GROUPS && (e->c >> 30) % 10 == 0; g++)
		if (w->groups[g].exists && w->groups[g].space == space)
			p->group = g;
	if (p->group != NOBODY) { /* the group says */
		p->queue = NOBODY;
		p->pinned = false;
	}
	world_tell_pod(w, p);
}

static int ev_group(struct world *w, const struct event *e)
{
	int i = (int)(e->a % GROUPS), space = (int)(e->a / GROUPS % 6);
	struct group *g = &w->groups[i];

	if (g->exists)
		return NOBODY;
	for (int k = 0; k < PODS; k++)
		if (w->pods[k].group == i && (w->pods[k].live || w->pods[k].known || w->pods[k].claimed))
			return NOBODY;
	*g = (struct group){ .exists = true,
			     .space = space,
			     .shape = mostly[e->b % RF_COUNT(mostly)],
			     .queue = draw_queue(space_tenant(space), e->c),
			     .min = 1 + (int64_t)(e->b >> 8) % 4,
			     .zoned = (e->b >> 16) % 4 == 0,
			     .pinned = (e->b >> 20) % 6 == 0,
			     .min_run = (e->b >> 24) % 4 == 0 ? 5000 : 0,
			     .run_limit = (e->b >> 28) % 4 == 0 ? 30000 : 0,
			     .created = w->now };
	snprintf(g->name, sizeof(g->name), "g%" PRId64, ++w->serial);
	world_tell_group(w, i);
	return i;
}

/* A group and its pods, one of them perhaps unlike the others. */
static void ev_gang(struct world *w, const struct event *e)
{
	int g = ev_group(w, e);
	int64_t n = g != NOBODY ? w->groups[g].min + (int64_t)(e->c >> 40) % 3 : 0;

	for (int64_t k = 0; k < n; k++) {
		int shape = (e->c >> 50) % 8 == 0 && k == 0 ? S_CPU : w->groups[g].shape;
		int i = world_new_pod(w, w->groups[g].space, shape);

		if (i == NOBODY)
			return;
		w->pods[i].group = g;
		w->pods[i].priority = (int64_t)(e->b >> 40) % 3;
		w->pods[i].patient = w->patience && (e->b >> 48) % 3 == 0;
		w->pods[i].grace = 1000;
		w->pods[i].wish = (e->b >> 44) % 10 == 0 ? WISH_APART : WISH_NONE;
		world_tell_pod(w, &w->pods[i]);
	}
}

static void ev_node(struct world *w, const struct event *e)
{
	struct node *n = &w->nodes[e->a % NODES];

	n->exists = !n->exists;
	n->ready = true;
	n->cordoned = false;
	if (n->exists && w->racks && e->c % 4 == 0) /* it comes back elsewhere */
		n->rack = (int)(e->c / 4 % (RACKS + 1));
	world_tell_node(w, (int)(e->a % NODES));
	/* Without a node there is no agent: somebody takes its claims away by hand, or waits for it. */
	for (int i = 0; i < PODS && !n->exists && e->b % 2 == 0; i++) {
		struct pod *p = &w->pods[i];

		if (p->live && p->node == (int)(e->a % NODES))
			remove_pod(w, p);
	}
}

/* A node moves, with all that is on it, or a pool is filled otherwise, comes or goes. */
static void ev_pool(struct world *w, const struct event *e)
{
	struct node *n = &w->nodes[e->a % NODES];
	int pool = (int)(e->a % POOLS);

	if (e->c % 3 == 0) {
		w->pools[pool] = (int)(e->c / 4 % 4);
		world_tell_pool(w, pool);
		return;
	}
	if (!n->exists)
		return;
	if (e->c % 3 == 1)
		n->pool = (int)(e->c / 4 % (POOLS + 1));
	else
		n->rack = (int)(e->c / 4 % (RACKS + 1));
	world_tell_node(w, (int)(e->a % NODES));
}

static void ev_label(struct world *w, const struct event *e)
{
	struct node *n = &w->nodes[e->a % NODES];

	if (w->racks && e->b / 4 % 2 == 0) {
		ev_pool(w, e);
		return;
	}
	if (e->b % 3 == 0)
		n->tainted = !n->tainted;
	else if (e->b % 3 == 1)
		n->zone = !n->zone;
	else
		n->gen = (int64_t)(e->c % 4);
	if (n->exists)
		world_tell_node(w, (int)(e->a % NODES));
}

static void ev_card(struct world *w, const struct event *e)
{
	struct node *n = &w->nodes[e->a % NODES];
	struct card *c = &n->cards[e->b % CARDS];

	if ((int)(e->b % CARDS) >= n->n_cards)
		return;
	if (w->grouped && e->b / CARDS % 2 == 0)
		c->hidden = !c->hidden;
	else
		c->broken = !c->broken;
	w->n.vanished += n->exists && card_away(w, c);
	if (n->exists)
		world_tell_node(w, (int)(e->a % NODES));
}

void world_draw_tenant(const struct world *w, struct tenant *t, uint64_t b, uint64_t c)
{
	static const enum rf_isolation levels[] = { RF_ISOLATION_NODE,	RF_ISOLATION_GPU,   RF_ISOLATION_SLICE,
						    RF_ISOLATION_SHARE, RF_ISOLATION_SHARE, RF_ISOLATION_COOPERATIVE };

	t->isolation = w->racks && b / 64 % 4 == 0 ? RF_ISOLATION_RACK : levels[b % RF_COUNT(levels)];
	if (w->grouped && b / 256 % 3 == 0)
		t->isolation = b / 1024 % 2 ? RF_ISOLATION_NUMA : RF_ISOLATION_NVLINK;
	t->trust = (int)(b / 16 % 3);
	t->cards = c % 5 == 0 ? (int64_t)(c / 8 % 3) : 4 + (int64_t)(c / 8 % 8);
	t->bytes = (int64_t)(c / 128 % 5) * 60 * GI;
	t->weight = 1 + (int64_t)(c / 1024 % 4);
}

static void ev_tenant(struct world *w, const struct event *e)
{
	struct tenant *t = &w->tenants[e->a % TENANTS];

	if (t->exists && e->a / TENANTS % 12 == 0) {
		t->exists = false;
	} else {
		t->exists = true;
		world_draw_tenant(w, t, e->b, e->c);
	}
	world_tell_tenant(w, (int)(e->a % TENANTS));
}

void world_draw_quota(struct quota *q, int r, uint64_t b)
{
	int64_t most = res_most[r];

	*q = (struct quota){ .given = true, .guaranteed = -1, .limit = -1, .lending = -1, .borrowing = -1 };
	if (b % 4 != 0)
		q->guaranteed = (int64_t)(b / 4 % (uint64_t)(most / 2 + 1)) * res_unit[r];
	if (b / 64 % 2 == 0)
		q->limit = RF_MAX(q->guaranteed, 0) + (int64_t)(b / 256 % (uint64_t)most) * res_unit[r];
	if (b / 4096 % 4 == 0 && q->guaranteed > 0)
		q->lending = (int64_t)(b / 16384 % (uint64_t)(q->guaranteed / res_unit[r] + 1)) * res_unit[r];
	if (b / 65536 % 4 == 0)
		q->borrowing = (int64_t)(b / 262144 % (uint64_t)most) * res_unit[r];
}

static void ev_quota(struct world *w, const struct event *e)
{
	struct queue *q = &w->queues[e->a % QUEUES];
	int r = (int)(e->b % RES);

	if (!q->exists)
		return;
	if (e->b / RES % 5 == 0)
		q->quotas[r].given = false;
	else
		world_draw_quota(&q->quotas[r], r, e->c);
	q->weight = 1 + (int64_t)(e->c >> 50) % 4;
	world_tell_queue(w, (int)(e->a % QUEUES));
}

static void ev_queue(struct world *w, const struct event *e)
{
	int i = (int)(e->a % LEAVES);

	w->queues[i].exists = !w->queues[i].exists;
	world_tell_queue(w, i);
}

/* Queues that name each other as their parent, weights of nothing: nobody else may notice. */
static void ev_loop(struct world *w, const struct event *e)
{
	static const char *const names[] = { "loop-a", "loop-b", "loop-c" };
	struct rf_err err = RF_ERR_INIT;
	struct rf_sched_queue q = { .name = rf_str(names[e->a % 3]),
				    .parent = rf_str(e->b % 4 != 0 ? names[e->b % 3] : ""),
				    .weight = (int64_t)(e->c % 3) - 1 };

	SAY(w, "queue %.*s under %.*s, weight %d", RF_STR(q.name), RF_STR(q.parent), (int)q.weight);
	if (e->c / 3 % 3 == 0) {
		BOTH(w, rf_core_del_queue, q.name, w->now);
		return;
	}
	(void)rf_core_put_queue(w->core, &q, w->now, &err);
	if (w->twin != NULL)
		(void)rf_core_put_queue(w->twin, &q, w->now, &err);
}

static void ev_ungroup(struct world *w, const struct event *e)
{
	struct group *g = &w->groups[e->a % GROUPS];

	if (!g->exists)
		return;
	g->exists = false;
	world_tell_group(w, (int)(e->a % GROUPS));
	for (int i = 0; i < PODS; i++)
		if (w->pods[i].group == (int)(e->a % GROUPS))
			delete_pod(w, &w->pods[i]);
}

static void ev_budget(struct world *w, const struct event *e)
{
	int i = (int)(e->a % BUDGETS);

	w->budgets[i] = (int64_t)(e->b % 4) - 1;
	SAY(w, "budget %d: %d", i, (int)w->budgets[i]);
	BOTH(w, world_put_budget, w, i);
}

/* The watch repeats what was true once. */
static void ev_stale(struct world *w, const struct event *e)
{
	struct pod *p = &w->pods[e->a % PODS];

	if (!p->live || !p->known)
		return;
	SAY(w, "stale put of %s as it was at first, rv %d", p->uid, (int)p->serial);
	BOTH(w, world_put_pod, w, p, (int64_t)p->serial, true);
}

static void ev_gate(struct world *w, const struct event *e)
{
	for (int k = 0; k < PODS; k++) {
		struct pod *p = &w->pods[(e->a + (uint64_t)k) % PODS];

		if (!p->live || !p->gated)
			continue;
		p->gated = false;
		world_tell_pod(w, p);
		return;
	}
}

/* I8: a tenant writes a claim of its own, for another's pod, on a card it would like. The API keeps tenants from
 * writing allocations; that it has no cards must be enough to be of no account. */
static void ev_forge(struct world *w, const struct event *e)
{
	struct pod *p = &w->pods[e->a % PODS];
	struct rf_sched_claim v = { .ns = rf_str(space_name((int)(e->b % 6))),
				    .name = RF_LIT("forged"),
				    .pod_uid = rf_str(p->uid),
				    .tenant = rf_str(tenant_names[e->c % TENANTS]),
				    .rv = ++w->serial };

	if (!p->live || p->space == (int)(e->b % 6))
		return;
	SAY(w, "a forged claim in %.*s for %s", RF_STR(v.ns), p->uid);
	if (e->c / 8 % 2 == 0)
		BOTH(w, rf_core_put_claim, &v);
	BOTH(w, rf_core_del_claim, v.ns, v.name, w->now);
}

/* Mostly of those that have waited longest, or there would soon be no others. */
static void ev_delete(struct world *w, const struct event *e)
{
	struct pod *oldest = NULL;

	for (int i = 0; i < PODS && e->b % 4 != 0; i++) {
		struct pod *p = &w->pods[i];

		if (p->live && p->node == NOBODY && (oldest == NULL || p->serial < oldest->serial))
			oldest = p;
	}
	delete_pod(w, oldest != NULL ? oldest : &w->pods[e->a % PODS]);
}

static bool ev_write(struct world *w, const struct event *e)
{
	bool fails = !w->no_fail && e->a % 16 == 0;

	return world_write(w, fails) && (e->b % 4 != 0 || world_write(w, false)) && (e->b % 4 != 0 || world_write(w, false));
}

static bool apply(struct world *w, const struct event *e)
{
	struct pod *p = &w->pods[e->a % PODS];
	struct node *n = &w->nodes[e->a % NODES];

	w->disturbed |= e->op != OP_DECIDE && e->op != OP_WRITE && e->op != OP_TIME && e->op != OP_SCRUB && e->op != OP_DELIVER;
	switch (e->op) {
	case OP_POD:
		ev_pod(w, e);
		return true;
	case OP_GROUP:
		(void)ev_group(w, e);
		return true;
	case OP_GANG:
		ev_gang(w, e);
		return true;
	case OP_DECIDE:
		return world_decide(w, e->a % 3 == 0 ? 1 + e->b % 4 : 64);
	case OP_WRITE:
		return ev_write(w, e);
	case OP_DELIVER:
		world_deliver(w);
		return true;
	case OP_SCRUB:
		for (uint64_t k = 0; k < PODS; k++)
			if (world_scrub(w, &w->pods[(e->a + k) % PODS]))
				return true;
		return true;
	case OP_TIME:
		if (e->b % 2 == 0)
			world_late_binds(w);
		world_time(w, (int64_t)(e->a % 8 == 0 ? e->b % 20000 : e->b % 900));
		return true;
	case OP_END:
		world_end_pod(w, p);
		return true;
	case OP_DELETE:
		ev_delete(w, e);
		return true;
	case OP_CORDON:
		n->cordoned = !n->cordoned;
		break;
	case OP_READY:
		n->ready = !n->ready;
		break;
	case OP_NODE:
		ev_node(w, e);
		return true;
	case OP_LABEL:
		ev_label(w, e);
		return true;
	case OP_CARD:
		ev_card(w, e);
		return true;
	case OP_TENANT:
		ev_tenant(w, e);
		return true;
	case OP_QUOTA:
		ev_quota(w, e);
		return true;
	case OP_QUEUE:
		ev_queue(w, e);
		return true;
	case OP_LOOP:
		ev_loop(w, e);
		return true;
	case OP_UNGROUP:
		ev_ungroup(w, e);
		return true;
	case OP_BUDGET:
		ev_budget(w, e);
		return true;
	case OP_STALE:
		ev_stale(w, e);
		return true;
	case OP_GATE:
		ev_gate(w, e);
		return true;
	case OP_CRASH:
		return world_crash(w, e->b);
	case OP_FORGE:
		ev_forge(w, e);
		return true;
	case OP_CALM:
		return world_calm(w);
	case OPS:
		break;
	}
	if (n->exists)
		world_tell_node(w, (int)(e->a % NODES));
	return true;
}

/* At what settles nothing: the twin is not looked at, and is to decide the same. */
static void look_at_books(struct world *w)
{
	struct rf_queues *qs = rf_core_queues(w->core);
	rf_auto(buf) ledger = RF_BUF_INIT;

	rf_core_export(w->core, w->now, &ledger);
	for (int q = 0; q < QUEUES; q++) {
		struct rf_queue *at = rf_queues_find(qs, rf_str(queue_names[q]));
		struct rf_queue_view v;

		if (at == NULL)
			continue;
		rf_queue_view(qs, at, 0, w->now, &v);
		(void)rf_queue_usage(qs, at, w->now);
	}
}

bool world_event(struct world *w, const struct event *e)
{
	struct rf_err err = RF_ERR_INIT;

	SAY(w, "-- %s", op_names[e->op]);
	w->n.events++;
	if (!apply(w, e) || w->why[0] != 0 || !ref_conserved(w) ||
	    !ref_racks(w, e->op == OP_LABEL || e->op == OP_NODE || e->op == OP_TENANT))
		return false;
	if (w->n.events % 23 == 0) {
		CHECK(w, rf_core_audit(w->core, w->now, &err) == 0, "I4 audit: %s", err.msg);
		if (w->twin != NULL) /* looking settles what is told: both are looked at */
			(void)rf_core_audit(w->twin, w->now, &err);
		look_at_books(w);
	}
	return true;
}

struct event world_draw(struct rf_prng *rng)
{
	uint64_t sum = 0, at;
	struct event e = { 0 };

	for (int i = 0; i < OPS; i++)
		sum += odds[i];
	at = rf_prng_below(rng, sum);
	for (int i = 0; i < OPS; i++) {
		e.op = (enum op)i;
		if (at < odds[i])
			break;
		at -= odds[i];
	}
	e.a = rf_prng_next(rng) >> 1;
	e.b = rf_prng_next(rng) >> 1;
	e.c = rf_prng_next(rng) >> 1;
	return e;
}
