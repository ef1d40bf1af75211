/* What is said of nodes alone, and what is kept of each: filters, domains, resources by name. */
#include "sched/wish_private.h"

#define LOOKED_MAX 64
#define GRAVES_MAX 128

/* --- things that are kept once ---------------------------------------------------------------- */

struct entry *wi_find(const struct table *t, struct rf_str key)
{
	uint64_t hash = rf_hash(key);

	if (t->cap == 0)
		return NULL;
	for (struct entry *e = t->buckets[hash & (t->cap - 1)]; e != NULL; e = e->next)
		if (e->hash == hash && rf_str_eq(rf_str_n(e->key, e->n), key))
			return e;
	return NULL;
}

static void grow_table(struct table *t)
{
	struct entry **old = t->buckets;
	size_t was = t->cap;

	t->cap = RF_MAX(was * 2, 16);
	t->buckets = rf_alloc(t->cap * sizeof(struct entry *));
	for (size_t i = 0; i < was; i++)
		for (struct entry *e = old[i], *next; e != NULL; e = next) {
			next = e->next;
			e->next = t->buckets[e->hash & (t->cap - 1)];
			t->buckets[e->hash & (t->cap - 1)] = e;
		}
	free(old);
}

void wi_add(struct table *t, struct entry *e, struct rf_str key)
{
	if (t->n >= t->cap)
		grow_table(t);
	e->hash = rf_hash(key);
	e->n = (uint32_t)key.n;
	e->key = rf_alloc(RF_MAX(key.n, 1));
	if (key.n > 0)
		memcpy(e->key, key.p, key.n);
	e->refs = 1;
	e->next = t->buckets[e->hash & (t->cap - 1)];
	t->buckets[e->hash & (t->cap - 1)] = e;
	t->n++;
}

void wi_remove(struct table *t, struct entry *e)
{
	struct entry **at = &t->buckets[e->hash & (t->cap - 1)];

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	t->n--;
	free(e->key);
}

void wi_put_term(struct rf_buf *b, const struct rf_sched_term *t)
{
	wi_put_n(b, t->n);
	wi_put_n(b, (uint64_t)t->weight);
	for (size_t i = 0; i < t->n; i++) {
		const struct rf_sched_match *m = &t->all[i];

		wi_put_str(b, m->key);
		wi_put_n(b, m->op);
		wi_put_n(b, m->n_values);
		for (size_t k = 0; k < m->n_values; k++)
			wi_put_str(b, m->values[k]);
	}
}

struct rf_sched_term wi_copy_term(struct rf_arena *a, const struct rf_sched_term *t)
{
	struct rf_sched_term to = { .n = t->n, .weight = t->weight };

	to.all = rf_arena_array(a, struct rf_sched_match, RF_MAX(t->n, 1));
	for (size_t i = 0; i < t->n; i++) {
		const struct rf_sched_match *m = &t->all[i];

		to.all[i] = (struct rf_sched_match){ rf_arena_str(a, m->key), m->op,
						     rf_arena_array(a, struct rf_str, RF_MAX(m->n_values, 1)),
						     m->n_values };
		for (size_t k = 0; k < m->n_values; k++)
			to.all[i].values[k] = rf_arena_str(a, m->values[k]);
	}
	return to;
}

/* --- demands on a label ------------------------------------------------------------------------ */

static bool among(const struct rf_sched_match *m, struct rf_str value)
{
	for (size_t i = 0; i < m->n_values; i++)
		if (rf_str_eq(m->values[i], value))
			return true;
	return false;
}

static bool compares(const struct rf_sched_match *m, struct rf_str value)
{
	int64_t is = 0, than = 0;

	if (m->n_values != 1 || rf_str_int(value, &is, NULL) < 0 || rf_str_int(m->values[0], &than, NULL) < 0)
		return false;
	return m->op == RF_SCHED_GT ? is > than : is < than;
}

bool wi_holds(const struct rf_sched_match *m, bool there, struct rf_str value)
{
	switch (m->op) {
	case RF_SCHED_IN:
		return there && among(m, value);
	case RF_SCHED_NOT_IN:
		return !there || !among(m, value);
	case RF_SCHED_EXISTS:
		return there;
	case RF_SCHED_ABSENT:
		return !there;
	case RF_SCHED_GT:
	case RF_SCHED_LT:
		return there && compares(m, value);
	}
	return false;
}

