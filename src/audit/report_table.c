/* For people at a terminal: by layer, the worst first, wrapped to the width there is. */
#include "audit/private.h"

#define INDENT 4
#define SHOWN 20 /* of one check at one severity; a terminal is no place for a thousand */

struct page {
	struct rf_buf *out;
	size_t width;
	bool colour;
};

static const char *colour_of(enum rf_audit_severity s)
{
	static const char *const CODES[] = { "36", "33", "31", "1;31" };

	return CODES[s];
}

static void put_coloured(struct page *p, const char *code, struct rf_str text)
{
	if (p->colour)
		rf_buf_printf(p->out, "\033[%sm%.*s\033[0m", code, RF_STR(text));
	else
		rf_buf_add(p->out, text);
}

static size_t columns(struct rf_str s)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++)
		n += ((unsigned char)s.p[i] & 0xC0) != 0x80;
	return n;
}

/* Names are somebody else's: what could move the cursor or colour the terminal becomes "?". */
static struct rf_str tame(struct rf_arena *a, struct rf_str s)
{
	struct rf_str copy = rf_arena_str(a, s);
	char *p = (char *)(uintptr_t)copy.p;

	for (size_t i = 0; i < copy.n; i++) {
		unsigned char c = (unsigned char)p[i];
		bool c1 = c == 0xC2 && i + 1 < copy.n && (unsigned char)p[i + 1] < 0xA0;

		if ((c < 0x20 && c != '\n') || c == 0x7f)
			p[i] = '?';
		if (c1) /* controls of eight bits, as UTF-8 */
			p[i] = p[i + 1] = '?';
	}
	return copy;
}

static void newline(struct page *p, size_t indent)
{
	rf_buf_printf(p->out, "\n%*s", (int)indent, "");
}

/* Words wrapped; lines of the text stay lines. A word longer than the line is left whole: it is a path that
 * somebody copies. A command goes on behind a backslash, so that it can be copied, too. */
static void put_wrapped(struct page *p, const char *label, struct rf_str text)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str rest = tame(&a, text), line, word;
	size_t indent = INDENT + 8, at;
	bool command;

	rf_buf_printf(p->out, "%*s%-8s", INDENT, "", label);
	for (bool first_line = true; rest.n > 0; first_line = false) {
		rf_str_cut(&rest, '\n', &line);
		if (!first_line)
			newline(p, indent);
		command = rf_str_starts(line, RF_LIT("kubectl "));
		for (at = indent; line.n > 0;) {
			size_t n;

			rf_str_cut(&line, ' ', &word);
			n = columns(word);
			if (at > indent && at + 1 + n + (command ? 2 : 0) > p->width) {
				rf_buf_puts(p->out, command ? " \\" : "");
				newline(p, indent);
				at = indent;
			}
			if (at > indent) {
				rf_buf_add_c(p->out, ' ');
				at++;
			}
			rf_buf_add(p->out, word);
			at += n;
		}
	}
	rf_buf_add_c(p->out, '\n');
}

static void put_finding(struct page *p, const struct rf_audit_finding *f)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str object = au_object_name(&a, f);

	if (f->field.n > 0)
		object = rf_arena_printf(&a, "%.*s %.*s", RF_STR(object), RF_STR(f->field));
	if (f->source.n > 0)
		object = rf_arena_printf(&a, "%.*s (%.*s)", RF_STR(object), RF_STR(f->source));
	put_wrapped(p, "object", object);
	if (f->also > 0)
		put_wrapped(p, "found",
			    rf_arena_printf(&a, "%.*s (and in %zu more of its kind)",
					    RF_STR(f->found), f->also));
	else
		put_wrapped(p, "found", f->found);
}

