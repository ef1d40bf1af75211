/* Terms: values, references, calls, composites, comprehensions, and infix operators between them. */
#include <stdio.h>

#include "policy/rego/parser.h"

struct rf_ra_term *rf_rp_make(struct rf_rp *p, enum rf_ra_kind kind, struct rf_ra_loc loc)
{
	struct rf_ra_term *t = rf_rp_alloc(p, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->kind = kind;
	t->loc = loc;
	t->height = 1;
	return t;
}

struct rf_ra_term *rf_rp_string(struct rf_rp *p, struct rf_str s, struct rf_ra_loc loc)
{
	struct rf_ra_term *t = rf_rp_make(p, RF_RA_VALUE, loc);

	if (t != NULL)
		t->value = rf_rv_str(s);
	return t;
}

const char *rf_rp_kind_name(const struct rf_ra_term *t)
{
	static const char *const values[] = { "null",  "boolean", "number", "string",
					      "array", "object",  "set" };
	static const char *const kinds[] = {
		[RF_RA_VAR] = "var",
		[RF_RA_REF] = "ref",
		[RF_RA_ARRAY] = "array",
		[RF_RA_SET] = "set",
		[RF_RA_OBJECT] = "object",
		[RF_RA_ARRAY_COMP] = "arraycomprehension",
		[RF_RA_SET_COMP] = "setcomprehension",
		[RF_RA_OBJECT_COMP] = "objectcomprehension",
		[RF_RA_CALL] = "call",
		[RF_RA_TEMPLATE] = "templatestring",
		[RF_RA_TEMPLATE_WITH] = "expr",
	};

	return t->kind == RF_RA_VALUE ? values[t->value.type] : kinds[t->kind];
}

struct rf_ra_term *rf_rp_var(struct rf_rp *p)
{
	struct rf_ra_term *t = rf_rp_make(p, RF_RA_VAR, p->s.loc);

	if (t == NULL)
		return NULL;
	t->name = rf_rp_text(p);
	if (rf_str_is(t->name, "_"))
		return rf_rp_wild(p, t);
	return t;
}

struct rf_ra_term *rf_rp_wild(struct rf_rp *p, struct rf_ra_term *var)
{
	char *name = rf_rp_alloc(p, 12);

	if (name == NULL)
		return NULL;
	var->is_wild = true;
	var->name = rf_str_n(name, (size_t)snprintf(name, 12, "$%u", p->wild++));
	return var;
}

/* Gives the term its items, which were pushed since `from`. */
static struct rf_ra_term *with_items(struct rf_rp *p, struct rf_ra_term *t, size_t from)
{
	unsigned below = 0;

