/* Tenants, namespaces, queues, budgets. */
#include "sched/core_private.h"

/* Whoever waits and may be concerned is looked at again. */
static void mark_waiting(struct rf_core *c, const struct co_tenant *t)
{
	for (struct co_pod *p = c->fresh; p != NULL; p = p->wait_next) {
		if (t == NULL || p->ns->tenant == t)
			co_mark(c, p);
	}
	for (struct co_pod *p = c->told; p != NULL; p = p->wait_next) {
		if (t == NULL || p->ns->tenant == t)
			co_mark(c, p);
	}
	co_tick(c);
}

/* --- queues ----------------------------------------------------------------------------------- */

static struct co_queue *find_queue(struct rf_core *c, struct rf_str name)
{
	struct co_queue *q = rf_map_get(&c->queue_map, name);

	if (q != NULL)
		return q;
	q = rf_new(struct co_queue);
	q->name = rf_str_dup(name);
	rf_map_set(&c->queue_map, name, q);
	return q;
}

static void free_queue(struct rf_core *c, struct co_queue *q)
{
	rf_map_del(&c->queue_map, rf_str(q->name));
	rf_arena_done(&q->a);
	rf_vec_done(&q->ranks);
	free(q->name);
	free(q);
}

static int64_t or_any(int64_t v)
{
	return v < 0 ? RF_QUEUE_NO_LIMIT : v;
}

struct quotas {
	struct rf_queue_quota at[RF_QUEUE_RES_MAX];
	size_t n;
};

static int read_quotas(struct rf_core *c, const struct rf_sched_queue *v, struct quotas *ret, struct rf_err *err)
{
	if (v->n_quotas > RF_QUEUE_RES_MAX - 1)
		return rf_fail(err, RF_INVALID, "queue %.*s: more quotas than there are resources", RF_STR(v->name));
	for (size_t i = 0; i < v->n_quotas; i++) {
		const struct rf_sched_quota *o = &v->quotas[i];
		int64_t r = 0;

		if (co_resource(c, o->resource, &r, err) < 0)
			return rf_wrap(err, "queue %.*s", RF_STR(v->name));
		ret->at[ret->n++] = (struct rf_queue_quota){ .resource = r,
							     .guaranteed = RF_MAX(o->guaranteed, -1),
							     .limit = or_any(o->limit),
							     .lending = or_any(o->lending),
							     .borrowing = or_any(o->borrowing) };
	}
	return 0;
}

static void tenant_quotas(const struct co_tenant *t, struct quotas *ret)
{
	const int64_t limits[] = { t->cards, t->bytes };

	for (size_t i = 0; i < RF_COUNT(limits); i++)
		ret->at[ret->n++] = (struct rf_queue_quota){ .resource = i == 0 ? CO_CARDS : CO_BYTES,
							     .guaranteed = -1,
							     .limit = RF_MIN(RF_MAX(limits[i], 0), RF_QUEUE_AMOUNT_MAX),
							     .lending = RF_QUEUE_NO_LIMIT,
							     .borrowing = RF_QUEUE_NO_LIMIT };
}

static struct rf_queue_quota *quota_of(struct quotas *q, int64_t resource)
{
	for (size_t i = 0; i < q->n; i++) {
		if (q->at[i].resource == resource)
			return &q->at[i];
	}
	return NULL;
}

/* A Tenant's quota does not speak of slices: who is given none has none, beyond what is guaranteed. */
static void limit_slices(const struct rf_core *c, struct quotas *ret)
{
	for (size_t i = 0; i < c->profiles.n; i++) {
		int64_t r = c->profiles.at[i].resource;
		struct rf_queue_quota *o = r >= 0 ? quota_of(ret, r) : NULL;

		if (o != NULL && o->limit == RF_QUEUE_NO_LIMIT)
			o->limit = RF_MAX(o->guaranteed, 0);
		else if (o == NULL && r >= 0 && ret->n < RF_COUNT(ret->at))
			ret->at[ret->n++] = (struct rf_queue_quota){ .resource = r,
								     .guaranteed = -1,
								     .limit = 0,
								     .lending = RF_QUEUE_NO_LIMIT,
								     .borrowing = RF_QUEUE_NO_LIMIT };
	}
}

