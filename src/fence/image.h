/* What a piece of device code says about the memory its variables take. */
#ifndef RF_FENCE_IMAGE_H
#define RF_FENCE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct rf_image {
	uint64_t bytes; /* of its variables in global memory */
	uint64_t apart; /* the same, those of more than half a page in pages of their own */
	bool plain; /* that is all of them: nothing in it is compressed or of a kind not known */
};

/* An image as cuModuleLoadData takes it: PTX text, a cubin, a fat binary or its wrapper. The driver is
 * told no length either; both believe the image's own. */
struct rf_image rf_image_read(const void *image);
/* The same for a file. */
struct rf_image rf_image_read_file(const char *path);

#endif
