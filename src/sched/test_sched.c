#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/sched.h"

#define GI (INT64_C(1) << 30)

struct bench {
	struct rf_sched *s;
	struct rf_arena a;
	struct rf_sched_decision *d;
	size_t n;
	int64_t serial;
};

static int set_up(void **state)
{
	struct bench *b = rf_new(struct bench);

	b->s = rf_sched_new();
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	rf_sched_free(b->s);
	rf_arena_done(&b->a);
	free(b);
	return 0;
}

static void tenant(struct bench *b, const char *name, enum rf_isolation isolation,
		   const char *trust)
{
	struct rf_tenant t = { .name = rf_str(name),
			       .isolation = isolation,
			       .trust_domain = rf_str(trust) };

	rf_sched_put_tenant(b->s, &t);
	rf_sched_put_namespace(b->s, t.name, t.name);
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
		d[i] = (struct rf_sched_device){ .name = rf_str(names[i]),
						 .memory = 80 * GI,
						 .milli = 1000 };
	}
	rf_sched_put_node(b->s, &n);
	rf_sched_put_devices(b->s, n.name, d, cards);
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
	struct rf_sched_container c = { RF_LIT("main"), { cards, bytes, milli } };

	p.containers = &c;
	p.n_containers = 1;
	rf_sched_put_pod(b->s, &p);
}

static const struct rf_sched_decision *about(struct bench *b, const char *name)
{
	for (size_t i = 0; i < b->n; i++) {
		if (rf_str_is(b->d[i].uid, name))
			return &b->d[i];
	}
	fail_msg("no decision about %s", name);
	return NULL;
}

static void cycle(struct bench *b)
{
	rf_sched_cycle(b->s, &b->a, &b->d, &b->n);
}

static void waits(struct bench *b, const char *name, const char *reason)
{
	const struct rf_sched_decision *d = about(b, name);

	assert_int_equal(d->verdict, RF_SCHED_WAIT);
	assert_string_equal(rf_arena_cstr(&b->a, d->reason), reason);
}

static void bound(struct bench *b, const char *name, const char *where, const char *device)
{
	const struct rf_sched_decision *d = about(b, name);

	assert_string_equal(rf_arena_cstr(&b->a, d->reason), "");
	assert_int_equal(d->verdict, RF_SCHED_BIND);
	assert_string_equal(rf_arena_cstr(&b->a, d->node), where);
	if (device != NULL)
		assert_string_equal(rf_arena_cstr(&b->a, d->grants[0].device), device);
}

/* Does what control does with the decisions, all at once. */
static void carry_out(struct bench *b)
{
	cycle(b);
	for (size_t i = 0; i < b->n; i++) {
		const struct rf_sched_decision *d = &b->d[i];
		struct rf_sched_claim c = { .ns = d->ns,
					    .name = d->name,
					    .pod_uid = d->uid,
					    .tenant = d->tenant,
					    .node = d->node,
					    .rv = ++b->serial,
					    .grants = d->grants,
					    .n_grants = d->n_grants };

		if (d->verdict == RF_SCHED_BIND && d->n_grants > 0)
			rf_sched_put_claim(b->s, &c);
	}
}

static void a_whole_card_comes_with_all_it_has(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 2);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "train", "ta"), 1, 0, 0);
	cycle(b);
	bound(b, "train", "n1", "gpu-0");
	assert_int_equal(b->d[0].grants[0].bytes, 80 * GI);
	assert_int_equal(b->d[0].grants[0].milli, 1000);
}

static void a_card_that_is_held_is_refused_with_a_remedy_and_without_naming_strangers(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 1);
	tenant(b, "team-a", RF_ISOLATION_GPU, "team-a");
	tenant(b, "team-b", RF_ISOLATION_GPU, "team-b");
	put(b, pod(b, "first", "team-b"), 1, 0, 0);
	put(b, pod(b, "second", "team-a"), 1, 0, 0);
	cycle(b);
	bound(b, "first", "n1", "gpu-0");
	waits(b, "second",
	      "0/1 nodes fit: 1 without room on the cards (n1: gpu-0 is held by another "
	      "tenant); main asks for 1 whole card; wait until a card is released, or ask for less");
}

