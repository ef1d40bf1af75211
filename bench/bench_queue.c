/* How fast the queues decide, and how fair: bench_queue [philly.csv [machines [days]]].
 * The trace: timestamp,duration,num_gpus,gpu_time,cluster; a cluster is a tenant. */
#include <stdio.h>
#include <time.h>

#include "sched/queue.h"

enum { CARDS, CPU, N_RES };
static const struct rf_queue_resource resources[N_RES] = { { "cards", false }, { "cpu", true } };
#define NONE RF_QUEUE_NO_LIMIT
#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Of this process, so that others on the machine do not count; dearer to ask than seconds(). */
static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int rc, const struct rf_err *err)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s\n", err->msg);
	exit(1);
}

static int by_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The nearest rank. Sorts. */
static double percentile(double *v, size_t n, double p)
{
	size_t i = (size_t)(p * (double)n + 0.999999);

	qsort(v, n, sizeof(*v), by_double);
	return n == 0 ? 0 : v[(i > 0 ? i : 1) - 1];
}

static struct rf_queues *make(int64_t cards, const struct rf_queues_config *more)
{
	struct rf_queues_config c = *more;
	struct rf_err err = RF_ERR_INIT;
	struct rf_queues *qs = NULL;

	c.resources = resources;
	c.n_resources = N_RES;
	must(rf_queues_new(&c, &qs, &err), &err);
	must(rf_queues_capacity(qs, CARDS, cards, &err), &err);
	return qs;
}

static struct rf_queue *put(struct rf_queues *qs, const char *name, const char *parent,
			    int64_t guaranteed)
{
	struct rf_queue_quota quota = { CARDS, guaranteed, NONE, NONE, NONE };
	struct rf_queue_spec s = { .name = rf_str(name),
				   .parent = rf_str(parent),
				   .weight = 1,
				   .quotas = &quota,
				   .n_quotas = 1 };
	struct rf_err err = RF_ERR_INIT;

	must(rf_queues_put(qs, &s, 0, &err), &err);
	return rf_queues_find(qs, s.name);
}

