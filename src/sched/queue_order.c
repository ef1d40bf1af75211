/* Whose turn it is. Every queue keeps its children that have something ready in a heap, every leaf
 * its shapes, every shape its workloads; a charge moves one place per level. What cannot run steps
 * aside until something happens that may help. */
#include "sched/queue_private.h"

#define SCAN (4 * RF_QUEUE_TRIES) /* at most so many that stepped aside are looked at in one go */

#define WORK(i) RF_CONTAINER_OF(i, struct rf_workload, item)
#define SHAPE(i) RF_CONTAINER_OF(i, struct rf_shape, item)
#define QUEUE(i) RF_CONTAINER_OF(i, struct rf_queue, item)

/* --- the order ------------------------------------------------------------------------------ */

static bool work_before(const struct rf_workload *a, const struct rf_workload *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	if (a->created != b->created)
		return a->created < b->created;
	return a->id < b->id;
}

bool rf_order_work(const struct rf_heap_item *a, const struct rf_heap_item *b)
{
	return work_before(WORK(a), WORK(b));
}

static bool shape_before(const struct rf_heap_item *a, const struct rf_heap_item *b)
{
	return work_before(WORK(SHAPE(a)->works.at[0]), WORK(SHAPE(b)->works.at[0]));
}


bool rf_order_room(const struct rf_heap_item *ia, const struct rf_heap_item *ib)
{
	const struct rf_shape *a = RF_CONTAINER_OF(ia, struct rf_shape, room);
	const struct rf_shape *b = RF_CONTAINER_OF(ib, struct rf_shape, room);

	return a->need_room != b->need_room ? a->need_room < b->need_room : a->shape < b->shape;
}

static bool key_before(const struct rf_queue *a, const struct rf_queue *b)
{
	return a->key != b->key ? a->key < b->key : strcmp(a->name, b->name) < 0;
}

/* Who may be within its guarantee is looked at first: whether it is depends on what machines have left (pass_next). */
static bool child_before(const struct rf_heap_item *ia, const struct rf_heap_item *ib)
{
	const struct rf_queue *a = QUEUE(ia), *b = QUEUE(ib);

	return a->over != b->over ? b->over : key_before(a, b);
}

void rf_order_leaf(struct rf_queue *q)
{
	q->ready.before = shape_before;
	q->ready.need_at = offsetof(struct rf_shape, need) - offsetof(struct rf_shape, item);
}

void rf_order_parent(struct rf_queue *q)
{
	q->ready.before = child_before;
	q->ready.need_at = offsetof(struct rf_queue, need) - offsetof(struct rf_queue, item);
}

bool rf_order_large(const struct rf_heap_item *ia, const struct rf_heap_item *ib)
{
	const struct rf_workload *a = RF_CONTAINER_OF(ia, struct rf_workload, large);
	const struct rf_workload *b = RF_CONTAINER_OF(ib, struct rf_workload, large);

	if (rf_shape_amount(a->shape) != rf_shape_amount(b->shape))
		return rf_shape_amount(a->shape) > rf_shape_amount(b->shape);
	return a->created != b->created ? a->created < b->created : a->id < b->id;
}

bool rf_order_over(const struct rf_queue *q, const struct rf_shape *s)
{
	for (size_t i = 0; i < s->n_ask; i++) {
		size_t r = (size_t)s->ask[i].resource;

		if (q->v[RF_V_USED][r] + s->ask[i].amount * s->min > q->v[RF_V_GUAR][r])
			return true;
	}
	return false;
}

/* Of whatever is ready below; false where that is not soon known. */
static bool all_over(const struct rf_queue *q)
{
	const struct rf_shape *s = q->first;

	for (size_t i = 0; i < s->n_ask; i++) {
		size_t r = (size_t)s->ask[i].resource;
		int64_t least = q->v[RF_V_LEAST][r];

		if (least > 0 && q->v[RF_V_USED][r] + least > q->v[RF_V_GUAR][r])
			return true;
	}
	if (!rf_queue_is_leaf(q) || q->ready.n > RF_QUEUE_TRIES)
		return false;
	for (size_t i = 0; i < q->ready.n; i++) {
		if (!rf_order_over(q, SHAPE(q->ready.at[i])))
			return false;
	}
	return true;
}

static struct rf_queue_need need_of(const struct rf_queue *q)
{
	return q->ready.n > 0 && !q->more ? q->ready.least[0] : (struct rf_queue_need){ 0 };
}

void rf_order_keys(struct rf_queues *qs, struct rf_queue *q)
{
	q->first = NULL;
	q->need = need_of(q);
	if (q->ready.n == 0)
		return;
	q->first = rf_queue_is_leaf(q) ? SHAPE(q->ready.at[0]) : QUEUE(q->ready.at[0])->first;
	q->over = all_over(q);
	q->key = rf_ledger_key(qs, q);
}

