/* Names: which variable, rule, import or builtin an identifier means. */
#include "policy/rego/compile.h"

struct rf_rc_term *rf_rc_new(struct rf_rc *c, enum rf_rc_kind kind, struct rf_ra_loc loc)
{
	struct rf_rc_term *t = rf_arena_new(c->a, struct rf_rc_term);

	t->kind = kind;
	t->loc = loc;
	return t;
}

static struct rf_rc_term *string_term(struct rf_rc *c, struct rf_str s, struct rf_ra_loc loc)
{
	struct rf_rc_term *t = rf_rc_new(c, RF_RC_CONST, loc);

	t->value = rf_rv_str(s);
	return t;
}

/* --- scopes --- */

struct rf_rc_scope *rf_rc_scope(struct rf_rc *c, struct rf_rc_scope *parent, bool closure)
{
	struct rf_rc_scope *s = rf_arena_new(c->a, struct rf_rc_scope);

	s->parent = parent;
	s->closure = closure;
	return s;
}

static struct rf_rc_var *add_var(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name,
				 struct rf_ra_loc loc)
{
	struct rf_rc_var *v = rf_arena_new(c->a, struct rf_rc_var);

	*v = (struct rf_rc_var){
		.name = name, .slot = c->n_slots++, .scope = s, .loc = loc, .next = s ? s->vars : NULL
	};
	if (s)
		s->vars = v;
	return v;
}

struct rf_rc_var *rf_rc_temp(struct rf_rc *c)
{
	return add_var(c, NULL, RF_LIT("__temp__"), (struct rf_ra_loc){ 0 });
}

static struct rf_rc_var *find_here(const struct rf_rc_scope *s, struct rf_str name)
{
	for (struct rf_rc_var *v = s->vars; v; v = v->next)
		if (!v->wild && rf_str_eq(v->name, name))
			return v;
	return NULL;
}

static void note_outer(struct rf_rc *c, struct rf_rc_scope *s, struct rf_rc_var *v)
{
	for (uint32_t i = 0; i < s->n_outer; i++)
		if (s->outer[i] == v)
			return;
	if (s->n_outer == s->room_outer) {
		uint32_t room = s->room_outer ? 2 * s->room_outer : 8;
		struct rf_rc_var **more = rf_arena_array(c->a, struct rf_rc_var *, room);

		if (s->n_outer)
			memcpy(more, s->outer, s->n_outer * sizeof(*more));
		s->outer = more;
		s->room_outer = room;
	}
	s->outer[s->n_outer++] = v;
}

/* Every closure between the use and the variable's own scope needs it. */
static struct rf_rc_var *find(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name)
{
	struct rf_rc_var *v = NULL;

	for (struct rf_rc_scope *at = s; at && !v; at = at->parent)
		v = find_here(at, name);
	for (struct rf_rc_scope *at = s; v && at && at != v->scope; at = at->parent)
		if (at->closure)
			note_outer(c, at, v);
	return v;
}

static bool is_later(const struct rf_rc_scope *s, struct rf_str name)
{
	for (uint32_t i = 0; i < s->n_later; i++)
		if (rf_str_eq(s->later[i], name))
			return true;
	return false;
}

struct rf_rc_var *rf_rc_declare(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name,
				struct rf_ra_loc loc)
{
	struct rf_rc_var *v = find_here(s, name);

	if (v && v->declared)
		rf_ra_complain(c->errors, "rego_compile_error", c->module, loc, "var %.*s declared above",
			       RF_STR(name));
	else if (v)
		rf_ra_complain(c->errors, "rego_compile_error", c->module, loc,
			       "var %.*s referenced above", RF_STR(name));
	v = add_var(c, s, name, loc);
	v->declared = true;
	return v;
}

void rf_rc_declare_all(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t)
{
	switch (t->kind) {
	case RF_RA_VAR:
		if (!t->is_wild && !find_here(s, t->name))
			rf_rc_declare(c, s, t->name, t->loc);
		break;
	case RF_RA_ARRAY:
		for (uint32_t i = 0; i < t->n; i++)
			rf_rc_declare_all(c, s, t->item[i]);
		break;
	case RF_RA_OBJECT:
		for (uint32_t i = 1; i < t->n; i += 2)
			rf_rc_declare_all(c, s, t->item[i]);
		break;
	default:
		break;
	}
}

