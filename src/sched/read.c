/* Kubernetes objects as facts for the model. What an object lacks is read in the direction that
 * does not place: no Ready condition is not ready, a card without memory is out of service. */
#include "sched/sched.h"

#define PODS_DEFAULT 110	       /* what a kubelet allows when nothing is said */
#define WHOLE_BYTES (INT64_C(1) << 52) /* more than any card has: nothing fits beside it */

static int64_t milli_of(const struct rf_json *v)
{
	int64_t n = 0;

	if (v == NULL || (v->type != RF_JSON_STRING && v->type != RF_JSON_NUMBER))
		return 0;
	return rf_quantity_milli(v->text, &n, NULL) < 0 ? 0 : n;
}

static int64_t whole_of(const struct rf_json *v)
{
	int64_t n = 0;

	if (v == NULL || (v->type != RF_JSON_STRING && v->type != RF_JSON_NUMBER))
		return 0;
	return rf_quantity_value(v->text, &n, NULL) < 0 ? 0 : n;
}

static struct rf_sched_pair *read_pairs(struct rf_arena *a, const struct rf_json *o, size_t *ret_n)
{
	size_t n = rf_json_is(o, RF_JSON_OBJECT) ? o->n : 0;
	struct rf_sched_pair *pairs = rf_arena_array(a, struct rf_sched_pair, RF_MAX(n, 1));

	for (size_t i = 0; i < n; i++)
		pairs[i] = (struct rf_sched_pair){ o->members[i].key,
						   rf_json_str(o->members[i].value) };
	*ret_n = n;
	return pairs;
}

/* --- nodes ------------------------------------------------------------------------------- */

static bool is_ready(const struct rf_json *node)
{
	const struct rf_json *list = rf_json_at(node, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *c = rf_json_item(list, i);

		if (rf_str_is(rf_json_str_at(c, "type"), "Ready"))
			return rf_str_is(rf_json_str_at(c, "status"), "True");
	}
	return false;
}

static void read_taints(struct rf_arena *a, const struct rf_json *list, struct rf_sched_node *n)
{
	n->taints = rf_arena_array(a, struct rf_sched_taint, RF_MAX(rf_json_len(list), 1));
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *t = rf_json_item(list, i);

		n->taints[n->n_taints++] = (struct rf_sched_taint){ rf_json_str_at(t, "key"),
								    rf_json_str_at(t, "value"),
								    rf_json_str_at(t, "effect") };
	}
}

void rf_sched_read_node(struct rf_arena *a, const struct rf_json *node, struct rf_sched_node *ret)
{
	const struct rf_json *have = rf_json_at(node, "status", "allocatable"), *pods = NULL;

	have = have != NULL ? have : rf_json_at(node, "status", "capacity");
	pods = rf_json_at(have, "pods");
	*ret = (struct rf_sched_node){
		.name = rf_json_str_at(node, "metadata", "name"),
		.cpu_milli = milli_of(rf_json_at(have, "cpu")),
		.memory = whole_of(rf_json_at(have, "memory")),
		.pods = pods != NULL ? whole_of(pods) : PODS_DEFAULT,
		.ready = is_ready(node) && !rf_json_at(node, "metadata", "deletionTimestamp"),
		.cordoned = rf_json_is_true(rf_json_at(node, "spec", "unschedulable"))
	};
	ret->labels = read_pairs(a, rf_json_at(node, "metadata", "labels"), &ret->n_labels);
	read_taints(a, rf_json_at(node, "spec", "taints"), ret);
}

/* --- pods -------------------------------------------------------------------------------- */

struct need {
	int64_t cpu, memory;
};

/* A missing request is the limit, as Kubernetes defaults it. */
static struct need need_of(const struct rf_json *owner)
{
	const struct rf_json *limits = rf_json_at(owner, "resources", "limits");
	const struct rf_json *requests = rf_json_at(owner, "resources", "requests");
	const struct rf_json *cpu = rf_json_at(requests, "cpu"),
			     *memory = rf_json_at(requests, "memory");

	return (struct need){ milli_of(cpu != NULL ? cpu : rf_json_at(limits, "cpu")),
			      whole_of(memory != NULL ? memory : rf_json_at(limits, "memory")) };
}

static void add(struct need *sum, struct need more)
{
	if (__builtin_add_overflow(sum->cpu, more.cpu, &sum->cpu))
		sum->cpu = INT64_MAX;
	if (__builtin_add_overflow(sum->memory, more.memory, &sum->memory))
		sum->memory = INT64_MAX;
}

static void raise_to(struct need *least, struct need n)
{
	least->cpu = RF_MAX(least->cpu, n.cpu);
	least->memory = RF_MAX(least->memory, n.memory);
}

/* Init containers run before the others, one by one; those that restart stay and
 * count with them. */
static struct need need_of_pod(const struct rf_json *spec)
{
	const struct rf_json *init = rf_json_at(spec, "initContainers"),
			     *main = rf_json_at(spec, "containers");
	struct need staying = { 0 }, peak = { 0 };

