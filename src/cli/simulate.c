#include "cli/cli.h"

#include <stdio.h>

#include "base/fs.h"
#include "simulate/simulate.h"

static const char *o_nodes, *o_pods, *o_policy = "fgd", *o_log, *o_what_if, *o_plot, *o_record;
static int64_t o_load, o_seed = 42, o_runs = 1, o_backlog;
static bool o_no_limits, o_same_jobs;

#define LOAD 130
#define RUNS_MAX 2 /* as it is, and what if */

static bool is_fifo(void)
{
	return strcmp(o_policy, "fifo") == 0 || strcmp(o_policy, "fifo-strict") == 0 || strcmp(o_policy, "pool") == 0;
}

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
	return rf_fail(err, RF_BAD_REQUEST, "--policy %s: one of fgd, pack, spread, first; fifo or fifo-strict for jobs",
		       o_policy);
}

/* --- pods to be packed ------------------------------------------------------------------------ */

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
	struct rf_simulate_opts o = { .load = o_load > 0 ? o_load : LOAD };
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

static int run_pods(struct rf_arena *a, struct rf_simulate *s, struct rf_str pods, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "SEED", "seed" },	    { "GPU %", "gpuAllocation" }, { "DECISIONS/S", "decisionsPerSecond" },
		{ "PODS", "pods" },	    { "PLACED", "placed" },	  { "NO CARD", "noCard" },
		{ "SHARE", "share" },	    { "1 CARD", "oneCard" },	  { "2-7 CARDS", "twoToSevenCards" },
		{ "8 CARDS", "eightCards" },
	};
	struct rf_json *rows = rf_json_array(a);
	bool json = rf_cli_output != NULL && strcmp(rf_cli_output, "json") == 0;

	if (o_what_if != NULL || o_plot != NULL || o_record != NULL || o_backlog > 0 || is_fifo())
		return rf_fail(err, RF_BAD_REQUEST,
			       "%s holds pods without times: --what-if, --plot, --record, --backlog and --policy fifo are "
			       "for jobs over time (timestamp, duration, num_gpus, cluster) and logs", o_pods);
	if (rf_simulate_read_pods(s, pods, err) < 0)
		return rf_wrap(err, "%s", o_pods);
	if (run_all(a, s, rows, err) < 0)
		return -err->code;
	return rf_cli_print(json ? rows : flat(a, rows), columns, RF_COUNT(columns), err);
}

/* --- runs over time --------------------------------------------------------------------------- */

struct runs {
	struct rf_tally books[RUNS_MAX];
	struct rf_simulate_run at[RUNS_MAX];
	size_t n;
	struct rf_simulate_replay replay;
	bool replayed;
	FILE *record;
};

static void runs_init(struct runs *r)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		rf_tally_init(&r->books[i]);
}

static void runs_done(struct runs *r)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		rf_tally_done(&r->books[i]);
	if (r->record != NULL)
		fclose(r->record);
}

static struct rf_tally *add_run(struct runs *r, const char *name)
{
	r->at[r->n] = (struct rf_simulate_run){ rf_str(name), &r->books[r->n] };
	return &r->books[r->n++];
}

static void write_line(void *ctx, struct rf_str line)
{
	FILE *f = ctx;

	fwrite(line.p, 1, line.n, f);
	if (line.n == 0 || line.p[line.n - 1] != '\n')
		fputc('\n', f);
}

static int start_record(struct runs *r, struct rf_simulate_play *o, struct rf_err *err)
{
	if (o_record == NULL)
		return 0;
	r->record = fopen(o_record, "we");
	if (r->record == NULL)
		return rf_fail_errno(err, "--record %s", o_record);
	o->line = write_line;
	o->ctx = r->record;
	return 0;
}

/* A log that was not written to the end is said, not left behind as if it were whole. */
static int end_record(struct runs *r, struct rf_err *err)
{
	bool bad;

	if (r->record == NULL)
		return 0;
	bad = ferror(r->record) != 0;
	bad = fclose(r->record) != 0 || bad;
	r->record = NULL;
	return bad ? rf_fail_errno(err, "--record %s", o_record) : 0;
}

static int run_jobs_once(const struct rf_simulate *s, const struct rf_simulate_play *o, struct rf_tally *b,
			 struct rf_err *err)
{
	if (strcmp(o_policy, "pool") == 0)
		return rf_simulate_pool(s, o, b, err);
	if (is_fifo())
		return rf_simulate_fifo(s, o, strcmp(o_policy, "fifo-strict") == 0, b, err);
	return rf_simulate_play(s, o, b, err);
}

