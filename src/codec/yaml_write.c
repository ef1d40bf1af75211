/* The YAML writer: block style, lists at their key's indentation as kubectl prints them. A string
 * is left unquoted only if it is made of harmless characters and the reader would not take it for
 * anything else; so a document always reads back to what it was written from. */
#include <stdio.h>

#include "codec/utf8.h"
#include "codec/yaml_private.h"

/* libyaml looks for the ':' of a key within 1024 characters; longer keys are written as "? key". */
#define SIMPLE_KEY_MAX 120
#define PLAIN_MAX 1000 /* longer text is quoted, for the eye */

static void write_node(struct rf_buf *out, const struct rf_json *v, int indent);

static void put_indent(struct rf_buf *out, int indent)
{
	for (int i = 0; i < indent; i++)
		rf_buf_add_c(out, ' ');
}

/* --- strings -------------------------------------------------------------------------------- */

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Other readers know dates and base 60 (12:30:00): quoted, though ours keeps them as strings. */
static bool looks_like_time(struct rf_str s)
{
	size_t digits = 0;

	while (digits < s.n && s.p[digits] >= '0' && s.p[digits] <= '9')
		digits++;
	return digits > 0 && digits < s.n && (s.p[digits] == ':' || s.p[digits] == '-');
}

static bool is_plain(struct rf_str s)
{
	rf_auto(buf) number = RF_BUF_INIT;

	if (s.n == 0 || s.n > PLAIN_MAX || s.p[s.n - 1] == ':' || s.p[s.n - 1] == ' ')
		return false;
	if (!is_alnum(s.p[0]) && s.p[0] != '/' && s.p[0] != '.' && s.p[0] != '_')
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!is_alnum(s.p[i]) && (s.p[i] == '\0' || strchr("_./:@+=,- ()", s.p[i]) == NULL))
			return false;
	return !rf_str_contains(s, RF_LIT(": ")) && !rf_str_starts(s, RF_LIT("...")) &&
	       !looks_like_time(s) && rf_yaml_resolve(s, &number) == RF_YAML_STRING;
}

/* Bytes of the character at s that may stand unescaped in any scalar of a YAML stream, or 0. */
static size_t readable_char(struct rf_str s)
{
	size_t n = rf_utf8_char(s.p, s.n);
	const unsigned char *u = (const unsigned char *)s.p;

	if (n == 1)
		return u[0] >= 0x20 && u[0] < 0x7f;
	if (n == 2 && u[0] == 0xc2 && u[1] < 0xa0) /* C1 controls, next line */
		return 0;
	if (n == 3 && u[0] == 0xe2 && u[1] == 0x80 &&
	    (u[2] == 0xa8 || u[2] == 0xa9)) /* separators */
		return 0;
	if (n == 3 && u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf) /* byte order mark */
		return 0;
	if (n == 3 && u[0] == 0xef && u[1] == 0xbf && u[2] >= 0xbe) /* U+FFFE, U+FFFF */
		return 0;
	return n;
}

/* One character that is not readable; returns its length in s. */
static size_t put_escape(struct rf_buf *out, struct rf_str s)
{
	const unsigned char *u = (const unsigned char *)s.p;
	size_t n = rf_utf8_char(s.p, s.n);

	if (n == 0)
		rf_buf_puts(out, "\xef\xbf\xbd");
	else if (u[0] == '\n')
		rf_buf_puts(out, "\\n");
	else if (u[0] == '\t')
		rf_buf_puts(out, "\\t");
	else if (n == 1)
		rf_buf_printf(out, "\\x%02X", u[0]);
	else if (n == 2)
		rf_buf_printf(out, "\\x%02X", (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu));
	else
		rf_buf_printf(out, "\\u%04X",
			      (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu));
	return n > 0 ? n : 1;
}

static void put_quoted(struct rf_buf *out, struct rf_str s)
{
	rf_buf_add_c(out, '"');
	while (s.n > 0) {
		size_t n = readable_char(s);

		if (s.p[0] == '"' || s.p[0] == '\\')
			rf_buf_add_c(out, '\\');
		rf_buf_add(out, rf_str_n(s.p, n));
		if (n == 0)
			n = put_escape(out, s);
		s = rf_str_skip(s, n);
	}
	rf_buf_add_c(out, '"');
}

