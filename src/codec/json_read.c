/* The JSON reader. The text is copied once, with zeros behind it, and strings are unescaped in
 * place and point into that copy; so reading costs one allocation for text, and the zeros end every
 * scan without a bounds check (a zero byte is never valid JSON). */
#include <stdarg.h>
#include <stdio.h>

#include "codec/json_private.h"
#include "codec/utf8.h"

#define PADDING 8 /* zeros behind the text: strings are scanned eight bytes at a time */
#define NODES_AT_ONCE 256

struct reader {
	struct rf_arena *arena;
	struct rf_err *err;
	struct rf_str text; /* as given; errors count lines in it */
	char *start;	    /* the tree's copy */
	char *at;
	int depth;
	int rc;
	struct rf_json *nodes; /* taken from the arena, not yet used */
	size_t nodes_left;
	size_t nodes_next; /* how many to take next time */
	/* Members (items: without key) of the containers still open. On the heap, yet bounded by
	 * the arena's cap: each entry has a node there that is larger than it. */
	RF_VEC(struct rf_json_member) open;
};

static struct rf_json *read_value(struct reader *r);

/* --- errors --------------------------------------------------------------------------------- */

static void locate(struct rf_str text, size_t offset, size_t *ret_line, size_t *ret_column)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < offset && i < text.n; i++) {
		if (text.p[i] == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)text.p[i] & 0xc0) != 0x80) {
			column++;
		}
	}
	*ret_line = line;
	*ret_column = column;
}

/* Always NULL, for the callers that return a node; the others compare, and return false. */
static void *fail_at(struct reader *r, const char *at, const char *fmt, ...) RF_PRINTF(3, 4);
static void *fail_at(struct reader *r, const char *at, const char *fmt, ...)
{
	size_t line, column;
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	locate(r->text, (size_t)(at - r->start), &line, &column);
	r->rc = rf_fail(r->err, RF_BAD_REQUEST, "JSON, line %zu, column %zu: %s", line, column,
			what);
	return NULL;
}

/* Says what stands at r->at where something else belongs. */
static void *fail_expected(struct reader *r, const char *wanted)
{
	unsigned char c = (unsigned char)*r->at;

	if (r->at == r->start + r->text.n)
		return fail_at(r, r->at, "the text ends where %s should be", wanted);
	if (c < 0x20 || c >= 0x7f)
		return fail_at(r, r->at, "byte 0x%02x where %s should be", c, wanted);
	return fail_at(r, r->at, "'%c' where %s should be", c, wanted);
}

static void *fail_memory(struct reader *r)
{
	r->rc = rf_fail(r->err, RF_TOO_LARGE,
			"JSON of %zu bytes needs more than the %zu bytes of memory allowed for it; "
			"send a smaller document",
			r->text.n, r->arena->cap);
	return NULL;
}

/* --- pieces --------------------------------------------------------------------------------- */

static inline void skip_space(struct reader *r)
{
	while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')
		r->at++;
}

static bool refill_nodes(struct reader *r)
{
	r->nodes = rf_arena_try(r->arena, r->nodes_next * sizeof(*r->nodes));
	if (r->nodes == NULL) {
		fail_memory(r);
		return false;
	}
	r->nodes_left = r->nodes_next;
	r->nodes_next = RF_MIN(r->nodes_next * 2, (size_t)NODES_AT_ONCE);
	return true;
}

static inline struct rf_json *new_node(struct reader *r, enum rf_json_type type)
{
	struct rf_json *v;

	if (r->nodes_left == 0 && !refill_nodes(r))
		return NULL;
	r->nodes_left--;
	v = r->nodes++;
	v->type = type;
	return v;
}

static struct rf_json *read_word(struct reader *r, const char *word, size_t n,
				 enum rf_json_type type)
{
	struct rf_json *v;

	if (strncmp(r->at, word, n) != 0)
		return fail_expected(r, "a value");
	v = new_node(r, type);
	if (v == NULL)
		return NULL;
	if (type == RF_JSON_BOOL)
		v->boolean = word[0] == 't';
	r->at += n;
	return v;
}

static struct rf_json *read_number(struct reader *r)
{
	size_t left = (size_t)(r->start + r->text.n - r->at);
	size_t n = rf_json_number_len(rf_str_n(r->at, left));
	struct rf_json *v;

	if (n == 0)
		return fail_at(r, r->at, "malformed number");
	v = new_node(r, RF_JSON_NUMBER);
	if (v == NULL)
		return NULL;
	v->text = rf_str_n(r->at, n);
	r->at += n;
	return v;
}

/* --- strings -------------------------------------------------------------------------------- */

#define EACH_BYTE(c) (~(uint64_t)0 / 255 * (c))
#define ZERO_BYTES(w) (((w)-EACH_BYTE(0x01)) & ~(w))