bool rf_order_audit(const struct rf_queue *q)
{
	struct rf_queue_need need = need_of(q);

	return rf_heap_audit(&q->ready) && memcmp(&q->need, &need, sizeof(need)) == 0;
}

void rf_order_path(struct rf_queues *qs, struct rf_queue *leaf)
{
	if (qs->stale || qs->unordered)
		return; /* queues came, went or moved: all of them are put in order when that is settled */
	for (struct rf_queue *q = leaf; q != NULL; q = q->parent) {
		q->vain_at = 0;
		rf_order_keys(qs, q);
		if (q->parent == NULL)
			return;
		if (q->first == NULL)
			rf_heap_del(&q->parent->ready, &q->item);
		else
			rf_heap_put(&q->parent->ready, &q->item);
	}
}

static bool is_deep(const struct rf_queues *qs, const struct rf_queue *leaf)
{
	return rf_queue_shapes(leaf) > qs->deep;
}

/* --- the least that is asked for: lets a full cluster be seen at a glance -------------------- */

static void lower(const struct rf_queues *qs, struct rf_queue *q, const int64_t *need)
{
	for (size_t r = 0; r < qs->n_res; r++)
		q->v[RF_V_LEAST][r] = RF_MIN(q->v[RF_V_LEAST][r], need[r]);
}

static void lower_by(const struct rf_queues *qs, struct rf_queue *first, struct rf_queue *last, const struct rf_shape *s)
{
	int64_t need[RF_QUEUE_RES_MAX] RF_UNINITIALIZED;

	memset(need, 0, qs->n_res * sizeof(need[0]));
	for (size_t i = 0; i < s->n_ask; i++)
		need[s->ask[i].resource] = s->ask[i].amount * s->min;
	for (struct rf_queue *q = first; q != last; q = q->parent)
		lower(qs, q, need);
}

/* What is called back may not be ready at once. */
static void lower_by_aside(const struct rf_queues *qs, struct rf_queue *q)
{
	for (const struct rf_shape *s = q->held; s != NULL; s = s->held_next)
		lower_by(qs, q, q->parent, s);
	for (size_t i = 0; q->n_roomed > 0 && i < 2 * qs->n_res; i++) {
		for (size_t k = 0; k < q->rooms[i].n; k++)
			lower_by(qs, q, q->parent, RF_CONTAINER_OF(q->rooms[i].at[k], struct rf_shape, room));
	}
}

void rf_order_least(struct rf_queues *qs, struct rf_queue *q)
{
	for (size_t r = 0; r < qs->n_res; r++)
		q->v[RF_V_LEAST][r] = RF_QUEUE_NO_LIMIT;
	for (size_t i = 0; i < q->children.n; i++)
		lower(qs, q, q->children.at[i]->v[RF_V_LEAST]);
	if (!rf_queue_is_leaf(q))
		return;
	for (size_t i = 0; i < q->ready.n; i++)
		lower_by(qs, q, q->parent, SHAPE(q->ready.at[i]));
	if (is_deep(qs, q))
		lower_by_aside(qs, q);
}

/* Where it stays too low nothing is passed over that could be. */
void rf_order_least_again(struct rf_queues *qs, struct rf_queue *q)
{
	if (rf_queue_shapes(q) <= 2 * RF_QUEUE_TRIES)
		rf_order_least(qs, q);
}

/* A leaf that is deep from now on: what stepped aside before counts, too. */
static void became_deep(struct rf_queues *qs, struct rf_queue *leaf)
{
	rf_order_least(qs, leaf);
	for (struct rf_queue *q = leaf->parent; q != NULL; q = q->parent)
		lower(qs, q, leaf->v[RF_V_LEAST]);
}

/* --- ready, or aside ------------------------------------------------------------------------ */

static void rest(struct rf_queues *qs, struct rf_queue *leaf)
{
	if (leaf->rests)
		return;
	leaf->rests = true;
	rf_vec_push(&qs->rested, leaf);
}

/* Whether a leaf is in a list follows from its count; the list's order means nothing. */
#define LIST_SET(list, leaf, field, wanted)                                                        \
	do {                                                                                       \
		if ((wanted) && (leaf)->field == 0) {                                              \
			rf_vec_push(list, leaf);                                                   \
			(leaf)->field = (list)->n;                                                 \
		} else if (!(wanted) && (leaf)->field != 0) {                                      \
			(list)->at[(leaf)->field - 1] = (list)->at[(list)->n - 1];                 \
			(list)->at[(leaf)->field - 1]->field = (leaf)->field;                      \
			(list)->n--;                                                               \
			(leaf)->field = 0;                                                         \
		}                                                                                  \
	} while (0)

