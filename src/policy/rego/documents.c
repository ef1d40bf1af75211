/* Places in the tree of documents: what partial rules put there, what lies there as data, and what `with` puts in
 * their place. */
#include <stdlib.h>

#include "policy/rego/eval.h"

/* --- partial rules --- */

struct entry {
	struct rf_rv *key;
	uint32_t n;
	bool contains;
	bool hole; /* an empty object, or with contains an empty set, where nothing else is */
	struct rf_rv value;
};

struct collect {
	struct rf_re_found found;
	struct rf_rv_grow grow;
	struct entry *entry; /* partial objects with longer names */
	uint32_t n, room;
	struct entry at; /* whose keys lead to the rules that are being tried */
};

static enum result one_element(struct rf_re *x, struct rf_re_cont *k, struct rf_rv *frame)
{
	struct collect *c = (struct collect *)k;
	struct rf_rv v;
	enum answer r = rf_re_eval(x, c->found.rule->value, frame, &v);

	c->found.found = true;
	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (!rf_rv_add(&c->grow, x->arena, v, NULL)) {
		rf_re_full(x);
		return FAIL;
	}
	return MORE;
}

static enum result add_entry(struct rf_re *x, struct collect *c, struct entry e)
{
	if (c->n == c->room) {
		uint32_t room = c->room ? 2 * c->room : 8;
		struct entry *more = rf_arena_try(x->arena, room * sizeof(*more));

		if (!more) {
			rf_re_full(x);
			return FAIL;
		}
		if (c->n)
			memcpy(more, c->entry, c->n * sizeof(*more));
		c->entry = more;
		c->room = room;
	}
	c->entry[c->n++] = e;
	return MORE;
}

static enum result one_entry(struct rf_re *x, struct rf_re_cont *k, struct rf_rv *frame)
{
	struct collect *c = (struct collect *)k;
	uint32_t before = c->at.n;
	struct entry e = { .n = before + c->found.rule->n_path, .contains = c->found.rule->contains };
	enum answer r = GIVEN;

	e.key = rf_arena_try(x->arena, (e.n + 1) * sizeof(*e.key));
	if (!e.key) {
		rf_re_full(x);
		return FAIL;
	}
	if (before)
		memcpy(e.key, c->at.key, before * sizeof(*e.key));
	for (uint32_t i = before; r == GIVEN && i < e.n; i++)
		r = rf_re_eval(x, &c->found.rule->path[i - before], frame, &e.key[i]);
	if (r == GIVEN)
		r = rf_re_eval(x, c->found.rule->value, frame, &e.value);
	c->found.found = true;
	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	return add_entry(x, c, e);
}

static int by_keys(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	for (uint32_t i = 0; i < x->n && i < y->n; i++) {
		int r = rf_rv_cmp(x->key[i], y->key[i]);

		if (r)
			return r;
	}
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return y->hole - x->hole;
}

/* Entries in order, equal up to depth: what lies below. */
static enum answer build(struct rf_re *x, const struct rf_rego_group *g, struct entry *e, uint32_t n,
			 uint32_t depth, struct rf_rv *ret)
{
	struct rf_rv_grow grow = { 0 };
	bool clash;

	for (; n > 1 && e[0].n == depth && e[0].hole; n--)
		e++;
	if (e[0].n == depth && e[0].hole) {
		*ret = e[0].contains ? rf_rv_set(NULL, 0) : rf_rv_object(NULL, 0, NULL);
		return GIVEN;
	}
	if (e[0].n == depth && e[0].contains) {
		for (uint32_t i = 0; i < n; i++) {
			if (e[i].n != depth)
				goto bad;
			if (!rf_rv_add(&grow, x->arena, e[i].value, NULL))
				return rf_re_full(x);
		}
		*ret = rf_rv_grown_set(&grow);
		return GIVEN;
	}
	if (e[0].n == depth) {
		for (uint32_t i = 1; i < n; i++)
			if (e[i].n != depth || !rf_rv_eq(e[i].value, e[0].value))
				goto bad;
		*ret = e[0].value;
		return GIVEN;
	}
	for (uint32_t i = 0, j; i < n; i = j) {
		struct rf_rv below;

		for (j = i + 1; j < n && rf_rv_eq(e[j].key[depth], e[i].key[depth]); j++)
			;
		if (build(x, g, e + i, j - i, depth + 1, &below) == ERROR)
			return ERROR;
		if (!rf_rv_put(&grow, x->arena, e[i].key[depth], below, &clash))
			return rf_re_full(x);
	}
	return rf_rv_grown_object(&grow, x->arena, ret) ? GIVEN : rf_re_full(x);
bad:
	rf_re_conflict(x, g);
	return ERROR;
}