/* --- names that are not variables --- */

static bool is_keyword_import(const struct rf_ra_import *im)
{
	const struct rf_ra_term *head = im->path->kind == RF_RA_REF ? im->path->item[0] : im->path;

	return head->kind == RF_RA_VAR &&
	       (rf_str_is(head->name, "rego") || rf_str_is(head->name, "future"));
}

static struct rf_str import_name(const struct rf_ra_import *im)
{
	const struct rf_ra_term *p = im->path;

	if (im->alias.n > 0)
		return im->alias;
	if (p->kind == RF_RA_VAR)
		return p->name;
	return rf_rv_text(p->item[p->n - 1]->value);
}

static const struct rf_ra_import *find_import(const struct rf_rc *c, struct rf_str name)
{
	for (uint32_t i = 0; c->module && i < c->module->n_imports; i++) {
		const struct rf_ra_import *im = &c->module->import[i];

		if (!is_keyword_import(im) && rf_str_eq(import_name(im), name))
			return im;
	}
	return NULL;
}

/* data, its package's parts, name */
static struct rf_rc_term *rule_ref(struct rf_rc *c, struct rf_str name, struct rf_ra_loc loc)
{
	struct rf_rc_term *t = rf_rc_new(c, RF_RC_REF, loc);
	const struct rf_rego_node *n = c->package;

	t->n = c->package->depth + 2;
	t->item = rf_arena_array(c->a, struct rf_rc_term *, t->n);
	t->item[0] = rf_rc_new(c, RF_RC_DATA, loc);
	t->item[t->n - 1] = string_term(c, name, loc);
	for (uint32_t i = c->package->depth; i > 0; i--, n = n->parent)
		t->item[i] = string_term(c, n->name, loc);
	return t;
}

static bool is_rule_here(const struct rf_rc *c, struct rf_str name)
{
	const struct rf_rego_node *n = c->package ? rf_rego_child(c->package, name) : NULL;

	return n && n->has_rules && n->own;
}

static struct rf_rc_term *root(struct rf_rc *c, struct rf_str name, struct rf_ra_loc loc)
{
	if (rf_str_is(name, "input"))
		return rf_rc_new(c, RF_RC_INPUT, loc);
	return rf_str_is(name, "data") ? rf_rc_new(c, RF_RC_DATA, loc) : NULL;
}

static struct rf_rc_term *imported(struct rf_rc *c, const struct rf_ra_import *im,
				   struct rf_ra_loc loc)
{
	const struct rf_ra_term *p = im->path;
	struct rf_rc_term *t;

	if (p->kind == RF_RA_VAR)
		return root(c, p->name, loc);
	t = rf_rc_new(c, RF_RC_REF, loc);
	t->n = p->n;
	t->item = rf_arena_array(c->a, struct rf_rc_term *, p->n);
	t->item[0] = root(c, p->item[0]->name, loc);
	for (uint32_t i = 1; i < p->n; i++)
		t->item[i] = string_term(c, rf_rv_text(p->item[i]->value), loc);
	return t->item[0] ? t : NULL;
}

/* What a name means that is not a variable; NULL: it is one. */
static struct rf_rc_term *global(struct rf_rc *c, struct rf_str name, struct rf_ra_loc loc)
{
	const struct rf_ra_import *im = find_import(c, name);
	struct rf_rc_term *t = im ? imported(c, im, loc) : NULL;

	if (t)
		return t;
	if (is_rule_here(c, name))
		return rule_ref(c, name, loc);
	return root(c, name, loc);
}

static struct rf_rc_term *var_term(struct rf_rc *c, struct rf_rc_var *v, struct rf_ra_loc loc)
{
	struct rf_rc_term *t = rf_rc_new(c, RF_RC_VAR, loc);

	t->var = v;
	return t;
}

static struct rf_rc_term *name_term(struct rf_rc *c, struct rf_rc_scope *s,
				    const struct rf_ra_term *t)
{
	struct rf_rc_var *v;
	struct rf_rc_term *g;

	if (t->is_wild) {
		v = add_var(c, s, t->name, t->loc);
		v->wild = true;
		return var_term(c, v, t->loc);
	}
	v = find(c, s, t->name);
	if (v)
		return var_term(c, v, t->loc);
	if (is_later(s, t->name)) {
		rf_ra_complain(c->errors, "rego_compile_error", c->module, t->loc,
			       "var %.*s referenced above", RF_STR(t->name));
		return var_term(c, add_var(c, s, t->name, t->loc), t->loc);
	}
	g = global(c, t->name, t->loc);
	return g ? g : var_term(c, add_var(c, s, t->name, t->loc), t->loc);
}

