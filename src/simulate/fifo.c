/* First come, first served, on the first machines that do: what a scheduler has to be better than. */
#include <stdio.h>

#include "simulate/private.h"

struct part { /* of a job, on a machine */
	uint32_t node, cards;
};

struct held {
	size_t n;
	struct part parts[];
};

struct size { /* jobs that ask for the same wait in one line */
	uint32_t cards;
	RF_VEC(uint32_t) jobs;
	size_t first;
	bool failed; /* at this time */
};

struct fifo {
	struct rf_player p;
	bool strict;
	uint32_t *free; /* cards of each machine */
	int64_t cards_free;
	RF_VEC(struct size) sizes;
	rf_runs runs; /* of struct held, by end and job */
	RF_VEC(struct part) parts; /* of the one that is tried */
};

static void fifo_done(struct fifo *f)
{
	for (size_t i = 0; i < f->sizes.n; i++)
		rf_vec_done(&f->sizes.at[i].jobs);
	rf_vec_done(&f->sizes);
	rf_runs_done(&f->runs);
	rf_vec_done(&f->parts);
	free(f->free);
	rf_player_done(&f->p);
}

/* --- machines --------------------------------------------------------------------------------- */

static bool take(struct fifo *f, uint32_t cards, size_t *from)
{
	for (size_t i = *from; i < f->p.nodes.n; i++) {
		if (f->free[i] < cards)
			continue;
		f->free[i] -= cards;
		f->cards_free -= cards;
		rf_vec_push(&f->parts, ((struct part){ (uint32_t)i, cards }));
		*from = i;
		return true;
	}
	return false;
}

static void give(struct fifo *f, const struct part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		f->free[parts[i].node] += parts[i].cards;
		f->cards_free += parts[i].cards;
	}
}

static bool place(struct fifo *f, uint32_t cards)
{
	size_t from = 0;
	bool good = cards <= f->cards_free;

	rf_vec_clear(&f->parts);
	for (; good && cards >= f->p.per; cards -= f->p.per)
		good = take(f, f->p.per, &from);
	from = 0;
	if (good && cards > 0)
		good = take(f, cards, &from);
	if (!good)
		give(f, f->parts.at, f->parts.n);
	return good;
}

/* --- what the books see ----------------------------------------------------------------------- */

static void see(struct fifo *f, const struct rf_simulate_job *j, enum rf_core_verdict *verdict, bool del)
{
	char uid[32];
	struct rf_sched_container c = { .ask = { .cards = j->cards } };
	struct rf_log_event e = { .kind = verdict != NULL ? RF_LOG_DECISION : RF_LOG_POD, .del = del, .t = f->p.now };

	snprintf(uid, sizeof(uid), "j%u", j->id);
	if (verdict != NULL)
		e.decision = (struct rf_core_decision){ .verdict = *verdict, .uid = rf_str(uid) };
	else if (del)
		e.uid = rf_str(uid);
	else
		e.pod = (struct rf_sched_pod){ .uid = rf_str(uid), .name = rf_str(uid), .ns = f->p.ns[j->tenant],
					       .created_ms = j->submit_ms, .containers = &c, .n_containers = 1 };
	rf_tally_see(f->p.books, &e, NULL);
}

/* --- time ------------------------------------------------------------------------------------- */

static void line_up(struct fifo *f, const struct rf_simulate_job *j)
{
	size_t i = 0;

	while (i < f->sizes.n && f->sizes.at[i].cards != j->cards)
		i++;
	if (i == f->sizes.n)
		rf_vec_push(&f->sizes, ((struct size){ .cards = j->cards }));
	rf_vec_push(&f->sizes.at[i].jobs, j->id);
}

static struct size *first_in_line(struct fifo *f)
{
	struct size *best = NULL;

