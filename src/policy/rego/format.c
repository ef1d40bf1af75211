/* Modules, formatted: packages, imports, rules and the comments between them. */
#include "policy/rego/format.h"

/* --- lines ------------------------------------------------------------------------------------- */

static void index_lines(struct rf_rf *f)
{
	uint32_t n = 1;

	for (size_t i = 0; i < f->m->source.n; i++)
		n += f->m->source.p[i] == '\n';
	f->line = rf_alloc(n * sizeof(*f->line));
	f->n_lines = 1;
	for (size_t i = 0; i < f->m->source.n; i++)
		if (f->m->source.p[i] == '\n')
			f->line[f->n_lines++] = (uint32_t)i + 1;
}

uint32_t rf_rf_row(const struct rf_rf *f, uint32_t at)
{
	uint32_t low = 0, high = f->n_lines;

	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (f->line[mid] <= at)
			low = mid;
		else
			high = mid;
	}
	return low + 1;
}

static void indent(struct rf_rf *f)
{
	for (int i = 0; i < f->level; i++)
		rf_buf_add_c(f->out, '\t');
}

static void put_comment(struct rf_rf *f, const struct rf_ra_comment *c)
{
	struct rf_str text = c->text;

	while (text.n > 0 && strchr(" \t\r", text.p[text.n - 1]) != NULL)
		text.n--;
	rf_buf_printf(f->out, "#%.*s", RF_STR(text));
	f->comment++;
	f->row = c->loc.row;
}

static bool looks_like_metadata(const struct rf_ra_comment *c)
{
	return rf_str_starts(rf_str_trim(c->text), RF_LIT("METADATA"));
}

static bool is_metadata(const struct rf_ra_comment *c)
{
	return c->loc.col == 1 && looks_like_metadata(c);
}

/* Annotations begin their lines; what begins no line must not become one. */
static void indent_comment(struct rf_rf *f, const struct rf_ra_comment *c, bool *metadata)
{
	bool was = *metadata && c->loc.row == c[-1].loc.row + 1;

	*metadata = is_metadata(c) || (was && c->loc.col == 1);
	if (*metadata)
		return;
	if (f->level == 0 && c->loc.col > 1 && (was || looks_like_metadata(c)))
		rf_buf_add_c(f->out, ' ');
	indent(f);
}

void rf_rf_line(struct rf_rf *f, uint32_t at, uint32_t row, enum rf_rf_gap gap)
{
	const struct rf_ra_comment *c = f->m->comment + f->comment, *end;
	bool any = false, metadata = false;

	end = c;
	while (end < f->m->comment + f->m->n_comments && end->loc.at < at)
		end++;
	if (c < end && c->loc.row == f->row && f->out->n > 0) {
		rf_buf_add_c(f->out, ' ');
		put_comment(f, c++);
	}
	if (f->out->n > 0)
		rf_buf_add_c(f->out, '\n');
	for (; c < end; c++, any = true) {
		bool apart = any ? gap != RF_GAP_NONE && c->loc.row > f->row + 1
				 : gap == RF_GAP_KEEP || gap == RF_GAP_ALWAYS;

		apart |= any && is_metadata(c);
		if (apart && f->out->n > 0)
			rf_buf_add_c(f->out, '\n');
		indent_comment(f, c, &metadata);
		put_comment(f, c);
		rf_buf_add_c(f->out, '\n');
	}
	if (any ? gap != RF_GAP_NONE && row > f->row + 1
		: gap == RF_GAP_ALWAYS || (gap == RF_GAP_KEEP && row > f->row + 1))
		rf_buf_add_c(f->out, '\n');
	indent(f);
}

void rf_rf_close(struct rf_rf *f, uint32_t close)
{
	if (f->comment < f->m->n_comments && f->m->comment[f->comment].loc.at < close) {
		rf_rf_line(f, close, rf_rf_row(f, close), RF_GAP_NONE);
		f->out->n -= (size_t)f->level + 1; /* the line that was begun */
		f->out->p[f->out->n] = '\0';
	}
	f->level--;
	f->row = rf_rf_row(f, close);
	rf_rf_line(f, 0, f->row, RF_GAP_NONE);
}

void rf_rf_at(struct rf_rf *f, uint32_t at)
{
	if (f->comment < f->m->n_comments && f->m->comment[f->comment].loc.at < at)
		f->odd = true;
}

struct rf_rf_mark rf_rf_begin(struct rf_rf *f)
{
	struct rf_rf_mark m = { f->out->n, f->comment, f->row, f->level, f->odd };

	f->odd = false;
	return m;
}

void rf_rf_finish(struct rf_rf *f, struct rf_rf_mark mark, struct rf_ra_loc loc)
{
	bool odd = f->odd;

	f->odd = mark.odd;
	if (!odd)
		return;
	f->out->n = mark.n;
	f->out->p[f->out->n] = '\0';
	f->level = mark.level;
	f->comment = mark.comment;
	rf_buf_add(f->out, rf_str_n(f->m->source.p + loc.at, loc.n));
	while (f->comment < f->m->n_comments && f->m->comment[f->comment].loc.at < rf_rf_end(loc))
		f->comment++;
	f->row = rf_rf_end_row(f, loc);
}