static bool label_of(const struct rf_sched_node *n, struct rf_str key, struct rf_str *ret)
{
	for (size_t i = 0; i < n->n_labels; i++)
		if (rf_str_eq(n->labels[i].key, key)) {
			*ret = n->labels[i].value;
			return true;
		}
	return false;
}

/* --- filters: one node ------------------------------------------------------------------------- */

/* A term that says nothing holds nowhere, as in Kubernetes. */
static bool term_holds(const struct rf_sched_term *t, const struct rf_sched_node *n)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct rf_sched_match *m = &t->all[i];
		struct rf_str value = n->name;
		bool there = rf_str_is(m->key, "metadata.name") || label_of(n, m->key, &value);

		if (!wi_holds(m, there, value))
			return false;
	}
	return t->n > 0;
}

static bool affine(const struct rf_sched_pod *p, const struct rf_sched_node *n)
{
	for (size_t i = 0; i < p->n_node_terms; i++)
		if (term_holds(&p->node_terms[i], n))
			return true;
	return p->n_node_terms == 0;
}

static bool selected(const struct filter *x, const struct rf_sched_node *n)
{
	struct rf_str value = RF_STR_EMPTY;

	for (size_t i = 0; i < x->p.n_selector; i++)
		if (!label_of(n, x->p.selector[i].key, &value) || !rf_str_eq(value, x->p.selector[i].value))
			return false;
	for (size_t i = 0; i < x->n_keys; i++)
		if (!label_of(n, x->keys[i], &value))
			return false;
	return true;
}

static bool tolerates(const struct rf_sched_toleration *t, const struct rf_sched_taint *taint)
{
	if (t->effect.n > 0 && !rf_str_eq(t->effect, taint->effect))
		return false;
	if (t->key.n == 0)
		return t->any_value;
	return rf_str_eq(t->key, taint->key) && (t->any_value || rf_str_eq(t->value, taint->value));
}

static bool repels(const struct rf_sched_taint *taint, const struct rf_sched_pod *p)
{
	if (!rf_str_is(taint->effect, "NoSchedule") && !rf_str_is(taint->effect, "NoExecute"))
		return false;
	for (size_t i = 0; i < p->n_tolerations; i++)
		if (tolerates(&p->tolerations[i], taint))
			return false;
	return true;
}

static bool tainted(const struct rf_sched_pod *p, const struct rf_sched_node *n)
{
	for (size_t i = 0; i < n->n_taints; i++)
		if (repels(&n->taints[i], p))
			return true;
	return false;
}

/* Pods without an os run on Linux, and so does every node that does not say otherwise. */
static bool right_system(const struct rf_sched_pod *p, const struct rf_sched_node *n)
{
	struct rf_str want = p->os.n > 0 ? p->os : RF_LIT("linux"), has = RF_LIT("linux");

	(void)label_of(n, RF_LIT("kubernetes.io/os"), &has);
	return rf_str_eq(want, has);
}

enum rf_wish_unfit wi_filter_why(const struct filter *x, const struct rf_sched_node *n)
{
	if (x->p.only_node.n > 0 && !rf_str_eq(x->p.only_node, n->name))
		return RF_WISH_NODE;
	if (!x->any_os && !right_system(&x->p, n))
		return RF_WISH_OS;
	if (!selected(x, n))
		return RF_WISH_SELECTOR;
	if (!affine(&x->p, n))
		return RF_WISH_AFFINITY;
	if (!x->any_taint && tainted(&x->p, n))
		return RF_WISH_TAINT;
	return RF_WISH_FITS;
}

static int64_t liking(const struct filter *x, const struct rf_sched_node *n)
{
	int64_t sum = 0;

	for (size_t i = 0; i < x->p.n_prefers; i++)
		if (term_holds(&x->p.prefers[i], n))
			sum += RF_MIN(RF_MAX(x->p.prefers[i].weight, 0), 100);
	return sum;
}

/* --- the fleet's classes ------------------------------------------------------------------------ */

/* Past the fleet's own call, because a set may be worked out inside a mark, and because nothing came free:
 * what a change of a set may help, rf_wish_version says. */
