/* Weights over days: tenants that always have more to do than there is room for get what their weights say, whoever starts anew in
 * between and whatever their jobs are like. */
#include "sched/test_core_small.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define RUNS 64
#define CARDS 16

struct job {
	char uid[24], device[2][16];
	const char *ns, *node;
	int64_t cards, ends, started;
};

struct days {
	struct small w;
	struct job runs[RUNS];
	size_t n;
	uint64_t random, serial;
	int64_t until;
	struct {
		const char *ns;
		int64_t weight, cards, hours; /* of a job: so many cards, for so long at most */
		int64_t used;		       /* card milliseconds */
		size_t waiting;
	} of[3];
	size_t n_of;
};

static int64_t draw(struct days *d, int64_t most)
{
	d->random = d->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int64_t)(d->random >> 33) % most;
}

static void tell_cluster(struct days *d)
{
	for (size_t i = 0; i < CARDS / SMALL_CARDS; i++)
		node(&d->w, name_of(&d->w, "n", i), SMALL_CARDS, "z", "r");
	for (size_t i = 0; i < d->n_of; i++)
		tenant(&d->w, d->of[i].ns, 1000, d->of[i].weight);
}

static void submit(struct days *d, size_t t)
{
	char uid[32];

	snprintf(uid, sizeof(uid), "%s-%llu", d->of[t].ns, (unsigned long long)++d->serial);
	put_pod(&d->w, rf_arena_cstr(&d->w.a, rf_str(uid)), d->of[t].ns, d->of[t].cards);
	d->of[t].waiting++;
}

static size_t whose(const struct days *d, struct rf_str ns)
{
	size_t t = 0;

	while (!rf_str_is(ns, d->of[t].ns))
		t++;
	return t;
}

static void tell_running(struct days *d, const struct job *j)
{
	struct rf_sched_grant g[2] = { 0 };
	struct rf_core_decision k = { .uid = rf_str(j->uid), .ns = rf_str(j->ns), .node = rf_str(j->node), .grants = g, .n_grants = (size_t)j->cards };
	struct rf_sched_pod p = pod(&d->w, j->uid, j->ns, j->cards);

	for (int64_t i = 0; i < j->cards; i++)
		g[i] = (struct rf_sched_grant){ .container = RF_LIT("main"), .device = rf_str(j->device[i]), .bytes = 80 * GI, .milli = 1000, .whole = true };
	put_claim(&d->w, &k);
	p.node = rf_str(j->node);
	p.started_ms = j->started;
	rf_core_put_pod(d->w.c, &p, d->w.now);
}

static void start(struct days *d, const struct rf_core_decision *b)
{
	size_t t = whose(d, b->ns);
	struct job *j = &d->runs[d->n++];

	assert_true(d->n <= RUNS && b->n_grants <= 2);
	*j = (struct job){ .ns = d->of[t].ns, .node = rf_str_is(b->node, "n0") ? "n0" : "n1", .cards = (int64_t)b->n_grants, .started = d->w.now,
			   .ends = d->w.now + HOUR / 4 + draw(d, d->of[t].hours * HOUR) };
	snprintf(j->uid, sizeof(j->uid), "%.*s", RF_STR(b->uid));
	for (size_t i = 0; i < b->n_grants; i++)
		snprintf(j->device[i], sizeof(j->device[i]), "%.*s", RF_STR(b->grants[i].device));
	tell_running(d, j);
	d->of[t].waiting--;
}

static void settle(struct days *d)
{
	size_t waits = 0;

	do {
		for (size_t t = 0; t < d->n_of; t++) {
			while (d->of[t].waiting < 2 * CARDS)
				submit(d, t);
		}
		decide_audited(&d->w);
		waits = d->n;
		for (size_t i = 0; i < d->w.n; i++) {
			if (d->w.d[i].verdict == RF_CORE_BIND)
				start(d, &d->w.d[i]);
		}
	} while (d->n > waits);
}

