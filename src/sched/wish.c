/* Wishes: what a pod says, put together from what is shared, and where that lets it go. */
#include "sched/wish_private.h"

#define CLASSED_MAX 256

struct rf_wishes *rf_wishes_new(struct rf_fleet *f)
{
	struct rf_wishes *w = rf_new(struct rf_wishes);

	w->f = f;
	return w;
}

/* --- specs -------------------------------------------------------------------------------------- */

static void drop_parts(struct rf_wishes *w, struct spec *s)
{
	for (size_t i = 0; i < s->n_near; i++)
		wi_tally_drop(w, s->near[i]);
	for (size_t i = 0; i < s->n_apart; i++) {
		w->turn += --s->apart[i]->guards == 0;
		wi_tally_drop(w, s->apart[i]);
	}
	for (size_t i = 0; i < s->n_spreads; i++)
		wi_tally_drop(w, s->spreads[i].tally);
	for (size_t i = 0; i < s->n_more; i++)
		wi_resource_drop(w, s->more[i].of);
	wi_filter_drop(w, s->filter);
	free(s->more);
	free(s->near);
	free(s->apart);
	free(s->spreads);
}

static void drop_spec(struct rf_wishes *w, struct spec *s)
{
	if (--s->e.refs > 0)
		return;
	wi_remove(&w->specs, &s->e);
	drop_parts(w, s);
	free(s);
}

static void add_more(struct rf_wishes *w, const struct rf_sched_pod *p, struct spec *s)
{
	if (p->n_more == 0)
		return;
	s->more = rf_alloc(p->n_more * sizeof(*s->more));
	for (size_t i = 0; i < p->n_more; i++)
		if (p->more[i].n > 0)
			s->more[s->n_more++] = (struct amount){ wi_resource(w, p->more[i].name),
								RF_MIN(p->more[i].n, WI_AMOUNT_MAX) };
}

static struct sight sight_of(const struct rf_sched_near *n, const struct rf_sched_pod *p)
{
	struct sight s = { .any = n->any,
			   .all_namespaces = n->all_namespaces,
			   .namespaces = n->namespaces,
			   .n_namespaces = n->n_namespaces,
			   .labels = n->labels };

	if (!s.all_namespaces && s.n_namespaces == 0) {
		s.namespaces = (struct rf_str *)&p->ns;
		s.n_namespaces = 1;
	}
	return s;
}

/* Affinity is to pods that all terms speak of; anti-affinity to those of each. */
static void add_nears(struct rf_wishes *w, const struct rf_sched_pod *p, struct crew *c, struct spec *s)
{
	struct sight *all;
	size_t n = 0;

	if (p->n_nears == 0)
		return;
	all = rf_alloc(p->n_nears * sizeof(*all));
	s->near = rf_alloc(p->n_nears * sizeof(struct tally *));
	s->apart = rf_alloc(p->n_nears * sizeof(struct tally *));
	for (size_t i = 0; i < p->n_nears; i++)
		if (!p->nears[i].apart)
			all[n++] = sight_of(&p->nears[i], p);
	for (size_t i = 0; i < p->n_nears; i++) {
		const struct rf_sched_near *near = &p->nears[i];
		struct sight own = sight_of(near, p);
		struct watch *v = near->apart ? wi_watch(w, c, &own, 1) : wi_watch(w, c, all, n);
		struct tally *t = wi_tally(w, v, wi_topo(w, near->topology), NULL);

		if (near->apart)
			w->turn += t->guards++ == 0;
		if (near->apart)
			s->apart[s->n_apart++] = t;
		else
			s->near[s->n_near++] = t;
	}
	free(all);
}

/* The nodes among which pods are spread: those with all the keys, and where the pod may go as far as it
 * wants that to count. */
