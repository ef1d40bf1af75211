/* Label selectors, read as Kubernetes reads them: keys and values are identifiers between the
 * symbols = ! ( ) , < > and white space; "in" and "notin" are operators where one is due and names
 * elsewhere. */
#include "kube/selector.h"

enum token { T_END, T_NAME, T_COMMA, T_OPEN, T_CLOSE, T_NOT, T_EQ, T_EQEQ, T_NE, T_GT, T_LT };

struct lexer {
	struct rf_str rest;
	enum token token; /* the one looked at */
	struct rf_str text;
	struct rf_selector *sel;
	struct rf_err *err;
};

static const struct {
	const char *text;
	enum token token;
} SYMBOLS[] = {
	/* longest first */
	{ "==", T_EQEQ }, { "!=", T_NE },   { "=", T_EQ }, { "!", T_NOT }, { "(", T_OPEN },
	{ ")", T_CLOSE }, { ",", T_COMMA }, { ">", T_GT }, { "<", T_LT },
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool ends_name(char c)
{
	return is_space(c) || memchr("=!(),<>", c, 7) != NULL;
}

static void take_token(struct lexer *l, enum token token, size_t n)
{
	l->token = token;
	l->text = rf_str_n(l->rest.p, n);
	l->rest = rf_str_skip(l->rest, n);
}

static void advance(struct lexer *l)
{
	size_t n = 0;

	while (l->rest.n > 0 && is_space(l->rest.p[0]))
		l->rest = rf_str_skip(l->rest, 1);
	if (l->rest.n == 0) {
		take_token(l, T_END, 0);
		return;
	}
	for (size_t i = 0; i < RF_COUNT(SYMBOLS); i++) {
		if (rf_str_starts(l->rest, rf_str(SYMBOLS[i].text))) {
			take_token(l, SYMBOLS[i].token, strlen(SYMBOLS[i].text));
			return;
		}
	}
	while (n < l->rest.n && !ends_name(l->rest.p[n]))
		n++;
	take_token(l, T_NAME, n);
}

static int unexpected(struct lexer *l, const char *expected)
{
	return rf_fail(l->err, RF_BAD_REQUEST,
		       "unable to parse requirement: found '%.*s', expected: %s",
		       (int)RF_MIN(l->text.n, (size_t)256), l->text.p, expected);
}

static int check_key(struct rf_str key, struct rf_err *err)
{
	if (rf_str_is_label_key(key))
		return 0;
	return rf_fail(
		err, RF_BAD_REQUEST,
		"key: Invalid value: \"%.*s\": a label key is [prefix/]name: a DNS subdomain, and "
		"at most 63 of letters, digits, '-', '_' and '.', beginning and ending with a "
		"letter or digit",
		(int)RF_MIN(key.n, (size_t)256), key.p);
}

static int check_value(struct rf_str key, struct rf_str value, struct rf_err *err)
{
	if (rf_str_is_label_value(value))
		return 0;
	return rf_fail(
		err, RF_BAD_REQUEST,
		"values[%.*s]: Invalid value: \"%.*s\": a label value is empty or at most 63 of "
		"letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
		RF_STR(key), (int)RF_MIN(value.n, (size_t)256), value.p);
}

static int add_value(struct lexer *l, struct rf_selector_term *t, struct rf_str value)
{
	if (check_value(t->key, value, l->err) < 0)
		return -l->err->code;
	return rf_selector_add_value(l->sel, t, value, l->err);
}

/* "(a,b)"; a value may be empty: "(,a)". */
static int parse_value_list(struct lexer *l, struct rf_selector_term *t)
{
	if (l->token != T_OPEN)
		return unexpected(l, "'('");
	do {
		struct rf_str value = RF_STR_EMPTY;

		advance(l);
		if (l->token == T_NAME) {
			value = l->text;
			advance(l);
		}
		if (l->token != T_COMMA && l->token != T_CLOSE)
			return unexpected(l, value.n > 0 ? "',' or ')'" : "',', ')' or identifier");
		if (add_value(l, t, value) < 0)
			return -l->err->code;
	} while (l->token == T_COMMA);
	advance(l);
	return 0;
}

static int parse_one_value(struct lexer *l, struct rf_selector_term *t)
{
	struct rf_str value = RF_STR_EMPTY;

	if (l->token == T_NAME) {
		value = l->text;
		advance(l);
	} else if (l->token != T_END && l->token != T_COMMA) {
		return unexpected(l, "identifier");
	}
	if (t->op != RF_SEL_GREATER && t->op != RF_SEL_LESS)
		return add_value(l, t, value);
	if (rf_str_int(value, &t->bound, NULL) < 0)
		return rf_fail(
			l->err, RF_BAD_REQUEST,
			"values[0]: Invalid value: \"%.*s\": for 'Gt', 'Lt' operators, the value "
			"must be an integer",
			(int)RF_MIN(value.n, (size_t)64), value.p);
	return 0;
}

static bool operator_at(const struct lexer *l, enum rf_selector_op *ret)
{
	switch (l->token) {
	case T_EQ:
	case T_EQEQ:
		*ret = RF_SEL_IN;
		return true;
	case T_NE:
		*ret = RF_SEL_NOT_IN;
		return true;
	case T_GT:
		*ret = RF_SEL_GREATER;
		return true;
	case T_LT:
		*ret = RF_SEL_LESS;
		return true;
	case T_NAME:
		*ret = rf_str_is(l->text, "in") ? RF_SEL_IN : RF_SEL_NOT_IN;
		return rf_str_is(l->text, "in") || rf_str_is(l->text, "notin");
	default:
		return false;
	}
}

static int parse_requirement(struct lexer *l)
{
	struct rf_selector_term *t;
	bool negated = l->token == T_NOT, list;

	if (rf_selector_add(l->sel, &t, l->err) < 0)
		return -l->err->code;
	if (negated)
		advance(l);
	if (l->token != T_NAME)
		return unexpected(l, "identifier");
	if (check_key(l->text, l->err) < 0)
		return -l->err->code;
	t->key = rf_arena_str(l->sel->a, l->text);
	advance(l);
	if (negated || l->token == T_END || l->token == T_COMMA) {
		t->op = negated ? RF_SEL_NOT_EXISTS : RF_SEL_EXISTS;
		return 0;
	}
	if (!operator_at(l, &t->op))
		return unexpected(l, "in, notin, =, ==, !=, gt, lt");
	list = l->token == T_NAME;
	advance(l);
	return list ? parse_value_list(l, t) : parse_one_value(l, t);
}

int rf_label_selector_parse(struct rf_arena *a, struct rf_str text, struct rf_selector **ret,
			    struct rf_err *err)
{
	struct rf_err local = RF_ERR_INIT;
	struct lexer l = { .rest = text, .sel = rf_selector_new(a), .err = err ? err : &local };

	if (rf_selector_check_length(text, l.err) < 0)
		return -l.err->code;
	advance(&l);
	while (l.token != T_END) {
		if (l.token != T_NAME && l.token != T_NOT)
			return unexpected(&l, "!, identifier, or 'end of string'");
		if (parse_requirement(&l) < 0)
			return -l.err->code;
		if (l.token == T_END)
			break;
		if (l.token != T_COMMA)
			return unexpected(&l, "',' or 'end of string'");
		advance(&l);
		if (l.token != T_NAME && l.token != T_NOT)
			return unexpected(&l, "identifier after ','");
	}
	*ret = l.sel;
	return 0;
}

/* --- metav1.LabelSelector --------------------------------------------------------------------- */

static int add_match_label(struct rf_selector *s, const struct rf_json_member *m,
			   struct rf_err *err)
{
	struct rf_selector_term *t;

	if (m->value->type != RF_JSON_STRING)
		return rf_fail(err, RF_INVALID, "matchLabels[%.*s]: must be a string",
			       (int)RF_MIN(m->key.n, (size_t)256), m->key.p);
	if (rf_selector_add(s, &t, err) < 0 || check_key(m->key, err) < 0 ||
	    check_value(m->key, m->value->text, err) < 0)
		return -err->code;
	t->op = RF_SEL_IN;
	t->key = rf_arena_str(s->a, m->key);
	return rf_selector_add_value(s, t, m->value->text, err);
}

static bool expression_op(struct rf_str name, enum rf_selector_op *ret)
{
	static const struct {
		const char *name;
		enum rf_selector_op op;
	} OPS[] = { { "In", RF_SEL_IN },
		    { "NotIn", RF_SEL_NOT_IN },
		    { "Exists", RF_SEL_EXISTS },
		    { "DoesNotExist", RF_SEL_NOT_EXISTS } };

	for (size_t i = 0; i < RF_COUNT(OPS); i++) {
		if (rf_str_is(name, OPS[i].name)) {
			*ret = OPS[i].op;
			return true;
		}
	}
	return false;
}

static int add_expression_values(struct rf_selector *s, struct rf_selector_term *t,
				 const struct rf_json *values, struct rf_err *err)
{
	bool wants = t->op == RF_SEL_IN || t->op == RF_SEL_NOT_IN;

	if (wants && rf_json_len(values) == 0)
		return rf_fail(err, RF_INVALID,
			       "values: Invalid value: []: for 'in', 'notin' operators, values set "
			       "can't be "
			       "empty");
	if (!wants && rf_json_len(values) > 0)
		return rf_fail(
			err, RF_INVALID,
			"values: Invalid value: values set must be empty for exists and does not "
			"exist");
	for (size_t i = 0; i < rf_json_len(values); i++) {
		const struct rf_json *v = rf_json_item(values, i);

		if (!rf_json_is(v, RF_JSON_STRING))
			return rf_fail(err, RF_INVALID, "values[%zu]: must be a string", i);
		if (check_value(t->key, v->text, err) < 0 ||
		    rf_selector_add_value(s, t, v->text, err) < 0)
			return -err->code;
	}
	return 0;
}

static int add_expression(struct rf_selector *s, const struct rf_json *e, struct rf_err *err)
{
	struct rf_str op = rf_json_str_at(e, "operator"), key = rf_json_str_at(e, "key");
	struct rf_selector_term *t;

	if (rf_selector_add(s, &t, err) < 0)
		return -err->code;
	if (!expression_op(op, &t->op))
		return rf_fail(
			err, RF_INVALID,
			"\"%.*s\" is not a valid label selector operator: In, NotIn, Exists and "
			"DoesNotExist are",
			(int)RF_MIN(op.n, (size_t)64), op.p);
	if (check_key(key, err) < 0)
		return -err->code;
	t->key = rf_arena_str(s->a, key);
	return add_expression_values(s, t, rf_json_at(e, "values"), err);
}

static bool absent_or(const struct rf_json *v, enum rf_json_type type)
{
	return v == NULL || v->type == RF_JSON_NULL || v->type == type;
}

static int fill_from(struct rf_selector *s, const struct rf_json *selector, struct rf_err *err)
{
	const struct rf_json *labels = rf_json_at(selector, "matchLabels");
	const struct rf_json *expressions = rf_json_at(selector, "matchExpressions");

	if (!absent_or(selector, RF_JSON_OBJECT) || !absent_or(labels, RF_JSON_OBJECT) ||
	    !absent_or(expressions, RF_JSON_ARRAY))
		return rf_fail(err, RF_INVALID,
			       "label selector: want an object with matchLabels (an object) and "
			       "matchExpressions (a list)");
	for (size_t i = 0; i < rf_json_len(labels); i++)
		if (add_match_label(s, &labels->members[i], err) < 0)
			return rf_wrap(err, "matchLabels");
	for (size_t i = 0; i < rf_json_len(expressions); i++)
		if (add_expression(s, rf_json_item(expressions, i), err) < 0)
			return rf_wrap(err, "matchExpressions[%zu]", i);
	return 0;
}

int rf_label_selector_from(struct rf_arena *a, const struct rf_json *selector,
			   struct rf_selector **ret, struct rf_err *err)
{
	struct rf_err local = RF_ERR_INIT;
	struct rf_selector *s = rf_selector_new(a);

	if (err == NULL)
		err = &local;
	if (fill_from(s, selector, err) < 0) {
		/* In an object, a bad key or value is a bad field, not bad syntax. */
		if (err->code == RF_BAD_REQUEST)
			err->code = RF_INVALID;
		return -err->code;
	}
	*ret = s;
	return 0;
}

/* --- matching --------------------------------------------------------------------------------- */

static bool has_value(const struct rf_selector_term *t, struct rf_str value)
{
	for (size_t i = 0; i < t->n_values; i++)
		if (rf_str_eq(t->values[i], value))
			return true;
	return false;
}

static bool term_holds(const struct rf_selector_term *t, const struct rf_json *labels)
{
	const struct rf_json *label = rf_json_get(labels, t->key);
	bool present = label != NULL;
	int64_t n = 0;

	switch (t->op) {
	case RF_SEL_EXISTS:
		return present;
	case RF_SEL_NOT_EXISTS:
		return !present;
	case RF_SEL_EQUALS:
	case RF_SEL_IN:
		return present && has_value(t, rf_json_str(label));
	case RF_SEL_NOT_EQUALS:
	case RF_SEL_NOT_IN:
		return !present || !has_value(t, rf_json_str(label));
	case RF_SEL_GREATER:
		return present && rf_str_int(rf_json_str(label), &n, NULL) == 0 && n > t->bound;
	case RF_SEL_LESS:
		return present && rf_str_int(rf_json_str(label), &n, NULL) == 0 && n < t->bound;
	}
	return false;
}

bool rf_label_selector_match(const struct rf_selector *s, const struct rf_json *labels)
{
	for (size_t i = 0; i < s->n; i++)
		if (!term_holds(&s->terms[i], labels))
			return false;
	return true;
}
