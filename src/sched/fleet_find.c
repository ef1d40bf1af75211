/* Finding the best node without asking every node.
 *
 * A lane is what is known about one kind of request (all that decides where it may go and what that is worth):
 * the score of every node, with a tree of winners above. Every change of a node is noted in one list. A lane
 * that is asked first catches up: it scores the nodes that changed since, and only these. Lanes are made when
 * needed, from the index, and the longest unused one goes when there are too many.
 *
 * A lane does not say whose the request is, unless that decides: it scores for a stranger. What is different for
 * the tenant itself are the nodes with its own dirt, and these are looked at one by one. */
#include "sched/fleet_private.h"

#define LANES_MAX 256
#define LANES_BYTES ((size_t)64 << 20)
#define BUCKETS 512
#define CHANGES FL_CHANGES /* a lane further behind starts anew */
#define TWINS 512
#define HOMES_MAX 32   /* a tenant with own dirt on more nodes gets lanes of its own */

struct lane_key {
	int64_t cpu, memory;
	uint64_t models, may_kept;
	uint32_t class, trust, tenant; /* tenant 0: a stranger */
	uint8_t level, system, policy, n_parts;
	uint64_t spare;
	struct {
		int64_t bytes;
		uint16_t milli;
		uint8_t kind, n, profile, one_island, apart, pad;
	} parts[RF_FLEET_PARTS_MAX];
};

struct lane {
	struct lane_key key;
	size_t key_size;
	uint64_t hash;
	struct lane *next; /* of the bucket */
	struct lane *older, *newer; /* by when they were used last */
	uint64_t seen;	   /* of the changes */
	uint32_t epoch;
	size_t n, leaves; /* nodes; a power of two */
	const uint64_t *order; /* of the fleet */
	int64_t *score;	  /* of as many as leaves */
	uint32_t *winner; /* [1] is the root; leaf i is leaves + i, not kept */
};

/* Many nodes are alike: one of them speaks for all. A place is checked before it is offered, so that should two
 * different nodes ever have one sign, only the choice suffers. */
struct twins {
	uint64_t sign[TWINS];
	int64_t score[TWINS];
};

struct lanes {
	struct lane *buckets[BUCKETS];
	struct lane *oldest, *newest;
	size_t n;
	uint64_t changed;
	uint64_t stamp;
	uint32_t changes[CHANGES];
	struct twins twins; /* while a lane is filled */
};

struct lanes *fl_lanes_new(void)
{
	return rf_new(struct lanes);
}

static void lane_free(struct lane *l)
{
	free(l->score);
	free(l->winner);
	free(l);
}

void fl_lanes_reset(struct lanes *l)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct lane *v = l->buckets[i], *next; v != NULL; v = next) {
			next = v->next;
			lane_free(v);
		}
		l->buckets[i] = NULL;
	}
	l->oldest = l->newest = NULL;
	l->n = 0;
}

void fl_lanes_free(struct lanes *l)
{
	fl_lanes_reset(l);
	free(l);
}

void fl_lanes_changed(struct lanes *l, uint32_t node)
{
	l->changes[l->changed++ % CHANGES] = node;
}

uint64_t fl_lanes_count(const struct lanes *l)
{
	return l->changed;
}

uint32_t fl_lanes_change(const struct lanes *l, uint64_t i)
{
	return l->changes[i % CHANGES];
}

/* --- keys ------------------------------------------------------------------------------------- */

bool fl_is_personal(const struct rf_fleet_ask *ask)
{
	if (ask->owner.level < RF_ISOLATION_GPU && !ask->owner.system)
		return true;
	for (unsigned i = 0; i < ask->n_parts; i++)
		if (ask->parts[i].kind == RF_FLEET_SLICE && ask->owner.level < RF_ISOLATION_SLICE)
			return true;
	return false;
}

