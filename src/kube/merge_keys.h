/* Which lists of Kubernetes' built-in kinds a strategic merge patch merges, and by what. */
#ifndef RF_KUBE_MERGE_KEYS_H
#define RF_KUBE_MERGE_KEYS_H

#include "base/base.h"

/* A field that says more than "replace lists, merge objects". Tables end with a NULL name. */
struct rf_merge_field {
	const char *name;
	const char
		*key; /* lists: objects merged by this field; "" a set of scalars; NULL replaced */
	const struct rf_merge_field *in; /* of the object, or of the list's objects; may be NULL */
};

/* The fields of a kind; NULL for kinds that are not built in. */
const struct rf_merge_field *rf_merge_fields(struct rf_str kind);
/* NULL if the table says nothing about it; fields may be NULL. */
const struct rf_merge_field *rf_merge_field(const struct rf_merge_field *fields,
					    struct rf_str name);

#endif
