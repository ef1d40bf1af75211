/* Whole cards by moving: plans on small fleets, and what comes of them. A plan is carried out as in a cluster: a pod is
 * evicted, its controller makes it again, and the core places it, before the old one is gone or after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sched/core.h"

void __real_co_usual(struct rf_core *c);
void __wrap_co_usual(struct rf_core *c);

/* What is usually asked moves on with the pods that come and go, and with it the places of policy fragmentation: in a fleet
 * of a few pods with each of them. It is held still while a plan is carried out. */
static bool usual_stays;
void __wrap_co_usual(struct rf_core *c)
{
	if (!usual_stays)
		__real_co_usual(c);
}

#define GI (INT64_C(1) << 30)
#define H100 "NVIDIA H100 80GB HBM3"
#define THINGS 64
#define MOVES 64

struct thing { /* a pod that runs */
	char uid[32];
	const char *ns, *node;
	struct rf_gpu_ask ask;
	struct rf_sched_grant grants[4];
	size_t n;
	bool live, pinned, apart;
	const char *likes; /* a node */
	int64_t min_run;
};

struct world {
	struct rf_core *c;
	struct rf_arena a;
	int64_t now, rv;
	struct thing things[THINGS];
	size_t n, nodes;
};

static void begin(struct world *w)
{
	struct rf_core_config config;

	rf_core_config_default(&config);
	*w = (struct world){ .now = 1000000 };
	w->c = rf_core_new(&config);
}

static void audit(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(w->c, w->now, &err) < 0)
		fail_msg("audit: %s", err.msg);
}

static void end(struct world *w)
{
	audit(w);
	rf_core_free(w->c);
	rf_arena_done(&w->a);
}

#define text(w, ...) rf_arena_cstr(&(w)->a, rf_arena_printf(&(w)->a, __VA_ARGS__))

