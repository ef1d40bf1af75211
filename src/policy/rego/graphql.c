/* GraphQL: text into trees of values. The messages are the ones policies know from OPA. */
#include "policy/rego/graphql.h"

#include <stdio.h>

#include "policy/rego/builtin_private.h"

enum kind {
	T_INVALID,
	T_EOF,
	T_BANG,
	T_DOLLAR,
	T_AMP,
	T_PAREN_L,
	T_PAREN_R,
	T_SPREAD,
	T_COLON,
	T_EQUALS,
	T_AT,
	T_BRACKET_L,
	T_BRACKET_R,
	T_BRACE_L,
	T_BRACE_R,
	T_PIPE,
	T_NAME,
	T_INT,
	T_FLOAT,
	T_STRING,
	T_BLOCK,
};

static const char *const kind_name[] = {
	"<Invalid>", "<EOF>", "!", "$", "&", "(",    ")",   "...",   ":",      "=",	      "@",
	"[",	     "]",     "{", "}", "|", "Name", "Int", "Float", "String", "BlockString",
};

struct token {
	enum kind kind;
	struct rf_str value; /* of names, numbers and strings */
	int line, column;
};

/* Columns are counted in code points; `wide` is what bytes run ahead of them. */
struct parser {
	struct rf_rb_env *e;
	struct rf_err *err;
	struct rf_str s;
	size_t at;	   /* in bytes */
	size_t wide;	   /* bytes so far that begin no code point */
	int line;
	size_t line_start; /* in code points */
	struct token tok, prev;
	int depth;
};

/* --- tokens --- */

static size_t runes(const struct parser *p)
{
	return p->at - p->wide;
}

static int peek(const struct parser *p, size_t ahead)
{
	return p->at + ahead < p->s.n ? (unsigned char)p->s.p[p->at + ahead] : -1;
}

static bool looks_at(const struct parser *p, const char *what)
{
	return rf_str_starts(rf_str_skip(p->s, p->at), rf_str(what));
}

static void skip_rune(struct parser *p)
{
	size_t from = p->at;

	(void)rf_rb_rune(p->s, &p->at);
	p->wide += p->at - from - 1;
}

static void new_line(struct parser *p)
{
	p->line++;
	p->line_start = runes(p);
}

static void skip_comment(struct parser *p)
{
	while (p->at < p->s.n && (peek(p, 0) > 0x1f || peek(p, 0) == '\t'))
		skip_rune(p);
}

static void skip_space(struct parser *p)
{
	for (;;) {
		int c = peek(p, 0);

		if (c == '\t' || c == ' ' || c == ',') {
			p->at++;
		} else if (c == '\n') {
			p->at++;
			new_line(p);
		} else if (c == '\r') {
			p->at++;
			new_line(p);
			p->at += peek(p, 0) == '\n';
		} else if (c == '#') {
			skip_comment(p);
		} else if (looks_at(p, "\xef\xbb\xbf")) {
			skip_rune(p);
		} else {
			return;
		}
	}
}

static bool is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t skip_digits(struct parser *p)
{
	size_t from = p->at;

	while (is_digit(peek(p, 0)))
		p->at++;
	return p->at - from;
}

static enum kind lex_number(struct parser *p)
{
	enum kind kind = T_INT;

	p->at += peek(p, 0) == '-';
	if (peek(p, 0) == '0') {
		p->at++;
		if (is_digit(peek(p, 0)))
			return T_INVALID;
	} else if (skip_digits(p) == 0) {
		return T_INVALID;
	}
	if (peek(p, 0) == '.') {
		kind = T_FLOAT;
		p->at++;
		if (skip_digits(p) == 0)
			return T_INVALID;
	}
	if (peek(p, 0) == 'e' || peek(p, 0) == 'E') {
		kind = T_FLOAT;
		p->at++;
		p->at += peek(p, 0) == '-' || peek(p, 0) == '+';
		if (skip_digits(p) == 0)
			return T_INVALID;
	}
	return kind;
}

static void add_rune(struct rb_text *out, uint32_t c)
{
	if (c < 0x80) {
		rb_add_c(out, (char)c);
		return;
	}
	if (c >= 0xd800 && c <= 0xdfff)
		c = 0xfffd;
	if (c < 0x800) {
		rb_add_c(out, (char)(0xc0 | c >> 6));
	} else {
		rb_add_c(out, (char)(0xe0 | c >> 12));
		rb_add_c(out, (char)(0x80 | (c >> 6 & 0x3f)));
	}
	rb_add_c(out, (char)(0x80 | (c & 0x3f)));
}

static bool unhex(const struct parser *p, uint32_t *ret)
{
	*ret = 0;
	for (size_t i = 2; i < 6; i++) {
		int c = peek(p, i);

		if (is_digit(c))
			c -= '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			c = (c | 0x20) - 'a' + 10;
		else
			return false;
		*ret = *ret << 4 | (uint32_t)c;
	}
	return true;
}

/* At a backslash; false: no known escape. */
static bool lex_escape(struct parser *p, struct rb_text *out)
{
	static const char from[] = "\"/\\bfnrt", to[] = "\"/\\\b\f\n\r\t";
	int c = peek(p, 1);
	const char *at;
	uint32_t rune;

	if (c == 'u') {
		if (!unhex(p, &rune)) {
			p->at++;
			return false;
		}
		add_rune(out, rune);
		p->at += 6;
		return true;
	}
	at = c > 0 ? strchr(from, c) : NULL;
	if (at == NULL) {
		p->at++;
		return false;
	}
	rb_add_c(out, to[at - from]);
	p->at += 2;
	return true;
}

static enum rf_rb_result text_done(struct rb_text *t, struct rf_str *ret)
{
	if (t->full)
		return RF_RB_FULL;
	*ret = t->n == 0 ? RF_STR_EMPTY : rf_str_n(t->p, t->n);
	return RF_RB_OK;
}

