/* tally: what happened in a cluster, from the events that a scheduler sees (sched/log.h), recorded or simulated:
 * who waited how long, what was used by whom, what lay idle. Cards are counted in thousandths, so that shares and
 * slices count too; a job is a gang, or a pod of its own, that asks for cards. */
#ifndef RF_SIMULATE_TALLY_H
#define RF_SIMULATE_TALLY_H

#include "sched/log.h"

#define RF_TALLY_TENANTS_MAX 10000
#define RF_TALLY_BUCKETS 480 /* of time, for plots: merged in pairs when there are more */

enum rf_tally_size { /* of jobs, in cards */
	RF_TALLY_PART, /* less than one */
	RF_TALLY_1,
	RF_TALLY_2_TO_7,
	RF_TALLY_8,
	RF_TALLY_9_TO_31,
	RF_TALLY_32, /* and more */
	RF_TALLY_SIZES
};
extern const char *const RF_TALLY_SIZE_NAMES[RF_TALLY_SIZES];

typedef __int128 rf_tally_area; /* thousandths of cards times milliseconds */

struct rf_tally_wait {
	int64_t ms;
	uint32_t tenant;
	uint8_t size; /* enum rf_tally_size */
};

struct rf_tally_tenant {
	struct rf_str name;
	int64_t weight;
	int64_t used, waiting, waiting_jobs; /* now */
	rf_tally_area area;    /* used */
	rf_tally_area busy;    /* the same until the last job came */
	rf_tally_area largest; /* of its jobs that ended: what it used */
	double *series; /* used, times milliseconds */
};

struct rf_tally_bucket {
	double used, capacity, waiting_jobs; /* times milliseconds */
};

struct rf_tally_waiting {
	int64_t milli, n; /* so many ask for that much */
};

struct rf_tally_ask { /* a pod that was there */
	int64_t came, ms; /* and ran so long */
	int64_t milli;
	uint32_t tenant;
};

struct rf_tally {
	struct rf_arena a;
	struct rf_map nodes, namespaces, tenants_by_name, groups, jobs, pods;
	RF_VEC(struct rf_tally_tenant) tenants;
	RF_VEC(struct rf_tally_wait) waits; /* of jobs that started */
	RF_VEC(struct rf_tally_waiting) waiting; /* jobs, by size */
	RF_VEC(struct rf_tally_ask) asks; /* of pods that have gone */
	bool endless; /* everybody always has more to run: its part is its weight's; set by who sees to that */
	int64_t first_ms, now_ms; /* first: when the first job came; -1: none yet */
	int64_t capacity, used;
	int64_t card_memory; /* of the largest card seen */
	int64_t n_waiting, n_jobs, n_started, n_withdrawn, n_ended;
	int64_t binds, preemptions;
	rf_tally_area used_area, capacity_area, idle_area; /* idle: while something waited that would fit by count */
	rf_tally_area busy_used, busy_capacity, busy_idle; /* the same until the last job came */
	int64_t last_ms;				   /* when that was */
	struct rf_tally_bucket buckets[RF_TALLY_BUCKETS];
	int64_t bucket_ms;
	int64_t ns; /* of the machine's time for the decisions; set by who measures it */
};
void rf_tally_init(struct rf_tally *b);
void rf_tally_done(struct rf_tally *b);

/* RF_TOO_LARGE: more tenants than it can keep. */
int rf_tally_see(struct rf_tally *b, const struct rf_log_event *e, struct rf_err *err);
/* Nothing happened until then. */
void rf_tally_until(struct rf_tally *b, int64_t now_ms);
/* The tenant's name in what is printed. */
void rf_tally_call(struct rf_tally *b, struct rf_str tenant, struct rf_str name);

/* How many of its jobs wait now, by the order in which tenants were first told. */
int64_t rf_tally_waiting(const struct rf_tally *b, uint32_t tenant);
/* Jobs that were evicted and have not come again. With those that started, wait and were withdrawn they are all. */
int64_t rf_tally_evicted(const struct rf_tally *b);

struct rf_tally_stat {
	int64_t n, mean, p50, p90, p99, max; /* ms */
};
/* size, tenant: -1 is any. */
void rf_tally_waits(const struct rf_tally *b, int size, int64_t tenant, struct rf_tally_stat *ret);

/* What a tenant had until the last job came, against what it should have had: all that was used until then, shared out by
 * weight, to nobody more than it asked for (water filling). It asked for what it would have used with cards without end:
 * each job from when it came, for as long as it ran; one that has not ended, as if it ran on. So over the whole time, not
 * moment by moment: who waits one week and has more the next has had its part. */
struct rf_tally_share {
	rf_tally_area used, asked, fair;
	rf_tally_area largest; /* of its jobs, to the end of what is known of it: no scheduler can be nearer for sure */
};
/* One for each tenant, to be freed. */
struct rf_tally_share *rf_tally_shares(const struct rf_tally *b);
/* Further off than a hundredth of its part, and than its largest job? */
bool rf_tally_share_off(const struct rf_tally_share *s);
/* Everything as JSON; `run` names it. */
struct rf_json *rf_tally_json(const struct rf_tally *b, struct rf_arena *a, struct rf_str run);

#endif
