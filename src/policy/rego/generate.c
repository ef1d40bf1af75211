/* Steps out of goals, in an order in which every variable has its value when it is used. */
#include "policy/rego/compile.h"

static struct rf_rp_expr *new_expr(struct rf_rc *c, enum rf_rp_kind kind, struct rf_ra_loc loc)
{
	struct rf_rp_expr *e = rf_arena_new(c->a, struct rf_rp_expr);

	e->kind = (uint8_t)kind;
	e->row = loc.row;
	return e;
}

static struct rf_rp_step *emit(struct rf_rc *c, enum rf_rp_op op, struct rf_ra_loc loc)
{
	struct rf_rp_step *s = rf_arena_new(c->a, struct rf_rp_step);

	s->op = (uint8_t)op;
	s->row = loc.row;
	*c->tail = s;
	c->tail = &s->next;
	return s;
}

static struct rf_rp_pattern *new_pattern(struct rf_rc *c, enum rf_rp_pattern_kind kind)
{
	struct rf_rp_pattern *p = rf_arena_new(c->a, struct rf_rp_pattern);

	p->kind = kind;
	return p;
}

static void add_edge(struct rf_rc *c, struct rf_rego_group *to, struct rf_rego_node *node,
		     const struct rf_rp_expr *keys, struct rf_ra_loc loc)
{
	struct rf_rc_edges *e = c->edges;

	if (!c->group || !e)
		return;
	if (e->n == e->room) {
		uint32_t room = e->room ? 2 * e->room : 64;
		struct rf_rc_edge *more = rf_arena_array(c->a, struct rf_rc_edge, room);

		if (e->n)
			memcpy(more, e->edge, e->n * sizeof(*more));
		e->edge = more;
		e->room = room;
	}
	e->edge[e->n++] = (struct rf_rc_edge){
		.from = c->group,
		.to = to,
		.node = node,
		.keys = keys,
		.loc = loc,
		.module = c->module,
	};
}

/* --- values --- */

static struct rf_rp_expr *slot_expr(struct rf_rc *c, const struct rf_rc_var *v, struct rf_ra_loc loc)
{
	struct rf_rp_expr *e = new_expr(c, RF_RP_SLOT, loc);

	e->slot = v->slot;
	return e;
}

static bool all_const(const struct rf_rp_expr *e)
{
	for (uint32_t i = 0; i < e->n; i++)
		if (e->item[i].kind != RF_RP_CONST)
			return false;
	return true;
}

static void keys_of(struct rf_rc *c, struct rf_rp_expr *e, struct rf_rc_term **item, uint32_t n)
{
	e->n = n;
	e->item = rf_arena_array(c->a, struct rf_rp_expr, n + 1);
	for (uint32_t i = 0; i < n; i++)
		e->item[i] = *rf_rc_value(c, item[i]);
}

/* Down the tree as far as the keys are plain names. */
static struct rf_rp_expr *data_expr(struct rf_rc *c, struct rf_rc_term *t)
{
	struct rf_rp_expr *e = new_expr(c, RF_RP_DATA, t->loc);
	struct rf_rego_node *n = c->rego->root, *child;
	uint32_t i = 1;

	for (; t->kind == RF_RC_REF && i < t->n; i++, n = child) {
		if (n->group || t->item[i]->kind != RF_RC_CONST ||
		    t->item[i]->value.type != RF_RV_STRING)
			break;
		child = rf_rego_child(n, rf_rv_text(t->item[i]->value));
		if (!child)
			break;
	}
	e->node = n;
	if (t->kind == RF_RC_REF)
		keys_of(c, e, t->item + i, t->n - i);
	if (n->group && n->group->kind == RF_REGO_FUNCTION)
		rf_ra_complain(c->errors, "rego_type_error", c->module, t->loc,
			       "function %.*s used as reference, not called", RF_STR(n->name));
	/* A key that is no child's name leads out of the tree: no rule is meant. */
	if (n->group)
		add_edge(c, n->group, n->n ? n : NULL, NULL, t->loc);
	else if (e->n == 0 || e->item[0].kind != RF_RP_CONST)
		add_edge(c, NULL, n, e, t->loc);
	return e;
}

#define PATHS_MAX 512 /* of all modules; each evaluation has a place for what lies there */