static void make_ready(struct rf_queues *qs, struct rf_shape *s)
{
	if (s->item.pos == 0)
		lower_by(qs, s->leaf, NULL, s);
	rf_heap_put(&s->leaf->ready, &s->item);
}

static void count_held(struct rf_queues *qs, struct rf_shape *s, bool add)
{
	struct rf_queue *q = s->leaf;

	if (s->hold == RF_HOLD_SOFT)
		q->n_soft += add ? 1 : -1UL;
	if (s->hold == RF_HOLD_REFUSED)
		q->n_refused += add ? 1 : -1UL;
	if (s->room.pos != 0)
		q->n_roomed += add ? 1 : -1UL;
	else
		q->n_held += add ? 1 : -1UL;
	LIST_SET(&qs->soft, q, soft_pos, q->n_soft > 0);
	LIST_SET(&qs->refused, q, refused_pos, q->n_refused > 0);
}

static void link_held(struct rf_shape *s)
{
	struct rf_queue *q = s->leaf;

	s->held_prev = q->held_last;
	s->held_next = NULL;
	if (q->held_last != NULL)
		q->held_last->held_next = s;
	else
		q->held = s;
	q->held_last = s;
}

static void unlink_held(struct rf_shape *s)
{
	struct rf_queue *q = s->leaf;

	if (q->held_look == s)
		q->held_look = s->held_next;
	if (s->held_prev != NULL)
		s->held_prev->held_next = s->held_next;
	else
		q->held = s->held_next;
	if (s->held_next != NULL)
		s->held_next->held_prev = s->held_prev;
	else
		q->held_last = s->held_prev;
	s->held_prev = s->held_next = NULL;
}

/* Two per resource: those the leaf's own limit stops, which only its own work can help, and those
 * that are stopped further up. */
static struct rf_heap *room_heap(const struct rf_queues *qs, const struct rf_shape *s)
{
	struct rf_queue *q = s->leaf;

	if (q->rooms == NULL) {
		q->rooms = rf_alloc(2 * qs->n_res * sizeof(*q->rooms));
		for (size_t i = 0; i < 2 * qs->n_res; i++)
			q->rooms[i].before = rf_order_room;
	}
	return &q->rooms[2 * s->room_res + (s->hold == RF_HOLD_OWN)];
}

/* Why a shape is no longer ready. need > 0: it waits for that much room below all the limits on its
 * path, and comes back when there is; else it is in the leaf's list, to be looked at now and then. */
struct aside {
	struct rf_shape *s;
	enum rf_hold kind;
	uint64_t mask;
	size_t room_res;
	int64_t need;
};

static void hold(struct rf_queues *qs, const struct aside *a)
{
	struct rf_shape *s = a->s;

	if (s->hold != RF_HOLD_NONE)
		return;
	rf_heap_del(&s->leaf->ready, &s->item);
	s->hold = a->kind;
	s->mask = a->mask;
	s->held_at = qs->ticks;
	s->room_res = a->room_res;
	s->need_room = a->need;
	if (a->need > 0)
		rf_heap_put(room_heap(qs, s), &s->room);
	else
		link_held(s);
	count_held(qs, s, true);
}

static void let_go(struct rf_queues *qs, struct rf_shape *s)
{
	if (s->hold == RF_HOLD_NONE)
		return;
	count_held(qs, s, false);
	if (s->room.pos != 0)
		rf_heap_del(room_heap(qs, s), &s->room);
	else
		unlink_held(s);
	s->leaf->to_scan = RF_MIN(s->leaf->to_scan, s->leaf->n_held);
	s->hold = RF_HOLD_NONE;
}

/* What the limits leave, of the leaf only or of all on its path; less than 0 where one is over. */
static int64_t room_for(const struct rf_queue *leaf, size_t r, bool own)
{
	int64_t room = RF_QUEUE_NO_LIMIT;

	for (const struct rf_queue *q = leaf; q != NULL; q = own ? NULL : q->parent) {
		int64_t limit = q->v[RF_V_LIMIT][r];

		if (limit != RF_QUEUE_NO_LIMIT)
			room = RF_MIN(room, limit - q->v[RF_V_USED][r]);
	}
	return room;
}

#define NOT_COUNTED SIZE_MAX
/* Of a deep leaf no more are called back than can be tried soon: those count that are ready and for which some machine
 * may have room. */
static bool wants(const struct rf_queues *qs, const struct rf_queue *leaf, size_t *fit)
{
	if (*fit == NOT_COUNTED)
		*fit = is_deep(qs, leaf) ? rf_heap_fits(&leaf->ready, 0, &qs->most, qs->deep) : 0;
	return *fit < qs->deep;
}

