/* Why the nodes do not do, without asking every node each time.
 *
 * A kind is all of a request that decides about cards and neighbours: for which cards, and where that decides who asks. What it says of a node
 * is kept, together with what is left there; CPU, memory, keeps and class are looked at when a request of the kind
 * comes. Nodes are in blocks of 64: where CPU and memory suffice on all of a block, it is counted by its bits. A kind
 * that is asked catches up with the nodes that changed since, as lanes do (fleet_find.c). */
#include "sched/fleet_private.h"

#define KINDS_MAX 64
#define KINDS_BYTES ((size_t)16 << 20)
#define EVERY UINT16_MAX
#define TWINS 256

/* What is said of a node, CPU and memory aside: an rf_fleet_unfit, or one of these two, which come before these. */
enum { NO_ROOM_EVER = RF_FLEET_UNFITS, CLOSED, VERDICTS };

struct row {
	int64_t cpu, memory, cpu_left, memory_left, pods_left, bytes;
	uint16_t milli, kept;
	uint8_t cards, slices, verdict;
	bool there : 1, open : 1; /* open: such a request may use it at all, keeps aside */
};

struct block {
	uint64_t of[VERDICTS]; /* nodes, a bit each */
	uint64_t there, open, kept;
	int64_t cpu, memory, cpu_left, memory_left; /* the least of all of them */
	struct rf_fleet_most most;		    /* of those that are open */
};

struct kind {
	struct rf_fleet_ask ask; /* without CPU, memory, class, keeps and what is to be left untouched */
	uint64_t hash, used, seen;
	size_t n; /* nodes */
	struct row *rows;
	struct block *blocks;
};

struct cards { /* what those of a node say */
	struct rf_fleet_most most;
	uint8_t verdict;
};

struct known {
	struct kind kinds[KINDS_MAX];
	size_t n;
	uint64_t clock, looks;
	uint64_t sign[TWINS]; /* of the nodes that these are of, for one kind; 0: of none */
	struct cards twins[TWINS];
};

void fl_known_free(struct known *k)
{
	for (size_t i = 0; k != NULL && i < k->n; i++) {
		free(k->kinds[i].rows);
		free(k->kinds[i].blocks);
	}
	free(k);
}

uint64_t rf_fleet_looks(const struct rf_fleet *f)
{
	return f->known != NULL ? f->known->looks : 0;
}

/* --- one node --------------------------------------------------------------------------------- */

/* What is wrong with the node itself; FITS: nothing, and its cards decide. */
static uint8_t judge(const struct node *n, const struct rf_fleet_ask *ask)
{
	if (ask->n_parts > 0 && (n->models & fl_models(ask)) == 0)
		return RF_FLEET_NO_MODEL;
	if (n->pods == 0)
		return NO_ROOM_EVER;
	if (n->cordoned)
		return RF_FLEET_CORDONED;
	if (ask->owner.level == RF_ISOLATION_RACK && !ask->owner.system && n->rack == NULL)
		return RF_FLEET_NO_RACK;
	if (!fl_node_open(n, &ask->owner))
		return CLOSED;
	if (n->pods_left <= 0)
		return RF_FLEET_NO_PODS;
	return RF_FLEET_FITS;
}

static void look_at_cards(struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask, bool decide, struct cards *ret)
{
	const struct node *n = &f->nodes.at[node];

	*ret = (struct cards){ 0 };
	fl_most_of_cards(f, n, ask, &ret->most);
	if (decide)
		ret->verdict = (uint8_t)(fl_place(f, node, ask, false, NULL) != NEVER ? RF_FLEET_FITS : fl_why_cards(f, n, ask));
}

/* Many nodes are alike, as for lanes. */
static const struct cards *like_twin(struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask, bool decide)
{
	struct known *k = f->known;
	uint64_t sign = fl_mix(fl_sign(f, node), decide) | 1;
	size_t at = (sign >> 1) % TWINS;

	/* Who is on which card the sign does not say. */
	if (k->sign[at] != sign || fl_minds_group(&ask->owner) || f->nodes.at[node].barred != 0) {
		k->sign[at] = sign;
		look_at_cards(f, node, ask, decide, &k->twins[at]);
	}
	return &k->twins[at];
}

