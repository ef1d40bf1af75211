/* The core as a whole: made and freed, names and numbers. */

#include "sched/core_private.h"

static const struct rf_queue_resource fixed[CO_FIXED] = {
	[CO_CARDS] = { .name = "cards" },
	[CO_BYTES] = { .name = "share-bytes", .cut = true },
	[CO_MILLI] = { .name = "share-milli", .free_by_default = true, .cut = true },
	[CO_CPU] = { .name = "cpu", .free_by_default = true },
	[CO_MEMORY] = { .name = "memory", .free_by_default = true },
	[CO_PODS] = { .name = "pods", .free_by_default = true },
};

void rf_core_config_default(struct rf_core_config *c)
{
	*c = (struct rf_core_config){
		.policy = RF_FLEET_FRAG,
		.reclaim = RF_RECLAIM_GUARANTEE,
		.half_life_ms = INT64_C(3650) * 24 * 3600 * 1000, /* docs/benchmarks/sched.md says why */
		.entry_ms = 24 * 3600 * 1000,
		.reserve_after_ms = 10 * 60 * 1000,
		.reserve_cards = 8,
		.reserve_most = RF_QUEUE_RESERVATIONS_MAX,
		.tell_ms = 3000,
		.gang_window_ms = 10 * 1000,
		.victims_most = 4096,
	};
}

static void put_own_queue(struct rf_core *c, struct rf_str name)
{
	struct rf_queue_spec s = { .name = name, .weight = 1 };
	struct rf_err err;

	rf_assert(rf_queues_put(c->queues, &s, 0, &err) == 0);
}

struct rf_core *rf_core_new(const struct rf_core_config *config)
{
	struct rf_core *c = rf_new(struct rf_core);
	struct rf_queues_config q = {
		.resources = fixed,
		.n_resources = CO_FIXED,
		.half_life_ms = config->half_life_ms,
		.entry_ms = config->entry_ms,
		.reserve_after_ms = config->reserve_after_ms,
		.reserve_amount = config->reserve_cards,
		.reserve_most = RF_MIN(config->reserve_most, RF_QUEUE_RESERVATIONS_MAX),
	};
	struct rf_err err;

	c->config = *config;
	rf_assert(rf_queues_new(&q, &c->queues, &err) == 0);
	c->fleet = rf_fleet_new();
	c->wishes = rf_wishes_new(c->fleet);
	for (size_t i = 0; i < CO_FIXED; i++)
		rf_vec_push(&c->resources, rf_strdup(fixed[i].name));
	put_own_queue(c, CO_CLUSTER);
	put_own_queue(c, CO_LIMBO);
	c->model_stamp = c->commits = c->node_facts = 1;
	c->wake_ms = c->plan_wake = c->ahead_wake = INT64_MAX;
	c->capacity_stale = true;
	c->scratch = (struct rf_buf)RF_BUF_INIT;
	return c;
}

#define FREE_ALL(map, type, free_one)                                                              \
	do {                                                                                       \
		for (struct rf_map_slot *s_ = NULL; (s_ = rf_map_next(map, s_)) != NULL;)          \
			free_one((type *)s_->value);                                               \
		rf_map_done(map);                                                                  \
	} while (0)

static void free_node(struct co_node *n)
{
	for (size_t i = 0; i < n->n_slots; i++)
		free(n->slots[i].name);
	free(n->slots);
	free(n->rack);
	free(n->pool);
	free(n->name);
	free(n);
}

static void free_tenant(struct co_tenant *t)
{
	free(t->name);
	free(t);
}

static void free_space(struct co_ns *s)
{
	free(s->name);
	free(s);
}

static void free_queue(struct co_queue *q)
{
	rf_arena_done(&q->a);
	rf_vec_done(&q->ranks);
	free(q->name);
	free(q);
}

static void free_budget(struct co_budget *b)
{
	rf_arena_done(&b->a);
	free(b);
}

