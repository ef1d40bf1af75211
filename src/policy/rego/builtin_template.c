/* strings.render_template: Go's text/template, over an object.
 *
 * Done: text, trim markers, comments, fields and variables, pipelines, if, with, range (arrays, objects),
 * else, break, continue, and the functions and or not eq ne lt le gt ge len index print println printf.
 * Not done, and refused: define, template, block, slice, html, js, urlquery, call.
 *
 * As in OPA, a number of the object is Go's json.Number: text to Go, so 0 counts as true and compares
 * with other numbers of the object as text only. A number written in the template, an index or a length
 * is an int: `tag` tells them apart. */
#include <stdio.h>

#include "policy/rego/builtin_private.h"
#include "policy/rego/number.h"

#define INT_TAG 1     /* an int of the template's own */
#define MISSING_TAG 2 /* null: there is no such key */
#define MAX_DEPTH 64
#define MAX_VARIABLES 64
#define MAX_ARGS 32

enum kind { TEXT, ACTION, IF, WITH, RANGE, BREAK, CONTINUE };

struct node {
	enum kind kind;
	struct rf_str text; /* TEXT; else the pipeline */
	size_t where;	    /* of the pipeline in the template */
	struct node *body, *other, *next;
};

struct variable {
	struct rf_str name;
	struct rf_rv value;
};

struct tpl {
	struct rf_rb_out *o;
	struct rf_rb_env *e;
	struct rf_err *err;
	enum rf_rb_result result;
	struct rf_str s; /* the template */
	size_t at;
	int depth;	    /* of blocks, or of parentheses while one is computed */
	bool trim;	    /* the action before ends in -}} */
	struct rf_str word; /* what ended a block: "end", "else", "else if x" */
	size_t word_where;
	/* running */
	struct variable var[MAX_VARIABLES];
	size_t n_vars;
	enum kind leaving; /* BREAK or CONTINUE, else TEXT */
};

/* One pipeline while it is computed. */
struct expr {
	struct tpl *t;
	struct rf_str s;
	size_t at, where;
	struct rf_rv dot;
};

/* --- errors --- */

static bool stop(struct tpl *t, enum rf_rb_result r)
{
	if (t->result == RF_RB_OK)
		t->result = r;
	return false;
}

static int line_of(const struct tpl *t, size_t at)
{
	int n = 1;

	for (size_t i = 0; i < at && i < t->s.n; i++)
		n += t->s.p[i] == '\n';
	return n;
}

static bool bad_syntax(struct tpl *t, size_t at, const char *what, struct rf_str near)
{
	rf_rb_fail(t->err, "template: template:%d: %s%.*s", line_of(t, at), what,
		   (int)RF_MIN(near.n, 100), near.p);
	return stop(t, RF_RB_ERROR);
}

static bool bad_run(struct expr *x, const char *what, struct rf_str about)
{
	struct tpl *t = x->t;
	size_t column = x->where;

	while (column > 0 && t->s.p[column - 1] != '\n')
		column--;
	rf_rb_fail(t->err, "template: template:%d:%zu: executing \"template\" at <%.*s>: %s%.*s",
		   line_of(t, x->where), x->where - column, (int)RF_MIN(x->s.n, 100), x->s.p, what,
		   (int)RF_MIN(about.n, 100), about.p);
	return stop(t, RF_RB_ERROR);
}