static size_t make_key(const struct rf_fleet *f, const struct rf_fleet_ask *ask, uint32_t tenant, struct lane_key *k)
{
	size_t size = offsetof(struct lane_key, parts) + ask->n_parts * sizeof(k->parts[0]);

	memset(k, 0, size);
	k->cpu = ask->cpu_milli;
	k->memory = ask->memory;
	k->models = ask->n_parts > 0 ? fl_models(ask) : 0;
	k->may_kept = ask->may_kept;
	k->class = ask->class;
	k->trust = ask->owner.trust;
	k->tenant = tenant;
	k->level = (uint8_t)ask->owner.level;
	k->system = ask->owner.system;
	k->policy = (uint8_t)ask->policy;
	k->n_parts = ask->n_parts;
	k->spare = ask->leave != NULL ? fl_sign_spare(f, ask) : 0;
	for (unsigned i = 0; i < ask->n_parts; i++) {
		const struct rf_fleet_part *p = &ask->parts[i];

		k->parts[i].bytes = p->bytes;
		k->parts[i].milli = (uint16_t)p->milli;
		k->parts[i].kind = (uint8_t)p->kind;
		k->parts[i].n = p->n;
		k->parts[i].profile = p->profile;
		k->parts[i].one_island = p->one_island;
		k->parts[i].apart = p->apart;
	}
	return size;
}

static uint64_t hash_key(const struct lane_key *k, size_t size)
{
	const uint64_t *w = (const uint64_t *)k;
	uint64_t h = size;

	for (size_t i = 0; i < size / sizeof(*w); i++)
		h = fl_mix(h, w[i]);
	return h;
}

/* --- the tree --------------------------------------------------------------------------------- */

static uint32_t better(const struct lane *l, uint32_t a, uint32_t b)
{
	int64_t of_a = l->score[a], of_b = l->score[b];

	if (of_a == of_b && of_a != NEVER)
		return l->order[b] < l->order[a] ? b : a;
	return of_b < of_a ? b : a;
}

static void set_score(struct lane *l, uint32_t node, int64_t score)
{
	if (l->score[node] == score)
		return;
	l->score[node] = score;
	l->winner[(l->leaves + node) / 2] = better(l, node & ~1u, node | 1);
	for (size_t at = (l->leaves + node) / 4; at > 0; at /= 2)
		l->winner[at] = better(l, l->winner[2 * at], l->winner[2 * at + 1]);
}

static void build_tree(struct lane *l)
{
	for (uint32_t i = 0; i < l->leaves; i += 2)
		l->winner[(l->leaves + i) / 2] = better(l, i, i + 1);
	for (size_t at = l->leaves / 2 - 1; at > 0; at--)
		l->winner[at] = better(l, l->winner[2 * at], l->winner[2 * at + 1]);
}

/* --- lanes ------------------------------------------------------------------------------------ */

static const uint64_t *index_of(const struct model_index *x, const struct rf_fleet_part *p)
{
	unsigned step;

	if (p->kind == RF_FLEET_WHOLE)
		return x->whole[RF_MIN(p->n, LEVEL_STEPS) - 1];
	if (p->kind == RF_FLEET_SLICE)
		return p->profile < RF_FLEET_PROFILES_MAX ? x->profile[p->profile] : NULL;
	if (p->bytes == 0)
		return x->milli[p->milli * 16 / RF_FLEET_MILLI];
	if (p->bytes > x->memory_max)
		return NULL;
	step = (unsigned)(p->bytes * 16 / x->memory_max);
	return x->bytes[step];
}

/* Nodes that may do, 64 at a time. */
static uint64_t candidates(const struct rf_fleet *f, const struct rf_fleet_ask *ask, size_t word)
{
	uint64_t bits = f->there[word], any = 0;

	if (ask->class != 0)
		bits &= f->classes.at[ask->class][word];
	if (ask->n_parts == 0 || bits == 0)
		return bits;
	FL_EACH_BIT (m, fl_models(ask) & f->present) {
		const uint64_t *x = index_of(f->models[m].index, &ask->parts[0]);

		any |= x != NULL ? x[word] : 0;
		/* Cards of several models together can do what those of one cannot. */
		if (ask->parts[0].kind == RF_FLEET_WHOLE)
			any |= f->mixed[word] & f->models[m].index->whole[0][word];
	}
	return bits & any;
}

