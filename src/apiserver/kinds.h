/* The one table of served kinds, and behind it the kinds of constraints, which come and go with their
 * ConstraintTemplates. Routes, discovery, OpenAPI, storage and RBAC all read it. */
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
	const char *schema;	  /* its type in the schema table; NULL: no schema, or its template's */
	const char *also;	  /* other versions it is served as; NULL if none */
	bool constraint;	  /* of the second part */
};

extern const struct rf_kind rf_kinds[];
extern const size_t rf_n_kinds;

/* Every kind that is served now; NULL begins, and ends. */
const struct rf_kind *rf_kind_next(const struct rf_kind *k);
const struct rf_kind *rf_kind_find(struct rf_str group, struct rf_str version,
				   struct rf_str plural);
const struct rf_kind *rf_kind_get(const char *plural); /* asserts that it is there; core first */
bool rf_kind_is(const struct rf_kind *k, const char *plural); /* never true of a constraint */
bool rf_kind_in_version(const struct rf_kind *k, struct rf_str version);
bool rf_kind_is_rbac(const struct rf_kind *k);
bool rf_kind_has_sub(const struct rf_kind *k, struct rf_str sub);
bool rf_word_in(const char *words, struct rf_str word); /* words are separated by spaces */
/* "v1" or "apps/v1" */
struct rf_str rf_kind_api_version(struct rf_arena *a, const struct rf_kind *k);
struct rf_str rf_kind_api_version_as(struct rf_arena *a, const struct rf_kind *k,
				     struct rf_str version);
/* "pods" or "leases.coordination.k8s.io": how the store and messages name it. */
struct rf_str rf_kind_resource(struct rf_arena *a, const struct rf_kind *k);

/* --- constraints (kinds_constraint.c) ----------------------------------------------------------- */

#define RF_TEMPLATES_GROUP "templates.gatekeeper.sh"
#define RF_CONSTRAINTS_GROUP "constraints.gatekeeper.sh"

/* From now on served, or with other short names (separated by spaces). Once made, a kind stays in
 * memory: watches point to it. */
const struct rf_kind *rf_kind_serve(struct rf_str kind, struct rf_str short_names);
void rf_kind_unserve(struct rf_str kind);
void rf_kind_unserve_all(void);
/* As rf_kind_next, of constraints only. */
const struct rf_kind *rf_kind_next_constraint(const struct rf_kind *k);

#endif