static void free_tables(struct rf_core *c)
{
	for (size_t i = 0; i < c->n_models; i++)
		free(c->models[i].name);
	for (size_t i = 0; i < c->profiles.n; i++)
		free(c->profiles.at[i].name);
	for (size_t i = 0; i < c->resources.n; i++)
		free(c->resources.at[i]);
	rf_vec_done(&c->profiles);
	rf_vec_done(&c->resources);
	rf_vec_done(&c->dirty);
	rf_vec_done(&c->dirty_claims);
	rf_vec_done(&c->dirty_groups);
	rf_vec_done(&c->limbo);
	rf_vec_done(&c->by_handle);
	rf_vec_done(&c->todo);
	rf_vec_done(&c->paused);
	rf_vec_done(&c->broken);
	rf_vec_done(&c->plans);
	rf_vec_done(&c->members);
	rf_vec_done(&c->flight);
	rf_vec_done(&c->going);
	rf_vec_done(&c->leavers);
	rf_vec_done(&c->left);
	rf_vec_done(&c->go_anyway);
	rf_vec_done(&c->flights);
	rf_buf_done(&c->scratch);
}

void rf_core_free(struct rf_core *c)
{
	if (c == NULL)
		return;
	co_ahead_free(c);
	while (c->plans.n > 0)
		co_plan_drop(c, c->plans.at[c->plans.n - 1]);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&c->pods, s)) != NULL;) {
		struct co_pod *p = s->value;

		if (p->work != NULL)
			co_work_free(c, p->work);
		co_waits(c, p, 0);
	}
	rf_vec_clear(&c->todo);
	rf_vec_clear(&c->paused);
	rf_vec_clear(&c->flight);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&c->pods, s)) != NULL;)
		co_pod_free(c, s->value);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&c->claims, s)) != NULL;) {
		struct co_claim *k = s->value;

		if (k->work != NULL)
			co_work_free(c, k->work);
		co_claim_free(c, k);
	}
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&c->groups, s)) != NULL;)
		co_group_free(c, s->value);
	rf_map_done(&c->pods);
	rf_map_done(&c->claims);
	rf_map_done(&c->groups);
	FREE_ALL(&c->nodes, struct co_node, free_node);
	FREE_ALL(&c->tenants, struct co_tenant, free_tenant);
	FREE_ALL(&c->spaces, struct co_ns, free_space);
	FREE_ALL(&c->queue_map, struct co_queue, free_queue);
	FREE_ALL(&c->budgets, struct co_budget, free_budget);
	rf_map_done(&c->budget_of);
	rf_map_done(&c->trusts);
	rf_map_done(&c->pools);
	rf_map_done(&c->forms);
	rf_map_done(&c->shapes);
	rf_map_done(&c->labels);
	rf_wishes_free(c->wishes);
	rf_queues_free(c->queues);
	rf_fleet_free(c->fleet);
	free_tables(c);
	free(c);
}

/* --- names ------------------------------------------------------------------------------------ */

/* Namespaces of the cluster itself. Their pods run everywhere, or there would be no cluster. */
bool co_is_system(struct rf_str ns)
{
	return rf_str_is(ns, "ringfence-system") || rf_str_starts(ns, RF_LIT("kube-"));
}

struct co_tenant *co_tenant(struct rf_core *c, struct rf_str name)
{
	struct co_tenant *t = rf_map_get(&c->tenants, name);

	if (t != NULL)
		return t;
	t = rf_new(struct co_tenant);
	t->name = rf_str_dup(name);
	t->id = ++c->n_tenants;
	t->level = RF_ISOLATION_NODE; /* nobody can say what it accepts: it accepts nothing */
	rf_map_set(&c->tenants, name, t);
	return t;
}

struct co_ns *co_space(struct rf_core *c, struct rf_str name)
{
	struct co_ns *s = rf_map_get(&c->spaces, name);

	if (s != NULL)
		return s;
	s = rf_new(struct co_ns);
	s->name = rf_str_dup(name);
	s->system = co_is_system(name);
	s->stranger = ++c->n_tenants;
	rf_map_set(&c->spaces, name, s);
	return s;
}

struct co_node *co_node(struct rf_core *c, struct rf_str name)
{
	struct co_node *n = rf_map_get(&c->nodes, name);

	if (n != NULL)
		return n;
	n = rf_new(struct co_node);
	n->name = rf_str_dup(name);
	n->handle = RF_FLEET_NONE;
	rf_map_set(&c->nodes, name, n);
	return n;
}

