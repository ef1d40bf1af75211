/* Evictions: only with proof, only what may go, no more than needed, and it comes to an end. The random worlds print
 * their seed; RF_SEED=n repeats a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/evict.h"

#define GI (INT64_C(1) << 30)
#define NOW 100000
#define JOBS 128
#define MEMBERS 16

struct job {
	struct rf_workload *work;
	struct rf_evict_member m[MEMBERS];
	struct rf_fleet_ask ask;
	struct rf_gang gang;
	struct rf_fleet_ask asks[MEMBERS];
	size_t n, min;
	uint64_t id, evicted_by; /* + 1 */
	bool ran_first;
};

struct world {
	struct rf_fleet *f;
	struct rf_queues *qs;
	struct job *jobs;
	size_t n_jobs;
	struct rf_arena a;
	int64_t lifted; /* told gone and not back */
	/* at most so many of the pods with an odd number may go; -1: any */
	int64_t odd_budget;
	struct rf_evict_world ew;
};

static size_t members_of(void *ctx, const struct rf_workload *w, const struct rf_evict_member **ret)
{
	struct rf_workload_view v;
	struct job *j;

	(void)ctx;
	rf_workload_view(w, &v);
	j = v.user;
	*ret = j->m;
	return j->n;
}

static bool may_go(void *ctx, const struct rf_evict_member *const *go, size_t n)
{
	struct world *w = ctx;
	int64_t odd = 0;

	for (size_t i = 0; i < n; i++)
		odd += ((struct job *)go[i]->user)->id % 2;
	return w->odd_budget < 0 || odd <= w->odd_budget;
}

static void told_gone(void *ctx, const struct rf_evict_member *m)
{
	(void)m;
	((struct world *)ctx)->lifted++;
}

static void told_back(void *ctx, const struct rf_evict_member *m)
{
	(void)m;
	((struct world *)ctx)->lifted--;
}

static const struct rf_queue_resource RES[] = { { "cards", false } };

static void world_init(struct world *w)
{
	struct rf_queues_config c = { .resources = RES, .n_resources = 1, .half_life_ms = 3600000 };
	struct rf_err err = RF_ERR_INIT;

	*w = (struct world){ .f = rf_fleet_new(), .odd_budget = -1 };
	w->jobs = rf_alloc(JOBS * sizeof(*w->jobs));
	assert_int_equal(rf_queues_new(&c, &w->qs, &err), 0);
	w->ew = (struct rf_evict_world){ .fleet = w->f,
					 .queues = w->qs,
					 .members = members_of,
					 .may_go = may_go,
					 .gone = told_gone,
					 .back = told_back,
					 .how.policy = RF_RECLAIM_GUARANTEE,
					 .most = 10000 };
}

static void world_ready(struct world *w)
{
	w->ew.ctx = w;
}

static void world_done(struct world *w)
{
	rf_fleet_free(w->f);
	rf_queues_free(w->qs);
	free(w->jobs);
	rf_arena_done(&w->a);
}

static uint32_t add_node(struct world *w, unsigned n)
{
	struct rf_fleet_card cards[RF_FLEET_CARDS_MAX] = { 0 };
	struct rf_fleet_node v = { .cpu_milli = 64000, .memory = 640 * GI, .pods = 100, .cards = cards, .n_cards = n };
	uint32_t node = RF_FLEET_NONE;

	for (unsigned i = 0; i < n; i++)
		cards[i] = (struct rf_fleet_card){ .memory = 80 * GI, .healthy = true };
	assert_int_equal(rf_fleet_put_node(w->f, RF_FLEET_NONE, &v, &node, NULL), 0);
	return node;
}

static struct rf_queue *add_queue_below(struct world *w, const char *parent, const char *name, int64_t guaranteed,
					int64_t limit)
{
	struct rf_queue_quota quota = { .guaranteed = guaranteed,
					.limit = limit,
					.lending = RF_QUEUE_NO_LIMIT,
					.borrowing = RF_QUEUE_NO_LIMIT };
	struct rf_queue_spec s = {
		.name = rf_str(name), .parent = rf_str(parent), .weight = 1, .quotas = &quota, .n_quotas = 1
	};
	struct rf_err err = RF_ERR_INIT;

	if (rf_queues_put(w->qs, &s, NOW, &err) < 0)
		fail_msg("%s", err.msg);
	return rf_queues_find(w->qs, s.name);
}

static struct rf_queue *add_queue(struct world *w, const char *name, int64_t guaranteed)
{
	return add_queue_below(w, "", name, guaranteed, RF_QUEUE_NO_LIMIT);
}

static void set_capacity(struct world *w)
{
	struct rf_fleet_usage u;

	rf_fleet_usage(w->f, &u);
	assert_int_equal(rf_queues_capacity(w->qs, 0, u.cards, NULL), 0);
}

struct spec { /* of a job, in a test */
	struct rf_queue *q;
	unsigned cards; /* of each member */
	size_t n, min;	/* 0: one */
	int64_t priority, started, min_run;
	bool pinned;
	uint32_t tenant;
};

static struct rf_fleet_ask whole(uint32_t tenant, unsigned n)
{
	return (struct rf_fleet_ask){ .owner = { .tenant = tenant != 0 ? tenant : 1, .trust = 1, .level = RF_ISOLATION_GPU },
				      .cpu_milli = 100,
				      .n_parts = n > 0,
				      .parts[0] = { .kind = RF_FLEET_WHOLE, .n = (uint8_t)n } };
}

static struct job *new_job(struct world *w, const struct spec *s, struct rf_queue_ask *ask,
			   struct rf_workload_spec *ret)
{
	struct job *j = &w->jobs[w->n_jobs];

	assert_true(w->n_jobs < JOBS);
	*j = (struct job){ .id = w->n_jobs++, .n = RF_MAX(s->n, 1), .ask = whole(s->tenant, s->cards) };
	j->min = s->min != 0 ? s->min : j->n;
	*ask = (struct rf_queue_ask){ 0, RF_MAX(s->cards, 1) };
	for (size_t i = 0; i < j->n; i++) {
		j->m[i].user = j;
		j->asks[i] = j->ask;
	}
	j->gang = (struct rf_gang){ .asks = j->asks, .n = j->n, .min = j->min, .held = RF_FLEET_NONE };
	*ret = (struct rf_workload_spec){ .id = j->id,
					  .user = j,
					  .shape = j->id + 1,
					  .priority = s->priority,
					  .created_ms = (int64_t)j->id,
					  .min = (int64_t)j->min,
					  .size = (int64_t)j->n,
					  .preemptible = !s->pinned,
					  .min_run_ms = s->min_run,
					  .ask = ask,
					  .n_ask = 1 };
	return j;
}

