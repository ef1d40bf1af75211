/* Why a workload waits: the first thing in its way, in numbers that can be checked again. */
#include <inttypes.h>

#include "sched/queue_private.h"

/* Would a queue on its path stay within its guarantee? Then those beside it who are over theirs must
 * give back. */
static bool entitled(const struct rf_queues *qs, const struct rf_shape *s)
{
	const struct rf_queue *q = s->leaf;

	for (; q->parent != NULL; q = q->parent) {
		bool within = true;

		for (size_t i = 0; i < s->n_ask && within; i++) {
			size_t r = (size_t)s->ask[i].resource;

			/* of which part it will be is not known */
			within = rf_guar_has(qs, q, r, s->ask[i].amount * s->min, 0) ||
				 (r == 0 && s->ask[i].amount * s->min <= rf_guar_left(qs, q));
		}
		if (within)
			return true;
	}
	return false;
}

/* More than the queue could ever have? */
static bool never(const struct rf_why *y, const struct rf_queue *level)
{
	switch (y->kind) {
	case RF_WHY_LIMIT:
	case RF_WHY_CAPACITY:
		return y->need > level->v[RF_V_LIMIT][y->resource];
	case RF_WHY_GUARANTEE:
		return y->need > level->v[RF_V_GUAR][y->resource];
	default:
		return false;
	}
}

static void say_by(const struct rf_queues *qs, const struct rf_shape *s, struct rf_why *y)
{
	const struct rf_queue *level = y->level != NULL ? y->level : qs->root;

	if (never(y, level))
		y->by = RF_WHY_BY_NOBODY;
	else if (y->level != NULL)
		y->by = RF_WHY_BY_OWN;
	else
		y->by = entitled(qs, s) ? RF_WHY_BY_BORROWERS : RF_WHY_BY_OTHERS;
}

static void say_reserved(const struct rf_reservation *v, const struct rf_shape *s,
			 struct rf_why *ret)
{
	*ret = (struct rf_why){ .kind = RF_WHY_RESERVED,
				.by = RF_WHY_BY_OTHERS,
				.resource = s->ask[0].resource,
				.need = s->ask[0].amount * s->min,
				.have = RF_MAX(v->spare[s->ask[0].resource], 0),
				.until_ms = v->start };
	for (size_t i = 0; i < s->n_ask; i++) {
		int64_t need = s->ask[i].amount * s->min, have = v->spare[s->ask[i].resource];

		if (need <= have)
			continue;
		ret->resource = s->ask[i].resource;
		ret->need = need;
		ret->have = RF_MAX(have, 0);
		return;
	}
}

void rf_workload_why(struct rf_queues *qs, const struct rf_workload *w, int64_t now,
		     struct rf_why *ret)
{
	const struct rf_shape *s = w->shape;
	const struct rf_reservation *v;

	rf_queues_settle_amounts(qs);
	*ret = (struct rf_why){ .kind = RF_WHY_RUNNING, .resource = -1 };
	if (w->members > 0)
		return;
	if (rf_charge_check(s, s->min, ret) != RF_WHY_RUNNING) {
		say_by(qs, s, ret);
		return;
	}
	*ret = (struct rf_why){ .kind = RF_WHY_TURN, .by = RF_WHY_BY_OTHERS, .resource = -1 };
	v = rf_ahead_gate(qs, w, s->min, now);
	if (v != NULL)
		say_reserved(v, s, ret);
	else if (rf_order_too_large(qs, s))
		*ret = (struct rf_why){ .kind = RF_WHY_REFUSED,
					.by = RF_WHY_BY_OTHERS,
					.resource = -1,
					.resources = rf_shape_mask(s) };
	else if (s->hold == RF_HOLD_REFUSED)
		*ret = (struct rf_why){ .kind = RF_WHY_REFUSED,
					.by = RF_WHY_BY_OTHERS,
					.resource = -1,
					.resources = s->mask };
}

bool rf_workload_why_of(struct rf_queues *qs, const struct rf_workload *w, int64_t resource, int64_t n, int64_t now,
			struct rf_why *ret)
{
	rf_assert(resource >= 0 && (size_t)resource < qs->n_res);
	rf_queues_settle_tree(qs, now);
	if (rf_charge_check_one(w->shape, (size_t)resource, n, ret) == RF_WHY_RUNNING)
		return false;
	say_by(qs, w->shape, ret);
	return true;
}

bool rf_shape_entitled(struct rf_queues *qs, const struct rf_shape *s, enum rf_reclaim policy)
{
	if (entitled(qs, s))
		return true;
	if (policy != RF_RECLAIM_FAIR)
		return false;
	rf_share_fill(qs);
	for (size_t i = 0; i < s->n_ask; i++) {
		size_t r = (size_t)s->ask[i].resource;

		if (s->leaf->v[RF_V_USED][r] + s->ask[i].amount * s->min > s->leaf->v[RF_V_FAIR][r])
			return false;
	}
	return true;
}

bool rf_workload_entitled(struct rf_queues *qs, const struct rf_workload *w, enum rf_reclaim policy, int64_t now)
{
	rf_queues_settle_tree(qs, now);
	return rf_shape_entitled(qs, w->shape, policy);
}