void wi_fill(struct rf_wishes *w, uint32_t class, const uint64_t *bits, bool fresh)
{
	uint64_t *to = w->f->classes.at[class];

	for (size_t i = 0; i < w->words; i++) {
		uint64_t differ = to[i] ^ bits[i];

		to[i] = bits[i];
		FL_EACH_BIT (b, fresh ? 0 : differ)
			fl_lanes_changed(w->f->lanes, (uint32_t)(i * 64 + b));
	}
}

void wi_bury(struct rf_wishes *w, uint32_t class)
{
	if (class == 0)
		return;
	rf_vec_push(&w->graves, class);
	if (w->graves.n < GRAVES_MAX)
		return;
	for (size_t i = 0; i < w->graves.n; i++)
		rf_fleet_class_free(w->f, w->graves.at[i]);
	rf_vec_clear(&w->graves);
}

static uint32_t new_class(struct rf_wishes *w, const uint64_t *bits)
{
	uint32_t class = rf_fleet_class_new(w->f);

	wi_fill(w, class, bits, true);
	return class;
}

/* --- filters ------------------------------------------------------------------------------------ */

/* What a pod says of nodes. */
static void put_place(struct rf_buf *b, const struct rf_sched_pod *p, bool any_taint, bool any_os)
{
	wi_put_n(b, (uint64_t)any_taint << 1 | any_os);
	wi_put_str(b, any_os ? RF_STR_EMPTY : p->os);
	wi_put_str(b, p->only_node);
	wi_put_n(b, p->n_selector);
	for (size_t i = 0; i < p->n_selector; i++) {
		wi_put_str(b, p->selector[i].key);
		wi_put_str(b, p->selector[i].value);
	}
	wi_put_n(b, p->n_node_terms);
	for (size_t i = 0; i < p->n_node_terms; i++)
		wi_put_term(b, &p->node_terms[i]);
	wi_put_n(b, p->n_prefers);
	for (size_t i = 0; i < p->n_prefers; i++)
		wi_put_term(b, &p->prefers[i]);
	for (size_t i = 0; !any_taint && i < p->n_tolerations; i++) {
		wi_put_str(b, p->tolerations[i].key);
		wi_put_str(b, p->tolerations[i].value);
		wi_put_str(b, p->tolerations[i].effect);
		wi_put_n(b, p->tolerations[i].any_value);
	}
}

static void put_filter(struct rf_buf *b, const struct filter *x)
{
	wi_put_n(b, x->n_keys);
	for (size_t i = 0; i < x->n_keys; i++)
		wi_put_str(b, x->keys[i]);
	put_place(b, &x->p, x->any_taint, x->any_os);
}

bool rf_wish_facts(struct rf_buf *b, const struct rf_sched_pod *p)
{
	if (p->n_more > 0 || p->n_nears > 0 || p->n_spreads > 0)
		return false;
	wi_put_str(b, p->ns);
	wi_put_n(b, p->n_labels);
	for (size_t i = 0; i < p->n_labels; i++) {
		wi_put_str(b, p->labels[i].key);
		wi_put_str(b, p->labels[i].value);
	}
	put_place(b, p, false, false);
	return true;
}

static struct rf_sched_term *copy_terms(struct rf_arena *a, const struct rf_sched_term *t, size_t n)
{
	struct rf_sched_term *to = rf_arena_array(a, struct rf_sched_term, RF_MAX(n, 1));

	for (size_t i = 0; i < n; i++)
		to[i] = wi_copy_term(a, &t[i]);
	return to;
}

static struct rf_sched_pair *copy_pairs(struct rf_arena *a, const struct rf_sched_pair *from, size_t n)
{
	struct rf_sched_pair *to = rf_arena_array(a, struct rf_sched_pair, RF_MAX(n, 1));

	for (size_t i = 0; i < n; i++)
		to[i] = (struct rf_sched_pair){ rf_arena_str(a, from[i].key), rf_arena_str(a, from[i].value) };
	return to;
}

static struct filter *copy_filter(const struct filter *like)
{
	struct filter *x = rf_new(struct filter);
	const struct rf_sched_pod *p = &like->p;
	struct rf_arena *a = &x->a;

