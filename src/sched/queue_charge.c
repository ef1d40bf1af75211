/* The books: what is charged to a leaf is charged to every queue above it. */
#include "sched/queue_private.h"

void rf_charge_foot(struct rf_queue *q, size_t r)
{
	int64_t uses = rf_queue_is_leaf(q) ? q->v[RF_V_USED][r] : q->v[RF_V_BELOW][r];

	q->v[RF_V_FOOT][r] = RF_MAX(uses, q->v[RF_V_LOCAL][r]);
}

void rf_charge_shift_one(const struct rf_shape *s, size_t r, int64_t n)
{
	for (struct rf_queue *q = s->leaf; q != NULL; q = q->parent) {
		int64_t before = q->v[RF_V_FOOT][r];

		q->v[RF_V_USED][r] += n;
		q->v[RF_V_FIXED][r] += s->preemptible ? 0 : n;
		rf_charge_foot(q, r);
		if (q->parent != NULL)
			q->parent->v[RF_V_BELOW][r] += q->v[RF_V_FOOT][r] - before;
	}
}

void rf_charge_shift(struct rf_shape *s, int64_t members)
{
	for (size_t i = 0; i < s->n_ask; i++)
		rf_charge_shift_one(s, (size_t)s->ask[i].resource, s->ask[i].amount * members);
}

/* What is left below a bound, never less than 0. */
static int64_t left(int64_t bound, int64_t used)
{
	if (bound == RF_QUEUE_NO_LIMIT)
		return RF_QUEUE_NO_LIMIT;
	return bound > used ? bound - used : 0;
}

static enum rf_why_kind no(struct rf_why *ret, enum rf_why_kind kind, const struct rf_queue *q,
			   size_t r, int64_t need, int64_t have)
{
	if (ret != NULL)
		*ret = (struct rf_why){ .kind = kind,
					.resource = (int64_t)r,
					.level = q->parent != NULL ? q : NULL,
					.need = need,
					.have = have };
	return kind;
}

enum rf_why_kind rf_charge_check_one(const struct rf_shape *s, size_t r, int64_t n, struct rf_why *ret)
{
	int64_t rise = n;

	for (const struct rf_queue *q = s->leaf; q != NULL; q = q->parent) {
		int64_t have = left(q->v[RF_V_LIMIT][r], q->v[RF_V_USED][r]);
		int64_t uses = rf_queue_is_leaf(q) ? q->v[RF_V_USED][r] : q->v[RF_V_BELOW][r];
		int64_t foot = q->v[RF_V_FOOT][r], bound;

		if (n > have)
			return no(ret, q->parent != NULL ? RF_WHY_LIMIT : RF_WHY_CAPACITY, q, r, n,
				  have);
		have = left(q->v[RF_V_GUAR][r], q->v[RF_V_FIXED][r]);
		if (!s->preemptible && q->parent != NULL && n > have)
			return no(ret, RF_WHY_GUARANTEE, q, r, n, have);
		if (rise == 0)
			continue;
		rise = RF_MAX(uses + rise, foot) - foot;
		bound = rf_queue_add(q->v[RF_V_GUAR][r], q->v[RF_V_BORROWING][r]);
		have = left(bound, foot);
		if (rise > have)
			return no(ret, q->parent != NULL ? RF_WHY_BORROWING : RF_WHY_LENDING, q, r,
				  rise, have);
	}
	return RF_WHY_RUNNING;
}

enum rf_why_kind rf_charge_check(const struct rf_shape *s, int64_t members, struct rf_why *ret)
{
	for (size_t i = 0; i < s->n_ask; i++) {
		enum rf_why_kind why =
			rf_charge_check_one(s, (size_t)s->ask[i].resource, s->ask[i].amount * members, ret);

		if (why != RF_WHY_RUNNING)
			return why;
	}
	return RF_WHY_RUNNING;
}

int64_t rf_charge_most(const struct rf_shape *s)
{
	int64_t good = 0, bad = s->size + 1;

	while (bad - good > 1) {
		int64_t mid = bad == s->size + 1 && good == 0 ? s->size : good + (bad - good) / 2;

		if (rf_charge_check(s, mid, NULL) == RF_WHY_RUNNING)
			good = mid;
		else
			bad = mid;
	}
	return good;
}

