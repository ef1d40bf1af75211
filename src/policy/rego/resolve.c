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

/* --- names that are not variables --- */

static const struct rf_ra_import *find_import(struct rf_rc *c, struct rf_str name)
{
	uint32_t at = c->imports ? rf_rc_name_at(&c->imports->names, name) : UINT32_MAX;

	if (at == UINT32_MAX)
		return NULL;
	c->imports->used[at] = true;
	return c->imports->import[at];
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
		if (c->in_template)
			rf_ra_complain(c->errors, "rego_compile_error", c->module, t->loc,
				       "var _ is undeclared");
		return var_term(c, rf_rc_add_var(c, s, t->name, t->loc, true), t->loc);
	}
	v = rf_rc_find(c, s, t->name);
	if (v) {
		v->shown |= c->in_template > 0;
		v->uses++;
		return var_term(c, v, t->loc);
	}
	if (rf_rc_name_at(&s->later, t->name) != UINT32_MAX) {
		rf_ra_complain(c->errors, "rego_compile_error", c->module, t->loc,
			       "var %.*s referenced above", RF_STR(t->name));
		return var_term(c, rf_rc_add_var(c, s, t->name, t->loc, false), t->loc);
	}
	g = global(c, t->name, t->loc);
	return g ? g : var_term(c, rf_rc_add_var(c, s, t->name, t->loc, false), t->loc);
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

struct numbered {
	struct rf_rv key;
	uint32_t at;
};

static int by_key(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	int r = rf_rv_cmp(x->key, y->key);

	return r ? r : x->at < y->at ? -1 : x->at > y->at;
}

/* Of two equal constant keys the later value counts, and the first spelling, as in OPA. */
static struct rf_rc_term *without_repeated_keys(struct rf_rc *c, struct rf_rc_term *t)
{
	struct numbered *l = rf_arena_array(c->a, struct numbered, t->n / 2 + 1);
	uint32_t n = 0, kept = 0;
	bool any = false;

	for (uint32_t i = 0; i < t->n; i += 2)
		if (t->item[i]->kind == RF_RC_CONST)
			l[n++] = (struct numbered){ t->item[i]->value, i };
	qsort(l, n, sizeof(*l), by_key);
	for (uint32_t i = 0; i + 1 < n; i++) {
		if (!rf_rv_eq(l[i].key, l[i + 1].key))
			continue;
		t->item[l[i + 1].at] = t->item[l[i].at]; /* as it was written first */
		t->item[l[i].at] = NULL;
		any = true;
	}
	for (uint32_t i = 0; any && i < t->n; i += 2) {
		if (!t->item[i])
			continue;
		t->item[kept] = t->item[i];
		t->item[kept + 1] = t->item[i + 1];
		kept += 2;
	}
	if (any)
		t->n = kept;
	return t;
}

static struct rf_rc_term *held_constant(struct rf_rc *c, const struct rf_rc_term *var)
{
	struct rf_rc_term *t = rf_rc_new(c, RF_RC_CONST, var->loc);

	t->value = var->var->constant->value;
	t->var = var->var;
	t->held = true;
	return t;
}

/* A reference whose head became one itself (a rule, an import) is one long reference. */
static struct rf_rc_term *ref_term(struct rf_rc *c, struct rf_rc_scope *s,
				   const struct rf_ra_term *t)
{
	struct rf_rc_term *head = rf_rc_term(c, s, t->item[0]);
	struct rf_rc_term *r = rf_rc_new(c, RF_RC_REF, t->loc);
	uint32_t before = head->kind == RF_RC_REF ? head->n : 1;

	r->n = before + t->n - 1;
	if (r->n > RF_RC_PATH_MAX) {
		rf_ra_complain(c->errors, "rego_compile_error", c->module, t->loc,
			       "a reference of %u parts; at most %d can be", r->n, RF_RC_PATH_MAX);
		return rf_rc_new(c, RF_RC_CONST, t->loc);
	}
	r->item = rf_arena_array(c->a, struct rf_rc_term *, r->n);
	if (head->kind == RF_RC_REF)
		memcpy(r->item, head->item, head->n * sizeof(*r->item));
	else
		r->item[0] = head;
	for (uint32_t i = 1; i < t->n; i++) {
		struct rf_rc_term *key = rf_rc_term(c, s, t->item[i]);

		/* x := "a"; data[x] means data.a, and no other rule */
		if (r->item[0]->kind == RF_RC_DATA && key->kind == RF_RC_VAR && key->var->constant)
			key = held_constant(c, key);
		r->item[before + i - 1] = key;
	}
	return r;
}

