/* Why a pod waits, or goes: each reason is true, with what is needed and what there is, and names nobody else. */
#include "sched/test_core_story.h"

#define H100 "NVIDIA H100 80GB HBM3"
#define A100 "NVIDIA A100-SXM4-80GB"
#define RACK "topology.kubernetes.io/rack"

/* --- telling ---------------------------------------------------------------------------------- */

enum mode { FIXED, SLICED, FIRST_SLICED };

struct machine {
	const char *name, *model, *rack;
	size_t cards, island; /* cards of an island; 0: all are one */
	enum mode mode;
	int64_t cpu; /* 0: 64 */
	bool cordoned;
	struct rf_sched_taint *taint;
};

static void node(struct small *w, struct machine m)
{
	struct rf_sched_pair label = { RF_LIT(RACK), rf_str(m.rack != NULL ? m.rack : "") };
	struct rf_sched_node n = { .name = rf_str(m.name),
				   .cpu_milli = m.cpu > 0 ? m.cpu * 1000 : 64000,
				   .memory = 512 * GI,
				   .pods = 110,
				   .ready = true,
				   .cordoned = m.cordoned,
				   .labels = &label,
				   .n_labels = m.rack != NULL,
				   .taints = m.taint,
				   .n_taints = m.taint != NULL };
	struct rf_sched_device d[16] = { 0 };

	for (size_t i = 0; i < m.cards; i++) {
		bool sliced = m.mode == SLICED || (m.mode == FIRST_SLICED && i == 0);

		d[i] = (struct rf_sched_device){ .name = rf_arena_printf(&w->a, "gpu-%zu", i),
						 .model = rf_str(m.model != NULL ? m.model : H100),
						 .memory = 80 * GI,
						 .milli = 1000,
						 .island = (uint8_t)(m.island > 0 ? i / m.island : 0),
						 .sliced = sliced,
						 .fixed = !sliced };
	}
	rf_core_put_node(w->c, &n);
	rf_core_put_devices(w->c, n.name, d, m.cards);
}

static void tenant(struct small *w, const char *name, enum rf_isolation level)
{
	struct rf_tenant t = { .name = rf_str(name),
			       .isolation = level,
			       .trust_domain = rf_str(name),
			       .quota_gpus = 1000,
			       .quota_gpu_memory = 80000 * GI,
			       .quota_pods = -1,
			       .queue_weight = 1 };

	rf_core_put_tenant(w->c, &t);
	rf_core_put_namespace(w->c, t.name, t.name);
}

static void queue(struct small *w, const char *name, const char *parent, const char *of, const struct rf_sched_quota *quotas,
		  size_t n)
{
	struct rf_sched_queue q = { .name = rf_str(name),
				    .parent = rf_str(parent),
				    .tenant = rf_str(of),
				    .weight = 1,
				    .quotas = (struct rf_sched_quota *)quotas,
				    .n_quotas = n };
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_put_queue(w->c, &q, w->now, &err) < 0)
		fail_msg("%s", err.msg);
}

static void quota(struct small *w, const char *name, struct rf_sched_quota q)
{
	queue(w, name, "", name, &q, 1);
}

struct ask {
	const char *uid, *ns;
	int64_t cards, slices, cpu; /* cpu in thousandths, 0: 1000 */
	const char *profile, *models, *group, *queue;
	int64_t priority;
	bool nvlink, pinned;
};

static struct rf_sched_pod pod_of(struct small *w, const struct ask *k)
{
	struct rf_sched_pod p = { .uid = rf_str(k->uid),
				  .ns = rf_str(k->ns),
				  .name = rf_str(k->uid),
				  .rv = ++w->rv,
				  .created_ms = w->now,
				  .cpu_milli = k->cpu > 0 ? k->cpu : 1000,
				  .memory = GI,
				  .priority = k->priority,
				  .models = rf_str(k->models),
				  .group = rf_str(k->group),
				  .queue = rf_str(k->queue),
				  .one_island = k->nvlink,
				  .pinned = k->pinned,
				  .n_containers = 1 };

	p.containers = rf_arena_array(&w->a, struct rf_sched_container, 1);
	p.containers[0] = (struct rf_sched_container){
		.name = RF_LIT("main"), .ask = { .cards = k->cards, .slices = k->slices, .profile = rf_str(k->profile) }
	};
	return p;
}

