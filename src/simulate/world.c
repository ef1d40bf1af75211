/* The cluster around a core: what control, the nodes and the owners of jobs would do. */
#include <stdio.h>

#include "simulate/private.h"

#define DECIDE_MOST 512
#define ROUNDS_MAX 100000 /* of decide at one time: beyond, it will not come to an end */
#define EMPTY_MAX 4096
#define STEP_MS INT64_C(1000)	  /* the core is asked again for time's sake at most this often, */
#define PATIENCE 16	  /* after so many times that it had nothing to say */
#define STEPS_MAX 56	  /* half as often each time, so often */

struct gang {
	struct rf_sched_group spec;
	int64_t pods, bound;
	bool over; /* it goes with its last pod */
	char *key;
	size_t key_n;
};

enum life { WAITING, RUNNING, LEAVING, DONE };
struct wpod {
	struct rf_sched_pod spec;
	struct gang *gang;
	char *text;	/* uid, name and group as they came */
	char *uid;	/* the one it has now */
	size_t first_n; /* of the first uid */
	int64_t run_ms, until_ms;
	uint64_t serial;
	uint32_t age;	  /* grows when it starts or ends: older events do not count */
	uint32_t comings; /* how often it came */
	uint32_t pending; /* events that point to it */
	enum life life;
	struct rf_str claim; /* its name; empty: there is none */
};

struct event {
	int64_t t;
	uint64_t serial;
	struct wpod *pod;
	uint32_t age;
	enum { EVENT_END, EVENT_GONE, EVENT_WITHDRAWN } kind;
};

struct rf_world {
	struct rf_core *core;
	struct rf_tally *books;
	const struct rf_clock *clock;
	struct rf_map pods, gangs, node_names;
	struct rf_arena a, decided;
	RF_VEC(struct event) events; /* a heap */
	uint64_t serial;
	int64_t rv, asked_ms;
	size_t running, waiting;
	int idle; /* times in a row that it was asked, and nothing had happened and nothing was decided */
	bool own_gangs;
};

struct rf_world *rf_world_new(const struct rf_core_config *config, const struct rf_simulate_play *o,
			      bool own_gangs, struct rf_tally *books)
{
	struct rf_world *w = rf_new(struct rf_world);

	w->core = rf_core_new(config);
	w->books = books;
	w->clock = o->clock;
	w->asked_ms = -1;
	w->own_gangs = own_gangs;
	if (o->line != NULL)
		rf_core_log_to(w->core, o->line, o->ctx);
	return w;
}

static void free_pod(struct wpod *p)
{
	free(p->text);
	free(p->uid);
	free(p);
}

static void free_gang(struct gang *g)
{
	free(g->key);
	free(g);
}

void rf_world_free(struct rf_world *w)
{
	if (w == NULL)
		return;
	for (size_t i = 0; i < w->events.n; i++) {
		struct wpod *p = w->events.at[i].pod;

		if (--p->pending == 0 && p->life == DONE)
			free_pod(p);
	}
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->pods, s)) != NULL;)
		free_pod(s->value);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->gangs, s)) != NULL;)
		free_gang(s->value);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->node_names, s)) != NULL;)
		free(s->value);
	rf_map_done(&w->pods);
	rf_map_done(&w->gangs);
	rf_map_done(&w->node_names);
	rf_vec_done(&w->events);
	rf_arena_done(&w->a);
	rf_arena_done(&w->decided);
	rf_core_free(w->core);
	free(w);
}

size_t rf_world_running(const struct rf_world *w)
{
	return w->running;
}

size_t rf_world_waiting(const struct rf_world *w)
{
	return w->waiting;
}

/* --- what comes later ------------------------------------------------------------------------- */

static bool before(const struct event *a, const struct event *b)
{
	return a->t != b->t ? a->t < b->t : a->serial < b->serial;
}

static void swap(struct event *a, struct event *b)
{
	struct event e = *a;

	*a = *b;
	*b = e;
}

