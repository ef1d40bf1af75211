/* What launchers say to the one among them that runs the arbiter, on the socket "arbiter" of root's folder
 * or their user's (dial.h). A launcher sends its fence's limits with the ledger (a memfd of sealed size) and
 * gets gate and desk. The fence stays as long as the connection. Same machine, and the same build or an
 * answer that says otherwise: structs travel as they lie in memory. */
#ifndef RF_FENCE_LAUNCH_REGISTRY_H
#define RF_FENCE_LAUNCH_REGISTRY_H

#include "fence/share.h"

#define RF_REGISTRY_MAGIC 0x67726652u /* "Rfrg" */
/* Changes with the layout of everything that is shared. */
#define RF_REGISTRY_VERSION                                                                        \
	((3u << 24) ^ (RF_FENCE_VERSION << 20) ^                                                   \
	 (uint32_t)(sizeof(struct rf_gate) + 3 * sizeof(struct rf_desk) +                          \
		    5 * sizeof(struct rf_ledger)))

struct rf_registry_ask {
	uint32_t magic;
	uint32_t version;
	struct rf_fence_limits limits;
};

enum rf_registry_status {
	RF_REGISTRY_OK = 0, /* gate and desk come along */
	RF_REGISTRY_OTHER_VERSION,
	RF_REGISTRY_NOT_YOU, /* another user's */
	RF_REGISTRY_FULL,
	RF_REGISTRY_FAILED,
};

struct rf_registry_reply {
	uint32_t magic;
	uint32_t version;
	uint32_t status;
	uint32_t reserved;
	uint32_t promised
		[RF_FENCE_CARDS]; /* thousandths of each card that was asked for, to all fences */
};

#endif