/* Runs, each member on this node; RF_FLEET_NONE: anywhere. */
static struct job *run_on(struct world *w, struct spec s, uint32_t node)
{
	struct rf_queue_ask ask;
	struct rf_workload_spec spec;
	struct job *j = new_job(w, &s, &ask, &spec);
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < j->n; i++) {
		struct rf_fleet_place p;

		assert_true(node == RF_FLEET_NONE ? rf_fleet_find(w->f, &j->ask, &p) :
						    rf_fleet_find_on(w->f, node, &j->ask, &p));
		assert_int_equal(rf_fleet_take(w->f, &j->ask, &p, false, &j->m[i].hold, NULL), 0);
	}
	if (rf_queues_restore(w->qs, s.q, &spec, (int64_t)j->n, s.started, 0, NOW, &j->work, &err) < 0)
		fail_msg("%s", err.msg);
	j->ran_first = true;
	return j;
}

static struct job *wait_for(struct world *w, struct spec s)
{
	struct rf_queue_ask ask;
	struct rf_workload_spec spec;
	struct job *j = new_job(w, &s, &ask, &spec);
	struct rf_err err = RF_ERR_INIT;

	if (rf_queues_submit(w->qs, s.q, &spec, &j->work, &err) < 0)
		fail_msg("%s", err.msg);
	return j;
}

static void check_books(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (!rf_fleet_audit(w->f, &err) || rf_queues_recount(w->qs, NOW, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w->lifted, 0);
}

static bool plan(struct world *w, struct job *j, struct rf_evict_plan *ret)
{
	struct rf_fleet_usage before, after;
	uint64_t version = rf_fleet_version(w->f, &j->ask);
	bool ok;

	rf_fleet_usage(w->f, &before);
	ok = rf_evict_plan(&w->ew, j->work, &j->gang, NOW, &w->a, ret);
	rf_fleet_usage(w->f, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(rf_fleet_version(w->f, &j->ask), version);
	check_books(w);
	return ok;
}

static bool goes(const struct rf_evict_plan *p, const struct job *j)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->go[i]->user == j)
			return true;
	return false;
}

static uint32_t node_of(struct world *w, const struct job *j)
{
	uint32_t node = RF_FLEET_NONE;
	size_t n;

	(void)rf_fleet_hold(w->f, j->m[0].hold, &node, &n);
	return node;
}

/* Two queues of 4 cards each on two nodes of 4; a has all eight. */
struct borrowed {
	struct world w;
	struct rf_queue *a, *b;
	struct job *jobs[8];
};

static void borrow(struct borrowed *t, unsigned nodes)
{
	world_init(&t->w);
	world_ready(&t->w);
	for (unsigned i = 0; i < nodes; i++)
		add_node(&t->w, 4);
	set_capacity(&t->w);
	t->a = add_queue(&t->w, "a", (int64_t)nodes * 2);
	t->b = add_queue(&t->w, "b", (int64_t)nodes * 2);
}

static void borrow_all(struct borrowed *t)
{
	borrow(t, 2);
	for (uint32_t i = 0; i < 8; i++)
		t->jobs[i] = run_on(&t->w, (struct spec){ .q = t->a, .cards = 1, .started = i }, i / 4);
}

/* --- reclaim ---------------------------------------------------------------------------------- */

static void one_card_costs_one_pod_the_most_recent(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow_all(&t);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, t.jobs[7]);
	assert_false(p.by_priority);
	assert_int_equal(p.n_places, 1);
	assert_int_equal(p.places[0].node, node_of(&t.w, t.jobs[7]));
	world_done(&t.w);
}

static void low_priority_goes_before_recent(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *low, *j;

	(void)state;
	borrow(&t, 1);
	for (unsigned i = 0; i < 3; i++)
		run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .priority = 5, .started = 50 }, 0);
	low = run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .priority = 1, .started = 1 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, low);
	world_done(&t.w);
}

/* By queue and age alone the victims would be spread over both nodes, and free no node. */
static void victims_free_a_place_together(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow(&t, 2);
	for (uint32_t i = 0; i < 8; i++)
		t.jobs[i] = run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .started = i }, i % 2);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 4 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(node_of(&t.w, p.go[i]->user), p.places[0].node);
	world_done(&t.w);
}

static void the_node_where_fewest_go_is_taken(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j, *large;

	(void)state;
	borrow(&t, 2);
	for (uint32_t i = 0; i < 4; i++)
		run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .started = 90 }, 0);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .started = 50 }, 1);
	large = run_on(&t.w, (struct spec){ .q = t.a, .cards = 3, .started = 1 }, 1);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 3 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, large);
	world_done(&t.w);
}

static void work_within_its_guarantee_stays(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow(&t, 2);
	for (unsigned i = 0; i < 4; i++)
		run_on(&t.w, (struct spec){ .q = t.a, .cards = 1 }, 0);
	for (unsigned i = 0; i < 4; i++)
		run_on(&t.w, (struct spec){ .q = t.b, .cards = 1 }, 1);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1 }); /* has its guarantee */
	assert_false(plan(&t.w, j, &p));
	j = wait_for(&t.w, (struct spec){ .q = t.a, .cards = 1 });
	assert_false(plan(&t.w, j, &p));
	world_done(&t.w);
}

/* Only two of the six are over the guarantee; both on one node, though the two youngest are not. */
static void no_more_than_what_is_over(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow(&t, 2);
	for (uint32_t i = 0; i < 6; i++)
		run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .started = i }, i < 4 ? i % 2 : i - 4);
	run_on(&t.w, (struct spec){ .q = t.b, .cards = 1 }, 0);
	run_on(&t.w, (struct spec){ .q = t.b, .cards = 1 }, 1);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 2 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 2);
	assert_int_equal(node_of(&t.w, p.go[0]->user), node_of(&t.w, p.go[1]->user));
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 3 });
	assert_false(plan(&t.w, j, &p));
	world_done(&t.w);
}

static void pinned_work_and_work_that_just_began_stay(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow(&t, 1);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .pinned = true }, 0);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .pinned = true }, 0);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .started = NOW - 10, .min_run = 11 }, 0);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .started = NOW - 10, .min_run = 11 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1 });
	assert_false(plan(&t.w, j, &p));
	assert_true(rf_evict_plan(&t.w.ew, j->work, &j->gang, NOW + 1, &t.w.a, &p));
	assert_int_equal(p.n, 1);
	check_books(&t.w);
	world_done(&t.w);
}