static void shares_are_packed_and_meet_only_in_their_trust_domain(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 2);
	tenant(b, "ta", RF_ISOLATION_SHARE, "lab");
	tenant(b, "tb", RF_ISOLATION_COOPERATIVE, "lab");
	tenant(b, "tc", RF_ISOLATION_SHARE, "elsewhere");
	put(b, pod(b, "s1", "ta"), 0, 30 * GI, 400);
	put(b, pod(b, "s2", "tb"), 0, 30 * GI, 400);
	put(b, pod(b, "s3", "tc"), 0, 10 * GI, 100);
	put(b, pod(b, "s4", "ta"), 0, 10 * GI, 300);
	cycle(b);
	bound(b, "s1", "n1", "gpu-0");
	bound(b, "s2", "n1", "gpu-0");
	bound(b, "s3", "n1", "gpu-1");
	waits(b, "s4",
	      "0/1 nodes fit: 1 without room on the cards (n1: gpu-0 has 20Gi and 20% of compute "
	      "left, "
	      "gpu-1 is held by another tenant); main asks for 10Gi and 30% of one "
	      "card; wait "
	      "until a card is released, or ask for less");
}

static void a_node_is_shared_only_by_those_who_both_accept_it(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 2);
	tenant(b, "loner", RF_ISOLATION_NODE, "loner");
	tenant(b, "other", RF_ISOLATION_GPU, "other");
	put(b, pod(b, "plain", "other"), 0, 0, 0); /* no GPU, still a stranger */
	put(b, pod(b, "alone", "loner"), 1, 0, 0);
	cycle(b);
	bound(b, "plain", "n1", NULL);
	waits(b, "alone",
	      "0/1 nodes fit: 1 with tenants on it that may not meet this one (n1: another tenant); wait until their pods have ended, or add a node");
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
	assert_int_equal(b->n, 1);
	assert_int_equal(about(b, "new")->verdict, RF_SCHED_WAIT);
	rf_sched_del_pod(b->s, RF_LIT("going"));
	cycle(b);
	bound(b, "new", "n1", NULL);
}

static void the_clusters_own_pods_meet_everybody(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p;

	node(b, "n1", 1);
	tenant(b, "loner", RF_ISOLATION_NODE, "loner");
	rf_sched_put_namespace(b->s, RF_LIT("kube-system"), RF_STR_EMPTY);
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
	rf_sched_put_namespace(b->s, RF_LIT("ghost"), RF_LIT("ghost"));
	rf_sched_put_namespace(b->s, RF_LIT("free"), RF_STR_EMPTY);
	put(b, pod(b, "p1", "ghost"), 0, 0, 0);
	put(b, pod(b, "p2", "unseen"), 0, 0, 0);
	put(b, pod(b, "p3", "free"), 1, 0, 0);
	cycle(b);
	assert_int_equal(about(b, "p1")->verdict, RF_SCHED_WAIT);
	assert_int_equal(about(b, "p2")->verdict, RF_SCHED_WAIT);
	waits(b, "p3",
	      "namespace free belongs to no tenant, and GPUs are for tenants; add it to a Tenant's "
	      "spec.namespaces");
}

static void a_tenants_pods_go_by_priority_then_age_then_uid(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p;

	node(b, "n1", 1);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "old", "ta"), 1, 0, 0);
	p = pod(b, "urgent", "ta");
	p.priority = 10;
	put(b, p, 1, 0, 0);
	p = pod(b, "b", "ta");
	p.created_ms = 1;
	put(b, p, 1, 0, 0);
	p = pod(b, "a", "ta");
	p.created_ms = 1;
	put(b, p, 1, 0, 0);
	cycle(b);
	assert_true(rf_str_is(b->d[0].uid, "urgent"));
	assert_true(rf_str_is(b->d[1].uid, "a"));
	assert_true(rf_str_is(b->d[2].uid, "b"));
	assert_true(rf_str_is(b->d[3].uid, "old"));
	bound(b, "urgent", "n1", "gpu-0");
}

