/* The inside of the agent beside a kubelet. One thread, one loop. */
#ifndef RF_PLUGIN_PRIVATE_H
#define RF_PLUGIN_PRIVATE_H

#include <uv.h>

#include "base/base.h"
#include "codec/json.h"
#include "kube/kube.h"
#include "net/grpc.h"
#include "net/http.h"
#include "node/cards.h"
#include "node/claim.h"
#include "node/fence_server.h"
#include "node/mps.h"
#include "plugin/kubelet_api.h"
#include "plugin/plugin.h"
#include "tenant/tenant.h"

#define RF_CDI_KIND "ringfence.io/gpu"

struct rf_arbiter;
struct rf_fence_post;
struct rf_plugin;

int64_t rf_plugin_now(void); /* milliseconds, only forward */
void rf_plugin_soon(
	struct rf_plugin *p); /* looks after sockets, slice and ended pods, in a moment */

/* --- the API server (api.c) ------------------------------------------------------------------- */

/* Everything the agent asks the API server for goes through here. The caller waits for the answer, and
 * the fences of running containers wait with it: an answer takes 2 s at most, and a server that let us
 * wait in vain is left alone for twice as long (RF_UNAVAILABLE meanwhile, at once). */
int rf_plugin_connect(struct rf_plugin *p, struct rf_err *err);
int rf_plugin_get(struct rf_plugin *p, struct rf_arena *a, struct rf_str path, struct rf_json **ret,
		  struct rf_err *err);
int rf_plugin_create(struct rf_plugin *p, struct rf_arena *a, struct rf_str path,
		     const struct rf_json *object, struct rf_json **ret, struct rf_err *err);
int rf_plugin_update(struct rf_plugin *p, struct rf_arena *a, struct rf_str path,
		     const struct rf_json *object, struct rf_err *err);
int rf_plugin_hold(struct rf_plugin *p, const struct rf_json *claim, struct rf_err *err);
int rf_plugin_let_go(struct rf_plugin *p, struct rf_str ns, struct rf_str name, struct rf_str uid,
		     struct rf_err *err);
/* A warning at a pod; lost if the server does not take it. */
void rf_plugin_warn(struct rf_plugin *p, const struct rf_json *pod, const char *reason,
		    const char *message);
/* The pod, by the kubelet's word for it: from the local copy, else from the server. */
int rf_plugin_pod(struct rf_plugin *p, struct rf_arena *a, struct rf_str ns, struct rf_str name,
		  const struct rf_json **ret, struct rf_err *err);
int rf_plugin_claim(struct rf_plugin *p, struct rf_arena *a, struct rf_str ns, struct rf_str name,
		    struct rf_json **ret, struct rf_err *err);

/* --- prepared claims (held.c) ----------------------------------------------------------------- */

/* A container's part of a prepared claim. */
struct rf_held_box {
	char *name; /* the container's */
	struct rf_grant grant;
	struct rf_fence_post *fence; /* NULL: not up */
	bool spoilt;		     /* for good: its ledger is not one of ours */
	bool outdated;		     /* but of another version of ringfence */
	bool told;		     /* that it is not up */
};

/* A claim whose devices a pod of this node may be using. On disk from before the first container can
 * see a card until the last process is gone. */
struct rf_held {
	struct rf_plugin *plugin;
	char *uid, *ns, *name; /* the claim */
	char *pod_uid, *pod;   /* the namespace is the same */
	char *tenant;
	struct rf_fence_terms terms; /* terms.mps: its shares are had by MPS */
	char *domain;		     /* and then its trust domain */
	struct rf_held_box *boxes;
	size_t n_boxes;
	char *dir;	  /* DATA/claims/<uid> */
	bool holding;	  /* the finalizer was seen since the agent started */
	bool ending;	  /* being let go of: its fences stay down */
	int64_t given_ms; /* when a container was last promised its cards */
};

/* Checks the claim against pod, node and cards, writes it down, sets up its fences. Can be repeated.
 * RF_UNAVAILABLE where waiting may help. */
int rf_held_prepare(struct rf_plugin *p, const struct rf_json *claim, const struct rf_json *pod,
		    struct rf_held **ret, struct rf_err *err);
/* The claim is held as it is, whatever is wrong with it: what was lost here must not be given away. */
int rf_held_adopt(struct rf_plugin *p, const struct rf_json *claim, struct rf_held **ret,
		  struct rf_err *err);
/* Lets go of it if no process of the pod is left: RF_UNAVAILABLE while one is. Frees it. */
int rf_held_release(struct rf_held *h, struct rf_err *err);
int rf_held_check_unused(struct rf_held *h, struct rf_err *err);
struct rf_held *rf_held_find(struct rf_plugin *p, struct rf_str claim_uid);
struct rf_held_box *rf_held_box(struct rf_held *h, struct rf_str container);
/* The container's cards may be handed over: checked, held and fenced since the agent started. */
bool rf_held_ready(const struct rf_held *h, const struct rf_held_box *b);
/* Slice i of the container's; NULL: its grant is not of slices, or it is not made. */
const struct rf_slice *rf_held_slice(const struct rf_held *h, const struct rf_held_box *b, size_t i);
/* The grant of this card, of the first container that has it; NULL: none has. */
const struct rf_grant_card *rf_held_card(const struct rf_held *h, int index, bool *ret_whole);
/* Does the container share its card by MPS? */
bool rf_held_by_mps(const struct rf_held *h, const struct rf_held_box *b);
/* Fences that are not up are tried again. */
void rf_held_mend(struct rf_plugin *p);
void rf_held_free(struct rf_held *h);

