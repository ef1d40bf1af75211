/* Inside the evaluator: eval.c (steps, expressions, calls), documents.c (partial rules, places in the tree, with),
 * query.c (a query from its beginning to its answers), fix.c, sign.c and joint.c (one plan for many policies). */
#ifndef RF_POLICY_REGO_EVAL_H
#define RF_POLICY_REGO_EVAL_H

#include "policy/rego/plan.h"

enum result { MORE, STOP, FAIL };      /* of steps: go on searching, enough, an error */
enum answer { GIVEN, UNDEFINED, ERROR }; /* of expressions */

struct rf_re_cached {
	uint8_t state; /* 0: not known; 1: value; 2: undefined */
	struct rf_rv value;
};

struct rf_re_mock {
	const struct rf_rego_group *function;
	const struct rf_rb *builtin;
	struct rf_rego_group *by_function;
	const struct rf_rb *by_builtin;
	struct rf_rv value;
};

/* A call and what it gave. */
struct rf_re_memo {
	const struct rf_rego_group *group; /* NULL: empty */
	const struct rf_rv *args;
	struct rf_re_cached result;
};
#define RF_RE_MEMOS 32

/* Says what rules compute (sign.c): two places with the same sign compute the same from the same input. Zero: none. */
struct rf_re_sign {
	uint64_t a, b;
};
static inline bool rf_re_is_signed(struct rf_re_sign s)
{
	return (s.a | s.b) != 0;
}

/* What `with` changes, and what is known while it is so. */
struct rf_re_env {
	bool has_input;
	struct rf_rv input, data;
	const struct rf_rp_with **over; /* of data */
	uint32_t n_over;
	struct rf_re_mock *mock;
	uint32_t n_mocks;
	struct rf_re_cached *group, *node, *path, *once;
	struct rf_re_memo *memo; /* NULL: no call was worth it yet */
	uint32_t n_memos;	 /* a power of two */
};

struct rf_re {
	const struct rf_rego *rego;
	struct rf_arena *arena;
	struct rf_re_env *env;
	struct rf_rb_env builtins;
	int64_t fuel;
	int64_t deadline_ns; /* of rf_mono_ns; 0: none */
	bool strict;
	uint32_t depth;
	struct rf_rv *stack;
	uint32_t top, room;
	const struct rf_rp_rule *rule; /* that is being evaluated; NULL: the query itself */
	bool *seen; /* by spot; NULL: nobody asks */
	struct rf_err *err;
};

/* What happens with a solution. */
struct rf_re_cont {
	enum result (*fn)(struct rf_re *x, struct rf_re_cont *k, struct rf_rv *frame);
};

/* Solutions of one place's rules, or of a call. */
struct rf_re_found {
	struct rf_re_cont cont;
	const struct rf_rp_rule *rule; /* the one that is being tried */
	const struct rf_rego_group *group;
	bool found;
	struct rf_rv value;
};

/* eval.c */
enum result rf_re_run(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv *frame,
			    struct rf_re_cont *k);
enum answer rf_re_eval(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			     struct rf_rv *ret);
enum answer rf_re_follow(struct rf_re *x, const struct rf_rp_expr *e, uint32_t from, struct rf_rv v,
			       struct rf_rv *frame, struct rf_rv *ret);
/* As rf_rv_get; base documents are found by the text of a number too. */
bool rf_re_base(struct rf_rv v, struct rf_rv key, struct rf_rv *ret);
/* One rule with its else chain. */
enum result rf_re_rule(struct rf_re *x, const struct rf_rp_rule *rule, const struct rf_rv *args,
			     struct rf_re_found *c);
/* The value of a complete rule or of a call. */
enum answer rf_re_rules(struct rf_re *x, const struct rf_rego_group *g, const struct rf_rv *args,
			      struct rf_rv *ret);
struct rf_rv *rf_re_frame(struct rf_re *x, uint32_t n); /* NULL: the arena is full */
enum answer rf_re_full(struct rf_re *x);
enum result rf_re_conflict(struct rf_re *x, const struct rf_rego_group *g);

/* query.c */
#define RF_RE_STACK 1024 /* slots; deeper frames are in the arena */
#define RF_RE_STEPS 100000000
int64_t rf_re_wall_ns(void);
bool rf_re_set_up(struct rf_re *x, const struct rf_rego_run *run);

/* documents.c */
enum answer rf_re_data(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			     struct rf_rv *ret);
/* The value of a place's rules. */
enum answer rf_re_group(struct rf_re *x, const struct rf_rego_group *g, struct rf_rv *ret);
/* A copy that knows nothing yet, with room for so many more changes. NULL: the arena is full. */
struct rf_re_env *rf_re_new_env(struct rf_re *x, const struct rf_re_env *from, uint32_t more);
enum result rf_re_with(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv *frame,
			     struct rf_re_cont *k);

/* The object with one member more (joint.c); what is none counts as empty. False: the arena is full. */
bool rf_re_with_member(struct rf_arena *a, struct rf_rv object, struct rf_rv key, struct rf_rv value, struct rf_rv *ret);

/* fix.c: equal values as one, so that calls with them are known again. */
struct rf_re_pool;
struct rf_re_pool *rf_re_pool_new(void);
void rf_re_pool_free(struct rf_re_pool *p); /* NULL is allowed */
bool rf_re_pooled(struct rf_re_pool *p, struct rf_rv v, struct rf_rv *ret); /* false: the pool is full */

/* What a policy computes of input[key] alone. The values are in the pool, or in the arena. */
struct rf_re_fixed {
	struct rf_re_cached *group, *once; /* by their numbers */
};
void rf_re_fix(const struct rf_rego *r, struct rf_str key, struct rf_rv value, struct rf_re_pool *pool,
	       struct rf_arena *a, const struct rf_re_fixed *ret);
/* sign.c: the signs of a policy's places where input[key] is value. known: what was computed of that alone. */
void rf_re_signs(const struct rf_rego *r, struct rf_str key, struct rf_rv value, const struct rf_re_fixed *known,
		 struct rf_re_sign *ret);

#endif
