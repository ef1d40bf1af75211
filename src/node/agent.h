/* The agent's inside. One thread, one loop; everything below runs on it. */
#ifndef RF_NODE_AGENT_H
#define RF_NODE_AGENT_H

#include <uv.h>

#include "base/base.h"
#include "codec/json.h"
#include "kube/kube.h"
#include "net/http.h"
#include "node/cards.h"
#include "node/claim.h"
#include "node/mps.h"
#include "node/node.h"
#include "node/shim.h"
#include "node/state.h"

struct rf_arbiter;
struct rf_fence_post;
struct rf_worker;

struct rf_agent {
	const struct rf_node_opts *opts; /* points to absolute */
	struct rf_node_opts absolute;
	struct rf_arena arena; /* for what lives as long as the agent */
	uv_loop_t loop;
	const char *data_dir;	/* real path */
	struct rf_str instance; /* of the cgroups */
	struct rf_str name;
	struct rf_arbiter *arbiter; /* NULL until a card is shared */
	const char *fence_lib; /* NULL: none found; containers with cards are then refused */
	const char *runtime;
	int64_t files_max; /* open files of a container's process */

	struct rf_kubeconfig config;
	struct rf_kube *kube;
	struct rf_informer *pods, *claims;

	struct rf_cards cards;
	struct rf_mps *mps;
	bool mps_wanted, mps_can; /* is this node in a pool that shares by MPS, and is there a daemon? As last seen */
	bool mps_unread;	  /* the last look failed, and that was said */
	int64_t mps_since_ms;	  /* since when */
	struct rf_buf slice_sent; /* what was published last */
	bool node_registered;
	int64_t node_told_ms; /* when the Node's status was last written */

	struct rf_map workers; /* uid -> struct rf_worker */
	bool orphans_swept;

	struct rf_tls *tls;
	struct rf_http_server *server;
	uv_timer_t tick, heartbeat;
	uv_timer_t soon; /* fires when the next worker is due, between two ticks */
	int64_t soon_ms; /* when that is; 0: not set */
	uv_signal_t sigterm, sigint;
	bool ready, stopping;
	bool draining;		   /* pods are being ended; none is started */
	int64_t drain_deadline_ms; /* then the agent ends whatever is left */
};

/* --- containers ------------------------------------------------------------------------------ */

enum rf_container_state { RF_CONTAINER_WAITING, RF_CONTAINER_RUNNING, RF_CONTAINER_EXITED };

/* How an attempt ended, with its strings inside. */
struct rf_ended {
	bool set;
	int code, signal;
	int64_t started_ms, finished_ms;
	char reason[32];
	char message[512];
};

struct rf_container {
	struct rf_worker *worker;
	char *name;
	char *dir;
	bool init;
	size_t index; /* in spec.containers or spec.initContainers */
	enum rf_container_state state;
	int attempt;  /* of the current or last start; every start has its own number */
	int restarts; /* attempts before this one that ran */
	bool started; /* attempt was started */
	int64_t started_ms;
	int64_t retry_ms;		/* wall time of the next start, 0: at once */
	int64_t backoff_ms;		/* the pause before the last restart */
	char waiting[32], message[512]; /* why it is not running */
	struct rf_ended now, last;
	char kill_reason[32], kill_message[256]; /* the agent itself ended it */
	bool term_sent, kill_sent;
	struct rf_follow *follow; /* the shim being watched */
	bool lost;		  /* its shim died; being cleaned up */
	struct rf_grant grant;
	bool mps; /* shares its card by MPS */
	struct rf_fence_post *fence;
	pid_t suspects[16]; /* on a card at the last look and unknown to the fence */
	size_t n_suspects;
};

/* --- workers --------------------------------------------------------------------------------- */

struct rf_worker {
	struct rf_agent *agent;
	char *uid, *ns, *name;
	char *dir;	       /* DATA/pods/<uid> */
	struct rf_arena arena; /* the pod */
	struct rf_json *pod;
	enum rf_pod_state state;
	struct rf_container *containers;
	size_t n_containers; /* init containers first */
	char tenant[64];
	bool may_be_root;
	bool needs_claim;
	bool prepared, clean;
	bool in_api; /* the object exists */
	bool refused;
	char reason[64], message[512]; /* of the pod's end or of its waiting */
	int64_t stop_deadline_ms;
	int64_t started_ms;
	int failures; /* of preparing, in a row */
	int64_t retry_ms;
	struct rf_buf status_sent;
	struct rf_cond {
		bool set, value;
		int64_t since_ms;
	} conds[3]; /* Initialized, ContainersReady, Ready */
	bool terminal_sent;
	int64_t due_ms; /* when it wants to be stepped again; 0: when something happens */
	bool warned;	/* about what this agent does not do */
	bool busy;	/* inside step: no re-entry */
	bool again;
};

