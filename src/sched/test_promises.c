/* What placing has promised since there was a scheduler, held against the core; and what is read of Kubernetes
 * objects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/core.h"

#define GI (INT64_C(1) << 30)
#define DECISIONS 256

struct bench {
	struct rf_core *c;
	struct rf_arena a;
	struct rf_core_decision d[DECISIONS]; /* the last one about each pod, in the order in which they came */
	size_t n, releases;
	int64_t serial, now;
};

static void fresh(struct bench *b)
{
	struct rf_core_config config;

	rf_core_free(b->c);
	rf_core_config_default(&config);
	b->c = rf_core_new(&config);
	b->n = 0;
}

static int set_up(void **state)
{
	struct bench *b = rf_new(struct bench);

	b->now = 1000000;
	fresh(b);
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;
	struct rf_err err = RF_ERR_INIT;

	if (rf_core_audit(b->c, b->now, &err) < 0)
		fail_msg("%s", err.msg);
	rf_core_free(b->c);
	rf_arena_done(&b->a);
	free(b);
	return 0;
}

static void tenant_of(struct bench *b, const char *name, enum rf_isolation isolation, const char *trust, int64_t gpus,
		      int64_t bytes)
{
	struct rf_tenant t = { .name = rf_str(name),
			       .isolation = isolation,
			       .trust_domain = rf_str(trust),
			       .quota_gpus = gpus,
			       .quota_gpu_memory = bytes,
			       .quota_pods = -1,
			       .queue_weight = 1 };

	rf_core_put_tenant(b->c, &t);
	rf_core_put_namespace(b->c, t.name, t.name);
}

static void tenant(struct bench *b, const char *name, enum rf_isolation isolation, const char *trust)
{
	tenant_of(b, name, isolation, trust, 100, 10000 * GI);
}

static void quota(struct bench *b, const char *name, int64_t gpus, int64_t bytes)
{
	tenant_of(b, name, RF_ISOLATION_SHARE, name, gpus, bytes);
}

/* A node with cards of 80Gi. */
static void node(struct bench *b, const char *name, size_t cards)
{
	struct rf_sched_pair labels[] = { { RF_LIT("disk"), RF_LIT("ssd") } };
	struct rf_sched_node n = { .name = rf_str(name),
				   .cpu_milli = 8000,
				   .memory = 32 * GI,
				   .pods = 10,
				   .ready = true,
				   .labels = labels,
				   .n_labels = 1 };
	struct rf_sched_device d[16] = { 0 };
	char names[16][16];

	for (size_t i = 0; i < cards; i++) {
		snprintf(names[i], sizeof(names[i]), "gpu-%u", (unsigned)(i % 16));
		d[i] = (struct rf_sched_device){ .name = rf_str(names[i]), .memory = 80 * GI, .milli = 1000 };
	}
	rf_core_put_node(b->c, &n);
	rf_core_put_devices(b->c, n.name, d, cards);
}

/* A pending pod; its name is its uid. */
static struct rf_sched_pod pod(struct bench *b, const char *name, const char *ns)
{
	return (struct rf_sched_pod){ .uid = rf_str(name),
				      .ns = rf_str(ns),
				      .name = rf_str(name),
				      .rv = ++b->serial,
				      .created_ms = b->serial };
}

static void put(struct bench *b, struct rf_sched_pod p, int64_t cards, int64_t bytes, int64_t milli)
{
	struct rf_sched_container c = { RF_LIT("main"), { .cards = cards, .share_bytes = bytes, .share_milli = milli } };

	p.containers = &c;
	p.n_containers = 1;
	rf_core_put_pod(b->c, &p, b->now);
}

static void note(struct bench *b, const struct rf_core_decision *d)
{
	b->releases += d->verdict == RF_CORE_RELEASE;
	for (size_t i = 0; i < b->n; i++) {
		if (!rf_str_eq(b->d[i].uid, d->uid))
			continue;
		memmove(&b->d[i], &b->d[i + 1], (b->n - i - 1) * sizeof(b->d[0]));
		b->n--;
		break;
	}
	assert_true(b->n < DECISIONS);
	b->d[b->n++] = *d;
}

/* Everything that is to be decided now. */
static void cycle(struct bench *b)
{
	struct rf_core_decision *d = NULL;
	size_t n = 0;

	b->now += 10000; /* reasons are not told all the time */
	while ((n = rf_core_decide(b->c, b->now, 16, &b->a, &d)) > 0) {
		for (size_t i = 0; i < n; i++)
			note(b, &d[i]);
	}
}

static const struct rf_core_decision *about(struct bench *b, const char *name)
{
	for (size_t i = 0; i < b->n; i++) {
		if (rf_str_is(b->d[i].uid, name))
			return &b->d[i];
	}
	fail_msg("no decision about %s", name);
	return NULL;
}

/* It waits, and its reason has all of these words, separated by '|'. */
static void waits(struct bench *b, const char *name, const char *words)
{
	const struct rf_core_decision *d = about(b, name);
	struct rf_str rest = rf_str(words), one;

	assert_int_equal(d->verdict, RF_CORE_WAIT);
	while (rest.n > 0) {
		rf_str_cut(&rest, '|', &one);
		if (!rf_str_contains(d->reason, one))
			fail_msg("%s: no \"%.*s\" in \"%.*s\"", name, RF_STR(one), RF_STR(d->reason));
	}
}