/* Behind the opening quote. */
static enum rf_rb_result lex_string(struct parser *p, struct token *t)
{
	struct rb_text out = { .e = p->e };
	size_t from = p->at;
	bool escaped = false;

	t->kind = T_INVALID;
	for (int c; (c = peek(p, 0)) >= 0x20 || c == '\t';) {
		if (c == '"') {
			t->kind = T_STRING;
			t->value = rf_str_n(p->s.p + from, p->at - from);
			p->at++;
			return escaped ? text_done(&out, &t->value) : RF_RB_OK;
		}
		if (c == '\\') {
			if (!escaped)
				rb_add(&out, rf_str_n(p->s.p + from, p->at - from));
			escaped = true;
			if (!lex_escape(p, &out))
				return RF_RB_OK;
			continue;
		}
		from = escaped ? p->at : from;
		skip_rune(p);
		if (escaped)
			rb_add(&out, rf_str_n(p->s.p + from, p->at - from));
	}
	return RF_RB_OK;
}

static bool is_blank(struct rf_str line)
{
	for (size_t i = 0; i < line.n; i++)
		if (line.p[i] != ' ' && line.p[i] != '\t')
			return false;
	return true;
}

static size_t indent_of(struct rf_str line)
{
	size_t n = 0;

	while (n < line.n && (line.p[n] == ' ' || line.p[n] == '\t'))
		n++;
	return n;
}

/* The text of a block without the indent all its lines share (the first does not count), and without
 * blank lines at its ends. */
static enum rf_rb_result block_value(struct parser *p, struct rf_str raw, struct rf_str *ret)
{
	struct rb_text out = { .e = p->e };
	size_t common = SIZE_MAX, first = SIZE_MAX, last = 0, i = 0;
	struct rf_str rest = raw, line;
	bool more = true;

	for (i = 0; more; i++) {
		more = rf_str_cut(&rest, '\n', &line);
		if (is_blank(line))
			continue;
		if (i > 0)
			common = RF_MIN(common, indent_of(line));
		first = first == SIZE_MAX ? i : first;
		last = i;
	}
	if (first == SIZE_MAX) {
		*ret = RF_STR_EMPTY;
		return RF_RB_OK;
	}
	rest = raw;
	for (i = 0; i <= last; i++) {
		(void)rf_str_cut(&rest, '\n', &line);
		if (i < first)
			continue;
		if (i > first)
			rb_add_c(&out, '\n');
		rb_add(&out, i == 0 || common == SIZE_MAX ? line : rf_str_skip(line, common));
	}
	return text_done(&out, ret);
}

/* Behind the three opening quotes. */
static enum rf_rb_result lex_block(struct parser *p, struct token *t, size_t start)
{
	struct rb_text out = { .e = p->e };
	struct rf_str raw;

	t->kind = T_INVALID;
	for (int c; (c = peek(p, 0)) >= 0x20 || c == '\t' || c == '\n' || c == '\r';) {
		size_t from = p->at;

		if (looks_at(p, "\"\"\"")) {
			t->kind = T_BLOCK;
			t->line = p->line;
			t->column = (int)((int64_t)start - (int64_t)p->line_start) + 1;
			p->at += 3;
			RB_TRY(text_done(&out, &raw));
			return block_value(p, raw, &t->value);
		}
		if (looks_at(p, "\\\"\"\"")) {
			p->at += 4;
			rb_puts(&out, "\"\"\"");
			continue;
		}
		if (c == '\r')
			p->at += peek(p, 1) == '\n' ? 2 : 1;
		else
			skip_rune(p);
		if (c == '\r' || c == '\n') {
			new_line(p);
			rb_add_c(&out, '\n');
		} else {
			rb_add(&out, rf_str_n(p->s.p + from, p->at - from));
		}
	}
	return RF_RB_OK;
}

static enum rf_rb_result lex_token(struct parser *p, struct token *t)
{
	static const char marks[] = "!$&():=@[]{}|";
	static const enum kind mark_kind[] = { T_BANG,	T_DOLLAR,    T_AMP,	  T_PAREN_L, T_PAREN_R,
					       T_COLON, T_EQUALS,    T_AT,	  T_BRACKET_L,
					       T_BRACKET_R, T_BRACE_L, T_BRACE_R, T_PIPE };
	int c = peek(p, 0);
	size_t from = p->at;
	const char *mark;

	if (c < 0) {
		t->kind = T_EOF;
		return RF_RB_OK;
	}
	mark = c > 0 ? strchr(marks, c) : NULL;
	if (mark != NULL) {
		p->at++;
		t->kind = mark_kind[mark - marks];
		return RF_RB_OK;
	}
	if (looks_at(p, "...")) {
		p->at += 3;
		t->kind = T_SPREAD;
		return RF_RB_OK;
	}
	if (c == '"') {
		bool block = looks_at(p, "\"\"\"");

		p->at += block ? 3 : 1;
		t->column += 1; /* strings begin behind their quote */
		return block ? lex_block(p, t, runes(p)) : lex_string(p, t);
	}
	if (is_letter(c)) {
		while (is_letter(peek(p, 0)) || is_digit(peek(p, 0)))
			p->at++;
		t->kind = T_NAME;
	} else if (c == '-' || is_digit(c)) {
		t->kind = lex_number(p);
	} else {
		t->kind = T_INVALID;
	}
	t->value = rf_str_n(p->s.p + from, p->at - from);
	return RF_RB_OK;
}

/* To the next token. */
static enum rf_rb_result next(struct parser *p)
{
	size_t from = p->at;

	p->prev = p->tok;
	skip_space(p);
	p->tok = (struct token){ .kind = T_EOF,
				 .value = RF_STR_EMPTY,
				 .line = p->line,
				 .column = (int)(runes(p) - p->line_start) + 1 };
	RB_TRY(lex_token(p, &p->tok));
	if (p->tok.kind == T_INVALID) {
		p->tok.value = RF_STR_EMPTY;
		p->tok.line = p->line;
		p->tok.column = (int)(runes(p) - p->line_start) + 1;
	}
	return rf_rb_spend(p->e, 2 + (int64_t)((p->at - from) / 8)) ? RF_RB_OK : RF_RB_FULL;
}

