#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tenant/admit.h"

#define GI (INT64_C(1) << 30)
#define CARD "'resources':{'limits':{'ringfence.io/gpu':1}}"
#define SHARE                                                                                      \
	"'resources':{'limits':{'ringfence.io/gpu-memory':'10Gi','ringfence.io/gpu-compute':25}}"

/* A pod of one container; `container` and `spec` are further members, each followed by a comma. */
static struct rf_json *pod_of(struct rf_arena *a, const char *container, const char *spec)
{
	struct rf_str text = rf_arena_printf(a,
					     "{'metadata':{'name':'train'},'spec':{%s'containers':"
					     "[{%s'name':'c','image':'x'}]}}",
					     spec, container);

	return rf_json_make(a, text.p);
}

static struct rf_json *tenant_of(struct rf_arena *a, const char *spec)
{
	return rf_json_make(a, "{'metadata':{'name':'team-a'},'spec':%j}", rf_json_make(a, spec));
}

static struct rf_admission ask_of(const struct rf_json *pod, const struct rf_json *tenant)
{
	return (struct rf_admission){ .pod = pod,
				      .ns = RF_LIT("team-a"),
				      .tenant_name = RF_LIT("team-a"),
				      .tenant = tenant };
}

static void allowed(struct rf_arena *a, const struct rf_admission *ask)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_tenant_admit(a, ask, &err) < 0)
		fail_msg("refused: %s", err.msg);
}

static void refused(struct rf_arena *a, const struct rf_admission *ask, int code,
		    const char *message)
{
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_tenant_admit(a, ask, &err), -code);
	assert_string_equal(err.msg, message);
}

/* --- whose namespace -------------------------------------------------------------------------- */

static void cards_are_for_tenants(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_admission ask = { .pod = pod_of(&a, CARD ",", ""), .ns = RF_LIT("default") };

	refused(&a, &ask, RF_FORBIDDEN,
		"asks for GPUs, but namespace \"default\" belongs to no tenant; use a tenant's "
		"namespace or ask an administrator to create a Tenant for it");
	ask.pod = pod_of(&a, "", "");
	allowed(&a, &ask);
}

static void a_tenant_that_is_not_there_or_going_takes_no_pods(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_admission ask = ask_of(pod_of(&a, "", ""), NULL);

	refused(&a, &ask, RF_FORBIDDEN,
		"namespace \"team-a\" belongs to tenant \"team-a\", which does not exist; create "
		"the "
		"Tenant or remove the namespace's label ringfence.io/tenant");
	ask.tenant = rf_json_make(&a, "{'metadata':{'name':'team-a','deletionTimestamp':"
				      "'2026-11-15T00:00:00Z'},'spec':{}}");
	refused(&a, &ask, RF_FORBIDDEN, "tenant \"team-a\" is being deleted");
	ask.tenant = tenant_of(&a, "{'isolation':'maybe'}");
	refused(&a, &ask, RF_INVALID,
		"tenant team-a: spec.isolation: must be rack, node, numa, nvlink, gpu, slice, share or cooperative");
}

static void a_share_needs_a_tenant_that_shares(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_admission ask =
		ask_of(pod_of(&a, SHARE ",", ""), tenant_of(&a, "{'quota':{'gpuMemory':'10Gi'}}"));

	refused(&a, &ask, RF_FORBIDDEN,
		"pod train: asks for a share of a card (ringfence.io/gpu-memory), and tenant "
		"team-a "
		"has isolation gpu, which shares no card; ask for whole cards (ringfence.io/gpu), "
		"or "
		"have the administrator set isolation share in Tenant team-a");
	ask.tenant = tenant_of(&a, "{'isolation':'share','quota':{'gpuMemory':'10Gi'}}");
	allowed(&a, &ask);
}

static void a_malformed_ask_is_invalid_anywhere(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_admission ask = {
		.pod = pod_of(&a, "'resources':{'limits':{'ringfence.io/gpus':1}},", ""),
		.ns = RF_LIT("default")
	};

	assert_int_equal(rf_tenant_admit(&a, &ask, NULL), -RF_INVALID);
}

/* --- quota ------------------------------------------------------------------------------------ */