static void waits(struct small *w, struct ask k)
{
	struct rf_sched_pod p = pod_of(w, &k);

	rf_core_put_pod(w->c, &p, w->now);
}

/* It is placed, and control carries that out. */
static void runs(struct small *w, struct ask k)
{
	struct rf_sched_pod p = pod_of(w, &k);
	const struct rf_core_decision *d;
	struct rf_sched_claim claim;

	rf_core_put_pod(w->c, &p, w->now);
	decide(w);
	d = of(w, RF_CORE_BIND, k.uid);
	if (d == NULL)
		fail_msg("%s: %.*s", k.uid, RF_STR(rf_core_why(w->c, p.uid, w->now, &w->a)));
	claim = (struct rf_sched_claim){ .ns = p.ns, .name = p.uid, .pod_uid = p.uid, .tenant = p.ns, .rv = ++w->rv, .node = d->node,
					 .grants = d->grants, .n_grants = d->n_grants };
	if (d->n_grants > 0)
		rf_core_put_claim(w->c, &claim);
	p.node = d->node;
	p.rv = ++w->rv;
	p.started_ms = w->now;
	rf_core_put_pod(w->c, &p, w->now);
}

static void is(const char *told, const char *want)
{
	if (strcmp(told, want) != 0)
		fail_msg("\"%s\"\n   is not\n\"%s\"", told, want);
}

/* Exactly this is said. */
static void told(struct small *w, const char *uid, const char *want)
{
	decide(w);
	is(rf_arena_cstr(&w->a, why(w, uid)), want);
}

static void evicted(struct small *w, const char *uid, const char *want)
{
	const struct rf_core_decision *d;

	decide(w);
	d = of(w, RF_CORE_EVICT, uid);
	if (d == NULL)
		fail_msg("%s is not evicted", uid);
	is(rf_arena_cstr(&w->a, d->reason), want);
}

/* --- quotas of models -------------------------------------------------------------------------- */

static void the_limit_of_a_model_is_named(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 4 });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards/h100"), -1, 3, -1, -1 });
	runs(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 2 });
	waits(&w, (struct ask){ .uid = "p2", .ns = "a", .cards = 2 });
	told(&w, "p2",
	     "asks for 2 of cards/h100, and the limit of queue a leaves 1. resource=cards/h100 level=a need=2 have=1 "
	     "help=wait until work of this queue has ended or have the quota raised");
	waits(&w, (struct ask){ .uid = "p3", .ns = "a", .cards = 4 });
	told(&w, "p3",
	     "asks for 4 of cards/h100, and the limit of queue a leaves 1. resource=cards/h100 level=a need=4 have=1 "
	     "help=ask for less or have the quota raised");
	end(&w);
}

/* Two queues of one tenant: the same pods, and each is told of its own. */
static void it_is_the_limit_of_its_own_queue(void **state)
{
	const struct rf_sched_quota one = { RF_LIT("cards/h100"), -1, 1, -1, -1 }, none = { RF_LIT("cards/h100"), -1, 0, -1, -1 };
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 4 });
	queue(&w, "org", "", "", &one, 1);
	queue(&w, "a-day", "org", "a", NULL, 0);
	queue(&w, "a-night", "", "a", &none, 1);
	runs(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 1, .queue = "a-day" });
	waits(&w, (struct ask){ .uid = "p2", .ns = "a", .cards = 1, .queue = "a-day" });
	waits(&w, (struct ask){ .uid = "p3", .ns = "a", .cards = 1, .queue = "a-night" });
	told(&w, "p2",
	     "asks for 1 of cards/h100, and the limit of queue org leaves 0. resource=cards/h100 level=org need=1 have=0 "
	     "help=wait until work of this queue has ended or have the quota raised");
	told(&w, "p3",
	     "asks for 1 of cards/h100, and the limit of queue a-night leaves 0. resource=cards/h100 level=a-night need=1 have=0 "
	     "help=have the quota raised");
	end(&w);
}

static void what_may_be_borrowed_of_a_model_is_named(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 4 });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards/h100"), 1, -1, -1, 1 });
	runs(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 1 });
	waits(&w, (struct ask){ .uid = "p2", .ns = "a", .cards = 2 });
	told(&w, "p2",
	     "asks for 2 of cards/h100, and queue a may borrow 1 more. resource=cards/h100 level=a need=2 have=1 "
	     "help=wait until work of this queue has ended or have the quota raised");
	end(&w);
}

