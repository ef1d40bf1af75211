/* A pod's life on this machine, as a table. The worker gathers facts; the table says what
 * follows. */
#ifndef RF_NODE_STATE_H
#define RF_NODE_STATE_H

#include "base/base.h"

enum rf_pod_state {
	RF_POD_PENDING,	  /* just seen */
	RF_POD_PREPARING, /* claim, image, volumes, fence */
	RF_POD_STARTING,  /* init containers, then the first start of the others */
	RF_POD_RUNNING,
	RF_POD_STOPPING, /* containers are being ended; at the end no process is left */
	RF_POD_CLEANING, /* fence, cgroups, the API's view, the claim's finalizer */
	RF_POD_DONE,	 /* only its log remains, until the pod is deleted */
	RF_POD_STATES
};

enum rf_pod_fact {
	RF_FACT_UNWANTED = 1 << 0, /* deleted, or being deleted */
	RF_FACT_REFUSED = 1 << 1,  /* cannot run here, ever; or was ended by a fault or a fence */
	RF_FACT_PREPARED = 1 << 2,
	RF_FACT_STARTED = 1 << 3, /* every container has been started once */
	RF_FACT_ENDED = 1 << 4,	  /* every container ended and none will be started again */
	RF_FACT_STOPPED = 1 << 5, /* no process of the pod is left, on the machine or on a card */
	RF_FACT_CLEAN = 1 << 6,	  /* nothing of it holds anything any more, and the API knows */
};

/* The next state; the same one if the facts allow none. Never skips STOPPING and CLEANING. */
enum rf_pod_state rf_pod_state_next(enum rf_pod_state now, unsigned facts);
const char *rf_pod_state_name(enum rf_pod_state s);

#endif
