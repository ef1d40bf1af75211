/* What the files of the parser share. Private to this room.
 *
 * One token of look-ahead, taken from the text on demand: keywords depend on the imports read so far,
 * and inside $"..." the parser says where text goes on. A failed rule returns NULL and has said why.
 *
 * Some of Rego can only be told apart by trying: {a | b} or {a | b, c}, `if {`. Such a try runs with
 * trying > 0, where errors are not written down, and leaves what it found in brackets in a memo, so
 * that the second reading does not read it again: time stays linear in the text. */
#ifndef RF_POLICY_REGO_PARSER_H
#define RF_POLICY_REGO_PARSER_H

#include "policy/rego/ast.h"

enum rf_rp_tok {
	RF_T_ILLEGAL,
	RF_T_EOF,
	RF_T_IDENT,
	/* keywords; from RF_T_IN on only where imported or in v1 */
	RF_T_PACKAGE,
	RF_T_IMPORT,
	RF_T_AS,
	RF_T_DEFAULT,
	RF_T_ELSE,
	RF_T_NOT,
	RF_T_SOME,
	RF_T_WITH,
	RF_T_NULL,
	RF_T_TRUE,
	RF_T_FALSE,
	RF_T_IN,
	RF_T_EVERY,
	RF_T_CONTAINS,
	RF_T_IF,
	RF_T_LOGIC_AND,
	RF_T_LOGIC_OR,
	/* values */
	RF_T_NUMBER,
	RF_T_STRING,	    /* "..." or `...` */
	RF_T_TEMPLATE_PART, /* $"... { or } ... { */
	RF_T_TEMPLATE_END,  /* $"..." or } ..." */
	/* marks */
	RF_T_LBRACK,
	RF_T_RBRACK,
	RF_T_LBRACE,
	RF_T_RBRACE,
	RF_T_LPAREN,
	RF_T_RPAREN,
	RF_T_COMMA,
	RF_T_COLON,
	RF_T_DOT,
	RF_T_SEMICOLON,
	/* operators */
	RF_T_UNIFY,
	RF_T_ASSIGN,
	RF_T_EQUAL,
	RF_T_NEQ,
	RF_T_LT,
	RF_T_GT,
	RF_T_LTE,
	RF_T_GTE,
	RF_T_OR,
	RF_T_AND,
	RF_T_ADD,
	RF_T_SUB,
	RF_T_MUL,
	RF_T_DIV,
	RF_T_REM,
	RF_T_COUNT
};

/* Keywords that come and go, as bits. */
#define RF_K_IN (1u << 0)
#define RF_K_EVERY (1u << 1)
#define RF_K_CONTAINS (1u << 2)
#define RF_K_IF (1u << 3)
#define RF_K_AND (1u << 4)
#define RF_K_OR (1u << 5)
#define RF_K_NOT (1u << 6) /* the word is always there; this one allows not { } */
#define RF_K_V1 (RF_K_IN | RF_K_EVERY | RF_K_CONTAINS | RF_K_IF)
#define RF_K_NEW (RF_K_AND | RF_K_OR | RF_K_NOT)

/* Where reading stands; copied to go back. */
struct rf_rp_state {
	uint32_t pos;		     /* behind the token */
	uint32_t row, line_at, wide; /* of pos; wide: bytes of the line that start no character */
	uint32_t last_end;	     /* of the token before */
	struct rf_ra_loc loc;	     /* of the token */
	const char *wrong;	     /* what is wrong with an illegal token; NULL: just illegal */
	uint8_t tok;
	bool spaced;   /* white space or a comment before it */
	bool new_line; /* with a line break */
};

struct rf_rp_memo {
	uint32_t at;
	struct rf_ra_term *term; /* NULL: cannot be read */
	struct rf_rp_state after;
};