/* The event at a pod that was started by another version of ringfence. */
#define RF_FENCE_OUTDATED "FenceOutdated"

/* --- records on disk (record.c) --------------------------------------------------------------- */

bool rf_record_is_uid(struct rf_str uid); /* of an object, and fit to be a folder's name */
const char *rf_record_dir(struct rf_arena *a, const struct rf_plugin *p, struct rf_str uid);
int rf_record_save(const struct rf_held *h, struct rf_err *err);
struct rf_held *rf_record_load(struct rf_plugin *p, struct rf_str uid, struct rf_err *err);
/* Takes the claim's folder away, and what is mounted in it. */
int rf_record_remove(const struct rf_plugin *p, struct rf_str uid, struct rf_err *err);

/* --- checks before a claim is held (check.c) -------------------------------------------------- */

int rf_check_mounts(const struct rf_json *container, struct rf_err *err);
/* Are the cards in order, and free for it? */
int rf_check_cards(struct rf_plugin *p, const struct rf_held *h, struct rf_err *err);

/* --- what was left behind (sweep.c) ----------------------------------------------------------- */

/* Takes over what the last agent held. */
void rf_sweep_restore(struct rf_plugin *p);
/* Once, when the API server answers: claims that this node holds and has no record of are held again,
 * folders of claims that are no more are removed. */
void rf_sweep_orphans(struct rf_plugin *p);
/* A folder without a readable record: held again if the claim is there, else removed (*ret NULL). */
int rf_sweep_recover(struct rf_plugin *p, const struct rf_kapi_claim *c, struct rf_held **ret,
		     struct rf_err *err);
/* Lets go of claims whose pods are over and which no kubelet unprepares; but a container that was just
 * promised its cards may have no process yet, and is given this time to have one. */
extern int64_t rf_sweep_settle_ms; /* 3000; a test does not wait */
void rf_sweep_ended(struct rf_plugin *p);

/* --- CDI (cdi.c) ------------------------------------------------------------------------------ */

/* What a container is given: device nodes, mounts, environment. */
int rf_cdi_edits(struct rf_arena *a, const struct rf_plugin *p, const struct rf_held *h,
		 const struct rf_held_box *box, struct rf_json **ret, struct rf_err *err);
/* Writes ringfence.io-<id>.json with one device of that name. */
int rf_cdi_write(const struct rf_plugin *p, struct rf_str id, const struct rf_json *edits,
		 struct rf_err *err);
void rf_cdi_remove(const struct rf_plugin *p, struct rf_str id);
bool rf_cdi_is_there(const struct rf_plugin *p, struct rf_str id);
/* The id of a container's device when it comes by way of DRA. */
struct rf_str rf_cdi_id(struct rf_arena *a, const struct rf_held *h, const struct rf_held_box *box);
/* Removes specs that belong to no promise and no prepared claim. */
void rf_cdi_tidy(struct rf_plugin *p);
/* Copies what containers mount to where the host has it. */
int rf_cdi_install(struct rf_plugin *p, struct rf_err *err);

/* --- whose is a process? (procs.c) ------------------------------------------------------------ */

extern const char *rf_procs_dir; /* "/proc"; a test has one of its own */

/* The pod's uid from the text of /proc/<pid>/cgroup, as any kubelet names it; with dashes. */
bool rf_procs_parse(struct rf_str cgroup, char ret_uid[64]);
/* 1: a pod's; 0: of no pod, or gone; -1: the kernel would not tell. */
int rf_procs_pod_of(pid_t pid, char ret_uid[64]);
/* Is there a process of this pod? -1 if that cannot be known, with errno. */
int rf_procs_pod_lives(struct rf_str uid);
/* Processes of the pod on the card, and those nobody can tell of. */
int rf_procs_on_card(struct rf_plugin *p, size_t position, struct rf_str uid, size_t *ret,
		     struct rf_err *err);
/* Ends the process of that number if it is this pod's; true if it was. */
bool rf_procs_end(pid_t pid, const char *pod_uid);

/* --- the device plugin (slots.c, promise.c) --------------------------------------------------- */

struct rf_watcher;
struct rf_start;

/* One name under which whole cards are offered. */
struct rf_slots {
	struct rf_plugin *plugin;
	struct rf_str resource;
	char *socket; /* path */
	struct rf_grpc_server *server;
	struct rf_watcher *watchers; /* open ListAndWatch calls */
	struct rf_start *starts;     /* containers for which the kubelet is being asked */
	struct rf_buf sent;	     /* the list as last told */
	bool registered, registering;
	bool relistened; /* since the kubelet was last asked to register us */
	bool told;	 /* that it does not */
};

