/* Bodies and the expressions in them. */
#include "policy/rego/parser.h"

struct rf_ra_expr *rf_rp_make_expr(struct rf_rp *p, enum rf_ra_expr_kind kind, struct rf_ra_loc loc)
{
	struct rf_ra_expr *e = rf_rp_alloc(p, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->kind = kind;
	e->loc = loc;
	e->height = 1;
	return e;
}

struct rf_ra_body *rf_rp_body_of(struct rf_rp *p, struct rf_ra_expr *e)
{
	struct rf_ra_body *b = rf_rp_alloc(p, sizeof(*b));

	if (b == NULL || e == NULL)
		return NULL;
	b->expr = rf_rp_alloc(p, sizeof(*b->expr));
	if (b->expr == NULL)
		return NULL;
	b->expr[b->n++] = e;
	return b;
}

unsigned rf_rp_body_height(const struct rf_ra_body *b)
{
	unsigned h = 0;

	for (uint32_t i = 0; i < b->n; i++)
		h = RF_MAX(h, b->expr[i]->height);
	return h;
}

/* --- with ------------------------------------------------------------------------------------ */

static bool one_with(struct rf_rp *p, struct rf_ra_with *w)
{
	w->loc = p->s.loc;
	rf_rp_scan(p);
	if (p->s.tok != RF_T_IDENT)
		return rf_rp_unexpected(p, "expected ident") != NULL;
	w->target = rf_rp_term(p);
	if (w->target == NULL)
		return false;
	if (w->target->kind != RF_RA_REF && w->target->kind != RF_RA_VAR)
		return rf_rp_unexpected(p, "expected with target path") != NULL;
	if (p->s.tok != RF_T_AS)
		return rf_rp_unexpected(p, "expected as keyword") != NULL;
	rf_rp_scan(p);
	w->value = rf_rp_infix(p, true);
	w->loc = rf_rp_span(p, w->loc);
	return w->value != NULL;
}

bool rf_rp_with(struct rf_rp *p, struct rf_ra_expr *e)
{
	RF_VEC(struct rf_ra_with) all = RF_VEC_INIT;
	unsigned below = e->height;
	bool ok = true;

	while (ok && p->s.tok == RF_T_WITH) {
		struct rf_ra_with w = { 0 };

		ok = one_with(p, &w);
		if (ok)
			below = RF_MAX(below, RF_MAX(w.target->height, w.value->height));
		rf_vec_push(&all, w);
	}
	if (ok && all.n > 0) {
		e->with = rf_rp_alloc(p, all.n * sizeof(*e->with));
		ok = e->with != NULL;
		e->n_with = (uint32_t)all.n;
		e->height = (uint8_t)below;
		if (ok)
			memcpy(e->with, all.at, all.n * sizeof(*e->with));
	}
	rf_vec_done(&all);
	return ok;
}

/* --- some, every ----------------------------------------------------------------------------- */

static struct rf_ra_expr *some_vars(struct rf_rp *p, size_t from, struct rf_ra_loc start)
{
	struct rf_ra_expr *e = rf_rp_make_expr(p, RF_RA_EXPR_SOME, rf_rp_span(p, start));

