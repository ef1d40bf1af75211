/* How pods see each other: kinds, the watches that see them, and tallies of who is where. */
#include "sched/wish_private.h"

/* --- kinds -------------------------------------------------------------------------------------- */

struct looks { /* a kind, unpacked */
	struct rf_str ns;
	RF_VEC(struct rf_sched_pair) labels;
};

static uint64_t get_n(struct rf_str *s)
{
	uint64_t n = 0;

	rf_assert(s->n >= sizeof(n));
	memcpy(&n, s->p, sizeof(n));
	*s = rf_str_skip(*s, sizeof(n));
	return n;
}

static struct rf_str get_str(struct rf_str *s)
{
	size_t n = (size_t)get_n(s);
	struct rf_str v = rf_str_n(s->p, n);

	rf_assert(s->n >= n);
	*s = rf_str_skip(*s, n);
	return v;
}

static void unpack(const struct kind *k, struct looks *ret)
{
	struct rf_str rest = rf_str_n(k->e.key, k->e.n);

	rf_vec_clear(&ret->labels);
	(void)get_n(&rest); /* its crew */
	ret->ns = get_str(&rest);
	while (rest.n > 0) {
		struct rf_sched_pair pair = { .key = get_str(&rest) };

		pair.value = get_str(&rest);
		rf_vec_push(&ret->labels, pair);
	}
}

static bool in_sight(const struct sight *s, const struct looks *l)
{
	bool ns = s->all_namespaces;

	for (size_t i = 0; !ns && i < s->n_namespaces; i++)
		ns = rf_str_eq(s->namespaces[i], l->ns);
	if (!ns || (s->labels.n == 0 && !s->any))
		return false;
	for (size_t i = 0; i < s->labels.n; i++) {
		const struct rf_sched_match *m = &s->labels.all[i];
		size_t k = 0;

		while (k < l->labels.n && !rf_str_eq(l->labels.at[k].key, m->key))
			k++;
		if (!wi_holds(m, k < l->labels.n, k < l->labels.n ? l->labels.at[k].value : RF_STR_EMPTY))
			return false;
	}
	return true;
}

static bool matches(const struct watch *v, const struct looks *l)
{
	for (size_t i = 0; i < v->n_sights; i++)
		if (!in_sight(&v->sights[i], l))
			return false;
	return v->n_sights > 0;
}

static uint64_t mark_of(struct rf_str key, struct rf_str value)
{
	uint64_t h = rf_hash(key) + 31 * rf_hash(value);

	return UINT64_C(1) << (h >> 58) | UINT64_C(1) << (h >> 52 & 63);
}

/* The labels that each of its selectors names with a value. */
static uint64_t marks_of(const struct watch *v)
{
	uint64_t marks = 0;

	for (size_t i = 0; i < v->n_sights; i++) {
		for (size_t k = 0; k < v->sights[i].labels.n; k++) {
			const struct rf_sched_match *m = &v->sights[i].labels.all[k];

			if (m->op == RF_SCHED_IN && m->n_values == 1)
				marks |= mark_of(m->key, m->values[0]);
		}
	}
	return marks;
}

bool wi_sees(const struct kind *k, const struct watch *v)
{
	for (size_t i = 0; i < k->watches.n; i++)
		if (k->watches.at[i] == v)
			return true;
	return false;
}

static struct crew *crew_of(struct rf_wishes *w, struct rf_str tenant)
{
	struct crew *c = (struct crew *)wi_find(&w->crews, tenant);

	if (c != NULL) {
		c->e.refs++;
		return c;
	}
	c = rf_new(struct crew);
	wi_add(&w->crews, &c->e, tenant);
	return c;
}

static void drop_crew(struct rf_wishes *w, struct crew *c)
{
	if (--c->e.refs > 0)
		return;
	wi_remove(&w->crews, &c->e);
	rf_vec_done(&c->kinds);
	rf_vec_done(&c->watches);
	rf_vec_done(&c->kind_marks);
	rf_vec_done(&c->watch_marks);
	free(c);
}

