/* Layer 2: queues, priorities, taints, and who sits beside whom. */
#include "audit/private.h"

#include "tenant/slice.h"

#define RACK_LABEL "topology.kubernetes.io/rack"
#define PAIRS_MAX 20000000 /* of cards that are compared */
#define TAINT_DOC "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"
#define PRIORITY_DOC                                                                               \
	"https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/"

/* --- queues --------------------------------------------------------------------------------- */

static bool has_queues(const struct rf_audit *x)
{
	return x->of[AU_QUEUE].n + x->of[AU_KUEUE].n + x->of[AU_VOLCANO].n + x->of[AU_KAI].n > 0;
}

static bool is_queued(const struct rf_audit *x, const struct au_pod *p)
{
	static const char *const KEYS[] = {
		"kueue.x-k8s.io/queue-name",	"scheduling.volcano.sh/queue-name",
		"kai.scheduler/queue",		"runai/queue",
		"scheduling.k8s.io/group-name", "volcano.sh/queue-name",
		"kueue.x-k8s.io/managed"
	};
	const struct rf_json *maps[] = { rf_json_at(p->meta, "labels"),
					 rf_json_at(p->meta, "annotations"),
					 rf_json_at(p->obj->o, "metadata", "labels"),
					 rf_json_at(p->obj->o, "metadata", "annotations") };

	for (size_t m = 0; m < RF_COUNT(maps); m++)
		for (size_t i = 0; i < RF_COUNT(KEYS); i++)
			if (rf_json_get(maps[m], rf_str(KEYS[i])) != NULL)
				return true;
	/* ringfence has one queue per tenant, and a pod is in its tenant's. */
	return p->ns->labelled && x->of[AU_QUEUE].n > 0;
}

static void not_queued(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		struct au_what w = { .pod = p, .field = RF_LIT("metadata.labels") };

		if (p->gpu && !p->ns->platform && has_queues(x) && !is_queued(x, p))
			au_tell(x, c, &w,
				"asks for cards and is in no queue, though the cluster has queues");
	}
}

static void no_queues(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct au_what w = { 0 };

	if (x->gpu_tenants > 1 && !has_queues(x))
		au_tell(x, c, &w,
			"%zu tenants ask for cards and there is no queue of ringfence, Kueue, "
			"Volcano or KAI",
			x->gpu_tenants);
}

/* --- priorities ----------------------------------------------------------------------------- */

static bool is_own_class(const struct au_obj *o)
{
	return !rf_str_starts(o->name, RF_LIT("system-"));
}

static void no_priority(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		struct au_what w = { .pod = p,
				     .field = au_text(x, "%s.priorityClassName", p->prefix) };

		if (p->gpu && !p->ns->platform &&
		    rf_json_str_at(p->spec, "priorityClassName").n == 0)
			au_tell(x, c, &w, "asks for cards and names no PriorityClass");
	}
}

static void no_classes(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct au_what w = { 0 };
	size_t gpu_pods = 0;

	AU_EACH(x, AU_PRIORITYCLASS, o)
	if (is_own_class(o))
		return;
	AU_PODS(x, p)
	gpu_pods += p->gpu;
	if (gpu_pods > 0)
		au_tell(x, c, &w,
			"%zu pods ask for cards and there is no PriorityClass but Kubernetes' own",
			gpu_pods);
}

static bool bounds_priority(const struct au_obj *q)
{
	const struct rf_json *terms = rf_json_at(q->o, "spec", "scopeSelector", "matchExpressions");

	for (size_t i = 0; i < rf_json_len(terms); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(terms, i), "scopeName"), "PriorityClass"))
			return true;
	return false;
}

static void unbounded_priority(struct rf_audit *x, const struct rf_audit_check *c)
{
	const struct au_obj *highest = NULL;

	AU_EACH(x, AU_PRIORITYCLASS, o)
	if (is_own_class(o) && rf_json_int(rf_json_at(o->o, "value"), 0) > 0 &&
	    !rf_str_is(rf_json_str_at(o->o, "preemptionPolicy"), "Never") &&
	    (highest == NULL || rf_json_int(rf_json_at(o->o, "value"), 0) >
					rf_json_int(rf_json_at(highest->o, "value"), 0)))
		highest = o;
	for (size_t i = 0; highest != NULL && i < x->ns.n; i++) {
		const struct au_ns *n = x->ns.at[i];
		struct au_what w = { .obj = n->obj, .kind = RF_LIT("Namespace"), .name = n->name };
		bool bound = false;

		if (n->platform || n->gpu_pods == 0)
			continue;
		AU_EACH(x, AU_QUOTA, q)
		bound |= rf_str_eq(q->ns, n->name) && bounds_priority(q);
		if (!bound)
			au_tell(x, c, &w,
				"its pods may take any PriorityClass, \"%.*s\" (%lld) too, and "
				"drive out others",
				RF_STR(highest->name),
				(long long)rf_json_int(rf_json_at(highest->o, "value"), 0));
	}
}