	for (size_t i = 0; i < rf_json_len(init); i++) {
		const struct rf_json *c = rf_json_item(init, i);
		struct need during = staying;

		add(&during, need_of(c));
		raise_to(&peak, during);
		if (rf_str_is(rf_json_str_at(c, "restartPolicy"), "Always"))
			staying = during;
	}
	for (size_t i = 0; i < rf_json_len(main); i++)
		add(&staying, need_of(rf_json_item(main, i)));
	raise_to(&peak, staying);
	raise_to(&peak, need_of(spec));
	add(&peak, (struct need){ milli_of(rf_json_at(spec, "overhead", "cpu")),
				  whole_of(rf_json_at(spec, "overhead", "memory")) });
	return peak;
}

static bool has_hard_spread(const struct rf_json *spec)
{
	const struct rf_json *list = rf_json_at(spec, "topologySpreadConstraints");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		if (!rf_str_is(rf_json_str_at(rf_json_item(list, i), "whenUnsatisfiable"),
			       "ScheduleAnyway"))
			return true;
	}
	return false;
}

/* Ignoring a hard demand would place a pod where its owner said it must not go. */
static struct rf_str find_unsupported(const struct rf_json *spec)
{
	const char *required = "requiredDuringSchedulingIgnoredDuringExecution";
	const struct rf_json *affinity = rf_json_at(spec, "affinity");

	if (rf_json_len(rf_json_at(spec, "schedulingGates")) > 0)
		return RF_LIT("spec.schedulingGates holds the pod back; remove the gates");
	if (rf_json_len(rf_json_at(affinity, "nodeAffinity", required)) > 0 ||
	    rf_json_len(rf_json_at(affinity, "podAffinity", required)) > 0 ||
	    rf_json_len(rf_json_at(affinity, "podAntiAffinity", required)) > 0)
		return RF_LIT("spec.affinity has required terms, which this scheduler does not "
			      "honour; use "
			      "spec.nodeSelector");
	if (has_hard_spread(spec))
		return RF_LIT("spec.topologySpreadConstraints has DoNotSchedule, which this "
			      "scheduler does "
			      "not honour; use ScheduleAnyway");
	if (rf_json_len(rf_json_at(spec, "resourceClaims")) > 0)
		return RF_LIT("spec.resourceClaims is not for tenants; ask by limits " RF_RES_GPU
			      " or " RF_RES_GPU_MEMORY);
	return RF_STR_EMPTY;
}

static int read_containers(struct rf_arena *a, const struct rf_json *list, struct rf_sched_pod *ret,
			   struct rf_err *err)
{
	ret->containers =
		rf_arena_array(a, struct rf_sched_container, RF_MAX(rf_json_len(list), 1));
	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_sched_container *c = &ret->containers[ret->n_containers++];

		c->name = rf_json_str_at(rf_json_item(list, i), "name");
		if (rf_gpu_ask_of_container(rf_json_item(list, i), &c->ask, err) < 0)
			return -RF_INVALID;
	}
	return 0;
}

static void read_tolerations(struct rf_arena *a, const struct rf_json *list,
			     struct rf_sched_pod *ret)
{
	ret->tolerations =
		rf_arena_array(a, struct rf_sched_toleration, RF_MAX(rf_json_len(list), 1));
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *t = rf_json_item(list, i);

		ret->tolerations[ret->n_tolerations++] = (struct rf_sched_toleration){
			rf_json_str_at(t, "key"), rf_json_str_at(t, "value"),
			rf_json_str_at(t, "effect"),
			rf_str_is(rf_json_str_at(t, "operator"), "Exists")
		};
	}
}

static int64_t time_of(struct rf_str text)
{
	int64_t ms = 0;

	return rf_time_parse(text, &ms, NULL) < 0 ? 0 : ms;
}

static int64_t rv_of(const struct rf_json *o)
{
	int64_t rv = 0;

	return rf_str_int(rf_json_str_at(o, "metadata", "resourceVersion"), &rv, NULL) < 0 ? 0 : rv;
}

int rf_sched_read_pod(struct rf_arena *a, const struct rf_json *pod, struct rf_sched_pod *ret,
		      struct rf_err *err)
{
	const struct rf_json *spec = rf_json_at(pod, "spec"), *meta = rf_json_at(pod, "metadata");
	struct need need = need_of_pod(spec);
	struct rf_gpu_ask sum = { 0 };

	*ret = (struct rf_sched_pod){ .uid = rf_json_str_at(meta, "uid"),
				      .ns = rf_json_str_at(meta, "namespace"),
				      .name = rf_json_str_at(meta, "name"),
				      .rv = rv_of(pod),
				      .node = rf_json_str_at(spec, "nodeName"),
				      .ended = !rf_pod_counts(pod),
				      .deleting = rf_json_str_at(meta, "deletionTimestamp").n > 0,
				      .priority = rf_json_int(rf_json_at(spec, "priority"), 0),
				      .created_ms =
					      time_of(rf_json_str_at(meta, "creationTimestamp")),
				      .cpu_milli = need.cpu,
				      .memory = need.memory,
				      .os = rf_json_str_at(spec, "os", "name"),
				      .unsupported = find_unsupported(spec) };
	ret->selector = read_pairs(a, rf_json_at(spec, "nodeSelector"), &ret->n_selector);
	read_tolerations(a, rf_json_at(spec, "tolerations"), ret);
	if (rf_gpu_ask_of_pod(pod, &sum, err) < 0)
		return -RF_INVALID;
	return read_containers(a, rf_json_at(spec, "containers"), ret, err);
}