/* --- what the grammar asks of tokens --- */

/* As written in a message; long ones are cut. */
static struct rf_str shown(struct parser *p, const struct token *t)
{
	struct rb_text out = { .e = p->e };
	struct rf_str s = t->value, value;

	rb_puts(&out, kind_name[t->kind]);
	if (s.n > 0) {
		s.n = RF_MIN(s.n, 200);
		rb_puts(&out, " ");
		value = rb_shown(p->e, rf_rv_str(s));
		rb_add(&out, value);
	}
	return out.full || out.n == 0 ? RF_STR_EMPTY : rf_str_n(out.p, out.n);
}

static enum rf_rb_result fail(struct parser *p, const struct token *t, const char *what, const char *wanted,
			      struct rf_str found)
{
	return rb_error(p->err, "%s%s%s%.*s in GraphQL string at location %d:%d", what, wanted,
			wanted[0] != '\0' ? ", found " : "", RF_STR(found), t->line, t->column);
}

static enum rf_rb_result unexpected(struct parser *p, const struct token *t)
{
	return fail(p, t, "Unexpected ", "", shown(p, t));
}

static enum rf_rb_result expect(struct parser *p, enum kind kind)
{
	if (p->tok.kind != kind)
		return fail(p, &p->tok, "Expected ", kind_name[kind], rf_str(kind_name[p->tok.kind]));
	return next(p);
}

static bool is_word(const struct parser *p, const char *word)
{
	return p->tok.kind == T_NAME && rf_str_is(p->tok.value, word);
}

static enum rf_rb_result expect_word(struct parser *p, const char *word)
{
	char wanted[24];

	if (is_word(p, word))
		return next(p);
	(void)snprintf(wanted, sizeof(wanted), "\"%s\"", word);
	return fail(p, &p->tok, "Expected ", wanted, shown(p, &p->tok));
}

static enum rf_rb_result take(struct parser *p, enum kind kind, bool *ret_taken)
{
	*ret_taken = p->tok.kind == kind;
	return *ret_taken ? next(p) : RF_RB_OK;
}

static enum rf_rb_result name(struct parser *p, struct rb_object *o, const char *key)
{
	struct rf_str s = p->tok.value;

	RB_TRY(expect(p, T_NAME));
	rb_put(o, key, rf_rv_str(s));
	return RF_RB_OK;
}

static struct rb_object node(struct parser *p)
{
	struct rb_object o = { .e = p->e };

	rb_put(&o, "Position", rf_gql_pos(p->tok.line, p->tok.column));
	return o;
}

/* --- lists of nodes --- */

typedef enum rf_rb_result item_fn(struct parser *p, bool constant, struct rf_rv *ret);

static enum rf_rb_result push(struct parser *p, struct rf_rv_grow *list, struct rf_rv v)
{
	return rf_rv_push(list, p->e->arena, v) ? RF_RB_OK : RF_RB_FULL;
}

static void put_list(struct rb_object *o, const char *key, struct rf_rv_grow *list)
{
	if (list->n > 0)
		rb_put(o, key, rf_rv_grown_array(list));
}

/* Items between two marks, if there are marks. */
static enum rf_rb_result between(struct parser *p, enum kind open, enum kind close, bool empty_too,
				 item_fn *item, bool constant, struct rb_object *o, const char *key)
{
	struct rf_rv_grow list = { 0 };
	struct rf_rv v;
	bool open_taken;

	RB_TRY(take(p, open, &open_taken));
	if (!open_taken)
		return RF_RB_OK;
	if (++p->depth > RF_GQL_DEPTH_MAX)
		return rb_error(p->err, "the GraphQL string nests more than %d deep at location %d:%d",
				RF_GQL_DEPTH_MAX, p->tok.line, p->tok.column);
	if (p->tok.kind == close && !empty_too)
		return fail(p, &p->tok, "expected at least one definition, found ", "",
			    rf_str(kind_name[close]));
	while (p->tok.kind != close) {
		RB_TRY(item(p, constant, &v));
		RB_TRY(push(p, &list, v));
	}
	p->depth--;
	put_list(o, key, &list);
	return next(p);
}

/* --- values, directives, types --- */

static enum rf_rb_result value(struct parser *p, bool constant, struct rf_rv *ret);

static enum rf_rb_result list_item(struct parser *p, bool constant, struct rf_rv *ret)
{
	struct rb_object o = node(p);
	struct rf_rv v;

	RB_TRY(value(p, constant, &v));
	rb_put(&o, "Value", v);
	return rb_object_value(&o, ret);
}

static enum rf_rb_result argument(struct parser *p, bool constant, struct rf_rv *ret)
{
	struct rb_object o = node(p);
	struct rf_rv v;

	RB_TRY(name(p, &o, "Name"));
	RB_TRY(expect(p, T_COLON));
	RB_TRY(value(p, constant, &v));
	rb_put(&o, "Value", v);
	return rb_object_value(&o, ret);
}

static enum rf_gql_value name_kind(struct rf_str s)
{
	if (rf_str_is(s, "true") || rf_str_is(s, "false"))
		return RF_GQL_BOOL;
	return rf_str_is(s, "null") ? RF_GQL_NULL : RF_GQL_ENUM;
}

static enum rf_rb_result value(struct parser *p, bool constant, struct rf_rv *ret)
{
	struct rb_object o = node(p);
	enum rf_gql_value kind;

