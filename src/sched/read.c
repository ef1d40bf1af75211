/* Kubernetes objects as facts for the model. What an object lacks is read in the direction that
 * does not place: no Ready condition is not ready, a card without memory is out of service. */
#include <stdarg.h>

#include "sched/read_private.h"
#include "tenant/slice.h"

#define PODS_DEFAULT 110	       /* what a kubelet allows when nothing is said */
#define WHOLE_BYTES (INT64_C(1) << 52) /* more than any card has: nothing fits beside it */
#define RESOURCES_MAX 32	       /* of a pod; each is looked for in every container */
#define NODE_RESOURCES_MAX 128
#define LABELS_MAX 256
#define GRACE_DEFAULT 30	       /* seconds, as Kubernetes has it */

void rd_unsupported(struct rf_arena *a, struct rf_sched_pod *p, const char *fmt, ...)
{
	va_list ap;

	if (p->unsupported.n > 0)
		return;
	va_start(ap, fmt);
	p->unsupported = rf_arena_vprintf(a, fmt, ap);
	va_end(ap);
}

/* Nothing is worth less than nothing: a negative amount would be room that is not there. */
static int64_t milli_of(const struct rf_json *v)
{
	int64_t n = 0;

	if (v == NULL || (v->type != RF_JSON_STRING && v->type != RF_JSON_NUMBER))
		return 0;
	return rf_quantity_milli(v->text, &n, NULL) < 0 ? 0 : RF_MAX(n, 0);
}

static int64_t whole_of(const struct rf_json *v)
{
	int64_t n = 0;

	if (v == NULL || (v->type != RF_JSON_STRING && v->type != RF_JSON_NUMBER))
		return 0;
	return rf_quantity_value(v->text, &n, NULL) < 0 ? 0 : RF_MAX(n, 0);
}

/* Cards are counted by claims, and the rest of these has fields of its own. */
static bool is_counted_elsewhere(struct rf_str resource)
{
	return rf_str_is(resource, "cpu") || rf_str_is(resource, "memory") ||
	       rf_str_is(resource, "pods") || rf_str_starts(resource, RF_LIT("ringfence.io/")) ||
	       rf_str_starts(resource, RF_LIT(RF_RES_MIG_OTHER));
}

struct rf_sched_pair *rd_pairs(struct rf_arena *a, const struct rf_json *o, size_t *ret_n)
{
	size_t n = rf_json_is(o, RF_JSON_OBJECT) ? o->n : 0;
	struct rf_sched_pair *pairs = rf_arena_array(a, struct rf_sched_pair, RF_MAX(n, 1));

	for (size_t i = 0; i < n; i++)
		pairs[i] = (struct rf_sched_pair){ o->members[i].key,
						   rf_json_str(o->members[i].value) };
	*ret_n = n;
	return pairs;
}

int64_t rd_time(struct rf_str text)
{
	int64_t ms = 0;

	return rf_time_parse(text, &ms, NULL) < 0 ? 0 : ms;
}

