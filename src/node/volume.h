/* A pod's volumes: emptyDir (disk or memory), configMap, secret. Folders below the pod's own; a
 * memory volume is a tmpfs mounted there, which rf_volumes_unmount unmounts. */
#ifndef RF_NODE_VOLUME_H
#define RF_NODE_VOLUME_H

#include "node/oci.h"
#include "node/podenv.h"

/* Makes all volumes of the pod below dir. Can be repeated. */
int rf_volumes_make(const struct rf_json *pod, const char *dir,
		    const struct rf_podenv_source *source, struct rf_err *err);
/* The mounts one container asks for, from what rf_volumes_make made. */
int rf_volumes_of(struct rf_arena *a, const struct rf_json *pod, const struct rf_json *container,
		  const char *dir, struct rf_oci_mount **ret, size_t *ret_n, struct rf_err *err);
/* Unmounts what is mounted below dir; the folder itself stays. */
int rf_volumes_unmount(const char *dir, struct rf_err *err);

#endif
