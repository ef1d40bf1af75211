/* JSON, YAML, base64, hex and URLs as text. */
#include "policy/rego/builtin_util.h"

#include "codec/utf8.h"
#include "codec/yaml.h"

/* --- writing JSON as Go's json.Marshal --- */

static void write_string(struct rb_text *out, struct rf_str s)
{
	rb_add_c(out, '"');
	for (size_t i = 0; i < s.n && !out->full;) {
		unsigned char c = (unsigned char)s.p[i];
		size_t n = rf_utf8_char(s.p + i, s.n - i);

		if (n == 0)
			rb_puts(out, "\\ufffd");
		else if (n == 3 && c == 0xe2 && (unsigned char)s.p[i + 1] == 0x80 &&
			 ((unsigned char)s.p[i + 2] & 0xfe) == 0xa8)
			rb_puts(out, (unsigned char)s.p[i + 2] == 0xa8 ? "\\u2028" : "\\u2029");
		else if (n > 1)
			rb_add(out, rf_str_n(s.p + i, n));
		else if (c == '"' || c == '\\')
			rb_printf(out, "\\%c", c);
		else if (c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f')
			rb_printf(out, "\\%c", "btn.fr"[c - 8]);
		else if (c < 0x20 || c == '<' || c == '>' || c == '&')
			rb_printf(out, "\\u%04x", c);
		else
			rb_add_c(out, (char)c);
		i += n == 0 ? 1 : n;
	}
	rb_add_c(out, '"');
}

static void new_line(struct rb_text *out, const struct rb_json_style *style, int depth)
{
	if (style == NULL || !style->pretty)
		return;
	rb_add_c(out, '\n');
	rb_add(out, style->prefix);
	for (int i = 0; i < depth && !out->full; i++)
		rb_add(out, style->indent);
}

struct member {
	struct rf_str key;
	struct rf_rv value;
	uint32_t at;
};

static int by_text(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int c = rf_str_cmp(x->key, y->key);

	return c != 0 ? c : (x->at > y->at) - (x->at < y->at);
}

static enum rf_rb_result write_value(struct rb_text *out, struct rf_rv v,
				     const struct rb_json_style *style, int depth);

/* Members with keys as text and in order of it; of two keys with one text the later stays. */
static enum rf_rb_result members_of(struct rf_rb_env *e, struct rf_rv v, struct member **ret,
				    uint32_t *ret_n)
{
	struct member *m = rb_alloc(e, v.n, sizeof(*m));
	bool sorted = true;
	uint32_t n = 0;

	if (m == NULL)
		return RF_RB_FULL;
	for (uint32_t i = 0; i < v.n; i++) {
		m[i] = (struct member){ rf_rv_text(v.pairs[i].key), v.pairs[i].value, i };
		if (v.pairs[i].key.type == RF_RV_STRING)
			continue;
		sorted = false;
		RB_TRY(rb_json_text(e, v.pairs[i].key, &m[i].key));
	}
	if (sorted) {
		*ret = m;
		*ret_n = v.n;
		return RF_RB_OK;
	}
	qsort(m, v.n, sizeof(*m), by_text);
	for (uint32_t i = 0; i < v.n; i++)
		if (i + 1 == v.n || !rf_str_eq(m[i].key, m[i + 1].key))
			m[n++] = m[i];
	*ret = m;
	*ret_n = n;
	return RF_RB_OK;
}

static enum rf_rb_result write_object(struct rb_text *out, struct rf_rv v,
				      const struct rb_json_style *style, int depth)
{
	struct member *m;
	uint32_t n;

	RB_TRY(members_of(out->e, v, &m, &n));
	rb_add_c(out, '{');
	for (uint32_t i = 0; i < n; i++) {
		if (i > 0)
			rb_add_c(out, ',');
		new_line(out, style, depth + 1);
		write_string(out, m[i].key);
		rb_puts(out, style != NULL && style->pretty ? ": " : ":");
		RB_TRY(write_value(out, m[i].value, style, depth + 1));
	}
	if (n > 0)
		new_line(out, style, depth);
	rb_add_c(out, '}');
	return RF_RB_OK;
}

static enum rf_rb_result write_list(struct rb_text *out, struct rf_rv v,
				    const struct rb_json_style *style, int depth)
{
	rb_add_c(out, '[');
	for (uint32_t i = 0; i < v.n; i++) {
		if (i > 0)
			rb_add_c(out, ',');
		new_line(out, style, depth + 1);
		RB_TRY(write_value(out, v.items[i], style, depth + 1));
	}
	if (v.n > 0)
		new_line(out, style, depth);
	rb_add_c(out, ']');
	return RF_RB_OK;
}

static enum rf_rb_result write_value(struct rb_text *out, struct rf_rv v,
				     const struct rb_json_style *style, int depth)
{
	rf_auto(buf) number = RF_BUF_INIT;

	/* the same part may be in a value many times over, so its text may be far larger than it */
	if (out->full || depth > RB_DEPTH_MAX || !rf_rb_spend(out->e, 1))
		return RF_RB_FULL;
	switch ((enum rf_rv_type)v.type) {
	case RF_RV_NULL:
		rb_puts(out, "null");
		break;
	case RF_RV_BOOL:
		rb_puts(out, v.b ? "true" : "false");
		break;
	case RF_RV_NUMBER:
		rf_rn_print(&number, v);
		rb_add(out, rf_buf_str(&number));
		break;
	case RF_RV_STRING:
		write_string(out, rf_rv_text(v));
		break;
	case RF_RV_OBJECT:
		return write_object(out, v, style, depth);
	case RF_RV_ARRAY:
	case RF_RV_SET:
		return write_list(out, v, style, depth);
	}
	return RF_RB_OK;
}

enum rf_rb_result rb_json_write(struct rb_text *out, struct rf_rv v, const struct rb_json_style *style)
{
	RB_TRY(write_value(out, v, style, 0));
	return out->full ? RF_RB_FULL : RF_RB_OK;
}

enum rf_rb_result rb_json_text(struct rf_rb_env *e, struct rf_rv v, struct rf_str *ret)
{
	struct rb_text out = { .e = e };

	RB_TRY(rb_json_write(&out, v, NULL));
	*ret = rf_str_n(out.p, out.n);
	return RF_RB_OK;
}

static enum rf_rb_result json_marshal(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				      struct rf_err *err)
{
	struct rf_str s;

	(void)err;
	RB_TRY(rb_json_text(e, arg[0], &s));
	*ret = rf_rv_str(s);
	return RF_RB_OK;
}

/* One option. *ret_asked: said with "pretty"; *ret_implied: follows from another. */
static enum rf_rb_result style_option(struct rf_str key, struct rf_rv v, struct rb_json_style *style,
				      bool *asked, bool *implied, struct rf_err *err)
{
	bool prefix = rf_str_is(key, "prefix");

	if (rf_str_is(key, "pretty")) {
		if (v.type != RF_RV_BOOL)
			return rb_type_error(err, "operand 2 key \"pretty\" failed cast to bool");
		*asked = true;
		style->pretty = v.b;
		return RF_RB_OK;
	}
	if (!prefix && !rf_str_is(key, "indent"))
		return rb_type_error(err, "operand 2 object contained unknown key \"%.*s\"",
				     RF_STR(key));
	if (v.type != RF_RV_STRING)
		return rb_type_error(err, "operand 2 key \"%.*s\" failed cast to string: operand must be "
					  "string but got %s",
				     RF_STR(key), rf_rv_type_name(v));
	*implied = true;
	*(prefix ? &style->prefix : &style->indent) = rf_rv_text(v);
	return RF_RB_OK;
}

static enum rf_rb_result json_marshal_with_options(struct rf_rb_env *e, const struct rf_rv *arg,
						   struct rf_rv *ret, struct rf_err *err)
{
	struct rb_json_style style = { .prefix = RF_STR_EMPTY, .indent = RF_LIT("\t") };
	struct rb_text out = { .e = e };
	bool asked = false, implied = false;

	for (uint32_t i = 0; i < arg[1].n; i++) {
		struct rf_rv key = arg[1].pairs[i].key;

		if (key.type != RF_RV_STRING)
			return rb_type_error(err, "operand 2 failed to stringify key at index %u", i);
		RB_TRY(style_option(rf_rv_text(key), arg[1].pairs[i].value, &style, &asked, &implied,
				    err));
	}
	if (!asked)
		style.pretty = implied;
	if (style.pretty)
		rb_add(&out, style.prefix);
	RB_TRY(rb_json_write(&out, arg[0], &style));
	return rb_text_value(&out, ret);
}

/* --- reading JSON --- */

/* The cap of the arena is the evaluation's end; anything else is wrong with the text. */
static enum rf_rb_result parse_failed(struct rf_rb_env *e, int code, size_t n)
{
	bool full = code == -RF_EXHAUSTED ||
		    (code == -RF_TOO_LARGE && e->arena->cap != 0 && e->arena->used + n > e->arena->cap);

	return full ? RF_RB_FULL : RF_RB_ERROR;
}

enum rf_rb_result rb_json_parse(struct rf_rb_env *e, struct rf_str text, struct rf_rv *ret,
				struct rf_err *err)
{
	int r;

	if (!rf_rb_spend(e, 1 + (int64_t)(text.n / 8)))
		return RF_RB_FULL;
	r = rf_rv_parse_json(e->arena, text, ret, err);
	return r < 0 ? parse_failed(e, r, text.n * 16) : RF_RB_OK;
}

static enum rf_rb_result json_unmarshal(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					struct rf_err *err)
{
	return rb_json_parse(e, rf_rv_text(arg[0]), ret, err);
}

/* A reader that keeps nothing but where it is: objects and arrays are bits on a stack. */
#define VALID_DEPTH_MAX 10000

struct scan {
	const char *p, *end;
	uint32_t depth;
	uint8_t in_object[VALID_DEPTH_MAX / 8 + 1];
};

static void skip_space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
}