static void call_back(struct rf_queues *qs, struct rf_shape *s, size_t *fit)
{
	let_go(qs, s);
	make_ready(qs, s);
	*fit += !rf_order_too_large(qs, s);
}

/* The smallest first. */
static void pull(struct rf_queues *qs, struct rf_queue *leaf, size_t *fit)
{
	for (size_t i = 0; leaf->n_roomed > 0 && i < 2 * qs->n_res; i++) {
		struct rf_heap *h = &leaf->rooms[i];
		int64_t room = h->n > 0 ? room_for(leaf, i / 2, i % 2 == 1) : 0;

		while (h->n > 0) {
			struct rf_shape *s = RF_CONTAINER_OF(h->at[0], struct rf_shape, room);

			if (s->need_room > room)
				break;
			leaf->more = !wants(qs, leaf, fit);
			if (leaf->more)
				return;
			call_back(qs, s, fit);
		}
	}
}

static bool newer(const uint64_t *at, uint64_t mask, uint64_t than)
{
	for (; mask != 0; mask &= mask - 1) {
		if (at[__builtin_ctzll(mask)] > than)
			return true;
	}
	return false;
}

static bool may_return(const struct rf_queues *qs, const struct rf_shape *s)
{
	if (s->hold == RF_HOLD_OWN)
		return s->leaf->freed > s->held_at;
	return newer(s->hold == RF_HOLD_SOFT ? qs->soft_at : qs->changed_at, s->mask, s->held_at);
}

bool rf_order_resting(const struct rf_queues *qs, const struct rf_shape *s)
{
	return s->hold == RF_HOLD_REFUSED && !may_return(qs, s);
}

/* Brings back what may have been helped, the longest aside first. */
static void refill(struct rf_queues *qs, struct rf_queue *leaf)
{
	size_t fit = NOT_COUNTED;

	leaf->more = false;
	pull(qs, leaf, &fit);
	for (int i = 0; i < SCAN && leaf->to_scan > 0 && wants(qs, leaf, &fit); i++) {
		struct rf_shape *s = leaf->held;

		leaf->to_scan--;
		if (may_return(qs, s)) {
			size_t left = leaf->to_scan;

			call_back(qs, s, &fit);
			leaf->to_scan = left;
		} else {
			unlink_held(s);
			link_held(s);
		}
	}
	leaf->more = leaf->more || leaf->to_scan > 0;
	if (leaf->to_scan > 0 && fit == 0)
		rest(qs, leaf); /* the rest of them when the others had their turn */
}

static void scan(struct rf_queues *qs, struct rf_queue *leaf)
{
	leaf->to_scan = leaf->n_held;
	qs->settled = false;
	refill(qs, leaf);
	rf_order_path(qs, leaf);
}

static void mark(uint64_t *at, uint64_t resources, uint64_t tick)
{
	for (; resources != 0; resources &= resources - 1)
		at[__builtin_ctzll(resources)] = tick;
}

void rf_order_poke(struct rf_queues *qs, uint64_t resources)
{
	mark(qs->soft_at, resources, ++qs->ticks);
	qs->helps++;
	qs->settled = false;
	/* a leaf that is looked at may leave the list, and another takes its place */
	for (size_t i = qs->soft.n; i-- > 0;) {
		if (i < qs->soft.n)
			scan(qs, qs->soft.at[i]);
	}
}

void rf_order_freed(struct rf_queues *qs, struct rf_shape *s)
{
	struct rf_queue *leaf = s->leaf;

	leaf->freed = ++qs->ticks;
	if (leaf->n_held > 0 || leaf->n_roomed > 0)
		scan(qs, leaf);
	rf_order_path(qs, leaf); /* it has less now: also if it has enough ready, and nothing of it was looked at */
	rf_order_poke(qs, rf_shape_mask(s));
}

void rf_queues_changed(struct rf_queues *qs, uint64_t resources)
{
	mark(qs->changed_at, resources, ++qs->ticks);
	for (size_t i = qs->refused.n; i-- > 0;) {
		if (i < qs->refused.n)
			scan(qs, qs->refused.at[i]);
	}
}

void rf_queues_left(struct rf_queues *qs, const struct rf_queue_need *most)
{
	bool more = !rf_need_fits(most, &qs->most);

	qs->most = *most;
	if (!more)
		return;
	qs->helps++;
	qs->settled = false;
}