static void bound(struct bench *b, const char *name, const char *where, const char *device)
{
	const struct rf_core_decision *d = about(b, name);

	if (d->verdict != RF_CORE_BIND)
		fail_msg("%s waits: %.*s", name, RF_STR(d->reason));
	assert_string_equal(rf_arena_cstr(&b->a, d->node), where);
	if (device != NULL)
		assert_string_equal(rf_arena_cstr(&b->a, d->grants[0].device), device);
}

/* The claim of a pod's decision, as control writes it. */
static void allocate(struct bench *b, const char *name)
{
	const struct rf_core_decision *d = about(b, name);
	struct rf_sched_claim c = { .ns = d->ns,
				    .name = d->name,
				    .pod_uid = d->uid,
				    .tenant = d->tenant,
				    .node = d->node,
				    .rv = ++b->serial,
				    .grants = d->grants,
				    .n_grants = d->n_grants };

	assert_int_equal(d->verdict, RF_CORE_BIND);
	rf_core_put_claim(b->c, &c);
}

/* --- cards and company ------------------------------------------------------------------------------ */

static void a_whole_card_comes_with_all_it_has(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 2);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "train", "ta"), 1, 0, 0);
	cycle(b);
	bound(b, "train", "n1", NULL);
	assert_int_equal(b->d[0].grants[0].bytes, 80 * GI);
	assert_int_equal(b->d[0].grants[0].milli, 1000);
	assert_true(b->d[0].grants[0].whole);
}

static void a_card_that_is_held_is_refused_without_naming_strangers(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 1);
	tenant(b, "team-a", RF_ISOLATION_GPU, "team-a");
	tenant(b, "team-b", RF_ISOLATION_GPU, "team-b");
	put(b, pod(b, "first", "team-b"), 1, 0, 0);
	cycle(b);
	bound(b, "first", "n1", "gpu-0");
	put(b, pod(b, "second", "team-a"), 1, 0, 0);
	cycle(b);
	waits(b, "second", "help=");
	assert_false(rf_str_contains(about(b, "second")->reason, RF_LIT("team-b")));
	assert_false(rf_str_contains(about(b, "second")->reason, RF_LIT("first")));
}

static void shares_are_packed_and_meet_only_in_their_trust_domain(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 2);
	tenant(b, "ta", RF_ISOLATION_SHARE, "lab");
	tenant(b, "tb", RF_ISOLATION_COOPERATIVE, "lab");
	tenant(b, "tc", RF_ISOLATION_SHARE, "elsewhere");
	put(b, pod(b, "s1", "ta"), 0, 30 * GI, 400);
	cycle(b);
	put(b, pod(b, "s2", "tb"), 0, 30 * GI, 400);
	cycle(b);
	put(b, pod(b, "s3", "tc"), 0, 10 * GI, 100);
	cycle(b);
	put(b, pod(b, "s4", "ta"), 0, 10 * GI, 300);
	cycle(b);
	assert_true(rf_str_eq(about(b, "s1")->grants[0].device, about(b, "s2")->grants[0].device));
	assert_false(rf_str_eq(about(b, "s1")->grants[0].device, about(b, "s3")->grants[0].device));
	waits(b, "s4", "help=");
}

static void a_node_is_shared_only_by_those_who_both_accept_it(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 2);
	tenant(b, "loner", RF_ISOLATION_NODE, "loner");
	tenant(b, "other", RF_ISOLATION_GPU, "other");
	put(b, pod(b, "plain", "other"), 0, 0, 0); /* no GPU, still a stranger */
	cycle(b);
	bound(b, "plain", "n1", NULL);
	put(b, pod(b, "alone", "loner"), 1, 0, 0);
	cycle(b);
	waits(b, "alone", "help=");
	assert_false(rf_str_contains(about(b, "alone")->reason, RF_LIT("other ")));
}

static void a_terminating_pod_still_keeps_strangers_away(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p;

	node(b, "n1", 0);
	tenant(b, "loner", RF_ISOLATION_NODE, "loner");
	tenant(b, "other", RF_ISOLATION_GPU, "other");
	p = pod(b, "going", "loner");
	p.node = RF_LIT("n1");
	p.deleting = true;
	put(b, p, 0, 0, 0);
	put(b, pod(b, "new", "other"), 0, 0, 0);
	cycle(b);
	waits(b, "new", "");
	rf_core_del_pod(b->c, RF_LIT("going"), b->now);
	cycle(b);
	bound(b, "new", "n1", NULL);
}

static void the_clusters_own_pods_meet_everybody(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p;

	node(b, "n1", 1);
	tenant(b, "loner", RF_ISOLATION_NODE, "loner");
	rf_core_put_namespace(b->c, RF_LIT("kube-system"), RF_STR_EMPTY);
	p = pod(b, "proxy", "kube-system");
	p.node = RF_LIT("n1");
	put(b, p, 0, 0, 0);
	put(b, pod(b, "alone", "loner"), 1, 0, 0);
	cycle(b);
	bound(b, "alone", "n1", "gpu-0");
}

