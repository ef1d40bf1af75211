/* simulate: a scheduler's decisions on a recorded load, without a cluster. Three kinds of records:
 *
 * Pods to be packed: nodes and pods from CSV files in the layout of Alibaba's GPU cluster trace of 2023 (openb);
 * pods arrive one after the other, none leaves, until what they asked for reaches a share of the cluster's cards.
 * The same seed gives the same pods.
 *
 * Jobs over time: a CSV file in the layout of Microsoft's Philly trace; jobs of several tenants come, wait, run and
 * end, through the same core that schedules a cluster (sched/core.h).
 *
 * A log of a scheduler (sched/log.h): told again to a new core, whose decisions must be the same. */
#ifndef RF_SIMULATE_H
#define RF_SIMULATE_H

#include "base/base.h"
#include "sched/core.h"
#include "sched/fleet.h"
#include "simulate/tally.h"

#define RF_SIMULATE_ROWS_MAX 1000000
#define RF_SIMULATE_PODS_MAX 10000000 /* that are drawn */
#define RF_SIMULATE_FILE_MAX ((size_t)256 << 20)
#define RF_SIMULATE_LOG_MAX ((size_t)1 << 30)
#define RF_SIMULATE_NODES_MAX 100000
#define RF_SIMULATE_TENANTS_MAX 1000
#define RF_SIMULATE_NAME_MAX 253
#define RF_SIMULATE_JOB_CARDS_MAX 65536
#define RF_SIMULATE_CHANGES_MAX 64

struct rf_simulate_node {
	int64_t cpu_milli, memory;
	uint8_t cards, model;
};

struct rf_simulate_pod {
	int64_t cpu_milli, memory;
	uint64_t models; /* 0: any */
	uint8_t cards;	 /* 0: none */
	uint16_t milli;	 /* of each: 1000, or a share */
};

struct rf_simulate_job {
	int64_t submit_ms, run_ms;
	uint32_t tenant, cards, id; /* id: its place in the order of arrival */
};

struct rf_simulate {
	RF_VEC(struct rf_simulate_node) nodes;
	RF_VEC(struct rf_simulate_pod) pods;
	RF_VEC(struct rf_simulate_job) jobs; /* in the order of arrival */
	RF_VEC(struct rf_str) tenants;
	struct rf_arena a;
	struct rf_str models[RF_FLEET_MODELS_MAX];
	size_t n_models;
};
#define RF_SIMULATE_INIT { .a = RF_ARENA_INIT }
void rf_simulate_done(struct rf_simulate *s);

/* Columns are found by the names in the first line: cpu_milli, memory_mib, gpu, model. */
int rf_simulate_read_nodes(struct rf_simulate *s, struct rf_str csv, struct rf_err *err);
/* cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec (models that will do, separated by |; empty, or no
 * such column: any). */
int rf_simulate_read_pods(struct rf_simulate *s, struct rf_str csv, struct rf_err *err);

enum rf_simulate_size { /* of pods */
	RF_SIMULATE_CPU, /* no card */
	RF_SIMULATE_SHARE,
	RF_SIMULATE_ONE,
	RF_SIMULATE_TWO_TO_SEVEN,
	RF_SIMULATE_EIGHT, /* or more */
	RF_SIMULATE_SIZES
};
extern const char *const RF_SIMULATE_SIZE_NAMES[RF_SIMULATE_SIZES]; /* as keys of JSON */

struct rf_simulate_opts {
	int64_t load; /* percent of the cluster's cards */
	uint64_t seed;
	enum rf_fleet_policy policy;
};

struct rf_simulate_result {
	int64_t total_milli, asked_milli, granted_milli; /* thousandths of cards */
	int64_t pods, placed;
	int64_t failed[RF_SIMULATE_SIZES];
	int64_t ns; /* for all decisions */
};
/* RF_INVALID: no cards, or no pod that wants one. */
int rf_simulate_run(const struct rf_simulate *s, const struct rf_simulate_opts *o, const struct rf_clock *clock,
		    struct rf_simulate_result *ret, struct rf_err *err);

/* --- jobs over time --------------------------------------------------------------------------- */

/* Are these jobs (the first line has timestamp and duration), not pods? */
bool rf_simulate_is_jobs(struct rf_str csv);
/* timestamp, duration (seconds), num_gpus, cluster (the tenant). Jobs without a card are left out. */
int rf_simulate_read_jobs(struct rf_simulate *s, struct rf_str csv, struct rf_err *err);
/* "48x8", "10:h100x8": machines without a file, with CPU and memory enough. */
bool rf_simulate_is_nodes(struct rf_str text);
int rf_simulate_add_nodes(struct rf_simulate *s, struct rf_str text, struct rf_err *err);
/* The same jobs closer together or further apart: what they ask is so much of the cards while they come. */
int rf_simulate_scale(struct rf_simulate *s, int64_t percent, struct rf_err *err);
/* The run time that a person would have asked for. */
int64_t rf_simulate_limit(int64_t run_ms);