/* --- terms --- */

static struct rf_rc_term **items(struct rf_rc *c, struct rf_rc_scope *s,
				 const struct rf_ra_term *t, uint32_t from)
{
	struct rf_rc_term **list = rf_arena_array(c->a, struct rf_rc_term *, t->n + 1);

	for (uint32_t i = from; i < t->n; i++)
		list[i - from] = rf_rc_term(c, s, t->item[i]);
	return list;
}

/* A reference whose head became one itself (a rule, an import) is one long reference. */
static struct rf_rc_term *ref_term(struct rf_rc *c, struct rf_rc_scope *s,
				   const struct rf_ra_term *t)
{
	struct rf_rc_term *head = rf_rc_term(c, s, t->item[0]);
	struct rf_rc_term *r = rf_rc_new(c, RF_RC_REF, t->loc);
	uint32_t before = head->kind == RF_RC_REF ? head->n : 1;

	r->n = before + t->n - 1;
	r->item = rf_arena_array(c->a, struct rf_rc_term *, r->n);
	if (head->kind == RF_RC_REF)
		memcpy(r->item, head->item, head->n * sizeof(*r->item));
	else
		r->item[0] = head;
	for (uint32_t i = 1; i < t->n; i++)
		r->item[before + i - 1] = rf_rc_term(c, s, t->item[i]);
	return r;
}

static struct rf_rc_term *comp_term(struct rf_rc *c, struct rf_rc_scope *s,
				    const struct rf_ra_term *t)
{
	struct rf_rc_term *r = rf_rc_new(c, RF_RC_COMP, t->loc);

	r->comp = t->kind;
	r->scope = rf_rc_scope(c, s, true);
	r->body = rf_rc_body(c, r->scope, t->comp.body);
	r->key = t->comp.key ? rf_rc_term(c, r->scope, t->comp.key) : NULL;
	r->term = rf_rc_term(c, r->scope, t->comp.term);
	return r;
}

static void whole_expr(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		       struct rf_rc_body *b, uint32_t index);

/* {x with input as y} inside a template: the first answer of [v | v = x with input as y]. */
static struct rf_rc_term *template_with(struct rf_rc *c, struct rf_rc_scope *s,
					const struct rf_ra_term *t)
{
	struct rf_rc_term *r = rf_rc_new(c, RF_RC_COMP, t->loc);
	struct rf_rc_var *v;
	struct rf_rc_goal *g;

	r->comp = RF_RA_ARRAY_COMP;
	r->first = true;
	r->scope = rf_rc_scope(c, s, true);
	r->body = rf_arena_new(c->a, struct rf_rc_body);
	v = add_var(c, r->scope, RF_LIT("__value__"), t->loc);
	r->term = rf_rc_new(c, RF_RC_VAR, t->loc);
	r->term->var = v;
	whole_expr(c, r->scope, t->expr, r->body, 0);
	for (uint32_t i = 0; i < r->body->n; i++) {
		g = &r->body->goal[i];
		if (g->kind == RF_RC_TEST) {
			g->kind = RF_RC_EQ;
			g->b = r->term;
		}
	}
	return r;
}

/* The dotted name of what is called; empty if it is not one. */
static struct rf_str dotted(struct rf_rc *c, const struct rf_ra_term *t)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (t->kind == RF_RA_VAR)
		return t->name;
	if (t->kind != RF_RA_REF || t->item[0]->kind != RF_RA_VAR)
		return RF_STR_EMPTY;
	rf_buf_add(&b, t->item[0]->name);
	for (uint32_t i = 1; i < t->n; i++) {
		if (t->item[i]->kind != RF_RA_VALUE || t->item[i]->value.type != RF_RV_STRING)
			return RF_STR_EMPTY;
		rf_buf_printf(&b, ".%.*s", RF_STR(rf_rv_text(t->item[i]->value)));
	}
	return rf_arena_str(c->a, rf_str_n(b.p, b.n));
}

/* The group a reference to data names, if it is one. */
static struct rf_rego_group *group_of(const struct rf_rc *c, const struct rf_rc_term *ref)
{
	const struct rf_rego_node *n = c->rego->root;

