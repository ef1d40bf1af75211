/* Field selectors: "metadata.name=a,status.phase!=Failed". In values, backslash makes a comma, an
 * equals sign or a backslash ordinary. */
#include "kube/selector.h"

static int bad_term(struct rf_str text, struct rf_str term, struct rf_err *err)
{
	return rf_fail(err, RF_BAD_REQUEST, "invalid selector: '%.*s'; can't understand '%.*s'",
		       (int)RF_MIN(text.n, (size_t)256), text.p, (int)RF_MIN(term.n, (size_t)256),
		       term.p);
}

/* Takes the text up to the next comma that is not escaped. */
static struct rf_str next_term(struct rf_str *rest)
{
	size_t i = 0;
	struct rf_str term;

	while (i < rest->n && rest->p[i] != ',')
		i += rest->p[i] == '\\' ? 2 : 1;
	i = RF_MIN(i, rest->n);
	term = rf_str_n(rest->p, i);
	*rest = rf_str_skip(*rest, i + 1);
	return term;
}

static bool split_term(struct rf_str term, struct rf_selector_term *t, struct rf_str *ret_value)
{
	for (size_t i = 0; i < term.n; i++) {
		struct rf_str rest = rf_str_skip(term, i);
		size_t op = rf_str_starts(rest, RF_LIT("!=")) || rf_str_starts(rest, RF_LIT("=="))
				    ? 2
			    : rest.p[0] == '=' ? 1
					       : 0;

		if (op == 0)
			continue;
		t->key = rf_str_n(term.p, i);
		t->op = rest.p[0] == '!' ? RF_SEL_NOT_EQUALS : RF_SEL_EQUALS;
		*ret_value = rf_str_skip(rest, op);
		return i > 0;
	}
	return false;
}

static int unescape(struct rf_buf *out, struct rf_str s, struct rf_err *err)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == ',' || c == '=')
			return rf_fail(err, RF_BAD_REQUEST,
				       "invalid field selector: unescaped character in value: %c",
				       c);
		if (c == '\\') {
			c = ++i < s.n ? s.p[i] : '\0';
			if (c != '\\' && c != ',' && c != '=')
				return rf_fail(
					err, RF_BAD_REQUEST,
					"invalid field selector: only \\\\, \\, and \\= may follow "
					"a backslash");
		}
		rf_buf_add_c(out, c);
	}
	return 0;
}

static int parse_term(struct rf_selector *s, struct rf_str text, struct rf_str part,
		      struct rf_err *err)
{
	rf_auto(buf) value = RF_BUF_INIT;
	struct rf_selector_term *t;
	struct rf_str raw;

	if (rf_selector_add(s, &t, err) < 0)
		return -err->code;
	if (!split_term(part, t, &raw))
		return bad_term(text, part, err);
	if (unescape(&value, raw, err) < 0)
		return -err->code;
	t->key = rf_arena_str(s->a, t->key);
	return rf_selector_add_value(s, t, rf_buf_str(&value), err);
}

int rf_field_selector_parse(struct rf_arena *a, struct rf_str text, struct rf_selector **ret,
			    struct rf_err *err)
{
	struct rf_err local = RF_ERR_INIT;
	struct rf_selector *s = rf_selector_new(a);
	struct rf_str rest = text;

	if (err == NULL)
		err = &local;
	if (rf_selector_check_length(text, err) < 0)
		return -err->code;
	while (rest.n > 0) {
		struct rf_str part = next_term(&rest);

		if (part.n > 0 && parse_term(s, text, part, err) < 0)
			return -err->code;
	}
	*ret = s;
	return 0;
}

static struct rf_str field_value(const struct rf_json *object, struct rf_str field)
{
	const struct rf_json *v = object;
	struct rf_str rest = field, name;
	bool more = true;

	while (more && v != NULL) {
		more = rf_str_cut(&rest, '.', &name);
		v = rf_json_get(v, name);
	}
	if (rf_json_is(v, RF_JSON_STRING) || rf_json_is(v, RF_JSON_NUMBER))
		return v->text;
	if (rf_json_is(v, RF_JSON_BOOL))
		return v->boolean ? RF_LIT("true") : RF_LIT("false");
	/* The one boolean among Kubernetes' selectable fields: absent means false. */
	return rf_str_is(field, "spec.unschedulable") ? RF_LIT("false") : RF_STR_EMPTY;
}

bool rf_field_selector_match(const struct rf_selector *s, const struct rf_json *object)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct rf_selector_term *t = &s->terms[i];
		bool equal = rf_str_eq(field_value(object, t->key), t->values[0]);

		if (equal != (t->op == RF_SEL_EQUALS))
			return false;
	}
	return true;
}
