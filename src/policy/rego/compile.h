/* Between the parser's tree and the plan: terms with every name resolved. Only the compiler's files
 * (resolve.c, order.c, generate.c, compile.c) see this. */
#ifndef RF_POLICY_REGO_COMPILE_H
#define RF_POLICY_REGO_COMPILE_H

#include "policy/rego/plan.h"

/* Parts of the path of a package and a rule's name together. */
#define RF_RC_PATH_MAX 500

/* Of one expression, which may become several goals, each under all of them. */
#define RF_RC_WITH_MAX 200

/* Looks at expressions, whether they can come next: a body of some 5000 in the worst order. For each byte
 * of the modules some more. */
#define RF_RC_TRIES_MAX 16000000
#define RF_RC_TRIES_PER_BYTE 8

struct rf_rc_scope;
struct rf_rt;

/* A set of names, in the order they were added. */
struct rf_rc_names {
	struct rf_str *name;
	uint32_t n, room;
	uint32_t *slot, slots; /* open addressing, 1 + index; NULL while small */
};

enum rf_rc_by { RF_RC_BY_NAME, RF_RC_BY_SOME, RF_RC_BY_EVERY, RF_RC_BY_ASSIGN };

struct rf_rc_var {
	struct rf_str name;
	uint32_t slot;
	enum rf_rc_by by; /* how it was declared, if that makes it one that must be used */
	uint32_t uses;
	struct rf_rc_term *constant; /* x := "a": what it is, wherever it is known */
	bool declared; /* by some, := or as an argument */
	bool wild;
	bool shown;    /* in a template: then OPA does not hold it to a type */
	bool bound;    /* has its value at the point that is being generated */
	bool pending;  /* will have it once the references of the same expression are walked */
	/* safety.c's */
	bool made, global, safe;
	uint32_t seen, in_body, out, unified, left;
	struct rf_rc_scope *scope;
	const struct rf_rt *type; /* while types are checked; NULL: not known */
	struct rf_ra_loc loc;
	struct rf_rc_var *next;
};

struct rf_rc_scope {
	struct rf_rc_scope *parent;
	struct rf_rc_var *vars;
	struct rf_rc_names names; /* of vars but wild ones; named: the last of each */
	struct rf_rc_var **named;
	uint32_t room_named;
	struct rf_rc_names later; /* names that this body declares further on */
	struct rf_rc_names inner; /* of `some`, that only closures in this body use */
	bool *inner_used;
	struct rf_ra_loc *inner_loc;
	/* of a closure (comprehension, every, not {}): variables of outer scopes that it uses */
	struct rf_rc_var **outer;
	uint32_t n_outer, room_outer;
	uint32_t *slot_outer, slots_outer;
	bool closure;
	bool arguments; /* of a function: its body is the scope below */
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
	bool held;	      /* CONST: a variable stands there that is known to be it */
	const struct rf_rt *type; /* as a variable's */
	struct rf_ra_loc loc;
	uint32_t n;
	struct rf_rv value;
	struct rf_rc_var *var;
	struct rf_rc_term **item;
	const struct rf_rb *builtin;
	struct rf_rego_group *group;
	struct rf_rc_term *key, *term; /* comprehensions */
	struct rf_rc_term *late; /* of a head: a variable that has its value if the body had to compute it */
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
	bool inside; /* NOT: read where `not { ... }` can be read, too */
	bool late;   /* EQ: computes what the head gives; only where others need what it gives values to */
	struct rf_ra_loc loc;
	struct rf_rc_term *a, *b, *key;
	struct rf_rc_body *body, *other;
	struct rf_rc_scope *scope, *other_scope;
	struct rf_rc_with *with;
	uint32_t n_with;
	uint32_t order; /* when it was generated */
	uint32_t expr; /* of a query: which expression it came from, 1 + index */
};

/* An expression as it was written, for safety.c: goals may be parts of it. */
struct rf_rc_said {
	enum {
		RF_RC_SAID_TERM,    /* a; b: takes what the call a gives */
		RF_RC_SAID_EQ,	    /* a = b */
		RF_RC_SAID_CLOSURE, /* every over a; not { }, or, and */
		RF_RC_SAID_INSIDE,  /* not a = b, where nothing of it is computed outside */
	} kind;
	bool negated, assigned, every;
	struct rf_ra_loc loc;
	struct rf_rc_term *a, *b;
	const struct rf_rc_body *body, *other;
	const struct rf_rc_scope *scope, *other_scope;
	struct rf_rc_term **with; /* values; NULL: a function */
	uint32_t n_with;
};

