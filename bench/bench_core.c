/* How fast the scheduler's core decides, on one core, without an API server: facts in, decisions out, as control
 * would. In processor time, so that a busy machine does not spoil it. Prints rows of a Markdown table.
 *	bench_core [case ...]
 * Each case runs in a process of its own. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sched/core.h"

#define GI (INT64_C(1) << 30)
#define MODEL RF_LIT("NVIDIA H100 80GB HBM3")
#define HOST RF_LIT("kubernetes.io/hostname")
#define AT_ONCE 32		       /* decisions, as control asks */
#define TIMES_MAX 400000
#define PATIENCE_NS INT64_C(5000000000) /* of one row: then it says how far it came */

static int64_t took[TIMES_MAX];
static size_t n_took;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What asking for the time adds to a figure: a system call, about half a microsecond. It is taken off. */
static int64_t clock_ns(void)
{
	static int64_t least = INT64_MAX;

	if (least < INT64_MAX)
		return least;
	for (int i = 0; i < 2000; i++) {
		int64_t start = now_ns(), ns = now_ns() - start;

		least = RF_MIN(least, ns);
	}
	return least;
}

static void note(int64_t ns)
{
	if (n_took < TIMES_MAX)
		took[n_took++] = RF_MAX(ns - clock_ns(), 0);
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

struct times {
	size_t n;
	double per_second, p50, p99, worst; /* us */
};

static struct times summary(void)
{
	struct times t = { .n = n_took };
	int64_t sum = 0;

	for (size_t i = 0; i < n_took; i++)
		sum += took[i];
	qsort(took, n_took, sizeof(took[0]), by_size);
	t.per_second = (double)n_took * 1e9 / (double)RF_MAX(sum, 1);
	t.p50 = n_took > 0 ? (double)took[n_took / 2] / 1e3 : 0;
	t.p99 = n_took > 0 ? (double)took[n_took * 99 / 100] / 1e3 : 0;
	t.worst = n_took > 0 ? (double)took[n_took - 1] / 1e3 : 0;
	n_took = 0;
	return t;
}

/* goal empty: none was set. */
static void row(const char *what, const char *goal, bool met, const char *fmt, ...) RF_PRINTF(4, 5);
static void row(const char *what, const char *goal, bool met, const char *fmt, ...)
{
	va_list ap;

	printf("| %s | %s | ", what, goal);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" | %s |\n", goal[0] == '\0' ? "" : met ? "yes" : "NO");
	fflush(stdout);
}

/* Each run makes the same decisions: the fastest is the one in which the machine did least else. */
#define RUNS 5

static int by_rate(const void *a, const void *b)
{
	const struct times *x = a, *y = b;

	return x->per_second < y->per_second ? -1 : x->per_second > y->per_second;
}

/* n is 0 where no decision was timed by itself. */
static void row_rate(const char *what, double per_second, double p99, struct times runs[RUNS])
{
	const struct times *t = &runs[RUNS - 1];
	char goal[64] = "", each[120] = "";

	qsort(runs, RUNS, sizeof(runs[0]), by_rate);
	if (per_second > 0 && p99 > 0)
		snprintf(goal, sizeof(goal), "%.0f/s, p99 %.0f us", per_second, p99);
	else if (per_second > 0)
		snprintf(goal, sizeof(goal), "%.0f/s", per_second);
	if (t->n > 0)
		snprintf(each, sizeof(each), ", p50 %.1f us, p99 %.1f us, worst %.0f us (%zu)", t->p50, t->p99, t->worst, t->n);
	row(what, goal, t->per_second >= per_second && (p99 == 0 || t->p99 < p99), "%.0f/s%s; the middle of %d runs %.0f/s", t->per_second,
	    each, RUNS, runs[RUNS / 2].per_second);
}

static void row_ms(const char *what, double goal_ms, double ms, const char *extra)
{
	char goal[64] = "";

	if (goal_ms > 0)
		snprintf(goal, sizeof(goal), "%.0f ms", goal_ms);
	row(what, goal, ms <= goal_ms, "%.3f ms%s", ms, extra);
}

static void die(const char *why)
{
	fprintf(stderr, "bench_core: %s\n", why);
	exit(1);
}

/* --- a cluster -------------------------------------------------------------------------------- */

struct world {
	struct rf_core *c;
	struct rf_arena a;
	int64_t now, rv;
};

static void begin(struct world *w, size_t victims)
{
	struct rf_core_config config;

	rf_core_config_default(&config);
	if (victims > 0)
		config.victims_most = victims;
	*w = (struct world){ .now = INT64_C(1700000000000) };
	w->c = rf_core_new(&config);
}

static void end(struct world *w)
{
	rf_core_free(w->c);
	rf_arena_done(&w->a);
}

static void put_node(struct world *w, size_t i, size_t cards)
{
	char name[32], rack[32], zone[32], device[32][16];
	struct rf_sched_pair labels[3];
	struct rf_sched_device d[32] = { 0 };
	struct rf_sched_node n = { .cpu_milli = 192000, .memory = 2048 * GI, .pods = 250, .ready = true, .labels = labels, .n_labels = 3 };

	snprintf(name, sizeof(name), "node-%05zu", i);
	snprintf(rack, sizeof(rack), "rack-%zu", i % 1000);
	snprintf(zone, sizeof(zone), "zone-%zu", i % 10);
	labels[0] = (struct rf_sched_pair){ HOST, rf_str(name) };
	labels[1] = (struct rf_sched_pair){ RF_LIT("rack"), rf_str(rack) };
	labels[2] = (struct rf_sched_pair){ RF_LIT("zone"), rf_str(zone) };
	n.name = rf_str(name);
	for (size_t k = 0; k < cards; k++) {
		snprintf(device[k], sizeof(device[k]), "gpu-%zu", k);
		d[k] = (struct rf_sched_device){
			.name = rf_str(device[k]), .model = MODEL, .memory = 80 * GI, .milli = 1000, .numa = (uint8_t)(k / 4)
		};
	}
	rf_core_put_node(w->c, &n);
	rf_core_put_devices(w->c, n.name, d, cards);
}

static void nodes(struct world *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_node(w, i, 8);
}

/* A tenant, its namespace of the same name, and its queue. guaranteed -1: its own queue, as a quota makes it. */
static void tenant(struct world *w, const char *name, const char *parent, int64_t guaranteed)
{
	struct rf_tenant t = { .name = rf_str(name),
			       .isolation = RF_ISOLATION_SHARE,
			       .trust_domain = RF_LIT("all"),
			       .quota_gpus = 1000000,
			       .quota_gpu_memory = 1000000 * 80 * GI,
			       .quota_pods = -1,
			       .queue_weight = 1 };
	struct rf_sched_quota quotas[] = { { RF_LIT("cards"), guaranteed, -1, -1, -1 },
					   { RF_LIT("mig/1g.10gb"), -1, 1000000, -1, -1 },
					   { RF_LIT("mig/2g.20gb"), -1, 1000000, -1, -1 },
					   { RF_LIT("mig/3g.40gb"), -1, 1000000, -1, -1 } };
	struct rf_sched_queue q = { .name = t.name, .parent = rf_str(parent), .tenant = t.name, .weight = 1, .quotas = quotas, .n_quotas = 4 };
	struct rf_err err;

	rf_core_put_tenant(w->c, &t);
	rf_core_put_namespace(w->c, t.name, t.name);
	if (rf_core_put_queue(w->c, &q, w->now, &err) < 0)
		die(err.msg);
}

static void queue_above(struct world *w, const char *name, const char *parent)
{
	struct rf_sched_queue q = { .name = rf_str(name), .parent = rf_str(parent), .tenant = RF_STR_EMPTY, .weight = 1 };
	struct rf_err err;

	if (rf_core_put_queue(w->c, &q, w->now, &err) < 0)
		die(err.msg);
}

/* --- pods -------------------------------------------------------------------------------------- */

struct ask {
	char uid[40], name[32], text[32], number[32];
	struct rf_sched_pod p;
	struct rf_sched_container k;
	struct rf_sched_pair label, selector;
	struct rf_sched_near near;
	struct rf_sched_spread spread;
	struct rf_sched_match match;
	struct rf_str value;
};

