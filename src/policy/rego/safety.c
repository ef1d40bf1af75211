/* Whether a body is safe, by OPA's own rule: what OPA refuses is refused, so that a policy that passes here runs there.
 *
 * OPA cuts a body into small expressions (each call by itself, its result in a new variable), then takes them one after the
 * other, each as soon as all of its variables have values: from those that were taken before, or from itself.
 * A variable that a closure (a comprehension, every) shares with the body counts as one that the expression around it
 * needs. One refusal surprises: `input.a[i] != [1 | i > 1]` is unsafe wherever i comes from, since the closure's variables are just those
 * that the references beside it can give. Written as `xs := [1 | i > 1]; input.a[i] != xs` it is safe.
 *
 * The order that generate.c finds may be another one: it only has to be as good. */
#include "policy/rego/compile.h"

struct vars {
	struct rf_rc_var **v;
	uint32_t n, room;
};

enum piece_kind { PIECE_TERM, PIECE_EQ, PIECE_CALL, PIECE_CLOSURE };

struct piece {
	enum piece_kind kind;
	bool negated, assigned, taken;
	struct rf_ra_loc loc;
	struct rf_rc_term **term; /* EQ: two; CALL: operands, then what takes the result */
	uint32_t n, n_in;
	struct rf_rc_term **with;
	uint32_t n_with;
	const struct rf_rc_said *said; /* of a closure that is an expression by itself */
	struct vars visible, closed;   /* outside of closures; of outer scopes, inside of them */
	struct piece *next;
};

struct safety {
	struct rf_rc *c;
	struct rf_arena *a;
	uint32_t stamp;
	bool told;
};

/* One body. */
struct pieces {
	struct safety *s;
	struct piece *first, **tail;
	struct rf_rc_term **with; /* of the expression that is being cut */
	uint32_t n_with;
	uint32_t mark; /* of variables that are visible in it */
	struct vars globals; /* made so in here */
	const struct rf_rc_term **result; /* of a head or a comprehension */
	uint32_t n_results;
	bool query; /* whose expressions have values, each in a variable */
	struct vars called; /* what the last call that was looked at gives */
	bool has_every;
};

static void add(struct safety *s, struct vars *l, struct rf_rc_var *v)
{
	if (l->n == l->room) {
		uint32_t room = l->room ? 2 * l->room : 4;
		struct rf_rc_var **more = rf_arena_array(s->a, struct rf_rc_var *, room);

		if (l->n)
			memcpy(more, l->v, l->n * sizeof(struct rf_rc_var *));
		l->v = more;
		l->room = room;
	}
	l->v[l->n++] = v;
}

static void add_new(struct safety *s, struct vars *l, struct rf_rc_var *v, uint32_t stamp)
{
	if (v->seen == stamp)
		return;
	v->seen = stamp;
	add(s, l, v);
}

static bool is_global(const struct rf_rc_var *v)
{
	return v->bound || v->global;
}

/* --- cutting --- */

static struct rf_rc_term *temp(struct safety *s, struct rf_ra_loc loc)
{
	struct rf_rc_term *t = rf_arena_new(s->a, struct rf_rc_term);

	t->kind = RF_RC_VAR;
	t->loc = loc;
	t->var = rf_arena_new(s->a, struct rf_rc_var);
	t->var->made = true;
	return t;
}

static struct piece *add_piece(struct pieces *p, enum piece_kind kind, struct rf_ra_loc loc, uint32_t n)
{
	struct piece *e = rf_arena_new(p->s->a, struct piece);

	e->kind = kind;
	e->loc = loc;
	e->n = e->n_in = n;
	e->term = rf_arena_array(p->s->a, struct rf_rc_term *, n + 1);
	e->with = p->with;
	e->n_with = p->n_with;
	*p->tail = e;
	p->tail = &e->next;
	return e;
}

static struct rf_rc_term *named(struct pieces *p, struct rf_rc_term *t)
{
	struct rf_rc_term *v = temp(p->s, t->loc);
	struct piece *e = add_piece(p, PIECE_EQ, t->loc, 2);

	e->term[0] = v;
	e->term[1] = t;
	return v;
}

static struct rf_rc_term *cut(struct pieces *p, struct rf_rc_term *t);

static struct rf_rc_term *cut_call(struct pieces *p, const struct rf_rc_term *t)
{
	struct rf_rc_term **item = rf_arena_array(p->s->a, struct rf_rc_term *, t->n + 1);
	struct rf_rc_term *v;
	struct piece *e;

