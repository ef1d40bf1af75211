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

static enum rf_why_kind check_one(const struct rf_shape *s, size_t r, int64_t n, struct rf_why *ret)
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
			check_one(s, (size_t)s->ask[i].resource, s->ask[i].amount * members, ret);

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
