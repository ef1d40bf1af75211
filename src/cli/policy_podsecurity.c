/* `policy podsecurity`: Kubernetes' own fixtures, or anybody's manifests, by the Pod Security
 * Standards. A fixture's name says what to expect: <level>/<version>/{pass,fail}/<pod>.yaml. With
 * --level every manifest is expected to pass. */
#include "base/fs.h"
#include "cli/policy.h"
#include "codec/yaml.h"
#include "policy/podsecurity.h"

#define LIST_DEPTH_MAX 4

/* The versions there were fixtures for. */
struct span {
	bool seen;
	int64_t oldest, newest;
};

struct podsecurity {
	bool manifests;		  /* --level: the rules are the same for all */
	const char *root;	  /* as named; read whatever its name ends in */
	struct rf_ps_rules rules; /* of the file at hand */
	bool expect;		  /* it is to pass */
	const char *file;
	struct rf_rego_tally tally;
	struct span span[RF_PS_RESTRICTED + 1];
};

/* --- one object --- */

static void tell(struct podsecurity *p, const char *verdict, const struct rf_json *o, const char *why)
{
	struct rf_str kind = rf_json_str_at(o, "kind"), ns = rf_json_str_at(o, "metadata", "namespace"),
		      name = rf_json_str_at(o, "metadata", "name");

	printf("%s %s: %.*s%s%.*s%s%.*s%s\n", verdict, p->file, RF_STR(kind), kind.n > 0 ? " " : "", RF_STR(ns),
	       ns.n > 0 ? "/" : "", RF_STR(name), why);
}

static void tell_failed(struct podsecurity *p, const struct rf_json *o, bool is_pod, const char *why)
{
	rf_auto(buf) text = RF_BUF_INIT;

	/* Kubernetes' words: a template is not refused, its pods will be. */
	rf_buf_puts(&text, p->expect ? (is_pod ? " violates PodSecurity \"" : " would violate PodSecurity \"") :
				       " is allowed by PodSecurity \"");
	rf_ps_put_rules(&text, &p->rules);
	rf_buf_printf(&text, "\"%s%s", p->expect ? ": " : "", why);
	tell(p, "FAILED", o, text.p);
}

static void judge_object(struct podsecurity *p, const struct rf_json *o)
{
	const struct rf_json *pod = rf_ps_pod_of(o);
	rf_auto(buf) why = RF_BUF_INIT;

	if (pod == NULL) {
		p->tally.skipped++;
		if (rf_policy_opt.verbose)
			tell(p, "SKIPPED", o, " has no pod");
	} else if (rf_ps_judge(&p->rules, pod, &why) == p->expect) {
		p->tally.passed++;
		if (rf_policy_opt.verbose)
			tell(p, "PASSED", o, "");
	} else {
		p->tally.failed++;
		tell_failed(p, o, pod == o, why.p);
	}
}

/* `kubectl get -o yaml` writes lists: kind List, PodList and so on. */
static void judge_all(struct podsecurity *p, const struct rf_json *o, int depth)
{
	const struct rf_json *items = rf_json_at(o, "items");

	if (!rf_str_ends(rf_json_str_at(o, "kind"), RF_LIT("List")) || !rf_json_is(items, RF_JSON_ARRAY) ||
	    depth == LIST_DEPTH_MAX) {
		judge_object(p, o);
		return;
	}
	for (size_t i = 0; i < rf_json_len(items); i++)
		judge_all(p, rf_json_item(items, i), depth + 1);
}

/* --- one file --- */

static int read_docs(struct rf_arena *a, const char *file, struct rf_json **ret, struct rf_err *err)
{
	struct rf_str text = RF_STR_EMPTY;
	struct rf_json *one = NULL;

	if (rf_fs_read(a, file, RF_POLICY_FILE_MAX, &text, err) < 0)
		return -err->code;
	if (!rf_str_ends(rf_str(file), RF_LIT(".json")))
		return rf_yaml_parse(a, text, ret, err) < 0 ? rf_wrap(err, "%s", file) : 0;
	if (rf_json_parse(a, text, &one, err) < 0)
		return rf_wrap(err, "%s", file);
	*ret = rf_json_array(a);
	rf_json_push(a, *ret, one);
	return 0;
}

/* A file that cannot be read is a failure of that file, and the others are still judged. */
static void judge_file(struct podsecurity *p, const char *file)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(RF_POLICY_MEMORY);
	struct rf_json *docs = NULL;
	struct rf_err bad = RF_ERR_INIT;

	p->file = file;
	if (read_docs(&a, file, &docs, &bad) < 0) {
		p->tally.failed++;
		printf("FAILED %s\n", bad.msg);
		return;
	}
	if (rf_json_len(docs) == 0)
		p->tally.skipped++;
	for (size_t i = 0; i < rf_json_len(docs); i++)
		judge_all(p, rf_json_item(docs, i), 0);
}

