/* simulate: a scheduler's decisions on a recorded load, without a cluster. Nodes and pods come from CSV files
 * in the layout of Alibaba's GPU cluster trace of 2023 (openb); pods arrive one after the other, none leaves,
 * until what they asked for reaches a share of the cluster's cards. The same seed gives the same pods. */
#ifndef RF_SIMULATE_H
#define RF_SIMULATE_H

#include "base/base.h"
#include "sched/fleet.h"

#define RF_SIMULATE_ROWS_MAX 1000000
#define RF_SIMULATE_PODS_MAX 10000000 /* that are drawn */
#define RF_SIMULATE_FILE_MAX ((size_t)256 << 20)

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

struct rf_simulate {
	RF_VEC(struct rf_simulate_node) nodes;
	RF_VEC(struct rf_simulate_pod) pods;
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
	bool learn; /* what is usual is learned on the way; else it is known from the pods' file */
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

#endif
