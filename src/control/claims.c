/* The objects that carry a placement: claim, binding, and what a pod's status says about them. */
#include "control/private.h"

static struct rf_gpu_ask ask_of(const struct rf_json *pod, struct rf_str container)
{
	const struct rf_json *list = rf_json_at(pod, "spec", "containers");
	struct rf_gpu_ask ask = { 0 };

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *c = rf_json_item(list, i);

		if (rf_str_eq(rf_json_str_at(c, "name"), container))
			(void)rf_gpu_ask_of_container(c, &ask, NULL);
	}
	return ask;
}

static bool first_of_container(const struct rf_core_decision *d, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (rf_str_eq(d->grants[k].container, d->grants[i].container))
			return false;
	}
	return true;
}

static int count_of(const struct rf_core_decision *d, struct rf_str container)
{
	int n = 0;

	for (size_t i = 0; i < d->n_grants; i++)
		n += rf_str_eq(d->grants[i].container, container);
	return n;
}

/* --- the claim -------------------------------------------------------------------------------- */

static struct rf_json *capacity_of(struct rf_arena *a, const struct rf_sched_grant *g)
{
	return rf_json_make(a, "{'memory':%S,'compute':%S}", rf_quantity_bytes(a, g->bytes),
			    rf_arena_printf(a, "%lld", (long long)g->milli));
}

/* One request per container, of its name. Whole cards are counted, a share says its size. */
static struct rf_json *requests_of(struct rf_arena *a, const struct rf_json *pod,
				   const struct rf_core_decision *d)
{
	struct rf_json *all = rf_json_array(a);

	for (size_t i = 0; i < d->n_grants; i++) {
		const struct rf_sched_grant *g = &d->grants[i];
		struct rf_json *exactly = NULL;

		if (!first_of_container(d, i))
			continue;
		exactly = rf_json_make(a,
				       "{'deviceClassName':'" RF_DEVICE_CLASS "','allocationMode':"
				       "'ExactCount','count':%d}",
				       count_of(d, g->container));
		if (ask_of(pod, g->container).share_bytes > 0)
			rf_json_set(a, exactly, RF_LIT("capacity"),
				    rf_json_make(a, "{'requests':%j}", capacity_of(a, g)));
		rf_json_push(a, all,
			     rf_json_make(a, "{'name':%S,'exactly':%j}", g->container, exactly));
	}
	return all;
}

struct rf_json *rf_claim_object(struct rf_arena *a, const struct rf_json *pod,
				const struct rf_core_decision *d)
{
	return rf_json_make(
		a,
		"{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':"
		"{'name':%S,'namespace':%S,'annotations':{%s:%S},'ownerReferences':[%j]},"
		"'spec':{'devices':{'requests':%j}}}",
		rf_pod_claim_name(a, pod), rf_kube_namespace(pod), RF_TENANT_LABEL, d->tenant,
		rf_kube_owner_ref(a, pod), requests_of(a, pod, d));
}

/* Every result has an id of its own: several may name the same device, even in one claim. A whole
 * card consumes all there is of it, so that nobody takes it for free. */
static struct rf_json *results_of(struct rf_arena *a, const struct rf_core_decision *d)
{
	struct rf_json *all = rf_json_array(a);

	for (size_t i = 0; i < d->n_grants; i++) {
		const struct rf_sched_grant *g = &d->grants[i];

		rf_json_push(a, all,
			     rf_json_make(a,
					  "{'request':%S,'driver':'" RF_DRIVER "','pool':%S,"
					  "'device':%S,'shareID':%S,'consumedCapacity':%j}",
					  g->container, d->node, g->device, rf_rand_uuid(a),
					  capacity_of(a, g)));
	}
	return all;
}

/* Slices say in the allocation's config where they are: for their request, a start for each of its results
 * in turn (sched/read.c reads it, and so does the agent that cuts them). NULL: there are none. */
static struct rf_json *slices_of(struct rf_arena *a, const struct rf_core_decision *d)
{
	struct rf_json *all = rf_json_array(a);

	for (size_t i = 0; i < d->n_grants; i++) {
		const struct rf_sched_grant *g = &d->grants[i];
		struct rf_json *starts = rf_json_array(a);

		if (g->profile.n == 0 || !first_of_container(d, i))
			continue;
		for (size_t k = i; k < d->n_grants; k++) {
			if (rf_str_eq(d->grants[k].container, g->container))
				rf_json_push(a, starts, rf_json_make(a, "%D", d->grants[k].start));
		}
		rf_json_push(a, all,
			     rf_json_make(a,
					  "{'source':'FromClaim','requests':[%S],'opaque':{'driver':'" RF_DRIVER
					  "','parameters':{'profile':%S,'starts':%j}}}",
					  g->container, g->profile, starts));
	}
	return rf_json_len(all) > 0 ? all : NULL;
}