/* What others are guaranteed and do not lend is no quota of one's own. */
static void what_others_do_not_lend_is_not_ones_own_quota(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	tenant(&w, "b", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 4 });
	quota(&w, "b", (struct rf_sched_quota){ RF_LIT("cards/h100"), 3, -1, 0, -1 });
	waits(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 2, .models = "H100" });
	told(&w, "p1",
	     "asks for 2 of cards/h100; 1 is free that is not kept by those whom it is guaranteed to. resource=cards/h100 level=cluster "
	     "need=2 have=1 help=wait");
	end(&w);
}

static void who_cannot_be_evicted_hears_of_the_guarantee(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 4 });
	node(&w, (struct machine){ .name = "n1", .cards = 4, .model = A100 });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards/h100"), 1, -1, -1, -1 });
	runs(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 1, .models = "H100", .pinned = true });
	waits(&w, (struct ask){ .uid = "p2", .ns = "a", .cards = 1, .models = "H100", .pinned = true });
	told(&w, "p2",
	     "must not be evicted; asks for 1 whole card, and of what queue a is guaranteed 0 is left. resource=cards level=a need=1 have=0 "
	     "help=let it be evicted if need be or have the guarantee raised");
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards"), 0, -1, -1, -1 });
	waits(&w, (struct ask){ .uid = "p3", .ns = "a", .cards = 1, .pinned = true });
	told(&w, "p3",
	     "must not be evicted; asks for 1 whole card, and of what queue a is guaranteed 0 is left. resource=cards level=a need=1 have=0 "
	     "help=let it be evicted if need be or have the guarantee raised");
	end(&w);
}

/* One model is limited and free, the other one is not and taken: were it not for the limit it would run. */
static void a_limit_counts_where_there_is_room(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	tenant(&w, "b", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 2 });
	node(&w, (struct machine){ .name = "n1", .cards = 2, .model = A100 });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards/h100"), -1, 1, -1, -1 });
	runs(&w, (struct ask){ .uid = "b1", .ns = "b", .cards = 2, .models = "A100" });
	waits(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 2 });
	told(&w, "p1",
	     "asks for 2 of cards/h100, and the limit of queue a leaves 1; there is no room on other models that would do. "
	     "resource=cards/h100 level=a need=2 have=1 help=ask for less or have the quota raised");
	end(&w);
}

/* The same, and strangers have the limited ones: then raising the limit would not help alone. */
static void strangers_are_no_quota(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	tenant(&w, "b", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 2 });
	node(&w, (struct machine){ .name = "n1", .cards = 2, .model = A100 });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards/h100"), -1, 0, -1, -1 });
	runs(&w, (struct ask){ .uid = "b1", .ns = "b", .cards = 1, .models = "A100" });
	runs(&w, (struct ask){ .uid = "b2", .ns = "b", .cards = 1, .models = "H100" });
	waits(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 2 });
	told(&w, "p1",
	     "needs 2 whole cards on one node; the most any allowed node has free is 1 (nodes: 1 whose cards are taken, 1 without cards of a "
	     "model that will do and of which its quotas leave enough). resource=cards level=node need=2 have=1 help=wait until a pod "
	     "has ended or ask for less");
	end(&w);
}

/* Each of a gang has room within its quota, all of them have not. */
static void a_gang_hears_of_the_quota_for_all_of_it(void **state)
{
	struct rf_sched_group g = { .ns = RF_LIT("a"), .name = RF_LIT("g"), .min = 3, .rv = 1 };
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 4 });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards/h100"), -1, 2, -1, -1 });
	rf_core_put_group(w.c, &g);
	for (int i = 0; i < 3; i++)
		waits(&w, (struct ask){ .uid = rf_arena_printf(&w.a, "g%d", i).p, .ns = "a", .cards = 1, .group = "g" });
	told(&w, "g0",
	     "group g needs at once 3 of cards/h100, and the limit of queue a leaves 2. resource=cards/h100 level=a need=3 have=2 "
	     "help=ask for less or have the quota raised");
	end(&w);
}

/* --- cards ------------------------------------------------------------------------------------- */

