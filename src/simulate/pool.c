/* What jobs that cannot be divided or stopped allow at best: all cards in one pool, as if there were no machines, and
 * always the next job of the tenant that has used least by weight; nobody passes it. What such a scheduler is off by is
 * due to the jobs, and what a real one is off by beyond that is its own. */
#include <stdio.h>

#include "simulate/private.h"

#define ENTRY_MS 60000 /* what runs counts as if it had run that much longer, as in the core */

struct held {
	int64_t cards;
	size_t tenant;
};

struct pool {
	struct rf_player p;
	rf_runs runs; /* of struct held */
	int64_t free, cards;
};

static void pool_done(struct pool *f)
{
	rf_runs_done(&f->runs);
	rf_player_done(&f->p);
}

/* --- what the books see ----------------------------------------------------------------------- */

static void see(struct pool *f, size_t tenant, uint64_t id, int64_t cards, enum rf_log_kind kind, bool del)
{
	char uid[32];
	struct rf_sched_container c = { .ask = { .cards = cards } };
	struct rf_log_event e = { .kind = kind, .del = del, .t = f->p.now };

	snprintf(uid, sizeof(uid), "j%llu", (unsigned long long)id);
	if (kind == RF_LOG_DECISION)
		e.decision = (struct rf_core_decision){ .verdict = RF_CORE_BIND, .uid = rf_str(uid) };
	else if (del)
		e.uid = rf_str(uid);
	else
		e.pod = (struct rf_sched_pod){ .uid = rf_str(uid), .name = rf_str(uid), .ns = f->p.ns[tenant],
					       .created_ms = f->p.now, .containers = &c, .n_containers = 1 };
	rf_tally_see(f->p.books, &e, NULL);
}

/* --- time ------------------------------------------------------------------------------------- */

static rf_tally_area key_of(const struct pool *f, size_t i)
{
	const struct rf_tally_tenant *t = &f->p.books->tenants.at[i];

	return t->area + (rf_tally_area)t->used * ENTRY_MS;
}

static size_t least_used(const struct pool *f)
{
	const struct rf_tally_tenant *t = f->p.books->tenants.at;
	size_t best = 0;

	for (size_t i = 1; i < f->p.s->tenants.n; i++)
		if (key_of(f, i) * t[best].weight < key_of(f, best) * t[i].weight)
			best = i;
	return best;
}

static void start(struct pool *f)
{
	for (;;) {
		size_t i = least_used(f);
		const struct rf_simulate_job *j = &f->p.s->jobs.at[f->p.own[i].at[f->p.cursor[i] % f->p.own[i].n]];
		struct rf_run r = { .end = f->p.now + RF_MAX(j->run_ms, 1) };
		struct held *h;

		if (j->cards > f->free)
			return;
		f->p.cursor[i]++;
		f->free -= j->cards;
		r.id = ++f->p.n_came;
		r.user = h = rf_new(struct held);
		*h = (struct held){ j->cards, i };
		rf_runs_push(&f->runs, r);
		see(f, i, r.id, j->cards, RF_LOG_POD, false);
		see(f, i, r.id, j->cards, RF_LOG_DECISION, false);
	}
}

static void end_runs(struct pool *f)
{
	while (rf_runs_next_ms(&f->runs) <= f->p.now) {
		struct rf_run r = rf_runs_take(&f->runs);
		struct held *h = r.user;

		f->free += h->cards;
		see(f, h->tenant, r.id, h->cards, RF_LOG_POD, true);
		free(h);
	}
}

static int check(const struct pool *f, struct rf_err *err)
{
	if (f->p.o->backlog_ms <= 0)
		return rf_fail(err, RF_INVALID, "--policy pool: only with --backlog");
	for (size_t i = 0; i < f->p.s->jobs.n; i++)
		if (f->p.s->jobs.at[i].cards > f->cards)
			return rf_fail(err, RF_INVALID, "a job asks for %u cards, and there are %lld",
				       f->p.s->jobs.at[i].cards, (long long)f->cards);
	return 0;
}

int rf_simulate_pool(const struct rf_simulate *s, const struct rf_simulate_play *o, struct rf_tally *ret,
		     struct rf_err *err)
{
	__attribute__((cleanup(pool_done))) struct pool f = { .p = { .s = s, .o = o, .books = ret } };
	int r = rf_player_prepare(&f.p, err);

	for (size_t i = 0; i < f.p.nodes.n; i++)
		f.cards += f.p.nodes.at[i].cards;
	if (r >= 0)
		r = check(&f, err);
	if (r >= 0)
		r = rf_player_set_up(&f.p, err);
	if (r < 0)
		return r;
	f.free = f.cards;
	rf_player_backlog(&f.p);
	for (size_t i = 0; i < s->tenants.n; i++) /* there is always more that it wants */
		see(&f, i, ++f.p.n_came, f.cards, RF_LOG_POD, false);
	for (; f.p.now < f.p.end; f.p.now = RF_MIN(rf_runs_next_ms(&f.runs), f.p.end)) {
		end_runs(&f);
		rf_tally_until(ret, f.p.now);
		start(&f);
	}
	rf_tally_until(ret, f.p.end);
	return 0;
}
