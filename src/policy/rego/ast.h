/* A module of Rego as it was written: what the parser makes and the compiler reads. Everything lives
 * in one arena and is not changed after parsing. Lists are pointer and count. */
#ifndef RF_POLICY_REGO_AST_H
#define RF_POLICY_REGO_AST_H

#include "policy/rego/value.h"

#define RF_RA_SOURCE_MAX (4u << 20)
#define RF_RA_DEPTH_MAX 200

struct rf_ra_loc {
	uint32_t row, col; /* from 1; col counts characters as OPA does */
	uint32_t at, n;	   /* bytes in the source */
};

enum rf_ra_kind {
	RF_RA_VALUE,	/* null, true, 1, "text", `raw` */
	RF_RA_VAR,	/* x; _ is a fresh name each time: is_wild */
	RF_RA_REF,	/* head.a["b"][c]: n >= 2, item[0] is the head: a var, or any term as in f(x).a, [1,2][i] */
	RF_RA_ARRAY,
	RF_RA_SET,	/* {1, 2}; set() is an RF_RA_SET without items */
	RF_RA_OBJECT,	/* item: key, value, key, value ... */
	RF_RA_ARRAY_COMP,  /* [term | body] */
	RF_RA_SET_COMP,	   /* {term | body} */
	RF_RA_OBJECT_COMP, /* {key: term | body} */
	RF_RA_CALL,	/* item[0]: what is called, a var or a ref of constant strings; then the arguments.
			 * Infix operators are calls too: a + b is plus(a, b); names below */
	RF_RA_TEMPLATE, /* $"text {x}": item: string values and terms in turn */
	RF_RA_TEMPLATE_WITH, /* only as an item of a template: {x with input as y}, an expression */
};

/* Infix operators by the name of their builtin: + plus, - minus, * mul, / div, % rem, & and, | or, == equal,
 * != neq, < lt, <= lte, > gt, >= gte, = eq, := assign, `x in xs` internal.member_2(x, xs), `k, v in xs`
 * internal.member_3(k, v, xs). */

struct rf_ra_expr;

struct rf_ra_term {
	enum rf_ra_kind kind;
	struct rf_ra_loc loc;
	bool is_wild;	  /* RF_RA_VAR: was _ */
	bool infix;	  /* RF_RA_CALL: written between its arguments */
	bool grouped;	  /* stood in parentheses */
	uint8_t height;	  /* of the tree below, bodies counted: at most RF_RA_DEPTH_MAX, so that recursion is safe */
	uint32_t n;
	union {
		struct rf_rv value;	  /* RF_RA_VALUE */
		struct rf_str name;	  /* RF_RA_VAR; of wilds "$0", "$1" ... unique in the module */
		struct rf_ra_term **item; /* the others */
		struct rf_ra_expr *expr;  /* RF_RA_TEMPLATE_WITH */
		struct {		  /* comprehensions */
			struct rf_ra_term *key; /* of objects */
			struct rf_ra_term *term;
			struct rf_ra_body *body;
		} comp;
	};
};

enum rf_ra_expr_kind {
	RF_RA_EXPR_TERM,  /* a term alone, calls and infix operators included: x == 1, f(x), input.a */
	RF_RA_EXPR_SOME,  /* some x, y */
	RF_RA_EXPR_SOME_IN, /* some x in xs; some k, v in xs: key (or NULL), value, domain */
	RF_RA_EXPR_EVERY, /* every x in xs { body }; every k, v in xs { body } */
	RF_RA_EXPR_NOT_BODY, /* not { body } (v1, newest) */
	RF_RA_EXPR_OR,	  /* a or b, bodies on both sides (v1, newest) */
	RF_RA_EXPR_AND,	  /* a and b, likewise: each side has its own variables, so it is not two expressions */
};

struct rf_ra_with {
	struct rf_ra_loc loc;
	struct rf_ra_term *target; /* a ref to input, data..., or the name of a function */
	struct rf_ra_term *value;
};

struct rf_ra_expr {
	enum rf_ra_expr_kind kind;
	struct rf_ra_loc loc;
	bool negated; /* not ... */
	bool braces, other_braces; /* NOT_BODY, OR, AND: body, other were written in { } */
	uint8_t height;		   /* as a term's */
	struct rf_ra_term *term; /* TERM */
	struct rf_ra_term **vars; /* SOME */
	uint32_t n_vars;
	struct rf_ra_term *key, *value, *domain; /* SOME_IN, EVERY */
	struct rf_ra_body *body;		 /* EVERY, NOT_BODY; OR, AND: left */
	struct rf_ra_body *other;		 /* OR, AND: right */
	struct rf_ra_with *with;
	uint32_t n_with;
};

struct rf_ra_body {
	struct rf_ra_expr **expr;
	uint32_t n;
};