static unsigned roll(unsigned n)
{
	return (unsigned)rand() % n;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void node_with(struct world *w, size_t cards, const char *pool, int64_t cpu_milli)
{
	const char *name = text(w, "n%zu", w->nodes++);
	struct rf_sched_pair labels[] = { { RF_LIT("name"), rf_str(name) }, { RF_LIT("ringfence.io/pool"), rf_str(pool) } };
	struct rf_sched_node n = { .name = rf_str(name), .cpu_milli = cpu_milli, .memory = 512 * GI, .pods = 110, .ready = true,
				   .labels = labels, .n_labels = RF_COUNT(labels) };
	struct rf_sched_device d[8] = { 0 };

	for (size_t i = 0; i < cards; i++)
		d[i] = (struct rf_sched_device){ .name = rf_str(text(w, "gpu-%zu", i)), .model = RF_LIT(H100), .memory = 80 * GI,
						 .milli = 1000 };
	rf_core_put_node(w->c, &n);
	rf_core_put_devices(w->c, rf_str(name), d, cards);
}

static void node(struct world *w, size_t cards)
{
	node_with(w, cards, "p", 64000);
}

static void pool(struct world *w, const char *name, enum rf_sched_placement placement)
{
	rf_core_put_pool(w->c, &(struct rf_sched_pool){ rf_str(name), placement });
}

static void tenant_of(struct world *w, const char *name, enum rf_isolation level, const char *trust)
{
	struct rf_sched_quota slices[] = { { RF_LIT("mig/1g.10gb"), -1, 100, -1, -1 }, { RF_LIT("mig/2g.20gb"), -1, 100, -1, -1 },
					   { RF_LIT("mig/3g.40gb"), -1, 100, -1, -1 } };
	struct rf_sched_queue q = { .name = rf_str(name), .tenant = rf_str(name), .weight = 1, .quotas = slices,
				    .n_quotas = RF_COUNT(slices) };
	struct rf_tenant t = { .name = rf_str(name), .isolation = level, .trust_domain = rf_str(trust), .quota_gpus = 1000,
			       .quota_gpu_memory = 80000 * GI, .quota_pods = -1, .queue_weight = 1 };
	struct rf_err err = RF_ERR_INIT;

	rf_core_put_tenant(w->c, &t);
	rf_core_put_namespace(w->c, rf_str(name), rf_str(name));
	if (rf_core_put_queue(w->c, &q, w->now, &err) < 0)
		fail_msg("%s", err.msg);
}

static void tenant(struct world *w, const char *name, enum rf_isolation level)
{
	tenant_of(w, name, level, name);
}

static struct rf_gpu_ask share(int64_t gi)
{
	return (struct rf_gpu_ask){ .share_bytes = gi * GI, .share_milli = gi * 10 };
}

static struct rf_gpu_ask slice(const char *profile)
{
	return (struct rf_gpu_ask){ .slices = 1, .profile = rf_str(profile) };
}

static struct rf_gpu_ask slices(const char *profile, int64_t n)
{
	return (struct rf_gpu_ask){ .slices = n, .profile = rf_str(profile) };
}

static struct rf_gpu_ask whole(int64_t cards)
{
	return (struct rf_gpu_ask){ .cards = cards };
}

static void put_pod(struct world *w, const struct thing *t, const char *on, bool deleting)
{
	struct rf_sched_container main = { .name = RF_LIT("main"), .ask = t->ask };
	struct rf_sched_pair label = { RF_LIT("app"), RF_LIT("x") };
	struct rf_str value = RF_LIT("x"), liked = rf_str(t->likes != NULL ? t->likes : "");
	struct rf_sched_match match = { .key = RF_LIT("app"), .op = RF_SCHED_IN, .values = &value, .n_values = 1 };
	struct rf_sched_match like = { .key = RF_LIT("name"), .op = RF_SCHED_IN, .values = &liked, .n_values = 1 };
	struct rf_sched_term wants = { .all = &like, .n = 1, .weight = 100 };
	struct rf_sched_near apart = { .apart = true, .topology = RF_LIT("name"), .labels = { .all = &match, .n = 1 } };
	struct rf_sched_pod p = { .uid = rf_str(t->uid), .ns = rf_str(t->ns), .name = rf_str(t->uid), .rv = ++w->rv,
				  .created_ms = w->now, .cpu_milli = 1000, .memory = GI, .containers = &main, .n_containers = 1,
				  .node = rf_str(on), .deleting = deleting, .grace_ms = 30000, .pinned = t->pinned,
				  .min_run_ms = t->min_run, .started_ms = *on != '\0' ? w->now - 1000 : 0, .labels = &label,
				  .n_labels = 1, .nears = &apart, .n_nears = t->apart, .prefers = &wants,
				  .n_prefers = t->likes != NULL };

	rf_core_put_pod(w->c, &p, w->now);
}

static struct rf_str claim_of(struct world *w, const struct thing *t)
{
	return rf_str(text(w, "claim-%s", t->uid));
}

/* It runs where it says. */
static void tell(struct world *w, struct thing *t)
{
	struct rf_sched_claim k = { .ns = rf_str(t->ns), .name = claim_of(w, t), .pod_uid = rf_str(t->uid), .tenant = rf_str(t->ns),
				    .rv = ++w->rv, .node = rf_str(t->node), .grants = t->grants, .n_grants = t->n };

	t->live = true;
	if (t->n > 0)
		rf_core_put_claim(w->c, &k);
	put_pod(w, t, t->node, false);
}

static void gone(struct world *w, struct thing *t)
{
	t->live = false;
	rf_core_del_pod(w->c, rf_str(t->uid), w->now);
	rf_core_del_claim(w->c, rf_str(t->ns), claim_of(w, t), w->now);
}

static struct thing *add(struct world *w, const char *uid, const char *ns, struct rf_gpu_ask ask)
{
	struct thing *t = NULL;

	for (size_t i = 0; i < THINGS && t == NULL; i++)
		t = i == w->n || !w->things[i].live ? &w->things[i] : NULL;
	assert_non_null(t);
	w->n = RF_MAX(w->n, (size_t)(t - w->things) + 1);
	*t = (struct thing){ .ns = ns, .ask = ask };
	(void)snprintf(t->uid, sizeof(t->uid), "%s", uid);
	return t;
}

/* On this very card; start: of a slice. */
static struct thing *on(struct world *w, const char *uid, const char *ns, struct rf_gpu_ask ask, const char *node_name, int card,
			int start)
{
	struct thing *t = add(w, uid, ns, ask);

	t->node = node_name;
	t->n = 1;
	t->grants[0] = (struct rf_sched_grant){ .container = RF_LIT("main"), .device = rf_str(text(w, "gpu-%d", card)),
						.bytes = ask.cards > 0 ? 80 * GI : ask.share_bytes,
						.milli = ask.cards > 0 ? 1000 : ask.share_milli, .whole = ask.cards > 0,
						.profile = ask.profile, .start = start };
	tell(w, t);
	return t;
}

static int64_t free_cards(struct world *w)
{
	struct rf_fleet_usage u;

	rf_fleet_usage(rf_core_fleet(w->c), &u);
	return u.free_cards;
}

struct slots { /* so many more slices of each profile, the larger ones later */
	size_t n[RF_FLEET_PROFILES_MAX];
};

static struct slots count_slots(struct world *w)
{
	const struct rf_fleet *f = rf_core_fleet(w->c);
	struct slots s = { 0 };

	for (uint32_t i = 0; i < rf_fleet_handles(f); i++) {
		for (unsigned k = 0; rf_fleet_has_card(f, i, k); k++) {
			for (unsigned p = 0; p < RF_FLEET_PROFILES_MAX; p++)
				s.n[p] += rf_fleet_slices_on(f, i, k, p);
		}
	}
	return s;
}

static bool is_better(const struct slots *now, const struct slots *was)
{
	int p = RF_FLEET_PROFILES_MAX - 1;

	while (p > 0 && now->n[p] == was->n[p])
		p--;
	return now->n[p] > was->n[p];
}

/* --- what comes of a plan ----------------------------------------------------------------------- */

static void bound(struct world *w, const struct rf_core_decision *d)
{
	for (size_t i = 0; i < w->n; i++) {
		struct thing *t = &w->things[i];

		if (!rf_str_is(d->uid, t->uid))
			continue;
		assert_true(d->n_grants <= RF_COUNT(t->grants));
		t->node = rf_arena_cstr(&w->a, rf_arena_str(&w->a, d->node));
		t->n = d->n_grants;
		for (size_t k = 0; k < t->n; k++) {
			t->grants[k] = d->grants[k];
			t->grants[k].device = rf_arena_str(&w->a, d->grants[k].device);
			t->grants[k].profile = rf_arena_str(&w->a, d->grants[k].profile);
			t->grants[k].container = rf_arena_str(&w->a, d->grants[k].container);
		}
		tell(w, t);
	}
}

static void decide(struct world *w)
{
	struct rf_core_decision *d;

	for (int calls = 0; calls < 1000; calls++) {
		size_t n = rf_core_decide(w->c, w->now, 1000, &w->a, &d);

		for (size_t i = 0; i < n; i++) {
			if (d[i].verdict == RF_CORE_BIND)
				bound(w, &d[i]);
		}
		if (n == 0 && rf_core_next_ms(w->c, w->now) > w->now)
			return;
	}
	fail_msg("it decides for ever");
}

static struct thing *find(struct world *w, struct rf_str uid)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->things[i].live && rf_str_eq(uid, rf_str(w->things[i].uid)))
			return &w->things[i];
	}
	return NULL;
}

