/* The world: what is there, what happens to it, how the core is told, and control's writes. */
#include "sched/test_core_world.h"


const char *const res_names[RES] = { "cards",	    "cards/h100",  "cards/a100",  "share-bytes", "share-milli", "mig/1g.10gb",
				     "mig/2g.20gb", "mig/3g.40gb", "mig/7g.80gb", "cpu",	 "memory" };
const char *const profile_names[PROFILES] = { "1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb", "1g.10gb+me" };
const char *const tenant_names[TENANTS] = { "acme", "bolt", "crux", "dune", "ekko" };
const char *const queue_names[QUEUES] = { "acme",   "bolt",   "crux",	"dune",	  "ekko",   "acme-x",
					  "bolt-x", "crux-x", "dune-x", "ekko-x", "orgone", "orgtwo" };
const char *const zones[2] = { "east", "west" };
static const char *const disks[2] = { "ssd", "hdd" };
static const char *const models[2] = { "H100", "A100" };
static const char *const racks[RACKS + 1] = { "", "r1", "r2", "r3" };
static const char *const pools[POOLS + 1] = { "", "small", "large" };
static const char *const trusts[3] = { "lab", "guild", "solo" };
const char *const op_names[OPS] = { "pod",  "group", "gang",  "decide", "write", "deliver", "scrub", "time",	 "end",
				    "delete", "cordon", "ready", "node",   "label", "card",    "tenant", "quota", "queue",
				    "loop", "ungroup", "budget", "stale", "gate",  "crash",   "forge", "calm" };

const struct shape shapes[] = {
	[S_CPU] = { "cpu", 1, { { 0 } }, 500, GI },
	[S_CARD] = { "card", 1, { { .cards = 1 } }, 500, GI },
	[S_CARD2] = { "2 cards", 1, { { .cards = 2 } }, 1000, GI },
	[S_CARD4] = { "4 cards", 1, { { .cards = 4 } }, 1000, GI },
	[S_NVLINK] = { "2 cards, NVLink", 1, { { .cards = 2 } }, 1000, GI, .island = true },
	[S_H100] = { "H100", 1, { { .cards = 1 } }, 500, GI, .h100 = true },
	[S_SHARE1] = { "share 100", 1, { { .bytes = 10 * GI, .milli = 100 } }, 100, GI },
	[S_SHARE2] = { "share 200", 1, { { .bytes = 20 * GI, .milli = 200 } }, 100, GI },
	[S_SHARE3] = { "share 700", 1, { { .bytes = 40 * GI, .milli = 700 } }, 100, GI },
	[S_TWO] = { "2 shares", 2, { { .bytes = 10 * GI, .milli = 100 }, { .bytes = 50 * GI } }, 100, GI },
	[S_MIG1] = { "1g", 1, { { .slices = 1, .profile = 0 } }, 100, GI },
	[S_MIG2] = { "2g", 1, { { .slices = 1, .profile = 1 } }, 100, GI },
	[S_MIG3] = { "3g", 1, { { .slices = 1, .profile = 2 } }, 100, GI },
	[S_MIG7] = { "7g", 1, { { .slices = 1, .profile = 3 } }, 100, GI },
	[S_MIGS] = { "2x1g+2g", 2, { { .slices = 2, .profile = 0 }, { .slices = 1, .profile = 1 } }, 100, GI },
	[S_BIGCPU] = { "big cpu", 1, { { 0 } }, 6000, 8 * GI },
	[S_ME] = { "1g+me", 1, { { .slices = 1, .profile = 4 } }, 100, GI },
	[S_MIXED] = { "card+share", 2, { { .cards = 1 }, { .bytes = 10 * GI, .milli = 100 } }, 500, GI },
};
const int n_shapes = SHAPES;

static const struct {
	const char *name;
	int tenant;
} spaces[SPACES] = { { "ns-acme", 0 }, { "ns-bolt", 1 },	{ "ns-crux", 2 },	 { "ns-dune", 3 },
		     { "ns-ekko", 4 }, { "ns-acme-too", 0 }, { "kube-system", NOBODY }, { "default", NOBODY } };

const char *space_name(int space)
{
	return spaces[space].name;
}

int space_tenant(int space)
{
	return spaces[space].tenant;
}

bool space_system(int space)
{
	return space == 6;
}

int64_t card_memory(const struct card *c)
{
	return 80 * GI - (c->model == 1); /* a byte less: what adds up to 80 GiB does not fit */
}

bool card_away(const struct world *w, const struct card *c)
{
	return w->vanish && c->broken;
}

bool broke(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->why[0] != 0)
		return false;
	va_start(ap, fmt);
	vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
	return false;
}

/* --- telling: each writes one core, so that a restart can use it, too ------------------------- */