static void names_in(struct rf_rc *c, const struct rf_ra_term *t, bool pattern, struct rf_rc_names *l);
static struct rf_rc_body *body_with(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b,
				    struct rf_rc_names *used);

static struct rf_rc_term *comp_term(struct rf_rc *c, struct rf_rc_scope *s,
				    const struct rf_ra_term *t)
{
	struct rf_rc_term *r = rf_rc_new(c, RF_RC_COMP, t->loc);

	uint32_t in_template = c->in_template;
	struct rf_rc_names used = { 0 };

	c->in_template = 0;
	r->comp = t->kind;
	r->scope = rf_rc_scope(c, s, true);
	names_in(c, t->comp.key, false, &used);
	names_in(c, t->comp.term, false, &used);
	r->body = body_with(c, r->scope, t->comp.body, &used);
	r->key = t->comp.key ? rf_rc_term(c, r->scope, t->comp.key) : NULL;
	r->term = rf_rc_term(c, r->scope, t->comp.term);
	rf_rc_in_body(c, r->body, r->key);
	rf_rc_in_body(c, r->body, r->term);
	rf_rc_check_unused(c, r->scope);
	c->in_template = in_template;
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
	v = rf_rc_add_var(c, r->scope, RF_LIT("__value__"), t->loc, false);
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
	for (uint32_t i = 0; i < r->body->n_said; i++) {
		struct rf_rc_said *said = &r->body->said[i];

		if (said->kind == RF_RC_SAID_TERM && !said->b) {
			said->kind = RF_RC_SAID_EQ;
			said->b = r->term;
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
	bool statement = t == c->statement; /* its operands may have statements of their own */

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
	if (r->builtin && r->builtin->v0_only && c->module && (c->module->v1 || c->strict))
		rf_ra_complain(c->errors, "rego_type_error", c->module, t->loc,
			       "deprecated built-in function calls in expression: %s",
			       r->builtin->name);
	if (r->builtin && r->n == 0 && rf_rc_metadata(c, r->builtin, &r->value)) {
		r->kind = RF_RC_CONST;
		return r;
	}
	if (r->n != arity(r) && (!statement || r->n != arity(r) + 1)) {
		rf_rc_complain_arity(c, r, statement);
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
		c->in_template += t->kind == RF_RA_TEMPLATE;
		r->item = items(c, s, t, 0);
		c->in_template -= t->kind == RF_RA_TEMPLATE;
		return t->kind == RF_RA_OBJECT ? without_repeated_keys(c, r) : r;
	}
}

/* --- bodies --- */

/* Variables of a term, not of the closures in it. declares: of the left side of := only. */
static void names_in(struct rf_rc *c, const struct rf_ra_term *t, bool pattern, struct rf_rc_names *l)
{
	uint32_t from = 0, step = 1;

	if (!t)
		return;
	switch (t->kind) {
	case RF_RA_VAR:
		if (!t->is_wild)
			rf_rc_name_add(c, l, t->name);
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

static void declared_in(struct rf_rc *c, const struct rf_ra_body *b, struct rf_rc_names *l)
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

static void used_in(struct rf_rc *c, const struct rf_ra_body *b, struct rf_rc_names *l)
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

static void keep_inner(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b,
		       const struct rf_rc_names *used)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->n; i++)
		n += b->expr[i]->kind == RF_RA_EXPR_SOME ? b->expr[i]->n_vars : 0;
	if (n == 0)
		return;
	s->inner_used = rf_arena_array(c->a, bool, n);
	s->inner_loc = rf_arena_array(c->a, struct rf_ra_loc, n);
	for (uint32_t i = 0; i < b->n; i++) {
		const struct rf_ra_expr *e = b->expr[i];

		for (uint32_t j = 0; e->kind == RF_RA_EXPR_SOME && j < e->n_vars; j++)
			if (e->vars[j]->kind == RF_RA_VAR && !e->vars[j]->is_wild &&
			    rf_rc_name_at(used, e->vars[j]->name) == UINT32_MAX)
				s->inner_loc[rf_rc_name_add(c, &s->inner, e->vars[j]->name)] = e->loc;
	}
}

/* Variables nobody declares belong to the outermost body they are named in, wherever in it. used: has the
 * names of the rule's head already. */
static void introduce(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b,
		      struct rf_rc_names *used)
{
	declared_in(c, b, &s->later);
	used_in(c, b, used);
	keep_inner(c, s, b, used);
	for (uint32_t i = 0; i < used->n; i++) {
		struct rf_str name = used->name[i];

		if (rf_rc_name_at(&s->later, name) == UINT32_MAX && !rf_rc_find(c, s, name) &&
		    !global(c, name, (struct rf_ra_loc){ 0 }))
			rf_rc_add_var(c, s, name, (struct rf_ra_loc){ 0 }, false);
	}
}

static void forget_later(struct rf_rc_scope *s, struct rf_str name)
{
	uint32_t at = rf_rc_name_at(&s->later, name);

	if (at != UINT32_MAX)
		s->later.name[at] = RF_STR_EMPTY;
}

static void declare_pattern(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t,
			    enum rf_rc_by by, struct rf_ra_loc loc)
{
	struct rf_rc_names l = { 0 };

	names_in(c, t, true, &l);
	for (uint32_t i = 0; i < l.n; i++) {
		struct rf_rc_var *v = rf_rc_find_here(s, l.name[i]);
		bool again = v && v->declared;

		if (again && by == RF_RC_BY_NAME && v->loc.at == loc.at)
			continue; /* some x, x in xs */
		if (again)
			rf_ra_complain(c->errors, "rego_compile_error", c->module, t->loc,
				       "var %.*s %s above", RF_STR(l.name[i]),
				       v->by == RF_RC_BY_ASSIGN ? "assigned" : "declared");
		else if (s->parent && s->parent->arguments && rf_rc_find_here(s->parent, l.name[i]))
			rf_ra_complain(c->errors, "rego_compile_error", c->module, loc,
				       "arg %.*s redeclared", RF_STR(l.name[i]));
		if (!again && !(by == RF_RC_BY_SOME && rf_rc_name_at(&s->inner, l.name[i]) != UINT32_MAX)) {
			v = rf_rc_declare(c, s, l.name[i], t->loc);
			v->by = by;
			v->loc = loc;
		}
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

static void check_replacement(struct rf_rc *c, const struct rf_rp_with *w, struct rf_ra_loc loc)
{
	uint32_t want = w->function ? w->function->n_args : w->builtin->n_args;
	uint32_t have = w->by_function ? w->by_function->n_args : w->by_builtin->n_args;
	struct rf_str name = w->function ? w->function->node->name : rf_str(w->builtin->name);

	if (w->builtin && w->builtin->relation)
		rf_ra_complain(c->errors, "rego_compile_error", c->module, loc,
			       "with keyword replacing built-in function: target must not be a relation");
	else if (have != want)
		rf_ra_complain(c->errors, "rego_type_error", c->module, loc,
			       "%.*s: arity mismatch\n\thave: %u arguments\n\twant: %u", RF_STR(name), have,
			       want);
}

static struct rf_rc_with *withs(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e)
{
	struct rf_rc_with *list = rf_arena_array(c->a, struct rf_rc_with, e->n_with + 1);

	if (e->n_with > RF_RC_WITH_MAX)
		rf_ra_complain(c->errors, "rego_compile_error", c->module, e->loc,
			       "%u times with; at most %d can be", e->n_with, RF_RC_WITH_MAX);
	for (uint32_t i = 0; i < e->n_with; i++) {
		const struct rf_ra_term *v = e->with[i].value;
		struct rf_rc_with *to = &list[i];

		with_target(c, &e->with[i], to);
		if ((to->to.function || to->to.builtin) &&
		    (v->kind == RF_RA_VAR || v->kind == RF_RA_REF) &&
		    !(v->kind == RF_RA_VAR && rf_rc_find(c, s, v->name)) &&
		    find_function(c, v, &to->to.by_function, &to->to.by_builtin)) {
			check_replacement(c, &to->to, e->with[i].loc);
			continue;
		}
		to->value = rf_rc_term(c, s, v);
	}
	return list;
}

/* --- expressions --- */

static bool is_last_argument_output(const struct rf_rc_term *t)
{
	return t->kind == RF_RC_CALL && t->n == arity(t) + 1;
}

static void eq_goal(struct rf_rc *c, struct rf_rc_body *b, struct rf_rc_term *x,
		    struct rf_rc_term *y, struct rf_ra_loc loc);

/* The fields of an object in order of their keys; NULL if a key is not a constant. */
static struct numbered *sorted_fields(struct rf_rc *c, const struct rf_rc_term *t)
{
	struct numbered *l = rf_arena_array(c->a, struct numbered, t->n / 2 + 1);

	for (uint32_t i = 0; i < t->n; i += 2) {
		if (t->item[i]->kind != RF_RC_CONST)
			return NULL;
		l[i / 2] = (struct numbered){ t->item[i]->value, i };
	}
	qsort(l, t->n / 2, sizeof(*l), by_key);
	return l;
}

/* Two objects of the same constant keys are equal if their values are, each for itself. */
static bool eq_objects(struct rf_rc *c, struct rf_rc_body *b, const struct rf_rc_term *x,
		       const struct rf_rc_term *y, struct rf_ra_loc loc)
{
	struct numbered *lx, *ly;

	if (x->kind != RF_RC_OBJECT || y->kind != RF_RC_OBJECT || x->n != y->n || x->n == 0)
		return false;
	lx = sorted_fields(c, x);
	ly = sorted_fields(c, y);
	for (uint32_t i = 0; i < x->n / 2; i++)
		if (!lx || !ly || !rf_rv_eq(lx[i].key, ly[i].key))
			return false;
	for (uint32_t i = 0; i < x->n / 2; i++)
		eq_goal(c, b, x->item[lx[i].at + 1], y->item[ly[i].at + 1], loc);
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

static void check_shadow(struct rf_rc *c, const struct rf_ra_term *t, struct rf_ra_loc loc)
{
	bool root = t->kind == RF_RA_VAR && (rf_str_is(t->name, "input") || rf_str_is(t->name, "data"));

	if (root && c->module && (c->module->v1 || c->strict))
		rf_ra_complain(c->errors, "rego_compile_error", c->module, loc,
			       "variables must not shadow %.*s (use a different variable name)",
			       RF_STR(t->name));
}

/* The terms of a negated expression change when its operands are computed before it. */
static struct rf_rc_term *as_written(struct rf_rc *c, const struct rf_ra_expr *e, struct rf_rc_term *t)
{
	struct rf_rc_term *same;

	if (!e->negated || t->kind == RF_RC_COMP || t->n == 0)
		return t;
	same = rf_arena_new(c->a, struct rf_rc_term);
	*same = *t;
	same->item = rf_arena_array(c->a, struct rf_rc_term *, t->n);
	for (uint32_t i = 0; i < t->n; i++)
		same->item[i] = as_written(c, e, t->item[i]);
	return same;
}

static void say(struct rf_rc *c, const struct rf_ra_expr *e, struct rf_rc_said *said, struct rf_rc_term *a,
		struct rf_rc_term *b)
{
	said->a = as_written(c, e, a);
	said->b = b ? as_written(c, e, b) : NULL;
}

static void say_eq(struct rf_rc *c, const struct rf_ra_expr *e, struct rf_rc_said *said, struct rf_rc_term *a,
		   struct rf_rc_term *b)
{
	said->kind = RF_RC_SAID_EQ;
	say(c, e, said, a, b);
}

static void term_goal(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		      struct rf_rc_body *b, struct rf_rc_said *said)
{
	const struct rf_ra_term *t = e->term;
	struct rf_rc_term *x, *y;
	struct rf_rc_goal *g;

	if (is_call_of(t, "assign") && t->n == 3) {
		y = rf_rc_term(c, s, t->item[2]);
		check_shadow(c, t->item[1], e->loc);
		declare_pattern(c, s, t->item[1], RF_RC_BY_ASSIGN, e->loc);
		x = rf_rc_term(c, s, t->item[1]);
		if (x->kind == RF_RC_VAR && y->kind == RF_RC_CONST)
			x->var->constant = y;
		if (x->kind == RF_RC_REF || x->kind == RF_RC_CALL || x->kind == RF_RC_CONST)
			rf_ra_complain(c->errors, "rego_compile_error", c->module, t->loc,
				       "cannot assign to %s", x->kind == RF_RC_REF ? "ref" : "term");
		say_eq(c, e, said, x, y);
		said->assigned = true;
		eq_goal(c, b, x, y, e->loc);
		return;
	}
	if (is_call_of(t, "eq") && t->n == 3) {
		x = rf_rc_term(c, s, t->item[1]);
		y = rf_rc_term(c, s, t->item[2]);
		say_eq(c, e, said, x, y);
		eq_goal(c, b, x, y, e->loc);
		return;
	}
	c->statement = t;
	x = rf_rc_term(c, s, t);
	if (is_last_argument_output(x)) {
		y = x->item[--x->n];
		say(c, e, said, x, y);
		eq_goal(c, b, x, y, e->loc);
		return;
	}
	say(c, e, said, x, NULL);
	g = add_goal(c, b, RF_RC_TEST, e->loc);
	g->a = x;
}

/* some k, v in xs: v = xs[k] */
static struct rf_rc_term *element(struct rf_rc *c, const struct rf_rc_term *domain, struct rf_rc_term *key)
{
	struct rf_rc_term *t = rf_rc_new(c, RF_RC_REF, domain->loc);
	uint32_t before = domain->kind == RF_RC_REF ? domain->n : 1;

	t->n = before + 1;
	t->item = rf_arena_array(c->a, struct rf_rc_term *, t->n);
	if (domain->kind == RF_RC_REF)
		memcpy(t->item, domain->item, before * sizeof(*t->item));
	else
		t->item[0] = (struct rf_rc_term *)domain;
	if (!key) {
		key = rf_rc_new(c, RF_RC_VAR, domain->loc);
		key->var = rf_arena_new(c->a, struct rf_rc_var);
		key->var->made = true;
	}
	t->item[before] = key;
	return t;
}

/* Names of what is bound: not heads of references, not keys of objects. */
static void bound_names(struct rf_rc *c, const struct rf_ra_term *t, struct rf_rc_names *l)
{
	uint32_t from = t->kind == RF_RA_REF || t->kind == RF_RA_CALL || t->kind == RF_RA_OBJECT;
	uint32_t step = t->kind == RF_RA_OBJECT ? 2 : 1;

	if (t->kind == RF_RA_VAR && !t->is_wild)
		rf_rc_name_add(c, l, t->name);
	if (t->kind != RF_RA_REF && t->kind != RF_RA_CALL && t->kind != RF_RA_OBJECT && t->kind != RF_RA_ARRAY &&
	    t->kind != RF_RA_SET)
		return;
	for (uint32_t i = from; i < t->n; i += step)
		bound_names(c, t->item[i], l);
}

static void check_bound_in_domain(struct rf_rc *c, const struct rf_ra_expr *e)
{
	struct rf_rc_names bound = { 0 }, domain = { 0 };

	if (e->key)
		bound_names(c, e->key, &bound);
	bound_names(c, e->value, &bound);
	names_in(c, e->domain, false, &domain);
	for (uint32_t i = 0; i < bound.n; i++)
		if (rf_rc_name_at(&domain, bound.name[i]) != UINT32_MAX)
			rf_ra_complain(c->errors, "rego_compile_error", c->module, e->loc, "var %.*s assigned before",
				       RF_STR(bound.name[i]));
}

static void each_goal(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		      struct rf_rc_body *b, struct rf_rc_said *said)
{
	struct rf_rc_term *domain;
	struct rf_rc_goal *g;

	check_bound_in_domain(c, e);
	domain = rf_rc_term(c, s, e->domain);
	if (e->key)
		declare_pattern(c, s, e->key, RF_RC_BY_NAME, e->loc);
	declare_pattern(c, s, e->value, RF_RC_BY_NAME, e->loc);
	g = add_goal(c, b, RF_RC_EACH, e->loc);
	g->b = domain;
	g->key = e->key ? rf_rc_term(c, s, e->key) : NULL;
	g->a = rf_rc_term(c, s, e->value);
	say_eq(c, e, said, g->a, element(c, domain, g->key));
}

static void say_closure(const struct rf_rc_goal *g, struct rf_rc_said *said)
{
	said->kind = RF_RC_SAID_CLOSURE;
	said->every = g->kind == RF_RC_EVERY;
	said->a = g->b;
	said->body = g->body;
	said->other = g->other;
	said->scope = g->scope;
	said->other_scope = g->other_scope;
}

static void every_goal(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		       struct rf_rc_body *b, struct rf_rc_said *said)
{
	struct rf_rc_goal *g = add_goal(c, b, RF_RC_EVERY, e->loc);

	g->b = rf_rc_term(c, s, e->domain);
	g->scope = rf_rc_scope(c, s, true);
	if (e->key)
		rf_rc_declare_all(c, g->scope, e->key);
	rf_rc_declare_all(c, g->scope, e->value);
	g->key = e->key ? rf_rc_term(c, g->scope, e->key) : NULL;
	g->a = rf_rc_term(c, g->scope, e->value);
	for (struct rf_rc_var *v = g->scope->vars; v; v = v->next) {
		v->by = v->wild ? RF_RC_BY_NAME : RF_RC_BY_EVERY;
		v->loc = e->loc;
	}
	struct rf_rc_scope *inner = rf_rc_scope(c, g->scope, false);

	g->body = rf_rc_body(c, inner, e->body);
	rf_rc_check_unused(c, inner);
	rf_rc_check_unused(c, g->scope);
	say_closure(g, said);
}

static void expr_goals(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		       struct rf_rc_body *b, struct rf_rc_said *said)
{
	struct rf_rc_goal *g;

	switch (e->kind) {
	case RF_RA_EXPR_TERM:
		term_goal(c, s, e, b, said);
		break;
	case RF_RA_EXPR_SOME:
		for (uint32_t i = 0; i < e->n_vars; i++)
			declare_pattern(c, s, e->vars[i], RF_RC_BY_SOME, e->loc);
		break;
	case RF_RA_EXPR_SOME_IN:
		each_goal(c, s, e, b, said);
		break;
	case RF_RA_EXPR_EVERY:
		every_goal(c, s, e, b, said);
		break;
	case RF_RA_EXPR_NOT_BODY:
		g = add_goal(c, b, RF_RC_NOT, e->loc);
		g->scope = rf_rc_scope(c, s, true);
		g->body = rf_rc_body(c, g->scope, e->body);
		rf_rc_check_unused(c, g->scope);
		say_closure(g, said);
		break;
	case RF_RA_EXPR_OR:
	case RF_RA_EXPR_AND:
		g = add_goal(c, b, e->kind == RF_RA_EXPR_OR ? RF_RC_EITHER : RF_RC_BOTH, e->loc);
		g->scope = rf_rc_scope(c, s, true);
		g->other_scope = rf_rc_scope(c, s, true);
		g->body = rf_rc_body(c, g->scope, e->body);
		g->other = rf_rc_body(c, g->other_scope, e->other);
		rf_rc_check_unused(c, g->scope);
		rf_rc_check_unused(c, g->other_scope);
		say_closure(g, said);
		break;
	}
}

struct hoisting {
	struct rf_rc *c;
	const struct rf_ra_expr *e;
	struct rf_rc_with *with;
	struct rf_rc_body *body;
	uint32_t index;
};

static void hoist_parts(struct hoisting *h, struct rf_rc_term *t, bool refs);

/* The value of *t is computed before the negation. */
static void hoist_one(struct hoisting *h, struct rf_rc_term **t)
{
	struct rf_rc_term *was = *t;
	struct rf_rc_goal *g;

	if (was->kind == RF_RC_ARRAY || was->kind == RF_RC_SET || was->kind == RF_RC_OBJECT) {
		hoist_parts(h, was, true);
		return;
	}
	if (was->kind != RF_RC_REF && was->kind != RF_RC_CALL)
		return;
	*t = var_term(h->c, rf_rc_temp(h->c), was->loc);
	g = add_goal(h->c, h->body, RF_RC_EQ, h->e->loc);
	g->a = *t;
	g->b = was;
	g->expr = h->index + 1;
	g->with = h->with;
	g->n_with = h->e->n_with;
}

/* refs: also references that are parts themselves, not only what lies inside of them. */
static void hoist_parts(struct hoisting *h, struct rf_rc_term *t, bool refs)
{
	for (uint32_t i = t->kind == RF_RC_REF; t->kind != RF_RC_COMP && i < t->n; i++) {
		if (!refs && t->item[i]->kind == RF_RC_REF)
			hoist_parts(h, t->item[i], true);
		else
			hoist_one(h, &t->item[i]);
	}
}

/* One side of `=`. */
static void hoist_side(struct hoisting *h, struct rf_rc_term **t, bool refs)
{
	if (!refs && (*t)->kind == RF_RC_REF)
		hoist_parts(h, *t, true);
	else
		hoist_one(h, t);
}

static bool is_composite(const struct rf_ra_term *t)
{
	return t->kind == RF_RA_ARRAY || t->kind == RF_RA_OBJECT;
}

/* As OPA has it, what a negated expression is made of is computed outside of the negation: if that is undefined, so is
 * the whole, not true. The references that `=` compares are the exception (a module's `==` becomes one): those
 * stay inside. */
static void hoist_operands(struct rf_rc *c, const struct rf_ra_expr *e, struct rf_rc_with *with,
			   struct rf_rc_body *inner, struct rf_rc_body *b, uint32_t index)
{
	struct hoisting h = { .c = c, .e = e, .with = with, .body = b, .index = index };
	bool eq = is_call_of(e->term, "eq") && e->term->n == 3;
	/* their parts are compared one by one, and were parts before */
	bool parts = eq && is_composite(e->term->item[1]) && is_composite(e->term->item[2]);

	for (uint32_t i = 0; i < inner->n; i++) {
		struct rf_rc_goal *g = &inner->goal[i];
		bool equal = g->a->kind == RF_RC_CALL && g->a->builtin && strcmp(g->a->builtin->name, "equal") == 0;

		if (g->kind == RF_RC_TEST) {
			hoist_parts(&h, g->a, !equal || !c->group);
		} else if (g->kind == RF_RC_EQ && eq) {
			hoist_side(&h, &g->a, parts);
			hoist_side(&h, &g->b, parts);
		} else if (g->kind == RF_RC_EQ) { /* f(x, y) for f(x) = y */
			hoist_parts(&h, g->a, true);
			hoist_one(&h, &g->b);
		}
	}
}

/* Values that several goals share are computed once, before them. */
static void share_withs(struct rf_rc *c, const struct rf_ra_expr *e, struct rf_rc_with *with,
			struct rf_rc_body *b, uint32_t index)
{
	for (uint32_t i = 0; i < e->n_with; i++) {
		struct rf_rc_term *v = with[i].value;
		struct rf_rc_goal *g;

		if (!v || v->kind == RF_RC_CONST || v->kind == RF_RC_VAR)
			continue;
		with[i].value = var_term(c, rf_rc_temp(c), v->loc);
		g = add_goal(c, b, RF_RC_EQ, e->loc);
		g->a = with[i].value;
		g->b = v;
		g->expr = index + 1;
	}
}

/* not x, read where `not { ... }` can be read, too. */
static bool is_plain_not(const struct rf_ra_expr *e)
{
	const struct rf_ra_expr *x;

	if (e->kind != RF_RA_EXPR_NOT_BODY || e->braces || e->negated || e->body->n != 1)
		return false;
	x = e->body->expr[0];
	return x->kind == RF_RA_EXPR_TERM && !x->negated && x->n_with == 0;
}

static void keep_said(struct rf_rc *c, struct rf_rc_body *b, const struct rf_rc_said *said)
{
	if (b->n_said == b->room_said) {
		uint32_t room = b->room_said ? 2 * b->room_said : 4;
		struct rf_rc_said *more = rf_arena_array(c->a, struct rf_rc_said, room);

		if (b->n_said)
			memcpy(more, b->said, b->n_said * sizeof(*more));
		b->said = more;
		b->room_said = room;
	}
	b->said[b->n_said++] = *said;
}

static void say_withs(struct rf_rc *c, const struct rf_rc_with *with, uint32_t n, struct rf_rc_said *said)
{
	said->with = rf_arena_array(c->a, struct rf_rc_term *, n);
	said->n_with = n;
	for (uint32_t i = 0; i < n; i++)
		said->with[i] = with[i].value;
}

/* One expression may be several goals; negation and `with` are around all of them. */
static void whole_expr(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_expr *e,
		       struct rf_rc_body *b, uint32_t index)
{
	struct rf_rc_body inner = { 0 };
	struct rf_rc_goal *g;
	struct rf_ra_expr plain;
	struct rf_rc_with *with = NULL;
	bool inside = is_plain_not(e); /* of this kind even the operands are inside */
	struct rf_rc_said said = { .loc = e->loc };

	if (inside) {
		plain = *e;
		plain.kind = RF_RA_EXPR_TERM;
		plain.term = e->body->expr[0]->term;
		plain.negated = true;
		e = &plain;
	}
	if (e->kind == RF_RA_EXPR_TERM && is_call_of(e->term, "print") && !function_of(c, e->term->item[0])) {
		items(c, s, e->term, 1); /* nobody reads what it would print, but the names are used */
		return;
	}
	if (e->negated && e->kind == RF_RA_EXPR_TERM && is_call_of(e->term, "assign")) {
		rf_ra_complain(c->errors, "rego_compile_error", c->module, e->loc,
			       "cannot assign vars inside negated expression");
		return;
	}
	if (!e->negated && e->n_with == 0) {
		uint32_t from = b->n;

		expr_goals(c, s, e, b, &said);
		for (uint32_t i = from; i < b->n; i++)
			b->goal[i].expr = index + 1;
		if (e->kind != RF_RA_EXPR_SOME)
			keep_said(c, b, &said);
		return;
	}
	/* what := declares is not known there yet, as in OPA */
	if (e->n_with && e->kind == RF_RA_EXPR_TERM && is_call_of(e->term, "assign"))
		with = withs(c, s, e);
	expr_goals(c, s, e, &inner, &said);
	if (e->n_with && !with)
		with = withs(c, s, e);
	if (e->n_with > RF_RC_WITH_MAX)
		return;
	if (e->n_with)
		say_withs(c, with, e->n_with, &said);
	said.negated = e->negated;
	if (inside)
		said.kind = RF_RC_SAID_INSIDE;
	if (e->kind != RF_RA_EXPR_SOME)
		keep_said(c, b, &said);
	if (e->negated || inner.n > 1)
		share_withs(c, e, with, b, index);
	if (e->negated && !inside && e->kind == RF_RA_EXPR_TERM)
		hoist_operands(c, e, with, &inner, b, index);
	if (e->negated) {
		struct rf_rc_body *body = rf_arena_new(c->a, struct rf_rc_body);

		*body = inner;
		inner = (struct rf_rc_body){ 0 };
		g = add_goal(c, &inner, RF_RC_NOT, e->loc);
		g->strict = true;
		g->inside = inside;
		g->body = body;
	}
	for (uint32_t i = 0; i < inner.n; i++) {
		g = add_goal(c, b, inner.goal[i].kind, inner.goal[i].loc);
		*g = inner.goal[i];
		g->expr = index + 1;
		g->with = with;
		g->n_with = e->n_with;
	}
}

static void computed_names(struct rf_rc *c, struct rf_rc_names *l)
{
	for (const struct rf_rc_computed *p = c->computed; p; p = p->next)
		names_in(c, p->term, false, l);
}

/* used: names outside of it that belong to it. */
static struct rf_rc_body *body_with(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b,
				    struct rf_rc_names *used)
{
	struct rf_rc_body *r = rf_arena_new(c->a, struct rf_rc_body);

	introduce(c, s, b, used);
	for (uint32_t i = 0; i < b->n; i++)
		whole_expr(c, s, b->expr[i], r, i);
	return r;
}

struct rf_rc_body *rf_rc_body(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b)
{
	struct rf_rc_names used = { 0 };

	return body_with(c, s, b, &used);
}

/* Has a reference whose keys may be given values by walking it. */
static bool may_bind(const struct rf_rc_term *t)
{
	for (uint32_t i = 0; t->kind != RF_RC_COMP && i < t->n; i++) {
		const struct rf_rc_term *part = t->item[i];
		bool open = (part->kind == RF_RC_VAR && !part->var->wild) || part->kind == RF_RC_ARRAY || part->kind == RF_RC_OBJECT;

		if ((t->kind == RF_RC_REF && i > 0 && open) || may_bind(part))
			return true;
	}
	return false;
}

void rf_rc_in_body(struct rf_rc *c, struct rf_rc_body *b, struct rf_rc_term *t)
{
	struct rf_rc_goal *g;

	if (!t || !may_bind(t))
		return;
	t->late = var_term(c, rf_rc_temp(c), t->loc);
	c->n_slots--; /* it gets one when it is generated: rules that begin alike shall have the same */
	g = add_goal(c, b, RF_RC_EQ, t->loc);
	g->late = true;
	g->a = t->late;
	g->b = t;
}

struct rf_rc_body *rf_rc_rule_body(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b,
				   const struct rf_ra_rule *head, const struct rf_ra_term *value)
{
	struct rf_rc_names used = { 0 };
	struct rf_rc_body *r;

	computed_names(c, &used);
	for (uint32_t i = c->ground; head->ref->kind == RF_RA_REF && i < head->ref->n; i++)
		names_in(c, head->ref->item[i], false, &used);
	names_in(c, value, false, &used);
	r = body_with(c, s, b, &used);
	for (const struct rf_rc_computed *p = c->computed; p; p = p->next) {
		struct rf_rc_said said = { .kind = RF_RC_SAID_EQ, .loc = p->term->loc, .a = p->var };

		said.b = rf_rc_term(c, s, p->term);
		keep_said(c, r, &said);
		eq_goal(c, r, p->var, said.b, p->term->loc);
	}
	return r;
}

static bool is_pattern(const struct rf_ra_term *t)
{
	return t->kind == RF_RA_VALUE || t->kind == RF_RA_VAR;
}

struct rf_rc_term *rf_rc_argument(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t)
{
	struct rf_rc_computed *p;
	struct rf_rc_term *r;

	if (is_pattern(t))
		return rf_rc_term(c, s, t);
	if (t->kind == RF_RA_CALL)
		rf_ra_complain(c->errors, "rego_compile_error", c->module, t->loc,
			       "rule arguments cannot contain calls");
	if (t->kind == RF_RA_ARRAY || t->kind == RF_RA_OBJECT) {
		r = rf_rc_new(c, t->kind == RF_RA_ARRAY ? RF_RC_ARRAY : RF_RC_OBJECT, t->loc);
		r->n = t->n;
		r->item = rf_arena_array(c->a, struct rf_rc_term *, t->n + 1);
		for (uint32_t i = 0; i < t->n; i++)
			r->item[i] = t->kind == RF_RA_OBJECT && i % 2 == 0 ? rf_rc_term(c, s, t->item[i]) :
									     rf_rc_argument(c, s, t->item[i]);
		return t->kind == RF_RA_OBJECT ? without_repeated_keys(c, r) : r;
	}
	p = rf_arena_new(c->a, struct rf_rc_computed);
	*p = (struct rf_rc_computed){ .var = var_term(c, rf_rc_temp(c), t->loc),
				      .term = t,
				      .next = c->computed };
	c->computed = p;
	return p->var;
}