	if (!ref || ref->kind != RF_RC_REF || ref->item[0]->kind != RF_RC_DATA)
		return NULL;
	for (uint32_t i = 1; n && i < ref->n; i++) {
		if (ref->item[i]->kind != RF_RC_CONST || ref->item[i]->value.type != RF_RV_STRING)
			return NULL;
		n = rf_rego_child(n, rf_rv_text(ref->item[i]->value));
	}
	return n ? n->group : NULL;
}

static struct rf_rego_group *function_of(struct rf_rc *c, const struct rf_ra_term *op)
{
	const struct rf_ra_term *head = op->kind == RF_RA_REF ? op->item[0] : op;
	struct rf_rc_term *g = head->kind == RF_RA_VAR ? global(c, head->name, op->loc) : NULL;
	struct rf_rc_term *whole = g;

	if (g && op->kind == RF_RA_REF) {
		uint32_t before = g->kind == RF_RC_REF ? g->n : 1;

		whole = rf_rc_new(c, RF_RC_REF, op->loc);
		whole->n = before + op->n - 1;
		whole->item = rf_arena_array(c->a, struct rf_rc_term *, whole->n);
		if (g->kind == RF_RC_REF)
			memcpy(whole->item, g->item, g->n * sizeof(*g->item));
		else
			whole->item[0] = g;
		for (uint32_t i = 1; i < op->n; i++) {
			if (op->item[i]->kind != RF_RA_VALUE)
				return NULL;
			whole->item[before + i - 1] =
				string_term(c, rf_rv_text(op->item[i]->value), op->loc);
		}
	}
	struct rf_rego_group *f = group_of(c, whole);
	return f && f->kind == RF_REGO_FUNCTION ? f : NULL;
}

static bool find_function(struct rf_rc *c, const struct rf_ra_term *op, struct rf_rego_group **group,
			  const struct rf_rb **builtin)
{
	*group = function_of(c, op);
	*builtin = *group ? NULL : rf_rb_find(dotted(c, op));
	return *group || *builtin;
}

static uint32_t arity(const struct rf_rc_term *call)
{
	return call->group ? call->group->n_args : call->builtin->n_args;
}

static struct rf_rc_term *call_term(struct rf_rc *c, struct rf_rc_scope *s,
				    const struct rf_ra_term *t)
{
	struct rf_rc_term *r = rf_rc_new(c, RF_RC_CALL, t->loc);

	r->n = t->n - 1;
	r->item = items(c, s, t, 1);
	if (!find_function(c, t->item[0], &r->group, &r->builtin)) {
		struct rf_str name = dotted(c, t->item[0]);
		struct rf_rc_term *rule = t->n == 1 ? rf_rc_term(c, s, t->item[0]) : NULL;

		if (rule && rule->kind == RF_RC_REF)
			return rule; /* f() */

		rf_ra_complain(c->errors, "rego_type_error", c->module, t->loc,
			       "undefined function %.*s", RF_STR(name));
		r->kind = RF_RC_CONST;
		r->n = 0;
		return r;
	}
	if (r->builtin && r->builtin->v0_only && c->module && c->module->v1)
		rf_ra_complain(c->errors, "rego_type_error", c->module, t->loc,
			       "deprecated built-in function calls in expression: %s",
			       r->builtin->name);
	if (r->n != arity(r) && r->n != arity(r) + 1) {
		struct rf_str name = dotted(c, t->item[0]);

		rf_ra_complain(c->errors, "rego_type_error", c->module, t->loc,
			       "function %.*s has arity %u, got %u argument%s", RF_STR(name), arity(r),
			       r->n, r->n == 1 ? "" : "s");
		r->kind = RF_RC_CONST;
		r->n = 0;
	}
	return r;
}

struct rf_rc_term *rf_rc_term(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t)
{
	static const enum rf_rc_kind kinds[] = {
		[RF_RA_ARRAY] = RF_RC_ARRAY,
		[RF_RA_SET] = RF_RC_SET,
		[RF_RA_OBJECT] = RF_RC_OBJECT,
		[RF_RA_TEMPLATE] = RF_RC_TEMPLATE,
	};
	struct rf_rc_term *r;