static void pass(struct days *d, int64_t to)
{
	for (size_t i = 0; i < d->n; i++)
		d->of[whose(d, rf_str(d->runs[i].ns))].used += d->runs[i].cards * (to - d->w.now);
	d->w.now = to;
}

static void live(struct days *d, int64_t until)
{
	while (d->w.now < until) {
		int64_t to = until;
		size_t n = 0;

		settle(d);
		for (size_t i = 0; i < d->n; i++)
			to = RF_MIN(to, d->runs[i].ends);
		pass(d, to);
		for (size_t i = 0; i < d->n; i++) {
			if (d->runs[i].ends > d->w.now)
				d->runs[n++] = d->runs[i];
			else
				gone(&d->w, d->runs[i].uid, d->runs[i].ns);
		}
		d->n = n;
	}
}

/* Another process, which was told what was written down a minute ago. */
static void start_anew(struct days *d)
{
	rf_auto(buf) ledger = RF_BUF_INIT;
	struct rf_core_config config;
	struct rf_err err = RF_ERR_INIT;

	rf_core_export(d->w.c, d->w.now, &ledger);
	pass(d, d->w.now + 60000);
	rf_core_free(d->w.c);
	rf_arena_done(&d->w.a);
	d->w.a = (struct rf_arena)RF_ARENA_INIT;
	rf_core_config_default(&config);
	d->w.c = rf_core_new(&config);
	tell_cluster(d);
	if (rf_core_import(d->w.c, rf_buf_str(&ledger), d->w.now, &err) < 0)
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < d->n; i++)
		tell_running(d, &d->runs[i]);
	for (size_t t = 0; t < d->n_of; t++)
		d->of[t].waiting = 0; /* others come in their stead */
}

static void assert_shares(const struct days *d)
{
	int64_t all = 0, weights = 0;

	for (size_t t = 0; t < d->n_of; t++) {
		all += d->of[t].used;
		weights += d->of[t].weight;
	}
	for (size_t t = 0; t < d->n_of; t++) {
		double share = (double)d->of[t].used / (double)all, right = (double)d->of[t].weight / (double)weights;

		if (share < right - 0.01 || share > right + 0.01)
			fail_msg("tenant %s had %.2f %% of the cards, and its weight says %.2f %%", d->of[t].ns, 100 * share, 100 * right);
	}
	/* and nothing lay idle while they waited */
	assert_true((double)all >= 0.97 * (double)(d->w.now - 1000000) * CARDS);
}

static void days(struct days *d)
{
	begin(&d->w);
	d->random = 42;
	tell_cluster(d);
	live(d, 1000000 + 7 * DAY);
	start_anew(d);
	live(d, 1000000 + 14 * DAY);
	assert_shares(d);
	end(&d->w);
}

static void one_to_three(void **state)
{
	static struct days d = { .of = { { "a", 1, 1, 4, 0, 0 }, { "b", 3, 1, 4, 0, 0 } }, .n_of = 2 };

	(void)state;
	days(&d);
}

/* Whose jobs are larger or longer does not get more by that. */
static void one_to_three_with_other_jobs(void **state)
{
	static struct days d = { .of = { { "a", 1, 2, 12, 0, 0 }, { "b", 3, 1, 2, 0, 0 } }, .n_of = 2 };
	static struct days e = { .of = { { "a", 1, 1, 1, 0, 0 }, { "b", 3, 2, 12, 0, 0 } }, .n_of = 2 };

	(void)state;
	days(&d);
	days(&e);
}

static void one_to_two_to_five(void **state)
{
	static struct days d = { .of = { { "a", 1, 1, 6, 0, 0 }, { "b", 2, 2, 3, 0, 0 }, { "c", 5, 1, 4, 0, 0 } }, .n_of = 3 };

	(void)state;
	days(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_to_three),
		cmocka_unit_test(one_to_three_with_other_jobs),
		cmocka_unit_test(one_to_two_to_five),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