static struct thing *made_again(struct world *w, const struct thing *t)
{
	struct thing was = *t, *again = add(w, text(w, "%.20s-%ld", was.uid, (long)++w->rv), was.ns, was.ask);

	again->pinned = was.pinned;
	again->apart = was.apart;
	again->likes = was.likes;
	again->min_run = was.min_run;
	put_pod(w, again, "", false);
	again->live = true;
	return again;
}

/* The old one goes before the new one comes, or after it and before the next of the plan; the old ones go when all are made
 * again and placed, which is what is planned for; the same when all were told to go first, and come in the scheduler's order;
 * all were told to go, and then go and come by chance. */
enum way { AT_ONCE, STEADILY, SLOWLY, TOGETHER, ANYHOW, WAYS };

static bool is_freed(const struct rf_core_move *m, size_t n, const char *node_name, struct rf_str device)
{
	for (size_t i = 0; i < n; i++) {
		if (m[i].profile.n == 0 && rf_str_is(m[i].from, node_name) && rf_str_eq(m[i].device, device))
			return true;
	}
	return false;
}

static bool as_planned(const struct thing *t, const struct rf_core_move *m)
{
	return t->n == 1 && rf_str_is(m->to, t->node) && rf_str_eq(m->to_device, t->grants[0].device);
}

static void carry_out_anyhow(struct world *w, const struct rf_core_move *m, size_t n)
{
	struct thing *old[MOVES], *again[MOVES] = { 0 }, was[MOVES];
	bool left[MOVES] = { 0 };
	size_t more = 2 * n;

	for (size_t i = 0; i < n; i++) {
		old[i] = find(w, m[i].uid);
		assert_non_null(old[i]);
		was[i] = *old[i];
		put_pod(w, old[i], old[i]->node, true);
	}
	while (more > 0) {
		size_t i = roll((unsigned)n);
		bool goes = roll(2) == 0;

		if (goes ? left[i] : again[i] != NULL)
			continue;
		more--;
		if (goes)
			gone(w, old[i]);
		else
			again[i] = made_again(w, &was[i]);
		left[i] = left[i] || goes;
		if (roll(2) == 0)
			decide(w);
	}
	w->now += 2000;
	decide(w);
	for (size_t i = 0; i < n; i++) {
		if (again[i]->n == 0)
			fail_msg("%s has no place any more", again[i]->uid);
	}
}

