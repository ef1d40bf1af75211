/* Taking back what was lent. What is taken was over the guarantee of the queue it is taken from, and
 * what it is taken for stays within its own: nobody can take it back in turn, so it ends. A claim on a
 * fair share takes only what is over a fair share, and the shares do not move with what is taken. */
#include "sched/queue_private.h"

/* What a claim may be based on, for each level of the claimant's path. */
enum claim { NO_CLAIM, FAIR_CLAIM, GUARANTEE_CLAIM };

struct reclaim {
	struct rf_queues *qs;
	struct rf_workload *w;
	int64_t now;
	bool whole;
	int64_t part; /* what it asks for of the first resource is of this part; 0: of any */
	const struct rf_queue_ask *joins; /* what those ask for that it goes together with */
	size_t n_joins;
	enum claim claims[RF_QUEUE_DEPTH_MAX + 1];
	const struct rf_queue *path[RF_QUEUE_DEPTH_MAX + 1]; /* by depth */
	struct rf_victim *ret;
	size_t n, most;
};

static bool has_more(const struct reclaim *c, const struct rf_queue *q, enum rf_vec_name v, size_t r, int64_t n)
{
	return v == RF_V_GUAR ? rf_guar_has(c->qs, q, r, n, c->part) : q->v[RF_V_USED][r] + n <= q->v[v][r];
}

/* With what it joins it goes as a whole. Were the queue over by that, all of it would be taken again, and the parts that
 * are within the guarantee would come back and take in turn, without end. */
static bool joins_within(const struct reclaim *c, const struct rf_queue *q, enum rf_vec_name v)
{
	const struct rf_shape *s = c->w->shape;

	for (size_t i = 0; i < c->n_joins; i++) {
		if (!has_more(c, q, v, (size_t)c->joins[i].resource, c->joins[i].amount))
			return false;
	}
	for (size_t i = 0; i < s->n_ask; i++) {
		if (!has_more(c, q, v, (size_t)s->ask[i].resource, s->ask[i].amount * s->min))
			return false;
	}
	return true;
}

static void find_claims(struct reclaim *c, enum rf_reclaim policy)
{
	const struct rf_shape *s = c->w->shape;
	bool fair = policy == RF_RECLAIM_FAIR;

	for (const struct rf_queue *q = s->leaf; q->parent != NULL; q = q->parent) {
		c->path[q->depth] = q;
		fair = fair && joins_within(c, q, RF_V_FAIR);
		c->claims[q->depth] = joins_within(c, q, RF_V_GUAR) ? GUARANTEE_CLAIM
				      : fair			    ? FAIR_CLAIM
								    : NO_CLAIM;
	}
}

/* Where the two paths part: the depth just below the queue they have in common; 0: they do not. */
static size_t parting(const struct reclaim *c, const struct rf_queue *leaf)
{
	size_t depth = 0;

	for (const struct rf_queue *q = leaf; q->parent != NULL; q = q->parent) {
		if (q->depth <= c->w->shape->leaf->depth && c->path[q->depth] == q)
			break;
		depth = q->depth;
	}
	return depth;
}

enum floor { ABOVE_FAIR, ABOVE_GUARANTEE, STRADDLES };

static int64_t floor_of(const struct rf_queue *q, size_t r, enum floor f)
{
	int64_t guar = q->v[RF_V_GUAR][r];

	return f == ABOVE_FAIR ? RF_MAX(guar, q->v[RF_V_FAIR][r]) : guar;
}

static int64_t over_floor(const struct rf_queues *qs, const struct rf_queue *q, size_t r, enum floor f)
{
	int64_t floor = floor_of(q, r, f), over = floor == RF_QUEUE_NO_LIMIT ? 0 : q->v[RF_V_USED][r] - floor;

	if (r != 0)
		return over;
	return f == ABOVE_FAIR ? RF_MIN(over, rf_guar_over(qs, q)) : rf_guar_over(qs, q);
}

/* So many members may go before the queues down to `depth` reach their floor in this resource, of a part also what they are
 * guaranteed of it by name. One that straddles it goes although not all of it is above. */
