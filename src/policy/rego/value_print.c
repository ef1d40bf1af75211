/* As Rego's own printer writes terms. */
#include "codec/utf8.h"
#include "policy/rego/number.h"
#include "policy/rego/value.h"

static uint32_t decode(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;

	switch (n) {
	case 2:
		return (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
	case 3:
		return (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
	default:
		return (u[0] & 0x07u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 |
		       (u[3] & 0x3fu);
	}
}

/* What Go writes as an escape: controls, spaces other than ' ', format characters, private use. Code
 * points that Unicode has not assigned are escaped there and kept here. */
static bool is_hidden(uint32_t c)
{
	static const struct {
		uint32_t from, to;
	} hidden[] = {
		{ 0x7f, 0xa0 },	    { 0xad, 0xad },	{ 0x600, 0x605 },     { 0x61c, 0x61c },
		{ 0x6dd, 0x6dd },   { 0x70f, 0x70f },	{ 0x890, 0x891 },     { 0x8e2, 0x8e2 },
		{ 0x1680, 0x1680 }, { 0x180e, 0x180e }, { 0x2000, 0x200f },   { 0x2028, 0x202f },
		{ 0x205f, 0x206f }, { 0x3000, 0x3000 }, { 0xe000, 0xf8ff },   { 0xfeff, 0xfeff },
		{ 0xfff0, 0xfffb }, { 0xfffe, 0xffff }, { 0xe0000, 0xe00ff }, { 0xe01f0, 0x10ffff },
	};

	for (size_t i = 0; i < RF_COUNT(hidden) && hidden[i].from <= c; i++)
		if (c <= hidden[i].to)
			return true;
	return false;
}

static void print_hidden(struct rf_buf *out, uint32_t c)
{
	static const char names[] = "abfnrtv", values[] = "\a\b\f\n\r\t\v";
	const char *known = c != 0 && c < 0x20 ? strchr(values, (int)c) : NULL;

	if (known != NULL)
		rf_buf_printf(out, "\\%c", names[known - values]);
	else if (c < 0x20 || c == 0x7f)
		rf_buf_printf(out, "\\x%02x", c);
	else
		rf_buf_printf(out, c > 0xffff ? "\\U%08x" : "\\u%04x", c);
}

static void print_str(struct rf_buf *out, struct rf_str s)
{
	rf_buf_add_c(out, '"');
	for (size_t i = 0, n; i < s.n; i += RF_MAX(n, (size_t)1)) {
		unsigned char c = (unsigned char)s.p[i];

		n = rf_utf8_char(s.p + i, s.n - i);
		if (n == 0) {
			rf_buf_printf(out, "\\x%02x", c);
		} else if (c == '"' || c == '\\') {
			rf_buf_add_c(out, '\\');
			rf_buf_add_c(out, (char)c);
		} else if (n == 1 ? c < 0x20 || c == 0x7f : is_hidden(decode(s.p + i, n))) {
			print_hidden(out, n == 1 ? c : decode(s.p + i, n));
		} else {
			rf_buf_add(out, rf_str_n(s.p + i, n));
		}
	}
	rf_buf_add_c(out, '"');
}

static void print_items(struct rf_buf *out, struct rf_rv v)
{
	for (uint32_t i = 0; i < v.n; i++) {
		if (i > 0)
			rf_buf_puts(out, ", ");
		if (v.type == RF_RV_OBJECT) {
			rf_rv_print(out, v.pairs[i].key);
			rf_buf_puts(out, ": ");
			rf_rv_print(out, v.pairs[i].value);
		} else {
			rf_rv_print(out, v.items[i]);
		}
	}
}

void rf_rv_print(struct rf_buf *out, struct rf_rv v)
{
	switch ((enum rf_rv_type)v.type) {
	case RF_RV_NULL:
		rf_buf_puts(out, "null");
		return;
	case RF_RV_BOOL:
		rf_buf_puts(out, v.b ? "true" : "false");
		return;
	case RF_RV_NUMBER:
		rf_rn_print(out, v);
		return;
	case RF_RV_STRING:
		print_str(out, rf_rv_text(v));
		return;
	case RF_RV_SET:
		if (v.n == 0) {
			rf_buf_puts(out, "set()");
			return;
		}
		rf_buf_add_c(out, '{');
		print_items(out, v);
		rf_buf_add_c(out, '}');
		return;
	case RF_RV_ARRAY:
	case RF_RV_OBJECT:
		rf_buf_add_c(out, v.type == RF_RV_ARRAY ? '[' : '{');
		print_items(out, v);
		rf_buf_add_c(out, v.type == RF_RV_ARRAY ? ']' : '}');
		return;
	}
}