static bool take(struct scan *s, char c)
{
	skip_space(s);
	if (s->p == s->end || *s->p != c)
		return false;
	s->p++;
	return true;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool scan_string(struct scan *s)
{
	if (!take(s, '"'))
		return false;
	while (s->p < s->end) {
		unsigned char c = (unsigned char)*s->p++;

		if (c == '"')
			return true;
		if (c < 0x20)
			return false;
		if (c != '\\')
			continue;
		if (s->p == s->end || *s->p == '\0' || strchr("\"\\/bfnrtu", *s->p) == NULL)
			return false;
		if (*s->p++ != 'u')
			continue;
		for (int i = 0; i < 4; i++, s->p++)
			if (s->p == s->end || !is_hex(*s->p))
				return false;
	}
	return false;
}

static bool scan_digits(struct scan *s)
{
	const char *start = s->p;

	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	return s->p > start;
}

static bool scan_number(struct scan *s)
{
	if (s->p < s->end && *s->p == '-')
		s->p++;
	if (s->p < s->end && *s->p == '0')
		s->p++;
	else if (!scan_digits(s))
		return false;
	if (s->p < s->end && *s->p == '.') {
		s->p++;
		if (!scan_digits(s))
			return false;
	}
	if (s->p < s->end && (*s->p | 0x20) == 'e') {
		s->p++;
		if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
			s->p++;
		return scan_digits(s);
	}
	return true;
}

static bool scan_word(struct scan *s, struct rf_str word)
{
	if (!rf_str_starts(rf_str_n(s->p, (size_t)(s->end - s->p)), word))
		return false;
	s->p += word.n;
	return true;
}

/* A scalar, or the start of an object or array: then *ret_opened. An empty one is over at once. */
static bool scan_start(struct scan *s, bool *ret_opened)
{
	*ret_opened = false;
	skip_space(s);
	if (s->p == s->end)
		return false;
	switch (*s->p) {
	case '"':
		return scan_string(s);
	case 't':
		return scan_word(s, RF_LIT("true"));
	case 'f':
		return scan_word(s, RF_LIT("false"));
	case 'n':
		return scan_word(s, RF_LIT("null"));
	case '[':
	case '{':
		break;
	default:
		return scan_number(s);
	}
	bool object = *s->p++ == '{';

	if (take(s, object ? '}' : ']'))
		return true;
	if (s->depth == VALID_DEPTH_MAX)
		return false;
	s->in_object[s->depth / 8] &= (uint8_t)~(1u << s->depth % 8);
	s->in_object[s->depth / 8] |= (uint8_t)(object << s->depth % 8);
	s->depth++;
	*ret_opened = true;
	return !object || (scan_string(s) && take(s, ':'));
}

bool rb_json_valid(struct rf_rb_env *e, struct rf_str text, bool *ret_full)
{
	struct scan s = { .p = text.p, .end = text.p + text.n };

	*ret_full = !rf_rb_spend(e, 1 + (int64_t)(text.n / 16));
	if (*ret_full)
		return false;
	for (;;) {
		bool opened, more = false;

		if (!scan_start(&s, &opened))
			return false;
		while (!opened && s.depth > 0 && !more) {
			bool object = s.in_object[(s.depth - 1) / 8] >> (s.depth - 1) % 8 & 1;

			if (take(&s, ',')) {
				if (object && !(scan_string(&s) && take(&s, ':')))
					return false;
				more = true;
			} else if (take(&s, object ? '}' : ']')) {
				s.depth--;
			} else {
				return false;
			}
		}
		if (s.depth == 0) {
			skip_space(&s);
			return s.p == s.end;
		}
	}
}

static enum rf_rb_result json_is_valid(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	bool full = false;

	(void)err;
	*ret = rf_rv_bool(arg[0].type == RF_RV_STRING && rb_json_valid(e, rf_rv_text(arg[0]), &full));
	return full ? RF_RB_FULL : RF_RB_OK;
}

/* --- YAML --- */

/* The YAML writer and its tree are not counted by the arena while they work; this bounds them. */
#define YAML_MAX (1u << 20)

static enum rf_rb_result yaml_marshal(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				      struct rf_err *err)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_json *v;
	struct rf_str text;
	int r;

	RB_TRY(rb_json_text(e, arg[0], &text));
	if (text.n > YAML_MAX)
		return rb_error(err, "more than %u bytes", YAML_MAX);
	r = rf_json_parse(e->arena, text, &v, err);
	if (r < 0)
		return parse_failed(e, r, text.n * 16);
	rf_yaml_write(&out, v);
	return rb_string(e, rf_buf_str(&out), ret);
}