static int64_t spare_members(const struct rf_queues *qs, const struct rf_workload *v, const struct rf_queue_ask *a,
			     size_t depth, enum floor f)
{
	int64_t most = v->members;

	for (const struct rf_queue *q = v->shape->leaf; q->depth >= depth; q = q->parent) {
		int64_t over = over_floor(qs, q, (size_t)a->resource, f);

		if (over <= 0)
			return 0;
		if (f != STRADDLES)
			most = RF_MIN(most, over / a->amount);
		for (size_t i = 0; a->resource == 0 && qs->parts != 0 && i < v->shape->n_ask; i++) {
			const struct rf_queue_ask *p = &v->shape->ask[i];
			int64_t named = q->v[RF_V_NAMED][p->resource];

			if (!(qs->parts >> p->resource & 1) || named == 0)
				continue;
			over = q->v[RF_V_USED][p->resource] - named;
			if (over <= 0)
				return 0;
			if (f != STRADDLES)
				most = RF_MIN(most, over / p->amount);
		}
	}
	return most;
}

static bool asks_for(const struct rf_shape *s, int64_t resource)
{
	for (size_t i = 0; i < s->n_ask; i++) {
		if (s->ask[i].resource == resource)
			return true;
	}
	return false;
}

/* Is what it has of this given back for such a claim? Parts are judged with the first resource. What is guaranteed of one kind
 * comes back from any other; whose fair share of another kind that is does not say. */
static bool is_claimed(const struct reclaim *c, const struct rf_queue_ask *a, enum claim claim)
{
	if (c->qs->parts >> a->resource & 1)
		return false;
	return asks_for(c->w->shape, a->resource) ||
	       (claim == GUARANTEE_CLAIM && (c->qs->kinds >> a->resource & 1) && (rf_shape_mask(c->w->shape) & c->qs->kinds) != 0);
}

struct pool { /* a leaf that something may be taken from */
	struct rf_queue *leaf;
	size_t depth;
	enum claim claim;
	struct rf_workload **works;
	size_t n;
};

/* Members of v that may go: the best over the resources that are claimed. */
static int64_t members_to_go(const struct reclaim *c, const struct rf_workload *v, const struct pool *p, enum floor f)
{
	const struct rf_shape *s = v->shape;
	int64_t most = 0, extra = v->members - s->min;

	for (size_t i = 0; i < s->n_ask; i++) {
		int64_t n;

		if (!is_claimed(c, &s->ask[i], p->claim))
			continue;
		n = spare_members(c->qs, v, &s->ask[i], p->depth, f);
		most = RF_MAX(most, n);
	}
	if (extra > 0 && !c->whole)
		return f == STRADDLES ? 0 : RF_MIN(most, extra);
	if (most == v->members)
		return most;
	return extra > 0 && f != STRADDLES ? RF_MIN(most, extra) : 0;
}

static bool may_go(const struct reclaim *c, const struct rf_workload *v)
{
	return v->shape->preemptible && c->now - v->started >= v->min_run;
}

/* In the books only; put back by the caller. */
static void take(struct reclaim *c, struct rf_workload *v, int64_t members)
{
	rf_charge_shift(v->shape, -members);
	c->ret[c->n++] = (struct rf_victim){ v, members };
}

/* --- the order of victims --------------------------------------------------------------------- */

static int by_use(const void *pa, const void *pb)
{
	const struct rf_workload *a = *(struct rf_workload *const *)pa,
				 *b = *(struct rf_workload *const *)pb;

	if (a->priority != b->priority)
		return a->priority < b->priority ? -1 : 1;
	if (a->started != b->started)
		return a->started > b->started ? -1 : 1;
	return a->id != b->id ? (a->id > b->id ? -1 : 1) : 0;
}

