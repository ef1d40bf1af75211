#include "apiserver/budget.h"

#include "apiserver/write.h"
#include "kube/kube.h"
#include "tenant/tenant.h"

/* Namespaces looked at per tick: each may mean reading all its pods. */
#define PER_TICK 8

static char NOTED[] = "";

/* --- what a budget says --------------------------------------------------------------------- */

/* "25%" of n, rounded up, or a number. -1: neither. */
static int64_t amount_of(const struct rf_json *v, int64_t n)
{
	struct rf_str text = rf_json_str(v);
	int64_t i = 0;

	if (rf_json_is_int(v, &i))
		return i >= 0 ? i : -1;
	if (text.n < 2 || text.n > 4 || text.p[text.n - 1] != '%' ||
	    rf_str_int((struct rf_str){ text.p, text.n - 1 }, &i, NULL) < 0 || i < 0 || i > 100)
		return -1;
	return (n * i + 99) / 100;
}

int rf_budget_validate(struct rf_arena *a, const struct rf_json *o, struct rf_err *err)
{
	const struct rf_json *least = rf_json_at(o, "spec", "minAvailable"),
			     *most = rf_json_at(o, "spec", "maxUnavailable");
	struct rf_str policy = rf_json_str_at(o, "spec", "unhealthyPodEvictionPolicy");
	struct rf_selector *s = NULL;

	if (least != NULL && most != NULL)
		return rf_fail(err, RF_INVALID,
			       "spec: Invalid value: minAvailable and maxUnavailable cannot be both set");
	if (least != NULL && amount_of(least, 0) < 0)
		return rf_fail(err, RF_INVALID,
			       "spec.minAvailable: Invalid value: must be a number from 0 or a percentage "
			       "from 0%% to 100%%");
	if (most != NULL && amount_of(most, 0) < 0)
		return rf_fail(err, RF_INVALID,
			       "spec.maxUnavailable: Invalid value: must be a number from 0 or a percentage "
			       "from 0%% to 100%%");
	if (policy.n > 0 && !rf_word_in("IfHealthyBudget AlwaysAllow", policy))
		return rf_fail(err, RF_INVALID,
			       "spec.unhealthyPodEvictionPolicy: Unsupported value: \"%.*s\": supported "
			       "values: \"IfHealthyBudget\", \"AlwaysAllow\"",
			       RF_STR(policy));
	if (rf_label_selector_from(a, rf_json_at(o, "spec", "selector"), &s, err) < 0)
		return rf_fail(err, RF_INVALID, "spec.selector: Invalid value: not a label selector");
	return 0;
}

/* --- counting --------------------------------------------------------------------------------- */

struct count {
	struct rf_selector *selector; /* NULL: no pods */
	int64_t expected, healthy;
};

static bool is_ready(const struct rf_json *pod)
{
	const struct rf_json *list = rf_json_at(pod, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *c = rf_json_item(list, i);

		if (rf_str_is(rf_json_str_at(c, "type"), "Ready"))
			return rf_str_is(rf_json_str_at(c, "status"), "True");
	}
	return false;
}

static bool matches(const struct count *c, const struct rf_json *pod)
{
	return c->selector != NULL &&
	       rf_label_selector_match(c->selector, rf_json_at(pod, "metadata", "labels"));
}

static int count_pod(void *ctx, const struct rf_row *row)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct count *c = ctx;
	struct rf_json *pod = NULL;

	if (rf_json_parse(&a, row->json, &pod, NULL) < 0 || !rf_pod_counts(pod) || !matches(c, pod))
		return 0;
	c->expected++;
	c->healthy += is_ready(pod) && rf_json_at(pod, "metadata", "deletionTimestamp") == NULL;
	return 0;
}

static int64_t desired_of(const struct rf_json *budget, const struct count *c)
{
	const struct rf_json *most = rf_json_at(budget, "spec", "maxUnavailable"),
			     *least = rf_json_at(budget, "spec", "minAvailable");

	if (most != NULL)
		return RF_MAX(c->expected - amount_of(most, c->expected), 0);
	return least != NULL ? amount_of(least, c->expected) : 0;
}

/* The selector's arena is the caller's. An empty selector means every pod, none means none. */
static int select_pods(struct rf_arena *a, const struct rf_json *budget, struct count *c,
		       struct rf_err *err)
{
	const struct rf_json *s = rf_json_at(budget, "spec", "selector");

	return s == NULL ? 0 : rf_label_selector_from(a, s, &c->selector, err);
}

static int count(struct rf_api *api, const struct rf_json *budget, struct count *c, struct rf_err *err)
{
	struct rf_list l = { .kind = rf_kind_get("pods"),
			     .ns = rf_json_str_at(budget, "metadata", "namespace"),
			     .each = count_pod,
			     .ctx = c };

	return rf_store_list(api->store, &l, err);
}

/* --- the budgets of a namespace --------------------------------------------------------------- */

struct list {
	struct rf_arena *a;
	struct rf_json *all;
	struct rf_err *err;
};

static int collect(void *ctx, const struct rf_row *row)
{
	struct list *l = ctx;
	struct rf_json *o = NULL;

	if (rf_json_parse(l->a, row->json, &o, l->err) < 0)
		return -l->err->code;
	rf_json_push(l->a, l->all, o);
	return 0;
}

