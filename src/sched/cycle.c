/* One cycle: pending pods in order, each placed on what the ones before it left. */
#include "sched/private.h"

struct pending {
	const struct rf_sched_pod *pod;
	const struct rf_sched_claim *claim; /* NULL: none yet */
	struct rf_party party;
};

struct cycle {
	struct rf_view view;
	struct rf_arena *a;	 /* for what is returned */
	struct rf_arena scratch; /* for one pod's attempts */
	struct pending *queue;
	size_t n;
};

static bool promised(const struct pending *p)
{
	return p->claim != NULL && p->claim->node.n > 0;
}

/* --- order ------------------------------------------------------------------------------- */

static int by_age(const void *pa, const void *pb)
{
	const struct pending *a = pa, *b = pb;

	if (promised(a) != promised(b))
		return promised(a) ? -1 : 1;
	if (a->pod->created_ms != b->pod->created_ms)
		return a->pod->created_ms < b->pod->created_ms ? -1 : 1;
	return rf_str_cmp(a->pod->uid, b->pod->uid);
}

static int by_wish(const void *pa, const void *pb)
{
	const struct pending *a = pa, *b = pb;
	int order = rf_str_cmp(a->party.tenant, b->party.tenant);

	if (promised(a) != promised(b))
		return promised(a) ? -1 : 1;
	if (order != 0)
		return order;
	if (a->pod->priority != b->pod->priority)
		return a->pod->priority > b->pod->priority ? -1 : 1;
	return by_age(pa, pb);
}

/* Age decides between tenants; a priority, which its pods' owner writes, decides only which of its
 * own pods takes the tenant's turn. Queues, fair share and gangs would order here. */
static void take_turns(struct cycle *c)
{
	struct pending *wish = rf_arena_array(c->a, struct pending, c->n + 1);
	struct rf_map next = RF_MAP_INIT; /* tenant -> its best pod not yet in line */

	qsort(c->queue, c->n, sizeof(*c->queue), by_age);
	for (size_t i = 0; i < c->n; i++)
		wish[i] = c->queue[i];
	qsort(wish, c->n, sizeof(*wish), by_wish);
	for (size_t i = c->n; i-- > 0;) {
		if (!promised(&wish[i]))
			(void)rf_map_set(&next, wish[i].party.tenant, &wish[i]);
	}
	for (size_t i = 0; i < c->n; i++) {
		struct pending *best = NULL;

		if (promised(&c->queue[i]))
			continue;
		best = rf_map_get(&next, c->queue[i].party.tenant);
		(void)rf_map_set(&next, c->queue[i].party.tenant, best + 1);
		c->queue[i] = *best;
	}
	rf_map_done(&next);
}

static void line_up(struct cycle *c)
{
	const struct rf_map *pods = &c->view.s->pods;

	c->queue = rf_arena_array(c->a, struct pending, RF_MAX(pods->n, 1));
	for (struct rf_map_slot *slot = NULL; (slot = rf_map_next(pods, slot)) != NULL;) {
		const struct rf_rec_pod *r = slot->value;

		if (r->v.node.n == 0 && !r->v.ended && !r->v.deleting)
			c->queue[c->n++] =
				(struct pending){ .pod = &r->v,
						  .claim = rf_map_get(&c->view.claim_of, r->v.uid),
						  .party = rf_party_of_namespace(c->view.s,
										 r->v.ns) };
	}
	take_turns(c);
}

static bool asks_gpu(const struct rf_sched_pod *pod)
{
	for (size_t i = 0; i < pod->n_containers; i++) {
		if (rf_gpu_ask_any(&pod->containers[i].ask))
			return true;
	}
	return false;
}

static bool asks_share(const struct rf_sched_pod *pod)
{
	for (size_t i = 0; i < pod->n_containers; i++) {
		if (pod->containers[i].ask.share_bytes > 0)
			return true;
	}
	return false;
}

/* --- reasons that no node can change ----------------------------------------------------- */

static int64_t count_devices(const struct rf_sched_pod *pod)
{
	int64_t n = 0;

	for (size_t i = 0; i < pod->n_containers; i++)
		n += pod->containers[i].ask.cards + (pod->containers[i].ask.share_bytes > 0);
	return n;
}