static void cards_on_two_islands_are_not_joined(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	tenant(&w, "b", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 8, .island = 4 });
	for (int i = 0; i < 4; i++)
		runs(&w, (struct ask){ .uid = rf_arena_printf(&w.a, "b%d", i).p, .ns = "b", .cards = 2 });
	for (int i = 0; i < 4; i += 2) {
		rf_core_del_pod(w.c, rf_arena_printf(&w.a, "b%d", i), w.now);
		rf_core_del_claim(w.c, RF_LIT("b"), rf_arena_printf(&w.a, "b%d", i), w.now);
	}
	waits(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 4, .nvlink = true });
	told(&w, "p1",
	     "needs 4 whole cards on one NVLink island; the most any allowed node has free on one is 2 (nodes: 1 with cards enough, but not "
	     "on one NVLink island). resource=cards level=node need=4 have=2 help=wait until a pod has ended, ask for fewer or do "
	     "without NVLink");
	waits(&w, (struct ask){ .uid = "p2", .ns = "a", .cards = 5, .nvlink = true });
	told(&w, "p2",
	     "needs 5 whole cards on one NVLink island; the most any allowed node has free on one is 2 (nodes: 1 whose NVLink islands are "
	     "too small even when empty). resource=cards level=node need=5 have=2 help=ask for fewer or do without NVLink");
	end(&w);
}

static void cards_in_mig_mode_are_not_small(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 2, .mode = FIRST_SLICED });
	waits(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 2 });
	told(&w, "p1",
	     "needs 2 whole cards on one node; the most any allowed node has free is 1 (nodes: 1 with too few cards that are not in MIG "
	     "mode). resource=cards level=node need=2 have=1 help=ask for MIG slices, or have cards taken out of MIG mode");
	/* another node could, and is full: that is what to wait for */
	node(&w, (struct machine){ .name = "n1", .cards = 3 });
	runs(&w, (struct ask){ .uid = "p0", .ns = "a", .cards = 2, .priority = 5 });
	told(&w, "p1",
	     "needs 2 whole cards on one node; the most any allowed node has free is 1 (nodes: 1 whose cards are taken, 1 with too few cards "
	     "that are not in MIG mode). resource=cards level=node need=2 have=1 help=wait until a pod has ended or ask for less");
	end(&w);
}

static void cards_without_mig_mode_have_no_slices(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_SLICE);
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("mig/3g.40gb"), -1, 9, -1, -1 });
	for (int i = 0; i < 2; i++)
		node(&w, (struct machine){ .name = rf_arena_printf(&w.a, "n%d", i).p, .cards = 1, .mode = SLICED });
	node(&w, (struct machine){ .name = "n2", .cards = 2 });
	for (int i = 0; i < 3; i++)
		runs(&w, (struct ask){ .uid = rf_arena_printf(&w.a, "r%d", i).p, .ns = "a", .slices = 1, .profile = "3g.40gb" });
	rf_core_del_pod(w.c, RF_LIT("r0"), w.now);
	rf_core_del_claim(w.c, RF_LIT("a"), RF_LIT("r0"), w.now);
	waits(&w, (struct ask){ .uid = "p1", .ns = "a", .slices = 2, .profile = "3g.40gb" });
	told(&w, "p1",
	     "needs 2 MIG slices 3g.40gb on one node; the most of 3g.40gb any allowed node has room for is 1 (nodes: 2 whose cards are taken, "
	     "1 with too few cards in MIG mode). resource=mig/3g.40gb level=node need=2 have=1 help=wait until a pod has ended or ask "
	     "for less");
	end(&w);
}

/* Machines without cards are no reason to ask for another model. */
static void the_help_is_for_nodes_that_could(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "cpu", .cards = 0 });
	node(&w, (struct machine){ .name = "n0", .cards = 2, .cordoned = true });
	waits(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 1 });
	told(&w, "p1",
	     "needs 1 whole card on one node; the most any allowed node has free is 0 (nodes: 1 cordoned or not ready, 1 without cards of a "
	     "model that will do). resource=cards level=node need=1 have=0 help=uncordon a node or wait until one is ready");
	end(&w);
}

/* Of two cards that are being freed for somebody one is free already. */
static void what_is_promised_to_others_is_told_so(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	tenant(&w, "b", RF_ISOLATION_GPU);
	tenant(&w, "c", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 2 });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards"), 2, -1, -1, -1 });
	for (int i = 0; i < 2; i++)
		runs(&w, (struct ask){ .uid = rf_arena_printf(&w.a, "b%d", i).p, .ns = "b", .cards = 1 });
	waits(&w, (struct ask){ .uid = "a1", .ns = "a", .cards = 2 });
	decide(&w);
	assert_non_null(of(&w, RF_CORE_EVICT, "b0"));
	rf_core_del_pod(w.c, RF_LIT("b0"), w.now);
	rf_core_del_claim(w.c, RF_LIT("b"), RF_LIT("b0"), w.now);
	waits(&w, (struct ask){ .uid = "c1", .ns = "c", .cards = 1 });
	told(&w, "c1",
	     "there is room for it, and others come first there: they were promised it or have their turn before. resource=none level=cluster "
	     "need=0 have=0 help=wait");
	end(&w);
}

