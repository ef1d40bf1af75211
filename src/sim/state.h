/* One simulated card: the file `nvidia<N>` that every process using the card maps. Private to sim/.
 *
 * The layout is the contract between processes that may have been built at different times, so a
 * change of it is a new SIM_LAYOUT. All totals (memory used, processes) are sums over slots and
 * kept nowhere else: a process that dies inside the lock leaves nothing to repair.
 *
 * Time. Each partition (the whole card, or one MIG GPU instance) is a fluid processor: n contexts
 * with queued work advance at 1/n each. A context's queue is first in, first out over all of its
 * streams. While several run, switch_milli thousandths of the time are lost. Nobody drives the model; whoever takes the lock first brings it up to date.
 *
 * Memory that several processes may hold (a share) has its bytes in this file, behind the state, and
 * a bit for each process that holds it: it goes when the last bit does. */
#ifndef RF_SIM_STATE_H
#define RF_SIM_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu/models.h"

#define SIM_MAGIC 0x646f6d73666e6972ULL
#define SIM_LAYOUT 2u

enum {
	SIM_PROCS = 256,
	SIM_CTXS = 512,
	SIM_QUEUE = 1024, /* operations a context may have queued; more block, as on a real card */
	SIM_GIS = 7,
	SIM_CIS = 7,
	SIM_PARTS = 1 + SIM_GIS, /* 0 is the whole card, 1 + i the GPU instance in slot i */
	SIM_EVENTS = 256,
	SIM_BUCKETS = 16,
	SIM_CARDS_MAX = 64,
	SIM_SHARES = 1024,
};

#define SIM_BUCKET_NS 100000000ULL
#define SIM_NO_INSTANCE 0xffffffffu
#define SIM_CHUNK (2ULL << 20) /* device memory is handed out and charged in these */

/* How busy something was: in all, and in the last 1.6 seconds by tenths. */
struct sim_busy {
	uint64_t total_ns;
	uint64_t bucket[SIM_BUCKETS];
	uint64_t ns[SIM_BUCKETS];
};

/* A process with contexts on the card. Its byte SIM_LOCK_AT + slot of the file is record-locked for
 * as long as it lives; the kernel tells any other process its pid, and forgets it at its death. */
struct sim_proc {
	uint32_t used;
	uint32_t contexts;
	uint32_t gi, ci; /* ids, or SIM_NO_INSTANCE */
	uint64_t bytes;	 /* allocations and contexts, without shares */
	uint32_t stale_percent;
	uint32_t pad;
	struct sim_busy busy;
};

struct sim_op {
	uint64_t target; /* done once the context's work reaches this */
	uint64_t end_ns; /* when that was */
};

struct sim_ctx {
	uint32_t used;
	uint32_t proc;
	uint32_t part;
	int32_t sticky;		  /* a CUresult that every further call gives; 0 if none */
	uint64_t submitted, done; /* nanoseconds of work */
	uint64_t head, tail;	  /* operations queued and finished, ever */
};

struct sim_part {
	uint64_t now_ns; /* the model is right up to here */
	struct sim_busy busy;
};

struct sim_ci {
	uint32_t used;
	uint32_t id;
	uint32_t slices;
	uint32_t start;
	uint8_t uuid[16];
};

struct sim_gi {
	uint32_t used;
	uint32_t id;
	uint32_t profile; /* index into the model's table */
	uint32_t start, size;
	uint32_t pad;
	uint64_t serial; /* tells a new instance from a destroyed one */
	struct sim_ci ci[SIM_CIS];
};

/* Device memory that was exported, or may be. */
struct sim_share {
	uint64_t id; /* never used twice */
	uint64_t offset, bytes;
	uint32_t part;
	uint32_t maker;
	uint64_t holders[SIM_PROCS / 64]; /* none: no share */
};

/* How NVML misbehaves, as sim.h names it, and since when. */
enum {
	SIM_NVML_WELL,
	SIM_NVML_STALE,
	SIM_NVML_EMPTY,
	SIM_NVML_NOT_FOUND,
	SIM_NVML_IMPOSSIBLE,
	SIM_NVML_DEAD
};

struct sim_nvml_fault {
	uint32_t kind;
	uint32_t pad;
	uint64_t since_ns, since_us;
};