static uint32_t path_below(struct rf_rego *r, uint32_t parent, struct rf_rv key)
{
	for (uint32_t i = 1; i < r->n_paths; i++)
		if (r->path[i].parent == parent && rf_rv_eq(r->path[i].key, key))
			return i;
	if (r->n_paths >= PATHS_MAX)
		return 0;
	if (r->n_paths == r->room_paths) {
		uint32_t room = r->room_paths ? 2 * r->room_paths : 16;
		struct rf_rego_path *more = rf_arena_array(&r->arena, struct rf_rego_path, room);

		if (r->n_paths)
			memcpy(more, r->path, r->n_paths * sizeof(*more));
		r->path = more;
		r->room_paths = room;
	}
	r->n_paths += r->n_paths == 0; /* the input itself */
	r->path[r->n_paths] = (struct rf_rego_path){ parent, key };
	return r->n_paths++;
}

/* The names at the beginning of input.a.b[x].c become a numbered path. A query's do not: the policy it asks
 * never changes. */
static void find_path(struct rf_rc *c, struct rf_rp_expr *e)
{
	uint32_t at = 0;

	if (!c->group || c->rego->plain)
		return;
	for (; e->path_keys < RF_MIN(e->n, 255u); e->path_keys++) {
		const struct rf_rp_expr *key = &e->item[e->path_keys];
		uint32_t next = key->kind == RF_RP_CONST && key->value.type == RF_RV_STRING ?
					path_below(c->rego, at, key->value) :
					0;

		if (next == 0)
			break;
		at = next;
	}
	e->slot = at;
	e->known_path = at != 0;
}

static struct rf_rp_expr *ref_expr(struct rf_rc *c, struct rf_rc_term *t)
{
	struct rf_rc_term *head = t->item[0];
	struct rf_rp_expr *e;

	if (head->kind == RF_RC_DATA)
		return data_expr(c, t);
	e = new_expr(c, head->kind == RF_RC_INPUT ? RF_RP_INPUT : RF_RP_REF, t->loc);
	if (e->kind == RF_RP_REF)
		e->base = rf_rc_value(c, head);
	keys_of(c, e, t->item + 1, t->n - 1);
	if (e->kind == RF_RP_INPUT)
		find_path(c, e);
	return e;
}

/* Of a query, only the expressions outside of closures have their values as answer. */
static void generate_closure(struct rf_rc *c, struct rf_rc_body *b)
{
	uint32_t *values = c->value_slot;

	c->value_slot = NULL;
	rf_rc_generate(c, b);
	c->value_slot = values;
}

static struct rf_rp_step *body_of(struct rf_rc *c, struct rf_rc_body *b)
{
	struct rf_rp_step *first = NULL, **kept = c->tail;

	c->tail = &first;
	generate_closure(c, b);
	c->tail = kept;
	return first;
}

/* The term is computed after the body; if it walks something, that belongs to the body. */
static struct rf_rp_expr *comp_expr(struct rf_rc *c, struct rf_rc_term *t)
{
	struct rf_rp_expr *e = new_expr(c,
					t->comp == RF_RA_ARRAY_COMP ? RF_RP_ARRAY_COMP :
					t->comp == RF_RA_SET_COMP   ? RF_RP_SET_COMP :
								      RF_RP_OBJECT_COMP,
					t->loc);
	struct rf_rp_step **kept = c->tail;

	e->first = t->first;
	c->tail = &e->body;
	generate_closure(c, t->body);
	if (t->key && !rf_rc_ready_value(t->key)) /* {x: q[x] | ...} */
		e->base = rf_rc_head_value(c, t->term);
	if (t->key)
		e->key = rf_rc_head_value(c, t->key);
	e->base = e->base ? e->base : rf_rc_head_value(c, t->term);
	c->tail = kept;
	return e;
}