static void a_pod_whose_tenant_is_not_known_goes_nowhere(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 1);
	rf_core_put_namespace(b->c, RF_LIT("ghost"), RF_LIT("ghost"));
	rf_core_put_namespace(b->c, RF_LIT("free"), RF_STR_EMPTY);
	put(b, pod(b, "p1", "ghost"), 0, 0, 0);
	put(b, pod(b, "p2", "unseen"), 0, 0, 0);
	put(b, pod(b, "p3", "free"), 1, 0, 0);
	cycle(b);
	waits(b, "p1", "");
	waits(b, "p2", "");
	waits(b, "p3", "free|spec.namespaces");
}

static void a_tenants_pods_go_by_priority_then_age_then_uid(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p;

	node(b, "n1", 4);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "old", "ta"), 1, 0, 0);
	p = pod(b, "urgent", "ta");
	p.priority = 10;
	put(b, p, 1, 0, 0);
	p = pod(b, "b", "ta");
	p.created_ms = 0;
	put(b, p, 1, 0, 0);
	p = pod(b, "a", "ta");
	p.created_ms = 0;
	put(b, p, 1, 0, 0);
	cycle(b);
	assert_true(rf_str_is(b->d[0].uid, "urgent"));
	assert_true(rf_str_is(b->d[1].uid, "a"));
	assert_true(rf_str_is(b->d[2].uid, "b"));
	assert_true(rf_str_is(b->d[3].uid, "old"));
}

static void a_priority_does_not_pass_another_tenant(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p;

	node(b, "n1", 2);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	tenant(b, "tb", RF_ISOLATION_GPU, "tb");
	put(b, pod(b, "b1", "tb"), 1, 0, 0);
	for (int i = 0; i < 2; i++) {
		p = pod(b, i == 0 ? "a-loud" : "a-louder", "ta");
		p.priority = INT32_MAX;
		put(b, p, 1, 0, 0);
	}
	cycle(b);
	bound(b, "b1", "n1", NULL);
}

static void whole_cards_leave_large_groups_together(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 8);
	node(b, "n2", 2);
	node(b, "n3", 0);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "one", "ta"), 1, 0, 0);
	put(b, pod(b, "eight", "ta"), 8, 0, 0);
	put(b, pod(b, "none", "ta"), 0, 0, 0);
	cycle(b);
	bound(b, "one", "n2", "gpu-0");
	bound(b, "eight", "n1", "gpu-0");
	bound(b, "none", "n3", NULL); /* pods without GPUs leave GPU nodes alone */
}

/* Six shares that only fit if the fullest card is not always taken: 5+3+2 and 4+4+2 of 10. */
static void several_shares_of_one_pod_are_fitted_where_greed_fails(void **state)
{
	struct bench *b = *state;
	static const int64_t tenths[] = { 5, 4, 4, 3, 2, 2 };
	static const char *const names[] = { "a", "b", "c", "d", "e", "f" };
	struct rf_sched_pod p = pod(b, "many", "ta");
	struct rf_sched_container c[6];

	node(b, "n1", 2);
	tenant(b, "ta", RF_ISOLATION_SHARE, "ta");
	for (size_t i = 0; i < 6; i++)
		c[i] = (struct rf_sched_container){ rf_str(names[i]), { .share_bytes = tenths[i] * 8 * GI } };
	p.containers = c;
	p.n_containers = 6;
	rf_core_put_pod(b->c, &p, b->now);
	cycle(b);
	bound(b, "many", "n1", NULL);
	assert_int_equal(b->d[0].n_grants, 6);
}

/* --- promises --------------------------------------------------------------------------------------- */

static void an_allocated_claim_is_kept_and_one_on_a_dead_card_released(void **state)
{
	struct bench *b = *state;
	struct rf_sched_device dead = {
		.name = RF_LIT("gpu-0"), .memory = 80 * GI, .milli = 1000, .fault = RF_LIT("Xid 79")
	};

	node(b, "n1", 1);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "train", "ta"), 1, 0, 0);
	cycle(b);
	allocate(b, "train"); /* the claim is written, the binding is not: it failed */
	rf_core_failed(b->c, RF_CORE_BIND, RF_LIT("train"), RF_LIT("no"), b->now);
	b->now += 60000;
	cycle(b);
	bound(b, "train", "n1", "gpu-0");
	assert_true(about(b, "train")->promised);
	rf_core_failed(b->c, RF_CORE_BIND, RF_LIT("train"), RF_LIT("no"), b->now);
	rf_core_put_devices(b->c, RF_LIT("n1"), &dead, 1);
	b->now += 60000;
	cycle(b);
	assert_int_equal(b->releases, 1);
	rf_core_del_claim(b->c, RF_LIT("ta"), RF_LIT("train"), b->now);
	cycle(b);
	waits(b, "train", "help=");
}

static void a_claim_holds_its_card_until_it_is_gone(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 1);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "first", "ta"), 1, 0, 0);
	cycle(b);
	allocate(b, "first");
	rf_core_del_pod(b->c, RF_LIT("first"), b->now); /* the pod went, the device may still be in use */
	put(b, pod(b, "second", "ta"), 1, 0, 0);
	cycle(b);
	waits(b, "second", "");
	rf_core_del_claim(b->c, RF_LIT("ta"), RF_LIT("first"), b->now);
	cycle(b);
	bound(b, "second", "n1", "gpu-0");
}

