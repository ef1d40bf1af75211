/* The machine's cards as an agent sees them: found once, looked at every second, their faults
 * remembered over restarts, and offered as a ResourceSlice. */
#ifndef RF_NODE_CARDS_H
#define RF_NODE_CARDS_H

#include "codec/json.h"
#include "gpu/gpu.h"
#include "node/slices.h"
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
	int64_t context_bytes; /* what a context takes, as measured or by the model; 0: not known */
	int64_t mps_context_bytes; /* of a client of MPS; 0: not known */
	bool measured;	       /* or not to be had */
	bool measuring;
	bool sliced; /* in MIG mode: slices only */
	int others;  /* GPU instances that this agent did not make; -1: that cannot be told */
};

struct rf_cards {
	struct rf_gpu *gpu; /* NULL: no cards, for the reason below */
	char no_gpu[256];
	struct rf_card_health health[RF_GPU_CARDS_MAX]; /* by position */
	const char *state_dir;				/* cards.json: the faults */
	bool simulated;
	pid_t measurer; /* 0: none, nothing is left to measure */
	int measurer_fd;
	bool measurer_asked;
	int64_t opened_ms;
	RF_VEC(struct rf_slice *) slices; /* slices.c */
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

/* Which start of the machine this is. */
struct rf_str rf_cards_boot(struct rf_arena *a);

bool rf_card_healthy(const struct rf_card_health *h);
/* Is the card there and fit for work? */
bool rf_card_ok(const struct rf_cards *c, int index, size_t *ret_position, struct rf_err *err);
/* And in the mode that a grant needs? MIG mode for slices, and for nothing else. */
int rf_card_check_mode(const struct rf_cards *c, size_t position, bool slices, struct rf_err *err);
/* Cards that can be given whole or in shares. */
size_t rf_cards_usable(const struct rf_cards *c, bool only_healthy);

/* --- what a context takes of a card (cards_context.c) --- */

/* Starts a process of its own that will measure, with folders as for rf_cards_open. The first thing an agent
 * does: before there is a driver, a thread, a loop, or anything open that should not outlive the agent. */
void rf_cards_measurer_start(struct rf_cards *c, const char *sim_dir, const char *lib_dir);
void rf_cards_measurer_stop(struct rf_cards *c);
/* When the driver is loaded: what is remembered, or the model's. */
void rf_cards_contexts_load(struct rf_cards *c);
/* Has the cards measured that were never measured, are in order and which nobody uses: held says of which
 * that is not known. Never waits; call it now and then. */
void rf_cards_measure(struct rf_cards *c, bool (*held)(void *ctx, int index), void *ctx);
/* What can be measured at the start is: the time to offer the cards. After half a minute in any case. */
bool rf_cards_measured(struct rf_cards *c);
/* RF_UNAVAILABLE while a context of ours is, or soon will be, on the card. */
int rf_card_check_measured(struct rf_cards *c, int index, struct rf_err *err);
/* What a context takes; 0: not known. It does not change while somebody holds the card. A client of MPS, of which that
 * was never measured, counts as any other: that is the more. */
int64_t rf_card_context(const struct rf_cards *c, int index, bool mps);
/* How much more than its cap a container may hold on the card, as the driver counts: what the driver takes
 * for itself and the fence does not see. */
int64_t rf_card_allowance(const struct rf_cards *c, int index, int64_t cap);

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