/* Where no node is allowed it is not cards that it lacks. */
static void no_node_is_no_lack_of_cards(void **state)
{
	struct rf_sched_taint taint = { RF_LIT("team"), RF_LIT("x"), RF_LIT("NoSchedule") };
	struct rf_sched_amount hca = { RF_LIT("rdma/hca"), 2 };
	struct ask k = { .uid = "p2", .ns = "a", .cards = 1 };
	struct rf_sched_pod p;
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 2, .taint = &taint });
	waits(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 1 });
	told(&w, "p1",
	     "no node will do (nodes: 1 with a taint that it does not tolerate). resource=nodes level=cluster need=1 have=0 help=add a "
	     "toleration or remove the taint");
	node(&w, (struct machine){ .name = "n0", .cards = 2 });
	p = pod_of(&w, &k);
	p.more = &hca;
	p.n_more = 1;
	rf_core_put_pod(w.c, &p, w.now);
	told(&w, "p2",
	     "no node will do (nodes: 1 short of a resource (2 of rdma/hca asked, 0 left)). resource=rdma/hca level=cluster need=2 have=0 "
	     "help=lower the request or wait until a pod has ended");
	end(&w);
}

/* Waiting would not help, whatever is free: that is said, not that the cluster is full. */
static void what_never_fits_is_told_so(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	for (int i = 0; i < 2; i++)
		node(&w, (struct machine){ .name = rf_arena_printf(&w.a, "n%d", i).p, .cards = 2 });
	for (int i = 0; i < 2; i++)
		runs(&w, (struct ask){ .uid = rf_arena_printf(&w.a, "r%d", i).p, .ns = "a", .cards = 1 });
	waits(&w, (struct ask){ .uid = "p1", .ns = "a", .cards = 3 });
	told(&w, "p1",
	     "needs 3 whole cards on one node; the most any allowed node has free is 2 (nodes: 2 too small even when empty). resource=cards "
	     "level=node need=3 have=2 help=ask for less per pod");
	waits(&w, (struct ask){ .uid = "p2", .ns = "a", .cards = 2, .models = "A100" });
	told(&w, "p2",
	     "no card here is of a model it asks for (A100). resource=cards level=cluster need=2 have=0 help=ask for another model or wait");
	end(&w);
}

/* --- gangs ------------------------------------------------------------------------------------- */

static void gang(struct small *w, const char *topology, int64_t min)
{
	struct rf_sched_group g = { .ns = RF_LIT("a"), .name = RF_LIT("g"), .min = min, .rv = 1, .topology = rf_str(topology) };

	rf_core_put_group(w->c, &g);
	for (int i = 0; i < min; i++)
		waits(w, (struct ask){ .uid = rf_arena_printf(&w->a, "g%d", i).p, .ns = "a", .cards = 2, .group = "g" });
}

static void a_gang_hears_how_many_have_places(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	for (int i = 0; i < 3; i++)
		node(&w, (struct machine){ .name = rf_arena_printf(&w.a, "n%d", i).p, .cards = 3 });
	gang(&w, NULL, 4);
	told(&w, "g3",
	     "group g needs places for 4 pods at once, and there is room for 3. resource=pods level=cluster need=4 have=3 help=wait until pods "
	     "have ended, ask for less per pod or lower the group's minimum");
	end(&w);
}

static void a_gang_larger_than_the_cluster_needs_nodes(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 4 });
	gang(&w, NULL, 4);
	told(&w, "g0",
	     "group g needs at once 8 whole cards, and the cluster has 4 left. resource=cards level=cluster need=8 have=4 help=ask for less or "
	     "add nodes");
	end(&w);
}