	for (uint32_t i = 0; i < t->n; i++)
		item[i] = cut(p, t->item[i]);
	v = temp(p->s, t->loc);
	e = add_piece(p, PIECE_CALL, t->loc, t->n + 1);
	memcpy(e->term, item, t->n * sizeof(*item));
	e->term[t->n] = v;
	e->n_in = t->n;
	return v;
}

/* {v | v = t}: so OPA has the parts of a template that are more than a variable. */
static struct rf_rc_term *part_of_template(struct safety *s, struct rf_rc_term *t)
{
	struct rf_rc_term *r;
	struct rf_rc_said *said;

	if (t->kind == RF_RC_VAR || t->kind == RF_RC_CONST || t->kind == RF_RC_COMP)
		return t;
	r = rf_arena_new(s->a, struct rf_rc_term);
	said = rf_arena_new(s->a, struct rf_rc_said);
	r->kind = RF_RC_COMP;
	r->loc = t->loc;
	r->term = temp(s, t->loc);
	r->body = rf_arena_new(s->a, struct rf_rc_body);
	r->body->said = said;
	r->body->n_said = 1;
	*said = (struct rf_rc_said){ .kind = RF_RC_SAID_EQ, .loc = t->loc, .a = r->term, .b = t };
	return r;
}

static struct rf_rc_term *cut_template(struct pieces *p, const struct rf_rc_term *t)
{
	struct piece *e = add_piece(p, PIECE_CALL, t->loc, t->n + 1);

	for (uint32_t i = 0; i < t->n; i++)
		e->term[i] = part_of_template(p->s, t->item[i]);
	e->n_in = t->n;
	return e->term[t->n] = temp(p->s, t->loc);
}

static bool is_composite(const struct rf_rc_term *t)
{
	return t->kind == RF_RC_ARRAY || t->kind == RF_RC_SET || t->kind == RF_RC_OBJECT || t->kind == RF_RC_COMP ||
	       (t->kind == RF_RC_CONST && t->value.type >= RF_RV_ARRAY);
}

/* The term with a variable in the place of each call, which becomes a piece of its own. */
static struct rf_rc_term *cut(struct pieces *p, struct rf_rc_term *t)
{
	struct rf_rc_term *r;

	if (t->kind == RF_RC_CALL)
		return cut_call(p, t);
	if (t->kind == RF_RC_TEMPLATE)
		return cut_template(p, t);
	if (t->kind == RF_RC_COMP || t->n == 0)
		return t;
	r = rf_arena_new(p->s->a, struct rf_rc_term);
	*r = *t;
	r->item = rf_arena_array(p->s->a, struct rf_rc_term *, t->n);
	for (uint32_t i = 0; i < t->n; i++)
		r->item[i] = cut(p, t->item[i]);
	if (r->kind == RF_RC_REF && is_composite(r->item[0]))
		r->item[0] = named(p, r->item[0]);
	return r;
}

static bool must_be_computed(const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_REF || t->kind == RF_RC_INPUT || t->kind == RF_RC_DATA || t->kind == RF_RC_COMP)
		return true;
	for (uint32_t i = 0; i < t->n; i++)
		if (must_be_computed(t->item[i]))
			return true;
	return false;
}

/* What a head or a comprehension gives: its calls and references belong to the body. */
static struct rf_rc_term *cut_result(struct pieces *p, struct rf_rc_term *t)
{
	t = cut(p, t);
	return must_be_computed(t) ? named(p, t) : t;
}

static void cut_withs(struct pieces *p, const struct rf_rc_said *said)
{
	struct rf_rc_term **with = rf_arena_array(p->s->a, struct rf_rc_term *, said->n_with + 1);
	uint32_t n = 0;

	for (uint32_t i = 0; i < said->n_with; i++)
		if (said->with[i])
			with[n++] = cut_result(p, said->with[i]);
	p->with = with;
	p->n_with = n;
}

