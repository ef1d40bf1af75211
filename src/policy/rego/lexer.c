/* Text into tokens, one at a time. */
#include "policy/rego/parser.h"

static const char *const names[RF_T_COUNT] = {
	[RF_T_ILLEGAL] = "illegal",
	[RF_T_EOF] = "eof",
	[RF_T_IDENT] = "identifier",
	[RF_T_PACKAGE] = "package",
	[RF_T_IMPORT] = "import",
	[RF_T_AS] = "as",
	[RF_T_DEFAULT] = "default",
	[RF_T_ELSE] = "else",
	[RF_T_NOT] = "not",
	[RF_T_SOME] = "some",
	[RF_T_WITH] = "with",
	[RF_T_NULL] = "null",
	[RF_T_TRUE] = "true",
	[RF_T_FALSE] = "false",
	[RF_T_IN] = "in",
	[RF_T_EVERY] = "every",
	[RF_T_CONTAINS] = "contains",
	[RF_T_IF] = "if",
	[RF_T_LOGIC_AND] = "and",
	[RF_T_LOGIC_OR] = "or",
	[RF_T_NUMBER] = "number",
	[RF_T_STRING] = "string",
	[RF_T_TEMPLATE_PART] = "template-string-part",
	[RF_T_TEMPLATE_END] = "template-string-end",
	[RF_T_LBRACK] = "[",
	[RF_T_RBRACK] = "]",
	[RF_T_LBRACE] = "{",
	[RF_T_RBRACE] = "}",
	[RF_T_LPAREN] = "(",
	[RF_T_RPAREN] = ")",
	[RF_T_COMMA] = ",",
	[RF_T_COLON] = ":",
	[RF_T_DOT] = ".",
	[RF_T_SEMICOLON] = ";",
	[RF_T_UNIFY] = "eq",
	[RF_T_ASSIGN] = "assign",
	[RF_T_EQUAL] = "equal",
	[RF_T_NEQ] = "neq",
	[RF_T_LT] = "lt",
	[RF_T_GT] = "gt",
	[RF_T_LTE] = "lte",
	[RF_T_GTE] = "gte",
	[RF_T_OR] = "or",
	[RF_T_AND] = "and",
	[RF_T_ADD] = "plus",
	[RF_T_SUB] = "minus",
	[RF_T_MUL] = "mul",
	[RF_T_DIV] = "div",
	[RF_T_REM] = "rem",
};

const char *rf_rp_tok_name(enum rf_rp_tok tok)
{
	return names[tok];
}

/* Which bit switches a keyword on; 0: always there. */
static uint32_t keyword_bit(enum rf_rp_tok tok)
{
	switch (tok) {
	case RF_T_IN:
		return RF_K_IN;
	case RF_T_EVERY:
		return RF_K_EVERY;
	case RF_T_CONTAINS:
		return RF_K_CONTAINS;
	case RF_T_IF:
		return RF_K_IF;
	case RF_T_LOGIC_AND:
		return RF_K_AND;
	case RF_T_LOGIC_OR:
		return RF_K_OR;
	default:
		return 0;
	}
}

static enum rf_rp_tok keyword(const struct rf_rp *p, struct rf_str word)
{
	if (word.n < 2 || word.n > 8)
		return RF_T_IDENT;
	for (enum rf_rp_tok t = RF_T_PACKAGE; t <= RF_T_LOGIC_OR; t++) {
		uint32_t bit = keyword_bit(t);

		if (rf_str_is(word, names[t]))
			return bit == 0 || (p->keywords & bit) ? t : RF_T_IDENT;
	}
	return RF_T_IDENT;
}

bool rf_rp_is_keyword(struct rf_str word, bool v1)
{
	enum rf_rp_tok last = v1 ? RF_T_IF : RF_T_FALSE;

	for (enum rf_rp_tok t = RF_T_PACKAGE; t <= last; t++)
		if (rf_str_is(word, names[t]))
			return true;
	return false;
}

void rf_rp_rename(struct rf_rp *p)
{
	if (p->s.tok == RF_T_IDENT)
		p->s.tok = (uint8_t)keyword(p, rf_rp_text(p));
}

