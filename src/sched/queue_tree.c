/* The tree of queues: what was configured, and what holds of it now. */
#include "sched/queue_private.h"

static struct rf_queue *new_queue(struct rf_queues *qs, struct rf_str name)
{
	struct rf_queue *q = rf_new(struct rf_queue);
	int64_t *all = rf_alloc(RF_V_COUNT * qs->n_res * sizeof(*all));

	for (size_t i = 0; i < RF_V_COUNT; i++)
		q->v[i] = all + i * qs->n_res;
	q->name = rf_str_dup(name);
	q->serial = ++qs->serial;
	q->weight = 1;
	rf_order_leaf(q);
	q->large.before = rf_order_large;
	return q;
}

static void free_queue(const struct rf_queues *qs, struct rf_queue *q)
{
	for (size_t r = 0; q->rooms != NULL && r < 2 * qs->n_res; r++)
		rf_heap_done(&q->rooms[r]);
	free(q->rooms);
	rf_heap_done(&q->ready);
	rf_heap_done(&q->large);
	rf_vec_done(&q->children);
	free(q->v[0]);
	free(q->name);
	free(q);
}

static bool time_ok(int64_t ms)
{
	return ms >= 0 && ms <= RF_QUEUE_MS_MAX;
}

static int check_config(const struct rf_queues_config *c, struct rf_err *err)
{
	if (c->n_resources == 0 || c->n_resources > RF_QUEUE_RES_MAX)
		return rf_fail(err, RF_INVALID, "queues: %zu resources; 1 to %d are possible",
			       c->n_resources, RF_QUEUE_RES_MAX);
	if (!time_ok(c->half_life_ms) || !time_ok(c->credit_ms) || !time_ok(c->owed_ms) ||
	    !time_ok(c->entry_ms) || !time_ok(c->refresh_ms) ||
	    !time_ok(c->reserve_after_ms) || !time_ok(c->reserve_overdue_ms))
		return rf_fail(err, RF_INVALID,
			       "queues: a length of time is below 0 or above %lld ms",
			       (long long)RF_QUEUE_MS_MAX);
	if (c->reserve_most < 0 || c->reserve_most > RF_QUEUE_RESERVATIONS_MAX)
		return rf_fail(err, RF_INVALID, "queues: %lld reservations; 0 to %d are possible",
			       (long long)c->reserve_most, RF_QUEUE_RESERVATIONS_MAX);
	return 0;
}

int rf_queues_new(const struct rf_queues_config *c, struct rf_queues **ret, struct rf_err *err)
{
	struct rf_queues *qs;

	if (check_config(c, err) < 0)
		return -err->code;
	qs = rf_new(struct rf_queues);
	qs->c = *c;
	qs->c.resources = NULL;
	if (qs->c.refresh_ms == 0)
		qs->c.refresh_ms = 1000;
	rf_ledger_defaults(&qs->c);
	qs->n_res = c->n_resources;
	qs->res_names = rf_alloc(qs->n_res * sizeof(*qs->res_names));
	for (size_t i = 0; i < qs->n_res; i++) {
		qs->res_names[i] = rf_strdup(c->resources[i].name);
		qs->res_free[i] = c->resources[i].free_by_default;
		qs->parts |= (uint64_t)c->resources[i].part << i;
		qs->kinds |= (uint64_t)(i == 0 || c->resources[i].cut) << i;
	}
	qs->root = new_queue(qs, RF_STR_EMPTY);
	rf_order_parent(qs->root);
	for (size_t i = 0; i < qs->n_res; i++)
		qs->root->v[RF_V_LIMIT][i] = RF_QUEUE_NO_LIMIT;
	qs->round = 1;
	qs->helps = 1;
	qs->deep = RF_QUEUE_TRIES;
	for (size_t i = 0; i < RF_QUEUE_NEEDS; i++)
		qs->most.of[i] = INT32_MAX;
	qs->stale = true;
	*ret = qs;
	return 0;
}