static void carry_out(struct world *w, const struct rf_core_move *m, size_t n, enum way way)
{
	struct thing *old[MOVES], *again[MOVES];

	assert_true(n <= MOVES);
	if (way == ANYHOW) {
		carry_out_anyhow(w, m, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		old[i] = find(w, m[i].uid);
		assert_non_null(old[i]);
		assert_true(rf_str_is(m[i].from, old[i]->node));
		if (way == AT_ONCE)
			gone(w, old[i]);
		else
			put_pod(w, old[i], old[i]->node, true);
		again[i] = made_again(w, old[i]);
		if (way != TOGETHER)
			decide(w);
		if (way == STEADILY)
			gone(w, old[i]);
	}
	decide(w);
	for (size_t i = 0; i < n && way >= SLOWLY; i++) {
		gone(w, old[i]);
		w->now += 2000;
		decide(w);
	}
	for (size_t i = 0; i < n; i++) {
		if (again[i]->n == 0)
			fail_msg("%s has no place any more", again[i]->uid);
		if (way == SLOWLY && again[i]->n == 1 && !as_planned(again[i], &m[i]))
			fail_msg("%s (%.*s/%.*s) is on %s/%.*s, planned was %.*s/%.*s", again[i]->uid, RF_STR(m[i].from),
				 RF_STR(m[i].device), again[i]->node, RF_STR(again[i]->grants[0].device), RF_STR(m[i].to),
				 RF_STR(m[i].to_device));
		for (size_t k = 0; k < again[i]->n; k++)
			assert_true(way != SLOWLY || !is_freed(m, n, again[i]->node, again[i]->grants[k].device));
	}
}

static size_t plan(struct world *w, struct rf_core_move **ret)
{
	size_t n = rf_core_defragment(w->c, w->now, MOVES, &w->a, ret);

	audit(w);
	return n;
}

/* --- small fleets ------------------------------------------------------------------------------- */

struct want {
	const char *uid, *from, *device, *to, *to_device;
};

static bool is_move(const struct rf_core_move *m, const struct want *v)
{
	return rf_str_is(m->uid, v->uid) && rf_str_is(m->from, v->from) && rf_str_is(m->device, v->device) && rf_str_is(m->to, v->to) &&
	       rf_str_is(m->to_device, v->to_device);
}

/* Is that the plan? And does it come true, whoever is quicker? */
static void check_plan(void (*make)(struct world *w), const struct want *want, size_t n)
{
	for (enum way way = AT_ONCE; way < WAYS; way++) {
		struct rf_core_move *m;
		struct world w;
		int64_t before;

		begin(&w);
		make(&w);
		before = free_cards(&w);
		assert_int_equal(plan(&w, &m), n);
		assert_int_equal(free_cards(&w), before);
		for (size_t i = 0; i < n; i++) {
			if (!is_move(&m[i], &want[i]))
				fail_msg("%.*s: %.*s/%.*s to %.*s/%.*s", RF_STR(m[i].uid), RF_STR(m[i].from), RF_STR(m[i].device),
					 RF_STR(m[i].to), RF_STR(m[i].to_device));
		}
		carry_out(&w, m, n, way);
		assert_int_equal(free_cards(&w), n > 0 ? m[n - 1].free_cards : before);
		assert_int_equal(plan(&w, &m), 0);
		end(&w);
	}
}

static void two_cards(struct world *w, enum rf_sched_placement placement)
{
	pool(w, "p", placement);
	node(w, 2);
	tenant(w, "s", RF_ISOLATION_SHARE);
	on(w, "s0", "s", share(8), "n0", 0, 0);
	on(w, "s1", "s", share(8), "n0", 1, 0);
}

static void two_cards_pack(struct world *w)
{
	two_cards(w, RF_SCHED_PACK);
}

static void two_cards_frag(struct world *w)
{
	two_cards(w, RF_SCHED_FRAGMENTATION);
}

static void two_cards_spread(struct world *w)
{
	two_cards(w, RF_SCHED_SPREAD);
}

static void test_a_share_goes_to_the_card_beside(void **state)
{
	static const struct want want = { "s1", "n0", "gpu-1", "n0", "gpu-0" };

	(void)state;
	check_plan(two_cards_pack, &want, 1);
	check_plan(two_cards_frag, &want, 1);
	check_plan(two_cards_spread, NULL, 0); /* it would be spread again */
}

/* The fuller card stays, wherever it is. */
static void unequal(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node(w, 4);
	tenant(w, "s", RF_ISOLATION_SHARE);
	tenant(w, "a", RF_ISOLATION_GPU);
	on(w, "s0", "s", share(8), "n0", 0, 0);
	on(w, "a0", "a", whole(1), "n0", 1, 0);
	on(w, "s1", "s", share(30), "n0", 2, 0);
}

static void test_the_smaller_goes_beside_the_larger(void **state)
{
	static const struct want want = { "s0", "n0", "gpu-0", "n0", "gpu-2" };

	(void)state;
	check_plan(unequal, &want, 1);
}

static void full(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node(w, 2);
	tenant(w, "s", RF_ISOLATION_SHARE);
	on(w, "s0", "s", share(50), "n0", 0, 0);
	on(w, "s1", "s", share(40), "n0", 1, 0);
}

static void strangers(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node(w, 2);
	tenant(w, "s", RF_ISOLATION_SHARE);
	tenant(w, "t", RF_ISOLATION_SHARE);
	on(w, "s0", "s", share(8), "n0", 0, 0);
	on(w, "t0", "t", share(8), "n0", 1, 0);
}

static void friends(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node(w, 2);
	tenant_of(w, "s", RF_ISOLATION_SHARE, "lab");
	tenant_of(w, "t", RF_ISOLATION_SHARE, "lab");
	on(w, "s0", "s", share(8), "n0", 0, 0);
	on(w, "t0", "t", share(8), "n0", 1, 0);
}

/* Its card cannot be had by others, but the node is nobody's who shares none. */
static void beside_one_with_a_node(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node(w, 2);
	node(w, 2);
	tenant(w, "s", RF_ISOLATION_SHARE);
	tenant(w, "a", RF_ISOLATION_NODE);
	on(w, "a0", "a", whole(1), "n0", 0, 0);
	on(w, "s0", "s", share(8), "n1", 0, 0);
	on(w, "s1", "s", share(8), "n1", 1, 0);
}

static void test_isolation_holds(void **state)
{
	static const struct want friend = { "t0", "n0", "gpu-1", "n0", "gpu-0" };
	static const struct want own = { "s1", "n1", "gpu-1", "n1", "gpu-0" };

	(void)state;
	check_plan(full, NULL, 0);
	check_plan(strangers, NULL, 0);
	check_plan(friends, &friend, 1);
	check_plan(beside_one_with_a_node, &own, 1);
}

static void crowd(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node(w, 3);
	node(w, 1);
	tenant(w, "s", RF_ISOLATION_SHARE);
	on(w, "s0", "s", share(8), "n0", 0, 0);
	on(w, "s1", "s", share(16), "n0", 1, 0);
	on(w, "s2", "s", share(4), "n0", 2, 0);
	on(w, "s3", "s", share(32), "n1", 0, 0);
}

/* Within the node and from node to node, all to one card. */
static void test_many_to_one(void **state)
{
	static const struct want want[] = { { "s2", "n0", "gpu-2", "n1", "gpu-0" },
					    { "s0", "n0", "gpu-0", "n1", "gpu-0" },
					    { "s1", "n0", "gpu-1", "n1", "gpu-0" } };

	(void)state;
	check_plan(crowd, want, 3);
}

/* No CPU is left for the new one as long as the old one is there: where it goes is known too late. */
static void no_cpu_for_both(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node_with(w, 2, "p", 2000);
	tenant(w, "s", RF_ISOLATION_SHARE);
	on(w, "s0", "s", share(8), "n0", 0, 0);
	on(w, "s1", "s", share(8), "n0", 1, 0);
}

/* ... and here it goes to a free card of another node meanwhile. */
static void no_cpu_but_elsewhere(struct world *w)
{
	no_cpu_for_both(w);
	node(w, 1);
}

static void test_the_old_one_may_be_slow(void **state)
{
	(void)state;
	check_plan(no_cpu_for_both, NULL, 0);
	check_plan(no_cpu_but_elsewhere, NULL, 0);
}

/* Wishes count as when it is placed. */
static void they_part(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node(w, 1);
	node(w, 1);
	tenant(w, "s", RF_ISOLATION_SHARE);
	for (int i = 0; i < 2; i++) {
		struct thing *t = on(w, text(w, "s%d", i), "s", share(8), text(w, "n%d", i), 0, 0);

		t->apart = true;
		tell(w, t);
	}
}

static void one_likes_it_there(struct world *w)
{
	struct thing *t;

	pool(w, "p", RF_SCHED_PACK);
	node(w, 1);
	node(w, 1);
	tenant(w, "s", RF_ISOLATION_SHARE);
	t = on(w, "s0", "s", share(30), "n0", 0, 0);
	t->pinned = true;
	tell(w, t);
	t = on(w, "s1", "s", share(8), "n1", 0, 0);
	t->likes = "n1";
	tell(w, t);
}

static void test_wishes_hold(void **state)
{
	(void)state;
	check_plan(they_part, NULL, 0);
	check_plan(one_likes_it_there, NULL, 0); /* it would come back */
}

static void test_what_must_stay_stays(void **state)
{
	struct rf_sched_budget none = { .ns = RF_LIT("s"), .name = RF_LIT("b"), .any = true, .allowed = 0 };
	struct rf_core_move *m;
	struct world w;

	(void)state;
	begin(&w);
	two_cards_pack(&w);
	rf_core_put_budget(w.c, &none);
	assert_int_equal(plan(&w, &m), 0);
	none.allowed = 1;
	rf_core_put_budget(w.c, &none);
	assert_int_equal(plan(&w, &m), 1);
	w.things[1].min_run = 60000;
	tell(&w, &w.things[1]);
	assert_int_equal(plan(&w, &m), 0); /* the other would go to the first of two alike, which is its own */
	w.now += 60000;
	assert_int_equal(plan(&w, &m), 1);
	w.things[1].pinned = true;
	tell(&w, &w.things[1]);
	assert_int_equal(plan(&w, &m), 0);
	on(&w, "s2", "s", share(8), "n0", 1, 0);
	assert_int_equal(plan(&w, &m), 1); /* now it would not */
	assert_true(rf_str_is(m[0].uid, "s0") && rf_str_is(m[0].to_device, "gpu-1"));
	gone(&w, &w.things[2]);
	w.things[0].pinned = true;
	w.things[1].pinned = false;
	w.things[1].min_run = 60000;
	tell(&w, &w.things[0]);
	tell(&w, &w.things[1]);
	assert_int_equal(plan(&w, &m), 0);
	w.now += 60000;
	assert_int_equal(plan(&w, &m), 1);
	assert_true(rf_str_is(m[0].uid, "s1"));
	end(&w);
}

/* Three of 8Gi fit into the quota, and one of 16Gi waits that does not: were one evicted, it would come first. */
static void test_who_would_lose_its_turn_stays(void **state)
{
	struct rf_sched_quota bytes = { RF_LIT("share-bytes"), -1, 24 * GI, -1, -1 };
	struct rf_sched_queue q = { .name = RF_LIT("s"), .tenant = RF_LIT("s"), .weight = 1, .quotas = &bytes, .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_core_move *m;
	struct thing *t;
	struct world w;

	(void)state;
	begin(&w);
	two_cards_pack(&w);
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), 0);
	assert_int_equal(plan(&w, &m), 1); /* nobody waits: there is room beside it */
	t = add(&w, "s2", "s", share(16));
	put_pod(&w, t, "", false);
	decide(&w);
	assert_int_equal(t->n, 0);
	assert_int_equal(plan(&w, &m), 1); /* still room for both of 8Gi */
	bytes.limit = 23 * GI;
	assert_int_equal(rf_core_put_queue(w.c, &q, w.now, &err), 0);
	decide(&w);
	assert_int_equal(plan(&w, &m), 0);
	rf_core_del_pod(w.c, RF_LIT("s2"), w.now);
	assert_int_equal(plan(&w, &m), 1); /* it comes when the old one is gone */
	carry_out(&w, m, 1, TOGETHER);
	assert_int_equal(plan(&w, &m), 0);
	end(&w);
}