static struct filter *spread_nodes(struct rf_wishes *w, const struct rf_sched_pod *p,
				   const struct rf_sched_spread *of)
{
	struct rf_str *keys = rf_alloc(RF_MAX(p->n_spreads, 1) * sizeof(*keys));
	struct filter like = { .keys = keys, .any_os = true, .any_taint = !of->heed_taints }, *x;

	for (size_t i = 0; i < p->n_spreads; i++)
		keys[like.n_keys++] = p->spreads[i].topology;
	if (!of->any_node) {
		like.p.only_node = p->only_node;
		like.p.selector = p->selector;
		like.p.n_selector = p->n_selector;
		like.p.node_terms = p->node_terms;
		like.p.n_node_terms = p->n_node_terms;
	}
	if (of->heed_taints) {
		like.p.tolerations = p->tolerations;
		like.p.n_tolerations = p->n_tolerations;
	}
	x = wi_filter(w, &like);
	free(keys);
	return x;
}

static void add_spreads(struct rf_wishes *w, const struct rf_sched_pod *p, struct crew *c, struct spec *s)
{
	if (p->n_spreads == 0)
		return;
	s->spreads = rf_alloc(p->n_spreads * sizeof(*s->spreads));
	for (size_t i = 0; i < p->n_spreads; i++) {
		const struct rf_sched_spread *of = &p->spreads[i];
		struct sight sight = { .any = of->any,
				       .namespaces = (struct rf_str *)&p->ns,
				       .n_namespaces = 1,
				       .labels = of->labels };
		struct watch *v = wi_watch(w, c, &sight, 1);

		s->spreads[s->n_spreads++] = (struct spread){
			.tally = wi_tally(w, v, wi_topo(w, of->topology), spread_nodes(w, p, of)),
			.max_skew = of->max_skew,
			.min_domains = of->min_domains,
		};
	}
}

/* Its parts are kept once, so that their addresses say what it is. */
static void put_spec(struct rf_buf *b, const struct spec *s)
{
	wi_put_ptr(b, s->filter);
	wi_put_n(b, s->n_more);
	for (size_t i = 0; i < s->n_more; i++) {
		wi_put_ptr(b, s->more[i].of);
		wi_put_n(b, (uint64_t)s->more[i].n);
	}
	wi_put_n(b, s->n_near);
	for (size_t i = 0; i < s->n_near; i++)
		wi_put_ptr(b, s->near[i]);
	wi_put_n(b, s->n_apart);
	for (size_t i = 0; i < s->n_apart; i++)
		wi_put_ptr(b, s->apart[i]);
	for (size_t i = 0; i < s->n_spreads; i++) {
		wi_put_ptr(b, s->spreads[i].tally);
		wi_put_n(b, (uint64_t)s->spreads[i].max_skew);
		wi_put_n(b, (uint64_t)s->spreads[i].min_domains);
	}
}

static struct spec *spec_of(struct rf_wishes *w, const struct rf_sched_pod *p, struct crew *c)
{
	const struct filter like = { .p = { .os = p->os,
					    .only_node = p->only_node,
					    .selector = p->selector,
					    .n_selector = p->n_selector,
					    .node_terms = p->node_terms,
					    .n_node_terms = p->n_node_terms,
					    .prefers = p->prefers,
					    .n_prefers = p->n_prefers,
					    .tolerations = p->tolerations,
					    .n_tolerations = p->n_tolerations } };
	struct spec made = { .filter = wi_filter(w, &like) }, *s;

	add_more(w, p, &made);
	add_nears(w, p, c, &made);
	add_spreads(w, p, c, &made);
	rf_buf_clear(&w->key);
	put_spec(&w->key, &made);
	s = (struct spec *)wi_find(&w->specs, rf_buf_str(&w->key));
	if (s != NULL) { /* it has one of each already */
		s->e.refs++;
		drop_parts(w, &made);
		return s;
	}
	s = rf_new(struct spec);
	*s = made;
	wi_add(&w->specs, &s->e, rf_buf_str(&w->key));
	return s;
}

/* --- stances ------------------------------------------------------------------------------------ */

static void drop_stance(struct rf_wishes *w, struct stance *x)
{
	if (--x->e.refs > 0)
		return;
	for (size_t i = 0; (x->class[0] | x->class[1]) != 0 && i < w->classed.n; i++)
		if (w->classed.at[i] == x) {
			rf_vec_remove(&w->classed, i);
			break;
		}
	wi_bury(w, x->class[0]);
	wi_bury(w, x->class[1]);
	wi_remove(&w->stances, &x->e);
	drop_spec(w, x->spec);
	free(x->watches);
	free(x);
}

