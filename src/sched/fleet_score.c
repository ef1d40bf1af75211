/* How good a place is. For the policy RF_FLEET_FRAG: by how much less is left for those who usually ask.
 *
 * For each typical request, what is free on a node counts as far as that request could use it: nothing if the
 * node cannot host it once; else what is free on the cards that can, in proportion to how many of these cards
 * the node's CPU and memory could feed. The rest is a fragment. A node's fragmentation is the mean over the
 * typical requests, small ones counting more, since they are what fills a cluster up to the end. The score is
 * what the placement adds to it, and a little for the room on the node, so that full nodes are filled first, and for
 * opening a card, so that shares meet on one. Where no request is typical, or only one, nothing is ever a fragment
 * more or less, and this little decides: it packs.
 *
 * This goes beyond "fragmentation gradient descent" (Weng et al., USENIX ATC 2023) in the second half of that:
 * there, a node with eight free cards and CPU for one pod has no fragment. */
#include "sched/fleet_private.h"

#define SMALL_FIRST 10000 /* thousandths of a card beyond which a request counts least */
#define COUNT_MAX (UINT64_C(1) << 32) /* of one request: sums of many still fit */
#define OPENING ((int64_t)ROOM_WEIGHT * RF_FLEET_MILLI * 5 / 4) /* a card: more than any room on a node */
#define LEAVING 8	     /* room on a card, a thousandth */
#define BEFORE ((int64_t)1 << 48) /* between nodes of different policies: more than any score of one */
#define OFF_CARDS ((int64_t)1 << 52) /* who asks for no card, on a node that has some */

/* --- nodes ------------------------------------------------------------------------------------ */

/* What of `usable`, on `cards` cards, can be fed from `left`, of which n cards need `each`. */
static int64_t fed(int64_t usable, int64_t cards, int64_t left, int64_t each, int64_t n)
{
	return left * n >= each * cards ? usable : usable * left * n / (each * cards);
}

static int64_t usable_by(const struct typical *t, int64_t cards, int64_t usable, int64_t cpu, int64_t mib)
{
	int64_t by_cpu, by_memory;

	if (cards < t->n || cpu < t->cpu || mib < t->mib)
		return 0;
	by_cpu = fed(usable, cards, cpu, t->cpu, t->n);
	by_memory = fed(usable, cards, mib, t->mib, t->n);
	return RF_MIN(by_cpu, by_memory);
}

static int64_t fragment(const struct typical *t, int64_t total, int64_t cards, int64_t usable, int64_t cpu, int64_t mib)
{
	return t->weight * (total - usable_by(t, cards, usable, cpu, mib));
}

static int64_t fragments(const struct rf_fleet *f, int64_t total, const uint8_t *count, const int32_t *usable,
			 int64_t cpu, int64_t mib)
{
	int64_t sum = 0;

	for (size_t i = 0; i < f->n_typicals; i++) {
		const struct typical *t = &f->typicals[i];

		sum += fragment(t, total, count[t->need], usable[t->need], cpu, mib);
	}
	return sum;
}

static void score_node(struct rf_fleet *f, struct node *n)
{
	memset(n->count, 0, f->n_needs);
	memset(n->usable, 0, f->n_needs * sizeof(n->usable[0]));
	n->total = 0;
	n->worth = 0;
	for (unsigned i = 0; i < n->n_cards; i++) {
		const struct rest *r = &n->cards[i].rest;

		n->total += r->free;
		n->worth += r->worth;
		FL_EACH_BIT (b, r->hosts)
			n->count[b]++;
		for (size_t b = 0; b < f->n_needs; b++)
			n->usable[b] += r->usable[b];
	}
	n->frag = n->total == 0 ? 0 : fragments(f, n->total, n->count, n->usable, n->cpu_left, n->memory_left >> FL_MIB_SHIFT);
	n->scored = f->epoch;
}

/* Where each card could be fed for whoever asks for one card: what such requests can use of the node is the sum of what
 * they can use of the cards. Those of several cards are looked at one by one. */
