/* Shared by gatekeeper.c, match.c, parameters.c and suite.c. */
#ifndef RF_POLICY_GATEKEEPER_PRIVATE_H
#define RF_POLICY_GATEKEEPER_PRIVATE_H

#include "policy/gatekeeper.h"

/* A member that is there and not null. */
static inline bool rf_gk_get(struct rf_rv object, const char *key, struct rf_rv *ret)
{
	struct rf_rv v;

	if (object.type != RF_RV_OBJECT || !rf_rv_get_str(object, rf_str(key), &v) ||
	    v.type == RF_RV_NULL)
		return false;
	*ret = v;
	return true;
}

static inline struct rf_str rf_gk_str(struct rf_rv object, const char *key)
{
	struct rf_rv v;

	return rf_gk_get(object, key, &v) && v.type == RF_RV_STRING ? rf_rv_text(v) : RF_STR_EMPTY;
}

/* What a match is asked about: one object, and where it is. */
struct rf_gk_subject {
	struct rf_str group, kind, name, generate_name;
	struct rf_str namespace; /* empty: cluster scope */
	struct rf_rv labels;
	struct rf_rv namespace_object; /* null: not known */
};

/* Holds v to the schema and adds the defaults of what is missing (parameters.c). name: what v is called. */
int rf_gk_fit(struct rf_arena *a, const struct rf_json *schema, struct rf_json *v, struct rf_str name,
	      struct rf_err *err);

/* A constraint's spec.match, read once. Lists are null where nothing was said: everything fits. */
struct rf_gk_match {
	struct rf_gk_kinds {
		struct rf_rv groups, kinds;
	} *kinds; /* any of them */
	uint32_t n_kinds;
	uint64_t kind_bits; /* of all kinds that fit; others may have the same */
	struct rf_str scope, name;
	struct rf_rv namespaces, excluded, labels, namespace_labels;
};

/* One of 64, by the kind's name: what has none in common with a match's is not spoken of. */
static inline uint64_t rf_gk_kind_bit(struct rf_str kind)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < kind.n; i++)
		h = (h ^ (unsigned char)kind.p[i]) * 0x100000001b3ULL;
	return (uint64_t)1 << (h * 0x9e3779b97f4a7c15ULL >> 58);
}

/* A match that has a wrong shape would match nothing and let everything pass, so it is refused. *ret points into
 * match. */
int rf_gk_match_read(struct rf_arena *a, struct rf_rv match, struct rf_gk_match *ret, struct rf_err *err);
/* 1, 0, or an error: it cannot be said. */
int rf_gk_matches(const struct rf_gk_match *m, const struct rf_gk_subject *s, struct rf_err *err);

/* "apps/v1" is "apps" and "v1"; "v1" is "" and "v1". */
static inline void rf_gk_split_gv(struct rf_str gv, struct rf_str *group, struct rf_str *version)
{
	struct rf_str rest = gv;

	if (rf_str_cut(&rest, '/', group)) {
		*version = rest;
		return;
	}
	*group = RF_STR_EMPTY;
	*version = gv;
}

#endif