static struct stance *stance_of(struct rf_wishes *w, struct spec *s, const struct kind *k)
{
	rf_auto(buf) key = RF_BUF_INIT;
	struct stance *x;

	wi_put_ptr(&key, s);
	for (size_t i = 0; i < k->watches.n; i++)
		wi_put_ptr(&key, k->watches.at[i]);
	x = (struct stance *)wi_find(&w->stances, rf_buf_str(&key));
	if (x != NULL) {
		x->e.refs++;
		return x;
	}
	x = rf_new(struct stance);
	wi_add(&w->stances, &x->e, rf_buf_str(&key));
	s->e.refs++;
	x->spec = s;
	x->serial = ++w->serial;
	x->watches = rf_alloc(RF_MAX(k->watches.n, 1) * sizeof(struct watch *));
	for (size_t i = 0; i < k->watches.n; i++)
		x->watches[x->n_watches++] = k->watches.at[i];
	return x;
}

void wi_restance(struct rf_wishes *w, struct kind *k)
{
	for (size_t i = 0; i < k->wishes.n; i++) {
		struct stance *old = k->wishes.at[i]->stance;

		k->wishes.at[i]->stance = stance_of(w, old->spec, k);
		drop_stance(w, old);
		w->turn++;
	}
}

/* --- wishes ------------------------------------------------------------------------------------- */

struct rf_wish *rf_wish_of(struct rf_wishes *w, const struct rf_sched_pod *p, struct rf_str tenant)
{
	struct kind *k = wi_kind(w, p, tenant);
	struct spec *s = spec_of(w, p, k->crew);
	const void *parts[] = { s, k };
	struct rf_str key = rf_str_n((const char *)parts, sizeof(parts));
	struct rf_wish *x = (struct rf_wish *)wi_find(&w->wishes, key);

	if (x != NULL) {
		x->e.refs++;
		wi_kind_drop(w, k);
		drop_spec(w, s);
		return x;
	}
	x = rf_new(struct rf_wish);
	wi_add(&w->wishes, &x->e, key);
	x->kind = k;
	x->stance = stance_of(w, s, k);
	rf_vec_push(&k->wishes, x);
	drop_spec(w, s); /* the stance has it */
	return x;
}

void rf_wish_drop(struct rf_wishes *w, struct rf_wish *x)
{
	struct kind *k;
	size_t i = 0;

	if (x == NULL || --x->e.refs > 0)
		return;
	k = x->kind;
	while (k->wishes.at[i] != x)
		i++;
	rf_vec_remove(&k->wishes, i);
	wi_remove(&w->wishes, &x->e);
	drop_stance(w, x->stance);
	wi_kind_drop(w, k);
	free(x);
}

void rf_wishes_free(struct rf_wishes *w)
{
	struct table *const tables[] = {
		&w->filter_table, &w->topo_table, &w->resource_table, &w->crews, &w->kinds, &w->watch_table,
		&w->specs, &w->stances, &w->wishes,
	};

	if (w == NULL)
		return;
	for (size_t i = 0; i < w->wishes.cap; i++)
		while (w->wishes.buckets[i] != NULL) {
			w->wishes.buckets[i]->refs = 1;
			rf_wish_drop(w, (struct rf_wish *)w->wishes.buckets[i]);
		}
	while (w->looked.n > 0)
		wi_topo_drop(w, w->looked.at[--w->looked.n]);
	for (size_t i = 0; i < w->graves.n; i++)
		rf_fleet_class_free(w->f, w->graves.at[i]);
	wi_nodes_done(w);
	for (size_t i = 0; i < RF_COUNT(tables); i++) {
		rf_assert(tables[i]->n == 0);
		free(tables[i]->buckets);
	}
	rf_vec_done(&w->filters);
	rf_vec_done(&w->topos);
	rf_vec_done(&w->looked);
	rf_vec_done(&w->resources);
	rf_vec_done(&w->bounded);
	rf_vec_done(&w->classed);
	rf_vec_done(&w->graves);
	rf_buf_done(&w->key);
	free(w);
}

uint64_t rf_wish_id(const struct rf_wish *x)
{
	return x->stance->serial;
}