static int64_t fragments_fed(const struct rf_fleet *f, const struct node *n, const struct touched *t, size_t n_t,
			     int64_t total, int64_t cpu, int64_t mib)
{
	int64_t sum = f->single_weight * total - n->worth;

	for (size_t i = 0; i < n_t; i++)
		sum -= t[i].rest->worth - n->cards[t[i].card].rest.worth;
	for (size_t k = f->n_single; k < f->n_typicals; k++) {
		unsigned b = f->typicals[k].need;
		int64_t cards = n->count[b], usable = n->usable[b];

		for (size_t i = 0; i < n_t; i++) {
			const struct rest *was = &n->cards[t[i].card].rest, *is = t[i].rest;

			cards -= (was->hosts & ~is->hosts) >> b & 1;
			usable += is->usable[b] - was->usable[b];
		}
		sum += fragment(&f->typicals[k], total, cards, usable, cpu, mib);
	}
	return sum;
}

static int64_t fragments_after(const struct rf_fleet *f, const struct node *n, const struct touched *t, size_t n_t,
			       int64_t total, int64_t cpu, int64_t mib)
{
	uint8_t count[TYPICALS_MAX] RF_UNINITIALIZED;
	int32_t usable[TYPICALS_MAX] RF_UNINITIALIZED;

	if (total == 0)
		return 0;
	if (cpu >= f->single_cpu * n->n_cards && mib >= f->single_mib * n->n_cards)
		return fragments_fed(f, n, t, n_t, total, cpu, mib);
	memcpy(count, n->count, f->n_needs);
	memcpy(usable, n->usable, f->n_needs * sizeof(usable[0]));
	for (size_t i = 0; i < n_t; i++) {
		const struct rest *was = &n->cards[t[i].card].rest, *is = t[i].rest;

		FL_EACH_BIT (b, was->hosts & ~is->hosts) /* what is held hosts nothing that was not hosted before */
			count[b]--;
		for (size_t b = 0; b < f->n_needs; b++)
			usable[b] += is->usable[b] - was->usable[b];
	}
	return fragments(f, total, count, usable, cpu, mib);
}

static int64_t score_frag(struct rf_fleet *f, struct node *n, const struct rf_fleet_ask *ask,
			  const struct touched *t, size_t n_t)
{
	int64_t total, cpu = n->cpu_left - ask->cpu_milli;
	int64_t mib = (n->memory_left - ask->memory) >> FL_MIB_SHIFT, score = 0;

	if (n->scored != f->epoch)
		score_node(f, n);
	total = n->total;
	for (size_t i = 0; i < n_t; i++) {
		score += t[i].opened * OPENING + t[i].rest->free * LEAVING;
		total += t[i].rest->free - n->cards[t[i].card].rest.free;
	}
	score += fragments_after(f, n, t, n_t, total, cpu, mib) - n->frag;
	if (n->n_present > 0)
		score += (int64_t)n->total * ROOM_WEIGHT / n->n_present;
	return score + (n->cpu > 0 ? cpu * 1000 / n->cpu : 0);
}

/* --- the other policies ----------------------------------------------------------------------- */

struct sums {
	int64_t opened, left_free, room, cpu;
};

static struct sums sum_up(const struct node *n, const struct rf_fleet_ask *ask, const struct touched *t,
			  size_t n_t)
{
	struct sums s = { .cpu = n->cpu > 0 ? (n->cpu_left - ask->cpu_milli) * 1000 / n->cpu : 0 };

	for (unsigned i = 0; i < n->n_cards; i++)
		s.left_free += n->cards[i].rest.free > 0 && fl_untouched(&n->cards[i].load);
	for (size_t i = 0; i < n_t; i++) {
		s.opened += t[i].opened;
		s.room += t[i].rest->free;
	}
	s.left_free -= s.opened;
	return s;
}

/* Open few free cards, keep large groups of free cards together, leave little room on used ones. Whoever asks
 * for no card stays off the nodes that have some. */
static int64_t score_pack(const struct node *n, const struct rf_fleet_ask *ask, const struct touched *t,
			  size_t n_t)
{
	struct sums s = sum_up(n, ask, t, n_t);
	int64_t opened = ask->n_parts > 0 ? s.opened : n->n_present;

	return (((opened << 8 | s.left_free) << 17 | s.room) << 11) + s.cpu;
}

