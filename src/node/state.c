#include "node/state.h"

/* First match wins. */
static const struct {
	enum rf_pod_state from;
	unsigned facts;
	enum rf_pod_state to;
} TABLE[] = {
	{ RF_POD_PENDING, RF_FACT_UNWANTED, RF_POD_STOPPING },
	{ RF_POD_PENDING, 0, RF_POD_PREPARING },
	{ RF_POD_PREPARING, RF_FACT_UNWANTED, RF_POD_STOPPING },
	{ RF_POD_PREPARING, RF_FACT_REFUSED, RF_POD_STOPPING },
	{ RF_POD_PREPARING, RF_FACT_PREPARED, RF_POD_STARTING },
	{ RF_POD_STARTING, RF_FACT_UNWANTED, RF_POD_STOPPING },
	{ RF_POD_STARTING, RF_FACT_REFUSED, RF_POD_STOPPING },
	{ RF_POD_STARTING, RF_FACT_ENDED, RF_POD_STOPPING },
	{ RF_POD_STARTING, RF_FACT_STARTED, RF_POD_RUNNING },
	{ RF_POD_RUNNING, RF_FACT_UNWANTED, RF_POD_STOPPING },
	{ RF_POD_RUNNING, RF_FACT_REFUSED, RF_POD_STOPPING },
	{ RF_POD_RUNNING, RF_FACT_ENDED, RF_POD_STOPPING },
	{ RF_POD_STOPPING, RF_FACT_STOPPED, RF_POD_CLEANING },
	{ RF_POD_CLEANING, RF_FACT_CLEAN, RF_POD_DONE },
};

enum rf_pod_state rf_pod_state_next(enum rf_pod_state now, unsigned facts)
{
	for (size_t i = 0; i < RF_COUNT(TABLE); i++)
		if (TABLE[i].from == now && (TABLE[i].facts & facts) == TABLE[i].facts)
			return TABLE[i].to;
	return now;
}

const char *rf_pod_state_name(enum rf_pod_state s)
{
	static const char *const names[RF_POD_STATES] = { "pending", "preparing", "starting",
							  "running", "stopping",  "cleaning",
							  "done" };

	rf_assert(s < RF_POD_STATES);
	return names[s];
}
