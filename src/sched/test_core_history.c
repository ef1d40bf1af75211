/* Histories: lived through in a process of their own, brought to rest, and made short when they break a promise. */
#include "sched/test_core_world.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* --- calm ------------------------------------------------------------------------------------- */

#define CALM_MS 3600000
#define CALM_TURNS 6000
#define ROUNDS_MOST 4

static int64_t next_time(struct world *w)
{
	int64_t t = rf_core_next_ms(w->core, w->now);

	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];

		if (p->live && p->deleting)
			t = RF_MIN(t, p->gone_at);
		if (p->live && p->node != NOBODY && !p->ended)
			t = RF_MIN(t, p->ends);
	}
	return t;
}

static int count_running(const struct world *w)
{
	int n = 0;

	for (int i = 0; i < PODS; i++) {
		int at;

		n += w->pods[i].live && !w->pods[i].ended && ref_there(&w->pods[i], &at);
	}
	return n;
}

static bool calm_turn(struct world *w, size_t *ret_n)
{
	bool ok = true;

	world_deliver(w);
	while (w->n_writes > 0)
		if (!world_write(w, false) || w->why[0] != 0)
			return false;
	for (int i = 0; i < PODS; i++)
		(void)world_scrub(w, &w->pods[i]);
	world_deliver(w);
	*ret_n = world_decided(w, 64, &ok);
	return ok && w->why[0] == 0 && ref_conserved(w);
}

/* Plans that come to nothing are made again after a pause that grows: nobody is evicted for such time and again. */
static bool none_goes_round(struct world *w)
{
	for (int i = 0; i < PODS; i++)
		CHECK(w, !w->pods[i].live || w->pods[i].evictions <= ROUNDS_MOST, "I13 %s is evicted for the %d. time", w->pods[i].uid,
		      (int)w->pods[i].evictions);
	return true;
}

/* I13: without arrivals it comes to an end, and no more goes than ran. */
static bool calm_down(struct world *w)
{
	int64_t start = w->now, end = start + CALM_MS;
	long evicts = w->n.evicts, before = w->n.binds, running = count_running(w) + 1, binds, batches = 0;

	w->fresh_binds = 0;
	for (int i = 0; i < PODS; i++)
		w->pods[i].evictions = 0;
	for (int turn = 0; turn < CALM_TURNS; turn++) {
		size_t n = 0;
		int64_t t;

		binds = w->n.binds;
		w->plan_evicts = 0;
		if (!calm_turn(w, &n) || !none_goes_round(w))
			return false;
		batches += w->plan_evicts > 0;
		CHECK(w, n > 0 || w->n_writes > 0 || w->now < start + w->config.gang_window_ms + 6000 || ref_gangs_whole(w),
		      "I10 after the window: %s", w->why);
		running += w->remake ? 0 : w->n.binds - binds;
		CHECK(w, w->n.evicts - evicts <= (w->remake ? (running + w->fresh_binds) * 4 : running), "I13 %ld evictions, %ld ran or were started",
		      w->n.evicts - evicts, running);
		if (n > 0 || w->n_writes > 0)
			continue;
		t = next_time(w);
		if (t == INT64_MAX || t > end) {
			/* I11: each time something went, somebody who had waited for it came. */
			CHECK(w, w->disturbed || w->n.binds - before >= batches, "I11 %ld plans, %ld placed", batches, w->n.binds - before);
			return true;
		}
		CHECK(w, t >= w->now, "I16 next_ms %" PRId64 " is before now, %" PRId64, t, w->now);
		world_time(w, RF_MAX(t - w->now, 1));
	}
	return broke(w, "I13 no rest after %d turns", CALM_TURNS);
}

/* What is on a node or a card that is gone, or in a queue that is, can be known better by who was there when it went. */
static bool is_lost(const struct world *w)
{
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];
		int at;

		if (!ref_there(p, &at))
			continue;
		if (!w->nodes[at].exists || (space_tenant(p->space) != NOBODY && ref_leaf(w, p) == NOBODY))
			return true;
		for (int k = 0; k < p->place.n; k++) {
			if (ref_holds(p) && card_away(w, &w->nodes[p->place.node].cards[p->place.held[k].card]))
				return true;
		}
	}
	return false;
}