struct rf_rp {
	struct rf_arena *a;
	struct rf_str src;
	struct rf_ra_module *m; /* for messages */
	struct rf_ra_errors *errors;
	struct rf_rp_state s;
	uint32_t keywords;
	bool v1;    /* keywords of v1 may be names behind a dot */
	bool fatal; /* a cap was reached: nothing is tried any more */
	uint32_t depth, trying, wild;
	RF_VEC(void *) stack; /* lists under construction */
	RF_VEC(struct rf_ra_comment) comments;
	RF_VEC(struct rf_ra_import) imports;
	RF_VEC(struct rf_ra_rule *) rules;
	RF_VEC(struct rf_ra_loc) statements; /* where each begins */
	RF_VEC(struct rf_rp_memo) memo;
	uint32_t *memo_slot; /* index + 1 into memo */
	size_t memo_slots;
};

/* lexer.c */
void rf_rp_scan(struct rf_rp *p);
void rf_rp_scan_template(struct rf_rp *p, bool raw); /* behind the } of an expression in $"..." */
const char *rf_rp_tok_name(enum rf_rp_tok tok);
bool rf_rp_is_keyword(struct rf_str word, bool v1);
/* The byte behind the token, 0 at the end. */
static inline char rf_rp_next_byte(const struct rf_rp *p)
{
	return p->s.pos < p->src.n ? p->src.p[p->s.pos] : '\0';
}
static inline struct rf_str rf_rp_text(const struct rf_rp *p)
{
	return rf_str_n(p->src.p + p->s.loc.at, p->s.loc.n);
}
/* Looks again whether the token is a keyword, after the keywords changed. */
void rf_rp_rename(struct rf_rp *p);
/* The token is a keyword with . or [ right behind it, so a name: becomes one. */
bool rf_rp_keyword_as_name(struct rf_rp *p);

/* parser.c */
void *rf_rp_fail(struct rf_rp *p, struct rf_ra_loc loc, const char *fmt, ...) RF_PRINTF(3, 4);
/* "unexpected } token: note"; note NULL: without. */
void *rf_rp_unexpected(struct rf_rp *p, const char *note, ...) RF_PRINTF(2, 3);
bool rf_rp_enter(struct rf_rp *p); /* one level down, or the depth's error */
static inline void rf_rp_leave(struct rf_rp *p)
{
	p->depth--;
}
void *rf_rp_alloc(struct rf_rp *p, size_t size); /* NULL: as rf_rp_full */
void *rf_rp_full(struct rf_rp *p);		 /* ends the parse: no memory left; NULL */
/* What was pushed on the stack since `from`, as an array; pops it. NULL: out of memory. n may be 0. */
void *rf_rp_list(struct rf_rp *p, size_t from, uint32_t *ret_n);
/* From the start to the end of the last token. */
static inline struct rf_ra_loc rf_rp_span(const struct rf_rp *p, struct rf_ra_loc start)
{
	start.n = p->s.last_end > start.at ? p->s.last_end - start.at : 0;
	return start;
}

struct rf_rp_place { /* to come back to after a try */
	struct rf_rp_state s;
	size_t stack;
};
static inline struct rf_rp_place rf_rp_save(const struct rf_rp *p)
{
	return (struct rf_rp_place){ p->s, p->stack.n };
}
static inline void rf_rp_restore(struct rf_rp *p, struct rf_rp_place at)
{
	p->s = at.s;
	p->stack.n = at.stack;
}

/* parser_term.c */
struct rf_ra_term *rf_rp_term(struct rf_rp *p);
/* With infix operators; pairs: also k, v in xs. */
struct rf_ra_term *rf_rp_infix(struct rf_rp *p, bool pairs);
struct rf_ra_term *rf_rp_member(struct rf_rp *p, struct rf_ra_term *key, struct rf_ra_term *v, struct rf_ra_term *xs,
				struct rf_ra_loc loc, struct rf_ra_loc start);
