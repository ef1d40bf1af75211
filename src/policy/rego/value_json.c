/* JSON text straight into values. Strings without escapes point into the text; nothing is written to it
 * and nothing behind its end is read. */
#include <stdarg.h>
#include <stdio.h>

#include "codec/utf8.h"
#include "policy/rego/number.h"
#include "policy/rego/value.h"

#define FIRST_OPEN 256

struct reader {
	struct rf_arena *arena;
	struct rf_err *err;
	const char *start, *at, *end;
	int depth;
	int rc;
	/* Items of the containers still open; of objects key, value, key, value. A value is written to its
	 * place here and not passed around: copying what was just written in pieces stalls. */
	struct rf_rv *open, *open_heap;
	size_t n, room;
};

static bool read_value(struct reader *r, size_t slot);

/* --- errors: all return false --- */

static bool fail_at(struct reader *r, const char *at, const char *fmt, ...) RF_PRINTF(3, 4);
static bool fail_at(struct reader *r, const char *at, const char *fmt, ...)
{
	size_t line = 1, column = 1;
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	for (const char *p = r->start; p < at; p++) {
		if (*p == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)*p & 0xc0) != 0x80) {
			column++;
		}
	}
	r->rc = rf_fail(r->err, RF_BAD_REQUEST, "JSON, line %zu, column %zu: %s", line, column,
			what);
	return false;
}

static bool fail_expected(struct reader *r, const char *wanted)
{
	unsigned char c;

	if (r->at == r->end)
		return fail_at(r, r->at, "the text ends where %s should be", wanted);
	c = (unsigned char)*r->at;
	if (c < 0x20 || c >= 0x7f)
		return fail_at(r, r->at, "byte 0x%02x where %s should be", c, wanted);
	return fail_at(r, r->at, "'%c' where %s should be", c, wanted);
}

static bool fail_memory(struct reader *r)
{
	r->rc = rf_fail(r->err, RF_TOO_LARGE,
			"JSON of %zu bytes needs more than the %zu bytes of memory allowed for it; "
			"send a smaller document",
			(size_t)(r->end - r->start), r->arena->cap);
	return false;
}

/* --- pieces --- */