static int apply(struct rf_core *c, struct co_queue *q, struct rf_err *err)
{
	struct co_tenant *t = rf_map_get(&c->tenants, rf_str(q->name));
	struct rf_queue_spec s = { .name = rf_str(q->name), .parent = RF_STR_EMPTY };
	struct quotas quotas = { .n = 0 };

	if (q->put) {
		s.parent = q->v.parent;
		s.weight = q->v.weight;
		if (read_quotas(c, &q->v, &quotas, err) < 0)
			return -err->code;
	} else {
		tenant_quotas(t, &quotas);
		s.weight = RF_MIN(RF_MAX(t->weight, 1), RF_QUEUE_WEIGHT_MAX);
	}
	if (!q->put || q->tenant != NULL)
		limit_slices(c, &quotas);
	s.quotas = quotas.at;
	s.n_quotas = quotas.n;
	if (rf_queues_put(c->queues, &s, c->now, err) < 0)
		return -err->code;
	q->at = rf_queues_find(c->queues, rf_str(q->name));
	q->holds = true;
	c->limbo_stale = true;
	c->freed = ~UINT64_C(0);  /* who was refused for want of room on a model may have it now */
	c->queues_pending = true; /* others may have waited for it */
	return 0;
}

static int by_queue_name(const void *a, const void *b)
{
	return strcmp((*(struct co_queue *const *)a)->name, (*(struct co_queue *const *)b)->name);
}

/* What runs in a queue that is no more is charged elsewhere; what waits is looked at anyway. */
static void move_out(struct rf_core *c, const struct co_queue *q)
{
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->pods, m)) != NULL;) {
		struct co_pod *p = m->value;

		if (p->work == NULL || p->work->queue != q || !p->work->running || p->respec)
			continue;
		p->respec = true;
		co_mark(c, p);
	}
}

/* True: something changed, and with it others may be possible now. */
static bool settle_queue(struct rf_core *c, struct co_queue *q)
{
	struct rf_err err;

	if (q->put || q->own)
		return !q->holds && apply(c, q, &err) == 0;
	if (q->n_works > 0) {
		move_out(c, q);
		return false;
	}
	if (q->at != NULL && rf_queues_del(c->queues, rf_str(q->name), c->now, &err) < 0)
		return false;
	c->freed = ~UINT64_C(0);
	free_queue(c, q);
	return true;
}

void co_queues_settle(struct rf_core *c)
{
	bool any = true;

	if (!c->queues_pending)
		return;
	while (any || c->n_limited != c->profiles.n) {
		bool more = c->n_limited != c->profiles.n;
		RF_VEC(struct co_queue *) all = RF_VEC_INIT;

		c->n_limited = c->profiles.n;
		for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->queue_map, m)) != NULL;) {
			struct co_queue *q = m->value;

			q->holds = q->holds && !(more && (!q->put || q->tenant != NULL));
			if (!q->holds || (!q->put && !q->own))
				rf_vec_push(&all, q);
		}
		if (all.n > 0)
			qsort(all.at, all.n, sizeof(*all.at), by_queue_name);
		any = false;
		for (size_t i = 0; i < all.n; i++)
			any = settle_queue(c, all.at[i]) || any;
		rf_vec_done(&all);
		if (any)
			mark_waiting(c, NULL);
	}
	c->queues_pending = false;
}

static void copy_queue(struct co_queue *q, const struct rf_sched_queue *v)
{
	rf_arena_done(&q->a);
	q->a = (struct rf_arena)RF_ARENA_INIT;
	q->v = *v;
	q->v.name = rf_str(q->name);
	q->v.parent = rf_arena_str(&q->a, v->parent);
	q->v.tenant = rf_arena_str(&q->a, v->tenant);
	q->v.quotas = rf_arena_array(&q->a, struct rf_sched_quota, RF_MAX(v->n_quotas, 1));
	for (size_t i = 0; i < v->n_quotas; i++) {
		q->v.quotas[i] = v->quotas[i];
		q->v.quotas[i].resource = rf_arena_str(&q->a, v->quotas[i].resource);
	}
}

/* While quotas speak of models a card of which nobody has told is charged to each of them, and counts so; and members of a
 * gang with cards of several are unlike each other (co_spec). */
static void recharge_models(struct rf_core *c)
{
	c->capacity_stale = true;
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->pods, m)) != NULL;) {
		struct co_pod *p = m->value;

		if (p->work == NULL || !p->work->running || p->work->first != p)
			continue;
		p->respec = true;
		co_mark(c, p);
	}
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->claims, m)) != NULL;) {
		struct co_claim *k = m->value;

		if (k->work != NULL)
			co_work_run(c, k->work);
	}
}

/* As it was told, whether it is in the tree yet or not. */
static void note_models(struct rf_core *c, struct co_queue *q)
{
	bool any = c->model_quotas > 0, models = false;

	for (size_t i = 0; q->put && i < q->v.n_quotas; i++)
		models = models || rf_str_starts(q->v.quotas[i].resource, RF_LIT("cards/"));
	c->model_quotas += models;
	c->model_quotas -= q->models;
	q->models = models;
	if (any != (c->model_quotas > 0))
		recharge_models(c);
}