static void a_used_up_budget_is_respected(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow_all(&t); /* jobs 1, 3, 5, 7 are odd */
	t.w.odd_budget = 0;
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 2 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 2);
	assert_true(goes(&p, t.jobs[6]) && goes(&p, t.jobs[4]));
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 3 });
	assert_false(plan(&t.w, j, &p));
	t.w.odd_budget = 1;
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 3);
	t.w.ew.most = 2;
	assert_false(plan(&t.w, j, &p));
	world_done(&t.w);
}

/* --- gangs ------------------------------------------------------------------------------------ */

static void a_gang_gives_what_is_above_its_minimum(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *gang, *j;

	(void)state;
	borrow(&t, 1);
	gang = run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .n = 4, .min = 3 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 1);
	assert_int_equal(p.go[0]->hold, gang->m[0].hold); /* the one to go first */
	world_done(&t.w);
}

static void a_gang_at_its_minimum_goes_as_a_whole(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow(&t, 1);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .n = 4, .min = 3 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 2 }); /* one is not enough */
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 4);
	world_done(&t.w);
}

static void places_for_a_whole_gang_or_nobody_goes(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow_all(&t);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 2, .n = 2 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 4);
	assert_int_equal(p.n_places, 2);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 2, .n = 3 }); /* more than guaranteed */
	assert_false(plan(&t.w, j, &p));
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 2, .n = 3, .min = 1 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 2);
	assert_int_equal(p.n_places, 1);
	world_done(&t.w);
}

static void all_in_one_domain(void **state)
{
	static const uint32_t domain[] = { 1, 2, 1, 2 };
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow(&t, 4);
	/* domain 1 has fewer free cards, but cheaper victims would be in both */
	for (uint32_t i = 0; i < 16; i++)
		run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .started = i }, i % 4);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 4, .n = 2 });
	j->gang.domain = domain;
	j->gang.n_domain = 4;
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 8);
	assert_int_equal(domain[p.places[0].node], domain[p.places[1].node]);
	j->gang.held = 2;
	assert_true(plan(&t.w, j, &p));
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(domain[p.places[i].node], 2);
	for (size_t i = 0; i < p.n; i++)
		assert_int_equal(domain[node_of(&t.w, p.go[i]->user)], 2);
	j->gang.held = 3;
	assert_false(plan(&t.w, j, &p));
	world_done(&t.w);
}

/* --- those that leave anyway ------------------------------------------------------------------- */

static void who_leaves_anyway_is_taken_first(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow_all(&t);
	t.jobs[2]->m[0].leaving = true;
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, t.jobs[2]);
	assert_true(p.go[0]->leaving);
	t.w.ew.most = 0; /* costs nothing */
	assert_true(plan(&t.w, j, &p));
	t.w.ew.most = 1;
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 2 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 2);
	assert_true(goes(&p, t.jobs[2]));
	world_done(&t.w);
}

static void pinned_work_that_is_deleted_leaves_its_place(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j, *gone;

	(void)state;
	borrow(&t, 1);
	gone = run_on(&t.w, (struct spec){ .q = t.a, .cards = 2, .pinned = true }, 0);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 2, .pinned = true }, 0);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1 });
	assert_false(plan(&t.w, j, &p));
	gone->m[0].leaving = true;
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, gone);
	world_done(&t.w);
}

/* --- priority --------------------------------------------------------------------------------- */

static void a_higher_priority_takes_from_its_own_queue(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *low, *high, *j;

	(void)state;
	borrow(&t, 1);
	high = run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .priority = 9, .started = 50 }, 0);
	low = run_on(&t.w, (struct spec){ .q = t.a, .cards = 1, .priority = 1 }, 0);
	run_on(&t.w, (struct spec){ .q = t.b, .cards = 2, .priority = -5 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = t.a, .cards = 1, .priority = 1 });
	assert_false(plan(&t.w, j, &p)); /* not more important than any of its own, no claim on others */
	j = wait_for(&t.w, (struct spec){ .q = t.a, .cards = 1, .priority = 2 });
	assert_true(plan(&t.w, j, &p));
	assert_true(p.by_priority);
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, low);
	j = wait_for(&t.w, (struct spec){ .q = t.a, .cards = 2, .priority = 10 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 2);
	assert_true(goes(&p, low) && goes(&p, high));
	j = wait_for(&t.w, (struct spec){ .q = t.a, .cards = 3, .priority = 10 });
	assert_false(plan(&t.w, j, &p));
	world_done(&t.w);
}

/* There is room on the nodes, but the queue is full. */
static void quota_alone_can_be_what_is_missing(void **state)
{
	struct borrowed t;
	struct rf_queue *q;
	struct rf_evict_plan p;
	struct job *low, *j;

	(void)state;
	borrow(&t, 2);
	q = add_queue_below(&t.w, "", "small", 0, 2);
	low = run_on(&t.w, (struct spec){ .q = q, .cards = 1, .priority = 1 }, 0);
	run_on(&t.w, (struct spec){ .q = q, .cards = 1, .priority = 5 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = q, .cards = 1, .priority = 5 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, low);
	j = wait_for(&t.w, (struct spec){ .q = q, .cards = 3, .priority = 9 });
	assert_false(plan(&t.w, j, &p)); /* over the limit whoever goes */
	world_done(&t.w);
}

static void both_claims_together(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *own, *other, *j;

	(void)state;
	borrow(&t, 1); /* 2 and 2 */
	other = run_on(&t.w, (struct spec){ .q = t.a, .cards = 1 }, 0);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 2, .pinned = true }, 0);
	own = run_on(&t.w, (struct spec){ .q = t.b, .cards = 1, .priority = 1 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1, .priority = 2 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, other); /* its guarantee comes before its own work */
	(void)own;
	world_done(&t.w);
}

static void none_is_needed_where_there_is_room(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j;

	(void)state;
	borrow(&t, 1);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 3 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1 });
	assert_false(plan(&t.w, j, &p));
	world_done(&t.w);
}

/* --- scrubbing, holding ------------------------------------------------------------------------- */

