/* The fleet's nodes, cards and classes, and the index over them. */
#include "sched/fleet_private.h"

struct rf_fleet *rf_fleet_new(void)
{
	struct rf_fleet *f = rf_new(struct rf_fleet);

	f->epoch = 1;
	f->lanes = fl_lanes_new();
	f->rests = fl_rests_new();
	rf_vec_push(&f->classes, NULL); /* class 0: every node */
	return f;
}

static void free_index(struct model_index *x)
{
	if (x == NULL)
		return;
	for (size_t i = 0; i < LEVEL_STEPS; i++) {
		free(x->whole[i]);
		free(x->bytes[i]);
		free(x->milli[i]);
	}
	for (size_t i = 0; i < RF_FLEET_PROFILES_MAX; i++)
		free(x->profile[i]);
	free(x);
}

void rf_fleet_free(struct rf_fleet *f)
{
	if (f == NULL)
		return;
	for (size_t i = 0; i < f->nodes.n; i++) {
		free(f->nodes.at[i].cards);
		free(f->nodes.at[i].levels);
		rf_vec_done(&f->nodes.at[i].guests.all);
	}
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&f->racks, s)) != NULL;) {
		struct rack *r = s->value;

		rf_vec_done(&r->nodes);
		rf_vec_done(&r->guests.all);
		free(r);
	}
	rf_map_done(&f->racks);
	fl_order_free(f);
	for (size_t i = 0; i < f->holds.n; i++)
		free(f->holds.at[i].grants);
	for (size_t i = 0; i < f->classes.n; i++)
		free(f->classes.at[i]);
	for (size_t i = 0; i < RF_FLEET_MODELS_MAX; i++)
		free_index(f->models[i].index);
	rf_vec_done(&f->nodes);
	rf_vec_done(&f->signs);
	rf_vec_done(&f->unused);
	rf_vec_done(&f->classes);
	rf_vec_done(&f->unused_classes);
	rf_vec_done(&f->holds);
	rf_vec_done(&f->unused_holds);
	rf_vec_done(&f->limbo);
	rf_vec_done(&f->log);
	rf_vec_done(&f->saved_versions);
	rf_vec_done(&f->floors);
	rf_vec_done(&f->habits);
	rf_vec_done(&f->kinds);
	free(f->there);
	free(f->dirty);
	free(f->mixed);
	free(f->left);
	fl_lanes_free(f->lanes);
	fl_known_free(f->known);
	fl_stock_free(f->stock);
	fl_rests_free(f->rests);
	free(f);
}

/* --- bitmaps ---------------------------------------------------------------------------------- */

static void grow(bitmap *b, size_t from, size_t to)
{
	*b = rf_realloc(*b, to * sizeof(**b));
	memset(*b + from, 0, (to - from) * sizeof(**b));
}

static void each_index_bitmap(struct model_index *x, size_t from, size_t to)
{
	for (size_t i = 0; i < LEVEL_STEPS; i++) {
		grow(&x->whole[i], from, to);
		grow(&x->bytes[i], from, to);
		grow(&x->milli[i], from, to);
	}
	for (size_t i = 0; i < RF_FLEET_PROFILES_MAX; i++)
		grow(&x->profile[i], from, to);
}

static void make_room(struct rf_fleet *f, size_t nodes)
{
	size_t from = f->words, to = RF_MAX(f->words, 4);

	while (to * 64 < nodes)
		to *= 2;
	if (to == from)
		return;
	grow(&f->there, from, to);
	grow(&f->dirty, from, to);
	grow(&f->mixed, from, to);
	for (size_t i = 1; i < f->classes.n; i++)
		if (f->classes.at[i] != NULL)
			grow(&f->classes.at[i], from, to);
	FL_EACH_BIT (m, f->present)
		each_index_bitmap(f->models[m].index, from, to);
	fl_left_grow(f, 64 * from, 64 * to);
	f->words = to;
}

/* --- models and the index --------------------------------------------------------------------- */

