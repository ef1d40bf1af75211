/* Looking ahead: a large gang on a busy cluster gets a date and the nodes it will have, small work passes by where it
 * does not keep it waiting, and nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/core.h"

#define GI (INT64_C(1) << 30)
#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define PODS_MAX 512

struct job { /* a pod as it is there */
	char uid[16];
	const char *ns;
	int64_t cards, limit, min_run, ends; /* ends: 0: it does not run */
	const char *group;
	char node[16];
	bool evicted, claimed;
};

struct world {
	struct rf_core *c;
	struct rf_arena a;
	int64_t now, rv;
	struct job at[PODS_MAX];
	size_t n, n_waits;
	bool slow; /* nodes let go of a card a minute after its pod is gone */
};

static bool patient_gangs; /* nobody is evicted for them, but for what was let past */

static void begin(struct world *w, size_t nodes)
{
	struct rf_core_config config;
	struct rf_sched_device d[8] = { 0 };

	*w = (struct world){ .now = 1000000 };
	rf_core_config_default(&config);
	w->c = rf_core_new(&config);
	for (size_t i = 0; i < 8; i++)
		d[i] = (struct rf_sched_device){ .name = rf_arena_printf(&w->a, "gpu-%zu", i),
						 .model = RF_LIT("NVIDIA H100 80GB HBM3"),
						 .memory = 80 * GI,
						 .milli = 1000 };
	for (size_t i = 0; i < nodes; i++) {
		struct rf_sched_node n = { .name = rf_arena_printf(&w->a, "n%zu", i), .cpu_milli = 64000,
					   .memory = 512 * GI, .pods = 110, .ready = true };

		rf_core_put_node(w->c, &n);
		rf_core_put_devices(w->c, n.name, d, 8);
	}
	for (const char *const *t = (const char *const[]){ "a", "b", NULL }; *t != NULL; t++) {
		struct rf_tenant v = { .name = rf_str(*t), .isolation = RF_ISOLATION_GPU, .trust_domain = rf_str(*t),
				       .quota_gpus = 1000, .quota_gpu_memory = 80000 * GI, .quota_pods = -1,
				       .queue_weight = 1 };

		rf_core_put_tenant(w->c, &v);
		rf_core_put_namespace(w->c, v.name, v.name);
	}
}

static void end(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(w->c, w->now, &err) < 0)
		fail_msg("audit: %s", err.msg);
	rf_core_free(w->c);
	rf_arena_done(&w->a);
}

/* --- the world around it ------------------------------------------------------------------------ */

static void tell(struct world *w, const struct job *j, bool deleting)
{
	struct rf_sched_container container = { .name = RF_LIT("main"), .ask = { .cards = j->cards } };
	struct rf_sched_pod p = { .uid = rf_str(j->uid), .ns = rf_str(j->ns), .name = rf_str(j->uid), .rv = ++w->rv,
				  .created_ms = 1000000, .cpu_milli = 1000, .memory = GI, .containers = &container,
				  .n_containers = 1, .run_limit_ms = j->limit, .min_run_ms = j->min_run,
				  .grace_ms = 1000, .node = rf_str(j->node), .deleting = deleting };

	if (j->group != NULL)
		p.group = rf_str(j->group);
	p.patient = patient_gangs && j->group != NULL;
	if (j->ends != 0)
		p.started_ms = j->ends - j->limit;
	rf_core_put_pod(w->c, &p, w->now);
}

/* stays: it must not be stopped before its limit. */
static struct job *come(struct world *w, const char *ns, int64_t cards, int64_t limit, bool stays)
{
	struct job *j = &w->at[w->n];

	assert_true(w->n < PODS_MAX);
	*j = (struct job){ .ns = ns, .cards = cards, .limit = limit, .min_run = stays ? limit : 0 };
	snprintf(j->uid, sizeof(j->uid), "p%03zu", w->n++);
	tell(w, j, false);
	return j;
}

static struct job *gang(struct world *w, const char *ns, const char *name, int64_t n, int64_t cards, int64_t limit)
{
	struct rf_sched_group g = { .ns = rf_str(ns), .name = rf_str(name), .min = n, .rv = ++w->rv,
				    .created_ms = w->now, .run_limit_ms = limit };
	struct job *first = &w->at[w->n];

	rf_core_put_group(w->c, &g);
	for (int64_t i = 0; i < n; i++) {
		struct job *j = &w->at[w->n];

		assert_true(w->n < PODS_MAX);
		*j = (struct job){ .ns = ns, .cards = cards, .limit = limit, .min_run = limit, .group = name };
		snprintf(j->uid, sizeof(j->uid), "p%03zu", w->n++);
		tell(w, j, false);
	}
	return first;
}

