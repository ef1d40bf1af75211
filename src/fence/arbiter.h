/* Arbiter: shares cards between fences by time. libc and one thread of its own.
 *
 * Each card is given to one fence at a time for a lease of some milliseconds (fences that say
 * RF_FENCE_SPATIAL have it together). What counts is time with work in flight. A fence without
 * RF_FENCE_BURST never gets more than its share, even alone; among those with time left the one
 * furthest behind goes first. A fence that uses little is let in at once and keeps the others' leases
 * short; README.md says how.
 *
 * All functions may be called from any thread. An arbiter that dies takes no work with it: processes
 * notice, ask their server for a new gate, and pace themselves by their share until there is one. */
#ifndef RF_FENCE_ARBITER_H
#define RF_FENCE_ARBITER_H

#include "fence/share.h"

struct rf_arbiter;

/* 0 or -errno. */
int rf_arbiter_start(struct rf_arbiter **ret);
/* Closes every gate for good: no process waits for it any longer. NULL is allowed. */
void rf_arbiter_stop(struct rf_arbiter *a);

/* Takes the fence in: limits says which cards and how much of them. ledger_fd is duplicated.
 * ret_gate and ret_desk are the descriptors to hand to the fence's processes; the caller closes
 * them. 0 or -errno. */
int rf_arbiter_add(struct rf_arbiter *a, const struct rf_fence_limits *limits, int ledger_fd,
		   int *ret_id, int *ret_gate, int *ret_desk);
void rf_arbiter_remove(struct rf_arbiter *a, int id);

#endif
