/* Evaluation: steps tried one after the other; a step with several solutions tries what follows with
 * each of them. Nothing is undone (plan.h says why); memory is the run's arena and goes with it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "policy/rego/plan.h"

#define STEPS 100000000
#define DEPTH 2000
#define STACK 4096 /* slots in one piece */

enum result { MORE, STOP, FAIL };     /* of steps: go on searching, enough, an error */
enum answer { GIVEN, UNDEFINED, ERROR }; /* of expressions */

struct cached {
	uint8_t state; /* 0: not known; 1: value; 2: undefined */
	struct rf_rv value;
};

struct mock {
	const struct rf_rego_group *function;
	const struct rf_rb *builtin;
	struct rf_rego_group *by_function;
	const struct rf_rb *by_builtin;
	struct rf_rv value;
};

/* What `with` changes. */
struct env {
	bool has_input;
	struct rf_rv input, data;
	const struct rf_rp_with **over; /* of data */
	uint32_t n_over;
	struct mock *mock;
	uint32_t n_mocks;
	struct cached *group, *node;
};

struct ctx {
	const struct rf_rego *rego;
	struct rf_arena *arena;
	struct env *env;
	struct rf_rb_env builtins;
	int64_t fuel;
	bool strict;
	uint32_t depth;
	struct rf_rv *stack;
	uint32_t top, room;
	const struct rf_rp_rule *rule; /* that is being evaluated; NULL: the query itself */
	struct rf_err *err;
};

struct cont {
	enum result (*fn)(struct ctx *x, struct cont *k, struct rf_rv *frame);
};

static enum result run(struct ctx *x, const struct rf_rp_step *s, struct rf_rv *frame, struct cont *k);
static enum answer eval(struct ctx *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			struct rf_rv *ret);

/* --- running out --- */

static enum answer full(struct ctx *x)
{
	rf_fail(x->err, RF_EXHAUSTED,
		"the policy used up its memory; give it less to work on or raise the limit");
	return ERROR;
}

/* As OPA tells it: file, line, code, text. */
static enum answer fail_at(struct ctx *x, const struct rf_rp_rule *rule, uint32_t row,
			   const char *code, const char *text)
{
	if (rule)
		rf_fail(x->err, RF_INVALID, "%.*s:%u: %s: %s", RF_STR(rule->file), row, code, text);
	else
		rf_fail(x->err, RF_INVALID, "%s: %s", code, text);
	return ERROR;
}

static bool spend(struct ctx *x)
{
	if (--x->fuel > 0)
		return true;
	rf_fail(x->err, RF_EXHAUSTED,
		"the policy used up its steps; it does too much work for this input");
	return false;
}

static bool too_deep(struct ctx *x)
{
	if (x->depth < DEPTH)
		return false;
	rf_fail(x->err, RF_EXHAUSTED, "the policy's rules are nested too deep");
	return true;
}

static struct rf_rv *push_frame(struct ctx *x, uint32_t n)
{
	struct rf_rv *f;

	if (n > x->room - x->top)
		return rf_arena_try(x->arena, n * sizeof(*f) + 1);
	f = x->stack + x->top;
	x->top += n;
	return f;
}

/* --- patterns --- */

static enum answer match(struct ctx *x, const struct rf_rp_pattern *p, struct rf_rv v,
			 struct rf_rv *frame)
{
	struct rf_rv part;
	enum answer r;

	switch (p->kind) {
	case RF_RP_ANY:
		return GIVEN;
	case RF_RP_BIND:
		frame[p->slot] = v;
		return GIVEN;
	case RF_RP_EQUAL:
		r = eval(x, p->expr, frame, &part);
		return r != GIVEN ? r : rf_rv_eq(part, v) ? GIVEN : UNDEFINED;
	case RF_RP_PARTS:
		if (v.type != RF_RV_ARRAY || v.n != p->n)
			return UNDEFINED;
		for (uint32_t i = 0; i < p->n; i++) {
			r = match(x, p->part[i], v.items[i], frame);
			if (r != GIVEN)
				return r;
		}
		return GIVEN;
	case RF_RP_FIELDS:
		if (v.type != RF_RV_OBJECT || v.n != p->n)
			return UNDEFINED;
		for (uint32_t i = 0; i < p->n; i++) {
			struct rf_rv key;

			r = eval(x, p->key[i], frame, &key);
			if (r == GIVEN && !rf_rv_get(v, key, &part))
				r = UNDEFINED;
			if (r == GIVEN)
				r = match(x, p->part[i], part, frame);
			if (r != GIVEN)
				return r;
		}
		return GIVEN;
	}
	return UNDEFINED;
}

/* --- steps --- */

static enum result stop_here(struct ctx *x, struct cont *k, struct rf_rv *frame)
{
	return STOP;
}