/* Who has most by weight gives first; compared where their paths part. */
static int by_share(const void *pa, const void *pb)
{
	const struct rf_queue *a = ((const struct pool *)pa)->leaf;
	const struct rf_queue *b = ((const struct pool *)pb)->leaf;

	while (a->depth > b->depth)
		a = a->parent;
	while (b->depth > a->depth)
		b = b->parent;
	while (a->parent != b->parent) {
		a = a->parent;
		b = b->parent;
	}
	if (a->usage != b->usage)
		return a->usage > b->usage ? -1 : 1;
	return strcmp(b->name, a->name);
}

static bool over_somewhere(const struct rf_queues *qs, const struct rf_queue *leaf)
{
	for (size_t r = 0; r < qs->n_res; r++) {
		if (leaf->v[RF_V_GUAR][r] != RF_QUEUE_NO_LIMIT && over_floor(qs, leaf, r, ABOVE_GUARANTEE) > 0)
			return true;
	}
	return false;
}

static void fill_pool(const struct reclaim *c, struct pool *p)
{
	size_t n = 0;

	for (struct rf_workload *v = p->leaf->running; v != NULL; v = v->next)
		n += may_go(c, v);
	p->works = rf_alloc(RF_MAX(n, 1) * sizeof(struct rf_workload *));
	for (struct rf_workload *v = p->leaf->running; v != NULL; v = v->next) {
		if (may_go(c, v))
			p->works[p->n++] = v;
	}
	if (p->n > 1)
		qsort(p->works, p->n, sizeof(struct rf_workload *), by_use);
}

static size_t find_pools(const struct reclaim *c, struct pool *pools)
{
	size_t n = 0;

	for (size_t i = 0; i < c->qs->order.n; i++) {
		struct rf_queue *q = c->qs->order.at[i];
		size_t depth;

		if (q->running == NULL || q == c->w->shape->leaf || !over_somewhere(c->qs, q))
			continue;
		depth = parting(c, q);
		/* a queue has children or workloads, so that both paths go on below */
		if (depth == 0 || c->claims[depth] == NO_CLAIM)
			continue;
		for (struct rf_queue *k = q; k != NULL; k = k->parent)
			k->usage = rf_ledger_key(c->qs, k);
		pools[n] = (struct pool){ .leaf = q, .depth = depth, .claim = c->claims[depth] };
		fill_pool(c, &pools[n++]);
	}
	if (n > 1)
		qsort(pools, n, sizeof(*pools), by_share);
	return n;
}

static void take_from(struct reclaim *c, struct pool *p, enum floor f)
{
	for (size_t i = 0; i < p->n && c->n < c->most; i++) {
		int64_t n = members_to_go(c, p->works[i], p, f);

		if (n == 0)
			continue;
		take(c, p->works[i], n);
		memmove(&p->works[i], &p->works[i + 1],
			(p->n - i - 1) * sizeof(struct rf_workload *));
		p->n--;
		i--;
	}
}

/* What was let past a reservation whose time has come goes without further ado. */
static void take_backfilled(struct reclaim *c)
{
	int64_t start;

	if (!rf_workload_reserved(c->qs, c->w, &start) || start > c->now)
		return;
	for (size_t i = 0; i < c->qs->order.n; i++) {
		for (struct rf_workload *v = c->qs->order.at[i]->running;
		     v != NULL && c->n < c->most; v = v->next) {
			if (v->backfilled)
				take(c, v, v->members);
		}
	}
}

static bool taken(const struct reclaim *c, size_t before, const struct rf_workload *v)
{
	for (size_t i = 0; i < before; i++) {
		if (c->ret[i].work == v)
			return true;
	}
	return false;
}

/* Leaves the books as if all of them were gone. */
static void choose(struct reclaim *c)
{
	struct pool *pools = rf_alloc(c->qs->order.n * sizeof(*pools));
	size_t n, before;

	take_backfilled(c);
	before = c->n;
	n = find_pools(c, pools);
	for (size_t i = 0; before > 0 && i < n; i++) {
		for (size_t k = pools[i].n; k-- > 0;) {
			if (!taken(c, before, pools[i].works[k]))
				continue;
			memmove(&pools[i].works[k], &pools[i].works[k + 1],
				(pools[i].n - k - 1) * sizeof(struct rf_workload *));
			pools[i].n--;
		}
	}
	for (enum floor f = ABOVE_FAIR; f <= STRADDLES; f++) {
		for (size_t i = 0; i < n; i++) {
			if (f == ABOVE_FAIR || pools[i].claim == GUARANTEE_CLAIM)
				take_from(c, &pools[i], f);
		}
	}
	for (size_t i = 0; i < n; i++)
		free(pools[i].works);
	free(pools);
}