/* --- taints and tolerations ------------------------------------------------------------------- */

static bool is_tainted(const struct au_obj *node)
{
	const struct rf_json *taints = rf_json_at(node->o, "spec", "taints");

	for (size_t i = 0; i < rf_json_len(taints); i++) {
		struct rf_str key = rf_json_str_at(rf_json_item(taints, i), "key");
		struct rf_str effect = rf_json_str_at(rf_json_item(taints, i), "effect");

		if ((rf_str_is(effect, "NoSchedule") || rf_str_is(effect, "NoExecute")) &&
		    !rf_str_starts(key, RF_LIT("node.kubernetes.io/")))
			return true;
	}
	return false;
}

static void no_taint(struct rf_audit *x, const struct rf_audit_check *c)
{
	for (size_t i = 0; i < x->nodes.n; i++) {
		const struct au_node *n = &x->nodes.at[i];
		struct au_what w = { .obj = n->obj, .field = RF_LIT("spec.taints") };

		if (!n->gpu || is_tainted(n->obj))
			continue;
		/* Where every node has cards the rest has nowhere else to go: a node for it comes first. */
		w.has_severity = x->all_gpu_nodes;
		w.severity = RF_AUDIT_LOW;
		w.fix = au_text(
			x, "%skubectl taint nodes %.*s nvidia.com/gpu=present:NoSchedule",
			x->all_gpu_nodes
				? "Add a node without cards for everything else first; then: "
				: "",
			RF_STR(n->name));
		au_tell(x, c, &w, "a node with cards that any pod may run on");
	}
}

static void wild_toleration(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		const struct rf_json *all = rf_json_at(p->spec, "tolerations");

		for (size_t i = 0; !p->ns->platform && i < rf_json_len(all); i++) {
			const struct rf_json *t = rf_json_item(all, i);
			struct au_what w = {
				.pod = p, .field = au_text(x, "%s.tolerations[%zu]", p->prefix, i)
			};

			if (rf_json_str_at(t, "key").n == 0 &&
			    rf_str_is(rf_json_str_at(t, "operator"), "Exists"))
				au_tell(x, c, &w,
					"tolerates every taint: runs on GPU nodes, control planes "
					"and sick nodes");
		}
	}
}

static void without_gpu_on_gpu_node(struct rf_audit *x, const struct rf_audit_check *c)
{
	for (size_t i = 0; i < x->nodes.n; i++) {
		const struct au_node *n = &x->nodes.at[i];
		struct au_what w = { .obj = n->obj,
				     .has_severity = true,
				     .severity = RF_AUDIT_LOW };
		rf_auto(buf) names = RF_BUF_INIT;
		size_t found = 0;

		if (!n->gpu)
			continue;
		AU_PODS(x, p)
		{
			if (p->gpu || p->daemon || !rf_str_eq(p->node, n->name) ||
			    rf_str_is(p->owner_kind, "Node"))
				continue;
			if (!p->ns->platform && !x->all_gpu_nodes)
				w.severity = RF_AUDIT_MEDIUM;
			if (++found <= 5)
				rf_buf_printf(&names, "%s%.*s/%.*s", found > 1 ? ", " : "",
					      RF_STR(p->ns->name), RF_STR(p->obj->name));
		}
		if (found > 0)
			au_tell(x, c, &w, "%zu pods without cards run on it: %s%s", found, names.p,
				found > 5 ? ", ..." : "");
	}
}

/* --- neighbours ----------------------------------------------------------------------------- */

