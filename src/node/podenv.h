/* A container's environment as the pod asks for it: values, fields of the pod, keys of
 * ConfigMaps and Secrets of its namespace. */
#ifndef RF_NODE_PODENV_H
#define RF_NODE_PODENV_H

#include "codec/json.h"

/* Gives the ConfigMap or Secret of that name in the pod's namespace; RF_NOT_FOUND if there is
 * none. */
struct rf_podenv_source {
	int (*get)(void *ctx, bool secret, struct rf_str name, const struct rf_json **ret,
		   struct rf_err *err);
	void *ctx;
};
/* Decodes a Secret's value, or takes a ConfigMap's; RF_NOT_FOUND without that key. */
int rf_podenv_key(struct rf_arena *a, const struct rf_json *object, bool secret, struct rf_str key,
		  struct rf_str *ret, struct rf_err *err);
/* metadata.name, metadata.namespace, metadata.uid, metadata.labels['x'], metadata.annotations['x'],
 * spec.nodeName, spec.serviceAccountName. */
int rf_podenv_field(const struct rf_json *pod, struct rf_str path, struct rf_str *ret,
		    struct rf_err *err);
/* [{"name","value"}] in order, "$(NAME)" expanded. */
int rf_podenv_resolve(struct rf_arena *a, const struct rf_json *pod,
		      const struct rf_json *container, const struct rf_podenv_source *source,
		      struct rf_json **ret, struct rf_err *err);

#endif