/* --- reading the template: a tree of blocks --- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct node *new_node(struct tpl *t, enum kind kind, struct rf_str text, size_t where)
{
	struct node *n = rf_arena_try(t->e->arena, sizeof(*n));

	if (n == NULL || !rf_rb_spend(t->e, 1)) {
		stop(t, RF_RB_FULL);
		return NULL;
	}
	*n = (struct node){ .kind = kind, .text = text, .where = where };
	return n;
}

/* Behind {{ : what is in the action, up to }}. Quotes may hold braces. */
static bool action(struct tpl *t, struct rf_str *ret, size_t *where)
{
	size_t from = t->at, to;
	char quote = 0;

	if (t->s.n - from >= 2 && t->s.p[from] == '-' && is_space(t->s.p[from + 1]))
		from++;
	while (from < t->s.n && is_space(t->s.p[from]))
		from++;
	if (rf_str_starts(rf_str_skip(t->s, from), RF_LIT("/*"))) {
		const char *end = memmem(t->s.p + from, t->s.n - from, "*/", 2);

		if (end == NULL)
			return bad_syntax(t, from, "unclosed comment", RF_STR_EMPTY);
		t->at = (size_t)(end - t->s.p) + 2;
	} else {
		t->at = from;
	}
	for (to = t->at; to + 1 < t->s.n; to++) {
		char c = t->s.p[to];

		if (quote != 0 && c == '\\' && quote != '`')
			to++;
		else if (quote != 0 && c == quote)
			quote = 0;
		else if (quote == 0 && (c == '"' || c == '`' || c == '\''))
			quote = c;
		else if (quote == 0 && c == '}' && t->s.p[to + 1] == '}')
			break;
	}
	if (to + 1 >= t->s.n)
		return bad_syntax(t, from, "unclosed action", RF_STR_EMPTY);
	t->trim = to - t->at >= 2 && t->s.p[to - 1] == '-' && is_space(t->s.p[to - 2]);
	*ret = rf_str_trim(rf_str_n(t->s.p + t->at, to - t->at - t->trim));
	*where = ret->n > 0 ? (size_t)(ret->p - t->s.p) : from;
	if (t->at != from) /* a comment, and nothing else */
		*ret = RF_STR_EMPTY;
	else if (ret->n == 0)
		return bad_syntax(t, from, "missing value for command", RF_STR_EMPTY);
	t->at = to + 2;
	return true;
}

/* Text up to the next action or the end; trimmed as the actions beside it say. */
static struct rf_str text_of(struct tpl *t)
{
	const char *open = memmem(t->s.p + t->at, t->s.n - t->at, "{{", 2);
	size_t to = open != NULL ? (size_t)(open - t->s.p) : t->s.n;
	struct rf_str s = rf_str_n(t->s.p + t->at, to - t->at);

	while (t->trim && s.n > 0 && is_space(s.p[0]))
		s = rf_str_skip(s, 1);
	if (open != NULL && to + 3 < t->s.n && open[2] == '-' && is_space(open[3]))
		while (s.n > 0 && is_space(s.p[s.n - 1]))
			s.n--;
	t->at = to;
	t->trim = false;
	return s;
}

/* Does the action start with this word? Gives what is behind. */
static bool starts_word(struct rf_str s, const char *word, struct rf_str *rest)
{
	size_t n = strlen(word);

	if (!rf_str_starts(s, rf_str(word)) || (s.n > n && !is_space(s.p[n]) && s.p[n] != '('))
		return false;
	*rest = rf_str_trim(rf_str_skip(s, n));
	return true;
}

static bool block(struct tpl *t, struct node **ret, bool in_loop, bool top);

/* if, with, range: the body, else, end. */
static bool control(struct tpl *t, enum kind kind, struct rf_str pipe, size_t where,
		    struct node **ret, bool in_loop)
{
	struct node *n = new_node(t, kind, pipe, where);
	struct rf_str rest;

	if (n == NULL)
		return false;
	*ret = n;
	if (pipe.n == 0)
		return bad_syntax(t, where, "missing value for block", RF_STR_EMPTY);
	n->where = (size_t)(pipe.p - t->s.p);
	if (!block(t, &n->body, in_loop || kind == RANGE, false))
		return false;
	if (rf_str_is(t->word, "end"))
		return true;
	if (starts_word(t->word, "else", &rest) && rest.n > 0) { /* else if x: one end for both */
		if (kind != RANGE && starts_word(rest, "if", &rest))
			return control(t, IF, rest, t->word_where, &n->other, in_loop);
		if (kind != RANGE && starts_word(rest, "with", &rest))
			return control(t, WITH, rest, t->word_where, &n->other, in_loop);
		return bad_syntax(t, t->word_where, "unexpected in else: ", rest);
	}
	if (!block(t, &n->other, in_loop, false))
		return false;
	if (!rf_str_is(t->word, "end"))
		return bad_syntax(t, t->word_where, "expected end; found ", t->word);
	return true;
}