static void cut_said(struct pieces *p, const struct rf_rc_said *said)
{
	struct rf_rc_term *a = said->a, *b = said->b;
	struct piece *e;

	cut_withs(p, said);
	switch (said->kind) {
	case RF_RC_SAID_TERM:
		if (p->query && !said->negated && !b)
			b = temp(p->s, said->loc);
		if (a->kind == RF_RC_CALL) {
			struct rf_rc_term **item = rf_arena_array(p->s->a, struct rf_rc_term *, a->n + 2);
			uint32_t n = a->n + (b != NULL);

			for (uint32_t i = 0; i < n; i++)
				item[i] = cut(p, i < a->n ? a->item[i] : b);
			e = add_piece(p, PIECE_CALL, said->loc, n);
			e->term = item;
			e->n_in = a->n;
			break;
		}
		a = cut(p, a);
		e = add_piece(p, b ? PIECE_EQ : PIECE_TERM, said->loc, 1 + (b != NULL));
		e->term[0] = a;
		e->term[1] = b;
		break;
	case RF_RC_SAID_EQ:
		a = cut(p, a);
		b = cut(p, b);
		e = add_piece(p, PIECE_EQ, said->loc, 2);
		e->term[0] = a;
		e->term[1] = b;
		break;
	case RF_RC_SAID_CLOSURE:
		a = a ? named(p, cut(p, a)) : NULL;
		e = add_piece(p, PIECE_CLOSURE, said->loc, a != NULL);
		e->term[0] = a;
		e->said = said;
		break;
	default: /* RF_RC_SAID_INSIDE: nothing of it is computed outside */
		e = add_piece(p, PIECE_TERM, said->loc, 1 + (b != NULL));
		e->term[0] = a;
		e->term[1] = b;
		break;
	}
	e->negated = said->negated;
	e->assigned = said->assigned;
	p->with = NULL;
	p->n_with = 0;
}

/* --- variables of terms --- */

enum which {
	ALL = 0,
	NO_HEADS = 1,  /* of references */
	NO_KEYS = 2,   /* of objects */
	NO_SETS = 4,
	CLOSURES_TOO = 8,
};

static void closed_vars(struct safety *s, const struct rf_rc_term *comp, struct vars *l, uint32_t stamp);

static void vars_of(struct safety *s, const struct rf_rc_term *t, unsigned which, struct vars *l, uint32_t stamp)
{
	uint32_t from = t->kind == RF_RC_REF && (which & NO_HEADS), step = 1;

	if (t->kind == RF_RC_VAR || (t->kind == RF_RC_CONST && t->held))
		add_new(s, l, t->var, stamp);
	if (t->kind == RF_RC_COMP && (which & CLOSURES_TOO))
		closed_vars(s, t, l, stamp);
	if (t->kind == RF_RC_COMP || (t->kind == RF_RC_SET && (which & NO_SETS)))
		return;
	if (t->kind == RF_RC_OBJECT && (which & NO_KEYS)) {
		from = 1;
		step = 2;
	}
	for (uint32_t i = from; i < t->n; i += step)
		vars_of(s, t->item[i], which, l, stamp);
}

static void closed_vars(struct safety *s, const struct rf_rc_term *comp, struct vars *l, uint32_t stamp)
{
	for (uint32_t i = 0; comp->scope && i < comp->scope->n_outer; i++)
		add_new(s, l, comp->scope->outer[i], stamp);
	if (!comp->scope) /* a template's */
		vars_of(s, comp->body->said->b, CLOSURES_TOO, l, stamp);
}

static void closures_in(struct safety *s, const struct rf_rc_term *t, struct vars *l, uint32_t stamp)
{
	if (t->kind == RF_RC_COMP) {
		closed_vars(s, t, l, stamp);
		return;
	}
	for (uint32_t i = 0; i < t->n; i++)
		closures_in(s, t->item[i], l, stamp);
}

static void scope_vars(struct safety *s, const struct rf_rc_scope *scope, struct vars *l, uint32_t stamp)
{
	for (uint32_t i = 0; scope && i < scope->n_outer; i++)
		add_new(s, l, scope->outer[i], stamp);
}

static void look_at(struct safety *s, struct piece *e)
{
	uint32_t stamp = ++s->stamp;

	for (uint32_t i = 0; i < e->n; i++)
		vars_of(s, e->term[i], ALL, &e->visible, stamp);
	for (uint32_t i = 0; i < e->n_with; i++)
		vars_of(s, e->with[i], ALL, &e->visible, stamp);
	stamp = ++s->stamp;
	for (uint32_t i = 0; i < e->n; i++)
		closures_in(s, e->term[i], &e->closed, stamp);
	if (e->said) {
		scope_vars(s, e->said->scope, &e->closed, stamp);
		scope_vars(s, e->said->other_scope, &e->closed, stamp);
	}
}