/* --- places that are there though nothing is in them: those that names lead to by constants --- */

static bool is_plain_key(const struct rf_rp_expr *e)
{
	return e->kind == RF_RP_CONST && e->value.type < RF_RV_ARRAY;
}

/* How many of a name's keys are constants, up to the first that is not. */
static uint32_t ground(const struct rf_rp_rule *r)
{
	uint32_t n = 0;

	while (n < r->n_path && is_plain_key(&r->path[n]))
		n++;
	return n;
}

static bool starts_like(const struct rf_rp_rule *r, const struct rf_rp_rule *as, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!rf_rv_eq(r->path[i].value, as->path[i].value))
			return false;
	return true;
}

/* Where a shorter name ends, its rules alone say what is there. */
static bool is_cut(const struct rf_rego_group *g, const struct rf_rp_rule *r, uint32_t n)
{
	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t m = ground(g->rule[i]);

		if (m < n && starts_like(r, g->rule[i], m))
			return true;
	}
	return false;
}

static enum result add_hole(struct rf_re *x, struct collect *c, const struct rf_rp_rule *r)
{
	uint32_t n = ground(r);
	struct entry e = { .hole = true, .contains = n == r->n_path && r->contains, .n = c->at.n };

	if (n == r->n_path && !r->contains)
		n--;
	e.key = rf_arena_try(x->arena, (e.n + n + 1) * sizeof(*e.key));
	if (!e.key) {
		rf_re_full(x);
		return FAIL;
	}
	if (e.n)
		memcpy(e.key, c->at.key, e.n * sizeof(*e.key));
	for (uint32_t i = 0; i < n; i++)
		e.key[e.n++] = r->path[i].value;
	return add_entry(x, c, e);
}

static enum answer add_holes(struct rf_re *x, struct collect *c, const struct rf_rego_group *g)
{
	uint32_t shortest = UINT32_MAX;

	for (uint32_t i = 0; i < g->n; i++)
		shortest = RF_MIN(shortest, ground(g->rule[i]));
	for (uint32_t i = 0; i < g->n; i++) {
		const struct rf_rp_rule *r = g->rule[i];
		bool longer = ground(r) > shortest;

		if (r->n_path == 1 && !r->contains)
			continue; /* a value that is not there */
		x->fuel -= longer ? g->n : 1;
		if (!(longer && is_cut(g, r, ground(r))) && add_hole(x, c, r) == FAIL)
			return ERROR;
	}
	return GIVEN;
}

/* --- partial objects --- */

static enum answer collect(struct rf_re *x, struct collect *c, const struct rf_rego_group *g, struct entry at, bool holes);
static enum answer add_below(struct rf_re *x, struct collect *c, const struct rf_rego_node *n, const struct entry *at,
			     bool holes);

/* What the rules of a longer name put there. */
static enum answer add_value(struct rf_re *x, struct collect *c, const struct rf_rego_group *g, struct entry e, bool holes)
{
	struct rf_rv v;
	enum answer r = g->kind == RF_REGO_FUNCTION ? UNDEFINED : rf_re_group(x, g, &v);

	if (r != GIVEN)
		return r == ERROR ? ERROR : GIVEN;
	e.contains = g->kind == RF_REGO_PARTIAL_SET;
	e.hole = e.contains && v.n == 0;
	if (e.hole)
		return holes && add_entry(x, c, e) == FAIL ? ERROR : GIVEN;
	for (uint32_t j = 0; j < (e.contains ? v.n : 1); j++) {
		e.value = e.contains ? v.items[j] : v;
		if (add_entry(x, c, e) == FAIL)
			return ERROR;
	}
	return GIVEN;
}

static enum answer add_child(struct rf_re *x, struct collect *c, const struct rf_rego_node *child, struct entry e,
			     bool holes)
{
	const struct rf_rego_group *g = child->group;
	struct entry hole = e;

	if (g && g->kind != RF_REGO_PARTIAL_OBJECT)
		return add_value(x, c, g, e, holes);
	hole.hole = true;
	if (holes && add_entry(x, c, hole) == FAIL)
		return ERROR;
	return g ? collect(x, c, g, e, holes) : add_below(x, c, child, &e, holes);
}

