/* Rules: all forms of heads, bodies, else, and what v1 asks of them. */
#include "policy/rego/parser.h"

/* What a bodyless statement would be as a query; for the error only. */
static bool not_a_rule(struct rf_rp *p, struct rf_rp_state start)
{
	struct rf_ra_body *b;
	struct rf_ra_expr *e;

	p->s = start;
	b = rf_rp_query(p);
	if (b == NULL)
		return false;
	e = b->expr[0];
	if (b->n > 1)
		rf_rp_fail(p, e->loc, "multiple expressions cannot be used for rule head");
	else if (e->n_with > 0)
		rf_rp_fail(p, e->loc,
			   "expressions using with keyword cannot be used for rule head");
	else if (e->negated || e->kind == RF_RA_EXPR_NOT_BODY)
		rf_rp_fail(p, e->loc, "negated expressions cannot be used for rule head");
	else if (e->kind == RF_RA_EXPR_SOME || e->kind == RF_RA_EXPR_SOME_IN)
		rf_rp_fail(p, e->loc, "'some' declarations cannot be used for rule head");
	else if (e->kind != RF_RA_EXPR_TERM || e->term->infix)
		rf_rp_fail(p, e->loc, "expression cannot be used for rule head");
	else
		rf_rp_fail(p, e->loc, "%s cannot be used for rule name", rf_rp_kind_name(e->term));
	return true;
}

/* --- heads ----------------------------------------------------------------------------------- */

/* The name and arguments; the token behind. */
static bool head_name(struct rf_rp *p, struct rf_ra_rule *r)
{
	struct rf_ra_loc start = p->s.loc;
	struct rf_ra_term *t = rf_rp_var(p);

	if (t == NULL)
		return false;
	if (t->is_wild)
		return rf_rp_unexpected(p, "expected rule head name") != NULL;
	rf_rp_scan(p);
	if (p->s.tok >= RF_T_EQUAL && p->s.tok <= RF_T_REM)
		return rf_rp_unexpected(p, NULL) != NULL;
	if (p->s.tok == RF_T_DOT || p->s.tok == RF_T_LBRACK || p->s.tok == RF_T_LPAREN)
		t = rf_rp_ref(p, t, start);
	if (t == NULL)
		return false;
	if (t->kind == RF_RA_CALL) {
		r->is_function = true;
		r->args = t->item + 1;
		r->n_args = t->n - 1;
		t = t->item[0];
	}
	if (t->kind != RF_RA_VAR && (t->kind != RF_RA_REF || t->item[0]->kind != RF_RA_VAR))
		return rf_rp_fail(p, t->loc, "%s cannot be used for rule name",
				  rf_rp_kind_name(t)) != NULL;
	r->ref = t;
	return true;
}

static bool head_contains(struct rf_rp *p, struct rf_ra_rule *r)
{
	if (r->is_function)
		return rf_rp_unexpected(p,
					"the contains keyword can only be used with multi-value "
					"rule definitions (e.g., %.*s contains <VALUE> { ... })",
					(int)r->ref->loc.n, p->src.p + r->ref->loc.at) != NULL;
	rf_rp_scan(p);
	r->contains = true;
	r->element = rf_rp_infix(p, true);
	return r->element != NULL;
}

static bool head(struct rf_rp *p, struct rf_ra_rule *r)
{
	if (!head_name(p, r))
		return false;
	if (p->s.tok == RF_T_CONTAINS)
		return head_contains(p, r);
	if (p->s.tok != RF_T_ASSIGN && p->s.tok != RF_T_UNIFY)
		return true;
	r->assigned = p->s.tok == RF_T_ASSIGN;
	rf_rp_scan(p);
	r->value = rf_rp_infix(p, true);
	return r->value != NULL;
}

static uint32_t ref_len(const struct rf_ra_term *t)
{
	return t->kind == RF_RA_REF ? t->n : 1;
}

