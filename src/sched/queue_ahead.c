/* Reservations: large work that waits too long is told when it starts, and nothing that starts
 * meanwhile may change that. */
#include "sched/queue_private.h"

#define OVERDUE_MS (INT64_C(4) * 24 * 3600 * 1000)

/* --- the gate -------------------------------------------------------------------------------- */

static bool in_spare(const struct rf_reservation *v, const struct rf_shape *s, int64_t members)
{
	for (size_t i = 0; i < s->n_ask; i++) {
		if (s->ask[i].amount * members > v->spare[s->ask[i].resource])
			return false;
	}
	return true;
}

static bool ends_before(const struct rf_reservation *v, const struct rf_shape *s, int64_t now)
{
	return s->run_limit > 0 && now + s->run_limit <= v->start;
}

const struct rf_reservation *rf_ahead_gate(const struct rf_queues *qs, const struct rf_workload *w,
					   int64_t members, int64_t now)
{
	const struct rf_shape *s = w->shape;

	for (size_t i = 0; i < qs->n_reserved; i++) {
		const struct rf_reservation *v = &qs->reserved[i];

		if (v->work == w)
			return NULL; /* those after it came later */
		if (!ends_before(v, s, now) && !s->stoppable && !in_spare(v, s, members))
			return v;
	}
	return NULL;
}

void rf_ahead_admitted(struct rf_queues *qs, struct rf_workload *w, int64_t members, int64_t now)
{
	const struct rf_shape *s = w->shape;

	for (size_t i = 0; i < qs->n_reserved; i++)
		if (qs->reserved[i].work == w && qs->reserved[i].forced)
			s->leaf->forced_ms = now;
	rf_ahead_forget(qs, w);
	for (size_t i = 0; i < qs->n_reserved; i++) {
		struct rf_reservation *v = &qs->reserved[i];

		if (ends_before(v, s, now))
			continue;
		if (!in_spare(v, s, members)) {
			w->backfilled = s->stoppable;
			continue;
		}
		for (size_t k = 0; k < s->n_ask; k++)
			v->spare[s->ask[k].resource] -= s->ask[k].amount * members;
	}
}

bool rf_workload_let_past(struct rf_workload *w)
{
	w->backfilled = w->backfilled || (w->members > 0 && w->shape->stoppable);
	return w->backfilled;
}

void rf_ahead_forget(struct rf_queues *qs, const struct rf_workload *w)
{
	for (size_t i = 0; i < qs->n_reserved; i++) {
		if (qs->reserved[i].work != w)
			continue;
		memmove(&qs->reserved[i], &qs->reserved[i + 1],
			(qs->n_reserved - i - 1) * sizeof(qs->reserved[0]));
		qs->n_reserved--;
		rf_order_poke(qs, ~UINT64_C(0) >> (64 - qs->n_res));
		return;
	}
}

struct rf_workload *rf_queues_reserved(const struct rf_queues *qs, size_t i, int64_t *ret_start_ms)
{
	if (i >= qs->n_reserved)
		return NULL;
	*ret_start_ms = qs->reserved[i].start;
	return qs->reserved[i].work;
}

bool rf_workload_reserved(const struct rf_queues *qs, const struct rf_workload *w,
			  int64_t *ret_start_ms)
{
	for (size_t i = 0; i < qs->n_reserved; i++) {
		if (qs->reserved[i].work == w) {
			*ret_start_ms = qs->reserved[i].start;
			return true;
		}
	}
	return false;
}

/* --- looking ahead ---------------------------------------------------------------------------- */

/* Something that holds resources until it ends: running, or reserved for. */
struct holder {
	struct rf_workload *w;
	int64_t end, members;
	size_t victims; /* so many before it run */
};

struct outlook {
	RF_VEC(struct holder) at;	  /* by end */
	size_t gone;			  /* so many of them are out of the books */
	RF_VEC(struct rf_victim) victims; /* those that run; the caller knows no others */
	rf_queue_fits *fits;
	void *ctx;
};

static int by_end(const void *pa, const void *pb)
{
	const struct holder *a = pa, *b = pb;

	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	return a->w->id != b->w->id ? (a->w->id < b->w->id ? -1 : 1) : 0;
}

