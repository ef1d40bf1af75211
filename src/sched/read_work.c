/* What stands beside pods: gangs, queues, budgets. */
#include "sched/read_private.h"

#define MEMBERS_MAX 100000
#define WEIGHT_MAX 1000000

static int bad(struct rf_err *err, const struct rf_json *o, const char *kind, const char *what)
{
	return rf_fail(err, RF_INVALID, "%s %.*s: %s", kind, RF_STR(rf_json_str_at(o, "metadata", "name")), what);
}

static bool is_given(const struct rf_json *v)
{
	return v != NULL && v->type != RF_JSON_NULL;
}

static bool read_count(const struct rf_json *v, int64_t otherwise, int64_t least, int64_t most, int64_t *ret)
{
	*ret = otherwise;
	return !is_given(v) || (rf_json_is_int(v, ret) && *ret >= least && *ret <= most);
}

/* A name that may be left out. */
static bool read_name(const struct rf_json *v, struct rf_str *ret)
{
	*ret = rf_json_str(v);
	return !is_given(v) || (v->type == RF_JSON_STRING && (ret->n == 0 || rf_str_is_dns_label(*ret)));
}

int rf_sched_read_group(struct rf_arena *a, const struct rf_json *group, struct rf_sched_group *ret, struct rf_err *err)
{
	const struct rf_json *spec = rf_json_at(group, "spec"), *key = rf_json_at(spec, "topologyKey"),
			     *preemptible = rf_json_at(spec, "preemptible");
	struct rf_sched_group g = { .ns = rf_json_str_at(group, "metadata", "namespace"),
				    .name = rf_json_str_at(group, "metadata", "name"),
				    .rv = rd_rv(group),
				    .created_ms = rd_time(rf_json_str_at(group, "metadata", "creationTimestamp")),
				    .topology = rf_json_str(key),
				    .pinned = is_given(preemptible) && !rf_json_is_true(preemptible),
				    .started = rf_json_is_true(rf_json_at(group, "status", "started")),
				    .ending_ms = rd_time(rf_json_str_at(group, "status", "ending")) };

	(void)a;
	if (!read_count(rf_json_at(spec, "minMember"), 1, 1, MEMBERS_MAX, &g.min))
		return bad(err, group, "PodGroup", "spec.minMember must be a whole number from 1 to 100000");
	if (!read_name(rf_json_at(spec, "queue"), &g.queue))
		return bad(err, group, "PodGroup", "spec.queue must be the name of a queue");
	if (is_given(key) && (key->type != RF_JSON_STRING || (g.topology.n > 0 && !rf_str_is_label_key(g.topology))))
		return bad(err, group, "PodGroup", "spec.topologyKey must be the key of a label of nodes");
	if (is_given(preemptible) && preemptible->type != RF_JSON_BOOL)
		return bad(err, group, "PodGroup", "spec.preemptible must be true or false");
	if (!read_count(rf_json_at(spec, "minRunSeconds"), 0, 0, RF_MIN_RUN_SECONDS_MAX, &g.min_run_ms))
		return bad(err, group, "PodGroup",
			   "spec.minRunSeconds must be a whole number from 0 to 3600");
	g.min_run_ms *= 1000;
	*ret = g;
	return 0;
}

int rf_sched_read_gpu_pool(const struct rf_json *pool, struct rf_sched_pool *ret, struct rf_err *err)
{
	static const char *const names[] = { [RF_SCHED_FRAGMENTATION] = "fragmentation",
					     [RF_SCHED_PACK] = "pack",
					     [RF_SCHED_SPREAD] = "spread" };
	const struct rf_json *spec = rf_json_at(pool, "spec"), *placement = rf_json_at(spec, "placement");
	struct rf_str word = rf_json_str(placement);
	size_t i = 0;

	if (is_given(spec) && !rf_json_is(spec, RF_JSON_OBJECT))
		return bad(err, pool, "GPUPool", "spec must be an object");
	while (i < RF_COUNT(names) && !rf_str_is(word, names[i]))
		i++;
	if (is_given(placement) && i == RF_COUNT(names))
		return bad(err, pool, "GPUPool", "spec.placement must be fragmentation, pack or spread");
	*ret = (struct rf_sched_pool){ .name = rf_json_str_at(pool, "metadata", "name"),
				       .placement = is_given(placement) ? (enum rf_sched_placement)i :
									  RF_SCHED_FRAGMENTATION };
	return 0;
}

int rf_sched_read_queue(struct rf_arena *a, const struct rf_json *queue, struct rf_sched_queue *ret, struct rf_err *err)
{
	const struct rf_json *spec = rf_json_at(queue, "spec"), *list = rf_json_at(spec, "resources");
	struct rf_sched_queue q = { .name = rf_json_str_at(queue, "metadata", "name") };
	struct rf_queue_amount *amounts = NULL;
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	if (!read_name(rf_json_at(spec, "parent"), &q.parent) || !read_name(rf_json_at(spec, "tenant"), &q.tenant))
		return bad(err, queue, "Queue", "spec.parent and spec.tenant must be names");
	if (!read_count(rf_json_at(spec, "weight"), 1, 1, WEIGHT_MAX, &q.weight))
		return bad(err, queue, "Queue", "spec.weight must be a whole number from 1 to 1000000");
	if (rf_queue_amounts_read(a, is_given(list) ? list : NULL, "spec.resources", &amounts, &q.n_quotas, err) < 0)
		return rf_wrap(err, "Queue %.*s", RF_STR(q.name));
	q.quotas = rf_arena_array(a, struct rf_sched_quota, RF_MAX(q.n_quotas, 1));
	for (size_t i = 0; i < q.n_quotas; i++)
		q.quotas[i] = (struct rf_sched_quota){ amounts[i].name, amounts[i].guaranteed, amounts[i].limit,
						       amounts[i].lending, amounts[i].borrowing };
	*ret = q;
	return 0;
}

/* One that cannot be understood lets nobody of its namespace go. */
void rf_sched_read_budget(struct rf_arena *a, const struct rf_json *budget, struct rf_sched_budget *ret)
{
	int64_t allowed = rf_json_int(rf_json_at(budget, "status", "disruptionsAllowed"), 0);

	*ret = (struct rf_sched_budget){ .ns = rf_json_str_at(budget, "metadata", "namespace"),
					 .name = rf_json_str_at(budget, "metadata", "name"),
					 .allowed = RF_MAX(allowed, 0) };
	if (rd_selector(a, rf_json_at(budget, "spec", "selector"), &ret->labels, &ret->any, NULL) < 0) {
		ret->labels = (struct rf_sched_term){ 0 };
		ret->any = true;
		ret->allowed = 0;
	}
}