	if (e == NULL)
		return NULL;
	e->vars = rf_rp_list(p, from, &e->n_vars);
	if (e->vars == NULL)
		return NULL;
	for (uint32_t i = 0; i < e->n_vars; i++)
		if (e->vars[i]->kind != RF_RA_VAR || e->vars[i]->grouped)
			return rf_rp_fail(
				p, e->vars[i]->loc,
				e->vars[i]->kind == RF_RA_CALL
					? "unexpected %s: expected `x in xs` or `x, y in xs` "
					  "expression"
					: "unexpected %s: expected var",
				rf_rp_kind_name(e->vars[i]));
	return e;
}

/* At `in`, with one or two terms pushed since `from`. */
static bool in_domain(struct rf_rp *p, struct rf_ra_expr *e, size_t from)
{
	size_t n = p->stack.n - from;

	if (p->s.tok != RF_T_IN || n > 2)
		return rf_rp_unexpected(p, "expected `x in xs` or `x, y in xs` expression") != NULL;
	e->key = n == 2 ? p->stack.at[from] : NULL;
	e->value = p->stack.at[p->stack.n - 1];
	p->stack.n = from;
	rf_rp_scan(p);
	e->domain = rf_rp_relation(p);
	while (e->domain != NULL && !rf_rp_keyword_as_name(p) && p->s.tok == RF_T_IN) {
		/* x in xs in ys: whether x is in xs is what is in ys */
		struct rf_ra_loc loc = p->s.loc;
		struct rf_ra_loc start = e->key ? e->key->loc : e->value->loc;

		e->value = rf_rp_member(p, e->key, e->value, e->domain, loc, start);
		e->key = NULL;
		rf_rp_scan(p);
		e->domain = e->value ? rf_rp_relation(p) : NULL;
	}
	if (e->domain == NULL)
		return false;
	return rf_rp_raise_expr(
		p, e,
		RF_MAX(e->key ? e->key->height : 0u, RF_MAX(e->value->height, e->domain->height)));
}

/* Terms with commas between, behind some or every. */
static bool declared(struct rf_rp *p)
{
	do {
		struct rf_ra_term *t;

		rf_rp_scan(p);
		t = rf_rp_relation(p);
		if (t == NULL)
			return false;
		rf_vec_push(&p->stack, t);
	} while (p->s.tok == RF_T_COMMA);
	return true;
}

static struct rf_ra_expr *some(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	size_t from = p->stack.n;
	struct rf_ra_expr *e;

	if (!declared(p))
		return NULL;
	if (rf_rp_keyword_as_name(p) || p->s.tok != RF_T_IN)
		return some_vars(p, from, start);
	e = rf_rp_make_expr(p, RF_RA_EXPR_SOME_IN, start);
	if (e == NULL || !in_domain(p, e, from) || !rf_rp_with(p, e))
		return NULL;
	e->loc = rf_rp_span(p, start);
	return e;
}

/* The body of every, in braces; one level down. */
static struct rf_ra_body *braced(struct rf_rp *p)
{
	struct rf_ra_body *b;

	if (!rf_rp_enter(p))
		return NULL;
	rf_rp_scan(p);
	b = rf_rp_body(p, RF_T_RBRACE);
	rf_rp_leave(p);
	if (b != NULL)
		rf_rp_scan(p);
	return b;
}

static struct rf_ra_expr *every(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	size_t from = p->stack.n;
	struct rf_ra_expr *e = rf_rp_make_expr(p, RF_RA_EXPR_EVERY, start);

	if (e == NULL || !declared(p))
		return NULL;
	if (p->s.tok != RF_T_IN)
		return rf_rp_unexpected(p, "expected `x[, y] in xs { ... }` expression");
	if (!in_domain(p, e, from))
		return NULL;
	if (e->key != NULL && e->key->kind != RF_RA_VAR)
		return rf_rp_unexpected(p, "expected key to be a variable");
	if (e->value->kind != RF_RA_VAR)
		return rf_rp_unexpected(p, "expected value to be a variable");
	if (p->s.tok != RF_T_LBRACE)
		return rf_rp_unexpected(p, "missing body");
	e->body = braced(p);
	if (e->body == NULL ||
	    !rf_rp_raise_expr(p, e, RF_MAX(e->height, rf_rp_body_height(e->body))) ||
	    !rf_rp_with(p, e))
		return NULL;
	e->loc = rf_rp_span(p, start);
	return e;
}

/* --- the others ------------------------------------------------------------------------------ */

struct rf_ra_expr *rf_rp_simple(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	struct rf_ra_term *t = rf_rp_infix(p, true), *op, *right;
	struct rf_ra_expr *e;

	if (t != NULL && (p->s.tok == RF_T_ASSIGN || p->s.tok == RF_T_UNIFY)) {
		op = rf_rp_operator(p, p->s.tok, p->s.loc);
		rf_rp_scan(p);
		right = rf_rp_infix(p, true);
		t = right ? rf_rp_call2(p, op, t, right, start) : NULL;
	}
	if (t == NULL)
		return NULL;
	e = rf_rp_make_expr(p, RF_RA_EXPR_TERM, rf_rp_span(p, start));
	if (e == NULL)
		return NULL;
	e->term = t;
	e->height = t->height;
	return e;
}

bool rf_rp_negated(struct rf_rp *p)
{
	char next = rf_rp_next_byte(p);

	return p->s.tok == RF_T_NOT && next != '.' && next != '[';
}

/* With `import future.keywords.not` all of the expression is negated, what is nested in it included. */
struct rf_ra_expr *rf_rp_negate(struct rf_rp *p, struct rf_ra_expr *e, struct rf_ra_loc not_loc)
{
	struct rf_ra_expr * not ;

