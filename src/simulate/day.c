/* The day of a log once more, with changes. Who came when, asked for what and ran how long is as logged; what the
 * scheduler did that day, and its echo in pods and claims, is left out and decided anew. */
#include "gpu/models.h"
#include "simulate/private.h"

struct stay { /* of a pod */
	struct rf_str claim;
	int64_t bound, ended; /* -1: not */
	bool ran_before;      /* it ran when the log began */
	bool known;	      /* it came already, this time */
};

struct day {
	const struct rf_simulate_play *o;
	struct rf_tally *books;
	struct rf_world *w;
	struct rf_arena a;
	RF_VEC(struct rf_log_event) events;
	struct rf_map stays;  /* by uid */
	struct rf_map queues; /* tenants that have one of their own, told */
	struct rf_core_config config;
	int64_t end;
};

static void day_done(struct day *d)
{
	rf_world_free(d->w);
	rf_vec_done(&d->events);
	rf_map_done(&d->stays);
	rf_map_done(&d->queues);
	rf_arena_done(&d->a);
}

/* --- what happened ---------------------------------------------------------------------------- */

static struct stay *stay_of(struct day *d, struct rf_str uid)
{
	struct stay *s = rf_map_get(&d->stays, uid);

	if (s == NULL) {
		s = rf_arena_new(&d->a, struct stay);
		*s = (struct stay){ .claim = RF_STR_EMPTY, .bound = -1, .ended = -1 };
		rf_map_set(&d->stays, uid, s);
	}
	return s;
}

static void note_pod(struct day *d, const struct rf_log_event *e)
{
	bool first = !e->del && rf_map_get(&d->stays, e->pod.uid) == NULL;
	struct stay *s = stay_of(d, e->del ? e->uid : e->pod.uid);

	if (e->del || e->pod.ended) {
		if (s->ended < 0)
			s->ended = e->t;
		return;
	}
	if (e->pod.node.n > 0 && s->bound < 0) {
		s->bound = e->t;
		s->ran_before = first;
	}
}

static void note(struct day *d, const struct rf_log_event *e)
{
	if (e->kind == RF_LOG_POD)
		note_pod(d, e);
	else if (e->kind == RF_LOG_QUEUE && !e->del)
		rf_map_set(&d->queues, e->queue.tenant.n > 0 ? e->queue.tenant : e->queue.name, d);
	else if (e->kind == RF_LOG_TENANT && !e->del && rf_map_get(&d->queues, e->tenant_spec.name) == NULL)
		rf_map_set(&d->queues, e->tenant_spec.name, &d->queues); /* none told yet, but it has one */
	else if (e->kind == RF_LOG_CONFIG)
		d->config = e->config;
	else if (e->kind == RF_LOG_DECISION && e->decision.verdict == RF_CORE_BIND)
		stay_of(d, e->decision.uid)->bound = e->t;
	d->end = RF_MAX(d->end, e->t);
}

/* Claims come before their pods, or after. */
static void note_claims(struct day *d)
{
	for (size_t i = 0; i < d->events.n; i++) {
		const struct rf_log_event *e = &d->events.at[i];
		struct stay *s;

		if (e->kind != RF_LOG_CLAIM || e->del)
			continue;
		s = rf_map_get(&d->stays, e->claim.pod_uid);
		if (s != NULL)
			s->claim = e->claim.name;
	}
}

static int read_events(struct day *d, struct rf_str log, struct rf_err *err)
{
	struct rf_str line;
	int64_t n = 0, last = 0;

	while (log.n > 0) {
		struct rf_log_event e;

		rf_str_cut(&log, '\n', &line);
		n++;
		if (line.n == 0)
			continue;
		if (rf_log_read(&d->a, line, &e, err) < 0)
			return rf_wrap(err, "line %lld", (long long)n);
		e.t = last = RF_MAX(e.t, last);
		note(d, &e);
		if (e.kind != RF_LOG_DECISION && e.kind != RF_LOG_DECIDE && e.kind != RF_LOG_FAILED &&
		    e.kind != RF_LOG_CONFIG)
			rf_vec_push(&d->events, e);
	}
	if (d->events.n == 0)
		return rf_fail(err, RF_INVALID, "the log holds no facts");
	note_claims(d);
	return 0;
}

/* --- changes ---------------------------------------------------------------------------------- */