static void put_back(const struct rf_victim *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rf_charge_shift(v[i].work->shape, v[i].members);
}

size_t rf_reclaim_candidates(struct rf_queues *qs, struct rf_workload *w, int64_t now,
			     enum rf_reclaim policy, bool whole, struct rf_victim *ret, size_t most)
{
	struct reclaim c = {
		.qs = qs, .w = w, .now = now, .whole = whole, .ret = ret, .most = most
	};

	if (w->members > 0)
		return 0;
	rf_queues_settle_tree(qs, now);
	rf_share_fill(qs);
	find_claims(&c, policy);
	choose(&c);
	put_back(ret, c.n);
	return c.n;
}

/* --- a smallest set ----------------------------------------------------------------------------- */

struct trial {
	struct rf_workload *w;
	rf_queue_fits *fits;
	void *ctx;
};

static bool allowed(const struct trial *t)
{
	return rf_charge_check(t->w->shape, t->w->shape->min, NULL) == RF_WHY_RUNNING;
}

static bool works_with(const struct trial *t, const struct rf_victim *v, size_t n)
{
	bool ok;

	for (size_t i = 0; i < n; i++)
		rf_charge_shift(v[i].work->shape, -v[i].members);
	ok = allowed(t);
	put_back(v, n);
	return ok && (t->fits == NULL || t->fits(t->ctx, t->w, v, n));
}

/* The shortest beginning of the list that works; 0: not even all of it. */
static size_t shortest(const struct trial *t, const struct rf_victim *v, size_t n)
{
	size_t low = 0, high = 1;

	for (; high < n && !works_with(t, v, high); high *= 2)
		low = high;
	high = RF_MIN(high, n);
	if (!works_with(t, v, high))
		return 0;
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (works_with(t, v, mid))
			high = mid;
		else
			low = mid;
	}
	return high;
}

/* One after the other comes back, the last choice first, and stays if the others suffice. */
static size_t drop_each(const struct trial *t, struct rf_victim *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rf_charge_shift(v[i].work->shape, -v[i].members);
	for (size_t i = n; i-- > 0 && n > 1;) {
		struct rf_victim out = v[i];

		put_back(&out, 1);
		memmove(&v[i], &v[i + 1], (n - i - 1) * sizeof(*v));
		if (allowed(t) && (t->fits == NULL || t->fits(t->ctx, t->w, v, n - 1))) {
			n--;
			continue;
		}
		rf_charge_shift(out.work->shape, -out.members);
		memmove(&v[i + 1], &v[i], (n - i - 1) * sizeof(*v));
		v[i] = out;
	}
	put_back(v, n);
	return n;
}

/* All subsets, small ones first, in case fits is one for which more gone is not always better. */
static size_t try_subsets(const struct trial *t, struct rf_victim *v, size_t n)
{
	struct rf_victim some[12];

	for (size_t size = 1; size < n; size++) {
		for (unsigned bits = 1; bits < 1U << n; bits++) {
			size_t k = 0;

			if ((size_t)__builtin_popcount(bits) != size)
				continue;
			for (size_t i = 0; i < n; i++) {
				if (bits & 1U << i)
					some[k++] = v[i];
			}
			if (!works_with(t, some, k))
				continue;
			memcpy(v, some, k * sizeof(*v));
			return k;
		}
	}
	return n;
}

size_t rf_reclaim_plan(struct rf_queues *qs, struct rf_workload *w, int64_t now,
		       enum rf_reclaim policy, rf_queue_fits *fits, void *ctx,
		       struct rf_victim *ret, size_t most)
{
	const struct trial t = { w, fits, ctx };

