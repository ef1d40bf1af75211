/* What a launcher answers to `ringfence fence stats` on the socket "stats.<pid>" beside its other: a
 * memfd that holds a head and, for each card, a card and its processes. Same build, or another version. */
#ifndef RF_FENCE_LAUNCH_REPORT_H
#define RF_FENCE_LAUNCH_REPORT_H

#include "fence/launch/launch.h"

#define RF_REPORT_MAGIC 0x73746652u /* "Rfts" */
#define RF_REPORT_VERSION 1u
#define RF_REPORT_BYTES_MAX ((size_t)1 << 20)

struct rf_report_head {
	uint32_t magic;
	uint32_t version;
	uint32_t cards;
	uint32_t reserved;
	char name[RF_REPORT_NAME];
};

struct rf_report_card {
	struct rf_fence_limit limit;
	struct rf_fence_usage usage;
	int32_t index;
	uint32_t processes; /* that follow */
};

#endif
