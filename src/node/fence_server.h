/* The agent's side of a container's fence: hands out the limits and the ledger, and reads what the
 * container's processes have booked.
 *
 * One server per container: which socket a process reached says which container it is in.
 * Everything read from the ledger was written by the tenant; the numbers here are clamped, and pids
 * come from the kernel. */
#ifndef RF_NODE_FENCE_SERVER_H
#define RF_NODE_FENCE_SERVER_H

#include <sys/types.h>
#include <uv.h>

#include "base/base.h"

struct rf_fence_card {
	char uuid[64];	       /* "GPU-..." or "MIG-...", as NVML writes it */
	uint64_t memory_bytes; /* 0: the whole card */
	uint32_t compute_milli;
};

struct rf_fence_server;

/* run_dir: a host folder that is (or will be) mounted read-only at /ringfence/run; it is created
 * with mode 0755 if missing. The socket fence.sock is put into it, replacing a stale one; every uid
 * may connect. ledger_path: a host file outside the container's mounts; created if missing, taken
 * over with its bookings if it is there. RF_CONFLICT if it is there and is not a ledger. */
int rf_fence_server_start(uv_loop_t *loop, const char *run_dir, const char *ledger_path,
			  const struct rf_fence_card *cards, size_t n, struct rf_fence_server **ret,
			  struct rf_err *err);
/* Unlinks the socket at once and closes; the memory goes when the loop has run its close callbacks.
 * The ledger file stays. NULL is allowed. */
void rf_fence_server_stop(struct rf_fence_server *s);

struct rf_fence_usage {
	uint64_t used_bytes; /* by living processes; at most cap_bytes if there is a cap */
	uint64_t cap_bytes;  /* 0: the whole card */
	uint32_t processes;  /* that hold memory on the card */
	uint64_t refusals;   /* allocations that did not fit, since the ledger exists */
};
/* RF_NOT_FOUND's negative code if there is no such card, RF_CONFLICT's if the tenant spoiled its
 * ledger: *ret then holds the cap alone. */
int rf_fence_server_usage(struct rf_fence_server *s, size_t card, struct rf_fence_usage *ret);
/* A look at the seats takes so much processor time at most (100 ms unless told): each asks the kernel, which walks
 * all locks on the file, and the tenant can put any number there. */
void rf_fence_server_set_patience(struct rf_fence_server *s, int64_t ns);
/* A look took longer: whoever sits at the ledger is not known any more. */
bool rf_fence_server_jammed(const struct rf_fence_server *s);
/* Host pids of the processes that sit at the ledger now: those on a card inside the container that
 * are not among them have no fence. Returns how many there are, writes up to room. */
size_t rf_fence_server_pids(struct rf_fence_server *s, pid_t *ret, size_t room);
/* Handshakes answered since the start. */
uint64_t rf_fence_server_handshakes(const struct rf_fence_server *s);

#endif