static void shared_node(struct rf_audit *x, const struct rf_audit_check *c)
{
	rf_auto(map) alone = RF_MAP_INIT; /* node -> a pod that wants it for itself */

	AU_PODS(x, p)
	if (p->node.n > 0 && p->gpu &&
	    (rf_str_is(p->ns->tenant->isolation, "node") || rf_str_is(p->ns->tenant->isolation, "rack")))
		rf_map_set(&alone, p->node, (void *)(uintptr_t)p);
	AU_PODS(x, p)
	{
		const struct au_pod *other = p->node.n > 0 ? rf_map_get(&alone, p->node) : NULL;
		struct au_what w = { .pod = p, .field = RF_LIT("spec.nodeName") };

		if (other != NULL && other->ns->tenant != p->ns->tenant && !p->ns->platform)
			au_tell(x, c, &w,
				"runs on node %.*s beside %.*s/%.*s, whose tenant \"%.*s\" wants "
				"nodes to itself",
				RF_STR(p->node), RF_STR(other->ns->name), RF_STR(other->obj->name),
				RF_STR(other->ns->tenant->name));
	}
}

static struct rf_str rack_of(const struct rf_audit *x, struct rf_str node)
{
	const struct au_node *n = rf_map_get(&x->node_by_name, node);

	return n != NULL ? rf_kube_label(n->obj->o, RACK_LABEL) : RF_STR_EMPTY;
}

/* On the other nodes of its rack; those on its own node are told of as such. */
static void shared_rack(struct rf_audit *x, const struct rf_audit_check *c)
{
	rf_auto(map) alone = RF_MAP_INIT; /* rack -> a pod that wants it for itself */

	AU_PODS(x, p)
	{
		struct rf_str rack = p->node.n > 0 ? rack_of(x, p->node) : RF_STR_EMPTY;
		struct au_what w = { .pod = p, .field = RF_LIT("spec.nodeName") };

		if (p->node.n == 0 || !p->gpu || !rf_str_is(p->ns->tenant->isolation, "rack"))
			continue;
		if (rack.n > 0)
			rf_map_set(&alone, rack, (void *)(uintptr_t)p);
		else
			au_tell(x, c, &w, "runs on node %.*s, which is in no rack (label " RACK_LABEL
					  "), and its tenant wants racks to itself", RF_STR(p->node));
	}
	AU_PODS(x, p)
	{
		struct rf_str rack = p->node.n > 0 ? rack_of(x, p->node) : RF_STR_EMPTY;
		const struct au_pod *other = rack.n > 0 ? rf_map_get(&alone, rack) : NULL;
		struct au_what w = { .pod = p, .field = RF_LIT("spec.nodeName") };

		if (other != NULL && other->ns->tenant != p->ns->tenant && !p->ns->platform && !rf_str_eq(other->node, p->node))
			au_tell(x, c, &w,
				"runs in rack %.*s beside %.*s/%.*s on node %.*s, whose tenant \"%.*s\" wants racks to itself",
				RF_STR(rack), RF_STR(other->ns->name), RF_STR(other->obj->name), RF_STR(other->node),
				RF_STR(other->ns->tenant->name));
	}
}

/* --- cards that belong together --------------------------------------------------------------- */

struct seat { /* a card that a claim holds */
	const struct au_obj *claim;
	const struct au_ns *ns;
	struct rf_str driver, node, device;
	int64_t numa, island; /* -1: nobody says */
	size_t result, next;  /* next on the node: index + 1 */
};

struct seats {
	RF_VEC(struct seat) all;
	struct rf_map on; /* node -> its last one, + 1 */
};

/* The card as its driver's slices have it. */
static void find_place(const struct rf_json *slice, struct seat *s)
{
	const struct rf_json *devices = rf_json_at(slice, "spec", "devices");

	for (size_t i = 0; i < rf_json_len(devices); i++) {
		const struct rf_json *d = rf_json_item(devices, i), *at = rf_json_at(d, "attributes");

		if (!rf_str_eq(rf_json_str_at(d, "name"), s->device))
			continue;
		s->node = rf_json_str_at(slice, "spec", "nodeName");
		s->island = rf_json_int(rf_json_at(at, "nvlinkIsland", "int"), -1);
		s->numa = rf_json_int(rf_json_at(at, "numaNode", "int"), -1);
		if (s->numa < 0)
			s->numa = rf_json_int(rf_json_at(at, "resource.kubernetes.io/numaNode", "int"), -1);
	}
}

/* The slices of each pool: "driver/pool" -> the first of them, + 1, and each one's next. */
struct pools {
	struct rf_arena a;
	struct rf_map first;
	size_t *next;
};

static struct rf_str pool_key(struct pools *p, struct rf_str driver, struct rf_str pool)
{
	return rf_arena_printf(&p->a, "%.*s/%.*s", RF_STR(driver), RF_STR(pool));
}