	switch (t->kind) {
	case RF_RA_VALUE:
		r = rf_rc_new(c, RF_RC_CONST, t->loc);
		r->value = t->value;
		return r;
	case RF_RA_VAR:
		return name_term(c, s, t);
	case RF_RA_REF:
		return ref_term(c, s, t);
	case RF_RA_CALL:
		return call_term(c, s, t);
	case RF_RA_ARRAY_COMP:
	case RF_RA_SET_COMP:
	case RF_RA_OBJECT_COMP:
		return comp_term(c, s, t);
	case RF_RA_TEMPLATE_WITH:
		return template_with(c, s, t);
	default:
		r = rf_rc_new(c, kinds[t->kind], t->loc);
		r->n = t->n;
		r->item = items(c, s, t, 0);
		return r;
	}
}

/* --- bodies --- */

struct names {
	struct rf_str *name;
	uint32_t n, room;
};

static void add_name(struct rf_rc *c, struct names *l, struct rf_str name)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (rf_str_eq(l->name[i], name))
			return;
	if (l->n == l->room) {
		struct rf_str *more = rf_arena_array(c->a, struct rf_str, l->room ? 2 * l->room : 8);

		if (l->n)
			memcpy(more, l->name, l->n * sizeof(*more));
		l->name = more;
		l->room = l->room ? 2 * l->room : 8;
	}
	l->name[l->n++] = name;
}

/* Variables of a term, not of the closures in it. declares: of the left side of := only. */
static void names_in(struct rf_rc *c, const struct rf_ra_term *t, bool pattern, struct names *l)
{
	uint32_t from = 0, step = 1;

	if (!t)
		return;
	switch (t->kind) {
	case RF_RA_VAR:
		if (!t->is_wild)
			add_name(c, l, t->name);
		return;
	case RF_RA_VALUE:
	case RF_RA_ARRAY_COMP:
	case RF_RA_SET_COMP:
	case RF_RA_OBJECT_COMP:
	case RF_RA_TEMPLATE_WITH:
		return;
	case RF_RA_REF:
		if (pattern)
			return;
		break;
	case RF_RA_CALL:
		if (pattern)
			return;
		from = 1;
		break;
	case RF_RA_OBJECT:
		if (pattern) {
			from = 1;
			step = 2;
		}
		break;
	default:
		break;
	}
	for (uint32_t i = from; i < t->n; i += step)
		names_in(c, t->item[i], pattern, l);
}

static bool is_call_of(const struct rf_ra_term *t, const char *name)
{
	return t && t->kind == RF_RA_CALL && t->item[0]->kind == RF_RA_VAR &&
	       rf_str_is(t->item[0]->name, name);
}

static void declared_in(struct rf_rc *c, const struct rf_ra_body *b, struct names *l)
{
	for (uint32_t i = 0; i < b->n; i++) {
		const struct rf_ra_expr *e = b->expr[i];

		for (uint32_t j = 0; e->kind == RF_RA_EXPR_SOME && j < e->n_vars; j++)
			names_in(c, e->vars[j], true, l);
		if (e->kind == RF_RA_EXPR_SOME_IN) {
			names_in(c, e->key, true, l);
			names_in(c, e->value, true, l);
		}
		if (e->kind == RF_RA_EXPR_TERM && is_call_of(e->term, "assign"))
			names_in(c, e->term->item[1], true, l);
	}
}

/* In the place of a function another one may stand by its name. */
static bool names_function(struct rf_rc *c, const struct rf_ra_term *t)
{
	struct rf_rego_group *group;
	const struct rf_rb *builtin;

	return (t->kind == RF_RA_VAR || t->kind == RF_RA_REF) &&
	       find_function(c, t, &group, &builtin);
}

static void used_in(struct rf_rc *c, const struct rf_ra_body *b, struct names *l)
{
	for (uint32_t i = 0; i < b->n; i++) {
		const struct rf_ra_expr *e = b->expr[i];

		names_in(c, e->term, false, l);
		names_in(c, e->domain, false, l);
		for (uint32_t j = 0; j < e->n_with; j++)
			if (!names_function(c, e->with[j].value))
				names_in(c, e->with[j].value, false, l);
	}
}

static bool has_name(const struct names *l, struct rf_str name)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (rf_str_eq(l->name[i], name))
			return true;
	return false;
}