	if (t == NULL)
		return NULL;
	t->item = rf_rp_list(p, from, &t->n);
	if (t->item == NULL)
		return NULL;
	for (uint32_t i = 0; i < t->n; i++)
		below = RF_MAX(below, t->item[i]->height);
	return rf_rp_raise(p, t, below) ? t : NULL;
}

/* --- what was read before -------------------------------------------------------------------- */

#define MEMO_MAX (1u << 18) /* brackets in what is tried of one statement */

static size_t memo_home(const struct rf_rp *p, uint32_t at)
{
	return (at * 2654435761u) & (p->memo_slots - 1);
}

static struct rf_rp_memo *memo_find(const struct rf_rp *p, uint32_t at)
{
	if (p->memo.n == 0)
		return NULL;
	for (size_t i = memo_home(p, at); p->memo_slot[i] != 0; i = (i + 1) & (p->memo_slots - 1))
		if (p->memo.at[p->memo_slot[i] - 1].at == at)
			return &p->memo.at[p->memo_slot[i] - 1];
	return NULL;
}

static void memo_place(struct rf_rp *p, uint32_t index)
{
	size_t i = memo_home(p, p->memo.at[index].at);

	while (p->memo_slot[i] != 0)
		i = (i + 1) & (p->memo_slots - 1);
	p->memo_slot[i] = index + 1;
}

static void memo_grow(struct rf_rp *p)
{
	p->memo_slots = p->memo_slots ? p->memo_slots * 2 : 64;
	free(p->memo_slot);
	p->memo_slot = rf_alloc(p->memo_slots * sizeof(*p->memo_slot));
	for (size_t i = 0; i < p->memo.n; i++)
		memo_place(p, (uint32_t)i);
}

static void memo_add(struct rf_rp *p, uint32_t at, struct rf_ra_term *t)
{
	if (p->fatal || memo_find(p, at) != NULL)
		return;
	if (p->memo.n >= MEMO_MAX) { /* to go on without it could take forever */
		rf_rp_full(p);
		return;
	}
	if ((p->memo.n + 1) * 2 > p->memo_slots)
		memo_grow(p);
	rf_vec_push(&p->memo, ((struct rf_rp_memo){ at, t, p->s }));
	memo_place(p, (uint32_t)p->memo.n - 1);
}

/* --- lists ----------------------------------------------------------------------------------- */

static bool push(struct rf_rp *p, struct rf_ra_term *t)
{
	if (t == NULL)
		return false;
	rf_vec_push(&p->stack, t);
	return true;
}

/* Behind an item: on to the next one, which there must be unless the end comes. */
static bool list_goes_on(struct rf_rp *p, enum rf_rp_tok end, bool *failed)
{
	if (p->s.tok == end)
		return false;
	if (p->s.tok != RF_T_COMMA) {
		rf_rp_unexpected(p, "expected \",\" or \"%s\"", rf_rp_tok_name(end));
		*failed = true;
		return false;
	}
	rf_rp_scan(p);
	return p->s.tok != end;
}

/* Pushes items up to the end, which stays the token. */
static bool items(struct rf_rp *p, enum rf_rp_tok end)
{
	bool failed = false;

	do {
		if (!push(p, rf_rp_infix(p, false)))
			return false;
	} while (list_goes_on(p, end, &failed));
	return !failed;
}

static bool pairs(struct rf_rp *p)
{
	bool failed = false;

	do {
		if (!push(p, rf_rp_infix(p, false)))
			return false;
		if (p->s.tok != RF_T_COLON)
			return rf_rp_unexpected(p, "expected \":\"") != NULL;
		rf_rp_scan(p);
		if (!push(p, rf_rp_infix(p, false)))
			return false;
	} while (list_goes_on(p, RF_T_RBRACE, &failed));
	return !failed;
}

/* --- references and calls -------------------------------------------------------------------- */

static bool is_callable(const struct rf_ra_term *t)
{
	if (t->kind == RF_RA_VAR)
		return !t->is_wild;
	if (t->kind != RF_RA_REF || t->item[0]->kind != RF_RA_VAR)
		return false;
	for (uint32_t i = 1; i < t->n; i++)
		if (t->item[i]->kind != RF_RA_VALUE || t->item[i]->value.type != RF_RV_STRING)
			return false;
	return true;
}

/* At the (. */
static struct rf_ra_term *call(struct rf_rp *p, struct rf_ra_term *op, struct rf_ra_loc start)
{
	size_t from = p->stack.n;
	struct rf_ra_term *t;

	if (!is_callable(op)) {
		rf_rp_fail(p, op->loc, "undefined function %.*s", (int)op->loc.n,
			   p->src.p + op->loc.at);
		return NULL;
	}
	rf_vec_push(&p->stack, op);
	rf_rp_scan(p);
	if (p->s.tok != RF_T_RPAREN && !items(p, RF_T_RPAREN))
		return NULL;
	rf_rp_scan(p);
	start = rf_rp_span(p, start);
	if (op->kind == RF_RA_VAR && rf_str_is(op->name, "set") && p->stack.n == from + 1) {
		p->stack.n = from;
		t = rf_rp_make(p, RF_RA_SET, start);
	} else {
		t = rf_rp_make(p, RF_RA_CALL, start);
	}
	return with_items(p, t, from);
}

/* .name */
static bool dot(struct rf_rp *p)
{
	rf_rp_scan(p);
	if (p->s.spaced || p->s.tok < RF_T_IDENT || p->s.tok > RF_T_LOGIC_OR)
		return rf_rp_unexpected(p, "expected identifier") != NULL;
	if (!push(p, rf_rp_string(p, rf_rp_text(p), p->s.loc)))
		return false;
	rf_rp_scan(p);
	return true;
}

/* [term] */
static bool bracket(struct rf_rp *p)
{
	rf_rp_scan(p);
	if (!push(p, rf_rp_infix(p, true)))
		return false;
	if (p->s.tok != RF_T_RBRACK)
		return rf_rp_unexpected(p, "expected [") != NULL;
	rf_rp_scan(p);
	return true;
}

static struct rf_ra_term *ref_of(struct rf_rp *p, size_t from, struct rf_ra_loc start)
{
	if (p->stack.n == from + 1)
		return p->stack.at[--p->stack.n];
	return with_items(p, rf_rp_make(p, RF_RA_REF, rf_rp_span(p, start)), from);
}

/* A call that is not yet part of a reference: f(x)(y) is none of Rego's. */
static bool just_called(const struct rf_rp *p, size_t from)
{
	const struct rf_ra_term *head = p->stack.at[from];

	return p->stack.n == from + 1 && head->kind == RF_RA_CALL;
}

/* The token is the first behind the head; white space between them does not count. */
struct rf_ra_term *rf_rp_ref(struct rf_rp *p, struct rf_ra_term *head, struct rf_ra_loc start)
{
	size_t from = p->stack.n;