static bool one_action(struct tpl *t, struct rf_str s, size_t where, struct node **ret,
		       bool in_loop)
{
	struct rf_str rest;

	if (starts_word(s, "if", &rest))
		return control(t, IF, rest, where, ret, in_loop);
	if (starts_word(s, "with", &rest))
		return control(t, WITH, rest, where, ret, in_loop);
	if (starts_word(s, "range", &rest))
		return control(t, RANGE, rest, where, ret, in_loop);
	if (starts_word(s, "define", &rest) || starts_word(s, "template", &rest) ||
	    starts_word(s, "block", &rest))
		return bad_syntax(t, where, "not supported: ", s);
	if (rf_str_is(s, "break") || rf_str_is(s, "continue")) {
		if (!in_loop)
			return bad_syntax(t, where, "outside {{range}}: ", s);
		*ret = new_node(t, rf_str_is(s, "break") ? BREAK : CONTINUE, s, where);
	} else {
		*ret = new_node(t, ACTION, s, where);
	}
	return *ret != NULL;
}

/* Nodes up to the word that ends the block, or to the end of the template at the top. */
static bool block(struct tpl *t, struct node **ret, bool in_loop, bool top)
{
	struct rf_str s, rest;
	size_t where = 0;

	if (++t->depth > MAX_DEPTH)
		return bad_syntax(t, t->at, "blocks are nested too deeply", RF_STR_EMPTY);
	for (;;) {
		s = text_of(t);
		if (s.n > 0) {
			*ret = new_node(t, TEXT, s, 0);
			if (*ret == NULL)
				return false;
			ret = &(*ret)->next;
		}
		if (t->at >= t->s.n)
			break;
		t->at += 2;
		if (!action(t, &s, &where))
			return false;
		if (s.n == 0)
			continue;
		if (rf_str_is(s, "end") || starts_word(s, "else", &rest)) {
			if (top)
				return bad_syntax(t, where,
						  s.p[1] == 'n' ? "unexpected {{end}}"
								: "unexpected {{else}}",
						  RF_STR_EMPTY);
			t->word = s;
			t->word_where = where;
			t->depth--;
			return true;
		}
		if (!one_action(t, s, where, ret, in_loop))
			return false;
		ret = &(*ret)->next;
	}
	t->depth--;
	return top || bad_syntax(t, t->at, "unexpected EOF", RF_STR_EMPTY);
}

/* --- values --- */

static struct rf_rv an_int(int64_t i)
{
	struct rf_rv v = rf_rv_int(i);

	v.tag = INT_TAG;
	return v;
}

static struct rf_rv missing(void)
{
	struct rf_rv v = RF_RV_NIL;

	v.tag = MISSING_TAG;
	return v;
}

static bool is_int(struct rf_rv v)
{
	return v.type == RF_RV_NUMBER && v.tag == INT_TAG;
}

static bool truth(struct rf_rv v)
{
	switch (v.type) {
	case RF_RV_NULL:
		return false;
	case RF_RV_BOOL:
		return v.b;
	case RF_RV_NUMBER:
		return !is_int(v) || v.i != 0;
	default:
		return v.n > 0;
	}
}

/* Go's %v of what JSON makes of it. */
static void print(struct rf_rb_out *o, struct rf_rv v, int depth)
{
	if (o->full || depth > 1000 || !rf_rb_spend(o->e, 1)) {
		o->full = true;
		return;
	}
	switch (v.type) {
	case RF_RV_NULL:
		rf_rb_out_add(o, RF_LIT("<nil>"));
		break;
	case RF_RV_ARRAY:
	case RF_RV_SET:
		rf_rb_out_c(o, '[');
		for (uint32_t i = 0; i < v.n && !o->full; i++) {
			if (i > 0)
				rf_rb_out_c(o, ' ');
			print(o, v.items[i], depth + 1);
		}
		rf_rb_out_c(o, ']');
		break;
	case RF_RV_OBJECT:
		rf_rb_out_add(o, RF_LIT("map["));
		for (uint32_t i = 0; i < v.n && !o->full; i++) {
			if (i > 0)
				rf_rb_out_c(o, ' ');
			print(o, v.pairs[i].key, depth + 1);
			rf_rb_out_c(o, ':');
			print(o, v.pairs[i].value, depth + 1);
		}
		rf_rb_out_c(o, ']');
		break;
	default:
		rf_rb_out_value(o, v);
	}
}

