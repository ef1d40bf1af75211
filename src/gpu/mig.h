/* MIG: the instances of a card that is in MIG mode, and making and destroying them. The mode itself is the
 * machine's owner's: nothing here changes it. Calls of the driver that create or destroy take some tenths of
 * a second on real cards.
 *
 * A GPU instance is a range of the card's memory slices; with one compute instance over all of it, it is what
 * programs see as a device of its own, by a UUID "MIG-...". That is what ringfence calls a slice. */
#ifndef RF_GPU_MIG_H
#define RF_GPU_MIG_H

#include "gpu/gpu.h"

#define RF_GPU_INSTANCES_MAX 16 /* of a card; there are seven or eight at most */

struct rf_gpu_instance {
	unsigned id;	      /* the driver's number for it while it exists */
	unsigned profile;     /* the driver's number of its profile: 19 for 1g */
	unsigned start, size; /* in memory slices */
};

/* All GPU instances of the card, whoever made them. */
int rf_gpu_instances(struct rf_gpu *g, size_t i, struct rf_gpu_instance ret[RF_GPU_INSTANCES_MAX], size_t *ret_n,
		     struct rf_err *err);
/* What the driver calls this profile ("1g.10gb") at that start; id is not set. RF_FORBIDDEN if the card has no
 * such profile, or not there. */
int rf_gpu_instance_at(struct rf_gpu *g, size_t i, const char *profile, unsigned start, struct rf_gpu_instance *ret,
		       struct rf_err *err);

struct rf_gpu_slice {
	unsigned gi, ci; /* the driver's numbers */
	char uuid[64];	 /* "MIG-..." */
	int64_t memory_bytes;
};

/* Makes the GPU instance exactly there. RF_UNAVAILABLE if the place is taken. */
int rf_gpu_slice_cut(struct rf_gpu *g, size_t i, const struct rf_gpu_instance *where, unsigned *ret_gi,
		     struct rf_err *err);
/* The one compute instance over all of the GPU instance: made if there is none. */
int rf_gpu_slice_open(struct rf_gpu *g, size_t i, unsigned gi, struct rf_gpu_slice *ret, struct rf_err *err);
/* The same if it is there, else RF_NOT_FOUND. RF_FORBIDDEN if there are several. */
int rf_gpu_slice_read(struct rf_gpu *g, size_t i, unsigned gi, struct rf_gpu_slice *ret, struct rf_err *err);
/* Takes the GPU instance down with all in it; one that is not there is gone already. RF_UNAVAILABLE while
 * somebody uses it, RF_GONE if the card does not answer any more. */
int rf_gpu_slice_destroy(struct rf_gpu *g, size_t i, unsigned gi, struct rf_err *err);
/* Memory of the slice in use; -1: the driver does not say. */
int64_t rf_gpu_slice_used(struct rf_gpu *g, size_t i, const struct rf_gpu_slice *s);

/* --- device nodes ---------------------------------------------------------------------------------------- */

/* Who may use a slice is decided by who may open two device nodes, one for each of its instances, beside that
 * of its card. */
struct rf_gpu_cap {
	char path[64]; /* "/dev/nvidia-caps/nvidia-cap12" */
	int64_t major, minor;
};
#define RF_GPU_SLICE_CAPS 2

/* From what the kernel says: minors is /proc/driver/nvidia-caps/mig-minors, devices /proc/devices. Pure. */
int rf_gpu_slice_caps(struct rf_str minors, struct rf_str devices, int card_minor, const struct rf_gpu_slice *s,
		      struct rf_gpu_cap ret[RF_GPU_SLICE_CAPS], struct rf_err *err);

#endif