static void make(struct ask *a, size_t i, const char *ns, int64_t cards)
{
	memset(a, 0, sizeof(*a));
	snprintf(a->uid, sizeof(a->uid), "%08x-5bd1-4c1f-9d42-%012zx", (unsigned)(i * 2654435761u), i);
	snprintf(a->name, sizeof(a->name), "train-%zu", i);
	a->k = (struct rf_sched_container){ .name = RF_LIT("main"), .ask = { .cards = cards } };
	a->p = (struct rf_sched_pod){ .uid = rf_str(a->uid),
				      .ns = rf_str(ns),
				      .name = rf_str(a->name),
				      .created_ms = INT64_C(1700000000000) + (int64_t)i,
				      .cpu_milli = 2000 * RF_MAX(cards, 1),
				      .memory = 16 * GI,
				      .containers = &a->k,
				      .n_containers = 1,
				      .grace_ms = 30000 };
}

static void label(struct ask *a, const char *key, const char *stem, size_t n)
{
	snprintf(a->text, sizeof(a->text), "%s%zu", stem, n);
	a->label = (struct rf_sched_pair){ rf_str(key), rf_str(a->text) };
	a->p.labels = &a->label;
	a->p.n_labels = 1;
}

static void select_itself(struct ask *a, struct rf_sched_term *ret)
{
	a->value = a->label.value;
	a->match = (struct rf_sched_match){ .key = a->label.key, .op = RF_SCHED_IN, .values = &a->value, .n_values = 1 };
	*ret = (struct rf_sched_term){ .all = &a->match, .n = 1 };
}

/* What a tenant may do to make it hard. */
enum hard {
	PLAIN,
	SHAPES,		/* each pod asks for another amount of memory */
	SELECTORS,	/* 1,000 of them */
	APART,		/* anti-affinity by host within each of 1,000 applications */
	APART_EACH,	/* each pod with an anti-affinity of its own */
	SPREAD,		/* of one application over 10 zones */
	HARDS
};
static const char *const hard_names[HARDS] = { "all alike",		      "each another shape",
					       "1,000 selectors",	      "anti-affinity, 1,000 applications",
					       "each its own anti-affinity", "spread over 10 zones" };

static void harden(struct ask *a, size_t i, enum hard h)
{
	if (h == SHAPES)
		a->p.memory += (int64_t)i << 12;
	if (h == SELECTORS) {
		snprintf(a->number, sizeof(a->number), "rack-%zu", i % 1000);
		a->selector = (struct rf_sched_pair){ RF_LIT("rack"), rf_str(a->number) };
		a->p.selector = &a->selector;
		a->p.n_selector = 1;
	}
	if (h == APART || h == APART_EACH) {
		label(a, "app", "app-", h == APART ? i % 1000 : i);
		a->near = (struct rf_sched_near){ .apart = true, .topology = HOST };
		select_itself(a, &a->near.labels);
		a->p.nears = &a->near;
		a->p.n_nears = 1;
	}
	if (h == SPREAD) {
		label(a, "app", "app-", 0);
		a->spread = (struct rf_sched_spread){ .topology = RF_LIT("zone"), .max_skew = 1, .min_domains = 1 };
		select_itself(a, &a->spread.labels);
		a->p.spreads = &a->spread;
		a->p.n_spreads = 1;
	}
}

static void put(struct world *w, struct ask *a)
{
	a->p.rv = ++w->rv;
	rf_core_put_pod(w->c, &a->p, w->now);
}

static size_t decide_at_most(struct world *w, size_t most, struct rf_core_decision **ret)
{
	rf_arena_reset(&w->a);
	return rf_core_decide(w->c, w->now, most, &w->a, ret);
}

static size_t decide(struct world *w, struct rf_core_decision **ret)
{
	return decide_at_most(w, AT_ONCE, ret);
}

/* After n decisions: is there more to decide at this moment? */
static bool more(const struct world *w, size_t n)
{
	return n > 0 || rf_core_next_ms(w->c, w->now) <= w->now;
}

static void rest(struct world *w)
{
	struct rf_core_decision *d;

	while (more(w, decide(w, &d)))
		;
}

/* Until something is bound; false: nothing is. */
static bool until_bound(struct world *w, struct rf_core_decision *ret)
{
	struct rf_core_decision *d;

	for (;;) {
		size_t n = decide(w, &d);

		for (size_t i = 0; i < n; i++) {
			if (d[i].verdict != RF_CORE_BIND)
				continue;
			*ret = d[i];
			return true;
		}
		if (!more(w, n))
			return false;
	}
}

static size_t number_of(struct rf_str name)
{
	return strtoul(strrchr(name.p, '-') + 1, NULL, 10); /* an arena's strings end */
}

static void claim_name(char ret[48], size_t i)
{
	snprintf(ret, 48, "train-%zu-gpus", i);
}

/* What the API then tells: the claim, and the bound pod. */
static void carry(struct world *w, struct ask *a, size_t i, struct rf_str node, struct rf_sched_grant *grants, size_t n)
{
	char name[48];
	struct rf_sched_claim k = { .ns = a->p.ns, .pod_uid = a->p.uid, .tenant = a->p.ns, .node = node, .grants = grants, .n_grants = n };

	claim_name(name, i);
	k.name = rf_str(name);
	k.rv = ++w->rv;
	if (n > 0)
		rf_core_put_claim(w->c, &k);
	a->p.node = node;
	a->p.started_ms = w->now;
	put(w, a);
}

static void gone(struct world *w, const struct ask *a, size_t i)
{
	char name[48];

	claim_name(name, i);
	rf_core_del_pod(w->c, a->p.uid, w->now);
	rf_core_del_claim(w->c, a->p.ns, rf_str(name), w->now);
}

/* Runs already, on whole cards from `first` on. */
static void put_running(struct world *w, struct ask *a, size_t i, size_t node, size_t first)
{
	char name[32], devices[8][16];
	struct rf_sched_grant g[8];
	size_t n = (size_t)a->k.ask.cards;

	snprintf(name, sizeof(name), "node-%05zu", node);
	for (size_t k = 0; k < n; k++) {
		snprintf(devices[k], sizeof(devices[k]), "gpu-%zu", first + k);
		g[k] = (struct rf_sched_grant){ .container = RF_LIT("main"), .device = rf_str(devices[k]), .bytes = 80 * GI, .milli = 1000, .whole = true, .profile = RF_STR_EMPTY };
	}
	carry(w, a, i, rf_str(name), g, n);
}

/* A full cluster of one tenant's pods of so many cards each. */
static void fill(struct world *w, size_t n_nodes, const char *ns, size_t cards, enum hard h, size_t first)
{
	struct ask a;

	for (size_t i = 0; i < n_nodes * 8 / cards; i++) {
		make(&a, first + i, ns, (int64_t)cards);
		harden(&a, first + i, h);
		put_running(w, &a, first + i, i / (8 / cards), i % (8 / cards) * cards);
	}
	rest(w);
	w->now += 60000;
}

/* --- decisions per second ----------------------------------------------------------------------- */

/* One pod after the other: told, and decided at once. facts: what the API echoes of it counts, too. */
static struct times fill_once(enum hard h, bool facts, size_t n)
{
	struct rf_core_decision *d;
	struct world w;
	struct ask a;
	size_t bound = 0;
	int64_t from;

	begin(&w, 0);
	nodes(&w, 5000);
	tenant(&w, "a", "", 0);
	decide(&w, &d);
	from = now_ns();
	for (size_t i = 0; i < n && now_ns() - from < PATIENCE_NS; i++) {
		int64_t start;

		make(&a, i, "a", 1);
		harden(&a, i, h);
		w.now += 1;
		start = now_ns();
		put(&w, &a);
		for (size_t k = decide(&w, &d); k > 0; k--, d++) {
			if (d->verdict != RF_CORE_BIND)
				continue;
			bound++;
			if (facts)
				carry(&w, &a, i, d->node, d->grants, d->n_grants);
		}
		note(now_ns() - start);
	}
	if (bound != n_took)
		fprintf(stderr, "bench_core: %s: %zu of %zu bound\n", hard_names[h], bound, n_took);
	end(&w);
	return summary();
}