static void widen(struct rf_queue *q, size_t had, size_t has)
{
	int64_t *all = rf_alloc(RF_V_COUNT * has * sizeof(*all));

	for (size_t i = 0; i < RF_V_COUNT; i++)
		memcpy(all + i * has, q->v[i], had * sizeof(*all));
	free(q->v[0]);
	for (size_t i = 0; i < RF_V_COUNT; i++)
		q->v[i] = all + i * has;
	q->v[RF_V_CLAIM][had] = q->parent != NULL ? -1 : 0;
	q->v[RF_V_LIMIT][had] = q->v[RF_V_LENDING][had] = q->v[RF_V_BORROWING][had] = RF_QUEUE_NO_LIMIT;
	if (q->rooms == NULL)
		return;
	q->rooms = rf_realloc(q->rooms, 2 * has * sizeof(*q->rooms));
	for (size_t i = 2 * had; i < 2 * has; i++)
		q->rooms[i] = (struct rf_heap){ .before = rf_order_room };
}

int rf_queues_add_resource(struct rf_queues *qs, const struct rf_queue_resource *resource, int64_t *ret,
			   struct rf_err *err)
{
	size_t had = qs->n_res;

	if (had == RF_QUEUE_RES_MAX)
		return rf_fail(err, RF_EXHAUSTED, "resource %s: there are %d already", resource->name,
			       RF_QUEUE_RES_MAX);
	qs->res_names = rf_realloc(qs->res_names, (had + 1) * sizeof(*qs->res_names));
	qs->res_names[had] = rf_strdup(resource->name);
	qs->res_free[had] = resource->free_by_default;
	qs->parts |= (uint64_t)resource->part << had;
	qs->kinds |= (uint64_t)resource->cut << had;
	widen(qs->root, had, had + 1);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&qs->names, s)) != NULL;)
		widen(s->value, had, had + 1);
	for (size_t i = 0; i < qs->n_reserved; i++)
		qs->reserved[i].spare[had] = RF_QUEUE_NO_LIMIT; /* until it is planned anew */
	qs->n_res = had + 1;
	qs->stale = true;
	*ret = (int64_t)had;
	return 0;
}

static void free_works(struct rf_queues *qs)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&qs->shapes, s)) != NULL;) {
		struct rf_shape *shape = s->value;

		for (size_t i = 0; i < shape->works.n; i++)
			free(RF_CONTAINER_OF(shape->works.at[i], struct rf_workload, item));
		rf_heap_done(&shape->works);
		free(shape);
	}
	rf_map_done(&qs->shapes);
}

void rf_queues_free(struct rf_queues *qs)
{
	if (qs == NULL)
		return;
	free_works(qs);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&qs->names, s)) != NULL;) {
		struct rf_queue *q = s->value;

		for (struct rf_workload *w; (w = q->running) != NULL;) {
			q->running = w->next;
			free(w);
		}
		free_queue(qs, q);
	}
	free_queue(qs, qs->root);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&qs->gone, s)) != NULL;)
		free(s->value);
	rf_map_done(&qs->gone);
	rf_map_done(&qs->names);
	rf_vec_done(&qs->order);
	rf_vec_done(&qs->soft);
	rf_vec_done(&qs->refused);
	rf_vec_done(&qs->rested);
	rf_vec_done(&qs->touched);
	rf_vec_done(&qs->large);
	rf_vec_done(&qs->waiting);
	for (size_t i = 0; i < RF_COUNT(qs->passes); i++) {
		free(qs->passes[i].walk.at);
		rf_vec_done(&qs->passes[i].late);
	}
	for (size_t i = 0; i < qs->n_res; i++)
		free(qs->res_names[i]);
	free(qs->res_names);
	free(qs);
}

/* --- changes ------------------------------------------------------------------------------- */

struct rf_queue *rf_queues_find(const struct rf_queues *qs, struct rf_str name)
{
	return rf_map_get(&qs->names, name);
}

static bool amount_ok(int64_t n)
{
	return n == RF_QUEUE_NO_LIMIT || (n >= 0 && n <= RF_QUEUE_AMOUNT_MAX);
}

static int check_quota(const struct rf_queues *qs, const struct rf_queue_spec *s, size_t i,
		       struct rf_err *err)
{
	const struct rf_queue_quota *o = &s->quotas[i];

