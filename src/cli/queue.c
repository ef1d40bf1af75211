#include "cli/cli.h"

#include <stdio.h>

#include "cli/explain.h"

/* A tenant may be allowed to see its own queue only: that one, without the tree around it. */
static int fetch(struct rf_kube *k, struct rf_arena *a, struct rf_str name, struct rf_json **ret, struct rf_err *err)
{
	struct rf_json *one = NULL;

	if (rf_cli_list(k, a, &RF_QUEUES, RF_STR_EMPTY, ret, err) == 0)
		return 0;
	if (err->code != RF_FORBIDDEN)
		return -err->code;
	if (name.n == 0)
		return rf_wrap(err, "see all queues (with a name, \"ringfence queue NAME\", one may be yours to see)");
	if (rf_kube_get(k, a, rf_kube_path(a, &RF_QUEUES, RF_STR_EMPTY, name, NULL), &one, err) < 0)
		return rf_wrap(err, "see queue %.*s", RF_STR(name));
	*ret = rf_json_array(a);
	rf_json_push(a, *ret, one);
	return 0;
}

/* What is wrong with a queue does not fit into its row. */
static void print_messages(const struct rf_json *queues)
{
	for (size_t i = 0; i < rf_json_len(queues); i++) {
		const struct rf_json *q = rf_json_item(queues, i);

		if (rf_json_at(q, "message") != NULL)
			printf("\nqueue %.*s does not hold as it is written: %.*s\n", RF_STR(rf_json_str_at(q, "name")),
			       RF_STR(rf_json_str_at(q, "message")));
	}
}

static int run(int argc, char **argv, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "QUEUE", "queue" },	  { "TURN", "position" }, { "WEIGHT", "weight" },	  { "PENDING", "pending" },
		{ "RUNNING", "running" }, { "USAGE", "usage" },	  { "RESOURCE", "resource" }, { "GUARANTEED", "guaranteed" },
		{ "FAIR", "fair" },	  { "LIMIT", "limit" },	  { "USED", "used" },	  { "DEBT", "debt" },
		{ "WANTED", "wanted" },
	};
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_ptr(kube) k = NULL;
	struct rf_json *queues = NULL;
	struct rf_str name = rf_str(argc > 0 ? argv[0] : NULL);
	bool table = rf_cli_output == NULL || strcmp(rf_cli_output, "table") == 0;

	if ((argc > 1 && rf_cli_no_more(&RF_VERB_QUEUE, argc - 1, argv + 1, err) < 0) || rf_cli_connect(&a, &k, err) < 0 ||
	    fetch(k, &a, name, &queues, err) < 0)
		return -err->code;
	queues = rf_explain_queues(&a, queues);
	if (name.n > 0)
		queues = rf_explain_queues_below(&a, queues, name);
	if (name.n > 0 && rf_json_len(queues) == 0)
		return rf_fail(err, RF_NOT_FOUND, "there is no queue \"%.*s\"; \"ringfence queue\" lists them",
			       (int)RF_MIN(name.n, (size_t)253), name.p);
	if (rf_cli_print(table ? rf_explain_queue_rows(&a, queues) : queues, columns, RF_COUNT(columns), err) < 0)
		return -err->code;
	if (table)
		print_messages(queues);
	return 0;
}

static const struct rf_opt OPTS[] = { RF_OPT_KUBECONFIG, RF_OPT_OUTPUT };

const struct rf_verb RF_VERB_QUEUE = {
	.name = "queue",
	.summary = "Show the queues: what each is entitled to, uses, owes, and whose turn it is",
	.usage = "[NAME] [-o json|table]",
	.details = "TURN: its place among the queues beside it that have work waiting: who owes nothing first, then\n"
		   "least past usage per weight. USAGE: past use that still counts, as time of the whole cluster.\n"
		   "FAIR: what it deserves now. DEBT: what it uses beyond its guarantee, and may have to give back.\n"
		   "The figures are at most some five seconds old.\n"
		   "With NAME that queue and those below it.",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