static void tell_node(struct rf_core *c, const struct world *w, int i)
{
	const struct node *n = &w->nodes[i];
	char name[16], gen[16], device[CARDS][16];
	struct rf_sched_taint taint = { RF_LIT("dedicated"), RF_LIT("ml"), RF_LIT("NoSchedule") };
	struct rf_sched_amount rdma = { RF_LIT("rdma/hca"), n->rdma };
	struct rf_sched_device d[CARDS];
	size_t told = 0;
	struct rf_sched_pair labels[] = { { RF_LIT("zone"), rf_str(zones[n->zone]) },
					  { RF_LIT("disk"), rf_str(disks[n->disk]) },
					  { RF_LIT("kubernetes.io/hostname"), { name, 0 } },
					  { RF_LIT("gen"), { gen, 0 } },
					  { RF_LIT(RF_RACK_LABEL), rf_str(racks[n->rack]) },
					  { RF_LIT(RF_POOL_LABEL), rf_str(pools[n->pool]) } };
	struct rf_sched_node v = { .cpu_milli = n->cpu,
				   .memory = n->memory,
				   .pods = n->pods,
				   .ready = n->ready,
				   .cordoned = n->cordoned,
				   .labels = labels,
				   .n_labels = RF_COUNT(labels),
				   .taints = &taint,
				   .n_taints = n->tainted,
				   .more = &rdma,
				   .n_more = n->rdma > 0 };

	snprintf(name, sizeof(name), "node-%d", i);
	snprintf(gen, sizeof(gen), "%d", (int)n->gen);
	v.name = labels[2].value = rf_str(name);
	labels[3].value = rf_str(gen);
	for (int k = 0; k < n->n_cards; k++) {
		snprintf(device[k], sizeof(device[k]), "gpu-%d", k);
		if (card_away(w, &n->cards[k]))
			continue;
		d[told++] = (struct rf_sched_device){ .name = rf_str(device[k]),
						 .model = rf_str(models[n->cards[k].model]),
						 .fault = rf_str(n->cards[k].broken ? "Xid 79" : ""),
						 .memory = card_memory(&n->cards[k]),
						 .milli = 1000,
						 .island = n->cards[k].hidden ? RF_SCHED_ISLAND_UNKNOWN(k) : (uint8_t)n->cards[k].island,
						 .numa = n->cards[k].hidden ? RF_SCHED_NUMA_UNKNOWN : (uint8_t)n->cards[k].numa,
						 .sliced = n->cards[k].sliced,
						 .fixed = n->cards[k].fixed };
	}
	rf_core_put_node(c, &v);
	rf_core_put_devices(c, v.name, d, told);
}

static void tell_tenant(struct rf_core *c, const struct world *w, int i)
{
	const struct tenant *t = &w->tenants[i];
	struct rf_tenant v = { .name = rf_str(tenant_names[i]),
			       .isolation = t->isolation,
			       .trust_domain = rf_str(trusts[t->trust]),
			       .quota_gpus = t->cards,
			       .quota_gpu_memory = t->bytes,
			       .quota_pods = -1,
			       .queue_weight = t->weight };

	if (t->exists)
		rf_core_put_tenant(c, &v);
	else
		rf_core_del_tenant(c, v.name);
}

static void tell_pool(struct rf_core *c, const struct world *w, int i)
{
	struct rf_sched_pool v = { .name = rf_str(pools[i + 1]), .placement = (enum rf_sched_placement)(w->pools[i] - 1) };

	if (w->pools[i] > 0)
		rf_core_put_pool(c, &v);
	else
		rf_core_del_pool(c, v.name);
}

static int tell_queue(struct rf_core *c, const struct world *w, int i, struct rf_err *err)
{
	const struct queue *q = &w->queues[i];
	struct rf_sched_quota quotas[RES];
	struct rf_sched_queue v = { .name = rf_str(queue_names[i]),
				    .parent = rf_str(q->parent != NOBODY ? queue_names[q->parent] : ""),
				    .tenant = rf_str(i < LEAVES ? tenant_names[i % TENANTS] : ""),
				    .weight = q->weight,
				    .quotas = quotas };

	for (int r = 0; r < RES; r++)
		if (q->quotas[r].given)
			quotas[v.n_quotas++] = (struct rf_sched_quota){ rf_str(res_names[r]), q->quotas[r].guaranteed,
									q->quotas[r].limit, q->quotas[r].lending,
									q->quotas[r].borrowing };
	if (q->exists)
		return rf_core_put_queue(c, &v, w->now, err);
	rf_core_del_queue(c, v.name, w->now);
	return 0;
}

static void tell_group(struct rf_core *c, const struct world *w, int i)
{
	const struct group *g = &w->groups[i];
	struct rf_sched_group v = { .ns = rf_str(space_name(g->space)),
				    .name = rf_str(g->name),
				    .rv = g->rv,
				    .min = g->min,
				    .created_ms = g->created,
				    .queue = rf_str(g->queue != NOBODY ? queue_names[g->queue] : ""),
				    .topology = rf_str(g->zoned ? "zone" : ""),
				    .pinned = g->pinned,
				    .min_run_ms = g->min_run,
				    .run_limit_ms = g->run_limit,
				    .started = g->started,
				    .ending_ms = g->ending };

	if (g->exists)
		rf_core_put_group(c, &v);
	else
		rf_core_del_group(c, v.ns, v.name);
}