static const char *go_type(struct rf_rv v)
{
	static const char *const name[] = { "<nil>",	      "bool",
					    "json.Number",    "string",
					    "[]interface {}", "map[string]interface {}",
					    "[]interface {}" };

	return is_int(v) ? "int" : name[v.type];
}

/* --- pipelines --- */

static void skip_spaces(struct expr *x)
{
	while (x->at < x->s.n && is_space(x->s.p[x->at]))
		x->at++;
}

static char at(const struct expr *x)
{
	return x->at < x->s.n ? x->s.p[x->at] : '\0';
}

static bool is_name(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
	       (unsigned char)c >= 0x80;
}

static struct rf_str name(struct expr *x)
{
	size_t from = x->at;

	while (is_name(at(x)))
		x->at++;
	return rf_str_n(x->s.p + from, x->at - from);
}

static struct variable *variable(struct tpl *t, struct rf_str n)
{
	for (size_t i = t->n_vars; i-- > 0;)
		if (rf_str_eq(t->var[i].name, n))
			return &t->var[i];
	return NULL;
}

static bool declare(struct expr *x, struct rf_str n, struct rf_rv v)
{
	if (x->t->n_vars == MAX_VARIABLES)
		return bad_run(x, "too many variables", RF_STR_EMPTY);
	x->t->var[x->t->n_vars++] = (struct variable){ n, v };
	return true;
}

/* .a.b behind a value. */
static bool fields(struct expr *x, struct rf_rv *v)
{
	while (at(x) == '.' && x->at + 1 < x->s.n && is_name(x->s.p[x->at + 1])) {
		struct rf_str n;

		x->at++;
		n = name(x);
		if (v->type == RF_RV_NULL && v->tag == MISSING_TAG)
			continue;
		if (v->type == RF_RV_NULL)
			return bad_run(x, "nil pointer evaluating interface {}.", n);
		if (v->type != RF_RV_OBJECT) {
			char what[160];

			snprintf(what, sizeof(what),
				 "can't evaluate field %.*s in type interface {}",
				 (int)RF_MIN(n.n, 80), n.p);
			return bad_run(x, what, RF_STR_EMPTY);
		}
		if (!rf_rv_get_str(*v, n, v))
			*v = missing();
		else
			v->tag = 0;
	}
	return true;
}

static bool quoted(struct expr *x, struct rf_rv *ret)
{
	struct rf_str s = rf_str_skip(x->s, x->at);
	struct rf_err err = RF_ERR_INIT;
	size_t n = 1;

	while (n < s.n && s.p[n] != s.p[0])
		n += s.p[0] == '"' && s.p[n] == '\\' ? 2 : 1;
	if (n >= s.n)
		return bad_run(x, "unterminated quoted string", RF_STR_EMPTY);
	x->at += n + 1;
	if (s.p[0] == '`')
		*ret = rf_rv_str(rf_str_n(s.p + 1, n - 1));
	else if (rf_rv_parse_json(x->t->e->arena, rf_str_n(s.p, n + 1), ret, &err) < 0)
		return bad_run(x, "cannot read string ", rf_str_n(s.p, n + 1));
	return true;
}

static bool number(struct expr *x, struct rf_rv *ret)
{
	size_t from = x->at;
	struct rf_str s;
	int64_t i;

	while (at(x) == '-' || at(x) == '+' || at(x) == '.' || is_name(at(x)))
		x->at++;
	s = rf_str_n(x->s.p + from, x->at - from);
	if (rf_str_int(s, &i, NULL) < 0)
		return bad_run(x, "only whole numbers are supported, not ", s);
	*ret = an_int(i);
	return true;
}

static bool pipeline(struct expr *x, struct rf_rv *ret);

static bool parentheses(struct expr *x, struct rf_rv *ret)
{
	x->at++;
	if (++x->t->depth > MAX_DEPTH)
		return bad_run(x, "nested too deeply", RF_STR_EMPTY);
	if (!pipeline(x, ret))
		return false;
	x->t->depth--;
	if (at(x) != ')')
		return bad_run(x, "unclosed left paren", RF_STR_EMPTY);
	x->at++;
	return fields(x, ret);
}