	if (w->members > 0)
		return 0;
	rf_queues_settle_tree(qs, now);
	if (works_with(&t, ret, 0))
		return 0;
	/* gangs give up members before any goes as a whole */
	for (int whole = 0; whole < 2; whole++) {
		size_t n = rf_reclaim_candidates(qs, w, now, policy, whole == 1, ret, most);

		n = n > 0 ? shortest(&t, ret, n) : 0;
		n = n > 1 ? drop_each(&t, ret, n) : n;
		if (n > 1 && n <= 12)
			n = try_subsets(&t, ret, n);
		if (n > 0)
			return n;
	}
	return 0;
}

/* --- step by step ------------------------------------------------------------------------------- */

enum { TIER_BACKFILLED, TIER_PRIORITY = STRADDLES + 2 }; /* between: 1 + enum floor */

struct rf_takes {
	struct reclaim c;
	const struct rf_takes_how *how;
	struct rf_take *all;
	int64_t *gone; /* members taken, of each */
	size_t n;
	int64_t started; /* of the reservation; only then do those let past go */
	bool reserved;
	uint64_t owed; /* of what it asks for, a bit each: another queue has some, or waits for it, and is guaranteed more */
	int64_t *had; /* of each of that, its leaf, before anything was taken */
};

static void shift_beside(const struct rf_takes *t, int64_t sign)
{
	for (size_t i = 0; i < t->how->n_beside; i++)
		rf_charge_shift(t->how->beside[i]->shape, sign * t->how->beside[i]->shape->min);
}

static bool ended_since(const struct rf_queues *qs, int64_t at, int64_t now)
{
	return at > qs->takes_ms && at <= now;
}

/* Time brings news too. */
static void look_at_clock(struct rf_queues *qs, int64_t now)
{
	bool any = false;

	for (size_t i = 0; i < qs->n_reserved; i++)
		any = any || ended_since(qs, qs->reserved[i].start, now);
	for (size_t i = 0; i < qs->order.n && !any; i++)
		for (const struct rf_workload *v = qs->order.at[i]->n_min_runs > 0 ? qs->order.at[i]->running : NULL; v != NULL && !any; v = v->next)
			any = v->min_run > 0 && ended_since(qs, v->started + v->min_run, now);
	qs->news += any;
	qs->takes_ms = RF_MAX(qs->takes_ms, now);
}

static bool may_take(const struct rf_takes *t, const struct rf_workload *v, int64_t members, bool whole,
		     enum floor f)
{
	size_t depth = parting(&t->c, v->shape->leaf);
	enum claim claim = depth > 0 ? t->c.claims[depth] : NO_CLAIM;

	if (claim == NO_CLAIM || (f != ABOVE_FAIR && claim != GUARANTEE_CLAIM) || (f == STRADDLES && !whole))
		return false;
	for (size_t i = 0; i < v->shape->n_ask; i++)
		if (is_claimed(&t->c, &v->shape->ask[i], claim) &&
		    spare_members(t->c.qs, v, &v->shape->ask[i], depth, f) >= members)
			return true;
	return false;
}

static bool is_owed(const struct rf_queues *qs, const struct rf_queue *q, size_t r)
{
	bool wants = q->v[RF_V_WANT][r] > 0 || q->v[RF_V_USED][r] > 0; /* what runs may have to wait soon */

	return wants && (r == 0 ? rf_guar_left(qs, q) > 0 : q->v[RF_V_USED][r] < q->v[RF_V_GUAR][r]);
}

/* Who is owed one kind may take any other back. What is free by default is guaranteed without bound, and owed to everybody: that
 * is no kind that somebody waits for. */
