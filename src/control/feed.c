/* What is there, told to the scheduler's core: each object when it changes, and nothing else. */
#include "control/private.h"

void rf_feed_tenant(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_tenant t = { 0 };

	if (after == NULL)
		rf_core_del_tenant(p->core, rf_kube_name(before));
	else if (rf_tenant_parse(&a, after, &t, NULL) == 0)
		rf_core_put_tenant(p->core, &t);
	/* else: what it said before still holds; its status says what is wrong */
}

void rf_feed_namespace(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	if (after == NULL)
		rf_core_del_namespace(p->core, rf_kube_name(before));
	else
		rf_core_put_namespace(p->core, rf_kube_name(after), rf_kube_label(after, RF_TENANT_LABEL));
}

void rf_feed_node(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_sched_node n = { 0 };

	if (after == NULL) {
		rf_core_del_node(p->core, rf_kube_name(before));
		return;
	}
	rf_sched_read_node(&a, after, &n);
	rf_core_put_node(p->core, &n);
}

/* One that makes no sense counts as one that is not there; the server refuses such. */
void rf_feed_gpu_pool(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	struct rf_sched_pool pool = { 0 };
	struct rf_err err = RF_ERR_INIT;

	if (after != NULL && rf_sched_read_gpu_pool(after, &pool, &err) == 0) {
		rf_core_put_pool(p->core, &pool);
		return;
	}
	if (after != NULL)
		rf_warn("%s; its nodes are used as those of no pool", err.msg);
	rf_core_del_pool(p->core, rf_kube_name(after != NULL ? after : before));
}

/* --- pods ------------------------------------------------------------------------------------- */

/* Pods that asked for another scheduler count once they are bound, and are not placed. */
bool rf_pod_is_for_us(const struct rf_json *pod, const char *scheduler)
{
	struct rf_str name = rf_json_str_at(pod, "spec", "schedulerName");

	if (scheduler != NULL)
		return rf_str_is(name, scheduler);
	return name.n == 0 || rf_str_is(name, "ringfence") || rf_str_is(name, "default-scheduler");
}

const struct rf_json *rf_pod_maker(const struct rf_json *pod)
{
	const struct rf_json *list = rf_json_at(pod, "metadata", "ownerReferences");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *o = rf_json_item(list, i);

		if (rf_json_is_true(rf_json_at(o, "controller")))
			return rf_str_is(rf_json_str_at(o, "kind"), "Node") ? NULL : o;
	}
	return NULL;
}

static void pod_gone(struct rf_placer *p, struct rf_str uid)
{
	rf_core_del_pod(p->core, uid, p->now_ms);
	rf_books_pod_gone(p, uid);
	free(rf_map_del(&p->told, uid));
	free(rf_map_del(&p->bound, uid));
}

/* Between our binding and its echo other changes of the pod arrive that do not know of it. */
static void know_better(struct rf_placer *p, struct rf_sched_pod *pod)
{
	char *node = rf_map_get(&p->bound, pod->uid);

	if (node == NULL)
		return;
	if (pod->node.n == 0)
		pod->node = rf_str(node);
	else
		free(rf_map_del(&p->bound, pod->uid));
}

void rf_feed_pod(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_sched_pod pod = { 0 };

	if (after == NULL) {
		pod_gone(p, rf_kube_uid(before));
		return;
	}
	if (rf_sched_read_pod(&a, after, &pod, &err) < 0)
		pod.unsupported = rf_arena_printf(&a, "%s", err.msg);
	know_better(p, &pod);
	/* What another scheduler placed counts, and is not ours to evict. */
	if (pod.node.n > 0 && (!rf_pod_is_for_us(after, p->scheduler) || (p->moving && rf_pod_maker(after) == NULL)))
		pod.pinned = true;
	if (pod.node.n == 0 && !rf_pod_is_for_us(after, p->scheduler))
		return;
	rf_core_put_pod(p->core, &pod, p->now_ms);
	rf_books_pod(p, &pod);
	rf_unclaimed_pod(p, before, after);
}

