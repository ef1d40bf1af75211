/* `policy apply`: policies from files into a cluster, ringfence's own or Kubernetes: ConstraintTemplates and Constraints as
 * they are, plain Rego as one labelled ConfigMap. Everything is compiled here first; if anything fails, nothing is
 * sent. */
#include <unistd.h>

#include "base/fs.h"
#include "cli/policy.h"
#include "codec/yaml.h"
#include "policy/book.h"

#define MAP_MAX ((size_t)1000 << 10) /* of a ConfigMap's data; Kubernetes takes a little more */
#define DEPTH_MAX 8
#define WAIT_TRIES 60		     /* for a constraint's kind to be served, half a second each */

enum { TEMPLATES, CONSTRAINTS, MAPS, TYPES };

struct applying {
	struct rf_arena *a;
	struct rf_json *object[TYPES]; /* arrays */
	const char *root;	       /* what was named: keys are the names below it */
	struct rf_json *modules;       /* of the ConfigMap: data */
	size_t bytes;
	struct rf_book *book;
};

/* --- reading --- */

static int type_of(const struct rf_json *o)
{
	if (!rf_book_is_policy(o))
		return -1;
	if (rf_str_is(rf_json_str_at(o, "kind"), "ConstraintTemplate"))
		return TEMPLATES;
	return rf_str_is(rf_json_str_at(o, "kind"), "ConfigMap") ? MAPS : CONSTRAINTS;
}

/* What is no policy (a kustomization, a sample pod) is left alone. */
static int take_objects(void *arg, const char *file, struct rf_err *err)
{
	struct applying *p = arg;
	struct rf_json *docs = NULL;
	struct rf_str text;

	if (rf_fs_read(p->a, file, RF_POLICY_FILE_MAX, &text, err) < 0)
		return -err->code;
	if (rf_yaml_parse(p->a, text, &docs, err) < 0)
		return rf_wrap(err, "%s", file);
	for (size_t i = 0; i < rf_json_len(docs); i++) {
		struct rf_json *o = rf_json_item(docs, i);
		int type = type_of(o);

		if (type >= 0)
			rf_json_push(p->a, p->object[type], o);
	}
	return 0;
}

/* A ConfigMap's keys: what is no letter, digit, dot, dash or underscore becomes a dash. */
static struct rf_str key_of(struct rf_arena *a, struct rf_str file)
{
	char *key = (char *)(uintptr_t)rf_arena_cstr(a, file);

	for (size_t i = 0; i < file.n; i++)
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", key[i]) == NULL)
			key[i] = '-';
	return rf_str_n(key, file.n);
}

static int take_module(void *arg, const char *file, struct rf_err *err)
{
	struct applying *p = arg;
	struct rf_str below = rf_str_skip(rf_str(file), strlen(p->root)), rest = rf_str(file), last;
	struct rf_str key, text;

	if (rf_str_ends(rf_str(file), RF_LIT("_test.rego")))
		return 0;
	while (below.n > 0 && below.p[0] == '/')
		below = rf_str_skip(below, 1);
	while (rf_str_cut(&rest, '/', &last))
		;
	key = key_of(p->a, below.n > 0 ? below : last);
	if (rf_fs_read(p->a, file, RF_RA_SOURCE_MAX, &text, err) < 0)
		return -err->code;
	if (rf_json_get(p->modules, key) != NULL)
		return rf_fail(err, RF_CONFLICT, "%s: another file has the same name in the ConfigMap, %.*s; rename one",
			       file, RF_STR(key));
	p->bytes += key.n + text.n;
	if (p->bytes > MAP_MAX)
		return rf_fail(err, RF_TOO_LARGE, "%s: the modules are more than a ConfigMap takes (%zu KiB); apply them in "
			       "parts, with --name", file, MAP_MAX >> 10);
	rf_json_set(p->a, p->modules, key, rf_json_make(p->a, "%S", text));
	return 0;
}

static int read_path(struct applying *p, const char *path, int depth, struct rf_err *err);

/* A folder with a kustomization.yaml is what that names: samples and tests lie beside it. */
static int read_list(struct applying *p, const char *dir, const char *list, int depth, struct rf_err *err)
{
	struct rf_json *docs = NULL;
	const struct rf_json *names;
	struct rf_str text;

	if (depth > DEPTH_MAX)
		return rf_fail(err, RF_TOO_LARGE, "%s: kustomizations that name each other", list);
	if (rf_fs_read(p->a, list, RF_POLICY_FILE_MAX, &text, err) < 0)
		return -err->code;
	if (rf_yaml_parse(p->a, text, &docs, err) < 0)
		return rf_wrap(err, "%s", list);
	names = rf_json_at(rf_json_item(docs, 0), "resources");
	for (size_t i = 0; i < rf_json_len(names); i++)
		if (read_path(p, rf_fs_path(p->a, "%s/%.*s", dir, RF_STR(rf_json_str(rf_json_item(names, i)))), depth + 1,
			      err) < 0)
			return rf_wrap(err, "%s", list);
	return 0;
}

static int read_path(struct applying *p, const char *path, int depth, struct rf_err *err)
{
	static const struct {
		const char *suffix;
		int (*fn)(void *arg, const char *file, struct rf_err *err);
	} kinds[] = { { ".yaml", take_objects }, { ".yml", take_objects }, { ".json", take_objects },
		      { ".rego", take_module } };
	const char *list = rf_fs_path(p->a, "%s/kustomization.yaml", path);

	if (rf_fs_exists(list))
		return read_list(p, path, list, depth, err);
	p->root = path;
	for (size_t i = 0; i < RF_COUNT(kinds); i++)
		if (rf_policy_walk(p->a, path, rf_str(kinds[i].suffix), kinds[i].fn, p, err) < 0)
			return -err->code;
	return 0;
}