static inline bool is_plain(char c)
{
	return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* Past printable ASCII that stands for itself. Whole words first: a word with a special byte in it
 * has a high bit set in the sum below. */
static inline char *skip_plain(char *p)
{
	for (;;) {
		uint64_t w, special;

		memcpy(&w, p, sizeof(w));
		special = ((w - EACH_BYTE(0x20)) & ~w) | ZERO_BYTES(w ^ EACH_BYTE('"')) |
			  ZERO_BYTES(w ^ EACH_BYTE('\\')) | w;
		if ((special & EACH_BYTE(0x80)) != 0)
			break;
		p += sizeof(w);
	}
	while (is_plain(*p))
		p++;
	return p;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The four digits of \uXXXX; -1 if they are not. Stops at the zeros behind the text. */
static int32_t hex4(const char *p)
{
	int32_t v = 0;

	for (int i = 0; i < 4; i++) {
		int d = hex_digit(p[i]);

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* r->at is on the 'u'. Six bytes of text give at most three, twelve give four: *w stays behind. */
static bool read_unicode_escape(struct reader *r, char **w)
{
	int32_t c = hex4(r->at + 1), low;

	if (c < 0)
		return fail_at(r, r->at - 1, "\\u needs four hexadecimal digits") != NULL;
	if (c >= 0xd800 && c <= 0xdfff) {
		low = r->at[5] == '\\' && r->at[6] == 'u' ? hex4(r->at + 7) : -1;
		if (c > 0xdbff || low < 0xdc00 || low > 0xdfff)
			return fail_at(r, r->at - 1, "half of a surrogate pair") != NULL;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		r->at += 6;
	}
	r->at += 5;
	*w += rf_utf8_put(*w, (uint32_t)c);
	return true;
}

/* r->at is on the backslash. */
static bool read_escape(struct reader *r, char **w)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name;

	r->at++;
	if (*r->at == 'u')
		return read_unicode_escape(r, w);
	name = *r->at != '\0' ? strchr(names, *r->at) : NULL;
	if (name == NULL)
		return fail_expected(r, "one of \"\\/bfnrtu") != NULL;
	*(*w)++ = values[name - names];
	r->at++;
	return true;
}

/* One character that is not plain: an escape, or beyond ASCII. */
static bool read_special(struct reader *r, char **w)
{
	size_t left = (size_t)(r->start + r->text.n - r->at), n;

	if (*r->at == '\\')
		return read_escape(r, w);
	if (left == 0)
		return fail_at(r, r->at, "the text ends inside a string") != NULL;
	if ((unsigned char)*r->at < 0x20)
		return fail_at(r, r->at, "control character 0x%02x in a string; write \\u%04x",
			       (unsigned char)*r->at, (unsigned char)*r->at) != NULL;
	n = rf_utf8_char(r->at, left);
	if (n == 0)
		return fail_at(r, r->at, "byte 0x%02x is not valid UTF-8", (unsigned char)*r->at) !=
		       NULL;
	if (*w != r->at)
		memmove(*w, r->at, n);
	*w += n;
	r->at += n;
	return true;
}

/* r->at is behind the opening quote. */
static bool read_string(struct reader *r, struct rf_str *ret)
{
	char *begin = r->at, *w = begin;

	for (;;) {
		char *stop = skip_plain(r->at);
		size_t n = (size_t)(stop - r->at);

		if (w != r->at)
			memmove(w, r->at, n);
		w += n;
		r->at = stop;
		if (*stop == '"')
			break;
		if (!read_special(r, &w))
			return false;
	}
	r->at++;
	*ret = rf_str_n(begin, (size_t)(w - begin));
	return true;
}

static struct rf_json *read_string_value(struct reader *r)
{
	struct rf_json *v = new_node(r, RF_JSON_STRING);

	r->at++;
	if (v == NULL || !read_string(r, &v->text))
		return NULL;
	return v;
}

/* --- containers ----------------------------------------------------------------------------- */

static bool enter(struct reader *r)
{
	if (++r->depth > RF_JSON_DEPTH_MAX)
		return fail_at(r, r->at, "nested deeper than %d", RF_JSON_DEPTH_MAX) != NULL;
	r->at++;
	skip_space(r);
	return true;
}

/* The entries above base become the array's items. */
static struct rf_json *close_array(struct reader *r, size_t base)
{
	size_t n = r->open.n - base;
	struct rf_json *v = new_node(r, RF_JSON_ARRAY);

	if (v == NULL)
		return NULL;
	if (n > 0) {
		v->items = rf_arena_try(r->arena, n * sizeof(*v->items));
		if (v->items == NULL)
			return fail_memory(r);
	}
	for (size_t i = 0; i < n; i++)
		v->items[i] = r->open.at[base + i].value;
	v->n = v->cap = (uint32_t)n;
	r->open.n = base;
	r->depth--;
	r->at++;
	return v;
}

static struct rf_json *read_array(struct reader *r)
{
	size_t base = r->open.n;
	struct rf_json_member m = { 0 };

	if (!enter(r))
		return NULL;
	if (*r->at == ']')
		return close_array(r, base);
	for (;;) {
		m.value = read_value(r);
		if (m.value == NULL)
			return NULL;
		rf_vec_push(&r->open, m);
		skip_space(r);
		if (*r->at == ']')
			return close_array(r, base);
		if (*r->at != ',')
			return fail_expected(r, "',' or ']'");
		r->at++;
		skip_space(r);
	}
}

static void *fail_members(struct reader *r, size_t n)
{
	r->rc = rf_fail(r->err, RF_TOO_LARGE,
			"JSON: an object of %zu members; at most %d are taken", n,
			RF_JSON_MEMBERS_MAX);
	return NULL;
}

static struct rf_json *close_object(struct reader *r, size_t base)
{
	size_t n = r->open.n - base;
	struct rf_json_member *m = n > 0 ? r->open.at + base : NULL;
	struct rf_json *v = new_node(r, RF_JSON_OBJECT);
	size_t twice;

	if (v == NULL)
		return NULL;
	if (n > RF_JSON_MEMBERS_MAX)
		return fail_members(r, n);
	twice = rf_json_find_duplicate(m, n);
	if (twice < n)
		return fail_at(r, m[twice].key.p - 1, "key \"%.*s\" appears twice in one object",
			       (int)RF_MIN(m[twice].key.n, (size_t)100), m[twice].key.p);
	if (n > 0) {
		v->members = rf_arena_try(r->arena, n * sizeof(*m));
		if (v->members == NULL)
			return fail_memory(r);
		memcpy(v->members, m, n * sizeof(*m));
	}
	v->n = v->cap = (uint32_t)n;
	r->open.n = base;
	r->depth--;
	r->at++;
	return v;
}

static bool read_member(struct reader *r)
{
	struct rf_json_member m = { 0 };

	if (*r->at != '"')
		return fail_expected(r, "a key in double quotes") != NULL;
	r->at++;
	if (!read_string(r, &m.key))
		return false;
	skip_space(r);
	if (*r->at != ':')
		return fail_expected(r, "':'") != NULL;
	r->at++;
	skip_space(r);
	m.value = read_value(r);
	if (m.value == NULL)
		return false;
	rf_vec_push(&r->open, m);
	return true;
}

static struct rf_json *read_object(struct reader *r)
{
	size_t base = r->open.n;

	if (!enter(r))
		return NULL;
	if (*r->at == '}')
		return close_object(r, base);
	for (;;) {
		if (!read_member(r))
			return NULL;
		skip_space(r);
		if (*r->at == '}')
			return close_object(r, base);
		if (*r->at != ',')
			return fail_expected(r, "',' or '}'");
		r->at++;
		skip_space(r);
	}
}

/* Recursion is bounded by RF_JSON_DEPTH_MAX. */
static struct rf_json *read_value(struct reader *r)
{
	switch (*r->at) {
	case '{':
		return read_object(r);
	case '[':
		return read_array(r);
	case '"':
		return read_string_value(r);
	case 't':
		return read_word(r, "true", 4, RF_JSON_BOOL);
	case 'f':
		return read_word(r, "false", 5, RF_JSON_BOOL);
	case 'n':
		return read_word(r, "null", 4, RF_JSON_NULL);
	case '-':
	case '0' ... '9':
		return read_number(r);
	default:
		return fail_expected(r, "a value");
	}
}

static struct rf_json *read_document(struct reader *r)
{
	struct rf_json *v;

	skip_space(r);
	v = read_value(r);
	if (v == NULL)
		return NULL;
	skip_space(r);
	if (r->at != r->start + r->text.n)
		return fail_expected(r, "the end");
	return v;
}

int rf_json_parse(struct rf_arena *a, struct rf_str text, struct rf_json **ret, struct rf_err *err)
{
	struct reader r = {
		.arena = a, .err = err, .text = text, .nodes_next = 8, .open = RF_VEC_INIT
	};
	struct rf_json *v;

	if (text.n > UINT32_MAX)
		return rf_fail(err, RF_TOO_LARGE, "JSON of %zu bytes; at most 4 GiB can be read",
			       text.n);
	r.start = r.at = rf_arena_try(a, text.n + PADDING);
	if (r.start == NULL) {
		fail_memory(&r);
		return r.rc;
	}
	if (text.n > 0)
		memcpy(r.start, text.p, text.n);
	v = read_document(&r);
	rf_vec_done(&r.open);
	if (v == NULL)
		return r.rc;
	*ret = v;
	return 0;
}
