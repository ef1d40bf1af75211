/* Workloads: what may be submitted, and how it starts, changes and ends. */
#include "sched/queue_private.h"

#define TIME_MAX (INT64_C(1) << 60) /* later than anything, and can be added to */

static void want(struct rf_workload *w, int64_t sign)
{
	const struct rf_shape *s = w->shape;

	for (size_t i = 0; i < s->n_ask; i++) {
		for (struct rf_queue *q = s->leaf; q != NULL; q = q->parent)
			q->v[RF_V_WANT][s->ask[i].resource] += sign * s->ask[i].amount * s->size;
	}
}

static void set_rate(struct rf_queues *qs, struct rf_queue *leaf, uint64_t add, uint64_t sub,
		     int64_t now)
{
	for (struct rf_queue *q = leaf; q != NULL; q = q->parent) {
		rf_ledger_to(qs, q, now);
		q->rate += add;
		q->rate -= sub;
	}
	qs->fair_stale = true;
}

static void start(struct rf_queues *qs, struct rf_workload *w, int64_t members, int64_t started,
		  uint64_t bill, int64_t now)
{
	struct rf_queue *leaf = w->shape->leaf;

	w->members = members;
	w->started = started;
	w->news = qs->news;
	w->end = w->shape->run_limit > 0 ? started + w->shape->run_limit : RF_QUEUE_NO_LIMIT;
	w->bill = bill > 0 ? bill : rf_charge_bill(qs, w->shape, members);
	w->prev = NULL;
	w->next = leaf->running;
	if (w->next != NULL)
		w->next->prev = w;
	leaf->running = w;
	leaf->n_min_runs += w->min_run > 0;
	rf_charge_shift(w->shape, members);
	set_rate(qs, leaf, w->bill, 0, now);
}

static void stop(struct rf_queues *qs, struct rf_workload *w, int64_t now)
{
	struct rf_queue *leaf = w->shape->leaf;

	if (w->prev != NULL)
		w->prev->next = w->next;
	else
		leaf->running = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	w->prev = w->next = NULL;
	leaf->n_min_runs -= w->min_run > 0;
	rf_charge_shift(w->shape, -w->members);
	set_rate(qs, leaf, 0, w->bill, now);
	w->members = 0;
	w->bill = 0;
	w->backfilled = false;
}

/* What makes workloads of a leaf alike. Compared as bytes: no padding. */
struct shape_key {
	uint64_t leaf, shape;
	int64_t min, size, run_limit, kind;
};

static int64_t kind_of(bool preemptible, bool stoppable, const struct rf_queue_need *need)
{
	const struct rf_queue_need none = { 0 };

	return (preemptible ? (stoppable ? 2 : 1) : 0) | (memcmp(need, &none, sizeof(none)) != 0 ? 4 : 0);
}

static struct shape_key key_of(const struct rf_queue *q, const struct rf_workload_spec *s)
{
	return (struct shape_key){ q->serial, s->shape,	       s->min,
				   s->size,   s->run_limit_ms, kind_of(s->preemptible, s->min_run_ms == 0, &s->need) };
}

static int check_ask(const struct rf_queues *qs, const struct rf_workload_spec *s,
		     struct rf_err *err)
{
	uint64_t seen = 0;

	if (s->n_ask == 0 || s->n_ask > RF_QUEUE_ASK_MAX)
		return rf_fail(err, RF_INVALID,
			       "workload %llu asks for %zu resources; 1 to %d are possible",
			       (unsigned long long)s->id, s->n_ask, RF_QUEUE_ASK_MAX);
	for (size_t i = 0; i < s->n_ask; i++) {
		const struct rf_queue_ask *a = &s->ask[i];

		if (a->resource < 0 || (size_t)a->resource >= qs->n_res)
			return rf_fail(err, RF_INVALID,
				       "workload %llu asks for resource %lld, which is not known",
				       (unsigned long long)s->id, (long long)a->resource);
		if (a->amount < 1 || a->amount > RF_QUEUE_AMOUNT_MAX / s->size)
			return rf_fail(err, RF_INVALID,
				       "workload %llu asks for %lld of %s; 1 to %lld over all its "
				       "members are possible",
				       (unsigned long long)s->id, (long long)a->amount,
				       qs->res_names[a->resource], (long long)RF_QUEUE_AMOUNT_MAX);
		if (seen >> a->resource & 1)
			return rf_fail(err, RF_INVALID, "workload %llu asks for %s twice", (unsigned long long)s->id,
				       qs->res_names[a->resource]);
		seen |= UINT64_C(1) << a->resource;
	}
	return 0;
}