	for (size_t i = 0; i < f->sizes.n; i++) {
		struct size *s = &f->sizes.at[i];

		if (s->first < s->jobs.n && !s->failed &&
		    (best == NULL || s->jobs.at[s->first] < best->jobs.at[best->first]))
			best = s;
	}
	return best;
}

static void start(struct fifo *f, const struct rf_simulate_job *j)
{
	struct held *h = rf_alloc(sizeof(*h) + f->parts.n * sizeof(h->parts[0]));
	enum rf_core_verdict verdict = RF_CORE_BIND;

	h->n = f->parts.n;
	memcpy(h->parts, f->parts.at, h->n * sizeof(h->parts[0]));
	rf_runs_push(&f->runs, (struct rf_run){ f->p.now + j->run_ms, j->id, h });
	see(f, j, &verdict, false);
}

static void pass(struct fifo *f)
{
	struct size *s;

	for (size_t i = 0; i < f->sizes.n; i++)
		f->sizes.at[i].failed = false;
	while ((s = first_in_line(f)) != NULL) {
		if (place(f, s->cards)) {
			start(f, &f->p.s->jobs.at[s->jobs.at[s->first++]]);
			continue;
		}
		s->failed = true;
		if (f->strict)
			return;
	}
}

static void end_runs(struct fifo *f)
{
	while (rf_runs_next_ms(&f->runs) <= f->p.now) {
		struct rf_run r = rf_runs_take(&f->runs);
		struct held *h = r.user;

		give(f, h->parts, h->n);
		see(f, &f->p.s->jobs.at[r.id], NULL, true);
		free(h);
	}
}

/* One that would not fit if nothing ran is not put in line: nobody waits behind it. */
static bool ever_fits(struct fifo *f, uint32_t cards)
{
	uint32_t *now = f->free;
	int64_t n = f->cards_free;
	bool fits;

	f->free = rf_alloc(f->p.nodes.n * sizeof(*f->free));
	f->cards_free = 0;
	for (size_t i = 0; i < f->p.nodes.n; i++) {
		f->free[i] = f->p.nodes.at[i].cards;
		f->cards_free += f->free[i];
	}
	fits = place(f, cards);
	free(f->free);
	f->free = now;
	f->cards_free = n;
	return fits;
}

static void arrivals(struct fifo *f)
{
	const struct rf_simulate *s = f->p.s;

	while (f->p.next < s->jobs.n && s->jobs.at[f->p.next].submit_ms <= f->p.now) {
		const struct rf_simulate_job *j = &s->jobs.at[f->p.next++];

		see(f, j, NULL, false);
		if (j->cards <= f->p.per || ever_fits(f, j->cards))
			line_up(f, j);
	}
}

static int64_t next_time(const struct fifo *f)
{
	int64_t next = rf_runs_next_ms(&f->runs);

	return f->p.next < f->p.s->jobs.n ? RF_MIN(next, f->p.s->jobs.at[f->p.next].submit_ms) : next;
}

int rf_simulate_fifo(const struct rf_simulate *s, const struct rf_simulate_play *o, bool strict, struct rf_tally *ret,
		     struct rf_err *err)
{
	__attribute__((cleanup(fifo_done))) struct fifo f = { .p = { .s = s, .o = o, .books = ret }, .strict = strict };
	int r = rf_player_prepare(&f.p, err);

	if (r >= 0)
		r = rf_player_set_up(&f.p, err);
	if (r < 0)
		return r;
	f.free = rf_alloc(f.p.nodes.n * sizeof(*f.free));
	for (size_t i = 0; i < f.p.nodes.n; i++) {
		f.free[i] = f.p.nodes.at[i].cards;
		f.cards_free += f.free[i];
	}
	for (; f.p.now != INT64_MAX; f.p.now = next_time(&f)) {
		int64_t began = rf_mono_ns(o->clock);

		end_runs(&f);
		arrivals(&f);
		pass(&f);
		ret->ns += rf_mono_ns(o->clock) - began;
	}
	return 0;
}