/* What rules with longer names put under the same name, as entries with the longer path. */
static enum answer add_below(struct rf_re *x, struct collect *c, const struct rf_rego_node *n, const struct entry *at,
			     bool holes)
{
	for (uint32_t i = 0; i < n->n; i++) {
		struct entry e = { .n = at->n + 1 };

		e.key = rf_arena_try(x->arena, (e.n + 1) * sizeof(*e.key));
		if (!e.key)
			return rf_re_full(x);
		if (at->n)
			memcpy(e.key, at->key, at->n * sizeof(*e.key));
		e.key[at->n] = rf_rv_str(n->child[i]->name);
		if (add_child(x, c, n->child[i], e, holes) == ERROR)
			return ERROR;
	}
	return GIVEN;
}

/* All entries of a partial object. holes: also of what is there though it is empty. */
static enum answer collect(struct rf_re *x, struct collect *c, const struct rf_rego_group *g, struct entry at, bool holes)
{
	for (uint32_t i = 0; i < g->n; i++) {
		c->at = at;
		if (rf_re_rule(x, g->rule[i], NULL, &c->found) == FAIL)
			return ERROR;
		holes = holes && ground(g->rule[i]) > 0;
	}
	c->at = at;
	if (holes && add_holes(x, c, g) == ERROR)
		return ERROR;
	return add_below(x, c, g->node, &at, holes);
}

static enum answer partial_set(struct rf_re *x, const struct rf_rego_group *g, struct rf_rv *ret)
{
	struct collect c = { .found = { .cont = { one_element }, .group = g } };

	for (uint32_t i = 0; i < g->n_merged; i++)
		if (rf_re_rule(x, g->merged[i], NULL, &c.found) == FAIL)
			return ERROR;
	*ret = rf_rv_grown_set(&c.grow);
	return GIVEN;
}

static enum answer partial_object(struct rf_re *x, const struct rf_rego_group *g, struct rf_rv *ret)
{
	struct collect c = { .found = { .cont = { one_entry }, .group = g } };

	if (collect(x, &c, g, (struct entry){ 0 }, true) == ERROR)
		return ERROR;
	if (c.n == 0) {
		*ret = rf_rv_object(NULL, 0, NULL);
		return GIVEN;
	}
	qsort(c.entry, c.n, sizeof(*c.entry), by_keys);
	return build(x, g, c.entry, c.n, 0, ret);
}

/* --- documents --- */

static bool base_at(struct rf_re *x, const struct rf_rego_node *n, struct rf_rv *ret)
{
	struct rf_rv up;

	if (!n->parent) {
		*ret = x->env->data;
		return true;
	}
	return base_at(x, n->parent, &up) && rf_rv_get_str(up, n->name, ret);
}

static const struct rf_rego_node *up_to(const struct rf_rego_node *n, uint32_t depth)
{
	while (n->depth > depth)
		n = n->parent;
	return n;
}

/* Something else was put in its place. */
static bool is_over(const struct rf_re *x, const struct rf_rego_node *n)
{
	for (uint32_t i = 0; i < x->env->n_over; i++) {
		const struct rf_rp_with *w = x->env->over[i];
		const struct rf_rego_node *at;
		uint32_t j = w->n_path;

		if (w->n_path > n->depth)
			continue;
		for (at = up_to(n, w->n_path); j > 0 && rf_str_eq(at->name, w->path[j - 1]);
		     at = at->parent)
			j--;
		if (j == 0)
			return true;
	}
	return false;
}

static enum answer document(struct rf_re *x, const struct rf_rego_node *n, struct rf_rv *ret);

static enum answer below(struct rf_re *x, const struct rf_rego_node *n, struct rf_rv base,
			 struct rf_rv *ret)
{
	struct rf_rv_grow grow = { 0 };
	bool clash;