static void quota_counts_what_is_held_and_what_is_asked(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *t = tenant_of(
		&a, "{'isolation':'share','quota':{'gpus':2,'gpuMemory':'20Gi','pods':3}}");
	struct rf_admission card = ask_of(pod_of(&a, CARD ",", ""), t);
	struct rf_admission share = ask_of(pod_of(&a, SHARE ",", ""), t);
	struct rf_admission plain = ask_of(pod_of(&a, "", ""), t);

	card.used = share.used = plain.used = (struct rf_tenant_use){ 1, 10 * GI, 2 };
	allowed(&a, &card);
	allowed(&a, &share);
	allowed(&a, &plain);
	card.used = share.used = plain.used = (struct rf_tenant_use){ 2, 11 * GI, 2 };
	refused(&a, &card, RF_FORBIDDEN,
		"exceeded quota: tenant team-a, requested: requests.ringfence.io/gpu=1, used: "
		"requests.ringfence.io/gpu=2, limited: requests.ringfence.io/gpu=2; wait for a pod "
		"of "
		"the tenant to end, lower ringfence.io/gpu or ringfence.io/gpu-memory, or ask for "
		"a "
		"larger Tenant quota");
	refused(&a, &share, RF_FORBIDDEN,
		"exceeded quota: tenant team-a, requested: requests.ringfence.io/gpu-memory=10Gi, "
		"used: "
		"requests.ringfence.io/gpu-memory=11Gi, limited: "
		"requests.ringfence.io/gpu-memory=20Gi; wait for a pod of the tenant to end, lower "
		"ringfence.io/gpu or ringfence.io/gpu-memory, or ask for a larger Tenant quota");
	allowed(&a, &plain);
	card.used = plain.used = (struct rf_tenant_use){ 2, 0, 3 };
	refused(&a, &plain, RF_FORBIDDEN,
		"exceeded quota: tenant team-a, requested: pods=1, used: pods=3, limited: pods=3; "
		"delete "
		"what is no longer needed or ask for a larger quota");
	assert_int_equal(rf_tenant_admit(&a, &card, NULL), -RF_FORBIDDEN);
}

static void no_quota_means_no_cards_and_any_number_of_pods(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_admission ask = ask_of(pod_of(&a, CARD ",", ""), tenant_of(&a, "{}"));

	assert_int_equal(rf_tenant_admit(&a, &ask, NULL), -RF_FORBIDDEN);
	ask.pod = pod_of(&a, "", "");
	ask.used.pods = RF_TENANT_USE_MAX;
	allowed(&a, &ask);
}

static struct rf_json *pod_of_many(struct rf_arena *a, int containers)
{
	struct rf_json *pod =
		pod_of(a, "'resources':{'limits':{'ringfence.io/gpu-memory':'1Pi'}},", "");
	struct rf_json *list = rf_json_at(pod, "spec", "containers");

	for (int i = 1; i < containers; i++)
		rf_json_push(a, list, rf_json_item(list, 0));
	return pod;
}

static void sums_never_wrap(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_admission ask =
		ask_of(pod_of_many(&a, 9),
		       tenant_of(&a, "{'isolation':'share','quota':{'gpuMemory':'1Gi'}}"));
	struct rf_json *most = pod_of_many(&a, 4000);

	for (int i = 0; i < 10; i++)
		rf_tenant_use_add_pod(&ask.used, most);
	assert_true(ask.used.share_bytes == RF_TENANT_USE_MAX);
	assert_int_equal(ask.used.pods, 10);
	refused(&a, &ask, RF_FORBIDDEN,
		"exceeded quota: tenant team-a, requested: requests.ringfence.io/gpu-memory=9Pi, "
		"used: "
		"requests.ringfence.io/gpu-memory=2305843009213693951, limited: "
		"requests.ringfence.io/gpu-memory=1Gi; wait for a pod of the tenant to end, lower "
		"ringfence.io/gpu or ringfence.io/gpu-memory, or ask for a larger Tenant quota");
}

static void pods_count_until_they_end(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *card = pod_of(&a, CARD ",", ""), *share = pod_of(&a, SHARE ",", "");
	struct rf_json *odd = pod_of(&a, "'resources':{'limits':{'ringfence.io/gpu':'x'}},", "");
	struct rf_tenant_use u = { 0 };

	rf_json_set_str(&a, rf_json_ensure(&a, card, "status"), "phase", RF_LIT("Running"));
	rf_tenant_use_add_pod(&u, card);
	rf_tenant_use_add_pod(&u, share);
	rf_tenant_use_add_pod(&u, odd);
	assert_int_equal(u.cards, 1);
	assert_int_equal(u.share_bytes, 10 * GI);
	assert_int_equal(u.pods, 3);
	rf_json_set_str(&a, rf_json_ensure(&a, card, "status"), "phase", RF_LIT("Failed"));
	rf_tenant_use_add_pod(&u, card);
	assert_int_equal(u.cards, 1);
	assert_int_equal(u.pods, 3);
}