int64_t rd_rv(const struct rf_json *o)
{
	int64_t rv = 0;

	return rf_str_int(rf_json_str_at(o, "metadata", "resourceVersion"), &rv, NULL) < 0 ? 0 : rv;
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

static void read_more(struct rf_arena *a, const struct rf_json *have, struct rf_sched_node *n)
{
	size_t most = rf_json_is(have, RF_JSON_OBJECT) ? have->n : 0;

	most = RF_MIN(most, (size_t)NODE_RESOURCES_MAX);
	n->more = rf_arena_array(a, struct rf_sched_amount, RF_MAX(most, 1));
	for (size_t i = 0; i < most; i++) {
		if (!is_counted_elsewhere(have->members[i].key))
			n->more[n->n_more++] =
				(struct rf_sched_amount){ have->members[i].key,
							  whole_of(have->members[i].value) };
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
	ret->labels = rd_pairs(a, rf_json_at(node, "metadata", "labels"), &ret->n_labels);
	read_taints(a, rf_json_at(node, "spec", "taints"), ret);
	read_more(a, have, ret);
}

/* --- pods -------------------------------------------------------------------------------- */

/* A missing request is the limit, as Kubernetes defaults it. */
static int64_t need_of(const struct rf_json *owner, struct rf_str resource)
{
	const struct rf_json *limits = rf_json_at(owner, "resources", "limits");
	const struct rf_json *v = rf_json_get(rf_json_at(owner, "resources", "requests"), resource);

	v = v != NULL ? v : rf_json_get(limits, resource);
	return rf_str_is(resource, "cpu") ? milli_of(v) : whole_of(v);
}

static int64_t plus(int64_t a, int64_t b)
{
	int64_t sum = 0;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Init containers run before the others, one by one; those that restart stay and count with
 * them. What is said for the pod as a whole is at least as much. CPU is in thousandths. */
static int64_t need_of_pod(const struct rf_json *spec, struct rf_str resource)
{
	const struct rf_json *init = rf_json_at(spec, "initContainers"),
			     *main = rf_json_at(spec, "containers"),
			     *over = rf_json_get(rf_json_at(spec, "overhead"), resource);
	int64_t staying = 0, peak = 0;

	for (size_t i = 0; i < rf_json_len(init); i++) {
		const struct rf_json *c = rf_json_item(init, i);
		int64_t during = plus(staying, need_of(c, resource));

		peak = RF_MAX(peak, during);
		if (rf_str_is(rf_json_str_at(c, "restartPolicy"), "Always"))
			staying = during;
	}
	for (size_t i = 0; i < rf_json_len(main); i++)
		staying = plus(staying, need_of(rf_json_item(main, i), resource));
	peak = RF_MAX(RF_MAX(peak, staying), need_of(spec, resource));
	return plus(peak, rf_str_is(resource, "cpu") ? milli_of(over) : whole_of(over));
}

/* Which other resources the owner of a list speaks of; false if there are too many. */
static bool note_names(const struct rf_json *names, struct rf_sched_pod *p)
{
	for (size_t i = 0; rf_json_is(names, RF_JSON_OBJECT) && i < names->n; i++) {
		struct rf_str name = names->members[i].key;
		size_t k = 0;

		while (k < p->n_more && !rf_str_eq(p->more[k].name, name))
			k++;
		if (k < p->n_more || is_counted_elsewhere(name))
			continue;
		if (p->n_more == RESOURCES_MAX)
			return false;
		p->more[p->n_more++].name = name;
	}
	return true;
}

static bool note_resources(const struct rf_json *owner, struct rf_sched_pod *p)
{
	return note_names(rf_json_at(owner, "resources", "requests"), p) &&
	       note_names(rf_json_at(owner, "resources", "limits"), p);
}

static void read_needs(struct rf_arena *a, const struct rf_json *spec, struct rf_sched_pod *p)
{
	static const char *const lists[] = { "containers", "initContainers" };
	bool all = note_resources(spec, p);

	for (size_t l = 0; l < RF_COUNT(lists); l++) {
		const struct rf_json *list = rf_json_at(spec, lists[l]);

		for (size_t i = 0; all && i < rf_json_len(list); i++)
			all = note_resources(rf_json_item(list, i), p);
	}
	if (!all)
		rd_unsupported(a, p, "asks for more than %d kinds of resources; ask for fewer",
			       RESOURCES_MAX);
	p->cpu_milli = need_of_pod(spec, RF_LIT("cpu"));
	p->memory = need_of_pod(spec, RF_LIT("memory"));
	for (size_t i = 0; i < p->n_more; i++)
		p->more[i].n = need_of_pod(spec, p->more[i].name);
}

/* The demand that Kubernetes writes into a DaemonSet's pods, and in that form only: the one node
 * that it is for. */
static struct rf_str only_node(const struct rf_json *required)
{
	const struct rf_json *terms = rf_json_at(required, "nodeSelectorTerms"),
			     *term = rf_json_item(terms, 0),
			     *fields = rf_json_at(term, "matchFields"),
			     *field = rf_json_item(fields, 0),
			     *values = rf_json_at(field, "values");

	if (rf_json_len(terms) != 1 || rf_json_len(term) != 1 || rf_json_len(fields) != 1 ||
	    rf_json_len(values) != 1 || !rf_str_is(rf_json_str_at(field, "operator"), "In") ||
	    !rf_str_is(rf_json_str_at(field, "key"), "metadata.name"))
		return RF_STR_EMPTY;
	return rf_json_str(rf_json_item(values, 0));
}

static bool is_daemon(const struct rf_json *meta)
{
	const struct rf_json *owners = rf_json_at(meta, "ownerReferences");

	for (size_t i = 0; i < rf_json_len(owners); i++) {
		const struct rf_json *o = rf_json_item(owners, i);
		struct rf_str kind = rf_json_str_at(o, "kind");

		if (rf_json_is_true(rf_json_at(o, "controller")) &&
		    (rf_str_is(kind, "DaemonSet") || rf_str_is(kind, "Node")))
			return true;
	}
	return false;
}

static void read_notes(struct rf_arena *a, const struct rf_json *pod, struct rf_sched_pod *p)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_pod_notes n;

	if (rf_pod_notes(pod, &n, &err) < 0)
		rd_unsupported(a, p, "%s", err.msg);
	p->queue = n.queue;
	p->group = n.group;
	p->models = n.models;
	p->one_island = n.nvlink;
	p->pinned = n.pinned;
	p->min_run_ms = n.min_run_seconds * 1000;
}

static int64_t seconds_of(const struct rf_json *v, int64_t otherwise)
{
	return RF_MIN(RF_MAX(rf_json_int(v, otherwise), 0), RD_SECONDS_MAX) * 1000;
}

/* When it was bound, as far as anybody wrote it down. */
static int64_t started_of(const struct rf_json *pod)
{
	const struct rf_json *list = rf_json_at(pod, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *c = rf_json_item(list, i);
		int64_t ms = rd_time(rf_json_str_at(c, "lastTransitionTime"));

		if (rf_str_is(rf_json_str_at(c, "type"), "PodScheduled") &&
		    rf_str_is(rf_json_str_at(c, "status"), "True") && ms > 0)
			return ms;
	}
	return rd_time(rf_json_str_at(pod, "status", "startTime"));
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
		struct rf_str op = rf_json_str_at(t, "operator");

		/* One that compares in a way not known here tolerates nothing. */
		if (op.n > 0 && !rf_str_is(op, "Equal") && !rf_str_is(op, "Exists"))
			continue;
		ret->tolerations[ret->n_tolerations++] = (struct rf_sched_toleration){
			rf_json_str_at(t, "key"), rf_json_str_at(t, "value"),
			rf_json_str_at(t, "effect"), rf_str_is(op, "Exists")
		};
	}
}

int rf_sched_read_pod(struct rf_arena *a, const struct rf_json *pod, struct rf_sched_pod *ret,
		      struct rf_err *err)
{
	const struct rf_json *spec = rf_json_at(pod, "spec"), *meta = rf_json_at(pod, "metadata");
	struct rf_gpu_ask sum = { 0 };

	*ret = (struct rf_sched_pod){
		.uid = rf_json_str_at(meta, "uid"),
		.ns = rf_json_str_at(meta, "namespace"),
		.name = rf_json_str_at(meta, "name"),
		.rv = rd_rv(pod),
		.node = rf_json_str_at(spec, "nodeName"),
		.ended = !rf_pod_counts(pod),
		.well = rf_str_is(rf_json_str_at(pod, "status", "phase"), "Succeeded"),
		.deleting = rf_json_str_at(meta, "deletionTimestamp").n > 0,
		.priority = rf_json_int(rf_json_at(spec, "priority"), 0),
		.patient = rf_str_is(rf_json_str_at(spec, "preemptionPolicy"), "Never"),
		.created_ms = rd_time(rf_json_str_at(meta, "creationTimestamp")),
		.os = rf_json_str_at(spec, "os", "name"),
		.daemon = is_daemon(meta),
		.only_node = only_node(rf_json_at(spec, "affinity", "nodeAffinity", RD_REQUIRED)),
		.gated = rf_json_len(rf_json_at(spec, "schedulingGates")) > 0,
		.run_limit_ms = seconds_of(rf_json_at(spec, "activeDeadlineSeconds"), 0),
		.grace_ms = seconds_of(rf_json_at(spec, "terminationGracePeriodSeconds"), GRACE_DEFAULT),
		.started_ms = started_of(pod)
	};
	if (rf_json_len(rf_json_at(spec, "resourceClaims")) > 0)
		rd_unsupported(a, ret, "spec.resourceClaims is not for tenants; ask by limits " RF_RES_GPU
				       " or " RF_RES_GPU_MEMORY);
	ret->labels = rd_pairs(a, rf_json_at(meta, "labels"), &ret->n_labels);
	if (ret->n_labels > LABELS_MAX) {
		ret->n_labels = LABELS_MAX;
		rd_unsupported(a, ret, "has more than %d labels; remove some", LABELS_MAX);
	}
	read_notes(a, pod, ret);
	rd_affinity(a, spec, ret);
	ret->more = rf_arena_array(a, struct rf_sched_amount, RESOURCES_MAX);
	read_needs(a, spec, ret);
	ret->selector = rd_pairs(a, rf_json_at(spec, "nodeSelector"), &ret->n_selector);
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

/* A request for a share says how much of a card; one for whole cards does not. */
static bool asks_whole(const struct rf_json *claim, const struct rf_json *result)
{
	const struct rf_json *list = rf_json_at(claim, "spec", "devices", "requests");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *one = rf_json_item(list, i);

		if (rf_str_eq(rf_json_str_at(one, "name"), rf_json_str_at(result, "request")))
			return rf_json_at(one, "exactly", "capacity", "requests", "memory") == NULL;
	}
	return rf_json_at(result, "consumedCapacity", "memory") == NULL;
}

/* A slice that does not say where it is is taken for the whole card. */
static void read_slice(const struct rf_json *claim, size_t i, struct rf_sched_grant *g)
{
	struct rf_slice_place place;

	if (!rf_slice_of_result(claim, i, &place))
		return;
	g->profile = place.profile;
	g->start = place.start;
	g->whole = false;
}

static void read_result(const struct rf_json *claim, size_t i, const struct rf_json *r,
			struct rf_sched_claim *c)
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
				      .whole = asks_whole(claim, r),
				      .bytes = bytes != NULL ? whole_of(bytes) : WHOLE_BYTES,
				      .milli = milli != NULL   ? whole_of(milli)
					       : bytes != NULL ? 0
							       : 1000 };
	read_slice(claim, i, g);
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
		.rv = rd_rv(claim),
		.pod_uid = owner_pod(claim),
		.node = RF_STR_EMPTY,
		.tenant = rf_json_str_at(meta, "annotations", RF_TENANT_LABEL),
		.deleting = rf_json_str_at(meta, "deletionTimestamp").n > 0
	};
	ret->grants = rf_arena_array(a, struct rf_sched_grant, RF_MAX(rf_json_len(list), 1));
	for (size_t i = 0; i < rf_json_len(list); i++)
		read_result(claim, i, rf_json_item(list, i), ret);
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

