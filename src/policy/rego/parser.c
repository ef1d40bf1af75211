/* Modules, queries and values: where parsing begins, packages and imports. */
#include <stdio.h>

#include "policy/rego/number.h"
#include "policy/rego/parser.h"
#include "codec/utf8.h"

#define CODE "rego_parse_error"
#define TEXT_MAX 1024 /* names in messages may be as long as the text */

void *rf_rp_fail(struct rf_rp *p, struct rf_ra_loc loc, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	if (p->trying && !p->fatal)
		return NULL;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rf_ra_complain(p->errors, CODE, p->m, loc, "%s", text);
	return NULL;
}

/* A word in v0 that would be a keyword if it were imported. */
static const char *hint(const struct rf_rp *p)
{
	if (p->s.tok != RF_T_IDENT)
		return "";
	if (rf_str_is(rf_rp_text(p), "in"))
		return " (hint: `import future.keywords.in` for `some x in xs` expressions)";
	if (rf_str_is(rf_rp_text(p), "if") || rf_str_is(rf_rp_text(p), "contains"))
		return " (hint: `import rego.v1` for `if` and `contains`)";
	return "";
}

void *rf_rp_unexpected(struct rf_rp *p, const char *note, ...)
{
	enum rf_rp_tok tok = p->s.tok;
	const char *what = tok >= RF_T_PACKAGE && tok <= RF_T_LOGIC_OR ? "keyword" : "token";
	char text[TEXT_MAX];
	va_list ap;

	if (p->trying && !p->fatal)
		return NULL;
	if (tok == RF_T_ILLEGAL)
		return rf_rp_fail(p, p->s.loc, "%s", p->s.wrong ? p->s.wrong : "illegal token");
	if (note == NULL)
		return rf_rp_fail(p, p->s.loc, "unexpected %s %s%s", rf_rp_tok_name(tok), what,
				  hint(p));
	va_start(ap, note);
	vsnprintf(text, sizeof(text), note, ap);
	va_end(ap);
	return rf_rp_fail(p, p->s.loc, "unexpected %s %s: %s%s", rf_rp_tok_name(tok), what, text,
			  hint(p));
}

/* Ends the parse whatever is being tried. */
static void give_up(struct rf_rp *p, const char *why)
{
	if (p->fatal)
		return;
	p->fatal = true;
	rf_rp_fail(p, p->s.loc, "%s", why);
}

bool rf_rp_enter(struct rf_rp *p)
{
	if (p->fatal)
		return false;
	if (p->depth >= RF_RA_DEPTH_MAX) {
		give_up(p, "nested too deeply: at most 200 levels are read");
		return false;
	}
	p->depth++;
	return true;
}

void *rf_rp_alloc(struct rf_rp *p, size_t size)
{
	void *mem = rf_arena_try(p->a, size ? size : 1);

	return mem ? mem : rf_rp_full(p);
}

void *rf_rp_full(struct rf_rp *p)
{
	give_up(p, "too large: the memory for policies is used up");
	return NULL;
}

void *rf_rp_list(struct rf_rp *p, size_t from, uint32_t *ret_n)
{
	size_t n = p->stack.n - from;
	void **list = rf_rp_alloc(p, n * sizeof(void *));

	if (list == NULL)
		return NULL;
	if (n > 0)
		memcpy(list, p->stack.at + from, n * sizeof(void *));
	p->stack.n = from;
	*ret_n = (uint32_t)n;
	return list;
}

bool rf_rp_raise(struct rf_rp *p, struct rf_ra_term *t, unsigned below)
{
	if (below >= RF_RA_DEPTH_MAX) {
		give_up(p, "nested too deeply: at most 200 levels are read");
		return false;
	}
	t->height = (uint8_t)(below + 1);
	return true;
}

bool rf_rp_raise_expr(struct rf_rp *p, struct rf_ra_expr *e, unsigned below)
{
	struct rf_ra_term t;

	if (!rf_rp_raise(p, &t, below))
		return false;
	e->height = t.height;
	return true;
}