/* v0's p[x] without `if` and without a value is a set. */
static void set_by_ref(struct rf_ra_rule *r)
{
	if (r->contains || r->is_function || r->value != NULL || ref_len(r->ref) != 2)
		return;
	r->contains = r->by_ref = true;
	r->element = r->ref->item[1];
	r->ref = r->ref->item[0];
}

/* --- default --------------------------------------------------------------------------------- */

/* What may not stand in a default value; NULL: nothing. Comprehensions may hold anything. */
static const char *not_constant(const struct rf_ra_term *t)
{
	if (t->kind == RF_RA_VAR || t->kind == RF_RA_REF || t->kind == RF_RA_CALL)
		return rf_rp_kind_name(t);
	if (t->kind != RF_RA_ARRAY && t->kind != RF_RA_SET && t->kind != RF_RA_OBJECT)
		return NULL;
	for (uint32_t i = 0; i < t->n; i++)
		if (not_constant(t->item[i]) != NULL)
			return not_constant(t->item[i]);
	return NULL;
}

#define ARGS_COMPARED 256 /* of more than any function has, so that it takes no time */

static void check_default_args(struct rf_rp *p, const struct rf_ra_rule *r)
{
	for (uint32_t i = 0; i < r->n_args; i++) {
		if (r->args[i]->kind != RF_RA_VAR) {
			rf_rp_fail(p, r->loc, "illegal default rule (arguments cannot contain %s)",
				   rf_rp_kind_name(r->args[i]));
			return;
		}
		for (uint32_t j = 0; j < i && i < ARGS_COMPARED; j++)
			if (rf_str_eq(r->args[i]->name, r->args[j]->name)) {
				rf_rp_fail(
					p, r->loc,
					"illegal default rule (arguments cannot be repeated %.*s)",
					RF_STR(r->args[i]->name));
				return;
			}
	}
}

static bool default_rule(struct rf_rp *p, struct rf_ra_rule *r)
{
	if (!head(p, r))
		return false;
	r->loc = r->head = rf_rp_span(p, r->loc);
	if (r->contains || (r->value == NULL && ref_len(r->ref) == 2)) {
		rf_rp_fail(p, r->loc, "illegal default rule (must have a value)");
		return false;
	}
	if (r->value != NULL && not_constant(r->value) != NULL) {
		rf_rp_fail(p, r->loc, "illegal default rule (value cannot contain %s)",
			   not_constant(r->value));
		return false;
	}
	check_default_args(p, r);
	rf_vec_push(&p->rules, r);
	return true;
}

/* --- bodies ---------------------------------------------------------------------------------- */

static struct rf_ra_body *braces(struct rf_rp *p)
{
	struct rf_ra_body *b;

	rf_rp_scan(p);
	b = rf_rp_body(p, RF_T_RBRACE);
	if (b != NULL)
		rf_rp_scan(p);
	return b;
}

static bool is_set(const struct rf_ra_expr *e)
{
	return e->kind == RF_RA_EXPR_TERM && !e->negated && e->term->kind == RF_RA_SET;
}

/* Behind `if`. What begins with { is one expression if it can be one other than a set, else a body. */
static struct rf_ra_body *if_body(struct rf_rp *p)
{
	struct rf_rp_place start = rf_rp_save(p);
	struct rf_ra_expr *e;

	if (p->s.tok != RF_T_LBRACE)
		return (e = rf_rp_literal(p)) ? rf_rp_body_of(p, e) : NULL;
	p->trying++;
	e = rf_rp_literal(p);
	p->trying--;
	if (e != NULL && !is_set(e))
		return rf_rp_body_of(p, e);
	if (p->fatal)
		return NULL;
	rf_rp_restore(p, start);
	return braces(p);
}

/* --- else ------------------------------------------------------------------------------------ */

static bool is_ground(const struct rf_ra_term *t)
{
	if (t->kind == RF_RA_VAR)
		return false;
	if (t->kind != RF_RA_REF && t->kind != RF_RA_ARRAY && t->kind != RF_RA_SET &&
	    t->kind != RF_RA_OBJECT && t->kind != RF_RA_CALL)
		return true;
	for (uint32_t i = t->kind == RF_RA_CALL; i < t->n; i++)
		if (!is_ground(t->item[i]))
			return false;
	return true;
}