/* So that no sum can overflow. A queue has its part of the numbers whatever others ask for. */
static int check_sums(const struct rf_queues *qs, const struct rf_queue *q,
		      const struct rf_workload_spec *s, struct rf_err *err)
{
	const int64_t all = INT64_C(1) << 61;

	for (size_t i = 0; i < s->n_ask; i++) {
		size_t r = (size_t)s->ask[i].resource;
		int64_t n = s->ask[i].amount * s->size;
		int64_t total = qs->root->v[RF_V_USED][r] + qs->root->v[RF_V_WANT][r];
		int64_t own = q->v[RF_V_USED][r] + q->v[RF_V_WANT][r];

		if (total + n > all && own + n > all / RF_QUEUES_MAX)
			return rf_fail(err, RF_EXHAUSTED,
				       "workload %llu: queue %s asks for %lld of %s already; wait "
				       "until some of that has ended",
				       (unsigned long long)s->id, q->name, (long long)own,
				       qs->res_names[r]);
	}
	return 0;
}

static int check_work(const struct rf_queues *qs, const struct rf_queue *q,
		      const struct rf_workload_spec *s, struct rf_err *err)
{
	if (!rf_queue_is_leaf(q))
		return rf_fail(err, RF_INVALID,
			       "workload %llu: queue %s has queues below it; name one of these",
			       (unsigned long long)s->id, q->name);
	if (s->min < 1 || s->size < s->min || s->size > RF_QUEUE_MEMBERS_MAX)
		return rf_fail(err, RF_INVALID,
			       "workload %llu: a gang of %lld to %lld; 1 to %d are possible",
			       (unsigned long long)s->id, (long long)s->min, (long long)s->size,
			       RF_QUEUE_MEMBERS_MAX);
	if (s->created_ms < 0 || s->created_ms > TIME_MAX)
		return rf_fail(err, RF_INVALID, "workload %llu: it was not created at %lld ms",
			       (unsigned long long)s->id, (long long)s->created_ms);
	if (s->min_run_ms < 0 || s->min_run_ms > RF_QUEUE_MS_MAX || s->run_limit_ms < 0 ||
	    s->run_limit_ms > RF_QUEUE_MS_MAX)
		return rf_fail(err, RF_INVALID,
			       "workload %llu: a length of time is below 0 or above %lld ms",
			       (unsigned long long)s->id, (long long)RF_QUEUE_MS_MAX);
	if (qs->n_works >= RF_QUEUE_WORKS_MAX)
		return rf_fail(err, RF_EXHAUSTED, "workload %llu: there are %d already",
			       (unsigned long long)s->id, RF_QUEUE_WORKS_MAX);
	if (check_ask(qs, s, err) < 0)
		return -err->code;
	return check_sums(qs, q, s, err);
}

static bool same_ask(const struct rf_shape *shape, const struct rf_workload_spec *s)
{
	if (shape->n_ask != s->n_ask || memcmp(&shape->need, &s->need, sizeof(s->need)) != 0)
		return false;
	for (size_t i = 0; i < s->n_ask; i++) {
		if (shape->ask[i].resource != s->ask[i].resource ||
		    shape->ask[i].amount != s->ask[i].amount)
			return false;
	}
	return true;
}

