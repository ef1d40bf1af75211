/* Policies and data from files and folders, laid out as OPA lays them out. */
#include <errno.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "cli/policy.h"
#include "codec/yaml.h"

#define FILES_MAX 20000
#define DEPTH_MAX 32

/* --- walking --- */

struct walk {
	struct rf_arena *a;
	int (*fn)(void *arg, const char *file, const char *root, struct rf_err *err);
	void *arg;
	const char *root; /* as given; the files are below it, or it is the file */
	size_t files;
};

static int walk(struct walk *w, const char *path, int depth, struct rf_err *err);

static int walk_folder(struct walk *w, const char *path, int depth, struct rf_err *err)
{
	struct rf_str *name = NULL;
	size_t n = 0;

	if (depth > DEPTH_MAX)
		return rf_fail(err, RF_TOO_LARGE, "%s: more than %d folders deep; a link that leads back?", path,
			       DEPTH_MAX);
	if (rf_fs_list(w->a, path, &name, &n, err) < 0)
		return -err->code;
	for (size_t i = 0; i < n; i++)
		if (name[i].p[0] != '.' &&
		    walk(w, rf_fs_path(w->a, "%s/%.*s", path, RF_STR(name[i])), depth + 1, err) < 0)
			return -err->code;
	return 0;
}

static int walk(struct walk *w, const char *path, int depth, struct rf_err *err)
{
	struct stat st;

	if (stat(path, &st) < 0 && depth > 0)
		return 0; /* a dangling link, or gone meanwhile */
	if (stat(path, &st) < 0)
		return errno == ENOENT ? rf_fail(err, RF_NOT_FOUND, "%s: there is no such file or folder", path) :
					 rf_fail_errno(err, "look at %s", path);
	if (S_ISDIR(st.st_mode))
		return walk_folder(w, path, depth, err);
	if (depth > 0 && !S_ISREG(st.st_mode))
		return 0;
	if (++w->files > FILES_MAX)
		return rf_fail(err, RF_TOO_LARGE, "%s: more than %d files; name a smaller folder", w->root, FILES_MAX);
	return w->fn(w->arg, path, w->root, err);
}

struct by_suffix {
	struct rf_str suffix;
	int (*fn)(void *arg, const char *file, struct rf_err *err);
	void *arg;
};

static int if_suffix(void *arg, const char *file, const char *root, struct rf_err *err)
{
	struct by_suffix *s = arg;

	(void)root;
	return rf_str_ends(rf_str(file), s->suffix) ? s->fn(s->arg, file, err) : 0;
}

int rf_policy_walk(struct rf_arena *a, const char *path, struct rf_str suffix,
		   int (*fn)(void *arg, const char *file, struct rf_err *err), void *arg, struct rf_err *err)
{
	struct by_suffix s = { suffix, fn, arg };
	struct walk w = { .a = a, .fn = if_suffix, .arg = &s, .root = path };

	return walk(&w, path, 0, err);
}

/* --- values --- */

static bool is_yaml(struct rf_str file)
{
	return rf_str_ends(file, RF_LIT(".yaml")) || rf_str_ends(file, RF_LIT(".yml"));
}

int rf_policy_parse_value(struct rf_arena *a, const char *path, struct rf_str text, struct rf_rv *ret,
			  struct rf_err *err)
{
	struct rf_json *docs = NULL;

	if (!is_yaml(rf_str(path)))
		return rf_rv_parse_json(a, text, ret, err) < 0 ? rf_wrap(err, "%s", path) : 0;
	if (rf_yaml_parse_core(a, text, &docs, err) < 0)
		return rf_wrap(err, "%s", path);
	if (rf_json_len(docs) > 1)
		return rf_fail(err, RF_INVALID, "%s: has %zu documents; one per file is read", path,
			       rf_json_len(docs));
	if (rf_json_len(docs) == 0)
		*ret = RF_RV_NIL;
	else if (!rf_rv_from_json(a, rf_json_item(docs, 0), ret))
		return rf_fail(err, RF_TOO_LARGE, "%s: has a number that is too long", path);
	return 0;
}

int rf_policy_read_value(struct rf_arena *a, const char *path, struct rf_rv *ret, struct rf_err *err)
{
	struct rf_str text = RF_STR_EMPTY;

	if (rf_fs_read(a, path, RF_POLICY_FILE_MAX, &text, err) < 0)
		return -err->code;
	return rf_policy_parse_value(a, path, text, ret, err);
}