	if (o->resource < 0 || (size_t)o->resource >= qs->n_res)
		return rf_fail(err, RF_INVALID,
			       "queue %.*s: resource %lld is not known; there are 0 to %zu",
			       RF_STR(s->name), (long long)o->resource, qs->n_res - 1);
	for (size_t k = 0; k < i; k++) {
		if (s->quotas[k].resource == o->resource)
			return rf_fail(err, RF_INVALID, "queue %.*s: %s is given twice",
				       RF_STR(s->name), qs->res_names[o->resource]);
	}
	if ((o->guaranteed != -1 && !amount_ok(o->guaranteed)) || !amount_ok(o->limit) ||
	    !amount_ok(o->lending) || !amount_ok(o->borrowing))
		return rf_fail(err, RF_INVALID,
			       "queue %.*s: an amount of %s is below 0 or above %lld",
			       RF_STR(s->name), qs->res_names[o->resource],
			       (long long)RF_QUEUE_AMOUNT_MAX);
	if (o->guaranteed != RF_QUEUE_NO_LIMIT && o->guaranteed > o->limit)
		return rf_fail(err, RF_INVALID,
			       "queue %.*s: %lld of %s guaranteed, and a limit of %lld; lower the "
			       "guarantee or raise the limit",
			       RF_STR(s->name), (long long)o->guaranteed,
			       qs->res_names[o->resource], (long long)o->limit);
	return 0;
}

static size_t height(const struct rf_queue *q)
{
	size_t most = 0;

	for (size_t i = 0; i < q->children.n; i++) {
		size_t h = 1 + height(q->children.at[i]);

		most = RF_MAX(most, h);
	}
	return most;
}

static int check_parent(const struct rf_queue_spec *s, const struct rf_queue *q,
			const struct rf_queue *parent, struct rf_err *err)
{
	for (const struct rf_queue *p = parent; p != NULL; p = p->parent) {
		if (p == q)
			return rf_fail(
				err, RF_INVALID,
				"queue %.*s: its parent %.*s is itself or below it; name one "
				"that is not",
				RF_STR(s->name), RF_STR(s->parent));
	}
	if (parent->n_works > 0)
		return rf_fail(err, RF_CONFLICT,
			       "queue %.*s: its parent %.*s holds %zu workloads, and only queues "
			       "without children may; move them first",
			       RF_STR(s->name), RF_STR(s->parent), parent->n_works);
	if (parent->depth + 1 + (q != NULL ? height(q) : 0) > RF_QUEUE_DEPTH_MAX)
		return rf_fail(err, RF_INVALID, "queue %.*s: more than %d levels", RF_STR(s->name),
			       RF_QUEUE_DEPTH_MAX);
	return 0;
}

static int check_spec(const struct rf_queues *qs, const struct rf_queue_spec *s,
		      const struct rf_queue *q, const struct rf_queue *parent, struct rf_err *err)
{
	if (!rf_str_is_dns_subdomain(s->name))
		return rf_fail(err, RF_INVALID, "queue: its name is not a DNS name");
	if (parent == NULL)
		return rf_fail(err, RF_NOT_FOUND, "queue %.*s: its parent %.*s is not there",
			       RF_STR(s->name), (int)RF_MIN(s->parent.n, 253), s->parent.p);
	if (s->weight < 1 || s->weight > RF_QUEUE_WEIGHT_MAX)
		return rf_fail(err, RF_INVALID, "queue %.*s: weight %lld; 1 to %d are possible",
			       RF_STR(s->name), (long long)s->weight, RF_QUEUE_WEIGHT_MAX);
	if (s->n_quotas > qs->n_res)
		return rf_fail(err, RF_INVALID, "queue %.*s: more quotas than resources",
			       RF_STR(s->name));
	for (size_t i = 0; i < s->n_quotas; i++) {
		if (check_quota(qs, s, i, err) < 0)
			return -err->code;
	}
	if (q == NULL && qs->names.n >= RF_QUEUES_MAX)
		return rf_fail(err, RF_EXHAUSTED, "queue %.*s: there are %d already",
			       RF_STR(s->name), RF_QUEUES_MAX);
	return check_parent(s, q, parent, err);
}