/* Whether the body has a solution: STOP if so, MORE if not. */
static enum result any(struct ctx *x, const struct rf_rp_step *body, struct rf_rv *frame)
{
	struct cont k = { stop_here };

	return run(x, body, frame, &k);
}

/* Calls fn for each key and value. */
struct walk {
	uint32_t i;
	struct rf_rv of;
};

static bool next_pair(struct walk *w, struct rf_rv *key, struct rf_rv *value)
{
	if (w->i >= w->of.n)
		return false;
	switch (w->of.type) {
	case RF_RV_ARRAY:
		*key = rf_rv_int(w->i);
		*value = w->of.items[w->i];
		break;
	case RF_RV_SET:
		*key = *value = w->of.items[w->i];
		break;
	case RF_RV_OBJECT:
		*key = w->of.pairs[w->i].key;
		*value = w->of.pairs[w->i].value;
		break;
	default:
		return false;
	}
	w->i++;
	return true;
}

static bool is_collection(struct rf_rv v)
{
	return v.type == RF_RV_ARRAY || v.type == RF_RV_SET || v.type == RF_RV_OBJECT;
}

static enum answer match_pair(struct ctx *x, const struct rf_rp_step *s, struct rf_rv key,
			      struct rf_rv value, struct rf_rv *frame)
{
	enum answer r = s->key ? match(x, s->key, key, frame) : GIVEN;

	return r == GIVEN && s->pattern ? match(x, s->pattern, value, frame) : r;
}

static enum result run_each(struct ctx *x, const struct rf_rp_step *s, struct rf_rv *frame,
			    struct cont *k)
{
	struct walk w = { 0 };
	struct rf_rv key, value;
	enum answer r = eval(x, s->expr, frame, &w.of);

	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (!is_collection(w.of))
		return MORE;
	if (too_deep(x))
		return FAIL;
	x->depth++;
	while (next_pair(&w, &key, &value)) {
		enum result more;

		if (!spend(x))
			return FAIL;
		r = match_pair(x, s, key, value, frame);
		if (r == ERROR)
			return FAIL;
		if (r == UNDEFINED)
			continue;
		more = run(x, s->next, frame, k);
		if (more != MORE) {
			x->depth--;
			return more;
		}
	}
	x->depth--;
	return MORE;
}

static enum result run_every(struct ctx *x, const struct rf_rp_step *s, struct rf_rv *frame)
{
	struct walk w = { 0 };
	struct rf_rv key, value;
	enum answer r = eval(x, s->expr, frame, &w.of);

	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (!is_collection(w.of))
		return MORE;
	while (next_pair(&w, &key, &value)) {
		enum result found;

		if (!spend(x))
			return FAIL;
		r = match_pair(x, s, key, value, frame);
		if (r == ERROR)
			return FAIL;
		found = r == GIVEN ? any(x, s->body, frame) : MORE;
		if (found != STOP)
			return found;
	}
	return STOP; /* all have one */
}

struct go_on {
	struct cont cont;
	const struct rf_rp_step *next;
	struct cont *k;
	struct env *outside, *inside;
};

/* --- with --- */