/* What can be stopped at once counts as gone at once. */
static void list_holders(struct rf_queues *qs, struct outlook *o, int64_t now)
{
	for (size_t i = 0; i < qs->order.n; i++) {
		for (struct rf_workload *w = qs->order.at[i]->running; w != NULL; w = w->next) {
			int64_t end = w->backfilled ? now : RF_MAX(w->end, now);

			rf_vec_push(&o->at, ((struct holder){ w, end, w->members }));
		}
	}
	for (size_t i = 0; i < qs->n_reserved; i++) {
		struct rf_workload *w = qs->reserved[i].work;
		int64_t end = w->shape->run_limit > 0 ? qs->reserved[i].start + w->shape->run_limit
						      : RF_QUEUE_NO_LIMIT;

		rf_vec_push(&o->at, ((struct holder){ w, end, w->shape->min }));
	}
	if (o->at.n > 0)
		qsort(o->at.at, o->at.n, sizeof(o->at.at[0]), by_end);
	for (size_t i = 0; i < o->at.n; i++) {
		struct holder *h = &o->at.at[i];

		h->victims = o->victims.n;
		if (h->w->members > 0)
			rf_vec_push(&o->victims, ((struct rf_victim){ h->w, h->members }));
	}
}

static void go_to(struct outlook *o, size_t gone)
{
	for (; o->gone < gone; o->gone++)
		rf_charge_shift(o->at.at[o->gone].w->shape, -o->at.at[o->gone].members);
	for (; o->gone > gone; o->gone--)
		rf_charge_shift(o->at.at[o->gone - 1].w->shape, o->at.at[o->gone - 1].members);
}

static bool fits_with(struct outlook *o, const struct rf_workload *w, size_t gone)
{
	return o->fits(o->ctx, w, o->victims.at,
		       gone < o->at.n ? o->at.at[gone].victims : o->victims.n);
}

/* The fewest that must have ended, or most + 1. The quotas first: they are cheap. */
static size_t fewest(struct outlook *o, struct rf_workload *w, size_t most)
{
	size_t low = 0, high = most;

	for (;; low++) {
		go_to(o, low);
		if (rf_charge_check(w->shape, w->shape->min, NULL) == RF_WHY_RUNNING)
			break;
		if (low == most)
			return most + 1;
	}
	if (o->fits == NULL || fits_with(o, w, low))
		return low;
	if (!fits_with(o, w, most))
		return most + 1;
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (fits_with(o, w, mid))
			high = mid;
		else
			low = mid;
	}
	return high;
}

static void note_spare(struct rf_queues *qs, struct rf_reservation *v)
{
	struct rf_shape *s = v->work->shape;

	rf_charge_shift(s, s->min);
	for (size_t r = 0; r < qs->n_res; r++) {
		int64_t all = qs->root->v[RF_V_LIMIT][r], foot = qs->root->v[RF_V_FOOT][r];

		v->spare[r] = all == RF_QUEUE_NO_LIMIT ? all : RF_MAX(all - foot, 0);
	}
	rf_charge_shift(s, -s->min);
}

static void reserve(struct rf_queues *qs, struct rf_workload *w, bool forced, int64_t now, rf_queue_fits *fits,
		    void *ctx)
{
	struct rf_reservation *v = &qs->reserved[qs->n_reserved];
	struct outlook o = { .fits = fits, .ctx = ctx };
	size_t most, n;

	/* in the books as if they ran, so that w comes after them */
	for (size_t i = 0; i < qs->n_reserved; i++)
		rf_charge_shift(qs->reserved[i].work->shape, qs->reserved[i].work->shape->min);
	list_holders(qs, &o, now);
	for (most = 0; most < o.at.n && o.at.at[most].end != RF_QUEUE_NO_LIMIT; most++)
		;
	n = fewest(&o, w, most);
	if (n <= most) {
		int64_t start = n == 0 ? now : o.at.at[n - 1].end;

		/* everything that ends by then is gone by then */
		while (n < most && o.at.at[n].end <= start)
			n++;
		go_to(&o, n);
		*v = (struct rf_reservation){ .work = w, .start = start, .forced = forced };
		note_spare(qs, v);
	}
	go_to(&o, 0);
	for (size_t i = 0; i < qs->n_reserved; i++)
		rf_charge_shift(qs->reserved[i].work->shape, -qs->reserved[i].work->shape->min);
	qs->n_reserved += n <= most;
	rf_vec_done(&o.at);
	rf_vec_done(&o.victims);
}

static struct rf_workload *largest(const struct rf_queue *leaf)
{
	return RF_CONTAINER_OF(leaf->large.at[0], struct rf_workload, large);
}

/* What was promised first, as it was. Then in the order in which they would be tried: by share, where their paths part. By age alone, who has
 * had most would have the reservations too. */