/* --- where it runs ---------------------------------------------------------------------------- */

static void only_the_platform_names_a_node(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_admission ask = ask_of(pod_of(&a, "", "'nodeName':'n1',"), tenant_of(&a, "{}"));

	refused(&a, &ask, RF_FORBIDDEN,
		"spec.nodeName may only be set by the scheduler; leave it out, or use "
		"spec.nodeSelector");
	ask.platform = true;
	allowed(&a, &ask);
}

static void pods_with_cards_are_placed_by_ringfence(void **state)
{
	static const struct {
		const char *spec, *ours;
		bool ok;
	} rows[] = {
		{ "", NULL, true },
		{ "'schedulerName':'default-scheduler',", NULL, true },
		{ "'schedulerName':'ringfence',", NULL, true },
		{ "'schedulerName':'ringfence',", "fence-2", false },
		{ "'schedulerName':'fence-2',", "fence-2", true },
		{ "'schedulerName':'volcano',", NULL, false },
	};
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *t = tenant_of(&a, "{'quota':{'gpus':1}}");

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_admission ask = ask_of(pod_of(&a, CARD ",", rows[i].spec), t);

		ask.scheduler = rows[i].ours;
		assert_int_equal(rf_tenant_admit(&a, &ask, NULL), rows[i].ok ? 0 : -RF_FORBIDDEN);
		/* Who asks for no card may be placed by whom he likes. */
		ask.pod = pod_of(&a, "", rows[i].spec);
		allowed(&a, &ask);
	}
	struct rf_admission ask = ask_of(pod_of(&a, CARD ",", "'schedulerName':'volcano',"), t);

	refused(&a, &ask, RF_FORBIDDEN,
		"spec.schedulerName \"volcano\": pods that ask for cards are placed by ringfence; "
		"leave "
		"schedulerName out");
}

/* --- what it may reach ------------------------------------------------------------------------- */

#define REACHES(what)                                                                              \
	"asks for GPUs, and a pod with a card may not reach the machine under it: " what           \
	"; remove these settings, or ask for no GPU"

static void a_pod_with_a_card_may_not_reach_the_machine(void **state)
{
	static const struct {
		const char *container, *spec, *message;
	} rows[] = {
		{ "'securityContext':{'privileged':true},", "",
		  REACHES("privileged (container \"c\" must not set "
			  "securityContext.privileged=true)") },
		{ "", "'hostNetwork':true,", REACHES("host namespaces (hostNetwork=true)") },
		{ "", "'hostPID':true,'hostIPC':true,",
		  REACHES("host namespaces (hostPID=true, hostIPC=true)") },
		{ "", "'volumes':[{'name':'dev','hostPath':{'path':'/dev'}}],",
		  REACHES("hostPath volumes (volume \"dev\")") },
		{ "'securityContext':{'capabilities':{'add':['SYS_ADMIN']}},", "",
		  REACHES("non-default capabilities (container \"c\" must not include "
			  "\"SYS_ADMIN\" "
			  "in securityContext.capabilities.add)") },
		{ "'ports':[{'containerPort':80,'hostPort':80}],", "",
		  REACHES("hostPort (container \"c\" uses hostPort 80)") },
		{ "", "'initContainers':[{'name':'i','securityContext':{'privileged':true}}],",
		  REACHES("privileged (container \"i\" must not set "
			  "securityContext.privileged=true)") },
	};
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *t = tenant_of(&a, "{'quota':{'gpus':1}}");

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		const char *with = rf_arena_printf(&a, CARD ",%s", rows[i].container).p;
		struct rf_admission ask = ask_of(pod_of(&a, with, rows[i].spec), t);

		refused(&a, &ask, RF_FORBIDDEN, rows[i].message);
		ask.platform = true; /* the card is a tenant's, whoever asks */
		refused(&a, &ask, RF_FORBIDDEN, rows[i].message);
		ask.pod = pod_of(&a, rows[i].container, rows[i].spec);
		allowed(&a, &ask);
	}
}