static void an_object_that_names_a_pod_as_its_owner_does_not_hide_the_pods_claim(void **state)
{
	struct bench *b = *state;
	static const char *const names[] = { "aaa", "zzz" };

	node(b, "n1", 2);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "train", "ta"), 1, 0, 0);
	cycle(b);
	allocate(b, "train");
	for (size_t i = 0; i < 2; i++) {
		struct rf_sched_claim other = {
			.ns = RF_LIT("ta"), .name = rf_str(names[i]), .pod_uid = RF_LIT("train"), .deleting = i == 0
		};

		rf_core_put_claim(b->c, &other);
	}
	rf_core_failed(b->c, RF_CORE_BIND, RF_LIT("train"), RF_LIT("no"), b->now);
	b->now += 60000;
	cycle(b);
	bound(b, "train", "n1", NULL);
	assert_true(about(b, "train")->promised);
}

static void older_news_does_not_undo_newer(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p;

	node(b, "n1", 1);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	p = pod(b, "p", "ta");
	p.node = RF_LIT("n1");
	put(b, p, 1, 0, 0);
	p.node = RF_STR_EMPTY; /* the copy from before the binding */
	p.rv--;
	put(b, p, 1, 0, 0);
	cycle(b);
	assert_int_equal(b->n, 0);
}

/* --- nodes ------------------------------------------------------------------------------------------ */

static void nodes_are_filtered_by_what_they_say(void **state)
{
	struct bench *b = *state;
	struct rf_sched_taint taint = { RF_LIT("gpu"), RF_LIT("only"), RF_LIT("NoSchedule") };
	struct rf_sched_toleration ok = { .key = RF_LIT("gpu"), .any_value = true };
	struct rf_sched_pair hdd = { RF_LIT("disk"), RF_LIT("hdd") };
	struct rf_sched_node bare = { .name = RF_LIT("n1"), .cpu_milli = 1000, .memory = GI, .pods = 2 };
	struct rf_sched_pod p;

	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "p", "ta"), 0, 0, 0);
	cycle(b);
	waits(b, "p", "no node");
	rf_core_put_node(b->c, &bare);
	cycle(b);
	waits(b, "p", "not ready");
	bare.ready = bare.cordoned = true;
	rf_core_put_node(b->c, &bare);
	cycle(b);
	waits(b, "p", "cordoned");
	bare.cordoned = false;
	bare.taints = &taint;
	bare.n_taints = 1;
	rf_core_put_node(b->c, &bare);
	p = pod(b, "p", "ta");
	p.selector = &hdd;
	p.n_selector = 1;
	put(b, p, 0, 0, 0);
	cycle(b);
	waits(b, "p", "nodeSelector");
	put(b, pod(b, "p", "ta"), 0, 0, 0);
	cycle(b);
	waits(b, "p", "taint");
	p = pod(b, "p", "ta");
	p.tolerations = &ok;
	p.n_tolerations = 1;
	p.cpu_milli = 1500;
	put(b, p, 0, 0, 0);
	cycle(b);
	waits(b, "p", "CPU");
	p.rv = ++b->serial;
	p.cpu_milli = 500;
	put(b, p, 1, 0, 0);
	cycle(b);
	waits(b, "p", "help=");
	p.rv = ++b->serial;
	p.os = RF_LIT("windows");
	put(b, p, 0, 0, 0);
	cycle(b);
	waits(b, "p", "operating system");
	p.rv = ++b->serial;
	p.os = RF_STR_EMPTY;
	put(b, p, 0, 0, 0);
	cycle(b);
	bound(b, "p", "n1", NULL);
}

static void a_card_that_two_slices_speak_of_is_one_card(void **state)
{
	struct bench *b = *state;
	struct rf_sched_device twice[] = {
		{ .name = RF_LIT("gpu-0"), .memory = 80 * GI, .milli = 1000 },
		{ .name = RF_LIT("gpu-0"), .memory = 80 * GI, .milli = 1000 },
	};

	node(b, "n1", 0);
	rf_core_put_devices(b->c, RF_LIT("n1"), twice, 2);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "one", "ta"), 1, 0, 0);
	put(b, pod(b, "two", "ta"), 1, 0, 0);
	cycle(b);
	bound(b, "one", "n1", "gpu-0");
	waits(b, "two", "");
}

static void other_resources_are_counted_and_their_lack_is_said(void **state)
{
	struct bench *b = *state;
	struct rf_sched_amount have[] = { { RF_LIT("rdma/hca"), 2 }, { RF_LIT("nvidia.com/gpu"), 1 } };
	struct rf_sched_amount hca = { RF_LIT("rdma/hca"), 2 }, other = { RF_LIT("fpga.io/x"), 1 },
			       slots = { RF_LIT("nvidia.com/gpu"), 2 }, disk = { RF_LIT("ephemeral-storage"), 9 };
	const struct {
		const char *name;
		struct rf_sched_amount *ask;
	} rows[] = { { "first", &hca }, { "second", &hca }, { "third", &other }, { "fourth", &disk }, { "fifth", &slots } };
	struct rf_sched_node n = { .name = RF_LIT("n1"), .cpu_milli = 8000, .memory = 32 * GI, .pods = 10, .ready = true,
				   .more = have, .n_more = 2 };

	rf_core_put_node(b->c, &n);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_sched_pod p = pod(b, rows[i].name, "ta");

		p.more = rows[i].ask;
		p.n_more = 1;
		put(b, p, 0, 0, 0);
		cycle(b);
	}
	bound(b, "first", "n1", NULL);
	waits(b, "second", "2 of rdma/hca asked, 0 left|help=");
	waits(b, "third", "1 of fpga.io/x asked, 0 left|help=");
	bound(b, "fourth", "n1", NULL); /* the node does not speak of it */
	waits(b, "fifth", "2 of nvidia.com/gpu asked, 1 left|help=");
}