static struct rf_str hopeless(struct rf_arena *a, const struct pending *p,
			      const struct rf_party *party)
{
	const struct rf_sched_pod *pod = p->pod;

	if (p->claim != NULL && p->claim->deleting)
		return rf_arena_printf(
			a, "claim %.*s of an earlier attempt is still being removed; wait",
			RF_STR(p->claim->name));
	if (!party->known)
		return rf_arena_printf(
			a,
			"tenant %.*s is not known: its namespace names it, but there is "
			"no such Tenant; create it or wait",
			RF_STR(party->tenant));
	if (pod->unsupported.n > 0)
		return rf_arena_printf(a, "%.*s", RF_STR(pod->unsupported));
	if (asks_gpu(pod) && party->tenant.n == 0)
		return rf_arena_printf(
			a,
			"namespace %.*s belongs to no tenant, and GPUs are for tenants; "
			"add it to a Tenant's spec.namespaces",
			RF_STR(pod->ns));
	if (asks_share(pod) && !rf_party_shares_card(party, party))
		return rf_arena_printf(
			a,
			"tenant %.*s has isolation %s, which shares no card; ask for "
			"whole cards (" RF_RES_GPU ") or change the Tenant's isolation",
			RF_STR(party->tenant), rf_isolation_name(party->isolation));
	if (count_devices(pod) > RF_CLAIM_DEVICES_MAX)
		return rf_arena_printf(
			a,
			"asks for %lld devices, and a claim holds at most %d; split the work into "
			"several pods",
			(long long)count_devices(pod), RF_CLAIM_DEVICES_MAX);
	return RF_STR_EMPTY;
}

/* --- choosing a node --------------------------------------------------------------------- */

static bool lower(const struct rf_plan *a, const struct rf_plan *b)
{
	for (size_t i = 0; i < RF_COUNT(a->score); i++) {
		if (a->score[i] != b->score[i])
			return a->score[i] < b->score[i];
	}
	return false; /* the first by name stays */
}

static bool lives_here(const struct rf_place *p, const struct rf_party *party)
{
	for (const struct rf_guest *g = p->guests; g != NULL; g = g->next) {
		if (rf_party_same(&g->party, party))
			return true;
	}
	return false;
}

static enum rf_unfit try_place(struct cycle *c, struct rf_place *p, const struct rf_sched_pod *pod,
			       const struct rf_party *party, struct rf_plan *plan)
{
	enum rf_unfit why = rf_filter_node(p, pod, party);

	if (why != RF_FITS)
		return why;
	if (asks_gpu(pod) && p->n_cards == 0)
		return RF_UNFIT_NO_CARDS;
	return rf_place_cards(&c->scratch, p, pod, party, plan) ? RF_FITS : RF_UNFIT_CARDS;
}

/* A tenant that shares no node should not spread over many: nodes it already has come first. */
static struct rf_place *choose(struct cycle *c, const struct rf_sched_pod *pod,
			       const struct rf_party *party, struct rf_plan *ret,
			       enum rf_unfit *unfit)
{
	bool alone = party->isolation == RF_ISOLATION_NODE, best_home = false;
	struct rf_place *best = NULL;

	for (size_t i = 0; i < c->view.n; i++) {
		struct rf_place *p = &c->view.places[i];
		struct rf_plan plan = { 0 };
		bool home = alone && lives_here(p, party);

		unfit[i] = try_place(c, p, pod, party, &plan);
		if (unfit[i] != RF_FITS)
			continue;
		if (best == NULL || (home && !best_home) ||
		    (home == best_home && lower(&plan, ret))) {
			best = p;
			best_home = home;
			*ret = plan;
		}
	}
	return best;
}

/* --- decisions --------------------------------------------------------------------------- */

static bool promise_holds(const struct rf_place *p, const struct rf_sched_claim *claim)
{
	for (size_t i = 0; p != NULL && i < claim->n_grants; i++) {
		const struct rf_card *c = rf_place_card(p, claim->grants[i].device);

		if (c == NULL || c->device->fault.n > 0)
			return false;
	}
	return p != NULL;
}

