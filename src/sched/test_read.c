/* Kubernetes objects as facts: what pods say of nodes and of each other, and what stands beside them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/sched.h"

static int set_up(void **state)
{
	*state = rf_new(struct rf_arena);
	return 0;
}

static int tear_down(void **state)
{
	rf_arena_done(*state);
	free(*state);
	return 0;
}

static struct rf_sched_pod read_pod(struct rf_arena *a, struct rf_json *meta, struct rf_json *spec)
{
	struct rf_sched_pod p = { 0 };

	assert_int_equal(rf_sched_read_pod(a, rf_json_make(a, "{'metadata':%j,'spec':%j}", meta, spec), &p, NULL), 0);
	return p;
}

static struct rf_sched_pod of_meta(struct rf_arena *a, const char *meta)
{
	return read_pod(a, rf_json_make(a, meta), rf_json_object(a));
}

static struct rf_sched_pod of_spec(struct rf_arena *a, const char *spec)
{
	return read_pod(a, rf_json_make(a, "{'namespace':'ns','labels':{'app':'x','hash':'7'}}"),
			rf_json_make(a, spec));
}

static bool is(struct rf_str s, const char *text)
{
	if (!rf_str_is(s, text))
		print_error("\"%.*s\"\n", RF_STR(s));
	return rf_str_is(s, text);
}

/* --- pods ---------------------------------------------------------------------------------------- */

static void names_and_notes_are_read(void **state)
{
	struct rf_sched_pod p = of_meta(
		*state, "{'labels':{'ringfence.io/queue':'research','ringfence.io/pod-group':'ring'},'annotations':"
			"{'ringfence.io/gpu-model':'H100|NVIDIA H200','ringfence.io/nvlink':'required',"
			"'ringfence.io/preemptible':'false','ringfence.io/min-run-seconds':'60'}}");

	assert_int_equal(p.unsupported.n, 0);
	assert_int_equal(p.n_labels, 2);
	assert_true(is(p.labels[1].key, "ringfence.io/pod-group"));
	assert_true(is(p.queue, "research"));
	assert_true(is(p.group, "ring"));
	assert_true(is(p.models, "H100|NVIDIA H200"));
	assert_true(p.one_island);
	assert_true(p.pinned);
	assert_int_equal(p.min_run_ms, 60000);
	assert_int_equal(p.grace_ms, 30000);
	assert_false(p.gated);

	p = of_meta(*state, "{'annotations':{'ringfence.io/preemptible':'true'}}");
	assert_false(p.pinned);
	assert_false(p.one_island);
	assert_int_equal(p.models.n + p.queue.n + p.group.n + p.unsupported.n, 0);
}

static void how_it_ended_is_read(void **state)
{
	static const struct {
		const char *phase;
		bool ended, well;
	} cases[] = { { "Pending", false, false }, { "Running", false, false }, { "Succeeded", true, true }, { "Failed", true, false } };

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		struct rf_json *pod = rf_json_make(*state, "{'metadata':{'uid':'u'},'spec':{},'status':{'phase':%s}}", cases[i].phase);
		struct rf_sched_pod p = { 0 };

		assert_int_equal(rf_sched_read_pod(*state, pod, &p, NULL), 0);
		assert_int_equal(p.ended, cases[i].ended);
		assert_int_equal(p.well, cases[i].well);
	}
}