static bool operand(struct expr *x, struct rf_rv *ret)
{
	char c = at(x);
	struct rf_str n;
	const struct variable *v;

	if (c == '(')
		return parentheses(x, ret);
	if (c == '"' || c == '`')
		return quoted(x, ret);
	if ((c >= '0' && c <= '9') || c == '-' || c == '+')
		return number(x, ret);
	if (c == '.') {
		*ret = x->dot;
		if (x->at + 1 == x->s.n || !is_name(x->s.p[x->at + 1])) {
			x->at++;
			return true;
		}
		return fields(x, ret);
	}
	if (c == '$') {
		x->at++;
		n = name(x);
		v = variable(x->t, n);
		if (v == NULL)
			return bad_run(x, "undefined variable: $", n);
		*ret = v->value;
		return fields(x, ret);
	}
	n = name(x);
	if (rf_str_is(n, "true") || rf_str_is(n, "false"))
		*ret = rf_rv_bool(n.p[0] == 't');
	else if (rf_str_is(n, "nil"))
		*ret = RF_RV_NIL;
	else
		return bad_run(x, "unexpected ",
			       n.n > 0 ? n : rf_str_n(x->s.p + x->at, x->at < x->s.n));
	return true;
}

/* --- functions --- */

/* What eq and lt may compare: the same kind on both sides. */
static bool comparable(struct expr *x, struct rf_str f, struct rf_rv a, struct rf_rv b)
{
	char what[160];
	bool text_a = a.type == RF_RV_STRING || (a.type == RF_RV_NUMBER && !is_int(a));
	bool text_b = b.type == RF_RV_STRING || (b.type == RF_RV_NUMBER && !is_int(b));

	if ((text_a && text_b) || (a.type == b.type && !text_a && !text_b))
		return true;
	snprintf(what, sizeof(what),
		 "error calling %.*s: incompatible types for comparison: %s and %s", RF_STR(f),
		 go_type(a), go_type(b));
	return bad_run(x, what, RF_STR_EMPTY);
}

static int compare(struct rf_rv a, struct rf_rv b)
{
	rf_auto(buf) s = RF_BUF_INIT;
	rf_auto(buf) t = RF_BUF_INIT;

	if (is_int(a) || (a.type != RF_RV_STRING && a.type != RF_RV_NUMBER))
		return rf_rv_cmp(a, b);
	if (a.type == RF_RV_NUMBER) {
		rf_rn_print(&s, a);
		a = rf_rv_str(rf_buf_str(&s));
	}
	if (b.type == RF_RV_NUMBER) {
		rf_rn_print(&t, b);
		b = rf_rv_str(rf_buf_str(&t));
	}
	return rf_rv_cmp(a, b);
}

static bool fn_compare(struct expr *x, struct rf_str f, const struct rf_rv *arg, size_t n,
		       struct rf_rv *ret)
{
	bool equal = rf_str_is(f, "eq") || rf_str_is(f, "ne"), yes = false;
	int c = 0;

	if (n < 2 || (n > 2 && !rf_str_is(f, "eq")))
		return bad_run(x, "wrong number of args for ", f);
	for (size_t i = 1; i < n && !yes; i++) {
		bool nil = equal && (arg[0].type == RF_RV_NULL || arg[i].type == RF_RV_NULL);

		if (!nil && !comparable(x, f, arg[0], arg[i]))
			return false;
		if (!nil && arg[0].type != RF_RV_STRING && arg[0].type != RF_RV_NUMBER &&
		    !(equal && arg[0].type == RF_RV_BOOL))
			return bad_run(x, "invalid type for comparison: ", rf_str(go_type(arg[0])));
		c = nil ? arg[0].type != arg[i].type : compare(arg[0], arg[i]);
		yes = c == 0;
	}
	if (rf_str_is(f, "ne"))
		yes = c != 0;
	else if (!equal)
		yes = f.p[0] == 'l' ? c < 0 || (c == 0 && f.p[1] == 'e')
				    : c > 0 || (c == 0 && f.p[1] == 'e');
	*ret = rf_rv_bool(yes);
	return true;
}

static bool fn_logic(struct expr *x, struct rf_str f, const struct rf_rv *arg, size_t n,
		     struct rf_rv *ret)
{
	size_t i = 0;