/* I20: what a restart makes of the API's objects is what was there. */
static bool same_views(struct world *w, struct rf_core *other)
{
	struct rf_fleet_usage a, b;

	rf_fleet_usage(rf_core_fleet(w->core), &a);
	rf_fleet_usage(rf_core_fleet(other), &b);
	CHECK(w, a.cards == b.cards && a.healthy == b.healthy && a.milli == b.milli && a.free_cards == b.free_cards &&
			 a.cpu_milli == b.cpu_milli && a.cpu_free == b.cpu_free && a.nodes == b.nodes && a.holds == b.holds,
	      "I20 fleet before: %d holds, %d milli, %d cpu free, %d cards free; after: %d, %d, %d, %d", (int)a.holds, (int)a.milli,
	      (int)a.cpu_free, (int)a.free_cards, (int)b.holds, (int)b.milli, (int)b.cpu_free, (int)b.free_cards);
	for (int q = 0; q < QUEUES; q++) {
		struct rf_queue *qa = rf_queues_find(rf_core_queues(w->core), rf_str(queue_names[q])),
				*qb = rf_queues_find(rf_core_queues(other), rf_str(queue_names[q]));

		CHECK(w, (qa == NULL) == (qb == NULL), "I20 queue %s is there %s the restart only", queue_names[q], qa ? "before" : "after");
		for (int r = 0; qa != NULL && r < RES; r++) {
			int64_t ra = rf_core_resource(w->core, rf_str(res_names[r])), rb = rf_core_resource(other, rf_str(res_names[r]));
			struct rf_queue_view va = { 0 }, vb = { 0 };

			if (ra >= 0)
				rf_queue_view(rf_core_queues(w->core), qa, ra, w->now, &va);
			if (rb >= 0)
				rf_queue_view(rf_core_queues(other), qb, rb, w->now, &vb);
			CHECK(w, va.used == vb.used && va.unpreemptible == vb.unpreemptible && (ra < 0 || rb < 0 || (va.limit == vb.limit && va.guaranteed == vb.guaranteed)),
			      "I20 queue %s, %s: before used %" PRId64 " fixed %" PRId64 " guaranteed %" PRId64 " limit %" PRId64
			      ", after %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
			      queue_names[q], res_names[r], va.used, va.unpreemptible, va.guaranteed, va.limit, vb.used, vb.unpreemptible,
			      vb.guaranteed, vb.limit);
		}
	}
	return true;
}

static bool nothing_new(struct world *w, struct rf_core *other)
{
	static const char *const verdicts[] = { "bound", "told to wait", "released", "evicted" };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_core_decision *d = NULL;
	size_t n;

	for (int turn = 0; (n = rf_core_decide(other, w->now, 64, &a, &d)) > 0; turn++) {
		CHECK(w, turn < 100, "I20 a restart does not come to rest");
		for (size_t i = 0; i < n; i++) {
			const struct pod *p = world_find(w, d[i].uid);

			CHECK(w, p != NULL, "I20 after a restart a decision on %.*s, which is not there", RF_STR(d[i].uid));
			/* Of a gang whose models are limited not every order of places is tried: what came later may be of help. */
			if (d[i].verdict == RF_CORE_BIND && p->group != NOBODY && !ref_models_open(w, p))
				return true;
			CHECK(w, d[i].verdict == RF_CORE_WAIT || p->fails > 0, "I20 at rest %s after a restart: %.*s %.*s, before: %s; %.*s",
			      verdicts[d[i].verdict], RF_STR(d[i].uid), RF_STR(d[i].node), p->why, RF_STR(d[i].reason));
			if (d[i].verdict != RF_CORE_WAIT)
				return true;
		}
		rf_arena_reset(&a);
	}
	return true;
}