static void fill_one_by_one(enum hard h, bool facts, size_t n, double goal)
{
	struct times runs[RUNS];
	char what[120];

	for (size_t i = 0; i < RUNS; i++)
		runs[i] = fill_once(h, facts, n);
	snprintf(what, sizeof(what), "5,000 nodes of 8 cards, one card each, %s%s", hard_names[h],
		 facts ? ", with the echo of each (claim, bound pod)" : "");
	row_rate(what, goal, goal > 0 ? 100 : 0, runs);
}

/* All are there, then they are decided. */
static struct times fill_backlog(void)
{
	struct rf_core_decision *d;
	struct world w;
	struct ask a;
	size_t bound = 0, n;
	int64_t start, ns;

	begin(&w, 0);
	nodes(&w, 5000);
	tenant(&w, "a", "", 0);
	decide(&w, &d);
	start = now_ns();
	for (size_t i = 0; i < 40000; i++) {
		make(&a, i, "a", 1);
		put(&w, &a);
	}
	while (more(&w, n = decide(&w, &d)))
		bound += n;
	ns = now_ns() - start;
	end(&w);
	return (struct times){ .per_second = (double)bound * 1e9 / (double)ns };
}

static void case_fill(void)
{
	struct times runs[RUNS];

	fill_one_by_one(PLAIN, false, 40000, 200000);
	fill_one_by_one(PLAIN, true, 40000, 0);
	for (size_t i = 0; i < RUNS; i++)
		runs[i] = fill_backlog();
	row_rate("the same 40,000, told all and then decided, 32 at a time", 200000, 0, runs);
}

static void case_hard(void)
{
	fill_one_by_one(SHAPES, false, 40000, 0);
	fill_one_by_one(SELECTORS, false, 40000, 0);
	fill_one_by_one(APART, false, 40000, 0);
	fill_one_by_one(APART_EACH, false, 40000, 0);
	fill_one_by_one(SPREAD, false, 40000, 0);
}

/* --- shares and slices -------------------------------------------------------------------------- */

static void piece(struct ask *a, size_t i, const char *ns, uint64_t kind, bool shapes)
{
	static const int64_t MILLI[] = { 100, 200, 250, 300, 500, 750 };
	static const char *const PROFILE[] = { "1g.10gb", "1g.10gb", "1g.10gb", "2g.20gb", "2g.20gb", "3g.40gb" };

	make(a, i, ns, 0);
	if (kind < 6) {
		a->k.ask.share_milli = MILLI[kind];
		a->k.ask.share_bytes = MILLI[kind] * 80 * GI / 1000 - (shapes ? (int64_t)(i % 100000) << 12 : 0);
	} else {
		a->k.ask.slices = 1;
		a->k.ask.profile = rf_str(PROFILE[kind - 6]);
	}
	a->p.cpu_milli = 1000 + (int64_t)(kind % 3) * 1000 + (shapes ? (int64_t)(i % 100000) / 100 : 0);
	a->p.memory = 8 * GI;
}

/* Somebody who keeps a tenth of each kind, and uses none of it. */
static void keeper(struct world *w, size_t n_nodes)
{
	int64_t cards = (int64_t)n_nodes * 8 / 10;
	struct rf_sched_quota quotas[] = { { RF_LIT("cards"), cards, -1, 0, -1 },
					   { RF_LIT("cards/H100"), cards, -1, 0, -1 },
					   { RF_LIT("share-bytes"), cards * 80 * GI, -1, 0, -1 },
					   { RF_LIT("share-milli"), cards * 1000, -1, 0, -1 },
					   { RF_LIT("mig/1g.10gb"), cards * 7, -1, 0, -1 } };
	struct rf_sched_queue q = { .name = RF_LIT("keeper"), .tenant = RF_LIT("keeper"), .weight = 1, .quotas = quotas, .n_quotas = RF_COUNT(quotas) };
	struct rf_err err;

	tenant(w, "keeper", "", 0);
	if (rf_core_put_queue(w->c, &q, w->now, &err) < 0)
		die(err.msg);
}

/* As many as cards, about half of what there is; one ends before each decision. */
static void churn_once(size_t n_nodes, size_t tenants, bool shapes, bool keeps, struct times *ret, struct times *ret_all)
{
	size_t n = n_nodes * 8, most = n + 100000, done = 0;
	struct rf_prng r = { .state = 11 };
	uint64_t *kinds = calloc(most, sizeof(*kinds));
	size_t *at = calloc(n, sizeof(*at));
	uint32_t *whose = calloc(most, sizeof(*whose));
	struct rf_core_decision *d;
	int64_t from = now_ns(), all = 0;
	char name[100][16];
	struct world w;
	struct ask a;

	begin(&w, 0);
	nodes(&w, n_nodes);
	for (size_t i = 0; i < tenants; i++) {
		snprintf(name[i], sizeof(name[i]), "team-%zu", i);
		tenant(&w, name[i], "", 0);
	}
	if (keeps)
		keeper(&w, n_nodes);
	for (size_t i = 0; i < most && now_ns() - from < PATIENCE_NS; i++) {
		size_t slot = i < n ? i : rf_prng_below(&r, n);
		int64_t start, facts;

		kinds[i] = rf_prng_below(&r, 12);
		whose[i] = (uint32_t)rf_prng_below(&r, tenants);
		w.now += 1;
		if (i == n)
			n_took = 0, all = 0;
		facts = now_ns();
		if (i >= n) {
			piece(&a, at[slot], name[whose[at[slot]]], kinds[at[slot]], shapes);
			gone(&w, &a, at[slot]);
		}
		at[slot] = i;
		piece(&a, i, name[whose[i]], kinds[i], shapes);
		start = now_ns();
		put(&w, &a);
		size_t k = decide(&w, &d);
		note(now_ns() - start);
		for (; k > 0; k--, d++) {
			if (d->verdict != RF_CORE_BIND)
				continue;
			done++;
			carry(&w, &a, i, d->node, d->grants, d->n_grants);
		}
		all += now_ns() - facts;
	}
	if (done < most && now_ns() - from < PATIENCE_NS)
		fprintf(stderr, "bench_core: churn: %zu of %zu bound\n", done, most);
	*ret = summary();
	*ret_all = (struct times){ .per_second = (double)ret->n * 1e9 / (double)all };
	end(&w);
	free(kinds);
	free(at);
	free(whose);
}

static void churn(size_t n_nodes, size_t tenants, bool shapes, bool keeps, double goal)
{
	struct times runs[RUNS], all[RUNS];
	char what[160];

	for (size_t i = 0; i < RUNS; i++)
		churn_once(n_nodes, tenants, shapes, keeps, &runs[i], &all[i]);
	snprintf(what, sizeof(what), "%zu nodes half full, shares and MIG slices come and go, %zu tenant%s%s%s", n_nodes, tenants, tenants == 1 ? "" : "s",
		 shapes ? ", each another shape" : "", keeps ? ", a tenth of each kind is not lent" : "");
	row_rate(what, goal, 0, runs);
	snprintf(what + strlen(what), sizeof(what) - strlen(what), "; all facts counted");
	row_rate(what, 0, 0, all);
}

static void case_pieces(void)
{
	churn(500, 1, false, false, 50000);
	churn(500, 100, false, false, 50000);
	churn(500, 100, false, true, 0);
	churn(500, 100, true, false, 0);
}

/* --- gangs that do not fit ------------------------------------------------------------------------ */

static void put_gang(struct world *w, const char *ns, size_t number, size_t members, int64_t cards, size_t first, enum hard h)
{
	char name[32];
	struct rf_sched_group g = { .ns = rf_str(ns), .min = (int64_t)members, .created_ms = w->now, .rv = ++w->rv };
	struct ask a;

	snprintf(name, sizeof(name), "ring-%zu", number);
	g.name = rf_str(name);
	g.queue = g.topology = RF_STR_EMPTY;
	rf_core_put_group(w->c, &g);
	for (size_t i = 0; i < members; i++) {
		make(&a, first + i, ns, cards);
		harden(&a, first + i, h);
		a.p.group = g.name;
		put(w, &a);
	}
}