static struct rf_workload *submit(struct rf_queues *qs, struct rf_queue *q, uint64_t id,
				  uint64_t shape, int64_t cards, int64_t now)
{
	const struct rf_queue_ask ask[] = { { CARDS, cards }, { CPU, cards * 8 } };
	struct rf_workload_spec s = { .id = id,
				      .shape = shape,
				      .created_ms = now,
				      .min = 1,
				      .size = 1,
				      .preemptible = true,
				      .ask = ask,
				      .n_ask = 2 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w = NULL;

	must(rf_queues_submit(qs, q, &s, &w, &err), &err);
	return w;
}

/* --- speed ------------------------------------------------------------------------------------ */

/* 10 organisations of 10 teams of 10 tenants. */
static void grow(struct rf_queues *qs, struct rf_queue **leaves, int64_t guaranteed)
{
	char org[32], team[32], tenant[32];

	for (int i = 0; i < 10; i++) {
		snprintf(org, sizeof(org), "org%d", i);
		put(qs, org, "", -1);
		for (int k = 0; k < 10; k++) {
			snprintf(team, sizeof(team), "team%d-%d", i, k);
			put(qs, team, org, -1);
			for (int m = 0; m < 10; m++) {
				snprintf(tenant, sizeof(tenant), "tenant%d-%d-%d", i, k, m);
				leaves[i * 100 + k * 10 + m] = put(qs, tenant, team, guaranteed);
			}
		}
	}
}

/* All wait at the start; a full cluster admits one whenever one ends. */
static void bench_admissions(int64_t cards, int64_t guaranteed, const char *what)
{
	const struct rf_queues_config c = { .half_life_ms = DAY, .entry_ms = HOUR };
	rf_auto_ptr(queues) qs = make(cards, &c);
	static struct rf_queue *leaves[1000];
	static struct rf_workload *running[50000];
	static double took[50000];
	size_t first = 0, n = 0, done = 0;
	struct rf_prng r = { 17 };
	struct rf_err err = RF_ERR_INIT;
	int64_t now = 0, members;
	double start, sum, submitted = cpu_seconds();

	grow(qs, leaves, guaranteed);
	for (uint64_t i = 0; i < 50000; i++) {
		int64_t size = INT64_C(1) << rf_prng_below(&r, 4);

		submit(qs, leaves[rf_prng_below(&r, 1000)], i, (uint64_t)size, size, 0);
	}
	start = cpu_seconds();
	submitted = start - submitted;
	while (done < 50000) {
		double t = seconds();
		struct rf_workload *w = rf_queues_next(qs, now, &members);

		if (w != NULL) {
			must(rf_queues_admit(qs, w, members, now, &err), &err);
			running[n++] = w;
			took[done++] = seconds() - t;
			continue;
		}
		now += 3;
		rf_queues_remove(qs, running[first++], now);
		rf_queues_changed(qs, 1 << CARDS);
	}
	sum = cpu_seconds() - start;
	qsort(took, done, sizeof(*took), by_double);
	printf("S10 %s, CPU time: 1000 queues, 50000 workloads: %.0f submissions/s, %.0f "
	       "admissions/s with "
	       "ends "
	       "and re-ordering; next + admit p50 %.1f us, p99 %.1f us, worst %.0f us\n",
	       what, 50000 / submitted, 50000 / sum, percentile(took, done, 0.5) * 1e6,
	       percentile(took, done, 0.99) * 1e6, took[done - 1] * 1e6);
}

static void bench_deep(bool distinct, bool by_quota)
{
	const struct rf_queues_config c = { .half_life_ms = DAY, .entry_ms = HOUR };
	rf_auto_ptr(queues) qs = make(8, &c);
	struct rf_queue *q = put(qs, "a", "", 0);
	struct rf_workload *w, *got;
	int64_t members;
	int tries = 0;
	double t;

	for (uint64_t i = 0; i < 10000; i++)
		submit(qs, q, i, distinct ? i : 1, by_quota ? 9 + (distinct ? (int64_t)i : 0) : 2,
		       0);
	w = submit(qs, q, 10000, 10000, 1, 1);
	t = cpu_seconds();
	while ((got = rf_queues_next(qs, 1, &members)) != w) {
		rf_queues_refuse(qs, got, 1 << CARDS);
		tries++;
	}
	printf("S11 behind 10000 %s that %s: found in %.2f ms after %d tries\n",
	       distinct ? "different ones" : "of one shape",
	       by_quota ? "are over the capacity" : "the caller refuses", (cpu_seconds() - t) * 1e3,
	       tries);
}

/* What a tenant sees while another has n that never fit: submit, first answer, end. */
static double latency(size_t n, bool by_quota, double *ret_p99, double *ret_tries)
{
	const struct rf_queues_config c = { .half_life_ms = DAY, .entry_ms = HOUR };
	rf_auto_ptr(queues) qs = make(8, &c);
	struct rf_queue *hog = put(qs, "a", "", 0), *q = put(qs, "b", "", 0);
	static double took[20000];
	struct rf_err err = RF_ERR_INIT;
	size_t tries = 0;
	int64_t members;

	for (uint64_t i = 0; i < n; i++)
		submit(qs, hog, i, i, by_quota ? 9 + (int64_t)i : 2, 0);
	for (size_t i = 0; i < RF_COUNT(took); i++) {
		struct rf_workload *w, *got;
		double t;

		/* what ends gives all of the other's another try, and some are under way */
		rf_queues_changed(qs, 1 << CARDS);
		for (size_t k = 0; k < 51 && (w = rf_queues_next(qs, (int64_t)i, &members)) != NULL;
		     k++)
			rf_queues_refuse(qs, w, 1 << CARDS);
		t = seconds();

		w = submit(qs, q, 1000000 + i, 0, 1, (int64_t)i);
		while ((got = rf_queues_next(qs, (int64_t)i, &members)) != w) {
			rf_queues_refuse(qs, got, 1 << CARDS);
			tries++;
		}
		must(rf_queues_admit(qs, w, 1, (int64_t)i, &err), &err);
		rf_queues_remove(qs, w, (int64_t)i);
		took[i] = seconds() - t;
	}
	*ret_p99 = percentile(took, RF_COUNT(took), 0.99);
	*ret_tries = (double)tries / (double)RF_COUNT(took);
	return took[RF_COUNT(took) / 2];
}

static void bench_neighbour(void)
{
	double p99, tries, p50 = latency(0, false, &p99, &tries);

	printf("I9 alone: submit to end p50 %.2f us, p99 %.2f us\n", p50 * 1e6, p99 * 1e6);
	p50 = latency(10000, true, &p99, &tries);
	printf("I9 beside 10000 over the capacity: p50 %.2f us, p99 %.2f us\n", p50 * 1e6,
	       p99 * 1e6);
	p50 = latency(10000, false, &p99, &tries);
	printf("I9 beside 10000 that are refused: p50 %.2f us, p99 %.2f us, %.1f tries of the "
	       "other "
	       "before each\n",
	       p50 * 1e6, p99 * 1e6, tries);
}

static void bench_reclaim(void)
{
	const struct rf_queues_config c = { .half_life_ms = DAY, .entry_ms = HOUR };
	rf_auto_ptr(queues) qs = make(4000, &c);
	static struct rf_queue *leaves[1000];
	static struct rf_victim victims[4000];
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w;
	int64_t members;
	size_t n;
	double t;

	grow(qs, leaves, 2);
	for (uint64_t i = 0; i < 4000; i++) /* half of the tenants borrow the other half's */
		submit(qs, leaves[i % 500], i, 1, 1, 0);
	while ((w = rf_queues_next(qs, 0, &members)) != NULL)
		must(rf_queues_admit(qs, w, members, 0, &err), &err);
	w = submit(qs, leaves[999], 5000, 1, 1, 1);
	t = cpu_seconds();
	n = rf_reclaim_plan(qs, w, 1, RF_RECLAIM_GUARANTEE, NULL, NULL, victims, 4000);
	printf("S7 reclaim one card of 4000 running: %zu victim, %.2f ms\n", n,
	       (cpu_seconds() - t) * 1e3);
	w = submit(qs, put(qs, "big", "", 2000), 5001, 1, 2000, 1);
	t = cpu_seconds();
	n = rf_reclaim_plan(qs, w, 1, RF_RECLAIM_GUARANTEE, NULL, NULL, victims, 4000);
	printf("S8 reclaim 2000 cards of 4000 running: %zu victims, %.2f ms\n", n,
	       (cpu_seconds() - t) * 1e3);
}

/* A change of the capacity goes through the whole tree. */
static void bench_tree(void)
{
	const struct rf_queues_config c = { .half_life_ms = DAY, .entry_ms = HOUR };
	rf_auto_ptr(queues) qs = make(100000, &c);
	struct rf_err err = RF_ERR_INIT;
	char team[32], tenant[32];
	int64_t members;
	double t = cpu_seconds();

	for (int i = 0; i < 100; i++) {
		snprintf(team, sizeof(team), "team%d", i);
		put(qs, team, "", -1);
		for (int k = 0; k < 99; k++) {
			snprintf(tenant, sizeof(tenant), "tenant%d-%d", i, k);
			submit(qs, put(qs, tenant, team, 5), (uint64_t)(i * 100 + k), 1, 1, 0);
		}
	}
	rf_queues_next(qs, 0, &members);
	printf("tree of 10000 queues: made in %.1f ms, ", (cpu_seconds() - t) * 1e3);
	t = cpu_seconds();
	must(rf_queues_capacity(qs, CARDS, 90000, &err), &err);
	rf_queues_next(qs, 0, &members);
	printf("after a change of the capacity %.2f ms, ", (cpu_seconds() - t) * 1e3);
	t = cpu_seconds();
	rf_queues_next(qs, 5000, &members);
	printf("refresh of all shares %.2f ms\n", (cpu_seconds() - t) * 1e3);
}

/* --- the trace -------------------------------------------------------------------------------- */

#define PER_MACHINE 8
#define MACHINES_MAX 256
#define TENANTS_MAX 32
#define JOBS_MAX 100000
#define LARGE 32

struct job {
	int64_t submit, duration, limit; /* ms */
	int cards, tenant;
	uint64_t id;
	int64_t start, end;
	struct rf_workload *w;
	int at[MACHINES_MAX]; /* how many cards of which machines: n_at pairs */
	int n_at;
};

struct trace {
	struct job *jobs;
	size_t n;
	char tenants[TENANTS_MAX][16];
	int n_tenants;
};

static int by_submit(const void *pa, const void *pb)
{
	const struct job *a = pa, *b = pb;

	return a->submit != b->submit ? (a->submit < b->submit ? -1 : 1) : (a->id < b->id ? -1 : 1);
}

/* Run-time limits as people give them: the next of a few round ones. */
static int64_t limit_for(int64_t duration)
{
	static const int64_t steps[] = { HOUR / 6, HOUR,    4 * HOUR, 12 * HOUR,
					 DAY,	   3 * DAY, 7 * DAY,  14 * DAY };

	for (size_t i = 0; i < RF_COUNT(steps); i++) {
		if (duration <= steps[i])
			return steps[i];
	}
	return 60 * DAY;
}

static int tenant_of(struct trace *t, const char *name)
{
	for (int i = 0; i < t->n_tenants; i++) {
		if (strcmp(t->tenants[i], name) == 0)
			return i;
	}
	if (t->n_tenants == TENANTS_MAX)
		exit(1);
	snprintf(t->tenants[t->n_tenants], sizeof(t->tenants[0]), "%s", name);
	return t->n_tenants++;
}

static void read_trace(const char *path, struct trace *t)
{
	FILE *f = fopen(path, "r");
	char line[256];

	if (f == NULL) {
		perror(path);
		exit(1);
	}
	t->jobs = rf_alloc(JOBS_MAX * sizeof(struct job));
	while (t->n < JOBS_MAX && fgets(line, sizeof(line), f) != NULL) {
		struct job *j = &t->jobs[t->n];
		char cluster[16] = "";
		struct tm tm = { 0 };
		double duration, ignored;

		if (sscanf(line, "%d-%d-%d %d:%d:%d,%lf,%d,%lf,%15s", &tm.tm_year, &tm.tm_mon,
			   &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &duration, &j->cards,
			   &ignored, cluster) != 10)
			continue;
		tm.tm_year -= 1900;
		tm.tm_mon -= 1;
		j->submit = (int64_t)timegm(&tm) * 1000;
		j->duration = (int64_t)(duration * 1000);
		j->limit = limit_for(j->duration);
		j->tenant = tenant_of(t, cluster);
		j->id = t->n++;
	}
	fclose(f);
	qsort(t->jobs, t->n, sizeof(struct job), by_submit);
	for (size_t i = 0; i < t->n; i++)
		t->jobs[i].id = i;
}

/* --- machines --------------------------------------------------------------------------------- */

/* Up to 8 cards are on one machine; more are whole machines, and the rest on one more. */
struct pool {
	int n;
	int free[MACHINES_MAX];
	int64_t held[MACHINES_MAX]; /* reserved from then on; NONE: not */
	int cards_free;
	struct job *running[MACHINES_MAX * PER_MACHINE];
	size_t n_running;
};

static void take(struct pool *p, struct job *j, int machine, int cards)
{
	p->free[machine] -= cards;
	p->cards_free -= cards;
	j->at[j->n_at++] = machine * 16 + cards;
}

/* Machines that take it without keeping a reservation waiting. */
static bool usable(const struct pool *p, int machine, int64_t end)
{
	return p->held[machine] == NONE || end <= p->held[machine];
}

static bool place(struct pool *p, struct job *j, int64_t end, bool tight)
{
	int whole = j->cards > PER_MACHINE ? j->cards / PER_MACHINE : 0;
	int rest = j->cards - whole * PER_MACHINE, best = -1, empty = 0;

	for (int i = 0; i < p->n; i++)
		empty += p->free[i] == PER_MACHINE && usable(p, i, end);
	if (j->cards > p->cards_free || empty < whole)
		return false;
	for (int i = 0; i < p->n && rest > 0; i++) {
		if (p->free[i] < rest || !usable(p, i, end) ||
		    (p->free[i] == PER_MACHINE && empty <= whole))
			continue;
		if (best < 0 || (tight && p->free[i] < p->free[best]))
			best = i;
	}
	if (rest > 0 && best < 0)
		return false;
	j->n_at = 0;
	if (rest > 0)
		take(p, j, best, rest);
	for (int i = 0; i < p->n && whole > 0; i++) {
		if (p->free[i] == PER_MACHINE && usable(p, i, end)) {
			take(p, j, i, PER_MACHINE);
			whole--;
		}
	}
	return true;
}

static void start_job(struct pool *p, struct job *j, int64_t now)
{
	j->start = now;
	j->end = now + j->duration;
	p->running[p->n_running++] = j;
}

static void end_job(struct pool *p, struct job *j)
{
	for (int i = 0; i < j->n_at; i++) {
		p->free[j->at[i] / 16] += j->at[i] % 16;
		p->cards_free += j->at[i] % 16;
	}
	for (size_t i = 0; i < p->n_running; i++) {
		if (p->running[i] == j) {
			p->running[i] = p->running[--p->n_running];
			return;
		}
	}
}

static void make_pool(struct pool *p, int machines)
{
	memset(p, 0, sizeof(*p));
	p->n = machines;
	p->cards_free = machines * PER_MACHINE;
	for (int i = 0; i < machines; i++) {
		p->free[i] = PER_MACHINE;
		p->held[i] = NONE;
	}
}

static struct job *next_end(const struct pool *p)
{
	struct job *first = NULL;

	for (size_t i = 0; i < p->n_running; i++) {
		struct job *j = p->running[i];

		if (first == NULL || j->end < first->end ||
		    (j->end == first->end && j->id < first->id))
			first = j;
	}
	return first;
}

/* --- first come, first served, and whatever fits ---------------------------------------------- */

struct fifo {
	RF_VEC(struct job *) waiting[129]; /* by size */
	size_t first[129];
};

static void fifo_pass(struct fifo *f, struct pool *p, int64_t now)
{
	bool failed[129] = { false };

	for (;;) {
		struct job *j = NULL;

		for (int c = 1; c <= 128; c++) {
			struct job *head;

			if (failed[c] || f->first[c] == f->waiting[c].n)
				continue;
			head = f->waiting[c].at[f->first[c]];
			if (j == NULL || head->id < j->id)
				j = head;
		}
		if (j == NULL)
			return;
		if (place(p, j, NONE, false)) {
			f->first[j->cards]++;
			start_job(p, j, now);
		} else {
			failed[j->cards] = true;
		}
	}
}

static void run_fifo(struct trace *t, int machines)
{
	static struct pool p;
	struct fifo f = { 0 };
	size_t next = 0;

	make_pool(&p, machines);
	while (next < t->n || p.n_running > 0) {
		struct job *e = next_end(&p);
		int64_t now;

		if (e != NULL && (next == t->n || e->end <= t->jobs[next].submit)) {
			now = e->end;
			end_job(&p, e);
		} else {
			now = t->jobs[next].submit;
			rf_vec_push(&f.waiting[t->jobs[next].cards], &t->jobs[next]);
			next++;
		}
		fifo_pass(&f, &p, now);
	}
	for (size_t i = 0; i < RF_COUNT(f.waiting); i++)
		rf_vec_done(&f.waiting[i]);
}

/* --- queues ------------------------------------------------------------------------------------ */

struct sim {
	struct pool p;
	struct rf_queues *qs;
	struct rf_queue *leaves[TENANTS_MAX];
	int64_t planned; /* when reservations were last looked at */
	int64_t every;	 /* how often they are */
	size_t reserved;
	int started[TENANTS_MAX];
};

static const struct rf_queues_config sim_config = { .half_life_ms = 365 * DAY,
						    .entry_ms = HOUR,
						    .refresh_ms = 60000,
						    .reserve_after_ms = HOUR / 6,
						    .reserve_amount = 2,
						    .reserve_most = 16 };

/* Gangs of so many cards and more are reserved for. */
static void make_sim(struct sim *s, const struct trace *t, int machines, int64_t members)
{
	struct rf_queues_config c = sim_config;

	c.reserve_amount = members;
	memset(s, 0, sizeof(*s));
	s->every = HOUR / 6;
	make_pool(&s->p, machines);
	s->qs = make(machines * PER_MACHINE, &c);
	for (int i = 0; i < t->n_tenants; i++)
		s->leaves[i] = put(s->qs, t->tenants[i], "", 0);
}

static void sim_submit(struct sim *s, struct job *j)
{
	const struct rf_queue_ask ask = { CARDS, 1 };
	struct rf_workload_spec w = { .id = j->id,
				      .user = j,
				      .shape = 1,
				      .created_ms = j->submit,
				      .min = j->cards,
				      .size = j->cards,
				      .run_limit_ms = j->limit,
				      .preemptible = true,
				      .min_run_ms = j->limit, /* nothing is stopped here */
				      .ask = &ask,
				      .n_ask = 1 };
	struct rf_err err = RF_ERR_INIT;

	must(rf_queues_submit(s->qs, s->leaves[j->tenant], &w, &j->w, &err), &err);
}

static struct job *job_of(const struct rf_workload *w)
{
	struct rf_workload_view v;

	rf_workload_view(w, &v);
	return v.user;
}

/* Would it fit with these gone, beside what is reserved already? */
static bool fits(void *ctx, const struct rf_workload *w, const struct rf_victim *gone, size_t n)
{
	static struct pool p;
	struct sim *s = ctx;
	struct job j = { .cards = job_of(w)->cards };

	memcpy(p.free, s->p.free, sizeof(p.free));
	memcpy(p.held, s->p.held, sizeof(p.held));
	p.n = s->p.n;
	p.cards_free = s->p.cards_free;
	for (size_t i = 0; i < n; i++) {
		const struct job *g = job_of(gone[i].work);

		for (int k = 0; k < g->n_at; k++) {
			p.free[g->at[k] / 16] += g->at[k] % 16;
			p.cards_free += g->at[k] % 16;
		}
	}
	return place(&p, &j, NONE, true);
}

/* What will be free on each machine by then. */
static void free_at(const struct sim *s, int64_t start, int *ret)
{
	memcpy(ret, s->p.free, sizeof(s->p.free));
	for (size_t i = 0; i < s->p.n_running; i++) {
		const struct job *j = s->p.running[i];

		for (int k = 0; k < j->n_at && j->start + j->limit <= start; k++)
			ret[j->at[k] / 16] += j->at[k] % 16;
	}
}

/* The machines a reserved gang will have: from then on nothing else may be on them. */
static void hold_machines(struct sim *s, const struct job *j, int64_t start)
{
	int whole = j->cards > PER_MACHINE ? j->cards / PER_MACHINE : 0;
	int rest = j->cards - whole * PER_MACHINE, best = -1;
	int free[MACHINES_MAX];

	free_at(s, start, free);
	for (int i = 0; i < s->p.n && whole > 0; i++) {
		if (free[i] == PER_MACHINE && s->p.held[i] == NONE) {
			s->p.held[i] = start;
			whole--;
		}
	}
	for (int i = 0; i < s->p.n && rest > 0; i++) {
		if (free[i] >= rest && s->p.held[i] == NONE && (best < 0 || free[i] < free[best]))
			best = i;
	}
	if (best >= 0)
		s->p.held[best] = start;
}

static void plan_ahead(struct sim *s, int64_t now)
{
	struct rf_workload *w;
	int64_t start;

	for (int i = 0; i < s->p.n; i++)
		s->p.held[i] = NONE;
	s->planned = now;
	s->reserved += rf_queues_plan_ahead(s->qs, now, fits, s);
	for (size_t i = 0; (w = rf_queues_reserved(s->qs, i, &start)) != NULL; i++)
		hold_machines(s, job_of(w), start);
}

static void sim_pass(struct sim *s, int64_t now)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_workload *w;
	int64_t members, start;

	while ((w = rf_queues_next(s->qs, now, &members)) != NULL) {
		struct job *j = job_of(w);
		bool own = rf_workload_reserved(s->qs, w, &start);

		if (!place(&s->p, j, own ? 0 : now + j->limit, true)) {
			rf_queues_refuse(s->qs, w, 1 << CARDS);
			continue;
		}
		must(rf_queues_admit(s->qs, w, members, now, &err), &err);
		start_job(&s->p, j, now);
		s->started[j->tenant]++;
		if (own)
			s->planned = RF_MIN(s->planned, now - s->every + 60000);
	}
}