static int64_t score_like_twin(struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask, bool stranger,
			       struct twins *t)
{
	uint64_t sign = fl_sign(f, node);
	size_t at = sign % TWINS;

	/* Who is on which card the sign does not say. */
	if (fl_minds_group(&ask->owner) && f->nodes.at[node].guests.all.n > 0)
		return fl_place(f, node, ask, stranger, NULL);
	if (t->sign[at] != sign) {
		t->sign[at] = sign;
		t->score[at] = fl_place(f, node, ask, stranger, NULL);
	}
	return t->score[at];
}

static void lane_fill(struct rf_fleet *f, const struct rf_fleet_ask *ask, struct lane *l)
{
	l->n = f->nodes.n;
	l->order = f->order.at;
	l->leaves = 2;
	while (l->leaves < l->n)
		l->leaves *= 2;
	l->score = rf_realloc(l->score, l->leaves * sizeof(*l->score));
	l->winner = rf_realloc(l->winner, l->leaves * sizeof(*l->winner));
	for (size_t i = 0; i < l->leaves; i++)
		l->score[i] = NEVER;
	memset(f->lanes->twins.sign, 0, sizeof(f->lanes->twins.sign));
	for (size_t w = 0; w * 64 < l->n; w++)
		FL_EACH_BIT (b, candidates(f, ask, w))
			l->score[w * 64 + b] = score_like_twin(f, (uint32_t)(w * 64 + b), ask,
							       l->key.tenant == 0, &f->lanes->twins);
	build_tree(l);
	l->epoch = f->epoch;
	l->seen = f->lanes->changed;
}

static void lane_catch_up(struct rf_fleet *f, const struct rf_fleet_ask *ask, struct lane *l)
{
	struct lanes *all = f->lanes;
	uint64_t behind = all->changed - l->seen;

	if (l->epoch != f->epoch || l->n != f->nodes.n || behind > CHANGES || behind > 4 * l->n) {
		lane_fill(f, ask, l);
		return;
	}
	all->stamp++;
	l->order = f->order.at;
	for (uint64_t i = all->changed; i > l->seen; i--) {
		uint32_t node = all->changes[(i - 1) % CHANGES];

		if (f->nodes.at[node].stamp == all->stamp)
			continue;
		f->nodes.at[node].stamp = all->stamp;
		set_score(l, node,
			  candidates(f, ask, node / 64) >> node % 64 & 1 ? fl_place(f, node, ask, l->key.tenant == 0, NULL) :
									   NEVER);
	}
	l->seen = all->changed;
}

static void unlink_used(struct lanes *all, struct lane *l)
{
	*(l->older != NULL ? &l->older->newer : &all->oldest) = l->newer;
	*(l->newer != NULL ? &l->newer->older : &all->newest) = l->older;
}

static void append_used(struct lanes *all, struct lane *l)
{
	l->older = all->newest;
	l->newer = NULL;
	*(l->older != NULL ? &l->older->newer : &all->oldest) = l;
	all->newest = l;
}

static void evict(struct rf_fleet *f)
{
	struct lanes *all = f->lanes;
	size_t each = 2 * f->nodes.n * (sizeof(int64_t) + sizeof(uint32_t)) + sizeof(struct lane);
	struct lane *gone = all->oldest, **at;

	if (all->n < LANES_MAX && (all->n < 8 || all->n * each < LANES_BYTES))
		return;
	for (at = &all->buckets[gone->hash % BUCKETS]; *at != gone; at = &(*at)->next)
		;
	*at = gone->next;
	unlink_used(all, gone);
	lane_free(gone);
	all->n--;
}