static void cordoned(struct world *w)
{
	struct rf_sched_node n = { .name = RF_LIT("n1"), .cpu_milli = 64000, .memory = 512 * GI, .pods = 110, .ready = true,
				   .cordoned = true };

	pool(w, "p", RF_SCHED_PACK);
	node(w, 1);
	node(w, 1);
	tenant(w, "s", RF_ISOLATION_SHARE);
	on(w, "s0", "s", share(30), "n0", 0, 0);
	on(w, "s1", "s", share(8), "n1", 0, 0);
	rf_core_put_node(w->c, &n);
}

/* Nobody can have what becomes free there. */
static void test_what_nobody_can_have_is_not_cleared(void **state)
{
	(void)state;
	check_plan(cordoned, NULL, 0);
}

/* --- slices ------------------------------------------------------------------------------------- */

static void cut(struct world *w, enum rf_sched_placement placement)
{
	pool(w, "p", placement);
	node(w, 2);
	tenant(w, "s", RF_ISOLATION_SLICE);
	on(w, "m0", "s", slice("3g.40gb"), "n0", 0, 0);
	on(w, "m1", "s", slice("2g.20gb"), "n0", 1, 0);
}

static void cut_pack(struct world *w)
{
	cut(w, RF_SCHED_PACK);
}