static void notes_that_make_no_sense_make_the_pod_wait(void **state)
{
	static const struct {
		const char *meta, *reason;
	} rows[] = {
		{ "{'labels':{'ringfence.io/queue':'A B'}}",
		  "label ringfence.io/queue: \"A B\" is not valid: it must be the name of a Queue: lower-case letters, digits and -" },
		{ "{'annotations':{'ringfence.io/gpu-model':'H100|'}}",
		  "annotation ringfence.io/gpu-model: \"H100|\" is not valid: it must be names of models of cards, such as H100|H200, at most 16" },
		{ "{'annotations':{'ringfence.io/nvlink':'true','ringfence.io/preemptible':'no'}}",
		  "annotation ringfence.io/nvlink: \"true\" is not valid: it must be \"required\", or left out" },
		{ "{'annotations':{'ringfence.io/min-run-seconds':'7200'}}",
		  "annotation ringfence.io/min-run-seconds: \"7200\" is not valid: it must be a whole number of seconds from 0 to 3600" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_sched_pod p = of_meta(*state, rows[i].meta);

		assert_true(is(p.unsupported, rows[i].reason));
		assert_int_equal(p.min_run_ms, 0);
	}
	/* What is understood of it counts all the same. */
	struct rf_sched_pod p = of_meta(*state, "{'annotations':{'ringfence.io/nvlink':'1','ringfence.io/preemptible':'false'}}");

	assert_true(p.one_island && p.pinned && p.unsupported.n > 0);
}

static void times_and_gates_are_read(void **state)
{
	struct rf_arena *a = *state;
	struct rf_sched_pod p = { 0 };

	assert_int_equal(
		rf_sched_read_pod(
			a,
			rf_json_make(a, "{'spec':{'activeDeadlineSeconds':3600,'terminationGracePeriodSeconds':5,"
					"'schedulingGates':[{'name':'x'}]},'status':{'startTime':"
					"'1970-01-01T00:00:09Z','conditions':[{'type':'PodScheduled','status':"
					"'True','lastTransitionTime':'1970-01-01T00:00:05Z'}]}}"),
			&p, NULL),
		0);
	assert_int_equal(p.run_limit_ms, 3600000);
	assert_int_equal(p.grace_ms, 5000);
	assert_int_equal(p.started_ms, 5000);
	assert_true(p.gated);
	assert_int_equal(p.unsupported.n, 0);
	assert_int_equal(rf_sched_read_pod(a,
					   rf_json_make(a, "{'spec':{'activeDeadlineSeconds':-4,"
							   "'terminationGracePeriodSeconds':9000000000000000000},"
							   "'status':{'startTime':'1970-01-01T00:00:09Z','conditions':"
							   "[{'type':'PodScheduled','status':'False',"
							   "'lastTransitionTime':'1970-01-01T00:00:05Z'}]}}"),
					   &p, NULL),
			 0);
	assert_int_equal(p.run_limit_ms, 0);
	assert_int_equal(p.grace_ms, INT64_C(1000000000000));
	assert_int_equal(p.started_ms, 9000);
}

static void node_affinity_is_read(void **state)
{
	struct rf_sched_pod p = of_spec(
		*state,
		"{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':["
		"{'matchExpressions':[{'key':'zone','operator':'In','values':['a','b']},{'key':'mem','operator':'Gt',"
		"'values':['80']},{'key':'spot','operator':'DoesNotExist'}]},{'matchFields':[{'key':'metadata.name',"
		"'operator':'NotIn','values':['n1']}]}]},'preferredDuringSchedulingIgnoredDuringExecution':["
		"{'weight':7,'preference':{'matchExpressions':[{'key':'ssd','operator':'Exists'}]}},"
		"{'weight':0,'preference':{'matchExpressions':[{'key':'ssd','operator':'Exists'}]}},"
		"{'weight':9,'preference':{'matchExpressions':[{'key':'ssd','operator':'Sounds'}]}},"
		"{'weight':9,'preference':{}}]}}}");
	const struct rf_sched_term *t = p.node_terms;

	assert_int_equal(p.unsupported.n, 0);
	assert_int_equal(p.n_node_terms, 2);
	assert_int_equal(t[0].n, 3);
	assert_int_equal(t[0].all[0].op, RF_SCHED_IN);
	assert_int_equal(t[0].all[0].n_values, 2);
	assert_true(is(t[0].all[0].values[1], "b"));
	assert_int_equal(t[0].all[1].op, RF_SCHED_GT);
	assert_int_equal(t[0].all[2].op, RF_SCHED_ABSENT);
	assert_int_equal(t[1].n, 1);
	assert_true(is(t[1].all[0].key, "metadata.name"));
	assert_int_equal(t[1].all[0].op, RF_SCHED_NOT_IN);
	assert_int_equal(p.n_prefers, 1); /* not those that are none */
	assert_int_equal(p.prefers[0].weight, 7);
	assert_true(is(p.prefers[0].all[0].key, "ssd"));
	assert_int_equal(p.only_node.n, 0);

	/* No term at all holds nowhere, and so does one that says nothing. */
	p = of_spec(*state, "{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
			    "{'nodeSelectorTerms':[]}}}}");
	assert_int_equal(p.n_node_terms, 1);
	assert_int_equal(p.node_terms[0].n, 0);
	/* A DaemonSet's own form is its one node, and no more. */
	p = of_spec(*state, "{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
			    "{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name','operator':'In','values':"
			    "['n1']}]}]}}}}");
	assert_true(is(p.only_node, "n1"));
	assert_int_equal(p.n_node_terms, 0);
}

static void pod_affinity_is_read(void **state)
{
	struct rf_sched_pod p = of_spec(
		*state,
		"{'affinity':{'podAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[{'topologyKey':'zone',"
		"'labelSelector':{'matchLabels':{'app':'db'},'matchExpressions':[{'key':'tier','operator':'NotIn',"
		"'values':['x']}]},'namespaces':['a','b'],'matchLabelKeys':['hash','none']}],"
		"'preferredDuringSchedulingIgnoredDuringExecution':[{'weight':1}]},'podAntiAffinity':"
		"{'requiredDuringSchedulingIgnoredDuringExecution':[{'topologyKey':'kubernetes.io/hostname',"
		"'labelSelector':{},'namespaceSelector':{}},{'topologyKey':'zone'}]}}}");
	const struct rf_sched_near *n = p.nears;

	assert_int_equal(p.unsupported.n, 0);
	assert_int_equal(p.n_nears, 3);
	assert_false(n[0].apart);
	assert_true(is(n[0].topology, "zone"));
	assert_int_equal(n[0].labels.n, 3);
	assert_true(is(n[0].labels.all[2].key, "hash")); /* as the pod itself has it */
	assert_true(is(n[0].labels.all[2].values[0], "7"));
	assert_int_equal(n[0].n_namespaces, 2);
	assert_false(n[0].any || n[0].all_namespaces);
	assert_true(n[1].apart && n[1].any && n[1].all_namespaces);
	assert_true(n[2].apart);
	assert_false(n[2].any); /* no selector: no pod */
	assert_int_equal(n[2].labels.n, 0);
}

static void hard_spreads_are_read_and_soft_ones_left_out(void **state)
{
	struct rf_sched_pod p = of_spec(
		*state, "{'topologySpreadConstraints':[{'maxSkew':2,'topologyKey':'zone','whenUnsatisfiable':"
			"'DoNotSchedule','minDomains':3,'labelSelector':{'matchLabels':{'app':'x'}},"
			"'nodeAffinityPolicy':'Ignore','nodeTaintsPolicy':'Honor','matchLabelKeys':['hash']},"
			"{'maxSkew':1,'topologyKey':'zone','whenUnsatisfiable':'ScheduleAnyway'},"
			"{'maxSkew':1,'topologyKey':'rack','whenUnsatisfiable':'DoNotSchedule','labelSelector':{}}]}");

	assert_int_equal(p.unsupported.n, 0);
	assert_int_equal(p.n_spreads, 2);
	assert_int_equal(p.spreads[0].max_skew, 2);
	assert_int_equal(p.spreads[0].min_domains, 3);
	assert_int_equal(p.spreads[0].labels.n, 2);
	assert_true(p.spreads[0].any_node && p.spreads[0].heed_taints);
	assert_true(p.spreads[1].any);
	assert_false(p.spreads[1].any_node || p.spreads[1].heed_taints);
	assert_int_equal(p.spreads[1].min_domains, 1);
}

#define NODES "{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':["
#define PODS "{'affinity':{'podAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':["

static void demands_that_make_no_sense_make_the_pod_wait(void **state)
{
	static const struct {
		const char *spec, *reason;
	} rows[] = {
		{ NODES "{'matchExpressions':[{'key':'a','operator':'Like'}]}]}}}}",
		  "spec.affinity.nodeAffinity: a: operator \"Like\" is not known; use In, NotIn, Exists, "
		  "DoesNotExist, Gt or Lt" },
		{ NODES "{'matchExpressions':[{'key':'a','operator':'Gt','values':['x']}]}]}}}}",
		  "spec.affinity.nodeAffinity: a: Gt and Lt need one value, a whole number" },
		{ NODES "{'matchExpressions':[{'key':'a','operator':'In'}]}]}}}}",
		  "spec.affinity.nodeAffinity: a: In and NotIn need values" },
		{ NODES "{'matchExpressions':[{'key':'a','operator':'Exists','values':['b']}]}]}}}}",
		  "spec.affinity.nodeAffinity: a: Exists and DoesNotExist take no values" },
		{ NODES "{'matchExpressions':[{'key':'a','operator':'In','values':[5]}]}]}}}}",
		  "spec.affinity.nodeAffinity: a: values must be strings" },
		{ NODES "{'matchExpressions':['x']}]}}}}", "spec.affinity.nodeAffinity: a demand has no key" },
		{ NODES "{'matchFields':[{'key':'spec.x','operator':'In','values':['b']}]}]}}}}",
		  "spec.affinity.nodeAffinity: matchFields knows metadata.name only" },
		{ PODS "{'labelSelector':{}}]}}}",
		  "spec.affinity.podAffinity: topologyKey must be the key of a label" },
		{ PODS "{'topologyKey':'zone','labelSelector':{'matchExpressions':[{'key':'a','operator':'Gt','values':"
		       "['1']}]}}]}}}",
		  "spec.affinity.podAffinity: labelSelector: a: operator \"Gt\" is not known; use In, NotIn, Exists "
		  "or DoesNotExist" },
		{ PODS "{'topologyKey':'zone','labelSelector':'x'}]}}}",
		  "spec.affinity.podAffinity: labelSelector: a selector must be an object" },
		{ PODS "{'topologyKey':'zone','labelSelector':{'matchLabels':{'a':1}}}]}}}",
		  "spec.affinity.podAffinity: labelSelector: matchLabels must be strings" },
		{ PODS "{'topologyKey':'zone','namespaceSelector':{'matchLabels':{'a':'b'}}}]}}}",
		  "spec.affinity.podAffinity: namespaceSelector by labels is not honoured; name the namespaces, or "
		  "select all with {}" },
		{ "{'topologySpreadConstraints':[{'topologyKey':'zone','whenUnsatisfiable':'DoNotSchedule'}]}",
		  "spec.topologySpreadConstraints: maxSkew must be 1 or more" },
		{ "{'topologySpreadConstraints':[{'topologyKey':'zone','maxSkew':1,'whenUnsatisfiable':'Maybe'}]}",
		  "spec.topologySpreadConstraints: whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway" },
		{ "{'topologySpreadConstraints':[{'topologyKey':'zone','maxSkew':1,'minDomains':0,"
		  "'whenUnsatisfiable':'DoNotSchedule'}]}",
		  "spec.topologySpreadConstraints: minDomains must be 1 or more" },
		{ "{'topologySpreadConstraints':[{'topologyKey':'zone','maxSkew':1,'nodeTaintsPolicy':'No',"
		  "'whenUnsatisfiable':'DoNotSchedule'}]}",
		  "spec.topologySpreadConstraints: nodeAffinityPolicy and nodeTaintsPolicy must be Honor or Ignore" },
		{ "{'resourceClaims':[{'name':'x'}]}",
		  "spec.resourceClaims is not for tenants; ask by limits ringfence.io/gpu or ringfence.io/gpu-memory" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++)
		assert_true(is(of_spec(*state, rows[i].spec).unsupported, rows[i].reason));
}

static struct rf_json *copies(struct rf_arena *a, size_t n, const char *of)
{
	struct rf_json *list = rf_json_array(a);

	for (size_t i = 0; i < n; i++)
		rf_json_push(a, list, rf_json_make(a, of));
	return list;
}

static void what_has_no_end_is_cut_and_said(void **state)
{
	struct rf_arena *a = *state;
	struct rf_json *labels = rf_json_object(a);
	struct rf_sched_pod p;

	p = read_pod(a, rf_json_object(a),
		     rf_json_make(a,
				  "{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
				  "{'nodeSelectorTerms':%j}}}}",
				  copies(a, 5000, "{'matchExpressions':[{'key':'a','operator':'Exists'}]}")));
	assert_int_equal(p.n_node_terms, 32);
	assert_true(is(p.unsupported, "spec.affinity.nodeAffinity has more than 32 terms; write fewer"));

	p = read_pod(a, rf_json_object(a),
		     rf_json_make(a,
				  "{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
				  "{'nodeSelectorTerms':[{'matchExpressions':%j}]}}}}",
				  copies(a, 5000, "{'key':'a','operator':'Exists'}")));
	assert_true(is(p.unsupported, "spec.affinity.nodeAffinity: has more than 64 demands in one term"));
	assert_int_equal(p.node_terms[0].n, 0); /* holds nowhere */

	p = read_pod(a, rf_json_object(a),
		     rf_json_make(a,
				  "{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
				  "{'nodeSelectorTerms':[{'matchExpressions':[{'key':'a','operator':'In',"
				  "'values':%j}]}]}}}}",
				  copies(a, 5000, "'v'")));
	assert_true(is(p.unsupported, "spec.affinity.nodeAffinity: a: has more than 256 values"));

	p = read_pod(a, rf_json_object(a),
		     rf_json_make(a,
				  "{'affinity':{'podAntiAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
				  "%j}},'topologySpreadConstraints':%j}",
				  copies(a, 5000, "{'topologyKey':'zone','labelSelector':{}}"),
				  copies(a, 5000, "{'topologyKey':'z','maxSkew':1,'whenUnsatisfiable':'DoNotSchedule'}")));
	assert_int_equal(p.n_nears, 16);
	assert_int_equal(p.n_spreads, 8);
	assert_true(is(p.unsupported, "spec.affinity requires more than 16 terms about other pods; write fewer"));

	for (int i = 0; i < 300; i++)
		rf_json_set_str(a, labels, rf_arena_printf(a, "l%d", i).p, RF_LIT("v"));
	p = read_pod(a, rf_json_make(a, "{'labels':%j}", labels), rf_json_object(a));
	assert_int_equal(p.n_labels, 256);
	assert_true(is(p.unsupported, "has more than 256 labels; remove some"));
}

static void slices_are_asked_by_claims_not_counted_by_name(void **state)
{
	struct rf_sched_pod p = of_spec(*state, "{'containers':[{'name':'c','resources':{'limits':"
						"{'nvidia.com/mig-1g.10gb':2,'rdma/hca':1}}}]}");

	assert_int_equal(p.n_more, 1);
	assert_int_equal(p.containers[0].ask.slices, 2);
	assert_true(is(p.containers[0].ask.profile, "1g.10gb"));
}

/* --- cards and claims ------------------------------------------------------------------------------ */

static void cards_say_where_they_are(void **state)
{
	struct rf_arena *a = *state;
	const struct rf_json *slice = rf_json_make(
		a, "{'spec':{'driver':'ringfence.io','nodeName':'n1','pool':{'name':'n1'},'devices':["
		   "{'name':'gpu-0','attributes':{'nvlinkIsland':{'int':3},'numaNode':{'int':1},'migMode':"
		   "{'string':'enabled'}}},{'name':'gpu-1','attributes':{'nvlinkIsland':{'int':3},'migMode':"
		   "{'string':'dynamic'}}},{'name':'gpu-2'},{'name':'gpu-3','attributes':{'nvlinkIsland':"
		   "{'int':4000},'numaNode':{'int':-1}}}]}}");
	struct rf_sched_device *d = NULL;
	size_t n = 0;

	assert_true(rf_sched_read_pool(a, &slice, 1, &d, &n));
	assert_int_equal(n, 4);
	assert_int_equal(d[0].island, 3);
	assert_int_equal(d[0].numa, 1);
	assert_true(d[0].sliced && !d[0].fixed);
	assert_int_equal(d[1].island, 3);
	assert_false(d[1].sliced || d[1].fixed);
	assert_true(d[2].fixed && !d[2].sliced);
	assert_int_not_equal(d[2].island, d[3].island); /* joined to nobody */
	assert_int_not_equal(d[2].island, 3);
	assert_true(d[2].island >= RF_SCHED_ISLANDS && d[3].island >= RF_SCHED_ISLANDS);
	for (size_t i = 1; i < 4; i++) /* and beside everybody */
		assert_int_equal(d[i].numa, RF_SCHED_NUMA_UNKNOWN);
}

static void slices_in_claims_have_their_place(void **state)
{
	struct rf_arena *a = *state;
	struct rf_sched_claim c = { 0 };

	rf_sched_read_claim(
		a,
		rf_json_make(a, "{'status':{'allocation':{'devices':{'results':["
				"{'request':'c','driver':'ringfence.io','pool':'n1','device':'gpu-0'},"
				"{'request':'whole','driver':'ringfence.io','pool':'n1','device':'gpu-1'},"
				"{'request':'c','driver':'ringfence.io','pool':'n1','device':'gpu-0'},"
				"{'request':'bad','driver':'ringfence.io','pool':'n1','device':'gpu-2'}],"
				"'config':[{'requests':['c'],'opaque':{'driver':'other','parameters':{'profile':'x',"
				"'starts':[7,7]}}},{'source':'FromClaim','requests':['c'],'opaque':{'driver':"
				"'ringfence.io','parameters':{'profile':'1g.10gb','starts':[2,5]}}},"
				"{'requests':['bad'],'opaque':{'driver':'ringfence.io','parameters':{'profile':"
				"'1g.10gb','starts':[8]}}}]}}}}"),
		&c);
	assert_int_equal(c.n_grants, 4);
	assert_true(is(c.grants[0].profile, "1g.10gb"));
	assert_int_equal(c.grants[0].start, 2);
	assert_false(c.grants[0].whole);
	assert_int_equal(c.grants[2].start, 5);
	assert_int_equal(c.grants[1].profile.n, 0);
	assert_true(c.grants[1].whole);
	assert_int_equal(c.grants[3].profile.n, 0); /* no such place: it holds the whole card */
	assert_true(c.grants[3].whole);
}

/* --- what stands beside pods ----------------------------------------------------------------------- */

static void groups_are_read(void **state)
{
	struct rf_arena *a = *state;
	struct rf_sched_group g = { 0 };

	assert_int_equal(rf_sched_read_group(a,
					     rf_json_make(a, "{'metadata':{'name':'ring','namespace':'ns',"
							     "'resourceVersion':'9','creationTimestamp':"
							     "'1970-01-01T00:00:01Z'},'spec':{'minMember':4,'queue':'q',"
							     "'topologyKey':'rack','preemptible':false,'minRunSeconds':5,"
							     "'runLimitSeconds':10},'status':{'started':true}}"),
					     &g, NULL),
			 0);
	assert_true(is(g.ns, "ns") && is(g.name, "ring") && is(g.queue, "q") && is(g.topology, "rack"));
	assert_int_equal(g.min, 4);
	assert_int_equal(g.rv, 9);
	assert_int_equal(g.created_ms, 1000);
	assert_true(g.pinned && g.started);
	assert_int_equal(g.min_run_ms, 5000);
	assert_int_equal(g.run_limit_ms, 0); /* nobody would hold it to that: activeDeadlineSeconds counts */
	assert_int_equal(rf_sched_read_group(a, rf_json_make(a, "{'metadata':{'name':'g'}}"), &g, NULL), 0);
	assert_int_equal(g.min, 1);
	assert_false(g.pinned || g.started);
}

static void groups_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		const char *spec, *message;
	} rows[] = {
		{ "{'minMember':0}", "PodGroup g: spec.minMember must be a whole number from 1 to 100000" },
		{ "{'minMember':100001}", "PodGroup g: spec.minMember must be a whole number from 1 to 100000" },
		{ "{'minMember':'4'}", "PodGroup g: spec.minMember must be a whole number from 1 to 100000" },
		{ "{'queue':'A'}", "PodGroup g: spec.queue must be the name of a queue" },
		{ "{'topologyKey':'a b'}", "PodGroup g: spec.topologyKey must be the key of a label of nodes" },
		{ "{'preemptible':'no'}", "PodGroup g: spec.preemptible must be true or false" },
		{ "{'minRunSeconds':3601}", "PodGroup g: spec.minRunSeconds must be a whole number from 0 to 3600" },
	};
	struct rf_arena *a = *state;

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_sched_group g = { .min = 77 };
		struct rf_err err = RF_ERR_INIT;

		assert_int_equal(rf_sched_read_group(a,
						     rf_json_make(a, "{'metadata':{'name':'g'},'spec':%j}",
								  rf_json_make(a, rows[i].spec)),
						     &g, &err),
				 -RF_INVALID);
		assert_string_equal(err.msg, rows[i].message);
		assert_int_equal(g.min, 77);
	}
}