static int by_turn(const void *pa, const void *pb)
{
	const struct rf_queue *a = *(struct rf_queue *const *)pa,
			      *b = *(struct rf_queue *const *)pb;
	const struct rf_shape *sa = a->ahead->shape, *sb = b->ahead->shape;
	bool over_a, over_b;

	if (a->promised != b->promised)
		return a->promised < b->promised ? -1 : 1;

	while (a->depth > b->depth)
		a = a->parent;
	while (b->depth > a->depth)
		b = b->parent;
	while (a->parent != b->parent) {
		a = a->parent;
		b = b->parent;
	}
	over_a = rf_order_over(a, sa);
	over_b = rf_order_over(b, sb);
	if (over_a != over_b)
		return over_a ? 1 : -1;
	if (a->usage != b->usage)
		return a->usage < b->usage ? -1 : 1;
	return strcmp(a->name, b->name);
}

static bool takes_part(const struct rf_queues *qs, const struct rf_queue *q)
{
	for (size_t r = 0; r < qs->n_res; r++)
		if (q->v[RF_V_WANT][r] > 0 || q->v[RF_V_USED][r] > 0)
			return true;
	return false;
}

/* Has it, or a queue above it, used clearly more by weight than all who take part beside it? Reservations are beyond
 * the order of the queues: who has large work only would get more than its share by them. */
static bool had_its_share(const struct rf_queues *qs, const struct rf_queue *leaf)
{
	for (const struct rf_queue *q = leaf; q->parent != NULL; q = q->parent) {
		rf_u128 sum = 0;
		int64_t weights = 0;

		for (size_t i = 0; i < q->parent->children.n; i++) {
			const struct rf_queue *c = q->parent->children.at[i];

			if (!takes_part(qs, c))
				continue;
			sum += rf_ledger_key(qs, c) * (uint64_t)c->weight;
			weights += c->weight;
		}
		if (rf_ledger_key(qs, q) / RF_QUEUE_OVER * (RF_QUEUE_OVER - 1) > sum / (uint64_t)weights)
			return true;
	}
	return false;
}

/* Is one of its large ones to be reserved for? What was promised is kept, also when a larger one came. */
static bool has_turn(const struct rf_queues *qs, struct rf_queue *leaf, int64_t now)
{
	const struct rf_workload *w;
	int64_t overdue = qs->c.reserve_overdue_ms > 0 ? qs->c.reserve_overdue_ms : OVERDUE_MS;

	for (size_t i = 0; i < qs->n_reserved; i++) {
		if (qs->reserved[i].work->shape->leaf != leaf)
			continue;
		leaf->ahead = qs->reserved[i].work;
		leaf->promised = i;
		leaf->overdue = qs->reserved[i].forced;
		return true;
	}
	w = leaf->ahead = largest(leaf);
	leaf->promised = SIZE_MAX;
	leaf->overdue = false;
	if (now - w->created < qs->c.reserve_after_ms)
		return false;
	if (!rf_order_over(leaf, w->shape) || !had_its_share(qs, leaf))
		return true;
	leaf->overdue = now - w->created >= overdue && now - leaf->forced_ms >= overdue;
	return leaf->overdue;
}

size_t rf_queues_plan_ahead(struct rf_queues *qs, int64_t now, rf_queue_fits *fits, void *ctx)
{
	RF_VEC(struct rf_queue *) leaves = RF_VEC_INIT;
	size_t before = qs->n_reserved, tried = 0;

	rf_queues_settle_tree(qs, now);
	for (size_t i = 0; i < qs->large.n; i++) {
		struct rf_queue *leaf = qs->large.at[i];

		if (!has_turn(qs, leaf, now))
			continue;
		for (struct rf_queue *q = leaf; q != NULL; q = q->parent)
			q->usage = rf_ledger_key(qs, q);
		rf_vec_push(&leaves, leaf);
	}
	qs->n_reserved = 0;
	if (leaves.n > 1)
		qsort(leaves.at, leaves.n, sizeof(leaves.at[0]), by_turn);
	/* one that cannot be reserved for keeps only so many others from it */
	for (size_t i = 0; i < leaves.n && (int64_t)qs->n_reserved < qs->c.reserve_most &&
			   tried++ < 4 * RF_QUEUE_RESERVATIONS_MAX;
	     i++)
		reserve(qs, leaves.at[i]->ahead, leaves.at[i]->overdue, now, fits, ctx);
	rf_vec_done(&leaves);
	if (qs->n_reserved > 0 || before > 0)
		rf_order_poke(qs, ~UINT64_C(0) >> (64 - qs->n_res));
	return qs->n_reserved;
}

int64_t rf_queues_ahead_ms(const struct rf_queues *qs, int64_t now)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < qs->large.n; i++) {
		int64_t at = largest(qs->large.at[i])->created + qs->c.reserve_after_ms;

		next = at > now ? RF_MIN(next, at) : next;
	}
	return next;
}