uint64_t rf_wishes_turn(const struct rf_wishes *w)
{
	return w->turn;
}

bool rf_wish_prefers(const struct rf_wish *x)
{
	return x->stance->spec->filter->p.n_prefers > 0;
}

static bool is_guarded(const struct stance *x)
{
	for (size_t i = 0; i < x->n_watches; i++)
		for (const struct tally *t = x->watches[i]->tallies; t != NULL; t = t->next)
			if (t->guards > 0)
				return true;
	return false;
}

bool rf_wish_moves(const struct rf_wish *x)
{
	const struct spec *s = x->stance->spec;

	return s->n_more > 0 || s->n_near > 0 || s->n_apart > 0 || s->n_spreads > 0 || is_guarded(x->stance);
}

uint64_t rf_wish_version(const struct rf_wishes *w, const struct rf_wish *x)
{
	const struct spec *s = x->stance->spec;
	uint64_t sum = w->node_changes + x->kind->base;

	for (size_t i = 0; i < s->n_more; i++)
		sum += s->more[i].of->version;
	for (size_t i = 0; i < s->n_near; i++)
		sum += s->near[i]->came + s->near[i]->left;
	for (size_t i = 0; i < s->n_apart; i++)
		sum += s->apart[i]->left;
	for (size_t i = 0; i < s->n_spreads; i++)
		sum += s->spreads[i].tally->moved;
	for (size_t i = 0; i < x->stance->n_watches; i++)
		for (const struct tally *t = x->stance->watches[i]->tallies; t != NULL; t = t->next)
			sum += t->freed;
	return sum;
}

/* Those who only keep such pods away are not helped. */
bool rf_wish_helps(const struct rf_wish *x)
{
	for (size_t i = 0; i < x->kind->watches.n; i++)
		for (const struct tally *t = x->kind->watches.at[i]->tallies; t != NULL; t = t->next)
			if (t->refs > t->guards)
				return true;
	return false;
}

/* --- who runs where ----------------------------------------------------------------------------- */

static void use(struct rf_wishes *w, const struct spec *s, uint32_t node, int sign)
{
	for (size_t i = 0; i < s->n_more; i++) {
		s->more[i].of->used[node] += sign * s->more[i].n;
		s->more[i].of->version += sign < 0;
	}
	w->changes += s->n_more > 0;
}

void rf_wish_on(struct rf_wishes *w, struct rf_wish *x, uint32_t node)
{
	struct wnode *n;
	size_t i = 0;

	wi_room(w, node);
	n = &w->nodes.at[node];
	while (i < n->on.n && n->on.at[i].wish != x)
		i++;
	if (i == n->on.n)
		rf_vec_push(&n->on, ((struct on){ x, 0 }));
	n->on.at[i].n++;
	x->e.refs++;
	x->kind->on++;
	use(w, x->stance->spec, node, 1);
	wi_count(w, node, &(struct on){ x, 1 }, 1);
}

void rf_wish_off(struct rf_wishes *w, struct rf_wish *x, uint32_t node)
{
	struct wnode *n;
	size_t i = 0;

	rf_assert(node < w->nodes.n);
	n = &w->nodes.at[node];
	while (i < n->on.n && n->on.at[i].wish != x)
		i++;
	rf_assert(i < n->on.n);
	wi_count(w, node, &(struct on){ x, 1 }, -1);
	use(w, x->stance->spec, node, -1);
	x->kind->on--;
	if (--n->on.at[i].n == 0)
		n->on.at[i] = n->on.at[--n->on.n];
	rf_wish_drop(w, x);
}

/* --- where it may go ---------------------------------------------------------------------------- */

static bool seen_by(const struct stance *x, const struct watch *v)
{
	for (size_t i = 0; i < x->n_watches; i++)
		if (x->watches[i] == v)
			return true;
	return false;
}

static uint32_t seen_at(const struct tally *t, uint32_t domain)
{
	return domain < t->cap ? t->seen[domain] : 0;
}

static bool has_more(const struct spec *s, uint32_t node)
{
	for (size_t i = 0; i < s->n_more; i++)
		if (s->more[i].n > s->more[i].of->have[node] - s->more[i].of->used[node])
			return false;
	return true;
}

