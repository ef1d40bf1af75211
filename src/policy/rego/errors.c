/* Errors: collected with their place, printed with the line they are about. */
#include "policy/rego/ast.h"

#define LINE_MAX_SHOWN 400

static bool is_break(char c)
{
	return c == '\n' || c == '\r';
}

/* The line that holds the place; for the end of the text the last one with something in it. */
static struct rf_str line_of(struct rf_str source, uint32_t at)
{
	size_t from, to;

	if (source.n == 0)
		return RF_STR_EMPTY;
	from = RF_MIN((size_t)at, source.n - 1);
	while (from > 0 &&
	       (is_break(source.p[from]) || source.p[from] == ' ' || source.p[from] == '\t'))
		from--;
	to = from;
	while (from > 0 && !is_break(source.p[from - 1]))
		from--;
	while (to < source.n && !is_break(source.p[to]))
		to++;
	return rf_str_n(source.p + from, to - from);
}

void rf_ra_complain(struct rf_ra_errors *e, const char *code, const struct rf_ra_module *m,
		    struct rf_ra_loc loc, const char *fmt, ...)
{
	struct rf_ra_error *x;
	va_list ap;

	if (e->n >= RF_COUNT(e->error))
		return;
	x = &e->error[e->n++];
	*x = (struct rf_ra_error){ .code = code, .loc = loc };
	va_start(ap, fmt);
	x->text = rf_arena_vprintf(e->arena, fmt, ap);
	va_end(ap);
	if (m == NULL)
		return;
	x->file = rf_arena_str(e->arena, m->file);
	x->line = line_of(m->source, loc.at);
	x->line.n = RF_MIN(x->line.n, (size_t)LINE_MAX_SHOWN);
	x->line = rf_arena_str(e->arena, x->line);
}

/* Tabs before the caret would move it by what they are wide; the line is shown without them. */
static void print_line(struct rf_buf *out, const struct rf_ra_error *x)
{
	struct rf_str line = x->line;
	size_t tabs = 0;

	while (tabs < line.n && line.p[tabs] == '\t')
		tabs++;
	line = rf_str_skip(line, tabs);
	if (line.n == 0)
		return;
	rf_buf_printf(out, "\t%.*s\n\t", RF_STR(line));
	for (size_t i = tabs + 1; i < x->loc.col && i - tabs <= line.n; i++)
		rf_buf_add_c(out, ' ');
	rf_buf_puts(out, "^\n");
}

void rf_ra_print_errors(struct rf_buf *out, const struct rf_ra_errors *e)
{
	for (uint32_t i = 0; i < e->n; i++) {
		const struct rf_ra_error *x = &e->error[i];

		if (x->file.n > 0)
			rf_buf_printf(out, "%.*s:", RF_STR(x->file));
		if (x->loc.row > 0)
			rf_buf_printf(out, "%u:%u:", x->loc.row, x->loc.col);
		if (x->file.n > 0 || x->loc.row > 0)
			rf_buf_add_c(out, ' ');
		rf_buf_printf(out, "%s: %.*s\n", x->code, RF_STR(x->text));
		print_line(out, x);
	}
}
