/* What a CUDA context takes of a card for itself: asked of the driver by making one, in a short-lived child,
 * since neither NVML nor CUDA can be unloaded again and a driver that hangs must not hang its caller for
 * good. That takes half a gigabyte of the card for a moment. */
#ifndef RF_GPU_CONTEXT_H
#define RF_GPU_CONTEXT_H

#include "gpu/gpu.h"

/* Runs work in a child and brings *ret back, of at most a pipe's size. False: the child said nothing, or not
 * within a minute. */
bool rf_gpu_in_child(void (*work)(const void *arg, void *ret), const void *arg, void *ret,
		     size_t size);

/* lib_dir: a folder with libnvidia-ml.so.1 and libcuda.so.1, or NULL for the system's. 0: not known. Waits for
 * the child. */
int64_t rf_gpu_context_measure(const char *lib_dir, const struct rf_gpu_card *card);
/* By the model table: what to go by where nothing was measured. 0: not known. */
int64_t rf_gpu_context_guess(const struct rf_gpu_card *card);

/* What was measured is remembered in a folder, by card and driver. 0: never. */
int64_t rf_gpu_context_recall(int dir_fd, const struct rf_gpu_card *card, const char *driver,
			      bool mps);
void rf_gpu_context_remember(int dir_fd, const struct rf_gpu_card *card, const char *driver,
			     bool mps, int64_t bytes);

#endif