static enum rf_rb_result yaml_read(struct rf_rb_env *e, struct rf_str text, struct rf_rv *ret,
				   struct rf_err *err)
{
	struct rf_json *docs;
	int r;

	if (!rf_rb_spend(e, 1 + (int64_t)text.n))
		return RF_RB_FULL;
	if (text.n > YAML_MAX)
		return rb_error(err, "more than %u bytes", YAML_MAX);
	r = rf_yaml_parse_core(e->arena, text, &docs, err);
	if (r < 0)
		return parse_failed(e, r, text.n * 16);
	if (rf_json_len(docs) == 0) {
		*ret = RF_RV_NIL;
		return RF_RB_OK;
	}
	return rf_rv_from_json(e->arena, rf_json_item(docs, 0), ret) ? RF_RB_OK : RF_RB_FULL;
}

static enum rf_rb_result yaml_unmarshal(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					struct rf_err *err)
{
	return yaml_read(e, rf_rv_text(arg[0]), ret, err);
}

static enum rf_rb_result yaml_is_valid(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	enum rf_rb_result r = RF_RB_ERROR;
	struct rf_rv v;

	if (arg[0].type == RF_RV_STRING)
		r = yaml_read(e, rf_rv_text(arg[0]), &v, err);
	*ret = rf_rv_bool(r == RF_RB_OK);
	return r == RF_RB_FULL ? r : RF_RB_OK;
}