static uint64_t find_owed(const struct rf_queues *qs, const struct rf_shape *s)
{
	uint64_t owed = 0;

	for (size_t k = 0; k < qs->order.n; k++) {
		const struct rf_queue *q = qs->order.at[k];
		bool kinds = false;

		if (q == s->leaf || !rf_queue_is_leaf(q))
			continue;
		for (size_t r = 0; r < qs->n_res && !kinds; r++)
			kinds = (qs->kinds >> r & 1) && q->v[RF_V_GUAR][r] != RF_QUEUE_NO_LIMIT && is_owed(qs, q, r);
		for (size_t i = 0; i < s->n_ask; i++) {
			size_t r = (size_t)s->ask[i].resource;

			owed |= (uint64_t)((kinds && (qs->kinds >> r & 1)) || is_owed(qs, q, r)) << i;
		}
	}
	return owed;
}

/* By priority a queue gives up one thing for another. What it would have more of then must be within its share, and within
 * its guarantee where others are guaranteed more than they have: else they take that back, with it there is room for what was given up,
 * and so on without end. */
static bool may_swap(const struct rf_takes *t, const struct rf_workload *v)
{
	const struct rf_shape *s = t->c.w->shape;

	for (const struct rf_queue *q = s->leaf; q->parent != NULL; q = q->parent) {
		for (size_t i = 0; i < s->n_ask; i++) {
			size_t r = (size_t)s->ask[i].resource;
			bool owed = q == s->leaf && (t->owed >> i & 1);
			int64_t n = s->ask[i].amount * s->min;

			if (asks_for(v->shape, s->ask[i].resource))
				continue;
			if (owed ? !has_more(&t->c, q, RF_V_GUAR, r, n) : q->v[RF_V_USED][r] + n > floor_of(q, r, ABOVE_FAIR))
				return false;
		}
	}
	return true;
}

static void judge(const struct rf_takes *t, struct rf_take *k)
{
	const struct rf_workload *v = k->work;
	int64_t fewest = k->members > k->min ? 1 : k->members;

	k->kind = RF_TAKE_NEVER;
	k->tier = UINT32_MAX;
	if (v->backfilled && t->reserved) {
		k->kind = RF_TAKE_RECLAIM;
		k->tier = TIER_BACKFILLED;
		return;
	}
	if (t->c.w->patient || !may_go(&t->c, v) || v->news == t->c.qs->news)
		return;
	if (v->shape->leaf == t->c.w->shape->leaf) {
		if (v->priority >= t->c.w->priority || !may_swap(t, v))
			return;
		k->kind = RF_TAKE_PRIORITY;
		k->tier = TIER_PRIORITY;
		return;
	}
	for (enum floor f = ABOVE_FAIR; f <= STRADDLES && k->kind == RF_TAKE_NEVER; f++) {
		/* what may go in part may also go as a whole, later */
		if (!may_take(t, v, f == STRADDLES ? k->members : fewest, f == STRADDLES, f))
			continue;
		k->kind = RF_TAKE_RECLAIM;
		k->tier = 1 + (uint32_t)f;
	}
}

static int by_tier(const void *pa, const void *pb)
{
	const struct rf_take *a = pa, *b = pb;

	if (a->tier != b->tier)
		return a->tier < b->tier ? -1 : 1;
	if (a->leaf != b->leaf)
		return a->leaf < b->leaf ? -1 : 1;
	return by_use(&a->work, &b->work);
}

/* One tier for each priority, the lowest first: they are of one leaf, and sorted so already. */
static void rank_priorities(struct rf_takes *t)
{
	uint32_t tier = TIER_PRIORITY;
	const struct rf_take *last = NULL;

	for (size_t i = 0; i < t->n; i++) {
		struct rf_take *k = &t->all[i];

		if (k->kind != RF_TAKE_PRIORITY)
			continue;
		if (last != NULL && last->work->priority != k->work->priority)
			tier++;
		k->tier = tier;
		last = k;
	}
}

/* Can anything of it go, but what leaves? If not, whoever is there need not be judged. */
static bool may_give(const struct rf_takes *t, const struct rf_queue *leaf)
{
	size_t depth;

	if (!t->how->narrow || t->reserved)
		return true;
	if (leaf == t->c.w->shape->leaf)
		return t->how->outranks;
	depth = parting(&t->c, leaf);
	return depth > 0 && t->c.claims[depth] != NO_CLAIM && over_somewhere(t->c.qs, leaf);
}

