/* Between the parser's tree and the plan: terms with every name resolved. Only the compiler's files
 * (resolve.c, order.c, generate.c, compile.c) see this. */
#ifndef RF_POLICY_REGO_COMPILE_H
#define RF_POLICY_REGO_COMPILE_H

#include "policy/rego/plan.h"

struct rf_rc_scope;

struct rf_rc_var {
	struct rf_str name;
	uint32_t slot;
	bool declared; /* by some, := or as an argument */
	bool wild;
	bool bound;    /* has its value at the point that is being generated */
	bool pending;  /* will have it once the references of the same expression are walked */
	struct rf_rc_scope *scope;
	struct rf_ra_loc loc;
	struct rf_rc_var *next;
};

struct rf_rc_scope {
	struct rf_rc_scope *parent;
	struct rf_rc_var *vars;
	struct rf_str *later; /* names that this body declares further on */
	uint32_t n_later;
	/* of a closure (comprehension, every, not {}): variables of outer scopes that it uses */
	struct rf_rc_var **outer;
	uint32_t n_outer, room_outer;
	bool closure;
};

enum rf_rc_kind {
	RF_RC_CONST,
	RF_RC_VAR,
	RF_RC_INPUT,
	RF_RC_DATA,
	RF_RC_REF, /* item[0] the head, then keys */
	RF_RC_ARRAY,
	RF_RC_SET,
	RF_RC_OBJECT,
	RF_RC_COMP,
	RF_RC_CALL,
	RF_RC_TEMPLATE,
};

struct rf_rc_body;

struct rf_rc_term {
	enum rf_rc_kind kind;
	enum rf_ra_kind comp; /* which comprehension */
	bool first;	      /* only its first item is meant */
	struct rf_ra_loc loc;
	uint32_t n;
	struct rf_rv value;
	struct rf_rc_var *var;
	struct rf_rc_term **item;
	const struct rf_rb *builtin;
	struct rf_rego_group *group;
	struct rf_rc_term *key, *term; /* comprehensions */
	struct rf_rc_body *body;
	struct rf_rc_scope *scope;
};

enum rf_rc_goal_kind {
	RF_RC_TEST,
	RF_RC_EQ,
	RF_RC_EACH, /* some key, a in b */
	RF_RC_NOT,  /* body */
	RF_RC_EVERY,
	RF_RC_EITHER,
	RF_RC_BOTH,
};

struct rf_rc_with {
	struct rf_rp_with to; /* all but value */
	struct rf_rc_term *value;
};

struct rf_rc_goal {
	enum rf_rc_goal_kind kind;
	bool done;
	bool strict; /* NOT: of one expression, all of whose variables must have values */
	struct rf_ra_loc loc;
	struct rf_rc_term *a, *b, *key;
	struct rf_rc_body *body, *other;
	struct rf_rc_scope *scope, *other_scope;
	struct rf_rc_with *with;
	uint32_t n_with;
	uint32_t expr; /* of a query: which expression it came from, 1 + index */
};

struct rf_rc_body {
	struct rf_rc_goal *goal;
	uint32_t n, room;
};

/* One rule (or query) being compiled. */
struct rf_rc {
	struct rf_rego *rego;
	struct rf_arena *a; /* the plan's */
	struct rf_ra_errors *errors;
	const struct rf_ra_module *module;
	struct rf_rego_node *package;
	struct rf_rego_group *group; /* whose rule it is; NULL: a query's */
	uint32_t n_slots;
	struct rf_rp_step **tail; /* where the next step goes */
	struct rf_rc_edges *edges;
	uint32_t *value_slot; /* a query's: where the values of its expressions go */
	uint32_t n_values;
};

/* who refers to whom, for recursion */
struct rf_rc_edges {
	struct rf_rc_edge {
		struct rf_rego_group *from, *to;
		struct rf_rego_node *node;	 /* what keys lead to from there, if to is NULL */
		const struct rf_rp_expr *keys;	 /* NULL: everything below it */
		struct rf_ra_loc loc;
		const struct rf_ra_module *module;
	} *edge;
	uint32_t n, room;
};

/* resolve.c */
struct rf_rc_term *rf_rc_term(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t);
struct rf_rc_body *rf_rc_body(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b);
struct rf_rc_scope *rf_rc_scope(struct rf_rc *c, struct rf_rc_scope *parent, bool closure);
struct rf_rc_var *rf_rc_declare(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name,
				struct rf_ra_loc loc);
/* Declares the variables of an argument's pattern. */
void rf_rc_declare_all(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t);
struct rf_rc_term *rf_rc_new(struct rf_rc *c, enum rf_rc_kind kind, struct rf_ra_loc loc);
struct rf_rc_var *rf_rc_temp(struct rf_rc *c);

/* order.c: what may come next */
bool rf_rc_ready_value(const struct rf_rc_term *t);
bool rf_rc_ready_pattern(const struct rf_rc_term *t);
bool rf_rc_ready(const struct rf_rc_goal *g);
void rf_rc_complain_unsafe(struct rf_rc *c, const struct rf_rc_goal *g);
void rf_rc_complain_unsafe_term(struct rf_rc *c, const struct rf_rc_term *t);
bool rf_rc_iterates(const struct rf_rc_term *t); /* a reference with a key that has no value yet */

/* generate.c */
void rf_rc_generate(struct rf_rc *c, struct rf_rc_body *b);
struct rf_rp_expr *rf_rc_value(struct rf_rc *c, struct rf_rc_term *t); /* may emit steps */
struct rf_rp_pattern *rf_rc_pattern(struct rf_rc *c, struct rf_rc_term *t);


#endif