/* A tenant may use a card again that it used before, unscrubbed. For others it will be scrubbed when it is gone. */
static void what_lies_under_a_victim_is_scrubbed_with_it(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct job *j, *first;

	(void)state;
	borrow(&t, 1);
	first = run_on(&t.w, (struct spec){ .q = t.a, .cards = 4, .tenant = 1 }, 0);
	assert_true(rf_fleet_give(t.w.f, first->m[0].hold));
	rf_queues_remove(t.w.qs, first->work, NOW);
	run_on(&t.w, (struct spec){ .q = t.a, .cards = 4, .tenant = 1 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 1, .tenant = 2 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 1);
	world_done(&t.w);
}

static void a_plan_holds_until_others_take_its_places(void **state)
{
	struct borrowed t;
	struct rf_evict_plan p;
	struct rf_fleet_place at;
	struct job *j, *victim;
	struct rf_fleet_ask other = whole(3, 1);
	uint64_t hold;

	(void)state;
	borrow_all(&t);
	j = wait_for(&t.w, (struct spec){ .q = t.b, .cards = 2, .tenant = 2 });
	assert_true(plan(&t.w, j, &p));
	assert_int_equal(p.n, 2);
	assert_true(rf_evict_holds(&t.w.ew, &j->gang, &p));
	victim = p.go[0]->user;
	assert_true(rf_fleet_give(t.w.f, victim->m[0].hold)); /* gone, but not scrubbed yet */
	assert_true(rf_evict_holds(&t.w.ew, &j->gang, &p));
	check_books(&t.w);
	rf_fleet_scrubbed(t.w.f, p.places[0].node, p.places[0].grants[0].card, 0xff);
	rf_fleet_scrubbed(t.w.f, p.places[0].node, p.places[0].grants[1].card, 0xff);
	assert_true(rf_fleet_find(t.w.f, &other, &at));
	assert_int_equal(rf_fleet_take(t.w.f, &other, &at, false, &hold, NULL), 0);
	assert_false(rf_evict_holds(&t.w.ew, &j->gang, &p));
	check_books(&t.w);
	world_done(&t.w);
}

/* --- what other pods forbid ------------------------------------------------------------------- */

struct shy { /* nothing goes where a pod is that was not lifted */
	struct world w;
	uint32_t class;
	int on[4];
};

static void shy_gone(void *ctx, const struct rf_evict_member *m)
{
	((struct shy *)ctx)->on[((struct job *)m->user)->id]--;
}

static void shy_back(void *ctx, const struct rf_evict_member *m)
{
	((struct shy *)ctx)->on[((struct job *)m->user)->id]++;
}

static bool shy_narrow(void *ctx, size_t member, struct rf_fleet_ask *ask)
{
	struct shy *s = ctx;

	(void)member;
	for (uint32_t i = 0; i < rf_fleet_handles(s->w.f); i++)
		rf_fleet_class_set(s->w.f, s->class, i, s->on[i] == 0);
	ask->class = s->class;
	return true;
}

static void who_is_in_the_way_by_its_presence_goes(void **state)
{
	struct shy s = { 0 };
	struct rf_queue *a, *b;
	struct rf_evict_plan p;
	struct job *j, *old;

	(void)state;
	world_init(&s.w);
	s.w.ew.ctx = &s;
	s.w.ew.gone = shy_gone;
	s.w.ew.back = shy_back;
	s.w.ew.may_go = NULL;
	add_node(&s.w, 4);
	add_node(&s.w, 4);
	set_capacity(&s.w);
	a = add_queue(&s.w, "a", 0);
	b = add_queue(&s.w, "b", 8);
	s.class = rf_fleet_class_new(s.w.f);
	/* job 0 on node 0, job 1 on node 1: there is room beside either */
	old = run_on(&s.w, (struct spec){ .q = a, .cards = 1, .started = 1 }, 0);
	run_on(&s.w, (struct spec){ .q = a, .cards = 1, .started = 2, .pinned = true }, 1);
	s.on[0] = s.on[1] = 1;
	j = wait_for(&s.w, (struct spec){ .q = b, .cards = 1 });
	j->gang.narrow = shy_narrow;
	j->gang.ctx = &s;
	assert_true(rf_evict_plan(&s.w.ew, j->work, &j->gang, NOW, &s.w.a, &p));
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, old);
	assert_int_equal(p.places[0].node, 0);
	assert_true(s.on[0] == 1 && s.on[1] == 1);
	assert_true(rf_evict_holds(&s.w.ew, &j->gang, &p));
	assert_true(s.on[0] == 1 && s.on[1] == 1);
	check_books(&s.w);
	world_done(&s.w);
}

/* --- hierarchies -------------------------------------------------------------------------------- */

static void the_claim_is_judged_where_the_paths_part(void **state)
{
	struct borrowed t;
	struct rf_queue *x, *y, *z;
	struct rf_evict_plan p;
	struct job *jx, *j;

	(void)state;
	world_init(&t.w);
	world_ready(&t.w);
	add_node(&t.w, 8);
	set_capacity(&t.w);
	add_queue(&t.w, "org1", 4);
	add_queue(&t.w, "org2", 4);
	x = add_queue_below(&t.w, "org1", "x", 2, RF_QUEUE_NO_LIMIT);
	y = add_queue_below(&t.w, "org1", "y", 2, RF_QUEUE_NO_LIMIT);
	z = add_queue_below(&t.w, "org2", "z", 4, RF_QUEUE_NO_LIMIT);
	jx = run_on(&t.w, (struct spec){ .q = x, .cards = 2, .n = 2, .min = 1 }, 0); /* all of org1's */
	run_on(&t.w, (struct spec){ .q = z, .cards = 4 }, 0);
	j = wait_for(&t.w, (struct spec){ .q = z, .cards = 1 });
	assert_false(plan(&t.w, j, &p)); /* org1 is within its guarantee, and z at its own */
	j = wait_for(&t.w, (struct spec){ .q = y, .cards = 2 });
	assert_true(plan(&t.w, j, &p)); /* x is over its own */
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.go[0]->user, jx);
	world_done(&t.w);
}

/* --- random worlds ------------------------------------------------------------------------------- */

static uint64_t rand_state;

static uint32_t draw(uint32_t n)
{
	rand_state = rand_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rand_state >> 33) % n;
}

static uint64_t seed(void)
{
	const char *s = getenv("RF_SEED");

	return s != NULL ? strtoull(s, NULL, 10) : 4711;
}

static size_t runs(size_t usual)
{
	const char *s = getenv("RF_RUNS");

	return s != NULL ? strtoull(s, NULL, 10) : usual;
}