static void list_take(struct rf_takes *t, struct rf_workload *v, size_t pool)
{
	struct rf_take *k = &t->all[t->n++];

	*k = (struct rf_take){ .work = v, .members = v->members, .min = v->shape->min, .leaf = (uint32_t)pool };
	judge(t, k);
}

static void list_takes(struct rf_takes *t, const struct pool *pools, size_t n_pools)
{
	for (size_t p = 0; p < n_pools; p++) {
		pools[p].leaf->pool = p;
		for (struct rf_workload *v = pools[p].n > 0 ? pools[p].leaf->running : NULL; v != NULL; v = v->next)
			list_take(t, v, p);
	}
	for (size_t i = 0; t->how->narrow && i < t->how->n_leaving; i++) {
		size_t p = t->how->leaving[i]->shape->leaf->pool;

		if (pools[p].n == 0)
			list_take(t, t->how->leaving[i], p);
	}
	if (t->n > 1)
		qsort(t->all, t->n, sizeof(*t->all), by_tier);
	rank_priorities(t);
}

void rf_takes_news(struct rf_queues *qs)
{
	qs->news++;
}

void rf_takes_shift(struct rf_queues *qs, const struct rf_workload *w, int64_t members, int64_t now)
{
	rf_queues_settle_tree(qs, now);
	rf_share_fill(qs); /* shares are as they were */
	rf_charge_shift(w->shape, members);
}

void rf_takes_shift_more(struct rf_queues *qs, const struct rf_workload *w, int64_t resource, int64_t amount, int64_t now)
{
	rf_assert(resource >= 0 && (size_t)resource < qs->n_res);
	rf_queues_settle_tree(qs, now);
	rf_share_fill(qs);
	rf_charge_shift_one(w->shape, (size_t)resource, amount);
}

struct rf_takes *rf_takes_open(struct rf_queues *qs, struct rf_workload *w, int64_t now, const struct rf_takes_how *how)
{
	struct rf_takes *t = rf_new(struct rf_takes);
	struct pool *pools;
	size_t n_pools = 0, n = how->n_leaving;

	t->c = (struct reclaim){ .qs = qs, .w = w, .now = now, .whole = true, .part = how->part, .joins = how->joins, .n_joins = how->n_joins };
	t->how = how;
	rf_queues_settle_tree(qs, now);
	rf_share_fill(qs);
	look_at_clock(qs, now);
	shift_beside(t, 1);
	find_claims(&t->c, how->policy);
	shift_beside(t, -1);
	t->reserved = rf_workload_reserved(qs, w, &t->started) && t->started <= now;
	t->owed = find_owed(qs, w->shape);
	t->had = rf_alloc(RF_MAX(w->shape->n_ask, 1) * sizeof(*t->had));
	for (size_t i = 0; i < w->shape->n_ask; i++)
		t->had[i] = w->shape->leaf->v[RF_V_USED][w->shape->ask[i].resource];
	pools = rf_alloc(qs->order.n * sizeof(*pools));
	for (size_t i = 0; i < qs->order.n; i++) {
		struct rf_queue *q = qs->order.at[i];
		struct pool p = { .leaf = q };

		q->usage = rf_ledger_key(qs, q);
		if (q->running == NULL)
			continue;
		for (const struct rf_workload *v = may_give(t, q) ? q->running : NULL; v != NULL; v = v->next)
			p.n++;
		n += p.n;
		pools[n_pools++] = p;
	}
	if (n_pools > 1)
		qsort(pools, n_pools, sizeof(*pools), by_share);
	t->all = rf_realloc(NULL, RF_MAX(n, 1) * sizeof(*t->all));
	t->gone = rf_alloc(RF_MAX(n, 1) * sizeof(*t->gone));
	list_takes(t, pools, n_pools);
	free(pools);
	return t;
}