static void look(struct rf_fleet *f, struct kind *k, uint32_t node)
{
	const struct node *n = &f->nodes.at[node];
	struct row *r = &k->rows[node];
	const struct cards *cards;
	uint8_t verdict;

	f->known->looks++;
	*r = (struct row){ .there = n->there };
	if (!n->there)
		return;
	verdict = judge(n, &k->ask);
	cards = like_twin(f, node, &k->ask, verdict == RF_FLEET_FITS);
	*r = (struct row){ .there = true,
			   .open = !n->cordoned && fl_node_open(n, &k->ask.owner),
			   .verdict = verdict == RF_FLEET_FITS ? cards->verdict : verdict,
			   .kept = n->kept,
			   .cpu = n->cpu,
			   .memory = n->memory,
			   .cpu_left = n->cpu_left,
			   .memory_left = n->memory_left,
			   .pods_left = n->pods_left,
			   .cards = (uint8_t)cards->most.cards,
			   .slices = (uint8_t)cards->most.slices,
			   .bytes = cards->most.bytes,
			   .milli = (uint16_t)cards->most.milli };
}

static void add_most(struct rf_fleet_most *m, const struct row *r)
{
	m->nodes++;
	m->cards = RF_MAX(m->cards, r->cards);
	m->slices = RF_MAX(m->slices, r->slices);
	m->bytes = RF_MAX(m->bytes, r->bytes);
	m->milli = RF_MAX(m->milli, r->milli);
	m->cpu_milli = RF_MAX(m->cpu_milli, r->cpu_left);
	m->memory = RF_MAX(m->memory, r->memory_left);
	m->pods = RF_MAX(m->pods, r->pods_left);
}

static void sum_up(struct kind *k, size_t word)
{
	struct block b = { .cpu = INT64_MAX, .memory = INT64_MAX, .cpu_left = INT64_MAX, .memory_left = INT64_MAX };

	for (size_t i = word * 64; i < RF_MIN(k->n, word * 64 + 64); i++) {
		const struct row *r = &k->rows[i];
		uint64_t bit = (uint64_t)1 << i % 64;

		if (!r->there)
			continue;
		b.there |= bit;
		b.of[r->verdict] |= bit;
		b.open |= r->open ? bit : 0;
		b.kept |= r->kept != 0 ? bit : 0;
		b.cpu = RF_MIN(b.cpu, r->cpu);
		b.memory = RF_MIN(b.memory, r->memory);
		b.cpu_left = RF_MIN(b.cpu_left, r->cpu_left);
		b.memory_left = RF_MIN(b.memory_left, r->memory_left);
		if (r->open)
			add_most(&b.most, r);
	}
	k->blocks[word] = b;
}

/* --- kinds ------------------------------------------------------------------------------------ */

static uint64_t hash_of(const struct rf_fleet_ask *a)
{
	uint64_t h = a->n_parts;

	h = fl_mix(h, (uint64_t)a->owner.tenant << 32 | a->owner.trust);
	h = fl_mix(h, (uint64_t)a->owner.level << 1 | a->owner.system);
	h = fl_mix(h, fl_models(a));
	for (unsigned i = 0; i < a->n_parts; i++) {
		const struct rf_fleet_part *p = &a->parts[i];

		h = fl_mix(h, (uint64_t)p->kind << 24 | (uint64_t)p->n << 16 | (uint64_t)p->profile << 8 |
				      (uint64_t)p->one_island << 1 | p->apart);
		h = fl_mix(h, (uint64_t)p->bytes);
		h = fl_mix(h, (uint64_t)p->milli);
	}
	return h;
}

static bool same_part(const struct rf_fleet_part *a, const struct rf_fleet_part *b)
{
	return a->kind == b->kind && a->n == b->n && a->profile == b->profile && a->one_island == b->one_island &&
	       a->apart == b->apart && a->bytes == b->bytes && a->milli == b->milli;
}

static bool same_kind(const struct rf_fleet_ask *a, const struct rf_fleet_ask *b)
{
	if (a->n_parts != b->n_parts || fl_models(a) != fl_models(b) || a->owner.tenant != b->owner.tenant ||
	    a->owner.trust != b->owner.trust || a->owner.level != b->owner.level || a->owner.system != b->owner.system)
		return false;
	for (unsigned i = 0; i < a->n_parts; i++) {
		if (!same_part(&a->parts[i], &b->parts[i]))
			return false;
	}
	return true;
}

