/* What the sub-verbs of `ringfence policy` share. One file per sub-verb. */
#ifndef RF_CLI_POLICY_H
#define RF_CLI_POLICY_H

#include <stdio.h>

#include "cli/cli.h"
#include "policy/rego/cases.h"
#include "policy/rego/coverage.h"
#include "policy/rego/rego.h"

struct rf_policy_opts {
	const char *input;  /* -i */
	const char *output; /* -o */
	const char *level, *version; /* podsecurity */
	const char *review; /* bench */
	const char *name;   /* apply: of the ConfigMap */
	const char *threshold; /* test */
	int64_t count, threads;
	bool data; /* -d: a mark only; policy_eval.c tells the words apart */
	bool v0, strict, verbose, write, diff, coverage;
};
extern struct rf_policy_opts rf_policy_opt;

#define RF_POLICY_FILE_MAX ((size_t)64 << 20)
#define RF_POLICY_MEMORY ((size_t)1 << 30) /* of one evaluation */

typedef int rf_policy_sub(struct rf_arena *a, int argc, char **argv, struct rf_err *err);
rf_policy_sub rf_policy_check, rf_policy_eval, rf_policy_test, rf_policy_fmt, rf_policy_conformance,
	rf_policy_podsecurity, rf_policy_batch, rf_policy_bench, rf_policy_bench_review, rf_policy_apply, rf_policy_verify;

static inline enum rf_ra_version rf_policy_version(void)
{
	return rf_policy_opt.v0 ? RF_RA_V0 : RF_RA_V1;
}

/* --- policy_load.c --- */

struct rf_policy_files {
	struct rf_rego_source *source;
	size_t n;
	struct rf_rv data; /* an object */
	struct rf_str *other; /* given by name, and neither Rego nor data */
	size_t n_other;
};
/* Files and folders (with all below) in order. with_data: .json, .yaml and .yml are merged into data,
 * each at the place its folder has below the folder that was named. */
int rf_policy_load(struct rf_arena *a, char **path, int n, bool with_data, struct rf_policy_files *ret,
		   struct rf_err *err);
/* A JSON or, by its name, YAML file with one document. */
int rf_policy_read_value(struct rf_arena *a, const char *path, struct rf_rv *ret, struct rf_err *err);
int rf_policy_parse_value(struct rf_arena *a, const char *path, struct rf_str text, struct rf_rv *ret,
			  struct rf_err *err);
/* Every file below path whose name ends with suffix, sorted, with the path that was given before it. */
int rf_policy_walk(struct rf_arena *a, const char *path, struct rf_str suffix,
		   int (*fn)(void *arg, const char *file, struct rf_err *err), void *arg, struct rf_err *err);

/* --- policy_bench.c --- */

/* "what   mean ... us   p50 ... us   p99 ... us"; sorts them. */
void rf_policy_print_times(const char *what, int64_t *ns, int64_t n);

/* --- policy.c --- */

/* Compiles; errors go to standard error, and the answer says how many. */
int rf_policy_compile(struct rf_arena *a, const struct rf_policy_files *f, struct rf_rego **ret,
		      struct rf_err *err);
/* The same with marks for coverage. */
int rf_policy_compile_covered(struct rf_arena *a, const struct rf_policy_files *f, struct rf_rego **ret,
			      struct rf_err *err);
int rf_policy_prepare(struct rf_arena *a, struct rf_rego *r, struct rf_str query,
		      struct rf_rego_query **ret, struct rf_err *err);
/* "N passed, N failed, N skipped"; the exit status. */
int rf_policy_close(const struct rf_rego_tally *t);
void rf_policy_print_errors(FILE *to, const struct rf_ra_errors *e);

/* --- policy_coverage.c --- */

struct rf_policy_coverage {
	bool wanted, json;
	double threshold; /* percent */
	struct rf_rego_coverage seen;
};
/* What the command line says. */
int rf_policy_coverage_options(struct rf_policy_coverage *ret, struct rf_err *err);
/* False: it is below the threshold, which has been told. */
bool rf_policy_coverage_print(const struct rf_policy_coverage *c, const struct rf_rego *rego, struct rf_arena *a);

#endif