bool rf_takes_any(struct rf_queues *qs, const struct rf_workload *w, int64_t now)
{
	int64_t start;

	rf_queues_settle_tree(qs, now);
	if (rf_workload_reserved(qs, w, &start) && start <= now)
		return true;
	for (size_t i = 0; i < qs->n_reserved; i++) {
		if (ended_since(qs, qs->reserved[i].start, now))
			return true;
	}
	for (size_t i = 0; i < qs->order.n; i++) {
		const struct rf_queue *q = qs->order.at[i];

		if (q->running != NULL && q != w->shape->leaf && over_somewhere(qs, q))
			return true;
	}
	return false;
}

void rf_takes_close(struct rf_takes *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < t->n; i++)
		if (t->gone[i] != 0)
			rf_charge_shift(t->all[i].work->shape, t->gone[i]);
	free(t->all);
	free(t->gone);
	free(t->had);
	free(t);
}

const struct rf_take *rf_takes_all(const struct rf_takes *t, size_t *ret_n)
{
	*ret_n = t->n;
	return t->all;
}

uint64_t rf_takes_potential(const struct rf_takes *t)
{
	const struct rf_queues *qs = t->c.qs;
	uint64_t n = 0;

	for (size_t i = 0; i < qs->order.n; i++) {
		for (const struct rf_workload *v = qs->order.at[i]->running; v != NULL; v = v->next)
			n += v->news < qs->news ? (uint64_t)v->members : 0;
	}
	return n;
}

bool rf_takes_may(const struct rf_takes *t, size_t i, int64_t members)
{
	const struct rf_take *k = &t->all[i];
	int64_t left = k->members - t->gone[i];
	bool whole = members == left;

	/* some of those above the minimum, or all */
	if (members > left || (!whole && left - members < k->min))
		return false;
	if (k->kind != RF_TAKE_RECLAIM)
		return k->kind == RF_TAKE_PRIORITY;
	return k->tier == TIER_BACKFILLED || may_take(t, k->work, members, whole, ABOVE_FAIR) ||
	       may_take(t, k->work, members, whole, ABOVE_GUARANTEE) ||
	       may_take(t, k->work, members, whole, STRADDLES);
}

void rf_takes_take(struct rf_takes *t, size_t i, int64_t members)
{
	t->gone[i] += members;
	rf_charge_shift(t->all[i].work->shape, -members);
}

void rf_takes_back(struct rf_takes *t, size_t i, int64_t members)
{
	rf_takes_take(t, i, -members);
}

/* With those that it is to run beside; who is over its guarantee is not judged by these. */
static bool check(const struct rf_takes *t, struct rf_why *why)
{
	const struct rf_shape *s = t->c.w->shape;
	bool ok;

	shift_beside(t, 1);
	ok = rf_charge_check(s, s->min, why) == RF_WHY_RUNNING;
	if (ok && t->c.part > 0)
		ok = rf_charge_check_one(s, (size_t)t->c.part, rf_shape_amount(s), why) == RF_WHY_RUNNING;
	shift_beside(t, -1);
	return ok;
}

bool rf_takes_enough(const struct rf_takes *t)
{
	return check(t, NULL);
}

bool rf_takes_grows(const struct rf_takes *t)
{
	const struct rf_shape *s = t->c.w->shape;

	for (size_t i = 0; i < s->n_ask; i++) {
		size_t r = (size_t)s->ask[i].resource;
		int64_t n = s->ask[i].amount * s->min;

		if ((t->owed >> i & 1) && s->leaf->v[RF_V_USED][r] + n > t->had[i] && !has_more(&t->c, s->leaf, RF_V_GUAR, r, n))
			return true;
	}
	return false;
}

bool rf_takes_helps(const struct rf_takes *t, size_t i)
{
	const struct rf_shape *s = t->all[i].work->shape;
	const struct rf_queue *q = s->leaf;
	struct rf_why why;

	if (check(t, &why) || !asks_for(s, why.resource))
		return false;
	while (why.level != NULL && q != NULL && q != why.level)
		q = q->parent;
	return q != NULL;
}
