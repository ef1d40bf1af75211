/* `ringfence policy`: policies in Rego, checked, asked, tested and measured from the command line. */
#include "cli/policy.h"

struct rf_policy_opts rf_policy_opt = { .count = 1000, .threads = 1, .name = "policies" };

void rf_policy_print_errors(FILE *to, const struct rf_ra_errors *e)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_ra_print_errors(&b, e);
	fwrite(b.p, 1, b.n, to);
}

/* Errors as an answer: they have been shown, the answer only counts them. */
static int told(const struct rf_ra_errors *e, const char *what, const char *hint, struct rf_err *err)
{
	fflush(stdout);
	rf_policy_print_errors(stderr, e);
	return rf_fail(err, RF_INVALID, "%s has %u error%s, shown above%s", what, e->n, e->n == 1 ? "" : "s",
		       hint);
}

static int compile(struct rf_arena *a, const struct rf_policy_files *f, bool covered, struct rf_rego **ret,
		   struct rf_err *err)
{
	struct rf_ra_errors errors = { .arena = a };

	if (f->n_other > 0)
		return rf_fail(err, RF_BAD_REQUEST, "%.*s is neither a policy (.rego) nor data (.json, .yaml, .yml)",
			       RF_STR(f->other[0]));
	if ((covered ? rf_rego_compile_covered : rf_rego_compile)(f->source, f->n, &f->data, ret, &errors) < 0)
		return told(&errors, "the policy",
			    rf_policy_opt.v0 ? "" : "; policies written for OPA before 1.0 need --v0", err);
	return 0;
}

int rf_policy_compile(struct rf_arena *a, const struct rf_policy_files *f, struct rf_rego **ret,
		      struct rf_err *err)
{
	return compile(a, f, false, ret, err);
}

int rf_policy_compile_covered(struct rf_arena *a, const struct rf_policy_files *f, struct rf_rego **ret,
			      struct rf_err *err)
{
	return compile(a, f, true, ret, err);
}

int rf_policy_prepare(struct rf_arena *a, struct rf_rego *r, struct rf_str query,
		      struct rf_rego_query **ret, struct rf_err *err)
{
	struct rf_ra_errors errors = { .arena = a };

	if (rf_rego_prepare(r, query, rf_policy_version(), ret, &errors) < 0)
		return told(&errors, "the query", "", err);
	return 0;
}

int rf_policy_close(const struct rf_rego_tally *t)
{
	printf("%zu passed, %zu failed, %zu skipped\n", t->passed, t->failed, t->skipped);
	return t->failed > 0;
}

static const struct {
	const char *name;
	rf_policy_sub *run;
	const char *asks; /* what it needs at least one of; NULL: nothing */
} SUBS[] = {
	{ "check", rf_policy_check, "files or folders: ringfence policy check policies/" },
	{ "eval", rf_policy_eval, "a query: ringfence policy eval -d policies/ -i input.json data.example.allow" },
	{ "test", rf_policy_test, "files or folders: ringfence policy test policies/src policies/lib" },
	{ "fmt", rf_policy_fmt, "files or folders: ringfence policy fmt -d policies/" },
	{ "conformance", rf_policy_conformance, "a folder of OPA's cases: ringfence policy conformance cases/v1" },
	{ "podsecurity", rf_policy_podsecurity,
	  "fixtures or manifests: ringfence policy podsecurity --level restricted deploy/" },
	{ "verify", rf_policy_verify, "a folder of Gatekeeper suites: ringfence policy verify library/" },
	{ "batch", rf_policy_batch, NULL }, /* for tests; not shown */
	{ "apply", rf_policy_apply, "files or folders: ringfence policy apply policies policies/recommended" },
	{ "bench", rf_policy_bench, "a query: ringfence policy bench -d policies/ -i input.json data.example.allow" },
};

static int run(int argc, char **argv, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (argc == 0)
		return rf_fail(err, RF_BAD_REQUEST, "say what: ringfence policy %s", RF_VERB_POLICY.subs);
	for (size_t i = 0; i < RF_COUNT(SUBS); i++) {
		if (strcmp(argv[0], SUBS[i].name) != 0)
			continue;
		if (argc == 1 && SUBS[i].asks)
			return rf_fail(err, RF_BAD_REQUEST, "%s needs %s", SUBS[i].name, SUBS[i].asks);
		return SUBS[i].run(&a, argc - 1, argv + 1, err);
	}
	return rf_fail(err, RF_BAD_REQUEST, "there is no \"policy %s\"; there are %s", argv[0], RF_VERB_POLICY.subs);
}