static bool put_path(struct ctx *x, struct rf_rv base, const struct rf_str *path, uint32_t n,
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

static struct env *new_env(struct ctx *x, const struct env *from, uint32_t more)
{
	struct env *e = rf_arena_try(x->arena, sizeof(*e));
	size_t groups = x->rego->n_groups + 1, nodes = x->rego->n_nodes + 1;

	if (!e)
		return NULL;
	*e = *from;
	e->group = rf_arena_try(x->arena, groups * sizeof(*e->group));
	e->node = rf_arena_try(x->arena, nodes * sizeof(*e->node));
	e->over = rf_arena_try(x->arena, (from->n_over + more) * sizeof(*e->over) + 1);
	e->mock = rf_arena_try(x->arena, (from->n_mocks + more) * sizeof(*e->mock) + 1);
	if (!e->group || !e->node || !e->over || !e->mock)
		return NULL;
	if (from->n_over)
		memcpy(e->over, from->over, from->n_over * sizeof(*e->over));
	if (from->n_mocks)
		memcpy(e->mock, from->mock, from->n_mocks * sizeof(*e->mock));
	return e;
}

static enum answer change(struct ctx *x, struct env *e, const struct rf_rp_with *w,
			  struct rf_rv *frame)
{
	struct rf_rv v = RF_RV_NIL;
	enum answer r = w->value ? eval(x, w->value, frame, &v) : GIVEN;

	if (r != GIVEN)
		return r;
	if (w->function || w->builtin) {
		struct mock *m = &e->mock[e->n_mocks++];

		*m = (struct mock){ .function = w->function,
				    .builtin = w->builtin,
				    .by_function = w->by_function,
				    .by_builtin = w->by_builtin,
				    .value = v };
		return GIVEN;
	}
	if (w->is_input) {
		if (!put_path(x, e->has_input ? e->input : (struct rf_rv){ .type = RF_RV_OBJECT },
			      w->path, w->n_path, v, &e->input))
			return full(x);
		e->has_input = true;
		return GIVEN;
	}
	e->over[e->n_over++] = w;
	return put_path(x, e->data, w->path, w->n_path, v, &e->data) ? GIVEN : full(x);
}

static enum result leave_with(struct ctx *x, struct cont *k, struct rf_rv *frame)
{
	struct go_on *g = (struct go_on *)k;
	enum result r;

	x->env = g->outside;
	r = run(x, g->next, frame, g->k);
	x->env = g->inside;
	return r;
}

static enum result run_with(struct ctx *x, const struct rf_rp_step *s, struct rf_rv *frame,
			    struct cont *k)
{
	struct env *outside = x->env, *inside = new_env(x, outside, s->n_with);
	struct go_on g = { .cont = { leave_with },
			   .next = s->next,
			   .k = k,
			   .outside = outside,
			   .inside = inside };
	enum result r;

	if (!inside) {
		full(x);
		return FAIL;
	}
	for (uint32_t i = 0; i < s->n_with; i++) {
		enum answer a = change(x, inside, &s->with[i], frame);

		if (a != GIVEN)
			return a == ERROR ? FAIL : MORE;
	}
	x->env = inside;
	r = run(x, s->body, frame, &g.cont);
	x->env = outside;
	return r;
}

/* --- relations --- */

static enum result run_answers(struct ctx *x, const struct rf_rp_step *s, struct rf_rv *frame,
			       struct cont *k)
{
	struct rf_rv list;
	enum answer r = eval(x, s->expr, frame, &list);

	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	for (uint32_t i = 0; list.type == RF_RV_ARRAY && i < list.n; i++) {
		enum result more;

		if (!spend(x))
			return FAIL;
		r = match(x, s->pattern, list.items[i], frame);
		if (r == ERROR)
			return FAIL;
		more = r == GIVEN ? run(x, s->next, frame, k) : MORE;
		if (more != MORE)
			return more;
	}
	return MORE;
}

/* Steps with one solution go on in the loop; the others end it. */
static enum result run(struct ctx *x, const struct rf_rp_step *s, struct rf_rv *frame, struct cont *k)
{
	for (; s; s = s->next) {
		struct rf_rv v;
		enum answer r = GIVEN;
		enum result found;

		if (!spend(x))
			return FAIL;
		switch (s->op) {
		case RF_RP_TEST:
			r = eval(x, s->expr, frame, &v);
			if (r == GIVEN && rf_rv_is_false(v))
				return MORE;
			break;
		case RF_RP_MATCH:
			r = eval(x, s->expr, frame, &v);
			if (r == GIVEN)
				r = match(x, s->pattern, v, frame);
			break;
		case RF_RP_NOT:
			found = any(x, s->body, frame);
			if (found != MORE)
				return found == STOP ? MORE : FAIL;
			break;
		case RF_RP_EITHER:
		case RF_RP_BOTH:
			found = any(x, s->body, frame);
			if (found == (s->op == RF_RP_EITHER ? MORE : STOP))
				found = any(x, s->other, frame);
			if (found != STOP)
				return found;
			break;
		case RF_RP_EVERY:
			found = run_every(x, s, frame);
			if (found != STOP)
				return found;
			break;
		case RF_RP_EACH:
			return run_each(x, s, frame, k);
		case RF_RP_EACH_ANSWER:
			return run_answers(x, s, frame, k);
		case RF_RP_WITH:
			return run_with(x, s, frame, k);
		}
		if (r != GIVEN)
			return r == ERROR ? FAIL : MORE;
	}
	return k->fn(x, k, frame);
}

/* --- rules --- */

struct collect {
	struct cont cont;
	const struct rf_rp_rule *rule;
	const struct rf_rego_group *group;
	bool found;
	struct rf_rv value;
	struct rf_rv_grow grow;
	struct entry *entry; /* partial objects with longer names */
	uint32_t n, room;
};

struct entry {
	struct rf_rv *key;
	uint32_t n;
	bool contains;
	struct rf_rv value;
};

static enum result conflict(struct ctx *x, const struct rf_rego_group *g)
{
	const struct rf_rp_rule *r = g->n ? g->rule[0] : g->fallback;

	fail_at(x, r, r->loc.row, "eval_conflict_error",
		g->kind == RF_REGO_FUNCTION ?
			"functions must not produce multiple outputs for same inputs" :
		g->kind == RF_REGO_COMPLETE ? "complete rules must not produce multiple outputs" :
					      "object keys must be unique");
	return FAIL;
}

static enum result one_value(struct ctx *x, struct cont *k, struct rf_rv *frame)
{
	struct collect *c = (struct collect *)k;
	struct rf_rv v;
	enum answer r = eval(x, c->rule->value, frame, &v);

	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (c->found && !rf_rv_eq(c->value, v))
		return conflict(x, c->group);
	c->found = true;
	c->value = v;
	return c->rule->constant ? STOP : MORE;
}

static enum result one_element(struct ctx *x, struct cont *k, struct rf_rv *frame)
{
	struct collect *c = (struct collect *)k;
	struct rf_rv v;
	enum answer r = eval(x, c->rule->value, frame, &v);

	c->found = true;
	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (!rf_rv_add(&c->grow, x->arena, v, NULL)) {
		full(x);
		return FAIL;
	}
	return MORE;
}

static enum result add_entry(struct ctx *x, struct collect *c, struct entry e)
{
	if (c->n == c->room) {
		uint32_t room = c->room ? 2 * c->room : 8;
		struct entry *more = rf_arena_try(x->arena, room * sizeof(*more));

		if (!more) {
			full(x);
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

static enum result one_entry(struct ctx *x, struct cont *k, struct rf_rv *frame)
{
	struct collect *c = (struct collect *)k;
	struct entry e = { .n = c->rule->n_path, .contains = c->rule->contains };
	enum answer r = GIVEN;

	e.key = rf_arena_try(x->arena, (e.n + 1) * sizeof(*e.key));
	if (!e.key) {
		full(x);
		return FAIL;
	}
	for (uint32_t i = 0; r == GIVEN && i < e.n; i++)
		r = eval(x, c->rule->path[i], frame, &e.key[i]);
	if (r == GIVEN)
		r = eval(x, c->rule->value, frame, &e.value);
	c->found = true;
	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	return add_entry(x, c, e);
}

/* One rule with its else chain. */
static enum result run_rule(struct ctx *x, const struct rf_rp_rule *rule, const struct rf_rv *args,
			    struct collect *c)
{
	for (; rule; rule = rule->otherwise) {
		uint32_t top = x->top;
		struct rf_rv *frame = push_frame(x, rule->n_slots);
		enum answer fits = GIVEN;
		enum result r = MORE;
		bool before = c->found;

		if (!frame) {
			full(x);
			return FAIL;
		}
		if (too_deep(x) || !spend(x))
			return FAIL;
		for (uint32_t i = 0; fits == GIVEN && i < rule->n_args; i++)
			fits = match(x, rule->arg[i], args[i], frame);
		const struct rf_rp_rule *outer = x->rule;

		c->rule = x->rule = rule;
		x->depth++;
		if (rule->otherwise)
			c->found = false;
		if (fits == GIVEN)
			r = run(x, rule->body, frame, &c->cont);
		x->depth--;
		x->top = top;
		x->rule = outer;
		if (fits == ERROR || r == FAIL)
			return FAIL;
		if (c->found && rule->otherwise) {
			c->found = true;
			break;
		}
		c->found = c->found || before;
	}
	return MORE;
}

/* The value of a complete rule or of a call. */
static enum answer rules_value(struct ctx *x, const struct rf_rego_group *g, const struct rf_rv *args,
			       struct rf_rv *ret)
{
	bool found = false;

	for (uint32_t i = 0; i < g->n && !(found && g->same_constant); i++) {
		struct collect c = { .cont = { one_value }, .group = g };

		if (run_rule(x, g->rule[i], args, &c) == FAIL)
			return ERROR;
		if (!c.found)
			continue;
		if (found && !rf_rv_eq(*ret, c.value)) {
			conflict(x, g);
			return ERROR;
		}
		found = true;
		*ret = c.value;
	}
	if (!found && g->fallback) {
		struct collect c = { .cont = { one_value }, .group = g };

		if (run_rule(x, g->fallback, args, &c) == FAIL)
			return ERROR;
		found = c.found;
		*ret = c.value;
	}
	return found ? GIVEN : UNDEFINED;
}

static int by_keys(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	for (uint32_t i = 0; i < x->n && i < y->n; i++) {
		int r = rf_rv_cmp(x->key[i], y->key[i]);

		if (r)
			return r;
	}
	return x->n < y->n ? -1 : x->n > y->n;
}

/* Entries in order, equal up to depth: what lies below. */
static enum answer build(struct ctx *x, const struct rf_rego_group *g, struct entry *e, uint32_t n,
			 uint32_t depth, struct rf_rv *ret)
{
	struct rf_rv_grow grow = { 0 };
	bool clash;

	if (e[0].n == depth && e[0].contains) {
		for (uint32_t i = 0; i < n; i++) {
			if (e[i].n != depth)
				goto bad;
			if (!rf_rv_add(&grow, x->arena, e[i].value, NULL))
				return full(x);
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
			return full(x);
	}
	return rf_rv_grown_object(&grow, x->arena, ret) ? GIVEN : full(x);
bad:
	conflict(x, g);
	return ERROR;
}

static enum answer group_value(struct ctx *x, const struct rf_rego_node *n, struct rf_rv *ret);

/* What rules with longer names put under the same name, as entries with the longer path. */
static enum answer add_below(struct ctx *x, struct collect *c, const struct rf_rego_node *n,
			     const struct entry *at)
{
	for (uint32_t i = 0; i < n->n; i++) {
		const struct rf_rego_node *child = n->child[i];
		struct entry e = { .n = at->n + 1 };
		struct rf_rv v;
		enum answer r;

		e.key = rf_arena_try(x->arena, (e.n + 1) * sizeof(*e.key));
		if (!e.key)
			return full(x);
		if (at->n)
			memcpy(e.key, at->key, at->n * sizeof(*e.key));
		e.key[at->n] = rf_rv_str(child->name);
		if (!child->group) {
			if (add_below(x, c, child, &e) == ERROR)
				return ERROR;
			continue;
		}
		r = child->group->kind == RF_REGO_FUNCTION ? UNDEFINED : group_value(x, child, &v);
		if (r == ERROR)
			return r;
		if (r == UNDEFINED)
			continue;
		e.contains = child->group->kind == RF_REGO_PARTIAL_SET;
		for (uint32_t j = 0; j < (e.contains ? v.n : 1); j++) {
			e.value = e.contains ? v.items[j] : v;
			if (add_entry(x, c, e) == FAIL)
				return ERROR;
		}
	}
	return GIVEN;
}

static enum answer partial(struct ctx *x, const struct rf_rego_group *g, struct rf_rv *ret)
{
	bool set = g->kind == RF_REGO_PARTIAL_SET;
	struct collect c = { .cont = { set ? one_element : one_entry }, .group = g };
	struct entry here = { 0 };

	for (uint32_t i = 0; i < g->n; i++)
		if (run_rule(x, g->rule[i], NULL, &c) == FAIL)
			return ERROR;
	if (!set && add_below(x, &c, g->node, &here) == ERROR)
		return ERROR;
	if (set) {
		*ret = rf_rv_grown_set(&c.grow);
		return GIVEN;
	}
	if (c.n == 0) {
		*ret = rf_rv_object(NULL, 0, NULL);
		return GIVEN;
	}
	qsort(c.entry, c.n, sizeof(*c.entry), by_keys);
	return build(x, g, c.entry, c.n, 0, ret);
}

/* --- documents --- */

static bool base_at(struct ctx *x, const struct rf_rego_node *n, struct rf_rv *ret)
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
static bool is_over(const struct ctx *x, const struct rf_rego_node *n)
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

static enum answer document(struct ctx *x, const struct rf_rego_node *n, struct rf_rv *ret);

static enum answer below(struct ctx *x, const struct rf_rego_node *n, struct rf_rv base,
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
			return full(x);
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
			return full(x);
	}
	return rf_rv_grown_object(&grow, x->arena, ret) ? GIVEN : full(x);
}

static enum answer group_value(struct ctx *x, const struct rf_rego_node *n, struct rf_rv *ret)
{
	const struct rf_rego_group *g = n->group;
	struct cached *c = &x->env->group[g->id];
	enum answer r;

	if (c->state) {
		*ret = c->value;
		return c->state == 1 ? GIVEN : UNDEFINED;
	}
	r = g->kind == RF_REGO_COMPLETE ? rules_value(x, g, NULL, ret) : partial(x, g, ret);
	if (r == ERROR)
		return r;
	c->state = r == GIVEN ? 1 : 2;
	c->value = *ret;
	return r;
}

/* Everything at a place of the tree, rules and base documents together. */
static enum answer document(struct ctx *x, const struct rf_rego_node *n, struct rf_rv *ret)
{
	struct rf_rv base = { .type = RF_RV_NULL };
	struct cached *c = &x->env->node[n->id];
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
		return n->group->kind == RF_REGO_FUNCTION ? UNDEFINED : group_value(x, n, ret);
	r = below(x, n, base, ret);
	if (r == GIVEN) {
		c->state = 1;
		c->value = *ret;
	}
	return r;
}

/* Base documents are found by the text of a number too. */
static bool get_base(struct rf_rv v, struct rf_rv key, struct rf_rv *ret)
{
	rf_auto(buf) text = RF_BUF_INIT;

	if (rf_rv_get(v, key, ret))
		return true;
	if (v.type != RF_RV_OBJECT || key.type != RF_RV_NUMBER)
		return false;
	rf_rv_print(&text, key);
	return rf_rv_get_str(v, rf_str_n(text.p, text.n), ret);
}

static enum answer follow(struct ctx *x, const struct rf_rp_expr *e, uint32_t from, struct rf_rv v,
			  struct rf_rv *frame, struct rf_rv *ret)
{
	for (uint32_t i = from; i < e->n; i++) {
		struct rf_rv key;
		enum answer r;

		if (e->item[i]->kind == RF_RP_CONST) {
			key = e->item[i]->value;
		} else {
			r = eval(x, e->item[i], frame, &key);
			if (r != GIVEN)
				return r;
		}
		if (!(e->kind == RF_RP_DATA ? get_base(v, key, &v) : rf_rv_get(v, key, &v)))
			return UNDEFINED;
	}
	*ret = v;
	return GIVEN;
}

static enum answer data_value(struct ctx *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			      struct rf_rv *ret)
{
	const struct rf_rego_node *n = e->node, *child;
	struct rf_rv v, key;
	enum answer r;

	for (uint32_t i = 0;; i++, n = child) {
		if (is_over(x, n))
			return base_at(x, n, &v) ? follow(x, e, i, v, frame, ret) : UNDEFINED;
		if (i == e->n)
			return document(x, n, ret);
		if (n->group) {
			r = group_value(x, n, &v);
			return r == GIVEN ? follow(x, e, i, v, frame, ret) : r;
		}
		r = eval(x, e->item[i], frame, &key);
		if (r != GIVEN)
			return r;
		child = key.type == RF_RV_STRING ? rf_rego_child(n, rf_rv_text(key)) : NULL;
		if (child)
			continue;
		if (!base_at(x, n, &v) || !get_base(v, key, &v))
			return UNDEFINED;
		return follow(x, e, i + 1, v, frame, ret);
	}
}

/* --- calls --- */

/* What rego.metadata.rule() says. */
static struct rf_rv metadata(const struct ctx *x)
{
	const struct rf_ra_rule *r = x->rule ? x->rule->ast : NULL;

	return r && r->metadata ? *r->metadata : rf_rv_object(NULL, 0, NULL);
}

static enum answer call_builtin(struct ctx *x, const struct rf_rb *b, const struct rf_rv *args,
				uint32_t row, struct rf_rv *ret)
{
	struct rf_err err = RF_ERR_INIT;
	enum rf_rb_result r;

	if (!b->fn) {
		snprintf(err.msg, sizeof(err.msg), "%s: %s", b->name, b->refusal);
		return fail_at(x, x->rule, row, "eval_builtin_error", err.msg);
	}
	x->builtins.fuel = &x->fuel;
	x->builtins.rule_metadata = metadata(x);
	r = rf_rb_call(b, &x->builtins, args, ret, &err);
	switch (r) {
	case RF_RB_OK:
		return GIVEN;
	case RF_RB_UNDEFINED:
		return UNDEFINED;
	case RF_RB_TYPE:
	case RF_RB_ERROR:
		if (!x->strict)
			return UNDEFINED;
		return fail_at(x, x->rule, row,
			       r == RF_RB_TYPE ? "eval_type_error" : "eval_builtin_error", err.msg);
	case RF_RB_FULL:
		if (x->fuel > 0)
			return full(x);
		spend(x);
		return ERROR;
	}
	return UNDEFINED;
}

static const struct mock *mock_of(const struct ctx *x, const struct rf_rp_expr *e)
{
	for (uint32_t i = x->env->n_mocks; i > 0; i--) {
		const struct mock *m = &x->env->mock[i - 1];

		if (e->kind == RF_RP_FUNCTION ? m->function && m->function == e->group :
						m->builtin && m->builtin == e->builtin)
			return m;
	}
	return NULL;
}

static enum answer eval_args(struct ctx *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			     struct rf_rv *args)
{
	for (uint32_t i = 0; i < e->n; i++) {
		enum answer r = eval(x, e->item[i], frame, &args[i]);

		if (r != GIVEN)
			return r;
	}
	return GIVEN;
}

/* Inside a stand-in all functions are themselves again. */
static enum answer call_mock(struct ctx *x, const struct mock *m, const struct rf_rv *args,
			     uint32_t row, struct rf_rv *ret)
{
	struct env *outside = x->env, *inside;
	enum answer r;

	if (!m->by_function && !m->by_builtin) {
		*ret = m->value;
		return GIVEN;
	}
	if (m->by_builtin)
		return call_builtin(x, m->by_builtin, args, row, ret);
	inside = new_env(x, outside, 0);
	if (!inside)
		return full(x);
	inside->n_mocks = 0;
	x->env = inside;
	r = rules_value(x, m->by_function, args, ret);
	x->env = outside;
	return r;
}

static enum answer call(struct ctx *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			struct rf_rv *ret)
{
	struct rf_rv few[8], *args = few;
	enum answer r;

	if (e->n > RF_COUNT(few)) {
		args = rf_arena_try(x->arena, e->n * sizeof(*args));
		if (!args)
			return full(x);
	}
	r = eval_args(x, e, frame, args);
	if (r != GIVEN)
		return r;
	if (x->env->n_mocks) {
		const struct mock *m = mock_of(x, e);

		if (m)
			return call_mock(x, m, args, e->loc.row, ret);
	}
	if (e->kind == RF_RP_BUILTIN)
		return call_builtin(x, e->builtin, args, e->loc.row, ret);
	return rules_value(x, e->group, args, ret);
}

/* --- comprehensions --- */

struct gather {
	struct cont cont;
	const struct rf_rp_expr *e;
	struct rf_rv_grow grow;
};

static enum result gather(struct ctx *x, struct cont *k, struct rf_rv *frame)
{
	struct gather *g = (struct gather *)k;
	struct rf_rv v, key = RF_RV_NIL;
	bool clash = false, ok;
	enum answer r = g->e->key ? eval(x, g->e->key, frame, &key) : GIVEN;

	if (r == GIVEN)
		r = eval(x, g->e->base, frame, &v);
	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (g->e->kind == RF_RP_ARRAY_COMP)
		ok = rf_rv_push(&g->grow, x->arena, v);
	else if (g->e->kind == RF_RP_SET_COMP)
		ok = rf_rv_add(&g->grow, x->arena, v, NULL);
	else
		ok = rf_rv_put(&g->grow, x->arena, key, v, &clash);
	if (clash) {
		rf_fail(x->err, RF_INVALID, "eval_conflict_error: object keys must be unique");
		return FAIL;
	}
	if (!ok) {
		full(x);
		return FAIL;
	}
	return MORE;
}

static enum answer comprehension(struct ctx *x, const struct rf_rp_expr *e, struct rf_rv *frame,
				 struct rf_rv *ret)
{
	struct gather g = { .cont = { gather }, .e = e };

	if (run(x, e->body, frame, &g.cont) == FAIL)
		return ERROR;
	if (e->kind == RF_RP_ARRAY_COMP)
		*ret = rf_rv_grown_array(&g.grow);
	else if (e->kind == RF_RP_SET_COMP)
		*ret = rf_rv_grown_set(&g.grow);
	else if (!rf_rv_grown_object(&g.grow, x->arena, ret))
		return full(x);
	return GIVEN;
}

/* --- composites --- */

static enum answer composite(struct ctx *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			     struct rf_rv *ret)
{
	struct rf_rv *v = rf_arena_try(x->arena, e->n * sizeof(*v) + 1);
	bool clash = false;
	enum answer r;

	if (!v)
		return full(x);
	r = eval_args(x, e, frame, v);
	if (r != GIVEN)
		return r;
	if (e->kind == RF_RP_ARRAY)
		*ret = rf_rv_array(v, e->n);
	else if (e->kind == RF_RP_SET)
		*ret = rf_rv_set(v, e->n);
	else
		*ret = rf_rv_object((struct rf_rv_pair *)v, e->n / 2, &clash);
	if (clash) {
		rf_fail(x->err, RF_INVALID, "eval_conflict_error: object keys must be unique");
		return ERROR;
	}
	return GIVEN;
}

static enum answer template(struct ctx *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			    struct rf_rv *ret)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (uint32_t i = 0; i < e->n; i++) {
		struct rf_rv v;
		enum answer r = eval(x, e->item[i], frame, &v);

		if (r == ERROR)
			return r;
		if (r == GIVEN && e->item[i]->first) {
			r = v.n > 0 ? GIVEN : UNDEFINED;
			v = v.n > 0 ? v.items[0] : v;
		}
		if (r == UNDEFINED)
			rf_buf_add(&b, RF_LIT("<undefined>"));
		else if (v.type == RF_RV_STRING)
			rf_buf_add(&b, rf_rv_text(v));
		else
			rf_rv_print(&b, v);
		if (b.n > (1u << 20) * 16)
			return full(x);
	}
	return rf_rv_copy_str(x->arena, rf_str_n(b.p, b.n), ret) ? GIVEN : full(x);
}

static enum answer eval(struct ctx *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			struct rf_rv *ret)
{
	struct rf_rv v;
	enum answer r;

	switch (e->kind) {
	case RF_RP_CONST:
		*ret = e->value;
		return GIVEN;
	case RF_RP_SLOT:
		*ret = frame[e->slot];
		return GIVEN;
	case RF_RP_INPUT:
		return x->env->has_input ? follow(x, e, 0, x->env->input, frame, ret) : UNDEFINED;
	case RF_RP_DATA:
		return data_value(x, e, frame, ret);
	case RF_RP_REF:
		r = eval(x, e->base, frame, &v);
		return r == GIVEN ? follow(x, e, 0, v, frame, ret) : r;
	case RF_RP_ARRAY:
	case RF_RP_SET:
	case RF_RP_OBJECT:
		return composite(x, e, frame, ret);
	case RF_RP_BUILTIN:
	case RF_RP_FUNCTION:
		return call(x, e, frame, ret);
	case RF_RP_ARRAY_COMP:
	case RF_RP_SET_COMP:
	case RF_RP_OBJECT_COMP:
		return comprehension(x, e, frame, ret);
	case RF_RP_TEMPLATE:
		return template(x, e, frame, ret);
	}
	return UNDEFINED;
}

/* --- queries --- */

struct answers {
	struct cont cont;
	const struct rf_rego_query *q;
	struct rf_rego_answer *list;
	size_t n, room;
};

static enum result one_answer(struct ctx *x, struct cont *k, struct rf_rv *frame)
{
	struct answers *a = (struct answers *)k;
	const struct rf_rego_query *q = a->q;
	struct rf_rv_pair *pair = rf_arena_try(x->arena, (q->n_vars + 1) * sizeof(*pair));
	struct rf_rv *value = rf_arena_try(x->arena, (q->n_values + 1) * sizeof(*value));

	if (a->n == a->room && pair && value) {
		size_t room = a->room ? 2 * a->room : 4;
		struct rf_rego_answer *more = rf_arena_try(x->arena, room * sizeof(*more));

		if (more && a->n)
			memcpy(more, a->list, a->n * sizeof(*more));
		if (more) {
			a->list = more;
			a->room = room;
		}
	}
	if (!pair || !value || a->n == a->room) {
		full(x);
		return FAIL;
	}
	for (uint32_t i = 0; i < q->n_vars; i++)
		pair[i] = (struct rf_rv_pair){ rf_rv_str(q->var[i].name), frame[q->var[i].slot] };
	for (uint32_t i = 0; i < q->n_values; i++)
		value[i] = q->value_slot[i] == UINT32_MAX ? rf_rv_bool(true) :
							    frame[q->value_slot[i]];
	a->list[a->n++] = (struct rf_rego_answer){
		.bindings = rf_rv_object(pair, q->n_vars, NULL),
		.expressions = rf_rv_array(value, q->n_values),
	};
	return MORE;
}

static int64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool set_up(struct ctx *x, struct rf_rego_run *run_, struct env *env)
{
	struct env plain = { .has_input = run_->input != NULL,
			     .input = run_->input ? *run_->input : RF_RV_NIL,
			     .data = x->rego->data };
	struct env *e;

	if (run_->data && !rf_rv_merge(x->arena, x->rego->data, *run_->data, &plain.data))
		return false;
	e = new_env(x, &plain, 0);
	if (!e)
		return false;
	*env = *e;
	x->env = env;
	x->stack = rf_arena_try(x->arena, STACK * sizeof(*x->stack));
	x->room = x->stack ? STACK : 0;
	return x->stack != NULL;
}

int rf_rego_eval(const struct rf_rego_query *q, struct rf_rego_run *run_, struct rf_rego_result *ret,
		 struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct env env;
	struct answers a = { .cont = { one_answer }, .q = q };
	struct ctx x = { .rego = q->rego,
			 .arena = run_->arena,
			 .fuel = run_->steps ? run_->steps : STEPS,
			 .strict = run_->strict,
			 .err = err ? err : &own };
	struct rf_rv *frame;

	x.builtins = (struct rf_rb_env){ .arena = run_->arena,
					 .now_ns = run_->now_ns ? run_->now_ns : wall_ns(),
					 .random = { run_->seed, 1, 2, 3 } };
	if (!set_up(&x, run_, &env) || !(frame = push_frame(&x, q->n_slots))) {
		full(&x);
		return -x.err->code;
	}
	if (run(&x, q->body, frame, &a.cont) == FAIL)
		return -x.err->code;
	*ret = (struct rf_rego_result){ .answer = a.list, .n = a.n };
	return 0;
}

bool rf_rego_value(const struct rf_rego_result *r, struct rf_rv *ret)
{
	if (r->n == 0 || r->answer[0].expressions.n == 0)
		return false;
	*ret = r->answer[0].expressions.items[0];
	return true;
}