static void queues_are_read(void **state)
{
	struct rf_arena *a = *state;
	struct rf_sched_queue q = { 0 };
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(
		rf_sched_read_queue(a,
				    rf_json_make(a, "{'metadata':{'name':'q'},'spec':{'parent':'top','tenant':'ta',"
						    "'weight':3,'resources':[{'name':'cards','guaranteed':2,'limit':'8'},"
						    "{'name':'share-bytes','limit':'80Gi','lendingLimit':0,"
						    "'borrowingLimit':'1Gi'}]}}"),
				    &q, &err),
		0);
	assert_true(is(q.name, "q") && is(q.parent, "top") && is(q.tenant, "ta"));
	assert_int_equal(q.weight, 3);
	assert_int_equal(q.n_quotas, 2);
	assert_int_equal(q.quotas[0].guaranteed, 2);
	assert_int_equal(q.quotas[0].limit, 8);
	assert_int_equal(q.quotas[0].lending, -1);
	assert_int_equal(q.quotas[1].limit, INT64_C(80) << 30);
	assert_int_equal(q.quotas[1].lending, 0);
	assert_int_equal(q.quotas[1].borrowing, INT64_C(1) << 30);
	assert_int_equal(rf_sched_read_queue(a, rf_json_make(a, "{'metadata':{'name':'q'}}"), &q, &err), 0);
	assert_int_equal(q.weight, 1);
	assert_int_equal(q.n_quotas, 0);
	assert_int_equal(rf_sched_read_queue(
				 a, rf_json_make(a, "{'metadata':{'name':'q'},'spec':{'weight':0}}"), &q, &err),
			 -RF_INVALID);
	assert_string_equal(err.msg, "Queue q: spec.weight must be a whole number from 1 to 1000000");
	assert_int_equal(rf_sched_read_queue(a,
					     rf_json_make(a, "{'metadata':{'name':'q'},'spec':{'resources':"
							     "[{'name':'cards','limit':-1}]}}"),
					     &q, &err),
			 -RF_INVALID);
	assert_string_equal(err.msg, "Queue q: spec.resources[0].limit: must be a whole number from 0 to "
				     "4503599627370496, or a quantity such as 80Gi");
}