/* ours: whose pods fill the cluster: within its guarantee, or ours with a higher priority. */
static void full_gangs(size_t members, int64_t cards, enum hard victims, enum hard gang, const char *what)
{
	struct rf_core_decision *d;
	size_t waits = 0, n;
	struct world w;
	int64_t start;
	char extra[64];
	double ms;

	begin(&w, 0);
	nodes(&w, 500);
	tenant(&w, "a", "", 4000);
	tenant(&w, "b", "", 0);
	fill(&w, 500, "a", 1, victims, 0);
	start = now_ns();
	for (size_t i = 0; i < 10; i++)
		put_gang(&w, "b", i, members, cards, 1000000 + i * 1000, gang);
	while (more(&w, n = decide(&w, &d))) {
		for (size_t i = 0; i < n; i++)
			waits += d[i].verdict == RF_CORE_WAIT;
	}
	ms = (double)(now_ns() - start) / 1e6;
	snprintf(extra, sizeof(extra), ", %zu reasons", waits);
	row_ms(what, 200, ms, extra);
	end(&w);
}

static void case_gangs(void)
{
	full_gangs(8, 1, PLAIN, PLAIN, "500 full nodes, ten gangs of 8 pods of 1 card: all are told why not");
	full_gangs(1, 8, PLAIN, PLAIN, "500 full nodes, ten gangs of 1 pod of 8 cards");
	full_gangs(8, 8, SHAPES, SHAPES, "500 full nodes, ten gangs of 8 pods of 8 cards, each pod another shape");
	full_gangs(64, 1, APART_EACH, APART, "500 full nodes, ten gangs of 64 pods with anti-affinity");
}

/* --- taking back ---------------------------------------------------------------------------------- */

struct reclaim {
	const char *what;
	size_t nodes, victim_cards, members;
	int64_t cards;
	enum hard victims, gang;
	size_t budgets, most;
	double goal_ms;
};

static void put_budgets(struct world *w, size_t n, int64_t allowed)
{
	for (size_t i = 0; i < n; i++) {
		char name[32], value[32];
		struct rf_str v;
		struct rf_sched_match m = { .key = RF_LIT("app"), .op = RF_SCHED_IN, .values = &v, .n_values = 1 };
		struct rf_sched_budget b = { .ns = RF_LIT("a"), .labels = { .all = &m, .n = 1 }, .allowed = allowed };

		snprintf(name, sizeof(name), "budget-%zu", i);
		snprintf(value, sizeof(value), "app-%zu", i);
		v = rf_str(value);
		b.name = rf_str(name);
		rf_core_put_budget(w->c, &b);
	}
}

static void reclaim(const struct reclaim *r)
{
	size_t evicts = 0, n;
	double ms[5], swap;
	char extra[64];
	size_t repeats = r->members > 1 ? 3 : 5;

	for (size_t t = 0; t < repeats; t++) {
		struct rf_core_decision *d;
		struct world w;
		struct ask a;
		int64_t start;

		begin(&w, r->most);
		nodes(&w, r->nodes);
		tenant(&w, "a", "", 0);
		tenant(&w, "b", "", (int64_t)r->nodes * 4);
		put_budgets(&w, r->budgets, 0);
		fill(&w, r->nodes, "a", r->victim_cards, r->victims, 0);
		evicts = 0;
		start = now_ns();
		if (r->members > 1) {
			put_gang(&w, "b", 0, r->members, r->cards, 1000000, r->gang);
		} else {
			make(&a, 1000000, "b", r->cards);
			harden(&a, 1000000, r->gang);
			put(&w, &a);
		}
		while (more(&w, n = decide_at_most(&w, 100000, &d))) {
			for (size_t i = 0; i < n; i++)
				evicts += d[i].verdict == RF_CORE_EVICT;
			if (evicts > 0)
				break;
		}
		ms[t] = (double)(now_ns() - start) / 1e6;
		end(&w);
	}
	for (size_t i = 0; i < repeats; i++) {
		for (size_t k = i + 1; k < repeats; k++) {
			if (ms[k] < ms[i])
				swap = ms[i], ms[i] = ms[k], ms[k] = swap;
		}
	}
	snprintf(extra, sizeof(extra), ", %zu evictions (worst %.1f)", evicts, ms[repeats - 1]);
	row_ms(r->what, r->goal_ms, ms[repeats / 2], extra);
}

static const struct reclaim reclaims[] = {
	{ "reclaim one card of 4,000 running (500 nodes)", 500, 1, 1, 1, PLAIN, PLAIN, 0, 0, 20 },
	{ "... of 4,000 running, each another shape", 500, 1, 1, 1, SHAPES, SHAPES, 0, 0, 20 },
	{ "... of 4,000 running with anti-affinity each", 500, 1, 1, 1, APART_EACH, APART_EACH, 0, 0, 20 },
	{ "... of 4,000 running, 1,000 of them under budgets that are used up", 500, 1, 1, 1, APART_EACH, PLAIN, 1000, 0, 20 },
	{ "... of 4,000 running, all under 1,000 budgets that are used up: no plan", 500, 1, 1, 1, APART, PLAIN, 1000, 0, 20 },
	{ "reclaim one card of 8,000 running (1,000 nodes)", 1000, 1, 1, 1, PLAIN, PLAIN, 0, 0, 100 },
	{ "reclaim 8 cards on one of 1,000 nodes, 8,000 running", 1000, 1, 1, 8, PLAIN, PLAIN, 0, 0, 100 },
	{ "... each another shape", 1000, 1, 1, 8, SHAPES, SHAPES, 0, 0, 100 },
	{ "reclaim for a gang of 8 pods of 8 cards, 1,000 nodes, 8,000 running", 1000, 1, 8, 8, PLAIN, PLAIN, 0, 0, 100 },
	{ "reclaim for a gang of 250 pods of 8 cards (2,000 cards) from 500 pods of 8", 500, 8, 250, 8, PLAIN, PLAIN, 0, 0, 1000 },
	{ "... from 4,000 pods of 1 card, up to 4,096 victims", 500, 1, 250, 8, PLAIN, PLAIN, 0, 4096, 1000 },
	{ "... from 4,000 pods of 1 card, as many victims as the default allows", 500, 1, 250, 8, PLAIN, PLAIN, 0, 0, 1000 },
	{ "... from 4,000 different pods of 1 card, up to 4,096 victims", 500, 1, 250, 8, SHAPES, SHAPES, 0, 4096, 1000 },
	{ "... of 250 pods with anti-affinity, from 4,000 different pods", 500, 1, 250, 8, APART_EACH, APART, 0, 4096, 1000 },
};

static void case_reclaim(void)
{
	for (size_t i = 0; i < RF_COUNT(reclaims); i++)
		reclaim(&reclaims[i]);
}

/* --- queues ----------------------------------------------------------------------------------------- */

static char leaf_names[1000][24];

/* 10 organisations of 10 teams of 10 tenants. */
static void grow(struct world *w)
{
	char org[24], team[24];

	for (int i = 0; i < 1000; i++) {
		snprintf(org, sizeof(org), "org%d", i / 100);
		snprintf(team, sizeof(team), "team%d-%d", i / 100, i / 10 % 10);
		snprintf(leaf_names[i], sizeof(leaf_names[i]), "tenant%d", i);
		if (i % 100 == 0)
			queue_above(w, org, "");
		if (i % 10 == 0)
			queue_above(w, team, org);
		tenant(w, leaf_names[i], team, 0);
	}
}

/* What is short: cards, or memory. */
enum lack { CARDS_ALIKE, CARDS_SHAPES, MEMORY };

static void queued(struct ask *a, size_t i, enum lack lack)
{
	struct rf_prng r = { .state = i * 77 + 5 };

	for (int k = 0; k < 3; k++)
		(void)rf_prng_next(&r);
	make(a, i, leaf_names[rf_prng_below(&r, 1000)], lack == MEMORY ? 1 : INT64_C(1) << rf_prng_below(&r, 4));
	if (lack == MEMORY)
		a->p.memory = (int64_t)(1 + rf_prng_below(&r, 1500)) * GI;
	if (lack != CARDS_ALIKE)
		harden(a, i, SHAPES);
}