/* What a pod's wish looks like; the strings are constants. */
struct wish_parts {
	struct rf_sched_pair selector[1], labels[2];
	struct rf_sched_toleration toleration[1];
	struct rf_sched_amount more[1];
	struct rf_str values[2];
	struct rf_sched_match match[3], app[1];
	struct rf_sched_term terms[2];
	struct rf_sched_near near[1];
	struct rf_sched_spread spread[1];
	char only[16], shape[24];
};

static void wish_labels(const struct pod *p, struct wish_parts *x, struct rf_sched_pod *v)
{
	snprintf(x->shape, sizeof(x->shape), "b%d", p->budget);
	x->labels[v->n_labels++] = (struct rf_sched_pair){ RF_LIT("budget"), rf_str(x->shape) };
	if (p->wish == WISH_APART || p->wish == WISH_NEAR || p->wish == WISH_SPREAD || p->wish == WISH_LABELED)
		x->labels[v->n_labels++] = (struct rf_sched_pair){ RF_LIT("app"), RF_LIT("web") };
	v->labels = x->labels;
	x->values[0] = RF_LIT("web");
	x->app[0] = (struct rf_sched_match){ RF_LIT("app"), RF_SCHED_IN, x->values, 1 };
}

static void wish_nodes(const struct pod *p, struct wish_parts *x, struct rf_sched_pod *v)
{
	x->values[1] = rf_str(zones[0]);
	if (p->wish == WISH_ZONE) {
		x->selector[0] = (struct rf_sched_pair){ RF_LIT("zone"), rf_str(zones[0]) };
		v->selector = x->selector;
		v->n_selector = 1;
	} else if (p->wish == WISH_AFFINE) { /* west, or an ssd */
		x->values[0] = rf_str(zones[1]);
		x->values[1] = rf_str(disks[0]);
		x->match[0] = (struct rf_sched_match){ RF_LIT("zone"), RF_SCHED_IN, &x->values[0], 1 };
		x->match[1] = (struct rf_sched_match){ RF_LIT("disk"), RF_SCHED_IN, &x->values[1], 1 };
		x->terms[0] = (struct rf_sched_term){ &x->match[0], 1, 0 };
		x->terms[1] = (struct rf_sched_term){ &x->match[1], 1, 0 };
		v->n_node_terms = 2;
	} else if (p->wish == WISH_NOT_ZONE) {
		x->match[0] = (struct rf_sched_match){ RF_LIT("zone"), RF_SCHED_NOT_IN, &x->values[1], 1 };
		x->match[1] = (struct rf_sched_match){ RF_LIT("moon"), RF_SCHED_ABSENT, NULL, 0 };
		x->match[2] = (struct rf_sched_match){ RF_LIT("disk"), RF_SCHED_EXISTS, NULL, 0 };
		x->terms[0] = (struct rf_sched_term){ x->match, 3, 0 };
		v->n_node_terms = 1;
	} else if (p->wish == WISH_GEN) {
		x->values[0] = RF_LIT("1");
		x->match[0] = (struct rf_sched_match){ RF_LIT("gen"), RF_SCHED_GT, x->values, 1 };
		x->terms[0] = (struct rf_sched_term){ x->match, 1, 0 };
		v->n_node_terms = 1;
	}
	v->node_terms = v->n_node_terms > 0 ? x->terms : NULL;
}

static void wish_pods(const struct pod *p, struct wish_parts *x, struct rf_sched_pod *v)
{
	struct rf_sched_term web = { x->app, 1, 0 };

	if (p->wish == WISH_APART || p->wish == WISH_NEAR) {
		x->near[0] = (struct rf_sched_near){ .apart = p->wish == WISH_APART,
						     .topology = p->wish == WISH_APART ? RF_LIT("kubernetes.io/hostname") :
											 RF_LIT("zone"),
						     .labels = web };
		v->nears = x->near;
		v->n_nears = 1;
	} else if (p->wish == WISH_SPREAD) {
		x->spread[0] = (struct rf_sched_spread){ RF_LIT("zone"), 1, 0, web };
		v->spreads = x->spread;
		v->n_spreads = 1;
	}
}