/* --- beginning ------------------------------------------------------------------------------ */

static void done(struct rf_rp *p)
{
	rf_vec_done(&p->stack);
	rf_vec_done(&p->comments);
	rf_vec_done(&p->imports);
	rf_vec_done(&p->rules);
	rf_vec_done(&p->statements);
	rf_vec_done(&p->memo);
	free(p->memo_slot);
}

/* Bytes that may stand nowhere. Moves over them as reading does, so that the place is right. */
static bool check_bytes(struct rf_rp *p)
{
	struct rf_ra_loc loc = { 1, 1, 0, 0 };

	while (loc.at < p->src.n) {
		const char *c = p->src.p + loc.at;
		size_t n = rf_utf8_char(c, p->src.n - loc.at);

		if (n == 0)
			return rf_rp_fail(p, loc, "illegal utf-8 character") != NULL;
		if (*c == '\0')
			return rf_rp_fail(p, loc, "illegal null character") != NULL;
		if (n == 3 && loc.at > 0 && memcmp(c, "\xef\xbb\xbf", 3) == 0)
			return rf_rp_fail(p, loc, "illegal byte-order mark") != NULL;
		loc.at += (uint32_t)n;
		loc.col++;
		if (*c == '\n') {
			loc.row++;
			loc.col = 1;
		}
	}
	return true;
}

/* False: not to be read at all. */
static bool begin(struct rf_rp *p, struct rf_arena *a, struct rf_str file, struct rf_str source,
		  enum rf_ra_version version, struct rf_ra_errors *errors)
{
	*p = (struct rf_rp){ .a = a, .src = source, .errors = errors, .v1 = version == RF_RA_V1 };
	if (errors->arena == NULL)
		errors->arena = a;
	p->keywords = p->v1 ? RF_K_V1 : 0;
	p->s = (struct rf_rp_state){ .row = 1 };
	p->m = rf_arena_new(a, struct rf_ra_module);
	p->m->file = file;
	p->m->v1 = p->v1;
	if (source.n > RF_RA_SOURCE_MAX) {
		rf_rp_fail(p, (struct rf_ra_loc){ 1, 1, 0, 0 },
			   "%zu bytes of text; at most %u are read", source.n, RF_RA_SOURCE_MAX);
		return false;
	}
	p->m->source = source;
	if (!check_bytes(p))
		return false;
	if (rf_str_starts(source, RF_LIT("\xef\xbb\xbf")))
		p->s = (struct rf_rp_state){ .row = 1, .pos = 3, .wide = 3, .loc = { 1, 1, 3, 0 } };
	rf_rp_scan(p);
	return true;
}

/* --- package and imports -------------------------------------------------------------------- */

/* A name or a path of constant strings; NULL with the error said. */
static struct rf_ra_term *path(struct rf_rp *p)
{
	struct rf_ra_term *t;

	if (p->s.tok >= RF_T_PACKAGE && p->s.tok <= RF_T_LOGIC_OR)
		p->s.tok = RF_T_IDENT;
	if (p->s.tok != RF_T_IDENT)
		return rf_rp_unexpected(p, NULL);
	t = rf_rp_term(p);
	if (t == NULL)
		return NULL;
	if (t->kind == RF_RA_VAR && !t->is_wild)
		return t;
	if (t->kind != RF_RA_REF || t->item[0]->kind != RF_RA_VAR || t->item[0]->is_wild)
		return rf_rp_fail(p, t->loc, "unexpected %s token: expecting var",
				  rf_rp_kind_name(t));
	for (uint32_t i = 1; i < t->n; i++)
		if (t->item[i]->kind != RF_RA_VALUE || t->item[i]->value.type != RF_RV_STRING)
			return rf_rp_fail(p, t->item[i]->loc,
					  "unexpected %s token: expecting string",
					  rf_rp_kind_name(t->item[i]));
	return t;
}