static void later(struct rf_world *w, int64_t t, struct wpod *p, int kind)
{
	struct event e = { .t = t, .serial = w->serial++, .pod = p, .age = p->age, .kind = kind };
	size_t i = w->events.n;

	p->pending++;
	rf_vec_push(&w->events, e);
	for (; i > 0 && before(&w->events.at[i], &w->events.at[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&w->events.at[i], &w->events.at[(i - 1) / 2]);
}

static struct event take_event(struct rf_world *w)
{
	struct event first = w->events.at[0];
	size_t i = 0;

	w->events.at[0] = w->events.at[--w->events.n];
	for (;;) {
		size_t least = i;

		for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < w->events.n; k++)
			if (before(&w->events.at[k], &w->events.at[least]))
				least = k;
		if (least == i)
			return first;
		swap(&w->events.at[i], &w->events.at[least]);
		i = least;
	}
}

/* --- telling ---------------------------------------------------------------------------------- */

static int tell(struct rf_world *w, const struct rf_log_event *e, struct rf_err *err)
{
	int64_t start;
	int r = rf_tally_see(w->books, e, err);

	if (r < 0)
		return r;
	w->idle = 0;
	start = rf_mono_ns(w->clock);
	r = rf_log_tell(w->core, e, err);
	w->books->ns += rf_mono_ns(w->clock) - start;
	return r;
}

static void tell_pod(struct rf_world *w, struct wpod *p, int64_t now)
{
	struct rf_log_event e = { .kind = RF_LOG_POD, .t = now };

	p->spec.rv = ++w->rv;
	e.pod = p->spec;
	tell(w, &e, NULL);
}

static void tell_gone(struct rf_world *w, struct wpod *p, int64_t now)
{
	struct rf_log_event e = { .kind = RF_LOG_POD, .del = true, .t = now, .uid = p->spec.uid };

	tell(w, &e, NULL);
	if (p->claim.n == 0)
		return;
	e = (struct rf_log_event){ .kind = RF_LOG_CLAIM, .del = true, .t = now, .ns = p->spec.ns, .name = p->claim };
	tell(w, &e, NULL);
	p->claim = RF_STR_EMPTY;
}

/* --- gangs ------------------------------------------------------------------------------------ */

static struct gang *gang_of(struct rf_world *w, struct rf_str ns, struct rf_str name)
{
	rf_auto(buf) key = RF_BUF_INIT;
	struct gang *g;

	rf_buf_printf(&key, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
	g = rf_map_get(&w->gangs, rf_buf_str(&key));
	if (g != NULL)
		return g;
	g = rf_new(struct gang);
	g->key = rf_str_dup(rf_buf_str(&key));
	g->key_n = key.n;
	rf_map_set(&w->gangs, rf_buf_str(&key), g);
	return g;
}

static void drop_gang(struct rf_world *w, struct gang *g)
{
	rf_map_del(&w->gangs, rf_str_n(g->key, g->key_n));
	free_gang(g);
}

/* All its pods have ended. */
static void forget_gang(struct rf_world *w, struct gang *g, int64_t now)
{
	struct rf_log_event e = { .kind = RF_LOG_GROUP, .del = true, .t = now, .ns = g->spec.ns, .name = g->spec.name };

	if (g->spec.name.n > 0)
		tell(w, &e, NULL);
	drop_gang(w, g);
}

static int put_group(struct rf_world *w, const struct rf_log_event *e, struct rf_err *err)
{
	struct gang *g = gang_of(w, e->group.ns, e->group.name);
	struct rf_log_event v = *e;

	v.group.started = g->bound >= v.group.min && g->bound > 0;
	v.group.rv = ++w->rv;
	g->spec = v.group;
	g->spec.ns = rf_arena_str(&w->a, v.group.ns);
	g->spec.name = rf_arena_str(&w->a, v.group.name);
	g->spec.queue = rf_arena_str(&w->a, v.group.queue);
	g->spec.topology = rf_arena_str(&w->a, v.group.topology);
	return tell(w, &v, err);
}

static void set_started(struct rf_world *w, struct gang *g, bool started, int64_t now)
{
	struct rf_log_event e = { .kind = RF_LOG_GROUP, .t = now };

	if (g->spec.name.n == 0 || g->spec.started == started)
		return;
	g->spec.started = started;
	g->spec.rv = ++w->rv;
	e.group = g->spec;
	tell(w, &e, NULL);
}

/* --- pods ------------------------------------------------------------------------------------- */

static struct rf_str node_name(struct rf_world *w, struct rf_str name)
{
	char *s = rf_map_get(&w->node_names, name);

	if (s == NULL) {
		s = rf_str_dup(name);
		rf_map_set(&w->node_names, name, s);
	}
	return rf_str_n(s, name.n);
}

static struct wpod *new_pod(struct rf_world *w, const struct rf_sched_pod *spec)
{
	struct wpod *p = rf_new(struct wpod);
	size_t n = spec->uid.n, m = spec->name.n;

	p->spec = *spec;
	p->claim = RF_STR_EMPTY;
	p->text = rf_alloc(n + m + spec->group.n + 1);
	p->uid = rf_alloc(n + 16);
	p->first_n = n;
	memcpy(p->text, spec->uid.p, n);
	memcpy(p->text + n, spec->name.p, m);
	memcpy(p->text + n + m, spec->group.p, spec->group.n);
	memcpy(p->uid, p->text, n);
	p->spec.uid = rf_str_n(p->uid, n);
	p->spec.name = rf_str_n(p->text + n, m);
	p->spec.group = rf_str_n(p->text + n + m, spec->group.n);
	p->serial = w->serial++;
	if (spec->group.n > 0) {
		p->gang = gang_of(w, spec->ns, p->spec.group);
		p->gang->pods++;
	}
	rf_map_set(&w->pods, p->spec.uid, p);
	return p;
}

static void starts(struct rf_world *w, struct wpod *p, struct rf_str node, int64_t now)
{
	p->spec.node = node_name(w, node);
	p->spec.started_ms = now;
	p->life = RUNNING;
	p->age++;
	w->running++;
	if (p->gang != NULL)
		p->gang->bound++;
	later(w, p->run_ms > 0 ? now + RF_MIN(p->run_ms, RF_QUEUE_MS_MAX) : p->until_ms, p, EVENT_END);
}

/* Uncounted, whatever it did. */
static void stops(struct rf_world *w, struct wpod *p, int64_t now)
{
	bool ran = p->life == RUNNING || p->life == LEAVING;

	w->running -= ran;
	w->waiting -= p->life == WAITING;
	p->age++;
	tell_gone(w, p, now);
	if (p->gang != NULL && ran)
		p->gang->bound--;
}

static void ends(struct rf_world *w, struct wpod *p, int64_t now)
{
	struct gang *g = p->gang;

	stops(w, p, now);
	rf_map_del(&w->pods, p->spec.uid);
	p->life = DONE;
	if (g != NULL && --g->pods == 0 && (g->spec.name.n == 0 || g->over || w->own_gangs))
		forget_gang(w, g, now);
	if (p->pending == 0)
		free_pod(p);
}

/* Its owner makes it anew: what it did is lost. */
static void comes_again(struct rf_world *w, struct wpod *p, int64_t now)
{
	stops(w, p, now);
	if (p->gang != NULL && p->gang->bound == 0) {
		/* who ended by itself does not come again: the others are enough */
		p->gang->spec.min = RF_MIN(p->gang->spec.min, p->gang->pods);
		set_started(w, p->gang, false, now);
	}
	rf_map_del(&w->pods, p->spec.uid);
	p->spec.uid.n = p->first_n + (size_t)snprintf(p->uid + p->first_n, 16, ".%u", ++p->comings);
	p->spec.created_ms = now;
	p->spec.node = RF_STR_EMPTY;
	p->spec.started_ms = 0;
	p->spec.deleting = false;
	p->life = WAITING;
	w->waiting++;
	rf_map_set(&w->pods, p->spec.uid, p);
	tell_pod(w, p, now);
}

int rf_world_come(struct rf_world *w, const struct rf_sched_pod *spec, int64_t run_ms, int64_t until_ms, int64_t now,
		  struct rf_err *err)
{
	struct wpod *p;

	if (rf_map_get(&w->pods, spec->uid) != NULL)
		return rf_fail(err, RF_INVALID, "pod %.*s comes twice", (int)RF_MIN(spec->uid.n, 80), spec->uid.p);
	p = new_pod(w, spec);
	p->run_ms = run_ms;
	p->until_ms = until_ms;
	p->life = WAITING;
	w->waiting++;
	if (until_ms < INT64_MAX)
		later(w, RF_MAX(until_ms, now), p, EVENT_WITHDRAWN);
	tell_pod(w, p, now);
	return 0;
}

int rf_world_runs(struct rf_world *w, const struct rf_sched_pod *spec, struct rf_str claim, int64_t left_ms,
		  int64_t now, struct rf_err *err)
{
	struct wpod *p;
	int64_t started = spec->started_ms;

	if (rf_map_get(&w->pods, spec->uid) != NULL)
		return rf_fail(err, RF_INVALID, "pod %.*s comes twice", (int)RF_MIN(spec->uid.n, 80), spec->uid.p);
	p = new_pod(w, spec);
	p->run_ms = left_ms;
	p->until_ms = INT64_MAX;
	p->claim = claim;
	starts(w, p, spec->node, now);
	p->spec.started_ms = started;
	tell_pod(w, p, now);
	return 0;
}

static int by_serial(const void *pa, const void *pb)
{
	const struct wpod *a = *(struct wpod *const *)pa, *b = *(struct wpod *const *)pb;

	return a->serial < b->serial ? -1 : a->serial > b->serial;
}

/* What ran on a machine that is gone comes again. */
static void lose_node(struct rf_world *w, struct rf_str node, int64_t now)
{
	RF_VEC(struct wpod *) lost = RF_VEC_INIT;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->pods, s)) != NULL;) {
		struct wpod *p = s->value;

		if (rf_str_eq(p->spec.node, node))
			rf_vec_push(&lost, p);
	}
	if (lost.n > 0)
		qsort(lost.at, lost.n, sizeof(lost.at[0]), by_serial);
	for (size_t i = 0; i < lost.n; i++)
		comes_again(w, lost.at[i], now);
	rf_vec_done(&lost);
}