static void sim_end(struct sim *s, struct job *j)
{
	end_job(&s->p, j);
	rf_queues_remove(s->qs, j->w, j->end);
	j->w = NULL;
	rf_queues_changed(s->qs, 1 << CARDS);
}

static void run_queues(struct trace *t, int machines, int64_t members)
{
	static struct sim s;
	size_t next = 0;
	double began = seconds();

	make_sim(&s, t, machines, members);
	while (next < t->n || s.p.n_running > 0) {
		struct job *e = next_end(&s.p);
		int64_t now;

		if (e != NULL && (next == t->n || e->end <= t->jobs[next].submit)) {
			now = e->end;
			sim_end(&s, e);
		} else {
			now = t->jobs[next].submit;
			sim_submit(&s, &t->jobs[next++]);
		}
		if (now - s.planned >= s.every)
			plan_ahead(&s, now);
		sim_pass(&s, now);
	}
	printf("    queues: %.1f s for %zu jobs, %zu reservations looked at\n", seconds() - began,
	       t->n, s.reserved);
	rf_queues_free(s.qs);
}

/* --- figures ----------------------------------------------------------------------------------- */

struct figures {
	double large_p50, large_p99, large_max, all_mean, all_p99, used;
	size_t n_large;
};

static struct figures measure(const struct trace *t, int machines)
{
	static double waits[JOBS_MAX], large[JOBS_MAX];
	struct figures f = { 0 };
	double work = 0;
	int64_t last = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct job *j = &t->jobs[i];

