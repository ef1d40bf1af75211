/* From a pod's container to an OCI bundle's config.json. Pure: everything the machine knows is
 * passed in. What a tenant writes can ask for less than the defaults here, never for more. */
#ifndef RF_NODE_OCI_H
#define RF_NODE_OCI_H

#include "base/base.h"
#include "codec/json.h"

#define RF_NOBODY 65534	   /* who a container runs as if the pod does not say */
#define RF_SYSTEM_IDS 1000 /* below: the machine's own accounts and groups */
#define RF_MPS_MOUNT "/ringfence/mps" /* CUDA_MPS_PIPE_DIRECTORY */

/* One entry of the root folder. */
struct rf_oci_top {
	struct rf_str name;   /* "usr" */
	struct rf_str source; /* "/usr"; empty for links */
	struct rf_str link;   /* "usr/bin"; empty for what is bound */
};

struct rf_oci_mount {
	struct rf_str source, destination;
	bool read_only;
};

/* A device node of the machine. */
struct rf_oci_device {
	struct rf_str path;
	int64_t major, minor;
};

/* What a container with cards gets. */
struct rf_oci_gpu {
	const char *run_dir;   /* holds fence.sock; becomes /ringfence/run */
	const char *fence_lib; /* libringfence.so */
	const char
		*driver_lib_dir; /* simulation's libraries, or NULL: the image has the driver's */
	const char *sim_dir;	 /* NULL: real cards */
	const int *minors;	 /* the granted cards; for slices each card as often as there are slices of it */
	size_t n_minors;
	struct rf_str visible; /* slices: their UUIDs, for CUDA_VISIBLE_DEVICES; else empty */
	const char *sim_caps;  /* simulated slices: the file that says which; or NULL */
	const char *mps_dir;   /* of its MPS daemon, for its programs; or NULL */
	const struct rf_oci_device
		*devices; /* real cards: their nodes and the driver's control nodes */
	size_t n_devices;
};

struct rf_oci_ask {
	const struct rf_json *pod, *container;
	const struct rf_json *image; /* a bundle's config.json with defaults, or NULL */
	bool host_image;
	/* Does the machine have such an account or group? Its files show in the host image, so a pod
	 * must not be it there. NULL: only RF_SYSTEM_IDS counts. */
	bool (*is_account)(int64_t id, bool group);
	bool may_be_root;     /* the namespace admits it; never with the host image */
	struct rf_str rootfs; /* absolute */
	struct rf_str cgroup;
	const struct rf_oci_top *tops;
	size_t n_tops;
	const struct rf_str
		*hidden; /* folders of the machine that must not show, such as the data folder */
	size_t n_hidden;
	const struct rf_json *env; /* resolved: [{"name":..,"value":..}] */
	const struct rf_oci_mount *volumes;
	size_t n_volumes;
	const char
		*volumes_dir; /* NULL: namespaces of its own; else .net and .ipc in it are joined */
	int64_t memory_default; /* for a container that sets no limit; 0: none */
	int64_t pids_max;
	int64_t files_max; /* open files of a process; 0: as many as the agent may have */
	const char *demo;  /* gpu-demo, for /ringfence/bin; or NULL */
	const struct rf_oci_gpu *gpu; /* NULL: no card, nothing of a card to see */
};

/* The user a container runs as; RF_FORBIDDEN if it must not. */
int rf_oci_user(const struct rf_oci_ask *ask, int64_t *ret_uid, int64_t *ret_gid,
		struct rf_err *err);
int rf_oci_config(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json **ret,
		  struct rf_err *err);

/* What the containers of the pod may use together. */
int rf_oci_pod_memory(const struct rf_json *pod, int64_t otherwise, int64_t *ret,
		      struct rf_err *err);

/* Refuses what this agent does not run: host namespaces, privileged containers, unknown volumes. */
int rf_oci_check_pod(const struct rf_json *pod, struct rf_err *err);

/* Names what the pod asks for and this agent leaves undone, so that its owner can be told. */
void rf_oci_ignored(const struct rf_json *pod, struct rf_buf *out);

/* True for names that steer the fence or the driver: a pod's value for them is dropped. */
bool rf_oci_env_is_ours(struct rf_str name);
/* "$(NAME)" as Kubernetes expands it, from [{"name","value"}]; "$$(x)" stays "$(x)". */
struct rf_str rf_oci_expand(struct rf_arena *a, struct rf_str text, const struct rf_json *env);

/* seccomp.c */
struct rf_json *rf_oci_seccomp(struct rf_arena *a);

#endif