/* --- data --- */

struct load {
	struct rf_arena *a;
	bool with_data;
	struct rf_rv data;
	RF_VEC(struct rf_rego_source) source;
	RF_VEC(struct rf_str) other;
};

/* Two files may add to the same object, not say two things about the same key. */
static bool clash(struct rf_rv a, struct rf_rv b, struct rf_buf *where)
{
	for (uint32_t i = 0; i < b.n; i++) {
		struct rf_rv key = b.pairs[i].key, old;
		size_t before = where->n;

		if (!rf_rv_get(a, key, &old))
			continue;
		rf_buf_printf(where, ".%.*s", RF_STR(rf_rv_text(key)));
		if (old.type != RF_RV_OBJECT || b.pairs[i].value.type != RF_RV_OBJECT ||
		    clash(old, b.pairs[i].value, where))
			return true;
		where->n = before;
		where->p[before] = '\0';
	}
	return false;
}

/* v under the names of the folders between root and the file. */
static int put_below_folders(struct load *l, const char *file, const char *root, struct rf_rv *v,
			     struct rf_err *err)
{
	struct rf_str rest = rf_str_skip(rf_str(file), strlen(root)), part;
	struct rf_str folder[DEPTH_MAX + 1];
	size_t n = 0;

	while (n < RF_COUNT(folder) && rf_str_cut(&rest, '/', &part))
		if (part.n > 0)
			folder[n++] = part;
	if (n == 0 && v->type != RF_RV_OBJECT)
		return rf_fail(err, RF_INVALID, "%s: is %s; a document at the root of data must be an object", file,
			       rf_rv_type_name(*v));
	while (n-- > 0) {
		struct rf_rv_pair *pair = rf_arena_new(l->a, struct rf_rv_pair);

		*pair = (struct rf_rv_pair){ rf_rv_str(folder[n]), *v };
		*v = rf_rv_object(pair, 1, NULL);
	}
	return 0;
}

static int take_data(struct load *l, const char *file, const char *root, struct rf_err *err)
{
	rf_auto(buf) where = RF_BUF_INIT;
	struct rf_rv v;

	if (rf_policy_read_value(l->a, file, &v, err) < 0 || put_below_folders(l, file, root, &v, err) < 0)
		return -err->code;
	if (clash(l->data, v, &where))
		return rf_fail(err, RF_CONFLICT, "%s: data%s is in another file already; keep one of them", file,
			       where.p);
	if (!rf_rv_merge(l->a, l->data, v, &l->data))
		return rf_fail(err, RF_TOO_LARGE, "%s: data is too large", file);
	return 0;
}

static int take_file(void *arg, const char *file, const char *root, struct rf_err *err)
{
	struct load *l = arg;
	struct rf_str name = rf_str(file);
	bool data = rf_str_ends(name, RF_LIT(".json")) || is_yaml(name);
	struct rf_rego_source s = { .file = name, .version = rf_policy_version() };

	if (data && l->with_data)
		return take_data(l, file, root, err);
	if (!rf_str_ends(name, RF_LIT(".rego"))) {
		if (strcmp(file, root) == 0)
			rf_vec_push(&l->other, name);
		return 0;
	}
	if (rf_fs_read(l->a, file, RF_RA_SOURCE_MAX, &s.text, err) < 0)
		return -err->code;
	rf_vec_push(&l->source, s);
	return 0;
}

int rf_policy_load(struct rf_arena *a, char **path, int n, bool with_data, struct rf_policy_files *ret,
		   struct rf_err *err)
{
	struct load l = { .a = a, .with_data = with_data, .data = rf_rv_object(NULL, 0, NULL) };
	int r = 0;

	for (int i = 0; i < n && r == 0; i++) {
		struct walk w = { .a = a, .fn = take_file, .arg = &l, .root = path[i] };

		r = walk(&w, path[i], 0, err);
	}
	if (r == 0) {
		*ret = (struct rf_policy_files){ .n = l.source.n, .data = l.data, .n_other = l.other.n };
		ret->source = rf_arena_array(a, struct rf_rego_source, l.source.n + 1);
		ret->other = rf_arena_array(a, struct rf_str, l.other.n + 1);
		for (size_t i = 0; i < l.source.n; i++)
			ret->source[i] = l.source.at[i];
		for (size_t i = 0; i < l.other.n; i++)
			ret->other[i] = l.other.at[i];
	}
	rf_vec_done(&l.source);
	rf_vec_done(&l.other);
	return r;
}