static uint8_t free_starts(const struct rf_mig_profile *p, unsigned taken)
{
	unsigned starts = 0;

	for (unsigned i = 0; i < p->n_starts; i++) {
		unsigned mask = ((1u << p->memory_slices) - 1) << p->starts[i];

		if ((mask & taken) == 0 && mask <= 0xff)
			starts |= 1u << p->starts[i];
	}
	return (uint8_t)starts;
}

static uint8_t most_copies(const struct rf_mig_profile *p, unsigned taken, unsigned from)
{
	unsigned best = 0;

	for (unsigned i = from; i < p->n_starts; i++) {
		unsigned mask = ((1u << p->memory_slices) - 1) << p->starts[i];

		if ((mask & taken) == 0 && mask <= 0xff)
			best = RF_MAX(best, 1u + most_copies(p, taken | mask, i + 1));
	}
	return (uint8_t)best;
}

unsigned rf_fleet_slice_kind(const struct rf_fleet *f, struct rf_str profile)
{
	unsigned k = 0;

	while (k < f->kinds.n && !rf_str_is(profile, f->kinds.at[k]))
		k++;
	return k < f->kinds.n ? k : RF_FLEET_KINDS_MAX;
}

static uint8_t kind_of(struct rf_fleet *f, const char *profile)
{
	unsigned k = rf_fleet_slice_kind(f, rf_str(profile));

	if (k < RF_FLEET_KINDS_MAX || f->kinds.n == RF_FLEET_KINDS_MAX)
		return (uint8_t)k;
	rf_vec_push(&f->kinds, profile);
	return (uint8_t)(f->kinds.n - 1);
}

void rf_fleet_set_model(struct rf_fleet *f, unsigned model, const struct rf_mig_profile *profiles, size_t n)
{
	struct model *m;

	rf_assert(model < RF_FLEET_MODELS_MAX && n <= RF_FLEET_PROFILES_MAX);
	rf_assert(!(f->present >> model & 1)); /* what is sliced must be known before its cards are */
	m = &f->models[model];
	m->profiles = profiles;
	m->n_profiles = (uint8_t)n;
	for (size_t p = 0; p < n; p++)
		m->kinds[p] = kind_of(f, profiles[p].name);
	for (size_t p = 0; p < n; p++)
		for (unsigned taken = 0; taken < 256; taken++) {
			m->fits[p][taken] = free_starts(&profiles[p], taken);
			m->copies[p][taken] = most_copies(&profiles[p], taken, 0);
		}
}

struct levels fl_levels(const struct node *n, uint8_t model)
{
	struct levels l = { .model = model };

	for (unsigned i = 0; i < n->n_cards; i++) {
		const struct card *c = &n->cards[i];

		if (c->v.model != model)
			continue;
		l.profiles |= c->rest.profiles;
		l.bytes = RF_MAX(l.bytes, c->rest.bytes);
		l.milli = RF_MAX(l.milli, c->rest.milli);
		l.whole += l.whole < LEVEL_STEPS && c->rest.bytes > 0 && c->load.n_share == 0;
	}
	return l;
}

static void move_steps(bitmap *steps, uint32_t node, unsigned from, unsigned to)
{
	for (; from < to; from++)
		bit_set(steps[from], node, true);
	for (; from > to; from--)
		bit_set(steps[from - 1], node, false);
}

static void set_levels(struct rf_fleet *f, uint32_t node, struct levels *was, struct levels now)
{
	struct model_index *x = f->models[now.model].index;

	move_steps(x->whole, node, was->whole, now.whole);
	move_steps(x->bytes, node, was->bytes, now.bytes);
	move_steps(x->milli, node, was->milli, now.milli);
	FL_EACH_BIT (p, (uint64_t)(was->profiles ^ now.profiles))
		bit_set(x->profile[p], node, now.profiles >> p & 1);
	*was = now;
}

void fl_card_changed(const struct rf_fleet *f, struct card *c)
{
	c->rest = *fl_rest(f, c, &c->load);
}