/* --- base64 --- */

static const char std_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void rb_base64_add(struct rb_text *out, struct rf_str bytes, bool url, bool pad)
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	const char *letters = url ? url_letters : std_letters;

	for (size_t i = 0; i < bytes.n && !out->full; i += 3) {
		size_t have = RF_MIN(bytes.n - i, 3);
		uint32_t v = (uint32_t)p[i] << 16 | (have > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
			     (have > 2 ? p[i + 2] : 0);
		char quad[4];

		for (size_t j = 0; j < 4; j++)
			quad[j] = j <= have ? letters[v >> (18 - 6 * j) & 63] : '=';
		rb_add(out, rf_str_n(quad, pad ? 4 : have + 1));
	}
}

static int letter_value(char c, bool url)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == (url ? '-' : '+'))
		return 62;
	return c == (url ? '_' : '/') ? 63 : -1;
}

static size_t skip_lines(struct rf_str s, size_t i)
{
	while (i < s.n && (s.p[i] == '\n' || s.p[i] == '\r'))
		i++;
	return i;
}

/* Where padding starts at s.p[at] with j letters of a group before it; SIZE_MAX: all is well. */
static size_t bad_padding(struct rf_str s, size_t at, int j)
{
	size_t i = at + 1;

	if (j < 2)
		return at;
	if (j == 2) {
		i = skip_lines(s, i);
		if (i == s.n)
			return s.n;
		if (s.p[i] != '=')
			return i - 1;
		i++;
	}
	i = skip_lines(s, i);
	return i < s.n ? i : SIZE_MAX;
}