struct sim_event {
	uint64_t seq; /* 1, 2, ... */
	uint64_t type;
	uint64_t data;
	uint32_t gi, ci;
};

struct sim_state {
	uint64_t magic;
	uint32_t layout;
	uint32_t size; /* of this struct */
	/* Facts, written once. */
	char model[16];
	char driver[32];
	uint8_t uuid[16];
	uint32_t cuda_version;
	uint32_t minor;
	uint32_t pci_bus;
	uint32_t is_virtual;
	uint32_t context_mib;  /* what one CUDA context costs */
	uint32_t switch_milli; /* lost while several contexts run */
	uint64_t serial;
	uint64_t created_ns;

	pthread_mutex_t lock;

	/* Everything below under the lock. */
	uint64_t virtual_ns; /* the clock, if virtual */
	uint32_t off_bus;
	uint32_t hung;
	uint32_t compute_mode;
	uint32_t mig_mode, mig_pending;
	uint32_t recovery_action;
	uint64_t ecc_corrected, ecc_uncorrected;
	uint32_t rows_corrected, rows_uncorrected, rows_pending, rows_failed;
	uint64_t last_xid;
	uint64_t gi_serial;
	struct sim_nvml_fault nvml_fault;
	uint64_t share_serial;
	uint32_t share_top; /* shares from here on were never used */
	uint32_t pad2;
	struct sim_share shares[SIM_SHARES];

	uint32_t event_wake; /* a futex that changes with every event */
	uint32_t ctx_top;    /* contexts from here on are unused */
	uint64_t event_seq;
	struct sim_event events[SIM_EVENTS];

	struct sim_part parts[SIM_PARTS];
	struct sim_gi gis[SIM_GIS];
	struct sim_proc procs[SIM_PROCS];
	struct sim_ctx ctxs[SIM_CTXS];
	struct sim_op ops[SIM_CTXS][SIM_QUEUE];
};

#define SIM_LOCK_AT (1LL << 42)	  /* record locks lie far behind the file's end */
#define SIM_SHARE_AT (1ULL << 26) /* shares' bytes lie from here */
#define SIM_SHARE_END (1ULL << 41)

/* One opened card. Opened once per process and never closed: closing any descriptor of the file
 * would drop the record locks of the whole process. */
struct sim_card {
	int fd;
	dev_t dev;
	ino_t ino;
	struct sim_state *s;
	const struct rf_gpu_model *model;
	struct sim_card *next;
	_Atomic int64_t stuck_until_ns; /* this process's own: its lock was not to be had */
	/* What this process may use of a card in MIG mode, if it was told (`caps`, machine.c): by a GPU instance's
	 * id, a bit for each compute instance's. */
	bool bounded;
	uint8_t may_use[SIM_GIS + 1];
};

static inline bool sim_may_use(const struct sim_card *c, uint32_t gi, uint32_t ci)
{
	return !c->bounded || (gi <= SIM_GIS && ci < 8 && (c->may_use[gi] >> ci & 1) != 0);
}

/* 0 or -errno; EPROTO if the file is no card of this layout. */
int sim_card_open(const char *path, struct sim_card **ret_card);
/* Makes the file; *init is copied into it and the lock set up. */
int sim_card_create(const char *path, const struct sim_state *init);

/* false: somebody held the lock too long (a card file is writable by all who use it). */
bool sim_lock(struct sim_card *c);
void sim_unlock(struct sim_card *c);

/* --- process slots; under the lock --- */
/* A slot for the calling process, or -1 if all are taken. */
int sim_proc_take(struct sim_card *c, uint32_t gi, uint32_t ci);
void sim_proc_drop(struct sim_card *c, int slot);
/* Is the holder alive? *ret_pid is its pid as the caller sees it, 0 if it cannot see it. */
bool sim_proc_alive(struct sim_card *c, int slot, pid_t *ret_pid);
/* Frees what dead processes left behind. */
void sim_reap(struct sim_card *c);

/* --- memory; under the lock --- */
uint64_t sim_memory_total(const struct sim_card *c, uint32_t part); /* what CUDA may hand out */
uint64_t sim_memory_used(const struct sim_card *c, uint32_t part);
/* false: the card (or instance) has not that much left. */
bool sim_memory_take(struct sim_card *c, int proc, uint32_t part, uint64_t bytes);
void sim_memory_give(struct sim_card *c, int proc, uint64_t bytes);
/* What NVML shows for a process: its own and the shares it owns. */
uint64_t sim_proc_bytes(const struct sim_card *c, int proc);