static int check_fifo(const struct rf_simulate_changes *c, struct rf_err *err)
{
	if (!is_fifo())
		return 0;
	for (size_t i = 0; i < c->n; i++)
		if (c->at[i].kind != RF_SIMULATE_NODES)
			return rf_fail(err, RF_BAD_REQUEST,
				       "--policy %s: knows no tenants and no settings; --what-if can only add nodes", o_policy);
	if ((o_backlog > 0 && strcmp(o_policy, "pool") != 0) || o_record != NULL)
		return rf_fail(err, RF_BAD_REQUEST, "--policy %s: --backlog and --record are for the scheduler itself",
			       o_policy);
	return 0;
}

static int run_jobs(struct rf_simulate *s, struct rf_str jobs, struct runs *r, const struct rf_simulate_changes *c,
		    struct rf_err *err)
{
	struct rf_simulate_play o = { .clock = rf_clock_system(), .no_limits = o_no_limits, .same_jobs = o_same_jobs,
				      .backlog_ms = o_backlog * 86400000 };

	rf_core_config_default(&o.config);
	if (check_fifo(c, err) < 0 || (!is_fifo() && read_policy(&o.config.policy, err) < 0))
		return -err->code;
	if (rf_simulate_read_jobs(s, jobs, err) < 0)
		return rf_wrap(err, "%s", o_pods);
	if ((o_load > 0 && rf_simulate_scale(s, o_load, err) < 0) || start_record(r, &o, err) < 0 ||
	    run_jobs_once(s, &o, add_run(r, is_fifo() ? o_policy : "base"), err) < 0 || end_record(r, err) < 0)
		return -err->code;
	o.line = NULL;
	o.changes = c;
	return c->n > 0 ? run_jobs_once(s, &o, add_run(r, "what-if"), err) : 0;
}

static int run_log(struct rf_arena *a, struct runs *r, const struct rf_simulate_changes *c, struct rf_err *err)
{
	struct rf_simulate_play o = { .clock = rf_clock_system() };
	struct rf_str log;

	if (o_nodes != NULL || o_pods != NULL || o_load > 0 || o_backlog > 0 || o_record != NULL || is_fifo())
		return rf_fail(err, RF_BAD_REQUEST, "--log brings its own machines and pods: no --nodes, --pods, --load, "
						    "--backlog, --record or --policy fifo with it");
	if (rf_fs_read(a, o_log, RF_SIMULATE_LOG_MAX, &log, err) < 0)
		return -err->code;
	if (c->n == 0) {
		r->replayed = true;
		return rf_simulate_replay(log, rf_clock_system(), a, add_run(r, "log"), &r->replay, err) < 0 ?
			       rf_wrap(err, "%s", o_log) : 0;
	}
	if (rf_simulate_play_log(log, &o, add_run(r, "base"), err) < 0)
		return rf_wrap(err, "%s", o_log);
	o.changes = c;
	return rf_simulate_play_log(log, &o, add_run(r, "what-if"), err) < 0 ? rf_wrap(err, "%s", o_log) : 0;
}

/* --- printing them ---------------------------------------------------------------------------- */

static struct rf_json *differences(struct rf_arena *a, const struct rf_simulate_replay *r)
{
	struct rf_json *out = rf_json_array(a);

	for (int64_t i = 0; i < RF_MIN(r->differences, RF_SIMULATE_DIFFERENCES_MAX); i++)
		rf_json_push(a, out, rf_json_make(a, "{'line':%D,'logged':%S,'decided':%S}", r->first[i].line,
						  r->first[i].logged, r->first[i].decided));
	return out;
}

static struct rf_json *runs_json(struct rf_arena *a, const struct runs *r)
{
	struct rf_json *out = rf_json_array(a);

	for (size_t i = 0; i < r->n; i++) {
		struct rf_json *v = rf_tally_json(r->at[i].books, a, r->at[i].name);

		if (r->replayed) {
			rf_json_set_int(a, v, "lines", r->replay.lines);
			rf_json_set_int(a, v, "loggedDecisions", r->replay.decisions);
			rf_json_set_int(a, v, "differences", r->replay.differences);
			rf_json_set(a, v, RF_LIT("firstDifferences"), differences(a, &r->replay));
		}
		rf_json_push(a, out, v);
	}
	return out;
}