	a->block = 512;
	x->any_taint = like->any_taint;
	x->any_os = like->any_os;
	x->p.os = rf_arena_str(a, p->os);
	x->p.only_node = rf_arena_str(a, p->only_node);
	x->p.selector = copy_pairs(a, p->selector, x->p.n_selector = p->n_selector);
	x->p.node_terms = copy_terms(a, p->node_terms, x->p.n_node_terms = p->n_node_terms);
	x->p.prefers = copy_terms(a, p->prefers, x->p.n_prefers = p->n_prefers);
	x->p.tolerations = rf_arena_array(a, struct rf_sched_toleration, RF_MAX(p->n_tolerations, 1));
	for (size_t i = 0; i < p->n_tolerations; i++) {
		const struct rf_sched_toleration *t = &p->tolerations[i];

		x->p.tolerations[x->p.n_tolerations++] =
			(struct rf_sched_toleration){ rf_arena_str(a, t->key), rf_arena_str(a, t->value),
						      rf_arena_str(a, t->effect), t->any_value };
	}
	x->keys = rf_arena_array(a, struct rf_str, RF_MAX(like->n_keys, 1));
	for (size_t i = 0; i < like->n_keys; i++)
		x->keys[x->n_keys++] = rf_arena_str(a, like->keys[i]);
	return x;
}

struct filter *wi_filter(struct rf_wishes *w, const struct filter *like)
{
	struct filter *x;

	rf_buf_clear(&w->key);
	put_filter(&w->key, like);
	x = (struct filter *)wi_find(&w->filter_table, rf_buf_str(&w->key));
	if (x != NULL) {
		x->e.refs++;
		return x;
	}
	x = copy_filter(like);
	x->bits = rf_alloc(RF_MAX(w->words, 1) * sizeof(uint64_t));
	for (uint32_t i = 0; i < w->nodes.n; i++)
		if (w->nodes.at[i].there && wi_filter_why(x, &w->nodes.at[i].v) == RF_WISH_FITS)
			bit_set(x->bits, i, true);
	wi_add(&w->filter_table, &x->e, rf_buf_str(&w->key));
	rf_vec_push(&w->filters, x);
	return x;
}

void wi_filter_drop(struct rf_wishes *w, struct filter *x)
{
	size_t i = 0;

	if (--x->e.refs > 0)
		return;
	while (w->filters.at[i] != x)
		i++;
	rf_vec_remove(&w->filters, i);
	wi_remove(&w->filter_table, &x->e);
	wi_bury(w, x->class);
	wi_bury(w, x->best_class);
	rf_arena_done(&x->a);
	free(x->bits);
	free(x->best);
	free(x);
}

/* The nodes that please most of all that do, none if no preference holds anywhere. */
const uint64_t *wi_filter_best(struct rf_wishes *w, struct filter *x)
{
	int64_t most = 1;

	if (x->best != NULL && !x->stale)
		return x->best;
	if (x->best == NULL)
		x->best = rf_alloc(RF_MAX(w->words, 1) * sizeof(uint64_t));
	memset(x->best, 0, w->words * sizeof(uint64_t));
	for (size_t i = 0; i < w->words; i++)
		FL_EACH_BIT (b, x->bits[i]) {
			uint32_t node = (uint32_t)(i * 64 + b);
			int64_t sum = liking(x, &w->nodes.at[node].v);

			if (sum > most)
				memset(x->best, 0, w->words * sizeof(uint64_t));
			most = RF_MAX(most, sum);
			if (sum == most)
				bit_set(x->best, node, true);
		}
	x->stale = false;
	if (x->best_class != 0)
		wi_fill(w, x->best_class, x->best, false);
	return x->best;
}

uint32_t wi_filter_class(struct rf_wishes *w, struct filter *x, bool preferred)
{
	const uint64_t *best = preferred ? wi_filter_best(w, x) : NULL;

	if (!preferred)
		return x->class = x->class != 0 ? x->class : new_class(w, x->bits);
	return x->best_class = x->best_class != 0 ? x->best_class : new_class(w, best);
}