static void baselines_capabilities_are_allowed(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_admission ask = ask_of(
		pod_of(&a, CARD ",'securityContext':{'capabilities':{'add':['NET_BIND_SERVICE']}},",
		       ""),
		tenant_of(&a, "{'quota':{'gpus':1}}"));

	allowed(&a, &ask);
}

static void a_pod_too_large_to_be_checked_is_refused_at_once(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pod =
		pod_of(&a, CARD ",'securityContext':{'capabilities':{'add':[]}},", "");
	struct rf_json *add = rf_json_at(rf_json_item(rf_json_at(pod, "spec", "containers"), 0),
					 "securityContext", "capabilities", "add");
	struct rf_admission ask = ask_of(pod, tenant_of(&a, "{'quota':{'gpus':1}}"));

	for (int i = 0; i < 300000; i++)
		rf_json_push(&a, add, rf_json_string(&a, rf_arena_printf(&a, "C%06d", i)));
	refused(&a, &ask, RF_FORBIDDEN,
		"a pod that asks for GPUs may hold at most 10000 values, so that it can be "
		"checked; "
		"make it smaller");
}

/* --- changes ----------------------------------------------------------------------------------- */

static void a_change_keeps_the_ask_and_the_fence(void **state)
{
	static const struct {
		const char *container, *spec, *message; /* message NULL: allowed */
	} rows[] = {
		{ CARD ",", "", NULL },
		{ CARD ",'tty':true,", "", NULL },
		{ CARD ",", "'ephemeralContainers':[{'name':'debug','image':'x'}],", NULL },
		{ CARD ",",
		  "'ephemeralContainers':[{'name':'debug','securityContext':{'privileged':true}}],",
		  REACHES("privileged (container \"debug\" must not set "
			  "securityContext.privileged=true)") },
		{ "'resources':{'limits':{'ringfence.io/gpu':2}},", "",
		  "what a pod asks of GPUs cannot be changed; delete it and create it anew" },
		{ "", "",
		  "what a pod asks of GPUs cannot be changed; delete it and create it anew" },
	};
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *old = pod_of(&a, CARD ",", "");

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_json *pod = pod_of(&a, rows[i].container, rows[i].spec);
		struct rf_err err = RF_ERR_INIT;
		int rc = rf_tenant_admit_change(old, pod, &err);

		assert_int_equal(rc, rows[i].message == NULL ? 0 : -RF_FORBIDDEN);
		assert_string_equal(err.msg, rows[i].message == NULL ? "" : rows[i].message);
		rf_json_set_str(&a, rf_json_at(pod, "metadata"), "deletionTimestamp",
				RF_LIT("2026-11-15T00:00:00Z"));
		assert_int_equal(rf_tenant_admit_change(old, pod, NULL), 0);
	}
}

static struct rf_json *with_label(struct rf_arena *a, const char *container, const char *labels)
{
	struct rf_json *pod = pod_of(a, container, "");

	rf_json_set(a, rf_json_at(pod, "metadata"), RF_LIT("labels"), rf_json_make(a, labels));
	return pod;
}