/* Names in a file are anybody's; a terminal gets none of its control characters. */
static struct rf_str for_terminal(struct rf_arena *a, struct rf_str s)
{
	char *p = rf_arena_alloc(a, s.n + 1);

	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		p[i] = c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xa0 && (i == 0 || (unsigned char)s.p[i - 1] < 0x80)) ?
			       '?' : s.p[i];
	}
	return rf_str_n(p, s.n);
}

static void set_waits(struct rf_arena *a, struct rf_json *row, const struct rf_tally *b, int size, int64_t tenant)
{
	struct rf_tally_stat s;

	rf_tally_waits(b, size, tenant, &s);
	rf_json_set_int(a, row, "jobs", s.n);
	rf_json_set_str(a, row, "mean", rf_time_age(a, s.mean));
	rf_json_set_str(a, row, "p50", rf_time_age(a, s.p50));
	rf_json_set_str(a, row, "p90", rf_time_age(a, s.p90));
	rf_json_set_str(a, row, "p99", rf_time_age(a, s.p99));
	rf_json_set_str(a, row, "max", rf_time_age(a, s.max));
}

static int print_figures(const struct rf_json *runs, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "RUN", "run" },	    { "JOBS", "jobs" },		     { "STARTED", "started" },
		{ "WAITING", "waiting" },   { "WITHDRAWN", "withdrawn" },    { "EVICTED", "evicted" },
		{ "GPU %", "gpuAllocation" },    { "IDLE %", "fragmentation" },
		{ "SHARE ERROR %", "shareError" }, { "OF ALL %", "shareErrorOfAll" }, { "PREEMPTIONS", "preemptions" },
		{ "HOURS", "hours" },	    { "DECISIONS/S", "decisionsPerSecond" },
	};

	return rf_cli_print(runs, columns, RF_COUNT(columns), err);
}

static int print_sizes(struct rf_arena *a, const struct runs *r, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "CARDS", "cards" }, { "RUN", "run" }, { "JOBS", "jobs" }, { "MEAN WAIT", "mean" }, { "P50", "p50" },
		{ "P90", "p90" },     { "P99", "p99" }, { "MAX", "max" },
	};
	struct rf_json *rows = rf_json_array(a);

	for (int size = -1; size < RF_TALLY_SIZES; size++) {
		for (size_t i = 0; i < r->n; i++) {
			struct rf_json *row = rf_json_make(a, "{'cards':%s,'run':%S}",
							   size < 0 ? "all" : RF_TALLY_SIZE_NAMES[size], r->at[i].name);

			set_waits(a, row, r->at[i].books, size, -1);
			if (size < 0 || rf_json_int(rf_json_at(row, "jobs"), 0) > 0)
				rf_json_push(a, rows, row);
		}
	}
	putchar('\n');
	return rf_cli_print(rows, columns, RF_COUNT(columns), err);
}

static int print_tenants(struct rf_arena *a, const struct runs *r, const struct rf_json *runs, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "TENANT", "tenant" }, { "RUN", "run" },   { "WEIGHT", "weight" }, { "GPU TIME %", "share" },
		{ "GPU HOURS", "gpuHours" }, { "FAIR", "fairGpuHours" }, { "ERROR %", "shareError" },
		{ "OF ALL %", "shareErrorOfAll" }, { "LARGEST JOB", "largestJobGpuHours" },
		{ "JOBS", "jobs" },	{ "MEAN WAIT", "mean" }, { "P50", "p50" }, { "P99", "p99" },
	};
	static const char *const KEYS[] = { "weight", "share", "gpuHours", "fairGpuHours", "shareError", "shareErrorOfAll",
					    "largestJobGpuHours" };
	struct rf_json *rows = rf_json_array(a);

	for (size_t t = 0; t < RF_MAX(r->books[0].tenants.n, r->books[1].tenants.n); t++) {
		for (size_t i = 0; i < r->n; i++) {
			const struct rf_json *from = rf_json_item(rf_json_at(rf_json_item(runs, i), "tenants"), t);
			struct rf_json *row = rf_json_object(a);

			if (from == NULL)
				continue;
			rf_json_set_str(a, row, "tenant", for_terminal(a, rf_json_str_at(from, "tenant")));
			rf_json_set_str(a, row, "run", r->at[i].name);
			for (size_t k = 0; k < RF_COUNT(KEYS); k++)
				rf_json_set(a, row, rf_str(KEYS[k]), rf_json_get(from, rf_str(KEYS[k])));
			set_waits(a, row, r->at[i].books, -1, (int64_t)t);
			rf_json_push(a, rows, row);
		}
	}
	putchar('\n');
	return rf_cli_print(rows, columns, RF_COUNT(columns), err);
}