static uint8_t quick_of(const char *name)
{
	static const char *const names[] = {
		[RF_RP_Q_EQUAL] = "equal",	   [RF_RP_Q_NEQ] = "neq",
		[RF_RP_Q_LT] = "lt",		   [RF_RP_Q_LTE] = "lte",
		[RF_RP_Q_GT] = "gt",		   [RF_RP_Q_GTE] = "gte",
		[RF_RP_Q_PLUS] = "plus",	   [RF_RP_Q_MINUS] = "minus",
		[RF_RP_Q_COUNT] = "count",	   [RF_RP_Q_IS_STRING] = "is_string",
		[RF_RP_Q_IS_NUMBER] = "is_number", [RF_RP_Q_IS_ARRAY] = "is_array",
		[RF_RP_Q_IS_OBJECT] = "is_object", [RF_RP_Q_MEMBER] = "internal.member_2",
	};

	for (uint8_t i = RF_RP_CALLED + 1; i < RF_COUNT(names); i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	return RF_RP_CALLED;
}

static struct rf_rp_expr *call_expr(struct rf_rc *c, struct rf_rc_term *t)
{
	struct rf_rp_expr *e = new_expr(c, t->group ? RF_RP_FUNCTION : RF_RP_BUILTIN, t->loc);

	keys_of(c, e, t->item, t->n);
	if (!t->group) {
		e->builtin = t->builtin;
		e->quick = c->rego->plain ? RF_RP_CALLED : quick_of(t->builtin->name);
		return e;
	}
	e->group = t->group;
	add_edge(c, t->group, NULL, NULL, t->loc);
	return e;
}

/* Composites of constants are made once, here. */
static struct rf_rp_expr *fold(struct rf_rc *c, struct rf_rp_expr *e)
{
	struct rf_rv *v;
	bool conflict = false;

	if (!all_const(e))
		return e;
	v = rf_arena_array(c->a, struct rf_rv, e->n + 1);
	for (uint32_t i = 0; i < e->n; i++)
		v[i] = e->item[i].value;
	if (e->kind == RF_RP_ARRAY)
		e->value = rf_rv_array(v, e->n);
	else if (e->kind == RF_RP_SET)
		e->value = rf_rv_set(v, e->n);
	else
		e->value = rf_rv_object((struct rf_rv_pair *)v, e->n / 2, &conflict);
	if (!conflict)
		e->kind = RF_RP_CONST;
	return e;
}

static struct rf_rp_expr *composite(struct rf_rc *c, struct rf_rc_term *t)
{
	enum rf_rp_kind kind = t->kind == RF_RC_ARRAY ? RF_RP_ARRAY :
			       t->kind == RF_RC_SET   ? RF_RP_SET :
							RF_RP_OBJECT;
	struct rf_rp_expr *e = new_expr(c, kind, t->loc);

	keys_of(c, e, t->item, t->n);
	return fold(c, e);
}

static struct rf_rp_expr *plain_value(struct rf_rc *c, struct rf_rc_term *t)
{
	struct rf_rp_expr *e;

	switch (t->kind) {
	case RF_RC_CONST:
		e = new_expr(c, RF_RP_CONST, t->loc);
		e->value = t->value;
		return e;
	case RF_RC_VAR:
		if (!t->var->bound)
			rf_rc_complain_unsafe_term(c, t);
		return slot_expr(c, t->var, t->loc);
	case RF_RC_INPUT:
		return new_expr(c, RF_RP_INPUT, t->loc);
	case RF_RC_DATA:
		return data_expr(c, t);
	case RF_RC_REF:
		return ref_expr(c, t);
	case RF_RC_COMP:
		return comp_expr(c, t);
	case RF_RC_CALL:
		return call_expr(c, t);
	case RF_RC_TEMPLATE:
		e = new_expr(c, RF_RP_TEMPLATE, t->loc);
		keys_of(c, e, t->item, t->n);
		return e;
	default:
		return composite(c, t);
	}
}

/* --- walking references --- */

static bool is_open(const struct rf_rc_term *key)
{
	if (key->kind == RF_RC_VAR)
		return !key->var->bound;
	for (uint32_t i = 0; (key->kind == RF_RC_ARRAY || key->kind == RF_RC_OBJECT) && i < key->n; i++)
		if (is_open(key->item[i]))
			return true;
	return false;
}

static struct rf_rc_term *temp_term(struct rf_rc *c, struct rf_rc_var *v, struct rf_ra_loc loc)
{
	struct rf_rc_term *t = rf_rc_new(c, RF_RC_VAR, loc);

	v->bound = true;
	t->var = v;
	return t;
}

static struct rf_rp_pattern *bind_to(struct rf_rc *c, const struct rf_rc_var *v)
{
	struct rf_rp_pattern *p = new_pattern(c, RF_RP_BIND);

	p->slot = v->slot;
	return p;
}

/* The part of a reference up to n. */
static struct rf_rc_term *prefix(struct rf_rc *c, struct rf_rc_term *t, uint32_t n)
{
	struct rf_rc_term *r;

	if (n == 1)
		return t->item[0];
	r = rf_rc_new(c, RF_RC_REF, t->loc);
	r->item = t->item;
	r->n = n;
	return r;
}

static struct rf_rc_term *hoist(struct rf_rc *c, struct rf_rc_term *t);

static struct rf_rc_term *hoist_ref(struct rf_rc *c, struct rf_rc_term *t)
{
	uint32_t i = 1;
	struct rf_rc_var *v;
	struct rf_rp_step *s;
	struct rf_rp_expr *domain;
	struct rf_rc_term *rest;

	while (i < t->n && !is_open(t->item[i]))
		i++;
	if (i == t->n)
		return t;
	domain = rf_rc_value(c, prefix(c, t, i));
	v = rf_rc_temp(c);
	s = emit(c, RF_RP_EACH, t->loc);
	s->expr = domain;
	s->key = rf_rc_pattern(c, t->item[i]);
	s->pattern = bind_to(c, v);
	if (i + 1 == t->n)
		return temp_term(c, v, t->loc);
	rest = rf_rc_new(c, RF_RC_REF, t->loc);
	rest->n = t->n - i;
	rest->item = rf_arena_array(c->a, struct rf_rc_term *, rest->n);
	rest->item[0] = temp_term(c, v, t->loc);
	memcpy(rest->item + 1, t->item + i + 1, (rest->n - 1) * sizeof(*rest->item));
	return hoist(c, rest);
}

static struct rf_rc_term *hoist_relation(struct rf_rc *c, struct rf_rc_term *t)
{
	struct rf_rc_var *v = rf_rc_temp(c);
	struct rf_rp_expr *call = plain_value(c, t);
	struct rf_rp_step *s = emit(c, RF_RP_EACH_ANSWER, t->loc);

	s->expr = call;
	s->pattern = bind_to(c, v);
	return temp_term(c, v, t->loc);
}

static bool keys_ready(const struct rf_rc_term *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const struct rf_rc_term *k = t->item[i];

		if (i > 0 && (k->kind == RF_RC_VAR || k->kind == RF_RC_ARRAY || k->kind == RF_RC_OBJECT) ?
			    !rf_rc_ready_pattern(k) :
			    !rf_rc_ready_value(k))
			return false;
	}
	return true;
}