/* Variables nobody declares belong to the outermost body they are named in, wherever in it. */
static void introduce(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b)
{
	struct names declared = { 0 }, used = { 0 };

	declared_in(c, b, &declared);
	used_in(c, b, &used);
	s->later = declared.name;
	s->n_later = declared.n;
	for (uint32_t i = 0; i < used.n; i++) {
		struct rf_str name = used.name[i];

		if (!has_name(&declared, name) && !find(c, s, name) &&
		    !global(c, name, (struct rf_ra_loc){ 0 }))
			add_var(c, s, name, (struct rf_ra_loc){ 0 });
	}
}

static void forget_later(struct rf_rc_scope *s, struct rf_str name)
{
	for (uint32_t i = 0; i < s->n_later; i++)
		if (rf_str_eq(s->later[i], name))
			s->later[i] = RF_STR_EMPTY;
}

static void declare_pattern(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t)
{
	struct names l = { 0 };

	names_in(c, t, true, &l);
	for (uint32_t i = 0; i < l.n; i++) {
		struct rf_rc_var *v = find_here(s, l.name[i]);

		if (v && v->declared)
			rf_ra_complain(c->errors, "rego_compile_error", c->module, t->loc,
				       "var %.*s assigned above", RF_STR(l.name[i]));
		else
			rf_rc_declare(c, s, l.name[i], t->loc);
		forget_later(s, l.name[i]);
	}
}

static struct rf_rc_goal *add_goal(struct rf_rc *c, struct rf_rc_body *b, enum rf_rc_goal_kind kind,
				   struct rf_ra_loc loc)
{
	if (b->n == b->room) {
		uint32_t room = b->room ? 2 * b->room : 8;
		struct rf_rc_goal *more = rf_arena_array(c->a, struct rf_rc_goal, room);

		if (b->n)
			memcpy(more, b->goal, b->n * sizeof(*more));
		b->goal = more;
		b->room = room;
	}
	b->goal[b->n] = (struct rf_rc_goal){ .kind = kind, .loc = loc };
	return &b->goal[b->n++];
}

/* --- with --- */

static void with_target(struct rf_rc *c, const struct rf_ra_with *w, struct rf_rc_with *to)
{
	const struct rf_ra_term *t = w->target;
	const struct rf_ra_term *head = t->kind == RF_RA_REF ? t->item[0] : t;
	struct rf_rc_term *g = NULL;
	uint32_t n = 0;

	if (find_function(c, t, &to->to.function, &to->to.builtin))
		return;
	if (head->kind == RF_RA_VAR)
		g = global(c, head->name, t->loc);
	if (!g || (g->kind == RF_RC_REF && g->item[0]->kind != RF_RC_INPUT &&
		   g->item[0]->kind != RF_RC_DATA)) {
		rf_ra_complain(c->errors, "rego_type_error", c->module, w->loc,
			       "with keyword target must reference existing input, data, or a function");
		return;
	}
	to->to.is_input = g->kind == RF_RC_INPUT ||
			  (g->kind == RF_RC_REF && g->item[0]->kind == RF_RC_INPUT);
	to->to.path = rf_arena_array(c->a, struct rf_str, (g->kind == RF_RC_REF ? g->n : 0) + t->n + 1);
	for (uint32_t i = 1; g->kind == RF_RC_REF && i < g->n; i++)
		to->to.path[n++] = rf_rv_text(g->item[i]->value);
	for (uint32_t i = 1; t->kind == RF_RA_REF && i < t->n; i++) {
		if (t->item[i]->kind != RF_RA_VALUE || t->item[i]->value.type != RF_RV_STRING) {
			rf_ra_complain(c->errors, "rego_type_error", c->module, w->loc,
				       "with keyword target must be ground");
			return;
		}
		to->to.path[n++] = rf_rv_text(t->item[i]->value);
	}
	to->to.n_path = n;
}

static void add_withs(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		      struct rf_rc_goal *g)
{
	g->n_with = e->n_with;
	g->with = rf_arena_array(c->a, struct rf_rc_with, e->n_with + 1);
	for (uint32_t i = 0; i < e->n_with; i++) {
		const struct rf_ra_term *v = e->with[i].value;
		struct rf_rc_with *to = &g->with[i];

		with_target(c, &e->with[i], to);
		if ((to->to.function || to->to.builtin) &&
		    (v->kind == RF_RA_VAR || v->kind == RF_RA_REF) &&
		    !(v->kind == RF_RA_VAR && find(c, s, v->name)) &&
		    find_function(c, v, &to->to.by_function, &to->to.by_builtin))
			continue;
		to->value = rf_rc_term(c, s, v);
	}
}