/* The node with most free cards, and of these one more: shares do not meet as long as they need not. */
static int64_t score_spread(const struct node *n, const struct rf_fleet_ask *ask, const struct touched *t,
			    size_t n_t)
{
	struct sums s = sum_up(n, ask, t, n_t);
	int64_t free = ask->n_parts > 0 ? s.left_free + s.opened : RF_FLEET_CARDS_MAX - n->n_present;

	return -(((free << 8 | s.opened) << 17 | s.room) << 11) - s.cpu;
}

static int64_t score_by(struct rf_fleet *f, struct node *n, const struct rf_fleet_ask *ask, const struct touched *t,
			size_t n_t, enum rf_fleet_policy policy)
{
	switch (policy) {
	case RF_FLEET_FRAG:
		return score_frag(f, n, ask, t, n_t);
	case RF_FLEET_PACK:
		return score_pack(n, ask, t, n_t);
	case RF_FLEET_SPREAD:
		return score_spread(n, ask, t, n_t);
	case RF_FLEET_FIRST:
		break;
	}
	return 0;
}

int64_t fl_score(struct rf_fleet *f, struct node *n, const struct rf_fleet_ask *ask, const struct touched *t,
		 size_t n_t)
{
	enum rf_fleet_policy policy = fl_policy(n, ask);
	int64_t score = score_by(f, n, ask, t, n_t, policy) + policy * BEFORE;

	return score + (ask->n_parts == 0 && n->n_present > 0 && policy != RF_FLEET_FIRST ? OFF_CARDS : 0);
}

/* --- who usually asks ------------------------------------------------------------------------- */

static bool same_need(const struct need *a, const struct need *b)
{
	return a->kind == b->kind && a->profile == b->profile && a->bytes == b->bytes && a->milli == b->milli &&
	       a->models == b->models;
}

/* In thousandths of cards: how much of a card a need takes, roughly where its memory is not known. */
static int64_t size_of(const struct rf_fleet *f, const struct need *need)
{
	int64_t milli = need->milli, model;

	if (need->kind == RF_FLEET_WHOLE)
		return RF_FLEET_MILLI;
	FL_EACH_BIT (m, need->models & f->present) {
		if (need->kind == RF_FLEET_SLICE && need->profile < f->models[m].n_profiles)
			return f->models[m].profiles[need->profile].memory_slices * RF_FLEET_MILLI / EIGHTHS;
		model = f->models[m].index->memory_max;
		if (need->bytes > 0 && model > 0)
			milli = RF_MAX(milli, need->bytes * RF_FLEET_MILLI / model);
	}
	return RF_MIN(milli, RF_FLEET_MILLI);
}

static uint64_t weight_of(const struct rf_fleet *f, const struct habit *h)
{
	int64_t size = size_of(f, &h->need) * h->n;

	return h->count * (uint64_t)RF_MAX(SMALL_FIRST - size, 1000);
}

/* Habits are compared as bytes, their counts aside: they were all zero before they were filled in. */
static int by_content(const void *pa, const void *pb)
{
	return memcmp(pa, pb, offsetof(struct habit, count));
}

static int rarer_last(const void *pa, const void *pb)
{
	const struct habit *a = pa, *b = pb;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return by_content(pa, pb);
}

static uint8_t need_index(struct need *needs, size_t *n, const struct need *need)
{
	size_t i = 0;

	while (i < *n && !same_need(&needs[i], need))
		i++;
	if (i == *n)
		needs[(*n)++] = *need;
	return (uint8_t)i;
}

struct view { /* of what is typical */
	struct typical typicals[TYPICALS_MAX];
	struct need needs[TYPICALS_MAX];
	size_t n, n_needs;
};