static void a_gang_hears_of_its_topology(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	for (int i = 0; i < 5; i++)
		node(&w, (struct machine){ .name = rf_arena_printf(&w.a, "n%d", i).p, .cards = 2, .rack = i < 3 ? "r1" : "r2" });
	gang(&w, RACK, 4);
	told(&w, "g0",
	     "group g needs places for 4 pods at once on nodes with one value of " RACK "; the best has room for 3, and for too few even when "
	     "empty. resource=pods level=" RACK " need=4 have=3 help=ask for less per pod, lower the group's minimum or have its "
	     "spec.topologyKey taken out");
	node(&w, (struct machine){ .name = "n5", .cards = 2, .rack = "r1" });
	decide(&w);
	assert_non_null(of(&w, RF_CORE_BIND, "g0"));
	end(&w);

	/* somebody is in the way */
	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	for (int i = 0; i < 6; i++)
		node(&w, (struct machine){ .name = rf_arena_printf(&w.a, "n%d", i).p, .cards = 2, .rack = i < 4 ? "r1" : "r2" });
	runs(&w, (struct ask){ .uid = "r0", .ns = "a", .cards = 1 });
	gang(&w, RACK, 4);
	told(&w, "g0",
	     "group g needs places for 4 pods at once on nodes with one value of " RACK "; the best has room for 3. resource=pods "
	     "level=" RACK " need=4 have=3 help=wait until pods have ended, ask for less per pod or have the group's spec.topologyKey "
	     "taken out");
	end(&w);
}

/* The cluster is full, and were it not, no rack has so many cards. */
static void a_rack_that_is_too_small_is_told_at_once(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	for (int i = 0; i < 5; i++)
		node(&w, (struct machine){ .name = rf_arena_printf(&w.a, "n%d", i).p, .cards = 2, .rack = i < 3 ? "r1" : "r2" });
	for (int i = 0; i < 3; i++)
		runs(&w, (struct ask){ .uid = rf_arena_printf(&w.a, "r%d", i).p, .ns = "a", .cards = 2 });
	gang(&w, RACK, 4);
	told(&w, "g0",
	     "group g needs places for 4 pods at once on nodes with one value of " RACK "; the best has room for 2, and for too few even when "
	     "empty. resource=pods level=" RACK " need=4 have=2 help=ask for less per pod, lower the group's minimum or have its "
	     "spec.topologyKey taken out");
	end(&w);
}

static void a_topology_that_no_node_has_is_named(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 8 });
	gang(&w, RACK, 2);
	told(&w, "g0",
	     "group g needs nodes with one value of label " RACK ", and no node has that label. resource=pods level=" RACK " need=2 have=0 "
	     "help=label the nodes or have the group's spec.topologyKey taken out");
	end(&w);
}

/* --- who goes ---------------------------------------------------------------------------------- */

static void who_gives_back_a_slice_hears_of_slices(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_SLICE);
	tenant(&w, "b", RF_ISOLATION_SLICE);
	node(&w, (struct machine){ .name = "n0", .cards = 1, .mode = SLICED });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("mig/3g.40gb"), 1, 2, -1, -1 });
	quota(&w, "b", (struct rf_sched_quota){ RF_LIT("mig/3g.40gb"), 1, 2, -1, -1 });
	runs(&w, (struct ask){ .uid = "b1", .ns = "b", .slices = 1, .profile = "3g.40gb" });
	runs(&w, (struct ask){ .uid = "b2", .ns = "b", .slices = 1, .profile = "3g.40gb", .priority = -1 });
	waits(&w, (struct ask){ .uid = "a1", .ns = "a", .slices = 1, .profile = "3g.40gb" });
	evicted(&w, "b2",
		"queue b uses 2 of mig/3g.40gb and is guaranteed 1; the rest is borrowed, and those to whom it is guaranteed need it. "
		"resource=mig/3g.40gb level=b need=2 have=1 help=wait until it can start again or have the guarantee raised");
	end(&w);
}

static void who_gives_back_a_card_hears_of_cards(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	tenant(&w, "b", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 3 });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards"), 2, -1, -1, -1 });
	quota(&w, "b", (struct rf_sched_quota){ RF_LIT("cards"), 1, -1, -1, -1 });
	runs(&w, (struct ask){ .uid = "b1", .ns = "b", .cards = 1 });
	runs(&w, (struct ask){ .uid = "b2", .ns = "b", .cards = 2, .priority = -1 });
	waits(&w, (struct ask){ .uid = "a1", .ns = "a", .cards = 2 });
	evicted(&w, "b2",
		"queue b uses 3 whole cards and is guaranteed 1; the rest is borrowed, and those to whom it is guaranteed need it. "
		"resource=cards level=b need=3 have=1 help=wait until it can start again or have the guarantee raised");
	end(&w);
}