static void cut_spread(struct world *w)
{
	cut(w, RF_SCHED_SPREAD);
}

static void test_slices_meet_on_one_card(void **state)
{
	static const struct want want = { "m1", "n0", "gpu-1", "n0", "gpu-0" };

	(void)state;
	check_plan(cut_pack, &want, 1);
	check_plan(cut_spread, NULL, 0);
}

/* One more, of the same pod. */
static void and_on(struct world *w, struct thing *t, int card, int start)
{
	t->grants[t->n] = t->grants[0];
	t->grants[t->n].device = rf_str(text(w, "gpu-%d", card));
	t->grants[t->n++].start = start;
	tell(w, t);
}

static void two_on_one_card(struct world *w)
{
	cut_pack(w);
	gone(w, &w->things[1]);
	and_on(w, on(w, "m2", "s", slices("1g.10gb", 2), "n0", 1, 0), 1, 1);
}

/* It would leave both cards, and only one was looked at. */
static void two_on_two_cards(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node(w, 3);
	tenant(w, "s", RF_ISOLATION_SLICE);
	on(w, "m0", "s", slice("3g.40gb"), "n0", 0, 0);
	and_on(w, on(w, "m2", "s", slices("1g.10gb", 2), "n0", 1, 0), 2, 0);
}

static void test_parts_of_several_cards_stay(void **state)
{
	static const struct want want = { "m2", "n0", "gpu-1", "n0", "gpu-0" };

	(void)state;
	check_plan(two_on_one_card, &want, 1);
	check_plan(two_on_two_cards, NULL, 0);
}