static const struct rf_opt OPTS[] = {
	{ "data", 'd', RF_OPT_FLAG, &rf_policy_opt.data, NULL,
	  "eval, bench: files and folders of policies and data follow; fmt -d: as --diff" },
	{ "input", 'i', RF_OPT_STR, &rf_policy_opt.input, "FILE", "eval, bench: the input, JSON or YAML" },
	{ "output", 'o', RF_OPT_STR, &rf_policy_opt.output, "json|pretty",
	  "eval: how to print (default json); test --coverage: likewise (default pretty)" },
	{ "v0", 0, RF_OPT_FLAG, &rf_policy_opt.v0, NULL, "policies are in the language of OPA before 1.0" },
	{ "strict", 0, RF_OPT_FLAG, &rf_policy_opt.strict, NULL, "eval: an error of a builtin ends the evaluation; check: also what is unused or deprecated" },
	{ "write", 'w', RF_OPT_FLAG, &rf_policy_opt.write, NULL, "fmt: change the files" },
	{ "diff", 0, RF_OPT_FLAG, &rf_policy_opt.diff, NULL, "fmt: show what would change, exit 1 if anything" },
	{ "verbose", 'v', RF_OPT_FLAG, &rf_policy_opt.verbose, NULL,
	  "conformance, test, podsecurity: every case by name" },
	{ "coverage", 'c', RF_OPT_FLAG, &rf_policy_opt.coverage, NULL, "test: also which lines the tests evaluated" },
	{ "threshold", 0, RF_OPT_STR, &rf_policy_opt.threshold, "PERCENT",
	  "test: exit 1 if the tests evaluate fewer of the lines; implies --coverage" },
	{ "level", 0, RF_OPT_STR, &rf_policy_opt.level, "baseline|restricted|privileged",
	  "podsecurity: judge manifests by this level" },
	{ "version", 0, RF_OPT_STR, &rf_policy_opt.version, "vX.Y",
	  "podsecurity --level: and this version (default latest)" },
	{ "name", 0, RF_OPT_STR, &rf_policy_opt.name, "NAME", "apply: of the ConfigMap that plain Rego goes into (default policies)" },
	RF_OPT_KUBECONFIG,
	{ "count", 0, RF_OPT_INT, &rf_policy_opt.count, "N", "bench: how many evaluations (default 1000)" },
	{ "review", 0, RF_OPT_STR, &rf_policy_opt.review, "FILE",
	  "bench: instead of a query, Gatekeeper's templates and constraints in FILES judge this review or object" },
	{ "threads", 0, RF_OPT_INT, &rf_policy_opt.threads, "N", "bench --review: also on so many threads at once" },
};

const struct rf_verb RF_VERB_POLICY = {
	.name = "policy",
	.summary = "Check, ask, test and measure policies written in Rego",
	.usage = "check FILES | eval -d FILES [-i INPUT] QUERY | test [--coverage] FILES | fmt [-w|-d] FILES | bench -d FILES "
		 "[-i INPUT] QUERY | bench --review FILE FILES | conformance DIR | "
		 "podsecurity [--level L [--version V]] FILES | verify DIR | apply FILES",
	.details = "FILES are files and folders. Of a folder all .rego files are read; eval, test and bench also merge\n"
		   "its .json, .yaml and .yml files into data: a/b/data.json of the folder named goes to data.a.b.\n"
		   "The query is the word that is no file or folder (if all are, the last one).\n"
		   "conformance runs OPA's own cases; below a folder named v0 they are read as v0.\n"
		   "podsecurity judges fixtures, <level>/<version>/{pass,fail}/*.yaml, each by the version it is for;\n"
		   "with --level any manifests: Pods, and the pods of Deployments, Jobs, CronJobs and so on.\n"
		   "verify runs Gatekeeper's suites as gator does.\n"
		   "apply puts policies into a cluster: ConstraintTemplates and Constraints as they are, .rego files (but for\n"
		   "tests) as a ConfigMap that is judged by; nothing is sent unless everything compiles.\n"
		   "What judges exits 0 only if nothing failed.\n\n"
		   "Examples:\n"
		   "  ringfence policy check policies/\n"
		   "  ringfence policy eval -d policies/ -i pod.yaml 'data.kubernetes.admission.deny'\n"
		   "  ringfence policy test policies/src policies/lib",
	.subs = "check eval test fmt apply bench conformance podsecurity verify",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