static struct rf_rc_term *copy_of(struct rf_rc *c, const struct rf_rc_term *t)
{
	struct rf_rc_term *same = rf_arena_new(c->a, struct rf_rc_term);

	*same = *t;
	same->item = rf_arena_array(c->a, struct rf_rc_term *, t->n);
	memcpy(same->item, t->item, t->n * sizeof(*t->item));
	return same;
}

/* Rules, functions and comprehensions are in it: computing it may be an error. */
static bool may_fail(const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_CALL || t->kind == RF_RC_COMP || t->kind == RF_RC_DATA)
		return true;
	for (uint32_t i = 0; i < t->n; i++)
		if (may_fail(t->item[i]))
			return true;
	return false;
}

static bool may_fail_in(const struct rf_rc_term *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (may_fail(t->item[i]))
			return true;
	return false;
}

static bool walks(const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_COMP)
		return false;
	if (rf_rc_iterates(t))
		return true;
	for (uint32_t i = 0; i < t->n; i++)
		if (walks(t->item[i]))
			return true;
	return false;
}

static struct rf_rc_term *computed(struct rf_rc *c, struct rf_rc_term *t)
{
	struct rf_rp_expr *value = rf_rc_value(c, t);
	struct rf_rc_var *v = rf_rc_temp(c);
	struct rf_rp_step *s = emit(c, RF_RP_MATCH, t->loc);

	s->expr = value;
	s->pattern = bind_to(c, v);
	return temp_term(c, v, t->loc);
}

/* Operands are computed from the left, as in OPA: one that may be an error comes before the walks in those behind it,
 * which may find nothing. */
static struct rf_rc_term *before_walks(struct rf_rc *c, struct rf_rc_term *t)
{
	return !may_fail(t) || walks(t) || !rf_rc_ready_value(t) ? t : computed(c, t);
}

enum { SEEN_NOTHING, SEEN_REF, SEEN_ERROR };

