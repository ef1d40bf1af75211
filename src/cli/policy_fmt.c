/* `policy fmt`: policies as `opa fmt` lays them out; to standard output, into the file, or as a diff. */
#include <sys/stat.h>

#include "base/fs.h"
#include "cli/policy.h"

#define CONTEXT 3

/* --- diff: one hunk from the first line that differs to the last --- */

struct lines {
	struct rf_str *at;
	size_t n;
};

static struct lines split(struct rf_arena *a, struct rf_str text)
{
	struct lines l = { NULL, 0 };
	size_t n = 1;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '\n';
	l.at = rf_arena_array(a, struct rf_str, n);
	while (text.n > 0) { /* with its line break: the last line may lack it */
		struct rf_str line = text;

		rf_str_cut(&text, '\n', &l.at[l.n]);
		l.at[l.n++].n = text.n > 0 ? line.n - text.n : line.n;
	}
	return l;
}

static void put_lines(struct lines l, size_t from, size_t to, char mark)
{
	for (size_t i = from; i < to; i++)
		printf("%c%.*s%s", mark, RF_STR(l.at[i]),
		       rf_str_ends(l.at[i], RF_LIT("\n")) ? "" : "\n\\ No newline at end of file\n");
}

static void print_diff(struct rf_arena *a, const char *path, struct rf_str before, struct rf_str after)
{
	struct lines x = split(a, before), y = split(a, after);
	size_t head = 0, tail = 0, from, more;

	while (head < x.n && head < y.n && rf_str_eq(x.at[head], y.at[head]))
		head++;
	while (tail < x.n - head && tail < y.n - head && rf_str_eq(x.at[x.n - 1 - tail], y.at[y.n - 1 - tail]))
		tail++;
	from = head - RF_MIN(head, (size_t)CONTEXT);
	more = RF_MIN(tail, (size_t)CONTEXT);
	printf("--- %s\n+++ %s\n@@ -%zu,%zu +%zu,%zu @@\n", path, path, from + (x.n > 0), x.n - tail + more - from,
	       from + (y.n > 0), y.n - tail + more - from);
	put_lines(x, from, head, ' ');
	put_lines(x, head, x.n - tail, '-');
	put_lines(y, head, y.n - tail, '+');
	put_lines(x, x.n - tail, x.n - tail + more, ' ');
}

/* --- one file --- */

struct formatting {
	struct rf_arena *a;
	size_t files, failed, changed;
};

/* A formatter that changes what a policy says would be worse than none: read again, it must be the same. */
static bool says_the_same(struct rf_arena *a, const struct rf_ra_module *m, struct rf_str text)
{
	rf_auto(buf) old = RF_BUF_INIT, new = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = a };
	struct rf_ra_module *again = NULL;

	if (rf_ra_parse(a, m->file, text, rf_policy_version(), &again, &errors) < 0)
		return false;
	rf_ra_dump(&old, m);
	rf_ra_dump(&new, again);
	return rf_str_eq(rf_buf_str(&old), rf_buf_str(&new));
}

static int write_back(const char *path, struct rf_str text, struct rf_err *err)
{
	rf_auto_free char *real = realpath(path, NULL); /* a link stays one */
	struct stat st;

	if (real == NULL || stat(real, &st) < 0)
		return rf_fail_errno(err, "find %s", path);
	return rf_fs_write(real, text, st.st_mode & 07777, false, err);
}

static int put(struct formatting *f, const char *path, struct rf_str before, struct rf_str after, struct rf_err *err)
{
	bool same = rf_str_eq(before, after);

	f->changed += !same;
	if (rf_policy_opt.diff || rf_policy_opt.data) {
		if (!same)
			print_diff(f->a, path, before, after);
		return 0;
	}
	if (!rf_policy_opt.write) {
		fwrite(after.p, 1, after.n, stdout);
		return 0;
	}
	if (same)
		return 0;
	printf("%s\n", path);
	return write_back(path, after, err);
}

static int format_file(void *arg, const char *path, struct rf_err *err)
{
	struct formatting *f = arg;
	struct rf_ra_errors errors = { .arena = f->a };
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_ra_module *m = NULL;
	struct rf_str text = RF_STR_EMPTY;

	f->files++;
	if (rf_fs_read(f->a, path, RF_RA_SOURCE_MAX, &text, err) < 0)
		return -err->code;
	if (rf_ra_parse(f->a, rf_str(path), text, rf_policy_version(), &m, &errors) < 0) {
		f->failed++;
		rf_policy_print_errors(stderr, &errors);
		return 0;
	}
	rf_ra_format(&out, m);
	if (!says_the_same(f->a, m, rf_buf_str(&out)))
		return rf_fail(err, RF_INTERNAL, "%s: formatted, it would say something else; the file is left as it is",
			       path);
	return put(f, path, text, rf_buf_str(&out), err);
}

int rf_policy_fmt(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	struct formatting f = { .a = a };
	bool diff = rf_policy_opt.diff || rf_policy_opt.data;

	if (diff && rf_policy_opt.write)
		return rf_fail(err, RF_BAD_REQUEST, "fmt takes -w (change the files) or -d (show what would change), not both");
	for (int i = 0; i < argc; i++)
		if (rf_policy_walk(a, argv[i], RF_LIT(".rego"), format_file, &f, err) < 0)
			return -err->code;
	if (f.files == 0)
		return rf_fail(err, RF_NOT_FOUND, "fmt %s: there is no .rego file", argv[0]);
	if (f.failed > 0)
		return rf_fail(err, RF_INVALID, "%zu of %zu files cannot be read as Rego; the errors are above%s", f.failed,
			       f.files, rf_policy_opt.v0 ? "" : " (policies for OPA before 1.0 need --v0)");
	return diff && f.changed > 0;
}