	switch (p->tok.kind) {
	case T_BRACKET_L:
		kind = RF_GQL_LIST;
		RB_TRY(between(p, T_BRACKET_L, T_BRACKET_R, true, list_item, constant, &o, "Children"));
		break;
	case T_BRACE_L:
		kind = RF_GQL_OBJECT;
		RB_TRY(between(p, T_BRACE_L, T_BRACE_R, true, argument, constant, &o, "Children"));
		break;
	case T_DOLLAR:
		if (constant)
			return unexpected(p, &p->tok);
		kind = RF_GQL_VARIABLE;
		RB_TRY(next(p));
		RB_TRY(name(p, &o, "Raw"));
		break;
	case T_INT:
	case T_FLOAT:
	case T_STRING:
	case T_BLOCK:
	case T_NAME:
		kind = p->tok.kind == T_NAME ? name_kind(p->tok.value) :
					       RF_GQL_INT + (p->tok.kind - T_INT);
		rb_put(&o, "Raw", rf_rv_str(p->tok.value));
		RB_TRY(next(p));
		break;
	default:
		return unexpected(p, &p->tok);
	}
	rb_put(&o, "Kind", rf_rv_int(kind));
	return rb_object_value(&o, ret);
}

static enum rf_rb_result directives(struct parser *p, bool constant, struct rb_object *o)
{
	struct rf_rv_grow list = { 0 };
	struct rf_rv v;

	while (p->tok.kind == T_AT) {
		RB_TRY(next(p));
		struct rb_object d = node(p);

		RB_TRY(name(p, &d, "Name"));
		RB_TRY(between(p, T_PAREN_L, T_PAREN_R, true, argument, constant, &d, "Arguments"));
		RB_TRY(rb_object_value(&d, &v));
		RB_TRY(push(p, &list, v));
	}
	put_list(o, "Directives", &list);
	return RF_RB_OK;
}

static enum rf_rb_result type_of(struct parser *p, struct rf_rv *ret)
{
	struct rb_object o = node(p);
	struct rf_rv elem;
	bool taken;

	RB_TRY(take(p, T_BRACKET_L, &taken));
	if (taken) {
		if (++p->depth > RF_GQL_DEPTH_MAX)
			return rb_error(p->err, "the GraphQL string nests more than %d deep at location %d:%d",
					RF_GQL_DEPTH_MAX, p->tok.line, p->tok.column);
		RB_TRY(type_of(p, &elem));
		p->depth--;
		rb_put(&o, "Elem", elem);
		RB_TRY(expect(p, T_BRACKET_R));
	} else {
		RB_TRY(name(p, &o, "NamedType"));
	}
	RB_TRY(take(p, T_BANG, &taken));
	if (taken)
		rb_put(&o, "NonNull", rf_rv_bool(true));
	return rb_object_value(&o, ret);
}

/* ": Type", and "= value" where there may be one. */
static enum rf_rb_result typed(struct parser *p, bool with_default, struct rb_object *o)
{
	struct rf_rv v;
	bool taken = false;

	RB_TRY(expect(p, T_COLON));
	RB_TRY(type_of(p, &v));
	rb_put(o, "Type", v);
	if (with_default)
		RB_TRY(take(p, T_EQUALS, &taken));
	if (!taken)
		return RF_RB_OK;
	RB_TRY(value(p, true, &v));
	rb_put(o, "DefaultValue", v);
	return RF_RB_OK;
}

/* --- queries --- */

static enum rf_rb_result variable(struct parser *p, bool constant, struct rf_rv *ret)
{
	struct rb_object o = node(p);

	RB_TRY(expect(p, T_DOLLAR));
	RB_TRY(name(p, &o, "Variable"));
	RB_TRY(typed(p, true, &o));
	RB_TRY(directives(p, constant, &o));
	return rb_object_value(&o, ret);
}

static enum rf_rb_result selection(struct parser *p, bool constant, struct rf_rv *ret);

static enum rf_rb_result selections(struct parser *p, struct rb_object *o)
{
	if (p->tok.kind != T_BRACE_L)
		return expect(p, T_BRACE_L);
	return between(p, T_BRACE_L, T_BRACE_R, false, selection, false, o, "SelectionSet");
}

static enum rf_rb_result fragment_name(struct parser *p, struct rb_object *o)
{
	if (is_word(p, "on"))
		return unexpected(p, &p->tok);
	return name(p, o, "Name");
}

static enum rf_rb_result spread(struct parser *p, struct rf_rv *ret)
{
	RB_TRY(expect(p, T_SPREAD));
	struct rb_object o = node(p);

	if (p->tok.kind == T_NAME && !is_word(p, "on")) {
		RB_TRY(fragment_name(p, &o));
		RB_TRY(directives(p, false, &o));
		return rb_object_value(&o, ret);
	}
	if (is_word(p, "on")) {
		RB_TRY(next(p));
		RB_TRY(name(p, &o, "TypeCondition"));
	} else {
		rb_put(&o, "TypeCondition", rf_rv_str(RF_STR_EMPTY));
	}
	RB_TRY(directives(p, false, &o));
	RB_TRY(selections(p, &o));
	return rb_object_value(&o, ret);
}

static enum rf_rb_result selection(struct parser *p, bool constant, struct rf_rv *ret)
{
	struct rb_object o = node(p);
	struct rf_str alias = p->tok.value;
	bool aliased;

	if (p->tok.kind == T_SPREAD)
		return spread(p, ret);
	RB_TRY(name(p, &o, "Alias"));
	RB_TRY(take(p, T_COLON, &aliased));
	if (aliased)
		RB_TRY(name(p, &o, "Name"));
	else
		rb_put(&o, "Name", rf_rv_str(alias));
	RB_TRY(between(p, T_PAREN_L, T_PAREN_R, true, argument, constant, &o, "Arguments"));
	RB_TRY(directives(p, constant, &o));
	if (p->tok.kind == T_BRACE_L)
		RB_TRY(selections(p, &o));
	return rb_object_value(&o, ret);
}

static bool is_operation(const struct parser *p)
{
	return is_word(p, "query") || is_word(p, "mutation") || is_word(p, "subscription");
}

static enum rf_rb_result operation(struct parser *p, struct rf_rv *ret)
{
	struct rb_object o = node(p);

