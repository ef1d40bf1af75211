/* What the interposer and the node agent say to each other when a process first touches a card.
 *
 * The process connects to the socket, sends a hello, and gets one reply with descriptors:
 *   1. the limits: a sealed memfd holding struct rf_fence_limits. Nobody can change it any more.
 *   2. the ledger: the fence's own file (ledger.h), to be mapped shared and locked.
 *   3. the gate and 4. the desk (share.h), if the fence's cards are shared by time.
 * Then the connection ends. Both sides are the same machine and the same build, so the structs
 * travel as they lie in memory; the version says which layout that is. */
#ifndef RF_FENCE_PROTOCOL_H
#define RF_FENCE_PROTOCOL_H

#include <stdint.h>

/* Fixed when the library is built, because the environment belongs to the tenant. */
#ifndef RF_FENCE_SOCKET
#define RF_FENCE_SOCKET "/ringfence/run/fence.sock"
#endif
/* How long a process waits for an agent that may be restarting. */
#ifndef RF_FENCE_PATIENCE_MS
#define RF_FENCE_PATIENCE_MS 10000
#endif

#define RF_FENCE_MAGIC 0x63664652u /* "RFfc" */
#define RF_FENCE_VERSION 2u
#define RF_FENCE_FDS 4
#define RF_FENCE_CARDS 16
#define RF_FENCE_UUID 64

struct rf_fence_hello {
	uint32_t magic;
	uint32_t version;
	uint32_t wants; /* RF_FENCE_WANT_... */
	uint32_t reserved;
};

enum {
	RF_FENCE_WANT_ALL = 0,
	/* The gate and the desk alone, after an arbiter died. Not the ledger: to close a second
	 * descriptor of it would give up the seat. */
	RF_FENCE_WANT_GATE = 1,
};

enum rf_fence_status {
	RF_FENCE_OK = 0,
	RF_FENCE_BAD_VERSION = 1, /* no descriptors come along */
};

struct rf_fence_reply {
	uint32_t magic;
	uint32_t version;
	uint32_t status;
	uint32_t fds; /* how many descriptors come along: 0, 2 or 4 */
};

enum {
	RF_FENCE_BURST = 1,   /* may use what others leave idle */
	RF_FENCE_SPATIAL = 2, /* MPS: kernels of several fences run at once, nobody has the card alone */
};

struct rf_fence_limit {
	char uuid[RF_FENCE_UUID]; /* as NVML writes it: "GPU-<uuid>" or "MIG-<uuid>" */
	uint64_t memory_bytes;	  /* 0: the whole card, no cap */
	uint64_t context_bytes;	  /* what a context takes of the card for itself, by measuring */
	uint32_t compute_milli;	  /* thousandths of the card's time; 0 or 1000: all of it */
	int32_t priority;	  /* who goes first among those with time left */
	uint32_t flags;		  /* RF_FENCE_BURST ... */
	uint32_t reserved;
};

struct rf_fence_limits {
	uint32_t magic;
	uint32_t version;
	uint32_t count;
	uint32_t reserved;
	struct rf_fence_limit card[RF_FENCE_CARDS];
};

#endif