int rf_world_tell(struct rf_world *w, const struct rf_log_event *e, struct rf_err *err)
{
	struct gang *g;
	int r;

	if (e->kind == RF_LOG_GROUP && !e->del)
		return put_group(w, e, err);
	/* Its pods may be later than they were: it stays as long as they do. */
	if (e->kind == RF_LOG_GROUP && gang_of(w, e->ns, e->name)->pods > 0) {
		gang_of(w, e->ns, e->name)->over = true;
		return 0;
	}
	r = tell(w, e, err);
	if (e->kind == RF_LOG_NODE && e->del)
		lose_node(w, e->name, e->t);
	if (e->kind != RF_LOG_GROUP)
		return r;
	g = gang_of(w, e->ns, e->name);
	g->spec.name = RF_STR_EMPTY;
	if (g->pods == 0)
		drop_gang(w, g);
	return r;
}

/* --- decisions -------------------------------------------------------------------------------- */

static struct wpod *pod_of(struct rf_world *w, const struct rf_core_decision *d)
{
	return rf_map_get(&w->pods, d->uid);
}

static void write_claim(struct rf_world *w, const struct rf_core_decision *d, int64_t now)
{
	struct wpod *p = pod_of(w, d);
	struct rf_log_event e = { .kind = RF_LOG_CLAIM, .t = now };

	if (d->verdict != RF_CORE_BIND || p == NULL || d->n_grants == 0 || d->promised)
		return;
	e.claim = (struct rf_sched_claim){ .ns = p->spec.ns, .name = p->spec.name, .pod_uid = p->spec.uid,
					   .tenant = d->tenant, .rv = ++w->rv, .node = d->node, .grants = d->grants,
					   .n_grants = d->n_grants };
	p->claim = p->spec.name;
	tell(w, &e, NULL);
}