/* --- what an expression gives --- */

struct giving {
	struct safety *s;
	struct vars given;
	uint32_t mark; /* v->out == mark: given */
	uint32_t left; /* v->left == left: not to be used, being on the left of := */
	bool more; /* variables that are nobody else's */
	bool unused; /* it was not looked at */
	struct vars refs; /* given by references, whether or not the rest can be computed */
};

static void give(struct giving *g, struct rf_rc_var *v)
{
	if (v->out == g->mark)
		return;
	v->out = g->mark;
	add(g->s, &g->given, v);
}

static bool safe_head(const struct rf_rc_term *ref)
{
	const struct rf_rc_term *head = ref->kind == RF_RC_REF ? ref->item[0] : ref;

	return head->kind != RF_RC_VAR || head->var->safe;
}

static bool own_vars(const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_COMP)
		return !t->scope || t->scope->vars;
	for (uint32_t i = 0; i < t->n; i++)
		if (own_vars(t->item[i]))
			return true;
	return false;
}

static void given_by_refs(struct giving *g, const struct rf_rc_term *t)
{
	struct vars l = { 0 };

	if (t->kind == RF_RC_COMP)
		return;
	if (t->kind != RF_RC_REF) {
		for (uint32_t i = 0; i < t->n; i++)
			given_by_refs(g, t->item[i]);
		return;
	}
	if (!safe_head(t))
		return;
	vars_of(g->s, t, NO_HEADS | CLOSURES_TOO, &l, ++g->s->stamp);
	for (uint32_t i = 0; i < l.n; i++)
		give(g, l.v[i]);
	for (uint32_t i = 1; i < t->n; i++)
		g->more = g->more || own_vars(t->item[i]);
}

/* --- `=` --- */

struct unifying {
	struct giving *g;
	struct {
		struct rf_rc_var *owner, *needs; /* needs NULL: done */
	} *unknown;
	uint32_t n, room;
	struct vars todo;
};

/* A value before the two sides are held together. */
static bool had(const struct unifying *u, const struct rf_rc_var *v)
{
	return (v->safe || v->out == u->g->mark) && v->left != u->g->left;
}

static bool known(const struct unifying *u, const struct rf_rc_var *v)
{
	return had(u, v) || v->unified == u->g->mark;
}

static bool known_ref(const struct unifying *u, const struct rf_rc_term *t)
{
	const struct rf_rc_term *head = t->kind == RF_RC_REF ? t->item[0] : t;

	return head->kind != RF_RC_VAR || had(u, head->var);
}

static void unknown(struct unifying *u, struct rf_rc_var *owner, struct rf_rc_var *needs)
{
	if (u->n == u->room) {
		uint32_t room = u->room ? 2 * u->room : 8;
		void *more = rf_arena_alloc(u->g->s->a, room * sizeof(*u->unknown));

		if (u->n)
			memcpy(more, u->unknown, u->n * sizeof(*u->unknown));
		u->unknown = more;
		u->room = room;
	}
	u->unknown[u->n].owner = owner;
	u->unknown[u->n++].needs = needs;
}

static bool needs_more(const struct unifying *u, const struct rf_rc_var *owner)
{
	for (uint32_t i = 0; i < u->n; i++)
		if (u->unknown[i].owner == owner && u->unknown[i].needs)
			return true;
	return false;
}

static void follow(struct unifying *u, const struct rf_rc_var *v)
{
	u->g->s->c->n_checked += u->n;
	for (uint32_t i = 0; i < u->n; i++) {
		struct rf_rc_var *needs = u->unknown[i].needs;

		if (!needs || (u->unknown[i].owner != v && needs != v))
			continue;
		u->unknown[i].needs = NULL;
		if (u->unknown[i].owner == v)
			add(u->g->s, &u->todo, needs);
		else if (!needs_more(u, u->unknown[i].owner))
			add(u->g->s, &u->todo, u->unknown[i].owner);
	}
}

static void unified(struct unifying *u, struct rf_rc_var *v)
{
	add(u->g->s, &u->todo, v);
	while (u->todo.n > 0) {
		v = u->todo.v[--u->todo.n];
		if (v->unified == u->g->mark)
			continue;
		v->unified = u->g->mark;
		follow(u, v);
	}
}