static int seen_in(const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_COMP || t->kind == RF_RC_DATA || (t->kind == RF_RC_REF && t->item[0]->kind == RF_RC_DATA))
		return SEEN_ERROR;
	return t->kind == RF_RC_REF ? SEEN_REF : SEEN_NOTHING;
}

/* A call after what was seen: one may be an error, the other undefined. */
static bool must_be_first(const struct rf_rc_term *call, int seen)
{
	bool matters = seen == SEEN_ERROR || (seen == SEEN_REF && (call->group || may_fail_in(call)));

	return matters && rf_rc_ready_value(call);
}

/* OPA computes calls before the expression that they are operands of, and so before its references. */
static struct rf_rc_term *calls_first(struct rf_rc *c, struct rf_rc_term *t, int *seen)
{
	const struct rf_rc_term *before = t;

	*seen = RF_MAX(*seen, seen_in(t));
	for (uint32_t i = 0; t->kind != RF_RC_COMP && t->kind != RF_RC_REF && i < t->n; i++) {
		struct rf_rc_term *item = t->item[i], *h;

		if (item->kind != RF_RC_CALL)
			h = calls_first(c, item, seen);
		else
			h = must_be_first(item, *seen) ? computed(c, item) : item;
		if (h == item)
			continue;
		if (t == before)
			t = copy_of(c, t);
		t->item[i] = h;
	}
	return t;
}

/* How many of its operands come before the last one with a walk. */
static uint32_t n_before_walks(const struct rf_rc_term *t)
{
	uint32_t n = t->kind == RF_RC_REF ? 0 : t->n;

	while (n > 0 && !walks(t->item[n - 1]))
		n--;
	return n > 0 ? n - 1 : 0;
}

/* Emits the walks inside t and puts what they found in their places. What is not ready yet (its head
 * comes from another walk of the same expression) is left for the next round. */
static struct rf_rc_term *hoist(struct rf_rc *c, struct rf_rc_term *t)
{
	if (!t || t->kind == RF_RC_COMP || t->kind == RF_RC_VAR || t->kind == RF_RC_CONST)
		return t;
	const struct rf_rc_term *before = t;
	uint32_t n_before = n_before_walks(t);

	c->n_tried += t->n;
	for (uint32_t i = 0; i < t->n; i++) {
		struct rf_rc_term *h = hoist(c, t->item[i]);

		if (i < n_before)
			h = before_walks(c, h);
		if (h == t->item[i])
			continue;
		if (t == before)
			t = copy_of(c, t);
		t->item[i] = h;
	}
	if (!rf_rc_iterates(t) || !keys_ready(t))
		return t;
	return t->kind == RF_RC_CALL ? hoist_relation(c, t) : hoist_ref(c, t);
}

static struct rf_rc_term *hoist_all(struct rf_rc *c, struct rf_rc_term *t)
{
	struct rf_rc_term *before;
	int seen = SEEN_NOTHING;

	t = calls_first(c, t, &seen);
	do {
		before = t;
		t = hoist(c, t);
	} while (t != before && !rf_rc_tried(c, t->loc));
	return t;
}

struct rf_rp_expr *rf_rc_value(struct rf_rc *c, struct rf_rc_term *t)
{
	return plain_value(c, hoist_all(c, t));
}

struct rf_rp_expr *rf_rc_head_value(struct rf_rc *c, struct rf_rc_term *t)
{
	return rf_rc_value(c, t->late && t->late->var->bound ? t->late : t);
}

/* --- patterns --- */

struct rf_rp_pattern *rf_rc_pattern(struct rf_rc *c, struct rf_rc_term *t)
{
	struct rf_rp_pattern *p;

	if (t->kind == RF_RC_VAR && !t->var->bound) {
		if (t->var->wild)
			return new_pattern(c, RF_RP_ANY);
		t->var->bound = true;
		return bind_to(c, t->var);
	}
	if (!is_open(t)) {
		p = new_pattern(c, RF_RP_EQUAL);
		p->expr = rf_rc_value(c, t);
		return p;
	}
	p = new_pattern(c, t->kind == RF_RC_ARRAY ? RF_RP_PARTS : RF_RP_FIELDS);
	p->n = t->kind == RF_RC_ARRAY ? t->n : t->n / 2;
	p->part = rf_arena_array(c->a, struct rf_rp_pattern, p->n + 1);
	p->key = rf_arena_array(c->a, struct rf_rp_expr, p->n + 1);
	for (uint32_t i = 0; i < p->n; i++) {
		if (t->kind == RF_RC_OBJECT)
			p->key[i] = *rf_rc_value(c, t->item[2 * i]);
		p->part[i] = *rf_rc_pattern(c, t->item[t->kind == RF_RC_ARRAY ? i : 2 * i + 1]);
	}
	return p;
}