static void carry_out(struct rf_world *w, const struct rf_core_decision *d, int64_t now)
{
	struct wpod *p = pod_of(w, d);

	if (p == NULL)
		return;
	if (d->verdict == RF_CORE_BIND && p->life == WAITING) {
		w->waiting--;
		starts(w, p, d->node, now);
		tell_pod(w, p, now);
		if (p->gang != NULL && p->gang->bound >= p->gang->spec.min)
			set_started(w, p->gang, true, now);
	} else if (d->verdict == RF_CORE_EVICT && p->life == RUNNING) {
		p->life = LEAVING;
		p->age++;
		p->spec.deleting = true;
		tell_pod(w, p, now);
		later(w, now + RF_MAX(p->spec.grace_ms, 0), p, EVENT_GONE);
	} else if (d->verdict == RF_CORE_RELEASE && p->life != LEAVING) {
		comes_again(w, p, now);
	}
}

/* Claims of a commit before its first binding. */
static void carry_out_all(struct rf_world *w, const struct rf_core_decision *d, size_t n, int64_t now)
{
	for (size_t i = 0; i < n;) {
		size_t end = i + RF_MIN(d[i].commit_left, n - i - 1) + 1;

		for (size_t k = i; k < end; k++)
			write_claim(w, &d[k], now);
		for (; i < end; i++)
			carry_out(w, &d[i], now);
	}
}

