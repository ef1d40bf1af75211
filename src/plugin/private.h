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
#include "plugin/kubelet_api.h"
#include "plugin/plugin.h"
#include "tenant/tenant.h"

#define RF_CDI_KIND "ringfence.io/gpu"

struct rf_fence_server;
struct rf_plugin;

/* --- prepared claims (held.c) ----------------------------------------------------------------- */

/* A container's part of a prepared claim. */
struct rf_held_box {
	char *name; /* the container's */
	struct rf_grant grant;
	struct rf_fence_server *fence;
};

/* A claim whose devices a pod of this node may be using. On disk from before the first container can
 * see a card until the last process is gone. */
struct rf_held {
	struct rf_plugin *plugin;
	char *uid, *ns, *name;	/* the claim */
	char *pod_uid, *pod;	/* the namespace is the same */
	char *tenant;
	struct rf_held_box *boxes;
	size_t n_boxes;
	char *dir; /* DATA/claims/<uid> */
};

/* Checks the claim against pod, node and cards, writes it down, sets up its fences. Can be repeated.
 * RF_UNAVAILABLE where waiting may help. */
int rf_held_prepare(struct rf_plugin *p, const struct rf_json *claim, const struct rf_json *pod,
		    struct rf_held **ret, struct rf_err *err);
/* Lets go of it if no process of the pod is left: RF_UNAVAILABLE while one is. Frees it. */
int rf_held_release(struct rf_held *h, struct rf_err *err);
struct rf_held *rf_held_find(struct rf_plugin *p, struct rf_str claim_uid);
struct rf_held_box *rf_held_box(struct rf_held *h, struct rf_str container);
/* Takes over what the last agent held. */
void rf_held_restore(struct rf_plugin *p);
/* Lets go of claims that are gone or on their way out, and that no kubelet will unprepare. */
void rf_held_sweep(struct rf_plugin *p);
void rf_held_free(struct rf_held *h);

/* --- CDI (cdi.c) ------------------------------------------------------------------------------ */

/* What a container is given: device nodes, mounts, environment. */
int rf_cdi_edits(struct rf_arena *a, const struct rf_plugin *p, const struct rf_held *h,
		 const struct rf_held_box *box, struct rf_json **ret, struct rf_err *err);
/* Writes ringfence.io-<id>.json with one device of that name. */
int rf_cdi_write(const struct rf_plugin *p, struct rf_str id, const struct rf_json *edits,
		 struct rf_err *err);
void rf_cdi_remove(const struct rf_plugin *p, struct rf_str id);
/* Copies what containers mount to where the host has it. */
int rf_cdi_install(struct rf_plugin *p, struct rf_err *err);

/* --- whose is a process? (procs.c) ------------------------------------------------------------ */

/* The pod's uid from the text of /proc/<pid>/cgroup, as any kubelet names it; with dashes. */
bool rf_procs_parse(struct rf_str cgroup, char ret_uid[64]);
bool rf_procs_pod_of(pid_t pid, char ret_uid[64]);
/* Is there a process of this pod? -1 if /proc cannot be read. */
int rf_procs_pod_lives(struct rf_str uid);
/* Processes on the card that are not the pod's (mine: that are). */
int rf_procs_on_card(struct rf_plugin *p, size_t position, struct rf_str uid, bool mine,
		     size_t *ret, struct rf_err *err);

/* --- the device plugin (slots.c) -------------------------------------------------------------- */

/* One name under which whole cards are offered. */
struct rf_slots {
	struct rf_plugin *plugin;
	struct rf_str resource;
	char *socket; /* path */
	struct rf_grpc_server *server;
	struct rf_watcher *watchers; /* open ListAndWatch calls */
	struct rf_buf sent;	     /* the list as last told */
	bool registered, registering;
};

/* One Allocate: some slots, and the CDI device that was promised for them. */
struct rf_promise {
	struct rf_str resource, cdi;
	struct rf_kapi_ids ids;
	char claim[64];	   /* uid, once a container was started with it; else "" */
	struct rf_str container;
};

int rf_slots_open(struct rf_plugin *p, struct rf_err *err);
void rf_slots_tell(struct rf_plugin *p); /* the lists, where they changed */
/* Looks after sockets and registration; after a kubelet's restart all of it is made anew. */
void rf_slots_keep(struct rf_plugin *p);
void rf_slots_forget(struct rf_plugin *p, struct rf_str claim_uid);
void rf_slots_close(struct rf_plugin *p);

/* --- the DRA driver (dra.c) ------------------------------------------------------------------- */

int rf_dra_open(struct rf_plugin *p, struct rf_err *err);
void rf_dra_keep(struct rf_plugin *p);
void rf_dra_close(struct rf_plugin *p);

/* --- the rest --------------------------------------------------------------------------------- */

int rf_slice_publish(struct rf_plugin *p, struct rf_err *err); /* slice.c */
void rf_guard_look(struct rf_plugin *p);		       /* guard.c */
int rf_plugin_serve(struct rf_plugin *p, struct rf_err *err);  /* serve.c */
void rf_plugin_forget_readers(struct rf_plugin *p);
/* The pod, by the kubelet's word for it: from the local copy, else from the server. */
int rf_plugin_pod(struct rf_plugin *p, struct rf_arena *a, struct rf_str ns, struct rf_str name,
		  const struct rf_json **ret, struct rf_err *err);
int rf_plugin_claim(struct rf_plugin *p, struct rf_arena *a, struct rf_str ns, struct rf_str name,
		    const struct rf_json **ret, struct rf_err *err);

struct rf_verdict;

struct rf_plugin {
	const struct rf_plugin_opts *opts;
	struct rf_arena arena; /* for what lives as long as the agent */
	uv_loop_t loop;
	struct rf_str name;
	const char *data_dir;

	struct rf_kubeconfig config;
	struct rf_kube *kube;
	struct rf_informer *pods, *claims, *slices;

	struct rf_cards cards;
	struct rf_map held; /* claim uid -> struct rf_held */

	struct rf_slots slots[RF_GPU_NAMES_MAX];
	size_t n_slots;
	RF_VEC(struct rf_promise *) promises;
	struct rf_grpc_client *kubelet;	  /* its registration socket */
	struct rf_grpc_client *resources; /* its pod-resources socket */
	uint64_t kubelet_socket;	  /* which one we registered with: inode and time */

	struct rf_grpc_server *dra, *registration;
	const char *dra_socket, *registration_socket;
	bool dra_registered;

	struct rf_tls *tls;
	struct rf_http_server *server;
	struct rf_verdict *verdicts; /* who may read metrics, for a while */

	pid_t suspects[64]; /* on a capped card at the last look and unknown to the fence */
	size_t n_suspects;

	uv_timer_t tick, soon;
	uv_fs_event_t folder; /* device-plugins */
	uv_signal_t sigterm, sigint;
	bool ready, published;
};

#endif