static void a_change_keeps_the_queue_and_the_gang(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *old = with_label(&a, CARD ",", "{'ringfence.io/queue':'a','x':'1'}");

	assert_int_equal(rf_tenant_admit_change(
				 old, with_label(&a, CARD ",", "{'ringfence.io/queue':'a','x':'2'}"),
				 &err),
			 0);
	assert_int_equal(rf_tenant_admit_change(
				 old, with_label(&a, CARD ",", "{'ringfence.io/queue':'b','x':'1'}"),
				 &err),
			 -RF_FORBIDDEN);
	assert_string_equal(err.msg, "the label ringfence.io/queue of a pod that asks for GPUs cannot be "
				     "changed; delete it and create it anew");
	assert_int_equal(rf_tenant_admit_change(old,
						with_label(&a, CARD ",",
							   "{'ringfence.io/queue':'a','x':'1',"
							   "'ringfence.io/pod-group':'g'}"),
						&err),
			 -RF_FORBIDDEN);
	/* Also of one that is going: it holds its cards until it is gone. */
	struct rf_json *going = with_label(&a, CARD ",", "{'ringfence.io/queue':'b','x':'1'}");
	rf_json_set_str(&a, rf_json_at(going, "metadata"), "deletionTimestamp", RF_LIT("2026-11-15T00:00:00Z"));
	assert_int_equal(rf_tenant_admit_change(old, going, &err), -RF_FORBIDDEN);
	/* Nor may it say afterwards that it is not to be evicted. */
	struct rf_json *pinned = with_label(&a, CARD ",", "{'ringfence.io/queue':'a','x':'1'}");
	rf_json_set(&a, rf_json_at(pinned, "metadata"), RF_LIT("annotations"),
		    rf_json_make(&a, "{'ringfence.io/preemptible':'false'}"));
	assert_int_equal(rf_tenant_admit_change(old, pinned, &err), -RF_FORBIDDEN);
	assert_string_equal(err.msg, "the annotation ringfence.io/preemptible of a pod that asks for GPUs cannot "
				     "be changed; delete it and create it anew");
	/* Without cards nothing is charged by it. */
	assert_int_equal(rf_tenant_admit_change(with_label(&a, "", "{'ringfence.io/queue':'a'}"),
						with_label(&a, "", "{'ringfence.io/queue':'b'}"), &err),
			 0);
}

static struct rf_json *with_note(struct rf_arena *a, const char *container, const char *where, const char *note)
{
	struct rf_json *pod = pod_of(a, container, "");

	rf_json_set(a, rf_json_at(pod, "metadata"), rf_str(where),
		    rf_json_make(a, rf_arena_printf(a, "{'ringfence.io/%s}", note).p));
	return pod;
}

#define NAMES                                                                                                          \
	"there are ringfence.io/gpu-model, ringfence.io/nvlink, ringfence.io/preemptible, "                            \
	"ringfence.io/min-run-seconds and ringfence.io/burst"
#define MUST(of, key, value, must) of " ringfence.io/" key ": \"" value "\" is not valid: it must be " must
#define MODELS(value) MUST("annotation", "gpu-model", value, "names of models of cards, such as H100|H200, at most 16")
#define SECONDS(value) MUST("annotation", "min-run-seconds", value, "a whole number of seconds from 0 to 3600")

static const struct {
	const char *where, *note, *message; /* NULL: it may come in */
} notes[] = {
	{ "annotations", "burst':'true'", NULL },
	{ "annotations", "burst':'false'", NULL },
	{ "annotations", "burst':'yes'",
	  MUST("annotation", "burst", "yes",
	       "\"true\" (the pod may use time of its card that others leave idle) or \"false\"") },
	{ "annotations", "burst':''",
	  MUST("annotation", "burst", "",
	       "\"true\" (the pod may use time of its card that others leave idle) or \"false\"") },
	{ "annotations", "preemptible':'false'", NULL },
	{ "annotations", "preemptible':'no'", MUST("annotation", "preemptible", "no", "\"true\" or \"false\"") },
	{ "annotations", "preemptible':'False'", MUST("annotation", "preemptible", "False", "\"true\" or \"false\"") },
	{ "annotations", "nvlink':'required'", NULL },
	{ "annotations", "nvlink':'yes-please'",
	  MUST("annotation", "nvlink", "yes-please", "\"required\", or left out") },
	{ "annotations", "nvlink':''", MUST("annotation", "nvlink", "", "\"required\", or left out") },
	{ "annotations", "min-run-seconds':'3600'", NULL },
	{ "annotations", "min-run-seconds':'3601'", SECONDS("3601") },
	{ "annotations", "min-run-seconds':'-1'", SECONDS("-1") },
	{ "annotations", "min-run-seconds':'10m'", SECONDS("10m") },
	{ "annotations", "min-run-seconds':''", SECONDS("") },
	{ "annotations", "min-run-seconds':'99999999999999999999'", SECONDS("99999999999999999999") },
	{ "annotations", "gpu-model':'H100|NVIDIA H200'", NULL },
	{ "annotations", "gpu-model':'H100|'", MODELS("H100|") },
	{ "annotations", "gpu-model':'H100 | H200'", MODELS("H100 | H200") },
	{ "annotations", "gpu-model':''", MODELS("") },
	{ "annotations", "gpu-model':'1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16'", NULL },
	{ "annotations", "gpu-model':'1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16|17'",
	  MODELS("1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16|17") },
	{ "annotations", "min-run':'60'", "annotation ringfence.io/min-run: there is none of that name; " NAMES },
	{ "annotations", "queue':'q'", "annotation ringfence.io/queue is no annotation: write it under metadata.labels" },
	{ "labels", "queue':'research'", NULL },
	{ "labels", "queue':''", NULL },
	{ "labels", "queue':'A.B'",
	  MUST("label", "queue", "A.B", "the name of a Queue: lower-case letters, digits and -") },
	{ "labels", "pod-group':'a.b'",
	  MUST("label", "pod-group", "a.b", "the name of a PodGroup: lower-case letters, digits and -") },
	{ "labels", "preemptible':'false'",
	  "label ringfence.io/preemptible is no label: write it under metadata.annotations" },
	{ "labels", "team':'x'", NULL },
};