static void unlink_child(const struct rf_queues *qs, struct rf_queue *q)
{
	struct rf_queue *p = q->parent;

	rf_heap_del(&p->ready, &q->item);
	for (size_t i = 0; i < p->children.n; i++) {
		if (p->children.at[i] != q)
			continue;
		rf_vec_remove(&p->children, i);
		break;
	}
	if (p->children.n == 0 && p->parent != NULL) { /* a leaf now, and empty */
		rf_order_leaf(p);
		memset(p->v[RF_V_USED], 0, qs->n_res * sizeof(*p->v[0]));
		memset(p->v[RF_V_FIXED], 0, qs->n_res * sizeof(*p->v[0]));
		memset(p->v[RF_V_WANT], 0, qs->n_res * sizeof(*p->v[0]));
		p->rate = 0;
	}
	q->parent = NULL;
}

static void set_depth(struct rf_queue *q, size_t depth)
{
	q->depth = depth;
	for (size_t i = 0; i < q->children.n; i++)
		set_depth(q->children.at[i], depth + 1);
}

static void link_child(struct rf_queue *q, struct rf_queue *parent)
{
	size_t i = parent->children.n;

	q->parent = parent;
	rf_vec_push(&parent->children, q);
	for (; i > 0 && strcmp(parent->children.at[i - 1]->name, q->name) > 0; i--)
		parent->children.at[i] = parent->children.at[i - 1];
	parent->children.at[i] = q;
	rf_order_parent(parent);
	parent->first = NULL;
	set_depth(q, parent->depth + 1);
}

static void set_quotas(const struct rf_queues *qs, struct rf_queue *q,
		       const struct rf_queue_spec *s)
{
	for (size_t r = 0; r < qs->n_res; r++) {
		q->v[RF_V_CLAIM][r] = -1;
		q->v[RF_V_LIMIT][r] = RF_QUEUE_NO_LIMIT;
		q->v[RF_V_LENDING][r] = RF_QUEUE_NO_LIMIT;
		q->v[RF_V_BORROWING][r] = RF_QUEUE_NO_LIMIT;
	}
	for (size_t i = 0; i < s->n_quotas; i++) {
		const struct rf_queue_quota *o = &s->quotas[i];

		q->v[RF_V_CLAIM][o->resource] = o->guaranteed;
		q->v[RF_V_LIMIT][o->resource] = o->limit;
		q->v[RF_V_LENDING][o->resource] = o->lending;
		q->v[RF_V_BORROWING][o->resource] = o->borrowing;
	}
}

int rf_queues_put(struct rf_queues *qs, const struct rf_queue_spec *s, int64_t now,
		  struct rf_err *err)
{
	struct rf_queue *q = rf_queues_find(qs, s->name);
	struct rf_queue *parent = s->parent.n > 0 ? rf_queues_find(qs, s->parent) : qs->root;

	if (check_spec(qs, s, q, parent, err) < 0)
		return -err->code;
	if (q == NULL) {
		q = new_queue(qs, s->name);
		rf_map_set(&qs->names, s->name, q);
		link_child(q, parent);
		q->past_ms = now;
		rf_queue_recall(qs, q, now);
	} else if (q->parent != parent) {
		unlink_child(qs, q);
		link_child(q, parent);
	}
	q->weight = s->weight;
	set_quotas(qs, q, s);
	qs->stale = true;
	return 0;
}

int rf_queues_del(struct rf_queues *qs, struct rf_str name, int64_t now, struct rf_err *err)
{
	struct rf_queue *q = rf_queues_find(qs, name);

	if (q == NULL)
		return rf_fail(err, RF_NOT_FOUND, "queue %.*s is not there",
			       (int)RF_MIN(name.n, 253), name.p);
	if (q->children.n > 0 || q->n_works > 0)
		return rf_fail(err, RF_CONFLICT,
			       "queue %.*s has %zu queues and %zu workloads; remove them first",
			       RF_STR(name), q->children.n, q->n_works);
	rf_order_wake_all(qs); /* no list points at it afterwards */
	rf_shape_forget_spare(qs);
	rf_ledger_remember(qs, q, now);
	unlink_child(qs, q);
	rf_map_del(&qs->names, name);
	free_queue(qs, q);
	qs->stale = true;
	return 0;
}

