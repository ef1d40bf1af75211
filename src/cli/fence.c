#include "cli/opts.h"
#include "fence/launch/launch.h"

extern const struct rf_verb RF_VERB_FENCE;

static struct rf_launch_opts o;
static const char *o_output;

static int stats(int argc, char **argv, struct rf_err *err)
{
	bool json = o_output != NULL && strcmp(o_output, "json") == 0;

	if (rf_cli_no_more(&RF_VERB_FENCE, argc, argv, err) < 0)
		return -err->code;
	if (o_output != NULL && !json && strcmp(o_output, "table") != 0)
		return rf_fail(err, RF_BAD_REQUEST, "-o %s: print as json or table", o_output);
	return rf_launch_stats(json, err);
}

static int arbiter(int argc, char **argv, struct rf_err *err)
{
	if (rf_cli_no_more(&RF_VERB_FENCE, argc, argv, err) < 0)
		return -err->code;
	return rf_launch_arbiter(err);
}

static int run(int argc, char **argv, struct rf_err *err)
{
	if (argc > 0 && strcmp(argv[0], "stats") == 0)
		return stats(argc - 1, argv + 1, err);
	if (argc > 0 && strcmp(argv[0], "arbiter") == 0)
		return arbiter(argc - 1, argv + 1, err);
	if (argc < 2 || strcmp(argv[0], "--") != 0) {
		/* An option without its value may have taken the next one. */
		if (rf_terms_check(&o, err) < 0)
			return -err->code;
		return rf_fail(
			err, RF_BAD_REQUEST,
			"say what to run: ringfence fence --memory 20Gi --compute 50 -- program");
	}
	return rf_launch(&o, argv + 1, err);
}

static const struct rf_opt OPTS[] = {
	{ "memory", 0, RF_OPT_STR, &o.memory, "SIZE", "memory of each card (default: all of it)" },
	{ "compute", 0, RF_OPT_STR, &o.compute, "PERCENT",
	  "share of each card's time (default: 100)" },
	{ "card", 0, RF_OPT_STR, &o.cards, "N|UUID|all",
	  "which cards, with commas (default: the first)" },
	{ "burst", 0, RF_OPT_FLAG, &o.burst, NULL, "may also use time that others leave" },
	{ "priority", 0, RF_OPT_INT, &o.priority, "N",
	  "who goes first among those with time left" },
	{ "name", 0, RF_OPT_STR, &o.name, "NAME", "what stats calls it (default: the program)" },
	{ "mps", 0, RF_OPT_FLAG, &o.mps, NULL, "the cards are shared by NVIDIA MPS" },
	{ "output", 'o', RF_OPT_STR, &o_output, "json|table", "how stats prints" },
};

const struct rf_verb RF_VERB_FENCE = {
	.name = "fence",
	.summary = "Fence one program: its part of a card's memory and time, no platform needed",
	.usage = "[--memory SIZE] [--compute PERCENT] [--card N|UUID|all] -- program [arguments], "
		 "or: stats, or: arbiter",
	.details = "The program and everything it starts see a card of that size and get that "
		   "share of its\n"
		   "time. Exit status: the program's; 128 + n if signal n ended it. No root is "
		   "needed.\n"
		   "For fences of several users root runs \"ringfence fence arbiter\", which "
		   "shares the\n"
		   "cards between them until a signal ends it.\n"
		   "Example:\n"
		   "  ringfence fence --memory 20Gi --compute 50 -- python train.py",
	.subs = "stats arbiter",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
