/* fence: inside libringfence.so. Public is only what programs already call: the driver's functions,
 * dlsym and dlvsym. What the pieces share is here.
 *
 * Everything the process knows about its fence lives in one struct rf_fence on pages that the
 * kernel wipes in a forked child: the child finds it empty, locks open, and joins for itself. */
#ifndef RF_FENCE_H
#define RF_FENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fence/cuda_more.h"
#include "fence/ledger.h"
#include "fence/protocol.h"
#include "fence/symbols.h"
#include "fence/table.h"
#include "gpu/nvml_abi.h"

#define RF_DEVICES 64 /* CUDA ordinals the fence can tell apart */
#define RF_POOLS 256  /* memory pools a process may have at once */

struct rf_card {
	uint8_t uuid[16];
	uint64_t cap; /* UINT64_MAX: the whole card */
};

/* A pool is charged for what it has reserved from the card, used or idle. */
struct rf_pool {
	CUmemoryPool handle;
	int card; /* -1: not on a card */
	uint64_t charged;
	uint64_t live; /* bytes of its live allocations, as asked for */
	bool known;
	bool destroyed; /* no longer to be asked; charged shrinks to live */
};

struct rf_fence {
	pthread_mutex_t join_lock;
	int joined;	  /* atomic; 1 once limits and seat are there */
	bool failed_once; /* has waited for the agent in vain; later tries do not wait again */
	bool any_cap;
	unsigned cards;
	struct rf_card card[RF_FENCE_CARDS];
	struct rf_ledger_place place;
	uint64_t held[RF_FENCE_CARDS]; /* atomic: what this process has on its seat */
	int card_of[RF_DEVICES];       /* atomic: card + 1 of a CUDA ordinal; 0: not asked yet */
	CUcontext primary[RF_DEVICES]; /* atomic: the primary context, if the fence saw it */
	struct rf_table table;
	pthread_mutex_t pool_lock;
	unsigned pools; /* records in use lie below */
	struct rf_pool pool[RF_POOLS];
};

/* --- join.c: from nothing to limits and a seat --- */

/* The fence, joined; NULL if the agent gave no limits: the caller then answers "not permitted". */
struct rf_fence *rf_join(void);
/* Sits down again after the seat was lost. False: could not. */
bool rf_rejoin(struct rf_fence *f);
/* The 16 bytes in "GPU-xxxxxxxx-xxxx-..." or "MIG-...". */
bool rf_uuid_parse(const char *text, uint8_t ret[16]);

/* --- client.c: the handshake --- */
struct rf_terms {
	struct rf_fence_limits limits;
	int ledger_fd;
	int gate_fd; /* -1: the cards are not shared by time */
	int desk_fd;
};
/* Tries until patience_ms is over; 0 tries once. */
bool rf_client_ask(int patience_ms, struct rf_terms *ret);

/* --- real.c: the driver's own functions --- */

/* Never NULL: a function the driver lacks answers "not found". */
void *rf_real(enum rf_symbol_id id);
/* As rf_real, but NULL if the driver lacks it or, with load false, is not loaded. */
void *rf_real_or_null(enum rf_symbol_id id, bool load);
#define RF_REAL(name) ((__typeof__(&name))rf_real(RF_SYM_##name))
typedef void *rf_dlsym_fn(void *handle, const char *name);
typedef void *rf_dlvsym_fn(void *handle, const char *name, const char *version);
rf_dlsym_fn *rf_real_dlsym(void);
rf_dlvsym_fn *rf_real_dlvsym(void);

/* --- lookup.c: names and pointers to hooks --- */
struct rf_symbol {
	const char *name;
	const char *base;
	int since;
	const void *hook; /* NULL: not replaced */
};
extern const struct rf_symbol rf_symbols[RF_SYM_COUNT];
/* What to hand out instead of the driver's pointer for cuGetProcAddress; ptr itself if nothing. */
void *rf_translate(const char *base, int version, bool per_thread, void *ptr);
/* Where a stub (stub.h) goes on: to target with its arguments untouched, or back with result. */
struct rf_way {
	void *target; /* NULL: return result */
	uintptr_t result;
};

/* --- charge.c: reservations --- */

/* What a call reserved before it went to the driver. */
struct rf_charge {
	struct rf_fence *fence;
	unsigned card;
	uint64_t bytes;
	uint64_t owner;
};

/* What the driver takes from the card for an allocation of n bytes. */
uint64_t rf_footprint(uint64_t n);
/* Cards by CUDA ordinal, found by UUID. NOT_PERMITTED for one that is not in the fence. */
CUresult rf_card_of(struct rf_fence *f, CUdevice dev, unsigned *ret_card);
CUresult rf_current_card(struct rf_fence *f, unsigned *ret_card);
uint64_t rf_room(struct rf_fence *f, unsigned card); /* cap - used, never below 0 */

CUresult rf_reserve(struct rf_fence *f, unsigned card, uint64_t bytes);
void rf_release(struct rf_fence *f, unsigned card, uint64_t bytes);

/* Joins, finds the current context's card, reserves and makes room in the table. */
CUresult rf_charge_begin(struct rf_charge *c, uint64_t bytes);
CUresult rf_charge_begin_on(struct rf_charge *c, struct rf_fence *f, unsigned card, uint64_t bytes);
/* Gives everything back and returns r. */
CUresult rf_charge_undo(struct rf_charge *c, CUresult r);
/* Brings the reservation to what it turned out to be; on failure everything is given back. */
CUresult rf_charge_settle(struct rf_charge *c, uint64_t actual);
/* Enters the new thing into the table. */
void rf_charge_keep(struct rf_charge *c, enum rf_space space, uint64_t key);
/* undo or keep, as the driver's answer r says. */
CUresult rf_charge_end(struct rf_charge *c, CUresult r, enum rf_space space, const void *key);

/* --- share.c: time on the card --- */

/* What a launch is, for telling how long it will take. */
struct rf_work {
	uint64_t key;  /* what is launched: a function and the order of its size, or a graph */
	CUstream stream;
	bool per_thread; /* the default stream is the thread's own */
};

/* Waits until the fence may use the card; never when the stream is capturing. */
void rf_share_before(const struct rf_work *w);
/* The driver took the launch. */
void rf_share_after(const struct rf_work *w);
/* Everything in the stream, or with all set in the context, is done. */
void rf_share_synced(CUstream stream, bool per_thread, bool all);
void rf_share_stream_gone(CUstream stream);
void rf_share_capture(int change); /* captures in progress: +1, -1 */

/* --- graph.c: memory of graphs, around each launch of one --- */
CUresult rf_graph_before(CUgraphExec exec);
void rf_graph_after(CUgraphExec exec, CUresult r);

/* --- pool.c --- */
/* Gives back what this process's pools on the card hold idle; false if there are none. */
bool rf_pool_squeeze(struct rf_fence *f, unsigned card);
/* Brings the pools' charges up to date. */
void rf_pool_refresh(struct rf_fence *f);
/* The pooled pointer is gone. */
void rf_pool_freed(struct rf_fence *f, const struct rf_entry *e);

#endif