	rf_vec_push(&p->stack, head);
	do {
		if (p->s.tok == RF_T_DOT) {
			if (!dot(p))
				return NULL;
		} else if (p->s.tok == RF_T_LBRACK) {
			if (!bracket(p))
				return NULL;
		} else if (p->s.tok == RF_T_LPAREN && !just_called(p, from)) {
			struct rf_ra_term *op = ref_of(p, from, start);

			if (op == NULL || !push(p, call(p, op, start)))
				return NULL;
		} else {
			break;
		}
	} while (!p->s.spaced);
	return ref_of(p, from, start);
}

static bool may_head(const struct rf_ra_term *t)
{
	return t->kind != RF_RA_VALUE && t->kind != RF_RA_REF && t->kind != RF_RA_TEMPLATE;
}

/* Behind a term: what follows without a space makes a reference or a call of it. */
static struct rf_ra_term *with_ref(struct rf_rp *p, struct rf_ra_term *t, struct rf_ra_loc start)
{
	if (t == NULL || p->s.spaced ||
	    (p->s.tok != RF_T_DOT && p->s.tok != RF_T_LBRACK && p->s.tok != RF_T_LPAREN))
		return t;
	if (!may_head(t))
		return rf_rp_fail(p, t->loc, "illegal ref (head cannot be %s)", rf_rp_kind_name(t));
	return rf_rp_ref(p, t, start);
}

/* --- composites ------------------------------------------------------------------------------ */

/* Behind the |: a body up to the end makes a comprehension. Otherwise, with a comma where it stopped,
 * the | was a union: back to it, *ret NULL and true. False: neither, and the error is said. */
static bool comprehension_body(struct rf_rp *p, enum rf_rp_tok end, struct rf_ra_body **ret)
{
	struct rf_rp_place at_bar = rf_rp_save(p);

	rf_rp_scan(p);
	p->trying++;
	*ret = rf_rp_body(p, end);
	p->trying--;
	if (*ret != NULL)
		return true;
	if (p->fatal)
		return false;
	if (p->s.tok == RF_T_COMMA) {
		rf_rp_restore(p, at_bar);
		return true;
	}
	rf_rp_restore(p, at_bar);
	if (p->trying)
		return false;
	rf_rp_scan(p);
	rf_rp_body(p, end); /* again, for what is wrong with it */
	return false;
}

static struct rf_ra_term *comprehension(struct rf_rp *p, enum rf_ra_kind kind,
					struct rf_ra_term *key, struct rf_ra_term *term,
					struct rf_ra_body *body, struct rf_ra_loc start)
{
	struct rf_ra_term *t = rf_rp_make(p, kind, start);
	unsigned below = RF_MAX(term->height, rf_rp_body_height(body));