static void look_around(struct kind *k)
{
	struct looks l = { .labels = RF_VEC_INIT };

	if (k->crew->watches.n == 0)
		return;
	unpack(k, &l);
	for (size_t i = 0; i < k->crew->watches.n; i++)
		if ((k->crew->watch_marks.at[i] & ~k->marks) == 0 && matches(k->crew->watches.at[i], &l))
			rf_vec_push(&k->watches, k->crew->watches.at[i]);
	rf_vec_done(&l.labels);
}

struct kind *wi_kind(struct rf_wishes *w, const struct rf_sched_pod *p, struct rf_str tenant)
{
	struct crew *c = crew_of(w, tenant);
	struct kind *k;

	rf_buf_clear(&w->key);
	wi_put_ptr(&w->key, c);
	wi_put_str(&w->key, p->ns);
	for (size_t i = 0; i < p->n_labels; i++) {
		wi_put_str(&w->key, p->labels[i].key);
		wi_put_str(&w->key, p->labels[i].value);
	}
	k = (struct kind *)wi_find(&w->kinds, rf_buf_str(&w->key));
	if (k != NULL) {
		drop_crew(w, c);
		k->e.refs++;
		return k;
	}
	k = rf_new(struct kind);
	wi_add(&w->kinds, &k->e, rf_buf_str(&w->key));
	k->crew = c;
	k->at = c->kinds.n;
	for (size_t i = 0; i < p->n_labels; i++)
		k->marks |= mark_of(p->labels[i].key, p->labels[i].value);
	rf_vec_push(&c->kinds, k);
	rf_vec_push(&c->kind_marks, k->marks);
	look_around(k);
	return k;
}

void wi_kind_drop(struct rf_wishes *w, struct kind *k)
{
	struct crew *c = k->crew;

	if (--k->e.refs > 0)
		return;
	c->kinds.at[k->at] = c->kinds.at[--c->kinds.n];
	c->kind_marks.at[k->at] = c->kind_marks.at[--c->kind_marks.n];
	c->kinds.at[k->at]->at = k->at;
	wi_remove(&w->kinds, &k->e);
	rf_vec_done(&k->watches);
	rf_vec_done(&k->wishes);
	free(k);
	drop_crew(w, c);
}

/* --- watches ------------------------------------------------------------------------------------ */

static void put_sight(struct rf_buf *b, const struct sight *s)
{
	wi_put_n(b, (uint64_t)s->any << 1 | s->all_namespaces);
	wi_put_n(b, s->n_namespaces);
	for (size_t i = 0; i < s->n_namespaces; i++)
		wi_put_str(b, s->namespaces[i]);
	wi_put_term(b, &s->labels);
}

static void copy_sights(struct watch *v, const struct sight *from, size_t n)
{
	struct rf_arena *a = &v->a;

	a->block = 512;
	v->sights = rf_arena_array(a, struct sight, RF_MAX(n, 1));
	v->n_sights = n;
	for (size_t i = 0; i < n; i++) {
		struct sight *to = &v->sights[i];

		*to = from[i];
		to->labels = wi_copy_term(a, &from[i].labels);
		to->namespaces = rf_arena_array(a, struct rf_str, RF_MAX(to->n_namespaces, 1));
		for (size_t k = 0; k < to->n_namespaces; k++)
			to->namespaces[k] = rf_arena_str(a, from[i].namespaces[k]);
	}
}

static void show_kinds(struct rf_wishes *w, struct watch *v)
{
	struct looks l = { .labels = RF_VEC_INIT };

	for (size_t i = 0; i < v->crew->kinds.n; i++) {
		struct kind *k = v->crew->kinds.at[i];

		if ((v->marks & ~v->crew->kind_marks.at[i]) != 0)
			continue;
		unpack(k, &l);
		if (!matches(v, &l))
			continue;
		rf_vec_push(&k->watches, v);
		wi_restance(w, k);
	}
	rf_vec_done(&l.labels);
}