		waits[i] = (double)(j->start - j->submit) / (double)HOUR;
		f.all_mean += waits[i] / (double)t->n;
		work += (double)j->cards * (double)j->duration;
		last = RF_MAX(last, j->end);
		if (j->cards >= LARGE)
			large[f.n_large++] = waits[i];
	}
	f.all_p99 = percentile(waits, t->n, 0.99);
	f.large_p50 = percentile(large, f.n_large, 0.5);
	f.large_p99 = percentile(large, f.n_large, 0.99);
	f.large_max = f.n_large > 0 ? large[f.n_large - 1] : 0;
	f.used = work / ((double)(last - t->jobs[0].submit) * machines * PER_MACHINE);
	return f;
}

static void tell(const char *what, const struct figures *f)
{
	printf("    %-6s >= %d cards (%zu jobs): wait p50 %.2f h, p99 %.2f h, worst %.2f h; all: "
	       "mean "
	       "%.2f h, p99 %.2f h; %.1f %% of the cards used until the last has ended\n",
	       what, LARGE, f->n_large, f->large_p50, f->large_p99, f->large_max, f->all_mean,
	       f->all_p99, f->used * 100);
}

static void reset(struct trace *t)
{
	for (size_t i = 0; i < t->n; i++) {
		t->jobs[i].start = t->jobs[i].end = 0;
		t->jobs[i].w = NULL;
	}
}