int rf_core_put_queue(struct rf_core *c, const struct rf_sched_queue *v, int64_t now_ms, struct rf_err *err)
{
	struct rf_err ignored;
	struct co_queue *q;

	c->now = RF_MAX(c->now, now_ms);
	CO_LOG(c, RF_LOG_QUEUE, .queue = *v);
	err = err != NULL ? err : &ignored;
	if (!rf_str_is_dns_subdomain(v->name) || rf_str_eq(v->name, CO_CLUSTER) || rf_str_eq(v->name, CO_LIMBO) ||
	    v->n_quotas >= RF_QUEUE_RES_MAX)
		return rf_fail(err, RF_INVALID, "queue %.*s: its name is kept for the scheduler or not a DNS name, or it has too many quotas",
			       (int)RF_MIN(v->name.n, 253), v->name.p);
	q = find_queue(c, v->name);
	copy_queue(q, v);
	q->put = true;
	q->holds = false;
	note_models(c, q);
	q->tenant = v->tenant.n > 0 ? co_tenant(c, v->tenant) : NULL;
	c->queues_pending = true;
	mark_waiting(c, NULL);
	return apply(c, q, err);
}

void rf_core_del_queue(struct rf_core *c, struct rf_str name, int64_t now_ms)
{
	struct co_queue *q = rf_map_get(&c->queue_map, name);

	c->now = RF_MAX(c->now, now_ms);
	CO_LOG(c, RF_LOG_QUEUE, .del = true, .name = name);
	if (q == NULL || !q->put)
		return;
	q->put = q->holds = false;
	note_models(c, q);
	q->tenant = q->own ? rf_map_get(&c->tenants, name) : NULL;
	c->queues_pending = true;
	mark_waiting(c, NULL);
}

/* --- tenants ---------------------------------------------------------------------------------- */

static uint32_t trust_of(struct rf_core *c, struct rf_str name)
{
	uintptr_t id = (uintptr_t)rf_map_get(&c->trusts, name);

	if (id != 0)
		return (uint32_t)id;
	id = ++c->n_trusts;
	rf_map_set(&c->trusts, name, (void *)id);
	return (uint32_t)id;
}

static void own_queue(struct rf_core *c, struct co_tenant *t, bool own)
{
	struct co_queue *q = find_queue(c, rf_str(t->name));

	q->own = own;
	c->queues_pending = true;
	if (q->put)
		return;
	q->tenant = own ? t : NULL;
	q->holds = false;
}

/* Where it was refused it may go now: what it asks for is another although the fleet is the same. */
static void regrade(struct rf_core *c, const struct co_tenant *t)
{
	rf_fleet_regrade(c->fleet, t->id, t->trust, t->level);
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->shapes, m)) != NULL;) {
		struct co_shape *s = m->value;

		if (s->tenant != t)
			continue;
		s->refused = false;
		s->planned = 0;
		free(s->why);
		s->why = NULL;
	}
}

void rf_core_put_tenant(struct rf_core *c, const struct rf_tenant *v)
{
	struct co_tenant *t = co_tenant(c, v->name);

	CO_LOG(c, RF_LOG_TENANT, .tenant_spec = *v);
	t->known = true;
	t->level = v->isolation;
	t->trust = trust_of(c, v->trust_domain);
	t->weight = v->queue_weight;
	t->cards = v->quota_gpus;
	t->bytes = v->quota_gpu_memory;
	regrade(c, t);
	own_queue(c, t, true);
	c->freed = ~UINT64_C(0);
	mark_waiting(c, t);
}

void rf_core_del_tenant(struct rf_core *c, struct rf_str name)
{
	struct co_tenant *t = rf_map_get(&c->tenants, name);

	CO_LOG(c, RF_LOG_TENANT, .del = true, .name = name);
	if (t == NULL || !t->known)
		return;
	t->known = false;
	t->level = RF_MIN(t->level, RF_ISOLATION_NODE); /* no less than it had; see co_tenant */
	t->trust = 0;
	regrade(c, t);
	own_queue(c, t, false);
	mark_waiting(c, t);
}

/* --- namespaces ------------------------------------------------------------------------------- */

static void reown(struct rf_core *c, struct co_ns *s)
{
	for (struct co_pod *p = s->pods; p != NULL; p = p->ns_next) {
		p->reown = true;
		co_mark(c, p);
	}
	for (struct co_claim *k = s->claims; k != NULL; k = k->ns_next) {
		k->reown = true;
		co_mark_claim(c, k);
	}
	co_tick(c);
}

void rf_core_put_namespace(struct rf_core *c, struct rf_str name, struct rf_str tenant)
{
	struct co_ns *s = co_space(c, name);
	struct co_tenant *t = tenant.n > 0 ? co_tenant(c, tenant) : NULL;

	CO_LOG(c, RF_LOG_NAMESPACE, .name = name, .tenant = tenant);
	if (s->known && s->tenant == t)
		return;
	s->known = true;
	s->tenant = t;
	reown(c, s);
}

