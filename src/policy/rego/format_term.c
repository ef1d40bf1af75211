/* Terms, formatted. */
#include "policy/rego/format.h"
#include "policy/rego/parser.h"

static char source_at(const struct rf_rf *f, uint32_t at)
{
	return at < f->m->source.n ? f->m->source.p[at] : '\0';
}

static void as_written(struct rf_rf *f, struct rf_ra_loc loc)
{
	rf_buf_add(f->out, rf_str_n(f->m->source.p + loc.at, loc.n));
	while (f->comment < f->m->n_comments && f->m->comment[f->comment].loc.at < rf_rf_end(loc))
		f->comment++;
}

/* Without the parentheses around it. */
static struct rf_ra_loc inside(const struct rf_rf *f, const struct rf_ra_term *t)
{
	struct rf_ra_loc loc = t->loc;

	while (t->grouped && loc.n > 1 &&
	       (source_at(f, loc.at) == '(' || source_at(f, loc.at) == ' ' ||
		source_at(f, loc.at) == '\t' || source_at(f, loc.at) == '\n')) {
		loc.at++;
		loc.n -= 1;
	}
	return loc;
}

static bool is_name(struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (!letter && !(i > 0 && c >= '0' && c <= '9'))
			return false;
	}
	return s.n > 0;
}

static void value(struct rf_rf *f, const struct rf_ra_term *t)
{
	struct rf_ra_loc loc = inside(f, t);
	char quote = source_at(f, loc.at);
	uint32_t end = loc.at + 1;

	if (t->value.type != RF_RV_STRING || (quote != '"' && quote != '`')) {
		rf_rv_print(f->out, t->value);
		return;
	}
	while (end < f->m->source.n && source_at(f, end) != quote)
		end += quote == '"' && source_at(f, end) == '\\' ? 2 : 1;
	rf_buf_add(f->out, rf_str_n(f->m->source.p + loc.at, end + 1 - loc.at));
}

void rf_rf_name(struct rf_rf *f, struct rf_str name, bool quote_keywords)
{
	if (is_name(name) && !(quote_keywords && rf_rp_is_keyword(name, true)))
		rf_buf_printf(f->out, ".%.*s", RF_STR(name));
	else {
		rf_buf_add_c(f->out, '[');
		rf_json_write_str(f->out, name); /* escapes that can be read again */
		rf_buf_add_c(f->out, ']');
	}
}

void rf_rf_ref_part(struct rf_rf *f, const struct rf_ra_term *t)
{
	bool text = t->kind == RF_RA_VALUE && t->value.type == RF_RV_STRING;
	char c = source_at(f, inside(f, t).at);
	bool quoted = c == '"' || c == '`';

	rf_rf_at(f, t->loc.at);
	if (text && is_name(rf_rv_text(t->value)) &&
	    !(quoted &&
	      (rf_rp_is_keyword(rf_rv_text(t->value), true) ||
	       rf_str_is(rf_rv_text(t->value), "and") || rf_str_is(rf_rv_text(t->value), "or")))) {
		rf_rf_name(f, rf_rv_text(t->value), false);
		f->row = t->loc.row;
		return;
	}
	rf_buf_add_c(f->out, '[');
	rf_rf_term(f, t);
	rf_buf_add_c(f->out, ']');
}

static bool is_infix(const struct rf_ra_term *t)
{
	return t->kind == RF_RA_CALL && t->infix;
}

static bool is_union(const struct rf_ra_term *t)
{
	return is_infix(t) && t->item[0]->kind == RF_RA_VAR && rf_str_is(t->item[0]->name, "or");
}

static void in_parens(struct rf_rf *f, const struct rf_ra_term *t, bool parens)
{
	if (parens)
		rf_buf_add_c(f->out, '(');
	rf_rf_term(f, t);
	if (parens)
		rf_buf_add_c(f->out, ')');
}

/* An item between brackets: | would be read as a comprehension's, and the comma of k, v in xs as a
 * list's. */
static void item_term(struct rf_rf *f, const struct rf_ra_term *t)
{
	in_parens(f, t, is_union(t) || (is_infix(t) && t->n == 4));
}

static void one_item(struct rf_rf *f, struct rf_ra_term *const *item, uint32_t step)
{
	item_term(f, item[0]);
	if (step == 1)
		return;
	rf_buf_puts(f->out, ": ");
	item_term(f, item[1]);
}

static bool many_lines(struct rf_ra_term *const *item, uint32_t n, uint32_t step, uint32_t open_row)
{
	uint32_t row = open_row;

	for (uint32_t i = 0; i < n; i += step) {
		if (item[i]->loc.row > row)
			return true;
		row = item[i]->loc.row;
	}
	return false;
}

