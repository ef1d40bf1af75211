/* Draws the pods, and lets them arrive. */
#include "simulate/simulate.h"

#define CARD_MEMORY (INT64_C(16) << 30) /* the trace asks for thousandths only */
#define PODS_PER_NODE 1001

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

/* --- deciding --------------------------------------------------------------------------------- */

static struct rf_fleet_ask ask_of(const struct rf_simulate_pod *p, enum rf_fleet_policy policy)
{
	struct rf_fleet_ask a = { .owner = { .tenant = 1, .trust = 1, .level = RF_ISOLATION_SHARE },
				  .cpu_milli = p->cpu_milli,
				  .memory = p->memory,
				  .models = p->models,
				  .policy = policy,
				  .n_parts = p->cards > 0 };

	if (p->cards > 0 && p->milli == RF_FLEET_MILLI)
		a.parts[0] = (struct rf_fleet_part){ .kind = RF_FLEET_WHOLE, .n = p->cards };
	else if (p->cards > 0)
		a.parts[0] = (struct rf_fleet_part){
			.kind = RF_FLEET_SHARE, .n = p->cards, .apart = p->cards > 1, .milli = p->milli
		};
	return a;
}

static int add_nodes(const struct rf_simulate *s, struct rf_fleet *f, int64_t *ret_milli, struct rf_err *err)
{
	struct rf_fleet_card cards[RF_FLEET_CARDS_MAX] = { 0 };

	*ret_milli = 0;
	for (size_t i = 0; i < s->nodes.n; i++) {
		const struct rf_simulate_node *n = &s->nodes.at[i];
		struct rf_fleet_node v = { .cpu_milli = n->cpu_milli,
					   .memory = n->memory,
					   .pods = PODS_PER_NODE,
					   .cards = cards,
					   .n_cards = n->cards };
		int r;

		for (unsigned k = 0; k < n->cards; k++)
			cards[k] = (struct rf_fleet_card){ .memory = CARD_MEMORY, .model = n->model, .healthy = true };
		r = rf_fleet_put_node(f, RF_FLEET_NONE, &v, NULL, err);
		if (r < 0)
			return r;
		*ret_milli += (int64_t)n->cards * RF_FLEET_MILLI;
	}
	return 0;
}

static void tell_typical(const struct rf_simulate *s, struct rf_fleet *f)
{
	struct rf_fleet_ask *asks = rf_realloc(NULL, s->pods.n * sizeof(*asks));
	uint64_t *counts = rf_realloc(NULL, s->pods.n * sizeof(*counts));

	for (size_t i = 0; i < s->pods.n; i++) {
		asks[i] = ask_of(&s->pods.at[i], RF_FLEET_FRAG);
		counts[i] = 1;
	}
	rf_fleet_typical(f, asks, counts, s->pods.n);
	free(asks);
	free(counts);
}

static bool decide(struct rf_fleet *f, const struct rf_fleet_ask *a, bool learn)
{
	struct rf_fleet_place p RF_UNINITIALIZED;

	if (learn)
		rf_fleet_asked(f, a);
	return rf_fleet_find(f, a, &p) && rf_fleet_take(f, a, &p, false, NULL, NULL) == 0;
}

static void arrive(struct rf_fleet *f, const struct draw *d, const struct rf_simulate_opts *o,
		   struct rf_simulate_result *ret)
{
	for (size_t i = 0; i < d->pods.n; i++) {
		const struct rf_simulate_pod *p = &d->s->pods.at[d->pods.at[i]];
		struct rf_fleet_ask a = ask_of(p, o->policy);

		if (decide(f, &a, o->learn)) {
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
	struct draw d = { .s = s, .r = { .state = o->seed * 2 + 1 } };
	rf_auto_ptr(fleet) f = rf_fleet_new();
	struct rf_simulate_result v = { 0 };
	int64_t any = 0;
	int r = add_nodes(s, f, &v.total_milli, err);

	if (r < 0)
		return r;
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
	if (!o->learn)
		tell_typical(s, f);
	v.pods = (int64_t)d.pods.n;
	v.asked_milli = d.milli;
	v.ns = -rf_mono_ns(clock);
	arrive(f, &d, o, &v);
	v.ns += rf_mono_ns(clock);
	rf_vec_done(&d.pods);
	*ret = v;
	return 0;
}