/* --- claims ------------------------------------------------------------------------------ */

static struct rf_str owner_pod(const struct rf_json *claim)
{
	const struct rf_json *owners = rf_json_at(claim, "metadata", "ownerReferences");

	for (size_t i = 0; i < rf_json_len(owners); i++) {
		const struct rf_json *o = rf_json_item(owners, i);

		if (rf_str_is(rf_json_str_at(o, "kind"), "Pod"))
			return rf_json_str_at(o, "uid");
	}
	return RF_STR_EMPTY;
}

static void read_result(const struct rf_json *r, struct rf_sched_claim *c)
{
	const struct rf_json *used = rf_json_at(r, "consumedCapacity");
	const struct rf_json *bytes = rf_json_at(used, "memory"),
			     *milli = rf_json_at(used, "compute");
	struct rf_sched_grant *g = NULL;

	if (!rf_str_is(rf_json_str_at(r, "driver"), RF_DRIVER))
		return;
	c->node = rf_json_str_at(r, "pool");
	g = &c->grants[c->n_grants++];
	*g = (struct rf_sched_grant){ .container = rf_json_str_at(r, "request"),
				      .device = rf_json_str_at(r, "device"),
				      .bytes = bytes != NULL ? whole_of(bytes) : WHOLE_BYTES,
				      .milli = milli != NULL   ? whole_of(milli)
					       : bytes != NULL ? 0
							       : 1000 };
}

void rf_sched_read_claim(struct rf_arena *a, const struct rf_json *claim,
			 struct rf_sched_claim *ret)
{
	const struct rf_json *meta = rf_json_at(claim, "metadata");
	const struct rf_json *list =
		rf_json_at(claim, "status", "allocation", "devices", "results");

	*ret = (struct rf_sched_claim){
		.ns = rf_json_str_at(meta, "namespace"),
		.name = rf_json_str_at(meta, "name"),
		.rv = rv_of(claim),
		.pod_uid = owner_pod(claim),
		.node = RF_STR_EMPTY,
		.tenant = rf_json_str_at(meta, "annotations", RF_TENANT_LABEL),
		.deleting = rf_json_str_at(meta, "deletionTimestamp").n > 0
	};
	ret->grants = rf_arena_array(a, struct rf_sched_grant, RF_MAX(rf_json_len(list), 1));
	for (size_t i = 0; i < rf_json_len(list); i++)
		read_result(rf_json_item(list, i), ret);
}

/* --- slices ------------------------------------------------------------------------------ */

static struct rf_str fault_of(struct rf_arena *a, const struct rf_json *device, int64_t memory)
{
	const struct rf_json *taints = rf_json_at(device, "taints");
	const struct rf_json *healthy = rf_json_at(device, "attributes", "healthy", "bool");

	for (size_t i = 0; i < rf_json_len(taints); i++) {
		const struct rf_json *t = rf_json_item(taints, i);

		if (!rf_str_is(rf_json_str_at(t, "effect"), "None"))
			return rf_arena_printf(a, "%.*s %.*s", RF_STR(rf_json_str_at(t, "key")),
					       RF_STR(rf_json_str_at(t, "value")));
	}
	if (healthy != NULL && !rf_json_is_true(healthy))
		return RF_LIT("unhealthy");
	return memory > 0 ? RF_STR_EMPTY : RF_LIT("reports no memory");
}

void rf_sched_read_slice(struct rf_arena *a, const struct rf_json *slice,
			 struct rf_sched_device **devices, size_t *n)
{
	const struct rf_json *list = rf_json_at(slice, "spec", "devices");
	struct rf_sched_device *all = NULL;

	if (!rf_str_is(rf_json_str_at(slice, "spec", "driver"), RF_DRIVER))
		return;
	all = rf_arena_array(a, struct rf_sched_device, *n + rf_json_len(list) + 1);
	if (*n > 0)
		memcpy(all, *devices, *n * sizeof(*all));
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *d = rf_json_item(list, i), *milli = NULL;
		struct rf_sched_device *to = &all[(*n)++];

		milli = rf_json_at(d, "capacity", "compute", "value");
		to->name = rf_json_str_at(d, "name");
		to->model = rf_json_str_at(d, "attributes", "productName", "string");
		to->memory = whole_of(rf_json_at(d, "capacity", "memory", "value"));
		to->milli = milli != NULL ? whole_of(milli) : 1000;
		to->fault = fault_of(a, d, to->memory);
	}
	*devices = all;
}