	if (t == NULL || !rf_rp_raise(p, t, RF_MAX(below, key ? key->height : 0u)))
		return NULL;
	t->comp.key = key;
	t->comp.term = term;
	t->comp.body = body;
	return t;
}

static struct rf_ra_term *infix_from(struct rf_rp *p, struct rf_ra_term *left, bool with_pairs);

/* Moves over the closing bracket and ends the term there. */
static struct rf_ra_term *closed(struct rf_rp *p, struct rf_ra_term *t)
{
	if (t == NULL)
		return NULL;
	rf_rp_scan(p);
	t->loc = rf_rp_span(p, t->loc);
	return t;
}

/* The first item of an array or set was begun with `head`; it goes on, and others follow. */
static bool more_items(struct rf_rp *p, struct rf_ra_term *head, enum rf_rp_tok end)
{
	bool failed = false;

	if (!push(p, infix_from(p, head, false)))
		return false;
	if (list_goes_on(p, end, &failed))
		return items(p, end);
	return !failed;
}

static struct rf_ra_term *array(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	size_t from = p->stack.n;
	struct rf_ra_body *body = NULL;
	struct rf_ra_term *head;
	bool odd;

	rf_rp_scan(p);
	if (p->s.tok == RF_T_RBRACK)
		return closed(p, with_items(p, rf_rp_make(p, RF_RA_ARRAY, start), from));
	odd = p->s.tok == RF_T_COMMA; /* a leading comma is let through, as OPA does */
	if (odd)
		rf_rp_scan(p);
	head = rf_rp_term(p);
	if (head == NULL)
		return NULL;
	if (p->s.tok == RF_T_OR && !odd && !comprehension_body(p, RF_T_RBRACK, &body))
		return NULL;
	if (body != NULL)
		return closed(p, comprehension(p, RF_RA_ARRAY_COMP, NULL, head, body, start));
	if (!more_items(p, head, RF_T_RBRACK))
		return NULL;
	return closed(p, with_items(p, rf_rp_make(p, RF_RA_ARRAY, start), from));
}

/* Behind the colon of the first pair. */
static struct rf_ra_term *object(struct rf_rp *p, struct rf_ra_term *key, bool odd,
				 struct rf_ra_loc start, size_t from)
{
	struct rf_ra_body *body = NULL;
	struct rf_ra_term *v;
	bool failed = false;

	rf_rp_scan(p);
	v = rf_rp_term(p);
	if (v == NULL)
		return NULL;
	if (p->s.tok == RF_T_OR && !odd && !comprehension_body(p, RF_T_RBRACE, &body))
		return NULL;
	if (body != NULL)
		return closed(p, comprehension(p, RF_RA_OBJECT_COMP, key, v, body, start));
	rf_vec_push(&p->stack, key);
	if (!push(p, infix_from(p, v, false)))
		return NULL;
	if (p->s.tok != RF_T_COMMA && p->s.tok != RF_T_RBRACE)
		return rf_rp_unexpected(p, "non-terminated object");
	if (list_goes_on(p, RF_T_RBRACE, &failed) && !pairs(p))
		return NULL;
	return closed(p, with_items(p, rf_rp_make(p, RF_RA_OBJECT, start), from));
}

static struct rf_ra_term *set(struct rf_rp *p, struct rf_ra_term *first, struct rf_ra_loc start,
			      size_t from)
{
	bool failed = false;

	rf_vec_push(&p->stack, first);
	if (p->s.tok != RF_T_COMMA && p->s.tok != RF_T_RBRACE)
		return rf_rp_unexpected(p, "non-terminated set");
	if (list_goes_on(p, RF_T_RBRACE, &failed) && !items(p, RF_T_RBRACE))
		return NULL;
	return closed(p, with_items(p, rf_rp_make(p, RF_RA_SET, start), from));
}

static struct rf_ra_term *set_or_object(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	size_t from = p->stack.n;
	struct rf_ra_body *body = NULL;
	struct rf_ra_term *head;
	bool odd;

	rf_rp_scan(p);
	if (p->s.tok == RF_T_RBRACE)
		return closed(p, with_items(p, rf_rp_make(p, RF_RA_OBJECT, start), from));
	odd = p->s.tok == RF_T_COMMA;
	if (odd)
		rf_rp_scan(p);
	head = rf_rp_term(p);
	if (head == NULL)
		return NULL;
	if (p->s.tok == RF_T_OR && !odd && !comprehension_body(p, RF_T_RBRACE, &body))
		return NULL;
	if (body != NULL)
		return closed(p, comprehension(p, RF_RA_SET_COMP, NULL, head, body, start));
	head = infix_from(p, head, false);
	if (head == NULL)
		return NULL;
	if (p->s.tok == RF_T_COLON)
		return object(p, head, odd, start, from);
	return set(p, head, start, from);
}

static struct rf_ra_term *parens(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	struct rf_ra_term *t;

	rf_rp_scan(p);
	t = rf_rp_infix(p, true);
	if (t == NULL)
		return NULL;
	if (p->s.tok == RF_T_ILLEGAL)
		return rf_rp_unexpected(p, NULL);
	if (p->s.tok != RF_T_RPAREN)
		return rf_rp_fail(p, p->s.loc, "non-terminated expression");
	t->grouped = true;
	t->loc = start;
	return closed(p, t);
}

/* --- one term -------------------------------------------------------------------------------- */

static struct rf_ra_term *literal_value(struct rf_rp *p)
{
	struct rf_ra_term *t = rf_rp_make(p, RF_RA_VALUE, p->s.loc);