struct watch *wi_watch(struct rf_wishes *w, struct crew *c, const struct sight *sights, size_t n)
{
	rf_auto(buf) key = RF_BUF_INIT;
	struct watch *v;

	wi_put_ptr(&key, c);
	for (size_t i = 0; i < n; i++)
		put_sight(&key, &sights[i]);
	v = (struct watch *)wi_find(&w->watch_table, rf_buf_str(&key));
	if (v != NULL) {
		v->e.refs++;
		return v;
	}
	v = rf_new(struct watch);
	wi_add(&w->watch_table, &v->e, rf_buf_str(&key));
	c->e.refs++;
	v->crew = c;
	copy_sights(v, sights, n);
	v->marks = marks_of(v);
	rf_vec_push(&c->watches, v);
	rf_vec_push(&c->watch_marks, v->marks);
	show_kinds(w, v);
	return v;
}

static uint64_t versions(const struct tally *t)
{
	return t->came + t->left + t->moved + t->freed;
}

static void hide_kinds(struct rf_wishes *w, struct watch *v)
{
	for (size_t i = 0; i < v->crew->kinds.n; i++) {
		struct kind *k = v->crew->kinds.at[i];
		size_t at = 0;

		if ((v->marks & ~v->crew->kind_marks.at[i]) != 0)
			continue;
		while (at < k->watches.n && k->watches.at[at] != v)
			at++;
		if (at == k->watches.n)
			continue;
		rf_vec_remove(&k->watches, at);
		k->base++;
		wi_restance(w, k);
	}
}

void wi_watch_drop(struct rf_wishes *w, struct watch *v)
{
	size_t i = 0;

	if (--v->e.refs > 0)
		return;
	rf_assert(v->tallies == NULL);
	hide_kinds(w, v);
	while (v->crew->watches.at[i] != v)
		i++;
	rf_vec_remove(&v->crew->watches, i);
	rf_vec_remove(&v->crew->watch_marks, i);
	wi_remove(&w->watch_table, &v->e);
	drop_crew(w, v->crew);
	rf_arena_done(&v->a);
	free(v);
}

/* --- tallies ------------------------------------------------------------------------------------ */

static uint32_t *grow_counts(uint32_t *at, size_t from, size_t to)
{
	at = rf_realloc(at, to * sizeof(*at));
	memset(at + from, 0, (to - from) * sizeof(*at));
	return at;
}

static void tally_room(struct tally *t, uint32_t domain)
{
	size_t to = RF_MAX(t->cap, 8);

	if (domain < t->cap)
		return;
	while (to <= domain)
		to *= 2;
	t->seen = grow_counts(t->seen, t->cap, to);
	t->held = grow_counts(t->held, t->cap, to);
	if (t->within != NULL)
		t->nodes = grow_counts(t->nodes, t->cap, to);
	t->cap = to;
}

/* Where the node counts in this tally, or RF_FLEET_NONE. */
static uint32_t counts_in(struct tally *t, uint32_t node)
{
	uint32_t d = t->topo->of[node];

	if (d == RF_FLEET_NONE || (t->within != NULL && !bit_get(t->within->bits, node)))
		return RF_FLEET_NONE;
	tally_room(t, d);
	return d;
}

static void add_seen(struct tally *t, uint32_t node, uint32_t n, int sign)
{
	uint32_t d = counts_in(t, node);

	if (d == RF_FLEET_NONE)
		return;
	rf_assert(sign > 0 || t->seen[d] >= n);
	t->came += sign > 0 && t->seen[d] == 0;
	t->seen[d] = sign > 0 ? t->seen[d] + n : t->seen[d] - n;
	t->n_seen = sign > 0 ? t->n_seen + n : t->n_seen - n;
	t->left += t->seen[d] == 0;
	t->moved++;
}

static void add_held(struct tally *t, uint32_t node, uint32_t n, int sign)
{
	uint32_t d = counts_in(t, node);

	if (d == RF_FLEET_NONE)
		return;
	rf_assert(sign > 0 || t->held[d] >= n);
	t->held[d] = sign > 0 ? t->held[d] + n : t->held[d] - n;
	t->n_held = sign > 0 ? t->n_held + n : t->n_held - n;
	t->freed += t->held[d] == 0;
}