static void a_priority_does_not_pass_another_tenant(void **state)
{
	static const char *const expected[] = { "a-loud", "b1", "a-calm", "b2" };
	struct bench *b = *state;
	struct rf_sched_pod p;

	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	tenant(b, "tb", RF_ISOLATION_GPU, "tb");
	put(b, pod(b, "a-calm", "ta"), 0, 0, 0);
	put(b, pod(b, "b1", "tb"), 0, 0, 0);
	p = pod(b, "a-loud", "ta");
	p.priority = INT32_MAX;
	put(b, p, 0, 0, 0);
	put(b, pod(b, "b2", "tb"), 0, 0, 0);
	cycle(b);
	assert_int_equal(b->n, 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(rf_arena_cstr(&b->a, b->d[i].uid), expected[i]);
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
	static const int64_t tenths[] = { 5, 4, 4, 3, 2, 2 };
	static const char *const names[] = { "a", "b", "c", "d", "e", "f" };
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "many", "ta");
	struct rf_sched_container c[6];

	node(b, "n1", 2);
	tenant(b, "ta", RF_ISOLATION_SHARE, "ta");
	for (size_t i = 0; i < 6; i++)
		c[i] = (struct rf_sched_container){ rf_str(names[i]),
						    { 0, tenths[i] * 8 * GI, 0 } };
	p.containers = c;
	p.n_containers = 6;
	rf_sched_put_pod(b->s, &p);
	cycle(b);
	assert_int_equal(about(b, "many")->verdict, RF_SCHED_BIND);
	assert_int_equal(b->d[0].n_grants, 6);
}

static void an_allocated_claim_is_kept_and_one_on_a_dead_card_released(void **state)
{
	struct bench *b = *state;
	struct rf_sched_device dead = {
		.name = RF_LIT("gpu-0"), .memory = 80 * GI, .milli = 1000, .fault = RF_LIT("Xid 79")
	};

	node(b, "n1", 1);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "train", "ta"), 1, 0, 0);
	carry_out(b); /* the claim is written, the binding is not */
	cycle(b);
	bound(b, "train", "n1", "gpu-0");
	assert_true(b->d[0].promised);
	rf_sched_put_devices(b->s, RF_LIT("n1"), &dead, 1);
	cycle(b);
	assert_int_equal(about(b, "train")->verdict, RF_SCHED_RELEASE);
	rf_sched_del_claim(b->s, RF_LIT("ta"), RF_LIT("train"));
	cycle(b);
	waits(b, "train",
	      "0/1 nodes fit: 1 without room on the cards (n1: gpu-0 is out of service: Xid 79); "
	      "main asks "
	      "for 1 whole card; wait until a card is released, or ask for less");
}

static void a_claim_holds_its_card_until_it_is_gone(void **state)
{
	struct bench *b = *state;

	node(b, "n1", 1);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "first", "ta"), 1, 0, 0);
	carry_out(b);
	rf_sched_del_pod(b->s, RF_LIT("first")); /* the pod went, the device may still be in use */
	put(b, pod(b, "second", "ta"), 1, 0, 0);
	cycle(b);
	assert_int_equal(about(b, "second")->verdict, RF_SCHED_WAIT);
	rf_sched_del_claim(b->s, RF_LIT("ta"), RF_LIT("first"));
	cycle(b);
	bound(b, "second", "n1", "gpu-0");
}

