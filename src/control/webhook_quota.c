/* ResourceQuotas on the limits of cards. Kubernetes takes `limits.nvidia.com/gpu: "4"` as it is written
 * in many a guide, and then never counts it: of extended resources it only knows requests. Here it
 * means what it says. */
#include "control/private.h"

/* The part behind "limits." if it names cards or shares; else empty. */
static struct rf_str card_resource(struct rf_str key)
{
	static const char *const own[] = { RF_RES_GPU, RF_RES_GPU_MEMORY, RF_RES_GPU_COMPUTE };
	struct rf_str name = rf_str_skip(key, 7);

	if (!rf_str_starts(key, RF_LIT("limits.")))
		return RF_STR_EMPTY;
	for (size_t i = 0; i < RF_COUNT(own); i++)
		if (rf_str_is(name, own[i]))
			return name;
	for (size_t i = 0; rf_gpu_name(i) != NULL; i++)
		if (rf_str_is(name, rf_gpu_name(i)))
			return name;
	return RF_STR_EMPTY;
}

static int64_t limits_of(const struct rf_json *pod, struct rf_str resource)
{
	const struct rf_json *list = rf_json_at(pod, "spec", "containers");
	int64_t sum = 0;

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *limit = rf_json_get(
			rf_json_at(rf_json_item(list, i), "resources", "limits"), resource);
		int64_t n = 0;

		if (limit != NULL && rf_quantity_value(rf_json_is(limit, RF_JSON_NUMBER) ?
							       limit->text :
							       rf_json_str(limit),
						       &n, NULL) == 0)
			sum = RF_MIN(sum + RF_MIN(n, RF_TENANT_USE_MAX), RF_TENANT_USE_MAX);
	}
	return sum;
}

/* Pods that were let in a moment ago and are not shown yet are not told apart by resource: all their
 * cards, or all their bytes, count. */
static int64_t recent_of(const struct rf_reviewer *r, struct rf_str ns, struct rf_str name,
			 bool bytes)
{
	const struct rf_cluster *c = &r->cluster;
	int64_t sum = 0;

	for (size_t i = 0; i < r->recents.n; i++) {
		const struct rf_recent *one = &r->recents.at[i];

		if (one->until_ms > r->now_ms && rf_str_is(ns, one->ns) &&
		    !rf_str_is(name, one->name) &&
		    c->get(c->ctx, &RF_PODS, ns, rf_str(one->name)) == NULL)
			sum += bytes ? one->use.share_bytes : one->use.cards;
	}
	return sum;
}

static int64_t used_of(const struct rf_reviewer *r, struct rf_str ns, struct rf_str name,
		       struct rf_str resource)
{
	const struct rf_cluster *c = &r->cluster;
	const struct rf_json *pod = NULL;
	const void *at = NULL;
	int64_t sum = recent_of(r, ns, name, rf_str_is(resource, RF_RES_GPU_MEMORY));

	while ((pod = c->next(c->ctx, &RF_PODS, &at)) != NULL)
		if (rf_str_eq(rf_kube_namespace(pod), ns) && rf_pod_counts(pod))
			sum = RF_MIN(sum + limits_of(pod, resource), RF_TENANT_USE_MAX);
	return sum;
}

static struct rf_str text_of(struct rf_arena *a, struct rf_str resource, int64_t n)
{
	return rf_str_is(resource, RF_RES_GPU_MEMORY) ? rf_quantity_bytes(a, n) :
							rf_arena_printf(a, "%lld", (long long)n);
}

static int check(const struct rf_reviewer *r, struct rf_arena *a, const struct rf_json *pod,
		 const struct rf_json *quota, struct rf_err *err)
{
	const struct rf_json *hard = rf_json_at(quota, "spec", "hard");
	struct rf_excess e = RF_EXCESS_INIT;
	int rc;

	for (size_t i = 0; rf_json_is(hard, RF_JSON_OBJECT) && i < hard->n; i++) {
		struct rf_str key = hard->members[i].key, resource = card_resource(key);
		int64_t most = 0, asked, used;

		if (resource.n == 0 ||
		    rf_quantity_value(rf_json_str(hard->members[i].value), &most, NULL) < 0)
			continue;
		asked = limits_of(pod, resource);
		used = used_of(r, rf_kube_namespace(quota), rf_kube_name(pod), resource);
		if (asked > 0 && used + asked > most)
			rf_excess_add(&e, key, text_of(a, resource, asked), text_of(a, resource, used),
				      text_of(a, resource, most));
	}
	rc = rf_excess_refuse(&e, "", rf_kube_name(quota), err);
	rf_excess_done(&e);
	return rc;
}

int rf_webhook_quota(const struct rf_reviewer *r, struct rf_arena *a, const struct rf_json *pod,
		     struct rf_str ns, struct rf_err *err)
{
	const struct rf_cluster *c = &r->cluster;
	const struct rf_json *quota = NULL;
	const void *at = NULL;

	while ((quota = c->next(c->ctx, &RF_RESOURCEQUOTAS, &at)) != NULL) {
		/* Scopes pick pods by what Kubernetes knows of them; those quotas are its own. */
		if (!rf_str_eq(rf_kube_namespace(quota), ns) ||
		    rf_json_at(quota, "spec", "scopes") != NULL ||
		    rf_json_at(quota, "spec", "scopeSelector") != NULL)
			continue;
		if (check(r, a, pod, quota, err) < 0)
			return -err->code;
	}
	return 0;
}