bool rf_rp_keyword_as_name(struct rf_rp *p)
{
	char next = rf_rp_next_byte(p);

	if (p->s.tok < RF_T_PACKAGE || p->s.tok > RF_T_LOGIC_OR || (next != '.' && next != '['))
		return false;
	p->s.tok = RF_T_IDENT;
	return true;
}

static bool at_end(const struct rf_rp *p)
{
	return p->s.pos >= p->src.n;
}

static char here(const struct rf_rp *p)
{
	return rf_rp_next_byte(p);
}

static void step(struct rf_rp *p)
{
	char c = p->src.p[p->s.pos++];

	if (c == '\n') {
		p->s.row++;
		p->s.line_at = p->s.pos;
		p->s.wide = 0;
	} else if (((unsigned char)c & 0xc0) == 0x80) {
		p->s.wide++;
	}
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static enum rf_rp_tok illegal(struct rf_rp *p, const char *wrong)
{
	if (p->s.wrong == NULL)
		p->s.wrong = wrong;
	return RF_T_ILLEGAL;
}

static struct rf_ra_loc place(const struct rf_rp *p)
{
	const struct rf_rp_state *s = &p->s;

	return (struct rf_ra_loc){ s->row, s->pos - s->line_at - s->wide + 1, s->pos, 0 };
}

/* A text is read over more than once where something is tried; its comments are kept once. */
static void comment(struct rf_rp *p)
{
	struct rf_ra_loc loc = place(p);
	struct rf_str text;
	size_t n = p->comments.n;

	while (!at_end(p) && here(p) != '\n')
		step(p);
	loc.n = p->s.pos - loc.at;
	while (loc.n > 1 && p->src.p[loc.at + loc.n - 1] == '\r')
		loc.n--;
	text = rf_str_n(p->src.p + loc.at + 1, loc.n - 1);
	if (n == 0 || p->comments.at[n - 1].loc.at < loc.at)
		rf_vec_push(&p->comments, ((struct rf_ra_comment){ loc, text }));
}

static void skip_space(struct rf_rp *p)
{
	p->s.spaced = p->s.new_line = false;
	while (!at_end(p)) {
		char c = here(p);

		if (c == '#')
			comment(p);
		else if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
			step(p);
		else
			return;
		p->s.spaced = true;
		p->s.new_line |= c == '\n';
	}
}

static enum rf_rp_tok word(struct rf_rp *p)
{
	uint32_t from = p->s.pos;

	while (is_letter(here(p)) || is_digit(here(p)))
		p->s.pos++;
	return keyword(p, rf_str_n(p->src.p + from, p->s.pos - from));
}

static bool digits(struct rf_rp *p)
{
	uint32_t from = p->s.pos;

	while (is_digit(here(p)))
		p->s.pos++;
	return p->s.pos > from;
}

static enum rf_rp_tok number(struct rf_rp *p)
{
	enum rf_rp_tok tok = RF_T_NUMBER;

	digits(p);
	if (here(p) == '.') {
		p->s.pos++;
		if (!digits(p))
			tok = illegal(p, "expected fraction");
	}
	if (here(p) == 'e' || here(p) == 'E') {
		p->s.pos++;
		if (here(p) == '+' || here(p) == '-')
			p->s.pos++;
		if (!digits(p))
			tok = illegal(p, "expected exponent");
	}
	if (is_letter(here(p))) {
		tok = illegal(p, "illegal number format");
		word(p);
	}
	return tok;
}

/* Behind a backslash. */
static bool escape(struct rf_rp *p, bool in_template)
{
	char c = here(p);

	if (at_end(p) || c == '\n')
		return true; /* the string's end will be missed */
	if (c == 0 || (strchr("\\\"/bfnrtu", c) == NULL && !(in_template && c == '{')))
		return false;
	step(p);
	return true;
}

/* Behind the opening quote. A template ends at { too. */
static enum rf_rp_tok string(struct rf_rp *p, bool in_template)
{
	enum rf_rp_tok tok = in_template ? RF_T_TEMPLATE_END : RF_T_STRING;

	for (;;) {
		char c = here(p);

		if (at_end(p) || c == '\n')
			return illegal(p, "non-terminated string");
		step(p);
		if (c == '"')
			return p->s.wrong ? RF_T_ILLEGAL : tok;
		if (c == '{' && in_template)
			return p->s.wrong ? RF_T_ILLEGAL : RF_T_TEMPLATE_PART;
		if (c == '\\' && !escape(p, in_template))
			illegal(p, "illegal escape sequence");
	}
}

static enum rf_rp_tok raw_string(struct rf_rp *p, bool in_template)
{
	while (!at_end(p)) {
		char c = here(p);

		step(p);
		if (c == '`')
			return in_template ? RF_T_TEMPLATE_END : RF_T_STRING;
		if (!in_template)
			continue;
		if (c == '{')
			return RF_T_TEMPLATE_PART;
		if (c == '\\' && here(p) == '{')
			step(p);
	}
	return illegal(p, "non-terminated string");
}

static enum rf_rp_tok or_equal(struct rf_rp *p, enum rf_rp_tok with, enum rf_rp_tok without)
{
	if (here(p) != '=')
		return without;
	p->s.pos++;
	return with;
}

static enum rf_rp_tok template(struct rf_rp *p) {
	char quote = here(p);

	if (quote != '"' && quote != '`') return illegal(p, "illegal $ character");
	step(p);
	return quote == '"' ? string(p, true) : raw_string(p, true);
}

static enum rf_rp_tok bang(struct rf_rp *p)
{
	if (here(p) != '=')
		return illegal(p, "illegal ! character");
	p->s.pos++;
	return RF_T_NEQ;
}

static enum rf_rp_tok mark(struct rf_rp *p)
{
	char c = here(p);

	step(p);
	switch (c) {
	case '"':
		return string(p, false);
	case '`':
		return raw_string(p, false);
	case '$':
		return template(p);
	case '[':
		return RF_T_LBRACK;
	case ']':
		return RF_T_RBRACK;
	case '{':
		return RF_T_LBRACE;
	case '}':
		return RF_T_RBRACE;
	case '(':
		return RF_T_LPAREN;
	case ')':
		return RF_T_RPAREN;
	case ',':
		return RF_T_COMMA;
	case ';':
		return RF_T_SEMICOLON;
	case '.':
		return RF_T_DOT;
	case '+':
		return RF_T_ADD;
	case '-':
		return RF_T_SUB;
	case '*':
		return RF_T_MUL;
	case '/':
		return RF_T_DIV;
	case '%':
		return RF_T_REM;
	case '&':
		return RF_T_AND;
	case '|':
		return RF_T_OR;
	case ':':
		return or_equal(p, RF_T_ASSIGN, RF_T_COLON);
	case '=':
		return or_equal(p, RF_T_EQUAL, RF_T_UNIFY);
	case '<':
		return or_equal(p, RF_T_LTE, RF_T_LT);
	case '>':
		return or_equal(p, RF_T_GTE, RF_T_GT);
	case '!':
		return bang(p);
	default:
		return RF_T_ILLEGAL;
	}
}

static void begin(struct rf_rp *p)
{
	p->s.last_end = p->s.loc.at + p->s.loc.n;
	p->s.wrong = NULL;
}

void rf_rp_scan(struct rf_rp *p)
{
	begin(p);
	skip_space(p);
	p->s.loc = place(p);
	if (at_end(p))
		p->s.tok = RF_T_EOF;
	else if (is_letter(here(p)))
		p->s.tok = (uint8_t)word(p);
	else if (is_digit(here(p)))
		p->s.tok = (uint8_t)number(p);
	else
		p->s.tok = (uint8_t)mark(p);
	p->s.loc.n = p->s.pos - p->s.loc.at;
}

void rf_rp_scan_template(struct rf_rp *p, bool raw)
{
	begin(p);
	p->s.spaced = p->s.new_line = false;
	p->s.loc = place(p);
	p->s.tok = (uint8_t)(raw ? raw_string(p, true) : string(p, true));
	p->s.loc.n = p->s.pos - p->s.loc.at;
}