static void wake_rested(struct rf_queues *qs)
{
	size_t n = qs->rested.n;

	for (size_t i = 0; i < n; i++) {
		struct rf_queue *q = qs->rested.at[i];

		q->rests = false;
		q->tries = q->vain = 0;
	}
	qs->round++;
	for (size_t i = 0; i < n; i++) {
		refill(qs, qs->rested.at[i]);
		rf_order_path(qs, qs->rested.at[i]);
	}
	memmove(qs->rested.at, qs->rested.at + n, (qs->rested.n - n) * sizeof(*qs->rested.at));
	qs->rested.n -= n;
}

/* The amounts changed: whatever stepped aside for them comes back. The caller puts keys right. */
void rf_order_wake_all(struct rf_queues *qs)
{
	rf_vec_clear(&qs->rested);
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&qs->names, m)) != NULL;) {
		struct rf_queue *q = m->value;
		struct rf_shape *next;

		q->rests = false;
		q->tries = q->vain = 0;
		for (struct rf_shape *s = q->held; s != NULL; s = next) {
			next = s->held_next;
			if (s->hold == RF_HOLD_REFUSED)
				continue;
			let_go(qs, s);
			make_ready(qs, s);
		}
		for (size_t i = 0; q->n_roomed > 0 && i < 2 * qs->n_res; i++) {
			while (q->rooms[i].n > 0) {
				struct rf_shape *s =
					RF_CONTAINER_OF(q->rooms[i].at[0], struct rf_shape, room);

				let_go(qs, s);
				make_ready(qs, s);
			}
		}
		q->more = q->to_scan > 0;
		if (q->more)
			rest(qs, q);
	}
	qs->helps++;
	qs->settled = false;
	qs->fresh = NULL;
}

/* --- workloads come and go ------------------------------------------------------------------ */

void rf_order_add(struct rf_queues *qs, struct rf_workload *w)
{
	struct rf_shape *s = w->shape;
	bool deep;

	rf_heap_put(&s->works, &w->item);
	if (qs->c.reserve_after_ms > 0 && rf_shape_amount(s) >= RF_MAX(qs->c.reserve_amount, 1))
		rf_heap_put(&s->leaf->large, &w->large);
	LIST_SET(&qs->large, s->leaf, large_pos, s->leaf->large.n > 0);
	s->leaf->top = s->leaf->waiting_pos == 0 ? w->priority : RF_MAX(s->leaf->top, w->priority);
	LIST_SET(&qs->waiting, s->leaf, waiting_pos, true);
	if (s->hold != RF_HOLD_NONE)
		return;
	deep = is_deep(qs, s->leaf);
	make_ready(qs, s);
	if (!deep && is_deep(qs, s->leaf))
		became_deep(qs, s->leaf);
	rf_order_path(qs, s->leaf);
	if (!qs->settled)
		return;
	if (qs->fresh != NULL && qs->fresh != s->leaf)
		qs->settled = false;
	qs->fresh = s->leaf;
}

void rf_order_take(struct rf_queues *qs, struct rf_workload *w)
{
	struct rf_shape *s = w->shape;

	if (s->works.n == 1)
		rf_heap_del(&s->leaf->ready, &s->item); /* it has no place without a first */
	rf_heap_del(&s->works, &w->item);
	rf_heap_del(&s->leaf->large, &w->large);
	LIST_SET(&qs->large, s->leaf, large_pos, s->leaf->large.n > 0);
	if (s->works.n == 0)
		let_go(qs, s);
	else if (s->hold == RF_HOLD_NONE)
		rf_heap_put(&s->leaf->ready, &s->item);
	LIST_SET(&qs->waiting, s->leaf, waiting_pos, rf_queue_shapes(s->leaf) > 0);
	refill(qs, s->leaf);
}

void rf_order_drop(struct rf_queues *qs, struct rf_workload *w)
{
	rf_order_take(qs, w);
	rf_order_path(qs, w->shape->leaf);
}

void rf_queues_refuse(struct rf_queues *qs, struct rf_workload *w, uint64_t resources)
{
	struct rf_shape *s = w->shape;
	uint64_t all = qs->n_res == 64 ? ~UINT64_C(0) : (UINT64_C(1) << qs->n_res) - 1;

	if (w->members > 0)
		return;
	let_go(qs, s); /* a reserved one may have stepped aside for another reason */
	hold(qs, &(struct aside){ .s = s,
				  .kind = RF_HOLD_REFUSED,
				  .mask = (resources & all) != 0 ? resources & all : all });
	if (++s->leaf->vain >= (is_deep(qs, s->leaf) ? 1 : RF_QUEUE_VAIN))
		rest(qs, s->leaf);
	refill(qs, s->leaf);
	rf_order_path(qs, s->leaf);
}

/* --- all that wait --------------------------------------------------------------------------- */

struct rf_queue *rf_queues_waiting(const struct rf_queues *qs, size_t i)
{
	return i < qs->waiting.n ? qs->waiting.at[i] : NULL;
}