int rf_queues_capacity(struct rf_queues *qs, int64_t resource, int64_t amount, struct rf_err *err)
{
	if (resource < 0 || (size_t)resource >= qs->n_res)
		return rf_fail(err, RF_INVALID, "capacity: resource %lld is not known",
			       (long long)resource);
	if (!amount_ok(amount))
		return rf_fail(err, RF_INVALID, "capacity of %s: %lld is below 0 or above %lld",
			       qs->res_names[resource], (long long)amount,
			       (long long)RF_QUEUE_AMOUNT_MAX);
	if (qs->root->v[RF_V_LIMIT][resource] == amount)
		return 0;
	qs->root->v[RF_V_LIMIT][resource] = amount;
	qs->stale = true;
	return 0;
}

/* --- what holds now ------------------------------------------------------------------------ */

static void list_tree(struct rf_queues *qs)
{
	rf_vec_clear(&qs->order);
	rf_vec_push(&qs->order, qs->root);
	for (size_t i = 0; i < qs->order.n; i++) {
		struct rf_queue *q = qs->order.at[i];

		for (size_t k = 0; k < q->children.n; k++)
			rf_vec_push(&qs->order, q->children.at[k]);
	}
}

static int64_t sum_of(const struct rf_queue *q, enum rf_vec_name v, size_t r)
{
	int64_t sum = 0;

	for (size_t i = 0; i < q->children.n; i++)
		sum = rf_queue_add(sum, q->children.at[i]->v[v][r]);
	return sum;
}

/* Children before parents: what a queue claims of parts by name; all of them together. */
static int64_t sum_named(const struct rf_queues *qs, struct rf_queue *q)
{
	int64_t all = 0;

	for (size_t r = 0; r < qs->n_res; r++) {
		int64_t claim = q == qs->root ? q->v[RF_V_LIMIT][r] : q->v[RF_V_CLAIM][r];

		if (!(qs->parts >> r & 1))
			continue;
		if (claim == -1)
			claim = sum_of(q, RF_V_NAMED, r);
		q->v[RF_V_NAMED][r] = RF_MIN(claim, q->v[RF_V_LIMIT][r]);
		all = rf_queue_add(all, q->v[RF_V_NAMED][r]);
	}
	return all;
}

/* Children before parents: what a queue claims, and what is charged below it. */
static void sum_up(struct rf_queues *qs, struct rf_queue *q)
{
	static const enum rf_vec_name sums[] = { RF_V_USED, RF_V_FIXED, RF_V_WANT };
	int64_t named = sum_named(qs, q);

	for (size_t r = 0; r < qs->n_res; r++) {
		int64_t claim = q->v[RF_V_CLAIM][r];

		if (q == qs->root)
			claim = q->v[RF_V_LIMIT][r];
		else if (claim == -1 && rf_queue_is_leaf(q)) /* who may borrow only so much is not guaranteed all */
			claim = qs->res_free[r] && q->v[RF_V_BORROWING][r] == RF_QUEUE_NO_LIMIT ?
					RF_QUEUE_NO_LIMIT :
					0;
		else if (claim == -1)
			claim = sum_of(q, RF_V_SUM, r);
		if (r == 0 && q != qs->root) /* or nobody could make use of it */
			claim = RF_MAX(claim, named);
		q->v[RF_V_SUM][r] = RF_MIN(claim, q->v[RF_V_LIMIT][r]);
		for (size_t i = 0; i < RF_COUNT(sums) && (!rf_queue_is_leaf(q) || q == qs->root);
		     i++)
			q->v[sums[i]][r] = sum_of(q, sums[i], r);
	}
	if (rf_queue_is_leaf(q) && q != qs->root)
		return;
	q->rate = 0;
	for (size_t i = 0; i < q->children.n; i++)
		q->rate += q->children.at[i]->rate;
}

/* What the children claim is cut in proportion where it is more than there is. Rounded is what they have together up to each, in
 * the order of their names, so that nothing of it is lost. */
static void cut(struct rf_queue *q, size_t r, int64_t total, enum rf_vec_name from, enum rf_vec_name to)
{
	int64_t sum = 0, upto = 0, given = 0;

	for (size_t i = 0; i < q->children.n; i++) {
		int64_t one = q->children.at[i]->v[from][r];

		if (one != RF_QUEUE_NO_LIMIT)
			sum = rf_queue_add(sum, one);
	}
	for (size_t i = 0; i < q->children.n; i++) {
		struct rf_queue *c = q->children.at[i];
		int64_t one = c->v[from][r];

		if (one != RF_QUEUE_NO_LIMIT && sum > total) {
			upto = rf_queue_add(upto, one);
			one = (int64_t)(((rf_u128)upto * (uint64_t)total + (uint64_t)sum / 2) / (uint64_t)sum) - given;
			given += one;
		}
		c->v[to][r] = one;
	}
}

