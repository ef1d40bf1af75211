/* Random histories of queues, checked after every event against a slow model that counts everything
 * from the list of workloads and follows the definitions, without heaps and without memory. A history
 * that fails is made as short as possible and printed. RF_SEED=n repeats a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/queue_private.h"

#define ROUNDS 60
#define EVENTS 2500
#define QUEUES 12
#define FIRST_LEAF 5
#define WORKS 48
#define SHAPES 12
#define NONE RF_QUEUE_NO_LIMIT

enum { CARDS, H100, CPU, RES };
static const struct rf_queue_resource resources[RES] = { { "cards", false },
							 { "h100", false },
							 { "cpu", true } };
static const char *const names[QUEUES] = { "o0", "o1", "t2", "t3", "t4",  "l5",
					   "l6", "l7", "l8", "l9", "l10", "l11" };

static const struct shape {
	struct rf_queue_ask ask[2];
	size_t n_ask;
	int64_t min, size, min_run, run_limit;
	bool preemptible;
} shapes[SHAPES] = {
	{ { { CARDS, 1 } }, 1, 1, 1, 0, 0, true },
	{ { { CARDS, 1 } }, 1, 1, 1, 0, 500, false },
	{ { { CARDS, 2 }, { CPU, 3 } }, 2, 1, 1, 300, 2000, true },
	{ { { CARDS, 1 }, { H100, 1 } }, 2, 1, 1, 0, 0, true },
	{ { { CARDS, 1 }, { H100, 1 } }, 2, 2, 4, 0, 1000, true },
	{ { { CARDS, 1 } }, 1, 4, 4, 200, 1000, true },
	{ { { CPU, 5 } }, 1, 1, 1, 0, 700, false },
	{ { { CARDS, 3 } }, 1, 1, 3, 0, 3000, true },
	{ { { CARDS, 1 } }, 1, 6, 6, 0, 4000, true },
	{ { { CARDS, 1 } }, 1, 5, 8, 0, 900, true },
	{ { { H100, 2 } }, 1, 1, 1, 0, 0, false },
	{ { { CARDS, 1 }, { CPU, 1 } }, 2, 2, 2, 0, 2500, false },
};

/* --- events ---------------------------------------------------------------------------------- */

enum op {
	SUBMIT,
	ADMIT,
	REFUSE,
	CHANGED,
	REMOVE,
	REQUEUE,
	RESIZE,
	QUOTA,
	CAPACITY,
	MOVE,
	REMAKE,
	TIME,
	AHEAD,
	RECLAIM,
	LEFT,
	OPS
};
static const char *const op_names[OPS] = { "submit",  "admit",	"refuse", "changed",  "remove",
					   "requeue", "resize", "quota",  "capacity", "move",
					   "remake",  "time",	"ahead",  "reclaim",  "left" };
static const unsigned char odds[OPS] = { 30, 30, 6, 4, 16, 4, 4, 3, 2, 1, 1, 12, 3, 6, 20 };

struct event {
	enum op op;
	uint64_t a, b, c;
};

/* --- the model ------------------------------------------------------------------------------- */

struct mqueue {
	int parent; /* -1: the top */
	int64_t weight;
	struct rf_queue_quota quota[RES];
};

struct mwork {
	struct rf_workload *w; /* NULL: unused */
	int leaf, shape;
	int64_t members, started, priority, created;
	uint64_t id;
};

struct world {
	struct rf_queues *qs;
	struct mqueue q[QUEUES];
	struct mwork w[WORKS];
	int64_t capacity[RES], now;
	int32_t left[RES]; /* on the best machine */
	uint64_t refused[QUEUES][SHAPES], serial;
	/* counted anew before every check */
	int64_t used[QUEUES + 1][RES], fixed[QUEUES + 1][RES], want[QUEUES + 1][RES];
	int64_t sum[QUEUES][RES], guar[QUEUES + 1][RES], foot[QUEUES + 1][RES];
	size_t admitted, plans, nulls, reserved;
	bool deep; /* leaves count as deep when they hold more than two shapes */
	char why[512];
};
#define TOP QUEUES /* the root's place in the arrays */

#define CHECK(world, cond, ...)                                                                    \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			int n_ = snprintf((world)->why, sizeof((world)->why),                      \
					  "%d: %s: ", __LINE__, #cond);                            \
			snprintf((world)->why + n_, sizeof((world)->why) - (size_t)n_,             \
				 " " __VA_ARGS__);                                                 \
			return false;                                                              \
		}                                                                                  \
	} while (0)

static int up(const struct world *w, int q)
{
	return w->q[q].parent < 0 ? TOP : w->q[q].parent;
}

static bool is_leaf(const struct world *w, int q)
{
	for (int i = 0; i < QUEUES; i++) {
		if (w->q[i].parent == q)
			return false;
	}
	return true;
}

