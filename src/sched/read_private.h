/* Private to read*.c. */
#ifndef RF_SCHED_READ_PRIVATE_H
#define RF_SCHED_READ_PRIVATE_H

#include "sched/sched.h"

#define RD_REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"
#define RD_PREFERRED "preferredDuringSchedulingIgnoredDuringExecution"
#define RD_SECONDS_MAX INT64_C(1000000000)

/* What is wrong with a pod, said once: it waits with the first. */
void rd_unsupported(struct rf_arena *a, struct rf_sched_pod *p, const char *fmt, ...) RF_PRINTF(3, 4);

struct rf_sched_pair *rd_pairs(struct rf_arena *a, const struct rf_json *o, size_t *ret_n);
int64_t rd_time(struct rf_str text);
int64_t rd_rv(const struct rf_json *o);

/* A LabelSelector. NULL selects nothing, an empty one everything. */
int rd_selector(struct rf_arena *a, const struct rf_json *selector, struct rf_sched_term *ret, bool *ret_any,
		struct rf_err *err);
/* spec.affinity and spec.topologySpreadConstraints (read_affinity.c). p has its labels. */
void rd_affinity(struct rf_arena *a, const struct rf_json *spec, struct rf_sched_pod *p);

#endif