static void all_unified(struct unifying *u, const struct rf_rc_term *t)
{
	struct vars l = { 0 };

	vars_of(u->g->s, t, NO_HEADS | NO_KEYS, &l, ++u->g->s->stamp);
	for (uint32_t i = 0; i < l.n; i++)
		unified(u, l.v[i]);
}

static void unify_var(struct unifying *u, struct rf_rc_var *v, const struct rf_rc_term *t)
{
	struct vars l = { 0 };
	bool any = false;

	if (known(u, v)) {
		all_unified(u, t);
		return;
	}
	vars_of(u->g->s, t, NO_HEADS | NO_KEYS, &l, ++u->g->s->stamp);
	for (uint32_t i = 0; i < l.n; i++) {
		if (known(u, l.v[i]))
			continue;
		unknown(u, v, l.v[i]);
		any = true;
	}
	if (!any)
		unified(u, v);
}

static bool is_array(const struct rf_rc_term *t)
{
	return t->kind == RF_RC_ARRAY || (t->kind == RF_RC_CONST && t->value.type == RF_RV_ARRAY);
}

static bool is_object(const struct rf_rc_term *t)
{
	return t->kind == RF_RC_OBJECT || (t->kind == RF_RC_CONST && t->value.type == RF_RV_OBJECT);
}

static uint32_t length(const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_CONST)
		return t->value.n;
	return t->kind == RF_RC_OBJECT ? t->n / 2 : t->n;
}

static struct rf_rc_term constant(struct rf_rv v)
{
	return (struct rf_rc_term){ .kind = RF_RC_CONST, .value = v };
}

static void unify(struct unifying *u, struct rf_rc_term *a, struct rf_rc_term *b);

static void unify_arrays(struct unifying *u, struct rf_rc_term *a, struct rf_rc_term *b)
{
	uint32_t n = length(a);

	if (n != length(b) || (a->kind == RF_RC_CONST && b->kind == RF_RC_CONST))
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct rf_rc_term ca = { 0 }, cb = { 0 };

		if (a->kind == RF_RC_CONST)
			ca = constant(a->value.items[i]);
		if (b->kind == RF_RC_CONST)
			cb = constant(b->value.items[i]);
		unify(u, a->kind == RF_RC_CONST ? &ca : a->item[i], b->kind == RF_RC_CONST ? &cb : b->item[i]);
	}
}

static bool same_key(const struct rf_rc_term *a, const struct rf_rc_term *b)
{
	if (a->kind == RF_RC_VAR && b->kind == RF_RC_VAR)
		return a->var == b->var;
	return a->kind == RF_RC_CONST && b->kind == RF_RC_CONST && rf_rv_eq(a->value, b->value);
}

static void unify_field(struct unifying *u, const struct rf_rc_term *key, struct rf_rc_term *value,
			struct rf_rc_term *other, bool left)
{
	struct rf_rc_term c = constant(RF_RV_NIL);
	struct rf_rc_term *found = NULL;

	if (other->kind == RF_RC_CONST && key->kind == RF_RC_CONST && rf_rv_get(other->value, key->value, &c.value))
		found = &c;
	u->g->s->c->n_checked += other->n / 2;
	for (uint32_t i = 0; !found && i < other->n; i += 2)
		if (same_key(key, other->item[i]))
			found = other->item[i + 1];
	if (found)
		unify(u, left ? value : found, left ? found : value);
}

static void unify_objects(struct unifying *u, struct rf_rc_term *a, struct rf_rc_term *b)
{
	bool left = a->kind != RF_RC_CONST;
	const struct rf_rc_term *x = left ? a : b;

	if (length(a) != length(b))
		return;
	for (uint32_t i = 0; i < x->n; i += 2)
		unify_field(u, x->item[i], x->item[i + 1], left ? b : a, left);
}

static bool is_ref(const struct rf_rc_term *t)
{
	return t->kind == RF_RC_REF || t->kind == RF_RC_INPUT || t->kind == RF_RC_DATA;
}

static void unify_left_var(struct unifying *u, struct rf_rc_var *v, struct rf_rc_term *b)
{
	if (b->kind == RF_RC_VAR && !known(u, b->var) && !known(u, v)) {
		unknown(u, v, b->var);
		unknown(u, b->var, v);
	} else if (b->kind == RF_RC_VAR) {
		unified(u, known(u, b->var) ? v : b->var);
	} else if (b->kind == RF_RC_ARRAY || b->kind == RF_RC_OBJECT) {
		unify_var(u, v, b);
	} else if (!is_ref(b) || known_ref(u, b)) {
		unified(u, v);
	}
}