/* Away from those it wants to be apart from, and from those who want to be apart from it. */
static bool is_apart(const struct stance *x, uint32_t node)
{
	for (size_t i = 0; i < x->spec->n_apart; i++) {
		uint32_t d = x->spec->apart[i]->topo->of[node];

		if (d != RF_FLEET_NONE && seen_at(x->spec->apart[i], d) > 0)
			return false;
	}
	for (size_t i = 0; i < x->n_watches; i++)
		for (const struct tally *t = x->watches[i]->tallies; t != NULL; t = t->next) {
			uint32_t d = t->n_held > 0 ? t->topo->of[node] : RF_FLEET_NONE;

			if (d != RF_FLEET_NONE && d < t->cap && t->held[d] > 0)
				return false;
		}
	return true;
}

/* first: nobody is there yet whom it could be near, and it is one of those itself. */
static bool is_near(const struct spec *s, uint32_t node, bool first)
{
	for (size_t i = 0; i < s->n_near; i++) {
		uint32_t d = s->near[i]->topo->of[node];

		if (d == RF_FLEET_NONE || (!first && seen_at(s->near[i], d) == 0))
			return false;
	}
	return true;
}

static bool is_first(const struct stance *x)
{
	for (size_t i = 0; i < x->spec->n_near; i++)
		if (x->spec->near[i]->n_seen > 0)
			return false;
	return x->spec->n_near > 0 && seen_by(x, x->spec->near[0]->watch);
}

static int64_t floor_of(const struct spread *s)
{
	const struct tally *t = s->tally;
	int64_t least = INT64_MAX, domains = 0;

	for (size_t d = 0; d < t->cap; d++) {
		if (t->nodes[d] == 0)
			continue;
		domains++;
		least = RF_MIN(least, (int64_t)t->seen[d]);
	}
	return domains == 0 || domains < s->min_domains ? 0 : least;
}

static bool is_spread(const struct stance *x, uint32_t node)
{
	for (size_t i = 0; i < x->spec->n_spreads; i++) {
		const struct spread *s = &x->spec->spreads[i];
		uint32_t d = s->tally->topo->of[node];
		int64_t then;

		if (d == RF_FLEET_NONE)
			return false;
		then = (int64_t)seen_at(s->tally, d) + seen_by(x, s->tally->watch);
		if (then - s->floor > s->max_skew)
			return false;
	}
	return true;
}

static void look(struct stance *x, bool *ret_first)
{
	for (size_t i = 0; i < x->spec->n_spreads; i++)
		x->spec->spreads[i].floor = floor_of(&x->spec->spreads[i]);
	*ret_first = is_first(x);
}

static enum rf_wish_unfit moving_why(const struct stance *x, uint32_t node, bool first)
{
	if (!has_more(x->spec, node))
		return RF_WISH_RESOURCE;
	if (!is_apart(x, node))
		return RF_WISH_APART;
	if (!is_near(x->spec, node, first))
		return RF_WISH_NEAR;
	return is_spread(x, node) ? RF_WISH_FITS : RF_WISH_SPREAD;
}

/* Nothing that moves rules out a node now: it is as if it only spoke of nodes. */
static bool is_still(const struct stance *x)
{
	const struct spec *s = x->spec;

	if (s->n_more > 0 || s->n_near > 0 || s->n_spreads > 0)
		return false;
	for (size_t i = 0; i < s->n_apart; i++) {
		if (s->apart[i]->n_seen > 0)
			return false;
	}
	for (size_t i = 0; i < x->n_watches; i++) {
		for (const struct tally *t = x->watches[i]->tallies; t != NULL; t = t->next) {
			if (t->n_held > 0)
				return false;
		}
	}
	return true;
}

static void make_class_room(struct rf_wishes *w, struct stance *x)
{
	if ((x->class[0] | x->class[1]) != 0)
		return;
	for (size_t i = 0; w->classed.n == CLASSED_MAX && i < CLASSED_MAX; i++)
		for (int k = 0; k < 2; k++) {
			wi_bury(w, w->classed.at[i]->class[k]);
			w->classed.at[i]->class[k] = 0;
		}
	w->classed.n = w->classed.n == CLASSED_MAX ? 0 : w->classed.n;
	rf_vec_push(&w->classed, x);
}