void rf_feed_binding(struct rf_placer *p, const struct rf_json *pod, struct rf_str node)
{
	free(rf_map_set(&p->bound, rf_kube_uid(pod), rf_str_dup(node)));
	rf_feed_pod(p, pod, pod);
}

static char HERE[] = "";

/* --- claims ----------------------------------------------------------------------------------- */

#define DROPPED_MAX 4096 /* remembered at a time; a watch tells of each within moments, or never */

void rf_feed_claim(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_sched_claim v = { 0 };

	if (after == NULL) {
		(void)rf_map_del(&p->dropped, rf_kube_uid(before));
		rf_core_del_claim(p->core, rf_kube_namespace(before), rf_kube_name(before), p->now_ms);
		rf_unclaimed_claim_gone(p, before);
		return;
	}
	rf_sched_read_claim(&a, after, &v);
	v.deleting |= rf_map_get(&p->dropped, rf_kube_uid(after)) != NULL;
	rf_core_put_claim(p->core, &v);
}

/* The watch may yet tell of the time when it was allocated, or, made anew, of nothing at all: so it is
 * remembered here, and the server is asked whether it is gone. */
void rf_feed_claim_dropped(struct rf_placer *p, const struct rf_json *claim)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str path = rf_kube_path(&a, &RF_RESOURCECLAIMS, rf_kube_namespace(claim), rf_kube_name(claim), NULL);
	struct rf_json *is = NULL;
	int rc = 0;

	if (p->dropped.n >= DROPPED_MAX)
		rf_map_clear(&p->dropped);
	(void)rf_map_set(&p->dropped, rf_kube_uid(claim), HERE);
	rf_feed_claim(p, NULL, claim);
	rc = p->hands.get(p->hands.ctx, &a, path, &is, NULL);
	if (rc == -RF_NOT_FOUND || (rc == 0 && !rf_str_eq(rf_kube_uid(is), rf_kube_uid(claim))))
		rf_core_del_claim(p->core, rf_kube_namespace(claim), rf_kube_name(claim), p->now_ms);
}

/* --- cards ------------------------------------------------------------------------------------ */

struct pool { /* the slices of one node, by name */
	struct rf_map names;
};

static struct pool *pool_of(struct rf_placer *p, struct rf_str node)
{
	struct pool *pool = rf_map_get(&p->pools, node);

	if (pool == NULL) {
		pool = rf_new(struct pool);
		(void)rf_map_set(&p->pools, node, pool);
	}
	return pool;
}

/* A node's cards may be spread over several slices: they are told once all of them are here. */
static void feed_pool(struct rf_placer *p, struct rf_str node)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct pool *pool = pool_of(p, node);
	const struct rf_json **slices = rf_arena_array(&a, const struct rf_json *, pool->names.n + 1);
	struct rf_sched_device *devices = NULL;
	size_t n = 0, n_devices = 0;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&pool->names, s)) != NULL;) {
		slices[n] = p->cluster.get(p->cluster.ctx, &RF_RESOURCESLICES, RF_STR_EMPTY, rf_map_key(s));
		n += slices[n] != NULL;
	}
	if (n == 0)
		rf_core_put_devices(p->core, node, NULL, 0);
	else if (rf_sched_read_pool(&a, slices, n, &devices, &n_devices))
		rf_core_put_devices(p->core, node, devices, n_devices);
	if (pool->names.n == 0) {
		rf_map_done(&pool->names);
		free(rf_map_del(&p->pools, node));
	}
}

void rf_feed_slice(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	struct rf_str was = before != NULL ? rf_sched_slice_node(before) : RF_STR_EMPTY,
		      is = after != NULL ? rf_sched_slice_node(after) : RF_STR_EMPTY;

	if (was.n > 0)
		(void)rf_map_del(&pool_of(p, was)->names, rf_kube_name(before));
	if (is.n > 0)
		(void)rf_map_set(&pool_of(p, is)->names, rf_kube_name(after), HERE);
	if (was.n > 0 && !rf_str_eq(was, is))
		feed_pool(p, was);
	if (is.n > 0)
		feed_pool(p, is);
}

/* --- queues, gangs, budgets ------------------------------------------------------------------- */