static void unify(struct unifying *u, struct rf_rc_term *a, struct rf_rc_term *b)
{
	if (a->kind == RF_RC_VAR) {
		unify_left_var(u, a->var, b);
	} else if (is_ref(a)) {
		if (known_ref(u, a) && (b->kind == RF_RC_VAR || is_array(b) || is_object(b)))
			all_unified(u, b);
	} else if (a->kind == RF_RC_COMP) {
		if (b->kind == RF_RC_VAR || (a->comp == RF_RA_ARRAY_COMP && is_array(b)) ||
		    (a->comp == RF_RA_OBJECT_COMP && is_object(b)))
			all_unified(u, b);
	} else if (b->kind == RF_RC_VAR) {
		if (a->kind == RF_RC_ARRAY || a->kind == RF_RC_OBJECT)
			unify_var(u, b->var, a);
		else
			unified(u, b->var);
	} else if (is_array(a)) {
		if (b->kind == RF_RC_COMP || (is_ref(b) && known_ref(u, b)))
			all_unified(u, a);
		else if (is_array(b))
			unify_arrays(u, a, b);
	} else if (is_object(a)) {
		if (is_ref(b) && known_ref(u, b))
			all_unified(u, a);
		else if (is_object(b))
			unify_objects(u, a, b);
	}
}

static void given_by_eq(struct giving *g, const struct piece *e)
{
	struct unifying u = { .g = g };
	struct vars l = { 0 }, refs;
	uint32_t n = g->given.n;

	g->left = ++g->s->stamp;
	vars_of(g->s, e->term[0], ALL, &l, ++g->s->stamp);
	for (uint32_t i = 0; e->assigned && i < l.n; i++)
		l.v[i]->left = g->left;
	unify(&u, e->term[0], e->term[1]);
	/* only what had no value counts as given */
	refs = g->given;
	g->given = (struct vars){ 0 };
	for (uint32_t i = 0; i < n; i++) {
		refs.v[i]->out = 0;
		if (!refs.v[i]->safe && refs.v[i]->left != g->left)
			give(g, refs.v[i]);
	}
	for (uint32_t i = 0; i < e->visible.n; i++)
		if (e->visible.v[i]->unified == g->mark && !e->visible.v[i]->safe)
			give(g, e->visible.v[i]);
}

static void given_by_call(struct giving *g, const struct piece *e)
{
	struct vars l = { 0 };
	uint32_t stamp = ++g->s->stamp;

	if (e->n_in == e->n)
		return;
	for (uint32_t i = 0; i < e->n_in; i++)
		vars_of(g->s, e->term[i], NO_HEADS | NO_KEYS | NO_SETS, &l, stamp);
	for (uint32_t i = 0; i < l.n; i++) {
		if (l.v[i]->safe || l.v[i]->out == g->mark)
			continue;
		for (uint32_t j = 0; j < g->given.n; j++)
			g->given.v[j]->out = 0;
		g->given = (struct vars){ 0 };
		return;
	}
	l.n = 0;
	stamp = ++g->s->stamp;
	for (uint32_t i = e->n_in; i < e->n; i++)
		vars_of(g->s, e->term[i], NO_HEADS | NO_KEYS | NO_SETS, &l, stamp);
	for (uint32_t i = 0; i < l.n; i++)
		give(g, l.v[i]);
}

static bool withs_safe(struct safety *s, const struct piece *e)
{
	struct vars l = { 0 };
	uint32_t stamp = ++s->stamp;

	for (uint32_t i = 0; i < e->n_with; i++)
		vars_of(s, e->with[i], ALL, &l, stamp);
	for (uint32_t i = 0; i < l.n; i++)
		if (!l.v[i]->safe)
			return false;
	return true;
}

static struct giving given_by(struct safety *s, const struct piece *e)
{
	struct giving g = { .s = s, .mark = ++s->stamp };

	g.unused = e->negated || !withs_safe(s, e);
	if (g.unused || e->kind == PIECE_CLOSURE)
		return g;
	for (uint32_t i = 0; i < e->n; i++)
		given_by_refs(&g, e->term[i]);
	g.refs = g.given;
	if (e->kind == PIECE_EQ)
		given_by_eq(&g, e);
	else if (e->kind == PIECE_CALL)
		given_by_call(&g, e);
	return g;
}

/* --- taking --- */