static int check_changes(const struct day *d, struct rf_err *err)
{
	const struct rf_simulate_changes *c = d->o->changes;

	for (size_t i = 0; c != NULL && i < c->n; i++)
		if (c->at[i].tenant.n > 0 && rf_map_get(&d->queues, c->at[i].tenant) == NULL)
			return rf_fail(err, RF_INVALID, "--what-if: there is no tenant \"%.*s\" in the log",
				       (int)RF_MIN(c->at[i].tenant.n, 80), c->at[i].tenant.p);
	return 0;
}

static int add_node(struct day *d, const struct rf_simulate *s, size_t i, int64_t t, struct rf_err *err)
{
	const struct rf_simulate_node *n = &s->nodes.at[i];
	struct rf_sched_device cards[RF_FLEET_CARDS_MAX];
	struct rf_log_event e = { .kind = RF_LOG_NODE, .t = t };
	struct rf_str name = rf_arena_printf(&d->a, "what-if-%zu", i), model = s->models[n->model];
	char counted[64];
	const struct rf_gpu_model *known = rf_gpu_model_named(model.p, model.n, counted);
	int64_t memory = (known != NULL ? (int64_t)known->memory_mib : INT64_C(80) << 10) << 20;
	int r;

	e.node = (struct rf_sched_node){ .name = name, .cpu_milli = n->cpu_milli, .memory = n->memory, .pods = 1000,
					 .ready = true };
	r = rf_world_tell(d->w, &e, err);
	for (unsigned k = 0; k < n->cards; k++)
		cards[k] = (struct rf_sched_device){ .name = rf_arena_printf(&d->a, "gpu-%u", k),
						     .model = rf_arena_str(&d->a, model),
						     .fault = RF_STR_EMPTY, .memory = memory,
						     .milli = RF_FLEET_MILLI };
	e = (struct rf_log_event){ .kind = RF_LOG_DEVICES, .t = t, .name = name };
	e.devices.at = cards;
	e.devices.n = n->cards;
	return r < 0 ? r : rf_world_tell(d->w, &e, err);
}

static int note_models(const struct day *d, struct rf_simulate *s, struct rf_err *err)
{
	uint8_t model;

	for (size_t i = 0; i < d->events.n; i++) {
		const struct rf_log_event *e = &d->events.at[i];

		for (size_t k = 0; e->kind == RF_LOG_DEVICES && k < e->devices.n; k++)
			if (rf_simulate_model(s, 1, e->devices.at[k].model, &model, err) < 0)
				return -err->code;
	}
	return 0;
}

static int add_nodes(struct day *d, struct rf_err *err)
{
	const struct rf_simulate_changes *c = d->o->changes;
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	int r = c != NULL ? note_models(d, &s, err) : 0;

	for (size_t i = 0; c != NULL && i < c->n && r >= 0; i++)
		if (c->at[i].kind == RF_SIMULATE_NODES)
			r = rf_simulate_add_nodes(&s, c->at[i].nodes, err);
	for (size_t i = 0; i < s.nodes.n && r >= 0; i++)
		r = add_node(d, &s, i, d->events.at[0].t, err);
	return r;
}

/* A queue that makes no sense (yet) was logged all the same; one that we changed must. */
static int tell_queue(struct day *d, const struct rf_log_event *e, struct rf_err *err)
{
	struct rf_log_event v = *e;
	struct rf_str tenant = e->queue.tenant.n > 0 ? e->queue.tenant : e->queue.name;

	if (!rf_simulate_changes_tenant(d->o->changes, tenant)) {
		rf_world_tell(d->w, &v, NULL);
		return 0;
	}
	rf_simulate_change_queue(d->o->changes, tenant, &d->a, &v.queue);
	return rf_world_tell(d->w, &v, err);
}

/* The queue that a tenant has without saying so, said, so that it can be changed. */
static void own_queue(struct day *d, const struct rf_tenant *t, struct rf_sched_queue *q)
{
	size_t n = t->n_queue_amounts;

	*q = (struct rf_sched_queue){ .name = t->name, .parent = t->queue_parent, .tenant = t->name,
				      .weight = RF_MAX(t->queue_weight, 1) };
	q->quotas = rf_arena_array(&d->a, struct rf_sched_quota, n + 2);
	for (size_t i = 0; i < n; i++) {
		const struct rf_queue_amount *v = &t->queue_amounts[i];

		q->quotas[q->n_quotas++] = (struct rf_sched_quota){ v->name, v->guaranteed, v->limit, v->lending,
								    v->borrowing };
	}
	if (n > 0)
		return;
	q->quotas[q->n_quotas++] = (struct rf_sched_quota){ RF_LIT("cards"), -1, t->quota_gpus, -1, -1 };
	q->quotas[q->n_quotas++] = (struct rf_sched_quota){ RF_LIT("share-bytes"), -1, t->quota_gpu_memory, -1, -1 };
}

