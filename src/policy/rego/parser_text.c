/* Numbers, strings and templates: what their text means. */
#include "policy/rego/number.h"
#include "policy/rego/parser.h"
#include "codec/utf8.h"

/* --- numbers --------------------------------------------------------------------------------- */

/* Past this many decimal places numbers are refused: 2^100000, as OPA does. */
#define PLACES_MAX 30103

static bool too_big(struct rf_str s)
{
	int64_t places = 0, exponent = 0;
	bool point = false, any = false, negative = false;
	size_t i = 0;

	for (; i < s.n && s.p[i] != 'e' && s.p[i] != 'E'; i++) {
		if (s.p[i] == '.')
			point = true;
		else if (s.p[i] != '-' && s.p[i] != '0')
			any = true;
		if (s.p[i] == '.' || s.p[i] == '-')
			continue;
		if (any && !point)
			places++;
		else if (!any && point)
			places--;
	}
	for (i++; i < s.n; i++) {
		if (s.p[i] == '-')
			negative = true;
		else if (s.p[i] != '+' && exponent < 1000000000)
			exponent = exponent * 10 + (s.p[i] - '0');
	}
	places += negative ? -exponent : exponent;
	return any && (places > PLACES_MAX || places < -PLACES_MAX);
}

static bool leading_zero(struct rf_str s)
{
	return s.n > 1 && s.p[0] == '0' && s.p[1] != '.' && s.p[1] != 'e' && s.p[1] != 'E';
}

/* Empty: no memory. */
static struct rf_str joined(struct rf_rp *p, const char *sign, const char *point,
			    struct rf_str text)
{
	size_t n = strlen(sign) + strlen(point);
	char *out;

	if (n == 0)
		return text;
	out = rf_rp_alloc(p, n + text.n);
	if (out == NULL)
		return RF_STR_EMPTY;
	memcpy(out, sign, strlen(sign));
	memcpy(out + strlen(sign), point, strlen(point));
	memcpy(out + n, text.p, text.n);
	return rf_str_n(out, n + text.n);
}

struct rf_ra_term *rf_rp_read_number(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	const char *sign = "", *point = "";
	struct rf_ra_term *t;
	struct rf_str text;

	if (p->s.tok == RF_T_SUB) {
		sign = "-";
		rf_rp_scan(p);
	}
	if (p->s.tok == RF_T_DOT) {
		point = "0.";
		rf_rp_scan(p);
	}
	if (p->s.tok != RF_T_NUMBER)
		return rf_rp_unexpected(p, "expected number");
	text = rf_rp_text(p);
	if (point[0] == '\0' && leading_zero(text))
		return rf_rp_unexpected(p, "expected number without leading zero");
	if (point[0] != '\0' && memchr(text.p, '.', text.n) != NULL)
		return rf_rp_unexpected(p, "invalid float");
	text = joined(p, sign, point, text);
	if (text.n == 0)
		return NULL;
	if (too_big(text))
		return rf_rp_fail(p, p->s.loc, "number too big");
	rf_rp_scan(p);
	t = rf_rp_make(p, RF_RA_VALUE, rf_rp_span(p, start));
	if (t != NULL && !rf_rn_parse(p->a, text, &t->value))
		return rf_rp_full(p);
	return t;
}

/* --- strings --------------------------------------------------------------------------------- */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits of \uXXXX; -1: they are none. */
static int32_t code_unit(struct rf_str s, size_t at)
{
	int32_t u = 0;

	if (at + 4 > s.n)
		return -1;
	for (size_t i = 0; i < 4; i++) {
		int h = hex(s.p[at + i]);

		if (h < 0)
			return -1;
		u = u << 4 | h;
	}
	return u;
}

/* At the u of \u; moves *at behind it. Halves of pairs alone become U+FFFD, as in Go's JSON. */
static bool unicode(struct rf_str s, size_t *at, char *out, size_t *n)
{
	int32_t u = code_unit(s, *at + 1), low;

	if (u < 0)
		return false;
	*at += 5;
	if (u >= 0xd800 && u < 0xdc00 && *at + 1 < s.n && s.p[*at] == '\\' && s.p[*at + 1] == 'u') {
		low = code_unit(s, *at + 2);
		if (low >= 0xdc00 && low < 0xe000) {
			u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
			*at += 6;
		}
	}
	if (u >= 0xd800 && u < 0xe000)
		u = 0xfffd;
	*n += rf_utf8_put(out + *n, (uint32_t)u);
	return true;
}

/* What stands between the quotes into out, which has room for it. */
static bool unescape(struct rf_str s, char *out, size_t *ret_n)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	size_t n = 0;

	for (size_t i = 0; i < s.n;) {
		const char *c;

		if ((unsigned char)s.p[i] < 0x20)
			return false;
		if (s.p[i] != '\\') {
			out[n++] = s.p[i++];
			continue;
		}
		i++;
		if (i >= s.n)
			return false;
		if (s.p[i] == 'u') {
			if (!unicode(s, &i, out, &n))
				return false;
			continue;
		}
		c = strchr(from, s.p[i]);
		out[n++] = c ? to[c - from] : s.p[i]; /* \\ \" \/ \{ */
		i++;
	}
	*ret_n = n;
	return true;
}

