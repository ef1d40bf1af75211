/* The JSON writer. What it writes is always valid JSON: bytes that are not UTF-8 become U+FFFD. */
#include "codec/json.h"
#include "codec/utf8.h"

static const char hex[] = "0123456789abcdef";

static void write_escape(struct rf_buf *out, char c)
{
	static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
	const char *known = c != '\0' ? strchr(values, c) : NULL;
	char text[6] = { '\\', 'u', '0', '0', hex[(c >> 4) & 15], hex[c & 15] };

	if (known != NULL)
		text[1] = names[known - values];
	rf_buf_add(out, rf_str_n(text, known != NULL ? 2 : 6));
}

/* Bytes from the start of s that can be written as they are. */
static size_t plain_len(struct rf_str s)
{
	size_t i = 0;

	while (i < s.n) {
		unsigned char c = (unsigned char)s.p[i];
		size_t n = c < 0x80 ? 1 : rf_utf8_char(s.p + i, s.n - i);

		if (n == 0 || c < 0x20 || c == '"' || c == '\\')
			break;
		i += n;
	}
	return i;
}

void rf_json_write_str(struct rf_buf *out, struct rf_str s)
{
	rf_buf_reserve(out, s.n + 2);
	rf_buf_add_c(out, '"');
	while (s.n > 0) {
		size_t n = plain_len(s);

		rf_buf_add(out, rf_str_n(s.p, n));
		s = rf_str_skip(s, n);
		if (s.n == 0)
			break;
		if ((unsigned char)s.p[0] >= 0x80)
			rf_buf_puts(out, "\xef\xbf\xbd");
		else
			write_escape(out, s.p[0]);
		s = rf_str_skip(s, 1);
	}
	rf_buf_add_c(out, '"');
}

static void new_line(struct rf_buf *out, int depth)
{
	static const char spaces[] = "\n                                ";
	size_t n = 1 + (size_t)depth * 2;

	rf_buf_add(out, rf_str_n(spaces, RF_MIN(n, sizeof(spaces) - 1)));
	for (size_t i = sizeof(spaces) - 1; i < n; i++)
		rf_buf_add_c(out, ' ');
}

/* depth < 0: compact. */
static void write_value(struct rf_buf *out, const struct rf_json *v, int depth);

static void write_array(struct rf_buf *out, const struct rf_json *v, int depth)
{
	int inner = depth < 0 ? depth : depth + 1;

	rf_buf_add_c(out, '[');
	for (uint32_t i = 0; i < v->n; i++) {
		if (i > 0)
			rf_buf_add_c(out, ',');
		if (depth >= 0)
			new_line(out, inner);
		write_value(out, v->items[i], inner);
	}
	if (depth >= 0 && v->n > 0)
		new_line(out, depth);
	rf_buf_add_c(out, ']');
}

static void write_object(struct rf_buf *out, const struct rf_json *v, int depth)
{
	int inner = depth < 0 ? depth : depth + 1;

	rf_buf_add_c(out, '{');
	for (uint32_t i = 0; i < v->n; i++) {
		if (i > 0)
			rf_buf_add_c(out, ',');
		if (depth >= 0)
			new_line(out, inner);
		rf_json_write_str(out, v->members[i].key);
		rf_buf_add(out, depth < 0 ? RF_LIT(":") : RF_LIT(": "));
		write_value(out, v->members[i].value, inner);
	}
	if (depth >= 0 && v->n > 0)
		new_line(out, depth);
	rf_buf_add_c(out, '}');
}

static void write_value(struct rf_buf *out, const struct rf_json *v, int depth)
{
	if (v == NULL) {
		rf_buf_puts(out, "null");
		return;
	}
	switch (v->type) {
	case RF_JSON_NULL:
		rf_buf_puts(out, "null");
		return;
	case RF_JSON_BOOL:
		rf_buf_puts(out, v->boolean ? "true" : "false");
		return;
	case RF_JSON_NUMBER:
		rf_buf_add(out, v->text);
		return;
	case RF_JSON_STRING:
		rf_json_write_str(out, v->text);
		return;
	case RF_JSON_ARRAY:
		write_array(out, v, depth);
		return;
	case RF_JSON_OBJECT:
		write_object(out, v, depth);
		return;
	}
	rf_assert(!"a JSON value of no known type");
}

void rf_json_write(struct rf_buf *out, const struct rf_json *v)
{
	write_value(out, v, -1);
}

void rf_json_write_pretty(struct rf_buf *out, const struct rf_json *v)
{
	write_value(out, v, 0);
	rf_buf_add_c(out, '\n');
}

struct rf_str rf_json_text_of(struct rf_arena *a, const struct rf_json *v)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_json_write(&out, v);
	return rf_arena_str(a, rf_buf_str(&out));
}