static void who_goes_by_priority_hears_what_for(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_SLICE);
	node(&w, (struct machine){ .name = "n0", .cards = 1, .mode = SLICED });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("mig/3g.40gb"), -1, 4, -1, -1 });
	runs(&w, (struct ask){ .uid = "p1", .ns = "a", .slices = 1, .profile = "3g.40gb" });
	runs(&w, (struct ask){ .uid = "p2", .ns = "a", .slices = 1, .profile = "3g.40gb", .priority = 10 });
	waits(&w, (struct ask){ .uid = "p3", .ns = "a", .slices = 1, .profile = "3g.40gb", .priority = 10 });
	evicted(&w, "p1",
		"makes room for work of its own queue with a higher priority, which needs 1 of mig/3g.40gb where 0 is left. "
		"resource=mig/3g.40gb level=cluster need=1 have=0 help=raise its priority or wait until it can start again");
	end(&w);
}

/* One plan takes from its own queue by priority and from another one that borrowed: each hears its own reason. */
static void who_gives_back_is_not_told_of_the_priority_of_strangers(void **state)
{
	struct small w;

	begin(&w);
	tenant(&w, "a", RF_ISOLATION_GPU);
	tenant(&w, "b", RF_ISOLATION_GPU);
	node(&w, (struct machine){ .name = "n0", .cards = 2 });
	node(&w, (struct machine){ .name = "n1", .cards = 1, .model = A100 });
	quota(&w, "a", (struct rf_sched_quota){ RF_LIT("cards"), 3, -1, -1, -1 });
	runs(&w, (struct ask){ .uid = "a0", .ns = "a", .cards = 1, .models = "H100" });
	runs(&w, (struct ask){ .uid = "b1", .ns = "b", .cards = 1, .models = "H100" });
	waits(&w, (struct ask){ .uid = "a1", .ns = "a", .cards = 2, .priority = 10 });
	evicted(&w, "b1",
		"queue b uses 1 whole card and is guaranteed 0; the rest is borrowed, and those to whom it is guaranteed need it. "
		"resource=cards level=b need=1 have=0 help=wait until it can start again or have the guarantee raised");
	assert_int_equal(of(&w, RF_CORE_EVICT, "b1")->cause, RF_CORE_RECLAIMED);
	assert_int_equal(of(&w, RF_CORE_EVICT, "a0")->cause, RF_CORE_PREEMPTED);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_limit_of_a_model_is_named),
		cmocka_unit_test(it_is_the_limit_of_its_own_queue),
		cmocka_unit_test(what_may_be_borrowed_of_a_model_is_named),
		cmocka_unit_test(what_others_do_not_lend_is_not_ones_own_quota),
		cmocka_unit_test(who_cannot_be_evicted_hears_of_the_guarantee),
		cmocka_unit_test(a_limit_counts_where_there_is_room),
		cmocka_unit_test(strangers_are_no_quota),
		cmocka_unit_test(a_gang_hears_of_the_quota_for_all_of_it),
		cmocka_unit_test(cards_on_two_islands_are_not_joined),
		cmocka_unit_test(cards_in_mig_mode_are_not_small),
		cmocka_unit_test(cards_without_mig_mode_have_no_slices),
		cmocka_unit_test(the_help_is_for_nodes_that_could),
		cmocka_unit_test(what_is_promised_to_others_is_told_so),
		cmocka_unit_test(no_node_is_no_lack_of_cards),
		cmocka_unit_test(what_never_fits_is_told_so),
		cmocka_unit_test(a_gang_larger_than_the_cluster_needs_nodes),
		cmocka_unit_test(a_gang_hears_how_many_have_places),
		cmocka_unit_test(a_gang_hears_of_its_topology),
		cmocka_unit_test(a_rack_that_is_too_small_is_told_at_once),
		cmocka_unit_test(a_topology_that_no_node_has_is_named),
		cmocka_unit_test(who_gives_back_a_slice_hears_of_slices),
		cmocka_unit_test(who_gives_back_a_card_hears_of_cards),
		cmocka_unit_test(who_goes_by_priority_hears_what_for),
		cmocka_unit_test(who_gives_back_is_not_told_of_the_priority_of_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