static void make_wish(const struct pod *p, struct wish_parts *x, struct rf_sched_pod *v)
{
	wish_labels(p, x, v);
	wish_nodes(p, x, v);
	wish_pods(p, x, v);
	if (p->wish == WISH_TOLERATE) {
		x->toleration[0] = (struct rf_sched_toleration){ RF_LIT("dedicated"), RF_LIT("ml"), RF_STR_EMPTY, false };
		v->tolerations = x->toleration;
		v->n_tolerations = 1;
	} else if (p->wish == WISH_RDMA) {
		x->more[0] = (struct rf_sched_amount){ RF_LIT("rdma/hca"), 1 };
		v->more = x->more;
		v->n_more = 1;
	} else if (p->wish == WISH_ONLY) {
		snprintf(x->only, sizeof(x->only), "node-%d", (int)(p->serial % NODES));
		v->only_node = rf_str(x->only);
	} else if (p->wish == WISH_UNSUPPORTED) {
		v->unsupported = RF_LIT("a volume");
	}
}

void world_put_pod(struct rf_core *c, const struct world *w, const struct pod *p, int64_t rv, bool fresh)
{
	static const char *const names[] = { "c0", "c1" };
	const struct shape *s = &shapes[p->shape];
	struct rf_sched_container containers[2];
	struct wish_parts x = { 0 };
	char node[16];
	struct rf_sched_pod v = { .uid = rf_str(p->uid),
				  .ns = rf_str(space_name(p->space)),
				  .name = rf_str(p->name),
				  .rv = rv,
				  .ended = p->ended && !fresh,
				  .well = ref_ended_well(p) && !fresh,
				  .deleting = p->deleting && !fresh,
				  .priority = p->priority,
				  .created_ms = p->created,
				  .cpu_milli = s->cpu,
				  .memory = s->memory,
				  .containers = containers,
				  .n_containers = (size_t)s->n,
				  .queue = rf_str(p->queue != NOBODY ? queue_names[p->queue] : ""),
				  .group = rf_str(p->group != NOBODY ? w->groups[p->group].name : ""),
				  .models = rf_str(s->h100 ? "H100" : ""),
				  .one_island = s->island,
				  .pinned = p->pinned,
				  .patient = p->patient,
				  .gated = p->gated,
				  .min_run_ms = p->min_run,
				  .run_limit_ms = p->run_limit,
				  .started_ms = p->node != NOBODY && !fresh ? p->started : 0,
				  .grace_ms = p->grace };

	snprintf(node, sizeof(node), "node-%d", p->node);
	v.node = rf_str(p->node != NOBODY && !fresh ? node : "");
	make_wish(p, &x, &v);
	for (int i = 0; i < s->n; i++) {
		struct rf_gpu_ask ask = { .cards = s->c[i].cards,
					  .name = s->c[i].cards > 0 ? RF_RES_GPU : NULL,
					  .share_bytes = s->c[i].bytes,
					  .share_milli = s->c[i].milli,
					  .slices = s->c[i].slices };

		ask.profile = rf_str(s->c[i].slices > 0 ? profile_names[s->c[i].profile] : "");
		containers[i] = (struct rf_sched_container){ rf_str(names[i]), ask };
	}
	rf_core_put_pod(c, &v, w->now);
}

static void tell_claim(struct rf_core *c, const struct world *w, const struct pod *p)
{
	static const char *const names[] = { "c0", "c1" };
	struct rf_sched_grant g[GRANTS];
	char device[GRANTS][16], node[16];
	int tenant = space_tenant(p->space);
	struct rf_sched_claim v = { .ns = rf_str(space_name(p->space)),
				    .name = rf_str(p->name),
				    .pod_uid = rf_str(p->uid),
				    .tenant = rf_str(tenant != NOBODY ? tenant_names[tenant] : ""),
				    .rv = p->claim_rv,
				    .deleting = p->claim_deleting,
				    .grants = g,
				    .n_grants = p->allocated ? (size_t)p->place.n : 0 };

	snprintf(node, sizeof(node), "node-%d", p->place.node);
	v.node = rf_str(p->allocated ? node : "");
	for (int i = 0; i < (int)v.n_grants; i++) {
		const struct held *h = &p->place.held[i];

		snprintf(device[i], sizeof(device[i]), "gpu-%d", h->card);
		g[i] = (struct rf_sched_grant){ .container = rf_str(names[h->container]),
						.device = rf_str(device[i]),
						.bytes = h->bytes,
						.milli = h->milli,
						.whole = h->whole,
						.profile = rf_str(h->profile != NOBODY ? profile_names[h->profile] : ""),
						.start = h->start };
	}
	(void)w;
	rf_core_put_claim(c, &v);
}

void world_put_budget(struct rf_core *c, const struct world *w, int i)
{
	char value[8];
	struct rf_str values[1];
	struct rf_sched_match match = { RF_LIT("budget"), RF_SCHED_IN, values, 1 };
	struct rf_sched_budget v = { .ns = rf_str(space_name(i)),
				     .name = RF_LIT("budget"),
				     .labels = { &match, 1, 0 },
				     .allowed = w->budgets[i] };

	snprintf(value, sizeof(value), "b1");
	values[0] = rf_str(value);
	if (w->budgets[i] >= 0)
		rf_core_put_budget(c, &v);
	else
		rf_core_del_budget(c, v.ns, v.name);
}