/* --- rules ------------------------------------------------------------------------------------- */

static void put_value(struct rf_rf *f, const struct rf_ra_rule *r)
{
	if (r->value == NULL)
		return;
	rf_buf_puts(f->out, r->assigned || f->m->v1 ? " := " : " = ");
	rf_rf_term(f, r->value);
}

/* p["x"] stays in brackets unless longer names are about, as OPA does. */
static void put_name(struct rf_rf *f, const struct rf_ra_rule *r)
{
	const struct rf_ra_term *t = r->ref;

	if (f->long_heads || r->is_function || t->kind != RF_RA_REF || t->n != 2) {
		rf_rf_term(f, t);
		return;
	}
	rf_rf_term(f, t->item[0]);
	rf_buf_add_c(f->out, '[');
	rf_rf_term(f, t->item[1]);
	rf_buf_add_c(f->out, ']');
}

static void put_head(struct rf_rf *f, const struct rf_ra_rule *r)
{
	struct rf_rf_mark mark = rf_rf_begin(f);

	f->row = r->loc.row;
	if (r->is_default)
		rf_buf_puts(f->out, "default ");
	put_name(f, r);
	if (r->is_function) {
		uint32_t end = rf_rf_end(r->head);

		if (r->value != NULL)
			end = r->value->loc.at;
		while (end > r->head.at && f->m->source.p[end - 1] != ')')
			end--;
		rf_buf_add_c(f->out, '(');
		rf_rf_items(f, r->args, r->n_args, 1, f->row, end - 1);
		rf_buf_add_c(f->out, ')');
	}
	if (r->by_ref) {
		rf_buf_add_c(f->out, '[');
		rf_rf_term(f, r->element);
		rf_buf_add_c(f->out, ']');
	} else if (r->contains) {
		rf_buf_puts(f->out, " contains ");
		rf_rf_term(f, r->element);
	}
	put_value(f, r);
	rf_rf_at(f, rf_rf_end(r->head));
	rf_rf_finish(f, mark, r->head);
	f->row = rf_rf_end_row(f, r->head);
}

static bool brace_led(const struct rf_ra_expr *e)
{
	while (!e->braces && (e->kind == RF_RA_EXPR_AND || e->kind == RF_RA_EXPR_OR))
		e = e->body->expr[0];
	if (e->kind == RF_RA_EXPR_TERM)
		return !e->negated && rf_rf_brace_led(e->term);
	return e->braces && e->kind != RF_RA_EXPR_NOT_BODY;
}

/* One expression behind `if` that stood on the line stays there; a set would be read as a body, and behind
 * else anything with a brace. */
static bool inline_body(const struct rf_rf *f, const struct rf_ra_rule *r)
{
	bool is_else = r->ref == NULL;

	const struct rf_ra_expr *e;

	if (!r->has_if || r->body->n != 1)
		return false;
	e = r->body->expr[0];
	if (is_else && brace_led(e))
		return false;
	return e->loc.row == f->row &&
	       (e->kind != RF_RA_EXPR_TERM || e->negated || e->term->kind != RF_RA_SET);
}

/* Where the body's closing brace stands: the last one before the rule goes on. */
static uint32_t closing_brace(const struct rf_rf *f, const struct rf_ra_rule *r)
{
	uint32_t end = r->otherwise ? r->otherwise->loc.at : rf_rf_end(r->loc);
	const struct rf_ra_expr *last = r->body->expr[r->body->n - 1];
	uint32_t i = f->comment;
	uint32_t at = rf_rf_end(last->loc);

	while (i < f->m->n_comments && f->m->comment[i].loc.at < at)
		i++;
	for (; at < end && f->m->source.p[at] != '}'; at++)
		while (i < f->m->n_comments && f->m->comment[i].loc.at == at)
			at = rf_rf_end(f->m->comment[i++].loc);
	return at;
}

/* True: on the line of the head. */
static bool put_body(struct rf_rf *f, const struct rf_ra_rule *r)
{
	const struct rf_ra_expr *e;
	uint32_t close;

	if (r->body == NULL)
		return true;
	if (r->has_if)
		rf_buf_puts(f->out, " if");
	if (inline_body(f, r)) {
		rf_buf_add_c(f->out, ' ');
		rf_rf_expr(f, r->body->expr[0]);
		return true;
	}
	rf_buf_puts(f->out, " {");
	close = closing_brace(f, r);
	e = r->body->expr[0];
	f->lead = e->kind == RF_RA_EXPR_TERM && !e->negated ? rf_rf_union_led(e->term) : NULL;
	rf_rf_block(f, r->body, close);
	rf_buf_add_c(f->out, '}');
	return false;
}

