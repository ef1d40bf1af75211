/* Objects from files: YAML with any number of documents, or JSON. */
#include <errno.h>
#include <sys/stat.h>

#include "audit/private.h"
#include "base/fs.h"
#include "codec/yaml.h"

#define FILE_MAX ((size_t)64 << 20)
#define FILES_MAX 20000
#define DEPTH_MAX 32

struct walking {
	struct rf_arena *a;
	const char *suffixes; /* space-separated */
	int (*fn)(void *arg, const char *file, struct rf_str text, struct rf_err *err);
	void *arg;
	size_t files;
};

static bool has_suffix(const char *path, const char *suffixes)
{
	struct rf_str rest = rf_str(suffixes), one;

	while (rest.n > 0) {
		rf_str_cut(&rest, ' ', &one);
		if (rf_str_ends(rf_str(path), one))
			return true;
	}
	return false;
}

static int walk(struct walking *w, const char *path, int depth, struct rf_err *err)
{
	struct rf_str *name = NULL, text = RF_STR_EMPTY;
	struct stat st;
	size_t n = 0;

	if (stat(path, &st) < 0)
		return depth > 0	 ? 0
		       : errno == ENOENT ? rf_fail(err, RF_NOT_FOUND,
						   "%s: there is no such file or folder", path)
					 : rf_fail_errno(err, "look at %s", path);
	if (!S_ISDIR(st.st_mode)) {
		if (depth > 0 && (!S_ISREG(st.st_mode) || !has_suffix(path, w->suffixes)))
			return 0;
		if (++w->files > FILES_MAX)
			return rf_fail(err, RF_TOO_LARGE,
				       "%s: more than %d files; name a smaller folder", path,
				       FILES_MAX);
		if (rf_fs_read(w->a, path, FILE_MAX, &text, err) < 0)
			return -err->code;
		return w->fn(w->arg, path, text, err);
	}
	if (depth > DEPTH_MAX)
		return rf_fail(err, RF_TOO_LARGE,
			       "%s: more than %d folders deep; a link that leads back?", path,
			       DEPTH_MAX);
	if (rf_fs_list(w->a, path, &name, &n, err) < 0)
		return -err->code;
	for (size_t i = 0; i < n; i++)
		if (name[i].p[0] != '.' &&
		    walk(w, rf_fs_path(w->a, "%s/%.*s", path, RF_STR(name[i])), depth + 1, err) < 0)
			return -err->code;
	return 0;
}

int au_walk_yaml(struct rf_arena *a, const char *path, const char *suffixes,
		 int (*fn)(void *arg, const char *file, struct rf_str text, struct rf_err *err),
		 void *arg, struct rf_err *err)
{
	struct walking w = { .a = a, .suffixes = suffixes, .fn = fn, .arg = arg };

	return walk(&w, path, 0, err);
}

/* JSON is nearly YAML; what begins like JSON and is not may still be YAML. */
static int parse(struct rf_arena *a, struct rf_str text, struct rf_json **ret, struct rf_err *err)
{
	struct rf_json *one = NULL;

	if (!rf_str_starts(rf_str_trim(text), RF_LIT("{")) || rf_json_parse(a, text, &one, err) < 0)
		return rf_yaml_parse(a, text, ret, err);
	*ret = rf_json_array(a);
	rf_json_push(a, *ret, one);
	return 0;
}

static int take_file(void *arg, const char *file, struct rf_str text, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)1 << 30);
	struct rf_audit *x = arg;
	struct rf_str source = rf_arena_str(&x->a, rf_str(file));
	struct rf_json *docs = NULL;

	if (parse(&a, text, &docs, err) < 0)
		return rf_wrap(err, "%s", file);
	for (size_t i = 0; i < rf_json_len(docs); i++)
		if (rf_audit_add(x, rf_json_item(docs, i), source, err) < 0)
			return rf_wrap(err, "%s", file);
	return 0;
}

int rf_audit_read_files(struct rf_audit *x, char **path, int n, struct rf_err *err)
{
	for (int i = 0; i < n; i++) {
		rf_auto(arena) a = RF_ARENA_INIT;

		if (au_walk_yaml(&a, path[i], ".yaml .yml .json", take_file, x, err) < 0)
			return -err->code;
	}
	return 0;
}