static void take_view(const struct rf_fleet *f, const struct habit *habits, size_t n_habits, struct view *v)
{
	size_t n = RF_MIN(n_habits, TYPICALS_MAX);
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += weight_of(f, &habits[i]);
	for (size_t i = 0; i < n && sum > 0; i++) {
		const struct habit *h = &habits[i];
		int64_t weight = (int64_t)((unsigned __int128)weight_of(f, h) * WEIGHTS / sum);

		if (weight > 0)
			v->typicals[v->n++] = (struct typical){ .need = need_index(v->needs, &v->n_needs, &h->need),
								.n = h->n,
								.cpu = h->cpu,
								.mib = h->mib,
								.weight = weight };
	}
}

static int64_t weight_in(const struct rf_fleet *f, const struct view *v, const struct typical *t)
{
	for (size_t i = 0; i < f->n_typicals; i++) {
		const struct typical *o = &f->typicals[i];

		if (o->n == t->n && o->cpu == t->cpu && o->mib == t->mib &&
		    same_need(&f->needs[o->need], &v->needs[t->need]))
			return o->weight;
	}
	return 0;
}

/* How much of the weight lies elsewhere than before. */
static int64_t moved(const struct rf_fleet *f, const struct view *v)
{
	int64_t more = 0;

	for (size_t i = 0; i < v->n; i++)
		more += RF_MAX(v->typicals[i].weight - weight_in(f, v, &v->typicals[i]), 0);
	return more;
}

/* Rounded up to its leading bits. */
static int64_t roughly(int64_t v, int bits)
{
	int low = v > 0 ? 64 - __builtin_clzll((uint64_t)v) - bits : 0;

	return low > 0 ? (((v - 1) >> low) + 1) << low : v;
}

/* A request of several parts counts as its largest. */
static bool habit_of(const struct rf_fleet *f, const struct rf_fleet_ask *ask, uint64_t count, struct habit *ret)
{
	int64_t largest = -1;

	memset(ret, 0, sizeof(*ret));
	ret->cpu = ask->cpu_milli;
	ret->mib = (ask->memory + (1 << FL_MIB_SHIFT) - 1) >> FL_MIB_SHIFT;
	ret->count = count;
	for (unsigned i = 0; i < ask->n_parts; i++) {
		struct need need = fl_need(ask, &ask->parts[i]);
		int64_t size = size_of(f, &need) * ask->parts[i].n;

		if (size <= largest)
			continue;
		largest = size;
		ret->n = ask->parts[i].n;
		ret->need.kind = need.kind;
		ret->need.profile = need.kind == RF_FLEET_SLICE ? need.profile : 0;
		ret->need.bytes = need.bytes;
		ret->need.milli = need.milli;
		ret->need.models = need.models;
	}
	return ask->n_parts > 0;
}

static uint64_t hash_habit(const struct habit *h)
{
	uint64_t v = fl_mix((uint64_t)h->cpu, (uint64_t)h->mib);

	v = fl_mix(v, (uint64_t)h->need.bytes);
	v = fl_mix(v, (uint64_t)h->need.milli << 24 | (uint64_t)h->need.kind << 16 | (uint64_t)h->need.profile << 8 | h->n);
	return fl_mix(v, h->need.models);
}

/* Those alike together. */
static size_t merge(struct habit *h, size_t n)
{
	size_t slots = 16, kept = 0;
	uint32_t *at;

	while (slots < 2 * n)
		slots *= 2;
	at = rf_alloc(slots * sizeof(*at)); /* one more than the place; 0: none */
	for (size_t i = 0; i < n; i++) {
		size_t k = hash_habit(&h[i]) & (slots - 1);

		while (at[k] != 0 && by_content(&h[at[k] - 1], &h[i]) != 0)
			k = (k + 1) & (slots - 1);
		if (at[k] != 0) {
			h[at[k] - 1].count = RF_MIN(h[at[k] - 1].count + h[i].count, COUNT_MAX);
			continue;
		}
		h[kept++] = h[i];
		at[k] = (uint32_t)kept;
	}
	free(at);
	return kept;
}

void rf_fleet_asked(struct rf_fleet *f, const struct rf_fleet_ask *ask, uint64_t weight)
{
	struct habit h;

	/* Who asks for no card leaves no fragment of one. */
	if (weight > 0 && rf_fleet_check(ask, NULL) == 0 && habit_of(f, ask, RF_MIN(weight, COUNT_MAX), &h))
		rf_vec_push(&f->habits, h);
}

