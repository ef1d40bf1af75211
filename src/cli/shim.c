#include "cli/cli.h"

#include "node/node.h"

static int run(int argc, char **argv, struct rf_err *err)
{
	(void)err; /* the shim tells its own errors: the agent reads them */
	return rf_shim_main(argc, argv);
}

const struct rf_verb RF_VERB_SHIM = {
	.name = "shim",
	.summary = "Keep one container's log and exit status (the node agent starts it)",
	.usage = "...",
	.hidden = true,
	.raw = true,
	.run = run,
};
