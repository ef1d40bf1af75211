#include "cli/cli.h"

#include "node/node.h"

/* The agent is the only caller: what it passes goes to the shim as it is, "--" in the verb's place. */
static int run(int argc, char **argv, struct rf_err *err)
{
	if (argc < 2 || strcmp(argv[0], "--") != 0)
		return rf_fail(err, RF_BAD_REQUEST, "the node agent starts this; it is not for people");
	return rf_shim_main(argc, argv);
}

const struct rf_verb RF_VERB_SHIM = {
	.name = "shim",
	.summary = "Keep one container's log and exit status (the node agent starts it)",
	.usage = "-- ...",
	.hidden = true,
	.run = run,
};