static void sum_up_cards(struct node *n)
{
	n->untouched = 0;
	n->for_shares = n->for_slices = 0;
	for (unsigned i = 0; i < n->n_cards; i++) {
		const struct card *c = &n->cards[i];

		n->untouched += n->there && c->there && fl_opens(c, &c->load);
		n->for_shares |= (uint64_t)(c->rest.bytes > 0) << i;
		n->for_slices |= (uint64_t)(c->rest.profiles != 0) << i;
	}
}

void fl_node_changed(struct rf_fleet *f, uint32_t node)
{
	struct node *n = &f->nodes.at[node];

	f->untouched -= n->untouched;
	sum_up_cards(n);
	f->untouched += n->untouched;
	n->scored = 0;
	f->signs.at[node] = 0;
	for (unsigned i = 0; i < n->n_levels; i++)
		set_levels(f, node, &n->levels[i], fl_levels(n, n->levels[i].model));
	fl_left_changed(f, node);
	fl_lanes_changed(f->lanes, node);
}

int64_t rf_fleet_untouched(const struct rf_fleet *f)
{
	return f->untouched;
}

void fl_set_there(struct rf_fleet *f, uint32_t node)
{
	const struct node *n = &f->nodes.at[node];

	bit_set(f->there, node, n->there && !n->cordoned);
	fl_left_changed(f, node);
}

void fl_node_freed(struct rf_fleet *f, const struct node *n)
{
	f->version++;
	FL_EACH_BIT (m, n->models)
		f->models[m].version++;
}