	if (p->tok.kind == T_BRACE_L) {
		rb_put(&o, "Operation", rf_rv_str(RF_LIT("query")));
		RB_TRY(selections(p, &o));
		return rb_object_value(&o, ret);
	}
	RB_TRY(name(p, &o, "Operation"));
	if (p->tok.kind == T_NAME)
		RB_TRY(name(p, &o, "Name"));
	RB_TRY(between(p, T_PAREN_L, T_PAREN_R, true, variable, false, &o, "VariableDefinitions"));
	RB_TRY(directives(p, false, &o));
	RB_TRY(selections(p, &o));
	return rb_object_value(&o, ret);
}

static enum rf_rb_result fragment(struct parser *p, struct rf_rv *ret)
{
	struct rb_object o = node(p);

	RB_TRY(next(p));
	RB_TRY(fragment_name(p, &o));
	RB_TRY(between(p, T_PAREN_L, T_PAREN_R, true, variable, false, &o, "VariableDefinition"));
	RB_TRY(expect_word(p, "on"));
	RB_TRY(name(p, &o, "TypeCondition"));
	RB_TRY(directives(p, false, &o));
	RB_TRY(selections(p, &o));
	return rb_object_value(&o, ret);
}

static enum rf_rb_result query_document(struct parser *p, struct rf_rv *ret)
{
	struct rf_rv_grow operations = { 0 }, fragments = { 0 };
	struct rb_object o = { .e = p->e };
	struct rf_rv v;

	while (p->tok.kind != T_EOF) {
		if (p->tok.kind == T_BRACE_L || is_operation(p)) {
			RB_TRY(operation(p, &v));
			RB_TRY(push(p, &operations, v));
		} else if (is_word(p, "fragment")) {
			RB_TRY(fragment(p, &v));
			RB_TRY(push(p, &fragments, v));
		} else {
			return unexpected(p, &p->tok);
		}
	}
	put_list(&o, "Operations", &operations);
	put_list(&o, "Fragments", &fragments);
	return rb_object_value(&o, ret);
}

/* --- schemas --- */

static enum rf_rb_result description(struct parser *p, struct rb_object *o)
{
	if (p->tok.kind != T_STRING && p->tok.kind != T_BLOCK)
		return RF_RB_OK;
	rb_put(o, "Description", rf_rv_str(p->tok.value));
	return next(p);
}

/* An argument of a field or directive, or a field of an input object. */
static enum rf_rb_result input_value(struct parser *p, bool constant, struct rf_rv *ret)
{
	struct rb_object o = node(p);

	RB_TRY(description(p, &o));
	RB_TRY(name(p, &o, "Name"));
	RB_TRY(typed(p, true, &o));
	RB_TRY(directives(p, constant, &o));
	return rb_object_value(&o, ret);
}

static enum rf_rb_result field(struct parser *p, bool constant, struct rf_rv *ret)
{
	struct rb_object o = node(p);

	RB_TRY(description(p, &o));
	RB_TRY(name(p, &o, "Name"));
	RB_TRY(between(p, T_PAREN_L, T_PAREN_R, false, input_value, true, &o, "Arguments"));
	RB_TRY(typed(p, false, &o));
	RB_TRY(directives(p, constant, &o));
	return rb_object_value(&o, ret);
}

static enum rf_rb_result enum_value(struct parser *p, bool constant, struct rf_rv *ret)
{
	struct rb_object o = node(p);

	RB_TRY(description(p, &o));
	RB_TRY(name(p, &o, "Name"));
	RB_TRY(directives(p, constant, &o));
	return rb_object_value(&o, ret);
}

static enum rf_rb_result operation_type(struct parser *p, bool constant, struct rf_rv *ret)
{
	struct rb_object o = node(p);

	(void)constant;
	if (!is_operation(p))
		return unexpected(p, &p->tok);
	RB_TRY(name(p, &o, "Operation"));
	RB_TRY(expect(p, T_COLON));
	RB_TRY(name(p, &o, "Type"));
	return rb_object_value(&o, ret);
}

/* Names with a mark between them, and maybe one before them all. */
static enum rf_rb_result names(struct parser *p, enum kind mark, struct rb_object *o, const char *key)
{
	struct rf_rv_grow list = { 0 };
	bool more;

	RB_TRY(take(p, mark, &more));
	do {
		RB_TRY(push(p, &list, rf_rv_str(p->tok.value)));
		RB_TRY(expect(p, T_NAME));
		RB_TRY(take(p, mark, &more));
	} while (more);
	put_list(o, key, &list);
	return RF_RB_OK;
}

static const struct {
	const char *word, *kind;
} type_words[] = {
	{ "scalar", "SCALAR" }, { "type", "OBJECT" }, { "interface", "INTERFACE" },
	{ "union", "UNION" },	{ "enum", "ENUM" },   { "input", "INPUT_OBJECT" },
};

static const char *type_kind(const struct parser *p)
{
	for (size_t i = 0; i < RF_COUNT(type_words); i++)
		if (is_word(p, type_words[i].word))
			return type_words[i].kind;
	return NULL;
}

/* What follows a type's name. */
static enum rf_rb_result type_body(struct parser *p, const char *kind, struct rb_object *o)
{
	bool fields = strcmp(kind, "OBJECT") == 0 || strcmp(kind, "INTERFACE") == 0;
	bool taken;

	if (fields && is_word(p, "implements")) {
		RB_TRY(next(p));
		RB_TRY(names(p, T_AMP, o, "Interfaces"));
	}
	RB_TRY(directives(p, true, o));
	if (fields)
		return between(p, T_BRACE_L, T_BRACE_R, false, field, true, o, "Fields");
	if (strcmp(kind, "INPUT_OBJECT") == 0)
		return between(p, T_BRACE_L, T_BRACE_R, false, input_value, true, o, "Fields");
	if (strcmp(kind, "ENUM") == 0)
		return between(p, T_BRACE_L, T_BRACE_R, false, enum_value, true, o, "EnumValues");
	if (strcmp(kind, "UNION") != 0)
		return RF_RB_OK;
	RB_TRY(take(p, T_EQUALS, &taken));
	return taken ? names(p, T_PIPE, o, "Types") : RF_RB_OK;
}