/* Two small ones in the way of a large one: one goes beside the other, on the same card. */
static void one_in_the_way(struct world *w)
{
	pool(w, "p", RF_SCHED_PACK);
	node(w, 1);
	tenant(w, "s", RF_ISOLATION_SLICE);
	on(w, "m0", "s", slice("1g.10gb"), "n0", 0, 6);
	on(w, "m1", "s", slice("1g.10gb"), "n0", 0, 1)->pinned = true;
	tell(w, &w->things[1]);
}

/* On the other card there is room for it, and for no large one anyway. */
static void room_on_the_other(struct world *w)
{
	pool(w, "p", RF_SCHED_FRAGMENTATION);
	node(w, 2);
	tenant(w, "s", RF_ISOLATION_SLICE);
	on(w, "m0", "s", slice("3g.40gb"), "n0", 0, 4)->pinned = true;
	on(w, "m1", "s", slice("1g.10gb"), "n0", 0, 0)->pinned = true;
	on(w, "m2", "s", slice("3g.40gb"), "n0", 1, 0)->pinned = true;
	on(w, "m3", "s", slice("1g.10gb"), "n0", 1, 6);
	for (int i = 0; i < 3; i++)
		tell(w, &w->things[i]);
}

/* What is won on the one is lost on the other. */
static void nothing_won(struct world *w)
{
	room_on_the_other(w);
	gone(w, &w->things[1]);
}

static void test_room_for_larger_slices(void **state)
{
	static const struct want same = { "m0", "n0", "gpu-0", "n0", "gpu-0" }, other = { "m3", "n0", "gpu-1", "n0", "gpu-0" };
	struct rf_core_move *m;
	struct world w;

	(void)state;
	check_plan(one_in_the_way, &same, 1);
	check_plan(room_on_the_other, &other, 1);
	check_plan(nothing_won, NULL, 0);
	begin(&w);
	room_on_the_other(&w);
	assert_int_equal(plan(&w, &m), 1);
	assert_true(rf_str_is(m[0].profile, "3g.40gb"));
	assert_int_equal(m[0].free_cards, 0);
	assert_string_equal(rf_gpu_model_by_product(H100)->mig[4].name, "3g.40gb");
	assert_int_equal(count_slots(&w).n[4], 0);
	carry_out(&w, m, 1, SLOWLY);
	assert_int_equal(count_slots(&w).n[4], 1);
	end(&w);
}

/* --- any fleet ---------------------------------------------------------------------------------- */

static struct rf_gpu_ask any_ask(const char *ns)
{
	static const char *const profiles[] = { "1g.10gb", "2g.20gb", "3g.40gb" };

	if (ns[0] == 'm')
		return roll(8) == 0 ? slices(profiles[roll(2)], 2) : slice(profiles[roll(3)]);
	return ns[0] == 'w' || roll(8) == 0 ? whole(1 + roll(2)) : share(2 + roll(12) * (1 + roll(4)));
}

/* A fleet with holes: what came was placed by the core, and much of it is gone again. */
static void make_any(struct world *w)
{
	static const char *const tenants[] = { "sa", "sb", "sc", "ma", "mb", "wa" };
	unsigned many = 8 + roll(30), spread = roll(2);

	for (unsigned i = 0, n = 1 + roll(4); i < n; i++)
		node_with(w, 1 + roll(4), roll(4) == 0 ? "q" : "p", 4000 + roll(3) * 30000);
	pool(w, "q", (enum rf_sched_placement)roll(3));
	pool(w, "p", spread ? RF_SCHED_SPREAD : RF_SCHED_PACK);
	tenant_of(w, "sa", RF_ISOLATION_SHARE, "lab");
	tenant_of(w, "sb", RF_ISOLATION_COOPERATIVE, "lab");
	tenant(w, "sc", RF_ISOLATION_SHARE);
	tenant(w, "ma", RF_ISOLATION_SLICE);
	tenant(w, "mb", RF_ISOLATION_SHARE);
	tenant(w, "wa", roll(2) ? RF_ISOLATION_NODE : RF_ISOLATION_GPU);
	for (unsigned i = 0; i < many; i++) {
		const char *ns = tenants[roll(RF_COUNT(tenants))];
		struct thing *t = add(w, text(w, "%s%u", ns, i), ns, any_ask(ns));

		t->apart = roll(30) == 0;
		t->pinned = roll(20) == 0;
		t->likes = roll(20) == 0 ? "n0" : NULL;
		t->live = true;
		put_pod(w, t, "", false);
		decide(w);
	}
	for (size_t i = 0; i < w->n; i++) {
		struct thing *t = &w->things[i];

		if (t->live && (t->n == 0 || roll(2) == 0))
			gone(w, t);
	}
	if (roll(3) > 0)
		pool(w, "p", (enum rf_sched_placement)roll(2));
	decide(w);
}

struct sums {
	int plans, again, moves, inside, slices, wider, worse;
	int64_t cards, lost; /* planned; and then not free */
};