static void list_pools(const struct rf_audit *x, struct pools *p)
{
	p->next = rf_arena_array(&p->a, size_t, RF_MAX(x->of[AU_SLICE].n, 1));
	for (size_t i = x->of[AU_SLICE].n; i-- > 0;) {
		const struct rf_json *spec = rf_json_at(x->of[AU_SLICE].at[i]->o, "spec");
		struct rf_str key = pool_key(p, rf_json_str_at(spec, "driver"), rf_json_str_at(spec, "pool", "name"));

		p->next[i] = (size_t)(uintptr_t)rf_map_get(&p->first, key);
		rf_map_set(&p->first, key, (void *)(i + 1)); /* NOLINT: a number */
	}
}

static struct seat seat_of(const struct rf_audit *x, struct pools *pools, const struct rf_json *r)
{
	struct rf_str pool = rf_json_str_at(r, "pool");
	struct seat s = { .driver = rf_json_str_at(r, "driver"), .device = rf_json_str_at(r, "device"), .node = pool,
			  .numa = -1, .island = -1 };
	size_t i = (size_t)(uintptr_t)rf_map_get(&pools->first, pool_key(pools, s.driver, pool));

	for (; i > 0; i = pools->next[i - 1])
		find_place(x->of[AU_SLICE].at[i - 1]->o, &s);
	return s;
}

/* Where nobody says, they may be. Islands are numbers of one driver. */
static bool one_group(const struct seat *a, const struct seat *b, bool numa)
{
	if (numa)
		return a->numa < 0 || b->numa < 0 || a->numa == b->numa;
	return a->island < 0 || b->island < 0 || !rf_str_eq(a->driver, b->driver) || a->island == b->island;
}

static void tell_seat(struct rf_audit *x, const struct rf_audit_check *c, const struct seat *s, const struct seat *alone, bool numa)
{
	struct au_what w = { .obj = s->claim, .field = au_text(x, "status.allocation.devices.results[%zu]", s->result) };

	au_tell(x, c, &w,
		"holds %.*s of node %.*s, which %s %.*s that claim %.*s/%.*s holds, and its tenant \"%.*s\" wants %s to itself",
		RF_STR(s->device), RF_STR(s->node),
		numa ? "is on one NUMA node, or may be, with" : "is joined by NVLink, or may be, to", RF_STR(alone->device),
		RF_STR(alone->claim->ns), RF_STR(alone->claim->name), RF_STR(alone->ns->tenant->name),
		numa ? "NUMA nodes" : "NVLink islands");
}

static void list_seats(struct rf_audit *x, struct seats *v)
{
	struct pools pools = { .a = RF_ARENA_INIT, .first = RF_MAP_INIT };

	list_pools(x, &pools);
	AU_EACH(x, AU_CLAIM, o)
	{
		const struct rf_json *results = rf_json_at(o->o, "status", "allocation", "devices", "results");

		for (size_t i = 0; i < rf_json_len(results); i++) {
			const struct rf_json *r = rf_json_item(results, i);
			struct seat s = seat_of(x, &pools, r);

			if (rf_json_is_true(rf_json_at(r, "adminAccess")) || s.node.n == 0)
				continue;
			s.claim = o;
			s.ns = au_ns_of(x, o->ns);
			s.result = i;
			s.next = (size_t)(uintptr_t)rf_map_get(&v->on, s.node);
			rf_vec_push(&v->all, s);
			rf_map_set(&v->on, s.node, (void *)v->all.n); /* NOLINT: a number */
		}
	}
	rf_map_done(&pools.first);
	rf_arena_done(&pools.a);
}

static void shared_group(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct seats v = { .on = RF_MAP_INIT };
	size_t pairs = 0;

	list_seats(x, &v);
	for (size_t i = 0; i < v.all.n && pairs <= PAIRS_MAX; i++) {
		const struct seat *s = &v.all.at[i];
		bool numa = rf_str_is(s->ns->tenant->isolation, "numa");

		if (!numa && !rf_str_is(s->ns->tenant->isolation, "nvlink"))
			continue;
		for (size_t k = (size_t)(uintptr_t)rf_map_get(&v.on, s->node); k > 0; k = v.all.at[k - 1].next) {
			const struct seat *o = &v.all.at[k - 1];

			pairs++;
			if (o->ns->tenant != s->ns->tenant && !o->ns->platform && one_group(s, o, numa))
				tell_seat(x, c, o, s, numa);
		}
	}
	if (pairs > PAIRS_MAX)
		rf_vec_push(&x->unmade, ((struct au_not){ rf_str(c->id), RF_LIT("too many claims hold cards of one node; not all were compared") }));
	rf_vec_done(&v.all);
	rf_map_done(&v.on);
}