	for (uint32_t i = 0; base.type == RF_RV_OBJECT && i < base.n; i++) {
		struct rf_rego_node *child = base.pairs[i].key.type == RF_RV_STRING ?
						     rf_rego_child(n, rf_rv_text(base.pairs[i].key)) :
						     NULL;

		if (child && child->has_rules && !child->group)
			continue; /* both together, below */
		if (!rf_rv_put(&grow, x->arena, base.pairs[i].key, base.pairs[i].value, &clash))
			return rf_re_full(x);
	}
	for (uint32_t i = 0; i < n->n; i++) {
		struct rf_rv v;
		enum answer r;

		struct rf_rv there;

		if (!n->child[i]->has_rules ||
		    (n->child[i]->group && rf_rv_get_str(base, n->child[i]->name, &there)))
			continue; /* a base document goes before a rule of its name */
		r = document(x, n->child[i], &v);
		if (r == ERROR)
			return r;
		if (r == GIVEN &&
		    !rf_rv_put(&grow, x->arena, rf_rv_str(n->child[i]->name), v, &clash))
			return rf_re_full(x);
	}
	return rf_rv_grown_object(&grow, x->arena, ret) ? GIVEN : rf_re_full(x);
}

enum answer rf_re_group(struct rf_re *x, const struct rf_rego_group *g, struct rf_rv *ret)
{
	struct rf_re_cached *c = &x->env->group[g->id];
	enum answer r;

	if (c->state) {
		*ret = c->value;
		return c->state == 1 ? GIVEN : UNDEFINED;
	}
	r = g->kind == RF_REGO_COMPLETE	     ? rf_re_rules(x, g, NULL, ret) :
	    g->kind == RF_REGO_PARTIAL_SET ? partial_set(x, g, ret) :
					       partial_object(x, g, ret);
	if (r == ERROR)
		return r;
	c->state = r == GIVEN ? 1 : 2;
	c->value = r == GIVEN ? *ret : RF_RV_NIL;
	return r;
}

/* Everything at a place of the tree, rules and base documents together. */
static enum answer document(struct rf_re *x, const struct rf_rego_node *n, struct rf_rv *ret)
{
	struct rf_rv base = { .type = RF_RV_NULL };
	struct rf_re_cached *c = &x->env->node[n->id];
	bool has_base;
	enum answer r;

	if (c->state) {
		*ret = c->value;
		return GIVEN;
	}
	has_base = base_at(x, n, &base);
	if (is_over(x, n) || (!n->has_rules && has_base)) {
		*ret = base;
		return has_base ? GIVEN : UNDEFINED;
	}
	if (n->group)
		return n->group->kind == RF_REGO_FUNCTION ? UNDEFINED : rf_re_group(x, n->group, ret);
	r = below(x, n, base, ret);
	if (r == GIVEN) {
		c->state = 1;
		c->value = *ret;
	}
	return r;
}

enum answer rf_re_data(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			      struct rf_rv *ret)
{
	const struct rf_rego_node *n = e->node, *child;
	struct rf_rv v, key;
	enum answer r;

	if (n->group && !x->env->n_over && n->group->kind != RF_REGO_FUNCTION) {
		r = rf_re_group(x, n->group, ret);
		return r == GIVEN && e->n ? rf_re_follow(x, e, 0, *ret, frame, ret) : r;
	}
	for (uint32_t i = 0;; i++, n = child) {
		if (is_over(x, n))
			return base_at(x, n, &v) ? rf_re_follow(x, e, i, v, frame, ret) : UNDEFINED;
		if (i == e->n)
			return document(x, n, ret);
		if (n->group) {
			r = rf_re_group(x, n->group, &v);
			return r == GIVEN ? rf_re_follow(x, e, i, v, frame, ret) : r;
		}
		r = rf_re_eval(x, &e->item[i], frame, &key);
		if (r != GIVEN)
			return r;
		child = key.type == RF_RV_STRING ? rf_rego_child(n, rf_rv_text(key)) : NULL;
		if (child)
			continue;
		if (!base_at(x, n, &v) || !rf_re_base(v, key, &v))
			return UNDEFINED;
		return rf_re_follow(x, e, i + 1, v, frame, ret);
	}
}

/* --- with --- */

struct go_on {
	struct rf_re_cont cont;
	const struct rf_rp_step *next;
	struct rf_re_cont *k;
	struct rf_re_env *outside, *inside;
};

static bool put_path(struct rf_re *x, struct rf_rv base, const struct rf_str *path, uint32_t n,
		     struct rf_rv value, struct rf_rv *ret)
{
	struct rf_rv inner = { .type = RF_RV_OBJECT }, over;
	struct rf_rv_pair *pair;

