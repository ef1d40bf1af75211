/* Images: "host" is the machine's own system folders; other names are OCI bundles in the operator's
 * folder. Either way the container's root is a private folder into which each top-level entry is
 * bound read-only, so an image is never written to. */
#ifndef RF_NODE_IMAGE_H
#define RF_NODE_IMAGE_H

#include "codec/json.h"
#include "node/oci.h"

struct rf_image {
	bool host;
	const struct rf_json *config; /* the bundle's config.json, or NULL */
	struct rf_oci_top *tops;
	size_t n_tops;
};

/* "host" or a folder name: letters, digits, dots, dashes, underscores. */
bool rf_image_name_ok(struct rf_str name);
/* images_dir may be NULL: then "host" is all there is. */
int rf_image_find(struct rf_arena *a, const char *images_dir, struct rf_str name,
		  struct rf_image *ret, struct rf_err *err);
/* Makes the private root: mount points and links. What is there already is kept. */
int rf_image_make_root(const char *rootfs, const struct rf_image *image, struct rf_err *err);

#endif
