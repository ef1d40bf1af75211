/* The one table of served kinds. Routes, discovery, OpenAPI, storage and RBAC all read it. */
#ifndef RF_APISERVER_KINDS_H
#define RF_APISERVER_KINDS_H

#include "base/base.h"

struct rf_kind {
	const char *group; /* "" for core */
	const char *version;
	const char *plural;
	const char *singular;
	const char *kind;
	const char *short_names; /* separated by spaces; "" if none */
	const char *categories;	 /* likewise */
	bool namespaced;
	bool stored;		  /* false: answers a question, keeps nothing (reviews) */
	const char *subresources; /* separated by spaces */
	const char *schema;	  /* its type in the schema table; NULL: ringfence's own kind */
};

extern const struct rf_kind rf_kinds[];
extern const size_t rf_n_kinds;

const struct rf_kind *rf_kind_find(struct rf_str group, struct rf_str version,
				   struct rf_str plural);
const struct rf_kind *rf_kind_get(const char *plural); /* asserts that it is there; core first */
bool rf_kind_is(const struct rf_kind *k, const char *plural);
bool rf_kind_is_rbac(const struct rf_kind *k);
bool rf_kind_has_sub(const struct rf_kind *k, struct rf_str sub);
bool rf_word_in(const char *words, struct rf_str word); /* words are separated by spaces */
/* "v1" or "apps/v1" */
struct rf_str rf_kind_api_version(struct rf_arena *a, const struct rf_kind *k);
/* "pods" or "leases.coordination.k8s.io": how the store and messages name it. */
struct rf_str rf_kind_resource(struct rf_arena *a, const struct rf_kind *k);

#endif