/* --- telling both cores ----------------------------------------------------------------------- */

void world_tell_node(struct world *w, int i)
{
	struct node *n = &w->nodes[i];
	char name[16];

	SAY(w, "node-%d: %s%s%s%s rack %d pool %d zone %s gen %d, cards:%s%s%s%s", i, n->exists ? "" : "gone ", n->ready ? "" : "not ready ",
	    n->cordoned ? "cordoned " : "", n->tainted ? "tainted " : "", n->rack, n->pool, zones[n->zone], (int)n->gen,
	    n->n_cards > 0 && n->cards[0].broken ? " 0 broken" : "", n->n_cards > 1 && n->cards[1].broken ? " 1 broken" : "",
	    n->n_cards > 2 && n->cards[2].broken ? " 2 broken" : "", n->n_cards > 3 && n->cards[3].broken ? " 3 broken" : "");
	snprintf(name, sizeof(name), "node-%d", i);
	for (int k = 0; k < n->n_cards && n->exists; k++)
		n->cards[k].forgotten = card_away(w, &n->cards[k]) && (n->cards[k].forgotten || n->forgotten);
	n->forgotten = n->forgotten && !n->exists;
	if (n->exists)
		BOTH(w, tell_node, w, i);
	else
		BOTH(w, rf_core_del_node, rf_str(name));
}

void world_tell_tenant(struct world *w, int i)
{
	struct tenant *t = &w->tenants[i];

	SAY(w, "tenant %s: %s isolation %s trust %s quota %d cards %d GiB weight %d", tenant_names[i], t->exists ? "" : "gone",
	    rf_isolation_name(t->isolation), trusts[t->trust], (int)t->cards, (int)(t->bytes / GI), (int)t->weight);
	BOTH(w, tell_tenant, w, i);
}

void world_tell_pool(struct world *w, int i)
{
	SAY(w, "pool %s: placement %d", pools[i + 1], w->pools[i] - 1);
	BOTH(w, tell_pool, w, i);
}

void world_tell_queue(struct world *w, int i)
{
	struct rf_err err = RF_ERR_INIT;
	const struct queue *q = &w->queues[i];

	SAY(w, "queue %s: %s parent %s weight %d", queue_names[i], q->exists ? "" : "gone",
	    q->parent != NOBODY ? queue_names[q->parent] : "-", (int)q->weight);
	for (int r = 0; r < RES && w->loud; r++)
		if (q->quotas[r].given)
			SAY(w, "    %s: guaranteed %" PRId64 " limit %" PRId64 " lending %" PRId64 " borrowing %" PRId64, res_names[r],
			    q->quotas[r].guaranteed, q->quotas[r].limit, q->quotas[r].lending, q->quotas[r].borrowing);
	if (tell_queue(w->core, w, i, &err) < 0)
		broke(w, "queue %s was refused: %s", queue_names[i], err.msg);
	if (w->twin != NULL)
		tell_queue(w->twin, w, i, &err);
}

void world_tell_group(struct world *w, int i)
{
	struct group *g = &w->groups[i];

	g->rv++;
	SAY(w, "group %s/%s: %s min %d%s%s%s%s queue %s minrun %d", space_name(g->space), g->name, g->exists ? "" : "gone", (int)g->min,
	    g->zoned ? " one zone" : "", g->pinned ? " pinned" : "", g->started ? " started" : "", g->ending > 0 ? " ending" : "",
	    g->queue != NOBODY ? queue_names[g->queue] : "-", (int)g->min_run);
	BOTH(w, tell_group, w, i);
}

void world_tell_pod(struct world *w, struct pod *p)
{
	bool runs = p->live && p->node != NOBODY && !p->ended && !p->deleting;

	if (p->told_runs && !runs && !p->evicted && p->group != NOBODY)
		w->groups[p->group].lost++;
	p->told_runs = runs;
	p->dirty = false;
	if (p->live) {
		p->rv = ++w->serial;
		p->known = true;
		SAY(w, "put %s (%s/%s, %s, wish %d%s%s%s%s) node %d%s%s prio %d queue %s group %s created %d started %d minrun %d limit %d",
		    p->uid, space_name(p->space), p->name, shapes[p->shape].name, p->wish, p->pinned ? ", pinned" : "",
		    p->gated ? ", gated" : "", p->budget == 1 ? ", budget" : "", p->patient ? ", patient" : "", p->node, p->ended ? " ended" : "",
		    p->deleting ? " deleting" : "", (int)p->priority, p->queue != NOBODY ? queue_names[p->queue] : "-",
		    p->group != NOBODY ? w->groups[p->group].name : "-", (int)p->created, (int)p->started, (int)p->min_run, (int)p->run_limit);
		BOTH(w, world_put_pod, w, p, p->rv, false);
	} else if (p->known) {
		p->known = false;
		SAY(w, "del %s", p->uid);
		BOTH(w, rf_core_del_pod, rf_str(p->uid), w->now);
	}
}