static bool restart_is_equal(struct world *w)
{
	rf_auto_ptr(core) other = world_retell(w, (uint64_t)w->n.events * 2654435761u + 1);
	rf_auto(buf) ledger = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	w->n.restarts++;
	rf_core_export(w->core, w->now, &ledger);
	CHECK(w, rf_core_import(other, rf_buf_str(&ledger), w->now, &err) == 0, "I19 the ledger cannot be read back: %s", err.msg);
	CHECK(w, rf_core_audit(other, w->now, &err) == 0, "I20 audit after a restart: %s", err.msg);
	return is_lost(w) || (same_views(w, other) && nothing_new(w, other));
}

/* The twin is asked, too: trying moves makes the core look at reasons anew, some of which may have become others meanwhile. */
static bool twin_moves_the_same(struct world *w, const struct rf_core_move *m, size_t n)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_core_move *other = NULL;
	size_t k = rf_core_defragment(w->twin, w->now, 8, &a, &other);

	for (size_t i = 0; i < RF_MIN(n, k); i++)
		CHECK(w, rf_str_eq(m[i].uid, other[i].uid) && rf_str_eq(m[i].to, other[i].to), "I16 move %zu: %.*s to %.*s here, %.*s to %.*s there",
		      i, RF_STR(m[i].uid), RF_STR(m[i].to), RF_STR(other[i].uid), RF_STR(other[i].to));
	CHECK(w, n == k, "I16 %zu moves here, %zu there", n, k);
	return true;
}

static bool moves_are_good(struct world *w)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_core_move *m = NULL;
	size_t n = rf_core_defragment(w->core, w->now, 8, &a, &m);

	w->n.moves += (long)n;
	if (w->twin != NULL && !twin_moves_the_same(w, m, n))
		return false;
	CHECK(w, n <= 8, "I21 %zu moves, 8 were asked for", n);
	return ref_moves(w, m, n);
}

static bool positions_are_good(struct world *w)
{
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &w->pods[i];
		int64_t at = p->live ? rf_core_position(w->core, rf_str(p->uid)) : -1;

		CHECK(w, at < PODS && (p->node == NOBODY || at == -1), "I18 %s is at place %" PRId64 " of its queue", p->uid, at);
	}
	return true;
}

bool world_calm(struct world *w)
{
	struct rf_err err = RF_ERR_INIT;
	bool lazy = w->lazy, no_fail = w->no_fail;
	bool ok;

	SAY(w, "-- calm begins");
	w->n.calms++;
	w->no_fail = true;
	w->disturbed = false;
	ok = calm_down(w) && ref_at_rest(w);
	if (w->twin != NULL)
		(void)rf_core_audit(w->twin, w->now, &err);
	if (ok && rf_core_audit(w->core, w->now, &err) != 0)
		ok = broke(w, "I4 audit at rest: %s", err.msg);
	ok = ok && moves_are_good(w) && positions_are_good(w) && restart_is_equal(w);
	w->lazy = lazy;
	w->no_fail = no_fail;
	SAY(w, "-- calm ends");
	return ok;
}

/* --- histories -------------------------------------------------------------------------------- */

int64_t history_crash_at;

#define HISTORY_SECONDS 60 /* one that takes longer hangs */

struct outcome {
	bool ok;
	size_t at; /* the event that broke it */
	uint64_t digest;
	struct counts n;
	char why[700];
};

static void live_through(uint64_t seed, const struct event *e, size_t n, bool loud, struct outcome *ret)
{
	static struct world w;
	size_t i = 0;

	*ret = (struct outcome){ .ok = true };
	world_start(&w, seed, loud);
	w.crash_at_write = history_crash_at;
	ret->ok = w.why[0] == 0;
	for (; i < n && ret->ok; i++)
		ret->ok = world_event(&w, &e[i]);
	if (ret->ok)
		ret->ok = world_calm(&w) && w.why[0] == 0;
	ret->at = i;
	ret->digest = w.digest;
	ret->n = w.n;
	ret->n.writes = w.writes_done;
	memcpy(ret->why, w.why, sizeof(ret->why));
	world_done(&w);
}