static void what_a_pod_says_of_itself_is_understood_or_refused(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *t = tenant_of(&a, "{'isolation':'share','quota':{'gpuMemory':'80Gi'}}");

	for (size_t i = 0; i < RF_COUNT(notes); i++) {
		struct rf_admission ask = ask_of(with_note(&a, SHARE ",", notes[i].where, notes[i].note), t);

		if (notes[i].message == NULL)
			allowed(&a, &ask);
		else
			refused(&a, &ask, RF_INVALID, notes[i].message);
		/* Without cards it would wait as well. */
		ask.pod = with_note(&a, "", notes[i].where, notes[i].note);
		assert_int_equal(rf_tenant_admit(&a, &ask, NULL), notes[i].message == NULL ? 0 : -RF_INVALID);
	}
}

static void nobody_waits_in_a_queue_of_somebody_else(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_admission ask = ask_of(with_label(&a, CARD ",", "{'ringfence.io/queue':'night'}"),
					 tenant_of(&a, "{'quota':{'gpus':1}}"));
	const char *message = "label ringfence.io/queue: tenant team-a has no queue \"night\"; name one of its queues, or "
			      "leave it out to use \"team-a\"";

	allowed(&a, &ask); /* it is not there: it may come */
	ask.queue = rf_json_make(&a, "{'metadata':{'name':'night'},'spec':{'tenant':'team-a'}}");
	allowed(&a, &ask);
	ask.queue = rf_json_make(&a, "{'metadata':{'name':'night'},'spec':{'tenant':'team-b'}}");
	refused(&a, &ask, RF_FORBIDDEN, message);
	ask.pod = with_label(&a, "", "{'ringfence.io/queue':'night'}");
	refused(&a, &ask, RF_FORBIDDEN, message);
	ask.queue = rf_json_make(&a, "{'metadata':{'name':'night'},'spec':{}}"); /* above others, nobody's */
	refused(&a, &ask, RF_FORBIDDEN, message);
	ask.tenant_name = RF_STR_EMPTY;
	refused(&a, &ask, RF_FORBIDDEN,
		"label ringfence.io/queue: queues are for tenants, and namespace \"team-a\" belongs to none; leave "
		"\"night\" out");
}

static int try_group(struct rf_arena *a, const char *spec, const char *tenant, const char *queue, struct rf_err *err)
{
	return rf_tenant_admit_group(rf_json_make(a, "{'metadata':{'name':'g'},'spec':%j}", rf_json_make(a, spec)), RF_LIT("ns"),
				     rf_str(tenant), queue != NULL ? rf_json_make(a, queue) : NULL, err);
}