void wi_count(struct rf_wishes *w, uint32_t node, const struct on *o, int sign)
{
	const struct kind *k = o->wish->kind;
	const struct spec *s = o->wish->stance->spec;

	for (size_t i = 0; i < k->watches.n; i++)
		for (struct tally *t = k->watches.at[i]->tallies; t != NULL; t = t->next)
			add_seen(t, node, o->n, sign);
	for (size_t i = 0; i < s->n_apart; i++)
		add_held(s->apart[i], node, o->n, sign);
	w->changes += k->watches.n > 0 || s->n_apart > 0;
}

static void bound_one(struct tally *t, uint32_t node, int sign)
{
	uint32_t d = counts_in(t, node);

	if (d != RF_FLEET_NONE)
		t->nodes[d] = sign > 0 ? t->nodes[d] + 1 : t->nodes[d] - 1;
}

void wi_bound(struct rf_wishes *w, uint32_t node, int sign)
{
	for (size_t i = 0; i < w->bounded.n; i++)
		bound_one(w->bounded.at[i], node, sign);
}

static bool any_runs(const struct watch *v)
{
	for (size_t i = 0; i < v->crew->kinds.n; i++)
		if ((v->marks & ~v->crew->kind_marks.at[i]) == 0 && v->crew->kinds.at[i]->on > 0 && wi_sees(v->crew->kinds.at[i], v))
			return true;
	return false;
}

/* Once, for a tally that is new: who is there already. */
static void fill_tally(struct rf_wishes *w, struct tally *t)
{
	bool pods = any_runs(t->watch);

	for (uint32_t i = 0; i < w->nodes.n; i++) {
		const struct wnode *n = &w->nodes.at[i];

		if (t->within != NULL)
			bound_one(t, i, 1);
		for (size_t k = 0; pods && k < n->on.n; k++)
			if (wi_sees(n->on.at[k].wish->kind, t->watch))
				add_seen(t, i, n->on.at[k].n, 1);
	}
}

/* Takes over the references to its parts. */
struct tally *wi_tally(struct rf_wishes *w, struct watch *v, struct topo *topo, struct filter *within)
{
	struct tally *t = v->tallies;

	while (t != NULL && (t->topo != topo || t->within != within))
		t = t->next;
	if (t != NULL) {
		t->refs++;
		wi_topo_drop(w, topo);
		if (within != NULL)
			wi_filter_drop(w, within);
		wi_watch_drop(w, v);
		return t;
	}
	t = rf_new(struct tally);
	*t = (struct tally){ .watch = v, .topo = topo, .within = within, .refs = 1, .next = v->tallies };
	v->tallies = t;
	tally_room(t, 0);
	fill_tally(w, t);
	if (within != NULL)
		rf_vec_push(&w->bounded, t);
	return t;
}

static void free_tally(struct rf_wishes *w, struct tally *t)
{
	struct tally **at = &t->watch->tallies;
	size_t i = 0;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	while (t->within != NULL && w->bounded.at[i] != t)
		i++;
	if (t->within != NULL)
		rf_vec_remove(&w->bounded, i);
	/* What its going may help must see a newer version, not an older one. */
	for (i = 0; i < t->watch->crew->kinds.n; i++)
		if ((t->watch->marks & ~t->watch->crew->kind_marks.at[i]) == 0 && wi_sees(t->watch->crew->kinds.at[i], t->watch))
			t->watch->crew->kinds.at[i]->base += versions(t) + 1;
	wi_topo_drop(w, t->topo);
	if (t->within != NULL)
		wi_filter_drop(w, t->within);
	wi_watch_drop(w, t->watch);
	free(t->seen);
	free(t->held);
	free(t->nodes);
	free(t);
}

void wi_tally_drop(struct rf_wishes *w, struct tally *t)
{
	if (--t->refs == 0)
		free_tally(w, t);
}