static struct job *job_of(struct world *w, struct rf_str uid)
{
	for (size_t i = 0; i < w->n; i++) {
		if (rf_str_is(uid, w->at[i].uid))
			return &w->at[i];
	}
	fail_msg("a decision about %.*s, who is not there", RF_STR(uid));
	return NULL;
}

static void bind(struct world *w, const struct rf_core_decision *d)
{
	struct job *j = job_of(w, d->uid);
	struct rf_sched_claim k = { .ns = d->ns, .name = d->uid, .pod_uid = d->uid, .tenant = d->ns, .rv = ++w->rv,
				    .node = d->node, .grants = d->grants, .n_grants = d->n_grants };

	rf_core_put_claim(w->c, &k);
	snprintf(j->node, sizeof(j->node), "%.*s", RF_STR(d->node));
	j->ends = w->now + j->limit;
	j->claimed = true;
	tell(w, j, false);
}

static void let_go(struct world *w, struct job *j)
{
	rf_core_del_claim(w->c, rf_str(j->ns), rf_str(j->uid), w->now);
	j->claimed = false;
}

static void goes(struct world *w, struct job *j)
{
	rf_core_del_pod(w->c, rf_str(j->uid), w->now);
	if (!w->slow)
		let_go(w, j);
	j->ends = 0;
	j->limit = 0; /* over */
}

/* Decides at this time until there is nothing to decide, and carries it out. */
static void decide(struct world *w)
{
	struct rf_core_decision *d;
	size_t n;

	do {
		n = rf_core_decide(w->c, w->now, 1000, &w->a, &d);
		for (size_t i = 0; i < n; i++) {
			if (d[i].verdict == RF_CORE_BIND)
				bind(w, &d[i]);
			w->n_waits += d[i].verdict == RF_CORE_WAIT;
			if (d[i].verdict != RF_CORE_EVICT)
				continue;
			job_of(w, d[i].uid)->evicted = true;
			goes(w, job_of(w, d[i].uid));
		}
	} while (n > 0);
}

/* Who is at its limit ends, minute by minute. */
static void until(struct world *w, int64_t time)
{
	while (w->now < time) {
		w->now += MINUTE;
		for (size_t i = 0; i < w->n; i++) {
			if (w->at[i].claimed && w->at[i].ends == 0)
				let_go(w, &w->at[i]);
			if (w->at[i].ends != 0 && w->at[i].ends <= w->now)
				goes(w, &w->at[i]);
		}
		decide(w);
	}
}

static int64_t date(struct world *w, size_t i)
{
	int64_t start = 0;

	return rf_queues_reserved(rf_core_queues(w->c), i, &start) != NULL ? start : -1;
}

static bool says(struct world *w, const struct job *j, const char *what)
{
	struct rf_str why = rf_core_why(w->c, rf_str(j->uid), w->now, &w->a);

	return strstr(rf_arena_cstr(&w->a, why), what) != NULL;
}

/* --- the promises ------------------------------------------------------------------------------- */

static void a_gang_starts_by_its_date_on_a_cluster_full_of_small_jobs(void **state)
{
	static struct world w;
	struct job *g;
	int64_t start;

	(void)state;
	begin(&w, 6);
	for (int i = 0; i < 48; i++) /* each machine is free only when the last of its jobs ends */
		come(&w, "a", 1, HOUR + (i * 7 % 48) * 5 * MINUTE, true);
	decide(&w);
	for (int i = 0; i < 48; i++)
		assert_true(w.at[i].ends != 0);
	g = gang(&w, "b", "large", 4, 8, HOUR);
	for (int i = 0; i < 200; i++) /* more small ones than there will ever be cards */
		come(&w, "a", 1, 24 * HOUR, true);
	until(&w, w.now + 15 * MINUTE);
	start = date(&w, 0);
	assert_true(start > w.now && start <= 1000000 + 5 * HOUR);
	until(&w, start - MINUTE);
	assert_true(date(&w, 0) == -1 || date(&w, 0) <= start); /* it never moves away */
	until(&w, start);
	for (int i = 0; i < 4; i++)
		assert_true(g[i].ends != 0 && g[i].ends <= start + HOUR);
	for (int i = 1; i < 4; i++)
		assert_string_not_equal(g[i].node, g[0].node);
	end(&w);
}