static void bench_waits(struct trace *t, int machines)
{
	struct figures fifo, ours;

	printf("S16 %zu jobs of %d tenants on %d machines of %d cards\n", t->n, t->n_tenants,
	       machines, PER_MACHINE);
	reset(t);
	run_fifo(t, machines);
	fifo = measure(t, machines);
	tell("fifo", &fifo);
	for (int64_t members = 16; members >= 2; members -= 14) {
		reset(t);
		run_queues(t, machines, members);
		ours = measure(t, machines);
		tell("queues", &ours);
		printf("    p99 wait of the large: %.3f of fifo's, with reservations for %lld "
		       "cards and more\n",
		       ours.large_p99 / fifo.large_p99, (long long)members);
	}
}

/* Everybody always has work: each tenant's own jobs, over and over, `ahead` of them waiting. */
static void bench_shares(struct trace *t, int machines, int64_t days, int64_t members,
			 bool own_jobs)
{
	static struct sim s;
	static struct job jobs[4096];
	size_t cursor[TENANTS_MAX] = { 0 }, free_jobs[4096], n_free = 0;
	double used[TENANTS_MAX] = { 0 }, sum = 0, worst = 0, began = seconds();
	int waiting[TENANTS_MAX] = { 0 };
	int64_t now = DAY, end = now + days * DAY;
	RF_VEC(const struct job *) own[TENANTS_MAX] = { 0 };
	uint64_t id = 0;

	for (size_t i = 0; i < t->n; i++)
		rf_vec_push(&own[t->jobs[i].tenant], &t->jobs[i]);
	memset(jobs, 0, sizeof(jobs));
	make_sim(&s, t, machines, members);
	for (size_t i = 0; i < RF_COUNT(jobs); i++)
		free_jobs[n_free++] = RF_COUNT(jobs) - 1 - i;
	while (now < end) {
		struct job *e;

		for (int k = 0; k < t->n_tenants; k++) {
			for (; waiting[k] < 20 && n_free > 0; waiting[k]++) {
				struct job *j = &jobs[free_jobs[--n_free]];
				const struct job *from;

				from = own_jobs ? own[k].at[cursor[k] % own[k].n]
						: &t->jobs[cursor[k] % t->n];
				cursor[k]++;
				*j = *from;
				j->tenant = k;
				j->id = ++id;
				j->submit = now;
				j->start = 0;
				sim_submit(&s, j);
			}
		}
		if (now - s.planned >= s.every)
			plan_ahead(&s, now);
		sim_pass(&s, now);
		for (int k = 0; k < t->n_tenants; k++) {
			waiting[k] -= s.started[k];
			s.started[k] = 0;
		}
		e = next_end(&s.p);
		if (e == NULL)
			break;
		now = e->end;
		used[e->tenant] += (double)e->cards * (double)e->duration;
		sim_end(&s, e);
		free_jobs[n_free++] = (size_t)(e - jobs);
	}
	for (size_t i = 0; i < s.p.n_running; i++) /* what it had of those that still run */
		used[s.p.running[i]->tenant] +=
			(double)s.p.running[i]->cards * (double)(now - s.p.running[i]->start);
	for (int k = 0; k < t->n_tenants; k++) {
		sum += used[k];
		rf_vec_done(&own[k]);
	}
	printf("S16 shares, all backlogged with %s jobs, %lld days, reservations for %lld cards "
	       "and more:",
	       own_jobs ? "their own" : "the same", (long long)days, (long long)members);
	for (int k = 0; k < t->n_tenants; k++) {
		double error = used[k] / sum * t->n_tenants - 1;

		printf(" %+.2f%%", error * 100);
		worst = RF_MAX(worst, error < 0 ? -error : error);
	}
	printf("; worst %.2f %%, %.1f %% of the cards used, %llu jobs in %.0f s\n", worst * 100,
	       sum / ((double)(now - DAY) * machines * PER_MACHINE) * 100, (unsigned long long)id,
	       seconds() - began);
	rf_queues_free(s.qs);
}

int main(int argc, char **argv)
{
	struct trace t = { 0 };
	int machines = argc > 2 ? atoi(argv[2]) : 48;
	int64_t days = argc > 3 ? atoi(argv[3]) : 1500;

	bench_admissions(100000000, 0, "empty cluster");
	bench_admissions(4000, 0, "full cluster");
	bench_admissions(4000, 2, "full cluster, guarantees");
	bench_deep(false, false);
	bench_deep(true, true);
	bench_deep(true, false);
	bench_neighbour();
	bench_reclaim();
	bench_tree();
	if (argc < 2)
		return 0;
	if (machines < 16 || machines > MACHINES_MAX)
		return 1;
	read_trace(argv[1], &t);
	bench_waits(&t, machines);
	bench_shares(&t, machines, days, 16, false);
	bench_shares(&t, machines, days, 2, false);
	bench_shares(&t, machines, days, 2, true);
	free(t.jobs);
	return 0;
}