static bool any_candidates(const struct rf_fleet *f, const struct rf_fleet_ask *ask)
{
	for (size_t w = 0; w * 64 < f->nodes.n; w++) {
		if (candidates(f, ask, w) != 0)
			return true;
	}
	return false;
}

/* NULL: the index says that nothing will do, not even for the tenant itself. */
static struct lane *lane_for(struct rf_fleet *f, const struct rf_fleet_ask *ask, uint32_t tenant)
{
	struct lanes *all = f->lanes;
	struct lane_key key RF_UNINITIALIZED;
	size_t size = make_key(f, ask, tenant, &key);
	uint64_t hash = hash_key(&key, size);
	struct lane *l = all->buckets[hash % BUCKETS];

	while (l != NULL && (l->hash != hash || l->key_size != size || memcmp(&l->key, &key, size) != 0))
		l = l->next;
	/* What fits nowhere needs no lane: that would only take the place of one that is of use. */
	if (l == NULL && !any_candidates(f, ask))
		return NULL;
	if (l == NULL) {
		evict(f);
		l = rf_new(struct lane);
		memcpy(&l->key, &key, size);
		l->key_size = size;
		l->hash = hash;
		l->next = all->buckets[hash % BUCKETS];
		all->buckets[hash % BUCKETS] = l;
		all->n++;
		lane_fill(f, ask, l);
	} else {
		unlink_used(all, l);
		lane_catch_up(f, ask, l);
	}
	append_used(all, l);
	return l;
}

/* --- finding ---------------------------------------------------------------------------------- */

static bool has_own_dirt(const struct node *n, uint32_t tenant)
{
	for (unsigned i = 0; i < n->n_cards; i++)
		for (unsigned k = 0; n->cards[i].dirty && k < EIGHTHS; k++)
			if (n->cards[i].dirt[k] == tenant)
				return true;
	return false;
}

/* Nodes with the tenant's own dirt, at most max of them. */
static size_t find_homes(const struct rf_fleet *f, uint32_t tenant, uint32_t *ret, size_t max)
{
	size_t n = 0;

	for (size_t w = 0; f->n_dirty > 0 && n < max && w * 64 < f->nodes.n; w++)
		FL_EACH_BIT (b, f->dirty[w])
			if (n < max && has_own_dirt(&f->nodes.at[w * 64 + b], tenant))
				ret[n++] = (uint32_t)(w * 64 + b);
	return n;
}

bool fl_has_home(const struct rf_fleet *f, uint32_t tenant)
{
	uint32_t home;

	return find_homes(f, tenant, &home, 1) > 0;
}

static uint32_t best_of(const struct lane *l)
{
	uint32_t node = l != NULL ? l->winner[1] : 0;

	return l == NULL || l->score[node] == NEVER ? RF_FLEET_NONE : node;
}

/* The homes' own scores in place of a stranger's, for this once. */
static uint32_t best_with_homes(struct rf_fleet *f, const struct rf_fleet_ask *ask, struct lane *l,
				const uint32_t *homes, size_t n)
{
	int64_t was[HOMES_MAX];
	uint32_t best;

	if (l == NULL)
		return RF_FLEET_NONE;
	for (size_t i = 0; i < n; i++) {
		was[i] = l->score[homes[i]];
		set_score(l, homes[i], fl_place(f, homes[i], ask, false, NULL));
	}
	best = best_of(l);
	for (size_t i = 0; i < n; i++)
		set_score(l, homes[i], was[i]);
	return best;
}

static uint32_t best_node(struct rf_fleet *f, const struct rf_fleet_ask *ask)
{
	uint32_t homes[HOMES_MAX + 1], tenant = ask->owner.tenant;
	size_t n = 0;

	if (fl_is_personal(ask))
		return best_of(lane_for(f, ask, tenant));
	if (ask->n_parts > 0 && tenant != 0)
		n = find_homes(f, tenant, homes, HOMES_MAX + 1);
	if (n > HOMES_MAX)
		return best_of(lane_for(f, ask, tenant));
	return n == 0 ? best_of(lane_for(f, ask, 0)) : best_with_homes(f, ask, lane_for(f, ask, 0), homes, n);
}