/* A flat world of one resource, judged without any of the code that is tested. */
#define UNITS 12
struct slow_unit {
	struct job *job;
	size_t from, n; /* members */
	bool rest;	/* goes only with all before it */
	bool leaving;
};
struct slow {
	struct world *w;
	struct job *j;
	struct rf_queue *own;
	int64_t guaranteed[3], own_guaranteed;
	struct rf_queue *queues[3];
	struct slow_unit u[UNITS];
	size_t n;
	int nodes, free[4];
};

static int64_t used_by(struct world *w, struct rf_queue *q)
{
	struct rf_queue_view v;

	rf_queue_view(w->qs, q, 0, NOW, &v);
	return v.used;
}

static struct rf_queue *queue_of(const struct job *j)
{
	struct rf_workload_view v;

	rf_workload_view(j->work, &v);
	return v.queue;
}

struct slow_facts { /* of a job, which the queues do not show */
	bool pinned;
	int64_t priority, min_run, started;
};
static struct slow_facts facts[64];

/* Could the queue lose this much, in some order? Over its guarantee before each step, and a step that goes below
 * only where a job goes as a whole. */
static bool takeable(const struct slow *s, struct rf_queue *q, int64_t guaranteed, unsigned bits)
{
	int64_t over = used_by(s->w, q) - guaranteed, sum = 0, leaving = 0, largest = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct slow_unit *u = &s->u[i];
		int64_t amount = (int64_t)u->n * u->job->ask.parts[0].n;

		if (queue_of(u->job) != q)
			continue;
		if (u->leaving)
			leaving += amount; /* whether the plan waits for it or not */
		if (u->leaving || !(bits >> i & 1))
			continue;
		sum += amount;
		if (u->rest)
			largest = RF_MAX(largest, amount);
	}
	over -= leaving;
	return sum == 0 || sum <= over || sum - largest < over;
}

static bool slow_fits(const struct slow *s, unsigned bits)
{
	int free[4], need = s->j->ask.parts[0].n;
	size_t room = 0;

	memcpy(free, s->free, sizeof(free));
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; (bits >> i & 1) && k < s->u[i].n; k++) {
			uint32_t node;
			size_t n;

			assert_non_null(rf_fleet_hold(s->w->f, s->u[i].job->m[s->u[i].from + k].hold, &node, &n));
			free[node] += (int)n;
		}
	for (int i = 0; i < s->nodes; i++)
		room += (size_t)(free[i] / need);
	return room >= s->j->min;
}

/* By priority the queue would have more than before and than its guarantee, while another one is guaranteed more than it has. */
static bool slow_grows(const struct slow *s, unsigned bits)
{
	int64_t had = used_by(s->w, s->own), then = had + (int64_t)s->j->min * s->j->ask.parts[0].n;
	bool by_priority = false, owed = false;

	for (size_t i = 0; i < s->n; i++) {
		const struct slow_unit *u = &s->u[i];

		if (!(bits >> i & 1) || queue_of(u->job) != s->own)
			continue;
		then -= (int64_t)u->n * u->job->ask.parts[0].n;
		by_priority = by_priority || !u->leaving;
	}
	for (size_t q = 0; q < 3; q++)
		owed = owed || (s->queues[q] != s->own && used_by(s->w, s->queues[q]) > 0 &&
				used_by(s->w, s->queues[q]) < s->guaranteed[q]);
	return by_priority && owed && then > had && then > s->own_guaranteed;
}

static bool slow_works(const struct slow *s, unsigned bits, bool reclaim, bool priority)
{
	int64_t own = used_by(s->w, s->own), need = (int64_t)s->j->min * s->j->ask.parts[0].n, odd = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct slow_unit *u = &s->u[i];
		const struct slow_facts *f = &facts[u->job->id];
		bool same = queue_of(u->job) == s->own;

		if (u->rest) /* with all members above the minimum */
			for (size_t k = 0; (bits >> i & 1) && k < i; k++)
				if (s->u[k].job == u->job && !s->u[k].leaving && !(bits >> k & 1))
					return false;
		if (!(bits >> i & 1) || u->leaving)
			continue;
		odd += u->job->id % 2 ? (int64_t)u->n : 0;
		if (f->pinned || NOW - f->started < f->min_run)
			return false;
		if (same ? !priority || f->priority >= facts[s->j->id].priority :
			   !reclaim || own + need > s->own_guaranteed)
			return false;
	}
	for (size_t q = 0; q < 3; q++)
		if (s->queues[q] != s->own && !takeable(s, s->queues[q], s->guaranteed[q], bits))
			return false;
	return (s->w->odd_budget < 0 || odd <= s->w->odd_budget) && !slow_grows(s, bits) && slow_fits(s, bits);
}

static void add_slow_units(struct slow *s, struct job *j)
{
	size_t extra = j->n - j->min;

	if (j->m[0].leaving) {
		for (size_t i = 0; i < j->n; i++)
			s->u[s->n++] = (struct slow_unit){ j, i, 1, false, true };
		return;
	}
	for (size_t i = 0; i < extra; i++)
		s->u[s->n++] = (struct slow_unit){ j, i, 1, false, false };
	s->u[s->n++] = (struct slow_unit){ j, extra, j->n - extra, true, false };
}

static void random_world(struct world *w, struct slow *s)
{
	static const char *const NAMES[] = { "a", "b", "c" };
	int64_t left = 0;

	world_init(w);
	world_ready(w);
	*s = (struct slow){ .w = w, .nodes = 1 + (int)draw(3) };
	for (int i = 0; i < s->nodes; i++) {
		s->free[i] = 1 + (int)draw(4);
		add_node(w, (unsigned)s->free[i]);
		left += s->free[i];
	}
	set_capacity(w);
	for (size_t q = 0; q < 3; q++) {
		s->guaranteed[q] = draw((uint32_t)left + 1);
		left -= s->guaranteed[q];
		s->queues[q] = add_queue(w, NAMES[q], s->guaranteed[q]);
	}
}

