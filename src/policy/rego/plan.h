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
	RF_RP_NARROWED, /* base, a partial set, of which only what the group makes is of use here */
	RF_RP_PLACE,	/* what the rules of a group give, then keys; in joint plans, where no `with` is */
	RF_RP_WHOLE,	/* input, and value under the key that is its item; in joint plans, computed once */
	RF_RP_NEVER,	/* no value, ever; in joint plans */
};

/* Builtins that are so small that their call would cost more than they do. */
enum rf_rp_quick {
	RF_RP_CALLED,
	RF_RP_Q_EQUAL,
	RF_RP_Q_NEQ,
	RF_RP_Q_LT,
	RF_RP_Q_LTE,
	RF_RP_Q_GT,
	RF_RP_Q_GTE,
	RF_RP_Q_PLUS,
	RF_RP_Q_MINUS,
	RF_RP_Q_COUNT,
	RF_RP_Q_MEMBER,
	RF_RP_Q_IS_STRING,
	RF_RP_Q_IS_NUMBER,
	RF_RP_Q_IS_ARRAY,
	RF_RP_Q_IS_OBJECT,
};

struct rf_rp_expr {
	uint8_t kind;	    /* enum rf_rp_kind */
	bool first;	    /* ARRAY_COMP: only its first item is meant */
	union {
		bool known_path; /* INPUT: its first keys are one of rf_rego's paths */
		bool document;	 /* REF: base is of data */
		bool sorted;	 /* OBJECT: keys are constants, in order, each once */
	};
	union {
		uint8_t path_keys; /* INPUT: how many keys that are */
		uint8_t quick;	   /* BUILTIN: enum rf_rp_quick */
	};
	uint32_t n;	    /* items */
	uint32_t slot;	    /* SLOT; INPUT: which path; calls, comprehensions, WHOLE: 1 + index in once, 0: none */
	uint32_t row;	    /* in the source */
	struct rf_rp_expr *item; /* keys, items, arguments, in one piece */
	union {
		struct rf_rv value; /* CONST, WHOLE */
		struct {
			struct rf_rp_expr *base; /* REF, NARROWED; comprehensions: the term */
			struct rf_rp_expr *key;	 /* OBJECT_COMP */
		};
	};
	union {
		struct rf_rp_step *body;     /* comprehensions */
		struct rf_rego_node *node;   /* DATA */
		const struct rf_rb *builtin; /* BUILTIN */
		struct rf_rego_group *group; /* FUNCTION, NARROWED, PLACE */
	};
};

static inline bool rf_rp_is_comp(const struct rf_rp_expr *e)
{
	return e->kind >= RF_RP_ARRAY_COMP && e->kind <= RF_RP_OBJECT_COMP;
}

static inline bool rf_rp_has_base(const struct rf_rp_expr *e)
{
	return e->kind == RF_RP_REF || e->kind == RF_RP_NARROWED || rf_rp_is_comp(e);
}

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
	union {
		struct rf_rp_expr *expr; /* EQUAL */
		struct rf_rp_expr *key;	 /* FIELDS: as many as parts */
	};
	struct rf_rp_pattern *part; /* in one piece */
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
	RF_RP_FORK,	/* what several rules have in common ends here: each of them goes on by itself */
	RF_RP_MARK,	/* the evaluation came by here (coverage.h); n: which spot */
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
	uint8_t op;	/* enum rf_rp_op */
	bool walked_on; /* EACH: the next step walks each value, so only collections are of use */
	uint32_t n;	/* changes, branches, keys in only, or which spot */
	uint32_t row;	/* in the source */
	struct rf_rp_expr *expr;
	struct rf_rp_pattern *key, *pattern;
	union {
		struct rf_rp_step *body;     /* NOT, EVERY, EITHER, BOTH, WITH */
		struct rf_rp_branch *branch; /* FORK */
		struct rf_rv *only;	     /* EACH: these keys alone lead to something; NULL: all do */
	};
	union {
		struct rf_rp_step *other; /* EITHER, BOTH */
		struct rf_rp_with *with;  /* WITH */
	};
	struct rf_rp_step *next;
};

static inline bool rf_rp_has_body(const struct rf_rp_step *s)
{
	return s->op >= RF_RP_NOT && s->op <= RF_RP_WITH;
}