void world_tell_claim(struct world *w, struct pod *p)
{
	p->claim_dirty = false;
	if (p->claimed) {
		p->claim_rv = ++w->serial;
		p->claim_known = true;
		SAY(w, "claim of %s: %s%s node %d", p->uid, p->allocated ? "allocated" : "empty", p->claim_deleting ? " deleting" : "",
		    p->allocated ? p->place.node : NOBODY);
		BOTH(w, tell_claim, w, p);
	} else if (p->claim_known) {
		p->claim_known = false;
		SAY(w, "claim of %s is gone", p->uid);
		BOTH(w, rf_core_del_claim, rf_str(space_name(p->space)), rf_str(p->name), w->now);
	}
}

void world_changed(struct world *w, struct pod *p, bool claim)
{
	p->dirty |= !claim;
	p->claim_dirty |= claim;
	if (w->lazy)
		return;
	if (p->dirty)
		world_tell_pod(w, p);
	if (p->claim_dirty)
		world_tell_claim(w, p);
}

void world_deliver(struct world *w)
{
	world_write_groups(w);
	for (int i = 0; i < PODS; i++) {
		if (w->pods[i].dirty)
			world_tell_pod(w, &w->pods[i]);
		if (w->pods[i].claim_dirty)
			world_tell_claim(w, &w->pods[i]);
	}
}

/* --- a restart -------------------------------------------------------------------------------- */

static void tell_space(struct rf_core *c, int i)
{
	int t = space_tenant(i);

	rf_core_put_namespace(c, rf_str(space_name(i)), rf_str(t != NOBODY ? tenant_names[t] : ""));
}

struct fact {
	int kind, i;
};
enum { F_NODE, F_TENANT, F_SPACE, F_QUEUE, F_GROUP, F_POD, F_CLAIM, F_BUDGET, F_POOL };

static void tell_fact(struct rf_core *c, const struct world *w, const struct fact *f)
{
	struct rf_err err = RF_ERR_INIT;

	switch (f->kind) {
	case F_NODE:
		tell_node(c, w, f->i);
		break;
	case F_TENANT:
		tell_tenant(c, w, f->i);
		break;
	case F_SPACE:
		tell_space(c, f->i);
		break;
	case F_QUEUE: /* out of order it is refused at first and holds later */
		(void)tell_queue(c, w, f->i, &err);
		break;
	case F_GROUP:
		tell_group(c, w, f->i);
		break;
	case F_POD:
		world_put_pod(c, w, &w->pods[f->i], w->pods[f->i].rv, false);
		break;
	case F_CLAIM:
		tell_claim(c, w, &w->pods[f->i]);
		break;
	case F_BUDGET:
		world_put_budget(c, w, f->i);
		break;
	case F_POOL:
		tell_pool(c, w, f->i);
		break;
	}
}

static size_t all_facts(const struct world *w, struct fact *f)
{
	size_t n = 0;

	for (int i = 0; i < NODES; i++)
		if (w->nodes[i].exists)
			f[n++] = (struct fact){ F_NODE, i };
	for (int i = 0; i < TENANTS; i++)
		if (w->tenants[i].exists)
			f[n++] = (struct fact){ F_TENANT, i };
	for (int i = 0; i < SPACES; i++)
		f[n++] = (struct fact){ F_SPACE, i };
	for (int i = QUEUES - 1; i >= 0; i--)
		if (w->queues[i].exists)
			f[n++] = (struct fact){ F_QUEUE, i };
	for (int i = 0; i < GROUPS; i++)
		if (w->groups[i].exists)
			f[n++] = (struct fact){ F_GROUP, i };
	for (int i = 0; i < POOLS; i++)
		if (w->pools[i] > 0)
			f[n++] = (struct fact){ F_POOL, i };
	for (int i = 0; i < BUDGETS; i++)
		if (w->budgets[i] >= 0)
			f[n++] = (struct fact){ F_BUDGET, i };
	for (int i = 0; i < PODS; i++) {
		if (w->pods[i].live)
			f[n++] = (struct fact){ F_POD, i };
		if (w->pods[i].claimed)
			f[n++] = (struct fact){ F_CLAIM, i };
	}
	return n;
}

struct rf_core *world_retell(const struct world *w, uint64_t seed)
{
	struct rf_core *c = rf_core_new(&w->config);
	struct rf_prng rng = { seed | 1 };
	struct fact f[NODES + TENANTS + SPACES + QUEUES + GROUPS + BUDGETS + POOLS + 2 * PODS];
	size_t n = all_facts(w, f);

	for (size_t i = n; seed != 0 && i > 1; i--) {
		size_t k = rf_prng_below(&rng, i);
		struct fact t = f[i - 1];

		f[i - 1] = f[k];
		f[k] = t;
	}
	for (size_t i = 0; i < n; i++)
		tell_fact(c, w, &f[i]);
	return c;
}