/* Parents before children. */
static void cut_down(struct rf_queues *qs, struct rf_queue *q, size_t r)
{
	cut(q, r, q->v[RF_V_GUAR][r], RF_V_SUM, RF_V_GUAR);
	if (qs->parts >> r & 1)
		cut(q, r, q->v[RF_V_NAMED][r], RF_V_NAMED, RF_V_NAMED);
	for (size_t i = 0; i < q->children.n; i++) {
		struct rf_queue *c = q->children.at[i];
		/* of a part what is guaranteed by name: who says nothing of it has some of it guaranteed as long as there is enough */
		int64_t one = c->v[qs->parts >> r & 1 ? RF_V_NAMED : RF_V_GUAR][r], lending = c->v[RF_V_LENDING][r];

		c->v[RF_V_LOCAL][r] =
			one == RF_QUEUE_NO_LIMIT || lending >= one ? 0 : one - lending;
		qs->keeps |= (uint64_t)(c->v[RF_V_LOCAL][r] > 0) << r;
	}
}

static void foot_up(struct rf_queues *qs, struct rf_queue *q)
{
	for (size_t r = 0; r < qs->n_res; r++) {
		q->v[RF_V_BELOW][r] = rf_queue_is_leaf(q) ? 0 : sum_of(q, RF_V_FOOT, r);
		rf_charge_foot(q, r);
	}
}

/* Keys and heaps, children before parents. */
static void reorder(struct rf_queues *qs, int64_t now)
{
	rf_ledger_all(qs, now);
	for (size_t i = qs->order.n; i-- > 0;) {
		struct rf_queue *q = qs->order.at[i];

		if (!rf_queue_is_leaf(q)) /* time changes nothing within a leaf */
			rf_heap_all(&q->ready);
		rf_order_least_again(qs, q);
		rf_order_keys(qs, q);
		if (q->parent == NULL)
			continue;
		/* the parent's heap is put right as a whole when its turn comes */
		if (q->first == NULL)
			rf_heap_del(&q->parent->ready, &q->item);
		else if (q->item.pos == 0)
			rf_heap_put(&q->parent->ready, &q->item);
	}
	qs->refreshed = now;
	qs->settled = false;
	qs->fresh = NULL;
}

void rf_queues_settle_amounts(struct rf_queues *qs)
{
	if (!qs->stale)
		return;
	list_tree(qs);
	for (size_t i = qs->order.n; i-- > 0;)
		sum_up(qs, qs->order.at[i]);
	memcpy(qs->root->v[RF_V_GUAR], qs->root->v[RF_V_LIMIT],
	       qs->n_res * sizeof(*qs->root->v[0]));
	for (size_t r = 0; r < qs->n_res; r++)
		qs->root->v[RF_V_BORROWING][r] = 0;
	qs->keeps = 0;
	for (size_t i = 0; i < qs->order.n; i++) {
		for (size_t r = 0; r < qs->n_res; r++)
			cut_down(qs, qs->order.at[i], r);
	}
	for (size_t i = qs->order.n; i-- > 0;)
		foot_up(qs, qs->order.at[i]);
	qs->stale = false;
	qs->unordered = true;
	qs->fair_stale = true;
	qs->news++;
	rf_order_wake_all(qs);
}

void rf_queues_settle_tree(struct rf_queues *qs, int64_t now)
{
	rf_queues_settle_amounts(qs);
	if (!qs->unordered) {
		if (now - qs->refreshed >= qs->c.refresh_ms)
			reorder(qs, now);
		return;
	}
	qs->unordered = false;
	for (size_t i = qs->order.n; i-- > 0;)
		rf_order_least(qs, qs->order.at[i]);
	reorder(qs, now);
}

/* --- recount -------------------------------------------------------------------------------- */

static void count_leaf(struct rf_queues *qs, struct rf_queue *q, int64_t *used, int64_t *fixed,
		       uint64_t *rate)
{
	for (const struct rf_workload *w = q->running; w != NULL; w = w->next) {
		*rate += w->bill;
		for (size_t i = 0; i < w->shape->n_ask; i++) {
			const struct rf_queue_ask *a = &w->shape->ask[i];

			used[a->resource] += a->amount * w->members;
			fixed[a->resource] += w->shape->preemptible ? 0 : a->amount * w->members;
		}
	}
}