static bool may_share(const struct au_tenant *a, const struct au_tenant *b)
{
	const struct au_tenant *both[] = { a, b };

	for (size_t i = 0; i < 2; i++)
		if (!rf_str_is(both[i]->isolation, "share") &&
		    !rf_str_is(both[i]->isolation, "cooperative"))
			return false;
	return rf_str_eq(a->domain, b->domain);
}

static struct rf_str device_of(struct rf_arena *a, const struct rf_json *claim, size_t i)
{
	const struct rf_json *r = rf_json_item(rf_json_at(claim, "status", "allocation", "devices", "results"), i);
	struct rf_str card = rf_arena_printf(a, "%.*s/%.*s/%.*s", RF_STR(rf_json_str_at(r, "driver")),
					     RF_STR(rf_json_str_at(r, "pool")), RF_STR(rf_json_str_at(r, "device")));
	struct rf_slice_place slice;

	if (!rf_slice_of_result(claim, i, &slice))
		return card;
	return rf_arena_printf(a, "%.*s slice %u", RF_STR(card), slice.start);
}

/* Two claims that hold one device. A MIG slice is a device of its own; so is what a driver calls one. */
static void shared_card(struct rf_audit *x, const struct rf_audit_check *c)
{
	rf_auto(map) holder = RF_MAP_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;

	AU_EACH(x, AU_CLAIM, o)
	{
		const struct rf_json *results =
			rf_json_at(o->o, "status", "allocation", "devices", "results");
		const struct au_ns *n = au_ns_of(x, o->ns);

		for (size_t i = 0; i < rf_json_len(results); i++) {
			const struct rf_json *r = rf_json_item(results, i);
			struct rf_str device = device_of(&a, o->o, i);
			const struct au_obj *other = rf_map_get(&holder, device);
			const struct au_ns *on = other ? au_ns_of(x, other->ns) : NULL;
			struct au_what w = {
				.obj = o,
				.field = au_text(x, "status.allocation.devices.results[%zu]", i)
			};

			if (rf_json_is_true(rf_json_at(r, "adminAccess")))
				continue;
			if (other == NULL) {
				rf_map_set(&holder, device, (void *)(uintptr_t)o);
				continue;
			}
			if (on->tenant != n->tenant && !may_share(on->tenant, n->tenant))
				au_tell(x, c, &w,
					"tenants \"%.*s\" and \"%.*s\" (claim %.*s/%.*s) hold "
					"device %.*s together",
					RF_STR(n->tenant->name), RF_STR(on->tenant->name),
					RF_STR(other->ns), RF_STR(other->name), RF_STR(device));
		}
	}
}

static void fixed_node(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		struct au_what w = { .pod = p, .field = au_text(x, "%s.nodeName", p->prefix) };
		bool placed = !p->template && rf_json_at(p->obj->o, "status", "phase") != NULL;

		if (p->gpu && !placed && !p->ns->platform &&
		    rf_json_str_at(p->spec, "nodeName").n > 0)
			au_tell(x, c, &w,
				"names its node itself and so goes past the scheduler, its queues "
				"and its taints");
	}
}

#define ROW(number, level, fn, kinds)                                                              \
	.id = "RF-SCHED-" number, .layer = RF_AUDIT_SCHED, .severity = level, .run = fn,           \
	.needs = kinds