static bool within(const struct rf_queues *qs, const struct rf_queue *leaf, const struct rf_queue *q, enum rf_vec_name bound)
{
	for (size_t r = 0; r < qs->n_res; r++) {
		int64_t least = leaf->v[RF_V_LEAST][r];

		if (r == 0 && bound == RF_V_GUAR ? least > rf_guar_left(qs, q) :
						   least > 0 && (least == RF_QUEUE_NO_LIMIT || q->v[RF_V_USED][r] + least > q->v[bound][r]))
			return false;
	}
	return true;
}

/* By the least that is asked for: false where nothing that waits there is entitled. */
static bool may_claim(struct rf_queues *qs, const struct rf_queue *leaf, enum rf_reclaim policy)
{
	if (!is_deep(qs, leaf))
		return true; /* soon looked through */
	for (const struct rf_queue *q = leaf; q->parent != NULL; q = q->parent) {
		if (within(qs, leaf, q, RF_V_GUAR))
			return true;
	}
	if (policy != RF_RECLAIM_FAIR)
		return false;
	rf_share_fill(qs);
	return within(qs, leaf, leaf, RF_V_FAIR);
}

/* So many of n, from where the last look ended. A round is over when all were looked at once. */
static size_t turn(struct rf_look *l, size_t n, const struct rf_claims *c)
{
	if (l->round != c->round)
		*l = (struct rf_look){ .at = l->at, .left = n, .round = c->round };
	l->at = l->at < n ? l->at : 0;
	return RF_MIN(n, c->most);
}

static size_t step(struct rf_look *l, size_t n)
{
	size_t at = l->at;

	l->at = at + 1 < n ? at + 1 : 0;
	l->left -= l->left > 0;
	return at;
}

static void look_at(struct rf_queues *qs, const struct rf_claims *c, struct rf_shape *s)
{
	if (WORK(s->works.at[0])->priority <= c->above && !rf_shape_entitled(qs, s, c->policy))
		return;
	c->look(c->ctx, WORK(s->works.at[0]));
	for (size_t k = turn(&s->look, s->works.n, c); k > 0; k--)
		c->look(c->ctx, WORK(s->works.at[step(&s->look, s->works.n)]));
}

/* The i-th in any heap of the leaf. */
static struct rf_shape *in_heaps(const struct rf_queues *qs, const struct rf_queue *leaf, size_t i)
{
	if (i < leaf->ready.n)
		return SHAPE(leaf->ready.at[i]);
	i -= leaf->ready.n;
	for (size_t r = 0; leaf->n_roomed > 0 && r < 2 * qs->n_res; i -= leaf->rooms[r++].n) {
		if (i < leaf->rooms[r].n)
			return RF_CONTAINER_OF(leaf->rooms[r].at[i], struct rf_shape, room);
	}
	return NULL;
}

static void look_at_heaps(struct rf_queues *qs, struct rf_queue *leaf, const struct rf_claims *c)
{
	size_t n = rf_queue_shapes(leaf) - leaf->n_held;

	for (size_t k = turn(&leaf->look, n, c); k > 0; k--)
		look_at(qs, c, in_heaps(qs, leaf, step(&leaf->look, n)));
	if (leaf->ready.n > 0)
		look_at(qs, c, SHAPE(leaf->ready.at[0])); /* who comes first is looked at each time */
}

static void look_at_held(struct rf_queues *qs, struct rf_queue *leaf, const struct rf_claims *c)
{
	for (size_t k = turn(&leaf->look_held, leaf->n_held, c); k > 0; k--) {
		struct rf_shape *s = leaf->held_look != NULL ? leaf->held_look : leaf->held;

		leaf->held_look = s->held_next;
		(void)step(&leaf->look_held, leaf->n_held);
		look_at(qs, c, s);
	}
}

bool rf_queue_claims(struct rf_queues *qs, struct rf_queue *leaf, const struct rf_claims *c, int64_t now)
{
	rf_queues_settle_tree(qs, now);
	if (leaf->top <= c->above && !may_claim(qs, leaf, c->policy))
		return false;
	look_at_heaps(qs, leaf, c);
	look_at_held(qs, leaf, c);
	return leaf->look.left > 0 || leaf->look_held.left > 0;
}

/* --- next ------------------------------------------------------------------------------------ */