/* Cards that say nothing are joined to no other, for who needs NVLink, and beside all others, for who wants none there;
 * and they are not cut into slices: who relies on it may be told no, not find out. nth: of its pool. */
static void read_place(const struct rf_json *d, size_t nth, struct rf_sched_device *to)
{
	struct rf_str mig = rf_json_str_at(d, "attributes", "migMode", "string");
	int64_t island = rf_json_int(rf_json_at(d, "attributes", "nvlinkIsland", "int"), -1),
		numa = rf_json_int(rf_json_at(d, "attributes", "numaNode", "int"), -1);

	to->island = island >= 0 && island < RF_SCHED_ISLANDS ? (uint8_t)island : RF_SCHED_ISLAND_UNKNOWN(nth);
	to->numa = numa >= 0 && numa < RF_SCHED_NUMA_UNKNOWN ? (uint8_t)numa : RF_SCHED_NUMA_UNKNOWN;
	to->sliced = rf_str_is(mig, "enabled");
	to->fixed = !to->sliced && !rf_str_is(mig, "dynamic");
}

static void read_device(struct rf_arena *a, const struct rf_json *d, size_t nth, struct rf_sched_device *to)
{
	const struct rf_json *milli = rf_json_at(d, "capacity", "compute", "value");

	to->name = rf_json_str_at(d, "name");
	to->model = rf_json_str_at(d, "attributes", "productName", "string");
	to->memory = whole_of(rf_json_at(d, "capacity", "memory", "value"));
	to->milli = milli != NULL ? whole_of(milli) : 1000;
	to->fault = fault_of(a, d, to->memory);
	read_place(d, nth, to);
}