static int read_all(struct applying *p, int argc, char **argv, struct rf_err *err)
{
	for (int i = 0; i < argc; i++)
		if (read_path(p, argv[i], 0, err) < 0)
			return -err->code;
	if (p->bytes > 0)
		rf_json_push(p->a, p->object[MAPS],
			     rf_json_make(p->a,
					  "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':%s,'namespace':%s,'labels':"
					  "{%s:'rego'}},'data':%j}",
					  rf_policy_opt.name, RF_BOOK_NAMESPACE, RF_BOOK_LABEL, p->modules));
	for (int type = 0; type < TYPES; type++)
		if (rf_json_len(p->object[type]) > 0)
			return 0;
	return rf_fail(err, RF_NOT_FOUND, "there is no ConstraintTemplate, Constraint or .rego file there");
}

static int check_all(struct applying *p, struct rf_err *err)
{
	for (int type = 0; type < TYPES; type++)
		for (size_t i = 0; i < rf_json_len(p->object[type]); i++)
			if (rf_book_put(p->book, rf_json_item(p->object[type], i), err) < 0)
				return -err->code;
	return 0;
}

/* --- sending --- */

static struct rf_kube_res resource_of(struct rf_arena *a, int type, const struct rf_json *o)
{
	struct rf_str group, version, kind = rf_json_str_at(o, "kind");
	struct rf_str rest = rf_json_str_at(o, "apiVersion");
	char *plural = (char *)(uintptr_t)rf_arena_cstr(a, kind);

	if (type == MAPS)
		return RF_CONFIGMAPS;
	(void)rf_str_cut(&rest, '/', &group);
	version = rest;
	for (size_t i = 0; i < kind.n; i++)
		plural[i] = (char)(plural[i] >= 'A' && plural[i] <= 'Z' ? plural[i] + 32 : plural[i]);
	return (struct rf_kube_res){ .group = rf_arena_cstr(a, group),
				     .version = rf_arena_cstr(a, version),
				     .plural = type == TEMPLATES ? "constrainttemplates" : plural,
				     .kind = rf_arena_cstr(a, kind) };
}

/* Over what is there: all but what the server keeps in metadata and status. */
static int replace(struct rf_kube *k, struct rf_arena *a, struct rf_str path, const struct rf_json *is,
		   const struct rf_json *o, struct rf_err *err)
{
	struct rf_json *next = rf_json_clone(a, o);

	rf_json_set_str(a, rf_json_at(next, "metadata"), "resourceVersion",
			rf_json_str_at(is, "metadata", "resourceVersion"));
	return rf_kube_update(k, a, path, next, NULL, err);
}

/* Of a template that is new its constraints' kind is served a moment later. */
static int send_one(struct rf_kube *k, struct rf_arena *a, int type, struct rf_json *o, const char **ret_did,
		    struct rf_err *err)
{
	struct rf_kube_res res = resource_of(a, type, o);
	struct rf_str ns = type == MAPS ? RF_LIT(RF_BOOK_NAMESPACE) : RF_STR_EMPTY;
	struct rf_str all = rf_kube_path(a, &res, ns, RF_STR_EMPTY, NULL);
	struct rf_str path = rf_kube_path(a, &res, ns, rf_kube_name(o), NULL);
	struct rf_json *is = NULL;
	int r = 0;

	for (int i = 0; i < WAIT_TRIES; i++) {
		r = rf_kube_get(k, a, path, &is, err);
		if (r == 0) {
			*ret_did = "updated";
			return replace(k, a, path, is, o, err);
		}
		if (r != -RF_NOT_FOUND)
			return r;
		*ret_did = "created";
		r = rf_kube_create(k, a, all, o, NULL, err);
		if (r != -RF_NOT_FOUND || type != CONSTRAINTS)
			return r;
		usleep(500000);
	}
	return r;
}

static int send_all(struct applying *p, struct rf_err *err)
{
	struct rf_kube *k = NULL;
	int r = rf_cli_connect(p->a, &k, err);

	for (int type = 0; r == 0 && type < TYPES; type++)
		for (size_t i = 0; r == 0 && i < rf_json_len(p->object[type]); i++) {
			struct rf_json *o = rf_json_item(p->object[type], i);
			struct rf_str kind = rf_json_str_at(o, "kind"), name = rf_kube_name(o);
			const char *did = "";

			r = send_one(k, p->a, type, o, &did, err);
			if (r == 0)
				printf("%.*s %.*s %s\n", RF_STR(kind), RF_STR(name), did);
			else
				rf_wrap(err, "%.*s %.*s", RF_STR(kind), RF_STR(name));
		}
	rf_kube_free(k);
	return r;
}

int rf_policy_apply(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	rf_auto_ptr(book) book = rf_book_new();
	struct applying p = { .a = a, .book = book, .modules = rf_json_object(a) };

	for (int type = 0; type < TYPES; type++)
		p.object[type] = rf_json_array(a);
	if (read_all(&p, argc, argv, err) < 0 || check_all(&p, err) < 0)
		return -err->code;
	return send_all(&p, err);
}