/* Four machines, one of them busy for two hours, and a gang that wants all four. */
static struct job *waiting_gang(struct world *w)
{
	struct job *g;

	begin(w, 4);
	come(w, "a", 8, 2 * HOUR, true);
	decide(w);
	g = gang(w, "b", "large", 4, 8, HOUR);
	until(w, w->now + 11 * MINUTE);
	assert_int_equal(date(w, 0), 1000000 + 2 * HOUR);
	return g;
}

static void who_ends_before_passes_by(void **state)
{
	static struct world w;
	struct job *g, *brief, *lasting;

	(void)state;
	g = waiting_gang(&w);
	brief = come(&w, "a", 1, HOUR, true);
	lasting = come(&w, "a", 1, 2 * HOUR, true);
	decide(&w);
	assert_true(brief->ends != 0);
	assert_true(lasting->ends == 0);
	assert_true(says(&w, lasting, "set a shorter run limit or wait"));
	until(&w, 1000000 + 2 * HOUR);
	for (int i = 0; i < 4; i++)
		assert_int_equal(g[i].ends, 1000000 + 3 * HOUR);
	assert_true(lasting->ends == 0);
	until(&w, 1000000 + 3 * HOUR);
	assert_true(lasting->ends != 0);
	end(&w);
}

static void who_can_be_stopped_passes_by_and_goes_first(void **state)
{
	static struct world w;
	struct job *g, *any, *busy = &w.at[0];

	(void)state;
	g = waiting_gang(&w);
	any = come(&w, "a", 8, 24 * HOUR, false);
	decide(&w);
	assert_true(any->ends != 0);
	until(&w, 1000000 + 2 * HOUR - MINUTE);
	assert_false(any->evicted);
	until(&w, 1000000 + 2 * HOUR + MINUTE);
	assert_true(any->evicted);
	assert_false(busy->evicted);
	for (int i = 0; i < 4; i++)
		assert_true(g[i].ends != 0 && g[i].ends <= 1000000 + 3 * HOUR + MINUTE);
	end(&w);
}

static void who_passed_by_goes_for_the_patient_too(void **state)
{
	patient_gangs = true;
	who_can_be_stopped_passes_by_and_goes_first(state);
	patient_gangs = false;
}

static void who_leaves_room_beside_it_passes_by(void **state)
{
	static struct world w;
	struct job *g, *beside, *more;

	(void)state;
	begin(&w, 2);
	come(&w, "a", 8, 2 * HOUR, true);
	decide(&w);
	g = gang(&w, "b", "large", 2, 5, HOUR); /* not two on one machine */
	until(&w, w.now + 11 * MINUTE);
	assert_int_equal(date(&w, 0), 1000000 + 2 * HOUR);
	beside = come(&w, "a", 3, 24 * HOUR, true);
	more = come(&w, "a", 1, 24 * HOUR, true);
	decide(&w);
	assert_true(beside->ends != 0);
	assert_true(more->ends == 0);
	until(&w, 1000000 + 2 * HOUR);
	assert_true(g[0].ends == 1000000 + 3 * HOUR && g[1].ends == 1000000 + 3 * HOUR);
	assert_true(more->ends != 0);
	end(&w);
}

static void one_pod_for_a_whole_machine_is_large_too(void **state)
{
	static struct world w;
	struct job *large;

	(void)state;
	begin(&w, 2);
	for (int i = 0; i < 16; i++)
		come(&w, "a", 1, HOUR + i * MINUTE, true);
	decide(&w);
	large = come(&w, "b", 8, HOUR, true);
	for (int i = 0; i < 50; i++)
		come(&w, "a", 1, 24 * HOUR, true);
	until(&w, w.now + 11 * MINUTE);
	assert_true(date(&w, 0) > 0 && date(&w, 0) <= 1000000 + HOUR + 16 * MINUTE);
	until(&w, date(&w, 0));
	assert_true(large->ends != 0);
	end(&w);
}

/* What a pod left behind is on its way: nobody knows until when, and it is no reason to forget the date. */
static void a_date_is_kept_while_nodes_let_go_of_cards(void **state)
{
	static struct world w;
	struct job *large;
	int64_t start;

	(void)state;
	begin(&w, 1);
	w.slow = true;
	for (int i = 0; i < 8; i++)
		come(&w, "a", 1, (15 + i) * MINUTE, true);
	decide(&w);
	large = come(&w, "b", 8, HOUR, true);
	for (int i = 0; i < 100; i++) /* they may be stopped at any time */
		come(&w, "a", 1, 12 * MINUTE, false);
	until(&w, w.now + 11 * MINUTE);
	start = date(&w, 0);
	assert_int_equal(start, 1000000 + 22 * MINUTE);
	while (w.now < start) {
		until(&w, w.now + MINUTE);
		assert_true(date(&w, 0) > 0 && date(&w, 0) <= RF_MAX(start, w.now));
	}
	until(&w, start + 3 * MINUTE);
	assert_true(large->ends != 0);
	end(&w);
}