static struct rf_shape *new_shape(struct rf_queue *q, const struct rf_workload_spec *s)
{
	struct rf_shape *shape = rf_alloc(sizeof(*shape) + s->n_ask * sizeof(shape->ask[0]));

	shape->leaf = q;
	shape->shape = s->shape;
	shape->min = s->min;
	shape->size = s->size;
	shape->run_limit = s->run_limit_ms;
	shape->preemptible = s->preemptible;
	shape->stoppable = s->preemptible && s->min_run_ms == 0;
	shape->need = s->need;
	shape->works.before = rf_order_work;
	shape->n_ask = s->n_ask;
	memcpy(shape->ask, s->ask, s->n_ask * sizeof(shape->ask[0]));
	return shape;
}

void rf_shape_forget_spare(struct rf_queues *qs)
{
	struct rf_shape *s = qs->spare;
	struct shape_key key;

	if (s == NULL)
		return;
	key = (struct shape_key){ s->leaf->serial, s->shape,
				  s->min,	   s->size,
				  s->run_limit,	   kind_of(s->preemptible, s->stoppable, &s->need) };
	rf_map_del(&qs->shapes, rf_str_n((const char *)&key, sizeof(key)));
	rf_heap_done(&s->works);
	free(s);
	qs->spare = NULL;
}

static struct rf_shape *find_shape(struct rf_queues *qs, struct rf_str name, const struct rf_workload_spec *s)
{
	struct rf_shape *shape = rf_map_get(&qs->shapes, name);

	if (shape == NULL || shape != qs->spare)
		return shape;
	if (!same_ask(shape, s)) {
		rf_shape_forget_spare(qs);
		return NULL;
	}
	shape->look = (struct rf_look){ 0 }; /* as if it were new */
	qs->spare = NULL;
	return shape;
}

/* Its shape in that queue, with a reference. */
static int shape_for(struct rf_queues *qs, struct rf_queue *q, const struct rf_workload_spec *s,
		     struct rf_shape **ret, struct rf_err *err)
{
	struct shape_key key = key_of(q, s);
	struct rf_str name = rf_str_n((const char *)&key, sizeof(key));
	struct rf_shape *shape;

	if (check_work(qs, q, s, err) < 0)
		return -err->code;
	shape = find_shape(qs, name, s);
	if (shape != NULL && !same_ask(shape, s))
		return rf_fail(err, RF_INVALID,
			       "workload %llu: its shape %llu asks for something else in queue %s",
			       (unsigned long long)s->id, (unsigned long long)s->shape, q->name);
	if (shape == NULL) {
		shape = new_shape(q, s);
		rf_map_set(&qs->shapes, name, shape);
	}
	shape->refs++;
	*ret = shape;
	return 0;
}

static int new_work(struct rf_queues *qs, struct rf_queue *q, const struct rf_workload_spec *s,
		    struct rf_workload **ret, struct rf_err *err)
{
	struct rf_shape *shape;
	struct rf_workload *w;

	if (shape_for(qs, q, s, &shape, err) < 0)
		return -err->code;
	w = rf_new(struct rf_workload);
	*w = (struct rf_workload){ .shape = shape,
				   .id = s->id,
				   .user = s->user,
				   .priority = s->priority,
				   .created = s->created_ms,
				   .min_run = s->min_run_ms,
				   .patient = s->patient,
				   .end = RF_QUEUE_NO_LIMIT };
	q->n_works++;
	qs->n_works++;
	*ret = w;
	return 0;
}

static void drop_shape(struct rf_queues *qs, struct rf_shape *s)
{
	if (--s->refs > 0)
		return;
	rf_shape_forget_spare(qs);
	qs->spare = s;
}

static void free_work(struct rf_queues *qs, struct rf_workload *w)
{
	struct rf_shape *s = w->shape;

	s->leaf->n_works--;
	qs->n_works--;
	free(w);
	drop_shape(qs, s);
}

int rf_queues_submit(struct rf_queues *qs, struct rf_queue *q, const struct rf_workload_spec *s,
		     struct rf_workload **ret, struct rf_err *err)
{
	struct rf_workload *w;

