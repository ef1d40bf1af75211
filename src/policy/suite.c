/* `gator verify`: suites of tests for templates and constraints, from files. */
#include <sys/stat.h>

#include "base/fs.h"
#include "codec/yaml.h"
#include "policy/gatekeeper_private.h"
#include "policy/rego/regex.h"

#define FILE_MAX ((size_t)4 << 20)
#define FOLDERS_MAX 16 /* deep */
#define INVENTORY_MAX 1024
#define API "test.gatekeeper.sh/"

struct verifying {
	struct rf_buf *out;
	struct rf_gk_tally *tally;
	const char *suite;  /* path, for the lines */
	const char *folder; /* paths in the suite are relative to it */
};

enum verdict { PASSED, FAILED, SKIPPED };

static void tell(struct verifying *v, enum verdict verdict, struct rf_str test, struct rf_str name,
		 const char *why)
{
	static const char *const words[] = { "ok  ", "FAIL", "skip" };

	rf_buf_printf(v->out, "%s %s %.*s/%.*s%s%s\n", words[verdict], v->suite, RF_STR(test),
		      RF_STR(name), *why ? ": " : "", why);
	*(verdict == PASSED   ? &v->tally->passed :
	  verdict == FAILED ? &v->tally->failed :
				&v->tally->skipped) += 1;
}

/* --- files ---------------------------------------------------------------------------------- */

static int read_docs(struct rf_arena *a, const char *path, struct rf_json **ret, struct rf_err *err)
{
	struct rf_str text;

	if (rf_fs_read(a, path, FILE_MAX, &text, err) < 0 || rf_yaml_parse(a, text, ret, err) < 0)
		return rf_wrap(err, "%s", path);
	return 0;
}

/* A file that a suite names. */
static int read_named(const struct verifying *v, struct rf_arena *a, const struct rf_json *name,
		      struct rf_json **ret, struct rf_err *err)
{
	struct rf_str s = rf_json_str(name);

	if (s.n == 0)
		return rf_fail(err, RF_INVALID, "the name of a file is missing");
	if (memchr(s.p, '\0', s.n))
		return rf_fail(err, RF_INVALID, "the name of a file holds a zero byte");
	return read_docs(a, s.p[0] == '/' ? rf_arena_cstr(a, s) :
					    rf_fs_path(a, "%s/%.*s", v->folder, RF_STR(s)),
			 ret, err);
}

static int read_one(const struct verifying *v, struct rf_arena *a, const struct rf_json *name,
		    struct rf_json **ret, struct rf_err *err)
{
	struct rf_json *docs;

	if (read_named(v, a, name, &docs, err) < 0)
		return -err->code;
	if (rf_json_len(docs) != 1)
		return rf_fail(err, RF_INVALID, "%.*s: holds %zu objects, must be one",
			       RF_STR(rf_json_str(name)), rf_json_len(docs));
	*ret = rf_json_item(docs, 0);
	return 0;
}

/* --- one case ------------------------------------------------------------------------------- */

static int read_inventory(const struct verifying *v, struct rf_arena *a, const struct rf_json *names,
			  struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv *object = rf_arena_array(a, struct rf_rv, INVENTORY_MAX);
	struct rf_json *docs;
	size_t n = 0;

	for (size_t i = 0; i < rf_json_len(names); i++) {
		if (read_named(v, a, rf_json_item(names, i), &docs, err) < 0)
			return rf_wrap(err, "inventory");
		for (size_t j = 0; j < rf_json_len(docs); j++)
			if (n == INVENTORY_MAX || !rf_rv_from_json(a, rf_json_item(docs, j), &object[n++]))
				return rf_fail(err, RF_TOO_LARGE, "inventory: too large");
	}
	return rf_gk_inventory(a, object, n, ret, err);
}

/* A plain object, or an AdmissionReview that says more about the request. */
static int read_review(const struct verifying *v, struct rf_arena *a, const struct rf_json *name,
		       struct rf_rv *ret, struct rf_err *err)
{
	struct rf_json *doc;
	struct rf_rv value;

	if (read_one(v, a, name, &doc, err) < 0)
		return rf_wrap(err, "object");
	if (!rf_rv_from_json(a, doc, &value))
		return rf_fail(err, RF_TOO_LARGE, "object: too large");
	if (!rf_str_is(rf_json_str_at(doc, "kind"), "AdmissionReview"))
		return rf_gk_review_of(a, value, ret, err);
	if (!rf_gk_get(value, "request", ret))
		return rf_fail(err, RF_INVALID, "object: the AdmissionReview has no request");
	return 0;
}

static int count_matching(const struct rf_gk_violations *found, struct rf_str pattern, size_t *ret,
			  struct rf_err *err)
{
	char why[256] = "";
	bool compiled;
	struct rf_regex *re = rf_regex_get(pattern.p, pattern.n, &compiled, why, sizeof(why));
	struct rf_regex_part part;