static void nodes_are_filtered_by_what_they_say(void **state)
{
	struct bench *b = *state;
	struct rf_sched_taint taint = { RF_LIT("gpu"), RF_LIT("only"), RF_LIT("NoSchedule") };
	struct rf_sched_toleration ok = { .key = RF_LIT("gpu"), .any_value = true };
	struct rf_sched_pair hdd = { RF_LIT("disk"), RF_LIT("hdd") };
	struct rf_sched_node bare = {
		.name = RF_LIT("n1"), .cpu_milli = 1000, .memory = GI, .pods = 2
	};
	struct rf_sched_pod p;

	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	put(b, pod(b, "p", "ta"), 0, 0, 0);
	cycle(b);
	waits(b, "p",
	      "0/0 nodes fit: there is no node; start `ringfence node` on a machine with GPUs");
	rf_sched_put_node(b->s, &bare);
	cycle(b);
	waits(b, "p",
	      "0/1 nodes fit: 1 not ready; start the node agent, or wait until a node is ready");
	bare.ready = bare.cordoned = true;
	rf_sched_put_node(b->s, &bare);
	cycle(b);
	waits(b, "p", "0/1 nodes fit: 1 cordoned; uncordon a node");
	bare.cordoned = false;
	bare.taints = &taint;
	bare.n_taints = 1;
	rf_sched_put_node(b->s, &bare);
	node(b, "n2", 0);
	p = pod(b, "p", "ta");
	p.selector = &hdd;
	p.n_selector = 1;
	put(b, p, 0, 0, 0);
	cycle(b);
	waits(b, "p",
	      "0/2 nodes fit: 2 without the labels of its nodeSelector; change spec.nodeSelector "
	      "or "
	      "label a node");
	rf_sched_del_node(b->s, RF_LIT("n2"));
	p = pod(b, "p", "ta");
	put(b, p, 0, 0, 0);
	cycle(b);
	waits(b, "p",
	      "0/1 nodes fit: 1 with a taint that it does not tolerate; add a toleration or remove "
	      "the taint");
	p = pod(b, "p", "ta");
	p.tolerations = &ok;
	p.n_tolerations = 1;
	p.cpu_milli = 1500;
	put(b, p, 0, 0, 0);
	cycle(b);
	waits(b, "p",
	      "0/1 nodes fit: 1 without enough CPU (n1: 1 left); lower requests.cpu, or wait until "
	      "a pod has ended");
	p.rv = ++b->serial;
	p.cpu_milli = 500;
	put(b, p, 1, 0, 0);
	cycle(b);
	waits(b, "p",
	      "0/1 nodes fit: 1 without GPUs; start ringfence's node agent where the GPUs are");
	p.rv = ++b->serial;
	p.os = RF_LIT("windows");
	put(b, p, 0, 0, 0);
	cycle(b);
	waits(b, "p", "0/1 nodes fit: 1 of another operating system; change spec.os of the pod");
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
	put(b, p, 1, 0, 0);
	p.rv--;
	put(b, p, 1, 0, 0);
	cycle(b);
	assert_int_equal(b->n, 0);
}

/* --- reading ----------------------------------------------------------------------------- */

static void nodes_pods_claims_and_slices_are_read(void **state)
{
	struct bench *b = *state;
	struct rf_sched_node n = { 0 };
	struct rf_sched_pod p = { 0 };
	struct rf_sched_claim c = { 0 };
	struct rf_sched_device *d = NULL;
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

	rf_sched_read_slice(&b->a,
			    rf_json_make(&b->a, "{'spec':{'driver':'ringfence.io','nodeName':'n1','"
						"devices':[{'name':'gpu-0','capacity':"
						"{'memory':{'value':'80Gi'},'compute':{'value':'"
						"1000'}}},{'name':'gpu-1','capacity':{'memory':"
						"{'value':'80Gi'}},'taints':[{'key':'ringfence.io/"
						"xid','value':'79','effect':'NoExecute'}]},"
						"{'name':'gpu-2'}]}}"),
			    &d, &n_d);
	assert_int_equal(n_d, 3);
	assert_int_equal(d[0].fault.n, 0);
	assert_true(rf_str_is(d[1].fault, "ringfence.io/xid 79"));
	assert_int_equal(d[1].milli, 1000);
	assert_true(rf_str_is(d[2].fault, "reports no memory"));
}

static void a_hard_demand_that_is_not_honoured_makes_the_pod_wait(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = { 0 };

	assert_int_equal(
		rf_sched_read_pod(&b->a,
				  rf_json_make(&b->a,
					       "{'metadata':{'name':'p','namespace':'ta','uid':'u'}"
					       ",'spec':{'affinity':{'nodeAffinity':"
					       "{'requiredDuringSchedulingIgnoredDuringExecution':{"
					       "'nodeSelectorTerms':[]}}}}}"),
				  &p, NULL),
		0);
	node(b, "n1", 0);
	tenant(b, "ta", RF_ISOLATION_GPU, "ta");
	rf_sched_put_pod(b->s, &p);
	cycle(b);
	waits(b, "u",
	      "spec.affinity has required terms, which this scheduler does not honour; use "
	      "spec.nodeSelector");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_whole_card_comes_with_all_it_has),
		TEST(a_card_that_is_held_is_refused_with_a_remedy_and_without_naming_strangers),
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
		TEST(nodes_are_filtered_by_what_they_say),
		TEST(older_news_does_not_undo_newer),
		TEST(nodes_pods_claims_and_slices_are_read),
		TEST(a_hard_demand_that_is_not_honoured_makes_the_pod_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