static void count_works(struct world *w)
{
	memset(w->used, 0, sizeof(w->used));
	memset(w->fixed, 0, sizeof(w->fixed));
	memset(w->want, 0, sizeof(w->want));
	for (int i = 0; i < WORKS; i++) {
		const struct shape *s = &shapes[w->w[i].shape];

		for (size_t k = 0; w->w[i].w != NULL && k < s->n_ask; k++) {
			int64_t r = s->ask[k].resource, n = s->ask[k].amount * w->w[i].members;

			for (int q = w->w[i].leaf;; q = up(w, q)) {
				w->used[q][r] += n;
				w->fixed[q][r] += s->preemptible ? 0 : n;
				w->want[q][r] += n == 0 ? s->ask[k].amount * s->size : 0;
				if (q == TOP)
					break;
			}
		}
	}
}

static int64_t plus(int64_t a, int64_t b)
{
	return a == NONE || b == NONE ? NONE : a + b;
}

static int64_t sum_of(struct world *w, int q, int r)
{
	const struct rf_queue_quota *o = &w->q[q].quota[r];
	int64_t sum = o->guaranteed;

	if (sum == -1 && is_leaf(w, q))
		sum = resources[r].free_by_default && o->borrowing == NONE ? NONE : 0;
	else if (sum == -1) {
		sum = 0;
		for (int i = 0; i < QUEUES; i++)
			sum = w->q[i].parent == q ? plus(sum, sum_of(w, i, r)) : sum;
	}
	return RF_MIN(sum, o->limit);
}

static int64_t guar_of(struct world *w, int q, int r)
{
	int64_t total, sum = 0, before = 0, mine = sum_of(w, q, r);

	if (mine == NONE)
		return NONE;
	total = up(w, q) == TOP ? w->capacity[r] : guar_of(w, up(w, q), r);
	for (int i = 0; i < QUEUES; i++) {
		int64_t one = up(w, i) == up(w, q) ? sum_of(w, i, r) : 0;

		sum += one == NONE ? 0 : one;
		before += one == NONE || strcmp(names[i], names[q]) >= 0 ? 0 : one;
	}
	if (sum <= total)
		return mine;
	return ((before + mine) * total + sum / 2) / sum - (before * total + sum / 2) / sum;
}

static void count_guarantees(struct world *w)
{
	for (int q = 0; q < QUEUES; q++) {
		for (int r = 0; r < RES; r++)
			w->guar[q][r] = guar_of(w, q, r);
	}
	memcpy(w->guar[TOP], w->capacity, sizeof(w->capacity));
}

/* With extra added to a leaf. */
static int64_t foot_of(const struct world *w, int q, int r, int leaf, int64_t extra)
{
	int64_t sum = 0, local;

	if (q != TOP && is_leaf(w, q)) {
		sum = w->used[q][r] + (q == leaf ? extra : 0);
	} else {
		for (int i = 0; i < QUEUES; i++)
			sum += up(w, i) == q ? foot_of(w, i, r, leaf, extra) : 0;
	}
	if (q == TOP || w->guar[q][r] == NONE || w->q[q].quota[r].lending == NONE)
		return sum;
	local = w->guar[q][r] - w->q[q].quota[r].lending;
	return RF_MAX(sum, local);
}

static void count_all(struct world *w)
{
	count_works(w);
	for (int r = 0; r < RES; r++) {
		for (int q = 0; q <= TOP; q++)
			w->foot[q][r] = foot_of(w, q, r, -1, 0);
	}
}

static bool allowed(const struct world *w, int leaf, int shape, int64_t members)
{
	const struct shape *s = &shapes[shape];

	for (size_t k = 0; k < s->n_ask; k++) {
		int r = (int)s->ask[k].resource;
		int64_t n = s->ask[k].amount * members;

		for (int q = leaf;; q = up(w, q)) {
			int64_t limit = q == TOP ? w->capacity[r] : w->q[q].quota[r].limit;
			int64_t borrow = q == TOP ? 0 : w->q[q].quota[r].borrowing;
			int64_t foot = foot_of(w, q, r, leaf, n),
				most = plus(w->guar[q][r], borrow);

			if (w->used[q][r] + n > limit)
				return false;
			if (q != TOP && !s->preemptible && w->fixed[q][r] + n > w->guar[q][r])
				return false;
			if (foot > w->foot[q][r] && foot > most)
				return false;
			if (q == TOP)
				break;
		}
	}
	return true;
}

/* --- the order, by definition ------------------------------------------------------------------ */

static struct rf_queue *queue(const struct world *w, int q)
{
	return q == TOP ? w->qs->root : rf_queues_find(w->qs, rf_str(names[q]));
}

static bool before(const struct mwork *a, const struct mwork *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	return a->created != b->created ? a->created < b->created : a->id < b->id;
}

static bool waits(const struct mwork *m)
{
	return m->w != NULL && m->members == 0;
}