struct rf_rc_body {
	struct rf_rc_goal *goal;
	uint32_t n, room;
	struct rf_rc_said *said;
	uint32_t n_said, room_said;
};

/* A rule as it was resolved, for its types. */
struct rf_rc_rule {
	struct rf_rego_group *group;
	const struct rf_ra_module *module;
	struct rf_rc_term **arg, **key; /* key: of partial objects */
	uint32_t n_args, n_keys;
	bool contains;
	struct rf_rc_body *body;
	struct rf_rc_term *value; /* NULL: true; contains: the element */
	struct rf_rc_rule *next;  /* of the same group */
};

/* One rule (or query) being compiled. */
struct rf_rc {
	struct rf_rego *rego;
	struct rf_arena *a; /* the plan's */
	struct rf_ra_errors *errors;
	const struct rf_ra_module *module;
	struct rf_rego_node *package;
	struct rf_rego_group *group; /* whose rule it is; NULL: a query's */
	/* for rego.metadata: the rule if annotations above it are its own (not of else), its name, and how much
	 * of that led to the group */
	struct rf_rc_notes *notes;
	const struct rf_ra_rule *rule;
	const struct rf_ra_term *head;
	uint32_t ground;
	struct rf_rc_rule **rules, *seen; /* rules: of all groups; seen: this one */
	uint32_t n_slots, n_ordered;
	uint64_t n_tried, n_checked, more_tries;
	uint32_t stamp; /* safety.c's */
	bool unsafe; /* it has been told */
	struct rf_rc_computed { /* arguments of the rule that the body has to compute and compare */
		struct rf_rc_term *var;
		const struct rf_ra_term *term;
		struct rf_rc_computed *next;
	} *computed;
	struct rf_rp_step **tail; /* where the next step goes */
	struct rf_rc_edges *edges;
	struct rf_rc_imports *imports; /* of the module; NULL: none */
	bool strict;
	struct rf_rc_names used_arguments; /* strict: of the rule and its else */
	uint32_t in_template; /* inside templates that many */
	const struct rf_ra_term *statement; /* a call that stands alone may name its result as last argument */
	uint32_t *value_slot; /* a query's: where the values of its expressions go */
	uint32_t n_values;
	struct rf_rc_var **last; /* a query's: values that must not be false */
	uint32_t n_last;
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

/* The names a module imports. */
struct rf_rc_imports {
	struct rf_rc_names names;
	const struct rf_ra_import **import;
	bool *used;
};

/* Annotations by node: of packages; of documents and of subpackages. */
struct rf_rc_notes {
	const struct rf_rv **package, **path;
	const struct rf_ra_module *twice; /* where one is said again; told if somebody asks */
	struct rf_ra_loc twice_loc;
	struct rf_str twice_scope;
};

/* safety.c: of a rule, what its head gives belongs to the body. False: it is not safe, and that has been told. */
bool rf_rc_check_safety(struct rf_rc *c, const struct rf_rc_body *b, struct rf_rc_term **key, uint32_t n_keys,
			struct rf_rc_term *value);

/* check_module.c */
void rf_rc_complain_tries(struct rf_rc *c, struct rf_ra_loc loc);
/* One look more; true: there were too many, and it has been told. */
bool rf_rc_tried(struct rf_rc *c, struct rf_ra_loc loc);
void rf_rc_check_module(struct rf_rc *c);
struct rf_rc_imports *rf_rc_imports(struct rf_rc *c);
void rf_rc_check_imports_used(struct rf_rc *c); /* after all rules were resolved */

/* check_types.c */
void rf_rc_complain_arity(struct rf_rc *c, struct rf_rc_term *call, bool statement);

/* recursion.c: ids of all groups, each after those it refers to; if there is a circle, an error */
const uint32_t *rf_rc_check_recursion(struct rf_rego *r, struct rf_rc_edges *edges,
				      struct rf_ra_errors *errors);

/* metadata.c */
struct rf_rc_notes *rf_rc_notes(struct rf_rego *r);
void rf_rc_note_document(struct rf_rc_notes *n, const struct rf_rego_node *at,
			 const struct rf_ra_rule *rule, const struct rf_ra_module *m);
/* The constant a call of rego.metadata.* is. False: it is another function, or in no rule. */
bool rf_rc_metadata(struct rf_rc *c, const struct rf_rb *builtin, struct rf_rv *ret);

/* scope.c */
uint32_t rf_rc_name_at(const struct rf_rc_names *l, struct rf_str name); /* UINT32_MAX: not there */
uint32_t rf_rc_name_add(struct rf_rc *c, struct rf_rc_names *l, struct rf_str name);
struct rf_rc_scope *rf_rc_scope(struct rf_rc *c, struct rf_rc_scope *parent, bool closure);
struct rf_rc_var *rf_rc_add_var(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name,
				struct rf_ra_loc loc, bool wild);
struct rf_rc_var *rf_rc_temp(struct rf_rc *c);
struct rf_rc_var *rf_rc_find_here(const struct rf_rc_scope *s, struct rf_str name);
struct rf_rc_var *rf_rc_find(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name);
struct rf_rc_var *rf_rc_declare(struct rf_rc *c, struct rf_rc_scope *s, struct rf_str name,
				struct rf_ra_loc loc);
/* Declares the variables of an argument's pattern. */
void rf_rc_declare_all(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t);
/* After all that can use the scope's variables was resolved. */
void rf_rc_check_unused(struct rf_rc *c, const struct rf_rc_scope *s);

/* resolve.c */
struct rf_rc_term *rf_rc_term(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t);
/* A rule's argument: a pattern. What is in it that must be computed (references, calls, templates) becomes
 * a variable that rf_rc_rule_body compares, because the body may have the variables it needs. */
struct rf_rc_term *rf_rc_argument(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_term *t);
struct rf_rc_body *rf_rc_rule_body(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b,
				   const struct rf_ra_rule *head, const struct rf_ra_term *value);
struct rf_rc_body *rf_rc_body(struct rf_rc *c, struct rf_rc_scope *s, const struct rf_ra_body *b);
/* References in what a head gives may give values to variables that the body uses: then the body computes it. */
void rf_rc_in_body(struct rf_rc *c, struct rf_rc_body *b, struct rf_rc_term *t);
struct rf_rc_term *rf_rc_new(struct rf_rc *c, enum rf_rc_kind kind, struct rf_ra_loc loc);

/* order.c: what may come next */
bool rf_rc_ready_value(const struct rf_rc_term *t);
bool rf_rc_ready_pattern(const struct rf_rc_term *t);
bool rf_rc_ready(const struct rf_rc_goal *g);
void rf_rc_complain_var(struct rf_rc *c, const struct rf_rc_var *v, struct rf_ra_loc loc);
void rf_rc_complain_unsafe(struct rf_rc *c, const struct rf_rc_goal *g);
void rf_rc_complain_unsafe_term(struct rf_rc *c, const struct rf_rc_term *t);
bool rf_rc_iterates(const struct rf_rc_term *t); /* a reference with a key that has no value yet */

/* generate.c */
void rf_rc_generate(struct rf_rc *c, struct rf_rc_body *b);
void rf_rc_generate_query(struct rf_rc *c, struct rf_rc_body *b);
struct rf_rp_expr *rf_rc_value(struct rf_rc *c, struct rf_rc_term *t); /* may emit steps */
/* Of a head, after its body: with what that has computed of it. */
struct rf_rp_expr *rf_rc_head_value(struct rf_rc *c, struct rf_rc_term *t);
struct rf_rp_pattern *rf_rc_pattern(struct rf_rc *c, struct rf_rc_term *t);
void rf_rc_mark_head(struct rf_rc *c, struct rf_ra_loc loc, struct rf_rp_rule *rule); /* after its value */

/* Once all rules are there: narrow.c, index.c, pack.c, once.c, in this order. */
void rf_rc_narrow(struct rf_rego *r);
void rf_rc_index(struct rf_rego *r);
void rf_rc_pack(struct rf_rego *r);
void rf_rc_number(struct rf_rego *r);


#endif