int64_t rf_queues_room(struct rf_queues *qs, const struct rf_queue *leaf, int64_t resource, bool preemptible,
		       int64_t now)
{
	size_t r = (size_t)resource;
	int64_t room = RF_QUEUE_NO_LIMIT, kept = 0; /* what the queues below do not lend rises nowhere */

	rf_assert(r < qs->n_res);
	rf_queues_settle_tree(qs, now);
	for (const struct rf_queue *q = leaf; q != NULL; q = q->parent) {
		int64_t uses = rf_queue_is_leaf(q) ? q->v[RF_V_USED][r] : q->v[RF_V_BELOW][r];
		int64_t bound = rf_queue_add(q->v[RF_V_GUAR][r], q->v[RF_V_BORROWING][r]);

		room = RF_MIN(room, left(q->v[RF_V_LIMIT][r], q->v[RF_V_USED][r]));
		if (!preemptible && q->parent != NULL)
			room = RF_MIN(room, left(q->v[RF_V_GUAR][r], q->v[RF_V_FIXED][r]));
		kept += q->v[RF_V_FOOT][r] - uses;
		room = RF_MIN(room, rf_queue_add(left(bound, q->v[RF_V_FOOT][r]), kept));
	}
	return room;
}

/* What a queue has for itself beyond what is used or kept below it. */
static int64_t idle(const struct rf_queue *q, size_t r)
{
	return q->v[RF_V_FOOT][r] - (rf_queue_is_leaf(q) ? q->v[RF_V_USED][r] : q->v[RF_V_BELOW][r]);
}

int64_t rf_queues_kept(struct rf_queues *qs, const struct rf_queue *leaf, int64_t resource, int64_t now)
{
	size_t r = (size_t)resource;
	int64_t kept;

	rf_assert(r < qs->n_res);
	rf_queues_settle_tree(qs, now);
	kept = qs->root->v[RF_V_BELOW][r] - qs->root->v[RF_V_USED][r];
	for (const struct rf_queue *q = leaf; q->parent != NULL; q = q->parent)
		kept -= idle(q, r);
	return kept;
}

uint64_t rf_queues_keep(struct rf_queues *qs, int64_t now)
{
	rf_queues_settle_tree(qs, now);
	return qs->keeps;
}

static bool is_above(const struct rf_queue *q, const struct rf_queue *leaf)
{
	while (leaf != NULL && leaf != q)
		leaf = leaf->parent;
	return leaf == q;
}

int64_t rf_queues_kept_first(struct rf_queues *qs, const struct rf_queue *leaf, int64_t now)
{
	int64_t kept = 0;

	rf_queues_settle_tree(qs, now);
	if ((qs->keeps & qs->parts) == 0)
		return rf_queues_kept(qs, leaf, 0, now);
	for (size_t i = 0; i < qs->order.n; i++) {
		const struct rf_queue *q = qs->order.at[i];
		int64_t parts = 0;

		if (q->parent == NULL || is_above(q, leaf))
			continue;
		for (uint64_t left = qs->keeps & qs->parts; left != 0; left &= left - 1)
			parts += idle(q, (size_t)__builtin_ctzll(left));
		kept += RF_MAX(idle(q, 0), parts);
	}
	return kept;
}

void rf_queues_keepers(struct rf_queues *qs, const struct rf_queue *leaf, int64_t resource, int64_t now, rf_queue_keeps *each, void *ctx)
{
	size_t r = (size_t)resource;

	rf_assert(r < qs->n_res);
	rf_queues_settle_tree(qs, now);
	for (size_t i = 0; i < qs->order.n; i++) {
		const struct rf_queue *q = qs->order.at[i];

		if (q->parent != NULL && idle(q, r) > 0 && !is_above(q, leaf))
			each(ctx, q, idle(q, r));
	}
}

int64_t rf_queues_unused(struct rf_queues *qs, int64_t resource, int64_t now)
{
	rf_assert(resource >= 0 && (size_t)resource < qs->n_res);
	rf_queues_settle_tree(qs, now);
	return left(qs->root->v[RF_V_LIMIT][resource], qs->root->v[RF_V_USED][resource]);
}

/* --- guarantees ------------------------------------------------------------------------------ */

/* What is guaranteed of the first resource for any part of it: less what is promised by name. What is used of a part within
 * its own guarantee does not count against it. */

#define FOR_PARTS(qs, p) for (uint64_t left_ = (qs)->parts, p; left_ != 0 && (p = (uint64_t)__builtin_ctzll(left_), true); left_ &= left_ - 1)