static bool over(const struct world *w, int q, const struct mwork *m)
{
	const struct shape *s = &shapes[m->shape];

	for (size_t k = 0; k < s->n_ask; k++) {
		int64_t r = s->ask[k].resource;

		if (w->used[q][r] + s->ask[k].amount * s->min > w->guar[q][r])
			return true;
	}
	return false;
}

struct child {
	int q;
	bool over;
	rf_u128 key;
};

static int by_order(const void *pa, const void *pb)
{
	const struct child *a = pa, *b = pb;

	if (a->over != b->over)
		return a->over ? 1 : -1;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return strcmp(names[a->q], names[b->q]);
}

static const struct mwork *first_of(const struct world *w, int q);

static int children_of(const struct world *w, int q, struct child *ret)
{
	int n = 0;

	for (int i = 0; i < QUEUES; i++) {
		const struct mwork *first = up(w, i) == q ? first_of(w, i) : NULL;
		const struct rf_queue *c;

		if (first == NULL)
			continue;
		c = queue(w, i);
		ret[n++] = (struct child){ i, over(w, i, first),
					   (c->past + ((rf_u128)c->rate * 100 << 20)) /
						   (uint64_t)c->weight };
	}
	qsort(ret, (size_t)n, sizeof(*ret), by_order);
	return n;
}

/* What is needed on one machine; other gangs may have members that differ. */
static struct rf_queue_need need_of(int shape)
{
	const struct shape *s = &shapes[shape];
	struct rf_queue_need n = { 0 };

	for (size_t k = 0; k < s->n_ask && s->size < 6; k++)
		n.of[s->ask[k].resource] = (int32_t)s->ask[k].amount;
	return n;
}

static bool a_machine_has_it(const struct world *w, int shape)
{
	struct rf_queue_need n = need_of(shape);

	for (int r = 0; r < RES; r++) {
		if (n.of[r] > w->left[r])
			return false;
	}
	return true;
}

/* Of what has not stepped aside, and some machine may have room for. */
static const struct mwork *first_of(const struct world *w, int q)
{
	const struct mwork *best = NULL;
	struct child children[QUEUES];

	if (!is_leaf(w, q))
		return children_of(w, q, children) > 0 ? first_of(w, children[0].q) : NULL;
	for (int i = 0; i < WORKS; i++) {
		const struct mwork *m = &w->w[i];

		if (waits(m) && m->leaf == q && m->w->shape->hold == RF_HOLD_NONE && a_machine_has_it(w, m->shape) &&
		    (best == NULL || before(m, best)))
			best = m;
	}
	return best;
}

static bool may_run(const struct world *w, const struct mwork *m)
{
	return waits(m) && w->refused[m->leaf][m->shape] == 0 && a_machine_has_it(w, m->shape) &&
	       allowed(w, m->leaf, m->shape, shapes[m->shape].min) &&
	       rf_ahead_gate(w->qs, m->w, shapes[m->shape].min, w->now) == NULL;
}

static const struct mwork *expected(const struct world *w, int q, bool within)
{
	const struct mwork *best = NULL;
	struct child children[QUEUES];
	int n;

	if (q == TOP || !is_leaf(w, q)) {
		n = children_of(w, q, children);
		for (int i = 0; i < n && best == NULL && !(within && children[i].over); i++)
			best = expected(w, children[i].q, within);
		return best;
	}
	if (queue(w, q)->rests)
		return NULL;
	for (int i = 0; i < WORKS; i++) {
		const struct mwork *m = &w->w[i];

		if (m->leaf == q && may_run(w, m) && !(within && over(w, q, m)) &&
		    (best == NULL || before(m, best)))
			best = m;
	}
	return best;
}

static const struct mwork *expected_next(const struct world *w)
{
	const struct mwork *m;

	for (size_t i = 0; i < w->qs->n_reserved; i++) {
		for (int k = 0; k < WORKS; k++) {
			if (w->w[k].w == w->qs->reserved[i].work && may_run(w, &w->w[k]))
				return &w->w[k];
		}
	}
	m = expected(w, TOP, true);
	return m != NULL ? m : expected(w, TOP, false);
}

/* --- checks ------------------------------------------------------------------------------------ */

static bool check_books(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	CHECK(w, rf_queues_recount(w->qs, w->now, &err) == 0, "%s", err.msg);
	for (int q = 0; q <= TOP; q++) {
		struct rf_queue *real = queue(w, q);

		for (int r = 0; r < RES; r++) {
			CHECK(w, real->v[RF_V_USED][r] == w->used[q][r], "queue %d", q);
			CHECK(w, real->v[RF_V_FIXED][r] == w->fixed[q][r], "queue %d", q);
			CHECK(w, real->v[RF_V_WANT][r] == w->want[q][r], "queue %d", q);
			CHECK(w, real->v[RF_V_GUAR][r] == w->guar[q][r], "queue %d", q);
			CHECK(w, real->v[RF_V_FOOT][r] == w->foot[q][r], "queue %d", q);
		}
	}
	return true;
}