/* Variables of the body, not from outside of it, that closures in this expression use. */
static uint32_t shared(const struct pieces *p, const struct piece *e, const struct giving *g, uint32_t *ret_given,
		       uint32_t *ret_open)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->closed.n; i++) {
		const struct rf_rc_var *v = e->closed.v[i];

		if (v->in_body != p->mark || is_global(v))
			continue;
		n++;
		*ret_given += v->out == g->mark;
		*ret_open += v->out != g->mark && !v->safe;
	}
	return n;
}

static bool all_safe(const struct vars *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (!l->v[i]->safe)
			return false;
	return true;
}

/* OPA takes what the last call gave for what every gives, unless an `=` was looked at after it. So an every whose body uses just
 * these is unsafe there, and here. */
static void note_called(struct pieces *p, const struct piece *e, struct giving *g)
{
	if (g->unused || !p->has_every)
		return;
	if (e->kind == PIECE_EQ)
		p->called.n = 0;
	if (e->kind == PIECE_CALL)
		p->called = g->given.n ? g->given : g->refs;
	if (e->kind == PIECE_CLOSURE && e->said->every)
		for (uint32_t i = 0; i < p->called.n; i++)
			give(g, p->called.v[i]);
}

static bool try_piece(struct pieces *p, struct piece *e)
{
	uint32_t n_closed, n_given = 0, n_open = 0;
	struct giving g;

	if (!p->has_every && e->closed.n == 0 && all_safe(&e->visible))
		return true;
	g = given_by(p->s, e);
	note_called(p, e, &g);
	n_closed = shared(p, e, &g, &n_given, &n_open);
	if (n_closed > 0 && n_given == n_closed && g.given.n == n_closed && !g.more)
		return false; /* the closure's are what the expression itself gives */
	if (n_open > 0)
		return false;
	for (uint32_t i = 0; n_closed == 0 && i < e->visible.n; i++)
		if (!e->visible.v[i]->safe && e->visible.v[i]->out != g.mark)
			return false;
	for (uint32_t i = 0; i < g.given.n; i++)
		g.given.v[i]->safe = true;
	return true;
}

static bool too_much(struct safety *s, const struct piece *e)
{
	if (++s->c->n_checked <= RF_RC_TRIES_MAX + s->c->more_tries)
		return false;
	if (!s->told)
		rf_rc_complain_tries(s->c, e->loc);
	s->told = true;
	return true;
}

/* In the order in which they are taken; what is left over comes back. */
static struct piece *take_all(struct pieces *p, struct piece **ret_left)
{
	struct piece *taken = NULL, **tail = &taken;
	bool any = true;

	while (any && p->first) {
		any = false;
		for (struct piece **at = &p->first; *at;) {
			struct piece *e = *at;

			if (too_much(p->s, e))
				return NULL;
			if (!try_piece(p, e)) {
				at = &e->next;
				continue;
			}
			*at = e->next;
			e->next = NULL;
			*tail = e;
			tail = &e->next;
			any = true;
		}
	}
	*ret_left = p->first;
	return taken;
}

/* --- telling --- */

static bool tell_vars(struct safety *s, const struct vars *l, const struct piece *e, bool closed, uint32_t mark)
{
	bool any = false;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct rf_rc_var *v = l->v[i];

		if (v->made || (closed ? v->in_body != mark || is_global(v) : v->safe || v->left == mark))
			continue;
		rf_rc_complain_var(s->c, v, e->loc);
		any = true;
	}
	return any;
}

/* What := would give a value to is told only if there is nothing else. */
static void tell(struct safety *s, const struct piece *left, uint32_t mark)
{
	struct vars assigned = { 0 };
	bool any = false;

	for (const struct piece *e = left; e; e = e->next)
		if (e->assigned)
			vars_of(s, e->term[0], ALL, &assigned, ++s->stamp);
	for (uint32_t i = 0; i < assigned.n; i++)
		assigned.v[i]->left = mark;
	for (const struct piece *e = left; e; e = e->next)
		any = tell_vars(s, &e->visible, e, false, mark) || any;
	for (const struct piece *e = left; !any && e; e = e->next)
		any = tell_vars(s, &e->closed, e, true, mark) || tell_vars(s, &e->visible, e, false, 0);
	if (!any)
		rf_ra_complain(s->c->errors, "rego_unsafe_var_error", s->c->module, left->loc, "expression is unsafe");
	s->told = true;
}