int rf_slots_open(struct rf_plugin *p, struct rf_err *err);
void rf_slots_tell(struct rf_plugin *p); /* the lists, where they changed */
/* Looks after sockets and registration; after a kubelet's restart all of it is made anew. */
void rf_slots_keep(struct rf_plugin *p);
/* The kubelet took every name and follows our lists. */
bool rf_slots_known(const struct rf_plugin *p);
void rf_slots_close(struct rf_plugin *p);

/* One Allocate: some slots, and the CDI device that was promised for them. */
struct rf_promise {
	struct rf_str resource, cdi;
	struct rf_kapi_ids ids;
	char claim[64]; /* uid, once a container was started with it; else "" */
	struct rf_str container;
};

/* Slots that are given out again are no longer whose they were: older promises of them are dropped. */
int rf_promise_make(struct rf_plugin *p, struct rf_str resource, const struct rf_kapi_ids *ids,
		    struct rf_promise **ret, struct rf_err *err);
struct rf_promise *rf_promise_find(struct rf_plugin *p, struct rf_str resource,
				   const struct rf_kapi_ids *ids);
/* The promise that has this one slot; NULL if none has. */
struct rf_promise *rf_promise_of_slot(struct rf_plugin *p, struct rf_str resource,
				      struct rf_str id);
/* From now on it is this container's, on disk too. */
int rf_promise_bind(struct rf_plugin *p, struct rf_promise *m, const struct rf_held *h,
		    struct rf_str container, struct rf_err *err);
void rf_promise_forget(struct rf_plugin *p, struct rf_str claim_uid);
int rf_promise_save(const struct rf_plugin *p, struct rf_err *err);
void rf_promise_load(struct rf_plugin *p);
void rf_promise_close(struct rf_plugin *p);

/* --- the DRA driver (dra.c) ------------------------------------------------------------------- */

int rf_dra_open(struct rf_plugin *p, struct rf_err *err);
void rf_dra_keep(struct rf_plugin *p);
void rf_dra_close(struct rf_plugin *p);

/* --- the rest --------------------------------------------------------------------------------- */

/* Sets p->published once the server has the slice as it should be. */
int rf_slice_publish(struct rf_plugin *p, struct rf_err *err); /* slice.c */
void rf_guard_look(struct rf_plugin *p);		       /* guard.c */
void rf_guard_mps(struct rf_plugin *p); /* ends what ran by an MPS daemon that died */
int rf_plugin_serve(struct rf_plugin *p, struct rf_err *err);  /* serve.c */

/* --- who may read metrics (readers.c) ----------------------------------------------------------- */

#define RF_READERS_MAX 32

/* What Kubernetes said about a token. */
struct rf_reader {
	unsigned char token[32]; /* SHA-256; all zero: a free place */
	int64_t until_ms;
	int answer; /* 200, 401, 403 */
};

struct rf_readers {
	struct rf_reader at[RF_READERS_MAX];
	int64_t second; /* in which strangers made us ask so often */
	int asked;
};

/* 200, or the HTTP status to answer with. authorization: the header's value. */
int rf_readers_judge(struct rf_plugin *p, struct rf_arena *a, struct rf_str authorization);

struct rf_plugin {
	const struct rf_plugin_opts *opts;
	struct rf_arena arena; /* for what lives as long as the agent */
	uv_loop_t loop;
	struct rf_arbiter *arbiter; /* NULL until a card is shared */
	struct rf_str name;
	const char *data_dir;
	int lock;

	struct rf_kubeconfig config;
	struct rf_kube *kube;
	int64_t api_asked_ms, api_rest_ms; /* when a call began; until when none is made */
	struct rf_informer *pods, *slices;

	struct rf_cards cards;
	struct rf_mps *mps;
	struct rf_map held;    /* claim uid -> struct rf_held */
	struct rf_map unknown; /* folders without a readable record: uid -> something */
	bool orphans_known;

	struct rf_slots slots[RF_GPU_NAMES_MAX];
	size_t n_slots;
	RF_VEC(struct rf_promise *) promises;
	struct rf_grpc_client *kubelet;	  /* its registration socket */
	struct rf_grpc_client *resources; /* its pod-resources socket */
	uint64_t kubelet_socket;	  /* which one we register with: inode and time */

	struct rf_grpc_server *dra, *registration;
	const char *dra_socket, *registration_socket;
	bool dra_registered;

	struct rf_tls *tls;
	struct rf_http_server *server;
	struct rf_readers readers;

	pid_t suspects[64]; /* on a card at the last look where they have no business */
	size_t n_suspects;
	size_t strangers[RF_GPU_CARDS_MAX]; /* on held cards at the last look, of no pod we know */

	uv_timer_t tick, soon;
	uv_fs_event_t folders[3]; /* where the kubelet's sockets and ours are */
	uv_signal_t sigterm, sigint;
	bool ready, published;
	struct rf_buf slice_devices; /* as last written */
	int64_t slice_generation;
};

#endif
