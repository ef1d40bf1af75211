#include "cli/cli.h"

#include "web/view.h"

static int run(int argc, char **argv, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "NODE", "node" },     { "CARD", "card" },       { "MODEL", "model" }, { "MEMORY", "memory" },
		{ "GRANTED", "granted" }, { "COMPUTE", "compute" }, { "TENANTS", "tenants" }, { "HEALTH", "health" },
	};
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_ptr(kube) k = NULL;
	struct rf_json *slices = NULL, *claims = NULL;

	if (rf_cli_no_more(&RF_VERB_GPUS, argc, argv, err) < 0 || rf_cli_connect(&a, &k, err) < 0 ||
	    rf_cli_list(k, &a, &RF_RESOURCESLICES, RF_STR_EMPTY, &slices, err) < 0 ||
	    rf_cli_list(k, &a, &RF_RESOURCECLAIMS, RF_STR_EMPTY, &claims, err) < 0)
		return -err->code;
	return rf_cli_print(rf_view_cards(&a, slices, claims), columns, RF_COUNT(columns), err);
}

static const struct rf_opt OPTS[] = { RF_OPT_KUBECONFIG, RF_OPT_OUTPUT };

const struct rf_verb RF_VERB_GPUS = {
	.name = "gpus",
	.summary = "List the cards: what they are, how much is granted, and to whom",
	.usage = "[-o json|table]",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