enum rf_simulate_change_kind {
	RF_SIMULATE_NODES,  /* nodes+=10:h100x8 */
	RF_SIMULATE_WEIGHT, /* weight:TENANT=3 */
	RF_SIMULATE_GUARANTEED, /* guaranteed:TENANT:RESOURCE=16, and so on */
	RF_SIMULATE_LIMIT,
	RF_SIMULATE_LENDING,
	RF_SIMULATE_BORROWING,
	RF_SIMULATE_RECLAIM,	     /* reclaim=guarantee|fair */
	RF_SIMULATE_HALF_LIFE,	     /* half-life=HOURS */
	RF_SIMULATE_RESERVE_AFTER,   /* reserve-after=MINUTES */
	RF_SIMULATE_RESERVE_CARDS,   /* reserve-cards=CARDS */
	RF_SIMULATE_MIN_RUN,	     /* min-run=MINUTES: a job may be stopped after that; else it is not */
	RF_SIMULATE_CHANGE_KINDS
};
struct rf_simulate_change {
	enum rf_simulate_change_kind kind;
	struct rf_str tenant, resource, nodes;
	int64_t value;
};
struct rf_simulate_changes {
	struct rf_simulate_change at[RF_SIMULATE_CHANGES_MAX];
	size_t n;
};
/* Changes separated by commas. Strings point into the text. */
int rf_simulate_changes_parse(struct rf_str text, struct rf_simulate_changes *ret, struct rf_err *err);

struct rf_simulate_play {
	struct rf_core_config config;
	const struct rf_simulate_changes *changes; /* NULL: none */
	/* Everybody has always a day's work waiting, 20 jobs at least, its own over and over, for so long; 0: jobs come as
	 * recorded. */
	int64_t backlog_ms;
	bool same_jobs; /* with a backlog: everybody brings the jobs of all, not its own */
	bool no_limits; /* nobody says how long a job may run */
	void (*line)(void *ctx, struct rf_str line); /* the log of the run; NULL: none */
	void *ctx;
	const struct rf_clock *clock;
};
/* What happens to the jobs. RF_INVALID: a job that no set of these machines can hold, or an unknown tenant. */
int rf_simulate_play(const struct rf_simulate *s, const struct rf_simulate_play *o, struct rf_tally *ret,
		     struct rf_err *err);
/* The same by first come, first served: jobs in the order of arrival, each on the first machines that do.
 * strict: nobody passes one that waits; else who fits goes first. */
int rf_simulate_fifo(const struct rf_simulate *s, const struct rf_simulate_play *o, bool strict, struct rf_tally *ret,
		     struct rf_err *err);

/* The yardstick for shares with a backlog: no machines, only cards, and always the next job of who used least. */
int rf_simulate_pool(const struct rf_simulate *s, const struct rf_simulate_play *o, struct rf_tally *ret,
		     struct rf_err *err);

/* --- logs ------------------------------------------------------------------------------------- */

#define RF_SIMULATE_DIFFERENCES_MAX 10
struct rf_simulate_replay {
	int64_t lines, decisions, differences;
	struct rf_simulate_difference {
		int64_t line;
		struct rf_str logged, decided; /* in the arena; empty: nothing */
	} first[RF_SIMULATE_DIFFERENCES_MAX];
};
/* The log told to a new core, and its decisions held against those that were logged. */
int rf_simulate_replay(struct rf_str log, const struct rf_clock *clock, struct rf_arena *a, struct rf_tally *books,
		       struct rf_simulate_replay *ret, struct rf_err *err);
/* The day of the log again, with changes: who came when and ran how long is as logged, who waits is decided anew. */
int rf_simulate_play_log(struct rf_str log, const struct rf_simulate_play *o, struct rf_tally *ret, struct rf_err *err);

/* --- plots ------------------------------------------------------------------------------------ */

struct rf_simulate_run {
	struct rf_str name;
	const struct rf_tally *books;
};
/* Use, waiting jobs and shares over time, as SVG that needs nothing else; html: in a page, with the figures. */
void rf_simulate_plot(struct rf_buf *out, const struct rf_simulate_run *runs, size_t n, bool html);

#endif