static struct times admit_all(size_t n_nodes, size_t n_pods, enum lack lack)
{
	size_t done = 0, first = 0, n, *order = calloc(n_pods, sizeof(*order));
	struct rf_core_decision *d;
	struct world w;
	struct ask a;
	int64_t start, told, began;
	double rate;

	begin(&w, 0);
	grow(&w);
	nodes(&w, n_nodes);
	decide(&w, &d);
	start = now_ns();
	for (size_t i = 0; i < n_pods; i++) {
		queued(&a, i, lack);
		put(&w, &a);
	}
	told = now_ns() - start;
	start = now_ns();
	began = w.now;
	while (done < n_pods && now_ns() - start < PATIENCE_NS) {
		n = decide(&w, &d);
		for (size_t i = 0; i < n; i++) {
			if (d[i].verdict != RF_CORE_BIND)
				continue;
			order[done++] = number_of(d[i].name);
			queued(&a, order[done - 1], lack);
			carry(&w, &a, order[done - 1], d[i].node, d[i].grants, d[i].n_grants);
		}
		if (more(&w, n))
			continue;
		if (first == done)
			die("admissions: nothing runs and nothing starts");
		w.now = began + (now_ns() - start) / 1000000; /* as fast as it can */
		queued(&a, order[first], lack);
		gone(&w, &a, order[first++]);
	}
	rate = (double)done * 1e9 / (double)(now_ns() - start + told);
	if (done < n_pods)
		fprintf(stderr, "bench_core: admissions: %zu of %zu\n", done, n_pods);
	end(&w);
	free(order);
	return (struct times){ .per_second = rate };
}

/* With all facts. */
static void admissions(size_t n_nodes, size_t n_pods, enum lack lack, const char *what, double goal)
{
	struct times runs[RUNS];

	for (size_t i = 0; i < RUNS; i++)
		runs[i] = admit_all(n_nodes, n_pods, lack);
	row_rate(what, goal, 0, runs);
}

static void case_queues(void)
{
	admissions(25000, 50000, CARDS_ALIKE, "1,000 queues, 50,000 pods of 1 to 8 cards, room for all (25,000 nodes)", 20000);
	admissions(500, 50000, CARDS_ALIKE, "1,000 queues, 50,000 pods of 1 to 8 cards, 500 nodes: one ends, the next starts", 20000);
	admissions(500, 50000, CARDS_SHAPES, "... each another shape", 0);
	admissions(100, 10000, MEMORY, "1,000 queues, 10,000 different pods of 1 card and 1 to 1,500 GiB, 100 nodes: memory is short", 20000);
}

/* --- behind others that do not fit -------------------------------------------------------------------- */

/* One card of each node is free; the others ask for two. */
static void behind(enum hard h, const char *what)
{
	struct rf_core_decision bind;
	double first, after;
	struct world w;
	struct ask a;
	int64_t start;
	char extra[64];

	begin(&w, 0);
	nodes(&w, 500);
	tenant(&w, "a", "", 0);
	for (size_t i = 0; i < 3500; i++) {
		make(&a, i, "a", 1);
		put_running(&w, &a, i, i / 7, i % 7);
	}
	rest(&w);
	for (size_t i = 0; i < 10000; i++) {
		make(&a, 100000 + i, "a", 2);
		harden(&a, i, h);
		put(&w, &a);
	}
	make(&a, 200000, "a", 1);
	start = now_ns();
	put(&w, &a);
	if (!until_bound(&w, &bind))
		die("behind: not bound");
	first = (double)(now_ns() - start) / 1e6;
	/* Later, all have been refused; that one ends, so that each may be tried again, and another comes. */
	for (size_t t = 0; t < 11; t++) {
		carry(&w, &a, 200000 + t, bind.node, bind.grants, bind.n_grants);
		rest(&w);
		w.now += 5000;
		start = now_ns();
		gone(&w, &a, 200000 + t);
		make(&a, 200001 + t, "a", 1);
		put(&w, &a);
		if (!until_bound(&w, &bind))
			die("behind: not bound");
		note(now_ns() - start);
	}
	after = summary().p50 / 1e3;
	snprintf(extra, sizeof(extra), " (%.3f ms when all are new, %.3f ms after an end)", first, after);
	row_ms(what, 50, RF_MAX(first, after), extra);
	end(&w);
}

static void case_behind(void)
{
	behind(PLAIN, "behind 10,000 of its own queue that do not fit, all alike");
	behind(SHAPES, "... each another shape");
	behind(APART, "... with anti-affinity, 1,000 applications");
	behind(APART_EACH, "... each its own anti-affinity");
	behind(SELECTORS, "... 1,000 selectors");
}

/* --- the neighbour --------------------------------------------------------------------------------------- */

#define ROUNDS 4000

struct beside {
	double p50, p99, p999, worst; /* us, told to decided */
	double turn;		      /* us, the longest that one call took in between: who comes then waits so long */
	double load;		      /* percent of the time that work in between takes */
};

static int64_t between_ns, turn_ns;

/* As control does: called again whenever the core says so, until then. */
static void wait_until(struct world *w, int64_t at)
{
	struct rf_core_decision *d;

	for (int64_t next = w->now; next <= at; next = rf_core_next_ms(w->c, w->now)) {
		int64_t start, ns;

		w->now = RF_MAX(next, w->now);
		start = now_ns();
		(void)decide(w, &d);
		ns = RF_MAX(now_ns() - start - clock_ns(), 0);
		between_ns += ns;
		turn_ns = RF_MAX(turn_ns, ns);
	}
	w->now = at;
}

/* b's pods come and go, one every 10 ms, while a has n that wait. The same decisions come each time, so that of several
 * runs the least of each is taken: what else the machine did is not in it. */
static void beside_once(size_t n_hog, enum hard h, int64_t cards, int64_t guaranteed, size_t leavers, int64_t *least)
{
	struct rf_core_decision bind;
	struct world w;
	struct ask a;

	begin(&w, 0);
	nodes(&w, 500);
	tenant(&w, "a", "", guaranteed);
	tenant(&w, "b", "", 2000);
	for (size_t i = 0; i < 3500; i++) {
		make(&a, i, i % 2 == 0 ? "a" : "b", 1);
		a.p.deleting = i % 2 == 0 && i / 2 < leavers; /* and does not leave */
		put_running(&w, &a, i, i / 7, i % 7);
	}
	for (size_t i = 0; i < n_hog; i++) {
		make(&a, 1000000 + i, "a", cards);
		harden(&a, i, h);
		put(&w, &a);
	}
	rest(&w);
	between_ns = turn_ns = 0;
	for (size_t t = 0; t < ROUNDS; t++) {
		int64_t start, ns;

		if (t >= 100) {
			make(&a, 2000000 + t - 100, "b", 1);
			gone(&w, &a, 2000000 + t - 100);
		}
		make(&a, 2000000 + t, "b", 1);
		start = now_ns();
		put(&w, &a);
		if (!until_bound(&w, &bind))
			die("neighbour: not bound");
		ns = RF_MAX(now_ns() - start - clock_ns(), 0);
		least[t] = RF_MIN(least[t], ns);
		carry(&w, &a, 2000000 + t, bind.node, bind.grants, bind.n_grants);
		wait_until(&w, w.now + 10);
	}
	end(&w);
}

static struct beside summed_up(int64_t *least, struct beside r)
{
	qsort(least, ROUNDS, sizeof(least[0]), by_size);
	r.p50 = (double)least[ROUNDS / 2] / 1e3;
	r.p99 = (double)least[ROUNDS * 99 / 100] / 1e3;
	r.p999 = (double)least[ROUNDS * 999 / 1000] / 1e3;
	r.worst = (double)least[ROUNDS - 1] / 1e3;
	return r;
}

/* In turn with b alone: the machine is not as fast in every minute. */
static void beside(enum hard h, int64_t cards, int64_t guaranteed, size_t leavers, struct beside ret[2])
{
	static int64_t least[2][ROUNDS];

	for (size_t t = 0; t < ROUNDS; t++)
		least[0][t] = least[1][t] = INT64_MAX;
	ret[0] = ret[1] = (struct beside){ .turn = 1e9, .load = 1e9 };
	for (int i = 0; i < 2 * RUNS; i++) {
		struct beside *r = &ret[i % 2];

		if (i % 2 == 0)
			beside_once(0, PLAIN, 1, 0, leavers, least[0]);
		else
			beside_once(10000, h, cards, guaranteed, leavers, least[1]);
		r->turn = RF_MIN(r->turn, (double)turn_ns / 1e3);
		r->load = RF_MIN(r->load, (double)between_ns / (ROUNDS * 1e7) * 100);
	}
	for (size_t i = 0; i < 2; i++)
		ret[i] = summed_up(least[i], ret[i]);
}