static enum rf_rb_result type_definition(struct parser *p, const char *kind, struct rf_rv *ret,
					 struct rf_rv text, bool extension)
{
	RB_TRY(next(p));
	struct rb_object o = node(p);
	uint32_t bare;

	rb_put(&o, "Kind", rf_rv_str(rf_str(kind)));
	if (text.type == RF_RV_STRING)
		rb_put(&o, "Description", text);
	RB_TRY(name(p, &o, "Name"));
	bare = o.g.n;
	RB_TRY(type_body(p, kind, &o));
	if (extension && o.g.n == bare && !o.full)
		return unexpected(p, &p->tok);
	return rb_object_value(&o, ret);
}

static enum rf_rb_result schema_definition(struct parser *p, struct rf_rv text, bool extension,
					   struct rf_rv *ret)
{
	RB_TRY(next(p));
	struct rb_object o = node(p);
	uint32_t bare;

	if (text.type == RF_RV_STRING)
		rb_put(&o, "Description", text);
	bare = o.g.n;
	RB_TRY(directives(p, true, &o));
	RB_TRY(between(p, T_BRACE_L, T_BRACE_R, false, operation_type, true, &o, "OperationTypes"));
	if (extension && o.g.n == bare && !o.full)
		return unexpected(p, &p->tok);
	return rb_object_value(&o, ret);
}

static bool is_location(struct rf_rv v)
{
	static const char *const known[] = {
		"QUERY", "MUTATION", "SUBSCRIPTION", "FIELD", "FRAGMENT_DEFINITION", "FRAGMENT_SPREAD",
		"INLINE_FRAGMENT", "VARIABLE_DEFINITION", "SCHEMA", "SCALAR", "OBJECT", "FIELD_DEFINITION",
		"ARGUMENT_DEFINITION", "INTERFACE", "UNION", "ENUM", "ENUM_VALUE", "INPUT_OBJECT",
		"INPUT_FIELD_DEFINITION",
	};

	for (size_t i = 0; i < RF_COUNT(known); i++)
		if (rf_str_is(rf_rv_text(v), known[i]))
			return true;
	return false;
}

static enum rf_rb_result locations(struct parser *p, struct rb_object *o)
{
	struct rf_rv_grow list = { 0 };
	struct rf_rv v;
	bool more;

	RB_TRY(take(p, T_PIPE, &more));
	do {
		v = rf_rv_str(p->tok.value);
		RB_TRY(expect(p, T_NAME));
		if (!is_location(v))
			return unexpected(p, &p->prev);
		RB_TRY(push(p, &list, v));
		RB_TRY(take(p, T_PIPE, &more));
	} while (more);
	put_list(o, "Locations", &list);
	return RF_RB_OK;
}

static enum rf_rb_result directive_definition(struct parser *p, struct rf_rv text, struct rf_rv *ret)
{
	RB_TRY(next(p));
	RB_TRY(expect(p, T_AT));
	struct rb_object o = node(p);

	if (text.type == RF_RV_STRING)
		rb_put(&o, "Description", text);
	RB_TRY(name(p, &o, "Name"));
	RB_TRY(between(p, T_PAREN_L, T_PAREN_R, false, input_value, true, &o, "Arguments"));
	if (is_word(p, "repeatable")) {
		rb_put(&o, "IsRepeatable", rf_rv_bool(true));
		RB_TRY(next(p));
	}
	RB_TRY(expect_word(p, "on"));
	RB_TRY(locations(p, &o));
	return rb_object_value(&o, ret);
}

struct schema_lists {
	struct rf_rv_grow schema, schema_extension, directives, definitions, extensions;
};

static enum rf_rb_result extension(struct parser *p, struct schema_lists *l)
{
	const char *kind;
	struct rf_rv v;

	RB_TRY(next(p));
	if (is_word(p, "schema")) {
		RB_TRY(schema_definition(p, RF_RV_NIL, true, &v));
		return push(p, &l->schema_extension, v);
	}
	kind = type_kind(p);
	if (kind == NULL)
		return unexpected(p, &p->tok);
	RB_TRY(type_definition(p, kind, &v, RF_RV_NIL, true));
	return push(p, &l->extensions, v);
}

static enum rf_rb_result schema_item(struct parser *p, struct schema_lists *l)
{
	struct rf_rv text = RF_RV_NIL, v;
	const char *kind;

	if (p->tok.kind == T_STRING || p->tok.kind == T_BLOCK) {
		text = rf_rv_str(p->tok.value);
		RB_TRY(next(p));
	}
	kind = type_kind(p);
	if (kind != NULL) {
		RB_TRY(type_definition(p, kind, &v, text, false));
		return push(p, &l->definitions, v);
	}
	if (is_word(p, "schema")) {
		RB_TRY(schema_definition(p, text, false, &v));
		return push(p, &l->schema, v);
	}
	if (is_word(p, "directive")) {
		RB_TRY(directive_definition(p, text, &v));
		return push(p, &l->directives, v);
	}
	if (!is_word(p, "extend"))
		return unexpected(p, &p->tok);
	if (text.type == RF_RV_STRING && text.n > 0)
		return unexpected(p, &p->prev);
	return extension(p, l);
}

static enum rf_rb_result schema_document(struct parser *p, struct rf_rv *ret)
{
	struct schema_lists l = { 0 };
	struct rb_object o = { .e = p->e };

	while (p->tok.kind != T_EOF)
		RB_TRY(schema_item(p, &l));
	put_list(&o, "Schema", &l.schema);
	put_list(&o, "SchemaExtension", &l.schema_extension);
	put_list(&o, "Directives", &l.directives);
	put_list(&o, "Definitions", &l.definitions);
	put_list(&o, "Extensions", &l.extensions);
	return rb_object_value(&o, ret);
}