static int compare(const struct rf_queues *qs, const struct rf_queue *q, enum rf_vec_name v,
		   const int64_t *counted, const char *what, struct rf_err *err)
{
	for (size_t r = 0; r < qs->n_res; r++) {
		if (q->v[v][r] != counted[r])
			return rf_fail(err, RF_INTERNAL, "queue %s: %s of %s is %lld, counted %lld",
				       q->name, what, qs->res_names[r], (long long)q->v[v][r],
				       (long long)counted[r]);
	}
	return 0;
}

static int recount_one(struct rf_queues *qs, struct rf_queue *q, struct rf_err *err)
{
	int64_t used[RF_QUEUE_RES_MAX] = { 0 }, fixed[RF_QUEUE_RES_MAX] = { 0 };
	int64_t foot[RF_QUEUE_RES_MAX] = { 0 };
	uint64_t rate = 0;

	count_leaf(qs, q, used, fixed, &rate);
	for (size_t i = 0; i < q->children.n; i++)
		rate += q->children.at[i]->rate;
	for (size_t r = 0; r < qs->n_res; r++) {
		int64_t below = 0;

		for (size_t i = 0; i < q->children.n; i++) {
			used[r] += q->children.at[i]->v[RF_V_USED][r];
			fixed[r] += q->children.at[i]->v[RF_V_FIXED][r];
			below += q->children.at[i]->v[RF_V_FOOT][r];
		}
		foot[r] = rf_queue_is_leaf(q) ? used[r] : below;
		foot[r] = RF_MAX(foot[r], q->v[RF_V_LOCAL][r]);
	}
	if (compare(qs, q, RF_V_USED, used, "used", err) < 0 ||
	    compare(qs, q, RF_V_FIXED, fixed, "unpreemptible", err) < 0 ||
	    compare(qs, q, RF_V_FOOT, foot, "footprint", err) < 0)
		return -err->code;
	if (rate != q->rate)
		return rf_fail(err, RF_INTERNAL, "queue %s: its bill is %llu, counted %llu",
			       q->name, (unsigned long long)q->rate, (unsigned long long)rate);
	if (!qs->unordered && !rf_order_audit(q))
		return rf_fail(err, RF_INTERNAL, "queue %s: what is kept of who waits there is wrong", q->name);
	return 0;
}

int rf_queues_recount(struct rf_queues *qs, int64_t now, struct rf_err *err)
{
	(void)now;
	rf_queues_settle_amounts(qs);
	for (size_t i = qs->order.n; i-- > 0;) {
		if (recount_one(qs, qs->order.at[i], err) < 0)
			return -err->code;
	}
	return 0;
}

/* --- looking -------------------------------------------------------------------------------- */

void rf_queue_view(struct rf_queues *qs, const struct rf_queue *q, int64_t resource, int64_t now,
		   struct rf_queue_view *ret)
{
	if (q == NULL)
		q = qs->root;
	rf_assert(resource >= 0 && (size_t)resource < qs->n_res);
	(void)now;
	rf_queues_settle_amounts(qs);
	rf_share_fill(qs);
	*ret = (struct rf_queue_view){
		.used = q->v[RF_V_USED][resource],
		.unpreemptible = q->v[RF_V_FIXED][resource],
		.footprint = q->v[RF_V_FOOT][resource],
		.guaranteed = q->v[RF_V_GUAR][resource],
		.limit = q->v[RF_V_LIMIT][resource],
		.fair = q->v[RF_V_FAIR][resource],
		.wanted = q->v[RF_V_WANT][resource],
	};
}

struct rf_str rf_queue_name(const struct rf_queue *q)
{
	return rf_str(q->name);
}

struct rf_str rf_queue_path(struct rf_arena *a, const struct rf_queue *q)
{
	if (q->parent == NULL || q->parent->parent == NULL)
		return rf_arena_str(a, rf_str(q->name));
	return rf_arena_printf(a, "%.*s/%s", RF_STR(rf_queue_path(a, q->parent)), q->name);
}