static void a_daemonsets_pod_goes_to_its_node_and_nowhere_else(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "d", "ta");

	node(b, "n1", 1);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	p.only_node = RF_LIT("n2");
	put(b, p, 1, 0, 0);
	cycle(b);
	waits(b, "d", "DaemonSet");
	node(b, "n2", 1);
	cycle(b);
	bound(b, "d", "n2", "gpu-0");
}

static void what_an_administrator_puts_on_every_node_meets_everybody(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "calico", "calico-system");

	node(b, "n1", 1);
	tenant(b, "loner", RF_ISOLATION_NODE, "loner");
	tenant(b, "other", RF_ISOLATION_GPU, "other");
	rf_core_put_namespace(b->c, RF_LIT("calico-system"), RF_STR_EMPTY);
	p.node = RF_LIT("n1");
	p.daemon = true;
	put(b, p, 0, 0, 0);
	/* A tenant's DaemonSet is a tenant's. */
	p = pod(b, "theirs", "other");
	p.node = RF_LIT("n1");
	p.daemon = true;
	put(b, p, 0, 0, 0);
	put(b, pod(b, "alone", "loner"), 1, 0, 0);
	cycle(b);
	waits(b, "alone", "");
	rf_core_del_pod(b->c, RF_LIT("theirs"), b->now);
	cycle(b);
	bound(b, "alone", "n1", "gpu-0");
}

static void a_linux_pod_stays_off_windows(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pair os = { RF_LIT("kubernetes.io/os"), RF_LIT("windows") };
	struct rf_sched_node n = { .name = RF_LIT("n1"), .pods = 10, .ready = true, .labels = &os, .n_labels = 1 };

	rf_core_put_node(b->c, &n);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "p", "ta"), 0, 0, 0);
	cycle(b);
	waits(b, "p", "operating system");
}

static void a_claim_has_room_for_so_many_devices(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 1);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "huge", "ta"), 33, 0, 0);
	put(b, pod(b, "large", "ta"), 32, 0, 0);
	cycle(b);
	waits(b, "huge", "32|split");
	assert_false(rf_str_contains(about(b, "large")->reason, RF_LIT("split")));
}

/* --- quota ------------------------------------------------------------------------------------------ */

static void a_tenant_holds_no_more_than_its_quota(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 8);
	quota(b, "ta", 2, 30 * GI);
	rf_core_put_namespace(b->c, RF_LIT("ta-too"), RF_LIT("ta"));
	put(b, pod(b, "c1", "ta"), 1, 0, 0);
	put(b, pod(b, "c2", "ta-too"), 1, 0, 0);
	cycle(b);
	put(b, pod(b, "c3", "ta"), 1, 0, 0);
	put(b, pod(b, "s1", "ta"), 0, 20 * GI, 0);
	cycle(b);
	put(b, pod(b, "s2", "ta-too"), 0, 20 * GI, 0);
	cycle(b);
	put(b, pod(b, "s3", "ta"), 0, 10 * GI, 0);
	put(b, pod(b, "c9", "ta"), 3, 0, 0);
	cycle(b);
	bound(b, "c1", "n1", NULL);
	bound(b, "c2", "n1", NULL);
	waits(b, "c3", "cards|help=");
	bound(b, "s1", "n1", NULL);
	waits(b, "s2", "share-bytes|help=");
	bound(b, "s3", "n1", NULL);
	waits(b, "c9", "cards|help=");
}

static void a_claim_counts_until_it_is_gone_wherever_it_is(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 2);
	quota(b, "ta", 1, 0);
	put(b, pod(b, "first", "ta"), 1, 0, 0);
	cycle(b);
	allocate(b, "first");
	node(b, "n2", 2);
	rf_core_del_pod(b->c, RF_LIT("first"), b->now);
	rf_core_del_node(b->c, RF_LIT("n1"));
	put(b, pod(b, "second", "ta"), 1, 0, 0);
	cycle(b);
	waits(b, "second", "");
	rf_core_del_claim(b->c, RF_LIT("ta"), RF_LIT("first"), b->now);
	cycle(b);
	bound(b, "second", "n2", NULL);
}

static void a_promise_outlives_a_lowered_quota(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 2);
	quota(b, "ta", 1, 0);
	put(b, pod(b, "first", "ta"), 1, 0, 0);
	cycle(b);
	allocate(b, "first");
	rf_core_failed(b->c, RF_CORE_BIND, RF_LIT("first"), RF_LIT("no"), b->now);
	quota(b, "ta", 0, 0);
	put(b, pod(b, "second", "ta"), 1, 0, 0);
	b->now += 60000;
	cycle(b);
	bound(b, "first", "n1", NULL);
	assert_true(about(b, "first")->promised);
	waits(b, "second", "cards|help=");
}

static void a_demand_that_is_not_understood_makes_the_pod_wait(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "p", "ta");

	node(b, "n1", 0);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	p.unsupported = RF_LIT("spec.nonsense is not honoured; leave it out");
	put(b, p, 0, 0, 0);
	cycle(b);
	waits(b, "p", "spec.nonsense is not honoured; leave it out");
}