/* --- bodies --- */

static void check_pieces(struct pieces *p);

static void cut_body(struct pieces *p, const struct rf_rc_body *b)
{
	for (uint32_t i = 0; b && i < b->n_said; i++)
		cut_said(p, &b->said[i]);
}

static void check_body(struct safety *s, const struct rf_rc_body *b)
{
	struct pieces p = { .s = s };

	p.tail = &p.first;
	cut_body(&p, b);
	check_pieces(&p);
}

/* What a head or a comprehension gives must be in its body, or come from outside. */
static void check_results(struct pieces *p)
{
	for (uint32_t i = 0; i < p->n_results; i++) {
		struct vars l = { 0 };

		vars_of(p->s, p->result[i], ALL, &l, ++p->s->stamp);
		for (uint32_t j = 0; j < l.n; j++) {
			if (l.v[j]->made || l.v[j]->in_body == p->mark || is_global(l.v[j]))
				continue;
			rf_rc_complain_var(p->s->c, l.v[j], p->result[i]->loc);
			p->s->told = true;
		}
	}
}

static void check_comp(struct safety *s, const struct rf_rc_term *t)
{
	const struct rf_rc_term *result[2];
	struct pieces p = { .s = s, .result = result };

	p.tail = &p.first;
	cut_body(&p, t->body);
	if (t->key)
		result[p.n_results++] = cut_result(&p, t->key);
	result[p.n_results++] = cut_result(&p, t->term);
	check_pieces(&p);
}

static void check_term(struct safety *s, const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_COMP) {
		check_comp(s, t);
		return;
	}
	for (uint32_t i = 0; i < t->n && !s->told; i++)
		check_term(s, t->item[i]);
}

static void set_global(struct pieces *p, struct rf_rc_var *v)
{
	if (v->global)
		return;
	v->global = true;
	add(p->s, &p->globals, v);
}

static void check_closures(struct pieces *p, const struct piece *e)
{
	for (uint32_t i = 0; i < e->n && !p->s->told; i++)
		check_term(p->s, e->term[i]);
	if (!e->said || p->s->told)
		return;
	for (struct rf_rc_var *v = e->said->every ? e->said->scope->vars : NULL; v; v = v->next)
		set_global(p, v);
	check_body(p->s, e->said->body);
	if (e->said->other)
		check_body(p->s, e->said->other);
}

/* Closures are looked at one after the other, with what is known before the expression that they are in. */
static void check_pieces(struct pieces *p)
{
	struct piece *left = NULL, *taken;

	p->mark = ++p->s->stamp;
	for (struct piece *e = p->first; e; e = e->next) {
		look_at(p->s, e);
		p->has_every |= e->said && e->said->every;
		for (uint32_t i = 0; i < e->visible.n; i++)
			e->visible.v[i]->in_body = p->mark;
	}
	for (struct piece *e = p->first; e; e = e->next)
		for (uint32_t i = 0; i < e->visible.n; i++)
			e->visible.v[i]->safe = is_global(e->visible.v[i]);
	check_results(p);
	taken = take_all(p, &left);
	if (left && !p->s->told)
		tell(p->s, left, p->mark);
	for (struct piece *e = taken; e && !p->s->told; e = e->next) {
		check_closures(p, e);
		for (uint32_t i = 0; i < e->visible.n; i++)
			set_global(p, e->visible.v[i]);
	}
	for (uint32_t i = 0; i < p->globals.n; i++)
		p->globals.v[i]->global = false;
}

bool rf_rc_check_safety(struct rf_rc *c, const struct rf_rc_body *b, struct rf_rc_term **key, uint32_t n_keys,
			struct rf_rc_term *value)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct safety s = { .c = c, .a = &a, .stamp = c->stamp };
	struct pieces p = { .s = &s, .query = !c->group };

	p.result = rf_arena_array(&a, const struct rf_rc_term *, n_keys + 1);
	p.tail = &p.first;
	cut_body(&p, b);
	for (uint32_t i = 0; i < n_keys; i++) {
		if (key[i]->kind == RF_RC_VAR)
			p.result[p.n_results++] = key[i];
		else if (key[i]->kind != RF_RC_CONST)
			named(&p, cut(&p, key[i]));
	}
	if (value)
		p.result[p.n_results++] = cut_result(&p, value);
	check_pieces(&p);
	c->stamp = s.stamp;
	return !s.told;
}
