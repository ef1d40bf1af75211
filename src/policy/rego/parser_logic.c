/* and, or and not { }: operators between bodies, there once imported. `and` binds tighter; both from the
 * left. A side is an expression, { a body } or ( a group of these ). */
#include "policy/rego/parser.h"

static struct rf_rp_side operand(struct rf_rp *p);

static struct rf_ra_expr *join(struct rf_rp *p, enum rf_ra_expr_kind kind, struct rf_rp_side l,
			       struct rf_rp_side r)
{
	struct rf_ra_expr *e = rf_rp_make_expr(p, kind, rf_rp_span(p, l.loc));

	if (e == NULL ||
	    !rf_rp_raise_expr(p, e, RF_MAX(rf_rp_body_height(l.body), rf_rp_body_height(r.body))))
		return NULL;
	e->body = l.body;
	e->braces = l.braces;
	e->other = r.body;
	e->other_braces = r.braces;
	return e;
}

static struct rf_rp_side side_of(struct rf_rp *p, struct rf_ra_expr *e)
{
	if (e == NULL)
		return (struct rf_rp_side){ NULL, false, p->s.loc };
	return (struct rf_rp_side){ rf_rp_body_of(p, e), false, e->loc };
}

static struct rf_rp_side and_chain(struct rf_rp *p, struct rf_rp_side left)
{
	while (left.body != NULL && p->s.tok == RF_T_LOGIC_AND) {
		struct rf_rp_side right;

		rf_rp_scan(p);
		right = operand(p);
		if (right.body == NULL)
			return right;
		left = side_of(p, join(p, RF_RA_EXPR_AND, left, right));
	}
	return left;
}

/* The chain without `with` behind it. */
static struct rf_ra_expr *chain(struct rf_rp *p, struct rf_rp_side left)
{
	left = and_chain(p, left);
	while (left.body != NULL && p->s.tok == RF_T_LOGIC_OR) {
		struct rf_rp_side right;

		rf_rp_scan(p);
		right = and_chain(p, operand(p));
		if (right.body == NULL)
			return NULL;
		left = side_of(p, join(p, RF_RA_EXPR_OR, left, right));
	}
	return left.body ? left.body->expr[0] : NULL;
}

struct rf_ra_expr *rf_rp_logic(struct rf_rp *p, struct rf_rp_side left)
{
	struct rf_ra_loc start = left.loc;
	struct rf_ra_expr *e = chain(p, left);

	if (e == NULL || !rf_rp_with(p, e))
		return NULL;
	e->loc = rf_rp_span(p, start);
	return e;
}

/* What was read may lead a chain, or stand alone. */
static struct rf_ra_expr *fold(struct rf_rp *p, struct rf_rp_side s)
{
	if (s.body == NULL)
		return NULL;
	if (rf_rp_logic_follows(p))
		return rf_rp_logic(p, s);
	return rf_rp_with(p, s.body->expr[0]) ? s.body->expr[0] : NULL;
}

/* { x | y } could be a comprehension; which one was meant has to be said. */
static bool ambiguous(struct rf_rp *p, const struct rf_ra_body *b, struct rf_ra_loc loc)
{
	const struct rf_ra_term *t = b->expr[0]->term;

	if (b->expr[0]->kind != RF_RA_EXPR_TERM || t->kind != RF_RA_CALL || !t->infix ||
	    t->grouped || t->item[0]->kind != RF_RA_VAR || !rf_str_is(t->item[0]->name, "or"))
		return false;
	rf_rp_fail(
		p, loc,
		"ambiguous `{ ... | ... }` operand: read as a body holding a set-union expression, "
		"not as a comprehension; put parentheses around one or the other");
	return true;
}

/* { body }, one level down; at the {. */
static struct rf_ra_body *braces(struct rf_rp *p)
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

static struct rf_ra_expr *not_of(struct rf_rp *p, struct rf_ra_body *b, bool in_braces,
				 struct rf_ra_loc not_loc)
{
	struct rf_ra_expr *e;

	if (b == NULL)
		return NULL;
	e = rf_rp_make_expr(p, RF_RA_EXPR_NOT_BODY, rf_rp_span(p, not_loc));
	if (e == NULL || !rf_rp_raise_expr(p, e, rf_rp_body_height(b)))
		return NULL;
	e->body = b;
	e->braces = in_braces;
	return e;
}

static struct rf_ra_expr *not_braces(struct rf_rp *p, struct rf_ra_loc not_loc)
{
	struct rf_ra_loc loc = p->s.loc;
	struct rf_ra_body *b = braces(p);

	if (b == NULL || ambiguous(p, b, loc))
		return NULL;
	return not_of(p, b, true, not_loc);
}

struct rf_ra_expr *rf_rp_not_body(struct rf_rp *p, struct rf_ra_loc not_loc)
{
	return fold(p, side_of(p, not_braces(p, not_loc)));
}

/* --- groups in parentheses ------------------------------------------------------------------- */