/* The offset of what is wrong, as Go counts it; SIZE_MAX: nothing. */
static size_t decode64(struct rf_str s, bool url, bool pad, char *out, size_t *ret_n)
{
	uint32_t group = 0;
	size_t n = 0, i = 0;
	int j = 0;

	for (; i < s.n; i++) {
		int v = letter_value(s.p[i], url);

		if (s.p[i] == '\n' || s.p[i] == '\r')
			continue;
		if (v < 0) {
			size_t bad = pad && s.p[i] == '=' ? bad_padding(s, i, j) : i;

			if (bad != SIZE_MAX)
				return bad;
			break;
		}
		group = group << 6 | (uint32_t)v;
		if (++j < 4)
			continue;
		out[n++] = (char)(group >> 16);
		out[n++] = (char)(group >> 8);
		out[n++] = (char)group;
		group = 0;
		j = 0;
	}
	if (i == s.n && j > 0 && (pad || j == 1))
		return s.n - (size_t)j;
	if (j > 1)
		out[n++] = (char)(group >> (j == 2 ? 4 : 10));
	if (j > 2)
		out[n++] = (char)(group >> 2);
	*ret_n = n;
	return SIZE_MAX;
}

enum rf_rb_result rb_base64_decode(struct rf_rb_env *e, struct rf_str s, bool url, bool pad,
				   struct rf_str *ret, struct rf_err *err)
{
	char *out = rb_alloc(e, s.n / 4 * 3 + 4, 1);
	size_t n = 0, bad;

	if (out == NULL || !rf_rb_spend(e, 1 + (int64_t)(s.n / 16)))
		return RF_RB_FULL;
	bad = decode64(s, url, pad, out, &n);
	if (bad != SIZE_MAX)
		return rb_error(err, "illegal base64 data at input byte %zu", bad);
	*ret = rf_str_n(out, n);
	return RF_RB_OK;
}

enum rf_rb_result rb_base64url_any(struct rf_rb_env *e, struct rf_str s, struct rf_str *ret,
				   struct rf_err *err)
{
	struct rb_text padded = { .e = e };

	if (rf_str_ends(s, RF_LIT("=")) || s.n % 4 == 0)
		return rb_base64_decode(e, s, true, true, ret, err);
	if (s.n % 4 == 1)
		return rb_error(err, "illegal base64url string: %.*s", RF_STR(s));
	rb_add(&padded, s);
	rb_puts(&padded, s.n % 4 == 2 ? "==" : "=");
	if (padded.full)
		return RF_RB_FULL;
	return rb_base64_decode(e, rf_str_n(padded.p, padded.n), true, true, ret, err);
}

static enum rf_rb_result encode64(struct rf_rb_env *e, struct rf_rv v, bool url, bool pad,
				  struct rf_rv *ret)
{
	struct rb_text out = { .e = e };

	rb_base64_add(&out, rf_rv_text(v), url, pad);
	return rb_text_value(&out, ret);
}

static enum rf_rb_result base64_encode(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	(void)err;
	return encode64(e, arg[0], false, true, ret);
}

static enum rf_rb_result base64url_encode(struct rf_rb_env *e, const struct rf_rv *arg,
					  struct rf_rv *ret, struct rf_err *err)
{
	(void)err;
	return encode64(e, arg[0], true, true, ret);
}

static enum rf_rb_result base64url_encode_no_pad(struct rf_rb_env *e, const struct rf_rv *arg,
						 struct rf_rv *ret, struct rf_err *err)
{
	(void)err;
	return encode64(e, arg[0], true, false, ret);
}

static enum rf_rb_result base64_decode(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	struct rf_str s;

	RB_TRY(rb_base64_decode(e, rf_rv_text(arg[0]), false, true, &s, err));
	*ret = rf_rv_str(s);
	return RF_RB_OK;
}

static enum rf_rb_result base64_is_valid(struct rf_rb_env *e, const struct rf_rv *arg,
					 struct rf_rv *ret, struct rf_err *err)
{
	enum rf_rb_result r = RF_RB_ERROR;
	struct rf_str s;

	if (arg[0].type == RF_RV_STRING)
		r = rb_base64_decode(e, rf_rv_text(arg[0]), false, true, &s, err);
	*ret = rf_rv_bool(r == RF_RB_OK);
	return r == RF_RB_FULL ? r : RF_RB_OK;
}