/* --- shares (share.c); under the lock --- */
/* A new share held by proc. Its bytes are charged unless `paid`. NULL: no memory, or no place. */
struct sim_share *sim_share_new(struct sim_card *c, int proc, uint32_t part, uint64_t bytes,
				bool paid);
struct sim_share *sim_share_find(struct sim_card *c, uint64_t id);
void sim_share_hold(struct sim_share *h, int proc);
void sim_share_drop(struct sim_card *c, struct sim_share *h, int proc);
void sim_share_drop_all(struct sim_card *c, int proc);
bool sim_share_alive(const struct sim_share *h);
static inline int sim_share_top(const struct sim_card *c)
{
	return c->s->share_top < SIM_SHARES ? (int)c->s->share_top : SIM_SHARES;
}
/* The process it is shown with: who made it, or one of those left. */
uint32_t sim_share_owner(const struct sim_share *h);

/* --- time (time.c); under the lock --- */
uint64_t sim_clock(const struct sim_card *c);
uint64_t sim_stamp_us(const struct sim_card *c); /* as NVML stamps samples */
void sim_advance(struct sim_card *c, uint32_t part, uint64_t to_ns);
void sim_advance_all(struct sim_card *c);
int sim_ctx_take(struct sim_card *c, int proc, uint32_t part); /* slot or -1 */
void sim_ctx_drop(struct sim_card *c, int slot);
/* Queues an operation and returns its number; the queue must have room. */
uint64_t sim_op_push(struct sim_card *c, int ctx, uint64_t cost_ns);
/* When operation `op` will end if nobody joins; UINT64_MAX on a hung card. */
uint64_t sim_op_predict(struct sim_card *c, int ctx, uint64_t op);
unsigned sim_busy_percent(const struct sim_busy *b, uint64_t now_ns);
static inline bool sim_ctx_pending(const struct sim_ctx *x)
{
	return x->used && x->tail < x->head;
}

/* --- events and faults (fault.c); under the lock --- */
void sim_event_push(struct sim_card *c, uint64_t type, uint64_t data);
void sim_fault_xid(struct sim_card *c, uint32_t xid, pid_t only_pid);
void sim_fault_ecc(struct sim_card *c, bool corrected, uint64_t count);
void sim_fault_hang(struct sim_card *c, bool on);
void sim_fault_clear(struct sim_card *c);

/* --- MIG geometry (mig.c); under the lock. Returns are nvmlReturn_t --- */
const struct rf_mig_profile *sim_mig_profile(const struct sim_card *c, unsigned nvml_profile);
const struct rf_mig_profile *sim_mig_profile_by_id(const struct sim_card *c, unsigned nvml_id);
unsigned sim_mig_room(const struct sim_card *c, const struct rf_mig_profile *p);
/* start < 0: the first placement that fits. */
int sim_mig_create(struct sim_card *c, const struct rf_mig_profile *p, int start, int *ret_slot);
int sim_mig_destroy(struct sim_card *c, int slot, uint64_t serial);
int sim_mig_ci_create(struct sim_card *c, int slot, unsigned slices, int *ret_ci);
int sim_mig_ci_destroy(struct sim_card *c, int slot, int ci);
int sim_mig_set_mode(struct sim_card *c, unsigned mode, int *ret_activation);
static inline const struct rf_mig_profile *sim_gi_profile(const struct sim_card *c,
							  const struct sim_gi *gi)
{
	return gi->profile < c->model->n_mig ? &c->model->mig[gi->profile] : NULL;
}

/* --- the machine a library sees (machine.c) --- */
struct sim_machine {
	size_t n;
	struct sim_card *cards[SIM_CARDS_MAX]; /* by minor number */
	bool has_facts;			       /* the folder holds a `machine` file */
};
/* Reads the folder named by RINGFENCE_SIM. false: unset or not there. */
bool sim_machine_open(struct sim_machine *m);

/* "<prefix>-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"; out holds 48 bytes. */
void sim_uuid_text(const char *prefix, const uint8_t uuid[16], char *out);
void sim_random(void *p, size_t n);

#endif