static int tell_tenant(struct day *d, const struct rf_log_event *e, struct rf_err *err)
{
	struct rf_log_event v = { .kind = RF_LOG_QUEUE, .t = e->t };
	int r = rf_world_tell(d->w, e, err);

	if (r < 0 || e->del || rf_map_get(&d->queues, e->tenant_spec.name) == d ||
	    !rf_simulate_changes_tenant(d->o->changes, e->tenant_spec.name))
		return r;
	own_queue(d, &e->tenant_spec, &v.queue);
	return tell_queue(d, &v, err);
}

/* --- again ------------------------------------------------------------------------------------ */

static int tell_pod(struct day *d, const struct rf_log_event *e, struct rf_err *err)
{
	struct stay *s = e->del ? NULL : stay_of(d, e->pod.uid);
	struct rf_sched_pod spec;
	int64_t run = 0;

	if (s == NULL || s->known || e->pod.ended || e->pod.deleting || e->pod.gated)
		return 0;
	s->known = true;
	if (s->ran_before)
		return rf_world_runs(d->w, &e->pod, s->claim, s->ended < 0 ? RF_QUEUE_MS_MAX : RF_MAX(s->ended - e->t, 1),
				     e->t, err);
	spec = e->pod;
	spec.node = RF_STR_EMPTY;
	if (s->bound >= 0)
		run = s->ended < 0 ? RF_QUEUE_MS_MAX : RF_MAX(s->ended - s->bound, 1);
	else if (s->ended < 0)
		run = RF_QUEUE_MS_MAX;
	/* Withdrawn before it ran: nobody knows how long it would have run. */
	return rf_world_come(d->w, &spec, run, s->bound < 0 && s->ended >= 0 ? s->ended : INT64_MAX, e->t, err);
}

static int again(struct day *d, const struct rf_log_event *e, struct rf_err *err)
{
	struct stay *s;

	switch (e->kind) {
	case RF_LOG_POD:
		return tell_pod(d, e, err);
	case RF_LOG_CLAIM:
		s = e->del ? NULL : rf_map_get(&d->stays, e->claim.pod_uid);
		return s != NULL && s->ran_before && !e->claim.deleting ? rf_world_tell(d->w, e, err) : 0;
	case RF_LOG_TENANT:
		return tell_tenant(d, e, err);
	case RF_LOG_QUEUE:
		return e->del ? rf_world_tell(d->w, e, err) : tell_queue(d, e, err);
	default:
		return rf_world_tell(d->w, e, err);
	}
}

/* Everything that happens by itself before then. */
static int until(struct day *d, int64_t *now, int64_t t, struct rf_err *err)
{
	int64_t next;
	int r = 0;

	while (r >= 0 && (next = rf_world_next(d->w, *now)) < t) {
		*now = RF_MAX(next, *now);
		rf_world_step(d->w, *now);
		r = rf_world_decide(d->w, *now, err);
	}
	return r;
}

static int play(struct day *d, struct rf_err *err)
{
	int64_t now = d->events.at[0].t;
	int r = add_nodes(d, err);

	for (size_t i = 0; i < d->events.n && r >= 0;) {
		int64_t t = d->events.at[i].t;

		r = until(d, &now, t, err);
		now = t;
		if (r >= 0)
			rf_world_step(d->w, now);
		for (; i < d->events.n && d->events.at[i].t == t && r >= 0; i++)
			r = again(d, &d->events.at[i], err);
		if (r >= 0)
			r = rf_world_decide(d->w, now, err);
	}
	if (r >= 0)
		r = until(d, &now, d->end, err);
	rf_tally_until(d->books, d->end);
	return r;
}

int rf_simulate_play_log(struct rf_str log, const struct rf_simulate_play *o, struct rf_tally *ret, struct rf_err *err)
{
	__attribute__((cleanup(day_done))) struct day d = { .o = o, .books = ret };
	struct rf_err own = RF_ERR_INIT;

	err = err != NULL ? err : &own;
	rf_core_config_default(&d.config);
	if (read_events(&d, log, err) < 0 || check_changes(&d, err) < 0)
		return -err->code;
	d.config.tell_ms = 0;
	rf_simulate_configure(o->changes, &d.config);
	d.w = rf_world_new(&d.config, o, false, ret);
	return play(&d, err);
}