static void forget_flights(struct world *w)
{
	w->n_writes = 0;
	for (int i = 0; i < PODS; i++)
		w->pods[i].flying = false;
}

/* Is it there, or came when the others had been told to go and ended by itself? With that it was a gang again. */
static bool makes_gang(const struct group *g, const struct pod *p)
{
	if (!p->live || p->node == NOBODY || p->deleting)
		return false;
	return !p->ended || p->started > g->ending;
}

/* That the others were told to go is known where it was written: who is left is owed the same. */
static void tear_again(struct world *w, int group)
{
	struct group *g = &w->groups[group];
	int64_t n = 0;

	g->torn = g->lost = 0;
	g->torn_at = g->ending;
	for (int i = 0; i < PODS; i++)
		n += w->pods[i].group == group && makes_gang(g, &w->pods[i]);
	if (!g->exists || g->ending == 0 || n >= g->min)
		return;
	g->torn = 1;
	for (int i = 0; i < PODS; i++) {
		struct pod *p = &w->pods[i];

		p->refused = p->group == group && p->live && p->node != NOBODY && !p->late && p->started <= g->ending &&
			     !ref_is_late(w, p, g->ending);
	}
}

bool world_crash(struct world *w, uint64_t seed)
{
	SAY(w, "-- crash, facts told again in order %" PRIu64, seed);
	w->n.crashes++;
	w->disturbed = true;
	forget_flights(w);
	/* Of a node or a tenant that is not there nobody knows any more which rack it was in, or that it shared none. */
	for (int i = 0; i < NODES; i++) {
		w->nodes[i].rack = w->nodes[i].exists ? w->nodes[i].rack : 0;
		w->nodes[i].forgotten = !w->nodes[i].exists;
		for (int k = 0; k < w->nodes[i].n_cards; k++)
			w->nodes[i].cards[k].forgotten = card_away(w, &w->nodes[i].cards[k]);
	}
	for (int i = 0; i < TENANTS; i++)
		w->tenants[i].isolation = w->tenants[i].exists ? w->tenants[i].isolation : RF_ISOLATION_NODE;
	for (int i = 0; i < PODS; i++) {
		struct pod *p = &w->pods[i];

		if (p->live)
			p->rv = ++w->serial;
		if (p->claimed)
			p->claim_rv = ++w->serial;
		p->known = p->live;
		p->claim_known = p->claimed;
		p->dirty = p->claim_dirty = p->evicted = p->refused = false;
		p->fails = 0;
	}
	for (int i = 0; i < GROUPS; i++)
		tear_again(w, i);
	rf_core_free(w->core);
	w->core = world_retell(w, seed);
	if (w->twin != NULL) { /* in another order: it is to decide the same nevertheless */
		rf_core_free(w->twin);
		w->twin = world_retell(w, seed * UINT64_C(6364136223846793005) + 1442695040888963407u);
	}
	world_see_gangs(w);
	return true;
}

/* --- beginning and end ------------------------------------------------------------------------ */

static void make_nodes(struct world *w)
{
	for (int i = 0; i < NODES; i++) {
		struct node *n = &w->nodes[i];

		*n = (struct node){ .exists = i < 4,
				    .ready = true,
				    .zone = i % 2,
				    .disk = i / 2 % 2,
				    .rack = w->racks && i != 3 ? 1 + i % RACKS : 0,
				    .pool = w->racks ? i % (POOLS + 1) : 0,
				    .cpu = w->scarce ? 2500 : 16000,
				    .memory = (w->scarce ? 6 : 64) * GI,
				    .pods = 12,
				    .rdma = i % 3 == 0 ? 2 : 0,
				    .gen = i % 4,
				    .n_cards = i == 3 ? 2 : CARDS };
		for (int k = 0; k < n->n_cards; k++)
			n->cards[k] = (struct card){ .model = w->mixed && i % 2 == 1 ? k % 2 : i % 3 == 2,
						     .island = k / 2,
						     .numa = w->grouped ? k % 2 : k / 2,
						     .sliced = rf_prng_below(&w->rng, 12) == 0 };
		for (int k = 0; k < n->n_cards; k++)
			n->cards[k].fixed = !n->cards[k].sliced && rf_prng_below(&w->rng, 6) == 0;
		if (n->exists)
			world_tell_node(w, i);
	}
}