void rf_core_del_namespace(struct rf_core *c, struct rf_str name)
{
	struct co_ns *s = rf_map_get(&c->spaces, name);

	CO_LOG(c, RF_LOG_NAMESPACE, .del = true, .name = name);
	if (s == NULL || !s->known)
		return;
	s->known = false;
	s->tenant = NULL;
	reown(c, s);
	co_space_maybe_free(c, s);
}

void co_space_maybe_free(struct rf_core *c, struct co_ns *s)
{
	if (s->known || s->pods != NULL || s->claims != NULL || s->n_groups > 0)
		return;
	rf_map_del(&c->spaces, rf_str(s->name));
	free(s->name);
	free(s);
}

/* --- disruption budgets ----------------------------------------------------------------------- */

static struct rf_sched_term copy_term(struct rf_arena *a, const struct rf_sched_term *t)
{
	struct rf_sched_term to = *t;

	to.all = rf_arena_array(a, struct rf_sched_match, RF_MAX(t->n, 1));
	for (size_t i = 0; i < t->n; i++) {
		to.all[i] = t->all[i];
		to.all[i].key = rf_arena_str(a, t->all[i].key);
		to.all[i].values = rf_arena_array(a, struct rf_str, RF_MAX(t->all[i].n_values, 1));
		for (size_t k = 0; k < t->all[i].n_values; k++)
			to.all[i].values[k] = rf_arena_str(a, t->all[i].values[k]);
	}
	return to;
}

static struct rf_str ns_key(struct rf_core *c, struct rf_str ns, struct rf_str name)
{
	rf_buf_clear(&c->scratch);
	rf_buf_printf(&c->scratch, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
	return rf_buf_str(&c->scratch);
}

static void free_budget(struct co_budget *b)
{
	if (b == NULL)
		return;
	rf_arena_done(&b->a);
	free(b);
}

void rf_core_put_budget(struct rf_core *c, const struct rf_sched_budget *v)
{
	struct co_budget *b = rf_new(struct co_budget);

	CO_LOG(c, RF_LOG_BUDGET, .budget = *v);
	b->v = *v;
	b->v.ns = rf_arena_str(&b->a, v->ns);
	b->v.name = rf_arena_str(&b->a, v->name);
	b->v.labels = copy_term(&b->a, &v->labels);
	free_budget(rf_map_set(&c->budgets, ns_key(c, v->ns, v->name), b));
	c->budgets_listed = false;
	c->news++; /* more may go, or less */
	co_tick(c);
}

void rf_core_del_budget(struct rf_core *c, struct rf_str ns, struct rf_str name)
{
	CO_LOG(c, RF_LOG_BUDGET, .del = true, .ns = ns, .name = name);
	free_budget(rf_map_del(&c->budgets, ns_key(c, ns, name)));
	c->budgets_listed = false;
	c->news++; /* more may go, or less */
	co_tick(c);
}

/* Should two labels ever have one key, who asks finds a budget that is not meant, and sees that. */
static struct rf_str label_key(struct rf_core *c, struct rf_str ns, struct rf_str key, struct rf_str value)
{
	rf_buf_clear(&c->scratch);
	rf_buf_add(&c->scratch, ns);
	rf_buf_add(&c->scratch, RF_LIT("//"));
	rf_buf_add(&c->scratch, key);
	rf_buf_add(&c->scratch, RF_LIT("//"));
	rf_buf_add(&c->scratch, value);
	return rf_buf_str(&c->scratch);
}

static const struct rf_sched_match *one_label(const struct co_budget *b)
{
	for (size_t i = 0; i < b->v.labels.n; i++) {
		const struct rf_sched_match *m = &b->v.labels.all[i];

		if (m->op == RF_SCHED_IN && m->n_values == 1)
			return m;
	}
	return NULL;
}

static void list_budgets(struct rf_core *c)
{
	rf_map_clear(&c->budget_of);
	c->budget_any = NULL;
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&c->budgets, s)) != NULL;) {
		struct co_budget *b = s->value;
		const struct rf_sched_match *m = one_label(b);

		b->next = c->budget_any;
		if (m != NULL)
			b->next = rf_map_set(&c->budget_of, label_key(c, b->v.ns, m->key, m->values[0]), b);
		else
			c->budget_any = b;
	}
	c->budgets_listed = true;
}

struct co_budget *co_budgets_of(struct rf_core *c, const struct co_pod *p, size_t i)
{
	if (!c->budgets_listed)
		list_budgets(c);
	if (p->labels == NULL || i >= p->labels->n)
		return c->budget_any;
	if (c->budget_of.n == 0)
		return NULL;
	return rf_map_get(&c->budget_of, label_key(c, rf_str(p->ns->name), p->labels->at[i].key, p->labels->at[i].value));
}