static void put_else(struct rf_rf *f, const struct rf_ra_rule *e, uint32_t first_row, bool line)
{
	uint32_t at = e->loc.at;
	struct rf_rf_mark mark;

	while (at > 0 && (f->m->source.p[at - 1] == ' ' || f->m->source.p[at - 1] == '\t'))
		at--;
	if (!line && e->loc.row > first_row && at > 0 && f->m->source.p[at - 1] != '\n' &&
	    !(f->comment < f->m->n_comments && f->m->comment[f->comment].loc.at < e->loc.at))
		rf_buf_add_c(f->out, ' ');
	else
		rf_rf_line(f, e->loc.at, e->loc.row, RF_GAP_ALWAYS);
	mark = rf_rf_begin(f);
	f->row = e->loc.row;
	rf_buf_puts(f->out, "else");
	put_value(f, e);
	rf_rf_finish(f, mark, e->head);
	f->row = rf_rf_end_row(f, e->head);
}

static void put_rule(struct rf_rf *f, const struct rf_ra_rule *r)
{
	uint32_t first_row = r->loc.row;
	bool line;

	put_head(f, r);
	line = put_body(f, r);
	for (const struct rf_ra_rule *o = r->otherwise; o != NULL; o = o->otherwise) {
		put_else(f, o, first_row, line);
		line = put_body(f, o);
	}
	for (const struct rf_ra_rule *o = r->same_head; o != NULL; o = o->same_head) {
		rf_buf_puts(f->out, " {");
		rf_rf_block(f, o->body, rf_rf_end(o->loc) - 1);
		rf_buf_add_c(f->out, '}');
	}
}

/* --- statements -------------------------------------------------------------------------------- */

static bool one_line(const struct rf_ra_rule *r)
{
	return !r->is_default && r->otherwise == NULL && r->same_head == NULL &&
	       (r->body == NULL ||
		(r->has_if && r->body->n == 1 &&
		 (r->body->expr[0]->kind != RF_RA_EXPR_TERM || r->body->expr[0]->negated ||
		  r->body->expr[0]->term->kind != RF_RA_SET)));
}

/* Rules of one line each that stood together stay together. */
static bool together(const struct rf_rf *f, const struct rf_ra_rule *a, const struct rf_ra_rule *b)
{
	return (f->m->v1 || a->has_if) && one_line(a) && one_line(b) &&
	       rf_rf_end_row(f, a->loc) == a->loc.row && b->loc.row == a->loc.row + 1;
}

static void put_package(struct rf_rf *f)
{
	rf_rf_line(f, f->m->package_loc.at, f->m->package_loc.row, RF_GAP_FIRST);
	rf_buf_printf(f->out, "package %.*s", RF_STR(f->m->package[0]));
	for (uint32_t i = 1; i < f->m->n_package; i++)
		rf_rf_name(f, f->m->package[i], f->m->v1);
	f->row = rf_rf_end_row(f, f->m->package_loc);
}

static void put_import(struct rf_rf *f, const struct rf_ra_import *i)
{
	struct rf_rf_mark mark = rf_rf_begin(f);

	rf_buf_puts(f->out, "import ");
	rf_rf_term(f, i->path);
	if (i->alias.n > 0)
		rf_buf_printf(f->out, " as %.*s", RF_STR(i->alias));
	rf_rf_at(f, rf_rf_end(i->loc));
	rf_rf_finish(f, mark, i->loc);
	f->row = rf_rf_end_row(f, i->loc);
}

static void put_statements(struct rf_rf *f)
{
	const struct rf_ra_module *m = f->m;
	uint32_t i = 0, r = 0;
	bool after_import = false;

	while (i < m->n_imports || r < m->n_rules) {
		if (i < m->n_imports &&
		    (r == m->n_rules || m->import[i].loc.at < m->rule[r]->loc.at)) {
			rf_rf_line(f, m->import[i].loc.at, m->import[i].loc.row,
				   after_import ? RF_GAP_KEEP : RF_GAP_ALWAYS);
			put_import(f, &m->import[i++]);
			after_import = true;
			continue;
		}
		rf_rf_line(f, m->rule[r]->loc.at, m->rule[r]->loc.row,
			   r > 0 && !after_import && together(f, m->rule[r - 1], m->rule[r])
				   ? RF_GAP_NONE
				   : RF_GAP_ALWAYS);
		put_rule(f, m->rule[r++]);
		after_import = false;
	}
}

void rf_ra_format(struct rf_buf *out, const struct rf_ra_module *m)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_rf f = { .out = &text, .m = m };

	index_lines(&f);
	for (uint32_t i = 0; i < m->n_rules; i++)
		f.long_heads |= m->rule[i]->ref->kind == RF_RA_REF &&
				(m->rule[i]->ref->n > 2 || m->rule[i]->contains);
	put_package(&f);
	put_statements(&f);
	rf_rf_line(&f, UINT32_MAX, 0, f.comment < m->n_comments ? RF_GAP_ALWAYS : RF_GAP_NONE);
	free(f.line);
	while (text.n > 1 && text.p[text.n - 1] == '\n' && text.p[text.n - 2] == '\n')
		text.p[--text.n] = '\0';
	rf_buf_add(out, rf_buf_str(&text));
}