/* --- goals --- */

static void gen_eq(struct rf_rc *c, struct rf_rc_goal *g)
{
	bool call = g->b->kind == RF_RC_CALL && must_be_first(g->b, seen_in(g->a));
	struct rf_rc_term *right = call ? computed(c, g->b) : g->b;
	struct rf_rc_term *first = hoist_all(c, g->a);
	struct rf_rc_term *a = walks(right) ? before_walks(c, first) : first;
	struct rf_rc_term *b = hoist_all(c, right);
	bool left = rf_rc_ready_value(a) && rf_rc_ready_pattern(b);
	struct rf_rp_expr *value = rf_rc_value(c, left ? a : b);
	struct rf_rp_pattern *pattern = rf_rc_pattern(c, left ? b : a);
	struct rf_rp_step *s = emit(c, RF_RP_MATCH, g->loc);

	s->expr = value;
	s->pattern = pattern;
}

static void gen_each(struct rf_rc *c, struct rf_rc_goal *g)
{
	struct rf_rp_expr *domain = rf_rc_value(c, g->b);
	struct rf_rp_pattern *key = g->key ? rf_rc_pattern(c, g->key) : NULL;
	struct rf_rp_pattern *value = rf_rc_pattern(c, g->a);
	struct rf_rp_step *s = emit(c, RF_RP_EACH, g->loc);

	s->expr = domain;
	s->key = key;
	s->pattern = value;
}

static void gen_every(struct rf_rc *c, struct rf_rc_goal *g)
{
	struct rf_rp_expr *domain = rf_rc_value(c, g->b);
	struct rf_rp_step *s = emit(c, RF_RP_EVERY, g->loc);

	s->expr = domain;
	s->key = g->key ? rf_rc_pattern(c, g->key) : NULL;
	s->pattern = rf_rc_pattern(c, g->a);
	s->body = body_of(c, g->body);
}

/* A query's expressions have their values as answer. If it is one without alternatives, be it false. */
static bool keeps_value(const struct rf_rc *c, const struct rf_rc_goal *g)
{
	return c->value_slot && g->expr && g->n_with == 0;
}

static struct rf_rc_var *keep(struct rf_rc *c, const struct rf_rc_goal *g, struct rf_rp_expr *e)
{
	struct rf_rc_var *v = rf_rc_temp(c);
	struct rf_rp_step *s = emit(c, RF_RP_MATCH, g->loc);

	s->expr = e;
	s->pattern = bind_to(c, v);
	c->value_slot[g->expr - 1] = v->slot;
	return v;
}

static void gen_goal(struct rf_rc *c, struct rf_rc_goal *g)
{
	struct rf_rp_step *s, **before = c->tail;
	struct rf_rp_expr *e;

	switch (g->kind) {
	case RF_RC_TEST:
		e = rf_rc_value(c, g->a);
		if (keeps_value(c, g)) {
			bool walks = c->tail != before;
			struct rf_rc_var *v = keep(c, g, e);

			if (c->n_values == 1 && !walks)
				break;
			c->last[c->n_last++] = v; /* OPA looks at it when all have their values */
			break;
		}
		s = emit(c, RF_RP_TEST, g->loc);
		s->expr = e;
		break;
	case RF_RC_EQ:
		gen_eq(c, g);
		break;
	case RF_RC_EACH:
		gen_each(c, g);
		break;
	case RF_RC_EVERY:
		gen_every(c, g);
		break;
	case RF_RC_NOT:
		s = emit(c, RF_RP_NOT, g->loc);
		s->body = body_of(c, g->body);
		break;
	case RF_RC_EITHER:
	case RF_RC_BOTH:
		s = emit(c, g->kind == RF_RC_EITHER ? RF_RP_EITHER : RF_RP_BOTH, g->loc);
		s->body = body_of(c, g->body);
		s->other = body_of(c, g->other);
		break;
	}
}

