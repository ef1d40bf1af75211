/* Slices: GPU instances on cards in MIG mode, made for pods and taken down after them. The driver keeps no word
 * about who made an instance, so this agent writes down what it is about to make (slices.json) before it makes
 * it, and touches nothing else: what is not written down there is somebody else's. */
#ifndef RF_NODE_SLICES_H
#define RF_NODE_SLICES_H

#include "base/vec.h"
#include "gpu/mig.h"

struct rf_cards;

#define RF_SLICE_PROFILE 32

/* For whom a slice is: one of a container's, in the order of its claim's results. */
struct rf_slice_for {
	struct rf_str owner; /* the pod's uid */
	struct rf_str container;
	size_t nth;
};

struct rf_slice {
	char owner[64], container[64];
	size_t nth;
	char card[64]; /* UUID */
	char profile[RF_SLICE_PROFILE];
	struct rf_gpu_instance where; /* its id once it is made */
	bool made;		      /* and that was written down */
	struct rf_gpu_slice gpu;      /* once made */
	bool told;		      /* that it cannot be taken down */
};

/* What is written down; what was before the machine's last start is forgotten, as the driver has. */
void rf_slices_load(struct rf_cards *c);
void rf_slices_done(struct rf_cards *c);

/* The slice for a container, made there if it is not yet: can be repeated, also by the next agent. RF_FORBIDDEN
 * where it can never be made (another's instance is in the way, no such profile), RF_UNAVAILABLE where waiting
 * may help. *ret stays until it is dropped. */
int rf_slices_make(struct rf_cards *c, const struct rf_slice_for *of, size_t position, const char *profile,
		   unsigned start, const struct rf_slice **ret, struct rf_err *err);
/* NULL: not made. */
const struct rf_slice *rf_slices_find(const struct rf_cards *c, const struct rf_slice_for *of);
/* Takes down all slices of the owner: RF_UNAVAILABLE while a process is on one. Those on a card that does not
 * answer stay written down, to be taken down when it does, and are no error. */
int rf_slices_drop(struct rf_cards *c, struct rf_str owner, struct rf_err *err);
/* Takes down what belongs to nobody that is wanted. Call it now and then. */
void rf_slices_sweep(struct rf_cards *c, bool (*wanted)(void *ctx, struct rf_str owner), void *ctx);
/* Looks which cards in MIG mode have instances of others. */
void rf_slices_look(struct rf_cards *c);
/* Bytes in use; -1: not known. */
int64_t rf_slices_used(const struct rf_cards *c, const struct rf_slice *s);

/* --- what a container is given of its slices, in the order of its claim's results --------------- */

/* For CUDA_VISIBLE_DEVICES: their UUIDs. */
struct rf_str rf_slices_visible(struct rf_arena *a, const struct rf_slice *const *slices, size_t n);
/* Simulated: the text of the file `caps` (sim/README.md). */
struct rf_str rf_slices_sim_caps(struct rf_arena *a, const struct rf_slice *const *slices, const int *minors, size_t n);
/* Real: the device nodes of the slice, beside that of its card. */
int rf_slices_caps(const struct rf_slice *s, int card_minor, struct rf_gpu_cap ret[RF_GPU_SLICE_CAPS],
		   struct rf_err *err);

#endif
