/* Pools: what pool.c (allocations), pool_book.c (records and charges) and pool_make.c (pools come
 * and go) share. */
#ifndef RF_FENCE_POOL_H
#define RF_FENCE_POOL_H

#include "fence/fence.h"

#define RF_POOL_GRANULE ((uint64_t)32 << 20) /* by which pools grow; more is learned by surprise */
#define RF_POOL_GRANULE_MOST ((uint64_t)1 << 30)
#define RF_POOL_AHEAD_LEAST ((uint64_t)16 << 20)
#define RF_POOL_AHEAD_MOST ((uint64_t)64 << 20)
#define RF_POOL_UNKNOWN UINT64_MAX

/* A driver that calls its own exported functions by name comes back here on the same thread; such a
 * call is part of one already accounted for. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) bool rf_pool_inside;

/* Takes the lock; false if this thread is inside already. */
bool rf_pool_enter(struct rf_fence *f);
void rf_pool_leave(struct rf_fence *f);

/* What the fence does on its own must not spoil a capture in progress. relax returns what restore
 * wants. */
int rf_pool_relax(void);
void rf_pool_restore(int mode);

/* --- records --- */

/* Without the lock; not those that the program has destroyed. */
struct rf_pool *rf_pool_find(struct rf_fence *f, CUmemoryPool handle);
/* Under the lock. NULL: there are RF_POOLS already, or no handle. */
struct rf_pool *rf_pool_add(struct rf_fence *f, CUmemoryPool handle, int card);
/* Knows the devices' default pools too. */
struct rf_pool *rf_pool_known(struct rf_fence *f, CUmemoryPool handle);
/* The pool cuMemAllocAsync would take; NULL if the fence does not know it. */
CUresult rf_pool_current(struct rf_fence *f, CUdevice dev, struct rf_pool **ret);
int rf_pool_devices(struct rf_fence *f);

/* --- charges, under the lock --- */

uint64_t rf_pool_says(const struct rf_pool *p, int attribute);
void rf_pool_lower(struct rf_fence *f, struct rf_pool *p, uint64_t to);
/* Gives everything back: the pool is gone. */
void rf_pool_close(struct rf_fence *f, struct rf_pool *p);
CUresult rf_pool_raise(struct rf_fence *f, struct rf_pool *p, uint64_t to);
/* Lowers or raises the charge to what the pool has reserved and may be about to. Booked in any case;
 * OUT_OF_MEMORY: over the cap. */
CUresult rf_pool_match(struct rf_fence *f, struct rf_pool *p);
/* The same with nothing under way. */
CUresult rf_pool_match_exactly(struct rf_fence *f, struct rf_pool *p);
/* Allocations that were under way are done, and the limit is shut. */
void rf_pool_drain(struct rf_pool *p);
/* Charges ahead and opens the limit. False: there is no room for that. */
bool rf_pool_advance(struct rf_fence *f, struct rf_pool *p);
/* Lets the driver see that streams have come to what was freed in them. Asks, for a moment; never waits
 * for work. */
void rf_pool_retire(struct rf_fence *f);
/* Gives back what is idle in the pools on the card. */
bool rf_pool_squeeze_locked(struct rf_fence *f, int card);

/* Somebody of the fence was refused since this process last looked. */
bool rf_pool_wanted(struct rf_fence *f);
/* Gives back what is charged ahead. */
void rf_pool_give_way(struct rf_fence *f);

/* The card of a pool with these properties; -1: in host memory. */
CUresult rf_pool_card(struct rf_fence *f, const CUmemPoolProps *props, int *ret_card);

#endif
