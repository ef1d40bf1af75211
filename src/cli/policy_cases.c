/* `policy conformance`: OPA's own cases. `policy podsecurity`: Kubernetes' own fixtures. */
#include "base/fs.h"
#include "cli/policy.h"
#include "codec/yaml.h"
#include "policy/podsecurity.h"

/* "a/b/c.yaml": "a/b" */
static struct rf_str folder_of(struct rf_str path)
{
	size_t n = path.n;

	while (n > 0 && path.p[n - 1] != '/')
		n--;
	return rf_str_n(path.p, n > 0 ? n - 1 : 0);
}

static struct rf_str last_part(struct rf_str path)
{
	return rf_str_skip(path, folder_of(path).n > 0 || (path.n > 0 && path.p[0] == '/') ? folder_of(path).n + 1 : 0);
}

/* "a/b/c.yaml": "b" for 0, "a" for 1 */
static struct rf_str folder_name(const char *file, int up)
{
	struct rf_str folder = folder_of(rf_str(file));

	for (int i = 0; i < up; i++)
		folder = folder_of(folder);
	return last_part(folder);
}

/* --- OPA's cases --- */

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

/* --- Pod Security's fixtures: <level>/<version>/{pass,fail}/<pod>.yaml --- */

struct fixtures {
	bool look; /* only for the newest version of each level */
	int64_t newest[RF_PS_RESTRICTED + 1];
	struct rf_rego_tally tally;
};

/* "v1.29": 29. Not a version: -1. */
static int64_t minor(struct rf_str version)
{
	int64_t n = -1;

	if (!rf_str_starts(version, RF_LIT("v1.")) || rf_str_int(rf_str_skip(version, 3), &n, NULL) < 0)
		return -1;
	return n;
}

static int judge(struct fixtures *f, const char *file, enum rf_ps_level level, bool expect, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) why = RF_BUF_INIT;
	struct rf_str text = RF_STR_EMPTY;
	struct rf_json *docs = NULL;

	if (rf_fs_read(&a, file, RF_POLICY_FILE_MAX, &text, err) < 0)
		return -err->code;
	if (rf_yaml_parse(&a, text, &docs, err) < 0)
		return rf_wrap(err, "%s", file);
	if (rf_ps_check(level, rf_json_item(docs, 0), &why) == expect) {
		f->tally.passed++;
		return 0;
	}
	f->tally.failed++;
	printf("FAILED %s: %s\n", file, expect ? why.p : "allowed");
	return 0;
}

static int take_fixture(void *arg, const char *file, struct rf_err *err)
{
	struct fixtures *f = arg;
	struct rf_str verdict = folder_name(file, 0);
	int64_t version = minor(folder_name(file, 1));
	bool pass = rf_str_is(verdict, "pass");
	enum rf_ps_level level;

	if ((!pass && !rf_str_is(verdict, "fail")) || version < 0 || !rf_ps_level_parse(folder_name(file, 2), &level))
		return 0;
	if (f->look)
		f->newest[level] = RF_MAX(f->newest[level], version);
	else if (version < f->newest[level])
		f->tally.skipped++;
	else
		return judge(f, file, level, pass, err);
	return 0;
}

static void tell_newest(const struct fixtures *f)
{
	for (size_t i = 0; i < RF_COUNT(f->newest); i++)
		if (f->newest[i] >= 0)
			printf("%s: judged v1.%lld, the newest here; older ones are skipped\n",
			       rf_ps_level_name((enum rf_ps_level)i), (long long)f->newest[i]);
}

int rf_policy_podsecurity(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	struct fixtures f = { .look = true, .newest = { -1, -1, -1 } };

	for (int pass = 0; pass < 2; pass++, f.look = false) {
		for (int i = 0; i < argc; i++) {
			rf_auto_free char *real = realpath(argv[i], NULL); /* its name says the level */

			if (real == NULL)
				return rf_fail_errno(err, "find %s", argv[i]);
			if (rf_policy_walk(a, real, RF_LIT(".yaml"), take_fixture, &f, err) < 0)
				return -err->code;
		}
	}
	if (f.tally.passed + f.tally.failed == 0)
		return rf_fail(err, RF_NOT_FOUND,
			       "podsecurity %s: there are no fixtures (<level>/<version>/{pass,fail}/*.yaml)", argv[0]);
	tell_newest(&f);
	return rf_policy_close(&f.tally);
}