static void fill(struct rf_fleet *f, struct kind *k)
{
	size_t words = (f->nodes.n + 63) / 64;

	k->n = f->nodes.n;
	k->rows = rf_realloc(k->rows, RF_MAX(k->n, 1) * sizeof(*k->rows));
	k->blocks = rf_realloc(k->blocks, RF_MAX(words, 1) * sizeof(*k->blocks));
	for (uint32_t i = 0; i < k->n; i++)
		look(f, k, i);
	for (size_t w = 0; w < words; w++)
		sum_up(k, w);
}

static void catch_up(struct rf_fleet *f, struct kind *k)
{
	uint64_t now = fl_lanes_count(f->lanes);
	uint32_t last = RF_FLEET_NONE;

	if (k->n == f->nodes.n && k->seen == now)
		return;
	memset(f->known->sign, 0, sizeof(f->known->sign));
	if (k->n != f->nodes.n || now - k->seen > RF_MIN((uint64_t)f->nodes.n, FL_CHANGES)) {
		fill(f, k);
	} else {
		for (uint64_t i = k->seen; i < now; i++) {
			uint32_t node = fl_lanes_change(f->lanes, i);

			if (node == last)
				continue;
			last = node;
			look(f, k, node);
			sum_up(k, node / 64);
		}
	}
	k->seen = now;
}

static struct kind *new_kind(struct known *all, size_t nodes)
{
	size_t most = RF_MIN((size_t)KINDS_MAX, RF_MAX(KINDS_BYTES / (RF_MAX(nodes, 1) * sizeof(struct row)), 4));
	struct kind *oldest = &all->kinds[0];

	if (all->n < most)
		return &all->kinds[all->n++];
	for (size_t i = 1; i < all->n; i++)
		oldest = all->kinds[i].used < oldest->used ? &all->kinds[i] : oldest;
	return oldest;
}

static struct kind *kind_for(struct rf_fleet *f, const struct rf_fleet_ask *ask)
{
	struct rf_fleet_ask of = *ask;
	struct kind *k = NULL;
	uint64_t hash;

	fl_racks_matter(f, &ask->owner);
	of.cpu_milli = of.memory = 0;
	of.class = 0;
	of.may_kept = EVERY;
	of.leave = NULL;
	if (of.owner.tenant != 0 && !fl_is_personal(ask) && !fl_has_home(f, of.owner.tenant))
		of.owner.tenant = ANYBODY;
	hash = hash_of(&of);
	if (f->known == NULL)
		f->known = rf_new(struct known);
	for (size_t i = 0; i < f->known->n && k == NULL; i++) {
		if (f->known->kinds[i].hash == hash && same_kind(&f->known->kinds[i].ask, &of))
			k = &f->known->kinds[i];
	}
	if (k == NULL) {
		k = new_kind(f->known, f->nodes.n);
		k->ask = of;
		k->hash = hash;
		k->n = SIZE_MAX; /* nothing is known */
	}
	catch_up(f, k);
	k->used = ++f->known->clock;
	return k;
}

/* --- answers ---------------------------------------------------------------------------------- */

static enum rf_fleet_unfit said(unsigned verdict)
{
	if (verdict == NO_ROOM_EVER)
		return RF_FLEET_TOO_SMALL;
	return verdict == CLOSED ? RF_FLEET_ISOLATION : (enum rf_fleet_unfit)verdict;
}

/* Of the node itself: whatever its CPU and memory are. */
static bool comes_first(unsigned verdict)
{
	return verdict == NO_ROOM_EVER || verdict == CLOSED || verdict == RF_FLEET_CORDONED || verdict == RF_FLEET_NO_RACK ||
	       verdict == RF_FLEET_NO_PODS;
}

static enum rf_fleet_unfit answer(const struct row *r, const struct rf_fleet_ask *ask)
{
	bool cpu = ask->cpu_milli == 0 || ask->cpu_milli <= r->cpu_left;
	bool memory = ask->memory == 0 || ask->memory <= r->memory_left;