/* raw: only \{ of templates is taken apart. */
static void unescape_raw(struct rf_str s, char *out, size_t *ret_n)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' && i + 1 < s.n && s.p[i + 1] == '{')
			continue;
		out[n++] = s.p[i];
	}
	*ret_n = n;
}

/* A string value of what stands in s; what to say if it is none. */
static struct rf_ra_term *text_value(struct rf_rp *p, struct rf_str s, bool raw, const char *what)
{
	struct rf_ra_loc loc = p->s.loc;
	char *out;
	size_t n = 0;

	if (memchr(s.p, '\\', s.n) == NULL)
		return rf_rp_string(p, s, loc);
	out = rf_rp_alloc(p, s.n);
	if (out == NULL)
		return NULL;
	if (raw)
		unescape_raw(s, out, &n);
	else if (!unescape(s, out, &n))
		return rf_rp_fail(p, loc, "illegal %s: %.*s", what, (int)loc.n, p->src.p + loc.at);
	return rf_rp_string(p, rf_str_n(out, n), loc);
}

struct rf_ra_term *rf_rp_read_string(struct rf_rp *p)
{
	struct rf_str all = rf_rp_text(p), inside = rf_str_n(all.p + 1, all.n - 2);
	struct rf_ra_term *t;

	if (all.p[0] == '`')
		t = rf_rp_string(p, inside, p->s.loc);
	else
		t = text_value(p, inside, false, "string literal");
	if (t != NULL)
		rf_rp_scan(p);
	return t;
}

/* --- templates ------------------------------------------------------------------------------- */

/* Text up to { or the end; skip: bytes of the token before it, $" or nothing behind a }. */
static bool template_text(struct rf_rp *p, size_t skip, bool raw)
{
	struct rf_str s = rf_str_skip(rf_rp_text(p), skip);
	struct rf_ra_term *t;

	s.n--;
	if (s.n == 0)
		return true;
	t = text_value(p, s, raw, "template-string part");
	if (t == NULL)
		return false;
	rf_vec_push(&p->stack, t);
	return true;
}

static const char *not_for_templates(const struct rf_ra_expr *e)
{
	if (e->negated || e->kind == RF_RA_EXPR_NOT_BODY)
		return "negation ('not')";
	if (e->kind == RF_RA_EXPR_EVERY)
		return "'every'";
	if (e->kind == RF_RA_EXPR_SOME || e->kind == RF_RA_EXPR_SOME_IN)
		return "'some'";
	if (e->kind != RF_RA_EXPR_TERM)
		return "logic operator";
	if (e->term->kind != RF_RA_CALL || !e->term->infix || e->term->item[0]->kind != RF_RA_VAR)
		return NULL;
	if (rf_str_is(e->term->item[0]->name, "eq"))
		return "unification ('=')";
	return rf_str_is(e->term->item[0]->name, "assign") ? "assignment (':=')" : NULL;
}

static bool template_expr(struct rf_rp *p)
{
	struct rf_ra_expr *e;
	struct rf_ra_term *t;

	rf_rp_scan(p);
	e = rf_rp_literal(p);
	if (e == NULL)
		return false;
	if (not_for_templates(e) != NULL)
		return rf_rp_fail(p, e->loc, "unexpected %s in template-string expression",
				  not_for_templates(e)) != NULL;
	if (p->s.tok == RF_T_ILLEGAL)
		return rf_rp_unexpected(p, NULL) != NULL;
	if (p->s.tok != RF_T_RBRACE)
		return rf_rp_fail(p, p->s.loc, "expected } to end template string expression") !=
		       NULL;
	t = e->term;
	if (e->n_with > 0) {
		t = rf_rp_make(p, RF_RA_TEMPLATE_WITH, e->loc);
		if (t == NULL || !rf_rp_raise(p, t, e->height))
			return false;
		t->expr = e;
	}
	rf_vec_push(&p->stack, t);
	return true;
}

static struct rf_ra_term *template_of(struct rf_rp *p, size_t from, struct rf_ra_loc start)
{
	struct rf_ra_term *t = rf_rp_make(p, RF_RA_TEMPLATE, start);
	unsigned below = 0;

	if (t == NULL)
		return NULL;
	t->item = rf_rp_list(p, from, &t->n);
	for (uint32_t i = 0; t->item != NULL && i < t->n; i++)
		below = RF_MAX(below, t->item[i]->height);
	return t->item != NULL && rf_rp_raise(p, t, below) ? t : NULL;
}

struct rf_ra_term *rf_rp_read_template(struct rf_rp *p)
{
	struct rf_ra_loc start = p->s.loc;
	bool raw = p->src.p[start.at + 1] == '`';
	size_t from = p->stack.n, skip = 2;

	for (;; skip = 0) {
		enum rf_rp_tok tok = p->s.tok;

		if (tok == RF_T_ILLEGAL)
			return rf_rp_unexpected(p, NULL);
		if (!template_text(p, skip, raw))
			return NULL;
		if (tok == RF_T_TEMPLATE_END)
			break;
		if (!template_expr(p))
			return NULL;
		rf_rp_scan_template(p, raw);
	}
	rf_rp_scan(p);
	return template_of(p, from, rf_rp_span(p, start));
}