static struct mwork *find(struct world *w, const struct rf_workload *x)
{
	for (int i = 0; i < WORKS; i++) {
		if (w->w[i].w == x && x != NULL)
			return &w->w[i];
	}
	return NULL;
}

static bool check_next(struct world *w)
{
	int64_t members = 0, again = 0;
	struct rf_workload *got = rf_queues_next(w->qs, w->now, &members);
	const struct mwork *want = expected_next(w);
	int64_t most = 0;

	CHECK(w, got == rf_queues_next(w->qs, w->now, &again) && (got == NULL || members == again));
	if (got == NULL) {
		w->nulls++;
		for (int i = 0; i < WORKS; i++)
			CHECK(w, !may_run(w, &w->w[i]), "work %llu may run",
			      (unsigned long long)w->w[i].id);
		return true;
	}
	if (w->deep) { /* what stepped aside comes back bit by bit: no exact order */
		want = find(w, got);
		CHECK(w, want != NULL && may_run(w, want));
	}
	CHECK(w, want != NULL && want->w == got, "got %llu, expected %lld",
	      (unsigned long long)got->id, want != NULL ? (long long)want->id : -1);
	for (int64_t n = shapes[want->shape].size; n > 0 && most == 0; n--)
		most = allowed(w, want->leaf, want->shape, n) ? n : 0;
	CHECK(w, members >= shapes[want->shape].min && members <= most, "%lld members, most %lld",
	      (long long)members, (long long)most);
	CHECK(w, w->qs->n_reserved > 0 || members == most);
	return true;
}

/* Max-min by weight, to one unit: who got less than it could use got no less by weight than others. */
static bool check_fair(struct world *w, int q, int r)
{
	int64_t sum = 0, total = queue(w, q)->v[RF_V_FAIR][r];
	bool hungry = false;
	struct {
		int64_t floor, fair, demand, weight;
	} c[QUEUES];
	int n = 0;

	for (int i = 0; i < QUEUES; i++) {
		int64_t most, local;

		if (up(w, i) != q)
			continue;
		most = RF_MIN(w->q[i].quota[r].limit,
			      plus(w->guar[i][r], w->q[i].quota[r].borrowing));
		local = w->q[i].quota[r].lending == NONE || w->guar[i][r] == NONE
				? 0
				: w->guar[i][r] - w->q[i].quota[r].lending;
		c[n].demand = w->used[i][r] + w->want[i][r];
		if (!is_leaf(w, i)) /* what its children could use is bounded by their own limits */
			c[n].demand = -1;
		else
			c[n].demand = RF_MAX(RF_MIN(c[n].demand, most), local);
		c[n].fair = queue(w, i)->v[RF_V_FAIR][r];
		c[n].weight = w->q[i].weight;
		c[n].floor = RF_MIN(w->guar[i][r], c[n].demand < 0 ? 0 : c[n].demand);
		sum += c[n].fair;
		if (c[n].demand >= 0) {
			CHECK(w,
			      c[n].fair <= c[n].demand && c[n].fair >= RF_MIN(c[n].floor, total));
			hungry |= c[n].fair < c[n].demand;
		}
		n++;
	}
	CHECK(w, resources[r].free_by_default || sum <= total, "queue %d: %lld of %lld", q,
	      (long long)sum, (long long)total);
	CHECK(w, resources[r].free_by_default || !hungry || sum == total, "queue %d wastes", q);
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < n; k++) {
			if (c[i].demand < 0 || c[k].demand < 0 || c[i].fair >= c[i].demand)
				continue;
			CHECK(w, resources[r].free_by_default ||
					 (c[i].fair - c[i].floor + 1) * c[k].weight >=
						 (c[k].fair - c[k].floor - 1) * c[i].weight);
		}
	}
	return true;
}

static bool check_shares(struct world *w)
{
	rf_share_fill(w->qs);
	for (int r = 0; r < RES; r++) {
		for (int q = 0; q <= TOP; q++) {
			if ((q == TOP || !is_leaf(w, q)) && !check_fair(w, q, r))
				return false;
		}
	}
	return true;
}

static bool on_path(const struct world *w, int leaf, int q)
{
	for (; leaf != TOP; leaf = up(w, leaf)) {
		if (leaf == q)
			return true;
	}
	return false;
}