const uint32_t *wi_filter_counts(struct rf_wishes *w, struct filter *x)
{
	if (x->counted == w->node_changes + 1)
		return x->counts;
	x->counted = w->node_changes + 1;
	memset(x->counts, 0, sizeof(x->counts));
	for (uint32_t i = 0; i < w->nodes.n; i++) {
		if (w->nodes.at[i].there)
			x->counts[bit_get(x->bits, i) ? RF_WISH_FITS : wi_filter_why(x, &w->nodes.at[i].v)]++;
	}
	return x->counts;
}

static void refilter(struct rf_wishes *w, struct filter *x, uint32_t node)
{
	const struct wnode *n = &w->nodes.at[node];
	bool in = n->there && wi_filter_why(x, &n->v) == RF_WISH_FITS;

	x->stale = true; /* what it says of preferences may have changed */
	if (bit_get(x->bits, node) == in && (x->class == 0 || bit_get(w->f->classes.at[x->class], node) == in))
		return;
	bit_set(x->bits, node, in);
	if (x->class == 0)
		return;
	bit_set(w->f->classes.at[x->class], node, in);
	fl_lanes_changed(w->f->lanes, node);
}

/* --- domains ------------------------------------------------------------------------------------ */

static uint32_t domain_of(struct topo *t, struct rf_str value)
{
	uintptr_t known = (uintptr_t)rf_map_get(&t->by_value, value);
	struct domain d = { .value = rf_alloc(RF_MAX(value.n, 1)), .n = value.n };
	uint32_t i;

	if (known != 0) {
		free(d.value);
		return (uint32_t)(known - 1);
	}
	if (value.n > 0)
		memcpy(d.value, value.p, value.n);
	if (t->unused.n > 0) {
		i = t->unused.at[--t->unused.n];
		t->domains.at[i] = d;
	} else {
		i = (uint32_t)t->domains.n;
		rf_vec_push(&t->domains, d);
	}
	(void)rf_map_set(&t->by_value, value, (void *)((uintptr_t)i + 1)); /* NOLINT: a number */
	return i;
}

static void leave_domain(struct topo *t, uint32_t node)
{
	uint32_t i = t->of[node];
	struct domain *d;

	if (i == RF_FLEET_NONE)
		return;
	t->of[node] = RF_FLEET_NONE;
	d = &t->domains.at[i];
	if (--d->nodes > 0)
		return;
	(void)rf_map_del(&t->by_value, rf_str_n(d->value, d->n));
	free(d->value);
	d->value = NULL;
	rf_vec_push(&t->unused, i);
}

static void enter_domain(const struct rf_wishes *w, struct topo *t, uint32_t node)
{
	const struct wnode *n = &w->nodes.at[node];
	struct rf_str value = RF_STR_EMPTY;

	if (!n->there || !label_of(&n->v, rf_str_n(t->e.key, t->e.n), &value))
		return;
	t->of[node] = domain_of(t, value);
	t->domains.at[t->of[node]].nodes++;
}

struct topo *wi_topo(struct rf_wishes *w, struct rf_str key)
{
	struct topo *t = (struct topo *)wi_find(&w->topo_table, key);

	if (t != NULL) {
		t->e.refs++;
		return t;
	}
	t = rf_new(struct topo);
	wi_add(&w->topo_table, &t->e, key);
	t->of = rf_alloc(RF_MAX(w->words, 1) * 64 * sizeof(uint32_t));
	memset(t->of, 0xff, RF_MAX(w->words, 1) * 64 * sizeof(uint32_t));
	for (uint32_t i = 0; i < w->nodes.n; i++)
		enter_domain(w, t, i);
	rf_vec_push(&w->topos, t);
	return t;
}

void wi_topo_drop(struct rf_wishes *w, struct topo *t)
{
	size_t i = 0;

	if (--t->e.refs > 0)
		return;
	while (w->topos.at[i] != t)
		i++;
	rf_vec_remove(&w->topos, i);
	wi_remove(&w->topo_table, &t->e);
	for (i = 0; i < t->domains.n; i++)
		free(t->domains.at[i].value);
	rf_vec_done(&t->domains);
	rf_vec_done(&t->unused);
	rf_map_done(&t->by_value);
	free(t->of);
	free(t);
}