	if (n == 0 || (rf_str_is(f, "not") && n != 1))
		return bad_run(x, "wrong number of args for ", f);
	if (rf_str_is(f, "not")) {
		*ret = rf_rv_bool(!truth(arg[0]));
		return true;
	}
	while (i + 1 < n && truth(arg[i]) == rf_str_is(f, "and"))
		i++;
	*ret = arg[i];
	return true;
}

static bool fn_len(struct expr *x, struct rf_rv v, struct rf_rv *ret)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (v.type == RF_RV_NULL || v.type == RF_RV_BOOL || is_int(v))
		return bad_run(x, "error calling len: len of type ", rf_str(go_type(v)));
	if (v.type == RF_RV_NUMBER) { /* of its text */
		rf_rn_print(&b, v);
		v.n = (uint32_t)b.n;
	}
	*ret = an_int(v.n);
	return true;
}

static bool fn_index(struct expr *x, const struct rf_rv *arg, size_t n, struct rf_rv *ret)
{
	struct rf_rv v = arg[0];
	char what[80];

	for (size_t i = 1; i < n; i++) {
		if (v.type == RF_RV_OBJECT && arg[i].type == RF_RV_STRING) {
			if (!rf_rv_get_str(v, rf_rv_text(arg[i]), &v))
				v = missing();
		} else if ((v.type == RF_RV_ARRAY || v.type == RF_RV_SET) && is_int(arg[i])) {
			if (arg[i].i < 0 || arg[i].i >= (int64_t)v.n) {
				snprintf(what, sizeof(what),
					 "error calling index: index out of range: %lld",
					 (long long)arg[i].i);
				return bad_run(x, what, RF_STR_EMPTY);
			}
			v = v.items[arg[i].i];
		} else {
			return bad_run(x, "error calling index: can't index item of type ",
				       rf_str(go_type(v)));
		}
	}
	*ret = v;
	return true;
}

/* print puts a space between two that are no strings, println between all. */
static bool fn_print(struct expr *x, bool line, const struct rf_rv *arg, size_t n,
		     struct rf_rv *ret)
{
	rf_auto(rb_out) o = rf_rb_out_new(x->t->e);

	for (size_t i = 0; i < n; i++) {
		if (i > 0 &&
		    (line || (arg[i].type != RF_RV_STRING && arg[i - 1].type != RF_RV_STRING)))
			rf_rb_out_c(&o, ' ');
		print(&o, arg[i], 0);
	}
	if (line)
		rf_rb_out_c(&o, '\n');
	return rf_rb_out_str(&o, ret) == RF_RB_OK || stop(x->t, RF_RB_FULL);
}

/* A number of the object is text to Go, and a composite prints as Go prints it. */
static bool fn_printf(struct expr *x, const struct rf_rv *arg, size_t n, struct rf_rv *ret)
{
	rf_auto(rb_out) o = rf_rb_out_new(x->t->e);
	struct rf_rv as[MAX_ARGS];

	if (n == 0 || arg[0].type != RF_RV_STRING)
		return bad_run(x, "error calling printf: the format is not a string", RF_STR_EMPTY);
	for (size_t i = 1; i < n; i++) {
		as[i] = arg[i];
		if (arg[i].type == RF_RV_NULL)
			as[i].tag = RF_RB_NIL;
		else if (!is_int(arg[i]) && arg[i].type != RF_RV_STRING && arg[i].type != RF_RV_BOOL &&
		    !fn_print(x, false, &arg[i], 1, &as[i]))
			return false;
	}
	rf_rb_sprintf(&o, rf_rv_text(arg[0]), as + 1, n - 1);
	return rf_rb_out_str(&o, ret) == RF_RB_OK || stop(x->t, RF_RB_FULL);
}

static bool call(struct expr *x, struct rf_str f, const struct rf_rv *arg, size_t n,
		 struct rf_rv *ret)
{
	char what[100];