/* --- checking again ---------------------------------------------------------------------------- */

static int64_t amount_of(const struct rf_shape *s, int64_t resource)
{
	for (size_t i = 0; i < s->n_ask; i++) {
		if (s->ask[i].resource == resource)
			return s->ask[i].amount * s->min;
	}
	return 0;
}

static bool over(int64_t used, int64_t n, int64_t bound)
{
	return bound != RF_QUEUE_NO_LIMIT && used + n > bound;
}

static bool amount_holds(const struct rf_queues *qs, const struct rf_shape *s,
			 const struct rf_why *y)
{
	const struct rf_queue *q = y->level != NULL ? y->level : qs->root;
	size_t r = (size_t)y->resource;
	int64_t n = amount_of(s, y->resource);

	switch (y->kind) {
	case RF_WHY_LIMIT:
	case RF_WHY_CAPACITY:
		return over(q->v[RF_V_USED][r], n, q->v[RF_V_LIMIT][r]);
	case RF_WHY_GUARANTEE:
		return over(q->v[RF_V_FIXED][r], n, q->v[RF_V_GUAR][r]);
	default:
		return over(q->v[RF_V_FOOT][r], y->need,
			    rf_queue_add(q->v[RF_V_GUAR][r], q->v[RF_V_BORROWING][r]));
	}
}

bool rf_workload_why_holds(const struct rf_queues *qs, const struct rf_workload *w, int64_t now,
			   const struct rf_why *y)
{
	if ((w->members > 0) != (y->kind == RF_WHY_RUNNING))
		return false;
	switch (y->kind) {
	case RF_WHY_RUNNING:
		return true;
	case RF_WHY_TURN:
		return w->shape->hold != RF_HOLD_REFUSED && !rf_order_too_large(qs, w->shape) &&
		       rf_charge_check(w->shape, w->shape->min, NULL) == RF_WHY_RUNNING &&
		       rf_ahead_gate(qs, w, w->shape->min, now) == NULL;
	case RF_WHY_REFUSED:
		return rf_order_too_large(qs, w->shape) ||
		       (w->shape->hold == RF_HOLD_REFUSED && w->shape->mask == y->resources);
	case RF_WHY_RESERVED:
		return rf_ahead_gate(qs, w, w->shape->min, now) != NULL;
	default:
		return amount_holds(qs, w->shape, y);
	}
}

/* --- words -------------------------------------------------------------------------------------- */

static const struct {
	const char *kind, *help;
} words[] = {
	[RF_WHY_RUNNING] = { "running", "none" },
	[RF_WHY_TURN] = { "turn", "wait" },
	[RF_WHY_REFUSED] = { "no-place", "wait-or-ask-for-another-shape" },
	[RF_WHY_LIMIT] = { "limit", "wait-for-own-work-or-raise-limit" },
	[RF_WHY_GUARANTEE] = { "guarantee", "make-it-preemptible-or-raise-guarantee" },
	[RF_WHY_BORROWING] = { "borrowing", "wait-for-own-work-or-raise-borrowing-limit" },
	[RF_WHY_CAPACITY] = { "capacity", "wait" },
	[RF_WHY_LENDING] = { "lending", "wait-or-raise-guarantee" },
	[RF_WHY_RESERVED] = { "reserved", "set-a-shorter-run-limit-or-wait" },
};
static const char *const bys[] = { "nobody", "own", "borrowers", "others" };

static const char *help_of(const struct rf_why *y)
{
	if (y->by == RF_WHY_BY_NOBODY && y->kind >= RF_WHY_LIMIT && y->kind <= RF_WHY_CAPACITY)
		return "ask-for-less";
	if (y->by == RF_WHY_BY_BORROWERS)
		return "wait-for-reclaim";
	return words[y->kind].help;
}

static void add_names(struct rf_buf *b, const struct rf_queues *qs, uint64_t mask)
{
	const char *sep = " resources=";

	for (; mask != 0; mask &= mask - 1) {
		rf_buf_printf(b, "%s%s", sep, qs->res_names[__builtin_ctzll(mask)]);
		sep = ",";
	}
}

struct rf_str rf_why_text(struct rf_arena *a, const struct rf_queues *qs, const struct rf_why *y)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_buf_printf(&b, "reason=%s", words[y->kind].kind);
	if (y->resource >= 0) {
		struct rf_str level =
			y->level != NULL ? rf_queue_path(a, y->level) : RF_LIT("(cluster)");

		rf_buf_printf(&b, " resource=%s level=%.*s need=%" PRId64 " have=%" PRId64,
			      qs->res_names[y->resource], RF_STR(level), y->need, y->have);
	}
	add_names(&b, qs, y->resources);
	if (y->kind == RF_WHY_RESERVED)
		rf_buf_printf(&b, " until=%" PRId64, y->until_ms);
	rf_buf_printf(&b, " by=%s help=%s", bys[y->by], help_of(y));
	return rf_arena_str(a, rf_buf_str(&b));
}
