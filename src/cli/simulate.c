#include "cli/cli.h"

#include "base/fs.h"
#include "simulate/simulate.h"

static const char *o_nodes, *o_pods, *o_policy = "fgd";
static int64_t o_load = 130, o_seed = 42, o_runs = 1;
static bool o_learn;

static int read_policy(enum rf_fleet_policy *ret, struct rf_err *err)
{
	static const char *const NAMES[] = { [RF_FLEET_FRAG] = "fgd",
					     [RF_FLEET_PACK] = "pack",
					     [RF_FLEET_SPREAD] = "spread",
					     [RF_FLEET_FIRST] = "first" };

	for (size_t i = 0; i < RF_COUNT(NAMES); i++) {
		if (strcmp(o_policy, NAMES[i]) == 0) {
			*ret = (enum rf_fleet_policy)i;
			return 0;
		}
	}
	return rf_fail(err, RF_BAD_REQUEST, "--policy %s: one of fgd, pack, spread, first", o_policy);
}

static int read_files(struct rf_arena *a, struct rf_simulate *s, struct rf_err *err)
{
	struct rf_str text;

	if (o_nodes == NULL || o_pods == NULL)
		return rf_fail(err, RF_BAD_REQUEST, "--nodes and --pods name the files to read");
	if (rf_fs_read(a, o_nodes, RF_SIMULATE_FILE_MAX, &text, err) < 0)
		return -err->code;
	if (rf_simulate_read_nodes(s, text, err) < 0)
		return rf_wrap(err, "%s", o_nodes);
	if (rf_fs_read(a, o_pods, RF_SIMULATE_FILE_MAX, &text, err) < 0)
		return -err->code;
	return rf_simulate_read_pods(s, text, err) < 0 ? rf_wrap(err, "%s", o_pods) : 0;
}

/* Percent with two decimals, rounded. */
static struct rf_str percent(struct rf_arena *a, int64_t part, int64_t of)
{
	int64_t hundredths = (part * 20000 / of + 1) / 2;

	return rf_arena_printf(a, "%lld.%02lld", (long long)(hundredths / 100), (long long)(hundredths % 100));
}

static struct rf_json *row_of(struct rf_arena *a, struct rf_str seed, const struct rf_simulate_result *r)
{
	struct rf_json *failed = rf_json_object(a), *allocation = rf_json_number(a, 0), *row;

	for (size_t i = 0; i < RF_SIMULATE_SIZES; i++)
		rf_json_set_int(a, failed, RF_SIMULATE_SIZE_NAMES[i], r->failed[i]);
	allocation->text = percent(a, r->granted_milli, r->total_milli);
	row = rf_json_make(a, "{'seed':%S,'gpuAllocation':%j,'decisionsPerSecond':%D,'pods':%D,'placed':%D,'failed':%j}",
			   seed, allocation, r->pods * INT64_C(1000000000) / RF_MAX(r->ns, 1), r->pods, r->placed,
			   failed);
	return row;
}

/* For a table: one column per size of pod. */
static struct rf_json *flat(struct rf_arena *a, const struct rf_json *rows)
{
	static const char *const KEYS[] = { "seed", "gpuAllocation", "decisionsPerSecond", "pods", "placed" };
	struct rf_json *out = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(rows); i++) {
		const struct rf_json *row = rf_json_item(rows, i), *failed = rf_json_at(row, "failed");
		struct rf_json *v = rf_json_object(a);

		for (size_t k = 0; k < RF_COUNT(KEYS); k++)
			rf_json_set(a, v, rf_str(KEYS[k]), rf_json_get(row, rf_str(KEYS[k])));
		for (size_t k = 0; k < RF_SIMULATE_SIZES; k++)
			rf_json_set(a, v, rf_str(RF_SIMULATE_SIZE_NAMES[k]),
				    rf_json_get(failed, rf_str(RF_SIMULATE_SIZE_NAMES[k])));
		rf_json_push(a, out, v);
	}
	return out;
}