	if (rf_str_is(f, "eq") || rf_str_is(f, "ne") || rf_str_is(f, "lt") || rf_str_is(f, "le") ||
	    rf_str_is(f, "gt") || rf_str_is(f, "ge"))
		return fn_compare(x, f, arg, n, ret);
	if (rf_str_is(f, "and") || rf_str_is(f, "or") || rf_str_is(f, "not"))
		return fn_logic(x, f, arg, n, ret);
	if (rf_str_is(f, "len") && n == 1)
		return fn_len(x, arg[0], ret);
	if (rf_str_is(f, "index") && n >= 1)
		return fn_index(x, arg, n, ret);
	if (rf_str_is(f, "print") || rf_str_is(f, "println"))
		return fn_print(x, f.n > 5, arg, n, ret);
	if (rf_str_is(f, "printf"))
		return fn_printf(x, arg, n, ret);
	snprintf(what, sizeof(what), "function \"%.*s\" not defined", (int)RF_MIN(f.n, 60), f.p);
	return bad_run(x, what, RF_STR_EMPTY);
}

static bool is_function(struct rf_str n)
{
	return n.n > 0 && (n.p[0] | 0x20) >= 'a' && (n.p[0] | 0x20) <= 'z' &&
	       !rf_str_is(n, "true") && !rf_str_is(n, "false") && !rf_str_is(n, "nil");
}

/* One command; piped: the value before the |, which comes last among the operands. */
static bool command(struct expr *x, const struct rf_rv *piped, struct rf_rv *ret)
{
	struct rf_rv arg[MAX_ARGS];
	size_t n = 0, from = x->at;
	struct rf_str f;

	if (!rf_rb_spend(x->t->e, 4))
		return stop(x->t, RF_RB_FULL);
	f = name(x);
	if (!is_function(f)) {
		x->at = from;
		if (piped != NULL)
			return bad_run(x, "non executable command in pipeline", RF_STR_EMPTY);
		return operand(x, ret);
	}
	for (;;) {
		skip_spaces(x);
		if (x->at == x->s.n || at(x) == '|' || at(x) == ')')
			break;
		if (n + 2 > MAX_ARGS)
			return bad_run(x, "too many operands", RF_STR_EMPTY);
		if (!operand(x, &arg[n++]))
			return false;
	}
	if (piped != NULL)
		arg[n++] = *piped;
	return call(x, f, arg, n, ret);
}

static bool pipeline(struct expr *x, struct rf_rv *ret)
{
	bool first = true;

	for (;;) {
		struct rf_rv before = first ? RF_RV_NIL : *ret;

		skip_spaces(x);
		if (!command(x, first ? NULL : &before, ret))
			return false;
		first = false;
		skip_spaces(x);
		if (at(x) != '|')
			return true;
		x->at++;
	}
}

/* $a := or $a, $b := or $a = before a pipeline. */
struct target {
	struct rf_str name[2];
	int n;
	bool declares;
};

static void targets(struct expr *x, struct target *g)
{
	size_t from = x->at;

	*g = (struct target){ 0 };
	while (at(x) == '$' && g->n < 2) {
		x->at++;
		g->name[g->n++] = name(x);
		skip_spaces(x);
		if (at(x) == ',' && g->n < 2) {
			x->at++;
			skip_spaces(x);
			continue;
		}
		g->declares = at(x) == ':';
		x->at += g->declares;
		if (at(x) == '=') {
			x->at++;
			return;
		}
		break;
	}
	x->at = from;
	g->n = 0;
}

static bool assign(struct expr *x, const struct target *g, int i, struct rf_rv v)
{
	struct variable *old;

	if (g->declares)
		return declare(x, g->name[i], v);
	old = variable(x->t, g->name[i]);
	if (old == NULL)
		return bad_run(x, "undefined variable: $", g->name[i]);
	old->value = v;
	return true;
}

static bool evaluate(struct tpl *t, const struct node *n, struct rf_rv dot, struct target *g,
		     struct rf_rv *ret)
{
	struct expr x = { .t = t, .s = n->text, .where = n->where, .dot = dot };

	t->depth = 0;
	targets(&x, g);
	if (g->n == 2 && n->kind != RANGE)
		return bad_run(&x, "too many declarations", RF_STR_EMPTY);
	if (!pipeline(&x, ret))
		return false;
	if (x.at != x.s.n)
		return bad_run(&x, "unexpected ", rf_str_skip(x.s, x.at));
	return n->kind == RANGE || g->n == 0 || assign(&x, g, 0, *ret);
}

/* --- running --- */

static bool execute(struct tpl *t, const struct node *n, struct rf_rv dot);