static void put_head(struct page *p, const struct rf_audit_finding *f)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) upper = RF_BUF_INIT;

	for (const char *c = rf_audit_severity_name(f->severity); *c != '\0'; c++)
		rf_buf_add_c(&upper, (char)(*c - 'a' + 'A'));
	rf_buf_puts(p->out, "\n  ");
	put_coloured(p, colour_of(f->severity), rf_arena_printf(&a, "%-8s", upper.p));
	rf_buf_printf(p->out, "  %s  ", f->check->id);
	put_coloured(p, "1", rf_str(f->check->title));
	rf_buf_add_c(p->out, '\n');
	put_wrapped(p, "why", rf_str(f->check->why));
}

static void put_rest(struct page *p, size_t n)
{
	if (n > SHOWN)
		rf_buf_printf(p->out, "%*sand %zu more; -o json and -o html name them\n", INDENT,
			      "", n - SHOWN);
}

/* One head for findings of one check; the remedy where it differs from the one before. */
static void put_layer(const struct rf_audit *x, struct page *p, enum rf_audit_layer layer)
{
	const struct rf_audit_finding *last = NULL, *f;
	size_t n = 0, shown = 0;

	for (size_t i = 0; (f = rf_audit_finding(x, i)) != NULL; i++)
		n += f->layer == layer;
	put_coloured(p, "1;4", rf_str(rf_audit_layer_title(layer)));
	rf_buf_printf(p->out, n == 0 ? ": nothing found\n" : "\n");
	for (size_t i = 0; (f = rf_audit_finding(x, i)) != NULL; i++) {
		if (f->layer != layer)
			continue;
		if (last == NULL || last->check != f->check || last->severity != f->severity) {
			put_rest(p, shown);
			put_head(p, f);
			last = NULL;
			shown = 0;
		}
		if (++shown <= SHOWN)
			put_finding(p, f);
		if (shown <= SHOWN && (last == NULL || !rf_str_eq(last->fix, f->fix)))
			put_wrapped(p, "do", f->fix);
		last = f;
	}
	put_rest(p, shown);
	rf_buf_add_c(p->out, '\n');
}

/* Checks that could not be made, by reason: people look for what was left out. */
static void put_unmade(const struct rf_audit *x, struct page *p)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (size_t i = 0; i < x->unmade.n; i++) {
		bool first = true;

		for (size_t j = 0; first && j < i; j++)
			first = !rf_str_eq(x->unmade.at[i].why, x->unmade.at[j].why);
		if (!first)
			continue;
		rf_buf_clear(&b);
		for (size_t j = i; j < x->unmade.n; j++)
			if (rf_str_eq(x->unmade.at[i].why, x->unmade.at[j].why))
				rf_buf_printf(&b, "%s%.*s", b.n > 0 ? ", " : "",
					      RF_STR(x->unmade.at[j].what));
		rf_buf_printf(&b, ": %s; %.*s",
			      rf_str_ends(x->unmade.at[i].why, RF_LIT("was seen")) ? "made in part"
										   : "not made",
			      RF_STR(x->unmade.at[i].why));
		put_wrapped(p, "-", rf_buf_str(&b));
	}
	if (x->unmade.n > 0)
		rf_buf_add_c(p->out, '\n');
}

void au_report_table(const struct rf_audit *x, const struct rf_audit_look *look, struct rf_buf *out)
{
	struct page p = { .out = out, .width = 80 };
	rf_auto(arena) a = RF_ARENA_INIT;

	if (look != NULL && look->width > 0)
		p.width = (size_t)RF_MAX(look->width, 40);
	p.colour = look != NULL && look->colour;
	for (size_t l = 0; l < RF_AUDIT_LAYERS; l++)
		put_layer(x, &p, (enum rf_audit_layer)l);
	put_unmade(x, &p);
	if (x->more > 0)
		rf_buf_printf(out,
			      "%zu findings are counted and not shown: no more than %d of one "
			      "check are\n",
			      x->more, RF_AUDIT_PER_CHECK);
	put_coloured(&p, "1", au_summary(x, &a));
	rf_buf_add_c(out, '\n');
}