/* Members with which it may start now, 0: not at all, and where to step aside if it should. */
static int64_t test(const struct rf_queues *qs, struct rf_shape *s, int64_t now, struct aside *ret)
{
	const struct rf_workload *w = WORK(s->works.at[0]);
	struct rf_why why;
	int64_t most;

	*ret = (struct aside){ .s = s, .kind = RF_HOLD_SOFT, .mask = rf_shape_mask(s) };
	if (rf_charge_check(s, s->min, &why) != RF_WHY_RUNNING) {
		if (why.level == s->leaf)
			ret->kind = RF_HOLD_OWN;
		if (why.kind == RF_WHY_LIMIT || why.kind == RF_WHY_CAPACITY) {
			ret->room_res = (size_t)why.resource;
			ret->need = why.need;
		}
		return 0;
	}
	if (qs->n_reserved > 0 && rf_ahead_gate(qs, w, s->min, now) != NULL)
		return 0;
	most = s->size > s->min ? rf_charge_most(s) : s->min;
	if (most > s->min && qs->n_reserved > 0 && rf_ahead_gate(qs, w, most, now) != NULL)
		most = s->min;
	return most;
}

static struct rf_shape *first_of(struct rf_queues *qs, const struct rf_queue *q);

/* The children of a queue of which something may fit, in order. peek: also those of which nothing may be tried now. */
static struct rf_pass *pass_start(struct rf_queues *qs, const struct rf_queue *q, bool peek)
{
	struct rf_pass *p = &qs->passes[q->depth];

	p->peek = peek;
	p->known = false;
	rf_walk_start(&p->walk, &q->ready, &qs->most);
	rf_vec_clear(&p->late);
	p->n_late = 0;
	return p;
}

static struct rf_queue *next_child(struct rf_pass *p)
{
	if (!p->known)
		p->next = rf_walk_next(&p->walk);
	p->known = true;
	return p->next != NULL ? QUEUE(p->next) : NULL;
}

static bool is_idle(const struct rf_queues *qs, const struct rf_queue *q)
{
	return q->rests || q->vain_at == qs->helps;
}

/* First who stays within its guarantee with what comes first of it, of all that fits: a place in the heap is only the
 * best that it may have, and whether it has is seen when its turn comes. */
static struct rf_queue *pass_within(struct rf_queues *qs, struct rf_pass *p)
{
	for (struct rf_queue *q; (q = next_child(p)) != NULL && !q->over;) {
		const struct rf_shape *s;

		p->known = false;
		if (!p->peek && is_idle(qs, q))
			continue;
		s = first_of(qs, q);
		if (s != NULL && !rf_order_over(q, s))
			return q;
		rf_vec_push(&p->late, q);
	}
	return NULL;
}

static struct rf_queue *pass_next(struct rf_queues *qs, struct rf_pass *p, bool within)
{
	struct rf_queue *q = pass_within(qs, p), *late = p->n_late < p->late.n ? p->late.at[p->n_late] : NULL;

	if (q != NULL || within)
		return q;
	q = next_child(p);
	if (late != NULL && (q == NULL || key_before(late, q))) {
		p->n_late++;
		return late;
	}
	p->known = false;
	return q;
}

/* Who comes first below of those for whom some machine may have room; NULL: nobody. */
static struct rf_shape *first_of(struct rf_queues *qs, const struct rf_queue *q)
{
	struct rf_shape *first = NULL;
	struct rf_heap_item *i;
	struct rf_pass *p;

	if (q->first == NULL || !rf_need_fits(&q->need, &qs->most))
		return NULL;
	if (!rf_queue_is_leaf(q)) {
		p = pass_start(qs, q, true);
		for (struct rf_queue *c; first == NULL && (c = pass_next(qs, p, false)) != NULL;)
			first = first_of(qs, c);
		return first;
	}
	if (!rf_order_too_large(qs, q->first))
		return q->first;
	rf_walk_start(&qs->passes[q->depth].walk, &q->ready, &qs->most);
	i = rf_walk_next(&qs->passes[q->depth].walk);
	return i != NULL ? SHAPE(i) : NULL;
}

static struct rf_workload *visit_leaf(struct rf_queues *qs, struct rf_queue *q, bool within,
				      int64_t now, int64_t *ret_members)
{
	struct rf_walk *walk = &qs->passes[q->depth].walk;
	bool deep = is_deep(qs, q);
	size_t most = deep ? RF_QUEUE_VAIN : RF_QUEUE_TRIES;
	struct aside aside[RF_QUEUE_TRIES] RF_UNINITIALIZED;
	struct rf_workload *found = NULL;
	size_t n = 0;

	if (q->more && first_of(qs, q) == NULL) {
		refill(qs, q);
		rf_vec_push(&qs->touched, q);
		return NULL;
	}
	rf_walk_start(walk, &q->ready, &qs->most);
	for (struct rf_heap_item *i; found == NULL && (i = rf_walk_next(walk)) != NULL;) {
		if (within && rf_order_over(q, SHAPE(i)))
			continue;
		*ret_members = test(qs, SHAPE(i), now, &aside[n]);
		if (*ret_members > 0) {
			found = WORK(SHAPE(i)->works.at[0]);
			break;
		}
		if (aside[n].kind != RF_HOLD_OWN && !deep)
			continue;
		q->tries++;
		if (++n < RF_COUNT(aside) && q->tries < most)
			continue;
		rest(qs, q);
		break;
	}
	for (size_t i = 0; i < n; i++)
		hold(qs, &aside[i]);
	if (n > 0) {
		refill(qs, q);
		rf_vec_push(&qs->touched, q);
	}
	return found;
}

