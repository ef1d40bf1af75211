/* simulate, among its own files. */
#ifndef RF_SIMULATE_PRIVATE_H
#define RF_SIMULATE_PRIVATE_H

#include "simulate/simulate.h"

/* --- CSV (csv.c) ------------------------------------------------------------------------------ */

#define RF_SIMULATE_COLUMNS_MAX 64

struct rf_simulate_table {
	struct rf_str rest;
	const char *const *names;	 /* the columns wanted, NULL at the end */
	size_t required;		 /* so many of them must be there */
	int at[RF_SIMULATE_COLUMNS_MAX]; /* which wanted column a field is, or -1 */
	size_t n_fields;
	int64_t line;
};
int rf_simulate_header(struct rf_simulate_table *t, struct rf_err *err);
/* The wanted fields of the next line; 1, 0 at the end, or an error. */
int rf_simulate_row(struct rf_simulate_table *t, struct rf_str *ret, struct rf_err *err);
int rf_simulate_number(const struct rf_simulate_table *t, const struct rf_str *row, int column, int64_t max,
		       int64_t *ret, struct rf_err *err);
int rf_simulate_too_many(const struct rf_simulate_table *t, size_t n, struct rf_err *err);
int rf_simulate_model(struct rf_simulate *s, int64_t line, struct rf_str name, uint8_t *ret, struct rf_err *err);

/* --- changes (change.c) ----------------------------------------------------------------------- */

void rf_simulate_configure(const struct rf_simulate_changes *changes, struct rf_core_config *c);
bool rf_simulate_changes_tenant(const struct rf_simulate_changes *changes, struct rf_str tenant);
/* The tenant's queue as changed; new quotas are in the arena. The queue's own array may be written to. */
void rf_simulate_change_queue(const struct rf_simulate_changes *changes, struct rf_str tenant, struct rf_arena *a,
			      struct rf_sched_queue *q);

/* --- the cluster that is simulated (world.c) -------------------------------------------------- */

/* Facts come in, a core decides, and its decisions become facts: pods run, end, and come again when they were
 * evicted. Time is the events'. */
struct rf_world;
/* own_gangs: a gang's group goes with its last pod; else when it is told. */
struct rf_world *rf_world_new(const struct rf_core_config *config, const struct rf_simulate_play *o,
			      bool own_gangs, struct rf_tally *books);
void rf_world_free(struct rf_world *w);
RF_DEFINE_AUTO_PTR(world);

int rf_world_tell(struct rf_world *w, const struct rf_log_event *e, struct rf_err *err);
/* A pod comes and waits; it runs for run_ms (0: until until_ms). until_ms: it is withdrawn by then if it does not run,
 * INT64_MAX: never. What spec points to must outlive the world, but uid, name and group: these are copied. */
int rf_world_come(struct rf_world *w, const struct rf_sched_pod *spec, int64_t run_ms, int64_t until_ms, int64_t now,
		  struct rf_err *err);
/* One that runs already; claim: the name of the one it has, empty: none. */
int rf_world_runs(struct rf_world *w, const struct rf_sched_pod *spec, struct rf_str claim, int64_t left_ms,
		  int64_t now, struct rf_err *err);
/* Decides, and carries out, until nothing more can be done at this time. */
int rf_world_decide(struct rf_world *w, int64_t now, struct rf_err *err);
/* When something happens by itself: a pod ends, or the core wants to be asked; INT64_MAX: never. */
int64_t rf_world_next(struct rf_world *w, int64_t now);
/* What happens by itself at this time. */
void rf_world_step(struct rf_world *w, int64_t now);
size_t rf_world_running(const struct rf_world *w);
size_t rf_world_waiting(const struct rf_world *w); /* pods */

/* --- what runs, for schedulers without a core (runs.c) ------------------------------------------ */

struct rf_run {
	int64_t end;
	uint64_t id; /* of those that end together the lowest goes first */
	void *user;  /* what it holds; freed with the heap, or by who takes it */
};
typedef RF_VEC(struct rf_run) rf_runs;

void rf_runs_push(rf_runs *runs, struct rf_run r);
/* The next to end; there must be one. */
struct rf_run rf_runs_take(rf_runs *runs);
int64_t rf_runs_next_ms(const rf_runs *runs); /* INT64_MAX: nothing runs */
void rf_runs_done(rf_runs *runs);

/* --- jobs over time (play.c) ------------------------------------------------------------------ */

struct rf_player {
	const struct rf_simulate *s;
	const struct rf_simulate_play *o;
	struct rf_tally *books;
	struct rf_world *w;
	struct rf_arena a;
	struct rf_sched_container containers[RF_FLEET_CARDS_MAX + 1]; /* by cards */
	struct rf_str *ns; /* of the tenants: their names in the cluster, and those of their namespaces */
	uint32_t per;	   /* cards of the largest machine */
	RF_VEC(struct rf_simulate_node) nodes;
	struct rf_str models[RF_FLEET_MODELS_MAX];
	uint64_t n_came;
	size_t next; /* job */
	int64_t now;
	/* With a backlog: */
	RF_VEC(uint32_t) *own; /* jobs of each tenant */
	size_t *cursor;
	int64_t *deep; /* so many of them are to wait */
	int64_t end;
};

void rf_player_done(struct rf_player *p);
/* What there is to play, from s, o and books; then, with w or without, the machines and tenants are told. */
int rf_player_prepare(struct rf_player *p, struct rf_err *err);
int rf_player_set_up(struct rf_player *p, struct rf_err *err);
/* Everybody's jobs, over and over. */
void rf_player_backlog(struct rf_player *p);

#endif