enum rf_rb_result rf_gql_parse(struct rf_rb_env *e, struct rf_str text, bool schema, struct rf_rv *ret,
			       struct rf_err *err)
{
	struct parser p = { .e = e, .err = err, .s = text, .line = 1 };

	if (text.n > RF_GQL_TEXT_MAX)
		return rb_error(err, "the GraphQL string has %zu bytes; at most %d are read", text.n,
				RF_GQL_TEXT_MAX);
	RB_TRY(next(&p));
	return schema ? schema_document(&p, ret) : query_document(&p, ret);
}

/* --- the shape of trees --- */

enum what { STRING, FLAG, NUMBER, STRINGS, NODE, NODES };

enum node {
	N_QUERY_DOC,
	N_SCHEMA_DOC,
	N_OPERATION,
	N_FRAGMENT,
	N_VARIABLE,
	N_FIELD,
	N_SPREAD,
	N_INLINE,
	N_DIRECTIVE,
	N_ARGUMENT,
	N_VALUE,
	N_TYPE,
	N_SCHEMA,
	N_OPERATION_TYPE,
	N_DEFINITION,
	N_FIELD_DEF,
	N_ARGUMENT_DEF,
	N_ENUM_VALUE,
	N_DIRECTIVE_DEF,
	N_SELECTION, /* one of field, spread, inline */
};

static const struct part {
	enum node of;
	const char *key;
	enum what what;
	enum node type; /* of NODE and NODES */
} parts[] = {
	{ N_QUERY_DOC, "Operations", NODES, N_OPERATION },
	{ N_QUERY_DOC, "Fragments", NODES, N_FRAGMENT },
	{ N_SCHEMA_DOC, "Schema", NODES, N_SCHEMA },
	{ N_SCHEMA_DOC, "SchemaExtension", NODES, N_SCHEMA },
	{ N_SCHEMA_DOC, "Directives", NODES, N_DIRECTIVE_DEF },
	{ N_SCHEMA_DOC, "Definitions", NODES, N_DEFINITION },
	{ N_SCHEMA_DOC, "Extensions", NODES, N_DEFINITION },
	{ N_OPERATION, "Operation", STRING, 0 },
	{ N_OPERATION, "Name", STRING, 0 },
	{ N_OPERATION, "VariableDefinitions", NODES, N_VARIABLE },
	{ N_OPERATION, "Directives", NODES, N_DIRECTIVE },
	{ N_OPERATION, "SelectionSet", NODES, N_SELECTION },
	{ N_FRAGMENT, "Name", STRING, 0 },
	{ N_FRAGMENT, "VariableDefinition", NODES, N_VARIABLE },
	{ N_FRAGMENT, "TypeCondition", STRING, 0 },
	{ N_FRAGMENT, "Directives", NODES, N_DIRECTIVE },
	{ N_FRAGMENT, "SelectionSet", NODES, N_SELECTION },
	{ N_VARIABLE, "Variable", STRING, 0 },
	{ N_VARIABLE, "Type", NODE, N_TYPE },
	{ N_VARIABLE, "DefaultValue", NODE, N_VALUE },
	{ N_VARIABLE, "Directives", NODES, N_DIRECTIVE },
	{ N_VARIABLE, "Used", FLAG, 0 },
	{ N_FIELD, "Alias", STRING, 0 },
	{ N_FIELD, "Name", STRING, 0 },
	{ N_FIELD, "Arguments", NODES, N_ARGUMENT },
	{ N_FIELD, "Directives", NODES, N_DIRECTIVE },
	{ N_FIELD, "SelectionSet", NODES, N_SELECTION },
	{ N_SPREAD, "Name", STRING, 0 },
	{ N_SPREAD, "Directives", NODES, N_DIRECTIVE },
	{ N_INLINE, "TypeCondition", STRING, 0 },
	{ N_INLINE, "Directives", NODES, N_DIRECTIVE },
	{ N_INLINE, "SelectionSet", NODES, N_SELECTION },
	{ N_DIRECTIVE, "Name", STRING, 0 },
	{ N_DIRECTIVE, "Arguments", NODES, N_ARGUMENT },
	{ N_DIRECTIVE, "Location", STRING, 0 },
	{ N_ARGUMENT, "Name", STRING, 0 },
	{ N_ARGUMENT, "Value", NODE, N_VALUE },
	{ N_VALUE, "Raw", STRING, 0 },
	{ N_VALUE, "Children", NODES, N_ARGUMENT },
	{ N_VALUE, "Kind", NUMBER, 0 },
	{ N_VALUE, "ExpectedTypeHasDefault", FLAG, 0 },
	{ N_TYPE, "NamedType", STRING, 0 },
	{ N_TYPE, "Elem", NODE, N_TYPE },
	{ N_TYPE, "NonNull", FLAG, 0 },
	{ N_SCHEMA, "Description", STRING, 0 },
	{ N_SCHEMA, "Directives", NODES, N_DIRECTIVE },
	{ N_SCHEMA, "OperationTypes", NODES, N_OPERATION_TYPE },
	{ N_OPERATION_TYPE, "Operation", STRING, 0 },
	{ N_OPERATION_TYPE, "Type", STRING, 0 },
	{ N_DEFINITION, "Kind", STRING, 0 },
	{ N_DEFINITION, "Description", STRING, 0 },
	{ N_DEFINITION, "Name", STRING, 0 },
	{ N_DEFINITION, "Directives", NODES, N_DIRECTIVE },
	{ N_DEFINITION, "Interfaces", STRINGS, 0 },
	{ N_DEFINITION, "Fields", NODES, N_FIELD_DEF },
	{ N_DEFINITION, "Types", STRINGS, 0 },
	{ N_DEFINITION, "EnumValues", NODES, N_ENUM_VALUE },
	{ N_DEFINITION, "BuiltIn", FLAG, 0 },
	{ N_FIELD_DEF, "Description", STRING, 0 },
	{ N_FIELD_DEF, "Name", STRING, 0 },
	{ N_FIELD_DEF, "Arguments", NODES, N_ARGUMENT_DEF },
	{ N_FIELD_DEF, "DefaultValue", NODE, N_VALUE },
	{ N_FIELD_DEF, "Type", NODE, N_TYPE },
	{ N_FIELD_DEF, "Directives", NODES, N_DIRECTIVE },
	{ N_ARGUMENT_DEF, "Description", STRING, 0 },
	{ N_ARGUMENT_DEF, "Name", STRING, 0 },
	{ N_ARGUMENT_DEF, "DefaultValue", NODE, N_VALUE },
	{ N_ARGUMENT_DEF, "Type", NODE, N_TYPE },
	{ N_ARGUMENT_DEF, "Directives", NODES, N_DIRECTIVE },
	{ N_ENUM_VALUE, "Description", STRING, 0 },
	{ N_ENUM_VALUE, "Name", STRING, 0 },
	{ N_ENUM_VALUE, "Directives", NODES, N_DIRECTIVE },
	{ N_DIRECTIVE_DEF, "Description", STRING, 0 },
	{ N_DIRECTIVE_DEF, "Name", STRING, 0 },
	{ N_DIRECTIVE_DEF, "Arguments", NODES, N_ARGUMENT_DEF },
	{ N_DIRECTIVE_DEF, "Locations", STRINGS, 0 },
	{ N_DIRECTIVE_DEF, "IsRepeatable", FLAG, 0 },
};