	if (new_work(qs, q, s, &w, err) < 0)
		return -err->code;
	want(w, 1);
	qs->fair_stale = true;
	qs->news++;
	rf_order_add(qs, w);
	*ret = w;
	return 0;
}

int rf_queues_restore(struct rf_queues *qs, struct rf_queue *q, const struct rf_workload_spec *s,
		      int64_t members, int64_t started_ms, uint64_t bill, int64_t now,
		      struct rf_workload **ret, struct rf_err *err)
{
	struct rf_workload *w;

	if (members < 1 || members > s->size)
		return rf_fail(err, RF_INVALID, "workload %llu runs with %lld of %lld members",
			       (unsigned long long)s->id, (long long)members, (long long)s->size);
	if (new_work(qs, q, s, &w, err) < 0)
		return -err->code;
	rf_queues_settle_tree(qs, now);
	started_ms = RF_MIN(RF_MAX(started_ms, 0), now);
	start(qs, w, members, started_ms, RF_MIN(bill, UINT64_C(1) << 32), now);
	qs->news++;
	rf_order_path(qs, q);
	*ret = w;
	return 0;
}

int rf_queues_admit(struct rf_queues *qs, struct rf_workload *w, int64_t members, int64_t now,
		    struct rf_err *err)
{
	struct rf_shape *s = w->shape;
	struct rf_why why;

	rf_queues_settle_tree(qs, now);
	if (w->members > 0)
		return rf_fail(err, RF_CONFLICT, "workload %llu runs already",
			       (unsigned long long)w->id);
	if (members < s->min || members > s->size)
		return rf_fail(err, RF_INVALID,
			       "workload %llu: %lld members; it needs %lld to %lld",
			       (unsigned long long)w->id, (long long)members, (long long)s->min,
			       (long long)s->size);
	if (rf_charge_check(s, members, &why) != RF_WHY_RUNNING)
		return rf_fail(
			err, RF_FORBIDDEN,
			"workload %llu: needs %lld of %s, %s leaves %lld; wait or ask for less",
			(unsigned long long)w->id, (long long)why.need, qs->res_names[why.resource],
			why.level != NULL ? why.level->name : "the cluster", (long long)why.have);
	rf_ahead_admitted(qs, w, members, now);
	want(w, -1);
	start(qs, w, members, now, 0, now);
	s->leaf->turn = qs->round;
	rf_order_drop(qs, w);
	return 0;
}

/* The shape it runs as. Its own order is that of the old one until it is dropped from there. */
static int run_as(struct rf_queues *qs, struct rf_workload *w, const struct rf_workload_spec *s,
		  struct rf_shape **ret, struct rf_err *err)
{
	struct rf_shape *was = w->shape;
	struct rf_workload_spec spec = { .id = w->id,
					 .shape = s->shape,
					 .min = s->min,
					 .size = s->size,
					 .preemptible = was->preemptible,
					 .min_run_ms = was->stoppable ? 0 : w->min_run,
					 .run_limit_ms = was->run_limit,
					 .created_ms = w->created,
					 .ask = s->ask,
					 .n_ask = s->n_ask };

	return shape_for(qs, was->leaf, &spec, ret, err);
}

int rf_queues_admit_as(struct rf_queues *qs, struct rf_workload *w, const struct rf_workload_spec *s,
		       int64_t members, int64_t now, struct rf_err *err)
{
	struct rf_shape *was = w->shape, *shape;
	struct rf_queue *leaf = was->leaf;

	rf_queues_settle_tree(qs, now);
	if (w->members > 0 || members < s->min || members > s->size)
		return rf_fail(err, RF_INVALID, "workload %llu: it runs, or not with %lld members",
			       (unsigned long long)w->id, (long long)members);
	if (run_as(qs, w, s, &shape, err) < 0)
		return -err->code;
	if (rf_charge_check(shape, members, NULL) != RF_WHY_RUNNING) {
		drop_shape(qs, shape);
		return rf_fail(err, RF_FORBIDDEN, "workload %llu: no quota for it there",
			       (unsigned long long)w->id);
	}
	rf_ahead_admitted(qs, w, members, now);
	want(w, -1);
	rf_order_take(qs, w);
	w->shape = shape;
	w->min_run = s->min_run_ms;
	drop_shape(qs, was);
	start(qs, w, members, now, 0, now);
	leaf->turn = qs->round;
	rf_order_path(qs, leaf);
	return 0;
}