static void keep_promise(struct cycle *c, const struct pending *p, const struct rf_party *party,
			 struct rf_sched_decision *d)
{
	struct rf_place *place = rf_map_get(&c->view.by_name, p->claim->node);

	d->node = p->claim->node;
	d->n_grants = p->claim->n_grants;
	d->grants = rf_arena_array(c->a, struct rf_sched_grant, RF_MAX(d->n_grants, 1));
	for (size_t i = 0; i < d->n_grants; i++)
		d->grants[i] = p->claim->grants[i];
	d->promised = true;
	if (promise_holds(place, p->claim)) {
		d->verdict = RF_SCHED_BIND;
		rf_view_add_pod(&c->view, place, p->pod, party);
		return;
	}
	d->verdict = RF_SCHED_RELEASE;
	d->reason = rf_arena_printf(c->a,
				    "claim %.*s holds a card on node %.*s that is gone or out of "
				    "service; it is released and placed anew",
				    RF_STR(p->claim->name), RF_STR(p->claim->node));
}

static void settle(struct cycle *c, struct rf_place *place, const struct rf_plan *plan,
		   const struct rf_sched_pod *pod, const struct rf_party *party,
		   struct rf_sched_decision *d)
{
	d->verdict = RF_SCHED_BIND;
	d->node = place->node->name;
	d->n_grants = plan->n;
	d->grants = rf_arena_array(c->a, struct rf_sched_grant, RF_MAX(plan->n, 1));
	for (size_t i = 0; i < plan->n; i++) {
		d->grants[i] = plan->grants[i];
		rf_view_add_grant(&c->view, place, &d->grants[i], party);
	}
	rf_view_add_pod(&c->view, place, pod, party);
}

/* Whoever carries a decision out changes the model; the decisions after it must
 * not change with it. */
static void own_strings(struct rf_arena *a, struct rf_sched_decision *d)
{
	struct rf_str *const strings[] = { &d->uid, &d->ns, &d->name, &d->tenant, &d->node };

	for (size_t i = 0; i < RF_COUNT(strings); i++)
		*strings[i] = rf_arena_str(a, *strings[i]);
	for (size_t i = 0; i < d->n_grants; i++) {
		d->grants[i].container = rf_arena_str(a, d->grants[i].container);
		d->grants[i].device = rf_arena_str(a, d->grants[i].device);
	}
}

static void decide(struct cycle *c, const struct pending *p, struct rf_sched_decision *d)
{
	const struct rf_party *party = &p->party;
	enum rf_unfit *unfit = rf_arena_array(&c->scratch, enum rf_unfit, c->view.n + 1);
	struct rf_plan plan = { 0 };
	struct rf_place *place = NULL;

	*d = (struct rf_sched_decision){ .verdict = RF_SCHED_WAIT,
					 .uid = p->pod->uid,
					 .ns = p->pod->ns,
					 .name = p->pod->name,
					 .tenant = party->tenant };
	d->reason = hopeless(c->a, p, party);
	if (d->reason.n > 0)
		return;
	if (promised(p)) {
		keep_promise(c, p, party, d);
		return;
	}
	d->reason = rf_quota_reason(c->a, &c->view, p->pod, party);
	if (d->reason.n > 0)
		return;
	place = choose(c, p->pod, party, &plan, unfit);
	if (place != NULL)
		settle(c, place, &plan, p->pod, party, d);
	else
		d->reason = rf_sched_reason(c->a, &c->view, p->pod, party, unfit);
}

void rf_sched_cycle(const struct rf_sched *s, struct rf_arena *a, struct rf_sched_decision **ret,
		    size_t *ret_n)
{
	struct cycle c = { .a = a, .scratch = RF_ARENA_INIT };
	struct rf_sched_decision *all = NULL;

	rf_view_init(&c.view, s, a);
	line_up(&c);
	all = rf_arena_array(a, struct rf_sched_decision, RF_MAX(c.n, 1));
	for (size_t i = 0; i < c.n; i++) {
		decide(&c, &c.queue[i], &all[i]);
		rf_arena_reset(&c.scratch);
	}
	for (size_t i = 0; i < c.n; i++)
		own_strings(a, &all[i]);
	rf_arena_done(&c.scratch);
	rf_view_done(&c.view);
	*ret = all;
	*ret_n = c.n;
}