struct rf_json *rf_claim_allocated(struct rf_arena *a, const struct rf_json *claim,
				   const struct rf_json *pod, const struct rf_core_decision *d,
				   int64_t now_ms)
{
	struct rf_json *c = rf_json_clone(a, claim), *slices = slices_of(a, d);

	rf_json_set(
		a, c, RF_LIT("status"),
		rf_json_make(
			a,
			"{'allocation':{'devices':{'results':%j},'nodeSelector':"
			"{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name','operator':"
			"'In','values':[%S]}]}]},'allocationTimestamp':%S},'reservedFor':"
			"[{'resource':'pods','name':%S,'uid':%S}]}",
			results_of(a, d), d->node, rf_time_format(a, now_ms), rf_kube_name(pod),
			rf_kube_uid(pod)));
	if (slices != NULL)
		rf_json_set(a, rf_json_at(c, "status", "allocation", "devices"), RF_LIT("config"), slices);
	return c;
}

/* A server drops fields whose feature gate is off without a word. A share whose size is not written
 * down is no share. */
int rf_claim_kept(const struct rf_json *written, const struct rf_json *pod,
		  const struct rf_core_decision *d, struct rf_err *err)
{
	const struct rf_json *results =
		rf_json_at(written, "status", "allocation", "devices", "results");

	for (size_t i = 0; i < d->n_grants; i++)
		if (ask_of(pod, d->grants[i].container).share_bytes > 0 &&
		    rf_json_at(rf_json_item(results, i), "consumedCapacity", "memory") == NULL)
			return rf_fail(err, RF_UNSUPPORTED,
				       "this API server does not keep how much of a card a claim takes; "
				       "for shares switch feature gate DRAConsumableCapacity on, or use "
				       "Kubernetes 1.36");
	return 0;
}

/* --- the pod ---------------------------------------------------------------------------------- */

/* A kubelet that is not told of the claim would start the container without a card. */
int rf_pod_claim_kept(const struct rf_json *written, struct rf_str claim, struct rf_err *err)
{
	if (rf_str_eq(rf_json_str_at(written, "status", "extendedResourceClaimStatus",
				     "resourceClaimName"),
		      claim))
		return 0;
	return rf_fail(err, RF_UNSUPPORTED,
		       "this API server does not keep which claim serves a pod; switch feature gate "
		       "DRAExtendedResource on, use Kubernetes 1.36, or ask for whole cards as %s",
		       rf_gpu_name(0) != NULL ? rf_gpu_name(0) : RF_RES_GPU);
}

struct rf_json *rf_pod_binding(struct rf_arena *a, const struct rf_json *pod, struct rf_str node)
{
	/* The uid makes it this pod's binding, not that of another of the same name. */
	return rf_json_make(
		a,
		"{'apiVersion':'v1','kind':'Binding','metadata':{'name':%S,'namespace':%S,"
		"'uid':%S},'target':{'apiVersion':'v1','kind':'Node','name':%S}}",
		rf_kube_name(pod), rf_kube_namespace(pod), rf_kube_uid(pod), node);
}

static bool is_slices(struct rf_str resource)
{
	return rf_str_starts(resource, RF_LIT(RF_RES_MIG)) || rf_str_starts(resource, RF_LIT(RF_RES_MIG_OTHER));
}

static bool is_none(const struct rf_json *amount)
{
	int64_t n = 0;

	return rf_quantity_value(amount->type == RF_JSON_NUMBER ? amount->text : rf_json_str(amount), &n, NULL) == 0 &&
	       n == 0;
}

/* The name by which a container asked. */
static struct rf_str resource_of(const struct rf_json *pod, struct rf_str container)
{
	const struct rf_json *list = rf_json_at(pod, "spec", "containers");
	struct rf_gpu_ask ask = ask_of(pod, container);

	if (ask.slices == 0)
		return rf_str(ask.name != NULL ? ask.name : RF_RES_GPU_MEMORY);
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *limits = rf_json_at(rf_json_item(list, i), "resources", "limits");

		if (!rf_str_eq(rf_json_str_at(rf_json_item(list, i), "name"), container))
			continue;
		for (size_t k = 0; k < rf_json_len(limits); k++) {
			struct rf_str key = limits->members[k].key;

			if (is_slices(key) && !is_none(limits->members[k].value))
				return key;
		}
	}
	return RF_STR_EMPTY;
}

/* Where the kubelet is to hand a container its part of the claim. Whole cards that were asked for by another
 * name come through the device plugin of that name; slices have none, whatever they are called. NULL: there is
 * nothing to hand over so. */