/* --- expressions --- */

static bool is_last_argument_output(const struct rf_rc_term *t)
{
	return t->kind == RF_RC_CALL && t->n == arity(t) + 1;
}

static void eq_goal(struct rf_rc *c, struct rf_rc_body *b, struct rf_rc_term *x,
		    struct rf_rc_term *y, struct rf_ra_loc loc);

static struct rf_rc_term *field(const struct rf_rc_term *object, struct rf_rv key)
{
	for (uint32_t i = 0; i < object->n; i += 2)
		if (object->item[i]->kind == RF_RC_CONST && rf_rv_eq(object->item[i]->value, key))
			return object->item[i + 1];
	return NULL;
}

/* Two objects of the same constant keys are equal if their values are, each for itself. */
static bool eq_objects(struct rf_rc *c, struct rf_rc_body *b, const struct rf_rc_term *x,
		       const struct rf_rc_term *y, struct rf_ra_loc loc)
{
	if (x->kind != RF_RC_OBJECT || y->kind != RF_RC_OBJECT || x->n != y->n || x->n == 0)
		return false;
	for (uint32_t i = 0; i < x->n; i += 2)
		if (x->item[i]->kind != RF_RC_CONST || !field(y, x->item[i]->value))
			return false;
	for (uint32_t i = 0; i < x->n; i += 2)
		eq_goal(c, b, x->item[i + 1], field(y, x->item[i]->value), loc);
	return true;
}

static void eq_goal(struct rf_rc *c, struct rf_rc_body *b, struct rf_rc_term *x,
		    struct rf_rc_term *y, struct rf_ra_loc loc)
{
	struct rf_rc_goal *g;

	if (x->kind == RF_RC_ARRAY && y->kind == RF_RC_ARRAY && x->n == y->n && x->n > 0) {
		for (uint32_t i = 0; i < x->n; i++)
			eq_goal(c, b, x->item[i], y->item[i], loc);
		return;
	}
	if (eq_objects(c, b, x, y, loc))
		return;
	g = add_goal(c, b, RF_RC_EQ, loc);
	g->a = x;
	g->b = y;
}

static void term_goal(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		      struct rf_rc_body *b)
{
	const struct rf_ra_term *t = e->term;
	struct rf_rc_term *x, *y;
	struct rf_rc_goal *g;

	if (is_call_of(t, "assign") && t->n == 3) {
		y = rf_rc_term(c, s, t->item[2]);
		declare_pattern(c, s, t->item[1]);
		x = rf_rc_term(c, s, t->item[1]);
		if (x->kind == RF_RC_REF || x->kind == RF_RC_CALL || x->kind == RF_RC_CONST)
			rf_ra_complain(c->errors, "rego_compile_error", c->module, t->loc,
				       "cannot assign to %s", x->kind == RF_RC_REF ? "ref" : "term");
		eq_goal(c, b, x, y, e->loc);
		return;
	}
	if (is_call_of(t, "eq") && t->n == 3) {
		x = rf_rc_term(c, s, t->item[1]);
		y = rf_rc_term(c, s, t->item[2]);
		eq_goal(c, b, x, y, e->loc);
		return;
	}
	x = rf_rc_term(c, s, t);
	if (is_last_argument_output(x)) {
		y = x->item[--x->n];
		eq_goal(c, b, x, y, e->loc);
		return;
	}
	g = add_goal(c, b, RF_RC_TEST, e->loc);
	g->a = x;
}

static void each_goal(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		      struct rf_rc_body *b)
{
	struct rf_rc_term *domain = rf_rc_term(c, s, e->domain);
	struct rf_rc_goal *g;

	if (e->key)
		declare_pattern(c, s, e->key);
	declare_pattern(c, s, e->value);
	g = add_goal(c, b, RF_RC_EACH, e->loc);
	g->b = domain;
	g->key = e->key ? rf_rc_term(c, s, e->key) : NULL;
	g->a = rf_rc_term(c, s, e->value);
}

