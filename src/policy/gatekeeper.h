/* Gatekeeper's policies, unchanged: ConstraintTemplates (Rego) and Constraints in, violations out.
 *
 *	struct rf_gk *gk = rf_gk_new();
 *	rf_gk_add(gk, template, err); rf_gk_add(gk, constraint, err);      once each
 *	rf_gk_review(gk, &review, inventory, RF_GK_ADMISSION, arena, &r, err)  any number, any thread
 *
 * A template is compiled once, and all constraints become one plan (rego.h). For every constraint that matches, the rule
 * `violation` of its template is asked with the input {"review": ..., "parameters": ...}; data.inventory is what the caller
 * hands in. Whatever goes wrong
 * while a constraint is matched or evaluated (steps, memory, a conflict, a msg that is no string) is a
 * violation of that constraint with the error as its message, never a pass.
 *
 * Reviews may run at once; adding and removing needs the caller's lock against them.
 *
 * Not done: CEL (a template's K8sNativeValidation body is left aside, one without Rego refused), mutation,
 * expansion, external data. match.source is ignored. A template that refers to data other than
 * data.inventory and data.lib finds nothing there; Gatekeeper would refuse it. */
#ifndef RF_POLICY_GATEKEEPER_H
#define RF_POLICY_GATEKEEPER_H

#include "codec/json.h"
#include "policy/rego/value.h"

#define RF_GK_TEMPLATES_MAX 1024
#define RF_GK_CONSTRAINTS_MAX 4096
#define RF_GK_STEPS 10000000LL		   /* of one constraint's evaluation */
#define RF_GK_STEPS_ALL 50000000LL	   /* of a review, all constraints together */
#define RF_GK_MS 1000			   /* the same, by the clock: a step may compare megabytes */
#define RF_GK_MEMORY ((size_t)64 << 20)	   /* the same */
#define RF_GK_VIOLATIONS_MAX 1000	   /* of one constraint; the rest becomes one line */

struct rf_gk;

struct rf_gk *rf_gk_new(void);
void rf_gk_free(struct rf_gk *gk); /* NULL is allowed */
RF_DEFINE_AUTO_PTR(gk);

/* A ConstraintTemplate or a Constraint (whose template must be there). One of the same name is replaced;
 * with an error everything stays as it was. Parameters are checked against the template's schema (types,
 * enum, required, bounds, pattern) and get its defaults. Copied. */
int rf_gk_add(struct rf_gk *gk, const struct rf_json *object, struct rf_err *err);
/* name empty: the template of that kind, with all its constraints. RF_NOT_FOUND. */
int rf_gk_remove(struct rf_gk *gk, struct rf_str kind, struct rf_str name, struct rf_err *err);

enum rf_gk_action { RF_GK_DRYRUN, RF_GK_WARN, RF_GK_DENY }; /* the stronger one is larger */
const char *rf_gk_action_name(enum rf_gk_action action);

/* Who asks: what scopedEnforcementActions calls an enforcement point. */
enum rf_gk_point { RF_GK_ADMISSION, RF_GK_AUDIT, RF_GK_GATOR };

struct rf_gk_violation {
	struct rf_str constraint, kind; /* "all-must-have-owner", "K8sRequiredLabels" */
	enum rf_gk_action action;
	struct rf_str msg;
	struct rf_rv details; /* {} if the policy gave none */
};

struct rf_gk_violations {
	struct rf_gk_violation *at;
	size_t n;
};

/* review: an AdmissionRequest ({"kind", "operation", "namespace", "object", "oldObject", ...}). On DELETE
 * oldObject stands in for object. namespaceObject is taken from the inventory where the review has none.
 * inventory: {"cluster": {gv: {kind: {name: object}}}, "namespace": {ns: {gv: ...}}}, or NULL.
 * Violations live in the arena, in the order constraints were added. Its cap does not bind them: where they are
 * very many or very long, details, the end of messages, and all but each constraint's first one are left out.
 * Errors: a review that cannot be judged at all; then nothing may be let through. */
int rf_gk_review(const struct rf_gk *gk, const struct rf_rv *review, const struct rf_rv *inventory,
		 enum rf_gk_point point, struct rf_arena *arena, struct rf_gk_violations *ret,
		 struct rf_err *err);

/* Whether a constraint that matches reads data.inventory: only then must it be gathered. */
bool rf_gk_needs_inventory(const struct rf_gk *gk, const struct rf_rv *review, enum rf_gk_point point);

/* The review of an object as it lies there, without a request: as audit and gator ask. */
int rf_gk_review_of(struct rf_arena *a, struct rf_rv object, struct rf_rv *ret, struct rf_err *err);
/* The inventory of these objects; of two with the same address the later one. Shares them. */
int rf_gk_inventory(struct rf_arena *a, const struct rf_rv *object, size_t n, struct rf_rv *ret,
		    struct rf_err *err);

struct rf_gk_tally {
	size_t passed, failed, skipped;
};

/* As `gator verify`: a Suite, or every Suite in the *.yaml files of a folder and below. Adds to *tally, one
 * case each, and one line per case to out. Errors: the path cannot be read; a suite that is broken
 * is a failed case. */
int rf_gk_verify(const char *path, struct rf_buf *out, struct rf_gk_tally *tally, struct rf_err *err);

#endif