int64_t rf_guar_over(const struct rf_queues *qs, const struct rf_queue *q)
{
	int64_t any = q->v[RF_V_GUAR][0], used = q->v[RF_V_USED][0];

	if (any == RF_QUEUE_NO_LIMIT)
		return -RF_QUEUE_NO_LIMIT;
	FOR_PARTS(qs, p)
	{
		any -= q->v[RF_V_NAMED][p];
		used -= RF_MIN(q->v[RF_V_USED][p], q->v[RF_V_NAMED][p]);
	}
	return used - RF_MAX(any, 0);
}

static int64_t named_left(const struct rf_queue *q, size_t part)
{
	return left(q->v[RF_V_NAMED][part], q->v[RF_V_USED][part]);
}

bool rf_guar_has(const struct rf_queues *qs, const struct rf_queue *q, size_t r, int64_t n, int64_t part)
{
	if (qs->parts >> r & 1)
		return true; /* judged by the first */
	if (r != 0)
		return q->v[RF_V_USED][r] + n <= q->v[RF_V_GUAR][r];
	n -= part > 0 ? RF_MIN(n, named_left(q, (size_t)part)) : 0;
	return n == 0 || rf_guar_over(qs, q) + n <= 0;
}

int64_t rf_guar_left(const struct rf_queues *qs, const struct rf_queue *q)
{
	int64_t over = rf_guar_over(qs, q), n = over < 0 ? -over : 0;

	FOR_PARTS(qs, p)
	n = rf_queue_add(n, named_left(q, p));
	return n;
}

static int64_t amount_in(const struct rf_queue_ask *asks, size_t n, size_t r)
{
	for (size_t i = 0; i < n; i++)
		if ((size_t)asks[i].resource == r)
			return asks[i].amount;
	return 0;
}

bool rf_queue_over(struct rf_queues *qs, const struct rf_queue *q, const struct rf_queue_ask *held, size_t n_held,
		   const struct rf_queue_ask *less, size_t n_less)
{
	bool over = false, first = false;

	rf_queues_settle_amounts(qs);
	for (size_t i = 0; i < n_less; i++)
		q->v[RF_V_USED][less[i].resource] -= less[i].amount;
	for (size_t i = 0; i < n_held; i++) {
		size_t r = (size_t)held[i].resource;

		first = first || r == 0;
		over = over || (r != 0 && !(qs->parts >> r & 1) && q->v[RF_V_USED][r] > q->v[RF_V_GUAR][r]);
	}
	first = first && rf_guar_over(qs, q) > 0;
	FOR_PARTS(qs, p)
	{
		if (amount_in(held, n_held, p) > 0 && q->v[RF_V_USED][p] <= q->v[RF_V_NAMED][p])
			first = false; /* of this it has no more than it is guaranteed by name */
	}
	for (size_t i = 0; i < n_less; i++)
		q->v[RF_V_USED][less[i].resource] += less[i].amount;
	return over || first;
}

int64_t rf_queue_over_by(struct rf_queues *qs, const struct rf_queue *q, int64_t resource)
{
	rf_queues_settle_amounts(qs);
	if (resource == 0)
		return rf_guar_over(qs, q);
	return qs->parts >> resource & 1 ? 0 : q->v[RF_V_USED][resource] - q->v[RF_V_GUAR][resource];
}

const struct rf_queue *rf_queue_parent(const struct rf_queue *q)
{
	return q->parent != NULL && q->parent->parent != NULL ? q->parent : NULL;
}

bool rf_queue_part_owed(struct rf_queues *qs, const struct rf_queue *q, int64_t part)
{
	rf_queues_settle_amounts(qs);
	for (; q != NULL && q->parent != NULL; q = q->parent)
		if (named_left(q, (size_t)part) > 0)
			return true;
	return false;
}

/* Fixed when work starts, so that a change of the capacity later does not change the past. */
uint64_t rf_charge_bill(const struct rf_queues *qs, const struct rf_shape *s, int64_t members)
{
	uint64_t bill = 1;

	for (size_t i = 0; i < s->n_ask; i++) {
		int64_t all = qs->root->v[RF_V_LIMIT][s->ask[i].resource];
		int64_t n = RF_MIN(s->ask[i].amount * members, all);
		uint64_t part;

		if (all == RF_QUEUE_NO_LIMIT || all == 0)
			continue;
		part = (uint64_t)(((rf_u128)(uint64_t)n << 32) / (uint64_t)all);
		bill = RF_MAX(bill, part);
	}
	return bill;
}
