/* What modules become: rules as lists of steps over numbered slots. Made once, never changed.
 *
 * Safety analysis (order.c) puts the expressions of a body into an order in which, at each of them,
 * it is known which variables have values. So every occurrence of a variable either gives it its value
 * or uses it, and nothing has to be undone when the evaluator tries the next alternative: a slot is
 * simply written again. */
#ifndef RF_POLICY_REGO_PLAN_H
#define RF_POLICY_REGO_PLAN_H

#include "policy/rego/rego.h"

struct rf_rego_group;
struct rf_rego_node;
struct rf_rp_step;

/* --- expressions: at most one value --- */
enum rf_rp_kind {
	RF_RP_CONST,
	RF_RP_SLOT,
	RF_RP_INPUT,	/* input, then keys */
	RF_RP_DATA,	/* a place in the tree of documents, then keys */
	RF_RP_REF,	/* base, then keys */
	RF_RP_ARRAY,
	RF_RP_SET,
	RF_RP_OBJECT,	/* key, value, key, value */
	RF_RP_BUILTIN,
	RF_RP_FUNCTION,
	RF_RP_ARRAY_COMP,
	RF_RP_SET_COMP,
	RF_RP_OBJECT_COMP,
	RF_RP_TEMPLATE,
};

struct rf_rp_expr {
	enum rf_rp_kind kind;
	bool first;	    /* ARRAY_COMP: only its first item is meant */
	uint32_t n;
	uint32_t slot;
	struct rf_ra_loc loc;
	struct rf_rv value;
	struct rf_rp_expr **item;     /* keys, items, arguments */
	struct rf_rp_expr *base;      /* REF; comprehensions: the term */
	struct rf_rp_expr *key;	      /* OBJECT_COMP */
	struct rf_rp_step *body;      /* comprehensions */
	struct rf_rego_node *node;    /* DATA */
	const struct rf_rb *builtin;
	struct rf_rego_group *group;  /* FUNCTION */
};

/* --- patterns: taking a value apart --- */
enum rf_rp_pattern_kind {
	RF_RP_ANY,
	RF_RP_BIND,	/* the slot gets it */
	RF_RP_EQUAL,	/* must equal the expression */
	RF_RP_PARTS,	/* an array of so many items */
	RF_RP_FIELDS,	/* an object of exactly these keys */
};

struct rf_rp_pattern {
	enum rf_rp_pattern_kind kind;
	uint32_t slot, n;
	struct rf_rp_expr *expr;
	struct rf_rp_expr **key; /* FIELDS */
	struct rf_rp_pattern **part;
};

struct rf_rego_node *rf_rego_child(const struct rf_rego_node *n, struct rf_str name);

/* --- steps: any number of solutions --- */
enum rf_rp_op {
	RF_RP_TEST,	/* expr is there and not false */
	RF_RP_MATCH,	/* expr fits the pattern */
	RF_RP_EACH,	/* each key and value of expr fits key and pattern */
	RF_RP_EACH_ANSWER, /* each answer of a relation (walk) fits the pattern */
	RF_RP_NOT,	/* body has no solution */
	RF_RP_EVERY,	/* body has one for each key and value of expr */
	RF_RP_EITHER,	/* body or other has a solution */
	RF_RP_BOTH,	/* body and other have one */
	RF_RP_WITH,	/* body, with something else in the place of documents or functions */
};

struct rf_rp_with {
	bool is_input;
	struct rf_str *path; /* of input or data */
	uint32_t n_path;
	struct rf_rego_group *function; /* a function instead, or */
	const struct rf_rb *builtin;
	struct rf_rego_group *by_function; /* another function, or */
	const struct rf_rb *by_builtin;
	struct rf_rp_expr *value;
};

struct rf_rp_step {
	enum rf_rp_op op;
	struct rf_ra_loc loc;
	struct rf_rp_expr *expr;
	struct rf_rp_pattern *key, *pattern;
	struct rf_rp_step *body, *other;
	struct rf_rp_with *with;
	uint32_t n_with;
	struct rf_rp_step *next;
};

/* --- rules --- */
struct rf_rp_rule {
	struct rf_ra_loc loc;
	const struct rf_ra_rule *ast;
	struct rf_str file;
	uint32_t n_slots;
	struct rf_rp_pattern **arg;
	uint32_t n_args;
	struct rf_rp_step *body;
	struct rf_rp_expr **path; /* of partial objects: the keys behind the group's place */
	uint32_t n_path;
	bool contains;
	struct rf_rp_expr *value;
	bool constant; /* value is a constant */
	struct rf_rp_rule *otherwise;
};

enum rf_rego_group_kind { RF_REGO_COMPLETE, RF_REGO_PARTIAL_SET, RF_REGO_PARTIAL_OBJECT, RF_REGO_FUNCTION };

/* All rules of one place. */
struct rf_rego_group {
	enum rf_rego_group_kind kind;
	uint32_t id; /* index of its cache */
	struct rf_rego_node *node;
	uint32_t n_args;
	struct rf_rp_rule **rule;
	uint32_t n;
	struct rf_rp_rule *fallback; /* default */
	bool same_constant;	     /* all rules give the same constant: the first that holds decides */
	struct rf_rv constant;
};

/* The tree of documents that rules make; data's own lie beside it. */
struct rf_rego_node {
	struct rf_str name;
	struct rf_rego_node *parent;
	uint32_t depth;
	uint32_t id;
	struct rf_rego_node **child; /* by name */
	uint32_t n, room;
	struct rf_rego_group *group; /* NULL: a package, or a part of a name */
	bool has_rules;		     /* here or below */
	bool own;		     /* a part of a rule's name, not of a package's alone */
};

struct rf_rego {
	int refs;
	struct rf_arena arena;
	struct rf_rego_node *root; /* data */
	struct rf_rv data;
	uint32_t n_groups, n_nodes;
	struct rf_rego_group **group;
	struct rf_ra_module **module;
	uint32_t n_modules;
};

struct rf_rego_query {
	struct rf_rego *rego;
	struct rf_arena arena;
	struct rf_rp_step *body;
	uint32_t n_slots;
	struct rf_rego_query_var {
		struct rf_str name;
		uint32_t slot;
	} *var;
	uint32_t n_vars;
	uint32_t *value_slot; /* of each expression */
	uint32_t n_values;
};

#endif