/* Keys that somebody looked at are kept, but not without end: who asks may be a tenant. */
const uint32_t *rf_wishes_domains(struct rf_wishes *w, struct rf_str key, size_t *ret_n)
{
	struct topo *t;

	*ret_n = w->nodes.n;
	for (size_t i = 0; i < w->looked.n; i++)
		if (rf_str_eq(rf_str_n(w->looked.at[i]->e.key, w->looked.at[i]->e.n), key))
			return w->looked.at[i]->of;
	t = wi_topo(w, key);
	if (w->looked.n == LOOKED_MAX) {
		wi_topo_drop(w, w->looked.at[0]);
		rf_vec_remove(&w->looked, 0);
	}
	rf_vec_push(&w->looked, t);
	return t->of;
}

/* --- resources by name --------------------------------------------------------------------------- */

/* Nodes that do not speak of these are not short of them: storage that nobody counts, and cards,
 * which are counted by claims. */
static bool may_be_unsaid(struct rf_str name)
{
	for (size_t i = 0; rf_gpu_name(i) != NULL; i++)
		if (rf_str_is(name, rf_gpu_name(i)))
			return true;
	return rf_str_is(name, "ephemeral-storage");
}

static int64_t had(const struct wnode *n, struct rf_str name)
{
	if (!n->there)
		return 0;
	for (size_t i = 0; i < n->v.n_more; i++)
		if (rf_str_eq(n->v.more[i].name, name))
			return RF_MAX(n->v.more[i].n, 0);
	return may_be_unsaid(name) ? INT64_MAX : 0;
}

struct resource *wi_resource(struct rf_wishes *w, struct rf_str name)
{
	struct resource *r = (struct resource *)wi_find(&w->resource_table, name);

	if (r != NULL) {
		r->e.refs++;
		return r;
	}
	r = rf_new(struct resource);
	wi_add(&w->resource_table, &r->e, name);
	r->have = rf_alloc(RF_MAX(w->words, 1) * 64 * sizeof(int64_t));
	r->used = rf_alloc(RF_MAX(w->words, 1) * 64 * sizeof(int64_t));
	for (size_t i = 0; i < w->nodes.n; i++)
		r->have[i] = had(&w->nodes.at[i], name);
	rf_vec_push(&w->resources, r);
	return r;
}

void wi_resource_drop(struct rf_wishes *w, struct resource *r)
{
	size_t i = 0;

	if (--r->e.refs > 0)
		return;
	while (w->resources.at[i] != r)
		i++;
	rf_vec_remove(&w->resources, i);
	wi_remove(&w->resource_table, &r->e);
	free(r->have);
	free(r->used);
	free(r);
}

/* --- nodes -------------------------------------------------------------------------------------- */

static void grow_bits(uint64_t **b, size_t from, size_t to)
{
	if (*b == NULL)
		return;
	*b = rf_realloc(*b, to * sizeof(uint64_t));
	memset(*b + from, 0, (to - from) * sizeof(uint64_t));
}

static void grow_amounts(int64_t **at, size_t from, size_t to)
{
	*at = rf_realloc(*at, to * 64 * sizeof(int64_t));
	memset(*at + from * 64, 0, (to - from) * 64 * sizeof(int64_t));
}

void wi_room(struct rf_wishes *w, uint32_t node)
{
	size_t from = w->words, to = w->f->words;

	rf_assert(node < w->f->nodes.n);
	while (w->nodes.n <= node)
		rf_vec_push(&w->nodes, (struct wnode){ 0 });
	if (to == from)
		return;
	for (size_t i = 0; i < w->filters.n; i++) {
		grow_bits(&w->filters.at[i]->bits, from, to);
		grow_bits(&w->filters.at[i]->best, from, to);
	}
	for (size_t i = 0; i < w->topos.n; i++) {
		struct topo *t = w->topos.at[i];

		t->of = rf_realloc(t->of, to * 64 * sizeof(uint32_t));
		memset(t->of + from * 64, 0xff, (to - from) * 64 * sizeof(uint32_t));
	}
	for (size_t i = 0; i < w->resources.n; i++) {
		grow_amounts(&w->resources.at[i]->have, from, to);
		grow_amounts(&w->resources.at[i]->used, from, to);
	}
	w->words = to;
}

static bool same_pairs(const struct rf_sched_pair *a, size_t n, const struct rf_sched_pair *b, size_t n_b)
{
	if (n != n_b)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!rf_str_eq(a[i].key, b[i].key) || !rf_str_eq(a[i].value, b[i].value))
			return false;
	return true;
}

