/* The machine's cards as an agent sees them: found once, looked at every second, their faults
 * remembered over restarts, and offered as a ResourceSlice. */
#ifndef RF_NODE_CARDS_H
#define RF_NODE_CARDS_H

#include "codec/json.h"
#include "gpu/gpu.h"
#include "observe/metrics.h"

struct rf_card_health {
	int64_t fatal_xid; /* 0: none seen */
	int64_t since_ms;  /* when the fault was first seen */
	int silent;	   /* looks in a row that brought no answer */
	bool lost;
	bool advised; /* since the fault the driver asked for a recovery action */
	int64_t xids; /* how many XIDs of any kind, since the agent started */
	int64_t last_xid;
	struct rf_gpu_sample sample;
};

struct rf_cards {
	struct rf_gpu *gpu; /* NULL: no cards, for the reason below */
	char no_gpu[256];
	struct rf_card_health health[RF_GPU_CARDS_MAX]; /* by position */
	const char *state_dir;				/* cards.json: the faults */
	bool simulated;
	/* Called at each look while a card has failed; message says how. May be NULL. */
	void (*on_fault)(void *ctx, int index, const char *message);
	void *ctx;
};

/* sim_dir: a simulated machine's folder, or NULL; driver_lib_dir: where its driver is, or NULL for the
 * system's. What they point to must stay. A machine without cards is fine. */
void rf_cards_open(struct rf_cards *c, const char *sim_dir, const char *driver_lib_dir,
		   const char *state_dir);
void rf_cards_close(struct rf_cards *c);
void rf_cards_poll(struct rf_cards *c);

bool rf_card_healthy(const struct rf_card_health *h);
/* Is the card there and fit for work? */
bool rf_card_ok(const struct rf_cards *c, int index, size_t *ret_position, struct rf_err *err);

/* The slice of this node: driver ringfence.io, pool and node of the given name. */
struct rf_json *rf_cards_slice(struct rf_arena *a, const struct rf_cards *c, struct rf_str node);

/* The cards' own series. */
void rf_cards_metrics(struct rf_metrics *m, const struct rf_cards *c, struct rf_str node);
/* One container on one card. */
struct rf_card_use {
	struct rf_str node, tenant, ns, pod, container;
	int index;		/* of the card */
	int64_t used, cap;	/* bytes; cap 0: the whole card */
	int64_t processes, refusals;
	int64_t gpu_us, held_us; /* charged; waited for a turn */
	int64_t compute_milli;	/* allocated */
};
void rf_card_use_metrics(struct rf_metrics *m, const struct rf_card_use *u);

#endif