/* The last folder's name is taken off the path: "a/b/c.yaml" gives "b" and leaves "a/b". */
static struct rf_str cut_folder(struct rf_str *path)
{
	size_t end = path->n, start;

	while (end > 0 && path->p[end - 1] != '/')
		end--;
	end -= end > 0;
	for (start = end; start > 0 && path->p[start - 1] != '/';)
		start--;
	path->n = end;
	return rf_str_n(path->p + start, end - start);
}

static bool is_fixture(struct podsecurity *p, const char *file)
{
	struct rf_str path = rf_str(file), verdict = cut_folder(&path), version = cut_folder(&path),
		      level = cut_folder(&path);

	/* As Kubernetes judges, which trusts its nodes with user namespaces. */
	p->rules = (struct rf_ps_rules){ .user_namespaces = true };
	p->expect = rf_str_is(verdict, "pass");
	return (p->expect || rf_str_is(verdict, "fail")) &&
	       rf_ps_version_parse(version, &p->rules.version, NULL) == 0 &&
	       rf_ps_level_parse(level, &p->rules.level);
}

static void note_version(struct podsecurity *p)
{
	struct span *s = &p->span[p->rules.level];
	int64_t minor = p->rules.version.pinned ? p->rules.version.minor : RF_PS_NEWEST;

	s->oldest = s->seen ? RF_MIN(s->oldest, minor) : minor;
	s->newest = s->seen ? RF_MAX(s->newest, minor) : minor;
	s->seen = true;
}

static int take_file(void *arg, const char *file, struct rf_err *err)
{
	struct podsecurity *p = arg;
	struct rf_str name = rf_str(file);

	(void)err;
	if (!rf_str_ends(name, RF_LIT(".yaml")) && !rf_str_ends(name, RF_LIT(".yml")) &&
	    !rf_str_ends(name, RF_LIT(".json")) && strcmp(file, p->root) != 0)
		return 0;
	if (p->manifests) {
		judge_file(p, file);
	} else if (is_fixture(p, file)) {
		note_version(p);
		judge_file(p, file);
	} else {
		p->tally.skipped++;
		if (rf_policy_opt.verbose)
			printf("SKIPPED %s: is no fixture\n", file);
	}
	return 0;
}

/* --- all --- */

static int read_options(struct podsecurity *p, struct rf_err *err)
{
	const char *level = rf_policy_opt.level, *version = rf_policy_opt.version;

	if (level == NULL && version != NULL)
		return rf_fail(err, RF_BAD_REQUEST,
			       "--version %s needs --level: baseline, restricted or privileged", version);
	if (level == NULL)
		return 0;
	p->manifests = p->expect = true;
	p->rules.user_namespaces = true;
	if (!rf_ps_level_parse(rf_str(level), &p->rules.level))
		return rf_fail(err, RF_BAD_REQUEST,
			       "--level %s: there is no such level; there are baseline, restricted and privileged",
			       level);
	if (version != NULL && rf_ps_version_parse(rf_str(version), &p->rules.version, err) < 0)
		return rf_wrap(err, "--version");
	return 0;
}

static void tell_versions(const struct podsecurity *p)
{
	for (size_t i = 0; i < RF_COUNT(p->span); i++)
		if (p->span[i].seen)
			printf("%s: v1.%lld to v1.%lld\n", rf_ps_level_name((enum rf_ps_level)i),
			       (long long)p->span[i].oldest, (long long)p->span[i].newest);
}

int rf_policy_podsecurity(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	struct podsecurity p = { 0 };

	if (read_options(&p, err) < 0)
		return -err->code;
	for (int i = 0; i < argc; i++) {
		rf_auto_free char *real = realpath(argv[i], NULL); /* a fixture's folders say its level */

		if (real == NULL)
			return rf_fail_errno(err, "find %s", argv[i]);
		p.root = p.manifests ? argv[i] : real;
		if (rf_policy_walk(a, p.root, RF_STR_EMPTY, take_file, &p, err) < 0)
			return -err->code;
	}
	if (p.tally.passed + p.tally.failed == 0 && p.manifests)
		return rf_fail(err, RF_NOT_FOUND,
			       "podsecurity %s: there are no pods (Pod, Deployment, Job ... in .yaml, .yml or .json)",
			       argv[0]);
	if (p.tally.passed + p.tally.failed == 0)
		return rf_fail(err, RF_NOT_FOUND,
			       "podsecurity %s: there are no fixtures (<level>/<version>/{pass,fail}/*.yaml); "
			       "to judge manifests say --level",
			       argv[0]);
	tell_versions(&p);
	return rf_policy_close(&p.tally);
}