static void case_neighbour(void)
{
	static const struct {
		const char *what;
		enum hard h;
		int64_t cards, guaranteed;
		size_t leavers;
	} rows[] = {
		{ "a tenant's pod, told to decided, beside 10,000 of another tenant that do not fit, all alike", PLAIN, 2, 0 },
		{ "... each another shape", SHAPES, 2, 0 },
		{ "... with anti-affinity, 1,000 applications", APART, 2, 0 },
		{ "... each its own anti-affinity", APART_EACH, 2, 0 },
		{ "... 1,000 selectors", SELECTORS, 2, 0 },
		{ "... that fit on no machine, each another shape", SHAPES, 9, 0 },
		{ "... the same, within its guarantee", SHAPES, 9, 2000 },
		{ "... within its guarantee, each another shape, and nobody has to give anything back", SHAPES, 2, 2000 },
		{ "... the same, and one of its pods is deleted and does not leave", SHAPES, 2, 2000, 1 },
		{ "... the same, and 64 of them do not", SHAPES, 2, 2000, 64 },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct beside r[2], *a = &r[0], *b = &r[1];

		beside(rows[i].h, rows[i].cards, rows[i].guaranteed, rows[i].leavers, r);
		row(rows[i].what, rows[i].leavers <= 1 ? "2 times" : "", b->p50 <= 2 * a->p50 && b->p99 <= 2 * a->p99,
		    "alone p50 %.1f us, p99 %.1f us; beside them p50 %.1f us (%.1f times), p99 %.1f us (%.1f times), p99.9 %.1f us (%.1f times), worst %.0f us (%.0f); longest turn in between %.0f us (%.0f), %.2f %% of the time (%.2f)",
		    a->p50, a->p99, b->p50, b->p50 / a->p50, b->p99, b->p99 / a->p99, b->p999, b->p999 / a->p999, b->worst, a->worst,
		    b->turn, a->turn, b->load, a->load);
	}
}

/* --- a restart --------------------------------------------------------------------------------------------- */

#define BIG_NODES 5000
#define PER_NODE 30 /* 4 whole cards, 12 shares on 4 more, 14 without */
#define BIG_TENANTS 100

enum fact { F_NODE, F_DEVICES, F_POD, F_CLAIM, F_TENANT };

struct told {
	uint8_t fact;
	uint32_t i;
};

static char big_names[BIG_TENANTS][16];

static const char *tenant_of(size_t i)
{
	return big_names[i / PER_NODE % BIG_TENANTS];
}

static bool has_claim(size_t i)
{
	return i % PER_NODE < 16;
}

static void grant_of(size_t i, char device[16], struct rf_sched_grant *ret)
{
	size_t k = i % PER_NODE;
	bool whole = k < 4;

	snprintf(device, 16, "gpu-%zu", whole ? k : 4 + (k - 4) / 3);
	*ret = (struct rf_sched_grant){ .container = RF_LIT("main"), .device = rf_str(device), .bytes = whole ? 80 * GI : 24 * GI, .milli = whole ? 1000 : 300, .whole = whole, .profile = RF_STR_EMPTY };
}

static void big_pod(struct ask *a, size_t i, char node[32])
{
	size_t k = i % PER_NODE;

	make(a, i, tenant_of(i), k < 4);
	if (k >= 4 && k < 16) {
		a->k.ask.share_bytes = 24 * GI;
		a->k.ask.share_milli = 300;
	}
	a->p.cpu_milli = 1000;
	label(a, "app", "app-", i / 300);
	snprintf(node, 32, "node-%05zu", i / PER_NODE);
	a->p.node = rf_str(node);
	a->p.started_ms = a->p.created_ms;
	a->p.rv = (int64_t)i + 1;
}

static void tell_plain(struct world *w, const struct told *t)
{
	char node[32], device[16], name[48];
	struct rf_sched_grant g;
	struct rf_sched_claim k;
	struct ask a;

	switch (t->fact) {
	case F_NODE:
		put_node(w, t->i, 8); /* with its cards */
		break;
	case F_DEVICES:
		break;
	case F_POD:
		big_pod(&a, t->i, node);
		rf_core_put_pod(w->c, &a.p, w->now);
		break;
	case F_CLAIM:
		big_pod(&a, t->i, node);
		grant_of(t->i, device, &g);
		claim_name(name, t->i);
		k = (struct rf_sched_claim){ .ns = a.p.ns, .name = rf_str(name), .pod_uid = a.p.uid, .tenant = a.p.ns, .rv = (int64_t)t->i + 1, .node = a.p.node, .grants = &g, .n_grants = 1 };
		rf_core_put_claim(w->c, &k);
		break;
	default:
		tenant(w, big_names[t->i], "", 0);
	}
}

/* --- the same as objects */

static void write_node(struct rf_buf *b, size_t i)
{
	rf_buf_printf(b, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"node-%05zu\",\"uid\":\"b0a7e0c4-91a5-4c0e-8f43-%012zx\",\"resourceVersion\":\"%zu\",\"creationTimestamp\":\"2026-03-01T08:00:00Z\",\"labels\":{\"beta.kubernetes.io/arch\":\"amd64\",\"beta.kubernetes.io/os\":\"linux\",\"kubernetes.io/arch\":\"amd64\",\"kubernetes.io/hostname\":\"node-%05zu\",\"kubernetes.io/os\":\"linux\",\"node.kubernetes.io/instance-type\":\"gpu8\",\"topology.kubernetes.io/region\":\"r1\",\"topology.kubernetes.io/zone\":\"zone-%zu\",\"rack\":\"rack-%zu\"},\"annotations\":{\"node.alpha.kubernetes.io/ttl\":\"0\",\"volumes.kubernetes.io/controller-managed-attach-detach\":\"true\"}},\"spec\":{\"podCIDR\":\"10.%zu.%zu.0/24\"},", i, i, i + 1, i, i % 10, i % 1000, i / 256, i % 256);
	rf_buf_printf(b, "\"status\":{\"capacity\":{\"cpu\":\"192\",\"ephemeral-storage\":\"3574408Mi\",\"hugepages-2Mi\":\"0\",\"memory\":\"2048Gi\",\"pods\":\"250\"},\"allocatable\":{\"cpu\":\"192\",\"ephemeral-storage\":\"3373259426611\",\"hugepages-2Mi\":\"0\",\"memory\":\"2048Gi\",\"pods\":\"250\"},\"conditions\":[");
	for (size_t k = 0; k < 4; k++)
		rf_buf_printf(b, "{\"type\":\"%s\",\"status\":\"%s\",\"lastHeartbeatTime\":\"2026-03-01T09:00:00Z\",\"lastTransitionTime\":\"2026-03-01T08:00:20Z\",\"reason\":\"Kubelet\",\"message\":\"kubelet has sufficient memory available\"},", k == 0 ? "MemoryPressure" : k == 1 ? "DiskPressure" : k == 2 ? "PIDPressure" : "Ready", k == 3 ? "True" : "False");
	b->n--;
	rf_buf_printf(b, "],\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.0.%zu.%zu\"},{\"type\":\"Hostname\",\"address\":\"node-%05zu\"}],\"nodeInfo\":{\"architecture\":\"amd64\",\"bootID\":\"5c1a9a4e-8b8e-4c0a-9f0b-3b8a9c3d1e55\",\"containerRuntimeVersion\":\"containerd://2.0.4\",\"kernelVersion\":\"6.1.0\",\"kubeletVersion\":\"v1.36.0\",\"operatingSystem\":\"linux\",\"osImage\":\"Debian GNU/Linux 12\"}}}", i / 256, i % 256, i);
}