static void add_up(struct sums *sums, const struct rf_core_move *m, size_t n)
{
	sums->plans++;
	sums->moves += (int)n;
	for (size_t i = 0; i < n; i++) {
		sums->inside += rf_str_eq(m[i].from, m[i].to);
		sums->slices += m[i].uid.p[0] == 'm';
		sums->wider += m[i].profile.n > 0;
	}
}

/* The cards that it says are cleared. */
static int64_t count_cleared(const struct rf_core_move *m, size_t n)
{
	int64_t cleared = 0;

	for (size_t i = 0; i < n; i++) {
		bool seen = m[i].profile.n > 0;

		for (size_t k = 0; k < i && !seen; k++)
			seen = rf_str_eq(m[k].from, m[i].from) && rf_str_eq(m[k].device, m[i].device);
		cleared += !seen;
	}
	return cleared;
}

/* Every plan wins what it says, until there is none any more. Where the old ones are gone sooner, or all come in another
 * order, somebody may take a place that others were to leave: less is won then, and hardly ever something lost. */
static void try_any(unsigned seed, enum way way, struct sums *sums)
{
	struct rf_core_move *m;
	struct world w;
	size_t n;

	srand(seed);
	usual_stays = false;
	begin(&w);
	make_any(&w);
	usual_stays = true;
	for (int round = 0; (n = plan(&w, &m)) > 0; round++) {
		struct slots slots = count_slots(&w), then;
		int64_t cards = free_cards(&w);

		assert_true(round < 32);
		sums->again += round > 0;
		add_up(sums, m, n);
		assert_int_equal(m[n - 1].free_cards, cards + count_cleared(m, n));
		carry_out(&w, m, n, way);
		sums->cards += m[n - 1].free_cards - cards;
		sums->lost += m[n - 1].free_cards - free_cards(&w);
		sums->worse += free_cards(&w) < cards;
		if (way != SLOWLY)
			continue;
		assert_int_equal(free_cards(&w), m[n - 1].free_cards);
		then = count_slots(&w);
		assert_true(free_cards(&w) > cards || is_better(&then, &slots));
	}
	end(&w);
}

static unsigned trying; /* a seed */
static enum way trying_way;

static int say_seed(void **state)
{
	(void)state;
	if (trying != 0)
		print_error("seed %u, way %d\n", trying, (int)trying_way);
	return 0;
}

static void test_any_plan_comes_true(void **state)
{
	const char *to = getenv("RF_SEEDS");
	unsigned seeds = to != NULL ? (unsigned)atoi(to) : 1000;

	(void)state;
	for (enum way way = AT_ONCE; way < WAYS; way++) {
		struct sums sums = { 0 };

		trying_way = way;
		for (trying = 1; trying <= seeds; trying++)
			try_any(trying, way, &sums);
		trying = 0;
		print_message("%d plans, %d of them after another; %d moves, %d inside a node, %d of slices, %d for a larger one; %d "
			      "cards, %d not\n", sums.plans, sums.again, sums.moves, sums.inside, sums.slices, sums.wider,
			      (int)sums.cards, (int)sums.lost);
		assert_true(sums.inside > 50 && sums.slices > 50 && sums.wider > 10 && sums.moves > sums.inside);
		/* A second plan is for those whom the first was in the way of while it was carried out. */
		assert_true(sums.again * 5 < sums.plans && sums.lost * 20 < sums.cards);
		assert_true(way == ANYHOW ? sums.worse * 1000 < sums.plans : sums.worse == 0);
	}
}

/* Of seeds that went round for ever: whoever came first took the place that another had left. */
static void test_no_plan_undoes_the_last(void **state)
{
	static const unsigned seeds[] = { 2697, 7163, 16345, 18035, 18161 };
	struct sums sums = { 0 };

	(void)state;
	trying_way = TOGETHER;
	for (size_t i = 0; i < RF_COUNT(seeds); i++)
		try_any(trying = seeds[i], TOGETHER, &sums);
	trying = 0;
	assert_true(sums.plans > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_share_goes_to_the_card_beside),
		cmocka_unit_test(test_the_smaller_goes_beside_the_larger),
		cmocka_unit_test(test_isolation_holds),
		cmocka_unit_test(test_many_to_one),
		cmocka_unit_test(test_the_old_one_may_be_slow),
		cmocka_unit_test(test_wishes_hold),
		cmocka_unit_test(test_what_must_stay_stays),
		cmocka_unit_test(test_who_would_lose_its_turn_stays),
		cmocka_unit_test(test_what_nobody_can_have_is_not_cleared),
		cmocka_unit_test(test_slices_meet_on_one_card),
		cmocka_unit_test(test_parts_of_several_cards_stay),
		cmocka_unit_test(test_room_for_larger_slices),
		cmocka_unit_test_teardown(test_no_plan_undoes_the_last, say_seed),
		cmocka_unit_test_teardown(test_any_plan_comes_true, say_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