static uint32_t path_len(const struct rf_ra_term *t)
{
	return t->kind == RF_RA_REF ? t->n : 1;
}

static struct rf_str path_part(const struct rf_ra_term *t, uint32_t i)
{
	if (t->kind == RF_RA_VAR)
		return t->name;
	return i == 0 ? t->item[0]->name : rf_rv_text(t->item[i]->value);
}

static bool package(struct rf_rp *p)
{
	struct rf_ra_module *m = p->m;
	struct rf_ra_loc start = p->s.loc;
	struct rf_ra_term *t;

	rf_rp_scan(p);
	t = path(p);
	if (t == NULL)
		return false;
	if (m->package != NULL) {
		rf_rp_fail(p, start, "unexpected package");
		return true;
	}
	m->package_loc = rf_rp_span(p, start);
	m->package = rf_rp_alloc(p, path_len(t) * sizeof(*m->package));
	if (m->package == NULL)
		return false;
	for (uint32_t i = 0; i < path_len(t); i++)
		m->package[m->n_package++] = path_part(t, i);
	return true;
}

static bool future_import(struct rf_rp *p, const struct rf_ra_import *i)
{
	static const struct {
		const char *word;
		uint32_t bits;
	} words[] = { { "and", RF_K_AND },
		      { "contains", RF_K_CONTAINS },
		      { "every", RF_K_EVERY | RF_K_IN },
		      { "if", RF_K_IF },
		      { "in", RF_K_IN },
		      { "not", RF_K_NOT },
		      { "or", RF_K_OR } };
	struct rf_ra_loc loc = i->path->loc;

	if (path_len(i->path) == 1 || !rf_str_is(path_part(i->path, 1), "keywords"))
		return rf_rp_fail(p, loc, "invalid import, must be `future.keywords`") != NULL;
	if (i->alias.n > 0)
		return rf_rp_fail(p, loc, "`future` imports cannot be aliased") != NULL;
	if (path_len(i->path) == 2) {
		p->keywords |= RF_K_V1 | RF_K_AND | RF_K_OR | RF_K_NOT;
		return true;
	}
	for (size_t w = 0; w < RF_COUNT(words); w++)
		if (rf_str_is(path_part(i->path, 2), words[w].word)) {
			p->keywords |= words[w].bits;
			return true;
		}
	return rf_rp_fail(p, loc,
			  "unexpected keyword, must be one of "
			  "[and contains every if in not or]") != NULL;
}

static bool rego_import(struct rf_rp *p, const struct rf_ra_import *i)
{
	bool v2 = path_len(i->path) == 2 && rf_str_is(path_part(i->path, 1), "v2");

	if (!v2 && (path_len(i->path) != 2 || !rf_str_is(path_part(i->path, 1), "v1")))
		return rf_rp_fail(p, i->path->loc, "invalid import `%.*s`, must be one of: `rego.v1`, `rego.v2`",
				  (int)i->path->loc.n, p->src.p + i->path->loc.at) != NULL;
	if (v2) /* what v1 has, and the keywords of the future */
		p->keywords |= RF_K_AND | RF_K_OR | RF_K_NOT;
	if (p->v1)
		return true;
	if (i->alias.n > 0)
		return rf_rp_fail(p, i->path->loc, "`rego` imports cannot be aliased") != NULL;
	p->keywords |= RF_K_V1;
	p->m->v1 = true;
	return true;
}

static bool check_import_name(struct rf_rp *p, const struct rf_ra_import *i)
{
	struct rf_str root = path_part(i->path, 0);
	struct rf_str last = path_part(i->path, path_len(i->path) - 1);

	if (!rf_str_is(root, "data") && !rf_str_is(root, "input") && !rf_str_is(root, "future") &&
	    !rf_str_is(root, "rego"))
		return rf_rp_fail(p, i->path->loc,
				  "unexpected import path, must begin with one of: "
				  "{data, future, input, rego}, got: %.*s (hint: if this is "
				  "unexpected, try updating OPA)",
				  RF_STR(root)) != NULL;
	if (i->alias.n == 0 && !rf_str_is(root, "future") && rf_rp_is_keyword(last, p->v1))
		return rf_rp_fail(p, i->path->loc,
				  "unexpected import path, must not end with a keyword, got: %.*s "
				  "(hint: import a different path or use an alias)",
				  RF_STR(last)) != NULL;
	return true;
}