/* In the order of uids: of a UUID its first 16 digits, of other names the last 8 bytes. */
uint64_t co_number(struct rf_str uid)
{
	uint64_t n = 0;
	size_t digits = 0;

	for (size_t i = 0; i < uid.n && digits < 16; i++) {
		unsigned digit = (unsigned)uid.p[i] - '0', letter = ((unsigned)uid.p[i] | 32) - 'a';

		if (uid.p[i] == '-')
			continue;
		if (digit > 9 && letter > 5)
			break;
		n = n << 4 | (digit <= 9 ? digit : letter + 10);
		digits++;
	}
	if (digits == 16)
		return n;
	n = 0;
	for (size_t i = uid.n > 8 ? uid.n - 8 : 0; i < uid.n; i++)
		n = n << 8 | (uint8_t)uid.p[i];
	return n;
}

void co_tick(struct rf_core *c)
{
	c->ticks++;
}

/* --- resources -------------------------------------------------------------------------------- */

static int64_t add_resource(struct rf_core *c, const char *kind, const char *name, struct rf_queue_resource v)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_err err;
	int64_t r = -1;

	rf_buf_printf(&b, "%s/%s", kind, name);
	v.name = b.p;
	if (rf_queues_add_resource(c->queues, &v, &r, &err) < 0)
		return -1;
	rf_vec_push(&c->resources, rf_strdup(b.p));
	c->queues_pending = true; /* a queue may have waited for it */
	c->capacity_stale = true; /* how much there is of it, none perhaps */
	return r;
}

static int find_model(const struct rf_core *c, const char *name)
{
	for (size_t i = 0; i < c->n_models; i++) {
		if (strcmp(c->models[i].name, name) == 0)
			return (int)i;
	}
	return -1;
}

int co_first_model(const struct rf_core *c, uint64_t models)
{
	int first = -1;

	for (int m = 0; m < (int)c->n_models; m++) {
		if ((models >> m & 1) && (first < 0 || strcmp(c->models[m].name, c->models[first].name) < 0))
			first = m;
	}
	return first;
}

/* name: as rf_gpu_model_named says. More models than can be counted are counted as the last one. */
static uint8_t add_model(struct rf_core *c, const char *name, const struct rf_gpu_model *gpu)
{
	struct co_model *m = &c->models[c->n_models];
	int known = find_model(c, name);

	if (known >= 0)
		return (uint8_t)known;
	if (c->n_models == CO_NO_MODEL)
		return CO_NO_MODEL - 1;
	*m = (struct co_model){ .name = rf_strdup(name), .gpu = gpu };
	m->resource = add_resource(c, "cards", name, (struct rf_queue_resource){ .free_by_default = true, .part = true });
	if (gpu != NULL && gpu->mig != NULL)
		rf_fleet_set_model(c->fleet, (unsigned)c->n_models, gpu->mig, RF_MIN(gpu->n_mig, RF_FLEET_PROFILES_MAX));
	c->model_stamp++;
	return (uint8_t)c->n_models++;
}

uint8_t co_model(struct rf_core *c, struct rf_str told)
{
	struct rf_str s = told.n > 0 ? told : RF_LIT("unknown");
	char name[64];
	const struct rf_gpu_model *g = rf_gpu_model_named(s.p, s.n, name);

	return add_model(c, name, g);
}

static bool any_card_has(struct rf_str profile)
{
	rf_auto_free char *name = rf_str_dup(profile);
	const struct rf_gpu_model *g;

	for (size_t i = 0; (g = rf_gpu_model_at(i)) != NULL; i++) {
		if (rf_gpu_model_mig(g, name) != NULL)
			return true;
	}
	return false;
}

int64_t co_profile(struct rf_core *c, struct rf_str name)
{
	struct co_profile p;

	for (size_t i = 0; i < c->profiles.n; i++) {
		if (rf_str_is(name, c->profiles.at[i].name))
			return c->profiles.at[i].resource;
	}
	if (!any_card_has(name))
		return -1;
	p = (struct co_profile){ .name = rf_str_dup(name) };
	p.resource = add_resource(c, "mig", p.name, (struct rf_queue_resource){ .cut = true });
	rf_vec_push(&c->profiles, p);
	c->capacity_stale = true;
	return p.resource;
}