static bool range_over(struct tpl *t, const struct node *n, const struct target *g, struct rf_rv v)
{
	struct expr x = { .t = t, .s = n->text, .where = n->where };
	size_t outer = t->n_vars;
	int64_t rounds = is_int(v) ? v.i : v.n;

	for (int64_t i = 0; i < rounds; i++) {
		struct rf_rv key = v.type == RF_RV_OBJECT ? v.pairs[i].key : an_int(i);
		struct rf_rv item = v.type == RF_RV_OBJECT ? v.pairs[i].value
				    : is_int(v)		   ? an_int(i)
							   : v.items[i];

		if (!rf_rb_spend(t->e, 1))
			return stop(t, RF_RB_FULL);
		t->n_vars = outer;
		item.tag = is_int(v) ? INT_TAG : 0;
		if ((g->n == 2 && (!assign(&x, g, 0, key) || !assign(&x, g, 1, item))) ||
		    (g->n == 1 && !assign(&x, g, 0, item)) || !execute(t, n->body, item))
			return false;
		if (t->leaving == BREAK)
			break;
		t->leaving = TEXT;
	}
	t->leaving = TEXT;
	return true;
}

static bool run_range(struct tpl *t, const struct node *n, struct rf_rv dot)
{
	struct expr x = { .t = t, .s = n->text, .where = n->where };
	struct target g;
	struct rf_rv v = RF_RV_NIL;

	if (!evaluate(t, n, dot, &g, &v))
		return false;
	if (v.type != RF_RV_ARRAY && v.type != RF_RV_SET && v.type != RF_RV_OBJECT &&
	    v.type != RF_RV_NULL && !is_int(v))
		return bad_run(&x, "range can't iterate over ",
			       v.type == RF_RV_STRING ? rf_rv_text(v) : rf_str(go_type(v)));
	if (is_int(v) ? v.i <= 0 : v.type == RF_RV_NULL || v.n == 0)
		return execute(t, n->other, dot);
	return range_over(t, n, &g, v);
}

static bool run_action(struct tpl *t, const struct node *n, struct rf_rv dot)
{
	struct target g;
	struct rf_rv v = RF_RV_NIL;

	if (!evaluate(t, n, dot, &g, &v))
		return false;
	if (g.n > 0)
		return true;
	if (v.type == RF_RV_NULL)
		rf_rb_out_add(t->o, RF_LIT("<undefined>"));
	else
		print(t->o, v, 0);
	return true;
}

static bool run_node(struct tpl *t, const struct node *n, struct rf_rv dot)
{
	size_t outer = t->n_vars;
	struct target g;
	struct rf_rv v = RF_RV_NIL;
	bool ok;

	switch (n->kind) {
	case TEXT:
		rf_rb_out_add(t->o, n->text);
		return true;
	case ACTION:
		return run_action(t, n, dot);
	case BREAK:
	case CONTINUE:
		t->leaving = n->kind;
		return true;
	case RANGE:
		ok = run_range(t, n, dot);
		break;
	default:
		ok = evaluate(t, n, dot, &g, &v) &&
		     (truth(v) ? execute(t, n->body, n->kind == WITH ? v : dot)
			       : execute(t, n->other, dot));
	}
	t->n_vars = outer;
	return ok;
}

static bool execute(struct tpl *t, const struct node *n, struct rf_rv dot)
{
	for (; n != NULL && t->leaving == TEXT; n = n->next) {
		if (!rf_rb_spend(t->e, 1) || t->o->full)
			return stop(t, RF_RB_FULL);
		if (!run_node(t, n, dot))
			return false;
	}
	return true;
}

enum rf_rb_result rf_rb_template(struct rf_rb_out *o, struct rf_str text, struct rf_rv vars,
				 struct rf_err *err)
{
	struct tpl t = {
		.o = o, .e = o->e, .err = err, .s = text, .result = RF_RB_OK, .leaving = TEXT
	};
	struct node *root = NULL;

	vars.tag = 0;
	t.var[t.n_vars++] = (struct variable){ RF_STR_EMPTY, vars }; /* $ */
	if (block(&t, &root, false, true) && execute(&t, root, vars) && o->full)
		stop(&t, RF_RB_FULL);
	return t.result;
}