static void sum_up(struct rf_simulate_result *sum, const struct rf_simulate_result *r)
{
	sum->total_milli += r->total_milli;
	sum->granted_milli += r->granted_milli;
	sum->pods += r->pods;
	sum->placed += r->placed;
	sum->ns += r->ns;
	for (size_t i = 0; i < RF_SIMULATE_SIZES; i++)
		sum->failed[i] += r->failed[i];
}

static int run_all(struct rf_arena *a, const struct rf_simulate *s, struct rf_json *rows, struct rf_err *err)
{
	struct rf_simulate_opts o = { .load = o_load, .learn = o_learn };
	struct rf_simulate_result r, sum = { 0 };

	if (read_policy(&o.policy, err) < 0)
		return -err->code;
	for (int64_t i = 0; i < o_runs; i++) {
		o.seed = (uint64_t)(o_seed + i);
		if (rf_simulate_run(s, &o, rf_clock_system(), &r, err) < 0)
			return -err->code;
		sum_up(&sum, &r);
		rf_json_push(a, rows, row_of(a, rf_arena_printf(a, "%lld", (long long)(o_seed + i)), &r));
	}
	if (o_runs > 1)
		rf_json_push(a, rows, row_of(a, RF_LIT("all"), &sum));
	return 0;
}

static int run(int argc, char **argv, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "SEED", "seed" },	    { "GPU %", "gpuAllocation" }, { "DECISIONS/S", "decisionsPerSecond" },
		{ "PODS", "pods" },	    { "PLACED", "placed" },	  { "NO CARD", "noCard" },
		{ "SHARE", "share" },	    { "1 CARD", "oneCard" },	  { "2-7 CARDS", "twoToSevenCards" },
		{ "8 CARDS", "eightCards" },
	};
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_json *rows = rf_json_array(&a);
	bool json = rf_cli_output != NULL && strcmp(rf_cli_output, "json") == 0;

	if (rf_cli_no_more(&RF_VERB_SIMULATE, argc, argv, err) < 0)
		return -err->code;
	if (o_load < 1 || o_load > 1000 || o_runs < 1 || o_runs > 1000 || o_seed < 0 || o_seed > INT32_MAX)
		return rf_fail(err, RF_BAD_REQUEST, "--load and --runs are 1 to 1000, --seed is 0 to %d", INT32_MAX);
	if (read_files(&a, &s, err) < 0 || run_all(&a, &s, rows, err) < 0)
		return -err->code;
	return rf_cli_print(json ? rows : flat(&a, rows), columns, RF_COUNT(columns), err);
}

static const struct rf_opt OPTS[] = {
	{ "nodes", 0, RF_OPT_STR, &o_nodes, "FILE", "CSV with cpu_milli, memory_mib, gpu, model" },
	{ "pods", 0, RF_OPT_STR, &o_pods, "FILE", "CSV with cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec" },
	{ "load", 0, RF_OPT_INT, &o_load, "PERCENT", "until the pods ask for so much of the cards (default: 130)" },
	{ "seed", 0, RF_OPT_INT, &o_seed, "N", "of the draw (default: 42)" },
	{ "runs", 0, RF_OPT_INT, &o_runs, "N", "so many, with N seeds from there on" },
	{ "policy", 0, RF_OPT_STR, &o_policy, "fgd|pack|spread|first", "how to choose a place (default: fgd)" },
	{ "learn", 0, RF_OPT_FLAG, &o_learn, NULL, "learn on the way what pods usually ask, not from the file" },
	RF_OPT_OUTPUT,
};

const struct rf_verb RF_VERB_SIMULATE = {
	.name = "simulate",
	.summary = "Place a recorded load on described machines, and say how full they get",
	.usage = "--nodes FILE --pods FILE [--load PERCENT] [--seed N] [--policy NAME] [-o json|table]",
	.details = "The files have the layout of Alibaba's GPU cluster trace of 2023. Every pod of the file comes once, in\n"
		   "random order, then more are drawn from it until their cards reach the load; none leaves. Printed is\n"
		   "what share of all cards was granted in the end, how many decisions were made per second, and how\n"
		   "many pods found no place, by size.",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