static bool read_outcome(int fd, struct outcome *ret)
{
	size_t got = 0;

	while (got < sizeof(*ret)) {
		ssize_t n = read(fd, (char *)ret + got, sizeof(*ret) - got);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

static bool in_process(uint64_t seed, const struct event *e, size_t n, bool loud, struct outcome *ret)
{
	static const int deadly[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	int fds[2], status = 0;
	pid_t pid;
	bool got;

	fflush(stdout);
	fflush(stderr);
	if (pipe(fds) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		static struct outcome o;

		alarm(HISTORY_SECONDS);
		for (size_t i = 0; i < RF_COUNT(deadly); i++)
			signal(deadly[i], SIG_DFL); /* cmocka's own would go on from there */
		live_through(seed, e, n, loud, &o);
		fflush(stdout);
		if (write(fds[1], &o, sizeof(o)) != (ssize_t)sizeof(o))
			_exit(3);
		close(fds[0]);
		close(fds[1]);
		exit(0); /* not _exit: a leak is to be seen */
	}
	close(fds[1]);
	got = read_outcome(fds[0], ret);
	close(fds[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	if (!got) {
		*ret = (struct outcome){ .at = n };
		snprintf(ret->why, sizeof(ret->why), "DIED by signal %d, status %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0,
			 WIFEXITED(status) ? WEXITSTATUS(status) : 0);
	} else if (status != 0 && ret->ok) {
		ret->ok = false;
		snprintf(ret->why, sizeof(ret->why), "DIED at its end, status %d", status);
	}
	return ret->ok;
}

bool history_run(uint64_t seed, const struct event *e, size_t n, bool loud, struct counts *add, uint64_t *digest, char *why,
		 size_t why_n)
{
	static struct outcome o;
	bool ok = in_process(seed, e, n, loud, &o);
	const long *from = (const long *)&o.n;
	long *to = (long *)add;

	for (size_t i = 0; add != NULL && i < sizeof(o.n) / sizeof(long); i++)
		to[i] += from[i];
	if (digest != NULL)
		*digest = o.digest;
	if (why != NULL)
		snprintf(why, why_n, "%s", o.why);
	return ok;
}

/* The same promise, in the same words: numbers and names aside. */
static bool same_break(const char *a, const char *b)
{
	for (int words = 0; words < 4 && *a != 0; a++, b++) {
		while (*a >= '0' && *a <= '9' && words > 0)
			a++;
		while (*b >= '0' && *b <= '9' && words > 0)
			b++;
		if (*a != *b)
			return false;
		words += *a == ' ';
	}
	return true;
}

void history_shrink(uint64_t seed, struct event *e, size_t *n, const char *why)
{
	struct event *less = rf_alloc(sizeof(*less) * (*n + 1));
	static struct outcome o;
	time_t until = time(NULL) + (getenv("RF_NO_SHRINK") != NULL ? 0 : 90);

	if (!in_process(seed, e, *n, false, &o) && o.at > 0 && o.at <= *n)
		*n = o.at;
	for (size_t chunk = RF_MAX(*n / 2, 1); time(NULL) < until;) {
		bool shorter = false;

		for (size_t at = 0; at < *n && time(NULL) < until;) {
			size_t cut = RF_MIN(chunk, *n - at);

			memcpy(less, e, at * sizeof(*e));
			memcpy(less + at, e + at + cut, (*n - at - cut) * sizeof(*e));
			if (!in_process(seed, less, *n - cut, false, &o) && same_break(why, o.why)) {
				*n = RF_MIN(*n - cut, o.at > 0 ? o.at : *n - cut);
				memcpy(e, less, *n * sizeof(*e));
				shorter = true;
			} else {
				at += cut;
			}
		}
		if (chunk == 1 && !shorter)
			break;
		chunk = chunk > 1 ? chunk / 2 : 1;
	}
	free(less);
	printf("# seed %" PRIu64 ", %zu events are enough:\n", seed, *n);
	(void)in_process(seed, e, *n, true, &o);
	printf("# %s\n", o.why);
	fflush(stdout);
}