static void print_replay(struct rf_arena *a, const struct rf_simulate_replay *r)
{
	printf("%lld lines, %lld decisions: %lld differences\n", (long long)r->lines, (long long)r->decisions,
	       (long long)r->differences);
	for (int64_t i = 0; i < RF_MIN(r->differences, RF_SIMULATE_DIFFERENCES_MAX); i++) {
		struct rf_str logged = for_terminal(a, r->first[i].logged), decided = for_terminal(a, r->first[i].decided);

		printf("line %lld\n  logged:  %.*s\n  decided: %.*s\n", (long long)r->first[i].line, RF_STR(logged),
		       RF_STR(decided));
	}
	putchar('\n');
}

static int print_runs(struct rf_arena *a, const struct runs *r, struct rf_err *err)
{
	struct rf_json *runs = runs_json(a, r);

	if (rf_cli_output != NULL && strcmp(rf_cli_output, "table") != 0)
		return rf_cli_print(runs, NULL, 0, err);
	if (r->replayed)
		print_replay(a, &r->replay);
	if (print_figures(runs, err) < 0 || print_sizes(a, r, err) < 0)
		return -err->code;
	return print_tenants(a, r, runs, err);
}

/* --- the verb --------------------------------------------------------------------------------- */

static int write_plot(const struct runs *r, struct rf_err *err)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (o_plot == NULL)
		return 0;
	rf_simulate_plot(&b, r->at, r->n, rf_str_ends(rf_str(o_plot), RF_LIT(".html")));
	return rf_fs_write(o_plot, rf_buf_str(&b), 0644, false, err);
}

static int read_nodes(struct rf_arena *a, struct rf_simulate *s, struct rf_err *err)
{
	struct rf_str text;

	if (rf_simulate_is_nodes(rf_str(o_nodes)) && !rf_fs_exists(o_nodes))
		return rf_simulate_add_nodes(s, rf_str(o_nodes), err) < 0 ? rf_wrap(err, "--nodes") : 0;
	if (rf_fs_read(a, o_nodes, RF_SIMULATE_FILE_MAX, &text, err) < 0)
		return rf_wrap(err, "--nodes takes a CSV file, or machines as COUNTxCARDS such as 48x8");
	return rf_simulate_read_nodes(s, text, err) < 0 ? rf_wrap(err, "%s", o_nodes) : 0;
}

static int run_over_time(struct rf_arena *a, struct rf_simulate *s, struct rf_str jobs, struct rf_err *err)
{
	__attribute__((cleanup(runs_done))) struct runs r = { 0 };
	struct rf_simulate_changes changes = { 0 };

	runs_init(&r);
	if (o_what_if != NULL && rf_simulate_changes_parse(rf_str(o_what_if), &changes, err) < 0)
		return -err->code;
	if ((o_log != NULL ? run_log(a, &r, &changes, err) : run_jobs(s, jobs, &r, &changes, err)) < 0)
		return -err->code;
	if (write_plot(&r, err) < 0 || print_runs(a, &r, err) < 0)
		return -err->code;
	return r.replay.differences > 0 ? 1 : 0;
}

static int check_opts(struct rf_err *err)
{
	struct rf_str plot = rf_str(o_plot);

	if (o_load < 0 || o_load > 1000 || o_runs < 1 || o_runs > 1000 || o_seed < 0 || o_seed > INT32_MAX)
		return rf_fail(err, RF_BAD_REQUEST, "--load and --runs are 1 to 1000, --seed is 0 to %d", INT32_MAX);
	if (o_backlog < 0 || o_backlog > 36500)
		return rf_fail(err, RF_BAD_REQUEST, "--backlog is 1 to 36500 days");
	if (o_plot != NULL && !rf_str_ends(plot, RF_LIT(".svg")) && !rf_str_ends(plot, RF_LIT(".html")))
		return rf_fail(err, RF_BAD_REQUEST, "--plot %s: the name ends in .svg or .html", o_plot);
	if (o_log == NULL && (o_nodes == NULL || o_pods == NULL))
		return rf_fail(err, RF_BAD_REQUEST, "--nodes and --pods name the files to read, or --log a log");
	return 0;
}