int64_t rf_agent_now(void);			       /* wall clock, ms */
void rf_agent_wake(struct rf_agent *g, int64_t at_ms); /* step the workers that are due then */

/* worker.c */
void rf_agent_card_failed(void *agent, int index, const char *message);
void rf_worker_seen(struct rf_agent *g, const struct rf_json *pod);
void rf_worker_gone(struct rf_agent *g, const struct rf_json *pod);
void rf_worker_step(struct rf_worker *w);
void rf_worker_free(struct rf_worker *w);
void rf_worker_refuse(struct rf_worker *w, const char *reason, const char *message);
struct rf_worker *rf_worker_find(struct rf_agent *g, struct rf_str ns, struct rf_str name);
struct rf_container *rf_worker_container(struct rf_worker *w, struct rf_str name);
const struct rf_json *rf_container_spec(const struct rf_container *c);
bool rf_worker_unwanted(const struct rf_worker *w);
bool rf_worker_holds(const struct rf_worker *w, int index); /* the card gpu-<index> */

/* prepare.c */
int rf_worker_prepare(struct rf_worker *w, struct rf_err *err);
int rf_worker_drop_claim(struct rf_worker *w, struct rf_err *err); /* the finalizer */
int rf_container_bundle(struct rf_container *c, struct rf_err *err);
int rf_agent_read_sharing(struct rf_agent *g, bool *ret_mps, struct rf_err *err); /* of this node */

/* container.c */
void rf_container_adopt(struct rf_container *c);
int rf_container_start(struct rf_container *c, struct rf_err *err);
void rf_container_signal(struct rf_container *c, int signal);
/* Takes notice of what happened; true if the state changed. */
bool rf_container_refresh(struct rf_container *c);
void rf_container_unfollow(struct rf_container *c);
struct rf_str rf_container_cgroup(struct rf_arena *a, const struct rf_container *c);
void rf_container_delete_state(struct rf_agent *g, const char *id); /* crun delete --force */
const char *rf_container_id(struct rf_arena *a, const struct rf_container *c);

/* fencing.c */
/* Slice i of the grant; NULL: the grant is not of slices, or it is not made. */
const struct rf_slice *rf_container_slice(const struct rf_container *c, size_t i);
int rf_container_fence(struct rf_container *c, struct rf_err *err);
void rf_container_unfence(struct rf_container *c);
/* Use of card i of the grant, false if there is no fence. */
struct rf_fence_figures {
	int64_t used, cap, processes, refusals;
	int64_t gpu_us, held_us;
};
bool rf_container_figures(const struct rf_container *c, size_t i, struct rf_fence_figures *ret);
/* The processes that sit at the fence's ledger; returns how many of them were written. */
size_t rf_container_seated(const struct rf_container *c, pid_t *ret, size_t room);
/* Somebody made it impossible to tell. */
bool rf_container_jammed(const struct rf_container *c);

/* status.c */
struct rf_json *rf_status_make(struct rf_arena *a, struct rf_worker *w);
const char *rf_status_phase(const struct rf_worker *w);
int rf_status_send(struct rf_worker *w, struct rf_err *err);

/* register.c */
int rf_agent_apply(struct rf_agent *g, const struct rf_kube_res *res, struct rf_str ns,
		   struct rf_json *object,
		   struct rf_err *err); /* creates it, or replaces what is there */
int rf_agent_register(struct rf_agent *g, struct rf_err *err);
int rf_agent_publish(struct rf_agent *g, struct rf_err *err); /* the slice, if it changed */
void rf_agent_heartbeat(struct rf_agent *g);

/* watch.c */
void rf_agent_watch_caps(struct rf_agent *g);
/* Ends the containers whose MPS daemon has died. */
void rf_agent_watch_mps(struct rf_agent *g);
/* Did the container end as its MPS daemon has died? Then this says so. */
bool rf_agent_lost_mps(const struct rf_container *c, char *ret, size_t size);
/* Processes on a card that are not this pod's, or that are (mine). */
int rf_agent_strangers(struct rf_agent *g, size_t position, struct rf_str uid, bool mine,
		       size_t *ret_n, struct rf_err *err);

/* orphans.c */
void rf_agent_sweep(struct rf_agent *g);

/* serve.c, logs.c, telemetry.c */
int rf_agent_serve(struct rf_agent *g, struct rf_err *err);
void rf_agent_logs(struct rf_agent *g, struct rf_http_req *req);
void rf_agent_metrics(struct rf_agent *g, struct rf_buf *out);

/* Takes a folder out of the way at once; a program of its own removes it, however much a tenant put
 * there. */
void rf_agent_discard(struct rf_agent *g, const char *path);
void rf_agent_empty_trash(struct rf_agent *g);

/* Programs of the agent. */
int rf_agent_spawn(struct rf_agent *g, const char *const *argv, bool detached, int stderr_fd,
		   pid_t *ret_pid, struct rf_err *err);

#endif
