/* Builtin functions: one table, each row a function over values. */
#ifndef RF_POLICY_REGO_BUILTIN_H
#define RF_POLICY_REGO_BUILTIN_H

#include "policy/rego/value.h"

/* What a builtin may use. Made by the evaluator for each evaluation. */
struct rf_rb_env {
	struct rf_arena *arena;	  /* for results and scratch; full: return RF_RB_FULL */
	int64_t now_ns;		  /* the same for the whole evaluation */
	uint64_t random[4];	  /* seed of this evaluation: rand.intn and uuid.rfc4122 are constant for equal arguments */
	int64_t *fuel;		  /* steps left; loops over what a tenant sizes take from it: rf_rb_spend */
	struct rf_rv rule_metadata, chain_metadata; /* for rego.metadata.*; null if not known */
};

enum rf_rb_result {
	RF_RB_OK,
	RF_RB_UNDEFINED, /* no answer: the expression fails */
	RF_RB_TYPE,	 /* eval_type_error: an operand of the wrong type; err says which */
	RF_RB_ERROR,	 /* eval_builtin_error; undefined unless errors are strict */
	RF_RB_FULL,	 /* the arena or the fuel is used up: the evaluation ends */
};

typedef enum rf_rb_result rf_rb_fn(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				   struct rf_err *err);

/* Types of operands, as bits of 1 << rf_rv_type; what is checked before the function is called. */
#define RF_RB_NUM (1u << RF_RV_NUMBER)
#define RF_RB_STR (1u << RF_RV_STRING)
#define RF_RB_BOOL (1u << RF_RV_BOOL)
#define RF_RB_ARR (1u << RF_RV_ARRAY)
#define RF_RB_OBJ (1u << RF_RV_OBJECT)
#define RF_RB_SET (1u << RF_RV_SET)
#define RF_RB_ANY 0x7fu

struct rf_rb {
	const char *name; /* "count", "json.unmarshal" */
	uint8_t n_args;	  /* at most 8 */
	bool relation;	  /* walk: ret is an array of answers, tried one after the other */
	bool impure;	  /* time, random: not to be computed ahead */
	bool v0_only;	  /* deprecated: v1 modules may not call it */
	uint8_t arg[8];	  /* RF_RB_... bits */
	rf_rb_fn *fn;	  /* NULL: known by name and refused with `refusal` */
	const char *refusal; /* "http.send needs the network; ringfence evaluates without it" */
};

/* By name; NULL if there is none. */
const struct rf_rb *rf_rb_find(struct rf_str name);
size_t rf_rb_count(void);
const struct rf_rb *rf_rb_at(size_t i); /* in order of name */

/* Checks the operands' types, then calls. The text of errors is OPA's:
 * "count: operand 1 must be one of {array, object, set, string} but got number". err may be NULL: nobody will
 * read it, and no text is made. */
enum rf_rb_result rf_rb_call(const struct rf_rb *b, struct rf_rb_env *e, const struct rf_rv *arg,
			     struct rf_rv *ret, struct rf_err *err);

/* Takes steps from the fuel; false: none left. */
static inline bool rf_rb_spend(struct rf_rb_env *e, int64_t steps)
{
	*e->fuel -= steps;
	return *e->fuel > 0;
}

/* Rows live in files by subject; builtin.c collects them. Each file exports one of these. */
struct rf_rb_rows {
	const struct rf_rb *row;
	size_t n;
};
extern const struct rf_rb_rows rf_rb_core;     /* comparison, arithmetic, bits, aggregates, types, casts */
extern const struct rf_rb_rows rf_rb_strings;  /* strings, sprintf, templates */
extern const struct rf_rb_rows rf_rb_regex;    /* regex.*, glob.* */
extern const struct rf_rb_rows rf_rb_objects;  /* arrays, sets, objects, graph, walk, json.filter/remove/patch */
extern const struct rf_rb_rows rf_rb_encoding; /* json, yaml, base64, hex, url, uri */
extern const struct rf_rb_rows rf_rb_world;    /* units, semver, uuid, time, net.cidr, rand, opa.runtime, rego.* */
extern const struct rf_rb_rows rf_rb_crypto;   /* crypto.*, io.jwt.* */
extern const struct rf_rb_rows rf_rb_schema;   /* json.match_schema, json.verify_schema, providers.aws.* */
extern const struct rf_rb_rows rf_rb_graphql;  /* graphql.* */

#endif
