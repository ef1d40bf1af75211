#include "cli/cli.h"

#include <stdio.h>

#include "cli/explain.h"

static const char *o_namespace;
static bool o_all;

struct facts {
	struct rf_json *pod, *events, *group;
};

static int fetch_pod(struct rf_kube *k, struct rf_arena *a, struct rf_str ns, struct rf_str name, struct rf_json **ret,
		     struct rf_err *err)
{
	if (rf_kube_get(k, a, rf_kube_path(a, &RF_PODS, ns, name, NULL), ret, err) == 0)
		return 0;
	if (err->code != RF_NOT_FOUND)
		return -err->code;
	return rf_fail(err, RF_NOT_FOUND,
		       "there is no pod \"%.*s\" in namespace \"%.*s\"; \"ringfence ps -n %.*s\" lists those there are",
		       (int)RF_MIN(name.n, (size_t)253), name.p, RF_STR(ns), RF_STR(ns));
}

/* Events and the gang make the answer better; that they may not be read is no reason to give none. */
static int fetch(struct rf_kube *k, struct rf_arena *a, struct rf_str ns, struct rf_str name, struct facts *ret,
		 struct rf_err *err)
{
	struct rf_str group = RF_STR_EMPTY;

	if (fetch_pod(k, a, ns, name, &ret->pod, err) < 0)
		return -err->code;
	if (rf_cli_list(k, a, &RF_EVENTS, ns, &ret->events, err) < 0 && err->code != RF_FORBIDDEN)
		return -err->code;
	group = rf_explain_group_of(ret->pod);
	if (group.n == 0 || rf_kube_get(k, a, rf_kube_path(a, &RF_PODGROUPS, ns, group, NULL), &ret->group, err) == 0)
		return 0;
	if (err->code == RF_NOT_FOUND)
		ret->group = rf_json_null(a);
	return err->code == RF_NOT_FOUND || err->code == RF_FORBIDDEN ? 0 : -err->code;
}

static void print_line(struct rf_arena *a, const struct rf_json *why, const char *key)
{
	const struct rf_json *v = rf_json_at(why, key);

	if (v == NULL)
		return;
	printf("  %-10s %.*s\n", key, RF_STR(v->type == RF_JSON_STRING ? rf_explain_plain(a, v->text) : rf_json_text_of(a, v)));
}

static void print_gang(const struct rf_json *gang)
{
	if (gang == NULL)
		return;
	printf("  %-10s %.*s", "gang", RF_STR(rf_json_str_at(gang, "name")));
	if (rf_json_at(gang, "phase") != NULL)
		printf(": %lld have a place, at least %lld go together (%.*s)",
		       (long long)rf_json_int(rf_json_at(gang, "scheduled"), 0),
		       (long long)rf_json_int(rf_json_at(gang, "minMember"), 1), RF_STR(rf_json_str_at(gang, "phase")));
	printf("\n");
}

static void print_why(struct rf_arena *a, const struct rf_json *why)
{
	static const char *const keys[] = { "reason", "cause", "resource", "resources", "level", "need",
					    "have",   "by",    "until",	  "help",      "queue", "node" };

	printf("%.*s/%.*s (%.*s): %.*s\n", RF_STR(rf_json_str_at(why, "namespace")), RF_STR(rf_json_str_at(why, "pod")),
	       RF_STR(rf_json_str_at(why, "state")), RF_STR(rf_explain_plain(a, rf_json_str_at(why, "message"))));
	for (size_t i = 0; i < RF_COUNT(keys); i++)
		print_line(a, why, keys[i]);
	print_gang(rf_json_at(why, "gang"));
}

static int print(struct rf_arena *a, const struct facts *f, struct rf_err *err)
{
	static const struct rf_column columns[] = { { "FROM", "from" }, { "REASON", "reason" }, { "MESSAGE", "message" } };
	struct rf_json *why = rf_explain_pod(a, f->pod, f->events, f->group), *all = NULL;

	if (o_all)
		all = rf_explain_pod_all(a, f->pod, f->events);
	if (rf_cli_output != NULL && strcmp(rf_cli_output, "table") != 0) {
		if (o_all)
			rf_json_set(a, why, RF_LIT("all"), all);
		return rf_cli_print(why, NULL, 0, err);
	}
	print_why(a, why);
	if (!o_all)
		return 0;
	printf("\n");
	return rf_cli_print(all, columns, RF_COUNT(columns), err);
}

static int run(int argc, char **argv, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_ptr(kube) k = NULL;
	struct rf_kubeconfig config = { 0 };
	struct facts facts = { 0 };
	struct rf_str name, ns;

	if (argc != 1)
		return rf_fail(err, RF_BAD_REQUEST, "say which pod: ringfence why NAMESPACE/POD");
	name = rf_str(argv[0]);
	if (rf_cli_config(&a, &config, err) < 0 || rf_kube_new(&config, &k, err) < 0)
		return -err->code;
	ns = o_namespace ? rf_str(o_namespace) : config.ns;
	if (rf_str_contains(name, RF_LIT("/")))
		rf_str_cut(&name, '/', &ns);
	if (ns.n == 0)
		ns = RF_LIT("default");
	if (name.n == 0)
		return rf_fail(err, RF_BAD_REQUEST, "say which pod: ringfence why NAMESPACE/POD");
	if (fetch(k, &a, ns, name, &facts, err) < 0)
		return -err->code;
	return print(&a, &facts, err);
}

static const struct rf_opt OPTS[] = {
	{ "namespace", 'n', RF_OPT_STR, &o_namespace, "NS", "the pod's namespace" },
	{ "all", 0, RF_OPT_FLAG, &o_all, NULL, "also all that conditions, containers and events say" },
	RF_OPT_KUBECONFIG,
	RF_OPT_OUTPUT,
};

const struct rf_verb RF_VERB_WHY = {
	.name = "why",
	.summary = "Say why a pod waits, or where it runs",
	.usage = "[NAMESPACE/]POD [-n NS] [--all] [-o json|table]",
	.details = "One reason, with what is short (resource), where (level), how much of it is needed and there, and\n"
		   "what would help. Needs no more than the tenant's own rights.\n\n"
		   "Examples:\n  ringfence why team-a/train\n  ringfence why train -n team-a --all",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
