/* Expressions and bodies, formatted. */
#include "policy/rego/format.h"

/* On the same line, or one further in where the source broke the line. */
static void next_word(struct rf_rf *f, struct rf_ra_loc loc, bool *indented)
{
	if (loc.row <= f->row) {
		rf_buf_add_c(f->out, ' ');
		return;
	}
	if (!*indented)
		f->level++;
	*indented = true;
	rf_rf_line(f, loc.at, loc.row, RF_GAP_NONE);
}

static void withs(struct rf_rf *f, const struct rf_ra_expr *e)
{
	bool indented = false;

	for (uint32_t i = 0; i < e->n_with; i++) {
		const struct rf_ra_with *w = &e->with[i];

		next_word(f, w->loc, &indented);
		rf_buf_puts(f->out, "with ");
		rf_rf_term(f, w->target);
		rf_buf_puts(f->out, " as ");
		rf_rf_term(f, w->value);
	}
	if (indented)
		f->level--;
}

static void some(struct rf_rf *f, const struct rf_ra_expr *e)
{
	bool indented = false;

	rf_buf_puts(f->out, "some");
	f->row = e->loc.row;
	for (uint32_t i = 0; i < e->n_vars; i++) {
		next_word(f, e->vars[i]->loc, &indented);
		rf_rf_term(f, e->vars[i]);
		if (i + 1 < e->n_vars)
			rf_buf_add_c(f->out, ',');
	}
	if (indented)
		f->level--;
}

static void domain(struct rf_rf *f, const char *word, const struct rf_ra_expr *e)
{
	rf_buf_puts(f->out, word);
	if (e->key != NULL) {
		rf_rf_domain(f, e->key);
		rf_buf_puts(f->out, ", ");
	}
	rf_rf_domain(f, e->value);
	rf_buf_puts(f->out, " in ");
	rf_rf_domain(f, e->domain);
}

/* The mark that ends something, looked for backwards from where something else ends. */
static uint32_t mark_before(const struct rf_rf *f, uint32_t end, char mark)
{
	uint32_t at = end > 0 ? end - 1 : 0;

	while (at > 0 && f->m->source.p[at] != mark)
		at--;
	return at;
}

/* Where the body in braces closes that ends before `end`. */
static void braces(struct rf_rf *f, const struct rf_ra_body *b, uint32_t end)
{
	uint32_t close = mark_before(f, end, '}');

	rf_buf_add_c(f->out, '{');
	rf_buf_puts(f->out, rf_rf_inner_body(f, b, f->row, close) ? " }" : "}");
}

static void every(struct rf_rf *f, const struct rf_ra_expr *e)
{
	uint32_t end = e->n_with > 0 ? e->with[0].loc.at : rf_rf_end(e->loc);

	domain(f, "every ", e);
	rf_buf_puts(f->out, " ");
	braces(f, e->body, end);
}

static bool is_logic(const struct rf_ra_expr *e)
{
	return e->kind == RF_RA_EXPR_AND || e->kind == RF_RA_EXPR_OR;
}

static void plain(struct rf_rf *f, const struct rf_ra_expr *e);

static void unscoped(struct rf_rf *f, const struct rf_ra_expr *e)
{
	if (e->negated)
		rf_buf_puts(f->out, "not ");
	plain(f, e);
	withs(f, e);
}

/* A side of and/or/not: its braces, or parentheses where they were needed. */
static void side(struct rf_rf *f, const struct rf_ra_body *b, bool in_braces, bool parens,
		 uint32_t end)
{
	if (in_braces) {
		braces(f, b, end);
		return;
	}
	parens = parens || b->expr[0]->n_with > 0 ||
		 (b->expr[0]->kind == RF_RA_EXPR_TERM && !b->expr[0]->negated &&
		  rf_rf_brace_led(b->expr[0]->term));
	if (parens)
		rf_buf_add_c(f->out, '(');
	unscoped(f, b->expr[0]);
	if (parens)
		rf_buf_add_c(f->out, ')');
}

static void logic(struct rf_rf *f, const struct rf_ra_expr *e)
{
	const struct rf_ra_expr *l = e->body->expr[0], *r = e->other->expr[0];
	bool and = e->kind == RF_RA_EXPR_AND;
	uint32_t end = e->n_with > 0 ? e->with[0].loc.at : rf_rf_end(e->loc);
	bool indented = false;

	side(f, e->body, e->braces, and&&l->kind == RF_RA_EXPR_OR, r->loc.at);
	rf_buf_puts(f->out, and? " and" : " or");
	if (e->other_braces)
		rf_buf_add_c(f->out, ' ');
	else
		next_word(f, r->loc, &indented);
	side(f, e->other, e->other_braces, is_logic(r) && (and || r->kind == RF_RA_EXPR_OR), end);
	if (indented)
		f->level--;
}

static void not_body(struct rf_rf *f, const struct rf_ra_expr *e)
{
	uint32_t end = e->n_with > 0 ? e->with[0].loc.at : rf_rf_end(e->loc);

	rf_buf_puts(f->out, "not ");
	side(f, e->body, e->braces, is_logic(e->body->expr[0]), end);
}

static void plain(struct rf_rf *f, const struct rf_ra_expr *e)
{
	switch (e->kind) {
	case RF_RA_EXPR_TERM:
		rf_rf_whole(f, e->term);
		break;
	case RF_RA_EXPR_SOME:
		some(f, e);
		break;
	case RF_RA_EXPR_SOME_IN:
		domain(f, "some ", e);
		break;
	case RF_RA_EXPR_EVERY:
		every(f, e);
		break;
	case RF_RA_EXPR_NOT_BODY:
		not_body(f, e);
		break;
	case RF_RA_EXPR_OR:
	case RF_RA_EXPR_AND:
		logic(f, e);
		break;
	}
}

void rf_rf_expr(struct rf_rf *f, const struct rf_ra_expr *e)
{
	struct rf_rf_mark mark = rf_rf_begin(f);

	f->row = e->loc.row;
	unscoped(f, e);
	rf_rf_at(f, rf_rf_end(e->loc));
	rf_rf_finish(f, mark, e->loc);
	f->row = rf_rf_end_row(f, e->loc);
}

void rf_rf_block(struct rf_rf *f, const struct rf_ra_body *b, uint32_t close)
{
	f->level++;
	for (uint32_t i = 0; i < b->n; i++) {
		rf_rf_line(f, b->expr[i]->loc.at, b->expr[i]->loc.row,
			   i == 0 ? RF_GAP_FIRST : RF_GAP_KEEP);
		rf_rf_expr(f, b->expr[i]);
	}
	rf_rf_close(f, close);
}

static bool on_lines(const struct rf_ra_body *b, uint32_t row)
{
	for (uint32_t i = 0; i < b->n; i++) {
		if (b->expr[i]->loc.row > row)
			return true;
		row = b->expr[i]->loc.row;
	}
	return false;
}

bool rf_rf_inner_body(struct rf_rf *f, const struct rf_ra_body *b, uint32_t from_row,
		      uint32_t close)
{
	if (on_lines(b, from_row)) {
		rf_rf_block(f, b, close);
		return false;
	}
	for (uint32_t i = 0; i < b->n; i++) {
		rf_buf_puts(f->out, i > 0 ? "; " : " ");
		unscoped(f, b->expr[i]);
	}
	rf_rf_at(f, close);
	return true;
}