/* The values are computed outside of what they replace. */
static void gen_with(struct rf_rc *c, struct rf_rc_goal *g)
{
	struct rf_rp_with *with = rf_arena_array(c->a, struct rf_rp_with, g->n_with);
	struct rf_rp_step *s, **kept;

	for (uint32_t i = 0; i < g->n_with; i++) {
		with[i] = g->with[i].to;
		if (g->with[i].value)
			with[i].value = rf_rc_value(c, g->with[i].value);
		if (with[i].by_function)
			add_edge(c, with[i].by_function, NULL, NULL, g->loc);
	}
	s = emit(c, RF_RP_WITH, g->loc);
	s->with = with;
	s->n = g->n_with;
	kept = c->tail;
	c->tail = &s->body;
	gen_goal(c, g);
	c->tail = kept;
}

/* --- marks --- */

static uint32_t new_spot(struct rf_rc *c, struct rf_ra_loc loc, bool optional)
{
	struct rf_rego *r = c->rego;

	if (r->n_spots == r->room_spots) {
		uint32_t room = r->room_spots ? 2 * r->room_spots : 256;
		struct rf_rego_spot *more = rf_arena_array(&r->arena, struct rf_rego_spot, room);

		if (r->n_spots)
			memcpy(more, r->spot, r->n_spots * sizeof(*more));
		r->spot = more;
		r->room_spots = room;
	}
	r->spot[r->n_spots] = (struct rf_rego_spot){ c->module, loc, optional };
	return r->n_spots++;
}

static void mark(struct rf_rc *c, struct rf_ra_loc loc, bool optional)
{
	if (c->rego->covered && c->group)
		emit(c, RF_RP_MARK, loc)->n = new_spot(c, loc, optional);
}

/* A head counts if the rule gave a value, so that is computed before. */
void rf_rc_mark_head(struct rf_rc *c, struct rf_ra_loc loc, struct rf_rp_rule *rule)
{
	if (!c->rego->covered)
		return;
	if (rule->value->kind != RF_RP_CONST && rule->value->kind != RF_RP_SLOT) {
		struct rf_rc_var *v = rf_rc_temp(c);
		struct rf_rp_step *s = emit(c, RF_RP_MATCH, loc);

		s->expr = rule->value;
		s->pattern = bind_to(c, v);
		rule->value = slot_expr(c, v, loc);
	}
	mark(c, loc, false);
}

static void generate_goal(struct rf_rc *c, struct rf_rc_goal *g)
{
	g->done = true;
	g->order = c->n_ordered++;
	if (g->late)
		g->a->var->slot = c->n_slots++;
	else
		mark(c, g->loc, g->kind == RF_RC_EACH); /* OPA does not miss `some x in y` */
	if (g->n_with)
		gen_with(c, g);
	else
		gen_goal(c, g);
}

/* All goals that can come next; late: only the first of those that belong to the head. False: there was none. */
static bool generate_ready(struct rf_rc *c, struct rf_rc_body *b, bool late)
{
	bool any = false;

	for (uint32_t i = 0; i < b->n && !(late && any); i++) {
		struct rf_rc_goal *g = &b->goal[i];

		if (g->done || g->late != late)
			continue;
		if (rf_rc_tried(c, g->loc))
			return false;
		if (!rf_rc_ready(g))
			continue;
		generate_goal(c, g);
		any = true;
	}
	return any;
}

static bool all_done(const struct rf_rc_body *b)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (!b->goal[i].done && !b->goal[i].late)
			return false;
	return true;
}

void rf_rc_generate(struct rf_rc *c, struct rf_rc_body *b)
{
	while (!all_done(b) && (generate_ready(c, b, false) || generate_ready(c, b, true)))
		;
	if (c->n_tried > RF_RC_TRIES_MAX + c->more_tries)
		return; /* it has been told */
	for (uint32_t i = 0; i < b->n; i++)
		if (!b->goal[i].done && !b->goal[i].late)
			rf_rc_complain_unsafe(c, &b->goal[i]);
}

void rf_rc_generate_query(struct rf_rc *c, struct rf_rc_body *b)
{
	c->last = rf_arena_array(c->a, struct rf_rc_var *, b->n + 1);
	rf_rc_generate(c, b);
	for (uint32_t i = 0; i < c->n_last; i++) {
		struct rf_rp_step *s = emit(c, RF_RP_TEST, (struct rf_ra_loc){ .row = 1 });

		s->expr = slot_expr(c, c->last[i], (struct rf_ra_loc){ .row = 1 });
	}
}