static void nodes_are_free_again_when_who_they_are_kept_for_goes(void **state)
{
	static struct world w;
	struct job *g, *lasting;

	(void)state;
	g = waiting_gang(&w);
	lasting = come(&w, "a", 8, 24 * HOUR, true);
	decide(&w);
	assert_true(lasting->ends == 0);
	for (int i = 0; i < 4; i++)
		rf_core_del_pod(w.c, rf_str(g[i].uid), w.now);
	decide(&w);
	assert_true(lasting->ends != 0);
	for (uint32_t i = 0; i < rf_fleet_handles(rf_core_fleet(w.c)); i++)
		assert_int_equal(rf_fleet_kept(rf_core_fleet(w.c), i), 0);
	end(&w);
}

/* --- the fleet ---------------------------------------------------------------------------------- */

static void a_node_that_is_kept_is_for_those_who_may(void **state)
{
	rf_auto_ptr(fleet) f = rf_fleet_new();
	const struct rf_fleet_card cards[2] = { { .memory = 80 * GI, .healthy = true },
						{ .memory = 80 * GI, .healthy = true } };
	const struct rf_fleet_node v = { .cpu_milli = 64000, .memory = 512 * GI, .pods = 10, .cards = cards, .n_cards = 2 };
	struct rf_fleet_ask ask = { .owner = { .tenant = 1, .trust = 1, .level = RF_ISOLATION_GPU }, .n_parts = 1,
				    .parts = { { .kind = RF_FLEET_WHOLE, .n = 1 } } };
	struct rf_fleet_place at;
	struct rf_fleet_most most;
	uint64_t version;
	uint32_t node;
	size_t mark;

	(void)state;
	assert_int_equal(rf_fleet_put_node(f, RF_FLEET_NONE, &v, &node, NULL), 0);
	assert_true(rf_fleet_find(f, &ask, &at));
	rf_fleet_set_kept(f, node, 5);
	assert_false(rf_fleet_find(f, &ask, &at));
	assert_int_equal(rf_fleet_why_on(f, node, &ask), RF_FLEET_KEPT);
	rf_fleet_most(f, &ask, &most);
	assert_int_equal(most.nodes, 0);
	ask.may_kept = 4;
	assert_false(rf_fleet_find(f, &ask, &at));
	ask.may_kept = 7;
	assert_true(rf_fleet_find(f, &ask, &at));
	ask.may_kept = 4;
	assert_int_equal(rf_fleet_take(f, &ask, &at, false, NULL, NULL), -RF_CONFLICT);
	version = rf_fleet_version(f, &ask);
	mark = rf_fleet_mark(f);
	rf_fleet_set_kept(f, node, 4);
	assert_true(rf_fleet_find(f, &ask, &at));
	rf_fleet_rollback(f, mark);
	assert_int_equal(rf_fleet_kept(f, node), 5);
	assert_false(rf_fleet_find(f, &ask, &at));
	assert_int_equal(rf_fleet_version(f, &ask), version);
	rf_fleet_set_kept(f, node, 4);
	assert_true(rf_fleet_version(f, &ask) != version); /* who was refused is tried again */
	assert_true(rf_fleet_find(f, &ask, &at));
	assert_true(rf_fleet_audit(f, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gang_starts_by_its_date_on_a_cluster_full_of_small_jobs),
		cmocka_unit_test(who_ends_before_passes_by),
		cmocka_unit_test(who_can_be_stopped_passes_by_and_goes_first),
		cmocka_unit_test(who_passed_by_goes_for_the_patient_too),
		cmocka_unit_test(who_leaves_room_beside_it_passes_by),
		cmocka_unit_test(one_pod_for_a_whole_machine_is_large_too),
		cmocka_unit_test(a_date_is_kept_while_nodes_let_go_of_cards),
		cmocka_unit_test(nodes_are_free_again_when_who_they_are_kept_for_goes),
		cmocka_unit_test(a_node_that_is_kept_is_for_those_who_may),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