	if (!re)
		return rf_fail(err, RF_INVALID, "message \"%.*s\": %s", RF_STR(pattern), why);
	*ret = 0;
	for (size_t i = 0; i < found->n; i++)
		*ret += rf_regex_find(re, found->at[i].msg.p, found->at[i].msg.n, 0, &part, 1);
	rf_regex_put(re);
	return 0;
}

/* violations: yes, no or a number; left out it is yes. YAML may have read yes as a boolean. */
static int judge_count(const struct rf_json *want, size_t n, struct rf_err *err)
{
	bool yes = !want || want->type == RF_JSON_NULL || rf_json_is_true(want) ||
		   rf_str_is(rf_json_str(want), "yes");
	bool no = (rf_json_is(want, RF_JSON_BOOL) && !want->boolean) ||
		  rf_str_is(rf_json_str(want), "no");
	int64_t exactly;

	if (yes)
		return n > 0 ? 0 : rf_fail(err, RF_CONFLICT, "no violation, at least one wanted");
	if (no)
		return n == 0 ? 0 : rf_fail(err, RF_CONFLICT, "%zu violations, none wanted", n);
	if (!rf_json_is_int(want, &exactly) || exactly < 0)
		return rf_fail(err, RF_INVALID, "violations: must be yes, no or a number");
	return n == (size_t)exactly ?
		       0 :
		       rf_fail(err, RF_CONFLICT, "%zu violations, %lld wanted", n, (long long)exactly);
}

static int check_assertion(const struct rf_json *assertion, const struct rf_gk_violations *found,
			   struct rf_err *err)
{
	const struct rf_json *message = rf_json_at(assertion, "message");
	size_t n = found->n;

	if (message && count_matching(found, rf_json_str(message), &n, err) < 0)
		return -err->code;
	if (judge_count(rf_json_at(assertion, "violations"), n, err) == 0)
		return 0;
	if (message)
		rf_wrap(err, "message \"%.*s\"", RF_STR(rf_json_str(message)));
	return -err->code;
}