/* A value in a value is two nodes (the child and its value), so twice the parser's levels, and some. */
#define SHAPE_DEPTH_MAX (2 * RF_GQL_DEPTH_MAX + 20)

struct shaper {
	struct rf_rb_env *e;
	struct rf_err *err;
};

static enum rf_rb_result shape(struct shaper *s, struct rf_rv v, enum node type, int depth, struct rf_rv *ret);

static enum rf_rb_result misshapen(struct shaper *s, const char *key, struct rf_rv got)
{
	return rb_error(s->err, "the GraphQL AST has a field %s that cannot be of type %s", key,
			rf_rv_type_name(got));
}

static enum node selection_type(struct rf_rv v)
{
	struct rf_rv ignored;

	if (rf_rv_get_str(v, RF_LIT("TypeCondition"), &ignored))
		return N_INLINE;
	return rf_rv_get_str(v, RF_LIT("Alias"), &ignored) ? N_FIELD : N_SPREAD;
}

static enum rf_rb_result shape_list(struct shaper *s, const struct part *part, struct rf_rv v, int depth,
				    struct rb_object *o)
{
	struct rf_rv_grow list = { 0 };
	struct rf_rv item;

	if (v.type != RF_RV_ARRAY)
		return misshapen(s, part->key, v);
	for (uint32_t i = 0; i < v.n; i++) {
		item = v.items[i];
		if (!rf_rb_spend(s->e, 1))
			return RF_RB_FULL;
		if (item.type == RF_RV_NULL)
			continue;
		if (part->what == STRINGS && item.type != RF_RV_STRING)
			return misshapen(s, part->key, item);
		if (part->what == NODES)
			RB_TRY(shape(s, item, part->type, depth + 1, &item));
		if (!rf_rv_push(&list, s->e->arena, item))
			return RF_RB_FULL;
	}
	put_list(o, part->key, &list);
	return RF_RB_OK;
}

static enum rf_rb_result shape_part(struct shaper *s, const struct part *part, struct rf_rv v, int depth,
				    struct rb_object *o)
{
	static const struct {
		uint8_t type;
		struct rf_rv none;
	} plain[] = {
		[STRING] = { RF_RV_STRING, { .type = RF_RV_STRING, .s = "" } },
		[FLAG] = { RF_RV_BOOL, { .type = RF_RV_BOOL } },
		[NUMBER] = { RF_RV_NUMBER, { .type = RF_RV_NUMBER } },
	};

	if (part->what <= NUMBER) {
		if (v.type == RF_RV_NULL)
			v = plain[part->what].none;
		if (v.type != plain[part->what].type || (part->what == NUMBER && v.big))
			return misshapen(s, part->key, v);
		rb_put(o, part->key, v);
		return RF_RB_OK;
	}
	if (v.type == RF_RV_NULL)
		return RF_RB_OK;
	if (part->what != NODE)
		return shape_list(s, part, v, depth, o);
	RB_TRY(shape(s, v, part->type, depth + 1, &v));
	rb_put(o, part->key, v);
	return RF_RB_OK;
}

static enum rf_rb_result shape(struct shaper *s, struct rf_rv v, enum node type, int depth, struct rf_rv *ret)
{
	struct rb_object o = { .e = s->e };
	struct rf_rv part;

	if (v.type != RF_RV_OBJECT)
		return rb_error(s->err, "the GraphQL AST has a %s where an object must be",
				rf_rv_type_name(v));
	if (depth > SHAPE_DEPTH_MAX)
		return rb_error(s->err, "the GraphQL AST nests more than %d deep", SHAPE_DEPTH_MAX);
	if (!rf_rb_spend(s->e, 8))
		return RF_RB_FULL;
	if (type == N_SELECTION)
		type = selection_type(v);
	for (size_t i = 0; i < RF_COUNT(parts); i++) {
		if (parts[i].of != type)
			continue;
		part = RF_RV_NIL;
		(void)rf_rv_get_str(v, rf_str(parts[i].key), &part);
		RB_TRY(shape_part(s, &parts[i], part, depth, &o));
	}
	return rb_object_value(&o, ret);
}

enum rf_rb_result rf_gql_shape(struct rf_rb_env *e, struct rf_rv tree, bool schema, struct rf_rv *ret,
			       struct rf_err *err)
{
	struct shaper s = { e, err };

	return shape(&s, tree, schema ? N_SCHEMA_DOC : N_QUERY_DOC, 0, ret);
}
