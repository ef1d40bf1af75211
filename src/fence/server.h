/* The side of a fence that hands out limits, ledger, gate and desk, and reads what the fence's
 * processes have booked. libc and base only: any loop can drive it.
 *
 * One server per fence: which socket a process reached says which fence it is in. Everything read
 * from ledger and desk was written by the tenant; the numbers here are clamped, and pids come from
 * the kernel. */
#ifndef RF_FENCE_SERVER_H
#define RF_FENCE_SERVER_H

#include <sys/types.h>

#include "base/base.h"
#include "fence/arbiter.h"

struct rf_fence_card {
	char uuid[64];		/* "GPU-..." or "MIG-...", as NVML writes it */
	uint64_t memory_bytes;	/* 0: the whole card */
	uint64_t context_bytes; /* what a context takes of the card; 0: not known */
	uint32_t compute_milli; /* 0 or 1000: all of the card's time */
	int32_t priority;
	bool burst;   /* may use time that others leave */
	bool spatial; /* MPS */
};

struct rf_fence_server;

/* The cards as limits; RF_INVALID if they cannot be. */
int rf_fence_limits_fill(struct rf_fence_limits *ret, const struct rf_fence_card *cards, size_t n,
			 struct rf_err *err);
/* A card is not given whole: its processes need a gate. */
bool rf_fence_limits_shared(const struct rf_fence_limits *l);

/* run_dir: a host folder that is (or will be) mounted read-only at /ringfence/run; it is created
 * with mode 0755 if missing. The socket fence.sock is put into it, replacing a stale one; every uid
 * may connect. ledger_path: a host file outside the container's mounts; created if missing, taken
 * over with its bookings if it is there. RF_CONFLICT if it is there and is not a ledger.
 * arbiter: whoever shares the cards by time, and outlives the server; NULL: nobody does. */
int rf_fence_server_start(const char *run_dir, const char *ledger_path,
			  const struct rf_fence_card *cards, size_t n, struct rf_arbiter *arbiter,
			  struct rf_fence_server **ret, struct rf_err *err);
/* The same at a socket that listens already and with a ledger that is open: both are the server's from
 * now on, also on failure. Who is another user's (unless the caller is root), or whom admit does not let
 * in, is sent away when it comes and takes nobody's place. */
int rf_fence_server_start_at(int listen_fd, int ledger_fd, const struct rf_fence_limits *limits,
			     bool (*admit)(void *ctx, pid_t pid), void *ctx,
			     struct rf_fence_server **ret, struct rf_err *err);
/* Unlinks the socket and closes everything at once. The ledger file stays. NULL is allowed. */
void rf_fence_server_stop(struct rf_fence_server *s);

/* Readable when there is something to do; then call turn, which never blocks. */
int rf_fence_server_fd(const struct rf_fence_server *s);
void rf_fence_server_turn(struct rf_fence_server *s);

/* Processes that ask from now on get this gate and desk: the arbiter is another one. Both descriptors
 * are the server's, also on failure. -1 and -1: there is none just now, and until there is nobody is
 * answered. 0 or -errno. */
int rf_fence_server_set_gate(struct rf_fence_server *s, int gate_fd, int desk_fd);

struct rf_fence_usage {
	uint64_t used_bytes; /* by living processes; may stand above cap_bytes for a moment (README.md) */
	uint64_t cap_bytes;  /* 0: the whole card */
	uint32_t processes;  /* that hold memory on the card */
	uint64_t refusals;   /* allocations that did not fit, since the ledger exists */
	uint64_t gpu_ns;     /* time on the card that the arbiter charged */
	uint64_t
		held_ns; /* for which processes waited at the gate; at most a process's life each */
	uint32_t waiting; /* threads at the gate now */
};
/* RF_NOT_FOUND's negative code if there is no such card, RF_CONFLICT's if the tenant spoiled its
 * ledger: *ret then holds the cap alone. */
int rf_fence_server_usage(struct rf_fence_server *s, size_t card, struct rf_fence_usage *ret);

struct rf_fence_process {
	pid_t pid; /* the caller's number for it */
	uint64_t bytes;
	uint64_t gpu_ns; /* with work in flight, as the process says */
	uint64_t held_ns;
};
/* The living processes that have a context, memory or time on the card. Returns how many there are,
 * writes up to room. */
size_t rf_fence_server_processes(struct rf_fence_server *s, size_t card,
				 struct rf_fence_process *ret, size_t room);

/* A look at the seats takes so much processor time at most (100 ms unless told): each asks the
 * kernel, which walks all locks on the file, and the tenant can put any number there. */
void rf_fence_server_set_patience(struct rf_fence_server *s, int64_t ns);
/* A look took longer: whoever sits at the ledger is not known any more. */
bool rf_fence_server_jammed(const struct rf_fence_server *s);
/* Host pids of the processes that sit at the ledger now: those on a card inside the container that
 * are not among them have no fence. Returns how many there are, writes up to room. */
size_t rf_fence_server_pids(struct rf_fence_server *s, pid_t *ret, size_t room);
/* Handshakes answered since the start. */
uint64_t rf_fence_server_handshakes(const struct rf_fence_server *s);

#endif