static bool check_why(struct world *w, const struct mwork *m)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text;
	struct rf_why why;
	bool quota;

	rf_workload_why(w->qs, m->w, w->now, &why);
	CHECK(w, rf_workload_why_holds(w->qs, m->w, w->now, &why), "kind %d", why.kind);
	text = rf_why_text(&a, w->qs, &why);
	for (int q = 0; q < QUEUES; q++) {
		if (!on_path(w, m->leaf, q))
			CHECK(w,
			      !rf_str_contains(text, rf_arena_printf(&a, "%s ", names[q])) &&
				      !rf_str_contains(text, rf_arena_printf(&a, "%s/", names[q])),
			      "%.*s", RF_STR(text));
	}
	quota = why.kind >= RF_WHY_LIMIT && why.kind <= RF_WHY_LENDING;
	CHECK(w, (why.kind == RF_WHY_RUNNING) == (m->members > 0));
	if (m->members == 0)
		CHECK(w, quota != allowed(w, m->leaf, m->shape, shapes[m->shape].min), "kind %d",
		      why.kind);
	if (quota)
		CHECK(w, why.need > why.have);
	return true;
}

static bool check(struct world *w, size_t step)
{
	count_all(w);
	if (!check_books(w) || !check_next(w))
		return false;
	if (step % 8 == 0 && !check_shares(w))
		return false;
	for (int i = 0; i < WORKS && step % 4 == 0; i++) {
		if (w->w[i].w != NULL && !check_why(w, &w->w[i]))
			return false;
	}
	return true;
}

/* --- carrying events out ------------------------------------------------------------------------ */

static struct mwork *pick(struct world *w, uint64_t a, bool running)
{
	for (int i = 0; i < WORKS; i++) {
		struct mwork *m = &w->w[(a + (uint64_t)i) % WORKS];

		if (m->w != NULL && (m->members > 0) == running)
			return m;
	}
	return NULL;
}

/* A shape that nothing waits in any more forgets that it was refused. */
static void forget(struct world *w, int leaf, int shape)
{
	for (int i = 0; i < WORKS; i++) {
		if (waits(&w->w[i]) && w->w[i].leaf == leaf && w->w[i].shape == shape)
			return;
	}
	w->refused[leaf][shape] = 0;
}

static bool do_submit(struct world *w, const struct event *e)
{
	int shape = (int)(e->b % SHAPES), leaf = (int)(FIRST_LEAF + e->a % (QUEUES - FIRST_LEAF));
	const struct shape *s = &shapes[shape];
	struct rf_err err = RF_ERR_INIT;
	struct mwork *m = NULL;

	for (int i = 0; i < WORKS && m == NULL; i++)
		m = w->w[i].w == NULL ? &w->w[i] : NULL;
	if (m == NULL)
		return true;
	*m = (struct mwork){ .leaf = leaf,
			     .shape = shape,
			     .priority = (int64_t)(e->c % 3),
			     .created = w->now - (int64_t)(e->c % 50),
			     .id = ++w->serial };
	CHECK(w,
	      rf_queues_submit(w->qs, queue(w, leaf),
			       &(struct rf_workload_spec){ .id = m->id,
							   .shape = (uint64_t)shape,
							   .priority = m->priority,
							   .created_ms = m->created,
							   .min = s->min,
							   .size = s->size,
							   .need = need_of(shape),
							   .preemptible = s->preemptible,
							   .min_run_ms = s->min_run,
							   .run_limit_ms = s->run_limit,
							   .ask = s->ask,
							   .n_ask = s->n_ask },
			       &m->w, &err) == 0,
	      "%s", err.msg);
	return true;
}

static bool started(struct world *w, struct mwork *m, int64_t members)
{
	struct rf_err err = RF_ERR_INIT;

	CHECK(w, rf_queues_admit(w->qs, m->w, members, w->now, &err) == 0, "%s", err.msg);
	m->members = members;
	m->started = w->now;
	forget(w, m->leaf, m->shape);
	w->admitted++;
	return true;
}

static bool do_next(struct world *w, const struct event *e)
{
	int64_t members = 0;
	struct rf_workload *got = rf_queues_next(w->qs, w->now, &members);
	struct mwork *m = find(w, got);

	if (got == NULL)
		return true;
	CHECK(w, m != NULL && m->members == 0);
	if (e->op == ADMIT)
		return started(w, m, e->a % 4 == 0 ? shapes[m->shape].min : members);
	rf_queues_refuse(w->qs, got, e->a % 8);
	w->refused[m->leaf][m->shape] = e->a % 8 != 0 ? e->a % 8 : 7;
	return true;
}

static bool do_changed(struct world *w, const struct event *e)
{
	uint64_t mask = e->a % 8;

	rf_queues_changed(w->qs, mask);
	for (int q = 0; q < QUEUES; q++) {
		for (int s = 0; s < SHAPES; s++) {
			if (w->refused[q][s] & mask)
				w->refused[q][s] = 0;
		}
	}
	return true;
}

static bool do_left(struct world *w, const struct event *e)
{
	struct rf_queue_need n = { 0 };

	for (int r = 0; r < RES; r++) {
		w->left[r] = (e->a >> (4 * r)) % 4 != 0 ? INT32_MAX : (int32_t)((e->b >> (4 * r)) % 5);
		n.of[r] = w->left[r];
	}
	rf_queues_left(w->qs, &n);
	return true;
}

