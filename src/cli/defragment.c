#include "cli/cli.h"

#include <stdio.h>

#include "control/control.h"
#include "tenant/tenant.h"

static const char *o_scheduler, *o_resources;
static int64_t o_most = 100;
static bool o_apply;

static bool is_table(void)
{
	return rf_cli_output == NULL || strcmp(rf_cli_output, "table") == 0;
}

static struct rf_json *rows_of(struct rf_arena *a, const struct rf_json *plan)
{
	const struct rf_json *moves = rf_json_at(plan, "moves");
	struct rf_json *rows = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(moves); i++) {
		const struct rf_json *m = rf_json_item(moves, i);

		rf_json_push(a, rows,
			     rf_json_make(a, "{'pod':%S,'owner':%S,'ran':%S,'card':%S,'room':%S}",
					  rf_arena_printf(a, "%.*s/%.*s", RF_STR(rf_json_str_at(m, "namespace")),
							  RF_STR(rf_json_str_at(m, "pod"))),
					  rf_json_str_at(m, "owner"),
					  rf_time_age(a, rf_json_int(rf_json_at(m, "ranSeconds"), 0) * 1000),
					  rf_arena_printf(a, "%.*s/%.*s", RF_STR(rf_json_str_at(m, "node")),
							  RF_STR(rf_json_str_at(m, "card"))),
					  rf_arena_printf(a, "%.*s/%.*s", RF_STR(rf_json_str_at(m, "roomOn")),
							  RF_STR(rf_json_str_at(m, "roomOnCard")))));
	}
	return rows;
}

static void print_names(const char *what, const struct rf_json *list)
{
	if (rf_json_len(list) == 0)
		return;
	printf("%s:", what);
	for (size_t i = 0; i < rf_json_len(list); i++)
		printf(" %.*s", RF_STR(rf_json_str(rf_json_item(list, i))));
	printf("\n");
}

static void print_sum(struct rf_arena *a, const struct rf_json *plan)
{
	printf("\n");
	print_names("cards that become whole", rf_json_at(plan, "cards"));
	print_names("machines that become whole", rf_json_at(plan, "machines"));
	print_names("room for one more slice", rf_json_at(plan, "slices"));
	printf("free cards: %lld now, %lld then\n", (long long)rf_json_int(rf_json_at(plan, "freeCards", "now"), 0),
	       (long long)rf_json_int(rf_json_at(plan, "freeCards", "then"), 0));
	printf("cost: %lld pods start again, which ran for %.*s together\n",
	       (long long)rf_json_int(rf_json_at(plan, "cost", "pods"), 0),
	       RF_STR(rf_time_age(a, rf_json_int(rf_json_at(plan, "cost", "ranSeconds"), 0) * 1000)));
}

static int print(struct rf_arena *a, const struct rf_json *plan, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "POD", "pod" }, { "MADE BY", "owner" }, { "RAN", "ran" }, { "LEAVES", "card" }, { "ROOM ON", "room" },
	};

	if (!is_table())
		return rf_cli_print(plan, NULL, 0, err);
	if (rf_json_len(rf_json_at(plan, "moves")) == 0) {
		printf("nothing to move: no card would become free by it, and no large slice\n");
		return 0;
	}
	if (rf_cli_print(rows_of(a, plan), columns, RF_COUNT(columns), err) < 0)
		return -err->code;
	print_sum(a, plan);
	if (!o_apply)
		printf("nothing was changed; --apply evicts them\n");
	return 0;
}

/* What was done is said even where it stopped. */
static int apply(struct rf_kube *k, struct rf_arena *a, struct rf_json *plan, struct rf_err *err)
{
	size_t done = 0;
	int rc = rf_defragment_apply(k, a, plan, &done, err);

	rf_json_set_int(a, plan, "evicted", (int64_t)done);
	if (is_table() && done > 0)
		printf("%zu evicted\n", done);
	return rc;
}

static int run(int argc, char **argv, struct rf_err *err)
{
	struct rf_defragment_opts opts = { .scheduler_name = o_scheduler, .now_ms = rf_wall_ms(rf_clock_system()) };
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_ptr(kube) k = NULL;
	struct rf_json *plan = NULL;
	int rc = 0;

	if (rf_cli_no_more(&RF_VERB_DEFRAGMENT, argc, argv, err) < 0)
		return -err->code;
	if (o_most < 1 || o_most > 10000)
		return rf_fail(err, RF_BAD_REQUEST, "--most %lld: say how many pods to move, 1 to 10000", (long long)o_most);
	if (!is_table() && strcmp(rf_cli_output, "json") != 0)
		return rf_fail(err, RF_BAD_REQUEST, "-o %s: print as json or table", rf_cli_output);
	if (o_resources != NULL && rf_gpu_names_set(rf_str(o_resources), err) < 0)
		return rf_wrap(err, "--resources");
	opts.most = (size_t)o_most;
	if (rf_cli_connect(&a, &k, err) < 0 || rf_defragment_plan(k, &opts, &a, &plan, err) < 0)
		return -err->code;
	if (is_table() && print(&a, plan, err) < 0)
		return -err->code;
	if (o_apply)
		rc = apply(k, &a, plan, err);
	if (!is_table())
		(void)print(&a, plan, err);
	return rc;
}

static const struct rf_opt OPTS[] = {
	{ "apply", 0, RF_OPT_FLAG, &o_apply, NULL, "evict the pods of the plan, one after the other" },
	{ "most", 0, RF_OPT_INT, &o_most, "N", "move so many pods at most (default 100)" },
	{ "scheduler-name", 0, RF_OPT_STR, &o_scheduler, "NAME", "as control's: pods of other schedulers stay" },
	{ "resources", 0, RF_OPT_STR, &o_resources, "LIST",
	  "as control's: other names for whole cards, comma-separated (default nvidia.com/gpu)" },
	RF_OPT_KUBECONFIG,
	RF_OPT_OUTPUT,
};

const struct rf_verb RF_VERB_DEFRAGMENT = {
	.name = "defragment",
	.summary = "Show which pods to move so that cards and machines become whole, and move them",
	.usage = "[--apply] [--most N] [-o json|table]",
	.details = "Only pods that a controller makes again, that ran their minimum, that may be evicted\n"
		   "(ringfence.io/preemptible), as far as disruption budgets allow; no gangs. ROOM ON: the card where it\n"
		   "would be placed now. Where a pod goes is decided when it is made again, and is not promised.\n"
		   "Without --apply nothing is changed. With it the pods are evicted in this order, up to the first\n"
		   "that is refused. For administrators: it needs ClusterRole ringfence-defragment or more.",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