static bool alias(struct rf_rp *p, struct rf_ra_import *i)
{
	if (p->s.tok != RF_T_AS)
		return true;
	rf_rp_scan(p);
	if (p->s.tok != RF_T_IDENT || rf_str_is(rf_rp_text(p), "_"))
		return rf_rp_unexpected(p, "expected var") != NULL;
	i->alias = rf_rp_text(p);
	rf_rp_scan(p);
	return true;
}

static bool import(struct rf_rp *p)
{
	struct rf_ra_import i = { .loc = p->s.loc };
	uint32_t keywords = p->keywords;
	struct rf_str root;

	p->keywords = 0; /* of the path every word is a name */
	rf_rp_scan(p);
	i.path = path(p);
	p->keywords = keywords;
	if (i.path == NULL || !alias(p, &i) || !check_import_name(p, &i))
		return false;
	i.loc = rf_rp_span(p, i.loc);
	root = path_part(i.path, 0);
	if (rf_str_is(root, "future") && !future_import(p, &i))
		return false;
	if (rf_str_is(root, "rego") && !rego_import(p, &i))
		return false;
	rf_rp_rename(p); /* the token behind was read before the import took effect */
	rf_vec_push(&p->imports, i);
	return true;
}

/* --- modules -------------------------------------------------------------------------------- */

static void forget_memo(struct rf_rp *p)
{
	if (p->memo.n > 0)
		memset(p->memo_slot, 0, p->memo_slots * sizeof(*p->memo_slot));
	p->memo.n = 0;
}

static bool is_statement(const struct rf_rp *p, enum rf_rp_tok tok)
{
	char next = rf_rp_next_byte(p);

	return p->s.tok == tok && next != '.' && next != '['; /* import.x := 1 is a rule */
}

static bool statement(struct rf_rp *p)
{
	rf_vec_push(&p->statements, p->s.loc);
	forget_memo(p);
	if (is_statement(p, RF_T_PACKAGE))
		return package(p);
	if (p->m->package == NULL) {
		rf_rp_fail(p, p->s.loc, "package expected");
		return false;
	}
	if (is_statement(p, RF_T_IMPORT))
		return import(p);
	return rf_rp_rule(p);
}

/* Copies a vector of the parser into the arena. */
static void *keep(struct rf_rp *p, const void *at, size_t n, size_t size)
{
	void *mem = rf_rp_alloc(p, n * size);

	if (mem != NULL && n > 0)
		memcpy(mem, at, n * size);
	return mem;
}

static bool finish(struct rf_rp *p)
{
	struct rf_ra_module *m = p->m;

	m->import = keep(p, p->imports.at, p->imports.n, sizeof(*m->import));
	m->rule = keep(p, p->rules.at, p->rules.n, sizeof(*m->rule));
	m->comment = keep(p, p->comments.at, p->comments.n, sizeof(*m->comment));
	if (p->fatal)
		return false;
	m->n_imports = (uint32_t)p->imports.n;
	m->n_rules = (uint32_t)p->rules.n;
	m->n_comments = (uint32_t)p->comments.n;
	for (uint32_t i = 0; m->v1 && i < m->n_rules; i++)
		rf_rp_check_v1(p, m->rule[i]);
	rf_rp_metadata(p);
	return p->errors->n == 0;
}

static bool module(struct rf_rp *p)
{
	if (p->s.tok == RF_T_EOF) {
		rf_rp_fail(p, p->s.loc, "empty module");
		return false;
	}
	while (p->s.tok != RF_T_EOF)
		if (!statement(p))
			return false;
	return finish(p);
}