/* Those of these nodes that do. */
static void moving_bits(struct rf_wishes *w, struct stance *x, const uint64_t *from, uint64_t *ret)
{
	bool first = false;

	look(x, &first);
	for (size_t i = 0; i < w->words; i++) {
		ret[i] = 0;
		FL_EACH_BIT (b, from[i])
			if (moving_why(x, (uint32_t)(i * 64 + b), first) == RF_WISH_FITS)
				ret[i] |= (uint64_t)1 << b;
	}
}

static uint32_t moving_class(struct rf_wishes *w, struct stance *x, bool preferred)
{
	const uint64_t *from = preferred ? wi_filter_best(w, x->spec->filter) : x->spec->filter->bits;
	uint64_t *bits;
	bool fresh = x->class[preferred] == 0;

	if (!fresh && x->stamp[preferred] == w->changes)
		return x->class[preferred];
	make_class_room(w, x);
	bits = rf_alloc(RF_MAX(w->words, 1) * sizeof(*bits));
	moving_bits(w, x, from, bits);
	if (fresh)
		x->class[preferred] = rf_fleet_class_new(w->f);
	wi_fill(w, x->class[preferred], bits, fresh);
	x->stamp[preferred] = w->changes;
	free(bits);
	return x->class[preferred];
}

uint32_t rf_wish_class(struct rf_wishes *w, struct rf_wish *x, bool preferred)
{
	preferred = preferred && rf_wish_prefers(x);
	if (is_still(x->stance))
		return wi_filter_class(w, x->stance->spec->filter, preferred);
	return moving_class(w, x->stance, preferred);
}

/* Nobody places anything by the one class that all share who only look. */
static uint32_t class_to_look(struct rf_wishes *w, struct rf_wish *x)
{
	struct stance *s = x->stance;

	if (is_still(s))
		return wi_filter_class(w, s->spec->filter, false);
	if (s->class[0] != 0 && s->stamp[0] == w->changes)
		return s->class[0];
	if (w->looks == 0)
		w->looks = rf_fleet_class_new(w->f);
	moving_bits(w, s, s->spec->filter->bits, w->f->classes.at[w->looks]);
	return w->looks;
}

uint32_t rf_wish_why(struct rf_wishes *w, struct rf_wish *x, uint32_t ret[RF_WISH_UNFITS])
{
	const struct filter *f = x->stance->spec->filter;
	uint32_t class = class_to_look(w, x);
	bool first = false;

	memcpy(ret, wi_filter_counts(w, x->stance->spec->filter), RF_WISH_UNFITS * sizeof(ret[0]));
	if (is_still(x->stance))
		return class;
	look(x->stance, &first);
	for (size_t i = 0; i < w->words; i++) {
		FL_EACH_BIT (b, f->bits[i] & ~w->f->classes.at[class][i]) {
			ret[RF_WISH_FITS]--;
			ret[moving_why(x->stance, (uint32_t)(i * 64 + b), first)]++;
		}
	}
	return class;
}

bool rf_wish_short(struct rf_wishes *w, struct rf_wish *x, struct rf_str *ret_name, int64_t *ret_need,
		   int64_t *ret_left)
{
	const struct spec *s = x->stance->spec;
	bool found = false;

	for (size_t k = 0; k < s->n_more; k++) {
		const struct resource *r = s->more[k].of;
		int64_t most = 0;
		bool scarce = false;

		for (uint32_t i = 0; i < w->nodes.n; i++) {
			if (!w->nodes.at[i].there || wi_filter_why(s->filter, &w->nodes.at[i].v) != RF_WISH_FITS)
				continue;
			most = RF_MAX(most, r->have[i] - r->used[i]);
			scarce |= s->more[k].n > r->have[i] - r->used[i];
		}
		/* One that no node has enough of says more than one that some have. */
		if (!scarce || (found && most >= s->more[k].n))
			continue;
		*ret_name = rf_str_n(r->e.key, r->e.n);
		*ret_need = s->more[k].n;
		*ret_left = most;
		found = true;
		if (most < s->more[k].n)
			break;
	}
	return found;
}