static void write_slice(struct rf_buf *b, size_t i)
{
	rf_buf_printf(b, "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceSlice\",\"metadata\":{\"name\":\"node-%05zu-ringfence\",\"uid\":\"c0a7e0c4-91a5-4c0e-8f43-%012zx\",\"resourceVersion\":\"%zu\",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"node-%05zu\",\"uid\":\"b0a7e0c4-91a5-4c0e-8f43-%012zx\"}]},\"spec\":{\"driver\":\"ringfence.io\",\"nodeName\":\"node-%05zu\",\"pool\":{\"name\":\"node-%05zu\",\"generation\":1,\"resourceSliceCount\":1},\"devices\":[", i, i, i + 1, i, i, i, i);
	for (size_t k = 0; k < 8; k++)
		rf_buf_printf(b, "{\"name\":\"gpu-%zu\",\"attributes\":{\"uuid\":{\"string\":\"GPU-6f0d1f4a-0c35-4d0a-8f43-%012zx\"},\"productName\":{\"string\":\"NVIDIA H100 80GB HBM3\"},\"healthy\":{\"bool\":true},\"migMode\":{\"string\":\"dynamic\"},\"numaNode\":{\"int\":%zu},\"nvlinkIsland\":{\"int\":0}},\"capacity\":{\"memory\":{\"value\":\"80Gi\"},\"compute\":{\"value\":\"1000\"}},\"allowMultipleAllocations\":true},", k, i * 8 + k, k / 4);
	b->n--;
	rf_buf_printf(b, "]}}");
}

static void write_pod(struct rf_buf *b, size_t i)
{
	size_t k = i % PER_NODE;
	struct ask a;
	char node[32];

	big_pod(&a, i, node);
	rf_buf_printf(b, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\",\"generateName\":\"train-\",\"namespace\":\"%.*s\",\"uid\":\"%s\",\"resourceVersion\":\"%zu\",\"creationTimestamp\":\"2026-03-01T08:12:41Z\",\"labels\":{\"app\":\"%s\",\"controller-uid\":\"0e6c53ab-7d54-4f14-8e55-5a5b8a4a0d01\",\"job-name\":\"train\"},\"annotations\":{\"ringfence.io/min-run-seconds\":\"600\",\"example.com/owner\":\"somebody@example.com\"},\"ownerReferences\":[{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"name\":\"train\",\"uid\":\"0e6c53ab-7d54-4f14-8e55-5a5b8a4a0d01\",\"controller\":true,\"blockOwnerDeletion\":true}]},", a.name, RF_STR(a.p.ns), a.uid, i + 1, a.text);
	rf_buf_printf(b, "\"spec\":{\"schedulerName\":\"ringfence\",\"nodeName\":\"%s\",\"restartPolicy\":\"Never\",\"serviceAccountName\":\"default\",\"terminationGracePeriodSeconds\":30,\"priority\":0,\"dnsPolicy\":\"ClusterFirst\",\"enableServiceLinks\":true,\"preemptionPolicy\":\"PreemptLowerPriority\",\"securityContext\":{\"runAsNonRoot\":true,\"seccompProfile\":{\"type\":\"RuntimeDefault\"}},\"containers\":[{\"name\":\"main\",\"image\":\"registry.example.com/ml/train:2026.03\",\"imagePullPolicy\":\"IfNotPresent\",\"command\":[\"python3\",\"-m\",\"train\",\"--epochs\",\"40\",\"--data\",\"/data\"],\"env\":[{\"name\":\"RUN\",\"value\":\"%zu\"},{\"name\":\"NCCL_DEBUG\",\"value\":\"WARN\"},{\"name\":\"POD_IP\",\"valueFrom\":{\"fieldRef\":{\"apiVersion\":\"v1\",\"fieldPath\":\"status.podIP\"}}}],\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"16Gi\"%s},\"limits\":{\"cpu\":\"1\",\"memory\":\"16Gi\"%s}},", node, i, k < 4 ? ",\"ringfence.io/gpu\":\"1\"" : k < 16 ? ",\"ringfence.io/gpu-memory\":\"24Gi\",\"ringfence.io/gpu-compute\":\"30\"" : "", k < 4 ? ",\"ringfence.io/gpu\":\"1\"" : k < 16 ? ",\"ringfence.io/gpu-memory\":\"24Gi\",\"ringfence.io/gpu-compute\":\"30\"" : "");
	rf_buf_printf(b, "\"securityContext\":{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]}},\"terminationMessagePath\":\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\",\"volumeMounts\":[{\"name\":\"data\",\"mountPath\":\"/data\"},{\"name\":\"kube-api-access-x7x2v\",\"readOnly\":true,\"mountPath\":\"/var/run/secrets/kubernetes.io/serviceaccount\"}]}],\"tolerations\":[{\"key\":\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":300},{\"key\":\"node.kubernetes.io/unreachable\",\"operator\":\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":300}],\"volumes\":[{\"name\":\"data\",\"persistentVolumeClaim\":{\"claimName\":\"data\"}},{\"name\":\"kube-api-access-x7x2v\",\"projected\":{\"defaultMode\":420,\"sources\":[{\"serviceAccountToken\":{\"expirationSeconds\":3607,\"path\":\"token\"}},{\"configMap\":{\"name\":\"kube-root-ca.crt\",\"items\":[{\"key\":\"ca.crt\",\"path\":\"ca.crt\"}]}}]}}]},");
	rf_buf_printf(b, "\"status\":{\"phase\":\"Running\",\"hostIP\":\"10.0.0.1\",\"podIP\":\"10.1.0.%zu\",\"qosClass\":\"Guaranteed\",\"startTime\":\"2026-03-01T08:12:43Z\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-03-01T08:12:42Z\"},{\"type\":\"Initialized\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-03-01T08:12:43Z\"},{\"type\":\"ContainersReady\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-03-01T08:12:51Z\"},{\"type\":\"Ready\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-03-01T08:12:51Z\"}],\"containerStatuses\":[{\"name\":\"main\",\"ready\":true,\"started\":true,\"restartCount\":0,\"image\":\"registry.example.com/ml/train:2026.03\",\"imageID\":\"registry.example.com/ml/train@sha256:6b3a55e0261b0304143f805a24924d0c1c44524821305f31d9277843b8a10f4e\",\"containerID\":\"containerd://9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\",\"state\":{\"running\":{\"startedAt\":\"2026-03-01T08:12:50Z\"}}}]}}", k);
}

static void write_claim(struct rf_buf *b, size_t i)
{
	struct rf_sched_grant g;
	char device[16], node[32];
	struct ask a;

	big_pod(&a, i, node);
	grant_of(i, device, &g);
	rf_buf_printf(b, "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\",\"metadata\":{\"name\":\"%s-gpus\",\"namespace\":\"%.*s\",\"uid\":\"d0a7e0c4-91a5-4c0e-8f43-%012zx\",\"resourceVersion\":\"%zu\",\"creationTimestamp\":\"2026-03-01T08:12:42Z\",\"finalizers\":[\"ringfence.io/prepared\"],\"annotations\":{\"ringfence.io/tenant\":\"%.*s\"},\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"%s\",\"uid\":\"%s\",\"controller\":true}]},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"main\",\"exactly\":{\"deviceClassName\":\"ringfence.io\",\"allocationMode\":\"ExactCount\",\"count\":1%s}}]}},", a.name, RF_STR(a.p.ns), i, i + 1, RF_STR(a.p.ns), a.name, a.uid, g.whole ? "" : ",\"capacity\":{\"requests\":{\"memory\":\"24Gi\",\"compute\":\"300\"}}");
	rf_buf_printf(b, "\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"main\",\"driver\":\"ringfence.io\",\"pool\":\"%s\",\"device\":\"%s\"%s}]},\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"%s\"]}]}]},\"allocationTimestamp\":\"2026-03-01T08:12:42Z\"},\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"%s\",\"uid\":\"%s\"}]}}", node, device, g.whole ? "" : ",\"consumedCapacity\":{\"memory\":\"24Gi\",\"compute\":\"300\"}", node, a.name, a.uid);
}

struct cost {
	int64_t parse, read, tell;
	size_t bytes;
};

