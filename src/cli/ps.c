#include "cli/cli.h"

#include "web/view.h"

static const char *o_namespace;

struct lists {
	struct rf_json *pods, *claims, *namespaces;
};

static int fetch(struct rf_kube *k, struct rf_arena *a, struct rf_str ns, struct lists *ret, struct rf_err *err)
{
	if (rf_cli_list(k, a, &RF_PODS, ns, &ret->pods, err) < 0 ||
	    rf_cli_list(k, a, &RF_RESOURCECLAIMS, ns, &ret->claims, err) < 0)
		return -err->code;
	/* A tenant may not list namespaces; its rows then go without the tenant's name. */
	if (rf_cli_list(k, a, &RF_NAMESPACES, RF_STR_EMPTY, &ret->namespaces, err) < 0 && err->code != RF_FORBIDDEN)
		return -err->code;
	return 0;
}

static int run(int argc, char **argv, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "TENANT", "tenant" }, { "NAMESPACE", "namespace" }, { "POD", "pod" },       { "GPU", "gpu" },
		{ "NODE", "node" },     { "CARDS", "cards" },         { "STATUS", "status" }, { "AGE", "age" },
	};
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_ptr(kube) k = NULL;
	struct rf_kubeconfig config = { 0 };
	struct lists lists = { 0 };
	int r;

	if (rf_cli_no_more(&RF_VERB_PS, argc, argv, err) < 0 || rf_cli_config(&a, &config, err) < 0 ||
	    rf_kube_new(&config, &k, err) < 0)
		return -err->code;
	r = fetch(k, &a, rf_str(o_namespace), &lists, err);
	if (r == -RF_FORBIDDEN && o_namespace == NULL) /* not an administrator: the caller's own namespace */
		r = fetch(k, &a, config.ns, &lists, err);
	if (r < 0)
		return r;
	return rf_cli_print(rf_view_pods(&a, lists.pods, lists.namespaces, lists.claims, rf_wall_ms(rf_clock_system())),
			    columns, RF_COUNT(columns), err);
}

static const struct rf_opt OPTS[] = {
	{ "namespace", 'n', RF_OPT_STR, &o_namespace, "NS", "only this namespace (default: all that the caller may see)" },
	RF_OPT_KUBECONFIG,
	RF_OPT_OUTPUT,
};

const struct rf_verb RF_VERB_PS = {
	.name = "ps",
	.summary = "List pods with what they hold of which card",
	.usage = "[-n NS] [-o json|table]",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