static void every_goal(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		       struct rf_rc_body *b)
{
	struct rf_rc_goal *g = add_goal(c, b, RF_RC_EVERY, e->loc);

	g->b = rf_rc_term(c, s, e->domain);
	g->scope = rf_rc_scope(c, s, true);
	if (e->key)
		rf_rc_declare_all(c, g->scope, e->key);
	rf_rc_declare_all(c, g->scope, e->value);
	g->key = e->key ? rf_rc_term(c, g->scope, e->key) : NULL;
	g->a = rf_rc_term(c, g->scope, e->value);
	g->body = rf_rc_body(c, rf_rc_scope(c, g->scope, false), e->body);
}

static void expr_goals(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		       struct rf_rc_body *b)
{
	struct rf_rc_goal *g;

	switch (e->kind) {
	case RF_RA_EXPR_TERM:
		term_goal(c, s, e, b);
		break;
	case RF_RA_EXPR_SOME:
		for (uint32_t i = 0; i < e->n_vars; i++)
			declare_pattern(c, s, e->vars[i]);
		break;
	case RF_RA_EXPR_SOME_IN:
		each_goal(c, s, e, b);
		break;
	case RF_RA_EXPR_EVERY:
		every_goal(c, s, e, b);
		break;
	case RF_RA_EXPR_NOT_BODY:
		g = add_goal(c, b, RF_RC_NOT, e->loc);
		g->scope = rf_rc_scope(c, s, true);
		struct rf_rc_body *inner = rf_rc_body(c, g->scope, e->body);
		b->goal[b->n - 1].body = inner;
		break;
	case RF_RA_EXPR_OR:
	case RF_RA_EXPR_AND:
		g = add_goal(c, b, e->kind == RF_RA_EXPR_OR ? RF_RC_EITHER : RF_RC_BOTH, e->loc);
		g->scope = rf_rc_scope(c, s, true);
		g->other_scope = rf_rc_scope(c, s, true);
		g->body = rf_rc_body(c, g->scope, e->body);
		g->other = rf_rc_body(c, g->other_scope, e->other);
		break;
	}
}

/* As OPA has it, what a negated call is given is computed outside of the negation: if that is undefined,
 * so is the whole, not true. */
static void hoist_operands(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
			   struct rf_rc_term *call, struct rf_rc_body *b, uint32_t index)
{
	for (uint32_t i = 0; call->kind == RF_RC_CALL && i < call->n; i++) {
		struct rf_rc_term *operand = call->item[i];
		struct rf_rc_goal *g;

		if (operand->kind != RF_RC_REF && operand->kind != RF_RC_CALL)
			continue;
		call->item[i] = var_term(c, rf_rc_temp(c), operand->loc);
		g = add_goal(c, b, RF_RC_EQ, e->loc);
		g->a = call->item[i];
		g->b = operand;
		g->expr = index + 1;
		if (e->n_with)
			add_withs(c, s, e, g);
	}
}

/* One expression may be several goals; negation and `with` are around all of them. */
static void whole_expr(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		       struct rf_rc_body *b, uint32_t index)
{
	struct rf_rc_body inner = { 0 };
	struct rf_rc_goal *g;

	if (!e->negated && e->n_with == 0) {
		uint32_t from = b->n;

		expr_goals(c, s, e, b);
		for (uint32_t i = from; i < b->n; i++)
			b->goal[i].expr = index + 1;
		return;
	}
	expr_goals(c, s, e, &inner);
	if (e->negated && inner.n == 1 && inner.goal[0].kind == RF_RC_TEST)
		hoist_operands(c, s, e, inner.goal[0].a, b, index);
	if (e->negated) {
		struct rf_rc_body *body = rf_arena_new(c->a, struct rf_rc_body);

		*body = inner;
		inner = (struct rf_rc_body){ 0 };
		g = add_goal(c, &inner, RF_RC_NOT, e->loc);
		g->strict = true;
		g->body = body;
	}
	for (uint32_t i = 0; i < inner.n; i++) {
		g = add_goal(c, b, inner.goal[i].kind, inner.goal[i].loc);
		*g = inner.goal[i];
		g->expr = index + 1;
		if (e->n_with)
			add_withs(c, s, e, g);
	}
}

struct rf_rc_body *rf_rc_body(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b)
{
	struct rf_rc_body *r = rf_arena_new(c->a, struct rf_rc_body);

	introduce(c, s, b);
	for (uint32_t i = 0; i < b->n; i++)
		whole_expr(c, s, b->expr[i], r, i);
	return r;
}