void rf_queues_remove(struct rf_queues *qs, struct rf_workload *w, int64_t now)
{
	rf_ahead_forget(qs, w);
	qs->news++;
	if (w->members == 0) {
		want(w, -1);
		qs->fair_stale = true;
		rf_order_drop(qs, w);
	} else {
		rf_queues_settle_tree(qs, now);
		stop(qs, w, now);
		rf_order_freed(qs, w->shape);
	}
	free_work(qs, w);
}

void rf_queues_requeue(struct rf_queues *qs, struct rf_workload *w, int64_t now)
{
	if (w->members == 0)
		return;
	rf_queues_settle_tree(qs, now);
	stop(qs, w, now);
	want(w, 1);
	rf_order_freed(qs, w->shape);
	rf_order_add(qs, w);
}

int rf_queues_resize(struct rf_queues *qs, struct rf_workload *w, int64_t members, int64_t now,
		     struct rf_err *err)
{
	struct rf_shape *s = w->shape;
	int64_t more = members - w->members;
	uint64_t bill;

	if (w->members == 0 || members < 1 || members > s->size)
		return rf_fail(err, RF_INVALID,
			       "workload %llu: %lld members; it must run, with 1 to %lld",
			       (unsigned long long)w->id, (long long)members, (long long)s->size);
	rf_queues_settle_tree(qs, now);
	if (more > 0 && (rf_charge_check(s, more, NULL) != RF_WHY_RUNNING ||
			 rf_ahead_gate(qs, w, more, now) != NULL))
		return rf_fail(err, RF_FORBIDDEN, "workload %llu: no quota for %lld more members",
			       (unsigned long long)w->id, (long long)more);
	bill = rf_charge_bill(qs, s, members);
	rf_charge_shift(s, more);
	set_rate(qs, s->leaf, bill, w->bill, now);
	w->members = members;
	w->bill = bill;
	if (more < 0)
		rf_order_freed(qs, s);
	else
		rf_order_path(qs, s->leaf);
	return 0;
}

void rf_workload_began(struct rf_workload *w, int64_t started_ms)
{
	if (w->members == 0 || started_ms < 0 || started_ms > TIME_MAX)
		return;
	if (w->shape->run_limit > 0 && w->end == w->started + w->shape->run_limit)
		w->end = started_ms + w->shape->run_limit;
	w->started = started_ms;
}

void rf_workload_ends(struct rf_workload *w, int64_t end_ms)
{
	w->end = end_ms >= 0 && end_ms <= TIME_MAX ? end_ms : RF_QUEUE_NO_LIMIT;
}

size_t rf_workload_asks(const struct rf_workload *w, const struct rf_queue_ask **ret)
{
	*ret = w->shape->ask;
	return w->shape->n_ask;
}

bool rf_workload_alike(const struct rf_workload *a, const struct rf_workload *b)
{
	return a->shape == b->shape;
}

void rf_workload_view(const struct rf_workload *w, struct rf_workload_view *ret)
{
	*ret = (struct rf_workload_view){
		.id = w->id,
		.user = w->user,
		.queue = w->shape->leaf,
		.running = w->members > 0,
		.members = w->members,
		.min = w->shape->min,
		.started_ms = w->started,
		.end_ms = w->end,
		.bill = w->bill,
		.run_limit_ms = w->shape->run_limit,
		.stoppable = w->shape->stoppable,
		.backfilled = w->backfilled,
	};
}