static void make_queues(struct world *w)
{
	for (int i = QUEUES - 1; i >= 0; i--) {
		struct queue *q = &w->queues[i];

		q->parent = i >= LEAVES || rf_prng_below(&w->rng, 3) == 0 ? NOBODY : LEAVES + i % TENANTS % ORGS;
		q->exists = i >= TENANTS || rf_prng_below(&w->rng, 3) > 0;
		q->weight = 1 + (int64_t)rf_prng_below(&w->rng, 4);
		for (int r = 0; r < RES; r++)
			if (rf_prng_below(&w->rng, i >= LEAVES ? 8 : 4) == 0)
				world_draw_quota(&q->quotas[r], r, rf_prng_next(&w->rng) >> 1);
		if (i < TENANTS) { /* most may have something */
			q->quotas[R_CARDS] = (struct quota){ true, 2, 8, -1, -1 };
			q->quotas[R_BYTES] = (struct quota){ true, 40 * GI, -1, -1, -1 };
		}
		if (q->exists)
			world_tell_queue(w, i);
	}
}

void world_bare(struct world *w, const struct rf_core_config *config)
{
	world_done(w); /* a test that failed left it */
	*w = (struct world){ .rng = { 1 }, .now = 1000000, .arena = RF_ARENA_INIT, .twin_arena = RF_ARENA_INIT, .no_fail = true };
	w->config = *config;
	w->core = rf_core_new(&w->config);
	for (int i = 0; i < BUDGETS; i++)
		w->budgets[i] = -1;
	for (int i = 0; i < PODS; i++)
		w->pods[i].node = w->pods[i].group = w->pods[i].queue = NOBODY;
	for (int i = 0; i < QUEUES; i++)
		w->queues[i] = (struct queue){ .parent = NOBODY, .weight = 1 };
	for (int i = 0; i < SPACES; i++)
		tell_space(w->core, i);
	for (int i = 0; i < TENANTS; i++) {
		w->tenants[i] = (struct tenant){ true, RF_ISOLATION_SHARE, 0, 100, 1000 * GI, 1 };
		world_tell_tenant(w, i);
	}
}

void world_add_node(struct world *w, int i, int n_cards)
{
	w->nodes[i] = (struct node){ .exists = true,
				     .ready = true,
				     .zone = i % 2,
				     .cpu = 64000,
				     .memory = 512 * GI,
				     .pods = 50,
				     .n_cards = n_cards };
	for (int k = 0; k < n_cards; k++)
		w->nodes[i].cards[k] = (struct card){ .island = k / 2, .numa = k / 2 };
	world_tell_node(w, i);
}

void world_start(struct world *w, uint64_t seed, bool loud)
{
	*w = (struct world){
		.rng = { seed * 2654435761u | 1 }, .now = 1000000, .arena = RF_ARENA_INIT, .twin_arena = RF_ARENA_INIT, .loud = loud
	};
	for (int i = 0; i < 4; i++)
		(void)rf_prng_next(&w->rng);
	rf_core_config_default(&w->config);
	w->config.policy = (enum rf_fleet_policy)rf_prng_below(&w->rng, 4);
	w->config.reclaim = rf_prng_below(&w->rng, 2) ? RF_RECLAIM_FAIR : RF_RECLAIM_GUARANTEE;
	w->racks = seed % 5 < 2;
	w->grouped = seed % 8 == 4;
	w->late_binds = seed % 8 == 7;
	w->patience = seed % 8 == 3;
	w->scarce = seed >= SCARCE_SEEDS && seed < MIXED_SEEDS;
	w->mixed = seed >= MIXED_SEEDS && seed < VANISH_SEEDS;
	w->vanish = seed >= VANISH_SEEDS && !w->grouped;
	w->lazy = rf_prng_below(&w->rng, 2) != 0;
	w->remake = rf_prng_below(&w->rng, 2) != 0;
	w->core = rf_core_new(&w->config);
	/* of a card that is away a restart knows what claims say, in the order in which they are told */
	w->twin = seed % 8 == 0 && !w->vanish ? rf_core_new(&w->config) : NULL;
	for (int i = 0; i < BUDGETS; i++)
		w->budgets[i] = -1;
	for (int i = 0; i < PODS; i++)
		w->pods[i].node = w->pods[i].group = w->pods[i].queue = NOBODY;
	for (int i = 0; i < SPACES; i++)
		BOTH(w, tell_space, i);
	for (int i = 0; i < TENANTS; i++) {
		uint64_t b = rf_prng_next(&w->rng) >> 1, c = rf_prng_next(&w->rng) >> 1;

		w->tenants[i].exists = true;
		world_draw_tenant(w, &w->tenants[i], b, c);
		world_tell_tenant(w, i);
	}
	for (int i = 0; i < POOLS && w->racks; i++) {
		w->pools[i] = (int)(seed / 5 % 4 + (uint64_t)i) % 4;
		world_tell_pool(w, i);
	}
	make_queues(w);
	make_nodes(w);
}

void world_done(struct world *w)
{
	rf_core_free(w->core);
	rf_core_free(w->twin);
	rf_arena_done(&w->arena);
	rf_arena_done(&w->twin_arena);
	w->core = w->twin = NULL;
	w->arena = w->twin_arena = (struct rf_arena)RF_ARENA_INIT;
}
