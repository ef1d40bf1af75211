/* Rego: policies in, verdicts out. Depends on base and codec (RE2 and OpenSSL inside some builtins).
 *
 *	struct rf_rego *r;
 *	rf_rego_compile(&opts, sources, n, data, &r, errors)       once for all policies
 *	rf_rego_prepare(r, "data.kubernetes.admission.deny", ...)  once per query
 *	rf_rego_eval(query, &run, &result, err)                    any number, any thread
 *
 * A compiled policy is never changed and may be used by any number of threads at once. An evaluation
 * has an arena with a cap and a number of steps; whichever is used up first ends it with RF_EXHAUSTED. */
#ifndef RF_POLICY_REGO_H
#define RF_POLICY_REGO_H

#include "policy/rego/ast.h"
#include "policy/rego/builtin.h"

struct rf_rego;
struct rf_rego_query;

struct rf_rego_source {
	struct rf_str file;
	struct rf_str text;
	enum rf_ra_version version;
};

/* data: an object, the base documents; NULL: empty. Copied. Errors: -RF_INVALID, all that were found. */
int rf_rego_compile(const struct rf_rego_source *source, size_t n, const struct rf_rv *data,
		    struct rf_rego **ret, struct rf_ra_errors *errors);
/* The same with marks in it, for coverage.h; slower. */
int rf_rego_compile_covered(const struct rf_rego_source *source, size_t n, const struct rf_rv *data,
			    struct rf_rego **ret, struct rf_ra_errors *errors);
/* The same without anything that makes it faster, for tests: both must give the same. */
int rf_rego_compile_plain(const struct rf_rego_source *source, size_t n, const struct rf_rv *data,
			  struct rf_rego **ret, struct rf_ra_errors *errors);
/* Only looks for errors, and for more of them than OPA needs to run a policy (its strict mode): imports,
 * variables and arguments nobody uses, deprecated builtins. */
int rf_rego_check(const struct rf_rego_source *source, size_t n, struct rf_ra_errors *errors);
/* Modules do not say which Rego they are in, and both are in use: v1 if it can be read as such, else v0. */
enum rf_ra_version rf_rego_version_of(struct rf_str file, struct rf_str text);
struct rf_rego *rf_rego_ref(struct rf_rego *r);
void rf_rego_unref(struct rf_rego *r); /* NULL is allowed */

/* Keeps a reference to r. A query may be any body: "x := data.a.b; x > 1". */
int rf_rego_prepare(struct rf_rego *r, struct rf_str query, enum rf_ra_version version,
		    struct rf_rego_query **ret, struct rf_ra_errors *errors);
void rf_rego_query_free(struct rf_rego_query *q);

struct rf_rego_fixed;
struct rf_rego_shared;
struct rf_rego_coverage;

struct rf_rego_run {
	struct rf_arena *arena;	   /* results live here */
	const struct rf_rv *input; /* NULL: undefined */
	const struct rf_rv *data;  /* replaces the compiled base documents where it has something; NULL: as compiled */
	int64_t steps;		   /* 0: 100 million */
	int64_t deadline_ns;	   /* of rf_mono_ns: then it ends as if its steps were used up; 0: none */
	int64_t now_ns;		   /* 0: the clock */
	bool strict;		   /* errors of builtins end the evaluation instead of being undefined */
	uint64_t seed;		   /* of rand.* and uuid.*; 0: by the clock */
	const struct rf_rego_fixed *fixed; /* what was computed before; NULL: nothing */
	struct rf_rego_shared *shared;	   /* with runs of other policies, if fixed is given; NULL: nothing */
	struct rf_rego_coverage *coverage; /* of a covered policy: what was evaluated is added; NULL: not noted */
	int64_t used;		   /* out: steps */
};

/* One answer: the query's variables with their values, and the values of its expressions. */
struct rf_rego_answer {
	struct rf_rv bindings;	  /* object: name to value, without generated ones */
	struct rf_rv expressions; /* array, in the order of the query */
};

struct rf_rego_result {
	struct rf_rego_answer *answer; /* none: undefined */
	size_t n;
};

/* RF_INVALID with OPA's code before the text ("eval_conflict_error: ..."): a conflict, a type error or
 * a builtin's error in strict mode. RF_EXHAUSTED: steps or memory. */
int rf_rego_eval(const struct rf_rego_query *q, struct rf_rego_run *run,
		 struct rf_rego_result *ret, struct rf_err *err);
/* As eval, for a query that is one reference ("data.a.b"), and faster: 1 and its value, 0 if it is undefined. */
int rf_rego_ask(const struct rf_rego_query *q, struct rf_rego_run *run, struct rf_rv *ret, struct rf_err *err);
/* Of a query that is one reference: its value. False: undefined. */
bool rf_rego_value(const struct rf_rego_result *r, struct rf_rv *ret);

/* What the policies compute from input[key] alone, computed now, for all runs that have this value there. Lives in
 * the arena and the pool, in which all whose runs share something (below) keep equal values as one. A run with
 * another value there must not be given it. */
struct rf_rego_pool;
struct rf_rego_pool *rf_rego_pool_new(void);
void rf_rego_pool_free(struct rf_rego_pool *p); /* NULL is allowed */
const struct rf_rego_fixed *rf_rego_fix(const struct rf_rego *r, struct rf_str key, struct rf_rv value,
					struct rf_rego_pool *pool, struct rf_arena *a);

/* What runs on the same input find out for each other: policies that carry the same library compute the same things.
 * The runs may differ in their policies and in what lies under the key of their rf_rego_fixed; all else of input and
 * time must be the same, data is not shared, and they all use this arena. The policies, their fixed ones and the pool live
 * as long as it does. NULL: the arena is full. */
struct rf_rego_shared *rf_rego_share(struct rf_arena *a);

/* Names of rules, for `policy test`: calls fn for each rule of each package ("data.a.b.test_x"). */
void rf_rego_each_rule(const struct rf_rego *r,
		       void (*fn)(void *arg, struct rf_str path, const struct rf_ra_rule *rule,
				  struct rf_str file),
		       void *arg);

#endif
