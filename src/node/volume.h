/* A pod's volumes: emptyDir, configMap, secret. Folders below the pod's own. What a tenant can write
 * lies on a tmpfs of fixed size mounted there, which rf_volumes_unmount unmounts: a folder on the
 * machine's disk has no limit that a file which is open and has no name any more would respect. */
#ifndef RF_NODE_VOLUME_H
#define RF_NODE_VOLUME_H

#include "node/oci.h"
#include "node/podenv.h"

/* Beside the containers' folders. With a dot, since a container may be called "volumes". */
#define RF_VOLUMES_DIR ".volumes"

/* Makes all volumes of the pod below dir. Can be repeated. */
int rf_volumes_make(const struct rf_json *pod, const char *dir,
		    const struct rf_podenv_source *source, struct rf_err *err);
/* The mounts one container asks for, from what rf_volumes_make made. */
int rf_volumes_of(struct rf_arena *a, const struct rf_json *pod, const struct rf_json *container,
		  const char *dir, struct rf_oci_mount **ret, size_t *ret_n, struct rf_err *err);
/* A tmpfs of the agent's own at path, which must be a direct child of a volumes folder; one that is
 * there stays with its content. */
int rf_volumes_scratch(const char *path, int64_t bytes, struct rf_err *err);
/* Namespaces that the containers of the pod share: dir/.net (with its loopback up) and dir/.ipc are
 * bound to them. Held by the mounts alone, so there is no process that could be killed. */
int rf_volumes_namespaces(const char *dir, struct rf_err *err);
/* Unmounts what is mounted below dir; the folder itself stays. */
int rf_volumes_unmount(const char *dir, struct rf_err *err);

#endif