/* What a process was told by another order of the same facts it decides alike. */
static void the_order_in_which_facts_are_told_does_not_matter(void **state)
{
	struct bench *b = *state;
	char first[4][64] = { "" };

	for (int turn = 0; turn < 2; turn++) {
		fresh(b);
		b->serial = 0;
		for (int i = 0; i < 2; i++) {
			if ((i == 0) == (turn == 0)) {
				node(b, "n1", 2);
				node(b, "n2", 2);
			} else {
				tenant(b, "ta", RF_ISOLATION_GPU, "ta");
			}
		}
		for (int i = 0; i < 4; i++) {
			int k = turn == 0 ? i : 3 - i;
			struct rf_sched_pod p = pod(b, ((const char *const[]){ "w", "x", "y", "z" })[k], "ta");

			p.created_ms = k;
			put(b, p, 1, 0, 0);
		}
		cycle(b);
		for (int i = 0; i < 4; i++) {
			const struct rf_core_decision *d = about(b, ((const char *const[]){ "w", "x", "y", "z" })[i]);
			char where[64];

			assert_int_equal(d->verdict, RF_CORE_BIND);
			snprintf(where, sizeof(where), "%.*s/%.*s", RF_STR(d->node), RF_STR(d->grants[0].device));
			if (turn == 1)
				assert_string_equal(where, first[i]);
			memcpy(first[i], where, sizeof(where));
		}
	}
}

/* --- reading ---------------------------------------------------------------------------------------- */

static void nodes_pods_claims_and_slices_are_read(void **state)
{
	struct bench *b = *state;
	struct rf_sched_node n = { 0 };
	struct rf_sched_pod p = { 0 };
	struct rf_sched_claim c = { 0 };
	struct rf_sched_device *d = NULL;
	const struct rf_json *slice = NULL;
	size_t n_d = 0;

	rf_sched_read_node(&b->a,
			   rf_json_make(&b->a, "{'metadata':{'name':'n1','labels':{'a':'b'}},'spec'"
					       ":{'unschedulable':true,'taints':[{'key':"
					       "'k','effect':'NoSchedule'}]},'status':{'"
					       "allocatable':{'cpu':'7500m','memory':'2Gi'},"
					       "'conditions':[{'type':'Ready','status':'True'}]}}"),
			   &n);
	assert_true(n.ready && n.cordoned);
	assert_int_equal(n.cpu_milli, 7500);
	assert_int_equal(n.memory, 2 * GI);
	assert_int_equal(n.pods, 110);
	assert_int_equal(n.n_taints, 1);

	assert_int_equal(
		rf_sched_read_pod(&b->a,
				  rf_json_make(&b->a,
					       "{'metadata':{'name':'p','namespace':'ns','uid':'u',"
					       "'resourceVersion':'7',"
					       "'creationTimestamp':'2026-11-15T00:00:00Z'},'spec':"
					       "{'priority':5,'initContainers':["
					       "{'name':'i','resources':{'requests':{'cpu':'3'}}}],"
					       "'containers':[{'name':'c','resources':"
					       "{'requests':{'cpu':1},'limits':{'memory':'1Gi','"
					       "ringfence.io/gpu':1}}},{'name':'d',"
					       "'resources':{'requests':{'cpu':'1500m'}}}]}}"),
				  &p, NULL),
		0);
	assert_int_equal(p.cpu_milli, 3000); /* the init container alone needs more than both */
	assert_int_equal(p.memory, GI);
	assert_int_equal(p.containers[0].ask.cards, 1);
	assert_int_equal(p.rv, 7);
	assert_int_equal(p.priority, 5);
	assert_true(p.created_ms > 0);

	rf_sched_read_claim(&b->a,
			    rf_json_make(&b->a, "{'metadata':{'name':'p-u','namespace':'ns','"
						"ownerReferences':[{'kind':'Pod','uid':'u'}]},"
						"'status':{'allocation':{'devices':{'results':[{'"
						"request':'c','driver':'ringfence.io','pool':"
						"'n1','device':'gpu-0','consumedCapacity':{'memory'"
						":'10Gi','compute':'250'}},{'driver':"
						"'other','pool':'x','device':'y'}]}}}}"),
			    &c);
	assert_int_equal(c.n_grants, 1);
	assert_true(rf_str_is(c.node, "n1"));
	assert_true(rf_str_is(c.pod_uid, "u"));
	assert_int_equal(c.grants[0].bytes, 10 * GI);
	assert_int_equal(c.grants[0].milli, 250);

	slice = rf_json_make(&b->a, "{'spec':{'driver':'ringfence.io','nodeName':'n1','pool':"
				    "{'name':'n1'},'devices':[{'name':'gpu-0','capacity':"
				    "{'memory':{'value':'80Gi'},'compute':{'value':'1000'}},"
				    "'taints':[{'key':'ringfence.io/warm','effect':'None'}]},"
				    "{'name':'gpu-1','capacity':{'memory':{'value':'80Gi'}},"
				    "'taints':[{'key':'ringfence.io/xid','value':'79','effect':"
				    "'NoExecute'}]},{'name':'gpu-2'}]}}");
	assert_true(rf_sched_read_pool(&b->a, &slice, 1, &d, &n_d));
	assert_int_equal(n_d, 3);
	assert_int_equal(d[0].fault.n, 0);
	assert_true(rf_str_is(d[1].fault, "ringfence.io/xid 79"));
	assert_int_equal(d[1].milli, 1000);
	assert_true(rf_str_is(d[2].fault, "reports no memory"));
}