int co_profile_of(const struct rf_core *c, unsigned model, struct rf_str name)
{
	const struct rf_gpu_model *g = c->models[model].gpu;

	for (size_t i = 0; g != NULL && i < RF_MIN(g->n_mig, RF_FLEET_PROFILES_MAX); i++) {
		if (rf_str_is(name, g->mig[i].name))
			return (int)i;
	}
	return -1;
}

static void name_models(const struct rf_core *c, struct rf_buf *b)
{
	for (size_t i = 0; i < c->n_models; i++)
		rf_buf_printf(b, "%s%s", i > 0 ? ", " : "", c->models[i].name);
	if (c->n_models == 0)
		rf_buf_puts(b, "none yet");
}

static int resource_of_model(struct rf_core *c, struct rf_str name, int64_t *ret, struct rf_err *err)
{
	char counted[64];
	const struct rf_gpu_model *g = rf_gpu_model_named(name.p, name.n, counted);
	rf_auto(buf) known = RF_BUF_INIT;
	int m = find_model(c, counted);

	if (m < 0 && g != NULL)
		m = add_model(c, counted, g);
	if (m >= 0 && strcmp(c->models[m].name, counted) == 0) {
		*ret = c->models[m].resource;
		return *ret >= 0 ? 0 : rf_fail(err, RF_EXHAUSTED, "cards/%s: too many resources are counted", counted);
	}
	name_models(c, &known);
	return rf_fail(err, RF_INVALID, "cards/%.*s: no card of that model is known (known: %s); use one of these", (int)RF_MIN(name.n, 63),
		       name.p, known.p);
}

int co_resource(struct rf_core *c, struct rf_str name, int64_t *ret, struct rf_err *err)
{
	for (size_t i = 0; i < CO_FIXED; i++) {
		if (!rf_str_is(name, fixed[i].name))
			continue;
		*ret = (int64_t)i;
		return 0;
	}
	if (rf_str_starts(name, RF_LIT("cards/")))
		return resource_of_model(c, rf_str_skip(name, 6), ret, err);
	if (rf_str_starts(name, RF_LIT("mig/"))) {
		*ret = co_profile(c, rf_str_skip(name, 4));
		return *ret >= 0 ? 0 :
				   rf_fail(err, RF_INVALID, "%.*s: no card has that MIG profile; write it as the driver does, mig/1g.10gb",
					   (int)RF_MIN(name.n, 63), name.p);
	}
	return rf_fail(err, RF_INVALID,
		       "resource %.*s is not known; there are cards, cards/<model>, share-bytes, share-milli, "
		       "mig/<profile>, cpu, memory and pods",
		       (int)RF_MIN(name.n, 63), name.p);
}

int64_t rf_core_resource(const struct rf_core *c, struct rf_str name)
{
	char counted[64];
	int m;

	if (rf_str_starts(name, RF_LIT("cards/"))) {
		(void)rf_gpu_model_named(name.p + 6, name.n - 6, counted);
		m = find_model(c, counted);
		return m >= 0 ? c->models[m].resource : -1;
	}
	for (size_t i = 0; i < c->resources.n; i++) {
		if (rf_str_is(name, c->resources.at[i]))
			return (int64_t)i;
	}
	return -1;
}

/* --- looking ---------------------------------------------------------------------------------- */

struct rf_queues *rf_core_queues(struct rf_core *c)
{
	co_look(c);
	return c->queues;
}

struct rf_fleet *rf_core_fleet(struct rf_core *c)
{
	co_look(c);
	return c->fleet;
}

void rf_core_export(struct rf_core *c, int64_t now_ms, struct rf_buf *ret)
{
	rf_queues_export(c->queues, now_ms, ret);
}

int rf_core_import(struct rf_core *c, struct rf_str ledger, int64_t now_ms, struct rf_err *err)
{
	c->now = RF_MAX(c->now, now_ms);
	CO_LOG(c, RF_LOG_LEDGER, .ledger = ledger);
	return rf_queues_import(c->queues, ledger, now_ms, err);
}

void rf_core_log_to(struct rf_core *c, void (*line)(void *ctx, struct rf_str line), void *ctx)
{
	c->line = line;
	c->line_ctx = ctx;
	CO_LOG(c, RF_LOG_CONFIG, .config = c->config);
}