static void put_inline(struct rf_buf *out, struct rf_str s)
{
	if (is_plain(s))
		rf_buf_add(out, s);
	else
		put_quoted(out, s);
}

/* Text of several lines as "|", which keeps them; not where it would need an indentation mark, nor
 * where lines end in spaces nobody sees. */
static bool is_block(struct rf_str s)
{
	if (!rf_str_contains(s, RF_LIT("\n")) || s.p[0] == ' ' || s.p[0] == '\n')
		return false;
	while (s.n > 0) {
		size_t n = s.p[0] == '\n' ? 1 : readable_char(s);

		if (n == 0 || (s.p[0] == ' ' && (s.n == 1 || s.p[1] == '\n')))
			return false;
		s = rf_str_skip(s, n);
	}
	return true;
}

static void put_block(struct rf_buf *out, struct rf_str s, int indent)
{
	struct rf_str line;
	bool more;

	if (s.p[s.n - 1] != '\n')
		rf_buf_puts(out, "|-\n");
	else
		rf_buf_puts(out, s.p[s.n - 2] == '\n' ? "|+\n" : "|\n");
	if (s.p[s.n - 1] == '\n')
		s.n--;
	do {
		more = rf_str_cut(&s, '\n', &line);
		if (line.n > 0)
			put_indent(out, indent);
		rf_buf_add(out, line);
		rf_buf_add_c(out, '\n');
	} while (more);
}

/* --- values --------------------------------------------------------------------------------- */

static bool is_nested(const struct rf_json *v)
{
	return rf_json_len(v) > 0;
}

/* Whatever fits behind "key: " or "- ", and the end of its line. */
static void put_leaf(struct rf_buf *out, const struct rf_json *v, int indent)
{
	if (rf_json_is(v, RF_JSON_STRING) && is_block(v->text)) {
		put_block(out, v->text, indent);
		return;
	}
	if (rf_json_is(v, RF_JSON_STRING))
		put_inline(out, v->text);
	else
		rf_json_write(out, v);
	rf_buf_add_c(out, '\n');
}

static void put_key(struct rf_buf *out, struct rf_str key, int indent)
{
	if (key.n > SIMPLE_KEY_MAX) {
		rf_buf_puts(out, "? ");
		put_quoted(out, key);
		rf_buf_add_c(out, '\n');
		put_indent(out, indent);
	} else {
		put_inline(out, key);
	}
	rf_buf_add_c(out, ':');
}

/* The first member continues the current line, behind "- " or at the start of the document. */
static void write_members(struct rf_buf *out, const struct rf_json *v, int indent)
{
	for (uint32_t i = 0; i < v->n; i++) {
		const struct rf_json *value = v->members[i].value;

		if (i > 0)
			put_indent(out, indent);
		put_key(out, v->members[i].key, indent);
		if (!is_nested(value)) {
			rf_buf_add_c(out, ' ');
			put_leaf(out, value, indent + 2);
			continue;
		}
		rf_buf_add_c(out, '\n');
		indent += value->type == RF_JSON_OBJECT ? 2 : 0;
		put_indent(out, indent);
		write_node(out, value, indent);
		indent -= value->type == RF_JSON_OBJECT ? 2 : 0;
	}
}

static void write_items(struct rf_buf *out, const struct rf_json *v, int indent)
{
	for (uint32_t i = 0; i < v->n; i++) {
		if (i > 0)
			put_indent(out, indent);
		rf_buf_puts(out, "- ");
		write_node(out, v->items[i], indent + 2);
	}
}

/* The current line is indented already. */
static void write_node(struct rf_buf *out, const struct rf_json *v, int indent)
{
	if (!is_nested(v))
		put_leaf(out, v, indent);
	else if (v->type == RF_JSON_OBJECT)
		write_members(out, v, indent);
	else
		write_items(out, v, indent);
}

void rf_yaml_write(struct rf_buf *out, const struct rf_json *v)
{
	if (is_nested(v))
		write_node(out, v, 0);
	else
		put_leaf(out, v, 2); /* a block of text must be indented, even alone */
}