static inline void skip_space(struct reader *r)
{
	const char *p = r->at;

	while (p < r->end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	r->at = p;
}

static inline bool is_next(const struct reader *r, char c)
{
	return r->at < r->end && *r->at == c;
}

static bool grow_open(struct reader *r)
{
	size_t room = r->room * 2, bytes = room * sizeof(*r->open);
	struct rf_rv *open;

	/* What is open will be copied to the arena: no more of it than fits there. */
	if (r->arena->cap != 0 && bytes / 2 > r->arena->cap)
		return fail_memory(r);
	open = rf_realloc(r->open_heap, bytes);
	if (r->open_heap == NULL)
		memcpy(open, r->open, r->n * sizeof(*open));
	r->open = r->open_heap = open;
	r->room = room;
	return true;
}

/* Places for n values on top. They may move with every further one: numbers, not pointers. */
static inline bool reserve(struct reader *r, size_t n, size_t *ret_slot)
{
	if (r->n + n > r->room && !grow_open(r))
		return false;
	*ret_slot = r->n;
	r->n += n;
	return true;
}

static bool read_word(struct reader *r, const char *word, size_t n, struct rf_rv v, size_t slot)
{
	if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
		return fail_expected(r, "a value");
	r->at += n;
	r->open[slot] = v;
	return true;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *p, const char *end)
{
	while (p < end && is_digit(*p))
		p++;
	return p;
}

/* Where JSON's number at p ends; NULL if there is none. */
static const char *number_end(const char *p, const char *end)
{
	const char *digits;

	if (p < end && *p == '-')
		p++;
	digits = p;
	p = skip_digits(p, end);
	if (p == digits || (*digits == '0' && p - digits > 1))
		return NULL;
	if (p < end && *p == '.') {
		digits = ++p;
		p = skip_digits(p, end);
		if (p == digits)
			return NULL;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		digits = p;
		p = skip_digits(p, end);
		if (p == digits)
			return NULL;
	}
	return p;
}

static bool read_number(struct reader *r, size_t slot)
{
	const char *end = number_end(r->at, r->end);
	struct rf_str text;

	if (end == NULL)
		return fail_at(r, r->at, "malformed number");
	text = rf_str_n(r->at, (size_t)(end - r->at));
	if (!rf_rn_parse_in_place(r->arena, text, &r->open[slot])) {
		if (rf_rn_is_number(text))
			return fail_memory(r);
		return fail_at(r, r->at, "a number of more than %d digits or an exponent beyond %d",
			       RF_RN_DIGITS_MAX, RF_RN_EXPONENT_MAX);
	}
	r->at = end;
	return true;
}

/* --- strings --- */

#define EACH_BYTE(c) (~(uint64_t)0 / 255 * (c))
#define ZERO_BYTES(w) (((w)-EACH_BYTE(0x01)) & ~(w))

static inline bool is_plain(char c)
{
	return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* Past printable ASCII that stands for itself, by whole words while there are any. */
static inline const char *skip_plain(const char *p, const char *end)
{
	while (end - p >= 8) {
		uint64_t w, special;

		memcpy(&w, p, sizeof(w));
		special = ((w - EACH_BYTE(0x20)) & ~w) | ZERO_BYTES(w ^ EACH_BYTE('"')) |
			  ZERO_BYTES(w ^ EACH_BYTE('\\')) | w;
		special &= EACH_BYTE(0x80);
		if (special != 0) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
			return p + __builtin_ctzll(special) / 8; /* the first is always right */
#else
			break;
#endif
		}
		p += sizeof(w);
	}
	while (p < end && is_plain(*p))
		p++;
	return p;
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The four digits at p; -1 if they are not. */
static int32_t hex4(const struct reader *r, const char *p)
{
	int32_t v = 0;

	if (r->end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int d = hex_digit(p[i]);

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* r->at is on the 'u'. */
static bool read_unicode_escape(struct reader *r, char **w)
{
	int32_t c = hex4(r, r->at + 1), low = -1;

	if (c < 0)
		return fail_at(r, r->at - 1, "\\u needs four hexadecimal digits");
	if (c >= 0xd800 && c <= 0xdfff) {
		if (r->end - r->at >= 11 && r->at[5] == '\\' && r->at[6] == 'u')
			low = hex4(r, r->at + 7);
		if (c > 0xdbff || low < 0xdc00 || low > 0xdfff)
			return fail_at(r, r->at - 1, "half of a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		r->at += 6;
	}
	r->at += 5;
	*w += rf_utf8_put(*w, (uint32_t)c);
	return true;
}

/* r->at is on the backslash. What is written is never longer than what was read. */
static bool read_escape(struct reader *r, char **w)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name;

	r->at++;
	if (is_next(r, 'u'))
		return read_unicode_escape(r, w);
	name = r->at < r->end && *r->at != '\0' ? strchr(names, *r->at) : NULL;
	if (name == NULL)
		return fail_expected(r, "one of \"\\/bfnrtu");
	*(*w)++ = values[name - names];
	r->at++;
	return true;
}

/* Past a character beyond ASCII. */
static bool skip_wide(struct reader *r)
{
	size_t n;

	if (r->at == r->end)
		return fail_at(r, r->at, "the text ends inside a string");
	if ((unsigned char)*r->at < 0x20)
		return fail_at(r, r->at, "control character 0x%02x in a string; write \\u%04x",
			       (unsigned char)*r->at, (unsigned char)*r->at);
	n = rf_utf8_char(r->at, (size_t)(r->end - r->at));
	if (n == 0)
		return fail_at(r, r->at, "byte 0x%02x is not valid UTF-8", (unsigned char)*r->at);
	r->at += n;
	return true;
}

/* Without escapes up to the closing quote or the first backslash. */
static bool skip_unescaped(struct reader *r)
{
	for (;;) {
		r->at = skip_plain(r->at, r->end);
		if (r->at < r->end && (*r->at == '"' || *r->at == '\\'))
			return true;
		if (!skip_wide(r))
			return false;
	}
}

/* Bytes up to the closing quote, at least: what the string may need. */
static size_t room_for(const struct reader *r)
{
	const char *p = r->at;

	while (p < r->end && *p != '"')
		p += *p == '\\' && r->end - p > 1 ? 2 : 1;
	return (size_t)(p - r->at);
}

/* r->at is on the first backslash, begin behind the quote. */
static bool read_escaped(struct reader *r, const char *begin, size_t slot)
{
	size_t before = (size_t)(r->at - begin);
	char *p = rf_arena_try_raw(r->arena, before + room_for(r)), *w = p;

	if (p == NULL)
		return fail_memory(r);
	memcpy(w, begin, before);
	w += before;
	while (*r->at != '"') {
		const char *from;

		if (!read_escape(r, &w))
			return false;
		from = r->at;
		if (!skip_unescaped(r))
			return false;
		memcpy(w, from, (size_t)(r->at - from));
		w += r->at - from;
	}
	r->at++;
	r->open[slot] = rf_rv_str(rf_str_n(p, (size_t)(w - p)));
	return true;
}

/* r->at is on the opening quote. */
static inline bool read_string(struct reader *r, size_t slot)
{
	const char *begin = ++r->at;

	if (!skip_unescaped(r))
		return false;
	if (*r->at != '"')
		return read_escaped(r, begin, slot);
	r->open[slot] = rf_rv_str(rf_str_n(begin, (size_t)(r->at - begin)));
	r->at++;
	return true;
}

/* --- containers --- */

static bool enter(struct reader *r)
{
	if (++r->depth > RF_JSON_DEPTH_MAX)
		return fail_at(r, r->at, "nested deeper than %d", RF_JSON_DEPTH_MAX);
	r->at++;
	skip_space(r);
	return true;
}

/* The items above base, in the arena. */
static bool leave(struct reader *r, size_t base, struct rf_rv **ret)
{
	size_t n = r->n - base;

	*ret = NULL;
	if (n > 0) {
		*ret = rf_arena_try_raw(r->arena, n * sizeof(**ret));
		if (*ret == NULL)
			return fail_memory(r);
		memcpy(*ret, r->open + base, n * sizeof(**ret));
	}
	r->n = base;
	r->depth--;
	r->at++;
	return true;
}

static bool close_array(struct reader *r, size_t base, size_t slot)
{
	uint32_t n = (uint32_t)(r->n - base);
	struct rf_rv *items;

	if (!leave(r, base, &items))
		return false;
	r->open[slot] = rf_rv_array(items, n);
	return true;
}

static bool read_array(struct reader *r, size_t slot)
{
	size_t base = r->n, item;

	if (!enter(r))
		return false;
	if (is_next(r, ']'))
		return close_array(r, base, slot);
	for (;;) {
		if (!reserve(r, 1, &item) || !read_value(r, item))
			return false;
		skip_space(r);
		if (is_next(r, ']'))
			return close_array(r, base, slot);
		if (!is_next(r, ','))
			return fail_expected(r, "',' or ']'");
		r->at++;
		skip_space(r);
	}
}

/* Of two equal keys the later one counts, as in OPA. */
static bool close_object(struct reader *r, size_t base, size_t slot)
{
	uint32_t n = (uint32_t)((r->n - base) / 2);
	struct rf_rv *items;

	if (!leave(r, base, &items))
		return false;
	r->open[slot] = rf_rv_object((struct rf_rv_pair *)items, n, NULL);
	return true;
}

static bool read_member(struct reader *r)
{
	size_t slot;

	if (!is_next(r, '"'))
		return fail_expected(r, "a key in double quotes");
	if (!reserve(r, 2, &slot) || !read_string(r, slot))
		return false;
	skip_space(r);
	if (!is_next(r, ':'))
		return fail_expected(r, "':'");
	r->at++;
	skip_space(r);
	return read_value(r, slot + 1);
}

static bool read_object(struct reader *r, size_t slot)
{
	size_t base = r->n;

	if (!enter(r))
		return false;
	if (is_next(r, '}'))
		return close_object(r, base, slot);
	for (;;) {
		if (!read_member(r))
			return false;
		skip_space(r);
		if (is_next(r, '}'))
			return close_object(r, base, slot);
		if (!is_next(r, ','))
			return fail_expected(r, "',' or '}'");
		r->at++;
		skip_space(r);
	}
}

/* Recursion is bounded by RF_JSON_DEPTH_MAX. */
static bool read_value(struct reader *r, size_t slot)
{
	if (r->at == r->end)
		return fail_expected(r, "a value");
	switch (*r->at) {
	case '{':
		return read_object(r, slot);
	case '[':
		return read_array(r, slot);
	case '"':
		return read_string(r, slot);
	case 't':
		return read_word(r, "true", 4, rf_rv_bool(true), slot);
	case 'f':
		return read_word(r, "false", 5, rf_rv_bool(false), slot);
	case 'n':
		return read_word(r, "null", 4, RF_RV_NIL, slot);
	case '-':
	case '0' ... '9':
		return read_number(r, slot);
	default:
		return fail_expected(r, "a value");
	}
}

static bool read_document(struct reader *r, struct rf_rv *ret)
{
	size_t slot;

	skip_space(r);
	if (!reserve(r, 1, &slot) || !read_value(r, slot))
		return false;
	*ret = r->open[slot];
	skip_space(r);
	return r->at == r->end || fail_expected(r, "the end");
}

int rf_rv_parse_json(struct rf_arena *a, struct rf_str text, struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv open[FIRST_OPEN];
	struct reader r = { .arena = a, .err = err, .open = open, .room = FIRST_OPEN };
	struct rf_rv v = RF_RV_NIL;
	bool ok;

	if (text.n > INT32_MAX)
		return rf_fail(err, RF_TOO_LARGE, "JSON of %zu bytes; at most 2 GiB can be read",
			       text.n);
	r.start = r.at = text.p;
	r.end = text.p + text.n;
	ok = read_document(&r, &v);
	free(r.open_heap);
	if (!ok)
		return r.rc;
	*ret = v;
	return 0;
}

/* --- from codec's tree --- */

static bool from_array(struct rf_arena *a, const struct rf_json *v, struct rf_rv *ret)
{
	struct rf_rv *items = rf_arena_try_raw(a, RF_MAX(v->n, 1u) * sizeof(*items));

	if (items == NULL)
		return false;
	for (uint32_t i = 0; i < v->n; i++)
		if (!rf_rv_from_json(a, v->items[i], &items[i]))
			return false;
	*ret = rf_rv_array(items, v->n);
	return true;
}

static bool from_object(struct rf_arena *a, const struct rf_json *v, struct rf_rv *ret)
{
	struct rf_rv_pair *pairs = rf_arena_try_raw(a, RF_MAX(v->n, 1u) * sizeof(*pairs));

	if (pairs == NULL)
		return false;
	for (uint32_t i = 0; i < v->n; i++) {
		pairs[i].key = rf_rv_str(v->members[i].key);
		if (!rf_rv_from_json(a, v->members[i].value, &pairs[i].value))
			return false;
	}
	*ret = rf_rv_object(pairs, v->n, NULL);
	return true;
}

bool rf_rv_from_json(struct rf_arena *a, const struct rf_json *v, struct rf_rv *ret)
{
	*ret = RF_RV_NIL;
	if (v == NULL)
		return true;
	switch (v->type) {
	case RF_JSON_NULL:
		return true;
	case RF_JSON_BOOL:
		*ret = rf_rv_bool(v->boolean);
		return true;
	case RF_JSON_NUMBER:
		return rf_rn_parse_in_place(a, v->text, ret);
	case RF_JSON_STRING:
		*ret = rf_rv_str(v->text);
		return true;
	case RF_JSON_ARRAY:
		return from_array(a, v, ret);
	case RF_JSON_OBJECT:
		return from_object(a, v, ret);
	}
	return false;
}

/* --- out --- */

static void new_line(struct rf_buf *out, int spaces)
{
	rf_buf_add_c(out, '\n');
	for (int i = 0; i < spaces; i++)
		rf_buf_add_c(out, ' ');
}

/* indent < 0: compact; at: spaces the line began with. */
static void write_any(struct rf_buf *out, struct rf_rv v, int indent, int at);

static void write_key(struct rf_buf *out, struct rf_rv key)
{
	rf_auto(buf) text = RF_BUF_INIT;

	if (key.type == RF_RV_STRING) {
		rf_json_write_str(out, rf_rv_text(key));
		return;
	}
	rf_rv_write_json(&text, key);
	rf_json_write_str(out, rf_buf_str(&text));
}

static void write_container(struct rf_buf *out, struct rf_rv v, int indent, int at)
{
	bool object = v.type == RF_RV_OBJECT;

	rf_buf_add_c(out, object ? '{' : '[');
	for (uint32_t i = 0; i < v.n; i++) {
		if (i > 0)
			rf_buf_add_c(out, ',');
		if (indent >= 0)
			new_line(out, at + indent);
		if (object) {
			write_key(out, v.pairs[i].key);
			rf_buf_add(out, indent < 0 ? RF_LIT(":") : RF_LIT(": "));
		}
		write_any(out, object ? v.pairs[i].value : v.items[i], indent, at + indent);
	}
	if (indent >= 0 && v.n > 0)
		new_line(out, at);
	rf_buf_add_c(out, object ? '}' : ']');
}

static void write_any(struct rf_buf *out, struct rf_rv v, int indent, int at)
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
		rf_json_write_str(out, rf_rv_text(v));
		return;
	case RF_RV_ARRAY:
	case RF_RV_OBJECT:
	case RF_RV_SET:
		write_container(out, v, indent, at);
		return;
	}
}

void rf_rv_write_json(struct rf_buf *out, struct rf_rv v)
{
	write_any(out, v, -1, 0);
}

void rf_rv_write_json_pretty(struct rf_buf *out, struct rf_rv v, int indent)
{
	write_any(out, v, RF_MAX(indent, 0), 0);
}