static bool may_have_else(struct rf_rp *p, const struct rf_ra_rule *r)
{
	for (uint32_t i = 1; i < ref_len(r->ref); i++)
		if (!is_ground(r->ref->item[i]))
			return rf_rp_fail(p, p->s.loc,
					  "else keyword cannot be used on rules with variables in "
					  "head") != NULL;
	if (r->contains || (!r->has_if && !r->is_function && ref_len(r->ref) == 2))
		return rf_rp_fail(p, p->s.loc,
				  "else keyword cannot be used on multi-value rules") != NULL;
	return true;
}

/* At `else`. */
static struct rf_ra_rule *otherwise(struct rf_rp *p)
{
	struct rf_ra_rule *r = rf_rp_alloc(p, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->loc = p->s.loc;
	rf_rp_scan(p);
	if (p->s.tok == RF_T_ASSIGN || p->s.tok == RF_T_UNIFY) {
		r->assigned = p->s.tok == RF_T_ASSIGN;
		rf_rp_scan(p);
		r->value = rf_rp_infix(p, true);
		if (r->value == NULL)
			return NULL;
	} else if (p->s.tok != RF_T_LBRACE && p->s.tok != RF_T_IF) {
		return rf_rp_unexpected(p, "expected else value term or rule body");
	}
	r->head = rf_rp_span(p, r->loc);
	r->has_if = p->s.tok == RF_T_IF;
	if (r->has_if)
		rf_rp_scan(p);
	if (r->has_if && p->s.tok == RF_T_EOF)
		return rf_rp_unexpected(p, "rule body expected");
	if (p->s.tok == RF_T_LBRACE)
		r->body = braces(p);
	else if (r->has_if)
		r->body = if_body(p);
	if (r->body == NULL && (r->has_if || p->s.tok == RF_T_LBRACE || r->value == NULL))
		return NULL;
	r->loc = rf_rp_span(p, r->loc);
	return r;
}

static bool else_chain(struct rf_rp *p, struct rf_ra_rule *r)
{
	struct rf_ra_rule **last = &r->otherwise;

	while (p->s.tok == RF_T_ELSE && !rf_rp_keyword_as_name(p)) {
		if (last == &r->otherwise && !may_have_else(p, r))
			return false;
		if (*last != NULL && (*last)->body == NULL)
			return rf_rp_unexpected(p, NULL) != NULL;
		*last = otherwise(p);
		if (*last == NULL)
			return false;
		last = &(*last)->otherwise;
	}
	return true;
}

/* --- more bodies under one head -------------------------------------------------------------- */

/* Arguments that are _ are another _ in each body. */
static bool fresh_args(struct rf_rp *p, struct rf_ra_rule *r)
{
	struct rf_ra_term **args = rf_rp_alloc(p, r->n_args * sizeof(*args));

	if (args == NULL)
		return false;
	for (uint32_t i = 0; i < r->n_args; i++) {
		args[i] = r->args[i];
		if (args[i]->kind != RF_RA_VAR || !args[i]->is_wild)
			continue;
		args[i] = rf_rp_make(p, RF_RA_VAR, r->args[i]->loc);
		if (args[i] == NULL || rf_rp_wild(p, args[i]) == NULL)
			return false;
	}
	r->args = args;
	return true;
}

static bool more_bodies(struct rf_rp *p, struct rf_ra_rule *r)
{
	while (p->s.tok == RF_T_LBRACE) {
		struct rf_ra_rule *next;

		if (r->otherwise != NULL)
			return rf_rp_fail(p, p->s.loc, "expected else keyword") != NULL;
		next = rf_rp_alloc(p, sizeof(*next));
		if (next == NULL)
			return false;
		*next = *r;
		next->same_head = NULL;
		next->loc = next->head = p->s.loc;
		if (r->n_args > 0 && !fresh_args(p, next))
			return false;
		next->body = braces(p);
		if (next->body == NULL)
			return false;
		next->loc = rf_rp_span(p, next->loc);
		r->same_head = next;
		r = next;
	}
	return true;
}

/* --- rules ----------------------------------------------------------------------------------- */

/* Neither `if` nor a body: p := 1, p[x], f(x), a.b.c. */
static bool without_body(struct rf_rp *p, struct rf_ra_rule *r, struct rf_rp_state start)
{
	bool named =
		r->value == NULL && r->ref->kind == RF_RA_VAR && !r->is_function && !r->contains;

	if (named || p->s.tok == RF_T_WITH || p->s.tok == RF_T_SEMICOLON || p->s.tok == RF_T_IN ||
	    p->s.tok >= RF_T_UNIFY || rf_rp_logic_follows(p))
		return not_a_rule(p, start);
	if (r->is_function && r->value == NULL && r->n_args == 0) {
		rf_rp_fail(p, r->loc, "rule argument list must take at least one argument");
		return true;
	}
	rf_vec_push(&p->rules, r);
	return true;
}

static bool with_body(struct rf_rp *p, struct rf_ra_rule *r, struct rf_rp_state start)
{
	r->head = rf_rp_span(p, r->loc);
	r->has_if = p->s.tok == RF_T_IF;
	if (!r->has_if)
		set_by_ref(r);
	if (r->has_if) {
		rf_rp_scan(p);
		r->body = if_body(p);
	} else if (p->s.tok == RF_T_LBRACE) {
		r->body = braces(p);
	} else if (!r->contains || r->by_ref) {
		r->loc = rf_rp_span(p, r->loc);
		return without_body(p, r, start);
	}
	if (r->body == NULL && (r->has_if || !r->contains || p->errors->n > 0 || p->fatal))
		return false;
	if (r->body != NULL && !else_chain(p, r))
		return false;
	r->loc = rf_rp_span(p, r->loc);
	rf_vec_push(&p->rules, r);
	return r->body == NULL || more_bodies(p, r);
}

bool rf_rp_rule(struct rf_rp *p)
{
	struct rf_rp_state start = p->s;
	struct rf_ra_rule *r = rf_rp_alloc(p, sizeof(*r));

	if (r == NULL)
		return false;
	r->loc = p->s.loc;
	rf_rp_keyword_as_name(p);
	if (p->s.tok == RF_T_DEFAULT) {
		r->is_default = true;
		rf_rp_scan(p);
		rf_rp_keyword_as_name(p);
	}
	if (p->s.tok != RF_T_IDENT)
		return not_a_rule(p, start);
	if (r->is_default)
		return default_rule(p, r);
	return head(p, r) && with_body(p, r, start);
}

/* --- v1 -------------------------------------------------------------------------------------- */

static void check_if(struct rf_rp *p, const struct rf_ra_rule *r, const char *what)
{
	if (r->body != NULL && !r->has_if)
		rf_rp_fail(p, r->loc, "`if` keyword is required before %s body", what);
}

void rf_rp_check_v1(struct rf_rp *p, const struct rf_ra_rule *r)
{
	const char *what = r->is_function ? "function" : "rule";

	if (r->is_default)
		return;
	if (r->ref->kind == RF_RA_VAR && rf_rp_is_keyword(r->ref->name, true))
		rf_rp_fail(p, r->loc, "%.*s keyword cannot be used for rule name",
			   RF_STR(r->ref->name));
	if (r->body == NULL && r->value == NULL && !r->contains && !r->is_function)
		rf_rp_fail(p, r->loc, "%s must have value assignment and/or body declaration",
			   what);
	check_if(p, r, what);
	for (const struct rf_ra_rule *o = r->otherwise; o != NULL; o = o->otherwise)
		check_if(p, o, what);
	for (const struct rf_ra_rule *o = r->same_head; o != NULL; o = o->same_head)
		check_if(p, o, what);
	if (r->contains && r->by_ref)
		rf_rp_fail(p, r->loc, "`contains` keyword is required for partial set rules");
}