static bool do_remove(struct world *w, const struct event *e)
{
	struct mwork *m = pick(w, e->a, e->b % 4 != 0);

	if (m == NULL)
		return true;
	rf_queues_remove(w->qs, m->w, w->now);
	m->w = NULL;
	forget(w, m->leaf, m->shape);
	return true;
}

static void requeue(struct world *w, struct mwork *m)
{
	rf_queues_requeue(w->qs, m->w, w->now);
	m->members = 0;
}

static bool do_resize(struct world *w, const struct event *e)
{
	struct mwork *m = pick(w, e->a, true);
	struct rf_err err = RF_ERR_INIT;
	int64_t members;
	int rc;

	if (m == NULL)
		return true;
	members = 1 + (int64_t)(e->b % (uint64_t)shapes[m->shape].size);
	rc = rf_queues_resize(w->qs, m->w, members, w->now, &err);
	count_all(w);
	if (members <= m->members)
		CHECK(w, rc == 0);
	else if (w->qs->n_reserved == 0)
		CHECK(w, (rc == 0) == allowed(w, m->leaf, m->shape, members - m->members));
	if (rc == 0)
		m->members = members;
	return true;
}

static bool put(struct world *w, int q)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_queue_spec s = { .name = rf_str(names[q]),
				   .parent = w->q[q].parent < 0 ? RF_STR_EMPTY
								: rf_str(names[w->q[q].parent]),
				   .weight = w->q[q].weight,
				   .quotas = w->q[q].quota,
				   .n_quotas = RES };

	CHECK(w, rf_queues_put(w->qs, &s, w->now, &err) == 0, "%s", err.msg);
	return true;
}

static void set_quota(struct mqueue *q, int r, uint64_t a)
{
	struct rf_queue_quota *o = &q->quota[r];

	*o = (struct rf_queue_quota){ r, (int64_t)(a % 9), NONE, NONE, NONE };
	if (a % 5 == 0 || (r == CPU && a % 7 != 0))
		o->guaranteed = -1;
	if (a / 9 % 3 == 0)
		o->limit = RF_MAX(o->guaranteed, 0) + (int64_t)(a / 27 % 9);
	if (a / 11 % 3 == 0)
		o->lending = (int64_t)(a / 13 % 5);
	if (a / 17 % 3 == 0)
		o->borrowing = (int64_t)(a / 19 % 7);
}

static bool do_quota(struct world *w, const struct event *e)
{
	int q = (int)(e->a % QUEUES);

	set_quota(&w->q[q], (int)(e->b % RES), e->c);
	w->q[q].weight = 1 + (int64_t)(e->b % 4);
	if (!put(w, q))
		return false;
	count_guarantees(w);
	return true;
}

static bool do_capacity(struct world *w, const struct event *e)
{
	int64_t r = (int64_t)(e->a % RES);

	w->capacity[r] = (int64_t)(e->b % 40);
	count_guarantees(w);
	return rf_queues_capacity(w->qs, r, w->capacity[r], &(struct rf_err)RF_ERR_INIT) == 0;
}

static bool do_move(struct world *w, const struct event *e)
{
	int q = (int)(FIRST_LEAF + e->a % (QUEUES - FIRST_LEAF));

	w->q[q].parent = (int)(e->b % 4) + 1; /* o1 keeps a leaf of its own, teams come and go */
	if (!put(w, q))
		return false;
	count_guarantees(w);
	return true;
}

/* Deletes a leaf and makes it again; with work in it that is refused. */
static bool do_remake(struct world *w, const struct event *e)
{
	int q = (int)(FIRST_LEAF + e->a % (QUEUES - FIRST_LEAF));
	struct rf_err err = RF_ERR_INIT;
	bool empty = true;

	for (int i = 0; i < WORKS; i++)
		empty = empty && !(w->w[i].w != NULL && w->w[i].leaf == q);
	CHECK(w,
	      rf_queues_del(w->qs, rf_str(names[q]), w->now, &err) == (empty ? 0 : -RF_CONFLICT));
	return !empty || put(w, q);
}

/* A reservation is never put off by what was admitted since: only shrinking and overruns may. */
static bool do_ahead(struct world *w, const struct event *e)
{
	size_t n = rf_queues_plan_ahead(w->qs, w->now, NULL, NULL);

	w->reserved += n;
	for (size_t i = 0; i < n; i++) {
		const struct mwork *m = find(w, w->qs->reserved[i].work);

		CHECK(w, m != NULL && m->members == 0);
		CHECK(w, w->now - m->created >= 100 && shapes[m->shape].min >= 4);
		CHECK(w, w->qs->reserved[i].start >= w->now);
		for (size_t k = 0; k < i; k++)
			CHECK(w, find(w, w->qs->reserved[k].work)->leaf != m->leaf);
	}
	return true;
}