/* Not even the smallest that waits below would fit. */
static bool full(const struct rf_queues *qs, const struct rf_queue *q)
{
	for (size_t r = 0; r < qs->n_res; r++) {
		int64_t least = q->v[RF_V_LEAST][r];

		if (least > 0 && q->v[RF_V_LIMIT][r] != RF_QUEUE_NO_LIMIT &&
		    least > q->v[RF_V_LIMIT][r] - q->v[RF_V_USED][r])
			return true;
	}
	return false;
}

/* within: only what stays within its guarantee. Who has such comes before who has not. What was looked through in vain is
 * not looked at again until something helps; what others start helps nobody. */
static struct rf_workload *visit(struct rf_queues *qs, struct rf_queue *q, bool within, int64_t now,
				 int64_t *ret_members)
{
	bool leaf = rf_queue_is_leaf(q) && q->parent != NULL;
	struct rf_workload *found = NULL;
	struct rf_pass *p;

	if (is_idle(qs, q) || !rf_need_fits(&q->need, &qs->most) || (!leaf && full(qs, q)))
		return NULL;
	if (leaf) {
		found = visit_leaf(qs, q, within, now, ret_members);
	} else {
		p = pass_start(qs, q, false);
		for (struct rf_queue *c; found == NULL && (c = pass_next(qs, p, within)) != NULL;)
			found = visit(qs, c, within, now, ret_members);
	}
	if (found == NULL && !within)
		q->vain_at = qs->helps;
	return found;
}

static bool path_over(struct rf_queues *qs, const struct rf_queue *q)
{
	for (; q->parent != NULL; q = q->parent) {
		const struct rf_shape *s = q->over ? NULL : first_of(qs, q);

		if (q->over || (s != NULL && rf_order_over(q, s)))
			return true;
	}
	return false;
}

/* The heaps above must stand still while they are walked. Where something stepped aside the order may
 * be another, and it starts again. */
static struct rf_workload *visit_from(struct rf_queues *qs, struct rf_queue *q, int64_t now,
				      int64_t *ret_members)
{
	for (;;) {
		struct rf_workload *w = NULL;

		if (!path_over(qs, q))
			w = visit(qs, q, true, now, ret_members);
		if (w == NULL && qs->touched.n == 0)
			w = visit(qs, q, false, now, ret_members);
		if (qs->touched.n == 0)
			return w;
		for (size_t i = 0; i < qs->touched.n; i++)
			rf_order_path(qs, qs->touched.at[i]);
		rf_vec_clear(&qs->touched);
	}
}

static struct rf_workload *reserved_first(struct rf_queues *qs, int64_t now, int64_t *ret_members)
{
	for (size_t i = 0; i < qs->n_reserved; i++) {
		struct rf_workload *w = qs->reserved[i].work;
		struct rf_shape *s = w->shape;

		if (rf_order_resting(qs, s) || rf_order_too_large(qs, s) || rf_charge_check(s, s->min, NULL) != RF_WHY_RUNNING ||
		    rf_ahead_gate(qs, w, s->min, now) != NULL)
			continue;
		*ret_members = s->min;
		return w;
	}
	return NULL;
}

struct rf_workload *rf_queues_next(struct rf_queues *qs, int64_t now, int64_t *ret_members)
{
	struct rf_workload *w;

	rf_queues_settle_tree(qs, now);
	w = reserved_first(qs, now, ret_members);
	if (w != NULL)
		return w;
	if (qs->settled && qs->rested.n == 0) {
		w = qs->fresh != NULL ? visit_from(qs, qs->fresh, now, ret_members) : NULL;
		if (w != NULL || qs->rested.n == 0) {
			qs->fresh = w != NULL ? qs->fresh : NULL;
			return w;
		}
	}
	qs->settled = false;
	qs->fresh = NULL;
	for (;;) {
		w = visit_from(qs, qs->root, now, ret_members);
		/* who had its turn in this round lets those who rest have theirs */
		if (w != NULL && (qs->rested.n == 0 || w->shape->leaf->turn != qs->round))
			return w;
		if (qs->rested.n == 0)
			break;
		wake_rested(qs);
	}
	qs->settled = true;
	return NULL;
}