static void no_gang_waits_in_a_queue_of_somebody_else(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT, same = RF_ERR_INIT;

	assert_int_equal(try_group(&a, "{'minMember':2}", "team-a", NULL, &err), 0);
	assert_int_equal(try_group(&a, "{'minMember':2}", "", NULL, &err), 0);
	assert_int_equal(try_group(&a, "{'queue':'night'}", "team-a", "{'metadata':{'name':'night'},'spec':{'tenant':'team-a'}}", &err), 0);
	assert_int_equal(try_group(&a, "{'queue':'team-a'}", "team-a", NULL, &err), 0); /* it comes with the tenant */
	assert_int_equal(try_group(&a, "{'queue':'night'}", "team-a", "{'metadata':{'name':'night'},'spec':{'tenant':'team-b'}}", &err),
			 -RF_FORBIDDEN);
	assert_string_equal(err.msg, "spec.queue: tenant team-a has no queue \"night\"; name one of its queues, or leave it out to use \"team-a\"");
	/* Whether there is such a queue is not told. */
	assert_int_equal(try_group(&a, "{'queue':'night'}", "team-a", NULL, &same), -RF_FORBIDDEN);
	assert_string_equal(same.msg, err.msg);
	assert_int_equal(try_group(&a, "{'queue':'night'}", "team-a", "{'metadata':{'name':'night'},'spec':{}}", &same), -RF_FORBIDDEN);
	assert_string_equal(same.msg, err.msg);
	assert_int_equal(try_group(&a, "{'queue':'team-a'}", "team-a", "{'metadata':{'name':'team-a'},'spec':{'tenant':'team-b'}}", &err),
			 -RF_FORBIDDEN);
	assert_int_equal(try_group(&a, "{'queue':'night'}", "", NULL, &err), -RF_FORBIDDEN);
	assert_string_equal(err.msg, "spec.queue: queues are for tenants, and namespace \"ns\" belongs to none; leave \"night\" out");
}

static void nor_is_it_changed_to_what_is_not_understood(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *plain = pod_of(&a, CARD ",", ""), *good = with_note(&a, CARD ",", "annotations", "nvlink':'required'"),
		       *odd = with_note(&a, CARD ",", "annotations", "nvlink':'1'"),
		       *odder = with_note(&a, CARD ",", "annotations", "nvlink':'2'");

	assert_int_equal(rf_tenant_admit_change(plain, good, NULL), 0);
	assert_int_equal(rf_tenant_admit_change(plain, odd, NULL), -RF_INVALID);
	assert_int_equal(rf_tenant_admit_change(odd, odder, NULL), -RF_INVALID);
	/* What is nonsense already may stay or go. */
	assert_int_equal(rf_tenant_admit_change(odd, odd, NULL), 0);
	assert_int_equal(rf_tenant_admit_change(odd, good, NULL), 0);
}

/* It came in before ringfence did; its finalizers and labels may still be written. */
static void what_was_wrong_before_may_keep_its_spec(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *old = pod_of(&a, CARD ",", "'hostPID':true,"),
		       *pod = rf_json_clone(&a, old);

	rf_json_set(&a, rf_json_at(pod, "metadata"), RF_LIT("labels"),
		    rf_json_make(&a, "{'x':'y'}"));
	assert_int_equal(rf_tenant_admit_change(old, pod, NULL), 0);
	rf_json_set_bool(&a, rf_json_at(pod, "spec"), "hostNetwork", true);
	assert_int_equal(rf_tenant_admit_change(old, pod, NULL), -RF_FORBIDDEN);
	/* And a pod without cards is nobody's business here. */
	old = pod_of(&a, "", "");
	pod = pod_of(&a, "", "'hostPID':true,");
	assert_int_equal(rf_tenant_admit_change(old, pod, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cards_are_for_tenants),
		cmocka_unit_test(a_tenant_that_is_not_there_or_going_takes_no_pods),
		cmocka_unit_test(a_share_needs_a_tenant_that_shares),
		cmocka_unit_test(a_malformed_ask_is_invalid_anywhere),
		cmocka_unit_test(quota_counts_what_is_held_and_what_is_asked),
		cmocka_unit_test(no_quota_means_no_cards_and_any_number_of_pods),
		cmocka_unit_test(sums_never_wrap),
		cmocka_unit_test(pods_count_until_they_end),
		cmocka_unit_test(only_the_platform_names_a_node),
		cmocka_unit_test(pods_with_cards_are_placed_by_ringfence),
		cmocka_unit_test(a_pod_with_a_card_may_not_reach_the_machine),
		cmocka_unit_test(baselines_capabilities_are_allowed),
		cmocka_unit_test(a_pod_too_large_to_be_checked_is_refused_at_once),
		cmocka_unit_test(a_change_keeps_the_ask_and_the_fence),
		cmocka_unit_test(a_change_keeps_the_queue_and_the_gang),
		cmocka_unit_test(what_was_wrong_before_may_keep_its_spec),
		cmocka_unit_test(what_a_pod_says_of_itself_is_understood_or_refused),
		cmocka_unit_test(nobody_waits_in_a_queue_of_somebody_else),
		cmocka_unit_test(no_gang_waits_in_a_queue_of_somebody_else),
		cmocka_unit_test(nor_is_it_changed_to_what_is_not_understood),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