void rf_rf_items(struct rf_rf *f, struct rf_ra_term *const *item, uint32_t n, uint32_t step,
		 uint32_t open_row, uint32_t close)
{
	bool lines = many_lines(item, n, step, open_row);

	if (lines)
		f->level++;
	for (uint32_t i = 0; i < n; i += step) {
		bool breaks = lines && (i == 0 || item[i]->loc.row > item[i - step]->loc.row);

		if (i > 0)
			rf_buf_puts(f->out, breaks ? "," : ", ");
		if (breaks)
			rf_rf_line(f, item[i]->loc.at, item[i]->loc.row, RF_GAP_NONE);
		one_item(f, item + i, step);
	}
	if (lines) {
		rf_buf_add_c(f->out, ',');
		rf_rf_close(f, close);
	}
	rf_rf_at(f, close);
	f->row = rf_rf_row(f, close);
}

static void bracketed(struct rf_rf *f, const struct rf_ra_term *t, const char *marks, uint32_t step)
{
	struct rf_ra_loc loc = inside(f, t);

	rf_buf_add_c(f->out, marks[0]);
	f->row = rf_rf_row(f, loc.at);
	rf_rf_items(f, t->item, t->n, step, f->row, rf_rf_end(t->loc) - 1);
	rf_buf_add_c(f->out, marks[1]);
}

/* -x: written as 0 - x would not be what it was. */
static bool is_minus(const struct rf_rf *f, const struct rf_ra_term *t)
{
	return is_infix(t) && t->n == 3 && t->item[1]->kind == RF_RA_VALUE &&
	       t->item[1]->loc.n == 1 && source_at(f, t->item[1]->loc.at) == '-';
}

static void comprehension(struct rf_rf *f, const struct rf_ra_term *t, const char *marks)
{
	uint32_t close = rf_rf_end(t->loc) - 1;

	rf_buf_add_c(f->out, marks[0]);
	if (t->comp.key != NULL) {
		item_term(f, t->comp.key);
		rf_buf_puts(f->out, ": ");
	}
	in_parens(f, t->comp.term, is_infix(t->comp.term) && !is_minus(f, t->comp.term));
	rf_buf_puts(f->out, " |");
	rf_rf_inner_body(f, t->comp.body, f->row, close);
	rf_buf_add_c(f->out, marks[1]);
}

static const struct {
	const char *name, *sign;
	int binding;
} operators[] = {
	{ "plus", "+", 5 }, { "minus", "-", 5 }, { "mul", "*", 6 },	{ "div", "/", 6 },
	{ "rem", "%", 6 },  { "and", "&", 4 },	 { "or", "|", 3 },	{ "equal", "==", 2 },
	{ "neq", "!=", 2 }, { "lt", "<", 2 },	 { "lte", "<=", 2 },	{ "gt", ">", 2 },
	{ "gte", ">=", 2 }, { "eq", "=", 0 },	 { "assign", ":=", 0 },
};

static const char *sign(const struct rf_ra_term *op, int *binding)
{
	*binding = 1;
	if (op->kind == RF_RA_REF)
		return "in";
	for (size_t i = 0; i < RF_COUNT(operators); i++)
		if (rf_str_is(op->name, operators[i].name)) {
			*binding = operators[i].binding;
			return operators[i].sign;
		}
	return "?";
}

/* Inside another operator: in parentheses where it needs them, and in a nested one always. */
static void operand(struct rf_rf *f, const struct rf_ra_term *t, int outer, bool right, bool nested)
{
	int inner = 7;

	if (is_infix(t) && !is_minus(f, t))
		sign(t->item[0], &inner);
	/* a union that leads a body in braces would be read as a comprehension */
	in_parens(f, t,
		  inner < 7 && (nested || inner < outer || (right && inner <= outer) ||
				(!right && (t->grouped || t == f->lead) && is_union(t))));
}

static void infix(struct rf_rf *f, const struct rf_ra_term *t, bool nested)
{
	int binding;
	const char *s = sign(t->item[0], &binding);

	if (is_minus(f, t)) {
		rf_buf_add_c(f->out, '-');
		rf_rf_term(f, t->item[2]);
		return;
	}
	operand(f, t->item[1], binding, t->n == 4, nested);
	if (t->n == 4) {
		rf_buf_puts(f->out, ", ");
		operand(f, t->item[2], binding, true, nested);
	}
	rf_buf_printf(f->out, " %s ", s);
	operand(f, t->item[t->n - 1], binding, true, nested);
}

