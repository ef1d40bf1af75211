/* A tenant's quota, counted by what its claims hold. Admission counts pods, and on Kubernetes two
 * requests may pass it at the same time; claims are made here, one after the other. */
#include "sched/private.h"

struct limit {
	int64_t ask, held, most;
	bool bytes;
	const char *what, *field;
};

static struct rf_gpu_ask ask_of(const struct rf_sched_pod *pod)
{
	struct rf_gpu_ask sum = { 0 };

	for (size_t i = 0; i < pod->n_containers; i++) {
		const struct rf_gpu_ask *one = &pod->containers[i].ask;

		if (__builtin_add_overflow(sum.cards, one->cards, &sum.cards))
			sum.cards = INT64_MAX;
		if (__builtin_add_overflow(sum.share_bytes, one->share_bytes, &sum.share_bytes))
			sum.share_bytes = INT64_MAX;
	}
	return sum;
}

static struct rf_str amount(struct rf_arena *a, const struct limit *l, int64_t n)
{
	return l->bytes ? rf_quantity_bytes(a, n) : rf_arena_printf(a, "%lld", (long long)n);
}

static struct rf_str words(struct rf_arena *a, const struct limit *l, struct rf_str tenant)
{
	return rf_arena_printf(
		a,
		"tenant %.*s holds %.*s of %.*s %s in its quota, and this pod asks for %.*s more; "
		"%sask for less, or have the administrator raise %s of Tenant %.*s",
		RF_STR(tenant), RF_STR(amount(a, l, l->held)), RF_STR(amount(a, l, l->most)),
		l->what, RF_STR(amount(a, l, l->ask)),
		l->ask <= l->most ? "wait until a pod of the tenant has ended, " : "", l->field,
		RF_STR(tenant));
}

struct rf_str rf_quota_reason(struct rf_arena *a, const struct rf_view *v,
			      const struct rf_sched_pod *pod, const struct rf_party *party)
{
	const struct rf_rec_tenant *t = rf_map_get(&v->s->tenants, party->tenant);
	const struct rf_usage *held = rf_map_get(&v->held, party->tenant);
	struct rf_gpu_ask ask = ask_of(pod);
	const struct limit limits[] = {
		{ ask.cards, held != NULL ? held->cards : 0, t != NULL ? t->v.quota_gpus : 0, false,
		  "whole cards", "spec.quota.gpus" },
		{ ask.share_bytes, held != NULL ? held->bytes : 0,
		  t != NULL ? t->v.quota_gpu_memory : 0, true, "memory of shares",
		  "spec.quota.gpuMemory" },
	};

	for (size_t i = 0; i < RF_COUNT(limits); i++) {
		const struct limit *l = &limits[i];

		if (l->ask > 0 && l->ask > l->most - l->held)
			return words(a, l, party->tenant);
	}
	return RF_STR_EMPTY;
}