static int run(int argc, char **argv, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_str pods;

	if (rf_cli_no_more(&RF_VERB_SIMULATE, argc, argv, err) < 0 || check_opts(err) < 0)
		return -err->code;
	if (o_log != NULL)
		return run_over_time(&a, &s, RF_STR_EMPTY, err);
	if (read_nodes(&a, &s, err) < 0 || rf_fs_read(&a, o_pods, RF_SIMULATE_FILE_MAX, &pods, err) < 0)
		return -err->code;
	return rf_simulate_is_jobs(pods) ? run_over_time(&a, &s, pods, err) : run_pods(&a, &s, pods, err);
}

static const struct rf_opt OPTS[] = {
	{ "nodes", 0, RF_OPT_STR, &o_nodes, "FILE|48x8", "CSV with cpu_milli, memory_mib, gpu, model; or COUNTxCARDS" },
	{ "pods", 0, RF_OPT_STR, &o_pods, "FILE",
	  "CSV with cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec; or jobs: timestamp, duration, num_gpus, cluster" },
	{ "log", 0, RF_OPT_STR, &o_log, "FILE", "replay a log of the scheduler's events instead" },
	{ "what-if", 0, RF_OPT_STR, &o_what_if, "CHANGES", "run again with changes, and print both (see above)" },
	{ "plot", 0, RF_OPT_STR, &o_plot, "FILE.svg|FILE.html", "draw use, waiting jobs and shares over time" },
	{ "record", 0, RF_OPT_STR, &o_record, "FILE", "write the log of the run, for --log" },
	{ "backlog", 0, RF_OPT_INT, &o_backlog, "DAYS", "every tenant always has jobs waiting, its own over and over" },
	{ "same-jobs", 0, RF_OPT_FLAG, &o_same_jobs, NULL, "with --backlog: everybody brings the jobs of all" },
	{ "no-limits", 0, RF_OPT_FLAG, &o_no_limits, NULL, "jobs do not say how long they may run" },
	{ "load", 0, RF_OPT_INT, &o_load, "PERCENT",
	  "until the pods ask for so much of the cards (default: 130); of jobs: come so fast (default: as recorded)" },
	{ "seed", 0, RF_OPT_INT, &o_seed, "N", "of the draw (default: 42)" },
	{ "runs", 0, RF_OPT_INT, &o_runs, "N", "so many, with N seeds from there on" },
	{ "policy", 0, RF_OPT_STR, &o_policy, "fgd|pack|spread|first|fifo|fifo-strict|pool",
	  "how to choose a place (default: fgd); of jobs also: first come, first served on the first machine that does" },
	RF_OPT_OUTPUT,
};

const struct rf_verb RF_VERB_SIMULATE = {
	.name = "simulate",
	.summary = "Run a recorded load or a scheduler's log again, and say how full, how fair and how fast it is",
	.usage = "--nodes FILE|48x8 --pods FILE | --log FILE [--what-if CHANGES] [--plot FILE] [-o json|table]",
	.details = "Pods in the layout of Alibaba's GPU cluster trace of 2023: every pod of the file comes once, in random\n"
		   "order, then more are drawn from it until their cards reach the load; none leaves. Printed is what share\n"
		   "of all cards was granted in the end, how many decisions were made per second, and how many pods found\n"
		   "no place, by size.\n"
		   "\n"
		   "Jobs in the layout of Microsoft's Philly trace: they come when they came, wait in their tenant's queue,\n"
		   "run as long as they ran, and go. Each job is one of STARTED, WAITING in the end, WITHDRAWN before it\n"
		   "started, and EVICTED and not come again. Printed is how long they waited, by size and tenant; how much of the\n"
		   "cards was in use while jobs came (GPU %); how much lay idle although something waited that asked for no\n"
		   "more than that (IDLE %); and how far tenants were from their fair share when the last job came (SHARE\n"
		   "ERROR %: of its part, the worst tenant's; OF ALL %: of all that was used). Fair is what was used until then,\n"
		   "shared out by weight, to nobody more than it asked for until then; with --backlog, by weight alone.\n"
		   "\n"
		   "A log (--log) is told again to a new scheduler, and what it decides now is held against what it decided\n"
		   "then: a difference is printed, and the exit status is 1.\n"
		   "\n"
		   "CHANGES, separated by commas: nodes+=10:h100x8, weight:TENANT=3, guaranteed:TENANT:cards=16 (also limit,\n"
		   "lending, borrowing; also cards/MODEL, share-bytes and so on), reclaim=guarantee|fair, half-life=HOURS,\n"
		   "reserve-after=MINUTES, reserve-cards=CARDS, min-run=MINUTES. With --log, who comes and runs how long is as logged, and\n"
		   "both columns are decided anew.",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