/* Do those that are asked often stand for all? */
static bool some_are_usual(const struct habit *h, size_t n)
{
	uint64_t all = 0, often = 0;

	for (size_t i = 0; i < n; i++)
		all += h[i].count;
	for (size_t i = 0; i < n; i++)
		often += h[i].count >= all / (4 * TYPICALS_MAX) ? h[i].count : 0;
	return often >= all / 2;
}

/* The most frequent first. Where each asks for a little more or less than the other, what they ask is looked at less
 * closely, or the few that can be kept would stand for nobody; but only as far as it must be: whether a node's CPUs feed
 * all its cards depends on exact amounts. */
static size_t sum_up_habits(struct habit *h, size_t n)
{
	n = merge(h, n);
	for (int bits = 4; bits > 0 && !some_are_usual(h, n); bits /= 2) {
		for (size_t i = 0; i < n; i++) {
			h[i].cpu = roughly(h[i].cpu, bits);
			h[i].mib = roughly(h[i].mib, bits);
			h[i].need.bytes = roughly(h[i].need.bytes, bits);
		}
		n = merge(h, n);
	}
	if (n > 0)
		qsort(h, n, sizeof(*h), rarer_last);
	return n;
}

static int32_t size_on(const struct rf_fleet *f, const struct need *need, unsigned model)
{
	const struct model *m = &f->models[model];
	int64_t memory = m->index != NULL ? m->index->memory_max : 0;

	if (need->kind == RF_FLEET_SLICE && need->profile < m->n_profiles)
		return m->profiles[need->profile].memory_slices * RF_FLEET_MILLI / EIGHTHS;
	if (need->kind == RF_FLEET_SHARE && memory > 0)
		return (int32_t)RF_MIN(RF_MAX(need->milli, need->bytes * RF_FLEET_MILLI / memory), RF_FLEET_MILLI);
	return RF_FLEET_MILLI;
}

void fl_size_needs(struct rf_fleet *f, unsigned model)
{
	for (size_t i = 0; i < f->n_needs; i++)
		f->models[model].each[i] = size_on(f, &f->needs[i], model);
}

static void set_typicals(struct rf_fleet *f, const struct view *v)
{
	f->n_typicals = 0;
	f->single_weight = f->single_cpu = f->single_mib = 0;
	memset(f->typicals, 0, sizeof(f->typicals));
	memset(f->need_weight, 0, sizeof(f->need_weight));
	for (size_t i = 0; i < v->n; i++) {
		const struct typical *t = &v->typicals[i];

		if (t->n > 1)
			continue;
		f->typicals[f->n_typicals++] = *t;
		f->need_weight[t->need] += t->weight;
		f->single_weight += t->weight;
		f->single_cpu = RF_MAX(f->single_cpu, t->cpu);
		f->single_mib = RF_MAX(f->single_mib, t->mib);
	}
	f->n_single = f->n_typicals;
	for (size_t i = 0; i < v->n; i++) {
		if (v->typicals[i].n > 1)
			f->typicals[f->n_typicals++] = v->typicals[i];
	}
}

void rf_fleet_typical(struct rf_fleet *f)
{
	struct view v = { 0 };

	take_view(f, f->habits.at, sum_up_habits(f->habits.at, f->habits.n), &v);
	rf_vec_done(&f->habits);
	/* A new view makes all scores void, so it must differ to be worth that. */
	if (v.n > 0 ? moved(f, &v) < WEIGHTS / 16 : f->n_typicals == 0)
		return;
	memcpy(f->needs, v.needs, sizeof(v.needs));
	f->n_needs = v.n_needs;
	for (size_t i = 0; i < v.n_needs; i++)
		f->need_mib[i] = (uint32_t)((v.needs[i].bytes + (1 << FL_MIB_SHIFT) - 1) >> FL_MIB_SHIFT);
	set_typicals(f, &v);
	FL_EACH_BIT (m, f->present)
		fl_size_needs(f, m);
	f->epoch++;
}