static const struct rf_json *slice_of(struct bench *b, const char *pool, int generation, int count,
				      const char *device)
{
	return rf_json_make(&b->a,
			    "{'spec':{'driver':'ringfence.io','nodeName':'n1','pool':{'name':%s,"
			    "'generation':%d,'resourceSliceCount':%d},'devices':[{'name':%s,"
			    "'capacity':{'memory':{'value':'80Gi'}}}]}}",
			    pool, generation, count, device);
}

static void only_the_newest_generation_of_a_pool_counts_and_only_when_it_is_all_there(void **state)
{
	struct bench *b = *state;
	const struct rf_json *slices[] = { slice_of(b, "n1", 7, 2, "gpu-0"),
					   slice_of(b, "n1", 6, 1, "gpu-9"),
					   slice_of(b, "n1", 7, 2, "gpu-1") };
	struct rf_sched_device *d = NULL;
	size_t n = 77;

	assert_false(rf_sched_read_pool(&b->a, slices, 2, &d, &n));
	assert_int_equal(n, 77); /* what was known holds */
	assert_true(rf_sched_read_pool(&b->a, slices, 3, &d, &n));
	assert_int_equal(n, 2);
	assert_true(rf_str_is(d[0].name, "gpu-0"));
	assert_true(rf_str_is(d[1].name, "gpu-1"));

	assert_true(rf_str_is(rf_sched_slice_node(slices[0]), "n1"));
	assert_int_equal(rf_sched_slice_node(slice_of(b, "n2", 1, 1, "gpu-0")).n, 0);
	assert_int_equal(
		rf_sched_slice_node(rf_json_make(&b->a, "{'spec':{'driver':'other','nodeName':'n1',"
							"'pool':{'name':'n1'}}}"))
			.n,
		0);
}

/* As kube-apiserver 1.36 returns it, shortened. */
static void a_node_of_a_real_cluster_is_read(void **state)
{
	struct bench *b = *state;
	struct rf_sched_node n = { 0 };

	rf_sched_read_node(
		&b->a,
		rf_json_make(&b->a,
			     "{'metadata':{'name':'node1','labels':{'kubernetes.io/os':'linux'}},"
			     "'spec':{'podCIDR':'10.88.0.0/24','taints':[{'key':"
			     "'node.kubernetes.io/not-ready','effect':'NoSchedule','timeAdded':"
			     "'2026-11-15T00:00:00Z'}]},'status':{'capacity':{'cpu':'8','memory':"
			     "'32780388Ki','pods':'110'},'allocatable':{'cpu':'7910m',"
			     "'ephemeral-storage':'47093746742','hugepages-1Gi':'0','memory':"
			     "'32677988Ki','nvidia.com/gpu':'4','pods':'110','rdma/hca':'2',"
			     "'ringfence.io/gpu':'9'},'conditions':[{'type':'MemoryPressure','status':"
			     "'False'},{'type':'Ready','status':'True'}]}}"),
		&n);
	assert_true(n.ready);
	assert_int_equal(n.cpu_milli, 7910);
	assert_int_equal(n.memory, INT64_C(32677988) << 10);
	assert_int_equal(n.pods, 110);
	assert_int_equal(n.n_more, 4);
	assert_true(rf_str_is(n.more[3].name, "rdma/hca"));
	assert_int_equal(n.more[3].n, 2);
	assert_int_equal(n.more[0].n, INT64_C(47093746742));
}