static int read_budgets(struct rf_api *api, struct rf_arena *a, struct rf_str ns, struct rf_json **ret,
			struct rf_err *err)
{
	struct list to = { a, rf_json_array(a), err };
	struct rf_list l = { .kind = rf_kind_get("poddisruptionbudgets"), .ns = ns, .each = collect, .ctx = &to };

	if (rf_store_list(api->store, &l, err) < 0)
		return -err->code;
	*ret = to.all;
	return 0;
}

/* --- evictions ---------------------------------------------------------------------------------- */

static int check_one(struct rf_api *api, struct rf_arena *a, const struct rf_json *budget,
		     const struct rf_json *pod, struct rf_err *err)
{
	bool always = rf_str_is(rf_json_str_at(budget, "spec", "unhealthyPodEvictionPolicy"), "AlwaysAllow");
	struct count c = { 0 };
	int64_t desired = 0;

	if (select_pods(a, budget, &c, err) < 0)
		return -err->code;
	if (!matches(&c, pod) || (always && !is_ready(pod)))
		return 0;
	if (count(api, budget, &c, err) < 0)
		return -err->code;
	desired = desired_of(budget, &c);
	/* One that is not ready does not lower the number of those that are. */
	if (c.healthy - (is_ready(pod) ? 1 : 0) >= desired)
		return 0;
	return rf_fail(err, RF_EXHAUSTED,
		       "Cannot evict pod as it would violate the pod's disruption budget. The disruption "
		       "budget %.*s needs %lld healthy pods and has %lld currently",
		       RF_STR(rf_json_str_at(budget, "metadata", "name")), (long long)desired,
		       (long long)c.healthy);
}

int rf_budget_check(struct rf_api *api, struct rf_arena *a, const struct rf_json *pod,
		    struct rf_err *err)
{
	struct rf_json *budgets = NULL;

	/* What does not run, or goes already, disrupts nobody. */
	if (!rf_pod_counts(pod) || rf_json_at(pod, "metadata", "deletionTimestamp") != NULL ||
	    rf_str_is(rf_json_str_at(pod, "status", "phase"), "Pending"))
		return 0;
	if (read_budgets(api, a, rf_json_str_at(pod, "metadata", "namespace"), &budgets, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(budgets); i++) {
		if (check_one(api, a, rf_json_item(budgets, i), pod, err) < 0)
			return -err->code;
	}
	return 0;
}

/* --- status ------------------------------------------------------------------------------------- */

static int refresh_one(struct rf_api *api, struct rf_arena *a, const struct rf_json *budget,
		       struct rf_err *err)
{
	struct rf_json *after = NULL, *status = NULL;
	struct count c = { 0 };
	int64_t desired = 0;

	if (select_pods(a, budget, &c, err) < 0 || count(api, budget, &c, err) < 0)
		return -err->code;
	desired = desired_of(budget, &c);
	status = rf_json_make(a,
			      "{'observedGeneration':%D,'disruptionsAllowed':%D,'currentHealthy':%D,"
			      "'desiredHealthy':%D,'expectedPods':%D}",
			      rf_json_int(rf_json_at(budget, "metadata", "generation"), 0),
			      c.expected > 0 ? RF_MAX(c.healthy - desired, 0) : 0, c.healthy, desired,
			      c.expected);
	if (rf_json_equal(status, rf_json_at(budget, "status")))
		return 0;
	after = rf_json_clone(a, budget);
	rf_json_set(a, after, RF_LIT("status"), status);
	return rf_write_put(api, a, rf_kind_get("poddisruptionbudgets"), budget, after, err);
}

static int refresh(struct rf_api *api, struct rf_arena *a, struct rf_str ns, struct rf_err *err)
{
	struct rf_json *budgets = NULL;

	if (read_budgets(api, a, ns, &budgets, err) < 0)
		return -err->code;
	if (rf_json_len(budgets) == 0)
		return 0;
	if (rf_write_begin(api, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(budgets); i++) {
		if (refresh_one(api, a, rf_json_item(budgets, i), err) < 0) {
			rf_write_rollback(api);
			return -err->code;
		}
	}
	return rf_write_commit(api, false, err);
}

void rf_budget_note(struct rf_api *api, const struct rf_kind *k, struct rf_str ns)
{
	if (rf_kind_is(k, "pods") || rf_kind_is(k, "poddisruptionbudgets"))
		rf_map_set(&api->budget_noted, ns, NOTED);
}

void rf_budget_tick(struct rf_api *api)
{
	for (int i = 0; i < PER_TICK; i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_map_slot *s = rf_map_next(&api->budget_noted, NULL);
		struct rf_err err = RF_ERR_INIT;
		struct rf_str ns;

		if (s == NULL)
			return;
		ns = rf_arena_str(&a, rf_map_key(s));
		rf_map_del(&api->budget_noted, ns);
		if (refresh(api, &a, ns, &err) < 0) {
			rf_warn("budgets of %.*s: %s", RF_STR(ns), err.msg);
			rf_map_set(&api->budget_noted, ns, NOTED);
			return;
		}
		/* Its own writes are no news. */
		rf_map_del(&api->budget_noted, ns);
	}
}