static bool lets_go(struct world *w, const struct mwork *claimant, const struct mwork *m)
{
	const struct shape *s = &shapes[m->shape], *c = &shapes[claimant->shape];

	for (size_t k = 0; k < s->n_ask; k++) {
		int64_t r = s->ask[k].resource;
		bool shared = false, all = true;

		for (size_t i = 0; i < c->n_ask; i++)
			shared |= c->ask[i].resource == r;
		for (int q = m->leaf; all && q != TOP && !on_path(w, claimant->leaf, q);
		     q = up(w, q))
			all = w->used[q][r] > w->guar[q][r];
		if (shared && all)
			return true;
	}
	return false;
}

static bool check_victims(struct world *w, const struct mwork *claimant, const struct rf_victim *v,
			  size_t n)
{
	count_all(w);
	CHECK(w, !allowed(w, claimant->leaf, claimant->shape, shapes[claimant->shape].min));
	for (size_t i = 0; i < n; i++) {
		const struct mwork *m = find(w, v[i].work);

		CHECK(w, m != NULL && m->members > 0 && shapes[m->shape].preemptible);
		CHECK(w, v[i].members == m->members ||
				 (v[i].members > 0 &&
				  m->members - v[i].members >= shapes[m->shape].min));
		if (m->w->backfilled)
			continue;
		CHECK(w, w->now - m->started >= shapes[m->shape].min_run);
		CHECK(w, m->leaf != claimant->leaf && lets_go(w, claimant, m));
	}
	return true;
}

/* No part of the set would have done. */
static bool check_minimal(struct world *w, const struct mwork *claimant, const struct rf_victim *v,
			  size_t n)
{
	for (unsigned bits = 0; n <= 6 && bits < (1U << n) - 1; bits++) {
		bool fits;

		for (size_t i = 0; i < n; i++)
			find(w, v[i].work)->members -= bits >> i & 1 ? v[i].members : 0;
		/* gone entirely is not waiting: it would be wanted, which does not matter here */
		count_all(w);
		fits = allowed(w, claimant->leaf, claimant->shape, shapes[claimant->shape].min);
		for (size_t i = 0; i < n; i++)
			find(w, v[i].work)->members += bits >> i & 1 ? v[i].members : 0;
		CHECK(w, !fits, "%x of %zu would do", bits, n);
	}
	return true;
}

static bool do_reclaim(struct world *w, const struct event *e)
{
	struct mwork *claimant = pick(w, e->a, false);
	struct rf_err err = RF_ERR_INIT;
	struct rf_victim v[WORKS];
	size_t n;

	if (claimant == NULL)
		return true;
	n = rf_reclaim_plan(w->qs, claimant->w, w->now,
			    e->b % 2 ? RF_RECLAIM_FAIR : RF_RECLAIM_GUARANTEE, NULL, NULL, v,
			    WORKS);
	if (n == 0)
		return true;
	w->plans++;
	if (!check_victims(w, claimant, v, n) || !check_minimal(w, claimant, v, n))
		return false;
	for (size_t i = 0; i < n; i++) {
		struct mwork *m = find(w, v[i].work);

		if (v[i].members == m->members) {
			requeue(w, m);
			continue;
		}
		m->members -= v[i].members;
		CHECK(w, rf_queues_resize(w->qs, m->w, m->members, w->now, &err) == 0);
	}
	return started(w, claimant, shapes[claimant->shape].min);
}

static bool apply(struct world *w, const struct event *e)
{
	struct mwork *m;

	switch (e->op) {
	case SUBMIT:
		return do_submit(w, e);
	case ADMIT:
	case REFUSE:
		return do_next(w, e);
	case CHANGED:
		return do_changed(w, e);
	case REMOVE:
		return do_remove(w, e);
	case REQUEUE:
		m = pick(w, e->a, true);
		if (m != NULL)
			requeue(w, m);
		return true;
	case RESIZE:
		return do_resize(w, e);
	case QUOTA:
		return do_quota(w, e);
	case CAPACITY:
		return do_capacity(w, e);
	case MOVE:
		return do_move(w, e);
	case REMAKE:
		return do_remake(w, e);
	case TIME:
		w->now += (int64_t)(e->a % (e->b % 4 == 0 ? 2000 : 50));
		return true;
	case AHEAD:
		return do_ahead(w, e);
	case LEFT:
		return do_left(w, e);
	default:
		return do_reclaim(w, e);
	}
}

/* --- histories ---------------------------------------------------------------------------------- */

