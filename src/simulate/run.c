/* Draws the pods, and lets them arrive. */
#include "simulate/simulate.h"

#define CARD_MEMORY (INT64_C(16) << 30) /* the trace asks for thousandths only */
#define PODS_PER_NODE 1001
#define TENANT RF_LIT("trace")
#define NOW 1000
#define DECISIONS 16 /* at a time */

const char *const RF_SIMULATE_SIZE_NAMES[RF_SIMULATE_SIZES] = {
	[RF_SIMULATE_CPU] = "noCard",	       [RF_SIMULATE_SHARE] = "share",	     [RF_SIMULATE_ONE] = "oneCard",
	[RF_SIMULATE_TWO_TO_SEVEN] = "twoToSevenCards", [RF_SIMULATE_EIGHT] = "eightCards",
};

static int64_t milli_of(const struct rf_simulate_pod *p)
{
	return (int64_t)p->cards * p->milli;
}

static enum rf_simulate_size size_of(const struct rf_simulate_pod *p)
{
	if (p->cards == 0)
		return RF_SIMULATE_CPU;
	if (p->milli < RF_FLEET_MILLI)
		return RF_SIMULATE_SHARE;
	if (p->cards == 1)
		return RF_SIMULATE_ONE;
	return p->cards < 8 ? RF_SIMULATE_TWO_TO_SEVEN : RF_SIMULATE_EIGHT;
}

/* --- drawing ---------------------------------------------------------------------------------- */

struct draw {
	const struct rf_simulate *s;
	struct rf_prng r;
	RF_VEC(uint32_t) pods; /* in the order they come */
	int64_t milli, most;
};

static void shuffle(struct draw *d)
{
	for (size_t i = d->pods.n; i > 1; i--) {
		size_t k = rf_prng_below(&d->r, i);
		uint32_t pod = d->pods.at[i - 1];

		d->pods.at[i - 1] = d->pods.at[k];
		d->pods.at[k] = pod;
	}
}

static void take_out(struct draw *d)
{
	while (d->milli > d->most && d->pods.n > 0) {
		size_t k = rf_prng_below(&d->r, d->pods.n);

		d->milli -= milli_of(&d->s->pods.at[d->pods.at[k]]);
		d->pods.at[k] = d->pods.at[--d->pods.n]; /* the order is random anyway */
	}
}

static int draw_more(struct draw *d, struct rf_err *err)
{
	while (d->pods.n < RF_SIMULATE_PODS_MAX) {
		uint32_t pod = (uint32_t)rf_prng_below(&d->r, d->s->pods.n);
		const struct rf_simulate_pod *p = &d->s->pods.at[pod];

		/* By the thousandths of one of its cards, as the paper's simulator has it. */
		if (d->milli + p->milli > d->most)
			return 0;
		d->milli += milli_of(p);
		rf_vec_push(&d->pods, pod);
	}
	return rf_fail(err, RF_TOO_LARGE, "more than %d pods until the load is reached; ask for less load",
		       RF_SIMULATE_PODS_MAX);
}

static int draw_pods(struct draw *d, struct rf_err *err)
{
	for (uint32_t i = 0; i < d->s->pods.n; i++) {
		rf_vec_push(&d->pods, i);
		d->milli += milli_of(&d->s->pods.at[i]);
	}
	shuffle(d);
	take_out(d);
	return draw_more(d, err);
}

/* --- deciding: by the core, as it would in a cluster ------------------------------------------- */

struct cluster {
	const struct rf_simulate *s;
	struct rf_core *core;
	struct rf_arena names, a; /* a: of one pod */
};

static void cluster_done(struct cluster *c)
{
	rf_core_free(c->core);
	rf_arena_done(&c->names);
	rf_arena_done(&c->a);
}

static void add_node(struct cluster *c, size_t i)
{
	const struct rf_simulate_node *n = &c->s->nodes.at[i];
	struct rf_sched_device d[RF_FLEET_CARDS_MAX];
	struct rf_sched_node v = { .name = rf_arena_printf(&c->names, "n%05zu", i),
				   .cpu_milli = n->cpu_milli,
				   .memory = n->memory,
				   .pods = PODS_PER_NODE,
				   .ready = true };

	for (unsigned k = 0; k < n->cards; k++)
		d[k] = (struct rf_sched_device){ .name = rf_arena_printf(&c->names, "gpu-%u", k),
						 .model = c->s->models[n->model],
						 .fault = RF_STR_EMPTY,
						 .memory = CARD_MEMORY,
						 .milli = RF_FLEET_MILLI,
						 .fixed = true };
	rf_core_put_node(c->core, &v);
	rf_core_put_devices(c->core, v.name, d, n->cards);
}

/* One tenant, which may have all there is. */
static void set_up(struct cluster *c, enum rf_fleet_policy policy, int64_t total_milli)
{
	struct rf_core_config config;
	struct rf_tenant t = { .name = TENANT,
			       .isolation = RF_ISOLATION_SHARE,
			       .trust_domain = TENANT,
			       .quota_gpus = total_milli / RF_FLEET_MILLI,
			       .quota_gpu_memory = total_milli / RF_FLEET_MILLI * CARD_MEMORY,
			       .quota_pods = -1,
			       .queue_weight = 1,
			       .queue_parent = RF_STR_EMPTY };

	rf_core_config_default(&config);
	config.policy = policy;
	config.tell_ms = 0;
	c->core = rf_core_new(&config);
	rf_core_put_tenant(c->core, &t);
	rf_core_put_namespace(c->core, TENANT, TENANT);
	for (size_t i = 0; i < c->s->nodes.n; i++)
		add_node(c, i);
}