static inline bool rf_rp_has_other(const struct rf_rp_step *s)
{
	return s->op == RF_RP_EITHER || s->op == RF_RP_BOTH;
}

struct rf_rp_branch {
	struct rf_rp_rule *rule; /* its body begins in front of the fork */
	struct rf_rp_step *rest;
};

/* --- rules --- */
struct rf_rp_rule {
	struct rf_ra_loc loc;
	const struct rf_ra_rule *ast;
	struct rf_str file;
	uint32_t n_slots;
	struct rf_rp_pattern *arg; /* in one piece */
	uint32_t n_args;
	struct rf_rp_step *body;
	struct rf_rp_expr *path; /* of partial objects: the keys behind the group's place */
	uint32_t n_path;
	bool contains;
	struct rf_rp_expr *value;
	bool constant; /* value is a constant */
	struct rf_rp_rule *otherwise;
	struct rf_rp_rule *packed; /* the compiler's: where it lies in the end */
};

enum rf_rego_group_kind { RF_REGO_COMPLETE, RF_REGO_PARTIAL_SET, RF_REGO_PARTIAL_OBJECT, RF_REGO_FUNCTION };

/* A function's rules by a constant that most of them want as the same argument. */
struct rf_rego_index {
	uint32_t arg;
	struct rf_rego_indexed {
		struct rf_rv value;
		struct rf_rp_rule **rule; /* for this value or any */
		uint32_t n;
	} *at; /* in order */
	uint32_t n;
	struct rf_rp_rule **other; /* for any value */
	uint32_t n_other;
};

/* All rules of one place. */
struct rf_rego_group {
	enum rf_rego_group_kind kind;
	uint32_t id; /* index of its cache */
	struct rf_rego_node *node;
	uint32_t n_args;
	struct rf_rp_rule **rule;
	uint32_t n;
	struct rf_rp_rule **merged; /* of a partial set: the same, those that begin alike as one */
	uint32_t n_merged;
	struct rf_rp_rule *fallback; /* default */
	const struct rf_rp_rule *first; /* the one that errors name; NULL: the first that there is */
	bool same_constant;	     /* all rules give the same constant: the first that holds decides */
	struct rf_rv constant;
	struct rf_rego_index *index; /* of a function; NULL: all rules are tried */
	bool memo;		     /* worth remembering: results of calls, or what it has in common with others */
	bool fixable;		     /* depends on no more of the input than fix_key, */
	bool fix_any;		     /* or on nothing */
	struct rf_rv fix_key;
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

/* A place in the input that rules read by name; the first is the input itself. */
struct rf_rego_path {
	uint32_t parent;
	struct rf_rv key;
};

/* An expression with one value for a whole evaluation. */
#define RF_REGO_ONCE_MAX 256
#define RF_REGO_ONCE_SLOTS 64 /* of the frame; what uses others is not such an expression */
struct rf_rego_once {
	const struct rf_rp_expr *expr;
	bool fixable;	  /* depends on no more of the input than key, */
	bool any;	  /* or on nothing */
	struct rf_rv key;
};

/* An expression or a rule's head, in a policy that tells which of them were evaluated. */
struct rf_rego_spot {
	const struct rf_ra_module *module;
	struct rf_ra_loc loc;
	bool optional; /* not missed where nothing came by */
};

struct rf_rego {
	int refs;
	struct rf_arena arena; /* the tree of documents and the modules */
	struct rf_arena plan;  /* what evaluation walks */
	struct rf_rego_node *root; /* data */
	struct rf_rv data;
	uint32_t n_groups, n_nodes;
	struct rf_rego_group **group;
	const uint32_t *order; /* ids of groups, each after those it refers to; not of those that narrow.c made */
	uint32_t n_order;
	struct rf_rego_path *path;
	uint32_t n_paths, room_paths;
	struct rf_rego_once *once;
	uint32_t n_once;
	struct rf_ra_module **module;
	uint32_t n_modules;
	bool covered; /* has marks */
	bool plain;   /* as it was written: nothing is done to make it faster */
	struct rf_rego_spot *spot;
	uint32_t n_spots, room_spots;
};

struct rf_rego_query {
	struct rf_rego *rego;
	struct rf_arena arena;
	struct rf_rp_step *body;
	struct rf_rp_expr *one; /* it is this expression; NULL: it is more */
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