/* A pool is its node's, and named after it: a slice that says otherwise speaks of somebody else's
 * cards. */
struct rf_str rf_sched_slice_node(const struct rf_json *slice)
{
	const struct rf_json *spec = rf_json_at(slice, "spec");
	struct rf_str node = rf_json_str_at(spec, "nodeName");

	if (!rf_str_is(rf_json_str_at(spec, "driver"), RF_DRIVER) ||
	    !rf_str_eq(rf_json_str_at(spec, "pool", "name"), node))
		return RF_STR_EMPTY;
	return node;
}

static int64_t generation_of(const struct rf_json *slice)
{
	return rf_json_int(rf_json_at(slice, "spec", "pool", "generation"), 0);
}

bool rf_sched_read_pool(struct rf_arena *a, const struct rf_json *const *slices, size_t n,
			struct rf_sched_device **ret, size_t *ret_n)
{
	int64_t newest = INT64_MIN, here = 0, expected = 1;
	struct rf_sched_device *all = NULL;
	size_t most = 0, count = 0;

	for (size_t i = 0; i < n; i++) {
		newest = RF_MAX(newest, generation_of(slices[i]));
		most += rf_json_len(rf_json_at(slices[i], "spec", "devices"));
	}
	all = rf_arena_array(a, struct rf_sched_device, RF_MAX(most, 1));
	for (size_t i = 0; i < n; i++) {
		const struct rf_json *devices = rf_json_at(slices[i], "spec", "devices");

		if (generation_of(slices[i]) != newest)
			continue;
		here++;
		expected =
			rf_json_int(rf_json_at(slices[i], "spec", "pool", "resourceSliceCount"), 1);
		for (size_t k = 0; k < rf_json_len(devices); k++, count++)
			read_device(a, rf_json_item(devices, k), count, &all[count]);
	}
	if (here < expected)
		return false;
	*ret = all;
	*ret_n = count;
	return true;
}