static void random_jobs(struct world *w, struct slow *s)
{
	for (int tries = 0; tries < 12 && s->n < UNITS - 3; tries++) {
		struct spec x = { .q = s->queues[draw(3)],
				  .cards = 1 + draw(2),
				  .n = 1 + (draw(3) == 0 ? draw(3) : 0),
				  .priority = draw(3),
				  .pinned = draw(6) == 0,
				  .started = NOW - 10,
				  .min_run = draw(6) == 0 ? 11 : 0 };
		uint32_t node = draw((uint32_t)s->nodes);
		struct job *j;

		x.min = 1 + draw((uint32_t)x.n);
		if (s->free[node] < (int)(x.cards * x.n))
			continue;
		s->free[node] -= (int)(x.cards * x.n);
		j = run_on(w, x, node);
		facts[j->id] = (struct slow_facts){ x.pinned, x.priority, x.min_run, x.started };
		for (size_t i = 0; draw(10) == 0 && i < j->n; i++)
			j->m[i].leaving = true;
		/* all of a gang or none, for the slow judge's sake */
		for (size_t i = 1; i < j->n; i++)
			j->m[i].leaving = j->m[0].leaving;
		add_slow_units(s, j);
	}
}

static unsigned bits_of(const struct slow *s, const struct rf_evict_plan *p)
{
	unsigned bits = 0;

	for (size_t i = 0; i < s->n; i++) {
		size_t in = 0;

		for (size_t k = 0; k < p->n; k++)
			for (size_t m = 0; m < s->u[i].n; m++)
				in += p->go[k]->hold == s->u[i].job->m[s->u[i].from + m].hold;
		assert_true(in == 0 || in == s->u[i].n);
		bits |= (unsigned)(in > 0) << i;
	}
	return bits;
}

static void agrees_with_a_slow_search(void **state)
{
	uint64_t first = seed();
	size_t planned = 0, n_runs = runs(3000);

	(void)state;
	for (uint64_t run = 0; run < n_runs; run++) {
		struct world w;
		struct slow s;
		struct rf_evict_plan p;
		struct spec asked;
		bool can = false, none_needed, got;
		size_t q;
		unsigned bits;

		rand_state = (first + run) * 77 + 1;
		random_world(&w, &s);
		random_jobs(&w, &s);
		w.odd_budget = draw(3) ? -1 : (int64_t)draw(3);
		q = draw(3);
		s.own = s.queues[q];
		s.own_guaranteed = s.guaranteed[q];
		asked = (struct spec){ .q = s.own, .cards = 1 + draw(3), .n = 1 + draw(3), .priority = draw(4) };
		s.j = wait_for(&w, asked);
		facts[s.j->id].priority = asked.priority;
		none_needed = slow_works(&s, 0, true, true);
		for (bits = 1; bits < 1u << s.n && !can; bits++)
			can = slow_works(&s, bits, true, true);
		can = can && !none_needed;
		got = plan(&w, s.j, &p);
		if (got != can)
			fail_msg("RF_SEED=%llu RF_RUNS=1: planned %d, possible %d", (unsigned long long)(first + run), got,
				 can);
		if (got) {
			bits = bits_of(&s, &p);
			if (!slow_works(&s, bits, true, true))
				fail_msg("RF_SEED=%llu RF_RUNS=1: the plan does not work",
					 (unsigned long long)(first + run));
			for (unsigned less = bits; less > 0;) {
				less = (less - 1) & bits;
				if (slow_works(&s, less, true, true))
					fail_msg("RF_SEED=%llu RF_RUNS=1: %x of %x suffices",
						 (unsigned long long)(first + run), less, bits);
			}
			planned++;
		}
		world_done(&w);
	}
	assert_true(planned > n_runs / 20 || n_runs < 100);
}

/* --- shares, slices, tenants that do not meet, dirt --------------------------------------------- */

static struct rf_fleet_ask any_ask(void)
{
	static const enum rf_isolation LEVELS[] = { RF_ISOLATION_NODE, RF_ISOLATION_GPU, RF_ISOLATION_SLICE,
						    RF_ISOLATION_SHARE };
	uint32_t tenant = 1 + draw(3);
	struct rf_fleet_ask a = { .owner = { .tenant = tenant, .trust = 1 + tenant % 2 }, .cpu_milli = 100, .n_parts = 1 };
	unsigned kind = draw(3);

	if (kind == 0) {
		a.owner.level = LEVELS[draw(8) == 0 ? 0 : 1];
		a.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = (uint8_t)(1 + draw(2)) };
	} else if (kind == 1) {
		a.owner.level = RF_ISOLATION_SHARE;
		a.parts[0] = (struct rf_fleet_part){
			.kind = RF_FLEET_SHARE, .n = (uint8_t)(1 + draw(2)), .milli = 200 * (1 + draw(4)), .bytes = 10 * GI
		};
	} else {
		a.owner.level = RF_ISOLATION_SLICE;
		a.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_SLICE, .n = 1, .profile = (uint8_t)draw(5) };
	}
	return a;
}

/* The gang, with these jobs gone and scrubbed. */
static bool fits_without(struct world *w, const struct job *j, struct job *const *gone, size_t n, unsigned bits)
{
	struct rf_fleet_place places[MEMBERS];
	uint64_t holds[MEMBERS];
	size_t mark = rf_fleet_mark(w->f);
	bool ok;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; (bits >> i & 1) && k < gone[i]->n; k++)
			assert_true(rf_fleet_lift(w->f, gone[i]->m[k].hold));
	ok = rf_gang_take(w->f, &j->gang, places, holds) >= j->gang.min;
	rf_fleet_rollback(w->f, mark);
	return ok;
}

static struct job *any_job(struct world *w, struct rf_queue *q)
{
	struct rf_queue_ask ask;
	struct rf_workload_spec spec;
	struct spec s = { .q = q, .cards = 1, .n = draw(3) ? 1 : 1 + draw(3) };
	struct job *j;
	struct rf_fleet_place places[MEMBERS];
	uint64_t holds[MEMBERS];
	struct rf_fleet_ask a = any_ask();

	s.min = s.n;
	j = new_job(w, &s, &ask, &spec);
	for (size_t i = 0; i < j->n; i++)
		j->asks[i] = a;
	j->ask = a;
	if (rf_gang_take(w->f, &j->gang, places, holds) != j->n) {
		w->n_jobs--;
		return NULL;
	}
	for (size_t i = 0; i < j->n; i++)
		j->m[i].hold = holds[i];
	assert_int_equal(rf_queues_restore(w->qs, q, &spec, (int64_t)j->n, 0, 0, NOW, &j->work, NULL), 0);
	return j;
}