static void a_pod_of_a_real_cluster_is_read(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = { 0 };

	assert_int_equal(
		rf_sched_read_pod(
			&b->a,
			rf_json_make(
				&b->a,
				"{'metadata':{'name':'p','namespace':'ta','uid':'u','resourceVersion'"
				":'1234','ownerReferences':[{'apiVersion':'apps/v1','kind':'DaemonSet'"
				",'name':'d','uid':'x','controller':true,'blockOwnerDeletion':true}]},"
				"'spec':{'schedulerName':'ringfence','affinity':{'nodeAffinity':"
				"{'requiredDuringSchedulingIgnoredDuringExecution':"
				"{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name',"
				"'operator':'In','values':['node1']}]}]}}},'overhead':{'cpu':'250m',"
				"'memory':'120Mi'},'tolerations':[{'key':'node.kubernetes.io/not-ready'"
				",'operator':'Exists','effect':'NoExecute'},{'key':'level','operator':"
				"'Gt','value':'5'}],'initContainers':[{'name':'side','restartPolicy':"
				"'Always','resources':{'requests':{'cpu':'100m','rdma/hca':'1'}}}],"
				"'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1'"
				",'rdma/hca':'1'},'requests':{'cpu':'1','memory':'128M',"
				"'nvidia.com/gpu':'1','rdma/hca':'1'}}}]},'status':{'phase':'Unknown',"
				"'qosClass':'Burstable'}}"),
			&p, NULL),
		0);
	assert_true(p.daemon);
	assert_false(p.ended); /* nobody knows: it may still hold everything */
	assert_true(rf_str_is(p.only_node, "node1"));
	assert_int_equal(p.unsupported.n, 0);
	assert_int_equal(p.cpu_milli, 1350);
	assert_int_equal(p.memory, 128000000 + (INT64_C(120) << 20));
	assert_int_equal(p.n_tolerations, 1); /* not the one that compares in another way */
	assert_int_equal(p.containers[0].ask.cards, 1);
	assert_int_equal(p.n_more, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(p.more[i].n, rf_str_is(p.more[i].name, "rdma/hca") ? 2 : 1);
}

static void a_pod_with_endless_kinds_of_resources_is_not_added_up(void **state)
{
	struct bench *b = *state;
	struct rf_json *requests = rf_json_object(&b->a);
	struct rf_sched_pod p = { 0 };

	for (int i = 0; i < 40; i++)
		rf_json_set_str(&b->a, requests, rf_arena_printf(&b->a, "x.io/r%d", i).p,
				RF_LIT("1"));
	assert_int_equal(
		rf_sched_read_pod(&b->a,
				  rf_json_make(&b->a, "{'metadata':{'name':'p','uid':'u'},'spec':"
						      "{'containers':[{'name':'c','resources':"
						      "{'requests':%j}}]}}",
					       requests),
				  &p, NULL),
		0);
	assert_int_equal(p.n_more, 32);
	assert_true(rf_str_is(p.unsupported,
			      "asks for more than 32 kinds of resources; ask for fewer"));
}

/* A share as large as a card is a share all the same. */
static void claims_say_what_quota_they_count_against(void **state)
{
	struct bench *b = *state;
	struct rf_sched_claim c = { 0 };

	rf_sched_read_claim(
		&b->a,
		rf_json_make(&b->a,
			     "{'metadata':{'name':'c','namespace':'ta'},'spec':{'devices':{'requests':"
			     "[{'name':'card','exactly':{'count':1}},{'name':'share','exactly':"
			     "{'count':1,'capacity':{'requests':{'memory':'80Gi'}}}}]}},'status':"
			     "{'allocation':{'devices':{'results':[{'request':'card','driver':"
			     "'ringfence.io','pool':'n1','device':'gpu-0','shareID':"
			     "'0f8fad5b-d9cb-469f-a165-70867728950e','consumedCapacity':{'memory':"
			     "'80Gi','compute':'1k'}},{'request':'share','driver':'ringfence.io',"
			     "'pool':'n1','device':'gpu-1','consumedCapacity':{'memory':'80Gi',"
			     "'compute':'1k'}},{'request':'odd','driver':'ringfence.io','pool':'n1',"
			     "'device':'gpu-2','consumedCapacity':{'memory':'-5Gi'}}]}}}}"),
		&c);
	assert_int_equal(c.n_grants, 3);
	assert_true(c.grants[0].whole);
	assert_int_equal(c.grants[0].milli, 1000);
	assert_false(c.grants[1].whole);
	assert_false(c.grants[2].whole);
	assert_int_equal(c.grants[2].bytes, 0); /* not less than nothing */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_whole_card_comes_with_all_it_has),
		TEST(a_card_that_is_held_is_refused_without_naming_strangers),
		TEST(shares_are_packed_and_meet_only_in_their_trust_domain),
		TEST(a_node_is_shared_only_by_those_who_both_accept_it),
		TEST(a_terminating_pod_still_keeps_strangers_away),
		TEST(the_clusters_own_pods_meet_everybody),
		TEST(a_pod_whose_tenant_is_not_known_goes_nowhere),
		TEST(a_tenants_pods_go_by_priority_then_age_then_uid),
		TEST(a_priority_does_not_pass_another_tenant),
		TEST(whole_cards_leave_large_groups_together),
		TEST(several_shares_of_one_pod_are_fitted_where_greed_fails),
		TEST(an_allocated_claim_is_kept_and_one_on_a_dead_card_released),
		TEST(a_claim_holds_its_card_until_it_is_gone),
		TEST(an_object_that_names_a_pod_as_its_owner_does_not_hide_the_pods_claim),
		TEST(older_news_does_not_undo_newer),
		TEST(nodes_are_filtered_by_what_they_say),
		TEST(a_card_that_two_slices_speak_of_is_one_card),
		TEST(other_resources_are_counted_and_their_lack_is_said),
		TEST(a_daemonsets_pod_goes_to_its_node_and_nowhere_else),
		TEST(what_an_administrator_puts_on_every_node_meets_everybody),
		TEST(a_linux_pod_stays_off_windows),
		TEST(a_claim_has_room_for_so_many_devices),
		TEST(a_tenant_holds_no_more_than_its_quota),
		TEST(a_claim_counts_until_it_is_gone_wherever_it_is),
		TEST(a_promise_outlives_a_lowered_quota),
		TEST(a_demand_that_is_not_understood_makes_the_pod_wait),
		TEST(the_order_in_which_facts_are_told_does_not_matter),
		TEST(nodes_pods_claims_and_slices_are_read),
		TEST(only_the_newest_generation_of_a_pool_counts_and_only_when_it_is_all_there),
		TEST(a_node_of_a_real_cluster_is_read),
		TEST(a_pod_of_a_real_cluster_is_read),
		TEST(a_pod_with_endless_kinds_of_resources_is_not_added_up),
		TEST(claims_say_what_quota_they_count_against),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