static bool go_back(struct rf_rp *p, struct rf_rp_place at)
{
	if (!p->fatal)
		rf_rp_restore(p, at);
	return false;
}

static bool is_logic(const struct rf_ra_body *b)
{
	return b->n == 1 &&
	       (b->expr[0]->negated || b->expr[0]->kind == RF_RA_EXPR_NOT_BODY ||
		b->expr[0]->kind == RF_RA_EXPR_AND || b->expr[0]->kind == RF_RA_EXPR_OR);
}

static bool closed(struct rf_rp *p)
{
	if (p->s.tok != RF_T_RPAREN)
		return rf_rp_fail(p, p->s.loc, "expected ) to close parenthesized group") != NULL;
	rf_rp_scan(p);
	return true;
}

/* Behind the first operand. False: no group of logic, but a term in parentheses. */
static bool group_rest(struct rf_rp *p, struct rf_rp_side *s, struct rf_ra_loc start,
		       bool is_operand)
{
	if (rf_rp_logic_follows(p)) {
		struct rf_ra_expr *e = rf_rp_logic(p, *s);

		*s = e && closed(p) ? side_of(p, e) : (struct rf_rp_side){ NULL, false, start };
		return true;
	}
	if (p->s.tok == RF_T_WITH && !s->braces && s->body->n == 1) {
		if (!rf_rp_with(p, s->body->expr[0]) || p->s.tok != RF_T_RPAREN)
			return false;
		rf_rp_scan(p);
		return is_operand || rf_rp_logic_follows(p);
	}
	if (s->braces || !is_logic(s->body))
		return false;
	if (!closed(p))
		s->body = NULL;
	return true;
}

/* At the (. is_operand: already behind and, or or not. False: not a group, and nothing is read. */
static bool group(struct rf_rp *p, bool is_operand, struct rf_rp_side *ret)
{
	struct rf_ra_loc start = p->s.loc;
	struct rf_rp_place at = rf_rp_save(p);
	bool ok;

	*ret = (struct rf_rp_side){ NULL, false, start };
	if (!rf_rp_enter(p))
		return true;
	rf_rp_scan(p);
	p->trying++;
	*ret = operand(p);
	p->trying--;
	ok = ret->body != NULL && group_rest(p, ret, start, is_operand);
	rf_rp_leave(p);
	ret->loc = start;
	return ok || p->fatal ? true : go_back(p, at);
}

bool rf_rp_not_group(struct rf_rp *p, struct rf_ra_loc not_loc, struct rf_ra_expr **ret)
{
	struct rf_rp_side s;

	if (!(p->keywords & (RF_K_AND | RF_K_OR)) || !group(p, true, &s))
		return false;
	*ret = fold(p, side_of(p, not_of(p, s.body, s.braces, not_loc)));
	return true;
}

/* --- sides ----------------------------------------------------------------------------------- */

static struct rf_rp_side plain_operand(struct rf_rp *p, bool negated, struct rf_ra_loc start)
{
	struct rf_ra_expr *e = rf_rp_simple(p);

	if (e != NULL && negated)
		e = rf_rp_negate(p, e, start);
	return side_of(p, e);
}

static struct rf_rp_side operand(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	struct rf_rp_side s = { NULL, true, start };
	bool negated, not_bodies = p->keywords & RF_K_NOT;

	if (p->s.tok == RF_T_LBRACE) {
		s.body = braces(p);
		if (s.body != NULL && ambiguous(p, s.body, start))
			s.body = NULL;
		return s;
	}
	negated = rf_rp_negated(p);
	if (negated)
		rf_rp_scan(p);
	if (negated && not_bodies && p->s.tok == RF_T_LBRACE)
		return side_of(p, not_braces(p, start));
	if (p->s.tok == RF_T_LPAREN && (!negated || not_bodies) && group(p, true, &s))
		return negated ? side_of(p, not_of(p, s.body, s.braces, start)) : s;
	return plain_operand(p, negated, start);
}

static bool braces_start(struct rf_rp *p, struct rf_ra_expr **ret)
{
	struct rf_rp_side s = { NULL, true, p->s.loc };
	struct rf_rp_place at = rf_rp_save(p);

	p->trying++;
	s.body = braces(p);
	p->trying--;
	if (s.body == NULL || !rf_rp_logic_follows(p))
		return go_back(p, at) || p->fatal;
	*ret = ambiguous(p, s.body, s.loc) ? NULL : rf_rp_logic(p, s);
	return true;
}

bool rf_rp_logic_start(struct rf_rp *p, struct rf_ra_expr **ret)
{
	struct rf_rp_side s;

	*ret = NULL;
	if (!(p->keywords & (RF_K_AND | RF_K_OR)))
		return false;
	if (p->s.tok == RF_T_LBRACE)
		return braces_start(p, ret);
	if (p->s.tok != RF_T_LPAREN || !group(p, false, &s))
		return false;
	*ret = fold(p, s);
	return true;
}