static void any_kind_of_work(void **state)
{
	const struct rf_gpu_model *a100 = rf_gpu_model_by_key("A100");
	uint64_t first = seed();
	size_t planned = 0, n_runs = runs(1500);

	(void)state;
	for (uint64_t run = 0; run < n_runs; run++) {
		struct world w;
		struct rf_queue *a, *b;
		struct job *j, *gone[16], *all[16];
		struct rf_evict_plan p;
		size_t n = 0, n_all = 0;
		struct spec s;

		rand_state = (first + run) * 51 + 3;
		world_init(&w);
		world_ready(&w);
		rf_fleet_set_model(w.f, 0, a100->mig, a100->n_mig);
		for (size_t i = 0; i < 2; i++)
			add_node(&w, 1 + draw(3));
		assert_int_equal(rf_queues_capacity(w.qs, 0, 1000, NULL), 0);
		a = add_queue(&w, "a", 0);
		b = add_queue(&w, "b", 1000);
		for (int i = 0; i < 14; i++) {
			struct job *x = any_job(&w, a);

			if (x == NULL)
				continue;
			/* some end again, and leave their dirt behind */
			if (draw(4) == 0) {
				for (size_t k = 0; k < x->n; k++)
					rf_fleet_give(w.f, x->m[k].hold);
				rf_queues_remove(w.qs, x->work, NOW);
				continue;
			}
			all[n_all++] = x;
		}
		s = (struct spec){ .q = b, .cards = 1, .n = 1 + draw(2) };
		j = wait_for(&w, s);
		for (size_t i = 0; i < j->n; i++)
			j->asks[i] = i > 0 && draw(2) ? j->asks[0] : any_ask();
		if (!plan(&w, j, &p)) {
			/* none is needed, or not even all would do */
			if (!fits_without(&w, j, NULL, 0, 0) && fits_without(&w, j, all, n_all, (1u << n_all) - 1))
				fail_msg("RF_SEED=%llu RF_RUNS=1: there is a plan", (unsigned long long)(first + run));
			world_done(&w);
			continue;
		}
		planned++;
		for (size_t i = 0; i < n_all; i++)
			if (goes(&p, all[i]))
				gone[n++] = all[i];
		if (!fits_without(&w, j, gone, n, (1u << n) - 1))
			fail_msg("RF_SEED=%llu RF_RUNS=1: the plan does not work", (unsigned long long)(first + run));
		for (unsigned bits = 0; n <= 10 && bits < (1u << n) - 1; bits++)
			if (fits_without(&w, j, gone, n, bits))
				fail_msg("RF_SEED=%llu RF_RUNS=1: %x of %zu suffice", (unsigned long long)(first + run),
					 bits, n);
		check_books(&w);
		world_done(&w);
	}
	assert_true(planned > n_runs / 4);
}

/* --- it comes to an end --------------------------------------------------------------------------- */

struct loop {
	struct world w;
	size_t preempted, before;
	uint64_t potential;
};

static void place_job(struct loop *l, struct job *j)
{
	struct rf_fleet_place places[MEMBERS];
	uint64_t holds[MEMBERS];
	struct rf_err err = RF_ERR_INIT;
	size_t n = rf_gang_take(l->w.f, &j->gang, places, holds);

	assert_true(n >= j->min);
	for (size_t i = 0; i < n; i++)
		j->m[i].hold = holds[i];
	j->n = n;
	if (rf_queues_admit(l->w.qs, j->work, (int64_t)n, NOW, &err) < 0)
		fail_msg("%s", err.msg);
}

static void give_clean(struct rf_fleet *f, uint64_t hold)
{
	uint32_t node;
	size_t n;
	const struct rf_fleet_grant *g = rf_fleet_hold(f, hold, &node, &n);
	uint8_t cards[RF_FLEET_CARDS_MAX];

	assert_non_null(g);
	for (size_t i = 0; i < n; i++)
		cards[i] = g[i].card;
	assert_true(rf_fleet_give(f, hold));
	for (size_t i = 0; i < n; i++)
		rf_fleet_scrubbed(f, node, cards[i], 0xff);
}

/* Members of gangs go one by one; a gang that lost too many waits again. */
static void carry_out(struct loop *l, const struct rf_evict_plan *p, struct job *by)
{
	assert_true(p->potential < l->potential);
	l->potential = p->potential;
	for (size_t i = 0; i < p->n; i++) {
		struct job *v = p->go[i]->user;
		size_t k = 0;

		assert_ptr_not_equal(v, by);
		assert_true(v->ran_first); /* who came by eviction, or since, is not evicted */
		assert_int_not_equal(by->evicted_by, v->id + 1);
		v->evicted_by = by->id + 1;
		l->preempted++;
		while (k < v->n && v->m[k].hold != p->go[i]->hold)
			k++;
		assert_true(k < v->n);
		give_clean(l->w.f, v->m[k].hold);
		memmove(&v->m[k], &v->m[k + 1], (v->n - k - 1) * sizeof(v->m[0]));
		v->n--;
		if (v->n >= 1)
			assert_int_equal(rf_queues_resize(l->w.qs, v->work, (int64_t)v->n, NOW, NULL), 0);
		else
			rf_queues_requeue(l->w.qs, v->work, NOW);
	}
	/* never below the minimum, but for none at all */
	for (size_t i = 0; i < l->w.n_jobs; i++)
		if (l->w.jobs[i].n > 0 && l->w.jobs[i].ran_first)
			assert_true(l->w.jobs[i].n >= l->w.jobs[i].min);
	for (size_t i = 0; i < l->w.n_jobs; i++)
		if (l->w.jobs[i].n == 0) { /* waits again, with all its members */
			l->w.jobs[i].n = l->w.jobs[i].gang.n;
			l->w.jobs[i].ran_first = false;
			for (size_t k = 0; k < l->w.jobs[i].n; k++)
				l->w.jobs[i].m[k] = (struct rf_evict_member){ .user = &l->w.jobs[i] };
		}
}

static bool try_to_place(struct loop *l, struct job *j)
{
	struct rf_fleet_place places[MEMBERS];
	uint64_t holds[MEMBERS];
	size_t mark = rf_fleet_mark(l->w.f);
	bool ok = rf_gang_take(l->w.f, &j->gang, places, holds) >= j->gang.min;

	rf_fleet_rollback(l->w.f, mark);
	return ok;
}

static bool plan_for(struct loop *l, struct job *j)
{
	struct rf_evict_plan p;

	if (!rf_evict_plan(&l->w.ew, j->work, &j->gang, NOW, &l->w.a, &p))
		return false;
	carry_out(l, &p, j);
	j->gang.n = j->gang.min;
	place_job(l, j); /* the proof was one */
	rf_queues_changed(l->w.qs, ~UINT64_C(0));
	return true;
}