static void tell_json(struct world *w, const struct told *t, struct rf_buf *b, struct rf_arena *a, struct cost *cost)
{
	struct rf_json *o = NULL;
	struct rf_err err;
	struct rf_sched_node node;
	struct rf_sched_pod pod;
	struct rf_sched_claim claim;
	struct rf_sched_device *devices = NULL;
	size_t n_devices = 0;
	int64_t t0, t1, t2;

	if (t->fact == F_TENANT) {
		tell_plain(w, t);
		return;
	}
	b->n = 0;
	rf_arena_reset(a);
	if (t->fact == F_NODE)
		write_node(b, t->i);
	else if (t->fact == F_DEVICES)
		write_slice(b, t->i);
	else if (t->fact == F_POD)
		write_pod(b, t->i);
	else
		write_claim(b, t->i);
	cost->bytes += b->n;
	t0 = now_ns();
	if (rf_json_parse(a, (struct rf_str){ b->p, b->n }, &o, &err) < 0)
		die(err.msg);
	t1 = now_ns();
	if (t->fact == F_NODE)
		rf_sched_read_node(a, o, &node);
	else if (t->fact == F_DEVICES)
		(void)rf_sched_read_pool(a, (const struct rf_json *const *)&o, 1, &devices, &n_devices);
	else if (t->fact == F_POD && rf_sched_read_pod(a, o, &pod, &err) < 0)
		die(err.msg);
	else if (t->fact == F_CLAIM)
		rf_sched_read_claim(a, o, &claim);
	t2 = now_ns();
	if (t->fact == F_NODE)
		rf_core_put_node(w->c, &node);
	else if (t->fact == F_DEVICES)
		rf_core_put_devices(w->c, rf_sched_slice_node(o), devices, n_devices);
	else if (t->fact == F_POD)
		rf_core_put_pod(w->c, &pod, w->now);
	else
		rf_core_put_claim(w->c, &claim);
	cost->tell += now_ns() - t2;
	cost->read += t2 - t1;
	cost->parse += t1 - t0;
}

static size_t resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t all = 0, here = 0;

	if (f == NULL || fscanf(f, "%zu %zu", &all, &here) != 2)
		here = 0;
	if (f != NULL)
		fclose(f);
	return here * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static size_t facts_of_all(struct told **ret)
{
	size_t pods = (size_t)BIG_NODES * PER_NODE, n = 0;
	struct told *all = calloc(BIG_NODES * 2 + pods * 2 + BIG_TENANTS, sizeof(*all));
	struct rf_prng r = { .state = 3 };

	for (uint32_t i = 0; i < BIG_NODES; i++) {
		all[n++] = (struct told){ F_NODE, i };
		all[n++] = (struct told){ F_DEVICES, i };
	}
	for (uint32_t i = 0; i < pods; i++) {
		all[n++] = (struct told){ F_POD, i };
		if (has_claim(i))
			all[n++] = (struct told){ F_CLAIM, i };
	}
	for (uint32_t i = 0; i < BIG_TENANTS; i++) {
		snprintf(big_names[i], sizeof(big_names[i]), "team-%" PRIu32, i);
		all[n++] = (struct told){ F_TENANT, i };
	}
	for (size_t i = n; i-- > 1;) {
		size_t k = rf_prng_below(&r, i + 1);
		struct told t = all[i];

		all[i] = all[k];
		all[k] = t;
	}
	*ret = all;
	return n;
}

static bool first_decision(struct world *w)
{
	struct rf_core_decision *d;
	struct ask a;
	size_t n;

	make(&a, 1000000, big_names[0], 0);
	put(w, &a);
	while (more(w, n = decide(w, &d))) {
		for (size_t i = 0; i < n; i++) {
			if (d[i].verdict != RF_CORE_BIND)
				fprintf(stderr, "bench_core: restart: verdict %d %.*s\n", d[i].verdict, RF_STR(d[i].reason));
			else
				return true;
		}
	}
	return false;
}

static void restart(struct world *w, bool json)
{
	struct rf_buf b = RF_BUF_INIT;
	struct rf_arena a = RF_ARENA_INIT;
	struct cost cost = { 0 };
	struct told *all;
	size_t before, n;
	int64_t start, told;
	double parse, read, tell, first;

	n = facts_of_all(&all);
	begin(w, 0);
	w->rv = 10000000;
	before = resident_kib();
	start = now_ns();
	for (size_t i = 0; i < n; i++) {
		if (json)
			tell_json(w, &all[i], &b, &a, &cost);
		else
			tell_plain(w, &all[i]);
	}
	told = now_ns() - start;
	start = now_ns();
	if (!first_decision(w))
		die("restart: nothing was bound");
	first = (double)(now_ns() - start) / 1e9;
	parse = (double)cost.parse / 1e9;
	read = (double)cost.read / 1e9;
	tell = (double)(json ? cost.tell : told) / 1e9;
	if (json)
		row("... told from JSON (objects of 1 to 4 KiB)", "15 s", parse + read + tell + first < 15, "%.2f s to the first decision: %.2f s parsing %.0f MB, %.2f s reading, %.2f s telling, %.2f s deciding", parse + read + tell + first, parse, (double)cost.bytes / 1e6, read, tell, first);
	else
		row("restart: 150,000 pods, 80,000 claims, 5,000 nodes, 100 tenants, in any order", "15 s", tell + first < 15, "%.2f s to the first decision: %.2f s telling, %.2f s deciding", tell + first, tell, first);
	if (!json) {
		double mib = (double)(resident_kib() - before) / 1024;

		row("... resident memory of the core", "512 MB", mib < 488, "%.0f MiB", mib);
	}
	rf_buf_done(&b);
	rf_arena_done(&a);
	free(all);
}

/* --- nothing to do -------------------------------------------------------------------------------------------- */

/* Sleeps as it is told to, until there is nothing to wait for. */
static size_t calm(struct world *w)
{
	size_t wakes = 0;

	for (;; wakes++) {
		int64_t next;

		rest(w);
		next = rf_core_next_ms(w->c, w->now);
		if (next == INT64_MAX || wakes == 1000)
			return wakes;
		w->now = RF_MAX(next, w->now + 1);
	}
}

static void idle(struct world *w, const char *what)
{
	struct rf_core_decision *d;
	size_t wakes = calm(w), said = 0;
	int64_t start, ns, later;
	bool never = rf_core_next_ms(w->c, w->now) == INT64_MAX;

	start = now_ns();
	for (int i = 0; i < 10000; i++)
		said += decide(w, &d);
	ns = (now_ns() - start) / 10000;
	start = now_ns();
	for (int i = 0; i < 100; i++) {
		w->now += 60000;
		said += decide(w, &d);
	}
	later = (now_ns() - start) / 100;
	row(what, "no work", never && said == 0 && ns < 1000,
	    "next %s, silent after %zu wakes; a decide all the same: %" PRId64 " ns, a minute later %" PRId64 " ns, says %zu",
	    never ? "never" : "SOON", wakes, ns, later, said);
}

static void case_restart(void)
{
	struct world w;
	struct ask a;

	restart(&w, false);
	idle(&w, "idle: the same cluster, nothing happens");
	for (size_t i = 0; i < 1000; i++) {
		make(&a, 2000000 + i, big_names[0], 8);
		harden(&a, i, SHAPES);
		put(&w, &a);
	}
	idle(&w, "... while 1,000 different pods wait that do not fit");
	end(&w);
}

static void case_json(void)
{
	struct world w;

	restart(&w, true);
	end(&w);
}

/* --------------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = { { "fill", case_fill },	   { "hard", case_hard },	  { "pieces", case_pieces },
	      { "gangs", case_gangs },	   { "reclaim", case_reclaim },	  { "queues", case_queues },
	      { "behind", case_behind },   { "neighbour", case_neighbour }, { "restart", case_restart },
	      { "json", case_json } };

static void run_apart(void (*fn)(void), const char *name)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		fn();
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		printf("| %s: died | | | NO |\n", name);
}

int main(int argc, char **argv)
{
	printf("| what | goal | measured | met |\n|---|---|---|---|\n");
	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		bool wanted = argc == 1;

		for (int k = 1; k < argc; k++)
			wanted |= strcmp(argv[k], cases[i].name) == 0;
		if (wanted)
			run_apart(cases[i].run, cases[i].name);
	}
	return 0;
}