struct rf_ra_term *rf_rp_relation(struct rf_rp *p); /* without `in` */
struct rf_ra_term *rf_rp_ref(struct rf_rp *p, struct rf_ra_term *head, struct rf_ra_loc start);
struct rf_ra_term *rf_rp_var(struct rf_rp *p); /* of the token, which stays */
struct rf_ra_term *rf_rp_wild(struct rf_rp *p, struct rf_ra_term *var); /* names it */
struct rf_ra_term *rf_rp_make(struct rf_rp *p, enum rf_ra_kind kind, struct rf_ra_loc loc);
struct rf_ra_term *rf_rp_string(struct rf_rp *p, struct rf_str s, struct rf_ra_loc loc);
/* Sets the height from what is below; false and an error if too high. */
bool rf_rp_raise(struct rf_rp *p, struct rf_ra_term *t, unsigned below);
struct rf_ra_term *rf_rp_operator(struct rf_rp *p, enum rf_rp_tok tok, struct rf_ra_loc loc);
struct rf_ra_term *rf_rp_call2(struct rf_rp *p, struct rf_ra_term *op, struct rf_ra_term *a,
			       struct rf_ra_term *b, struct rf_ra_loc start);
const char *rf_rp_kind_name(const struct rf_ra_term *t);

/* parser_text.c: values of tokens; NULL with the error said. */
struct rf_ra_term *rf_rp_read_number(struct rf_rp *p);
struct rf_ra_term *rf_rp_read_string(struct rf_rp *p);
struct rf_ra_term *rf_rp_read_template(struct rf_rp *p);

/* parser_body.c */
struct rf_ra_body *rf_rp_body(struct rf_rp *p, enum rf_rp_tok end); /* the end token stays */
struct rf_ra_body *rf_rp_query(struct rf_rp *p);		    /* up to where no ; follows */
struct rf_ra_expr *rf_rp_literal(struct rf_rp *p);
unsigned rf_rp_body_height(const struct rf_ra_body *b);

/* parser_logic.c: and, or, not { } */
struct rf_rp_side {		 /* of and/or */
	struct rf_ra_body *body; /* NULL: failed */
	bool braces;
	struct rf_ra_loc loc;
};
static inline bool rf_rp_logic_follows(const struct rf_rp *p)
{
	return p->s.tok == RF_T_LOGIC_AND || p->s.tok == RF_T_LOGIC_OR;
}
struct rf_ra_expr *rf_rp_logic(struct rf_rp *p, struct rf_rp_side left); /* at the operator */
/* What begins with { or ( and is a side of and/or. False: it is not, nothing is read. */
bool rf_rp_logic_start(struct rf_rp *p, struct rf_ra_expr **ret);
struct rf_ra_expr *rf_rp_not_body(struct rf_rp *p, struct rf_ra_loc not_loc);		  /* at { */
bool rf_rp_not_group(struct rf_rp *p, struct rf_ra_loc not_loc, struct rf_ra_expr **ret); /* at ( */
/* parser_body.c, for parser_logic.c */
struct rf_ra_expr *rf_rp_simple(struct rf_rp *p); /* a term, x := y, x = y */
bool rf_rp_with(struct rf_rp *p, struct rf_ra_expr *e);
struct rf_ra_expr *rf_rp_make_expr(struct rf_rp *p, enum rf_ra_expr_kind kind,
				   struct rf_ra_loc loc);
struct rf_ra_body *rf_rp_body_of(struct rf_rp *p, struct rf_ra_expr *e);
bool rf_rp_raise_expr(struct rf_rp *p, struct rf_ra_expr *e, unsigned below);
bool rf_rp_negated(struct rf_rp *p); /* the token is `not` and no name */
struct rf_ra_expr *rf_rp_negate(struct rf_rp *p, struct rf_ra_expr *e, struct rf_ra_loc not_loc);

/* parser_rule.c */
bool rf_rp_rule(struct rf_rp *p);
/* What v1 asks for beyond the grammar. */
void rf_rp_check_v1(struct rf_rp *p, const struct rf_ra_rule *r);

/* parser_meta.c: comments into annotations of the module, which is complete otherwise. */
void rf_rp_metadata(struct rf_rp *p);

#endif