static void budgets_are_read(void **state)
{
	struct rf_arena *a = *state;
	struct rf_sched_budget b = { 0 };

	rf_sched_read_budget(a,
			     rf_json_make(a, "{'metadata':{'name':'b','namespace':'ns'},'spec':{'selector':"
					     "{'matchLabels':{'app':'x'}}},'status':{'disruptionsAllowed':2}}"),
			     &b);
	assert_int_equal(b.allowed, 2);
	assert_int_equal(b.labels.n, 1);
	assert_false(b.any);
	rf_sched_read_budget(a, rf_json_make(a, "{'spec':{'selector':{}},'status':{'disruptionsAllowed':-3}}"), &b);
	assert_true(b.any);
	assert_int_equal(b.allowed, 0);
	rf_sched_read_budget(a, rf_json_make(a, "{'status':{'disruptionsAllowed':5}}"), &b);
	assert_false(b.any); /* speaks of nobody */
	assert_int_equal(b.labels.n, 0);
	rf_sched_read_budget(a,
			     rf_json_make(a, "{'spec':{'selector':{'matchExpressions':[{'key':'a','operator':'Huh'}]}},"
					     "'status':{'disruptionsAllowed':5}}"),
			     &b);
	assert_true(b.any); /* nobody knows of whom: nobody goes */
	assert_int_equal(b.allowed, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_and_notes_are_read),
		TEST(how_it_ended_is_read),
		TEST(notes_that_make_no_sense_make_the_pod_wait),
		TEST(times_and_gates_are_read),
		TEST(node_affinity_is_read),
		TEST(pod_affinity_is_read),
		TEST(hard_spreads_are_read_and_soft_ones_left_out),
		TEST(demands_that_make_no_sense_make_the_pod_wait),
		TEST(what_has_no_end_is_cut_and_said),
		TEST(slices_are_asked_by_claims_not_counted_by_name),
		TEST(cards_say_where_they_are),
		TEST(slices_in_claims_have_their_place),
		TEST(groups_are_read),
		TEST(groups_that_make_no_sense_are_refused),
		TEST(queues_are_read),
		TEST(budgets_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
