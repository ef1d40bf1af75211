/* `policy conformance`: OPA's own cases. */
#include "base/fs.h"
#include "cli/policy.h"

/* "a/b/c.yaml": "a/b" */
static struct rf_str folder_of(struct rf_str path)
{
	size_t n = path.n;

	while (n > 0 && path.p[n - 1] != '/')
		n--;
	return rf_str_n(path.p, n > 0 ? n - 1 : 0);
}

struct conformance {
	struct rf_str category; /* the folder now being run */
	struct rf_rego_tally now, all;
	size_t categories;
	struct rf_buf skipped; /* categories of which nothing could be run */
};

static void add(struct rf_rego_tally *to, const struct rf_rego_tally *t)
{
	to->passed += t->passed;
	to->failed += t->failed;
	to->skipped += t->skipped;
	for (size_t i = 0; i < RF_COUNT(t->refused); i++)
		to->refused[i] += t->refused[i];
}

static void close_category(struct conformance *c)
{
	const struct rf_rego_tally *t = &c->now;

	if (c->category.n == 0)
		return;
	c->categories++;
	printf("%-60.*s %4zu passed %4zu failed", RF_STR(c->category), t->passed, t->failed);
	if (t->skipped > 0)
		printf(" %4zu skipped", t->skipped);
	printf("\n");
	if (t->passed + t->failed == 0)
		rf_buf_printf(&c->skipped, " %.*s", RF_STR(c->category));
	add(&c->all, t);
	c->now = (struct rf_rego_tally){ 0 };
}

static bool has_folder(struct rf_str path, const char *name)
{
	struct rf_str part;

	while (rf_str_cut(&path, '/', &part))
		if (rf_str_is(part, name))
			return true;
	return false;
}

static int run_cases(void *arg, const char *file, struct rf_err *err)
{
	struct conformance *c = arg;
	struct rf_str name = rf_str(file), text = RF_STR_EMPTY;
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	bool v0 = rf_policy_opt.v0 || has_folder(name, "v0");
	struct rf_err bad = RF_ERR_INIT;

	if (!rf_str_eq(folder_of(name), c->category)) {
		close_category(c);
		c->category = folder_of(name);
	}
	if (rf_fs_read(&a, file, RF_POLICY_FILE_MAX, &text, err) < 0)
		return -err->code;
	if (rf_rego_cases_run(name, text, v0 ? RF_RA_V0 : RF_RA_V1, &out, &c->now, &bad) < 0) {
		c->now.failed++;
		rf_buf_printf(&out, "FAILED %s\n", bad.msg);
	}
	if (rf_policy_opt.verbose)
		fwrite(out.p, 1, out.n, stdout);
	return 0;
}

static int close_conformance(struct conformance *c)
{
	close_category(c);
	if (c->skipped.n > 0)
		printf("nothing run of:%s\n", c->skipped.p);
	for (size_t i = 0; i < RF_COUNT(c->all.refused); i++)
		if (c->all.refused[i] > 0)
			printf("skipped %zu cases that call %s\n", c->all.refused[i], RF_REGO_REFUSED[i]);
	rf_buf_done(&c->skipped);
	if (c->all.failed > 0 && !rf_policy_opt.verbose)
		printf("--verbose tells which cases failed, and how\n");
	return rf_policy_close(&c->all);
}

int rf_policy_conformance(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	struct conformance c = { .skipped = RF_BUF_INIT };

	for (int i = 0; i < argc; i++) {
		if (rf_policy_walk(a, argv[i], RF_LIT(".yaml"), run_cases, &c, err) < 0) {
			rf_buf_done(&c.skipped);
			return -err->code;
		}
	}
	if (c.category.n == 0)
		return rf_fail(err, RF_NOT_FOUND, "conformance %s: there are no cases (<category>/*.yaml)", argv[0]);
	return close_conformance(&c);
}