static void ref(struct rf_rf *f, const struct rf_ra_term *t)
{
	in_parens(f, t->item[0], is_infix(t->item[0]));
	for (uint32_t i = 1; i < t->n; i++)
		rf_rf_ref_part(f, t->item[i]);
}

static bool comment_before(const struct rf_rf *f, uint32_t at)
{
	return f->comment < f->m->n_comments && f->m->comment[f->comment].loc.at < at;
}

/* A line break before the first argument alone does not count, unless comments need it. */
static void call(struct rf_rf *f, const struct rf_ra_term *t)
{
	uint32_t close = rf_rf_end(t->loc) - 1, row;

	rf_rf_term(f, t->item[0]);
	rf_buf_add_c(f->out, '(');
	row = t->n == 1 || comment_before(f, close) ? f->row : t->item[1]->loc.row;
	rf_rf_items(f, t->item + 1, t->n - 1, 1, row, close);
	rf_buf_add_c(f->out, ')');
}

static void template(struct rf_rf *f, const struct rf_ra_term *t)
{
	struct rf_ra_loc loc = inside(f, t);

	while (t->grouped && loc.n > 0 && source_at(f, rf_rf_end(loc) - 1) != '"' &&
	       source_at(f, rf_rf_end(loc) - 1) != '`')
		loc.n--;
	as_written(f, loc);
}

static void plain(struct rf_rf *f, const struct rf_ra_term *t)
{
	switch (t->kind) {
	case RF_RA_VALUE:
		value(f, t);
		break;
	case RF_RA_VAR:
		rf_buf_add(f->out, t->is_wild ? RF_LIT("_") : t->name);
		break;
	case RF_RA_REF:
		ref(f, t);
		break;
	case RF_RA_ARRAY:
		bracketed(f, t, "[]", 1);
		break;
	case RF_RA_SET:
		if (t->n == 0)
			rf_buf_puts(f->out, "set()");
		else
			bracketed(f, t, "{}", 1);
		break;
	case RF_RA_OBJECT:
		bracketed(f, t, "{}", 2);
		break;
	case RF_RA_ARRAY_COMP:
		comprehension(f, t, "[]");
		break;
	case RF_RA_SET_COMP:
		comprehension(f, t, "{}");
		break;
	case RF_RA_OBJECT_COMP:
		comprehension(f, t, "{}");
		break;
	case RF_RA_CALL:
		if (t->infix)
			infix(f, t, true);
		else
			call(f, t);
		break;
	case RF_RA_TEMPLATE:
		template(f, t);
		break;
	case RF_RA_TEMPLATE_WITH:
		break; /* written by its template */
	}
}

static void begin_term(struct rf_rf *f, const struct rf_ra_term *t)
{
	rf_rf_at(f, t->loc.at);
	f->row = t->loc.row;
}

static void end_term(struct rf_rf *f, const struct rf_ra_term *t)
{
	rf_rf_at(f, rf_rf_end(t->loc));
	f->row = rf_rf_end_row(f, t->loc);
}

/* Parentheses of the source are dropped; whoever needs some writes them. */
void rf_rf_term(struct rf_rf *f, const struct rf_ra_term *t)
{
	begin_term(f, t);
	plain(f, t);
	end_term(f, t);
}

void rf_rf_whole(struct rf_rf *f, const struct rf_ra_term *t)
{
	bool parens = (t->grouped || t == f->lead) && is_union(t); /* { x | y } would be read as a comprehension */

	if (!is_infix(t)) {
		rf_rf_term(f, t);
		return;
	}
	begin_term(f, t);
	if (parens)
		rf_buf_add_c(f->out, '(');
	infix(f, t, false);
	if (parens)
		rf_buf_add_c(f->out, ')');
	end_term(f, t);
}

void rf_rf_domain(struct rf_rf *f, const struct rf_ra_term *t)
{
	in_parens(f, t, is_infix(t) && t->item[0]->kind == RF_RA_REF);
}

const struct rf_ra_term *rf_rf_union_led(const struct rf_ra_term *t)
{
	while (is_infix(t) && !is_union(t))
		t = t->item[1];
	return is_union(t) ? t : NULL;
}

bool rf_rf_brace_led(const struct rf_ra_term *t)
{
	if (t->kind == RF_RA_REF)
		return rf_rf_brace_led(t->item[0]);
	if (is_infix(t))
		return rf_rf_brace_led(t->item[1]);
	return (t->kind == RF_RA_SET && t->n > 0) || t->kind == RF_RA_OBJECT ||
	       t->kind == RF_RA_SET_COMP || t->kind == RF_RA_OBJECT_COMP;
}