bool rf_fleet_find(struct rf_fleet *f, const struct rf_fleet_ask *ask, struct rf_fleet_place *ret)
{
	uint32_t node;

	if (rf_fleet_check(ask, NULL) < 0 || f->nodes.n == 0 ||
	    (ask->class != 0 && (ask->class >= f->classes.n || f->classes.at[ask->class] == NULL)))
		return false;
	fl_racks_matter(f, &ask->owner);
	fl_weigh(f, ask);
	node = best_node(f, ask);
	return node != RF_FLEET_NONE && rf_fleet_find_on(f, node, ask, ret);
}

bool rf_fleet_find_on(struct rf_fleet *f, uint32_t node, const struct rf_fleet_ask *ask,
		      struct rf_fleet_place *ret)
{
	if (node >= f->nodes.n || rf_fleet_check(ask, NULL) < 0)
		return false;
	fl_racks_matter(f, &ask->owner);
	fl_weigh(f, ask);
	ret->score = fl_place(f, node, ask, false, ret);
	ret->node = node;
	return ret->score != NEVER;
}

uint64_t rf_fleet_version(const struct rf_fleet *f, const struct rf_fleet_ask *ask)
{
	uint64_t sum = 0;

	if (ask->n_parts == 0)
		return f->version;
	FL_EACH_BIT (m, fl_models(ask) & f->present)
		sum += f->models[m].version;
	/* What is given back anywhere is more that is left, and what others took need not be left any more. */
	return sum + (ask->leave != NULL ? f->version + f->taken : 0);
}

/* --- requests --------------------------------------------------------------------------------- */

static int check_part(const struct rf_fleet_part *p, unsigned i, struct rf_err *err)
{
	if (p->n == 0 || p->n > RF_FLEET_CARDS_MAX)
		return rf_fail(err, RF_INVALID, "part %u asks for %u cards: 1 to %d", i, p->n, RF_FLEET_CARDS_MAX);
	if (p->kind == RF_FLEET_WHOLE)
		return 0;
	if (p->kind == RF_FLEET_SLICE)
		return p->profile < RF_FLEET_PROFILES_MAX ?
			       0 :
			       rf_fail(err, RF_INVALID, "part %u: there is no profile %u", i, p->profile);
	if (p->kind != RF_FLEET_SHARE || p->bytes < 0 || p->bytes > RF_FLEET_MEMORY_MAX || p->milli < 0 ||
	    p->milli > RF_FLEET_MILLI || (p->bytes == 0 && p->milli == 0))
		return rf_fail(err, RF_INVALID, "part %u: a share is some bytes, or 1 to %d thousandths, or both", i,
			       RF_FLEET_MILLI);
	return 0;
}

int rf_fleet_check(const struct rf_fleet_ask *ask, struct rf_err *err)
{
	unsigned cards = 0;

	if (ask->cpu_milli < 0 || ask->cpu_milli > RF_FLEET_CPU_MAX || ask->memory < 0 ||
	    ask->memory > RF_FLEET_MEMORY_MAX || ask->n_parts > RF_FLEET_PARTS_MAX)
		return rf_fail(err, RF_INVALID, "a request for %lld milli CPU and %lld bytes in %u parts",
			       (long long)ask->cpu_milli, (long long)ask->memory, ask->n_parts);
	for (unsigned i = 0; i < ask->n_parts; i++) {
		int r = check_part(&ask->parts[i], i, err);

		if (r < 0)
			return r;
		cards += ask->parts[i].n;
	}
	if (cards > RF_FLEET_CARDS_MAX)
		return rf_fail(err, RF_INVALID, "%u cards in one request: at most %d", cards, RF_FLEET_CARDS_MAX);
	return 0;
}