int rf_world_decide(struct rf_world *w, int64_t now, struct rf_err *err)
{
	int empty = 0; /* answers that had nothing in them, and more to come */

	for (int round = 0; round < ROUNDS_MAX; round++) {
		struct rf_core_decision *d = NULL;
		int64_t start = rf_mono_ns(w->clock);
		size_t n;

		rf_arena_reset(&w->decided);
		n = rf_core_decide(w->core, now, DECIDE_MOST, &w->decided, &d);
		w->books->ns += rf_mono_ns(w->clock) - start;
		for (size_t i = 0; i < n; i++) {
			struct rf_log_event e = { .kind = RF_LOG_DECISION, .t = now };

			e.decision = d[i];
			rf_tally_see(w->books, &e, NULL);
		}
		carry_out_all(w, d, n, now);
		if (n == 0 && (rf_core_next_ms(w->core, now) > now || ++empty > EMPTY_MAX)) {
			w->idle = RF_MIN(w->idle + 1, STEPS_MAX);
			w->asked_ms = now;
			return 0;
		}
	}
	return rf_fail(err, RF_INTERNAL, "the scheduler decides without end at %lld ms", (long long)now);
}

int64_t rf_world_next(struct rf_world *w, int64_t now)
{
	int64_t next = INT64_MAX;

	if (w->waiting > 0)
		next = rf_core_next_ms(w->core, now);
	if (next != INT64_MAX)
		next = RF_MAX(next, w->asked_ms + (STEP_MS << (w->idle > PATIENCE ? w->idle - PATIENCE : 0)));
	return w->events.n > 0 ? RF_MIN(next, w->events.at[0].t) : next;
}

static void happens(struct rf_world *w, const struct event *e)
{
	struct wpod *p = e->pod;

	if (--p->pending == 0 && p->life == DONE) {
		free_pod(p);
		return;
	}
	if (p->life == DONE)
		return;
	if (e->kind == EVENT_WITHDRAWN && p->life == WAITING)
		ends(w, p, e->t);
	else if (e->kind == EVENT_END && p->life == RUNNING && p->age == e->age)
		ends(w, p, e->t);
	else if (e->kind == EVENT_GONE && p->life == LEAVING && p->age == e->age)
		comes_again(w, p, e->t);
}

void rf_world_step(struct rf_world *w, int64_t now)
{
	while (w->events.n > 0 && w->events.at[0].t <= now) {
		struct event e = take_event(w);

		happens(w, &e);
	}
}