int rf_ra_parse(struct rf_arena *a, struct rf_str file, struct rf_str source,
		enum rf_ra_version version, struct rf_ra_module **ret, struct rf_ra_errors *errors)
{
	uint32_t before = errors->n;
	struct rf_rp p;
	bool ok = begin(&p, a, file, source, version, errors) && module(&p);

	done(&p);
	if (!ok || errors->n > before)
		return -RF_BAD_REQUEST;
	*ret = p.m;
	return 0;
}

/* --- queries and values --------------------------------------------------------------------- */

static struct rf_ra_body *queries(struct rf_rp *p)
{
	struct rf_ra_body *all;
	size_t from = p->stack.n;

	if (p->s.tok == RF_T_EOF)
		return rf_rp_fail(p, p->s.loc, "found empty body");
	while (p->s.tok != RF_T_EOF) {
		struct rf_ra_body *b = rf_rp_query(p);

		if (b == NULL)
			return NULL;
		for (uint32_t i = 0; i < b->n; i++)
			rf_vec_push(&p->stack, b->expr[i]);
	}
	all = rf_rp_alloc(p, sizeof(*all));
	if (all == NULL)
		return NULL;
	all->expr = rf_rp_list(p, from, &all->n);
	return all->expr ? all : NULL;
}

int rf_ra_parse_body(struct rf_arena *a, struct rf_str file, struct rf_str source,
		     enum rf_ra_version version, struct rf_ra_body **ret,
		     struct rf_ra_errors *errors)
{
	struct rf_rp p;
	struct rf_ra_body *b = NULL;

	if (begin(&p, a, file, source, version, errors))
		b = queries(&p);
	done(&p);
	if (b == NULL)
		return -RF_BAD_REQUEST;
	*ret = b;
	return 0;
}

static bool constant(struct rf_rp *p, const struct rf_ra_term *t, struct rf_rv *ret);

static bool constant_items(struct rf_rp *p, const struct rf_ra_term *t, struct rf_rv *items)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (!constant(p, t->item[i], &items[i]))
			return false;
	return true;
}

static bool constant(struct rf_rp *p, const struct rf_ra_term *t, struct rf_rv *ret)
{
	struct rf_rv *items;

	if (t->kind == RF_RA_VALUE) {
		*ret = t->value;
		return true;
	}
	if (t->kind != RF_RA_ARRAY && t->kind != RF_RA_SET && t->kind != RF_RA_OBJECT)
		return rf_rp_fail(p, t->loc, "%s is not a constant", rf_rp_kind_name(t)) != NULL;
	items = rf_rp_alloc(p, t->n * sizeof(*items));
	if (items == NULL || !constant_items(p, t, items))
		return false;
	if (t->kind == RF_RA_ARRAY)
		*ret = rf_rv_array(items, t->n);
	else if (t->kind == RF_RA_SET)
		*ret = rf_rv_set(items, t->n);
	else /* a pair is two values, one after the other */
		*ret = rf_rv_object((struct rf_rv_pair *)(void *)items, t->n / 2, NULL);
	return true;
}

static bool value(struct rf_rp *p, struct rf_rv *ret)
{
	struct rf_ra_term *t = rf_rp_infix(p, false);

	if (t == NULL)
		return false;
	if (p->s.tok != RF_T_EOF)
		return rf_rp_unexpected(p, "expected the end of the value") != NULL;
	return constant(p, t, ret);
}

int rf_ra_parse_value(struct rf_arena *a, struct rf_str source, struct rf_rv *ret,
		      struct rf_ra_errors *errors)
{
	struct rf_rp p;
	struct rf_rv v;
	bool ok = begin(&p, a, RF_STR_EMPTY, source, RF_RA_V1, errors) && value(&p, &v);

	done(&p);
	if (!ok)
		return -RF_BAD_REQUEST;
	*ret = v;
	return 0;
}