	if (n == 0) {
		*ret = value;
		return true;
	}
	rf_rv_get_str(base, path[0], &inner);
	if (!put_path(x, inner, path + 1, n - 1, value, &inner))
		return false;
	pair = rf_arena_try(x->arena, (base.type == RF_RV_OBJECT ? base.n + 1 : 1) * sizeof(*pair));
	if (!pair)
		return false;
	uint32_t m = 0;
	for (uint32_t i = 0; base.type == RF_RV_OBJECT && i < base.n; i++)
		if (base.pairs[i].key.type != RF_RV_STRING ||
		    !rf_str_eq(rf_rv_text(base.pairs[i].key), path[0]))
			pair[m++] = base.pairs[i];
	pair[m].key = rf_rv_str(path[0]);
	pair[m++].value = inner;
	over = rf_rv_object(pair, m, NULL);
	*ret = over;
	return true;
}

struct rf_re_env *rf_re_new_env(struct rf_re *x, const struct rf_re_env *from, uint32_t more)
{
	struct rf_re_env *e = rf_arena_try(x->arena, sizeof(*e));
	size_t groups = x->rego->n_groups, nodes = x->rego->n_nodes, paths = x->rego->n_paths;
	struct rf_re_cached *known =
		rf_arena_try(x->arena, (groups + nodes + paths + x->rego->n_once) * sizeof(*known));

	if (!e || !known)
		return NULL;
	*e = *from;
	e->group = known;
	e->node = known + groups;
	e->path = e->node + nodes;
	e->once = e->path + paths;
	e->memo = NULL;
	if (from->n_over + from->n_mocks + more == 0)
		return e;
	e->over = rf_arena_try(x->arena, (from->n_over + more) * sizeof(*e->over) + 1);
	e->mock = rf_arena_try(x->arena, (from->n_mocks + more) * sizeof(*e->mock) + 1);
	if (!e->over || !e->mock)
		return NULL;
	if (from->n_over)
		memcpy(e->over, from->over, from->n_over * sizeof(*e->over));
	if (from->n_mocks)
		memcpy(e->mock, from->mock, from->n_mocks * sizeof(*e->mock));
	return e;
}

static enum answer change(struct rf_re *x, struct rf_re_env *e, const struct rf_rp_with *w,
			  struct rf_rv *frame)
{
	struct rf_rv v = RF_RV_NIL;
	enum answer r = w->value ? rf_re_eval(x, w->value, frame, &v) : GIVEN;

	if (r != GIVEN)
		return r;
	if (w->function || w->builtin) {
		struct rf_re_mock *m = &e->mock[e->n_mocks++];

		*m = (struct rf_re_mock){ .function = w->function,
				    .builtin = w->builtin,
				    .by_function = w->by_function,
				    .by_builtin = w->by_builtin,
				    .value = v };
		return GIVEN;
	}
	if (w->is_input) {
		if (!put_path(x, e->has_input ? e->input : (struct rf_rv){ .type = RF_RV_OBJECT },
			      w->path, w->n_path, v, &e->input))
			return rf_re_full(x);
		e->has_input = true;
		return GIVEN;
	}
	e->over[e->n_over++] = w;
	return put_path(x, e->data, w->path, w->n_path, v, &e->data) ? GIVEN : rf_re_full(x);
}

static enum result leave_with(struct rf_re *x, struct rf_re_cont *k, struct rf_rv *frame)
{
	struct go_on *g = (struct go_on *)k;
	enum result r;

	x->env = g->outside;
	r = rf_re_run(x, g->next, frame, g->k);
	x->env = g->inside;
	return r;
}

enum result rf_re_with(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv *frame,
			    struct rf_re_cont *k)
{
	struct rf_re_env *outside = x->env, *inside = rf_re_new_env(x, outside, s->n);
	struct go_on g = { .cont = { leave_with },
			   .next = s->next,
			   .k = k,
			   .outside = outside,
			   .inside = inside };
	enum result r;

	if (!inside) {
		rf_re_full(x);
		return FAIL;
	}
	for (uint32_t i = 0; i < s->n; i++) {
		enum answer a = change(x, inside, &s->with[i], frame);

		if (a != GIVEN)
			return a == ERROR ? FAIL : MORE;
	}
	x->env = inside;
	r = rf_re_run(x, s->body, frame, &g.cont);
	x->env = outside;
	return r;
}