/* A head as written; the compiler turns all forms into one.
 *   p                      complete, value true          p := 1, p = 1        complete with a value
 *   p[x] (v0), p contains x   partial set                p[k] = v, p[k] := v  partial object
 *   f(x) = y               function                      a.b.c contains x, a.b[x].c := 1   general refs */
struct rf_ra_rule {
	struct rf_ra_loc loc;
	struct rf_ra_loc head; /* without body; of else: the word and its value */
	bool is_default;
	bool is_function;
	bool contains;	     /* written with contains, or v0's p[x] without a value */
	bool assigned;	     /* := instead of = */
	bool has_if;	     /* `if` stood before the body */
	bool by_ref;	     /* contains: v0's p[x] or p.x, element is a part of the name as written */
	struct rf_ra_term *ref; /* the name: a var or a ref, without contains' element and arguments */
	struct rf_ra_term **args;
	uint32_t n_args;
	struct rf_ra_term *element; /* contains */
	struct rf_ra_term *value;   /* NULL: true */
	struct rf_ra_body *body;    /* NULL: none was written, always true */
	struct rf_ra_rule *otherwise; /* else: value and body only; a list of any length, walk it in a loop */
	struct rf_ra_rule *same_head; /* v0: p { a } { b }: the next body under the same head */
	struct rf_rv *metadata;	    /* of "# METADATA" comments above with scope rule, in order; NULL: none */
	uint32_t n_metadata;
	struct rf_rv *document;	    /* likewise with scope document: holds for all rules of this name */
};

struct rf_ra_import {
	struct rf_ra_loc loc;
	struct rf_ra_term *path; /* data.a.b, input.x, rego.v1, future.keywords.in */
	struct rf_str alias;	 /* empty: the last part of the path */
};

struct rf_ra_comment {
	struct rf_ra_loc loc;
	struct rf_str text; /* behind the # */
};

struct rf_ra_module {
	struct rf_str file; /* for messages */
	struct rf_str source;
	bool v1;	    /* v1's rules hold, by request or by `import rego.v1` */
	struct rf_ra_loc package_loc;
	struct rf_str *package; /* the parts behind data: "kubernetes", "admission" */
	uint32_t n_package;
	struct rf_rv *metadata; /* scope package; NULL: none */
	struct rf_rv *subpackages; /* scope subpackages; NULL: none */
	struct rf_ra_import *import;
	uint32_t n_imports;
	struct rf_ra_rule **rule; /* in order */
	uint32_t n_rules;
	struct rf_ra_comment *comment;
	uint32_t n_comments;
};

/* Errors are collected, not only the first; each has OPA's code ("rego_parse_error", ...), a place and a
 * text. */
struct rf_ra_error {
	const char *code;
	struct rf_str file;
	struct rf_ra_loc loc;
	struct rf_str text;
	struct rf_str line; /* of the source, for the caret */
};

struct rf_ra_errors {
	struct rf_arena *arena;
	struct rf_ra_error error[10];
	uint32_t n; /* more than 10 are not kept */
};
/* Adds one; fmt as printf. */
void rf_ra_complain(struct rf_ra_errors *e, const char *code, const struct rf_ra_module *m,
		    struct rf_ra_loc loc, const char *fmt, ...) RF_PRINTF(5, 6);
/* "file:3:7: rego_parse_error: text", the line and a caret below. */
void rf_ra_print_errors(struct rf_buf *out, const struct rf_ra_errors *e);

/* Which version the text is in when it does not say so itself. */
enum rf_ra_version { RF_RA_V0, RF_RA_V1 };
/* 0, or -RF_BAD_REQUEST with errors filled in. Caps: 4 MiB of text, 200 levels deep. */
int rf_ra_parse(struct rf_arena *a, struct rf_str file, struct rf_str source,
		enum rf_ra_version version, struct rf_ra_module **ret, struct rf_ra_errors *errors);
/* A query: a body without a rule. */
int rf_ra_parse_body(struct rf_arena *a, struct rf_str file, struct rf_str source,
		     enum rf_ra_version version, struct rf_ra_body **ret,
		     struct rf_ra_errors *errors);
/* A term without variables or anything to compute, as in tests' input_term. */
int rf_ra_parse_value(struct rf_arena *a, struct rf_str source, struct rf_rv *ret,
		      struct rf_ra_errors *errors);
/* As `opa fmt` lays it out (v1 modules in v1, v0 modules in v0). */
void rf_ra_format(struct rf_buf *out, const struct rf_ra_module *m);
/* The tree as S-expressions, one statement per line: for tests and for looking at it. */
void rf_ra_dump(struct rf_buf *out, const struct rf_ra_module *m);
void rf_ra_dump_body(struct rf_buf *out, const struct rf_ra_body *b);

#endif