	e->loc = rf_rp_span(p, not_loc);
	if (!(p->keywords & RF_K_NOT)) {
		e->negated = true;
		return e;
	}
	not = rf_rp_make_expr(p, RF_RA_EXPR_NOT_BODY, e->loc);
	if (not == NULL || !rf_rp_raise_expr(p, not, e->height))
		return NULL;
	not ->with = e->with;
	not ->n_with = e->n_with;
	e->with = NULL;
	e->n_with = 0;
	not ->body = rf_rp_body_of(p, e);
	return not ->body ? not : NULL;
}

static struct rf_ra_expr *term_expr(struct rf_rp *p, bool negated, struct rf_ra_loc start)
{
	struct rf_ra_loc with_loc;
	struct rf_ra_expr *e = NULL;
	bool braced_value = !negated && p->s.tok == RF_T_LBRACE;

	if (negated && (p->keywords & RF_K_NOT) && p->s.tok == RF_T_LPAREN &&
	    rf_rp_not_group(p, start, &e))
		return e;
	e = rf_rp_simple(p);
	with_loc = p->s.loc;
	if (e == NULL || !rf_rp_with(p, e))
		return NULL;
	if (negated)
		e = rf_rp_negate(p, e, start);
	if (e == NULL)
		return NULL;
	e->loc = rf_rp_span(p, start);
	if (!rf_rp_logic_follows(p))
		return e;
	if (e->n_with > 0)
		return rf_rp_fail(p, with_loc, "`with` modifier is not allowed on operand of `%s`",
				  rf_rp_tok_name(p->s.tok));
	if (braced_value)
		return rf_rp_fail(
			p, e->loc,
			"operand of `%s` cannot begin with `{` unless the braces hold a body",
			rf_rp_tok_name(p->s.tok));
	return rf_rp_logic(p, (struct rf_rp_side){ rf_rp_body_of(p, e), false, start });
}

struct rf_ra_expr *rf_rp_literal(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	struct rf_ra_expr *e = NULL;
	bool negated;

	if (rf_rp_logic_start(p, &e))
		return e;
	if (rf_rp_keyword_as_name(p))
		return term_expr(p, false, start);
	negated = rf_rp_negated(p);
	if (negated)
		rf_rp_scan(p);
	if (negated && (p->keywords & RF_K_NOT) && p->s.tok == RF_T_LBRACE)
		return rf_rp_not_body(p, start);
	if (negated && (p->s.tok == RF_T_SOME || p->s.tok == RF_T_EVERY))
		return rf_rp_unexpected(p, "illegal negation of '%s'", rf_rp_tok_name(p->s.tok));
	if (p->s.tok == RF_T_SOME)
		return some(p);
	if (p->s.tok == RF_T_EVERY)
		return every(p);
	return term_expr(p, negated, start);
}

/* Expressions up to the end (or, without one, while semicolons go on). */
static struct rf_ra_body *exprs(struct rf_rp *p, enum rf_rp_tok end, bool only_semicolons)
{
	size_t from = p->stack.n;
	struct rf_ra_body *b;

	if (p->s.tok == end)
		return rf_rp_fail(p, p->s.loc, "found empty body");
	for (;;) {
		struct rf_ra_expr *e = rf_rp_literal(p);

		if (e == NULL)
			return NULL;
		rf_vec_push(&p->stack, e);
		if (p->s.tok == RF_T_SEMICOLON) {
			rf_rp_scan(p);
			continue;
		}
		if (p->s.tok == end || only_semicolons)
			break;
		if (!p->s.new_line)
			return rf_rp_unexpected(p, "expected \\n or ; or %s", rf_rp_tok_name(end));
	}
	b = rf_rp_alloc(p, sizeof(*b));
	if (b == NULL)
		return NULL;
	b->expr = rf_rp_list(p, from, &b->n);
	return b->expr ? b : NULL;
}

struct rf_ra_body *rf_rp_body(struct rf_rp *p, enum rf_rp_tok end)
{
	return exprs(p, end, false);
}

struct rf_ra_body *rf_rp_query(struct rf_rp *p)
{
	return exprs(p, RF_T_EOF, true);
}
