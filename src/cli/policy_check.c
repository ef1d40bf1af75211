/* `policy check`: all files compiled together. */
#include "cli/policy.h"

static bool names(const struct rf_ra_errors *e, struct rf_str file)
{
	for (uint32_t i = 0; i < e->n; i++)
		if (rf_str_eq(e->error[i].file, file))
			return true;
	return false;
}

/* After an error of syntax nothing is compiled, and past the cap errors are not kept: a file without
 * an error then has not been judged. */
static bool cut_short(const struct rf_ra_errors *e)
{
	for (uint32_t i = 0; i < e->n; i++)
		if (strcmp(e->error[i].code, "rego_parse_error") == 0)
			return true;
	return e->n == RF_COUNT(e->error);
}

static void count(const struct rf_policy_files *f, const struct rf_ra_errors *e, struct rf_rego_tally *t)
{
	bool unjudged = cut_short(e);

	for (size_t i = 0; i < f->n; i++) {
		if (names(e, f->source[i].file))
			t->failed++;
		else if (unjudged)
			t->skipped++;
		else
			t->passed++;
	}
	for (size_t i = 0; i < f->n_other; i++)
		printf("skipped %.*s: not a .rego file\n", RF_STR(f->other[i]));
	t->skipped += f->n_other;
	if (e->n > 0 && t->failed == 0)
		t->failed = 1; /* an error of no file in particular */
}

int rf_policy_check(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	struct rf_ra_errors errors = { .arena = a };
	struct rf_policy_files f = { 0 };
	struct rf_rego_tally tally = { 0 };
	struct rf_rego *r = NULL;

	if (rf_policy_load(a, argv, argc, false, &f, err) < 0)
		return -err->code;
	if (f.n == 0 && f.n_other == 0)
		return rf_fail(err, RF_NOT_FOUND, "check %s: there is no .rego file", argv[0]);
	if (rf_policy_opt.strict)
		rf_rego_check(f.source, f.n, &errors);
	else if (rf_rego_compile(f.source, f.n, NULL, &r, &errors) == 0)
		rf_rego_unref(r);
	rf_policy_print_errors(stdout, &errors);
	count(&f, &errors, &tally);
	return rf_policy_close(&tally);
}