/* What may run by its quotas first, then what can take something back. */
static bool step(struct loop *l)
{
	struct rf_workload_view v;
	int64_t members;
	struct rf_workload *work = rf_queues_next(l->w.qs, NOW, &members);

	if (work != NULL) {
		struct job *j;

		rf_workload_view(work, &v);
		j = v.user;
		j->gang.n = (size_t)members;
		if (try_to_place(l, j))
			place_job(l, j);
		else if (!plan_for(l, j))
			rf_queues_refuse(l->w.qs, work, 0);
		return true;
	}
	for (size_t i = 0; i < l->w.n_jobs; i++) {
		rf_workload_view(l->w.jobs[i].work, &v);
		if (!v.running && plan_for(l, &l->w.jobs[i]))
			return true;
	}
	return false;
}

static void random_tree(struct world *w, struct rf_queue **leaves, int64_t cards)
{
	int64_t third = cards / 3;

	if (draw(2)) {
		leaves[0] = add_queue(w, "a", third);
		leaves[1] = add_queue(w, "b", third);
		leaves[2] = add_queue(w, "c", draw(2) ? third : 0);
		leaves[3] = add_queue(w, "d", 0);
		return;
	}
	add_queue(w, "x", 2 * third);
	add_queue(w, "y", third);
	leaves[0] = add_queue_below(w, "x", "x1", draw(2) ? third : third / 2, RF_QUEUE_NO_LIMIT);
	leaves[1] = add_queue_below(w, "x", "x2", third / 2, RF_QUEUE_NO_LIMIT);
	leaves[2] = add_queue_below(w, "y", "y1", third, RF_QUEUE_NO_LIMIT);
	leaves[3] = add_queue_below(w, "y", "y2", 0, RF_QUEUE_NO_LIMIT);
}

static struct spec random_spec(struct rf_queue **leaves)
{
	struct spec s = { .q = leaves[draw(4)],
			  .cards = draw(3) ? 1 : 1 + draw(4),
			  .n = draw(3) ? 1 : 1 + draw(4),
			  .priority = draw(4),
			  .pinned = draw(12) == 0,
			  .started = (int64_t)draw(1000) };

	s.min = 1 + draw((uint32_t)s.n);
	return s;
}

/* Nothing comes, nothing ends: after some plans there is rest. Claims on fair shares are tried too. */
static void without_arrivals_it_comes_to_rest(void **state)
{
	uint64_t first = seed();
	size_t total = 0, n_runs = runs(400);

	(void)state;
	for (uint64_t run = 0; run < n_runs; run++) {
		struct loop l = { .potential = UINT64_MAX };
		struct rf_queue *leaves[4];
		size_t nodes, steps = 0;

		rand_state = (first + run) * 131 + 7;
		world_init(&l.w);
		world_ready(&l.w);
		nodes = 2 + draw(5);
		for (size_t i = 0; i < nodes; i++)
			add_node(&l.w, 4);
		set_capacity(&l.w);
		random_tree(&l.w, leaves, (int64_t)nodes * 4);
		l.w.ew.how.policy = draw(2) ? RF_RECLAIM_FAIR : RF_RECLAIM_GUARANTEE;
		for (int i = 0; i < 40; i++) {
			struct spec s = random_spec(leaves);
			struct rf_fleet_ask all = whole(1, s.cards);
			struct rf_gang g = { .n = s.n, .min = s.n, .held = RF_FLEET_NONE };
			struct rf_fleet_ask asks[MEMBERS];
			struct rf_fleet_place places[MEMBERS];
			uint64_t holds[MEMBERS];
			size_t mark, fit;

			for (size_t k = 0; k < s.n; k++)
				asks[k] = all;
			g.asks = asks;
			mark = rf_fleet_mark(l.w.f);
			fit = rf_gang_take(l.w.f, &g, places, holds);
			rf_fleet_rollback(l.w.f, mark);
			if (fit == s.n)
				l.before += run_on(&l.w, s, RF_FLEET_NONE)->n;
		}
		for (int i = 0; i < 20; i++)
			wait_for(&l.w, random_spec(leaves));
		while (step(&l)) {
			if (++steps > 20000)
				fail_msg("RF_SEED=%llu RF_RUNS=1: no rest", (unsigned long long)(first + run));
		}
		if (l.preempted > l.before)
			fail_msg("RF_SEED=%llu RF_RUNS=1: %zu evictions, %zu ran", (unsigned long long)(first + run),
				 l.preempted, l.before);
		total += l.preempted;
		check_books(&l.w);
		world_done(&l.w);
	}
	if (total < n_runs / 2)
		fail_msg("only %zu evictions", total);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_card_costs_one_pod_the_most_recent),
		cmocka_unit_test(low_priority_goes_before_recent),
		cmocka_unit_test(victims_free_a_place_together),
		cmocka_unit_test(the_node_where_fewest_go_is_taken),
		cmocka_unit_test(work_within_its_guarantee_stays),
		cmocka_unit_test(no_more_than_what_is_over),
		cmocka_unit_test(pinned_work_and_work_that_just_began_stay),
		cmocka_unit_test(a_used_up_budget_is_respected),
		cmocka_unit_test(a_gang_gives_what_is_above_its_minimum),
		cmocka_unit_test(a_gang_at_its_minimum_goes_as_a_whole),
		cmocka_unit_test(places_for_a_whole_gang_or_nobody_goes),
		cmocka_unit_test(all_in_one_domain),
		cmocka_unit_test(who_leaves_anyway_is_taken_first),
		cmocka_unit_test(pinned_work_that_is_deleted_leaves_its_place),
		cmocka_unit_test(a_higher_priority_takes_from_its_own_queue),
		cmocka_unit_test(quota_alone_can_be_what_is_missing),
		cmocka_unit_test(both_claims_together),
		cmocka_unit_test(none_is_needed_where_there_is_room),
		cmocka_unit_test(what_lies_under_a_victim_is_scrubbed_with_it),
		cmocka_unit_test(a_plan_holds_until_others_take_its_places),
		cmocka_unit_test(who_is_in_the_way_by_its_presence_goes),
		cmocka_unit_test(the_claim_is_judged_where_the_paths_part),
		cmocka_unit_test(agrees_with_a_slow_search),
		cmocka_unit_test(any_kind_of_work),
		cmocka_unit_test(without_arrivals_it_comes_to_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