	if (t == NULL)
		return NULL;
	t->value = p->s.tok == RF_T_NULL ? RF_RV_NIL : rf_rv_bool(p->s.tok == RF_T_TRUE);
	rf_rp_scan(p);
	return t;
}

static struct rf_ra_term *name(struct rf_rp *p)
{
	struct rf_ra_term *t = rf_rp_var(p);

	rf_rp_scan(p);
	return t;
}

/* -x is 0 - x; of numbers it is part of them. */
static struct rf_ra_term *minus(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc, name_at;
	struct rf_rp_state before = p->s;
	struct rf_ra_term *zero, *t;

	rf_rp_scan(p);
	if (p->s.tok != RF_T_IDENT && p->s.tok != RF_T_CONTAINS) {
		p->s = before;
		return with_ref(p, rf_rp_read_number(p), start);
	}
	name_at = p->s.loc;
	t = with_ref(p, name(p), name_at);
	zero = rf_rp_make(p, RF_RA_VALUE, start);
	if (t == NULL || zero == NULL)
		return NULL;
	zero->value = rf_rv_int(0);
	return rf_rp_call2(p, rf_rp_operator(p, RF_T_SUB, start), zero, t, start);
}

static struct rf_ra_term *bare_term(struct rf_rp *p)
{
	/* and(x, y), or(x, y) are the sets' functions even where the words are operators */
	if (rf_rp_logic_follows(p) && rf_rp_next_byte(p) == '(')
		return name(p);
	switch (p->s.tok) {
	case RF_T_NULL:
	case RF_T_TRUE:
	case RF_T_FALSE:
		return literal_value(p);
	case RF_T_DOT:
	case RF_T_NUMBER:
		return rf_rp_read_number(p);
	case RF_T_STRING:
		return rf_rp_read_string(p);
	case RF_T_TEMPLATE_PART:
	case RF_T_TEMPLATE_END:
		return rf_rp_read_template(p);
	case RF_T_IDENT:
	case RF_T_CONTAINS:
		return name(p);
	case RF_T_LBRACK:
		return array(p);
	case RF_T_LBRACE:
		return set_or_object(p);
	case RF_T_LPAREN:
		return parens(p);
	default:
		return rf_rp_unexpected(p, NULL);
	}
}

static bool worth_keeping(enum rf_rp_tok tok)
{
	return tok == RF_T_LBRACK || tok == RF_T_LBRACE || tok == RF_T_LPAREN ||
	       tok == RF_T_TEMPLATE_PART;
}

static struct rf_ra_term *fresh_term(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	struct rf_ra_term *t;

	if (!rf_rp_enter(p))
		return NULL;
	if (p->s.tok == RF_T_SUB)
		t = minus(p);
	else
		t = with_ref(p, bare_term(p), start);
	rf_rp_leave(p);
	return t;
}

struct rf_ra_term *rf_rp_term(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	bool keep = worth_keeping(p->s.tok);
	struct rf_rp_memo *old = keep ? memo_find(p, start.at) : NULL;
	struct rf_ra_term *t;

	if (old != NULL && (old->term != NULL || p->trying)) {
		p->s = old->after;
		return old->term;
	}
	t = fresh_term(p);
	if (keep && p->trying)
		memo_add(p, start.at, t);
	return t;
}

/* --- between terms --------------------------------------------------------------------------- */

/* How tightly an operator binds; 0: it is none. */
static int binding(enum rf_rp_tok tok)
{
	switch (tok) {
	case RF_T_EQUAL:
	case RF_T_NEQ:
	case RF_T_LT:
	case RF_T_GT:
	case RF_T_LTE:
	case RF_T_GTE:
		return 1;
	case RF_T_OR:
		return 2;
	case RF_T_AND:
		return 3;
	case RF_T_ADD:
	case RF_T_SUB:
		return 4;
	case RF_T_MUL:
	case RF_T_DIV:
	case RF_T_REM:
		return 5;
	default:
		return 0;
	}
}

struct rf_ra_term *rf_rp_operator(struct rf_rp *p, enum rf_rp_tok tok, struct rf_ra_loc loc)
{
	struct rf_ra_term *t = rf_rp_make(p, RF_RA_VAR, loc);

	if (t != NULL)
		t->name = rf_str(rf_rp_tok_name(tok));
	return t;
}

struct rf_ra_term *rf_rp_call2(struct rf_rp *p, struct rf_ra_term *op, struct rf_ra_term *a,
			       struct rf_ra_term *b, struct rf_ra_loc start)
{
	size_t from = p->stack.n;
	struct rf_ra_term *t = rf_rp_make(p, RF_RA_CALL, rf_rp_span(p, start));