static bool make_world(struct world *w, bool deep)
{
	static const int parents[QUEUES] = { -1, -1, 0, 0, 1, 2, 2, 3, 3, 4, 4, 1 };
	const struct rf_queues_config c = { .resources = resources,
					    .n_resources = RES,
					    .half_life_ms = 5000,
					    .entry_ms = 100,
					    .refresh_ms = 200,
					    .reserve_after_ms = 100,
					    .reserve_amount = 4,
					    .reserve_most = 3 };
	struct rf_err err = RF_ERR_INIT;

	memset(w, 0, sizeof(*w));
	w->now = 1000;
	w->deep = deep;
	CHECK(w, rf_queues_new(&c, &w->qs, &err) == 0, "%s", err.msg);
	if (deep)
		w->qs->deep = 2;
	for (int q = 0; q < QUEUES; q++) {
		w->q[q] = (struct mqueue){ .parent = parents[q], .weight = 1 };
		for (int r = 0; r < RES; r++)
			w->q[q].quota[r] = (struct rf_queue_quota){ r,
								    r == CPU ? -1
								    : q < 5  ? -1
									     : 3,
								    NONE, NONE, NONE };
		if (!put(w, q))
			return false;
	}
	for (int r = 0; r < RES; r++) {
		w->left[r] = INT32_MAX;
		w->capacity[r] = r == CARDS ? 30 : 20;
		CHECK(w, rf_queues_capacity(w->qs, r, w->capacity[r], &err) == 0);
	}
	count_guarantees(w);
	return true;
}

static bool play(struct world *w, bool deep, const struct event *events, size_t n)
{
	bool ok = make_world(w, deep);

	for (size_t i = 0; ok && i < n; i++)
		ok = apply(w, &events[i]) && check(w, i);
	rf_queues_free(w->qs);
	w->qs = NULL;
	return ok;
}

static struct event draw(struct rf_prng *r)
{
	uint64_t sum = 0, at;
	int op = 0;

	for (int i = 0; i < OPS; i++)
		sum += odds[i];
	at = rf_prng_below(r, sum);
	for (; at >= odds[op]; op++)
		at -= odds[op];
	return (struct event){ (enum op)op, rf_prng_next(r) >> 40, rf_prng_next(r) >> 40,
			       rf_prng_next(r) >> 40 };
}

/* Leaves out ever smaller pieces as long as it still fails. */
static size_t shorten(bool deep, struct event *events, size_t n)
{
	static struct world w;
	struct event *some = rf_alloc(n * sizeof(*some));

	for (size_t piece = n / 2; piece > 0; piece /= 2) {
		for (size_t at = 0; at + piece <= n;) {
			memcpy(some, events, at * sizeof(*some));
			memcpy(some + at, events + at + piece, (n - at - piece) * sizeof(*some));
			if (play(&w, deep, some, n - piece)) {
				at += piece;
				continue;
			}
			n -= piece;
			memcpy(events, some, n * sizeof(*some));
		}
	}
	free(some);
	return n;
}

static void tell_failure(uint64_t seed, struct event *events, size_t n)
{
	static struct world w;

	n = shorten(seed % 2 == 0, events, n);
	play(&w, seed % 2 == 0, events, n);
	for (size_t i = 0; i < n; i++)
		printf("%s %llu %llu %llu\n", op_names[events[i].op],
		       (unsigned long long)events[i].a, (unsigned long long)events[i].b,
		       (unsigned long long)events[i].c);
	fail_msg("RF_SEED=%llu: %s", (unsigned long long)seed, w.why);
}

static void histories_keep_the_promises(void **state)
{
	const char *from = getenv("RF_SEED"), *rounds = getenv("RF_ROUNDS");
	uint64_t seed = from != NULL ? strtoull(from, NULL, 10) : 1;
	uint64_t n = rounds != NULL ? strtoull(rounds, NULL, 10) : from != NULL ? 1 : ROUNDS;
	static struct event events[EVENTS];
	static struct world w;
	size_t admitted = 0, plans = 0, nulls = 0, reserved = 0;

	for (uint64_t end = seed + n; seed < end; seed++) {
		struct rf_prng r = { seed * 7919 };

		for (size_t i = 0; i < EVENTS; i++)
			events[i] = draw(&r);
		if (!play(&w, seed % 2 == 0, events, EVENTS))
			tell_failure(seed, events, EVENTS);
		admitted += w.admitted;
		plans += w.plans;
		nulls += w.nulls;
		reserved += w.reserved;
	}
	printf("%zu admitted, %zu plans, %zu times nothing, %zu reservations\n", admitted, plans,
	       nulls, reserved);
	/* the histories must reach what they are for */
	assert_true(admitted > n * 100 && plans > n * 2 && nulls > n * 100 && reserved > n);
}

static void the_same_events_give_the_same(void **state)
{
	static struct event events[EVENTS];
	static struct world a, b;
	struct rf_prng r = { 4711 };

	for (size_t i = 0; i < EVENTS; i++)
		events[i] = draw(&r);
	assert_true(play(&a, false, events, EVENTS));
	assert_true(play(&b, false, events, EVENTS));
	memset(a.w, 0, sizeof(a.w)); /* addresses differ */
	memset(b.w, 0, sizeof(b.w));
	assert_memory_equal(&a, &b, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(histories_keep_the_promises),
		cmocka_unit_test(the_same_events_give_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