struct rf_json *rf_pod_claim_patch(struct rf_arena *a, const struct rf_json *pod,
				   struct rf_str claim, const struct rf_core_decision *d)
{
	struct rf_json *mappings = rf_json_array(a);

	for (size_t i = 0; i < d->n_grants; i++) {
		struct rf_str container = d->grants[i].container;
		struct rf_str name = resource_of(pod, container);

		if (!first_of_container(d, i) || !(rf_str_starts(name, RF_LIT("ringfence.io/")) || is_slices(name)))
			continue;
		rf_json_push(a, mappings,
			     rf_json_make(a,
					  "{'containerName':%S,'requestName':%S,'resourceName':%S}",
					  container, container, name));
	}
	if (rf_json_len(mappings) == 0)
		return NULL;
	return rf_json_make(a,
			    "{'metadata':{'uid':%S},'status':{'extendedResourceClaimStatus':"
			    "{'resourceClaimName':%S,'requestMappings':%j}}}",
			    rf_kube_uid(pod), claim, mappings);
}

static const struct rf_json *scheduled_condition(const struct rf_json *pod)
{
	const struct rf_json *list = rf_json_at(pod, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		if (rf_str_is(rf_json_str_at(rf_json_item(list, i), "type"), "PodScheduled"))
			return rf_json_item(list, i);
	}
	return NULL;
}

struct rf_json *rf_pod_waits_patch(struct rf_arena *a, const struct rf_json *pod,
				   struct rf_str reason, int64_t now_ms)
{
	const struct rf_json *was = scheduled_condition(pod);
	bool waited = rf_str_is(rf_json_str_at(was, "status"), "False");
	struct rf_str since = rf_json_str_at(was, "lastTransitionTime");

	if (waited && rf_str_eq(rf_json_str_at(was, "message"), reason))
		return NULL;
	return rf_json_make(a,
			    "{'metadata':{'uid':%S},'status':{'conditions':[{'type':'PodScheduled',"
			    "'status':'False','reason':'Unschedulable','message':%S,"
			    "'lastTransitionTime':%S}]}}",
			    rf_kube_uid(pod), reason,
			    waited && since.n > 0 ? since : rf_time_format(a, now_ms));
}

/* --- eviction ---------------------------------------------------------------------------------- */

/* A pod may ask for as long to end as it likes; who waits for cards that are its own does not wait longer than that. */
#define GRACE_MOST_S 300

struct rf_json *rf_pod_eviction(struct rf_arena *a, const struct rf_json *pod)
{
	int64_t grace = rf_json_int(rf_json_at(pod, "spec", "terminationGracePeriodSeconds"), 30);

	/* The uid makes it this pod's eviction, not that of another of the same name. */
	return rf_json_make(a,
			    "{'apiVersion':'policy/v1','kind':'Eviction','metadata':{'name':%S,'namespace':%S},"
			    "'deleteOptions':{'gracePeriodSeconds':%d,'preconditions':{'uid':%S}}}",
			    rf_kube_name(pod), rf_kube_namespace(pod),
			    (int)RF_MAX(INT64_C(0), RF_MIN(grace, (int64_t)GRACE_MOST_S)), rf_kube_uid(pod));
}

struct rf_json *rf_pod_evicted_patch(struct rf_arena *a, const struct rf_json *pod, const char *why,
				     struct rf_str reason, int64_t now_ms)
{
	return rf_json_make(a,
			    "{'metadata':{'uid':%S},'status':{'conditions':[{'type':'DisruptionTarget',"
			    "'status':'True','reason':%s,'message':%S,'lastTransitionTime':%S}]}}",
			    rf_kube_uid(pod), why, reason, rf_time_format(a, now_ms));
}

/* --- whose claim ------------------------------------------------------------------------------ */

struct rf_str rf_claim_owner(const struct rf_json *claim, const char *field)
{
	const struct rf_json *owners = rf_json_at(claim, "metadata", "ownerReferences");

	for (size_t i = 0; i < rf_json_len(owners); i++) {
		const struct rf_json *o = rf_json_item(owners, i);

		if (rf_str_is(rf_json_str_at(o, "kind"), "Pod"))
			return rf_json_str(rf_json_get(o, rf_str(field)));
	}
	return RF_STR_EMPTY;
}

bool rf_claim_is_ours(const struct rf_json *claim)
{
	return rf_kube_annotation(claim, RF_TENANT_LABEL).n > 0 &&
	       rf_claim_owner(claim, "uid").n > 0;
}

bool rf_claim_orphaned(const struct rf_json *claim, const struct rf_json *pod)
{
	if (pod == NULL || !rf_str_eq(rf_kube_uid(pod), rf_claim_owner(claim, "uid")))
		return true;
	return !rf_pod_counts(pod);
}
