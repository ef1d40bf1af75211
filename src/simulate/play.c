/* Jobs over time, through the core. */
#include <stdio.h>

#include "simulate/private.h"

#define CARD_MEMORY (INT64_C(80) << 30) /* the trace asks for whole cards only */
#define PODS_PER_NODE 1001
#define BACKLOG 20 /* jobs that wait, at least */
#define BACKLOG_MAX 10000
#define BACKLOG_MS (INT64_C(24) * 3600 * 1000)
#define GRACE_MS 30000
#define IDLE_MAX 1000 /* times the core is asked with nothing to come and nothing running */

void rf_player_done(struct rf_player *p)
{
	for (size_t i = 0; p->own != NULL && i < p->s->tenants.n; i++)
		rf_vec_done(&p->own[i]);
	rf_vec_done(&p->nodes);
	rf_arena_done(&p->a);
	rf_world_free(p->w);
}

/* --- the cluster ------------------------------------------------------------------------------ */

static int tell(struct rf_player *p, const struct rf_log_event *e, struct rf_err *err)
{
	return p->w != NULL ? rf_world_tell(p->w, e, err) : rf_tally_see(p->books, e, err);
}

static int add_changed_nodes(const struct rf_player *p, struct rf_simulate *to, struct rf_err *err)
{
	const struct rf_simulate_changes *c = p->o->changes;

	for (size_t i = 0; c != NULL && i < c->n; i++) {
		int r = c->at[i].kind == RF_SIMULATE_NODES ? rf_simulate_add_nodes(to, c->at[i].nodes, err) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static int make_nodes(struct rf_player *p, struct rf_err *err)
{
	rf_auto(simulate) all = RF_SIMULATE_INIT;
	int r;

	for (size_t i = 0; i < p->s->nodes.n; i++)
		rf_vec_push(&all.nodes, p->s->nodes.at[i]);
	memcpy(all.models, p->s->models, sizeof(all.models));
	all.n_models = p->s->n_models;
	r = add_changed_nodes(p, &all, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < all.nodes.n; i++) {
		rf_vec_push(&p->nodes, all.nodes.at[i]);
		p->per = RF_MAX(p->per, all.nodes.at[i].cards);
	}
	for (size_t i = 0; i < all.n_models; i++)
		p->models[i] = rf_arena_str(&p->a, all.models[i]);
	if (p->per == 0)
		return rf_fail(err, RF_INVALID, "no machine has a card; nothing to simulate");
	return 0;
}

static int tell_node(struct rf_player *p, size_t i, struct rf_err *err)
{
	const struct rf_simulate_node *n = &p->nodes.at[i];
	struct rf_sched_device d[RF_FLEET_CARDS_MAX];
	struct rf_log_event e = { .kind = RF_LOG_NODE, .t = p->now };
	struct rf_str name = rf_arena_printf(&p->a, "n%05zu", i);
	int r;

	e.node = (struct rf_sched_node){ .name = name, .cpu_milli = n->cpu_milli, .memory = n->memory,
					 .pods = PODS_PER_NODE, .ready = true };
	r = tell(p, &e, err);
	if (r < 0)
		return r;
	for (unsigned k = 0; k < n->cards; k++)
		d[k] = (struct rf_sched_device){ .name = rf_arena_printf(&p->a, "gpu-%u", k),
						 .model = p->models[n->model], .fault = RF_STR_EMPTY,
						 .memory = CARD_MEMORY, .milli = RF_FLEET_MILLI, .fixed = true };
	e = (struct rf_log_event){ .kind = RF_LOG_DEVICES, .t = p->now, .name = name };
	e.devices.at = d;
	e.devices.n = n->cards;
	return tell(p, &e, err);
}

static int tell_tenant(struct rf_player *p, size_t i, int64_t cards, struct rf_err *err)
{
	struct rf_str ns = p->ns[i], name = p->s->tenants.at[i];
	struct rf_sched_queue q = { .name = ns, .parent = RF_STR_EMPTY, .tenant = ns, .weight = 1 };
	struct rf_log_event e = { .kind = RF_LOG_TENANT, .t = p->now };
	int r;

	rf_simulate_change_queue(p->o->changes, name, &p->a, &q);
	e.tenant_spec = (struct rf_tenant){ .name = ns, .isolation = RF_ISOLATION_GPU, .trust_domain = ns,
					    .namespaces = &ns, .n_namespaces = 1, .quota_gpus = cards, .quota_pods = -1,
					    .queue_weight = q.weight };
	r = tell(p, &e, err);
	if (r < 0)
		return r;
	e = (struct rf_log_event){ .kind = RF_LOG_QUEUE, .t = p->now };
	e.queue = q;
	if (tell(p, &e, err) < 0)
		return rf_wrap(err, "tenant %.*s", RF_STR(name));
	e = (struct rf_log_event){ .kind = RF_LOG_NAMESPACE, .t = p->now, .name = ns, .tenant = ns };
	r = tell(p, &e, err);
	rf_tally_call(p->books, ns, name);
	return r;
}

static int check_changes(const struct rf_player *p, struct rf_err *err)
{
	const struct rf_simulate_changes *c = p->o->changes;

	for (size_t i = 0; c != NULL && i < c->n; i++) {
		size_t k = 0;

		while (k < p->s->tenants.n && !rf_str_eq(p->s->tenants.at[k], c->at[i].tenant))
			k++;
		if (c->at[i].tenant.n > 0 && k == p->s->tenants.n)
			return rf_fail(err, RF_INVALID, "--what-if: there is no tenant \"%.*s\" in the file",
				       (int)RF_MIN(c->at[i].tenant.n, 80), c->at[i].tenant.p);
	}
	return 0;
}

int rf_player_set_up(struct rf_player *p, struct rf_err *err)
{
	int64_t cards = 0;
	int r = 0;

	for (size_t i = 0; i < p->nodes.n && r >= 0; i++) {
		r = tell_node(p, i, err);
		cards += p->nodes.at[i].cards;
	}
	for (size_t i = 0; i < p->s->tenants.n && r >= 0; i++)
		r = tell_tenant(p, i, cards, err);
	return r;
}

static bool is_tenant(const struct rf_player *p, struct rf_str name)
{
	for (size_t i = 0; i < p->s->tenants.n; i++)
		if (rf_str_eq(p->s->tenants.at[i], name))
			return true;
	return false;
}

/* Its own name where a tenant may have it; else one that nobody has. */
static struct rf_str ns_of(struct rf_player *p, size_t i)
{
	struct rf_str name = p->s->tenants.at[i];

	if (rf_str_is_dns_label(name))
		return name;
	name = rf_arena_printf(&p->a, "tenant-%zu", i);
	while (is_tenant(p, name))
		name = rf_arena_printf(&p->a, "%.*s-x", RF_STR(name));
	return name;
}

int rf_player_prepare(struct rf_player *p, struct rf_err *err)
{
	int r;

	if (p->s->jobs.n == 0)
		return rf_fail(err, RF_INVALID, "no job asks for a card; nothing to simulate");
	r = check_changes(p, err);
	if (r >= 0)
		r = make_nodes(p, err);
	if (r < 0)
		return r;
	p->now = p->s->jobs.at[0].submit_ms;
	p->ns = rf_arena_array(&p->a, struct rf_str, p->s->tenants.n);
	for (size_t i = 0; i < p->s->tenants.n; i++)
		p->ns[i] = ns_of(p, i);
	for (size_t i = 0; i <= RF_FLEET_CARDS_MAX; i++)
		p->containers[i] = (struct rf_sched_container){ .name = RF_LIT("main"),
								.ask = { .cards = (int64_t)i, .name = RF_RES_GPU,
									 .profile = RF_STR_EMPTY } };
	return 0;
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* As many whole machines as it fills, and one more for the rest. */
static uint32_t members_of(const struct rf_player *p, const struct rf_simulate_job *j)
{
	return (j->cards + p->per - 1) / p->per;
}

static uint32_t cards_of(const struct rf_player *p, const struct rf_simulate_job *j, uint32_t member)
{
	return RF_MIN(j->cards - member * p->per, p->per);
}

static int64_t limit_of(const struct rf_player *p, const struct rf_simulate_job *j)
{
	return p->o->no_limits ? 0 : rf_simulate_limit(j->run_ms);
}

/* Nobody knows what a job would lose: it is not stopped, as with fifo, unless a change says that it may be. */
static int64_t min_run_of(const struct rf_player *p, const struct rf_simulate_job *j)
{
	int64_t limit = limit_of(p, j), most = limit > 0 ? limit : RF_QUEUE_MS_MAX;
	const struct rf_simulate_changes *c = p->o->changes;

	for (size_t i = 0; c != NULL && i < c->n; i++)
		if (c->at[i].kind == RF_SIMULATE_MIN_RUN)
			most = RF_MIN(most, c->at[i].value * 60000);
	return most;
}

static struct rf_sched_pod pod_of(struct rf_player *p, const struct rf_simulate_job *j, uint32_t cards)
{
	const struct rf_str none = RF_STR_EMPTY;

	return (struct rf_sched_pod){ .ns = p->ns[j->tenant], .node = none, .created_ms = p->now, .os = none,
				      .only_node = none, .unsupported = none, .containers = &p->containers[cards],
				      .n_containers = 1, .queue = none, .group = none, .models = none,
				      .run_limit_ms = limit_of(p, j), .min_run_ms = min_run_of(p, j),
				      .grace_ms = GRACE_MS };
}

static int tell_group(struct rf_player *p, const struct rf_simulate_job *j, struct rf_str name, uint32_t n,
		      struct rf_err *err)
{
	struct rf_log_event e = { .kind = RF_LOG_GROUP, .t = p->now };

	e.group = (struct rf_sched_group){ .ns = p->ns[j->tenant], .name = name, .min = n, .created_ms = p->now,
					   .queue = RF_STR_EMPTY, .topology = RF_STR_EMPTY,
					   .run_limit_ms = limit_of(p, j) };
	return rf_world_tell(p->w, &e, err);
}

static int come(struct rf_player *p, const struct rf_simulate_job *j, struct rf_err *err)
{
	uint32_t n = members_of(p, j);
	char name[32], pod[48];
	int r = 0;

	snprintf(name, sizeof(name), "j%llu", (unsigned long long)p->n_came++);
	if (n > 1)
		r = tell_group(p, j, rf_str(name), n, err);
	for (uint32_t i = 0; i < n && r >= 0; i++) {
		struct rf_sched_pod spec = pod_of(p, j, cards_of(p, j, i));

		snprintf(pod, sizeof(pod), "%s-%u", name, i);
		spec.uid = spec.name = rf_str(pod);
		spec.group = n > 1 ? rf_str(name) : RF_STR_EMPTY;
		r = rf_world_come(p->w, &spec, j->run_ms, INT64_MAX, p->now, err);
	}
	return r;
}

/* So many jobs, by its mean one, that what waits would last for a day of an equal share. With fewer it would run out
 * of work: the small jobs pass the large ones, and then a tenant with few jobs waiting has only large ones, which
 * begin one by one. */
static int64_t deep_enough(const struct rf_player *p, size_t tenant)
{
	rf_tally_area sum = 0, n = (rf_tally_area)p->own[tenant].n;
	int64_t cards = 0;

	for (size_t i = 0; i < p->nodes.n; i++)
		cards += p->nodes.at[i].cards;
	for (size_t i = 0; i < p->own[tenant].n; i++) {
		const struct rf_simulate_job *j = &p->s->jobs.at[p->own[tenant].at[i]];

		sum += (rf_tally_area)j->cards * j->run_ms;
	}
	n = n * cards * BACKLOG_MS / (RF_MAX(sum, 1) * (int64_t)p->s->tenants.n);
	return (int64_t)RF_MIN(RF_MAX(n, BACKLOG), BACKLOG_MAX);
}

void rf_player_backlog(struct rf_player *p)
{
	p->own = rf_arena_alloc(&p->a, p->s->tenants.n * sizeof(*p->own));
	p->cursor = rf_arena_array(&p->a, size_t, p->s->tenants.n);
	for (size_t i = 0; i < p->s->jobs.n; i++) {
		for (size_t t = 0; t < p->s->tenants.n && p->o->same_jobs; t++)
			rf_vec_push(&p->own[t], (uint32_t)i);
		if (!p->o->same_jobs)
			rf_vec_push(&p->own[p->s->jobs.at[i].tenant], (uint32_t)i);
	}
	p->deep = rf_arena_array(&p->a, int64_t, p->s->tenants.n);
	for (size_t t = 0; t < p->s->tenants.n; t++)
		p->deep[t] = deep_enough(p, t);
	p->end = p->now + p->o->backlog_ms;
	p->books->endless = true;
}

static int fill_backlog(struct rf_player *p, struct rf_err *err)
{
	for (size_t i = 0; i < p->s->tenants.n; i++) {
		while (rf_tally_waiting(p->books, (uint32_t)i) < p->deep[i]) {
			struct rf_simulate_job j = p->s->jobs.at[p->own[i].at[p->cursor[i]++ % p->own[i].n]];
			int r;

			j.tenant = (uint32_t)i;
			r = come(p, &j, err);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int arrivals(struct rf_player *p, struct rf_err *err)
{
	int r = 0;

	if (p->own != NULL)
		return fill_backlog(p, err);
	while (r >= 0 && p->next < p->s->jobs.n && p->s->jobs.at[p->next].submit_ms <= p->now)
		r = come(p, &p->s->jobs.at[p->next++], err);
	return r;
}

static bool go_on(const struct rf_player *p, int idle)
{
	if (p->own != NULL)
		return p->now < p->end;
	return p->next < p->s->jobs.n || rf_world_running(p->w) > 0 || (rf_world_waiting(p->w) > 0 && idle < IDLE_MAX);
}

static int64_t next_time(const struct rf_player *p)
{
	int64_t next = rf_world_next(p->w, p->now);

	if (p->own == NULL && p->next < p->s->jobs.n)
		next = RF_MIN(next, p->s->jobs.at[p->next].submit_ms);
	return p->own != NULL ? RF_MIN(next, p->end) : next;
}

static int play(struct rf_player *p, struct rf_err *err)
{
	int idle = 0, r = 0;

	while (r >= 0 && go_on(p, idle)) {
		idle = rf_world_running(p->w) > 0 || p->next < p->s->jobs.n ? 0 : idle + 1;
		rf_world_step(p->w, p->now);
		r = arrivals(p, err);
		if (r < 0)
			return r;
		r = rf_world_decide(p->w, p->now, err);
		if (r >= 0 && next_time(p) == INT64_MAX)
			break; /* what waits now waits forever */
		p->now = next_time(p);
	}
	if (p->own != NULL)
		rf_tally_until(p->books, p->end);
	return r;
}

int rf_simulate_play(const struct rf_simulate *s, const struct rf_simulate_play *o, struct rf_tally *ret,
		     struct rf_err *err)
{
	rf_auto(player) p = { .s = s, .o = o, .books = ret };
	struct rf_core_config config = o->config;
	int r = rf_player_prepare(&p, err);

	if (r < 0)
		return r;
	config.tell_ms = 0; /* nobody reads them, and virtual time passes fast */
	rf_simulate_configure(o->changes, &config);
	p.w = rf_world_new(&config, o, true, ret);
	r = rf_player_set_up(&p, err);
	if (r < 0)
		return r;
	if (o->backlog_ms > 0)
		rf_player_backlog(&p);
	return play(&p, err);
}