const struct rf_audit_check au_sched_checks[] = {
	{ ROW("01", RF_AUDIT_MEDIUM, not_queued, "Pod"), .title = "GPU pod in no queue",
	  .why = "It goes past the shares that queues give out and can starve those who wait in "
		 "line.",
	  .fix = "Label it: kubectl label ... kueue.x-k8s.io/queue-name=QUEUE (Kueue), "
		 "scheduling.volcano.sh/queue-name "
		 "(Volcano), or use a ringfence tenant's namespace.",
	  .reference = "https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/" },
	{ ROW("02", RF_AUDIT_MEDIUM, no_queues, "Pod"), .cluster_only = true,
	  .title = "Several tenants and no queues",
	  .why = "Without queues all tenants compete in one heap: who asks first and most, gets "
		 "most.",
	  .fix = "Install ringfence's control (deploy/), Kueue or Volcano, with one queue per "
		 "tenant.",
	  .reference = "docs/kubernetes.md" },
	{ ROW("03", RF_AUDIT_LOW, no_priority, "Pod PriorityClass"),
	  .title = "GPU pod without a priority",
	  .why = "When cards are short nobody can tell a notebook from a training run.",
	  .fix = "Set priorityClassName, or make one class globalDefault.",
	  .reference = PRIORITY_DOC },
	{ ROW("04", RF_AUDIT_MEDIUM, unbounded_priority, "Pod PriorityClass ResourceQuota"),
	  .title = "Priorities without bounds",
	  .why = "A tenant that may name the highest class preempts the other tenants' pods.",
	  .fix = "Add a ResourceQuota with scopeSelector: {matchExpressions: [{scopeName: "
		 "PriorityClass, operator: In, "
		 "values: [HIGH]}]} and hard: {pods: 0} for the classes it must not use.",
	  .reference = "https://kubernetes.io/docs/concepts/policy/resource-quotas/"
		       "#resource-quota-per-priorityclass" },
	{ ROW("05", RF_AUDIT_LOW, no_classes, "Pod PriorityClass"), .cluster_only = true,
	  .title = "No PriorityClasses", .why = "Nothing says what gives way when cards are short.",
	  .fix = "kubectl create priorityclass gpu-batch --value=1000 --preemption-policy=Never; "
		 "kubectl create "
		 "priorityclass gpu-service --value=10000",
	  .reference = PRIORITY_DOC },
	{ ROW("06", RF_AUDIT_HIGH, no_taint, "Node"), .title = "GPU node without a taint",
	  .why = "Pods without cards fill the node's cpu and memory, and its cards stay idle; "
		 "system pods share the fate "
		 "of a broken driver.",
	  .fix = "kubectl taint nodes NODE nvidia.com/gpu=present:NoSchedule",
	  .reference = TAINT_DOC },
	{ ROW("07", RF_AUDIT_MEDIUM, wild_toleration, "Pod"), .title = "Toleration of everything",
	  .why = "The taint is what keeps nodes apart; this pod ignores all of them.",
	  .fix = "Name the taint: tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: "
		 "NoSchedule}]",
	  .reference = TAINT_DOC },
	{ ROW("08", RF_AUDIT_MEDIUM, without_gpu_on_gpu_node, "Pod Node"),
	  .title = "Pods without cards on a GPU node",
	  .why = "They take the cpu and memory that pods with cards need, and stand nearer to the "
		 "driver than they must.",
	  .fix = "Taint the node and let the pods move: kubectl drain after kubectl taint.",
	  .reference = TAINT_DOC },
	{ ROW("09", RF_AUDIT_HIGH, shared_node, "Pod Tenant"),
	  .title = "A tenant is not alone on its node",
	  .why = "Its isolation says node or rack: side channels and a node's failure must not be shared.",
	  .fix = "Delete the pod that does not belong there; taint the node for the tenant.",
	  .reference = "docs/architecture.md" },
	{ ROW("10", RF_AUDIT_CRITICAL, shared_card, "ResourceClaim"),
	  .title = "Two tenants hold one card",
	  .why = "Memory that is not scrubbed, timing and faults pass between them; one of them "
		 "did not agree to it.",
	  .fix = "Delete one of the two pods. Share only by MIG, or inside one trust domain "
		 "(Tenant spec.trustDomain).",
	  .reference = "docs/architecture.md" },
	{ ROW("11", RF_AUDIT_MEDIUM, fixed_node, "Pod"), .title = "GPU pod that places itself",
	  .why = "nodeName goes past the scheduler: no quota of a queue, no taint and no isolation "
		 "is asked.",
	  .fix = "Remove nodeName; use a nodeSelector.",
	  .reference = "https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/"
		       "#nodename" },
	{ ROW("12", RF_AUDIT_HIGH, shared_rack, "Pod Tenant Node"),
	  .title = "A tenant is not alone in its rack",
	  .why = "Its isolation says rack: power, cooling, switches and NVLink domains must not be shared.",
	  .fix = "Delete the pod that does not belong there; label every node with its rack.",
	  .reference = "docs/architecture.md" },
	{ ROW("13", RF_AUDIT_HIGH, shared_group, "ResourceClaim ResourceSlice Tenant"),
	  .title = "A tenant is not alone on its NUMA node or NVLink island",
	  .why = "Its isolation says numa or nvlink: caches, memory bandwidth and links between cards must not be shared.",
	  .fix = "Delete one of the two pods. Where nobody says where a card is, see that its driver publishes numaNode and "
		 "nvlinkIsland.",
	  .reference = "docs/architecture.md" },
	{ 0 },
};