static void put_queue(struct rf_placer *p, const struct rf_json *o)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_sched_queue q = { 0 };
	struct rf_err err = RF_ERR_INIT;

	p->moved = true;
	if (rf_sched_read_queue(&a, o, &q, &err) == 0 && rf_core_put_queue(p->core, &q, p->now_ms, &err) == 0) {
		free(rf_map_del(&p->bad_queues, rf_kube_name(o)));
		return;
	}
	free(rf_map_set(&p->bad_queues, rf_kube_name(o), rf_str_dup(rf_str(err.msg))));
}

/* A queue that was missing may be what others waited for: what they say is looked at again. */
static void retry_bad(struct rf_placer *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str *names = rf_arena_array(&a, struct rf_str, p->bad_queues.n + 1);
	size_t n = 0;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->bad_queues, s)) != NULL;)
		names[n++] = rf_arena_str(&a, rf_map_key(s));
	for (size_t i = 0; i < n; i++) {
		const struct rf_json *o = p->cluster.get(p->cluster.ctx, &RF_QUEUES, RF_STR_EMPTY, names[i]);

		if (o != NULL)
			put_queue(p, o);
	}
}

void rf_feed_queue(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	/* Its status is our own writing. */
	if (before != NULL && after != NULL &&
	    rf_json_at(before, "spec") != NULL && rf_json_at(after, "spec") != NULL &&
	    rf_json_equal(rf_json_at(before, "spec"), rf_json_at(after, "spec")))
		return;
	if (after == NULL) {
		rf_core_del_queue(p->core, rf_kube_name(before), p->now_ms);
		free(rf_map_del(&p->bad_queues, rf_kube_name(before)));
		p->moved = true;
	} else {
		put_queue(p, after);
	}
	retry_bad(p);
}

void rf_feed_group(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_sched_group g = { 0 };
	struct rf_err err = RF_ERR_INIT;

	if (after == NULL) {
		rf_core_del_group(p->core, rf_kube_namespace(before), rf_kube_name(before));
		rf_books_group_gone(p, rf_kube_namespace(before), rf_kube_name(before));
		return;
	}
	if (rf_sched_read_group(&a, after, &g, &err) < 0) {
		rf_warn("%s; what it said before holds", err.msg);
		return;
	}
	rf_core_put_group(p->core, &g);
	rf_books_group_due(p, g.ns, g.name);
}

void rf_feed_budget(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_sched_budget b = { 0 };

	if (after == NULL) {
		rf_core_del_budget(p->core, rf_kube_namespace(before), rf_kube_name(before));
		return;
	}
	rf_sched_read_budget(&a, after, &b);
	rf_core_put_budget(p->core, &b);
}

/* --- the placer ------------------------------------------------------------------------------- */

void rf_placer_init(struct rf_placer *p, struct rf_core *core)
{
	*p = (struct rf_placer){ .core = core };
}

void rf_limbo_done(struct rf_limbo *l)
{
	free(l->uid);
	free(l->ns);
	free(l->name);
	free(l->claim);
	free(l->open);
	free(l->why);
}

static void free_values(struct rf_map *m)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(m, s)) != NULL;)
		free(s->value);
	rf_map_done(m);
}

void rf_placer_done(struct rf_placer *p)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->pools, s)) != NULL;)
		rf_map_done(&((struct pool *)s->value)->names);
	free_values(&p->pools);
	free_values(&p->bound);
	free_values(&p->told);
	free_values(&p->bad_queues);
	rf_map_done(&p->dropped);
	for (size_t i = p->tell_head; i < p->tell.n; i++)
		free(p->tell.at[i]);
	rf_vec_done(&p->tell);
	for (size_t i = 0; i < p->limbo.n; i++)
		rf_limbo_done(&p->limbo.at[i]);
	rf_vec_done(&p->limbo);
	for (size_t i = p->unclaimed_head; i < p->unclaimed.n; i++) {
		free(p->unclaimed.at[i].ns);
		free(p->unclaimed.at[i].name);
	}
	rf_vec_done(&p->unclaimed);
	rf_books_done(p);
}