	if (t == NULL || op == NULL)
		return NULL;
	t->infix = true;
	rf_vec_push(&p->stack, op);
	rf_vec_push(&p->stack, a);
	rf_vec_push(&p->stack, b);
	return with_items(p, t, from);
}

/* All operators that bind at least as tightly, from the left; left is already read. */
static struct rf_ra_term *climb(struct rf_rp *p, struct rf_ra_term *left, int least)
{
	struct rf_ra_loc start = left->loc;
	int b;

	while ((b = binding(p->s.tok)) >= least && b > 0) {
		struct rf_ra_term *op = rf_rp_operator(p, p->s.tok, p->s.loc);
		struct rf_ra_term *right;

		rf_rp_scan(p);
		right = rf_rp_term(p);
		if (right != NULL && binding(p->s.tok) > b)
			right = climb(p, right, b + 1);
		if (op == NULL || right == NULL)
			return NULL;
		left = rf_rp_call2(p, op, left, right, start);
		if (left == NULL)
			return NULL;
	}
	return left;
}

struct rf_ra_term *rf_rp_relation(struct rf_rp *p)
{
	struct rf_ra_term *t = rf_rp_term(p);

	return t ? climb(p, t, 1) : NULL;
}

/* internal.member_2(x, xs) or internal.member_3(k, v, xs); loc: of `in`. */
struct rf_ra_term *rf_rp_member(struct rf_rp *p, struct rf_ra_term *key, struct rf_ra_term *v, struct rf_ra_term *xs,
				struct rf_ra_loc loc, struct rf_ra_loc start)
{
	size_t from = p->stack.n;
	struct rf_ra_term *internal = rf_rp_make(p, RF_RA_VAR, loc), *op, *t;

	if (internal == NULL)
		return NULL;
	internal->name = RF_LIT("internal");
	rf_vec_push(&p->stack, internal);
	if (!push(p, rf_rp_string(p, key ? RF_LIT("member_3") : RF_LIT("member_2"), loc)))
		return NULL;
	op = with_items(p, rf_rp_make(p, RF_RA_REF, loc), from);
	if (!push(p, op) || (key != NULL && !push(p, key)) || !push(p, v) || !push(p, xs))
		return NULL;
	t = with_items(p, rf_rp_make(p, RF_RA_CALL, rf_rp_span(p, start)), from);
	if (t != NULL)
		t->infix = true;
	return t;
}

/* At `in`. */
static struct rf_ra_term *member(struct rf_rp *p, struct rf_ra_term *key, struct rf_ra_term *v,
				 struct rf_ra_loc start)
{
	struct rf_ra_loc loc = p->s.loc;

	rf_rp_scan(p);
	return rf_rp_member(p, key, v, rf_rp_relation(p), loc, start);
}

/* k, v in xs where *t is k and the token is the comma. If it is something else, back at the comma with
 * *t as it was. False: failed. */
static bool member_pair(struct rf_rp *p, struct rf_ra_term **t)
{
	struct rf_rp_place at_comma = rf_rp_save(p);
	struct rf_ra_term *v;

	rf_rp_scan(p);
	p->trying++;
	v = rf_rp_relation(p);
	p->trying--;
	if (v != NULL && p->s.tok == RF_T_IN) {
		*t = member(p, *t, v, (*t)->loc);
		return *t != NULL;
	}
	if (p->fatal)
		return false;
	rf_rp_restore(p, at_comma);
	return true;
}

/* left is one term; what follows may go on with any operator. */
static struct rf_ra_term *infix_from(struct rf_rp *p, struct rf_ra_term *left, bool with_pairs)
{
	struct rf_ra_term *t = climb(p, left, 1);

	if (t == NULL)
		return NULL;
	if (with_pairs && p->s.tok == RF_T_COMMA && (p->keywords & RF_K_IN) && !member_pair(p, &t))
		return NULL;
	while (!rf_rp_keyword_as_name(p) && p->s.tok == RF_T_IN) {
		t = member(p, NULL, t, left->loc);
		if (t == NULL)
			return NULL;
	}
	return t;
}

struct rf_ra_term *rf_rp_infix(struct rf_rp *p, bool with_pairs)
{
	struct rf_ra_term *left = rf_rp_term(p);

	return left ? infix_from(p, left, with_pairs) : NULL;
}