static bool same_node(const struct rf_sched_node *a, const struct rf_sched_node *b)
{
	if (!rf_str_eq(a->name, b->name) || a->n_taints != b->n_taints || a->n_more != b->n_more ||
	    !same_pairs(a->labels, a->n_labels, b->labels, b->n_labels))
		return false;
	for (size_t i = 0; i < a->n_taints; i++)
		if (!rf_str_eq(a->taints[i].key, b->taints[i].key) ||
		    !rf_str_eq(a->taints[i].value, b->taints[i].value) ||
		    !rf_str_eq(a->taints[i].effect, b->taints[i].effect))
			return false;
	for (size_t i = 0; i < a->n_more; i++)
		if (!rf_str_eq(a->more[i].name, b->more[i].name) || a->more[i].n != b->more[i].n)
			return false;
	return true;
}

static void copy_node(struct wnode *to, const struct rf_sched_node *n)
{
	struct rf_arena *a = &to->a;

	a->block = 512;
	to->v = (struct rf_sched_node){ .name = rf_arena_str(a, n->name),
					.n_labels = n->n_labels,
					.n_taints = n->n_taints,
					.n_more = n->n_more };
	to->v.labels = copy_pairs(a, n->labels, n->n_labels);
	to->v.taints = rf_arena_array(a, struct rf_sched_taint, RF_MAX(n->n_taints, 1));
	for (size_t i = 0; i < n->n_taints; i++)
		to->v.taints[i] = (struct rf_sched_taint){ rf_arena_str(a, n->taints[i].key),
							   rf_arena_str(a, n->taints[i].value),
							   rf_arena_str(a, n->taints[i].effect) };
	to->v.more = rf_arena_array(a, struct rf_sched_amount, RF_MAX(n->n_more, 1));
	for (size_t i = 0; i < n->n_more; i++)
		to->v.more[i] = (struct rf_sched_amount){ rf_arena_str(a, n->more[i].name), n->more[i].n };
}

/* Takes the node out of every count, replaces what is known of it, and counts it anew. */
static void change_node(struct rf_wishes *w, uint32_t node, const struct rf_sched_node *v)
{
	struct wnode *n = &w->nodes.at[node];

	for (size_t i = 0; i < n->on.n; i++)
		wi_count(w, node, &n->on.at[i], -1);
	wi_bound(w, node, -1);
	for (size_t i = 0; i < w->topos.n; i++)
		leave_domain(w->topos.at[i], node);
	rf_arena_done(&n->a);
	n->a = (struct rf_arena)RF_ARENA_INIT;
	n->v = (struct rf_sched_node){ 0 };
	n->there = v != NULL;
	if (v != NULL)
		copy_node(n, v);
	for (size_t i = 0; i < w->filters.n; i++)
		refilter(w, w->filters.at[i], node);
	for (size_t i = 0; i < w->topos.n; i++)
		enter_domain(w, w->topos.at[i], node);
	for (size_t i = 0; i < w->resources.n; i++)
		w->resources.at[i]->have[node] =
			had(n, rf_str_n(w->resources.at[i]->e.key, w->resources.at[i]->e.n));
	wi_bound(w, node, 1);
	for (size_t i = 0; i < n->on.n; i++)
		wi_count(w, node, &n->on.at[i], 1);
	w->changes++;
	w->node_changes++;
}

void rf_wishes_put_node(struct rf_wishes *w, uint32_t node, const struct rf_sched_node *n)
{
	struct wnode *known;

	wi_room(w, node);
	known = &w->nodes.at[node];
	if (!known->there || !same_node(&known->v, n))
		change_node(w, node, n);
}

void rf_wishes_del_node(struct rf_wishes *w, uint32_t node)
{
	if (node < w->nodes.n && w->nodes.at[node].there)
		change_node(w, node, NULL);
}

void wi_nodes_done(struct rf_wishes *w)
{
	for (size_t i = 0; i < w->nodes.n; i++) {
		rf_arena_done(&w->nodes.at[i].a);
		rf_vec_done(&w->nodes.at[i].on);
	}
	rf_vec_done(&w->nodes);
}