void fl_card_freed(struct rf_fleet *f, const struct card *c)
{
	f->models[c->v.model].version++;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static bool in_limits(int64_t v, int64_t max)
{
	return v >= 0 && v <= max;
}

static int check_node(const struct rf_fleet_node *v, struct rf_err *err)
{
	if (!in_limits(v->cpu_milli, RF_FLEET_CPU_MAX) || !in_limits(v->memory, RF_FLEET_MEMORY_MAX) ||
	    !in_limits(v->pods, INT32_MAX))
		return rf_fail(err, RF_INVALID,
			       "node with %lld milli CPU, %lld bytes, %lld pods: at most %lld, %lld and %d are "
			       "counted",
			       (long long)v->cpu_milli, (long long)v->memory, (long long)v->pods, RF_FLEET_CPU_MAX,
			       RF_FLEET_MEMORY_MAX, INT32_MAX);
	if (v->n_cards > RF_FLEET_CARDS_MAX)
		return rf_fail(err, RF_INVALID, "node with %zu cards: at most %d are counted", v->n_cards,
			       RF_FLEET_CARDS_MAX);
	for (size_t i = 0; i < v->n_cards; i++)
		if (v->cards[i].model >= RF_FLEET_MODELS_MAX || !in_limits(v->cards[i].memory, RF_FLEET_MEMORY_MAX))
			return rf_fail(err, RF_INVALID, "card %zu: model %u, %lld bytes: beyond %d models or %lld bytes",
				       i, v->cards[i].model, (long long)v->cards[i].memory, RF_FLEET_MODELS_MAX,
				       RF_FLEET_MEMORY_MAX);
	return 0;
}

static uint32_t new_node(struct rf_fleet *f)
{
	struct node fresh = { 0 };
	uint32_t node;

	if (f->unused.n > 0)
		return f->unused.at[--f->unused.n];
	node = (uint32_t)f->nodes.n;
	rf_vec_push(&f->nodes, fresh);
	rf_vec_push(&f->signs, 0);
	make_room(f, f->nodes.n);
	return node;
}

static void recount_model(struct rf_fleet *f, uint8_t model)
{
	for (uint32_t i = 0; i < f->nodes.n; i++) {
		struct node *n = &f->nodes.at[i];

		if (!(n->models >> model & 1))
			continue;
		for (unsigned k = 0; k < n->n_cards; k++)
			fl_card_changed(f, &n->cards[k]);
		fl_node_changed(f, i);
	}
}

static void know_model(struct rf_fleet *f, const struct rf_fleet_card *c)
{
	struct model *m = &f->models[c->model];

	if (m->index == NULL) {
		m->index = rf_new(struct model_index);
		each_index_bitmap(m->index, 0, f->words);
		f->present |= (uint64_t)1 << c->model;
		fl_size_needs(f, c->model);
	}
	if (c->memory > m->index->memory_max) {
		m->index->memory_max = c->memory;
		fl_size_needs(f, c->model);
		f->epoch++;
		recount_model(f, c->model);
	}
}

/* Takes the node out of the index. */
static void drop_levels(struct rf_fleet *f, uint32_t node)
{
	struct node *n = &f->nodes.at[node];

	for (unsigned i = 0; i < n->n_levels; i++)
		set_levels(f, node, &n->levels[i], (struct levels){ .model = n->levels[i].model });
	n->n_levels = 0;
	fl_left_changed(f, node);
}

static void put_cards(struct rf_fleet *f, uint32_t node, const struct rf_fleet_node *v)
{
	struct node *n = &f->nodes.at[node];
	size_t had = n->n_cards, has = RF_MAX(had, v->n_cards);

	for (size_t i = 0; i < v->n_cards; i++)
		know_model(f, &v->cards[i]);
	drop_levels(f, node);
	n->cards = rf_realloc(n->cards, RF_MAX(has, 1) * sizeof(*n->cards));
	memset(n->cards + had, 0, (has - had) * sizeof(*n->cards));
	n->levels = rf_realloc(n->levels, RF_MAX(has, 1) * sizeof(*n->levels));
	n->models = 0;
	n->n_cards = (uint8_t)has;
	n->n_present = 0;
	for (size_t i = 0; i < has; i++) {
		struct card *c = &n->cards[i];

		c->there = i < v->n_cards;
		/* A held card keeps its model: its slices are counted by that model's table. */
		if (c->there && !fl_untouched(&c->load) && c->v.model != v->cards[i].model)
			c->there = false;
		else if (c->there)
			c->v = v->cards[i];
		n->n_present += c->there && !c->v.absent;
		if (c->there && !(n->models >> c->v.model & 1)) {
			n->models |= (uint64_t)1 << c->v.model;
			n->levels[n->n_levels++] = (struct levels){ .model = c->v.model };
		}
		fl_card_changed(f, c);
	}
	fl_group_cards(f, n);
	n->hosted = 0;
	bit_set(f->mixed, node, n->n_levels > 1);
}

int rf_fleet_put_node(struct rf_fleet *f, uint32_t node, const struct rf_fleet_node *v, uint32_t *ret_node,
		      struct rf_err *err)
{
	struct node *n;
	int r = check_node(v, err);

	rf_assert(f->marks == 0);
	if (r < 0)
		return r;
	if (node == RF_FLEET_NONE)
		node = new_node(f);
	rf_assert(node < f->nodes.n);
	n = &f->nodes.at[node];
	n->cpu_left += v->cpu_milli - n->cpu;
	n->memory_left += v->memory - n->memory;
	n->pods_left += v->pods - n->pods;
	n->cpu = v->cpu_milli;
	n->memory = v->memory;
	n->pods = v->pods;
	n->known = n->there = true;
	n->cordoned = v->cordoned;
	n->pooled = v->pooled;
	n->policy = v->pooled ? (uint8_t)v->policy : 0;
	fl_order_set(f, node, v->name);
	fl_set_rack(f, node, v->rack);
	put_cards(f, node, v);
	fl_set_there(f, node);
	fl_node_changed(f, node);
	fl_node_freed(f, n);
	if (ret_node != NULL)
		*ret_node = node;
	return 0;
}

bool rf_fleet_holds_other(const struct rf_fleet *f, uint32_t node, unsigned card)
{
	const struct node *n = &f->nodes.at[node];

	return n->there && card < n->n_cards && !n->cards[card].there;
}

static void set_dirty(struct rf_fleet *f, uint32_t node, bool dirty)
{
	f->n_dirty += (size_t)dirty - bit_get(f->dirty, node);
	bit_set(f->dirty, node, dirty);
}

/* A handle that is used again starts as nothing, in no class. */
void fl_retire(struct rf_fleet *f, uint32_t node)
{
	struct node *n = &f->nodes.at[node];

	if (n->there || n->n_holds > 0 || f->marks > 0 || f->undoing || !n->known)
		return;
	drop_levels(f, node);
	for (size_t i = 1; i < f->classes.n; i++)
		if (f->classes.at[i] != NULL)
			bit_set(f->classes.at[i], node, false);
	set_dirty(f, node, false);
	free(n->cards);
	free(n->levels);
	fl_set_rack(f, node, RF_STR_EMPTY);
	rf_vec_done(&n->guests.all);
	*n = (struct node){ 0 };
	f->signs.at[node] = 0;
	fl_order_drop(f, node);
	rf_vec_push(&f->unused, node);
	fl_lanes_changed(f->lanes, node);
}

void rf_fleet_del_node(struct rf_fleet *f, uint32_t node)
{
	rf_assert(f->marks == 0 && node < f->nodes.n);
	if (!f->nodes.at[node].there)
		return;
	f->nodes.at[node].there = false;
	fl_set_there(f, node);
	fl_node_changed(f, node);
	fl_retire(f, node);
}

static void log_flag(struct rf_fleet *f, enum undo_kind kind, uint32_t node, unsigned card, bool was)
{
	if (f->marks > 0)
		rf_vec_push(&f->log, ((struct undo){ .kind = kind, .at = node, .card = card, .was = was }));
}

void rf_fleet_set_cordoned(struct rf_fleet *f, uint32_t node, bool cordoned)
{
	struct node *n;

	rf_assert(node < f->nodes.n);
	n = &f->nodes.at[node];
	if (!n->there || n->cordoned == cordoned)
		return;
	log_flag(f, UNDO_CORDON, node, 0, n->cordoned);
	n->cordoned = cordoned;
	fl_set_there(f, node);
	fl_node_changed(f, node);
	if (!cordoned)
		fl_node_freed(f, n);
}

void rf_fleet_set_kept(struct rf_fleet *f, uint32_t node, uint16_t keeps)
{
	struct node *n;
	uint16_t was;

	rf_assert(node < f->nodes.n);
	n = &f->nodes.at[node];
	was = n->kept;
	if (was == keeps)
		return;
	log_flag(f, UNDO_KEPT, node, was, false);
	n->kept = keeps;
	fl_node_changed(f, node);
	if ((was & ~keeps) != 0)
		fl_node_freed(f, n);
}

uint16_t rf_fleet_kept(const struct rf_fleet *f, uint32_t node)
{
	return node < f->nodes.n ? f->nodes.at[node].kept : 0;
}

void rf_fleet_set_healthy(struct rf_fleet *f, uint32_t node, unsigned card, bool healthy)
{
	struct card *c;

	rf_assert(node < f->nodes.n && card < f->nodes.at[node].n_cards);
	c = &f->nodes.at[node].cards[card];
	if (c->v.healthy == healthy)
		return;
	log_flag(f, UNDO_HEALTH, node, card, c->v.healthy);
	c->v.healthy = healthy;
	fl_card_changed(f, c);
	fl_node_changed(f, node);
	if (healthy)
		fl_card_freed(f, c);
}

/* --- dirt ------------------------------------------------------------------------------------- */

void fl_set_dirt(struct rf_fleet *f, uint32_t node, unsigned card, const uint32_t dirt[EIGHTHS])
{
	struct node *n = &f->nodes.at[node];
	struct card *c = &n->cards[card];
	bool any = false;

	if (memcmp(c->dirt, dirt, sizeof(c->dirt)) == 0)
		return;
	if (f->marks > 0) {
		struct undo u = { .kind = UNDO_DIRT, .at = node, .card = card };

		memcpy(u.dirt, c->dirt, sizeof(u.dirt));
		rf_vec_push(&f->log, u);
	}
	memcpy(c->dirt, dirt, sizeof(c->dirt));
	for (unsigned i = 0; i < EIGHTHS; i++)
		any = any || dirt[i] != 0;
	c->dirty = any;
	n->dirty = any;
	for (unsigned i = 0; i < n->n_cards && !n->dirty; i++)
		n->dirty = n->cards[i].dirty;
	set_dirty(f, node, n->dirty);
}

void rf_fleet_scrubbed(struct rf_fleet *f, uint32_t node, unsigned card, uint8_t eighths)
{
	uint32_t dirt[EIGHTHS];
	struct card *c;

	rf_assert(node < f->nodes.n && card < f->nodes.at[node].n_cards);
	c = &f->nodes.at[node].cards[card];
	if (!c->dirty)
		return;
	for (unsigned i = 0; i < EIGHTHS; i++)
		dirt[i] = eighths >> i & 1 ? 0 : c->dirt[i];
	fl_set_dirt(f, node, card, dirt);
	fl_node_changed(f, node);
	fl_card_freed(f, c);
}

/* --- classes ---------------------------------------------------------------------------------- */

uint32_t rf_fleet_class_new(struct rf_fleet *f)
{
	bitmap b = rf_alloc(RF_MAX(f->words, 1) * sizeof(*b));
	uint32_t class;

	if (f->unused_classes.n > 0) {
		class = f->unused_classes.at[--f->unused_classes.n];
		f->classes.at[class] = b;
		return class;
	}
	rf_vec_push(&f->classes, b);
	return (uint32_t)f->classes.n - 1;
}

void rf_fleet_class_set(struct rf_fleet *f, uint32_t class, uint32_t node, bool in)
{
	rf_assert(class > 0 && class < f->classes.n && f->classes.at[class] != NULL && node < f->nodes.n);
	if (bit_get(f->classes.at[class], node) == in)
		return;
	bit_set(f->classes.at[class], node, in);
	fl_lanes_changed(f->lanes, node);
	if (!in)
		return;
	fl_node_freed(f, &f->nodes.at[node]);
	fl_saved_freed(f, &f->nodes.at[node]);
}

void rf_fleet_class_free(struct rf_fleet *f, uint32_t class)
{
	rf_assert(class > 0 && class < f->classes.n && f->classes.at[class] != NULL);
	free(f->classes.at[class]);
	f->classes.at[class] = NULL;
	rf_vec_push(&f->unused_classes, class);
	fl_lanes_reset(f->lanes);
}

/* --- looking ---------------------------------------------------------------------------------- */

static int64_t granted(const struct card *c)
{
	if (c->load.n_whole > 0)
		return RF_FLEET_MILLI;
	return c->load.milli + __builtin_popcount(c->load.mask) * RF_FLEET_MILLI / EIGHTHS;
}

void rf_fleet_usage(const struct rf_fleet *f, struct rf_fleet_usage *ret)
{
	*ret = (struct rf_fleet_usage){ 0 };
	ret->holds = f->holds.n - f->unused_holds.n - f->limbo.n;
	for (size_t i = 0; i < f->nodes.n; i++) {
		const struct node *n = &f->nodes.at[i];

		if (!n->there)
			continue;
		ret->nodes++;
		ret->cpu_milli += n->cpu;
		ret->cpu_free += n->cpu_left;
		for (unsigned k = 0; k < n->n_cards; k++) {
			const struct card *c = &n->cards[k];

			ret->cards += c->there && !c->v.absent;
			ret->healthy += c->there && c->v.healthy;
			ret->milli += granted(c);
			ret->free_cards += c->there && c->v.healthy && fl_untouched(&c->load);
		}
	}
}