static struct rf_str models_of(struct cluster *c, uint64_t models)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (size_t i = 0; models != 0 && i < c->s->n_models; i++) {
		if (models >> i & 1)
			rf_buf_printf(&b, "%s%.*s", b.n > 0 ? "|" : "", RF_STR(c->s->models[i]));
	}
	return rf_arena_str(&c->a, rf_buf_str(&b));
}

/* Whole cards are one container's; of shares each has one. */
static struct rf_sched_pod pod_of(struct cluster *c, const struct rf_simulate_pod *p, size_t i)
{
	bool shares = p->milli < RF_FLEET_MILLI;
	struct rf_gpu_ask ask = { .name = RF_RES_GPU, .profile = RF_STR_EMPTY };
	struct rf_sched_pod v = { .uid = rf_arena_printf(&c->a, "p%08zu", i),
				  .ns = TENANT,
				  .node = RF_STR_EMPTY,
				  .created_ms = (int64_t)i,
				  .cpu_milli = p->cpu_milli,
				  .memory = p->memory,
				  .os = RF_STR_EMPTY,
				  .only_node = RF_STR_EMPTY,
				  .unsupported = RF_STR_EMPTY,
				  .queue = RF_STR_EMPTY,
				  .group = RF_STR_EMPTY,
				  .models = models_of(c, p->models),
				  .n_containers = p->cards == 0 ? 0 : shares ? p->cards : 1 };

	v.name = v.uid;
	v.containers = rf_arena_array(&c->a, struct rf_sched_container, RF_MAX(v.n_containers, 1));
	ask.cards = shares ? 0 : p->cards;
	ask.share_milli = shares ? p->milli : 0;
	ask.share_bytes = shares ? CARD_MEMORY / RF_FLEET_MILLI * p->milli : 0;
	for (size_t k = 0; k < v.n_containers; k++)
		v.containers[k] = (struct rf_sched_container){ .name = rf_arena_printf(&c->a, "c%zu", k), .ask = ask };
	return v;
}

/* Who finds no place does not come again. */
static bool decide(struct cluster *c, const struct rf_simulate_pod *p, size_t i)
{
	struct rf_sched_pod v = pod_of(c, p, i);
	struct rf_core_decision *d;
	bool bound = false;
	size_t n;

	rf_core_put_pod(c->core, &v, NOW);
	while ((n = rf_core_decide(c->core, NOW, DECISIONS, &c->a, &d)) > 0) {
		for (size_t k = 0; k < n; k++)
			bound = bound || (d[k].verdict == RF_CORE_BIND && rf_str_eq(d[k].uid, v.uid));
	}
	if (!bound)
		rf_core_del_pod(c->core, v.uid, NOW);
	rf_arena_reset(&c->a);
	return bound;
}

static void arrive(struct cluster *c, const struct draw *d, struct rf_simulate_result *ret)
{
	for (size_t i = 0; i < d->pods.n; i++) {
		const struct rf_simulate_pod *p = &d->s->pods.at[d->pods.at[i]];

		if (decide(c, p, i)) {
			ret->placed++;
			ret->granted_milli += milli_of(p);
		} else {
			ret->failed[size_of(p)]++;
		}
	}
}

int rf_simulate_run(const struct rf_simulate *s, const struct rf_simulate_opts *o, const struct rf_clock *clock,
		    struct rf_simulate_result *ret, struct rf_err *err)
{
	__attribute__((cleanup(cluster_done))) struct cluster c = { .s = s, .names = RF_ARENA_INIT, .a = RF_ARENA_INIT };
	struct draw d = { .s = s, .r = { .state = o->seed * 2 + 1 } };
	struct rf_simulate_result v = { 0 };
	int64_t any = 0;
	int r;

	for (size_t i = 0; i < s->nodes.n; i++)
		v.total_milli += (int64_t)s->nodes.at[i].cards * RF_FLEET_MILLI;
	for (size_t i = 0; i < s->pods.n; i++)
		any += milli_of(&s->pods.at[i]);
	if (v.total_milli == 0 || any == 0)
		return rf_fail(err, RF_INVALID, "%s; nothing to simulate",
			       any == 0 ? "no pod asks for a card" : "no node has a card");
	d.most = v.total_milli / 100 * o->load;
	r = draw_pods(&d, err);
	if (r < 0) {
		rf_vec_done(&d.pods);
		return r;
	}
	set_up(&c, o->policy, v.total_milli);
	v.pods = (int64_t)d.pods.n;
	v.asked_milli = d.milli;
	v.ns = -rf_mono_ns(clock);
	arrive(&c, &d, &v);
	v.ns += rf_mono_ns(clock);
	rf_vec_done(&d.pods);
	*ret = v;
	return 0;
}