static int check_case(const struct verifying *v, const struct rf_gk *gk, const struct rf_json *c,
		      struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(RF_GK_MEMORY);
	const struct rf_json *assertions = rf_json_at(c, "assertions");
	const struct rf_json *names = rf_json_at(c, "inventory");
	struct rf_gk_violations found = { 0 };
	struct rf_rv review, inventory;

	if (rf_json_len(assertions) == 0)
		return rf_fail(err, RF_INVALID, "asserts nothing; add assertions");
	if (read_review(v, &a, rf_json_at(c, "object"), &review, err) < 0 ||
	    read_inventory(v, &a, names, &inventory, err) < 0 ||
	    rf_gk_review(gk, &review, rf_json_len(names) ? &inventory : NULL, RF_GK_GATOR, &a, &found,
			 err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(assertions); i++) {
		if (check_assertion(rf_json_item(assertions, i), &found, err) == 0)
			continue;
		for (size_t j = 0; j < found.n && j < 3; j++)
			rf_buf_printf(v->out, "     got: %.*s\n", RF_STR(found.at[j].msg));
		return -err->code;
	}
	return 0;
}

/* --- tests and suites ----------------------------------------------------------------------- */

static int add_named(const struct verifying *v, struct rf_gk *gk, const struct rf_json *test,
		     const char *what, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(RF_GK_MEMORY);
	struct rf_json *doc;

	if (read_one(v, &a, rf_json_at(test, what), &doc, err) < 0 || rf_gk_add(gk, doc, err) < 0)
		return rf_wrap(err, "%s", what);
	return 0;
}

static void run_cases(struct verifying *v, const struct rf_gk *gk, const struct rf_json *test,
		      const char *skip, const char *broken)
{
	const struct rf_json *cases = rf_json_at(test, "cases");
	struct rf_str name = rf_json_str_at(test, "name");

	for (size_t i = 0; i < rf_json_len(cases); i++) {
		const struct rf_json *c = rf_json_item(cases, i);
		struct rf_str case_name = rf_json_str_at(c, "name");
		struct rf_err err = RF_ERR_INIT;

		if (*skip || rf_json_is_true(rf_json_at(c, "skip")))
			tell(v, SKIPPED, name, case_name, *skip ? skip : "skip is set");
		else if (*broken)
			tell(v, FAILED, name, case_name, broken);
		else if (check_case(v, gk, c, &err) < 0)
			tell(v, FAILED, name, case_name, err.msg);
		else
			tell(v, PASSED, name, case_name, "");
	}
}

static const char *why_skipped(const struct rf_json *test)
{
	if (rf_json_is_true(rf_json_at(test, "skip")))
		return "skip is set";
	return rf_json_len(rf_json_at(test, "expansion")) > 0 ||
			       rf_json_str_at(test, "expansion").n > 0 ?
		       "expansion is not done" :
		       "";
}

static void run_test(struct verifying *v, const struct rf_json *test)
{
	rf_auto_ptr(gk) gk = rf_gk_new();
	struct rf_err err = RF_ERR_INIT;
	struct rf_str name = rf_json_str_at(test, "name");
	const char *skip = why_skipped(test);
	bool invalid = rf_json_is_true(rf_json_at(test, "invalid"));

	if (*skip && rf_json_len(rf_json_at(test, "cases")) == 0)
		tell(v, SKIPPED, name, RF_LIT("-"), skip);
	if (!*skip && (add_named(v, gk, test, "template", &err) == 0))
		(void)add_named(v, gk, test, "constraint", &err);
	if (!*skip && invalid) {
		tell(v, err.code ? PASSED : FAILED, name, RF_LIT("invalid"),
		     err.code ? "" : "template and constraint are valid, an error was wanted");
		return;
	}
	if (!*skip && rf_json_len(rf_json_at(test, "cases")) == 0)
		tell(v, err.code ? FAILED : PASSED, name, RF_LIT("-"), err.msg);
	run_cases(v, gk, test, skip, err.msg);
}

static bool is_suite(const struct rf_json *doc)
{
	return rf_str_is(rf_json_str_at(doc, "kind"), "Suite") &&
	       rf_str_starts(rf_json_str_at(doc, "apiVersion"), RF_LIT(API));
}

static void run_suite(struct rf_arena *a, const char *path, const struct rf_json *suite,
		      struct rf_buf *out, struct rf_gk_tally *tally)
{
	const char *slash = strrchr(path, '/');
	const struct rf_json *tests = rf_json_at(suite, "tests");
	struct verifying v = { out, tally, path, "." };

	if (slash)
		v.folder = slash == path ? "/" :
					   rf_arena_cstr(a, rf_str_n(path, (size_t)(slash - path)));
	for (size_t i = 0; i < rf_json_len(tests); i++) {
		const struct rf_json *test = rf_json_item(tests, i);

		if (rf_json_is_true(rf_json_at(suite, "skip")))
			run_cases(&v, NULL, test, "skip is set", "");
		else
			run_test(&v, test);
	}
}

/* A suite that is asked for by name must be one; others are taken as they are found. */
static int verify_file(const char *path, bool named, struct rf_buf *out, struct rf_gk_tally *tally,
		       struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(RF_GK_MEMORY);
	struct verifying v = { out, tally, path, "." };
	struct rf_json *docs;
	struct rf_str text;
	bool any = false;

	if (rf_fs_read(&a, path, FILE_MAX, &text, err) < 0)
		return rf_wrap(err, "%s", path);
	if (!named && !rf_str_contains(text, RF_LIT(API)))
		return 0;
	if (rf_yaml_parse(&a, text, &docs, err) < 0) {
		tell(&v, FAILED, RF_LIT("-"), RF_LIT("-"), err->msg);
		return 0;
	}
	for (size_t i = 0; i < rf_json_len(docs); i++) {
		if (!is_suite(rf_json_item(docs, i)))
			continue;
		any = true;
		run_suite(&a, path, rf_json_item(docs, i), out, tally);
	}
	if (named && !any)
		return rf_fail(err, RF_INVALID, "%s: holds no Suite of " API "v1alpha1", path);
	return 0;
}

/* Links are not followed. */
static int verify_folder(const char *path, int depth, struct rf_buf *out, struct rf_gk_tally *tally,
			 struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str *names;
	size_t n;
	int r = 0;

	if (depth > FOLDERS_MAX)
		return rf_fail(err, RF_TOO_LARGE, "%s: folders are nested too deep", path);
	if (rf_fs_list(&a, path, &names, &n, err) < 0)
		return -err->code;
	for (size_t i = 0; i < n && r == 0; i++) {
		const char *below = rf_fs_path(&a, "%s/%.*s", path, RF_STR(names[i]));
		struct stat st;

		if (lstat(below, &st) < 0)
			return rf_fail_errno(err, "%s", below);
		if (S_ISDIR(st.st_mode))
			r = verify_folder(below, depth + 1, out, tally, err);
		else if (S_ISREG(st.st_mode) && rf_str_ends(names[i], RF_LIT(".yaml")))
			r = verify_file(below, false, out, tally, err);
	}
	return r;
}

int rf_gk_verify(const char *path, struct rf_buf *out, struct rf_gk_tally *tally, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct stat st;

	if (!err)
		err = &own;
	if (stat(path, &st) < 0)
		return rf_fail_errno(err, "%s", path);
	if (S_ISDIR(st.st_mode))
		return verify_folder(path, 0, out, tally, err);
	return verify_file(path, true, out, tally, err);
}
