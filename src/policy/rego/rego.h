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

/* --- one plan for many policies ---
 *
 * Policies that are asked about the same input, each with a value of its own under one key of it (a constraint's
 * parameters), become one plan: what depends on that value alone is computed when it is joined, what can never hold
 * then is left out, and rules that compute the same, in whichever policy, are there once.
 *
 * A joint plan only grows: who has replaced many of its policies makes a new one. Reviews may run at once; joining needs
 * the caller's lock against them. */
struct rf_rego_joint;
struct rf_rego_joint *rf_rego_joint_new(void);
void rf_rego_joint_free(struct rf_rego_joint *j); /* NULL is allowed */
/* The number of the query, where input[key] is value (copied). q must live as long as that number is asked for. */
uint32_t rf_rego_join(struct rf_rego_joint *j, const struct rf_rego_query *q, struct rf_str key, struct rf_rv value);

/* All questions about one input, which has no member under the key. run and what it points to must stay until the last
 * of them; steps may be set anew for each. What one finds out serves the next, but an error is that of one alone. NULL: the
 * arena is full. */
struct rf_rego_round;
struct rf_rego_round *rf_rego_begin(const struct rf_rego_joint *j, struct rf_rego_run *run);
int rf_rego_ask_joint(struct rf_rego_round *round, uint32_t number, struct rf_rv *ret, struct rf_err *err); /* as rf_rego_ask */

/* Names of rules, for `policy test`: calls fn for each rule of each package ("data.a.b.test_x"). */
void rf_rego_each_rule(const struct rf_rego *r,
		       void (*fn)(void *arg, struct rf_str path, const struct rf_ra_rule *rule,
				  struct rf_str file),
		       void *arg);

#endif
