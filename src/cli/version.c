#include <stdio.h>

#include "cli/cli.h"

static int run(int argc, char **argv, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *rows = NULL;
	static const struct rf_column columns[] = { { "VERSION", "version" }, { "API", "api" } };

	if (rf_cli_no_more(&RF_VERB_VERSION, argc, argv, err) < 0)
		return -err->code;
	if (rf_cli_output == NULL) {
		printf("ringfence %s\n", RF_VERSION);
		return 0;
	}
	rows = rf_json_make(&a, "[{'version':%s,'api':'ringfence.io/v1alpha1'}]", RF_VERSION);
	return rf_cli_print(rows, columns, RF_COUNT(columns), err);
}

static const struct rf_opt OPTS[] = { RF_OPT_OUTPUT };

const struct rf_verb RF_VERB_VERSION = {
	.name = "version",
	.summary = "Say which ringfence this is",
	.usage = "[-o json|table]",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