	if (r->verdict == RF_FLEET_FITS && cpu && memory)
		return (r->kept & ~ask->may_kept) != 0 ? RF_FLEET_KEPT : RF_FLEET_FITS;
	if (r->verdict == RF_FLEET_NO_MODEL)
		return RF_FLEET_NO_MODEL;
	if (ask->cpu_milli > r->cpu || ask->memory > r->memory)
		return RF_FLEET_TOO_SMALL;
	if (comes_first(r->verdict))
		return said(r->verdict);
	if (!cpu)
		return RF_FLEET_NO_CPU;
	return memory ? said(r->verdict) : RF_FLEET_NO_MEMORY;
}

static bool suffices(const struct block *b, const struct rf_fleet_ask *ask)
{
	return ask->cpu_milli <= b->cpu && ask->memory <= b->memory &&
	       (ask->cpu_milli == 0 || ask->cpu_milli <= b->cpu_left) && (ask->memory == 0 || ask->memory <= b->memory_left);
}

static uint64_t in_class(const struct rf_fleet *f, const struct rf_fleet_ask *ask, size_t word)
{
	return ask->class == 0 ? ~UINT64_C(0) : f->classes.at[ask->class][word];
}

/* Mostly there are none, and counting is a call where the processor's instruction may not be used. */
static uint32_t count_bits(uint64_t bits)
{
	return bits != 0 ? (uint32_t)__builtin_popcountll(bits) : 0;
}

static void count_block(const struct kind *k, size_t word, uint64_t bits, const struct rf_fleet_ask *ask,
			uint32_t ret[RF_FLEET_UNFITS])
{
	const struct block *b = &k->blocks[word];

	if (!suffices(b, ask) || (b->kept & bits & b->of[RF_FLEET_FITS]) != 0) {
		FL_EACH_BIT (i, bits)
			ret[answer(&k->rows[word * 64 + i], ask)]++;
		return;
	}
	for (unsigned v = 0; v < VERDICTS; v++)
		ret[said(v)] += count_bits(b->of[v] & bits);
}

/* Where it fits, it would not leave what is to be left. */
static bool is_unlent(struct rf_fleet *f, const struct rf_fleet_ask *ask)
{
	struct rf_fleet_place at;

	return ask->leave != NULL && !rf_fleet_find(f, ask, &at);
}

void rf_fleet_why(struct rf_fleet *f, const struct rf_fleet_ask *ask, uint32_t ret[RF_FLEET_UNFITS])
{
	const struct kind *k = kind_for(f, ask);

	memset(ret, 0, RF_FLEET_UNFITS * sizeof(ret[0]));
	for (size_t w = 0; w * 64 < k->n; w++) {
		uint64_t bits = k->blocks[w].there & in_class(f, ask, w);

		ret[RF_FLEET_NOT_IN_CLASS] += count_bits(k->blocks[w].there & ~bits);
		if (bits != 0)
			count_block(k, w, bits, ask, ret);
	}
	if (ret[RF_FLEET_FITS] > 0 && is_unlent(f, ask)) {
		ret[RF_FLEET_UNLENT] = ret[RF_FLEET_FITS];
		ret[RF_FLEET_FITS] = 0;
	}
}

static void join(struct rf_fleet_most *m, const struct rf_fleet_most *o)
{
	m->nodes += o->nodes;
	m->cards = RF_MAX(m->cards, o->cards);
	m->slices = RF_MAX(m->slices, o->slices);
	m->bytes = RF_MAX(m->bytes, o->bytes);
	m->milli = RF_MAX(m->milli, o->milli);
	m->cpu_milli = RF_MAX(m->cpu_milli, o->cpu_milli);
	m->memory = RF_MAX(m->memory, o->memory);
	m->pods = RF_MAX(m->pods, o->pods);
}

void rf_fleet_most(struct rf_fleet *f, const struct rf_fleet_ask *ask, struct rf_fleet_most *ret)
{
	const struct kind *k = kind_for(f, ask);

	*ret = (struct rf_fleet_most){ 0 };
	for (size_t w = 0; w * 64 < k->n; w++) {
		const struct block *b = &k->blocks[w];
		uint64_t bits = b->open & in_class(f, ask, w);

		if (bits == b->open && (b->kept & bits) == 0) {
			join(ret, &b->most);
			continue;
		}
		FL_EACH_BIT (i, bits) {
			if ((k->rows[w * 64 + i].kept & ~ask->may_kept) == 0)
				add_most(ret, &k->rows[w * 64 + i]);
		}
	}
}