static enum rf_rb_result base64url_decode(struct rf_rb_env *e, const struct rf_rv *arg,
					  struct rf_rv *ret, struct rf_err *err)
{
	struct rf_str s;

	RB_TRY(rb_base64url_any(e, rf_rv_text(arg[0]), &s, err));
	*ret = rf_rv_str(s);
	return RF_RB_OK;
}

/* --- hex --- */

void rb_hex_add(struct rb_text *out, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	char two[2];

	for (size_t i = 0; i < n && !out->full; i++) {
		two[0] = "0123456789abcdef"[p[i] >> 4];
		two[1] = "0123456789abcdef"[p[i] & 15];
		rb_add(out, rf_str_n(two, 2));
	}
}

static enum rf_rb_result hex_encode(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				    struct rf_err *err)
{
	struct rb_text out = { .e = e };

	(void)err;
	rb_hex_add(&out, arg[0].s, arg[0].n);
	return rb_text_value(&out, ret);
}

static int hex_value(char c)
{
	return !is_hex(c) ? -1 : c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

static enum rf_rb_result hex_decode(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				    struct rf_err *err)
{
	struct rb_text out = { .e = e };

	for (uint32_t i = 0; i < arg[0].n; i++) {
		unsigned char c = (unsigned char)arg[0].s[i];

		if (hex_value((char)c) < 0 && c >= 0x20 && c < 0x7f)
			return rb_error(err, "encoding/hex: invalid byte: U+%04X '%c'", c, c);
		if (hex_value((char)c) < 0)
			return rb_error(err, "encoding/hex: invalid byte: U+%04X", c);
		if (i % 2 == 1)
			rb_add_c(&out, (char)(hex_value(arg[0].s[i - 1]) << 4 | hex_value((char)c)));
	}
	if (arg[0].n % 2 == 1)
		return rb_error(err, "encoding/hex: odd length hex string");
	return rb_text_value(&out, ret);
}

static const struct rf_rb rows[] = {
	{ "base64.decode", 1, .arg = { RF_RB_STR }, .fn = base64_decode },
	{ "base64.encode", 1, .arg = { RF_RB_STR }, .fn = base64_encode },
	{ "base64.is_valid", 1, .arg = { RF_RB_ANY }, .fn = base64_is_valid },
	{ "base64url.decode", 1, .arg = { RF_RB_STR }, .fn = base64url_decode },
	{ "base64url.encode", 1, .arg = { RF_RB_STR }, .fn = base64url_encode },
	{ "base64url.encode_no_pad", 1, .arg = { RF_RB_STR }, .fn = base64url_encode_no_pad },
	{ "hex.decode", 1, .arg = { RF_RB_STR }, .fn = hex_decode },
	{ "hex.encode", 1, .arg = { RF_RB_STR }, .fn = hex_encode },
	{ "json.is_valid", 1, .arg = { RF_RB_ANY }, .fn = json_is_valid },
	{ "json.marshal", 1, .arg = { RF_RB_ANY }, .fn = json_marshal },
	{ "json.marshal_with_options", 2, .arg = { RF_RB_ANY, RF_RB_OBJ },
	  .fn = json_marshal_with_options },
	{ "json.unmarshal", 1, .arg = { RF_RB_STR }, .fn = json_unmarshal },
	{ "uri.is_valid", 1, .arg = { RF_RB_ANY }, .fn = rb_uri_is_valid },
	{ "uri.parse", 1, .arg = { RF_RB_STR }, .fn = rb_uri_parse },
	{ "urlquery.decode", 1, .arg = { RF_RB_STR }, .fn = rb_urlquery_decode },
	{ "urlquery.decode_object", 1, .arg = { RF_RB_STR }, .fn = rb_urlquery_decode_object },
	{ "urlquery.encode", 1, .arg = { RF_RB_STR }, .fn = rb_urlquery_encode },
	{ "urlquery.encode_object", 1, .arg = { RF_RB_OBJ }, .fn = rb_urlquery_encode_object },
	{ "yaml.is_valid", 1, .arg = { RF_RB_ANY }, .fn = yaml_is_valid },
	{ "yaml.marshal", 1, .arg = { RF_RB_ANY }, .fn = yaml_marshal },
	{ "yaml.unmarshal", 1, .arg = { RF_RB_STR }, .fn = yaml_unmarshal },
};

const struct rf_rb_rows rf_rb_encoding = { rows, RF_COUNT(rows) };
